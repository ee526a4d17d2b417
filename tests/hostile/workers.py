# SPDX-License-Identifier: MIT
"""Several workers. A session belongs to one of them, its connections arrive at any: requests are
forwarded to where the session is, and nothing is lost on the way."""
import random
import threading
import time

from lib import tap
from lib.canary import Arena
from lib.server import SANITIZER, Server
from lib.wire import (Conn, Gone, Session, Stream, head, initialize, message, modern, open_listen,
                      post, session_fields, updated, JSON_FIELDS)

ROUNDS = 1000 if SANITIZER != 'tsan' else 300


def ping(session, id):
    return post(message('ping', {}, id), session.fields())


class Staff:
    """A session and some connections at each of the workers."""

    def __init__(self, port, workers):
        self.sessions, self.conns, self.port = {}, {}, port
        for _ in range(400):
            session = Session(port)
            if session.worker in self.sessions:
                session.__exit__()
            else:
                self.sessions[session.worker] = session
            if len(self.sessions) == workers:
                break
        tap.same(len(self.sessions), workers, 'workers that took a connection')

    def conn_at(self, worker):
        """A new connection that the kernel gave to this worker. It is known by a session
        that is created on it, and deleted."""
        for _ in range(400):
            conn = Conn(self.port)
            id = conn.ask(initialize()).fields['mcp-session-id']
            tap.same(conn.ask(head('DELETE', '/mcp', session_fields(id))).status, 204, 'status')
            if int(id[:2], 16) == worker:
                return conn
            conn.close()
        raise AssertionError(f'no connection arrives at worker {worker}')

    def all(self):
        return [self.sessions[key] for key in sorted(self.sessions)]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for session in self.sessions.values():
            session.__exit__()


def apart(arena, workers):
    """Subscribe, stream and unsubscribe by connections of different workers."""
    with Staff(arena.port, workers) as staff:
        for session in staff.all():
            others = [staff.conn_at(w) for w in range(workers) for _ in range(2)]
            session.subscribe('live://a', others[0])
            session.subscribe('live://b', others[-1])
            streams = [session.stream() for _ in range(8)]  # the newest gets it all
            arena.server.publish('live://a', metadata={'n': 1})
            streams[-1].event(wanted=updated('live://a'))
            session.unsubscribe('live://a', others[1])
            arena.server.publish('live://a', metadata={'n': 2})
            arena.server.publish('live://b', metadata={'fence': 1})
            found = streams[-1].event(wanted=updated())
            tap.same(found['params']['uri'], 'live://b', 'the next update')
            for stream in streams:
                stream.close()
            session.unsubscribe('live://b', others[-2])
            for conn in others:
                conn.close()


def back_and_forth(arena, workers):
    """One connection, sessions of different workers by turns."""
    with Staff(arena.port, workers) as staff, Conn(arena.port) as conn:
        sessions = staff.all()
        for i in range(ROUNDS):
            answer = conn.ask(ping(sessions[i % workers], i)).json()
            tap.check(answer.get('id') == i and 'result' in answer, f'round {i}: {answer}')


def pipelined(arena, workers):
    """The same in one go, with requests in between that belong to nobody."""
    with Staff(arena.port, workers) as staff, Conn(arena.port) as conn:
        sessions, chance, requests = staff.all(), random.Random(1), []
        for i in range(ROUNDS):
            session = chance.choice(sessions + [None])
            requests.append(ping(session, i) if session else modern('server/discover', id=i))
        conn.send(b''.join(requests))
        for i in range(ROUNDS):
            answer = conn.response().json()
            tap.check(answer.get('id') == i and 'result' in answer, f'round {i}: {answer}')


def many(arena, workers):
    """Fifty connections at once."""
    with Staff(arena.port, workers) as staff:
        conns = [Conn(arena.port) for _ in range(50)]
        sessions, chance, number = staff.all(), random.Random(2), 0
        for _ in range(ROUNDS // 50):
            expected = []
            for conn in conns:
                wanted = []
                for _ in range(chance.randrange(1, 6)):
                    number += 1
                    wanted.append((number, chance.choice(sessions)))
                conn.send(b''.join(ping(session, id) for id, session in wanted))
                expected.append([id for id, _ in wanted])
            for conn, ids in zip(conns, expected):
                for id in ids:
                    tap.same(conn.response().json()['id'], id, 'id')
        for conn in conns:
            conn.close()


def shapes(arena, workers):
    """What is forwarded and what stays: large bodies, chunks, what the client said already."""
    text = 'x' * 500000
    with Staff(arena.port, workers) as staff:
        for session in staff.all():
            for worker in range(workers):
                with staff.conn_at(worker) as conn:
                    large = message('resources/read', {'uri': 'live://item/a', 'x': text}, 1)
                    body = post(large, session.fields())
                    conn.send(body + ping(session, 2))
                    tap.check('result' in conn.response().json(), 'large')
                    tap.same(conn.response().json()['id'], 2, 'id')
                with staff.conn_at(worker) as conn:
                    data = b'{"jsonrpc": "2.0", "id": 3, "method": "ping"}'
                    conn.send(head(fields=(*JSON_FIELDS, *session.fields(),
                                           ('Transfer-Encoding', 'chunked')))
                              + b'%x\r\n%s\r\n0\r\n\r\n' % (len(data), data))
                    tap.same(conn.response().json()['id'], 3, 'id')
                    conn.send(head(fields=(*JSON_FIELDS, *session.fields(), ('Expect', '100-continue'),
                                           ('Content-Length', len(data)))))
                    tap.same(conn.head()[0], 100, 'status')
                    tap.same(conn.ask(data).json()['id'], 3, 'id')
                with staff.conn_at(worker) as conn:
                    conn.send(ping(session, 4))
                    conn.shut()
                    tap.same(conn.response().json()['id'], 4, 'id')
                    conn.wait_closed()
                with staff.conn_at(worker) as conn:
                    slow = session.request('tools/call', {'name': 'slow', 'arguments': {'ms': 50}})
                    conn.send(slow + ping(session, 5) + ping(staff.all()[0], 6))
                    tap.check(b'slow answer' in conn.response().body, 'slow')
                    tap.same(conn.response().json()['id'], 5, 'id')
                    tap.same(conn.response().json()['id'], 6, 'id')
                with staff.conn_at(worker) as conn:
                    half = ping(session, 7)
                    conn.send(ping(session, 8) + half[:40])
                    tap.same(conn.response().json()['id'], 8, 'id')
                    conn.send(half[40:])
                    tap.same(conn.response().json()['id'], 7, 'id')


def resets(arena, workers):
    """Connections that are reset while they are answered, and sessions that end meanwhile."""
    for _ in range(30):
        with Staff(arena.port, workers) as staff:
            sessions = staff.all()
            conns = [Conn(arena.port) for _ in range(12)]
            for i, conn in enumerate(conns):
                conn.send(b''.join(ping(sessions[(i + j) % workers], j) for j in range(20)))
                if i % 3 == 0:
                    conn.reset()
            for session in sessions[1:]:
                with Conn(arena.port) as conn:
                    tap.same(session.delete(conn), 204, 'status')
            for i, conn in enumerate(conns):
                if i % 3:
                    for j in range(20):
                        status = conn.response().status
                        tap.check(status in (200, 404), f'status {status}')
                    conn.close()
    arena.server.wait_counters('only the canary is left', lambda c: c['streams'] == 2
                               and c['sessions'] == 1 and c['connections'] < 10)


def updates_to_all(arena, workers):
    """One publish reaches streams of all workers and both eras; the last state is everywhere
    the same, and versions agree."""
    with Staff(arena.port, workers) as staff:
        streams = [open_listen(arena.port, ['live://c']) for _ in range(20)]
        for session in staff.all():
            session.subscribe('live://c')
            streams.append(session.stream())
        for i in range(50):
            arena.server.publish('live://c', metadata={'n': i})
        versions = set()
        for stream in streams:
            last = 0
            while True:
                found = stream.event(wanted=updated('live://c'))['params']
                version = found['_meta']['dev.tidings/version']
                tap.check(version > last, f'version {version} after {last}')
                last = version
                if found['metadata']['n'] == 49:
                    break
            versions.add(last)
            stream.close()
        tap.same(len(versions), 1, 'last versions')


def old_pair(arena, workers):
    """The endpoints of 2024-11-05: messages that arrive at other workers than the stream."""
    for _ in range(workers):
        stream = Stream(arena.port, head('GET', '/sse', (('Accept', 'text/event-stream'),))).opened()
        first = stream.chunk(time.monotonic() + tap.WAIT)
        path = first.split(b'data: ')[1].split(b'\n')[0].decode()
        conns = [Conn(arena.port) for _ in range(8)]
        for i, conn in enumerate(conns):
            method, params = ('initialize', {
                'protocolVersion': '2024-11-05', 'capabilities': {},
                'clientInfo': {'name': 'hostile', 'version': '1'}}) if i == 0 else ('ping', {})
            tap.same(conn.ask(post(message(method, params, i), path=path)).status, 202, 'status')
            tap.same(stream.event()['id'], i, 'id')
        conns[-1].send(post(message('notifications/initialized', None, None), path=path)
                       + post(message('resources/subscribe', {'uri': 'live://d'}, 'sub'), path=path))
        tap.same(stream.event(wanted=lambda m: 'id' in m)['id'], 'sub', 'id')
        arena.server.publish('live://d')
        stream.event(wanted=updated('live://d'))
        for conn in conns:
            conn.close()
        stream.close()


def stop_in_between(workers):
    """The server stops while requests are forwarded: whatever was not answered is closed, and it
    ends well."""
    for _ in range(3):
        server = Server('--immediate', '--stop-timeout-ms', 1000, workers=workers)
        staff = Staff(server.port, workers)
        sessions = staff.all()
        stop, answered = threading.Event(), [0]

        def busy():
            try:
                with Conn(server.port) as conn:
                    while not stop.is_set():
                        conn.send(b''.join(ping(s, 1) for s in sessions))
                        for _ in sessions:
                            conn.response()
                            answered[0] += 1
            except (Gone, OSError):
                pass
        threads = [threading.Thread(target=busy, daemon=True) for _ in range(4)]
        for thread in threads:
            thread.start()
        try:
            tap.until(lambda: answered[0] > 50, 'they are busy')
            server.stop()
        finally:
            stop.set()
            server.kill()
        for thread in threads:
            thread.join(tap.WAIT)


def main():
    for workers in (2, 4):
        arena = Arena('--session-idle-ms', 600000, workers=workers)
        name = f'workers: {workers}'
        arena.test(f'{name}, subscribe, stream and unsubscribe apart', apart, arena, workers)
        arena.test(f'{name}, one connection, sessions by turns, {ROUNDS} times', back_and_forth, arena, workers)
        arena.test(f'{name}, {ROUNDS} requests in one go', pipelined, arena, workers)
        arena.test(f'{name}, fifty connections at once', many, arena, workers)
        arena.test(f'{name}, what is forwarded', shapes, arena, workers)
        arena.test(f'{name}, resets and deletions meanwhile', resets, arena, workers)
        arena.test(f'{name}, one publish reaches all', updates_to_all, arena, workers)
        arena.test(f'{name}, the old pair of endpoints', old_pair, arena, workers)
        arena.end(name)
        tap.run(f'{name}, stopping meanwhile', stop_in_between, workers)

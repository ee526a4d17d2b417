# SPDX-License-Identifier: MIT
"""Readers that do not read. The server keeps little for them: updates merge, answers wait,
requests are not read any more; and after a while they are closed. Those who read again in time
learn the newest state."""
import time

from lib import tap
from lib.canary import Arena
from lib.server import bounded
from lib.wire import (Conn, Gone, Session, Stream, events_in, head, message, modern,
                      open_listen, post, updated)

ROUNDS, COUNT = 30, 100       # 3,000 changes
TEXT = 'm' * 15 * 1024        # of almost 16 KiB of metadata: 47 MB for each reader
MIB = 1024 * 1024
MANY = 60                     # clients at once
LIST = 'resources/list'       # some 30 KB, once there are long names


def stalled(port, kind):
    """A stream that reads its acknowledgement and no more. Returns it and its session."""
    if kind == 'modern':
        return open_listen(port, ['live://a'], small=True), None
    session = Session(port)
    session.subscribe('live://a')
    return session.stream(small=True), session


def storm(arena):
    """Publishes until the kernel takes no more for our streams, and then much more. Some may be
    closed for it meanwhile; two others are the canary's."""
    def stuck():
        arena.server.publish('live://a', metadata={'text': TEXT, 'round': -1, 'n': 0})
        counters = arena.server.counters()
        return counters['pending'] >= counters['streams'] - 2
    tap.until(stuck, 'the streams are stuck', pause=0)
    for i in range(ROUNDS):
        arena.server.publish('live://a', metadata={'text': TEXT, 'round': i}, count=COUNT)
        # All workers have taken them: what waits for a worker that does not come to run has its
        # own limit, and is not what is measured here.
        arena.server.tool('subscriptions')


def never_reads(arena, kind):
    """Closed after the write time-out; meanwhile nothing grows."""
    base = arena.server.counters()['connections']
    readers = [stalled(arena.port, kind) for _ in range(20)]
    bounded(arena.server, 16, lambda: storm(arena))
    arena.canary.check(3)
    arena.server.wait_counters('the stalled streams are closed', lambda c: c['connections']
                               == base + 20 * (kind == 'legacy'))
    for stream, session in readers:
        stream.wait_closed()
        stream.close()
        if session is not None:
            session.__exit__()
    arena.server.wait_counters('they are gone', lambda c: c['streams'] == 2
                               and c['connections'] == base)


def reads_again(arena, kind):
    """Reading on in time: few updates, versions only grow, the last is the newest."""
    stream, session = stalled(arena.port, kind)
    bounded(arena.server, 8, lambda: storm(arena))
    seen, last = 0, -1
    while True:
        found = stream.event(wanted=updated())['params']
        version = found['_meta']['dev.tidings/version']
        tap.check(version > last, f'version {version} after {last}')
        last, seen = version, seen + 1
        metadata = found['metadata']
        if metadata['round'] == ROUNDS - 1 and metadata['n'] == COUNT:
            break
    tap.note(f'{seen} of {ROUNDS * COUNT} updates were written')
    tap.check(seen < ROUNDS * COUNT / 4, f'{seen} updates: nothing was merged')
    stream.close()
    if session is not None:
        session.__exit__()


def pours_requests(arena, request):
    """Sends requests without reading the answers: at some point the server reads no more,
    and closes after its write time-out."""
    def attack():
        with Conn(arena.port, small=True) as conn:
            sent, deadline = 0, time.monotonic() + tap.WAIT
            conn.socket.settimeout(0.5)
            try:
                while time.monotonic() < deadline:
                    try:
                        sent += conn.socket.send(request * 20)
                    except TimeoutError:
                        pass
                raise AssertionError(f'still open; {sent} bytes sent')
            except (BrokenPipeError, ConnectionResetError):
                pass
            tap.check(sent < 24 * MIB, f'{sent} bytes were taken')
    bounded(arena.server, 10, attack)


def batch_of_answers(arena):
    """A batch whose answers are many times larger than itself."""
    with Session(arena.port, '2025-03-26') as session:
        batch = [message('tools/list', {}, i) for i in range(10000)]

        def attack():
            with Conn(arena.port, small=True) as conn:
                conn.send(post(batch, session.fields()))
                try:
                    status = conn.head()[0]
                    tap.check(status in (200, 400, 413, 500), f'status {status}')
                except Gone:
                    pass
        bounded(arena.server, 64, attack)


def talkative(arena, legacy):
    """A tool that logs 50 MB to a client that does not read yet: messages are left out,
    the answer is not. The only worker is asked something else: it answers when the tool is done."""
    arguments = {'name': 'log', 'arguments': {'text': 'x' * 1000, 'count': 50000}}
    with Session(arena.port) as session, Conn(arena.port, small=True) as conn:
        def attack():
            conn.send(session.request('tools/call', arguments) if legacy else modern(
                'tools/call', arguments, meta={'io.modelcontextprotocol/logLevel': 'debug'}))
            conn.more()
            arena.server.tool('counters')
        bounded(arena.server, 8, attack)
        events = events_in(conn.response().body)
        tap.check(0 < len(events) < 40000, f'{len(events)} messages')
        tap.check('result' in events[-1], f'{events[-1]}')


def batches(arena):
    """Many batches whose parts are small, and whose answers nobody reads."""
    batch = [message(LIST, {}, i) for i in range(100)]
    sessions = [Session(arena.port, '2025-03-26') for _ in range(MANY)]
    conns = [Conn(arena.port, small=True) for _ in sessions]

    def attack():
        for session, conn in zip(sessions, conns):
            conn.send(post(batch, session.fields()))
        for conn in conns:
            tap.same(conn.head()[0], 200, 'status')
    bounded(arena.server, 40, attack)
    arena.canary.check(3)
    for session, conn in zip(sessions, conns):
        conn.close()
        session.__exit__()


def acknowledgements(arena):
    """Many listens for long names that nobody has: each acknowledgement repeats them all."""
    uris = [f'none://{i:03000}' for i in range(250)]
    listen = modern('subscriptions/listen', {'notifications': {'resourceSubscriptions': uris}})
    conns = [Conn(arena.port, small=True) for _ in range(4 * MANY)]

    def attack():
        for conn in conns:
            conn.send(listen)
            tap.same(conn.head()[0], 200, 'status')
    bounded(arena.server, 80, attack)
    arena.canary.check(3)
    for conn in conns:
        conn.close()


def open_old(arena, conn):
    """A stream of 2024-11-05 that reads no more, and where its client posts."""
    stream = Stream(arena.port, head('GET', '/sse', (('Accept', 'text/event-stream'),)),
                    small=True).opened()
    stream.text = stream.chunk(time.monotonic() + tap.WAIT)
    path = stream.text.split(b'data: ')[1].split(b'\n')[0].decode()
    conn.ask(post(message('initialize', {
        'protocolVersion': '2024-11-05', 'capabilities': {},
        'clientInfo': {'name': 'hostile', 'version': '1'}}), path=path))
    return stream, path


def old_pairs(arena):
    """Many such streams: their answers have room together, not each."""
    streams = []

    def attack():
        with Conn(arena.port) as conn:
            for _ in range(MANY):
                stream, path = open_old(arena, conn)
                streams.append(stream)
                conn.send(b''.join(post(message(LIST, {}, i), path=path)
                                   for i in range(100)))
                for _ in range(100):
                    tap.check(conn.response().status in (202, 404), 'status')
    bounded(arena.server, 40, attack)
    arena.canary.check(3)
    for stream in streams:
        stream.close()


def old_pair(arena):
    """The pair of endpoints of 2024-11-05: answers go to a stream that nobody reads."""
    def attack():
        with Conn(arena.port) as conn:
            stream, path = open_old(arena, conn)
            number, deadline = 2, time.monotonic() + tap.WAIT
            while time.monotonic() < deadline:
                number += 1
                status = conn.ask(post(message('tools/list', {}, number), path=path)).status
                if status == 404:  # the session went with its stream
                    return stream
                tap.same(status, 202, 'status')
            raise AssertionError('it is still answered')
    bounded(arena.server, 8, attack).wait_closed()


def main():
    arena = Arena('--request-timeout-ms', 1500, '--idle-timeout-ms', 600000)
    large = modern('tools/list')
    for kind in ('modern', 'legacy'):
        arena.test(f'readers: {kind} streams that never read are closed', never_reads, arena, kind)
    arena.test('readers: requests without reading the answers', pours_requests, arena, large)
    arena.test('readers: small requests without reading the answers', pours_requests, arena,
               modern('server/discover'))
    arena.test('readers: refused requests without reading the answers', pours_requests, arena,
               post({'jsonrpc': '2.0', 'id': 1, 'method': 'nothing'}))
    arena.test('readers: a batch with answers many times its size', batch_of_answers, arena)
    arena.test('readers: the old pair of endpoints, without reading', old_pair, arena)
    arena.end('readers')

    arena = Arena('--request-timeout-ms', 600000)
    for kind in ('modern', 'legacy'):
        arena.test(f'readers: a {kind} stream that reads again learns the newest', reads_again,
                   arena, kind)
    arena.end('readers, with patience')

    arena = Arena('--request-timeout-ms', 600000, workers=1)
    for legacy in (False, True):
        arena.test(f'readers: a tool that talks too much ({"legacy" if legacy else "modern"})',
                   talkative, arena, legacy)
    for i in range(15):
        arena.server.tool('add_resource', uri=f'long://{i}/' + 'x' * 2000)
    arena.test('readers: many batches, without reading', batches, arena)
    arena.test('readers: many large acknowledgements, without reading', acknowledgements, arena)
    arena.test('readers: many old pairs of endpoints, without reading', old_pairs, arena)
    arena.end('readers, with one worker', sessions=False)

# SPDX-License-Identifier: MIT
"""Honest requests, but far too many of them."""
import random
import time

from lib import tap
from lib.canary import Arena
from lib.server import bounded, elapsed, laborious
from lib.wire import (Conn, Gone, Session, Stream, call, get, head, initialize, listen, message,
                      modern, open_listen, post, session_fields, updated)

PING = modern('server/discover')


def pipelined(arena):
    """A thousand requests in one go: a thousand answers, in order."""
    with Conn(arena.port) as conn:
        conn.send(b''.join(modern('server/discover', id=i) for i in range(1000)))
        for i in range(1000):
            tap.same(conn.response().json()['id'], i, 'id')


def pipelined_slow(arena):
    """The order holds where an early answer comes late."""
    with Conn(arena.port) as conn:
        conn.send(b''.join(call('slow' if i % 10 == 0 else 'counters', id=i, ms=20)
                           for i in range(100)))
        for i in range(100):
            tap.same(conn.response().json()['id'], i, 'id')


def guessing(arena):
    """Sessions cannot be guessed, and guessing leaves nothing."""
    chance = random.Random(7)
    with Session(arena.port) as real:
        near = real.id[:-1] + ('0' if real.id[-1] != '0' else '1')
        guesses = [near, real.id[:2] + '0' * 32, real.id[:33], real.id + '0', real.id.upper() + 'x',
                   'ff' + real.id[2:], '0' * 10000, '%00', '..', '{}']
        guesses += ['%02x%032x' % (chance.randrange(4), chance.getrandbits(128)) for _ in range(2000)]

        def attack():
            with Conn(arena.port) as conn:
                for guess in guesses:
                    for request in (post(message('ping'), session_fields(guess)),
                                    get(guess), head('DELETE', '/mcp', session_fields(guess))):
                        tap.same(conn.ask(request).status, 404, f'status for {guess[:40]}')
        bounded(arena.server, 4, attack)
        tap.same(real.result('ping'), {}, 'the real one')


def initializing(arena, limit):
    """20,000 clients that introduce themselves and never come back: memory is bounded, and
    whoever comes to stay gets in at once, also while it goes on."""
    with Conn(arena.port) as conn:
        def attack():
            for i in range(200):
                conn.send(initialize() * 100)
                for _ in range(100):
                    tap.same(conn.response().status, 200, 'status')
                if i % 50 == 49:
                    with Session(arena.port) as session:
                        tap.same(session.result('ping'), {}, 'ping')
        bounded(arena.server, limit * 3 // 1024 + 8, attack)
        with Session(arena.port) as session:
            tap.same(session.result('ping'), {}, 'ping')
    tap.check(arena.server.counters()['sessions'] <= limit, 'the limit')
    arena.canary.check(3)


def blocking(arena, limit):
    """Clients that hold a stream and never say initialized: they give way as well, so that
    others get in, and the limit holds."""
    streams = []
    with Conn(arena.port) as conn:
        for _ in range(300):
            session = conn.ask(initialize()).fields['mcp-session-id']
            streams.append(Stream(arena.port, get(session)).opened())
        for _ in range(2 * limit // 100):
            conn.send(initialize() * 100)
            for _ in range(100):
                tap.same(conn.response().status, 200, 'status')
        for _ in range(10):
            with Session(arena.port) as session:
                tap.same(session.result('ping'), {}, 'ping')
    arena.server.wait_counters('the limit holds', lambda c: c['sessions'] <= limit)
    for stream in streams:
        stream.close()


def sessions_expire(arena):
    """Sessions to which nobody comes back end by themselves."""
    with Conn(arena.port) as conn:
        conn.send(initialize() * 1000)
        for _ in range(1000):
            tap.same(conn.response().status, 200, 'status')
    arena.server.wait_counters('the sessions are gone', lambda c: c['sessions'] == 1
                               and c['streams'] == 2)
    with Session(arena.port) as session:
        tap.same(session.result('ping'), {}, 'ping')


def old_sessions(arena):
    """The same by the old endpoint: each costs its client a connection."""
    requests = head('GET', '/sse', (('Accept', 'text/event-stream'),))
    streams = [Stream(arena.port, requests).opened() for _ in range(300)]
    arena.server.wait_counters('all are there', lambda c: c['sessions'] >= 300)
    for stream in streams:
        stream.reset()
    arena.server.wait_counters('they went with their streams', lambda c: c['sessions'] == 1)


def batches(arena):
    """Batches of 10,000 are answered by one error, or by 10,000 answers; soon."""
    with Session(arena.port, '2025-03-26') as session:
        for method in ('ping', 'tools/list', 'notifications/cancelled'):
            batch = [message(method, {'requestId': 1}, None if 'not' in method else i)
                     for i in range(10000)]

            def attack():
                response = session.conn.ask(post(batch, session.fields()))
                tap.check(response.status in (200, 202, 400), f'{response}')
            bounded(arena.server, 32, attack)
        small = [message('ping', {}, i) for i in range(100)]
        response = session.conn.ask(post(small, session.fields()))
        tap.same(len(response.json()), 100, 'answers')


def slow_calls(arena):
    """No more calls at once than are allowed; the others are refused, not queued."""
    with Session(arena.port) as session:
        waiting = [Conn(arena.port) for _ in range(150)]
        for conn in waiting:
            conn.send(session.request('tools/call', {'name': 'hold', 'arguments': {'key': 'many'}}))

        def answered():
            for conn in list(waiting):
                try:
                    conn.more(0.001)
                except Gone:
                    raise
                except AssertionError:
                    continue
                answers.append(conn.response().json())
                waiting.remove(conn)
            return len(waiting) <= 100
        answers = []
        tap.until(answered, 'fifty are refused')
        tap.same(len(waiting), 100, 'calls that run')
        tap.check(all('error' in answer for answer in answers), f'{answers[0]}')
        for _ in waiting:
            result = arena.server.tool('release', key='many')
            tap.check(not result.get('isError'), f'release: {result}')
        for conn in waiting:
            tap.check('result' in conn.response().json(), 'it is answered')
            conn.close()


def many_uris(arena, scheme):
    """A listen with 20,000 URIs is acknowledged, with as many as are allowed, and soon done."""
    uris = [f'{scheme}://item{"/" if scheme == "live" else ""}{i}' for i in range(20000)]

    def attack():
        stream = Stream(arena.port, listen(uris)).opened()
        if scheme != 'slow':
            ack = stream.event(wanted=lambda m: 'acknowledged' in m.get('method', ''))
            honoured = ack['params']['notifications']['resourceSubscriptions']
            tap.check(len(honoured) <= 10000, f'{len(honoured)} honoured')
            tap.check((len(honoured) == 10000) == (scheme == 'live'), f'{len(honoured)} honoured')
        stream.close()
    bounded(arena.server, 40, lambda: laborious(arena.server, 5, attack))
    arena.server.wait_counters('all is gone', lambda c: c['subscriptions'] == 5)


def same_uri(arena):
    """The same URI 20,000 times is one subscription."""
    with open_listen(arena.port, ['live://a'] * 20000) as stream:
        arena.server.publish('live://a', metadata={'n': 1})
        stream.event(wanted=updated('live://a'))
        arena.server.wait_counters('one subscription', lambda c: c['subscriptions'] == 6)


def storm(arena):
    """Subscribing and unsubscribing without end, with disconnects in between."""
    chance = random.Random(3)
    for turn in range(12):
        sessions = [Session(arena.port) for _ in range(5)]
        streams = []
        for session in sessions:
            if chance.random() < 0.8:
                streams.append(Stream(arena.port, get(session.id)))
            requests = []
            for i in range(200):
                uri = f'live://item/{chance.randrange(50)}'
                method = 'resources/subscribe' if chance.random() < 0.6 else 'resources/unsubscribe'
                requests.append(session.request(method, {'uri': uri}))
            session.conn.send(b''.join(requests))
            streams.append(Stream(arena.port, listen([f'live://item/{i}' for i in range(100)])))
        for i in range(10):
            arena.server.publish(f'live://item/{i}', metadata={'turn': turn})
        for stream in streams:
            stream.reset() if chance.random() < 0.5 else stream.close()
        for session in sessions:
            if chance.random() < 0.5:
                session.conn.reset()
            session.conn.close()
            with Conn(arena.port) as conn:
                tap.same(session.delete(conn), 204, 'status')
    arena.server.wait_counters(
        'only the canary is left', lambda c: c['streams'] == 2 and c['sessions'] == 1
        and c['subscriptions'] == 5 and c['pending'] <= 2)


def cleanup_is_fast(arena):
    """Within milliseconds of the event that shows it."""
    streams = [open_listen(arena.port, [f'live://item/{i}' for i in range(100)]) for _ in range(50)]
    for stream in streams:
        stream.close()
    began = time.monotonic()
    arena.server.wait_counters('they are gone', lambda c: c['subscriptions'] == 5)
    tap.note(f'5,000 subscriptions were gone after {elapsed(began) * 1000:.0f} ms')


def many_streams(arena):
    """More GET streams than a session may have: refused, and room again later."""
    with Session(arena.port) as session:
        streams = [Stream(arena.port, get(session.id)) for _ in range(40)]
        statuses = [stream.head()[0] for stream in streams]
        tap.same(sorted(set(statuses)), [200, 409], 'statuses')
        tap.same(statuses.count(200), 16, 'streams')
        for stream in streams:
            stream.close()

        def fits():
            with Conn(arena.port) as conn:
                conn.send(get(session.id))
                return conn.head()[0] == 200
        tap.until(fits, 'there is room again')


def publishing(arena):
    """As many changes as somebody can cause: templates, lists, resources that come and go."""
    with open_listen(arena.port, ['live://item/{id}'], resourcesListChanged=True,
                     toolsListChanged=True) as stream:
        with Conn(arena.port) as conn:
            def attack():
                conn.send(b''.join(call('publish', uri=f'live://item/{i}', count=5, id=i)
                                   for i in range(2000)))
                for i in range(2000):
                    tap.check('result' in conn.response().json(), 'it is done')
                for i in range(200):
                    conn.send(call('add_resource', uri=f'live://new/{i}')
                              + call('remove_resource', uri=f'live://new/{i}')
                              + call('add_tool', name=f'tool{i}')
                              + call('remove_tool', name=f'tool{i}'))
                    for _ in range(4):
                        tap.check('result' in conn.response().json(), 'it is done')
            bounded(arena.server, 32, attack)
        last = set()
        try:
            while len(last) < 2000:
                found = stream.event()
                if found.get('method', '').endswith('resources/updated'):
                    if found['params']['metadata'].get('n') == 5:
                        last.add(found['params']['uri'])
        except Gone as error:
            raise AssertionError(f'{len(last)} of 2000, then: {error}') from None


def main():
    arena = Arena('--session-idle-ms', 600000, '--request-timeout-ms', 600000,
                  '--handshake-timeout-ms', 600000)
    arena.test('floods: a thousand requests in one go', pipelined, arena)
    arena.test('floods: slow and fast ones in one go', pipelined_slow, arena)
    arena.test('floods: guessing session ids', guessing, arena)
    arena.test('floods: sessions of the old endpoint', old_sessions, arena)
    arena.test('floods: batches of 10,000', batches, arena)
    arena.test('floods: more calls at once than are allowed', slow_calls, arena)
    arena.test('floods: more streams than a session may have', many_streams, arena)
    arena.test('floods: listening to 20,000 URIs', many_uris, arena, 'live')
    arena.test('floods: listening to 20,000 URIs that are refused', many_uris, arena, 'deny')
    arena.test('floods: listening to 20,000 URIs whose watchers wait', many_uris, arena, 'slow')
    arena.test('floods: listening to one URI 20,000 times', same_uri, arena)
    arena.test('floods: subscribing and leaving without end', storm, arena)
    arena.test('floods: what many subscribed to is gone at once', cleanup_is_fast, arena)
    arena.test('floods: publishing without end', publishing, arena)
    arena.end('floods')

    arena = Arena('--session-idle-ms', 600000, '--max-sessions', 5000)
    arena.test('floods: 20,000 clients initialize and never come back', initializing, arena, 5000)
    arena.end('floods of sessions', sessions=False)

    arena = Arena('--handshake-timeout-ms', 600000, '--max-sessions', 1000,
                  '--max-sessions-per-address', 1000)
    arena.test('floods: 300 clients hold a stream and never say initialized', blocking, arena,
               1000)
    arena.end('floods of streams without initialized', sessions=False)

    arena = Arena('--session-idle-ms', 2000)
    arena.test('floods: sessions end, and others are welcome', sessions_expire, arena)
    arena.end('floods of sessions that end')

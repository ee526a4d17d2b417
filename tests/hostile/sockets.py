# SPDX-License-Identifier: MIT
"""Connections that end where nobody expects it: half-closed, reset, at every stage. What
belonged to them goes with them."""
import time

from lib import tap
from lib.canary import Arena
from lib.wire import (Conn, Gone, Session, Stream, call, get, head, listen, modern,
                      open_listen, updated)

PING = modern('server/discover')
TIMES = 20  # each stage, so that races have a chance


def half_closed_after(arena):
    """The request is whole, so it is answered."""
    with Conn(arena.port) as conn:
        conn.send(PING)
        conn.shut()
        tap.same(conn.response().status, 200, 'status')
        tap.same(conn.wait_closed(), b'', 'said')


def half_closed_pipeline(arena):
    with Conn(arena.port) as conn:
        conn.send(PING * 50)
        conn.shut()
        for _ in range(50):
            tap.same(conn.response().status, 200, 'status')
        tap.same(conn.wait_closed(), b'', 'said')


def half_closed_slow(arena):
    """A legacy client that has said all may wait for the answer; a modern one has
    cancelled, and is let go."""
    with Session(arena.port) as session, Conn(arena.port) as conn:
        conn.send(session.request('tools/call', {'name': 'slow', 'arguments': {'ms': 300}}))
        conn.shut()
        tap.check(b'slow answer' in conn.response().body, 'it is answered')
    with Conn(arena.port) as conn:
        conn.send(call('hold', key='half'))
        tap.until(lambda: held(arena, 'half')['held'], 'it is held')
        conn.shut()
        tap.until(lambda: held(arena, 'half')['cancelled'], 'it is cancelled')
        arena.server.tool('release', key='half')
        conn.wait_closed()


def held(arena, key):
    return arena.server.tool('held', key=key)['structuredContent']


def half_closed_before(arena):
    for part in (b'', b'PO', PING[:60], PING[:-10], b'\r\n'):
        with Conn(arena.port) as conn:
            conn.send(part)
            conn.shut()
            tap.check(b' 200 ' not in conn.wait_closed(), 'it is not served')


def half_closed_stream(arena):
    """Whoever closes its side of a stream has left."""
    streams = [open_listen(arena.port, ['live://a'], id=i) for i in range(20)]
    with Session(arena.port) as session:
        streams.append(session.stream())
        for stream in streams:
            stream.shut()
        for stream in streams:
            stream.wait_closed()
            stream.close()
    only_the_canary(arena)


def only_the_canary(arena):
    """The streams of the canary are all there is."""
    arena.server.wait_counters('only the canary is left', lambda c: c['streams'] == 2
                               and c['sessions'] == 1 and c['subscriptions'] == 5)


def reset_at(arena, *parts):
    """Sends, and resets after each part."""
    for count in range(len(parts) + 1):
        for _ in range(TIMES):
            conn = Conn(arena.port)
            for part in parts[:count]:
                conn.send(part)
            conn.reset()
    arena.server.wait_counters('they are gone', lambda c: c['connections'] < 10)


def reset_streams(arena):
    """Streams vanish, right after the request or once they run, and while updates fly."""
    for i in range(TIMES * 5):
        stream = Stream(arena.port, listen(['live://a', 'live://item/{id}'], id=i))
        if i % 3 > 0:
            stream.opened()
        if i % 3 > 1:
            arena.server.publish('live://a', metadata={'n': i})
        stream.reset()
    only_the_canary(arena)


def reset_sessions(arena):
    """A session outlives its streams and goes by DELETE."""
    with Session(arena.port) as session:
        session.subscribe('live://a')
        for i in range(TIMES * 3):
            stream = Stream(arena.port, get(session.id))
            if i % 2:
                stream.opened()
                arena.server.publish('live://a')
            stream.reset()
        tap.until(lambda: streams_fit(session), 'the streams are gone')
    only_the_canary(arena)


def streams_fit(session):
    with Conn(session.port) as conn:
        conn.send(get(session.id))
        return conn.head()[0] == 200


def reset_in_answer(arena):
    """In the middle of a large answer."""
    for _ in range(TIMES):
        conn = Conn(arena.port, small=True)
        conn.send(modern('tools/list') * 50)
        conn.more()
        conn.reset()
    arena.server.wait_counters('they are gone', lambda c: c['connections'] < 10)


def reset_in_call(arena):
    """While a call is under way: a modern one is cancelled; a legacy one goes on and is
    answered to nobody."""
    with Session(arena.port) as session:
        for i in range(TIMES):
            for request in (call('hold', key=f'm{i}'),
                            session.request('tools/call', {'name': 'hold',
                                                           'arguments': {'key': f'l{i}'}})):
                conn = Conn(arena.port)
                conn.send(request)
                key = ('l' if b'"l%d"' % i in request else 'm') + str(i)
                tap.until(lambda: held(arena, key)['held'], 'it is held')
                conn.reset()
        for i in range(TIMES):
            tap.until(lambda: held(arena, f'm{i}')['cancelled'], 'it is cancelled')
            arena.server.tool('release', key=f'm{i}')
            arena.server.tool('release', key=f'l{i}')
    only_the_canary(arena)


def talk_in_stream(arena):
    """A client that goes on sending while its stream is open: what it sends waits, or the
    connection is closed; the stream is not disturbed before that."""
    with open_listen(arena.port, ['live://a']) as stream:
        stream.send(PING)
        arena.server.publish('live://a', metadata={'n': 1})
        tap.same(stream.event(wanted=updated())['params']['metadata']['n'], 1, 'n')
        stream.send(PING * 100)
        try:
            deadline = time.monotonic() + 5
            while time.monotonic() < deadline:
                stream.more(deadline - time.monotonic())
        except Gone:
            pass
    only_the_canary(arena)


def main():
    arena = Arena('--request-timeout-ms', 600000, '--session-idle-ms', 600000)
    arena.test('sockets: half-closed after a request', half_closed_after, arena)
    arena.test('sockets: half-closed after fifty requests', half_closed_pipeline, arena)
    arena.test('sockets: half-closed while a call is under way', half_closed_slow, arena)
    arena.test('sockets: half-closed before the request is whole', half_closed_before, arena)
    arena.test('sockets: half-closed streams', half_closed_stream, arena)
    arena.test('sockets: reset at every stage of a request', reset_at, arena, b'', PING[:5],
               PING[5:80], PING[80:-20], PING[-20:], PING, PING)
    arena.test('sockets: reset at every stage of a chunked request', reset_at, arena,
               head(fields=(('Content-Type', 'application/json'), ('Transfer-Encoding', 'chunked'))),
               b'5\r\n', b'{"a":', b'\r\n', b'0\r\n', b'\r\n')
    arena.test('sockets: reset while modern streams run', reset_streams, arena)
    arena.test('sockets: reset while a session is streaming', reset_sessions, arena)
    arena.test('sockets: reset in the middle of an answer', reset_in_answer, arena)
    arena.test('sockets: reset while a call is under way', reset_in_call, arena)
    arena.test('sockets: talking while a stream is open', talk_in_stream, arena)
    arena.end('sockets')

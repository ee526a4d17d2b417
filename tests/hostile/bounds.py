# SPDX-License-Identifier: MIT
"""More than is allowed: heads and bodies without end, slow ones, and connections that say
nothing. There is a status or a close in time, and memory does not follow."""
import json
import time

from lib import tap
from lib.canary import Arena
from lib.server import Server, bounded, elapsed
from lib.wire import (Conn, Gone, head, modern, modern_fields, modern_message, post,
                      JSON_FIELDS)

TIMEOUT = 1.0  # of a request, by --request-timeout-ms
LIMIT = 1024 * 1024  # of a message, by --max-message-bytes
OPTIONS = ['--request-timeout-ms', int(TIMEOUT * 1000), '--max-message-bytes', LIMIT]
PING = modern('server/discover')


def status_of(answer):
    tap.check(answer.startswith(b'HTTP/1.1 '), f'no answer but {answer[:200]!r}')
    return int(answer.split(b' ')[1])


def pour(conn, first, piece, megabytes):
    """Sends `piece` again and again, until the server has enough or all is sent. Returns
    what was answered and how much went out."""
    sent = 0
    conn.send(first)
    try:
        while sent < megabytes * 1024 * 1024:
            sent += conn.socket.send(piece)
    except (BrokenPipeError, ConnectionResetError):
        pass
    except TimeoutError:
        raise AssertionError(f'it neither reads nor closes; {sent} bytes sent') from None
    return conn.wait_closed(), sent


def endless(arena, first, piece, statuses, allowed=8):
    """The server answers and closes long before all is sent. A reset may overtake the
    answer, since we go on sending after it."""
    def attack():
        for _ in range(5):
            with Conn(arena.port) as conn:
                answer, sent = pour(conn, first, piece, 64)
                tap.check(sent < 32 * 1024 * 1024, f'{sent} bytes were taken')
                if answer:
                    tap.check(status_of(answer) in statuses, f'{answer[:200]!r}')
    bounded(arena.server, allowed, attack)


def measured(arena, data, statuses):
    """Bytes that are too many but few enough to be sent in one go."""
    with Conn(arena.port) as conn:
        conn.send(data)
        answer = conn.wait_closed()
        tap.check(status_of(answer) in statuses, f'{answer[:200]!r}')


def trickle(arena, data, first=b'', pause=0.05):
    """One byte every now and then: the time is over although something always comes."""
    with Conn(arena.port) as conn:
        began = time.monotonic()
        conn.send(first)
        answer = b''
        try:
            for i in range(len(data)):
                tap.check(elapsed(began) < tap.WAIT, f'open after {elapsed(began):.1f} s')
                if not conn.send(data[i:i + 1]):
                    break
                try:
                    conn.more(pause)
                    break
                except Gone:
                    raise
                except AssertionError:
                    pass
            answer = conn.wait_closed()
        except Gone:
            pass
        took = elapsed(began)
        tap.check(TIMEOUT * 0.8 <= took <= tap.WAIT, f'closed after {took:.2f} s')
        if answer:
            tap.same(status_of(answer), 408, 'status')


def trickles(arena):
    """300 of them at once."""
    conns = []
    for _ in range(300):
        conns.append(Conn(arena.port))
        conns[-1].send(PING[:50])
    answers = {status_of(conn.wait_closed()) for conn in conns}
    tap.same(answers, {408}, 'statuses')


def silent(arena, count):
    """Connects that say nothing are closed without a word."""
    def attack():
        conns = [Conn(arena.port) for _ in range(count)]
        arena.canary.check(3)
        for conn in conns:
            tap.same(conn.wait_closed(), b'', 'said')
            conn.close()
        arena.server.wait_counters('all are gone', lambda c: c['connections'] < 50)
    bounded(arena.server, 12, attack)


def idle():
    """Between requests a connection may rest for as long as it may. No canary: on a busy machine
    its connections would rest as well."""
    server = Server('--idle-timeout-ms', 2000)
    try:
        with Conn(server.port) as conn:
            began = time.monotonic()
            tap.same(conn.ask(PING).status, 200, 'status')
            tap.same(conn.wait_closed(), b'', 'said')
            tap.check(elapsed(began) > 1.5, f'closed after {elapsed(began):.1f} s')
        server.stop()
    finally:
        server.kill()


def expects(arena):
    """Expect: 100-continue, and then nothing; or too much."""
    fields = (*JSON_FIELDS, ('Expect', '100-continue'))
    with Conn(arena.port) as conn:
        conn.send(head(fields=(*fields, ('Content-Length', 100))))
        tap.same(conn.head()[0], 100, 'status')
        tap.same(status_of(conn.wait_closed()), 408, 'status')
    with Conn(arena.port) as conn:
        conn.send(head(fields=(*fields, ('Content-Length', LIMIT + 1))))
        tap.same(status_of(conn.wait_closed()), 413, 'status')


def largest(arena):
    """What is just allowed is served."""
    def sized(count):
        message = modern_message('tools/call', {'name': 'counters', 'arguments': {'a': 'x' * count}})
        return json.dumps(message).encode()
    fields = modern_fields('tools/call', {'name': 'counters'})
    body = sized(LIMIT - len(sized(0)))
    with Conn(arena.port) as conn:
        tap.same(len(body), LIMIT, 'bytes')
        tap.same(conn.ask(post(body, fields)).status, 200, 'status')
        tap.same(conn.ask(post(body + b' ', fields)).status, 413, 'status')


def over_the_top():
    """Beyond max_connections there is a 503, and room again when somebody leaves."""
    arena = Arena('--max-connections', 64)
    arena.test('bounds: connections beyond the limit get 503', crowded, arena)
    arena.end('bounds, with few connections')


def crowded(arena):
    conns, refused = [], 0
    arena.server.counters()  # while there is room for that connection
    for _ in range(200):
        conn = Conn(arena.port)
        status = conn.ask(PING).status
        if status == 200:
            conns.append(conn)
        else:
            tap.same(status, 503, 'status')
            refused += 1
            conn.close()
    tap.check(0 < len(conns) <= 64, f'{len(conns)} were served')
    tap.same(len(conns) + refused, 200, 'sum')
    arena.canary.check(3)
    for conn in conns:
        conn.close()
    arena.server.wait_counters('they are gone', lambda c: c['connections'] < 10)
    served = [Conn(arena.port) for _ in range(8)]
    for conn in served:
        tap.same(conn.ask(PING).status, 200, 'status')


def main():
    arena = Arena(*OPTIONS, '--idle-timeout-ms', 600000)
    first = b'POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\n'
    chunked = head(fields=(*JSON_FIELDS, ('Transfer-Encoding', 'chunked')))
    sized = head(fields=(*JSON_FIELDS, ('Content-Length', LIMIT - 1)))

    arena.test('bounds: a request line without end', endless, arena, b'POST /', b'a' * 65536, {400, 414})
    arena.test('bounds: a method without end', endless, arena, b'', b'A' * 65536, {400, 414, 431, 501})
    arena.test('bounds: a header value without end', endless, arena, first + b'X: ', b'a' * 65536, {431})
    arena.test('bounds: a header name without end', endless, arena, first, b'a' * 65536, {400, 431})
    arena.test('bounds: header fields without end', endless, arena, first, b'X-A: b\r\n' * 8192, {431})
    arena.test('bounds: empty lines without end', endless, arena, b'', b'\r\n' * 32768, {400})
    arena.test('bounds: chunks without end', endless, arena, chunked, b'8000\r\n' + b'a' * 32768 + b'\r\n', {413})
    arena.test('bounds: chunks of one byte without end', endless, arena, chunked, b'1\r\na\r\n' * 10000, {413})
    arena.test('bounds: one chunk without end', endless, arena, chunked + b'3fffffff\r\n', b'a' * 65536, {413})
    arena.test('bounds: a request line of 17 KiB', measured, arena,
               b'GET /' + b'a' * 17000 + b' HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n', {414})
    arena.test('bounds: 101 header fields', measured, arena, first + b'X-A: b\r\n' * 101 + b'\r\n', {431})
    arena.test('bounds: 17 KiB of header', measured, arena,
               first + b''.join(b'X-%d: %s\r\n' % (i, b'a' * 900) for i in range(19)) + b'\r\n', {431})
    arena.test('bounds: a Content-Length beyond the limit, nothing more', measured, arena,
               head(fields=(*JSON_FIELDS, ('Content-Length', LIMIT + 1))), {413})
    arena.test('bounds: the largest message that is allowed', largest, arena)
    arena.test('bounds: a head byte by byte is given up in time', trickle, arena, PING)
    arena.test('bounds: a body byte by byte is given up in time', trickle, arena, b' ' * 1000, sized)
    arena.test('bounds: chunks byte by byte are given up in time', trickle, arena, b'1\r\n \r\n' * 300, chunked)
    arena.test('bounds: 300 half requests at once', trickles, arena)
    arena.test('bounds: Expect: 100-continue and nothing more', expects, arena)
    arena.test('bounds: 3000 connects that say nothing', silent, arena, 3000)
    arena.end('bounds')
    tap.run('bounds: a connection that rests is closed', idle)
    over_the_top()

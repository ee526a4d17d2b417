# SPDX-License-Identifier: MIT
"""Requests that two readers could take for two different things. Each is refused and the
connection closed, so that what follows is never taken for a request. The honest ones beside
them are answered, or the tests would prove nothing."""
from lib import tap
from lib.canary import Arena
from lib.wire import Conn, call, head, modern_fields, modern_message, JSON_FIELDS
import json

PING = json.dumps(modern_message('server/discover')).encode()
FIELDS = (*JSON_FIELDS, *modern_fields('server/discover'))
HIDDEN = call('publish', uri='live://y')  # must never be served


def request(*lines, body=b'', first=b'POST /mcp HTTP/1.1', host=b'Host: 127.0.0.1'):
    """A request from raw lines; only the good fields are added."""
    good = [f'{name}: {value}'.encode() for name, value in FIELDS]
    every = [first] + ([host] if host else []) + good + list(lines)
    return b'\r\n'.join(every) + b'\r\n\r\n' + body


def chunked(body, line=b'Transfer-Encoding: chunked', **more):
    return request(line, body=body, **more)


def length(value, body=PING):
    return request(b'Content-Length: ' + value, body=body)


def chunk(data):
    return b'%x\r\n%s\r\n' % (len(data), data)


N = str(len(PING)).encode()
WHOLE = chunk(PING) + b'0\r\n\r\n'

# What is wrong with it: the bytes, and the statuses that say so.
REFUSED = [
    ('Content-Length and Transfer-Encoding',
     request(b'Content-Length: ' + N, b'Transfer-Encoding: chunked', body=WHOLE), {400}),
    ('Transfer-Encoding and Content-Length',
     request(b'Transfer-Encoding: chunked', b'Content-Length: 0', body=WHOLE), {400}),
    ('two equal Content-Lengths',
     request(b'Content-Length: ' + N, b'Content-Length: ' + N, body=PING), {400}),
    ('two different Content-Lengths',
     request(b'Content-Length: 0', b'Content-Length: ' + N, body=PING), {400}),
    ('a list in Content-Length', length(N + b', ' + N), {400}),
    ('a plus in Content-Length', length(b'+' + N), {400}),
    ('a negative Content-Length', length(b'-1'), {400}),
    ('a hexadecimal Content-Length', length(b'0x10'), {400}),
    ('a Content-Length with a fraction', length(N + b'.0'), {400}),
    ('an empty Content-Length', length(b''), {400}),
    ('a tab around Content-Length', length(b'\t' + N), {400}),
    ('a blank inside Content-Length', length(b'1 0'), {400}),
    ('a Content-Length beyond 64 bits', length(b'18446744073709551617'), {400, 413}),
    ('a Content-Length of 64 bits', length(b'18446744073709551615'), {400, 413}),
    ('a Content-Length beyond the limit', length(b'99999999'), {413}),
    ('Transfer-Encoding twice',
     request(b'Transfer-Encoding: chunked', b'Transfer-Encoding: chunked', body=WHOLE), {400}),
    ('chunked twice in a list', chunked(WHOLE, b'Transfer-Encoding: chunked, chunked'), {400, 501}),
    ('Transfer-Encoding: identity', chunked(PING, b'Transfer-Encoding: identity'), {400, 501}),
    ('Transfer-Encoding: xchunked', chunked(WHOLE, b'Transfer-Encoding: xchunked'), {400, 501}),
    ('Transfer-Encoding: gzip, chunked', chunked(WHOLE, b'Transfer-Encoding: gzip, chunked'), {400, 501}),
    ('chunked with a parameter', chunked(WHOLE, b'Transfer-Encoding: chunked;q=1'), {400, 501}),
    ('chunked and a comma', chunked(WHOLE, b'Transfer-Encoding: chunked,'), {400, 501}),
    ('chunked and a vertical tab', chunked(WHOLE, b'Transfer-Encoding: \x0bchunked'), {400, 501}),
    ('an empty Transfer-Encoding', chunked(WHOLE, b'Transfer-Encoding:'), {400, 501}),
    ('Transfer-Encoding in HTTP/1.0', chunked(WHOLE, first=b'POST /mcp HTTP/1.0'), {400}),
    ('a blank before the colon',
     request(b'Transfer-Encoding : chunked', body=WHOLE), {400}),
    ('a tab before the colon', request(b'Content-Length\t: ' + N, body=PING), {400}),
    ('a folded line',
     request(b'X-Long: a', b' Transfer-Encoding: chunked', body=WHOLE), {400}),
    ('a folded value', request(b'Transfer-Encoding:', b'\tchunked', body=WHOLE), {400}),
    ('a folded first line', request(first=b'POST /mcp HTTP/1.1\r\n Folded: yes'), {400}),
    ('bare LF as line end',
     request(b'Content-Length: ' + N, body=PING).replace(b'\r\n', b'\n'), {400}),
    ('one bare LF', request(b'X-A: b\nContent-Length: ' + N, body=PING), {400}),
    ('a bare CR in a value', request(b'X-A: b\rContent-Length: ' + N, body=PING), {400}),
    ('a bare CR in a name', request(b'X\rA: b', b'Content-Length: ' + N, body=PING), {400}),
    ('CR CR LF', request(b'X-A: b\r', b'Content-Length: ' + N, body=PING), {400}),
    ('NUL in a value', request(b'X-A: a\0b', b'Content-Length: ' + N, body=PING), {400}),
    ('NUL in a name', request(b'X\0A: b', b'Content-Length: ' + N, body=PING), {400}),
    ('NUL in the path', request(first=b'POST /mcp\0 HTTP/1.1'), {400}),
    ('an empty name', request(b': value', b'Content-Length: ' + N, body=PING), {400}),
    ('a line without a colon', request(b'nonsense', b'Content-Length: ' + N, body=PING), {400}),
    ('a name beyond ASCII', request(b'X-\xc3\xa4: b', b'Content-Length: ' + N, body=PING), {400}),
    ('no Host', request(b'Content-Length: ' + N, body=PING, host=None), {400}),
    ('two Hosts', request(b'Host: localhost', b'Content-Length: ' + N, body=PING), {400}),
    ('an empty Host', request(b'Content-Length: ' + N, body=PING, host=b'Host:'), {400, 403}),
    ('a Host that is a path', request(b'Content-Length: ' + N, body=PING, host=b'Host: a/b'), {400}),
    ('a Host with a user', request(b'Content-Length: ' + N, body=PING, host=b'Host: a@127.0.0.1'), {400}),
    ('absolute form', request(first=b'POST http://127.0.0.1/mcp HTTP/1.1'), {400}),
    ('a target without a slash', request(first=b'POST mcp HTTP/1.1'), {400}),
    ('a fragment', request(first=b'POST /mcp#x HTTP/1.1'), {400}),
    ('a target beyond ASCII', request(first=b'POST /mcp\xff HTTP/1.1'), {400}),
    ('two blanks in the request line', request(first=b'POST  /mcp HTTP/1.1'), {400}),
    ('a tab in the request line', request(first=b'POST\t/mcp\tHTTP/1.1'), {400}),
    ('a blank after the version', request(first=b'POST /mcp HTTP/1.1 '), {400, 505}),
    ('no version', request(first=b'POST /mcp'), {400, 505}),
    ('HTTP/0.9', b'GET /mcp\r\n\r\n', {400, 505}),
    ('HTTP/1.2', request(first=b'POST /mcp HTTP/1.2'), {400, 505}),
    ('HTTP/2.0', request(first=b'POST /mcp HTTP/2.0'), {400, 505}),
    ('the preface of HTTP/2', b'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', {400, 501, 505}),
    ('http/1.1 in small letters', request(first=b'POST /mcp http/1.1'), {400, 505}),
    ('a method in small letters', request(first=b'post /mcp HTTP/1.1'), {400, 501}),
    ('a method of our own', request(first=b'SMUGGLE /mcp HTTP/1.1'), {400, 405, 501}),
    ('CONNECT', b'CONNECT 127.0.0.1:80 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n', {400, 405, 501}),
    ('a TLS hello', bytes.fromhex('16030100c4010000c00303') + b'\x55' * 200, {400}),
    ('two session ids',
     request(b'Mcp-Session-Id: a', b'Mcp-Session-Id: b', b'Content-Length: ' + N, body=PING), {400}),
    ('two methods in the header',
     request(b'Mcp-Method: tools/list', b'Content-Length: ' + N, body=PING), {400}),
    ('two content types',
     request(b'Content-Type: text/plain', b'Content-Length: ' + N, body=PING), {400}),
    ('an expectation that nobody meets',
     request(b'Expect: magic', b'Content-Length: ' + N, body=PING), {417}),
    ('a chunk extension', chunked(b'%x;a=b\r\n%s\r\n0\r\n\r\n' % (len(PING), PING)), {400}),
    ('an empty chunk extension', chunked(b'%x;\r\n%s\r\n0\r\n\r\n' % (len(PING), PING)), {400}),
    ('an extension of the last chunk', chunked(chunk(PING) + b'0;a\r\n\r\n'), {400}),
    ('a chunk size beyond 64 bits', chunked(b'10000000000000002\r\n' + PING), {400, 413}),
    ('a chunk size of 64 bits', chunked(b'ffffffffffffffff\r\n' + PING), {400, 413}),
    ('a chunk size beyond the limit', chunked(b'7fffffff\r\n' + PING), {413}),
    ('a negative chunk size', chunked(b'-1\r\n' + PING), {400}),
    ('a chunk size with a plus', chunked(b'+5\r\n' + PING), {400}),
    ('a chunk size with 0x', chunked(b'0x5\r\n' + PING), {400}),
    ('a blank before the chunk size', chunked(b' 5\r\n' + PING), {400}),
    ('a blank after the chunk size', chunked(b'5 \r\n' + PING), {400}),
    ('an empty chunk size', chunked(b'\r\n' + PING), {400}),
    ('a chunk size of many zeros', chunked(b'0' * 5000 + b'5\r\n' + PING), {400}),
    ('a chunk size that ends in LF', chunked(b'%x\n%s\r\n0\r\n\r\n' % (len(PING), PING)), {400}),
    ('a chunk that is longer than it says', chunked(b'2\r\n{}x\r\n0\r\n\r\n'), {400}),
    ('a chunk that ends in LF', chunked(b'%x\r\n%s\n0\r\n\r\n' % (len(PING), PING)), {400}),
    ('a trailer', chunked(chunk(PING) + b'0\r\nX-A: b\r\n\r\n'), {400}),
    ('a trailer with a Content-Length', chunked(chunk(PING) + b'0\r\nContent-Length: 5\r\n\r\n'), {400}),
    ('hundreds of empty lines first', b'\r\n' * 500 + length(N), {400}),
]

# Honest, if unusual: served, and what follows is served as well.
SERVED = [
    ('a Content-Length', length(N)),
    ('a Content-Length with zeros in front', length(b'000' + N)),
    ('blanks around the value', length(b'  ' + N + b'  ')),
    ('one chunk', chunked(WHOLE)),
    ('chunks of one byte', chunked(b''.join(chunk(PING[i:i + 1]) for i in range(len(PING))) + b'0\r\n\r\n')),
    ('Chunked with a capital', chunked(WHOLE, b'TRANSFER-ENCODING: Chunked')),
    ('two empty lines first', b'\r\n\r\n' + length(N)),
    ('an upgrade that we do not do', request(b'Upgrade: h2c', b'Connection: Upgrade', b'Content-Length: ' + N, body=PING)),
    ('an empty field', request(b'X-A:', b'Content-Length: ' + N, body=PING)),
]


def is_refused(arena, data, statuses):
    with Conn(arena.port) as conn:
        conn.send(data + HIDDEN)
        answer = conn.wait_closed()
        tap.check(answer.startswith(b'HTTP/1.1 '), f'no answer but {answer[:200]!r}')
        tap.check(b'Connection: close\r\n' in answer, f'it may go on: {answer[:300]!r}')
        tap.check(b'\nHTTP/1.1 ' not in answer, f'two answers: {answer[:600]!r}')
        status = int(answer.split(b' ')[1])
        tap.check(status in statuses, f'status {status}, wanted {statuses}: {answer[:300]!r}')


def is_refused_bytewise(arena):
    """Where the network cuts the bytes makes no difference: a sample, byte by byte."""
    for name, data, statuses in REFUSED[::6]:
        with Conn(arena.port) as conn:
            for i in range(len(data)):
                if not conn.send(data[i:i + 1]):
                    break
            answer = conn.wait_closed()
            if answer:  # a reset may overtake the answer when we go on sending
                status = int(answer.split(b' ')[1])
                tap.check(status in statuses, f'{name}: {status}, wanted {statuses}')


def is_served(arena, data):
    with Conn(arena.port) as conn:
        conn.send(data + data)
        for _ in range(2):
            response = conn.response()
            tap.same(response.status, 200, 'status')
            tap.check('result' in response.json(), f'no result: {response}')


def nothing_was_hidden(arena):
    """No request behind a refused one was served."""
    contents = Conn(arena.port).result(
        b''.join([head('POST', '/mcp', (*JSON_FIELDS, *modern_fields('resources/read', {'uri': 'live://y'}),
                                        ('Content-Length', len(READ)))), READ]))
    tap.same(contents['contents'][0]['text'], 'live://y changed 0 times', 'live://y')


READ = json.dumps(modern_message('resources/read', {'uri': 'live://y'})).encode()


def main():
    arena = Arena('--request-timeout-ms', 600000)
    for name, data in SERVED:
        arena.test(f'smuggling: {name} is served, twice on one connection', is_served, arena, data)
    for name, data, statuses in REFUSED:
        arena.test(f'smuggling: {name} is refused', is_refused, arena, data, statuses)
    arena.test('smuggling: byte by byte it is refused as well', is_refused_bytewise, arena)
    arena.test('smuggling: nothing behind a refused request was served', nothing_was_hidden, arena)
    arena.end('smuggling')

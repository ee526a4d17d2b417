# SPDX-License-Identifier: MIT
"""Bodies that are no JSON, or JSON that is no message, or a message that makes no sense: an
error of the right kind, in both eras, at a bounded price."""
import json
import random
import time

from lib import tap
from lib.canary import Arena
from lib.server import bounded, laborious
from lib.wire import (Conn, Session, Stream, get, listen, message, modern, modern_fields,
                      modern_message, open_listen, post, session_fields, updated)

PARSE, REQUEST, PARAMS = -32700, -32600, -32602
MIB = 1024 * 1024


def with_id(text):
    """A modern request whose id is this text."""
    whole = json.dumps(modern_message('server/discover', id='ID'))
    return whole.replace('"ID"', text).encode()


def with_extra(text):
    """A modern request with one more member in its params."""
    whole = json.dumps(modern_message('server/discover', {'x': 'EXTRA'}))
    return whole.replace('"EXTRA"', text).encode('utf-8', 'surrogatepass')


def raw_extra(data):
    return with_extra('"EXTRA"').replace(b'EXTRA', data)


# What it is: the body, and the codes that are right for it.
BROKEN = [
    ('nothing', b'', {PARSE}),
    ('blanks', b' ' * MIB, {PARSE}),
    ('a byte order mark', b'\xef\xbb\xbf' + with_extra('1'), {PARSE}),
    ('UTF-16', with_extra('1').decode().encode('utf-16'), {PARSE}),
    ('half a message', with_extra('1')[:-1], {PARSE}),
    ('two messages', with_extra('1') * 2, {PARSE}),
    ('a NUL behind the message', with_extra('1') + b'\0', {PARSE}),
    ('a NUL in a string', raw_extra(b'a\0b'), {PARSE}),
    ('a line break in a string', raw_extra(b'a\nb'), {PARSE}),
    ('an overlong sequence', raw_extra(b'\xc0\xaf'), {PARSE}),
    ('half a sequence', raw_extra(b'\xe2\x82'), {PARSE}),
    ('a surrogate in UTF-8', raw_extra(b'\xed\xa0\x80'), {PARSE}),
    ('beyond Unicode', raw_extra(b'\xf4\x90\x80\x80'), {PARSE}),
    ('Latin-1', raw_extra(b'\xe4\xf6\xfc'), {PARSE}),
    ('a lone high surrogate', with_extra(r'"\ud800"'), {PARSE}),
    ('a lone low surrogate', with_extra(r'"\udc00"'), {PARSE}),
    ('surrogates the wrong way round', with_extra(r'"\udc00\ud800"'), {PARSE}),
    ('an unknown escape', with_extra(r'"\x41"'), {PARSE}),
    ('the same key twice', with_extra('{"a": 1, "a": 2}'), {PARSE, REQUEST}),
    ('the method twice', with_id('1, "method": "tools/list"'), {PARSE, REQUEST}),
    ('the same key in two spellings', with_extra(r'{"a": 1, "\u0061": 2}'), {PARSE, REQUEST}),
    ('NaN', with_extra('NaN'), {PARSE}),
    ('Infinity', with_extra('-Infinity'), {PARSE}),
    ('a number with a zero in front', with_extra('01'), {PARSE}),
    ('a number beyond all bounds', with_extra('1' * 100000), {PARSE, REQUEST}),
    ('a comma too many', with_extra('[1,]'), {PARSE}),
    ('single quotes', with_extra("'a'"), {PARSE}),
    ('a comment', with_extra('1 /* one */'), {PARSE}),
    ('[ a million times', b'[' * MIB, {PARSE, REQUEST}),
    ('{"a": a hundred thousand times', b'{"a":' * 100000, {PARSE, REQUEST}),
    ('arrays 70 deep', with_extra('[' * 70 + ']' * 70), {PARSE, REQUEST}),
    ('1 MiB of {},', b'[' + b'{},' * (MIB // 3) + b'{}]', {PARSE, REQUEST}),
    ('1 MiB of {}, in a request', with_extra('[' + '{},' * (MIB // 3) + '{}]'), {PARSE, REQUEST}),
    ('1 MiB of 1,', with_extra('[' + '1,' * (MIB // 2) + '1]'), {PARSE, REQUEST}),
    ('a string', b'"hello"', {REQUEST}),
    ('a number', b'1', {REQUEST}),
    ('null', b'null', {REQUEST}),
    ('an empty object', b'{}', {REQUEST}),
    ('jsonrpc 1.0', with_extra('1').replace(b'"2.0"', b'"1.0"'), {REQUEST}),
    ('a method that is a number', with_extra('1').replace(b'"server/discover"', b'7'), {REQUEST}),
    ('params that are a string', b'{"jsonrpc": "2.0", "id": 1, "method": "x", "params": "y"}', {REQUEST, PARAMS}),
    ('params that are an array', b'{"jsonrpc": "2.0", "id": 1, "method": "x", "params": [1]}', {REQUEST, PARAMS}),
    ('the id null', with_id('null'), {REQUEST}),
    ('the id 1.5', with_id('1.5'), {REQUEST}),
    ('the id true', with_id('true'), {REQUEST}),
    ('an id that is an object', with_id('{"a": 1}'), {REQUEST}),
    ('an id beyond 64 bits', with_id('9223372036854775808'), {PARSE, REQUEST}),
    ('an id of 100 digits', with_id('9' * 100), {PARSE, REQUEST}),
    ('the id 1e400', with_id('1e400'), {PARSE, REQUEST}),
    ('an id of 1 MiB', with_id('"' + 'i' * MIB + '"'), {REQUEST}),
]


def error_of(response, codes):
    tap.same(response.status, 400, 'status')
    code = response.json()['error']['code']
    tap.check(code in codes, f'code {code}, wanted {codes}: {response}')


def is_refused(arena, body, codes):
    """As a modern request, as one of a session, and to nobody; and then the connection
    serves the next."""
    with Session(arena.port) as session:
        conn = session.conn

        def attack():
            error_of(conn.ask(post(body, modern_fields('server/discover'))), codes)
            error_of(conn.ask(post(body, session.fields())), codes)
            error_of(conn.ask(post(body)), codes)
            tap.same(conn.ask(modern('server/discover')).status, 200, 'status')
        # 28.9 at most, and up to 1.6 that the server has given back to the system before.
        bounded(arena.server, 31, attack)


def noise(arena):
    """Seeded random bytes, alone and inside of an honest message."""
    chance = random.Random(20260728)
    honest = with_extra('"some text"')
    with Conn(arena.port) as conn:
        for _ in range(300):
            body = chance.randbytes(chance.randrange(1, 2000))
            error_of(conn.ask(post(body, modern_fields('server/discover'))), {PARSE, REQUEST})
        for _ in range(700):
            at = chance.randrange(len(honest))
            body = honest[:at] + chance.randbytes(chance.randrange(1, 4)) + honest[at + 1:]
            status = conn.ask(post(body, modern_fields('server/discover'))).status
            tap.check(status in (200, 202, 400, 404), f'status {status} for {body!r}')


def noise_on_the_line(arena):
    """The same where HTTP is expected."""
    chance = random.Random(28072026)
    for _ in range(300):
        with Conn(arena.port) as conn:
            conn.send(chance.randbytes(chance.randrange(1, 4000)) + b'\r\n\r\n')
            conn.shut()
            answer = conn.wait_closed()
            tap.check(answer == b'' or answer[9:12] in (b'400', b'414', b'431', b'501', b'505'),
                      f'{answer[:100]!r}')


HUGE = 'x' * (MIB // 2)
HUGE_REQUESTS = [
    ('resources/read', {'uri': 'live://item/' + HUGE}),
    ('resources/read', {'uri': HUGE}),
    ('resources/subscribe', {'uri': 'live://item/' + HUGE}),
    ('resources/unsubscribe', {'uri': 'live://item/' + HUGE}),
    ('tools/call', {'name': HUGE, 'arguments': {}}),
    ('prompts/get', {'name': HUGE}),
    ('resources/list', {'cursor': HUGE}),
    ('logging/setLevel', {'level': HUGE}),
    (HUGE, {}),
    ('completion/complete', {'ref': {'type': 'ref/resource', 'uri': HUGE},
                             'argument': {'name': HUGE, 'value': HUGE}}),
]


def huge(arena, method, params):
    """Names of half a MiB: answered (an error mostly), and nothing of it is kept."""
    with Session(arena.port) as session:
        def attack():
            for _ in range(4):
                response = session.conn.ask(session.request(method, params))
                tap.same(response.status, 200, 'status')
                tap.check(len(response.body) < 3 * MIB, f'{len(response.body)} bytes of answer')
        bounded(arena.server, 24, attack)


def strange(arena):
    """Messages that are none of a client's business."""
    with Conn(arena.port) as conn:
        for body in ({'jsonrpc': '2.0', 'id': 7, 'result': {}},
                     {'jsonrpc': '2.0', 'id': 7, 'error': {'code': 1, 'message': 'no'}},
                     message('notifications/cancelled', {'requestId': 99}, None),
                     message('notifications/initialized', None, None),
                     message('ping')):
            status = conn.ask(post(body)).status
            tap.check(status in (202, 400), f'status {status} for {body}')
            status = conn.ask(post(body, session_fields('00' + 'f' * 32))).status
            tap.same(status, 404, f'status for {body}')


def content_types(arena):
    with Conn(arena.port) as conn:
        for kind in ('text/plain', 'application/jsonx', 'application/x-www-form-urlencoded', ''):
            body = modern('server/discover').replace(b'application/json\r', kind.encode() + b'\r', 1)
            tap.same(conn.ask(body).status, 415, f'status for {kind!r}')


LAST_EVENTS = ['x', 'x' * 10000, 'g1.0.zzz', 'g1.0.0-99999999999999999999', 'p1.0', '-', '%0d%0a',
               'g99999999.5.880fd0912968ee13-1', 'g' + '1' * 40, 'p4294967295.18446744073709551615',
               'g1.0.880fd0912968ee13-18446744073709551615', '\xff\xfe']


def last_events(arena):
    """A Last-Event-ID that nobody gave: everything counts as changed, or it is refused; the
    stream works afterwards."""
    with Session(arena.port) as session:
        session.subscribe('live://a')
        for last in LAST_EVENTS:
            with Stream(arena.port, get(session.id, (('Last-Event-ID', last),))) as stream:
                status, _ = stream.head()
                tap.check(status == (400 if last.startswith('p') else 200), f'{status} for {last[:40]}')
                if status == 200:
                    arena.server.publish('live://a', metadata={'last': last[:40]})
                    stream.event(wanted=lambda m: updated('live://a')(m)
                                 and m['params']['metadata'].get('last') == last[:40])


def nested(count):
    found = {'metadata.a': {'eq': 1}}
    for _ in range(count):
        found = {'not': found}
    return found


WISHES = [
    {'batchMs': -1}, {'batchMs': 10 ** 18}, {'batchMs': '1'}, {'rateLimitMs': 1.5}, {'nope': 1}, [1], 7,
    {'priority': 10 ** 9}, {'filter': []}, {'filter': nested(30)}, {'filter': {'metadata.a': {'like': 1}}},
    {'filter': {'any': [{'metadata.a': {'eq': i}} for i in range(10000)]}},
    {'filter': {'metadata.' + 'a.' * 500: {'eq': 1}}}, {'filter': {'metadata.a': {'in': list(range(30000))}}},
]


def wishes(arena):
    """Wishes of a subscriber that make no sense, and cursors that nobody gave."""
    with Conn(arena.port) as conn:
        for options in WISHES:
            error_of(conn.ask(listen(['live://a'], options=options)), {PARAMS})
        for cursor in (5, None, {}, 'x' * 100):
            error_of(conn.ask(modern('subscriptions/listen', {'notifications': {
                'resourceSubscriptions': ['live://a']}}, meta={'dev.tidings/cursor': cursor})), {PARAMS})
        for uris in ('live://a', [1], [None], {'a': 1}, [['live://a']]):
            error_of(conn.ask(listen(uris)), {PARAMS})


def greedy_filters(arena):
    """Filters that are dear to evaluate, 300 different ones, on the largest metadata."""
    streams = [open_listen(arena.port, ['live://a'], i, {'filter': {'metadata.text': {
        'glob': '*a' * (50 + i % 50) + '*b' + str(i)}}}) for i in range(150)]
    streams += [open_listen(arena.port, ['live://a'], i, {'filter': {'metadata.text': {
        'contains': 'a' * (500 + i) + 'b'}}}) for i in range(150)]

    def attack():
        for _ in range(10):
            arena.server.publish('live://a', metadata={'text': 'a' * 15000})
        arena.server.wait_counters('all is filtered', lambda c: c['filtered'] >= 3000)
    laborious(arena.server, 2, attack)
    for stream in streams:
        stream.close()


def next_block(conn):
    """Of an event stream without chunks; signs of life may come at any time."""
    until = time.monotonic() + tap.WAIT
    while True:
        block = conn.up_to(b'\n\n', until)
        if not block.startswith(b':'):
            return block


def old_http(arena):
    """HTTP/1.0: a stream without chunks, and a connection that ends with its answer."""
    with Conn(arena.port) as conn:
        conn.send(modern('server/discover').replace(b'HTTP/1.1', b'HTTP/1.0', 1))
        status, fields = conn.head()
        tap.check(status == 200 and 'transfer-encoding' not in fields, f'{status} {fields}')
        tap.check(b'result' in conn.wait_closed(), 'result')
    with Conn(arena.port) as conn:
        conn.send(listen(['live://a']).replace(b'HTTP/1.1', b'HTTP/1.0', 1))
        status, fields = conn.head()
        tap.check(status == 200 and 'transfer-encoding' not in fields, f'{status} {fields}')
        tap.check(next_block(conn).startswith(b'data: {'), 'an event')
        arena.server.publish('live://a', metadata={'n': 1})
        tap.check(next_block(conn).startswith(b'data: {'), 'an event')


def main():
    arena = Arena()
    for name, body, codes in BROKEN:
        arena.test(f'texts: {name}', is_refused, arena, body, codes)
    for method, params in HUGE_REQUESTS:
        arena.test(f'texts: a huge name in {method[:30]}', huge, arena, method, params)
    arena.test('texts: noise where JSON is expected', noise, arena)
    arena.test('texts: noise where HTTP is expected', noise_on_the_line, arena)
    arena.test('texts: messages that are none of a client\'s business', strange, arena)
    arena.test('texts: event ids that nobody gave', last_events, arena)
    arena.test('texts: wishes that make no sense', wishes, arena)
    arena.test('texts: filters that are dear', greedy_filters, arena)
    arena.test('texts: HTTP/1.0', old_http, arena)
    arena.test('texts: other content types', content_types, arena)
    arena.end('texts')

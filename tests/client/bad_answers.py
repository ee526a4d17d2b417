# SPDX-License-Identifier: MIT
"""Answers that never come, never end, or are not what they should be."""
import json
import threading
import time

from bad_server import Server, event, head, json_body, raw, silence
from driver import tap
from scene import A, FAST, both, scene

CALL = {'tool': 'act'}

# The same with a limit of its own, so that all else has the time that it takes.
BRIEF_CALL = {'method': 'tools/call', 'params': {'name': 'act', 'arguments': {}},
              'timeout_ms': 1500}


def never_connects():
    """A server that takes connections, and that is all."""
    server = Server()
    server.on('*', silence)
    with scene(server=server, connect=False) as (_, client):
        began = time.monotonic()
        client.fails('connect', 'TDG_ETIMEDOUT', url=server.url,
                     **{**FAST, 'connect_timeout_ms': 2000, 'timeout_ms': 1000})
        tap.check(time.monotonic() - began < 30, 'it took too long')


def never_answers(era, action):
    """The request is given up, and the server is told; the next one is fine."""
    with scene(era) as (server, client):
        left = threading.Event()

        def quiet(request):
            action(request)
            request.conn.wait_closed()
            left.set()
            return False
        server.on('tools/call', quiet, times=1)
        client.fails('request', 'TDG_ETIMEDOUT', **BRIEF_CALL)
        if era == 'legacy':
            request = server.seen('tools/call')[0]
            said = server.request('notifications/cancelled')
            tap.same(said.params.get('requestId'), request.id, 'what was cancelled')
        else:
            tap.check(left.wait(tap.WAIT), 'the connection was closed')
        client.does('call', **CALL)
        client.updated(A, version=server.change(A))
        client.none('down', since=0)


def dribbles(era):
    """Slow, and still an answer."""
    def slowly(request):
        body = json.dumps({'jsonrpc': '2.0', 'id': request.id, 'result': {
            'resultType': 'complete', 'content': []}}).encode()
        data = head(200, [('Content-Type', 'application/json'), ('Content-Length', len(body))]) + body
        for byte in data:
            if not request.conn.send(bytes([byte])):
                return False
            time.sleep(0.005)
        return True
    with scene(era) as (server, client):
        server.on('tools/call', slowly)
        client.does('call', **CALL)


def dribbles_for_ever(era):
    """A byte now and then is not an answer: the time for the request counts."""
    def on_and_on(request):
        request.conn.send(head(200, [('Content-Type', 'application/json'),
                                     ('Content-Length', 10**6)]))
        while request.conn.send(b' '):
            time.sleep(0.05)
        return False
    with scene(era) as (server, client):
        server.on('tools/call', on_and_on)
        client.fails('request', 'TDG_ETIMEDOUT', **BRIEF_CALL)
        client.does('ping')


NONSENSE = [
    ('no JSON', json_body(b'what?')),
    ('nothing', json_body(b'')),
    ('half of it', json_body(b'{"jsonrpc": "2.0", "id":')),
    ('an array', json_body(b'[]')),
    ('a number', json_body(b'42')),
    ('an object that is no message', json_body({'hello': 'world'})),
    ('HTML', json_body(b'<html><body>Welcome</body></html>', 'text/html')),
    ('a page as if it were JSON', json_body(b'<html>')),
    ('another version of JSON-RPC', lambda request: json_body(
        {'jsonrpc': '1.0', 'id': request.id, 'result': {}})(request)),
    ('the answer to another request', json_body({'jsonrpc': '2.0', 'id': 'who', 'result': {}})),
    ('a result that is no object', lambda request: json_body(
        {'jsonrpc': '2.0', 'id': request.id, 'result': 7})(request)),
    ('neither result nor error', lambda request: json_body(
        {'jsonrpc': '2.0', 'id': request.id})(request)),
    ('an error that is a text', lambda request: json_body(
        {'jsonrpc': '2.0', 'id': request.id, 'error': 'no'})(request)),
    ('invalid UTF-8', json_body(b'{"jsonrpc":"2.0","id":"\xff"}')),
    ('very deep', json_body(b'{"a":' * 5000 + b'1' + b'}' * 5000)),
    ('a key twice', lambda request: json_body(
        b'{"jsonrpc":"2.0","id":%s,"id":%s,"result":{}}' % (
            (json.dumps(request.id).encode(),) * 2))(request)),
    ('a stream of nonsense', json_body(b'data: what?\n\n', 'text/event-stream')),
    ('a stream without an answer', json_body(b': hello\n\n', 'text/event-stream')),
    ('no content', json_body(b'', code=204)),
    ('accepted', json_body(b'', code=202)),
    ('no HTTP', raw(b'SSH-2.0-OpenSSH_9.2\r\n')),
    ('a head without end', raw(b'HTTP/1.1 200 OK\r\n' + b'X-A: aaaaaaaaaaaaaaaaaaaaa\r\n' * 10000)),
    ('a line of a head without end', raw(b'HTTP/1.1 200 OK\r\nX-A: ' + b'a' * 300000)),
    ('gzip', json_body(b'\x1f\x8b\x08\x00\x00\x00\x00\x00', 'application/json')),
]
BAD = {'TDG_EJSON', 'TDG_EUNREACHABLE', 'TDG_ETIMEDOUT', 'TDG_ETOOLARGE'}
ALSO = {
    'an error that is a text': {'TDG_EREFUSED'},  # what it is, though not how it should be said
    'a line of a head without end': {'TDG_ENOMEM'},  # libcurl's word for more than it takes
}


def nonsense(era):
    """Each is an error of that request, and nothing else suffers."""
    with scene(era, timeout_ms=5000) as (server, client):
        for what, action in NONSENSE:
            rule = server.on('tools/call', action)
            before = len(server.seen('tools/call'))
            answer = client.ask('call', **CALL)
            tap.check(answer['code'] in BAD | ALSO.get(what, set()), f'{what}: {answer}')
            tap.check(answer['message'], f'{what}: it says what happened')
            tap.same(len(server.seen('tools/call')) - before, 1, f'{what}: calls')
            server.off(rule)
            client.does('call', **CALL)
        client.updated(A, version=server.change(A))
        client.none('down', since=0)


def nonsense_at_connect():
    """Whatever the first answer is, connecting fails in time and says why."""
    for what, action in NONSENSE:
        server = Server()
        server.on('*', action)
        with scene(server=server, connect=False) as (_, client):
            answer = client.ask('connect', url=server.url,
                                **{**FAST, 'connect_timeout_ms': 4000, 'timeout_ms': 2000})
            tap.check(answer['code'] not in {'TDG_OK', 'TDG_EINVAL', 'TDG_ENOMEM'} - ALSO.get(
                what, set()), f'{what}: {answer}')
            tap.check(answer['message'], f'{what}: it says what happened')
            tap.check(len(server.requests) <= 8, f'{what}: {len(server.requests)} requests')


def too_large(era):
    """Is refused before it is all there; what fits is taken."""
    with scene(era, max_message_bytes=100000) as (server, client):
        def large(size):
            def action(request):
                return server.result(request, {'content': [{'type': 'text', 'text': 'x' * size}]})
            return action
        server.on('tools/call', large(90000), times=1)
        client.does('call', **CALL)
        server.on('tools/call', large(200000), times=1)
        client.fails('call', 'TDG_ETOOLARGE', **CALL)

        def endless(request):
            request.conn.send(head(200, [('Content-Type', 'application/json'),
                                         ('Connection', 'close')]) + b'{"a":"')
            while request.conn.send(b'x' * 65536):
                pass
            return False
        server.on('tools/call', endless, times=1)
        client.fails('call', 'TDG_ETOOLARGE', **CALL)
        client.does('call', **CALL)
        tap.note(f'peak memory {client.driver.memory() / 2**20:.0f} MiB')


def by_stream(era):
    """An answer may come as a stream, after other things."""
    def action(request):
        answer = {'jsonrpc': '2.0', 'id': request.id,
                  'result': {'resultType': 'complete', 'content': []}}
        data = event({'jsonrpc': '2.0', 'method': 'notifications/progress', 'params': {
            'progressToken': 1, 'progress': 1}}) + b': alive\n\n' + event(answer)
        request.conn.send(head(200, [('Content-Type', 'text/event-stream; charset=utf-8'),
                                     ('Content-Length', len(data))]) + data)
        return True
    with scene(era) as (server, client):
        server.on('tools/call', action)
        client.does('call', **CALL)


def without_keep_alive(era, **how):
    """HTTP/1.0, or a connection for each request: everything still works."""
    server = Server(era, True, **how)
    with scene(server=server, uris=()) as (server, client):
        client.does('subscribe', uri=A)
        server.one_stream([A])
        for _ in range(3):
            client.updated(A, version=server.change(A))
            client.does('read', uri=A)
            client.does('call', **CALL)
        tap.same(len(client.does('list', list='resources')['result']), 3, 'resources')
        number = server.change(A, tell=False)
        server.one_stream().cut()
        client.event('up')
        client.updated(A, version=number)


def idle_connections_close(era):
    """A connection that was closed between two requests is no error of the next."""
    with scene(era) as (server, client):
        for _ in range(20):
            client.does('read', uri=A)
            request = server.seen('resources/read')[-1]
            request.conn.cut()
            before = len(server.seen('tools/call'))
            answer = client.ask('call', **CALL)
            tap.check(answer['code'] in ('TDG_OK', 'TDG_EUNREACHABLE'), f'{answer}')
            tap.check(len(server.seen('tools/call')) - before <= 1, 'never twice')


def the_old_pair():
    """2024-11-05: found, subscribed, lost, found again."""
    server = Server('legacy', False, sse=True)
    with scene(server=server, uris=()) as (server, client):
        facts = client.does('facts')
        tap.same((facts['transport'], facts['protocol']), ('sse', '2024-11-05'), 'what was found')
        client.does('subscribe', uri=A)
        server.change(A)
        client.updated(A)
        client.does('read', uri=A)
        server.one_stream().cut()
        client.returns()
        client.updated(A, maybe=True)
        server.one_stream([A])
        client.now()
        server.change(A)
        client.updated(A)


def bad_endpoint(data):
    """2024-11-05: an endpoint that leads elsewhere is not used."""
    def test():
        other = Server()
        server = Server('legacy', False, sse=True)

        def lead_away(request):
            request.conn.send(head(200, [('Content-Type', 'text/event-stream')]) + event(
                data(other), name='endpoint'))
            return silence(request)
        server.on('GET', lead_away)
        try:
            with scene(server=server, connect=False) as (_, client):
                answer = client.ask('connect', url=server.url,
                                    **{**FAST, 'connect_timeout_ms': 3000, 'timeout_ms': 1000})
                tap.check(answer['code'] != 'TDG_OK', f'{answer}')
                tap.same(other.requests, [], 'what the other server has seen')
        finally:
            other.close()
    return test


def closed_while_waiting(era):
    """Calls that wait end when the client is closed."""
    with scene(era) as (server, client):
        server.on('tools/call', silence)
        server.on('resources/read', silence)
        waiting = [client.start('call', **CALL), client.start('read', uri=A)]
        server.request('tools/call')
        server.request('resources/read')
        client.does('close')
        for id in waiting:
            tap.same(client.driver.answer(id)['code'], 'TDG_EENDED', 'what waits')


def asks_us(era='legacy'):
    """Requests of the server: ping is answered, the rest as the program says."""
    with scene(era, False, input={'roots/list': {'roots': []}}) as (server, client):
        stream = server.one_stream()
        asked = [('ping', None), ('roots/list', None), ('elicitation/create', {'message': 'x'}),
                 ('sampling/createMessage', {}), ('what/ever', {})]
        for number, (method, params) in enumerate(asked):
            stream.send(event({'jsonrpc': '2.0', 'id': f'q{number}', 'method': method,
                               **({} if params is None else {'params': params})}))
        answers = {}

        def all_there():
            for request in server.seen('response'):
                answers[request.body['id']] = request.body
            return len(answers) == len(asked)
        server.wait(all_there, 'answers to all that was asked')
        tap.same(answers['q0'].get('result'), {}, 'ping')
        tap.same(answers['q1'].get('result'), {'roots': []}, 'roots/list')
        tap.same(answers['q2'].get('result'), {'action': 'decline'}, 'elicitation/create')
        tap.check('error' in answers['q3'], f'sampling: {answers["q3"]}')
        tap.same(answers['q4']['error']['code'], -32601, 'what nobody knows')


def main():
    tap.run('answers: a server that says nothing', never_connects)
    both('answers', 'never', never_answers, action=lambda request: None)
    both('answers', 'the head, and then nothing', never_answers, action=lambda request:
         request.conn.send(head(200, [('Content-Type', 'application/json'),
                                      ('Content-Length', 100)])))
    both('answers', 'a stream, and then nothing', never_answers, action=lambda request:
         request.conn.send(head(200, [('Content-Type', 'text/event-stream')])))
    both('answers', 'byte by byte', dribbles)
    both('answers', 'byte by byte for ever', dribbles_for_ever)
    both('answers', 'nonsense', nonsense)
    tap.run('answers: nonsense from the start', nonsense_at_connect)
    both('answers', 'too large', too_large)
    both('answers', 'as a stream', by_stream)
    both('answers', 'HTTP/1.0', without_keep_alive, http10=True)
    both('answers', 'a connection for each', without_keep_alive, closing=True)
    both('answers', 'connections that close between requests', idle_connections_close)
    tap.run('answers: the pair of endpoints of 2024-11-05', the_old_pair)
    tap.run('answers: an endpoint at another server', bad_endpoint(lambda other: other.url))
    tap.run('answers: an endpoint that is none', bad_endpoint(lambda other: 'file:///etc/passwd'))
    both('answers', 'closed while something waits', closed_while_waiting)
    tap.run('answers: requests of the server', asks_us)

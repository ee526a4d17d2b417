# SPDX-License-Identifier: MIT
"""HTTP that says no, later, elsewhere, or who are you."""
import os
import tempfile
import time

from bad_server import Server, hang_up, silence, status
from driver import tap
from scene import A, B, FAST, WHILE_AWAY, both, listen_kind, scene


def nobody_there():
    server = Server()
    server.close()
    with scene(server=server, connect=False) as (_, client):
        answer = client.fails('connect', 'TDG_EUNREACHABLE', url=server.url, **FAST)
        tap.check('127.0.0.1' in answer['message'], f'it says where: {answer}')


def at_connect(code, wanted, requests=1):
    def test():
        server = Server()
        server.on('*', status(code))
        with scene(server=server, connect=False) as (_, client):
            answer = client.fails('connect', wanted, url=server.url, **FAST)
            tap.same(answer.get('http_status'), code, 'the status that is told')
            tap.check(len(server.requests) <= requests, f'requests: {server.requests}')
    return test


class AtTheHead(Server):
    """Answers requests of a kind when their head has come, and closes with the body unread: the
    answer and a reset arrive in the same moment."""

    def __init__(self, kind):
        self.kind = kind
        super().__init__()

    def adopt(self, conn):
        read = conn.read_request

        def read_head():
            while b'\r\n\r\n' not in conn.data:
                piece = conn.sock.recv(1)
                if not piece:
                    return None
                conn.data += piece
            if self.kind not in conn.data:
                return read()
            conn.send(b'HTTP/1.1 401 Who\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}')
            conn.sock.close()
            return None
        conn.read_request = read_head
        return conn


def unread_request():
    """200 clients, and each has to see the answer."""
    server = AtTheHead(b'Mcp-Method: server/discover')
    with scene(server=server, connect=False) as (_, client):
        for _ in range(200):
            answer = client.fails('connect', 'TDG_EREFUSED', url=server.url, **FAST)
            tap.same(answer.get('http_status'), 401, 'the status that is told')


def unread_body(size):
    """The same with a body that may not go out in one piece."""
    server = AtTheHead(b'Mcp-Method: tools/call')
    with scene(server=server) as (_, client):
        for _ in range(20):
            answer = client.fails('call', 'TDG_EREFUSED', tool='act', arguments={'x': 'y' * size})
            tap.same(answer.get('http_status'), 401, 'the status that is told')


def patience(code, header):
    """A server that is not there yet is tried again, not sooner than it wants."""
    def test():
        server = Server()
        server.on('*', status(code, **({'Retry_After': 1} if header else {})), times=2)
        with scene(server=server, patient=True) as (_, client):
            client.updated(A, version=server.change(A))
            waits = [b.at - a.at for a, b in zip(server.requests, server.requests[1:])][:2]
            if header:
                tap.check(min(waits) >= 0.95, f'waits: {waits}')
    return test


def patient_until_it_is_there():
    server = Server()
    server.close()
    with scene(server=server, connect=False) as (_, client):
        waiting = client.start('connect', url=server.url, **{**FAST, 'retry_max_ms': 200},
                               patient=True)
        time.sleep(1)
        server.open()
        tap.same(client.driver.answer(waiting)['code'], 'TDG_OK', 'connect')


def patient_in_vain():
    server = Server()
    server.close()
    with scene(server=server, connect=False) as (_, client):
        began = time.monotonic()
        client.fails('connect', 'TDG_EUNREACHABLE', 'TDG_ETIMEDOUT', url=server.url,
                     **{**FAST, 'retry_ms': 100, 'retry_max_ms': 200, 'connect_timeout_ms': 1500},
                     patient=True)
        tap.check(time.monotonic() - began >= 1.0, 'it was patient')


def unavailable_later(era):
    """503 with Retry-After when it comes back."""
    with scene(era) as (server, client):
        server.on(listen_kind(era), status(503, Retry_After=2), times=1)
        number = server.change(A, tell=False)
        server.one_stream().cut()
        first = server.request(listen_kind(era), 2)
        second = server.request(listen_kind(era), 3)
        tap.check(second.at - first.at >= 1.9, f'it waited {second.at - first.at:.2f} s')
        client.returns()
        client.updated(A, version=number)


def errors_later(era):
    """500, 502, 429 and no connection when it comes back: it keeps trying."""
    with scene(era) as (server, client):
        for code in (500, 502, 429):
            server.on(listen_kind(era), status(code), times=1)
        server.on(listen_kind(era), hang_up, times=1)
        number = server.change(A, tell=False)
        server.one_stream().cut()
        client.returns()
        client.updated(A, version=number)
        client.none('down')


def one_request_fails(era, code):
    """Of a request it is an error of that request, and of nothing else."""
    with scene(era) as (server, client):
        server.on('tools/call', status(code))
        answer = client.fails('call', 'TDG_EUNREACHABLE', 'TDG_EREFUSED', tool='act')
        tap.same(answer.get('http_status'), code, 'the status that is told')
        tap.same(len(server.seen('tools/call')), 1, 'calls')
        client.does('read', uri=A)
        client.updated(A, version=server.change(A))
        client.none('down', since=0)


def session_gone(ours):
    """404: a new session, subscribed again; a request that met it is sent again in the new."""
    with scene('legacy', ours, (A, B)) as (server, client):
        number = server.change(A, tell=False)
        server.forget()
        client.does('read', uri=A)
        server.request('initialize', 2)
        server.request('resources/subscribe', 4)
        # A server of ours tells it, too, and both may have become one event.
        client.updated(A) if ours else client.updated(A, maybe=True)
        server.wait(lambda: any({A, B} <= s.wanted and s.request.session in server.sessions
                                for s in server.streams), 'a stream of the new session')
        client.now()
        number = server.change(B)
        client.updated(B, version=number) if ours else client.updated(B)
        tap.same(client.does('counts')['initialised'], 2, 'sessions')
        for request in server.requests[-3:]:
            tap.check(request.session != 's1', f'the old session is not used: {request}')


def session_gone_for_the_stream():
    with scene('legacy', False, (A,)) as (server, client):
        server.forget()
        server.one_stream().cut()
        client.returns()
        client.updated(A, maybe=True)
        tap.same(len(server.seen('initialize')), 2, 'sessions')


def another_server_answers():
    """The second initialize is answered differently: without subscriptions."""
    with scene('legacy', False, (A,)) as (server, client):
        server.forget()
        server.capabilities = {'tools': {}}
        server.on('resources/subscribe', lambda request: server.error(
            request, -32601, 'no such method'))
        server.one_stream().cut()
        client.event('lost', uri=A)
        client.does('list', list='tools')
        tap.same(client.does('subscriptions')['uris'], [], 'what is subscribed')


def replaced_by_the_other_era(first, second):
    """The server was replaced by one of the other era, behind the same address."""
    with scene(first, False, (A,), **WHILE_AWAY) as (server, client):
        server.close()
        server.era = second
        server.forget()
        server.open()
        client.event('up')
        client.updated(A, maybe=True)
        tap.same(client.does('facts')['era'], second, 'the era')
        server.one_stream([A])
        client.now()
        server.change(A)
        client.updated(A)


def who_are_you(code):
    def test():
        with scene(connect=False) as (server, client):
            server.on('*', status(code, WWW_Authenticate='Bearer realm="x"'))
            answer = client.fails('connect', 'TDG_EREFUSED', url=server.url, **FAST, patient=True)
            tap.same(answer.get('http_status'), code, 'the status that is told')
            tap.same(len(server.requests), 1, 'requests')
    return test


def wants_token(token):
    def action(request):
        if request.fields.get('authorization') == f'Bearer {token}':
            return None
        return request.conn.server.reply(request, 401)
    return action


def token_renewed(era):
    """A token that is refused is read again, once; what is in the file then is used."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, 'token')

        def write(text):
            with open(path, 'w', encoding='ascii') as file:
                file.write(text + '\n')
        write('one')
        server = Server(era)
        rule = server.on('*', wants_token('one'))
        with scene(server=server, token_file=path) as (server, client):
            server.off(rule)
            rule = server.on('*', wants_token('two'))
            write('two')
            client.does('read', uri=A)
            server.one_stream().cut()
            client.event('up')
            server.off(rule)
            server.on('*', wants_token('three'))
            before = len(server.requests)
            server.one_stream().cut()
            closed = client.event('closed')
            tap.same(closed['code'], 'TDG_EREFUSED', 'why it gave up')
            tap.check(len(server.requests) - before <= 4,
                      f'after that it does not insist: {server.requests[before:]}')
            client.event('ended')
            for line in client.logs:
                tap.check('two' not in line['line'], f'a secret in the log: {line}')


def secrets_stay():
    """Headers and tokens are in no message."""
    with scene(connect=False) as (server, client):
        server.on('*', status(500, b'no'))
        answer = client.fails('connect', 'TDG_EUNREACHABLE', url=server.url, **FAST,
                              headers=['X-Key: s3cret', 'Authorization: Bearer s3cret'])
        tap.same(server.requests[0].fields.get('x-key'), 's3cret', 'the header that was sent')
        tap.check('s3cret' not in str(answer) + str(client.logs), f'{answer} {client.logs}')


# ---- Redirects

def moved(code, location, times=None):
    def rule(server):
        def action(request):
            if request.path.startswith('/mcp'):
                return server.reply(request, code, fields=[('Location', location(server))])
            return None
        server.on('*', action, times=times)
    return rule


def same_origin(code):
    """Followed, with the body and the method."""
    def test():
        server = Server()
        moved(code, lambda server: '/other')(server)
        with scene(server=server) as (server, client):
            client.updated(A, version=server.change(A))
            client.does('call', tool='act')
            kinds = [r.kind for r in server.requests if r.path == '/other']
            tap.check({'server/discover', 'subscriptions/listen', 'tools/call'} <= set(kinds),
                      f'what came there: {kinds}')
            if code == 308:
                late = [r for r in server.requests[2:] if r.path != '/other']
                tap.same(late, [], 'what still went to the old place')
    return test


def not_followed(code, location):
    def test():
        other = Server()
        server = Server()
        moved(code, lambda _: location or other.url)(server)
        try:
            with scene(server=server, connect=False) as (server, client):
                answer = client.ask('connect', url=server.url, **FAST,
                                    headers=['X-Key: s3cret'])
                tap.check(answer['code'] in ('TDG_EREFUSED', 'TDG_ENOTSUP', 'TDG_EJSON', 'TDG_EUNREACHABLE'),
                          f'connect: {answer}')
                tap.check(answer.get('http_status') == code or str(code) in answer['message'],
                          f'it says why: {answer}')
                tap.same(other.requests, [], 'what the other server has seen')
                tap.check(len(server.requests) <= 4, f'requests: {server.requests}')
        finally:
            other.close()
    return test


def loop():
    server = Server()
    moved(307, lambda server: '/mcp')(server)
    with scene(server=server, connect=False) as (server, client):
        answer = client.ask('connect', url=server.url, **FAST)
        tap.check(answer['code'] != 'TDG_OK', f'connect: {answer}')
        tap.check(len(server.requests) <= 3 * 6, f'{len(server.requests)} requests')


def redirected_answers_forever(era):
    """A request that is sent in circles is an error of that request."""
    with scene(era) as (server, client):
        server.on('tools/call', lambda r: server.reply(r, 307, fields=[('Location', r.path)]))
        client.fails('call', 'TDG_EREFUSED', 'TDG_EUNREACHABLE', 'TDG_EJSON', tool='act')
        tap.check(len(server.seen('tools/call')) <= 6, f'{len(server.seen("tools/call"))} calls')
        client.does('ping')


def one_life(era):
    with scene(era, one_life=True) as (server, client):
        server.close()
        client.event('closed')
        client.event('ended')
        client.fails('ping', 'TDG_EENDED', 'TDG_EUNREACHABLE')


def goodbye_without_answer(era):
    """Closing does not wait for a server that says nothing."""
    with scene(era) as (server, client):
        server.on('DELETE', silence)
        server.on('resources/unsubscribe', silence)
        began = time.monotonic()
        client.does('close')
        tap.check(time.monotonic() - began < 20, 'it takes its time')
        if era == 'legacy':
            server.request('DELETE')


def main():
    tap.run('statuses: nobody is there', nobody_there)
    for code in (500, 502, 503, 429):
        tap.run(f'statuses: {code} to the first request', at_connect(code, 'TDG_EUNREACHABLE'))
    for code in (503, 429, 500):
        tap.run(f'statuses: {code} and patience', patience(code, False))
    for code in (503, 429):
        tap.run(f'statuses: {code} with Retry-After, and patience', patience(code, True))
    tap.run('statuses: 401 to a request that was not read', unread_request)
    for size in (100, 50000, 1000000):
        tap.run(f'statuses: 401 to a body of {size} bytes that was not read', unread_body, size)
    tap.run('statuses: patience until the server is there', patient_until_it_is_there)
    tap.run('statuses: patience has an end', patient_in_vain)
    both('statuses', '503 with Retry-After when it comes back', unavailable_later)
    both('statuses', 'other errors when it comes back', errors_later)
    for code in (500, 503, 429):
        both('statuses', f'{code} to one request', one_request_fails, code=code)
    for ours in (True, False):
        tap.run(f'statuses: 404, the session is gone ({"ours" if ours else "a stranger"})',
                session_gone, ours)
    tap.run('statuses: 404 to the stream', session_gone_for_the_stream)
    tap.run('statuses: a second initialize is answered differently', another_server_answers)
    tap.run('statuses: a modern server takes the place of a legacy one',
            replaced_by_the_other_era, 'legacy', 'modern')
    tap.run('statuses: a legacy server takes the place of a modern one',
            replaced_by_the_other_era, 'modern', 'legacy')
    for code in (401, 403):
        tap.run(f'statuses: {code} is final', who_are_you(code))
    both('statuses', 'a token is read again', token_renewed)
    tap.run('statuses: secrets are in no message', secrets_stay)
    for code in (307, 308):
        tap.run(f'statuses: {code} to the same origin', same_origin(code))
        tap.run(f'statuses: {code} to another origin', not_followed(code, None))
    for code in (301, 302, 303):
        tap.run(f'statuses: {code} is not followed', not_followed(code, '/other'))
    tap.run('statuses: 307 to what is no web address', not_followed(307, 'file:///etc/passwd'))
    tap.run('statuses: redirects in a circle', loop)
    both('statuses', 'a request that is sent in circles', redirected_answers_forever)
    both('statuses', 'one life', one_life)
    both('statuses', 'a goodbye without an answer', goodbye_without_answer)

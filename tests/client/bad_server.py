# SPDX-License-Identifier: MIT
"""A server of either era by hand, over raw sockets, that behaves until a test says otherwise.

Every request is written down in `requests`, with its time. Before it is answered, the rules of
the test are asked in turn; a rule that deals with it returns true. `ours` says whether the server
gives versions and cursors as tidings does, or nothing, as most others do.

    server = Server('modern', ours=False)
    server.on('resources/read', status(503, Retry_After=2), times=1)
    server.change('test://a')            # tells whoever is subscribed
    server.streams[-1].cut()             # and this is how connections break
"""
import contextlib
import itertools
import json
import select
import socket
import struct
import threading
import time

from driver import tap
from lib.port import bound, port_of

MODERN, LEGACY = '2026-07-28', '2025-11-25'
SUBSCRIPTION = 'io.modelcontextprotocol/subscriptionId'
URIS = ['test://a', 'test://b', 'test://c']


class Request:
    def __init__(self, conn, method, path, fields, body):
        self.conn, self.method, self.path, self.fields = conn, method, path, fields
        self.body = json.loads(body) if body else None
        self.at = time.monotonic()
        single = self.body if isinstance(self.body, dict) else {}
        self.id, self.params = single.get('id'), single.get('params') or {}
        self.meta = self.params.get('_meta') or {}
        # What rules go by: the method of the message, or GET or DELETE.
        self.kind = single.get('method', 'response') if method == 'POST' else method
        self.session = fields.get('mcp-session-id')

    def __repr__(self):
        return f'<{self.kind} {self.path} {self.body or ""}>'


class Conn:
    """The server's end of a connection."""

    def __init__(self, server, sock):
        self.server, self.sock, self.data = server, sock, b''
        self.lock = threading.Lock()

    def send(self, data):
        """As it is. False when the client has gone."""
        try:
            with self.lock:
                self.sock.sendall(data)
            return True
        except OSError:
            return False

    def read_request(self):
        while b'\r\n\r\n' not in self.data:
            piece = self.sock.recv(65536)
            if not piece:
                return None
            self.data += piece
        head, _, self.data = self.data.partition(b'\r\n\r\n')
        lines = head.decode('latin-1').split('\r\n')
        method, path, _ = lines[0].split(' ', 2)
        fields = {name.lower(): value.strip()
                  for name, _, value in (line.partition(':') for line in lines[1:])}
        length = int(fields.get('content-length', 0))
        while len(self.data) < length:
            piece = self.sock.recv(65536)
            if not piece:
                return None
            self.data += piece
        body, self.data = self.data[:length], self.data[length:]
        return Request(self, method, path, fields, body)

    def cut(self, reset=False):
        """Ends the connection at once; with `reset` in the hard way."""
        try:
            if reset:
                self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER,
                                     struct.pack('ii', 1, 0))
                self.sock.close()
            self.sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass

    def wait_closed(self, over=lambda: False):
        """Until the client goes, or we do; or until it is over, and the connection is free for
        another request: then True."""
        try:
            while not over():
                if select.select([self.sock], [], [], 0.02)[0]:
                    piece = self.sock.recv(65536)
                    if not piece:
                        return False
                    self.data += piece
            return True
        except (OSError, ValueError):
            return False

    def serve(self):
        try:
            while True:
                request = self.read_request()
                if request is None or self.server.listener is None:  # nobody is there
                    break
                self.server.took(request)
                if self.server.answer(request) is False or self.server.http10:
                    break
        except (OSError, ValueError):
            pass
        finally:
            with self.server.changed:
                self.server.open_conns.discard(self)
            self.cut()
            self.sock.close()


def head(status, fields=(), version='HTTP/1.1'):
    lines = [f'{version} {status} Something']
    lines += [f'{name}: {value}' for name, value in fields]
    return ('\r\n'.join(lines) + '\r\n\r\n').encode('latin-1')


def event(message, id=None, retry=None, name=None):
    """An event of a stream, as bytes."""
    text = ''
    if retry is not None:
        text += f'retry: {retry}\n'
    if id is not None:
        text += f'id: {id}\n'
    if name is not None:
        text += f'event: {name}\n'
    data = message if isinstance(message, str) else json.dumps(message)
    return (text + f'data: {data}\n\n').encode()


class Stream:
    """An open stream of events: a listen, the GET of a session, or of 2024-11-05."""

    def __init__(self, request, wanted, cursor, tag=None):
        self.request, self.conn, self.server = request, request.conn, request.conn.server
        self.wanted = wanted  # URIs; a session's own set
        self.cursor = cursor
        self.tag = tag  # modern: the subscription's id
        self.chunked = not (self.server.http10 or self.server.closing)
        self.count, self.over = 0, False

    def begin(self):
        fields = [('Content-Type', 'text/event-stream'), ('Cache-Control', 'no-cache')]
        fields += [('Transfer-Encoding', 'chunked')] if self.chunked else \
            [('Connection', 'close')]
        return self.conn.send(head(200, fields, self.server.version))

    def framed(self, data):
        return b'%x\r\n%s\r\n' % (len(data), data) if self.chunked else data

    def send(self, data):
        return self.conn.send(self.framed(data))

    def meta(self, number=None, cursor=None, more=None):
        meta = dict(more or {})
        if self.tag is not None:
            meta[SUBSCRIPTION] = self.tag
        if self.server.ours:
            if number is not None:
                meta['dev.tidings/version'] = number
            meta['dev.tidings/cursor'] = f'{self.server.epoch}-{cursor or self.server.number}'
        return meta

    def update(self, uri, number, cursor=None):
        """The notification of a change, as the bytes of an event."""
        params = {'uri': uri}
        meta = self.meta(number, cursor)
        if meta:
            params['_meta'] = meta
        self.count += 1
        id = None
        if self.tag is None and self.server.ours:
            id = f'g1.{self.count}.{self.server.epoch}-{cursor or self.server.number}'
        return event({'jsonrpc': '2.0', 'method': 'notifications/resources/updated',
                      'params': params}, id)

    def tell(self, uri, number, cursor=None):
        return self.send(self.update(uri, number, cursor))

    def acknowledge(self, uris, lists=None, more=None, cursor=None):
        """The cursor is where the stream goes on; what came after follows."""
        notifications = {'resourceSubscriptions': list(uris), **(lists or {})}
        return self.send(event({
            'jsonrpc': '2.0', 'method': 'notifications/subscriptions/acknowledged',
            'params': {'notifications': notifications, '_meta': self.meta(None, cursor, more)}}))

    def comment(self):
        return self.send(b': alive\n\n')

    def complete(self):
        """The end that the protocol has for a listen."""
        self.send(event({'jsonrpc': '2.0', 'id': self.tag, 'result': {
            'resultType': 'complete', '_meta': {SUBSCRIPTION: self.tag}}}))
        self.end()

    def end(self):
        """The body is complete."""
        self.server.gone(self)
        if self.chunked:
            self.conn.send(b'0\r\n\r\n')
            self.over = True
        else:
            self.conn.cut()

    def cut(self, reset=False):
        self.server.gone(self)
        self.conn.cut(reset)


class Server:
    def __init__(self, era='modern', ours=True, http10=False, closing=False, sse=False):
        self.era, self.ours, self.http10, self.closing, self.sse = era, ours, http10, closing, sse
        self.version = 'HTTP/1.0' if http10 else 'HTTP/1.1'
        self.epoch, self.number = 'a1b2c3d4e5f60718', 1
        self.versions = {uri: 1 for uri in URIS}  # the last change of each
        self.refused = set()  # URIs that are not acknowledged
        self.capabilities = {'resources': {'subscribe': True, 'listChanged': True},
                             'tools': {'listChanged': True}, 'prompts': {}}
        self.retry = None  # given at the beginning of legacy streams
        self.keepalive_ms = None  # that it announces
        self.single = False  # legacy: one GET stream per session
        self.rules, self.requests, self.streams = [], [], []
        self.sessions = {}  # id: set of URIs
        self.connections, self.open_conns = 0, set()
        self.ids = itertools.count(1)
        self.changed = threading.Condition(threading.RLock())
        self.listener = None
        self.keeper = bound()  # keeps the port for us while we are away
        self.port = port_of(self.keeper)
        self.url = f'http://127.0.0.1:{self.port}/mcp'
        self.open()

    # ---- Connections

    def open(self):
        """Listens; again at the same port, where it did before."""
        self.listener = bound(self.port)
        self.listener.listen(64)
        threading.Thread(target=self._accept, args=(self.listener,), daemon=True).start()

    def _accept(self, listener):
        while True:
            try:
                sock, _ = listener.accept()
            except OSError:
                return
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            conn = self.adopt(Conn(self, sock))
            with self.changed:
                if listener is not self.listener:  # it came as we went
                    sock.close()
                    return
                self.connections += 1
                self.open_conns.add(conn)
                self.changed.notify_all()
            threading.Thread(target=conn.serve, daemon=True).start()

    def adopt(self, conn):
        """For those who read requests in their own way."""
        return conn

    def close(self):
        """Nobody is there any more: connections break, new ones are refused."""
        with self.changed:
            listener, self.listener = self.listener, None
            conns = list(self.open_conns)
        if listener is not None:
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            listener.close()
        for conn in conns:
            conn.cut()

    def restart(self):
        """Comes back without memory."""
        self.close()
        self.forget()
        self.open()

    def forget(self):
        with self.changed:
            self.sessions.clear()
            self.epoch = f'{0xa1b2c3d4e5f70000 + next(self.ids):x}'

    # ---- What a test does

    def on(self, kind, action, times=None):
        """`action(request)` is asked about requests of that kind ("*": all), so many times."""
        rule = {'kind': kind, 'action': action, 'times': times}
        with self.changed:
            self.rules.insert(0, rule)
        return rule

    def off(self, rule=None):
        with self.changed:
            self.rules = [r for r in self.rules if rule is not None and r is not rule]

    def change(self, uri, tell=True):
        """Changes a resource; returns its new version."""
        with self.changed:
            self.number += 1
            self.versions[uri] = self.number
            number = self.number
            streams = [s for s in self.streams if uri in s.wanted]
        for stream in streams if tell else []:
            stream.tell(uri, number)
        return number

    def seen(self, kind, since=0):
        with self.changed:
            return [r for r in self.requests[since:] if kind in ('*', r.kind)]

    def wait(self, condition, what, seconds=tap.WAIT):
        deadline = time.monotonic() + seconds
        with self.changed:
            while True:
                value = condition()
                if value:
                    return value
                left = deadline - time.monotonic()
                tap.check(left > 0, f'after {seconds} s: {what}; '
                          f'the last requests: {self.requests[-12:]}')
                self.changed.wait(min(left, 1.0))

    def request(self, kind, count=1, seconds=tap.WAIT, since=0):
        """Waits for the request of that kind with that number, from 1."""
        return self.wait(
            lambda: len(self.seen(kind, since)) >= count and [self.seen(kind, since)[count - 1]],
            f'request {count} of {kind}', seconds)[0]

    def stream(self, seconds=tap.WAIT):
        """The newest stream; waits for one."""
        return self.wait(lambda: self.streams and self.streams[-1], 'a stream', seconds)

    def one_stream(self, wanted=None):
        """Waits until there is exactly one, and it carries what is wanted."""
        return self.wait(
            lambda: len(self.streams) == 1 and (
                wanted is None or set(wanted) <= set(self.streams[0].wanted)) and
            self.streams[0], f'one stream with {wanted}')

    # ---- Answering

    def took(self, request):
        with self.changed:
            self.requests.append(request)
            self.changed.notify_all()

    def gone(self, stream):
        with self.changed:
            if stream in self.streams:
                self.streams.remove(stream)
            self.changed.notify_all()

    def answer(self, request):
        with self.changed:
            rules = list(self.rules)
        for rule in rules:
            if rule['kind'] not in ('*', request.kind) or rule['times'] == 0:
                continue
            if rule['times'] is not None:
                rule['times'] -= 1
            handled = rule['action'](request)
            if handled is not None:
                return handled
        return self.behave(request)

    def reply(self, request, status=200, body=b'', kind='application/json', fields=()):
        fields = [('Content-Type', kind), ('Content-Length', len(body)), *fields]
        if self.closing or self.http10:
            fields.append(('Connection', 'close'))
        request.conn.send(head(status, fields, self.version) + body)
        return not (self.closing or self.http10)

    def message(self, request, status=200, fields=(), **content):
        body = json.dumps({'jsonrpc': '2.0', 'id': request.id, **content}).encode()
        if self.sse:  # 2024-11-05: answers come by the stream
            self.reply(request, 202)
            stream = next((s for s in self.streams if s.session == self._old(request)), None)
            if stream is not None:
                stream.send(event(body.decode(), name='message'))
            return True
        return self.reply(request, status, body, fields=fields)

    def result(self, request, result, fields=()):
        if self.era == 'modern':
            result = {'resultType': 'complete', **result}
        return self.message(request, result=result, fields=fields)

    def error(self, request, code, text, status=200, data=None):
        error = {'code': code, 'message': text}
        if data is not None:
            error['data'] = data
        return self.message(request, status, error=error)

    @staticmethod
    def _old(request):
        return request.path.partition('sessionId=')[2]

    def behave(self, request):
        """The answer of a server that is well."""
        if self.sse:
            return self.behave_old(request)
        if request.kind == 'GET':
            return self.get(request) if self.era == 'legacy' else self.reply(request, 405)
        if request.kind == 'DELETE':
            if self.sessions.pop(request.session, None) is None:
                return self.reply(request, 404)
            return self.reply(request, 204)
        if request.id is None or request.kind == 'response':
            return self.reply(request, 202)
        if self.era == 'modern':
            return self.modern(request)
        if request.kind == 'initialize':
            return self.initialize(request)
        if request.kind == 'server/discover':
            return self.error(request, -32000, 'no session', 400)
        if request.session not in self.sessions:
            return self.error(request, -32001, 'no such session', 404)
        return self.common(request, self.sessions[request.session])

    def modern(self, request):
        if request.kind == 'server/discover':
            return self.result(request, {
                'supportedVersions': [MODERN], 'capabilities': self.capabilities,
                'serverInfo': {'name': 'bad', 'version': '1'}, 'ttlMs': 0,
                'cacheScope': 'public'})
        if request.kind == 'subscriptions/listen':
            return self.listen(request)
        if request.kind in ('initialize', 'ping', 'resources/subscribe'):
            return self.error(request, -32601, 'no such method', 404)
        return self.common(request, set())

    def common(self, request, subscribed):
        """What both eras have. Returns as answer() does."""
        uri = request.params.get('uri')
        kind = request.kind
        if kind == 'resources/read':
            if uri not in self.versions:
                return self.error(request, -32602 if self.era == 'modern' else -32002,
                                  'not found', data={'uri': uri})
            return self.result(request, {'contents': [
                {'uri': uri, 'text': f'{uri} {self.versions[uri]}'}],
                'ttlMs': 0, 'cacheScope': 'public'})
        if kind == 'resources/subscribe':
            if uri in self.refused:
                return self.error(request, -32000, 'not you')
            subscribed.add(uri)
            return self.resume(request, uri, subscribed)
        if kind == 'resources/unsubscribe':
            subscribed.discard(uri)
            return self.result(request, {})
        if kind == 'ping':
            return self.result(request, {})
        if kind == 'tools/call':
            return self.result(request, {'content': [
                {'type': 'text', 'text': request.params.get('name', '')}]})
        lists = {'resources/list': {'resources': [
            {'uri': each, 'name': each} for each in self.versions]},
            'resources/templates/list': {'resourceTemplates': []},
            'tools/list': {'tools': [{'name': 'act', 'inputSchema': {'type': 'object'}}]},
            'prompts/list': {'prompts': []}}
        if kind in lists:
            return self.result(request, {**lists[kind], 'ttlMs': 0, 'cacheScope': 'public'})
        return self.error(request, -32601, 'no such method',
                          404 if self.era == 'modern' else 200)

    # ---- Streams

    def position(self, text):
        """The number in a cursor of this life; None: of another."""
        epoch, _, number = (text or '').rpartition('-')
        return int(number) if epoch == self.epoch and number.isdigit() else None

    def begun(self, stream):
        """From now on it is told of changes."""
        with self.changed:
            self.streams.append(stream)
            self.changed.notify_all()

    def run(self, stream):
        """The stream stays open until the client goes, or the test ends it."""
        free = stream.conn.wait_closed(lambda: stream.over)
        self.gone(stream)
        return free

    def listen(self, request):
        notifications = request.params.get('notifications') or {}
        wanted = [u for u in notifications.get('resourceSubscriptions', [])
                  if u in self.versions and u not in self.refused]
        lists = {name: True for name, value in notifications.items()
                 if value is True and name.endswith('ListChanged')}
        stream = Stream(request, set(wanted), None, request.id)
        cursor, more = request.meta.get('dev.tidings/cursor'), self.announcement()
        if self.ours and cursor is not None:
            more['dev.tidings/resumed'] = self.position(cursor) is not None
        stream.begin()
        # Nothing changes between what the acknowledgement says and what follows it.
        with self.changed:
            stream.acknowledge(wanted, lists, more, self.position(cursor) if self.ours else None)
            if self.ours and cursor is not None:
                self.catch_up(stream, wanted, self.position(cursor))
            self.begun(stream)
        return self.run(stream)

    def announcement(self):
        return {'dev.tidings/keepAliveMs': self.keepalive_ms} if self.keepalive_ms else {}

    def catch_up(self, stream, uris, since):
        for uri in sorted(uris, key=lambda uri: self.versions[uri]):
            if since is None or self.versions[uri] > since:
                stream.tell(uri, self.versions[uri], self.versions[uri])

    def initialize(self, request):
        session = f's{next(self.ids)}'
        with self.changed:
            self.sessions[session] = set()
        version = request.params.get('protocolVersion')
        return self.result(request, {
            'protocolVersion': LEGACY if version == MODERN else version,
            'capabilities': self.capabilities, '_meta': self.announcement(),
            'serverInfo': {'name': 'bad', 'version': '1'}},
            [('Mcp-Session-Id', session)])

    def resume(self, request, uri, subscribed):
        cursor = request.meta.get('dev.tidings/cursor')
        if not self.ours or cursor is None:
            return self.result(request, {})
        since = self.position(cursor)
        with self.changed:
            self.result(request, {'_meta': {
                'dev.tidings/cursor': f'{self.epoch}-{self.number}',
                'dev.tidings/resumed': since is not None}})
            for stream in self.streams:
                if stream.wanted is subscribed:
                    self.catch_up(stream, [uri], since)
        return True

    def get(self, request):
        if request.session not in self.sessions:
            return self.error(request, -32001, 'no such session', 404)
        uris = self.sessions[request.session]
        if self.single and any(stream.wanted is uris for stream in self.streams):
            return self.error(request, -32000, 'one stream per session', 409)
        stream = Stream(request, uris, None)
        after = request.fields.get('last-event-id')
        # Its client knows of the stream and subscribes when it has the head: then what is told
        # of that has to find the stream.
        with self.changed:
            stream.begin()
            if self.ours:
                since = after.rpartition('.')[2] if after else f'{self.epoch}-{self.number}'
                stream.send(event('', f'g1.0.{since}', self.retry))
            elif self.retry is not None:
                stream.send(f'retry: {self.retry}\n\n'.encode())
            if self.ours and after is not None:
                self.catch_up(stream, uris, self.position(after.rpartition('.')[2]))
            self.begun(stream)
        return self.run(stream)

    # ---- 2024-11-05

    def behave_old(self, request):
        if request.path.startswith('/mcp') and request.kind != 'GET':
            return self.reply(request, 405)
        if request.kind == 'GET':
            stream = Stream(request, set(), None)
            stream.session = f'o{next(self.ids)}'
            self.sessions[stream.session] = stream.wanted
            stream.begin()
            self.begun(stream)  # before its client posts what is answered there
            stream.send(event(f'/messages?sessionId={stream.session}', name='endpoint'))
            return self.run(stream)
        if self._old(request) not in self.sessions:
            return self.reply(request, 404)
        if request.id is None or request.kind == 'response':
            return self.reply(request, 202)
        if request.kind == 'initialize':
            return self.result(request, {
                'protocolVersion': '2024-11-05', 'capabilities': self.capabilities,
                '_meta': self.announcement(), 'serverInfo': {'name': 'bad', 'version': '1'}})
        return self.common(request, self.sessions[self._old(request)])


# ---- Ways to misbehave: for Server.on(). True: go on with the connection, False: end it.

def status(code, body=b'', kind='text/plain', **fields):
    named = [(name.replace('_', '-'), value) for name, value in fields.items()]
    return lambda request: request.conn.server.reply(request, code, body, kind, named)


def silence(request):
    """Never an answer. The connection stays until the client gives up."""
    request.conn.wait_closed()
    return False


def hang_up(request):
    """The connection ends without a byte of an answer."""
    return False


def raw(data, then=None):
    """These bytes; then the connection ends, or what `then` does."""
    def action(request):
        request.conn.send(data)
        return then(request) if then else False
    return action


def json_body(body, kind='application/json', code=200):
    """Any body, as if it were an answer."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return lambda request: request.conn.server.reply(request, code, data, kind)

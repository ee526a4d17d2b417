# SPDX-License-Identifier: MIT
"""A small server of both eras over HTTP, good by itself, with defects that can be asked for:
Server({'late-head'}). Threads, a free port of 127.0.0.1. Every GET of /change changes the
resource test://a. For doctor_test.py.

A defect that needs time waits for what the doctor does: a busy machine must not add a second
defect, or hide the one that was asked for."""
import contextlib
import http.server
import json
import select
import threading
import time
import uuid

MODERN = '2026-07-28'
LEGACY = ['2025-11-25', '2025-06-18']
META = 'io.modelcontextprotocol/'
KEEPALIVE = 0.6  # the doctor takes what is less than 0.4 s apart for one conversation
CUT = 0.9  # seconds after the change
CROWDED = 2  # seconds that 'few-workers' waits for other requests
FLOOD, PIECE = 200, 1 << 20  # messages of 'floods' on a stream, and the bytes of each
HOSTILE = 'a\x1b]0;owned\x07b\x9b31mc'


# What a server with the defect 'hangs', 'trickles' or 'endless' answers as it should.
ANSWERED = ('server/discover', 'initialize', 'notifications/initialized')


class Refused(Exception):
    def __init__(self, status, code, message, data=None):
        super().__init__(message)
        self.status, self.error = status, {'code': code, 'message': message}
        if data is not None:
            self.error['data'] = data


class Stream:
    """Writes what it is given, each event at once, unless it has a defect."""

    def __init__(self, handler, uris=()):
        self.handler, self.uris, self.id = handler, set(uris), None
        self.defects = handler.server.defects
        self.lock, self.kept, self.comments = threading.Lock(), b'', 0
        self.over = False

    def write(self, data):
        with self.lock:
            self.kept += data
            if 'buffers' in self.defects and len(self.kept) < 4096:
                return
            if 'lumps' in self.defects and data.startswith(b':'):
                self.comments += 1
                if self.comments % 3:
                    return
            try:
                self.handler.wfile.write(self.kept)
                self.handler.wfile.flush()
            except OSError:
                self.over = True
            self.kept = b''

    def send(self, message, name=None):
        event = f'data: {json.dumps({"jsonrpc": "2.0", **message})}\n\n'
        self.write(((f'id: {name}\n' if name else '') + event).encode())

    def update(self, uri):
        params = {'uri': uri}
        if self.id is not None:
            params['_meta'] = {META + 'subscriptionId': self.id}
        self.send({'method': 'notifications/resources/updated', 'params': params})

    def flood(self):
        """Notifications that fill the memory of a client that keeps them all."""
        for _ in range(FLOOD):
            self.send({'method': 'notifications/message',
                       'params': {'level': 'info', 'data': 'x' * PIECE}})

    def hold(self):
        """Until the client or the server goes, or the defect says so."""
        began, server = time.monotonic(), self.handler.server
        while not self.over and not server.closing:
            silent = 0.1 if 'no-keepalive' in self.defects else server.keepalive
            readable, _, _ = select.select([self.handler.connection], [], [], silent)
            if readable and not self.handler.connection.recv(1, 2):  # MSG_PEEK
                return
            # Not before the update has been sent: without it updates.arrive fails as well.
            if ('cut' in self.defects and server.changed_at is not None and
                    time.monotonic() - max(began, server.changed_at) > CUT):
                return
            if 'no-keepalive' not in self.defects:
                self.write(b':\n\n')


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'

    def log_message(self, *_):
        pass

    def has(self, defect):
        return defect in self.server.defects

    # ---- Answers ----

    def answer(self, status, body=None, headers=()):
        data = json.dumps(body).encode() if body is not None else b''
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header('Content-Type', 'application/json')
        self.send_header('Content-Length', str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def open_stream(self, uris=(), among=None):
        """Sends the head. The stream is in `among` before that: a client that has the head
        may subscribe and change the resource at once."""
        stream = Stream(self, uris)
        if self.has('late-head'):
            time.sleep(4)
        self.send_response(200)
        self.send_header('Content-Type', 'text/plain' if self.has('type') else 'text/event-stream')
        if not self.has('no-cache-control'):
            self.send_header('Cache-Control', 'no-cache, no-transform')
        if not self.has('no-accel'):
            self.send_header('X-Accel-Buffering', 'no')
        if self.has('length'):
            self.send_header('Content-Length', '1000000')
        if self.has('gzip') and 'gzip' in self.headers.get('Accept-Encoding', ''):
            self.send_header('Content-Encoding', 'gzip')
        self.send_header('Connection', 'close')
        with stream.lock:  # an update waits for the head
            if among is not None:
                among.add(stream)
            self.end_headers()
        self.close_connection = True
        return stream

    # ---- HTTP ----

    def check_origin(self):
        if self.headers.get('Origin') and not self.has('any-origin'):
            raise Refused(403, -32600, 'not this origin')

    def session(self):
        name = self.headers.get('Mcp-Session-Id')
        if name is None:
            if self.has('no-session-needed'):
                return {'streams': set(), 'uris': set()}
            raise Refused(400, -32600, 'no session')
        found = self.server.sessions.get(name)
        if found is None:
            if self.has('any-session'):
                return {'streams': set(), 'uris': set()}
            raise Refused(404, -32600, 'no such session')
        return found

    def do_GET(self):
        if self.path == '/change':
            self.server.change()
            self.answer(200)
            return
        if self.has('no-get'):
            self.answer(405)
            return
        try:
            self.check_origin()
            session = self.session()
        except Refused as no:
            self.answer(no.status, {'jsonrpc': '2.0', 'id': None, 'error': no.error})
            return
        if self.has('one-stream') and session.get('had'):
            self.answer(404)
        elif self.has('no-last-event-id') and self.headers.get('Last-Event-ID'):
            self.answer(400)
        else:
            session['had'] = True
            stream = self.open_stream(among=session['streams'])
            stream.write(b'id: 1\ndata:\n\n')
            stream.hold()
            session['streams'].discard(stream)

    def do_DELETE(self):
        if not self.has('immortal'):
            self.server.sessions.pop(self.headers.get('Mcp-Session-Id'), None)
        self.answer(204)

    def do_POST(self):
        text = self.rfile.read(int(self.headers['Content-Length']))
        if self.has('401'):
            self.answer(401)
            return
        if self.has('502'):
            self.answer(502)
            return
        if self.path == '/old' or self.has('302'):
            self.answer(302 if self.has('302') else 308, headers=[('Location', '/mcp')])
            return
        message = json.loads(text)
        name = message.get('id') if isinstance(message, dict) else None
        try:
            self.check_origin()
            if self.headers.get('Content-Type') != 'application/json' and not self.has('any-type'):
                raise Refused(415, -32600, 'JSON only')
            if isinstance(message, list):
                self.batch(message)
            elif (self.server.defects & {'hangs', 'trickles', 'endless'} and
                  message['method'] not in ANSWERED):
                self.never_ends(name)
            elif META + 'protocolVersion' in message.get('params', {}).get('_meta', {}):
                self.modern(message)
            else:
                self.legacy(message)
        except Refused as no:
            self.answer(no.status, {'jsonrpc': '2.0', 'id': name, 'error': no.error})

    def batch(self, messages):
        if self.has('batch-breaks'):
            self.answer(500)
        elif self.has('batches'):
            self.answer(200, [{'jsonrpc': '2.0', 'id': m['id'], 'result': {}} for m in messages])
        else:
            raise Refused(400, -32600, 'no batches')

    def never_ends(self, name):
        """An answer that does not come, not to an end, or not to the end of its list."""
        if self.has('hangs'):
            self.server.closed.wait()
            return
        self.send_response(200)
        self.send_header('Content-Type', 'application/json')
        self.end_headers()
        self.close_connection = True
        piece = b' ' if self.has('trickles') else b'{"uri": "test://a", "name": "a"},' * 1000
        with contextlib.suppress(OSError):
            self.wfile.write(b'{"jsonrpc": "2.0", "id": %d, "result": {"resources": [' % name)
            while not self.server.closing:
                self.wfile.write(piece)
                # The endless one sends megabytes in a second, and leaves the cores to others.
                self.server.closed.wait(0.01)

    # ---- The eras ----

    def modern(self, message):
        if self.has('legacy-only'):
            raise Refused(400, -32600, 'initialize first')
        params, method = message['params'], message['method']
        if params['_meta'][META + 'protocolVersion'] != MODERN:
            data = {'supported': [] if self.has('hides-versions') else [MODERN, *LEGACY]}
            raise Refused(400, -32022, 'not this version', data)
        if self.headers.get('Mcp-Method') != method and not self.has('unmirrored'):
            raise Refused(400, -32020, 'header mismatch')
        if method == 'subscriptions/listen':
            self.listen(message)
            return
        result = self.result(method, params, MODERN)
        self.answer(200, {'jsonrpc': '2.0', 'id': message['id'],
                          'result': {'resultType': 'complete', **result}})

    def listen(self, message):
        wanted = dict(message['params']['notifications'])
        uris = wanted.get('resourceSubscriptions', [])
        stream = self.open_stream(uris)
        if self.has('early') and uris:
            stream.update(uris[0])
        stream.id = -1 if self.has('wrong-id') else message['id']
        if self.has('unnamed'):
            wanted['resourceSubscriptions'] = []
        # Before the acknowledgement: a client that has it may change the resource at once.
        self.server.listens.add(stream)
        if not self.has('unacknowledged'):
            stream.send({'method': 'notifications/subscriptions/acknowledged', 'params': {
                'notifications': wanted, '_meta': {META + 'subscriptionId': stream.id}}})
            if self.has('floods') and uris:
                stream.flood()
        else:
            stream.write(b':\n\n')
        stream.hold()
        self.server.listens.discard(stream)

    def legacy(self, message):
        method, params = message['method'], message.get('params', {})
        headers = []
        if self.has('modern-only'):
            raise Refused(400, -32022, 'modern only', {'supported': [MODERN]})
        if method == 'initialize':
            name = 'bad id \x01' if self.has('odd-session') else uuid.uuid4().hex
            if not self.has('no-sessions'):
                self.server.sessions[name] = {'streams': set(), 'uris': set()}
                headers = [('Mcp-Session-Id', name)]
        else:
            session = self.session() if not self.has('no-sessions') else {'uris': set()}
            if method == 'resources/subscribe' and not self.has('refuses'):
                session['uris'].add(params['uri'])
            if method == 'resources/unsubscribe':
                session['uris'].discard(params['uri'])
        if 'id' not in message:
            self.answer(202)
            return
        result = self.result(method, params, 'legacy')
        self.answer(200, {'jsonrpc': '2.0', 'id': message['id'], 'result': result}, headers)

    # ---- Methods ----

    def capabilities(self):
        can = {'resources': {'subscribe': True, 'listChanged': True}, 'logging': {}}
        if self.has('false-tools'):
            can['tools'] = {}
        if self.has('false-completions'):
            can['completions'] = {}
        return can

    def take_worker(self):
        """There are four: each of them is busy until a fifth request comes and is refused, or
        none has come for a while. Before the change nothing is sent in parallel."""
        server = self.server
        with server.workers:
            server.busy += 1
            full, refused = server.busy > 4, server.refused
            if full:
                server.refused += 1
                server.workers.notify_all()
            elif server.number > 0:
                server.workers.wait_for(lambda: server.refused > refused, CROWDED)
            server.busy -= 1
        if full:
            raise Refused(503, -32603, 'too busy')

    def result(self, method, params, era):
        server = self.server
        if method in ('ping', 'server/discover') and self.has('few-workers'):
            self.take_worker()
        if method == 'server/discover':
            versions = [MODERN] if self.has('modern-only') else [MODERN, *LEGACY]
            versions += ['2024-11-05'] if self.has('false-version') else []
            return {'supportedVersions': versions, 'capabilities': self.capabilities(),
                    'serverInfo': {'name': 'test', 'version': '1'}}
        if method == 'initialize':
            asked = params['protocolVersion']
            known = asked in LEGACY or self.has('echoes-version')
            return {'protocolVersion': asked if known else LEGACY[0],
                    'capabilities': self.capabilities(),
                    'serverInfo': {'name': 'test', 'version': '1'}}
        if method == 'resources/list':
            return {'resources': [{'uri': 'test://a', 'name': 'a'}]}
        if method == 'resources/templates/list':
            return {'resourceTemplates': [{'uriTemplate': 'test://{x}', 'name': 'x'}]}
        if method == 'resources/read' and not self.has('unreadable'):
            return {'contents': [{'uri': params['uri'], 'text': str(server.number)}]}
        if method == 'resources/subscribe' and self.has('refuses'):
            raise Refused(200, -32601, HOSTILE if self.has('hostile') else 'no')
        if method == 'prompts/list' and self.has('hidden-prompts'):
            return {'prompts': [{'name': 'p'}]}
        if method == 'logging/setLevel' and self.has('false-logging'):
            raise Refused(200, -32601, 'no')
        if method in ('ping', 'resources/subscribe', 'resources/unsubscribe', 'logging/setLevel'):
            return {}
        if self.has('knows-everything'):
            return {}
        raise Refused(404 if era == MODERN else 200, -32601, 'no such method')


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, defects=(), keepalive=KEEPALIVE):
        super().__init__(('127.0.0.1', 0), Handler)
        self.defects, self.keepalive, self.closing = set(defects), keepalive, False
        self.closed = threading.Event()  # when closing
        self.sessions, self.listens = {}, set()
        self.number, self.changed_at = 0, None  # changed_at: the updates are sent
        self.workers, self.busy, self.refused = threading.Condition(), 0, 0
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()

    @property
    def url(self):
        return f'http://127.0.0.1:{self.server_port}/mcp'

    @property
    def change_url(self):
        return f'http://127.0.0.1:{self.server_port}/change'

    def change(self):
        self.number += 1
        if 'tells-nothing' in self.defects:
            return
        for stream in list(self.listens):
            if 'test://a' in stream.uris:
                stream.update('test://a')
        for session in list(self.sessions.values()):
            if 'test://a' in session['uris']:
                for stream in list(session['streams'])[:1]:
                    stream.update('test://a')
        self.changed_at = time.monotonic()

    def handle_error(self, *_):
        pass  # clients that go are no news

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.closing = True
        self.closed.set()
        self.shutdown()
        self.server_close()

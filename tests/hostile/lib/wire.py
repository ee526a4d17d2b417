# SPDX-License-Identifier: MIT
"""HTTP and the protocol by hand: bytes go out as they are given, so that they can be wrong."""
import json
import socket
import struct
import time

from .tap import WAIT

MODERN = '2026-07-28'
LEGACY = '2025-11-25'


class Gone(AssertionError):
    """The server has closed the connection."""


def head(method='POST', path='/mcp', fields=(), host='127.0.0.1', version='HTTP/1.1'):
    """A request line and header fields, with the empty line."""
    lines = [f'{method} {path} {version}', f'Host: {host}']
    lines += [f'{name}: {value}' for name, value in fields]
    return ('\r\n'.join(lines) + '\r\n\r\n').encode('latin-1')


JSON_FIELDS = (('Content-Type', 'application/json'),
               ('Accept', 'application/json, text/event-stream'))


def post(body, fields=(), path='/mcp'):
    """A POST with a JSON body, given as bytes or as a value."""
    if not isinstance(body, bytes):
        body = json.dumps(body).encode()
    return head('POST', path, (*JSON_FIELDS, *fields, ('Content-Length', len(body)))) + body


def message(method, params=None, id=1):
    result = {'jsonrpc': '2.0', 'method': method}
    if id is not None:
        result['id'] = id
    if params is not None:
        result['params'] = params
    return result


def modern_message(method, params=None, id=1, meta=None):
    return message(method, {**(params or {}), '_meta': {
        'io.modelcontextprotocol/protocolVersion': MODERN,
        'io.modelcontextprotocol/clientInfo': {'name': 'hostile', 'version': '1'},
        'io.modelcontextprotocol/clientCapabilities': {}, **(meta or {})}}, id)


def modern_fields(method, params=None):
    fields = [('MCP-Protocol-Version', MODERN), ('Mcp-Method', method)]
    if method in ('tools/call', 'prompts/get', 'resources/read'):
        name = (params or {}).get('uri' if method == 'resources/read' else 'name')
        fields.append(('Mcp-Name', name))
    return fields


def modern(method, params=None, id=1, meta=None):
    return post(modern_message(method, params, id, meta), modern_fields(method, params))


def call(tool, id=1, **arguments):
    return modern('tools/call', {'name': tool, 'arguments': arguments}, id)


def listen(uris, id=1, options=None, **lists):
    meta = {'dev.tidings/options': options} if options else None
    return modern('subscriptions/listen',
                  {'notifications': {'resourceSubscriptions': uris, **lists}}, id, meta)


def initialize(version=LEGACY, id=1):
    return post(message('initialize', {
        'protocolVersion': version, 'capabilities': {},
        'clientInfo': {'name': 'hostile', 'version': '1'}}, id))


def session_fields(session):
    return (('Mcp-Session-Id', session),)


def get(session, fields=()):
    return head('GET', '/mcp', (('Accept', 'text/event-stream'), *session_fields(session),
                                *fields))


class Response:
    def __init__(self, status, fields, body):
        self.status, self.fields, self.body = status, fields, body

    def __repr__(self):
        return f'{self.status} {self.body[:200]!r}'

    def json(self):
        return json.loads(self.body)


class Conn:
    """One connection, with what was read and not used yet."""

    def __init__(self, port, small=False):
        self.socket = socket.socket()
        if small:  # a reader whose kernel keeps little for it
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self.socket.settimeout(WAIT)
        self.socket.connect(('127.0.0.1', port))
        self.data = bytearray()  # of which the beginning can be taken cheaply
        self.chunked = False

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def fileno(self):
        return self.socket.fileno()

    def close(self):
        self.socket.close()

    def reset(self):
        """Closes with a RST instead of a FIN."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
        self.socket.close()

    def shut(self):
        self.socket.shutdown(socket.SHUT_WR)

    def send(self, data):
        """Sends all, or as much as the server takes before it closes."""
        try:
            self.socket.sendall(data)
            return True
        except (BrokenPipeError, ConnectionResetError):
            return False

    def more(self, seconds=WAIT):
        """Reads something, raises Gone at the end and AssertionError when nothing comes."""
        self.socket.settimeout(max(0.001, seconds))
        try:
            data = self.socket.recv(262144)
        except TimeoutError:
            raise AssertionError(
                f'nothing came for {seconds:.1f} s; so far {self.data[:200]!r}') from None
        except ConnectionResetError:
            data = b''
        finally:
            self.socket.settimeout(WAIT)
        if not data:
            raise Gone(f'the connection was closed; so far {self.data[:200]!r}')
        self.data += data

    def up_to(self, mark, deadline):
        while mark not in self.data:
            self.more(deadline - time.monotonic())
        taken = self.take(self.data.index(mark), deadline)
        self.take(len(mark), deadline)
        return taken

    def take(self, count, deadline):
        while len(self.data) < count:
            self.more(deadline - time.monotonic())
        taken = bytes(self.data[:count])
        del self.data[:count]
        return taken

    def head(self, seconds=WAIT):
        """The status and the fields of a response."""
        lines = self.up_to(b'\r\n\r\n', time.monotonic() + seconds).decode('latin-1')
        first, *rest = lines.split('\r\n')
        fields = {}
        for line in rest:
            name, _, value = line.partition(':')
            fields[name.lower()] = value.strip()
        self.chunked = fields.get('transfer-encoding') == 'chunked'
        return int(first.split(' ')[1]), fields

    def chunk(self, deadline):
        size = int(self.up_to(b'\r\n', deadline), 16)
        data = self.take(size, deadline)
        self.take(2, deadline)
        return data

    def response(self, seconds=WAIT):
        """A whole response; a 100 on the way is skipped."""
        deadline = time.monotonic() + seconds
        status, fields = self.head(seconds)
        if status == 100:
            return self.response(seconds)
        if self.chunked:
            pieces = []
            while piece := self.chunk(deadline):
                pieces.append(piece)
            body = b''.join(pieces)
        else:
            body = self.take(int(fields.get('content-length', 0)), deadline)
        return Response(status, fields, body)

    def ask(self, request, seconds=WAIT):
        self.send(request)
        return self.response(seconds)

    def result(self, request, seconds=WAIT):
        """The result of a JSON-RPC request, which must be one."""
        response = self.ask(request, seconds)
        if response.fields.get('content-type', '').startswith('text/event-stream'):
            events = [e for e in events_in(response.body) if 'result' in e or 'error' in e]
            body = events[-1]
        else:
            body = response.json()
        if 'result' not in body:
            raise AssertionError(f'no result: {response}')
        return body['result']

    def wait_closed(self, seconds=WAIT):
        """Reads until the server closes; returns what came."""
        deadline = time.monotonic() + seconds
        try:
            while True:
                self.more(deadline - time.monotonic())
        except Gone:
            return self.take(len(self.data), deadline)


def events_in(data):
    """The JSON messages of a piece of an event stream."""
    found = []
    for block in data.split(b'\n\n'):
        for line in block.split(b'\n'):
            if line.startswith(b'data: ') and len(line) > 6:
                found.append(json.loads(line[6:]))
    return found


class Stream(Conn):
    """A connection whose response is an event stream."""

    def __init__(self, port, request, small=False):
        super().__init__(port, small)
        self.text = b''
        self.send(request)

    def opened(self):
        status, fields = self.head()
        kind = fields.get('content-type', '')
        if status != 200 or not kind.startswith('text/event-stream'):
            raise AssertionError(f'no stream: {status} {fields} {self.data[:300]!r}')
        return self

    def event(self, seconds=WAIT, wanted=lambda message: True):
        """The next message that is wanted."""
        deadline = time.monotonic() + seconds
        while True:
            while b'\n\n' in self.text:
                block, _, self.text = self.text.partition(b'\n\n')
                for found in events_in(block):
                    if wanted(found):
                        return found
            piece = self.chunk(deadline)
            if not piece:
                raise Gone('the stream ended')
            self.text += piece


def updated(uri=None):
    def wanted(found):
        return found.get('method') == 'notifications/resources/updated' and (
            uri is None or found['params']['uri'] == uri)
    return wanted


def is_ack(found):
    return found.get('method') == 'notifications/subscriptions/acknowledged'


def open_listen(port, uris, id=1, options=None, small=False, **lists):
    """A modern stream, acknowledged."""
    stream = Stream(port, listen(uris, id, options, **lists), small).opened()
    stream.ack = stream.event(wanted=is_ack)
    return stream


class Session:
    """A legacy session; each request may go by a connection of its choice."""

    def __init__(self, port, version=LEGACY, conn=None):
        self.port = port
        self.last_id = 1
        with_conn = conn or Conn(port)
        response = with_conn.ask(initialize(version))
        if response.status != 200:
            raise AssertionError(f'initialize: {response}')
        self.id = response.fields['mcp-session-id']
        self.conn = with_conn
        status = self.notify('notifications/initialized').status
        if status != 202:
            raise AssertionError(f'initialized: {status}')

    def __enter__(self):
        return self

    def __exit__(self, *_):
        """Ends the session, whatever has become of its connection."""
        self.conn.close()
        with Conn(self.port) as conn:
            self.delete(conn)

    @property
    def worker(self):
        return int(self.id[:2], 16)

    def fields(self):
        return session_fields(self.id)

    def request(self, method, params=None):
        self.last_id += 1
        return post(message(method, params, self.last_id), self.fields())

    def notify(self, method, params=None):
        return self.conn.ask(post(message(method, params, None), self.fields()))

    def result(self, method, params=None, conn=None):
        return (conn or self.conn).result(self.request(method, params))

    def subscribe(self, uri, conn=None):
        return self.result('resources/subscribe', {'uri': uri}, conn)

    def unsubscribe(self, uri, conn=None):
        return self.result('resources/unsubscribe', {'uri': uri}, conn)

    def stream(self, small=False):
        return Stream(self.port, get(self.id), small).opened()

    def delete(self, conn=None):
        return (conn or self.conn).ask(head('DELETE', '/mcp', self.fields())).status

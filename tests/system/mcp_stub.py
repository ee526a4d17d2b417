# SPDX-License-Identifier: MIT
"""A server of the modern era that says what a test tells it to, hostile things as well."""
import http.server
import json
import sys
import threading

KEYS = {'resources/list': 'resources', 'resources/templates/list': 'resourceTemplates',
        'tools/list': 'tools', 'prompts/list': 'prompts'}


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, client_address):
        """Clients may leave at any moment."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


class Stub:
    """Answers each method with a result, an error (an Exception's argument), or what a
    function of the params returns; lists are empty unless given. Requests are kept. Who does
    not bring the token gets 401."""

    def __init__(self, answers=None, token=None, **facts):
        self.answers = {
            'server/discover': {
                'resultType': 'complete', 'supportedVersions': ['2026-07-28'],
                'capabilities': {'resources': {}, 'tools': {}, 'prompts': {}},
                '_meta': {'io.modelcontextprotocol/serverInfo': {'name': 'stub', 'version': '1'}},
                'serverInfo': {'name': 'stub', 'version': '1'}, **facts},
            **(answers or {})}
        self.streams = {}  # method (or GET): what writes its answer, given the handler and the request
        self.refused = {}  # URIs that listens do not get, each with its reason
        self.updates = ()  # params of resources/updated, for whoever listens
        self.requests = []
        self.headers = []
        stub = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = 'HTTP/1.1'

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers['Content-Length'])))
                stub.requests.append(body)
                stub.headers.append(dict(self.headers))
                if token is not None and self.headers['Authorization'] != f'Bearer {token}':
                    self.send_response(401)
                    self.send_header('Content-Length', '0')
                    self.end_headers()
                    return
                if (body['method'] == 'subscriptions/listen' and
                        body['method'] not in stub.answers):
                    self.listen(body)
                    return
                if body['method'] in stub.streams:
                    stub.streams[body['method']](self, body)
                    return
                data = json.dumps(stub.answer(body)).encode() if 'id' in body else b''
                self.send_response(200 if 'id' in body else 202)
                self.send_header('Content-Type', 'application/json')
                self.send_header('Content-Length', str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def listen(self, body):
                """Acknowledges what is not refused, sends the updates, and waits until the client leaves."""
                wanted = dict(body['params'].get('notifications', {}))
                wanted['resourceSubscriptions'] = [
                    uri for uri in wanted.get('resourceSubscriptions', [])
                    if uri not in stub.refused]
                said = {'jsonrpc': '2.0', 'method': 'notifications/subscriptions/acknowledged',
                        'params': {'notifications': wanted, '_meta': {
                            'io.modelcontextprotocol/subscriptionId': body['id'],
                            'dev.tidings/refused': dict(stub.refused)}}}
                self.send_response(200)
                self.send_header('Content-Type', 'text/event-stream')
                self.send_header('Connection', 'close')
                self.end_headers()
                self.wfile.write(f'data: {json.dumps(said)}\n\n'.encode())
                for update in stub.updates:
                    said = {'jsonrpc': '2.0', 'method': 'notifications/resources/updated',
                            'params': update}
                    self.wfile.write(f'data: {json.dumps(said)}\n\n'.encode())
                self.rfile.read(1)
                self.close_connection = True

            def do_GET(self):
                if 'GET' in stub.streams:
                    stub.streams['GET'](self, None)
                else:
                    self.send_error(405)

            def do_DELETE(self):
                self.send_error(405)

            def log_message(self, *args):
                pass

        self.server = Server(('127.0.0.1', 0), Handler)
        self.url = f'http://127.0.0.1:{self.server.server_address[1]}/mcp'
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def answer(self, request):
        method, head = request['method'], {'jsonrpc': '2.0', 'id': request['id']}
        default = {KEYS[method]: []} if method in KEYS else None
        answer = self.answers.get(method, default)
        if callable(answer):
            answer = answer(request.get('params', {}))
        if answer is None:
            answer = Exception({'code': -32601, 'message': 'Method not found'})
        if isinstance(answer, Exception):
            return {**head, 'error': answer.args[0]}
        return {**head, 'result': {'resultType': 'complete', 'ttlMs': 0, 'cacheScope': 'private',
                                   **answer}}

    def asked(self, method):
        """The params of the requests with this method."""
        return [r.get('params', {}) for r in self.requests if r['method'] == method]

    def close(self):
        self.server.shutdown()
        self.server.server_close()

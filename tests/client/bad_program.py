# SPDX-License-Identifier: MIT
"""bad_program.py FILE MODE...: an MCP server on standard input and output, as it should not be. Every
start adds a line to FILE, so that a test can count them. Modes are in the table at the end; a mode
such as "first:dies" holds in the first life only."""
import json
import os
import signal
import sys
import time

MODERN, LEGACY = '2026-07-28', '2025-11-25'
SUBSCRIPTION = 'io.modelcontextprotocol/subscriptionId'


class Program:
    def __init__(self, file, modes):
        with open(file, 'a', encoding='ascii') as lives:
            lives.write(f'{os.getpid()}\n')
        with open(file, encoding='ascii') as lives:
            self.life = len(lives.readlines())
        self.modes = set()
        for mode in modes:
            when, _, name = mode.rpartition(':')
            if not when or self.life == 1:
                self.modes.add(name)
        self.listens, self.number = {}, 0

    def say(self, message):
        self.raw(json.dumps(message) + '\n')

    @staticmethod
    def raw(text):
        sys.stdout.write(text)
        sys.stdout.flush()

    def result(self, request, result):
        if 'legacy' not in self.modes:
            result = {'resultType': 'complete', **result}
        self.say({'jsonrpc': '2.0', 'id': request['id'], 'result': result})

    def update(self):
        """The lines that tell of a change."""
        self.number += 1
        lines = []
        for tag in self.listens:
            meta = {} if tag is None else {'_meta': {SUBSCRIPTION: tag}}
            lines.append(json.dumps({'jsonrpc': '2.0', 'method': 'notifications/resources/updated',
                                     'params': {'uri': 'test://a', **meta}}) + '\n')
        return ''.join(lines)

    def answer(self, request):
        method, params = request.get('method'), request.get('params') or {}
        legacy = 'legacy' in self.modes
        capabilities = {'resources': {'subscribe': True}, 'tools': {}}
        if 'id' not in request:
            if method == 'notifications/cancelled':
                self.listens.pop(params.get('requestId'), None)
        elif method == 'server/discover' and 'silent' in self.modes:
            pass
        elif method == 'server/discover' and 'startled' in self.modes:
            sys.exit(3)
        elif method == 'server/discover' and not legacy:
            self.result(request, {'supportedVersions': [MODERN], 'capabilities': capabilities,
                                  'serverInfo': {'name': 'bad', 'version': '1'}, 'ttlMs': 0,
                                  'cacheScope': 'public'})
        elif method == 'initialize' and legacy:
            self.result(request, {'protocolVersion': LEGACY, 'capabilities': capabilities,
                                  'serverInfo': {'name': 'bad', 'version': '1'}})
        elif method == 'subscriptions/listen' and not legacy:
            self.say({'jsonrpc': '2.0', 'method': 'notifications/subscriptions/acknowledged', 'params': {
                'notifications': params['notifications'], '_meta': {SUBSCRIPTION: request['id']}}})
            self.listens[request['id']] = True
        elif method == 'resources/subscribe' and legacy:
            self.listens[None] = True
            self.result(request, {})
        elif method == 'resources/unsubscribe' and legacy:
            self.listens.pop(None, None)
            self.result(request, {})
        elif method == 'resources/read':
            self.result(request, {'contents': [{'uri': params['uri'], 'text': f'life {self.life}'}],
                                  'ttlMs': 0, 'cacheScope': 'public'})
        elif method == 'tools/list':
            self.result(request, {'tools': [{'name': 'act', 'inputSchema': {'type': 'object'}}],
                                  'ttlMs': 0, 'cacheScope': 'public'})
        elif method == 'tools/call':
            self.act(request, params.get('arguments') or {})
        elif method == 'ping':
            self.result(request, {})
        else:
            self.say({'jsonrpc': '2.0', 'id': request['id'],
                      'error': {'code': -32601, 'message': 'no such method'}})

    def act(self, request, arguments):
        """What the test wants to happen now."""
        what = arguments.get('what')
        if what == 'change':
            self.raw(self.update())
        elif what == 'cut':  # dies in the middle of an update
            self.raw(self.update()[:arguments['at']])
            os._exit(1)
        elif what == 'crash':
            os.kill(os.getpid(), signal.SIGKILL)
        elif what == 'rubbish':
            self.raw('hello\n\n{"jsonrpc": "2.0"\n[]\n17\n\x00\x01\n{"id": 9999, "result": {}}\n'
                     '{"jsonrpc": "2.0", "id": 99999, "result": {}}\n')
            sys.stdout.buffer.write(b'\xff\xfe\n')
            sys.stdout.buffer.flush()
        elif what == 'endless':
            for _ in range(arguments['times']):
                self.raw('x' * 65536)
            self.raw('\n')
        elif what == 'mute':  # standard output is closed, and life goes on
            os.close(1)
            time.sleep(3600)
        elif what == 'hang':
            time.sleep(3600)
        elif what == 'chatter':  # more on standard error than a pipe holds
            for number in range(20000):
                sys.stderr.write(f'line {number} of much that nobody asked for\n')
        self.result(request, {'content': [{'type': 'text', 'text': f'life {self.life}'}]})

    def run(self):
        if 'dies' in self.modes:
            sys.exit(1)
        if 'stubborn' in self.modes:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if 'greets' in self.modes:
            self.raw('Welcome to the server!\n')
        for line in sys.stdin:
            self.answer(json.loads(line))
        if 'stubborn' in self.modes:
            time.sleep(3600)


# Modes: legacy (nothing of 2026-07-28), silent (no answer to the probe), startled (ends when it is
# probed), dies (at once), greets (a line that is no message), stubborn (ends by SIGKILL only).
Program(sys.argv[1], sys.argv[2:]).run()

#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""serve_test.py TIDINGS [CHOSEN]: `tidings serve` from outside, with configs, real HTTP
clients, `tidings publish` and curl. Writes TAP. Everything that is waited for has a minute."""
import atexit
import hashlib
import hmac
import http.client
import http.server
import json
import os
import queue
import random
import select
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), 'hostile'))

from lib import tap  # noqa: E402
from lib.mortal import MORTAL  # noqa: E402

PATIENCE = 60
KEY, SECRET = 'the-publish-key', 'the-hook-secret'
HEAD = 'server: {timing: immediate, rate-limit: 0, workers: 2}\npublish: {key: "${THE_KEY}"}\n'
MEMORY = "- memory: 'm:{x}'\n  max-size: 1000\n- memory: one:1\n"
HOOKS = ("- webhook: /hooks/git\n  uri: hook:git\n  secret: '" + SECRET + "'\n  max-size: 64KiB\n"
         "- webhook: /hooks/bearer\n  uri: hook:bearer\n  secret: '" + SECRET + "'\n"
         "  signature: bearer\n  content: signal\n")
ALL = HEAD + 'resources:\n' + MEMORY + HOOKS

tidings = None
work = None
running = []


# ---- The program --------------------------------------------------------------------------

class Serve:
    """The program with a config; what it logs is read as it comes."""

    def __init__(self, config=ALL, arguments=('--listen', 'http://127.0.0.1:0'), wait=True,
                 stdio=False):
        self.path = os.path.join(tempfile.mkdtemp(dir=work), 'tidings.yaml')
        self.write(config)
        self.process = subprocess.Popen(
            [*MORTAL, tidings, 'serve', '--json', '--config', self.path, *arguments],
            stdin=subprocess.PIPE if stdio else subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
            env={**os.environ, 'THE_KEY': KEY})
        running.append(self)
        self.lines = queue.Queue()
        self.log = []
        threading.Thread(target=self.read_log, daemon=True).start()
        if wait:
            urls = self.wait_log('serving', 'urls')['urls']
            self.port = int(urls[0].split(':')[2].split('/')[0]) if urls else None

    def write(self, config):
        """As editors do it: a new file in the place of the old one."""
        with open(self.path + '.new', 'w', encoding='utf-8') as file:
            file.write(config)
        os.rename(self.path + '.new', self.path)

    def read_log(self):
        for line in self.process.stderr:
            self.lines.put(line.decode())
        self.lines.put(None)

    def wait_log(self, text, key='message'):
        """The next line that has this key, and whose message contains the text."""
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                line = self.lines.get(timeout=max(0, deadline - time.monotonic()))
            except queue.Empty:
                raise AssertionError(f'never logged: {text}; but {self.log}') from None
            assert line is not None, f'ended before it logged: {text}; but {self.log}'
            self.log.append(line)
            entry = json.loads(line)
            if key in entry and text in entry['message']:
                return entry

    def rest_of_log(self):
        """Of a program that has ended: what was not waited for."""
        entries = []
        while True:
            line = self.lines.get(timeout=PATIENCE)
            if line is None:
                return entries
            self.log.append(line)
            entries.append(json.loads(line))

    def reload(self, config):
        self.write(config)
        self.process.send_signal(signal.SIGHUP)

    def end(self, number=signal.SIGTERM):
        """Stops it; returns the exit code."""
        self.process.send_signal(number)
        return self.process.wait(PATIENCE)

    def kill(self):
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(PATIENCE)


def kill_running():
    while running:
        running.pop().kill()


def kill_all():
    kill_running()
    if work is not None:
        shutil.rmtree(work, ignore_errors=True)


# ---- Clients ------------------------------------------------------------------------------

def request(serve, method, path, body=None, headers=None):
    """Returns status, header fields and body."""
    connection = http.client.HTTPConnection('127.0.0.1', serve.port, timeout=PATIENCE)
    try:
        connection.request(method, path, body, headers or {})
        response = connection.getresponse()
        return response.status, response.headers, response.read()
    finally:
        connection.close()


class Stream:
    """An event stream; next() is the next message in it."""

    def __init__(self, serve, method, body, headers):
        self.connection = http.client.HTTPConnection('127.0.0.1', serve.port,
                                                     timeout=PATIENCE)
        self.connection.request(method, '/mcp', body,
                                {'Accept': 'application/json, text/event-stream', **headers})
        self.response = self.connection.getresponse()
        assert self.response.status == 200, self.response.read()

    def next(self):
        deadline = time.monotonic() + PATIENCE
        while True:
            line = self.response.readline()
            assert line, 'the stream has ended'
            assert time.monotonic() < deadline, 'nothing but keep-alives'
            if line.startswith(b'data:') and len(line.strip()) > 5:
                return json.loads(line[5:])

    def expect(self, uri):
        """The next update, which is of this URI; list changes are passed over."""
        while True:
            message = self.next()
            if message['method'] == 'notifications/resources/updated':
                assert message['params']['uri'] == uri, message
                return message['params']

    def expect_list_change(self):
        while self.next()['method'] != 'notifications/resources/list_changed':
            pass

    def expect_end(self):
        """It ends before long, whatever comes before."""
        deadline = time.monotonic() + PATIENCE
        while self.response.readline():
            assert time.monotonic() < deadline, 'the stream does not end'
        self.close()

    def close(self):
        self.response.close()
        self.connection.close()


META = {'io.modelcontextprotocol/protocolVersion': '2026-07-28',
        'io.modelcontextprotocol/clientInfo': {'name': 'test', 'version': '1'},
        'io.modelcontextprotocol/clientCapabilities': {}}


def modern_message(method, params):
    return json.dumps({'jsonrpc': '2.0', 'id': 1, 'method': method,
                       'params': {'_meta': META, **params}})


def modern_headers(method, name=None):
    headers = {'Content-Type': 'application/json', 'MCP-Protocol-Version': '2026-07-28',
               'Mcp-Method': method, 'Accept': 'application/json, text/event-stream'}
    return {**headers, 'Mcp-Name': name} if name else headers


def modern(serve, method, params, name=None):
    """Returns the answer, also where it came as a stream."""
    _, headers, body = request(serve, 'POST', '/mcp', modern_message(method, params),
                               modern_headers(method, name))
    if headers.get_content_type() == 'text/event-stream':
        body = [line[5:] for line in body.splitlines() if line.startswith(b'data:')][-1]
    return json.loads(body)


def read(serve, uri):
    """The text of a resource; None where there is none."""
    answer = modern(serve, 'resources/read', {'uri': uri}, uri)
    return answer['result']['contents'][0]['text'] if 'result' in answer else None


def listed(serve):
    return {r['uri'] for r in modern(serve, 'resources/list', {})['result']['resources']}


def listen(serve, *uris):
    method = 'subscriptions/listen'
    wishes = {'notifications': {'resourceSubscriptions': uris, 'resourcesListChanged': True}}
    stream = Stream(serve, 'POST', modern_message(method, wishes), modern_headers(method))
    assert stream.next()['method'] == 'notifications/subscriptions/acknowledged'
    return stream


def legacy_listen(serve, *uris):
    """A session that is subscribed, and its GET stream."""
    headers = {'Content-Type': 'application/json', 'Accept': 'application/json'}

    def post(message):
        status, fields, body = request(serve, 'POST', '/mcp',
                                       json.dumps({'jsonrpc': '2.0', **message}), headers)
        assert status in (200, 202), body
        return fields

    hello = {'protocolVersion': '2025-06-18', 'capabilities': {},
             'clientInfo': {'name': 'test', 'version': '1'}}
    headers['Mcp-Session-Id'] = post({'id': 1, 'method': 'initialize',
                                      'params': hello})['Mcp-Session-Id']
    post({'method': 'notifications/initialized'})
    session = {'Mcp-Session-Id': headers['Mcp-Session-Id']}
    stream = Stream(serve, 'GET', None, session)
    for uri in uris:
        post({'id': uri, 'method': 'resources/subscribe', 'params': {'uri': uri}})
    return stream


class Session:
    """A legacy session; call() gives the whole answer."""

    def __init__(self, serve):
        self.serve = serve
        self.headers = {'Content-Type': 'application/json', 'Accept': 'application/json'}
        hello = {'protocolVersion': '2025-06-18', 'capabilities': {},
                 'clientInfo': {'name': 'test', 'version': '1'}}
        _, fields, _ = self.post({'id': 0, 'method': 'initialize', 'params': hello})
        self.headers['Mcp-Session-Id'] = fields['Mcp-Session-Id']
        self.post({'method': 'notifications/initialized'})

    def post(self, message):
        return request(self.serve, 'POST', '/mcp', json.dumps({'jsonrpc': '2.0', **message}),
                       self.headers)

    def call(self, method, params):
        return json.loads(self.post({'id': 1, 'method': method, 'params': params})[2])

    def subscribe(self, uri, **meta):
        return self.call('resources/subscribe', {'uri': uri, '_meta': meta} if meta
                         else {'uri': uri})

    def stream(self):
        return Stream(self.serve, 'GET', None,
                      {'Mcp-Session-Id': self.headers['Mcp-Session-Id']})


class Pipe:
    """The protocol on the standard input and output of the program."""

    def __init__(self, serve):
        self.input = serve.process.stdin
        self.lines = queue.Queue()
        threading.Thread(target=self.read, args=[serve.process.stdout], daemon=True).start()

    def read(self, output):
        for line in output:
            self.lines.put(line)
        self.lines.put(None)

    def send(self, message):
        self.input.write(json.dumps({'jsonrpc': '2.0', **message}).encode() + b'\n')
        self.input.flush()

    def next(self):
        line = self.lines.get(timeout=PATIENCE)
        assert line is not None, 'the pipe has ended'
        return json.loads(line)

    def next_beside_lists(self):
        while True:
            message = self.next()
            if message.get('method') != 'notifications/resources/list_changed':
                return message

    def call(self, method, params):
        """The answer of a legacy session that nothing else is sent to but list changes."""
        self.send({'id': 1, 'method': method, 'params': params})
        answer = self.next_beside_lists()
        assert answer.get('id') == 1, answer
        return answer

    def expect(self, method, uri):
        message = self.next_beside_lists()
        assert (message['method'], message['params']['uri']) == (method, uri), message


def publish(serve, body, key=KEY):
    status, _, answer = request(serve, 'POST', '/publish', json.dumps(body),
                                {'Authorization': 'Bearer ' + key,
                                 'Content-Type': 'application/json'})
    return status, json.loads(answer) if answer else None


def signature(body, secret=SECRET):
    return 'sha256=' + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


def call_hook(serve, body, signed=None, **fields):
    headers = {'X-Hub-Signature-256': signature(body) if signed is None else signed,
               'Content-Type': 'application/json'}
    headers.update({name.replace('_', '-'): value for name, value in fields.items()})
    return request(serve, 'POST', '/hooks/git', body, headers)[0]


# ---- Publishing ---------------------------------------------------------------------------

def what_is_published_reaches_both_eras():
    serve = Serve()
    streams = [listen(serve, 'm:1'), legacy_listen(serve, 'm:1')]
    status, answer = publish(serve, {'uri': 'm:1', 'content': 'hello'})
    assert status == 200, answer
    assert answer['changes'][0]['subscriptions'] == 2, answer
    for stream in streams:
        metadata = stream.expect('m:1')['metadata']
        assert read(serve, 'm:1') == 'hello'  # before anybody hears of it
        assert metadata['change_type'] == 'created', metadata
        assert metadata['size'] == 5, metadata
        assert metadata['checksum'] == 'sha256:' + hashlib.sha256(b'hello').hexdigest()
        stream.close()
    assert 'm:1' in listed(serve)
    assert serve.end() == 0


def a_resource_may_look_like_a_list():
    """A URI is what it is: no beginning of it means anything."""
    uris = ['list:x', 'list:resources']
    serve = Serve(HEAD + 'resources:\n' + ''.join(f"- memory: '{uri}'\n" for uri in uris))
    streams = [listen(serve, *uris), legacy_listen(serve, *uris)]
    for uri in uris:
        status, answer = publish(serve, {'uri': uri, 'content': 'hello'})
        assert status == 200, answer
        assert answer['changes'][0]['subscriptions'] == 2, answer
        for stream in streams:
            assert stream.expect(uri)['metadata']['change_type'] == 'created'
    for stream in streams:
        stream.close()
    assert serve.end() == 0


def a_thousand_contents_are_there_when_they_are_told():
    serve = Serve()
    stream = listen(serve, 'm:n')
    for n in range(1000):
        assert publish(serve, {'uri': 'm:n', 'content': str(n)})[0] == 200
        told = stream.expect('m:n')
        assert read(serve, 'm:n') == str(n)
        assert told['metadata']['size'] == len(str(n))
    stream.close()
    assert serve.end() == 0


def the_command_and_curl_publish():
    serve = Serve()
    stream = listen(serve, 'm:cli', 'm:curl')
    url = f'http://127.0.0.1:{serve.port}'
    done = subprocess.run([tidings, 'publish', url, 'm:cli', '--content', '-', '--metadata',
                           '{"by": "cron"}'], input=b'from the shell', timeout=PATIENCE,
                          env={**os.environ, 'TIDINGS_PUBLISH_KEY': KEY}, check=False,
                          stdout=subprocess.PIPE)
    assert done.returncode == 0 and b'1 subscription' in done.stdout, done
    assert stream.expect('m:cli')['metadata']['by'] == 'cron'
    assert read(serve, 'm:cli') == 'from the shell'
    done = subprocess.run(['curl', '-sS', '--max-time', str(PATIENCE), '-o', '/dev/null', '-w',
                           '%{http_code}', '-H', 'Authorization: Bearer ' + KEY, '--json',
                           '{"uri":"m:curl","content":"from curl"}', url + '/publish'],
                          capture_output=True, timeout=PATIENCE, check=True)
    assert done.stdout == b'200', done
    stream.expect('m:curl')
    assert read(serve, 'm:curl') == 'from curl'
    stream.close()
    assert serve.end() == 0


def what_nobody_serves_is_said_when_it_is_published():
    serve = Serve()
    status, answer = publish(serve, [{'uri': 'm:1', 'content': 'x'}, {'uri': 'nobody:1'}])
    assert status == 200, answer
    assert [change.get('served') for change in answer['changes']] == [None, False], answer
    done = subprocess.run([tidings, 'publish', f'http://127.0.0.1:{serve.port}', 'nobody:1'],
                          timeout=PATIENCE, env={**os.environ, 'TIDINGS_PUBLISH_KEY': KEY},
                          check=False, capture_output=True)
    assert done.returncode == 0 and b'does not serve nobody:1' in done.stderr, done


def a_folder_that_comes_later_is_served():
    """On the command line as in a config."""
    folder = os.path.join(work, 'later')
    with subprocess.Popen([tidings, 'serve', '--stdio', folder], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        def ask(number, method, params):
            process.stdin.write(json.dumps({'jsonrpc': '2.0', 'id': number, 'method': method,
                                            'params': params}).encode() + b'\n')
            process.stdin.flush()
            return json.loads(process.stdout.readline())['result']
        ask(1, 'initialize', {'protocolVersion': '2025-11-25', 'capabilities': {},
                              'clientInfo': {'name': 'test', 'version': '1'}})
        assert ask(2, 'resources/list', {})['resources'] == []
        os.mkdir(folder)
        with open(os.path.join(folder, 'a.txt'), 'w', encoding='utf-8') as file:
            file.write('a')
        deadline = time.monotonic() + PATIENCE
        while not ask(3, 'resources/list', {})['resources']:
            assert time.monotonic() < deadline, 'it is not served'
            time.sleep(0.05)
        process.stdin.close()
        assert process.wait(PATIENCE) == 0


def who_has_no_key_publishes_nothing():
    serve = Serve()
    for key in ('', 'wrong', KEY + 'x', KEY[:-1]):
        assert publish(serve, {'uri': 'm:1', 'content': 'x'}, key)[0] == 401, key
    assert request(serve, 'POST', '/publish', '{"uri":"m:1"}',
                   {'Content-Type': 'application/json'})[0] == 401
    assert read(serve, 'm:1') is None
    assert serve.end() == 0


def an_array_is_published_whole_or_not_at_all():
    serve = Serve()
    stream = listen(serve, 'm:1', 'm:2', 'one:1')
    for bad in ({'uri': 'm:2', 'content': 'x' * 1001}, {'uri': 'hook:git', 'content': 'x'},
                {'uri': 'nobody:1', 'content': 'x'}, {'uri': 'not a uri'}):
        status, answer = publish(serve, [{'uri': 'm:1', 'content': 'a'},
                                         {'uri': 'one:1', 'content': 'a'}, bad])
        assert status >= 400 and answer['error']['index'] == 2, answer
        assert read(serve, 'm:1') is None and read(serve, 'one:1') is None
    status, answer = publish(serve, [{'uri': 'm:1', 'content': 'a'},
                                     {'uri': 'm:2', 'content': 'b'}, {'uri': 'hook:git'}])
    assert status == 200 and len(answer['changes']) == 3, answer
    stream.expect('m:1')  # nothing was told before
    stream.expect('m:2')
    assert publish(serve, [{'uri': 'm:1', 'deleted': True}])[0] == 200
    assert stream.expect('m:1')['metadata']['change_type'] == 'deleted'
    assert read(serve, 'm:1') is None and 'm:1' not in listed(serve)
    stream.close()
    assert serve.end() == 0


# ---- Webhooks -----------------------------------------------------------------------------

def a_webhook_is_told_with_its_body():
    serve = Serve()
    stream = listen(serve, 'hook:git', 'hook:bearer')
    body = b'{"ref": "refs/heads/main"}'
    assert call_hook(serve, body, X_GitHub_Event='push', X_GitHub_Delivery='d-1') == 202
    metadata = stream.expect('hook:git')['metadata']
    assert metadata['event'] == 'push' and metadata['delivery'] == 'd-1', metadata
    assert read(serve, 'hook:git') == body.decode()
    # again, by its id; with another id; and a signal, which is told each time
    assert call_hook(serve, b'other', X_GitHub_Delivery='d-1') == 202
    assert read(serve, 'hook:git') == body.decode()
    assert call_hook(serve, body, X_GitHub_Delivery='d-2') == 202
    for _ in range(2):
        assert request(serve, 'POST', '/hooks/bearer', b'x',
                       {'Authorization': 'Bearer ' + SECRET})[0] == 202
        stream.expect('hook:bearer')
    assert json.loads(read(serve, 'hook:bearer'))['body_size'] == 1
    stream.close()
    assert serve.end() == 0


def hostile_callers_change_nothing():
    serve = Serve()
    stream = listen(serve, 'hook:git')
    good = b'{"good": true}'
    answers = set()
    for headers in ({}, {'X-Hub-Signature-256': ''}, {'X-Hub-Signature-256': 'sha256=00'},
                    {'X-Hub-Signature-256': signature(good, 'wrong')},
                    {'X-Hub-Signature-256': signature(b'another body')},
                    {'X-Hub-Signature-256': 'sha256=' + 'zz' * 32},
                    {'Authorization': 'Bearer ' + SECRET}):
        status, fields, body = request(serve, 'POST', '/hooks/git', good, headers)
        answers.add((status, body, fields['WWW-Authenticate']))
    assert len(answers) == 1 and next(iter(answers))[0] == 401, answers
    assert request(serve, 'GET', '/hooks/git')[0] == 405
    assert request(serve, 'POST', '/hooks/none', good)[0] == 404
    assert read(serve, 'hook:git') is None
    assert call_hook(serve, good) == 202
    stream.expect('hook:git')
    stream.close()
    assert serve.end() == 0


def send_raw(serve, data):
    """Sends bytes; returns what comes: at least the head of an answer, or nothing at all."""
    connection = socket.create_connection(('127.0.0.1', serve.port), PATIENCE)
    answer = b''
    try:
        connection.sendall(data)
        while b'\r\n\r\n' not in answer:
            piece = connection.recv(65536)
            if not piece:
                break
            answer += piece
    except ConnectionError:
        pass
    connection.close()
    return answer


def an_oversized_body_is_refused_before_it_is_read():
    serve = Serve()
    head = (f'POST /hooks/git HTTP/1.1\r\nHost: 127.0.0.1:{serve.port}\r\n'
            'Content-Length: 1000000000\r\n\r\n').encode()
    assert b' 413 ' in send_raw(serve, head).split(b'\r\n')[0]
    body = b'x' * (64 * 1024)
    assert call_hook(serve, body) == 202
    assert request(serve, 'POST', '/hooks/git', body + b'x',
                   {'X-Hub-Signature-256': signature(body + b'x')})[0] == 413
    assert serve.end() == 0


def garbage_gets_an_answer_or_a_close():
    serve = Serve()
    for data in (b'\x00' * 1000, b'\x16\x03\x01\x02\x00\x01' + b'\xff' * 500,
                 b'POST /hooks/git\r\n\r\n', b'POST /hooks/git HTTP/1.1\r\n\r\n' + b'x' * 5000,
                 b'POST /hooks/../mcp HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n',
                 b'POST /hooks/git HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n'):
        answer = send_raw(serve, data)
        assert answer == b'' or answer.startswith(b'HTTP/1.1 4'), answer
    assert call_hook(serve, b'fine') == 202
    assert serve.end() == 0


def slow_callers_and_thousands_of_bad_ones_hold_nobody_up():
    serve = Serve()
    stream = listen(serve, 'm:1', 'hook:git')
    head = (f'POST /hooks/git HTTP/1.1\r\nHost: 127.0.0.1:{serve.port}\r\n'
            'Content-Length: 60000\r\n\r\nbegin').encode()
    slow = [socket.create_connection(('127.0.0.1', serve.port), PATIENCE) for _ in range(50)]
    for connection in slow:
        connection.sendall(head)

    wrong = signature(b'x' * 1000, 'wrong')
    errors = []

    def flood():
        connection = http.client.HTTPConnection('127.0.0.1', serve.port, timeout=PATIENCE)
        try:
            for _ in range(1000):
                connection.request('POST', '/hooks/git', b'x' * 1000,
                                   {'X-Hub-Signature-256': wrong})
                response = connection.getresponse()
                response.read()
                assert response.status == 401, response.status
        except Exception as error:  # told by the main thread
            errors.append(error)
        connection.close()

    floods = [threading.Thread(target=flood) for _ in range(4)]
    for thread in floods:
        thread.start()
    longest = 0
    count = 0
    while count < 20 or any(thread.is_alive() for thread in floods):
        began = time.monotonic()
        assert publish(serve, {'uri': 'm:1', 'content': str(count)})[0] == 200
        stream.expect('m:1')
        longest = max(longest, time.monotonic() - began)
        count += 1
    for thread in floods:
        thread.join()
    assert not errors, errors
    assert longest < 10, f'an honest publisher waited {longest:.1f} s'
    print(f'# {count} publishes meanwhile, the longest took {longest * 1000:.0f} ms')
    assert call_hook(serve, b'good') == 202
    stream.expect('hook:git')
    for connection in slow:
        connection.close()
    assert serve.end() == 0
    serve.rest_of_log()
    assert len(serve.log) < 100, len(serve.log)  # however many were refused
    assert any('signature' in line for line in serve.log), serve.log
    assert not any(SECRET in line or KEY in line for line in serve.log)
    stream.close()


# ---- Reloading ----------------------------------------------------------------------------

def a_broken_config_keeps_the_old_one():
    serve = Serve()
    stream = listen(serve, 'm:1')
    assert publish(serve, {'uri': 'm:1', 'content': 'kept'})[0] == 200
    stream.expect('m:1')
    serve.reload(HEAD + 'resources:\n- memory: m:1\n  max-size: many\n- nothing: x\n')
    problem = serve.wait_log('many', 'line')
    assert problem['file'] == serve.path and problem['line'] == 5, problem
    assert problem['column'] == 13, problem
    serve.wait_log('stays in force')
    serve.reload(HEAD + 'resources: [\n')
    assert serve.wait_log('', 'line')['line'] >= 3
    serve.wait_log('stays in force')
    assert read(serve, 'm:1') == 'kept'
    assert publish(serve, {'uri': 'm:1', 'content': 'on'})[0] == 200
    stream.expect('m:1')
    stream.close()
    assert serve.end() == 0


def a_good_config_is_taken():
    serve = Serve()
    stream = listen(serve, 'm:1', 'hook:git')
    assert publish(serve, {'uri': 'm:1', 'content': 'kept'})[0] == 200
    stream.expect('m:1')
    changed = (HEAD.replace('${THE_KEY}', 'another-key') + 'resources:\n' + MEMORY +
               '- memory: new:1\n- webhook: /hooks/later\n  uri: hook:later\n  open: true\n')
    serve.reload(changed)
    serve.wait_log('config reloaded')
    stream.expect_list_change()
    assert read(serve, 'm:1') == 'kept'  # the entry stayed
    assert {'new:1', 'hook:later', 'm:1'} <= listed(serve)
    assert 'hook:git' not in listed(serve)
    assert publish(serve, {'uri': 'm:1'})[0] == 401
    assert publish(serve, {'uri': 'm:1', 'content': 'b'}, 'another-key')[0] == 200
    assert call_hook(serve, b'x') == 404
    assert request(serve, 'POST', '/hooks/later', b'body')[0] == 202
    assert read(serve, 'hook:later') == 'body'
    while True:  # hook:git is gone, m:1 changed
        message = stream.next()
        if message['params'].get('uri') == 'm:1':
            break
    serve.reload('resources:\n' + MEMORY)  # no key: nobody publishes
    serve.wait_log('config reloaded')
    assert publish(serve, {'uri': 'm:1'}, 'another-key')[0] == 404
    assert read(serve, 'm:1') == 'b'
    stream.close()
    assert serve.end() == 0


def labour(serve):
    """Seconds of processor time that it has used."""
    with open(f'/proc/{serve.process.pid}/stat', encoding='ascii') as file:
        fields = file.read().rpartition(')')[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf('SC_CLK_TCK')


def many_entries(count, text):
    """All kinds of look-ups: URIs, templates, folders beside each other, webhooks."""
    kinds = ["memory: 'm:{0}'", "memory: 'm:{0}/{{x}}'",
             "command: [echo, hello]\n  uri: 'c:{0}'",
             "files: /nowhere/{0}\n  uri: 'f:{0}'\n  poll: 1h"]
    entries = [f'- {kinds[i % len(kinds)].format(i)}\n  description: {text}\n'
               for i in range(count - 100)]
    hooks = [f'- webhook: /hooks/{i}\n  uri: h:{i}\n  open: true\n' for i in range(100)]
    return HEAD + 'resources:\n' + ''.join(entries + hooks)


def work_of(count):
    """Of the start and of a reload in which every entry is another one."""
    serve = Serve(many_entries(count, 'first'))
    serve.reload(many_entries(count, 'second'))
    serve.wait_log('config reloaded')
    assert read(serve, f'c:{count - 102}') == 'hello\n'
    work = labour(serve)
    assert serve.end() == 0
    return work


def the_limit_of_entries_is_reached_in_linear_time():
    for _ in range(3):  # what else runs on the machine can only add to it
        small, large = work_of(2500), work_of(10000)
        print(f'# {small:.2f} s of work for 2,500 entries, {large:.2f} s for 10,000')
        if large < 8 * small + 0.2:
            break
    else:  # 16 times as much where it is quadratic
        assert False, (small, large)
    serve = Serve(many_entries(10001, 'too many'), wait=False)
    assert serve.process.wait(PATIENCE) == 1
    assert any('10001 entries; the limit is 10000' in entry['message']
               for entry in serve.rest_of_log())


def a_changed_file_is_read_again_where_that_is_asked_for():
    serve = Serve('reload-on-change: true\n' + ALL)
    stream = listen(serve, 'm:1')
    serve.write('reload-on-change: true\n' + HEAD + 'resources:\n' + MEMORY +
                '- memory: fresh:1\n')
    serve.wait_log('config reloaded')
    stream.expect_list_change()
    assert 'fresh:1' in listed(serve)
    serve.write('reload-on-change: true\nresources: 7\n')
    serve.wait_log('stays in force')
    assert 'fresh:1' in listed(serve)
    stream.close()
    assert serve.end() == 0


def the_config_itself_is_never_served():
    """Neither by an entry nor by a path on the command line, nor after a reload."""
    config = "publish: {key: literal-secret}\nresources:\n- files: .\n  uri: 'd:{+path}'\n"
    other = tempfile.mkdtemp(dir=work)
    serve = Serve(config)
    folder = os.path.dirname(serve.path)
    with open(os.path.join(folder, 'a.md'), 'w', encoding='utf-8') as file:
        file.write('here')
    os.link(serve.path, os.path.join(folder, 'hard'))
    os.symlink('tidings.yaml', os.path.join(folder, 'soft'))
    stream = listen(serve, 'd:{+path}', 'd:a.md', 'd:tidings.yaml')
    for turn in range(2):
        assert read(serve, 'd:a.md') == 'here'
        for name in ('tidings.yaml', 'hard', 'soft', './tidings.yaml', '%74idings.yaml'):
            if turn == 0 or name != 'hard':  # which is the file of before then
                assert read(serve, 'd:' + name) is None, name
        assert 'd:tidings.yaml' not in listed(serve)
        serve.reload(config + "- memory: 'm:1'\n")
        serve.wait_log('config reloaded')
    stream.close()
    assert serve.end() == 0

    link = os.path.join(other, 'link.yaml')
    os.symlink(serve.path, link)
    serve.write('publish: {key: literal-secret}\n')
    by_path = Serve('', ('--listen', 'http://127.0.0.1:0', '--config', link, folder))
    assert read(by_path, f'file://{folder}/a.md') == 'here'
    assert read(by_path, f'file://{folder}/tidings.yaml') is None
    assert not [uri for uri in listed(by_path) if uri.endswith(('.yaml', '/soft'))]
    assert by_path.end() == 0


def a_template_that_cannot_be_watched_is_not_subscribable():
    serve = Serve("resources:\n- sqlite: shop.db\n  query: SELECT :id\n  uri: 's:{id}'\n")
    method = 'subscriptions/listen'
    wishes = {'notifications': {'resourceSubscriptions': ['s:{id}', 's:1']}}
    stream = Stream(serve, 'POST', modern_message(method, wishes), modern_headers(method))
    honoured = stream.next()['params']['notifications']['resourceSubscriptions']
    assert honoured == ['s:1'], honoured
    stream.close()
    headers = {'Content-Type': 'application/json', 'Accept': 'application/json'}
    _, fields, _ = request(serve, 'POST', '/mcp', json.dumps(
        {'jsonrpc': '2.0', 'id': 1, 'method': 'initialize',
         'params': {'protocolVersion': '2025-06-18', 'capabilities': {},
                    'clientInfo': {'name': 'test', 'version': '1'}}}), headers)
    _, _, body = request(serve, 'POST', '/mcp', json.dumps(
        {'jsonrpc': '2.0', 'id': 2, 'method': 'resources/subscribe',
         'params': {'uri': 's:{id}'}}),
        {**headers, 'Mcp-Session-Id': fields['Mcp-Session-Id']})
    assert json.loads(body)['error']['data']['error_type'] == 'not_subscribable', body
    assert serve.end() == 0


def make_file(folder, name, text):
    """As a rename does it, at once. Returns its path."""
    path = os.path.join(folder, name)
    with open(f'{path}.new', 'w', encoding='utf-8') as file:
        file.write(text)
    os.rename(f'{path}.new', path)
    return path


AWAIT = {'dev.tidings/options': {'awaitCreation': True}}


def a_session_subscribes_to_what_exists_or_asks_to_wait():
    folder = tempfile.mkdtemp(dir=work)
    with open(os.path.join(folder, 'here.txt'), 'w', encoding='utf-8') as file:
        file.write('here')
    serve = Serve(f"{HEAD}resources:\n{MEMORY}- files: {folder}\n  uri: 'f:/{{+path}}'\n"
                  f"- http: http://127.0.0.1:9/\n  uri: away:1\n{HOOKS}")
    session = Session(serve)
    stream = session.stream()
    answer = session.subscribe('f:/none.txt')
    assert answer['error']['code'] == -32002, answer
    assert answer['error']['data'] == {'uri': 'f:/none.txt'}, answer
    assert session.subscribe('f:/here.txt')['result'] == {}
    assert session.subscribe('m:nothing-yet')['result'] == {}
    assert session.subscribe('away:1')['result'] == {}  # unreachable, which is another thing
    for uri in ('hook:git', 'hook:bearer'):  # a body, and a signal
        assert session.subscribe(uri)['result'] == {}
    assert call_hook(serve, b'first') == 202
    assert stream.expect('hook:git')['metadata']['change_type'] == 'created'
    status, _, _ = request(serve, 'POST', '/hooks/bearer', b'ring',
                           {'Authorization': 'Bearer ' + SECRET})
    assert status == 202
    assert stream.expect('hook:bearer')['metadata']['change_type'] == 'created'

    assert '_meta' in session.subscribe('f:/none.txt', **AWAIT)['result']
    with open(os.path.join(folder, 'none.txt'), 'w', encoding='utf-8') as file:
        file.write('there')
    assert stream.expect('f:/none.txt')['metadata']['change_type'] == 'created'
    assert Session(serve).subscribe('f:/none.txt')['result'] == {}
    os.remove(os.path.join(folder, 'none.txt'))
    assert stream.expect('f:/none.txt')['metadata']['change_type'] == 'deleted'
    assert Session(serve).subscribe('f:/none.txt')['error']['code'] == -32002
    stream.close()

    # A client of another process of this server comes back: what is gone is told as gone.
    session = Session(serve)
    stream = session.stream()
    answer = session.subscribe('f:/none.txt', **AWAIT,
                               **{'dev.tidings/cursor': '0123456789abcdef-5'})
    assert '_meta' in answer['result'], answer
    assert stream.expect('f:/none.txt')['metadata']['change_type'] == 'deleted'
    stream.close()
    assert serve.end() == 0


def a_file_that_has_just_gone_still_exists():
    """Many programs save by deleting and making anew. With `settle: 0` it is gone at once."""
    for settle in ('1m', '0'):
        folder = tempfile.mkdtemp(dir=work)
        make_file(folder, 'a.txt', 'old')
        make_file(folder, 'mark', 'old')
        serve = Serve(f"{HEAD}resources:\n- files: {folder}\n  uri: 'f:/{{+path}}'\n"
                      f"  settle: {settle}\n")
        mark = listen(serve, 'f:/mark')
        session = Session(serve)
        stream = session.stream()
        os.remove(f'{folder}/a.txt')
        make_file(folder, 'mark', 'new')
        mark.expect('f:/mark')  # so that the one before has been noticed, too
        mark.close()
        assert read(serve, 'f:/a.txt') is None
        answer = session.subscribe('f:/a.txt')
        if settle == '0':
            assert answer['error']['code'] == -32002, answer
        else:
            assert answer.get('result') == {}, answer
            assert 'f:/a.txt' in listed(serve)
            make_file(folder, 'a.txt', 'another')
            metadata = stream.expect('f:/a.txt')['metadata']
            assert metadata['change_type'] == 'content_update', metadata
            assert metadata['size'] == 7, metadata
        stream.close()
        assert serve.end() == 0


EDITORS = {  # options, and what is typed
    'ed': (['-s'], ',s/old/another/\nw\nq\n'),
    'sed': (['-i', 's/old/another/'], ''),
    'vim': (['-N', '-u', 'NONE', '-i', 'NONE', '-es', '-c', '%s/old/another/', '-c', 'wq'], ''),
}
LINES = 20000  # many writes


def edit(program, path):
    options, text = EDITORS[program]
    subprocess.run([program, *options, path], input=text.encode(), stdout=subprocess.DEVNULL,
                   timeout=PATIENCE, check=True)


def copy_with_a_pause(folder, stream):
    """What cp reads pauses half-way, until another change has been noticed."""
    half = b'another line\n' * (LINES // 2)
    path = f'{folder}/a.txt'
    with subprocess.Popen(['cp', '/dev/stdin', path], stdin=subprocess.PIPE) as cp:
        cp.stdin.write(half)
        cp.stdin.flush()
        tap.until(lambda: os.path.getsize(path) == len(half), 'cp does not copy', pause=0.001)
        make_file(folder, 'mark', 'half')
        stream.expect('f:/mark')
        cp.stdin.write(half)
    assert cp.returncode == 0


def expect_one_save(stream, folder):
    """One update, with all of it. A deletion is told after `settle`: whatever else the save
    brings about comes before."""
    metadata = stream.expect('f:/a.txt')['metadata']
    whole = b'another line\n' * LINES
    assert metadata['change_type'] == 'content_update', metadata
    assert metadata['size'] == len(whole), metadata
    assert metadata['checksum'] == 'sha256:' + hashlib.sha256(whole).hexdigest(), metadata
    os.remove(f'{folder}/mark')
    assert stream.expect('f:/mark')['metadata']['change_type'] == 'deleted'


def is_told_once(program):
    """With the default settings of files, and every change told at once. Returns False where
    the program may have paused for longer than a save may take by default."""
    folder = tempfile.mkdtemp(dir=work)
    make_file(folder, 'a.txt', 'old line\n' * LINES)
    make_file(folder, 'mark', '')
    serve = Serve(f"{HEAD}resources:\n- files: {folder}\n  uri: 'f:/{{+path}}'\n")
    stream = listen(serve, 'f:/a.txt', 'f:/mark')
    began, ended = time.monotonic(), None
    try:
        if program == 'cp':
            copy_with_a_pause(folder, stream)
        else:
            edit(program, f'{folder}/a.txt')
        ended = time.monotonic()
        expect_one_save(stream, folder)
    except AssertionError:
        if (ended or time.monotonic()) - began < 0.5:
            raise
        return False
    stream.close()
    assert serve.end() == 0
    return True


def a_save_is_told_once(program):
    if shutil.which(program) is None:
        raise tap.Skipped(f'there is no {program}')
    for _ in range(10):
        if is_told_once(program):
            return
    raise tap.Skipped(f'each time {program} takes longer than a save may')


def complete(call, template, value):
    return call('completion/complete', {'ref': {'type': 'ref/resource', 'uri': template},
                                        'argument': {'name': 'path', 'value': value}})


def the_paths_of_a_folder_are_completed():
    folder = tempfile.mkdtemp(dir=work)
    os.mkdir(os.path.join(folder, 'docs'))
    for name in ('docs/one.md', 'docs/other.md', 'dog.md'):
        with open(os.path.join(folder, name), 'w', encoding='utf-8') as file:
            file.write(name)
    serve = Serve(f"{HEAD}resources:\n- files: {folder}\n  uri: 'f:/{{+path}}'\n")
    discovered = modern(serve, 'server/discover', {})['result']['capabilities']
    assert discovered['completions'] == {}, discovered
    for call in (Session(serve).call, lambda *message: modern(serve, *message)):
        for value, expected in (('do', ['docs/', 'dog.md']),
                                ('docs/o', ['docs/one.md', 'docs/other.md'])):
            found = complete(call, 'f:/{+path}', value)['result']['completion']
            assert found == {'values': expected, 'total': 2, 'hasMore': False}, found
    assert serve.end() == 0

    serve = Serve(f'{HEAD}resources:\n{MEMORY}')  # which completes nothing
    discovered = modern(serve, 'server/discover', {})['result']['capabilities']
    assert 'completions' not in discovered, discovered
    answer = complete(Session(serve).call, 'm:{x}', 'a')
    assert answer['error']['code'] == -32601, answer
    assert serve.end() == 0


def an_entry_may_be_for_reading_only():
    folder = tempfile.mkdtemp(dir=work)
    with open(os.path.join(folder, 'a.txt'), 'w', encoding='utf-8') as file:
        file.write('text')
    serve = Serve(f"{HEAD}resources:\n- memory: 'm:{{x}}'\n  subscribable: false\n"
                  f"- files: {folder}\n  uri: 'f:/{{+path}}'\n  subscribable: false\n")
    assert read(serve, 'f:/a.txt') == 'text'
    uris = ['m:{x}', 'm:1', 'f:/a.txt', 'f:/{+path}', 'f:/none.txt']
    session = Session(serve)
    for uri in uris:
        answer = session.subscribe(uri)
        assert answer['error']['code'] == -32602, answer
        assert answer['error']['data'] == {'error_type': 'not_subscribable', 'uri': uri}
    method = 'subscriptions/listen'
    wishes = {'notifications': {'resourceSubscriptions': uris}}
    stream = Stream(serve, 'POST', modern_message(method, wishes), modern_headers(method))
    params = stream.next()['params']
    assert params['notifications']['resourceSubscriptions'] == [], params
    refused = params['_meta']['dev.tidings/refused']
    assert refused == {uri: 'not_subscribable' for uri in uris}, refused
    stream.close()
    assert serve.end() == 0


def a_reload_ends_subscriptions_to_what_is_for_reading_only():
    """Of every spelling, in both eras; other streams go on."""
    folder = tempfile.mkdtemp(dir=work)
    with open(os.path.join(folder, 'a.txt'), 'w', encoding='utf-8') as file:
        file.write('text')
    config = (f"{HEAD}resources:\n- memory: 'm:{{x}}'\n%s- memory: n:1\n"
              f"- files: {folder}\n  uri: 'f:/{{+path}}'\n%s")
    no = '  subscribable: false\n'
    serve = Serve(config % ('', ''))
    other = listen(serve, 'n:1')
    memory = [listen(serve, uri) for uri in ('m:{x}', 'm:1')]
    files = [listen(serve, uri) for uri in ('f:/a.txt', 'f:/{+path}', 'f:/none.txt')]
    files.append(legacy_listen(serve, 'f:/a.txt'))
    serve.reload(config % (no, ''))
    for stream in memory:
        stream.expect_end()
    assert publish(serve, {'uri': 'n:1', 'content': 'b'})[0] == 200
    other.expect('n:1')
    with open(os.path.join(folder, 'a.txt'), 'w', encoding='utf-8') as file:
        file.write('more text')
    files[0].expect('f:/a.txt')
    serve.reload(config % (no, no))
    for stream in files:
        stream.expect_end()
    assert Session(serve).subscribe('f:/a.txt')['error']['code'] == -32602
    other.close()
    assert serve.end() == 0


def an_entry_stays_listed_when_a_folder_under_it_goes():
    """A webhook that was never called holds nothing, and is listed all the same."""
    folder = tempfile.mkdtemp(dir=work)
    with open(os.path.join(folder, 'x'), 'w', encoding='utf-8') as file:
        file.write('text')
    base = f'{HEAD}resources:\n- memory: n:1\n'
    hook = '- webhook: /hooks/x\n  uri: f:/x\n  open: true\n'
    files = f"- files: {folder}\n  uri: 'f:/{{+path}}'\n"
    serve = Serve(base + files)
    stream = listen(serve, 'f:/{+path}', 'f:/x')
    for entries in (files + hook, hook):
        serve.reload(base + entries)
        serve.wait_log('config reloaded')
        assert listed(serve) == {'n:1', 'f:/x'}, listed(serve)
    stream.close()
    assert serve.end() == 0


def dialect_at(serve, port):
    """What a missing resource is called there: each dialect has a code of its own."""
    serve.port = port
    code = Session(serve).call('resources/read', {'uri': 'none:1'})['error']['code']
    return {-32002: 'mcp', -32001: 'erlmcp'}[code]


def each_listener_has_its_dialect():
    plain, named = 'http://127.0.0.1:0', 'erlmcp+http://127.0.0.1:0'
    config = ('server: {workers: 1, listen: ["http://127.0.0.1:0", "erlmcp+http://127.0.0.1:0"]}\n'
              'resources:\n' + MEMORY)
    erlmcp = 'server: {dialect: erlmcp}\nresources:\n' + MEMORY
    for text, arguments, expected in (
            (config, (), ['mcp', 'erlmcp']),
            (ALL, ('--listen', plain, '--listen', named), ['mcp', 'erlmcp']),
            (ALL, ('--dialect', 'erlmcp', '--listen', plain, '--listen', 'mcp+' + plain),
             ['erlmcp', 'mcp']),
            (erlmcp, ('--dialect', 'mcp', '--listen', plain), ['mcp']),
            (erlmcp, ('--listen', plain), ['erlmcp'])):
        serve = Serve(text, arguments)
        urls = json.loads(serve.log[-1])['urls']
        ports = [int(url.split(':')[2].split('/')[0]) for url in urls]
        assert [dialect_at(serve, port) for port in ports] == expected, (arguments, urls)
        assert serve.end() == 0


def a_request_before_initialize_has_its_code_in_every_dialect():
    """It is seen before there is a session, which knows the dialect of its listener."""
    headers = {'Content-Type': 'application/json', 'Accept': 'application/json'}
    early = json.dumps({'jsonrpc': '2.0', 'id': 7, 'method': 'resources/list'})
    for dialect in ('mcp', 'erlmcp'):
        serve = Serve(ALL, ('--listen', f'{dialect}+http://127.0.0.1:0'))
        for session, expected in (({}, 400), ({'Mcp-Session-Id': '0' * 32 + 'ff'}, 404)):
            status, _, body = request(serve, 'POST', '/mcp', early, {**headers, **session})
            answer = json.loads(body)
            assert (status, answer['id'], answer['error']['code']) == (expected, 7, -32005), answer
        assert serve.end() == 0


def a_pipe_has_its_dialect():
    """With --stdio as well, `--dialect` comes before what the config has."""
    folder = tempfile.mkdtemp(dir=work)
    path = os.path.join(folder, 'a.txt')

    def write(text):
        new = os.path.join(work, 'new')
        with open(new, 'w', encoding='utf-8') as file:
            file.write(text)
        os.rename(new, path)

    hello = {'protocolVersion': '2025-11-25', 'capabilities': {},
             'clientInfo': {'name': 'test', 'version': '1'}}
    dialects = {'erlmcp': (-32001, 'resources/updated', 'resources/deleted'),
                'mcp': (-32002, *['notifications/resources/updated'] * 2)}
    for config, arguments, dialect in (('mcp', ('--dialect', 'erlmcp'), 'erlmcp'),
                                       ('erlmcp', (), 'erlmcp'),
                                       ('erlmcp', ('--dialect', 'mcp'), 'mcp')):
        missing, updated, deleted = dialects[dialect]
        write('first')
        serve = Serve(f"server: {{timing: immediate, rate-limit: 0, dialect: {config}}}\n"
                      f"resources:\n- files: {folder}\n  uri: 'f:/{{+path}}'\n",
                      ('--stdio', *arguments), stdio=True)
        pipe = Pipe(serve)

        assert pipe.call('resources/list', {})['error']['code'] == -32005
        assert 'result' in pipe.call('initialize', hello)
        pipe.send({'method': 'notifications/initialized'})
        assert pipe.call('resources/read', {'uri': 'none:1'})['error']['code'] == missing
        assert pipe.call('resources/subscribe', {'uri': 'f:/a.txt'})['result'] == {}
        write('second')
        pipe.expect(updated, 'f:/a.txt')
        os.remove(path)
        pipe.expect(deleted, 'f:/a.txt')
        serve.process.stdin.close()
        assert serve.process.wait(PATIENCE) == 0


# ---- Beginning and end --------------------------------------------------------------------

def signals_end_it_and_streams_end_well():
    for number in (signal.SIGTERM, signal.SIGINT):
        serve = Serve()
        stream = listen(serve, 'm:1')
        assert serve.end(number) == 0
        end = stream.next()
        assert 'result' in end, end  # the end of a modern stream
        assert stream.response.readline() in (b'\n', b'', b'\r\n')
        stream.close()


def last_versions(stream):
    """Reads a stream to its regular end: the last version that it told of each URI."""
    versions = {}
    while True:
        line = stream.response.readline()
        if not line:
            return versions
        if line.startswith(b'data:') and b'resources/updated' in line:
            params = json.loads(line[5:])['params']
            versions[params['uri']] = params['_meta']['dev.tidings/version']


def pipe_client(serve, uris):
    """A legacy session and a modern listen on one pipe."""
    def send(message):
        serve.process.stdin.write(json.dumps({'jsonrpc': '2.0', **message}).encode() + b'\n')
        serve.process.stdin.flush()
        return json.loads(serve.process.stdout.readline())

    send({'id': 1, 'method': 'initialize',
          'params': {'protocolVersion': '2025-11-25', 'capabilities': {},
                     'clientInfo': {'name': 'test', 'version': '1'}}})
    for uri in uris:
        send({'id': uri, 'method': 'resources/subscribe', 'params': {'uri': uri}})
    ack = send({'id': 'listen', 'method': 'subscriptions/listen',
                'params': {'_meta': META, 'notifications': {'resourceSubscriptions': uris}}})
    assert ack['method'] == 'notifications/subscriptions/acknowledged', ack


def pipe_versions(serve):
    """The last versions that the session and the listen were told of; the listen's result."""
    told = {None: {}, 'listen': {}}
    result = None
    for line in serve.process.stdout:
        message = json.loads(line)
        if 'id' in message:
            result = message['result']
        elif message['method'] == 'notifications/resources/updated':
            meta = message['params']['_meta']
            to = meta.get('io.modelcontextprotocol/subscriptionId')
            told[to][message['params']['uri']] = meta['dev.tidings/version']
    return told[None], told['listen'], result


def what_was_published_is_written_before_the_end():
    """With the default window and rate limit, both of which a stop cuts short."""
    config = ('server: {workers: 2, stop-timeout: 30s}\npublish: {key: "${THE_KEY}"}\n'
              "resources:\n- memory: 'm:{x}'\n")
    serve = Serve(config, ('--stdio', '--listen', 'http://127.0.0.1:0'), stdio=True)
    uris = [f'm:{i}' for i in range(20)]
    streams = [listen(serve, *uris) for _ in range(20)]
    streams += [legacy_listen(serve, *uris) for _ in range(10)]
    streams.append(listen(serve, 'm:{x}'))
    pipe_client(serve, uris)
    last = {}
    for n in range(3):
        status, answer = publish(serve, [{'uri': uri, 'content': str(n)} for uri in uris])
        assert status == 200, answer
        last.update({change['uri']: change['version'] for change in answer['changes']})
    serve.process.send_signal(signal.SIGTERM)
    session, piped, result = pipe_versions(serve)
    for versions in [session, piped] + [last_versions(stream) for stream in streams]:
        assert versions == last, (versions, last)
    assert result is not None
    assert serve.process.wait(PATIENCE) == 0
    for stream in streams:
        stream.close()


def collect(stream, arrivals):
    """Notes when each update arrives, until the stream ends."""
    while True:
        line = stream.response.readline()
        if not line:
            return
        if line.startswith(b'data:') and b'resources/updated' in line:
            arrivals.append(time.monotonic())


def starve(serve, seconds):
    """Lets the server run only now and then, for as long as a scheduler that is short of time
    might keep it waiting."""
    rng = random.Random(10)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        serve.process.send_signal(signal.SIGSTOP)
        time.sleep(rng.choice((0.01, 0.1, 0.4, 0.9)))
        serve.process.send_signal(signal.SIGCONT)
        time.sleep(rng.choice((0.001, 0.01, 0.1)))


def a_starved_server_keeps_the_rate_limit():
    """A reader may be late, but it never reads before the server writes: so many updates take so
    much time at least."""
    limit = 0.5
    serve = Serve('server: {workers: 2, timing: immediate, rate-limit: 500ms}\n'
                  'publish: {key: "${THE_KEY}"}\nresources:\n- memory: \'m:{x}\'\n')
    streams = [listen(serve, 'm:1'), listen(serve, 'm:{x}'), listen(serve, 'm:1', 'm:{x}'),
               legacy_listen(serve, 'm:1'), legacy_listen(serve, 'm:1', 'm:{x}')]
    arrivals = [[] for _ in streams]
    readers = [threading.Thread(target=collect, args=pair) for pair in zip(streams, arrivals)]
    for reader in readers:
        reader.start()
    starving = threading.Thread(target=starve, args=(serve, 4))
    began = time.monotonic()
    starving.start()
    while starving.is_alive():
        assert publish(serve, {'uri': 'm:1', 'content': str(time.monotonic())})[0] == 200
    stopped = time.monotonic()
    assert serve.end() == 0
    for reader, times in zip(readers, arrivals):
        reader.join(PATIENCE)
        # The stop ends the last limit early, for one more.
        assert 2 <= len(times) <= (stopped - began) / limit + 2, (stopped - began, times)


def settle(serve, address, forwarded=None):
    """A legacy session that has come to stay, as a proxy would forward it; the status."""
    headers = {'Content-Type': 'application/json', 'Accept': 'application/json',
               'X-Forwarded-For': '6.6.6.6, ' + address}
    if forwarded:
        headers['Forwarded'] = forwarded

    def post(message):
        status, fields, _ = request(serve, 'POST', '/mcp',
                                    json.dumps({'jsonrpc': '2.0', **message}), headers)
        return status, fields.get('Mcp-Session-Id')

    status, headers['Mcp-Session-Id'] = post(
        {'id': 1, 'method': 'initialize',
         'params': {'protocolVersion': '2025-06-18', 'capabilities': {},
                    'clientInfo': {'name': 'test', 'version': '1'}}})
    if status != 200:
        return status
    assert post({'method': 'notifications/initialized'})[0] == 202
    return post({'id': 2, 'method': 'ping'})[0]


def sessions_behind_a_proxy_count_for_whom_it_names():
    limits = 'max-sessions: 10, max-sessions-per-address: 1'
    serve = Serve('server: {trusted-proxies: [127.0.0.1, 10.0.0.0/8], ' + limits + '}\n'
                  'resources:\n- memory: m:1\n')
    assert [settle(serve, '192.0.2.1'), settle(serve, '192.0.2.2, 10.1.1.1')] == [200, 200]
    assert settle(serve, '192.0.2.2') == 503
    assert settle(serve, '192.0.2.2', 'for=192.0.2.3') == 503
    serve.wait_log('max-sessions-per-address) is reached')
    assert serve.end() == 0
    serve = Serve('server: {trusted-proxies: 127.0.0.1, proxy-header: forwarded, ' + limits +
                  '}\nresources:\n- memory: m:1\n')
    assert settle(serve, '192.0.2.1', 'for=192.0.2.2;host="a,for=6.6.6.6"') == 200
    assert settle(serve, '192.0.2.3', 'for=192.0.2.2') == 503
    assert serve.end() == 0
    serve = Serve('server: {' + limits + '}\nresources:\n- memory: m:1\n')
    assert [settle(serve, '192.0.2.1'), settle(serve, '192.0.2.2')] == [200, 503]
    assert serve.end() == 0
    serve = Serve('server: {trusted-proxies: [10.0.0.0/33]}\nresources:\n- memory: m:1\n',
                  wait=False)
    assert serve.process.wait(PATIENCE) == 1
    assert any('neither an address' in entry['message'] for entry in serve.rest_of_log())


def no_client_undercuts_the_floor():
    """One entry has a floor of its own, which is none."""
    serve = Serve('server: {timing: immediate, rate-limit: 0, min-rate-limit: 1h}\n'
                  'publish: {key: "${THE_KEY}"}\nresources:\n- memory: m:held\n'
                  "- memory: 'm:free'\n  min-rate-limit: 0\n")
    method = 'subscriptions/listen'
    wishes = {'notifications': {'resourceSubscriptions': ['m:held', 'm:free']},
              '_meta': {**META, 'dev.tidings/options': {'rateLimitMs': 0, 'batchMs': 0}}}
    stream = Stream(serve, 'POST', modern_message(method, wishes), modern_headers(method))
    assert stream.next()['method'] == 'notifications/subscriptions/acknowledged'
    for n in range(3):
        for uri in ('m:held', 'm:free'):
            assert publish(serve, {'uri': uri, 'content': str(n)})[0] == 200
        if n == 0:
            stream.expect('m:held')
        stream.expect('m:free')  # and nothing else
    stream.close()
    assert serve.end() == 0


def updates_of(stream):
    """URI and `merged` of each update, to the end of the stream."""
    deadline = time.monotonic() + PATIENCE
    for line in stream.response:
        assert time.monotonic() < deadline, 'nothing but keep-alives'
        if line.startswith(b'data:') and b'resources/updated' in line:
            params = json.loads(line[5:])['params']
            yield params['uri'], params['_meta'].get('dev.tidings/merged', 0)
            deadline = time.monotonic() + PATIENCE


def an_entry_has_a_floor_of_its_own():
    """Of a resource, and of a template, whether one of its URIs is subscribed or all of them. The
    floors are so long that only the end of the server ends them, and their updates come then."""
    serve = Serve('server: {timing: immediate, rate-limit: 0, workers: 1, stop-timeout: 30s}\n'
                  'publish: {key: "${THE_KEY}"}\nresources:\n- memory: free:1\n'
                  '- memory: window:1\n  min-window: 1h\n'
                  "- memory: 'windows:{x}'\n  min-window: 1h\n"
                  '- memory: rate:1\n  min-rate-limit: 1h\n'
                  "- memory: 'rates:{x}'\n  min-rate-limit: 1h\n")
    wish = {'dev.tidings/options': {'rateLimitMs': 0, 'batchMs': 0}}
    uris = ['window:1', 'windows:1', 'rate:1', 'rates:1', 'free:1']
    streams = []
    for targets in (uris, ['windows:{x}', 'rates:{x}', 'free:1']):
        method = 'subscriptions/listen'
        wishes = {'notifications': {'resourceSubscriptions': targets}, '_meta': {**META, **wish}}
        stream = Stream(serve, 'POST', modern_message(method, wishes), modern_headers(method))
        accepted = stream.next()['params']['notifications']['resourceSubscriptions']
        assert accepted == targets, accepted
        streams.append((stream, [target.replace('{x}', '1') for target in targets]))
    session = Session(serve)
    streams.append((session.stream(), uris))
    for uri in uris:
        assert 'result' in session.subscribe(uri, **wish)

    readers = [(updates_of(stream), [], targets) for stream, targets in streams]
    for n in range(3):
        for uri in uris:
            assert publish(serve, {'uri': uri, 'content': str(n)})[0] == 200
        for updates, seen, _ in readers:
            while seen.count(('free:1', 0)) <= n:
                seen.append(next(updates))
    serve.process.send_signal(signal.SIGTERM)
    expected = {'window:1': [2], 'windows:1': [2], 'rate:1': [0, 1], 'rates:1': [0, 1],
                'free:1': [0, 0, 0]}
    for updates, seen, targets in readers:
        seen += updates
        for uri in targets:
            merged = [merged for target, merged in seen if target == uri]
            assert merged == expected[uri], (uri, seen)
    assert serve.process.wait(PATIENCE) == 0


def a_pipe_carries_the_protocol_and_nothing_else():
    serve = Serve(arguments=['--stdio'], stdio=True)
    pipe = Pipe(serve)
    send, answer = pipe.send, pipe.next

    assert any('publishing need HTTP' in str(line) for line in serve.log), serve.log
    hello = {'protocolVersion': '2025-11-25', 'capabilities': {},
             'clientInfo': {'name': 'test', 'version': '1'}}
    send({'id': 1, 'method': 'initialize', 'params': hello})
    assert answer()['result']['protocolVersion'] == '2025-11-25'
    send({'method': 'notifications/initialized'})
    send({'id': 2, 'method': 'resources/list'})
    assert {'one:1', 'hook:git'} <= {r['uri'] for r in answer()['result']['resources']}
    send({'id': 3, 'method': 'resources/subscribe', 'params': {'uri': 'one:1'}})
    assert answer() == {'jsonrpc': '2.0', 'id': 3, 'result': {}}
    send({'id': 4, 'method': 'resources/read', 'params': {'uri': 'one:1'}})
    assert answer()['error']['code'] == -32002
    serve.reload(HEAD + 'resources:\n- memory: one:1\n- memory: two:1\n')
    serve.wait_log('config reloaded')
    while answer().get('method') != 'notifications/resources/list_changed':
        pass
    serve.process.stdin.close()  # the host goes: so does it
    assert serve.process.wait(PATIENCE) == 0
    while True:
        line = pipe.lines.get(timeout=PATIENCE)
        if line is None:
            break
        json.loads(line)


def every_step_is_logged_where_that_is_asked_for():
    arguments = ('--listen', 'http://127.0.0.1:0')
    serve = Serve(ALL, (*arguments, '--verbose'))
    streams = [listen(serve, 'm:1', 'none:1'), legacy_listen(serve, 'm:1')]
    publish(serve, {'uri': 'm:1', 'content': 'a'})
    for stream in streams:
        stream.expect('m:1')
    streams[0].close()
    serve.wait_log('disconnected; subscriptions removed: 2')  # the list of resources as well
    messages = [json.loads(line)['message'] for line in serve.log
                if json.loads(line)['level'] == 'debug']
    for text in ('connected; version 1, 2026-07-28, http, 127.0.0.1',
                 'connected; version 1, 2025-06-18, http, 127.0.0.1',
                 '(test): subscribed to m:1', '(test): refused none:1: ',
                 'watcher of m:1: armed', ' of m:1: '):
        assert any(text in message for message in messages), (text, messages)
    streams[1].close()
    assert serve.end() == 0

    serve = Serve(ALL, (*arguments, '--verbose=subscriptions'))
    listen(serve, 'm:1').close()
    serve.wait_log('subscribed to m:1')
    assert serve.end() == 0
    rest = [*map(json.loads, serve.log), *serve.rest_of_log()]
    debug = [entry['message'] for entry in rest if entry['level'] == 'debug']
    assert debug and all('subscribed' in message for message in debug), debug


def quiet_leaves_warnings_and_errors():
    serve = Serve(ALL, ('--listen', 'http://0.0.0.0:0', '--quiet'), wait=False)
    serve.wait_log('listening on 0.0.0.0')  # which comes after "serving"
    assert [json.loads(line)['level'] for line in serve.log] == ['warning'], serve.log
    assert serve.end() == 0


def a_port_in_use_is_said_to_be():
    taken = socket.create_server(('127.0.0.1', 0))
    url = f'http://127.0.0.1:{taken.getsockname()[1]}'
    serve = Serve(arguments=['--listen', url], wait=False)
    assert url in serve.wait_log('the address is in use already')['message']
    assert serve.process.wait(PATIENCE) == 1
    taken.close()


def a_broken_config_is_no_beginning():
    serve = Serve('resources:\n- memory: m:1\n- memory: m:1\n- webhook: /x\n  uri: h:1\n',
                  wait=False)
    assert serve.process.wait(PATIENCE) == 1
    places = {}
    for entry in serve.rest_of_log():
        for part in ('the same URI', 'the secret is missing', '/hooks/deploys'):
            if part in entry['message']:
                places[part] = (entry['line'], entry['column'])
    assert places == {'the same URI': (3, 11), 'the secret is missing': (4, 3),
                      '/hooks/deploys': (4, 12)}, places


# ---- While a backend is unreachable -------------------------------------------------------

class Pages:
    """A backend: /NAME holds NAME, or what `texts` says. While it is `unreachable`, connections
    end without an answer: a port that nobody listens on may be somebody else's soon."""

    def __init__(self):
        pages = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                if pages.unreachable:
                    return
                name = self.path[1:]
                body = pages.texts.get(name, name).encode()
                self.send_response(200)
                self.send_header('Content-Type', 'text/plain')
                self.send_header('Content-Length', str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.texts, self.unreachable = {}, False
        server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Handler)
        server.daemon_threads = True
        self.address = f'127.0.0.1:{server.server_port}'
        threading.Thread(target=server.serve_forever, daemon=True).start()

    def entry(self, scheme, more=''):
        return f"- http: http://{self.address}/{{name}}\n  uri: '{scheme}:{{name}}'\n{more}"


def ask_modern(serve, uri):
    return modern(serve, 'resources/read', {'uri': uri}, uri)


def expect_fresh(serve, uri, text):
    content = ask_modern(serve, uri)['result']['contents'][0]
    assert content['text'] == text, content
    assert 'stale' not in content['_meta']['dev.tidings/metadata'], content


def expect_stale(answer, text):
    content = answer['result']['contents'][0]
    assert content['text'] == text, content
    metadata = content['_meta']['dev.tidings/metadata']
    assert metadata['stale'] is True, metadata
    return metadata


def expect_unavailable(answer):
    assert answer['error']['code'] == -32603, answer
    assert answer['error']['data']['error_type'] == 'unavailable', answer


def a_client_that_only_reads_gets_stale_content():
    pages = Pages()
    serve = Serve('resources:\n' + pages.entry('p'))
    session = Session(serve)
    pages.unreachable = True
    expect_unavailable(ask_modern(serve, 'p:a'))
    expect_unavailable(session.call('resources/read', {'uri': 'p:a'}))
    pages.unreachable = False
    expect_fresh(serve, 'p:a', 'a')

    pages.unreachable = True
    before = int(time.time() * 1000)
    for answer in (ask_modern(serve, 'p:a'), session.call('resources/read', {'uri': 'p:a'})):
        metadata = expect_stale(answer, 'a')
        assert before <= metadata['stale_since'] <= time.time() * 1000, (before, metadata)
        assert metadata['stale_reason'] and '127.0.0.1' not in metadata['stale_reason'], metadata
    expect_unavailable(ask_modern(serve, 'p:b'))  # which nobody has read

    pages.texts['a'] = 'another'
    pages.unreachable = False
    expect_fresh(serve, 'p:a', 'another')
    assert serve.end() == 0


def stale_size_limits_the_copies_of_all_entries_together():
    pages = Pages()
    serve = Serve('server: {stale-size: 4KiB}\nresources:\n' + pages.entry('p') +
                  pages.entry('q'))
    pages.texts = {name: name * 1000 for name in 'abcde'}
    pages.texts['large'] = 'x' * 1025  # more than a quarter
    for uri in ('p:a', 'q:b', 'p:a', 'p:c', 'q:d', 'p:e', 'q:large'):
        expect_fresh(serve, uri, pages.texts[uri[2:]])
    pages.unreachable = True
    for uri in ('p:a', 'p:c', 'q:d', 'p:e'):
        expect_stale(ask_modern(serve, uri), pages.texts[uri[2:]])
    for uri in ('q:b', 'q:large'):  # the first was read longest ago
        expect_unavailable(ask_modern(serve, uri))
    assert serve.end() == 0


def a_stale_size_of_none_keeps_nothing():
    pages = Pages()
    serve = Serve('server: {stale-size: 0}\nresources:\n' + pages.entry('p'))
    expect_fresh(serve, 'p:a', 'a')
    pages.unreachable = True
    expect_unavailable(ask_modern(serve, 'p:a'))
    assert serve.end() == 0


def a_reload_drops_the_copies_of_an_entry_that_it_changes():
    pages = Pages()
    serve = Serve('resources:\n' + pages.entry('p') + pages.entry('q'))
    for uri in ('p:a', 'q:a'):
        expect_fresh(serve, uri, 'a')
    pages.unreachable = True
    serve.reload('resources:\n' + pages.entry('p') + pages.entry('q', '  timeout: 29s\n'))
    serve.wait_log('config reloaded')
    expect_stale(ask_modern(serve, 'p:a'), 'a')
    expect_unavailable(ask_modern(serve, 'q:a'))
    assert serve.end() == 0


# ---- What clients see of an error ---------------------------------------------------------

def expect_public(text):
    assert text and 'inner' not in text and '127.0.0.1' not in text, text


def run_sql(path, sql):
    database = sqlite3.connect(path, timeout=PATIENCE, isolation_level=None)
    database.execute(sql)
    database.close()


def errors_name_nothing_that_is_inside():
    """The log does. Port 1 is nobody's."""
    folder = tempfile.mkdtemp(prefix='inner-', dir=work)
    run_sql(f'{folder}/a.db', 'CREATE TABLE t(id)')
    with open(f'{folder}/text.db', 'w', encoding='ascii') as file:
        file.write('This is no database. ' * 10)
    failing = (('http', '- http: http://127.0.0.1:1/inner\n', '127.0.0.1'),
               ('none', f'- sqlite: {folder}/none.db\n  query: SELECT 1\n', 'none.db'),
               ('text', f'- sqlite: {folder}/text.db\n  query: SELECT 1\n', 'text.db'),
               ('table', f'- sqlite: {folder}/a.db\n  query: SELECT * FROM inner_t\n',
                'no such table: inner_t'),
               ('program', f'- command: [{folder}/none]\n', f'{folder}/none'),
               ('words', "- command: [sh, -c, 'echo inner words >&2; exit 3']\n",
                'inner words'))
    serve = Serve('resources:\n' + ''.join(f'{entry}  uri: x:{name}\n'
                                           for name, entry, _ in failing))
    session = Session(serve)
    for name, _, logged in failing:
        uri = f'x:{name}'
        for answer in (ask_modern(serve, uri), session.call('resources/read', {'uri': uri})):
            assert answer['error']['code'] == -32603, answer
            assert answer['error']['data']['uri'] == uri, answer
            expect_public(json.dumps(answer))
        serve.wait_log(logged)
    assert serve.end() == 0


def nor_do_stale_reasons_and_updates():
    folder = tempfile.mkdtemp(prefix='inner-', dir=work)
    run_sql(f'{folder}/a.db', 'CREATE TABLE inner_t(id)')
    serve = Serve(f'{HEAD}resources:\n- sqlite: {folder}/a.db\n'
                  '  query: SELECT * FROM inner_t\n  uri: x:1\n'
                  f'- command: [cat, {folder}/text]\n  uri: x:2\n')
    stream = listen(serve, 'x:1')
    run_sql(f'{folder}/a.db', 'DROP TABLE inner_t')
    expect_public(stream.expect('x:1')['metadata']['error'])
    run_sql(f'{folder}/a.db', 'CREATE TABLE inner_t(id)')
    assert 'error' not in stream.expect('x:1')['metadata']
    stream.close()

    with open(f'{folder}/text', 'w', encoding='ascii') as file:
        file.write('text')
    expect_fresh(serve, 'x:2', 'text')
    os.remove(f'{folder}/text')
    expect_public(expect_stale(ask_modern(serve, 'x:2'), 'text')['stale_reason'])
    serve.wait_log(f'{folder}/text')
    assert serve.end() == 0


# ---- Large answers ------------------------------------------------------------------------

LARGE = 4 << 20


def memory_mb(serve, field):
    with open(f'/proc/{serve.process.pid}/status', encoding='ascii') as file:
        return next(int(line.split()[1]) >> 10 for line in file if line.startswith(field))


def ask(serve, uri):
    """Asks for a resource, and does not read the answer."""
    body = modern_message('resources/read', {'uri': uri})
    fields = ''.join(f'{name}: {value}\r\n'
                     for name, value in modern_headers('resources/read', uri).items())
    connection = socket.create_connection(('127.0.0.1', serve.port), PATIENCE)
    connection.sendall(f'POST /mcp HTTP/1.1\r\nHost: localhost\r\n{fields}'
                       f'Content-Length: {len(body)}\r\n\r\n{body}'.encode())
    return connection


def answers_have_begun(connections, least):
    deadline = time.monotonic() + PATIENCE
    while sum(bool(select.select([one], [], [], 0)[0]) for one in connections) < least:
        assert time.monotonic() < deadline
        time.sleep(0.05)


def large_answers_that_nobody_takes_cost_little():
    folder = tempfile.mkdtemp(dir=work)
    for number in range(24):
        with open(f'{folder}/{number}', 'w', encoding='ascii') as file:
            file.write(f'{number}\n"a" line\n' * (LARGE // 12))
    with open(f'{folder}/small', 'w', encoding='ascii') as file:
        file.write('small')
    serve = Serve(f'server: {{workers: 1}}\nresources:\n- files: {folder}\n')
    base = f'file://{folder}'
    start = memory_mb(serve, 'VmRSS')

    same = [ask(serve, f'{base}/0') for _ in range(100)]
    answers_have_begun(same, 100)
    assert read(serve, f'{base}/small') == 'small'
    assert memory_mb(serve, 'VmHWM') < start + 50, (start, memory_mb(serve, 'VmHWM'))

    others = [ask(serve, f'{base}/{number}') for number in range(24)]
    answers_have_begun(others, 24)  # those that find no room are refused in time
    assert read(serve, f'{base}/small') == 'small'
    assert memory_mb(serve, 'VmHWM') < start + 90, (start, memory_mb(serve, 'VmHWM'))
    error = modern(serve, 'resources/read', {'uri': f'{base}/23'}, f'{base}/23')['error']
    assert error['data']['error_type'] == 'busy' and error['data']['retryAfterMs'] > 0, error

    for connection in same + others:
        connection.close()
    deadline = time.monotonic() + PATIENCE
    while read(serve, f'{base}/23') is None:
        assert time.monotonic() < deadline
    with open(f'{folder}/23', encoding='ascii') as file:
        assert read(serve, f'{base}/23') == file.read()
    assert serve.end() == 0


# ---- Many long subscriptions --------------------------------------------------------------

def listen_to_long(serve, number):
    """A listen to 1,000 URIs of 4 KB. Returns its connection and how many were accepted."""
    uris = [f'm:{number}-{at}-' + 'x' * 4000 for at in range(1000)]
    body = modern_message('subscriptions/listen',
                          {'notifications': {'resourceSubscriptions': uris}})
    connection = http.client.HTTPConnection('127.0.0.1', serve.port, timeout=PATIENCE)
    connection.request('POST', '/mcp', body, modern_headers('subscriptions/listen'))
    response = connection.getresponse()
    assert response.status == 200
    line = response.readline()
    while not line.startswith(b'data:'):
        line = response.readline()
    params = json.loads(line[5:])['params']
    accepted = params['notifications'].get('resourceSubscriptions', [])
    refused = params['_meta'].get('dev.tidings/refused', {})
    assert len(accepted) + len(refused) == 1000
    return connection, len(accepted)


def a_flood_of_long_subscriptions_is_bounded_and_leaves_nothing():
    serve = Serve('server: {workers: 1, max-subscribed-size: 40MiB}\nresources:\n'
                  "- memory: 'm:{x}'\n")
    first, count = listen_to_long(serve, 0)
    assert count == 1000
    start = memory_mb(serve, 'VmRSS')
    flood = [listen_to_long(serve, number) for number in range(1, 15)]
    accepted = sum(count for _, count in flood)
    assert 9000 < accepted + 1000 <= (40 << 20) // 4000, accepted
    assert memory_mb(serve, 'VmRSS') > start + 50
    for connection, _ in flood:
        connection.close()
    deadline = time.monotonic() + PATIENCE
    while memory_mb(serve, 'VmRSS') > start + 20:
        assert time.monotonic() < deadline, (start, memory_mb(serve, 'VmRSS'))
        time.sleep(0.2)
    first.close()
    assert serve.end() == 0


# ---- Running ------------------------------------------------------------------------------

TESTS = [
    what_is_published_reaches_both_eras,
    a_resource_may_look_like_a_list,
    a_thousand_contents_are_there_when_they_are_told,
    the_command_and_curl_publish,
    what_nobody_serves_is_said_when_it_is_published,
    a_folder_that_comes_later_is_served,
    who_has_no_key_publishes_nothing,
    an_array_is_published_whole_or_not_at_all,
    a_webhook_is_told_with_its_body,
    hostile_callers_change_nothing,
    an_oversized_body_is_refused_before_it_is_read,
    garbage_gets_an_answer_or_a_close,
    slow_callers_and_thousands_of_bad_ones_hold_nobody_up,
    a_client_that_only_reads_gets_stale_content,
    stale_size_limits_the_copies_of_all_entries_together,
    a_stale_size_of_none_keeps_nothing,
    a_reload_drops_the_copies_of_an_entry_that_it_changes,
    errors_name_nothing_that_is_inside,
    nor_do_stale_reasons_and_updates,
    large_answers_that_nobody_takes_cost_little,
    a_flood_of_long_subscriptions_is_bounded_and_leaves_nothing,
    a_broken_config_keeps_the_old_one,
    a_good_config_is_taken,
    the_limit_of_entries_is_reached_in_linear_time,
    a_changed_file_is_read_again_where_that_is_asked_for,
    the_config_itself_is_never_served,
    a_template_that_cannot_be_watched_is_not_subscribable,
    a_session_subscribes_to_what_exists_or_asks_to_wait,
    a_file_that_has_just_gone_still_exists,
    (a_save_is_told_once, 'cp'),
    (a_save_is_told_once, 'ed'),
    (a_save_is_told_once, 'sed'),
    (a_save_is_told_once, 'vim'),
    the_paths_of_a_folder_are_completed,
    an_entry_may_be_for_reading_only,
    a_reload_ends_subscriptions_to_what_is_for_reading_only,
    an_entry_stays_listed_when_a_folder_under_it_goes,
    each_listener_has_its_dialect,
    a_request_before_initialize_has_its_code_in_every_dialect,
    a_pipe_has_its_dialect,
    signals_end_it_and_streams_end_well,
    what_was_published_is_written_before_the_end,
    a_starved_server_keeps_the_rate_limit,
    sessions_behind_a_proxy_count_for_whom_it_names,
    no_client_undercuts_the_floor,
    an_entry_has_a_floor_of_its_own,
    a_pipe_carries_the_protocol_and_nothing_else,
    every_step_is_logged_where_that_is_asked_for,
    quiet_leaves_warnings_and_errors,
    a_port_in_use_is_said_to_be,
    a_broken_config_is_no_beginning,
]


def look_back(passed):
    """Of a test that failed, what the program logged."""
    for line in running[-1].log if running and not passed else []:
        tap.note('log: ' + line.rstrip())
    kill_running()


def main():
    global tidings, work
    (tidings,), chosen = tap.arguments('TIDINGS')
    atexit.register(kill_all)
    work = tempfile.mkdtemp()
    tap.run_all(TESTS, chosen, after=look_back)


if __name__ == '__main__':
    main()

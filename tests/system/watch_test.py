#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""watch_test.py TIDINGS [CHOSEN]: `tidings watch` from outside, against `tidings serve`
over HTTP in both eras and over stdio, and against servers that are none. Writes TAP."""
import atexit
import http.client
import http.server
import json
import os
import pty
import queue
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), 'hostile'))
sys.path.insert(0, HERE)

from lib import tap  # noqa: E402
from lib.mortal import MORTAL  # noqa: E402
from lib.port import bound, port_of  # noqa: E402
from mcp_stub import Stub  # noqa: E402

KEY = 'the-publish-key'
CONFIG = '''server: {timing: immediate, rate-limit: 0, workers: 1}
publish: {key: "${THE_KEY}"}
resources:
- memory: 'm:{x}'
- memory: 'r:{+x}'
- files: files
'''
OK, FAILED, USAGE, UNREACHABLE, TIMEOUT, DENIED, NOT_FOUND = range(7)

tidings = None
work = None
running = []


# ---- The two programs ---------------------------------------------------------------------

class Program:
    """A program whose output is read as it comes."""

    def __init__(self, arguments, out=subprocess.PIPE, **more):
        self.out, self.err = [], []
        self.process = subprocess.Popen(
            [*MORTAL, tidings, *arguments], stdin=subprocess.DEVNULL, stdout=out, text=True,
            stderr=subprocess.PIPE, start_new_session=True,
            env={**os.environ, 'THE_KEY': KEY, **more})
        running.append(self)
        self.readers = [self.collect(self.process.stderr, self.err)]
        if out == subprocess.PIPE:
            self.readers.append(self.collect(self.process.stdout, self.out))

    @staticmethod
    def collect(file, lines):
        def read():
            for line in file:
                lines.append(line.rstrip('\n'))
        thread = threading.Thread(target=read, daemon=True)
        thread.start()
        return thread

    def said(self):
        return '\n'.join(['stdout:', *self.out, 'stderr:', *self.err])

    def until(self, condition, what):
        def holds():
            value = condition()
            if not value and self.process.poll() is not None:
                self.wait()  # all that it said is there now
                value = condition()
                tap.check(value, f'it has ended before: {what}\n{self.said()}')
            return value
        try:
            return tap.until(holds, what)
        except AssertionError as error:
            raise AssertionError(f'{error}\n{self.said()}') from None

    def line(self, *words, lines=None):
        """Waits for a line with all of the words; returns it."""
        lines = self.out if lines is None else lines
        return self.until(lambda: next((line for line in list(lines)
                                        if all(word in line for word in words)), None),
                          f'no line with {words}')

    def signal(self, number=signal.SIGINT):
        self.process.send_signal(number)

    def wait(self):
        """Its exit code, with everything read."""
        code = self.process.wait(tap.WAIT)
        for reader in self.readers:
            reader.join(tap.WAIT)
        return code

    def ends(self, code, number=None):
        if number is not None:
            self.signal(number)
        got = self.wait()
        tap.check(got == code, f'exit code {got}, wanted {code}\n{self.said()}')
        tap.check('ERROR: ' not in '\n'.join(self.err), f'a sanitizer speaks\n{self.said()}')

    def kill(self):
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(tap.WAIT)


class Serve(Program):
    """With a folder of files, which has some from the start: the server sees others later."""

    def __init__(self, folder=None, port=0, config=CONFIG, **files):
        self.folder = folder or tempfile.mkdtemp(dir=work)
        self.files = os.path.join(self.folder, 'files')
        os.makedirs(self.files, exist_ok=True)
        for name, text in files.items():
            self.write(name, text)
        path = os.path.join(self.folder, 'tidings.yaml')
        with open(path, 'w', encoding='utf-8') as file:
            file.write(config)
        super().__init__(['serve', '--json', '--config', path, '--listen',
                          f'http://127.0.0.1:{port}'])
        line = self.line('"urls"', lines=self.err)
        self.url = json.loads(line)['urls'][0]
        self.port = int(self.url.split(':')[2].split('/')[0])

    def publish(self, uri, content=None, metadata=None, deleted=False):
        """Returns how many subscriptions match."""
        body = {'uri': uri}
        if content is not None:
            body['content'] = content
        if metadata is not None:
            body['metadata'] = metadata
        if deleted:
            body['deleted'] = True
        connection = http.client.HTTPConnection('127.0.0.1', self.port, timeout=tap.WAIT)
        try:
            connection.request('POST', '/publish', json.dumps(body),
                               {'Authorization': 'Bearer ' + KEY,
                                'Content-Type': 'application/json'})
            answer = json.loads(connection.getresponse().read())
        finally:
            connection.close()
        tap.check('changes' in answer, answer)
        return answer['changes'][0]['subscriptions']

    def write(self, name, text):
        """In one step, from beside the folder that is served. Returns the URI."""
        path, new = os.path.join(self.files, name), os.path.join(self.folder, 'new')
        with open(new, 'w', encoding='utf-8') as file:
            file.write(text)
        os.rename(new, path)
        return self.uri(name)

    def uri(self, name):
        return 'file://' + os.path.join(self.files, name)


class Watch(Program):
    """Starts and waits until it watches, unless told not to."""

    def __init__(self, *arguments, wait=True, **more):
        super().__init__(['watch', *arguments], **more)
        self.json = '--json' in arguments
        if wait:
            self.line('watching', lines=self.out if self.json else self.err)

    def events(self, kind=None):
        """With --json: what it told, of one kind or without what is about itself."""
        all_events = [json.loads(line) for line in list(self.out)]
        if kind is not None:
            return [e for e in all_events if e['event'] == kind]
        return [e for e in all_events
                if e['event'] in ('updated', 'deleted', 'listed', 'unlisted', 'list')]

    def event(self, count=1, kind=None, **fields):
        """Waits for so many with these fields; returns the last of them."""
        def found():
            return [e for e in self.events(kind)
                    if all(e.get(key) == value for key, value in fields.items())]
        return self.until(lambda: found() if len(found()) >= count else None,
                          f'not {count} events {kind} {fields}')[count - 1]


def kill_running(_passed=True):
    while running:
        running.pop().kill()


def kill_all():
    kill_running()
    if work is not None:
        shutil.rmtree(work, ignore_errors=True)


def file_with(path, text=''):
    """Waits until a file is there and has the text in it; returns its content."""
    def content():
        try:
            with open(path, encoding='utf-8') as file:
                found = file.read()
        except FileNotFoundError:
            return None
        return (found or ' ') if text in found else None
    return tap.until(content, f'{path} has no {text!r}')


# ---- Lines --------------------------------------------------------------------------------

def a_line_for_each_change(era):
    serve = Serve()
    watch = Watch(serve.url, 'm:1', 'm:2', '--era', era)
    serve.publish('m:1', 'hello', {'change_type': 'content_update', 'size': 2048})
    line = watch.line('m:1')
    tap.check(re.fullmatch(r'\d\d:\d\d:\d\d  m:1  v\d+  content_update, 2\.0 KiB', line), line)
    serve.publish('m:2', deleted=True)
    watch.line('m:2', 'deleted')
    serve.publish('m:3', 'not asked for')
    serve.publish('m:1', 'again', {'change_type': 'last'})
    watch.line('m:1', 'last')
    tap.check(not any('m:3' in line for line in watch.out), watch.said())
    tap.check('\033' not in ''.join(watch.out + watch.err), 'colours without a terminal')
    watch.ends(OK, signal.SIGINT)


def one_json_object_per_change(era):
    serve = Serve()
    watch = Watch(serve.url, 'm:1', '--json', '--era', era)
    about = watch.events('watching')[0]
    tap.same(about['subscriptions'], 1, 'subscriptions')
    tap.same(about['server'], serve.url, 'server')
    tap.same(about['protocol'], '2026-07-28' if era == 'modern' else '2025-11-25', 'protocol')
    serve.publish('m:1', 'hello', {'by': 'me'})
    event = watch.event(uri='m:1')
    tap.same(event['event'], 'updated', 'event')
    tap.same(event['metadata']['by'], 'me', 'metadata')
    tap.check(event['version'] > 0 and event['at'] > 1e12, event)
    tap.check('contents' not in event and 'diff' not in event, event)
    serve.publish('m:1', deleted=True)
    watch.event(kind='deleted', uri='m:1')
    watch.ends(OK, signal.SIGTERM)
    tap.check(not watch.err, watch.said())


def read_shows_the_content():
    serve = Serve()
    plain = Watch(serve.url, 'm:1', '--read')
    machine = Watch(serve.url, 'm:1', '--read', '--json')
    serve.publish('m:1', 'first line\nsecond line')
    plain.line('second line')
    tap.same(plain.out[-2:], ['first line', 'second line'], 'content')
    tap.same(machine.event(uri='m:1')['contents'][0]['text'], 'first line\nsecond line',
             'contents')
    serve.publish('m:1', {'blob': 'AAECAw=='})
    plain.line('[4 bytes of ')
    for watch in plain, machine:
        watch.ends(OK, signal.SIGINT)


def diffs_are_applied_by_patch(era):
    texts = [''.join(f'line {i}\n' for i in range(100)), '', 'no end', 'one\ntwo\n']
    texts.insert(1, texts[0].replace('line 50\n', 'changed\n').replace('line 7\n', '') + 'new\n')
    serve = Serve(a=texts[0])
    uri = serve.uri('a')
    watch = Watch(serve.url, uri, '--diff', '--json', '--era', era)
    copy = os.path.join(work, 'copy')
    with open(copy, 'w', encoding='utf-8') as file:
        file.write(texts[0])
    for count, text in enumerate(texts[1:], 1):
        serve.write('a', text)
        event = watch.event(count, uri=uri)
        subprocess.run(['patch', '-s', '-F0', copy], input=event['diff'], text=True, check=True)
        tap.same(file_with(copy), text or ' ', 'the patched copy')
    tap.check(len(watch.events()[0]['diff']) < 400, 'a small change is a small diff')
    watch.ends(OK, signal.SIGINT)

    plain = Watch(serve.url, uri, '--diff')
    serve.write('a', 'one\n2\n')
    plain.line('+2')
    tap.same(plain.out[1:], [f'--- {uri}', f'+++ {uri}', '@@ -1,2 +1,2 @@', ' one', '-two', '+2'],
             'the diff')
    plain.ends(OK, signal.SIGINT)


def without_uris_all_is_watched(era):
    serve = Serve(first='one\n')
    first = serve.uri('first')
    watch = Watch(serve.url, '--json', '--read', '--era', era)
    serve.write('first', 'two\n')
    tap.same(watch.event(uri=first)['contents'][0]['text'], 'two\n', 'content')
    second = serve.write('second', 'new\n')
    tap.same(watch.event(kind='listed', uri=second)['contents'][0]['text'], 'new\n', 'content')
    serve.write('second', 'newer\n')
    watch.event(kind='updated', uri=second)
    os.unlink(os.path.join(serve.files, 'second'))
    watch.until(lambda: [e for e in watch.events() if e.get('uri') == second and
                         e['event'] in ('deleted', 'unlisted')], 'the file is not told as gone')
    serve.write('first', 'three\n')
    watch.event(kind='updated', count=2, uri=first)
    gone = [e for e in watch.events() if e['event'] in ('deleted', 'unlisted')]
    tap.same(len(gone), 1, f'told as gone: {gone}')
    serve.write('second', 'back\n')  # listed again, unless it was away too short to be missed
    watch.until(lambda: [e for e in watch.events() if e.get('uri') == second and
                         e.get('contents', [{}])[0].get('text') == 'back\n'], 'not told as back')
    watch.ends(OK, signal.SIGINT)


def nothing_is_told_before_it_happens(era):
    """A server that begins to watch for us must not look like one with changes."""
    serve = Serve(a='1', b='2', c='3')
    watch = Watch(serve.url, '--once', '--json', '--exec', 'cat >&2', '--era', era)
    serve.publish('m:1', 'new', {'by': 'me'})
    watch.ends(OK)
    tap.same([(e['event'], e['uri']) for e in watch.events()], [('listed', 'm:1')], 'events')
    tap.check('new' in ''.join(watch.err), watch.said())


def a_template_watches_what_it_matches(era):
    serve = Serve()
    watch = Watch(serve.url, 'm:{x}', '--json', '--era', era)
    serve.publish('m:1', 'a')
    serve.publish('m:2', 'b')
    watch.event(uri='m:1')
    watch.event(uri='m:2')
    watch.ends(OK, signal.SIGINT)


def a_program_is_a_target():
    folder = tempfile.mkdtemp(dir=work)
    path = os.path.join(folder, 'a.txt')
    with open(path, 'w', encoding='utf-8') as file:
        file.write('one\n')
    watch = Watch('--json', '--diff', 'file://' + path, '--', tidings, 'serve', '--stdio', folder)
    tap.same(watch.events('watching')[0]['transport'], 'stdio', 'transport')
    with open(path, 'w', encoding='utf-8') as file:
        file.write('two\n')
    tap.check(watch.event()['diff'].endswith('@@ -1 +1 @@\n-one\n+two\n'), watch.said())
    watch.ends(OK, signal.SIGINT)


def filters_are_the_servers():
    serve = Serve()
    watch = Watch(serve.url, 'm:1', '--json', '--filter', '{"metadata.size": {"gt": 10}}')
    serve.publish('m:1', 'a', {'size': 5})
    serve.publish('m:1', 'b', {'size': 50})
    tap.same(watch.event()['metadata']['size'], 50, 'size')
    watch.ends(OK, signal.SIGINT)


def debounce_collects():
    serve = Serve()
    watch = Watch(serve.url, 'm:1', '--json', '--debounce', '3s')
    for i in range(4):
        serve.publish('m:1', str(i), {'i': i})
    event = watch.event()
    tap.same(event['metadata']['i'], 3, 'the newest')
    tap.same(event['merged'], 3, 'merged')
    watch.ends(OK, signal.SIGINT)


# ---- Commands -----------------------------------------------------------------------------

# Writes down when it starts, waits for a file `go`, then writes that it ends. Files are found by
# their number: how many have started so far.
SLOW = '''cd "$SCENE" || exit 1
echo "start $TIDINGS_URI" >>log
cat >"content.$TIDINGS_VERSION"
while [ ! -e "go" ]; do sleep 0.02; done
echo "end $TIDINGS_URI merged=$TIDINGS_MERGED kind=$TIDINGS_KIND" >>log
'''


def one_command_at_a_time_and_the_rest_collapses():
    serve, scene = Serve(), tempfile.mkdtemp(dir=work)
    log = os.path.join(scene, 'log')
    watch = Watch(serve.url, 'm:1', '--json', '--exec', SLOW, SCENE=scene)
    serve.publish('m:1', 'first')
    file_with(log, 'start m:1\n')
    for i in range(5):
        serve.publish('m:1', f'more {i}')
        watch.event(2 + i)  # each of them is told, one by one
    tap.same(file_with(log), 'start m:1\n', 'only one has started')
    with open(os.path.join(scene, 'go'), 'w', encoding='utf-8'):
        pass
    last = watch.event(6)
    watch.event(2, kind='command', status=0)
    tap.same(file_with(log).splitlines(),
             ['start m:1', 'end m:1 merged=0 kind=updated',
              'start m:1', 'end m:1 merged=4 kind=updated'], 'what ran')
    tap.same(file_with(os.path.join(scene, f"content.{last['version']}")), 'more 4', 'content')
    watch.ends(OK, signal.SIGINT)
    tap.same(len(watch.events('command')), 2, 'commands')


# Writes what it runs about, and waits for a file `go`.
NUMBERED = '''cd "$SCENE" || exit 1
echo "$TIDINGS_METADATA merged=$TIDINGS_MERGED" >>log
while [ ! -e "go" ]; do sleep 0.02; done
'''


def the_higher_version_wins_where_changes_merge():
    """Of a server that numbers by metadata.version only, which may send an older one late."""
    scene, numbers = tempfile.mkdtemp(dir=work), queue.Queue()
    stub = Stub(capabilities={'resources': {'subscribe': True}})
    stub.updates = iter(lambda: {'uri': 'm:1', 'metadata': {'version': numbers.get()}}, None)
    log = os.path.join(scene, 'log')
    watch = Watch(stub.url, 'm:1', '--json', '--exec', NUMBERED, SCENE=scene)
    numbers.put(7)
    file_with(log, '{"version":7}')
    for number in (9, 8):
        numbers.put(number)
        watch.event(metadata={'version': number})  # it is printed, and waits for the command
    with open(os.path.join(scene, 'go'), 'w', encoding='utf-8'):
        pass
    watch.event(2, kind='command', status=0)
    tap.same(file_with(log).splitlines(),
             ['{"version":7} merged=0', '{"version":9} merged=1'], 'what ran')
    watch.ends(OK, signal.SIGINT)
    stub.close()


def several_commands_where_asked():
    serve, scene = Serve(), tempfile.mkdtemp(dir=work)
    log = os.path.join(scene, 'log')
    watch = Watch(serve.url, 'm:1', '--exec', SLOW, '--parallel', '2', SCENE=scene)
    serve.publish('m:1', 'first')
    file_with(log, 'start m:1\n')
    serve.publish('m:1', 'second')
    file_with(log, 'start m:1\nstart m:1\n')
    with open(os.path.join(scene, 'go'), 'w', encoding='utf-8'):
        pass
    file_with(log, 'end m:1')
    watch.ends(OK, signal.SIGINT)


def a_slow_command_holds_nobody_else_up():
    serve, scene = Serve(), tempfile.mkdtemp(dir=work)
    log = os.path.join(scene, 'log')
    watch = Watch(serve.url, 'm:1', 'm:2', '--jobs', '2', '--exec', SLOW, SCENE=scene)
    serve.publish('m:1', 'x')
    file_with(log, 'start m:1')
    serve.publish('m:2', 'x')
    file_with(log, 'start m:2')
    serve.publish('m:1', 'y', {'change_type': 'seen'})
    watch.line('m:1', 'seen')
    with open(os.path.join(scene, 'go'), 'w', encoding='utf-8'):
        pass
    watch.until(lambda: len([line for line in watch.err if 'exited with 0' in line]) == 3,
                'not three commands')
    watch.ends(OK, signal.SIGINT)


def facts_are_in_the_environment_and_never_in_the_command():
    serve, scene = Serve(), tempfile.mkdtemp(dir=work)
    path = os.path.join(scene, 'env')
    watch = Watch(serve.url, 'r:{+x}', '--exec', 'env >"$SCENE/new" && mv "$SCENE/new" "$SCENE/env"',
                  SCENE=scene, TIDINGS_URI='from outside')
    serve.publish("r:$(touch%20x)';x", 'hello', {'by': 'me', 'change_type': 'made'})
    found = dict(line.split('=', 1) for line in file_with(path).splitlines() if '=' in line)
    tap.same(found['TIDINGS_URI'], "r:$(touch%20x)';x", 'uri')
    tap.same(found['TIDINGS_KIND'], 'updated', 'kind')
    tap.same(json.loads(found['TIDINGS_METADATA'])['by'], 'me', 'metadata')
    tap.same(found['TIDINGS_SIZE'], '5', 'size')
    tap.same(found['TIDINGS_MERGED'], '0', 'merged')
    tap.same(found['TIDINGS_MAYBE'], '0', 'maybe')
    tap.same(found['TIDINGS_SERVER'], serve.url, 'server')
    tap.check(int(found['TIDINGS_VERSION']) > 0 and int(found['TIDINGS_TIME_MS']) > 1e12, found)
    tap.check(found['TIDINGS_MIME_TYPE'].startswith('text/'), found)
    watch.ends(OK, signal.SIGINT)


def a_command_takes_content_that_fills_no_pipe():
    serve, scene = Serve(), tempfile.mkdtemp(dir=work)
    text = 'x' * 500000
    watch = Watch(serve.url, 'm:1', 'm:2', '--exec',
                  '[ $TIDINGS_URI = m:1 ] || exit 0; wc -c >"$SCENE/n.new"; '
                  'mv "$SCENE/n.new" "$SCENE/n"', SCENE=scene)
    serve.publish('m:2', text)  # which its command does not even read
    serve.publish('m:1', text)
    tap.same(file_with(os.path.join(scene, 'n')).strip(), '500000', 'bytes')
    watch.line('m:2', 'exited with 0', lines=watch.err)
    watch.ends(OK, signal.SIGINT)


def what_a_command_exits_with_is_told():
    serve = Serve()
    watch = Watch(serve.url, 'm:1', '--json', '--exec', 'exit 3')
    serve.publish('m:1', 'x')
    watch.event(kind='command', uri='m:1', status=3)
    watch.ends(OK, signal.SIGINT)


def a_command_that_takes_too_long_is_ended():
    serve = Serve()
    watch = Watch(serve.url, 'm:1', '--json', '--exec-timeout', '200ms', '--exec', 'sleep 1000')
    serve.publish('m:1', 'x')
    event = watch.event(kind='command', timed_out=True)
    tap.same(event['signal'], signal.SIGTERM, 'signal')
    watch.ends(OK, signal.SIGINT)


def children_are_seen_to_end_whatever_our_parent_ignores():
    global tidings
    wrapper, real = os.path.join(tempfile.mkdtemp(dir=work), 'deaf'), tidings
    with open(wrapper, 'w', encoding='utf-8') as file:
        file.write(f'#!{sys.executable}\nimport os, signal, sys\n'
                   'signal.signal(signal.SIGCHLD, signal.SIG_IGN)\n'
                   f'os.execv({real!r}, [{real!r}, *sys.argv[1:]])\n')
    os.chmod(wrapper, 0o755)
    serve = Serve()
    tidings = wrapper
    try:
        watch = Watch(serve.url, 'm:1', '--json', '--exec', 'exit 3')
    finally:
        tidings = real
    serve.publish('m:1', 'x')
    watch.event(kind='command', status=3)
    watch.ends(OK, signal.SIGINT)


def leaving_ends_commands():
    serve, scene = Serve(), tempfile.mkdtemp(dir=work)
    watch = Watch(serve.url, 'm:1', '--exec', SLOW, SCENE=scene)
    serve.publish('m:1', 'x')
    file_with(os.path.join(scene, 'log'), 'start')
    watch.signal()
    watch.line('waiting for 1 command', lines=watch.err)
    watch.line('was ended by signal 15', lines=watch.err)
    watch.ends(OK)
    tap.same(serve.publish('m:1', 'y'), 0, 'subscriptions')


# ---- Ends ---------------------------------------------------------------------------------

def nothing_stays_subscribed(era):
    serve = Serve()
    watch = Watch(serve.url, 'm:1', 'm:2', '--json', '--era', era)
    tap.same(serve.publish('m:1', 'x'), 1, 'subscriptions')
    watch.event(uri='m:1')
    watch.ends(OK, signal.SIGINT)
    tap.same(serve.publish('m:1', 'y'), 0, 'subscriptions')


def once_ends_at_the_first_change():
    serve = Serve()
    watch = Watch(serve.url, 'm:1', '--once', '--timeout', '10m')
    serve.publish('m:1', 'x')
    watch.ends(OK)
    tap.same(len(watch.out), 1, 'lines')

    Watch(serve.url, 'm:1', '--once').ends(130, signal.SIGINT)
    Watch(serve.url, 'm:1', '--once').ends(143, signal.SIGTERM)
    Watch(serve.url, 'm:1', '--once', '--timeout', '300ms', wait=False).ends(TIMEOUT)


def once_with_a_command_has_its_outcome():
    serve = Serve()
    for command, code in ('cat', OK), ('exit 9', FAILED):
        watch = Watch(serve.url, 'm:1', '--once', '--exec', command)
        serve.publish('m:1', 'the content')
        watch.ends(code)
        tap.same('the content' in '\n'.join(watch.out), code == OK, 'what the command prints')


def a_reader_that_goes_ends_it_quietly():
    serve = Serve()
    serve.publish('m:1', 'x')
    read, write = os.pipe()
    watch = Program(['watch', serve.url, 'm:1'], out=write)
    os.close(write)
    watch.line('watching', lines=watch.err)
    os.close(read)
    watch.ends(OK)
    tap.same(len(watch.err), 1, 'lines on standard error')


def a_server_that_comes_back_is_watched_again(era):
    serve = Serve(a='one\n')
    uri = serve.uri('a')
    watch = Watch(serve.url, uri, '--json', '--read', '--era', era)
    serve.write('a', 'two\n')
    watch.event(uri=uri)
    serve.kill()
    watch.event(kind='down')
    serve.write('a', 'three\n')
    again = Serve(serve.folder, serve.port)
    watch.event(kind='up')
    watch.until(lambda: watch.events()[-1]['contents'][0]['text'] == 'three\n',
                'what changed meanwhile is not told')
    again.write('a', 'four\n')
    watch.until(lambda: watch.events()[-1]['contents'][0]['text'] == 'four\n',
                'not watched again')
    watch.ends(OK, signal.SIGINT)


def people_are_told_of_a_loss():
    serve = Serve()
    watch = Watch(serve.url, 'm:1')
    serve.kill()
    watch.line('lost the connection', lines=watch.err)
    again = Serve(serve.folder, serve.port)
    watch.line('reconnected', lines=watch.err)
    tap.until(lambda: again.publish('m:1', 'x', {'change_type': 'seen'}) == 1,
              'not subscribed again')
    watch.line('m:1', 'seen')
    watch.ends(OK, signal.SIGINT)


def no_retry_ends_with_the_connection():
    serve = Serve()
    watch = Watch(serve.url, 'm:1', '--no-retry')
    serve.kill()
    watch.ends(UNREACHABLE)


def patience_waits_for_a_server():
    with bound() as keeper:
        watch = Watch(f'http://127.0.0.1:{port_of(keeper)}', 'm:1', '--patient', '--json',
                      '--verbose', wait=False)
        watch.until(lambda: watch.err, 'it does not say that it tries')
        serve = Serve(port=port_of(keeper))
    watch.line('watching')
    serve.publish('m:1', 'x')
    watch.event(uri='m:1')
    watch.ends(OK, signal.SIGINT)


def what_is_not_there_is_said(era):
    serve = Serve()
    serve.publish('m:1', 'x')
    watch = Watch(serve.url, 'm:1', 'm:2', '--era', era)
    watch.line('m:2 does not exist yet', lines=watch.err)
    serve.publish('m:2', 'x')
    watch.line('m:2  ')
    watch.ends(OK, signal.SIGINT)
    tap.check(not any('m:1 does not' in line for line in watch.err), watch.said())


def a_file_is_awaited(era):
    """Its source knows that it does not exist: a legacy server refuses who does not ask to wait."""
    serve = Serve()
    uri = serve.uri('later')
    watch = Watch(serve.url, uri, '--era', era)
    watch.line(f'{uri} does not exist yet', lines=watch.err)
    serve.write('later', 'x')
    watch.line(uri, 'created')
    watch.ends(OK, signal.SIGINT)
    tap.same(len(watch.out), 1, f'lines: {watch.out}')


def nothing_to_watch_is_said():
    stub = Stub()
    fails(NOT_FOUND, 'lists no resources', stub.url)
    watch = Watch(stub.url, '--patient')
    watch.line('watching 0 resources', lines=watch.err)
    stub.close()


def a_template_without_resources_is_watched():
    """It may bring resources, as that of an empty folder does."""
    stub = Stub({'resources/templates/list': {
        'resourceTemplates': [{'uriTemplate': 't:{x}', 'name': 't'}]}})
    watch = Watch(stub.url)
    watch.line('watching 0 resources', lines=watch.err)
    stub.close()


def what_a_server_answers_decides_the_exit_code():
    listen = 'subscriptions/listen'
    stub = Stub({listen: Exception({'code': -32000, 'message': 'strange'})},
                capabilities={'resources': {'subscribe': True}})
    watch = fails(FAILED, 'error -32000: strange', stub.url, 'm:1')
    tap.check(not any('tidings ls' in line for line in watch.err), watch.said())
    stub.answers[listen] = Exception({'code': -32602, 'message': 'unknown'})
    fails(NOT_FOUND, '`tidings ls` shows what can be watched', stub.url, 'm:1')
    stub.answers[listen] = Exception({'code': -32603, 'message': 'starting'})
    fails(TIMEOUT, 'nothing is watched yet', stub.url, 'm:1', '--timeout', '5s')
    stub.close()


def a_refusal_that_may_pass_is_retried():
    """With URIs and without; --no-retry takes it for final."""
    listen = 'subscriptions/listen'
    starting = Exception({'code': -32603, 'message': 'starting'})
    stub = Stub({listen: starting, 'resources/list': {'resources': [{'uri': 'm:1', 'name': '1'}]}},
                capabilities={'resources': {'subscribe': True}})
    watches = [Watch(stub.url, 'm:1', wait=False), Watch(stub.url, wait=False)]
    never = Watch(stub.url, 'm:1', '--no-retry', wait=False)
    for watch in watches:
        watch.line('m:1 is temporarily refused, retrying', 'starting', lines=watch.err)
    never.ends(FAILED)
    tap.check('starting' in never.said(), never.said())
    del stub.answers[listen]
    for watch in watches:
        watch.line('watching 1 resource', lines=watch.err)
        watch.ends(OK, signal.SIGINT)
    stub.close()


def without_retries_a_refusal_is_final_at_once():
    """Of the whole request or of one resource, in both eras; nothing is looked for that is there."""
    def refuse(_):
        return Exception({'code': -32006, 'message': 'full'})

    def silent_stream(handler, _):
        handler.send_response(200)
        handler.send_header('Content-Type', 'text/event-stream')
        handler.end_headers()
        handler.rfile.read(1)
        handler.close_connection = True

    capabilities = {'resources': {'subscribe': True}}
    whole = Stub({'subscriptions/listen': refuse}, capabilities=capabilities)
    single = Stub(capabilities=capabilities)
    single.refused['m:1'] = 'subscription_failed'
    legacy = Stub({'server/discover': None, 'resources/subscribe': refuse, 'initialize': {
        'protocolVersion': '2025-11-25', 'capabilities': capabilities,
        'serverInfo': {'name': 'stub', 'version': '1'}}})
    legacy.streams['GET'] = silent_stream
    for stub, method in ((whole, 'subscriptions/listen'), (single, 'subscriptions/listen'),
                         (legacy, 'resources/subscribe')):
        watch = fails(FAILED, 'm:1', stub.url, 'm:1', '--no-retry')
        tap.same(len(stub.asked(method)), 1, f'{method}\n{watch.said()}')
        tap.check('tidings ls' not in watch.said(), watch.said())
        stub.close()


def some_of_a_list_may_be_refused_for_now():
    """The others are watched meanwhile; it joins them when the server accepts it."""
    stub = Stub({'resources/list': {'resources': [{'uri': f'm:{i}', 'name': str(i)}
                                                  for i in (1, 2)]}},
                capabilities={'resources': {'subscribe': True}})
    stub.refused['m:2'] = 'subscription_failed'
    watch = Watch(stub.url, wait=False)
    watch.line('m:2 is temporarily refused, retrying', lines=watch.err)
    watch.line('watching 1 resource', lines=watch.err)
    # The first two looks at the list are for the start; no change of it leads to the third.
    tap.until(lambda: len(stub.asked('resources/list')) >= 3, 'the list is not looked at again')
    del stub.refused['m:2']
    watch.line('m:2', 'new in the list')
    watch.ends(OK, signal.SIGINT)
    stub.close()


def patience_is_not_silent():
    with bound() as keeper:
        watch = Watch(f'http://127.0.0.1:{port_of(keeper)}', 'm:1', '--patient', wait=False)
        watch.line('waiting for http://127.0.0.1', lines=watch.err)
        watch.ends(128 + signal.SIGINT, signal.SIGINT)
    tap.check(len(watch.err) == 1, f'once is enough\n{watch.said()}')


# ---- What goes wrong ----------------------------------------------------------------------

class Answers:
    """An HTTP server that answers everything in one way and keeps the headers."""

    def __init__(self, status, body=b'', kind='text/plain'):
        seen = self.seen = []

        class Handler(http.server.BaseHTTPRequestHandler):
            def answer(self):
                self.rfile.read(int(self.headers.get('Content-Length', 0)))
                seen.append(dict(self.headers))
                self.send_response(status)
                self.send_header('Content-Type', kind)
                self.send_header('Content-Length', str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_GET = do_POST = do_DELETE = answer

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f'http://127.0.0.1:{self.server.server_port}/mcp'


def fails(code, text, *arguments):
    watch = Watch(*arguments, wait=False)
    watch.ends(code)
    tap.check(text in '\n'.join(watch.err), f'not said: {text}\n{watch.said()}')
    return watch


def what_goes_wrong_is_said():
    serve = Serve()
    with socket.socket() as nobody:
        nobody.bind(('127.0.0.1', 0))  # and does not listen
        fails(UNREACHABLE, 'Is the server running', f'http://127.0.0.1:{nobody.getsockname()[1]}')
    with socket.socket() as silent:
        silent.bind(('127.0.0.1', 0))
        silent.listen()
        fails(TIMEOUT, '', f'http://127.0.0.1:{silent.getsockname()[1]}', '--timeout', '1s')
    fails(NOT_FOUND, 'no:where', serve.url, 'no:where')
    fails(DENIED, '--token-file', Answers(401).url)
    fails(DENIED, 'denies access', Answers(403).url)
    fails(FAILED, '/mcp', Answers(200, b'<html>', 'text/html').url)
    fails(UNREACHABLE, 'no-such-program', '--', 'no-such-program')
    watch = fails(UNREACHABLE, 'these are my last words', '--', 'sh', '-c',
                  'echo these are my last words >&2; exit 1')
    tap.check('\033' not in watch.said(), 'escapes')


def a_wrong_command_line_is_usage():
    url = 'http://127.0.0.1:9'
    for text, arguments in {
        'no server: give its address': [],
        'did you mean http://localhost:8808': ['localhost:8808'],
        'a program to start must be last': ['tidings'],
        'no program after --': ['--'],
        'not both': [url, '--', 'x'],
        'a time such as': [url, '--timeout', '5'],
        '--filter is not JSON': [url, '--filter', '{'],
        'unknown field': [url, '--filter', '{"x": 1}'],
        'require --exec': [url, '--jobs', '2'],
        'cannot be combined': [url, '--debounce', '1s', '--batch', '1s'],
        'unknown option --reed': [url, '--reed'],
    }.items():
        watch = fails(USAGE, text, *arguments)
        tap.check(not watch.out, watch.said())
    secret = Watch('user:secret@host', wait=False)
    secret.ends(USAGE)
    tap.check('secret' not in secret.said(), secret.said())


def headers_and_tokens_are_sent():
    answers = Answers(401)
    token = os.path.join(work, 'token')
    with open(token, 'w', encoding='utf-8') as file:
        file.write('the-token\n')
    watch = fails(DENIED, 'Is it the right one', answers.url, '--token-file', token,
                  '--header', 'X-One: 1', '--header', 'X-Two: 2')
    tap.same([answers.seen[0].get(name) for name in ('X-One', 'X-Two', 'Authorization')],
             ['1', '2', 'Bearer the-token'], 'headers')
    tap.check('the-token' not in watch.said(), watch.said())


def the_environment_has_the_address():
    """With URIs and without; an address on the command line comes first."""
    serve = Serve(first='one\n')
    named = Watch('m:1', TIDINGS_URL=serve.url)
    everything = Watch(TIDINGS_URL=serve.url)
    given = Watch(serve.url, 'm:1', TIDINGS_URL='http://127.0.0.1:1')
    serve.publish('m:1', 'x')
    for watch in named, everything, given:
        watch.line('m:1')
        watch.ends(OK, signal.SIGINT)


def read_until(terminal, wanted, shown=b''):
    """What comes from a terminal, until there is what is wanted."""
    while wanted not in shown:
        ready, _, _ = select.select([terminal], [], [], tap.WAIT)
        tap.check(ready, f'never shown: {wanted!r}; but {shown!r}')
        shown += os.read(terminal, 4096)
    return shown


def escapes_of_a_server_never_reach_a_terminal():
    serve = Serve()
    ours, theirs = pty.openpty()
    watch = Program(['watch', serve.url, 'm:{x}', '--read', '--diff'], out=theirs, NO_COLOR='1',
                    TERM='xterm')
    os.close(theirs)
    watch.line('watching', lines=watch.err)
    evil = '\033]0;owned\a\033[2J\u009b31m\u202e\r\nplain\ttext\n'
    serve.publish('m:1', evil, {'change_type': '\033[31mred\n00:00:00  m:9  faked'})
    shown = read_until(ours, b'plain')
    serve.publish('m:1', evil + 'THE END\n')
    text = read_until(ours, b'+THE END', shown).decode()
    for bad in '\033\a\u009b\u202e':
        tap.check(bad not in text, repr(text))
    tap.check('^[]0;owned^G^[[2J<U+009B>31m<U+202E>^M' in text, repr(text))
    tap.check('plain\ttext' in text or 'plain   text' in text, repr(text))
    tap.check('\n00:00:00' not in text, repr(text))
    watch.ends(OK, signal.SIGINT)
    os.close(ours)


def colours_are_for_terminals():
    serve = Serve()
    ours, theirs = pty.openpty()
    watch = Program(['watch', serve.url, 'm:1'], out=theirs, NO_COLOR='', TERM='xterm')
    os.close(theirs)
    watch.line('watching', lines=watch.err)
    serve.publish('m:1', 'x')
    shown = read_until(ours, b'\n')
    tap.check(b'\033[1mm:1\033[0m' in shown, repr(shown))
    watch.ends(OK, signal.SIGINT)
    os.close(ours)


BOTH = ('modern', 'legacy')
TESTS = [
    *[(a_line_for_each_change, era) for era in BOTH],
    *[(one_json_object_per_change, era) for era in BOTH],
    (read_shows_the_content,),
    *[(diffs_are_applied_by_patch, era) for era in BOTH],
    *[(without_uris_all_is_watched, era) for era in BOTH],
    *[(nothing_is_told_before_it_happens, era) for era in BOTH],
    *[(a_template_watches_what_it_matches, era) for era in BOTH],
    (a_program_is_a_target,),
    (filters_are_the_servers,),
    (debounce_collects,),
    (one_command_at_a_time_and_the_rest_collapses,),
    (the_higher_version_wins_where_changes_merge,),
    (several_commands_where_asked,),
    (a_slow_command_holds_nobody_else_up,),
    (facts_are_in_the_environment_and_never_in_the_command,),
    (a_command_takes_content_that_fills_no_pipe,),
    (what_a_command_exits_with_is_told,),
    (a_command_that_takes_too_long_is_ended,),
    (children_are_seen_to_end_whatever_our_parent_ignores,),
    (leaving_ends_commands,),
    *[(nothing_stays_subscribed, era) for era in BOTH],
    (once_ends_at_the_first_change,),
    (once_with_a_command_has_its_outcome,),
    (a_reader_that_goes_ends_it_quietly,),
    *[(a_server_that_comes_back_is_watched_again, era) for era in BOTH],
    (people_are_told_of_a_loss,),
    (no_retry_ends_with_the_connection,),
    (patience_waits_for_a_server,),
    (nothing_to_watch_is_said,),
    (a_template_without_resources_is_watched,),
    (what_a_server_answers_decides_the_exit_code,),
    (a_refusal_that_may_pass_is_retried,),
    (without_retries_a_refusal_is_final_at_once,),
    (some_of_a_list_may_be_refused_for_now,),
    (patience_is_not_silent,),
    (what_is_not_there_is_said, 'modern'),
    (what_is_not_there_is_said, 'legacy'),
    *[(a_file_is_awaited, era) for era in BOTH],
    (what_goes_wrong_is_said,),
    (a_wrong_command_line_is_usage,),
    (headers_and_tokens_are_sent,),
    (the_environment_has_the_address,),
    (escapes_of_a_server_never_reach_a_terminal,),
    (colours_are_for_terminals,),
]


def main():
    global tidings, work
    (tidings,), chosen = tap.arguments('TIDINGS')
    atexit.register(kill_all)
    work = tempfile.mkdtemp()
    tap.run_all(TESTS, chosen, after=kill_running)


if __name__ == '__main__':
    main()

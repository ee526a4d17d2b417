#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""client_evil_test.py TIDINGS [CHOSEN]: the commands that talk to servers, against
servers and programs that mean no good, and readers that do not read. Writes TAP."""
import atexit
import fcntl
import json
import os
import pty
import signal
import subprocess
import sys
import tempfile
import termios
import threading
import time

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), 'hostile'))
sys.path.insert(0, HERE)

from lib import tap  # noqa: E402
from lib.mortal import MORTAL  # noqa: E402
from mcp_stub import Stub  # noqa: E402

PIPE_SIZE = 4096
tidings = None
work = None
running = []


# ---- Programs and servers -----------------------------------------------------------------

class Run:
    """A tidings with its output in files."""

    def __init__(self, arguments, out=None, **more):
        self.paths = [tempfile.mktemp(dir=work) for _ in range(2)]
        files = [open(path, 'wb') for path in self.paths]
        self.process = subprocess.Popen(
            [*MORTAL, tidings, *arguments], stdin=subprocess.DEVNULL, stderr=files[1],
            stdout=files[0] if out is None else out, start_new_session=True,
            env={**os.environ, 'NO_COLOR': '1', **more})
        for file in files:
            file.close()
        running.append(self)

    def said(self):
        """Standard output and standard error so far."""
        texts = []
        for path in self.paths:
            with open(path, encoding='utf-8', errors='replace') as file:
                texts.append(file.read())
        return texts

    def until(self, text, where=1):
        tap.until(lambda: text in self.said()[where] or self.process.poll() is not None,
                  f'{text!r} does not come')
        tap.check(text in self.said()[where], f'{text!r} has not come: {self.said()}')

    def ends(self, code, number=None):
        if number is not None:
            self.process.send_signal(number)
        try:
            got = self.process.wait(tap.WAIT)
        except subprocess.TimeoutExpired:
            raise AssertionError(f'it does not end: {self.said()}') from None
        tap.check(got == code, f'exit code {got}, wanted {code}: {self.said()}')
        tap.check('ERROR: ' not in self.said()[1], f'a sanitizer speaks: {self.said()[1]}')

    def kill(self):
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(tap.WAIT)


def begin_events(handler):
    handler.send_response(200)
    handler.send_header('Content-Type', 'text/event-stream')
    handler.send_header('Connection', 'close')
    handler.end_headers()
    handler.close_connection = True


class Teller(Stub):
    """A stub whose listen streams are acknowledged and then told what `tell` makes: a
    function of the subscription's id that yields bytes."""

    def __init__(self, tell, answers=None):
        super().__init__(answers, capabilities={
            'resources': {'subscribe': True, 'listChanged': True}})
        self.told = 0
        teller = self

        def listen(handler, body):
            begin_events(handler)
            wanted = body['params'].get('notifications', {})
            try:
                handler.wfile.write(notice('subscriptions/acknowledged', body['id'],
                                           notifications=wanted))
                for piece in tell(body['id']):
                    handler.wfile.write(piece)
                    teller.told += 1
                handler.rfile.read(1)
            except OSError:
                pass  # the client has left
        self.server.RequestHandlerClass.listen = listen


def notice(name, stream, **params):
    params['_meta'] = {'io.modelcontextprotocol/subscriptionId': stream}
    said = {'jsonrpc': '2.0', 'method': 'notifications/' + name, 'params': params}
    return f'data: {json.dumps(said)}\n\n'.encode()


def is_alive(pid):
    try:
        with open(f'/proc/{pid}/stat', encoding='ascii', errors='replace') as file:
            return file.read().rsplit(')', 1)[1].split()[0] != 'Z'
    except OSError:
        return False


# ---- Tests --------------------------------------------------------------------------------

def a_signal_ends_the_program_as_well(command, name):
    """It has a session of its own and ignores its input: nothing else would end it."""
    number = getattr(signal, name)
    path = tempfile.mktemp(dir=work)
    run = Run([*command.split(), '--', 'sh', '-c', f'echo $$ >{path}.new; mv {path}.new {path}; '
                                                   'exec sleep 1000'])
    tap.until(lambda: os.path.exists(path), 'the program does not start')
    with open(path, encoding='ascii') as file:
        pid = int(file.read())
    try:
        # `watch` has handlers of its own, and gives the code that a shell would.
        run.ends(128 + number if command == 'watch' else -number, number)
        tap.until(lambda: not is_alive(pid), 'the program is still there')
    finally:
        if is_alive(pid):
            os.kill(pid, signal.SIGKILL)
    tap.check(run.said()[1] == '', run.said())


def a_reader_that_does_not_read_keeps_nobody():
    def tell(stream):
        for i in range(1000):
            yield notice('resources/updated', stream, uri=f'x:{i}')
    teller = Teller(tell)
    reader, writer = os.pipe()
    fcntl.fcntl(writer, 1031, PIPE_SIZE)  # F_SETPIPE_SZ
    run = Run(['watch', teller.url, 'x:{n}'], out=writer)
    os.close(writer)
    tap.until(lambda: teller.told == 1000, 'the server cannot tell')

    def is_printing():
        size = fcntl.ioctl(reader, termios.FIONREAD, b'\0' * 4)
        return int.from_bytes(size, sys.byteorder) > 0
    tap.until(is_printing, 'nothing is printed')
    run.ends(0, signal.SIGTERM)
    os.close(reader)
    teller.close()


def a_server_that_never_stops_sending_can_be_left():
    stop = threading.Event()

    def tell(_):
        noise = b':\n\n' * 100000
        while not stop.is_set():
            yield noise
    teller = Teller(tell)
    run = Run(['watch', teller.url, 'x:1'])
    run.until('watching 1 resource')
    run.ends(0, signal.SIGINT)
    stop.set()
    teller.close()


def a_list_that_always_changes_is_asked_for_now_and_then():
    looks = []

    def look(_):
        looks.append(time.monotonic())
        return {'resources': [{'uri': 'x:1', 'name': 'x'}]}

    def tell(stream):
        while True:  # until the client leaves
            yield notice('resources/list_changed', stream)
            time.sleep(0.01)
    teller = Teller(tell, {'resources/list': look})
    run = Run(['watch', teller.url])
    run.until('watching')
    first = len(looks)
    tap.until(lambda: len(looks) >= first + 4, 'the list is not asked for again')
    took = looks[first + 3] - looks[first - 1]
    tap.check(took >= 1, f'four more looks in {took:.3f} s')  # with a pause before each
    run.ends(0, signal.SIGINT)
    teller.close()


def json_on_a_terminal_is_ascii():
    evil = 'x:\u009b31m\u202e\x7f\x1b[2J\U0001f600'

    def tell(stream):
        yield notice('resources/updated', stream, uri=evil, metadata={'change_type': evil})
    teller = Teller(tell)
    ours, theirs = pty.openpty()
    run = Run(['watch', '--json', teller.url, evil], out=theirs, TERM='xterm')
    os.close(theirs)
    shown = b''
    while b'"updated"' not in shown or not shown.endswith(b'\n'):
        shown += os.read(ours, 4096)
    tap.check(all(32 <= byte < 127 or byte in b'\r\n' for byte in shown), shown)
    line = json.loads(shown.decode().splitlines()[-1])
    tap.check(line['uri'] == evil and line['metadata']['change_type'] == evil, line)
    run.ends(0, signal.SIGINT)
    os.close(ours)
    teller.close()


def a_variable_that_is_too_long_is_not_an_old_one():
    def tell(stream):
        yield notice('resources/updated', stream, uri='x:1', metadata={'long': 'y' * 100000})
    teller = Teller(tell, {'resources/read': {'contents': [{'uri': 'x:1', 'text': 't'}]}})
    run = Run(['watch', '--once', '--exec', 'echo "uri $TIDINGS_URI, ${TIDINGS_METADATA-none}"',
               teller.url, 'x:1'], TIDINGS_METADATA='old', TIDINGS_URI='old')
    run.ends(0)
    tap.check('uri x:1, none\n' in run.said()[0], run.said())
    teller.close()


def self_referring():
    """A thousand branches that lead to the same definition: 1000^8 ways through it."""
    return {'type': 'object', 'properties': {'x': {'$ref': '#/$defs/self'}},
            '$defs': {'self': {'allOf': [{'$ref': '#/$defs/self'}] * 1000}}}


def a_schema_that_refers_to_itself_is_called_all_the_same():
    stub = Stub({'tools/list': {'tools': [{'name': 't', 'inputSchema': self_referring()}]},
                 'tools/call': {'content': [{'type': 'text', 'text': 'called'}]}})
    run = Run(['call', stub.url, 't', 'x=1'])
    run.ends(0)
    tap.check(run.said()[0] == 'called\n', run.said())
    tap.check(stub.asked('tools/call')[0]['arguments'] == {'x': '1'}, stub.requests)
    stub.close()


def cpu_of_first_thread(pid):
    """In seconds. The client's connection has a thread of its own."""
    with open(f'/proc/{pid}/task/{pid}/stat', encoding='ascii', errors='replace') as file:
        user, system = file.read().rsplit(')', 1)[1].split()[11:13]
    return (int(user) + int(system)) / os.sysconf('SC_CLK_TCK')


def is_interrupted_in_a_schema():
    """Returns False where the tool was called nevertheless: the signal may have been late."""
    listed, goes_on, over = threading.Event(), threading.Event(), threading.Event()

    def tools(_):
        listed.set()
        goes_on.wait(tap.WAIT)
        return {'tools': [{'name': 't', 'inputSchema': self_referring()}]}

    def call(_):
        over.wait(2 * tap.WAIT)
        return {}
    stub = Stub({'tools/list': tools, 'tools/call': call})
    run = Run(['call', stub.url, 't', 'x=1'])
    try:
        tap.check(listed.wait(tap.WAIT), f'the tools are not listed: {run.said()}')
        before = cpu_of_first_thread(run.process.pid)  # it waits for the list
        goes_on.set()
        tap.until(lambda: stub.asked('tools/call') or
                  cpu_of_first_thread(run.process.pid) >= before + 0.02,
                  'nobody walks through the schema', pause=0.001)
        run.ends(-signal.SIGINT, signal.SIGINT)
    finally:
        over.set()
    tap.same(run.said(), ['', ''], 'what it printed')
    stub.close()
    return not stub.asked('tools/call')


def an_interrupt_ends_the_walk_through_a_schema():
    """Which takes far longer than to notice that it has begun."""
    tap.check(any(is_interrupted_in_a_schema() for _ in range(10)),
              'the tool is called before the program ends, each time')


def an_endless_list_ends_with_the_time_out(command):
    """Each page comes in time; the time-out is for all of them."""
    pages = []

    def page(key):
        def answer(_):
            pages.append(key)
            time.sleep(0.4)
            return {key: [], 'nextCursor': str(len(pages))}
        return answer
    stub = Stub({'resources/list': page('resources'), 'tools/list': page('tools'),
                 'prompts/list': page('prompts')})
    name, *rest = command.split()
    run = Run([name, stub.url, '--timeout', '3s', *rest])
    run.ends(4)
    tap.check(len(pages) <= 8, f'{len(pages)} pages of 400 ms')
    said = run.said()[1]  # by the whole command or, where the list began in time, by the list
    tap.check(name == 'watch' or f'{name}: not finished within 3s\n' in said or
              'the list does not end within the time-out\n' in said, said)
    tap.check('answer' not in said and 'Is it a server' not in said, said)
    stub.close()


def the_time_out_is_a_total():
    """Connecting, listing and calling take 1.6 s each, with a time-out of 3 s."""
    def slow(answer):
        def answer_late(_):
            time.sleep(1.6)
            return answer
        return answer_late
    stub = Stub({'tools/list': slow({'tools': [{'name': 't'}]}), 'tools/call': slow({})})
    stub.answers['server/discover'] = slow(stub.answers['server/discover'])
    run = Run(['call', stub.url, '--timeout', '3s', 't'])
    run.ends(4)
    tap.check('call: not finished within 3s' in run.said()[1], run.said())
    tap.check(not stub.asked('tools/call'), 'the tool is called')
    stub.close()


def trickle(stub, seconds):
    """Writes answers of the stub after that time, during which comments keep coming."""
    def write(handler, body):
        begin_events(handler)
        end = time.monotonic() + seconds(body['params'])
        try:
            while time.monotonic() < end:
                handler.wfile.write(b':\n\n')
                time.sleep(0.1)
            handler.wfile.write(f'data: {json.dumps(stub.answer(body))}\n\n'.encode())
        except OSError:
            pass  # the client has left
    return write


def the_time_out_is_a_total_of_reads_that_trickle():
    """The first takes more than half of it, and the second does not end."""
    stub = Stub({'resources/read': {'contents': [{'uri': 'x:1', 'text': 't'}]}})
    stub.streams['resources/read'] = trickle(
        stub, lambda params: 1.6 if params['uri'] == 'x:1' else 1000)
    run = Run(['read', stub.url, '--timeout', '3s', 'x:1', 'x:2', 'x:3', 'x:4'])
    run.ends(4)
    said = run.said()[1]
    # A request that has the whole time-out for itself is reported with milliseconds.
    tap.check(said.startswith('tidings: read: ') and ' within 3s\n' in said, said)
    tap.check(said.count('tidings: ') == 1, f'the time is over for all of them: {said}')
    asked = [params['uri'] for params in stub.asked('resources/read')]
    tap.check(asked in (['x:1', 'x:2'], ['x:1'], []), asked)  # fewer on a slow machine
    stub.close()


def info_ends_in_the_time_out():
    """Returns False where the machine is so slow that this cannot be judged. The server is
    discovered after 3 s of 5, and an acknowledgement, which info waits for to learn of
    cursors, never comes: 8 s at least where each of the two has 5 s."""
    stub = Stub({'subscriptions/listen': None}, capabilities={
        'resources': {'subscribe': True, 'listChanged': True}})
    stub.streams = {'server/discover': trickle(stub, lambda _: 3),
                    'subscriptions/listen': trickle(stub, lambda _: 1000)}
    began = time.monotonic()
    run = Run(['info', stub.url, '--timeout', '5s'])
    code = run.process.wait(tap.WAIT)
    took = time.monotonic() - began
    stub.close()
    if took >= 8 or not stub.asked('subscriptions/listen'):
        return False
    tap.same(code, 0, f'exit code, after {took:.1f} s: {run.said()}')
    tap.check('stub 1\n' in run.said()[0], run.said())  # what is known is printed
    return True


def the_time_out_is_a_total_of_what_info_asks():
    tap.check(any(info_ends_in_the_time_out() for _ in range(4)), 'it takes 8 s each time')


def a_call_that_takes_long_shows_its_progress():
    """On a terminal only; what is shown is taken away again."""
    ended = threading.Event()

    def call(handler, body):
        token = body['params']['_meta'].get('progressToken')
        begin_events(handler)

        def say(message):
            handler.wfile.write(f'data: {json.dumps({"jsonrpc": "2.0", **message})}\n\n'.encode())
        if token is not None:
            say({'method': 'notifications/progress', 'params': {
                'progressToken': token, 'progress': 2, 'total': 5, 'message': 'so\x1b[2Jfar'}})
            ended.wait(tap.WAIT)
        say({'id': body['id'], 'result': {'resultType': 'complete', 'content': [
            {'type': 'text', 'text': 'done'}]}})
    stub = Stub({'tools/list': {'tools': [{'name': 't', 'inputSchema': {'type': 'object'}}]}})
    stub.streams['tools/call'] = call
    ours, theirs = pty.openpty()
    with subprocess.Popen([*MORTAL, tidings, 'call', stub.url, 't'], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=theirs) as process:
        os.close(theirs)
        shown = b''
        while b'far' not in shown:
            shown += os.read(ours, 4096)
        tap.check(b't: ' in shown and b' s, 40 %, so^[[2Jfar' in shown, shown)
        ended.set()
        tap.check(process.stdout.read() == b'done\n', 'the result is not printed')
        tap.check(process.wait(tap.WAIT) == 0, 'it failed')
    os.close(ours)
    run = Run(['call', stub.url, 't'])
    run.ends(0)
    tap.check(run.said() == ['done\n', ''], run.said())
    stub.close()


def an_interrupted_call_takes_its_progress_away():
    ended = threading.Event()
    stub = Stub({'tools/list': {'tools': [{'name': 't', 'inputSchema': {'type': 'object'}}]}})
    stub.streams['tools/call'] = lambda handler, body: ended.wait(tap.WAIT)
    ours, theirs = pty.openpty()
    with subprocess.Popen([tidings, 'call', stub.url, 't'], stdin=subprocess.DEVNULL,
                          stdout=subprocess.DEVNULL, stderr=theirs) as process:
        shown = b''
        while b't: 1 s' not in shown:
            shown += os.read(ours, 4096)
        process.send_signal(signal.SIGINT)
        tap.same(process.wait(tap.WAIT), -signal.SIGINT, 'how it ended')
        os.write(theirs, b'.')  # so that there is something to read
        rest = b''
        while not rest.endswith(b'.'):
            rest += os.read(ours, 4096)
        tap.check(rest.endswith(b'\r\x1b[K.'), rest)
    os.close(theirs)
    os.close(ours)
    ended.set()
    stub.close()


def flood(count, out, **options):
    """A server that tells of `count` resources, all different, to a watch whose commands
    never end. Returns both once everything was told."""
    def tell(stream):
        for i in range(count):
            params = {name: make(i) for name, make in options.items()}
            yield notice('resources/updated', stream, **{'uri': f'x:{i}', **params})
    teller = Teller(tell, {'resources/read':
                           lambda params: {'contents': [{'uri': params['uri'], 'text': 't'}]}})
    run = Run(['watch', '--json', '--exec', 'sleep 1000', teller.url, 'x:{n}'],
              out=out)
    tap.until(lambda: teller.told == count, 'the server cannot tell')
    return teller, run


def what_waits_for_a_command_is_bounded_in_bytes():
    teller, run = flood(10000, subprocess.DEVNULL, metadata=lambda _: {'long': 'y' * 16384})
    with open(f'/proc/{run.process.pid}/status', encoding='ascii') as file:
        most = next(int(line.split()[1]) for line in file if line.startswith('VmHWM'))
    tap.check(most < 130 << 10, f'{most >> 10} MiB for 160 MiB of metadata')
    run.ends(0, signal.SIGINT)
    teller.close()


def changes_that_are_dropped_are_counted():
    with subprocess.Popen([*MORTAL, 'grep', '--line-buffered', '"dropped"'],
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE) as grep:
        teller, run = flood(24000, grep.stdin, uri=lambda i: f'x:{i:08000}')
        grep.stdin.close()
        line = json.loads(grep.stdout.readline())
        tap.check(line['event'] == 'dropped' and 0 < line['count'] < 24000, line)
        run.ends(0, signal.SIGINT)
    teller.close()


TESTS = [
    (a_signal_ends_the_program_as_well, 'ls', 'SIGINT'),
    (a_signal_ends_the_program_as_well, 'read x:1', 'SIGTERM'),
    (a_signal_ends_the_program_as_well, 'call t', 'SIGINT'),
    (a_signal_ends_the_program_as_well, 'watch', 'SIGINT'),
    (a_signal_ends_the_program_as_well, 'watch', 'SIGHUP'),
    (a_reader_that_does_not_read_keeps_nobody,),
    (a_server_that_never_stops_sending_can_be_left,),
    (a_list_that_always_changes_is_asked_for_now_and_then,),
    (json_on_a_terminal_is_ascii,),
    (a_variable_that_is_too_long_is_not_an_old_one,),
    (a_schema_that_refers_to_itself_is_called_all_the_same,),
    (an_interrupt_ends_the_walk_through_a_schema,),
    (an_endless_list_ends_with_the_time_out, 'ls'),
    (an_endless_list_ends_with_the_time_out, 'call t'),
    (an_endless_list_ends_with_the_time_out, 'prompt p'),
    (an_endless_list_ends_with_the_time_out, 'watch'),
    (the_time_out_is_a_total,),
    (the_time_out_is_a_total_of_reads_that_trickle,),
    (the_time_out_is_a_total_of_what_info_asks,),
    (a_call_that_takes_long_shows_its_progress,),
    (an_interrupted_call_takes_its_progress_away,),
    (what_waits_for_a_command_is_bounded_in_bytes,),
    (changes_that_are_dropped_are_counted,),
]


def kill_all():
    while running:
        running.pop().kill()


def main():
    global tidings, work
    (tidings,), chosen = tap.arguments('TIDINGS')
    atexit.register(kill_all)
    with tempfile.TemporaryDirectory() as work:
        tap.run_all(TESTS, chosen, after=lambda passed: kill_all())


if __name__ == '__main__':
    main()

# SPDX-License-Identifier: MIT
"""Standard input and output in the hands of somebody careless."""
import json
import random
import threading
import time

from lib import tap
from lib.pipe import Pipe
from lib.server import bounded
from lib.wire import message, modern_message, updated

MIB = 1024 * 1024
HELLO = message('initialize', {'protocolVersion': '2025-11-25', 'capabilities': {},
                               'clientInfo': {'name': 'hostile', 'version': '1'}}, 'hello')
DISCOVER = modern_message('server/discover', id='ping')


def tool(name, id, **arguments):
    return modern_message('tools/call', {'name': name, 'arguments': arguments}, id)


def with_pipe(function, *options):
    def whole():
        pipe = Pipe(*options)
        try:
            function(pipe)
            if not pipe.process.stdin.closed:
                pipe.end_input()
            pipe.stop()
        finally:
            pipe.kill()
    return whole


def still_fine(pipe):
    pipe.send(DISCOVER)
    tap.check('result' in pipe.answer('ping'), 'it is served')


def noise(pipe):
    """Every line gets an error without an id, and nothing else happens."""
    chance = random.Random(42)
    for _ in range(300):
        line = chance.randbytes(chance.randrange(1, 3000)).replace(b'\n', b'')
        line = line.strip(b' \r\t') or b'x'
        pipe.write(line + b'\n')
        code = pipe.line()['error']['code']
        tap.check(code in (-32700, -32600), f'code {code} for {line[:60]!r}')
    still_fine(pipe)


def long_line(pipe):
    """10 MiB without a line break: one error; what follows is served."""
    def attack():
        tap.same(pipe.write(b'x' * (10 * MIB)), 10 * MIB, 'bytes taken')
        pipe.write(b'\n')
        tap.same(pipe.line()['error']['code'], -32600, 'code')
        still_fine(pipe)
    still_fine(pipe)
    bounded(pipe, 12, attack)


def endless_line(pipe):
    """100 MiB of one line cost no more than 4."""
    def attack():
        tap.same(pipe.write(b'[' * (100 * MIB), 2 * tap.WAIT), 100 * MIB, 'bytes taken')
        tap.same(pipe.line()['error']['code'], -32600, 'code')
        pipe.write(b'\n')
        still_fine(pipe)
    still_fine(pipe)
    bounded(pipe, 12, attack)


def empty_lines(pipe):
    pipe.write(b'\n\r\n\n' * 100000)
    still_fine(pipe)
    tap.same(pipe.data, b'', 'said')


def partial_lines(pipe):
    """However the bytes are cut."""
    data = b''.join(json.dumps(modern_message('server/discover', id=i)).encode()
                    + (b'\r\n' if i % 2 else b'\n') for i in range(20))
    chance = random.Random(5)
    while data:
        count = chance.randrange(1, 40)
        pipe.write(data[:count])
        data = data[count:]
    for i in range(20):
        tap.check('result' in pipe.answer(i), 'result')


def listen_message(id):
    return modern_message('subscriptions/listen',
                          {'notifications': {'resourceSubscriptions': ['live://a']}}, id)


def blocked_output(pipe):
    """Nobody reads while thousands of updates are published over HTTP: they merge; then
    the newest arrives, on the modern stream and in the session."""
    pipe.send(HELLO)
    pipe.answer('hello')
    pipe.send(message('notifications/initialized', None, None),
              message('resources/subscribe', {'uri': 'live://a'}, 'sub'))
    pipe.answer('sub')
    pipe.send(listen_message('stream'))
    pipe.line()

    def attack():
        for i in range(30):
            pipe.publish('live://a', metadata={'text': 'm' * 15000, 'round': i}, count=100)
    bounded(pipe, 8, attack)

    newest, seen, deadline = set(), 0, time.monotonic() + tap.WAIT
    while len(newest) < 2 and time.monotonic() < deadline:
        found = pipe.line()
        if updated('live://a')(found):
            seen += 1
            if found['params']['metadata']['round'] == 29 and found['params']['metadata']['n'] == 100:
                meta = found['params']['_meta']
                newest.add('modern' if 'io.modelcontextprotocol/subscriptionId' in meta else 'legacy')
    tap.same(newest, {'modern', 'legacy'}, 'who knows the newest')
    tap.note(f'{seen} of 6000 updates were written')
    tap.check(seen < 1000, f'{seen} updates: nothing was merged')
    still_fine(pipe)


def blocked_requests(pipe):
    """Nobody reads while requests pour in: at some point they are not read any more; when
    the answers are read, all come."""
    line = json.dumps(modern_message('tools/list', id=1)).encode() + b'\n'

    def attack():
        return pipe.write(line * 40000, 4)
    still_fine(pipe)
    sent = bounded(pipe, 8, attack)
    tap.check(sent < len(line) * 40000, 'requests were taken although nobody reads the answers')
    pipe.data = b''
    whole = sent // len(line)
    if sent % len(line):
        finish = threading.Thread(target=pipe.write, args=(line[sent % len(line):],))
        finish.start()
        whole += 1
    for _ in range(whole):
        tap.same(pipe.line()['id'], 1, 'id')
    still_fine(pipe)


def talkative(pipe):
    """A tool that logs 50 MB while nobody reads: messages are left out, the answer is not."""
    def attack():
        pipe.send(modern_message('tools/call', {'name': 'log', 'arguments': {
            'text': 'x' * 1000, 'count': 50000}}, 'log', {'io.modelcontextprotocol/logLevel': 'debug'}))
        found = pipe.line()
        tap.same(found.get('method'), 'notifications/message', 'method')
    still_fine(pipe)
    bounded(pipe, 8, attack)
    tap.check('result' in pipe.answer('log'), 'it is answered')
    still_fine(pipe)


def many_batches(pipe):
    """Batches of 10,000 in 2025-03-26."""
    old = dict(HELLO, params=dict(HELLO['params'], protocolVersion='2025-03-26'))
    pipe.send(old)
    pipe.answer('hello')

    def attack():
        pipe.send([message('tools/list', {}, i) for i in range(10000)])
        found = pipe.line()
        tap.check(isinstance(found, list) or found['error']['code'] == -32600, str(found)[:200])
    bounded(pipe, 32, attack)
    pipe.send([message('ping', {}, i) for i in range(100)])
    tap.same(len(pipe.line()), 100, 'answers')


def too_many_streams(pipe):
    """Streams beyond the limit are refused; the same id twice as well."""
    for i in range(40):
        pipe.send(listen_message(i))
    found = [pipe.line() for _ in range(40)]
    tap.same(sum('error' in m for m in found), 24, 'refused')
    pipe.send(listen_message(0))
    tap.same(pipe.line()['error']['code'], -32600, 'code')


def end_of_input(pipe):
    """The answer to a slow call still comes, then the process ends."""
    pipe.send(tool('slow', 'late', ms=500))
    still_fine(pipe)
    pipe.end_input()
    found = pipe.rest()
    tap.check(any(m.get('id') == 'late' and 'result' in m for m in found), f'{found}')
    pipe.wait_exit()


def end_of_input_and_held(pipe):
    """A call that is never answered does not keep the process: it ends in time."""
    pipe.send(tool('hold', 'never', key='never'), listen_message('s'))
    pipe.line()
    pipe.end_input()
    pipe.rest()
    pipe.wait_exit()


def end_in_a_line(pipe):
    """Input that ends in the middle of a line."""
    pipe.write(json.dumps(DISCOVER).encode()[:-5])
    pipe.end_input()
    pipe.rest()
    pipe.wait_exit()


def end_while_blocked(pipe):
    """Input ends while nobody reads the output: it gives up in time."""
    line = json.dumps(modern_message('tools/list', id=1)).encode() + b'\n'
    pipe.write(line * 100)
    pipe.end_input()
    pipe.wait_exit()


def term_while_blocked(pipe):
    """So much waits that the end of input is not seen any more; SIGTERM is."""
    still_fine(pipe)  # it has begun, and knows what to do with a signal
    line = json.dumps(modern_message('tools/list', id=1)).encode() + b'\n'
    pipe.write(line * 4000, 2)
    pipe.process.terminate()
    pipe.wait_exit()


def output_closed(pipe):
    """Whoever closes our output has gone."""
    pipe.process.stdout.close()
    pipe.send(DISCOVER)
    pipe.wait_exit()


TESTS = [
    ('noise', noise, []),
    ('a line of 10 MiB', long_line, []),
    ('a line without end', endless_line, []),
    ('empty lines', empty_lines, []),
    ('lines in small pieces', partial_lines, []),
    ('output blocked while updates are published', blocked_output, None),
    ('output blocked while requests pour in', blocked_requests, []),
    ('a tool that talks too much', talkative, []),
    ('batches of 10,000', many_batches, []),
    ('more streams than a pipe may have', too_many_streams, []),
    ('input ends while a slow call is under way', end_of_input, ['--stop-timeout-ms', 600000]),
    ('input ends while a call is never answered', end_of_input_and_held, ['--stop-timeout-ms', 1000]),
    ('input ends in the middle of a line', end_in_a_line, []),
    ('input ends while the output is blocked', end_while_blocked, ['--stop-timeout-ms', 1000]),
    ('SIGTERM while the output is blocked', term_while_blocked, ['--stop-timeout-ms', 1000]),
    ('output is closed', output_closed, []),
]


def with_http(function):
    def whole():
        pipe = Pipe(http=True)
        try:
            function(pipe)
            pipe.end_input()
            pipe.stop()
        finally:
            pipe.kill()
    return whole


def main():
    for name, function, options in TESTS:
        whole = with_http(function) if options is None else with_pipe(function, *options)
        tap.run(f'pipes: {name}', whole)

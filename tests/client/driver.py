# SPDX-License-Identifier: MIT
"""The client under test: the program `driver`, steered by lines of JSON (see driver.h)."""
import atexit
import itertools
import json
import os
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, '..', 'hostile'))

from lib import tap  # noqa: E402

PROGRAM = os.environ.get('TDG_DRIVER') or os.path.join(
    HERE, '..', '..', 'build', 'tests', 'client', 'driver')


class Driver:
    """One process, with any number of clients. Ending badly is an error."""

    def __init__(self, prefix=(), env=None):
        self.errors = tempfile.TemporaryFile()
        self.process = subprocess.Popen(
            [*prefix, PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=self.errors, env=env)
        atexit.register(self.kill)  # whatever happens to us
        self.changed = threading.Condition()
        self.answers, self.clients, self.ended = {}, {}, False
        self.ids = itertools.count(1)
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        for text in self.process.stdout:
            line = json.loads(text)
            with self.changed:
                if 'id' in line:
                    self.answers[line['id']] = line
                else:
                    client = self.clients.get(line.get('client', ''))
                    if client is not None:
                        client.take(line)
                self.changed.notify_all()
        with self.changed:
            self.ended = True
            self.changed.notify_all()

    def client(self, name=''):
        return self.clients.setdefault(name, Client(self, name))

    def start(self, do, **fields):
        """Asks for something. Returns what answer() takes."""
        line = {'id': next(self.ids), 'do': do, **fields}
        with self.changed:  # one line at a time
            self.process.stdin.write(json.dumps(line).encode() + b'\n')
            self.process.stdin.flush()
        return line['id']

    def answer(self, id, seconds=tap.WAIT):
        self.wait(lambda: id in self.answers, f'an answer to request {id}', seconds)
        return self.answers.pop(id)

    def wait(self, condition, what, seconds=tap.WAIT):
        """Until the condition, which is looked at whenever the client has said something."""
        deadline = time.monotonic() + seconds
        with self.changed:
            while True:
                value = condition()
                if value:
                    return value
                tap.check(not self.ended, f'the driver has ended: {self.output()[-6000:]}')
                left = deadline - time.monotonic()
                tap.check(left > 0, f'after {seconds} s: {what}')
                self.changed.wait(min(left, 1.0))

    def output(self):
        return tap.written(self.errors)

    def memory(self):
        with open(f'/proc/{self.process.pid}/status', encoding='ascii') as file:
            for line in file:
                if line.startswith('VmHWM:'):
                    return int(line.split()[1]) * 1024
        return 0

    def stop(self):
        """By the end of its input; it has to end well."""
        self.process.stdin.close()
        try:
            code = self.process.wait(tap.WAIT)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError('the driver does not end') from None
        self.reader.join(tap.WAIT)
        output = self.output()
        self.errors.close()
        tap.check(code == 0, f'the driver ended with {code}: {output[-6000:]}')
        tap.check('Sanitizer' not in output and 'runtime error' not in output, output[-6000:])

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


class Client:
    """One client in it. Events are looked for in their order: what was found, and what came
    before it, is not found again."""

    def __init__(self, driver, name):
        self.driver, self.name = driver, name
        self.events, self.logs, self.inputs = [], [], []
        self.mark = 0

    def take(self, line):
        if 'event' in line:
            self.events.append(line)
        elif 'log' in line:
            self.logs.append(line)
        else:
            self.inputs.append(line)

    def start(self, do, **fields):
        return self.driver.start(do, client=self.name, **fields)

    def ask(self, do, seconds=tap.WAIT, **fields):
        return self.driver.answer(self.start(do, **fields), seconds)

    def does(self, do, seconds=tap.WAIT, **fields):
        """The same, and it has to go well."""
        answer = self.ask(do, seconds, **fields)
        tap.check(answer['code'] == 'TDG_OK', f'{do}: {answer}; {self.story()}')
        return answer

    def fails(self, do, *codes, **fields):
        """It has to fail, with one of these codes."""
        answer = self.ask(do, **fields)
        tap.check(answer['code'] in codes,
                  f'{do}: wanted {codes}, got {answer}; {self.story()}')
        return answer

    def connect(self, url, **opts):
        return self.does('connect', url=url, **opts)

    def _find(self, kind, fields):
        for i in range(self.mark, len(self.events)):
            event = self.events[i]
            if event['event'] in kind.split('|') and all(
                    value(event.get(name)) if callable(value) else event.get(name) == value
                    for name, value in fields.items()):
                return i
        return None

    def event(self, kind, seconds=tap.WAIT, **fields):
        """The next event of that kind (or of several: 'a|b') with those fields (values, or
        functions of them)."""
        try:
            index = self.driver.wait(
                lambda: None if self._find(kind, fields) is None else [self._find(kind, fields)],
                f'{kind} {fields}', seconds)[0]
        except AssertionError as error:
            raise AssertionError(f'{error}; {self.story()}') from None
        self.mark = index + 1
        return self.events[index]

    def updated(self, uri, **fields):
        return self.event('updated', uri=uri, **fields)

    def returns(self):
        """Updates stop and come again: DOWN and UP. Where nobody has fetched the first in time
        there is one UP that stands for both."""
        event = self.event('down|up')
        if event['event'] == 'down':
            self.event('up')
        else:
            tap.check(event.get('merged', 0) >= 1, f'it was never down: {event}')

    def doubted(self, uri):
        """After a gap of which the server knows nothing: an update with `maybe`. Where nobody
        has fetched a certain one from before the gap in time, one without stands for both."""
        event = self.updated(uri)
        while not event.get('maybe') and not event.get('merged'):
            event = self.updated(uri)

    def none(self, kind, since=None, **fields):
        """No such event has come since the last that was looked for."""
        if since is not None:
            self.mark = since
        index = self._find(kind, fields)
        tap.check(index is None,
                  f'unexpected: {self.events[index or 0]}' if index is not None else '')

    def now(self):
        """Where the events are now, for mark."""
        with self.driver.changed:
            self.mark = len(self.events)
            return self.mark

    def story(self):
        """What happened to it, for who has to understand a failure."""
        lines = [json.dumps(event) for event in self.events[-15:]]
        lines += [f'{log["log"]}: {log["line"]}' for log in self.logs[-25:]]
        return 'what it said:\n' + '\n'.join(lines)

# SPDX-License-Identifier: MIT
"""The server under test: tests/interop/fixture, in a process of its own."""
import atexit
import os
import re
import signal
import subprocess
import tempfile
import time

from . import tap
from .wire import Conn, call

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAM = os.environ.get('TDG_FIXTURE') or os.path.join(
    HERE, '..', '..', '..', 'build', 'tests', 'interop', 'fixture')
MIB = 1024 * 1024


def sanitizer():
    """Which sanitizer the program was built with, or ''."""
    with open(PROGRAM, 'rb') as file:
        data = file.read()
    for name in ('asan', 'tsan'):
        if f'__{name}_init'.encode() in data:
            return name
    return ''


SANITIZER = sanitizer()
# How much more work things are with it.
SLOWNESS = {'': 1, 'asan': 3, 'tsan': 5}[SANITIZER]


class Server:
    """Serves on a free port. What it prints is kept; ending badly is an error."""

    def __init__(self, *options, workers=2, stdio=False, http=True):
        self.errors = tempfile.TemporaryFile()
        command = [PROGRAM, '--workers', str(workers)]
        command += ['--http', '0'] if http else []
        command += ['--stdio'] if stdio else []
        self.process = subprocess.Popen(
            command + [str(option) for option in options], stderr=self.errors,
            stdin=subprocess.PIPE if stdio else subprocess.DEVNULL,
            stdout=subprocess.PIPE if stdio else subprocess.DEVNULL)
        self.pid = self.process.pid
        atexit.register(self.kill)  # whatever happens to us
        self.port = self._read_port() if http else None
        self.control = None

    def _read_port(self):
        def found():
            tap.check(self.process.poll() is None, f'it ended at once: {self.output()}')
            return re.search(r'http://127\.0\.0\.1:(\d+)/', self.output())
        return int(tap.until(found, 'the fixture listens')[1])

    def output(self):
        return tap.written(self.errors)

    # ---- Looking inside

    def alive(self):
        code = self.process.poll()
        tap.check(code is None, f'the server ended with {code}: {self.output()[-4000:]}')

    def _status(self, name):
        with open(f'/proc/{self.pid}/status', encoding='ascii') as file:
            return int(re.search(name + r':\s+(\d+) kB', file.read())[1]) * 1024

    def memory(self):
        return self._status('VmRSS')

    def begin_peak(self):
        """From here on peak() counts."""
        try:
            with open(f'/proc/{self.pid}/clear_refs', 'w', encoding='ascii') as file:
                file.write('5')
        except OSError:
            pass  # then the peak is that of the whole life
        return self.memory()

    def peak(self):
        return self._status('VmHWM')

    def labour(self):
        """Seconds of processor time that it has used: unlike time that has passed, no matter of
        what else the machine does."""
        with open(f'/proc/{self.pid}/stat', encoding='ascii') as file:
            fields = file.read().rpartition(')')[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf('SC_CLK_TCK')

    def files(self):
        return len(os.listdir(f'/proc/{self.pid}/fd'))

    def tool(self, name, **arguments):
        """Calls a tool of the fixture on a connection kept for that."""
        for attempt in (1, 2):
            if self.control is None:
                self.control = Conn(self.port)
            try:
                return self.control.result(call(name, **arguments))
            except AssertionError:
                self.control.close()
                self.control = None
                self.alive()
                if attempt == 2:
                    raise

    def counters(self):
        return self.tool('counters')['structuredContent']

    def publish(self, uri, **arguments):
        result = self.tool('publish', uri=uri, **arguments)
        tap.check(not result.get('isError'), f'publish: {result}')

    def wait_counters(self, what, condition):
        last = {}

        def holds():
            last.update(self.counters())
            return condition(last)
        try:
            tap.until(holds, what)
        except AssertionError as error:
            raise AssertionError(f'{error}; counters: {last}') from None
        return last

    def wait_empty(self, sessions=True):
        """Nothing stays behind, but perhaps sessions, each of which has a stream."""
        names = ['subscriptions', 'pending'] + (['sessions', 'streams'] if sessions else [])
        return self.wait_counters(
            f'no {", ".join(names)} left',
            lambda c: all(c[name] == 0 for name in names))

    # ---- The end

    def stop(self):
        """By SIGTERM, or as it has ended by itself; it has to end well."""
        if self.control is not None:
            self.control.close()
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(tap.WAIT)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError('the server does not stop') from None
        finally:
            output = self.output()
            self.errors.close()
            for pipe in (self.process.stdin, self.process.stdout):
                if pipe is not None:
                    pipe.close()
        tap.check(code == 0, f'the server ended with {code}: {output[-6000:]}')
        tap.check('Sanitizer' not in output and 'runtime error' not in output, output[-6000:])

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


def bounded(server, mebibytes, action):
    """Runs action and checks how much memory the server took for it at most. Sanitizers
    keep what is freed, so there it says nothing."""
    before = server.begin_peak()
    result = action()
    grown = (server.peak() - before) / MIB
    tap.note(f'peak memory: {before / MIB:.1f} MiB {grown:+.1f}')
    if not SANITIZER:
        tap.check(grown <= mebibytes, f'memory grew by {grown:.1f} MiB, allowed {mebibytes}')
    return result


def laborious(server, seconds, action):
    """Runs action and checks how much work the server had with it."""
    before = server.labour()
    result = action()
    took = server.labour() - before
    tap.note(f'{took:.2f} s of work')
    tap.check(took < seconds * SLOWNESS, f'it was {took:.1f} s of work')
    return result


def elapsed(began):
    return time.monotonic() - began

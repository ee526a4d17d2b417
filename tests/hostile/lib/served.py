# SPDX-License-Identifier: MIT
"""`tidings serve` in a process of its own, with what a test asks it."""
import atexit
import json
import os
import re
import signal
import subprocess
import tempfile
import urllib.parse

from . import tap
from .mortal import MORTAL
from .wire import Conn, modern


class Served:
    """Serves on a free port. `arguments` are those of `tidings serve`."""

    def __init__(self, program, *arguments, env=None, cwd=None):
        self.errors = tempfile.TemporaryFile()
        self.process = subprocess.Popen(
            [*MORTAL, program, 'serve', '--json', '--listen', 'http://127.0.0.1:0', *arguments],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=self.errors,
            env={**os.environ, **(env or {})}, cwd=cwd)
        self.pid = self.process.pid
        atexit.register(self.kill)  # whatever happens to us
        self.port = None

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if kind is None:
            self.stop()
        else:
            self.kill()

    def output(self):
        return tap.written(self.errors)

    def log(self):
        """The records of its log."""
        return [json.loads(line) for line in self.output().splitlines() if line.startswith('{')]

    def wait_serving(self, seconds=tap.WAIT):
        def found():
            tap.check(self.process.poll() is None, f'it ended at once: {self.output()}')
            return [record for record in self.log() if record.get('urls')]
        url = tap.until(found, f'it serves; it said: {self.output()}', seconds)[0]['urls'][0]
        self.port = urllib.parse.urlsplit(url).port
        return self

    # ---- Asking

    def result(self, method, **params):
        with Conn(self.port) as conn:
            return conn.result(modern(method, params))

    def pages(self, method='resources/list', key='resources'):
        """All entries of a list, and how many pages they came in."""
        entries, params, pages = [], {}, 0
        with Conn(self.port) as conn:
            while True:
                result = conn.result(modern(method, params))
                entries += result[key]
                pages += 1
                if 'nextCursor' not in result:
                    return entries, pages
                params = {'cursor': result['nextCursor']}

    # ---- Looking inside

    def memory(self, name='VmRSS'):
        with open(f'/proc/{self.pid}/status', encoding='ascii') as file:
            return int(re.search(name + r':\s+(\d+) kB', file.read())[1]) * 1024

    def labour(self):
        """Seconds of processor time that it has used."""
        with open(f'/proc/{self.pid}/stat', encoding='ascii') as file:
            fields = file.read().rpartition(')')[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf('SC_CLK_TCK')

    def watches(self):
        """The inotify watches that it holds."""
        count = 0
        folder = f'/proc/{self.pid}/fdinfo'
        for name in os.listdir(folder):
            try:
                with open(os.path.join(folder, name), encoding='ascii') as file:
                    count += sum(line.startswith('inotify ') for line in file)
            except FileNotFoundError:
                pass  # closed meanwhile
        return count

    # ---- The end

    def stop(self):
        """By SIGTERM; it has to end well."""
        self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(tap.WAIT)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f'it does not stop: {self.output()[-4000:]}') from None
        output = self.output()
        self.errors.close()
        tap.check(code == 0, f'it ended with {code}: {output[-6000:]}')
        tap.check('Sanitizer' not in output and 'runtime error' not in output, output[-6000:])

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()

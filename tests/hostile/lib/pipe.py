# SPDX-License-Identifier: MIT
"""The server as the child of a client: lines on its standard input and output."""
import json
import os
import select
import time

from . import tap
from .server import Server
from .tap import WAIT
from .wire import Gone


class Pipe(Server):
    def __init__(self, *options, http=False):
        super().__init__('--immediate', '--rate-limit', 0, *options, workers=1, stdio=True,
                         http=http)
        self.input = self.process.stdin.fileno()
        self.out = self.process.stdout.fileno()
        os.set_blocking(self.input, False)
        self.data = b''
        self.ends_itself = False

    def stop(self):
        if self.ends_itself:
            self.wait_exit()
        super().stop()

    def write(self, data, seconds=WAIT):
        """Writes all of it within the time; returns how much the server took."""
        sent, deadline = 0, time.monotonic() + seconds
        while sent < len(data) and time.monotonic() < deadline:
            _, ready, _ = select.select([], [self.input], [], 0.1)
            try:
                sent += os.write(self.input, data[sent:sent + 65536]) if ready else 0
            except BlockingIOError:
                pass
            except BrokenPipeError:
                break
        return sent

    def send(self, *messages):
        data = b''.join(json.dumps(m).encode() + b'\n' for m in messages)
        tap.same(self.write(data), len(data), 'bytes taken')

    def line(self, seconds=WAIT):
        """The next line; everything on standard output has to be a message."""
        deadline = time.monotonic() + seconds
        while b'\n' not in self.data:
            left = deadline - time.monotonic()
            ready, _, _ = select.select([self.out], [], [], max(0.0, left))
            tap.check(ready, f'no line for {seconds:.1f} s; so far {self.data[:200]!r}')
            data = os.read(self.out, 1 << 20)
            if not data:
                raise Gone('the output has ended')
            self.data += data
        line, _, self.data = self.data.partition(b'\n')
        return json.loads(line)

    def answer(self, id, seconds=WAIT):
        deadline = time.monotonic() + seconds
        while True:
            found = self.line(deadline - time.monotonic())
            if found.get('id') == id and 'method' not in found:
                return found

    def rest(self, seconds=WAIT):
        """All lines up to the end of the output."""
        found, deadline = [], time.monotonic() + seconds
        try:
            while True:
                found.append(self.line(deadline - time.monotonic()))
        except Gone:
            return found

    def end_input(self):
        """After that the process has to end by itself."""
        self.process.stdin.close()
        self.ends_itself = True

    def wait_exit(self, seconds=WAIT):
        tap.same(self.process.wait(seconds), 0, 'exit code')

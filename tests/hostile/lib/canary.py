# SPDX-License-Identifier: MIT
"""An honest client that goes on working while others misbehave: it publishes, is answered, and
gets each update on a modern stream and on a legacy one. It dies of whatever goes wrong."""
import threading
import time

from . import tap
from .wire import Conn, Session, call, modern, open_listen, updated

URI = 'live://z'


class Canary:
    def __init__(self, server, pause=0.03):
        self.server, self.pause = server, pause
        self.rounds, self.slowest, self.error = 0, 0.0, None
        self.asking = Conn(server.port)
        # At once: who says nothing for as long as a request may take is sent away.
        self.asking.result(modern('server/discover'))
        self.modern = open_listen(server.port, [URI])
        self.session = Session(server.port)
        self.legacy = self.session.stream()
        self.session.subscribe(URI)
        self.ending = threading.Event()
        self.thread = threading.Thread(target=self._live, daemon=True)
        self.thread.start()

    def _round(self, number):
        began = time.monotonic()
        result = self.asking.result(call('publish', uri=URI, metadata={'canary': number}))
        tap.check(not result.get('isError'), f'publish: {result}')
        for stream in (self.modern, self.legacy):
            while True:
                got = stream.event(wanted=updated(URI))['params']['metadata'].get('canary', 0)
                if got == number:
                    break
                tap.check(got < number, f'update {got} before it was published')
        self.slowest = max(self.slowest, time.monotonic() - began)

    def _live(self):
        try:
            while not self.ending.wait(self.pause):
                self.rounds += 1
                self._round(self.rounds)
        except Exception as error:
            self.error = f'round {self.rounds}: {type(error).__name__}: {error}'

    def check(self, rounds=1):
        """Still alive, and some rounds further than before."""
        wanted = self.rounds + rounds
        tap.until(lambda: self.error or self.rounds >= wanted, 'the canary goes on', 2 * tap.WAIT)
        tap.check(self.error is None, f'the canary died: {self.error}')

    def end(self):
        self.ending.set()
        self.thread.join(2 * tap.WAIT)
        with Conn(self.server.port) as conn:
            self.session.delete(conn)
        for conn in (self.asking, self.modern, self.legacy, self.session.conn):
            conn.close()
        tap.note(f'canary: {self.rounds} rounds, the slowest took {self.slowest * 1000:.0f} ms')
        tap.check(self.error is None, f'the canary died: {self.error}')


class Arena:
    """A server with a canary, for a group of tests. After each test both have to live."""

    def __init__(self, *options, workers=2):
        from .server import Server
        self.server = Server('--immediate', '--rate-limit', 0, *options, workers=workers)
        self.port = self.server.port
        self.canary = Canary(self.server)

    def test(self, name, function, *args):
        def whole():
            try:
                function(*args)
            except Exception:
                time.sleep(0.2)  # a server that crashes takes its time
                self.server.alive()
                raise
            self.server.alive()
            self.canary.check()
        tap.run(name, whole)

    def end(self, group, sessions=True):
        """Not all `sessions` end where a test has left them to their fate."""
        tap.run(f'{group}: nothing stays behind and the server ends well', self._end, sessions)

    def _end(self, sessions):
        try:
            self.server.alive()
            self.canary.end()
            self.server.wait_empty(sessions)
            self.server.stop()
        finally:
            self.server.kill()

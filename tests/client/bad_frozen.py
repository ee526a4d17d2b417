# SPDX-License-Identifier: MIT
"""Connections that freeze: both sides think that they are open, and nothing passes. New ones work."""
import contextlib
import os
import re
import socket
import subprocess
import tempfile
import threading

from bad_server import Server
from driver import HERE, tap
from scene import A, FAST, Driver

PROGRAM = os.environ.get('TDG_PROGRAM') or os.path.join(HERE, '..', '..', 'build', 'tidings')
BUSY = 20  # changes before it freezes


class Forwarder:
    """Between the client and a server. What is frozen is neither read nor closed any more."""

    def __init__(self, port):
        self.port, self.links, self.lock = port, [], threading.Lock()
        self.listener = socket.create_server(('127.0.0.1', 0))
        self.url = f'http://127.0.0.1:{self.listener.getsockname()[1]}/mcp'
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                near, _ = self.listener.accept()
                far = socket.create_connection(('127.0.0.1', self.port))
                link = {'socks': (near, far), 'frozen': False}
                with self.lock:
                    self.links.append(link)
                for pair in ((near, far), (far, near)):
                    threading.Thread(target=self.pump, args=(link, *pair), daemon=True).start()

    @staticmethod
    def pump(link, source, sink):
        with contextlib.suppress(OSError):
            while True:
                data = source.recv(65536)
                if link['frozen']:
                    return
                if not data:
                    break
                sink.sendall(data)
        if not link['frozen']:
            for sock in link['socks']:
                with contextlib.suppress(OSError):
                    sock.shutdown(socket.SHUT_RDWR)

    def freeze(self):
        with self.lock:
            for link in self.links:
                link['frozen'] = True

    def close(self):
        self.listener.close()
        with self.lock:
            for link in self.links:
                for sock in link['socks']:
                    sock.close()


@contextlib.contextmanager
def watching(port, era, uri, **opts):
    """A client that is subscribed to it, and has read it."""
    way, driver = Forwarder(port), Driver()
    client = driver.client()
    try:
        client.connect(way.url, **{**FAST, 'era': era, **opts})
        client.does('subscribe', uri=uri)
        client.does('read', uri=uri)
        yield way, client
        driver.stop()
    finally:
        driver.kill()
        way.close()


@contextlib.contextmanager
def serving(folder):
    """`tidings serve`, which announces signs of life every 500 ms."""
    config = os.path.join(folder, 'tidings.yaml')
    with open(config, 'w', encoding='ascii') as file:
        file.write('server:\n  listen: "http://127.0.0.1:0"\n  keepalive: 500ms\n'
                   '  rate-limit: 0s\nresources:\n  - files: files\n    uri: frozen://{+path}\n')
    errors = tempfile.TemporaryFile()
    process = subprocess.Popen([PROGRAM, 'serve', '--config', config], stdin=subprocess.DEVNULL,
                               stdout=subprocess.DEVNULL, stderr=errors)
    try:
        yield tap.until(lambda: re.search(r'http://127\.0\.0\.1:(\d+)/mcp', tap.written(errors)),
                        'the program listens')[1]
    finally:
        process.terminate()
        process.wait(tap.WAIT)


def ours(era, busy):
    """Noticed after three intervals; the cursor makes the return exact."""
    with tempfile.TemporaryDirectory() as folder:
        os.mkdir(os.path.join(folder, 'files'))
        path = os.path.join(folder, 'files', 'a')

        def write(text):
            with open(path + '.new', 'w', encoding='ascii') as file:
                file.write(text)
            os.rename(path + '.new', path)
        write('first')
        with serving(folder) as port, watching(int(port), era, 'frozen://a') as (way, client):
            for i in range(BUSY if busy else 0):
                write(f'busy {i}')
                client.updated('frozen://a')
            way.freeze()
            write('missed')
            client.returns()
            client.updated('frozen://a', maybe=None)
            read = client.does('read', uri='frozen://a')['result']['contents'][0]['text']
            tap.same(read, 'missed', 'what is read then')
            client.now()
            write('told')
            client.updated('frozen://a')


def strange(era, busy, single=False, sse=False):
    """A stream beside it is opened; or where that is not allowed, another session is begun."""
    server = Server(era, ours=False, sse=sse)
    server.single = single
    try:
        opts = {'quiet_ms': 3000}
        with watching(server.port, era, A, **opts) as (way, client):
            for _ in range(BUSY if busy else 0):
                server.change(A)
                client.updated(A)
            way.freeze()
            server.change(A)
            client.updated(A, maybe=True if busy else None, polled=None if busy else True)
            tap.until(lambda: len(server.streams) >= 2 or None, 'another stream')
            client.now()
            server.change(A)
            client.updated(A, maybe=None)
            if single:
                tap.same(client.does('counts')['initialised'], 2, 'sessions')
    finally:
        server.close()


def main():
    for busy in (True, False):
        before = 'busy before' if busy else 'silent before'
        for era in ('modern', 'legacy'):
            tap.run(f'frozen: ours ({era}, {before})', ours, era, busy)
            tap.run(f'frozen: a stranger ({era}, {before})', strange, era, busy)
        tap.run(f'frozen: a stranger with one stream per session ({before})', strange, 'legacy',
                busy, True)
        tap.run(f'frozen: a stranger of 2024-11-05 ({before})', strange, 'legacy', busy, False,
                True)

# SPDX-License-Identifier: MIT
"""However a server fails, for good: it is tried no more often than allowed. All are tried at the
same time, for some seconds, by clients that would come back at once if they were let."""
import time

from bad_server import Server, hang_up, json_body, raw, status
from driver import Driver, tap
from scene import A, FAST, listen_kind

ALLOWED = 10  # attempts per minute
SECONDS = 12  # for which they are watched


def ends_at_once(request):
    """Opens the stream, and closes it."""
    request.conn.send(b'HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n'
                      b'Content-Length: 0\r\n\r\n')
    return True


def acknowledges_and_ends(request):
    """As a server whose proxy cuts everything off."""
    server = request.conn.server
    if request.kind == 'GET':
        return ends_at_once(request)
    from bad_server import Stream
    stream = Stream(request, {A}, None, request.id)
    stream.begin()
    stream.acknowledge([A])
    stream.complete()
    return True


WAYS = [
    ('500', '*', status(500)),
    ('503 with Retry-After: 0', '*', status(503, Retry_After=0)),
    ('404 to everything', '*', status(404)),
    ('hangs up', '*', hang_up),
    ('nonsense', '*', json_body(b'what?')),
    ('no HTTP', '*', raw(b'no\r\n\r\n')),
    ('streams that end at once', 'stream', ends_at_once),
    ('streams that are acknowledged and end', 'stream', acknowledges_and_ends),
    ('streams that are no streams', 'stream', json_body({})),
    ('500 to streams', 'stream', status(500)),
    ('redirects in a circle', '*', lambda r: r.conn.server.reply(
        r, 307, fields=[('Location', r.path)])),
]


class Storm:
    def __init__(self, driver, era, way):
        self.name, kind, action = way
        self.era, self.server = era, Server(era, True)
        self.client = driver.client(f'{era} {self.name}')
        self.client.connect(self.server.url, **{
            **FAST, 'retry_max_ms': 1, 'retry_per_minute': ALLOWED})
        self.client.does('subscribe', uri=A)
        stream = self.server.one_stream([A])
        self.before = len(self.server.requests)
        self.connections = self.server.connections
        self.began = time.monotonic()
        self.server.on(listen_kind(era) if kind == 'stream' else '*', action)
        stream.cut()

    def judge(self):
        """An attempt may be made of several requests: probe, initialize, subscribe, stream. A
        redirect is followed five times, and each may be repeated once."""
        self.client.event('down')
        tap.until(lambda: len(self.server.requests) - self.before >= 2, 'it tries again')
        requests = self.server.requests[self.before:]
        allowed = ALLOWED * (1 + int(time.monotonic() - self.began) // 60) + 1
        opened = [r for r in requests if r.kind == listen_kind(self.era)]
        factor = 6 if 'circle' in self.name else 1
        tap.note(f'{self.era}, {self.name}: {len(requests)} requests, {len(opened)} streams, '
                 f'{self.server.connections - self.connections} connections')
        tap.check(len(opened) <= allowed * factor, f'{len(opened)} streams')
        tap.check(len(requests) <= 5 * allowed * factor, f'{len(requests)} requests')


def main():
    driver = Driver()
    storms = []
    try:
        for era in ('modern', 'legacy'):
            for way in WAYS:
                tap.run(f'storms: {way[0]} ({era}) begins',
                        lambda: storms.append(Storm(driver, era, way)))
        time.sleep(SECONDS)
        for storm in storms:
            tap.run(f'storms: {storm.name} ({storm.era})', storm.judge)
        tap.run('storms: the clients end well', driver.stop)
    finally:
        driver.kill()
        for storm in storms:
            storm.server.close()

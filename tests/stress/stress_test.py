#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""stress_test.py [SECONDS]: a thousand subscribers of one resource, half of each era, and a
hundred changes per second. Everybody ends with the last state; no change is unaccounted for; the
window of 100 ms and the limit of one per second (our defaults), or what a subscriber asked for,
are respected. Writes TAP; TDG_FIXTURE names another program to test."""
import os
import sys
import threading
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'hostile'))

from lib import tap  # noqa: E402
from lib.crowd import Crowd, allow_files  # noqa: E402
from lib.server import Server  # noqa: E402
from lib.wire import Conn, Session, call, get, listen  # noqa: E402

URI = 'live://counter'
RATE = 100  # changes per second
LEGACY, MODERN, OWN = 500, 400, 100
DEFAULTS = {'batchMs': 100, 'rateLimitMs': 1000}
WISHES = {'batchMs': 50, 'rateLimitMs': 300}  # of those with a wish of their own


class Seen:
    """What one subscriber was told."""

    def __init__(self, limits):
        self.limits = limits
        self.ready = False  # acknowledged
        self.times, self.versions, self.changes = [], [], 0
        self.last = 0


def on_event(member, message, now):
    seen, method = member.seen, message.get('method', '')
    if method.endswith('subscriptions/acknowledged'):
        seen.ready = True
    elif method.endswith('resources/updated'):
        params = message['params']
        seen.times.append(now)
        seen.versions.append(params['_meta']['dev.tidings/version'])
        seen.changes += 1 + params['_meta'].get('dev.tidings/merged', 0)
        seen.last = params['metadata']['n']


def gather(crowd, port):
    """Everybody subscribes; returns the sessions, which have to be kept."""
    sessions, conn = [], Conn(port)
    for _ in range(LEGACY):
        session = Session(port, conn=conn)
        session.subscribe(URI)
        member = crowd.add(get(session.id), on_event)
        member.seen = Seen(DEFAULTS)
        member.seen.ready = True
        sessions.append(session)
    for i in range(MODERN + OWN):
        member = crowd.add(listen([URI], i, WISHES if i < OWN else None), on_event)
        member.seen = Seen(WISHES if i < OWN else DEFAULTS)
    crowd.until(lambda: all(m.seen.ready and m.status == 200 for m in crowd.members.values()),
                lambda: 'not all are acknowledged', 2 * tap.WAIT)
    return sessions


class Publisher(threading.Thread):
    """A change every 10 ms; where it is held up, it makes up for it."""

    def __init__(self, port, count):
        super().__init__(daemon=True)
        self.conn, self.count, self.error = Conn(port), count, None
        self.first = self.done = None  # times

    def run(self):
        try:
            self.first = time.monotonic()
            for i in range(self.count):
                result = self.conn.result(call('publish', uri=URI, metadata={'n': i + 1}))
                tap.check(not result.get('isError'), f'publish: {result}')
                left = self.first + (i + 1) / RATE - time.monotonic()
                if left > 0:
                    time.sleep(left)
            self.done = time.monotonic()
        except Exception as error:
            self.error = error


TICK = 0.001  # the server's clock counts whole milliseconds, so a window may lack a part of one


def judge(crowd, publisher, count):
    """The promise, from each subscriber's side. Arrival times are those of a client that may
    be late, so notifications are counted against the time in which they came; a client that is
    late sees them closer together, never more of them."""
    for number, member in enumerate(crowd.members.values()):
        seen, who = member.seen, f'subscriber {number}'
        window, limit = seen.limits['batchMs'] / 1000, seen.limits['rateLimitMs'] / 1000
        tap.same(seen.last, count, f'{who}: the last state')
        tap.same(seen.changes, count, f'{who}: changes told or merged')
        tap.check(seen.versions == sorted(set(seen.versions)), f'{who}: versions {seen.versions}')
        tap.check(seen.times[0] - publisher.first >= window - TICK,
                  f'{who}: told {seen.times[0] - publisher.first:.3f} s after the first change')
        for i, when in enumerate(seen.times):
            allowed = 1 + (when - publisher.first - window) / limit
            tap.check(i + 1 <= allowed + 0.02,
                      f'{who}: {i + 1} notifications in {when - publisher.first:.3f} s')


def stress(seconds):
    count = seconds * RATE
    server = Server()
    crowd = Crowd(server.port)
    try:
        sessions = gather(crowd, server.port)
        publisher = Publisher(server.port, count)
        publisher.start()
        crowd.until(lambda: publisher.error or all(
            m.seen.last == count for m in crowd.members.values()),
            lambda: f'{sum(m.seen.last < count for m in crowd.members.values())} '
                    'subscribers do not know the last state', seconds + 2 * tap.WAIT)
        tap.check(publisher.error is None, f'{publisher.error}')
        settle = time.monotonic() + 1.3  # nothing more may come
        while time.monotonic() < settle:
            crowd.turn(0.05)
        judge(crowd, publisher, count)
        told = [len(m.seen.times) for m in crowd.members.values()]
        tap.note(f'{count} changes in {publisher.done - publisher.first:.1f} s; each subscriber was '
                 f'told {min(told)} to {max(told)} times')
        crowd.close()
        with Conn(server.port) as conn:
            for session in sessions:
                tap.same(session.delete(conn), 204, 'DELETE')
        server.wait_empty()
        server.stop()
    finally:
        server.kill()


def main():
    allow_files(8192)
    seconds = int(sys.argv[1]) if len(sys.argv) > 1 else 4
    tap.run(f'{LEGACY + MODERN + OWN} subscribers, {RATE} changes per second for {seconds} s: all end '
            'with the last state, window and rate limit hold', stress, seconds)
    tap.finish()


if __name__ == '__main__':
    main()

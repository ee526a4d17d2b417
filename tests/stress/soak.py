#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""soak.py: holds SOAK_STREAMS idle streams (default 10,000, half of each era) for SOAK_SECONDS
(default 600) while some of the clients go and others come: by closing, by resetting, with and
without DELETE. Every few seconds a change is published, and every stream that is there has to
be told. Memory has to be flat. Writes TAP and, every ten seconds, what it sees; TDG_FIXTURE
names another program to test."""
import os
import random
import socket
import statistics
import struct
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'hostile'))

from lib import tap  # noqa: E402
from lib.crowd import Crowd, allow_files  # noqa: E402
from lib.server import MIB, SANITIZER, Server  # noqa: E402
from lib.wire import Conn, Session, get, listen  # noqa: E402

SECONDS = int(os.environ.get('SOAK_SECONDS') or 600)
STREAMS = int(os.environ.get('SOAK_STREAMS') or 10000)
CHURN = 40           # clients that go and come per second
PUBLISH_EVERY = 5.0  # seconds
URI = 'live://counter'
SESSION_IDLE = 20    # seconds until a session without a stream goes


class Soak:
    def __init__(self):
        self.server = Server('--immediate', '--rate-limit', 0, '--session-idle-ms',
                             SESSION_IDLE * 1000, '--max-sessions', STREAMS * 2,
                             '--max-sessions-per-address', STREAMS * 2)
        self.port = self.server.port
        self.crowd = Crowd(self.port)
        self.conn = Conn(self.port)
        self.chance = random.Random(1)
        self.number = self.opened = self.left = self.told = 0
        self.memory = []  # (seconds since the beginning, bytes)

    # ---- Clients

    @staticmethod
    def on_event(member, message, now):
        method = message.get('method', '')
        if method.endswith('subscriptions/acknowledged'):
            member.seen['ready'] = True
        elif method.endswith('resources/updated'):
            member.seen['n'] = message['params']['metadata']['n']

    def come(self, legacy):
        session = None
        if legacy:
            session = Session(self.port, conn=self.conn)
            session.subscribe(URI)
        request = get(session.id) if legacy else listen([URI], self.opened)
        member = self.crowd.add(request, self.on_event)
        member.seen = {'ready': legacy, 'n': 0, 'session': session}
        self.opened += 1

    def go(self, member):
        """Some vanish without a word; sessions that are not deleted expire."""
        session = member.seen['session']
        if self.chance.random() < 0.3:
            member.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
        self.crowd.remove(member)
        if session is not None and self.chance.random() < 0.5:
            tap.same(session.delete(self.conn), 204, 'DELETE')
        self.left += 1

    def churn(self, count):
        for member in self.chance.sample(list(self.crowd.members.values()), count):
            legacy = member.seen['session'] is not None
            self.go(member)
            self.come(legacy)

    def settled(self):
        lost = [m for m in self.crowd.members.values() if not m.open]
        tap.check(not lost, f'{len(lost)} streams were closed by the server')
        return all(m.status == 200 and m.seen['ready'] for m in self.crowd.members.values())

    def publish(self):
        """Everybody who is there is told."""
        self.crowd.until(self.settled, lambda: 'new streams are not open', tap.WAIT)
        self.number += 1
        number = self.number
        self.server.publish(URI, metadata={'n': number})

        def missing():
            return [m for m in self.crowd.members.values() if m.seen['n'] != number]
        self.crowd.until(lambda: self.settled() and not missing(),
                         lambda: f'{len(missing())} were not told of change {number}', tap.WAIT)
        self.told += len(self.crowd.members)

    # ---- The run

    def fill(self):
        while len(self.crowd.members) < STREAMS:
            self.come(len(self.crowd.members) % 2 == 0)
            if self.opened % 50 == 0:
                self.crowd.turn(0)
        self.crowd.until(self.settled, lambda: 'not all streams are open', 2 * tap.WAIT)

    def hold(self):
        """A second at a time: clients change, memory is looked at, a change is told."""
        began = time.monotonic()
        next_publish = next_report = began
        tick = began
        while time.monotonic() - began < SECONDS:
            self.churn(CHURN)
            if time.monotonic() >= next_publish:
                self.publish()
                next_publish += PUBLISH_EVERY
            self.memory.append((time.monotonic() - began, self.server.memory()))
            if time.monotonic() >= next_report:
                self.report(time.monotonic() - began)
                next_report += 10
            tick += 1
            while (left := tick - time.monotonic()) > 0:
                self.crowd.turn(left)

    def report(self, seconds):
        counters = self.server.counters()
        tap.note(f'{seconds:4.0f} s: {counters["streams"]} streams, {counters["sessions"]} sessions, '
                 f'{counters["connections"]} connections, {self.server.memory() / MIB:.1f} MiB, '
                 f'{self.server.files()} files; {self.left} clients left, {self.told} notifications')

    def judge_memory(self):
        """Sessions that nobody deleted pile up until they expire, so the beginning does not
        count: the second third against the last."""
        third = SECONDS / 3
        middle = statistics.median(b for t, b in self.memory if third <= t < 2 * third)
        end = statistics.median(b for t, b in self.memory if t >= 2 * third)
        tap.note(f'memory: {middle / MIB:.1f} MiB in the middle, {end / MIB:.1f} MiB at the end')
        if not SANITIZER:
            tap.check(end - middle < 0.02 * middle + MIB, 'memory grows')

    def finish(self):
        self.crowd.close()
        self.conn.close()
        self.server.wait_empty()
        tap.note(f'after all have left: {self.server.memory() / MIB:.1f} MiB')
        self.server.stop()


def main():
    files = allow_files(STREAMS * 2 + 1000)
    tap.note(f'{STREAMS} streams for {SECONDS} s; {files} files allowed')
    soak = Soak()
    try:
        ok = tap.run(f'{STREAMS} streams are opened', soak.fill)
        if ok:
            tap.run(f'no stream is lost in {SECONDS} s, and each is told of every change', soak.hold)
            if soak.memory and soak.memory[-1][0] > SECONDS * 0.9:
                tap.run('memory is flat', soak.judge_memory)
        tap.run('nothing stays behind, and the server ends well', soak.finish)
    finally:
        soak.server.kill()
    tap.finish()


if __name__ == '__main__':
    main()

#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""reload_test.py [--program FILE] [--seed N] [--rounds N | --seconds N] [--bulk N]: `tidings serve`
with real backends (files, PostgreSQL, SQLite, HTTP, programs, logs, webhooks, what is published),
whose config is edited at random and read again while everything changes: entries change, move, go,
come again, turn to another backend, or become another kind with the same URIs; during the start,
and twice in a row; while some wait for a backend that never answers.
Subscribers of every kind look on. In the end what each was last notified of equals the truth: a
change is not missed, nothing is notified as deleted that is there, and nothing wrong comes later.

A round is one life of a server. Its seed fixes what is chosen, not how threads meet, so the same
seed need not fail again: --seconds looks for what fails now and then. Writes TAP."""
import argparse
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import threading
import time

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, '..', 'hostile'))

from lib import tap  # noqa: E402
from lib.served import Served  # noqa: E402
from lib.wire import Conn, head, modern  # noqa: E402
from reload.database import Database, programs  # noqa: E402
from reload.places import Mute, One, Over, Pages, Published, Query, Rows, Tree  # noqa: E402
from reload.subscribers import MARK, OfLists, checksum, subscribe_all  # noqa: E402

CHAOS_SECONDS = 1.2
KEY = 'the-key'
NOT_FOUND = (-32602, -32002)


class World:
    """The folder, backends and places of one round, and the program that serves them."""

    def __init__(self, program, seed, bulk, database, pages):
        self.program, self.chance, self.database = program, random.Random(seed), database
        self.is_hurried = seed % 2 == 0  # reloads while it starts
        self.folder = os.path.realpath(tempfile.mkdtemp(prefix='tidings-'))
        self.pages = pages.server_port
        pages.folder = self.folder
        self.config = os.path.join(self.folder, 'tidings.yaml')
        self.count = 0
        self.served = None
        self.trace = []
        self.slow = []  # writers that take a while
        self.places = [Tree(self, bulk), Published(self), *(One(self, number) for number in range(3)),
                       Over(self, 3), Mute(self)]
        if database is not None:
            self.places += [Rows(self), Query(self)]

    def text(self):
        self.count += 1
        return f'text {self.count}\n'

    def meanwhile(self, function, *args):
        self.slow.append(threading.Thread(target=function, args=args))
        self.slow[-1].start()

    # ---- The config

    def entries(self):
        entries = [place.entry() for place in self.places if place.kind is not None]
        self.chance.shuffle(entries)
        return [*entries, {'memory': MARK}]

    def write_config(self, broken=False):
        config = {'server': {'timing': 'immediate', 'rate-limit': 0, 'workers': 2},
                  'publish': {'key': KEY}, 'resources': self.entries()}
        with open(self.config + '.new', 'w', encoding='ascii') as file:
            file.write(json.dumps(config) if not broken else '{"resources": [{')
        os.rename(self.config + '.new', self.config)
        self.trace.append((time.monotonic(), 'config',
                           'broken' if broken else [(p.uri, p.kind, p.options) for p in self.places]))

    def reload(self):
        for place in self.chance.sample(self.places, self.chance.choice([1, 1, 2, len(self.places)])):
            place.alter()
        self.write_config()
        self.served.process.send_signal(signal.SIGHUP)

    # ---- The backends

    def ask(self, request):
        with Conn(self.served.port) as conn:
            return conn.ask(request)

    def post(self, path, text, fields=()):
        body = text.encode()
        return self.ask(head('POST', path, (*fields, ('Content-Length', len(body)))) + body)

    def publish(self, what):
        return self.post('/publish', json.dumps(what), (('Authorization', f'Bearer {KEY}'),
                                                        ('Content-Type', 'application/json')))

    def read(self, uri):
        """Its text; None where it does not exist; an error where nobody can say."""
        answer = self.ask(modern('resources/read', {'uri': uri})).json()
        if 'result' in answer:
            return answer['result']['contents'][0]['text']
        return None if answer['error']['code'] in NOT_FOUND else f'error {answer["error"]}'

    def truth(self):
        """By the backends; of what was pushed, the server alone knows."""
        found, listed = {}, {MARK}
        for place in self.places:
            if place.kind is None:
                continue
            if place.is_pushed():
                texts = ((uri, self.read(uri)) for uri in place.uris())
                now = {uri: text for uri, text in texts if text is not None}
            else:
                now = place.truth()
            for uri in place.uris():
                found.pop(uri, None)
            found.update(now)
            listed.update(place.listed(now))
        return found, listed

    # ---- A round

    def start(self):
        self.write_config()
        self.served = Served(self.program, '--config', self.config)
        if self.is_hurried:
            # After the program handles signals, before it serves.
            time.sleep(self.chance.random() * 0.05)
            tap.until(lambda: handles_hangup(self.served.pid), 'it handles SIGHUP')
            self.reload()
        self.served.wait_serving()

    def chaos(self):
        until = time.monotonic() + CHAOS_SECONDS
        changing = threading.Event()

        def reload():
            while not changing.wait(self.chance.choice([0, 0.02, 0.1, 0.3])):
                if self.chance.random() < 0.1:
                    self.write_config(broken=True)
                    self.served.process.send_signal(signal.SIGHUP)
                self.reload()

        thread = threading.Thread(target=reload)
        thread.start()
        while time.monotonic() < until:
            self.chance.choice(self.places).change()
            time.sleep(self.chance.choice([0, 0, 0.001, 0.01]))
        changing.set()
        thread.join()
        if self.chance.random() < 0.5:
            self.reload()
        for _ in range(self.chance.choice([0, 5, 50])):
            self.chance.choice(self.places).change()
        for thread in self.slow:
            thread.join()

    def complaints(self, subscribers, before):
        truth, listed = self.truth()
        found = [s.name + ' ended: ' + s.ended for s in subscribers if s.ended]
        for place in self.places:
            for uri in place.uris():
                text = self.read(uri)
                if text != truth.get(uri):
                    found.append(f'{uri} ({place.kind}) reads as {text!r}, holds {truth.get(uri)!r}')
        for subscriber in subscribers:
            found += subscriber.complaints(before, truth)
            if isinstance(subscriber, OfLists):
                found += subscriber.list_complaints(listed)
                now = subscriber.read_list()
                found += [f'listed: missing {sorted(listed - now)[:5]}, too many '
                          f'{sorted(now - listed)[:5]}'] if now != listed else []
        return found

    def judge(self, subscribers, before, patience):
        deadline = time.monotonic() + patience
        while found := self.complaints(subscribers, before):
            if time.monotonic() > deadline:
                raise AssertionError(self.story(found, subscribers))
            time.sleep(0.05)

    def story(self, found, subscribers):
        """What is wrong, and what happened to the first of the URIs concerned."""
        uri = next((word for line in found for word in line.split() if '://' in word), None)
        events = self.trace + [(*event, s.name) for s in subscribers for event in s.trace
                               if event[1] == uri]
        events.sort(key=lambda event: event[0])
        log = [r['message'] for r in self.served.log()][-10:]
        return '\n'.join([f'{len(found)} wrong:', *found[:12], f'about {uri}:',
                          *(f'{t:.3f} {rest}' for t, *rest in events[-40:]), 'log:', *log])

    def fence(self, subscribers):
        """What comes late has come then: of each source, and from the server."""
        for place in self.places:
            subscriber = next((s for s in subscribers if place.kind is not None and
                               place.uri in s.uris), None)
            if subscriber is not None:
                place.fence(subscriber)
        text = self.text()
        tap.check(self.publish({'uri': MARK, 'content': text}).status == 200, 'publish')
        tap.until(lambda: all(s.mark == checksum(text) or s.ended for s in subscribers),
                  'the marker reaches all')

    def run(self, patience):
        self.start()
        try:
            # Reloads of the start are over once its entries are those of the truth.
            tap.until(lambda: {e['uri'] for e in self.served.pages()[0]} == self.truth()[1],
                      'the first list is complete')
            before, _ = self.truth()
            uris = [uri for place in self.places for uri in place.uris()
                    if place.kind is not None]
            templates = [place.uri for place in self.places
                         if '{' in place.uri and place.kind is not None]
            subscribers = subscribe_all(self.served, uris, templates, before)
            self.chaos()
            self.judge(subscribers, before, patience)
            self.fence(subscribers)
            self.judge(subscribers, before, 0)
            self.served.stop()
        finally:
            self.served.kill()
            for place in self.places:
                place.close()
            shutil.rmtree(self.folder, ignore_errors=True)


def handles_hangup(pid):
    with open(f'/proc/{pid}/status', encoding='ascii') as file:
        caught = next(line for line in file if line.startswith('SigCgt'))
    return int(caught.split()[1], 16) >> signal.SIGHUP - 1 & 1


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--program', default=os.path.join(HERE, '..', '..', 'build', 'tidings'))
    parser.add_argument('--seed', type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument('--rounds', type=int, default=4)
    parser.add_argument('--seconds', type=float, help='run after run, instead of --rounds')
    parser.add_argument('--bulk', type=int, help='names of more files in the folder')
    parser.add_argument('--patience', type=float, default=120)
    options = parser.parse_args()
    folder = tempfile.mkdtemp(prefix='tidings-')
    os.chmod(folder, 0o755)
    database = Database(os.path.join(folder, 'db'), options.program) if programs() else None
    pages, began, number = Pages(), time.monotonic(), 0
    tap.note(f'--seed {options.seed}')
    if database is None:
        tap.note('there is no PostgreSQL here: rows and queries are left out')
    try:
        while (time.monotonic() < began + options.seconds if options.seconds
               else number < options.rounds):
            seed = options.seed + number
            bulk = options.bulk if options.bulk is not None else (0, 1500)[number % 2]
            world = World(options.program, seed, bulk, database, pages)
            tap.run(f'what was last notified is true after reloads, --seed {seed} --bulk {bulk}',
                    world.run, options.patience)
            number += 1
    finally:
        if database is not None:
            database.close()
        shutil.rmtree(folder, ignore_errors=True)
    tap.finish()


if __name__ == '__main__':
    main()

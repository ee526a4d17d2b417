#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""oracle_test.py [--seed N] [--runs N | --seconds N] [--operations N]: random clients of both eras
and of every transport against tests/interop/fixture, while resources and lists change. Their
connections break at any moment, and they come back as real clients do. Checked is the promise of
docs/architecture.md, from the clients' side: acknowledged first, silent after, never backwards,
only what was asked for; and after the last change everybody learns the newest state of all that
they have subscribed to, and nothing stays behind when they have left.

A run is one life of a server, with two rounds of chaos and quiet. Its seed fixes what each client
chooses, not how the threads of the server meet, so the same seed need not fail again. Writes TAP
and, on failure, what each client concerned has done and seen. TDG_FIXTURE names another program to
test."""
import argparse
import asyncio
import os
import random
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'hostile'))

from lib import tap  # noqa: E402
from lib.server import SLOWNESS, Server  # noqa: E402
from lib.wire import call  # noqa: E402
from oracle.channel import OldSse, Pipe  # noqa: E402
from oracle.legacy import Http  # noqa: E402
from oracle.link import Link  # noqa: E402
from oracle.modern import HttpListener  # noqa: E402
from oracle.world import LATE, LISTS, URIS, Actor, World  # noqa: E402

DEADLINE = 60 * SLOWNESS  # seconds in which the last change has to be known
ROUNDS = 2
VERSIONS = ['2025-03-26', '2025-06-18', '2025-11-25']
TIMINGS = [['--immediate', '--rate-limit', 0], ['--batch', 20, '--rate-limit', 0],
           ['--batch', 30, '--rate-limit', 100], ['--debounce', 20, '--rate-limit', 50],
           ['--throttle', 30, '--rate-limit', 0]]


def options(chance):
    """How the server is set up. With little history it may say that it has forgotten."""
    chosen = [*chance.choice(TIMINGS), '--linger-ms', chance.choice([1, 50, 60000]),
              '--keepalive-ms', chance.choice([50, 15000])]
    if chance.random() < 0.5:
        chosen += ['--stream-lifetime-ms', 500 * SLOWNESS]
    if chance.random() < 0.2:
        chosen += ['--max-history', 8]
    return chosen


class Publisher(Actor):
    """Makes one thing change, by calls of a tool, one after the other."""

    def __init__(self, world, what):
        super().__init__(world, f'publisher of {what}')
        self.what = what

    def change(self, n):
        if self.what in URIS:
            tool = 'delete' if self.likely(0.1) else 'publish'
            return call(tool, uri=self.what, metadata={'n': n})
        kind, verb = self.what[5:-1], 'add' if n % 2 else 'remove'
        name = {'uri': 'oracle://x'} if kind == 'resource' else {'name': 'oracle'}
        return call(f'{verb}_{kind}', **name)

    async def live(self):
        link = await Link.open(self.world.port)
        pauses = [0.1, 0.3] if self.what in LISTS else [0, 0, 0.01, 0.05, 0.2]
        while await self.world.wait_chaos():
            self.world.spend('changes')
            self.world.sent[self.what] += 1
            request = self.change(self.world.sent[self.what])
            _, _, answer = await self.within(link.ask(request), 'answer to a publish')
            if answer['result'].get('isError'):
                self.world.wrong(self, f'{answer}')
            await self.rest(*pauses)
        link.close()


class Armer(Actor):
    """Lets the late watchers begin. Where there is none that waits, that is no error."""

    async def live(self):
        link = await Link.open(self.world.port)
        while not self.world.leaving:
            await self.within(link.ask(call('arm', uri=self.chance.choice(LATE))), 'answer')
            await self.rest(0, 0.005, 0.02)
        link.close()


async def settled(world, clients):
    """Everybody knows the newest state in the end."""
    deadline = time.monotonic() + DEADLINE
    while any(client.view.missing() for client in clients):
        if time.monotonic() > deadline:
            for client in clients:
                for text in client.view.missing():
                    world.wrong(client, f'LOST {text}')
        if world.wrongs:
            return
        await asyncio.sleep(0.01)


async def direct(world, clients, operations):
    for _ in range(ROUNDS):
        world.begin_chaos(operations)
        while world.chaos.is_set() and not world.wrongs:
            await asyncio.sleep(0.01)
        await settled(world, clients)
        if world.wrongs:
            break
    world.leave()


async def play(seed, server, operations, chosen):
    """Returns the world after all clients have left."""
    world = World(seed, server.port, SLOWNESS, may_forget='--max-history' in chosen)
    streams_end = '--stream-lifetime-ms' in chosen
    pipe = Pipe(world, server.process)
    armer = Armer(world, 'armer')
    clients = [Http(world, f'legacy-{i}', VERSIONS[i % 3]) for i in range(9)]
    clients += [HttpListener(world, f'modern-{i}') for i in range(5)]
    if not streams_end:  # with it each time the session ends, too soon on a slow machine
        clients += [OldSse(world, f'sse-{i}') for i in range(2)]
    clients += [pipe.legacy, pipe.listener]
    actors = clients + [armer] + [Publisher(world, what) for what in URIS + LISTS]

    await pipe.open()
    world.before = await asyncio.to_thread(server.counters)
    try:
        async with asyncio.TaskGroup() as group:
            for actor in actors:
                group.create_task(actor.live())
            group.create_task(direct(world, clients, operations))
        names = ['sessions', 'streams', 'subscriptions', 'pending']
        await asyncio.to_thread(
            server.wait_counters, f'as before: {[world.before[name] for name in names]}',
            lambda c: all(c[name] == world.before[name] for name in names))
    except* (AssertionError, OSError, EOFError) as group:
        world.wrongs += [f'{type(error).__name__}: {error}' for error in group.exceptions]
    return world


def report(world):
    lines = world.wrongs[:20]
    for client in world.guilty[:4]:
        lines += [f'---- what {client.name} did and saw', *client.log]
    return '\n'.join(lines)


def run(seed, operations):
    chance = random.Random(seed)
    workers, chosen = chance.choice([1, 2, 3]), options(chance)
    tap.note(f'--seed {seed}: {workers} workers, {" ".join(map(str, chosen))}')
    server = Server(*chosen, workers=workers, stdio=True)
    try:
        world = asyncio.run(play(seed, server, operations, chosen))
        tap.note(', '.join(f'{name} {count}' for name, count in sorted(world.counts.items())))
        server.alive()
        tap.check(not world.wrongs, f'seed {seed}:\n' + report(world))
        server.stop()
    finally:
        server.kill()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--seed', type=int)
    parser.add_argument('--runs', type=int, default=1)
    parser.add_argument('--seconds', type=float, help='runs with other seeds for so long')
    parser.add_argument('--operations', type=int, default=1500, help='in each round of chaos')
    args = parser.parse_args()

    seed = args.seed if args.seed is not None else random.SystemRandom().randrange(1 << 32)
    began, runs = time.monotonic(), 0
    while runs < args.runs or (args.seconds and time.monotonic() - began < args.seconds):
        tap.run(f'the promise holds for every client (seed {seed + runs})', run, seed + runs,
                args.operations)
        runs += 1
    tap.finish()


if __name__ == '__main__':
    main()

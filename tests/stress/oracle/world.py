# SPDX-License-Identifier: MIT
"""What is true: which changes were made, and what each client has to know of them.

Every change of a resource carries n, which counts that resource's changes, in its metadata. A
client owes nothing for what was sent before its acknowledgement was read. What was sent later it
has to know in the end: by that change, by a later one, or by an update without n, which stands
for what was missed. A list is one more resource, named list:NAME; its changes carry no n."""
import asyncio
import collections
import random
import time

TEMPLATES = {'live://item/{id}': 'live://item/', 'slow://{name}': 'slow://'}
LATE = ['slow://1', 'slow://2', 'slow://{name}']  # their watchers begin when told to
URIS = ['live://a', 'live://b', 'live://c', 'live://item/1', 'live://item/2', 'live://item/3',
        'slow://1', 'slow://2']
TARGETS = URIS + list(TEMPLATES)
LIVES = [0, 0.005, 0.02, 0.1, 0.5]  # of a connection, in seconds
LISTS = ['list:tools', 'list:prompts', 'list:resources']


def matches(target, uri):
    return uri == target or (target in TEMPLATES and uri.startswith(TEMPLATES[target]))


def covered(targets, uri):
    return any(matches(target, uri) for target in targets)


class World:
    def __init__(self, seed, port, slowness, may_forget):
        self.seed, self.port, self.slowness = seed, port, slowness
        self.may_forget = may_forget  # the server has little history: it may end sessions
        self.sent = dict.fromkeys(URIS + LISTS, 0)
        self.versions = {uri: {} for uri in URIS}  # n: the server's number of that change
        self.wrongs = []
        self.guilty = []  # clients with something wrong, in the order of finding
        self.counts = collections.Counter()
        self.began = time.monotonic()
        self.budget = 0
        self.chaos = asyncio.Event()
        self.leaving = False

    def chance(self, name):
        """Choices of one actor, which do not depend on what the others do."""
        return random.Random(f'{self.seed}/{name}')

    # ---- Phases: chaos, which ends when its budget is spent; quiet; leaving

    def spend(self, what):
        """Counts one operation."""
        self.counts[what] += 1
        self.budget -= 1
        if self.budget <= 0 and not self.leaving:
            self.chaos.clear()

    def begin_chaos(self, operations):
        self.budget = operations
        self.chaos.set()

    def leave(self):
        self.leaving = True
        self.chaos.set()  # whoever waits for it

    async def wait_chaos(self):
        """Returns whether there is still something to do."""
        await self.chaos.wait()
        return not self.leaving

    @property
    def wild(self):
        return self.chaos.is_set() and not self.leaving

    # ---- Findings

    def wrong(self, client, text):
        self.wrongs.append(f'{time.monotonic() - self.began:7.3f} {client.name}: {text}')
        client.note(f'WRONG {text}')
        if client not in self.guilty:
            self.guilty.append(client)


class Actor:
    """Somebody with a name, a log and choices of their own."""

    def __init__(self, world, name):
        self.world, self.name = world, name
        self.chance = world.chance(name)
        self.log = collections.deque(maxlen=150)

    def note(self, text):
        self.log.append(f'{time.monotonic() - self.world.began:7.3f} {text}')

    def likely(self, share):
        return self.chance.random() < share

    async def rest(self, *seconds):
        await asyncio.sleep(self.chance.choice(seconds))

    async def within(self, awaitable, what):
        """Everything that has to happen happens within the deadline."""
        try:
            async with asyncio.timeout(60 * self.world.slowness):
                return await awaitable
        except TimeoutError:
            self.world.wrong(self, f'no {what}')
            raise AssertionError(f'{self.name}: no {what}') from None

    async def endure(self, reading, link):
        """Keeps a connection that is being read while it is quiet. In chaos it breaks after
        some time; it may be that the client has not read from it at all."""
        while not (reading.done() or self.world.chaos.is_set()):
            await asyncio.wait([reading], timeout=0.02)
        if not (reading.done() or self.world.leaving):
            if self.likely(0.3):
                reading.cancel()
                if self.likely(0.5):
                    link.stall()
                await self.rest(0.01, 0.05, 0.2)
            else:
                await asyncio.wait([reading], timeout=self.chance.choice(LIVES))
        await stop(reading)
        link.close(reset=self.likely(0.5))


async def stop(task):
    """Ends a task; raises what has gone wrong in it."""
    task.cancel()
    await asyncio.wait([task])
    if not task.cancelled():
        task.result()


class View:
    """What one client is to know, and knows. It outlives connections and sessions."""

    def __init__(self, world, client):
        self.world, self.client = world, client
        self.targets = set()
        self.base = {}     # (target, uri): the n up to which that target owes nothing
        self.n = {}        # uri: the newest n that it was told
        self.version = {}  # uri: the greatest version that it was told
        self.assumed = {}  # uri: how many had been sent when an update without n came

    def owe(self, targets, renew=False):
        """From now on these are owed. `renew`: the client has just looked at all of them, so
        what it was owed before does not matter."""
        for target in targets:
            if renew or target not in self.targets:
                self.look(target)
        self.targets |= set(targets)

    def look(self, target):
        for uri in self.world.sent:
            if matches(target, uri):
                self.base[target, uri] = self.world.sent[uri]

    def not_resumed(self):
        """The server says that it may have missed something under a template, so the client
        looks by itself. A subscription to a URI still has to tell."""
        self.world.counts['not resumed'] += 1
        for target in self.targets.intersection(TEMPLATES):
            self.look(target)

    def drop(self, target):
        self.targets.discard(target)

    def owed_from(self, uri):
        return min(self.base[target, uri] for target in self.targets if matches(target, uri))

    def told(self, uri, n, version):
        sent = self.world.sent[uri]
        self.world.counts['told'] += 1
        self.version[uri] = max(version, self.version.get(uri, 0))
        if n is None:
            self.world.counts['assumed'] += uri in URIS
            self.assumed[uri] = sent
            return
        if n > sent:
            self.world.wrong(self.client, f'{uri}: n {n} is not sent yet')
        if self.world.versions[uri].setdefault(n, version) != version:
            self.world.wrong(self.client, f'{uri}: n {n} had another version, not {version}')
        self.n[uri] = max(n, self.n.get(uri, 0))

    def _knows(self, uri):
        newest = self.world.sent[uri]
        if self.owed_from(uri) >= newest or self.n.get(uri, 0) >= newest:
            return True
        version = self.world.versions.get(uri, {}).get(newest)
        if version is not None:  # somebody was told of that very change
            return self.version.get(uri, 0) >= version
        return self.assumed.get(uri, 0) >= newest

    def missing(self):
        return [f'{uri}: newest is {self.world.sent[uri]}, told {self.n.get(uri)}, owed from '
                f'{self.owed_from(uri)}' for uri in self.world.sent
                if covered(self.targets, uri) and not self._knows(uri)]


class Stream:
    """What was told on one connection, or one listen: versions only grow."""

    def __init__(self, client, number):
        self.client, self.number, self.versions = client, number, {}

    def read(self, message):
        """Returns uri and n of a change, or None where the message is none."""
        method, params = message.get('method', ''), message.get('params', {})
        if method.endswith('/list_changed'):
            uri = 'list:' + method.split('/')[1]
            self.client.note(f'#{self.number} {uri} at {cursor_of(params)}')
            return uri, None, 0
        if method != 'notifications/resources/updated':
            return None
        uri, n = params['uri'], params['metadata'].get('n')
        version = params['_meta']['dev.tidings/version']
        self.client.note(f'#{self.number} {uri} n {n} version {version} at {cursor_of(params)}')
        if version < self.versions.get(uri, 0):
            self.client.world.wrong(self.client, f'#{self.number} {uri}: version {version} after '
                                    f'{self.versions[uri]}')
        self.versions[uri] = version
        return uri, n, version


def cursor_of(params):
    return params.get('_meta', {}).get('dev.tidings/cursor')

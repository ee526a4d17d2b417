# SPDX-License-Identifier: MIT
"""Clients of the modern era: a listen that breaks and comes back with its cursor."""
import asyncio

from lib.wire import modern_fields, modern_message, post

from .link import LOST, Link
from .world import LISTS, TARGETS, URIS, Actor, Stream, View, covered, cursor_of

METHOD = 'subscriptions/listen'


class Listener(Actor):
    """What is the same over HTTP and on a pipe."""

    def __init__(self, world, name):
        super().__init__(world, name)
        self.view = View(world, self)
        self.cursor = None
        self.listens = 0
        self.targets = set()
        self.lists = self.chance.sample(LISTS, self.chance.randrange(len(LISTS) + 1))
        self.options = self.chance.choice([None, None, {'batchMs': 0, 'rateLimitMs': 0},
                                           {'debounceMs': 30, 'rateLimitMs': 50}])

    def choose(self):
        """Sometimes the client wants something else than last time. What it still wants it goes
        on to be owed."""
        if not self.targets or self.likely(0.2):
            self.targets = set(self.chance.sample(TARGETS, self.chance.randrange(1, 6)))
            for target in self.view.targets - self.targets - set(LISTS):
                self.view.drop(target)

    def message(self, id):
        self.choose()
        self.acknowledged = False
        self.world.spend('listens')
        meta = {'dev.tidings/cursor': self.cursor} if self.cursor else {}
        if self.options:
            meta['dev.tidings/options'] = self.options
        wanted = {f'{name[5:]}ListChanged': True for name in self.lists}
        self.note(f'#{id} listen from {self.cursor} to {sorted(self.targets)}')
        return modern_message(METHOD, {'notifications': {
            'resourceSubscriptions': sorted(self.targets), **wanted}}, id, meta)

    def stream(self):
        self.listens += 1
        return Stream(self, self.listens)

    def take(self, stream, message):
        params = message.get('params', {})
        if message.get('method') == 'notifications/subscriptions/acknowledged':
            return self.admit(stream, params)
        change = stream.read(message)
        if change is None:
            return None
        uri, n, version = change
        if not self.acknowledged:
            self.world.wrong(self, f'#{stream.number} {uri} before the acknowledgement')
        if not covered(self.targets if uri in URIS else self.lists, uri):
            self.world.wrong(self, f'#{stream.number} {uri} is not asked for')
        self.view.told(uri, n, version)
        self.cursor = cursor_of(params) or self.cursor
        return None

    def admit(self, stream, params):
        """The acknowledgement."""
        resumed = params['_meta'].get('dev.tidings/resumed')
        self.note(f'#{stream.number} acknowledged at {cursor_of(params)}, resumed {resumed}')
        got = set(params['notifications'].get('resourceSubscriptions', []))
        if got != self.targets or self.acknowledged:
            self.world.wrong(self, f'#{stream.number} acknowledged {sorted(got)}')
        self.acknowledged = True
        self.view.owe(self.targets | set(self.lists))
        if resumed is False:
            self.view.not_resumed()
        self.cursor = cursor_of(params)


class HttpListener(Listener):
    async def live(self):
        while not self.world.leaving:
            await self.listen()
            await self.rest(0, 0, 0.01, 0.1)

    async def listen(self):
        stream = self.stream()
        link = await Link.open(self.world.port)
        link.send(post(self.message(stream.number), modern_fields(METHOD)))
        await self.endure(asyncio.create_task(self.read(stream, link)), link)
        self.note(f'#{stream.number} closed')

    async def read(self, stream, link):
        try:
            status, _ = await self.within(link.head(), 'answer to listen')
            if status != 200:
                return self.world.wrong(self, f'listen: {status}')
            async for _, _, message in link.events():
                self.take(stream, message)
            self.note(f'#{stream.number} ended by the server')
        except LOST as error:
            self.note(f'#{stream.number} lost: {type(error).__name__}')

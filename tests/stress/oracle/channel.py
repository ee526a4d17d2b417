# SPDX-License-Identifier: MIT
"""Clients whose answers and notifications come on one channel, so that their order is known: the
old pair of HTTP endpoints, and a pipe."""
import asyncio
import json

from lib.wire import head, message, post

from .legacy import Subscriber, Visit
from .link import LOST, Link, ask
from .modern import Listener
from .world import TARGETS, URIS, covered, stop

VERSIONS = ['2024-11-05', '2025-03-26', '2025-06-18', '2025-11-25']


class Ordered(Subscriber):
    """Tells answers from changes. `write(message)` sends."""

    def __init__(self, world, name):
        super().__init__(world, name)
        self.waiting = {}  # id: (what to do with the answer, who waits)
        self.last_id = 0

    async def request(self, visit, method, params, then):
        self.last_id += 1
        done = asyncio.get_running_loop().create_future()
        self.waiting[self.last_id] = (then, done)
        await self.write(message(method, params, self.last_id))
        return await self.within(done, method)

    async def initialize(self):
        def then(answer):
            self.note(f'initialized: {answer["result"]["protocolVersion"]}')
        if not await self.request(None, 'initialize', {
                'protocolVersion': self.chance.choice(VERSIONS), 'capabilities': {},
                'clientInfo': {'name': self.name, 'version': '1'}}, then):
            return False
        await self.write(message('notifications/initialized', None, None))
        return await self.request(None, 'ping', {}, lambda answer: None)

    def take(self, visit, stream, message):
        if 'method' not in message:
            then, done = self.waiting.pop(message['id'])
            then(message)
            done.set_result(True)
            return
        self.told(visit, stream, message)
        uri = message.get('params', {}).get('uri')
        if uri in URIS and not covered(visit.granted, uri):
            self.world.wrong(self, f'#{stream.number} {uri} before its subscribe was answered, '
                             'or after its unsubscribe was')

    def hang_up(self):
        for _, done in self.waiting.values():
            if not done.done():
                done.set_result(False)
        self.waiting.clear()


class OldSse(Ordered):
    """2024-11-05: the session lives as long as its stream."""

    async def live(self):
        while not self.world.leaving:
            self.world.spend('streams')
            stream, visit = self.stream(), Visit()
            self.visit = visit
            self.endpoint = asyncio.get_running_loop().create_future()
            link = await Link.open(self.world.port)
            link.send(head('GET', self.chance.choice(['/sse', '/events'])))
            self.note(f'#{stream.number} GET')
            reading = asyncio.create_task(self.read(visit, stream, link))
            wishing = asyncio.create_task(self.wishes(visit))
            await self.endure(reading, link)
            self.hang_up()
            await stop(wishing)
            self.note(f'#{stream.number} closed')
            await self.rest(0, 0.01, 0.1)

    async def wishes(self, visit):
        path = await self.endpoint
        if path is None:
            return
        self.path = path
        if not await self.initialize() or not await self.settle(visit):
            return
        while await self.world.wait_chaos():
            self.world.spend('wishes')
            await self.wish()
            await self.rest(0, 0.02, 0.1)

    async def write(self, message):
        if not self.path:
            return self.hang_up()
        status, _, _ = await self.within(
            ask(self.world.port, post(message, path=self.path)), 'answer to a message')
        if status == 404:
            self.hang_up()
        elif status != 202:
            self.world.wrong(self, f'{message.get("method")}: {status}')

    async def read(self, visit, stream, link):
        try:
            status, _ = await self.within(link.head(), 'answer to GET')
            if status != 200:
                self.world.wrong(self, f'GET: {status}')
            async for _, name, message in link.events():
                if name == 'endpoint':
                    self.endpoint.set_result(message['text'])
                else:
                    self.take(visit, stream, message)
            self.note(f'#{stream.number} ended by the server')
        except LOST as error:
            self.note(f'#{stream.number} lost: {type(error).__name__}')

    def hang_up(self):
        super().hang_up()
        self.path = None
        if not self.endpoint.done():
            self.endpoint.set_result(None)


class Pipe:
    """Standard input and output of the server, which two clients share: a legacy session, and
    a listen."""

    def __init__(self, world, process):
        self.world, self.process = world, process
        self.legacy = PipeLegacy(world, 'pipe-legacy', self)
        self.listener = PipeListener(world, 'pipe-listen', self)

    async def open(self):
        loop = asyncio.get_running_loop()
        self.reader = asyncio.StreamReader(limit=1 << 24)
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(self.reader),
                                     self.process.stdout)
        transport, protocol = await loop.connect_write_pipe(
            asyncio.streams.FlowControlMixin, self.process.stdin)
        self.writer = asyncio.StreamWriter(transport, protocol, None, loop)
        self.reading = asyncio.create_task(self.read())
        await self.legacy.begin()

    async def write(self, message):
        self.writer.write(json.dumps(message).encode() + b'\n')
        await self.writer.drain()

    async def read(self):
        while line := await self.reader.readline():
            message = json.loads(line)
            meta = message.get('params', message.get('result', {})).get('_meta', {})
            id = meta.get('io.modelcontextprotocol/subscriptionId')
            if id is not None:
                self.listener.receive(id, message)
            else:
                self.legacy.receive(message)


class PipeLegacy(Ordered):
    def __init__(self, world, name, pipe):
        super().__init__(world, name)
        self.pipe = pipe
        self.visit = Visit()

    async def write(self, message):
        await self.pipe.write(message)

    def receive(self, message):
        self.take(self.visit, self.only, message)

    async def begin(self):
        self.only = self.stream()
        await self.initialize()
        await self.settle(self.visit)

    async def live(self):
        while await self.world.wait_chaos():
            self.world.spend('wishes')
            await self.wish()
            await self.rest(0, 0.02, 0.1)
        for target in self.view.targets.intersection(TARGETS):
            await self.unsubscribe(self.visit, target)


class PipeListener(Listener):
    def __init__(self, world, name, pipe):
        super().__init__(world, name)
        self.pipe = pipe
        self.current = None

    def receive(self, id, message):
        if self.current is None or id != f'w{self.current.number}':
            self.world.wrong(self, f'{id} is told after its end: {message}')
        elif 'result' not in message:
            self.take(self.current, message)

    async def live(self):
        """Listens, cancels, and comes back with the cursor. The answer to a ping tells that the
        cancellation was read."""
        while not self.world.leaving:
            self.current = self.stream()
            id = f'w{self.current.number}'
            await self.pipe.write(self.message(id))
            await self.rest(0, 0.01, 0.1, 0.5)
            await self.world.wait_chaos()
            await self.pipe.write(message('notifications/cancelled', {'requestId': id}, None))
            self.note(f'#{id} cancelled')
            await self.pipe.legacy.request(None, 'ping', {}, self.cancelled)
            await self.rest(0, 0.05)

    def cancelled(self, answer):
        self.current = None

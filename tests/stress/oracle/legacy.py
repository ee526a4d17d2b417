# SPDX-License-Identifier: MIT
"""Clients of the legacy era: subscribe, unsubscribe, and a session. Over HTTP a session may have
several GET streams, each of which breaks and comes back as it likes."""
import asyncio

from lib.wire import get, head, initialize, message, post, session_fields

from .link import LOST, Link, ask
from .world import LISTS, TARGETS, URIS, Actor, Stream, View, covered, cursor_of, matches

MAX_GETS = 3


class Visit:
    """One session: what may be told in it."""

    def __init__(self, id=None):
        self.id = id
        self.asked = set()    # targets that may be told: asked for, and not yet given up
        self.granted = set()  # those of them whose subscribe was answered
        self.fences = {}      # uri: (n, stream number) when its unsubscribe was answered
        self.event_ids = set()
        self.last_ids = {}    # place: the last event id that came there
        self.late = set()     # targets of requests that may still arrive, long after others
        self.settled = False  # all that the client wants is subscribed to
        self.over = False     # ended


class Subscriber(Actor):
    """What legacy clients of all transports share. `request(visit, method, params, then)`
    calls `then` with the answer in the moment of reading it; it returns False where the session
    is lost."""

    def __init__(self, world, name):
        super().__init__(world, name)
        self.view = View(world, self)
        self.visit = None
        self.cursor = None         # of the last change that was read
        self.keeps_cursor = True   # so that a new session can go on from there
        self.streams = 0

    def stream(self):
        self.streams += 1
        return Stream(self, self.streams)

    # ---- Wishes

    async def wish(self):
        visit, target = self.visit, self.chance.choice(TARGETS)
        if target in visit.late:
            return True
        if target not in self.view.targets:
            return await self.subscribe(visit, target)
        if self.likely(0.4):
            return await self.unsubscribe(visit, target)
        return True

    async def subscribe(self, visit, target, cursor=None, renew=False):
        params = {'uri': target}
        if cursor:
            params['_meta'] = {'dev.tidings/cursor': cursor}
        visit.asked.add(target)
        for uri in [uri for uri in visit.fences if matches(target, uri)]:
            del visit.fences[uri]
        self.note(f'subscribe {target}' + (f' from {cursor}' if cursor else ''))

        def then(answer):
            self.note(f'subscribed to {target}')
            if 'result' not in answer:
                return self.world.wrong(self, f'subscribe {target}: {answer}')
            visit.granted.add(target)
            self.view.owe([target], renew)
            if answer['result'].get('_meta', {}).get('dev.tidings/resumed') is False:
                self.view.not_resumed()
        return await self.request(visit, 'resources/subscribe', params, then)

    async def unsubscribe(self, visit, target):
        self.view.drop(target)
        self.note(f'unsubscribe {target}')

        def then(answer):
            self.note(f'unsubscribed from {target}')
            if 'result' not in answer:
                self.world.wrong(self, f'unsubscribe {target}: {answer}')
            visit.asked.discard(target)
            visit.granted.discard(target)
            self.fence(visit)
        return await self.request(visit, 'resources/unsubscribe', {'uri': target}, then)

    def fence(self, visit):
        """What is not asked for (any more) must not be told, if it was caused from now on."""
        for uri in URIS:
            if not covered(visit.asked, uri) and uri not in visit.fences:
                visit.fences[uri] = (self.world.sent[uri], self.streams)

    # ---- What is told

    def told(self, visit, stream, message):
        """Takes a change; returns False where the message is none."""
        change = stream.read(message)
        if change is None:
            return False
        uri, n, version = change
        if uri in URIS and not covered(visit.asked, uri):
            fence, newest = visit.fences[uri]
            if stream.number > newest or (n or 0) > fence:
                self.world.wrong(self, f'#{stream.number} {uri} n {n} is not subscribed to')
        self.view.told(uri, n, version)
        if visit.settled:  # before that it says nothing of what is still to be subscribed to
            self.cursor = cursor_of(message['params']) or self.cursor
        return True

    # ---- Sessions

    async def settle(self, visit):
        """Subscribes in a new session to what the client wants: either from the cursor that it
        had, or it looks at everything anew. The lists it looks at in any case."""
        cursor = self.cursor if self.keeps_cursor and self.likely(0.7) else None
        self.fence(visit)
        self.view.owe(LISTS, renew=True)
        for target in sorted(self.view.targets - set(LISTS)):
            if not await self.subscribe(visit, target, cursor, renew=cursor is None):
                return False
        self.cursor, visit.settled = cursor, True
        return True


class Http(Subscriber):
    """Streamable HTTP. Each request has a connection of its own."""

    def __init__(self, world, name, version):
        super().__init__(world, name)
        self.version = version
        self.places = self.chance.choice([1, 1, 2, MAX_GETS])  # for GET streams
        # Of several streams nobody knows which cursor stands for all of them.
        self.keeps_cursor = self.places == 1
        self.busy = asyncio.Lock()  # with wishes, or with beginning and ending a session
        self.last_id = 1

    def post(self, visit, method, params=None, notification=False):
        self.last_id += 1
        return post(message(method, params, None if notification else self.last_id),
                    session_fields(visit.id))

    async def request(self, visit, method, params, then):
        if self.likely(0.1):  # a connection that breaks; the request may have arrived
            link = await Link.open(self.world.port)
            link.send(self.post(visit, method, params))
            await self.rest(0, 0.001, 0.01)
            link.close(self.likely(0.5))
            # Connections have no order: it may undo what is asked for after it.
            visit.late.add(params['uri'])
            if method.endswith('/unsubscribe'):  # a second one would find nothing
                return True
        status, _, answer = await self.within(
            ask(self.world.port, self.post(visit, method, params)), method)
        detail = answer.get('error', {}).get('data', {}).get('detail')
        if status == 404 or detail == 'the session has ended':
            return self.lost(visit)
        then(answer)
        return True

    def lost(self, visit):
        """404: the session is gone, and the client initialises again."""
        if not visit.over:
            visit.over = True
            self.note('404')
            self.world.counts['sessions lost'] += 1
            if not self.world.may_forget:
                self.world.wrong(self, 'the server has ended the session')
        return False

    async def begin(self):
        """Sees to it that there is a session in which all is subscribed to."""
        while self.visit is None or self.visit.over:
            self.world.spend('initialize')
            _, fields, _ = await self.within(
                ask(self.world.port, initialize(self.version)), 'initialize')
            self.visit = visit = Visit(fields['mcp-session-id'])
            self.note(f'initialize {self.version}: {visit.id}')
            await self.within(ask(self.world.port, self.post(
                visit, 'notifications/initialized', notification=True)), 'initialized')
            await self.settle(visit)

    async def end(self):
        """DELETE. What is caused after its answer is told to nobody."""
        visit = self.visit
        visit.over = True
        self.note('DELETE')
        status, _, _ = await self.within(
            ask(self.world.port, head('DELETE', '/mcp', session_fields(visit.id))), 'DELETE')
        if status != 204 and not self.world.may_forget:
            self.world.wrong(self, f'DELETE: {status}')
        visit.asked.clear()
        self.fence(visit)

    async def live(self):
        await self.begin()
        async with asyncio.TaskGroup() as group:
            for place in range(self.places):
                group.create_task(self.hold(place))
            while await self.world.wait_chaos():
                self.world.spend('wishes')
                async with self.busy:
                    await self.begin()
                    await (self.end() if self.likely(0.03) else self.wish())
                await self.rest(0, 0.02, 0.1)
            async with self.busy:
                await self.end()

    # ---- GET streams

    async def hold(self, place):
        """A GET stream that comes back. The first place always does; another may be given up,
        and begins anew without an id."""
        while True:
            if place > 0 and self.likely(0.5):
                self.visit.last_ids.pop(place, None)
                await self.world.chaos.wait()
            async with self.busy:
                if self.world.leaving:
                    return
                await self.begin()
            self.world.spend('streams')
            await self.listen(self.visit, place)
            await self.rest(0, 0, 0.005, 0.05)

    async def listen(self, visit, place):
        """One GET: reads, or in the end does not, and breaks off at some time."""
        last_id = visit.last_ids.get(place)
        if self.likely(0.1):
            last_id = None
        stream = self.stream()
        link = await Link.open(self.world.port)
        link.send(get(visit.id, [('Last-Event-ID', last_id)] if last_id else []))
        self.note(f'#{stream.number} GET at place {place} from {last_id}')
        reading = asyncio.create_task(self.read(visit, place, stream, link))
        await self.endure(reading, link)
        self.note(f'#{stream.number} closed')

    async def read(self, visit, place, stream, link):
        try:
            status, _ = await self.within(link.head(), 'answer to GET')
            if status == 404:
                return self.lost(visit)
            if status == 409:  # the server has not noticed yet that others are gone
                return self.note('409')
            if status != 200:
                return self.world.wrong(self, f'GET: {status}')
            async for event_id, _, message in link.events():
                self.take(visit, place, stream, event_id, message)
            self.note(f'#{stream.number} ended by the server')
        except LOST as error:
            self.note(f'#{stream.number} lost: {type(error).__name__}')

    def take(self, visit, place, stream, event_id, message):
        if event_id in visit.event_ids:
            self.world.wrong(self, f'#{stream.number} event id {event_id} came twice')
        if event_id:
            visit.event_ids.add(event_id)
            visit.last_ids[place] = event_id
        self.told(visit, stream, message)

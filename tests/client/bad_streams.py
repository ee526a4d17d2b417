# SPDX-License-Identifier: MIT
"""Streams that end, lie, repeat themselves or fall silent."""
import threading
import time

from bad_server import Server, event, json_body, silence, status
from driver import tap
from scene import (A, B, C, WHILE_AWAY, both, each_kind, listen_kind, scene,
                   told_after_gap)

LISTED = {'jsonrpc': '2.0', 'method': 'notifications/resources/list_changed'}


def ends_in_order(era, ours):
    """Without a completion, but as HTTP has it."""
    with scene(era, ours, (A, B)) as (server, client):
        number = server.change(A, tell=False)
        server.one_stream().end()
        client.returns()
        told_after_gap(server, client, A, number)
        if not ours:
            client.mark = 0
            client.updated(B, maybe=True)
        server.one_stream([A, B])
        number = server.change(B)
        client.updated(B, version=number if ours else None)


def completes(era='modern'):
    with scene(era, True, (A, B)) as (server, client):
        stream = server.one_stream()
        number = server.change(A, tell=False)
        stream.complete()
        client.returns()
        client.updated(A, version=number)
        client.none('updated', since=0, uri=B)


def closes_with_a_retry(era='legacy'):
    """Nobody comes back sooner than the server wants."""
    server = Server(era)
    server.retry = 1500
    with scene(era, server=server) as (server, client):
        stream = server.one_stream()
        ended = time.monotonic()
        stream.end()
        again = server.request('GET', 2)
        tap.check(again.at - ended >= 1.45, f'it came back after {again.at - ended:.2f} s')
        client.event('up')


def twice_and_out_of_order(era):
    with scene(era, True, (A, B)) as (server, client):
        stream = server.one_stream()
        first, second = server.change(A, tell=False), server.change(A, tell=False)
        for number in (second, second, first):
            stream.tell(A, number, second)
        marker = server.change(B)
        client.updated(B, version=marker)
        told = [e['version'] for e in client.events if e.get('uri') == A]
        tap.same(told, [second], 'what is told of it')
        tap.same(client.does('counts')['repeated'], 2, 'what was dropped')


def twice_from_a_stranger(era):
    """Without versions nobody can tell: each is told."""
    with scene(era, False) as (server, client):
        for _ in range(3):
            server.change(A)
            client.updated(A)
        tap.same(client.does('counts')['repeated'], 0, 'what was dropped')


def late(era, ours):
    """An update that is long on its way, in pieces, is still one."""
    with scene(era, ours, timeout_ms=5000) as (server, client):
        stream = server.one_stream()
        number = server.change(A, tell=False)
        data = stream.update(A, number)
        for byte in data:
            stream.send(bytes([byte]))
            time.sleep(6 / len(data))
        client.updated(A, version=number if ours else None)
        tap.same([e for e in client.events if e['event'] != 'updated'], [], 'nothing else')


def restarts(era, ours):
    """A new life counts anew: versions of the old one mean nothing."""
    with scene(era, ours, (A, B), **WHILE_AWAY) as (server, client):
        for _ in range(5):
            number = server.change(A)
        client.updated(A, version=number if ours else None)
        server.close()
        client.event('down')
        seen = client.mark
        server.forget()
        server.number = 1
        server.versions = dict.fromkeys(server.versions, 1)
        server.open()
        client.event('up')
        server.one_stream([A, B])
        for uri in (A, B):
            client.mark = seen
            client.updated(uri)
        # What came with the return may come twice; a change from now on is one of its own.
        client.now()
        number = server.change(A)
        client.updated(A, version=number) if ours else client.updated(A)


def without_a_uri(era):
    """What is not acknowledged after a return is lost, and said to be; the rest goes on."""
    with scene(era, True, (A, B)) as (server, client):
        server.refused.add(B)
        if era == 'legacy':
            server.forget()
        server.one_stream().cut()
        lost = client.event('lost', uri=B)
        tap.same(lost['code'], 'TDG_EREFUSED', 'why')
        server.one_stream([A])
        client.now()
        number = server.change(A)
        client.updated(A, version=number)
        tap.same(client.does('subscriptions')['uris'], [A], 'what is subscribed')


def refused_at_first(era):
    with scene(era, True) as (server, client):
        server.refused.add(B)
        client.fails('subscribe', 'TDG_EREFUSED', uri=B)
        answer = client.ask('subscribe_all', uris=[C, B])
        tap.same(answer['codes'], ['TDG_OK', 'TDG_EREFUSED'], 'the outcome of each')
        tap.same(sorted(client.does('subscriptions')['uris']), [A, C], 'what is subscribed')
        server.one_stream([A, C])
        for uri in (A, C):
            number = server.change(uri)
            client.updated(uri, version=number)


def refused_for_now(era, code):
    """The server has its troubles, and is asked again; nobody else notices."""
    with scene(era, False, (A,)) as (server, client):
        kind = 'resources/subscribe' if era == 'legacy' else 'subscriptions/listen'
        refuse = status(503) if code == 503 else (
            lambda request: server.error(request, code, 'not now'))
        server.on(kind, refuse, times=3)
        before = len(server.seen(kind))
        client.does('subscribe', uri=B)
        tap.same(len(server.seen(kind)) - before, 4, 'requests')
        server.one_stream([A, B])
        server.change(B)
        client.updated(B)
        client.none('down', since=0)
        tap.same(client.does('counts')['retrying'], 0, 'what still waits')


def update_before_acknowledgement(ours):
    """Not allowed, and still not lost."""
    server = Server('modern', ours)
    with scene(server=server) as (server, client):
        def hasty(request):
            from bad_server import Stream
            stream = Stream(request, {A, B}, None, request.id)
            stream.begin()
            stream.tell(B, 50, 50)
            stream.acknowledge([A, B])
            server.begun(stream)
            return server.run(stream)
        server.on('subscriptions/listen', hasty, times=1)
        client.does('subscribe', uri=B)
        client.updated(B)


def replaced_without_a_gap(era, ours):
    """Changes while the set of subscriptions changes: every one is told."""
    with scene(era, ours) as (server, client):
        last = 0
        for uri in (B, C):
            waiting = client.start('subscribe', uri=uri)
            for _ in range(20):
                last = server.change(A)
            tap.same(client.driver.answer(waiting)['code'], 'TDG_OK', 'subscribing')
        server.one_stream([A, B, C])
        if ours:
            client.updated(A, version=last)
            versions = [e['version'] for e in client.events if e.get('uri') == A]
            tap.same(versions, sorted(set(versions)), 'never backwards, never twice')
        else:
            client.updated(A)
        client.none('down', since=0)
        for uri in (A, B, C):
            client.now()
            server.change(uri)
            client.updated(uri)


def silent_after_unsubscribe(era, ours):
    """A server that goes on about it all the same."""
    with scene(era, ours, (A, B)) as (server, client):
        client.does('unsubscribe', uri=A)
        stream = server.stream()
        client.now()
        number = server.change(A, tell=False)
        stream.tell(A, number)
        stream = server.one_stream([B])
        stream.tell(A, number)
        stream.tell(B, server.change(B, tell=False))
        client.updated(B)
        client.none('updated', since=0, uri=A)
        client.none('deleted', since=0, uri=A)
        client.fails('unsubscribe', 'TDG_ENOTFOUND', uri=A)


def keepalives_stop(era):
    """A server that has announced signs of life, and gives none."""
    server = Server(era)
    server.keepalive_ms = 2000
    with scene(era, server=server) as (server, client):
        # A sign counts once the next one has come, after a pause: they go on until two have.
        tap.until(lambda: server.stream().comment() and client.does('counts')['keepalives'] >= 2,
                  'they are not counted', pause=0.2)
        number = server.change(A, tell=False)
        client.returns()
        client.updated(A, version=number)


def too_quiet(era, ours):
    """Without an announcement: a stream beside it shows what was missed, and nothing is down."""
    with scene(era, ours, quiet_ms=3000) as (server, client):
        client.does('read', uri=A)
        number = server.change(A, tell=False)
        if ours:
            client.updated(A, version=number)
        else:
            client.updated(A, polled=True, maybe=None)
        server.request(listen_kind(era), 2)
        server.one_stream([A])
        client.none('down', since=0)
        client.now()
        server.change(A)
        client.updated(A)


def never_silent_without_promise(era):
    """A stream that has shown no sign of life is not given up for its silence."""
    with scene(era, True, timeout_ms=3000) as (server, client):
        rule = server.on('resources/read', silence)
        for _ in range(3):  # by the client's own clock, three times as long as it waits for answers
            client.fails('read', 'TDG_ETIMEDOUT', uri=A)
        server.off(rule)
        client.none('down', since=0)
        number = server.change(A)
        client.updated(A, version=number)
        tap.same(len(server.seen(listen_kind(era))), 1, 'streams')


def nonsense_on_a_stream(era):
    """Is put up with: what comes after it counts."""
    rubbish = [
        b'data: {"jsonrpc": "2.0", "method"\n\n', b'data: []\n\n', b'data: 17\n\n', b'data: null\n\n',
        b'data: {"jsonrpc": "1.0", "method": "notifications/resources/updated"}\n\n',
        b'data: {"jsonrpc":"2.0","method":"notifications/resources/updated"}\n\n',
        b'data: {"jsonrpc":"2.0","method":"notifications/resources/updated","params":[]}\n\n',
        b'data: {"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":5}}\n\n',
        b'data: {"jsonrpc":"2.0","method":"notifications/who/knows","params":{"x":1}}\n\n',
        b'data: {"jsonrpc":"2.0","id":987654,"result":{}}\n\n',
        b'data: {"jsonrpc":"2.0","id":"x","error":{"code":1,"message":"?"}}\n\n',
        b'data: \xff\xfe\xfd\n\n', b'\x00\x01\x02\n\n', b'event: ping\ndata: {}\n\n', b'nonsense\n\n',
        b'data: {"a":' + b'[' * 2000 + b']' * 2000 + b'}\n\n', b'retry: soon\n\n', b'id: \x00\n\n',
        b':' + b'x' * 5000 + b'\n\n',
    ]
    with scene(era, True) as (server, client):
        stream = server.one_stream()
        for piece in rubbish:
            stream.send(piece)
        number = server.change(A)
        client.updated(A, version=number)
        client.none('down', since=0)
        tap.same(len([e for e in client.events if e['event'] == 'updated']), 1, 'updates')


def too_large_on_a_stream(era):
    """Is a loss, and found out long before memory is."""
    with scene(era, True, max_message_bytes=100000) as (server, client):
        stream = server.one_stream()
        number = server.change(A, tell=False)  # before: the client is back within milliseconds
        stream.send(b'data: {"jsonrpc":"2.0","method":"notifications/message","params":{"data":"')
        for _ in range(2000):
            if not stream.send(b'x' * 20000):
                break
        client.returns()
        client.updated(A, version=number)
        grown = client.driver.memory() / 2**20
        tap.note(f'peak memory {grown:.0f} MiB')
        server.one_stream([A])
        number = server.change(A)
        client.updated(A, version=number)


def no_stream_but_requests(era):
    """One broken stream does not break requests."""
    with scene(era, True) as (server, client):
        rule = server.on(listen_kind(era), silence)
        server.one_stream().cut()
        client.event('down')
        server.request(listen_kind(era), 2)
        for _ in range(3):
            client.does('read', uri=A)
            client.does('list', list='tools')
            client.does('call', tool='act')
        number = server.change(A, tell=False)
        server.off(rule)
        server.requests[-1].conn.cut()
        for request in server.seen(listen_kind(era)):
            request.conn.cut()
        client.updated(A, version=number)
        if era == 'legacy':
            tap.same(client.does('counts')['initialised'], 1, 'sessions')


def answered_as_json():
    """A listen that is answered as if it were any request."""
    server = Server('modern')
    with scene(server=server, uris=()) as (server, client):
        server.on('subscriptions/listen', lambda request: server.error(
            request, -32601, 'no such method', 404))
        answer = client.ask('subscribe', uri=A)
        tap.check(answer['code'] in ('TDG_ENOTSUP', 'TDG_EREFUSED'), f'404: {answer}')
        server.off()
        server.on('subscriptions/listen', json_body(b'<html>', 'text/html'), times=1)
        answer = client.ask('subscribe', uri=A, seconds=90)
        tap.check(answer['code'] in ('TDG_EJSON', 'TDG_OK'), f'html: {answer}')
        client.does('ping')


def no_get_stream():
    """Legacy without a GET stream: updates cannot arrive, and that is said."""
    server = Server('legacy')
    server.on('GET', status(405, Allow='POST'))
    with scene(server=server, uris=()) as (server, client):
        client.fails('subscribe', 'TDG_ENOTSUP', uri=A)
        client.does('read', uri=A)
        client.does('subscribe', uri=A, opts={'poll_ms': 200})
        server.change(A, tell=False)
        client.updated(A, polled=True)


def never_acknowledged():
    """A listen that is opened, and nothing else."""
    with scene('modern', uris=(), timeout_ms=5000) as (server, client):
        def mute(request):
            from bad_server import Stream
            Stream(request, set(), None, request.id).begin()
            return silence(request)
        rule = server.on('subscriptions/listen', mute)
        answer = client.fails('subscribe', 'TDG_ETIMEDOUT', uri=A)
        tap.check(answer['message'], 'it says what happened')
        server.off(rule)
        client.does('subscribe', uri=B)
        client.updated(B, version=server.change(B))


def lists_after_a_gap(era, ours):
    """What was wanted of lists is wanted after a return, too."""
    with scene(era, ours) as (server, client):
        client.does('watch_lists', lists=['resources', 'tools'])
        stream = server.one_stream([A])
        changed = dict(LISTED)
        meta = stream.meta()
        changed['params'] = {'_meta': meta} if meta else {}
        stream.send(event(changed))
        client.event('list_changed', list='resources', maybe=None)
        stream.cut()
        client.event('up')
        if not ours:
            at = client.mark
            client.event('list_changed', list='resources', maybe=True)
            client.mark = at
            client.event('list_changed', list='tools', maybe=True)
        stream = server.one_stream([A])
        client.now()
        stream.send(event(changed))
        client.event('list_changed', list='resources', maybe=None)


def rereads_collapse(era):
    """With reread: one read at a time per resource, and the last content is the newest."""
    with scene(era, True, uris=(), timeout_ms=60000) as (server, client):
        client.does('subscribe', uri=A, opts={'reread': True})
        running, most, all_told = [0], [0], threading.Event()

        def slow(request):
            running[0] += 1
            most[0] = max(most[0], running[0])
            all_told.wait(tap.WAIT)
            time.sleep(0.1)
            running[0] -= 1
        server.on('resources/read', slow)
        for _ in range(30):
            last = server.change(A)
        all_told.set()
        client.updated(A, contents=lambda c: c and c[0]['text'] == f'{A} {last}')
        tap.same(most[0], 1, 'reads at the same time')
        tap.check(len(server.seen('resources/read')) < 15, 'updates meanwhile make one more read')


def same_after_a_gap(era):
    """With reread, what turns out the same after a gap is not told; what changed is."""
    with scene(era, False, uris=()) as (server, client):
        client.does('subscribe_all', uris=[A, B], opts={'reread': True})
        stream = server.one_stream([A, B])
        for uri in (A, B):  # there is something to compare with
            server.change(uri)
            client.updated(uri)
        server.change(B, tell=False)
        stream.cut()
        client.event('up')
        found = client.updated(B)
        tap.check(found['contents'][0]['text'].startswith(B), 'with contents')
        server.one_stream([A, B])
        server.change(B)
        client.updated(B)
        client.none('updated', since=found and client.events.index(found), uri=A)


def deleted(era):
    """The update says so."""
    with scene(era, True, (A, B)) as (server, client):
        stream = server.one_stream()
        number = server.change(A, tell=False)
        stream.send(event({'jsonrpc': '2.0', 'method': 'notifications/resources/updated', 'params': {
            'uri': A, 'metadata': {'change_type': 'deleted'}, '_meta': stream.meta(number)}}))
        client.event('deleted', uri=A, version=number)
        number = server.change(A)
        client.updated(A, version=number)


def gone_at_reread(era):
    with scene(era, True, uris=()) as (server, client):
        client.does('subscribe', uri=A, opts={'reread': True})
        stream = server.one_stream([A])
        del server.versions[A]
        server.number += 1
        stream.tell(A, server.number)
        client.event('deleted', uri=A)


def main():
    each_kind('streams', 'one that ends without completion comes back, and tells', ends_in_order)
    tap.run('streams: graceful completion', completes)
    tap.run('streams: not before the time that the server asked for', closes_with_a_retry)
    both('streams', 'repeated and older updates are dropped', twice_and_out_of_order)
    both('streams', 'nothing is dropped without versions', twice_from_a_stranger)
    each_kind('streams', 'an update that comes byte by byte', late)
    each_kind('streams', 'the server restarts', restarts)
    both('streams', 'a resource that is refused after a return', without_a_uri)
    both('streams', 'a resource that is refused at once', refused_at_first)
    for code in (-32006, -32603, 503):
        both('streams', f'a resource that is refused for now with {code}', refused_for_now, code=code)
    for ours in (True, False):
        tap.run(f'streams: an update before the acknowledgement ({"ours" if ours else "a stranger"})',
                update_before_acknowledgement, ours)
    each_kind('streams', 'more subscriptions without a gap', replaced_without_a_gap)
    each_kind('streams', 'nothing comes after unsubscribing', silent_after_unsubscribe)
    both('streams', 'keep-alives that were announced and stop', keepalives_stop)
    each_kind('streams', 'silence is looked into', too_quiet)
    both('streams', 'silence without a promise is no loss', never_silent_without_promise)
    both('streams', 'nonsense in between', nonsense_on_a_stream)
    both('streams', 'a message that is too large', too_large_on_a_stream)
    both('streams', 'a broken one does not break requests', no_stream_but_requests)
    tap.run('streams: a listen that is answered as JSON', answered_as_json)
    tap.run('streams: a session without a stream', no_get_stream)
    tap.run('streams: a listen that is never acknowledged', never_acknowledged)
    each_kind('streams', 'lists', lists_after_a_gap)
    both('streams', 'reading again, once at a time', rereads_collapse)
    both('streams', 'what is the same after a gap is not told', same_after_a_gap)
    both('streams', 'deleted', deleted)
    both('streams', 'gone when it is read again', gone_at_reread)

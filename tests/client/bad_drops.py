# SPDX-License-Identifier: MIT
"""Connections that break at every byte: of an event, of a stream's head, of an answer."""
import json
import threading

from bad_server import Server, head, raw
from driver import Driver, tap
from scene import A, FAST, KINDS, called, listen_kind

PER_CLIENT = 90  # losses of one client within a minute: it may come back 120 times


def in_parallel(work, parts):
    """Each part by a thread of its own, some at a time. The first failure is raised."""
    failed, lock = [], threading.Semaphore(8)

    def one(part):
        with lock:
            try:
                work(*part)
            except BaseException as error:
                failed.append(error)

    threads = [threading.Thread(target=one, args=(part,)) for part in parts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]


def shared_out(count, per_client=PER_CLIENT):
    """range(count) in parts, each spread over the whole."""
    parts = -(-count // per_client)
    return [range(first, count, parts) for first in range(parts)]


def subscribed(driver, server, name):
    client = driver.client(name)
    client.connect(server.url, **FAST)
    client.does('subscribe', uri=A)
    server.one_stream([A])
    return client


def cut_events(driver, era, ours, closing, positions):
    """One client, whose stream breaks at each position in turn, in the middle of a change."""
    server = Server(era, ours, closing=closing)
    client = subscribed(driver, server, f'{era} {ours} {closing} {positions}')
    told = []
    for position in positions:
        stream = server.one_stream([A])
        client.now()
        number = server.change(A, tell=False)
        data = stream.framed(stream.update(A, number))
        stream.conn.send(data[:position])
        stream.cut(reset=position % 5 == 4)
        if ours:
            told.append(number)
            client.updated(A, version=number)
        else:
            client.doubted(A)
    if ours:
        versions = [e.get('version') for e in client.events if e['event'] == 'updated']
        tap.same(versions, told, 'every change is told once, in its order')
        opened = server.seen(listen_kind(era))[1:]
        if era == 'legacy':
            missing = [r for r in opened if 'last-event-id' not in r.fields]
        else:
            missing = [r for r in opened if 'dev.tidings/cursor' not in r.meta]
        tap.same(missing, [], 'who comes back says from where')
    server.one_stream([A])
    counts = client.does('counts')
    tap.same(counts['reconnects'], len(positions), 'how often it came back')
    if era == 'legacy':
        tap.same(counts['initialised'], 1, 'a broken stream is not a lost session')
    client.does('close')
    server.close()


def at_every_byte_of_an_event(era, ours, closing):
    """Positions count in what is on the wire, chunk sizes and all."""
    probe = Server(era, ours, closing=closing)
    driver = Driver()
    try:
        subscribed(driver, probe, 'probe')
        stream = probe.one_stream([A])
        length = len(stream.framed(stream.update(A, 100, 100)))
        tap.note(f'{length} positions')
        in_parallel(cut_events, [(driver, era, ours, closing, part)
                                 for part in shared_out(length + 1)])
        driver.stop()
    finally:
        driver.kill()
        probe.close()


STREAM_HEAD = head(200, [('Content-Type', 'text/event-stream'),
                         ('Transfer-Encoding', 'chunked')])


def cut_heads(driver, era, positions):
    server = Server(era, True)
    client = subscribed(driver, server, f'head {era} {positions}')
    for position in positions:
        stream = server.one_stream([A])
        server.on(listen_kind(era), raw(STREAM_HEAD[:position]), times=1)
        number = server.change(A, tell=False)
        stream.cut()
        client.updated(A, version=number)
    client.does('close')
    server.close()


def at_every_byte_of_a_head(era):
    driver = Driver()
    try:
        in_parallel(cut_heads, [(driver, era, part)
                                for part in shared_out(len(STREAM_HEAD) + 1, 40)])
        driver.stop()
    finally:
        driver.kill()


def answer_bytes(request, result):
    body = json.dumps({'jsonrpc': '2.0', 'id': request.id, 'result': result}).encode()
    return head(200, [('Content-Type', 'application/json'),
                      ('Content-Length', len(body))]) + body


def cut_after(position, result):
    def action(request):
        request.conn.send(answer_bytes(request, result)[:position])
        return False
    return action


def at_every_byte_of_an_answer(era, kind, does, result, repeated):
    """What may have been done is not asked for twice; what only looks may be."""
    server, driver = Server(era), Driver()
    client = driver.client()
    try:
        client.connect(server.url, **FAST)
        client.ask(**does)
        lengths = []
        server.on(kind, lambda r: lengths.append(len(answer_bytes(r, result))), times=1)
        client.does(**does)
        for position in range(lengths[0] - 1):
            before = len(server.seen(kind))
            server.on(kind, cut_after(position, result), times=1)
            if repeated:
                client.does(**does)
            else:
                tap.same(client.ask(**does)['code'], 'TDG_EUNREACHABLE', 'what is reported')
            tap.same(len(server.seen(kind)) - before, 2 if repeated else 1,
                     f'requests after a cut at {position}')
        client.does('ping')
        driver.stop()
    finally:
        driver.kill()
        server.close()


def main():
    for era, ours in KINDS:
        for closing in (False, True):
            way = 'ended by the connection' if closing else 'in chunks'
            tap.run(f'drops: at every byte of an event {way} ({called(era, ours)})',
                    at_every_byte_of_an_event, era, ours, closing)
    for era in ('modern', 'legacy'):
        tap.run(f'drops: at every byte of the head of a stream ({era})',
                at_every_byte_of_a_head, era)
        tap.run(f'drops: at every byte of the answer to a call ({era})',
                at_every_byte_of_an_answer, era, 'tools/call',
                {'do': 'call', 'tool': 'act', 'arguments': {}},
                {'resultType': 'complete', 'content': [{'type': 'text', 'text': 'done'}]}, False)
        tap.run(f'drops: at every byte of the answer to a read ({era})',
                at_every_byte_of_an_answer, era, 'resources/read', {'do': 'read', 'uri': A},
                {'resultType': 'complete', 'contents': [{'uri': A, 'text': 'x'}]}, True)

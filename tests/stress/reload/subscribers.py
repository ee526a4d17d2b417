# SPDX-License-Identifier: MIT
"""Subscribers of every kind. Each remembers what it was last notified of; the one of lists reads
the list after every notification, as clients do."""
import hashlib
import threading
import time

from lib import tap
from lib.wire import Gone, Session, open_listen, updated

MARK = 'mark://1'


class Subscriber:
    def __init__(self, name, stream, uris=()):
        self.name, self.stream, self.uris = name, stream, set(uris)
        self.last = {}  # by URI: kind of the change and checksum
        self.trace = []
        self.mark = None
        self.ended = None
        self.thread = threading.Thread(target=self.follow, daemon=True)
        self.thread.start()

    def follow(self):
        try:
            while True:
                self.take(self.stream.event(seconds=3600))
        except (Gone, OSError, AssertionError, ValueError) as error:
            self.ended = str(error)

    def take(self, message):
        if not updated()(message):
            return
        uri, metadata = message['params']['uri'], message['params'].get('metadata') or {}
        if uri == MARK:
            self.mark = metadata.get('checksum')
            return
        self.last[uri] = (metadata.get('change_type'), metadata.get('checksum'))
        self.trace.append((time.monotonic(), uri, *self.last[uri]))

    def covers(self, uri):
        return uri in self.uris

    def complaints(self, before, truth):
        """What it was last notified of, where that is not how things are."""
        found = []
        for uri in filter(self.covers, sorted({*before, *truth, *self.last})):
            last, text = self.last.get(uri), truth.get(uri)
            if last is None:
                right = text == before.get(uri)
            elif last[0] == 'deleted':
                right = text is None
            else:
                right = text is not None and last[1] in (None, checksum(text))
            if not right:
                found.append(f'{self.name}: {uri} was last notified as {last}, holds {text!r} '
                             f'({text and checksum(text)}), at first {before.get(uri)!r}')
        return found


class OfTemplates(Subscriber):
    def covers(self, uri):
        return any(uri.startswith(template.partition('{')[0]) for template in self.uris)


class OfLists(Subscriber):
    def __init__(self, name, stream, read_list):
        self.read_list = read_list
        self.listed = read_list()
        super().__init__(name, stream)

    def take(self, message):
        super().take(message)
        if message.get('method') == 'notifications/resources/list_changed':
            self.listed = self.read_list()

    def complaints(self, before, truth):
        return []

    def list_complaints(self, listed):
        if self.listed == listed:
            return []
        return [f'{self.name}: missing {sorted(listed - self.listed)[:5]}, '
                f'too many {sorted(self.listed - listed)[:5]}']


def checksum(text):
    return 'sha256:' + hashlib.sha256(text.encode()).hexdigest()


def subscribe(session, uri, exists):
    """Asks to wait for what does not exist yet; False where its source can never have it."""
    meta = {} if exists else {'_meta': {'dev.tidings/options': {'awaitCreation': True}}}
    request = session.request('resources/subscribe', {'uri': uri, **meta})
    answer = session.conn.ask(request).json()
    tap.check('result' in answer or not exists, f'{uri} exists: {answer}')
    return 'result' in answer


def subscribe_all(served, uris, templates, existing):
    """One of each kind, all acknowledged."""
    def read_list():
        return {entry['uri'] for entry in served.pages()[0]}

    session = Session(served.port)
    stream = session.stream()
    uris = [uri for uri in [*uris, MARK] if subscribe(session, uri, uri in existing)]
    return [
        Subscriber('legacy', stream, uris),
        Subscriber('modern', open_listen(served.port, uris), uris),
        OfTemplates('templates', open_listen(served.port, [*templates, MARK]), templates),
        OfLists('lists', open_listen(served.port, [MARK], resourcesListChanged=True), read_list),
    ]

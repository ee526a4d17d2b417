# SPDX-License-Identifier: MIT
"""Places: each is a URI, or a template, that one entry of the config has at a time. Of which kind
that entry is may change with any reload; what backs each kind is real, and changes by itself.
Where two places have a URI, it is the later one's."""
import http.server
import json
import os
import shutil
import socket
import sqlite3
import threading
import time

from lib import tap
from lib.wire import Conn, listen
from reload.subscribers import checksum

PUSHED = ('memory', 'webhook')


def write(path, text):
    """In one step, so that nobody reads a half."""
    with open(path + '.new~', 'w', encoding='ascii') as file:
        file.write(text)
    os.rename(path + '.new~', path)


def save(path, text, pause=0):
    """As `>` and editors do it: emptied, then half of it, then the whole; where the folder has
    gone meanwhile, not at all."""
    try:
        with open(path, 'w', encoding='ascii') as file:
            file.write(text[:len(text) // 2])
            file.flush()
            time.sleep(pause)
            file.write(text[len(text) // 2:])
    except OSError:
        pass


def link(path, target):
    """In one step, as write()."""
    os.symlink(target, path + '.new~')
    os.rename(path + '.new~', path)


def read(path):
    try:
        with open(path, encoding='ascii') as file:
            return file.read()
    except (FileNotFoundError, NotADirectoryError):
        return None


class Place:
    """`kinds` are those that its entry may be of."""

    def __init__(self, world, uri, kinds):
        self.world, self.chance, self.uri, self.kinds = world, world.chance, uri, kinds
        self.kind = self.chance.choice(kinds)  # None: it has no entry
        self.options = 0  # a number that is part of the entry
        self.waits = {}  # how saves are waited for, in an entry of the kind `files`
        self.choose_waits()

    def alter(self):
        """Another entry: often the same kind with another option."""
        draw = self.chance.random()
        if self.chance.random() < 0.3:
            self.choose_waits()
        if draw < 0.6 or len(self.kinds) == 1:
            self.options += 1
        elif draw < 0.9:
            self.kind = self.chance.choice(self.kinds)
        else:
            self.kind = None

    def choose_waits(self):
        settle = self.chance.choice([None, '0s', '20ms', '200ms', '500ms'])
        poll = self.chance.choice([None, None, None, '50ms'])
        self.waits = {key: value for key, value in (('settle', settle), ('poll', poll)) if value}

    def save(self, path, text):
        """In one of the ways that files are saved in; some take a while, and end later."""
        draw = self.chance.random()
        if draw < 0.4:
            write(path, text)
        elif draw < 0.7:
            save(path, text)
        else:
            self.world.meanwhile(save, path, text, self.chance.choice([0.01, 0.1, 0.4]))

    def entry(self):
        return {**self.entry_of(self.kind), 'description': f'number {self.options}'}

    def is_pushed(self):
        return self.kind in PUSHED

    def close(self):
        """The round is over."""

    def fence(self, subscriber):
        """Changes what backs it, and waits until the subscriber is notified of that: whatever the
        source had still to notify of came before. What is pushed is notified at once."""

    def fence_uri(self, subscriber, uri, put):
        """One that comes and goes for this."""
        text = self.world.text().strip()
        put(text)
        tap.until(lambda: subscriber.ended or uri in subscriber.last, f'{uri} comes')
        put(None)
        tap.until(lambda: subscriber.ended or subscriber.last[uri][0] == 'deleted', f'{uri} goes')

    def publish(self, uri, text):
        """Whether it is taken depends on what the entry is now."""
        self.world.publish({'uri': uri, 'content': text} if text is not None
                           else {'uri': uri, 'deleted': True})


class Tree(Place):
    """A folder, with folders in it that come and go, and links to files, also where nothing is
    watched; or what is published under its names. Its entry may turn to another folder."""
    LINKS = {'link': '', 'a/link': '../'}
    TARGETS = ['x', 'b/c/y', 'skip/x', '.store/x', '.store/y']

    def __init__(self, world, bulk):
        super().__init__(world, 'tree://{+path}', ['files', 'files', 'files', 'memory'])
        self.roots = [os.path.join(world.folder, name) for name in ('tree', 'other')]
        self.root = self.roots[0]
        self.skip = False
        names = [f'{folder}{name}' for folder in ('', 'a/', 'b/', 'b/c/', 'skip/')
                 for name in 'xyz']
        self.names = [*names, '.hidden/x', *self.LINKS]
        for root in self.roots:
            os.makedirs(os.path.join(root, '.store'))
            os.mkdir(os.path.join(root, 'bulk'))
        self.bulk = [f'bulk/{number}' for number in range(bulk)]
        for name in self.bulk[::2]:
            write(os.path.join(self.root, name), name)

    def uris(self):
        return ['tree://' + name for name in self.names]

    def alter(self):
        super().alter()
        self.skip = self.chance.random() < 0.3
        if self.chance.random() < 0.3:
            self.root = self.chance.choice(self.roots)

    def entry_of(self, kind):
        if kind == 'memory':
            return {'memory': self.uri, 'max-items': 5000 + self.options}
        return {'files': self.root, 'uri': self.uri, **self.waits,
                **({'exclude': ['skip']} if self.skip else {})}

    def change(self):
        name, draw = self.chance.choice(self.names), self.chance.random()
        root = self.chance.choice([self.root, *self.roots])
        path = os.path.join(root, name)
        text = self.world.text()
        if draw < 0.1:
            self.publish('tree://' + name, text)
        elif draw < 0.3:
            shutil.rmtree(os.path.join(root, self.chance.choice(['a', 'b', 'b/c', 'skip'])),
                          ignore_errors=True)
        elif draw < 0.45 and os.path.lexists(path):
            os.unlink(path)
        elif draw < 0.5 and self.bulk:
            self.change_bulk(text)
        elif draw < 0.6:
            self.save(os.path.join(root, self.chance.choice(self.TARGETS[-2:])), text)
        else:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            if name in self.LINKS and draw < 0.9:
                link(path, self.LINKS[name] + self.chance.choice(self.TARGETS))
            else:
                self.save(path, text)

    def change_bulk(self, text):
        first = self.chance.randrange(len(self.bulk))
        for name in self.bulk[first:first + 400]:
            path = os.path.join(self.root, name)
            if os.path.exists(path):
                os.unlink(path)
            else:
                write(path, text)

    def fence(self, subscriber):
        path = os.path.join(self.root, 'fence')
        if self.kind == 'files':
            self.fence_uri(subscriber, 'tree://fence', lambda text: write(path, text)
                           if text else os.unlink(path))

    def truth(self):
        """What is there by itself: the text of each URI."""
        found = {}
        for folder, folders, names in os.walk(self.root):
            folders[:] = [name for name in folders
                          if name[0] != '.' and not (self.skip and name == 'skip')]
            for name in names:
                path = os.path.join(folder, name)
                found['tree://' + os.path.relpath(path, self.root)] = read(path)
        return {uri: text for uri, text in found.items() if text is not None}

    def listed(self, truth):
        return truth.keys()


class Published(Place):
    """What exists only because it was published; that it is gone is published, too, which would be
    a lie about any other kind."""

    def __init__(self, world):
        super().__init__(world, 'pub://{x}', ['memory'])

    def uris(self):
        return ['pub://1', 'pub://2']

    def entry_of(self, kind):
        return {'memory': self.uri, 'max-items': 100 + self.options}

    def change(self):
        self.publish(self.chance.choice(self.uris()), self.chance.choice([self.world.text(), None]))

    def listed(self, truth):
        return truth.keys()


class Rows(Place):
    """The rows of a table."""

    def __init__(self, world):
        super().__init__(world, 'row://{id}', ['postgres', 'postgres', 'memory'])
        self.ids = range(1, 6)
        world.database.run('TRUNCATE item')

    def uris(self):
        return [f'row://{number}' for number in self.ids]

    def entry_of(self, kind):
        if kind == 'memory':
            return {'memory': self.uri, 'max-items': 1000 + self.options}
        return {'postgres': self.world.database.conninfo, 'table': 'item', 'key': 'id',
                'uri': self.uri, 'retry': '100ms'}

    def change(self):
        number, text = self.chance.choice(self.ids), self.world.text().strip()
        if self.chance.random() < 0.2:
            self.publish(f'row://{number}', text)
        else:
            self.put(number, text if self.chance.random() < 0.7 else None)

    def put(self, number, text):
        self.world.database.run(f"INSERT INTO item VALUES ({number}, '{text}') "
                                f"ON CONFLICT (id) DO UPDATE SET value = '{text}'" if text else
                                f'DELETE FROM item WHERE id = {number}')

    def fence(self, subscriber):
        if self.kind == 'postgres':
            self.fence_uri(subscriber, 'row://9', lambda text: self.put(9, text))

    def truth(self):
        rows = self.world.database.run("SELECT id || ' ' || value FROM item")
        pairs = [row.split(' ', 1) for row in rows]
        return {f'row://{number}': json.dumps({'id': int(number), 'value': value},
                                              separators=(',', ':')) for number, value in pairs}

    def listed(self, truth):
        return truth.keys() if self.is_pushed() else ()


class Query(Place):
    """What a query gives for each value of a variable. Nobody lists that, so a source that took its
    place could not know what is gone: it is always this one."""

    def __init__(self, world):
        super().__init__(world, 'query://{id}', ['postgres'])
        self.ids = range(1, 6)
        world.database.run('TRUNCATE said')

    def uris(self):
        return [f'query://{number}' for number in self.ids]

    def entry_of(self, kind):
        return {'postgres': self.world.database.conninfo, 'channel': 'said', 'uri': self.uri,
                'query': 'SELECT value FROM said WHERE id = :id', 'retry': '100ms'}

    def change(self):
        number, text = self.chance.choice(self.ids), self.world.text().strip()
        self.put(number, text if self.chance.random() < 0.7 else None)

    def put(self, number, text):
        self.world.database.run(
            f'BEGIN; DELETE FROM said WHERE id = {number}; ' +
            (f"INSERT INTO said VALUES ({number}, '{text}'); " if text else '') +
            f"NOTIFY said, '{number}'; COMMIT")

    def fence(self, subscriber):
        self.fence_uri(subscriber, 'query://9', lambda text: self.put(9, text))

    def truth(self):
        rows = self.world.database.run("SELECT id || ' ' || value FROM said")
        pairs = [row.split(' ', 1) for row in rows]
        return {f'query://{number}': json.dumps([{'value': value}], separators=(',', ':'))
                for number, value in pairs}

    def listed(self, truth):
        return ()


class One(Place):
    """One resource: a file, which a page, a program and the end of a log show as well; a row; or
    what others push. There are two of each that its entry may turn to."""

    KINDS = ['files', 'http', 'command', 'log', 'sqlite', *PUSHED]

    def __init__(self, world, number, uri=None):
        super().__init__(world, uri or f'one://{number}', self.KINDS)
        self.number = number
        self.paths = [os.path.join(world.folder, f'one-{number}{end}') for end in ('', '-too')]
        self.path = self.paths[0]
        for path in self.paths:
            write(path, world.text())
            with sqlite3.connect(path + '.db') as base:
                base.execute('CREATE TABLE t (value TEXT)')

    def alter(self):
        super().alter()
        if self.chance.random() < 0.3:
            self.path = self.chance.choice(self.paths)

    def uris(self):
        return [self.uri]

    def entry_of(self, kind):
        soon, uri, page = {'every': '100ms'}, {'uri': self.uri}, os.path.basename(self.path)
        return {'files': {'files': self.path, **uri, **self.waits},
                'http': {'http': f'http://127.0.0.1:{self.world.pages}/{page}', **uri, **soon},
                'command': {'command': ['sh', '-c', f'cat {self.path} 2>/dev/null; true'], **uri,
                            **soon},
                'log': {'log': self.path, **uri},
                'sqlite': {'sqlite': self.path + '.db', 'query': 'SELECT value FROM t', **uri, **soon},
                'memory': {'memory': self.uri},
                'webhook': {'webhook': f'/hooks/{self.number}', 'open': True, **uri}}[kind]

    def change(self):
        text, draw = self.world.text(), self.chance.random()
        path = self.chance.choice([self.path, *self.paths])
        if draw < 0.2:
            self.publish(self.uri, text)
        elif draw < 0.4:
            self.world.post(f'/hooks/{self.number}', text)
        elif draw < 0.5:
            self.put_row(path, text)
        elif draw < 0.6 and os.path.lexists(path):
            os.unlink(path)
        elif draw < 0.65:
            link(path, os.path.basename(path) + '.real')
        elif draw < 0.75:
            self.save(path + '.real', text)
        else:
            self.save(path, text)

    def put_row(self, path, text):
        base = sqlite3.connect(path + '.db', timeout=60)
        with base:
            base.execute('DELETE FROM t')
            base.execute('INSERT INTO t VALUES (?)', [text])
        base.close()

    def fence(self, subscriber):
        """There is only one, so what comes before its next text is looked at."""
        if self.is_pushed():
            return
        at, text = len(subscriber.trace), self.world.text()
        write(self.path, text)
        if self.kind == 'sqlite':
            self.put_row(self.path, text)
        text = checksum(self.truth()[self.uri])
        tap.until(lambda: subscriber.ended or subscriber.last.get(self.uri, (0, 0))[1] == text,
                  f'{self.uri} ({self.kind}) is notified')
        tap.check('deleted' not in [event[2] for event in subscriber.trace[at:]
                                    if event[1] == self.uri], f'{self.uri} is not deleted')

    def truth(self):
        text = read(self.path)
        if self.kind == 'sqlite':
            base = sqlite3.connect(self.path + '.db', timeout=60)
            rows = [{'value': value} for value, in base.execute('SELECT value FROM t')]
            base.close()
            text = json.dumps(rows, separators=(',', ':'))
        elif self.kind == 'command':
            text = text or ''
        return {self.uri: text} if text is not None else {}

    def listed(self, truth):
        return [self.uri]


class Over(One):
    """One resource with a URI that the tree has as well, while this has no entry. As a file it
    would be refused."""
    KINDS = [kind for kind in One.KINDS if kind != 'files'] + [None] * 2

    def __init__(self, world, number):
        super().__init__(world, number, 'tree://x')

    def change(self):
        """Also what the tree has there, which nobody is to be notified of meanwhile."""
        under = os.path.join(self.world.folder, 'tree', 'x')
        if self.chance.random() < 0.4:
            super().change()
        elif self.chance.random() < 0.7:
            write(under, self.world.text())
        elif os.path.lexists(under):
            os.unlink(under)


class Mute(Place):
    """A page that is never answered: whoever subscribes waits, until a reload brings another entry
    or none, or until the end."""

    def __init__(self, world):
        super().__init__(world, 'mute://1', ['http', 'http', 'memory', None])
        self.socket = socket.create_server(('127.0.0.1', 0))
        self.waiting = []

    def uris(self):
        return []

    def entry_of(self, kind):
        if kind == 'memory':
            return {'memory': self.uri}
        return {'http': f'http://127.0.0.1:{self.socket.getsockname()[1]}/', 'uri': self.uri,
                'timeout': '60s'}

    def change(self):
        conn = Conn(self.world.served.port)
        conn.send(listen([self.uri]))
        self.waiting.append(conn)
        if len(self.waiting) > 8:
            self.waiting.pop(0).close()

    def truth(self):
        return {}

    def listed(self, truth):
        return [self.uri]

    def close(self):
        for conn in self.waiting:
            conn.close()
        self.socket.close()


class Pages(http.server.ThreadingHTTPServer):
    """GET /NAME is the file NAME of a folder that may change from round to round."""
    daemon_threads = True

    def __init__(self):
        super().__init__(('127.0.0.1', 0), Page)
        self.folder = None
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, *_):
        """A connection that the server closes when its entry goes is no mistake."""


class Page(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'

    def do_GET(self):
        text = read(os.path.join(self.server.folder, self.path[1:]))
        body = (text or '').encode()
        self.send_response(200 if text is not None else 404)
        self.send_header('Content-Type', 'text/plain')
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass

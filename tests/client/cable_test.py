#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""cable_test.py [SECONDS [CHOSEN]]: `tidings serve` in one network namespace, the client in another, a
cable in between, and files that change all the time. The cable is cut for 30 s, or for so many,
then mended; or everything that the server sends is silently lost for as long, while what the client
sends arrives. Afterwards the watcher's picture has to equal what is on disk. Both eras. Writes TAP.

Nothing of the machine's own network is touched: this program runs itself again in a new network
namespace (and user namespace, where it is not root), which holds the server's end; the client's end
is in the namespace of a child. Both go with their processes, however those end. Where namespaces are
not allowed, the tests are skipped."""
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse

sys.dont_write_bytecode = True

from driver import HERE, Driver, tap  # noqa: E402

PROGRAM = os.environ.get('TDG_PROGRAM') or os.path.join(HERE, '..', '..', 'build', 'tidings')
INSIDE = 'TDG_CABLE_INSIDE'
NEAR, FAR = '192.0.2.1', '192.0.2.2'
FILES = 300
RATE = 100  # changes per second
LOST = '02:00:00:00:00:99'  # nobody has this address
ERAS = ('modern', 'legacy')
WAYS = {'cut and mended': ('cut', 'mend'), 'one direction lost': ('lose', 'find')}
seconds = 30.0
refusal = None  # why there can be no namespaces here


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True, timeout=tap.WAIT)
    tap.check(done.returncode == 0, f'{" ".join(command)}: {done.stderr.strip()}')
    return done.stdout


class Cable:
    """From this namespace to that of a child."""

    def __init__(self):
        # It says when it is there; it goes with us.
        self.child = subprocess.Popen(
            ['setpriv', '--pdeathsig', 'KILL', 'unshare', '-n', 'sh', '-c', 'echo; exec sleep 3600'],
            stdout=subprocess.PIPE)
        self.child.stdout.readline()
        self.inside = ['nsenter', '-t', str(self.child.pid), '-n']
        run('ip', 'link', 'set', 'lo', 'up')
        run('ip', 'link', 'add', 'near', 'type', 'veth', 'peer', 'name', 'far')
        run('ip', 'link', 'set', 'far', 'netns', str(self.child.pid))
        run('ip', 'addr', 'add', f'{NEAR}/24', 'dev', 'near')
        run('ip', 'link', 'set', 'near', 'up')
        run(*self.inside, 'ip', 'addr', 'add', f'{FAR}/24', 'dev', 'far')
        run(*self.inside, 'ip', 'link', 'set', 'lo', 'up')
        run(*self.inside, 'ip', 'link', 'set', 'far', 'up')
        shown = json.loads(run(*self.inside, 'ip', '-j', 'link', 'show', 'far'))
        self.address = shown[0]['address']

    def cut(self):
        run('ip', 'link', 'set', 'near', 'down')

    def mend(self):
        run('ip', 'link', 'set', 'near', 'up')

    def lose(self):
        """What goes to the client is sent to nobody."""
        run('ip', 'neigh', 'replace', FAR, 'lladdr', LOST, 'dev', 'near', 'nud', 'permanent')

    def find(self):
        run('ip', 'neigh', 'replace', FAR, 'lladdr', self.address, 'dev', 'near', 'nud',
            'permanent')

    def end(self):
        self.child.kill()
        self.child.wait()
        subprocess.run(['ip', 'link', 'del', 'near'], capture_output=True, timeout=tap.WAIT)


class World:
    """A folder that changes all the time, and the program that serves it."""

    def __init__(self, folder):
        self.folder = os.path.join(folder, 'files')
        os.mkdir(self.folder)
        self.texts, self.changes = {}, 0
        self.random = random.Random(1)
        for number in range(FILES):
            self.write(f'{number:03}')
        config = os.path.join(folder, 'tidings.yaml')
        with open(config, 'w', encoding='ascii') as file:
            file.write(f'server:\n  listen: "http://{NEAR}:0"\n  keepalive: 1s\n'
                       'resources:\n  - files: files\n    uri: world://{+path}\n')
        self.errors = tempfile.TemporaryFile()
        self.process = subprocess.Popen(
            ['setpriv', '--pdeathsig', 'KILL', PROGRAM, 'serve', '--config', config],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=self.errors)
        self.url = tap.until(self.listens, 'the program listens')
        self.ending = threading.Event()
        self.writer = threading.Thread(target=self.go_on, daemon=True)

    def listens(self):
        tap.check(self.process.poll() is None, f'it ended at once: {self.output()}')
        found = re.search(rf'http://{re.escape(NEAR)}:\d+/mcp', self.output())
        return found and found[0]

    def output(self):
        return tap.written(self.errors)

    def write(self, name):
        self.changes += 1
        text = f'{name}, change {self.changes}'
        with open(os.path.join(self.folder, name), 'w', encoding='ascii') as file:
            file.write(text)
        self.texts[f'world://{urllib.parse.quote(name)}'] = text

    def go_on(self):
        while not self.ending.wait(1 / RATE):
            self.write(f'{self.random.randrange(FILES):03}')

    def rest(self):
        self.ending.set()
        self.writer.join(tap.WAIT)

    def end(self):
        self.ending.set()
        self.process.terminate()
        try:
            code = self.process.wait(tap.WAIT)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise AssertionError('the program does not stop') from None
        tap.check(code == 0, f'the program ended with {code}: {self.output()[-3000:]}')


class Watcher:
    """What a program with our client believes: the last content of each resource."""

    def __init__(self, cable, url, era, **opts):
        self.driver = Driver(prefix=cable.inside)
        self.client = self.driver.client()
        self.client.connect(url, era=era, retry_ms=100, retry_max_ms=2000,
                            retry_per_minute=60, **opts)

    def watch(self, uris):
        """From now on changes are told, and what was before is read."""
        self.client.does('subscribe_all', uris=uris, opts={'reread': True})
        self.first = {}
        for uri in uris:
            answer = self.client.does('read', uri=uri)
            self.first[uri] = answer['result']['contents'][0]['text']

    def picture(self):
        """Events come in the order in which their contents were read."""
        seen = dict(self.first)
        for event in self.client.events:
            if event['event'] == 'updated' and event.get('contents'):
                seen[event['uri']] = event['contents'][0]['text']
        return seen


def a_cable_is(how, era):
    """The client has to notice while it is broken, although the stream was busy all the time."""
    if refusal is not None:
        raise tap.Skipped(f'namespaces are not allowed here ({refusal})')
    breaks, mends = WAYS[how]
    cable = Cable()
    with tempfile.TemporaryDirectory() as folder:
        world = watcher = None
        try:
            world = World(folder)
            watcher = Watcher(cable, world.url, era)
            client = watcher.client
            watcher.watch(sorted(world.texts))
            world.writer.start()
            tap.until(lambda: len(client.events) > 200, 'changes arrive')

            getattr(cable, breaks)()
            before = world.changes
            began = time.monotonic()
            client.event('down', seconds=seconds)
            tap.note(f'the client noticed after {time.monotonic() - began:.1f} s')
            time.sleep(max(0, began + seconds - time.monotonic()))
            missed = world.changes - before
            tap.check(missed > seconds * RATE / 10, f'changes went on: {missed}')
            getattr(cable, mends)()

            began, after = time.monotonic(), len(client.events)
            client.event('up', seconds=2 * tap.WAIT)
            tap.until(lambda: len(client.events) > after + 100, 'changes arrive again',
                      2 * tap.WAIT)
            tap.note(f'they did {time.monotonic() - began:.1f} s after the cable')
            world.rest()
            tap.until(lambda: watcher.picture() == world.texts or None,
                      'the picture is that of the disk', 3 * tap.WAIT, pause=0.2)
            counts = client.does('counts')
            tap.note(f'{world.changes} changes, {missed} of them while it was broken; {counts}')
            kinds = {event['event'] for event in client.events}
            tap.check('lost' not in kinds and 'deleted' not in kinds, f'{kinds}')
            watcher.driver.stop()
        except AssertionError as error:
            if watcher is None or world is None:
                raise
            wrong = {uri: (text, watcher.picture().get(uri)) for uri, text in world.texts.items()
                     if watcher.picture().get(uri) != text}
            raise AssertionError(f'{error}\n{len(wrong)} differ (disk, watcher): '
                                 f'{list(wrong.items())[:5]}\n{watcher.client.story()}') from None
        finally:
            if watcher is not None:
                watcher.driver.kill()
            if world is not None:
                world.end()
            cable.end()


def main():
    global seconds
    if len(sys.argv) > 1:
        seconds = float(sys.argv[1])
    tap.run_all([(a_cable_is, how, era) for how in WAYS for era in ERAS], *sys.argv[2:])


def refused(wrap):
    """Why there can be no namespaces here, or nothing."""
    try:
        done = subprocess.run(
            [*wrap, 'sh', '-c', 'ip link set lo up && ip link add near type veth peer name far && '
             'unshare -n true && command -v nsenter setpriv >/dev/null'],
            capture_output=True, text=True, timeout=tap.WAIT)
    except OSError as error:
        return str(error)
    return None if done.returncode == 0 else done.stderr.strip() or 'a program is missing'


def begin():
    global refusal
    wrap = ['unshare', '-n'] if os.geteuid() == 0 else ['unshare', '-Urn']
    refusal = refused(wrap)
    if refusal is None:
        os.execvpe(wrap[0], [*wrap, sys.executable, *sys.argv], {**os.environ, INSIDE: '1'})
    main()


if __name__ == '__main__':
    if os.environ.get(INSIDE):
        main()
    else:
        begin()

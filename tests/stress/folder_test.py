#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""folder_test.py [--program FILE] [--files N] [--folders N] [--in FOLDER]: a folder with many
files (100,000 in 1,000 folders, unless given) is served. Its list has to be complete and to come in pages,
memory and inotify watches have to be bounded, and a change anywhere in it has to be noticed.
Writes TAP, and what it measured as notes: times include whatever else the machine does, work
is processor time of the server alone."""
import argparse
import os
import shutil
import sys
import tempfile
import time

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, '..', 'hostile'))

from lib import tap  # noqa: E402
from lib.served import Served  # noqa: E402
from lib.wire import open_listen, updated  # noqa: E402

MIB = 1024 * 1024
START_SECONDS = 300
# What a listed file may cost, with its entry in the list of the server.
BYTES_PER_FILE = 3 * 1024
CHANGES = 20


class Folder:
    def __init__(self, options):
        self.options = options
        self.root = os.path.realpath(tempfile.mkdtemp(prefix='tidings-', dir=options.in_folder))
        self.served = None
        self.uris = []

    def path(self, number):
        return os.path.join(self.root, f'd{number % self.options.folders:04}', f'f{number:06}.md')

    def uri(self, path):
        return 'file://' + path

    def make(self):
        for number in range(self.options.folders):
            os.mkdir(os.path.dirname(self.path(number)))
        for number in range(self.options.files):
            with open(self.path(number), 'w', encoding='ascii') as file:
                file.write(f'# {number}\n')

    # ---- The tests

    def starts(self):
        began = time.monotonic()
        self.served = Served(self.options.program, self.root).wait_serving(START_SECONDS)
        took = time.monotonic() - began
        tap.note(f'start-up: {took:.2f} s until it serves, {self.served.labour():.2f} s of work')
        tap.note(f'memory: {self.served.memory() / MIB:.1f} MiB, '
                 f'at most {self.served.memory("VmHWM") / MIB:.1f} MiB')

    def lists(self):
        began, worked = time.monotonic(), self.served.labour()
        entries, pages = self.served.pages()
        tap.note(f'list: {len(entries):,} files in {pages} pages, {time.monotonic() - began:.2f} s, '
                 f'{self.served.labour() - worked:.2f} s of work')
        tap.note(f'memory: {self.served.memory() / MIB:.1f} MiB')
        wanted = {self.uri(self.path(number)) for number in range(self.options.files)}
        tap.same(len(entries), len(wanted), 'entries')
        tap.check({entry['uri'] for entry in entries} == wanted, 'other files are listed')
        tap.check(pages > 1, 'it came in one page')
        tap.check(all(entry['size'] > 0 for entry in entries), 'without its size')

    def is_small(self):
        allowed = 32 * MIB + BYTES_PER_FILE * self.options.files
        peak = self.served.memory('VmHWM')
        tap.note(f'{peak / self.options.files:,.0f} bytes per file, with everything')
        tap.check(peak < allowed, f'{peak / MIB:.0f} MiB, allowed {allowed / MIB:.0f}')

    def watches(self):
        warnings = [r['message'] for r in self.served.log() if r.get('level') == 'warning']
        tap.note(f'inotify watches: {self.served.watches():,}')
        for text in warnings:
            tap.note(f'it said: {text}')
        if not any('max_user_' in text for text in warnings):
            tap.same(self.served.watches(), self.options.folders + 1, 'inotify watches')

    def notices(self):
        """Changes in folders from everywhere, one after the other."""
        took = []
        stream = open_listen(self.served.port, [self.uri(self.root) + '/{+path}'],
                             options={'batchMs': 0, 'rateLimitMs': 0}, resourcesListChanged=True)
        for turn in range(CHANGES):
            path = self.path(turn * self.options.files // CHANGES)
            began = time.monotonic()
            with open(path, 'a', encoding='ascii') as file:
                file.write('more\n')
            size = os.path.getsize(path)
            stream.event(wanted=lambda m, p=path, s=size: updated(self.uri(p))(m) and
                         m['params']['metadata']['size'] == s)
            took.append(time.monotonic() - began)
        took.sort()
        tap.note(f'a change is told after {took[len(took) // 2] * 1000:.1f} ms (median of '
                 f'{CHANGES}), {took[-1] * 1000:.1f} ms at most')

        path = os.path.join(self.root, 'new', 'folder', 'file.md')
        os.makedirs(os.path.dirname(path))
        with open(path, 'w', encoding='ascii') as file:
            file.write('hello\n')
        # In either order, which is not promised.
        missing = {'notifications/resources/updated', 'notifications/resources/list_changed'}
        while missing:
            found = stream.event(wanted=lambda m: m.get('method') in missing)
            if found['method'].endswith('/list_changed') or updated(self.uri(path))(found):
                missing.discard(found['method'])
        shutil.rmtree(os.path.join(self.root, 'new'))
        stream.event(wanted=lambda m: updated(self.uri(path))(m) and
                     m['params']['metadata']['change_type'] == 'deleted')
        stream.close()

    def ends(self):
        began = time.monotonic()
        self.served.stop()
        tap.note(f'end: {time.monotonic() - began:.2f} s')

    def clean(self):
        if self.served is not None:
            self.served.kill()
        shutil.rmtree(self.root)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--program', default=os.path.join(HERE, '..', '..', 'build', 'tidings'))
    parser.add_argument('--files', type=int, default=100_000)
    parser.add_argument('--folders', type=int, default=1_000)
    parser.add_argument('--in', dest='in_folder')
    options = parser.parse_args()

    folder = Folder(options)
    try:
        folder.make()
        tap.note(f'{options.files:,} files in {options.folders:,} folders; load '
                 f'{os.getloadavg()[0]:.1f} on {os.cpu_count()} cores')
        if tap.run('it serves the folder', folder.starts):
            tap.run('the list is complete, in pages', folder.lists)
            tap.run('a watch per folder is enough', folder.watches)
            tap.run('changes anywhere in it are noticed', folder.notices)
            tap.run('memory is bounded', folder.is_small)
            tap.run('it ends well', folder.ends)
    finally:
        folder.clean()
    tap.finish()


if __name__ == '__main__':
    main()

#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The config files in the documentation, in TAP: `configs_test.py PROGRAM`. Blocks of `yaml` that
say `resources:` (scripts/check-docs has them checked) and need nothing but this machine are
served, each in a folder that has what it names. What they list has to be what `tidings check`
says, and has to be readable."""
import contextlib
import glob
import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, 'tests', 'hostile'))

from lib import tap  # noqa: E402
from lib.served import Served  # noqa: E402

PROGRAM = os.path.abspath(sys.argv[1])
PAGES = ['README.md', *sorted(glob.glob('docs/**/*.md', root_dir=ROOT, recursive=True))]
FEWEST = 3  # blocks that are served; fewer means that they are not found any more
READ = 20   # resources of one config that are read
# Content of these comes from others; until then there is nothing to read.
EMPTY = {'memory', 'webhook'}
READABLE, UNREADABLE = 'readable', 'unreadable'


def blocks():
    """(page, line, config, all the SQL of the page)"""
    for page in PAGES:
        with open(os.path.join(ROOT, page), encoding='utf-8') as file:
            text = file.read()
        sql = '\n'.join(re.findall(r'^```sql\n(.*?)^```', text, re.M | re.S))
        for found in re.finditer(r'^```yaml\n(.*?)^```', text, re.M | re.S):
            if re.search(r'^resources:', found[1], re.M):
                yield page, text.count('\n', 0, found.start()) + 2, found[1], sql


def entries_of(folder, env):
    """What `tidings check` says that it would serve; nothing where that is wrong."""
    done = subprocess.run([PROGRAM, 'check', '--json', 'tidings.yaml'], cwd=folder, env=env,
                          capture_output=True, text=True, timeout=tap.WAIT, check=False)
    result = json.loads(done.stdout)
    return result['resources'] if result['ok'] else []


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, 'w', encoding='ascii') as file:
        file.write(text)


def prepare_files(path, uri, sql):
    """A file where the URI is one of a file, else a folder with files."""
    names = [''] if uri is not None and '{' not in uri else ['/a.md', '/a.txt', '/a.json']
    for name in names:
        write(path + name, '{"hello": "world"}\n')
    return True


def prepare_log(path, uri, sql):
    write(path, 'one\ntwo\n')
    return True


def prepare_sqlite(path, uri, sql):
    """The page has to say how its database is made."""
    if sql and not os.path.exists(path):
        with contextlib.closing(sqlite3.connect(path)) as database:
            database.executescript(sql)
    return bool(sql)


PREPARE = {'files': prepare_files, 'log': prepare_log, 'sqlite': prepare_sqlite}


def prepare(folder, entry, sql):
    """Makes what an entry names: READABLE, or UNREADABLE where nothing is in it yet, or None
    where it is not on this machine."""
    kind, what, uri = entry['kind'], entry['what'], entry.get('uri')
    path = os.path.realpath(os.path.join(folder, what))
    if kind in EMPTY:
        return UNREADABLE
    if kind == 'command':
        words = what.strip('[]').replace(',', ' ').split()
        return READABLE if words and shutil.which(words[0].strip('"\'')) else None
    if kind == 'log' and not path.startswith(folder):
        return UNREADABLE  # a log need not be there
    if kind in PREPARE and path.startswith(folder):
        return READABLE if PREPARE[kind](path, uri, sql) else None
    return None


def serve(folder, env, entries):
    """`entries` are pairs: what `tidings check` says, and what prepare() returned."""
    with Served(PROGRAM, '--config', 'tidings.yaml', env=env, cwd=folder) as served:
        served.wait_serving()
        resources = [entry['uri'] for entry in served.pages()[0]]
        templates = [entry['uriTemplate'] for entry in served.pages(
            'resources/templates/list', 'resourceTemplates')[0]]
        left_out = set()
        for entry, state in entries:
            uri = entry.get('uri')
            if uri is not None:
                tap.check(uri in resources + templates, f'{uri} is not listed')
            if entry['kind'] == 'files':
                start = uri.split('{')[0] if uri is not None else 'file:///'
                tap.check(any(listed.startswith(start) for listed in resources),
                          f'no file of {entry["what"]} is listed')
            if state == UNREADABLE:
                left_out.add(uri)
        for uri in [uri for uri in resources if uri not in left_out][:READ]:
            contents = served.result('resources/read', uri=uri)['contents']
            tap.check(contents and contents[0]['uri'] == uri, f'{uri}: {contents}')
            tap.check(contents[0].get('text') or contents[0].get('blob'), f'{uri}: {contents}')


def main():
    served = 0
    for page, line, config, sql in blocks():
        env = os.environ | {name: 'placeholder' for name in re.findall(r'\$\{(\w+)\}', config)}
        with tempfile.TemporaryDirectory() as folder:
            folder = os.path.realpath(folder)
            with open(os.path.join(folder, 'tidings.yaml'), 'w', encoding='utf-8') as file:
                file.write(config)
            entries = [(entry, prepare(folder, entry, sql)) for entry in entries_of(folder, env)]
            if not entries or any(state is None for _, state in entries):
                tap.note(f'{page}:{line} needs more than this machine')
                continue
            served += 1
            tap.run(f'{page}:{line} is served', serve, folder, env, entries)
    tap.run('config files are found in the documentation', tap.check, served >= FEWEST,
            f'only {served} are served')
    tap.finish()


if __name__ == '__main__':
    main()

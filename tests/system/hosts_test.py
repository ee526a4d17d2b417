#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What hosts have to write into their files, in TAP: `hosts_test.py PROGRAM`. Every line of JSON in
README.md, in docs/hosts.md and in what `tidings serve` prints is parsed as its host does; the
program has to be what it starts, and the address one that is served."""
import json
import os
import re
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, 'tests', 'hostile'))

from lib import tap  # noqa: E402
from lib.mortal import MORTAL  # noqa: E402

PROGRAM = os.path.abspath(sys.argv[1])
# What each host calls the list, and whether its file takes addresses.
HOSTS = {'Claude Code': ('mcpServers', True), 'VS Code': ('servers', True),
         'Claude Desktop': ('mcpServers', False)}
URL = 'http://127.0.0.1:8808/mcp'


def lists(*target):
    """Whether `tidings ls` of a server works."""
    done = subprocess.run([PROGRAM, 'ls', '--names', *target], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=tap.WAIT, check=False)
    tap.check(done.returncode == 0, f'{target}: {done.stderr}')
    return done.stdout.split()


def entry_of(host, line):
    """The only entry in a line of JSON, of the right shape."""
    key, takes_address = HOSTS[host]
    tree = json.loads(line)
    tap.check(list(tree) == [key] and len(tree[key]) == 1, f'{host}: {line}')
    entry = next(iter(tree[key].values()))
    if 'url' in entry:
        tap.check(takes_address and set(entry) == {'type', 'url'}, f'{host}: {line}')
        tap.check(entry['type'] == 'http', f'{host}: {line}')
    else:
        wanted = {'command', 'args'} | ({'type'} if host == 'VS Code' else set())
        tap.check(set(entry) - {'env'} == wanted, f'{host}: {line}')
        tap.check(entry.get('type', 'stdio') == 'stdio', f'{host}: {line}')
    return entry


def check_both_forms(entries):
    for host, (_, takes_address) in HOSTS.items():
        forms = ['url' in entry for name, entry in entries if name == host]
        tap.check(False in forms, f'{host}: nothing starts tidings')
        tap.check(not takes_address or True in forms, f'{host}: nothing connects')


def what_serve_prints_works():
    with tempfile.TemporaryDirectory() as folder:
        folder = os.path.join(os.path.realpath(folder), 'with "quotes" and spaces')
        os.mkdir(folder)
        with open(os.path.join(folder, 'a.txt'), 'w', encoding='ascii') as file:
            file.write('a')
        with subprocess.Popen([*MORTAL, PROGRAM, 'serve', '--listen', 'erlmcp+http://127.0.0.1:0',
                               '--listen', 'http://127.0.0.1:0', folder],
                              stdin=subprocess.DEVNULL, stderr=subprocess.PIPE,
                              text=True) as process:
            try:
                lines = []
                while not lines or not lines[-1].startswith('Ctrl-C'):
                    lines.append(process.stderr.readline())
                    tap.check(lines[-1] != '', f'it has ended: {lines}')
                host, entries = None, []
                for line in lines:
                    named = re.match(r'  (.*), in (\S+):$', line)
                    host = named[1] if named else host
                    if line.lstrip().startswith('{'):
                        entries.append((host, entry_of(host, line)))
                check_both_forms(entries)
                at = next(line for line in lines if line.startswith('at '))
                tap.check(at.endswith('/mcp (erlmcp dialect)\n'), at)
                plain = next(line for line in lines if line.startswith('and '))[4:].strip()
                tap.check(all(entry.get('url', plain) == plain for _, entry in entries), entries)
                wanted = lists(*[entry['url'] for _, entry in entries if 'url' in entry][:1])
                tap.check(len(wanted) == 2 and wanted[0].endswith('/a.txt'), wanted)
                for _, entry in entries:
                    found = lists(entry['url']) if 'url' in entry else lists(
                        '--', entry['command'], *entry['args'])
                    tap.check(found == wanted, f'{entry}: {found}')
            finally:
                process.terminate()


def paths_are_absolute():
    """Also of a folder that does not exist yet; an empty path is a mistake."""
    with tempfile.TemporaryDirectory() as folder:
        with subprocess.Popen([*MORTAL, PROGRAM, 'serve', '--listen', 'http://127.0.0.1:0', 'later'],
                              cwd=folder, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE,
                              text=True) as process:
            try:
                line = 'none'
                while line != '' and '"--stdio"' not in line:
                    line = process.stderr.readline()
                tap.check(f'"{os.path.realpath(folder)}/later"]' in line, line)
            finally:
                process.terminate()
        done = subprocess.run([PROGRAM, 'serve', ''], cwd=folder, capture_output=True, text=True,
                              timeout=tap.WAIT, check=False)
        tap.check(done.returncode == 2 and 'PATH is empty' in done.stderr, done)


def lines_that_cannot_work_are_left_out():
    """A config that came by standard input cannot be read by what a host starts, and hosts do not
    speak erlmcp."""
    for url, connects in (('http://127.0.0.1:0', True), ('erlmcp+http://127.0.0.1:0', False)):
        with subprocess.Popen([*MORTAL, PROGRAM, 'serve', '--config', '-', '--listen', url],
                              stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            try:
                process.stdin.write('resources: [{memory: "m:1"}]\n')
                process.stdin.close()
                lines = []
                while not lines or not lines[-1].startswith('Ctrl-C'):
                    lines.append(process.stderr.readline())
                    tap.check(lines[-1] != '', f'it has ended: {lines}')
            finally:
                process.terminate()
        said = ''.join(lines)
        tap.check('"--stdio"' not in said and 'Claude Desktop' not in said, said)
        tap.check('No host can start this server: its config is standard input.' in said, said)
        tap.same('"url"' in said, connects, said)
        tap.same('No host can connect to this server: ' in said, not connects, said)


CONFIG = """server: {name: "${THE_NAME:-notes}", title: "${THE_TITLE:-of it}"}
publish: {key: "${TIDINGS_PUBLISH_KEY}"}
resources:
- files: "${THE_FOLDER}"
  title: "of ${THE_OWNER} at $${THE_DAY}"
- command: ["echo", "${NOT_OURS}"]
  uri: c:1
  every: 1h
"""


def variables_of_the_config_are_named():
    """Those that it uses, without what they hold: not what is not set and has a default, is
    escaped, or is for the command."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, 'tidings.yaml')
        with open(path, 'w', encoding='ascii') as file:
            file.write(CONFIG)
        values = {'TIDINGS_PUBLISH_KEY': 'the-secret', 'THE_FOLDER': folder, 'THE_OWNER': 'me',
                  'THE_TITLE': 'mine'}
        with subprocess.Popen([*MORTAL, PROGRAM, 'serve', '--config', path, '--listen',
                               'http://127.0.0.1:0'], stdin=subprocess.DEVNULL,
                              stderr=subprocess.PIPE, text=True,
                              env={**os.environ, **values}) as process:
            try:
                lines = []
                while not lines or not lines[-1].startswith('Ctrl-C'):
                    lines.append(process.stderr.readline())
                    tap.check(lines[-1] != '', f'it has ended: {lines}')
            finally:
                process.terminate()
        said = ''.join(lines)
        tap.check('the-secret' not in said, said)
        started = [next(iter(next(iter(json.loads(line).values())).values()))
                   for line in lines if '"--stdio"' in line]
        tap.same(len(started), len(HOSTS), 'hosts')
        for entry in started:
            tap.same(entry.get('env'), {name: f'<value of {name}>' for name in values}, 'env')


def blocks(page):
    """The lines of JSON of a page, each with the host whose section it is in."""
    with open(os.path.join(ROOT, page), encoding='utf-8') as file:
        text = file.read()
    host = None
    for found in re.finditer(r'^#+ ([^\n]*)|^\*\*([^\n]*?)\*\*|^```json\n(.*?)^```', text, re.M | re.S):
        if found[3] is None:
            host = next((name for name in HOSTS if name in (found[1] or found[2])), None)
        elif re.search('mcpServers|servers', found[3]):
            yield host, found[3]


def what_a_page_shows_works(page):
    entries = []
    for host, text in blocks(page):
        tap.check(host is not None, f'{page}: whose is this? {text}')
        entry = entry_of(host, text)
        entries.append((host, entry))
        if 'url' in entry:
            tap.check(entry['url'] == URL, f'{page}: {entry["url"]}')
        elif entry['command'] == 'tidings' and '--config' in entry['args']:
            tap.same(entry['env'], {'TIDINGS_PUBLISH_KEY': '<value of TIDINGS_PUBLISH_KEY>'}, 'env')
        elif entry['command'] == 'tidings':
            lists('--', PROGRAM, *entry['args'])
        else:
            tap.check(entry['args'][-1] == URL, f'{page}: {text}')
    check_both_forms(entries)


def the_address_is_the_default():
    done = subprocess.run([PROGRAM, 'serve', '--help'], capture_output=True, text=True,
                          timeout=tap.WAIT, check=True)
    tap.check(URL.removesuffix('/mcp') in done.stdout, done.stdout)


def main():
    tap.run('what serve prints for hosts works', what_serve_prints_works)
    tap.run('the paths of what serve prints are absolute', paths_are_absolute)
    tap.run('lines for hosts that cannot work are left out', lines_that_cannot_work_are_left_out)
    tap.run('the variables that a config uses are named', variables_of_the_config_are_named)
    for page in ('README.md', 'docs/hosts.md'):
        tap.run(f'what {page} shows for hosts works', what_a_page_shows_works, page)
    tap.run('the address in the pages is the default', the_address_is_the_default)
    tap.finish()


if __name__ == '__main__':
    main()

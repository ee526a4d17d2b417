#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""client_cli_test.py TIDINGS FIXTURE [CHOSEN]: ls, read, call, prompt and info from
outside: against the fixture and `tidings serve`, over HTTP and stdio, in both eras; and
against servers that mean harm. Writes TAP."""
import atexit
import base64
import fcntl
import functools
import json
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), 'hostile'))

from lib import tap  # noqa: E402
from lib.address import wait_for_address  # noqa: E402
from lib.mortal import MORTAL  # noqa: E402
from mcp_stub import Stub  # noqa: E402

PATIENCE = 60
HOSTILE = 'a\x1b]0;owned\x07b\x9b31mc\u202ed\x7fe'

tidings = fixture = work = None
running = []


# ---- Programs -----------------------------------------------------------------------------

def start(*command):
    """Starts a server that says where it listens; returns its address."""
    process = subprocess.Popen([*MORTAL, *command], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                               stderr=subprocess.PIPE)
    running.append(process)
    return wait_for_address(process.stderr, PATIENCE)


def kill_all():
    while running:
        process = running.pop()
        process.kill()
        process.wait(PATIENCE)
    fixture_url.cache_clear()


@functools.lru_cache(None)
def fixture_url():
    return start(fixture, '--http', '0')


class Done:
    """A command that has ended."""

    def __init__(self, command, **options):
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True,
                              timeout=PATIENCE, check=False, **options)
        self.code, self.raw = done.returncode, done.stdout
        self.out, self.err = done.stdout.decode(errors='replace'), done.stderr.decode()

    def exits(self, code):
        assert self.code == code, f'exit code {self.code} instead of {code}: {self.err}{self.out}'
        return self

    def says(self, *lines):
        for line in lines:
            assert line in self.out, f'no {line!r} in {self.out}'
        return self

    def complains(self, *lines):
        for line in lines:
            assert line in self.err, f'no {line!r} in {self.err}'
        return self

    def json(self):
        self.exits(0)
        assert self.out.endswith('\n') and self.out.count('\n') == 1, self.out
        return json.loads(self.out)


class Target:
    """Where and how to ask."""

    def __init__(self, name, url=None, program=(), options=()):
        self.name, self.url, self.program, self.options = name, url, program, options

    def run(self, command, *arguments):
        target = [self.url() if callable(self.url) else self.url] if self.url else []
        after = ['--', *self.program] if self.program else []
        return Done([tidings, command, *self.options, *target, *arguments, *after])

    @property
    def modern(self):
        return 'legacy' not in self.name


def fixture_targets():
    return [Target('modern HTTP', fixture_url),
            Target('legacy HTTP', fixture_url, options=['--era', 'legacy']),
            Target('modern stdio', program=[fixture, '--stdio']),
            Target('legacy stdio', program=[fixture, '--stdio'], options=['--era=legacy'])]


def on_every_target(test):
    @functools.wraps(test)
    def everywhere():
        for target in fixture_targets():
            try:
                test(target)
            except AssertionError as problem:
                raise AssertionError(f'{target.name}: {problem}') from problem
    return everywhere


def on_a_terminal(*command, columns=80):
    """Runs it with its output on a terminal; returns exit code and what came there."""
    terminal, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack('HHHH', 24, columns, 0, 0))
    process = subprocess.Popen([*MORTAL, *command], stdin=theirs, stdout=theirs, stderr=theirs,
                               env={**os.environ, 'TERM': 'xterm', 'LC_ALL': 'C.UTF-8',
                                    'COLUMNS': str(columns)})
    os.close(theirs)
    seen, deadline = b'', time.monotonic() + PATIENCE
    while True:
        ready, _, _ = select.select([terminal], [], [], max(0, deadline - time.monotonic()))
        assert ready, f'it does not end: {seen}'
        try:
            piece = os.read(terminal, 65536)
        except OSError:
            break # Linux says so when the other end is closed
        if not piece:
            break
        seen += piece
    os.close(terminal)
    code = process.wait(PATIENCE)
    return code, seen.decode(errors='replace').replace('\r\n', '\n')


def equal(found, wanted):
    assert found == wanted, f'{found!r} instead of {wanted!r}'


# ---- ls -----------------------------------------------------------------------------------

@on_every_target
def ls_shows_a_table_of_each_list(target):
    done = target.run('ls').exits(0)
    done.says('Resources (32)\n', 'Templates (4)\n', 'Tools (', 'Prompts (')
    lines = done.out.splitlines()
    head = lines[1]
    row = next(line for line in lines if line.startswith('  test://static-text '))
    for title, text in (('URI', 'test://static-text'), ('NAME', 'static text'),
                        ('TYPE', 'text/plain'), ('DESCRIPTION', 'For the suite.')):
        equal(head.index(title), row.index(text))
    done.says('\n  publish ', ' arg1 arg2 ', ' [region] ', '  test://template/{id}/data ')
    assert not any(line != line.rstrip() for line in lines), 'spaces at the end of a line'
    equal(done.err, '')


@on_every_target
def ls_shows_what_was_chosen(target):
    done = target.run('ls', '--templates', '--prompts').exits(0)
    done.says('Templates (4)\n', 'Prompts (')
    assert 'Resources' not in done.out and 'Tools' not in done.out, done.out


@on_every_target
def ls_json_has_what_the_protocol_has(target):
    every = target.run('ls', '--json').json()
    equal(list(every), ['resources', 'resourceTemplates', 'tools', 'prompts'])
    equal([len(every[name]) for name in ('resources', 'resourceTemplates')], [32, 4])
    equal(every['resources'][0], {'uri': 'test://static-text', 'name': 'static text',
                                  'description': 'For the suite.', 'mimeType': 'text/plain'})
    equal(next(t for t in every['tools'] if t['name'] == 'publish')['inputSchema'],
          {'type': 'object', 'properties': {'uri': {'type': 'string'}}, 'required': ['uri']})
    only = target.run('ls', '--json', '--prompts').json()
    equal(only, {'prompts': every['prompts']})


@on_every_target
def ls_names_are_bare(target):
    every = target.run('ls', '--json').json()
    lines = target.run('ls', '--names').exits(0).out.splitlines()
    equal(lines, [r['uri'] for r in every['resources']] +
          [t['uriTemplate'] for t in every['resourceTemplates']] +
          [t['name'] for t in every['tools'] + every['prompts']])
    lines = target.run('ls', '--names', '--tools').exits(0).out.splitlines()
    equal(lines, [t['name'] for t in every['tools']])


def ls_reads_all_pages():
    def page(params):
        number = int(params.get('cursor', '0'))
        more = {'nextCursor': str(number + 1)} if number < 4 else {}
        return {'resources': [{'uri': f'p://{number}', 'name': 'n'}], **more}
    stub = Stub({'resources/list': page})
    equal(Done([tidings, 'ls', '--names', '--resources', stub.url]).exits(0).out,
          'p://0\np://1\np://2\np://3\np://4\n')


def ls_of_a_server_with_nothing_says_so():
    equal(Done([tidings, 'ls', Stub().url]).exits(0).out, 'The server lists nothing.\n')
    equal(Done([tidings, 'ls', '--json', Stub().url]).json(),
          {'resources': [], 'resourceTemplates': [], 'tools': [], 'prompts': []})


def ls_aligns_by_characters_and_cuts_only_descriptions():
    long = 'x://' + 'u' * 90
    stub = Stub({'resources/list': {'resources': [
        {'uri': 'x://größe', 'name': 'ä', 'description': 'first\nsecond ' + 'd' * 200},
        {'uri': 'x://b', 'name': '日本', 'description': 'e' * 200},
        {'uri': long, 'name': 'n'}]}})
    environment = {**os.environ, 'LC_ALL': 'C.UTF-8'}
    done = Done([tidings, 'ls', stub.url], env=environment).exits(0)
    lines = done.out.splitlines()
    equal(lines[2].index('ä'), lines[3].index('日'))
    equal(lines[2].index('first') - 2, lines[3].index('e' * 9)) # 日本 has four columns
    assert 'second' not in done.out and 'e' * 200 in done.out and long in done.out, done.out
    code, seen = on_a_terminal(tidings, 'ls', stub.url, columns=100)
    equal(code, 0)
    assert long in seen and 'e' * 200 not in seen and 'e…\n' in seen, seen


# ---- read ---------------------------------------------------------------------------------

@on_every_target
def read_gives_a_text_as_it_is(target):
    equal(target.run('read', 'test://static-text').exits(0).raw, b'The content of a text.')


@on_every_target
def read_decodes_what_is_binary(target):
    raw = target.run('read', 'test://static-binary').exits(0).raw
    assert raw.startswith(b'\x89PNG\r\n') and raw.endswith(b'IEND\xaeB`\x82'), raw
    path = os.path.join(work, 'picture.png')
    equal(target.run('read', '--output', path, 'test://static-binary').exits(0).raw, b'')
    with open(path, 'rb') as file:
        equal(file.read(), raw)


@on_every_target
def read_parts_several_by_headings(target):
    equal(target.run('read', 'test://static-text', 'live://a').exits(0).out.split('\n')[:4],
          ['==> test://static-text (text/plain) <==', 'The content of a text.', '',
           '==> live://a (text/plain) <=='])


@on_every_target
def read_json_is_the_result(target):
    result = target.run('read', '--json', 'test://static-text').json()
    equal(result['contents'], [{'uri': 'test://static-text', 'mimeType': 'text/plain',
                                'text': 'The content of a text.'}])
    done = target.run('read', '--json', 'test://static-text', 'live://a').exits(0)
    equal([json.loads(line)['contents'][0]['uri'] for line in done.out.splitlines()],
          ['test://static-text', 'live://a'])


@on_every_target
def read_goes_on_after_what_is_not_there(target):
    done = target.run('read', 'nope://a', 'test://static-text', 'nope://b').exits(6)
    done.complains('tidings: read: nope://a: ', 'tidings: read: nope://b: ')
    done.says('The content of a text.')
    equal(done.out.count('==>'), 1)


def read_leaves_bytes_alone():
    text = '\r\n\ttext \x00 no \x1b[1m end'.replace('\x00', '') + '\ufeff\u202e'
    blob = bytes(range(256)) * 3
    stub = Stub({'resources/read': lambda params: {'contents': [
        {'uri': params['uri'], 'text': text} if params['uri'] == 'a://text' else
        {'uri': params['uri'], 'blob': base64.b64encode(blob).decode()}]}})
    equal(Done([tidings, 'read', stub.url, 'a://text']).exits(0).raw, text.encode())
    equal(Done([tidings, 'read', stub.url, 'a://blob']).exits(0).raw, blob)
    code, seen = on_a_terminal(tidings, 'read', stub.url, 'a://blob')
    equal(code, 1)
    assert 'not printing 768 bytes of binary data on a terminal' in seen, seen
    code, seen = on_a_terminal(tidings, 'read', stub.url, 'a://text')
    equal(code, 0)
    assert '\x1b' not in seen and 'no ^[[1m end<U+FEFF><U+202E>\n' in seen, seen


def read_takes_what_servers_get_wrong():
    stub = Stub({'resources/read': lambda params: {'contents': {
        'a://none': [], 'a://two': [{'uri': 'a://1', 'text': 'one\n'},
                                    {'uri': 'a://2', 'text': 'two'}],
        'a://empty': [{'uri': 'a://empty'}],
        'a://bad': [{'uri': 'a://bad', 'blob': '!!!'}]}[params['uri']]}})
    equal(Done([tidings, 'read', stub.url, 'a://none']).exits(0).out, '')
    equal(Done([tidings, 'read', stub.url, 'a://two']).exits(0).out,
          '==> a://1 <==\none\n\n==> a://2 <==\ntwo\n')
    path = os.path.join(work, 'two')
    Done([tidings, 'read', '--output', path, stub.url, 'a://two']).exits(1).complains(
        'a://two has 2 contents, and --output takes one')
    assert not os.path.exists(path)
    for uri in ('a://empty', 'a://bad'):
        Done([tidings, 'read', stub.url, uri]).exits(1).complains(
            f'{uri}: the content is neither text nor valid base64')


def read_says_where_it_cannot_write():
    Done([tidings, 'read', '--output', work + '/no/file', fixture_url(),
          'test://static-text']).exits(1).complains(
              'cannot write ', '/no/file: No such file or directory')
    Done([tidings, 'read', '--output', '/dev/full', fixture_url(),
          'test://static-text']).exits(1).complains('cannot write /dev/full: No space left')


# ---- call ---------------------------------------------------------------------------------

@on_every_target
def call_prints_the_texts_of_the_answer(target):
    equal(target.run('call', 'test_simple_text').exits(0).out.count('\n'), 1)
    equal(target.run('call', 'publish', 'uri=live://a').exits(0).out, 'done\n')
    done = target.run('call', 'test_multiple_content_types').exits(0)
    done.says('[image image/png 69 bytes; --json prints them]\n',
              '[resource test://mixed-content-resource]\n')


@on_every_target
def call_json_is_the_result(target):
    result = target.run('call', '--json', 'publish', 'uri=live://a').json()
    equal(result['content'], [{'type': 'text', 'text': 'done'}])
    equal(target.run('call', '--json', 'counters').json()['structuredContent']['ended'], 0)


@on_every_target
def call_tells_the_failure_of_a_tool(target):
    done = target.run('call', 'test_error_handling').exits(1)
    equal(done.out, 'This tool always fails.\n')
    equal(done.err, 'tidings: call: test_error_handling reports an error\n')


@on_every_target
def call_suggests_a_tool(target):
    target.run('call', 'publsh', 'uri=a://b').exits(6).complains(
        "tidings: call: there is no tool 'publsh'; did you mean 'publish'?\n")
    target.run('call', 'zebra_crossing').exits(6).complains(
        "there is no tool 'zebra_crossing'; `tidings ls --tools` lists them")


@on_every_target
def call_names_what_is_missing_before_it_sends(target):
    target.run('call', 'publish').exits(2).complains('call: publish: missing: uri\n')


WEATHER = {'name': 'weather', 'inputSchema': {
    'type': 'object', 'required': ['city', 'days'], 'additionalProperties': False, 'properties': {
        'city': {'type': 'string'}, 'days': {'type': 'integer'}, 'exact': {'type': 'boolean'},
        'scale': {'type': 'number'}, 'tags': {'type': 'array'}, 'where': {'type': 'object'},
        'unit': {'type': 'string', 'enum': ['C', 'F']}}}}


def weather(answer=None):
    return Stub({'tools/list': {'tools': [WEATHER]},
                 'tools/call': answer or {'content': [{'type': 'text', 'text': 'ok'}]}})


def call_types_values_by_the_schema():
    stub = weather()
    Done([tidings, 'call', stub.url, 'weather', 'city=5', 'days=3', 'exact=true', 'scale=1.5',
          'tags=["a", 1]', 'where={"x": null}', 'unit=C']).exits(0)
    Done([tidings, 'call', '--arguments', '{"city": "Oslo", "days": 1, "unit": "C"}', stub.url,
          'weather', 'days=2', 'unit:="F"']).exits(0)
    equal([params['arguments'] for params in stub.asked('tools/call')],
          [{'city': '5', 'days': 3, 'exact': True, 'scale': 1.5, 'tags': ['a', 1],
            'where': {'x': None}, 'unit': 'C'}, {'city': 'Oslo', 'days': 2, 'unit': 'F'}])


def call_says_what_is_wrong_with_arguments_and_sends_nothing():
    stub = weather()
    for arguments, said in (
            (['days=3'], 'missing: city'),
            ([], 'missing: city, days'),
            (['city=x', 'days=many'], "days is a whole number, not 'many'"),
            (['city=x', 'days=1', 'exact=yes'], "exact is true or false, not 'yes'"),
            (['city=x', 'days=1', 'unit=K'], "unit is one of C, F, not 'K'"),
            (['city=x', 'days=1', 'tags=a'], "tags is a JSON array, not 'a'"),
            (['city=x', 'dyas=1'], 'unknown argument dyas; did you mean days?'),
            (['city=x', 'city=y'], 'city is given twice'),
            (['city'], "'city' is not an argument; write name=value"),
            (['days:=x', 'city=x'], 'days is not JSON: '),
            (['--arguments', '[1]'], '--arguments is not a JSON object'),
            (['--arguments', '{'], '--arguments is not JSON: ')):
        done = Done([tidings, 'call', stub.url, 'weather', *arguments]).exits(2)
        done.complains('tidings: call: weather: ' + said)
        equal(done.out, '')
    equal(stub.asked('tools/call'), [])


def call_shows_a_structure_where_there_is_no_text():
    stub = weather({'content': [], 'structuredContent': {'t': 1}})
    equal(Done([tidings, 'call', stub.url, 'weather', 'city=x', 'days=1']).exits(0).out,
          '{"t":1}\n')
    stub = weather({'content': [{'type': 'text', 'text': '{"t": 1}'}],
                    'structuredContent': {'t': 1}})
    equal(Done([tidings, 'call', stub.url, 'weather', 'city=x', 'days=1']).exits(0).out,
          '{"t": 1}\n')


def call_shows_what_is_no_text_in_a_line():
    stub = weather({'content': [
        {'type': 'audio', 'mimeType': 'audio/wav', 'data': 'AAAA'},
        {'type': 'resource_link', 'uri': 'a://b', 'name': 'b'},
        {'type': 'resource', 'resource': {'uri': 'a://c', 'text': 'c'}},
        {'type': 'resource', 'resource': {'uri': 'a://d', 'blob': 'AA=='}},
        {'type': 'hologram'}, {}, 5]})
    equal(Done([tidings, 'call', stub.url, 'weather', 'city=x', 'days=1']).exits(0).out,
          '[audio audio/wav 3 bytes; --json prints them]\n[resource a://b b]\n[resource a://c]\nc\n'
          '[resource a://d 1 bytes; --json prints them]\n[hologram; --json prints it]\n'
          '[content without a type; --json prints it]\n'
          '[content without a type; --json prints it]\n')


def call_tells_the_errors_of_a_server():
    stub = weather(Exception({'code': -32603, 'message': 'it is ' + HOSTILE}))
    done = Done([tidings, 'call', stub.url, 'weather', 'city=x', 'days=1']).exits(1)
    done.complains('tidings: call: weather: ', '-32603: it is a', '<U+009B>31mc<U+202E>d')
    assert not re.search('[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]', done.err), repr(done.err)
    equal(done.out, '')


# ---- prompt -------------------------------------------------------------------------------

@on_every_target
def prompt_prints_messages_under_their_roles(target):
    equal(target.run('prompt', 'test_simple_prompt').exits(0).out,
          '==> user <==\nA simple prompt for testing.\n')
    done = target.run('prompt', 'test_prompt_with_arguments', 'arg1=one', 'arg2=2').exits(0)
    done.says('==> user <==\nThe arguments are one and 2.\n')
    target.run('prompt', 'test_prompt_with_image').exits(0).says(
        '==> user <==\n[image image/png 69 bytes; --json prints them]\n\n==> user <==\n')


@on_every_target
def prompt_json_is_the_result(target):
    result = target.run('prompt', '--json', 'test_simple_prompt').json()
    equal(result['messages'], [{'role': 'user', 'content': {
        'type': 'text', 'text': 'A simple prompt for testing.'}}])


@on_every_target
def prompt_says_what_is_wrong(target):
    name = 'test_prompt_with_arguments'
    target.run('prompt', 'test_simple_prompp').exits(6).complains(
        "there is no prompt 'test_simple_prompp'; did you mean 'test_simple_prompt'?")
    target.run('prompt', name, 'arg1=x').exits(2).complains(f'{name}: missing: arg2')
    target.run('prompt', name, 'arg1=x', 'arg=y').exits(2).complains('unknown argument arg; ')
    target.run('prompt', name, 'arg1=x', 'arg2:=5').exits(2).complains(
        'arg2 is not a text; arguments of prompts have to be texts')


# ---- info ---------------------------------------------------------------------------------

VERSIONS = ['2026-07-28', '2025-11-25', '2025-06-18', '2025-03-26', '2024-11-05']


@on_every_target
def info_shows_the_server(target):
    done = target.run('info').exits(0)
    done.says('server        fixture 0.1.0\n',
              f"protocol      {'2026-07-28 (modern)' if target.modern else '2025-11-25 (legacy)'}",
              f"transport     {'http' if target.url else 'stdio'}\n",
              'capabilities  resources: subscribe, listChanged\n',
              '              tools: listChanged\n')
    if target.modern:
        done.says('versions      ' + ', '.join(VERSIONS) + '\n', 'subscriptions yes, with cursors')
    else:
        done.says('versions      2025-11-25\n', 'subscriptions yes\n')


@on_every_target
def info_json_has_the_same(target):
    facts = target.run('info', '--json').json()
    equal(set(facts), {'era', 'protocolVersion', 'transport', 'serverInfo', 'capabilities',
                       'supportedVersions', 'instructions', 'subscribe', 'cursors'})
    equal((facts['era'], facts['protocolVersion'], facts['transport'], facts['subscribe']),
          ('modern' if target.modern else 'legacy',
           '2026-07-28' if target.modern else '2025-11-25', 'http' if target.url else 'stdio',
           True))
    equal(facts['serverInfo'], {'name': 'fixture', 'version': '0.1.0'})
    equal(facts['capabilities']['resources'], {'subscribe': True, 'listChanged': True})
    equal((facts['supportedVersions'], facts['cursors']),
          (VERSIONS, True) if target.modern else (['2025-11-25'], None))


def info_knows_who_gives_no_cursors():
    stub = Stub(capabilities={'resources': {'subscribe': True, 'listChanged': True}})
    facts = Done([tidings, 'info', '--json', stub.url]).json()
    equal((facts['subscribe'], facts['cursors']), (True, False))
    facts = Done([tidings, 'info', '--json', Stub(capabilities={}).url]).json()
    equal((facts['subscribe'], facts['cursors']), (False, None))


def info_shows_instructions_and_what_is_missing():
    stub = Stub(instructions='First line.\n\nSecond \x1b[31mline.', capabilities={})
    done = Done([tidings, 'info', stub.url]).exits(0)
    done.says('capabilities  none\n', 'subscriptions no\n', 'instructions  First line.\n\n'
              '              Second ^[[31mline.\n')


# ---- tidings serve ------------------------------------------------------------------------

def files_that_are_served_can_be_listed_and_read():
    folder = tempfile.mkdtemp(dir=work)
    for name, data in (('a.md', b'# one\n'), ('two words.txt', b'two'), ('b.bin', b'\x00\xff')):
        with open(os.path.join(folder, name), 'wb') as file:
            file.write(data)
    url = start(tidings, 'serve', '--listen', 'http://127.0.0.1:0', folder)
    for target in (Target('HTTP', url), Target('legacy', url, options=['--era', 'legacy']),
                   Target('stdio', program=[tidings, 'serve', '--stdio', folder])):
        uris = target.run('ls', '--names', '--resources').exits(0).out.splitlines()
        equal(sorted(uri.rpartition('/')[2] for uri in uris),
              ['a.md', 'b.bin', 'two%20words.txt'])
        contents = {uri.rpartition('/')[2]: target.run('read', uri).exits(0).raw
                    for uri in uris}
        equal(contents, {'a.md': b'# one\n', 'two%20words.txt': b'two', 'b.bin': b'\x00\xff'})
        target.run('call', 'anything').exits(6).complains('this server has no tools')


# ---- Exit codes and errors ----------------------------------------------------------------

def exit_codes_tell_what_went_wrong():
    for command in ('ls', 'info'):
        Done([tidings, command, 'http://127.0.0.1:1']).exits(3).complains(f'tidings: {command}: ')
        Done([tidings, command, '--', '/no/such/program']).complains(f'tidings: {command}: ')
        Done([tidings, command]).exits(2).complains('no server: give its address')
        Done([tidings, command, 'ftp://x']).exits(2).complains('is not an address')
        Done([tidings, command, fixture_url(), 'more']).exits(2).complains("'more'")
        Done([tidings, command, fixture_url(), '--', 'x']).exits(2).complains('not both')
    for command in ('read', 'call', 'prompt'):
        Done([tidings, command, fixture_url()]).exits(2).complains(f'tidings: {command}: expected')
    Done([tidings, 'ls', '--json', '--names', fixture_url()]).exits(2)
    Done([tidings, 'read', '--output', 'x', '--json', fixture_url(), 'a://b']).exits(2)
    Done([tidings, 'read', '--output', 'x', fixture_url(), 'a://b', 'a://c']).exits(2)
    Done([tidings, 'ls', '--tool', fixture_url()]).exits(2).complains('did you mean --tools?')


def who_they_are_is_asked_and_told():
    stub = Stub(token='the-secret')
    done = Done([tidings, 'ls', stub.url]).exits(5).complains('--token-file')
    path = os.path.join(work, 'token')
    with open(path, 'w', encoding='utf-8') as file:
        file.write('wrong-secret\n')
    done = Done([tidings, 'ls', '--verbose', '--token-file', path, stub.url]).exits(5)
    assert 'wrong-secret' not in done.err + done.out, done.err
    with open(path, 'w', encoding='utf-8') as file:
        file.write('the-secret\n')
    Done([tidings, 'ls', '--token-file', path, stub.url]).exits(0)
    Done([tidings, 'ls', '--header', 'Authorization: Bearer the-secret', stub.url]).exits(0)


def the_environment_has_the_address():
    def env(url):
        return {**os.environ, 'TIDINGS_URL': url}
    done = Done([tidings, 'ls', '--names'], env=env(fixture_url())).exits(0)
    equal(done.out, Done([tidings, 'ls', '--names', fixture_url()]).exits(0).out)
    done = Done([tidings, 'read', 'test://static-text'], env=env(fixture_url())).exits(0)
    equal(done.out, Done([tidings, 'read', fixture_url(), 'test://static-text']).out)
    for command, *operands in (('call', 'test_simple_text'),
                               ('prompt', 'test_prompt_with_arguments', 'arg1=a', 'arg2=b')):
        done = Done([tidings, command, *operands], env=env(fixture_url())).exits(0)
        equal(done.out, Done([tidings, command, fixture_url(), *operands]).exits(0).out)
    report = json.loads(Done([tidings, 'doctor', '--json', '--idle', '1s', '--era', 'modern'],
                             env=env(fixture_url())).out)
    equal((report['target'], report['eras']), (fixture_url(), ['modern']))
    Done([tidings, 'info', fixture_url()], env=env('http://127.0.0.1:1')).exits(0)
    Done([tidings, 'ls', '--', tidings, 'serve', '--stdio', work],
         env=env('http://127.0.0.1:1')).exits(0)
    Done([tidings, 'ls'], env=env('nonsense')).exits(2).complains('TIDINGS_URL is not an address')


def time_is_over_when_it_says():
    began = time.monotonic()
    Done([tidings, 'call', '--timeout', '300ms', fixture_url(), 'slow',
          '--arguments', '{"ms": 50000}']).exits(4)
    assert time.monotonic() - began < 40


def a_closed_output_is_an_error():
    for command in (['ls'], ['read', 'test://static-text'], ['info'], ['ls', '--json'],
                    ['call', 'test_simple_text'], ['prompt', 'test_simple_prompt']):
        with open('/dev/full', 'wb') as full:
            done = subprocess.run([tidings, command[0], fixture_url(), *command[1:]],
                                  stdin=subprocess.DEVNULL, stdout=full, stderr=subprocess.PIPE,
                                  timeout=PATIENCE, check=False)
        equal(done.returncode, 1)
        assert b'cannot write to standard output: No space' in done.stderr, done.stderr
        reader, writer = os.pipe()
        os.close(reader)
        done = subprocess.run([tidings, command[0], fixture_url(), *command[1:]],
                              stdin=subprocess.DEVNULL, stdout=writer, stderr=subprocess.PIPE,
                              timeout=PATIENCE, check=False)
        os.close(writer)
        equal(done.returncode, 1)
        assert done.stderr == b'', done.stderr


# ---- Servers that mean harm ---------------------------------------------------------------

def hostile_stub():
    item = {'name': HOSTILE, 'title': HOSTILE, 'description': HOSTILE}
    text = {'type': 'text', 'text': HOSTILE}
    return Stub(
        {'resources/list': {'resources': [{**item, 'uri': HOSTILE, 'mimeType': HOSTILE}]},
         'resources/templates/list': {'resourceTemplates': [{**item, 'uriTemplate': HOSTILE}]},
         'tools/list': {'tools': [
             {**item, 'inputSchema': {'type': 'object', 'properties': {HOSTILE: {}}}},
             {'name': 'tool', 'inputSchema': {'type': 'object', 'required': [HOSTILE]}},
             {'name': 'open', 'inputSchema': {'type': 'object'}}]},
         'prompts/list': {'prompts': [{'name': 'p'}, {**item, 'arguments': [{'name': HOSTILE}]}]},
         'resources/read': {'contents': [
             {'uri': HOSTILE, 'mimeType': HOSTILE, 'text': HOSTILE},
             {'uri': 'x', 'mimeType': HOSTILE, 'blob': 'AA=='}]},
         'tools/call': {'isError': True, 'content': [
             text, {'type': HOSTILE}, {'type': 'image', 'mimeType': HOSTILE, 'data': ''},
             {'type': 'resource_link', 'uri': HOSTILE, 'name': HOSTILE}]},
         'prompts/get': {'description': HOSTILE, 'messages': [{'role': HOSTILE,
                                                               'content': text}]}},
        instructions=HOSTILE, capabilities={'resources': {HOSTILE: True}, HOSTILE: {}},
        serverInfo={'name': HOSTILE, 'version': HOSTILE, 'title': HOSTILE})


def nothing_harmful_reaches_a_terminal():
    stub = hostile_stub()
    for command in (['ls'], ['info'], ['read', 'a://b'], ['call', 'open'], ['call', 'tool'],
                    ['call', 'no' + HOSTILE[2:]], ['prompt', 'p'], ['prompt', 'q'],
                    ['ls', '--json'], ['read', '--json', 'a://b'], ['info', '--json'],
                    ['ls', '--names'], ['call', '--json', 'open'], ['prompt', '--json', 'p']):
        _, seen = on_a_terminal(tidings, command[0], stub.url, *command[1:], columns=2000)
        left = re.findall('[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]', seen)
        assert not left, f'{command}: {left} in {seen!r}'
        assert seen or command == ['ls', '--names'], command


def nonsense_from_a_server_does_no_harm():
    wrong = [None, 5, 'x', [], {}, [5], [[]], [{}], {'x': 1}, True]
    for value in wrong:
        stub = Stub({'resources/list': {'resources': value}, 'tools/list': {'tools': value},
                     'prompts/list': {'prompts': value},
                     'resources/templates/list': {'resourceTemplates': value},
                     'resources/read': {'contents': value}},
                    capabilities=value, instructions=value, serverInfo=value,
                    supportedVersions=['2026-07-28'])
        for command in (['ls'], ['info'], ['read', 'a://b'], ['call', 'x'], ['prompt', 'x'],
                        ['ls', '--json'], ['ls', '--names'], ['info', '--json']):
            done = Done([tidings, command[0], stub.url, *command[1:]])
            assert done.code in (0, 1, 6), f'{command} {value}: {done.code} {done.err}'
        stub.close()
    for value in wrong:
        stub = Stub({'tools/list': {'tools': [{'name': 'x', 'inputSchema': {
                         'properties': value, 'required': value}, 'description': value}]},
                     'tools/call': {'content': value},
                     'prompts/list': {'prompts': [{'name': 'x', 'arguments': value}]},
                     'prompts/get': {'messages': value}})
        for command in (['ls'], ['call', 'x', '--arguments', '{"x": 1}'], ['prompt', 'x']):
            done = Done([tidings, command[0], stub.url, *command[1:]])
            assert done.code in (0, 1, 2), f'{command} {value}: {done.code} {done.err}'
        stub.close()


# ---- Running ------------------------------------------------------------------------------

TESTS = [
    ls_shows_a_table_of_each_list,
    ls_shows_what_was_chosen,
    ls_json_has_what_the_protocol_has,
    ls_names_are_bare,
    ls_reads_all_pages,
    ls_of_a_server_with_nothing_says_so,
    ls_aligns_by_characters_and_cuts_only_descriptions,
    read_gives_a_text_as_it_is,
    read_decodes_what_is_binary,
    read_parts_several_by_headings,
    read_json_is_the_result,
    read_goes_on_after_what_is_not_there,
    read_leaves_bytes_alone,
    read_takes_what_servers_get_wrong,
    read_says_where_it_cannot_write,
    call_prints_the_texts_of_the_answer,
    call_json_is_the_result,
    call_tells_the_failure_of_a_tool,
    call_suggests_a_tool,
    call_names_what_is_missing_before_it_sends,
    call_types_values_by_the_schema,
    call_says_what_is_wrong_with_arguments_and_sends_nothing,
    call_shows_a_structure_where_there_is_no_text,
    call_shows_what_is_no_text_in_a_line,
    call_tells_the_errors_of_a_server,
    prompt_prints_messages_under_their_roles,
    prompt_json_is_the_result,
    prompt_says_what_is_wrong,
    info_shows_the_server,
    info_json_has_the_same,
    info_knows_who_gives_no_cursors,
    info_shows_instructions_and_what_is_missing,
    files_that_are_served_can_be_listed_and_read,
    exit_codes_tell_what_went_wrong,
    who_they_are_is_asked_and_told,
    the_environment_has_the_address,
    time_is_over_when_it_says,
    a_closed_output_is_an_error,
    nothing_harmful_reaches_a_terminal,
    nonsense_from_a_server_does_no_harm,
]


def main():
    global tidings, fixture, work
    (tidings, fixture), chosen = tap.arguments('TIDINGS', 'FIXTURE')
    for name in ('http_proxy', 'HTTP_PROXY', 'all_proxy', 'ALL_PROXY'):
        os.environ.pop(name, None)
    work = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, work, True)
    atexit.register(kill_all)
    tap.run_all(TESTS, chosen)


if __name__ == '__main__':
    main()

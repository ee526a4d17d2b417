#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""doctor_test.py TIDINGS FIXTURE MUTE_NAMES [CHOSEN]: `tidings doctor` against good servers (all
is well), against servers with one defect each (exactly that one is named), and through nginx, as
it comes and as the doctor says it should be. Writes TAP."""
import concurrent.futures
import contextlib
import json
import os
import pty
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'hostile'))

from lib import tap  # noqa: E402
from lib.address import wait_for_address  # noqa: E402
from lib.mortal import MORTAL  # noqa: E402
from lib.port import bound, port_of  # noqa: E402
from doctor_server import KEEPALIVE, Server  # noqa: E402

PATIENCE = 300  # for one doctor; less than the limit of the whole test in meson.build
SLOW = 3  # seconds between signs of life: a process that stalls for less makes no lumps
tidings = fixture = mute_names = None


# ---- Programs -----------------------------------------------------------------------------

class Report:
    """What the doctor found."""

    def __init__(self, *arguments, program=(), env=None):
        after = ['--', *program] if program else []
        began = time.monotonic()
        done = subprocess.run([tidings, 'doctor', '--json', *arguments, *after],
                              stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE,
                              check=False, env=env)
        self.seconds = time.monotonic() - began
        self.code, self.err = done.returncode, done.stderr.decode(errors='replace')
        assert done.stdout.count(b'\n') == 1, f'not one line: {done.stdout} {self.err}'
        assert not re.search(rb'[\x00-\x09\x0b-\x1f\x7f-\xff]', done.stdout), done.stdout
        self.all = json.loads(done.stdout)
        self.checks = self.all['checks']

    def bad(self):
        """(id, status) of what is not well."""
        return {(check['id'], check['status']) for check in self.checks
                if check['status'] in ('warning', 'failed')}

    def found(self, name, era=None):
        return next(check for check in self.checks
                    if check['id'] == name and check['era'] == era)

    def statuses(self):
        return {(check['id'], check['era']): check['status'] for check in self.checks}

    def lines(self):
        return '\n'.join(f'{c["id"]} {c["era"]} {c["status"]}: {c["did"]}: {c["saw"]}'
                         for c in self.checks)

    def is_well(self, code=0):
        assert not self.bad(), f'{self.bad()}\n{self.lines()}'
        assert self.code == code, f'exit code {self.code}: {self.err}'
        for check in self.checks:
            assert check['did'] and check['saw'] or check['status'] == 'skipped', check
            assert check['fix'] is None, check
        return self

    def is_ill(self, *expected):
        """Exactly these, each with a word about how to mend it."""
        assert self.bad() == set(expected), f'{self.bad()}\n{self.lines()}'
        for check in self.checks:
            if check['status'] in ('warning', 'failed'):
                assert check['did'] and check['saw'] and len(check['fix']) > 30, check
        failed = any(status == 'failed' for _, status in expected)
        assert self.code == (1 if failed else 0), f'exit code {self.code}: {self.err}'
        return self


@contextlib.contextmanager
def serving(*arguments):
    """`tidings serve` with these; yields its address."""
    process = subprocess.Popen([*MORTAL, tidings, 'serve', *arguments],
                               stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                               stderr=subprocess.PIPE)
    try:
        yield wait_for_address(process.stderr, PATIENCE)
    finally:
        process.kill()
        process.wait(PATIENCE)


@contextlib.contextmanager
def notes(config='keepalive: 700ms'):
    """A folder with two files, and a config that serves it."""
    with tempfile.TemporaryDirectory() as work:
        os.mkdir(f'{work}/notes')
        for name in 'ab':
            with open(f'{work}/notes/{name}.txt', 'w') as file:
                file.write('first\n')
        with open(f'{work}/tidings.yaml', 'w') as file:
            file.write(f'server:\n  listen: http://127.0.0.1:0\n  {config}\n'
                       f'resources:\n  - files: {work}/notes\n')
        yield work


# ---- Good servers -------------------------------------------------------------------------

def our_server_is_well_in_both_eras():
    with notes(f'keepalive: {SLOW}s') as work, \
            serving('--config', f'{work}/tidings.yaml') as url:
        report = Report(url, '--idle', '7s', '--trigger',
                        f'echo second > {work}/notes/a.txt').is_well()
    assert report.all['eras'] == ['modern', 'legacy'], report.all
    assert report.all['ok'] and report.all['counts']['failed'] == 0
    for era in ('modern', 'legacy'):
        for name in ('updates.arrive', 'stream.keepalive', 'stream.buffering', 'stream.head',
                     'requests.parallel', 'reconnect.requests', 'capability.resources'):
            assert report.found(name, era)['status'] == 'ok', report.lines()
        assert report.found('updates.arrive', era)['facts']['latency_us'] > 0
    for name in ('stream.acknowledged', 'version.unsupported', 'version.negotiated',
                 'session.unknown', 'session.delete', 'header.origin', 'header.mirrored',
                 'reconnect.modern', 'reconnect.legacy', 'reach.connect'):
        assert report.found(name)['status'] == 'ok', report.lines()


def one_era_can_be_asked_for():
    with notes() as work, serving('--config', f'{work}/tidings.yaml') as url:
        for era in ('modern', 'legacy'):
            report = Report(url, '--idle', '2s', '--era', era).is_well()
            assert report.all['eras'] == [era], report.all
            assert {c['era'] for c in report.checks} == {None, era}


def our_program_is_well():
    with notes() as work:
        report = Report('--idle', '1s', '--trigger', f'echo second > {work}/notes/a.txt',
                        program=[tidings, 'serve', '--stdio', f'{work}/notes']).is_well()
    for name in ('stream.acknowledged', 'program.output', 'reach.start'):
        assert report.found(name)['status'] == 'ok', report.lines()
    for era in ('modern', 'legacy'):
        for name in ('updates.arrive', 'program.end', 'program.survives'):
            assert report.found(name, era)['status'] == 'ok', report.lines()


def the_fixture_is_well():
    process = subprocess.Popen([*MORTAL, fixture, '--http', '0'], stdin=subprocess.DEVNULL,
                               stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    try:
        report = Report(wait_for_address(process.stderr, PATIENCE), '--idle', '20s').is_well()
    finally:
        process.kill()
        process.wait(PATIENCE)
    for name in ('tools', 'prompts', 'completions'):
        assert report.found(f'capability.{name}', 'modern')['status'] == 'ok', report.lines()


def the_good_test_server_is_well():
    with Server() as server:
        report = examine(server)
    report.is_well()
    for era in ('modern', 'legacy'):
        assert report.found('updates.arrive', era)['status'] == 'ok', report.lines()


def without_a_change_nothing_is_said_about_updates():
    with Server() as server:
        report = Report(server.url, '--idle', '2s', '--answer-limit', '20s').is_well()
    assert report.found('updates.arrive', 'modern')['status'] == 'skipped', report.lines()
    assert '--trigger' in report.found('updates.arrive', 'modern')['saw']


# ---- Bad servers --------------------------------------------------------------------------

DEFECTS = {
    'late-head': {('stream.head', 'failed')},
    'buffers': {('stream.first-byte', 'failed')},
    # nothing has to come on a stream of that era, so it shows in what is missing
    'buffers legacy-only': {('stream.keepalive', 'warning'), ('updates.arrive', 'failed')},
    'lumps': {('stream.buffering', 'failed')},
    'no-keepalive': {('stream.keepalive', 'warning')},
    'cut no-keepalive': {('stream.idle', 'failed')},
    'type': {('stream.open', 'failed')},
    'no-get': {('stream.open', 'warning')},
    'length': {('stream.length', 'failed')},
    'gzip': {('stream.compression', 'warning')},
    'no-cache-control': {('stream.caching', 'warning')},
    'no-accel': {('stream.accel', 'warning')},
    'early': {('stream.acknowledged', 'failed')},
    'wrong-id': {('stream.acknowledged', 'failed')},
    'unnamed': {('stream.acknowledged', 'failed')},
    'unacknowledged': {('stream.acknowledged', 'failed')},
    'refuses': {('capability.subscribe', 'failed')},
    'refuses hostile': {('capability.subscribe', 'failed')},
    'false-tools': {('capability.tools', 'failed')},
    'false-completions': {('capability.completions', 'failed')},
    'false-logging': {('capability.logging', 'failed')},
    'hidden-prompts': {('capability.prompts', 'warning')},
    'unreadable': {('capability.resources', 'failed')},
    'knows-everything': {('capability.unknown', 'failed')},
    'hides-versions': {('version.unsupported', 'failed')},
    'false-version': {('version.named', 'failed')},
    'echoes-version': {('version.negotiated', 'failed')},
    'modern-only': {('version.any', 'warning')},
    'legacy-only': set(),
    'no-sessions no-get': {('stream.open', 'warning')},
    'any-session': {('session.unknown', 'failed'), ('session.delete', 'failed')},
    'immortal': {('session.delete', 'failed')},
    'no-session-needed': {('session.missing', 'warning')},
    'odd-session no-session-needed no-get': {('session.id', 'failed'), ('stream.open', 'warning')},
    'unmirrored': {('header.mirrored', 'failed')},
    'any-origin': {('header.origin', 'failed')},
    'any-type': {('header.content-type', 'warning')},
    'batches': {('header.batch', 'warning')},
    'batch-breaks': {('header.batch', 'failed')},
    'one-stream': {('reconnect.legacy', 'failed')},
    'no-last-event-id': {('reconnect.legacy', 'failed')},
    'tells-nothing': {('updates.arrive', 'failed')},
    'few-workers': {('requests.parallel', 'failed')},
}


def examine(server, url=None, idle='3s', **options):
    return Report(url or server.url, '--idle', idle, '--trigger', f'curl -s {server.change_url}',
                  '--answer-limit', options.get('answer_limit', '10s'))


# Three signs of life at a time are 9 s apart: the doctor does not judge lumps where it stalled
# for a third of that. The stream is cut 0.9 s after the change.
IDLE = {'lumps': '15s', 'cut no-keepalive': '8s'}


def the_defect_is_named_and_no_other(defects):
    # What waits for something that never comes should not wait for long.
    limit = '5s' if {'buffers', 'unacknowledged'} & set(defects.split()) else '20s'
    with Server(defects.split(), SLOW if defects == 'lumps' else KEEPALIVE) as server:
        examine(server, idle=IDLE.get(defects, '3s'), answer_limit=limit).is_ill(*DEFECTS[defects])


def what_keeps_out_ends_it_with_its_exit_code():
    for defect, name, code in (('401', 'reach.access', 5), ('502', 'reach.access', 3),
                               ('302', 'reach.redirect', 3)):
        with Server({defect}) as server:
            report = Report(server.url, '--idle', '1s')
        assert report.bad() == {(name, 'failed')}, report.lines()
        assert report.code == code, report.code
    with socket.socket() as taken:
        taken.bind(('127.0.0.1', 0))  # does not listen
        report = Report(f'http://127.0.0.1:{taken.getsockname()[1]}', '--idle', '1s')
    assert report.bad() == {('reach.connect', 'failed')} and report.code == 3, report.lines()
    with socket.socket() as mute:
        mute.bind(('127.0.0.1', 0))
        mute.listen()
        report = Report(f'http://127.0.0.1:{mute.getsockname()[1]}', '--timeout', '1s')
    assert report.bad() == {('reach.connect', 'failed')} and report.code == 4, report.lines()


# ---- The time-out -------------------------------------------------------------------------

# All ids are there even so. One that is late is not one that has failed.
def is_late(report, seconds):
    assert report.code == 4 and not report.all['ok'], report.lines()
    assert 'was too short for all checks' in report.err and '--timeout TIME' in report.err, report.err
    assert report.seconds < seconds, f'{report.seconds} s'
    return report


def ids_of(report):
    return [check['id'] for check in report.checks]


def a_server_that_never_answers_to_the_end_takes_no_longer_than_allowed():
    with Server({'hangs'}) as hangs, Server({'trickles'}) as trickles, \
            Server({'endless'}) as endless, Server({'hangs'}) as slow:
        reports = at_once(*[
            lambda url=server.url, limit=limit: Report(url, '--idle', '1s', '--timeout', '8s',
                                                       '--answer-limit', limit)
            for server, limit in ((hangs, '1h'), (trickles, '1h'), (endless, '1h'),
                                  (slow, '2s'))])
    for report in reports:
        is_late(report, 25)  # 9 on a machine that is not busy
        assert report.found('version.legacy')['status'] == 'ok', report.lines()
        for name in ('session.id', 'header.batch', 'reconnect.modern'):
            last = report.found(name)
            assert (last['status'], last['saw']) == ('skipped', '--timeout had expired'), last
    for report in reports[:3]:
        assert not report.bad(), report.lines()
        assert ids_of(report) == ids_of(reports[3])
    assert ('capability.resources', 'failed') in reports[3].bad(), reports[3].lines()


def streams_that_there_is_no_time_for_are_not_held():
    with Server() as server:
        report = is_late(Report(server.url, '--timeout', '1m', '--wait', '2m'), 50)
    assert not report.bad(), report.lines()
    for name in ('stream.head', 'stream.length', 'updates.arrive', 'requests.parallel'):
        for era in ('modern', 'legacy'):
            found = report.found(name, era)
            assert found['status'] == 'skipped' and '--idle' in found['saw'], found
    for name in ('header.origin', 'reconnect.legacy'):
        assert report.found(name)['status'] == 'ok', report.lines()


def a_name_server_that_hangs_takes_no_longer_than_allowed():
    report = Report('http://mute.example', '--timeout', '500ms',
                    env={**os.environ, 'LD_PRELOAD': mute_names})
    assert report.bad() == {('reach.connect', 'failed')} and report.code == 4, report.lines()
    assert report.seconds < 9, report.seconds  # the usual limit for an answer is 10 s


def what_was_started_is_gone_when_the_time_is_over():
    with tempfile.TemporaryDirectory() as work, Server() as server:
        def deaf(name):
            return f"trap '' TERM INT HUP; echo $$ >{work}/{name}; sleep 600 & wait; sleep 600"

        program, trigger = at_once(
            lambda: Report('--timeout', '1s', '--idle', '200ms',
                           program=['sh', '-c', deaf('program')]),
            lambda: Report(server.url, '--timeout', '6s', '--idle', '200ms', '--era', 'modern',
                           '--trigger', deaf('trigger')))
        for report, name in ((program, 'program'), (trigger, 'trigger')):
            is_late(report, 30)
            with open(f'{work}/{name}', encoding='ascii') as file:
                group = int(file.read())
            until(lambda group=group: not members(group), f'the {name} and its child are gone')
    assert 'reach.start' in ids_of(program) and 'program.end' in ids_of(program), program.lines()


# ---- Other ends ---------------------------------------------------------------------------

def a_server_that_floods_streams_does_not_fill_the_memory():
    """200 MiB arrive on one stream. The update after them is small, and is noticed."""
    with Server({'floods', 'modern-only'}) as server, tempfile.TemporaryFile() as out:
        process = subprocess.Popen(
            [tidings, 'doctor', '--json', '--era', 'modern', '--idle', '3s', '--trigger',
             f'curl -s {server.change_url}', server.url],
            stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        checks = {check['id']: check for check in json.load(out)['checks']}
    assert process.returncode == 0, process.returncode
    assert usage.ru_maxrss < 160 << 10, f'{usage.ru_maxrss} KiB'
    for name in ('updates.arrive', 'requests.parallel'):
        assert checks[name]['status'] == 'ok', checks[name]


def redirects_are_told():
    with Server() as server:
        report = Report(server.url.replace('/mcp', '/old'), '--idle', '2s', '--answer-limit', '20s')
    report.is_ill(('reach.redirect', 'warning'))


def what_is_no_mcp_is_said_to_be_none():
    with Server({'legacy-only', 'modern-only'}) as server:
        report = Report(server.url, '--idle', '1s')
    assert report.bad() == {('version.any', 'failed')} and report.code == 1, report.lines()


def secrets_are_not_shown():
    with Server() as server, tempfile.NamedTemporaryFile('w') as token:
        token.write('hush-token')
        token.flush()
        done = subprocess.run([tidings, 'doctor', '--idle', '1s', '--token-file', token.name,
                               '--header', 'X-Key: hush-header',
                               server.url.replace('//', '//me:hush-word@') + '?key=hush-query'],
                              stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE,
                              check=False)
        names = list(server.sessions)
    said = (done.stdout + done.stderr).decode()
    assert 'reach.connect' in said and 'hush' not in said, said
    assert not any(name in said for name in names), said


# ---- Programs that are servers ------------------------------------------------------------

PROGRAM = '''
import json, sys, time
print("noise") if "noisy" in sys.argv else None
for line in sys.stdin:
    message = json.loads(line)
    method, id = message.get("method"), message.get("id")
    if id is None:
        if "fragile" in sys.argv and method == "notifications/doctor":
            sys.exit(1)
        continue
    if method == "initialize":
        result = {"protocolVersion": "2025-11-25", "capabilities": {},
                  "serverInfo": {"name": "x", "version": "1"}}
    elif method == "ping":
        result = {}
    else:
        print(json.dumps({"jsonrpc": "2.0", "id": id,
                          "error": {"code": -32601, "message": "no"}}), flush=True)
        continue
    print(json.dumps({"jsonrpc": "2.0", "id": id, "result": result}), flush=True)
time.sleep(60) if "lingers" in sys.argv else None
'''


def bad_programs_are_seen_through():
    for word, expected in (('good', set()), ('noisy', {('program.output', 'failed')}),
                           ('fragile', {('program.survives', 'failed'),
                                        ('program.end', 'failed')}),
                           ('lingers', {('program.end', 'failed')})):
        Report('--idle', '1s', program=[sys.executable, '-c', PROGRAM, word]).is_ill(*expected)


def a_program_that_does_not_start_is_unreachable():
    report = Report('--idle', '1s', '--era', 'legacy', program=['/nonexistent/program'])
    assert report.bad() == {('reach.start', 'failed')} and report.code == 3, report.lines()


# ---- Through nginx ------------------------------------------------------------------------

AS_IT_COMES = ''
MENDED = 'proxy_buffering off; proxy_read_timeout 1h;'


@contextlib.contextmanager
def nginx(upstream, settings):
    """nginx in front of an address; yields its own."""
    program = shutil.which('nginx') or '/usr/sbin/nginx'
    with tempfile.TemporaryDirectory() as work, bound() as keeper:
        port = port_of(keeper)
        with open(f'{work}/nginx.conf', 'w') as file:
            file.write(f'''
daemon off; master_process off; pid {work}/pid; error_log {work}/error.log;
events {{ }}
http {{
  access_log off;
  client_body_temp_path {work}/body; proxy_temp_path {work}/proxy;
  fastcgi_temp_path {work}/fastcgi; uwsgi_temp_path {work}/uwsgi; scgi_temp_path {work}/scgi;
  server {{
    listen 127.0.0.1:{port};
    location / {{ proxy_pass {upstream.rsplit('/', 1)[0]}; {settings} }}
  }}
}}
''')
        process = subprocess.Popen([*MORTAL, program, '-p', work, '-c', f'{work}/nginx.conf'],
                                   stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)
        try:
            wait_for_port(process, port)
            yield f'http://127.0.0.1:{port}/mcp'
        finally:
            process.kill()
            process.wait(PATIENCE)


def wait_for_port(process, port):
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        assert process.poll() is None, process.stderr.read().decode()
        with contextlib.suppress(OSError):
            socket.create_connection(('127.0.0.1', port), 1).close()
            return
        time.sleep(0.05)
    raise AssertionError('nginx does not listen')


def at_once(*calls):
    """What each of them returns."""
    with concurrent.futures.ThreadPoolExecutor(len(calls)) as pool:
        return [job.result() for job in [pool.submit(call) for call in calls]]


def nginx_that_buffers_is_found_out_and_can_be_mended():
    with Server({'no-accel'}) as one, nginx(one.url, AS_IT_COMES) as one_url, \
            Server({'no-accel'}, SLOW) as other, nginx(other.url, MENDED) as other_url:
        ill, well = at_once(lambda: examine(one, one_url, answer_limit='5s'),
                            lambda: examine(other, other_url, idle='7s'))
    ill.is_ill(('stream.head', 'failed'))
    assert 'proxy_buffering off' in ill.found('stream.head', 'modern')['fix']
    well.is_well()
    for era in ('modern', 'legacy'):
        assert well.found('updates.arrive', era)['status'] == 'ok', well.lines()
        assert 'nginx' in well.found('stream.proxy', era)['saw'], well.lines()


def nginx_that_cuts_silent_streams_is_found_out():
    # The limit holds for every answer, and for the time until the trigger runs.
    settings = 'proxy_buffering off; proxy_read_timeout 10s;'
    with Server({'no-keepalive'}) as mute, nginx(mute.url, settings) as mute_url, \
            Server(keepalive=SLOW) as alive, nginx(alive.url, settings) as alive_url:
        ill, well = at_once(lambda: examine(mute, mute_url, idle='15s'),
                            lambda: examine(alive, alive_url, idle='15s'))
    ill.is_ill(('stream.idle', 'failed'))
    assert 'proxy_read_timeout' in ill.found('stream.idle', 'modern')['fix']
    well.is_well()  # signs of life help


def nginx_that_compresses_is_found_out():
    with Server(keepalive=SLOW) as server, nginx(
            server.url, MENDED + ' gzip on; gzip_proxied any; gzip_http_version 1.0; '
            'gzip_min_length 0; gzip_types text/event-stream;') as url:
        report = examine(server, url, idle='7s')
    assert {name for name, _ in report.bad()} == {'stream.compression'}, report.lines()


def our_server_is_well_behind_nginx_as_it_comes():
    with notes(f'keepalive: {SLOW}s') as work, \
            serving('--config', f'{work}/tidings.yaml') as upstream, \
            nginx(upstream, AS_IT_COMES) as url:
        Report(url, '--idle', '7s', '--trigger',
               f'echo second > {work}/notes/a.txt').is_well()


# ---- For people ---------------------------------------------------------------------------

def people_get_marks_and_a_count():
    with Server({'any-origin', 'refuses', 'hostile'}) as server:
        for locale, marks in (('C', '+-x'), ('C.UTF-8', '\u2713\u2013\u2717')):
            done = subprocess.run([tidings, 'doctor', '--idle', '1s', server.url],
                                  capture_output=True, timeout=PATIENCE, check=False,
                                  stdin=subprocess.DEVNULL, env={**os.environ, 'LC_ALL': locale})
            text = done.stdout.decode()
            assert done.returncode == 1, done
            for mark in marks:
                assert f'\n  {mark} ' in text, f'no {mark} in {text}'
            assert '\033' not in text and '\x9b' not in text, text
            again = text.split('\nProblems\n')[1].split('\n\n')[0].split('\n')
            assert [line for line in again if line[2] == marks[2]] == [
                f'  {marks[2]} capability.subscribe', f'  {marks[2]} header.origin'], again
            assert all(line[2] in ('!', marks[2]) for line in again), again
            assert 'DNS rebinding' in re.sub(r'\s+', ' ', text), text
            assert re.search(r'\n\d+ ok, \d+ warnings?, 2 failed, \d+ skipped\n$', text), text
            assert all(len(line) <= 90 for line in text.split('\n')), text


def a_terminal_gets_colours_and_no_commands_of_strangers():
    with Server({'refuses', 'hostile'}) as server:
        terminal, theirs = pty.openpty()
        process = subprocess.Popen(
            [*MORTAL, tidings, 'doctor', '--idle', '1s', server.url], stdin=subprocess.DEVNULL,
            stdout=theirs, stderr=theirs,
            env={**os.environ, 'TERM': 'xterm', 'LC_ALL': 'C.UTF-8', 'NO_COLOR': ''})
        os.close(theirs)
        said, deadline = b'', time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            ready, _, _ = select.select([terminal], [], [], 1)
            if not ready:
                continue
            try:
                piece = os.read(terminal, 65536)
            except OSError:
                piece = b''
            if not piece:
                break
            said += piece
        code = process.wait(PATIENCE)
        os.close(terminal)
    assert code == 1, said
    assert b'\033[31m' in said and b'capability.subscribe' in said, said
    assert b'\033]' not in said and b'\x9b' not in said and b'\x07' not in said, said


def mistakes_on_the_command_line_are_said():
    for arguments in ([], ['nonsense'], ['http://127.0.0.1:1', 'extra'],
                      ['http://127.0.0.1:1', '--idle', 'x']):
        done = subprocess.run([tidings, 'doctor', *arguments], capture_output=True,
                              stdin=subprocess.DEVNULL, timeout=PATIENCE, check=False)
        assert done.returncode == 2 and done.stderr, (arguments, done)


def a_program_does_not_outlive_an_interrupted_doctor():
    with tempfile.TemporaryDirectory() as work:
        note = os.path.join(work, 'pid')
        # It leaves a note of who it is, says nothing, and does not care about signals.
        script = (f"trap '' TERM INT HUP; echo $$ >{note}.new; mv {note}.new {note}; "
                  'sleep 600 & wait')
        process = subprocess.Popen([tidings, 'doctor', '--', 'sh', '-c', script],
                                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL)
        try:
            until(lambda: os.path.exists(note), 'the program starts')
            with open(note, encoding='ascii') as file:
                group = int(file.read())
            process.send_signal(signal.SIGTERM)
            assert process.wait(PATIENCE) == -signal.SIGTERM
            until(lambda: not members(group), 'the program and its child are gone')
        finally:
            process.kill()


def members(group):
    """The living processes of a group."""
    found = []
    for name in filter(str.isdigit, os.listdir('/proc')):
        try:
            with open(f'/proc/{name}/stat', encoding='ascii', errors='replace') as file:
                fields = file.read().rpartition(')')[2].split()
        except OSError:
            continue  # it has ended meanwhile
        if int(fields[2]) == group and fields[0] != 'Z':
            found.append(name)
    return found


def until(condition, what):
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, f'never: {what}'
        time.sleep(0.02)


TESTS = [our_server_is_well_in_both_eras, one_era_can_be_asked_for, our_program_is_well,
         the_fixture_is_well, the_good_test_server_is_well,
         without_a_change_nothing_is_said_about_updates,
         *[(the_defect_is_named_and_no_other, defects) for defects in DEFECTS],
         what_keeps_out_ends_it_with_its_exit_code,
         a_server_that_never_answers_to_the_end_takes_no_longer_than_allowed,
         streams_that_there_is_no_time_for_are_not_held,
         a_name_server_that_hangs_takes_no_longer_than_allowed,
         what_was_started_is_gone_when_the_time_is_over,
         a_server_that_floods_streams_does_not_fill_the_memory, redirects_are_told,
         what_is_no_mcp_is_said_to_be_none, secrets_are_not_shown, bad_programs_are_seen_through,
         a_program_that_does_not_start_is_unreachable,
         nginx_that_buffers_is_found_out_and_can_be_mended,
         nginx_that_cuts_silent_streams_is_found_out, nginx_that_compresses_is_found_out,
         our_server_is_well_behind_nginx_as_it_comes, people_get_marks_and_a_count,
         a_terminal_gets_colours_and_no_commands_of_strangers,
         mistakes_on_the_command_line_are_said,
         a_program_does_not_outlive_an_interrupted_doctor]


def main():
    global tidings, fixture, mute_names
    (tidings, fixture, mute_names), chosen = tap.arguments('TIDINGS', 'FIXTURE', 'MUTE_NAMES')
    tap.run_all(TESTS, chosen)


if __name__ == '__main__':
    main()

#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What `make run` does, in TAP: `run_test.py PROGRAM`. scripts/run serves a copy of
examples/live; what changes there has to appear, and nothing may stay behind."""
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(ROOT, 'tests', 'hostile'))

from lib import tap  # noqa: E402

PROGRAM = os.path.abspath(sys.argv[1])


def children(parent):
    """The processes that `parent` has started and that still are there."""
    found = []
    for name in os.listdir('/proc'):
        if not name.isdigit():
            continue
        try:
            with open(f'/proc/{name}/stat', encoding='ascii', errors='replace') as file:
                fields = file.read().rpartition(')')[2].split()
        except OSError:
            continue  # it has ended meanwhile
        if int(fields[1]) == parent and fields[0] != 'Z':
            found.append(int(name))
    return found


def is_gone(pid):
    try:
        with open(f'/proc/{pid}/stat', encoding='ascii', errors='replace') as file:
            return file.read().rpartition(')')[2].split()[0] == 'Z'
    except OSError:
        return True


class Run:
    """scripts/run in a session of its own, as if in a terminal."""

    def __init__(self, folder, port=0):
        self.process = subprocess.Popen(
            [os.path.join(ROOT, 'scripts', 'run'), PROGRAM, str(port), folder],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, start_new_session=True)
        self.lines = []
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            self.lines.append(line.rstrip())

    def shows(self, *words):
        """Waits for a line with all of the words; returns it."""
        def found():
            return [line for line in list(self.lines) if all(word in line for word in words)]
        try:
            return tap.until(found, f'no line with {words}')[0]
        except AssertionError as error:
            raise AssertionError(f'{error}; there are:\n' + '\n'.join(self.lines)) from error

    def server(self):
        found = children(self.process.pid)
        tap.same(len(found), 1, 'processes that it started')
        return found[0]

    def wait(self):
        status = self.process.wait(tap.WAIT)
        self.reader.join(tap.WAIT)
        return status

    def kill(self):
        """Whatever is left after a failure."""
        for pid in children(self.process.pid) + [self.process.pid]:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.process.wait()


def with_run(test, **options):
    with tempfile.TemporaryDirectory() as work:
        folder = os.path.join(work, 'live')
        shutil.copytree(os.path.join(ROOT, 'examples', 'live'), folder)
        run = Run(folder, **options)
        try:
            test(run, folder)
        finally:
            run.kill()


def shows_changes(run, folder):
    run.shows('tidings serves', 'http://127.0.0.1:')
    run.shows('live://files/notes.md', 'text/markdown')
    run.shows('live://clock', 'content_update', 'bytes')

    with open(os.path.join(folder, 'notes.md'), 'a', encoding='utf-8') as file:
        file.write('- buy milk\n')
    size = os.path.getsize(os.path.join(folder, 'notes.md'))
    run.shows('live://files/notes.md', 'content_update', f' {size} bytes')

    with open(os.path.join(folder, 'new.txt'), 'w', encoding='utf-8') as file:
        file.write('hello')
    run.shows('live://files/new.txt', ' 5 bytes')
    run.shows('(the list)', 'changed')
    os.remove(os.path.join(folder, 'new.txt'))
    run.shows('live://files/new.txt', 'deleted')


def reads_its_config_again(run, folder):
    run.shows('tidings serves')
    with open(os.path.join(folder, 'tidings.yaml'), 'a', encoding='utf-8') as file:
        file.write('\n  - files: more\n    uri: more://{+path}\n')
    run.shows('read again')
    run.shows('tidings serves more://{+path}')
    os.mkdir(os.path.join(folder, 'more'))
    with open(os.path.join(folder, 'more', 'new.txt'), 'w', encoding='utf-8') as file:
        file.write('hello')
    run.shows('more://new.txt', ' 5 bytes')


def ends_with_ctrl_c(run, folder):
    run.shows('live://clock', 'content_update')
    server = run.server()
    os.killpg(run.process.pid, signal.SIGINT)
    tap.same(run.wait(), 0, 'exit status')
    tap.check(is_gone(server), 'the server is still there')
    tap.check(not any('Traceback' in line for line in run.lines), '\n'.join(run.lines))


def takes_the_server_along(run, folder):
    run.shows('tidings serves')
    server = run.server()
    run.process.kill()
    run.process.wait()
    tap.until(lambda: is_gone(server), 'the server outlives the script')


def says_when_the_server_ends(run, folder):
    run.shows('tidings serves')
    os.kill(run.server(), signal.SIGKILL)
    tap.same(run.wait(), 1, 'exit status')
    run.shows('server')


def prints_lines_that_work(run, folder):
    """The lines for curl are pasted into a shell."""
    run.shows('Ctrl-C')
    text = '\n'.join(run.lines)
    modern = text[text.index('curl -N http'):text.index('  * 2025-11-25')]
    legacy = text[text.index('url=http'):text.index('tidings serves')]
    for name, script in (('modern', modern), ('legacy', legacy)):
        shell = subprocess.Popen(['sh', '-c', script], stdout=subprocess.PIPE,
                                 stderr=subprocess.DEVNULL, text=True, start_new_session=True)
        timer = threading.Timer(tap.WAIT, os.killpg, (shell.pid, signal.SIGKILL))
        timer.start()
        try:
            told = any('"notifications/resources/updated"' in line and 'live://clock' in line
                       for line in shell.stdout)
        finally:
            timer.cancel()
            if shell.poll() is None:
                os.killpg(shell.pid, signal.SIGKILL)
            shell.wait()
        tap.check(told, f'{name}: nothing came')


def says_that_the_port_is_taken():
    with socket.socket() as taken:
        taken.bind(('127.0.0.1', 0))
        taken.listen()

        def test(run, folder):
            tap.same(run.wait(), 1, 'exit status')
            run.shows('cannot listen')
            run.shows('PORT=0')
        with_run(test, port=taken.getsockname()[1])


def refuses_a_wrong_port():
    def test(run, folder):
        tap.same(run.wait(), 2, 'exit status')
        run.shows('PORT must be a number')
    for port in ('70000', 'x', '-1', ''):
        with_run(test, port=port)


def main():
    tap.run('a change appears as a line', with_run, shows_changes)
    tap.run('the lines for curl work as they are', with_run, prints_lines_that_work)
    tap.run('a changed config is read again', with_run, reads_its_config_again)
    tap.run('Ctrl-C ends it and the server', with_run, ends_with_ctrl_c)
    tap.run('when it is killed, the server ends', with_run, takes_the_server_along)
    tap.run('when the server is killed, it says so', with_run, says_when_the_server_ends)
    tap.run('a port that is taken is said to be', says_that_the_port_is_taken)
    tap.run('a wrong port is refused', refuses_a_wrong_port)
    tap.finish()


if __name__ == '__main__':
    main()

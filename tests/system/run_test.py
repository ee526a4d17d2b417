#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What `make run` does, in TAP: `run_test.py PROGRAM`. scripts/run serves a copy of
examples/live; what changes there has to appear, and nothing may stay behind."""
import os
import pty
import re
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


def is_command(pid, name):
    """Whether it is `tidings NAME`: not yet while setpriv is about to become that."""
    try:
        with open(f'/proc/{pid}/cmdline', 'rb') as file:
            return file.read().split(b'\0')[1:2] == [name.encode()]
    except OSError:
        return False


class Run:
    """scripts/run in a session of its own, as if in a terminal; `terminal` gives it one."""

    def __init__(self, folder, port=0, terminal=False):
        ours, its = pty.openpty() if terminal else os.pipe()
        environment = {key: value for key, value in os.environ.items() if key != 'NO_COLOR'}
        self.process = subprocess.Popen(
            [os.path.join(ROOT, 'scripts', 'run'), PROGRAM, str(port), folder],
            stdin=subprocess.DEVNULL, stdout=its, stderr=its, start_new_session=True,
            env={**environment, 'TERM': 'xterm'})
        os.close(its)
        self.output = os.fdopen(ours, encoding='utf-8', errors='replace')
        self.lines = []
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        try:
            for line in self.output:
                self.lines.append(line.rstrip())
        except OSError:
            pass  # how a terminal says that nobody writes to it any more

    def shows(self, *words):
        """Waits for a line with all of the words; returns it."""
        def found():
            return [line for line in list(self.lines) if all(word in line for word in words)]
        try:
            return tap.until(found, f'no line with {words}')[0]
        except AssertionError as error:
            raise AssertionError(f'{error}; there are:\n' + '\n'.join(self.lines)) from error

    def started(self):
        """The server and the watch; both are there."""
        found = [tap.until(lambda: [pid for pid in children(self.process.pid)
                                    if is_command(pid, name)], f'no tidings {name}')
                 for name in ('serve', 'watch')]
        tap.same([len(pids) for pids in found], [1, 1], 'processes that it started')
        tap.same(len(children(self.process.pid)), 2, 'processes that it started')
        return [pids[0] for pids in found]

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
        self.reader.join(tap.WAIT)
        if not self.reader.is_alive():
            self.output.close()


def with_run(test, **options):
    with tempfile.TemporaryDirectory() as work:
        folder = os.path.join(work, 'live')
        shutil.copytree(os.path.join(ROOT, 'examples', 'live'), folder)
        run = Run(folder, **options)
        try:
            test(run, folder)
        finally:
            run.kill()


def write(folder, name, text, mode='w'):
    path = os.path.join(folder, name)
    with open(path, mode, encoding='utf-8') as file:
        file.write(text)
    return os.path.getsize(path)


def shows_changes(run, folder):
    run.shows('tidings serves', 'http://127.0.0.1:')
    run.shows('live://files/notes.md', 'text/markdown')
    run.shows('live://clock', 'content_update', 'bytes')
    tap.check(not any('\033' in line for line in run.lines), 'colors, and no terminal')

    size = write(folder, 'notes.md', '- buy milk\n', 'a')
    run.shows('live://files/notes.md', 'content_update', f' {size} bytes')

    write(folder, 'new.txt', 'hello')
    run.shows('live://files/new.txt', 'new in the list')
    write(folder, 'new.txt', 'hello again')
    run.shows('live://files/new.txt', 'content_update', ' 11 bytes')
    os.remove(os.path.join(folder, 'new.txt'))
    tap.until(lambda: any('live://files/new.txt' in line and
                          ('deleted' in line or 'removed from the list' in line)
                          for line in list(run.lines)), 'it is not told as gone')


def has_colors_in_a_terminal(run, folder):
    run.shows('live://clock', '\033[32mcontent_update\033[0m')
    os.killpg(run.process.pid, signal.SIGINT)
    tap.same(run.wait(), 0, 'exit status')


def reads_its_config_again(run, folder):
    run.shows('tidings: watching')
    write(folder, 'tidings.yaml', '\n  - files: more\n    uri: more://{+path}\n', 'a')
    run.shows('config reloaded')
    os.mkdir(os.path.join(folder, 'more'))
    write(folder, 'more/new.txt', 'hello')
    run.shows('more://new.txt', 'new in the list')
    write(folder, 'more/new.txt', 'hello again')
    run.shows('more://new.txt', 'content_update', ' 11 bytes')


def all_is_over(run, started):
    tap.same(run.wait(), 0, 'exit status')
    for pid in started:
        tap.check(is_gone(pid), f'process {pid} is still there')
    for word in ('Traceback', 'lost the connection', 'has ended'):
        tap.check(not any(word in line for line in run.lines), '\n'.join(run.lines))


def ends_with_ctrl_c(run, folder):
    run.shows('live://clock', 'content_update')
    started = run.started()
    os.killpg(run.process.pid, signal.SIGINT)
    all_is_over(run, started)


def ends_when_told_alone(run, folder):
    run.shows('live://clock', 'content_update')
    started = run.started()
    run.process.terminate()
    all_is_over(run, started)


def takes_both_along(run, folder):
    run.shows('tidings serves')
    started = run.started()
    run.process.kill()
    run.process.wait()
    for pid in started:
        tap.until(lambda: is_gone(pid), 'a program outlives the script')


def says_when_the_server_ends(run, folder):
    run.shows('tidings: watching')
    server, watch = run.started()
    os.kill(server, signal.SIGKILL)
    tap.same(run.wait(), 1, 'exit status')
    run.shows('run: the server has ended')
    tap.check(is_gone(watch), 'the watch is still there')


def ends_with_the_watch(run, folder):
    run.shows('tidings: watching')
    server, watch = run.started()
    os.kill(watch, signal.SIGKILL)
    tap.same(run.wait(), 1, 'exit status')
    tap.check(is_gone(server), 'the server is still there')


def prints(script, *words):
    """A shell that runs it prints a line with these words; it is ended then."""
    shell = subprocess.Popen(['sh', '-c', script], stdout=subprocess.PIPE,
                             stderr=subprocess.DEVNULL, text=True, start_new_session=True)
    timer = threading.Timer(tap.WAIT, os.killpg, (shell.pid, signal.SIGKILL))
    timer.start()
    try:
        found = any(all(word in line for word in words) for line in shell.stdout)
    finally:
        timer.cancel()
        if shell.poll() is None:
            os.killpg(shell.pid, signal.SIGKILL)
        shell.wait()
        shell.stdout.close()
    tap.check(found, f'no line with {words} from: {script}')


def ends_when_nobody_reads():
    with tempfile.TemporaryDirectory() as work:
        folder = os.path.join(work, 'live')
        shutil.copytree(os.path.join(ROOT, 'examples', 'live'), folder)
        process = subprocess.Popen(
            [os.path.join(ROOT, 'scripts', 'run'), PROGRAM, '0', folder], text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        try:
            process.stdout.readline()
            process.stdout.close()
            _, complaints = process.communicate(timeout=tap.WAIT)
            tap.same(process.returncode, 0, 'exit status')
            tap.check('Traceback' not in complaints and 'BrokenPipe' not in complaints, complaints)
        finally:
            process.kill()
            process.wait()


def lines_for_curl_work(run, folder):
    """Those in docs/protocol.md are pasted into a shell."""
    url = run.shows('tidings serves').split()[-1]
    with open(os.path.join(ROOT, 'docs', 'protocol.md'), encoding='utf-8') as file:
        text = file.read().partition('\n## With curl\n')[2].partition('\n## ')[0]
    scripts = re.findall(r'^```sh\n(.*?)^```', text, re.M | re.S)
    tap.same(len(scripts), 2, 'scripts, one for each era')
    for script in scripts:
        at_run = script.replace('http://127.0.0.1:8808/mcp', url)
        tap.check(at_run != script, script)
        prints(at_run, '"notifications/resources/updated"', 'live://clock')


def prints_commands_that_work(run, folder):
    run.shows('Ctrl-C ends it.')
    found = [line.strip() for line in run.lines if re.match(r"  .*tidings'? (ls|read|watch) ", line)]
    tap.same(len(found), 3, 'commands')
    prints(found[0], 'live://files/notes.md', 'text/markdown')
    prints(found[1], ':')
    prints(found[2], '+++ live://clock')


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
    tap.run('with colors in a terminal', lambda: with_run(has_colors_in_a_terminal, terminal=True))
    tap.run('the commands that it shows work as they are', with_run, prints_commands_that_work)
    tap.run('the lines for curl work as they are', with_run, lines_for_curl_work)
    tap.run('a changed config is read again', with_run, reads_its_config_again)
    tap.run('Ctrl-C ends it and what it started', with_run, ends_with_ctrl_c)
    tap.run('so does a signal to the script alone', with_run, ends_when_told_alone)
    tap.run('when it is killed, both programs end', with_run, takes_both_along)
    tap.run('when the server is killed, it says so', with_run, says_when_the_server_ends)
    tap.run('when the watch is killed, it ends', with_run, ends_with_the_watch)
    tap.run('when nobody reads, it ends', ends_when_nobody_reads)
    tap.run('a port that is taken is said to be', says_that_the_port_is_taken)
    tap.run('a wrong port is refused', refuses_a_wrong_port)
    tap.finish()


if __name__ == '__main__':
    main()

#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""completion_test.py TIDINGS [CHOSEN]: completion in real shells, bash and zsh, each on
a terminal of its own: text is typed, Tab is pressed, and the line is looked at. Writes TAP."""
import atexit
import os
import re
import select
import shutil
import subprocess
import sys
import tempfile
import time
import pty

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'hostile'))

from lib import tap  # noqa: E402
from lib.mortal import MORTAL  # noqa: E402
from mcp_stub import Stub  # noqa: E402

PATIENCE = 60
ODD = ['$(touch PWNED)', '`touch PWNED`', ';touch PWNED', '|touch PWNED', '&touch PWNED',
       '>PWNED', '<PWNED', '$HOME', '${IFS}x', "it's", 'a"b', 'back\\slash', '!!', '!touch', '*',
       '?[a-z]', '{a,b}', '~', '#c', 'two  words', ' -n', '%s%n', '(x)', '=ls', '^a^b', '@here',
       'größe', ':a:b=c', "'$(touch PWNED)'", '"`touch PWNED`"', "\\'", '\\', '$', 'end ']
HIDDEN = ['x://esc\x1b]0;owned\x07', 'x://line\nrm -rf', 'x://tab\there', 'x://c1\x9b31m',
          'x://turn\u202e', '']

tidings = None
work = None
shells = []


# ---- A shell on a terminal ----------------------------------------------------------------

class Shell:
    """Keys go in; `read_until` takes what comes out."""

    def __init__(self, command, start):
        self.folder = tempfile.mkdtemp(dir=work)
        environment = {'PATH': os.path.dirname(tidings) + ':/usr/local/bin:/usr/bin:/bin',
                       'HOME': self.folder, 'TERM': 'dumb', 'LC_ALL': 'C.UTF-8',
                       'HISTFILE': '', 'PS1': '', 'no_proxy': '*',
                       'TIDINGS_COMPLETION_TIMEOUT': '30s'}
        self.terminal, theirs = pty.openpty()
        self.process = subprocess.Popen([*MORTAL, 'setsid', '--ctty', *command], stdin=theirs,
                                        stdout=theirs, stderr=theirs, cwd=self.folder,
                                        env=environment)
        os.close(theirs)
        shells.append(self)
        self.seen = ''
        self.unread = b''
        with open(os.path.join(self.folder, 'start'), 'w', encoding='utf-8') as file:
            file.write(start)
        self.type('. ./start; echo START""ED\r')
        self.read_until('STARTED\r?\n')

    def type(self, text):
        os.write(self.terminal, text.encode())

    def read_until(self, pattern):
        """What was written up to and with the pattern: the match, and what is before it."""
        deadline = time.monotonic() + PATIENCE
        while True:
            text = self.unread.decode(errors='replace')
            found = re.search(pattern, text)
            if found:
                self.seen += text[:found.end()]
                self.unread = text[found.end():].encode()
                return found, text[:found.start()]
            ready, _, _ = select.select([self.terminal], [], [],
                                        max(0, deadline - time.monotonic()))
            assert ready, f'never seen: {pattern}; but {self.seen + text!r}'
            self.unread += os.read(self.terminal, 65536)

    def complete(self, text):
        """The line after Tab, without a space at its end."""
        self.type('\x15' + text + '\t\x14')
        return self.read_until(r'LINE<(.*?)>ENIL\r?\n')[0][1].rstrip(' ')

    def listed(self, text):
        """What Tab has on offer where it cannot decide, as words."""
        self.type('\x15' + text + '\x0f\x14')
        return self.read_until(r'LINE<(.*?)>ENIL\r?\n')[1].split()

    def run(self, text):
        """Completes, presses Return, and returns what the command was given."""
        self.complete(text)
        self.type('\r')
        return self.read_until(r'ARGS<(.*?)>SGRA')[0][1].split('\x1f')

    def end(self):
        self.process.kill()
        os.close(self.terminal)
        self.process.wait(PATIENCE)


ARGS = "args() { local IFS=$'\\037'; printf 'AR''GS<%s>SGRA\\n' \"$*\"; }\n"
BASH = ("PS1='> '\n" + ARGS + "source <(tidings completion bash)\ncomplete -F _tidings args\n"
        "set -o history -o histexpand\n"
        "bind 'set bell-style none' 'set completion-display-width 0' 2>/dev/null\n"
        "bind 'set completion-display-width 0'\nbind 'set page-completions off'\n"
        "bind 'set completion-query-items 0'\nbind 'set enable-bracketed-paste off'\n"
        "bind '\"\\C-o\": possible-completions'\n"
        "bind -x '\"\\C-t\": printf \"\\nLINE<%s>ENIL\\n\" \"$READLINE_LINE\"'\n")
ZSH = ("PS1='> '\n" + ARGS + "fpath=(./functions $fpath)\nmkdir functions\n"
       "tidings completion zsh >functions/_tidings\nautoload -Uz compinit\ncompinit -u -D\n"
       "compdef _tidings args\nunset zle_bracketed_paste\nsetopt no_beep bang_hist\nLISTMAX=10000\n"
       "show() { print; print -r -- \"LINE<$BUFFER>ENIL\" }\nzle -N show\n"
       "bindkey '^T' show\nbindkey '^U' kill-whole-line\nbindkey '^O' list-choices\n"
       "bindkey '^I' complete-word\n")


def bash():
    return Shell(['bash', '--norc', '--noprofile', '-i'], BASH)


def zsh():
    return Shell(['zsh', '-f', '-i'], ZSH)


def both(test):
    """A test that every shell runs."""
    def one(shell):
        def named():
            if shutil.which(shell.__name__) is None:
                raise tap.Skipped(f'{shell.__name__} is not installed')
            test(shell())
        named.__name__ = f'{shell.__name__}_{test.__name__}'
        return named
    TESTS.extend([one(bash), one(zsh)])
    return test


TESTS = []


def serve(uris=(), tools=(), prompts=(), templates=()):
    return Stub({'resources/list': {'resources': [{'uri': u, 'name': 'n'} for u in uris]},
                 'resources/templates/list':
                     {'resourceTemplates': [{'uriTemplate': t, 'name': 'n'} for t in templates]},
                 'tools/list': {'tools': [{'name': t, 'inputSchema': {'type': 'object'}}
                                          for t in tools]},
                 'prompts/list': {'prompts': [{'name': p} for p in prompts]}})


def help_of(*arguments):
    return subprocess.run([tidings, *arguments, '--help'], capture_output=True, text=True,
                          check=True, timeout=PATIENCE).stdout


def equal(found, wanted):
    assert found == wanted, f'{found!r} instead of {wanted!r}'


# ---- Commands and options -----------------------------------------------------------------

@both
def completes_commands(shell):
    equal(shell.complete('tidings compl'), 'tidings completion')
    equal(shell.complete('tidings he'), 'tidings help')
    equal(shell.complete('tidings nosuch'), 'tidings nosuch')
    words = shell.listed('tidings ')
    names = re.findall(r'^  ([a-z]+) ', help_of(), re.M)
    assert len(names) > 10 and set(names) <= set(words), words


@both
def completes_every_option_of_every_command(shell):
    for name in re.findall(r'^  ([a-z]+) ', help_of(), re.M):
        options = re.findall(r'^  (--[a-z-]+)', help_of(name), re.M)
        words = shell.listed(f'tidings {name} --')
        missing = {o for o in options if o not in words and o + '=' not in words}
        assert options and not missing, (name, missing, words)


@both
def completes_values_of_options(shell):
    equal(shell.complete('tidings demo --pattern ty'), 'tidings demo --pattern typing')
    equal(shell.complete('tidings demo --pattern=ty'), 'tidings demo --pattern=typing')
    equal(shell.complete('tidings ls --era=mod'), 'tidings ls --era=modern')
    words = shell.listed('tidings demo --color ')
    assert {'auto', 'always', 'never'} <= set(words), words


@both
def completes_files_where_files_are_wanted(shell):
    for name in ('config one.yaml', 'token'):
        with open(os.path.join(shell.folder, name), 'w', encoding='utf-8'):
            pass
    equal(shell.complete('tidings serve --config conf'),
          'tidings serve --config config\\ one.yaml')
    equal(shell.complete('tidings ls --token-file=tok'), 'tidings ls --token-file=token')
    equal(shell.complete('tidings check tok'), 'tidings check token')
    equal(shell.complete('tidings read http://127.0.0.1:1 -- cat tok'),
          'tidings read http://127.0.0.1:1 -- cat token')


@both
def completes_words_that_are_operands(shell):
    equal(shell.complete('tidings completion z'), 'tidings completion zsh')
    equal(shell.complete('tidings postgres unin'), 'tidings postgres uninstall')
    equal(shell.complete('tidings help conf'), 'tidings help config')
    equal(shell.complete('tidings help dem'), 'tidings help demo')
    equal(shell.complete('tidings ls htt'), 'tidings ls http://127.0.0.1:8808/mcp')


# ---- What the server has ------------------------------------------------------------------

@both
def completes_uris_tools_and_prompts_of_the_server(shell):
    stub = serve(['file:///notes/a.md', 'weather://city/oslo', 'weather://city/bergen'],
                 ['get_weather', 'get_time'], ['daily-brief'])
    equal(shell.complete(f'tidings read {stub.url} file'),
          f'tidings read {stub.url} file:///notes/a.md')
    equal(shell.complete(f'tidings read {stub.url} file:///no'),
          f'tidings read {stub.url} file:///notes/a.md')
    equal(shell.complete(f'tidings read {stub.url} weather://city/oslo weather:'),
          f'tidings read {stub.url} weather://city/oslo weather://city/')
    equal(shell.complete(f'tidings call {stub.url} get_w'),
          f'tidings call {stub.url} get_weather')
    equal(shell.complete(f'tidings prompt {stub.url} d'),
          f'tidings prompt {stub.url} daily-brief')
    equal(shell.complete(f"tidings read '{stub.url}' file"),
          f"tidings read '{stub.url}' file:///notes/a.md")
    listed = ' '.join(shell.listed(f'tidings read {stub.url} '))
    assert 'weather://city/bergen' in listed and 'get_time' not in listed, listed


@both
def completes_what_can_be_watched(shell):
    stub = serve(['a://one'], templates=['b://{name}'])
    equal(shell.complete(f'tidings watch {stub.url} a'), f'tidings watch {stub.url} a://one')
    equal(shell.run(f'args watch {stub.url} a://one b'),
          ['watch', stub.url, 'a://one', 'b://{name}'])


@both
def asks_with_the_options_of_the_line(shell):
    stub = serve(['a://one'])
    equal(shell.complete(f'tidings read --header "X-Who: me" --era modern {stub.url} a'),
          f'tidings read --header "X-Who: me" --era modern {stub.url} a://one')
    equal({h.get('X-Who') for h in stub.headers}, {'me'})
    del stub.headers[:]
    equal(shell.complete(f'tidings read --header=X-Who:$HOME {stub.url} a'),
          f'tidings read --header=X-Who:$HOME {stub.url} a')
    equal(stub.headers, [])


@both
def asks_with_the_program_that_is_typed(shell):
    stub = serve(['a://one'])
    shell.type('PATH=/nowhere; echo SE""T\r')
    shell.read_until('SET\r?\n')
    with tempfile.TemporaryDirectory(prefix='a place ') as folder:
        os.symlink(tidings, os.path.join(folder, 'tidings'))
        for program in (tidings, os.path.join(folder, 'tidings')):
            typed = program.replace(' ', '\\ ')
            equal(shell.complete(f'{typed} read {stub.url} a'), f'{typed} read {stub.url} a://one')
    equal(shell.complete(f'tidings read {stub.url} a'), f'tidings read {stub.url} a')


@both
def a_server_that_is_not_there_offers_nothing(shell):
    began = time.monotonic()
    equal(shell.complete('tidings read http://127.0.0.1:1/mcp a'),
          'tidings read http://127.0.0.1:1/mcp a')
    equal(shell.complete('tidings read nowhere a'), 'tidings read nowhere a')
    assert time.monotonic() - began < PATIENCE


@both
def starts_no_program(shell):
    equal(shell.complete('tidings read a -- touch STARTED'),
          'tidings read a -- touch STARTED')
    equal(shell.complete('tidings read -- touch STARTED a'),
          'tidings read -- touch STARTED a')
    assert not os.path.exists(os.path.join(shell.folder, 'STARTED'))


def untouched(shell):
    assert not os.path.exists(os.path.join(shell.folder, 'PWNED')), 'something was executed'
    assert sorted(os.listdir(shell.folder)) in (['start'], ['functions', 'start']), \
        os.listdir(shell.folder)


@both
def hostile_words_come_out_as_they_are(shell):
    uris = [f'x://{i:02}{odd}' for i, odd in enumerate(ODD)]
    stub = serve(uris + HIDDEN)
    for i, uri in enumerate(uris):
        for quote in ('', "'", '"'):
            if quote == '"' and '!' in uri:
                continue # nothing keeps these from the history in double quotes
            equal(shell.run(f'args read {stub.url} {quote}x://{i:02}'),
                  ['read', stub.url, uri])
    untouched(shell)


@both
def hostile_words_are_listed_without_harm(shell):
    stub = serve([f'x://{odd}' for odd in ODD] + HIDDEN, tools=ODD + HIDDEN)
    for text in (f'tidings read {stub.url} ', f'tidings read {stub.url} x:',
                 f'tidings call {stub.url} '):
        shell.listed(text)
        shell.listed(text + '"')
    for character in ('\x1b]', '\x9b', '\u202e'):
        assert character not in shell.seen, repr(shell.seen)
    assert 'rm -rf' not in shell.seen
    untouched(shell)


@both
def hostile_lines_are_not_evaluated(shell):
    for text in ('tidings read $(touch PWNED) a', 'tidings read "`touch PWNED`" a',
                 'tidings $(touch PWNED) a', 'tidings read --header "$(touch PWNED)" http://x a',
                 'tidings read http://127.0.0.1:1/$(touch PWNED) a',
                 'tidings ls --era=$(touch PWNED)', 'tidings demo --pattern $(touch PWNED)',
                 'tidings x[$(touch PWNED)] --', 'tidings read a[$(touch PWNED)]=1 '):
        shell.complete(text)
    untouched(shell)


# ---- Running ------------------------------------------------------------------------------

def end_all():
    while shells:
        shells.pop().end()


def main():
    global tidings, work
    (tidings,), chosen = tap.arguments('TIDINGS')
    work = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, work, True)
    atexit.register(end_all)
    tap.run_all(TESTS, chosen, after=lambda passed: end_all())


if __name__ == '__main__':
    main()

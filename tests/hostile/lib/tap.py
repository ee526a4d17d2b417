# SPDX-License-Identifier: MIT
"""Tests are functions; what they find goes to standard output in TAP, and as "passed failed
skipped" lines to the file in TDG_TALLY. A test fails by raising."""
import os
import sys
import time
import traceback

# Seconds for what has to happen, however busy the machine is. How fast things are is not judged
# here, so where a time-out of the server could bring about what a test waits for, the server's is
# longer than this.
WAIT = 60.0

_count = 0
_failed = []


def _tell(line):
    print(line, flush=True)


def _tally(line):
    path = os.environ.get('TDG_TALLY')
    if path:
        with open(path, 'a', encoding='ascii') as file:
            file.write(line + '\n')


def note(text):
    _tell('\n'.join('# ' + line for line in str(text).splitlines()))


def run(name, function, *args):
    """One test. Returns whether it passed."""
    global _count
    _count += 1
    began = time.monotonic()
    try:
        function(*args)
    except Exception as error:  # the next tests still run
        _failed.append(name)
        _tell(f'not ok {_count} - {name}')
        kind = '' if isinstance(error, AssertionError) else type(error).__name__ + ': '
        note(kind + str(error))
        if not isinstance(error, AssertionError):
            note(traceback.format_exc())
        _tally('0 1 0')
        return False
    _tell(f'ok {_count} - {name} ({time.monotonic() - began:.1f} s)')
    _tally('1 0 0')
    return True


def skip(name, why):
    global _count
    _count += 1
    _tell(f'ok {_count} - {name} # SKIP {why}')
    _tally('0 0 1')


def finish():
    """Ends the program with the plan and the result."""
    _tell(f'1..{_count}')
    sys.exit(1 if _failed else 0)


def check(condition, text):
    if not condition:
        raise AssertionError(text)


def same(got, wanted, what):
    check(got == wanted, f'{what}: got {got!r}, wanted {wanted!r}')


def written(file):
    """What a program has written to the file that it was given. Without seeking: it shares our
    place in it, and would go on writing over what is there."""
    return os.pread(file.fileno(), os.fstat(file.fileno()).st_size, 0).decode('utf-8', 'replace')


def until(condition, what, seconds=WAIT, pause=0.01):
    """Polls until the condition holds; its last value is the result."""
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        check(time.monotonic() < deadline, f'after {seconds} s: {what}')
        time.sleep(pause)

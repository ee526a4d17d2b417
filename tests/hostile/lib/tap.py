# SPDX-License-Identifier: MIT
"""Tests are functions; what they find goes to standard output in TAP. A test fails by raising."""
import os
import re
import signal
import sys
import time
import traceback

# Seconds for what has to happen, however busy the machine is. How fast things are is not judged
# here, so where a time-out of the server could bring about what a test waits for, the server's is
# longer than this.
WAIT = 60.0

_asked = _count = 0  # for how many tests; how many were run
_share, _shares = 0, 1
_failed = []


class Wrong(AssertionError):
    """Says all there is to say; of other errors it is shown where they come from."""


class Skipped(Exception):
    """Raised by a test that cannot run here; says why."""


class Stopped(BaseException):
    """The time of the whole part is over."""


def _stop(_number, _frame):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise Stopped


def _tell(line):
    print(line, flush=True)


def note(text):
    _tell('\n'.join('# ' + line for line in str(text).splitlines()))


def take_share(text):
    """Of the tests from here on only a part is run, for programs that run side by side: of `2/4`
    the second of each four. Returns whether this was said in the text."""
    global _share, _shares
    found = re.fullmatch(r'(\d+)/(\d+)', text)
    if found:
        _share, _shares = int(found[1]) - 1, int(found[2])
    return found is not None


def run(name, function, *args):
    """One test. Returns whether it passed."""
    global _asked, _count
    _asked += 1
    if (_asked - 1) % _shares != _share:
        return True
    _count += 1
    began = time.monotonic()
    before = signal.signal(signal.SIGTERM, _stop)
    try:
        function(*args)
    except Skipped as why:
        _tell(f'ok {_count} - {name} # SKIP {why}')
        return True
    except Stopped:
        _failed.append(name)
        _tell(f'not ok {_count} - {name}')
        note(f'it was running for {time.monotonic() - began:.1f} s when all were stopped')
        finish()
    except Exception as error:  # the next tests still run
        _failed.append(name)
        _tell(f'not ok {_count} - {name}')
        note(str(error) if isinstance(error, Wrong) else traceback.format_exc())
        return False
    finally:
        signal.signal(signal.SIGTERM, before)
    _tell(f'ok {_count} - {name} ({time.monotonic() - began:.1f} s)')
    return True


def arguments(*programs):
    """The command line: absolute paths of programs, in a list, and what run_all() takes."""
    count = len(programs)
    if len(sys.argv) not in (count + 1, count + 2):
        sys.exit(f'usage: {sys.argv[0]} {" ".join(programs)} [PART_OF_A_NAME or SHARE/SHARES]')
    return [os.path.abspath(path) for path in sys.argv[1:count + 1]], ''.join(sys.argv[count + 1:])


def run_all(cases, chosen='', after=lambda passed: None):
    """Runs those of the cases whose names contain what is chosen, or the share that it names,
    and ends the program. A case is a function, or a tuple of one and its arguments, which are
    part of its name."""
    if take_share(chosen):
        chosen = ''
    for case in cases:
        test, *args = case if isinstance(case, tuple) else (case,)
        name = ' '.join([test.__name__, *args])
        if chosen in name:
            after(run(name, test, *args))
    finish()


def finish():
    """Ends the program with the plan and the result."""
    _tell(f'1..{_count}')
    sys.exit(1 if _failed else 0)


def check(condition, text):
    if not condition:
        raise Wrong(text)


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

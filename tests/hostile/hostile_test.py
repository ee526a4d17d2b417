#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""hostile_test.py [GROUP...]: misbehaves towards tests/interop/fixture over real sockets and
pipes, and checks that each time there is a clear answer or a close, memory stays bounded and
an honest client does not notice. Writes TAP. TDG_FIXTURE names another program to test, such
as one built with a sanitizer."""
import importlib
import sys
import traceback

sys.dont_write_bytecode = True

from lib import server, tap  # noqa: E402

GROUPS = ['smuggling', 'bounds', 'texts', 'sockets', 'readers', 'floods', 'pipes', 'workers']


def reraise(text):
    raise AssertionError(text)


def main():
    groups = sys.argv[1:] or GROUPS
    for group in groups:
        if group not in GROUPS:
            sys.exit(f'no group {group}; there are: {" ".join(GROUPS)}')
    tap.note(f'{server.PROGRAM} {server.SANITIZER}')
    for group in groups:
        try:
            importlib.import_module(group).main()
        except Exception:  # outside of a test: the server did not even start well
            tap.run(f'{group}: it can begin', reraise, traceback.format_exc())
    tap.finish()


if __name__ == '__main__':
    main()

#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""bad_server_test.py [GROUP... [SHARE/SHARES]]: the client against a server that misbehaves, in both eras, and
both as one of ours (with versions and cursors) and as a stranger. Whatever it does, no missed
change is silent, what fails says so, and the server meets no storm. Writes TAP. TDG_DRIVER names
another driver to test, such as one built with a sanitizer."""
import importlib
import sys
import traceback

sys.dont_write_bytecode = True

from driver import PROGRAM, tap  # noqa: E402

GROUPS = ['drops', 'streams', 'frozen', 'statuses', 'answers', 'pipes', 'storms']


def reraise(text):
    raise AssertionError(text)


def main():
    groups = [word for word in sys.argv[1:] if not tap.take_share(word)] or GROUPS
    for group in groups:
        if group not in GROUPS:
            sys.exit(f'no group {group}; there are: {" ".join(GROUPS)}')
    tap.note(PROGRAM)
    for group in groups:
        try:
            importlib.import_module(f'bad_{group}').main()
        except Exception:  # outside of a test
            tap.run(f'{group}: it can begin', reraise, traceback.format_exc())
    tap.finish()


if __name__ == '__main__':
    main()

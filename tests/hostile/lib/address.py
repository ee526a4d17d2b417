# SPDX-License-Identifier: MIT
"""Where a server that was started listens."""
import os
import re
import select
import time


def wait_for_address(errors, seconds):
    """Reads what the server prints to `errors`, a pipe, until it names its URL."""
    deadline, printed = time.monotonic() + seconds, b''
    while True:
        found = re.search(rb'http://[0-9.:]+/mcp', printed)
        if found:
            return found[0].decode()
        ready, _, _ = select.select([errors], [], [], max(0, deadline - time.monotonic()))
        assert ready, f'it never printed where it listens: {printed}'
        piece = os.read(errors.fileno(), 65536)
        assert piece, f'it ended: {printed}'
        printed += piece

# SPDX-License-Identifier: MIT
"""Put before a command, so that the program dies with the test, however that ends. Not by
preexec_fn of subprocess: what that runs between fork and exec may wait for ever for a lock that
another thread of the test held."""
MORTAL = ('setpriv', '--pdeathsig', 'KILL', '--')

# SPDX-License-Identifier: MIT
"""What the groups of bad_server_test.py share: a client and a server for one test."""
import contextlib

from bad_server import Server
from driver import Driver, tap

# Reconnects as often as the library allows, so that tests do not wait. Nothing times out unless
# the test wants it.
FAST = {'retry_ms': 1, 'retry_max_ms': 5, 'retry_per_minute': 120,
        'connect_timeout_ms': 60000, 'timeout_ms': 60000}

# For a server that is away for a while, however busy the machine is: a second of attempts as FAST
# has them is all that a minute allows.
WHILE_AWAY = {'retry_max_ms': 1000}

A, B, C = 'test://a', 'test://b', 'test://c'

# Both eras, from a server of ours and from a stranger.
KINDS = [('modern', True), ('modern', False), ('legacy', True), ('legacy', False)]


def called(era, ours):
    return f'{era}, {"ours" if ours else "a stranger"}'


@contextlib.contextmanager
def scene(era='modern', ours=True, uris=(A,), connect=True, server=None, subscribe=None, **opts):
    """A server and a client that is connected to it and subscribed. Both have to end well."""
    server = server or Server(era, ours)
    driver = Driver()
    client = driver.client()
    try:
        if connect:
            client.connect(server.url, **{**FAST, **opts})
        if connect and uris:
            client.does('subscribe_all', uris=list(uris), opts=subscribe or {})
            server.one_stream(uris)
        yield server, client
        driver.stop()
    finally:
        driver.kill()
        server.close()


def both(group, name, function, **more):
    """One test, in both eras."""
    for era in ('modern', 'legacy'):
        tap.run(f'{group}: {name} ({era})', lambda: function(era, **more))


def each_kind(group, name, function):
    """One test, in both eras, with a server of ours and with a stranger."""
    for era, ours in KINDS:
        tap.run(f'{group}: {name} ({called(era, ours)})', lambda: function(era, ours))


def listen_kind(era):
    """The request that opens a stream."""
    return 'subscriptions/listen' if era == 'modern' else 'GET'


def told_after_gap(server, client, uri, number=None):
    """After a gap: a server of ours says what changed, with its version; of a stranger's
    resources each is told, as nobody can know."""
    if server.ours and number is not None:
        return client.updated(uri, version=number)
    return client.updated(uri, maybe=True)

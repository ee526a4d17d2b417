# SPDX-License-Identifier: MIT
"""Programs that die, chatter, hang or do not want to go."""
import contextlib
import os
import sys
import tempfile
import time

from driver import HERE, Driver, tap
from scene import A, FAST

ERAS = {'modern': [], 'legacy': ['legacy']}


class Lives:
    """How often the program was started, and as which process."""

    def __init__(self, folder):
        self.path = os.path.join(folder, 'lives')

    def pids(self):
        try:
            with open(self.path, encoding='ascii') as file:
                return [int(line) for line in file]
        except FileNotFoundError:
            return []

    def count(self):
        return len(self.pids())

    def gone(self):
        """None of them is left."""
        return not [pid for pid in self.pids() if os.path.exists(f'/proc/{pid}/stat')]


@contextlib.contextmanager
def piped(*modes, connect=True, subscribe=True, **opts):
    with tempfile.TemporaryDirectory() as folder:
        lives, driver = Lives(folder), Driver()
        client = driver.client()
        client.target = {'argv': [sys.executable, '-S', '-E', os.path.join(HERE, 'bad_program.py'),
                                  lives.path, *modes], **FAST, **opts}
        try:
            if connect:
                client.does('connect', **client.target)
                if subscribe:
                    client.does('subscribe', uri=A)
            yield lives, client
            driver.stop()
            tap.until(lives.gone, 'its programs are gone')
        finally:
            driver.kill()


def act(client, what, **more):
    return client.ask('call', tool='act', arguments={'what': what, **more})


def comes_back(client, life):
    client.returns()
    client.updated(A, maybe=True)
    answer = client.does('read', uri=A)
    tap.same(answer['result']['contents'][0]['text'], f'life {life}', 'who answers')
    client.now()
    tap.same(act(client, 'change')['code'], 'TDG_OK', 'a change')
    client.updated(A)


def works(era):
    with piped(*ERAS[era]) as (lives, client):
        facts = client.does('facts')
        tap.same((facts['era'], facts['transport']), (era, 'stdio'), 'what was found')
        for _ in range(3):
            tap.same(act(client, 'change')['code'], 'TDG_OK', 'a change')
            client.updated(A)
        tap.same(lives.count(), 1, 'lives')


def dies_in_an_update(era):
    """At some places of the line; the rest is as for streams."""
    places = [0, 1, 20, 60, 90, 1000]  # the last: all of it
    with piped(*ERAS[era]) as (lives, client):
        for life, place in enumerate(places, 2):
            client.now()
            tap.same(act(client, 'cut', at=place)['code'], 'TDG_EUNREACHABLE', 'the call')
            comes_back(client, life)
        tap.same(lives.count(), len(places) + 1, 'lives')


def crashes(era):
    """What waits fails; what may be asked again is."""
    with piped(*ERAS[era]) as (lives, client):
        tap.same(act(client, 'crash')['code'], 'TDG_EUNREACHABLE', 'the call')
        comes_back(client, 2)
        tap.same(lives.count(), 2, 'lives')


def silent_probe():
    """No answer to what it does not know: initialised all the same, by the same process."""
    with piped('legacy', 'silent') as (lives, client):
        tap.same(client.does('facts')['era'], 'legacy', 'the era')
        tap.same(lives.count(), 1, 'lives')


def startled_by_the_probe():
    """Ends when it hears what it does not know: started again, and not probed."""
    with piped('legacy', 'startled') as (lives, client):
        tap.same(client.does('facts')['era'], 'legacy', 'the era')
        tap.same(lives.count(), 2, 'lives')
        act(client, 'crash')
        comes_back(client, 3)


def dies_once():
    """In its first life only, and we are patient."""
    with piped('first:dies', patient=True) as (lives, client):
        tap.check(lives.count() >= 2, 'it was started again')
        client.does('ping')


def always_dies():
    """Is an error, and is not tried for ever."""
    with piped('dies', connect=False) as (lives, client):
        client.fails('connect', 'TDG_EUNREACHABLE', 'TDG_EREFUSED', **client.target)
        tap.check(1 <= lives.count() <= 3, f'{lives.count()} lives')


def dies_later_for_good():
    """No more often than allowed."""
    with piped(retry_per_minute=5, retry_max_ms=1) as (lives, client):
        os.rename(lives.path, lives.path + '.old')
        os.mkdir(lives.path)  # now every start fails
        act(client, 'crash')
        client.event('down')

        def starts():
            return [log for log in client.logs
                    if log['log'] == 'program' and 'IsADirectory' in log['line']]
        time.sleep(6)
        client.driver.wait(starts, 'it is started again')
        os.rmdir(lives.path)
        os.rename(lives.path + '.old', lives.path)
        tap.check(len(starts()) <= 6, f'{len(starts())} starts within seconds')


def no_such_program():
    driver = Driver()
    try:
        answer = driver.client().fails('connect', 'TDG_EUNREACHABLE', 'TDG_ENOTFOUND', 'TDG_EINVAL',
                                       'TDG_ESYSTEM', argv=['/no/such/program'], **FAST)
        tap.check('/no/such/program' in answer['message'], f'it says which: {answer}')
        driver.stop()
    finally:
        driver.kill()


def rubbish(era):
    """Lines that are no messages are put up with."""
    with piped(*ERAS[era], 'greets') as (lives, client):
        tap.same(act(client, 'rubbish')['code'], 'TDG_OK', 'a call after rubbish')
        client.now()
        act(client, 'change')
        client.updated(A)
        client.none('down', since=0)
        tap.same(lives.count(), 1, 'lives')


def endless_line(era):
    """Is not kept."""
    with piped(*ERAS[era], max_message_bytes=100000) as (lives, client):
        act(client, 'endless', times=800)
        client.does('read', uri=A)
        client.now()
        act(client, 'change')
        client.updated(A)
        grown = client.driver.memory() / 2**20
        tap.note(f'peak memory {grown:.0f} MiB, lives: {lives.count()}')


def chatter(era):
    """Standard error is read, whatever comes."""
    with piped(*ERAS[era]) as (lives, client):
        tap.same(act(client, 'chatter')['code'], 'TDG_OK', 'the call')
        tap.check(any(log['log'] == 'program' for log in client.logs), 'it is handed on')


def mute(era):
    """Closes its output and lives on: lost all the same."""
    with piped(*ERAS[era], timeout_ms=20000) as (lives, client):
        tap.same(act(client, 'mute')['code'], 'TDG_EUNREACHABLE', 'the call')
        comes_back(client, 2)


def hangs(era):
    """A request that is never answered."""
    with piped(*ERAS[era]) as (lives, client):
        client.fails('request', 'TDG_ETIMEDOUT', method='tools/call', timeout_ms=1500,
                     params={'name': 'act', 'arguments': {'what': 'hang'}})


def stubborn(era):
    """Does not go when its input ends, nor by SIGTERM: it goes by SIGKILL."""
    with piped(*ERAS[era], 'stubborn') as (lives, client):
        began = time.monotonic()
        client.does('close')
        took = time.monotonic() - began
        tap.check(took < 30, f'closing took {took:.1f} s')
        tap.until(lives.gone, 'it is gone')


def main():
    for era in ERAS:
        for name, test in [
                ('a program that works', works), ('dies in the middle of an update', dies_in_an_update),
                ('crashes in a call', crashes), ('rubbish on its output', rubbish),
                ('a line without end', endless_line), ('much on standard error', chatter),
                ('closes its output', mute), ('hangs', hangs), ('does not want to go', stubborn)]:
            tap.run(f'pipes: {name} ({era})', test, era)
    tap.run('pipes: says nothing to the probe', silent_probe)
    tap.run('pipes: ends when it is probed', startled_by_the_probe)
    tap.run('pipes: dies once, and patience', dies_once)
    tap.run('pipes: always dies', always_dies)
    tap.run('pipes: dies later, for good', dies_later_for_good)
    tap.run('pipes: there is no such program', no_such_program)

# SPDX-License-Identifier: MIT
"""A PostgreSQL of the test's own, in a folder, reached by a Unix socket."""
import glob
import os
import pwd
import shutil
import subprocess

from lib import tap


def programs():
    """The folder with initdb and postgres; None where there is none."""
    found = sorted(glob.glob('/usr/lib/postgresql/*/bin'))
    which = shutil.which('initdb')
    return found[-1] if found else os.path.dirname(which) if which else None


def somebody():
    """PostgreSQL refuses root. It dies with the test, however that ends."""
    other = ['--reuid=postgres', '--regid=postgres', '--clear-groups'] if os.getuid() == 0 else []
    return ['setpriv', '--pdeathsig', 'QUIT', *other, '--']


class Database:
    def __init__(self, folder, tidings):
        self.folder = folder
        os.mkdir(folder)
        os.chmod(folder, 0o755)
        if os.getuid() == 0:
            user = pwd.getpwnam('postgres')
            os.chown(folder, user.pw_uid, user.pw_gid)
        data = os.path.join(folder, 'data')
        subprocess.run([*somebody(), f'{programs()}/initdb', '-D', data, '-U', 'postgres', '-A',
                        'trust', '-E', 'UTF8', '--locale=C', '--no-sync'],
                       cwd=folder, check=True, stdout=subprocess.DEVNULL, timeout=tap.WAIT)
        with open(os.path.join(folder, 'log'), 'wb') as log:
            self.process = subprocess.Popen(
                [*somebody(), f'{programs()}/postgres', '-D', data, '-k', folder, '-c',
                 'listen_addresses=', '-c', 'fsync=off'], cwd=folder, stdout=log, stderr=log)
        self.conninfo = f'host={folder} user=postgres dbname=postgres'
        tap.until(lambda: subprocess.run([f'{programs()}/pg_isready', '-q', '-h', folder],
                                         check=False).returncode == 0, 'PostgreSQL answers')
        self.shell = subprocess.Popen(['psql', '-qAt', '-v', 'ON_ERROR_STOP=1', self.conninfo],
                                      stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.run('CREATE TABLE item (id int PRIMARY KEY, value text)')
        self.run('CREATE TABLE said (id int PRIMARY KEY, value text)')
        subprocess.run([tidings, 'postgres', 'install', '--table', 'item', '--key', 'id',
                        '--apply', self.conninfo], check=True, stdout=subprocess.DEVNULL,
                       timeout=tap.WAIT)

    def run(self, sql):
        """Returns the lines of the answer, once the transaction is committed."""
        self.shell.stdin.write(f'{sql};\n\\echo the-end\n')
        self.shell.stdin.flush()
        lines = []
        while (line := self.shell.stdout.readline().rstrip('\n')) != 'the-end':
            tap.check(self.shell.poll() is None, f'psql ended: {sql}')
            lines.append(line)
        return lines

    def close(self):
        self.shell.kill()
        self.process.terminate()

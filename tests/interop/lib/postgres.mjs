// SPDX-License-Identifier: MIT
// A PostgreSQL server of the test's own: a new cluster in a temporary folder, on a free port
// of the loopback, gone at the end.
import { execFile, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, chownSync, openSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { atExit, folder, tidings } from './program.mjs';
import { freePort } from './proxy.mjs';
import { until, within } from './wait.mjs';

const run = promisify(execFile);

// Debian keeps the programs of the server out of PATH.
function find(name) {
  try {
    const versions = readdirSync('/usr/lib/postgresql').sort((a, b) => a - b);
    return `/usr/lib/postgresql/${versions.at(-1)}/bin/${name}`;
  } catch {
    return name;
  }
}

// PostgreSQL does not run as root. It goes when this process goes, however that happens.
function asOther() {
  if (process.getuid() !== 0) return ['setpriv', '--pdeathsig', 'QUIT'];
  return ['setpriv', '--reuid', 'postgres', '--regid', 'postgres', '--clear-groups',
    '--pdeathsig', 'QUIT'];
}

export class Postgres {
  static async create() {
    const server = new Postgres();
    server.dir = folder();
    server.port = await freePort();
    chmodSync(server.dir, 0o700);
    if (process.getuid() === 0) {
      const id = (flag) => Number(execFileSync('id', [flag, 'postgres']));
      chownSync(server.dir, id('-u'), id('-g'));
    }
    const [command, ...args] = [...asOther(), find('initdb'), '-D', `${server.dir}/data`,
      '-U', 'postgres', '-A', 'trust', '-E', 'UTF8', '--locale=C', '--no-sync'];
    await run(command, args, { cwd: server.dir });
    await server.start();
    return server;
  }

  // Comes back when it answers. After a crash the old processes need a moment to notice, and
  // until then it ends at once.
  async start() {
    let gone = true;
    await until(async () => {
      if (gone) {
        gone = false;
        this.#spawn().then(() => { gone = true; });
      }
      return this.run('SELECT 1', 'postgres').then(() => true, () => false);
    }, 'PostgreSQL answers').catch((error) => {
      throw new Error(`${error.message}: ${readFileSync(join(this.dir, 'log'), 'utf8')}`);
    });
  }

  #spawn() {
    const log = openSync(join(this.dir, 'log'), 'a');
    const [command, ...args] = [...asOther(), find('postgres'), '-D', `${this.dir}/data`,
      '-p', this.port, '-k', this.dir, '-c', 'listen_addresses=127.0.0.1', '-c', 'fsync=off',
      '-c', 'max_connections=40'];
    const child = spawn(command, args.map(String),
      { cwd: this.dir, stdio: ['ignore', log, log] });
    atExit(() => child.kill('SIGQUIT'));
    this.child = child;
    this.exited = once(child, 'exit');
    return this.exited;
  }

  // SIGINT ends it at once and well, SIGKILL is a crash.
  async stop(signal = 'SIGINT') {
    this.child.kill(signal);
    await within(this.exited, 'PostgreSQL ends');
  }

  // The database that docs/sources/postgres.md speaks of, with its trigger.
  async shop() {
    await this.run('CREATE DATABASE shop', 'postgres');
    await this.run(`CREATE TABLE orders (id int PRIMARY KEY, customer text, total numeric);
      CREATE ROLE reader LOGIN; GRANT SELECT ON orders TO reader`);
    await run(tidings, ['postgres', 'install', '--table', 'orders', '--key', 'id', '--apply',
      `postgresql://postgres@127.0.0.1:${this.port}/shop`]);
  }

  // What the statements say, as text.
  async run(sql, database = 'shop') {
    const { stdout } = await run('psql', ['-X', '-q', '-A', '-t', '-v', 'ON_ERROR_STOP=1',
      '-h', this.dir, '-p', String(this.port), '-U', 'postgres', '-d', database, '-c', sql]);
    return stdout.trim();
  }
}

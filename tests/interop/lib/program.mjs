// SPDX-License-Identifier: MIT
// Starts and stops the real program, `tidings serve`, on a config of its own.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { program as fixture } from './fixture.mjs'; // ends us well, too, when it is too late
import { until, within } from './wait.mjs';

export const tidings =
  process.env.TDG_PROGRAM ?? join(dirname(fixture), '..', '..', 'tidings');

// Every change is told at once, so that tests can expect one update for each.
export const prompt = `server:
  listen: "http://127.0.0.1:0"
  workers: 2
  timing: immediate
  rate-limit: 0
`;

// The first config of docs/sources/NAME.md.
export function documented(name) {
  const page = fileURLToPath(new URL(`../../../docs/sources/${name}.md`, import.meta.url));
  const found = /^```yaml\n([^]*?)^```$/m.exec(readFileSync(page, 'utf8'));
  if (!found) throw new Error(`${page} has no config`);
  return found[1];
}

// What a test forgets must not outlive it, however that ends.
const mortal = ['setpriv', '--pdeathsig', 'KILL'];
const last = [];
process.once('exit', () => { for (const task of last.reverse()) task(); });
export const atExit = (task) => last.push(task);

// A new folder that goes with this process at the latest.
export function folder() {
  const path = mkdtempSync(join(tmpdir(), 'tidings-far-'));
  atExit(() => rmSync(path, { recursive: true, force: true }));
  return path;
}

export class Program {
  log = ''; // what it said on standard error
  wrap = []; // a command that starts it, such as unshare

  // `resources` is that part of the config; it and other files of the test are in `dir`.
  constructor(resources, { dir = folder(), env = {}, wrap = [], server = prompt } = {}) {
    Object.assign(this, { dir, wrap, server, env: { ...process.env, ...env } });
    this.config = join(dir, 'tidings.yaml');
    this.configure(resources);
  }

  static async start(resources, options) {
    const program = new Program(resources, options);
    await program.start();
    return program;
  }

  configure(resources) {
    writeFileSync(this.config, `${this.server}${resources}`);
  }

  // Starts it; where it ran before, at the same address.
  async start() {
    const argv = [...this.wrap, ...mortal, tidings, 'serve', '--json', '--config', this.config];
    if (this.url) argv.push('--listen', new URL(this.url).origin);
    this.child = spawn(argv[0], argv.slice(1),
      { stdio: ['ignore', 'ignore', 'pipe'], env: this.env });
    const { child } = this;
    atExit(() => child.kill('SIGKILL'));
    this.exited = once(child, 'exit');
    const from = this.log.length;
    child.stderr.on('data', (data) => { this.log += data; });
    await Promise.race([
      until(() => {
        const line = this.#lines(from).find((l) => l.message === 'serving');
        if (line) this.url = line.urls[0];
        return line;
      }, 'the program serves'),
      this.exited.then(([code, signal]) => {
        throw Object.assign(new Error(`ended with ${code ?? signal}: ${this.log}`), { code });
      }),
    ]);
  }

  #lines(from = 0) {
    return this.log.slice(from).split('\n').slice(0, -1).map((line) => {
      try { return JSON.parse(line); } catch { return { message: line }; }
    });
  }

  // A line of the log, behind the place `from`.
  logged(pattern, from = 0) {
    return until(() => this.#lines(from).find((line) => pattern.test(line.message)),
      `the log has ${pattern}`).catch((error) => {
      throw new Error(`${error.message}; it has: ${this.log}`);
    });
  }

  // Reads another config while it runs.
  async reload(resources) {
    const from = this.log.length;
    this.configure(resources);
    this.child.kill('SIGHUP');
    await this.logged(/^config reloaded/, from);
  }

  async kill() {
    this.child.kill('SIGKILL');
    await within(this.exited, 'the program is gone');
  }

  // By SIGTERM; it has to end well and in time.
  async stop() {
    if (!this.child || this.child.signalCode === 'SIGKILL') return;
    this.child.kill('SIGTERM');
    try {
      const [code, signal] = await within(this.exited, 'the program ends after SIGTERM');
      if (code !== 0) throw new Error(`ended with ${code ?? signal}: ${this.log}`);
    } finally {
      this.child.kill('SIGKILL');
    }
  }
}

// SPDX-License-Identifier: MIT
// Starts and stops the server under test.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { within } from './wait.mjs';

export const program =
  process.env.TDG_FIXTURE ??
  fileURLToPath(new URL('../../../build/tests/interop/fixture', import.meta.url));

// Everything is told at once unless a test wants otherwise, so that tests need not wait.
export const prompt = ['--immediate', '--rate-limit', '0'];

// A test file that takes too long is ended by this signal; then too, what it started goes.
process.once('SIGTERM', () => process.exit(143));

export class Fixture {
  stderr = '';

  // Serves HTTP on a free port. `options` come after the usual ones and win.
  static async start(...options) {
    const fixture = new Fixture();
    fixture.child = spawn(
      program, ['--http', '0', '--workers', '2', ...prompt, ...options],
      { stdio: ['ignore', 'ignore', 'pipe'] });
    fixture.exited = once(fixture.child, 'exit');
    // What a test forgets must not outlive it; what dies should say why.
    process.once('exit', () => fixture.child.kill('SIGKILL'));
    fixture.exited.then(([code]) => {
      if (code !== 0) process.stderr.write(`the fixture ended early:\n${fixture.stderr}\n`);
    });
    await fixture.#listening();
    return fixture;
  }

  async #listening() {
    const line = new Promise((resolve, reject) => {
      this.child.stderr.on('data', (data) => {
        this.stderr += data;
        const found = /listening on (\S+)/.exec(this.stderr);
        if (found) resolve(found[1]);
      });
      this.exited.then(([code]) => reject(new Error(`ended with ${code}: ${this.stderr}`)));
    });
    line.catch(() => {});
    this.url = await within(line, 'the fixture listens');
  }

  // By SIGTERM; it has to end well and in time.
  async stop() {
    if (this.child.exitCode === null && this.child.signalCode === null) {
      this.child.kill('SIGTERM');
    }
    try {
      const [code, signal] = await within(this.exited, 'the fixture ends after SIGTERM');
      if (code !== 0) throw new Error(`ended with ${code ?? signal}: ${this.stderr}`);
    } finally {
      this.child.kill('SIGKILL');
    }
  }
}

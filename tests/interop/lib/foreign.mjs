// SPDX-License-Identifier: MIT
// Servers that are not ours, in processes of their own.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { freePort } from './proxy.mjs';
import { within } from './wait.mjs';
import './fixture.mjs'; // ends us well when it is too late

const script = fileURLToPath(new URL('sdk-server.mjs', import.meta.url));
const everything = fileURLToPath(new URL(
  '../node_modules/@modelcontextprotocol/server-everything/dist/index.js', import.meta.url));

// The arguments of a program that speaks on its standard input and output.
export const sdkPipe = (sdk, ...options) =>
  [process.execPath, script, sdk, 'stdio', '0', ...options];
export const everythingPipe = [process.execPath, everything, 'stdio'];

export class Foreign {
  log = '';

  // A server by an SDK: "v1" or "v2", "http" or "sse".
  static sdk(sdk, transport, ...options) {
    const server = new Foreign();
    server.path = transport === 'sse' ? '/sse' : '/mcp';
    server.ready = /^listening \d+$/m;
    server.command = (port) => [script, sdk, transport, String(port), ...options];
    return server.#begin();
  }

  // The reference server: "streamableHttp" or "sse".
  static everything(transport) {
    const server = new Foreign();
    server.path = transport === 'sse' ? '/sse' : '/mcp';
    server.ready = /(listening|running) on port/;
    server.command = () => [everything, transport];
    return server.#begin();
  }

  async #begin() {
    this.port = await freePort();
    this.url = `http://127.0.0.1:${this.port}${this.path}`;
    await this.start();
    return this;
  }

  // Also again, at the same address.
  async start() {
    const child = spawn(process.execPath, this.command(this.port),
      { stdio: ['ignore', 'pipe', 'pipe'], env: { ...process.env, PORT: String(this.port) } });
    this.child = child;
    this.exited = once(child, 'exit');
    process.once('exit', () => child.kill('SIGKILL'));
    let said = '';
    const listening = new Promise((resolve, reject) => {
      for (const output of [child.stdout, child.stderr]) {
        output.on('data', (data) => {
          said += data;
          this.log += data;
          if (this.ready.test(said)) resolve();
        });
      }
      this.exited.then(([code]) => reject(new Error(`it ended with ${code}: ${said}`)));
    });
    listening.catch(() => {});
    await within(listening, 'the server listens');
  }

  async kill() {
    this.child.kill('SIGKILL');
    await within(this.exited, 'the server is gone');
  }
}

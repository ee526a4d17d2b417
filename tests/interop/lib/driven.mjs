// SPDX-License-Identifier: MIT
// Our client, as tests/client/driver.h describes it.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { program as fixture } from './fixture.mjs';
import { Inbox, within } from './wait.mjs';

const program = process.env.TDG_DRIVER ?? join(dirname(fixture), '..', 'client', 'driver');

// Comes back soon, so that tests need not wait.
const prompt = { retry_ms: 20, retry_max_ms: 200, retry_per_minute: 120 };

export class Driven {
  events = new Inbox();
  inputs = new Inbox();
  logs = [];
  #waiting = new Map();
  #ids = 0;
  stderr = '';

  constructor() {
    this.child = spawn(program, { stdio: ['pipe', 'pipe', 'pipe'] });
    this.exited = once(this.child, 'exit');
    process.once('exit', () => this.child.kill('SIGKILL'));
    this.child.stderr.on('data', (data) => { this.stderr += data; });
    createInterface({ input: this.child.stdout }).on('line', (text) => {
      const line = JSON.parse(text);
      if (line.id !== undefined) this.#waiting.get(line.id)?.(line);
      else if (line.event) this.events.push(line);
      else if (line.input) this.inputs.push(line);
      else this.logs.push(`${line.log}: ${line.line}`);
    });
    this.exited.then(() => {
      for (const answer of this.#waiting.values()) answer({ code: 'the driver has ended' });
    });
  }

  // Connected to `target`: a URL, or the arguments of a program.
  static async connect(target, options = {}) {
    const client = new Driven();
    const where = Array.isArray(target) ? { argv: target } : { url: target };
    await client.does('connect', { ...where, ...prompt, ...options });
    return client;
  }

  // Asks for something, however it ends.
  async ask(what, fields = {}) {
    const id = ++this.#ids;
    const answer = new Promise((resolve) => this.#waiting.set(id, resolve));
    this.child.stdin.write(`${JSON.stringify({ id, do: what, ...fields })}\n`);
    return within(answer, what).catch((error) => {
      throw new Error(`${error.message}; ${this.story()}`);
    }).finally(() => this.#waiting.delete(id));
  }

  // It has to go well.
  async does(what, fields) {
    const answer = await this.ask(what, fields);
    if (answer.code !== 'TDG_OK') {
      throw new Error(`${what}: ${JSON.stringify(answer)}; ${this.story()}`);
    }
    return answer;
  }

  async result(what, fields) {
    return (await this.does(what, fields)).result;
  }

  // The text of a resource.
  async text(uri) {
    return (await this.result('read', { uri })).contents[0].text;
  }

  // The next event of that kind with those fields.
  event(kind, fields = {}) {
    return this.events.next((e) => e.event === kind
      && Object.entries(fields).every(([name, value]) => e[name] === value),
    `${kind} ${JSON.stringify(fields)}`).catch((error) => {
      throw new Error(`${error.message}; ${this.story()}`);
    });
  }

  updated(uri, fields) {
    return this.event('updated', { uri, ...fields });
  }

  // Forgets what has come so far.
  clear() {
    this.events.items.length = 0;
  }

  story() {
    return `what it said:\n${this.logs.slice(-25).join('\n')}\n${this.stderr}`;
  }

  // By the end of its input; it has to end well.
  async close() {
    this.child.stdin.end();
    try {
      const [code, signal] = await within(this.exited, 'the driver ends');
      if (code !== 0) throw new Error(`the driver ended with ${code ?? signal}: ${this.stderr}`);
    } finally {
      this.child.kill('SIGKILL');
    }
  }
}

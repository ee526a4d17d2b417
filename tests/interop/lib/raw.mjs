// SPDX-License-Identifier: MIT
// The protocol by hand, for what the official clients hide: bytes, order, status codes.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { program, prompt } from './fixture.mjs';
import { Inbox, within } from './wait.mjs';

export const modernVersion = '2026-07-28';
export const legacyVersion = '2025-11-25';

export const modernMeta = (more) => ({
  'io.modelcontextprotocol/protocolVersion': modernVersion,
  'io.modelcontextprotocol/clientInfo': { name: 'raw', version: '1' },
  'io.modelcontextprotocol/clientCapabilities': {},
  ...more,
});

const both = { 'content-type': 'application/json',
  accept: 'application/json, text/event-stream' };

// The events of a response of type text/event-stream, as they come. Each is {id, data,
// retry, json}; comments are counted.
export class Events extends Inbox {
  comments = 0;
  all = [];
  ended = new Promise((resolve) => { this.end = resolve; });

  constructor(response, abort) {
    super();
    this.response = response;
    this.abort = abort;
    this.#read(response.body.getReader()).then(
      () => this.end('end'), (error) => this.end(error));
  }

  async #read(reader) {
    const decoder = new TextDecoder();
    let text = '';
    for (;;) {
      const { value, done } = await reader.read();
      if (done) break;
      text += decoder.decode(value, { stream: true });
      let at;
      while ((at = text.indexOf('\n\n')) >= 0) {
        this.#event(text.slice(0, at));
        text = text.slice(at + 2);
      }
    }
  }

  #event(block) {
    const event = {};
    let data = null;
    for (const line of block.split('\n')) {
      const [, name, value] = /^([^:]*): ?(.*)$/.exec(line) ?? [null, line, ''];
      if (name === '') this.comments++;
      else if (name === 'data') data = data === null ? value : `${data}\n${value}`;
      else event[name] = value;
    }
    if (data === null && Object.keys(event).length === 0) return;
    event.data = data ?? '';
    if (event.data !== '' && event.event !== 'endpoint') event.json = JSON.parse(event.data);
    this.all.push(event);
    this.push(event);
  }

  message(method, what = method) {
    return this.next((event) => event.json?.method === method, what);
  }

  close() {
    this.abort.abort();
  }
}

export async function send(url, init) {
  const abort = new AbortController();
  const response = await within(fetch(url, { ...init, signal: abort.signal }),
    `${init.method} is answered`);
  const type = response.headers.get('content-type') ?? '';
  if (type.startsWith('text/event-stream')) {
    return { response, status: response.status, events: new Events(response, abort) };
  }
  const text = await response.text();
  return { response, status: response.status, text,
    json: type.startsWith('application/json') && text !== '' ? JSON.parse(text) : undefined };
}

export class ModernHttp {
  #id = 0;

  constructor(url) {
    this.url = url;
  }

  // One request. The answer's `events` are set when it comes as a stream.
  request(method, params = {}, { headers = {}, meta = {}, id } = {}) {
    const name = method === 'resources/read' ? params.uri : params.name;
    return send(this.url, {
      method: 'POST',
      headers: {
        ...both, 'mcp-protocol-version': modernVersion, 'mcp-method': method,
        ...(/^(tools\/call|prompts\/get|resources\/read)$/.test(method)
          ? { 'mcp-name': name } : {}),
        ...headers,
      },
      body: JSON.stringify({
        jsonrpc: '2.0', id: id ?? ++this.#id, method,
        params: { ...params, _meta: modernMeta(meta) },
      }),
    });
  }

  async call(name, args = {}) {
    const answer = await this.request('tools/call', { name, arguments: args });
    const json = answer.json ?? (await answer.events.next((e) => e.json?.id, name)).json;
    if (!json.result || json.result.isError) throw new Error(JSON.stringify(json));
    return json.result;
  }

  async look(name, args) {
    return (await this.call(name, args)).structuredContent;
  }

  publish(uri, metadata) {
    return this.call('publish', metadata ? { uri, metadata } : { uri });
  }

  // Listens; resolves when acknowledged, to the events with `ack` and `id`.
  async listen(notifications, options = {}) {
    const { events, json, status } = await this.request('subscriptions/listen',
      { notifications }, options);
    if (!events) throw new Error(`listen: ${status} ${JSON.stringify(json)}`);
    events.ack = await events.message('notifications/subscriptions/acknowledged');
    return events;
  }
}

export class LegacyHttp {
  #id = 0;

  constructor(url) {
    this.url = url;
  }

  headers(more) {
    return { ...(this.session ? { 'mcp-session-id': this.session } : {}),
      ...(this.version ? { 'mcp-protocol-version': this.version } : {}), ...more };
  }

  async initialize(version = legacyVersion) {
    const answer = await this.request('initialize', {
      protocolVersion: version, capabilities: {}, clientInfo: { name: 'raw', version: '1' },
    });
    this.session = answer.response.headers.get('mcp-session-id');
    this.hello = (await this.body(answer)).result;
    this.version = this.hello.protocolVersion;
    const done = await this.notify('notifications/initialized');
    if (done.status !== 202) throw new Error(`initialized: ${done.status}`);
    return this.hello;
  }

  // The JSON-RPC response, whichever way it came.
  async body({ json, events, status }) {
    if (json) return json;
    if (!events) throw new Error(`no answer, status ${status}`);
    return (await events.next((e) => e.json && !e.json.method, 'the response')).json;
  }

  request(method, params = {}, { headers = {}, id } = {}) {
    return this.post({ jsonrpc: '2.0', id: id ?? ++this.#id, method, params }, headers);
  }

  notify(method, params) {
    return this.post({ jsonrpc: '2.0', method, ...(params ? { params } : {}) });
  }

  post(message, headers = {}) {
    return send(this.url, { method: 'POST', headers: this.headers({ ...both, ...headers }),
      body: JSON.stringify(message) });
  }

  async result(method, params) {
    const body = await this.body(await this.request(method, params));
    if (body.error) throw Object.assign(new Error(body.error.message), body.error);
    return body.result;
  }

  async call(name, args = {}) {
    const result = await this.result('tools/call', { name, arguments: args });
    if (result.isError) throw new Error(JSON.stringify(result));
    return result;
  }

  subscribe(uri) {
    return this.result('resources/subscribe', { uri });
  }

  unsubscribe(uri) {
    return this.result('resources/unsubscribe', { uri });
  }

  // The GET stream; `last` is what comes back as Last-Event-ID.
  async stream(last) {
    const answer = await send(this.url, { method: 'GET', headers: this.headers({
      accept: 'text/event-stream', ...(last ? { 'last-event-id': last } : {}) }) });
    if (!answer.events) throw new Error(`GET: ${answer.status} ${answer.text}`);
    return answer.events;
  }

  delete() {
    return send(this.url, { method: 'DELETE', headers: this.headers() });
  }
}

// Lines on standard input and output. Everything that came, in order, is in `all`.
export class Pipe extends Inbox {
  all = [];

  constructor(...options) {
    super();
    this.child = spawn(program, ['--stdio', ...prompt, ...options],
      { stdio: ['pipe', 'pipe', 'inherit'] });
    this.exited = once(this.child, 'exit');
    createInterface({ input: this.child.stdout }).on('line', (line) => {
      const message = JSON.parse(line);
      this.all.push(message);
      this.push(message);
    });
  }

  // Messages that leave in one write.
  send(...messages) {
    this.child.stdin.write(messages.map((m) => JSON.stringify(m) + '\n').join(''));
  }

  answer(id) {
    return this.next((m) => m.id === id && !m.method, `the answer to ${id}`);
  }

  async close() {
    this.child.stdin.end();
    const [code, signal] = await within(this.exited, 'the process ends with its input');
    if (code !== 0) throw new Error(`ended with ${code ?? signal}`);
  }
}

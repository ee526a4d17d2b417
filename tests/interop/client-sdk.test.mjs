// SPDX-License-Identifier: MIT
// Our client and servers made with the official SDKs: every way to speak, a resource that
// really changes, and servers that die.
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { afterEach, describe, it } from 'node:test';
import { Driven } from './lib/driven.mjs';
import { Foreign, sdkPipe } from './lib/foreign.mjs';
import { Proxy } from './lib/proxy.mjs';
import { until } from './lib/wait.mjs';

const [a, b] = ['count://a', 'count://b'];

// What a test has opened goes with it.
const open = new Set();
afterEach(async () => {
  const all = [...open];
  open.clear();
  const problems = [];
  for (const each of all) await each().catch((error) => problems.push(error));
  if (problems.length > 0) throw problems[0];
});

async function serve(starting) {
  const server = await starting;
  open.add(() => server.kill());
  return server;
}

async function connect(target, options) {
  const client = await Driven.connect(target, options);
  open.add(() => client.close());
  return client;
}

const bump = (client, uri, text) => client.result('call',
  { tool: 'bump', arguments: { uri, text } });

// Every way in: which server, what is found, and whether updates can arrive.
const ways = [
  { name: 'SDK v1, HTTP', serve: () => Foreign.sdk('v1', 'http'), era: 'legacy',
    transport: 'http', sessions: true },
  { name: 'SDK v1, HTTP with an event store', serve: () => Foreign.sdk('v1', 'http', 'store'),
    era: 'legacy', transport: 'http', sessions: true },
  { name: 'SDK v1, HTTP with JSON answers', serve: () => Foreign.sdk('v1', 'http', 'json'),
    era: 'legacy', transport: 'http', sessions: true },
  { name: 'SDK v1, HTTP+SSE', serve: () => Foreign.sdk('v1', 'sse'), era: 'legacy',
    transport: 'sse', protocol: '2024-11-05', sessions: true },
  { name: 'SDK v1, stdio', pipe: sdkPipe('v1'), era: 'legacy', transport: 'stdio' },
  { name: 'SDK v2, HTTP', serve: () => Foreign.sdk('v2', 'http'), era: 'modern',
    transport: 'http' },
  { name: 'SDK v2 without legacy, HTTP', serve: () => Foreign.sdk('v2', 'http', 'reject'),
    era: 'modern', transport: 'http' },
  { name: 'SDK v2 with sessions, HTTP, legacy wanted', options: { era: 'legacy' },
    serve: () => Foreign.sdk('v2', 'http', 'sessions'), era: 'legacy', transport: 'http',
    sessions: true },
  { name: 'SDK v2, stdio', pipe: sdkPipe('v2'), era: 'modern', transport: 'stdio' },
  { name: 'SDK v2 without legacy, stdio', pipe: sdkPipe('v2', 'reject'), era: 'modern',
    transport: 'stdio' },
  { name: 'SDK v2, stdio, legacy wanted', pipe: sdkPipe('v2'), options: { era: 'legacy' },
    era: 'legacy', transport: 'stdio' },
];

for (const way of ways) {
  describe(way.name, () => {
    async function begin(options) {
      const server = way.pipe ? undefined : await serve(way.serve());
      const client = await connect(way.pipe ?? server.url, { ...way.options, ...options });
      return { server, client };
    }

    it('lists, reads, calls, prompts, completes', async () => {
      const { client } = await begin();
      const facts = await client.does('facts');
      assert.equal(facts.era, way.era);
      assert.equal(facts.transport, way.transport);
      assert.equal(facts.name, way.name.startsWith('SDK v1') ? 'sdk-v1' : 'sdk-v2');
      assert.ok(facts.subscribe);
      assert.ok(!facts.ours);
      if (way.era === 'modern') assert.equal(facts.protocol, '2026-07-28');

      const names = async (list) => (await client.result('list', { list }))
        .map((item) => item.uri ?? item.uriTemplate ?? item.name);
      assert.deepEqual(await names('resources'), [a, b]);
      assert.deepEqual(await names('templates'), ['count://{name}']);
      assert.deepEqual(await names('tools'), ['bump', 'add', 'ask']);
      assert.deepEqual(await names('prompts'), ['greet']);
      assert.equal(await client.text(a), 'a is 0');
      assert.equal((await client.ask('read', { uri: 'count://missing' })).code,
        'TDG_ENOTFOUND');
      const { messages } = await client.result('prompt',
        { prompt: 'greet', arguments: { who: 'you' } });
      assert.equal(messages[0].content.text, 'Hello you');
      const { values } = await client.result('complete',
        { ref: 'greet', argument: 'who', value: 'os' });
      assert.deepEqual(values, ['oslo', 'osaka']);
      await client.does('ping');
      assert.equal((await client.ask('request', { method: 'no/such' })).rpc_code, -32601);
    });

    it('subscribes for real', async () => {
      const { client } = await begin();
      await client.does('subscribe', { uri: a });
      for (const text of ['one', 'two', 'three']) {
        await bump(client, a, text);
        const { maybe, version } = await client.updated(a);
        assert.ok(!maybe && !version);
        assert.equal(await client.text(a), text);
      }
      await client.does('subscribe', { uri: b, opts: { reread: true } });
      await bump(client, b, 'read');
      assert.equal((await client.updated(b)).contents[0].text, 'read');

      await client.does('unsubscribe', { uri: a });
      client.clear();
      await bump(client, a, 'unseen');
      await bump(client, b, 'seen');
      assert.equal((await client.updated(b)).contents[0].text, 'seen');
      assert.deepEqual(client.events.items.filter((e) => e.uri === a), []);
      assert.deepEqual((await client.does('subscriptions')).uris, [b]);
    });

    it('hears of lists', async () => {
      const { client } = await begin();
      await client.does('subscribe', { uri: a });
      await client.does('watch_lists', { lists: ['resources'] });
      await client.does('call', { tool: 'add', arguments: { uri: 'count://c' } });
      await client.event('list_changed', { list: 'resources' });
      assert.equal((await client.result('list', { list: 'resources' })).length, 3);
    });

    if (!way.pipe) {
      it('comes back to a server that died, and says what may have changed', async () => {
        const { server, client } = await begin();
        await client.does('subscribe_all', { uris: [a, b] });
        await client.does('watch_lists', { lists: ['resources'] });
        await bump(client, a, 'before');
        await client.updated(a);
        await server.kill();
        await client.event('down');
        await server.start();
        await client.event('up');
        await Promise.all([client.updated(a, { maybe: true }), client.updated(b, { maybe: true }),
          client.event('list_changed', { list: 'resources', maybe: true })]);
        assert.equal(await client.text(a), 'a is 0');
        await until(async () => {
          await bump(client, b, 'after');
          return client.events.items.some((e) => e.event === 'updated' && e.uri === b);
        }, 'a change after the return is told');
        const counts = await client.does('counts');
        assert.ok(counts.reconnects >= 1);
        if (way.sessions) assert.equal(counts.initialised, 2);
      });
    } else {
      it('starts a program again that died, and says what may have changed', async () => {
        const { client } = await begin();
        await client.does('subscribe', { uri: a });
        await bump(client, a, 'before');
        await client.updated(a);
        killChild(client);
        await client.event('down');
        await client.event('up');
        await client.updated(a, { maybe: true });
        assert.equal(await client.text(a), 'a is 0');
        client.clear();
        await bump(client, a, 'after');
        await client.updated(a);
      });
    }
  });
}

// Kills the program that the client has started, which is a child of one of its threads.
function killChild({ child: { pid } }) {
  for (const task of readdirSync(`/proc/${pid}/task`)) {
    const found = readFileSync(`/proc/${pid}/task/${task}/children`, 'utf8').trim();
    if (found) return process.kill(Number(found.split(' ')[0]), 'SIGKILL');
  }
  throw new Error('it has started no program');
}

describe('a server without streams', () => {
  for (const [name, sdk, options] of [
    ['SDK v1, stateless', 'v1', ['stateless']],
    ['SDK v2, legacy wanted', 'v2', []],
  ]) {
    it(`${name}: says that it cannot, and polls where it may`, async () => {
      const server = await serve(Foreign.sdk(sdk, 'http', ...options));
      const client = await connect(server.url, { era: 'legacy' });
      assert.equal(await client.text(a), 'a is 0');
      assert.equal((await client.ask('subscribe', { uri: a })).code, 'TDG_ENOTSUP');
      await client.does('subscribe', { uri: a, opts: { poll_ms: 300 } });
      await bump(client, a, 'polled');
      const { contents } = await client.updated(a, { polled: true });
      if (contents) assert.equal(contents[0].text, 'polled');
      assert.equal(await client.text(a), 'polled');
    });
  }
});

describe('requests of the server', () => {
  it('SDK v1 asks, and gets the answer of the program', async () => {
    const server = await serve(Foreign.sdk('v1', 'http'));
    const client = await connect(server.url,
      { input: { 'elicitation/create': { action: 'accept', content: { n: 7 } } } });
    const { content } = await client.result('call', { tool: 'ask', arguments: {} });
    assert.deepEqual(JSON.parse(content[0].text), { action: 'accept', content: { n: 7 } });
    const asked = await client.inputs.next(() => true, 'what was asked');
    assert.equal(asked.params.message, 'How many?');
  });
});

describe('an event store', () => {
  it('gives what was missed when the stream broke', async () => {
    const server = await serve(Foreign.sdk('v1', 'http', 'store'));
    const proxy = await Proxy.start(server.port);
    open.add(() => proxy.stop());
    const other = await connect(server.url);
    const client = await connect(`http://127.0.0.1:${proxy.port}/mcp`);
    await client.does('subscribe', { uri: a });
    await bump(other, a, 'first');
    await client.updated(a);
    for (const text of ['second', 'third']) {
      client.clear();
      proxy.snap();
      await bump(other, a, text);
      await client.updated(a);
      assert.equal(await client.text(a), text);
    }
    assert.equal((await client.does('counts')).initialised, 1);
  });
});

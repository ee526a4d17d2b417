// SPDX-License-Identifier: MIT
// What only we have: wishes in _meta of a subscribe or listen, the dialect of erlmcp, and
// both eras on one pipe.
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { Fixture } from './lib/fixture.mjs';
import { LegacyHttp, ModernHttp, modernMeta, Pipe } from './lib/raw.mjs';

const updated = 'notifications/resources/updated';
const uriOf = (event) => event.json?.params?.uri;

describe('wishes', () => {
  let fixture, observer;

  before(async () => {
    fixture = await Fixture.start();
    observer = new ModernHttp(fixture.url);
  });
  after(() => fixture.stop());

  // Subscribes in one of the eras with `wishes`, and returns the stream.
  const eras = {
    async modern(uris, wishes) {
      return observer.listen({ resourceSubscriptions: uris }, { meta: wishes });
    },
    async legacy(uris, wishes) {
      const client = new LegacyHttp(fixture.url);
      await client.initialize();
      const stream = await client.stream();
      for (const uri of uris) {
        await client.result('resources/subscribe', { uri, _meta: wishes });
      }
      return stream;
    },
  };

  for (const [era, subscribe] of Object.entries(eras)) {
    it(`${era}: a filter keeps away what it does not match`, async () => {
      const stream = await subscribe(['live://a', 'live://m'],
        { 'dev.tidings/options': { filter: { 'metadata.size': { gt: 10 } } } });
      await observer.publish('live://a', { size: 5 });
      await observer.publish('live://a', { size: 50 });
      const update = await stream.next((e) => uriOf(e) === 'live://a', 'the large one');
      assert.equal(update.json.params.metadata.size, 50);
      await observer.publish('live://a', { size: 6 });
      await observer.publish('live://m', { size: 60 });
      await stream.next((e) => uriOf(e) === 'live://m', 'the marker');
      assert.equal(stream.all.filter((e) => uriOf(e) === 'live://a').length, 1);
      stream.close();
    });

    it(`${era}: a window of its own`, async () => {
      const stream = await subscribe(['live://b'],
        { 'dev.tidings/options': { batchMs: 1000 } });
      const began = Date.now();
      await observer.call('publish', { uri: 'live://b', count: 20 });
      const update = await stream.next((e) => uriOf(e) === 'live://b', 'the batch');
      assert.ok(Date.now() - began >= 995, 'not before its window is over');
      assert.equal(update.json.params.metadata.n, 20);
      assert.equal(update.json.params._meta['dev.tidings/merged'], 19);
      stream.close();
    });

    it(`${era}: a rate limit of its own`, async () => {
      const stream = await subscribe(['live://c'],
        { 'dev.tidings/options': { rateLimitMs: 300 } });
      const began = Date.now();
      await observer.publish('live://c', { n: 1 });
      await stream.next((e) => e.json?.params?.metadata?.n === 1, 'the first at once');
      await observer.publish('live://c', { n: 2 });
      await stream.next((e) => e.json?.params?.metadata?.n === 2, 'the second');
      assert.ok(Date.now() - began >= 295, 'not before the limit allows it');
      stream.close();
    });

    it(`${era}: what happened lately`, async () => {
      await observer.publish('live://item/lately');
      const stream = await subscribe(['live://item/lately'], { 'dev.tidings/sinceMs': 60000 });
      const update = await stream.next((e) => uriOf(e) === 'live://item/lately', 'the past');
      assert.equal(update.json.method, updated);
      stream.close();
    });

    it(`${era}: the answer says where the stream is`, async () => {
      let meta;
      if (era === 'modern') {
        const stream = await subscribe(['live://d'], { 'dev.tidings/sinceMs': 1 });
        meta = stream.ack.json.params._meta;
        stream.close();
      } else {
        const client = new LegacyHttp(fixture.url);
        await client.initialize();
        meta = (await client.result('resources/subscribe',
          { uri: 'live://d', _meta: { 'dev.tidings/sinceMs': 1 } }))._meta;
        assert.deepEqual(await client.subscribe('live://e'), {}, 'and nothing where not asked');
      }
      assert.equal(typeof meta['dev.tidings/cursor'], 'string');
    });
  }

  it('a cursor of another server counts as one that knows nothing', async () => {
    const other = await Fixture.start();
    const foreign = await new ModernHttp(other.url).listen({ toolsListChanged: true });
    const cursor = foreign.ack.json.params._meta['dev.tidings/cursor'];
    foreign.close();
    await other.stop();
    const stream = await observer.listen({ resourceSubscriptions: ['live://f'] },
      { meta: { 'dev.tidings/cursor': cursor } });
    assert.equal(stream.ack.json.params._meta['dev.tidings/resumed'], false);
    await stream.next((e) => uriOf(e) === 'live://f', 'it counts as changed');
    stream.close();
  });

  it('what is not understood is refused', async () => {
    for (const options of [{ batchMs: -1 }, { batchMs: 'x' }, { filter: 7 }, { unknown: 1 },
      { batchMs: 1, debounceMs: 1 }, { filter: { 'metadata.x': { like: 1 } } }]) {
      const wishes = { 'dev.tidings/options': options };
      const { json } = await observer.request('subscriptions/listen',
        { notifications: { resourceSubscriptions: ['live://a'] } }, { meta: wishes });
      assert.equal(json?.error?.code, -32602, JSON.stringify(options));
      const client = new LegacyHttp(fixture.url);
      await client.initialize();
      await assert.rejects(client.result('resources/subscribe',
        { uri: 'live://a', _meta: wishes }), { code: -32602 });
      await client.delete();
    }
  });
});

describe('the dialect of erlmcp', () => {
  it('has names and codes of its own', async () => {
    const fixture = await Fixture.start('--erlmcp');
    const client = new LegacyHttp(fixture.url);
    await client.initialize();
    const stream = await client.stream();
    await client.subscribe('live://a');
    await client.call('publish', { uri: 'live://a' });
    await stream.message('resources/updated');
    await client.call('delete', { uri: 'live://a' });
    await stream.message('resources/deleted');
    await client.call('add_tool', { name: 'late' });
    const { json } = await stream.message('notifications/tools/list_changed');
    assert.deepEqual(json, { jsonrpc: '2.0', method: 'notifications/tools/list_changed',
      params: {} });
    await assert.rejects(client.result('resources/read', { uri: 'live://nowhere' }),
      { code: -32001 });
    await assert.rejects(client.subscribe('not a uri'), { code: -32022 });
    await assert.rejects(client.result('resources/subscribe', {}), { code: -32602,
      message: 'Invalid params', data: { detail: 'Missing uri parameter' } });
    stream.close();
    await client.delete();
    await fixture.stop();
  });
});

describe('a request before initialize over /mcp', () => {
  it('is not initialized, and says which request that was', async () => {
    const fixture = await Fixture.start();
    const body = JSON.stringify({ jsonrpc: '2.0', id: 7, method: 'resources/list' });
    const headers = { 'Content-Type': 'application/json' };
    const early = await fetch(fixture.url, { method: 'POST', headers, body });
    assert.equal(early.status, 400);
    const { id, error } = await early.json();
    assert.deepEqual([id, error.code], [7, -32005]);
    const gone = await fetch(fixture.url, { method: 'POST', body,
      headers: { ...headers, 'Mcp-Session-Id': '00000000000000000000000000000000ff' } });
    assert.equal(gone.status, 404);
    assert.equal((await gone.json()).error.code, -32005);
    await fixture.stop();
  });
});

describe('one pipe', () => {
  const hello = { jsonrpc: '2.0', id: 'hello', method: 'initialize', params: {
    protocolVersion: '2025-11-25', capabilities: {},
    clientInfo: { name: 'w', version: '1' } } };

  it('speaks both eras, and one publish reaches both', async () => {
    const pipe = new Pipe();
    pipe.send(hello, { jsonrpc: '2.0', method: 'notifications/initialized' },
      { jsonrpc: '2.0', id: 1, method: 'resources/subscribe', params: { uri: 'live://a' } },
      { jsonrpc: '2.0', id: 'listen', method: 'subscriptions/listen', params: {
        notifications: { resourceSubscriptions: ['live://a'] }, _meta: modernMeta() } });
    await pipe.answer(1);
    await pipe.next((m) => m.method === 'notifications/subscriptions/acknowledged', 'ack');
    pipe.send({ jsonrpc: '2.0', id: 2, method: 'tools/call',
      params: { name: 'publish', arguments: { uri: 'live://a' } } });
    const tagged = (m) => m.params?._meta?.['io.modelcontextprotocol/subscriptionId'];
    await pipe.next((m) => m.method === updated && tagged(m) === 'listen', 'the modern one');
    await pipe.next((m) => m.method === updated && tagged(m) === undefined, 'the legacy one');
    await pipe.close();
  });

  it('refuses legacy requests before the handshake', async () => {
    const pipe = new Pipe();
    pipe.send({ jsonrpc: '2.0', id: 1, method: 'resources/list' });
    assert.equal((await pipe.answer(1)).error.code, -32005);
    pipe.send(hello);
    assert.ok((await pipe.answer('hello')).result);
    await pipe.close();
  });

  it('takes a message in pieces, and many at once', async () => {
    const pipe = new Pipe();
    const text = JSON.stringify({ jsonrpc: '2.0', id: 'pieces', method: 'server/discover',
      params: { _meta: modernMeta() } });
    for (const piece of text.match(/.{1,40}/g)) {
      pipe.child.stdin.write(piece);
      await new Promise((resolve) => setImmediate(resolve));
    }
    pipe.child.stdin.write('\n');
    assert.ok((await pipe.answer('pieces')).result);
    pipe.send(...Array.from({ length: 500 }, (_, i) => ({ jsonrpc: '2.0', id: i,
      method: 'resources/read', params: { uri: `live://item/${i}`, _meta: modernMeta() } })));
    for (let i = 0; i < 500; i++) {
      assert.equal((await pipe.answer(i)).result.contents[0].text, `live://item/${i}`);
    }
    await pipe.close();
  });
});

// SPDX-License-Identifier: MIT
// The lines of the delivery contract over the wire, with the races forced: under slow://
// the server does not acknowledge a subscription before the tool `arm` is called.
import assert from 'node:assert/strict';
import { connect } from 'node:net';
import { after, before, describe, it } from 'node:test';
import { Fixture } from './lib/fixture.mjs';
import { LegacyHttp, ModernHttp, modernMeta, Pipe } from './lib/raw.mjs';
import { until } from './lib/wait.mjs';

const updated = 'notifications/resources/updated';
const updatesOf = (messages, uri) =>
  messages.filter((m) => m.method === updated && m.params.uri === uri);

const call = (id, name, args, meta) => ({ jsonrpc: '2.0', id, method: 'tools/call',
  params: { name, arguments: args, ...(meta ? { _meta: meta } : {}) } });
const initialize = { jsonrpc: '2.0', id: 'init', method: 'initialize', params: {
  protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'p', version: '1' } } };
const initialized = { jsonrpc: '2.0', method: 'notifications/initialized' };
const subscribe = (id, uri) =>
  ({ jsonrpc: '2.0', id, method: 'resources/subscribe', params: { uri } });
const unsubscribe = (id, uri) =>
  ({ jsonrpc: '2.0', id, method: 'resources/unsubscribe', params: { uri } });
const listen = (id, uris) => ({ jsonrpc: '2.0', id, method: 'subscriptions/listen', params: {
  notifications: { resourceSubscriptions: uris }, _meta: modernMeta() } });
const cancel = (id) => ({ jsonrpc: '2.0', method: 'notifications/cancelled',
  params: { requestId: id, _meta: modernMeta() } });

describe('acknowledged first', () => {
  let fixture, observer;

  const watching = (uri) => until(
    async () => (await observer.look('watched')).started[uri], `${uri} is being watched`);

  before(async () => {
    fixture = await Fixture.start();
    observer = new ModernHttp(fixture.url);
  });
  after(() => fixture.stop());

  it('modern: a change before the acknowledgement comes right after it', async () => {
    const listening = observer.listen({ resourceSubscriptions: ['slow://one', 'live://m'] });
    await watching('slow://one');
    await observer.publish('slow://one', { n: 1 });
    await observer.call('arm', { uri: 'slow://one' });
    const stream = await listening;
    const update = await stream.message(updated);
    assert.equal(update.json.params.uri, 'slow://one');
    assert.equal(stream.all[0].json.method, 'notifications/subscriptions/acknowledged');
    stream.close();
  });

  it('legacy: a change before the acknowledgement waits for it', async () => {
    const client = new LegacyHttp(fixture.url);
    await client.initialize();
    const stream = await client.stream();
    await client.subscribe('live://m');
    const subscribing = client.subscribe('slow://two');
    let acknowledged = false;
    subscribing.then(() => { acknowledged = true; });
    await watching('slow://two');
    await observer.publish('slow://two');
    await observer.publish('live://m');
    await stream.next((e) => e.json?.params?.uri === 'live://m', 'the marker');
    assert.equal(acknowledged, false);
    assert.deepEqual(updatesOf(stream.all.map((e) => e.json ?? {}), 'slow://two'), []);
    await observer.call('arm', { uri: 'slow://two' });
    assert.deepEqual(await subscribing, {});
    await stream.next((e) => e.json?.params?.uri === 'slow://two', 'the change');
    stream.close();
    await client.delete();
  });

  it('a watcher that fails refuses the subscription', async () => {
    const client = new LegacyHttp(fixture.url);
    await client.initialize();
    await assert.rejects(client.subscribe('deny://one'), { code: -32006 });
    const subscribing = assert.rejects(client.subscribe('slow://three'), { code: -32006 });
    await watching('slow://three');
    await observer.call('arm', { uri: 'slow://three', error: -16 });
    await subscribing;
    const stream = await observer.listen(
      { resourceSubscriptions: ['deny://two', 'live://m'] });
    assert.deepEqual(stream.ack.json.params.notifications.resourceSubscriptions,
      ['live://m']);
    stream.close();
    await client.delete();
  });

  it('on a pipe the acknowledgement is written before the change, in both eras', async () => {
    const pipe = new Pipe();
    pipe.send(listen('l', ['slow://a']));
    const started = async (id) => {
      pipe.send(call(id, 'watched', {}, modernMeta()));
      return (await pipe.answer(id)).result.structuredContent.started;
    };
    let n = 0;
    await until(async () => (await started(`w${n++}`))['slow://a'], 'it is being watched');
    pipe.send(call('p', 'publish', { uri: 'slow://a' }, modernMeta()),
      call('a', 'arm', { uri: 'slow://a' }, modernMeta()));
    await pipe.next((m) => m.method === updated, 'the change');
    const at = (match) => pipe.all.findIndex(match);
    assert.ok(at((m) => m.method === 'notifications/subscriptions/acknowledged')
      < at((m) => m.method === updated));
    await pipe.close();

    const legacy = new Pipe();
    legacy.send(initialize);
    await legacy.answer('init');
    legacy.send(initialized, subscribe('s', 'slow://b'));
    const begun = async (id) => {
      legacy.send(call(id, 'watched', {}));
      return (await legacy.answer(id)).result.structuredContent.started;
    };
    await until(async () => (await begun(`w${n++}`))['slow://b'], 'it is being watched');
    legacy.send(call('p', 'publish', { uri: 'slow://b' }),
      call('a', 'arm', { uri: 'slow://b' }));
    await legacy.next((m) => m.method === updated, 'the change');
    assert.ok(legacy.all.findIndex((m) => m.id === 's')
      < legacy.all.findIndex((m) => m.method === updated));
    await legacy.close();
  });
});

describe('silence after', () => {
  it('legacy: what waits for its window is dropped by the unsubscribe', async () => {
    const pipe = new Pipe('--batch', '200');
    pipe.send(initialize);
    await pipe.answer('init');
    pipe.send(initialized, subscribe(1, 'live://a'), subscribe(2, 'live://m'));
    await pipe.answer(2);
    // In one write: the change is pending when the unsubscribe comes, and another one
    // comes right behind it. The marker's window ends later than theirs.
    pipe.send(call(3, 'publish', { uri: 'live://a' }), unsubscribe(4, 'live://a'),
      call(5, 'publish', { uri: 'live://a' }), call(6, 'publish', { uri: 'live://m' }));
    await pipe.next((m) => m.params?.uri === 'live://m', 'the marker');
    const acknowledged = pipe.all.findIndex((m) => m.id === 4);
    assert.deepEqual(pipe.all[acknowledged].result, {});
    assert.deepEqual(updatesOf(pipe.all.slice(acknowledged), 'live://a'), []);
    await pipe.close();
  });

  it('modern: nothing comes on a stream that was cancelled', async () => {
    const pipe = new Pipe('--batch', '200');
    pipe.send(listen('a', ['live://a']), listen('m', ['live://m']));
    for (let i = 0; i < 2; i++) {
      await pipe.next((m) => m.method === 'notifications/subscriptions/acknowledged', 'ack');
    }
    pipe.send(call(1, 'publish', { uri: 'live://a' }, modernMeta()), cancel('a'),
      call(2, 'publish', { uri: 'live://a' }, modernMeta()),
      call(3, 'publish', { uri: 'live://m' }, modernMeta()));
    await pipe.next((m) => m.params?.uri === 'live://m', 'the marker');
    assert.deepEqual(updatesOf(pipe.all, 'live://a'), []);
    await pipe.close();
  });

  it('a subscription that is undone before its acknowledgement never speaks', async () => {
    const pipe = new Pipe();
    pipe.send(listen('m', ['live://m']), listen('s', ['slow://a']), cancel('s'),
      call(1, 'publish', { uri: 'slow://a' }, modernMeta()),
      call(2, 'arm', { uri: 'slow://a' }, modernMeta()),
      call(3, 'publish', { uri: 'slow://a' }, modernMeta()),
      call(4, 'publish', { uri: 'live://m' }, modernMeta()));
    await pipe.next((m) => m.params?.uri === 'live://m', 'the marker');
    assert.deepEqual(updatesOf(pipe.all, 'slow://a'), []);
    await pipe.close();
  });
});

describe('the last change always arrives', () => {
  for (const [name, options] of [
    ['at once', []],
    ['in batches', ['--batch', '30']],
    ['debounced', ['--debounce', '30']],
    ['throttled', ['--throttle', '30']],
    ['with a rate limit', ['--rate-limit', '50']],
  ]) {
    it(name, async () => {
      const fixture = await Fixture.start(...options);
      const observer = new ModernHttp(fixture.url);
      const stream = await observer.listen({ resourceSubscriptions: ['live://a'] });
      const client = new LegacyHttp(fixture.url);
      await client.initialize();
      await client.subscribe('live://a');
      const legacy = await client.stream();
      await observer.call('publish', { uri: 'live://a', count: 300 });
      for (const events of [stream, legacy]) {
        await events.next((e) => e.json?.params.metadata?.n === 300, 'the last change');
        const updates = events.all.filter((e) => e.json?.method === updated)
          .map((e) => e.json.params);
        const versions = updates.map((u) => u._meta['dev.tidings/version']);
        assert.ok(versions.every((v, i) => i === 0 || v > versions[i - 1]), 'never backwards');
        const told = updates.reduce(
          (sum, u) => sum + 1 + (u._meta['dev.tidings/merged'] ?? 0), 0);
        assert.equal(told, 300, 'every change is counted');
        events.close();
      }
      await client.delete();
      await fixture.stop();
    });
  }

  it('to a reader that was away for a while', async () => {
    const fixture = await Fixture.start();
    const observer = new ModernHttp(fixture.url);
    const { port } = new URL(fixture.url);
    const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'subscriptions/listen',
      params: { notifications: { resourceSubscriptions: ['live://a'] },
        _meta: modernMeta() } });
    const socket = connect({ port: Number(port), host: '127.0.0.1' });
    socket.write(`POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\n`
      + 'Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n'
      + 'MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: subscriptions/listen\r\n'
      + `Content-Length: ${body.length}\r\n\r\n${body}`);
    let text = '';
    const read = (data) => { text += data; };
    socket.on('data', read);
    await until(() => text.includes('acknowledged'), 'the acknowledgement');
    socket.pause();
    // More than the buffers of both sockets hold.
    const fill = 'x'.repeat(15000);
    for (let i = 0; i < 10; i++) {
      await observer.call('publish', { uri: 'live://a', metadata: { fill }, count: 100 });
    }
    await observer.publish('live://a', { n: 'last' });
    socket.resume();
    await until(() => text.includes('"n":"last"') || text.includes('"n": "last"'),
      'the last change');
    socket.destroy();
    await fixture.stop();
  });
});

describe('nothing stays behind', () => {
  it('when connections break and sessions end, all that they had goes', async () => {
    const fixture = await Fixture.start('--linger-ms', '50');
    const observer = new ModernHttp(fixture.url);
    const streams = await Promise.all(Array.from({ length: 20 }, () =>
      observer.listen({ resourceSubscriptions: ['live://a', 'live://item/{id}'],
        toolsListChanged: true })));
    const clients = Array.from({ length: 10 }, () => new LegacyHttp(fixture.url));
    await Promise.all(clients.map(async (client) => {
      await client.initialize();
      await client.subscribe('live://a');
      client.events = await client.stream();
    }));
    await until(async () => (await observer.look('counters')).subscriptions >= 50,
      'all are counted');
    streams.forEach((stream) => stream.close());
    await Promise.all(clients.map((client) => client.delete()));
    await until(async () => {
      const { streams: s, subscriptions, sessions, pending } = await observer.look('counters');
      return s === 0 && subscriptions === 0 && sessions === 0 && pending === 0;
    }, 'nothing is left');
    await until(async () => {
      const { started, stopped } = await observer.look('watched');
      return started['live://a'] > 0 && stopped['live://a'] === started['live://a'];
    }, 'the watcher stops');
    await fixture.stop();
  });
});

// SPDX-License-Identifier: MIT
// Clients that go away and come back: nothing that changed in between is missed.
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { httpV1, httpV2, metadataOf, modern } from './lib/clients.mjs';
import { Fixture } from './lib/fixture.mjs';
import { LegacyHttp, ModernHttp } from './lib/raw.mjs';
import { until, within } from './lib/wait.mjs';

// A fetch for the SDKs whose GET streams a test can break, and hold back.
function breakable() {
  const gets = [];
  let gate = Promise.resolve();
  return {
    gets,
    async fetch(url, init) {
      if (init?.method !== 'GET') return fetch(url, init);
      const get = { headers: new Headers(init.headers), abort: new AbortController() };
      gets.push(get);
      await gate;
      const signal = init.signal
        ? AbortSignal.any([init.signal, get.abort.signal]) : get.abort.signal;
      const response = await fetch(url, { ...init, signal });
      get.open = true;
      return response;
    },
    // Breaks the newest stream. The next one waits until what is returned is called.
    cut() {
      let open;
      gate = new Promise((resolve) => { open = resolve; });
      gets.at(-1).abort.abort();
      return open;
    },
  };
}

describe('a connection that breaks', () => {
  let fixture, observer;

  before(async () => {
    // What nobody watches for a while counts as changed, so watching goes on for long.
    fixture = await Fixture.start('--retry-ms', '20', '--linger-ms', '60000');
    observer = new ModernHttp(fixture.url);
  });
  after(() => fixture.stop());

  for (const [name, open] of [
    ['SDK v1', (url, options) => httpV1(url, options)],
    ['SDK v2 as legacy', (url, options) => httpV2(url, 'legacy', options)],
  ]) {
    it(`${name} comes back with Last-Event-ID and gets what it missed`, async () => {
      const line = breakable();
      const peer = await open(fixture.url, { fetch: line.fetch });
      await peer.subscribe('live://a');
      await peer.subscribe('live://b');
      await until(() => line.gets[0]?.open, 'the stream is open');
      await peer.publish('live://a', { n: 1 });
      await peer.updates.next((u) => metadataOf(u)?.n === 1, 'the first');

      const open_ = line.cut();
      await until(() => line.gets.length === 2, 'it tries again');
      await observer.publish('live://a', { n: 2 });
      open_();
      const missed = await peer.updates.next((u) => u.uri === 'live://a', 'what it missed');
      assert.equal(metadataOf(missed).n, 2);
      assert.ok(line.gets[1].headers.get('last-event-id'), 'it said where it was');

      // Not what it had, and not what did not change.
      await observer.publish('live://b', { n: 3 });
      await peer.updates.next((u) => metadataOf(u)?.n === 3, 'the next');
      assert.deepEqual(peer.updates.items, []);
      await peer.close();
    });
  }

  it('SDK v1 gets the answer of a tool that lets the connection go', async () => {
    const peer = await httpV1(fixture.url);
    const result = await peer.call('test_reconnection');
    assert.equal(result.content[0].text, 'after the connection');
    await peer.close();
  });

  it('a legacy stream starts with an event id, and every event has its own', async () => {
    const client = new LegacyHttp(fixture.url);
    await client.initialize();
    await client.subscribe('live://c');
    const stream = await client.stream();
    const first = await stream.next(() => true, 'the first event');
    assert.equal(first.data, '');
    assert.ok(first.id);
    await client.call('publish', { uri: 'live://c', count: 5 });
    await stream.next((e) => e.json?.params.metadata.n === 5, 'the last');
    const ids = stream.all.map((event) => event.id);
    assert.ok(ids.every(Boolean));
    assert.equal(new Set(ids).size, ids.length);
    stream.close();
    await client.delete();
  });

  it('an event id of another session, or nonsense, does no harm', async () => {
    const client = new LegacyHttp(fixture.url);
    await client.initialize();
    await client.subscribe('live://d');
    for (const id of ['nonsense', '1/99999999999999999999', '%%%', 'a'.repeat(2000)]) {
      const stream = await client.stream(id).catch((error) => error);
      if (stream instanceof Error) {
        assert.match(stream.message, /GET: 4\d\d/);
        continue;
      }
      await client.call('publish', { uri: 'live://d' });
      await stream.message('notifications/resources/updated', 'an update');
      stream.close();
    }
    await client.delete();
  });

  it('a legacy client whose session is gone comes back with its cursor', async () => {
    const old = new LegacyHttp(fixture.url);
    await old.initialize();
    await old.subscribe('live://g');
    const stream = await old.stream();
    await old.call('publish', { uri: 'live://g' });
    const update = await stream.message('notifications/resources/updated');
    const cursor = update.json.params._meta['dev.tidings/cursor'];
    await old.delete();
    await observer.publish('live://g', { n: 2 });

    const fresh = new LegacyHttp(fixture.url);
    await fresh.initialize();
    const events = await fresh.stream();
    await fresh.result('resources/subscribe',
      { uri: 'live://g', _meta: { 'dev.tidings/cursor': cursor } });
    const missed = await events.message('notifications/resources/updated', 'what it missed');
    assert.equal(missed.json.params.uri, 'live://g');
    events.close();
    await fresh.delete();
  });
});

// Listens to two resources, changes the first, goes, changes it again, and comes back with
// the cursor. Returns the URIs that it is told of then, up to a marker.
async function away(client, name) {
  const [changed, same, marker] = ['changed', 'same', 'marker'].map(
    (kind) => `live://item/${kind}-${name}`);
  const first = await client.listen({ resourceSubscriptions: [changed, same] });
  await client.publish(changed);
  const update = await first.message('notifications/resources/updated');
  const cursor = update.json.params._meta['dev.tidings/cursor'];
  first.close();
  await until(async () => {
    const { subscriptions } = await client.look('subscriptions');
    return !subscriptions.some((s) => s.target === changed);
  }, 'the stream is gone');
  await client.publish(changed);

  const second = await client.listen({ resourceSubscriptions: [changed, same, marker] },
    { meta: { 'dev.tidings/cursor': cursor, 'dev.tidings/fresh': { resourceSubscriptions: [marker] } } });
  assert.equal(second.ack.json.params._meta['dev.tidings/resumed'], true);
  await client.publish(marker, { here: name });
  await second.next((e) => e.json?.params?.metadata?.here === name, 'the marker');
  second.close();
  const told = second.all.slice(1).map((event) => event.json.params.uri);
  return { changed: told.includes(changed), same: told.includes(same) };
}

describe('a modern client that comes back with its cursor', () => {
  it('is told of what changed, and of nothing else', async () => {
    const fixture = await Fixture.start('--workers', '1', '--linger-ms', '60000');
    assert.deepEqual(await away(new ModernHttp(fixture.url), 'one'),
      { changed: true, same: false });
    await fixture.stop();
  });

  it('is told of what changed, whichever worker it comes back to', async () => {
    const fixture = await Fixture.start('--workers', '4', '--linger-ms', '60000');
    const client = new ModernHttp(fixture.url);
    for (let i = 0; i < 20; i++) {
      assert.deepEqual(await away(client, i), { changed: true, same: false });
    }
    await fixture.stop();
  });
});

describe('a modern client that comes with its cursor and asks for more', () => {
  it('is not told of what it did not have before', async () => {
    const fixture = await Fixture.start('--workers', '2', '--linger-ms', '60000');
    const client = new ModernHttp(fixture.url);
    const [had, more, marker] = ['live://item/had', 'live://item/more', 'live://item/marker'];
    const first = await client.listen({ resourceSubscriptions: [had] });
    await client.publish(had);
    await first.message('notifications/resources/updated');
    const cursor = first.ack.json.params._meta['dev.tidings/cursor'];
    await client.publish(more);

    const told = async (meta) => {
      const stream = await client.listen(
        { resourceSubscriptions: [had, more, marker], toolsListChanged: true }, { meta });
      await client.publish(marker, { here: 1 });
      await stream.next((e) => e.json?.params?.metadata?.here === 1, 'the marker');
      stream.close();
      return stream.all.slice(1).map((event) => event.json.params.uri ?? event.json.method)
        .filter((what) => what !== marker).sort();
    };
    assert.deepEqual(await told({ 'dev.tidings/cursor': cursor,
      'dev.tidings/fresh': { resourceSubscriptions: [more, marker], toolsListChanged: true } }),
    [had]);
    assert.deepEqual(await told({ 'dev.tidings/cursor': cursor }),
      [had, more, 'notifications/tools/list_changed'].sort());
    await fixture.stop();
  });
});

describe('sessions', () => {
  it('end by DELETE: 404, and a new initialize is welcome', async () => {
    const fixture = await Fixture.start();
    const peer = await httpV1(fixture.url);
    await peer.client.listTools();
    await peer.transport.terminateSession();
    const late = new LegacyHttp(fixture.url);
    await late.initialize();
    const ended = late.session;
    const stream = await late.stream();
    assert.ok((await late.delete()).status < 300);
    assert.equal(await within(stream.ended, 'its stream ends'), 'end');
    const answer = await late.request('tools/list');
    assert.equal(answer.status, 404);
    await assert.rejects(late.stream(), /GET: 404/);
    assert.equal((await late.delete()).status, 404);

    await late.initialize();
    assert.notEqual(late.session, ended);
    assert.ok((await late.result('tools/list')).tools.length > 0);
    await peer.close();
    await fixture.stop();
  });

  it('end when nobody uses them', async () => {
    const fixture = await Fixture.start('--session-idle-ms', '3000');
    const client = new LegacyHttp(fixture.url);
    await client.initialize();
    const observer = new ModernHttp(fixture.url);
    await until(async () => (await observer.look('counters')).sessions === 0,
      'the session ends');
    assert.equal((await client.request('ping')).status, 404);
    await fixture.stop();
  });

  it('last as long as their stream', async () => {
    const fixture = await Fixture.start('--session-idle-ms', '8000');
    const client = new LegacyHttp(fixture.url);
    await client.initialize();
    await client.subscribe('live://a');
    const stream = await client.stream();
    const other = new LegacyHttp(fixture.url);
    await other.initialize();
    const observer = new ModernHttp(fixture.url);
    await until(async () => (await observer.look('counters')).sessions === 1,
      'the other session ends');
    await observer.publish('live://a');
    await stream.message('notifications/resources/updated');
    stream.close();
    await until(async () => (await observer.look('counters')).sessions === 0,
      'without its stream it ends as well');
    await fixture.stop();
  });

  it('work on every worker', async () => {
    const fixture = await Fixture.start('--workers', '4');
    // Every fetch may take a connection of its own; with 40 clients all workers are met.
    const clients = Array.from({ length: 40 }, () => new LegacyHttp(fixture.url));
    await Promise.all(clients.map((client) => client.initialize()));
    const streams = await Promise.all(clients.map((client) => client.stream()));
    await Promise.all(clients.map((client) => client.subscribe('live://a')));
    await clients[0].call('publish', { uri: 'live://a' });
    await Promise.all(streams.map((stream, i) =>
      stream.message('notifications/resources/updated', `the update of client ${i}`)));
    await Promise.all(clients.map((client) => client.unsubscribe('live://a')));
    await Promise.all(clients.map((client) => client.delete()));
    await fixture.stop();
  });
});

describe('the server stops', () => {
  it('modern streams end with their result, legacy ones with a time to come back', async () => {
    const fixture = await Fixture.start('--retry-ms', '1234');
    const stream = await new ModernHttp(fixture.url).listen({ toolsListChanged: true });
    const client = new LegacyHttp(fixture.url);
    await client.initialize();
    const legacy = await client.stream();
    const peer = await httpV2(fixture.url, modern);
    const subscription = await peer.client.listen({ resourceSubscriptions: ['live://a'] });

    await Promise.all([
      fixture.stop(),
      (async () => {
        const result = await stream.next((event) => event.json?.result, 'its result');
        assert.equal(result.json.result.resultType, 'complete');
        assert.ok(result.json.result._meta['io.modelcontextprotocol/subscriptionId']);
        assert.equal(await within(stream.ended, 'it ends'), 'end');
        assert.equal(await within(legacy.ended, 'the legacy stream ends'), 'end');
        assert.ok(legacy.all.some((event) => event.retry === '1234'));
        assert.equal(await within(subscription.closed, 'SDK v2 is told'), 'graceful');
      })(),
    ]);
    await peer.close().catch(() => {});
  });
});

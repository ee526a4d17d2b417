// SPDX-License-Identifier: MIT
// What only shows in the bytes: fields that the SDKs drop, headers, status codes, names.
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { Fixture } from './lib/fixture.mjs';
import { LegacyHttp, ModernHttp, modernMeta, Pipe, send } from './lib/raw.mjs';
import { until } from './lib/wait.mjs';

const updated = 'notifications/resources/updated';

// One update of live://a on a modern and on a legacy stream of a server with `options`.
async function updateWith(...options) {
  const fixture = await Fixture.start(...options);
  const observer = new ModernHttp(fixture.url);
  const stream = await observer.listen({ resourceSubscriptions: ['live://a'] });
  const client = new LegacyHttp(fixture.url);
  await client.initialize();
  await client.subscribe('live://a');
  const legacy = await client.stream();
  await observer.publish('live://a', { size: 3 });
  const updates = await Promise.all([stream, legacy].map(async (events) => {
    const event = await events.next((e) => e.json?.params?.uri === 'live://a', 'the update');
    return event.json;
  }));
  stream.close();
  legacy.close();
  await client.delete();
  await fixture.stop();
  return updates;
}

describe('metadata of a change', () => {
  it('is in params.metadata and in _meta, the same in both eras', async () => {
    for (const { method, params } of await updateWith()) {
      assert.equal(method, updated);
      assert.equal(params.metadata.size, 3);
      assert.equal(typeof params.metadata.updated_at, 'number');
      assert.deepEqual(params._meta['dev.tidings/metadata'], params.metadata);
    }
  });

  it('can be left out of params', async () => {
    for (const { params } of await updateWith('--no-params-metadata')) {
      assert.equal(params.metadata, undefined);
      assert.equal(params._meta['dev.tidings/metadata'].size, 3);
    }
  });

  it('can be left out of _meta', async () => {
    for (const { params } of await updateWith('--no-meta-metadata')) {
      assert.equal(params.metadata.size, 3);
      assert.equal(params._meta['dev.tidings/metadata'], undefined);
    }
  });

  it('has the names of erlmcp where that is spoken, for legacy clients', async () => {
    const [modern, legacy] = await updateWith('--erlmcp');
    assert.equal(modern.method, updated);
    assert.equal(legacy.method, 'resources/updated');
    for (const { params } of [modern, legacy]) assert.equal(params.metadata.size, 3);
  });
});

describe('modern requests', () => {
  let fixture, client;

  before(async () => {
    fixture = await Fixture.start();
    client = new ModernHttp(fixture.url);
  });
  after(() => fixture.stop());

  it('lists carry how long and for whom they may be kept', async () => {
    for (const method of ['tools/list', 'resources/list', 'resources/templates/list',
      'prompts/list', 'server/discover']) {
      const { json } = await client.request(method);
      assert.equal(json.result.resultType, 'complete', method);
      assert.ok(json.result.ttlMs >= 0, method);
      assert.match(json.result.cacheScope, /^(public|private)$/, method);
      assert.equal(json.result._meta['io.modelcontextprotocol/serverInfo'].name, 'fixture');
    }
    const note = (await client.request('resources/read', { uri: 'private://note' })).json;
    assert.equal(note.result.cacheScope, 'private');
    assert.equal(note.result.ttlMs, 5000);
  });

  it('the name in a header may be encoded', async () => {
    const encoded = `=?base64?${Buffer.from('test_simple_text').toString('base64')}?=`;
    const params = { name: 'test_simple_text', arguments: {} };
    const good = await client.request('tools/call', params,
      { headers: { 'mcp-name': encoded } });
    assert.equal(good.status, 200);
    const bad = await client.request('tools/call', params,
      { headers: { 'mcp-name': '=?base64?!!!?=' } });
    assert.equal(bad.status, 400);
    assert.equal(bad.json.error.code, -32020);
  });

  it('the acknowledged filter leaves out what cannot be had, whatever the reason', async () => {
    const stream = await client.listen({ toolsListChanged: true, resourceSubscriptions: [
      'live://a', 'live://nowhere', 'fixed://rock', 'not a uri', '', 'live://item/any',
      'live://item/{id}', 'live://a'] });
    const honoured = stream.ack.json.params.notifications;
    assert.equal(honoured.toolsListChanged, true);
    assert.equal(honoured.promptsListChanged, undefined);
    assert.deepEqual([...new Set(honoured.resourceSubscriptions)].sort(),
      ['live://a', 'live://item/any', 'live://item/{id}']);
    stream.close();

    const spelled = await client.listen({ resourceSubscriptions: ['live://item/%7Bid%7D'] });
    assert.deepEqual(spelled.ack.json.params.notifications.resourceSubscriptions,
      ['live://item/%7Bid%7D'], 'as the client spelled it');
    await client.publish('live://item/5');
    assert.equal((await spelled.message(updated)).json.params.uri, 'live://item/5');
    spelled.close();
    for (const resourceSubscriptions of [[1], 'live://a', [null]]) {
      const answer = await client.request('subscriptions/listen',
        { notifications: { resourceSubscriptions } });
      assert.equal(answer.json.error.code, -32602);
    }
  });

  it('a stream is announced as one that nobody may hold back', async () => {
    const stream = await client.listen({ toolsListChanged: true });
    const { headers } = stream.response;
    assert.match(headers.get('content-type'), /^text\/event-stream/);
    assert.equal(headers.get('x-accel-buffering'), 'no');
    assert.match(headers.get('cache-control'), /no-cache|no-store/);
    assert.ok(stream.all.every((event) => event.id === undefined), 'no event ids');
    stream.close();
  });

  it('several streams are told apart by their ids, of either type', async () => {
    const streams = await Promise.all([7, '7', 'x'].map((id) =>
      client.listen({ resourceSubscriptions: ['live://a'] }, { id })));
    await client.publish('live://a');
    const ids = await Promise.all(streams.map(async (stream) => (await stream.message(updated))
      .json.params._meta['io.modelcontextprotocol/subscriptionId']));
    assert.deepEqual(ids, [7, '7', 'x']);
    streams.forEach((stream) => stream.close());
  });

  it('a cancellation by POST is accepted and does nothing', async () => {
    const stream = await client.listen({ resourceSubscriptions: ['live://a'] }, { id: 'c' });
    const response = await fetch(fixture.url, {
      method: 'POST',
      headers: { 'content-type': 'application/json',
        accept: 'application/json, text/event-stream', 'mcp-protocol-version': '2026-07-28' },
      body: JSON.stringify({ jsonrpc: '2.0', method: 'notifications/cancelled',
        params: { requestId: 'c', _meta: modernMeta() } }),
    });
    assert.equal(response.status, 202);
    await client.publish('live://a');
    await stream.message(updated);
    stream.close();
  });

  it('ids that are no ids are refused', async () => {
    for (const id of ['null', '1.5', '99999999999999999999', '{}', 'true']) {
      const response = await fetch(fixture.url, {
        method: 'POST',
        headers: { 'content-type': 'application/json',
          accept: 'application/json, text/event-stream',
          'mcp-protocol-version': '2026-07-28', 'mcp-method': 'tools/list' },
        body: `{"jsonrpc":"2.0","id":${id},"method":"tools/list","params":{"_meta":`
          + `${JSON.stringify(modernMeta())}}}`,
      });
      assert.equal(response.status, 400, id);
      assert.equal((await response.json()).error.code, -32600, id);
    }
  });
});

describe('legacy requests', () => {
  let fixture, client;

  before(async () => {
    fixture = await Fixture.start();
    client = new LegacyHttp(fixture.url);
    await client.initialize();
  });
  after(async () => {
    await client.delete();
    await fixture.stop();
  });

  it('every version is spoken as it is', async () => {
    for (const version of ['2024-11-05', '2025-03-26', '2025-06-18', '2025-11-25']) {
      const other = new LegacyHttp(fixture.url);
      const hello = await other.initialize(version);
      assert.equal(hello.protocolVersion, version);
      assert.deepEqual(await other.result('ping'), {});
      await other.delete();
    }
    const other = new LegacyHttp(fixture.url);
    assert.equal((await other.initialize('1999-01-01')).protocolVersion, '2025-11-25');
    await other.delete();
  });

  it('batches are for 2025-03-26 only', async () => {
    const batch = [{ jsonrpc: '2.0', id: 'x', method: 'ping' },
      { jsonrpc: '2.0', id: 'y', method: 'ping' },
      { jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 'z' } }];
    const old = new LegacyHttp(fixture.url);
    await old.initialize('2025-03-26');
    const answer = await old.post(batch);
    assert.equal(answer.status, 200);
    const answers = answer.json ?? await Promise.all(['x', 'y'].map(async (id) =>
      (await answer.events.next((e) => e.json?.id === id, id)).json));
    assert.deepEqual(answers.map((a) => a.id).sort(), ['x', 'y']);
    await old.delete();
    assert.equal((await client.post(batch)).status, 400);
  });

  it('errors have the codes of the table', async () => {
    for (const [uri, code, data] of [
      ['fixed://rock', -32602, { error_type: 'not_subscribable', uri: 'fixed://rock' }],
      ['no uri', -32602, { error_type: 'invalid_uri_format', uri: 'no uri' }],
      ['', -32602, { error_type: 'invalid_uri_format', uri: '' }],
      ['live://nowhere', -32002, { uri: 'live://nowhere' }],
    ]) {
      await assert.rejects(client.subscribe(uri), (error) => {
        assert.equal(error.code, code, uri);
        assert.deepEqual(error.data, data);
        return true;
      });
    }
    await assert.rejects(client.unsubscribe('live://q'), { code: -32006 });
    for (const params of [{}, { uri: 7 }]) {
      await assert.rejects(client.result('resources/subscribe', params), (error) => {
        assert.equal(error.code, -32602);
        assert.ok(error.data.detail);
        return true;
      });
    }
    await assert.rejects(client.result('no/such/method'), { code: -32601 });
  });

  it('subscribing twice is fine', async () => {
    assert.deepEqual(await client.subscribe('live://a'), {});
    assert.deepEqual(await client.subscribe('live://a'), {});
    assert.deepEqual(await client.unsubscribe('live://a'), {});
    await assert.rejects(client.unsubscribe('live://a'), { code: -32006 });
  });

  it('requests without or before a session are refused', async () => {
    const none = new LegacyHttp(fixture.url);
    none.version = '2025-11-25';
    assert.equal((await none.request('tools/list')).status, 400);
    none.session = 'no-such-session';
    assert.equal((await none.request('tools/list')).status, 404);
    await assert.rejects(none.stream(), /GET: 404/);
  });

  it('an id that is in flight is refused', async () => {
    const first = client.request('tools/call', { name: 'hold', arguments: { key: 'twin' } },
      { id: 'twin' });
    await until(async () => (await client.call('held', { key: 'twin' })).structuredContent.held,
      'the first is held');
    const second = await client.body(await client.request('ping', {}, { id: 'twin' }));
    assert.equal(second.error.code, -32600);
    await client.call('release', { key: 'twin' });
    assert.equal((await client.body(await first)).result.content[0].text, 'released');
  });

  it('a silent stream shows that it lives', async () => {
    const lively = await Fixture.start('--keepalive-ms', '50');
    const other = new LegacyHttp(lively.url);
    await other.initialize();
    const stream = await other.stream();
    const modern = await new ModernHttp(lively.url).listen({ toolsListChanged: true });
    await until(() => stream.comments >= 2 && modern.comments >= 2, 'comments');
    stream.close();
    modern.close();
    await lively.stop();
  });

  it('only the newest of several streams is told', async () => {
    const other = new LegacyHttp(fixture.url);
    await other.initialize();
    await other.subscribe('live://n');
    const first = await other.stream();
    const second = await other.stream();
    await other.call('publish', { uri: 'live://n' });
    await second.message(updated);
    assert.ok(!first.all.some((event) => event.json));
    first.close();
    second.close();
    await other.delete();
  });
});

describe('the endpoints of 2024-11-05', () => {
  it('have two names, and answer on the stream', async () => {
    const fixture = await Fixture.start();
    for (const name of ['/sse', '/events']) {
      const { events } = await send(new URL(name, fixture.url),
        { method: 'GET', headers: { accept: 'text/event-stream' } });
      const endpoint = await events.next((e) => e.event === 'endpoint', 'the endpoint');
      const post = (message) => send(new URL(endpoint.data, fixture.url), { method: 'POST',
        headers: { 'content-type': 'application/json' }, body: JSON.stringify(message) });
      const answer = await post({ jsonrpc: '2.0', id: 1, method: 'initialize', params: {
        protocolVersion: '2024-11-05', capabilities: {},
        clientInfo: { name: 'raw', version: '1' } } });
      assert.equal(answer.status, 202);
      const hello = await events.next((e) => e.json?.id === 1, 'the answer');
      assert.equal(hello.json.result.protocolVersion, '2024-11-05');
      events.close();
      // With its stream the session goes.
      await until(async () => (await post({ jsonrpc: '2.0', id: 2, method: 'ping' }))
        .status === 404, 'the session is gone');
    }
    await fixture.stop();
  });
});

describe('a pipe', () => {
  it('says nothing but protocol, and ends with its input', async () => {
    const pipe = new Pipe();
    pipe.send({ jsonrpc: '2.0', id: 1, method: 'server/discover',
      params: { _meta: modernMeta() } });
    assert.ok((await pipe.answer(1)).result.supportedVersions.includes('2026-07-28'));
    await pipe.close();
  });

  it('ends its streams with a result and a cancellation when the server stops', async () => {
    const pipe = new Pipe();
    pipe.send({ jsonrpc: '2.0', id: 'l', method: 'subscriptions/listen', params: {
      notifications: { toolsListChanged: true }, _meta: modernMeta() } });
    await pipe.next((m) => m.method === 'notifications/subscriptions/acknowledged', 'ack');
    pipe.child.kill('SIGTERM');
    const result = await pipe.answer('l');
    assert.equal(result.result.resultType, 'complete');
    const cancelled = await pipe.next((m) => m.method === 'notifications/cancelled', 'cancel');
    assert.equal(cancelled.params.requestId, 'l');
    const [code] = await pipe.exited;
    assert.equal(code, 0);
  });

  it('answers nonsense and goes on', async () => {
    const pipe = new Pipe();
    pipe.child.stdin.write('this is not JSON\n\n{"jsonrpc":"2.0"}\n');
    assert.equal((await pipe.next((m) => m.error, 'an error')).error.code, -32700);
    assert.equal((await pipe.next((m) => m.error, 'another')).error.code, -32600);
    pipe.send({ jsonrpc: '2.0', id: 2, method: 'server/discover',
      params: { _meta: modernMeta() } });
    assert.ok((await pipe.answer(2)).result);
    await pipe.close();
  });
});

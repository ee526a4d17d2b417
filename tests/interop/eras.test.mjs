// SPDX-License-Identifier: MIT
// Both eras of the protocol at the same time, and servers that speak only one.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { httpV1, httpV2, metadataOf, modern, openV1, sseV1 } from './lib/clients.mjs';
import { Fixture, program, prompt } from './lib/fixture.mjs';
import { LegacyHttp, ModernHttp } from './lib/raw.mjs';
import { within } from './lib/wait.mjs';

// Runs `test` with a fixture, which is stopped afterwards, and so is what `open` opened.
async function withFixture(options, test) {
  const fixture = await Fixture.start(...options);
  const opened = [];
  const open = async (promise) => {
    const peer = await promise;
    opened.push(peer);
    return peer;
  };
  try {
    await test(fixture.url, open, fixture);
  } finally {
    await Promise.all(opened.map((peer) => peer.close()));
    await fixture.stop();
  }
}

describe('both eras at once', () => {
  it('one publish reaches every client on the port', () =>
    withFixture([], async (url, open) => {
      const peers = await Promise.all([
        open(httpV1(url)), open(httpV1(url)), open(sseV1(url)),
        open(httpV2(url, modern)), open(httpV2(url, 'auto')), open(httpV2(url, 'legacy')),
      ]);
      await Promise.all(peers.map((peer) => peer.subscribe('live://counter')));
      await peers[0].publish('live://counter', { size: 1 });
      const updates = await Promise.all(peers.map((peer, i) => peer.updates.next(
        (update) => update.uri === 'live://counter', `the update of client ${i}`)));
      updates.forEach((update) => assert.equal(metadataOf(update).size, 1));
      const versions = new Set(updates.map((u) => u._meta['dev.tidings/version']));
      assert.equal(versions.size, 1, 'all see the same version');
    }));

  it('a pipe and a port of one process share what happens', async () => {
    const transport = new StdioClientTransport({
      command: program, args: ['--stdio', '--http', '0', ...prompt], stderr: 'pipe' });
    const url = new Promise((resolve) => {
      let text = '';
      transport.stderr.on('data', (data) => {
        text += data;
        const found = /listening on (\S+)/.exec(text);
        if (found) resolve(found[1]);
      });
    });
    const pipe = await openV1(transport);
    const port = await httpV2(await within(url, 'it listens'), modern);
    try {
      await Promise.all([pipe.subscribe('live://a'), port.subscribe('live://a')]);
      await pipe.publish('live://a');
      await port.updates.next((u) => u.uri === 'live://a', 'through the port');
      await pipe.updates.next((u) => u.uri === 'live://a', 'through the pipe');
      await port.publish('live://a');
      await port.updates.next((u) => u.uri === 'live://a', 'through the port again');
      await pipe.updates.next((u) => u.uri === 'live://a', 'through the pipe again');
    } finally {
      await port.close();
      await pipe.close();
    }
  });

  it('only those who asked are told', () =>
    withFixture([], async (url, open) => {
      const [a, b] = await Promise.all([open(httpV1(url)), open(httpV2(url, modern))]);
      await a.subscribe('live://a');
      await a.subscribe('live://m');
      await b.subscribe('live://b');
      await b.subscribe('live://m');
      await a.publish('live://b');
      await a.publish('live://a');
      await a.publish('live://z');
      await a.publish('live://m');
      for (const [peer, own] of [[a, 'live://a'], [b, 'live://b']]) {
        await peer.updates.next((u) => u.uri === 'live://m', 'the marker');
        assert.deepEqual(peer.updates.items.map((u) => u.uri), [own]);
      }
    }));
});

describe('a server of one era', () => {
  it('SDK v2 falls back to the legacy era', () =>
    withFixture(['--no-modern'], async (url, open) => {
      const peer = await open(httpV2(url, 'auto'));
      assert.equal(peer.client.getProtocolEra(), 'legacy');
      await peer.subscribe('live://a');
      await peer.publish('live://a');
      await peer.updates.next((u) => u.uri === 'live://a', 'the update');
    }));

  it('SDK v2 that insists on the modern era is refused by a legacy server', () =>
    withFixture(['--no-modern'], async (url) => {
      await assert.rejects(httpV2(url, modern));
    }));

  it('SDK v2 finds a modern server', () =>
    withFixture(['--no-legacy'], async (url, open) => {
      const peer = await open(httpV2(url, 'auto'));
      assert.equal(peer.client.getProtocolEra(), 'modern');
      await peer.client.listResources();
    }));

  it('SDK v1 is refused by a modern server', () =>
    withFixture(['--no-legacy'], async (url) => {
      await assert.rejects(httpV1(url));
      await assert.rejects(sseV1(url));
    }));
});

describe('what is switched off is not advertised, and refused', () => {
  it('subscriptions', () =>
    withFixture(['--no-subscribe'], async (url, open) => {
      const legacy = new LegacyHttp(url);
      const { capabilities } = await legacy.initialize();
      assert.ok(!capabilities.resources.subscribe);
      await assert.rejects(legacy.subscribe('live://a'), { code: -32004 });

      const client = new ModernHttp(url);
      const { json } = await client.request('server/discover');
      assert.ok(!json.result.capabilities.resources.subscribe);
      const stream = await client.listen({ resourceSubscriptions: ['live://a'] });
      assert.ok(!stream.ack.json.params.notifications.resourceSubscriptions?.length);
      stream.close();
    }));

  it('list changes', () =>
    withFixture(['--no-list-changed'], async (url) => {
      const legacy = new LegacyHttp(url);
      const { capabilities } = await legacy.initialize();
      for (const list of ['tools', 'prompts', 'resources']) {
        assert.ok(!capabilities[list].listChanged, list);
      }
      const client = new ModernHttp(url);
      const stream = await client.listen({ toolsListChanged: true });
      assert.ok(!stream.ack.json.params.notifications.toolsListChanged);
      stream.close();
    }));

  it('logging', () =>
    withFixture(['--no-logging'], async (url) => {
      const legacy = new LegacyHttp(url);
      const { capabilities } = await legacy.initialize();
      assert.equal(capabilities.logging, undefined);
      await assert.rejects(legacy.result('logging/setLevel', { level: 'info' }),
        { code: -32601 });
    }));
});

describe('log messages', () => {
  it('a legacy client gets those of its level and above', () =>
    withFixture([], async (url, open) => {
      const peer = await open(httpV1(url));
      await peer.client.setLoggingLevel('warning');
      await peer.call('log', { level: 1, text: 'quiet' });
      await peer.call('log', { level: 4, text: 'loud' });
      const log = await peer.logs.next(() => true, 'a message');
      assert.equal(log.data, 'loud');
      assert.equal(log.level, 'error');
      assert.equal(log.logger, 'fixture');
    }));

  it('a modern client gets those it asked for in the request', () =>
    withFixture([], async (url) => {
      const client = new ModernHttp(url);
      const params = { name: 'log', arguments: { level: 4, text: 'loud' } };
      const { events } = await client.request('tools/call', params,
        { meta: { 'io.modelcontextprotocol/logLevel': 'warning' } });
      const log = await events.message('notifications/message');
      assert.equal(log.json.params.data, 'loud');
      await events.next((event) => event.json?.result, 'the result');

      const without = await client.request('tools/call', params);
      assert.equal(without.json.result.content[0].text, 'logged');
    }));
});

// SPDX-License-Identifier: MIT
// Our client and our server: both eras, every transport, the dialect of erlmcp. Gaps are exact.
import assert from 'node:assert/strict';
import { after, afterEach, before, describe, it } from 'node:test';
import { Driven } from './lib/driven.mjs';
import { Fixture, program, prompt } from './lib/fixture.mjs';
import { Proxy } from './lib/proxy.mjs';
import { ModernHttp } from './lib/raw.mjs';
import { until } from './lib/wait.mjs';

const usual = ['--linger-ms', '60000', '--retry-ms', '20'];
const eras = ['modern', 'legacy'];
const uris = ['live://a', 'live://b', 'live://c'];

// What a test has opened goes with it.
const open = new Set();
afterEach(async () => {
  const all = [...open];
  open.clear();
  for (const each of all) await each();
});

async function connect(target, options) {
  const client = await Driven.connect(target, options);
  open.add(() => client.close());
  return client;
}

describe('every way to our server', () => {
  let fixture, dialect, observer;

  before(async () => {
    fixture = await Fixture.start(...usual);
    dialect = await Fixture.start(...usual, '--erlmcp');
    observer = new ModernHttp(fixture.url);
  });
  after(() => Promise.all([fixture.stop(), dialect.stop()]));

  const pipe = (...options) => [program, '--stdio', ...prompt, ...options];
  const ways = [
    ...eras.map((era) => ({ name: `HTTP, ${era}`, era, target: () => fixture.url })),
    ...eras.map((era) => ({ name: `stdio, ${era}`, era, target: () => pipe() })),
    ...eras.map((era) => ({ name: `HTTP, ${era}, erlmcp`, era, target: () => dialect.url })),
    ...eras.map((era) => ({ name: `stdio, ${era}, erlmcp`, era,
      target: () => pipe('--erlmcp') })),
    { name: 'HTTP+SSE', era: 'legacy', target: () => fixture.url.replace('/mcp', '/sse') },
  ];

  for (const { name, era, target } of ways) {
    it(`${name}: follows changes, deletions and lists`, async () => {
      const client = await connect(target(), { era });
      assert.equal((await client.does('facts')).era, era);
      await client.does('subscribe_all', { uris });
      await client.does('watch_lists', { lists: ['resources', 'tools'] });
      let last = 0;
      for (let n = 1; n <= 3; n++) {
        await client.does('call', { tool: 'publish', arguments: {
          uri: uris[0], metadata: { n } } });
        const { version, metadata } = await client.updated(uris[0]);
        assert.ok(version > last, `${version} after ${last}`);
        last = version;
        assert.equal(metadata.n, n);
      }
      assert.ok((await client.does('facts')).ours);
      assert.match(await client.text(uris[0]), /changed \d+ times/);
      assert.equal((await client.ask('read', { uri: 'live://item/missing' })).code,
        'TDG_ENOTFOUND');
      assert.equal((await client.ask('subscribe', { uri: 'fixed://rock' })).code,
        'TDG_ENOTSUP');

      const template = 'live://item/{id}';
      await client.does('subscribe', { uri: template });
      await client.does('call', { tool: 'publish', arguments: { uri: 'live://item/new' } });
      await client.updated('live://item/new');

      await client.does('unsubscribe', { uri: uris[1] });
      client.clear();
      await client.does('call', { tool: 'publish', arguments: { uri: uris[1] } });
      await client.does('call', { tool: 'publish', arguments: { uri: uris[2] } });
      await client.updated(uris[2]);
      assert.deepEqual(client.events.items.filter((e) => e.uri === uris[1]), []);

      await client.does('call', { tool: 'delete', arguments: { uri: uris[2] } });
      await client.event('deleted', { uri: uris[2] });
      client.clear();
      const extra = `extra://${name.replace(/[^a-z]/gi, '')}`;
      await client.does('call', { tool: 'add_resource', arguments: { uri: extra } });
      await client.event('list_changed', { list: 'resources' });
      await client.does('call', { tool: 'remove_resource', arguments: { uri: extra } });
    });

    it(`${name}: reads again, and has its wishes`, async () => {
      const client = await connect(target(), { era });
      await client.does('subscribe', { uri: uris[0], opts: { reread: true } });
      await client.does('subscribe', { uri: uris[1],
        opts: { filter: { 'metadata.n': { gt: 5 } } } });
      await client.does('call', { tool: 'publish', arguments: { uri: uris[0] } });
      const { contents } = await client.updated(uris[0]);
      assert.equal(contents[0].text, await client.text(uris[0]));
      for (const n of [1, 9]) {
        await client.does('call', { tool: 'publish', arguments: {
          uri: uris[1], metadata: { n } } });
      }
      assert.equal((await client.updated(uris[1])).metadata.n, 9);
    });
  }

  for (const era of eras) {
    it(`${era}: a broken connection costs no change, and tells none twice`, async () => {
      const proxy = await Proxy.start(Number(new URL(fixture.url).port));
      open.add(() => proxy.stop());
      const client = await connect(`http://127.0.0.1:${proxy.port}/mcp`, { era });
      await client.does('subscribe_all', { uris });
      await observer.publish(uris[0]);
      await client.updated(uris[0]);
      const seen = new Map();
      for (let round = 0; round < 15; round++) {
        const uri = uris[round % 3];
        client.clear();
        proxy.snap();
        await observer.publish(uri, { round });
        const { metadata, version, maybe } = await client.updated(uri);
        assert.ok(!maybe, 'it is exact');
        assert.ok(version > (seen.get(uri) ?? 0));
        seen.set(uri, version);
        if (metadata.round !== undefined) assert.equal(metadata.round, round);
        const others = client.events.items.filter((e) => e.event === 'updated');
        assert.deepEqual(others, [], 'nothing else is told');
      }
      if (era === 'legacy') assert.equal((await client.does('counts')).initialised, 1);
    });

    it(`${era}: many subscriptions at once cost few requests`, async () => {
      const client = await connect(fixture.url, { era });
      const many = Array.from({ length: 500 }, (_, i) => `live://item/${era}-${i}`);
      const { codes } = await client.does('subscribe_all', { uris: many });
      assert.ok(codes.every((code) => code === 'TDG_OK'));
      const { requests } = await client.does('counts');
      assert.ok(requests <= (era === 'modern' ? 5 : 505), `${requests} requests`);
      await Promise.all([many[0], many[250], many[499]].map(async (uri) => {
        await observer.publish(uri);
        await client.updated(uri);
      }));
    });
  }
});

describe('our server restarts', () => {
  for (const era of eras) {
    it(`${era}: nobody knows what happened meanwhile, so all of it is told`, async () => {
      const first = await Fixture.start(...usual);
      const client = await connect(first.url, { era });
      await client.does('subscribe_all', { uris });
      await client.does('call', { tool: 'publish', arguments: { uri: uris[0] } });
      await client.updated(uris[0]);
      const { port } = new URL(first.url);
      client.clear();
      await first.stop();
      await client.event('down');
      const second = await Fixture.start(...usual, '--http', port);
      open.add(() => second.stop());
      await client.event('up');
      for (const uri of uris) await client.updated(uri);
      await until(async () => {
        await client.does('call', { tool: 'publish', arguments: {
          uri: uris[1], metadata: { last: true } } });
        return client.events.items.some((e) => e.metadata?.last);
      }, 'a change in its new life');
    });

    it(`${era}: streams that the server ends are opened again, and nothing is lost`, async () => {
      const fixture = await Fixture.start(...usual, '--stream-lifetime-ms', '300');
      open.add(() => fixture.stop());
      const observer = new ModernHttp(fixture.url);
      const client = await connect(fixture.url, { era });
      await client.does('subscribe', { uri: uris[0] });
      let last = 0;
      for (let n = 0; n < 30; n++) {
        await observer.publish(uris[0], { n });
        const { version } = await client.updated(uris[0]);
        assert.ok(version > last);
        last = version;
        await new Promise((resolve) => setTimeout(resolve, 50));
      }
      assert.ok((await client.does('counts')).streams > 2);
      assert.equal((await client.does('counts')).repeated, 0);
    });
  }
});

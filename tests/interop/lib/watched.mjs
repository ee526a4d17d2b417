// SPDX-License-Identifier: MIT
// A client that follows a resource, and checks what every update has to say.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { afterEach } from 'node:test';
import { StdioClientTransport as StdioV1 } from '@modelcontextprotocol/sdk/client/stdio.js';
import { httpV1, httpV2, metadataOf, modern, openV1, versionOf } from './clients.mjs';
import { tidings } from './program.mjs';
import { until } from './wait.mjs';

// Clients go with the test that opened them, also where it fails.
const peers = new Set();

async function opened(opening) {
  const peer = await opening;
  peers.add(peer);
  return peer;
}

afterEach(async () => {
  await Promise.all([...peers].map((peer) => peer.close().catch(() => {})));
  peers.clear();
});

export const sdks = [
  { name: 'SDK v1', open: (program) => opened(httpV1(program.url)) },
  { name: 'SDK v2', open: (program) => opened(httpV2(program.url, modern)) },
];

// With a process of its own, as hosts start it.
export const overPipe = (program) => opened(openV1(new StdioV1({ command: tidings,
  args: ['serve', '--stdio', '--quiet', '--config', program.config], env: program.env,
  stderr: 'inherit' })));

export const sha256 = (bytes) => `sha256:${createHash('sha256').update(bytes).digest('hex')}`;

// The content of a resource: {text, metadata, checksum}.
export async function read(peer, uri) {
  const { contents } = await peer.client.readResource({ uri });
  assert.equal(contents.length, 1);
  const [content] = contents;
  assert.equal(content.uri, uri);
  const bytes = content.text !== undefined
    ? Buffer.from(content.text) : Buffer.from(content.blob, 'base64');
  const metadata = metadataOf(content);
  assert.equal(metadata.checksum, sha256(bytes), 'the checksum is that of the content');
  assert.equal(metadata.size, bytes.length);
  return { text: content.text, bytes, metadata, mimeType: content.mimeType };
}

export const isGone = (peer, uri) => peer.client.readResource({ uri }).then(
  () => false, (error) => {
    assert.match(String(error.code), /^(-32002|-32602)$/);
    return true;
  });

// All resources that are listed, by URI.
export async function list(peer) {
  const found = new Map();
  let cursor;
  do {
    const page = await peer.listPage('resources', cursor);
    for (const resource of page.resources) found.set(resource.uri, resource);
    cursor = page.nextCursor;
  } while (cursor !== undefined);
  return found;
}

export const templates = async (peer) =>
  (await peer.client.listResourceTemplates()).resourceTemplates.map((t) => t.uriTemplate);

// A subscription to one resource. Versions that go back are found wherever it is used.
export class Watched {
  #version = 0;

  static async open(peer, uri, target = uri, options) {
    const watched = new Watched();
    Object.assign(watched, { peer, uri, end: await peer.subscribe(target, options) });
    return watched;
  }

  // The next update, which has to come. It is the only one, unless some may be `merged`.
  async update(what = `an update of ${this.uri}`) {
    const params = await this.peer.updates.next((u) => u.uri === this.uri, what);
    const metadata = metadataOf(params);
    assert.ok(versionOf(params) > this.#version,
      `version ${versionOf(params)} after ${this.#version}`);
    this.#version = versionOf(params);
    assert.equal(typeof metadata.updated_at, 'number');
    return metadata;
  }

  // One change that is made now has to be one update, and what is read then is what it
  // announced. `text` is what is expected, as text or as what checks it. Returns metadata.
  async follows(change, text, type = 'content_update') {
    await change();
    const metadata = await this.update();
    assert.equal(metadata.change_type, type);
    const now = await read(this.peer, this.uri);
    assert.equal(metadata.checksum, now.metadata.checksum);
    assert.equal(metadata.size, now.metadata.size);
    assert.ok(!now.metadata.stale);
    if (typeof text === 'function') text(now.text);
    else assert.equal(now.text, text);
    return metadata;
  }

  async disappears(change) {
    await change();
    const metadata = await this.update();
    assert.equal(metadata.change_type, 'deleted');
    assert.ok(await isGone(this.peer, this.uri));
  }

  // The newest state is learnt from updates: waits for one that announces it. `wanted` is the
  // text, or says whether a text is the one.
  async learns(wanted) {
    const isIt = typeof wanted === 'function' ? wanted : (text) => text === wanted;
    for (;;) {
      const { checksum } = await this.update(`${this.uri} is ${wanted}`);
      if (typeof wanted !== 'function' && checksum !== sha256(wanted)) continue;
      const now = await read(this.peer, this.uri);
      if (now.metadata.checksum === checksum && isIt(now.text)) return;
    }
  }

  // What can be read, without an update: whether it is out of date.
  isStale(stale = true) {
    return until(async () => {
      const now = await read(this.peer, this.uri);
      return (now.metadata.stale === true) === stale && now;
    }, `${this.uri} is ${stale ? '' : 'no longer '}stale`);
  }

  none() {
    assert.deepEqual(this.peer.updates.items.filter((u) => u.uri === this.uri), []);
  }
}

// Nothing about a resource comes after its subscription has ended: `change` it, then show by
// another one, `marker`, that there was time for it.
export async function endsWith(watched, change, marker, mark) {
  await watched.end();
  await change();
  await mark();
  await marker.update();
  watched.none();
}

// With a client of each SDK.
export const openAll = (program, uri, target, options) => Promise.all(
  sdks.map(async ({ open }) => Watched.open(await open(program), uri, target, options)));

// SPDX-License-Identifier: MIT
// What a user of an official client does, with each client on each transport.
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { metadataOf, versionOf, ways } from './lib/clients.mjs';
import { Fixture } from './lib/fixture.mjs';
import { Inbox, until } from './lib/wait.mjs';

const options = ['--page-size', '7'];

// All pages of a list, one by one: SDK v2 walks them itself unless it is given a cursor,
// so the first page is asked for in another way.
async function pages(peer, what) {
  const found = [];
  let cursor, count = 0;
  do {
    const page = await peer.listPage(what, cursor);
    assert.ok(++count < 100, 'the cursors come to an end');
    found.push(...page[what]);
    cursor = page.nextCursor;
  } while (cursor !== undefined);
  return { found, count };
}

for (const way of ways) {
  describe(way.name, () => {
    let fixture, peer, client;

    before(async () => {
      fixture = way.stdio ? null : await Fixture.start(...options);
      peer = await way.open(fixture?.url, options);
      client = peer.client;
    });

    after(async () => {
      await peer?.close();
      await fixture?.stop();
    });

    it('agrees on a version and knows who serves', () => {
      assert.equal(client.getServerVersion().name, 'fixture');
      if (way.version && client.getNegotiatedProtocolVersion) {
        assert.equal(client.getNegotiatedProtocolVersion(), way.version);
      }
      const can = client.getServerCapabilities();
      assert.equal(can.resources.subscribe, true);
      assert.equal(can.resources.listChanged, true);
      assert.equal(can.tools.listChanged, true);
      assert.equal(can.prompts.listChanged, true);
      assert.ok(can.completions);
    });

    it('lists page by page', async () => {
      const resources = await pages(peer, 'resources');
      const uris = resources.found.map((resource) => resource.uri);
      assert.equal(new Set(uris).size, uris.length, 'nothing twice');
      for (const uri of ['live://counter', 'live://a', 'live://z', 'test://static-text']) {
        assert.ok(uris.includes(uri), uri);
      }
      assert.equal(resources.count, Math.ceil(uris.length / 7));

      const tools = await pages(peer, 'tools');
      assert.ok(tools.found.some((tool) => tool.name === 'publish'));
      assert.ok(tools.count > 1);
    });

    it('lists all', async () => {
      const templates = await client.listResourceTemplates();
      assert.ok(templates.resourceTemplates.some(
        (template) => template.uriTemplate === 'live://item/{id}'));
      const prompts = await client.listPrompts();
      assert.ok(prompts.prompts.some((prompt) => prompt.name === 'test_simple_prompt'));
    });

    it('refuses a cursor that it did not hand out', async () => {
      await assert.rejects(client.listResources({ cursor: 'no such cursor' }),
        { code: -32602 });
    });

    it('reads text, bytes and what a template serves', async () => {
      const text = await client.readResource({ uri: 'test://static-text' });
      assert.deepEqual(text.contents, [{
        uri: 'test://static-text', mimeType: 'text/plain', text: 'The content of a text.',
      }]);
      const binary = await client.readResource({ uri: 'test://static-binary' });
      assert.equal(binary.contents[0].mimeType, 'image/png');
      assert.equal(Buffer.from(binary.contents[0].blob, 'base64').subarray(1, 4).toString(),
        'PNG');
      const item = await client.readResource({ uri: 'live://item/7' });
      assert.equal(item.contents[0].text, 'live://item/7');
    });

    it('says what is not there', async () => {
      for (const uri of ['live://nowhere', 'live://item/missing']) {
        await assert.rejects(client.readResource({ uri }), (error) => {
          // SDK v2 turns the one into the other.
          assert.equal(error.code, way.name.startsWith('SDK v2') ? -32602 : -32002);
          assert.deepEqual(error.data, { uri });
          return true;
        });
      }
      await assert.rejects(client.getPrompt({ name: 'nowhere' }), { code: -32602 });
      await assert.rejects(peer.callTool({ name: 'nowhere', arguments: {} }),
        { code: -32602 });
    });

    it('calls tools', async () => {
      const simple = await peer.callTool({ name: 'test_simple_text', arguments: {} });
      assert.deepEqual(simple.content,
        [{ type: 'text', text: 'A simple text for testing.' }]);
      const failed = await peer.callTool({ name: 'test_error_handling', arguments: {} });
      assert.equal(failed.isError, true);
      assert.equal(failed.content[0].text, 'This tool always fails.');
      const slow = await peer.callTool({ name: 'slow', arguments: { ms: 30 } });
      assert.equal(slow.content[0].text, 'slow answer');
    });

    it('calls a tool whose argument also travels in a header', async () => {
      await client.listTools();
      for (const region of ['north', 'Zürich', ' spaced ', '=?base64?no?=']) {
        const result = await peer.callTool({ name: 'test_region', arguments: { region } });
        assert.equal(result.content[0].text, region);
      }
      const none = await peer.callTool({ name: 'test_region', arguments: {} });
      assert.equal(none.content[0].text, 'nowhere');
    });

    it('answers many calls at once, each with its own answer', async () => {
      const texts = await Promise.all(Array.from({ length: 30 }, async (_, i) => {
        const item = await client.readResource({ uri: `live://item/${i}` });
        return item.contents[0].text;
      }));
      texts.forEach((text, i) => assert.equal(text, `live://item/${i}`));
    });

    it('gets prompts', async () => {
      const prompt = await client.getPrompt(
        { name: 'test_prompt_with_arguments', arguments: { arg1: 'one', arg2: 'two' } });
      assert.equal(prompt.messages[0].content.text, 'The arguments are one and two.');
      await assert.rejects(client.getPrompt(
        { name: 'test_prompt_with_arguments', arguments: { arg1: 'one' } }),
      { code: -32602 });
    });

    it('completes arguments', async () => {
      const ofPrompt = await client.complete({
        ref: { type: 'ref/prompt', name: 'test_prompt_with_arguments' },
        argument: { name: 'arg1', value: 'x' },
      });
      assert.deepEqual(ofPrompt.completion.values, ['x of arg1']);
      const ofTemplate = await client.complete({
        ref: { type: 'ref/resource', uri: 'live://item/{id}' },
        argument: { name: 'id', value: 'th' },
      });
      assert.deepEqual(ofTemplate.completion.values, ['three', 'thirty']);
    });

    it('hears of progress, in order and before the answer', async () => {
      const key = `progress on ${way.name}`;
      const steps = new Inbox();
      const call = peer.callTool({ name: 'hold', arguments: { key } },
        { onprogress: (progress) => steps.push(progress) });
      await until(async () => (await peer.look('held', { key })).held, 'the call is held');
      // One after the other: the SDKs forget who waits for progress once they have seen the
      // answer, and lose what comes in the same read.
      for (let i = 1; i <= 3; i++) {
        await peer.call('advance', { key, progress: i, total: 3 });
        assert.deepEqual(await steps.next(() => true, `step ${i}`),
          { progress: i, total: 3, message: 'working' });
      }
      await peer.call('release', { key });
      assert.equal((await call).content[0].text, 'released');
    });

    it('cancels a call, and the tool knows', async () => {
      const stop = new AbortController();
      const key = `cancel on ${way.name}`;
      const call = peer.callTool({ name: 'hold', arguments: { key } },
        { signal: stop.signal });
      const ended = assert.rejects(call);
      await until(async () => (await peer.look('held', { key })).held, 'the call is held');
      stop.abort('no longer wanted');
      await ended;
      await until(async () => (await peer.look('held', { key })).cancelled,
        'the tool sees that it is cancelled');
      assert.deepEqual(await peer.look('release', { key }), { cancelled: true });
      await client.listPrompts(); // nothing is out of step
    });

    it('is told of a change, with its metadata', async () => {
      const undo = await peer.subscribe('live://a');
      await peer.publish('live://a', { change_type: 'content_update', size: 7 });
      const update = await peer.updates.next((u) => u.uri === 'live://a', 'the update');
      const metadata = metadataOf(update);
      assert.equal(metadata.size, 7);
      assert.equal(metadata.change_type, 'content_update');
      assert.ok(Math.abs(metadata.updated_at - Date.now()) < 60_000);
      assert.equal(typeof update._meta['dev.tidings/cursor'], 'string');

      await peer.publish('live://a');
      const second = await peer.updates.next((u) => u.uri === 'live://a', 'the second');
      assert.ok(versionOf(second) > versionOf(update), 'versions grow');
      await undo();
    });

    it('is told that a resource is gone', async () => {
      const undo = await peer.subscribe('live://b');
      await peer.call('delete', { uri: 'live://b' });
      const update = await peer.updates.next((u) => u.uri === 'live://b', 'the deletion');
      assert.equal(metadataOf(update).change_type, 'deleted');
      await undo();
    });

    it('is told of every URI that a template matches', async () => {
      const undo = await peer.subscribe('live://item/{id}');
      await peer.publish('live://item/one');
      await peer.publish('live://item/two');
      await peer.updates.next((u) => u.uri === 'live://item/one', 'item one');
      await peer.updates.next((u) => u.uri === 'live://item/two', 'item two');
      await undo();
    });

    it('is told nothing after it has unsubscribed', async () => {
      const keep = await peer.subscribe('live://m');
      const undo = await peer.subscribe('live://c');
      await peer.publish('live://c');
      await peer.updates.next((u) => u.uri === 'live://c', 'the update before');
      await undo();
      if (way.modern) {
        // The end of a listen stream is not answered; the server's own list shows it.
        await until(async () => {
          const { subscriptions } = await peer.look('subscriptions');
          return !subscriptions.some((s) => s.target === 'live://c');
        }, 'the subscription is gone');
      }
      await peer.publish('live://c');
      await peer.publish('live://m');
      await peer.updates.next((u) => u.uri === 'live://m', 'the marker');
      assert.deepEqual(peer.updates.items.filter((u) => u.uri === 'live://c'), []);
      await keep();
    });

    it('is told when lists change', async () => {
      await peer.watchLists();
      await peer.call('add_tool', { name: 'late' });
      await peer.lists.next((list) => list === 'tools', 'tools grew');
      assert.equal((await peer.callTool({ name: 'late', arguments: {} })).content[0].text,
        'added');
      await peer.call('remove_tool', { name: 'late' });
      await peer.lists.next((list) => list === 'tools', 'tools shrank');
      await peer.call('add_prompt', { name: 'late' });
      await peer.lists.next((list) => list === 'prompts', 'prompts grew');
      await peer.call('remove_prompt', { name: 'late' });
      await peer.lists.next((list) => list === 'prompts', 'prompts shrank');
      await peer.call('add_resource', { uri: 'late://r' });
      await peer.lists.next((list) => list === 'resources', 'resources grew');
      const { contents } = await client.readResource({ uri: 'late://r' });
      assert.equal(contents[0].text, 'late://r');
      await peer.call('remove_resource', { uri: 'late://r' });
      await peer.lists.next((list) => list === 'resources', 'resources shrank');
    });

    it('leaves no error behind', () => {
      assert.deepEqual(peer.errors.map(String), []);
    });
  });
}

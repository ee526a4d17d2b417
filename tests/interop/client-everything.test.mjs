// SPDX-License-Identifier: MIT
// Our client and the reference server of the protocol's makers, over everything it speaks.
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { Driven } from './lib/driven.mjs';
import { everythingPipe, Foreign } from './lib/foreign.mjs';

const text = 'demo://resource/dynamic/text/1';
const blob = 'demo://resource/dynamic/blob/1';

for (const transport of ['stdio', 'streamableHttp', 'sse']) {
  describe(`server-everything over ${transport}`, () => {
    let server, client;

    before(async () => {
      if (transport !== 'stdio') server = await Foreign.everything(transport);
      client = await Driven.connect(server?.url ?? everythingPipe, { input: {
        'roots/list': { roots: [{ uri: 'file:///srv/data', name: 'data' }] },
        'elicitation/create': { action: 'accept', content: { name: 'Ada' } },
        'sampling/createMessage': { role: 'assistant', model: 'none',
          content: { type: 'text', text: 'forty-two' } },
      } });
    });
    after(async () => {
      await client?.close();
      await server?.kill();
    });

    it('lists everything', async () => {
      const facts = await client.does('facts');
      assert.equal(facts.era, 'legacy');
      assert.match(facts.name, /everything/);
      assert.ok(facts.subscribe);
      for (const list of ['resources', 'templates', 'tools', 'prompts']) {
        assert.ok((await client.result('list', { list })).length > 0, list);
      }
    });

    it('reads text and bytes', async () => {
      const read = async (uri) => (await client.result('read', { uri })).contents[0];
      assert.match((await read(text)).text, /Resource 1/i);
      assert.ok((await read(blob)).blob.length > 0);
      assert.notEqual((await client.ask('read', { uri: 'demo://no/such' })).code, 'TDG_OK');
    });

    it('calls tools', async () => {
      const call = async (tool, args) =>
        (await client.result('call', { tool, arguments: args })).content[0].text;
      assert.equal(await call('echo', { message: 'hello' }), 'Echo: hello');
      assert.match(await call('get-sum', { a: 2, b: 40 }), /42/);
      assert.match(await call('trigger-long-running-operation', { duration: 0.5, steps: 2 }),
        /completed/i);
    });

    it('is asked, and answers', async () => {
      const tools = (await client.result('list', { list: 'tools' })).map((t) => t.name);
      // They are there once the server knows what we can do.
      for (const [tool, args, found] of [
        ['trigger-sampling-request', { prompt: 'what?', maxTokens: 5 }, /forty-two/],
        ['trigger-elicitation-request', {}, /Ada/],
        ['get-roots-list', {}, /srv\/data/],
      ]) {
        if (!tools.includes(tool)) continue;
        const result = await client.result('call', { tool, arguments: args });
        assert.match(JSON.stringify(result.content), found, tool);
      }
      assert.ok(tools.includes('trigger-sampling-request'), `its tools: ${tools}`);
    });

    it('gets prompts and completions', async () => {
      const { messages } = await client.result('prompt', { prompt: 'args-prompt',
        arguments: { city: 'Oslo', state: 'none' } });
      assert.match(messages[0].content.text, /Oslo/);
      const { values } = await client.result('complete', { ref: 'completable-prompt',
        argument: 'department', value: 'E' });
      assert.deepEqual(values, ['Engineering']);
    });

    it('is told of updates of what it subscribes to', async () => {
      await client.does('subscribe', { uri: text });
      await client.does('call', { tool: 'toggle-subscriber-updates', arguments: {} });
      await client.updated(text);
      client.clear();
      await client.updated(text); // the next comes after five seconds
      await client.does('call', { tool: 'toggle-subscriber-updates', arguments: {} });
    });

    if (transport !== 'stdio') {
      it('dies, returns, and what may have changed is told', async () => {
        client.clear();
        await server.kill();
        await client.event('down');
        await server.start();
        await client.event('up');
        await client.updated(text, { maybe: true });
        client.clear();
        await client.does('call', { tool: 'toggle-subscriber-updates', arguments: {} });
        await client.updated(text, { maybe: undefined });
        assert.ok((await client.does('counts')).reconnects >= 1);
      });
    }
  });
}

// SPDX-License-Identifier: MIT
// Each kind of source as its page documents it: the config of docs/sources/KIND.md served by
// the real program, a real backend behind it, and official clients that list, read, subscribe
// and see every change that is made in the backend.
import assert from 'node:assert/strict';
import { appendFileSync, mkdirSync, renameSync, rmSync, truncateSync, writeFileSync }
  from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { Postgres } from './lib/postgres.mjs';
import { documented, folder, Program } from './lib/program.mjs';
import { until } from './lib/wait.mjs';
import { endsWith, isGone, list, overPipe, read, sdks, templates, Watched }
  from './lib/watched.mjs';

describe('files', () => {
  let program, n = 0;

  const path = (name) => join(program.dir, name);
  const replace = (name, text) => {
    writeFileSync(path(`.${name}`), text);
    renameSync(path(`.${name}`), path(name));
  };

  before(async () => {
    const dir = folder();
    mkdirSync(join(dir, 'images'));
    writeFileSync(join(dir, 'images', 'dot.png'), Buffer.from('89504e470d0a1a0a00ff', 'hex'));
    writeFileSync(join(dir, 'b.md'), '# b\n');
    writeFileSync(join(dir, 'left-out.txt'), '');
    program = await Program.start(documented('files'), { dir });
  });
  after(() => program.stop());

  for (const { name, open } of [...sdks, { name: 'SDK v1, stdio', open: overPipe }]) {
    it(`${name} sees every change`, async () => {
      writeFileSync(path('a.md'), '# a\n');
      const peer = await open(program);
      const uri = 'docs://handbook/a.md';
      const listed = await until(async () => {
        const found = await list(peer);
        return found.get(uri)?.size === 4 && found;
      }, 'the list has its size');
      assert.equal(listed.get(uri).mimeType, 'text/markdown');
      assert.ok(listed.has('docs://handbook/images/dot.png'));
      assert.ok(!listed.has('docs://handbook/left-out.txt'));
      assert.deepEqual(await templates(peer), ['docs://handbook/{+path}']);
      assert.equal((await read(peer, uri)).text, '# a\n');
      const image = await read(peer, 'docs://handbook/images/dot.png');
      assert.deepEqual(image.bytes, Buffer.from('89504e470d0a1a0a00ff', 'hex'));
      assert.equal(image.mimeType, 'image/png');

      const a = await Watched.open(peer, uri);
      const b = await Watched.open(peer, 'docs://handbook/b.md');
      for (let i = 0; i < 10; i++) {
        const text = `# replaced ${++n}\n`;
        const metadata = await a.follows(() => replace('a.md', text), text);
        assert.equal(metadata.path, 'a.md');
        await a.follows(() => appendFileSync(path('a.md'), 'more\n'), `${text}more\n`);
      }
      await a.follows(() => truncateSync(path('a.md'), 3), '# r');
      await a.disappears(() => rmSync(path('a.md')));
      await a.follows(() => replace('a.md', 'again'), 'again', 'created');
      a.none();

      await endsWith(a, () => replace('a.md', 'unseen'),
        b, () => replace('b.md', `# b ${++n}\n`));
    });
  }
});

describe('postgres', () => {
  let server, program, id = 0;

  before(async () => {
    server = await Postgres.create();
    await server.shop();
    program = await Program.start(documented('postgres')
      .replaceAll('@127.0.0.1/', `@127.0.0.1:${server.port}/`)
      .replace('every: 30s', 'every: 100ms'));
  });
  after(async () => {
    await program?.stop();
    await server?.stop();
  });

  for (const { name, open } of sdks) {
    it(`${name} sees every change`, async () => {
      await server.run(`INSERT INTO orders VALUES (${++id}, 'ann', 10), (${++id}, 'bob', 20)`);
      const peer = await open(program);
      const uri = `pg://shop/orders/${id}`;
      assert.ok((await list(peer)).has('pg://shop/orders'));
      assert.deepEqual((await templates(peer)).sort(),
        ['pg://shop/customers/{customer}/total', 'pg://shop/orders/{id}']);
      assert.deepEqual(JSON.parse((await read(peer, uri)).text),
        { id, customer: 'bob', total: 20 });

      const row = await Watched.open(peer, uri);
      for (let total = 21; total <= 30; total++) {
        const metadata = await row.follows(
          () => server.run(`UPDATE orders SET total = ${total} WHERE id = ${id}`),
          (text) => assert.equal(JSON.parse(text).total, total));
        assert.equal(metadata.table, 'public.orders');
        assert.equal(metadata.op, 'UPDATE');
        assert.deepEqual(metadata.key, { id: String(id) });
      }
      await row.disappears(() => server.run(`DELETE FROM orders WHERE id = ${id}`));
      const created = await row.follows(
        () => server.run(`INSERT INTO orders VALUES (${id}, 'bob', 1)`),
        (text) => assert.equal(JSON.parse(text).total, 1), 'created');
      assert.equal(created.op, 'INSERT');

      const table = await Watched.open(peer, 'pg://shop/orders');
      const sum = await Watched.open(peer, 'pg://shop/customers/ann/total');
      await server.run(`UPDATE orders SET total = total + 5 WHERE id = ${id - 1}`);
      for (const watched of [table, sum]) {
        const metadata = await watched.update();
        assert.equal(metadata.checksum, (await read(peer, watched.uri)).metadata.checksum);
      }
      assert.match((await read(peer, table.uri)).text, /^id,customer,total\r\n/);
      row.none();

      await endsWith(row, () => server.run(`UPDATE orders SET total = 0 WHERE id = ${id}`),
        table, () => server.run(`UPDATE orders SET total = 0 WHERE id = ${id - 1}`));
    });

    it(`${name} hears of rows by their template`, async () => {
      const peer = await open(program);
      const uri = `pg://shop/orders/${++id}`;
      assert.ok(await isGone(peer, uri));
      const row = await Watched.open(peer, uri, 'pg://shop/orders/{id}');
      await row.follows(() => server.run(`INSERT INTO orders VALUES (${id}, 'cy', 1)`),
        (text) => assert.equal(JSON.parse(text).total, 1), 'created');
      await row.follows(() => server.run(`UPDATE orders SET total = 2 WHERE id = ${id}`),
        (text) => assert.equal(JSON.parse(text).total, 2));
      await row.disappears(() => server.run(`DELETE FROM orders WHERE id = ${id}`));
      row.none();
    });
  }
});

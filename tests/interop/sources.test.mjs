// SPDX-License-Identifier: MIT
// Each kind of source as its page documents it: the config of docs/sources/KIND.md served by
// the real program, a real backend behind it, and official clients that list, read, subscribe
// and see every change that is made in the backend.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { createHmac } from 'node:crypto';
import { appendFileSync, mkdirSync, readFileSync, renameSync, rmSync, truncateSync,
  writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { after, before, describe, it } from 'node:test';
import { promisify } from 'node:util';
import { Postgres } from './lib/postgres.mjs';
import { documented, folder, Program, tidings } from './lib/program.mjs';
import { until } from './lib/wait.mjs';
import { endsWith, isGone, list, openAll, overPipe, read, sdks, templates, Watched }
  from './lib/watched.mjs';
import { Web } from './lib/web.mjs';

const run = promisify(execFile);

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
      // Where the client before has left a subscription to the template, it may be noticed
      // only now that the row was inserted; this is the last of it.
      await server.run(`UPDATE orders SET total = 20.5 WHERE id = ${id}`);
      await row.learns((text) => JSON.parse(text).total === 20.5);
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
      await table.learns((text) => text.includes(`${id - 1},ann,15\r\n`));
      const total = await server.run("SELECT sum(total) FROM orders WHERE customer = 'ann'");
      await sum.learns(`[{"total":${total}}]`);
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

describe('http', () => {
  let web, program, n = 0;

  const page = () => JSON.stringify({ status: 'fine', incidents: [++n] });

  before(async () => {
    web = await Web.start(page());
    program = await Program.start(documented('http')
      .replaceAll(/https:\/\/(status|shop)\.example/g, `http://127.0.0.1:${web.port}`)
      .replace('every: 30s', 'every: 100ms')
      .replace('pointer: /incidents', 'pointer: /incidents\n    every: 100ms'),
    { env: { STATUS_TOKEN: 'not for everybody' } });
  });
  after(async () => {
    await program?.stop();
    await web?.stop();
  });

  for (const { name, open } of sdks) {
    it(`${name} sees every change`, async () => {
      const peer = await open(program);
      const listed = await list(peer);
      assert.ok(listed.has('status://health') && listed.has('status://incidents'));
      assert.deepEqual(await templates(peer), ['shop://orders/{id}/{lang}']);
      const first = await read(peer, 'status://health');
      assert.equal(first.text, web.content);
      assert.equal(first.mimeType, 'application/json');
      assert.equal((await read(peer, 'shop://orders/42/en')).text, web.content);
      assert.ok(web.seen.has('/api/orders/42?lang=en'));

      const health = await Watched.open(peer, 'status://health');
      const incidents = await Watched.open(peer, 'status://incidents');
      assert.equal(web.seen.get('/api/v1/summary').authorization, 'Bearer not for everybody');
      assert.equal(web.seen.get('/api/v1/health').authorization, undefined);
      for (let i = 0; i < 5; i++) {
        web.content = page();
        await health.follows(() => {}, web.content);
        await incidents.follows(() => {}, `[${n}]`);
      }

      // Only the part that is pointed at counts.
      web.content = web.content.replace('fine', 'well');
      await health.follows(() => {}, web.content);
      const { unchanged } = web;
      await until(() => web.unchanged > unchanged + 5, 'it is asked whether it changed');
      health.none();
      incidents.none();
      await endsWith(health, () => { web.content = page(); }, incidents, () => {
        const { requests } = web;
        return until(() => web.requests > requests + 5, 'both are asked for');
      });
    });
  }
});

describe('webhook', () => {
  let program, n = 0;

  const secret = 'only GitHub knows';
  const hook = (path) => new URL(path, program.url);
  const sign = (body) =>
    `sha256=${createHmac('sha256', secret).update(body).digest('hex')}`;
  const signed = (body) => ({ 'x-hub-signature-256': sign(body), 'x-github-event': 'push' });
  async function call(path, body, headers = signed(body)) {
    const { status } = await fetch(hook(path), { method: 'POST', body,
      headers: { 'content-type': 'application/json', ...headers } });
    return status;
  }

  before(async () => {
    program = await Program.start(documented('webhook'),
      { env: { DEPLOYS_SECRET: secret, ALARM_SECRET: secret } });
  });
  after(() => program.stop());

  for (const { name, open } of sdks) {
    it(`${name} sees every call`, async () => {
      const peer = await open(program);
      const listed = await list(peer);
      assert.ok(listed.has('deploys://last') && listed.has('house://alarm'));
      const deploys = await Watched.open(peer, 'deploys://last');
      const alarm = await Watched.open(peer, 'house://alarm');
      for (let i = 0; i < 10; i++) {
        const body = JSON.stringify({ deploy: ++n });
        await deploys.follows(async () => assert.equal(await call('/hooks/deploys', body), 202),
          body, n === 1 ? 'created' : 'content_update');
      }
      const authorization = `Bearer ${secret}`;
      for (let i = 0; i < 3; i++) {
        assert.equal(await call('/hooks/alarm', '{}', { authorization }), 202);
        await alarm.update();
      }
      assert.equal(await call('/hooks/deploys', '{}', {}), 401);
      await endsWith(deploys, () => call('/hooks/deploys', JSON.stringify({ deploy: ++n })),
        alarm, () => call('/hooks/alarm', '{}', { authorization }));
    });
  }

  it('a caller without the secret changes nothing, however often it calls', async () => {
    const all = await openAll(program, 'deploys://last');
    const right = JSON.stringify({ deploy: ++n });
    const wrong = [
      {},
      { 'x-hub-signature-256': 'sha256=' },
      { 'x-hub-signature-256': `sha256=${'0'.repeat(64)}` },
      { 'x-hub-signature-256': `sha256=${'f'.repeat(10_000)}` },
      { 'x-hub-signature-256': sign('another body') },
      { 'x-hub-signature-256': sign(right).toUpperCase().replace('A', 'B') },
      { 'x-hub-signature': sign(right), 'x-github-event': 'x'.repeat(5000) },
      { authorization: `Bearer ${secret}` },
    ];
    let calls = 0, done = false;
    const attack = async () => {
      while (!done || calls < 3000) {
        const status = await call('/hooks/deploys', 'x'.repeat(calls % 1000),
          wrong[calls++ % wrong.length]);
        assert.equal(status, 401);
      }
    };
    const attacks = Promise.all(Array.from({ length: 16 }, attack));
    const updates = (async () => {
      for (let i = 0; i < 20; i++) {
        const body = JSON.stringify({ deploy: ++n });
        assert.equal(await call('/hooks/deploys', body), 202);
        for (const watched of all) await watched.follows(() => {}, body);
      }
    })().finally(() => { done = true; });
    await Promise.all([attacks, updates]);
    for (const watched of all) watched.none();
  });
});

describe('memory', () => {
  let program, n = 0;

  const env = { TIDINGS_PUBLISH_KEY: 'let me in' };
  const publish = (...changes) => fetch(new URL('/publish', program.url), {
    method: 'POST', body: JSON.stringify(changes),
    headers: { 'content-type': 'application/json', authorization: 'Bearer let me in' } });

  before(async () => {
    program = await Program.start(documented('memory'), { env });
  });
  after(() => program.stop());

  for (const { name, open } of sdks) {
    it(`${name} sees all that is published`, async () => {
      const peer = await open(program);
      const uri = `build://job-${++n}`, other = `build://other-${n}`;
      await peer.watchLists();
      const job = await Watched.open(peer, uri);
      const all = await Watched.open(await open(program), other, 'build://{job}');
      const answer = await publish({ uri, content: '0' });
      assert.equal(answer.status, 200);
      const [change] = (await answer.json()).changes;
      assert.equal(change.uri, uri);
      assert.ok(change.subscriptions >= 1);
      assert.equal((await job.update()).change_type, 'created');
      await peer.lists.next((what) => what === 'resources', 'it is listed');
      assert.ok((await list(peer)).has(uri));
      for (let i = 1; i <= 10; i++) {
        const metadata = await job.follows(
          () => publish({ uri, content: String(i), metadata: { by: 'ci' } }), String(i));
        assert.equal(metadata.by, 'ci');
      }

      // From a shell.
      const { stdout } = await run(tidings, ['publish', new URL(program.url).origin, other,
        '--content', program.config], { env: program.env });
      assert.match(stdout, new RegExp(other));
      assert.equal((await all.update()).change_type, 'created');
      assert.equal((await read(peer, other)).text, readFileSync(program.config, 'utf8'));

      // All or nothing.
      const refused = await publish({ uri, content: 'x' }, { uri: 'nothing', content: 'x' });
      assert.ok(refused.status >= 400, String(refused.status));
      await job.disappears(() => publish({ uri, deleted: true }));
      job.none();
    });
  }
});

describe('command', () => {
  let program, n = 0;

  const path = (name) => join(program.dir, name);

  before(async () => {
    const dir = folder();
    writeFileSync(join(dir, '.lines'), 'line 0\n');
    program = await Program.start(documented('command')
      .replace('uri: host://newest', 'uri: host://newest\n    every: 50ms')
      .replace('[sh, -c, "while :; do date; sleep 5; done"]',
        '[tail, -n, "1", -f, .lines]'), { dir });
  });
  after(() => program.stop());

  for (const { name, open } of [...sdks, { name: 'SDK v1, stdio', open: overPipe }]) {
    it(`${name} sees every change`, async () => {
      const peer = await open(program);
      const listed = await list(peer);
      for (const uri of ['host://disk', 'host://newest', 'host://clock']) {
        assert.ok(listed.has(uri), uri);
      }
      assert.deepEqual(await templates(peer), ['host://users/{user}']);
      assert.match((await read(peer, 'host://disk')).text, /^Filesystem/);
      assert.match((await read(peer, 'host://users/root')).text, /^uid=0\(root\)/);

      const newest = await Watched.open(peer, 'host://newest');
      // What the test before did may be noticed only now; this is the last of it.
      const first = `z-${++n}`;
      writeFileSync(path(first), '');
      await newest.learns((text) => text.includes(first));
      for (let i = 0; i < 3; i++) {
        const file = `z-${++n}`;
        const metadata = await newest.follows(() => writeFileSync(path(file), ''),
          (text) => assert.ok(text.split('\n').includes(file)));
        assert.equal(metadata.exit_status, 0);
      }
      newest.none();

      const clock = await Watched.open(peer, 'host://clock');
      appendFileSync(path('.lines'), `from here, ${name}\n`);
      await clock.learns(`from here, ${name}`);
      let line;
      for (let i = 0; i < 10; i++) {
        const text = `line ${++n}`;
        const metadata = await clock.follows(
          () => appendFileSync(path('.lines'), `${text}\n`), text);
        if (line !== undefined) assert.equal(metadata.line, line + 1);
        line = metadata.line;
      }
      clock.none();
      await endsWith(newest, () => writeFileSync(path(`z-${++n}`), ''),
        clock, () => appendFileSync(path('.lines'), `line ${++n}\n`));
    });
  }
});

describe('log', () => {
  let program, n = 0;

  const path = (name) => join(program.dir, name);

  before(async () => {
    const dir = folder();
    writeFileSync(join(dir, 'system.log'), 'first\n');
    writeFileSync(join(dir, 'app.log'), '');
    program = await Program.start(
      documented('log').replace('/var/log/syslog', 'system.log'), { dir });
  });
  after(() => program.stop());

  for (const { name, open } of [...sdks, { name: 'SDK v1, stdio', open: overPipe }]) {
    it(`${name} sees every line`, async () => {
      const peer = await open(program);
      const listed = await list(peer);
      assert.ok(listed.has('logs://system') && listed.has('logs://app'));
      let { text } = await read(peer, 'logs://system');
      assert.match(text, /\n$/);

      const system = await Watched.open(peer, 'logs://system');
      const app = await Watched.open(peer, 'logs://app');
      const append = () => {
        const line = `line ${++n}\n`;
        appendFileSync(path('system.log'), line);
        return line;
      };
      for (let i = 0; i < 10; i++) {
        text += append();
        const metadata = await system.follows(() => {}, text);
        assert.equal(metadata.offset, text.length);
      }

      // Rotated: renamed and made anew, then copied and truncated.
      const { rotations } = await system.follows(() => {
        renameSync(path('system.log'), path(`system.log.${++n}`));
        writeFileSync(path(`new-${n}`), 'anew\n');
        renameSync(path(`new-${n}`), path('system.log'));
      }, 'anew\n');
      assert.ok(rotations > 0);
      truncateSync(path('system.log'));
      text = append();
      await system.learns(text);
      system.none();
      await endsWith(system, append, app, () => appendFileSync(path('app.log'), `${++n}\n`));
    });
  }
});

describe('sqlite', () => {
  let program, database, id = 0;

  const run = (sql) => database.exec(sql);

  // Others may be reading just now.
  function connect(dir, name) {
    database = new DatabaseSync(join(dir, name));
    run('PRAGMA busy_timeout = 60000');
  }

  function create(dir, name) {
    connect(dir, name);
    run(`CREATE TABLE orders (id INTEGER PRIMARY KEY, state TEXT, total REAL, day TEXT);
      INSERT INTO orders VALUES (1000, 'open', 1, 'monday')`);
  }

  before(async () => {
    const dir = folder();
    create(dir, 'shop.db');
    program = await Program.start(documented('sqlite'), { dir });
  });
  after(async () => {
    await program?.stop();
    database?.close();
  });

  for (const mode of ['delete', 'wal']) {
    for (const { name, open } of sdks) {
      it(`${name} sees every change, journal_mode ${mode}`, async () => {
        run(`PRAGMA journal_mode = ${mode}`);
        run(`INSERT INTO orders VALUES (${++id}, 'open', 5, 'today')`);
        const peer = await open(program);
        assert.ok((await list(peer)).has('shop://orders/open'));
        assert.deepEqual(await templates(peer), ['shop://orders/{id}']);
        const uri = `shop://orders/${id}`;
        const row = (total) => (text) => assert.deepEqual(JSON.parse(text),
          [{ id, state: 'open', total, day: 'today' }]);
        row(5)((await read(peer, uri)).text);

        const order = await Watched.open(peer, uri);
        const unfinished = await Watched.open(peer, 'shop://orders/open');
        const totals = await Watched.open(peer, 'shop://totals');
        // What the test before did may be noticed only now; this is the last of it.
        run(`INSERT INTO orders VALUES (${2000 + id}, 'open', 1, 'day ${id}')`);
        await totals.learns((text) => text.includes(`day ${id},1`));
        await unfinished.learns((text) => text.includes(2000 + id));
        for (let total = 6; total < 12; total++) {
          run(`UPDATE orders SET total = ${total} WHERE id = ${id}`);
          const metadata = await order.follows(() => {}, row(total));
          assert.equal(metadata.rows, 1);
          await totals.follows(() => {}, (text) => assert.match(text, /^day,total\r\n/));
        }
        run(`BEGIN; UPDATE orders SET total = 0 WHERE id = ${id}; ROLLBACK`);
        await unfinished.follows(() => run(`UPDATE orders SET state = 'done' WHERE id = ${id}`),
          (text) => assert.ok(JSON.parse(text).every((other) => other.id !== id)));
        assert.equal((await order.update()).change_type, 'content_update');
        const gone = await order.follows(() => run(`DELETE FROM orders WHERE id = ${id}`),
          (text) => assert.deepEqual(JSON.parse(text), []));
        assert.equal(gone.rows, 0);
        await totals.update();
        unfinished.none();
        order.none();

        run(`INSERT INTO orders VALUES (${id}, 'open', 1, 'today')`);
        await order.follows(() => {}, row(1));
        await unfinished.update();
        await endsWith(order, () => run(`UPDATE orders SET total = 2 WHERE id = ${id}`),
          unfinished, () => run(`UPDATE orders SET state = 'late' WHERE id = ${id}`));
      });
    }
  }

  it('a database that is replaced is read anew', async () => {
    const all = await openAll(program, 'shop://orders/1000');
    database.close();
    create(program.dir, 'next.db');
    run("UPDATE orders SET state = 'new'");
    database.close();
    for (const end of ['-wal', '-shm']) rmSync(join(program.dir, `shop.db${end}`), { force: true });
    renameSync(join(program.dir, 'next.db'), join(program.dir, 'shop.db'));
    for (const watched of all) {
      await watched.follows(() => {}, (text) => assert.equal(JSON.parse(text)[0].state, 'new'));
    }
    connect(program.dir, 'shop.db');
    run("UPDATE orders SET state = 'newer'");
    for (const watched of all) {
      await watched.follows(() => {}, (text) => assert.equal(JSON.parse(text)[0].state, 'newer'));
    }
  });
});

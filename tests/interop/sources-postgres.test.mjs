// SPDX-License-Identifier: MIT
// A PostgreSQL server that goes away while its rows change. Official clients are subscribed,
// are told that what they read is stale, and learn the newest state in the end.
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { setTimeout } from 'node:timers/promises';
import { Postgres } from './lib/postgres.mjs';
import { Program } from './lib/program.mjs';
import { Proxy } from './lib/proxy.mjs';
import { openAll } from './lib/watched.mjs';

// How soon a server that says nothing counts as gone, and how soon it is tried again. A busy
// machine takes more than half a second to connect, again and again.
const patience = `    timeout: 2s
    retry: 20ms
    retry-max: 200ms
    connect-timeout: 10s
    probe: 1s
`;

const resources = (port) => `resources:
  - postgres: postgresql://reader@127.0.0.1:${port}/shop
    table: orders
    key: id
    uri: pg://shop/orders/{id}
${patience}  - postgres: postgresql://reader@127.0.0.1:${port}/shop
    table: orders
    key: id
    uri: pg://shop/orders
    format: csv
${patience}`;

describe('a PostgreSQL server', () => {
  let server, proxy, program;

  before(async () => {
    server = await Postgres.create();
    await server.shop();
    await server.run("INSERT INTO orders VALUES (1, 'ann', 0), (2, 'bob', 0)");
    proxy = await Proxy.start(server.port);
    program = await Program.start(resources(proxy.port));
  });
  after(async () => {
    await program?.stop();
    await proxy?.stop();
    await server?.stop();
  });

  const row = (total) => `{"id":1,"customer":"ann","total":${total}}`;
  const table = (total) => `id,customer,total\r\n1,ann,${total}\r\n2,bob,0\r\n`;

  // Changes a row again and again, as far as there is a server, until the function that is
  // returned is called. That gives the last number.
  function changing() {
    let stopped = false;
    const running = (async () => {
      while (!stopped) {
        await server.run('UPDATE orders SET total = total + 1 WHERE id = 1').catch(() => {});
        await setTimeout(20);
      }
    })();
    return async () => {
      stopped = true;
      await running;
      return server.run('UPDATE orders SET total = total + 1 WHERE id = 1 RETURNING total');
    };
  }

  // `harm` and `mend` while rows change.
  async function survives(harm, mend) {
    const rows = await openAll(program, 'pg://shop/orders/1');
    const byTemplate = await openAll(program, 'pg://shop/orders/1', 'pg://shop/orders/{id}');
    const tables = await openAll(program, 'pg://shop/orders');
    const stop = changing();
    await Promise.all([...rows, ...byTemplate, ...tables].map((watched) => watched.update()));

    await harm();
    const old = await Promise.all([...rows, ...tables].map((watched) => watched.isStale()));
    for (const { metadata } of old) {
      assert.equal(typeof metadata.stale_since, 'number');
      assert.equal(typeof metadata.stale_reason, 'string');
    }
    await mend();
    const total = await stop();
    await Promise.all([
      ...[...rows, ...byTemplate].map((watched) => watched.learns(row(total))),
      ...tables.map((watched) => watched.learns(table(total))),
    ]);
    await Promise.all([...rows, ...tables].map((watched) => watched.isStale(false)));
  }

  it('is restarted in the middle', () =>
    survives(() => server.stop('SIGINT'), () => server.start()));

  it('is killed in the middle', () =>
    survives(() => server.stop('SIGKILL'), () => server.start()));

  it('is cut off without a word', () =>
    survives(() => proxy.cut(), () => proxy.go()));

  it('ends every connection, and is there at once', async () => {
    const rows = await openAll(program, 'pg://shop/orders/1');
    const stop = changing();
    for (let i = 0; i < 10; i++) {
      await server.run(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity
        WHERE usename = 'reader'`);
      await rows[i % 2].update();
    }
    const total = await stop();
    await Promise.all(rows.map((watched) => watched.learns(row(total))));
  });
});

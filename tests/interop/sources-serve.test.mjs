// SPDX-License-Identifier: MIT
// The program itself: its config read again, its end and return, and programs and web
// servers behind it that hang or fail, while official clients are subscribed.
import assert from 'node:assert/strict';
import { mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync }
  from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { folder, Program } from './lib/program.mjs';
import { Proxy } from './lib/proxy.mjs';
import { until, within } from './lib/wait.mjs';
import { list, openAll, read, sdks, templates, Watched } from './lib/watched.mjs';
import { Web } from './lib/web.mjs';

function replace(path, text) {
  writeFileSync(`${path}~`, text);
  renameSync(`${path}~`, path);
}

describe('a config that is read again', () => {
  // One folder for each name.
  const resources = (dir, ...names) => `resources:\n${names.map((name) => `
  - files: ${join(dir, name)}
    uri: ${name}://{+path}
    exclude: "*~"
`).join('')}`;

  function folders(...names) {
    const dir = folder();
    for (const name of names) {
      mkdirSync(join(dir, name));
      writeFileSync(join(dir, name, 'a.txt'), '0');
    }
    return dir;
  }

  it('what stayed loses no update and doubles none', async (t) => {
    const dir = folders('stays', 'one', 'two');
    const program = await Program.start(resources(dir, 'stays', 'one'));
    t.after(() => program.stop());
    const all = await openAll(program, 'stays://a.txt');
    let done = false;
    const reloading = (async () => {
      for (let i = 0; !done || i < 10; i++) {
        await program.reload(resources(dir, ...(i % 2 ? ['stays', 'one'] : ['two', 'stays'])));
      }
    })();
    try {
      for (let i = 1; i <= 100; i++) {
        replace(join(dir, 'stays', 'a.txt'), String(i));
        for (const watched of all) await watched.follows(() => {}, String(i));
      }
    } finally {
      done = true;
      await reloading;
    }
    replace(join(dir, 'stays', 'a.txt'), 'the end');
    for (const watched of all) {
      await watched.follows(() => {}, 'the end');
      watched.none();
    }
  });

  it('what came and went changes the list', async (t) => {
    const dir = folders('stays', 'goes', 'comes');
    const program = await Program.start(resources(dir, 'stays', 'goes'));
    t.after(() => program.stop());
    const gone = await openAll(program, 'goes://a.txt');
    for (const { peer } of gone) {
      await peer.watchLists();
      peer.lists.items.length = 0;
    }
    await program.reload(resources(dir, 'stays', 'comes'));
    for (const watched of gone) {
      const { peer } = watched;
      assert.equal((await watched.update()).change_type, 'deleted');
      await until(async () => {
        await peer.lists.next((what) => what === 'resources', 'a list change');
        const listed = await list(peer);
        return listed.has('comes://a.txt') && !listed.has('goes://a.txt');
      }, 'the list is the new one');
      assert.deepEqual((await templates(peer)).sort(), ['comes://{+path}', 'stays://{+path}']);
    }

    // When it comes back, those who stayed subscribed hear of it.
    replace(join(dir, 'goes', 'a.txt'), 'back');
    await program.reload(resources(dir, 'stays', 'goes'));
    await Promise.all(gone.map((watched) => watched.learns('back')));
    replace(join(dir, 'goes', 'a.txt'), 'here');
    await Promise.all(gone.map((watched) => watched.learns('here')));
  });

  it('a broken one changes nothing, and says why', async (t) => {
    const dir = folders('stays');
    const program = await Program.start(resources(dir, 'stays'));
    t.after(() => program.stop());
    const all = await openAll(program, 'stays://a.txt');
    program.configure('resources:\n  - files: x\n    evry: 1s\n  - nonsense: 1\n');
    program.child.kill('SIGHUP');
    await program.logged(/resources\[0\]\.evry: unknown option/);
    await program.logged(/resources\[1\]: this entry has no kind/);
    await program.logged(/the previous config stays in force/);
    replace(join(dir, 'stays', 'a.txt'), '1');
    for (const watched of all) {
      await watched.follows(() => {}, '1');
      watched.none();
    }
  });
});

describe('a server that is killed', () => {
  it('is found again, with the newest state', async (t) => {
    const dir = folder(), path = join(dir, 'a.txt');
    writeFileSync(path, 'before');
    const program = await Program.start(
      `resources:\n  - files: ${path}\n    uri: note://a\n`);
    t.after(() => program.stop());
    const [v1, v2] = await Promise.all(sdks.map(({ open }) => open(program)));
    const legacy = await Watched.open(v1, 'note://a');
    const listening = await v2.client.listen({ resourceSubscriptions: ['note://a'] });
    await legacy.follows(() => replace(path, 'one'), 'one');

    await program.kill();
    await within(listening.closed, 'SDK v2 notices');
    await assert.rejects(read(v2, 'note://a'));
    replace(path, 'meanwhile');
    await program.start();

    // No session in the modern era: the same client goes on.
    assert.equal((await read(v2, 'note://a')).text, 'meanwhile');
    const modern = await Watched.open(v2, 'note://a');
    // The legacy session is gone: 404 says that one has to initialise again.
    await assert.rejects(v1.client.readResource({ uri: 'note://a' }), { code: 404 });
    const again = await Watched.open(await sdks[0].open(program), 'note://a');
    assert.equal((await read(again.peer, 'note://a')).text, 'meanwhile');

    v2.updates.items.length = 0;
    for (const text of ['two', 'three']) {
      replace(path, text);
      for (const watched of [modern, again]) await watched.follows(() => {}, text);
    }
  });
});

describe('a command that hangs', () => {
  // Processes that have this argument.
  const running = (argument) => readdirSync('/proc').filter((pid) => {
    try {
      return /^\d+$/.test(pid) &&
        readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0').includes(argument);
    } catch {
      return false;
    }
  });

  it('is killed and stale, and harms nobody else', async (t) => {
    const dir = folder(), nap = `1000.${process.pid}`;
    writeFileSync(join(dir, 'now'), '0');
    const program = await Program.start(`resources:
  - command: [sh, -c, "cat now; test ! -e hang || sleep ${nap}"]
    uri: cmd://hangs
    every: 30ms
    timeout: 5s
    retry: 20ms
    retry-max: 100ms
  - command: [cat, now]
    uri: cmd://well
    every: 30ms
`, { dir });
    t.after(() => program.stop());
    const hangs = await openAll(program, 'cmd://hangs');
    const well = await openAll(program, 'cmd://well');
    const all = [...hangs, ...well];
    replace(join(dir, 'now'), '1');
    for (const watched of all) await watched.follows(() => {}, '1');

    writeFileSync(join(dir, 'hang'), '');
    const old = await Promise.all(hangs.map((watched) => watched.isStale()));
    for (const { text, metadata } of old) {
      assert.equal(text, '1');
      assert.match(metadata.stale_reason, /within 5000 ms/);
    }
    for (let i = 2; i <= 6; i++) {
      replace(join(dir, 'now'), String(i));
      for (const watched of well) await watched.follows(() => {}, String(i));
    }
    for (const watched of hangs) watched.none();
    rmSync(join(dir, 'hang'));
    await Promise.all(hangs.map((watched) => watched.learns('6')));
    await until(() => running(nap).length === 0, 'nothing of it is left');
  });
});

describe('a web server', () => {
  it('that fails or is cut off is stale, and new again when it is back', async (t) => {
    const web = await Web.start('"one"'), proxy = await Proxy.start(web.port);
    const program = await Program.start(`resources:
  - http: http://127.0.0.1:${proxy.port}/state
    uri: web://state
    every: 100ms
    timeout: 5s
    retry: 20ms
    retry-max: 200ms
`);
    t.after(async () => {
      await program.stop();
      await proxy.stop();
      await web.stop();
    });
    const all = await openAll(program, 'web://state');
    for (const watched of all) assert.equal((await read(watched.peer, watched.uri)).text, '"one"');

    web.status = 500;
    web.content = '"two"';
    await Promise.all(all.map((watched) => watched.isStale()));
    web.status = 200;
    await Promise.all(all.map((watched) => watched.learns('"two"')));

    web.content = '"three"';
    await Promise.all(all.map((watched) => watched.learns('"three"')));
    proxy.cut();
    web.content = '"four"';
    const old = await Promise.all(all.map((watched) => watched.isStale()));
    for (const { text } of old) assert.equal(text, '"three"');
    proxy.go();
    await Promise.all(all.map((watched) => watched.learns('"four"')));
    for (const watched of all) watched.none();
  });
});

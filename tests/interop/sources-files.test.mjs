// SPDX-License-Identifier: MIT
// Files and folders when much happens, when the kernel has no more watches and when the disk
// is full. Official clients are subscribed and learn the newest state.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { appendFileSync, mkdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync }
  from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { fewWatches, refused, smallDisk } from './lib/namespace.mjs';
import { folder, Program } from './lib/program.mjs';
import { until, within } from './lib/wait.mjs';
import { isGone, list, openAll, read, sha256 } from './lib/watched.mjs';

const resources = (path) => `resources:
  - files: ${path}
    uri: notes://{+path}
`;

// Replaces a file by rename, as editors do it, as fast as it can.
const replaceOften = `
  const { renameSync, writeFileSync } = require('node:fs');
  const [hidden, name, times] = process.argv.slice(1);
  for (let i = 1; i <= times; i++) {
    writeFileSync(hidden, String(i));
    renameSync(hidden, name);
  }`;

describe('a folder', () => {
  let program, unhurried, dir; // the second with the timing that is the default

  const path = (name) => join(dir, name);

  before(async () => {
    dir = join(folder(), 'notes');
    mkdirSync(dir);
    writeFileSync(path('quiet.txt'), 'quiet');
    program = await Program.start(resources(dir));
    unhurried = await Program.start(resources(dir),
      { server: 'server:\n  listen: "http://127.0.0.1:0"\n' });
  });
  after(async () => {
    await program?.stop();
    await unhurried?.stop();
  });

  it('the last of 10,000 replacements is told', async () => {
    writeFileSync(path('a.txt'), '0');
    const all = [...await openAll(program, 'notes://a.txt'),
      ...await openAll(unhurried, 'notes://a.txt')];
    const writer = spawn(process.execPath,
      ['-e', replaceOften, path('.a'), path('a.txt'), '10000'], { stdio: 'inherit' });
    const ended = once(writer, 'exit');
    try {
      await Promise.all(all.map((watched) => watched.learns('10000')));
      const [code] = await within(ended, 'the writer ends');
      assert.equal(code, 0);
      for (const watched of all) watched.none();
    } finally {
      writer.kill('SIGKILL');
    }
  });

  it('files and folders that come and go change the list', async () => {
    const uri = 'notes://later/new.txt';
    const all = await openAll(program, uri, uri, { awaitCreation: true });
    for (const { peer } of all) await peer.watchLists();
    const listing = (is) => Promise.all(all.map(async ({ peer }) => {
      for (;;) {
        await peer.lists.next((what) => what === 'resources', 'a list change');
        if ((await list(peer)).has(uri) === is) return;
      }
    }));

    mkdirSync(path('later'));
    writeFileSync(path('later/new.txt'), 'new');
    await listing(true);
    await Promise.all(all.map((watched) => watched.learns('new')));

    rmSync(path('later'), { recursive: true });
    await listing(false);
    for (const watched of all) {
      assert.equal((await watched.update()).change_type, 'deleted');
      assert.ok(await isGone(watched.peer, watched.uri));
    }

    mkdirSync(path('.hidden'));
    writeFileSync(path('.hidden/new.txt'), 'again');
    renameSync(path('.hidden'), path('later'));
    await listing(true);
    for (const watched of all) {
      assert.equal((await watched.update()).change_type, 'created');
      assert.equal((await read(watched.peer, watched.uri)).text, 'again');
      watched.none();
    }
  });

  it('a folder that goes is stale, and new again when it is back', async () => {
    const all = await openAll(program, 'notes://quiet.txt');
    renameSync(dir, `${dir}-moved`);
    await Promise.all(all.map((watched) => watched.isStale()));
    mkdirSync(dir);
    writeFileSync(path('quiet.txt'), 'loud');
    await Promise.all(all.map((watched) => watched.learns('loud')));
  });
});

describe('without inotify watches', () => {
  it('a folder is walked, and the log names the limit', async (t) => {
    const wrap = fewWatches(3);
    const reason = refused(wrap);
    if (reason) return t.skip(reason);

    const dir = folder();
    for (const name of 'abcdef') {
      mkdirSync(join(dir, name));
      writeFileSync(join(dir, name, 'x.txt'), name);
    }
    const program = await Program.start(resources(dir), { wrap });
    t.after(() => program.stop());
    const { message, level } = await program.logged(/inotify/);
    assert.match(message, /fs\.inotify\.max_user_watches/);
    assert.equal(level, 'warning');
    const all = (await Promise.all([...'abcdef'].map(
      (name) => openAll(program, `notes://${name}/x.txt`)))).flat();
    for (const name of 'abcdef') appendFileSync(join(dir, name, 'x.txt'), ' changed');
    await Promise.all(all.map((watched) =>
      watched.learns(`${watched.uri.at('notes://'.length)} changed`)));
    for (const watched of all) watched.none();
  });
});

describe('a disk that is full', () => {
  it('what is there is served, and what fits in the end is told', async (t) => {
    const dir = join(folder(), 'disk');
    mkdirSync(dir);
    const wrap = smallDisk(dir);
    const reason = refused(wrap);
    if (reason) return t.skip(reason);

    const program = await Program.start(resources(dir), { wrap });
    t.after(() => program.stop());
    const disk = `/proc/${program.child.pid}/root${dir}`; // which only the program sees
    const full = { code: 'ENOSPC' };
    writeFileSync(join(disk, 'big.txt'), 'big');
    writeFileSync(join(disk, 'small.txt'), 'small');
    const big = await openAll(program, 'notes://big.txt');
    const small = await openAll(program, 'notes://small.txt');

    // Until nothing fits any more.
    assert.throws(() => {
      for (;;) appendFileSync(join(disk, 'big.txt'), 'x'.repeat(50_000));
    }, full);
    const size = statSync(join(disk, 'big.txt')).size;
    assert.ok(size > 500_000 && size < 1 << 20, `${size} bytes fit`);
    const part = readFileSync(join(disk, 'big.txt'), 'utf8');
    await Promise.all(big.map((watched) => watched.learns(part)));

    // A file that is there, and has no content; one that is cut in the middle.
    assert.throws(() => writeFileSync(join(disk, 'empty.txt'), 'y'.repeat(5000)), full);
    const { peer } = big[0];
    await until(async () => (await list(peer)).has('notes://empty.txt'), 'it is listed');
    const empty = await read(peer, 'notes://empty.txt');
    assert.equal(empty.metadata.checksum, sha256(readFileSync(join(disk, 'empty.txt'))));
    for (const watched of small) {
      watched.none();
      assert.equal((await read(watched.peer, watched.uri)).text, 'small');
    }

    // There is room again.
    writeFileSync(join(disk, 'big.txt'), 'no longer big');
    writeFileSync(join(disk, 'small.txt'), 'no longer small');
    await Promise.all(big.map((watched) => watched.learns('no longer big')));
    await Promise.all(small.map((watched) => watched.learns('no longer small')));
  });
});

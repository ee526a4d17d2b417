// SPDX-License-Identifier: MIT
// Reports to scripts/test: a line "ok - name" or "not ok - name" for each test, and a line
// "passed failed skipped" for it in the file that TDG_TALLY names.
import { appendFileSync } from 'node:fs';
import { basename } from 'node:path';

const tally = process.env.TDG_TALLY;

function count(passed, failed, skipped) {
  if (tally) appendFileSync(tally, `${passed} ${failed} ${skipped}\n`);
}

// What went wrong, in as few lines as say it; scripts/test shows those that begin with "# ".
function reason(error) {
  const cause = error?.cause ?? error;
  return String(cause?.stack ?? cause?.message ?? cause).replace(/^/gm, '# ');
}

export default async function* report(events) {
  const outer = new Map(); // file: the names of what a test is in
  const running = new Map(); // file: the name of the test that began last

  process.once('SIGTERM', () => {
    for (const name of running.values()) {
      count(0, 1, 0);
      process.stdout.write(`not ok - ${name}: it was running when the part was stopped\n`);
    }
    process.exit(143);
  });

  for await (const { type, data } of events) {
    const file = data.file ? basename(data.file, '.test.mjs') : '';
    if (type === 'test:start') {
      const names = outer.get(file) ?? [];
      names[data.nesting] = data.name;
      outer.set(file, names);
      running.set(file, [file, ...names.slice(0, data.nesting + 1)].join(': '));
    } else if (type === 'test:stderr' || type === 'test:stdout') {
      yield data.message;
    } else if (type === 'test:pass' || type === 'test:fail') {
      // A group is counted only when what it does before or after its tests fails.
      const group = data.details?.type === 'suite';
      const hook = data.details?.error?.failureType === 'hookFailed';
      if (group && !hook) continue;
      const names = (outer.get(file) ?? []).slice(0, data.nesting);
      const name = [file, ...names, data.name].join(': ') + (group ? ' (around it)' : '');
      running.delete(file);
      if (type === 'test:fail') {
        count(0, 1, 0);
        yield `not ok - ${name}\n${reason(data.details.error)}\n`;
      } else if (data.skip !== undefined) {
        count(0, 0, 1);
        yield `skipped - ${name}${typeof data.skip === 'string' ? `: ${data.skip}` : ''}\n`;
      } else {
        count(1, 0, 0);
        yield `ok - ${name}\n`;
      }
    }
  }
}

// SPDX-License-Identifier: MIT
// Runs the client scenarios of the official conformance suite with conformance_client, at
// both revisions, and reports as lib/reporter.mjs does: one test per scenario and revision. A
// scenario passes when none of its checks failed or warned, and the client itself ended well.
// Scenarios that are left out are in conformance-expected.yaml, each with its reason; what the
// suite has, and is neither run nor left out, has been forgotten: a failure. Each scenario is
// run as the suite wants it, with the era of the revision, and once more with an era that the
// client has to find.
//
// usage: conformance-client.mjs [SCENARIO...]
import { dirname, join } from 'node:path';
import { program as fixture } from './lib/fixture.mjs';
import {
  expected, failures, judge, requirements, revisions, run, suiteSays, test,
} from './lib/conformance.mjs';

const program = process.env.TDG_CONFORMANCE_CLIENT
  ?? join(dirname(fixture), 'conformance_client');

// Every client scenario of the suite, with the revisions that have it.
async function scenarios() {
  const { output } = await suiteSays(['list', '--client']);
  const found = new Map();
  for (const [, name, versions] of output.matchAll(/^ {2}- (\S+) \[(.*)\]$/gm)) {
    found.set(name, versions.split(','));
  }
  return found;
}

async function scenario(name, version, allowed, find) {
  const { code, output, checks } = await run(['client', '--command', program,
    '--scenario', name, '--spec-version', version, '--timeout', '120000'],
  find ? { TDG_FIND_ERA: '1' } : {});
  let problem = checks.has(name) ? judge(checks.get(name), allowed) : 'it did not run';
  // The suite looks at the client's exit code, too.
  if (!problem && code !== 0 && !allowed) problem = 'the suite is not content';
  test(`conformance of the client ${version}: ${name}${find ? ', the era to be found' : ''}`,
    problem && `${problem}\n${output.replace(/^/gm, '  ')}`);
}

const all = await scenarios();
const allowed = expected('client');
const isLeftOut = (name) => allowed.get(name) === null;
const wanted = process.argv.slice(2);

if (wanted.length === 0) {
  const unknown = [...allowed.keys()].filter((name) => !all.has(name));
  test('conformance of the client: what is left out exists',
    unknown.length > 0 ? `not in the suite: ${unknown.join(', ')}` : undefined);
  const listed = new Set(revisions.flatMap((version) => requirements(version, 'client')));
  const missing = [...listed].filter((name) => !all.has(name));
  test('conformance of the client: what the revisions require is known',
    all.size === 0 ? 'the suite has listed nothing'
      : missing.length > 0 ? `not listed: ${missing.join(', ')}` : undefined);
}
const runs = [];
for (const [name, versions] of all) {
  if (wanted.length > 0 ? !wanted.includes(name) : isLeftOut(name)) continue;
  for (const version of revisions.filter((v) => versions.includes(v))) {
    for (const find of [false, true]) {
      runs.push(() => scenario(name, version, allowed.get(name) ?? undefined, find));
    }
  }
}
// Most of them wait, each for a server of its own.
await Promise.all(Array.from({ length: 6 }, async () => {
  while (runs.length > 0) await runs.shift()();
}));
process.exitCode = failures > 0 ? 1 : 0;

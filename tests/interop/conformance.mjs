// SPDX-License-Identifier: MIT
// Runs the official conformance suite against the fixture, at both revisions, and reports as
// lib/reporter.mjs does: one test per scenario, and one for what the suite itself says of a
// whole revision with conformance-expected.yaml. A scenario passes when none of its checks
// failed or warned, or when what did is expected; one that is expected to fail and does not
// has failed. Some scenarios are in no revision's score, so they are run by name.
//
// usage: conformance.mjs [SCENARIO...]
import { spawn } from 'node:child_process';
import {
  appendFileSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync,
} from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Fixture } from './lib/fixture.mjs';

const require = createRequire(import.meta.url);
const here = dirname(fileURLToPath(import.meta.url));
const cli = join(here, 'node_modules/@modelcontextprotocol/conformance/dist/index.js');
const expectations = join(here, 'conformance-expected.yaml');
const limit = 180_000; // ms for one call of the suite

const byName = [
  ['2025-11-25', 'server-session-lifecycle'],
  ['2025-11-25', 'server-sse-polling'],
  ['2025-11-25', 'json-schema-2020-12'],
  ['2026-07-28', 'json-schema-2020-12'],
  ['2026-07-28', 'http-header-validation'],
  ['2026-07-28', 'http-custom-header-server-validation'],
];
// What has to be among the checks: without it the scenario found nothing to check.
const needed = {
  'server-sse-polling': ['server-sse-priming-event', 'server-sse-retry-field',
    'server-sse-disconnect-resume'],
  'server-session-lifecycle': ['server-session-terminated-returns-404'],
};

let failures = 0;

function test(name, problem) {
  if (process.env.TDG_TALLY) {
    appendFileSync(process.env.TDG_TALLY, problem ? '0 1 0\n' : '1 0 0\n');
  }
  if (problem) failures++;
  console.log(problem ? `not ok - ${name}\n  ${problem}` : `ok - ${name}`);
}

// Runs the suite with `args`. Returns its exit code, and the checks by scenario.
async function run(url, args) {
  const folder = mkdtempSync(join(tmpdir(), 'conformance-'));
  try {
    const child = spawn(process.execPath, [cli, 'server', '--url', url, '-o', folder, ...args],
      { stdio: ['ignore', 'pipe', 'pipe'], timeout: limit });
    let output = '';
    child.stdout.on('data', (data) => { output += data; });
    child.stderr.on('data', (data) => { output += data; });
    const code = await new Promise((resolve) => child.on('close', resolve));
    const checks = new Map();
    for (const name of readdirSync(folder)) {
      const scenario = /^server-(.*)-\d{4}-\d\d-\d\dT/.exec(name)?.[1] ?? name;
      const file = join(folder, name, 'checks.json');
      if (existsSync(file)) checks.set(scenario, JSON.parse(readFileSync(file)));
    }
    return { code, output, checks };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function readExpected() {
  const { parse } = require('yaml');
  const expected = new Map(); // scenario: set of check ids, or null for all
  for (const entry of parse(readFileSync(expectations, 'utf8'))?.server ?? []) {
    const [scenario, check] = entry.split(':');
    if (!check) expected.set(scenario, null);
    else expected.set(scenario, (expected.get(scenario) ?? new Set()).add(check));
  }
  return expected;
}

// What is wrong with a scenario, or undefined.
function judge(scenario, checks, expected) {
  const bad = checks.filter((c) => c.status === 'FAILURE' || c.status === 'WARNING');
  const missing = (needed[scenario] ?? []).filter(
    (id) => !checks.some((c) => c.id === id && c.status === 'SUCCESS'));
  if (missing.length > 0) return `not checked: ${missing.join(', ')}`;
  if (expected === null) return bad.length > 0 ? undefined : 'expected to fail, but passes';
  const unexpected = bad.filter((c) => !expected?.has(c.id));
  if (unexpected.length > 0) {
    return unexpected.map((c) => `${c.status} ${c.id}: ${c.errorMessage}`).join('\n  ');
  }
  if (!checks.some((c) => c.status === 'SUCCESS')) return 'nothing was checked';
  return undefined;
}

async function revision(url, version) {
  const { code, output, checks } = await run(url,
    ['--requirements', version, '--expected-failures', expectations]);
  const scored = requirements(version);
  const expected = readExpected();
  for (const scenario of scored) {
    test(`conformance ${version}: ${scenario}`, checks.has(scenario)
      ? judge(scenario, checks.get(scenario), expected.get(scenario)) : 'it did not run');
  }
  test(`conformance ${version}: as the suite sees it`,
    code === 0 ? undefined : output.slice(output.lastIndexOf('=== SUMMARY')));
}

function requirements(version) {
  const file = join(here,
    `node_modules/@modelcontextprotocol/conformance/requirements/${version}.yaml`);
  return require('yaml').parse(readFileSync(file, 'utf8')).server;
}

// `perhaps`: not every scenario is there in every revision.
async function named(url, version, scenario, perhaps) {
  const { output, checks } = await run(url,
    ['--scenario', scenario, '--spec-version', version]);
  if (perhaps && output.startsWith('SKIPPED')) return;
  test(`conformance ${version}: ${scenario} by name`, checks.has(scenario)
    ? judge(scenario, checks.get(scenario)) : `it did not run:\n${output}`);
}

const wanted = process.argv.slice(2);
const fixture = await Fixture.start('--retry-ms', '100');
try {
  if (wanted.length === 0) {
    await revision(fixture.url, '2025-11-25');
    await revision(fixture.url, '2026-07-28');
  }
  for (const scenario of wanted) {
    for (const version of ['2025-11-25', '2026-07-28']) {
      await named(fixture.url, version, scenario, true);
    }
  }
  if (wanted.length === 0) {
    for (const [version, scenario] of byName) await named(fixture.url, version, scenario);
  }
} finally {
  await fixture.stop().catch((error) => test('the fixture ends well', error.message));
}
process.exitCode = failures > 0 ? 1 : 0;

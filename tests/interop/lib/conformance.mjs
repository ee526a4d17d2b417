// SPDX-License-Identifier: MIT
// Running the official conformance suite and judging what it found, for both sides.
import { spawn } from 'node:child_process';
import {
  appendFileSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync,
} from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const here = dirname(dirname(fileURLToPath(import.meta.url)));
const suite = join(here, 'node_modules/@modelcontextprotocol/conformance');
const limit = 180_000; // ms for one call of the suite
const { parse } = createRequire(import.meta.url)('yaml');

export const revisions = ['2025-11-25', '2026-07-28'];
export const expectations = join(here, 'conformance-expected.yaml');
export let failures = 0;

export function test(name, problem) {
  if (process.env.TDG_TALLY) {
    appendFileSync(process.env.TDG_TALLY, problem ? '0 1 0\n' : '1 0 0\n');
  }
  if (problem) failures++;
  console.log(problem ? `not ok - ${name}\n${String(problem).replace(/^/gm, '# ')}` : `ok - ${name}`);
}

// Runs the suite. Returns its exit code and what it printed.
export async function suiteSays(args, env = {}) {
  const child = spawn(process.execPath,
    ['--import', join(here, 'lib/suite-patience.mjs'), join(suite, 'dist/index.js'), ...args],
    { stdio: ['ignore', 'pipe', 'pipe'], timeout: limit, env: { ...process.env, ...env } });
  let output = '';
  child.stdout.on('data', (data) => { output += data; });
  child.stderr.on('data', (data) => { output += data; });
  const code = await new Promise((resolve) => child.on('close', resolve));
  return { code, output };
}

// The same, and the checks by scenario.
export async function run(args, env) {
  const folder = mkdtempSync(join(tmpdir(), 'conformance-'));
  try {
    const { code, output } = await suiteSays([...args, '-o', folder], env);
    const checks = new Map();
    for (const name of readdirSync(folder)) {
      const scenario = /^(?:server-)?(.*)-\d{4}-\d\d-\d\dT/.exec(name)?.[1] ?? name;
      const file = join(folder, name, 'checks.json');
      if (existsSync(file)) checks.set(scenario, JSON.parse(readFileSync(file)));
    }
    return { code, output, checks };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

// What conformance-expected.yaml says of `side`, "server" or "client": the ids of checks by
// scenario, or null for all of a scenario.
export function expected(side) {
  const found = new Map();
  for (const entry of parse(readFileSync(expectations, 'utf8'))?.[side] ?? []) {
    const [scenario, check] = entry.split(':');
    if (!check) found.set(scenario, null);
    else found.set(scenario, (found.get(scenario) ?? new Set()).add(check));
  }
  return found;
}

// What a revision wants of `side`.
export const requirements = (version, side) =>
  parse(readFileSync(join(suite, `requirements/${version}.yaml`), 'utf8'))[side];

// What is wrong with a scenario, or undefined. `allowed` as expected() has it; `needed` are
// ids that have to be among the checks: without them the scenario found nothing to check.
export function judge(checks, allowed, needed = []) {
  const bad = checks.filter((c) => c.status === 'FAILURE' || c.status === 'WARNING');
  const missing = needed.filter(
    (id) => !checks.some((c) => c.id === id && c.status === 'SUCCESS'));
  if (missing.length > 0) return `not checked: ${missing.join(', ')}`;
  if (allowed === null) return bad.length > 0 ? undefined : 'expected to fail, but passes';
  const unexpected = bad.filter((c) => !allowed?.has(c.id));
  if (unexpected.length > 0) {
    return unexpected.map((c) => `${c.status} ${c.id}: ${c.errorMessage}`).join('\n  ');
  }
  const passing = [...allowed ?? []].filter(
    (id) => checks.some((c) => c.id === id) && !bad.some((c) => c.id === id));
  if (passing.length > 0) return `expected to fail, but pass: ${passing.join(', ')}`;
  if (!checks.some((c) => c.status === 'SUCCESS')) return 'nothing was checked';
  return undefined;
}

// SPDX-License-Identifier: MIT
// Runs the official conformance suite against the fixture, at both revisions, and reports as
// lib/reporter.mjs does: one test per scenario, and one for what the suite itself says of a
// whole revision with conformance-expected.yaml. A scenario passes when none of its checks
// failed or warned, or when what did is expected; one that is expected to fail and does not
// has failed. Some scenarios are in no revision's score, so they are run by name.
//
// usage: conformance.mjs [SCENARIO...]
import { Fixture } from './lib/fixture.mjs';
import {
  expectations, expected, failures, judge, requirements, revisions, run, test,
} from './lib/conformance.mjs';

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

async function revision(url, version) {
  const { code, output, checks } = await run(['server', '--url', url,
    '--requirements', version, '--expected-failures', expectations]);
  const allowed = expected('server');
  for (const scenario of requirements(version, 'server')) {
    test(`conformance ${version}: ${scenario}`, checks.has(scenario)
      ? judge(checks.get(scenario), allowed.get(scenario), needed[scenario])
      : 'it did not run');
  }
  test(`conformance ${version}: as the suite sees it`,
    code === 0 ? undefined : output.slice(output.lastIndexOf('=== SUMMARY')));
}

// `perhaps`: not every scenario is there in every revision.
async function named(url, version, scenario, perhaps) {
  const { output, checks } = await run(['server', '--url', url,
    '--scenario', scenario, '--spec-version', version]);
  if (perhaps && output.startsWith('SKIPPED')) return;
  test(`conformance ${version}: ${scenario} by name`, checks.has(scenario)
    ? judge(checks.get(scenario), undefined, needed[scenario])
    : `it did not run:\n${output}`);
}

const wanted = process.argv.slice(2);
const fixture = await Fixture.start('--retry-ms', '100');
try {
  if (wanted.length === 0) {
    for (const version of revisions) await revision(fixture.url, version);
  }
  for (const scenario of wanted) {
    for (const version of revisions) await named(fixture.url, version, scenario, true);
  }
  if (wanted.length === 0) {
    for (const [version, scenario] of byName) await named(fixture.url, version, scenario);
  }
} finally {
  await fixture.stop().catch((error) => test('the fixture ends well', error.message));
}
process.exitCode = failures > 0 ? 1 : 0;

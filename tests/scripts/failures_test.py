#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What `make test` shows of a test that fails: its own output, and not too much of it."""
import json
import os
import subprocess
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


class Failures(unittest.TestCase):
    def shown(self, *runs):
        """What is shown of a part with these runs, and the tally."""
        with tempfile.TemporaryDirectory() as folder:
            names = [os.path.join(folder, name) for name in ("testlog.json", "tally", "part.log")]
            with open(names[0], "w", encoding="utf-8") as file:
                file.writelines(json.dumps(run) + "\n" for run in runs)
            log = subprocess.check_output([ROOT + "/scripts/count-tests", *names[:2]], text=True)
            with open(names[2], "w", encoding="utf-8") as file:
                file.write(log)
            text = subprocess.check_output([ROOT + "/scripts/test", "--errors", names[2]], text=True)
            with open(names[1], encoding="utf-8") as file:
                return text.splitlines(), file.read().split()

    def test_a_program_without_tap_shows_its_last_lines(self):
        run = {"name": "tidings:bench / fanout", "result": "FAIL", "stdout": "n  peer\n" * 40,
               "stderr": "\n".join(f"line {n}" for n in range(40)) + "\ncannot start nginx\n"}
        lines, tally = self.shown(run)
        self.assertEqual(lines[0], "not ok - fanout: FAIL")
        self.assertEqual(lines[-1], "# cannot start nginx")
        self.assertEqual(len(lines), 19)
        self.assertEqual(tally, ["0", "1", "0"])

    def test_a_failed_case_shows_what_it_noted_and_nothing_else(self):
        run = {"name": "uri", "result": "FAIL", "stderr": "noise\n",
               "stdout": "1..2\nok 1 - a\nnot ok 2 - b\n# 1 != 2\n# uri_test.c:7: error\n"}
        lines, tally = self.shown(run)
        self.assertEqual(lines, ["not ok - uri: b", "# 1 != 2", "# uri_test.c:7: error"])
        self.assertEqual(tally, ["1", "1", "0"])

    def test_a_crash_shows_what_the_sanitizer_wrote(self):
        run = {"name": "map", "result": "FAIL", "stdout": "1..3\nok 1 - a\n",
               "stderr": "ERROR: AddressSanitizer: heap-use-after-free\n    #0 in take map.c:9\n"}
        lines, tally = self.shown(run)
        self.assertIn("2 of 3 cases have not ended; the last that did is a", lines[0])
        self.assertEqual(lines[-1], "#     #0 in take map.c:9")
        self.assertEqual(tally, ["1", "2", "0"])

    def test_a_leak_after_the_last_case_shows_where(self):
        run = {"name": "map", "result": "FAIL", "stdout": "1..1\nok 1 - a\n",
               "stderr": "SUMMARY: AddressSanitizer: 8 byte(s) leaked\n"}
        lines, tally = self.shown(run)
        self.assertEqual(lines[0], "not ok - map: FAIL, after 1 of 1 cases passed")
        self.assertIn("# SUMMARY: AddressSanitizer: 8 byte(s) leaked", lines)
        self.assertEqual(tally, ["1", "1", "0"])

    def test_each_failure_has_twenty_lines_at_most(self):
        runs = [{"name": name, "result": "FAIL", "stdout": "x\n" * 1000} for name in "abc"]
        lines, _ = self.shown(*runs, {"name": "d", "result": "OK", "stdout": "fine\n"})
        self.assertEqual([line for line in lines if line.startswith("not ok")],
                         [f"not ok - {name}: FAIL" for name in "abc"])
        self.assertLessEqual(len(lines), 60)


if __name__ == "__main__":
    unittest.main()

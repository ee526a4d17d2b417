#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What scripts/check-includes finds, in a small tree of its own."""
import os
import shutil
import subprocess
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

FILES = {
    "src/base/list.h": "struct tdg__list {\n};\n",
    "src/base/list.c": '#include "base/list.h"\n',
    "src/net/tcp/conn.c": '#include <uv.h>\n#include "base/list.h"\n',
    "src/net/tcp/conn.h": "typedef struct tdg__conn tdg__conn_t;\n",
    "src/net/udp/conn.c": '#include "base/list.h"\n#include "net/tcp/conn.h"\n',
    "cli/main.c": '#include "net/tcp/conn.h"\n#include "ask/ask.h"\n',
    "cli/ask/ask.h": '#include "base/list.h"\n',
}
ROOMS = """\
base      -
net/tcp   base
net/udp   base net/tcp
cli       net/tcp ^cli/ask
cli/ask   base
"""


class Tree(unittest.TestCase):
    def setUp(self):
        self.root = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.root)
        self.script = os.path.join(self.root, "scripts", "check-includes")
        os.mkdir(os.path.dirname(self.script))
        shutil.copy(os.path.join(ROOT, "scripts", "check-includes"), self.script)
        for path, text in FILES.items():
            self.write(path, text)
        self.lists(ROOMS)

    def write(self, path, text):
        path = os.path.join(self.root, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    def lists(self, rooms):
        self.write("docs/architecture.md", f"```rooms\n{rooms}```\n")

    def run_script(self, *args):
        return subprocess.run([self.script, *args], text=True, capture_output=True, check=False)

    def finds(self, *sentences):
        """That it fails, and says each of these and nothing more."""
        done = self.run_script()
        self.assertEqual(done.returncode, 1)
        said = done.stderr.splitlines()[:-1]  # the last line says what to do
        self.assertEqual([line.removeprefix("check-includes: ") for line in said], list(sentences))

    def test_accepts_what_is_listed(self):
        done = self.run_script()
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_finds_an_include_that_is_not_listed(self):
        self.write("src/net/tcp/conn.c", '#include "net/udp/conn.h"\n#include "base/list.h"\n')
        self.write("src/net/udp/conn.h", "")
        self.finds("net/tcp may not use ^net/udp: net/tcp/conn.c")

    def test_finds_a_call_whose_header_came_with_another(self):
        self.write("src/net/tcp/conn.h", "")
        self.write("src/net/udp/conn.c", '#include "base/list.h"\n#include "net/tcp/conn.h"\n'
                   "void tdg__udp_open(void) {\n}\n")
        self.write("cli/main.c", '#include "net/tcp/conn.h"\n#include "ask/ask.h"\n'
                   "int main(void) {\n    tdg__udp_open();\n}\n")
        self.finds("cli may not use net/udp: cli/main.c")

    def test_finds_an_edge_that_is_not_used(self):
        self.write("cli/ask/ask.h", "")
        self.finds("cli/ask does not use base any more")

    def test_finds_a_room_that_is_not_listed_and_one_that_is_gone(self):
        self.write("src/log/log.h", "")
        self.lists(ROOMS + "trace     -\n")
        self.finds("log: is not listed", "trace: there is no such folder")

    def test_finds_a_type_that_is_defined_twice(self):
        self.write("src/net/udp/conn.h", "typedef struct tdg__list {\n} tdg__list_t;\n")
        self.finds("tdg__list is defined in base/list.h and in net/udp/conn.h")

    def test_takes_a_declaration_for_no_definition(self):
        self.write("src/net/udp/conn.h", "struct tdg__list;\ntypedef struct tdg__conn tdg__conn_t;\n")
        self.assertEqual(self.run_script().returncode, 0)

    def test_finds_a_type_of_functions_that_is_defined_twice(self):
        self.write("src/base/list.h", "typedef void (*tdg__done_fn)(void *user);\n")
        self.write("src/net/tcp/conn.h", "typedef int (*tdg__done_fn)(int status);\n")
        self.finds("tdg__done_fn is defined in base/list.h and in net/tcp/conn.h")

    def test_finds_a_function_that_another_room_defines(self):
        self.write("src/base/list.h", "/* x() */\nint tdg__list_add(int a,\n                  int b);\n"
                   "void tdg__list_own(void);\n")
        self.write("src/base/list.c", "void tdg__list_own(void) {\n}\n")
        self.write("src/net/udp/conn.c", '#include "base/list.h"\n#include "net/tcp/conn.h"\n'
                   "int tdg__list_add(int a,\n                  int b) {\n    return a + b;\n}\n")
        self.finds("tdg__list_add is declared in base and defined in net/udp")

    def test_finds_headers_that_include_each_other(self):
        self.write("src/base/list.h", '#include "base/pool.h"\n')
        self.write("src/base/pool.h", '#include "base/list.h"\n')
        self.finds("these headers include each other: base/list.h base/pool.h")

    def test_finds_an_include_of_nothing(self):
        self.write("src/base/list.c", '#include "base/lost.h"\n')
        done = self.run_script()
        self.assertEqual(done.returncode, 1)
        self.assertIn("base/list.c: there is no base/lost.h", done.stderr)

    def test_prints_what_it_accepts(self):
        self.write("src/serve/serve.c", "".join(
            f'#include "{name}"\n' for name in ("base/list.h", "net/tcp/conn.h", "net/udp/conn.h",
                                                "ask/ask.h", "cli.h")))
        self.write("src/net/udp/conn.h", "")
        self.write("cli/cli.h", "")
        self.assertEqual(self.run_script("--write").returncode, 0)
        self.assertEqual(self.run_script().returncode, 0)
        self.assertIn("serve    base net/{tcp udp} cli cli/ask\n", self.run_script("--print").stdout)


if __name__ == "__main__":
    unittest.main()

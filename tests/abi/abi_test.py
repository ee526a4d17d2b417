#!/usr/bin/env python3
"""Programs that were compiled against other headers run on the libraries as they are now.

usage: abi_test.py LIBRARIES [--update]

tests/abi/baseline has the headers and exported symbols of the first release with this ABI.
program.c is compiled, as C11 and as C++17,
  - against these headers: what was shipped goes on working;
  - against today's headers with a field planted at the end of each struct that may grow: a
    program that is newer than the library;
  - against today's headers without the last field of these structs: a program that is older.
Then the exported symbols are compared, and, where abidiff (abigail-tools) is installed, the
types behind the public functions.

--update makes today's state the baseline. That is for the release that starts a new ABI.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
BASELINE = os.path.join(HERE, "baseline")
LIBRARIES = ["tidings", "tidings-client", "tidings-sources"]

# Structs that may grow: what docs/abi.md says of them is tried with each.
GROW = ["tdg_settings", "tdg_watcher", "tdg_server_opts", "tdg_listen_opts", "tdg_resource",
        "tdg_template", "tdg_tool", "tdg_prompt", "tdg_server_counters",
        "tdg_subscription_query", "tdg_client_opts", "tdg_subscribe_opts",
        "tdg_server_facts", "tdg_client_counters", "tdg_sources_opts"]

# Their last field is what the program uses, so it cannot be taken away.
NEEDED_LAST = {"tdg_watcher", "tdg_resource", "tdg_template"}

failures = []


def check(name, problems):
    for problem in problems:
        print(f"    {problem}")
    print(f"{'not ok' if problems else 'ok'} - {name}")
    failures.extend(problems)


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def planted(text, name):
    return re.sub(rf"\n}} {name}_t;", f"\n    uint64_t planted[2];\n}} {name}_t;", text)


def without_last(text, name):
    """The struct without its last field, with the comments before and behind that."""
    found = re.search(rf"(typedef struct {name}(?:_t)? {{\n)(.*?)(\n}} {name}_t;)", text, re.S)
    body = re.sub(r"/\*.*?\*/", lambda c: re.sub(r"[^\n]", " ", c[0]), found[2], flags=re.S)
    fields = [m.end() for m in re.finditer(r";", body)]
    return text[:found.start(2)] + body[:fields[-2]] + text[found.end(2):]


def last_field(text, name):
    body = re.search(rf"typedef struct {name}(?:_t)? {{\n(.*?)\n}} {name}_t;", text, re.S)[1]
    body = re.sub(r"/\*.*?\*/", "", body, flags=re.S)
    return re.search(r"(\w+)(\[\w+\])?;\s*$", re.sub(r"\)\([^()]*\);", ";", body))[1]


def padded(include, scratch):
    """Structs with padding at the end. What a program leaves there is anything, and a field
    that is added later could come to lie there without a larger size."""
    text = "".join(read(os.path.join(include, "tidings", file))
                   for file in sorted(os.listdir(os.path.join(include, "tidings"))))
    source = os.path.join(scratch, "padding.c")
    with open(source, "w", encoding="utf-8") as out:
        out.write("#include <tidings/tidings.h>\n")
        for name in GROW:
            field = last_field(text, name)
            out.write(f"_Static_assert(offsetof({name}_t, {field}) + "
                      f"sizeof((({name}_t *)0)->{field}) == sizeof({name}_t), "
                      f"\"{name} is padded behind {field}\");\n")
    built = subprocess.run(["cc", "-std=c11", "-fsyntax-only", f"-I{include}", source],
                           capture_output=True, text=True, check=False)
    return [line for line in built.stderr.splitlines() if "error:" in line]


def headers(folder, change, names):
    """Writes today's public headers, with the structs changed; all of them must be found."""
    os.makedirs(os.path.join(folder, "tidings"))
    changed = set()
    for file in sorted(os.listdir(os.path.join(ROOT, "include/tidings"))):
        text = read(os.path.join(ROOT, "include/tidings", file))
        for name in names:
            if f"}} {name}_t;" in text:
                text = change(text, name)
                changed.add(name)
        with open(os.path.join(folder, "tidings", file), "w", encoding="utf-8") as out:
            out.write(text)
    return [f"no struct {name} in the headers" for name in names if name not in changed]


def compile_and_run(include, libraries, scratch):
    jansson = subprocess.run(["pkg-config", "--cflags", "--libs", "jansson"], check=True,
                             capture_output=True, text=True).stdout.split()
    environment = os.environ | {"LD_LIBRARY_PATH": libraries}
    problems = []
    for compiler in (["cc", "-std=c11"], ["c++", "-x", "c++", "-std=c++17"]):
        program = os.path.join(scratch, "program")
        built = subprocess.run(
            [*compiler, "-pedantic", "-Wall", "-Wextra", "-Wshadow", "-Wconversion",
             "-Werror", f"-I{include}",
             os.path.join(HERE, "program.c"), "-x", "none", "-o", program,
             f"-L{libraries}", *[f"-l{name}" for name in LIBRARIES], *jansson],
            capture_output=True, text=True, check=False)
        if built.returncode != 0:
            problems += [f"{compiler[0]}: {line}" for line in built.stderr.splitlines()[:20]]
            continue
        ran = subprocess.run([program], capture_output=True, text=True, timeout=60,
                             env=environment, check=False)
        if ran.returncode != 0:
            problems.append(f"{compiler[0]}: status {ran.returncode}: {ran.stderr.strip()}")
    return problems


def symbols(library):
    """The public ones, with versions; internals are nobody's business."""
    text = subprocess.run(["nm", "-D", "--defined-only", library], check=True,
                          capture_output=True, text=True).stdout
    return sorted(set(re.findall(r" T (tdg_[^_\s]\S*)", text)))


def compare_symbols(libraries):
    problems = []
    for name in LIBRARIES:
        now = symbols(os.path.join(libraries, f"lib{name}.so"))
        before = read(os.path.join(BASELINE, f"lib{name}.symbols")).split()
        problems += [f"lib{name}: {symbol} is gone" for symbol in before if symbol not in now]
    return problems


def compile_types(include, scratch, name):
    """A library with a variable of the type of each public function, with debug information."""
    text = "".join(read(os.path.join(include, "tidings", file))
                   for file in sorted(os.listdir(os.path.join(include, "tidings"))))
    functions = sorted(set(re.findall(r"TDG_API\b[^;()]*?(tdg_\w+)(?=\s*\()", text)))
    source = os.path.join(scratch, "types.c")
    library = os.path.join(scratch, f"lib{name}.so")
    with open(source, "w", encoding="utf-8") as out:
        out.write("#include <tidings/tidings.h>\n")
        out.writelines(f"__typeof__({f}) *type_of_{f};\n" for f in functions)
    subprocess.run(["cc", "-g", "-shared", "-fPIC", "-fno-eliminate-unused-debug-types",
                    f"-I{include}", source, "-o", library], check=True)
    return library


def compare_types(include, scratch):
    """What abidiff finds between the baseline's headers and those in `include`."""
    before = compile_types(BASELINE, scratch, "before")
    now = compile_types(include, scratch, "now")
    done = subprocess.run(["abidiff", "--suppressions", os.path.join(HERE, "growing.suppr"),
                           "--no-added-syms", before, now],
                          capture_output=True, text=True, check=False)
    lines = done.stdout.splitlines()[:60] + done.stderr.splitlines()[:5]
    return lines or [f"abidiff: status {done.returncode}"] if done.returncode != 0 else []


def with_inserted(text, name):
    return re.sub(rf"(typedef struct {name}(?:_t)? {{\n)", r"\1    int inserted;\n", text)


def types_tests(scratch, newer):
    """That today's types fit; and that abidiff would find it if they did not."""
    check("abidiff finds no change of the public types but fields at the end",
          compare_types(os.path.join(ROOT, "include"), scratch))
    check("abidiff takes fields at the end", compare_types(newer, scratch))
    wrong = os.path.join(scratch, "wrong")
    problems = headers(wrong, with_inserted, ["tdg_listen_opts"])
    found = compare_types(wrong, scratch)
    check("abidiff finds a field that was inserted elsewhere",
          problems or ([] if found else ["it finds none"]))


def update(libraries):
    shutil.rmtree(BASELINE, ignore_errors=True)
    shutil.copytree(os.path.join(ROOT, "include/tidings"), os.path.join(BASELINE, "tidings"))
    for name in LIBRARIES:
        library = os.path.join(libraries, f"lib{name}.so")
        with open(os.path.join(BASELINE, f"lib{name}.symbols"), "w", encoding="utf-8") as out:
            out.write("\n".join(symbols(library)) + "\n")


def main():
    libraries = os.path.abspath(sys.argv[1])
    if sys.argv[2:] == ["--update"]:
        update(libraries)
        return 0
    with tempfile.TemporaryDirectory() as scratch:
        check("a program compiled against the baseline's headers runs",
              compile_and_run(BASELINE, libraries, scratch))

        check("no struct that may grow ends in padding",
              padded(os.path.join(ROOT, "include"), scratch))

        newer = os.path.join(scratch, "newer")
        problems = headers(newer, planted, GROW)
        check("a program with a planted field in every options struct runs",
              problems or compile_and_run(newer, libraries, scratch))

        older = os.path.join(scratch, "older")
        problems = headers(older, without_last,
                           [name for name in GROW if name not in NEEDED_LAST])
        check("a program that does not know the last field of any struct runs",
              problems or compile_and_run(older, libraries, scratch))

        check("every symbol of the baseline is still exported", compare_symbols(libraries))
        if shutil.which("abidiff"):
            types_tests(scratch, newer)
        else:
            print("skipped - the types of the baseline: abidiff (abigail-tools) is missing")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())

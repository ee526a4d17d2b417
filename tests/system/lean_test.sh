#!/bin/bash
# A build that leaves out all it can: usage: lean_test.sh PROGRAM. It serves a file, says
# what it lacks, and does not load what it has left out.
set -euo pipefail
program=$1
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

fails() {
    echo "$*" >&2
    exit 1
}

"$program" --version | grep -qx 'without: client, http-source, postgres, sqlite' ||
    fails 'tidings --version does not say what is left out'
if ldd "$program" | grep -E 'lib(curl|pq|sqlite3)'; then
    fails 'it loads a library that was left out'
fi

for kind in http postgres sqlite; do
    printf 'resources:\n  - %s: x\n    uri: a://b\n' "$kind" >"$scratch/tidings.yaml"
    if "$program" check "$scratch/tidings.yaml" >"$scratch/out" 2>&1; then
        fails "a config with the kind $kind is right"
    fi
    grep -q "this build of tidings leaves out the kind $kind" "$scratch/out" ||
        fails "the problem of a config with the kind $kind is another one: $(cat "$scratch/out")"
done

if "$program" watch x >"$scratch/out" 2>&1; then
    fails 'there is a command that was left out'
fi
grep -q "unknown command 'watch' in this build" "$scratch/out" ||
    fails "it does not say that the build lacks the command: $(cat "$scratch/out")"

echo 'what is in it' >"$scratch/note.txt"
request() {
    printf '{"jsonrpc":"2.0","id":%s,"method":"%s","params":%s}\n' "$1" "$2" "$3"
}
{
    request 1 initialize '{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}'
    echo '{"jsonrpc":"2.0","method":"notifications/initialized"}'
    request 2 resources/read "{\"uri\":\"file://$scratch/note.txt\"}"
    for _ in $(seq 1000); do # the end of its input would end the program
        ! grep -qs '"id":2' "$scratch/out" || break
        sleep 0.05
    done
} | timeout 60 "$program" serve --stdio "$scratch/note.txt" >"$scratch/out" 2>"$scratch/log"
grep -q 'what is in it' "$scratch/out" ||
    fails "the file was not read: $(cat "$scratch/out" "$scratch/log")"

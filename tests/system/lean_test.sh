#!/bin/bash
# A build that leaves out all it can: usage: lean_test.sh PROGRAM. It serves a file, says
# what it lacks, and does not load what it has left out.
set -euo pipefail
program=$(realpath "$1")
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

fails() {
    echo "$*" >&2
    exit 1
}

"$program" --version | grep -qx 'without: client, http-source, postgres, sqlite, yaml' ||
    fails 'tidings --version does not say what is left out'
if ldd "$program" | grep -E 'lib(curl|pq|sqlite3|yaml)'; then
    fails 'it loads a library that was left out'
fi

# refused CONFIG TEXT: `tidings check` finds the config wrong, with that text.
refused() {
    echo "$1" >"$scratch/tidings.json"
    if "$program" check "$scratch/tidings.json" >"$scratch/out" 2>&1; then
        fails "this config is valid: $1"
    fi
    grep -qF "tidings.json:$2" "$scratch/out" ||
        fails "the problem of the config $1 is another one: $(cat "$scratch/out")"
}

for kind in http postgres sqlite; do
    refused "{\"resources\": [{\"$kind\": \"x\", \"uri\": \"a://b\"}]}" \
        "1:17: resources[0].$kind: this build of tidings leaves out the kind $kind"
done

# A config is JSON.
refused $'resources:\n  - files: .' \
    '1:1: this is not valid JSON, and this build of tidings has no YAML'
refused $'{\n  "server": {"workers": "many"}\n}' \
    '2:25: server.workers: "many" is not a whole number'
(
    cd "$scratch"
    rm tidings.json
    "$program" init
    "$program" check
) >"$scratch/out" 2>&1 || fails "init wrote a config that is wrong: $(cat "$scratch/out")"
grep -q "$scratch" "$scratch/out" || fails "check does not list it: $(cat "$scratch/out")"

if "$program" watch x >"$scratch/out" 2>&1; then
    fails 'there is a command that was left out'
fi
grep -q "unknown command 'watch' in this build" "$scratch/out" ||
    fails "it does not say that the build lacks the command: $(cat "$scratch/out")"

echo 'what is in it' >"$scratch/note.txt"
cat >"$scratch/tidings.json" <<END
{"server": {"name": "lean", "window": "0"},
 "resources": [{"files": "note.txt", "uri": "note://one"}]}
END
request() {
    printf '{"jsonrpc":"2.0","id":%s,"method":"%s","params":%s}\n' "$1" "$2" "$3"
}
# serves URI ARGUMENT...: what `tidings serve` with these has under the URI.
serves() {
    {
        request 1 initialize '{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}'
        echo '{"jsonrpc":"2.0","method":"notifications/initialized"}'
        request 2 resources/read "{\"uri\":\"$1\"}"
        for _ in $(seq 1000); do # the end of its input would end the program
            ! grep -qs '"id":2' "$scratch/out" || break
            sleep 0.05
        done
    } | timeout 60 "$program" serve --stdio "${@:2}" >"$scratch/out" 2>"$scratch/log"
    grep -q 'what is in it' "$scratch/out" ||
        fails "the file was not read: $(cat "$scratch/out" "$scratch/log")"
    rm "$scratch/out"
}

serves "file://$scratch/note.txt" "$scratch/note.txt"
serves note://one --config "$scratch/tidings.json"

#!/bin/bash
# The examples from outside, in TAP: `examples_test.sh FOLDER-OF-PROGRAMS`. Each is started on a
# free port, a modern and a legacy client (curl) see a change, and SIGTERM ends it well.
set -u
folder=$1
# shellcheck source=tests/system/lib.sh
source "$(dirname "$0")/lib.sh"
server=

end() { kill $server; }

# Waits until FILE has a line with TEXT; a minute at most.
has() {
    timeout 60 sh -c 'until grep -q "$2" "$1" 2>/dev/null; do sleep 0.05; done' - "$1" "$2"
}

post() { # BODY CURL-OPTION...
    body=$1
    shift
    curl -sN --max-time 240 "$url" -H 'Content-Type: application/json' -d "$body" "$@"
}

meta='"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",
    "io.modelcontextprotocol/clientCapabilities":{}}'

modern() { # URI
    post '{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{'"$meta"',
        "notifications":{"resourceSubscriptions":["'"$1"'"]}}}' \
        -H 'MCP-Protocol-Version: 2026-07-28' -H 'Mcp-Method: subscriptions/listen' \
        >"$work/modern" &
    listener=$!
    has "$work/modern" acknowledged && has "$work/modern" resources/updated
}

legacy() { # URI
    post '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25",
        "capabilities":{},"clientInfo":{"name":"curl","version":"1"}}}' -D "$work/head" >"$work/init"
    session=$(tr -d '\r' <"$work/head" | grep -i '^mcp-session-id:')
    post '{"jsonrpc":"2.0","id":2,"method":"resources/subscribe","params":{"uri":"'"$1"'"}}' \
        -H "$session" >"$work/subscribed"
    curl -sN --max-time 240 "$url" -H "$session" -H 'Accept: text/event-stream' >"$work/legacy" &
    has "$work/subscribed" '"result":{}' && has "$work/legacy" resources/updated
}

ends_well() {
    kill "$server"
    wait "$server" && wait "$listener" && grep -q '"resultType":"complete"' "$work/modern"
}

for row in weather=weather://city/san-francisco metrics=data://metrics; do
    name=${row%%=*} uri=${row#*=}
    rm -f "$work"/*
    "$folder/$name" 0 1 >"$work/out" &
    server=$!
    ok "$name says where it serves" has "$work/out" http://
    url=$(cat "$work/out")
    ok "$name tells a modern client of a change" modern "$uri"
    ok "$name tells a legacy client of a change" legacy "$uri"
    ok "$name ends its streams and itself on SIGTERM" ends_well
done
finish

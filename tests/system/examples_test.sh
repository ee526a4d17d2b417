#!/bin/bash
# The examples from outside, in TAP: `examples_test.sh FOLDER-OF-PROGRAMS`. Each server is started
# on a free port, a modern and a legacy client (curl) see a change, and SIGTERM ends it well. Then
# the clients among the examples with their servers.
set -u
folder=$1
# shellcheck source=tests/system/lib.sh
source "$(dirname "$0")/lib.sh"
server=
client=

end() { kill $server $client; }

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

helps() {
    "$folder/$1" --help | grep -q "^usage: $1 " && ! "$folder/$1" --nonsense 2>/dev/null
}
for name in weather metrics weather_client metrics_client; do
    ok "$name --help helps" helps "$name"
done

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

serve() { # NAME PORT SECONDS
    : >"$work/out"
    "$folder/$1" "$2" "$3" >"$work/out" &
    server=$!
    has "$work/out" http:// && url=$(cat "$work/out")
}

weather_is_told() {
    timeout 120 "$folder/weather_client" "$url" 2 >"$work/weather" || return 1
    grep -q '^Subscribed to weather://city/san-francisco$' "$work/weather" &&
        (($(grep -c '^Weather update for weather://city/san-francisco:$' "$work/weather") == 2)) &&
        (($(grep -cE '^  Temperature: [0-9.]+°F$' "$work/weather") == 2)) &&
        (($(grep -cE '^  Humidity: [0-9]+%$' "$work/weather") == 2)) &&
        (($(grep -cE '^  Condition: (Sunny|Partly Cloudy|Foggy|Rain)$' "$work/weather") == 2))
}

metrics_are_set() {
    "$folder/metrics_client" "$url" 12.5 80.5 >"$work/metrics" &
    client=$!
    has "$work/metrics" '^Subscribed to data://metrics$' &&
        has "$work/metrics" '^The tool answers: Metrics updated$' &&
        has "$work/metrics" '^Metrics updated: {"cpu": 12.5, "memory": 80.5}$'
}

# The new one begins with other metrics than those that were set in the old one.
comes_back() {
    kill "$server"
    wait "$server"
    has "$work/metrics" '^Connection lost' || return 1
    port=${url##*:}
    serve metrics "${port%/mcp}" 3600 && has "$work/metrics" '^Reconnected$' &&
        has "$work/metrics" '^Metrics updated: {"cpu": 45.2, "memory": 60.1}$'
}

client_ends_well() {
    kill "$client"
    wait "$client" && has "$work/metrics" '^Unsubscribed$'
}

no_server() {
    ! "$folder/$1" http://127.0.0.1:1 >"$work/out" 2>"$work/err" && grep -q "^$1: " "$work/err"
}

serve weather 0 1
ok "weather_client prints what changed" weather_is_told
kill "$server"
wait "$server"
serve metrics 0 3600
ok "metrics_client calls the tool and is told of the change" metrics_are_set
ok "metrics_client finds a restarted server, and what is different there" comes_back
ok "metrics_client unsubscribes and ends on SIGTERM" client_ends_well
kill "$server"
wait "$server"
for name in weather_client metrics_client; do
    ok "$name says that there is no server" no_server "$name"
done
finish

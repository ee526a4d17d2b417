#!/bin/bash
# `tidings publish` against a real server: what arrives, what it says. Prints TAP.
#
#     tests/system/publish_test.sh build/tidings build/tests/publish_server build/tests/mute_names.so
#
# With a fourth argument, only the tests with that in the name.
set -u

# shellcheck source=tests/system/lib.sh
source "$(dirname "$0")/lib.sh"
server='' mute_names=''
takes tidings server mute_names -- "$@"
unset http_proxy https_proxy all_proxy HTTP_PROXY HTTPS_PROXY ALL_PROXY
unset TIDINGS_PUBLISH_KEY

pid=''

# Starts the server; its address is $url, what it keeps comes to $work/kept.
start() {
    coproc SERVER { exec "$server" "$@" 2>/dev/null; }
    pid=$SERVER_PID
    exec 8<&"${SERVER[0]}" 9>&"${SERVER[1]}"
    read -r -t 30 port <&8 || { echo "Bail out! the server does not start"; exit 1; }
    url=http://127.0.0.1:$port
}

# Ends its input, and waits for it. What it has printed is in $work/kept.
stop() {
    [[ -n $pid ]] || return 0
    local in=${SERVER[1]-}
    [[ -z $in ]] || eval "exec $in>&-"
    exec 9>&-
    cat <&8 >"$work/kept"
    exec 8<&-
    wait "$pid" 2>/dev/null || why "the server ended with $?"
    local ended=$?
    pid=''
    return $ended
}
end() { stop; }
tear_down() { stop; }

kept() {
    grep -qxF -- "$1" "$work/kept" || why "'$1' was not kept:" "$(cat "$work/kept")"
}

# ---- Tests ----

a_change_is_published() {
    start 'the key'
    TIDINGS_PUBLISH_KEY='the key' run publish "$url" a:1 --metadata '{"by":"cron"}'
    exits 0 && out_has '^published a:1: change [0-9]+, version [0-9]+; 0 subscriptions match now$' || return
    MINE='the key' run publish "$url/mcp" a:2 --deleted --key-env MINE --json
    exits 0 && out_has '^\{"changes":\[\{"uri":"a:2","number":[0-9]+,.*"subscriptions":0\}\]\}$' || return
    stop
    kept 'heard of a:1 with {"by":"cron"}' && kept 'heard of a:2, deleted'
}

content_comes_from_a_file_or_from_input() {
    start key
    export TIDINGS_PUBLISH_KEY=key
    printf 'ab\303\251' >"$work/text"
    printf 'a\0b\377' >"$work/bytes"
    run publish "$url/" memory://1 --content "$work/text" --mime-type text/plain
    exits 0 || return
    run publish "$url" memory://2 --content "$work/bytes"
    exits 0 || return
    run publish "$url/publish" memory://3 --content - <<<'in'
    exits 0 || return
    run publish "$url" memory://4 --content /dev/null
    exits 0 || return
    stop
    unset TIDINGS_PUBLISH_KEY
    kept 'kept memory://1 as text/plain: 6162c3a9' && kept 'kept memory://2 as nothing: 610062ff' &&
        kept 'kept memory://3 as nothing: 696e0a' && kept 'kept memory://4 as nothing: '
}

input_that_does_not_end_takes_no_longer_than_allowed() {
    start key
    export TIDINGS_PUBLISH_KEY=key
    mkfifo "$work/pipe"
    local input
    for input in - "$work/pipe"; do
        exec 7<>"$work/pipe" # a writer that writes nothing more
        printf 'part' >&7
        run publish "$url" memory://1 --content "$input" --timeout 300ms <&7
        exits 4 && err_has "publish: $input did not end within 300ms" &&
            err_has '^  Allow more time with --timeout TIME' || return
        exec 7>&-
    done
    run publish "$url" memory://1 --content - < <(printf i; printf 'n\n')
    exits 0 || return
    unset TIDINGS_PUBLISH_KEY
    stop
    kept 'kept memory://1 as nothing: 696e0a'
}

what_the_server_refuses_is_said() {
    start key
    export TIDINGS_PUBLISH_KEY=key
    run publish "$url" a:1 --content /dev/null
    exits 6 && err_has '^tidings: publish: refused: content can be published for memory: only \(status 409\)$' || return
    run publish "$url" 'no uri'
    exits 1 && err_has 'refused: uri is not a valid URI' || return
    TIDINGS_PUBLISH_KEY=wrong run publish "$url" a:1
    exits 5 && err_has 'does not accept the key in TIDINGS_PUBLISH_KEY' || return
    grep -q wrong "$work/err" && why 'the key was printed' && return 1
    run publish "$url/elsewhere" a:1
    exits 6 && err_has 'publishing is not enabled at' || return
    unset TIDINGS_PUBLISH_KEY
    stop
    [[ ! -s $work/kept ]] || why 'something was kept:' "$(cat "$work/kept")"
}

a_server_without_a_key_says_so() {
    start
    TIDINGS_PUBLISH_KEY=key run publish "$url" a:1
    exits 6 && err_has 'publishing is not enabled at' && err_has '^  Set .publish.key. in the config'
}

the_address_may_be_in_the_environment() {
    start key
    export TIDINGS_PUBLISH_KEY=key
    TIDINGS_URL=$url run publish a:1
    exits 0 && out_has '^published a:1' || return
    TIDINGS_URL=http://127.0.0.1:1 run publish "$url" a:2
    exits 0 && out_has '^published a:2' || return
    TIDINGS_URL=$url run publish
    exits 2 && err_has 'missing URL or URI: give the address of a server' || return
    TIDINGS_URL=${url#http://} run publish a:1
    exits 2 && err_has 'publish: TIDINGS_URL is not an address such as'
    local failed=$?
    unset TIDINGS_PUBLISH_KEY
    return $failed
}

an_address_has_a_scheme_and_no_password() {
    start key
    export TIDINGS_PUBLISH_KEY=key
    run publish "${url#http://}" a:1
    exits 2 && err_has 'not the address of a server' || return
    run publish "http://me:secret@${url#http://}" a:1
    exits 2 && err_has 'must not contain a user name or password' || return
    ! grep -q secret "$work/err" || why 'the password was printed'
    local failed=$?
    unset TIDINGS_PUBLISH_KEY
    return $failed
}

nobody_waits_for_ever() {
    start key hang
    TIDINGS_PUBLISH_KEY=key run publish "$url" a:1 --timeout 500ms
    exits 4 && err_has 'no answer from .* in time' || return
    TIDINGS_PUBLISH_KEY=key run publish "$url" a:1 --timeout 1
    exits 2 && err_has '--timeout takes a time such as'
}

a_name_that_is_not_found_is_not_waited_for() {
    LD_PRELOAD=$mute_names TIDINGS_PUBLISH_KEY=key timeout 60 "$tidings" publish \
        http://mute.example a:1 --timeout 500ms 2>"$work/err"
    code=$?
    exits 4 && err_has 'no answer from .* in time'
}

what_cannot_work_is_said_before() {
    export TIDINGS_PUBLISH_KEY=key
    run publish http://127.0.0.1:1 a:1
    exits 3 && err_has 'cannot connect to http://127.0.0.1:1/publish' &&
        err_has '^  Is the server running' || return
    run publish ftp://127.0.0.1 a:1
    exits 2 && err_has 'not the address of a server' || return
    run publish http://127.0.0.1:1
    exits 2 && err_has 'give the address of a server .*and a URI' || return
    run publish http://127.0.0.1:1 a:1 --metadata '{'
    exits 2 && err_has '--metadata is not JSON' || return
    run publish http://127.0.0.1:1 a:1 --metadata 7
    exits 2 && err_has 'not a JSON object' || return
    run publish http://127.0.0.1:1 a:1 --deleted --content -
    exits 2 && err_has 'cannot be combined' || return
    run publish http://127.0.0.1:1 a:1 --mime-type a/b
    exits 2 && err_has 'requires --content' || return
    run publish http://127.0.0.1:1 a:1 --content "$work/nothing"
    exits 1 && err_has 'cannot read .*nothing: No such file' || return
    head -c 5000000 /dev/zero >"$work/large"
    run publish http://127.0.0.1:1 a:1 --content "$work/large"
    exits 1 && err_has 'more than 4 MiB' || return
    unset TIDINGS_PUBLISH_KEY
    run publish http://127.0.0.1:1 a:1
    exits 2 && err_has 'no publish key; set the environment variable TIDINGS_PUBLISH_KEY'
}

check_all
finish

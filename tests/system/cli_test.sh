#!/bin/bash
# The program from outside: exit codes, help, options, output. Prints TAP.
#
#     tests/system/cli_test.sh build/tidings            all
#     tests/system/cli_test.sh build/tidings suggest    those whose name contains "suggest"
set -u

# shellcheck source=tests/system/lib.sh
source "$(dirname "$0")/lib.sh"
takes tidings -- "$@"
man=$(dirname "$0")/../../man
unset NO_COLOR
export TERM=xterm

is_silent() { # out or err
    [[ ! -s $work/$1 ]] || why "std$1 is not empty:" "$(head -3 "$work/$1")"
}

missing() {
    if [[ $1 == *terminal_* || $1 == live_plays* ]] && ! command -v script >/dev/null; then
        echo 'script(1) is not installed'
    fi
}

options_of() { # COMMAND: those that its help lists
    "$tidings" "$1" --help | sed -nE 's/^  --([a-z-]+).*/\1/p'
}

commands() {
    "$tidings" --help | sed -nE 's/^  ([a-z]+) .*/\1/p'
}

# Evaluates a Python expression over `rows`, the objects in a file, one per line.
json_holds() { # FILE EXPRESSION
    python3 -c '
import json, sys
rows = [json.loads(line) for line in open(sys.argv[1])]
sys.exit(not eval("(" + sys.argv[2] + ")"))' "$1" "$2" || why "does not hold: $2"
}

on_a_terminal() { # ENVIRONMENT COMMAND: runs it under script(1), output in $work/out
    env "$1" script -qec "$2" /dev/null >"$work/out" 2>&1
}

# Takes every # away that stands before an option, as the file of `init` says one may.
uncomment() {
    sed -E 's/^( *)#(  +|[^ #])/\1\2/' "$1"
}

interrupt_once_it_plays() { # PID-FILE: a minute at most
    for _ in {1..600}; do
        if grep -qE $'\033\[\\?1049h' "$work/out" 2>/dev/null; then
            kill -INT "$(cat "$1")"
            return
        fi
        sleep 0.1
    done
}

# What the man pages say about a command: its own page, with what it shares where it says so,
# or a section.
manual_of() { # COMMAND
    cat "$man/tidings-$1.1"
    ! grep -q '^\.Xr tidings-target 7' "$man/tidings-$1.1" || cat "$man/tidings-target.7"
}

# ---- Tests: help and version ----

help_lists_the_commands() {
    run --help
    exits 0 && is_silent err && out_has '^  demo ' && out_has '^  help '
}

help_command_is_the_same_as_help_option() {
    run help
    exits 0 && diff "$work/out" <("$tidings" --help) >&2
}

version_is_one_line() {
    run --version
    exits 0 && is_silent err && [[ $(wc -l <"$work/out") == 1 ]] &&
        out_has '^tidings [0-9]+'
}

every_command_has_help_both_ways() {
    local name
    for name in $(commands); do
        run "$name" --help
        exits 0 && is_silent err && out_has "^usage: tidings $name" && out_has '^  --help' &&
            diff "$work/out" <("$tidings" help "$name") >&2 || return 1
    done
}

every_help_fits_into_80_columns() {
    local name
    for name in '' $(commands); do
        run $name --help
        exits 0 || return 1
        ! grep -nE '.{81}' "$work/out" >&2 || why "the help of tidings $name is wider" || return 1
    done
}

help_in_the_middle_of_options_wins() {
    run demo --width 80 --help
    exits 0 && out_has '^usage: tidings demo'
}

every_option_is_in_the_man_page() {
    local name option
    for name in $(commands); do
        [[ -n $(manual_of "$name") ]] || why "nothing on $name" || return 1
        for option in $(options_of "$name"); do
            manual_of "$name" | grep -qE "^\.It Fl -$option( |\$)" ||
                why "$name --$option is not described" || return 1
        done
    done
}

every_option_of_the_man_page_exists() {
    local option name known
    known=$(for name in $(commands); do options_of "$name"; done && echo version)
    while read -r option; do
        grep -qx -- "$option" <<<"$known" ||
            why "--$option is described and does not exist" || return 1
    done < <(sed -nE 's/^\.It Fl -([a-z-]+).*/\1/p' "$man"/tidings*.[17])
}

# ---- What is wrong is said ----

no_command_shows_usage_and_fails() {
    run
    exits 2 && is_silent out && err_has '^usage: tidings'
}

unknown_command_suggests_the_nearest() {
    local word
    for word in dmeo deom dem dmo demos; do
        run "$word"
        exits 2 && is_silent out && err_has "'$word'" && err_has "did you mean 'demo'" ||
            return 1
    done
}

unknown_command_far_from_all_points_to_help() {
    run xyzzy
    exits 2 && is_silent out && err_has 'tidings --help' || return 1
    run "$(printf 'x%.0s' {1..5000})"
    exits 2
}

help_on_an_unknown_command_fails() {
    run help dmeo
    exits 2 && err_has "did you mean 'demo'"
}

unknown_option_before_the_command_fails() {
    run --frobnicate
    exits 2 && is_silent out && err_has 'frobnicate'
}

unknown_option_suggests_the_nearest() {
    run demo --debonce 5
    exits 2 && is_silent out && err_has 'did you mean --debounce' || return 1
    run demo -x
    exits 2 && err_has '-x'
}

operand_that_is_not_taken_fails() {
    run demo surprise
    exits 2 && is_silent out && err_has "'surprise'" || return 1
    run help demo more
    exits 2 && err_has "'more'"
}

numbers_out_of_range_name_the_range() {
    local option value
    for option in changes duration batch debounce longest throttle rate-limit width; do
        for value in -1 x '' 1.5 12x 0x10 99999999999999999999 100000001; do
            run demo "--$option" "$value"
            exits 2 && is_silent out && err_has "--$option takes a whole number from" &&
                err_has 'not' || why "with --$option '$value'" || return 1
        done
    done
    run demo --width 59
    exits 2 && err_has 'from 60 to' || return 1
    run demo --changes 0
    exits 2 && err_has 'from 1 to'
}

unknown_choices_name_the_choices() {
    run demo --pattern wild
    exits 2 && is_silent out && err_has 'steady, burst, bursts, trickle or typing' &&
        err_has "'wild'" || return 1
    run demo --color=sometimes
    exits 2 && err_has 'auto, always or never'
}

value_missing_or_not_wanted_fails() {
    run demo --batch
    exits 2 && err_has '--batch needs a value' || return 1
    run demo --json=yes
    exits 2 && err_has '--json takes no value'
}

longest_below_debounce_fails() {
    run demo --longest 100
    exits 2 && is_silent out && err_has 'at least --debounce'
}

options_that_exclude_each_other_fail() {
    run demo --live --json
    exits 2 && err_has '--live and --json'
}

live_without_a_terminal_fails() {
    run demo --live
    exits 2 && is_silent out && err_has 'needs a terminal'
}

# ---- Config files ----

init_writes_a_file_that_is_right() {
    rm -f "$work/tidings.yaml"
    (cd "$work" && "$tidings" init) >"$work/out" 2>"$work/err"
    code=$?
    exits 0 && is_silent err && out_has 'Wrote tidings.yaml' || return 1
    (cd "$work" && "$tidings" check) >"$work/out" 2>"$work/err"
    code=$?
    exits 0 && is_silent err && out_has '^tidings.yaml is valid: [01] entr' || return 1
    run init -
    exits 0 && diff "$work/out" "$work/tidings.yaml" >&2
}

init_leaves_a_file_alone_that_is_there() {
    echo mine >"$work/there.yaml"
    run init "$work/there.yaml"
    exits 1 && is_silent out && err_has 'exists already; --force' &&
        [[ $(cat "$work/there.yaml") == mine ]] || return 1
    run init --force "$work/there.yaml"
    exits 0 && grep -q '^resources:' "$work/there.yaml"
}

init_says_where_it_cannot_write() {
    run init "$work/no/such/folder.yaml"
    exits 1 && is_silent out && err_has 'cannot write .*: No such file' || return 1
    run init --force /dev/full
    exits 1 && err_has 'cannot write /dev/full: No space'
}

every_example_of_init_is_right() {
    local name variables=()
    "$tidings" init - >"$work/init.yaml"
    uncomment "$work/init.yaml" >"$work/all.yaml"
    ! grep -qE '^ *#(  |[^ #]).*:' "$work/all.yaml" || why 'an example is left' || return 1
    for name in $(grep -oE '\$\{[A-Z_]+' "$work/all.yaml" | tr -d '${' | sort -u); do
        variables+=("$name=placeholder")
    done
    env "${variables[@]}" "$tidings" check --json "$work/all.yaml" >"$work/out" 2>"$work/err"
    code=$?
    exits 0 && is_silent err && json_holds "$work/out" 'rows[0]["ok"]' ||
        why "$(cat "$work/out")"
}

every_kind_of_the_reference_is_in_init() {
    local kind
    "$tidings" init - >"$work/init.yaml"
    for kind in $("$tidings" help config | sed -nE 's/^resources: (.*)/\1/p'); do
        grep -qE "^  (#)?- $kind: " "$work/init.yaml" || why "no $kind" || return 1
    done
}

check_tells_everything_that_is_wrong() {
    cat >"$work/wrong.yaml" <<'EOF'
sever: {}
server:
  workers: many
  listen: "ftp://x"
publish:
  key: ${TIDINGS_TEST_UNSET}
resources:
  - memry: a://b
  - memory: a://b
    titel: x
    max-size: 10MB
EOF
    run check "$work/wrong.yaml"
    exits 1 && is_silent out &&
        err_has 'wrong.yaml:1:1: sever: unknown section; did you mean server' &&
        err_has 'wrong.yaml:3:12: server.workers: "many" is not a whole number' &&
        err_has 'wrong.yaml:4:11: server.listen: this is not an address to listen on' &&
        err_has 'wrong.yaml:6:8: publish.key: .* TIDINGS_TEST_UNSET is not set' &&
        err_has 'wrong.yaml:8:5: resources\[0\].memry: .* did you mean memory' &&
        err_has 'wrong.yaml:10:5: resources\[1\].titel: .* did you mean title' &&
        err_has 'wrong.yaml:11:15: resources\[1\].max-size: "10MB" is not a size' &&
        err_has '^tidings: check: 7 problems in .*wrong.yaml' || return 1
    run check --json "$work/wrong.yaml"
    exits 1 && is_silent err && json_holds "$work/out" '
        not rows[0]["ok"] and len(rows[0]["problems"]) == 7 and rows[0]["resources"] == [] and
        (rows[0]["problems"][1]["line"], rows[0]["problems"][1]["column"]) == (3, 12)'
}

check_shows_what_would_be_served() {
    cat >"$work/right.yaml" <<'EOF'
server:
  listen: ["http://[::1]:0", "http://127.0.0.1:1234"]
resources:
  - memory: build://{job}
    max-items: 10
    timing: inherit
    title: ${TIDINGS_TEST_SECRET}
  - memory: note://one
EOF
    export TIDINGS_TEST_SECRET=hunter2
    run check "$work/right.yaml"
    exits 0 && is_silent err && out_has '2 entries at http://\[::1\]:0, http://127.0.0.1:1234$' &&
        out_has '^  KIND +URI +WHAT +OPTIONS$' &&
        out_has '^  memory  build://\{job\}  build://\{job\}  max-items: 10, title: \$\{TIDINGS_TEST_SECRET\}$' &&
        out_has '^  memory  note://one     note://one$' &&
        ! grep -q hunter2 "$work/out" || return 1
    run check --json "$work/right.yaml"
    exits 0 && json_holds "$work/out" 'rows[0]["resources"][0] == {
        "kind": "memory", "uri": "build://{job}", "what": "build://{job}",
        "options": {"max-items": "10", "title": "${TIDINGS_TEST_SECRET}"}}' || return 1
    "$tidings" check - <"$work/right.yaml" >"$work/out" 2>"$work/err"
    code=$?
    exits 0 && out_has '^standard input is valid'
}

check_looks_at_uris() {
    cat >"$work/uris.yaml" <<'EOF'
resources:
  - memory: no uri
  - memory: "a://{"
  - memory: "${TIDINGS_TEST_SECRET} x"
  - memory: a://b
    uri: a://c
EOF
    export TIDINGS_TEST_SECRET=hunter2
    run check "$work/uris.yaml"
    exits 1 && err_has ':2:13: resources\[0\].memory: "no uri" is not a valid URI: ' &&
        err_has ':3:13: resources\[1\].memory: "a://\{" is not a valid URI template: ' &&
        err_has ':4:13: resources\[2\].memory: "\$\{TIDINGS_TEST_SECRET\} x" is not a valid URI' &&
        err_has ':6:5: resources\[3\].uri: a memory entry has its URI after memory:' &&
        ! grep -q hunter2 "$work/err"
}

check_finds_the_same_uri_twice() {
    printf 'resources:\n  - memory: a://b\n  - memory: a://b\n' >"$work/twice.yaml"
    run check "$work/twice.yaml"
    exits 1 && err_has 'twice.yaml:3:13: resources\[1\].memory: an earlier entry has the same URI' ||
        return 1
    mkdir -p "$work/outer/inner"
    printf 'resources:\n  - files: outer/inner\n  - files: outer\n' >"$work/twice.yaml"
    run check "$work/twice.yaml"
    exits 1 && err_has 'twice.yaml:3:12: resources\[1\].files: an earlier entry serves' ||
        return 1
    printf 'resources:\n  - files: outer/inner\n  - files: outer\n    uri: o://{+path}\n' \
        >"$work/twice.yaml"
    run check "$work/twice.yaml"
    exits 0 || return 1
    run serve "$work/outer" "$work/outer/inner"
    exits 1 && err_has 'outer/inner: files: an earlier entry serves the same files'
}

check_takes_an_empty_config_for_a_mistake() {
    : >"$work/empty.yaml"
    run check "$work/empty.yaml"
    exits 1 && err_has 'empty.yaml:1:1: nothing is served: there are no entries' || return 1
    echo 'server: {workers: 1}' >"$work/empty.yaml"
    run serve --listen http://127.0.0.1:0 --config "$work/empty.yaml"
    exits 1 && err_has 'nothing is served'
}

check_works_without_the_secrets() {
    cat >"$work/secrets.yaml" <<'END'
server: {listen: "${TDG_UNSET_LISTEN}", workers: "${TDG_UNSET_WORKERS}"}
publish: {key: "${TDG_UNSET_KEY}"}
resources:
  - http: "${TDG_UNSET_BASE}/status"
    uri: "api://${TDG_UNSET_NAME}/status"
    every: "${TDG_UNSET_TIME}"
    headers: {Authorization: "Bearer ${TDG_UNSET_TOKEN}"}
  - postgres: "${TDG_UNSET_DATABASE}"
    table: orders
    key: id
    uri: "db://orders/{id}"
  - webhook: /hooks/x
    uri: "hook://x"
    secret: "${TDG_UNSET_SECRET}"
END
    run check "$work/secrets.yaml"
    exits 1 && err_has 'TDG_UNSET_KEY is not set' || return 1
    run check --no-env "$work/secrets.yaml"
    exits 0 && out_has 'is valid: 3 entries' || return 1
    sed -i 's/every:/evry:/' "$work/secrets.yaml"
    run check --no-env "$work/secrets.yaml"
    exits 1 && err_has 'did you mean' && ! grep -q 'not set' "$work/err"
}

check_says_nothing_of_values_it_does_not_know() {
    cat >"$work/unset.yaml" <<'END'
server:
  listen: ["http://127.0.0.1:${TDG_UNSET_A}", "http://127.0.0.1:7"]
  trusted-proxies: ["${TDG_UNSET_A}", 10.0.0.0/8]
  keepalive: ${TDG_UNSET_A}
  rate-limit: ${TDG_UNSET_A}
  timing: ${TDG_UNSET_A}
  longest-wait: 10ms
  legacy: ${TDG_UNSET_A}
  modern: false
resources:
  - files: ${TDG_UNSET_A}
  - files: ${TDG_UNSET_B}
    timing: ${TDG_UNSET_A}
    window: 1s
  - memory: "${TDG_UNSET_A}://x"
  - memory: "${TDG_UNSET_B}://x"
  - webhook: ${TDG_UNSET_A}
    uri: "hook://a"
  - webhook: ${TDG_UNSET_B}
    uri: "hook://b"
  - http: "${TDG_UNSET_A}/items/{id}"
    uri: "api://${TDG_UNSET_B}/{id}"
    every: "5${TDG_UNSET_A}"
END
    run check --no-env "$work/unset.yaml"
    exits 0 && is_silent err &&
        out_has 'is valid: 7 entries at http://127.0.0.1:\$\{TDG_UNSET_A\}, http://127.0.0.1:7$' &&
        out_has '^  files    \$\{TDG_UNSET_A\}  +\$\{TDG_UNSET_A\}$' &&
        out_has '^  memory   \$\{TDG_UNSET_B\}://x  ' &&
        out_has 'api://\$\{TDG_UNSET_B\}/\{id\}  .*every: 5\$\{TDG_UNSET_A\}' || return 1
    cat >>"$work/unset.yaml" <<'END'
  - http: "${TDG_UNSET_A}/x"
    uri: "a://b"
    max-size: big
  - http: "${TDG_UNSET_A}/x"
    uri: "a://c"
  - http: "${TDG_UNSET_A}/y"
    uri: "a://c"
END
    run check --no-env "$work/unset.yaml"
    exits 1 && err_has 'max-size: "big" is not a size' &&
        err_has 'resources\[9\].uri: an earlier entry has the same URI' &&
        ! grep -q 'TDG_UNSET' "$work/err"
}

a_bad_address_to_listen_on_is_usage() {
    run serve --listen nonsense "$work"
    exits 2 && err_has '^tidings: serve: --listen nonsense: it must begin with http://'
}

check_says_what_cannot_be_read() {
    run check "$work/nothing.yaml"
    exits 1 && is_silent out && err_has 'nothing.yaml: cannot open it: No such file' || return 1
    run check "$work"
    exits 1 && err_has 'cannot read it: Is a directory' || return 1
    printf 'a: [1\n' >"$work/broken.yaml"
    run check "$work/broken.yaml"
    exits 1 && err_has 'broken.yaml:2:1: this is not valid YAML'
}

help_config_has_every_section_in_every_format() {
    local form
    for form in text markdown mdoc; do
        run help config --format "$form"
        exits 0 && is_silent err && out_has 'max-connections' && out_has 'retry-max' &&
            out_has 'max-items' || why "with $form" || return 1
    done
    run help config
    exits 0 && out_has '^server$' && out_has '^  workers: number, 1 to 64$'
}

# ---- The demonstration ----

demo_says_that_the_last_change_arrived() {
    run demo
    exits 0 && is_silent err && out_has '^The last change arrived at all 8 subscribers' &&
        out_has '^immediate' && out_has '^batch 100 ms' && out_has '^debounce 500 ms' &&
        out_has '^throttle 200 ms' && out_has 'With a rate limit: .* 1,000 ms'
}

demo_is_deterministic() {
    run demo --pattern typing
    diff "$work/out" <("$tidings" demo --pattern typing) >&2
}

value_after_equals_sign_is_the_same() {
    run demo --batch=50 --width=100
    exits 0 && diff "$work/out" <("$tidings" demo --batch 50 --width 100) >&2
}

output_into_a_pipe_has_no_escapes() {
    run demo
    exits 0 || return 1
    ! grep -q $'\033' "$work/out" || why 'escapes without a terminal'
}

color_always_and_no_color() {
    run demo --color always
    grep -q $'\033\[' "$work/out" || why 'no color with always' || return 1
    NO_COLOR=1 run demo --color always
    grep -q $'\033\[' "$work/out" || why 'an explicit wish beats NO_COLOR' || return 1
    run demo --color never
    ! grep -q $'\033' "$work/out"
}

terminal_gets_color_unless_no_color() {
    on_a_terminal A=1 "'$tidings' demo"
    grep -q $'\033\[' "$work/out" || why 'no color on a terminal' || return 1
    on_a_terminal NO_COLOR=1 "'$tidings' demo"
    ! grep -q $'\033' "$work/out" || why 'color in spite of NO_COLOR' || return 1
    on_a_terminal TERM=dumb "'$tidings' demo"
    ! grep -q $'\033' "$work/out" || why 'color on a dumb terminal'
}

ascii_by_option_and_by_locale() {
    run demo
    LC_ALL=C grep -q '[^ -~]' "$work/out" || why 'no UTF-8 in a UTF-8 locale' || return 1
    run demo --ascii
    exits 0 || return 1
    ! LC_ALL=C grep -q '[^ -~]' "$work/out" || why 'not ASCII with --ascii' || return 1
    LC_ALL=C run demo
    exits 0 || return 1
    ! LC_ALL=C grep -q '[^ -~]' "$work/out" || why 'not ASCII in the locale C'
}

lines_keep_to_the_width() {
    local width pattern longest
    for width in 60 80 120 400; do
        for pattern in steady burst bursts trickle typing; do
            run demo --ascii --width "$width" --pattern "$pattern"
            longest=$(wc -L <"$work/out")
            exits 0 && ((longest <= width)) ||
                why "$longest columns with --width $width --pattern $pattern" || return 1
        done
    done
}

width_without_a_terminal_is_80() {
    run demo
    diff "$work/out" <("$tidings" demo --width 80) >&2
}

rate_limit_0_leaves_the_second_group_out() {
    run demo --rate-limit 0 --json
    exits 0 && [[ $(wc -l <"$work/out") == 4 ]] || return 1
    run demo --rate-limit 0
    exits 0 && out_has 'all 4 subscribers' && ! grep -q 'With a rate limit' "$work/out"
}

extremes_of_every_option_work() {
    local args
    for args in '--changes 1' '--changes 1 --duration 1' '--changes 100000' \
        '--duration 1' '--duration 86400000' '--duration 86400000 --changes 1000' \
        '--batch 0 --debounce 0 --throttle 0' '--debounce 0 --longest 0' \
        '--batch 86400000 --debounce 86400000 --throttle 86400000 --rate-limit 86400000' \
        '--rate-limit 1' '--width 60' '--width 400' '--longest 0'; do
        # shellcheck disable=SC2086 # the list is split on purpose
        run demo $args
        exits 0 && out_has 'The last change arrived at all' || why "with $args" || return 1
        # shellcheck disable=SC2086
        run demo --json $args
        exits 0 && json_holds "$work/out" 'all(r["last_arrived"] for r in rows)' ||
            why "with --json $args" || return 1
    done
}

# ---- JSON ----

json_is_one_object_per_line_with_all_fields() {
    run demo --json
    exits 0 && is_silent err && [[ $(wc -l <"$work/out") == 8 ]] &&
        json_holds "$work/out" 'all(set(r) >= {"name", "mode", "window_ms", "rate_limit_ms",
            "changes", "notifications", "merged", "longest_wait_ms", "times"} for r in rows)' &&
        json_holds "$work/out" 'len({r["name"] for r in rows}) == 8'
}

json_adds_up() {
    local pattern
    for pattern in steady burst bursts trickle typing; do
        run demo --json --pattern "$pattern"
        exits 0 && json_holds "$work/out" 'all(r["notifications"] == len(r["times"]) and
            r["notifications"] + r["merged"] == r["changes"] and
            r["times"] == sorted(r["times"]) for r in rows)' ||
            why "with --pattern $pattern" || return 1
    done
}

json_keeps_the_rules_of_timing() {
    run demo --json
    json_holds "$work/out" 'rows[0]["notifications"] == 100 and
        rows[0]["longest_wait_ms"] == 0' &&
        json_holds "$work/out" 'rows[1]["longest_wait_ms"] <= 100' &&
        json_holds "$work/out" 'rows[2]["times"] == [800, 1490]' &&
        json_holds "$work/out" 'rows[3]["times"] == [0, 200, 400, 600, 800, 1000]' &&
        json_holds "$work/out" 'all(b - a >= 1000 for r in rows[4:]
            for a, b in zip(r["times"], r["times"][1:]))'
}

text_and_json_show_the_same_figures() {
    local pattern
    for pattern in steady burst bursts trickle typing; do
        "$tidings" demo --ascii --width 200 --pattern "$pattern" |
            sed -nE 's/^(immediate|batch|debounce|throttle) .* ([0-9]+) +([0-9,]+) ms +yes$/\1 \2 \3/p' |
            tr -d , >"$work/text"
        "$tidings" demo --json --pattern "$pattern" | python3 -c '
import json, sys
for r in map(json.loads, sys.stdin):
    print(r["mode"], r["notifications"], r["longest_wait_ms"])' >"$work/json"
        [[ $(wc -l <"$work/text") == 8 ]] && diff "$work/text" "$work/json" >&2 ||
            why "with --pattern $pattern" || return 1
    done
}

# ---- Output that cannot be written ----

full_disk_is_an_error() {
    local args
    for args in demo 'demo --json --changes 10000' --help --version 'help demo'; do
        # shellcheck disable=SC2086
        "$tidings" $args >/dev/full 2>"$work/err"
        code=$?
        exits 1 && err_has 'cannot write to standard output' || why "with $args" || return 1
    done
}

closed_pipe_ends_it_quietly() {
    mkfifo "$work/pipe"
    # shellcheck disable=SC2094 # nothing is read
    exec 3<>"$work/pipe" 4>"$work/pipe"
    exec 3<&- # from here on nobody reads
    "$tidings" demo >&4 2>"$work/err"
    code=$?
    exec 4>&-
    exits 1 && [[ ! -s $work/err ]] # whoever closed it knows
}

closed_output_is_an_error() {
    "$tidings" demo >&- 2>"$work/err"
    code=$?
    exits 1 && err_has 'cannot write to standard output'
}

# ---- Live ----

live_plays_and_restores_the_terminal() {
    on_a_terminal A=1 "'$tidings' demo --live --duration 200 --rate-limit 0 --debounce 50"
    code=$?
    exits 0 && out_has $'\033\[\\?1049h' && out_has $'\033\[\\?1049l' &&
        out_has $'\033\[\\?25h' && out_has 'The last change arrived'
}

live_interrupted_restores_the_terminal() {
    rm -f "$work/out"
    interrupt_once_it_plays "$work/pid" &
    on_a_terminal A=1 "echo \$\$ >'$work/pid'; exec '$tidings' demo --live --duration 600000"
    wait
    out_has $'\033\[\\?1049h' && out_has $'\033\[\\?25h\033\[\\?1049l' || return 1
    ! grep -q 'The last change arrived' "$work/out" || why 'it went on to the end'
}

check_all
finish

# shellcheck shell=bash
# The frame of the scripts beside this one, which source it: a folder $work, one run of
# $tidings at a time, and TAP. A script says what it `takes`, and may define `end`, `set_up`,
# `tear_down` and `missing` anew. Nothing has an input unless it is given one.
work=$(mktemp -d)
tidings=
only=
count=0
failed=0
export LC_ALL=C.UTF-8
exec </dev/null

end() { :; } # before $work is removed
trap 'end 2>/dev/null; rm -rf "$work"' EXIT
trap 'exit 1' INT TERM HUP

# Stores the paths of the files that the script is given, in variables of these names, and in
# $only what comes after them.
takes() { # NAME... -- ARGUMENT...
    local names=() name
    for (( ; $#; )); do
        [[ $1 != -- ]] || break
        names+=("$1")
        shift
    done
    for name in "${names[@]}"; do
        shift
        if [[ ! -f ${1-} ]]; then
            echo "usage: $0 ${names[*]^^} [PART_OF_A_NAME]" >&2
            exit 2
        fi
        printf -v "$name" %s "$(realpath "$1")"
    done
    only=${2-}
}

# Runs the program; leaves its exit code in $code, its output in $work/out and $work/err.
run() {
    "$tidings" "$@" >"$work/out" 2>"$work/err"
    code=$?
}

why() {
    printf '# %s\n' "$@" >&2
    return 1
}

exits() {
    ((code == $1)) || why "exit code $code instead of $1" "$(head -3 "$work/err")"
}

out_has() {
    grep -qE -- "$1" "$work/out" || why "no '$1' on stdout:" "$(head -3 "$work/out")"
}

err_has() {
    grep -qE -- "$1" "$work/err" || why "no '$1' on stderr:" "$(head -3 "$work/err")"
}

ok() { # DESCRIPTION COMMAND...: one test, which passes when the command does
    count=$((count + 1))
    if "${@:2}"; then
        echo "ok $count - $1"
    else
        echo "not ok $count - $1"
        failed=$((failed + 1))
    fi
}

set_up() { :; }
tear_down() { :; }
missing() { :; } # NAME: prints what that test needs and is not here

whole() { # NAME
    set_up || return
    "$1"
    local result=$?
    tear_down && return $result
}

# Every function of the script below a line "# ---- Tests" is a test.
check_all() {
    local name lacks
    for name in $(sed -nE '/^# ---- Tests/,$s/^([a-z0-9_]+)\(\) \{.*/\1/p' "$0"); do
        [[ $name == *"$only"* ]] || continue
        lacks=$(missing "$name")
        if [[ -z $lacks ]]; then
            ok "$name" whole "$name"
        else
            count=$((count + 1))
            echo "ok $count - $name # SKIP $lacks"
        fi
    done
}

finish() {
    echo "1..$count"
    ((failed == 0))
}

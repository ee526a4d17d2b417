#!/bin/bash
# tidings postgres from outside, against a PostgreSQL of its own. Prints TAP.
#
#     tests/system/postgres_test.sh build/tidings build/tests/mute_names.so
#
# With a third argument, only the tests with that in the name.
set -u

# shellcheck source=tests/system/lib.sh
source "$(dirname "$0")/lib.sh"
mute_names=''
takes tidings mute_names -- "$@"
server=''
unset PGHOST PGPORT PGUSER PGDATABASE PGPASSWORD PGSERVICE PGOPTIONS

programs=$(printf '%s\n' /usr/lib/postgresql/*/bin | tail -1)
[[ ! -d $programs ]] || PATH=$programs:$PATH

end() {
    if [[ -n $server ]]; then
        kill -CONT "$server"
        kill -QUIT "$server"
        wait "$server"
    fi
}

# ---- A server ----

# PostgreSQL refuses root. The server ends when this script does, however that ends.
as_somebody() {
    local who=()
    if ((EUID == 0)); then
        who=(--reuid=postgres --regid=postgres --clear-groups)
    fi
    exec setpriv --pdeathsig QUIT "${who[@]}" "$@"
}

start_server() {
    chmod 755 "$work"
    mkdir "$work/data" "$work/socket"
    ((EUID != 0)) || chown postgres "$work/data" "$work/socket"
    (cd "$work/socket" && as_somebody initdb -D "$work/data" -U postgres -A trust -E UTF8 \
        --locale=C --no-sync) >"$work/log" 2>&1 || return 1
    (cd "$work/socket" && as_somebody postgres -D "$work/data" -k "$work/socket" -p 5432 \
        -c listen_addresses= -c fsync=off) >>"$work/log" 2>&1 &
    server=$!
    for ((i = 0; i < 600; i++)); do # a minute
        pg_isready -q -h "$work/socket" && return 0
        kill -0 "$server" 2>/dev/null || return 1
        sleep 0.1
    done
    return 1
}

if ! command -v initdb >/dev/null || ! start_server; then
    echo "Bail out! no PostgreSQL: $(tail -3 "$work/log" 2>/dev/null)"
    exit 1
fi
admin="host=$work/socket user=postgres dbname=postgres"
guest="host=$work/socket user=guest dbname=postgres"

sql() {
    psql -X -q -A -t -v ON_ERROR_STOP=1 -d "$admin" -c "$1"
}

gives() { # QUERY EXPECTED
    local got
    got=$(sql "$1") || return 1
    [[ $got == "$2" ]] || why "$1 gives '$got' instead of '$2'"
}

sql 'CREATE ROLE guest LOGIN' # may make things in the schema, and owns nothing

set_up() { # a fresh table
    sql 'SET client_min_messages = error; DROP SCHEMA IF EXISTS shop, tidings CASCADE;
         CREATE SCHEMA shop; CREATE TABLE shop.orders (id int PRIMARY KEY, item text);
         GRANT ALL ON SCHEMA shop TO guest'
}

ours='SELECT count(*) FROM pg_trigger WHERE NOT tgisinternal AND tgname LIKE '\''tidings%'\'''
functions='SELECT count(*) FROM pg_proc WHERE proname LIKE '\''tidings%'\'''

events='SELECT count(*) FROM pg_event_trigger WHERE evtenabled = '\''A'\'''
schema='SELECT count(*) FROM pg_namespace WHERE nspname = '\''tidings'\'''

err_is_empty() {
    [[ ! -s $work/err ]] || why 'on stderr:' "$(head -3 "$work/err")"
}

# What is notified while the given statements run.
heard() {
    psql -X -q -A -t -d "$admin" -c 'LISTEN tidings_shop_orders' -c 'LISTEN other' \
        -c "$1" -c 'SELECT 1' | grep -o 'notification.*payload.*received' |
        sed 's/ received.*//; s/.*notification "//; s/" with payload "/ /; s/"$//'
}

# Less than the 10 s that libpq has for a connection.
in_time() {
    ((SECONDS < 9)) || why "it took $SECONDS s"
}

until_sql_gives() { # QUERY EXPECTED: within 20 s, less than the lock_timeout of the program
    for ((i = 0; i < 400; i++)); do
        [[ $(sql "$1") != "$2" ]] || return 0
        sleep 0.05
    done
    why "$1 never gives '$2'"
}

# A lock on the table, until `unlock`.
lock() {
    local answer
    coproc holder { psql -X -q -A -t -d "$admin" 2>&1; }
    printf 'BEGIN; LOCK TABLE shop.orders; SELECT 17;\n' >&"${holder[1]}"
    read -r answer <&"${holder[0]}"
    [[ $answer == 17 ]] || why "no lock: $answer"
}

unlock() {
    local process=$holder_PID
    printf '\\q\n' >&"${holder[1]}"
    wait "$process"
}

ours_at_work="SELECT count(*) FROM pg_stat_activity WHERE application_name = 'tidings postgres'"

# ---- Tests ----

without_apply_it_prints_sql_that_works() {
    run postgres install --table shop.orders --key id
    exits 0 && psql -X -q -v ON_ERROR_STOP=1 -d "$admin" -f "$work/out" 2>/dev/null &&
        gives "$ours" 2 && gives "$functions" 1 || return 1
    run postgres uninstall --table shop.orders
    exits 0 && psql -X -q -v ON_ERROR_STOP=1 -d "$admin" -f "$work/out" 2>/dev/null &&
        gives "$ours" 0 && gives "$functions" 0
}

apply_installs_and_uninstall_removes_exactly_that() {
    sql 'CREATE FUNCTION shop.mine() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL;
         END $$; CREATE TRIGGER mine AFTER INSERT ON shop.orders EXECUTE FUNCTION shop.mine()'
    run postgres install --table shop.orders --key id --apply "$admin"
    exits 0 && out_has 'shop.orders notifies of its changes on the channel tidings_shop_orders' &&
        gives "$ours" 2 && gives "$functions" 1 || return 1
    run postgres uninstall --table shop.orders --apply "$admin"
    exits 0 && gives "$ours" 0 && gives "$functions" 0 &&
        gives "SELECT count(*) FROM pg_trigger WHERE tgname = 'mine'" 1
}

installing_twice_and_removing_twice_is_fine() {
    for _ in 1 2; do
        run postgres install --table shop.orders --key id --apply "$admin"
        exits 0 && gives "$ours" 2 && gives "$functions" 1 || return 1
    done
    run postgres install --table shop.orders --key id,item --channel other --apply "$admin"
    exits 0 && gives "$ours" 2 && gives "$functions" 1 || return 1
    for _ in 1 2; do
        run postgres uninstall --table shop.orders --apply "$admin"
        exits 0 && gives "$ours" 0 || return 1
    done
}

the_connection_may_come_from_the_environment() {
    PGHOST=$work/socket PGUSER=postgres PGDATABASE=postgres \
        run postgres install --table shop.orders --key id --apply
    exits 0 && gives "$ours" 2
}

each_change_is_notified_with_its_key() {
    run postgres install --table shop.orders --key id --apply "$admin"
    exits 0 || return 1
    heard "INSERT INTO shop.orders VALUES (1, 'a')" >"$work/heard"
    heard "UPDATE shop.orders SET item = 'b'" >>"$work/heard"
    heard "UPDATE shop.orders SET item = 'b'" >>"$work/heard"
    heard "UPDATE shop.orders SET id = 2" >>"$work/heard"
    heard "BEGIN; DELETE FROM shop.orders; ROLLBACK" >>"$work/heard"
    heard "DELETE FROM shop.orders" >>"$work/heard"
    heard "TRUNCATE shop.orders" >>"$work/heard"
    diff - "$work/heard" >&2 <<'END'
tidings_shop_orders {"op":"INSERT","key":{"id" : "1"}}
tidings_shop_orders {"op":"UPDATE","key":{"id" : "1"}}
tidings_shop_orders {"op":"UPDATE","key":{"id" : "1"}}
tidings_shop_orders {"op":"UPDATE","key":{"id" : "2"}}
tidings_shop_orders {"op":"DELETE","key":{"id" : "2"}}
tidings_shop_orders {"op":"TRUNCATE"}
END
}

a_key_too_long_for_a_payload_is_left_out() {
    run postgres install --table shop.orders --key item --channel other --apply "$admin"
    exits 0 || return 1
    [[ $(heard "INSERT INTO shop.orders VALUES (1, repeat('x', 9000))") == \
        'other {"op":"INSERT"}' ]] || why 'not as expected'
}

columns_without_equality_and_odd_names_work() {
    sql 'CREATE TABLE shop."It'\''s ""odd"" $tidings$" ("the key" int PRIMARY KEY, j json)'
    run postgres install --table 'shop."It'\''s ""odd"" $tidings$"' --key '"the key"' \
        --channel other --apply "$admin"
    exits 0 || return 1
    sql 'INSERT INTO shop."It'\''s ""odd"" $tidings$" VALUES (1, '\''{}'\'')'
    [[ $(heard 'UPDATE shop."It'\''s ""odd"" $tidings$" SET j = NULL') == \
        'other {"op":"UPDATE","key":{"the key" : "1"}}' ]] || why 'not as expected'
}

names_are_utf8_whatever_the_database_has() {
    local latin="host=$work/socket user=postgres dbname=latin"
    sql 'CREATE DATABASE latin TEMPLATE template0 ENCODING LATIN1'
    PGCLIENTENCODING=UTF8 psql -X -q -d "$latin" -c 'CREATE TABLE "Bücher" ("Größe" int)'
    run postgres install --table '"Bücher"' --key '"Größe"' --apply "$latin"
    exits 0 || return 1
    PGCLIENTENCODING=UTF8 psql -X -q -d "$latin" -c 'LISTEN "tidings_public_Bücher"' \
        -c 'INSERT INTO "Bücher" VALUES (7)' >"$work/heard"
    grep -qF '{"Größe" : "7"}' "$work/heard" || why 'not notified:' "$(head -3 "$work/heard")"
}

what_is_missing_is_named() {
    run postgres install --table shop.missing --key id --apply "$admin"
    exits 1 && err_has 'the table shop.missing does not exist in the database postgres' || return 1
    run postgres install --table shop.orders --key id,nothing --apply "$admin"
    exits 1 && err_has 'the table shop.orders has no column nothing' && gives "$ours" 0
}

event_triggers_come_with_the_first_table_and_go_with_the_last() {
    sql 'CREATE TABLE shop.items (id int)'
    for table in orders items orders; do
        run postgres install --table shop.$table --key id --apply "$admin"
        exits 0 && err_is_empty && gives "$events" 3 && gives "$schema" 1 || return 1
    done
    run postgres uninstall --table shop.orders --apply "$admin"
    exits 0 && gives "$events" 3 || return 1
    [[ $(psql -X -q -d "$admin" -c 'LISTEN tidings_shop_items' \
        -c 'ALTER TABLE shop.items ADD a int') == *'"{"op":"DDL"}"'* ]] ||
        why 'the other table does not notify of DDL any more' || return 1
    for _ in 1 2; do
        run postgres uninstall --table shop.items --apply "$admin"
        exits 0 && err_is_empty && gives "$events" 0 && gives "$schema" 0 || return 1
    done
}

event_triggers_can_be_left_out() {
    run postgres install --table shop.orders --key id --no-event-triggers --apply "$admin"
    exits 0 && err_is_empty && gives "$ours" 2 && gives "$events" 0 && gives "$schema" 0
}

what_others_have_in_the_schema_stays() {
    sql 'CREATE SCHEMA tidings; CREATE TABLE tidings.mine ()'
    run postgres install --table shop.orders --key id --apply "$admin"
    exits 0 && gives "$events" 3 || return 1
    run postgres uninstall --table shop.orders --apply "$admin"
    exits 0 && err_is_empty && gives "$events" 0 &&
        gives 'SELECT count(*) FROM tidings.mine' 0 || return 1
    sql 'DROP SCHEMA tidings CASCADE'
    run postgres install --table shop.orders --key id --apply "$admin"
    sql 'CREATE TABLE tidings.mine ()'
    run postgres uninstall --table shop.orders --apply "$admin"
    exits 0 && gives "$events" 0 && gives 'SELECT count(*) FROM tidings.mine' 0
}

# The SQL for psql goes on without them, too.
who_may_not_create_event_triggers_installs_without_them() {
    sql 'ALTER TABLE shop.orders OWNER TO guest'
    run postgres install --table shop.orders --key id --apply "$guest"
    exits 0 && out_has 'shop.orders notifies of its changes' && gives "$ours" 2 &&
        gives "$events" 0 && err_has 'postgres: no event triggers \(permission denied' &&
        [[ $(wc -l <"$work/err") == 1 ]] &&
        heard "INSERT INTO shop.orders VALUES (1, 'a')" | grep -q INSERT || return 1

    run postgres install --table shop.orders --key id
    psql -X -q -v ON_ERROR_STOP=1 -d "$guest" -f "$work/out" 2>"$work/notices" &&
        gives "$ours" 2 && grep -q 'no event triggers' "$work/notices"
}

event_triggers_of_a_superuser_serve_everybody() {
    sql 'ALTER TABLE shop.orders OWNER TO guest'
    sql 'CREATE TABLE shop.items (id int)'
    run postgres install --table shop.items --key id --apply "$admin"
    run postgres install --table shop.orders --key id --apply "$guest"
    exits 0 && err_is_empty && gives "$events" 3 || return 1
    heard 'ALTER TABLE shop.orders ADD a int' | grep -q DDL || return 1

    # The last one may not remove them.
    sql 'DROP TABLE shop.items; DROP FUNCTION shop.tidings_shop_items'
    run postgres uninstall --table shop.orders --apply "$guest"
    exits 0 && gives "$ours" 0 && gives "$events" 3 && err_has 'tidings_\* stay: must be owner'
}

a_function_of_somebody_else_is_taken_from_its_owner() {
    local evil="CREATE OR REPLACE FUNCTION shop.tidings_shop_orders() RETURNS trigger
        LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'"
    psql -X -q -d "$guest" -c "$evil" || return 1
    run postgres install --table shop.orders --key id --apply "$admin"
    exits 0 || return 1
    psql -X -q -d "$guest" -c "$evil" 2>/dev/null && { why 'it can still change it' || return 1; }
    # Not from the owner of the table, who could do as much without it.
    sql 'ALTER TABLE shop.orders OWNER TO guest;
         ALTER FUNCTION shop.tidings_shop_orders OWNER TO guest'
    run postgres install --table shop.orders --key id --apply "$admin"
    exits 0 && psql -X -q -d "$guest" -c "$evil"
}

a_table_that_was_renamed_is_no_obstacle() {
    run postgres install --table shop.orders --key id --apply "$admin"
    sql 'ALTER TABLE shop.orders RENAME TO sold; CREATE TABLE shop.orders (id int)'
    run postgres install --table shop.orders --key id --apply "$admin"
    exits 0 && gives "$ours" 4 || return 1
    run postgres uninstall --table shop.orders --apply "$admin"
    exits 0 && gives "$ours" 0 && gives "$functions" 0
}

without_permission_nothing_is_done() {
    run postgres install --table shop.orders --key id --apply "$guest"
    exits 1 && err_has 'the role guest has to own shop.orders' && gives "$functions" 0 &&
        gives "$events" 0
}

a_server_that_does_not_answer_is_not_waited_for() {
    kill -STOP "$server"
    SECONDS=0
    run postgres install --table shop.orders --key id --timeout 500ms --apply "$admin"
    kill -CONT "$server"
    exits 4 && err_has 'no answer within 500ms' && in_time
}

a_name_that_is_not_found_is_not_waited_for() {
    SECONDS=0
    LD_PRELOAD=$mute_names run postgres install --table shop.orders --key id --timeout 500ms \
        --apply "host=mute.example user=postgres"
    exits 4 && err_has 'no answer within 500ms' && in_time
}

a_lock_is_not_waited_for_and_the_server_stops_as_well() {
    lock || return 1
    SECONDS=0
    run postgres install --table shop.orders --key id --timeout=3s --apply "$admin"
    exits 4 && err_has 'not finished within 3s' && in_time &&
        until_sql_gives "$ours_at_work" 0 && in_time
    local result=$?
    unlock
    ((result == 0)) && gives "$ours" 0
}

a_server_that_does_not_take_a_cancel_is_not_waited_for() {
    lock || return 1
    "$tidings" postgres install --table shop.orders --key id --timeout 3s --apply "$admin" \
        2>"$work/err" &
    local process=$!
    until_sql_gives "$ours_at_work AND wait_event_type = 'Lock'" 1
    local result=$?
    SECONDS=0
    kill -STOP "$server"
    wait "$process"
    code=$?
    kill -CONT "$server"
    exits 4 && err_has 'not finished within 3s' && in_time || result=1
    unlock
    ((result == 0)) && until_sql_gives "$ours_at_work" 0 && gives "$ours" 0
}

what_may_be_committed_is_said_to_be() {
    # An update of a deferred constraint is looked at by COMMIT, which waits there.
    sql "CREATE FUNCTION shop.waits() RETURNS trigger LANGUAGE plpgsql AS \$\$
         BEGIN PERFORM pg_sleep(60); RETURN NULL; END \$\$;
         CREATE TABLE shop.log (command text);
         CREATE CONSTRAINT TRIGGER waits AFTER INSERT ON shop.log DEFERRABLE INITIALLY DEFERRED
             FOR EACH ROW EXECUTE FUNCTION shop.waits();
         CREATE FUNCTION shop.logs() RETURNS event_trigger LANGUAGE plpgsql AS \$\$
         BEGIN INSERT INTO shop.log VALUES (tg_tag); END \$\$;
         CREATE EVENT TRIGGER logs ON ddl_command_end WHEN TAG IN ('CREATE TRIGGER')
             EXECUTE FUNCTION shop.logs()"
    SECONDS=0
    run postgres install --table shop.orders --key id --timeout 3s --apply "$admin"
    sql 'DROP EVENT TRIGGER logs'
    exits 4 && err_has 'not finished within 3s' && err_has 'COMMIT was sent' && in_time &&
        until_sql_gives "$ours_at_work" 0 && gives "$ours" 0
}

wrong_command_lines_are_explained() {
    run postgres
    exits 2 && err_has 'install or uninstall' || return 1
    run postgres install --key id
    exits 2 && err_has -- '--table TABLE is required' || return 1
    run postgres install --table orders
    exits 2 && err_has -- 'requires --key' || return 1
    run postgres install --table 'a b' --key id
    exits 2 && err_has 'double quotes' || return 1
    run postgres uninstall --table a --no-event-triggers
    exits 2 && err_has 'are for install only' || return 1
    run postgres uninstall --table a --key id
    exits 2 && err_has 'are for install only' || return 1
    run postgres install --table a --key id "$admin"
    exits 2 && err_has 'CONNINFO requires --apply' || return 1
    run postgres install --table a --key id --timeout 5
    exits 2 && err_has 'such as 500ms, 2s or 5m' || return 1
    run postgres install --table a --key id --apply 'nonsense hunter2'
    exits 1 && err_has 'not a connection string' && ! grep -q hunter2 "$work/err"
}

check_all
finish

/* SPDX-License-Identifier: MIT */
#include "run.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <tidings/tidings.h>

#include "client.h"

enum { EPOCH = 77, FOREIGN_EPOCH = 78, START_MS = 1000 };
static const int64_t start_wall_ms = 1700000000000;

struct run {
    const struct cast_world *world;
    tdg__engine_t *engine;
    struct model model;
    struct truth truth;
    struct verdict *verdict;
    struct run_opts opts;

    int64_t wall_offset_ms;
    int refused[RESOURCES]; /* what may_read said no to during a take, in order */
    int refused_count;
    int watch_answer; /* of the next call of `watch` */
    enum op_then then;
    uint64_t watched[TARGETS]; /* what the engine called */
    uint64_t unwatched[TARGETS];
    bool dirty[TARGETS];       /* changed unseen since it was last watched */
    bool was_watched[TARGETS]; /* has been armed at least once */

    uint32_t page_position; /* of tdg__engine_page(), which goes on between operations */
    bool paging;
    uint64_t page_uids[CLIENTS][TARGETS]; /* who was there when it began */
    int page_seen[CLIENTS][TARGETS];
};

/* ---- Failing ------------------------------------------------------------ */

__attribute__((format(printf, 3, 4))) static void fail(struct run *run, const char *kind,
                                                       const char *format, ...) {
    struct verdict *verdict = run->verdict;
    va_list args;

    if (verdict->failed ||
        (run->opts.promise_only && strncmp(kind, "promise", strlen("promise")) != 0))
        return;
    verdict->failed = true;
    snprintf(verdict->kind, sizeof(verdict->kind), "%s", kind);
    va_start(args, format);
    vsnprintf(verdict->text, sizeof(verdict->text), format, args);
    va_end(args);
}

static void check_number(struct run *run, const char *kind, uint64_t expected,
                         uint64_t got) {
    if (expected != got)
        fail(run, kind, "expected %" PRIu64 ", got %" PRIu64, expected, got);
}

static void check_code(struct run *run, const char *kind, int expected, int got) {
    if (expected != got)
        fail(run, kind, "expected %s, got %s", tdg_error_name(expected),
             tdg_error_name(got));
}

static const char *name_of(int target) {
    return target < 0 ? "-" : cast_target(target).name;
}

/* ---- Memory ------------------------------------------------------------- */

static uint64_t blocks;

static void *count_malloc(size_t size) {
    void *ptr = malloc(size);

    blocks += ptr != NULL;
    return ptr;
}

static void *count_realloc(void *ptr, size_t size) {
    void *moved = realloc(ptr, size);

    blocks += ptr == NULL && moved != NULL;
    return moved;
}

static void count_free(void *ptr) {
    blocks -= ptr != NULL;
    free(ptr);
}

void run_count_memory(void) {
    static const tdg_allocator_t counting = {count_malloc, count_realloc, count_free};

    tdg_set_allocator(&counting);
}

/* ---- The outside world of the engine ------------------------------------ */

static int find_client(struct run *run, tdg__stream_t stream) {
    int c;

    for (c = 0; c < CLIENTS; c++)
        if (run->truth.clients[c].open && run->truth.clients[c].stream == stream)
            return c;
    return -1;
}

static int on_watch(void *user, const tdg__target_t *target) {
    struct run *run = user;
    int t = cast_find(target);

    run->watched[t]++;
    if (run->watch_answer == 0) {
        run->dirty[t] = false;
        run->was_watched[t] = true;
    }
    return run->watch_answer;
}

static void on_unwatch(void *user, const tdg__target_t *target) {
    struct run *run = user;

    run->unwatched[cast_find(target)]++;
}

static void do_acknowledge(struct run *run, int client, int target);
static void do_unsubscribe(struct run *run, int client, int target);
static void do_close(struct run *run, int client);

static void on_settled(void *user, tdg__stream_t stream, const tdg__target_t *target,
                       int status, bool resumed) {
    struct run *run = user;
    int t = cast_find(target);
    int c = find_client(run, stream);

    if (c == -1) {
        fail(run, "settled: a stream that is not open", "%s", name_of(t));
        return;
    }
    if (run->opts.verbose)
        printf("    settled client=%d %s %s resumed=%d\n", c, name_of(t),
               tdg_error_name(status), resumed);
    if (!model_settled(&run->model, c, t, status, resumed))
        fail(run, "settled", "not expected: client %d, %s, %s, resumed %d", c, name_of(t),
             tdg_error_name(status), resumed);
    client_settled(&run->truth, c, t, status, resumed);

    run->model.hits[HIT_IN_SETTLED] += run->then != THEN_NOTHING;
    switch (run->then) {
    case THEN_ACKNOWLEDGE:
        do_acknowledge(run, c, t);
        break;
    case THEN_UNSUBSCRIBE:
        do_unsubscribe(run, c, t);
        break;
    case THEN_CLOSE:
        do_close(run, c);
        break;
    default:
        break;
    }
}

static bool on_may_read(void *user, tdg__stream_t stream, const tdg__target_t *uri) {
    struct run *run = user;
    int c = find_client(run, stream);
    int r = cast_find(uri);

    if (c == -1 || r == -1) {
        fail(run, "may_read: a stream or URI that does not exist", "client %d", c);
        return true;
    }
    if (!run->model.may_read[c][r] && run->refused_count < RESOURCES)
        run->refused[run->refused_count++] = r;
    return run->model.may_read[c][r];
}

static void on_list_matches(void *user, const tdg__target_t *template_,
                            bool (*visit)(void *arg, const tdg__target_t *uri),
                            void *arg) {
    int t = cast_find(template_);
    int r;

    (void)user;
    for (r = 0; r < RESOURCES; r++) {
        tdg__target_t uri = cast_target(r);

        if (cast_is_listed(r) && cast_covers(t, r) && !visit(arg, &uri))
            return;
    }
}

static bool start(struct run *run) {
    tdg__engine_opts_t opts = run->world->opts;
    int rv;

    opts.user = run;
    opts.epoch = EPOCH;
    opts.hash_key[0] = 1;
    opts.defaults.timing = cast_timings[run->world->timing];
    opts.defaults.rate_limit_ms = cast_rates[run->world->rate];
    opts.calls.settled = on_settled;
    if (run->world->watch) {
        opts.calls.watch = on_watch;
        opts.calls.unwatch = on_unwatch;
    }
    if (run->world->may_read)
        opts.calls.may_read = on_may_read;
    if (run->world->list_matches)
        opts.calls.list_matches = on_list_matches;

    rv = tdg__engine_create(&opts, &run->engine);
    check_code(run, "create", 0, rv);
    return rv == 0;
}

/* ---- After every operation
 * -------------------------------------------------------------- */

struct seen_subs {
    struct run *run;
    int client;
    bool seen[TARGETS];
};

static bool same_settings(const tdg__settings_t *a, struct wishes b) {
    return a->timing.mode == cast_timings[b.timing].mode &&
           a->timing.window_ms == cast_timings[b.timing].window_ms &&
           a->timing.longest_ms == cast_timings[b.timing].longest_ms &&
           a->rate_limit_ms == cast_rates[b.rate];
}

static bool see_sub(void *arg, const tdg__sub_info_t *info) {
    struct seen_subs *seen = arg;
    struct run *run = seen->run;
    int t = cast_find(&info->target);
    const struct subscription *sub;

    if (t == -1 || seen->seen[t]) {
        fail(run, "subscriptions: one too many", "client %d, %s", seen->client,
             name_of(t));
        return false;
    }
    seen->seen[t] = true;
    sub = &run->model.streams[seen->client].subs[t];
    if (info->state != model_state(&run->model, seen->client, t))
        fail(run, "subscriptions: state", "client %d, %s: expected %d, got %d",
             seen->client, name_of(t), (int)model_state(&run->model, seen->client, t),
             (int)info->state);
    if (info->pending != model_pending(&run->model, seen->client, t))
        fail(run, "subscriptions: pending", "client %d, %s: got %d", seen->client,
             name_of(t), info->pending);
    if (!same_settings(&info->settings, sub->wishes) || info->priority != sub->priority ||
        (info->filter != NULL) != (sub->wishes.filter != 0) ||
        info->stream != run->truth.clients[seen->client].stream)
        fail(run, "subscriptions: wishes", "client %d, %s", seen->client, name_of(t));
    return true;
}

static void compare_subs(struct run *run, int client) {
    struct seen_subs seen = {.run = run, .client = client};
    int rv = tdg__engine_each_subscription(run->engine, run->truth.clients[client].stream,
                                           see_sub, &seen);
    int t;

    check_code(run, "subscriptions", 0, rv);
    for (t = 0; t < TARGETS; t++)
        if (!seen.seen[t] && model_state(&run->model, client, t) != TDG__NOT_SUBSCRIBED)
            fail(run, "subscriptions: one is missing", "client %d, %s", client,
                 name_of(t));
}

static void compare_cursor(struct run *run, int client) {
    tdg__cursor_t expected = {0, 0};
    tdg__cursor_t got = {0, 0};
    int rv = tdg__engine_cursor(run->engine, run->truth.clients[client].stream, &got);

    check_code(run, "cursor", model_cursor(&run->model, client, &expected), rv);
    if (expected.epoch != got.epoch || expected.number != got.number)
        fail(run, "cursor",
             "client %d: expected %" PRIu64 "/%" PRIu64 ", got %" PRIu64 "/%" PRIu64,
             client, expected.epoch, expected.number, got.epoch, got.number);
}

static void compare_ready(struct run *run) {
    bool ready[CLIENTS] = {0};
    tdg__stream_t s = 0;
    int c;

    while ((s = tdg__engine_next_ready(run->engine, s)) != 0) {
        c = find_client(run, s);
        if (c == -1 || ready[c]) {
            fail(run, "ready: a stream twice, or one that is not open", "client %d", c);
            return;
        }
        ready[c] = true;
    }
    for (c = 0; c < CLIENTS; c++)
        if (ready[c] != model_ready(&run->model, c))
            fail(run, "ready", "client %d: expected %d, got %d", c, !ready[c], ready[c]);
}

static void compare_counters(struct run *run) {
    tdg__counters_t expected;
    tdg__counters_t got;

    model_counters(&run->model, &expected);
    tdg__engine_counters(run->engine, &got);
    check_number(run, "counter: streams", expected.streams, got.streams);
    check_number(run, "counter: subscriptions", expected.subscriptions,
                 got.subscriptions);
    check_number(run, "counter: templates", expected.templates, got.templates);
    check_number(run, "counter: watchers", expected.watchers, got.watchers);
    check_number(run, "counter: pending", expected.pending, got.pending);
    check_number(run, "counter: changes", expected.changes, got.changes);
    check_number(run, "counter: delivered", expected.delivered, got.delivered);
    check_number(run, "counter: merged", expected.merged, got.merged);
    check_number(run, "counter: filtered", expected.filtered, got.filtered);
    check_number(run, "counter: rate_limited", expected.rate_limited, got.rate_limited);
    check_number(run, "counter: ended", expected.ended, got.ended);
    check_number(run, "counter: last_number", expected.last_number, got.last_number);
    check_number(run, "counter: epoch", expected.epoch, got.epoch);
}

static void compare_calls(struct run *run) {
    int t;

    for (t = 0; t < TARGETS; t++) {
        if (run->watched[t] != run->model.watched[t])
            fail(run, "calls of watch", "%s: expected %" PRIu64 ", got %" PRIu64,
                 name_of(t), run->model.watched[t], run->watched[t]);
        if (run->unwatched[t] != run->model.unwatched[t])
            fail(run, "calls of unwatch", "%s: expected %" PRIu64 ", got %" PRIu64,
                 name_of(t), run->model.unwatched[t], run->unwatched[t]);
    }
    if (model_unsettled(&run->model))
        fail(run, "settled: a call is missing", " ");
}

static void compare(struct run *run) {
    int64_t expected = model_next_deadline(&run->model);
    int64_t got = tdg__engine_next_deadline(run->engine);
    int c;

    compare_counters(run);
    compare_calls(run);
    for (c = 0; c < CLIENTS; c++) {
        struct client *client = &run->truth.clients[c];

        if (client->open) {
            compare_cursor(run, c);
            compare_subs(run, c);
        } else if (client->stream != 0) {
            tdg__cursor_t cursor;

            check_code(run, "a closed stream", TDG_ENOTFOUND,
                       tdg__engine_cursor(run->engine, client->stream, &cursor));
        }
    }
    compare_ready(run);
    if (got > expected)
        fail(run, "next_deadline", "expected %" PRId64 " or less, got %" PRId64, expected,
             got);
}

/* ---- Time
 * ------------------------------------------------------------------------------- */

/* Whether a subscription that goes in the middle of a change or of an advance had
 * something delayed before depends on an order that is nobody's business. */
static void forgive_limited(struct run *run) {
    tdg__counters_t counters;

    tdg__engine_counters(run->engine, &counters);
    run->model.counters.rate_limited = counters.rate_limited;
}

static void advance_to(struct run *run, int64_t ms) {
    int64_t wall_ms = start_wall_ms + run->wall_offset_ms + run->model.now_ms;

    if (ms > run->model.now_ms)
        wall_ms += ms - run->model.now_ms;
    model_advance(&run->model, ms, wall_ms);
    tdg__engine_advance(run->engine, ms, wall_ms);
    model_work(&run->model);
    if (run->then != THEN_NOTHING)
        forgive_limited(run);
    if (tdg__engine_next_deadline(run->engine) <= run->model.now_ms)
        fail(run, "next_deadline: due right after advance",
             "now %" PRId64 ", deadline %" PRId64, run->model.now_ms,
             tdg__engine_next_deadline(run->engine));
}

static void op_advance(struct run *run, const struct op *op) {
    run->wall_offset_ms += op->wall;
    run->then = (enum op_then)op->then;
    advance_to(run, run->model.now_ms + op->ms);
}

/* To the moment of the next deadline, just before it or just after. */
static void op_until(struct run *run, const struct op *op) {
    int64_t next = model_next_deadline(&run->model);

    run->then = (enum op_then)op->then;
    if (next != INT64_MAX)
        advance_to(run, next + op->delta);
}

/* ---- Streams
 * ---------------------------------------------------------------------------- */

static void close_stream(struct run *run, int client) {
    model_close(&run->model, client);
    tdg__engine_close(run->engine, run->truth.clients[client].stream);
}

static void drop(struct run *run, int client, int lost) {
    close_stream(run, client);
    client_dropped(&run->truth, client, lost);
}

/* Who has read the end of a stream closes it first. */
static void do_open(struct run *run, int client) {
    tdg__stream_t stream = 0;
    int expected;

    if (run->truth.clients[client].over)
        drop(run, client, 0);
    if (run->truth.clients[client].open)
        return;
    expected = model_open(&run->model, client);
    check_code(run, "open", expected,
               tdg__engine_open(run->engine, &run->truth.clients[client], &stream));
    if (expected < 0)
        return;

    client_opened(&run->truth, client, stream);
    if (tdg__engine_stream_user(run->engine, stream) != &run->truth.clients[client])
        fail(run, "open: user", "client %d", client);
}

static void op_open(struct run *run, const struct op *op) {
    do_open(run, op->client);
}

static void do_close(struct run *run, int client) {
    close_stream(run, client);
    client_left(&run->truth, client);
}

static void op_close(struct run *run, const struct op *op) {
    do_close(run, op->client);
}

static void op_drop(struct run *run, const struct op *op) {
    drop(run, op->client, op->count);
}

static void op_end(struct run *run, const struct op *op) {
    int expected = model_end(&run->model, op->client, TDG_ENOTSUP);

    check_code(
        run, "end", expected,
        tdg__engine_end(run->engine, run->truth.clients[op->client].stream, TDG_ENOTSUP));
}

static void do_block(struct run *run, int client, bool blocked) {
    int expected = model_block(&run->model, client, blocked);

    check_code(
        run, "block", expected,
        tdg__engine_block(run->engine, run->truth.clients[client].stream, blocked));
}

static void op_block(struct run *run, const struct op *op) {
    run->model.hits[HIT_BLOCKED] += model_ready(&run->model, op->client);
    do_block(run, op->client, true);
}

static void op_unblock(struct run *run, const struct op *op) {
    do_block(run, op->client, false);
}

/* ---- Subscriptions
 * ---------------------------------------------------------------------- */

static int watch_code(int watch) {
    return watch == WATCH_AT_ONCE ? 0 : watch == WATCH_LATER ? TDG_EAGAIN : TDG_ENOTSUP;
}

static struct kept_cursor cursor_for(struct run *run, const struct op *op) {
    struct interest *interest = &run->truth.clients[op->client].interests[op->target];

    switch (op->cursor) {
    case CURSOR_NONE:
    case CURSOR_SINCE:
        return (struct kept_cursor){0};
    case CURSOR_OWN:
        return interest->live ? (struct kept_cursor){0} : interest->cursor;
    case CURSOR_FOREIGN:
        return (struct kept_cursor){
            true, {FOREIGN_EPOCH, 3},
             run->truth.serial
        };
    default:
        return truth_kept(&run->truth, (1U << (op->cursor - CURSOR_KEPT)) - 1);
    }
}

static void do_subscribe(struct run *run, const struct op *op,
                         const struct kept_cursor *cursor) {
    tdg__target_t target = cast_target(op->target);
    struct model_subscribe request = {
        .client = op->client,
        .target = op->target,
        .wishes = {op->timing, op->rate, op->filter},
        .priority = op->priority,
        .has_cursor = cursor->valid,
        .cursor = cursor->cursor,
        .since_ms = op->cursor == CURSOR_SINCE && op->ms > 0 ? op->ms : 0,
        .watch = watch_code(op->watch),
    };
    tdg__sub_opts_t opts = {
        .settings = {cast_timings[op->timing], cast_rates[op->rate]},
        .filter = cast_filter(op->filter),
        .priority = op->priority,
        .has_cursor = cursor->valid,
        .cursor = cursor->cursor,
        .since_ms = request.since_ms,
    };
    tdg__subscribed_t expected = {0};
    tdg__subscribed_t got = {0};
    int expected_rv = model_subscribe(&run->model, &request, &expected);
    int rv;

    run->watch_answer = request.watch;
    rv = tdg__engine_subscribe(run->engine, run->truth.clients[op->client].stream,
                               &target, &opts, &got);

    check_code(run, "subscribe", expected_rv, rv);
    if (rv < 0 || expected_rv < 0)
        return;
    check_number(run, "subscribe: state", expected.state, got.state);
    check_number(run, "subscribe: resumed", expected.resumed, got.resumed);
    client_subscribed(&run->truth, op->client, op->target, op->filter, cursor,
                      request.since_ms > 0, &got);
}

static void op_subscribe(struct run *run, const struct op *op) {
    struct kept_cursor cursor = cursor_for(run, op);

    do_subscribe(run, op, &cursor);
}

/* The client comes back with everything that it wants and all that it knows. */
static void op_resume(struct run *run, const struct op *op) {
    int t;

    do_open(run, op->client);
    for (t = 0; t < TARGETS; t++) {
        struct interest *interest = &run->truth.clients[op->client].interests[t];
        struct kept_cursor cursor = interest->cursor;
        struct op one = *op;

        if (!interest->wanted || interest->live)
            continue;
        one.target = t;
        one.filter = interest->filter;
        do_subscribe(run, &one, &cursor);
    }
}

static void acknowledged(struct run *run, int client, int target) {
    tdg__cursor_t cursor;

    if (tdg__engine_cursor(run->engine, run->truth.clients[client].stream, &cursor) == 0)
        client_acknowledged(&run->truth, client, target, cursor);
}

static void do_acknowledge(struct run *run, int client, int target) {
    tdg__stream_t stream = run->truth.clients[client].stream;
    tdg__target_t own = cast_target(target == ALL ? 0 : target);
    int expected;
    int t;

    for (t = 0; t < TARGETS; t++) {
        tdg__target_t one = cast_target(t);

        if ((target == ALL || target == t) &&
            tdg__engine_state(run->engine, stream, &one) == TDG__ARMED)
            acknowledged(run, client, t);
    }
    expected = model_acknowledge(&run->model, client, target);
    check_code(run, "acknowledge", expected,
               tdg__engine_acknowledge(run->engine, stream, target == ALL ? NULL : &own));
}

static void op_acknowledge(struct run *run, const struct op *op) {
    do_acknowledge(run, op->client, op->target);
}

static void do_unsubscribe(struct run *run, int client, int target) {
    tdg__target_t own = cast_target(target);
    int expected = model_unsubscribe(&run->model, client, target);
    int rv =
        tdg__engine_unsubscribe(run->engine, run->truth.clients[client].stream, &own);

    check_code(run, "unsubscribe", expected, rv);
    if (rv == 0)
        client_unsubscribed(&run->truth, client, target);
}

static void op_unsubscribe(struct run *run, const struct op *op) {
    do_unsubscribe(run, op->client, op->target);
}

/* ---- Changes and watchers
 * ----------------------------------------------------------------- */

static tdg__change_t *stamp(const tdg__target_t *target, json_t *metadata, bool deleted,
                            int64_t wall_ms, uint64_t number) {
    tdg__change_t *change = NULL;

    if (tdg__change_create(target, metadata, deleted, wall_ms, 4096, &change) < 0 ||
        tdg__change_stamp(change, number) < 0)
        abort();
    return change;
}

/* With a number of its own, or as the engine numbers it. */
static int tell_engine(struct run *run, const struct cast_news *news, bool stamped,
                       uint64_t expected, uint64_t *ret_number) {
    tdg__target_t target = cast_target(news->resource);
    bool list = cast_is_list(news->resource);
    json_t *metadata = list ? NULL : cast_metadata(news, run->model.wall_ms);
    int rv;

    if (stamped) {
        tdg__change_t *change =
            stamp(&target, metadata, news->deleted, run->model.wall_ms, expected);

        rv = tdg__engine_apply(run->engine, change);
        if (rv == 0)
            check_code(run, "apply: the same again", TDG_EORDER,
                       tdg__engine_apply(run->engine, change));
        *ret_number = expected;
        tdg__change_unref(change);
    } else if (list) {
        rv = tdg__engine_list_changed(run->engine, &target, ret_number);
    } else if (news->deleted) {
        rv = tdg__engine_deleted(run->engine, &target, metadata, ret_number);
    } else {
        rv = tdg__engine_changed(run->engine, &target, metadata, ret_number);
    }
    json_decref(metadata);
    return rv;
}

static void do_change(struct run *run, const struct op *op, bool deleted) {
    struct cast_news news = {
        .resource = op->target,
        .deleted = deleted,
        .size = op->size,
        .kind = op->kind_of,
        .age_ms = op->age,
    };
    uint64_t ended = run->model.counters.ended;
    uint64_t expected;
    uint64_t number = 0;
    int rv;

    if (op->target >= RESOURCES || op->target < 0 ||
        (deleted && cast_is_list(op->target)))
        return;
    expected = model_number(&run->model, op->gap >= 0 ? (uint64_t)op->gap : 0);
    rv = tell_engine(run, &news, op->gap >= 0 || run->world->opts.shared_numbers,
                     expected, &number);
    check_code(run, "changed", 0, rv);
    check_number(run, "changed: number", expected, number);
    model_changed(&run->model, &news, expected);
    if (run->model.counters.ended != ended)
        forgive_limited(run);
    truth_changed(&run->truth, &news, expected);
}

static void op_changed(struct run *run, const struct op *op) {
    do_change(run, op, false);
}

static void op_deleted(struct run *run, const struct op *op) {
    do_change(run, op, true);
}

/* Something happens that no armed watcher sees. Where everything is pushed, or somebody
 * watches, there is no such thing. */
static void op_unseen(struct run *run, const struct op *op) {
    int t;

    if (!run->world->watch || op->target < 0 || op->target >= RESOURCES)
        return;
    for (t = 0; t < TARGETS; t++)
        if (cast_covers(t, op->target) && run->model.watchers[t].used &&
            run->model.watchers[t].armed)
            return;
    for (t = 0; t < TARGETS; t++)
        if (cast_covers(t, op->target))
            run->dirty[t] = true;
    truth_unseen(&run->truth, op->target);
}

static bool is_arming(const struct run *run, int target) {
    return run->model.watchers[target].used && !run->model.watchers[target].armed;
}

/* A source says UNCHANGED only where that is so. */
static void do_watch_done(struct run *run, int target, int result, int gap) {
    tdg__target_t own = cast_target(target);
    int error = result == TDG__WATCH_FAILED ? TDG_ENOTSUP : 0;
    int expected;

    if (result == TDG__WATCH_UNCHANGED &&
        (run->dirty[target] || !run->was_watched[target]))
        result = TDG__WATCH_ARMED;
    if (result != TDG__WATCH_FAILED && is_arming(run, target)) {
        run->dirty[target] = false;
        run->was_watched[target] = true;
    }
    if (run->world->opts.shared_numbers && gap >= 0) {
        uint64_t number = model_number(&run->model, (uint64_t)gap);

        model_reach(&run->model, number);
        tdg__engine_reach(run->engine, number);
    }
    expected = model_watch_done(&run->model, target, (tdg__watch_result_t)result, error);
    check_code(
        run, "watch_done", expected,
        tdg__engine_watch_done(run->engine, &own, (tdg__watch_result_t)result, error));
}

static void op_watch_done(struct run *run, const struct op *op) {
    int t;

    run->then = (enum op_then)op->then;
    if (op->target != ALL) {
        do_watch_done(run, op->target, op->result, op->gap);
        return;
    }
    for (t = 0; t < TARGETS; t++)
        if (is_arming(run, t))
            do_watch_done(run, t, op->result, op->gap);
}

/* ---- Delivery
 * ------------------------------------------------------------------------------ */

/* What is not as it should be, or NULL. */
static const char *note_differs(const struct model_note *expected,
                                const struct model_note *got) {
    bool real = expected->assumed && !got->assumed && expected->real_too;

    if (expected->kind != got->kind || expected->reason != got->reason)
        return "note: kind or reason";
    if (expected->resource != got->resource)
        return "note: order";
    if (expected->number != got->number)
        return "note: number";
    if (expected->deleted != got->deleted && !expected->deleted_too)
        return "note: deleted";
    if (expected->assumed != got->assumed && !real)
        return "note: assumed";
    if (expected->merged != got->merged)
        return "note: merged";
    if (expected->cursor.epoch != got->cursor.epoch ||
        expected->cursor.number != got->cursor.number)
        return "note: cursor";
    return NULL;
}

static void describe_note(char *text, size_t size, const struct model_note *note) {
    snprintf(text, size,
             "kind %d, %s, number %" PRIu64
             ", deleted %d, assumed %d, merged %u, reason %s, cursor %" PRIu64
             "/%" PRIu64,
             (int)note->kind, name_of(note->resource), note->number, note->deleted,
             note->assumed, note->merged, tdg_error_name(note->reason),
             note->cursor.epoch, note->cursor.number);
}

static struct model_note plain_note(const tdg__note_t *note) {
    struct model_note plain = {.kind = note->kind,
                               .resource = -1,
                               .merged = note->merged,
                               .reason = note->reason,
                               .cursor = note->cursor};

    if (note->change != NULL) {
        tdg__target_t target = {note->change->kind, note->change->name,
                                note->change->len};

        plain.resource = cast_find(&target);
        plain.number = note->change->number;
        plain.deleted = note->change->deleted;
        plain.assumed = note->change->assumed;
    }
    return plain;
}

static void compare_notes(struct run *run, int client, const struct model_note *expected,
                          const struct model_note *got) {
    const char *difference = note_differs(expected, got);
    char wanted[256];
    char came[256];

    if (difference == NULL && !run->opts.verbose)
        return;
    describe_note(wanted, sizeof(wanted), expected);
    describe_note(came, sizeof(came), got);
    if (run->opts.verbose)
        printf("    client=%d took %s\n", client, came);
    if (difference != NULL)
        fail(run, difference, "client %d\n#   expected %s\n#   got      %s", client,
             wanted, came);
}

/* Returns false when there is nothing to take. */
static bool do_take(struct run *run, int client) {
    tdg__stream_t stream = run->truth.clients[client].stream;
    struct model_note expected = {.resource = -1};
    struct model_note got;
    tdg__note_t note = {0};
    const char *broken;
    int expected_rv;
    int rv;
    int i;

    run->refused_count = 0;
    rv = tdg__engine_take(run->engine, stream, &note);
    for (i = 0; i < run->refused_count; i++)
        if (!model_refused(&run->model, client, run->refused[i]))
            fail(run, "take: asked for a right that does not matter", "client %d, %s",
                 client, name_of(run->refused[i]));
    got = plain_note(&note);
    expected_rv = model_take(&run->model, client, got.resource, &expected);
    if (rv != expected_rv)
        fail(run, "take", "client %d: expected %d, got %d", client, expected_rv, rv);
    if (rv != 1)
        return false;

    compare_notes(run, client, &expected, &got);
    if (note.kind != TDG__NOTE_END && got.resource == -1) {
        fail(run, "note: of nothing that exists", "client %d", client);
        return false;
    }
    broken = client_took(&run->truth, client, &note, got.resource);
    if (broken != NULL)
        fail(run, broken, "client %d, %s, number %" PRIu64, client, name_of(got.resource),
             got.number);
    return !run->verdict->failed;
}

static void op_take(struct run *run, const struct op *op) {
    int i;

    for (i = 0; i < op->count && do_take(run, op->client); i++)
        ;
}

/* What the server's loop does: all that is ready, up to so many from each stream. */
static void op_flush(struct run *run, const struct op *op) {
    tdg__stream_t s = 0;

    while ((s = tdg__engine_next_ready(run->engine, s)) != 0 && !run->verdict->failed) {
        int c = find_client(run, s);
        int i;

        for (i = 0; c != -1 && i < op->count && do_take(run, c); i++)
            ;
    }
}

static void op_receive(struct run *run, const struct op *op) {
    client_receive(&run->truth, op->client);
}

/* ---- Settings
 * ------------------------------------------------------------------------------- */

static void op_configure(struct run *run, const struct op *op) {
    tdg__settings_t settings = {cast_timings[op->timing], cast_rates[op->rate]};
    tdg__target_t target = cast_target(op->target < 0 ? 0 : op->target);

    model_configure(&run->model, cast_find(&target), op->timing, op->rate);
    check_code(run, "configure", 0,
               tdg__engine_configure(run->engine, &target, &settings));
}

static void op_set_rate(struct run *run, const struct op *op) {
    tdg__target_t target = cast_target(op->target < 0 ? 0 : op->target);

    model_set_rate(&run->model, cast_find(&target), op->rate);
    check_code(run, "set_rate_limit", 0,
               tdg__engine_set_rate_limit(run->engine, &target, cast_rates[op->rate]));
}

/* Only worlds that ask for rights have any. */
static void op_right(struct run *run, const struct op *op) {
    if (!run->world->may_read || op->target < 0 || op->target >= URIS)
        return;
    model_set_right(&run->model, op->client, op->target, op->count != 0);
    truth_set_right(&run->truth, op->client, op->target, op->count != 0);
}

static void op_set_defaults(struct run *run, const struct op *op) {
    tdg__settings_t settings = {cast_timings[op->timing], cast_rates[op->rate]};

    model_set_defaults(&run->model, op->timing, op->rate);
    check_code(run, "set_defaults", 0, tdg__engine_set_defaults(run->engine, &settings));
}

/* ---- Looking in
 * ------------------------------------------------------------------------------ */

struct seen_subscribers {
    struct run *run;
    int counts[CLIENTS][TARGETS];
};

static bool see_subscriber(void *arg, const tdg__sub_info_t *info) {
    struct seen_subscribers *seen = arg;
    int c = find_client(seen->run, info->stream);
    int t = cast_find(&info->target);

    if (c == -1 || t == -1) {
        fail(seen->run, "subscribers: somebody who does not exist", " ");
        return false;
    }
    seen->counts[c][t]++;
    return true;
}

static void op_subscribers(struct run *run, const struct op *op) {
    struct seen_subscribers seen = {.run = run};
    tdg__target_t target = cast_target(op->target < 0 ? 0 : op->target);
    int own = cast_find(&target);
    int c;
    int t;

    tdg__engine_each_subscriber(run->engine, &target, true, see_subscriber, &seen);
    for (c = 0; c < CLIENTS; c++)
        for (t = 0; t < TARGETS; t++) {
            bool concerned = t == own || (own < URIS && cast_covers(t, own));
            bool there =
                concerned && model_state(&run->model, c, t) != TDG__NOT_SUBSCRIBED;

            if (seen.counts[c][t] != there)
                fail(run, "subscribers", "of %s: client %d, %s: expected %d, got %d",
                     name_of(own), c, name_of(t), there, seen.counts[c][t]);
        }
}

static void begin_paging(struct run *run) {
    int c;
    int t;

    run->paging = true;
    run->page_position = 0;
    memset(run->page_seen, 0, sizeof(run->page_seen));
    for (c = 0; c < CLIENTS; c++)
        for (t = 0; t < TARGETS; t++)
            run->page_uids[c][t] = run->model.streams[c].subs[t].used
                                       ? run->model.streams[c].subs[t].uid
                                       : 0;
}

static void end_paging(struct run *run) {
    int c;
    int t;

    run->paging = false;
    for (c = 0; c < CLIENTS; c++)
        for (t = 0; t < TARGETS; t++) {
            const struct subscription *sub = &run->model.streams[c].subs[t];

            if (sub->used && sub->uid == run->page_uids[c][t] &&
                run->page_seen[c][t] != 1)
                fail(run, "page: what was there throughout",
                     "client %d, %s: seen %d times", c, name_of(t), run->page_seen[c][t]);
        }
}

/* Goes on where the last page ended, whatever happened in between. */
static void op_page(struct run *run, const struct op *op) {
    tdg__sub_info_t page[8];
    size_t max = (size_t)(op->count > 8 || op->count < 1 ? 8 : op->count);
    size_t n;
    size_t i;

    if (!run->paging)
        begin_paging(run);
    n = tdg__engine_page(run->engine, &run->page_position, page, max);
    for (i = 0; i < n; i++) {
        int c = find_client(run, page[i].stream);
        int t = cast_find(&page[i].target);

        if (c == -1 || t == -1 || model_state(&run->model, c, t) != page[i].state) {
            fail(run, "page: somebody who does not exist", "client %d, %s", c,
                 name_of(t));
            return;
        }
        if (run->model.streams[c].subs[t].uid == run->page_uids[c][t])
            run->page_seen[c][t]++;
    }
    if (n < max)
        end_paging(run);
}

/* Input that is refused and changes nothing. */
static void op_mistake(struct run *run, const struct op *op) {
    tdg__stream_t stream = run->truth.clients[op->client].stream;
    bool open = run->model.streams[op->client].open;
    bool ended = run->model.streams[op->client].ended;
    int otherwise = !open ? TDG_ENOTFOUND : TDG_EENDED;
    tdg__target_t nothing = {TDG__TARGET_URI, "", 0};
    tdg__target_t list = tdg__target_list("cats");
    tdg__target_t uri = cast_target(0);
    tdg__target_t broken = tdg__target_template("note://{");
    tdg__sub_opts_t opts = {0};
    tdg__settings_t settings = {
        {TDG__TIMING_BATCH, TDG__MAX_WINDOW_MS + 1, 0},
        0
    };
    json_t *metadata = json_array();

    switch (op->count % 6) {
    case 0:
        check_code(run, "mistake: empty name", !open || ended ? otherwise : TDG_EINVAL,
                   tdg__engine_subscribe(run->engine, stream, &nothing, NULL, NULL));
        break;
    case 1:
        check_code(run, "mistake: unknown list", !open || ended ? otherwise : TDG_EINVAL,
                   tdg__engine_subscribe(run->engine, stream, &list, NULL, NULL));
        break;
    case 2:
        check_code(run, "mistake: bad metadata",
                   run->world->opts.shared_numbers ? TDG_ENOTSUP : TDG_EINVAL,
                   tdg__engine_changed(run->engine, &uri, metadata, NULL));
        break;
    case 3:
        check_code(run, "mistake: bad settings", TDG_EINVAL,
                   tdg__engine_configure(run->engine, &uri, &settings));
        break;
    case 4:
        opts.priority = 2;
        check_code(run, "mistake: bad priority", !open || ended ? otherwise : TDG_EINVAL,
                   tdg__engine_subscribe(run->engine, stream, &uri, &opts, NULL));
        break;
    default:
        if (open && !ended &&
            tdg__engine_subscribe(run->engine, stream, &broken, NULL, NULL) >= 0)
            fail(run, "mistake: bad template", "taken");
        break;
    }
    json_decref(metadata);
}

/* ---- Quiet
 * ------------------------------------------------------------------------------------ */

static void take_everything(struct run *run) {
    struct op all = {.kind = OP_FLUSH, .count = INT32_MAX};
    int c;

    for (c = 0; c < CLIENTS; c++)
        if (run->truth.clients[c].open) {
            do_acknowledge(run, c, ALL);
            do_block(run, c, false);
        }
    op_flush(run, &all);
}

/* Until no deadline is left. */
static void run_out_of_time(struct run *run) {
    int steps;

    for (steps = 0; steps < 1000 && !run->verdict->failed; steps++) {
        int64_t next = tdg__engine_next_deadline(run->engine);

        take_everything(run);
        next = tdg__engine_next_deadline(run->engine);
        if (next == INT64_MAX)
            return;
        advance_to(run, next);
        compare(run);
    }
    fail(run, "quiet: time does not run out", "after %d deadlines", steps);
}

static void check_quiet(struct run *run) {
    tdg__counters_t counters;
    const char *broken;
    int client;
    int target;
    int resource;
    int c;

    for (c = 0; c < CLIENTS; c++)
        client_receive(&run->truth, c);
    broken = truth_check(&run->truth, &client, &target, &resource);
    if (broken != NULL)
        fail(run, broken, "client %d, subscribed to %s, about %s", client,
             name_of(target), name_of(resource));

    tdg__engine_counters(run->engine, &counters);
    check_number(run, "quiet: something is pending", 0, counters.pending);
    run->model.hits[HIT_QUIET]++;
}

/* Everybody answers, reads and waits; then everybody must know everything. */
static void op_quiet(struct run *run, const struct op *op) {
    int t;

    (void)op;
    run->then = THEN_NOTHING;
    for (t = 0; t < TARGETS; t++)
        if (is_arming(run, t))
            do_watch_done(run, t, t % 2 ? TDG__WATCH_ARMED : TDG__WATCH_UNCHANGED,
                          t % 3 - 1);
    run_out_of_time(run);
    compare(run);
    check_quiet(run);
}

/* ---- The whole run
 * ------------------------------------------------------------------------------ */

static void (*const operations[OP_KINDS])(struct run *run, const struct op *op) = {
    [OP_ADVANCE] = op_advance,
    [OP_UNTIL] = op_until,
    [OP_OPEN] = op_open,
    [OP_CLOSE] = op_close,
    [OP_DROP] = op_drop,
    [OP_END] = op_end,
    [OP_RESUME] = op_resume,
    [OP_SUBSCRIBE] = op_subscribe,
    [OP_ACKNOWLEDGE] = op_acknowledge,
    [OP_UNSUBSCRIBE] = op_unsubscribe,
    [OP_CHANGED] = op_changed,
    [OP_DELETED] = op_deleted,
    [OP_UNSEEN] = op_unseen,
    [OP_WATCH_DONE] = op_watch_done,
    [OP_TAKE] = op_take,
    [OP_FLUSH] = op_flush,
    [OP_BLOCK] = op_block,
    [OP_UNBLOCK] = op_unblock,
    [OP_RECEIVE] = op_receive,
    [OP_CONFIGURE] = op_configure,
    [OP_SET_RATE] = op_set_rate,
    [OP_SET_DEFAULTS] = op_set_defaults,
    [OP_RIGHT] = op_right,
    [OP_SUBSCRIBERS] = op_subscribers,
    [OP_PAGE] = op_page,
    [OP_MISTAKE] = op_mistake,
    [OP_QUIET] = op_quiet,
};

/* Nothing stays behind: all streams go, time runs out, and nothing is left. */
static void check_empty(struct run *run) {
    tdg__counters_t counters;
    int c;

    op_quiet(run, NULL);
    for (c = 0; c < CLIENTS && !run->verdict->failed; c++)
        do_close(run, c);
    if (!run->verdict->failed) {
        run_out_of_time(run);
        compare(run);
    }

    tdg__engine_counters(run->engine, &counters);
    check_number(run, "promise 7: streams left", 0, counters.streams);
    check_number(run, "promise 7: subscriptions left", 0, counters.subscriptions);
    check_number(run, "promise 7: templates left", 0, counters.templates);
    check_number(run, "promise 7: watchers left", 0, counters.watchers);
    check_number(run, "promise 7: notifications left", 0, counters.pending);
}

/* Every watcher that is left is told to stop. */
static void destroy(struct run *run) {
    int t;

    for (t = 0; t < TARGETS; t++)
        run->model.unwatched[t] += run->model.watchers[t].used;
    tdg__engine_destroy(run->engine);
    for (t = 0; t < TARGETS; t++)
        check_number(run, "destroy: calls of unwatch", run->model.unwatched[t],
                     run->unwatched[t]);
}

static void play(struct run *run, const struct script *script) {
    size_t i;

    advance_to(run, START_MS);
    for (i = 0; i < script->count && !run->verdict->failed; i++) {
        run->verdict->op = i + 1;
        if (run->opts.verbose) {
            printf("%6zu %8" PRId64 "  ", i + 1, run->model.now_ms);
            script_print_op(stdout, &script->ops[i]);
            fflush(stdout);
        }
        operations[script->ops[i].kind](run, &script->ops[i]);
        if (!run->verdict->failed)
            compare(run);
    }

    if (!run->verdict->failed && !script->abrupt)
        check_empty(run);
}

void run_script(const struct script *script, const struct run_opts *opts, uint64_t *hits,
                struct verdict *ret) {
    struct run *run = calloc(1, sizeof(*run));
    uint64_t before = blocks;

    if (run == NULL)
        abort();
    memset(ret, 0, sizeof(*ret));
    run->world = &cast_worlds[script->world];
    run->verdict = ret;
    run->opts = *opts;
    model_init(&run->model, run->world, EPOCH, hits);
    truth_init(&run->truth, run->world, EPOCH, hits);

    if (start(run)) {
        play(run, script);
        destroy(run);
        check_number(run, "promise 7: memory left", before, blocks);
    }
    free(run);
}

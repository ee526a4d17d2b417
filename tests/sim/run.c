/* SPDX-License-Identifier: MIT */
#include "run_internal.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <tidings/tidings.h>

enum { EPOCH = 77, START_MS = 1000 };
static const int64_t start_wall_ms = 1700000000000;

/* ---- Failing ------------------------------------------------------------ */

void run__fail(struct run *run, const char *kind, const char *format, ...) {
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

void run__check_number(struct run *run, const char *kind, uint64_t expected,
                       uint64_t got) {
    if (expected != got)
        run__fail(run, kind, "expected %" PRIu64 ", got %" PRIu64, expected, got);
}

void run__check_code(struct run *run, const char *kind, int expected, int got) {
    if (expected != got)
        run__fail(run, kind, "expected %s, got %s", tdg_error_name(expected),
                  tdg_error_name(got));
}

const char *run__name_of(int target) {
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

int run__find_client(struct run *run, tdg__stream_t stream) {
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

static void on_settled(void *user, tdg__stream_t stream, const tdg__target_t *target,
                       int status, bool resumed) {
    struct run *run = user;
    int t = cast_find(target);
    int c = run__find_client(run, stream);

    if (c == -1) {
        run__fail(run, "settled: a stream that is not open", "%s", run__name_of(t));
        return;
    }
    if (run->opts.verbose)
        printf("    settled client=%d %s %s resumed=%d\n", c, run__name_of(t),
               tdg_error_name(status), resumed);
    if (!model_settled(&run->model, c, t, status, resumed))
        run__fail(run, "settled", "not expected: client %d, %s, %s, resumed %d", c,
                  run__name_of(t), tdg_error_name(status), resumed);
    client_settled(&run->truth, c, t, status, resumed);

    run->model.hits[HIT_IN_SETTLED] += run->then != THEN_NOTHING;
    switch (run->then) {
    case THEN_ACKNOWLEDGE:
        run__do_acknowledge(run, c, t);
        break;
    case THEN_UNSUBSCRIBE:
        run__do_unsubscribe(run, c, t);
        break;
    case THEN_CLOSE:
        run__do_close(run, c);
        break;
    default:
        break;
    }
}

static bool on_may_read(void *user, tdg__stream_t stream, const tdg__target_t *uri) {
    struct run *run = user;
    int c = run__find_client(run, stream);
    int r = cast_find(uri);

    if (c == -1 || r == -1) {
        run__fail(run, "may_read: a stream or URI that does not exist", "client %d", c);
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
    run__check_code(run, "create", 0, rv);
    return rv == 0;
}

/* ---- Time --------------------------------------------------------------- */

/* Whether a subscription that goes in the middle of a change or of an advance had
 * something delayed before depends on an order that is nobody's business. */
void run__forgive_limited(struct run *run) {
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
        run__forgive_limited(run);
    if (tdg__engine_next_deadline(run->engine) <= run->model.now_ms)
        run__fail(run, "next_deadline: due right after advance",
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

/* ---- Quiet -------------------------------------------------------------- */

static void take_everything(struct run *run) {
    struct op all = {.kind = OP_FLUSH, .count = INT32_MAX};
    int c;

    for (c = 0; c < CLIENTS; c++)
        if (run->truth.clients[c].open) {
            run__do_acknowledge(run, c, ALL);
            run__do_block(run, c, false);
        }
    run__op_flush(run, &all);
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
        run__compare(run);
    }
    run__fail(run, "quiet: time does not run out", "after %d deadlines", steps);
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
        run__fail(run, broken, "client %d, subscribed to %s, about %s", client,
                  run__name_of(target), run__name_of(resource));

    tdg__engine_counters(run->engine, &counters);
    run__check_number(run, "quiet: something is pending", 0, counters.pending);
    run->model.hits[HIT_QUIET]++;
}

/* Everybody answers, reads and waits; then everybody must know everything. */
static void op_quiet(struct run *run, const struct op *op) {
    int t;

    (void)op;
    run->then = THEN_NOTHING;
    for (t = 0; t < TARGETS; t++)
        if (run__is_arming(run, t))
            run__do_watch_done(run, t, t % 2 ? TDG__WATCH_ARMED : TDG__WATCH_UNCHANGED,
                               t % 3 - 1);
    run_out_of_time(run);
    run__compare(run);
    check_quiet(run);
}

/* ---- The whole run ------------------------------------------------------ */

static run_op_fn *const operations[OP_KINDS] = {
    [OP_ADVANCE] = op_advance,
    [OP_UNTIL] = op_until,
    [OP_OPEN] = run__op_open,
    [OP_CLOSE] = run__op_close,
    [OP_DROP] = run__op_drop,
    [OP_END] = run__op_end,
    [OP_RESUME] = run__op_resume,
    [OP_SUBSCRIBE] = run__op_subscribe,
    [OP_REWIND] = run__op_rewind,
    [OP_ACKNOWLEDGE] = run__op_acknowledge,
    [OP_UNSUBSCRIBE] = run__op_unsubscribe,
    [OP_CHANGED] = run__op_changed,
    [OP_DELETED] = run__op_deleted,
    [OP_UNSEEN] = run__op_unseen,
    [OP_WATCH_DONE] = run__op_watch_done,
    [OP_TAKE] = run__op_take,
    [OP_FLUSH] = run__op_flush,
    [OP_BLOCK] = run__op_block,
    [OP_UNBLOCK] = run__op_unblock,
    [OP_RECEIVE] = run__op_receive,
    [OP_CONFIGURE] = run__op_configure,
    [OP_SET_RATE] = run__op_set_rate,
    [OP_SET_DEFAULTS] = run__op_set_defaults,
    [OP_END_WINDOWS] = run__op_end_windows,
    [OP_HELD_UP] = run__op_held_up,
    [OP_RIGHT] = run__op_right,
    [OP_SUBSCRIBERS] = run__op_subscribers,
    [OP_PAGE] = run__op_page,
    [OP_MISTAKE] = run__op_mistake,
    [OP_QUIET] = op_quiet,
};

/* Nothing stays behind: all streams go, time runs out, and nothing is left. */
static void check_empty(struct run *run) {
    tdg__counters_t counters;
    int c;

    op_quiet(run, NULL);
    for (c = 0; c < CLIENTS && !run->verdict->failed; c++)
        run__do_close(run, c);
    if (!run->verdict->failed) {
        run_out_of_time(run);
        run__compare(run);
    }

    tdg__engine_counters(run->engine, &counters);
    run__check_number(run, "promise 7: streams left", 0, counters.streams);
    run__check_number(run, "promise 7: subscriptions left", 0, counters.subscriptions);
    run__check_number(run, "promise 7: templates left", 0, counters.templates);
    run__check_number(run, "promise 7: watchers left", 0, counters.watchers);
    run__check_number(run, "promise 7: notifications left", 0, counters.pending);
}

/* Every watcher that is left is told to stop. */
static void destroy(struct run *run) {
    int t;

    for (t = 0; t < TARGETS; t++)
        run->model.unwatched[t] += run->model.watchers[t].used;
    tdg__engine_destroy(run->engine);
    for (t = 0; t < TARGETS; t++)
        run__check_number(run, "destroy: calls of unwatch", run->model.unwatched[t],
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
            run__compare(run);
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
        run__check_number(run, "promise 7: memory left", before, blocks);
    }
    free(run);
}

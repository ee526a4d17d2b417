/* SPDX-License-Identifier: MIT
 *
 * The operations of a script, each on the engine, on the model and in the clients' logs.
 */
#include "run_internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <tidings/tidings.h>

enum { FOREIGN_EPOCH = 78 };

/* ---- Streams ------------------------------------------------------------ */

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
    tdg__cursor_t cursor = {0, 0};
    int expected;

    if (run->truth.clients[client].over)
        drop(run, client, 0);
    if (run->truth.clients[client].open)
        return;
    expected = model_open(&run->model, client);
    run__check_code(run, "open", expected,
                    tdg__engine_open(run->engine, &run->truth.clients[client], &stream));
    if (expected < 0)
        return;

    tdg__engine_cursor(run->engine, stream, &cursor);
    client_opened(&run->truth, client, stream, cursor);
    if (tdg__engine_stream_user(run->engine, stream) != &run->truth.clients[client])
        run__fail(run, "open: user", "client %d", client);
}

void run__op_open(struct run *run, const struct op *op) {
    do_open(run, op->client);
}

void run__do_close(struct run *run, int client) {
    close_stream(run, client);
    client_left(&run->truth, client);
}

void run__op_close(struct run *run, const struct op *op) {
    run__do_close(run, op->client);
}

void run__op_drop(struct run *run, const struct op *op) {
    drop(run, op->client, op->count);
}

void run__op_end(struct run *run, const struct op *op) {
    int expected = model_end(&run->model, op->client, TDG_ENOTSUP);

    run__check_code(
        run, "end", expected,
        tdg__engine_end(run->engine, run->truth.clients[op->client].stream, TDG_ENOTSUP));
}

void run__do_block(struct run *run, int client, bool blocked) {
    int expected = model_block(&run->model, client, blocked);

    run__check_code(
        run, "block", expected,
        tdg__engine_block(run->engine, run->truth.clients[client].stream, blocked));
}

void run__op_block(struct run *run, const struct op *op) {
    run->model.hits[HIT_BLOCKED] += model_ready(&run->model, op->client);
    run__do_block(run, op->client, true);
}

void run__op_unblock(struct run *run, const struct op *op) {
    run__do_block(run, op->client, false);
}

/* ---- Subscriptions ------------------------------------------------------ */

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
        return interest->cursor;
    case CURSOR_FOREIGN:
    case CURSOR_AHEAD: /* the same to whoever relies on it; sent_cursor() has the number
                        */
        return (struct kept_cursor){true, {FOREIGN_EPOCH, 3}, run->truth.serial};
    default:
        return truth_kept(&run->truth, (1U << (op->cursor - CURSOR_KEPT)) - 1);
    }
}

/* What the client sends for the one that it relies on. */
static tdg__cursor_t sent_cursor(const struct run *run, const struct op *op,
                                 const struct kept_cursor *cursor) {
    if (op->cursor != CURSOR_AHEAD || run->world->opts.shared_numbers)
        return cursor->cursor;
    return (tdg__cursor_t){run->truth.epoch, run->model.last_number + 1};
}

static void acknowledged(struct run *run, int client, int target) {
    tdg__cursor_t cursor;

    if (tdg__engine_cursor(run->engine, run->truth.clients[client].stream, &cursor) == 0)
        client_acknowledged(&run->truth, client, target, cursor);
}

static void do_subscribe(struct run *run, const struct op *op,
                         const struct kept_cursor *cursor) {
    tdg__target_t target = cast_target(op->target);
    tdg__cursor_t sent = sent_cursor(run, op, cursor);
    struct model_subscribe request = {
        .client = op->client,
        .target = op->target,
        .wishes = {op->timing, op->rate, op->filter},
        .priority = op->priority,
        .has_cursor = cursor->valid,
        .cursor = sent,
        .since_ms = op->cursor == CURSOR_SINCE && op->ms > 0 ? op->ms : 0,
        .watch = watch_code(op->watch),
    };
    tdg__sub_opts_t opts = {
        .settings = {.timing = cast_timings[op->timing],
                     .rate_limit_ms = cast_rates[op->rate]},
        .filter = cast_filter(op->filter),
        .priority = op->priority,
        .has_cursor = cursor->valid,
        .cursor = sent,
        .since_ms = request.since_ms,
    };
    tdg__subscribed_t expected = {0};
    tdg__subscribed_t got = {0};
    int expected_rv = model_subscribe(&run->model, &request, &expected);
    int rv;

    run->watch_answer = request.watch;
    rv = tdg__engine_subscribe(run->engine, run->truth.clients[op->client].stream,
                               &target, &opts, &got);

    run__check_code(run, "subscribe", expected_rv, rv);
    if (rv < 0 || expected_rv < 0)
        return;
    run__check_number(run, "subscribe: state", expected.state, got.state);
    run__check_number(run, "subscribe: resumed", expected.resumed, got.resumed);
    client_subscribed(&run->truth, op->client, op->target, op->filter, cursor,
                      request.since_ms > 0, &got);
    if (got.state == TDG__SUBSCRIBED)
        acknowledged(run, op->client, op->target);
}

void run__op_subscribe(struct run *run, const struct op *op) {
    struct kept_cursor cursor = cursor_for(run, op);

    do_subscribe(run, op, &cursor);
}

/* The client comes back with everything that it wants and all that it knows. */
void run__op_resume(struct run *run, const struct op *op) {
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
        one.cursor = op->cursor == CURSOR_SINCE ? CURSOR_SINCE : CURSOR_OWN;
        do_subscribe(run, &one, &cursor);
    }
}

/* The client's connection breaks, its stream lives on, and it comes back to it. */
void run__op_rewind(struct run *run, const struct op *op) {
    struct client *client = &run->truth.clients[op->client];
    bool expected = false;
    bool complete = false;
    int expected_rv;
    int rv;

    if (client->over)
        return;
    /* Whose stream has ended is told so, and comes back with what it has received. */
    int lost = tdg__engine_has_ended(run->engine, client->stream)
                   ? 0
                   : client_loses(&run->truth, op->client, op->count);
    struct kept_cursor cursor = op->cursor == CURSOR_FOREIGN || op->cursor >= CURSOR_AHEAD
                                    ? cursor_for(run, op)
                                    : client->position;
    if (!cursor.valid)
        cursor = client->position;
    tdg__cursor_t sent = sent_cursor(run, op, &cursor);
    expected_rv = model_rewind(&run->model, op->client, sent, &expected);
    rv = tdg__engine_rewind(run->engine, client->stream, sent, &complete);
    run__check_code(run, "rewind", expected_rv, rv);
    if (rv < 0 || expected_rv < 0)
        return;
    run__check_number(run, "rewind: complete", expected, complete);
    client_rewound(&run->truth, op->client, &cursor, lost > 0, complete);
}

void run__do_acknowledge(struct run *run, int client, int target) {
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
    run__check_code(
        run, "acknowledge", expected,
        tdg__engine_acknowledge(run->engine, stream, target == ALL ? NULL : &own));
}

void run__op_acknowledge(struct run *run, const struct op *op) {
    run__do_acknowledge(run, op->client, op->target);
}

void run__do_unsubscribe(struct run *run, int client, int target) {
    tdg__target_t own = cast_target(target);
    int expected = model_unsubscribe(&run->model, client, target);
    int rv =
        tdg__engine_unsubscribe(run->engine, run->truth.clients[client].stream, &own);

    run__check_code(run, "unsubscribe", expected, rv);
    if (rv == 0)
        client_unsubscribed(&run->truth, client, target);
}

void run__op_unsubscribe(struct run *run, const struct op *op) {
    run__do_unsubscribe(run, op->client, op->target);
}

/* ---- Changes and watchers ----------------------------------------------- */

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
            run__check_code(run, "apply: the same again", TDG_EORDER,
                            tdg__engine_apply(run->engine, change));
        *ret_number = expected;
        tdg__change_unref(change);
    } else {
        rv = tdg__engine_publish(run->engine, &target, list ? NULL : metadata,
                                 !list && news->deleted, ret_number);
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
    run__check_code(run, "changed", 0, rv);
    run__check_number(run, "changed: number", expected, number);
    model_changed(&run->model, &news, expected);
    if (run->model.counters.ended != ended)
        run__forgive_limited(run);
    truth_changed(&run->truth, &news, expected);
}

void run__op_changed(struct run *run, const struct op *op) {
    do_change(run, op, false);
}

void run__op_deleted(struct run *run, const struct op *op) {
    do_change(run, op, true);
}

/* Something happens that no armed watcher sees. Where everything is pushed, or somebody
 * watches, there is no such thing. */
void run__op_unseen(struct run *run, const struct op *op) {
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

bool run__is_arming(const struct run *run, int target) {
    return run->model.watchers[target].used && !run->model.watchers[target].armed;
}

/* A source says UNCHANGED only where that is so. */
void run__do_watch_done(struct run *run, int target, int result, int gap) {
    tdg__target_t own = cast_target(target);
    int error = result == TDG__WATCH_FAILED ? TDG_ENOTSUP : 0;
    int expected;

    if (result == TDG__WATCH_UNCHANGED &&
        (run->dirty[target] || !run->was_watched[target]))
        result = TDG__WATCH_ARMED;
    if (result != TDG__WATCH_FAILED && run__is_arming(run, target)) {
        run->dirty[target] = false;
        run->was_watched[target] = true;
    }
    if (run->world->opts.shared_numbers && gap >= 0) {
        uint64_t number = model_number(&run->model, (uint64_t)gap);

        model_reach(&run->model, number);
        tdg__engine_reach(run->engine, number);
    }
    expected = model_watch_done(&run->model, target, (tdg__watch_result_t)result, error);
    run__check_code(
        run, "watch_done", expected,
        tdg__engine_watch_done(run->engine, &own, (tdg__watch_result_t)result, error));
}

void run__op_watch_done(struct run *run, const struct op *op) {
    int t;

    run->then = (enum op_then)op->then;
    if (op->target != ALL) {
        run__do_watch_done(run, op->target, op->result, op->gap);
        return;
    }
    for (t = 0; t < TARGETS; t++)
        if (run__is_arming(run, t))
            run__do_watch_done(run, t, op->result, op->gap);
}

/* ---- Delivery ----------------------------------------------------------- */

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
             (int)note->kind, run__name_of(note->resource), note->number, note->deleted,
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
        run__fail(run, difference, "client %d\n#   expected %s\n#   got      %s", client,
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
            run__fail(run, "take: asked for a right that does not matter",
                      "client %d, %s", client, run__name_of(run->refused[i]));
    got = plain_note(&note);
    expected_rv = model_take(&run->model, client, got.resource, &expected);
    if (rv != expected_rv)
        run__fail(run, "take", "client %d: expected %d, got %d", client, expected_rv, rv);
    if (rv != 1)
        return false;

    compare_notes(run, client, &expected, &got);
    if (note.kind != TDG__NOTE_END && got.resource == -1) {
        run__fail(run, "note: of nothing that exists", "client %d", client);
        return false;
    }
    broken = client_took(&run->truth, client, &note, got.resource);
    if (broken != NULL)
        run__fail(run, broken, "client %d, %s, number %" PRIu64, client,
                  run__name_of(got.resource), got.number);
    return !run->verdict->failed;
}

void run__op_take(struct run *run, const struct op *op) {
    int i;

    for (i = 0; i < op->count && do_take(run, op->client); i++)
        ;
}

/* What the server's loop does: all that is ready, up to so many from each stream. */
void run__op_flush(struct run *run, const struct op *op) {
    tdg__stream_t s = 0;

    while ((s = tdg__engine_next_ready(run->engine, s)) != 0 && !run->verdict->failed) {
        int c = run__find_client(run, s);
        int i;

        for (i = 0; c != -1 && i < op->count && do_take(run, c); i++)
            ;
    }
}

/* Writing is later than the last advance. */
void run__op_held_up(struct run *run, const struct op *op) {
    model_held_up(&run->model, op->ms);
    tdg__engine_set_taking_time(run->engine, run->model.now_ms + op->ms);
}

void run__op_end_windows(struct run *run, const struct op *op) {
    (void)op;
    model_end_windows(&run->model);
    tdg__engine_end_windows(run->engine);
}

void run__op_receive(struct run *run, const struct op *op) {
    client_receive(&run->truth, op->client);
}

/* ---- Settings ----------------------------------------------------------- */

void run__op_configure(struct run *run, const struct op *op) {
    tdg__settings_t settings = {cast_timings[op->timing], cast_rates[op->rate],
                                cast_min_window(op->floor), cast_min_rate(op->floor)};
    tdg__target_t target = cast_target(op->target < 0 ? 0 : op->target);

    model_configure(&run->model, cast_find(&target), op->timing, op->rate, op->floor);
    run__check_code(run, "configure", 0,
                    tdg__engine_configure(run->engine, &target, &settings));
}

void run__op_set_rate(struct run *run, const struct op *op) {
    tdg__target_t target = cast_target(op->target < 0 ? 0 : op->target);
    tdg__settings_t settings = tdg__engine_configured(run->engine, &target);

    model_set_rate(&run->model, cast_find(&target), op->rate);
    settings.rate_limit_ms = cast_rates[op->rate];
    run__check_code(run, "set_rate_limit", 0,
                    tdg__engine_configure(run->engine, &target, &settings));
}

/* Only worlds that ask for rights have any. */
void run__op_right(struct run *run, const struct op *op) {
    if (!run->world->may_read || op->target < 0 || op->target >= URIS)
        return;
    model_set_right(&run->model, op->client, op->target, op->count != 0);
    truth_set_right(&run->truth, op->client, op->target, op->count != 0);
}

void run__op_set_defaults(struct run *run, const struct op *op) {
    tdg__settings_t settings = {cast_timings[op->timing], cast_rates[op->rate],
                                cast_min_window(op->floor), cast_min_rate(op->floor)};

    model_set_defaults(&run->model, op->timing, op->rate, op->floor);
    run__check_code(run, "set_defaults", 0,
                    tdg__engine_set_defaults(run->engine, &settings));
}

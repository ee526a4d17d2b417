/* SPDX-License-Identifier: MIT
 *
 * The engine beside the model: what can be seen of both must be the same. */
#include "run_internal.h"

#include <inttypes.h>
#include <string.h>

#include <tidings/tidings.h>

/* ---- After every operation ---------------------------------------------- */

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
        run__fail(run, "subscriptions: one too many", "client %d, %s", seen->client,
                  run__name_of(t));
        return false;
    }
    seen->seen[t] = true;
    sub = &run->model.streams[seen->client].subs[t];
    if (info->state != model_state(&run->model, seen->client, t))
        run__fail(run, "subscriptions: state", "client %d, %s: expected %d, got %d",
                  seen->client, run__name_of(t),
                  (int)model_state(&run->model, seen->client, t), (int)info->state);
    if (info->pending != model_pending(&run->model, seen->client, t))
        run__fail(run, "subscriptions: pending", "client %d, %s: got %d", seen->client,
                  run__name_of(t), info->pending);
    if (!same_settings(&info->settings, sub->wishes) || info->priority != sub->priority ||
        (info->filter != NULL) != (sub->wishes.filter != 0) ||
        info->stream != run->truth.clients[seen->client].stream)
        run__fail(run, "subscriptions: wishes", "client %d, %s", seen->client,
                  run__name_of(t));
    return true;
}

static void compare_subs(struct run *run, int client) {
    struct seen_subs seen = {.run = run, .client = client};
    int rv = tdg__engine_each_subscription(run->engine, run->truth.clients[client].stream,
                                           see_sub, &seen);
    int t;

    run__check_code(run, "subscriptions", 0, rv);
    for (t = 0; t < TARGETS; t++)
        if (!seen.seen[t] && model_state(&run->model, client, t) != TDG__NOT_SUBSCRIBED)
            run__fail(run, "subscriptions: one is missing", "client %d, %s", client,
                      run__name_of(t));
}

static void compare_cursor(struct run *run, int client) {
    tdg__cursor_t expected = {0, 0};
    tdg__cursor_t got = {0, 0};
    int rv = tdg__engine_cursor(run->engine, run->truth.clients[client].stream, &got);

    run__check_code(run, "cursor", model_cursor(&run->model, client, &expected), rv);
    if (expected.epoch != got.epoch || expected.number != got.number)
        run__fail(run, "cursor",
                  "client %d: expected %" PRIu64 "/%" PRIu64 ", got %" PRIu64 "/%" PRIu64,
                  client, expected.epoch, expected.number, got.epoch, got.number);
}

static void compare_ready(struct run *run) {
    bool ready[CLIENTS] = {0};
    tdg__stream_t s = 0;
    int c;

    while ((s = tdg__engine_next_ready(run->engine, s)) != 0) {
        c = run__find_client(run, s);
        if (c == -1 || ready[c]) {
            run__fail(run, "ready: a stream twice, or one that is not open", "client %d",
                      c);
            return;
        }
        ready[c] = true;
    }
    for (c = 0; c < CLIENTS; c++)
        if (ready[c] != model_ready(&run->model, c))
            run__fail(run, "ready", "client %d: expected %d, got %d", c, !ready[c],
                      ready[c]);
}

static void compare_counters(struct run *run) {
    tdg__counters_t expected;
    tdg__counters_t got;

    model_counters(&run->model, &expected);
    tdg__engine_counters(run->engine, &got);
    run__check_number(run, "counter: streams", expected.streams, got.streams);
    run__check_number(run, "counter: subscriptions", expected.subscriptions,
                      got.subscriptions);
    run__check_number(run, "counter: templates", expected.templates, got.templates);
    run__check_number(run, "counter: watchers", expected.watchers, got.watchers);
    run__check_number(run, "counter: pending", expected.pending, got.pending);
    run__check_number(run, "counter: changes", expected.changes, got.changes);
    run__check_number(run, "counter: delivered", expected.delivered, got.delivered);
    run__check_number(run, "counter: merged", expected.merged, got.merged);
    run__check_number(run, "counter: filtered", expected.filtered, got.filtered);
    run__check_number(run, "counter: rate_limited", expected.rate_limited,
                      got.rate_limited);
    run__check_number(run, "counter: ended", expected.ended, got.ended);
    run__check_number(run, "counter: last_number", expected.last_number, got.last_number);
    run__check_number(run, "counter: epoch", expected.epoch, got.epoch);
}

static void compare_calls(struct run *run) {
    int t;

    for (t = 0; t < TARGETS; t++) {
        if (run->watched[t] != run->model.watched[t])
            run__fail(run, "calls of watch", "%s: expected %" PRIu64 ", got %" PRIu64,
                      run__name_of(t), run->model.watched[t], run->watched[t]);
        if (run->unwatched[t] != run->model.unwatched[t])
            run__fail(run, "calls of unwatch", "%s: expected %" PRIu64 ", got %" PRIu64,
                      run__name_of(t), run->model.unwatched[t], run->unwatched[t]);
    }
    if (model_unsettled(&run->model))
        run__fail(run, "settled: a call is missing", " ");
}

void run__compare(struct run *run) {
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

            run__check_code(run, "a closed stream", TDG_ENOTFOUND,
                            tdg__engine_cursor(run->engine, client->stream, &cursor));
        }
    }
    compare_ready(run);
    if (got > expected)
        run__fail(run, "next_deadline", "expected %" PRId64 " or less, got %" PRId64,
                  expected, got);
}

/* ---- Looking in --------------------------------------------------------- */

struct seen_subscribers {
    struct run *run;
    int counts[CLIENTS][TARGETS];
};

static bool see_subscriber(void *arg, const tdg__sub_info_t *info) {
    struct seen_subscribers *seen = arg;
    int c = run__find_client(seen->run, info->stream);
    int t = cast_find(&info->target);

    if (c == -1 || t == -1) {
        run__fail(seen->run, "subscribers: somebody who does not exist", " ");
        return false;
    }
    seen->counts[c][t]++;
    return true;
}

void run__op_subscribers(struct run *run, const struct op *op) {
    struct seen_subscribers seen = {.run = run};
    tdg__target_t target = cast_target(op->target < 0 ? 0 : op->target);
    int own = cast_find(&target);
    int c;
    int t;

    tdg__engine_each_subscriber(run->engine, &target, true, SIZE_MAX, see_subscriber,
                                &seen);
    for (c = 0; c < CLIENTS; c++)
        for (t = 0; t < TARGETS; t++) {
            bool concerned = t == own || (own < URIS && cast_covers(t, own));
            bool there =
                concerned && model_state(&run->model, c, t) != TDG__NOT_SUBSCRIBED;

            if (seen.counts[c][t] != there)
                run__fail(run, "subscribers", "of %s: client %d, %s: expected %d, got %d",
                          run__name_of(own), c, run__name_of(t), there,
                          seen.counts[c][t]);
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
                run__fail(run, "page: what was there throughout",
                          "client %d, %s: seen %d times", c, run__name_of(t),
                          run->page_seen[c][t]);
        }
}

/* Goes on where the last page ended, whatever happened in between. */
void run__op_page(struct run *run, const struct op *op) {
    tdg__sub_info_t page[8];
    size_t max = (size_t)(op->count > 8 || op->count < 1 ? 8 : op->count);
    size_t n;
    size_t i;

    if (!run->paging)
        begin_paging(run);
    n = tdg__engine_page(run->engine, &run->page_position, NULL, false, page, max);
    for (i = 0; i < n; i++) {
        int c = run__find_client(run, page[i].stream);
        int t = cast_find(&page[i].target);

        if (c == -1 || t == -1 || model_state(&run->model, c, t) != page[i].state) {
            run__fail(run, "page: somebody who does not exist", "client %d, %s", c,
                      run__name_of(t));
            return;
        }
        if (run->model.streams[c].subs[t].uid == run->page_uids[c][t])
            run->page_seen[c][t]++;
    }
    if (run->page_position == 0)
        end_paging(run);
}

/* Input that is refused and changes nothing. */
void run__op_mistake(struct run *run, const struct op *op) {
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
        .timing = {TDG__TIMING_BATCH, TDG__MAX_WINDOW_MS + 1, 0},
    };
    json_t *metadata = json_array();

    switch (op->count % 6) {
    case 0:
        run__check_code(run, "mistake: empty name",
                        !open || ended ? otherwise : TDG_EINVAL,
                        tdg__engine_subscribe(run->engine, stream, &nothing, NULL, NULL));
        break;
    case 1:
        run__check_code(run, "mistake: unknown list",
                        !open || ended ? otherwise : TDG_EINVAL,
                        tdg__engine_subscribe(run->engine, stream, &list, NULL, NULL));
        break;
    case 2:
        run__check_code(run, "mistake: bad metadata",
                        run->world->opts.shared_numbers ? TDG_ENOTSUP : TDG_EINVAL,
                        tdg__engine_publish(run->engine, &uri, metadata, false, NULL));
        break;
    case 3:
        run__check_code(run, "mistake: bad settings", TDG_EINVAL,
                        tdg__engine_configure(run->engine, &uri, &settings));
        break;
    case 4:
        opts.priority = 2;
        run__check_code(run, "mistake: bad priority",
                        !open || ended ? otherwise : TDG_EINVAL,
                        tdg__engine_subscribe(run->engine, stream, &uri, &opts, NULL));
        break;
    default:
        if (open && !ended &&
            tdg__engine_subscribe(run->engine, stream, &broken, NULL, NULL) >= 0)
            run__fail(run, "mistake: bad template", "taken");
        break;
    }
    json_decref(metadata);
}

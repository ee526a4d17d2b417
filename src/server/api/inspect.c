/* SPDX-License-Identifier: MIT
 *
 * Lists subscriptions: each worker collects its own, on its own thread, some at a time,
 * so that its clients are served in between. The caller waits, but not for a server that
 * is stopping, and not beyond its time-out: then the worker that runs or drops the task
 * has the last reference. */
#include <stdatomic.h>
#include <string.h>

#include "base/alloc.h"
#include "server/api/server.h"
#include "server/feed/feed.h"
#include "server/loop/worker.h"

enum { PAGE = 64, PAGES_PER_TURN = 16, PER_TURN = PAGE * PAGES_PER_TURN };

/* The worker's until it is done, and then the caller's. */
struct look {
    tdg__task_t task;
    atomic_uint refs; /* of both */
    tdg_server_t *server;
    tdg__worker_t *worker;
    tdg_subscription_query_t query; /* what it points to is in the same block */
    tdg_target_t target;
    json_t *found;
    bool page_by_page; /* there are too many for one turn */
    uint32_t position; /* in the engine */
    int result;
    bool done; /* under the server's lock */
    char texts[];
};

static const char *const kinds[] = {"uri", "template", "list"};
static const char *const states[] = {"none", "subscribing", "armed", "subscribed"};

/* ---- One subscription --------------------------------------------------- */

static int set(json_t *object, const char *key, json_t *value) {
    return json_object_set_new(object, key, value) == 0 ? 0 : TDG_ENOMEM;
}

/* The options of the client, as it would send them again. */
static json_t *describe_options(const tdg__sub_info_t *info) {
    static const char *const windows[] = {
        [TDG__TIMING_BATCH] = "batchMs",
        [TDG__TIMING_DEBOUNCE] = "debounceMs",
        [TDG__TIMING_THROTTLE] = "throttleMs",
    };
    const tdg__timing_t *timing = &info->settings.timing;
    int32_t rate = info->settings.rate_limit_ms;
    json_t *options = json_object();
    int rv = options != NULL ? 0 : TDG_ENOMEM;

    if (rv == 0 && timing->mode >= TDG__TIMING_BATCH)
        rv = set(options, windows[timing->mode], json_integer(timing->window_ms));
    if (rv == 0 && rate != TDG__RATE_INHERIT)
        rv = set(options, "rateLimitMs", json_integer(rate == TDG__RATE_OFF ? 0 : rate));
    if (rv == 0 && info->priority != 0)
        rv = set(options, "priority", json_integer(info->priority));
    if (rv == 0 && info->filter != NULL)
        rv = set(options, "filter", json_loads(info->filter, 0, NULL));
    if (rv < 0) {
        json_decref(options);
        return NULL;
    }
    return options;
}

static json_t *describe(const tdg__feed_t *feed, const tdg__sub_info_t *info) {
    json_t *ret = json_pack(
        "{s:s%, s:s, s:I, s:s, s:b, s:o}", "target", info->target.name, info->target.len,
        "kind", kinds[info->target.kind], "stream", (json_int_t)feed->id, "state",
        states[info->state], "pending", info->pending, "options", describe_options(info));

    if (ret != NULL && tdg__peer_describe(&feed->peer, ret) < 0) {
        json_decref(ret);
        return NULL;
    }
    return ret;
}

/* ---- Looking ------------------------------------------------------------ */

static bool is_wanted(const tdg_subscription_query_t *query, const tdg__feed_t *feed) {
    const tdg__peer_t *peer = &feed->peer;

    return (query->stream == 0 || query->stream == feed->id) &&
           (query->session == NULL ||
            (peer->session != NULL && strcmp(query->session, peer->session) == 0)) &&
           (query->client == NULL ||
            (peer->client != NULL && strcmp(query->client, peer->client) == 0));
}

/* Adds it, if it is wanted. False: enough, or no memory. */
static bool add(void *arg, const tdg__sub_info_t *info) {
    struct look *look = arg;
    const tdg__feed_t *feed = tdg__engine_stream_user(look->worker->engine, info->stream);

    if (json_array_size(look->found) >= look->query.max)
        return false;
    if (is_wanted(&look->query, feed) &&
        json_array_append_new(look->found, describe(feed, info)) != 0)
        look->result = TDG_ENOMEM;
    return look->result == 0;
}

/* Returns whether there is more to look at. */
static bool add_page(struct look *look, const tdg__target_t *target) {
    tdg__sub_info_t page[PAGE];
    size_t count = tdg__engine_page(look->worker->engine, &look->position, target,
                                    look->query.matching, page, PAGE);

    for (size_t i = 0; i < count; i++)
        if (!add(look, &page[i]))
            return false;
    return look->position != 0;
}

/* Few subscribers of one target are found where they are; of many, and of all, the
 * records are gone through. Returns whether there is more to look at. */
static bool go_on(struct look *look) {
    bool one = look->query.target != NULL;
    tdg__target_t target = {0};
    bool more = true;

    if (one)
        target = tdg__target_to_engine(look->query.target);
    if (one && !look->page_by_page) {
        if (tdg__engine_each_subscriber(look->worker->engine, &target,
                                        look->query.matching, PER_TURN, add, look))
            return false;
        look->page_by_page = true;
        json_array_clear(look->found);
        return look->result == 0;
    }
    for (unsigned pages = 0; more && pages < PAGES_PER_TURN; pages++)
        more = add_page(look, one ? &target : NULL);
    return more;
}

/* ---- Asking ------------------------------------------------------------- */

static void unref(struct look *look) {
    if (atomic_fetch_sub_explicit(&look->refs, 1, memory_order_acq_rel) != 1)
        return;
    json_decref(look->found);
    tdg__free(look);
}

static void run(tdg__task_t *task, bool here) {
    struct look *look = (struct look *)(void *)task;

    if (here && atomic_load(&look->refs) > 1 && go_on(look)) {
        tdg__inbox_post(look->worker->inbox, task);
        return;
    }
    if (!here)
        look->result = TDG_EENDED;
    tdg__server_finish(look->server, &look->done);
    unref(look);
}

static size_t size_of(const char *text) {
    return text != NULL ? strlen(text) + 1 : 0;
}

static const char *keep(const char *text, char **at) {
    char *kept = *at;

    if (text == NULL)
        return NULL;
    memcpy(kept, text, strlen(text) + 1);
    *at += strlen(text) + 1;
    return kept;
}

/* A copy of the query, as the caller may give up before the worker runs it. */
static struct look *create_look(tdg__worker_t *worker,
                                const tdg_subscription_query_t *query, size_t max) {
    const char *name = query->target != NULL ? query->target->name : NULL;
    struct look *look =
        tdg__calloc(1, sizeof(*look) + size_of(name) + size_of(query->client) +
                           size_of(query->session));
    char *at;

    if (look == NULL)
        return NULL;
    at = look->texts;
    look->task.run = run;
    look->server = worker->server;
    look->worker = worker;
    look->query = *query;
    look->query.max = max;
    if (query->target != NULL) {
        look->target = (tdg_target_t){query->target->kind, keep(name, &at)};
        look->query.target = &look->target;
    }
    look->query.client = keep(query->client, &at);
    look->query.session = keep(query->session, &at);
    atomic_init(&look->refs, 1);
    look->found = json_array();
    if (look->found == NULL) {
        unref(look);
        return NULL;
    }
    return look;
}

int tdg__inspect_worker(tdg__worker_t *worker, const tdg_subscription_query_t *query,
                        uint64_t until_ns, json_t *all) {
    struct look *look = create_look(worker, query, query->max - json_array_size(all));
    int rv = 0;

    if (look == NULL)
        return TDG_ENOMEM;
    if (tdg__worker_is_here(worker)) {
        while (go_on(look))
            ;
    } else {
        atomic_store(&look->refs, 2);
        tdg__inbox_post(worker->inbox, &look->task);
        rv = tdg__server_await(look->server, &look->done, until_ns);
    }
    if (rv == 0)
        rv = look->result;
    if (rv == 0 && json_array_extend(all, look->found) < 0)
        rv = TDG_ENOMEM;
    unref(look);
    return rv;
}

/* SPDX-License-Identifier: MIT
 *
 * Who is subscribed: each worker looks for itself, on its own thread, some at a time, so
 * that its clients are served in between. */
#include <pthread.h>
#include <string.h>

#include "server/feed.h"
#include "server/server.h"

enum { PAGE = 64, PAGES_PER_TURN = 16 };

struct look {
    tdg__task_t task;
    tdg__worker_t *worker;
    const tdg_subscription_query_t *query; /* `max` is set */
    json_t *all;
    uint32_t position; /* in the engine */
    int result;
    bool done;
    pthread_mutex_t lock;
    pthread_cond_t changed;
};

static const char *const kinds[] = {"uri", "template", "list"};
static const char *const states[] = {"none", "subscribing", "armed", "subscribed"};

/* ---- One subscription --------------------------------------------------- */

static int set(json_t *object, const char *key, json_t *value) {
    return json_object_set_new(object, key, value) == 0 ? 0 : TDG_ENOMEM;
}

/* What the client has asked for, as it would ask again. */
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
    const tdg__feed_t *feed =
        tdg__engine_stream_user(tdg__worker_engine(look->worker), info->stream);

    if (json_array_size(look->all) >= look->query->max)
        return false;
    if (is_wanted(look->query, feed) &&
        json_array_append_new(look->all, describe(feed, info)) != 0)
        look->result = TDG_ENOMEM;
    return look->result == 0;
}

static bool add_page(struct look *look) {
    tdg__sub_info_t page[PAGE];
    size_t count =
        tdg__engine_page(tdg__worker_engine(look->worker), &look->position, page, PAGE);

    for (size_t i = 0; i < count; i++)
        if (!add(look, &page[i]))
            return false;
    return count == PAGE;
}

/* Looks on. Returns whether there is more to look at. */
static bool go_on(struct look *look, unsigned pages) {
    if (look->query->target != NULL) {
        tdg__target_t target = tdg__target_to_engine(look->query->target);

        tdg__engine_each_subscriber(tdg__worker_engine(look->worker), &target,
                                    look->query->matching, add, look);
        return false;
    }
    while (pages > 0 && add_page(look))
        pages--;
    return pages == 0;
}

static void run(tdg__task_t *task, bool here) {
    struct look *look = (struct look *)(void *)task;

    if (here && go_on(look, PAGES_PER_TURN)) {
        tdg__inbox_post(tdg__worker_inbox(look->worker), task);
        return;
    }
    pthread_mutex_lock(&look->lock);
    if (!here)
        look->result = TDG_EENDED;
    look->done = true;
    pthread_cond_signal(&look->changed);
    pthread_mutex_unlock(&look->lock);
}

int tdg__inspect_worker(tdg__worker_t *worker, const tdg_subscription_query_t *query,
                        json_t *all) {
    struct look look = {
        .task = {.run = run}, .worker = worker, .query = query, .all = all};

    if (tdg__worker_is_here(worker)) {
        while (go_on(&look, PAGES_PER_TURN))
            ;
        return look.result;
    }
    pthread_mutex_init(&look.lock, NULL);
    pthread_cond_init(&look.changed, NULL);
    tdg__inbox_post(tdg__worker_inbox(worker), &look.task);
    pthread_mutex_lock(&look.lock);
    while (!look.done)
        pthread_cond_wait(&look.changed, &look.lock);
    pthread_mutex_unlock(&look.lock);
    pthread_cond_destroy(&look.changed);
    pthread_mutex_destroy(&look.lock);
    return look.result;
}

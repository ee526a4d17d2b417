/* SPDX-License-Identifier: MIT
 *
 * Who is subscribed: each worker looks for itself, on its own thread. */
#include <pthread.h>

#include "server/feed.h"
#include "server/server.h"

enum { PAGE = 64 };

struct look {
    tdg__task_t task;
    tdg__worker_t *worker;
    size_t max;
    json_t *all;
    int result;
    bool done;
    pthread_mutex_t lock;
    pthread_cond_t changed;
};

static const char *const kinds[] = {"uri", "template", "list"};
static const char *const states[] = {"none", "subscribing", "armed", "subscribed"};

static json_t *describe(tdg__engine_t *engine, const tdg__sub_info_t *info) {
    const tdg__feed_t *feed = tdg__engine_stream_user(engine, info->stream);
    json_t *ret = json_pack(
        "{s:s%, s:s, s:I, s:s, s:s, s:b}", "target", info->target.name, info->target.len,
        "kind", kinds[info->target.kind], "stream", (json_int_t)info->stream, "state",
        states[info->state], "era", feed->subscription != NULL ? "modern" : "legacy",
        "pending", info->pending);

    if (ret != NULL && info->filter != NULL)
        json_object_set_new(ret, "filter", json_string(info->filter));
    return ret;
}

static int look(tdg__worker_t *worker, size_t max, json_t *all) {
    tdg__engine_t *engine = tdg__worker_engine(worker);
    tdg__sub_info_t page[PAGE];
    uint32_t position = 0;
    size_t count;

    do {
        count = tdg__engine_page(engine, &position, page, PAGE);
        for (size_t i = 0; i < count && json_array_size(all) < max; i++) {
            if (json_array_append_new(all, describe(engine, &page[i])) != 0)
                return TDG_ENOMEM;
        }
    } while (count == PAGE && json_array_size(all) < max);
    return 0;
}

static void run(tdg__task_t *task, bool here) {
    struct look *mine = (struct look *)(void *)task;
    int result = here ? look(mine->worker, mine->max, mine->all) : TDG_EENDED;

    pthread_mutex_lock(&mine->lock);
    mine->result = result;
    mine->done = true;
    pthread_cond_signal(&mine->changed);
    pthread_mutex_unlock(&mine->lock);
}

int tdg__inspect_worker(tdg__worker_t *worker, size_t max, json_t *all) {
    struct look mine = {.task = {.run = run}, .worker = worker, .max = max, .all = all};

    if (tdg__worker_is_here(worker))
        return look(worker, max, all);
    pthread_mutex_init(&mine.lock, NULL);
    pthread_cond_init(&mine.changed, NULL);
    tdg__inbox_post(tdg__worker_inbox(worker), &mine.task);
    pthread_mutex_lock(&mine.lock);
    while (!mine.done)
        pthread_cond_wait(&mine.changed, &mine.lock);
    pthread_mutex_unlock(&mine.lock);
    pthread_cond_destroy(&mine.changed);
    pthread_mutex_destroy(&mine.lock);
    return mine.result;
}

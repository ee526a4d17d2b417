/* SPDX-License-Identifier: MIT */
#include "source/common/records.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "base/queue.h"

int tdg__records_init(tdg__records_t *records, size_t record_size, tdg__record_due_fn due,
                      void *user) {
    tdg__pool_init(&records->pool, record_size);
    tdg__map_init(&records->by_name);
    tdg__heap_init(&records->timers);
    records->due = due;
    records->user = user;
    return tdg__random(&records->key, sizeof(records->key));
}

void tdg__records_done(tdg__records_t *records) {
    tdg__record_t *record;

    if (records->pool.size == 0)
        return;
    for (uint32_t at = 0; (record = tdg__records_next(records, &at)) != NULL;)
        tdg__free(record->name);
    tdg__heap_done(&records->timers);
    tdg__map_done(&records->by_name);
    tdg__pool_done(&records->pool);
}

void tdg__records_open(tdg__records_t *records, uv_loop_t *loop) {
    uv_timer_init(loop, &records->timer);
}

/* ---- Coming and going --------------------------------------------------- */

static uint32_t hash_of(const tdg__records_t *records, const char *name) {
    return (uint32_t)tdg__hash(&records->key, name, strlen(name));
}

static bool has_name(const void *records, uint32_t id, const void *name) {
    const tdg__record_t *record =
        tdg__pool_get(&((const tdg__records_t *)records)->pool, id);

    return strcmp(record->name, name) == 0;
}

void *tdg__records_find(const tdg__records_t *records, const char *name) {
    uint32_t id = 0;

    if (records->pool.count > 0)
        id = tdg__map_find(&records->by_name, hash_of(records, name), has_name, records,
                           name);
    return id != 0 ? tdg__pool_get(&records->pool, id) : NULL;
}

void *tdg__records_add(tdg__records_t *records, const char *name) {
    tdg__record_t *record;
    uint32_t id;

    if (tdg__map_reserve(&records->by_name) < 0)
        return NULL;
    record = tdg__pool_alloc(&records->pool, &id);
    if (record == NULL)
        return NULL;
    record->name = tdg__strdup(name);
    if (record->name == NULL ||
        (records->due != NULL &&
         tdg__heap_add(&records->timers, &record->timer, 0) < 0)) {
        tdg__free(record->name);
        tdg__pool_free(&records->pool, id);
        return NULL;
    }
    record->id = id;
    record->hash = hash_of(records, name);
    tdg__map_insert(&records->by_name, record->hash, id);
    return record;
}

void tdg__records_remove(tdg__records_t *records, tdg__record_t *record) {
    assert(record->name != NULL && tdg__pool_get(&records->pool, record->id) == record);
    if (records->due != NULL)
        tdg__heap_remove(&records->timers, &record->timer);
    tdg__map_remove(&records->by_name, record->hash, record->id);
    tdg__free(record->name);
    tdg__pool_free(&records->pool, record->id);
}

void *tdg__records_next(const tdg__records_t *records, uint32_t *at) {
    while (++*at < tdg__pool_end(&records->pool)) {
        tdg__record_t *record = tdg__pool_get(&records->pool, *at);

        if (record != NULL && record->name != NULL)
            return record;
    }
    return NULL;
}

/* ---- Time --------------------------------------------------------------- */

static int64_t now_ms(const tdg__records_t *records) {
    return (int64_t)uv_now(records->timer.loop);
}

static void set_timer(tdg__records_t *records);

static void on_time(uv_timer_t *timer) {
    tdg__records_t *records = TDG__RECORD(tdg__records_t, timer, timer);
    tdg__timer_t *due;

    while (!uv_is_closing((uv_handle_t *)timer) &&
           (due = tdg__heap_pop(&records->timers, now_ms(records))) != NULL)
        records->due(TDG__RECORD(tdg__record_t, timer, due), records->user);
    set_timer(records);
}

static void set_timer(tdg__records_t *records) {
    int64_t next = tdg__heap_next(&records->timers), now = now_ms(records);

    if (uv_is_closing((uv_handle_t *)&records->timer))
        return;
    if (next == INT64_MAX)
        uv_timer_stop(&records->timer);
    else
        uv_timer_start(&records->timer, on_time, next > now ? (uint64_t)(next - now) : 0,
                       0);
}

void tdg__records_arm(tdg__records_t *records, tdg__record_t *record, int64_t wait_ms) {
    assert(record->name != NULL);
    tdg__heap_arm(&records->timers, &record->timer, now_ms(records) + wait_ms);
    set_timer(records);
}

/* The handle keeps running: it finds nothing due then, and sets itself again. */
void tdg__records_disarm(tdg__records_t *records, tdg__record_t *record) {
    tdg__heap_disarm(&records->timers, &record->timer);
}

/* SPDX-License-Identifier: MIT */
#include "server/hub/hub.h"

#include <assert.h>

#include <tidings/error.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "server/hub/hub_internal.h"

enum { MAX_METADATA_BYTES = 16384, MAX_NAME_BYTES = 4096 };

/* ---- Beginning and end -------------------------------------------------- */

static int draw_secrets(tdg__hub_t *hub) {
    int rv = tdg__random(&hub->key, sizeof(hub->key));

    while (rv == 0 && hub->epoch == 0)
        rv = tdg__random(&hub->epoch, sizeof(hub->epoch));
    return rv;
}

/* `watches` is set up in hub_watch.c, which alone knows its records. */
int tdg__hub_create(const tdg__hub_opts_t *opts, tdg__hub_t **ret) {
    tdg__hub_t *hub = tdg__calloc(1, sizeof(*hub));
    int rv = TDG_ESYSTEM;

    if (hub == NULL)
        return TDG_ENOMEM;

    if (opts != NULL)
        hub->opts = *opts;
    if (hub->opts.max_metadata_bytes == 0)
        hub->opts.max_metadata_bytes = MAX_METADATA_BYTES;
    if (hub->opts.max_name_bytes == 0)
        hub->opts.max_name_bytes = MAX_NAME_BYTES;

    if (draw_secrets(hub) < 0)
        goto fail_hub;
    if (pthread_mutex_init(&hub->watch_lock, NULL) != 0)
        goto fail_hub;
    if (pthread_mutex_init(&hub->lock, NULL) != 0)
        goto fail_watch_lock;

    tdg__hub_init_watches(hub);
    *ret = hub;
    return 0;

fail_watch_lock:
    pthread_mutex_destroy(&hub->watch_lock);
fail_hub:
    tdg__free(hub);
    return rv;
}

void tdg__hub_destroy(tdg__hub_t *hub) {
    if (hub == NULL)
        return;

    tdg__hub_stop_all(hub);
    for (size_t i = 0; i < hub->n_members; i++) {
        tdg__inbox_unref(hub->members[i]->inbox);
        tdg__free(hub->members[i]);
    }
    pthread_mutex_destroy(&hub->lock);
    pthread_mutex_destroy(&hub->watch_lock);
    tdg__free(hub);
}

uint64_t tdg__hub_epoch(const tdg__hub_t *hub) {
    return hub->epoch;
}

uint64_t tdg__hub_last_number(tdg__hub_t *hub) {
    uint64_t number;

    pthread_mutex_lock(&hub->lock);
    number = hub->last_number;
    pthread_mutex_unlock(&hub->lock);
    return number;
}

tdg__cursor_t tdg__hub_known_cursor(tdg__hub_t *hub, tdg__cursor_t cursor) {
    if (cursor.epoch == hub->epoch && cursor.number > tdg__hub_last_number(hub))
        return (tdg__cursor_t){0, 0};
    return cursor;
}

/* ---- Members ------------------------------------------------------------ */

struct member *tdg__hub_member(const tdg__hub_t *hub, const tdg__inbox_t *inbox) {
    for (size_t i = 0; i < hub->n_members; i++)
        if (hub->members[i]->inbox == inbox)
            return hub->members[i];
    return NULL;
}

static void lock_both(tdg__hub_t *hub) {
    pthread_mutex_lock(&hub->watch_lock);
    pthread_mutex_lock(&hub->lock);
}

static void unlock_both(tdg__hub_t *hub) {
    pthread_mutex_unlock(&hub->lock);
    pthread_mutex_unlock(&hub->watch_lock);
}

int tdg__hub_join(tdg__hub_t *hub, tdg__inbox_t *inbox, uint64_t *ret_number) {
    struct member *member = tdg__calloc(1, sizeof(*member));
    bool fits;

    assert(inbox != NULL);
    if (member == NULL)
        return TDG_ENOMEM;

    tdg__queue_init(&member->failed);
    lock_both(hub);
    fits = hub->n_members < MAX_MEMBERS && tdg__hub_member(hub, inbox) == NULL;
    if (fits) {
        member->inbox = tdg__inbox_ref(inbox);
        hub->members[hub->n_members++] = member;
        *ret_number = member->joined_at = hub->last_number;
    }
    unlock_both(hub);
    if (!fits)
        tdg__free(member);
    return fits ? 0 : TDG_EINVAL;
}

void tdg__hub_leave(tdg__hub_t *hub, tdg__inbox_t *inbox) {
    struct wakes wakes = {.count = 0};
    struct member *member;

    pthread_mutex_lock(&hub->watch_lock);
    member = tdg__hub_member(hub, inbox);
    if (member != NULL) {
        tdg__hub_give_up(hub, member, &wakes);
        assert(tdg__queue_is_empty(&member->failed));

        pthread_mutex_lock(&hub->lock);
        for (size_t i = 0; i < hub->n_members; i++)
            if (hub->members[i] == member)
                hub->members[i] = hub->members[--hub->n_members];
        pthread_mutex_unlock(&hub->lock);
    }
    pthread_mutex_unlock(&hub->watch_lock);

    tdg__hub_wake(&wakes);
    if (member != NULL)
        tdg__inbox_unref(member->inbox);
    tdg__free(member);
}

/* Waking may be a system call, and that can wait until the lock is open. The worker may
 * leave meanwhile, hence the reference. */
void tdg__hub_note_wake(struct wakes *wakes, tdg__inbox_t *inbox, int rv) {
    if (rv != 1)
        return;
    for (size_t i = 0; i < wakes->count; i++)
        if (wakes->inboxes[i] == inbox)
            return;
    assert(wakes->count < MAX_MEMBERS);
    wakes->inboxes[wakes->count++] = tdg__inbox_ref(inbox);
}

void tdg__hub_wake(struct wakes *wakes) {
    for (size_t i = 0; i < wakes->count; i++) {
        tdg__inbox_wake(wakes->inboxes[i]);
        tdg__inbox_unref(wakes->inboxes[i]);
    }
    wakes->count = 0;
}

/* ---- Publishing --------------------------------------------------------- */

/* Makes room in every inbox, so that putting cannot fail. A closed one needs none. */
static int reserve_all(tdg__hub_t *hub, const tdg__target_t *target,
                       bool *ret_unfiltered) {
    *ret_unfiltered = false;
    for (size_t i = 0; i < hub->n_members; i++) {
        struct member *member = hub->members[i];
        int rv;

        if (member->room > 0)
            continue;
        rv = tdg__inbox_reserve(member->inbox, target, &member->room);
        if (rv == 1)
            *ret_unfiltered = true;
        else if (rv < 0 && rv != TDG_EENDED)
            return rv;
    }
    return 0;
}

static void put_all(tdg__hub_t *hub, tdg__change_t *change, bool unfiltered,
                    struct wakes *wakes) {
    for (size_t i = 0; i < hub->n_members; i++) {
        struct member *member = hub->members[i];
        int rv = tdg__inbox_put_change(member->inbox, change, unfiltered);

        assert(rv >= 0 || rv == TDG_EENDED); /* room was reserved */
        if (member->room > 0)
            member->room--;
        tdg__hub_note_wake(wakes, member->inbox, rv);
    }
}

int tdg__hub_prepare(tdg__hub_t *hub, const tdg__target_t *target, json_t *metadata,
                     bool deleted, tdg__change_t **ret) {
    if (!tdg__target_valid(target))
        return TDG_EINVAL;
    if (target->len > hub->opts.max_name_bytes)
        return TDG_EURILEN;
    return tdg__change_create(target, metadata, deleted, tdg__wall_ms(),
                              hub->opts.max_metadata_bytes, ret);
}

/* Changes that may affect whether something exists are published with both locks: of
 * several at the same time, the last one decides. Returns whether both were taken. */
static bool lock_to_publish(tdg__hub_t *hub, bool deletes) {
    bool both = deletes || atomic_load(&hub->unsettled) > 0;

    if (both)
        pthread_mutex_lock(&hub->watch_lock);
    pthread_mutex_lock(&hub->lock);
    if (!both && atomic_load(&hub->unsettled) > 0) { /* since a moment ago */
        pthread_mutex_unlock(&hub->lock);
        lock_both(hub);
        both = true;
    }
    return both;
}

static void unlock_published(tdg__hub_t *hub, bool both) {
    pthread_mutex_unlock(&hub->lock);
    if (both)
        pthread_mutex_unlock(&hub->watch_lock);
}

int tdg__hub_publish_with(tdg__hub_t *hub, const tdg__target_t *target, json_t *metadata,
                          bool deleted, int (*commit)(void *arg), void *arg) {
    struct wakes wakes;
    tdg__change_t *change;
    bool unfiltered;

    wakes.count = 0; /* the rest of it is large */
    int rv = tdg__hub_prepare(hub, target, metadata, deleted, &change);
    if (rv < 0)
        return rv;

    bool both = lock_to_publish(hub, deleted);
    rv = reserve_all(hub, target, &unfiltered);
    if (rv == 0 && commit != NULL)
        rv = commit(arg);
    if (rv == 0) {
        tdg__change_stamp(change, tdg__hub_next_number(hub));
        put_all(hub, change, unfiltered, &wakes);
    }
    if (rv == 0 && both)
        tdg__hub_note_existence(hub, target, deleted);
    unlock_published(hub, both);

    tdg__hub_wake(&wakes);
    tdg__change_unref(change);
    return rv;
}

int tdg__hub_publish(tdg__hub_t *hub, const tdg__target_t *target, json_t *metadata,
                     bool deleted) {
    return tdg__hub_publish_with(hub, target, metadata, deleted, NULL, NULL);
}

/* ---- Several at once ---------------------------------------------------- */

static int reserve_more(tdg__hub_t *hub, size_t count) {
    for (size_t i = 0; i < hub->n_members; i++) {
        struct member *member = hub->members[i];
        int rv;

        if (member->room >= count)
            continue;
        rv = tdg__inbox_reserve_more(member->inbox, count, &member->room);
        if (rv < 0 && rv != TDG_EENDED)
            return rv;
    }
    return 0;
}

int tdg__hub_has_room(tdg__hub_t *hub, size_t count) {
    pthread_mutex_lock(&hub->lock);
    int rv = reserve_more(hub, count);
    pthread_mutex_unlock(&hub->lock);
    return rv;
}

int tdg__hub_publish_all(tdg__hub_t *hub, tdg__change_t *const *changes, size_t count) {
    struct wakes wakes;
    bool deletes = false;

    wakes.count = 0;
    for (size_t i = 0; i < count; i++) {
        assert(changes[i]->number == 0); /* stamped once, below */
        deletes = deletes || changes[i]->deleted;
    }
    bool both = lock_to_publish(hub, deletes);
    int rv = reserve_more(hub, count);
    for (size_t i = 0; rv == 0 && i < count; i++) {
        tdg__target_t target = {changes[i]->kind, changes[i]->name, changes[i]->len};

        tdg__change_stamp(changes[i], tdg__hub_next_number(hub));
        put_all(hub, changes[i], false, &wakes);
        if (both)
            tdg__hub_note_existence(hub, &target, changes[i]->deleted);
    }
    unlock_published(hub, both);

    tdg__hub_wake(&wakes);
    return rv;
}

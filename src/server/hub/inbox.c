/* SPDX-License-Identifier: MIT
 *
 * Changes wait in a list of items that know each other by index, so that one in the
 * middle can be moved to the end when a newer one is merged into it. The index by URI,
 * which merging needs, is only kept while more than half of the room is taken: the
 * ordinary path does not pay for it. From the item on that crosses the half, each one
 * that comes indexes itself and one that was there before; so all are indexed by the time
 * when the inbox is full. The index has the newest item of each URI.
 *
 * Changes of lists have no content, and no filter examines them. So they always merge: of
 * a program that adds a hundred thousand resources in a row, a worker sees some hundreds,
 * and its history does not fill up with them. */
#include "server/hub/inbox.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include <tidings/error.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/map.h"
#include "base/queue.h"

enum {
    FIRST_ROOM = 64,
    MAX_ROOM = 1 << 24,
    LISTS = 3, /* a change of each always fits in, beyond the bound */

    /* Merging moves a change behind all that came since. Not for more than this many
     * numbers, or a busy publisher would keep it from the worker. */
    MERGED_NUMBERS = 256,
};

struct item {
    tdg__change_t *change;
    uint32_t next, prev; /* 0: nobody. Free ones have `next` only */
    uint32_t hash;       /* of an indexed one */
    bool unfiltered;
    bool indexed;
};

struct tdg__answer {
    tdg__queue_t link;    /* in `answers` from put to take */
    tdg__target_t target; /* its name is NULL once it was taken */
    int error;
    uint64_t number;
};

struct tdg__inbox {
    atomic_size_t refs;
    pthread_mutex_t lock;
    tdg__hash_key_t key;
    uint32_t max;
    bool closed;

    struct item *items; /* from 1 on */
    uint32_t room;      /* of `items` */
    uint32_t count;     /* changes that wait */
    uint32_t first, last;
    uint32_t free;
    tdg__map_t index;
    uint32_t unindexed; /* this and those before it may be missing in the index */
    struct {
        uint32_t id; /* the newest change of some list that waits; 0: none */
        uint64_t since;
    } lists[LISTS];

    tdg__queue_t answers; /* of watchers, oldest first */
    tdg__task_t *first_task, *last_task;

    pthread_mutex_t wake_lock; /* around `wake`, and this: */
    void (*wake)(void *user);  /* NULL after close */
    void *user;
};

/* ---- Beginning and end -------------------------------------------------- */

int tdg__inbox_create(size_t max_changes, void (*wake)(void *user), void *user,
                      tdg__inbox_t **ret) {
    tdg__inbox_t *inbox;
    int rv = TDG_ESYSTEM;

    if (max_changes == 0 || max_changes > MAX_ROOM)
        return TDG_EINVAL;
    inbox = tdg__calloc(1, sizeof(*inbox));
    if (inbox == NULL)
        return TDG_ENOMEM;

    if (tdg__random(&inbox->key, sizeof(inbox->key)) < 0)
        goto fail_inbox;
    if (pthread_mutex_init(&inbox->lock, NULL) != 0)
        goto fail_inbox;
    if (pthread_mutex_init(&inbox->wake_lock, NULL) != 0)
        goto fail_lock;

    atomic_init(&inbox->refs, 1);
    tdg__map_init(&inbox->index);
    tdg__queue_init(&inbox->answers);
    inbox->max = (uint32_t)max_changes;
    inbox->wake = wake;
    inbox->user = user;
    *ret = inbox;
    return 0;

fail_lock:
    pthread_mutex_destroy(&inbox->lock);
fail_inbox:
    tdg__free(inbox);
    return rv;
}

tdg__inbox_t *tdg__inbox_ref(tdg__inbox_t *inbox) {
    atomic_fetch_add_explicit(&inbox->refs, 1, memory_order_relaxed);
    return inbox;
}

void tdg__inbox_unref(tdg__inbox_t *inbox) {
    tdg__task_t *task, *next;

    if (inbox == NULL ||
        atomic_fetch_sub_explicit(&inbox->refs, 1, memory_order_acq_rel) != 1)
        return;

    assert(tdg__queue_is_empty(&inbox->answers)); /* their makers have dropped them */
    for (uint32_t id = inbox->first; id != 0; id = inbox->items[id].next)
        tdg__change_unref(inbox->items[id].change);
    for (task = inbox->first_task; task != NULL; task = next) {
        next = task->next;
        task->run(task, false);
    }
    tdg__map_done(&inbox->index);
    pthread_mutex_destroy(&inbox->wake_lock);
    pthread_mutex_destroy(&inbox->lock);
    tdg__free(inbox->items);
    tdg__free(inbox);
}

void tdg__inbox_close(tdg__inbox_t *inbox) {
    pthread_mutex_lock(&inbox->lock);
    inbox->closed = true;
    pthread_mutex_unlock(&inbox->lock);

    pthread_mutex_lock(&inbox->wake_lock);
    inbox->wake = NULL;
    pthread_mutex_unlock(&inbox->wake_lock);
}

void tdg__inbox_wake(tdg__inbox_t *inbox) {
    pthread_mutex_lock(&inbox->wake_lock);
    if (inbox->wake != NULL)
        inbox->wake(inbox->user);
    pthread_mutex_unlock(&inbox->wake_lock);
}

/* ---- The index ---------------------------------------------------------- */

static tdg__target_t target_of(const tdg__change_t *change) {
    return (tdg__target_t){change->kind, change->name, change->len};
}

static uint32_t hash_of(const tdg__inbox_t *inbox, const tdg__target_t *target) {
    return (uint32_t)tdg__hash(&inbox->key, target->name, target->len) +
           (uint32_t)target->kind;
}

static bool is_change_of(const void *inbox, uint32_t id, const void *key) {
    const tdg__change_t *change = ((const tdg__inbox_t *)inbox)->items[id].change;
    const tdg__target_t *target = key;

    return change->kind == target->kind && change->len == target->len &&
           memcmp(change->name, target->name, target->len) == 0;
}

static uint32_t find(const tdg__inbox_t *inbox, const tdg__target_t *target) {
    return tdg__map_find(&inbox->index, hash_of(inbox, target), is_change_of, inbox,
                         target);
}

/* Without memory the item stays outside: it cannot be merged with then. */
static void index_item(tdg__inbox_t *inbox, uint32_t id) {
    struct item *item = &inbox->items[id];
    tdg__target_t target = target_of(item->change);
    uint32_t hash = hash_of(inbox, &target);
    uint32_t other = tdg__map_find(&inbox->index, hash, is_change_of, inbox, &target);

    if (other != 0) {
        if (inbox->items[other].change->number >= item->change->number)
            return;
        tdg__map_replace(&inbox->index, hash, other, id);
        inbox->items[other].indexed = false;
    } else {
        if (tdg__map_reserve(&inbox->index) < 0)
            return;
        tdg__map_insert(&inbox->index, hash, id);
    }
    item->hash = hash;
    item->indexed = true;
}

/* An item has come. */
static void keep_index(tdg__inbox_t *inbox, uint32_t id) {
    uint32_t half = inbox->max / 2;

    if (inbox->count <= half)
        return;
    if (inbox->count == half + 1)
        inbox->unindexed = inbox->items[id].prev;
    index_item(inbox, id);
    if (inbox->unindexed != 0) {
        index_item(inbox, inbox->unindexed);
        inbox->unindexed = inbox->items[inbox->unindexed].prev;
    }
}

/* ---- Lists -------------------------------------------------------------- */

/* The place of a list among those that wait, or a free one; there is one for each. */
static size_t list_place(const tdg__inbox_t *inbox, const tdg__target_t *list) {
    size_t place = LISTS - 1;

    for (size_t i = 0; i < LISTS; i++) {
        uint32_t id = inbox->lists[i].id;

        if (id != 0 && is_change_of(inbox, id, list))
            return i;
        if (id == 0)
            place = i;
    }
    return place;
}

/* The newest change of a list that waits; 0: none, or the target is no list. */
static uint32_t waiting_list(const tdg__inbox_t *inbox, const tdg__target_t *target) {
    return target->kind == TDG__TARGET_LIST ? inbox->lists[list_place(inbox, target)].id
                                            : 0;
}

static void list_has_come(tdg__inbox_t *inbox, const tdg__target_t *list, uint32_t id) {
    size_t place = list_place(inbox, list);

    inbox->lists[place].id = id;
    inbox->lists[place].since = inbox->items[id].change->number;
}

static void item_has_gone(tdg__inbox_t *inbox, uint32_t id) {
    for (size_t i = 0; i < LISTS; i++)
        if (inbox->lists[i].id == id)
            inbox->lists[i].id = 0;
}

/* The item to merge a change with though there is room; 0: none. */
static uint32_t mergeable_list(const tdg__inbox_t *inbox, const tdg__change_t *change,
                               const tdg__target_t *target) {
    uint32_t id = waiting_list(inbox, target);

    if (id == 0 ||
        change->number - inbox->lists[list_place(inbox, target)].since >= MERGED_NUMBERS)
        return 0;
    return id;
}

/* ---- Items -------------------------------------------------------------- */

static void append(tdg__inbox_t *inbox, uint32_t id) {
    inbox->items[id].next = 0;
    inbox->items[id].prev = inbox->last;
    if (inbox->last != 0)
        inbox->items[inbox->last].next = id;
    else
        inbox->first = id;
    inbox->last = id;
}

static void unlink_item(tdg__inbox_t *inbox, uint32_t id) {
    const struct item *item = &inbox->items[id];

    if (inbox->unindexed == id)
        inbox->unindexed = item->prev;
    if (item->prev != 0)
        inbox->items[item->prev].next = item->next;
    else
        inbox->first = item->next;
    if (item->next != 0)
        inbox->items[item->next].prev = item->prev;
    else
        inbox->last = item->prev;
}

static int grow(tdg__inbox_t *inbox) {
    uint32_t room = inbox->room == 0 ? FIRST_ROOM : inbox->room * 2;
    struct item *items;

    if (room > inbox->max)
        room = inbox->max + LISTS;
    items = tdg__reallocarray(inbox->items, (size_t)room + 1, sizeof(*items));
    if (items == NULL)
        return TDG_ENOMEM;

    for (uint32_t id = room; id > inbox->room; id--) {
        items[id].next = inbox->free;
        inbox->free = id;
    }
    inbox->items = items;
    inbox->room = room;
    return 0;
}

/* As tdg__inbox_reserve(), with the lock. *ret_earlier is the item to merge with. */
static int reserve(tdg__inbox_t *inbox, const tdg__target_t *target,
                   uint32_t *ret_earlier) {
    *ret_earlier = 0;
    if (inbox->closed)
        return TDG_EENDED;
    if (inbox->count >= inbox->max) {
        *ret_earlier = find(inbox, target);
        if (*ret_earlier == 0)
            *ret_earlier = waiting_list(inbox, target);
        if (*ret_earlier != 0)
            return 1;
        if (target->kind != TDG__TARGET_LIST)
            return TDG_EAGAIN;
    }
    return inbox->count < inbox->room ? 0 : grow(inbox);
}

static void add(tdg__inbox_t *inbox, tdg__change_t *change, bool unfiltered) {
    uint32_t id = inbox->free;
    struct item *item = &inbox->items[id];

    assert(id != 0 && change->number != 0);
    inbox->free = item->next;
    item->change = tdg__change_ref(change);
    item->unfiltered = unfiltered;
    item->indexed = false;
    append(inbox, id);
    inbox->count++;
    keep_index(inbox, id);
    if (change->kind == TDG__TARGET_LIST) {
        tdg__target_t list = target_of(change);

        list_has_come(inbox, &list, id);
    }
}

/* The item keeps its place in the index: it has the same URI. */
static void merge(tdg__inbox_t *inbox, uint32_t id, tdg__change_t *change) {
    assert(inbox->items[id].change->number < change->number);
    tdg__change_unref(inbox->items[id].change);
    inbox->items[id].change = tdg__change_ref(change);
    inbox->items[id].unfiltered = change->kind != TDG__TARGET_LIST;
    unlink_item(inbox, id);
    append(inbox, id);
}

static bool is_empty(const tdg__inbox_t *inbox) {
    return inbox->count == 0 && tdg__queue_is_empty(&inbox->answers);
}

/* How many changes fit in without growing, within the bound. */
static size_t room_left(const tdg__inbox_t *inbox) {
    uint32_t room = inbox->room < inbox->max ? inbox->room : inbox->max;

    return room > inbox->count ? room - inbox->count : 0;
}

int tdg__inbox_reserve(tdg__inbox_t *inbox, const tdg__target_t *target,
                       size_t *ret_room) {
    uint32_t earlier;
    int rv;

    pthread_mutex_lock(&inbox->lock);
    rv = reserve(inbox, target, &earlier);
    if (rv == 0)
        *ret_room = room_left(inbox);
    pthread_mutex_unlock(&inbox->lock);
    return rv;
}

int tdg__inbox_reserve_more(tdg__inbox_t *inbox, size_t count, size_t *ret_room) {
    int rv = 0;

    pthread_mutex_lock(&inbox->lock);
    if (inbox->closed)
        rv = TDG_EENDED;
    else if (inbox->count >= inbox->max ? count > 0 : count > inbox->max - inbox->count)
        rv = TDG_EAGAIN;
    while (rv == 0 && room_left(inbox) < count)
        rv = grow(inbox);
    if (rv == 0)
        *ret_room = room_left(inbox);
    pthread_mutex_unlock(&inbox->lock);
    return rv;
}

int tdg__inbox_put_change(tdg__inbox_t *inbox, tdg__change_t *change, bool unfiltered) {
    tdg__target_t target = target_of(change);
    uint32_t earlier;
    int rv;

    pthread_mutex_lock(&inbox->lock);
    rv = reserve(inbox, &target, &earlier);
    if (rv == 0 && (earlier = mergeable_list(inbox, change, &target)) != 0)
        rv = 1;
    if (rv == 1) {
        merge(inbox, earlier, change);
        rv = 0;
    } else if (rv == 0) {
        rv = is_empty(inbox) ? 1 : 0;
        add(inbox, change, unfiltered);
    }
    pthread_mutex_unlock(&inbox->lock);
    return rv;
}

/* ---- Answers ------------------------------------------------------------ */

int tdg__inbox_prepare_answer(const tdg__target_t *target, tdg__answer_t **ret) {
    tdg__answer_t *answer = tdg__calloc(1, sizeof(*answer));
    char *name = tdg__strndup(target->name, target->len);

    if (answer == NULL || name == NULL) {
        tdg__free(answer);
        tdg__free(name);
        return TDG_ENOMEM;
    }

    answer->target = (tdg__target_t){target->kind, name, target->len};
    *ret = answer;
    return 0;
}

int tdg__inbox_put_answer(tdg__inbox_t *inbox, tdg__answer_t *answer, int error,
                          uint64_t number) {
    int rv = TDG_EENDED;

    pthread_mutex_lock(&inbox->lock);
    if (!inbox->closed) {
        rv = is_empty(inbox) ? 1 : 0;
        answer->error = error;
        answer->number = number;
        tdg__queue_append(&inbox->answers, &answer->link);
    }
    pthread_mutex_unlock(&inbox->lock);
    return rv;
}

bool tdg__inbox_answer_waits(tdg__inbox_t *inbox, const tdg__answer_t *answer) {
    bool waits;

    pthread_mutex_lock(&inbox->lock);
    waits = tdg__queue_has(&answer->link);
    pthread_mutex_unlock(&inbox->lock);
    return waits;
}

void tdg__inbox_drop_answer(tdg__inbox_t *inbox, tdg__answer_t *answer) {
    if (answer == NULL)
        return;

    pthread_mutex_lock(&inbox->lock);
    if (tdg__queue_has(&answer->link))
        tdg__queue_remove(&answer->link);
    pthread_mutex_unlock(&inbox->lock);
    tdg__free((char *)(uintptr_t)answer->target.name);
    tdg__free(answer);
}

/* ---- Taking ------------------------------------------------------------- */

static bool answer_is_next(const tdg__inbox_t *inbox) {
    const tdg__answer_t *answer = TDG__RECORD(tdg__answer_t, link, inbox->answers.next);

    return !tdg__queue_is_empty(&inbox->answers) &&
           (inbox->first == 0 ||
            answer->number <= inbox->items[inbox->first].change->number);
}

static void take_answer(tdg__inbox_t *inbox, tdg__inbox_entry_t *ret) {
    tdg__answer_t *answer =
        TDG__RECORD(tdg__answer_t, link, tdg__queue_take(&inbox->answers));

    *ret = (tdg__inbox_entry_t){
        .target = answer->target, .error = answer->error, .number = answer->number};
    answer->target.name = NULL;
}

static void take_change(tdg__inbox_t *inbox, tdg__inbox_entry_t *ret) {
    uint32_t id = inbox->first;
    struct item *item = &inbox->items[id];

    *ret = (tdg__inbox_entry_t){.change = item->change,
                                .unfiltered = item->unfiltered,
                                .number = item->change->number};
    if (item->indexed)
        tdg__map_remove(&inbox->index, item->hash, id);
    unlink_item(inbox, id);
    item_has_gone(inbox, id);
    assert(inbox->count > 0);
    inbox->count--;
    item->next = inbox->free;
    inbox->free = id;
}

size_t tdg__inbox_take(tdg__inbox_t *inbox, tdg__inbox_entry_t *entries, size_t max) {
    size_t n = 0;

    pthread_mutex_lock(&inbox->lock);
    if (max > 0 && answer_is_next(inbox))
        take_answer(inbox, &entries[n++]);
    else
        while (n < max && inbox->first != 0 && !answer_is_next(inbox))
            take_change(inbox, &entries[n++]);
    pthread_mutex_unlock(&inbox->lock);
    return n;
}

/* ---- Tasks -------------------------------------------------------------- */

void tdg__inbox_post(tdg__inbox_t *inbox, tdg__task_t *task) {
    bool closed, was_empty = false;

    assert(task->run != NULL);
    task->next = NULL;
    pthread_mutex_lock(&inbox->lock);
    closed = inbox->closed;
    if (!closed) {
        was_empty = inbox->first_task == NULL;
        if (was_empty)
            inbox->first_task = task;
        else
            inbox->last_task->next = task;
        inbox->last_task = task;
    }
    pthread_mutex_unlock(&inbox->lock);

    if (closed)
        task->run(task, false);
    else if (was_empty)
        tdg__inbox_wake(inbox);
}

tdg__task_t *tdg__inbox_take_tasks(tdg__inbox_t *inbox) {
    tdg__task_t *tasks;

    pthread_mutex_lock(&inbox->lock);
    tasks = inbox->first_task;
    inbox->first_task = NULL;
    inbox->last_task = NULL;
    pthread_mutex_unlock(&inbox->lock);
    return tasks;
}

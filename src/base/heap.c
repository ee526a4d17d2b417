/* SPDX-License-Identifier: MIT */
#include "base/heap.h"

#include <assert.h>
#include <stdbool.h>

#include <tidings/error.h>

#include "base/alloc.h"

enum { ARITY = 4, MIN_ROOM = 16 };

void tdg__heap_init(tdg__heap_t *heap) {
    *heap = (tdg__heap_t){0};
}

void tdg__heap_done(tdg__heap_t *heap) {
    tdg__free(heap->entries);
    *heap = (tdg__heap_t){0};
}

static int set_room(tdg__heap_t *heap, size_t room) {
    tdg__heap_entry_t *entries = tdg__reallocarray(heap->entries, room, sizeof(*entries));

    if (entries == NULL)
        return TDG_ENOMEM;

    heap->entries = entries;
    heap->room = room;
    return 0;
}

int tdg__heap_add(tdg__heap_t *heap, tdg__timer_t *timer, uint32_t kind) {
    if (heap->timers == heap->room) {
        int rv = set_room(heap, heap->room == 0 ? MIN_ROOM : heap->room * 2);

        if (rv < 0)
            return rv;
    }

    heap->timers++;
    *timer = (tdg__timer_t){.pos = 0, .kind = kind};
    return 0;
}

void tdg__heap_remove(tdg__heap_t *heap, tdg__timer_t *timer) {
    assert(heap->timers > 0);
    tdg__heap_disarm(heap, timer);
    heap->timers--;

    if (heap->timers == 0)
        tdg__heap_done(heap);
    else if (heap->room > MIN_ROOM && heap->timers < heap->room / 4)
        (void)set_room(heap, heap->room / 2); /* failing keeps the larger one */
}

static bool before(const tdg__heap_entry_t *a, const tdg__heap_entry_t *b) {
    return a->at < b->at || (a->at == b->at && a->order < b->order);
}

static void put(tdg__heap_t *heap, size_t i, tdg__heap_entry_t entry) {
    heap->entries[i] = entry;
    entry.timer->pos = (uint32_t)i + 1;
}

static void sift_up(tdg__heap_t *heap, size_t i, tdg__heap_entry_t entry) {
    while (i > 0 && before(&entry, &heap->entries[(i - 1) / ARITY])) {
        put(heap, i, heap->entries[(i - 1) / ARITY]);
        i = (i - 1) / ARITY;
    }
    put(heap, i, entry);
}

static size_t earliest_child(const tdg__heap_t *heap, size_t i) {
    size_t first = i * ARITY + 1;
    size_t best = first;

    for (size_t c = first + 1; c < first + ARITY && c < heap->count; c++)
        if (before(&heap->entries[c], &heap->entries[best]))
            best = c;
    return best;
}

static void sift_down(tdg__heap_t *heap, size_t i, tdg__heap_entry_t entry) {
    for (;;) {
        size_t child = earliest_child(heap, i);

        if (child >= heap->count || before(&entry, &heap->entries[child]))
            break;
        put(heap, i, heap->entries[child]);
        i = child;
    }
    put(heap, i, entry);
}

static void settle(tdg__heap_t *heap, size_t i, tdg__heap_entry_t entry) {
    if (i > 0 && before(&entry, &heap->entries[(i - 1) / ARITY]))
        sift_up(heap, i, entry);
    else
        sift_down(heap, i, entry);
}

void tdg__heap_arm(tdg__heap_t *heap, tdg__timer_t *timer, int64_t at) {
    size_t i = timer->pos != 0 ? timer->pos - 1 : heap->count++;

    assert(heap->count <= heap->timers);
    settle(heap, i, (tdg__heap_entry_t){at, heap->order++, timer});
}

void tdg__heap_disarm(tdg__heap_t *heap, tdg__timer_t *timer) {
    size_t i;

    if (timer->pos == 0)
        return;

    i = timer->pos - 1;
    timer->pos = 0;
    heap->count--;
    if (i < heap->count)
        settle(heap, i, heap->entries[heap->count]);
}

int64_t tdg__heap_next(const tdg__heap_t *heap) {
    return heap->count == 0 ? INT64_MAX : heap->entries[0].at;
}

tdg__timer_t *tdg__heap_pop(tdg__heap_t *heap, int64_t now) {
    tdg__timer_t *timer;

    if (heap->count == 0 || heap->entries[0].at > now)
        return NULL;

    timer = heap->entries[0].timer;
    tdg__heap_disarm(heap, timer);
    return timer;
}

size_t tdg__heap_bytes(const tdg__heap_t *heap) {
    return heap->room * sizeof(*heap->entries);
}

/* SPDX-License-Identifier: MIT
 *
 * Doubly linked lists of records that stay where they are: the list and each of its links
 * are one ring. A record may be in several lists, with a link for each. A link that is
 * all zero is in no list. (Records of a pool have base/list.h,
 * which takes half the room.) */
#ifndef TDG_BASE_QUEUE_H
#define TDG_BASE_QUEUE_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct tdg__queue {
    struct tdg__queue *next, *prev; /* of a list: its first and its last link */
} tdg__queue_t;

/* The record that holds a link. */
#define TDG__RECORD(type, field, link) ((type *)((uintptr_t)(link)-offsetof(type, field)))

/* An empty list; it must not be moved from then on. */
static inline void tdg__queue_init(tdg__queue_t *list) {
    list->next = list->prev = list;
}

static inline bool tdg__queue_is_empty(const tdg__queue_t *list) {
    return list->next == list;
}

static inline bool tdg__queue_has(const tdg__queue_t *link) {
    return link->next != NULL;
}

/* Puts a link that is in no list in front of `next`: a link, or the list for its end. */
static inline void tdg__queue_insert(tdg__queue_t *next, tdg__queue_t *link) {
    assert(!tdg__queue_has(link));
    link->next = next;
    link->prev = next->prev;
    link->prev->next = next->prev = link;
}

static inline void tdg__queue_append(tdg__queue_t *list, tdg__queue_t *link) {
    tdg__queue_insert(list, link);
}

static inline void tdg__queue_prepend(tdg__queue_t *list, tdg__queue_t *link) {
    tdg__queue_insert(list->next, link);
}

/* Takes a link out of its list. */
static inline void tdg__queue_remove(tdg__queue_t *link) {
    assert(tdg__queue_has(link));
    link->next->prev = link->prev;
    link->prev->next = link->next;
    *link = (tdg__queue_t){NULL, NULL};
}

/* Takes the first link out; NULL: the list is empty. */
static inline tdg__queue_t *tdg__queue_take(tdg__queue_t *list) {
    tdg__queue_t *first = list->next;

    if (first == list)
        return NULL;
    tdg__queue_remove(first);
    return first;
}

#endif

/* SPDX-License-Identifier: MIT
 *
 * Doubly linked lists of records that live in a pool and know each other by identifier. A
 * record may be in several lists at once: each list has a link of its own in the record,
 * and is called with the offset of that link. 0 is nobody. */
#ifndef TDG_BASE_LIST_H
#define TDG_BASE_LIST_H

#include <stddef.h>
#include <stdint.h>

#include "base/pool.h"

typedef struct tdg__link {
    uint32_t next, prev;
} tdg__link_t;

typedef struct tdg__list {
    uint32_t first, last;
} tdg__list_t;

static inline tdg__link_t *tdg__link_at(const tdg__pool_t *pool, size_t offset,
                                        uint32_t id) {
    return (void *)((char *)tdg__pool_get(pool, id) + offset);
}

/* Puts a record that is not in the list behind `prev`; 0: in front of all. */
static inline void tdg__list_insert(tdg__list_t *list, const tdg__pool_t *pool,
                                    size_t offset, uint32_t id, uint32_t prev) {
    tdg__link_t *link = tdg__link_at(pool, offset, id);

    link->prev = prev;
    if (prev != 0) {
        tdg__link_t *before = tdg__link_at(pool, offset, prev);

        link->next = before->next;
        before->next = id;
    } else {
        link->next = list->first;
        list->first = id;
    }
    if (link->next != 0)
        tdg__link_at(pool, offset, link->next)->prev = id;
    else
        list->last = id;
}

static inline void tdg__list_append(tdg__list_t *list, const tdg__pool_t *pool,
                                    size_t offset, uint32_t id) {
    tdg__list_insert(list, pool, offset, id, list->last);
}

static inline void tdg__list_prepend(tdg__list_t *list, const tdg__pool_t *pool,
                                     size_t offset, uint32_t id) {
    tdg__list_insert(list, pool, offset, id, 0);
}

/* Takes a record that is in the list out of it. */
static inline void tdg__list_remove(tdg__list_t *list, const tdg__pool_t *pool,
                                    size_t offset, uint32_t id) {
    tdg__link_t *link = tdg__link_at(pool, offset, id);

    if (link->prev != 0)
        tdg__link_at(pool, offset, link->prev)->next = link->next;
    else
        list->first = link->next;
    if (link->next != 0)
        tdg__link_at(pool, offset, link->next)->prev = link->prev;
    else
        list->last = link->prev;
    *link = (tdg__link_t){0, 0};
}

#endif

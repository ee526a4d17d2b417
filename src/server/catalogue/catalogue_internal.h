/* SPDX-License-Identifier: MIT
 *
 * What catalogue.c (changing it, looking up) and catalogue_list.c (pages, visits) share.
 * No other file includes this. */
#ifndef TDG_SERVER_CATALOGUE_INTERNAL_H
#define TDG_SERVER_CATALOGUE_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/template_index.h"
#include "server/catalogue/catalogue.h"
#include "server/catalogue/entry_list.h"

struct tdg__catalogue {
    tdg__hash_key_t key; /* never changes, like the next two */
    void (*taken_back)(void *user);
    void *user;

    atomic_uint announced;                    /* how often; counted round */
    atomic_uint removals, announced_removals; /* that take something back */

    pthread_mutex_t lock; /* for all that follows */
    tdg__entry_list_t lists[TDG__KIND_COUNT];
    tdg__template_index_t *templates; /* slots of their list */
    size_t completing;                /* entries that complete arguments */
    size_t closed_templates;          /* that are not subscribable */
    bool ever_had[TDG__KIND_COUNT];   /* at least one was added at some time */
};

/* As tdg__catalogue_find(), for text that need not end in NUL. */
tdg__entry_t *tdg__catalogue_find_slice(tdg__catalogue_t *catalogue, tdg__kind_t kind,
                                        const char *key, size_t len);

#endif

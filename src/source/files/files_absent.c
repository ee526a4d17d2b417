/* SPDX-License-Identifier: MIT
 *
 * Nodes that were not found. Many programs save by deleting or renaming a file and
 * creating it again, so a file counts as deleted only after `settle`:
 *
 *     (found) ── not found ──▶ ABSENT ── for `settle`, and looked at again ──▶ (gone)
 *        ▲                       │
 *        └──────── found ────────┘
 */
#include <assert.h>

#include "source/files/files.h"

static bool is_long_absent(const tdg__files_t *files, const tdg__files_node_t *node) {
    return (node->flags & TDG__NODE_ABSENT) != 0 &&
           tdg__source_now_ms(&files->source) - node->absent_since_ms >= files->settle_ms;
}

/* Looks again at a node that was not found, in a while.
 * Returns false where that cannot be remembered. */
static bool look_in(tdg__files_t *files, uint32_t id, int64_t wait_ms) {
    char path[TDG__FILES_MAX_PATH];
    tdg__record_t *record;

    if (!tdg__files_path_of(&files->tree, id, path, sizeof(path)))
        return false;
    record = tdg__records_find(&files->absent, path);
    if (record == NULL && files->absent.pool.count < TDG__FILES_QUEUE_MAX)
        record = tdg__records_add(&files->absent, path);
    if (record != NULL)
        tdg__records_arm(&files->absent, record, wait_ms);
    return record != NULL;
}

void tdg__files_absent_due(tdg__record_t *record, void *user) {
    tdg__files_t *files = user;
    const tdg__files_node_t *node = tdg__files_node_at(files, record->name);

    if (node != NULL && is_long_absent(files, node))
        tdg__files_look(files, record->name, 0);
    tdg__records_remove(&files->absent, record);
}

bool tdg__files_may_go(tdg__files_t *files, uint32_t id) {
    tdg__files_node_t *node = tdg__files_node(&files->tree, id);

    if (files->settle_ms == 0 || is_long_absent(files, node))
        return true;
    if ((node->flags & TDG__NODE_ABSENT) != 0)
        return false;
    if (!look_in(files, id, files->settle_ms))
        return true;
    node->flags |= TDG__NODE_ABSENT;
    node->absent_since_ms = tdg__source_now_ms(&files->source);
    files->n_absent++;
    return false;
}

void tdg__files_set_found(tdg__files_t *files, tdg__files_node_t *node) {
    if ((node->flags & TDG__NODE_ABSENT) == 0)
        return;
    assert(files->n_absent > 0);
    node->flags &= ~(unsigned)TDG__NODE_ABSENT;
    node->fingerprint = 0;
    files->n_absent--;
}

void tdg__files_forget_absent(tdg__files_t *files) {
    tdg__record_t *record;

    files->n_absent = 0;
    for (uint32_t at = 0; (record = tdg__records_next(&files->absent, &at)) != NULL;)
        tdg__records_remove(&files->absent, record);
}

/* How long that lasts counts from when the source before has missed it: reloads may come
 * more often than `settle`. All of them are waited for, also those that were about to be
 * looked at: `settle` may be longer now. */
void tdg__files_inherit_absent(tdg__files_t *files) {
    for (uint32_t id = 0; (id = tdg__files_next(&files->tree, id)) != 0;) {
        tdg__files_node_t *node = tdg__files_node(&files->tree, id);
        int64_t age_ms;

        if ((node->flags & TDG__NODE_ABSENT) == 0)
            continue;
        files->n_absent++;
        age_ms = tdg__source_now_ms(&files->source) - node->absent_since_ms;
        if (!look_in(files, id, files->settle_ms - age_ms))
            tdg__files_set_found(files, node); /* the walk misses it again */
    }
}

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
#include <stdlib.h>

#include "base/alloc.h"
#include "source/files/files.h"

static int64_t now_ms(const tdg__files_t *files) {
    return (int64_t)uv_now(files->source.host.loop);
}

static void on_absent(uv_timer_t *timer);

static bool is_long_absent(const tdg__files_t *files, const tdg__files_node_t *node) {
    return (node->flags & TDG__NODE_ABSENT) != 0 &&
           now_ms(files) - node->absent_since_ms >= files->settle_ms;
}

bool tdg__files_may_go(tdg__files_t *files, uint32_t id) {
    tdg__files_node_t *node = tdg__files_node(&files->tree, id);
    char path[TDG__FILES_MAX_PATH];

    if (files->settle_ms == 0 || is_long_absent(files, node))
        return true;
    if ((node->flags & TDG__NODE_ABSENT) != 0)
        return false;
    if (files->absent.count >= TDG__FILES_QUEUE_MAX ||
        !tdg__files_path_of(&files->tree, id, path, sizeof(path)) ||
        tdg__files_queue_put(&files->absent, path, 0, now_ms(files) + files->settle_ms) <
            0)
        return true;
    node->flags |= TDG__NODE_ABSENT;
    node->absent_since_ms = now_ms(files);
    files->n_absent++;
    if (!uv_is_active((uv_handle_t *)&files->absent_timer))
        uv_timer_start(&files->absent_timer, on_absent, (uint64_t)files->settle_ms, 0);
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

static void wait_for_absent(tdg__files_t *files) {
    int64_t wait;

    if (files->absent.count == 0)
        return;
    wait = files->absent.list[files->absent.head].due_ms - now_ms(files);
    uv_timer_start(&files->absent_timer, on_absent, wait > 0 ? (uint64_t)wait : 0, 0);
}

static int by_time(const void *a, const void *b) {
    const tdg__files_task_t *left = a, *right = b;

    return (left->due_ms > right->due_ms) - (left->due_ms < right->due_ms);
}

/* How long that lasts counts from when the source before has missed it: reloads may come
 * more often than `settle`. All of them are waited for, also those that were about to be
 * looked at: `settle` may be longer now. */
void tdg__files_inherit_absent(tdg__files_t *files) {
    tdg__files_queue_t *absent = &files->absent;
    char path[TDG__FILES_MAX_PATH];

    for (uint32_t id = 0; (id = tdg__files_next(&files->tree, id)) != 0;) {
        tdg__files_node_t *node = tdg__files_node(&files->tree, id);

        if ((node->flags & TDG__NODE_ABSENT) == 0)
            continue;
        files->n_absent++;
        if (absent->count >= TDG__FILES_QUEUE_MAX ||
            !tdg__files_path_of(&files->tree, id, path, sizeof(path)) ||
            tdg__files_queue_put(absent, path, 0,
                                 node->absent_since_ms + files->settle_ms) < 0)
            tdg__files_set_found(files, node); /* the walk misses it again */
    }
    if (absent->count > 0)
        qsort(absent->list + absent->head, absent->count, sizeof(*absent->list), by_time);
    wait_for_absent(files);
}

static void on_absent(uv_timer_t *timer) {
    tdg__files_t *files = timer->data;
    tdg__files_queue_t *absent = &files->absent;

    while (absent->count > 0 && absent->list[absent->head].due_ms <= now_ms(files)) {
        tdg__files_task_t task = tdg__files_queue_take(absent);
        const tdg__files_node_t *node = tdg__files_node_at(files, task.path);

        if (node != NULL && is_long_absent(files, node))
            tdg__files_look(files, task.path, 0);
        tdg__free(task.path);
    }
    wait_for_absent(files);
}

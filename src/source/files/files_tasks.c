/* SPDX-License-Identifier: MIT
 *
 * Tasks: the paths to check, and the jobs of walking that check them. One job is in the
 * thread pool at a time; its reports are applied to the tree some hundred per turn of the
 * loop (files_apply.c), and only then the next job begins. So nothing else changes the
 * tree in between, however large an added or removed folder is:
 *
 *     RESTING ── tasks ──▶ WALKING ── reports ──▶ APPLYING ── all applied ──▶ RESTING
 *        ▲                    │                     │   ▲
 *        └── no root, or ─────┘                     ▼   │ a timer
 *            another one: all is read again         STUCK: subscribers of a deleted file
 *                                                          cannot be notified now
 */
#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "source/files/files.h"

enum {
    STEPS_PER_TURN = 256,
    UNSURE_MAX = 4096,
};

static void pump(tdg__files_t *files);

/* ---- Tasks -------------------------------------------------------------- */

int tdg__files_queue_put(tdg__files_queue_t *queue, const char *path, unsigned flags) {
    char *copy;

    if (queue->head + queue->count == queue->room) {
        if (queue->head > queue->room / 2) {
            memmove(queue->list, queue->list + queue->head,
                    queue->count * sizeof(*queue->list));
            queue->head = 0;
        } else {
            size_t room = queue->room * 2 + 64;
            tdg__files_task_t *list = tdg__reallocarray(queue->list, room, sizeof(*list));
            if (list == NULL)
                return TDG_ENOMEM;
            queue->list = list;
            queue->room = room;
        }
    }
    copy = tdg__strdup(path);
    if (copy == NULL)
        return TDG_ENOMEM;
    queue->list[queue->head + queue->count++] = (tdg__files_task_t){copy, flags};
    return 0;
}

tdg__files_task_t tdg__files_queue_take(tdg__files_queue_t *queue) {
    tdg__files_task_t task;

    assert(queue->count > 0);
    task = queue->list[queue->head++];
    if (--queue->count == 0)
        queue->head = 0;
    return task;
}

void tdg__files_queue_clear(tdg__files_queue_t *queue) {
    while (queue->count > 0)
        tdg__free(tdg__files_queue_take(queue).path);
    tdg__free(queue->list);
    *queue = (tdg__files_queue_t){0};
}

/* What was queued is forgotten, and so are the marks: everything is read again. */
static void drop_tasks(tdg__files_t *files) {
    for (uint32_t id = 0; (id = tdg__files_next(&files->tree, id)) != 0;)
        tdg__files_node(&files->tree, id)->flags &=
            ~(unsigned)(TDG__NODE_QUEUED | TDG__NODE_LATER | TDG__NODE_ABSENT);
    tdg__files_forget_absent(files);
    tdg__files_queue_clear(&files->queue);
    tdg__files_queue_clear(&files->later);
    for (size_t i = 0; i < files->walk->n_tasks; i++)
        tdg__free(files->walk->tasks[i].path);
    files->walk->n_tasks = 0;
    tdg__files_walk_stop(files->walk);
    files->scans = 0;
    files->rescan_waits = false;
}

tdg__files_node_t *tdg__files_node_at(tdg__files_t *files, const char *path) {
    uint32_t id = tdg__files_find(&files->tree, path);

    return id != 0 ? tdg__files_node(&files->tree, id) : NULL;
}

/* Whether a look at this path waits in the queue already. The mark goes when the walk
 * takes the task, so that what happens from then on is looked at again. */
static bool waits(tdg__files_t *files, const tdg__files_queue_t *queue, unsigned mark,
                  const char *path) {
    tdg__files_node_t *node = tdg__files_node_at(files, path);

    if (node != NULL) {
        if ((node->flags & mark) != 0)
            return true;
        node->flags |= mark;
        return false;
    }
    return queue->count > 0 &&
           strcmp(queue->list[queue->head + queue->count - 1].path, path) == 0;
}

/* Where a task cannot be queued, everything is read again. For very many tasks that costs
 * less, too, and finds the same. */
static void put(tdg__files_t *files, tdg__files_queue_t *queue, const char *path,
                unsigned flags) {
    bool is_scan = (flags & TDG__TASK_SCAN) != 0;

    if (files->source.closing)
        return;
    if ((queue->count < TDG__FILES_QUEUE_MAX || is_scan) &&
        tdg__files_queue_put(queue, path, flags) == 0) {
        files->scans += is_scan;
        return;
    }

    tdg__files_node_t *node = tdg__files_node_at(files, path);

    if (node != NULL)
        node->flags &= ~(unsigned)(TDG__NODE_QUEUED | TDG__NODE_LATER);
    if (is_scan && path[0] == '\0')
        files->rescan_waits = false;
    tdg__files_miss(files, TDG__FILES_NO_MEMORY);
    tdg__files_schedule(files);
}

void tdg__files_queue_look(tdg__files_t *files, const char *path, unsigned flags) {
    put(files, &files->queue, path, flags);
}

void tdg__files_look(tdg__files_t *files, const char *path, unsigned flags) {
    if ((flags & TDG__TASK_SCAN) == 0 &&
        waits(files, &files->queue, TDG__NODE_QUEUED, path))
        return;
    put(files, &files->queue, path, flags);
    pump(files);
}

void tdg__files_look_later(tdg__files_t *files, const char *path) {
    if (!waits(files, &files->later, TDG__NODE_LATER, path))
        put(files, &files->later, path, 0);
}

void tdg__files_look_now(tdg__files_t *files) {
    while (files->later.count > 0) {
        tdg__files_task_t task = tdg__files_queue_take(&files->later);
        tdg__files_node_t *node = tdg__files_node_at(files, task.path);

        if (node != NULL)
            node->flags &= ~(unsigned)TDG__NODE_LATER;
        if (!waits(files, &files->queue, TDG__NODE_QUEUED, task.path))
            put(files, &files->queue, task.path, 0);
        tdg__free(task.path);
    }
    pump(files);
}

bool tdg__files_has_links(const tdg__files_t *files) {
    return files->tree.links > 0 || files->dangling.count > 0;
}

/* What a link leads to may come where nothing is watched. */
void tdg__files_note_dangling(tdg__files_t *files, const char *path) {
    tdg__files_queue_t *dangling = &files->dangling;

    for (size_t i = 0; i < dangling->count; i++)
        if (strcmp(dangling->list[dangling->head + i].path, path) == 0)
            return;
    if (dangling->count >= TDG__FILES_DANGLING)
        return;
    if (tdg__files_queue_put(dangling, path, 0) < 0)
        tdg__files_miss(files, TDG__FILES_NO_MEMORY);
}

/* Each is noted again where it still leads to nothing. */
static void look_at_dangling(tdg__files_t *files) {
    while (files->dangling.count > 0) {
        tdg__files_task_t task = tdg__files_queue_take(&files->dangling);

        if (!waits(files, &files->queue, TDG__NODE_QUEUED, task.path))
            put(files, &files->queue, task.path, TDG__TASK_TOUCH | TDG__TASK_AGAIN);
        tdg__free(task.path);
    }
}

bool tdg__files_has(tdg__files_t *files, const char *path) {
    const tdg__files_node_t *node = tdg__files_node_at(files, path);

    return node != NULL && (node->flags & TDG__NODE_IS_FOLDER) == 0;
}

/* The targets of links may be where nothing is watched. */
void tdg__files_look_at_links(tdg__files_t *files) {
    char path[TDG__FILES_MAX_PATH];
    size_t left = files->tree.links;

    look_at_dangling(files);

    for (uint32_t id = 0; left > 0 && (id = tdg__files_next(&files->tree, id)) != 0;) {
        if ((tdg__files_node(&files->tree, id)->flags & TDG__NODE_IS_LINK) == 0)
            continue;
        left--;
        if (tdg__files_path_of(&files->tree, id, path, sizeof(path)) &&
            !waits(files, &files->queue, TDG__NODE_QUEUED, path))
            put(files, &files->queue, path, TDG__TASK_TOUCH);
    }
    pump(files);
}

/* Whether this path has events: its folder is known and watched. */
static bool has_events(tdg__files_t *files, const char *path) {
    char parent[TDG__FILES_MAX_PATH];
    const tdg__files_node_t *node;

    (void)tdg__files_parent(path, parent);
    node = tdg__files_node_at(files, parent);
    return node != NULL && (node->flags & TDG__NODE_IS_FOLDER) != 0 &&
           node->u.folder.wd >= 0;
}

/* A file that was created and read before the tree has it may be deleted again, perhaps
 * with its folder, without an event. So it is read again when the tree is complete. */
void tdg__files_saw(tdg__files_t *files, const char *path) {
    const tdg__files_node_t *node = tdg__files_node_at(files, path);

    if (files->source.closing ||
        (node != NULL && (node->flags & TDG__NODE_IS_FOLDER) == 0))
        return;
    if (files->gap == TDG__FILES_TOO_MANY && has_events(files, path))
        return; /* the tree will never have it, and need not */
    if (files->unsure.count >= UNSURE_MAX ||
        tdg__files_queue_put(&files->unsure, path, 0) < 0)
        files->all_unsure = true;
}

static void touch_unsure(tdg__files_t *files) {
    size_t count = files->unsure.count; /* a touch may add some */

    while (count-- > 0 && files->unsure.count > 0) {
        tdg__files_task_t task = tdg__files_queue_take(&files->unsure);

        tdg__files_touch(files, task.path, false);
        tdg__free(task.path);
    }
    if (files->all_unsure) {
        files->all_unsure = false;
        tdg__source_touch_all(&files->source);
    }
}

/* Any piece of work notices that the root is another; one without tasks does that only.
 */
void tdg__files_look_at_root(tdg__files_t *files) {
    files->care = true;
    pump(files);
}

/* A walk that has not begun serves all requests: while the kernel drops events again and
 * again, a walk of a large tree would otherwise be followed by as many more. */
void tdg__files_rescan(tdg__files_t *files) {
    if (files->source.closing || files->rescan_waits)
        return;
    files->rescan_waits = true;
    tdg__files_look(files, "", TDG__TASK_SCAN | TDG__TASK_DEEP);
}

/* ---- Pieces ------------------------------------------------------------- */

static void on_idle(uv_idle_t *idle);

static void settle(tdg__files_t *files) {
    bool is_first = !files->settled;

    files->settled = true;
    files->tries = 0;
    tdg__source_is_back(&files->source);
    if (is_first)
        tdg__files_armed(files);
}

/* All reports of a piece are applied. */
static void end_piece(tdg__files_t *files) {
    assert(files->piece == TDG__FILES_APPLYING && files->victim == 0 &&
           files->sweeping == 0);
    files->piece = TDG__FILES_RESTING;
    files->logged_stuck = false;
    files->n_early = 0;
    if (files->scans == 0 && (!files->settled || files->source.away))
        settle(files);
    if (files->scans == 0)
        touch_unsure(files);
    if (files->source.closing)
        return;
    pump(files);
    if (files->piece == TDG__FILES_RESTING)
        tdg__files_schedule(files);
}

/* What is deleted stays in the tree and in the list until that can be published: while
 * the workers lag, nothing else is found, either. */
static void get_stuck(tdg__files_t *files, int why) {
    if (!files->logged_stuck)
        tdg__source_log(&files->source, TDG_LOG_WARNING,
                        "subscribers of deleted files cannot be notified now: %s; "
                        "retrying",
                        tdg_strerror(why));
    files->logged_stuck = true;
    files->piece = TDG__FILES_STUCK;
    tdg__files_call_again(files);
}

static void apply_some(tdg__files_t *files) {
    int more = files->walk->n_reports > 0;

    for (int steps = 0; more > 0 && steps < STEPS_PER_TURN; steps++) {
        more = tdg__files_apply_step(files);
        if (files->source.closing)
            return;
    }
    if (more > 0) {
        uv_idle_start(&files->idle, on_idle);
        return;
    }
    uv_idle_stop(&files->idle);
    if (more < 0)
        get_stuck(files, more);
    else
        end_piece(files);
}

void tdg__files_try_again(tdg__files_t *files) {
    assert(files->piece == TDG__FILES_STUCK);
    files->piece = TDG__FILES_APPLYING;
    apply_some(files);
}

static void on_idle(uv_idle_t *idle) {
    apply_some(idle->data);
}

static void walk_away(tdg__files_t *files) {
    int error = files->walk->root_error;
    char why[128];

    drop_tasks(files);
    files->root_ino = 0;
    snprintf(why, sizeof(why), "the folder cannot be opened: %s", strerror(error));
    if (error == ENOENT && !files->settled && files->tree.files == 0)
        tdg__source_is_missing(&files->source, "the folder does not exist");
    else
        tdg__source_is_away(&files->source, why);
    if (!files->settled) {
        /* Watching begins: when the folder is created, everything is touched. */
        files->settled = true;
        tdg__files_armed(files);
    }
    files->tries++;
    tdg__files_schedule(files);
}

/* Forgets the tasks that are done, and keeps those that are not for the next piece. */
static void drop_done(tdg__files_t *files) {
    tdg__files_walk_t *walk = files->walk;

    assert(walk->n_done <= walk->n_tasks);
    for (size_t i = 0; i < walk->n_done; i++) {
        files->scans -= (walk->tasks[i].flags & TDG__TASK_SCAN) != 0;
        tdg__free(walk->tasks[i].path);
    }
    memmove(walk->tasks, walk->tasks + walk->n_done,
            (walk->n_tasks - walk->n_done) * sizeof(walk->tasks[0]));
    walk->n_tasks -= walk->n_done;
}

static bool is_another_root(tdg__files_t *files) {
    const tdg__files_walk_t *walk = files->walk;
    bool was_known = files->root_ino != 0;
    bool is_same = files->root_dev == walk->root_dev && files->root_ino == walk->root_ino;

    files->root_dev = walk->root_dev;
    files->root_ino = walk->root_ino;
    return was_known && !is_same;
}

static void after_walk(uv_work_t *work, int status) {
    tdg__files_t *files = work->data;
    tdg__files_walk_t *walk = files->walk;

    (void)status;
    tdg__source_let_go(&files->source);
    assert(files->piece == TDG__FILES_WALKING);
    files->piece = TDG__FILES_RESTING;
    if (files->source.closing) {
        tdg__files_events_close(files);
        return;
    }
    if (walk->root_error != 0) {
        walk_away(files);
        return;
    }
    /* The root exists again, and only single paths were looked at. */
    if (is_another_root(files) || (files->source.away && files->scans == 0)) {
        drop_tasks(files);
        walk->n_reports = 0;
        files->at = 0;
        tdg__files_rescan(files);
        return;
    }
    drop_done(files);
    if (walk->watch_error != 0)
        tdg__files_fall_back(files, walk->watch_error);
    files->piece = TDG__FILES_APPLYING;
    files->at = 0;
    apply_some(files);
}

static void do_walk(uv_work_t *work) {
    tdg__files_walk(((tdg__files_t *)work->data)->walk);
}

static void pump(tdg__files_t *files) {
    tdg__files_walk_t *walk = files->walk;

    if (files->piece != TDG__FILES_RESTING || files->source.closing)
        return;
    while (files->queue.count > 0 && walk->n_tasks < TDG__WALK_TASKS) {
        tdg__files_task_t task = tdg__files_queue_take(&files->queue);
        tdg__files_node_t *node = tdg__files_node_at(files, task.path);

        if (node != NULL)
            node->flags &= ~(unsigned)TDG__NODE_QUEUED;
        if ((task.flags & TDG__TASK_DEEP) != 0 && task.path[0] == '\0')
            files->rescan_waits = false;
        walk->tasks[walk->n_tasks++] = task;
    }
    if (walk->n_tasks == 0 && !files->care)
        return;
    files->care = false;
    walk->scope = &files->scope;
    walk->notify_fd = files->notify_fd;
    files->work.data = files;
    if (uv_queue_work(files->source.host.loop, &files->work, do_walk, after_walk) != 0) {
        tdg__files_miss(files, TDG__FILES_NO_MEMORY);
        return;
    }
    files->piece = TDG__FILES_WALKING;
    tdg__source_hold(&files->source);
}

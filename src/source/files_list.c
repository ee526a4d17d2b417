/* SPDX-License-Identifier: MIT
 *
 * Tasks, and what came of them. One piece of walking is in the thread pool at a time; its
 * reports are applied to the tree some hundred per turn of the loop, and only then the
 * next piece begins. So nothing else changes the tree in between, however large a folder
 * that comes or goes. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "source/files.h"
#include "source/files_mime.h"

enum {
    STEPS_PER_TURN = 256,
    UNSURE_MAX = 4096,
};

/* ---- Tasks -------------------------------------------------------------- */

static int queue_put(tdg__files_queue_t *queue, const char *path, unsigned flags,
                     int64_t due_ms) {
    size_t len = strlen(path) + 1;
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
    copy = tdg__malloc(len);
    if (copy == NULL)
        return TDG_ENOMEM;
    memcpy(copy, path, len);
    queue->list[queue->head + queue->count++] = (tdg__files_task_t){copy, flags, due_ms};
    return 0;
}

static tdg__files_task_t queue_take(tdg__files_queue_t *queue) {
    tdg__files_task_t task = queue->list[queue->head++];

    if (--queue->count == 0)
        queue->head = 0;
    return task;
}

void tdg__files_queue_clear(tdg__files_queue_t *queue) {
    while (queue->count > 0)
        tdg__free(queue_take(queue).path);
    tdg__free(queue->list);
    *queue = (tdg__files_queue_t){0};
}

/* What was queued is forgotten, and so are the marks: everything is read again. */
static void drop_tasks(tdg__files_t *files) {
    for (uint32_t id = 1; id < tdg__pool_end(&files->tree.pool); id++) {
        tdg__files_node_t *node = tdg__pool_get(&files->tree.pool, id);

        if (node != NULL && (node->name != NULL || id == files->tree.root))
            node->flags &=
                ~(unsigned)(TDG__NODE_QUEUED | TDG__NODE_LATER | TDG__NODE_ABSENT);
    }
    files->n_absent = 0;
    tdg__files_queue_clear(&files->queue);
    tdg__files_queue_clear(&files->later);
    tdg__files_queue_clear(&files->absent);
    for (size_t i = 0; i < files->walk->n_tasks; i++)
        tdg__free(files->walk->tasks[i].path);
    files->walk->n_tasks = 0;
    tdg__files_walk_stop(files->walk);
    files->scans = 0;
    files->rescan_waits = false;
}

static tdg__files_node_t *node_at(tdg__files_t *files, const char *path) {
    uint32_t id = tdg__files_find(&files->tree, path);

    return id != 0 ? tdg__files_node(&files->tree, id) : NULL;
}

/* Whether a look at this path waits in the queue already. The mark goes when the walk
 * takes the task, so that what happens from then on is looked at again. */
static bool waits(tdg__files_t *files, const tdg__files_queue_t *queue, unsigned mark,
                  const char *path) {
    tdg__files_node_t *node = node_at(files, path);

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

    if (files->closing)
        return;
    if ((queue->count < TDG__FILES_QUEUE_MAX || is_scan) &&
        queue_put(queue, path, flags, 0) == 0) {
        files->scans += is_scan;
        return;
    }

    tdg__files_node_t *node = node_at(files, path);

    if (node != NULL)
        node->flags &= ~(unsigned)(TDG__NODE_QUEUED | TDG__NODE_LATER);
    if (is_scan && path[0] == '\0')
        files->rescan_waits = false;
    files->incomplete = true;
    tdg__files_schedule(files);
}

void tdg__files_look(tdg__files_t *files, const char *path, unsigned flags) {
    if ((flags & TDG__TASK_SCAN) == 0 &&
        waits(files, &files->queue, TDG__NODE_QUEUED, path))
        return;
    put(files, &files->queue, path, flags);
    tdg__files_pump(files);
}

void tdg__files_look_later(tdg__files_t *files, const char *path) {
    if (!waits(files, &files->later, TDG__NODE_LATER, path))
        put(files, &files->later, path, 0);
}

void tdg__files_look_now(tdg__files_t *files) {
    while (files->later.count > 0) {
        tdg__files_task_t task = queue_take(&files->later);
        tdg__files_node_t *node = node_at(files, task.path);

        if (node != NULL)
            node->flags &= ~(unsigned)TDG__NODE_LATER;
        if (!waits(files, &files->queue, TDG__NODE_QUEUED, task.path))
            put(files, &files->queue, task.path, 0);
        tdg__free(task.path);
    }
    tdg__files_pump(files);
}

bool tdg__files_has_links(const tdg__files_t *files) {
    return files->tree.links > 0 || files->dangling.count > 0;
}

/* What a link leads to may come where nothing is watched. */
static void note_dangling(tdg__files_t *files, const char *path) {
    tdg__files_queue_t *dangling = &files->dangling;

    for (size_t i = 0; i < dangling->count; i++)
        if (strcmp(dangling->list[dangling->head + i].path, path) == 0)
            return;
    if (dangling->count >= TDG__FILES_DANGLING)
        return;
    if (queue_put(dangling, path, 0, 0) < 0)
        files->incomplete = true;
}

/* Each is noted again where it still leads to nothing. */
static void look_at_dangling(tdg__files_t *files) {
    while (files->dangling.count > 0) {
        tdg__files_task_t task = queue_take(&files->dangling);

        if (!waits(files, &files->queue, TDG__NODE_QUEUED, task.path))
            put(files, &files->queue, task.path, TDG__TASK_TELL | TDG__TASK_AGAIN);
        tdg__free(task.path);
    }
}

/* The targets of links may be where nothing is watched. */
void tdg__files_look_at_links(tdg__files_t *files) {
    char path[TDG__FILES_MAX_PATH];
    size_t left = files->tree.links;

    look_at_dangling(files);

    for (uint32_t id = 1; left > 0 && id < tdg__pool_end(&files->tree.pool); id++) {
        const tdg__files_node_t *node = tdg__pool_get(&files->tree.pool, id);

        if (node == NULL || node->name == NULL || (node->flags & TDG__NODE_IS_LINK) == 0)
            continue;
        left--;
        if (tdg__files_path_of(&files->tree, id, path, sizeof(path)) &&
            !waits(files, &files->queue, TDG__NODE_QUEUED, path))
            put(files, &files->queue, path, TDG__TASK_TELL);
    }
    tdg__files_pump(files);
}

/* Whether events of this path are heard of: its folder is known and watched. */
static bool is_heard(tdg__files_t *files, const char *path) {
    const char *slash = strrchr(path, '/');
    char parent[TDG__FILES_MAX_PATH];
    size_t len = slash != NULL ? (size_t)(slash - path) : 0;
    const tdg__files_node_t *node;

    memcpy(parent, path, len);
    parent[len] = '\0';
    node = node_at(files, parent);
    return node != NULL && (node->flags & TDG__NODE_IS_FOLDER) != 0 &&
           node->u.folder.wd >= 0;
}

/* A file that came and was read before the tree knew of it may go again, perhaps with its
 * folder, and nothing would ever miss it. So it is read again when the tree has caught
 * up. */
void tdg__files_saw(tdg__files_t *files, const char *path) {
    const tdg__files_node_t *node = node_at(files, path);

    if (files->closing || (node != NULL && (node->flags & TDG__NODE_IS_FOLDER) == 0))
        return;
    if (files->truncated && is_heard(files, path))
        return; /* the tree will never know it, and need not */
    if (files->unsure.count >= UNSURE_MAX || queue_put(&files->unsure, path, 0, 0) < 0)
        files->all_unsure = true;
}

static void touch_unsure(tdg__files_t *files) {
    size_t count = files->unsure.count; /* a touch may add some */

    while (count-- > 0 && files->unsure.count > 0) {
        tdg__files_task_t task = queue_take(&files->unsure);

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
    tdg__files_pump(files);
}

/* One that has not begun serves all who ask: while the kernel loses events again and
 * again, a walk of a large tree would otherwise be followed by as many more. */
void tdg__files_rescan(tdg__files_t *files) {
    if (files->closing || files->rescan_waits)
        return;
    files->rescan_waits = true;
    tdg__files_look(files, "", TDG__TASK_SCAN | TDG__TASK_DEEP);
}

/* ---- The list ----------------------------------------------------------- */

static void list(tdg__files_t *files, tdg__files_node_t *node, const char *path) {
    const tdg__source_entry_t *entry = &files->source.entry;
    char *uri = tdg__files_uri_of(files, path);
    tdg__listed_t listed = {
        .uri = uri,
        .name = path,
        .mime_type = entry->mime_type != NULL ? entry->mime_type : tdg__files_mime(path),
        .size = node->u.file.size,
        .modified_ms = node->u.file.modified_ms,
    };

    if (files->only != NULL) { /* the one that the entry describes */
        listed.name = entry->name != NULL ? entry->name : path;
        listed.title = entry->title;
        listed.description = entry->description;
    }

    int rv = uri != NULL ? tdg__source_list(&files->source, &listed) : TDG_ENOMEM;

    if (rv == 0)
        node->flags |= TDG__NODE_LISTED;
    else if (rv == TDG_ENOMEM || rv == TDG_EAGAIN)
        files->incomplete = true;
    else if (!files->said_unlisted) {
        /* It can be read and watched all the same. */
        files->said_unlisted = true;
        tdg__source_log(&files->source, TDG_LOG_WARNING,
                        "%s cannot be listed: %s; others may be left out, too", uri,
                        tdg_strerror(rv));
    }
    tdg__free(uri);
}

void tdg__files_list_again(tdg__source_t *source) {
    tdg__files_t *files = (tdg__files_t *)source;
    char path[TDG__FILES_MAX_PATH];

    for (uint32_t id = 1; id < tdg__pool_end(&files->tree.pool); id++) {
        tdg__files_node_t *node = tdg__pool_get(&files->tree.pool, id);

        if (node != NULL && (node->flags & TDG__NODE_LISTED) != 0 &&
            tdg__files_path_of(&files->tree, id, path, sizeof(path)))
            list(files, node, path);
    }
    if (files->incomplete)
        tdg__files_schedule(files);
}

static void unlist(tdg__files_t *files, const tdg__files_node_t *node, uint32_t id) {
    char path[TDG__FILES_MAX_PATH];
    char *uri;

    if (!tdg__files_path_of(&files->tree, id, path, sizeof(path)))
        return;
    uri = tdg__files_uri_of(files, path);
    if (uri == NULL) {
        files->incomplete = true;
        return;
    }
    /* Touched too: a fetch that began before may still find it. */
    tdg__source_touch(&files->source, uri);
    if (files->only == NULL && (node->flags & TDG__NODE_LISTED) != 0)
        tdg__source_unlist(&files->source, uri);
    tdg__free(uri);
}

/* ---- What is not found -------------------------------------------------- */

static int64_t now_ms(const tdg__files_t *files) {
    return (int64_t)uv_now(files->source.host.loop);
}

bool tdg__files_has(tdg__files_t *files, const char *path) {
    const tdg__files_node_t *node = node_at(files, path);

    return node != NULL && (node->flags & TDG__NODE_IS_FOLDER) == 0;
}

static void on_absent(uv_timer_t *timer);

static bool is_long_absent(const tdg__files_t *files, const tdg__files_node_t *node) {
    return (node->flags & TDG__NODE_ABSENT) != 0 &&
           now_ms(files) - (int64_t)node->sign >= files->settle_ms;
}

/* Whether a node that was not found may go. Many programs save by deleting or renaming
 * the file and making it anew, so that is not believed at once: it is looked at again. */
static bool may_go(tdg__files_t *files, uint32_t id) {
    tdg__files_node_t *node = tdg__files_node(&files->tree, id);
    char path[TDG__FILES_MAX_PATH];

    if (files->settle_ms == 0 || is_long_absent(files, node))
        return true;
    if ((node->flags & TDG__NODE_ABSENT) != 0)
        return false;
    if (files->absent.count >= TDG__FILES_QUEUE_MAX ||
        !tdg__files_path_of(&files->tree, id, path, sizeof(path)) ||
        queue_put(&files->absent, path, 0, now_ms(files) + files->settle_ms) < 0)
        return true;
    node->flags |= TDG__NODE_ABSENT;
    node->sign = (uint64_t)now_ms(files);
    files->n_absent++;
    if (!uv_is_active((uv_handle_t *)&files->absent_timer))
        uv_timer_start(&files->absent_timer, on_absent, (uint64_t)files->settle_ms, 0);
    return false;
}

static void set_found(tdg__files_t *files, tdg__files_node_t *node) {
    if ((node->flags & TDG__NODE_ABSENT) == 0)
        return;
    node->flags &= ~(unsigned)TDG__NODE_ABSENT;
    node->sign = 0;
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

    for (uint32_t id = 1; id < tdg__pool_end(&files->tree.pool); id++) {
        tdg__files_node_t *node = tdg__pool_get(&files->tree.pool, id);

        if (node == NULL || node->name == NULL || (node->flags & TDG__NODE_ABSENT) == 0)
            continue;
        files->n_absent++;
        if (absent->count >= TDG__FILES_QUEUE_MAX ||
            !tdg__files_path_of(&files->tree, id, path, sizeof(path)) ||
            queue_put(absent, path, 0, (int64_t)node->sign + files->settle_ms) < 0)
            set_found(files, node); /* the walk misses it anew */
    }
    if (absent->count > 0)
        qsort(absent->list + absent->head, absent->count, sizeof(*absent->list), by_time);
    wait_for_absent(files);
}

static void on_absent(uv_timer_t *timer) {
    tdg__files_t *files = timer->data;
    tdg__files_queue_t *absent = &files->absent;

    while (absent->count > 0 && absent->list[absent->head].due_ms <= now_ms(files)) {
        tdg__files_task_t task = queue_take(absent);
        const tdg__files_node_t *node = node_at(files, task.path);

        if (node != NULL && is_long_absent(files, node))
            tdg__files_look(files, task.path, 0);
        tdg__free(task.path);
    }
    wait_for_absent(files);
}

/* ---- Applying ----------------------------------------------------------- */

/* Takes away one node at the bottom of what is being removed. */
static void remove_step(tdg__files_t *files) {
    uint32_t id = tdg__files_leaf(&files->tree, files->victim);
    tdg__files_node_t *node = tdg__files_node(&files->tree, id);

    if (id == files->victim)
        files->victim = 0;
    set_found(files, node);
    if ((node->flags & TDG__NODE_IS_FOLDER) == 0)
        unlist(files, node, id);
    else if (node->u.folder.wd >= 0)
        tdg__files_unwatch_folder(files, node->u.folder.wd);
    tdg__files_remove(&files->tree, id);
}

/* Checks one child of a folder that was read to its end. */
static void sweep_step(tdg__files_t *files) {
    const tdg__files_node_t *folder = tdg__files_node(&files->tree, files->sweeping);
    uint32_t id = files->sweep;

    if (id == 0) {
        files->sweeping = 0;
        return;
    }

    const tdg__files_node_t *child = tdg__files_node(&files->tree, id);

    files->sweep = child->link.next;
    if (child->seen != folder->u.folder.scan && may_go(files, id))
        files->victim = id;
}

static void begin_sweep(tdg__files_t *files, uint32_t folder) {
    files->sweeping = folder;
    files->sweep = tdg__files_node(&files->tree, folder)->u.folder.children.first;
}

static void set_link(tdg__files_t *files, tdg__files_node_t *node, bool is_link) {
    if (is_link == ((node->flags & TDG__NODE_IS_LINK) != 0))
        return;
    node->flags ^= TDG__NODE_IS_LINK;
    if (is_link)
        files->tree.links++;
    else
        files->tree.links--;
}

static void update(tdg__files_t *files, tdg__files_node_t *node, const char *path,
                   const tdg__files_report_t *r, bool tell, bool is_new) {
    bool differs = node->sign != r->sign || r->sign == 0;
    bool is_listed = (node->flags & TDG__NODE_LISTED) != 0 &&
                     node->u.file.size == r->size &&
                     node->u.file.modified_ms == r->modified_ms &&
                     (node->flags & TDG__NODE_INHERITED) == 0;

    set_link(files, node, r->is_link);
    node->sign = r->sign;
    node->u.file.size = r->size;
    node->u.file.modified_ms = r->modified_ms;
    if (!is_listed)
        list(files, node, path);
    if (!files->settled && !files->source.compares)
        return;
    if (files->polling || r->is_link) /* whoever looks at it: no event says this */
        tdg__files_met(files, path, r, differs, is_new);
    else if (tell && differs)
        tdg__files_found(files, path, r, is_new);
}

static void say_truncated(tdg__files_t *files) {
    files->truncated = true;
    if (files->said_truncated)
        return;
    files->said_truncated = true;
    tdg__source_log(&files->source, TDG_LOG_WARNING,
                    "more than %lld files and folders: the rest is left out; "
                    "`max-files` is the limit, `include` and `exclude` choose",
                    (long long)files->max_files);
}

/* What was inherited counts once it is met: the limit may be lower than before. */
static bool has_no_room_for(const tdg__files_t *files, const tdg__files_node_t *node) {
    const tdg__files_tree_t *tree = &files->tree;

    return (node->flags & TDG__NODE_INHERITED) != 0 &&
           tree->files + tree->folders - tree->inherited >= (size_t)files->max_files;
}

/* Makes the tree agree with what was found under `name` in `parent`. Returns false where
 * something else has to go first; where nothing was found, that is all there is to do. */
static bool apply_found(tdg__files_t *files, uint32_t parent, const char *name,
                        const tdg__files_report_t *r, bool tell, bool deep) {
    tdg__files_tree_t *tree = &files->tree;
    uint32_t id = tdg__files_child(tree, parent, name, strlen(name));
    bool is_folder = r->type == TDG__FILE_FOLDER, is_new = id == 0;
    char path[TDG__FILES_MAX_PATH];

    if (r->type == TDG__FILE_NONE && r->is_link &&
        tdg__files_path_in(tree, parent, name, path, sizeof(path)))
        note_dangling(files, path);
    if (id != 0) {
        const tdg__files_node_t *node = tdg__files_node(tree, id);

        if (r->type == TDG__FILE_NONE && !may_go(files, id))
            return true;
        if (r->type == TDG__FILE_NONE ||
            is_folder != ((node->flags & TDG__NODE_IS_FOLDER) != 0) ||
            has_no_room_for(files, node)) {
            files->victim = id;
            return r->type == TDG__FILE_NONE;
        }
    } else if (r->type == TDG__FILE_NONE) {
        return true;
    } else if (tree->files + tree->folders - files->n_absent >=
               (size_t)files->max_files) {
        say_truncated(files);
        return true;
    } else {
        id = tdg__files_add(tree, parent, name, strlen(name),
                            is_folder ? TDG__NODE_IS_FOLDER : 0);
        if (id == 0) {
            files->incomplete = true;
            return true;
        }
    }

    tdg__files_node_t *node = tdg__files_node(tree, id);
    uint32_t scan = tdg__files_node(tree, parent)->u.folder.scan;
    bool was_seen = node->seen == scan - 1; /* by the walk before */

    node->seen = scan;
    set_found(files, node);
    if (!tdg__files_path_of(tree, id, path, sizeof(path)))
        return true;
    if (!is_folder)
        update(files, node, path, r, tell, is_new);
    else if (is_new || deep || !was_seen)
        put(files, &files->queue, path, TDG__TASK_SCAN | TDG__TASK_DEEP);
    tdg__files_own(tree, id);
    return true;
}

static bool is_passing(int error) {
    return error == EMFILE || error == ENFILE || error == ENOMEM || error == EINTR ||
           error == EIO || error == EAGAIN;
}

static void apply_begin(tdg__files_t *files, const tdg__files_report_t *r) {
    uint32_t id = tdg__files_find(&files->tree, r->text);
    tdg__files_node_t *node = id != 0 ? tdg__files_node(&files->tree, id) : NULL;

    files->folder = 0;
    if (node == NULL || (node->flags & TDG__NODE_IS_FOLDER) == 0) {
        /* Gone meanwhile; another name of the same folder may have the watch. */
        if (r->wd >= 0 && tdg__files_by_wd(&files->tree, r->wd) == 0)
            tdg__files_unwatch_folder(files, r->wd);
        return;
    }
    files->folder = id;
    node->u.folder.scan++;
    if (node->u.folder.wd >= 0 && node->u.folder.wd != r->wd)
        tdg__files_unwatch_folder(files, node->u.folder.wd);
    if (tdg__files_set_wd(&files->tree, id, r->wd) < 0)
        files->incomplete = true;
    if (r->wd >= 0 && tdg__files_was_early(files, r->wd))
        put(files, &files->queue, r->text, TDG__TASK_SCAN);

    if (r->error != 0 && is_passing(r->error)) {
        files->incomplete = true;
    } else if (r->error != 0) {
        if (r->error == EACCES && (node->flags & TDG__NODE_DENIED) == 0)
            tdg__source_log(&files->source, TDG_LOG_WARNING,
                            "the folder \"%s\" cannot be read: permission denied",
                            r->text);
        node->flags |= TDG__NODE_DENIED;
        begin_sweep(files, id); /* nothing in it can be had */
    } else {
        node->flags &= ~(unsigned)TDG__NODE_DENIED;
    }
}

/* Whether a path was looked at in another folder than the one that is watched. What has
 * happened there nobody has heard of. It will be read: the walk that begins to watch it
 * compares what is there with what was known, so that has to stay until then. */
static bool is_elsewhere(const tdg__files_t *files, uint32_t folder,
                         const tdg__files_report_t *r) {
    return !files->polling && r->error == 0 &&
           tdg__files_node(&files->tree, folder)->u.folder.wd != r->wd;
}

static bool apply_look(tdg__files_t *files, const tdg__files_report_t *r) {
    const char *slash = strrchr(r->text, '/');
    char parent[TDG__FILES_MAX_PATH];
    size_t len = slash != NULL ? (size_t)(slash - r->text) : 0;
    uint32_t id;

    memcpy(parent, r->text, len);
    parent[len] = '\0';
    id = tdg__files_find(&files->tree, parent);
    if (r->type == TDG__FILE_NONE && (r->flags & TDG__TASK_AGAIN) == 0 &&
        tdg__files_find(&files->tree, r->text) == 0)
        /* It came and went: somebody may have seen it. */
        tdg__files_touch(files, r->text, false);
    if (id == 0 ||
        (tdg__files_node(&files->tree, id)->flags & TDG__NODE_IS_FOLDER) == 0 ||
        is_elsewhere(files, id, r))
        return true; /* the folder will be read */
    return apply_found(files, id, slash != NULL ? slash + 1 : r->text, r,
                       (r->flags & TDG__TASK_TELL) != 0, true);
}

/* Returns false where the report has to be looked at once more. */
static bool apply_report(tdg__files_t *files, const tdg__files_report_t *r) {
    switch (r->kind) {
    case TDG__REPORT_BEGIN:
        apply_begin(files, r);
        break;
    case TDG__REPORT_MORE:
        files->folder = tdg__files_find(&files->tree, r->text);
        if (files->folder != 0 && (tdg__files_node(&files->tree, files->folder)->flags &
                                   TDG__NODE_IS_FOLDER) == 0)
            files->folder = 0;
        break;
    case TDG__REPORT_ENTRY:
        if (files->folder != 0)
            return apply_found(files, files->folder, r->text, r, true,
                               (r->flags & TDG__TASK_DEEP) != 0);
        break;
    case TDG__REPORT_END:
        if (r->error != 0)
            files->incomplete = true;
        else if (files->folder != 0)
            begin_sweep(files, files->folder);
        break;
    case TDG__REPORT_LOOK:
        return apply_look(files, r);
    }
    return true;
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
    files->applying = false;
    if (files->early_full)
        files->incomplete = true;
    files->n_early = 0;
    files->early_full = false;
    if (files->scans == 0 && (!files->settled || files->source.away))
        settle(files);
    if (files->scans == 0)
        touch_unsure(files);
    if (files->closing)
        return;
    tdg__files_pump(files);
    if (!files->working)
        tdg__files_schedule(files);
}

static void apply_some(tdg__files_t *files) {
    for (int steps = 0; steps < STEPS_PER_TURN; steps++) {
        if (files->victim != 0)
            remove_step(files);
        else if (files->sweeping != 0)
            sweep_step(files);
        else if (files->at == files->walk->n_reports)
            break;
        else if (apply_report(files, &files->walk->reports[files->at]))
            files->at++;
        if (files->closing)
            return;
    }
    if (files->victim == 0 && files->sweeping == 0 &&
        files->at == files->walk->n_reports) {
        uv_idle_stop(&files->idle);
        end_piece(files);
    } else {
        uv_idle_start(&files->idle, on_idle);
    }
}

static void on_idle(uv_idle_t *idle) {
    apply_some(idle->data);
}

static void walk_away(tdg__files_t *files) {
    int error = files->walk->root_error;
    char why[128];

    drop_tasks(files);
    files->root_known = false;
    snprintf(why, sizeof(why), "the folder cannot be opened: %s", strerror(error));
    if (error == ENOENT && !files->settled && files->tree.files == 0)
        tdg__source_is_missing(&files->source, "the folder does not exist");
    else
        tdg__source_is_away(&files->source, why);
    if (!files->settled) {
        /* Who waits is armed: when the folder comes, everything is touched. */
        files->settled = true;
        tdg__files_armed(files);
    }
    files->tries++;
    tdg__files_schedule(files);
}

/* Forgets the tasks that are done, and keeps those that are not for the next piece. */
static void drop_done(tdg__files_t *files) {
    tdg__files_walk_t *walk = files->walk;

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
    bool was_known = files->root_known;
    bool is_same = files->root_dev == walk->root_dev && files->root_ino == walk->root_ino;

    files->root_known = true;
    files->root_dev = walk->root_dev;
    files->root_ino = walk->root_ino;
    return was_known && !is_same;
}

static void after_walk(uv_work_t *work, int status) {
    tdg__files_t *files = work->data;
    tdg__files_walk_t *walk = files->walk;

    (void)status;
    files->working = false;
    if (files->closing) {
        tdg__files_events_close(files);
        tdg__files_check_closed(files);
        return;
    }
    if (walk->root_error != 0) {
        walk_away(files);
        return;
    }
    /* Back by itself, and nothing was asked but single paths. */
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
    files->applying = true;
    files->at = 0;
    apply_some(files);
}

static void do_walk(uv_work_t *work) {
    tdg__files_walk(((tdg__files_t *)work->data)->walk);
}

void tdg__files_pump(tdg__files_t *files) {
    tdg__files_walk_t *walk = files->walk;

    if (files->working || files->applying || files->closing)
        return;
    while (files->queue.count > 0 && walk->n_tasks < TDG__WALK_TASKS) {
        tdg__files_task_t task = queue_take(&files->queue);
        tdg__files_node_t *node = node_at(files, task.path);

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
    files->working =
        uv_queue_work(files->source.host.loop, &files->work, do_walk, after_walk) == 0;
    if (!files->working)
        files->incomplete = true;
}

/* SPDX-License-Identifier: MIT
 *
 * Applies the reports of a walk: updates the tree and the list of the host. */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "source/files/files.h"
#include "source/files/files_mime.h"

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
        tdg__files_miss(files, TDG__FILES_NO_MEMORY);
    else if (!files->logged_unlisted) {
        /* It can be read and watched all the same. */
        files->logged_unlisted = true;
        tdg__source_log(&files->source, TDG_LOG_WARNING,
                        "%s cannot be listed: %s; others may be left out, too", uri,
                        tdg_strerror(rv));
    }
    tdg__free(uri);
}

void tdg__files_list_again(tdg__source_t *source) {
    tdg__files_t *files = (tdg__files_t *)source;
    char path[TDG__FILES_MAX_PATH];

    for (uint32_t id = 0; (id = tdg__files_next(&files->tree, id)) != 0;) {
        tdg__files_node_t *node = tdg__files_node(&files->tree, id);

        if ((node->flags & TDG__NODE_LISTED) != 0 &&
            tdg__files_path_of(&files->tree, id, path, sizeof(path)))
            list(files, node, path);
    }
    if (files->gap == TDG__FILES_NO_MEMORY)
        tdg__files_schedule(files);
}

/* Returns 0, or TDG_EAGAIN or TDG_ENOMEM where this has to be done once more. */
static int unlist(tdg__files_t *files, const tdg__files_node_t *node, uint32_t id) {
    char path[TDG__FILES_MAX_PATH];
    char *uri;
    int rv = 0;

    if (!tdg__files_path_of(&files->tree, id, path, sizeof(path)))
        return 0;
    uri = tdg__files_uri_of(files, path);
    if (uri == NULL)
        return TDG_ENOMEM;
    /* Touched too: a fetch that began before may still find it. */
    tdg__source_touch(&files->source, uri);
    if (files->only == NULL && (node->flags & TDG__NODE_LISTED) != 0)
        rv = tdg__source_unlist(&files->source, uri);
    tdg__free(uri);
    return rv == TDG_EAGAIN || rv == TDG_ENOMEM ? rv : 0;
}

/* ---- Applying ----------------------------------------------------------- */

/* Takes away one node at the bottom of what is being removed. Returns 0, or a code where
 * subscribers cannot be notified now: then the node stays, and so do all that follow. */
static int remove_step(tdg__files_t *files) {
    uint32_t id = tdg__files_leaf(&files->tree, files->victim);
    tdg__files_node_t *node = tdg__files_node(&files->tree, id);
    int rv;

    tdg__files_set_found(files, node);
    if ((node->flags & TDG__NODE_IS_FOLDER) == 0) {
        rv = unlist(files, node, id);
        if (rv < 0)
            return rv;
    } else if (node->u.folder.wd >= 0) {
        tdg__files_unwatch_folder(files, node->u.folder.wd);
    }
    if (id == files->victim)
        files->victim = 0;
    tdg__files_remove(&files->tree, id);
    return 0;
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
    if (child->seen != folder->u.folder.scan && tdg__files_may_go(files, id))
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
                   const tdg__files_report_t *report, bool touch, bool is_new) {
    bool differs = node->fingerprint != report->fingerprint || report->fingerprint == 0;
    bool is_listed = (node->flags & TDG__NODE_LISTED) != 0 &&
                     node->u.file.size == report->size &&
                     node->u.file.modified_ms == report->modified_ms &&
                     (node->flags & TDG__NODE_INHERITED) == 0;

    set_link(files, node, report->is_link);
    node->fingerprint = report->fingerprint;
    node->u.file.size = report->size;
    node->u.file.modified_ms = report->modified_ms;
    if (!is_listed)
        list(files, node, path);
    if (!files->settled && !files->source.compares)
        return;
    if (tdg__files_polls(files) || report->is_link) /* no event reports this */
        tdg__files_met(files, path, report, differs, is_new);
    else if (touch && differs)
        tdg__files_found(files, path, report, is_new);
}

static void log_truncated(tdg__files_t *files) {
    tdg__files_miss(files, TDG__FILES_TOO_MANY);
    if (files->logged_truncated)
        return;
    files->logged_truncated = true;
    tdg__source_log(&files->source, TDG_LOG_WARNING,
                    "more than %lld files and folders: the rest is left out; raise "
                    "`max-files`, or choose files with `include` and `exclude`",
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
                        const tdg__files_report_t *report, bool touch, bool deep) {
    tdg__files_tree_t *tree = &files->tree;
    uint32_t id = tdg__files_child(tree, parent, name, strlen(name));
    bool is_folder = report->type == TDG__FILE_FOLDER, is_new = id == 0;
    char path[TDG__FILES_MAX_PATH];

    if (report->type == TDG__FILE_NONE && report->is_link &&
        tdg__files_path_in(tree, parent, name, path, sizeof(path)))
        tdg__files_note_dangling(files, path);
    if (id != 0) {
        const tdg__files_node_t *node = tdg__files_node(tree, id);

        if (report->type == TDG__FILE_NONE && !tdg__files_may_go(files, id))
            return true;
        if (report->type == TDG__FILE_NONE ||
            is_folder != ((node->flags & TDG__NODE_IS_FOLDER) != 0) ||
            has_no_room_for(files, node)) {
            files->victim = id;
            return report->type == TDG__FILE_NONE;
        }
    } else if (report->type == TDG__FILE_NONE) {
        return true;
    } else if (tree->files + tree->folders - files->n_absent >=
               (size_t)files->max_files) {
        log_truncated(files);
        return true;
    } else {
        id = tdg__files_add(tree, parent, name, strlen(name),
                            is_folder ? TDG__NODE_IS_FOLDER : 0);
        if (id == 0) {
            tdg__files_miss(files, TDG__FILES_NO_MEMORY);
            return true;
        }
    }

    tdg__files_node_t *node = tdg__files_node(tree, id);
    uint32_t scan = tdg__files_node(tree, parent)->u.folder.scan;
    bool was_seen = node->seen == scan - 1; /* by the walk before */

    node->seen = scan;
    tdg__files_set_found(files, node);
    if (!tdg__files_path_of(tree, id, path, sizeof(path)))
        return true;
    if (!is_folder)
        update(files, node, path, report, touch, is_new);
    else if (is_new || deep || !was_seen)
        tdg__files_queue_look(files, path, TDG__TASK_SCAN | TDG__TASK_DEEP);
    tdg__files_own(tree, id);
    return true;
}

static bool is_passing(int error) {
    return error == EMFILE || error == ENFILE || error == ENOMEM || error == EINTR ||
           error == EIO || error == EAGAIN;
}

static void apply_begin(tdg__files_t *files, const tdg__files_report_t *report) {
    uint32_t id = tdg__files_find(&files->tree, report->text);
    tdg__files_node_t *node = id != 0 ? tdg__files_node(&files->tree, id) : NULL;

    files->folder = 0;
    if (node == NULL || (node->flags & TDG__NODE_IS_FOLDER) == 0) {
        /* Deleted meanwhile; another name of the same folder may have the watch. */
        if (report->wd >= 0 && tdg__files_by_wd(&files->tree, report->wd) == 0)
            tdg__files_unwatch_folder(files, report->wd);
        return;
    }
    files->folder = id;
    node->u.folder.scan++;
    if (node->u.folder.wd >= 0 && node->u.folder.wd != report->wd)
        tdg__files_unwatch_folder(files, node->u.folder.wd);
    if (tdg__files_set_wd(&files->tree, id, report->wd) < 0)
        tdg__files_miss(files, TDG__FILES_NO_MEMORY);
    if (report->wd >= 0 && tdg__files_was_early(files, report->wd))
        tdg__files_queue_look(files, report->text, TDG__TASK_SCAN);

    if (report->error != 0 && is_passing(report->error)) {
        tdg__files_miss(files, TDG__FILES_NO_MEMORY);
    } else if (report->error != 0) {
        if (report->error == EACCES && (node->flags & TDG__NODE_DENIED) == 0)
            tdg__source_log(&files->source, TDG_LOG_WARNING,
                            "the folder \"%s\" cannot be read: permission denied",
                            report->text);
        node->flags |= TDG__NODE_DENIED;
        begin_sweep(files, id); /* nothing in it can be had */
    } else {
        node->flags &= ~(unsigned)TDG__NODE_DENIED;
    }
}

/* Whether a path was looked at in another folder than the one that is watched. Changes
 * there had no events. It will be read: the walk that begins to watch it compares what is
 * there with what was known, so that has to stay until then. */
static bool is_elsewhere(const tdg__files_t *files, uint32_t folder,
                         const tdg__files_report_t *report) {
    return !tdg__files_polls(files) && report->error == 0 &&
           tdg__files_node(&files->tree, folder)->u.folder.wd != report->wd;
}

static bool apply_look(tdg__files_t *files, const tdg__files_report_t *report) {
    char parent[TDG__FILES_MAX_PATH];
    const char *name = tdg__files_parent(report->text, parent);
    uint32_t id = tdg__files_find(&files->tree, parent);

    if (report->type == TDG__FILE_NONE && (report->flags & TDG__TASK_AGAIN) == 0 &&
        tdg__files_find(&files->tree, report->text) == 0)
        /* Created and deleted: a client may have read it. */
        tdg__files_touch(files, report->text, false);
    if (id == 0 ||
        (tdg__files_node(&files->tree, id)->flags & TDG__NODE_IS_FOLDER) == 0 ||
        is_elsewhere(files, id, report))
        return true; /* the folder will be read */
    return apply_found(files, id, name, report, (report->flags & TDG__TASK_TOUCH) != 0,
                       true);
}

/* Returns false where the report has to be looked at once more. */
static bool apply_report(tdg__files_t *files, const tdg__files_report_t *report) {
    switch (report->kind) {
    case TDG__REPORT_BEGIN:
        apply_begin(files, report);
        break;
    case TDG__REPORT_MORE:
        files->folder = tdg__files_find(&files->tree, report->text);
        if (files->folder != 0 && (tdg__files_node(&files->tree, files->folder)->flags &
                                   TDG__NODE_IS_FOLDER) == 0)
            files->folder = 0;
        break;
    case TDG__REPORT_ENTRY:
        if (files->folder != 0)
            return apply_found(files, files->folder, report->text, report, true,
                               (report->flags & TDG__TASK_DEEP) != 0);
        break;
    case TDG__REPORT_END:
        if (report->error != 0)
            tdg__files_miss(files, TDG__FILES_NO_MEMORY);
        else if (files->folder != 0)
            begin_sweep(files, files->folder);
        break;
    case TDG__REPORT_LOOK:
        return apply_look(files, report);
    }
    return true;
}

int tdg__files_apply_step(tdg__files_t *files) {
    int rv = 0;

    assert(files->piece == TDG__FILES_APPLYING);
    if (files->victim != 0)
        rv = remove_step(files);
    else if (files->sweeping != 0)
        sweep_step(files);
    else if (apply_report(files, &files->walk->reports[files->at]))
        files->at++;
    if (rv < 0)
        return rv;
    return files->victim != 0 || files->sweeping != 0 ||
           files->at < files->walk->n_reports;
}

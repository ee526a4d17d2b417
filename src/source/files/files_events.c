/* SPDX-License-Identifier: MIT
 *
 * inotify, one instance per source and one watch per folder. An event touches the file
 * that it names, once it is complete (files_saves.c), and creates a task to check it, so
 * that the list follows. If the kernel lost events, or has no more watches, everything is
 * walked: once, or periodically. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "source/common/inotify.h"
#include "source/files/files.h"

enum {
    UNREAD_READS = 256,       /* when a source ends; more: everything is doubted */
    LATER_MS = 300,           /* size and time in the list lag behind by this much */
    FALL_BACK_POLL_MS = 2000, /* when the options say nothing */
    LOG_AGAIN_MS = 60000,
};

/* ---- What happened ------------------------------------------------------ */

/* Events of a watch that a running walk has made and not reported yet: the folder is then
 * read again. */
static void note_early(tdg__files_t *files, int wd) {
    if (files->piece == TDG__FILES_RESTING)
        return; /* of a folder that is gone */
    if (tdg__files_was_early(files, wd))
        return;
    if (files->n_early < TDG__FILES_EARLY)
        files->early[files->n_early++] = wd;
    else
        tdg__files_miss(files, TDG__FILES_NO_MEMORY); /* everything is read again */
}

bool tdg__files_was_early(const tdg__files_t *files, int wd) {
    for (size_t i = 0; i < files->n_early; i++)
        if (files->early[i] == wd)
            return true;
    return false;
}

static void on_later(uv_timer_t *timer) {
    tdg__files_t *files = timer->data;

    if (files->links_later && tdg__files_has_links(files))
        tdg__files_look_at_links(files);
    files->links_later = false;
    tdg__files_look_now(files);
}

static void soon(tdg__files_t *files) {
    if (!uv_is_active((uv_handle_t *)&files->later_timer))
        uv_timer_start(&files->later_timer, on_later, LATER_MS, 0);
}

static void on_overflow(tdg__files_t *files) {
    uint64_t now = uv_now(files->source.host.loop);

    if (files->logged_overflow_ms == 0 ||
        now - files->logged_overflow_ms > LOG_AGAIN_MS) {
        files->logged_overflow_ms = now;
        tdg__source_log(&files->source, TDG_LOG_NOTICE,
                        "the kernel dropped events: everything is checked "
                        "again (fs.inotify.max_queued_events is the limit)");
    }
    tdg__source_touch_all(&files->source);
    tdg__files_rescan(files);
}

/* The watch of a folder has ended, or the folder itself was moved or deleted. */
static void on_folder(tdg__files_t *files, uint32_t id, uint32_t mask) {
    char path[TDG__FILES_MAX_PATH];

    if ((mask & IN_IGNORED) != 0)
        (void)tdg__files_set_wd(&files->tree, id, -1);
    if (id == files->tree.root) {
        tdg__files_rescan(files);
    } else if ((mask & IN_IGNORED) != 0 &&
               tdg__files_path_of(&files->tree, id, path, sizeof(path))) {
        /* Otherwise the parent has its own event for it. */
        tdg__files_look(files, path, 0);
    }
}

/* What the tree does not know came now, unless the tree has left something out. */
static bool is_new(const tdg__files_t *files, const char *path) {
    return files->settled && files->gap == TDG__FILES_NO_GAP &&
           tdg__files_find(&files->tree, path) == 0;
}

/* What an event means for the content of a file. */
static void on_file(tdg__files_t *files, const char *path, uint32_t mask) {
    bool comes = is_new(files, path);

    if ((mask & (IN_CREATE | IN_MODIFY)) != 0) {
        tdg__files_written(files, path, comes, files->settle_ms);
    } else if ((mask & IN_CLOSE_WRITE) != 0) {
        tdg__files_closed(files, path, comes);
    } else if ((mask & (IN_DELETE | IN_MOVED_FROM)) != 0) {
        tdg__files_went(files, path);
        if (files->settle_ms == 0)
            tdg__files_touch(files, path, false);
    } else if ((mask & IN_MOVED_TO) != 0) {
        tdg__files_replaced(files, path, comes);
    } else if (!tdg__files_is_written(files, path)) { /* its permissions */
        tdg__files_touch(files, path, comes);
    }
}

static void on_name(tdg__files_t *files, uint32_t id, uint32_t mask, const char *name) {
    char path[TDG__FILES_MAX_PATH];
    bool is_folder = (mask & IN_ISDIR) != 0;

    if (!tdg__files_path_in(&files->tree, id, name, path, sizeof(path)))
        return;

    /* A link may lead to it, also where it is hidden itself. */
    if (tdg__files_has_links(files)) {
        files->links_later = true;
        soon(files);
    }
    if (!tdg__files_in_scope(&files->scope, path, is_folder))
        return;
    if (!is_folder)
        on_file(files, path, mask);
    if (is_folder || (mask & TDG__INOTIFY_STRUCTURE) != 0) {
        tdg__files_look(files, path, 0);
    } else {
        tdg__files_look_later(files, path);
        soon(files);
    }
}

static bool on_event(void *user, const struct inotify_event *event) {
    tdg__files_t *files = user;
    uint32_t id;

    if ((event->mask & IN_Q_OVERFLOW) != 0) {
        on_overflow(files);
        return !files->source.closing;
    }
    id = tdg__files_by_wd(&files->tree, event->wd);
    if (id == 0)
        note_early(files, event->wd);
    else if (event->len > 0)
        on_name(files, id, event->mask, event->name);
    else if ((event->mask & (IN_IGNORED | TDG__INOTIFY_ITSELF)) != 0 ||
             (id == files->tree.root && (event->mask & IN_ATTRIB) != 0))
        on_folder(files, id, event->mask);
    return !files->source.closing;
}

/* ---- Reading them ------------------------------------------------------- */

void tdg__files_take_events(tdg__files_t *files) {
    if (files->notify_fd >= 0)
        (void)tdg__inotify_read(files->notify_fd, TDG__INOTIFY_READS, on_event, files);
}

/* Returns false where events were lost. */
static bool doubt(void *user, const struct inotify_event *event) {
    tdg__files_tree_t *tree = &((tdg__files_t *)user)->tree;
    uint32_t folder = tdg__files_by_wd(tree, event->wd), id;

    if ((event->mask & IN_Q_OVERFLOW) != 0)
        return false;
    if (folder == 0 || event->len == 0)
        return true;
    id = tdg__files_child(tree, folder, event->name, strlen(event->name));
    if (id != 0)
        tdg__files_forget_fingerprint(tdg__files_node(tree, id));
    return true;
}

static void doubt_all(tdg__files_t *files) {
    for (uint32_t id = 0; (id = tdg__files_next(&files->tree, id)) != 0;)
        tdg__files_forget_fingerprint(tdg__files_node(&files->tree, id));
}

/* A look may have seen a file as it is after an event that nobody has read, while its
 * content was read before: only the event says that they differ. */
void tdg__files_doubt_unread(tdg__files_t *files) {
    if (files->notify_fd >= 0 &&
        !tdg__inotify_read(files->notify_fd, UNREAD_READS, doubt, files))
        doubt_all(files);
}

static void on_readable(uv_poll_t *poll, int status, int events) {
    (void)status;
    (void)events;
    tdg__files_take_events(poll->data);
}

void tdg__files_events_close(tdg__files_t *files) {
    if (files->notify_fd < 0)
        return;
    if (!uv_is_closing((uv_handle_t *)&files->poll)) {
        uv_poll_stop(&files->poll);
        tdg__source_close_handle((uv_handle_t *)&files->poll);
    }
    if (files->piece == TDG__FILES_WALKING)
        return; /* the walk adds watches, to whatever has this number */
    close(files->notify_fd);
    files->notify_fd = -1;
}

/* What is set, from /proc; 0 where it cannot be found out. */
static long limit_of(const char *name) {
    char path[128];
    long value = 0;
    FILE *file;

    snprintf(path, sizeof(path), "/proc/sys/fs/inotify/%s", name);
    file = fopen(path, "re");
    if (file == NULL)
        return 0;
    if (fscanf(file, "%ld", &value) != 1)
        value = 0;
    fclose(file);
    return value;
}

void tdg__files_fall_back(tdg__files_t *files, int error) {
    if (tdg__files_polls(files))
        return;
    if (error == ENOMEM) {
        tdg__files_miss(files, TDG__FILES_NO_MEMORY); /* there may be memory later */
        return;
    }

    bool is_watches = error == ENOSPC, is_instances = error == EMFILE;

    files->poll_ms = FALL_BACK_POLL_MS;
    if (is_watches)
        tdg__source_log(
            &files->source, TDG_LOG_WARNING,
            "no more inotify watches: fs.inotify.max_user_watches is %ld, and "
            "this source alone needs one for each of its folders, %zu so "
            "far; raise it with sysctl. Until then the folder is walked every "
            "%" PRId64 " ms",
            limit_of("max_user_watches"), files->tree.folders + 1, files->poll_ms);
    else
        tdg__source_log(&files->source, TDG_LOG_WARNING,
                        "%s: %s%ld%s. Until then the folder is walked every %" PRId64
                        " ms",
                        is_instances ? "no more inotify instances" : strerror(error),
                        is_instances ? "fs.inotify.max_user_instances is " : "inotify ",
                        is_instances ? limit_of("max_user_instances") : (long)error,
                        is_instances ? ", and this source needs one more; raise it with "
                                       "sysctl"
                                     : " does not work here",
                        files->poll_ms);
    tdg__files_events_close(files);
}

void tdg__files_events_open(tdg__files_t *files) {
    if (tdg__files_polls(files))
        return;

    int fd = tdg__inotify_open(files->source.host.loop, &files->poll, on_readable);
    if (fd < 0) {
        tdg__files_fall_back(files, fd == -ENFILE ? EMFILE : -fd);
        return;
    }
    files->notify_fd = fd;
    files->poll.data = files;
    tdg__source_hold(&files->source);
}

void tdg__files_unwatch_folder(tdg__files_t *files, int wd) {
    if (files->notify_fd >= 0)
        (void)inotify_rm_watch(files->notify_fd, wd);
}

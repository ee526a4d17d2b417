/* SPDX-License-Identifier: MIT */
#include "source/common/path_watch.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <tidings/error.h>

#include "base/alloc.h"
#include "source/common/inotify.h"

enum {
    LOOK_MS = 2000,
    LOOK_WITHOUT_MS = 500, /* without inotify */
    FILES = 3,             /* the path itself and two beside it */
    OF_ITSELF = TDG__INOTIFY_ITSELF | IN_ATTRIB,
};

/* What a file looked like; all 0: it was not there. */
struct look {
    dev_t dev;
    ino_t ino;
    off_t size;
    struct timespec mtime, ctime;
};

/* What a job in the thread pool found out. */
struct found {
    struct look looks[FILES];
    int folder_wd, file_wd; /* -1: none */
    int error;              /* why there are no watches to be had; or 0 */
};

struct tdg__path_watch {
    const tdg__path_watch_ops_t *ops;
    tdg__source_t *source;
    char paths[FILES][PATH_MAX]; /* "": none */
    char folder[PATH_MAX];
    int fd; /* inotify; -1: none */
    uv_poll_t poll;
    uv_timer_t timer;
    uv_work_t work;
    unsigned handles;
    bool working, again; /* a job runs; another one is wanted */
    bool stopping, armed;
    int error;
    struct found now, next; /* known; the running job's */
};

static void look(tdg__path_watch_t *watch);

/* ---- Looking, in the thread pool ---------------------------------------- */

static bool is_missing(int error) {
    return error == ENOENT || error == ENOTDIR || error == EACCES || error == ELOOP ||
           error == ENAMETOOLONG;
}

static int add_watch(tdg__path_watch_t *watch, const char *path, uint32_t mask) {
    int wd = inotify_add_watch(watch->fd, path, mask);

    if (wd < 0 && !is_missing(errno))
        watch->next.error = errno;
    return wd;
}

static void work(uv_work_t *request) {
    tdg__path_watch_t *watch = request->data;
    /* Without an event for every line in every log of a folder. */
    uint32_t written = watch->paths[1][0] != '\0' ? IN_MODIFY : 0;

    watch->next = (struct found){.folder_wd = -1, .file_wd = -1};
    if (watch->fd >= 0) {
        watch->next.folder_wd =
            add_watch(watch, watch->folder,
                      TDG__INOTIFY_STRUCTURE | OF_ITSELF | written | IN_ONLYDIR);
        watch->next.file_wd =
            add_watch(watch, watch->paths[0], IN_MODIFY | IN_CLOSE_WRITE | OF_ITSELF);
    }
    for (size_t i = 0; i < FILES && watch->paths[i][0] != '\0'; i++) {
        struct look *one = &watch->next.looks[i];
        struct stat st;

        if (stat(watch->paths[i], &st) < 0)
            continue;
        one->dev = st.st_dev;
        one->ino = st.st_ino;
        one->size = st.st_size;
        one->mtime = st.st_mtim;
        one->ctime = st.st_ctim;
    }
}

static void on_closed(uv_handle_t *handle) {
    tdg__path_watch_t *watch = handle->data;

    assert(watch->stopping && watch->handles > 0);
    if (--watch->handles > 0)
        return;
    tdg__source_let_go(watch->source);
    tdg__free(watch);
}

static void close_all(tdg__path_watch_t *watch) {
    uv_close((uv_handle_t *)&watch->timer, on_closed);
    if (watch->fd < 0)
        return;
    uv_close((uv_handle_t *)&watch->poll, on_closed);
    close(watch->fd);
    watch->fd = -1;
}

static void on_timer(uv_timer_t *timer) {
    look(timer->data);
}

static void arm(tdg__path_watch_t *watch) {
    tdg__source_t *source = watch->source;

    assert(!watch->armed && !watch->stopping);
    watch->armed = true;
    if (watch->error != 0 && !source->logged_inotify) {
        source->logged_inotify = true;
        tdg__source_log(source, TDG_LOG_WARNING, "inotify does not work here: %s; %s",
                        strerror(watch->error), watch->ops->instead);
    }
    if (watch->ops->armed != NULL)
        watch->ops->armed(source);
}

static void worked(uv_work_t *request, int status) {
    tdg__path_watch_t *watch = request->data;
    const struct found *next = &watch->next;
    int old_file = watch->now.file_wd, old_folder = watch->now.folder_wd;

    (void)status; /* never cancelled */
    watch->working = false;
    if (watch->stopping) {
        close_all(watch);
        return;
    }

    bool differs = memcmp(next->looks, watch->now.looks, sizeof(next->looks)) != 0 ||
                   next->file_wd != old_file || next->folder_wd != old_folder;

    watch->now = *next;
    if (watch->fd >= 0 && old_file >= 0 && old_file != next->file_wd)
        (void)inotify_rm_watch(watch->fd, old_file);
    if (watch->fd >= 0 && old_folder >= 0 && old_folder != next->folder_wd)
        (void)inotify_rm_watch(watch->fd, old_folder);
    if (next->error != 0)
        watch->error = next->error;
    uv_timer_start(&watch->timer, on_timer,
                   watch->fd < 0 || next->error != 0 ? LOOK_WITHOUT_MS : LOOK_MS, 0);
    if (watch->again)
        look(watch);
    if (differs || !watch->armed)
        watch->ops->changed(watch->source);
    if (!watch->armed && !watch->stopping)
        arm(watch);
}

static void look(tdg__path_watch_t *watch) {
    watch->again = watch->working;
    if (watch->working)
        return;
    watch->work.data = watch;
    watch->working =
        uv_queue_work(watch->source->host.loop, &watch->work, work, worked) == 0;
}

/* ---- Events ------------------------------------------------------------- */

static bool is_ours(const tdg__path_watch_t *watch, const char *name) {
    size_t skip = strlen(watch->folder) + (watch->folder[1] != '\0');

    for (size_t i = 0; i < FILES && watch->paths[i][0] != '\0'; i++)
        if (strcmp(watch->paths[i] + skip, name) == 0)
            return true;
    return false;
}

/* What some events say together. */
struct noticed {
    const tdg__path_watch_t *watch;
    bool change;    /* something may have changed */
    bool structure; /* the file may be another one now */
};

static bool on_event(void *user, const struct inotify_event *event) {
    struct noticed *noticed = user;
    const tdg__path_watch_t *watch = noticed->watch;
    bool known = event->wd == watch->now.file_wd || event->wd == watch->now.folder_wd;

    if ((event->mask & IN_Q_OVERFLOW) != 0) {
        noticed->structure = noticed->change = true;
        return true;
    }
    if (event->len > 0 && !is_ours(watch, event->name))
        return true;
    if (!known && !watch->working)
        return true; /* of a file that is not ours any more */
    if (known && (event->mask & (TDG__INOTIFY_STRUCTURE | OF_ITSELF | IN_IGNORED)) != 0)
        noticed->structure = true;
    noticed->change = true;
    return true;
}

static void on_readable(uv_poll_t *poll, int status, int events) {
    tdg__path_watch_t *watch = poll->data;
    struct noticed noticed = {.watch = watch};

    (void)status;
    (void)events;
    (void)tdg__inotify_read(watch->fd, TDG__INOTIFY_READS, on_event, &noticed);
    if (noticed.structure)
        look(watch);
    if (noticed.change)
        watch->ops->changed(watch->source);
}

/* ---- Life --------------------------------------------------------------- */

static int set_paths(tdg__path_watch_t *watch, const char *path,
                     const char *const *also) {
    const char *slash = strrchr(path, '/');
    size_t len = slash != NULL ? (size_t)(slash - path) : 0;

    if (slash == NULL || strlen(path) + 16 > PATH_MAX)
        return TDG_EINVAL;
    snprintf(watch->folder, PATH_MAX, "%.*s", len > 0 ? (int)len : 1, path);
    snprintf(watch->paths[0], PATH_MAX, "%s", path);
    for (size_t i = 0; also != NULL && also[i] != NULL && i + 1 < FILES; i++)
        (void)snprintf(watch->paths[i + 1], PATH_MAX, "%s%s", path, also[i]);
    return 0;
}

static void open_inotify(tdg__path_watch_t *watch) {
    int fd = tdg__inotify_open(watch->source->host.loop, &watch->poll, on_readable);

    watch->fd = fd < 0 ? -1 : fd;
    if (fd < 0) {
        watch->error = -fd;
        return;
    }
    watch->poll.data = watch;
    watch->handles++;
}

int tdg__path_watch_start(tdg__source_t *source, const char *path,
                          const char *const *also, const tdg__path_watch_ops_t *ops,
                          tdg__path_watch_t **ret) {
    tdg__path_watch_t *watch = tdg__calloc(1, sizeof(*watch));
    if (watch == NULL)
        return TDG_ENOMEM;

    int rv = set_paths(watch, path, also);
    if (rv < 0) {
        tdg__free(watch);
        return rv;
    }
    watch->ops = ops;
    watch->source = source;
    tdg__source_hold(source);
    watch->now.file_wd = watch->now.folder_wd = -1;
    uv_timer_init(source->host.loop, &watch->timer);
    watch->timer.data = watch;
    watch->handles = 1;
    open_inotify(watch);
    look(watch);
    *ret = watch;
    return 0;
}

void tdg__path_watch_stop(tdg__path_watch_t *watch) {
    if (watch->stopping)
        return;
    watch->stopping = true;
    uv_timer_stop(&watch->timer);
    if (watch->fd >= 0)
        uv_poll_stop(&watch->poll);
    if (!watch->working)
        close_all(watch);
}

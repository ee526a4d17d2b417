/* SPDX-License-Identifier: MIT */
#include "source/files/files_walk.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/text.h"

enum {
    EVENTS = IN_ATTRIB | IN_CLOSE_WRITE | IN_CREATE | IN_DELETE | IN_DELETE_SELF |
             IN_MODIFY | IN_MOVE_SELF | IN_MOVED_FROM | IN_MOVED_TO | IN_ONLYDIR |
             IN_EXCL_UNLINK,
};

/* Clocks of file systems are coarse: what was written that shortly before we looked may
 * be written again without looking different. */
#define TOO_YOUNG_NS (100 * INT64_C(1000000))

bool tdg__files_in_scope(const tdg__files_scope_t *scope, const char *path,
                         bool is_folder) {
    if (scope->config_inside != NULL && strcmp(path, scope->config_inside) == 0)
        return false;
    if (scope->only != NULL)
        return !is_folder && strcmp(path, scope->only) == 0;
    if (!tdg__utf8_is_valid(path, strlen(path)))
        return false; /* JSON could not say its name */
    if (!scope->hidden && tdg__files_is_hidden(path))
        return false;
    if (tdg__globs_match(scope->exclude, path))
        return false;
    return is_folder || tdg__globs_are_empty(scope->include) ||
           tdg__globs_match(scope->include, path);
}

void tdg__files_find_config(const tdg__files_scope_t *scope, struct stat *ret) {
    if (scope->config_path == NULL || stat(scope->config_path, ret) < 0)
        *ret = (struct stat){.st_ino = 0};
}

bool tdg__files_is_config(const struct stat *config, const struct stat *st) {
    return config->st_ino != 0 && config->st_ino == st->st_ino &&
           config->st_dev == st->st_dev;
}

/* ---- Reports ------------------------------------------------------------ */

static bool is_full(const tdg__files_walk_t *walk) {
    /* Each step makes up to three reports, each with a path. */
    return walk->n_reports + 3 > TDG__WALK_REPORTS ||
           walk->text_len + 3 * TDG__FILES_MAX_PATH > TDG__WALK_TEXT;
}

static tdg__files_report_t *report(tdg__files_walk_t *walk, tdg__report_kind_t kind,
                                   const char *text, unsigned flags) {
    size_t len = strlen(text) + 1;
    tdg__files_report_t *r = &walk->reports[walk->n_reports++];

    *r = (tdg__files_report_t){.kind = (uint8_t)kind, .flags = (uint8_t)flags, .wd = -1};
    r->text = memcpy(walk->text + walk->text_len, text, len);
    walk->text_len += len;
    return r;
}

/* ---- A single file ------------------------------------------------------ */

static uint64_t mix(uint64_t hash, uint64_t value) {
    hash = (hash ^ value) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ hash >> 32;
}

static int64_t ns_of(struct timespec t) {
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static uint64_t stamp_of(const struct stat *st) {
    uint64_t stamp = mix(1, st->st_ino);

    stamp = mix(stamp, (uint64_t)st->st_size);
    stamp = mix(stamp, (uint64_t)ns_of(st->st_mtim));
    stamp = mix(stamp, (uint64_t)ns_of(st->st_ctim));
    return stamp != 0 ? stamp : 1;
}

static int64_t age_of(const struct stat *st) {
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return ns_of(now) - ns_of(st->st_ctim);
}

static void describe(tdg__files_report_t *r, const struct stat *st) {
    int64_t age = age_of(st);

    r->type = TDG__FILE_REGULAR;
    r->size = (uint64_t)st->st_size;
    r->modified_ms = (int64_t)st->st_mtim.tv_sec * 1000 + st->st_mtim.tv_nsec / 1000000;
    r->stamp = stamp_of(st);
    r->fingerprint = age < TOO_YOUNG_NS && age > -TOO_YOUNG_NS ? 0 : r->stamp;
    r->age_ms = age / 1000000;
}

/* A link counts as the file that it leads to, beneath the root; links to folders are not
 * entered: they would show the same files twice, or for ever. */
static void describe_link(tdg__files_walk_t *walk, const char *path,
                          tdg__files_report_t *r) {
    struct stat st;
    int fd = tdg__files_open(walk->root_fd, path, O_PATH, TDG__FILES_FOLLOW);

    r->is_link = fd == -ENOENT || fd == -ENOTDIR; /* what it leads to may come */
    if (fd < 0)
        return;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) &&
        !tdg__files_is_config(&walk->config, &st)) {
        describe(r, &st);
        r->is_link = true;
    }
    close(fd);
}

static void inspect(tdg__files_walk_t *walk, int folder, const char *name,
                    const char *path, tdg__files_report_t *r) {
    struct stat st;

    if (fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return;
    if (S_ISDIR(st.st_mode) && tdg__files_in_scope(walk->scope, path, true))
        r->type = TDG__FILE_FOLDER;
    else if (!tdg__files_in_scope(walk->scope, path, false) ||
             tdg__files_is_config(&walk->config, &st))
        return;
    else if (S_ISREG(st.st_mode))
        describe(r, &st);
    else if (S_ISLNK(st.st_mode))
        describe_link(walk, path, r);
}

/* Through /proc, so that what is watched is what is read. Returns the watch that the
 * folder has, which is new where it had none; -1: none. */
static int watch(const tdg__files_walk_t *walk, int fd) {
    char name[64];

    if (walk->notify_fd < 0)
        return -1;
    snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
    return inotify_add_watch(walk->notify_fd, name, EVENTS);
}

static void look(tdg__files_walk_t *walk, const tdg__files_task_t *task) {
    char parent[TDG__FILES_MAX_PATH];
    const char *name = tdg__files_parent(task->path, parent);
    tdg__files_report_t *r = report(walk, TDG__REPORT_LOOK, task->path, task->flags);
    int folder = tdg__files_open(walk->root_fd, parent, O_PATH | O_DIRECTORY, 0);

    if (folder < 0) {
        r->error = -folder;
        return;
    }
    r->wd = watch(walk, folder);
    inspect(walk, folder, name, task->path, r);
    close(folder);
}

/* ---- A folder ----------------------------------------------------------- */

static bool begin(tdg__files_walk_t *walk, const tdg__files_task_t *task) {
    tdg__files_report_t *r = report(walk, TDG__REPORT_BEGIN, task->path, task->flags);
    int fd = tdg__files_open(walk->root_fd, task->path, O_RDONLY | O_DIRECTORY, 0);

    if (fd < 0) {
        r->error = -fd;
        return false;
    }
    r->wd = watch(walk, fd);
    if (r->wd < 0 && walk->notify_fd >= 0 && walk->watch_error == 0)
        walk->watch_error = errno;
    walk->dir = fdopendir(fd);
    if (walk->dir == NULL) {
        r->error = errno;
        close(fd);
        return false;
    }
    return true;
}

static bool join(char *out, const char *folder, const char *name) {
    int len = snprintf(out, TDG__FILES_MAX_PATH, "%s%s%s", folder,
                       folder[0] != '\0' ? "/" : "", name);

    return len > 0 && len < TDG__FILES_MAX_PATH;
}

static void entry(tdg__files_walk_t *walk, const tdg__files_task_t *task,
                  const char *name) {
    char path[TDG__FILES_MAX_PATH];
    size_t n_reports = walk->n_reports, text_len = walk->text_len;
    tdg__files_report_t *r;

    if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0 ||
        !join(path, task->path, name))
        return;
    r = report(walk, TDG__REPORT_ENTRY, name, task->flags);
    inspect(walk, dirfd(walk->dir), name, path, r);
    if (r->type == TDG__FILE_NONE && !r->is_link) {
        walk->n_reports = n_reports;
        walk->text_len = text_len;
    }
}

/* Returns whether the folder is done. */
static bool scan(tdg__files_walk_t *walk, const tdg__files_task_t *task) {
    int error = 0;

    if (walk->dir != NULL)
        report(walk, TDG__REPORT_MORE, task->path, task->flags);
    else if (!begin(walk, task)) {
        if (task->path[0] == '\0')
            walk->root_error = walk->reports[walk->n_reports - 1].error;
        return true;
    }

    if (walk->scope->only != NULL) {
        entry(walk, task, walk->scope->only);
    } else {
        const struct dirent *found;

        errno = 0;
        while (!is_full(walk) && (found = readdir(walk->dir)) != NULL) {
            entry(walk, task, found->d_name);
            errno = 0;
        }
        if (is_full(walk))
            return false;
        error = errno;
    }
    report(walk, TDG__REPORT_END, task->path, task->flags)->error = error;
    tdg__files_walk_stop(walk);
    return true;
}

void tdg__files_walk(tdg__files_walk_t *walk) {
    struct stat st;

    walk->n_done = walk->n_reports = walk->text_len = 0;
    walk->root_error = walk->watch_error = 0;
    walk->root_fd = open(walk->scope->root, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (walk->root_fd < 0 || fstat(walk->root_fd, &st) < 0) {
        walk->root_error = errno;
    } else {
        tdg__files_find_config(walk->scope, &walk->config);
        walk->root_dev = st.st_dev;
        walk->root_ino = st.st_ino;
        for (; walk->n_done < walk->n_tasks && !is_full(walk); walk->n_done++) {
            const tdg__files_task_t *task = &walk->tasks[walk->n_done];

            if ((task->flags & TDG__TASK_SCAN) == 0)
                look(walk, task);
            else if (!scan(walk, task))
                break;
        }
    }
    if (walk->root_fd >= 0)
        close(walk->root_fd);
}

void tdg__files_walk_stop(tdg__files_walk_t *walk) {
    if (walk->dir != NULL)
        closedir(walk->dir);
    walk->dir = NULL;
}

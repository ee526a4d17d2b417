/* SPDX-License-Identifier: MIT
 *
 * Walks a folder, in libuv's thread pool: a job takes some tasks and leaves reports, of
 * which there is a fixed number. A folder with more entries is continued by the next job.
 * The loop applies the reports in their order (files_apply.c) before it starts the next
 * job.
 *
 * A folder is watched before it is read, so that an entry that is added meanwhile is
 * reported by one or the other. Nothing here allocates through our hooks, and the loop
 * does not touch this data while the job runs. */
#ifndef TDG_SOURCE_FILES_WALK_H
#define TDG_SOURCE_FILES_WALK_H

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "source/files/files_glob.h"
#include "source/files/files_path.h"

enum {
    TDG__WALK_REPORTS = 1024,
    TDG__WALK_TEXT = 64 * 1024, /* bytes of names and paths in the reports */
    TDG__WALK_TASKS = 128,
};

/* What belongs to a source; immutable while it is open. */
typedef struct tdg__files_scope {
    const char *root; /* absolute path of the folder */
    const char *only; /* the one name in it that counts; NULL: all */
    const tdg__globs_t *include, *exclude;
    bool hidden;
    const char *config_path;   /* absolute path of the config, which is never served */
    const char *config_inside; /* the same below the root; NULL: it was elsewhere */
} tdg__files_scope_t;

bool tdg__files_in_scope(const tdg__files_scope_t *scope, const char *path,
                         bool is_folder);

/* The config may have other names: links, hard and symbolic, and the
 * root may be a link that leads elsewhere now. So it is known by its inode, too. For any
 * thread; `ret` is all zero where there is none. */
void tdg__files_find_config(const tdg__files_scope_t *scope, struct stat *ret);
bool tdg__files_is_config(const struct stat *config, const struct stat *st);

enum {
    TDG__TASK_SCAN = 1 << 0,  /* read the folder; otherwise look at one path */
    TDG__TASK_DEEP = 1 << 1,  /* and its folders, also those that the walk before met */
    TDG__TASK_TOUCH = 1 << 2, /* touch the file where it differs from before */
    TDG__TASK_AGAIN = 1 << 3, /* there was nothing that somebody may have seen */
};

typedef struct tdg__files_task {
    char *path;
    unsigned flags;
} tdg__files_task_t;

typedef enum tdg__report_kind {
    TDG__REPORT_BEGIN, /* a folder is being read; wd */
    TDG__REPORT_MORE,  /* the same folder, in another piece */
    TDG__REPORT_ENTRY, /* a name in it */
    TDG__REPORT_END,   /* that were all its names */
    TDG__REPORT_LOOK,  /* a single path */
} tdg__report_kind_t;

typedef enum tdg__file_type {
    TDG__FILE_NONE,
    TDG__FILE_REGULAR,
    TDG__FILE_FOLDER
} tdg__file_type_t;

typedef struct tdg__files_report {
    uint8_t kind;     /* tdg__report_kind_t */
    uint8_t type;     /* tdg__file_type_t; NONE: not there, or nothing for us */
    bool is_link;     /* also of type NONE: it leads to nothing at present */
    uint8_t flags;    /* of the task */
    int error;        /* BEGIN: it cannot be read; END: not to its end; LOOK: its folder
                         cannot be opened; an errno */
    int wd;           /* BEGIN: its watch; LOOK: that of its folder; -1: none */
    const char *text; /* ENTRY: a name; otherwise a path */
    uint64_t size;    /* of a file */
    int64_t modified_ms;
    uint64_t fingerprint; /* differs when the file does; 0: it is too young to compare */
    uint64_t stamp;       /* the same, however young; 0: nothing is there */
    int64_t age_ms;       /* since its last change, by the wall clock */
} tdg__files_report_t;

typedef struct tdg__files_walk {
    /* Set by the loop before each piece. */
    const tdg__files_scope_t *scope;
    int notify_fd; /* inotify; -1: nothing is watched */
    tdg__files_task_t tasks[TDG__WALK_TASKS];
    size_t n_tasks;

    /* The results. */
    size_t n_done;   /* tasks; the first that is not done may have begun */
    int root_error;  /* errno: the root cannot be opened, no reports */
    int watch_error; /* errno of the watch that could not be made */
    dev_t root_dev;
    ino_t root_ino;
    struct stat config; /* of scope->config_path, all zero where it is not there */
    tdg__files_report_t reports[TDG__WALK_REPORTS];
    size_t n_reports;
    char text[TDG__WALK_TEXT];
    size_t text_len;

    DIR *dir; /* of the folder that is being read */
    int root_fd;
} tdg__files_walk_t;

/* One piece of work, in any thread. */
void tdg__files_walk(tdg__files_walk_t *walk);

/* Forgets the folder that is being read. */
void tdg__files_walk_stop(tdg__files_walk_t *walk);

#endif

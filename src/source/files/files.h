/* SPDX-License-Identifier: MIT
 *
 * What the files of the kind `files` share: the record of a source.
 *
 *     files.c         options, life, who watches
 *     files_events.c  inotify: what happened, as tasks
 *     files_tasks.c   the paths to check, in pieces of walking
 *     files_apply.c   what a piece has found: the tree, and the list of the host
 *     files_absent.c  what was not found, and may be created again in a moment
 *     files_fetch.c   reading a file
 *     files_complete.c  completion of paths
 *     files_saves.c   files that are being saved: touched once they are whole
 *     files_past.c    taking the place of another source, in a reload
 *     files_walk.c    the part of walking that is done in the thread pool
 *     files_tree.c, files_path.c, files_glob.c, files_mime.c
 *
 * Every event is a hint to check: it names a path, the path is checked (or its folder is
 * read), and the tree is updated with the result. So events may arrive twice, late or in
 * any order, and if some are lost everything is read again. The common part fetches the
 * content: it is touched where it may differ. */
#ifndef TDG_SOURCE_FILES_H
#define TDG_SOURCE_FILES_H

#include "base/queue.h"
#include "source/common/records.h"
#include "source/common/source.h"
#include "source/files/files_tree.h"
#include "source/files/files_walk.h"

enum {
    TDG__FILES_EARLY = 64,        /* watches whose events came before we knew them */
    TDG__FILES_DANGLING = 256,    /* links to nothing that are looked after */
    TDG__FILES_QUEUE_MAX = 65536, /* tasks that wait; more: everything is read again */
};

typedef struct tdg__files_queue {
    tdg__files_task_t *list;
    size_t head, count, room;
} tdg__files_queue_t;

/* What the tree lacks; the stronger reason counts until everything is read again:
 *
 *     NO_GAP ── max-files ──▶ TOO_MANY ── out of memory ──▶ NO_MEMORY ── retry ─┐
 *        ▲                       │ there is room again                          │
 *        └───────────────────────┴──────────────────────────────────────────────┘ */
enum tdg__files_gap {
    TDG__FILES_NO_GAP,
    TDG__FILES_TOO_MANY,  /* left out for max-files */
    TDG__FILES_NO_MEMORY, /* left out for want of memory, descriptors or watches */
};

typedef struct tdg__files {
    tdg__source_t source; /* first */

    /* Options. */
    char *path;
    char **include, **exclude;
    bool hidden;
    int64_t max_files;
    int64_t poll_ms;   /* 0: inotify; set where that does not work */
    int64_t settle_ms; /* of a save; 0: nothing is waited for */

    /* Made of them by check(). */
    char *root, *only, *prefix; /* folder; single file in it or NULL; of all URIs */
    tdg__globs_t *include_globs, *exclude_globs;
    tdg__files_scope_t scope;
    char *config_path; /* real path of source.config_path; scope.config_inside is in it */

    /* files.c */
    uv_timer_t timer; /* while RESTING: retry, poll, or look for what inotify does not
                         report; while STUCK: goes on */

    /* files_events.c */
    int notify_fd; /* -1: none */
    uv_poll_t poll;
    uv_timer_t later_timer;
    tdg__files_queue_t later;    /* looked at soon, not at once: written to */
    bool links_later;            /* and all links */
    tdg__files_queue_t dangling; /* links that led to nothing for us */
    int early[TDG__FILES_EARLY];
    size_t n_early;
    uint64_t logged_overflow_ms; /* 0: not yet */

    tdg__records_t saves; /* of files that are being saved, by path (files_saves.c) */

    /* files_tasks.c */
    tdg__files_tree_t tree;
    tdg__files_queue_t queue;
    size_t scans;      /* folders to be read, in the queue and in the walk */
    bool rescan_waits; /* the reading of everything, in the queue */
    tdg__files_walk_t *walk;
    uv_work_t work;
    enum {
        TDG__FILES_RESTING,
        TDG__FILES_WALKING,
        TDG__FILES_APPLYING,
        TDG__FILES_STUCK
    } piece;
    bool logged_stuck; /* in this piece */
    uv_idle_t idle;

    /* files_apply.c */
    size_t at;         /* the report that is next */
    uint32_t folder;   /* to which entries belong; 0: it is gone */
    uint32_t victim;   /* is being removed with all it holds */
    uint32_t sweep;    /* child that is next to be checked after a folder was read */
    uint32_t sweeping; /* folder */

    bool settled; /* the first walk has ended, or has found no root: watching begins */
    enum tdg__files_gap gap;
    bool logged_truncated, logged_unlisted;
    bool care;                 /* a piece of work is due even without a task */
    tdg__files_queue_t unsure; /* paths that were read before a walk met them */
    bool all_unsure;
    tdg__records_t absent; /* nodes that were not found, by path */
    size_t n_absent;       /* nodes that are marked so */
    unsigned tries;
    dev_t root_dev;
    ino_t root_ino; /* 0: not known */

    /* files_fetch.c */
    tdg__queue_t readings; /* those that somebody waits for */
} tdg__files_t;

/* ---- files.c ------------------------------------------------------------ */

char *tdg__files_uri_of(const tdg__files_t *files, const char *path); /* new, or NULL */
/* The path of a URI that is ours, into TDG__FILES_MAX_PATH bytes. */
bool tdg__files_path_from(const tdg__files_t *files, const char *uri, char *out);
/* Its content may differ; `is_new`: it was not there before. */
void tdg__files_touch(tdg__files_t *files, const char *path, bool is_new);
void tdg__files_schedule(tdg__files_t *files);   /* sets the timer again */
void tdg__files_call_again(tdg__files_t *files); /* sets it while STUCK */

/* Something is left out of the tree. */
void tdg__files_miss(tdg__files_t *files, enum tdg__files_gap gap);

/* Whether changes are found by walking, not by events. */
static inline bool tdg__files_polls(const tdg__files_t *files) {
    return files->poll_ms > 0;
}

/* The tree is complete. */
void tdg__files_armed(tdg__files_t *files);

/* ---- files_events.c ----------------------------------------------------- */

/* Begins to listen, or to poll where that is not possible. */
void tdg__files_events_open(tdg__files_t *files);
void tdg__files_events_close(tdg__files_t *files); /* again, after a walk that ran */

/* There are no more watches to be had (an errno of inotify): polls from now on. */
void tdg__files_fall_back(tdg__files_t *files, int error);

void tdg__files_unwatch_folder(tdg__files_t *files, int wd);
bool tdg__files_was_early(const tdg__files_t *files, int wd);

/* Takes what the kernel has to say up to now. */
void tdg__files_take_events(tdg__files_t *files);

/* The same when the source ends: what is named is not known any more, whatever it looks
 * like. */
void tdg__files_doubt_unread(tdg__files_t *files);

/* ---- files_saves.c ------------------------------------------------------ */

int tdg__files_saves_open(tdg__files_t *files); /* has a handle from now on, always */

/* A file is being written to: it is touched when that has ended, or did not go on for
 * `wait_ms`, or has gone on for long. Its writer has closed it: it is touched now, and so
 * is one that was moved here, which is whole. It was deleted or moved away. */
void tdg__files_written(tdg__files_t *files, const char *path, bool is_new,
                        int64_t wait_ms);
void tdg__files_closed(tdg__files_t *files, const char *path, bool is_new);
void tdg__files_replaced(tdg__files_t *files, const char *path, bool is_new);
void tdg__files_went(tdg__files_t *files, const char *path);

/* A walk has found a file that differs from before. Its folder has events from now on,
 * but a writer may have paused before: it is touched `settle` after its last change, or
 * at once where an event has said that it is whole. */
void tdg__files_found(tdg__files_t *files, const char *path,
                      const tdg__files_report_t *report, bool is_new);

/* A look has met a file without events: a link, or where nothing is watched. Where it
 * `differs` from before, it is touched once it has been the same for `settle`, or has
 * kept changing for long. */
void tdg__files_met(tdg__files_t *files, const char *path,
                    const tdg__files_report_t *report, bool differs, bool is_new);

/* Whether the kernel says when somebody writes to a file: not behind a link. */
bool tdg__files_has_events(const tdg__files_t *files, const char *path);

/* Whether a file may be half of what it will be: a touch follows. */
bool tdg__files_is_written(const tdg__files_t *files, const char *path);

/* What was read looks like a half. Returns whether that is waited for as above. */
bool tdg__files_doubt(tdg__files_t *files, const char *path);

/* What was read of it, undisturbed, is published. */
void tdg__files_published(tdg__files_t *files, const char *path);

/* From the source before, whose tree is ours already: files that were to be touched are
 * not known any more, and writers continue. */
void tdg__files_inherit_saves(tdg__files_t *files, const tdg__files_t *before);

/* ---- files_past.c ------------------------------------------------------- */

bool tdg__files_inherit(tdg__source_t *source, tdg__source_t *from);
void tdg__files_list_again(tdg__source_t *source);

/* ---- files_tasks.c ------------------------------------------------------ */

/* `path` is copied; that of what is taken is the caller's. Returns 0 or TDG_ENOMEM. */
int tdg__files_queue_put(tdg__files_queue_t *queue, const char *path, unsigned flags);
tdg__files_task_t tdg__files_queue_take(tdg__files_queue_t *queue);
void tdg__files_queue_clear(tdg__files_queue_t *queue);

tdg__files_node_t *tdg__files_node_at(tdg__files_t *files,
                                      const char *path); /* or NULL */

/* As tdg__files_look(), also where one is queued already, and does not start anything. */
void tdg__files_queue_look(tdg__files_t *files, const char *path, unsigned flags);

/* What a link leads to may come where nothing is watched. */
void tdg__files_note_dangling(tdg__files_t *files, const char *path);

/* Goes on applying what could not be applied. */
void tdg__files_try_again(tdg__files_t *files);

/* Queues a look at a path, or the reading of a folder; starts when nothing runs. */
void tdg__files_look(tdg__files_t *files, const char *path, unsigned flags);
void tdg__files_look_later(tdg__files_t *files, const char *path);
void tdg__files_look_now(tdg__files_t *files); /* at what was to be looked at later */
bool tdg__files_has_links(const tdg__files_t *files);
void tdg__files_look_at_links(tdg__files_t *files);
void tdg__files_look_at_root(tdg__files_t *files);
void tdg__files_rescan(tdg__files_t *files);                /* all of it, from the root */
void tdg__files_saw(tdg__files_t *files, const char *path); /* it has been read */
bool tdg__files_has(tdg__files_t *files, const char *path); /* such a file, in the tree */

/* ---- files_apply.c ------------------------------------------------------ */

/* Applies a little of what the piece has found. Returns 1: there is more; 0: all is
 * applied; TDG_EAGAIN or TDG_ENOMEM: subscribers of a deleted file cannot be notified
 * now, and the same step has to be taken again. */
int tdg__files_apply_step(tdg__files_t *files);

/* ---- files_absent.c ----------------------------------------------------- */

/* Whether a node that was not found may go now; else it is looked at again. It was found.
 */
bool tdg__files_may_go(tdg__files_t *files, uint32_t id);
void tdg__files_set_found(tdg__files_t *files, tdg__files_node_t *node);

void tdg__files_absent_due(tdg__record_t *record, void *files);
void tdg__files_forget_absent(tdg__files_t *files); /* their marks are gone already */

/* From the source before, whose tree is ours already. */
void tdg__files_inherit_absent(tdg__files_t *files);

/* ---- files_complete.c --------------------------------------------------- */

int tdg__files_complete(tdg__source_t *source, const char *variable, const char *value,
                        json_t *values, size_t *ret_total);

/* ---- files_fetch.c ------------------------------------------------------ */

void tdg__files_fetch(tdg__source_t *source, tdg__fetch_t *fetch);
void tdg__files_cancel(tdg__source_t *source, tdg__fetch_t *fetch);

/* Somebody writes to the file: who reads it may get a half. */
void tdg__files_disturb(tdg__files_t *files, const char *path);

#endif

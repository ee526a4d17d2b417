/* SPDX-License-Identifier: MIT
 *
 * The end of a growing file: its last complete lines. The source follows the path, not
 * the file: if another file replaces it, or it is truncated, that one is read from then
 * on. A file that is missing for less than GONE_MS is being rotated. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "source/common/path_watch.h"
#include "source/common/source.h"
#include "source/log/log_tail.h"

enum { GONE_MS = 1000, GONE_LOOK_MS = 20 };

struct log {
    tdg__source_t source;
    char *path;
    int64_t lines;

    tdg__path_watch_t *watch; /* NULL: nobody watches */
    struct job *job;          /* of the fetch that runs; NULL: none does */
    bool hangs;               /* that one is in the thread pool still */
    uv_timer_t timer;         /* a missing file is looked for again */
    bool logged_missing;

    bool present; /* when it was last read */
    uint64_t gone_since_ms;
    uint64_t device, inode, size; /* then */
    int64_t rotations;
};

/* One reading, in the thread pool. */
struct job {
    uv_work_t work;
    struct log *log;
    tdg__fetch_t *fetch; /* NULL: cancelled */
    tdg__log_tail_t tail;
    int status, error;
};

#define AT(field) offsetof(struct log, field)

static const tdg__option_t options[] = {
    TDG__OPTION(PATH, path, "log", .flags = TDG__OPTION_REQUIRED,
                .example = "/var/log/syslog",
                .help = "The file. It need not exist yet, and may be rotated."),
    TDG__OPTION(NUMBER, lines, "lines", .fallback = "100", .min = 1, .max = 10000,
                .example = "500",
                .help = "How many lines from its end are the content; fewer if they are "
                        "larger than `max-size`."),
    {.name = NULL},
};

static int check(tdg__source_t *source, const tdg__node_t *node,
                 tdg__problems_t *problems) {
    if (source->entry.uri == NULL || strchr(source->entry.uri, '{') == NULL)
        return 0;
    return tdg__node_option_problem(problems, node, "uri",
                                    "a log is one resource: a URI, not a template");
}

/* ---- Reading ------------------------------------------------------------ */

static void on_job(uv_work_t *work) {
    struct job *job = work->data;
    const struct log *log = job->log; /* which it holds; its options stay */

    job->status =
        tdg__log_tail_read(log->path, (uint64_t)log->lines,
                           (size_t)log->source.entry.max_size, &job->tail, &job->error);
}

static int queue(struct job *job);

/* Counts where the file is another one, or shorter, than when it was last read. */
static void note(struct log *log, const tdg__log_tail_t *tail) {
    bool first = log->inode == 0;

    if (!first && (tail->device != log->device || tail->inode != log->inode ||
                   tail->size < log->size))
        log->rotations++;
    log->device = tail->device;
    log->inode = tail->inode;
    log->size = tail->size;
    log->present = true;
    log->gone_since_ms = 0;
}

static void deliver(struct log *log, tdg__fetch_t *fetch, const tdg__log_tail_t *tail) {
    note(log, tail);

    json_t *metadata =
        json_pack("{s:I,s:I,s:I,s:I}", "lines", (json_int_t)tail->lines, "offset",
                  (json_int_t)tail->offset, "inode", (json_int_t)tail->inode, "rotations",
                  (json_int_t)log->rotations);

    if (tail->cut && metadata != NULL)
        json_object_set_new(metadata, "cut", json_true());
    tdg__fetch_done(
        fetch,
        &(tdg__content_t){.data = tail->data != NULL ? tail->data + tail->start : NULL,
                          .len = tail->len,
                          .metadata = metadata,
                          .updated_ms = tail->modified_ms});
}

static void fail(struct log *log, tdg__fetch_t *fetch, int status, int error) {
    switch (status) {
    case TDG_ENOTFOUND:
        log->present = false;
        /* Perhaps a slip in the path. One that was there before is no slip. */
        if (log->inode == 0 && !log->logged_missing)
            tdg__source_log(&log->source, TDG_LOG_NOTICE,
                            "the file does not exist yet; waiting for it");
        log->logged_missing = true;
        tdg__fetch_failed(fetch, status, "the file does not exist");
        break;
    case TDG_EINVAL:
        tdg__fetch_failed(fetch, status, "it is not a regular file");
        break;
    case TDG_EUNREACHABLE:
        tdg__fetch_failed(fetch, status, "the file cannot be read: %s", strerror(error));
        break;
    default:
        tdg__fetch_failed(fetch, status, "%s", tdg_strerror(status));
    }
}

/* A job is over, one way or the other. */
static void job_free(struct job *job) {
    struct log *log = job->log;

    if (log->job == job)
        log->job = NULL;
    tdg__free(job->tail.data);
    tdg__free(job);
    tdg__source_let_go(&log->source);
}

static void end_unqueued(struct job *job) {
    tdg__fetch_t *fetch = job->fetch;
    struct log *log = job->log;

    job_free(job);
    fail(log, fetch, TDG_ENOMEM, 0);
}

static void on_gone_timer(uv_timer_t *timer) {
    struct log *log = timer->data;

    if (log->job != NULL && queue(log->job) < 0)
        end_unqueued(log->job);
}

/* Whether a missing file may be created again in a moment. */
static bool is_rotating(struct log *log) {
    uint64_t now = uv_now(log->source.host.loop);

    if (!log->present)
        return false;
    if (log->gone_since_ms == 0)
        log->gone_since_ms = now;
    return now - log->gone_since_ms < GONE_MS;
}

static void on_job_done(uv_work_t *work, int status) {
    struct job *job = work->data;
    struct log *log = job->log;

    (void)status; /* never cancelled */
    if (job->fetch == NULL)
        log->hangs = false;
    if (job->fetch != NULL && job->status == TDG_ENOTFOUND && is_rotating(log)) {
        uv_timer_start(&log->timer, on_gone_timer, GONE_LOOK_MS, 0);
        return;
    }

    tdg__fetch_t *fetch = job->fetch;

    job->fetch = NULL;
    log->job = log->job == job ? NULL : log->job; /* the end may begin another one */
    if (fetch != NULL && job->status == 0)
        deliver(log, fetch, &job->tail);
    else if (fetch != NULL)
        fail(log, fetch, job->status, job->error);
    job_free(job);
}

static int queue(struct job *job) {
    job->work.data = job;
    return uv_queue_work(job->log->source.host.loop, &job->work, on_job, on_job_done);
}

static void fetch_(tdg__source_t *source, tdg__fetch_t *fetch) {
    struct log *log = (struct log *)source;
    struct job *job;

    /* It has a thread of the pool, which all sources share: it gets no second one. */
    if (log->hangs) {
        tdg__fetch_failed(fetch, TDG_EUNREACHABLE,
                          "an earlier read of the file has not finished yet");
        return;
    }
    job = tdg__fetch_begin(fetch, sizeof(*job));
    if (job == NULL)
        return;
    job->log = log;
    job->fetch = fetch;
    tdg__source_hold(source);
    log->job = job;
    if (queue(job) < 0)
        end_unqueued(job);
}

/* What hangs in the thread pool goes on without the fetch. */
static void cancel(tdg__source_t *source, tdg__fetch_t *fetch) {
    struct log *log = (struct log *)source;
    struct job *job = fetch->state;
    bool waits = uv_is_active((uv_handle_t *)&log->timer) && log->job == job;

    job->fetch = NULL;
    log->job = NULL;
    log->hangs = !waits;
    uv_timer_stop(&log->timer);
    tdg__fetch_failed(fetch, TDG_EUNREACHABLE, "cancelled");
    if (waits)
        job_free(job);
}

/* ---- Watching ----------------------------------------------------------- */

static void on_changed(tdg__source_t *source) {
    tdg__source_touch(source, source->entry.uri);
}

static const tdg__path_watch_ops_t watch_ops = {
    .changed = on_changed,
    .armed = tdg__source_armed,
    .instead = "the file is polled twice a second instead"};

static int watch(tdg__source_t *source, const tdg_target_t *target) {
    struct log *log = (struct log *)source;

    (void)target; /* there is only one */

    int rv = tdg__path_watch_start(source, log->path, NULL, &watch_ops, &log->watch);
    return rv < 0 ? rv : TDG_EAGAIN;
}

static void unwatch(tdg__source_t *source, const tdg_target_t *target) {
    struct log *log = (struct log *)source;

    (void)target;
    if (log->watch != NULL)
        tdg__path_watch_stop(log->watch);
    log->watch = NULL;
}

/* ---- Life --------------------------------------------------------------- */

static int open_(tdg__source_t *source) {
    tdg__source_open_timer(source, &((struct log *)source)->timer);
    return 0;
}

static void close_(tdg__source_t *source) {
    struct log *log = (struct log *)source;

    unwatch(source, NULL);
    tdg__source_close_handle((uv_handle_t *)&log->timer);
}

/* Not tdg__source_log, which is a function. */
const tdg__source_kind_t tdg__source_logs = {
    .name = "log",
    .help = "The last lines of a growing file, also across rotations.",
    .options = options,
    .uri_example = "logs://system",
    .size = sizeof(struct log),
    .check = check,
    .open = open_,
    .close = close_,
    .watch = watch,
    .unwatch = unwatch,
    .fetch = fetch_,
    .cancel = cancel,
};

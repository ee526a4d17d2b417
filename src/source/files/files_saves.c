/* SPDX-License-Identifier: MIT
 *
 * Files that are being saved. A save by `>`, an editor or `cp` is an empty file first,
 * then half of it, then the whole: subscribers are notified of the whole. So a write only
 * begins a record here, and the end of the record touches the file:
 *
 *                 written                      closed
 *     (nothing) ───────────▶ WRITING ─────────────────────────▶ CALM ──▶ (nothing)
 *                             ▲   │ quiet for `settle`, or LONGEST   │
 *                             │   ▼ times that: touched              │ written
 *     (nothing) ◀── quiet ── FORCED ◀──────────────────────────── WRITING
 *                                     written so often that nothing could be published
 *
 * Writes to a file behind a link, or without a watch, cause no events. There a check that
 * finds a changed file counts as a write, one that finds the same file as a close, and a
 * file is checked first when the time of its record is over.
 *
 * Content that is read while a file is WRITING is for its readers only (see `passing` in
 * tdg__content_t), and so is content that was written to while it was read. FORCED is for
 * files whose writer never stops: their content is published as it is. CALM remembers for
 * how long nothing could be published, until something is. */
#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "source/files/files.h"

enum {
    LONGEST = 4,      /* settle times this: the longest wait for a writer */
    SAVES_MAX = 8192, /* records; what is beyond is touched at once */
};

enum state { WRITING, CALM, FORCED };

struct save {
    tdg__record_t record; /* its name is the path */
    tdg__files_t *files;
    enum state state;
    int64_t since_ms; /* a change is not published; 0: none waits */
    int64_t until_ms; /* WRITING: its writer may pause */
    bool is_new;      /* the file was not there before */
    uint64_t stamp;   /* of the last look, where there are no events; 0: none yet */
    bool written;     /* while FORCED */
};

/* ---- Records ------------------------------------------------------------ */

static struct save *find(const tdg__files_t *files, const char *path) {
    return tdg__records_find(&files->saves, path);
}

static struct save *add(tdg__files_t *files, const char *path) {
    struct save *save = files->saves.pool.count < SAVES_MAX
                            ? tdg__records_add(&files->saves, path)
                            : NULL;

    if (save != NULL)
        save->files = files;
    return save;
}

static void drop(struct save *save) {
    tdg__records_remove(&save->files->saves, &save->record);
}

/* ---- Time --------------------------------------------------------------- */

static void enter(struct save *save, enum state state, int64_t wait_ms) {
    save->state = state;
    save->written = false;
    tdg__records_arm(&save->files->saves, &save->record, wait_ms);
}

/* How long the next end may be waited for. */
static int64_t time_left(const struct save *save) {
    const tdg__files_t *files = save->files;

    assert(save->since_ms != 0);
    return save->since_ms + LONGEST * files->settle_ms -
           tdg__source_now_ms(&files->source);
}

/* A writer may pause for `wait_ms`, or as long as was allowed before. */
static void write_on(struct save *save, int64_t wait_ms) {
    int64_t now = tdg__source_now_ms(&save->files->source), left;

    if (save->since_ms == 0)
        save->since_ms = now;
    if (save->until_ms < now + wait_ms)
        save->until_ms = now + wait_ms;
    wait_ms = save->until_ms - now;
    left = time_left(save);
    enter(save, WRITING, wait_ms < left ? wait_ms : left > 0 ? left : 0);
}

/* Touching may end in anything that is done to records. */
static void touch_as(struct save *save, enum state state) {
    tdg__files_t *files = save->files;
    bool is_new = save->is_new;

    save->is_new = false;
    enter(save, state, files->settle_ms);
    tdg__files_touch(files, save->record.name, is_new);
}

bool tdg__files_has_events(const tdg__files_t *files, const char *path) {
    uint32_t id = tdg__files_find(&files->tree, path);

    return !tdg__files_polls(files) &&
           (id == 0 ||
            (tdg__files_node(&files->tree, id)->flags & TDG__NODE_IS_LINK) == 0);
}

/* The look says whether its writer has paused; where none comes, this is asked again. */
static void look_first(struct save *save) {
    int64_t left = time_left(save), settle = save->files->settle_ms;

    enter(save, WRITING, settle < left ? settle : left);
    tdg__files_look(save->files, save->record.name, TDG__TASK_TOUCH);
}

static void forget(struct save *save) {
    tdg__files_t *files = save->files;

    if (save->state == FORCED && !tdg__files_has_events(files, save->record.name))
        tdg__files_look(files, save->record.name, TDG__TASK_TOUCH);
    drop(save);
}

static void on_due(tdg__record_t *record, void *user) {
    struct save *save = (struct save *)record;
    tdg__files_t *files = user;

    if (save->state == WRITING && time_left(save) > 0 &&
        !tdg__files_has_events(files, save->record.name)) {
        look_first(save);
    } else if (save->state == WRITING) {
        touch_as(save, FORCED);
    } else if (save->state == FORCED && save->written) {
        save->since_ms = 0;
        write_on(save, files->settle_ms);
    } else {
        forget(save);
    }
}

/* ---- What happens to a file --------------------------------------------- */

/* Begins a record, or goes on with one. Returns false where there is nothing to wait for.
 */
static bool begin(tdg__files_t *files, const char *path, bool is_new, int64_t wait_ms) {
    struct save *save = find(files, path);

    if (files->settle_ms == 0 || !tdg__source_is_watched(&files->source) ||
        (save != NULL && save->state == FORCED))
        return false;
    if (save == NULL)
        save = add(files, path);
    if (save == NULL)
        return false;
    save->is_new = save->is_new || is_new;
    write_on(save, wait_ms);
    return true;
}

void tdg__files_written(tdg__files_t *files, const char *path, bool is_new,
                        int64_t wait_ms) {
    struct save *save = find(files, path);

    if (save != NULL && save->state == FORCED) {
        save->written = true;
        return;
    }
    if (files->settle_ms > 0)
        tdg__files_disturb(files, path);
    if (!begin(files, path, is_new, wait_ms))
        tdg__files_touch(files, path, is_new);
}

/* How long a file must stay the same from now on. Its age is believed as far as it is
 * that of a file in the making: the clock of another machine may be wrong. */
static int64_t calm_ms(const tdg__files_t *files, const tdg__files_report_t *report) {
    if (!tdg__files_polls(files) && report->age_ms >= files->settle_ms)
        return 0;
    return report->age_ms > 0 && report->age_ms < files->settle_ms
               ? files->settle_ms - report->age_ms
               : files->settle_ms;
}

void tdg__files_found(tdg__files_t *files, const char *path,
                      const tdg__files_report_t *report, bool is_new) {
    const struct save *save = find(files, path);
    int64_t wait_ms = calm_ms(files, report);

    if (wait_ms > 0 && (save == NULL || save->state != CALM))
        tdg__files_written(files, path, is_new, wait_ms);
    else
        tdg__files_touch(files, path, is_new);
}

static void meet_writing(struct save *save, const tdg__files_report_t *report) {
    if (save->stamp != report->stamp) {
        save->stamp = report->stamp;
        tdg__files_disturb(save->files, save->record.name);
        write_on(save, calm_ms(save->files, report));
    } else if (save->until_ms <= tdg__source_now_ms(&save->files->source)) {
        touch_as(save, time_left(save) > 0 ? CALM : FORCED);
    }
}

void tdg__files_met(tdg__files_t *files, const char *path,
                    const tdg__files_report_t *report, bool differs, bool is_new) {
    struct save *save = find(files, path);
    int64_t wait_ms = calm_ms(files, report);

    if (save != NULL && save->state == WRITING) {
        meet_writing(save, report);
    } else if (save != NULL && save->state == FORCED) {
        save->written = save->written || save->stamp != report->stamp;
        save->stamp = report->stamp;
    } else if (differs && wait_ms == 0) {
        tdg__files_touch(files, path, is_new);
    } else if (differs) {
        tdg__files_written(files, path, is_new, wait_ms);
        save = find(files, path);
        if (save != NULL)
            save->stamp = report->stamp;
    }
}

bool tdg__files_doubt(tdg__files_t *files, const char *path) {
    return begin(files, path, false, files->settle_ms);
}

void tdg__files_closed(tdg__files_t *files, const char *path, bool is_new) {
    struct save *save = find(files, path);

    if (save == NULL) {
        tdg__files_touch(files, path, is_new);
        return;
    }
    if (save->state == FORCED) {
        save->written = false;
        tdg__files_touch(files, path, is_new);
    } else {
        touch_as(save, time_left(save) > 0 ? CALM : FORCED);
    }
}

/* The record is for a walk that finds the file, too, and need not wait. */
void tdg__files_replaced(tdg__files_t *files, const char *path, bool is_new) {
    bool waits = files->settle_ms > 0 && tdg__source_is_watched(&files->source);
    struct save *save = find(files, path);

    if (save == NULL && waits)
        save = add(files, path);
    if (save == NULL || save->state == FORCED) {
        tdg__files_touch(files, path, is_new);
        return;
    }
    if (save->since_ms == 0)
        save->since_ms = tdg__source_now_ms(&files->source);
    save->is_new = save->is_new || is_new;
    touch_as(save, CALM);
}

void tdg__files_went(tdg__files_t *files, const char *path) {
    struct save *save = find(files, path);

    if (save != NULL && save->state == WRITING)
        enter(save, CALM, files->settle_ms);
}

bool tdg__files_is_written(const tdg__files_t *files, const char *path) {
    const struct save *save = find(files, path);

    return save != NULL && save->state == WRITING;
}

void tdg__files_published(tdg__files_t *files, const char *path) {
    struct save *save = find(files, path);

    if (save != NULL && save->state == CALM)
        drop(save);
}

/* Without memory for it, half of the file may be published, and the whole later. */
static void go_on(tdg__files_t *files, const struct save *before) {
    struct save *save = files->settle_ms > 0 ? add(files, before->record.name) : NULL;

    if (save == NULL)
        return;
    save->since_ms = before->since_ms;
    save->stamp = before->stamp;
    save->is_new = before->is_new;
    write_on(save, files->settle_ms);
}

void tdg__files_inherit_saves(tdg__files_t *files, const tdg__files_t *before) {
    const struct save *save;

    for (uint32_t at = 0; (save = tdg__records_next(&before->saves, &at)) != NULL;) {
        uint32_t node = tdg__files_find(&files->tree, save->record.name);
        if (node != 0)
            tdg__files_forget_fingerprint(tdg__files_node(&files->tree, node));
        if (save->state == WRITING)
            go_on(files, save);
    }
}

int tdg__files_saves_open(tdg__files_t *files) {
    return tdg__source_open_records(&files->source, &files->saves, sizeof(struct save),
                                    on_due);
}

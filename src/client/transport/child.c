/* SPDX-License-Identifier: MIT
 *
 * net/process.h with lines. The output of a program usually ends a moment before its exit
 * is known; we wait for that, since the exit status is more informative. */
#include "client/transport/child.h"

#include <stdio.h>
#include <string.h>

#include <tidings/error.h>

#include "base/alloc.h"
#include "base/text.h"
#include "net/process.h"

enum {
    SETTLE_MS = 250,      /* between the end of the output and that of the program */
    KEPT_ROOM = 64 << 10, /* more memory than this is given back after a long line */
    WHY_BYTES = 512,
};

struct tdg__child {
    tdg__child_calls_t calls;
    void *user;
    tdg__process_t *process; /* NULL: it is gone */
    uv_timer_t timer;
    tdg__text_t line; /* so far; one byte more than allowed, for "\r" */
    bool skipping;    /* the rest of a line that was too long */
    bool told;        /* that it has ended */
    bool stopping;
    char what[300]; /* its name and folder, for messages */
};

/* ---- What it writes ----------------------------------------------------- */

static bool is_over(const tdg__child_t *child) {
    return child->stopping || child->told;
}

static void tell_ended(tdg__child_t *child, const char *why) {
    if (is_over(child))
        return;
    child->told = true;
    uv_timer_stop(&child->timer);
    child->calls.ended(child->user, why);
}

static void skip(tdg__child_t *child) {
    child->skipping = true;
    tdg__text_done(&child->line);
    child->calls.line(child->user, NULL, 0);
}

static void add(tdg__child_t *child, const char *data, size_t len) {
    if (!child->skipping) {
        tdg__text_add(&child->line, data, len);
        if (child->line.error == 0)
            return;
        if (child->line.error == TDG_ENOMEM) { /* what comes later makes no sense alone */
            tell_ended(child, tdg_strerror(TDG_ENOMEM));
            return;
        }
        skip(child);
    }
    if (child->process != NULL)
        tdg__process_wasted(child->process, len);
}

static void end_line(tdg__child_t *child) {
    tdg__text_t *line = &child->line;

    if (!child->skipping && line->len > 0) {
        if (line->data[line->len - 1] == '\r')
            line->data[--line->len] = '\0';
        if (line->len == line->max)
            skip(child);
        else if (line->len > 0)
            child->calls.line(child->user, line->data, line->len);
    }
    child->skipping = false;
    if (line->room > KEPT_ROOM)
        tdg__text_done(line);
    tdg__text_clear(line);
}

static void on_output(void *user, const char *data, size_t len) {
    tdg__child_t *child = user;
    const char *end = data + len, *newline;

    while (data < end && !is_over(child)) {
        newline = memchr(data, '\n', (size_t)(end - data));
        add(child, data, (size_t)((newline != NULL ? newline : end) - data));
        if (newline == NULL || is_over(child))
            return;
        end_line(child);
        data = newline + 1;
    }
}

/* Cut where a character began; one that is not UTF-8 is reported as far as it is ASCII.
 */
static void on_said(void *user, const char *line) {
    tdg__child_t *child = user;
    char copy[TDG__CHILD_ERROR_LINE + 1];
    size_t len = strlen(line), cut = 0;

    while (cut < 4 && cut < len && !tdg__utf8_is_valid(line, len - cut))
        cut++;
    memcpy(copy, line, len);
    if (cut == 4 || cut == len) {
        for (size_t i = cut = 0; i < len; i++)
            copy[i] = (char)((unsigned char)line[i] < 0x80 ? line[i] : '?');
    }
    copy[len - cut] = '\0';
    child->calls.said(child->user, copy);
}

/* ---- The end ------------------------------------------------------------ */

static void describe(const tdg__child_t *child, const tdg__process_end_t *end,
                     char why[WHY_BYTES]) {
    if (end->error != 0)
        snprintf(why, WHY_BYTES, "%s cannot be started: %s", child->what,
                 uv_strerror(end->error));
    else if (end->signal != 0)
        snprintf(why, WHY_BYTES, "%s was ended by signal %d", child->what, end->signal);
    else
        snprintf(why, WHY_BYTES, "%s has ended with exit status %d", child->what,
                 end->exit_status);
}

static void on_settled(uv_timer_t *timer) {
    tdg__child_t *child = timer->data;
    tdg__process_end_t end;
    char why[WHY_BYTES];

    if (child->process != NULL && tdg__process_exited(child->process, &end))
        describe(child, &end, why);
    else
        snprintf(why, sizeof(why), "%s has closed its standard output", child->what);
    tell_ended(child, why);
}

static void on_output_ended(void *user) {
    tdg__child_t *child = user;

    if (!is_over(child))
        end_line(child); /* one whose end is missing */
    if (!is_over(child))
        uv_timer_start(&child->timer, on_settled, SETTLE_MS, 0);
}

static void on_gone(uv_handle_t *handle) {
    tdg__child_t *child = handle->data;

    child->calls.gone(child->user);
    tdg__text_done(&child->line);
    tdg__free(child);
}

static void on_process_ended(void *user, const tdg__process_end_t *end) {
    tdg__child_t *child = user;
    char why[WHY_BYTES];

    child->process = NULL;
    if (child->stopping) {
        uv_close((uv_handle_t *)&child->timer, on_gone);
        return;
    }
    describe(child, end, why);
    tell_ended(child, why);
}

void tdg__child_stop(tdg__child_t *child) {
    if (child->stopping)
        return;
    child->stopping = true;
    uv_timer_stop(&child->timer);
    if (child->process != NULL)
        tdg__process_finish(child->process);
    else
        uv_close((uv_handle_t *)&child->timer, on_gone);
}

/* ---- The beginning ------------------------------------------------------ */

static const tdg__process_ops_t ops = {on_output, on_said, on_process_ended,
                                       on_output_ended};

int tdg__child_start(uv_loop_t *loop, const tdg__child_opts_t *opts,
                     const tdg__child_calls_t *calls, void *user, tdg__child_t **ret) {
    tdg__child_t *child = tdg__calloc(1, sizeof(*child));
    tdg__process_opts_t how = {
        .argv = (char *const *)(uintptr_t)opts->argv,
        .env = (char *const *)(uintptr_t)opts->env,
        .cwd = opts->cwd,
        .max_input = TDG__CHILD_MAX_QUEUED,
        .line_bytes = TDG__CHILD_ERROR_LINE,
        .grace_ms = opts->grace_ms,
        .ops = &ops,
        .user = child,
    };

    if (child == NULL)
        return TDG_ENOMEM;
    child->calls = *calls;
    child->user = user;
    snprintf(child->what, sizeof(child->what), "%.100s%s%.150s", opts->argv[0],
             opts->cwd != NULL ? " in " : "", opts->cwd != NULL ? opts->cwd : "");
    tdg__text_init(&child->line, opts->max_line_bytes + 1);

    if (tdg__process_start(loop, &how, &child->process) < 0) {
        tdg__free(child);
        return TDG_ENOMEM;
    }
    uv_timer_init(loop, &child->timer);
    child->timer.data = child;
    *ret = child;
    return 0;
}

int tdg__child_send(tdg__child_t *child, const char *line, size_t len) {
    if (child->process == NULL || child->stopping)
        return TDG_EENDED;
    return tdg__process_write_line(child->process, line, len);
}

int tdg__child_pid(const tdg__child_t *child) {
    return child->process != NULL ? tdg__process_pid(child->process) : 0;
}

/* SPDX-License-Identifier: MIT
 *
 * The public function of libtidings-sources: tdg__serve_…, with the problems of a config
 * as lines of the log. */
#include <tidings/sources.h>

#include <stdio.h>

#include "base/sized.h"
#include "serve/serve.h"

static void report(const tdg_sources_opts_t *opts, const char *file,
                   const tdg__problem_t *problem) {
    char line[TDG_LOG_MAX + 1];

    if (problem->line > 0)
        snprintf(line, sizeof(line), "%s:%u:%u: %s", file, problem->line, problem->column,
                 problem->text);
    else
        snprintf(line, sizeof(line), "%s: %s", file, problem->text);
    opts->log(opts->user, TDG_LOG_ERROR, line);
}

static void on_problems(void *user, tdg__problems_t *problems) {
    const tdg_sources_opts_t *opts = user;

    if (opts->log == NULL)
        return;
    tdg__problems_sort(problems);
    for (size_t i = 0; i < problems->count; i++)
        report(opts, problems->file, &problems->list[i]);
}

static void on_log(void *user, tdg_log_level_t level, const char *message) {
    const tdg_sources_opts_t *opts = user;

    if (opts->log != NULL)
        opts->log(opts->user, level, message);
}

static void on_started(void *user, tdg__serve_t *serve) {
    const tdg_sources_opts_t *opts = user;

    if (opts->started != NULL)
        opts->started(opts->user, tdg__serve_server(serve));
}

static void on_reloaded(void *user, tdg__serve_t *serve) {
    (void)user, (void)serve;
}

int tdg_sources_serve_sized(const tdg_sources_opts_t *given, size_t size) {
    tdg_sources_opts_t opts;
    tdg__serve_t *serve;

    if (given == NULL)
        return TDG_EINVAL;

    int rv = tdg__sized_read(&opts, sizeof(opts), given, size);
    if (rv < 0)
        return rv;

    const tdg__serve_opts_t serve_opts = {
        .config_file = opts.config_file,
        .paths = opts.paths,
        .listen = opts.listen,
        .stdio = opts.stdio,
        .log = on_log,
        .problems = on_problems,
        .started = on_started,
        .reloaded = on_reloaded,
        .user = &opts,
    };

    rv = tdg__serve_create(&serve_opts, &serve);
    if (rv < 0)
        return rv;
    rv = tdg__serve_run(serve);
    tdg__serve_destroy(serve);
    return rv;
}

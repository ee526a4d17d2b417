/* SPDX-License-Identifier: MIT
 *
 * `tidings check`: checks a config file, and shows what it would serve. */
#include "serve/check.h"

#include <string.h>

#include <tidings/tidings.h>

#include "base/alloc.h"
#include "command.h"
#include "serve/serve.h"

typedef struct check_options {
    bool json, no_env;
} check_options_t;

static const cli_option_t options[] = {
    CLI_FLAG_OPTION(check_options_t, no_env, "no-env",
                    "accept environment variables that are not set, for\n"
                    "machines without the secrets, such as CI"),
    CLI_FLAG_OPTION(check_options_t, json, "json",
                    "print one JSON object instead, problems included"),
    CLI_END,
};

static int make_rows(check_report_t *report, const tdg__live_entry_t *entries,
                     size_t count) {
    if (count == 0)
        return 0;
    report->rows = tdg__calloc(count, sizeof(*report->rows));
    if (report->rows == NULL)
        return TDG_ENOMEM;
    for (size_t i = 0; i < count; i++) {
        int rv;

        report->row_count++;
        rv = check_row_init(&report->rows[i], entries[i].source,
                            report->config->entries[i], report->problems);
        if (rv < 0)
            return rv;
    }
    return 0;
}

/* Everything that is wrong is found, in the file as a whole and in each entry. */
static int examine(const char *path, check_report_t *report, tdg__config_t **ret) {
    tdg__live_entry_t *entries;
    size_t count;
    int rv = tdg__serve_load(path, NULL, report->problems, ret, &entries, &count);

    if (rv < 0)
        return rv;
    report->config = *ret;
    rv = make_rows(report, entries, count);
    tdg__live_free_entries(entries, count);
    return rv;
}

static int show(const check_report_t *report, bool json) {
    size_t count = tdg__problems_total(report->problems);
    const char *file = report->problems->file;

    if (json)
        return check_print_json(report);
    if (count == 0)
        return check_print_table(report);
    cli_print_problems(report->problems, stderr);
    cli_error("check: %zu problem%s in %s", count, count == 1 ? "" : "s", file);
    return 0;
}

static int run_check(const cli_command_t *self, int argc, char **argv) {
    check_options_t opts = {.json = false};
    const char *path = CLI_CONFIG_FILE;
    tdg__problems_t problems;
    check_report_t report = {.problems = &problems};
    tdg__config_t *config = NULL;
    int operands, exit_code, rv;

    if (!cli_parse(self, argc, argv, &opts, &operands, &exit_code))
        return exit_code;
    if (operands > 0)
        path = argv[0];

    tdg__problems_init(&problems, strcmp(path, "-") == 0 ? "standard input" : path);
    problems.no_env = opts.no_env;
    rv = examine(path, &report, &config);
    if (rv != TDG_ENOMEM && show(&report, opts.json) < 0)
        rv = TDG_ENOMEM;
    if (rv == TDG_ENOMEM)
        cli_error("check: %s", tdg_strerror(rv));

    for (size_t i = 0; i < report.row_count; i++)
        check_row_done(&report.rows[i]);
    tdg__free(report.rows);
    tdg__config_destroy(config);
    tdg__problems_done(&problems);
    return rv < 0 ? CLI_FAILED : CLI_OK;
}

const cli_command_t cli_check = {
    .name = "check",
    .summary = "check a config file, and show what it would serve",
    .operands = "[FILE]",
    .max_operands = 1,
    .description =
        "Checks a config file (default " CLI_CONFIG_FILE
        "; - is standard input). Prints every\n"
        "problem on standard error, as file:line:column: text, and exits with 1. If "
        "there\n"
        "is none, lists the resources that the config would serve, and the options that\n"
        "differ from their defaults. It opens nothing that the config names.",
    .options = options,
    .run = run_check,
};

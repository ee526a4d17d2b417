/* SPDX-License-Identifier: MIT
 *
 * `tidings demo`: shows the timing rules, to help choose between them. */
#include "demo/demo.h"

#include <langinfo.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include <tidings/tidings.h>

#include "command.h"
#include "terminal.h"

enum {
    DEFAULT_DEBOUNCE_MS = 500,
    DEFAULT_LONGEST_MS = 800, /* short enough that the default pattern shows it */
    DEFAULT_WIDTH = 80,
    MAX_WIDTH = 400,
    MAX_CHANGES = 100000,
};

#define FLAG(...) CLI_FLAG_OPTION(demo_options_t, __VA_ARGS__)
#define NUMBER(...) CLI_NUMBER_OPTION(demo_options_t, __VA_ARGS__)
#define CHOICE(...) CLI_CHOICE_OPTION(demo_options_t, __VA_ARGS__)

static const cli_option_t options[] = {
    CHOICE(pattern, "pattern", "NAME", demo_patterns,
           "when the changes happen: steady (the default), burst (all\n"
           "at the start), bursts (four), trickle (few) or typing"),
    NUMBER(changes, "changes", "N", 1, MAX_CHANGES,
           "number of changes (default 100; trickle 8, typing 60)"),
    NUMBER(duration_ms, "duration", "MS", 1, TDG__MAX_WINDOW_MS,
           "time in which they happen (default 1000; bursts 2000,\n"
           "trickle 4000, typing 9000)"),
    NUMBER(batch_ms, "batch", "MS", 0, TDG__MAX_WINDOW_MS,
           "window of batch (default 100)"),
    NUMBER(debounce_ms, "debounce", "MS", 0, TDG__MAX_WINDOW_MS,
           "time without a change that debounce waits for (default 500)"),
    NUMBER(longest_ms, "longest", "MS", 0, TDG__MAX_WINDOW_MS,
           "longest wait of debounce (default 800, or twice the\n"
           "--debounce that is given); 0: ten times --debounce"),
    NUMBER(throttle_ms, "throttle", "MS", 0, TDG__MAX_WINDOW_MS,
           "window of throttle (default 200)"),
    NUMBER(rate_limit_ms, "rate-limit", "MS", 0, TDG__MAX_WINDOW_MS,
           "rate limit of the second group (default 1000); 0: no\n"
           "second group"),
    NUMBER(width, "width", "COLUMNS", DEMO_MIN_WIDTH, MAX_WIDTH,
           "width of the drawing (default: the terminal's, else 80)"),
    CHOICE(color, "color", "WHEN", cli_colors,
           "auto (the default: on a terminal, unless NO_COLOR is\n"
           "set), always or never"),
    FLAG(ascii, "ascii", "draw without UTF-8 (the default if the locale is not UTF-8)"),
    FLAG(live, "live", "play it in real time; needs a terminal"),
    FLAG(json, "json", "print one JSON object per subscriber and line instead"),
    CLI_END,
};

/* Fills in what depends on other options.
 * Returns CLI_USAGE when two do not go together. */
static int complete_options(demo_options_t *opts) {
    if (opts->longest_ms < 0)
        opts->longest_ms =
            opts->debounce_ms < 0 ? DEFAULT_LONGEST_MS : 2 * opts->debounce_ms;
    if (opts->debounce_ms < 0)
        opts->debounce_ms = DEFAULT_DEBOUNCE_MS;
    if (opts->longest_ms == 0)
        opts->longest_ms = 10 * opts->debounce_ms;
    if (opts->longest_ms > TDG__MAX_WINDOW_MS)
        opts->longest_ms = TDG__MAX_WINDOW_MS;

    if (opts->longest_ms < opts->debounce_ms)
        return cli_usage_error(
            "demo: --longest must be at least --debounce, which is %ld; %ld is less",
            opts->debounce_ms, opts->longest_ms);
    if (opts->live && opts->json)
        return cli_usage_error("demo: --live and --json cannot be combined");
    if (opts->live && !isatty(STDOUT_FILENO))
        return cli_usage_error(
            "demo: --live needs a terminal; without it, the whole drawing is printed at "
            "once");
    return CLI_OK;
}

static int wanted_width(long width) {
    int columns = DEFAULT_WIDTH, lines;

    if (width >= 0)
        return (int)width;
    cli_terminal_size(STDOUT_FILENO, &columns, &lines);
    if (columns < DEMO_MIN_WIDTH)
        return DEMO_MIN_WIDTH;
    return columns < MAX_WIDTH ? columns : MAX_WIDTH;
}

/* What did not arrive is an error of the engine, and reported. */
static int judge(const demo_t *demo) {
    int exit_code = CLI_OK;

    for (size_t i = 0; i < demo->row_count; i++) {
        const demo_row_t *row = &demo->rows[i];

        if (demo_row_complete(demo, row))
            continue;
        exit_code = cli_error(
            "demo: %s, rate limit %u ms: %s", row->mode, (unsigned)row->rate_limit_ms,
            row->wrong ? "a notification did not count the changes that it includes"
                       : "the last change did not arrive");
    }
    return exit_code;
}

/* Whether the whole picture would scroll out of the terminal at its top. */
static bool is_short_terminal(void) {
    enum { WHOLE_PICTURE = 42 };
    int columns = 0, lines = WHOLE_PICTURE;

    cli_terminal_size(STDOUT_FILENO, &columns, &lines);
    return lines < WHOLE_PICTURE;
}

static int show(const demo_t *demo, const demo_options_t *opts) {
    demo_pen_t pen = {
        .out = stdout,
        .width = wanted_width(opts->width),
        .color = cli_wants_color(opts->color, STDOUT_FILENO),
        .utf8 = !opts->ascii && strcmp(nl_langinfo(CODESET), "UTF-8") == 0,
    };

    if (opts->json) {
        int rv = demo_print_json(demo, stdout);

        return rv < 0 ? cli_error("demo: %s", tdg_strerror(rv)) : judge(demo);
    }

    if (opts->live) {
        int number = demo_play(demo, &pen);

        if (number != 0)
            raise(number); /* end the way the signal wanted it */
    }
    pen.live = pen.compact = is_short_terminal();
    demo_draw(demo, &pen, demo->end_ms);
    demo_draw_verdict(demo, &pen);
    if (pen.compact)
        puts("A taller window, or `tidings demo | less`, shows more.");
    return judge(demo);
}

static int run_demo(const cli_command_t *self, int argc, char **argv) {
    demo_options_t opts = {
        .changes = -1,
        .duration_ms = -1,
        .batch_ms = 100,
        .debounce_ms = -1,
        .longest_ms = -1,
        .throttle_ms = 200,
        .rate_limit_ms = 1000,
        .width = -1,
    };
    demo_t demo;
    int rv, exit_code;

    if (!cli_parse(self, argc, argv, &opts, NULL, &exit_code))
        return exit_code;
    if (complete_options(&opts) != CLI_OK)
        return CLI_USAGE;

    rv = demo_run(&demo, &opts);
    exit_code = rv < 0 ? cli_error("demo: %s", tdg_strerror(rv)) : show(&demo, &opts);
    demo_done(&demo);
    return exit_code;
}

const cli_command_t cli_demo = {
    .name = "demo",
    .summary = "show when subscribers are notified, under each timing rule",
    .description =
        "Runs the engine with simulated time, and draws when subscribers are notified "
        "of\n"
        "the same changes: one time line for each timing rule (immediate, batch, "
        "debounce\n"
        "and throttle), without and with a rate limit. The same options always give the\n"
        "same result.",
    .options = options,
    .run = run_demo,
};

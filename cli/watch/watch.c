/* SPDX-License-Identifier: MIT
 *
 * `tidings watch`: shows changes at a server, and runs commands on them. One loop waits
 * for signals, events, the thread that queries the server, and commands; only writes to
 * standard output block it. */
#include "watch/watch.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/filter.h"
#include "base/json.h"
#include "client/api/client.h"
#include "terminal.h"

enum {
    EVENTS_PER_TURN = 100, /* before the others have theirs */
    PATIENCE_MS = 1000,    /* of --patient, before it says that it waits */
    GRACE_MS = 2000,       /* for commands to end by themselves when we leave */
    DROPPED_EVERY_MS = 1000,
    DEFAULT_JOBS = 4,
    MAX_FILTER = 64 << 10,
};

#define FLAG(...) CLI_FLAG_OPTION(watch_opts_t, __VA_ARGS__)
#define NUMBER(...) CLI_NUMBER_OPTION(watch_opts_t, __VA_ARGS__)
#define STRING(...) CLI_STRING_OPTION(watch_opts_t, __VA_ARGS__)
#define TIME(field, name, least, help)                                                   \
    CLI_TIME_OPTION(watch_opts_t, field, name, "TIME", least, CLI_MAX_TIME_MS, help)

static const cli_option_t options[] = {
    CLI_TARGET_OPTIONS(watch_opts_t, target),
    FLAG(read, "read", "print the new content under each line"),
    FLAG(diff, "diff", "print the difference in content, as diff -u does"),
    STRING(exec, "exec", "COMMAND",
           "run COMMAND with /bin/sh -c for each change: the content\n"
           "is its standard input, TIDINGS_URI and other variables\n"
           "describe the change. One runs at a time per URI; changes\n"
           "meanwhile are merged into one run"),
    TIME(exec_timeout_ms, "exec-timeout", 1, "time limit for a command [none]"),
    NUMBER(parallel, "parallel", "N", 1, WATCH_MAX_COMMANDS,
           "commands for one URI at a time, at most [1]"),
    NUMBER(jobs, "jobs", "N", 1, WATCH_MAX_COMMANDS,
           "commands in total at a time, at most [4]"),
    FLAG(once, "once", "exit after the first change"),
    TIME(timeout_ms, "timeout", 1, "exit after this time, with exit code 4 [never]"),
    STRING(filter, "filter", "JSON",
           "show only changes that match, such as\n"
           "'{\"metadata.change_type\": {\"ne\": \"deleted\"}}'"),
    TIME(debounce_ms, "debounce", 0,
         "show a change after this time without a further one"),
    TIME(batch_ms, "batch", 0, "merge the changes within this time into one"),
    TIME(rate_limit_ms, "rate-limit", 0, "show each resource at most once in this time"),
    TIME(since_ms, "since", 1, "also show changes within this time before the start"),
    TIME(poll_ms, "poll", 10,
         "read a resource after this time without an update, and\n"
         "show it if it changed; needed for servers without\n"
         "subscriptions"),
    FLAG(patient, "patient",
         "wait for a server that is unreachable, or that lists\n"
         "neither resources nor templates yet"),
    FLAG(no_retry, "no-retry",
         "exit with code 3 when the connection is lost, with code 1\n"
         "when a subscription is refused temporarily"),
    FLAG(json, "json", "print one JSON object per line"),
    CLI_CHOICE_OPTION(watch_opts_t, color, "color", "WHEN", cli_colors,
                      "auto (the default: on a terminal, unless NO_COLOR is\n"
                      "set), always or never"),
    CLI_END,
};

/* ---- The command line --------------------------------------------------- */

static int read_filter(watch_t *watch) {
    tdg__json_limits_t limits = {MAX_FILTER, 64, 10000};
    tdg__filter_limits_t filter_limits = {MAX_FILTER, TDG__FILTER_MAX_DEPTH};
    const char *text = watch->opts.filter;
    tdg__filter_t *filter = NULL;
    tdg__parse_error_t error;

    if (text == NULL)
        return CLI_OK;
    int rv = tdg__json_parse(text, strlen(text), &limits, &watch->filter, &error);
    if (rv < 0)
        return cli_usage_error("watch: --filter is not JSON: %s (at byte %zu)",
                               rv == TDG_ENOMEM ? tdg_strerror(rv) : error.text,
                               error.at);
    rv = tdg__filter_parse(watch->filter, &filter_limits, &filter, &error);
    tdg__filter_destroy(filter);
    if (rv < 0)
        cli_error("watch: --filter: %s",
                  rv == TDG_ENOMEM ? tdg_strerror(rv) : error.text);
    return rv < 0 ? CLI_USAGE : CLI_OK;
}

static int check_options(watch_t *watch) {
    watch_opts_t *opts = &watch->opts;

    if (opts->exec == NULL &&
        (opts->parallel > 0 || opts->jobs > 0 || opts->exec_timeout_ms > 0))
        return cli_usage_error(
            "watch: --parallel, --jobs and --exec-timeout require --exec");
    if (opts->exec != NULL && opts->exec[0] == '\0')
        return cli_usage_error("watch: --exec needs a command");
    if (opts->debounce_ms >= 0 && opts->batch_ms >= 0)
        return cli_usage_error("watch: --debounce and --batch cannot be combined");
    if (opts->jobs > 0 && opts->parallel > opts->jobs)
        return cli_usage_error(
            "watch: --parallel cannot be more than --jobs, which is %ld", opts->jobs);
    return read_filter(watch);
}

/* Fills in what depends on other options. */
static void complete_options(watch_opts_t *opts) {
    if (opts->parallel == 0)
        opts->parallel = 1;
    if (opts->jobs == 0)
        opts->jobs = opts->parallel > DEFAULT_JOBS ? opts->parallel : DEFAULT_JOBS;
}

/* ---- Leaving ------------------------------------------------------------ */

static void leave(watch_t *watch, int exit_code) {
    if (!watch->leaving)
        watch->exit_code = exit_code;
    watch->leaving = true;
}

/* A script that waits for a change must not take the end for one; without --once, Ctrl-C
 * is the usual end. */
static void leave_by_signal(watch_t *watch, int number) {
    bool usual = watch->client != NULL && !watch->opts.once;

    if (watch->exec.queue.running > 0 && !watch->exec.hurry)
        watch_say(watch, "waiting for %zu command%s; a second signal ends %s",
                  watch->exec.queue.running, watch->exec.queue.running == 1 ? "" : "s",
                  watch->exec.queue.running == 1 ? "it" : "them");
    if (watch->waits_for_command)
        watch->exit_code = 128 + number; /* whatever becomes of the command */
    watch->waits_for_command = false;
    watch_exec_leave(watch, watch->exec.hurry ? 0 : GRACE_MS);
    leave(watch, usual ? CLI_OK : 128 + number);
}

static void leave_by_time(watch_t *watch) {
    watch_say(watch, "--timeout has expired%s",
              watch->client == NULL ? ", and nothing is watched yet; --verbose shows why"
              : watch->waits_for_command ? ", and the command has not ended"
              : watch->opts.once         ? ", and nothing has changed"
                                         : "");
    watch->waits_for_command = false;
    watch->leaving = true;
    watch->exit_code = CLI_TIMEOUT;
    watch_exec_leave(watch, GRACE_MS);
}

static void take_signals(watch_t *watch) {
    char numbers[16];
    ssize_t len = read(watch->signals[0], numbers, sizeof(numbers));

    for (ssize_t i = 0; i < len; i++)
        leave_by_signal(watch, numbers[i]);
}

/* ---- What happened ------------------------------------------------------ */

static bool runs_command(const watch_t *watch, const watch_item_t *item) {
    return watch->opts.exec != NULL && item->kind <= WATCH_UNLISTED && !watch->leaving;
}

/* Nothing more to come: every subscription is lost, or the client has given up. */
static void notice_end(watch_t *watch, const watch_item_t *item) {
    if (item->kind == WATCH_DOWN) {
        watch->down_since_ms = cli_now_ms();
        if (watch->opts.no_retry)
            leave(watch, CLI_UNREACHABLE); /* the client reopens a single stream anyway */
    } else if (item->kind == WATCH_CLOSED)
        leave(watch, item->event->code == TDG_EREFUSED ? CLI_DENIED : CLI_UNREACHABLE);
    else if (item->kind == WATCH_LOST && ++watch->lost == watch->uri_count)
        leave(watch, CLI_NOT_FOUND);
}

/* What the client could not keep, because more waits for commands than there is room for,
 * or memory is out. Nobody knows any more which resources it was about. */
static bool has_dropped(const watch_t *watch) {
    return watch->client != NULL && tdg__client_lost(watch->client) > watch->dropped;
}

static void report_dropped(watch_t *watch, bool at_once) {
    int64_t now_ms = cli_now_ms();
    uint64_t count;

    if (!has_dropped(watch) ||
        (!at_once && now_ms < watch->dropped_ms + DROPPED_EVERY_MS))
        return;
    count = tdg__client_lost(watch->client) - watch->dropped;
    watch->dropped += count;
    watch->dropped_ms = now_ms;
    if (watch->opts.json)
        watch_json_dropped(watch, count);
    else
        watch_say(watch,
                  "%" PRIu64 " change%s dropped: more %s than can be kept; read "
                  "the watched resources again",
                  count, count == 1 ? " was" : "s were",
                  watch->opts.exec != NULL ? "wait for commands" : "arrive");
}

/* Shows an item, runs its command, and frees it. */
static void take_item(watch_t *watch, watch_item_t *item) {
    if (item == NULL) {
        watch_say(watch, "out of memory: some changes are not shown");
        return;
    }
    bool list = item->kind == WATCH_LIST_CHANGED && !item->is_found;
    if (list) /* the thread finds out whether it is different */
        watch_follow_list(watch, item->event->list);
    if (list || watch->leaving || !watch_is_news(watch, item)) {
        watch_item_free(item);
        return;
    }

    if (watch->opts.json)
        watch_json_item(watch, item);
    else
        watch_show_item(watch, item);
    notice_end(watch, item);
    bool change = item->kind <= WATCH_LIST_CHANGED;
    if (runs_command(watch, item))
        watch_exec_add(watch, item);
    else
        watch_item_free(item);
    if (change && watch->opts.once) { /* if there is a command, when that is over */
        watch->waits_for_command = watch->opts.exec != NULL;
        leave(watch, CLI_OK);
    }
}

static void take_events(watch_t *watch) {
    tdg_event_t *event;

    for (int i = 0; i < EVENTS_PER_TURN && !watch->leaving; i++) {
        if (exec_queue_is_full(&watch->exec.queue))
            return; /* the client collects meanwhile */
        int rv = tdg_client_next(watch->client, 0, &event);
        if (rv == TDG_EENDED)
            leave(watch, CLI_UNREACHABLE);
        else if (rv == TDG_ENOMEM)
            continue; /* report_dropped() says how many */
        if (rv < 0)
            return;
        take_item(watch, watch_item_from(event));
    }
}

static void take_notes(watch_t *watch) {
    watch_note_t *note;

    while ((note = watch_follow_next(watch)) != NULL) {
        switch (note->kind) {
        case WATCH_NOTE_READY:
            watch->client = watch->follow.client;
            json_object_update(watch->listed, note->contents);
            if (watch->opts.json)
                watch_json_ready(watch, note->count);
            else
                watch_show_ready(watch, note->count);
            break;
        case WATCH_NOTE_FAILED:
            leave(watch, note->exit_code);
            break;
        case WATCH_NOTE_BASE:
            watch_set_base(watch, note->uri, note->contents);
            break;
        case WATCH_NOTE_ITEM:
            take_item(watch, note->item);
            note->item = NULL;
            break;
        }
        watch_note_free(note);
    }
}

/* ---- The loop ----------------------------------------------------------- */

/* With --patient, while the server is unreachable. --verbose logs every attempt. */
static bool has_to_say_that_it_waits(const watch_t *watch) {
    return watch->opts.patient && !watch->opts.target.verbose && !watch->said_waiting &&
           watch->client == NULL && !watch->leaving;
}

/* The time until `at_ms`, or `wait` where that is less; -1 there is for ever. */
static int sooner(int wait, int64_t at_ms, int64_t now_ms) {
    int64_t left = at_ms > now_ms ? at_ms - now_ms : 0;

    return wait >= 0 && wait < left ? wait : (int)left;
}

/* How long to wait, in ms; -1: until something happens. */
static int wait_ms(watch_t *watch, int64_t now_ms) {
    int wait = watch_exec_timeout(watch, now_ms);

    if (watch->opts.timeout_ms > 0 && (!watch->leaving || watch->waits_for_command))
        wait = sooner(wait, watch->began_ms + watch->opts.timeout_ms, now_ms);
    if (has_to_say_that_it_waits(watch))
        wait = sooner(wait, watch->began_ms + PATIENCE_MS, now_ms);
    /* A full queue takes no events, so nothing else shows that some are dropped. */
    if (!watch->leaving && (has_dropped(watch) || exec_queue_is_full(&watch->exec.queue)))
        wait = sooner(
            wait, (has_dropped(watch) ? watch->dropped_ms : now_ms) + DROPPED_EVERY_MS,
            now_ms);
    return wait;
}

static void say_that_it_waits(watch_t *watch) {
    if (!has_to_say_that_it_waits(watch) || cli_now_ms() - watch->began_ms < PATIENCE_MS)
        return;
    watch->said_waiting = true;
    watch_say(watch, "waiting for %s; --verbose shows why", watch->opts.target.name);
}

static void wait_for_something(watch_t *watch) {
    struct pollfd fds[4 + 2 * WATCH_MAX_COMMANDS];
    bool events = watch->client != NULL && !watch->leaving &&
                  !exec_queue_is_full(&watch->exec.queue);
    size_t count = 0;

    fds[count++] = (struct pollfd){.fd = watch->signals[0], .events = POLLIN};
    fds[count++] = (struct pollfd){.fd = watch->follow.pipe[0], .events = POLLIN};
    /* Nothing but that its reader has gone. */
    fds[count++] = (struct pollfd){.fd = watch->leaving ? -1 : STDOUT_FILENO};
    fds[count++] = (struct pollfd){.fd = events ? tdg_client_fd(watch->client) : -1,
                                   .events = POLLIN};
    count += watch_exec_poll(watch, fds + count);

    if (poll(fds, (nfds_t)count, wait_ms(watch, cli_now_ms())) > 0 &&
        (fds[2].revents & POLLERR) != 0)
        watch->output_gone = true;
}

static bool is_finished(const watch_t *watch) {
    const exec_queue_t *queue = &watch->exec.queue;

    return watch->leaving && queue->running == 0 &&
           (!watch->waits_for_command || queue->waiting == 0);
}

/* Ends that nobody asks for. */
static void notice_ends(watch_t *watch) {
    bool waiting = !watch->leaving || watch->waits_for_command;

    if (watch->output_gone)
        leave(watch, watch->opts.once || watch->output_failed ? CLI_FAILED : CLI_OK);
    if (waiting && watch->opts.timeout_ms > 0 &&
        cli_now_ms() - watch->began_ms >= watch->opts.timeout_ms)
        leave_by_time(watch);
    if (watch->leaving && !watch->waits_for_command && !watch->exec.hurry)
        watch_exec_leave(watch, GRACE_MS);
}

static void run_loop(watch_t *watch) {
    while (!is_finished(watch)) {
        wait_for_something(watch);
        take_signals(watch);
        take_notes(watch);
        if (watch->client != NULL && !watch->leaving)
            take_events(watch);
        report_dropped(watch, false);
        watch_exec_check(watch, cli_now_ms());
        if (!watch->exec.hurry)
            watch_exec_start(watch);
        notice_ends(watch);
        say_that_it_waits(watch);
    }
    report_dropped(watch, true);
    if (watch->waits_for_command && watch->exec.failed > 0)
        watch->exit_code = CLI_FAILED;
}

static int watch_init(watch_t *watch) {
    watch->began_ms = cli_now_ms();
    watch->is_terminal = isatty(STDOUT_FILENO);
    watch->color = cli_wants_color(watch->opts.color, STDOUT_FILENO);
    watch->color_errors = cli_wants_color(watch->opts.color, STDERR_FILENO);
    watch->follow.pipe[0] = watch->follow.pipe[1] = -1;
    watch->signals[0] = watch->signals[1] = -1;
    tdg__text_init(&watch->out, SIZE_MAX / 2);
    watch_exec_init(watch);
    watch->base = json_object();
    watch->deleted = json_object();
    watch->listed = json_object();
    watch->hashes = json_object();
    if (watch->base == NULL || watch->deleted == NULL || watch->listed == NULL ||
        watch->hashes == NULL)
        return TDG_ENOMEM;
    return watch_catch_signals(watch);
}

/* Returns false where nothing may be freed, as the thread is still at it. */
static bool watch_done(watch_t *watch) {
    if (!watch_follow_stop(watch))
        return false;
    exec_queue_done(&watch->exec.queue);
    tdg__text_done(&watch->out);
    json_decref(watch->base);
    json_decref(watch->deleted);
    json_decref(watch->listed);
    json_decref(watch->hashes);
    json_decref(watch->filter);
    return true;
}

static int run(const cli_command_t *self, int argc, char **argv) {
    static watch_t watch; /* outlives a thread that cannot be ended */
    int operands, code;

    watch.opts = (watch_opts_t){.debounce_ms = -1, .batch_ms = -1, .rate_limit_ms = -1};
    cli_target_init(&watch.opts.target, self);
    if (!cli_parse(self, argc, argv, &watch.opts, &operands, &code))
        return code;
    code = cli_target_take(&watch.opts.target, &argv, &operands);
    if (code == CLI_OK)
        code = check_options(&watch);
    if (code != CLI_OK)
        return code;
    complete_options(&watch.opts);
    watch.uris = argv;
    watch.uri_count = (size_t)operands;

    /* Else the next descriptor would take its place. */
    if (fcntl(STDOUT_FILENO, F_GETFD) < 0 || fcntl(STDERR_FILENO, F_GETFD) < 0)
        return cli_error("watch: standard output or standard error is closed");
    if (watch_init(&watch) < 0 || watch_follow_start(&watch) < 0)
        return cli_error("watch: %s", strerror(errno));
    run_loop(&watch);
    if (!watch_done(&watch))
        _exit(watch.exit_code);
    cli_target_done(&watch.opts.target);
    return watch.exit_code;
}

const cli_command_t cli_watch = {
    .name = "watch",
    .summary = "show changes as they happen, and run commands on them",
    .operands = "[TARGET] [URI]...",
    .max_operands = 100000,
    .description =
        "Prints a line for each change of the resources URI, which may be templates.\n"
        "Without URI, watches all resources that the server lists, and its lists. If "
        "the\n"
        "connection is lost, the client reconnects and shows what may have changed."
        "\n\n" CLI_TARGET_HELP ".\n\n" CLI_TARGET_EXITS "\n"
        "Ctrl-C unsubscribes and exits with 0; with --once, without a change, with 130.\n"
        "With --once and --exec, the exit code is 1 if the command fails.",
    .options = options,
    .run = run,
};

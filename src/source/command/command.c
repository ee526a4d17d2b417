/* SPDX-License-Identifier: MIT
 *
 * The output of a program. Either it runs and ends, and its whole output is the content
 * (this file); or it keeps running while it is watched, and its last line is
 * (command_daemon.c). */
#include "source/command/command.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text.h"

enum { LOG_AGAIN_MS = 10000 };

static const char *const modes[] = {"interval", "lines", "nul", NULL};

#define AT(field) offsetof(tdg__command_source_t, field)

static const tdg__option_t options[] = {
    TDG__OPTION(STRINGS, argv, "command", .flags = TDG__OPTION_REQUIRED | TDG__OPTION_RAW,
                .example = "[df, -h, /]",
                .help =
                    "The program and its arguments, one text each; no shell interprets "
                    "them. {name} in an argument is the variable of that name of the "
                    "`uri`."),
    TDG__OPTION(
        BOOL, shell, "shell", .fallback = "false",
        .help = "Runs the text of `command` with /bin/sh -c. Variables of the `uri` are "
                "in the environment as TIDINGS_name; quote them."),
    TDG__OPTION(CHOICE, mode, "mode", .fallback = "interval", .choices = modes,
                .help =
                    "`interval`: the program runs at an interval, and its whole output "
                    "is the content. `lines`: it keeps running while somebody is "
                    "subscribed, and its last line is the content. `nul`: the same "
                    "with NUL bytes instead of line ends."),
    TDG__OPTION(DURATION, every_ms, "every", .fallback = "1m", .min = 10,
                .max = (int64_t)7 * 24 * 3600 * 1000, .example = "30s",
                .help = "How often the program runs while somebody is subscribed; it "
                        "varies by 10 %. A read runs it at once. With `mode: interval` "
                        "only."),
    TDG__OPTION(
        NUMBER, max_programs, "max-programs", .fallback = "16", .min = 1, .max = 1000,
        .help = "How many programs of this entry run at the same time. With "
                "`lines` and `nul`, a subscription or read that needs one more is "
                "refused; with `interval`, a further run waits, and never more than "
                "16 run at the same time."),
    TDG__OPTION(PATH, cwd, "cwd", .fallback = ".",
                .help = "The working directory of the program."),
    TDG__OPTION(MAP, env, "env", .flags = TDG__OPTION_SECRET, .example = "{LC_ALL: C}",
                .help = "Additional environment variables. Pass secrets here: every user "
                        "of the machine can see arguments."),
    {.name = NULL},
};

static int check(tdg__source_t *source, const tdg__node_t *node,
                 tdg__problems_t *problems) {
    tdg__command_source_t *command = (tdg__command_source_t *)source;
    const char *name;
    json_t *value;
    int rv = 0;

    if (command->argv[0] == NULL || command->argv[0][0] == '\0')
        return tdg__node_option_problem(problems, node, "command",
                                        "the program is missing; write a list such as "
                                        "[df, -h, /]");
    if (command->shell && command->argv[1] != NULL)
        rv = tdg__node_option_problem(problems, node, "command",
                                      "with `shell: true` this is one text, not a list");
    if (!command->shell && strchr(command->argv[0], ' ') != NULL &&
        tdg__node_get(node, "command")->kind == TDG__NODE_SCALAR)
        rv = tdg__node_option_problem(
            problems, node, "command",
            "a program with arguments is a list, such as [df, -h, /]; with "
            "`shell: true` it is a text for the shell");
    if (strchr(command->argv[0], '{') != NULL && !command->shell)
        rv = tdg__node_option_problem(problems, node, "command",
                                      "the program itself cannot be a variable");
    if (command->mode != TDG__COMMAND_INTERVAL && tdg__node_get(node, "every") != NULL)
        rv = tdg__node_option_problem(problems, node, "every",
                                      "this is for `mode: interval` only");
    json_object_foreach(command->env, name, value) {
        if (name[0] == '\0' || strchr(name, '=') != NULL)
            rv = tdg__node_option_problem(problems, node, "env",
                                          "a name cannot be empty or contain =");
    }
    source->awaited = command->mode != TDG__COMMAND_INTERVAL;
    if (command->mode == TDG__COMMAND_INTERVAL)
        source->max_fetches = (unsigned)command->max_programs;
    return rv;
}

/* ---- For both ways ------------------------------------------------------ */

bool tdg__command_has_room(const tdg__command_source_t *command) {
    return command->running < command->max_programs;
}

int tdg__command_start(tdg__command_source_t *command, const char *uri,
                       const tdg__process_ops_t *ops, void *user, tdg__process_t **ret,
                       char why[TDG__COMMAND_WHY]) {
    char **argv = NULL, **env = NULL;
    int rv = tdg__command_argv(command, uri, &argv);

    if (rv == 0)
        rv = tdg__command_env(command, uri, &env);
    if (rv == 0)
        rv = tdg__process_start(
            command->source.host.loop,
            &(tdg__process_opts_t){
                .argv = argv, .env = env, .cwd = command->cwd, .ops = ops, .user = user},
            ret);
    tdg__free_strings(argv);
    tdg__free_strings(env);
    if (rv == 0)
        command->running++;
    else
        snprintf(why, TDG__COMMAND_WHY, "%s",
                 rv == TDG_ENOTFOUND ? "the URI has a value that cannot be passed to "
                                       "the program"
                                     : tdg_strerror(rv));
    return rv;
}

void tdg__command_describe(const tdg__command_source_t *command,
                           const tdg__process_end_t *end,
                           const tdg__command_words_t *words,
                           char why[TDG__COMMAND_WHY]) {
    const char *colon = words->first[0] != '\0' ? ": " : "";
    char what[64];

    if (end->error != 0) {
        snprintf(why, TDG__COMMAND_WHY, "%.64s cannot be started in %.200s: %s",
                 command->shell ? "/bin/sh" : command->argv[0], command->cwd,
                 uv_strerror(end->error));
        return;
    }
    if (end->signal != 0)
        snprintf(what, sizeof(what), "ended by signal %d", end->signal);
    else
        snprintf(what, sizeof(what), "exit status %d", end->exit_status);
    snprintf(why, TDG__COMMAND_WHY, "%s%s%s", what, colon, words->first);
}

void tdg__command_log_line(tdg__command_source_t *command, tdg__command_words_t *words,
                           const char *line) {
    tdg__source_t *source = &command->source;
    uint64_t now = uv_now(source->host.loop);
    size_t len = strlen(line);

    /* Messages are JSON for some, so they are UTF-8. */
    if (!tdg__utf8_is_valid(line, len)) {
        line = "(not UTF-8)";
        len = strlen(line);
    }
    if (words->first[0] == '\0')
        memcpy(words->first, line, len + 1);
    if (command->logged_ms != 0 && now - command->logged_ms < LOG_AGAIN_MS) {
        command->not_logged++;
        return;
    }
    if (command->not_logged > 0)
        tdg__source_log(source, TDG_LOG_INFO, "stderr: %s (and %u lines before)", line,
                        command->not_logged);
    else
        tdg__source_log(source, TDG_LOG_INFO, "stderr: %s", line);
    command->logged_ms = now;
    command->not_logged = 0;
}

/* ---- Programs that run and end ------------------------------------------
 *
 * No more are fetched than may run. But one whose time was over may still be on its way
 * out; until it is gone, the next one waits. */

struct run {
    tdg__queue_t link; /* first */
    tdg__command_source_t *command;
    tdg__process_t *process; /* NULL: it waits for its turn */
    tdg__fetch_t *fetch;     /* NULL: nobody waits for it any more */
    tdg__text_t out;
    tdg__command_words_t words;
};

static void run_free(struct run *run) {
    tdg__queue_remove(&run->link);
    tdg__text_done(&run->out);
    tdg__source_let_go(&run->command->source);
    tdg__free(run);
}

/* Answers the fetch; what the program does from now on is of no interest. */
static void run_give_up(struct run *run, int status, const char *why) {
    tdg__fetch_t *fetch = run->fetch;

    run->fetch = NULL;
    if (run->process != NULL)
        tdg__process_stop(run->process);
    else
        run_free(run);
    if (fetch != NULL)
        tdg__fetch_failed(fetch, status, "%s", why);
}

static void on_output(void *user, const char *data, size_t len) {
    struct run *run = user;

    tdg__text_add(&run->out, data, len);
    if (run->out.error == TDG_ETOOLARGE)
        run_give_up(run, TDG_ETOOLARGE, "the output is larger than max-size");
    else if (run->out.error != 0)
        run_give_up(run, TDG_ENOMEM, tdg_strerror(TDG_ENOMEM));
}

static void on_said(void *user, const char *line) {
    struct run *run = user;

    tdg__command_log_line(run->command, &run->words, line);
}

static void start_waiting(tdg__command_source_t *command);

static void on_ended(void *user, const tdg__process_end_t *end) {
    struct run *run = user;
    tdg__command_source_t *command = run->command;
    tdg__fetch_t *fetch = run->fetch;
    char why[TDG__COMMAND_WHY];

    assert(command->running > 0);
    run->fetch = NULL;
    command->running--;
    start_waiting(command);
    if (fetch != NULL && end->error == 0 && end->signal == 0 && end->exit_status == 0) {
        tdg__content_t content = {.data = run->out.data,
                                  .len = run->out.len,
                                  .metadata = json_pack("{s:i,s:I}", "exit_status", 0,
                                                        "duration_ms",
                                                        (json_int_t)end->duration_ms)};

        tdg__fetch_done(fetch, &content);
    } else if (fetch != NULL) {
        tdg__command_describe(command, end, &run->words, why);
        tdg__fetch_failed_inside(fetch, TDG_EUNREACHABLE, "the program has failed", "%s",
                                 why);
    }
    run_free(run);
}

static const tdg__process_ops_t run_ops = {
    .output = on_output, .said = on_said, .ended = on_ended};

static void run_begin(struct run *run) {
    tdg__fetch_t *fetch = run->fetch;
    char why[TDG__COMMAND_WHY];
    int rv =
        tdg__command_start(run->command, fetch->uri, &run_ops, run, &run->process, why);

    if (rv < 0) {
        run_free(run);
        tdg__fetch_failed_inside(fetch, rv, "the program cannot be started", "%s", why);
    }
}

/* The one that waits for the longest; or NULL. */
static struct run *next_waiting(const tdg__command_source_t *command) {
    tdg__queue_t *at = command->runs.next;

    while (at != &command->runs && ((struct run *)at)->process != NULL)
        at = at->next;
    return at != &command->runs ? (struct run *)at : NULL;
}

static void start_waiting(tdg__command_source_t *command) {
    struct run *run;

    while (!command->source.closing && tdg__command_has_room(command) &&
           (run = next_waiting(command)) != NULL)
        run_begin(run);
}

static void run_start(tdg__command_source_t *command, tdg__fetch_t *fetch) {
    struct run *run = tdg__fetch_begin(fetch, sizeof(*run));

    if (run == NULL)
        return;
    run->command = command;
    run->fetch = fetch;
    tdg__text_init(&run->out, (size_t)command->source.entry.max_size);
    tdg__queue_append(&command->runs, &run->link);
    tdg__source_hold(&command->source);
    start_waiting(command);
}

/* ---- The table ---------------------------------------------------------- */

static bool is_interval(const tdg__command_source_t *command) {
    return command->mode == TDG__COMMAND_INTERVAL;
}

static void on_turn(uv_timer_t *timer);

static void set_timer(tdg__command_source_t *command) {
    uv_timer_start(&command->timer, on_turn,
                   (uint64_t)tdg__source_turn_ms(command->every_ms), 0);
}

static void on_turn(uv_timer_t *timer) {
    tdg__command_source_t *command = timer->data;

    set_timer(command);
    tdg__source_touch_all(&command->source);
}

static int open_(tdg__source_t *source) {
    tdg__command_source_t *command = (tdg__command_source_t *)source;

    tdg__source_open_timer(source, &command->timer);
    tdg__queue_init(&command->runs);
    tdg__queue_init(&command->daemons);
    return 0;
}

static int watch(tdg__source_t *source, const tdg_target_t *target) {
    tdg__command_source_t *command = (tdg__command_source_t *)source;

    if (!is_interval(command)) /* of a template: which program should run? */
        return target->kind == TDG_TARGET_TEMPLATE
                   ? TDG_ENOTSUP
                   : tdg__daemon_watch(command, target->name);
    if (!uv_is_active((uv_handle_t *)&command->timer))
        set_timer(command);
    return 0;
}

static void unwatch(tdg__source_t *source, const tdg_target_t *target) {
    tdg__command_source_t *command = (tdg__command_source_t *)source;

    if (!is_interval(command))
        tdg__daemon_unwatch(command, target->name);
    else if (!tdg__source_is_watched(source))
        uv_timer_stop(&command->timer);
}

static void fetch_(tdg__source_t *source, tdg__fetch_t *fetch) {
    tdg__command_source_t *command = (tdg__command_source_t *)source;

    if (is_interval(command))
        run_start(command, fetch);
    else
        tdg__daemon_fetch(command, fetch);
}

static void cancel(tdg__source_t *source, tdg__fetch_t *fetch) {
    tdg__command_source_t *command = (tdg__command_source_t *)source;

    if (is_interval(command))
        run_give_up(fetch->state, TDG_EUNREACHABLE, "cancelled");
    else
        tdg__daemon_cancel(command, fetch);
}

static void close_(tdg__source_t *source) {
    tdg__command_source_t *command = (tdg__command_source_t *)source;

    for (tdg__queue_t *at = command->runs.next; at != &command->runs; at = at->next)
        if (((struct run *)at)->process != NULL)
            tdg__process_stop(((struct run *)at)->process);
    tdg__daemons_close(command);
    tdg__source_close_handle((uv_handle_t *)&command->timer);
}

const tdg__source_kind_t tdg__source_command = {
    .name = "command",
    .help = "The output of a program that runs at an interval, or keeps running and "
            "prints lines.",
    .options = options,
    .uri_example = "host://disk",
    .size = sizeof(tdg__command_source_t),
    .check = check,
    .open = open_,
    .close = close_,
    .watch = watch,
    .unwatch = unwatch,
    .fetch = fetch_,
    .cancel = cancel,
};

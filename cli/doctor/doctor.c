/* SPDX-License-Identifier: MIT
 *
 * `tidings doctor TARGET`: measures what breaks real deployments of a server, and prints
 * how to fix it. This file has the command, the order of the checks, and their start and
 * end. If the server is unreachable, or is not an MCP server, only the first checks run.
 *
 * It reads, lists, subscribes and unsubscribes; it calls no tool. */
#include "doctor/doctor.h"

#include <assert.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <time.h>

#include <tidings/error.h>
#include <tidings/tidings.h>

#include "base/alloc.h"
#include "config/value.h"
#include "terminal.h"
#include "web/web_url.h"

enum { MAX_RESULTS = 256, STOP_MS = 15000, MOMENT_MS = 400 };
enum { PATIENCE = 100 }; /* looks, 20 ms apart, whether a program has gone */

static const doctor_group_t groups[] = {
    {"Reach", doctor_reach_checks},
    {"Versions", doctor_version_checks},
    {"Capabilities", doctor_capability_checks},
    {"Streams", doctor_stream_checks},
    {"Response headers", doctor_head_checks},
    {"Updates", doctor_update_checks},
    {"Concurrent requests", doctor_load_checks},
    {"Sessions and headers", doctor_session_checks},
    {"Reconnection", doctor_reconnect_checks},
    {"The program", doctor_program_checks},
};

bool doctor_wants(const doctor_t *doctor, doctor_era_t era) {
    int wanted = doctor->options->target.era;

    return wanted == TDG_ERA_FIND || wanted == (int)era + 1;
}

void doctor_give_up(doctor_t *doctor, int exit_code) {
    doctor->unreachable = true;
    doctor->exit_code = exit_code;
}

/* ---- One check --------------------------------------------------------------- */

static void add_result(doctor_t *doctor, const doctor_group_t *group,
                       const doctor_check_t *check) {
    doctor_result_t *result = &doctor->results[doctor->count];

    assert(doctor->count < MAX_RESULTS);
    doctor->count++;
    doctor->result = result;
    *result = (doctor_result_t){.group = group, .check = check};
    tdg__text_init(&result->did, DOCTOR_MAX_TEXT);
    tdg__text_init(&result->saw, DOCTOR_MAX_TEXT);
    tdg__text_init(&result->fix, DOCTOR_MAX_TEXT);
}

/* Why it cannot be run; NULL: it can. */
static const char *lacks(doctor_t *doctor, const doctor_check_t *check) {
    if ((check->needs & DOCTOR_NEEDS_MODERN) != 0 && !doctor->spoken[DOCTOR_MODERN])
        return "the server does not speak " DOCTOR_MODERN_VERSION
               ", or --era excludes it";
    if ((check->needs & DOCTOR_NEEDS_LEGACY) != 0 && !doctor->spoken[DOCTOR_LEGACY])
        return "the server does not speak " DOCTOR_LEGACY_VERSION
               " or older, or --era excludes it";
    if ((check->needs & DOCTOR_NEEDS_SESSION) != 0 && doctor->session[0] == '\0')
        return "the server assigns no session ids";
    if ((check->needs & DOCTOR_NEEDS_URI) != 0 &&
        json_array_size(doctor_uris(doctor)) == 0)
        return "the server lists no resource; name one with --uri";
    if ((check->needs & DOCTOR_NEEDS_STREAMS) != 0 && !doctor_hold(doctor)) {
        doctor->late = true;
        return "too little time is left (--timeout) to hold streams (--idle, --wait)";
    }
    return NULL;
}

static void try_check(doctor_t *doctor, const doctor_check_t *check) {
    if (check->did != NULL)
        doctor_did(doctor, "%s", check->did);
    if ((check->needs & DOCTOR_NEEDS_SILENT) == 0 || doctor_silent(doctor) != NULL)
        check->run(doctor);
}

static void run_check(doctor_t *doctor, const doctor_group_t *group,
                      const doctor_check_t *check, doctor_era_t era) {
    const char *missing = doctor_left_ms(doctor) > 0 ? lacks(doctor, check) : NULL;

    doctor->era = era;
    add_result(doctor, group, check);
    doctor_show_progress(doctor, "%s ...", check->title);
    if ((check->needs & DOCTOR_EACH_ERA) != 0 && doctor->spoken[era])
        doctor->result->era = cli_eras[era + 1];
    if (missing != NULL)
        doctor_skip(doctor, "%s", missing);
    else if (doctor_left_ms(doctor) > 0)
        try_check(doctor, check);
    doctor_end_calls(doctor);
    /* What is missing now may only be late. */
    if (doctor_left_ms(doctor) == 0 && !doctor->unreachable) {
        doctor->late = true;
        doctor_skip(doctor, "--timeout had expired");
    }
    doctor_show(doctor, doctor->result);
}

static void run_group(doctor_t *doctor, const doctor_group_t *group) {
    unsigned other = doctor->url != NULL ? DOCTOR_STDIO : DOCTOR_HTTP;

    for (const doctor_check_t *check = group->checks; check->id != NULL; check++) {
        if (doctor->unreachable)
            return;
        if ((check->needs & other) != 0)
            continue;
        if ((check->needs & DOCTOR_EACH_ERA) == 0 ||
            (!doctor->spoken[DOCTOR_MODERN] && !doctor->spoken[DOCTOR_LEGACY])) {
            run_check(doctor, group, check,
                      (check->needs & DOCTOR_NEEDS_LEGACY) != 0 ||
                              !doctor->spoken[DOCTOR_MODERN]
                          ? DOCTOR_LEGACY
                          : DOCTOR_MODERN);
            continue;
        }
        for (int era = 0; era < DOCTOR_ERAS; era++)
            if (doctor->spoken[era])
                run_check(doctor, group, check, (doctor_era_t)era);
    }
}

/* ---- Beginning and end -------------------------------------------------------- */

static int open_web(doctor_t *doctor) {
    const cli_target_t *target = &doctor->options->target;
    tdg__web_opts_t opts = {
        .headers = target->headers.count > 0 ? target->headers.items : NULL,
        .token_file = target->token_file,
        .ca_file = target->ca_file,
        .proxy = target->proxy,
        .insecure_token = target->insecure_token,
        .agent = "tidings-doctor",
        .connect_timeout_ms = doctor_patience(doctor),
    };

    /* As the library does: where servers usually are. */
    doctor->url = tdg__web_url_complete(target->url, "/mcp");
    if (doctor->url == NULL)
        return TDG_ENOMEM;
    return tdg__web_create(&doctor->loop, &opts, &doctor->web);
}

/* 0: it does not run. */
static int pid_of(const doctor_program_t *program) {
    return program->started && !program->gone ? tdg__child_pid(program->child) : 0;
}

/* Programs have all that they start in a group of theirs. */
static void signal_programs(const doctor_t *doctor, int number) {
    for (int i = 0; i < DOCTOR_PROGRAMS; i++) {
        int pid = pid_of(&doctor->own_programs[i]);

        if (pid > 0)
            kill(-pid, number);
    }
    if (doctor->trigger != NULL && tdg__process_pid(doctor->trigger) > 0)
        kill(-tdg__process_pid(doctor->trigger), number);
}

/* Who interrupts us wants us to end; what we have started must not stay. */
static void on_signal(uv_signal_t *handle, int number) {
    const struct timespec moment = {.tv_nsec = 20 * 1000 * 1000};
    doctor_t *doctor = handle->data;

    signal_programs(doctor, SIGTERM);
    for (int i = 0; i < PATIENCE && waitpid(-1, NULL, WNOHANG) >= 0; i++)
        nanosleep(&moment, NULL);
    signal_programs(doctor, SIGKILL);
    signal(number, SIG_DFL);
    raise(number);
}

static void catch_signals(doctor_t *doctor) {
    int numbers[CLI_ENDING_SIGNALS];

    doctor->signal_count = cli_ending_signals(numbers);
    for (size_t i = 0; i < doctor->signal_count; i++) {
        uv_signal_init(&doctor->loop, &doctor->signals[i]);
        doctor->signals[i].data = doctor;
        uv_signal_start(&doctor->signals[i], on_signal, numbers[i]);
        uv_unref((uv_handle_t *)&doctor->signals[i]);
    }
}

static int64_t total_ms(const doctor_options_t *options) {
    return options->target.timeout_ms > 0 ? options->target.timeout_ms
                                          : doctor_hold_ms(options) + DOCTOR_BESIDE_MS;
}

static int doctor_init(doctor_t *doctor, const doctor_options_t *options) {
    int rv = 0;

    *doctor = (doctor_t){.options = options, .exit_code = CLI_UNREACHABLE};
    doctor->end_us = doctor_now_us() + (uint64_t)total_ms(options) * 1000;
    snprintf(doctor->legacy_version, sizeof(doctor->legacy_version), "%s",
             DOCTOR_LEGACY_VERSION);
    for (int era = 0; era < DOCTOR_ERAS; era++)
        doctor->programs[era] = &doctor->own_programs[era];
    if (uv_loop_init(&doctor->loop) < 0)
        return TDG_ESYSTEM;
    uv_timer_init(&doctor->loop, &doctor->alarm);
    uv_timer_init(&doctor->loop, &doctor->pulse);
    doctor->pulse.data = doctor;
    catch_signals(doctor);
    doctor->results = tdg__calloc(MAX_RESULTS, sizeof(doctor->results[0]));
    if (doctor->results == NULL)
        rv = TDG_ENOMEM;
    if (rv == 0 && options->target.url != NULL)
        rv = open_web(doctor);
    return rv;
}

static void on_web_closed(void *arg) {
    ((doctor_t *)arg)->web_closed = true;
}

static bool is_alone(void *arg) {
    const doctor_t *doctor = arg;

    for (int i = 0; i < DOCTOR_PROGRAMS; i++)
        if (doctor->own_programs[i].started && !doctor->own_programs[i].gone)
            return false;
    return doctor->trigger == NULL;
}

static bool is_closed(void *arg) {
    const doctor_t *doctor = arg;

    return is_alone(arg) && (doctor->web == NULL || doctor->web_closed);
}

/* Leaving takes a moment, also where the time is over. */
static void allow_moment(doctor_t *doctor) {
    uint64_t end_us = doctor_now_us() + (uint64_t)MOMENT_MS * 1000;

    if (doctor->end_us < end_us)
        doctor->end_us = end_us;
}

/* Ends the sessions, and what was started: politely as long as there is time. */
static void leave(doctor_t *doctor) {
    if (doctor_left_ms(doctor) == 0)
        signal_programs(doctor, SIGTERM);
    allow_moment(doctor);
    doctor_held_end(doctor);
    doctor_end(doctor->first);
    doctor_end_calls(doctor);
    for (int i = 0; i < DOCTOR_PROGRAMS; i++)
        doctor_stop(&doctor->own_programs[i], 0);
    doctor_until(doctor, is_alone, doctor, STOP_MS);
    signal_programs(doctor, SIGKILL);
    allow_moment(doctor);
    if (doctor->web != NULL)
        tdg__web_close(doctor->web, on_web_closed, doctor);
    doctor_until(doctor, is_closed, doctor, STOP_MS);
}

static void close_loop(doctor_t *doctor) {
    for (size_t i = 0; i < doctor->signal_count; i++)
        uv_close((uv_handle_t *)&doctor->signals[i], NULL);
    uv_close((uv_handle_t *)&doctor->alarm, NULL);
    uv_close((uv_handle_t *)&doctor->pulse, NULL);
    uv_run(&doctor->loop, UV_RUN_DEFAULT);
    uv_loop_close(&doctor->loop);
}

static void doctor_done(doctor_t *doctor) {
    leave(doctor);
    if (is_closed(doctor)) /* else the process ends with it open: closing may take long */
        close_loop(doctor);
    for (int era = 0; era < DOCTOR_ERAS; era++)
        json_decref(doctor->hello[era]);
    json_decref(doctor->uris);
    for (size_t i = 0; i < doctor->count; i++) {
        tdg__text_done(&doctor->results[i].did);
        tdg__text_done(&doctor->results[i].saw);
        tdg__text_done(&doctor->results[i].fix);
        json_decref(doctor->results[i].facts);
    }
    tdg__free(doctor->results);
    tdg__free(doctor->url);
}

static int exit_code(const doctor_t *doctor) {
    if (doctor->unreachable)
        return doctor->exit_code;
    if (doctor->late)
        return CLI_TIMEOUT;
    for (size_t i = 0; i < doctor->count; i++)
        if (doctor->results[i].status == DOCTOR_FAILED)
            return CLI_FAILED;
    return CLI_OK;
}

static void report_late(const doctor_options_t *options) {
    char time[TDG__VALUE_TEXT_MAX];

    tdg__duration_write(total_ms(options), time);
    cli_error("doctor: %s was too short for all checks", time);
    fputs("  Allow more time with --timeout TIME. Streams are held open for --idle.\n",
          stderr);
}

static int examine(const doctor_options_t *options) {
    doctor_t doctor;
    int rv = doctor_init(&doctor, options), code;

    if (rv < 0) {
        doctor_done(&doctor);
        return cli_error("doctor: %s", tdg_strerror(rv));
    }
    if (!options->json)
        printf("%s\n", options->target.name);
    for (size_t i = 0; i < sizeof(groups) / sizeof(groups[0]); i++)
        run_group(&doctor, &groups[i]);
    code = exit_code(&doctor);
    if (!options->json)
        doctor_show_end(&doctor);
    else if (doctor_show_json(&doctor) < 0)
        code = CLI_FAILED;
    fflush(stdout);
    if (doctor.late)
        report_late(options);
    doctor_done(&doctor);
    return code;
}

/* ---- The command ---------------------------------------------------------------- */

static const cli_option_t table[] = {
    CLI_TARGET_OPTIONS(doctor_options_t, target),
    CLI_TIME_OPTION(doctor_options_t, target.timeout_ms, "timeout", "TIME", 1,
                    CLI_MAX_TIME_MS,
                    "time limit for the whole command; checks that do not fit\n"
                    "are skipped [5m more than --idle or --wait]"),
    CLI_TIME_OPTION(doctor_options_t, answer_ms, "answer-limit", "TIME", 1,
                    CLI_MAX_TIME_MS, "time limit for each answer [10s]"),
    CLI_TIME_OPTION(doctor_options_t, idle_ms, "idle", "TIME", 1, CLI_MAX_TIME_MS,
                    "how long to hold idle streams, to see keep-alives and\n"
                    "whether a proxy cuts them off [20s]; many proxies do so\n"
                    "after 60s: try 150s as well"),
    CLI_TEXTS_OPTION(doctor_options_t, uris, "uri", "URI",
                     "subscribe to this resource; can be given several times\n"
                     "[the first 20 that the server lists]"),
    CLI_TIME_OPTION(doctor_options_t, wait_ms, "wait", "TIME", 1, CLI_MAX_TIME_MS,
                    "how long to wait for an update, if longer than --idle"),
    CLI_STRING_OPTION(doctor_options_t, trigger, "trigger", "CMD",
                      "shell command that makes a change, run once the streams\n"
                      "are open"),
    CLI_FLAG_OPTION(doctor_options_t, json, "json",
                    "print the report as one JSON document"),
    CLI_CHOICE_OPTION(doctor_options_t, color, "color", "WHEN", cli_colors,
                      "auto (the default: on a terminal, unless NO_COLOR is\n"
                      "set), always or never"),
    CLI_END,
};

static int run(const cli_command_t *self, int argc, char **argv) {
    doctor_options_t options = {.idle_ms = 20000, .answer_ms = DOCTOR_ANSWER_MS};
    int operands, code;

    cli_target_init(&options.target, self);
    if (cli_parse(self, argc, argv, &options, &operands, &code)) {
        code = cli_target_take(&options.target, &argv, &operands);
        if (code == CLI_OK && operands > 0)
            code = cli_usage_error(
                "doctor: unexpected argument '%s'; name resources with --uri", argv[0]);
        if (code == CLI_OK)
            code = examine(&options);
    }
    cli_target_done(&options.target);
    return code;
}

const cli_command_t cli_doctor = {
    .name = "doctor",
    .summary = "find problems of a server, or of the network path to it",
    .operands = "[TARGET]",
    .max_operands = 2,
    .description =
        "Examines a server: protocol versions, capabilities that do not work, streams\n"
        "that are buffered or cut on the way, sessions, headers, reconnection, and\n"
        "whether updates arrive. Prints for each check what it did and saw, and how to\n"
        "fix a problem. It calls no tools."
        "\n\n" CLI_TARGET_HELP ".\n\n"
        "Exit codes: 0 no check failed, 1 a check failed, 2 wrong command line, 3 "
        "server\n"
        "unreachable, 4 timed out, 5 authentication or authorisation failed.",
    .options = table,
    .run = run,
};

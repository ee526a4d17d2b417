/* SPDX-License-Identifier: MIT
 *
 * fixture [--http PORT] [--stdio] [OPTION...]: serves until a signal or the end of input.
 * With --http it says "listening on http://127.0.0.1:PORT/mcp" on standard error, with
 * the real port where 0 was given. The options are the table below. */
#include "fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static tdg_settings_t settings;
static tdg_server_opts_t opts = {
    .name = "fixture", .settings = &settings, .linger_ms = 50};
static bool use_http, use_stdio, erlmcp;
static uint32_t port, rate_limit = UINT32_MAX;

/* Options that set a flag of the server, choose a timing or fill a number. */
static const struct {
    const char *name;
    unsigned flag;
} flags[] = {
    {"--no-legacy", TDG_NO_LEGACY},
    {"--no-modern", TDG_NO_MODERN},
    {"--no-subscribe", TDG_NO_SUBSCRIBE},
    {"--no-list-changed", TDG_NO_LIST_CHANGED},
    {"--no-logging", TDG_NO_LOGGING},
    {"--no-params-metadata", TDG_NO_PARAMS_METADATA},
    {"--no-meta-metadata", TDG_NO_META_METADATA},
    {"--any-template", TDG_ANY_TEMPLATE},
};

static const struct {
    const char *name;
    tdg_timing_mode_t mode;
} timings[] = {
    {"--batch", TDG_TIMING_BATCH},
    {"--debounce", TDG_TIMING_DEBOUNCE},
    {"--throttle", TDG_TIMING_THROTTLE},
};

static const struct {
    const char *name;
    uint32_t *value;
} numbers[] = {
    {"--http", &port},
    {"--rate-limit", &rate_limit}, /* milliseconds; 0: off */
    {"--workers", &opts.workers},
    {"--linger-ms", &opts.linger_ms},
    {"--page-size", &opts.page_size},
    {"--keepalive-ms", &opts.keepalive_ms},
    {"--request-timeout-ms", &opts.request_timeout_ms},
    {"--idle-timeout-ms", &opts.idle_timeout_ms},
    {"--session-idle-ms", &opts.session_idle_ms},
    {"--stream-lifetime-ms", &opts.stream_lifetime_ms},
    {"--retry-ms", &opts.retry_ms},
    {"--stop-timeout-ms", &opts.stop_timeout_ms},
    {"--max-connections", &opts.max_connections},
    {"--max-sessions", &opts.max_sessions},
    {"--max-sessions-per-address", &opts.max_sessions_per_address},
    {"--handshake-timeout-ms", &opts.handshake_timeout_ms},
    {"--max-calls", &opts.max_calls},
    {"--max-streams", &opts.max_streams},
    {"--max-header-bytes", &opts.max_header_bytes},
    {"--max-message-bytes", &opts.max_message_bytes},
    {"--max-subscriptions", &opts.max_subscriptions},
    {"--max-pending", &opts.max_pending},
    {"--max-history", &opts.max_history},
};

static void usage(const char *name) {
    fprintf(stderr,
            "fixture: what is %s?\nusage: fixture [--http PORT] [--stdio] "
            "[--erlmcp] [--immediate] [--batch|--debounce|--throttle MS]",
            name);
    for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++)
        fprintf(stderr, " [%s]", flags[i].name);
    for (size_t i = 1; i < sizeof(numbers) / sizeof(numbers[0]); i++)
        fprintf(stderr, " [%s N]", numbers[i].name);
    fprintf(stderr, "\n");
    exit(2);
}

static bool take_flag(const char *name) {
    for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++)
        if (strcmp(name, flags[i].name) == 0) {
            opts.flags |= flags[i].flag;
            return true;
        }
    if (strcmp(name, "--stdio") == 0)
        return use_stdio = true;
    if (strcmp(name, "--erlmcp") == 0)
        return erlmcp = true;
    if (strcmp(name, "--immediate") == 0) {
        settings.timing = TDG_TIMING_IMMEDIATE;
        return true;
    }
    return false;
}

static bool take_number(const char *name, const char *text) {
    char *end;
    unsigned long value = strtoul(text, &end, 10);

    if (*end != '\0' || end == text || value >= UINT32_MAX)
        return false;
    for (size_t i = 0; i < sizeof(timings) / sizeof(timings[0]); i++)
        if (strcmp(name, timings[i].name) == 0) {
            settings.timing = timings[i].mode;
            settings.window_ms = (uint32_t)value;
            return true;
        }
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
        if (strcmp(name, numbers[i].name) == 0) {
            *numbers[i].value = (uint32_t)value;
            use_http = use_http || i == 0;
            return true;
        }
    return false;
}

static void read_options(int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        if (take_flag(argv[i]))
            continue;
        if (i + 1 == argc || !take_number(argv[i], argv[i + 1]))
            usage(argv[i]);
        i++;
    }
    if (!use_http && !use_stdio)
        usage("a server without --http and --stdio");
    if (rate_limit != UINT32_MAX)
        settings.rate_limit_ms = rate_limit == 0 ? TDG_RATE_OFF : (int32_t)rate_limit;
    opts.watcher = &fixture_watcher;
}

static int offer(tdg_server_t *server) {
    int rv = fixture_add_conformance(server);

    if (rv == 0)
        rv = fixture_add_live(server);
    if (rv == 0)
        rv = fixture_add_tools(server);
    return rv;
}

static int open_server(tdg_server_t *server) {
    tdg_listen_opts_t http = {.port = (uint16_t)port, .erlmcp = erlmcp};
    int rv = 0;

    if (use_http)
        rv = tdg_server_listen(server, &http);
    if (rv == 0 && use_stdio)
        rv = tdg_server_pipe(server, 0, 1, erlmcp);
    if (rv == 0 && use_http)
        fprintf(stderr, "listening on http://127.0.0.1:%u/mcp\n",
                (unsigned)tdg_server_port(server, 0));
    return rv;
}

int main(int argc, char **argv) {
    tdg_server_t *server;
    int rv;

    read_options(argc, argv);
    rv = tdg_server_create(&opts, &server);
    if (rv < 0)
        goto fail;
    rv = fixture_later_start();
    if (rv < 0)
        goto fail_server;

    rv = offer(server);
    if (rv == 0)
        rv = open_server(server);
    if (rv == 0)
        rv = tdg_server_run(server);

    /* What is still to be answered is answered before the server goes. */
    fixture_later_stop();
    fixture_release_all();
fail_server:
    tdg_server_destroy(server);
    fixture_live_done();
fail:
    if (rv < 0)
        fprintf(stderr, "fixture: %s\n", tdg_strerror(rv));
    return rv == 0 ? 0 : 1;
}

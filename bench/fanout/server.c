/* SPDX-License-Identifier: MIT
 *
 * tidings for bench/fanout, through nothing but its public API: one worker, resources
 * without rate limit, every change at once; with --burst, changes are collected for some
 * milliseconds. Commands come as lines on the input: "publish COUNT" (the resources 0 …
 * COUNT-1 have changed) and "settle". */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <tidings/server.h>
#include <tidings/tidings.h>

#include "fanout.h"

enum { NEVER_MS = 3600000, MAX_STREAMS = 100000 };

static json_int_t sequence;

static void check(int rv, const char *what) {
    if (rv == 0)
        return;
    fprintf(stderr, "fanout-server: %s: %s\n", what, tdg_strerror(rv));
    exit(1);
}

static void uri_of(unsigned index, char *uri, size_t size) {
    snprintf(uri, size, "bench://resource/%u", index);
}

static void read_resource(void *user, tdg_request_t *request, const char *uri) {
    (void)user;
    tdg_request_reply_text(request, uri);
}

static void publish(tdg_server_t *server, unsigned count) {
    for (unsigned i = 0; i < count; i++) {
        struct timespec now;
        json_t *metadata;
        char uri[64];

        uri_of(i, uri, sizeof(uri));
        clock_gettime(CLOCK_MONOTONIC, &now);
        metadata =
            json_pack("{s:I, s:I}", "seq", ++sequence, "t",
                      (json_int_t)now.tv_sec * 1000000000 + (json_int_t)now.tv_nsec);
        check(metadata != NULL ? tdg_server_notify_updated(server, uri, metadata)
                               : TDG_ENOMEM,
              "notify");
    }
}

static void obey(tdg_server_t *server, const char *line) {
    unsigned count;

    if (sscanf(line, "publish %u", &count) == 1) {
        publish(server, count);
    } else if (strncmp(line, "settle", 6) == 0) {
        printf("settled\n");
        fflush(stdout);
    }
}

int main(int argc, char **argv) {
    tdg_settings_t settings = {.timing = TDG_TIMING_IMMEDIATE,
                               .rate_limit_ms = TDG_RATE_OFF};
    tdg_server_opts_t opts = {
        .name = "bench",
        .workers = 1,
        .settings = &settings,
        .keepalive_ms = NEVER_MS, /* the peers send no signs of life either */
        .max_connections = MAX_STREAMS,
        .max_sessions = MAX_STREAMS,
    };
    tdg_listen_opts_t http = {.port = 0};
    tdg_server_t *server;
    char line[256], uri[64];

    if (argc > 1 && strcmp(argv[1], "--burst") == 0) {
        settings.timing = TDG_TIMING_BATCH;
        settings.window_ms = FANOUT_BURST_WINDOW_MS;
    }
    check(tdg_server_create(&opts, &server), "create");
    for (unsigned i = 0; i < FANOUT_BURST; i++) {
        tdg_resource_t resource = {.uri = uri, .name = uri, .read = read_resource};

        uri_of(i, uri, sizeof(uri));
        check(tdg_server_add_resource(server, &resource), "add a resource");
    }
    check(tdg_server_listen(server, &http), "listen");
    check(tdg_server_start(server), "start");
    printf("port %u\n", tdg_server_port(server, 0));
    fflush(stdout);

    while (fgets(line, sizeof(line), stdin) != NULL)
        obey(server, line);
    tdg_server_stop(server);
    tdg_server_destroy(server);
    return 0;
}

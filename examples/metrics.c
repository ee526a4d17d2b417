/* SPDX-License-Identifier: MIT
 *
 * Metrics of a machine: a resource, a tool that changes it, and a thread that changes it
 * every few seconds. Both publish the change with one call.
 *
 *     metrics [PORT [SECONDS]]        default: port 8080 (0: a free one), every 5 s */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <threads.h>
#include <time.h>

#include <tidings/tidings.h>

#define METRICS "data://metrics"

static mtx_t lock;
static double cpu = 45.2, memory = 60.1;
static int seconds = 5;

static void set_metrics(double new_cpu, double new_memory) {
    mtx_lock(&lock);
    cpu = new_cpu;
    memory = new_memory;
    mtx_unlock(&lock);
}

static void get_metrics(void *user, tdg_request_t *request, const char *uri) {
    char text[64];

    (void)user, (void)uri;
    mtx_lock(&lock);
    snprintf(text, sizeof(text), "{\"cpu\": %.1f, \"memory\": %.1f}", cpu, memory);
    mtx_unlock(&lock);
    tdg_request_reply_text(request, text);
}

static void update_metrics(void *user, tdg_request_t *request, const json_t *arguments) {
    const json_t *new_cpu = json_object_get(arguments, "cpu");
    const json_t *new_memory = json_object_get(arguments, "memory");

    (void)user;
    if (!json_is_number(new_cpu) || !json_is_number(new_memory)) {
        tdg_request_reply_tool_error(request, "cpu and memory must be numbers");
        return;
    }
    set_metrics(json_number_value(new_cpu), json_number_value(new_memory));
    tdg_request_notify_updated(request, METRICS, NULL);
    tdg_request_reply_text(request, "Metrics updated");
}

static int update_in_background(void *server) {
    struct timespec period = {.tv_sec = seconds};

    for (;;) {
        thrd_sleep(&period, NULL);
        set_metrics(rand() % 1000 / 10.0, rand() % 1000 / 10.0);
        tdg_server_notify_updated(server, METRICS, NULL);
    }
    return 0;
}

static int help(FILE *out) {
    fputs(
        "usage: metrics [PORT [SECONDS]]\n\n"
        "Serves data://metrics over HTTP on PORT (default 8080; 0: any free port), with\n"
        "new values every SECONDS (default 5). Ctrl-C stops it.\n",
        out);
    return out == stdout ? 0 : 2;
}

int main(int argc, char **argv) {
    tdg_server_opts_t opts = {.name = "metrics"};
    tdg_listen_opts_t http = {.port = (uint16_t)(argc > 1 ? atoi(argv[1]) : 8080)};
    tdg_resource_t metrics = {.uri = METRICS,
                              .name = "metrics",
                              .mime_type = "application/json",
                              .read = get_metrics};
    json_t *schema = json_pack("{s:s, s:{s:{s:s}, s:{s:s}}, s:[s,s]}", "type", "object",
                               "properties", "cpu", "type", "number", "memory", "type",
                               "number", "required", "cpu", "memory");
    tdg_tool_t update = {.name = "update_metrics",
                         .description = "Sets the metrics and notifies their subscribers",
                         .input_schema = schema,
                         .call = update_metrics};
    tdg_server_t *server = NULL;
    thrd_t background;

    if (argc > 1 && (argv[1][0] < '0' || argv[1][0] > '9'))
        return help(strcmp(argv[1], "--help") == 0 ? stdout : stderr);
    if (argc > 2 && atoi(argv[2]) > 0)
        seconds = atoi(argv[2]);
    mtx_init(&lock, mtx_plain);

    int rv = tdg_server_create(&opts, &server);
    if (rv == 0)
        rv = tdg_server_add_resource(server, &metrics);
    if (rv == 0)
        rv = tdg_server_add_tool(server, &update);
    if (rv == 0)
        rv = tdg_server_listen(server, &http);
    if (rv == 0) {
        printf("http://127.0.0.1:%u/mcp\n", tdg_server_port(server, 0));
        fflush(stdout);
        thrd_create(&background, update_in_background, server);
        thrd_detach(background);
        rv = tdg_server_run(server); /* until Ctrl-C */
    }
    if (rv < 0)
        fprintf(stderr, "metrics: cannot serve on port %u: %s\n", http.port,
                rv == TDG_ESYSTEM ? strerror(errno) : tdg_strerror(rv));
    json_decref(schema);
    /* The thread may be inside the server, so it is left to the end of the process. */
    return rv < 0;
}

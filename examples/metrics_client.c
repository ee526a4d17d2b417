/* SPDX-License-Identifier: MIT
 *
 * Watches the metrics that the example `metrics` serves. The client reads each change and
 * passes it to a callback, while the program does something else: here it waits for
 * Ctrl-C.
 *
 *     metrics_client URL [CPU MEMORY]     first sets the metrics, by the server's tool */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tidings/client.h>

#define METRICS "data://metrics"

/* Runs on the client's thread, so it must not wait. The event has the new content. */
static void on_event(void *user, tdg_client_t *client, const tdg_event_t *event) {
    const json_t *first = json_array_get(event->contents, 0);
    const char *text = json_string_value(json_object_get(first, "text"));

    (void)user, (void)client;
    if (event->kind == TDG_EVENT_UPDATED)
        printf("Metrics updated: %s\n", text != NULL ? text : event->message);
    else if (event->kind == TDG_EVENT_DOWN)
        printf("Connection lost (%s), reconnecting\n", event->message);
    else if (event->kind == TDG_EVENT_UP)
        printf("Reconnected\n");
    fflush(stdout);
}

static int set_metrics(tdg_client_t *client, const char *cpu, const char *memory,
                       tdg_failure_t *failure) {
    json_t *arguments = json_pack("{s:f, s:f}", "cpu", atof(cpu), "memory", atof(memory));
    json_t *result;

    int rv = tdg_client_call(client, "update_metrics", arguments, &result, failure);
    if (rv < 0)
        return rv;

    const json_t *first = json_array_get(json_object_get(result, "content"), 0);
    const char *text = json_string_value(json_object_get(first, "text"));
    printf("The tool answers: %s\n", text != NULL ? text : "nothing");
    fflush(stdout);
    json_decref(result);
    return 0;
}

static void print_subscriptions(tdg_client_t *client) {
    json_t *list, *uri;
    size_t i;

    if (tdg_client_subscriptions(client, &list) < 0)
        return;
    json_array_foreach(list, i, uri) printf("Subscribed to %s\n", json_string_value(uri));
    fflush(stdout);
    json_decref(list);
}

static int help(FILE *out) {
    fputs("usage: metrics_client [URL [CPU MEMORY]]\n\n"
          "Prints the metrics that the example `metrics` serves at URL (default\n"
          "http://127.0.0.1:8080) whenever they change. CPU and MEMORY set them first.\n"
          "Ctrl-C stops it.\n",
          out);
    return out == stdout ? 0 : 2;
}

int main(int argc, char **argv) {
    tdg_client_opts_t opts = {.url = argc > 1 ? argv[1] : "http://127.0.0.1:8080",
                              .on_event = on_event};
    tdg_subscribe_opts_t reread = {.reread = true};
    tdg_failure_t failure = {0};
    tdg_client_t *client = NULL;
    sigset_t ends;
    int signal;

    if (argc > 1 && argv[1][0] == '-')
        return help(strcmp(argv[1], "--help") == 0 ? stdout : stderr);

    /* Blocked here, so that only sigwait() below receives them. */
    sigemptyset(&ends);
    sigaddset(&ends, SIGINT);
    sigaddset(&ends, SIGTERM);
    sigprocmask(SIG_BLOCK, &ends, NULL);

    int rv = tdg_client_connect(&opts, &client, &failure);
    if (rv == 0)
        rv = tdg_client_subscribe(client, METRICS, &reread, &failure);
    if (rv == 0) {
        print_subscriptions(client);
        if (argc > 3)
            rv = set_metrics(client, argv[2], argv[3], &failure);
    }
    if (rv == 0) {
        sigwait(&ends, &signal);
        rv = tdg_client_unsubscribe(client, METRICS, &failure);
        printf("Unsubscribed\n");
    }
    if (rv < 0)
        fprintf(stderr, "metrics_client: %s\n", failure.message);
    tdg_failure_done(&failure);
    tdg_client_close(client);
    return rv < 0;
}

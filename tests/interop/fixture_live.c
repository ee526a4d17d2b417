/* SPDX-License-Identifier: MIT
 *
 * Resources that change when a test says so. live://counter and live://a to live://z are
 * listed, live://item/{id} is a template. Whoever subscribes to something under slow://
 * waits for its acknowledgement until a test calls the tool `arm`; under deny:// the
 * watcher refuses. fixed://rock cannot be subscribed to. */
#include "fixture.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static struct live {
    char uri[16];
    unsigned changes;
} live[27];

static json_t *started, *stopped; /* name of a target: how often */

/* ---- Reading ------------------------------------------------------------ */

static void read_live(void *user, tdg_request_t *request, const char *uri) {
    const struct live *resource = user;
    char text[64];

    (void)uri;
    pthread_mutex_lock(&lock);
    snprintf(text, sizeof(text), "%s changed %u times", resource->uri, resource->changes);
    pthread_mutex_unlock(&lock);
    tdg_request_reply_text(request, text);
}

static void read_any(void *user, tdg_request_t *request, const char *uri) {
    (void)user;
    if (strstr(uri, "missing") != NULL)
        tdg_request_fail_not_found(request);
    else
        tdg_request_reply_text(request, uri);
}

void fixture_live_changed(const char *uri) {
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < sizeof(live) / sizeof(live[0]); i++)
        if (strcmp(live[i].uri, uri) == 0)
            live[i].changes++;
    pthread_mutex_unlock(&lock);
}

static void complete_item(void *user, tdg_request_t *request, const char *argument,
                          const char *value, const json_t *context) {
    static const char *const known[] = {"one", "three", "thirty", "two"};
    json_t *values = json_array();

    (void)user;
    (void)context;
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (strcmp(argument, "id") == 0 && strncmp(known[i], value, strlen(value)) == 0)
            json_array_append_new(values, json_string(known[i]));
    tdg_request_reply_completion(request, values, (uint32_t)json_array_size(values),
                                 false);
}

/* ---- The watcher -------------------------------------------------------- */

static void count(json_t **where, const char *name) {
    pthread_mutex_lock(&lock);
    if (*where == NULL)
        *where = json_object();
    json_object_set_new(
        *where, name,
        json_integer(json_integer_value(json_object_get(*where, name)) + 1));
    pthread_mutex_unlock(&lock);
}

static int start(void *user, tdg_server_t *server, const tdg_target_t *target) {
    (void)user;
    (void)server;
    count(&started, target->name);
    if (strncmp(target->name, "slow://", 7) == 0)
        return TDG_WATCH_PENDING;
    if (strncmp(target->name, "deny://", 7) == 0)
        return TDG_EREFUSED;
    return 0;
}

static void stop(void *user, tdg_server_t *server, const tdg_target_t *target) {
    (void)user;
    (void)server;
    count(&stopped, target->name);
}

const tdg_watcher_t fixture_watcher = {.start = start, .stop = stop};

int fixture_live_arm(tdg_server_t *server, const char *uri, int error) {
    return tdg_server_watch_done(server, &(tdg_target_t){TDG_TARGET_URI, uri}, error);
}

json_t *fixture_live_watched(void) {
    json_t *both;

    pthread_mutex_lock(&lock);
    both = json_pack("{s:o, s:o}", "started",
                     started != NULL ? json_copy(started) : json_object(), "stopped",
                     stopped != NULL ? json_copy(stopped) : json_object());
    pthread_mutex_unlock(&lock);
    return both;
}

void fixture_live_done(void) {
    json_decref(started);
    json_decref(stopped);
}

/* ---- Adding them -------------------------------------------------------- */

static int add_letters(tdg_server_t *server) {
    int rv = 0;

    for (size_t i = 0; i < sizeof(live) / sizeof(live[0]) && rv == 0; i++) {
        if (i == 0)
            strcpy(live[i].uri, "live://counter");
        else
            snprintf(live[i].uri, sizeof(live[i].uri), "live://%c", (char)('a' + i - 1));
        rv = tdg_server_add_resource(server, &(tdg_resource_t){
                                                 .uri = live[i].uri,
                                                 .name = live[i].uri + strlen("live://"),
                                                 .description = "Changes when told to.",
                                                 .mime_type = "text/plain",
                                                 .read = read_live,
                                                 .user = &live[i],
                                             });
    }
    return rv;
}

static const struct {
    const char *uri_template, *name;
    tdg_complete_fn complete;
} templates[] = {
    {"live://item/{id}", "item", complete_item},
    {"slow://{name}", "slow", NULL},
    {"deny://{name}", "denied", NULL},
};

int fixture_add_live(tdg_server_t *server) {
    tdg_resource_t rock = {.uri = "fixed://rock",
                           .name = "rock",
                           .description = "Never changes; nobody can subscribe to it.",
                           .read = read_any,
                           .not_subscribable = true};
    tdg_resource_t note = {.uri = "private://note",
                           .name = "note",
                           .description =
                               "Not for shared caches, fresh for five seconds.",
                           .read = read_any,
                           .private_content = true,
                           .ttl_ms = 5000};
    int rv;

    rv = add_letters(server);
    if (rv == 0)
        rv = tdg_server_add_resource(server, &rock);
    if (rv == 0)
        rv = tdg_server_add_resource(server, &note);
    for (size_t i = 0; i < sizeof(templates) / sizeof(templates[0]) && rv == 0; i++)
        rv = tdg_server_add_template(
            server, &(tdg_template_t){.uri_template = templates[i].uri_template,
                                      .name = templates[i].name,
                                      .description = "Any name; none with \"missing\".",
                                      .mime_type = "text/plain",
                                      .read = read_any,
                                      .complete = templates[i].complete});
    return rv;
}

/* SPDX-License-Identifier: MIT
 *
 * A tool call that is answered when a test says so, by a key: hold {key} waits, advance
 * reports its progress, held says whether it is there and cancelled, release answers it.
 */
#include "fixture.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static pthread_mutex_t held_lock = PTHREAD_MUTEX_INITIALIZER;
static struct held {
    struct held *next;
    tdg_request_t *request;
    char key[64];
} * held;

static void call_hold(void *user, tdg_request_t *request, const json_t *arguments) {
    const char *key = fixture_string(request, arguments, "key");
    struct held *entry;

    (void)user;
    if (key == NULL)
        return;
    entry = calloc(1, sizeof(*entry));
    if (entry == NULL)
        abort();
    entry->request = request;
    snprintf(entry->key, sizeof(entry->key), "%s", key);
    pthread_mutex_lock(&held_lock);
    entry->next = held;
    held = entry;
    pthread_mutex_unlock(&held_lock);
}

/* Takes the entry with this key, or any; NULL where there is none. */
static struct held *take_held(const char *key) {
    struct held **place, *entry;

    pthread_mutex_lock(&held_lock);
    for (place = &held; *place != NULL; place = &(*place)->next)
        if (key == NULL || strcmp((*place)->key, key) == 0)
            break;
    entry = *place;
    if (entry != NULL)
        *place = entry->next;
    pthread_mutex_unlock(&held_lock);
    return entry;
}

static void call_release(void *user, tdg_request_t *request, const json_t *arguments) {
    const char *key = fixture_string(request, arguments, "key");
    const char *text = json_string_value(json_object_get(arguments, "text"));
    struct held *entry;
    bool cancelled;

    (void)user;
    if (key == NULL)
        return;
    entry = take_held(key);
    if (entry == NULL) {
        tdg_request_reply_tool_error(request, "not held");
        return;
    }
    cancelled = tdg_request_cancelled(entry->request);
    tdg_request_reply_text(entry->request, text != NULL ? text : "released");
    free(entry);
    fixture_reply_object(request, json_pack("{s:b}", "cancelled", cancelled));
}

/* {key, progress, total}: the call that is held is that far. */
static void call_advance(void *user, tdg_request_t *request, const json_t *arguments) {
    const char *key = fixture_string(request, arguments, "key");
    int rv = TDG_ENOTFOUND;

    (void)user;
    if (key == NULL)
        return;
    pthread_mutex_lock(&held_lock);
    for (const struct held *entry = held; entry != NULL; entry = entry->next)
        if (strcmp(entry->key, key) == 0) {
            tdg_request_progress(entry->request, fixture_number(arguments, "progress", 1),
                                 fixture_number(arguments, "total", 0), "working");
            rv = 0;
        }
    pthread_mutex_unlock(&held_lock);
    fixture_reply_code(request, rv);
}

/* Whether something is held by that key, and cancelled. */
static void call_held(void *user, tdg_request_t *request, const json_t *arguments) {
    const char *key = fixture_string(request, arguments, "key");
    bool there = false, cancelled = false;

    (void)user;
    if (key == NULL)
        return;
    pthread_mutex_lock(&held_lock);
    for (const struct held *entry = held; entry != NULL; entry = entry->next)
        if (strcmp(entry->key, key) == 0) {
            there = true;
            cancelled = tdg_request_cancelled(entry->request);
        }
    pthread_mutex_unlock(&held_lock);
    fixture_reply_object(request,
                         json_pack("{s:b, s:b}", "held", there, "cancelled", cancelled));
}

void fixture_release_all(void) {
    struct held *entry;

    while ((entry = take_held(NULL)) != NULL) {
        tdg_request_reply_text(entry->request, "the server stops");
        free(entry);
    }
}

static const struct offered_tool tools[] = {
    {"hold", "Is answered when release is called.", call_hold, WITH_STRING("key")},
    {"release", "Answers what is held.", call_release, WITH_STRING("key")},
    {"held", "Says whether something is held.", call_held, WITH_STRING("key")},
    {"advance", "Reports progress of what is held.", call_advance, WITH_STRING("key")},
};

int fixture_add_held(tdg_server_t *server) {
    return fixture_offer_tools(server, tools, sizeof(tools) / sizeof(tools[0]));
}

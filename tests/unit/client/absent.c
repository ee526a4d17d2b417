/* SPDX-License-Identifier: MIT
 *
 * Stands in for parts of the client that a test links without: weak, so that the real
 * ones win wherever they are linked. Linked last. */
#include "support.h"

#include "base/alloc.h"
#include "client/internal.h"

#define ABSENT __attribute__((weak))

/* ---- Subscriptions and updates ------------------------------------------ */

ABSENT int tdg__subs_init(tdg__core_t *core) {
    (void)core;
    return 0;
}

ABSENT void tdg__subs_done(tdg__core_t *core) {
    (void)core;
}

ABSENT void tdg__subs_up(tdg__core_t *core) {
    (void)core;
}

ABSENT void tdg__subs_down(tdg__core_t *core, int code, const char *why) {
    (void)core;
    (void)code;
    (void)why;
}

ABSENT void tdg__subs_stop(tdg__core_t *core) {
    (void)core;
}

ABSENT void tdg__updates_notification(tdg__core_t *core, tdg__asked_t *on,
                                      const tdg__rpc_message_t *message) {
    (void)core;
    (void)on;
    (void)message;
}

/* ---- Events ------------------------------------------------------------- */

ABSENT tdg_event_t *tdg__event_create(tdg_event_kind_t kind, const char *uri,
                                      json_t *metadata, json_t *contents, int code,
                                      const char *message) {
    tdg_event_t *event = tdg__calloc(1, sizeof(*event));

    if (event == NULL)
        return NULL;

    event->kind = kind;
    event->uri = tdg__strdup(uri);
    event->metadata = json_incref(metadata);
    event->contents = json_incref(contents);
    event->code = code;
    event->message = tdg__strdup(message);
    return event;
}

ABSENT void tdg_event_free(tdg_event_t *event) {
    if (event == NULL)
        return;

    tdg__free((char *)(uintptr_t)event->uri);
    tdg__free((char *)(uintptr_t)event->message);
    json_decref((json_t *)(uintptr_t)event->metadata);
    json_decref((json_t *)(uintptr_t)event->contents);
    tdg__free(event);
}

/* ---- Requests and the connection ---------------------------------------- */

ABSENT int tdg__calls_init(tdg__core_t *core) {
    (void)core;
    return 0;
}

ABSENT void tdg__calls_done(tdg__core_t *core) {
    (void)core;
}

ABSENT int tdg__connect_init(tdg__core_t *core) {
    (void)core;
    return 0;
}

ABSENT void tdg__connect_done(tdg__core_t *core) {
    (void)core;
}

ABSENT void tdg__core_connect(tdg__core_t *core, tdg__core_done_fn done, void *user) {
    (void)core;
    (void)done;
    (void)user;
}

ABSENT void tdg__core_stop(tdg__core_t *core, void (*done)(void *user), void *user) {
    (void)core;
    (void)done;
    (void)user;
}

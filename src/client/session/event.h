/* SPDX-License-Identifier: MIT
 *
 * Events as the public header defines them: created and merged here, and kept in a queue
 * until they are fetched. The queue holds at most one event per resource (the newest,
 * with a count of the merged ones), one per list, one for the state of the connection and
 * a bounded number of log messages, so that a slow reader costs no more than its
 * subscriptions. If metadata and contents exceed their limit in total, further events are
 * reported without them. Order: a merged event keeps the place of the first one.
 *
 * Events may be created and merged on any thread; the queue has its own lock. */
#ifndef TDG_CLIENT_EVENT_H
#define TDG_CLIENT_EVENT_H

#include <stdbool.h>
#include <stddef.h>

#include <tidings/client.h>

enum {
    TDG__EVENTS_MAX_MESSAGES = 256,       /* log messages that wait; the oldest goes */
    TDG__EVENTS_MAX_OWN_BYTES = 64 << 20, /* of events with their URIs, see put */
    TDG__EVENTS_MAX_BYTES = 64 << 20,     /* of metadata and contents that wait */
};

/* A new event of a kind, at the time of now; `uri`, which may be NULL, and `message` are
 * copied; a reference to `metadata` and `contents` is taken where not NULL. NULL when
 * memory is out. Free with tdg_event_free(). */
tdg_event_t *tdg__event_create(tdg_event_kind_t kind, const char *uri, json_t *metadata,
                               json_t *contents, int code, const char *message);

/* Adds the memory of its metadata to *account, until the event is discharged or freed. An
 * event that would make it more than `max_bytes` loses its metadata, as in put. On the
 * thread of the account. Again does nothing. Discharging takes NULL. */
void tdg__event_charge(tdg_event_t *event, size_t *account, size_t max_bytes);
void tdg__event_discharge(tdg_event_t *event);

/* Of two that become one: where the server gives no versions and both have a numeric
 * metadata.version, the newer one gets the metadata with the higher; contents stay, as
 * what was read later is newer. Both are charged to the same account, or neither is. */
void tdg__event_keep_higher(tdg_event_t *older, tdg_event_t *newer);

/* The newer one stands for both from now on: its metadata as above, the counts added. A
 * `maybe` stays only while both are; so does `polled`. What the newer one does not need
 * is left in the older one, for the caller to free. */
void tdg__event_merge(tdg_event_t *older, tdg_event_t *newer);

/* Whether both are numbers, and the first is the lower one. NULL is none. */
bool tdg__event_is_lower(const json_t *number, const json_t *other);

typedef struct tdg__events tdg__events_t;

/* Returns 0, TDG_ENOMEM or TDG_ESYSTEM. */
int tdg__events_create(tdg__events_t **ret);
void tdg__events_destroy(tdg__events_t *events);

/* Adds or merges; the event is stolen, even on failure. NULL stands for one that there
 * was no memory for. Returns 0 or TDG_ENOMEM (that, or MAX_OWN_BYTES of resources wait):
 * then the loss is remembered, and the next fetch gives TDG_ENOMEM, once. DELETED, LOST
 * and UPDATED of one resource: the newer kind, the counts added. A `maybe` stays only
 * while all that were merged are; so does `polled`. DOWN and UP replace each other;
 * CLOSED takes the place of both, behind all others. One that would make it more than
 * MAX_BYTES loses its contents, then its metadata, and gets the code TDG_ETOOLARGE where
 * it has none; one that waits alone may have any size. After the end nothing is added. */
int tdg__events_put(tdg__events_t *events, tdg_event_t *event);

/* Wakes who waits; after some dozen events that happens by itself. To wake a thread for
 * every one of many costs more than all the rest, so whoever puts calls this before it
 * waits, or does anything else that takes long. */
void tdg__events_wake(tdg__events_t *events);

void tdg__events_forget(tdg__events_t *events,
                        const char *uri);    /* those that wait for it */
void tdg__events_end(tdg__events_t *events); /* after what waits: TDG_EENDED */

/* As tdg_client_next(). `timeout_ms` as there. The descriptor is readable while the next
 * fetch would not have to wait: also when it would give TDG_ENOMEM or TDG_EENDED. */
int tdg__events_next(tdg__events_t *events, int timeout_ms, tdg_event_t **ret);
int tdg__events_fd(tdg__events_t *events);
size_t tdg__events_waiting(tdg__events_t *events);
uint64_t tdg__events_lost(tdg__events_t *events); /* in all */

#endif

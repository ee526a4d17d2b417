/* SPDX-License-Identifier: MIT
 *
 * An event is one block: the public part, its places in the queue and in the table of
 * resources, and its texts. Adding one therefore needs no memory, and merging means that
 * the newer block takes the places of the older one.
 *
 *     queue           all, oldest first
 *     table           resources by hash; collisions are chained
 *     lists, state    the one that waits of each kind, or NULL
 *
 * The table grows when it can; where memory is out its chains get longer instead. */
#include "client/session/event.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/queue.h"

enum {
    LISTS = TDG_LIST_PROMPTS + 1,
    TABLE_START = 64,
    MAX_UNSPOKEN = 64, /* so many events take a fraction of a millisecond */
};

typedef struct record {
    tdg_event_t event; /* first: a tdg_event_t * is a record * */
    tdg__queue_t in_queue;
    struct record *chain; /* the next one with the same place in the table */
    uint64_t hash;
    size_t metadata_bytes, contents_bytes; /* about; in the queue, or charged */
    size_t *account;                       /* that it is charged to; NULL: none */
    char texts[]; /* uri and message, each with its NUL, where there is one */
} record_t;

struct tdg__events {
    pthread_mutex_t lock;
    pthread_cond_t something; /* there is something to fetch, or the end */
    int fd;
    bool watched;    /* somebody has asked for the descriptor */
    bool readable;   /* it is */
    size_t unspoken; /* added since those who wait were woken last */

    tdg__queue_t queue;
    size_t count, messages;
    size_t bytes;     /* of metadata and contents */
    size_t own_bytes; /* of the events of resources, without these */
    uint64_t lost;    /* events, in all */
    bool lost_unsaid, ended;

    tdg__hash_key_t key;
    record_t **table;
    size_t mask; /* places in the table, a power of two, less one */
    size_t resources;
    record_t *lists[LISTS];
    record_t *state; /* DOWN, UP */
};

/* ---- Making ------------------------------------------------------------- */

static const char *put_text(char **room, const char *text) {
    char *copy = *room;
    size_t size;

    if (text == NULL)
        return NULL;

    size = strlen(text) + 1;
    memcpy(copy, text, size);
    *room += size;
    return copy;
}

tdg_event_t *tdg__event_create(tdg_event_kind_t kind, const char *uri, json_t *metadata,
                               json_t *contents, int code, const char *message) {
    size_t size =
        (uri != NULL ? strlen(uri) + 1 : 0) + (message != NULL ? strlen(message) + 1 : 0);
    record_t *record = tdg__malloc(sizeof(*record) + size);
    char *room;

    if (record == NULL)
        return NULL;

    memset(record, 0, sizeof(*record));
    room = record->texts;
    record->event = (tdg_event_t){.kind = kind,
                                  .uri = put_text(&room, uri),
                                  .at_ms = tdg__wall_ms(),
                                  .metadata = json_incref(metadata),
                                  .contents = json_incref(contents),
                                  .code = code,
                                  .message = put_text(&room, message)};
    return &record->event;
}

/* The values are ours; that they are const is for those who look at them. */
static void release(const json_t *value) {
    json_decref((json_t *)(uintptr_t)value);
}

void tdg__event_discharge(tdg_event_t *event) {
    record_t *record = (record_t *)event;

    if (record == NULL || record->account == NULL)
        return;
    *record->account -= record->metadata_bytes;
    record->account = NULL;
}

void tdg_event_free(tdg_event_t *event) {
    if (event == NULL)
        return;
    tdg__event_discharge(event);
    release(event->metadata);
    release(event->contents);
    tdg__free(event);
}

/* ---- Size --------------------------------------------------------------- */

static size_t bytes_of(const record_t *record) {
    return record->metadata_bytes + record->contents_bytes;
}

static size_t own_bytes_of(const record_t *record) {
    return sizeof(*record) + (record->event.uri != NULL ? strlen(record->event.uri) : 0);
}

/* Leaves out what is too much beside the `others` that wait. */
static void lighten(record_t *record, size_t others, size_t max_bytes) {
    tdg_event_t *event = &record->event;

    if (others == 0 || others + bytes_of(record) <= max_bytes || bytes_of(record) == 0)
        return;

    release(event->contents);
    event->contents = NULL;
    record->contents_bytes = 0;
    if (others + bytes_of(record) > max_bytes) {
        release(event->metadata);
        event->metadata = NULL;
        record->metadata_bytes = 0;
    }
    if (event->code == 0) {
        event->code = TDG_ETOOLARGE;
        event->message =
            "contents and metadata are left out: the limit of waiting events is exceeded";
    }
}

void tdg__event_charge(tdg_event_t *event, size_t *account, size_t max_bytes) {
    record_t *record = (record_t *)event;

    if (record->account != NULL)
        return;
    record->metadata_bytes = tdg__json_weigh(event->metadata);
    lighten(record, *account, max_bytes);
    record->account = account;
    *account += record->metadata_bytes;
}

/* ---- Numbers of the application ----------------------------------------- */

bool tdg__event_is_lower(const json_t *number, const json_t *other) {
    if (!json_is_number(number) || !json_is_number(other))
        return false;
    if (json_is_integer(number) && json_is_integer(other))
        return json_integer_value(number) < json_integer_value(other);
    return json_number_value(number) < json_number_value(other);
}

/* Each takes along what the other was charged, and its account. */
static void swap_metadata(tdg_event_t *event, tdg_event_t *other) {
    record_t *record = (record_t *)event, *beside = (record_t *)other;
    const json_t *metadata = event->metadata;
    size_t bytes = record->metadata_bytes, *account = record->account;

    event->metadata = other->metadata;
    other->metadata = metadata;
    record->metadata_bytes = beside->metadata_bytes;
    beside->metadata_bytes = bytes;
    record->account = beside->account;
    beside->account = account;
}

/* Not between kinds: what was made anew may count from 1. */
void tdg__event_keep_higher(tdg_event_t *older, tdg_event_t *newer) {
    newer->older = newer->older && older->older;
    if (older->kind != newer->kind || older->version != 0 || newer->version != 0 ||
        !tdg__event_is_lower(json_object_get(newer->metadata, "version"),
                             json_object_get(older->metadata, "version")))
        return;
    swap_metadata(older, newer);
}

/* ---- Merging ------------------------------------------------------------ */

void tdg__event_merge(tdg_event_t *older, tdg_event_t *newer) {
    uint64_t sum = (uint64_t)newer->merged + older->merged + 1;

    tdg__event_keep_higher(older, newer);
    newer->merged = sum < UINT32_MAX ? (uint32_t)sum : UINT32_MAX;
    if (newer->maybe && newer->kind == older->kind && newer->version == 0) {
        /* "It may have changed" says nothing new of what is known to have changed. */
        newer->version = older->version;
        if (newer->metadata == NULL)
            swap_metadata(older, newer);
    }
    newer->maybe = newer->maybe && older->maybe;
    newer->polled = newer->polled && older->polled;
}

/* ---- Places ------------------------------------------------------------- */

static bool is_resource(const record_t *record) {
    return record->event.kind == TDG_EVENT_UPDATED ||
           record->event.kind == TDG_EVENT_DELETED ||
           record->event.kind == TDG_EVENT_LOST;
}

static const char *uri_of(const record_t *record) {
    return record->event.uri != NULL ? record->event.uri : "";
}

/* Where the table points to the event of this resource, or would. */
static record_t **in_table(const tdg__events_t *events, uint64_t hash, const char *uri) {
    record_t **place = &events->table[hash & events->mask];

    while (*place != NULL && ((*place)->hash != hash || strcmp(uri_of(*place), uri) != 0))
        place = &(*place)->chain;
    return place;
}

/* Where the one is noted that this event merges with; NULL: it merges with none. */
static record_t **place_of(tdg__events_t *events, record_t *record) {
    if (is_resource(record)) {
        const char *uri = uri_of(record);

        record->hash = tdg__hash(&events->key, uri, strlen(uri));
        return in_table(events, record->hash, uri);
    }

    switch (record->event.kind) {
    case TDG_EVENT_LIST_CHANGED:
        return (unsigned)record->event.list < LISTS ? &events->lists[record->event.list]
                                                    : NULL;
    case TDG_EVENT_DOWN:
    case TDG_EVENT_UP:
    case TDG_EVENT_CLOSED:
        return &events->state;
    default:
        return NULL;
    }
}

static void grow(tdg__events_t *events) {
    size_t places = 2 * (events->mask + 1);
    record_t **table;

    if (events->resources <= events->mask)
        return;
    table = tdg__calloc(places, sizeof(record_t *));
    if (table == NULL)
        return; /* longer chains, then */

    tdg__free(events->table);
    events->table = table;
    events->mask = places - 1;
    for (tdg__queue_t *at = events->queue.next; at != &events->queue; at = at->next) {
        record_t *record = TDG__RECORD(record_t, in_queue, at);

        if (!is_resource(record))
            continue;
        record->chain = table[record->hash & events->mask];
        table[record->hash & events->mask] = record;
    }
}

static void append(tdg__events_t *events, record_t *record) {
    tdg__queue_append(&events->queue, &record->in_queue);
    events->count++;
    events->bytes += bytes_of(record);
    events->messages += record->event.kind == TDG_EVENT_MESSAGE;
    events->resources += is_resource(record);
    events->own_bytes += is_resource(record) ? own_bytes_of(record) : 0;
}

/* Takes it out of the queue and of its place. */
static void take_out(tdg__events_t *events, record_t *record) {
    record_t **place = is_resource(record)
                           ? in_table(events, record->hash, uri_of(record))
                           : place_of(events, record);

    tdg__queue_remove(&record->in_queue);
    if (place != NULL && *place == record)
        *place = record->chain;

    record->chain = NULL;
    events->count--;
    events->bytes -= bytes_of(record);
    events->messages -= record->event.kind == TDG_EVENT_MESSAGE;
    events->resources -= is_resource(record);
    events->own_bytes -= is_resource(record) ? own_bytes_of(record) : 0;
}

static void drop(tdg__events_t *events, record_t *record) {
    take_out(events, record);
    tdg_event_free(&record->event);
}

/* The newer one stands for both, where the older one stood. */
static void merge(tdg__events_t *events, record_t **place, record_t *newer) {
    record_t *older = *place;

    events->bytes -= bytes_of(older);
    tdg__event_merge(&older->event, &newer->event);
    lighten(newer, events->bytes, TDG__EVENTS_MAX_BYTES);
    events->bytes += bytes_of(newer);

    tdg__queue_insert(&older->in_queue, &newer->in_queue);
    tdg__queue_remove(&older->in_queue);
    newer->chain = older->chain;
    *place = newer;
    tdg_event_free(&older->event);
}

/* ---- The queue ---------------------------------------------------------- */

static record_t *first_of(const tdg__events_t *events) {
    return TDG__RECORD(record_t, in_queue, events->queue.next);
}

static bool something(const tdg__events_t *events) {
    return events->count > 0 || events->lost_unsaid || events->ended;
}

/* Under the lock: those who poll() see what those who wait would. Two system calls per
 * event are too much for a descriptor that nobody looks at. */
static void show(tdg__events_t *events) {
    bool readable = something(events);
    uint64_t number = 1;
    ssize_t done;

    if (!events->watched || readable == events->readable)
        return;

    do {
        done = readable ? write(events->fd, &number, sizeof(number))
                        : read(events->fd, &number, sizeof(number));
    } while (done < 0 && errno == EINTR);
    events->readable = readable;
}

/* Under the lock. */
static void wake(tdg__events_t *events) {
    show(events);
    if (events->unspoken > 1)
        pthread_cond_broadcast(&events->something);
    else if (events->unspoken == 1)
        pthread_cond_signal(&events->something);
    events->unspoken = 0;
}

void tdg__events_wake(tdg__events_t *events) {
    pthread_mutex_lock(&events->lock);
    wake(events);
    pthread_mutex_unlock(&events->lock);
}

int tdg__events_create(tdg__events_t **ret) {
    tdg__events_t *events = tdg__calloc(1, sizeof(*events));
    pthread_condattr_t attr;
    int rv = TDG_ENOMEM;

    if (events == NULL)
        return TDG_ENOMEM;

    tdg__queue_init(&events->queue);
    events->mask = TABLE_START - 1;
    events->table = tdg__calloc(TABLE_START, sizeof(record_t *));
    if (events->table == NULL)
        goto fail;

    rv = tdg__random(&events->key, sizeof(events->key));
    if (rv < 0)
        goto fail;

    events->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (events->fd < 0) {
        rv = TDG_ESYSTEM;
        goto fail;
    }

    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&events->something, &attr);
    pthread_condattr_destroy(&attr);
    pthread_mutex_init(&events->lock, NULL);
    *ret = events;
    return 0;

fail:
    tdg__free(events->table);
    tdg__free(events);
    return rv;
}

void tdg__events_destroy(tdg__events_t *events) {
    if (events == NULL)
        return;

    while (events->count > 0)
        drop(events, first_of(events));
    close(events->fd);
    pthread_cond_destroy(&events->something);
    pthread_mutex_destroy(&events->lock);
    tdg__free(events->table);
    tdg__free(events);
}

static void add(tdg__events_t *events, record_t *record) {
    record_t **place;

    if (record->event.kind == TDG_EVENT_CLOSED && events->state != NULL)
        drop(events, events->state); /* the last one stands behind all others */
    if (record->event.kind == TDG_EVENT_MESSAGE &&
        events->messages == TDG__EVENTS_MAX_MESSAGES) {
        record_t *oldest = first_of(events);

        while (oldest->event.kind != TDG_EVENT_MESSAGE)
            oldest = TDG__RECORD(record_t, in_queue, oldest->in_queue.next);
        drop(events, oldest);
    }

    place = place_of(events, record);
    if (place != NULL && *place != NULL) {
        merge(events, place, record);
        return;
    }
    if (place != NULL)
        *place = record;
    lighten(record, events->bytes, TDG__EVENTS_MAX_BYTES);
    append(events, record);
    grow(events);
}

/* Whether it merges, or there is room. Only templates can bring more resources than there
 * are subscriptions, and so only a server that invents them without end meets the limit.
 */
static bool fits(tdg__events_t *events, record_t *record) {
    return !is_resource(record) ||
           events->own_bytes + own_bytes_of(record) <= TDG__EVENTS_MAX_OWN_BYTES ||
           *place_of(events, record) != NULL;
}

int tdg__events_put(tdg__events_t *events, tdg_event_t *event) {
    record_t *record = (record_t *)event;
    int rv = 0;

    if (record != NULL) {
        record->metadata_bytes = tdg__json_weigh(event->metadata);
        record->contents_bytes = tdg__json_weigh(event->contents);
    }
    pthread_mutex_lock(&events->lock);
    if (events->ended) {
        tdg_event_free(event);
    } else if (record == NULL || !fits(events, record)) {
        tdg_event_free(event);
        events->lost++;
        events->lost_unsaid = true;
        rv = TDG_ENOMEM;
    } else {
        add(events, record);
    }
    events->unspoken++;
    if (events->unspoken >= MAX_UNSPOKEN)
        wake(events);
    pthread_mutex_unlock(&events->lock);
    return rv;
}

void tdg__events_forget(tdg__events_t *events, const char *uri) {
    uint64_t hash = tdg__hash(&events->key, uri, strlen(uri));
    record_t *record;

    pthread_mutex_lock(&events->lock);
    record = *in_table(events, hash, uri);
    if (record != NULL)
        drop(events, record);
    show(events);
    pthread_mutex_unlock(&events->lock);
}

void tdg__events_end(tdg__events_t *events) {
    pthread_mutex_lock(&events->lock);
    events->ended = true;
    show(events);
    pthread_cond_broadcast(&events->something);
    pthread_mutex_unlock(&events->lock);
}

/* ---- Fetching ----------------------------------------------------------- */

/* Under the lock. Whether there is something to return now. */
static bool wait_for_something(tdg__events_t *events, int timeout_ms) {
    struct timespec until = {0};
    int rv = 0;

    if (timeout_ms > 0)
        until = tdg__deadline_in(timeout_ms);
    while (!something(events) && timeout_ms != 0 && rv != ETIMEDOUT) {
        rv = timeout_ms < 0
                 ? pthread_cond_wait(&events->something, &events->lock)
                 : pthread_cond_timedwait(&events->something, &events->lock, &until);
    }
    return something(events);
}

int tdg__events_next(tdg__events_t *events, int timeout_ms, tdg_event_t **ret) {
    int rv = 0;

    pthread_mutex_lock(&events->lock);
    if (!wait_for_something(events, timeout_ms)) {
        rv = TDG_ETIMEDOUT;
    } else if (events->lost_unsaid) {
        events->lost_unsaid = false;
        rv = TDG_ENOMEM;
    } else if (events->count > 0) {
        *ret = &first_of(events)->event;
        take_out(events, first_of(events));
    } else {
        rv = TDG_EENDED;
    }
    show(events);
    pthread_mutex_unlock(&events->lock);
    return rv;
}

int tdg__events_fd(tdg__events_t *events) {
    pthread_mutex_lock(&events->lock);
    events->watched = true;
    show(events);
    pthread_mutex_unlock(&events->lock);
    return events->fd;
}

size_t tdg__events_waiting(tdg__events_t *events) {
    size_t count;

    pthread_mutex_lock(&events->lock);
    count = events->count;
    pthread_mutex_unlock(&events->lock);
    return count;
}

uint64_t tdg__events_lost(tdg__events_t *events) {
    uint64_t lost;

    pthread_mutex_lock(&events->lock);
    lost = events->lost;
    pthread_mutex_unlock(&events->lock);
    return lost;
}

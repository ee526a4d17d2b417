/* SPDX-License-Identifier: MIT
 *
 * The promise, seen from outside. Clients keep a log of what they asked for, what they
 * were told and which cursor they hold; the log survives their reconnects and knows
 * nothing of the model. What really happened to the resources is kept beside it, also
 * what nobody could see because nobody watched.
 *
 * A message that was taken is on its way until it is received; when a connection breaks,
 * the last ones may never arrive. */
#ifndef TDG_SIM_CLIENT_H
#define TDG_SIM_CLIENT_H

#include <stdbool.h>
#include <stdint.h>

#include "cast.h"
#include "core/engine.h"
#include "model.h"

enum { ON_THE_WAY = 32, KEPT_CURSORS = 64 };

/* A cursor, and when it was given out. */
struct kept_cursor {
    bool valid;
    tdg__cursor_t cursor;
    uint64_t serial;
};

/* What a client must still be told about a resource. */
struct owed {
    uint64_t number; /* a change with this number, or something newer; 0: none */
    uint64_t serial; /* an unseen one from then; 0: none */
};

struct interest {
    bool wanted;  /* the client believes to be subscribed, or wants to come back */
    bool live;    /* there is a subscription on its stream */
    bool settled; /* its watcher has answered, or timed out */
    bool acknowledged;
    bool received; /* the client knows of the acknowledgement */
    bool resumes;  /* it came with a cursor */
    bool since;    /* it asked for what changed lately */
    int filter;
    struct kept_cursor cursor;
    struct owed owed[RESOURCES];
    bool may_repeat[RESOURCES]; /* catch-up may report what the client knows */
};

struct message {
    enum { MESSAGE_ACK, MESSAGE_NOTE, MESSAGE_END } kind;
    int target; /* of an acknowledgement; of a note: the resource */
    uint64_t number;
    struct kept_cursor cursor;
};

struct client {
    tdg__stream_t stream; /* the last one, open or not */
    bool open;
    bool over; /* the end was taken */
    struct interest interests[TARGETS];
    bool told[RESOURCES]; /* on this stream */
    uint64_t told_number[RESOURCES];
    struct message messages[ON_THE_WAY];
    int message_count;
    struct kept_cursor position; /* of the last note of this stream that it received */
    bool lost[RESOURCES];        /* it went back for a note about this one */
};

struct truth {
    uint64_t serial; /* counts everything that happens */
    uint64_t epoch;
    bool shared_numbers; /* an assumed change may have the number of the last real one */
    bool may_read[CLIENTS][RESOURCES]; /* through templates */
    struct {
        uint64_t number;
        uint64_t unseen; /* serial of the last one that nobody saw */
    } resources[RESOURCES];
    struct client clients[CLIENTS];
    struct kept_cursor kept[KEPT_CURSORS]; /* what anybody received, round */
    uint64_t kept_count;
    uint64_t *hits; /* see model.h */
};

void truth_init(struct truth *truth, const struct cast_world *world, uint64_t epoch,
                uint64_t *hits);

/* Something happened to a resource. */
void truth_changed(struct truth *truth, const struct cast_news *news, uint64_t number);
void truth_unseen(struct truth *truth, int resource);
void truth_set_right(struct truth *truth, int client, int resource, bool may_read);

void client_opened(struct truth *truth, int client, tdg__stream_t stream,
                   tdg__cursor_t cursor);
/* A subscription was made or got new wishes; `cursor` is what it came with, or not valid.
 * With `since` it asked for what changed lately. */
void client_subscribed(struct truth *truth, int client, int target, int filter,
                       const struct kept_cursor *cursor, bool since,
                       const tdg__subscribed_t *how);
void client_settled(struct truth *truth, int client, int target, int status,
                    bool resumed);
void client_acknowledged(struct truth *truth, int client, int target,
                         tdg__cursor_t cursor);
void client_unsubscribed(struct truth *truth, int client, int target);
/* The client closes its stream and wants nothing any more. */
void client_left(struct truth *truth, int client);
/* The connection breaks; the last `lost` messages do not arrive. */
void client_dropped(struct truth *truth, int client, int lost);

/* The connection breaks, but the stream stays: of the last `lost` messages only the
 * acknowledgements arrive, which take another way. Returns how many did not. */
int client_loses(struct truth *truth, int client, int lost);
/* The stream went back to a cursor, its own or another one. */
void client_rewound(struct truth *truth, int client, const struct kept_cursor *cursor,
                    bool lost, bool complete);

/* A note was taken for a client; `resource` is -1 for the end. Returns NULL, or the line
 * of the promise that is broken. */
const char *client_took(struct truth *truth, int client, const tdg__note_t *note,
                        int resource);
void client_receive(struct truth *truth, int client);

/* The cursor that somebody received, so many before the last one. */
struct kept_cursor truth_kept(const struct truth *truth, unsigned age);

/* When all is quiet: whether every client that is there has been told of everything.
 * Returns NULL or the line of the promise that is broken, and by whom. */
const char *truth_check(const struct truth *truth, int *ret_client, int *ret_target,
                        int *ret_resource);

#endif

/* SPDX-License-Identifier: MIT
 *
 * A server to a simulated client (fake.h), by chance a bad one: it takes requests late
 * and in any order, loses answers and streams with what is on its way, freezes streams
 * (both sides think that they are open, and nothing passes), forgets sessions, starts
 * anew, refuses. It is one of two kinds, and may change its kind when it starts:
 *
 *     ours     holds updates back, merges them, tells them in any order, with versions
 * and cursors; who comes back with a cursor is told what changed since foreign  writes at
 * once, in order, sometimes twice; knows nothing of the past; a second GET stream of a
 * session it may refuse, also where it cannot see that the first was closed
 *
 * What ours does follows docs/engine.md, "Resuming from a cursor" and "Rewinding a
 * stream", and src/server/http/session_stream.c. */
#ifndef TDG_TESTS_UNIT_CLIENT_MODEL_H
#define TDG_TESTS_UNIT_CLIENT_MODEL_H

#include "unit/client/play.h"

enum {
    MODEL_URIS = 10, /* "r:0" and so on */
    MODEL_STREAMS = 64,
    MODEL_QUEUE = 512,
    MODEL_ANSWERS = 64,
    MODEL_NETWORK_MS = 50, /* the longest that a message is on its way; with what passes
                              between two looks, less than TDG__SUBS_OVERLAP_MS */
    MODEL_BATCH_MS = 400,  /* the longest that a server of ours holds one back */
    MODEL_KEEPALIVE_MS = 1000, /* that a server of ours announces */
};

/* A change that a server of ours has yet to write. */
struct model_flight {
    bool used;
    bool foreign; /* stands for what an unknown cursor has missed */
    uint64_t version, first;
    int64_t due;
};

struct model_cursor {
    uint64_t epoch, number;
};

/* What a listen stream or a legacy session of ours looks after. */
struct model_feed {
    unsigned uris; /* bits */
    struct model_flight flights[MODEL_URIS];
    uint64_t began[MODEL_URIS]; /* the number when it was subscribed to */
    bool told[MODEL_URIS];      /* of something then that no number shows */
};

/* On its way to the client. */
struct model_message {
    enum { MODEL_ACK, MODEL_UPDATE, MODEL_OPENING } kind;
    int64_t due;
    int uri;
    uint64_t version; /* 0: none is written */
    struct model_cursor cursor;
    uint64_t stream, event; /* of the event id */
    bool had_cursor, resumed;
};

/* A listen, or the GET stream of a session. */
struct model_stream {
    struct fake_sent *sent;
    struct model_feed feed; /* listen */
    struct model_message queue[MODEL_QUEUE];
    size_t first, end; /* what is in the queue */
    uint64_t serial;   /* the newest has the largest */
    bool frozen;       /* nothing passes, and nobody knows */
    int64_t alive_ms;  /* the last sign of life */
};

struct model_session {
    struct model_feed feed;
    bool opens_with_id;        /* the client's version can read that */
    uint64_t streams, events;  /* so far */
    struct model_cursor began; /* when the last stream began */
    uint64_t began_events;     /* the same */
    bool owes;                 /* has gone back, and nobody has said how far that came */
    struct model_cursor owed;
    uint64_t owed_events;
};

struct model {
    struct fake *f;
    bool modern, ours;
    bool fickle; /* may be of the other kind after a restart */
    bool single; /* foreign, legacy: one GET stream per session */
    bool stuck;  /* it has one of which it cannot see that it is closed */
    uint64_t serials;
    bool faults;
    uint64_t epoch, number;
    uint64_t version[MODEL_URIS]; /* number of the last change */
    struct model_session session;
    bool unknown; /* the client has yet to learn that its session is gone */
    struct model_stream streams[MODEL_STREAMS];
    struct {
        struct fake_sent *sent; /* NULL: free */
        char result[200];       /* "": lost */
        int64_t due;
    } answers[MODEL_ANSWERS];
    size_t seen; /* of f->sent */

    /* Updates that were written with epoch 0, whose versions are nobody's. */
    bool vague[MODEL_URIS];
};

void model_init(struct model *m, struct fake *f, bool modern, bool ours);

const char *model_uri(int i);
int model_index(const char *uri); /* -1: of none */
uint32_t model_chance(struct model *m, uint32_t limit);

/* A line on standard error, where TDG_TRACE is set. */
void model_trace(const struct model *m, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

void model_change(struct model *m, int i);
void model_take(struct model *m);  /* one of the requests that were not taken yet */
void model_write(struct model *m); /* what is due arrives */
void model_break(struct model *m, bool all);                    /* some streams, or all */
void model_freeze(struct model *m);                             /* some streams */
void model_forget(struct model *m);                             /* legacy: the session */
void model_initialize(struct model *m, struct fake_sent *sent); /* legacy: answers it */
void model_restart(struct model *m);

#endif

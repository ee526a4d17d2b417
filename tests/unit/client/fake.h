/* SPDX-License-Identifier: MIT
 *
 * A core with simulated time, chance and transports. What the core sends is written down;
 * the test plays the server: it answers, breaks, stays silent. Nothing happens by itself
 * but in fake_run() and what calls it; nothing sleeps.
 *
 *     fake_init(f, TDG__TRANSPORT_HTTP);
 *     fake_up(f, TDG_ERA_MODERN);                     // connects, answers the handshake
 *     tdg__core_request(f->core, "ping", NULL, 0, fake_done, note = fake_note(f));
 *     fake_result(f, fake_find(f, "ping"), "{}");
 *     assert_int_equal(fake_code(note), 0);
 *     fake_end(f);                                    // stops and destroys
 *
 * JSON in texts has ' in the place of ". Memory of the fake itself is not counted, and
 * does not fail; what a real transport would allocate (messages) does, and ends the
 * delivery with NO_MEMORY then. */
#ifndef TDG_TESTS_UNIT_CLIENT_FAKE_H
#define TDG_TESTS_UNIT_CLIENT_FAKE_H

#include <stdio.h>

#include "support.h"

#include "base/alloc.h"
#include "client/session/core.h"
#include "client/session/core_internal.h"
#include "client/subs/sub.h"
#include "client/subs/subscribing.h"

enum { FAKE_MAX_SENT = 20000, FAKE_MAX_NOTES = 20000, FAKE_MAX_TRANSPORTS = 4096 };

struct fake;
struct fake_transport;

/* One thing that the core sent: a message, or the opening of a GET stream (method "GET").
 */
struct fake_sent {
    struct fake *fake;
    struct fake_transport *transport;
    int64_t at_ms;
    char *text;             /* the message; of a GET stream: Last-Event-ID, or NULL */
    char *id;               /* JSON text; NULL: a notification or response */
    char *method;           /* "": a response of ours */
    char *name;             /* Mcp-Name, or NULL */
    char *headers;          /* Mcp-Param-..., "Name: value\n" each; "" for none */
    tdg__version_t version; /* UNKNOWN: no header */
    bool stream;
    bool over;      /* ended by the test */
    bool cancelled; /* by the core */
    const tdg__delivery_calls_t *calls;
    tdg__delivery_calls_t own_calls;
    void (*event_id)(void *user, const char *id); /* GET stream */
    void *user;
};

struct fake_transport {
    tdg__transport_t base; /* first */
    struct fake *fake;
    tdg__transport_kind_t kind;
    bool open;                                              /* `opened` was called */
    void (*opening)(void *user, int code, const char *why); /* to be called */
    void (*ending)(void *user);                             /* session: to be called */
    void (*closing)(void *arg);                             /* to be called */
    void *closing_arg;
    bool closed, lost;
    int distrusted;
    int sessions_ended, sessions_said; /* end_session: in all, with `say_so` */
};

/* How something ended; written by fake_done(). */
struct fake_note {
    struct fake *fake;
    int calls; /* of done: has to be 1 in the end */
    int code;
    int rpc_code, http_status;
    bool passing;
    char message[512];
    char *result; /* JSON text, or NULL */
    void *own;    /* for the test */
};

struct fake {
    tdg_client_opts_t client; /* defaults; change before fake_start() */
    tdg__core_t *core;
    tdg__transport_kind_t kind; /* of the first transport */
    int64_t now;
    struct dice dice;

    struct fake_transport **transports;
    size_t transport_count;
    struct fake_sent **sent;
    size_t sent_count;
    size_t answered; /* of these, those that `answer` was shown */
    struct fake_note **notes;
    size_t note_count;

    tdg_event_t *events[1024]; /* the first ones */
    size_t event_count;
    size_t events_lost; /* for want of memory */
    char *lines[256];   /* of the log, the first ones */
    size_t line_count;

    /* Shown every request once, from fake_run(); may answer it. NULL: nobody. */
    void (*answer)(struct fake *f, struct fake_sent *sent);
    /* What `open` ends with; 0: it works. */
    int open_code;
    bool hold_open;          /* `opened` is not called */
    bool hold_notifications; /* they do not end by themselves as DONE with 202 */
    bool hold_session_end;   /* end_session is not answered */
    bool token;              /* what `renew` returns */
    int renewed;
    int make_code; /* what make_wire fails with; 0: it works */
    int send_code; /* what send fails with; 0: it works */

    /* What on_input returns, as text; NULL declines. Given to the core where `inputs`. */
    bool inputs;
    const char *input_result;
    char *input_asked; /* "method params\n" of each */

    struct fake_note *connected; /* of fake_start() */
    bool stopping, stopped;
};

/* Options and simulated surroundings; the core is made by fake_create(), or by those
 * below. */
void fake_init(struct fake *f, tdg__transport_kind_t kind);
int fake_create(struct fake *f);

/* Creates, begins to connect and runs; `connected` notes how it ended. */
void fake_start(struct fake *f);

/* The same, and answers the handshake so that the core is up in that era. */
void fake_up(struct fake *f, tdg_era_t era);

/* What a server of that era answers to server/discover and initialize; for `answer`. */
void fake_modern_server(struct fake *f, struct fake_sent *sent);
void fake_legacy_server(struct fake *f, struct fake_sent *sent);

void fake_stop(struct fake *f); /* begins to; `stopped` says when it is over */

/* Stops, frees, and fails where a `done` was not called exactly once. */
void fake_end(struct fake *f);

/* ---- Time --------------------------------------------------------------- */

void fake_run(struct fake *f); /* all that is due now, without time passing */
void fake_pass(struct fake *f, int64_t ms); /* time passes, deadline by deadline */
/* To the next deadline, no further than `max_ms`. Returns how much passed; -1: there is
 * none within that. */
int64_t fake_next(struct fake *f, int64_t max_ms);

/* ---- What was sent ------------------------------------------------------ */

/* The newest that is neither over nor cancelled; fails where there is none. */
struct fake_sent *fake_find(struct fake *f, const char *method);
/* The same; NULL where there is none. */
struct fake_sent *fake_seek(struct fake *f, const char *method);
size_t fake_count(const struct fake *f, const char *method); /* in all, so far */
struct fake_sent *fake_last(struct fake *f);        /* the newest of all, over or not */
json_t *fake_message(const struct fake_sent *sent); /* new; not for GET */
json_t *fake_params(const struct fake_sent *sent);  /* new, or NULL */

/* ---- What the server does ----------------------------------------------- */

void fake_result(struct fake *f, struct fake_sent *sent, const char *result);
void fake_error(struct fake *f, struct fake_sent *sent, int code, const char *message,
                const char *data);
/* HTTP status; `body`: a JSON-RPC error object {"code": …}, or NULL. 404 to a request in
 * a session is for fake_broken() with NO_SESSION. */
void fake_status(struct fake *f, struct fake_sent *sent, int status, const char *body);
void fake_retry_after(struct fake *f, struct fake_sent *sent, int status, int64_t ms);
/* Ends without a response. */
void fake_broken(struct fake *f, struct fake_sent *sent, tdg__delivery_end_t end,
                 bool was_sent);
/* The next three are for streams, or what comes before a response. */
void fake_opened(struct fake *f, struct fake_sent *sent);
void fake_says(struct fake *f, struct fake_sent *sent, const char *message);
void fake_alive(struct fake *f,
                struct fake_sent *sent); /* NULL: of the newest transport */
void fake_retry(struct fake *f, struct fake_sent *sent, uint32_t ms);
void fake_event_id(struct fake *f, struct fake_sent *sent, const char *id); /* GET */
/* On the newest transport, with nothing in particular. */
void fake_tells(struct fake *f, const char *message);
/* Its channel is lost: everything on it ends as BROKEN first. */
void fake_lost(struct fake *f, const char *why);
struct fake_transport *fake_transport(struct fake *f); /* the newest */

/* ---- What was told ------------------------------------------------------ */

/* A note to give to fake_done(), or to a function with a `done`. */
struct fake_note *fake_note(struct fake *f);
void fake_done(void *note, int code, json_t *result, const tdg_failure_t *failure);
void fake_asked(void *note,
                const tdg__outcome_t *outcome); /* for tdg__client_request_begin() */
/* The code of a note; fails unless its `done` was called exactly once. */
int fake_code(const struct fake_note *note);

/* The events so far, as "UPDATED uri" ... one per line; forgets them. New, for free(). */
char *fake_told(struct fake *f);
bool fake_logged(const struct fake *f, const char *part);

/* Setup and teardown of a test whose state is a struct fake. */
int fake_setup_http(void **state);
int fake_setup_stdio(void **state);
int fake_teardown(void **state);

#endif

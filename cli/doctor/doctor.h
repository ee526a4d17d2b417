/* SPDX-License-Identifier: MIT
 *
 * `tidings doctor`: the declarations that its files share. doctor.c runs the checks,
 * doctor_report.c shows their results, doctor_call.c sends requests, doctor_record.c
 * records responses, doctor_hold.c waits; each other doctor_*.c is a group of checks, a
 * table with one row per check.
 *
 * It works below the client library, because it needs details that the library hides: raw
 * headers, times, the order of messages. One loop, one thread; a check sends a request
 * and waits for the response. Every wait and all recorded data are limited. Apart from
 * the limits of single waits there is that of the whole command (--timeout): when it
 * expires, every wait ends, the running check and the remaining ones are skipped, and the
 * results so far are reported. */
#ifndef TDG_CLI_DOCTOR_H
#define TDG_CLI_DOCTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>
#include <uv.h>

#include "ask/target.h"
#include "base/text.h"
#include "client/transport/child.h"
#include "client/transport/sse_reader.h"
#include "interrupt.h"
#include "net/process.h"
#include "web/web.h"

typedef struct doctor doctor_t;
typedef struct doctor_program doctor_program_t;

typedef enum doctor_era { DOCTOR_MODERN, DOCTOR_LEGACY, DOCTOR_ERAS } doctor_era_t;

enum {
    DOCTOR_MAX_URIS = 20,
    DOCTOR_MAX_BODY = 4 * 1024 * 1024, /* bytes of one answer or message */
    DOCTOR_MAX_TEXT = 4096,            /* bytes of a line of the report */
    DOCTOR_ANSWER_MS = 10000,          /* for an answer; default of --answer-limit */
    DOCTOR_BESIDE_MS = 5 * 60 * 1000,  /* for all but holding streams, as a default */
    DOCTOR_SOON_MS = 3000, /* what should come at once and is later, is late */
};

#define DOCTOR_MODERN_VERSION "2026-07-28"
#define DOCTOR_LEGACY_VERSION "2025-11-25"
#define DOCTOR_UNKNOWN_VERSION "1900-01-01"
#define DOCTOR_META "io.modelcontextprotocol/"
#define DOCTOR_ACKNOWLEDGED "notifications/subscriptions/acknowledged"

/* ---- Checks and what comes of them --------------------------------------- */

typedef enum doctor_status {
    DOCTOR_OK,
    DOCTOR_SKIPPED,
    DOCTOR_WARNING,
    DOCTOR_FAILED,
    DOCTOR_STATUSES
} doctor_status_t;

typedef struct doctor_result doctor_result_t;

enum { /* what a check needs; where that is missing it is skipped, or left out */
       DOCTOR_HTTP = 1 << 0,         /* left out elsewhere */
       DOCTOR_STDIO = 1 << 1,        /* likewise */
       DOCTOR_NEEDS_MODERN = 1 << 2, /* the server speaks it */
       DOCTOR_NEEDS_LEGACY = 1 << 3,
       DOCTOR_EACH_ERA = 1 << 4, /* runs once for each era that is spoken */
       DOCTOR_NEEDS_URI = 1 << 5,
       DOCTOR_NEEDS_SESSION = 1 << 6, /* the server names legacy sessions */
       DOCTOR_NEEDS_STREAMS = 1 << 7, /* streams were held, see doctor_hold() */
       DOCTOR_NEEDS_SILENT = 1 << 8,  /* doctor_silent() is not NULL */
       /* looks at a silent stream: whether it opened, or what came on it */
       DOCTOR_SILENT = DOCTOR_HTTP | DOCTOR_EACH_ERA | DOCTOR_NEEDS_STREAMS,
       DOCTOR_ON_SILENT = DOCTOR_SILENT | DOCTOR_NEEDS_SILENT,
};

typedef struct doctor_check {
    const char *id; /* for machines; docs/doctor.md lists them all. NULL ends a table */
    const char *title; /* for people: what is good */
    const char *did;   /* what was done; NULL: run() says it, by doctor_did() */
    unsigned needs;
    void (*run)(doctor_t *doctor); /* for its `era`, into its `result` */
} doctor_check_t;

typedef struct doctor_group {
    const char *title;
    const doctor_check_t *checks;
} doctor_group_t;

struct doctor_result {
    const doctor_group_t *group;
    const doctor_check_t *check;
    const char *era; /* NULL: it is not about one */
    doctor_status_t status;
    tdg__text_t did, saw, fix; /* fix: empty where nothing is bad */
    json_t *facts;             /* numbers for machines */
};

extern const doctor_check_t doctor_reach_checks[];
extern const doctor_check_t doctor_version_checks[];
extern const doctor_check_t doctor_capability_checks[];
extern const doctor_check_t doctor_stream_checks[];
extern const doctor_check_t doctor_head_checks[];
extern const doctor_check_t doctor_session_checks[];
extern const doctor_check_t doctor_reconnect_checks[];
extern const doctor_check_t doctor_update_checks[];
extern const doctor_check_t doctor_load_checks[];
extern const doctor_check_t doctor_program_checks[];

/* Of the running check: what was done, in one go; what was seen, piece by piece. */
void doctor_did(doctor_t *doctor, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void doctor_saw(doctor_t *doctor, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* It is bad, and this fixes it. The worst of several counts. */
void doctor_bad(doctor_t *doctor, doctor_status_t status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* There is no result, and why. */
void doctor_skip(doctor_t *doctor, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

void doctor_fact(doctor_t *doctor, const char *name, json_int_t value);

/* ---- Calls ---------------------------------------------------------------- */

/* A request or notification, or a stream. What is not set is as usual in its era. */
typedef struct doctor_request {
    doctor_era_t era;
    const char *method; /* of the message; NULL: there is none, as with GET */
    json_t *params;     /* stolen; may be NULL */
    bool notify;        /* the message is a notification */
    bool stream;        /* stays open: no time limit but that on its head */
    tdg__web_method_t http;
    const char *version, *session; /* session "": none */
    const char *body;              /* instead of the message */
    const char *content_type;
    const char *mcp_method;               /* the header Mcp-Method */
    const char *extra_name, *extra_value; /* one more header */
} doctor_request_t;

typedef struct doctor_heard {
    uint64_t at_us;
    json_t *message; /* NULL: a comment, which only shows that the stream works */
} doctor_heard_t;

/* One request and all that is heard because of it: over HTTP what its exchange carries;
 * from a program its answer and, of a stream, the notifications since. */
typedef struct doctor_call {
    struct doctor_call *next;
    doctor_t *doctor;
    doctor_program_t *program; /* NULL: over HTTP */
    bool kept;                 /* outlives the check that makes it */
    bool stream;
    json_int_t id; /* 0: no answer to this very message can be recognised */
    uint64_t began_us, over_us;
    bool over;       /* nothing more can come */
    int code;        /* why there is no answer; 0: there is, or nothing is known */
    char error[300]; /* the same for people */

    /* HTTP */
    tdg__web_exchange_t *exchange; /* NULL: it is over, or has not begun */
    bool headed;
    int status;
    char type[128], session[TDG__WEB_MAX_SESSION + 1];
    unsigned hops;
    int64_t resolved_us, connected_us, secured_us;
    json_t *fields; /* of the head, by lower-case names */
    uint64_t head_us, first_us;
    size_t bytes; /* of the body */
    tdg__text_t body;
    bool is_stream; /* of events */
    tdg__sse_reader_t sse;
    char last_id[TDG__SSE_MAX_ID + 1];

    /* What was heard. */
    doctor_heard_t *heard;
    size_t count, room, weight;
    bool full;             /* more has come than is kept */
    const json_t *message; /* the answer, and what it has; NULL: nothing */
    const json_t *result, *trouble;
    json_int_t rpc_code;
    uint64_t answered_us;
} doctor_call_t;

/* Sends a request, or opens a stream. Where that fails the call is over and says why;
 * never NULL. It is borrowed until the running check is over, unless `kept` is set. */
doctor_call_t *doctor_send(doctor_t *doctor, const doctor_request_t *request);

/* Sends it and waits for the answer. */
doctor_call_t *doctor_send_and_wait(doctor_t *doctor, const doctor_request_t *request);
doctor_call_t *doctor_ask(doctor_t *doctor, doctor_era_t era, const char *method,
                          json_t *params);

/* The smallest request of the era that is checked. */
doctor_call_t *doctor_ping(doctor_t *doctor);
/* A ping in a legacy session; "": in none. */
doctor_call_t *doctor_ping_in(doctor_t *doctor, const char *session);

/* Opens a modern listen; `uris` NULL: for list changes only. */
doctor_call_t *doctor_listen(doctor_t *doctor, json_t *uris, const char *cursor);
/* Opens the GET stream of a legacy session. */
doctor_call_t *doctor_get(doctor_t *doctor, const char *session, const char *after);
/* Hears the notifications of a program from now on. */
doctor_call_t *doctor_overhear(doctor_t *doctor, doctor_era_t era);

/* Breaks it off, and frees it. NULL is accepted. */
void doctor_end(doctor_call_t *call);
/* All but those that are kept. */
void doctor_end_calls(doctor_t *doctor);

/* Begins a legacy session of its own and stores its id ("" where it has none). Returns
 * whether that worked. */
bool doctor_new_session(doctor_t *doctor, char ret[TDG__WEB_MAX_SESSION + 1]);
/* Ends a legacy session; returns the status, 0 where there was no answer. */
int doctor_delete(doctor_t *doctor, const char *session);

/* "HTTP 404 and error -32001 (...)": for doctor_saw(), until the next call of it. */
const char *doctor_describe(const doctor_call_t *call);
/* Why there is no answer. */
const char *doctor_why(const doctor_call_t *call);

const char *doctor_field(const doctor_call_t *call, const char *name);
/* Of a listen; NULL: it has not come. */
const doctor_heard_t *doctor_acknowledgement(const doctor_call_t *call);

/* ---- Waiting ---------------------------------------------------------------- */

/* Runs the loop until it is true, or this time or that of the command is over. Returns
 * which. */
bool doctor_until(doctor_t *doctor, bool (*met)(void *arg), void *arg, int64_t ms);
/* The same for a call, with the time that an answer has. */
bool doctor_wait(doctor_call_t *call, bool (*met)(void *call));
bool doctor_is_answered(void *call); /* for it; all are also true when it is over */
bool doctor_is_headed(void *call);
bool doctor_has_bytes(void *call);
bool doctor_is_acknowledged(void *call); /* or cannot be */

uint32_t doctor_patience(const doctor_t *doctor); /* ms, for one answer; never 0 */
int64_t doctor_left_ms(const doctor_t *doctor);   /* for the command; 0: it is over */
uint64_t doctor_now_us(void);
double doctor_ms(uint64_t from_us, uint64_t to_us); /* between them */

/* ---- What is heard ------------------------------------------------------------ */

/* Begins an exchange that is recorded in the call. Returns 0 or a negative code. */
int doctor_begin_exchange(doctor_call_t *call, const tdg__web_request_t *request);
/* Frees what was recorded. */
void doctor_drop_heard(doctor_call_t *call);

/* ---- Programs ----------------------------------------------------------------- */

struct doctor_program {
    doctor_t *doctor;
    tdg__child_t *child;
    bool started, ended, gone, stopped;
    char why[300];
    size_t said, nonsense; /* lines: on standard error; that are no messages */
    char said_first[300], nonsense_first[120];
    uint64_t stopped_us, gone_us;
};

int doctor_start(doctor_t *doctor, doctor_program_t *program);
void doctor_stop(doctor_program_t *program, uint32_t wait_ms);

/* ---- The doctor -------------------------------------------------------------- */

typedef struct doctor_options {
    cli_target_t target;
    bool json;
    int color;
    long idle_ms, wait_ms; /* wait_ms 0: as long as idle_ms */
    long answer_ms;
    cli_texts_t uris;
    const char *trigger;
} doctor_options_t;

/* Streams that are held while we wait: one that nothing is expected on, one for updates.
 * NULL: it was not opened. */
typedef struct doctor_held {
    doctor_call_t *silent, *updates;
    char session[TDG__WEB_MAX_SESSION + 1]; /* legacy: that of `silent` */
    uint64_t held_us;
    bool subscribed;
    json_t *before, *after; /* hashes of contents, by URI */
} doctor_held_t;

enum { DOCTOR_PROGRAMS = DOCTOR_ERAS + 1 }; /* the last: for one initialize */

struct doctor {
    const doctor_options_t *options;
    uint64_t end_us; /* of the time for the command */
    bool late;       /* checks were skipped because of that */
    char *url;       /* with its path; NULL: a program */
    uv_loop_t loop;
    uv_signal_t signals[CLI_ENDING_SIGNALS];
    size_t signal_count;
    uv_timer_t alarm;
    uv_timer_t pulse; /* while streams are held: shows whether we are kept from running */
    uint64_t pulse_us, stalled_us; /* stalled_us: the longest that we were */
    tdg__web_t *web;
    bool web_closed;
    doctor_program_t own_programs[DOCTOR_PROGRAMS];
    doctor_program_t *programs[DOCTOR_ERAS]; /* that are asked */
    json_int_t last_id;
    char description[DOCTOR_MAX_TEXT / 8];

    doctor_call_t *calls;  /* a list */
    doctor_call_t no_call; /* where there is no memory for one */
    size_t weight;         /* of all that the calls have heard */
    doctor_call_t *first;  /* the very first request; NULL: a program */
    bool unreachable;      /* nothing else can be checked */
    int exit_code;         /* because of that */
    bool spoken[DOCTOR_ERAS];
    json_t *hello[DOCTOR_ERAS]; /* results of discover and initialize */
    char session[TDG__WEB_MAX_SESSION + 1];
    char legacy_version[32];
    json_t *uris; /* that are subscribed to */
    doctor_held_t held[DOCTOR_ERAS];
    bool held_done;
    tdg__process_t *trigger; /* NULL: it does not run */
    bool triggered, trigger_failed;
    uint64_t trigger_us;

    doctor_era_t era;        /* of the running check */
    doctor_result_t *result; /* and what comes of it */
    doctor_result_t *results;
    size_t count, room;
};

/* Whether --era lets this one be examined. */
bool doctor_wants(const doctor_t *doctor, doctor_era_t era);

/* Nothing else can be examined; the program ends with this. */
void doctor_give_up(doctor_t *doctor, int exit_code);

/* What is subscribed to: those of --uri, or the first that are listed. */
json_t *doctor_uris(doctor_t *doctor);

/* How long streams are held. */
int64_t doctor_hold_ms(const doctor_options_t *options);

/* Opens the streams of both eras, once, runs the trigger, and waits. Returns false where
 * too little time is left for that, and does nothing then. */
bool doctor_hold(doctor_t *doctor);
/* After that: the silent stream of the era, or NULL with the check skipped: it did not
 * open. */
const doctor_call_t *doctor_silent(doctor_t *doctor);

/* After that: whether a modern stream opened and not even its acknowledgement came. Then
 * what is missing in the other era has the same reason. */
bool doctor_nothing_passes(const doctor_t *doctor);

/* After that: whether an update for it has come, and when the first did. */
bool doctor_was_notified(doctor_t *doctor, doctor_era_t era, const char *uri,
                         uint64_t *ret_us);
void doctor_held_end(doctor_t *doctor);

/* Shows one result (for people, as it comes) and the end of the report. */
void doctor_show(const doctor_t *doctor, const doctor_result_t *result);
void doctor_show_progress(const doctor_t *doctor, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void doctor_show_end(const doctor_t *doctor);
int doctor_show_json(const doctor_t *doctor);

#endif

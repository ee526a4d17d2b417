/* SPDX-License-Identifier: MIT
 *
 * `tidings doctor`: what its files share. doctor.c runs the checks, doctor_report.c shows
 * what came of them, doctor_link.c and doctor_ask.c talk to the server, doctor_hold.c
 * waits; each other doctor_*.c is a group of checks, a table with one row per check.
 *
 * It works below the client library, because it must see what that hides: raw heads,
 * times, the order of messages. One loop, one thread; a check asks and waits in one go.
 * All that is waited for has a limit, and so has all that is kept. Beyond the limits of
 * single waits there is that of the whole command (--timeout): when it is over, every
 * wait is, the check that runs and those behind it are skipped, and what was found is
 * reported. */
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
#include "net/process.h"
#include "web/web.h"

typedef struct doctor doctor_t;

typedef enum doctor_era { DOCTOR_MODERN, DOCTOR_LEGACY, DOCTOR_ERAS } doctor_era_t;

enum {
    DOCTOR_MAX_URIS = 20,
    DOCTOR_MAX_HEARD = 4096,           /* messages and comments of one stream */
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
       /* looks at a silent stream */
       DOCTOR_SILENT = DOCTOR_HTTP | DOCTOR_EACH_ERA | DOCTOR_NEEDS_STREAMS,
};

typedef struct doctor_check {
    const char *id; /* for machines; docs/doctor.md lists them all. NULL ends a table */
    const char *title; /* for people: what is good */
    unsigned needs;
    void (*run)(doctor_t *doctor, doctor_era_t era, doctor_result_t *result);
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
    tdg__text_t did, saw, mend; /* mend: empty where nothing is bad */
    json_t *facts;              /* numbers for machines */
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

/* What was done, in one go; what was seen, piece by piece. */
void doctor_did(doctor_result_t *result, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void doctor_saw(doctor_result_t *result, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* It is bad, and this mends it. The worst of several counts. */
void doctor_bad(doctor_result_t *result, doctor_status_t status, const char *mend);

/* It cannot be said, and why. */
void doctor_skip(doctor_result_t *result, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

void doctor_fact(doctor_result_t *result, const char *name, json_int_t value);

/* ---- What is heard -------------------------------------------------------- */

typedef struct doctor_heard {
    uint64_t at_us;
    json_t *message; /* NULL: a comment, a sign of life */
} doctor_heard_t;

typedef struct doctor_tape {
    doctor_heard_t *heard;
    size_t count, room;
    size_t comments;
    size_t nonsense; /* what is no JSON, and was dropped */
    bool full;
} doctor_tape_t;

/* The first at or after `from` with this method; NULL: none. */
const doctor_heard_t *doctor_find_method(const doctor_tape_t *tape, size_t from,
                                         const char *method);
/* The answer to a request. */
json_t *doctor_find_answer(const doctor_tape_t *tape, json_int_t id);
/* The parts of an update; NULL: it is none. */
const char *doctor_updated_uri(const json_t *message);

/* ---- HTTP ----------------------------------------------------------------- */

typedef struct doctor_request {
    tdg__web_method_t method;
    doctor_era_t era;
    const char *body;                     /* NULL: none */
    const char *content_type;             /* NULL: application/json */
    const char *rpc_method;               /* Mcp-Method; NULL: none */
    const char *rpc_name;                 /* Mcp-Name, plain; NULL: none */
    const char *version;                  /* MCP-Protocol-Version; NULL: none */
    const char *session;                  /* Mcp-Session-Id; NULL: none */
    const char *extra_name, *extra_value; /* one more header; NULL: none */
    bool stream;                          /* stays open: no limit but that on the head */
    uint32_t head_ms;                     /* 0: the usual */
} doctor_request_t;

typedef struct doctor_exchange {
    doctor_t *doctor;
    tdg__web_exchange_t *exchange; /* NULL: it is over, or has not begun */
    bool begun, over;
    int code; /* as in tdg__web_end_t */
    char error[300];
    bool headed;
    int status;
    char type[128], session[TDG__WEB_MAX_SESSION + 1];
    unsigned hops;
    char url[CLI_TARGET_NAME_MAX]; /* that answered */
    int64_t resolved_us, connected_us, secured_us;
    json_t *fields; /* of the head, by lower-case names */
    uint64_t began_us, head_us, first_us, over_us;
    size_t bytes;
    size_t chunks; /* pieces in which the body came */
    tdg__text_t body;
    tdg__sse_reader_t sse;
    bool is_stream;
    char last_id[TDG__SSE_MAX_ID + 1];
    doctor_tape_t tape;
} doctor_exchange_t;

int doctor_begin(doctor_t *doctor, const doctor_request_t *request,
                 doctor_exchange_t *ret);
void doctor_end(
    doctor_exchange_t *exchange); /* breaks it off, and frees; twice is fine */
const char *doctor_field(const doctor_exchange_t *exchange, const char *name);

/* ---- Programs -------------------------------------------------------------- */

typedef struct doctor_program {
    doctor_t *doctor;
    tdg__child_t *child;
    bool started, ended, gone, stopped;
    char why[300];
    size_t said;
    char said_first[300];
    char nonsense_first[120];
    uint64_t stopped_us, gone_us;
    doctor_tape_t tape;
} doctor_program_t;

int doctor_start(doctor_t *doctor, doctor_program_t *program);
void doctor_stop(doctor_program_t *program, uint32_t wait_ms);
void doctor_program_done(doctor_program_t *program); /* frees what was heard */

/* ---- Asking ----------------------------------------------------------------- */

typedef struct doctor_answer {
    int code; /* 0: there is one; else TDG_E..., with `error` */
    char error[300];
    int status;               /* of HTTP; 0: none */
    json_t *message;          /* new */
    json_t *result, *trouble; /* borrowed from it; NULL: it has none */
    json_int_t rpc_code;      /* of trouble; 0: none */
    uint64_t us;              /* that it took */
    char session[TDG__WEB_MAX_SESSION + 1];
} doctor_answer_t;

/* One request and its answer, in the way of the era. `params` is stolen, may be NULL.
 * `version` and `session` NULL: the usual ones. */
void doctor_ask(doctor_t *doctor, doctor_era_t era, const char *method, json_t *params,
                doctor_answer_t *ret);
void doctor_ask_as(doctor_t *doctor, doctor_era_t era, const char *version,
                   const char *session, const char *method, json_t *params,
                   doctor_answer_t *ret);
void doctor_notify(doctor_t *doctor, doctor_era_t era, const char *session,
                   const char *method);
void doctor_answer_done(doctor_answer_t *answer);

/* "was answered with ...": for doctor_saw(); in a buffer of the doctor, until the next
 * call. */
const char *doctor_describe(doctor_t *doctor, const doctor_answer_t *answer);
const char *doctor_describe_exchange(doctor_t *doctor, const doctor_exchange_t *exchange);

/* The text of a request, new; NULL: no memory. `params` is stolen. */
char *doctor_compose(doctor_era_t era, const char *version, json_int_t id,
                     const char *method, json_t *params);
json_int_t doctor_next_id(doctor_t *doctor);

/* Begins a legacy session of its own and stores its id ("" where it has none). Returns
 * whether that worked. */
bool doctor_new_session(doctor_t *doctor, char *ret, size_t size);

/* Ends a legacy session; returns the status, 0 where nothing was said. */
int doctor_delete(doctor_t *doctor, const char *session);

/* Opens a modern listen; `uris` NULL: for list changes only. Its id is stored. */
int doctor_listen(doctor_t *doctor, json_t *uris, const char *cursor, json_int_t *ret_id,
                  doctor_exchange_t *ret);
/* Opens the GET stream of a legacy session. */
int doctor_get(doctor_t *doctor, const char *session, const char *after,
               doctor_exchange_t *ret);

/* Runs the loop until it is true, or this time or that of the command is over. Returns
 * which. */
bool doctor_until(doctor_t *doctor, bool (*met)(void *arg), void *arg, int64_t ms);
bool doctor_headed(void *exchange); /* for it */
bool doctor_over(void *exchange);
bool doctor_first_byte(void *exchange); /* or over */
void doctor_rest(doctor_t *doctor, int64_t ms);
uint32_t doctor_patience(const doctor_t *doctor); /* ms, for one answer; never 0 */
int64_t doctor_left_ms(const doctor_t *doctor);   /* for the command; 0: it is over */
uint64_t doctor_now_us(void);

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
 */
typedef struct doctor_held {
    doctor_exchange_t silent, updates;
    char session[TDG__WEB_MAX_SESSION + 1]; /* legacy: that of `silent` */
    json_int_t silent_id, updates_id;
    size_t from; /* where `updates` begins on the tape of a program */
    uint64_t held_us;
    bool subscribed;
    json_t *before, *after; /* contents by URI */
} doctor_held_t;

enum { DOCTOR_PROGRAMS = DOCTOR_ERAS + 1 }; /* the last: for one initialize */

struct doctor {
    const doctor_options_t *options;
    uint64_t end_us; /* of the time for the command */
    bool late;       /* checks were skipped because of that */
    const char *url; /* with its path; NULL: a program */
    char *own_url;
    uv_loop_t loop;
    uv_signal_t signals[3];
    uv_timer_t alarm;
    uv_timer_t pulse; /* while streams are held: shows whether we are kept from running */
    uint64_t pulse_us, stalled_us; /* stalled_us: the longest that we were */
    tdg__web_t *web;
    bool web_closed;
    doctor_program_t own_programs[DOCTOR_PROGRAMS];
    doctor_program_t *programs[DOCTOR_ERAS]; /* that are asked */
    json_int_t last_id;
    char description[DOCTOR_MAX_TEXT / 8];

    doctor_exchange_t first; /* the very first request */
    bool unreachable;        /* nothing else can be checked */
    int exit_code;           /* because of that */
    bool spoken[DOCTOR_ERAS];
    json_t *capabilities[DOCTOR_ERAS]; /* borrowed from hello */
    json_t *hello[DOCTOR_ERAS];        /* results of discover and initialize */
    char session[TDG__WEB_MAX_SESSION + 1];
    char legacy_version[32];
    json_t *uris; /* that are subscribed to */
    bool uris_asked;
    doctor_held_t held[DOCTOR_ERAS];
    bool held_done;
    tdg__process_t *trigger; /* NULL: it does not run */
    bool triggered, trigger_failed;
    uint64_t trigger_us;

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
/* After that: the silent stream, or NULL with the result skipped: it did not open. */
const doctor_exchange_t *doctor_silent(doctor_t *doctor, doctor_era_t era,
                                       doctor_result_t *result);

/* After that: whether a modern stream opened and not even its acknowledgement came. Then
 * what is missing in the other era has the same reason. */
bool doctor_nothing_passes(const doctor_t *doctor);

/* After that: whether an update for it has come, and when the first did. */
bool doctor_was_told(doctor_t *doctor, doctor_era_t era, const char *uri,
                     uint64_t *ret_us);
void doctor_held_end(doctor_t *doctor);

/* Shows one result (for people, as it comes) and the end of the report. */
void doctor_show(const doctor_t *doctor, const doctor_result_t *result);
void doctor_show_progress(const doctor_t *doctor, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void doctor_show_end(const doctor_t *doctor);
int doctor_show_json(const doctor_t *doctor);

#endif

/* SPDX-License-Identifier: MIT
 *
 * For the tests of the wires: a loop, a wire whose calls are written down, and parcels
 * with what became of them. Nothing sleeps: the loop runs until what is waited for has
 * happened, or the test fails because it never did. JSON in texts has ' for ". */
#ifndef TDG_TESTS_CLIENT_WIRES_H
#define TDG_TESTS_CLIENT_WIRES_H

#include "client/wire.h"
#include "support.h"

enum { WIRES_PATIENCE_MS = 60000, WIRES_LOG = 64, WIRES_TEXT = 600 };

enum moment { NEVER, IN_OPENED, IN_MESSAGE, IN_ALIVE, IN_RETRY, IN_ENDED, IN_LOST };

struct wires {
    uv_loop_t loop;
    uv_timer_t pulse;
    tdg__wire_t *wire; /* NULL: none, or closed */
    bool closing;
    int opened, open_code;
    size_t messages, lost, alive, retries, said, warned, closed, sessions_ended, ids;
    size_t refused;                      /* sends for which there was no memory */
    char message[WIRES_LOG][WIRES_TEXT]; /* JSON text of the last ones, by number */
    char why[WIRES_TEXT], word[WIRES_TEXT], warning[WIRES_TEXT], last_id[WIRES_TEXT];
    uint32_t retry_ms;
    enum moment close_at; /* closes the wire from inside of that call */
};

/* What became of a parcel. */
struct note {
    struct wires *w;
    tdg__carry_t *carry; /* NULL: over */
    size_t opened, messages, alive, retries, ended;
    int open_status;
    uint32_t retry_ms;
    char message[WIRES_LOG][WIRES_TEXT];
    tdg__carry_end_t end;
    int status;
    char body[WIRES_TEXT]; /* JSON text of the error; "" for none */
    char error[WIRES_TEXT], authenticate[WIRES_TEXT];
    int64_t retry_after_ms;
    bool sent;
    enum moment cancel_at; /* cancels itself from inside of that call */
};

void wires_init(struct wires *w);
void wires_done(struct wires *w);  /* closes what is open; fails where a handle is left */
void wires_close(struct wires *w); /* and waits for its end */
void wires_begin_close(struct wires *w);
extern const tdg__wire_calls_t wires_calls;

void wires_open(struct wires *w); /* fails unless it opens */
void wires_opened(void *user, int code, const char *why);
void wires_session_ended(void *user);

/* Sends; `id` is JSON text or NULL. The parcel may be changed beforehand. */
tdg__parcel_out_t wires_parcel(const char *id, const char *method, const char *text);
void wires_send(struct wires *w, struct note *note, const tdg__parcel_out_t *out);

/* A request {'id': id, 'method': method, 'params': params}; `params` may be NULL. */
void wires_ask(struct wires *w, struct note *note, int id, const char *method,
               const char *params);
void wires_listen(struct wires *w, struct note *note, const char *after,
                  tdg__version_t version);
void wires_cancel(struct note *note);

/* Fails unless it ended, or ends, with this; the response has `part` in it (requoted). */
void wires_expect(struct note *note, tdg__carry_end_t end, const char *part);

bool wires_has(const char *text, const char *part); /* requoted */

#define RUN_UNTIL(w, condition)                                                          \
    do {                                                                                 \
        uint64_t limit_ = uv_hrtime() + UINT64_C(1000000) * WIRES_PATIENCE_MS;           \
                                                                                         \
        while (!(condition)) {                                                           \
            if (uv_hrtime() > limit_)                                                    \
                fail_msg("never happened: %s", #condition);                              \
            uv_run(&(w)->loop, UV_RUN_ONCE);                                             \
        }                                                                                \
    } while (0)

/* Lets the time pass in which something must not happen. */
void wires_run_ms(struct wires *w, uint64_t ms);

#endif

/* SPDX-License-Identifier: MIT
 *
 * For the tests of the transports: a loop, a transport whose calls are written down, and
 * messages with what became of them. Nothing sleeps: the loop runs until what is waited
 * for has happened, or the test fails because it never did. JSON in texts has ' for ". */
#ifndef TDG_TESTS_CLIENT_WIRES_H
#define TDG_TESTS_CLIENT_WIRES_H

#include "client/transport/transport.h"
#include "support.h"

enum { TRANSPORTS_PATIENCE_MS = 60000, TRANSPORTS_LOG = 64, TRANSPORTS_TEXT = 600 };

enum moment { NEVER, IN_OPENED, IN_MESSAGE, IN_ALIVE, IN_RETRY, IN_ENDED, IN_LOST };

struct transports {
    uv_loop_t loop;
    uv_timer_t pulse;
    tdg__transport_t *transport; /* NULL: none, or closed */
    bool closing;
    int opened, open_code;
    size_t messages, lost, alive, retries, said, warned, closed, sessions_ended, ids;
    size_t refused; /* sends for which there was no memory */
    char message[TRANSPORTS_LOG]
                [TRANSPORTS_TEXT]; /* JSON text of the last ones, by number */
    char why[TRANSPORTS_TEXT], word[TRANSPORTS_TEXT], warning[TRANSPORTS_TEXT],
        last_id[TRANSPORTS_TEXT];
    uint32_t retry_ms;
    enum moment close_at; /* closes the transport from inside of that call */
};

/* What became of a message. */
struct note {
    struct transports *w;
    tdg__delivery_t *delivery; /* NULL: over */
    size_t opened, messages, alive, retries, ended;
    int open_status;
    uint32_t retry_ms;
    char message[TRANSPORTS_LOG][TRANSPORTS_TEXT];
    tdg__delivery_end_t end;
    int status;
    char body[TRANSPORTS_TEXT]; /* JSON text of the error; "" for none */
    char error[TRANSPORTS_TEXT];
    int64_t retry_after_ms;
    bool sent;
    enum moment cancel_at; /* cancels itself from inside of that call */
};

void transports_init(struct transports *w);
void transports_done(
    struct transports *w); /* closes what is open; fails where a handle is left */
void transports_close(struct transports *w); /* and waits for its end */
void transports_begin_close(struct transports *w);
extern const tdg__transport_calls_t transports_calls;

void transports_open(struct transports *w); /* fails unless it opens */
void transports_opened(void *user, int code, const char *why);
void transports_session_ended(void *user);

/* Sends; `id` is JSON text or NULL. The message may be changed beforehand. */
tdg__outgoing_t transports_parcel(const char *id, const char *method, const char *text);
void transports_send(struct transports *w, struct note *note, const tdg__outgoing_t *out);

/* A request {'id': id, 'method': method, 'params': params}; `params` may be NULL. */
void transports_ask(struct transports *w, struct note *note, int id, const char *method,
                    const char *params);
void transports_listen(struct transports *w, struct note *note, const char *after,
                       tdg__version_t version);
void transports_cancel(struct note *note);

/* Fails unless it ended, or ends, with this; the response has `part` in it (requoted). */
void transports_expect(struct note *note, tdg__delivery_end_t end, const char *part);

bool transports_has(const char *text, const char *part); /* requoted */

#define RUN_UNTIL(w, condition)                                                          \
    do {                                                                                 \
        uint64_t limit_ = uv_hrtime() + UINT64_C(1000000) * TRANSPORTS_PATIENCE_MS;      \
                                                                                         \
        while (!(condition)) {                                                           \
            if (uv_hrtime() > limit_)                                                    \
                fail_msg("never happened: %s", #condition);                              \
            uv_run(&(w)->loop, UV_RUN_ONCE);                                             \
        }                                                                                \
    } while (0)

/* Lets the time pass in which something must not happen. */
void transports_run_ms(struct transports *w, uint64_t ms);

#endif

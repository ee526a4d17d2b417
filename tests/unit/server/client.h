/* SPDX-License-Identifier: MIT
 *
 * A small client for tests of the server in process: HTTP and event streams over a real
 * socket. Every wait has a deadline. A server with threads of its own is waited for with
 * poll(); one that is attached to the test's loop is waited for by running that loop. The
 * client itself allocates with malloc() only, so that memory of the server can fail
 * beside it. Where JSON is given as text, ' stands for ". */
#ifndef TDG_TESTS_SERVER_CLIENT_H
#define TDG_TESTS_SERVER_CLIENT_H

#include <uv.h>

#include "support.h"

enum { CLIENT_PATIENCE_MS = 60000, CLIENT_TEXT = 4096 };

struct client {
    int fd;
    uv_loop_t *loop; /* run while waiting; NULL: the server has threads */
    char *data;      /* read and not taken yet; ends in 0 */
    size_t len, size;
    bool eof;

    int status;             /* of the last response */
    char head[CLIENT_TEXT]; /* its header block */
    char *body;             /* its body, or what is left of a stream's; ends in 0 */
    size_t body_len, body_size;
    bool chunked, ended; /* a stream, and its regular end */
    char event[4 * CLIENT_TEXT];
    const char *via;  /* for X-Forwarded-For of every request; NULL: none */
    char session[64]; /* of the initialize that this client sent, or "" */
};

void client_init(struct client *client, uv_loop_t *loop);
void client_connect(struct client *client, uint16_t port); /* closes an old connection */
bool client_try_connect(struct client *client, uint16_t port);
void client_done(struct client *client);  /* may be called twice */
void client_reset(struct client *client); /* the server sees a broken connection */

/* ---- HTTP --------------------------------------------------------------- */

/* Sends as it is. */
void client_send(struct client *client, const char *text);

/* Sends a request; `fields` and `body` may be NULL. The body is requoted. */
void client_request(struct client *client, const char *method, const char *path,
                    const char *fields, const char *body);

/* Waits for the head of a response, and for the whole body where it is no stream. Returns
 * the status; 0: the connection ended before. */
int client_response(struct client *client);

/* The same without failing: -1 where nothing whole comes within `ms`. */
int client_response_within(struct client *client, int ms);

/* Copies the value of a header of the last response; "" where there is none. */
void client_header(const struct client *client, const char *name, char ret[256]);

/* Waits for the next event or comment of a stream; returns its lines, valid until the
 * next call. NULL: the stream has ended (`ended` says whether regularly), or nothing came
 * within `ms`. */
const char *client_event_within(struct client *client, int ms);
const char *client_event(struct client *client); /* fails where nothing comes */

/* The next event that has data; comments and openings are skipped. NULL as above. */
const char *client_message(struct client *client);
const char *client_message_within(struct client *client, int ms);

/* Fails unless the next message holds `text` (requoted). */
void client_expect(struct client *client, const char *text);

/* Fails unless the stream ends regularly before another message comes. */
void client_expect_end(struct client *client);

/* Copies a field ("id", "data", "retry", "event") of an event; false: it has none. */
bool event_field(const char *event, const char *field, char *ret, size_t size);

/* A wait of the test's own: true until the deadline; does one step meanwhile. */
bool client_wait(struct client *client, uint64_t deadline_ms);
uint64_t now_ms(void);

#define WAIT_UNTIL(client, condition)                                                    \
    do {                                                                                 \
        uint64_t deadline_ = now_ms() + CLIENT_PATIENCE_MS;                              \
                                                                                         \
        while (!(condition)) {                                                           \
            if (!client_wait((client), deadline_))                                       \
                fail_msg("never happened: %s", #condition);                              \
        }                                                                                \
    } while (0)

/* ---- Legacy ------------------------------------------------------------- */

#define LATEST_LEGACY "2025-11-25"

/* initialize and initialized; the session is kept in the client. */
void legacy_initialize(struct client *client, const char *version);

/* Uses the session of another client, for streams. */
void legacy_join(struct client *client, const struct client *other);

/* POST of one message of the session; returns the status. Where the answer came as a
 * stream, `body` is its last event. */
int legacy_post(struct client *client, const char *message);

/* The same for a request, in steps: sends only. */
void legacy_send(struct client *client, const char *message);

/* Sends GET; returns the status. `last_event_id` may be NULL. */
int legacy_get(struct client *client, const char *last_event_id);

void legacy_subscribe(struct client *client, const char *uri); /* fails unless {} */
void legacy_unsubscribe(struct client *client, const char *uri);

/* ---- Modern ------------------------------------------------------------- */

/* POST of a request with all that the protocol wants; `params` are further members of
 * "params" ("'uri':'a:b'") or NULL; `name` is mirrored in Mcp-Name, or NULL. Returns the
 * status. */
int modern_post(struct client *client, const char *method, const char *name,
                const char *params);
void modern_send(struct client *client, const char *method, const char *name,
                 const char *params);

/* Listens, and waits for the acknowledgement, which is left in `event`. `notifications`
 * is the filter. */
void modern_listen(struct client *client, const char *notifications);

/* The same with members for `_meta`, or NULL. */
void modern_listen_with(struct client *client, const char *meta,
                        const char *notifications);

/* Whether the body of the last response holds the text (requoted). */
bool body_has(const struct client *client, const char *text);
#define assert_body(client, text)                                                        \
    do {                                                                                 \
        if (!body_has((client), (text)))                                                 \
            fail_msg("%s is not in %s", (text), (client)->body);                         \
    } while (0)

/* Whether the text (requoted) is in another. */
bool has(const char *haystack, const char *text);

#endif

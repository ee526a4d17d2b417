/* SPDX-License-Identifier: MIT
 *
 * For the tests of src/net: a loop with a net whose calls are counted, and clients on
 * real sockets in the same thread. Nothing sleeps: the loop runs until what is waited for
 * has happened, or the test fails because it never did. */
#ifndef TDG_TESTS_NET_FIXTURE_H
#define TDG_TESTS_NET_FIXTURE_H

#include "net/conn.h"
#include "net/line.h"
#include "net/net.h"
#include "support.h"

enum { MAX_CLIENTS = 64, MAX_HELD = 256, PATIENCE_MS = 60000 };

/* The other side of a connection. Reads all there is with every step of the world. */
struct client {
    int fd;
    bool deaf; /* does not read */
    char *data;
    size_t len, size;
    bool eof;
    int error; /* errno of the read that failed */
};

struct world {
    uv_loop_t loop;
    uv_timer_t pulse; /* wakes the loop for what happens outside */
    tdg__net_t *net;  /* NULL: closed */
    bool net_done;
    uint16_t port;
    int tag;

    /* What to do with a request; by default it is answered with its path. */
    void (*answer)(struct world *world, tdg__conn_t *conn,
                   const tdg__http_request_t *request);
    int requests, drained, closed, half_closed;
    tdg__conn_t *held[MAX_HELD]; /* those that hold() keeps for later, oldest first */
    size_t held_count;
    char path[64];          /* of the last request */
    char *lowest, *highest; /* how far the stack has reached in requests */
    void *arg;              /* of the test */

    struct client clients[MAX_CLIENTS];
    size_t client_count;
};

/* The options that tests begin with: time-outs so long that none occurs. */
tdg__net_opts_t world_opts(struct world *world);

void world_open(struct world *world, const tdg__net_opts_t *opts);
void world_close_net(struct world *world); /* and waits for the end */
void world_close(struct world *world);     /* fails where a handle is left */

/* One turn of the loop, and of all clients. */
void world_step(struct world *world);

#define RUN_UNTIL(world, condition)                                                      \
    do {                                                                                 \
        uint64_t limit_ = uv_hrtime() + UINT64_C(1000000) * PATIENCE_MS;                 \
                                                                                         \
        while (!(condition)) {                                                           \
            if (uv_hrtime() > limit_)                                                    \
                fail_msg("never happened: %s", #condition);                              \
            world_step(world);                                                           \
        }                                                                                \
    } while (0)

/* Lets the time pass in which something must not happen. */
void world_run_ms(struct world *world, uint64_t ms);

/* Answers for `answer`. */
void answer_path(struct world *world, tdg__conn_t *conn,
                 const tdg__http_request_t *request);
void answer_never(struct world *world, tdg__conn_t *conn,
                  const tdg__http_request_t *request); /* keeps it in `held` */
void answer_stream(struct world *world, tdg__conn_t *conn,
                   const tdg__http_request_t *request); /* begins, and keeps it */

tdg__conn_t *unhold(struct world *world); /* the oldest */

/* A client that is connecting; the kernel accepts for us. */
struct client *client_open(struct world *world);
void client_send(struct world *world, struct client *client, const char *text);
void client_send_bytes(struct world *world, struct client *client, const char *data,
                       size_t len);
void client_get(struct world *world, struct client *client, const char *path);
void client_close(struct client *client);
void client_reset(struct client *client); /* closes so that the other side sees a reset */

/* Waits for a response with Content-Length, or without a body, and takes it from what was
 * read. Returns its status; the text of head and body goes to `ret` where it is given. */
struct reply {
    int status;
    char head[1024];
    char body[1024]; /* its beginning */
    size_t body_len;
};
int client_reply(struct world *world, struct client *client, bool has_body,
                 struct reply *ret);

/* Waits for exactly these bytes, and takes them. */
void client_expect(struct world *world, struct client *client, const char *text);

/* Waits for the head of a response, and takes it. */
void client_expect_head(struct world *world, struct client *client, int status,
                        struct reply *ret);

/* Waits for the end, and fails where anything comes before it. */
void client_expect_end(struct world *world, struct client *client);

/* ---- Texts -------------------------------------------------------------- */

/* `count` requests for /0, /1, ... in one text; for free(). */
char *many_requests(size_t count);

/* Waits for answer_path()'s answers to the requests for /from up to, and without, /to. */
void expect_paths(struct world *world, struct client *client, size_t from, size_t to);

void answer_held_path(struct world *world, int number); /* as if for /number */

int flush(tdg__outlet_t *outlet, const char *text); /* through the scratch buffer */

/* Bytes that no kernel takes at once, for free(); fails unless they are those. */
enum { HUGE_BYTES = 24 << 20 };
char *huge_body(void);
void is_huge(const char *data);

#endif

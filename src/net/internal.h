/* SPDX-License-Identifier: MIT
 *
 * What the files of the network share: the records of a net and a connection.
 *
 *     net ──▶ listeners       accept, refuse, pause        listener.c
 *         ──▶ connections     reading, phases, closing     conn.c
 *                             answers                      response.c
 *         ──▶ spare readers, the buffers that all share    net.c
 *
 * A record with a libuv handle is freed in the close callback of its last handle. The net
 * goes last: every such record holds it. */
#ifndef TDG_NET_INTERNAL_H
#define TDG_NET_INTERNAL_H

#include <sys/uio.h>

#include "base/queue.h"
#include "net/conn.h"
#include "net/net.h"
#include "net/outlet.h"

enum {
    READ_BYTES = 64 * 1024,
    STRANGER_BYTES = 4 * 1024, /* beyond the body: few, as what is behind it is kept */
    PROVEN_BYTES = 16 * 1024,
    CHUNK_HEAD_BYTES = 18, /* the longest "SIZE\r\n" */
    REQUESTS_AT_ONCE = 16, /* of one that has proven itself, while no other waits */
    SPARE_READERS = 32,
    SPARE_REFUSALS = 64,    /* connections above the limit that wait for their 503 */
    LINGER_MS = 2000,       /* a client that was refused may go on sending for so long */
    LINGER_BYTES = 1 << 24, /* and so much; then it may miss the answer */
};

/* ---- Net ---------------------------------------------------------------- */

struct listener;

/* The connection whose input is being read, and what of it is left; on the stack. */
struct pump {
    tdg__conn_t *conn;
    const char *rest;
    size_t rest_len;
    struct pump *outer; /* when a request is reported from inside another */
};

/* Connections that wait for their turn. */
enum { PROVEN, STRANGERS, LANES };

struct lane {
    tdg__queue_t waiting; /* by `turn` */
    uint64_t spent_ns;    /* on such connections since the lane was served last */
};

struct tdg__net {
    uv_loop_t *loop;
    tdg__net_opts_t opts;
    uv_timer_t ticker; /* runs while there are connections */
    uint32_t tick_ms;
    uint64_t tick_due_ms; /* when the loop, if it is not kept busy, ticks next */
    struct listener *listeners;
    tdg__queue_t conns;  /* all that are not closing */
    tdg__conn_t *visits; /* the next that tdg__net_each() comes to; NULL: none */
    size_t connections;  /* that count against the limit */
    size_t refusals;     /* that do not */
    struct pump *pump;
    struct lane lanes[LANES];
    uv_idle_t turner;     /* runs while somebody waits in a lane */
    tdg__queue_t writers; /* outlets with shared buffers, by what they write next */
    size_t shared;        /* bytes of such written since these were served last */
    tdg__http_reader_t *spare[SPARE_READERS];
    size_t spare_count;
    tdg__http_budget_t bodies; /* of the readers that are here */
    size_t holders;            /* records whose handles are not closed yet */
    bool finishing;
    bool closing;
    void (*done)(void *arg);
    void *done_arg;
    int64_t date_s;
    char date[32];
    char input[READ_BYTES];
    char output[CHUNK_HEAD_BYTES + TDG__NET_SCRATCH + 2]; /* scratch, with room for the
                                                             frame of a chunk */
};

/* Closes a socket in the way in which libuv does. ThreadSanitizer does not see that, and
 * descriptors that only we close would look to it as if two threads shared them. */
void tdg__net_close_fd(int fd);

void tdg__net_hold(tdg__net_t *net);
void tdg__net_release(tdg__net_t *net); /* the last one frees it */

/* NULL when memory is out. */
tdg__http_reader_t *tdg__net_take_reader(tdg__net_t *net);
void tdg__net_give_reader(tdg__net_t *net, tdg__http_reader_t *reader);

/* The time as HTTP writes it; borrowed until the next call. */
const char *tdg__net_date(tdg__net_t *net);

/* ---- Outlet ------------------------------------------------------------- */

/* The bytes of a constant or borrowed text, for writing only. */
static inline struct iovec tdg__part(const void *data, size_t len) {
    return (struct iovec){(void *)(uintptr_t)data, len};
}

/* Writes the parts one after the other, as they are, with one call. Returns as
 * tdg__outlet_write(). */
int tdg__outlet_writev(tdg__outlet_t *outlet, const struct iovec *parts, int count);

/* Writes "SIZE\r\n" so that it ends at `end`; returns its beginning. */
char *tdg__chunk_head(char *end, size_t size);

/* Lets some of those write that wait for their turn. */
void tdg__outlets_write(tdg__net_t *net);

/* Its stream is being closed: what waits will not be written. */
void tdg__outlet_close(tdg__outlet_t *outlet);

/* Whether the kernel has taken nothing for so long, while something is queued. */
bool tdg__outlet_stuck(tdg__outlet_t *outlet, uint32_t timeout_ms);

/* Whether the reader holds bytes of a budget that others wait for, and has taken less
 * than `min_bytes` in the last `window_ms`. Call it now and then while something is
 * queued. */
bool tdg__outlet_in_the_way(tdg__outlet_t *outlet, uint32_t window_ms, size_t min_bytes);

/* ---- Connections -------------------------------------------------------- */

enum phase {
    WAITING,   /* for the first byte of a request */
    READING,   /* a request is coming in */
    ANSWERING, /* it was reported, and the answer is outstanding */
    STREAMING, /* the answer has begun */
    FINISHING, /* what is queued goes out, nothing else */
    LINGERING, /* all is out, but closing now could make the client miss it */
    CLOSED,    /* the handle is closing */
};

/* Bytes that came while they could not be read as requests. */
struct input {
    size_t start, end, size;
    char data[];
};

struct tdg__conn {
    uv_tcp_t tcp;
    union {
        tdg__exchange_t exchange;
        tdg__outlet_t outlet; /* of the exchange */
    };
    tdg__queue_t link; /* in the net */
    tdg__queue_t turn; /* while it waits for its turn: in a lane */
    void *tag;
    tdg__http_reader_t *reader; /* while a request comes in or is reported */
    struct input *input;        /* NULL: empty */
    uint64_t deadline_ms;       /* of phases that have one; UINT64_MAX: never */
    uint64_t waits_since_ms;    /* loop time at which it joined its lane */
    uint32_t discarded;         /* bytes, while finishing and lingering */
    uint8_t phase;
    bool deserved : 1;   /* the request that is being answered deserves to be served */
    bool proven : 1;     /* its last request was served; else it is a stranger */
    bool reported : 1;   /* has had a request: the owner knows it */
    bool refused : 1;    /* above the limit of connections */
    bool keep_alive : 1; /* goes on after the answer */
    bool head : 1;       /* the request's method is HEAD */
    bool old : 1;        /* the request is HTTP/1.0 */
    bool eof : 1;        /* the client sends no more */
    bool paused : 1;     /* is not read: too much is kept, or it is not its turn */
    bool lingers : 1;    /* after FINISHING: the client may be sending still */
};

/* Walks those that are not closing: begin with NULL, which also ends. */
static inline tdg__conn_t *tdg__net_next(const tdg__net_t *net, const tdg__conn_t *conn) {
    tdg__queue_t *next = conn != NULL ? conn->link.next : net->conns.next;

    return next != &net->conns ? TDG__RECORD(tdg__conn_t, link, next) : NULL;
}

extern const tdg__exchange_ops_t tdg__conn_exchange_ops; /* response.c */

void tdg__conn_drained(tdg__outlet_t *outlet);
void tdg__conn_broke(tdg__outlet_t *outlet);

static inline tdg__conn_t *tdg__conn_of_exchange(const tdg__exchange_t *exchange) {
    return (tdg__conn_t *)((uintptr_t)exchange - offsetof(tdg__conn_t, exchange));
}

/* Stores a new connection on `fd` (stolen, even on failure), which reads, in *ret.
 * Returns 0, TDG_ENOMEM or TDG_ESYSTEM. */
int tdg__conn_create(tdg__net_t *net, int fd, void *tag, bool refused, tdg__conn_t **ret);

/* Closes at once, whatever is queued. */
void tdg__conn_abort(tdg__conn_t *conn);

/* Closes when all that is queued is out. */
void tdg__conn_finish(tdg__conn_t *conn);

/* Goes on in what is kept when its turn comes, from the loop: requests do not pile up on
 * the stack. */
void tdg__conn_resume(tdg__conn_t *conn);

/* Its turn has come, and it has left its lane. */
void tdg__conn_go_on(tdg__conn_t *conn);

/* Whether so much is kept of what it sent that it is not read. */
bool tdg__conn_keeps_much(const tdg__conn_t *conn);

/* Answers in plain text, then closes, and gives its reader back. `reason` is a sentence,
 * which is not the reader's. */
void tdg__conn_refuse(tdg__conn_t *conn, int status, const char *reason);

/* Looks whether a time is over. */
void tdg__conn_tick(tdg__conn_t *conn);

/* ---- Turns (turn.c) ----------------------------------------------------- */

/* Whether a connection from which a request may come can be read now. */
bool tdg__turn_has(const tdg__conn_t *conn);

/* Puts it behind those that wait, unless it waits already; tdg__conn_go_on() follows. */
void tdg__turn_wait(tdg__conn_t *conn);

/* Somebody waits: there will be a turn. */
void tdg__turn_request(tdg__net_t *net);

static inline bool tdg__turn_waits(const tdg__conn_t *conn) {
    return tdg__queue_has(&conn->turn);
}

void tdg__turn_leave(tdg__conn_t *conn); /* does nothing where it does not wait */

/* How many requests of it may be served at once; then others have their turn. */
int tdg__turn_requests(const tdg__conn_t *conn);

/* Time was spent on a stranger, or on one that was none, since `began_ns` of uv_hrtime().
 */
void tdg__turn_count(tdg__net_t *net, bool proven, uint64_t began_ns);

#endif

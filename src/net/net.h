/* SPDX-License-Identifier: MIT
 *
 * The common state of all connections of one loop: buffers, limits, time-outs, the
 * listeners. One per loop, used from that loop's thread only. */
#ifndef TDG_NET_NET_H
#define TDG_NET_NET_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <uv.h>

#include "net/http_request.h"

typedef struct tdg__net tdg__net_t;
typedef struct tdg__conn tdg__conn_t;         /* conn.h */
typedef struct tdg__exchange tdg__exchange_t; /* exchange.h */

enum { TDG__NET_SCRATCH = 64 * 1024 };

/* What happens on connections. `user` is that of the net. */
typedef struct tdg__net_calls {
    /* A request is complete (borrowed for the call). Answer it now or later: by
     * tdg__exchange_respond(), or tdg__exchange_begin() … tdg__exchange_end(). */
    void (*request)(void *user, tdg__conn_t *conn, const tdg__http_request_t *request);

    /* May be NULL. The head of a request is there, and not all of its body (borrowed for
     * the call, as above). Return true to have it read, after "100 Continue" where the
     * client waits for that; or answer it and return false: then the
     * connection closes, and what the client still sends is discarded. */
    bool (*head)(void *user, tdg__conn_t *conn, const tdg__http_request_t *request);

    /* All that was queued on the connection is with the kernel. After a response this is
     * called only while the connection has a user. */
    void (*drained)(void *user, tdg__conn_t *conn);

    /* The connection is gone (also when the client closed it while a request is being
     * answered or a stream is open, or by our tdg__exchange_close()); last call for it.
     * Not called for one that never had a request. */
    void (*closed)(void *user, tdg__conn_t *conn);

    /* May be NULL. The client sends no more while its request is being answered: it has
     * left, or has shut down its sending side and waits; TCP does not tell which. The
     * answer goes out as usual (a stream is not begun any more), unless this call closes
     * the connection. */
    void (*half_closed)(void *user, tdg__conn_t *conn);

    /* May be NULL. A connection was not taken: `error` is 0 (there are too many) or what
     * the system said, as libuv has it. */
    void (*not_taken)(void *user, int error);
} tdg__net_calls_t;

typedef struct tdg__net_opts {
    tdg__net_calls_t calls;
    void *user;
    tdg__http_limits_t limits;
    /* Time-outs; 0: never. They are checked every so often: a quarter of the shortest
     * late at most, or 50 ms. Time for which the loop was kept busy does not count. */
    uint32_t request_timeout_ms; /* from the first byte of a request to its last; also
                                    from the connect to the first byte; 408 */
    uint32_t idle_timeout_ms;    /* between requests; closed silently */
    uint32_t write_timeout_ms;   /* for a reader that does not read: without progress for
                                    this long while bytes are queued, it is closed */
    uint32_t pace_window_ms; /* for a reader that holds bytes of a budget (buf.h) while
                                others wait for them: where it takes less than
                                `pace_min_bytes` in this time, it is closed */
    size_t pace_min_bytes;
    uint32_t max_connections; /* beyond it: 503 and close */
    atomic_size_t *total;     /* connections of all nets that share this number;
                                 borrowed; NULL: nobody counts them */
    size_t max_total;      /* of these; beyond it likewise. Nets that accept at the same
                              moment may exceed it by one each */
    size_t max_body_total; /* bytes of all large bodies that are being read; beyond
                              it: 503 and close; 0: no limit (http_request.h) */
} tdg__net_opts_t;

/* Stores a new net on `loop` in *ret. Returns 0, TDG_ENOMEM or TDG_ESYSTEM. */
int tdg__net_create(uv_loop_t *loop, const tdg__net_opts_t *opts, tdg__net_t **ret);

/* Closes listeners and connections at once (`closed` is called for them, from the loop),
 * then its own handles; when all handles are closed, those of lines (line.h) as well,
 * which their owner closes, frees itself and calls done(arg). */
void tdg__net_close(tdg__net_t *net, void (*done)(void *arg), void *arg);

/* Where messages are put together before tdg__outlet_flush(): TDG__NET_SCRATCH bytes,
 * shared by all outlets of the loop, so fill and flush without anything in between. */
char *tdg__net_scratch(tdg__net_t *net);

/* Opens a listening TCP socket, close-on-exec, not blocking; with `reuse_port` others may
 * bind the same address, and the kernel spreads connections. `host` is a numeric address
 * or "localhost". Port 0 takes a free one; the real one goes to *ret_port. Returns 0,
 * TDG_EINVAL (not an address) or TDG_ESYSTEM (see errno). */
int tdg__net_bind(const char *host, uint16_t port, bool reuse_port, int *ret_fd,
                  uint16_t *ret_port);

/* Whether a text is a numeric address; whether a host as tdg__net_bind() takes it, or the
 * address that a socket is bound to, is one of this machine only (127.0.0.0/8, ::1, also
 * within IPv6), however it is written. */
bool tdg__net_is_address(const char *text);
bool tdg__net_is_loopback(const char *host);
bool tdg__net_bound_to_loopback(int fd);

/* Accepts connections from a socket of tdg__net_bind(); the descriptor is stolen. `tag`
 * is what tdg__conn_tag() tells of its connections. Where accepting fails for want of
 * descriptors, it goes on a moment later. Returns 0, TDG_ENOMEM or TDG_ESYSTEM. */
int tdg__net_listen(tdg__net_t *net, int fd, void *tag);

/* Accepts no more. */
void tdg__net_stop_listening(tdg__net_t *net);

/* Closes connections that wait for a request, and those that answer one after the answer
 * is out. A request that waits for its turn is served before. Streams go on until
 * tdg__exchange_end(). */
void tdg__net_finish(tdg__net_t *net);

/* Visits every connection that has had a request and is not closing, e.g. to write signs
 * of life. The visitor may close any of them, as the end of one may be that of a session
 * with others. It must not begin another visit. */
void tdg__net_each(tdg__net_t *net, void (*visit)(void *arg, tdg__exchange_t *exchange),
                   void *arg);

size_t tdg__net_connections(const tdg__net_t *net);

/* Whether somebody waits for his turn, so that the loop goes on without waiting. */
bool tdg__net_has_more(const tdg__net_t *net);

#endif

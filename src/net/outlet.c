/* SPDX-License-Identifier: MIT */
#include "net/outlet.h"

#include <errno.h>
#include <linux/sockios.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <tidings/error.h>

#include "base/alloc.h"
#include "net/internal.h"

enum {
    SLICE = 64 * 1024,    /* of a shared buffer, at a time */
    SHARED_MAX = 1 << 20, /* of all shared buffers, in one turn of the loop */
};

/* What the kernel did not take: bytes of its own behind it, or those of a buffer. */
struct tdg__rest {
    uv_write_t request;
    struct tdg__rest *next;
    tdg__queue_t turn; /* while its outlet waits for its turn */
    tdg__outlet_t *outlet;
    tdg__buf_t *shared; /* a reference; NULL: they are its own */
    const char *data;
    size_t len;  /* that libuv has not been given */
    size_t cost; /* of memory, beside a shared buffer */
    char bytes[];
};

static int fail(tdg__outlet_t *outlet, int code) {
    outlet->broken = true;
    if (outlet->calls->broke != NULL)
        outlet->calls->broke(outlet);
    return code;
}

/* ---- Through libuv ------------------------------------------------------ */

static void free_rest(struct tdg__rest *rest) {
    tdg__buf_unref(rest->shared);
    tdg__free(rest);
}

static void leave_lane(tdg__outlet_t *outlet) {
    tdg__queue_remove(&outlet->first->turn);
    outlet->waits = false;
}

static void join_lane(tdg__outlet_t *outlet) {
    tdg__queue_append(&outlet->net->writers, &outlet->first->turn);
    outlet->waits = true;
    tdg__turn_request(outlet->net);
}

static void drop_all(tdg__outlet_t *outlet) {
    if (outlet->waits)
        leave_lane(outlet);
    while (outlet->first != NULL) {
        struct tdg__rest *rest = outlet->first;

        outlet->first = rest->next;
        free_rest(rest);
    }
    outlet->last = NULL;
    outlet->waiting = 0;
}

static void on_written(uv_write_t *request, int status);

/* Whether a slice of a shared buffer may be written in this turn of the loop. */
static bool may_write(const tdg__outlet_t *outlet) {
    const tdg__net_t *net = outlet->net;

    return !outlet->takes_turns ||
           (tdg__queue_is_empty(&net->writers) && net->shared < SHARED_MAX);
}

/* Gives libuv the next slice of the first that waits. Returns 0 or what it said. */
static int submit(tdg__outlet_t *outlet) {
    struct tdg__rest *rest = outlet->first;
    size_t len = rest->shared != NULL && rest->len > SLICE ? SLICE : rest->len;
    uv_buf_t buf = uv_buf_init((char *)(uintptr_t)rest->data, (unsigned)len);
    int rv = uv_write(&rest->request, outlet->stream, &buf, 1, on_written);

    if (rv < 0)
        return rv;
    rest->data += len;
    rest->len -= len;
    outlet->waiting -= len;
    if (rest->shared != NULL)
        outlet->net->shared += len;
    return 0;
}

/* The same in its turn. */
static int submit_in_turn(tdg__outlet_t *outlet) {
    if (outlet->first->shared == NULL || may_write(outlet))
        return submit(outlet);
    join_lane(outlet);
    return 0;
}

/* Lets go of the first where all of it is written. Returns whether more waits. */
static bool next_waits(tdg__outlet_t *outlet) {
    struct tdg__rest *rest = outlet->first;

    if (rest->len > 0)
        return true;
    outlet->first = rest->next;
    if (outlet->first == NULL)
        outlet->last = NULL;
    free_rest(rest);
    return outlet->first != NULL;
}

/* After a slice: `status` is negative where the next one cannot be written. */
static void settle(tdg__outlet_t *outlet, int status) {
    if (status < 0)
        drop_all(outlet);
    outlet->in_flight = outlet->first != NULL;
    outlet->queued = outlet->waiting + uv_stream_get_write_queue_size(outlet->stream);
    if (status < 0 && !outlet->broken)
        fail(outlet, TDG_EENDED);
    if (!outlet->in_flight) {
        outlet->queued = 0;
        outlet->calls->drained(outlet);
    }
}

/* A stream that is being closed reports what the kernel took before as written: then the
 * next slice must not wait for a turn, which would come when the outlet is gone. */
static void on_written(uv_write_t *request, int status) {
    struct tdg__rest *rest = request->data;
    tdg__outlet_t *outlet = rest->outlet;

    if (status == 0 && uv_is_closing((uv_handle_t *)outlet->stream))
        status = UV_ECANCELED;
    outlet->progress_ms = uv_now(outlet->net->loop);
    if (status == 0 && next_waits(outlet))
        status = submit_in_turn(outlet);
    settle(outlet, status);
}

/* Time in the lane, which began with the last progress, is ours, not the reader's. */
static void give_back_wait(tdg__outlet_t *outlet) {
    uint64_t now_ms = uv_now(outlet->net->loop);

    outlet->pace.since_ms += now_ms - outlet->progress_ms;
    outlet->progress_ms = now_ms;
}

void tdg__outlets_write(tdg__net_t *net) {
    net->shared = 0;
    while (!tdg__queue_is_empty(&net->writers) && net->shared < SHARED_MAX) {
        tdg__outlet_t *outlet =
            TDG__RECORD(struct tdg__rest, turn, net->writers.next)->outlet;

        leave_lane(outlet);
        give_back_wait(outlet);
        settle(outlet, submit(outlet));
    }
}

void tdg__outlet_close(tdg__outlet_t *outlet) {
    outlet->broken = true;
    if (!outlet->waits) /* else libuv has nothing of it, and will say nothing */
        return;
    drop_all(outlet);
    outlet->in_flight = false;
    outlet->queued = 0;
}

/* Copies all but the first `skip` bytes. */
static void copy_rest(char *to, const struct iovec *parts, int count, size_t skip) {
    for (int i = 0; i < count; i++) {
        size_t len = parts[i].iov_len;

        if (skip >= len) {
            skip -= len;
            continue;
        }
        memcpy(to, (const char *)parts[i].iov_base + skip, len - skip);
        to += len - skip;
        skip = 0;
    }
}

/* Puts a rest behind the others. */
static int enqueue(tdg__outlet_t *outlet, struct tdg__rest *rest) {
    bool alone = outlet->first == NULL;
    size_t len = rest->len;

    rest->outlet = outlet;
    rest->request.data = rest;
    rest->turn = (tdg__queue_t){NULL, NULL};
    rest->next = NULL;
    if (alone) {
        outlet->first = rest;
        outlet->pace.measured = false;
    } else {
        outlet->last->next = rest;
        outlet->pace.left += len;
    }
    outlet->last = rest;
    outlet->waiting += len;
    outlet->queued += len;
    if (!alone)
        return TDG_EAGAIN;

    outlet->progress_ms = uv_now(outlet->net->loop);
    if (submit_in_turn(outlet) < 0) {
        drop_all(outlet);
        return fail(outlet, TDG_EENDED);
    }
    outlet->in_flight = true;
    return TDG_EAGAIN;
}

static int queue(tdg__outlet_t *outlet, const struct iovec *parts, int count, size_t skip,
                 size_t total) {
    size_t len = total - skip;
    struct tdg__rest *rest;

    if (len > UINT32_MAX) /* of which libuv could not tell the length */
        return fail(outlet, TDG_ENOMEM);
    rest = tdg__malloc(sizeof(*rest) + len);
    if (rest == NULL)
        return fail(outlet, TDG_ENOMEM);
    rest->shared = NULL;
    rest->data = rest->bytes;
    rest->len = len;
    rest->cost = sizeof(*rest) + len;
    copy_rest(rest->bytes, parts, count, skip);
    return enqueue(outlet, rest);
}

static int queue_shared(tdg__outlet_t *outlet, tdg__buf_t *buf, size_t skip) {
    struct tdg__rest *rest = tdg__malloc(sizeof(*rest));

    if (rest == NULL)
        return fail(outlet, TDG_ENOMEM);
    rest->shared = tdg__buf_ref(buf);
    rest->data = buf->data + skip;
    rest->len = buf->len - skip;
    rest->cost = sizeof(*rest);
    return enqueue(outlet, rest);
}

bool tdg__outlet_stuck(tdg__outlet_t *outlet, uint32_t timeout_ms) {
    uint64_t now_ms = uv_now(outlet->net->loop);
    size_t left = outlet->waiting + uv_stream_get_write_queue_size(outlet->stream);

    if (left < outlet->queued) {
        outlet->queued = left;
        outlet->progress_ms = now_ms;
    }
    return timeout_ms != 0 && !outlet->waits &&
           now_ms >= outlet->progress_ms + timeout_ms;
}

/* ---- Pace --------------------------------------------------------------- */

/* Where something that waits here counts; NULL: nowhere. */
static tdg__budget_t *budget_of(const tdg__outlet_t *outlet) {
    for (const struct tdg__rest *rest = outlet->first; rest != NULL; rest = rest->next)
        if (rest->shared != NULL && rest->shared->budget != NULL)
            return rest->shared->budget;
    return NULL;
}

size_t tdg__outlet_copied(const tdg__outlet_t *outlet) {
    size_t bytes = 0;

    if (outlet->calls->take != NULL)
        return outlet->waiting;
    for (const struct tdg__rest *rest = outlet->first; rest != NULL; rest = rest->next)
        bytes += rest->cost;
    return bytes;
}

/* Bytes that have not arrived at the reader's machine. The kernel takes from us in steps
 * of up to a megabyte, so what it holds itself has to be counted. */
static size_t count_left(const tdg__outlet_t *outlet) {
    int held = 0;

    if (ioctl(outlet->fd, SIOCOUTQ, &held) < 0)
        held = 0;
    return outlet->waiting + uv_stream_get_write_queue_size(outlet->stream) +
           (size_t)held;
}

static void begin_window(tdg__pace_t *pace, uint64_t now_ms, size_t left) {
    pace->since_ms = now_ms;
    pace->left = left;
}

bool tdg__outlet_in_the_way(tdg__outlet_t *outlet, uint32_t window_ms, size_t min_bytes) {
    tdg__budget_t *budget = window_ms != 0 ? budget_of(outlet) : NULL;
    tdg__pace_t *pace = &outlet->pace;
    uint64_t now_ms = uv_now(outlet->net->loop);
    bool others_wait;
    unsigned refusals;

    if (outlet->waits) /* for us */
        return false;
    if (budget == NULL) {
        pace->measured = false;
        return false;
    }
    refusals = tdg__budget_refusals(budget);
    others_wait = pace->measured && refusals != pace->refusals;
    pace->refusals = refusals;
    if (!pace->measured) {
        pace->measured = true;
        pace->slow = false;
        begin_window(pace, now_ms, count_left(outlet));
    } else if (now_ms >= pace->since_ms + window_ms) {
        size_t left = count_left(outlet);

        pace->slow = left > pace->left || pace->left - left < min_bytes;
        begin_window(pace, now_ms, left);
    }
    return pace->slow && others_wait;
}

/* ---- To the kernel ------------------------------------------------------ */

/* Returns how many bytes the kernel has taken; negative when it never will. */
static ssize_t hand_over(const tdg__outlet_t *outlet, const struct iovec *parts,
                         int count) {
    struct msghdr message = {0};
    ssize_t n;

    do {
        if (!outlet->socket) {
            n = writev(outlet->fd, parts, count);
        } else if (count == 1) {
            n = send(outlet->fd, parts->iov_base, parts->iov_len,
                     MSG_NOSIGNAL | MSG_DONTWAIT);
        } else {
            message.msg_iov = (struct iovec *)(uintptr_t)parts;
            message.msg_iovlen = (size_t)count;
            n = sendmsg(outlet->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
        }
    } while (n < 0 && errno == EINTR);

    return n < 0 && errno == EAGAIN ? 0 : n;
}

/* A file takes everything, or is broken. */
static int write_file(tdg__outlet_t *outlet, const struct iovec *parts, int count) {
    for (int i = 0; i < count; i++) {
        struct iovec left = parts[i];

        while (left.iov_len > 0) {
            ssize_t n = hand_over(outlet, &left, 1);

            if (n <= 0)
                return fail(outlet, TDG_EENDED);
            left.iov_base = (char *)left.iov_base + n;
            left.iov_len -= (size_t)n;
        }
    }
    return 0;
}

static int hand_over_afar(tdg__outlet_t *outlet, const struct iovec *parts, int count) {
    int rv = 0;

    for (int i = 0; i < count && (rv == 0 || rv == TDG_EAGAIN); i++)
        rv = outlet->calls->take(outlet, parts[i].iov_base, parts[i].iov_len, NULL);
    return rv;
}

int tdg__outlet_writev(tdg__outlet_t *outlet, const struct iovec *parts, int count) {
    size_t total = 0;
    ssize_t taken = 0;

    if (outlet->broken)
        return TDG_EENDED;
    for (int i = 0; i < count; i++)
        total += parts[i].iov_len;
    if (total == 0)
        return 0;

    outlet->written_ms = uv_now(outlet->net->loop);
    if (outlet->calls->take != NULL)
        return hand_over_afar(outlet, parts, count);
    if (outlet->stream == NULL)
        return write_file(outlet, parts, count);
    if (!outlet->in_flight) /* otherwise behind what is queued */
        taken = hand_over(outlet, parts, count);
    if (taken < 0)
        return fail(outlet, TDG_EENDED);
    if ((size_t)taken == total)
        return 0;
    return queue(outlet, parts, count, (size_t)taken, total);
}

static int write_shared(tdg__outlet_t *outlet, tdg__buf_t *buf) {
    struct iovec slice = tdg__part(buf->data, buf->len < SLICE ? buf->len : SLICE);
    ssize_t taken = 0;

    if (outlet->broken)
        return TDG_EENDED;
    if (buf->len == 0)
        return 0;

    outlet->written_ms = uv_now(outlet->net->loop);
    if (outlet->calls->take != NULL)
        return outlet->calls->take(outlet, NULL, 0, buf);
    if (outlet->stream == NULL)
        return tdg__outlet_write(outlet, buf->data, buf->len);
    if (!outlet->in_flight && may_write(outlet))
        taken = hand_over(outlet, &slice, 1);
    if (taken < 0)
        return fail(outlet, TDG_EENDED);
    outlet->net->shared += (size_t)taken;
    if ((size_t)taken == buf->len)
        return 0;
    return queue_shared(outlet, buf, (size_t)taken);
}

/* ---- Pieces ------------------------------------------------------------- */

char *tdg__chunk_head(char *end, size_t size) {
    *--end = '\n';
    *--end = '\r';
    do
        *--end = "0123456789abcdef"[size % 16];
    while ((size /= 16) != 0);
    return end;
}

int tdg__outlet_flush(tdg__outlet_t *outlet, size_t len) {
    char *begin = tdg__net_scratch(outlet->net);
    char *end = begin + len;
    struct iovec part;

    if (len == 0) /* as a chunk it would be the last one */
        return outlet->broken ? TDG_EENDED : 0;
    if (outlet->chunked) {
        begin = tdg__chunk_head(begin, len);
        *end++ = '\r';
        *end++ = '\n';
    }
    part = tdg__part(begin, (size_t)(end - begin));
    return tdg__outlet_writev(outlet, &part, 1);
}

int tdg__outlet_write(tdg__outlet_t *outlet, const void *data, size_t len) {
    struct iovec part = tdg__part(data, len);

    return tdg__outlet_writev(outlet, &part, 1);
}

int tdg__outlet_piece(tdg__outlet_t *outlet, const void *data, size_t len) {
    char head[CHUNK_HEAD_BYTES], *end = head + sizeof(head);
    struct iovec parts[3];

    if (!outlet->chunked || len == 0)
        return tdg__outlet_write(outlet, data, len);

    parts[0].iov_base = tdg__chunk_head(end, len);
    parts[0].iov_len = (size_t)(end - (char *)parts[0].iov_base);
    parts[1] = tdg__part(data, len);
    parts[2] = tdg__part("\r\n", 2);
    return tdg__outlet_writev(outlet, parts, 3);
}

struct writing {
    tdg__outlet_t *outlet;
    int rv; /* of the last stretch; once something waits, all that follows does */
};

static void write_stretch(void *arg, const char *data, size_t len, tdg__buf_t *shared) {
    struct writing *writing = arg;

    if (shared != NULL)
        writing->rv = write_shared(writing->outlet, shared);
    else
        writing->rv = tdg__outlet_write(writing->outlet, data, len);
}

int tdg__outlet_write_rope(tdg__outlet_t *outlet, const tdg__rope_t *rope) {
    struct writing writing = {outlet, 0};

    if (rope->splice_count == 0)
        return tdg__outlet_write(outlet, rope->text.data, rope->text.len);
    tdg__rope_each(rope, write_stretch, &writing);
    return writing.rv;
}

int tdg__outlet_piece_rope(tdg__outlet_t *outlet, const tdg__rope_t *rope) {
    char head[CHUNK_HEAD_BYTES], *end = head + sizeof(head), *begin;

    if (rope->splice_count == 0)
        return tdg__outlet_piece(outlet, rope->text.data, rope->text.len);
    if (!outlet->chunked)
        return tdg__outlet_write_rope(outlet, rope);

    begin = tdg__chunk_head(end, tdg__rope_len(rope));
    tdg__outlet_write(outlet, begin, (size_t)(end - begin));
    tdg__outlet_write_rope(outlet, rope);
    return tdg__outlet_write(outlet, "\r\n", 2);
}

/* SPDX-License-Identifier: MIT */
#include "net/outlet.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <tidings/error.h>

#include "base/alloc.h"
#include "net/internal.h"

/* What the kernel did not take, in one piece of memory with the request to libuv. */
struct rest {
    uv_write_t request;
    tdg__outlet_t *outlet;
    char data[];
};

static int fail(tdg__outlet_t *outlet, int code) {
    outlet->broken = true;
    if (outlet->calls->broke != NULL)
        outlet->calls->broke(outlet);
    return code;
}

/* ---- Through libuv ------------------------------------------------------ */

static void on_written(uv_write_t *request, int status) {
    struct rest *rest = request->data;
    tdg__outlet_t *outlet = rest->outlet;

    tdg__free(rest);
    outlet->in_flight--;
    outlet->queued = uv_stream_get_write_queue_size(outlet->stream);
    outlet->progress_ms = uv_now(outlet->net->loop);
    if (status < 0 && !outlet->broken)
        fail(outlet, TDG_EENDED);
    if (outlet->in_flight == 0) {
        outlet->queued = 0;
        outlet->calls->drained(outlet);
    }
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

static int queue(tdg__outlet_t *outlet, const struct iovec *parts, int count, size_t skip,
                 size_t total) {
    size_t len = total - skip;
    struct rest *rest;
    uv_buf_t buf;

    if (len > UINT32_MAX) /* of which libuv could not tell the length */
        return fail(outlet, TDG_ENOMEM);
    rest = tdg__malloc(sizeof(*rest) + len);
    if (rest == NULL)
        return fail(outlet, TDG_ENOMEM);
    rest->outlet = outlet;
    rest->request.data = rest;
    copy_rest(rest->data, parts, count, skip);

    if (outlet->in_flight == 0)
        outlet->progress_ms = uv_now(outlet->net->loop);
    buf = uv_buf_init(rest->data, (unsigned)len);
    if (uv_write(&rest->request, outlet->stream, &buf, 1, on_written) < 0) {
        tdg__free(rest);
        return fail(outlet, TDG_EENDED);
    }
    outlet->in_flight++;
    outlet->queued += len;
    return TDG_EAGAIN;
}

bool tdg__outlet_stuck(tdg__outlet_t *outlet, uint32_t timeout_ms) {
    uint64_t now_ms = uv_now(outlet->net->loop);
    size_t left = uv_stream_get_write_queue_size(outlet->stream);

    if (left < outlet->queued) {
        outlet->queued = left;
        outlet->progress_ms = now_ms;
    }
    return timeout_ms != 0 && now_ms >= outlet->progress_ms + timeout_ms;
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
    if (outlet->stream == NULL)
        return write_file(outlet, parts, count);
    if (outlet->in_flight == 0) /* otherwise behind what is queued */
        taken = hand_over(outlet, parts, count);
    if (taken < 0)
        return fail(outlet, TDG_EENDED);
    if ((size_t)taken == total)
        return 0;
    return queue(outlet, parts, count, (size_t)taken, total);
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

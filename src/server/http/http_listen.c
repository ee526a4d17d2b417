/* SPDX-License-Identifier: MIT
 *
 * A listen that has a connection for itself: the response to its request. */
#include "base/alloc.h"
#include "server/http/occupant.h"
#include "server/http/visit.h"
#include "server/mcp/listen.h"

struct listen_stream {
    tdg__occupant_t occupant; /* first */
    tdg__exchange_t *exchange;
    tdg__listen_stream_t *listen;
    const char *fields; /* further header lines of the response, until that begins */
};

static void begun(void *owner, tdg__listen_stream_t *listen) {
    struct listen_stream *stream = owner;

    stream->listen = listen;
    stream->exchange->user = &stream->occupant;
}

static int write_first(void *owner, const void *data, size_t len) {
    const struct listen_stream *stream = owner;

    return tdg__exchange_begin(stream->exchange, stream->fields, data, len);
}

static void over(void *owner, bool broken) {
    struct listen_stream *stream = owner;

    stream->exchange->user = NULL;
    if (broken)
        tdg__exchange_close(stream->exchange);
    else
        tdg__exchange_end(stream->exchange);
    tdg__free(stream);
}

static const tdg__listen_ops_t listen_ops = {
    .begun = begun,
    .write_first = write_first,
    .over = over,
    .transport = "http",
    .frame = TDG__FRAME_SSE,
    .has_keepalive = true,
};

static tdg__listen_stream_t *listen_on(const tdg__occupant_t *occupant) {
    return ((const struct listen_stream *)occupant)->listen;
}

static void drained(tdg__occupant_t *occupant) {
    tdg__listen_drained(listen_on(occupant));
}

static void closed(tdg__occupant_t *occupant) {
    tdg__listen_cancel(listen_on(occupant));
    tdg__free(occupant);
}

static bool has_more(const tdg__occupant_t *occupant) {
    return tdg__listen_has_more(listen_on(occupant));
}

static void finish(tdg__occupant_t *occupant) {
    tdg__listen_complete(listen_on(occupant));
}

static const tdg__occupant_ops_t occupant_ops = {
    .drained = drained,
    .closed = closed,
    .has_more = has_more,
    .finish = finish,
};

int tdg__visit_listen(tdg__visit_t *visit, const tdg__mcp_request_t *request,
                      tdg__rpc_error_t *error) {
    tdg__address_t caller;
    struct listen_stream *stream = tdg__malloc(sizeof(*stream));
    if (stream == NULL) {
        tdg__listen_refuse(error);
        return TDG_EINVAL;
    }

    *stream =
        (struct listen_stream){.exchange = visit->exchange, .fields = visit->fields};
    tdg__occupant_init(&stream->occupant, &occupant_ops, visit->worker, true);
    const tdg__listen_opts_t opts = {
        .ops = &listen_ops,
        .owner = stream,
        .worker = visit->worker,
        .outlet = &visit->exchange->outlet,
        .caller = tdg__visit_caller(visit, &caller),
    };

    int rv = tdg__listen_open(&opts, request, error);
    if (rv < 0)
        tdg__free(stream);
    return rv;
}

/* SPDX-License-Identifier: MIT
 *
 * A connection on its way from one loop to another, with the request that made it move.
 */
#include <assert.h>
#include <fcntl.h>

#include <tidings/error.h>

#include "base/alloc.h"
#include "net/internal.h"

struct tdg__parcel {
    int fd;
    void *tag;
    tdg__http_reader_t *reader; /* has the request */
    struct input *input;        /* what came behind it; NULL: nothing */
    atomic_size_t *total;       /* where it counts as a connection; NULL: nowhere */
    bool eof;
};

int tdg__conn_move(tdg__conn_t *conn, tdg__parcel_t **ret) {
    const struct pump *pump = conn->outlet.net->pump;
    tdg__parcel_t *parcel;
    int rv = TDG_ENOMEM;

    assert(pump != NULL && pump->conn == conn && conn->phase == ANSWERING);
    if (conn->outlet.in_flight)
        return TDG_EAGAIN;

    parcel = tdg__malloc(sizeof(*parcel));
    if (parcel == NULL)
        return TDG_ENOMEM;
    *parcel = (tdg__parcel_t){.tag = conn->tag,
                              .reader = conn->reader,
                              .total = conn->outlet.net->opts.total,
                              .eof = conn->eof};
    if (pump->rest_len > 0) {
        parcel->input = tdg__input_append(NULL, pump->rest, pump->rest_len);
        if (parcel->input == NULL)
            goto fail_parcel;
    }

    rv = TDG_ESYSTEM;
    parcel->fd = fcntl(conn->outlet.fd, F_DUPFD_CLOEXEC, 0);
    if (parcel->fd < 0)
        goto fail_input;

    tdg__http_reader_charge(conn->reader, NULL); /* the budget stays with its thread */
    conn->reader = NULL;
    conn->moved = true;
    tdg__conn_abort(conn);
    *ret = parcel;
    return 0;

fail_input:
    tdg__free(parcel->input);
fail_parcel:
    tdg__free(parcel);
    return rv;
}

void tdg__parcel_destroy(tdg__parcel_t *parcel) {
    if (parcel == NULL)
        return;
    tdg__net_close_fd(parcel->fd);
    tdg__total_subtract(parcel->total);
    tdg__http_reader_destroy(parcel->reader);
    tdg__free(parcel->input);
    tdg__free(parcel);
}

int tdg__net_adopt(tdg__net_t *net, tdg__parcel_t *parcel) {
    const char *rest = NULL;
    size_t rest_len = 0;
    tdg__conn_t *conn;
    int rv;

    if (net->closing) {
        tdg__parcel_destroy(parcel);
        return TDG_ESYSTEM;
    }
    rv = tdg__conn_create(net, parcel->fd, parcel->tag, false, &conn);
    tdg__total_subtract(parcel->total); /* it counts as a connection again */
    if (rv < 0) {
        tdg__http_reader_destroy(parcel->reader);
        tdg__free(parcel->input);
        tdg__free(parcel);
        return rv;
    }

    conn->reader = parcel->reader;
    tdg__http_reader_charge(conn->reader, &net->bodies);
    conn->input = parcel->input;
    conn->eof = parcel->eof;
    tdg__free(parcel);
    if (conn->input != NULL) {
        rest = conn->input->data;
        rest_len = conn->input->end;
    }
    tdg__conn_report(conn, rest, rest_len);
    tdg__conn_resume(conn);
    return 0;
}

/* SPDX-License-Identifier: MIT
 *
 * Responses: a header block, and a body or a stream, in one write. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include <tidings/error.h>

#include "net/internal.h"

static const struct status {
    int code;
    const char *text;
} statuses[] = {
    {200, "OK"},
    {201, "Created"},
    {202, "Accepted"},
    {204, "No Content"},
    {304, "Not Modified"},
    {400, "Bad Request"},
    {401, "Unauthorized"},
    {403, "Forbidden"},
    {404, "Not Found"},
    {405, "Method Not Allowed"},
    {406, "Not Acceptable"},
    {408, "Request Timeout"},
    {409, "Conflict"},
    {410, "Gone"},
    {411, "Length Required"},
    {413, "Content Too Large"},
    {414, "URI Too Long"},
    {415, "Unsupported Media Type"},
    {417, "Expectation Failed"},
    {421, "Misdirected Request"},
    {422, "Unprocessable Content"},
    {426, "Upgrade Required"},
    {429, "Too Many Requests"},
    {431, "Request Header Fields Too Large"},
    {500, "Internal Server Error"},
    {501, "Not Implemented"},
    {503, "Service Unavailable"},
    {504, "Gateway Timeout"},
    {505, "HTTP Version Not Supported"},
};

static const char *text_of(int code) {
    for (size_t i = 0; i < sizeof(statuses) / sizeof(statuses[0]); i++) {
        if (statuses[i].code == code)
            return statuses[i].text;
    }
    return ""; /* which HTTP allows */
}

/* ---- Putting it together ------------------------------------------------ */

struct message {
    char start[160];
    char length[48];
    char chunk[CHUNK_HEAD_BYTES];
    struct iovec parts[12];
    int count;
};

static void add(struct message *m, const void *data, size_t len) {
    assert(m->count < (int)(sizeof(m->parts) / sizeof(m->parts[0])));
    if (len > 0)
        m->parts[m->count++] = tdg__part(data, len);
}

static void add_text(struct message *m, const char *text) {
    add(m, text, strlen(text));
}

static void add_start(struct message *m, tdg__conn_t *conn, int status) {
    int len = snprintf(m->start, sizeof(m->start),
                       "HTTP/1.1 %d %s\r\n"
                       "Date: %s\r\n"
                       "Connection: %s\r\n",
                       status, text_of(status), tdg__net_date(conn->outlet.net),
                       conn->keep_alive ? "keep-alive" : "close");

    add(m, m->start, (size_t)len);
}

static void add_type(struct message *m, const char *type) {
    add_text(m, "Content-Type: ");
    add_text(m, type);
    add_text(m, "\r\n");
}

static bool forbids_content(int status) {
    return status / 100 == 1 || status == 204 || status == 304;
}

static void add_length(struct message *m, size_t len) {
    int n = snprintf(m->length, sizeof(m->length), "Content-Length: %zu\r\n", len);

    add(m, m->length, (size_t)n);
}

static void add_chunk(struct message *m, const void *data, size_t len) {
    char *end = m->chunk + sizeof(m->chunk);
    char *head = tdg__chunk_head(end, len);

    add(m, head, (size_t)(end - head));
    add(m, data, len);
    add_text(m, "\r\n");
}

/* ---- Answering ---------------------------------------------------------- */

/* Whether the connection goes on; to be known before the head is written. */
static void decide(tdg__conn_t *conn) {
    if (conn->outlet.net->finishing)
        conn->keep_alive = false;
}

/* Whether it goes before strangers from now on: the only place that says so. */
static void judge(tdg__conn_t *conn, int status) {
    conn->proven = status < 400 && (conn->proven || conn->deserved);
}

/* The answer is written, or queued. */
static void answered(tdg__conn_t *conn) {
    tdg__net_t *net = conn->outlet.net;

    if (conn->phase == CLOSED)
        return;
    if (!conn->keep_alive) {
        tdg__conn_finish(conn);
        return;
    }
    conn->phase = WAITING;
    conn->deadline_ms = net->opts.idle_timeout_ms == 0
                            ? UINT64_MAX
                            : uv_now(net->loop) + net->opts.idle_timeout_ms;
    if (!conn->outlet.in_flight)
        tdg__conn_resume(conn);
}

/* `content_type` NULL: there is no body. */
static void add_head(struct message *m, tdg__conn_t *conn, int status,
                     const char *content_type, const char *fields, size_t len) {
    bool content = !forbids_content(status);

    decide(conn);
    judge(conn, status);
    add_start(m, conn, status);
    if (content_type != NULL && content)
        add_type(m, content_type);
    if (content)
        add_length(m, len);
    if (fields != NULL)
        add_text(m, fields);
    add_text(m, "\r\n");
}

static void respond(tdg__exchange_t *exchange, int status, const char *content_type,
                    const char *fields, const tdg__rope_t *body) {
    tdg__conn_t *conn = tdg__conn_of_exchange(exchange);
    bool is_text = body->splice_count == 0;
    bool shows_body = !forbids_content(status) && !conn->head;
    struct message m = {.count = 0};

    if (conn->phase >= FINISHING)
        return;
    assert(conn->phase == ANSWERING);

    if (is_text && body->text.data == NULL)
        content_type = NULL;
    add_head(&m, conn, status, content_type, fields, tdg__rope_len(body));
    if (shows_body && is_text)
        add(&m, body->text.data, body->text.len);
    tdg__outlet_writev(&conn->outlet, m.parts, m.count);
    if (shows_body && !is_text)
        tdg__outlet_write_rope(&conn->outlet, body);
    answered(conn);
}

void tdg__conn_refuse(tdg__conn_t *conn, int status, const char *reason) {
    char text[256];
    int len = snprintf(text, sizeof(text), "%s\n", reason);

    if (conn->reader != NULL) /* its body is of no use while the client lingers */
        tdg__net_give_reader(conn->outlet.net, conn->reader);
    conn->reader = NULL;

    conn->phase = ANSWERING;
    conn->keep_alive = false;
    conn->head = false;
    conn->lingers = true;
    if (len >= (int)sizeof(text))
        len = sizeof(text) - 1;
    tdg__exchange_respond(&conn->exchange, status, "text/plain; charset=utf-8",
                          status == 503 ? "Retry-After: 1\r\n" : NULL, text, (size_t)len);
}

static int begin(tdg__exchange_t *exchange, const char *fields, const void *first,
                 size_t len) {
    tdg__conn_t *conn = tdg__conn_of_exchange(exchange);
    struct message m = {.count = 0};
    int rv;

    if (conn->phase >= FINISHING)
        return TDG_EENDED;
    assert(conn->phase == ANSWERING);
    if (conn->eof || tdg__conn_keeps_much(conn)) { /* nobody who listens, or behaves */
        tdg__conn_abort(conn);
        return TDG_EENDED;
    }

    decide(conn);
    if (conn->old || conn->head)
        conn->keep_alive = false;
    conn->phase = STREAMING;
    conn->outlet.chunked = !conn->old;
    add_start(&m, conn, 200);
    add_type(&m, "text/event-stream");
    add_text(&m, "Cache-Control: no-cache, no-transform\r\n"
                 "X-Accel-Buffering: no\r\n");
    if (conn->outlet.chunked)
        add_text(&m, "Transfer-Encoding: chunked\r\n");
    if (fields != NULL)
        add_text(&m, fields);
    add_text(&m, "\r\n");
    if (first != NULL && len > 0 && !conn->head) {
        if (conn->outlet.chunked)
            add_chunk(&m, first, len);
        else
            add(&m, first, len);
    }

    rv = tdg__outlet_writev(&conn->outlet, m.parts, m.count);
    if (conn->head) { /* a stream without content has nothing to wait for */
        tdg__conn_finish(conn);
        return TDG_EENDED;
    }
    return rv;
}

static void end(tdg__exchange_t *exchange) {
    static const char last_chunk[] = "0\r\n\r\n";
    tdg__conn_t *conn = tdg__conn_of_exchange(exchange);

    if (conn->phase != STREAMING)
        return;
    if (conn->outlet.chunked)
        tdg__outlet_write(&conn->outlet, last_chunk, sizeof(last_chunk) - 1);
    if (conn->phase == CLOSED)
        return;
    conn->outlet.chunked = false;
    decide(conn);
    judge(conn, 200);
    answered(conn);
}

/* ---- As an exchange ----------------------------------------------------- */

static void close_(tdg__exchange_t *exchange) {
    tdg__conn_finish(tdg__conn_of_exchange(exchange));
}

static void peer(const tdg__exchange_t *exchange, char ret[TDG__PEER_MAX]) {
    const tdg__conn_t *conn = tdg__conn_of_exchange(exchange);
    struct sockaddr_storage address;
    int len = sizeof(address);

    ret[0] = '\0';
    if (uv_tcp_getpeername(&conn->tcp, (struct sockaddr *)&address, &len) < 0 ||
        uv_ip_name((struct sockaddr *)&address, ret, TDG__PEER_MAX) < 0)
        ret[0] = '\0';
}

static void prove(tdg__exchange_t *exchange) {
    tdg__conn_of_exchange(exchange)->deserved = true;
}

const tdg__exchange_ops_t tdg__conn_exchange_ops = {
    .outlet = {.drained = tdg__conn_drained, .broke = tdg__conn_broke},
    .respond = respond,
    .begin = begin,
    .end = end,
    .close = close_,
    .peer = peer,
    .prove = prove,
};

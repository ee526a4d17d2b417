/* SPDX-License-Identifier: MIT
 *
 * One HTTP/1.1 request as it was read, and the reader that makes it from bytes. No I/O:
 * bytes go in, a request or a refusal comes out. In front of llhttp stands a strict guard
 * over the request line and the header block, because llhttp 8.1 is lenient. */
#ifndef TDG_NET_HTTP_REQUEST_H
#define TDG_NET_HTTP_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum tdg__http_method {
    TDG__HTTP_OTHER,
    TDG__HTTP_DELETE,
    TDG__HTTP_GET,
    TDG__HTTP_HEAD,
    TDG__HTTP_OPTIONS,
    TDG__HTTP_POST,
    TDG__HTTP_PUT,
} tdg__http_method_t;

typedef struct tdg__http_field {
    const char *name;  /* in lower case */
    const char *value; /* without blanks around it; both end in NUL and hold none */
} tdg__http_field_t;

typedef struct tdg__http_request {
    tdg__http_method_t method;
    const char *path;  /* as sent, from "/" up to "?"; or "*", with OPTIONS only */
    const char *query; /* after the "?"; "" where there is none */
    const tdg__http_field_t *fields;
    size_t field_count;
    const char *body; /* ends in NUL, which does not count */
    size_t body_len;
    int minor;       /* HTTP/1.minor */
    bool keep_alive; /* the client expects to go on after the response */
} tdg__http_request_t;

/* The value of the first field of that name (lower case), NULL where there is none. There
 * is exactly one Host, in HTTP/1.0 too; the reader has refused more than one
 * Content-Length, Content-Type, Origin, Last-Event-ID, Authorization, Expect and Mcp-*
 * (mcp-...) field. */
const char *tdg__http_field(const tdg__http_request_t *request, const char *name);

/* Whether a Content-Type, NULL for none, is that of JSON. */
bool tdg__http_is_json(const char *content_type);

/* A copy with memory of its own, new: free it with tdg__free(). NULL when memory is out.
 * How many bytes it takes. */
tdg__http_request_t *tdg__http_request_copy(const tdg__http_request_t *request);
size_t tdg__http_request_size(const tdg__http_request_t *request);

/* ---- Reader ------------------------------------------------------------- */

typedef struct tdg__http_limits {
    size_t max_header_bytes; /* request line and header block */
    size_t max_fields;       /* 100 is plenty */
    size_t max_body_bytes;

    /* What the body of this request may have, asked when its head is known; at most
     * max_body_bytes in any case. NULL: max_body_bytes. */
    size_t (*body_limit)(void *user, const tdg__http_request_t *head);
    void *user;
} tdg__http_limits_t;

/* What the bodies that several readers of one thread hold may have in all. Those of up to
 * TDG__HTTP_SMALL_BODY bytes do not count and are always read, so that small requests go
 * on while large ones take all there is; so is one that nobody has to share with. */
typedef struct tdg__http_budget {
    size_t max_bytes; /* 0: no limit */
    size_t used_bytes;
} tdg__http_budget_t;

enum { TDG__HTTP_SMALL_BODY = 64 * 1024 };

typedef struct tdg__http_reader tdg__http_reader_t;

typedef enum tdg__http_step {
    TDG__HTTP_MORE,    /* not complete yet */
    TDG__HTTP_HEADED,  /* the header block is complete, and more of the body is to
                          come; reported once: tdg__http_reader_request() has all but
                          the body. What comes whole is READY at once */
    TDG__HTTP_READY,   /* complete: see tdg__http_reader_request() */
    TDG__HTTP_REFUSED, /* answer with tdg__http_reader_status(), then close */
} tdg__http_step_t;

/* Stores a new reader in *ret. Returns 0 or TDG_ENOMEM. */
int tdg__http_reader_create(const tdg__http_limits_t *limits, tdg__http_reader_t **ret);
void tdg__http_reader_destroy(tdg__http_reader_t *reader); /* NULL is accepted */

/* From now on its body counts in `budget` (borrowed; NULL: nowhere), and no more in the
 * one before. What it has already is taken over whatever the budget says. */
void tdg__http_reader_charge(tdg__http_reader_t *reader, tdg__http_budget_t *budget);

/* Reads on. *ret_used tells how many bytes were taken; after READY the rest belongs to
 * what follows the request (a pipelined one, say), after HEADED to its body: feed it
 * again. After READY and REFUSED nothing is taken until tdg__http_reader_reset(). A few
 * empty lines before a request are skipped. How the bytes are cut into pieces makes no
 * difference, and each costs the same. */
tdg__http_step_t tdg__http_reader_feed(tdg__http_reader_t *reader, const char *data,
                                       size_t len, size_t *ret_used);

/* Whether a request has begun: some of its bytes were taken. */
bool tdg__http_reader_begun(const tdg__http_reader_t *reader);

/* How many bytes of the body, or of its chunk, are known to be missing. */
uint64_t tdg__http_reader_missing(const tdg__http_reader_t *reader);

/* After HEADED: whether the client waits for "100 Continue" before it sends the body. */
bool tdg__http_reader_expects(const tdg__http_reader_t *reader);

/* After HEADED and READY; borrowed until reset or destroy. */
const tdg__http_request_t *tdg__http_reader_request(const tdg__http_reader_t *reader);

/* After REFUSED: 400, 413 (body), 414 (request line), 417 (Expect), 431 (header block),
 * 501 (method or transfer coding), 503 (budget), 505 (version) or 500 (out of memory),
 * and a constant sentence for the client, without a full stop and without anything that
 * the client has sent. */
int tdg__http_reader_status(const tdg__http_reader_t *reader);
const char *tdg__http_reader_reason(const tdg__http_reader_t *reader);

/* Ready for the next request. Memory beyond a few KiB is given back. */
void tdg__http_reader_reset(tdg__http_reader_t *reader);

#endif

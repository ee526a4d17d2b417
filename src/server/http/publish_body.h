/* SPDX-License-Identifier: MIT
 *
 * The body of POST /publish, from bytes to a checked list: one object, or an array of
 * them. No I/O and no server: what depends on the server (the limit of a URI, which
 * sources accept content) is checked elsewhere. */
#ifndef TDG_SERVER_PUBLISH_BODY_H
#define TDG_SERVER_PUBLISH_BODY_H

#include <stdbool.h>
#include <stddef.h>

#include <jansson.h>

enum {
    TDG__PUBLISH_MAX_ITEMS = 1000,
    TDG__PUBLISH_MAX_BYTES = 4 << 20,
};

/* One change that somebody publishes. */
typedef struct tdg__publish_item {
    const char *uri;     /* valid by RFC 3986 */
    json_t *metadata;    /* an object of its own, or NULL */
    const char *content; /* bytes, with a NUL behind them; NULL: none were sent */
    size_t content_len;
    const char *mime_type; /* NULL: not said; only with content */
    bool deleted;          /* never with content */
    bool unserved;         /* the store knows of nobody who serves it */
    void *prepared;        /* whatever the store keeps here between its two steps */
    char *decoded;         /* of content that came as base64 */
} tdg__publish_item_t;

typedef struct tdg__publish_list {
    tdg__publish_item_t *items; /* at least one */
    size_t count;
    json_t *root; /* what the strings point into */
} tdg__publish_list_t;

/* Why nothing was published. */
typedef struct tdg__publish_error {
    int status; /* of HTTP */
    bool has_index;
    size_t index;      /* of the change that is wrong */
    char field[64];    /* of that change; "": none in particular */
    char message[256]; /* for people, valid UTF-8 */
} tdg__publish_error_t;

/* Fills *error like printf, for the change at `index` (SIZE_MAX: none), and its `field`
 * (NULL: none). Returns TDG_EINVAL. */
int tdg__publish_fail(tdg__publish_error_t *error, int status, size_t index,
                      const char *field, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

/* Reads a body. Returns 0, TDG_EINVAL (with *error, status 400 or 413) or TDG_ENOMEM; on
 * failure *ret is left as it was. */
int tdg__publish_read(const char *body, size_t len, tdg__publish_list_t *ret,
                      tdg__publish_error_t *error);
void tdg__publish_list_done(tdg__publish_list_t *list); /* all zero is accepted */

#endif

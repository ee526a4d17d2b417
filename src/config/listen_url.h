/* SPDX-License-Identifier: MIT
 *
 * An address to listen on, as a URL: http://127.0.0.1:8808, or with the dialect:
 * erlmcp+http://127.0.0.1:8809 */
#ifndef TDG_CONFIG_LISTEN_URL_H
#define TDG_CONFIG_LISTEN_URL_H

#include <stdint.h>

#include "base/parse_error.h"

#define TDG__LISTEN_DEFAULT "http://127.0.0.1:8808"

enum { TDG__LISTEN_PORT = 8808, TDG__LISTEN_HOST_MAX = 255 };

/* What is spoken. The names are tdg__dialects[]. */
typedef enum tdg__dialect {
    TDG__DIALECT_MCP,
    TDG__DIALECT_ERLMCP,
    TDG__DIALECT_UNSAID,
} tdg__dialect_t;
extern const char *const tdg__dialects[]; /* ends with NULL */

typedef struct tdg__listen_url {
    char host[TDG__LISTEN_HOST_MAX + 1]; /* an address or a name, without brackets */
    uint16_t port;                       /* 0: any free one */
    tdg__dialect_t dialect;              /* UNSAID: the server's */
} tdg__listen_url_t;

/* A port that is not given is 8808. Returns 0, or TDG_EINVAL with *error filled: a
 * sentence without the URL itself. */
int tdg__listen_url_parse(const char *url, tdg__listen_url_t *ret,
                          tdg__parse_error_t *error);

/* Writes it as the URL that clients call, and a NUL; an IPv6 address gets its brackets.
 */
enum { TDG__LISTEN_URL_MAX = TDG__LISTEN_HOST_MAX + 20 };
void tdg__listen_url_put(const tdg__listen_url_t *listen, char url[TDG__LISTEN_URL_MAX]);

#endif

/* SPDX-License-Identifier: MIT
 *
 * The content of a resource, as the member of `contents` that carries it. For large
 * content: the length is counted first, so that memory is allocated once and exactly; no
 * JSON value is made. May run on any thread. */
#ifndef TDG_MCP_CONTENT_H
#define TDG_MCP_CONTENT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

/* Whether it can be a JSON string: UTF-8 without NUL. Anything else is a blob. */
bool tdg__content_is_text(const char *data, size_t len);

/* `"text":"…"` or `"blob":"…"` (base64); new, NULL when memory is out. The second is
 * always a blob. */
tdg__buf_t *tdg__content_member(const char *data, size_t len);
tdg__buf_t *tdg__content_blob(const char *data, size_t len);

/* Whether such a member is text. */
bool tdg__content_member_is_text(const tdg__buf_t *member);

#endif

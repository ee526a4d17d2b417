/* SPDX-License-Identifier: MIT
 *
 * URIs that are reported because of a subscription to a template or to a parent URI. */
#ifndef TDG_CLIENT_COVER_H
#define TDG_CLIENT_COVER_H

#include "client/subs/sub.h"

enum {
    TDG__COVER_MAX_HEARD = 65536, /* URIs known through templates alone */
    TDG__COVER_MAX_URI = 8192,
    TDG__COVER_MAX_BYTES = 16 << 20, /* of their texts */
};

/* A subscription that is one for a template, as its text says. Returns 0 or TDG_ENOMEM.
 */
int tdg__cover_add(tdg__core_t *core, tdg__sub_t *sub);
void tdg__cover_remove(tdg__core_t *core, tdg__sub_t *sub);

/* Whether two texts are one template, spelled with braces or with %7B and %7D. */
bool tdg__cover_same(const char *a, size_t a_len, const char *b, size_t b_len);

/* Whether something else that is subscribed to covers it. */
bool tdg__cover_has(tdg__core_t *core, const tdg__sub_t *sub);

/* The record of a URI that is covered, made where there is none; NULL: no memory. */
tdg__sub_t *tdg__cover_hear(tdg__core_t *core, const char *uri, size_t len);
/* It is not only heard of any more, or is about to be freed. */
void tdg__cover_leave(tdg__core_t *core, tdg__sub_t *sub);
/* Those that nothing covers any more, now that this one is GONE. */
void tdg__cover_forget(tdg__core_t *core, const tdg__sub_t *gone);

#endif

/* SPDX-License-Identifier: MIT */
#include "config/left_out.h"

#include <stddef.h>
#include <string.h>

const char *const tdg__left_out[] = {
#ifdef TDG_WITHOUT_CLIENT
    "client",
#endif
#ifdef TDG_WITHOUT_HTTP_SOURCE
    "http-source",
#endif
#ifdef TDG_WITHOUT_POSTGRES
    "postgres",
#endif
#ifdef TDG_WITHOUT_SQLITE
    "sqlite",
#endif
    NULL,
};

static const char *const kinds[] = {
#ifdef TDG_WITHOUT_HTTP_SOURCE
    "http",
#endif
#ifdef TDG_WITHOUT_POSTGRES
    "postgres",
#endif
#ifdef TDG_WITHOUT_SQLITE
    "sqlite",
#endif
    NULL,
};

bool tdg__is_left_out_kind(const char *name) {
    for (const char *const *kind = kinds; *kind != NULL; kind++)
        if (strcmp(*kind, name) == 0)
            return true;
    return false;
}

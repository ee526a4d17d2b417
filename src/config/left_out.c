/* SPDX-License-Identifier: MIT */
#include "config/left_out.h"

#include <stddef.h>
#include <string.h>

const tdg__left_out_t tdg__left_out[] = {
#ifdef TDG_WITHOUT_CLIENT
    {"client", NULL},
#endif
#ifdef TDG_WITHOUT_HTTP_SOURCE
    {"http-source", "http"},
#endif
#ifdef TDG_WITHOUT_POSTGRES
    {"postgres", "postgres"},
#endif
#ifdef TDG_WITHOUT_SQLITE
    {"sqlite", "sqlite"},
#endif
#ifdef TDG_WITHOUT_YAML
    {"yaml", NULL},
#endif
    {NULL, NULL},
};

bool tdg__is_left_out_kind(const char *name) {
    for (const tdg__left_out_t *out = tdg__left_out; out->name != NULL; out++)
        if (out->kind != NULL && strcmp(out->kind, name) == 0)
            return true;
    return false;
}

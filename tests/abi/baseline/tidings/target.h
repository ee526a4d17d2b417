/* SPDX-License-Identifier: MIT
 *
 * What can be subscribed to, watched and configured. The kind says what the name is: no
 * spelling of a name means anything by itself, so a resource may have the URI
 * "list:resources", say. */
#ifndef TIDINGS_TARGET_H
#define TIDINGS_TARGET_H

#ifdef __cplusplus
extern "C" {
#endif

typedef enum tdg_target_kind {
    TDG_TARGET_URI,      /* one resource */
    TDG_TARGET_TEMPLATE, /* every resource whose URI the template matches (RFC 6570) */
    TDG_TARGET_LIST,     /* which of them there are: "resources", "tools" or "prompts" */
} tdg_target_kind_t;

typedef struct tdg_target {
    tdg_target_kind_t kind;
    const char *name; /* the URI, the template or the name of the list */
} tdg_target_t;

#ifdef __cplusplus
}
#endif

#endif

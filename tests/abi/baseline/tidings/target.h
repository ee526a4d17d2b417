/* SPDX-License-Identifier: MIT
 *
 * Targets of subscriptions, watchers and settings. The kind determines the meaning of the
 * name; no spelling of a name has a special meaning, so a resource may have the URI
 * "list:resources", for example. */
#ifndef TIDINGS_TARGET_H
#define TIDINGS_TARGET_H

#ifdef __cplusplus
extern "C" {
#endif

typedef enum tdg_target_kind {
    TDG_TARGET_URI,      /* one resource */
    TDG_TARGET_TEMPLATE, /* every resource whose URI the template matches (RFC 6570) */
    TDG_TARGET_LIST,     /* a list of the server: "resources", "tools" or "prompts" */
} tdg_target_kind_t;

typedef struct tdg_target {
    tdg_target_kind_t kind;
    const char *name; /* the URI, the template or the name of the list */
} tdg_target_t;

#ifdef __cplusplus
}
#endif

#endif

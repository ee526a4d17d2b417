/* SPDX-License-Identifier: MIT
 *
 * One resource, template, tool or prompt that the server offers: its definition as the
 * protocol lists it, and the callbacks that answer for it. Immutable once made and
 * counted atomically: a user holds a reference, though the catalogue may change or remove
 * the entry meanwhile. Dropping the last reference calls user_free, on the thread that
 * drops it; so never drop one while holding a lock. */
#ifndef TDG_SERVER_ENTRY_H
#define TDG_SERVER_ENTRY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include <jansson.h>

#include <tidings/server.h>

#include "base/template.h"
#include "mcp/result.h"

typedef enum tdg__kind {
    TDG__RESOURCE,
    TDG__TEMPLATE,
    TDG__TOOL,
    TDG__PROMPT,
    TDG__KIND_COUNT,
} tdg__kind_t;

enum { TDG__ENTRY_MAX_KEY = 4096 }; /* bytes of a URI, template or name */

typedef struct tdg__entry {
    atomic_size_t refs;
    tdg__kind_t kind;
    json_t *definition; /* nobody may modify it; taking references is fine */

    tdg_read_fn read;         /* resources and templates */
    tdg_call_fn call;         /* tools and prompts */
    tdg_complete_fn complete; /* templates and prompts; may be NULL */
    void *user;
    tdg_user_free_fn user_free; /* may be NULL */

    tdg__template_t *parsed; /* templates; NULL otherwise */
    bool not_subscribable;   /* resources and templates, as the rest */
    tdg__caching_t caching;

    /* Tools and prompts, the only field that changes: the expected size of the next
     * answer, from those before it; 0: small, or not known. */
    atomic_size_t answer_bytes;

    size_t len;
    char key[]; /* URI, template or name; ends in NUL */
} tdg__entry_t;

/* Each stores a new entry with one reference in *ret; everything but `user` is copied.
 * Named fields win over what `extra` says. A schema without "type" gets "object". Returns
 * 0, TDG_EINVAL (a required field is missing or empty, is not UTF-8 or has the wrong
 * type), TDG_EURI, TDG_ETEMPLATE, TDG_EAMBIGUOUS, TDG_EURILEN or TDG_ENOMEM; then `user`
 * stays the caller's. */
int tdg__entry_from_resource(const tdg_resource_t *resource, tdg__entry_t **ret);
int tdg__entry_from_template(const tdg_template_t *template_, tdg__entry_t **ret);
int tdg__entry_from_tool(const tdg_tool_t *tool, tdg__entry_t **ret);
int tdg__entry_from_prompt(const tdg_prompt_t *prompt, tdg__entry_t **ret);

tdg__entry_t *tdg__entry_ref(tdg__entry_t *entry); /* returns `entry` */
void tdg__entry_unref(tdg__entry_t *entry);        /* NULL is accepted */

/* Frees an entry that nobody else has seen, and leaves `user` to the caller. */
void tdg__entry_discard(tdg__entry_t *entry);

#endif

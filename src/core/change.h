/* SPDX-License-Identifier: MIT
 *
 * One change of one resource (or of one list), immutable and reference-counted once it
 * has its number: all engines and streams share the same object. Only its encoded forms
 * are added later, each by the first that needs it, for all. */
#ifndef TDG_CORE_CHANGE_H
#define TDG_CORE_CHANGE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "base/buf.h"

/* What can be subscribed to and what can change. */
typedef enum tdg__target_kind {
    TDG__TARGET_URI,      /* one resource */
    TDG__TARGET_TEMPLATE, /* every resource whose URI the template matches */
    TDG__TARGET_LIST,     /* a list of the catalogue: "tools", "prompts" or "resources" */
} tdg__target_kind_t;

typedef struct tdg__target {
    tdg__target_kind_t kind;
    const char
        *name; /* the URI, the template or the name of the list; need not end in NUL */
    size_t len;
} tdg__target_t;

/* Targets from NUL-terminated strings, which are borrowed. */
tdg__target_t tdg__target_uri(const char *uri);
tdg__target_t tdg__target_template(const char *template_);
tdg__target_t tdg__target_list(const char *name);

bool tdg__target_equal(const tdg__target_t *a, const tdg__target_t *b);

/* Whether it has a name, and a list is one of the three. */
bool tdg__target_valid(const tdg__target_t *target);

enum { TDG__CHANGE_FORMS = 2 };

typedef struct tdg__change {
    atomic_size_t refs;
    tdg__target_kind_t kind; /* URI or LIST, never TEMPLATE */
    bool deleted;            /* the resource is gone */
    bool assumed;            /* made by catch-up: the source has said nothing */
    uint64_t number;         /* position in the epoch; 0 until stamped (and for an assumed
                                change before the first one) */
    int64_t wall_ms;         /* when it happened, or came in */
    json_t *metadata;        /* what the application said, an object; NULL: nothing */
    _Atomic(tdg__buf_t *) forms[TDG__CHANGE_FORMS]; /* see tdg__change_form() */
    size_t len;
    char name[]; /* NUL-terminated */
} tdg__change_t;

/* Stores a new change, not yet stamped, in *ret. Of `metadata` a reference is taken:
 * nobody may modify it from now on. NULL is nothing to say. Returns 0, TDG_EINVAL (an
 * empty name, metadata that is not an object or for a list, a list that does not exist),
 * TDG_EMETADATA (more than max_metadata_bytes as compact JSON) or TDG_ENOMEM. */
int tdg__change_create(const tdg__target_t *target, json_t *metadata, bool deleted,
                       int64_t wall_ms, size_t max_metadata_bytes, tdg__change_t **ret);

/* Gives the change its number, once, before anybody else sees it. The number is also the
 * resource's version: it grows per resource, needs no memory per resource, and is the
 * same in every engine. Returns 0 or TDG_EINVAL (number 0, or stamped before). */
int tdg__change_stamp(tdg__change_t *change, uint64_t number);

/* `change_type` where the application gave none: "content_update", or "deleted". */
const char *tdg__change_type(const tdg__change_t *change);

/* Stores a new object in *ret: the metadata as a client gets it, with `updated_at`,
 * `change_type` and `version` (the number) where the application gave none; a deletion is
 * always of type "deleted". A list has none: TDG_EINVAL. Returns 0 or TDG_ENOMEM too. */
int tdg__change_metadata(const tdg__change_t *change, json_t **ret);

/* The change as bytes, one form per way to write it; which is which is the callers'. From
 * any thread. Forms are borrowed and live as long as the change. tdg__change_form() gives
 * NULL where there is none yet. tdg__change_set_form() steals `form` and returns the one
 * that counts: `form`, or the one that was there first. `index` is below
 * TDG__CHANGE_FORMS. */
tdg__buf_t *tdg__change_form(tdg__change_t *change, unsigned index);
tdg__buf_t *tdg__change_set_form(tdg__change_t *change, unsigned index, tdg__buf_t *form);

tdg__change_t *tdg__change_ref(tdg__change_t *change); /* returns `change` */
void tdg__change_unref(tdg__change_t *change);         /* NULL is accepted */

#endif

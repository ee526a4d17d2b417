/* SPDX-License-Identifier: MIT
 *
 * The resources of a source, in the catalogue of a server, and the answers to reads. */
#ifndef TDG_SERVE_LISTING_H
#define TDG_SERVE_LISTING_H

#include <stdatomic.h>

#include <tidings/server.h>

#include "source/common/source.h"

/* Stands for one source in the catalogue, for as long as anything listed by it, or a read
 * of that, is there; counted. */
typedef struct tdg__listing {
    atomic_size_t refs;
    void *owner;   /* for `read`, which gets the listing */
    bool outdated; /* the source has left: what it lists is not corrected any more */
} tdg__listing_t;

tdg__listing_t *tdg__listing_create(void *owner); /* NULL where memory is out */
void tdg__listing_unref(tdg__listing_t *listing); /* NULL is accepted */

/* Lists what the entry of a source names by itself: a resource or a template; `read` and
 * `complete`, which is for kinds that complete variables, get the listing. Returns 0 or a
 * code as tdg_server_add_resource(). */
int tdg__listing_add_entry(tdg__listing_t *listing, tdg_server_t *server,
                           const tdg__source_t *source, tdg_read_fn read,
                           tdg_complete_fn complete);

/* The same for something that the source lists. */
int tdg__listing_add(tdg__listing_t *listing, tdg_server_t *server,
                     const tdg__source_t *source, const tdg__listed_t *listed,
                     tdg_read_fn read);

/* Takes a resource from the list, unless another listing has it; publishes that it was
 * deleted, unless that is `published` already. Returns 0, or TDG_EAGAIN or TDG_ENOMEM
 * where subscribers could not be notified: then it stays in the list. */
int tdg__listing_remove(tdg__listing_t *listing, tdg_server_t *server, const char *uri,
                        bool published);

/* Whether it is this listing that has the resource in the list. */
bool tdg__listing_has(const tdg__listing_t *listing, tdg_server_t *server,
                      const char *uri);

/* Calls for each resource that is listed by an outdated listing, and takes templates that
 * are so from their list. `drop` takes the resource from its list; false: no more of them
 * now. `is_displaced` says of other resources whether they are to be dropped, too; NULL:
 * none. */
typedef struct tdg__listings_drop {
    bool (*drop)(void *arg, const char *uri);
    bool (*is_displaced)(void *arg, const char *uri, const tdg__listing_t *listing);
    void *arg;
} tdg__listings_drop_t;

void tdg__listings_drop_outdated(tdg_server_t *server, const tdg__listings_drop_t *how);

/* Answers a read with content. */
void tdg__reply_content(tdg_request_t *request, const char *uri,
                        const tdg__content_t *content);

/* The same in two steps, for content that is encoded elsewhere: the item without it, new,
 * NULL where memory is out; and the answer, with that item (borrowed; NULL is out of
 * memory) and the content as text (mcp/content.h). */
json_t *tdg__content_item(const char *uri, const tdg__content_t *content);
void tdg__reply_encoded(tdg_request_t *request, json_t *item, tdg__buf_t *member);

#endif

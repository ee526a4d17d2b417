/* SPDX-License-Identifier: MIT
 *
 * Whole lists, page by page. A list that does not end, or that repeats a cursor, is not
 * valid MCP and is given up. */
#include <string.h>

#include <tidings/error.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "client/session/core_internal.h"

enum {
    MAX_PAGES = 1000,
    MAX_ENTRIES = 100000,
    MAX_MESSAGES = 4, /* bytes of all pages, in messages of the largest size */
};

static const struct kind {
    const char *method, *field, *capability;
} kinds[] = {
    [TDG_LIST_RESOURCES] = {"resources/list", "resources", "resources"},
    [TDG_LIST_TEMPLATES] = {"resources/templates/list", "resourceTemplates", "resources"},
    [TDG_LIST_TOOLS] = {"tools/list", "tools", "tools"},
    [TDG_LIST_PROMPTS] = {"prompts/list", "prompts", "prompts"},
};

struct listing {
    tdg__core_t *core;
    tdg_list_kind_t list;
    int64_t deadline;            /* for all pages together */
    json_t *entries;             /* so far */
    uint64_t cursors[MAX_PAGES]; /* hashes of those seen */
    size_t pages;
    size_t bytes; /* of the pages, as JSON */
    tdg__core_done_fn done;
    void *user;
};

static void finish(struct listing *listing, int code, const tdg_failure_t *failure) {
    listing->done(listing->user, code, code == 0 ? listing->entries : NULL, failure);
    json_decref(listing->entries);
    tdg__free(listing);
}

static void fail(struct listing *listing, int code, const char *why) {
    tdg_failure_t failure;

    tdg__failure_set(&failure, code, "%s: %s", kinds[listing->list].method, why);
    finish(listing, code, &failure);
}

/* ---- Pages -------------------------------------------------------------- */

static void on_page(void *user, const tdg__outcome_t *outcome);

static int ask_for_page(struct listing *listing, const char *cursor) {
    int64_t left = listing->deadline - tdg__core_now(listing->core);
    tdg__client_request_opts_t wanted = {.method = kinds[listing->list].method,
                                         .timeout_ms = left > 0 ? (uint32_t)left : 1};

    if (cursor != NULL) {
        wanted.params = json_pack("{s:s}", "cursor", cursor);
        if (wanted.params == NULL)
            return TDG_ENOMEM;
    }
    return tdg__client_request_begin(listing->core, &wanted, on_page, listing, NULL);
}

/* Whether a cursor was there before; else it is remembered. */
static bool is_known(struct listing *listing, const char *cursor) {
    static const tdg__hash_key_t key = {1, 2}; /* a collision harms only its maker */
    uint64_t hash = tdg__hash(&key, cursor, strlen(cursor));

    for (size_t i = 0; i < listing->pages; i++) {
        if (listing->cursors[i] == hash)
            return true;
    }
    listing->cursors[listing->pages] = hash;
    return false;
}

/* Everything is there. */
static void complete(struct listing *listing) {
    tdg__core_t *core = listing->core;
    int rv = 0;

    if (listing->list == TDG_LIST_TOOLS && tdg__tools_want_headers(core))
        rv = tdg__tools_listed(core, listing->entries);
    if (rv < 0)
        fail(listing, rv, tdg_strerror(rv));
    else
        finish(listing, 0, NULL);
}

/* Whether the pages so far, and this one, are more than anybody wants to keep. */
static bool is_too_large(struct listing *listing, const json_t *page) {
    listing->bytes += json_dumpb(page, NULL, 0, JSON_COMPACT);
    return json_array_size(listing->entries) + json_array_size(page) > MAX_ENTRIES ||
           listing->bytes / MAX_MESSAGES > listing->core->client->max_message_bytes;
}

static void take_page(struct listing *listing, const json_t *result) {
    json_t *page = json_object_get(result, kinds[listing->list].field);
    const json_t *next = json_object_get(result, "nextCursor");
    const char *cursor = json_string_value(next);
    int rv;

    if (!json_is_array(page) || (next != NULL && cursor == NULL && !json_is_null(next))) {
        fail(listing, TDG_EJSON, "the response is not a page of a list");
    } else if (is_too_large(listing, page)) {
        fail(listing, TDG_ETOOLARGE, "the list is too large");
    } else if (json_array_extend(listing->entries, page) < 0) {
        fail(listing, TDG_ENOMEM, tdg_strerror(TDG_ENOMEM));
    } else if (cursor == NULL) {
        complete(listing);
    } else if (listing->pages + 1 == MAX_PAGES || is_known(listing, cursor)) {
        fail(listing, TDG_EJSON, "the list has no end");
    } else {
        listing->pages++;
        rv = ask_for_page(listing, cursor);
        if (rv < 0)
            fail(listing, rv, tdg_strerror(rv));
    }
}

/* A server that does not have this kind of thing has none of them. */
static bool has_none(const struct listing *listing, const tdg__outcome_t *outcome) {
    const json_t *capabilities = listing->core->capabilities;

    return outcome->code == TDG_ENOTSUP ||
           (outcome->failure->rpc_code != 0 && capabilities != NULL &&
            json_object_get(capabilities, kinds[listing->list].capability) == NULL);
}

static void on_page(void *user, const tdg__outcome_t *outcome) {
    struct listing *listing = user;

    if (outcome->code == 0)
        take_page(listing, outcome->result);
    else if (listing->pages == 0 && has_none(listing, outcome))
        finish(listing, 0, NULL);
    else if (listing->pages > 0 && outcome->code == TDG_ETIMEDOUT)
        fail(listing, TDG_ETIMEDOUT, "the list does not end within the time-out");
    else
        finish(listing, outcome->code, outcome->failure);
}

void tdg__list_until(tdg__core_t *core, tdg_list_kind_t list, int64_t deadline,
                     tdg__core_done_fn done, void *user) {
    struct listing *listing = tdg__malloc(sizeof(*listing));
    int rv = TDG_ENOMEM;

    if (listing != NULL) {
        *listing = (struct listing){.core = core,
                                    .list = list,
                                    .deadline = deadline,
                                    .entries = json_array(),
                                    .done = done,
                                    .user = user};
        if (listing->entries != NULL)
            rv = ask_for_page(listing, NULL);
    }
    if (rv < 0) {
        if (listing != NULL)
            json_decref(listing->entries);
        tdg__free(listing);
        tdg__core_refuse(done, user, rv);
    }
}

void tdg__core_list(tdg__core_t *core, tdg_list_kind_t list, tdg__core_done_fn done,
                    void *user) {
    tdg__list_until(core, list, tdg__core_now(core) + core->client->timeout_ms, done,
                    user);
}

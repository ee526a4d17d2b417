/* SPDX-License-Identifier: MIT */
#include "serve/listing.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/base64.h"
#include "base/text.h"
#include "mcp/content.h"
#include "server/api/server.h"
#include "server/mcp/call.h"

/* ---- Counted ------------------------------------------------------------ */

tdg__listing_t *tdg__listing_create(void *owner) {
    tdg__listing_t *listing = tdg__malloc(sizeof(*listing));

    if (listing != NULL) {
        atomic_init(&listing->refs, 1);
        listing->owner = owner;
        listing->outdated = false;
    }
    return listing;
}

static void ref(tdg__listing_t *listing) {
    atomic_fetch_add_explicit(&listing->refs, 1, memory_order_relaxed);
}

void tdg__listing_unref(tdg__listing_t *listing) {
    if (listing != NULL &&
        atomic_fetch_sub_explicit(&listing->refs, 1, memory_order_acq_rel) == 1)
        tdg__free(listing);
}

static void user_free(void *user) {
    tdg__listing_unref(user);
}

/* ---- Lists -------------------------------------------------------------- */

/* {"annotations": {"lastModified": "2026-11-16T02:00:00Z"}}; NULL: not said, or no
 * memory.
 */
static json_t *annotations_of(int64_t modified_ms) {
    time_t seconds = (time_t)(modified_ms / 1000);
    struct tm utc;
    char text[32];

    if (modified_ms == 0 || gmtime_r(&seconds, &utc) == NULL ||
        strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &utc) == 0)
        return NULL;
    return json_pack("{s:{s:s}}", "annotations", "lastModified", text);
}

bool tdg__listing_has(const tdg__listing_t *listing, tdg_server_t *server,
                      const char *uri) {
    tdg__entry_t *entry = tdg__catalogue_find(server->catalogue, TDG__RESOURCE, uri);
    bool listed = entry != NULL && entry->user == listing;

    tdg__entry_unref(entry);
    return listed;
}

/* Another size or time is no change of the list. */
static int relist(tdg_server_t *server, const tdg_resource_t *resource) {
    tdg__entry_t *entry;
    int rv = tdg__entry_from_resource(resource, &entry);

    return rv < 0 ? rv : tdg__catalogue_add(server->catalogue, entry);
}

int tdg__listing_add(tdg__listing_t *listing, tdg_server_t *server,
                     const tdg__source_t *source, const tdg__listed_t *listed,
                     tdg_read_fn read) {
    json_t *extra = annotations_of(listed->modified_ms);
    const tdg_settings_t settings = tdg__source_settings(source);
    tdg_resource_t resource = {.uri = listed->uri,
                               .name = listed->name != NULL ? listed->name : listed->uri,
                               .title = listed->title,
                               .description = listed->description,
                               .mime_type = listed->mime_type,
                               .size = listed->size,
                               .extra = extra,
                               .read = read,
                               .user = listing,
                               .user_free = user_free,
                               .not_subscribable = !source->entry.subscribable};

    if (source->template_ == NULL) /* else the template's settings hold for all of them */
        resource.settings = &settings;
    ref(listing);

    int rv = tdg__listing_has(listing, server, listed->uri)
                 ? relist(server, &resource)
                 : tdg_server_add_resource(server, &resource);
    if (rv < 0)
        tdg__listing_unref(listing);
    json_decref(extra);
    return rv;
}

int tdg__listing_add_entry(tdg__listing_t *listing, tdg_server_t *server,
                           const tdg__source_t *source, tdg_read_fn read,
                           tdg_complete_fn complete) {
    const tdg__source_entry_t *entry = &source->entry;

    if (entry->uri == NULL)
        return 0;
    if (source->template_ == NULL) {
        const tdg__listed_t resource = {.uri = entry->uri,
                                        .name = entry->name,
                                        .title = entry->title,
                                        .description = entry->description,
                                        .mime_type = entry->mime_type};

        return tdg__listing_add(listing, server, source, &resource, read);
    }

    const tdg_settings_t settings = tdg__source_settings(source);
    const tdg_template_t template_ = {
        .uri_template = entry->uri,
        .name = entry->name != NULL ? entry->name : entry->uri,
        .title = entry->title,
        .description = entry->description,
        .mime_type = entry->mime_type,
        .read = read,
        .complete = source->kind->complete != NULL ? complete : NULL,
        .user = listing,
        .user_free = user_free,
        .not_subscribable = !entry->subscribable,
        .settings = &settings};

    ref(listing);
    int rv = tdg_server_add_template(server, &template_);
    if (rv < 0)
        tdg__listing_unref(listing);
    return rv;
}

int tdg__listing_remove(tdg__listing_t *listing, tdg_server_t *server, const char *uri,
                        bool published) {
    if (!tdg__listing_has(listing, server, uri))
        return 0;

    int rv = published ? tdg__server_unlist(server, uri)
                       : tdg_server_remove_resource(server, uri);
    return rv == TDG_EAGAIN || rv == TDG_ENOMEM ? rv : 0;
}

struct dropping {
    tdg_server_t *server;
    const tdg__listings_drop_t *how;
};

static bool is_outdated(const tdg__entry_t *entry) {
    return entry->user_free == user_free &&
           ((const tdg__listing_t *)entry->user)->outdated;
}

static bool drop_resource(void *arg, tdg__entry_t *entry) {
    const tdg__listings_drop_t *how = ((struct dropping *)arg)->how;
    bool is_displaced = how->is_displaced != NULL && entry->user_free == user_free &&
                        how->is_displaced(how->arg, entry->key, entry->user);

    return (!is_displaced && !is_outdated(entry)) || how->drop(how->arg, entry->key);
}

static bool drop_template(void *arg, tdg__entry_t *entry) {
    if (is_outdated(entry))
        tdg_server_remove_template(((struct dropping *)arg)->server, entry->key);
    return true;
}

void tdg__listings_drop_outdated(tdg_server_t *server, const tdg__listings_drop_t *how) {
    tdg__catalogue_t *catalogue = server->catalogue;
    struct dropping dropping = {server, how};

    tdg__catalogue_each(catalogue, TDG__RESOURCE, drop_resource, &dropping);
    tdg__catalogue_each(catalogue, TDG__TEMPLATE, drop_template, &dropping);
}

/* ---- Answers ------------------------------------------------------------ */

enum { INTERNAL_ERROR = -32603 }; /* JSON-RPC's; the text says what happened */

static json_t *content_value(const tdg__content_t *content, const char **ret_key) {
    const char *data = content->len > 0 ? content->data : "";
    bool text = tdg__content_is_text(data, content->len);
    char *base64;
    json_t *value;

    *ret_key = text ? "text" : "blob";
    if (text)
        return json_stringn_nocheck(data, content->len);
    base64 = tdg__base64_encode(data, content->len);
    value = base64 != NULL ? json_string_nocheck(base64) : NULL;
    tdg__free(base64);
    return value;
}

static const char *mime_of(bool is_text) {
    return is_text ? "text/plain" : "application/octet-stream";
}

json_t *tdg__content_item(const char *uri, const tdg__content_t *content) {
    return json_pack("{s:s, s:s*, s:{s:O}}", "uri", uri, "mimeType", content->mime_type,
                     "_meta", "dev.tidings/metadata", content->metadata);
}

static void reply(tdg_request_t *request, const char *uri,
                  const tdg__content_t *content) {
    const char *key;
    json_t *value = content_value(content, &key);
    const char *mime_type = content->mime_type != NULL
                                ? content->mime_type
                                : mime_of(strcmp(key, "text") == 0);
    json_t *meta = json_pack("{s:O}", "dev.tidings/metadata", content->metadata);

    /* The pack steals what it is given, also where it fails; NULL is out of memory. */
    tdg_request_reply(request,
                      json_pack("{s:[{s:s, s:s, s:o, s:o}]}", "contents", "uri", uri,
                                "mimeType", mime_type, key, value, "_meta", meta));
}

void tdg__reply_encoded(tdg_request_t *request, json_t *item, tdg__buf_t *member) {
    const char *mime_type = mime_of(tdg__content_member_is_text(member));

    if (item != NULL && json_object_get(item, "mimeType") == NULL &&
        json_object_set_new(item, "mimeType", json_string(mime_type)) < 0)
        item = NULL;
    tdg__request_reply_contents(request, json_incref(item), member);
}

void tdg__reply_content(tdg_request_t *request, const char *uri,
                        const tdg__content_t *content) {
    if (content->status == 0) {
        reply(request, uri, content);
    } else if (content->status == TDG_ENOTFOUND) {
        tdg_request_fail_not_found(request);
    } else {
        tdg_request_fail(request, INTERNAL_ERROR, tdg__content_public(content),
                         json_pack("{s:s, s:s}", "uri", uri, "error_type",
                                   content->status == TDG_EUNREACHABLE ? "unavailable"
                                   : content->status == TDG_ETOOLARGE  ? "too_large"
                                                                       : "source"));
    }
}

/* SPDX-License-Identifier: MIT */
#include "source/http_source.h"

#include <string.h>

#include "base/alloc.h"

enum { KEEP_TOTAL = 64 * 1024 * 1024 }; /* of content, in one source */

/* ---- What was found ----------------------------------------------------- */

struct found *tdg__http_found_ref(struct found *found) {
    found->refs++;
    return found;
}

void tdg__http_found_unref(struct found *found) {
    if (found == NULL || --found->refs > 0)
        return;
    tdg__free(found->data);
    tdg__free(found->mime_type);
    tdg__free(found->etag);
    tdg__free(found->last_modified);
    tdg__free(found->url);
    tdg__free(found->shown_url);
    tdg__free(found);
}

/* ---- URIs that are watched ---------------------------------------------- */

static bool has_uri(const void *ctx, uint32_t id, const void *uri) {
    const struct poll *poll = tdg__pool_get(&((const struct http *)ctx)->pool, id);

    return strcmp(poll->uri, uri) == 0;
}

struct poll *tdg__http_poll_find(const struct http *http, const char *uri) {
    uint32_t hash = (uint32_t)tdg__hash(&http->key, uri, strlen(uri));
    uint32_t id = tdg__map_find(&http->by_uri, hash, has_uri, http, uri);

    return id != 0 ? tdg__pool_get(&http->pool, id) : NULL;
}

void tdg__http_forget(struct http *http, struct poll *poll) {
    if (poll->kept == NULL)
        return;
    http->kept_bytes -= poll->kept->len;
    tdg__http_found_unref(poll->kept);
    poll->kept = NULL;
}

/* Whether the server can be asked if it is still the same. */
static bool has_validator(const struct found *found) {
    return found->etag != NULL || found->sure;
}

void tdg__http_keep(struct http *http, struct poll *poll, struct found *found) {
    if (poll->kept == found)
        return;
    tdg__http_forget(http, poll);
    if (!has_validator(found) || http->kept_bytes + found->len > KEEP_TOTAL)
        return;
    poll->kept = tdg__http_found_ref(found);
    http->kept_bytes += found->len;
}

int tdg__http_poll_create(struct http *http, const char *uri) {
    struct poll *poll;
    uint32_t id;

    if (tdg__map_reserve(&http->by_uri) < 0)
        return TDG_ENOMEM;
    poll = tdg__pool_alloc(&http->pool, &id);
    if (poll == NULL)
        return TDG_ENOMEM;
    if (!tdg__copy(uri, &poll->uri) ||
        tdg__heap_add(&http->timers, &poll->timer, 0) < 0) {
        tdg__free(poll->uri);
        tdg__pool_free(&http->pool, id);
        return TDG_ENOMEM;
    }
    poll->id = id;
    poll->hash = (uint32_t)tdg__hash(&http->key, uri, strlen(uri));
    tdg__map_insert(&http->by_uri, poll->hash, id);
    return 0;
}

void tdg__http_poll_destroy(struct http *http, struct poll *poll) {
    tdg__http_forget(http, poll);
    tdg__heap_remove(&http->timers, &poll->timer);
    tdg__map_remove(&http->by_uri, poll->hash, poll->id);
    tdg__free(poll->uri);
    tdg__pool_free(&http->pool, poll->id);
}

void tdg__http_rest(struct http *http) {
    if (http->by_uri.count == 0 && !http->source.closing)
        tdg__curl_rest(http->curl);
}

/* ---- Time --------------------------------------------------------------- */

int64_t tdg__http_now(const struct http *http) {
    return (int64_t)uv_now(http->source.host.loop);
}

static void on_time(uv_timer_t *timer);

void tdg__http_set_timer(struct http *http) {
    int64_t next = tdg__heap_next(&http->timers), now = tdg__http_now(http);

    if (http->source.closing)
        return;
    if (next == INT64_MAX)
        uv_timer_stop(&http->timer);
    else
        uv_timer_start(&http->timer, on_time, next > now ? (uint64_t)(next - now) : 0, 0);
}

/* The timer is armed again when the fetch is over. */
static void on_time(uv_timer_t *timer) {
    struct http *http = timer->data;
    tdg__timer_t *due;

    while (!http->source.closing &&
           (due = tdg__heap_pop(&http->timers, tdg__http_now(http))) != NULL) {
        struct poll *poll = (struct poll *)((char *)due - offsetof(struct poll, timer));

        tdg__source_touch(&http->source, poll->uri);
    }
    tdg__http_set_timer(http);
}

static void arm(struct http *http, struct poll *poll, int64_t wait_ms) {
    tdg__heap_arm(&http->timers, &poll->timer, tdg__http_now(http) + wait_ms);
    tdg__http_set_timer(http);
}

void tdg__http_schedule(struct http *http, struct poll *poll) {
    int64_t every = http->every_ms;

    poll->not_before_ms = 0;
    if (!poll->begun)
        arm(http, poll, 1 + tdg__source_random_ms(every - 1));
    else
        arm(http, poll, tdg__source_turn_ms(every));
    poll->begun = true;
}

void tdg__http_postpone(struct http *http, struct poll *poll, int64_t retry_after_ms) {
    tdg__heap_disarm(&http->timers, &poll->timer);
    if (retry_after_ms < 0) {
        tdg__http_set_timer(http);
        return;
    }

    int64_t wait = retry_after_ms > TDG__HTTP_DAY_MS ? TDG__HTTP_DAY_MS : retry_after_ms;

    if (wait < http->source.entry.retry_ms)
        wait = http->source.entry.retry_ms; /* "0" is no reason to hurry */
    uv_update_time(http->source.host.loop); /* from the answer on, not from before it */
    poll->not_before_ms = tdg__http_now(http) + wait;
    arm(http, poll, wait + tdg__source_random_ms(wait / 10));
}

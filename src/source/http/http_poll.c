/* SPDX-License-Identifier: MIT */
#include "source/http/http_source.h"

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

void tdg__http_rest(struct http *http) {
    if (http->polls.pool.count == 0 && !http->source.closing)
        tdg__web_rest(http->web);
}

/* ---- Time --------------------------------------------------------------- */

/* The timer is armed again when the fetch is over. */
void tdg__http_poll_due(tdg__record_t *record, void *user) {
    tdg__source_touch(user, record->name);
}

static void arm(struct http *http, struct poll *poll, int64_t wait_ms) {
    tdg__records_arm(&http->polls, &poll->record, wait_ms);
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
    tdg__records_disarm(&http->polls, &poll->record);
    if (retry_after_ms < 0)
        return;

    int64_t wait = retry_after_ms > TDG__HTTP_DAY_MS ? TDG__HTTP_DAY_MS : retry_after_ms;

    if (wait < http->source.entry.retry_ms)
        wait = http->source.entry.retry_ms; /* "0" is no reason to hurry */
    uv_update_time(http->source.host.loop); /* from the answer on, not from before it */
    poll->not_before_ms = tdg__source_now_ms(&http->source) + wait;
    arm(http, poll, wait + tdg__source_random_ms(wait / 10));
}

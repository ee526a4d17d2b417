/* SPDX-License-Identifier: MIT */
#include "source/http/http_source.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "source/http/http_part.h"
#include "source/http/http_url.h"

enum {
    KEEP_OPEN_MS = 30 * 1000, /* connections stay between polls up to this interval */
    SURE_MS = 2000, /* a page may change again in the second that Last-Modified names */
};

/* One fetch. */
struct job {
    struct http *http;
    tdg__fetch_t *fetch;
    tdg__web_exchange_t *exchange; /* NULL: not running */
    char *url;
    bool unconditional;
    int status; /* of the answer, */
    tdg__web_unfollowed_t unfollowed;
    int64_t retry_after_ms;
    struct found *found; /* and what it brings, where that is 2xx */
    tdg__text_t body;

    uv_work_t work; /* cutting out the part */
    bool working;
    tdg__text_t part;
    int part_status;
    tdg__parse_error_t part_error;
};

/* ---- What was found ----------------------------------------------------- */

/* Of a field that can be shown; else there is none. */
static bool copy_field(const char *value, char **ret) {
    return tdg__copy(
        value != NULL && tdg__utf8_is_valid(value, strlen(value)) ? value : NULL, ret);
}

/* What an answer brings, its body apart. NULL: memory is out. */
static struct found *found_make(const tdg__web_head_t *head, bool is_part) {
    struct found *found = tdg__calloc(1, sizeof(*found));
    int64_t now = tdg__wall_ms(), modified;

    if (found == NULL)
        return NULL;
    found->refs = 1;
    found->http_status = head->status;
    if (!copy_field(is_part ? "application/json" : head->full_type, &found->mime_type) ||
        !copy_field(head->etag, &found->etag) ||
        !copy_field(head->last_modified, &found->last_modified) ||
        !tdg__copy(head->url, &found->url) ||
        (found->shown_url = tdg__strndup(head->url, strcspn(head->url, "?"))) == NULL) {
        tdg__http_found_unref(found);
        return NULL;
    }
    modified = tdg__web_date_ms(found->last_modified);
    found->updated_ms = modified > 0 && modified < now ? modified : now;
    found->sure = modified > 0 && head->date_ms - modified >= SURE_MS;
    return found;
}

static json_t *metadata_of(const struct found *found) {
    return json_pack("{s:I, s:s*, s:s*, s:s*}", "status", (json_int_t)found->http_status,
                     "url", found->shown_url, "etag", found->etag, "last_modified",
                     found->last_modified);
}

/* ---- Ending a fetch ----------------------------------------------------- */

static void job_free(struct job *job) {
    tdg__http_found_unref(job->found);
    tdg__text_done(&job->body);
    tdg__text_done(&job->part);
    tdg__free(job->url);
    tdg__free(job);
}

/* `is_inside`: the text may name the host. */
static void job_fail_as(struct job *job, int status, int64_t retry_after_ms,
                        const char *error, bool is_inside) {
    struct http *http = job->http;
    tdg__fetch_t *fetch = job->fetch;
    struct poll *poll = tdg__records_find(&http->polls, fetch->uri);
    char text[512];

    snprintf(text, sizeof(text), "%s", error); /* it may be a part of the job */
    if (poll != NULL && (status == TDG_EUNREACHABLE || status == TDG_ENOMEM)) {
        tdg__http_postpone(http, poll, retry_after_ms);
    } else if (poll != NULL) {
        tdg__http_forget(http, poll);
        tdg__http_schedule(http, poll);
    } else {
        tdg__http_rest(http);
    }
    job_free(job);
    if (is_inside)
        tdg__fetch_failed_inside(fetch, status, NULL, "%s", text);
    else
        tdg__fetch_failed(fetch, status, "%s", text);
}

static void job_fail(struct job *job, int status, int64_t retry_after_ms,
                     const char *error) {
    job_fail_as(job, status, retry_after_ms, error, false);
}

#define NO_PART "the response has no part at `pointer`"

static void job_done(struct job *job, struct found *found) {
    struct http *http = job->http;
    tdg__fetch_t *fetch = job->fetch;
    struct poll *poll = tdg__records_find(&http->polls, fetch->uri);
    tdg__content_t content = {.status = found->status,
                              .error = NO_PART,
                              .public = NO_PART,
                              .data = found->data,
                              .len = found->len,
                              .mime_type = found->mime_type,
                              .metadata = metadata_of(found)};

    if (content.metadata == NULL) {
        job_fail(job, TDG_ENOMEM, -1, tdg_strerror(TDG_ENOMEM));
        return;
    }
    tdg__http_found_ref(found);
    if (poll != NULL) {
        tdg__http_keep(http, poll, found);
        tdg__http_schedule(http, poll);
    } else {
        tdg__http_rest(http);
    }
    content.updated_ms = found->updated_ms;
    job_free(job);
    tdg__fetch_done(fetch, &content);
    tdg__http_found_unref(found);
}

/* ---- One part only ------------------------------------------------------ */

static void cut_part(uv_work_t *work) {
    struct job *job = work->data;

    job->part_status =
        tdg__http_part(job->found->data != NULL ? job->found->data : "", job->found->len,
                       job->http->pointer, &job->part, &job->part_error);
}

static void part_is_cut(uv_work_t *work, int status) {
    struct job *job = work->data;
    struct found *found = job->found;
    char text[256];
    int rv = status < 0 ? TDG_EUNREACHABLE : job->part_status;

    job->working = false;
    if (rv == TDG_EJSON || rv == TDG_ENUMBER) {
        snprintf(text, sizeof(text), "the response is not valid JSON: %s",
                 job->part_error.text);
        job_fail(job, TDG_EINVAL, -1, text);
    } else if (rv == TDG_ETOOLARGE) {
        job_fail(job, rv, -1, job->part_error.text);
    } else if (rv < 0 && rv != TDG_ENOTFOUND) {
        job_fail(job, rv, -1, tdg_strerror(rv));
    } else {
        tdg__free(found->data);
        found->status = rv;
        found->data = job->part.data;
        found->len = job->part.len;
        tdg__text_init(&job->part, 0);
        job_done(job, found);
    }
}

/* ---- Fetching ----------------------------------------------------------- */

static int start(struct job *job);

/* What an answer without content means. The last row is for all others. */
static const struct meaning {
    long from, to;
    int status;
    const char *text;
} meanings[] = {
    {300, 399, TDG_EINVAL, "a redirect that is not followed"},
    {401, 401, TDG_EINVAL, "authentication failed; set `headers`"},
    {403, 403, TDG_EINVAL, "access denied; check `headers`"},
    {404, 404, TDG_ENOTFOUND, "not found"},
    {407, 407, TDG_EINVAL, "the proxy requires authentication; check `proxy`"},
    {408, 408, TDG_EUNREACHABLE, "request timed out"},
    {410, 410, TDG_ENOTFOUND, "removed permanently"},
    {425, 425, TDG_EUNREACHABLE, "too early"},
    {429, 429, TDG_EUNREACHABLE, "too many requests"},
    {400, 499, TDG_EINVAL, "request refused"},
    {500, 599, TDG_EUNREACHABLE, "server error"},
    {0, 999, TDG_EUNREACHABLE, "unexpected status"},
};

static void fail_by_status(struct job *job) {
    static const char *const unfollowed[] = {
        [TDG__WEB_TOO_OFTEN] = "the server redirects too often",
        [TDG__WEB_ELSEWHERE] = "the server redirects to another host, which "
                               "`follow-redirects` does not allow",
        [TDG__WEB_NEVER] = "the server redirects to something other than an http or "
                           "https URL, or from https to http",
    };
    const struct meaning *meaning = meanings;
    char text[128];

    if (job->unfollowed != TDG__WEB_NO_REDIRECT) {
        job_fail(job, TDG_EINVAL, -1, unfollowed[job->unfollowed]);
        return;
    }
    while (job->status < meaning->from || job->status > meaning->to)
        meaning++;
    snprintf(text, sizeof(text), "the server answered %d: %s", job->status,
             meaning->text);
    job_fail(job, meaning->status, job->retry_after_ms, text);
}

static bool is_success(const struct job *job) {
    return job->status >= 200 && job->status <= 299;
}

static void not_modified(struct job *job) {
    struct poll *poll = tdg__records_find(&job->http->polls, job->fetch->uri);
    int rv;

    if (poll != NULL && poll->kept != NULL) {
        job_done(job, poll->kept);
        return;
    }
    /* The watching has ended meanwhile, and what the server speaks of is gone. */
    rv = job->unconditional ? TDG_EUNREACHABLE : 0;
    job->unconditional = true;
    if (rv == 0)
        rv = start(job);
    if (rv < 0)
        job_fail(job, rv, -1,
                 rv == TDG_EUNREACHABLE
                     ? "the server answered 304 to an unconditional request"
                     : tdg_strerror(rv));
}

static void on_content(struct job *job) {
    struct found *found = job->found;

    found->data = job->body.data;
    found->len = job->body.len;
    tdg__text_init(&job->body, 0);
    if (job->http->pointer == NULL) {
        job_done(job, found);
        return;
    }
    job->work.data = job;
    job->working = uv_queue_work(job->http->source.host.loop, &job->work, cut_part,
                                 part_is_cut) == 0;
    if (!job->working)
        job_fail(job, TDG_ENOMEM, -1, tdg_strerror(TDG_ENOMEM));
}

static void on_head(void *user, const tdg__web_head_t *head) {
    struct job *job = user;

    job->status = head->status;
    job->unfollowed = head->unfollowed;
    job->retry_after_ms = head->retry_after_ms;
    if (is_success(job))
        job->found = found_make(head, job->http->pointer != NULL);
}

static void on_data(void *user, const char *data, size_t len) {
    struct job *job = user;

    tdg__text_add(&job->body, data, len);
}

static void on_done(void *user, const tdg__web_end_t *end) {
    struct job *job = user;

    job->exchange = NULL;
    if (end->code == TDG_ETOOLARGE)
        job_fail(job, end->code, -1, "the content is larger than max-size");
    else if (end->code == TDG_ENOMEM)
        job_fail(job, end->code, -1, end->error);
    else if (end->code != 0) /* names the host */
        job_fail_as(job, TDG_EUNREACHABLE, -1, end->error, true);
    else if (job->status == 304)
        not_modified(job);
    else if (!is_success(job))
        fail_by_status(job);
    else if (job->found == NULL || job->body.error < 0)
        job_fail(job, TDG_ENOMEM, -1, tdg_strerror(TDG_ENOMEM));
    else
        on_content(job);
}

static int start(struct job *job) {
    static const tdg__web_exchange_calls_t calls = {on_head, on_data, on_done};
    struct http *http = job->http;
    const struct poll *poll = tdg__records_find(&http->polls, job->fetch->uri);
    const struct found *kept = poll != NULL && !job->unconditional ? poll->kept : NULL;
    tdg__web_field_t validators[2];
    tdg__web_request_t request = {
        .method = TDG__WEB_GET,
        .url = job->url,
        .validators = validators,
        .validated_url = kept != NULL ? kept->url : NULL,
        /* A second line: the common half has a time limit as well. */
        .total_timeout_ms = (uint32_t)(http->source.entry.timeout_ms + 1000),
        .follow = (tdg__web_follow_t)(TDG__WEB_FOLLOW_NONE + http->follow),
        .max_bytes = (size_t)http->source.entry.max_size,
        .only_success = true,
        .last = poll == NULL || http->every_ms > KEEP_OPEN_MS,
    };

    if (kept != NULL && kept->etag != NULL)
        validators[request.validator_count++] =
            (tdg__web_field_t){"If-None-Match", kept->etag};
    if (kept != NULL && kept->sure)
        validators[request.validator_count++] =
            (tdg__web_field_t){"If-Modified-Since", kept->last_modified};
    return tdg__web_exchange_begin(http->web, &request, &calls, job, &job->exchange);
}

static const char *variable(void *arg, const char *name) {
    return tdg__fetch_variable(arg, name);
}

static int make_url(struct job *job) {
    tdg__text_t text;

    tdg__text_init(&text, TDG__HTTP_URL_MAX);

    int rv = tdg__http_url_expand(job->http->url, variable, job->fetch, &text);
    if (rv < 0)
        tdg__text_done(&text);
    else
        job->url = text.data;
    return rv == TDG_ETOOLARGE ? TDG_ENOTFOUND : rv;
}

void tdg__http_fetch(tdg__source_t *source, tdg__fetch_t *fetch) {
    struct http *http = (struct http *)source;
    const struct poll *poll = tdg__records_find(&http->polls, fetch->uri);
    int64_t left = poll != NULL ? poll->not_before_ms - tdg__source_now_ms(source) : 0;
    struct job *job;

    if (left > 0) {
        tdg__fetch_failed(fetch, TDG_EUNREACHABLE,
                          "Retry-After: no request for another %" PRId64 " s",
                          (left + 999) / 1000);
        return;
    }
    job = tdg__calloc(1, sizeof(*job));
    if (job == NULL) {
        tdg__fetch_failed(fetch, TDG_ENOMEM, "%s", tdg_strerror(TDG_ENOMEM));
        return;
    }
    job->http = http;
    job->fetch = fetch;
    fetch->state = job;
    tdg__text_init(&job->body, (size_t)source->entry.max_size);
    tdg__text_init(&job->part, (size_t)source->entry.max_size);

    int rv = make_url(job);
    if (rv == 0)
        rv = start(job);
    if (rv < 0)
        job_fail(job, rv, -1, tdg_strerror(rv));
}

void tdg__http_cancel(tdg__source_t *source, tdg__fetch_t *fetch) {
    struct job *job = fetch->state;

    (void)source;
    if (job->working) { /* part_is_cut() follows in any case */
        uv_cancel((uv_req_t *)&job->work);
        return;
    }
    tdg__web_exchange_cancel(job->exchange);
    job->exchange = NULL;
    job_fail(job, TDG_EUNREACHABLE, -1, "cancelled");
}

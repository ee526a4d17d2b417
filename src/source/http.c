/* SPDX-License-Identifier: MIT
 *
 * Polls a URL. While somebody watches a URI, a timer asks for it at an interval, and what
 * was found last is kept together with its validators (ETag, Last-Modified), so that the
 * server can say "not modified". Reads ask as well. Nothing is asked, kept or held open
 * for a URI that nobody watches.
 *
 *     watch ─▶ fetch ─▶ random part of the interval ─▶ fetch ─▶ interval ± 10 % ─▶ fetch
 * … └ the server is away: the common half tries again, with growing waits; where it says
 * Retry-After, nothing is asked before that. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/heap.h"
#include "base/json_pointer.h"
#include "base/map.h"
#include "base/pool.h"
#include "source/curl.h"
#include "source/http_part.h"
#include "source/http_url.h"
#include "source/source.h"

enum {
    DAY_MS = 24 * 60 * 60 * 1000,
    KEEP_OPEN_MS = 30 * 1000, /* connections stay between polls up to this interval */
    KEEP_TOTAL = 64 * 1024 * 1024, /* of content with validators, in one source */
    SURE_MS = 2000, /* a page may change again in the second that Last-Modified names */
};

/* What a 2xx answer brought. Counted, because whoever is told of it may end the watching
 * that keeps it. */
struct found {
    unsigned refs;
    int status; /* 0, or TDG_ENOTFOUND: there is no such part */
    char *data;
    size_t len;
    char *mime_type, *etag, *last_modified; /* NULL: not said */
    bool sure; /* last_modified alone tells whether it has changed */
    char *url, *shown_url;
    long http_status;
    int64_t updated_ms;
};

/* A URI that is watched. */
struct poll {
    uint32_t id, hash;
    char *uri;
    tdg__timer_t timer;
    bool begun;            /* the first interval was a random part */
    int64_t not_before_ms; /* Retry-After, in the loop's time; 0: none */
    struct found *kept;
};

struct http {
    tdg__source_t source;
    char *url, *pointer, *ca_file, *proxy;
    int64_t every_ms;
    int follow;
    json_t *headers;

    tdg__curl_t *curl;
    tdg__hash_key_t key;
    tdg__pool_t pool;
    tdg__map_t by_uri;
    tdg__heap_t timers;
    uv_timer_t timer;
    size_t kept_bytes;
    unsigned handles; /* that are to be closed: timer, curl */
};

/* One fetch. */
struct job {
    struct http *http;
    tdg__fetch_t *fetch;
    tdg__transfer_t *transfer; /* NULL: not running */
    char *url;
    bool unconditional;
    struct found *found;

    uv_work_t work; /* cutting out the part */
    bool working;
    tdg__text_t part;
    int part_status;
    tdg__parse_error_t part_error;
};

/* ---- Options ------------------------------------------------------------ */

static const char *const follows[] = {"no", "same-host", "any", NULL};

#define AT(field) offsetof(struct http, field)

static const tdg__option_t options[] = {
    {.name = "http",
     .type = TDG__OPTION_STRING,
     .offset = AT(url),
     .flags = TDG__OPTION_REQUIRED | TDG__OPTION_SECRET,
     .example = "https://status.example/api/v1/health",
     .help = "The URL to poll, http or https. {name} stands for a variable of the `uri` "
             "template, behind the host only."},
    {.name = "every",
     .type = TDG__OPTION_DURATION,
     .offset = AT(every_ms),
     .fallback = "1m",
     .min = 100,
     .max = DAY_MS,
     .example = "30s",
     .help = "How often to ask while somebody is subscribed; it varies by 10 %."},
    {.name = "headers",
     .type = TDG__OPTION_MAP,
     .offset = AT(headers),
     .flags = TDG__OPTION_SECRET,
     .example = "{Accept: application/json}",
     .help = "Headers to send, such as Authorization. They are sent to the host of the "
             "URL only."},
    {.name = "pointer",
     .type = TDG__OPTION_STRING,
     .offset = AT(pointer),
     .flags = TDG__OPTION_RAW,
     .example = "/components/0",
     .help = "A JSON Pointer (RFC 6901): only this part of the answer is the content."},
    {.name = "follow-redirects",
     .type = TDG__OPTION_CHOICE,
     .offset = AT(follow),
     .fallback = "same-host",
     .choices = follows,
     .example = "any",
     .help = "Where redirects may lead. At most 5, and never from https to http."},
    {.name = "ca-file",
     .type = TDG__OPTION_PATH,
     .offset = AT(ca_file),
     .example = "company-ca.pem",
     .help = "Certificates to trust, in PEM, in place of the system's."},
    {.name = "proxy",
     .type = TDG__OPTION_STRING,
     .offset = AT(proxy),
     .flags = TDG__OPTION_SECRET,
     .example = "http://proxy.example:3128",
     .help = "The proxy to ask through. Those of the environment are not used."},
    {.name = NULL},
};

static int check_url(struct http *http, const tdg__node_t *node,
                     tdg__problems_t *problems) {
    const char *uri = http->source.entry.uri;
    tdg__template_t *template_ = NULL;
    tdg__parse_error_t error = {0};
    int rv = 0;

    /* A template that is none is the common half's to tell. */
    if (uri != NULL && strchr(uri, '{') != NULL)
        rv = tdg__template_parse(uri, strlen(uri), &template_, &error);
    if (rv < 0)
        return rv == TDG_ENOMEM ? rv : 0;
    rv = tdg__http_url_check(http->url, template_, &error);
    tdg__template_destroy(template_);
    if (rv == TDG_EINVAL)
        tdg__node_problem(problems, tdg__node_get(node, "http"), "%s", error.text);
    return rv;
}

static int check_headers(struct http *http, const tdg__node_t *node,
                         tdg__problems_t *problems) {
    const tdg__node_t *map = tdg__node_get(node, "headers");
    const char *name, *why;
    json_t *value;
    int rv = 0;

    json_object_foreach(http->headers, name, value) {
        if (!tdg__curl_header_is_fine(name, json_string_value(value), &why)) {
            tdg__node_key_problem(problems, tdg__node_get(map, name), "%s", why);
            rv = TDG_EINVAL;
        }
    }
    return rv;
}

static bool is_proxy(const char *url) {
    static const char *const schemes[] = {"http://", "https://", "socks5://",
                                          "socks5h://", NULL};

    for (size_t i = 0; schemes[i] != NULL; i++)
        if (strncmp(url, schemes[i], strlen(schemes[i])) == 0)
            return url[strlen(schemes[i])] != '\0';
    return false;
}

static int check(tdg__source_t *source, const tdg__node_t *node,
                 tdg__problems_t *problems) {
    struct http *http = (struct http *)source;
    tdg__parse_error_t error = {0};

    int rv = check_url(http, node, problems);
    int other = check_headers(http, node, problems);
    if (rv == 0)
        rv = other;
    if (http->pointer != NULL && tdg__json_pointer_check(http->pointer, &error) < 0) {
        tdg__node_problem(problems, tdg__node_get(node, "pointer"), "%s", error.text);
        rv = TDG_EINVAL;
    }
    if (http->proxy != NULL && !is_proxy(http->proxy)) {
        tdg__node_problem(problems, tdg__node_get(node, "proxy"),
                          "a proxy begins with http://, https://, socks5:// or "
                          "socks5h://");
        rv = TDG_EINVAL;
    }
    return rv;
}

/* ---- What was found ----------------------------------------------------- */

static struct found *found_ref(struct found *found) {
    found->refs++;
    return found;
}

static void found_unref(struct found *found) {
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

static bool copy(const char *text, char **ret) {
    if (text == NULL)
        return true;
    *ret = tdg__malloc(strlen(text) + 1);
    if (*ret != NULL)
        strcpy(*ret, text);
    return *ret != NULL;
}

static char *shown_of(const char *url) {
    tdg__text_t text;

    tdg__text_init(&text, TDG__HTTP_URL_MAX);
    tdg__http_url_put_shown(&text, url);
    if (text.error == 0 && text.data != NULL)
        return text.data;
    tdg__text_done(&text);
    return NULL;
}

/* Takes the body. NULL: memory is out. */
static struct found *found_make(tdg__curl_answer_t *answer, bool is_part) {
    struct found *found = tdg__calloc(1, sizeof(*found));
    int64_t now = tdg__wall_ms();

    if (found == NULL)
        return NULL;
    found->refs = 1;
    found->http_status = answer->status;
    found->updated_ms =
        answer->modified_ms > 0 && answer->modified_ms < now ? answer->modified_ms : now;
    found->sure =
        answer->modified_ms > 0 && answer->date_ms - answer->modified_ms >= SURE_MS;
    if (!copy(is_part ? "application/json" : answer->content_type, &found->mime_type) ||
        !copy(answer->etag, &found->etag) ||
        !copy(answer->last_modified, &found->last_modified) ||
        !copy(answer->url, &found->url)) {
        found_unref(found);
        return NULL;
    }
    found->shown_url = shown_of(answer->url);
    found->data = answer->body->data;
    found->len = answer->body->len;
    tdg__text_init(answer->body, 0);
    return found;
}

/* Whether the server can be asked if it is still the same. */
static bool has_validator(const struct found *found) {
    return found->etag != NULL || found->sure;
}

static json_t *metadata_of(const struct found *found) {
    return json_pack("{s:I, s:s*, s:s*, s:s*}", "status", (json_int_t)found->http_status,
                     "url", found->shown_url, "etag", found->etag, "last_modified",
                     found->last_modified);
}

/* ---- URIs that are watched ---------------------------------------------- */

static bool has_uri(const void *ctx, uint32_t id, const void *uri) {
    const struct poll *poll = tdg__pool_get(&((const struct http *)ctx)->pool, id);

    return strcmp(poll->uri, uri) == 0;
}

static struct poll *poll_find(const struct http *http, const char *uri) {
    uint32_t hash = (uint32_t)tdg__hash(&http->key, uri, strlen(uri));
    uint32_t id = tdg__map_find(&http->by_uri, hash, has_uri, http, uri);

    return id != 0 ? tdg__pool_get(&http->pool, id) : NULL;
}

static void poll_forget(struct http *http, struct poll *poll) {
    if (poll->kept == NULL)
        return;
    http->kept_bytes -= poll->kept->len;
    found_unref(poll->kept);
    poll->kept = NULL;
}

static void poll_keep(struct http *http, struct poll *poll, struct found *found) {
    struct found *before = poll->kept;

    if (before == found)
        return;
    /* The same again is as old as it was. */
    if (before != NULL && before->status == found->status && before->len == found->len &&
        (found->len == 0 || memcmp(before->data, found->data, found->len) == 0) &&
        before->updated_ms < found->updated_ms && found->last_modified == NULL)
        found->updated_ms = before->updated_ms;
    poll_forget(http, poll);
    if (http->kept_bytes + found->len > KEEP_TOTAL)
        return;
    poll->kept = found_ref(found);
    http->kept_bytes += found->len;
}

static void poll_destroy(struct http *http, struct poll *poll) {
    poll_forget(http, poll);
    tdg__heap_remove(&http->timers, &poll->timer);
    tdg__map_remove(&http->by_uri, poll->hash, poll->id);
    tdg__free(poll->uri);
    tdg__pool_free(&http->pool, poll->id);
}

/* No connection stays open for nobody. */
static void rest_if_unwatched(struct http *http) {
    if (http->by_uri.count == 0)
        tdg__curl_rest(http->curl);
}

/* ---- Time --------------------------------------------------------------- */

static int64_t now_ms(const struct http *http) {
    return (int64_t)uv_now(http->source.host.loop);
}

/* Evenly from 0 to `limit`. */
static int64_t random_ms(int64_t limit) {
    uint32_t random;

    if (tdg__random(&random, sizeof(random)) < 0)
        random = UINT32_MAX / 2;
    return (int64_t)((uint64_t)random * (uint64_t)(limit + 1) >> 32);
}

static void on_time(uv_timer_t *timer);

static void set_timer(struct http *http) {
    int64_t next = tdg__heap_next(&http->timers), now = now_ms(http);

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
           (due = tdg__heap_pop(&http->timers, now_ms(http))) != NULL) {
        struct poll *poll = (struct poll *)((char *)due - offsetof(struct poll, timer));

        tdg__source_touch(&http->source, poll->uri);
    }
    set_timer(http);
}

static void arm(struct http *http, struct poll *poll, int64_t wait_ms) {
    tdg__heap_arm(&http->timers, &poll->timer, now_ms(http) + wait_ms);
    set_timer(http);
}

/* The next time that a URI is asked for, after an answer. */
static void schedule(struct http *http, struct poll *poll) {
    int64_t every = http->every_ms;

    poll->not_before_ms = 0;
    if (!poll->begun)
        arm(http, poll, 1 + random_ms(every - 1));
    else
        arm(http, poll, every - every / 10 + random_ms(every / 5));
    poll->begun = true;
}

/* The same where the server is away. The common half tries again, but a time that the
 * server itself has named counts more. */
static void postpone(struct http *http, struct poll *poll, int64_t retry_after_ms) {
    tdg__heap_disarm(&http->timers, &poll->timer);
    if (retry_after_ms < 0) {
        set_timer(http);
        return;
    }

    int64_t wait = retry_after_ms > DAY_MS ? DAY_MS : retry_after_ms;

    if (wait < http->source.entry.retry_ms)
        wait = http->source.entry.retry_ms; /* "0" is no reason to hurry */
    poll->not_before_ms = now_ms(http) + wait;
    arm(http, poll, wait + random_ms(wait / 10));
}

/* ---- Ending a fetch ----------------------------------------------------- */

static void job_free(struct job *job) {
    found_unref(job->found);
    tdg__text_done(&job->part);
    tdg__free(job->url);
    tdg__free(job);
}

static void job_fail(struct job *job, int status, int64_t retry_after_ms,
                     const char *error) {
    struct http *http = job->http;
    tdg__fetch_t *fetch = job->fetch;
    struct poll *poll = poll_find(http, fetch->uri);
    char text[512];

    snprintf(text, sizeof(text), "%s", error); /* it may be a part of the job */
    if (poll != NULL && (status == TDG_EAWAY || status == TDG_ENOMEM)) {
        postpone(http, poll, retry_after_ms);
    } else if (poll != NULL) {
        poll_forget(http, poll);
        schedule(http, poll);
    } else {
        rest_if_unwatched(http);
    }
    job_free(job);
    tdg__fetch_failed(fetch, status, "%s", text);
}

static void job_done(struct job *job, struct found *found) {
    struct http *http = job->http;
    tdg__fetch_t *fetch = job->fetch;
    struct poll *poll = poll_find(http, fetch->uri);
    tdg__content_t content = {.status = found->status,
                              .error = "the answer has no part that `pointer` names",
                              .data = found->data,
                              .len = found->len,
                              .mime_type = found->mime_type,
                              .metadata = metadata_of(found)};

    if (content.metadata == NULL) {
        job_fail(job, TDG_ENOMEM, -1, tdg_strerror(TDG_ENOMEM));
        return;
    }
    found_ref(found);
    if (poll != NULL) {
        poll_keep(http, poll, found);
        schedule(http, poll);
    } else {
        rest_if_unwatched(http);
    }
    content.updated_ms = found->updated_ms;
    job_free(job);
    tdg__fetch_done(fetch, &content);
    found_unref(found);
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
    int rv = status < 0 ? TDG_EAWAY : job->part_status;

    job->working = false;
    if (rv == TDG_EJSON || rv == TDG_ENUMBER) {
        snprintf(text, sizeof(text), "the answer is not JSON that can be read: %s",
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
    {300, 399, TDG_EINVAL,    "a redirect that is not followed"              },
    {401, 401, TDG_EINVAL,    "it wants to know who asks: see `headers`"     },
    {403, 403, TDG_EINVAL,    "it does not allow this: see `headers`"        },
    {404, 404, TDG_ENOTFOUND, "there is nothing"                             },
    {407, 407, TDG_EINVAL,    "the proxy wants to know who asks: see `proxy`"},
    {408, 408, TDG_EAWAY,     "it did not wait"                              },
    {410, 410, TDG_ENOTFOUND, "there is nothing any more"                    },
    {425, 425, TDG_EAWAY,     "too early"                                    },
    {429, 429, TDG_EAWAY,     "too many requests"                            },
    {400, 499, TDG_EINVAL,    "it does not like the request"                 },
    {500, 599, TDG_EAWAY,     "it has a problem"                             },
    {0,   999, TDG_EAWAY,     "what that means is not known"                 },
};

static void fail_by_status(struct job *job, const tdg__curl_answer_t *answer) {
    const struct meaning *meaning = meanings;
    char text[128];

    while (answer->status < meaning->from || answer->status > meaning->to)
        meaning++;
    snprintf(text, sizeof(text), "the server answered %ld: %s", answer->status,
             meaning->text);
    job_fail(job, meaning->status, answer->retry_after_ms, text);
}

static void not_modified(struct job *job) {
    struct poll *poll = poll_find(job->http, job->fetch->uri);
    int rv;

    if (poll != NULL && poll->kept != NULL) {
        job_done(job, poll->kept);
        return;
    }
    /* The watching has ended meanwhile, and what the server speaks of is gone. */
    rv = job->unconditional ? TDG_EAWAY : 0;
    job->unconditional = true;
    if (rv == 0)
        rv = start(job);
    if (rv < 0)
        job_fail(job, rv, -1,
                 rv == TDG_EAWAY ? "the server answered 304 without being asked"
                                 : tdg_strerror(rv));
}

static void on_answer(void *arg, tdg__curl_answer_t *answer) {
    struct job *job = arg;

    job->transfer = NULL;
    if (answer->result < 0) {
        job_fail(job, answer->result, -1, answer->error);
        return;
    }
    if (answer->status == 304) {
        not_modified(job);
        return;
    }
    if (answer->status < 200 || answer->status > 299) {
        fail_by_status(job, answer);
        return;
    }
    job->found = found_make(answer, job->http->pointer != NULL);
    if (job->found == NULL) {
        job_fail(job, TDG_ENOMEM, -1, tdg_strerror(TDG_ENOMEM));
        return;
    }
    if (job->http->pointer == NULL) {
        job_done(job, job->found);
        return;
    }
    job->work.data = job;
    job->working = uv_queue_work(job->http->source.host.loop, &job->work, cut_part,
                                 part_is_cut) == 0;
    if (!job->working)
        job_fail(job, TDG_ENOMEM, -1, tdg_strerror(TDG_ENOMEM));
}

static int start(struct job *job) {
    struct http *http = job->http;
    const struct poll *poll = poll_find(http, job->fetch->uri);
    tdg__curl_wish_t wish = {
        .url = job->url,
        .headers = http->headers,
        .ca_file = http->ca_file,
        .proxy = http->proxy,
        .max_bytes = (size_t)http->source.entry.max_size,
        .timeout_ms = http->source.entry.timeout_ms + 1000,
        .follow = (tdg__curl_follow_t)http->follow,
        .keep_open = poll != NULL && http->every_ms <= KEEP_OPEN_MS,
    };

    if (poll != NULL && poll->kept != NULL && has_validator(poll->kept) &&
        !job->unconditional) {
        wish.known_url = poll->kept->url;
        wish.etag = poll->kept->etag;
        wish.last_modified = poll->kept->sure ? poll->kept->last_modified : NULL;
    }
    return tdg__curl_get(http->curl, &wish, on_answer, job, &job->transfer);
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

static void fetch_(tdg__source_t *source, tdg__fetch_t *fetch) {
    struct http *http = (struct http *)source;
    const struct poll *poll = poll_find(http, fetch->uri);
    int64_t left = poll != NULL ? poll->not_before_ms - now_ms(http) : 0;
    struct job *job;

    if (left > 0) {
        tdg__fetch_failed(fetch, TDG_EAWAY,
                          "the server asked not to be asked for another %" PRId64 " s",
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
    tdg__text_init(&job->part, (size_t)source->entry.max_size);

    int rv = make_url(job);
    if (rv == 0)
        rv = start(job);
    if (rv < 0)
        job_fail(job, rv, -1, tdg_strerror(rv));
}

static void cancel(tdg__source_t *source, tdg__fetch_t *fetch) {
    struct job *job = fetch->state;

    (void)source;
    if (job->working) { /* part_is_cut() follows in any case */
        uv_cancel((uv_req_t *)&job->work);
        return;
    }
    tdg__transfer_cancel(job->transfer);
    job->transfer = NULL;
    job_fail(job, TDG_EAWAY, -1, "cancelled");
}

/* ---- Watching ----------------------------------------------------------- */

static int watch(tdg__source_t *source, const char *target) {
    struct http *http = (struct http *)source;
    struct poll *poll;
    uint32_t id;

    /* Nobody could say which URLs there are to poll. */
    if (source->template_ != NULL && strcmp(target, source->entry.uri) == 0)
        return TDG_ENOTSUP;
    if (poll_find(http, target) != NULL)
        return 0;
    if (tdg__map_reserve(&http->by_uri) < 0)
        return TDG_ENOMEM;
    poll = tdg__pool_alloc(&http->pool, &id);
    if (poll == NULL)
        return TDG_ENOMEM;
    if (!copy(target, &poll->uri) || tdg__heap_add(&http->timers, &poll->timer, 0) < 0) {
        tdg__free(poll->uri);
        tdg__pool_free(&http->pool, id);
        return TDG_ENOMEM;
    }
    poll->id = id;
    poll->hash = (uint32_t)tdg__hash(&http->key, target, strlen(target));
    tdg__map_insert(&http->by_uri, poll->hash, id);
    return 0;
}

static void unwatch(tdg__source_t *source, const char *target) {
    struct http *http = (struct http *)source;
    struct poll *poll = poll_find(http, target);

    if (poll == NULL)
        return;
    poll_destroy(http, poll);
    set_timer(http);
    rest_if_unwatched(http);
}

/* ---- Life --------------------------------------------------------------- */

static int open_(tdg__source_t *source) {
    struct http *http = (struct http *)source;

    tdg__pool_init(&http->pool, sizeof(struct poll));
    tdg__map_init(&http->by_uri);
    tdg__heap_init(&http->timers);
    uv_timer_init(source->host.loop, &http->timer);
    http->timer.data = http;
    http->handles = 1;

    int rv = tdg__random(&http->key, sizeof(http->key));
    if (rv == 0)
        rv = tdg__curl_create(source->host.loop, &http->curl);
    if (rv == 0)
        http->handles++;
    else
        tdg__source_log(source, TDG_LOG_ERROR, "%s", tdg_strerror(rv));
    return rv;
}

static void one_closed(void *arg) {
    struct http *http = arg;

    if (--http->handles == 0)
        tdg__source_closed(&http->source);
}

static void timer_closed(uv_handle_t *handle) {
    one_closed(handle->data);
}

static void close_(tdg__source_t *source) {
    struct http *http = (struct http *)source;

    uv_close((uv_handle_t *)&http->timer, timer_closed);
    if (http->curl != NULL)
        tdg__curl_close(http->curl, one_closed, http);
}

static void free_(tdg__source_t *source) {
    struct http *http = (struct http *)source;

    if (http->pool.size == 0) /* never opened */
        return;
    for (uint32_t id = 1; id < tdg__pool_end(&http->pool); id++) {
        struct poll *poll = tdg__pool_get(&http->pool, id);

        if (poll != NULL && poll->uri != NULL) {
            poll_forget(http, poll);
            tdg__free(poll->uri);
        }
    }
    tdg__heap_done(&http->timers);
    tdg__map_done(&http->by_uri);
    tdg__pool_done(&http->pool);
}

const tdg__source_kind_t tdg__source_http = {
    .name = "http",
    .help = "Polls a URL, with ETag and Last-Modified where the server has them.",
    .options = options,
    .uri_example = "shop://health",
    .size = sizeof(struct http),
    .check = check,
    .open = open_,
    .close = close_,
    .watch = watch,
    .unwatch = unwatch,
    .fetch = fetch_,
    .cancel = cancel,
    .free = free_,
};

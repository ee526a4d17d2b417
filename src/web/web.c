/* SPDX-License-Identifier: MIT
 *
 * Most calls are not allowed in libcurl's callbacks, so these only store what has
 * arrived; it is passed on after libcurl has returned, where callbacks may begin, cancel
 * and close at will. The memory of an exchange is freed with its timer, in a later turn
 * of the loop, so a pointer to one that has just ended is never dangling. */
#include "web/web.h"

#include <stdio.h>

#include <tidings/error.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "web/web_answer.h"
#include "web/web_exchange.h"

enum {
    MAX_HOPS = 5,
    UNWANTED = 64 * 1024,         /* bytes of a body that nobody wants */
    MAX_TURN = 256 * 1024 * 1024, /* bytes of one turn: far more than libcurl reads */
};

static void ready(tdg__web_exchange_t *exchange) {
    if (!tdg__queue_has(&exchange->in_ready))
        tdg__queue_append(&exchange->web->ready, &exchange->in_ready);
}

/* ---- Ending ------------------------------------------------------------- */

static void web_free(tdg__web_t *web) {
    for (size_t i = 0; i < TDG__WEB_MOVED; i++) {
        tdg__free(web->moved[i].from);
        tdg__free(web->moved[i].to);
    }
    tdg__free(web->token);
    tdg__web_url_done(&web->home);
    tdg__free(web);
}

static void check_closed(tdg__web_t *web) {
    if (!web->closing || web->curl != NULL || web->memories > 0)
        return;

    void (*closed)(void *arg) = web->closed;
    void *arg = web->arg;

    web_free(web);
    closed(arg);
}

static void timer_closed(uv_handle_t *handle) {
    tdg__web_exchange_t *exchange = handle->data;
    tdg__web_t *web = exchange->web;

    tdg__free(exchange);
    web->memories--;
    check_closed(web);
}

/* No call will come any more, and libcurl forgets it. */
static void detach(tdg__web_exchange_t *exchange) {
    exchange->gone = true;
    if (tdg__queue_has(&exchange->in_ready))
        tdg__queue_remove(&exchange->in_ready);
    tdg__queue_remove(&exchange->in_all);
    if (exchange->added)
        tdg__curl_remove(exchange->web->curl, exchange->easy);
    exchange->added = false;
}

static void release(tdg__web_exchange_t *exchange) {
    curl_easy_cleanup(exchange->easy);
    curl_slist_free_all(exchange->fields);
    curl_slist_free_all(exchange->validators);
    curl_slist_free_all(exchange->lines);
    tdg__free(exchange->validated_url);
    tdg__web_facts_done(&exchange->facts);
    tdg__text_done(&exchange->incoming);
    tdg__web_url_done(&exchange->target);
    tdg__web_url_done(&exchange->redirect);
    tdg__free(exchange->first_url);
    uv_close((uv_handle_t *)&exchange->timer, timer_closed);
}

void tdg__web_exchange_cancel(tdg__web_exchange_t *exchange) {
    if (exchange->gone)
        return;
    detach(exchange);
    if (!exchange->delivering)
        release(exchange);
}

static bool may_have_been_sent(const tdg__web_exchange_t *exchange) {
    long bytes = 0;

    if (exchange->easy != NULL)
        curl_easy_getinfo(exchange->easy, CURLINFO_REQUEST_SIZE, &bytes);
    return bytes > 0 || exchange->facts.status != 0;
}

static void end(tdg__web_exchange_t *exchange, int code, const char *why) {
    tdg__web_end_t report = {code, code != 0 ? why : NULL, may_have_been_sent(exchange)};

    if (code != 0) /* where it moved to does not work, so ask at the old place again */
        tdg__web_forget_move(exchange->web, exchange->first_url);
    detach(exchange);
    exchange->calls.done(exchange->user, &report);
    release(exchange);
}

/* ---- Time --------------------------------------------------------------- */

struct limit {
    uint32_t ms; /* 0: there is none */
    uint64_t from;
    const char *what; /* that the other side has done, or has not */
};

/* The one that is over first. */
static struct limit next_limit(const tdg__web_exchange_t *exchange) {
    const struct limit limits[] = {
        {exchange->answered ? 0 : exchange->request.head_timeout_ms, exchange->begun_ms,
         "has not answered within"},
        {exchange->answered ? exchange->request.quiet_timeout_ms : 0, exchange->last_ms,
         "has sent nothing for"},
        {exchange->request.total_timeout_ms, exchange->begun_ms,
         "has not sent everything within"},
    };
    struct limit first = {.ms = 0};

    for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++)
        if (limits[i].ms > 0 &&
            (first.ms == 0 || limits[i].from + limits[i].ms < first.from + first.ms))
            first = limits[i];
    return first;
}

static void on_time(uv_timer_t *timer);

static void schedule(tdg__web_exchange_t *exchange) {
    struct limit limit = next_limit(exchange);
    uint64_t at = limit.from + limit.ms, now = uv_now(exchange->web->loop);

    if (limit.ms == 0)
        uv_timer_stop(&exchange->timer);
    else
        uv_timer_start(&exchange->timer, on_time, at > now ? at - now : 0, 0);
}

static void on_time(uv_timer_t *timer) {
    tdg__web_exchange_t *exchange = timer->data;
    struct limit limit;
    uint64_t at;

    if (exchange->code != 0) {
        end(exchange, exchange->code, exchange->why);
        return;
    }
    limit = next_limit(exchange);
    at = limit.from + limit.ms;
    if (limit.ms == 0 || at > uv_now(exchange->web->loop)) {
        schedule(exchange);
        return;
    }
    /* Timers come before sockets. Where the loop was kept busy, what would have been in
     * time may still lie in the socket: look there first, but once for each end: what
     * comes now moves that of the silence, and no other. */
    if (exchange->late_ms != at) {
        exchange->late_ms = at;
        uv_timer_start(timer, on_time, 1, 0);
        return;
    }
    snprintf(exchange->why, TDG__WEB_WHY, "%s port %u %s %u ms", exchange->target.host,
             exchange->target.port, limit.what, limit.ms);
    end(exchange, TDG_ETIMEDOUT, exchange->why);
}

void tdg__web_exchange_set_quiet(tdg__web_exchange_t *exchange,
                                 uint32_t quiet_timeout_ms) {
    if (exchange->gone)
        return;
    exchange->request.quiet_timeout_ms = quiet_timeout_ms;
    if (exchange->code == 0)
        schedule(exchange);
}

/* ---- What comes in ------------------------------------------------------ */

static void came(tdg__web_exchange_t *exchange) {
    exchange->last_ms = uv_now(exchange->web->loop);
}

/* Whether a redirect that leads so far is followed. */
static tdg__web_unfollowed_t judge(const tdg__web_exchange_t *exchange,
                                   tdg__web_hop_t hop) {
    static const tdg__web_hop_t farthest[] = {
        [TDG__WEB_FOLLOW_NEAR] = TDG__WEB_HOP_SECURED,
        [TDG__WEB_FOLLOW_HOST] = TDG__WEB_HOP_SAME,
        [TDG__WEB_FOLLOW_ANY] = TDG__WEB_HOP_OTHER,
    };

    if (hop == TDG__WEB_HOP_EXPOSED)
        return TDG__WEB_NEVER;
    if (hop > farthest[exchange->request.follow])
        return TDG__WEB_ELSEWHERE;
    return exchange->hops >= MAX_HOPS ? TDG__WEB_TOO_OFTEN : TDG__WEB_NO_REDIRECT;
}

/* Whether this answer is a redirect that we follow; then `redirect` says where to. */
static bool is_followed(tdg__web_exchange_t *exchange) {
    const tdg__web_facts_t *facts = &exchange->facts;
    int status = facts->status;
    const char *why;
    int rv;

    if (exchange->request.follow == TDG__WEB_FOLLOW_NONE || facts->location.len == 0 ||
        status < 300 || status > 399 || status == 304 ||
        (exchange->request.follow == TDG__WEB_FOLLOW_NEAR && status != 307 &&
         status != 308))
        return false;
    rv = tdg__web_url_read(facts->location.data, exchange->target.url,
                           &exchange->redirect, &why);
    exchange->failed = rv == TDG_ENOMEM ? rv : 0;
    exchange->unfollowed =
        rv < 0
            ? TDG__WEB_NEVER
            : judge(exchange, tdg__web_url_hop(&exchange->target, &exchange->redirect));
    if (rv == 0 && exchange->unfollowed != TDG__WEB_NO_REDIRECT)
        tdg__web_url_done(&exchange->redirect);
    return exchange->unfollowed == TDG__WEB_NO_REDIRECT;
}

/* Some servers know no expectation: the request is repeated without it. */
static bool is_unmet(tdg__web_exchange_t *exchange) {
    exchange->unmet = exchange->expects && exchange->facts.status == 417;
    return exchange->unmet;
}

static size_t on_header(char *data, size_t size, size_t count, void *arg) {
    tdg__web_exchange_t *exchange = arg;
    bool before = exchange->facts.complete;

    came(exchange);
    exchange->header_bytes += size * count;
    if (exchange->header_bytes > TDG__WEB_MAX_HEADERS)
        return 0;
    if (exchange->request.line != NULL && !before)
        exchange->request.line(exchange->user, data, size * count);
    tdg__web_facts_line(&exchange->facts, data, size * count, tdg__wall_ms());
    if (exchange->facts.no_memory)
        exchange->failed = TDG_ENOMEM;
    if (exchange->failed == 0 && exchange->facts.complete && !before &&
        !is_unmet(exchange) && !is_followed(exchange)) {
        exchange->answered = exchange->head_new = true;
        ready(exchange);
        schedule(exchange);
    }
    return exchange->failed == 0 ? size * count : 0;
}

/* A body that nobody wants is read up to a limit, so that the connection can be used
 * again. */
static bool is_wanted(const tdg__web_exchange_t *exchange) {
    int status = exchange->facts.status;

    return exchange->redirect.url == NULL && !exchange->unmet &&
           (!exchange->request.only_success || (status >= 200 && status <= 299));
}

/* Decoded bytes come in pieces of some KiB: a small answer that unpacks to a huge one is
 * found out in time. */
static bool is_too_large(tdg__web_exchange_t *exchange, size_t len) {
    curl_off_t announced = -1;

    if (exchange->request.max_bytes == 0)
        return false;
    curl_easy_getinfo(exchange->easy, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &announced);
    exchange->body_bytes += len;
    return announced > (curl_off_t)exchange->request.max_bytes ||
           exchange->body_bytes > exchange->request.max_bytes;
}

/* Returning less than was given ends the transfer. */
static size_t on_body(char *data, size_t size, size_t count, void *arg) {
    tdg__web_exchange_t *exchange = arg;
    size_t len = size * count;

    came(exchange);
    if (!is_wanted(exchange)) {
        exchange->unwanted += len;
        exchange->enough = exchange->unwanted > UNWANTED;
        return exchange->enough ? 0 : len;
    }
    if (!exchange->answered) { /* a body without a head, as after 101 */
        exchange->odd = true;
        return 0;
    }
    if (is_too_large(exchange, len)) {
        exchange->failed = TDG_ETOOLARGE;
        return 0;
    }
    tdg__text_add(&exchange->incoming, data, len);
    if (exchange->incoming.error < 0)
        exchange->failed = TDG_ENOMEM;
    ready(exchange);
    return exchange->failed == 0 ? len : 0;
}

static const char *or_null(const tdg__text_t *text) {
    return text->len > 0 ? text->data : NULL;
}

static void deliver_head(tdg__web_exchange_t *exchange) {
    const tdg__web_facts_t *facts = &exchange->facts;
    tdg__web_head_t head = {
        .status = facts->status,
        .unfollowed = exchange->unfollowed,
        .content_type = facts->content_type.len > 0 ? facts->content_type.data : "",
        .full_type = or_null(&facts->full_type),
        .etag = or_null(&facts->etag),
        .last_modified = or_null(&facts->last_modified),
        .date_ms = facts->date_ms,
        .session = or_null(&facts->session),
        .retry_after_ms = facts->retry_after_ms,
        .url = exchange->target.url,
        .hops = exchange->hops,
    };
    curl_off_t us = 0;

    if (curl_easy_getinfo(exchange->easy, CURLINFO_NAMELOOKUP_TIME_T, &us) == CURLE_OK)
        head.resolved_us = us;
    if (curl_easy_getinfo(exchange->easy, CURLINFO_CONNECT_TIME_T, &us) == CURLE_OK)
        head.connected_us = us;
    if (curl_easy_getinfo(exchange->easy, CURLINFO_APPCONNECT_TIME_T, &us) == CURLE_OK)
        head.secured_us = us;
    exchange->head_new = false;
    if (exchange->calls.head != NULL)
        exchange->calls.head(exchange->user, &head);
}

static void deliver(tdg__web_exchange_t *exchange) {
    exchange->delivering = true;
    if (exchange->head_new)
        deliver_head(exchange);
    if (!exchange->gone && exchange->incoming.len > 0 && exchange->calls.data != NULL)
        exchange->calls.data(exchange->user, exchange->incoming.data,
                             exchange->incoming.len);
    exchange->delivering = false;
    if (exchange->gone)
        release(exchange);
    else
        tdg__text_clear(&exchange->incoming);
}

static void on_turn(void *owner) {
    tdg__web_t *web = owner;
    tdg__queue_t *first;

    while ((first = tdg__queue_take(&web->ready)) != NULL)
        deliver(TDG__RECORD(tdg__web_exchange_t, in_ready, first));
}

/* ---- Beginning, and going on -------------------------------------------- */

/* One hop. */
static int start(tdg__web_exchange_t *exchange) {
    int rv;

    exchange->header_bytes = exchange->unwanted = 0;
    exchange->enough = exchange->requested = exchange->again = exchange->unmet = false;
    exchange->said[0] = '\0';
    tdg__web_facts_clear(&exchange->facts);
    rv = tdg__web_exchange_aim(exchange);
    if (rv == 0)
        rv = tdg__curl_add(exchange->web->curl, exchange->easy);
    exchange->added = rv == 0;
    return rv;
}

static void go_on(tdg__web_exchange_t *exchange) {
    int rv = start(exchange);

    if (rv < 0)
        end(exchange, rv, tdg_strerror(rv));
}

static void follow(tdg__web_exchange_t *exchange) {
    exchange->for_good = exchange->for_good && exchange->facts.status == 308;
    exchange->hops++;
    tdg__web_url_done(&exchange->target);
    exchange->target = exchange->redirect;
    exchange->redirect = (tdg__web_url_t){.url = NULL};
    if (exchange->request.follow != TDG__WEB_FOLLOW_NEAR)
        exchange->bare =
            exchange->bare || tdg__web_url_hop(&exchange->web->home, &exchange->target) !=
                                  TDG__WEB_HOP_SAME;
    else if (exchange->for_good)
        tdg__web_remember_move(exchange);
    go_on(exchange);
}

static void on_finished(void *job, CURLcode code) {
    tdg__web_exchange_t *exchange = job;
    tdg__web_trouble_t trouble = {
        .code = code,
        .said = exchange->said,
        .url = &exchange->target,
        .ca_file = exchange->web->opts.ca_file,
        .by_proxy = exchange->web->opts.proxy != NULL,
    };
    int rv;

    exchange->added = false;
    if (exchange->failed == TDG_ENOMEM) {
        end(exchange, TDG_ENOMEM, tdg_strerror(TDG_ENOMEM));
    } else if (exchange->failed == TDG_ETOOLARGE) {
        snprintf(exchange->why, TDG__WEB_WHY,
                 "the response of %s port %u is larger than %zu bytes",
                 exchange->target.host, exchange->target.port,
                 exchange->request.max_bytes);
        end(exchange, TDG_ETOOLARGE, exchange->why);
    } else if (exchange->header_bytes > TDG__WEB_MAX_HEADERS) {
        snprintf(exchange->why, TDG__WEB_WHY,
                 "the headers from %s port %u are larger than %d bytes",
                 exchange->target.host, exchange->target.port, TDG__WEB_MAX_HEADERS);
        end(exchange, TDG_EUNREACHABLE, exchange->why);
    } else if (exchange->unmet) {
        exchange->expects = false;
        go_on(exchange);
    } else if (exchange->redirect.url != NULL && (code == CURLE_OK || exchange->enough)) {
        follow(exchange);
    } else if ((code == CURLE_OK || exchange->enough) && exchange->facts.complete) {
        end(exchange, 0, NULL);
    } else {
        if (code == CURLE_OK || exchange->odd)
            trouble.code = CURLE_UNSUPPORTED_PROTOCOL;
        else if (exchange->again)
            trouble.code = CURLE_SEND_FAIL_REWIND;
        curl_easy_getinfo(exchange->easy, CURLINFO_OS_ERRNO, &trouble.system);
        rv = tdg__web_explain(&trouble, exchange->why, TDG__WEB_WHY);
        end(exchange, rv, exchange->why);
    }
}

static void listen_to(tdg__web_exchange_t *exchange) {
    CURL *easy = exchange->easy;

    curl_easy_setopt(easy, CURLOPT_PRIVATE, exchange);
    curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, exchange->said);
    curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(easy, CURLOPT_HEADERDATA, exchange);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, exchange);
}

static tdg__web_exchange_t *exchange_new(tdg__web_t *web,
                                         const tdg__web_request_t *request) {
    tdg__web_exchange_t *exchange = tdg__calloc(1, sizeof(*exchange));

    if (exchange == NULL)
        return NULL;
    exchange->web = web;
    exchange->request = *request;
    exchange->for_good = true;
    exchange->begun_ms = exchange->last_ms = uv_now(web->loop);
    tdg__web_facts_init(&exchange->facts);
    tdg__text_init(&exchange->incoming, MAX_TURN);
    uv_timer_init(web->loop, &exchange->timer);
    exchange->timer.data = exchange;
    web->memories++;
    tdg__queue_prepend(&web->all, &exchange->in_all);
    return exchange;
}

int tdg__web_exchange_begin(tdg__web_t *web, const tdg__web_request_t *request,
                            const tdg__web_exchange_calls_t *calls, void *user,
                            tdg__web_exchange_t **ret) {
    tdg__web_exchange_t *exchange;
    int rv = TDG_ENOMEM;

    if (web->closing || request->url == NULL)
        return TDG_EINVAL;
    exchange = exchange_new(web, request);
    if (exchange == NULL)
        return TDG_ENOMEM;
    exchange->calls = *calls;
    exchange->user = user;
    exchange->easy = curl_easy_init();
    if (exchange->easy != NULL && tdg__copy(request->url, &exchange->first_url)) {
        rv = tdg__web_exchange_prepare(exchange);
        if (rv == 0) {
            listen_to(exchange);
            rv = start(exchange);
        }
    }
    if (rv == TDG_ENOMEM) {
        tdg__web_exchange_cancel(exchange);
        return rv;
    }
    exchange->code = rv;
    if (rv < 0) /* reported from the loop */
        uv_timer_start(&exchange->timer, on_time, 0, 0);
    else
        schedule(exchange);
    *ret = exchange;
    return 0;
}

/* ---- Life --------------------------------------------------------------- */

static const tdg__curl_calls_t curl_calls = {.turn = on_turn, .finished = on_finished};

int tdg__web_create(uv_loop_t *loop, const tdg__web_opts_t *opts, tdg__web_t **ret) {
    tdg__web_t *web = tdg__calloc(1, sizeof(*web));
    int rv;

    if (web == NULL)
        return TDG_ENOMEM;
    web->loop = loop;
    web->opts = *opts;
    tdg__queue_init(&web->all);
    tdg__queue_init(&web->ready);
    rv = tdg__curl_create(loop, &curl_calls, web, &web->curl);
    if (rv < 0) {
        tdg__free(web);
        return rv;
    }
    *ret = web;
    return 0;
}

static void curl_closed(void *arg) {
    tdg__web_t *web = arg;

    web->curl = NULL;
    check_closed(web);
}

void tdg__web_close(tdg__web_t *web, void (*closed)(void *arg), void *arg) {
    web->closing = true;
    web->closed = closed;
    web->arg = arg;
    while (!tdg__queue_is_empty(&web->all))
        tdg__web_exchange_cancel(TDG__RECORD(tdg__web_exchange_t, in_all, web->all.next));
    tdg__curl_close(web->curl, curl_closed, web);
}

void tdg__web_rest(tdg__web_t *web) {
    tdg__curl_rest(web->curl);
}

void tdg__web_distrust(tdg__web_t *web) {
    web->distrusts = true;
    web->trusted_since_ms = uv_now(web->loop);
}

bool tdg__web_renew_token(tdg__web_t *web) {
    tdg__free(web->token);
    web->token = NULL;
    return web->opts.token_file != NULL;
}

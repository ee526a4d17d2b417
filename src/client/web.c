/* SPDX-License-Identifier: MIT
 *
 * In libcurl's callbacks hardly anything is allowed, so they only put aside what has
 * come; it is handed over after libcurl has returned, where whoever is called may begin,
 * cancel and close at will. An exchange's memory goes with its timer, in a later turn of
 * the loop, so a pointer to one that has just ended is never wild. */
#include "client/web.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include <tidings/error.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/text.h"
#include "client/web_error.h"
#include "client/web_head.h"
#include "client/web_secret.h"
#include "client/web_url.h"
#include "net/curl_loop.h"

enum {
    MAX_HOPS = 5,
    MOVED = 4,            /* targets that are remembered as moved */
    UNWANTED = 64 * 1024, /* body of a redirect that is read, to keep the connection */
    WHY = 512,
    KEEPALIVE_IDLE_S = 20, /* a peer that has vanished is found out after about 50 s */
    KEEPALIVE_EVERY_S = 10,
    KEEPALIVE_PROBES = 3,
    MAX_TURN = 256 * 1024 * 1024, /* bytes of one turn: far more than libcurl reads */
};

struct move {
    char *from, *to;
};

struct tdg__web {
    uv_loop_t *loop;
    tdg__curl_t *curl;
    char **headers;
    size_t header_count;
    char *token_file, *token; /* token: as the file had it last; NULL: to be read */
    char *ca_file, *proxy, *agent, *abstract_socket;
    bool insecure;
    uint32_t connect_timeout_ms;

    tdg__web_url_t home; /* where everything goes: that of the first exchange */
    struct move moved[MOVED];
    size_t moved_next;

    tdg__exchange_t *exchanges;          /* that have not ended */
    tdg__exchange_t *ready, **ready_end; /* of these, those with something new */
    size_t memories;                     /* exchanges whose memory is not free yet */
    bool closing;
    void (*closed)(void *arg);
    void *arg;
};

struct tdg__exchange {
    tdg__curl_job_t job; /* first */
    tdg__web_t *web;
    tdg__exchange_t *next, **at;
    tdg__exchange_t *ready_next, **ready_at; /* ready_at NULL: is not ready */
    uv_timer_t timer;
    CURL *easy;
    bool added;

    char *first_url; /* as wished */
    tdg__web_url_t target;
    tdg__web_url_t redirect; /* where to go next; its url NULL: nowhere */
    unsigned hops;
    bool for_good; /* all redirects so far were 308 */
    tdg__web_method_t method;
    struct curl_slist *lines;
    char *body;
    size_t body_len, body_at;

    tdg__web_facts_t facts;
    tdg__text_t incoming;
    size_t header_bytes, unwanted;
    bool answered; /* the head is there of what is not a redirect that we follow */
    bool head_new; /* it is to be handed over */
    bool enough, too_large, odd, no_memory;
    char said[CURL_ERROR_SIZE];

    uint64_t begun_ms, last_ms; /* last_ms: when something came */
    uint32_t head_ms, quiet_ms, total_ms;
    bool late; /* a time was over when last looked at */

    int code; /* it cannot begin: why */
    char why[WHY];
    bool delivering; /* inside of its calls */
    bool gone;       /* no more calls */

    tdg__exchange_calls_t calls;
    void *user;
};

/* ---- Lists -------------------------------------------------------------- */

static void list_add(tdg__exchange_t *exchange) {
    tdg__web_t *web = exchange->web;

    exchange->next = web->exchanges;
    exchange->at = &web->exchanges;
    if (exchange->next != NULL)
        exchange->next->at = &exchange->next;
    web->exchanges = exchange;
}

static void list_remove(tdg__exchange_t *exchange) {
    *exchange->at = exchange->next;
    if (exchange->next != NULL)
        exchange->next->at = exchange->at;
}

static void ready_add(tdg__exchange_t *exchange) {
    tdg__web_t *web = exchange->web;

    if (exchange->ready_at != NULL)
        return;
    exchange->ready_next = NULL;
    exchange->ready_at = web->ready_end;
    *web->ready_end = exchange;
    web->ready_end = &exchange->ready_next;
}

static void ready_remove(tdg__exchange_t *exchange) {
    if (exchange->ready_at == NULL)
        return;
    *exchange->ready_at = exchange->ready_next;
    if (exchange->ready_next != NULL)
        exchange->ready_next->ready_at = exchange->ready_at;
    else
        exchange->web->ready_end = exchange->ready_at;
    exchange->ready_at = NULL;
}

/* ---- Ending ------------------------------------------------------------- */

static void web_free(tdg__web_t *web) {
    for (size_t i = 0; i < web->header_count; i++)
        tdg__free(web->headers[i]);
    for (size_t i = 0; i < MOVED; i++) {
        tdg__free(web->moved[i].from);
        tdg__free(web->moved[i].to);
    }
    tdg__free(web->headers);
    tdg__free(web->token_file);
    tdg__free(web->token);
    tdg__free(web->ca_file);
    tdg__free(web->proxy);
    tdg__free(web->agent);
    tdg__free(web->abstract_socket);
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
    tdg__exchange_t *exchange = handle->data;
    tdg__web_t *web = exchange->web;

    tdg__free(exchange);
    web->memories--;
    check_closed(web);
}

/* No call will come any more, and libcurl forgets it. */
static void detach(tdg__exchange_t *exchange) {
    exchange->gone = true;
    ready_remove(exchange);
    list_remove(exchange);
    if (exchange->added)
        tdg__curl_remove(exchange->web->curl, exchange->easy);
    exchange->added = false;
}

static void release(tdg__exchange_t *exchange) {
    curl_easy_cleanup(exchange->easy);
    curl_slist_free_all(exchange->lines);
    tdg__web_facts_done(&exchange->facts);
    tdg__text_done(&exchange->incoming);
    tdg__web_url_done(&exchange->target);
    tdg__web_url_done(&exchange->redirect);
    tdg__free(exchange->first_url);
    tdg__free(exchange->body);
    uv_close((uv_handle_t *)&exchange->timer, timer_closed);
}

void tdg__exchange_cancel(tdg__exchange_t *exchange) {
    if (exchange->gone)
        return;
    detach(exchange);
    if (!exchange->delivering)
        release(exchange);
}

static bool may_have_been_sent(const tdg__exchange_t *exchange) {
    long bytes = 0;

    if (exchange->easy != NULL)
        curl_easy_getinfo(exchange->easy, CURLINFO_REQUEST_SIZE, &bytes);
    return bytes > 0 || exchange->facts.status != 0;
}

static void forget_move(tdg__web_t *web, const char *from);

static void end(tdg__exchange_t *exchange, int code, const char *why) {
    tdg__web_end_t report = {code, code != 0 ? why : NULL, may_have_been_sent(exchange)};

    if (code != 0) /* where it moved to does not work, so ask at the old place again */
        forget_move(exchange->web, exchange->first_url);
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
static struct limit next_limit(const tdg__exchange_t *exchange) {
    const struct limit limits[] = {
        {exchange->answered ? 0 : exchange->head_ms,  exchange->begun_ms,
         "has not answered within"                                                                 },
        {exchange->answered ? exchange->quiet_ms : 0, exchange->last_ms,
         "has sent nothing for"                                                                    },
        {exchange->total_ms,                          exchange->begun_ms, "has not sent all within"},
    };
    struct limit first = {.ms = 0};

    for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++)
        if (limits[i].ms > 0 &&
            (first.ms == 0 || limits[i].from + limits[i].ms < first.from + first.ms))
            first = limits[i];
    return first;
}

static void on_time(uv_timer_t *timer);

static void schedule(tdg__exchange_t *exchange) {
    struct limit limit = next_limit(exchange);
    uint64_t at = limit.from + limit.ms, now = uv_now(exchange->web->loop);

    if (limit.ms == 0)
        uv_timer_stop(&exchange->timer);
    else
        uv_timer_start(&exchange->timer, on_time, at > now ? at - now : 0, 0);
}

static void on_time(uv_timer_t *timer) {
    tdg__exchange_t *exchange = timer->data;
    struct limit limit;

    if (exchange->code != 0) {
        end(exchange, exchange->code, exchange->why);
        return;
    }
    limit = next_limit(exchange);
    if (limit.ms == 0 || limit.from + limit.ms > uv_now(exchange->web->loop)) {
        schedule(exchange);
        return;
    }
    /* Timers come before sockets. Where the loop was kept busy, what would have been in
     * time may still lie in the socket: look there first. */
    if (!exchange->late) {
        exchange->late = true;
        uv_timer_start(timer, on_time, 1, 0);
        return;
    }
    snprintf(exchange->why, WHY, "%s port %u %s %u ms", exchange->target.host,
             exchange->target.port, limit.what, limit.ms);
    end(exchange, TDG_ETIMEDOUT, exchange->why);
}

void tdg__exchange_set_quiet(tdg__exchange_t *exchange, uint32_t quiet_timeout_ms) {
    if (exchange->gone)
        return;
    exchange->quiet_ms = quiet_timeout_ms;
    if (exchange->code == 0)
        schedule(exchange);
}

/* ---- What comes in ------------------------------------------------------ */

static void came(tdg__exchange_t *exchange) {
    exchange->last_ms = uv_now(exchange->web->loop);
    exchange->late = false;
}

/* Whether this answer is a redirect that we follow; then `redirect` says where to. */
static bool is_followed(tdg__exchange_t *exchange) {
    const tdg__web_facts_t *facts = &exchange->facts;
    const char *why;

    if ((facts->status != 307 && facts->status != 308) || facts->location.len == 0 ||
        exchange->hops >= MAX_HOPS)
        return false;
    if (tdg__web_url_read(facts->location.data, exchange->target.url, &exchange->redirect,
                          &why) < 0)
        return false;
    if (tdg__web_url_near(&exchange->target, &exchange->redirect))
        return true;
    tdg__web_url_done(&exchange->redirect);
    return false;
}

static size_t on_header(char *data, size_t size, size_t count, void *arg) {
    tdg__exchange_t *exchange = arg;
    bool before = exchange->facts.complete;

    came(exchange);
    exchange->header_bytes += size * count;
    if (exchange->header_bytes > TDG__WEB_MAX_HEADERS) {
        exchange->too_large = true;
        return 0;
    }
    tdg__web_facts_line(&exchange->facts, data, size * count, tdg__wall_ms());
    if (exchange->facts.no_memory) {
        exchange->no_memory = true;
        return 0;
    }
    if (exchange->facts.complete && !before && !is_followed(exchange)) {
        exchange->answered = exchange->head_new = true;
        ready_add(exchange);
        schedule(exchange);
    }
    return size * count;
}

/* Returning less than was given ends the transfer. */
static size_t on_body(char *data, size_t size, size_t count, void *arg) {
    tdg__exchange_t *exchange = arg;
    size_t len = size * count;

    came(exchange);
    if (exchange->redirect.url != NULL) {
        exchange->unwanted += len;
        exchange->enough = exchange->unwanted > UNWANTED;
        return exchange->enough ? 0 : len;
    }
    if (!exchange->answered) { /* a body without a head, as after 101 */
        exchange->odd = true;
        return 0;
    }
    tdg__text_add(&exchange->incoming, data, len);
    exchange->no_memory = exchange->incoming.error < 0;
    ready_add(exchange);
    return exchange->no_memory ? 0 : len;
}

static const char *or_null(const tdg__text_t *text) {
    return text->len > 0 ? text->data : NULL;
}

static void deliver_head(tdg__exchange_t *exchange) {
    const tdg__web_facts_t *facts = &exchange->facts;
    tdg__web_head_t head = {
        .status = facts->status,
        .content_type = facts->content_type.len > 0 ? facts->content_type.data : "",
        .session = or_null(&facts->session),
        .authenticate = or_null(&facts->authenticate),
        .retry_after_ms = facts->retry_after_ms,
        .url = exchange->target.url,
        .elapsed_ms = (uint32_t)(uv_now(exchange->web->loop) - exchange->begun_ms),
    };

    exchange->head_new = false;
    exchange->calls.head(exchange->user, &head);
}

static void deliver(tdg__exchange_t *exchange) {
    exchange->delivering = true;
    if (exchange->head_new)
        deliver_head(exchange);
    if (!exchange->gone && exchange->incoming.len > 0)
        exchange->calls.data(exchange->user, exchange->incoming.data,
                             exchange->incoming.len);
    exchange->delivering = false;
    if (exchange->gone)
        release(exchange);
    else
        tdg__text_clear(&exchange->incoming);
}

static void on_turn(void *arg) {
    tdg__web_t *web = arg;

    while (web->ready != NULL) {
        tdg__exchange_t *exchange = web->ready;

        ready_remove(exchange);
        deliver(exchange);
    }
}

/* ---- What goes out ------------------------------------------------------ */

static size_t on_read(char *out, size_t size, size_t count, void *arg) {
    tdg__exchange_t *exchange = arg;
    size_t left = exchange->body_len - exchange->body_at, len = size * count;

    len = len < left ? len : left;
    if (len > 0)
        memcpy(out, exchange->body + exchange->body_at, len);
    exchange->body_at += len;
    return len;
}

/* libcurl would send a request again by itself where a connection that was kept open
 * breaks before the first byte of the answer. The server may have acted on it already, so
 * that is not for libcurl to decide. */
static int on_seek(void *arg, curl_off_t offset, int origin) {
    tdg__exchange_t *exchange = arg;

    (void)offset;
    (void)origin;
    return exchange->body_at == 0 ? CURL_SEEKFUNC_OK : CURL_SEEKFUNC_FAIL;
}

static int on_socket(void *arg, curl_socket_t fd, curlsocktype purpose) {
    int probes = KEEPALIVE_PROBES;

    (void)arg;
    (void)purpose;
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof(probes));
    return CURL_SOCKOPT_OK;
}

/* ---- Preparing ---------------------------------------------------------- */

static int refuse(tdg__exchange_t *exchange, int code, const char *why) {
    if (why != exchange->why)
        snprintf(exchange->why, WHY, "%s", why);
    return code;
}

static const char *moved_to(const tdg__web_t *web, const char *url) {
    for (size_t i = 0; i < MOVED; i++)
        if (web->moved[i].from != NULL && strcmp(web->moved[i].from, url) == 0)
            return web->moved[i].to;
    return url;
}

static void forget_move(tdg__web_t *web, const char *from) {
    for (size_t i = 0; i < MOVED && from != NULL; i++)
        if (web->moved[i].from != NULL && strcmp(web->moved[i].from, from) == 0) {
            tdg__free(web->moved[i].from);
            tdg__free(web->moved[i].to);
            web->moved[i] = (struct move){NULL, NULL};
        }
}

/* Without memory it is not remembered, and asked again. */
static void remember_move(tdg__exchange_t *exchange) {
    tdg__web_t *web = exchange->web;
    struct move move = {tdg__strdup(exchange->first_url),
                        tdg__strdup(exchange->target.url)};
    struct move *at;

    if (move.from == NULL || move.to == NULL) {
        tdg__free(move.from);
        tdg__free(move.to);
        return;
    }
    forget_move(web, move.from);
    at = &web->moved[web->moved_next++ % MOVED];
    tdg__free(at->from);
    tdg__free(at->to);
    *at = move;
}

/* Where to: the place of the first exchange, or near it. */
static int set_target(tdg__exchange_t *exchange) {
    tdg__web_t *web = exchange->web;
    const char *why, *url = moved_to(web, exchange->first_url);
    int rv = tdg__web_url_read(url, NULL, &exchange->target, &why);

    if (rv == 0 && web->home.url == NULL)
        rv = tdg__web_url_read(url, NULL, &web->home, &why);
    if (rv < 0)
        return refuse(exchange, rv, why);
    if (tdg__web_url_near(&web->home, &exchange->target))
        return 0;
    snprintf(exchange->why, WHY,
             "%s port %u is not where this client was told to connect: %s port %u",
             exchange->target.host, exchange->target.port, web->home.host,
             web->home.port);
    return TDG_EREFUSED;
}

static int check_secrets(tdg__exchange_t *exchange) {
    tdg__web_t *web = exchange->web;
    bool secrets = web->header_count > 0 || web->token_file != NULL ||
                   web->home.user != NULL || web->home.password != NULL;
    int rv;

    for (size_t i = 0; i < web->header_count; i++)
        if (!tdg__web_header_is_fine(web->headers[i], exchange->why, WHY))
            return TDG_EINVAL;
    if (secrets && !web->insecure && !exchange->target.secure &&
        (web->proxy != NULL || !tdg__web_url_is_here(&exchange->target))) {
        snprintf(
            exchange->why, WHY,
            "credentials would go unprotected over http to %s port %u: use https, or "
            "allow it (insecure token)",
            exchange->target.host, exchange->target.port);
        return TDG_EREFUSED;
    }
    if (web->token_file != NULL && web->token == NULL) {
        rv = tdg__web_token_read(web->token_file, &web->token, exchange->why, WHY);
        if (rv < 0)
            return rv;
    }
    return 0;
}

/* ---- Headers ------------------------------------------------------------ */

static int add_text(tdg__exchange_t *exchange, const char *line) {
    struct curl_slist *lines = curl_slist_append(exchange->lines, line);

    if (lines == NULL)
        return TDG_ENOMEM;
    exchange->lines = lines;
    return 0;
}

static int add_line(tdg__exchange_t *exchange, const char *name, const char *value) {
    size_t room = strlen(name) + strlen(value) + 3;
    char *line = tdg__malloc(room);
    int rv = TDG_ENOMEM;

    if (line != NULL) {
        snprintf(line, room, "%s: %s", name, value);
        rv = add_text(exchange, line);
        explicit_bzero(line, room);
        tdg__free(line);
    }
    return rv;
}

static int add_token(tdg__exchange_t *exchange) {
    const char *token = exchange->web->token;
    size_t room;
    char *value;
    int rv;

    if (token == NULL)
        return 0;
    room = strlen(token) + sizeof("Bearer ");
    value = tdg__malloc(room);
    if (value == NULL)
        return TDG_ENOMEM;
    snprintf(value, room, "Bearer %s", token);
    rv = add_line(exchange, "Authorization", value);
    explicit_bzero(value, room);
    tdg__free(value);
    return rv;
}

static int add_lines(tdg__exchange_t *exchange, const tdg__web_wish_t *wish) {
    tdg__web_t *web = exchange->web;
    int rv = add_text(exchange, "Expect:");

    if (rv == 0)
        rv = add_text(exchange, wish->body != NULL ? "Content-Type: application/json"
                                                   : "Content-Type:");
    if (rv == 0 && wish->accept != NULL)
        rv = add_line(exchange, "Accept", wish->accept);
    for (size_t i = 0; i < wish->field_count && rv == 0; i++) {
        const tdg__web_field_t *field = &wish->fields[i];

        if (!tdg__web_field_is_fine(field->name, field->value)) {
            snprintf(exchange->why, WHY, "the header %.100s cannot be sent", field->name);
            return TDG_EINVAL;
        }
        if (field->value[0] != '\0')
            rv = add_line(exchange, field->name, field->value);
    }
    for (size_t i = 0; i < web->header_count && rv == 0; i++)
        rv = add_text(exchange, web->headers[i]);
    return rv == 0 ? add_token(exchange) : rv;
}

/* ---- Options ------------------------------------------------------------ */

static int set_texts(tdg__exchange_t *exchange) {
    const tdg__web_t *web = exchange->web;
    const struct {
        CURLoption option;
        const char *text; /* NULL: left as it is */
    } texts[] = {
        {CURLOPT_PROTOCOLS_STR,        "http,https"                                         },
        {CURLOPT_USERAGENT,            web->agent                                           },
        {CURLOPT_PROXY,                web->proxy != NULL ? web->proxy : ""                 },
        {CURLOPT_NOPROXY,              ""                                                   },
        {CURLOPT_CAINFO,               web->ca_file                                         },
        {CURLOPT_USERNAME,             web->home.user                                       },
        {CURLOPT_PASSWORD,             web->home.password                                   },
        {CURLOPT_ABSTRACT_UNIX_SOCKET, web->abstract_socket                                 },
        {CURLOPT_CUSTOMREQUEST,        exchange->method == TDG__WEB_DELETE ? "DELETE" : NULL},
    };

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        if (texts[i].text != NULL &&
            curl_easy_setopt(exchange->easy, texts[i].option, texts[i].text) != CURLE_OK)
            return TDG_ENOMEM;
    return 0;
}

static void set_numbers(tdg__exchange_t *exchange) {
    const struct {
        CURLoption option;
        long number;
    } numbers[] = {
        {CURLOPT_CONNECTTIMEOUT_MS,        (long)exchange->web->connect_timeout_ms},
        {CURLOPT_FOLLOWLOCATION,           0                                      },
        {CURLOPT_HEADEROPT,                CURLHEADER_SEPARATE                    },
        {CURLOPT_HTTP_VERSION,             CURL_HTTP_VERSION_2TLS                 },
        {CURLOPT_NOSIGNAL,                 1                                      },
        {CURLOPT_QUICK_EXIT,               1                                      },
        {CURLOPT_SSL_VERIFYPEER,           1                                      },
        {CURLOPT_SSL_VERIFYHOST,           2                                      },
        {CURLOPT_SUPPRESS_CONNECT_HEADERS, 1                                      },
        {CURLOPT_TCP_KEEPALIVE,            1                                      },
        {CURLOPT_TCP_KEEPIDLE,             KEEPALIVE_IDLE_S                       },
        {CURLOPT_TCP_KEEPINTVL,            KEEPALIVE_EVERY_S                      },
        {CURLOPT_TCP_NODELAY,              1                                      },
    };

    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
        curl_easy_setopt(exchange->easy, numbers[i].option, numbers[i].number);
}

static void set_calls(tdg__exchange_t *exchange) {
    CURL *easy = exchange->easy;

    curl_easy_setopt(easy, CURLOPT_PRIVATE, &exchange->job);
    curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, exchange->said);
    curl_easy_setopt(easy, CURLOPT_HTTPHEADER, exchange->lines);
    curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(easy, CURLOPT_HEADERDATA, exchange);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, exchange);
    curl_easy_setopt(easy, CURLOPT_SOCKOPTFUNCTION, on_socket);
    if (exchange->method != TDG__WEB_POST)
        return;
    curl_easy_setopt(easy, CURLOPT_POST, 1L);
    curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)exchange->body_len);
    curl_easy_setopt(easy, CURLOPT_READFUNCTION, on_read);
    curl_easy_setopt(easy, CURLOPT_READDATA, exchange);
    curl_easy_setopt(easy, CURLOPT_SEEKFUNCTION, on_seek);
    curl_easy_setopt(easy, CURLOPT_SEEKDATA, exchange);
}

/* ---- Beginning, and going on -------------------------------------------- */

/* One hop. */
static int start(tdg__exchange_t *exchange) {
    int rv;

    exchange->header_bytes = exchange->unwanted = exchange->body_at = 0;
    exchange->enough = false;
    exchange->said[0] = '\0';
    tdg__web_facts_clear(&exchange->facts);
    if (curl_easy_setopt(exchange->easy, CURLOPT_URL, exchange->target.url) != CURLE_OK)
        return TDG_ENOMEM;
    rv = tdg__curl_add(exchange->web->curl, exchange->easy);
    exchange->added = rv == 0;
    return rv;
}

static void follow(tdg__exchange_t *exchange) {
    int rv;

    exchange->for_good = exchange->for_good && exchange->facts.status == 308;
    exchange->hops++;
    tdg__web_url_done(&exchange->target);
    exchange->target = exchange->redirect;
    exchange->redirect = (tdg__web_url_t){.url = NULL};
    if (exchange->for_good)
        remember_move(exchange);
    rv = start(exchange);
    if (rv < 0)
        end(exchange, rv, tdg_strerror(rv));
}

static void on_finished(tdg__curl_job_t *job, CURLcode code) {
    tdg__exchange_t *exchange = (tdg__exchange_t *)job;
    tdg__web_trouble_t trouble = {
        .code = code,
        .said = exchange->said,
        .url = &exchange->target,
        .ca_file = exchange->web->ca_file,
        .by_proxy = exchange->web->proxy != NULL,
    };
    int rv;

    exchange->added = false;
    if (exchange->no_memory) {
        end(exchange, TDG_ENOMEM, tdg_strerror(TDG_ENOMEM));
    } else if (exchange->too_large) {
        snprintf(exchange->why, WHY,
                 "the headers from %s port %u are larger than %d bytes",
                 exchange->target.host, exchange->target.port, TDG__WEB_MAX_HEADERS);
        end(exchange, TDG_EAWAY, exchange->why);
    } else if (exchange->redirect.url != NULL && (code == CURLE_OK || exchange->enough)) {
        follow(exchange);
    } else if (code == CURLE_OK && exchange->facts.complete) {
        end(exchange, 0, NULL);
    } else {
        if (code == CURLE_OK || exchange->odd)
            trouble.code = CURLE_UNSUPPORTED_PROTOCOL;
        curl_easy_getinfo(exchange->easy, CURLINFO_OS_ERRNO, &trouble.system);
        rv = tdg__web_explain(&trouble, exchange->why, WHY);
        end(exchange, rv, exchange->why);
    }
}

/* Returns 0, or why it cannot begin, with `why`. */
static int prepare(tdg__exchange_t *exchange, const tdg__web_wish_t *wish) {
    int rv = set_target(exchange);

    if (rv == 0)
        rv = check_secrets(exchange);
    if (rv == 0)
        rv = add_lines(exchange, wish);
    if (rv == 0)
        rv = set_texts(exchange);
    if (rv < 0)
        return rv;
    set_numbers(exchange);
    set_calls(exchange);
    return start(exchange);
}

static tdg__exchange_t *exchange_new(tdg__web_t *web, const tdg__web_wish_t *wish) {
    tdg__exchange_t *exchange = tdg__calloc(1, sizeof(*exchange));

    if (exchange == NULL)
        return NULL;
    exchange->job.finished = on_finished;
    exchange->web = web;
    exchange->method = wish->method;
    exchange->for_good = true;
    exchange->head_ms = wish->head_timeout_ms;
    exchange->quiet_ms = wish->quiet_timeout_ms;
    exchange->total_ms = wish->total_timeout_ms;
    exchange->begun_ms = exchange->last_ms = uv_now(web->loop);
    exchange->body_len = wish->body != NULL ? wish->body_len : 0;
    tdg__web_facts_init(&exchange->facts);
    tdg__text_init(&exchange->incoming, MAX_TURN);
    uv_timer_init(web->loop, &exchange->timer);
    exchange->timer.data = exchange;
    web->memories++;
    list_add(exchange);
    return exchange;
}

int tdg__web_begin(tdg__web_t *web, const tdg__web_wish_t *wish,
                   const tdg__exchange_calls_t *calls, void *user,
                   tdg__exchange_t **ret) {
    tdg__exchange_t *exchange;
    int rv = TDG_ENOMEM;

    if (web->closing || wish->url == NULL)
        return TDG_EINVAL;
    exchange = exchange_new(web, wish);
    if (exchange == NULL)
        return TDG_ENOMEM;
    exchange->calls = *calls;
    exchange->user = user;
    exchange->easy = curl_easy_init();
    if (exchange->easy != NULL && tdg__copy(wish->url, &exchange->first_url) &&
        (exchange->body_len == 0 ||
         (exchange->body = tdg__malloc(exchange->body_len)) != NULL)) {
        if (exchange->body_len > 0)
            memcpy(exchange->body, wish->body, exchange->body_len);
        rv = prepare(exchange, wish);
    }
    if (rv == TDG_ENOMEM) {
        tdg__exchange_cancel(exchange);
        return rv;
    }
    exchange->code = rv;
    if (rv < 0) /* told from the loop */
        uv_timer_start(&exchange->timer, on_time, 0, 0);
    else
        schedule(exchange);
    *ret = exchange;
    return 0;
}

/* ---- Life --------------------------------------------------------------- */

static bool copy_headers(tdg__web_t *web, const char *const *headers) {
    size_t count = 0;

    while (headers != NULL && headers[count] != NULL)
        count++;
    if (count == 0)
        return true;
    web->headers = tdg__calloc(count, sizeof(web->headers[0]));
    if (web->headers == NULL)
        return false;
    while (web->header_count < count) {
        char *copy = tdg__strdup(headers[web->header_count]);

        if (copy == NULL)
            return false;
        web->headers[web->header_count++] = copy;
    }
    return true;
}

int tdg__web_create(uv_loop_t *loop, const tdg__web_opts_t *opts, tdg__web_t **ret) {
    tdg__web_t *web = tdg__calloc(1, sizeof(*web));
    int rv = TDG_ENOMEM;

    if (web == NULL)
        return TDG_ENOMEM;
    web->loop = loop;
    web->insecure = opts->insecure_token;
    web->connect_timeout_ms = opts->connect_timeout_ms;
    web->ready_end = &web->ready;
    if (copy_headers(web, opts->headers) &&
        tdg__copy(opts->token_file, &web->token_file) &&
        tdg__copy(opts->ca_file, &web->ca_file) && tdg__copy(opts->proxy, &web->proxy) &&
        tdg__copy(opts->agent, &web->agent) &&
        tdg__copy(opts->abstract_socket, &web->abstract_socket))
        rv = tdg__curl_create(loop, &web->curl);
    if (rv < 0) {
        web_free(web);
        return rv;
    }
    tdg__curl_on_turn(web->curl, on_turn, web);
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
    while (web->exchanges != NULL)
        tdg__exchange_cancel(web->exchanges);
    tdg__curl_close(web->curl, curl_closed, web);
}

bool tdg__web_renew_token(tdg__web_t *web) {
    tdg__free(web->token);
    web->token = NULL;
    return web->token_file != NULL;
}

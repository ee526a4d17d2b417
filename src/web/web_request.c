/* SPDX-License-Identifier: MIT */
#include "web/web_exchange.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include <tidings/error.h>

#include "base/alloc.h"
#include "web/web_header.h"

enum {
    LARGE_BODY = 64 * 1024, /* bytes: it does not go out in one piece with the head, so
                               the server is asked first whether it takes it, ... */
    EXPECT_MS = 500,        /* ... and may leave that open */
    KEEPALIVE_IDLE_S = 20,  /* a peer that has vanished is found out after about 50 s */
    KEEPALIVE_EVERY_S = 10,
    KEEPALIVE_PROBES = 3,
};

/* ---- Preparing ---------------------------------------------------------- */

static int refuse(tdg__web_exchange_t *exchange, int code, const char *why) {
    snprintf(exchange->why, TDG__WEB_WHY, "%s", why);
    return code;
}

static const char *moved_to(const tdg__web_t *web, const char *url) {
    for (size_t i = 0; i < TDG__WEB_MOVED; i++)
        if (web->moved[i].from != NULL && strcmp(web->moved[i].from, url) == 0)
            return web->moved[i].to;
    return url;
}

void tdg__web_forget_move(tdg__web_t *web, const char *from) {
    for (size_t i = 0; i < TDG__WEB_MOVED && from != NULL; i++)
        if (web->moved[i].from != NULL && strcmp(web->moved[i].from, from) == 0) {
            tdg__free(web->moved[i].from);
            tdg__free(web->moved[i].to);
            web->moved[i] = (struct tdg__web_move){NULL, NULL};
        }
}

/* Without memory it is not remembered, and asked again. */
void tdg__web_remember_move(tdg__web_exchange_t *exchange) {
    tdg__web_t *web = exchange->web;
    struct tdg__web_move move = {tdg__strdup(exchange->first_url),
                                 tdg__strdup(exchange->target.url)};
    struct tdg__web_move *at;

    if (move.from == NULL || move.to == NULL) {
        tdg__free(move.from);
        tdg__free(move.to);
        return;
    }
    tdg__web_forget_move(web, move.from);
    at = &web->moved[web->moved_next++ % TDG__WEB_MOVED];
    tdg__free(at->from);
    tdg__free(at->to);
    *at = move;
}

/* Where to: the place of the first exchange, or near it. */
static int set_target(tdg__web_exchange_t *exchange) {
    tdg__web_t *web = exchange->web;
    const char *why, *url = moved_to(web, exchange->first_url);
    int rv = tdg__web_url_read(url, NULL, &exchange->target, &why);

    if (rv == 0 && web->home.url == NULL)
        rv = tdg__web_url_read(url, NULL, &web->home, &why);
    if (rv < 0)
        return refuse(exchange, rv, why);
    if (tdg__web_url_near(&web->home, &exchange->target))
        return 0;
    snprintf(exchange->why, TDG__WEB_WHY,
             "%s port %u differs from the address that this client was given: %s port %u",
             exchange->target.host, exchange->target.port, web->home.host,
             web->home.port);
    return TDG_EREFUSED;
}

static int check_secrets(tdg__web_exchange_t *exchange) {
    tdg__web_t *web = exchange->web;
    const tdg__web_opts_t *opts = &web->opts;
    bool secrets = (opts->headers != NULL && opts->headers[0] != NULL) ||
                   opts->secret_count > 0 || opts->token_file != NULL ||
                   web->home.user != NULL || web->home.password != NULL;

    for (size_t i = 0; opts->headers != NULL && opts->headers[i] != NULL; i++)
        if (!tdg__web_header_is_fine(opts->headers[i], exchange->why, TDG__WEB_WHY))
            return TDG_EINVAL;
    if (secrets && !opts->insecure_token && !exchange->target.secure &&
        (opts->proxy != NULL || !tdg__web_url_is_here(&exchange->target))) {
        snprintf(
            exchange->why, TDG__WEB_WHY,
            "credentials would be sent unencrypted to %s port %u: use https, or allow it "
            "(--insecure-token, TDG_CLIENT_INSECURE_TOKEN)",
            exchange->target.host, exchange->target.port);
        return TDG_EREFUSED;
    }
    if (opts->token_file == NULL || web->token != NULL)
        return 0;
    return tdg__web_token_read(opts->token_file, &web->token, exchange->why,
                               TDG__WEB_WHY);
}

/* ---- Headers ------------------------------------------------------------ */

static int add_text(struct curl_slist **lines, const char *line) {
    struct curl_slist *longer = curl_slist_append(*lines, line);

    if (longer == NULL)
        return TDG_ENOMEM;
    *lines = longer;
    return 0;
}

static int add_all(struct curl_slist **lines, const struct curl_slist *more) {
    int rv = 0;

    for (; more != NULL && rv == 0; more = more->next)
        rv = add_text(lines, more->data);
    return rv;
}

/* Appends a line of two parts, and leaves no copy of it elsewhere. */
static int add_parts(struct curl_slist **lines, const char *name, const char *between,
                     const char *value) {
    size_t room = strlen(name) + strlen(between) + strlen(value) + 1;
    char *line = tdg__malloc(room);
    int rv;

    if (line == NULL)
        return TDG_ENOMEM;
    snprintf(line, room, "%s%s%s", name, between, value);
    rv = add_text(lines, line);
    explicit_bzero(line, room);
    tdg__free(line);
    return rv;
}

static int add_line(struct curl_slist **lines, const char *name, const char *value) {
    return add_parts(lines, name, ": ", value);
}

static int add_secrets(struct curl_slist **lines, const tdg__web_t *web) {
    const char *const *header = web->opts.headers;
    int rv = 0;

    for (; header != NULL && *header != NULL && rv == 0; header++)
        rv = add_text(lines, *header);
    for (size_t i = 0; i < web->opts.secret_count && rv == 0; i++)
        rv = add_line(lines, web->opts.secrets[i].name, web->opts.secrets[i].value);
    if (rv == 0 && web->token != NULL)
        rv = add_parts(lines, "Authorization", ": Bearer ", web->token);
    return rv;
}

static int add_fields(tdg__web_exchange_t *exchange, struct curl_slist **lines,
                      const tdg__web_field_t *fields, size_t count) {
    int rv = 0;

    for (size_t i = 0; i < count && rv == 0; i++) {
        if (!tdg__web_field_is_fine(fields[i].name, fields[i].value)) {
            snprintf(exchange->why, TDG__WEB_WHY, "the header %.100s cannot be sent",
                     fields[i].name);
            return TDG_EINVAL;
        }
        if (fields[i].value[0] != '\0')
            rv = add_line(lines, fields[i].name, fields[i].value);
    }
    return rv;
}

/* What the request says by itself, secrets apart. Without a value, libcurl leaves a field
 * out. */
static int keep_fields(tdg__web_exchange_t *exchange) {
    const tdg__web_request_t *request = &exchange->request;
    const char *type =
        request->content_type != NULL ? request->content_type : "application/json";
    int rv = request->body == NULL ? add_text(&exchange->fields, "Content-Type:")
                                   : add_line(&exchange->fields, "Content-Type", type);

    if (rv == 0 && request->accept != NULL)
        rv = add_line(&exchange->fields, "Accept", request->accept);
    if (rv == 0)
        rv = add_fields(exchange, &exchange->fields, request->fields,
                        request->field_count);
    if (rv == 0)
        rv = add_fields(exchange, &exchange->validators, request->validators,
                        request->validator_count);
    if (rv == 0 && !tdg__copy(request->validated_url, &exchange->validated_url))
        rv = TDG_ENOMEM;
    exchange->expects = request->body != NULL && request->body_len > LARGE_BODY;
    return rv;
}

/* Secrets as long as we are where they belong; validators only where they come from,
 * because elsewhere the same date may mean something else. */
int tdg__web_exchange_aim(tdg__web_exchange_t *exchange) {
    const tdg__web_t *web = exchange->web;
    CURL *easy = exchange->easy;
    bool bare = exchange->bare;
    int rv;

    curl_slist_free_all(exchange->lines);
    exchange->lines = NULL;
    rv = add_text(&exchange->lines,
                  exchange->expects ? "Expect: 100-continue" : "Expect:");
    if (rv == 0)
        rv = add_all(&exchange->lines, exchange->fields);
    if (rv == 0 && !bare)
        rv = add_secrets(&exchange->lines, web);
    if (rv == 0 && exchange->validated_url != NULL &&
        strcmp(exchange->validated_url, exchange->target.url) == 0)
        rv = add_all(&exchange->lines, exchange->validators);
    if (rv < 0)
        return rv;
    curl_easy_setopt(easy, CURLOPT_HTTPHEADER, exchange->lines);
    return curl_easy_setopt(easy, CURLOPT_URL, exchange->target.url) == CURLE_OK &&
                   curl_easy_setopt(easy, CURLOPT_USERNAME,
                                    bare ? NULL : web->home.user) == CURLE_OK &&
                   curl_easy_setopt(easy, CURLOPT_PASSWORD,
                                    bare ? NULL : web->home.password) == CURLE_OK
               ? 0
               : TDG_ENOMEM;
}

/* ---- What goes out ------------------------------------------------------ */

/* libcurl would send a request again by itself where a connection that was kept open
 * breaks before the first byte of the answer. The server may have acted on it already, so
 * that is not for libcurl to decide. */
static int on_request(void *arg, char *ip, char *local_ip, int port, int local_port) {
    tdg__web_exchange_t *exchange = arg;

    (void)ip, (void)local_ip, (void)port, (void)local_port;
    exchange->again = exchange->requested;
    exchange->requested = true;
    return exchange->again ? CURL_PREREQFUNC_ABORT : CURL_PREREQFUNC_OK;
}

static int on_socket(void *arg, curl_socket_t fd, curlsocktype purpose) {
    int probes = KEEPALIVE_PROBES;

    (void)arg;
    (void)purpose;
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof(probes));
    return CURL_SOCKOPT_OK;
}

/* ---- Options ------------------------------------------------------------ */

static int set_texts(tdg__web_exchange_t *exchange) {
    const tdg__web_opts_t *opts = &exchange->web->opts;
    const char *none =
        opts->proxy == NULL && opts->proxy_of_environment ? NULL : ""; /* proxy */
    const struct {
        CURLoption option;
        const char *text; /* NULL: left as it is */
    } texts[] = {
        {CURLOPT_PROTOCOLS_STR, "http,https"},
        {CURLOPT_ACCEPT_ENCODING, opts->compressed ? "" : NULL},
        {CURLOPT_USERAGENT, opts->agent != NULL ? opts->agent : "tidings/" TDG_VERSION},
        {CURLOPT_PROXY, opts->proxy != NULL ? opts->proxy : none},
        {CURLOPT_NOPROXY, none},
        {CURLOPT_CAINFO, opts->ca_file},
        {CURLOPT_ABSTRACT_UNIX_SOCKET, opts->abstract_socket},
        {CURLOPT_CUSTOMREQUEST,
         exchange->request.method == TDG__WEB_DELETE ? "DELETE" : NULL},
    };

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        if (texts[i].text != NULL &&
            curl_easy_setopt(exchange->easy, texts[i].option, texts[i].text) != CURLE_OK)
            return TDG_ENOMEM;
    return 0;
}

static void set_numbers(tdg__web_exchange_t *exchange) {
    const struct {
        CURLoption option;
        long number;
    } numbers[] = {
        {CURLOPT_CONNECTTIMEOUT_MS, (long)exchange->web->opts.connect_timeout_ms},
        {CURLOPT_EXPECT_100_TIMEOUT_MS, EXPECT_MS},
        {CURLOPT_FOLLOWLOCATION, 0},
        {CURLOPT_FORBID_REUSE, exchange->request.last},
        {CURLOPT_HEADEROPT, CURLHEADER_SEPARATE}, /* a proxy gets none of our headers */
        {CURLOPT_HTTP_VERSION, CURL_HTTP_VERSION_2TLS},
        {CURLOPT_NOSIGNAL, 1},
        {CURLOPT_QUICK_EXIT, 1}, /* does not wait for a name server that hangs */
        {CURLOPT_SSL_VERIFYPEER, 1},
        {CURLOPT_SSL_VERIFYHOST, 2},
        {CURLOPT_SUPPRESS_CONNECT_HEADERS, 1},
        {CURLOPT_TCP_KEEPALIVE, 1},
        {CURLOPT_TCP_KEEPIDLE, KEEPALIVE_IDLE_S},
        {CURLOPT_TCP_KEEPINTVL, KEEPALIVE_EVERY_S},
        {CURLOPT_TCP_NODELAY, 1},
    };

    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
        curl_easy_setopt(exchange->easy, numbers[i].option, numbers[i].number);
}

/* libcurl compares whole seconds; so that none is taken that is too old, one less. */
static void set_age(tdg__web_exchange_t *exchange) {
    const tdg__web_t *web = exchange->web;
    uint64_t age_s = (uv_now(web->loop) - web->trusted_since_ms) / 1000;

    if (!web->distrusts)
        return;
    if (age_s < 2)
        curl_easy_setopt(exchange->easy, CURLOPT_FRESH_CONNECT, 1L);
    else
        curl_easy_setopt(exchange->easy, CURLOPT_MAXLIFETIME_CONN, (long)(age_s - 1));
}

static int set_body(tdg__web_exchange_t *exchange) {
    const tdg__web_request_t *request = &exchange->request;
    const char *body = request->body != NULL ? request->body : "";
    size_t len = request->body != NULL ? request->body_len : 0;
    CURL *easy = exchange->easy;

    curl_easy_setopt(easy, CURLOPT_SOCKOPTFUNCTION, on_socket);
    if (request->method != TDG__WEB_POST)
        return 0;
    /* Given as a whole, a body goes out with the head. Where the server answers at the
     * head and closes, there is nothing left to send that could fail before that is read.
     */
    curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)len);
    curl_easy_setopt(easy, CURLOPT_PREREQFUNCTION, on_request);
    curl_easy_setopt(easy, CURLOPT_PREREQDATA, exchange);
    return curl_easy_setopt(easy, CURLOPT_COPYPOSTFIELDS, body) == CURLE_OK ? 0
                                                                            : TDG_ENOMEM;
}

int tdg__web_exchange_prepare(tdg__web_exchange_t *exchange) {
    int rv = set_target(exchange);

    if (rv == 0)
        rv = check_secrets(exchange);
    if (rv == 0)
        rv = keep_fields(exchange);
    if (rv == 0)
        rv = set_texts(exchange);
    if (rv < 0)
        return rv;
    set_numbers(exchange);
    set_age(exchange);
    return set_body(exchange);
}

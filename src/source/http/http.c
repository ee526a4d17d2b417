/* SPDX-License-Identifier: MIT
 *
 * Polls a URL. While a URI is watched, a timer requests it at an interval, and the last
 * content is kept together with its validators (ETag, Last-Modified), so that the server
 * can answer "not modified". Reads send a request as well. Nothing is requested, kept or
 * held open for a URI that is not watched.
 *
 * The first subscription causes a request at once, then after a random part of the
 * interval, then every interval, ± 10 %: many resources are not requested at the same
 * moment. While the server is unreachable the common part retries, with growing waits;
 * after a Retry-After, nothing is requested before that time. */
#include "source/http/http_source.h"

#include <string.h>

#include "base/alloc.h"
#include "base/json_pointer.h"
#include "source/http/http_url.h"
#include "web/web_header.h"

/* ---- Options ------------------------------------------------------------ */

static const char *const follows[] = {"no", "same-host", "any", NULL};

#define AT(field) offsetof(struct http, field)

static const tdg__option_t options[] = {
    TDG__OPTION(STRING, url, "http", .flags = TDG__OPTION_REQUIRED | TDG__OPTION_SECRET,
                .example = "https://status.example/api/v1/health",
                .help = "The URL to poll, http or https. {name} is a variable of the "
                        "`uri` template, only after the host."),
    TDG__OPTION(DURATION, every_ms, "every", .fallback = "1m", .min = 100,
                .max = TDG__HTTP_DAY_MS, .example = "30s",
                .help = "How often to poll while somebody is subscribed; it varies by "
                        "10 %."),
    TDG__OPTION(MAP, headers, "headers", .flags = TDG__OPTION_SECRET,
                .example = "{Accept: application/json}",
                .help = "Headers to send, such as Authorization. They are sent to the "
                        "host of the URL only."),
    TDG__OPTION(STRING, pointer, "pointer", .flags = TDG__OPTION_RAW,
                .example = "/components/0",
                .help = "A JSON Pointer (RFC 6901): only this part of the response is "
                        "the content."),
    TDG__OPTION(CHOICE, follow, "follow-redirects", .fallback = "same-host",
                .choices = follows, .example = "any",
                .help = "Where redirects may lead. At most 5, and never from https to "
                        "http."),
    TDG__OPTION(PATH, ca_file, "ca-file", .example = "company-ca.pem",
                .help = "Certificates to trust, in PEM, instead of the system's."),
    TDG__OPTION(STRING, proxy, "proxy", .flags = TDG__OPTION_SECRET,
                .example = "http://proxy.example:3128",
                .help = "The HTTP proxy for requests. Proxy variables of the "
                        "environment are ignored."),
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
        tdg__node_option_problem(problems, node, "http", error.text);
    return rv;
}

/* What a request says by itself. */
static const char *const own_headers[] = {
    "If-Match", "If-Modified-Since", "If-None-Match", "If-Range", "Range", NULL};

static int check_headers(struct http *http, const tdg__node_t *node,
                         tdg__problems_t *problems) {
    const tdg__node_t *map = tdg__node_get(node, "headers");
    const char *name, *why;
    json_t *value;
    int rv = 0;

    json_object_foreach(http->headers, name, value) {
        why = tdg__web_wrong_header(name, strlen(name), json_string_value(value),
                                    own_headers);
        if (why != NULL) {
            tdg__node_key_problem(problems, tdg__node_get(map, name), "the header %s",
                                  why);
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
    if (http->pointer != NULL && tdg__json_pointer_check(http->pointer, &error) < 0)
        rv = tdg__node_option_problem(problems, node, "pointer", error.text);
    if (http->proxy != NULL && !is_proxy(http->proxy))
        rv = tdg__node_option_problem(problems, node, "proxy",
                                      "a proxy begins with http://, https://, socks5:// "
                                      "or socks5h://");
    return rv;
}

/* ---- Watching ----------------------------------------------------------- */

static int watch(tdg__source_t *source, const tdg_target_t *target) {
    struct http *http = (struct http *)source;

    /* Nobody could say which URLs there are to poll. */
    if (target->kind == TDG_TARGET_TEMPLATE)
        return TDG_ENOTSUP;
    return tdg__records_add(&http->polls, target->name) != NULL ? 0 : TDG_ENOMEM;
}

static void unwatch(tdg__source_t *source, const tdg_target_t *target) {
    struct http *http = (struct http *)source;
    struct poll *poll = tdg__records_find(&http->polls, target->name);

    tdg__http_forget(http, poll);
    tdg__records_remove(&http->polls, &poll->record);
    tdg__http_rest(http);
}

/* ---- Life --------------------------------------------------------------- */

/* The engine of the requests. What is secret goes to the host of the URL only. */
static int open_web(struct http *http) {
    tdg__web_opts_t opts = {
        .ca_file = http->ca_file,
        .proxy = http->proxy,
        .insecure_token = true, /* as the config has it: the operator's choice */
        .compressed = true,
    };
    const char *name;
    json_t *value;

    http->secrets =
        tdg__calloc(json_object_size(http->headers) + 1, sizeof(*opts.secrets));
    if (http->secrets == NULL)
        return TDG_ENOMEM;
    json_object_foreach(http->headers, name, value) {
        http->secrets[opts.secret_count++] =
            (tdg__web_field_t){name, json_string_value(value)};
    }
    opts.secrets = http->secrets;
    return tdg__web_create(http->source.host.loop, &opts, &http->web);
}

static int open_(tdg__source_t *source) {
    struct http *http = (struct http *)source;

    int rv = tdg__source_open_records(source, &http->polls, sizeof(struct poll),
                                      tdg__http_poll_due);
    if (rv == 0)
        rv = open_web(http);
    if (rv == 0)
        tdg__source_hold(source);
    else
        tdg__source_log(source, TDG_LOG_ERROR, "%s", tdg_strerror(rv));
    return rv;
}

static void on_web_closed(void *source) {
    tdg__source_let_go(source);
}

static void close_(tdg__source_t *source) {
    struct http *http = (struct http *)source;

    tdg__source_close_handle((uv_handle_t *)&http->polls.timer);
    if (http->web != NULL)
        tdg__web_close(http->web, on_web_closed, http);
}

static void free_(tdg__source_t *source) {
    struct http *http = (struct http *)source;

    struct poll *poll;

    for (uint32_t at = 0; (poll = tdg__records_next(&http->polls, &at)) != NULL;)
        tdg__http_forget(http, poll);
    tdg__records_done(&http->polls);
    tdg__free(http->secrets);
}

const tdg__source_kind_t tdg__source_http = {
    .name = "http",
    .help = "Polls a URL, with ETag and Last-Modified if the server sends them.",
    .options = options,
    .uri_example = "shop://health",
    .size = sizeof(struct http),
    .check = check,
    .open = open_,
    .close = close_,
    .watch = watch,
    .unwatch = unwatch,
    .fetch = tdg__http_fetch,
    .cancel = tdg__http_cancel,
    .free = free_,
};

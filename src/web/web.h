/* SPDX-License-Identifier: MIT
 *
 * HTTP exchanges with one server, on a loop: libcurl's multi interface (curl_loop.h).
 * POST, GET and DELETE; http and https only, HTTP/1.1 and, if TLS negotiates it, HTTP/2;
 * certificates are always verified; the environment is used only if requested. Responses
 * arrive in pieces.
 *
 * Redirects are followed here and not by libcurl, up to five, depending on the exchange
 * (tdg__web_follow_t). One that is not followed is a response like any other. The headers
 * of tdg__web_opts_t, the token and the password of a URL are secrets: once an exchange
 * has left the scheme, host and port that they were given for, they are no longer sent,
 * even if a further redirect leads back.
 *
 * All exchanges begin at the origin of the first one: the same scheme, host and port, or
 * https of the same host. Any other URL is TDG_EREFUSED, because a server that names one
 * (2024-11-05) must not receive credentials meant for another. A user name in the first
 * URL is sent as Basic authorization, and never shown; one in the target of a redirect is
 * ignored.
 *
 * Every exchange has limits: of time for connecting, for the response headers, for
 * silence and in total; and of bytes. TCP keep-alive is on, so a vanished peer is
 * detected. */
#ifndef TDG_WEB_WEB_H
#define TDG_WEB_WEB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <uv.h>

typedef struct tdg__web tdg__web_t;
typedef struct tdg__web_exchange tdg__web_exchange_t;

enum {
    TDG__WEB_MAX_HEADERS = 256 * 1024, /* bytes of an answer's header block */
    TDG__WEB_MAX_FIELD = 1024,         /* of a header that we look at; longer: ignored */
    TDG__WEB_MAX_SESSION = 1024,
};

typedef struct tdg__web_field {
    const char *name, *value;
} tdg__web_field_t;

/* The texts are borrowed until it is closed. */
typedef struct tdg__web_opts {
    const char *const *headers;      /* "Name: value", ends with NULL; may be NULL */
    const tdg__web_field_t *secrets; /* more of them */
    size_t secret_count;
    const char *token_file, *ca_file, *proxy; /* may be NULL */
    bool proxy_of_environment;   /* where `proxy` is NULL: http_proxy and such count */
    bool insecure_token;         /* credentials may go over http: to other machines */
    bool compressed;             /* answers may be compressed on their way */
    const char *agent;           /* User-Agent; NULL: tidings and its version */
    uint32_t connect_timeout_ms; /* 0: libcurl's */
    const char *abstract_socket; /* tests: a Unix socket, in the place of the host; NULL:
                                    none */
} tdg__web_opts_t;

typedef enum tdg__web_method {
    TDG__WEB_POST,
    TDG__WEB_GET,
    TDG__WEB_DELETE
} tdg__web_method_t;

/* Which redirects are followed. */
typedef enum tdg__web_follow {
    TDG__WEB_FOLLOW_NEAR, /* 307 and 308, to the same scheme, host and port, or from http
                             to https of the same host. After 308, later exchanges go
                             there at once, until that fails */
    TDG__WEB_FOLLOW_NONE,
    TDG__WEB_FOLLOW_HOST, /* all, to the same scheme, host and port, or from http to https
                             of the same host at their usual ports */
    TDG__WEB_FOLLOW_ANY,  /* all; never from https to http */
} tdg__web_follow_t;

/* Everything is copied. */
typedef struct tdg__web_request {
    tdg__web_method_t method;
    const char *url;
    const char *accept;             /* NULL: libcurl's */
    const tdg__web_field_t *fields; /* of the protocol: Mcp-..., Last-Event-ID; empty ones
                                       are not sent */
    size_t field_count;
    const tdg__web_field_t *validators; /* If-None-Match and such, which mean something */
    size_t validator_count;             /* at this URL only; NULL: there are none */
    const char *validated_url;
    const char *body; /* JSON; NULL: none */
    size_t body_len;
    const char *content_type; /* of the body; NULL: application/json */
    uint32_t head_timeout_ms; /* until the answer's head; 0: never */
    uint32_t
        quiet_timeout_ms; /* between two pieces of the body; 0: never. May be changed */
    uint32_t total_timeout_ms; /* 0: never */
    tdg__web_follow_t follow;
    size_t max_bytes;  /* of the body, decoded; more ends it with TDG_ETOOLARGE; 0: any */
    bool only_success; /* of other statuses than 2xx no body is handed over */
    bool last;         /* the connection is not kept for the next */

    /* Gets every line of a head as it came, status lines and those of redirects too; for
     * who examines servers. Comes from inside of libcurl: only to be kept. May be NULL.
     */
    void (*line)(void *user, const char *line, size_t len);
} tdg__web_request_t;

/* Why an answer that is a redirect was not followed, though it might have been. */
typedef enum tdg__web_unfollowed {
    TDG__WEB_NO_REDIRECT,
    TDG__WEB_TOO_OFTEN,
    TDG__WEB_ELSEWHERE, /* another host or port */
    TDG__WEB_NEVER,     /* from https to http, or what is no http URL */
} tdg__web_unfollowed_t;

/* Borrowed for the call. */
typedef struct tdg__web_head {
    int status;
    tdg__web_unfollowed_t unfollowed;
    const char *content_type; /* lower case, without parameters; "" where not said */
    const char *full_type, *etag, *last_modified; /* as they came; NULL: not said */
    int64_t date_ms;                              /* the server's clock; -1: not said */
    const char *session;    /* Mcp-Session-Id; NULL: none, or not visible ASCII */
    int64_t retry_after_ms; /* -1: not said */
    const char *url;        /* that answered, after redirects */
    unsigned hops;          /* redirects that were followed */
    int64_t resolved_us, connected_us, secured_us; /* of the last hop, since it began: the
                                                      name, TCP, TLS; 0: not needed */
} tdg__web_head_t;

typedef struct tdg__web_end {
    int code;          /* 0: the answer is complete. TDG_ETIMEDOUT, TDG_EUNREACHABLE,
                          TDG_EINVAL (a URL or header that cannot be sent), TDG_EREFUSED
                          (credentials would be sent unencrypted; TLS could not be
                          verified), TDG_ETOOLARGE, TDG_ENOMEM */
    const char *error; /* one line where code is not 0: what happened, and where */
    bool sent;         /* the request may have reached the server */
} tdg__web_end_t;

typedef struct tdg__web_exchange_calls {
    void (*head)(void *user, const tdg__web_head_t *head);  /* once, of the last answer;
                                                              may be NULL */
    void (*data)(void *user, const char *data, size_t len); /* may be NULL */
    void (*done)(void *user, const tdg__web_end_t *end); /* last; the exchange is gone */
} tdg__web_exchange_calls_t;

/* A date of HTTP in milliseconds; -1: it is none, or NULL. */
int64_t tdg__web_date_ms(const char *text);

/* Returns 0, TDG_ENOMEM or TDG_ESYSTEM. */
int tdg__web_create(uv_loop_t *loop, const tdg__web_opts_t *opts, tdg__web_t **ret);

/* Cancels what runs (without calls), then calls closed(arg) from the loop. */
void tdg__web_close(tdg__web_t *web, void (*closed)(void *arg), void *arg);

/* Begins. Calls come from the loop, never from inside. Returns 0, TDG_ENOMEM or
 * TDG_EINVAL. */
int tdg__web_exchange_begin(tdg__web_t *web, const tdg__web_request_t *request,
                            const tdg__web_exchange_calls_t *calls, void *user,
                            tdg__web_exchange_t **ret);

/* Ends it now, closing its connection where the answer is not complete; no call comes any
 * more. May be called from its calls. */
void tdg__web_exchange_cancel(tdg__web_exchange_t *exchange);

/* From now on; the time since the last piece counts. */
void tdg__web_exchange_set_quiet(tdg__web_exchange_t *exchange,
                                 uint32_t quiet_timeout_ms);

/* Connections that are open now may be dead: exchanges from now on use none of them. */
void tdg__web_distrust(tdg__web_t *web);

/* Closes the connections that were kept open, as soon as nothing is under way. */
void tdg__web_rest(tdg__web_t *web);

/* Reads the token file anew before the next exchange. Returns whether there is one. */
bool tdg__web_renew_token(tdg__web_t *web);

#endif

/* SPDX-License-Identifier: MIT
 *
 * What web.c (the life of exchanges) and web_request.c (what they send) share. */
#ifndef TDG_WEB_EXCHANGE_H
#define TDG_WEB_EXCHANGE_H

#include "base/text.h"
#include "web/curl_loop.h"
#include "web/web.h"
#include "web/web_answer.h"
#include "web/web_url.h"

enum {
    TDG__WEB_MOVED = 4, /* targets that are remembered as moved */
    TDG__WEB_WHY = 512, /* bytes of a line for people */
};

struct tdg__web_move {
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
    bool distrusts;            /* connections that are older than ... */
    uint64_t trusted_since_ms; /* ... this */

    tdg__web_url_t home; /* where everything goes: that of the first exchange */
    struct tdg__web_move moved[TDG__WEB_MOVED];
    size_t moved_next;

    tdg__web_exchange_t *exchanges;          /* that have not ended */
    tdg__web_exchange_t *ready, **ready_end; /* of these, those with something new */
    size_t memories;                         /* exchanges whose memory is not free yet */
    bool closing;
    void (*closed)(void *arg);
    void *arg;
};

struct tdg__web_exchange {
    tdg__curl_job_t job; /* first */
    tdg__web_t *web;
    tdg__web_exchange_t *next, **at;
    tdg__web_exchange_t *ready_next, **ready_at; /* ready_at NULL: is not ready */
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
    size_t body_len;
    bool requested; /* on this hop */
    bool again;     /* libcurl would repeat it */
    bool expects;   /* "100 Continue", before the body is sent */
    bool unmet;     /* the server does not know that: 417 */

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
    char why[TDG__WEB_WHY];
    bool delivering; /* inside of its calls */
    bool gone;       /* no more calls */

    tdg__web_exchange_calls_t calls;
    void (*line)(void *user, const char *line, size_t len); /* may be NULL */
    void *user;
};

/* Makes an exchange ready for its first hop: target, credentials, headers, options.
 * Returns 0, TDG_ENOMEM, or with exchange->why TDG_EINVAL or TDG_EREFUSED. */
int tdg__web_exchange_prepare(tdg__web_exchange_t *exchange,
                              const tdg__web_request_t *request);

/* The next hop does not expect "100 Continue". */
void tdg__web_exchange_expect_nothing(tdg__web_exchange_t *exchange);

/* Its first URL is from now on asked at where it is now; or no longer. */
void tdg__web_remember_move(tdg__web_exchange_t *exchange);
void tdg__web_forget_move(tdg__web_t *web, const char *from);

#endif

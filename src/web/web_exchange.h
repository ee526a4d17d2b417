/* SPDX-License-Identifier: MIT
 *
 * What web.c (the life of exchanges) and web_request.c (what they send) share. */
#ifndef TDG_WEB_EXCHANGE_H
#define TDG_WEB_EXCHANGE_H

#include "base/queue.h"
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
    tdg__web_opts_t opts;
    char *token;               /* as the file had it last; NULL: to be read */
    bool distrusts;            /* connections that are older than ... */
    uint64_t trusted_since_ms; /* ... this */

    tdg__web_url_t home; /* where everything goes: that of the first exchange */
    struct tdg__web_move moved[TDG__WEB_MOVED];
    size_t moved_next;

    tdg__queue_t all;   /* exchanges that have not ended */
    tdg__queue_t ready; /* of these, those with something new */
    size_t memories;    /* exchanges whose memory is not free yet */
    bool closing;
    void (*closed)(void *arg);
    void *arg;
};

struct tdg__web_exchange {
    tdg__web_t *web;
    tdg__web_request_t request; /* its texts only while it is being prepared */
    tdg__queue_t in_all, in_ready;
    uv_timer_t timer;
    CURL *easy;
    bool added;

    char *first_url; /* as wished */
    tdg__web_url_t target;
    tdg__web_url_t redirect; /* where to go next; its url NULL: nowhere */
    unsigned hops;
    bool for_good; /* all redirects so far were 308 */
    bool bare;     /* it has left the place of the secrets */
    struct curl_slist *fields, *validators, *lines; /* lines: of this hop */
    char *validated_url;
    bool requested; /* on this hop */
    bool again;     /* libcurl would repeat it */
    bool expects;   /* "100 Continue", before the body is sent */
    bool unmet;     /* the server does not know that: 417 */

    tdg__web_facts_t facts;
    tdg__web_unfollowed_t unfollowed;
    tdg__text_t incoming;
    size_t header_bytes, body_bytes, unwanted;
    bool answered; /* the head is there of what is not a redirect that we follow */
    bool head_new; /* it is to be handed over */
    bool enough;   /* of a body that nobody wants */
    bool odd;      /* a body without a head */
    int failed;    /* in a call of libcurl's: TDG_ENOMEM, TDG_ETOOLARGE */
    char said[CURL_ERROR_SIZE];

    uint64_t begun_ms, last_ms; /* last_ms: when something came */
    uint64_t late_ms;           /* the end of the limit that was over at the last look */

    int code; /* it cannot begin: why */
    char why[TDG__WEB_WHY];
    bool delivering; /* inside of its calls */
    bool gone;       /* no more calls */

    tdg__web_exchange_calls_t calls;
    void *user;
};

/* Makes an exchange ready for its first hop: target, credentials, headers, options.
 * Returns 0, TDG_ENOMEM, or with exchange->why TDG_EINVAL or TDG_EREFUSED. */
int tdg__web_exchange_prepare(tdg__web_exchange_t *exchange);

/* What goes out with the next hop: where to, and with which headers. Returns 0 or
 * TDG_ENOMEM. */
int tdg__web_exchange_aim(tdg__web_exchange_t *exchange);

/* Its first URL is from now on asked at where it is now; or no longer. */
void tdg__web_remember_move(tdg__web_exchange_t *exchange);
void tdg__web_forget_move(tdg__web_t *web, const char *from);

#endif

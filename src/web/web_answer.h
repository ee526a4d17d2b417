/* SPDX-License-Identifier: MIT
 *
 * A response, or a failure.
 *
 * The head of an HTTP answer, line by line, as libcurl hands it over: what we need of it
 * as facts. A field that is longer than TDG__WEB_MAX_FIELD is as if it were not there;
 * of one that comes twice, the first counts. Interim answers (1xx) are passed over. */
#ifndef TDG_WEB_ANSWER_H
#define TDG_WEB_ANSWER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <curl/curl.h>

#include "base/text.h"
#include "web/web_url.h"

typedef struct tdg__web_facts {
    int status;
    bool complete; /* the empty line has come; what follows are trailers, ignored */
    bool no_memory;
    tdg__text_t content_type; /* lower case, without parameters */
    tdg__text_t full_type, etag, last_modified, session, location;
    int64_t retry_after_ms; /* -1: not said */
    int64_t retry_date_ms, date_ms;
} tdg__web_facts_t;

void tdg__web_facts_init(tdg__web_facts_t *facts);
void tdg__web_facts_done(tdg__web_facts_t *facts);
void tdg__web_facts_clear(tdg__web_facts_t *facts); /* for another answer */

/* One line with its end; `now_ms` is the time of day, for an answer that says until when
 * to wait and not what time it is. */
void tdg__web_facts_line(tdg__web_facts_t *facts, const char *line, size_t len,
                         int64_t now_ms);

/* ---- Failures ----------------------------------------------------------- */

/* What libcurl's codes mean to us: a code of ours, and a line for people that says what
 * happened and where, without secrets. */
typedef struct tdg__web_trouble {
    CURLcode code;
    const char *said; /* libcurl's own words; "" where there are none */
    long system;      /* errno of the connection; 0: none */
    const tdg__web_url_t *url;
    const char *ca_file; /* may be NULL */
    bool by_proxy;
} tdg__web_trouble_t;

/* Returns the code. */
int tdg__web_explain(const tdg__web_trouble_t *trouble, char *why, size_t why_size);

#endif

/* SPDX-License-Identifier: MIT
 *
 * What libcurl's codes mean to us: a code of ours, and a line for people that says what
 * happened and where, without secrets. */
#ifndef TDG_CLIENT_WEB_ERROR_H
#define TDG_CLIENT_WEB_ERROR_H

#include <stdbool.h>
#include <stddef.h>

#include <curl/curl.h>

#include "client/web_url.h"

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

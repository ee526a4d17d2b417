/* SPDX-License-Identifier: MIT
 *
 * The URLs of requests: parsed once, by libcurl's own parser, so that the checked URL is
 * the used one. Secrets in them are removed at once. */
#ifndef TDG_WEB_URL_H
#define TDG_WEB_URL_H

#include <stdbool.h>
#include <stdint.h>

enum { TDG__WEB_MAX_URL = 8192 };

typedef struct tdg__web_url {
    char *url;             /* without user, password and fragment */
    char *host;            /* an IPv6 address has its brackets */
    char *user, *password; /* decoded; NULL: none */
    uint16_t port;
    bool secure; /* https */
} tdg__web_url_t;

/* `base`: what a relative one starts from, which may hold blanks, as a redirect may;
 * NULL: it has to be complete. On failure *ret is empty and *ret_why says what is wrong,
 * without the URL. Returns 0, TDG_EINVAL or TDG_ENOMEM. */
int tdg__web_url_read(const char *text, const char *base, tdg__web_url_t *ret,
                      const char **ret_why);
void tdg__web_url_done(tdg__web_url_t *url); /* of an empty one, too */

/* How far it is from one to the other, the nearest first. */
typedef enum tdg__web_hop {
    TDG__WEB_HOP_SAME,    /* the same scheme, host and port; or from http to https there,
                             both at their usual ports */
    TDG__WEB_HOP_SECURED, /* from http to https of the same host */
    TDG__WEB_HOP_OTHER,   /* another host or port */
    TDG__WEB_HOP_EXPOSED, /* from https to http */
} tdg__web_hop_t;

tdg__web_hop_t tdg__web_url_hop(const tdg__web_url_t *from, const tdg__web_url_t *to);

/* Whether it is one of the first two. */
bool tdg__web_url_near(const tdg__web_url_t *from, const tdg__web_url_t *to);

/* A new text: the URL (http://... or https://...), with this path where it has none.
 * NULL: no memory. */
char *tdg__web_url_complete(const char *url, const char *path);

/* Whether the host is this machine: localhost, 127.0.0.0/8, ::1. */
bool tdg__web_url_is_here(const tdg__web_url_t *url);

#endif

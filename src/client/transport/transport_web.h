/* SPDX-License-Identifier: MIT
 *
 * What the two transports over HTTP have in common: a URL, and where exchanges are
 * made. */
#ifndef TDG_CLIENT_TRANSPORT_WEB_H
#define TDG_CLIENT_TRANSPORT_WEB_H

#include "client/transport/transport_base.h"

typedef struct tdg__transport_web {
    tdg__transport_base_t base; /* first */
    tdg__web_t *web;
    char *url;
} tdg__transport_web_t;

/* A new transport. Returns 0, TDG_EINVAL (no URL), TDG_ENOMEM or TDG_ESYSTEM. */
int tdg__transport_web_create(const tdg__transport_base_kind_t *kind, uv_loop_t *loop,
                              const char *url, const tdg__web_opts_t *opts,
                              const tdg__transport_calls_t *calls, void *user,
                              size_t max_message_bytes, tdg__transport_web_t **ret);
void tdg__transport_web_done(tdg__transport_base_t *base);

/* For the table. */
void tdg__transport_web_distrust(tdg__transport_t *transport);
bool tdg__transport_web_renew(tdg__transport_t *transport);
void tdg__transport_web_close(tdg__transport_t *transport, void (*closed)(void *arg),
                              void *arg);

/* What an exchange that has failed means to its delivery. */
tdg__delivery_end_t tdg__transport_web_end(const tdg__delivery_t *delivery, int code);

#endif

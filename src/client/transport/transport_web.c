/* SPDX-License-Identifier: MIT */
#include "client/transport/transport_web.h"

#include <tidings/error.h>

#include "base/alloc.h"

int tdg__transport_web_create(const tdg__transport_base_kind_t *kind, uv_loop_t *loop,
                              const char *url, const tdg__web_opts_t *opts,
                              const tdg__transport_calls_t *calls, void *user,
                              size_t max_message_bytes, tdg__transport_web_t **ret) {
    tdg__transport_web_t *transport;
    char *copy;
    int rv;

    if (url == NULL)
        return TDG_EINVAL;
    copy = tdg__strdup(url);
    if (copy == NULL)
        return TDG_ENOMEM;
    transport = (tdg__transport_web_t *)tdg__transport_base_create(
        kind, loop, calls, user, max_message_bytes);
    if (transport == NULL) {
        tdg__free(copy);
        return TDG_ENOMEM;
    }
    transport->url = copy;
    rv = tdg__web_create(loop, opts, &transport->web);
    if (rv < 0) {
        tdg__transport_base_done(&transport->base); /* frees it */
        return rv;
    }
    *ret = transport;
    return 0;
}

void tdg__transport_web_done(tdg__transport_base_t *base) {
    tdg__free(((tdg__transport_web_t *)base)->url);
}

void tdg__transport_web_distrust(tdg__transport_t *transport) {
    tdg__web_distrust(((tdg__transport_web_t *)transport)->web);
}

bool tdg__transport_web_renew(tdg__transport_t *transport) {
    return tdg__web_renew_token(((tdg__transport_web_t *)transport)->web);
}

static void on_web_closed(void *arg) {
    tdg__transport_web_t *transport = arg;

    tdg__transport_base_done(&transport->base);
}

void tdg__transport_web_close(tdg__transport_t *transport, void (*closed)(void *arg),
                              void *arg) {
    tdg__transport_web_t *web = (tdg__transport_web_t *)transport;

    tdg__transport_base_silence(&web->base, closed, arg);
    tdg__web_close(web->web, on_web_closed, web);
}

tdg__delivery_end_t tdg__transport_web_end(const tdg__delivery_t *delivery, int code) {
    switch (code) {
    case TDG_ETIMEDOUT:
        return TDG__DELIVERY_TIMEOUT;
    case TDG_EINVAL:
    case TDG_EREFUSED:
        return TDG__DELIVERY_REFUSED;
    case TDG_ENOMEM:
        return TDG__DELIVERY_NO_MEMORY;
    default:
        return delivery->sent ? TDG__DELIVERY_BROKEN : TDG__DELIVERY_AWAY;
    }
}

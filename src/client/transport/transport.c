/* SPDX-License-Identifier: MIT */
#include "client/transport/transport_base.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <tidings/error.h>

#include "base/alloc.h"
#include "base/json.h"

enum { ALARM_SOON, ALARM_DELIVERY };

uint64_t tdg__transport_base_now(void) {
    return uv_hrtime() / 1000000;
}

void tdg__transport_base_warn(const tdg__transport_base_t *base, const char *format,
                              ...) {
    char line[400];
    va_list args;

    if (base->closing)
        return;
    va_start(args, format);
    vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    base->base.calls->warn(base->base.user, line);
}

/* ---- Deliveries --------------------------------------------------------- */

int tdg__delivery_create(tdg__transport_base_t *base, const tdg__outgoing_t *out,
                         const tdg__delivery_calls_t *calls, void *user,
                         tdg__delivery_t **ret) {
    const char *id = out->id != NULL ? out->id : "";
    tdg__delivery_t *delivery = tdg__calloc(1, base->kind->delivery_size);

    assert(strlen(id) <= TDG__RPC_MAX_ID);
    if (delivery == NULL)
        return TDG_ENOMEM;
    if (tdg__heap_add(&base->alarms, &delivery->alarm, ALARM_DELIVERY) < 0) {
        tdg__free(delivery);
        return TDG_ENOMEM;
    }
    delivery->base = base;
    delivery->calls = *calls;
    delivery->user = user;
    delivery->report.retry_after_ms = -1;
    strcpy(delivery->id, id);
    tdg__queue_append(&base->deliveries, &delivery->in_deliveries);
    *ret = delivery;
    return 0;
}

static void unlink_delivery(tdg__delivery_t *delivery) {
    tdg__transport_base_t *base = delivery->base;

    tdg__queue_remove(&delivery->in_deliveries);
    tdg__heap_remove(&base->alarms, &delivery->alarm);
    delivery->gone = true;
    if (delivery->exchange != NULL) /* a connection that is still busy is closed */
        tdg__web_exchange_cancel(delivery->exchange);
    delivery->exchange = NULL;
}

static void free_delivery(tdg__delivery_t *delivery) {
    if (delivery->busy > 0)
        return; /* tdg__delivery_leave() comes back here */
    if (delivery->base->kind->release != NULL)
        delivery->base->kind->release(delivery);
    tdg__free(delivery);
}

void tdg__delivery_enter(tdg__delivery_t *delivery) {
    delivery->busy++;
}

bool tdg__delivery_leave(tdg__delivery_t *delivery) {
    bool gone = delivery->gone;

    delivery->busy--;
    if (gone)
        free_delivery(delivery);
    return !gone;
}

void tdg__delivery_drop(tdg__delivery_t *delivery) {
    unlink_delivery(delivery);
    free_delivery(delivery);
}

void tdg__delivery_end(tdg__delivery_t *delivery, tdg__delivery_end_t end,
                       const char *why) {
    delivery->report.end = end;
    delivery->report.error = why;
    unlink_delivery(delivery);
    delivery->calls.ended(delivery->user, &delivery->report);
    free_delivery(delivery);
}

/* NULL: there is none. */
static tdg__delivery_t *first_of(const tdg__transport_base_t *base) {
    return tdg__queue_is_empty(&base->deliveries)
               ? NULL
               : TDG__RECORD(tdg__delivery_t, in_deliveries, base->deliveries.next);
}

void tdg__transport_base_break(tdg__transport_base_t *base, const char *why) {
    tdg__delivery_t *first;
    size_t count = 0;

    /* Those that are sent from inside of a call end by themselves. */
    for (const tdg__queue_t *at = base->deliveries.next; at != &base->deliveries;
         at = at->next)
        count++;
    while (count-- > 0 && (first = first_of(base)) != NULL)
        tdg__delivery_end(first, TDG__DELIVERY_BROKEN, why);
}

/* ---- Turns of the loop -------------------------------------------------- */

static void on_timer(uv_timer_t *timer);

static void set_timer(tdg__transport_base_t *base) {
    int64_t at = tdg__heap_next(&base->alarms), now = (int64_t)tdg__transport_base_now();

    if (at == INT64_MAX) {
        uv_timer_stop(&base->timer);
        return;
    }
    uv_update_time(base->timer.loop);
    uv_timer_start(&base->timer, on_timer, at > now ? (uint64_t)(at - now) : 0, 0);
}

static void arm(tdg__transport_base_t *base, tdg__timer_t *alarm, uint64_t at) {
    tdg__heap_arm(&base->alarms, alarm, (int64_t)at);
    set_timer(base);
}

void tdg__delivery_alarm(tdg__delivery_t *delivery, uint64_t at_ms) {
    arm(delivery->base, &delivery->alarm, at_ms);
}

void tdg__transport_base_soon(tdg__transport_base_t *base) {
    arm(base, &base->soon, tdg__transport_base_now());
}

void tdg__delivery_sent(tdg__delivery_t *delivery, tdg__delivery_end_t fate,
                        const char *why) {
    delivery->report.sent = fate == TDG__DELIVERY_DONE;
    delivery->report.end = fate;
    delivery->report.error = why;
    arm(delivery->base, &delivery->alarm, tdg__transport_base_now());
}

bool tdg__delivery_message(tdg__delivery_t *delivery, tdg__rpc_message_t *message) {
    tdg__delivery_enter(delivery);
    delivery->calls.message(delivery->user, message);
    return tdg__delivery_leave(delivery);
}

bool tdg__delivery_opened(tdg__delivery_t *delivery, int status) {
    if (delivery->told_opened || delivery->calls.opened == NULL)
        return true;
    delivery->told_opened = true;
    tdg__delivery_enter(delivery);
    delivery->calls.opened(delivery->user, status);
    return tdg__delivery_leave(delivery);
}

/* Of a delivery on a channel: it was written. */
static void delivery_turn(tdg__delivery_t *delivery) {
    if (delivery->report.end != TDG__DELIVERY_DONE) {
        tdg__delivery_end(delivery, delivery->report.end, delivery->report.error);
    } else if (tdg__delivery_opened(delivery, 0) && delivery->id[0] == '\0') {
        tdg__delivery_end(delivery, TDG__DELIVERY_DONE, "");
    }
}

static void on_timer(uv_timer_t *timer) {
    tdg__transport_base_t *base = timer->data;
    int64_t now = (int64_t)tdg__transport_base_now();
    tdg__timer_t *alarm;

    while (!base->closing && (alarm = tdg__heap_pop(&base->alarms, now)) != NULL) {
        void *delivery = (char *)alarm - offsetof(tdg__delivery_t, alarm);

        if (alarm->kind == ALARM_SOON)
            base->kind->soon(base);
        else if (base->kind->turn != NULL)
            base->kind->turn(delivery);
        else
            delivery_turn(delivery);
    }
    if (!base->closing)
        set_timer(base);
}

/* ---- Messages ----------------------------------------------------------- */

/* Nesting that no honest message has; and room for one value per 16 bytes, which long
 * lists with short fields need. */
enum { MAX_DEPTH = 64, BYTES_PER_VALUE = 16, FEW_VALUES = 1024 };

static int read_one(json_t *value, void (*next)(void *arg, tdg__rpc_message_t *message),
                    void *arg, char *why, size_t why_size) {
    tdg__rpc_message_t message;
    tdg__rpc_error_t error = {0};

    if (tdg__rpc_read(value, &message, &error) < 0) {
        snprintf(why, why_size, "%s", error.message);
        tdg__rpc_error_done(&error);
        return TDG_EJSON;
    }
    next(arg, &message);
    tdg__rpc_message_done(&message);
    return 0;
}

int tdg__transport_parse(size_t max_bytes, const char *text, size_t len,
                         void (*next)(void *arg, tdg__rpc_message_t *message), void *arg,
                         char *why, size_t why_size) {
    tdg__json_limits_t limits = {
        .max_bytes = max_bytes,
        .max_depth = MAX_DEPTH,
        .max_values = max_bytes / BYTES_PER_VALUE + FEW_VALUES,
    };
    tdg__parse_error_t error = {0};
    json_t *root;
    int rv, failed = 0;

    rv = tdg__json_parse(text, len, &limits, &root, &error);
    if (rv < 0) {
        snprintf(why, why_size, "%s",
                 error.text[0] != '\0' ? error.text : tdg_strerror(rv));
        return rv == TDG_ENUMBER ? TDG_EJSON : rv;
    }

    if (!json_is_array(root)) {
        failed = read_one(root, next, arg, why, why_size);
    } else if (json_array_size(root) == 0) {
        snprintf(why, why_size, "a batch without messages");
        failed = TDG_EJSON;
    }
    /* What is wrong with one message of a batch does not concern the others. */
    for (size_t i = 0; i < json_array_size(root); i++) {
        rv = read_one(json_array_get(root, i), next, arg, why, why_size);
        if (rv < 0)
            failed = rv;
    }
    json_decref(root);
    return failed;
}

static tdg__delivery_t *find(const tdg__transport_base_t *base, const char *id) {
    for (tdg__queue_t *at = base->deliveries.next; at != &base->deliveries;
         at = at->next) {
        tdg__delivery_t *delivery = TDG__RECORD(tdg__delivery_t, in_deliveries, at);

        if (strcmp(delivery->id, id) == 0)
            return delivery;
    }
    return NULL;
}

static void on_message(void *arg, tdg__rpc_message_t *message) {
    tdg__transport_base_t *base = arg;
    tdg__delivery_t *delivery = NULL;

    if (base->closing)
        return;
    if (message->kind == TDG__RPC_RESPONSE && message->id[0] != '\0')
        delivery = find(base, message->id);
    if (delivery == NULL) {
        base->base.calls->message(base->base.user, message);
        return;
    }
    delivery->report.sent = true;
    if (tdg__delivery_message(delivery, message))
        tdg__delivery_end(delivery, TDG__DELIVERY_DONE, "");
}

int tdg__transport_base_read(tdg__transport_base_t *base, const char *text, size_t len) {
    char why[200];
    int rv = tdg__transport_parse(base->opts.max_message_bytes, text, len, on_message,
                                  base, why, sizeof(why));

    if (rv < 0 && rv != TDG_ENOMEM)
        tdg__transport_base_warn(base, "the server sent an invalid message: %s", why);
    return rv == TDG_ENOMEM ? rv : 0;
}

/* ---- Beginning and end -------------------------------------------------- */

static tdg__transport_base_t *create_base(const tdg__transport_base_kind_t *kind,
                                          uv_loop_t *loop) {
    tdg__transport_base_t *base = tdg__calloc(1, kind->size);

    if (base == NULL)
        return NULL;
    tdg__heap_init(&base->alarms);
    if (tdg__heap_add(&base->alarms, &base->soon, ALARM_SOON) < 0) {
        tdg__free(base);
        return NULL;
    }
    base->kind = kind;
    tdg__queue_init(&base->deliveries);
    uv_timer_init(loop, &base->timer);
    base->timer.data = base;
    return base;
}

int tdg__transport_create(tdg__transport_kind_t kind, uv_loop_t *loop,
                          const tdg__transport_opts_t *opts,
                          const tdg__transport_calls_t *calls, void *user,
                          tdg__transport_t **ret) {
    static const tdg__transport_base_kind_t *const kinds[] = {
        [TDG__TRANSPORT_HTTP] = &tdg__transport_http,
        [TDG__TRANSPORT_SSE] = &tdg__transport_sse,
        [TDG__TRANSPORT_STDIO] = &tdg__transport_stdio,
    };
    tdg__transport_base_t *base;
    int rv = 0;

    if (kinds[kind]->http ? opts->url == NULL
                          : opts->argv == NULL || opts->argv[0] == NULL)
        return TDG_EINVAL;
    base = create_base(kinds[kind], loop);
    if (base == NULL)
        return TDG_ENOMEM;
    base->opts = *opts;
    base->base = (tdg__transport_t){&base->kind->ops, calls, user};
    if (base->kind->http)
        rv = tdg__web_create(loop, &opts->web, &base->web);
    if (rv < 0) {
        tdg__transport_base_done(base); /* frees it */
        return rv;
    }
    *ret = &base->base;
    return 0;
}

void tdg__transport_base_tell_opened(tdg__transport_base_t *base, int code,
                                     const char *why) {
    void (*opening)(void *user, int code, const char *why) = base->opening;

    base->opening = NULL;
    if (opening != NULL && !base->closing)
        opening(base->base.user, code, why);
}

void tdg__transport_base_tell_ended(tdg__transport_base_t *base) {
    void (*ending)(void *user) = base->ending;

    base->ending = NULL;
    if (ending != NULL && !base->closing)
        ending(base->base.user);
}

void tdg__transport_base_lose(tdg__transport_base_t *base, int code, const char *why) {
    const bool was_opening = base->opening != NULL;

    if (base->over || base->closing)
        return;
    base->over = true;
    base->kind->leave(base);
    tdg__transport_base_break(base, why);
    if (was_opening)
        tdg__transport_base_tell_opened(base, code, why);
    else if (!base->closing)
        base->base.calls->lost(base->base.user, why);
}

void tdg__transport_base_end_session(tdg__transport_t *transport, bool say_so,
                                     void (*done)(void *user)) {
    tdg__transport_base_t *base = (tdg__transport_base_t *)transport;

    (void)say_so;
    base->over = true;
    base->opening = NULL;
    base->ending = done;
    base->kind->leave(base);
    tdg__transport_base_soon(base);
}

void tdg__transport_base_cancel(tdg__transport_t *transport, tdg__delivery_t *delivery) {
    assert((tdg__transport_t *)delivery->base == transport);
    (void)transport;
    tdg__delivery_drop(delivery);
}

void tdg__transport_base_silence(tdg__transport_base_t *base, void (*closed)(void *arg),
                                 void *arg) {
    tdg__delivery_t *first;

    base->closing = true;
    base->closed = closed;
    base->closed_arg = arg;
    uv_timer_stop(&base->timer);
    while ((first = first_of(base)) != NULL)
        tdg__delivery_drop(first);
}

static void on_closed(uv_handle_t *handle) {
    tdg__transport_base_t *base = handle->data;
    void (*closed)(void *arg) = base->closed;
    void *arg = base->closed_arg;

    if (base->kind->done != NULL)
        base->kind->done(base);
    tdg__free(base);
    if (closed != NULL)
        closed(arg);
}

void tdg__transport_base_done(tdg__transport_base_t *base) {
    tdg__heap_remove(&base->alarms, &base->soon);
    tdg__heap_done(&base->alarms);
    uv_close((uv_handle_t *)&base->timer, on_closed);
}

static void on_web_closed(void *arg) {
    tdg__transport_base_done(arg);
}

void tdg__transport_base_close(tdg__transport_t *transport, void (*closed)(void *arg),
                               void *arg) {
    tdg__transport_base_t *base = (tdg__transport_base_t *)transport;

    tdg__transport_base_silence(base, closed, arg);
    tdg__web_close(base->web, on_web_closed, base);
}

/* ---- Over HTTP ---------------------------------------------------------- */

void tdg__transport_base_distrust(tdg__transport_t *transport) {
    tdg__web_distrust(((tdg__transport_base_t *)transport)->web);
}

bool tdg__transport_base_renew(tdg__transport_t *transport) {
    return tdg__web_renew_token(((tdg__transport_base_t *)transport)->web);
}

int tdg__delivery_begun(tdg__delivery_t *delivery, int rv, tdg__delivery_t **ret) {
    if (rv == TDG_ENOMEM) {
        tdg__delivery_drop(delivery);
        return rv;
    }
    if (rv < 0)
        tdg__delivery_sent(delivery, TDG__DELIVERY_REFUSED,
                           "a URL or header that cannot be sent");
    *ret = delivery;
    return 0;
}

tdg__delivery_end_t tdg__delivery_failure(const tdg__delivery_t *delivery, int code) {
    switch (code) {
    case TDG_ETIMEDOUT:
        return TDG__DELIVERY_TIMEOUT;
    case TDG_EINVAL:
    case TDG_EREFUSED:
        return TDG__DELIVERY_REFUSED;
    case TDG_ENOMEM:
        return TDG__DELIVERY_NO_MEMORY;
    default:
        return delivery->report.sent ? TDG__DELIVERY_BROKEN : TDG__DELIVERY_AWAY;
    }
}

/* SPDX-License-Identifier: MIT
 *
 * Input: what a server sends to our client, whose core runs here with simulated time and
 * a simulated transport. The first byte chooses the era. The server gets through the
 * handshake; then each line of the input is a message of its own, with two exceptions:
 *
 *     +MS      so much time passes
 *     =JSON    a response with this result, to the newest request without one
 *
 * An @ in a line stands for the id of the newest request that is open. Whatever comes,
 * every call of the client ends exactly once, events are complete, and nothing stays
 * behind. */
#include <stdio.h>
#include <string.h>

#include <tidings/client.h>
#include <tidings/error.h>

#include "base/text.h"
#include "client/session/core.h"
#include "client/subs/subscribing.h"
#include "fuzz.h"

enum {
    MAX_BYTES = 8192,
    MAX_DELIVERIES = 256,
    MAX_TRANSPORTS = 32,
    MAX_CALLS = 8,
    MAX_PASS_MS = 3600 * 1000,
    MAX_TURNS = 100000, /* of the core without an end: a loop */
};

struct run;

struct transport {
    tdg__transport_t base; /* first */
    void (*opening)(void *user, int code, const char *why);
    void (*ending)(void *user);
    void (*closing)(void *arg);
    void *closing_arg;
    bool closed;
};

struct delivery {
    struct transport *transport;
    tdg__delivery_calls_t calls;
    void *user;
    char id[TDG__RPC_MAX_ID + 1];
    char method[64];
    bool written, over;
};

struct run {
    tdg__core_t *core;
    int64_t now;
    uint64_t chance;
    bool modern, connected, stopped;
    struct transport *transports[MAX_TRANSPORTS];
    size_t transport_count;
    struct delivery *deliveries[MAX_DELIVERIES];
    size_t delivery_count;
    int ends[MAX_CALLS]; /* of each call of the client: how often it ended */
    size_t call_count;
};

static struct run *run; /* the only one */

/* ---- The transport ----------------------------------------------------------- */

static int transport_open(tdg__transport_t *base,
                          void (*opened)(void *user, int code, const char *why)) {
    ((struct transport *)base)->opening = opened;
    return 0;
}

static int transport_send(tdg__transport_t *base, const tdg__outgoing_t *out,
                          const tdg__delivery_calls_t *calls, void *user,
                          tdg__delivery_t **ret) {
    struct delivery *delivery;

    require(strlen(out->text) == out->len && strchr(out->text, '\n') == NULL);
    if (run->delivery_count == MAX_DELIVERIES)
        return TDG_EUNREACHABLE;
    delivery = calloc(1, sizeof(*delivery));
    require(delivery != NULL);
    delivery->transport = (struct transport *)base;
    delivery->calls = *calls;
    delivery->user = user;
    snprintf(delivery->id, sizeof(delivery->id), "%s", out->id != NULL ? out->id : "");
    snprintf(delivery->method, sizeof(delivery->method), "%s",
             out->method != NULL ? out->method : "");
    run->deliveries[run->delivery_count++] = delivery;
    *ret = (tdg__delivery_t *)delivery;
    return 0;
}

static void transport_cancel(tdg__transport_t *base, tdg__delivery_t *given) {
    struct delivery *delivery = (struct delivery *)given;

    require(&delivery->transport->base == base && !delivery->over);
    delivery->over = true;
}

static void transport_end_session(tdg__transport_t *base, bool say_so,
                                  void (*done)(void *user)) {
    (void)say_so;
    ((struct transport *)base)->ending = done;
}

static bool transport_renew(tdg__transport_t *base) {
    (void)base;
    return false;
}

static void transport_close(tdg__transport_t *base, void (*closed)(void *arg),
                            void *arg) {
    struct transport *transport = (struct transport *)base;

    require(!transport->closed);
    transport->closed = true;
    transport->opening = NULL;
    transport->ending = NULL;
    transport->closing = closed;
    transport->closing_arg = arg;
    for (size_t i = 0; i < run->delivery_count; i++)
        if (run->deliveries[i]->transport == transport)
            run->deliveries[i]->over = true;
}

static const tdg__transport_ops_t transport_ops = {
    .name = "stdio",
    .shared = true,
    .open = transport_open,
    .send = transport_send,
    .cancel = transport_cancel,
    .end_session = transport_end_session,
    .renew = transport_renew,
    .close = transport_close,
};

static void end_delivery(struct delivery *delivery) {
    const tdg__delivery_report_t report = {
        .end = TDG__DELIVERY_DONE, .error = "", .retry_after_ms = -1, .sent = true};

    if (delivery->over)
        return;
    delivery->over = true;
    delivery->calls.ended(delivery->user, &report);
}

/* ---- The server --------------------------------------------------------- */

static struct delivery *find_delivery(const struct transport *transport, const char *id) {
    for (size_t i = 0; i < run->delivery_count; i++)
        if (run->deliveries[i]->transport == transport && !run->deliveries[i]->over &&
            strcmp(run->deliveries[i]->id, id) == 0)
            return run->deliveries[i];
    return NULL;
}

static struct delivery *newest_request(void) {
    for (size_t i = run->delivery_count; i > 0; i--)
        if (!run->deliveries[i - 1]->over && run->deliveries[i - 1]->id[0] != '\0')
            return run->deliveries[i - 1];
    return NULL;
}

static struct transport *newest_transport(void) {
    return run->transport_count > 0 ? run->transports[run->transport_count - 1] : NULL;
}

static void on_message(void *arg, tdg__rpc_message_t *message) {
    struct transport *transport = arg;
    struct delivery *delivery = NULL;

    if (transport->closed)
        return;
    if (message->kind == TDG__RPC_RESPONSE && message->id[0] != '\0')
        delivery = find_delivery(transport, message->id);
    if (delivery == NULL) {
        transport->base.calls->message(transport->base.user, message);
        return;
    }
    delivery->calls.message(delivery->user, message);
    end_delivery(delivery);
}

static void say(const char *text, size_t len) {
    struct transport *transport = newest_transport();
    char why[200];

    if (transport == NULL || transport->closed || transport->opening != NULL)
        return;
    tdg__transport_parse(MAX_BYTES, text, len, on_message, transport, why, sizeof(why));
}

static void answer(const char *id, const char *member, const char *json, size_t len) {
    tdg__text_t text;

    tdg__text_init(&text, 2 * MAX_BYTES);
    tdg__text_put(&text, "{\"jsonrpc\":\"2.0\",\"id\":");
    tdg__text_put(&text, id);
    tdg__text_put(&text, ",\"");
    tdg__text_put(&text, member);
    tdg__text_put(&text, "\":");
    tdg__text_add(&text, json, len);
    tdg__text_put(&text, "}");
    if (text.error == 0)
        say(text.data, text.len);
    tdg__text_done(&text);
}

/* Answers a request of the handshake. */
static void welcome(const struct delivery *delivery) {
    static const char modern[] =
        "{\"resultType\":\"complete\",\"supportedVersions\":[\"2026-07-28\"],"
        "\"capabilities\":{\"resources\":{\"subscribe\":true,\"listChanged\":true},"
        "\"tools\":{\"listChanged\":true},\"prompts\":{\"listChanged\":true}}}";
    static const char legacy[] =
        "{\"protocolVersion\":\"2025-11-25\",\"capabilities\":{\"resources\":"
        "{\"subscribe\":true,\"listChanged\":true},\"tools\":{},\"logging\":{}},"
        "\"serverInfo\":{\"name\":\"f\",\"version\":\"1\"}}";
    static const char unknown[] = "{\"code\":-32601,\"message\":\"no such method\"}";

    if (strcmp(delivery->method, run->modern ? "server/discover" : "initialize") == 0)
        answer(delivery->id, "result", run->modern ? modern : legacy,
               strlen(run->modern ? modern : legacy));
    else if (strcmp(delivery->method, "server/discover") == 0)
        answer(delivery->id, "error", unknown, strlen(unknown));
}

/* ---- Turns -------------------------------------------------------------- */

static bool turn_transport(struct transport *transport) {
    if (transport->opening != NULL) {
        void (*opening)(void *user, int code, const char *why) = transport->opening;

        transport->opening = NULL;
        opening(transport->base.user, 0, "");
    } else if (transport->ending != NULL) {
        void (*ending)(void *user) = transport->ending;

        transport->ending = NULL;
        ending(transport->base.user);
    } else if (transport->closing != NULL) {
        void (*closing)(void *arg) = transport->closing;

        transport->closing = NULL;
        closing(transport->closing_arg);
    } else {
        return false;
    }
    return true;
}

static bool turn_delivery(struct delivery *delivery) {
    if (delivery->over || delivery->written)
        return false;
    delivery->written = true;
    if (delivery->calls.opened != NULL)
        delivery->calls.opened(delivery->user, 0);
    if (delivery->id[0] == '\0')
        end_delivery(delivery);
    else if (!delivery->over)
        welcome(delivery);
    return true;
}

static void settle(void) {
    bool busy = true;

    for (int turns = 0; busy; turns++) {
        require(turns < MAX_TURNS);
        busy = tdg__core_deadline(run->core) <= run->now;
        if (busy)
            tdg__core_tick(run->core);
        for (size_t i = 0; i < run->transport_count; i++)
            busy |= turn_transport(run->transports[i]);
        for (size_t i = 0; i < run->delivery_count; i++)
            busy |= turn_delivery(run->deliveries[i]);
    }
}

static void pass(int64_t ms) {
    int64_t end = run->now + ms;

    settle();
    for (int turns = 0; tdg__core_deadline(run->core) <= end; turns++) {
        require(turns < MAX_TURNS);
        run->now = tdg__core_deadline(run->core);
        settle();
    }
    run->now = end;
    settle();
}

/* ---- The core's surroundings -------------------------------------------- */

static int64_t give_now(void *user) {
    (void)user;
    return run->now;
}

static uint64_t give_random(void *user) {
    (void)user;
    run->chance = run->chance * 6364136223846793005U + 1442695040888963407U;
    return run->chance;
}

static int give_transport(void *user, tdg__transport_kind_t kind,
                          const tdg__transport_calls_t *calls, void *transport_user,
                          tdg__transport_t **ret) {
    struct transport *transport;

    (void)user;
    (void)kind;
    if (run->transport_count == MAX_TRANSPORTS)
        return TDG_ESYSTEM;
    transport = calloc(1, sizeof(*transport));
    require(transport != NULL);
    transport->base = (tdg__transport_t){&transport_ops, calls, transport_user};
    run->transports[run->transport_count++] = transport;
    *ret = &transport->base;
    return 0;
}

static void take_event(void *user, tdg_event_t *event) {
    (void)user;
    require(event != NULL);
    require((event->kind != TDG_EVENT_UPDATED && event->kind != TDG_EVENT_DELETED) ||
            (event->uri != NULL && event->uri[0] != '\0'));
    tdg_event_free(event);
}

static void take_forget(void *user, const char *uri) {
    (void)user;
    require(uri != NULL);
}

static void take_line(void *user, tdg_log_level_t level, const char *line) {
    (void)user;
    (void)level;
    require(strpbrk(line, "\r\n") == NULL);
}

static json_t *give_input(void *user, const char *method, const json_t *params) {
    (void)user;
    (void)params;
    require(method != NULL);
    return json_object();
}

/* ---- The client --------------------------------------------------------- */

static void on_done(void *user, int code, json_t *result, const tdg_failure_t *failure) {
    (void)result;
    require(++*(int *)user == 1);
    require(code <= 0 && (code == 0 || (failure != NULL && failure->message[0] != '\0')));
}

static int *next_call(void) {
    require(run->call_count < MAX_CALLS);
    return &run->ends[run->call_count++];
}

static void on_connected(void *user, int code, json_t *result,
                         const tdg_failure_t *failure) {
    on_done(user, code, result, failure);
    run->connected = code == 0;
}

static void on_stopped(void *user) {
    (void)user;
    run->stopped = true;
}

static void begin_calls(void) {
    static const char *const uris[] = {"a:1", "a:2"};
    static const char *const below[] = {"t:{x}"};
    const tdg_subscribe_opts_t reread = {.reread = true};

    tdg__core_subscribe(run->core, uris, 2, &reread, NULL, on_done, next_call());
    tdg__core_subscribe(run->core, below, 1, NULL, NULL, on_done, next_call());
    tdg__core_watch_lists(run->core, 1 << TDG_LIST_RESOURCES | 1 << TDG_LIST_TOOLS,
                          on_done, next_call());
    settle();
    tdg__core_list(run->core, TDG_LIST_RESOURCES, on_done, next_call());
    tdg__core_call(run->core, "f", json_object(), 0, on_done, next_call());
    settle();
}

/* ---- The input ---------------------------------------------------------- */

/* Puts the id of the newest request in the place of each @. */
static void say_line(const char *line, size_t len) {
    const struct delivery *newest = newest_request();
    tdg__text_t text;

    tdg__text_init(&text, 16 * MAX_BYTES);
    for (size_t i = 0; i < len; i++) {
        if (line[i] == '@' && newest != NULL)
            tdg__text_put(&text, newest->id);
        else
            tdg__text_add(&text, line + i, 1);
    }
    if (text.error == 0 && text.len > 0)
        say(text.data, text.len);
    tdg__text_done(&text);
}

static void play_line(const char *line, size_t len) {
    const struct delivery *newest = newest_request();
    int64_t ms = 0;

    if (line[0] == '+') {
        for (size_t i = 1; i < len && line[i] >= '0' && line[i] <= '9'; i++)
            ms = ms < MAX_PASS_MS ? ms * 10 + (line[i] - '0') : MAX_PASS_MS;
        pass(ms < MAX_PASS_MS ? ms : MAX_PASS_MS);
    } else if (line[0] == '=') {
        if (newest != NULL)
            answer(newest->id, "result", line + 1, len - 1);
    } else {
        say_line(line, len);
    }
    settle();
}

static void play(const char *text, size_t len) {
    while (len > 0) {
        const char *end = memchr(text, '\n', len);
        size_t line = end != NULL ? (size_t)(end - text) : len;

        if (line > 0)
            play_line(text, line);
        line += end != NULL;
        text += line;
        len -= line;
    }
}

static void release(void) {
    for (size_t i = 0; i < run->delivery_count; i++)
        free(run->deliveries[i]);
    for (size_t i = 0; i < run->transport_count; i++)
        free(run->transports[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const argv[] = {"server", NULL};
    const tdg_client_opts_t client = {
        .argv = argv,
        .name = "fuzz",
        .version = "1",
        .connect_timeout_ms = 30000,
        .timeout_ms = 60000,
        .retry_ms = 500,
        .quiet_ms = 60000,
        .retry_max_ms = 30000,
        .retry_per_minute = 20,
        .max_message_bytes = MAX_BYTES,
        .max_subscriptions = 100,
    };
    const tdg__core_opts_t opts = {
        .upper = &tdg__core_subs,
        .client = &client,
        .now = give_now,
        .random = give_random,
        .make_transport = give_transport,
        .event = take_event,
        .forget = take_forget,
        .log = take_line,
        .input = give_input,
    };
    struct run one = {.now = 1000};

    if (size < 1 || size > MAX_BYTES)
        return 0;
    run = &one;
    run->modern = data[0] % 2 == 1;
    require(tdg__core_create(&opts, &run->core) == 0);
    tdg__core_connect(run->core, on_connected, next_call());
    settle();
    require(run->connected);
    begin_calls();
    play((const char *)data + 1, size - 1);

    tdg__core_stop(run->core, on_stopped, NULL);
    pass(10000);
    require(run->stopped);
    for (size_t i = 0; i < run->call_count; i++)
        require(run->ends[i] == 1);
    tdg__core_destroy(run->core);
    release();
    return 0;
}

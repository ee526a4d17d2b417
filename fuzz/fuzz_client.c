/* SPDX-License-Identifier: MIT
 *
 * Input: what a server sends to our client, whose core runs here with simulated time and
 * a simulated wire. The first byte chooses the era. The server gets through the
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
#include "client/core.h"
#include "fuzz.h"

enum {
    MAX_BYTES = 8192,
    MAX_CARRIES = 256,
    MAX_WIRES = 32,
    MAX_CALLS = 8,
    MAX_PASS_MS = 3600 * 1000,
    MAX_TURNS = 100000, /* of the core without an end: a loop */
};

struct run;

struct wire {
    tdg__wire_t base; /* first */
    void (*opening)(void *user, int code, const char *why);
    void (*ending)(void *user);
    void (*closing)(void *arg);
    void *closing_arg;
    bool closed;
};

struct carry {
    struct wire *wire;
    tdg__carry_calls_t calls;
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
    struct wire *wires[MAX_WIRES];
    size_t wire_count;
    struct carry *carries[MAX_CARRIES];
    size_t carry_count;
    int ends[MAX_CALLS]; /* of each call of the client: how often it ended */
    size_t call_count;
};

static struct run *run; /* the only one */

/* ---- The wire ----------------------------------------------------------- */

static int wire_open(tdg__wire_t *base,
                     void (*opened)(void *user, int code, const char *why)) {
    ((struct wire *)base)->opening = opened;
    return 0;
}

static int wire_send(tdg__wire_t *base, const tdg__parcel_out_t *out,
                     const tdg__carry_calls_t *calls, void *user, tdg__carry_t **ret) {
    struct carry *carry;

    require(strlen(out->text) == out->len && strchr(out->text, '\n') == NULL);
    if (run->carry_count == MAX_CARRIES)
        return TDG_EAWAY;
    carry = calloc(1, sizeof(*carry));
    require(carry != NULL);
    carry->wire = (struct wire *)base;
    carry->calls = *calls;
    carry->user = user;
    snprintf(carry->id, sizeof(carry->id), "%s", out->id != NULL ? out->id : "");
    snprintf(carry->method, sizeof(carry->method), "%s",
             out->method != NULL ? out->method : "");
    run->carries[run->carry_count++] = carry;
    *ret = (tdg__carry_t *)carry;
    return 0;
}

static void wire_cancel(tdg__wire_t *base, tdg__carry_t *given) {
    struct carry *carry = (struct carry *)given;

    require(&carry->wire->base == base && !carry->over);
    carry->over = true;
}

static void wire_end_session(tdg__wire_t *base, bool say_so, void (*done)(void *user)) {
    (void)say_so;
    ((struct wire *)base)->ending = done;
}

static bool wire_renew(tdg__wire_t *base) {
    (void)base;
    return false;
}

static void wire_close(tdg__wire_t *base, void (*closed)(void *arg), void *arg) {
    struct wire *wire = (struct wire *)base;

    require(!wire->closed);
    wire->closed = true;
    wire->opening = NULL;
    wire->ending = NULL;
    wire->closing = closed;
    wire->closing_arg = arg;
    for (size_t i = 0; i < run->carry_count; i++)
        if (run->carries[i]->wire == wire)
            run->carries[i]->over = true;
}

static const tdg__wire_ops_t wire_ops = {
    .name = "stdio",
    .shared = true,
    .open = wire_open,
    .send = wire_send,
    .cancel = wire_cancel,
    .end_session = wire_end_session,
    .renew = wire_renew,
    .close = wire_close,
};

static void end_carry(struct carry *carry) {
    const tdg__carry_report_t report = {
        .end = TDG__CARRY_DONE, .error = "", .retry_after_ms = -1, .sent = true};

    if (carry->over)
        return;
    carry->over = true;
    carry->calls.ended(carry->user, &report);
}

/* ---- The server --------------------------------------------------------- */

static struct carry *find_carry(const struct wire *wire, const char *id) {
    for (size_t i = 0; i < run->carry_count; i++)
        if (run->carries[i]->wire == wire && !run->carries[i]->over &&
            strcmp(run->carries[i]->id, id) == 0)
            return run->carries[i];
    return NULL;
}

static struct carry *newest_request(void) {
    for (size_t i = run->carry_count; i > 0; i--)
        if (!run->carries[i - 1]->over && run->carries[i - 1]->id[0] != '\0')
            return run->carries[i - 1];
    return NULL;
}

static struct wire *newest_wire(void) {
    return run->wire_count > 0 ? run->wires[run->wire_count - 1] : NULL;
}

static void on_message(void *arg, tdg__rpc_message_t *message) {
    struct wire *wire = arg;
    struct carry *carry = NULL;

    if (wire->closed)
        return;
    if (message->kind == TDG__RPC_RESPONSE && message->id[0] != '\0')
        carry = find_carry(wire, message->id);
    if (carry == NULL) {
        wire->base.calls->message(wire->base.user, message);
        return;
    }
    carry->calls.message(carry->user, message);
    end_carry(carry);
}

static void say(const char *text, size_t len) {
    struct wire *wire = newest_wire();
    char why[200];

    if (wire == NULL || wire->closed || wire->opening != NULL)
        return;
    tdg__wire_read(&wire->base, text, len, on_message, wire, why, sizeof(why));
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
static void welcome(const struct carry *carry) {
    static const char modern[] =
        "{\"resultType\":\"complete\",\"supportedVersions\":[\"2026-07-28\"],"
        "\"capabilities\":{\"resources\":{\"subscribe\":true,\"listChanged\":true},"
        "\"tools\":{\"listChanged\":true},\"prompts\":{\"listChanged\":true}}}";
    static const char legacy[] =
        "{\"protocolVersion\":\"2025-11-25\",\"capabilities\":{\"resources\":"
        "{\"subscribe\":true,\"listChanged\":true},\"tools\":{},\"logging\":{}},"
        "\"serverInfo\":{\"name\":\"f\",\"version\":\"1\"}}";
    static const char unknown[] = "{\"code\":-32601,\"message\":\"no such method\"}";

    if (strcmp(carry->method, run->modern ? "server/discover" : "initialize") == 0)
        answer(carry->id, "result", run->modern ? modern : legacy,
               strlen(run->modern ? modern : legacy));
    else if (strcmp(carry->method, "server/discover") == 0)
        answer(carry->id, "error", unknown, strlen(unknown));
}

/* ---- Turns -------------------------------------------------------------- */

static bool turn_wire(struct wire *wire) {
    if (wire->opening != NULL) {
        void (*opening)(void *user, int code, const char *why) = wire->opening;

        wire->opening = NULL;
        opening(wire->base.user, 0, "");
    } else if (wire->ending != NULL) {
        void (*ending)(void *user) = wire->ending;

        wire->ending = NULL;
        ending(wire->base.user);
    } else if (wire->closing != NULL) {
        void (*closing)(void *arg) = wire->closing;

        wire->closing = NULL;
        closing(wire->closing_arg);
    } else {
        return false;
    }
    return true;
}

static bool turn_carry(struct carry *carry) {
    if (carry->over || carry->written)
        return false;
    carry->written = true;
    if (carry->calls.opened != NULL)
        carry->calls.opened(carry->user, 0, 0);
    if (carry->id[0] == '\0')
        end_carry(carry);
    else if (!carry->over)
        welcome(carry);
    return true;
}

static void settle(void) {
    bool busy = true;

    for (int turns = 0; busy; turns++) {
        require(turns < MAX_TURNS);
        busy = tdg__core_deadline(run->core) <= run->now;
        if (busy)
            tdg__core_tick(run->core);
        for (size_t i = 0; i < run->wire_count; i++)
            busy |= turn_wire(run->wires[i]);
        for (size_t i = 0; i < run->carry_count; i++)
            busy |= turn_carry(run->carries[i]);
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

static int give_wire(void *user, tdg__wire_kind_t kind, const tdg__wire_calls_t *calls,
                     void *wire_user, tdg__wire_t **ret) {
    struct wire *wire;

    (void)user;
    (void)kind;
    if (run->wire_count == MAX_WIRES)
        return TDG_ESYSTEM;
    wire = calloc(1, sizeof(*wire));
    require(wire != NULL);
    wire->base = (tdg__wire_t){&wire_ops, calls, wire_user, MAX_BYTES};
    run->wires[run->wire_count++] = wire;
    *ret = &wire->base;
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

static void take_line(void *user, tdg_client_log_level_t level, const char *line) {
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
    const struct carry *newest = newest_request();
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
    const struct carry *newest = newest_request();
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
    for (size_t i = 0; i < run->carry_count; i++)
        free(run->carries[i]);
    for (size_t i = 0; i < run->wire_count; i++)
        free(run->wires[i]);
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
        .client = &client,
        .now = give_now,
        .random = give_random,
        .make_wire = give_wire,
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

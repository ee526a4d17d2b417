/* SPDX-License-Identifier: MIT */
#include "unit/client/fake.h"

#include <stdio.h>

#include "base/json.h"

enum { MAX_ROUNDS = 100000 }; /* of one fake_run(): more is an endless loop */

/* ---- Memory that is the fake's own --------------------------------------- */

static char *own_text(const char *text) {
    char *copy = text != NULL ? strdup(text) : NULL;

    assert_true(text == NULL || copy != NULL);
    return copy;
}

static void *own(size_t size) {
    void *ptr = calloc(1, size);

    assert_non_null(ptr);
    return ptr;
}

/* Room for one more pointer: made twice as large whenever it is full. */
static void *room(void *list, size_t count) {
    void *larger = list;

    if ((count & (count - 1)) == 0)
        larger = realloc(list, (count > 0 ? 2 * count : 1) * sizeof(void *));
    assert_non_null(larger);
    return larger;
}

static void add_text(char **text, const char *more) {
    size_t len = *text != NULL ? strlen(*text) : 0;
    char *longer = realloc(*text, len + strlen(more) + 1);

    assert_non_null(longer);
    strcpy(longer + len, more);
    *text = longer;
}

/* As a transport reads it, as jansson's own reader writes where it must not when memory
 * is out. NULL: no memory. */
static json_t *read_json(const char *text) {
    static const tdg__json_limits_t limits = {
        .max_bytes = 16 << 20, .max_depth = 64, .max_values = 1000000};
    char *copy = requote(text);
    json_t *json = NULL;
    int rv = tdg__json_parse(copy, strlen(copy), &limits, &json, NULL);

    if (rv < 0 && rv != TDG_ENOMEM)
        fail_msg("%s: %s", copy, tdg_strerror(rv));
    free(copy);
    return json;
}

/* ---- The transport ----------------------------------------------------------- */

static struct fake_sent *write_down(struct fake_transport *transport) {
    struct fake *f = transport->fake;
    struct fake_sent *sent = own(sizeof(*sent));

    assert_true(f->sent_count < FAKE_MAX_SENT);
    assert_false(transport->closed);
    f->sent = room(f->sent, f->sent_count);
    f->sent[f->sent_count++] = sent;
    sent->fake = f;
    sent->transport = transport;
    sent->at_ms = f->now;
    return sent;
}

static int transport_open(tdg__transport_t *base,
                          void (*opened)(void *user, int code, const char *why)) {
    struct fake_transport *transport = (struct fake_transport *)base;

    assert_null(transport->opening);
    assert_false(transport->open);
    transport->opening = opened;
    return 0;
}

static int transport_send(tdg__transport_t *base, const tdg__outgoing_t *out,
                          const tdg__delivery_calls_t *calls, void *user,
                          tdg__delivery_t **ret) {
    struct fake_transport *transport = (struct fake_transport *)base;
    struct fake_sent *sent;

    if (transport->fake->send_code != 0)
        return transport->fake->send_code;
    assert_true(transport->open);
    if (transport->lost)
        return TDG_EUNREACHABLE;
    assert_int_equal(strlen(out->text), out->len);
    assert_null(strchr(out->text, '\n'));

    sent = write_down(transport);
    sent->text = own_text(out->text);
    sent->id = own_text(out->id);
    sent->method = own_text(out->method != NULL ? out->method : "");
    sent->name = own_text(out->name);
    sent->headers = own_text("");
    for (size_t i = 0; i < out->param_count; i++) {
        add_text(&sent->headers, out->params[i].name);
        add_text(&sent->headers, ": ");
        add_text(&sent->headers, out->params[i].value);
        add_text(&sent->headers, "\n");
    }
    sent->version = out->version;
    sent->stream = out->stream;
    sent->own_calls = *calls;
    sent->calls = &sent->own_calls;
    sent->user = user;
    *ret = (tdg__delivery_t *)sent;
    return 0;
}

static int transport_listen(tdg__transport_t *base, const char *after,
                            tdg__version_t version,
                            void (*event_id)(void *user, const char *id),
                            const tdg__delivery_calls_t *calls, void *user,
                            tdg__delivery_t **ret) {
    struct fake_transport *transport = (struct fake_transport *)base;
    struct fake_sent *sent;

    if (transport->fake->send_code != 0)
        return transport->fake->send_code;

    sent = write_down(transport);
    sent->text = own_text(after);
    sent->method = own_text("GET");
    sent->headers = own_text("");
    sent->version = version;
    sent->stream = true;
    sent->event_id = event_id;
    sent->own_calls = *calls;
    sent->calls = &sent->own_calls;
    sent->user = user;
    *ret = (tdg__delivery_t *)sent;
    return 0;
}

static void transport_cancel(tdg__transport_t *base, tdg__delivery_t *delivery) {
    struct fake_sent *sent = (struct fake_sent *)delivery;

    assert_ptr_equal(sent->transport, base);
    assert_false(sent->over);
    assert_false(sent->cancelled);
    sent->cancelled = true;
}

static void transport_end_session(tdg__transport_t *base, bool say_so,
                                  void (*done)(void *user)) {
    struct fake_transport *transport = (struct fake_transport *)base;

    transport->sessions_ended++;
    transport->sessions_said += say_so ? 1 : 0;
    transport->ending = done;
}

static void transport_distrust(tdg__transport_t *base) {
    ((struct fake_transport *)base)->distrusted++;
}

static bool transport_renew(tdg__transport_t *base) {
    struct fake_transport *transport = (struct fake_transport *)base;

    transport->fake->renewed++;
    return transport->fake->token;
}

static void transport_close(tdg__transport_t *base, void (*closed)(void *arg),
                            void *arg) {
    struct fake_transport *transport = (struct fake_transport *)base;
    struct fake *f = transport->fake;

    assert_false(transport->closed);
    transport->closed = true;
    transport->opening = NULL;
    transport->ending = NULL;
    transport->closing = closed;
    transport->closing_arg = arg;
    for (size_t i = 0; i < f->sent_count; i++) {
        if (f->sent[i]->transport == transport && !f->sent[i]->over)
            f->sent[i]->cancelled = true;
    }
}

#define OPS(kind_name, is_shared, listen_fn)                                             \
    {                                                                                    \
        .name = (kind_name), .shared = (is_shared), .open = transport_open,              \
        .send = transport_send, .listen = (listen_fn), .cancel = transport_cancel,       \
        .end_session = transport_end_session, .distrust = transport_distrust,            \
        .renew = transport_renew, .close = transport_close                               \
    }

static const tdg__transport_ops_t all_ops[] = {
    [TDG__TRANSPORT_HTTP] = OPS("http", false, transport_listen),
    [TDG__TRANSPORT_SSE] = OPS("sse", true, NULL),
    [TDG__TRANSPORT_STDIO] = OPS("stdio", true, NULL),
};

/* ---- What the core is given --------------------------------------------- */

static int64_t give_now(void *user) {
    return ((struct fake *)user)->now;
}

static uint64_t give_random(void *user) {
    struct fake *f = user;

    return (uint64_t)roll(&f->dice, UINT32_MAX) << 32 | roll(&f->dice, UINT32_MAX);
}

static int give_transport(void *user, tdg__transport_kind_t kind,
                          const tdg__transport_calls_t *calls, void *transport_user,
                          tdg__transport_t **ret) {
    struct fake *f = user;
    struct fake_transport *transport;

    if (f->make_code != 0)
        return f->make_code;

    assert_true(f->transport_count < FAKE_MAX_TRANSPORTS);
    transport = own(sizeof(*transport));
    transport->base = (tdg__transport_t){&all_ops[kind], calls, transport_user};
    transport->fake = f;
    transport->kind = kind;
    f->transports = room(f->transports, f->transport_count);
    f->transports[f->transport_count++] = transport;
    *ret = &transport->base;
    return 0;
}

static void take_event(void *user, tdg_event_t *event) {
    struct fake *f = user;

    if (event == NULL)
        f->events_lost++;
    else if (f->event_count < COUNT(f->events))
        f->events[f->event_count++] = event;
    else
        tdg_event_free(event);
}

static void take_forget(void *user, const char *uri) {
    struct fake *f = user;

    for (size_t i = 0; i < f->event_count; i++) {
        if (f->events[i]->uri == NULL || strcmp(f->events[i]->uri, uri) != 0)
            continue;
        tdg_event_free(f->events[i]);
        memmove(&f->events[i], &f->events[i + 1],
                (--f->event_count - i) * sizeof(f->events[0]));
        i--;
    }
}

static void take_line(void *user, tdg_log_level_t level, const char *line) {
    struct fake *f = user;

    (void)level;
    if (f->line_count < COUNT(f->lines))
        f->lines[f->line_count++] = own_text(line);
}

static void take_program_line(void *user, const char *line) {
    take_line(user, TDG_LOG_INFO, line);
}

static json_t *give_input(void *user, const char *method, const json_t *params) {
    struct fake *f = user;
    char *text = params != NULL ? json_dumps(params, JSON_COMPACT) : NULL;

    add_text(&f->input_asked, method);
    add_text(&f->input_asked, " ");
    add_text(&f->input_asked, text != NULL ? text : "-");
    add_text(&f->input_asked, "\n");
    tdg__free(text);
    return f->input_result != NULL ? read_json(f->input_result) : NULL;
}

/* ---- Beginning and end -------------------------------------------------- */

void fake_init(struct fake *f, tdg__transport_kind_t kind) {
    static const char *const argv[] = {"server", NULL};

    f->kind = kind;
    f->now = 1000;
    f->dice = dice_from_env();
    f->client = (tdg_client_opts_t){
        .url = kind == TDG__TRANSPORT_STDIO ? NULL : "http://127.0.0.1/mcp",
        .argv = kind == TDG__TRANSPORT_STDIO ? argv : NULL,
        .name = "fake",
        .version = "1",
        .connect_timeout_ms = 30000,
        .timeout_ms = 60000,
        .retry_ms = 500,
        .retry_max_ms = 30000,
        .retry_per_minute = 20,
        .max_message_bytes = 16 << 20,
        .max_subscriptions = 100000,
    };
}

int fake_create(struct fake *f) {
    const tdg__core_opts_t opts = {
        .upper = &tdg__core_subs,
        .client = &f->client,
        .now = give_now,
        .random = give_random,
        .make_transport = give_transport,
        .event = take_event,
        .forget = take_forget,
        .log = take_line,
        .program_line = take_program_line,
        .input = f->inputs ? give_input : NULL,
        .user = f,
    };

    return tdg__core_create(&opts, &f->core);
}

void fake_start(struct fake *f) {
    if (f->core == NULL)
        assert_int_equal(fake_create(f), 0);
    f->connected = fake_note(f);
    tdg__core_connect(f->core, fake_done, f->connected);
    assert_int_equal(f->connected->calls, 0);
    fake_run(f);
}

void fake_modern_server(struct fake *f, struct fake_sent *sent) {
    if (strcmp(sent->method, "server/discover") == 0)
        fake_result(f, sent,
                    "{'resultType':'complete','supportedVersions':['2026-07-28'],"
                    "'capabilities':{'resources':{'subscribe':true,'listChanged':true},"
                    "'tools':{},'prompts':{}},"
                    "'_meta':{'io.modelcontextprotocol/serverInfo':"
                    "{'name':'modern','version':'2'}}}");
    else if (strcmp(sent->method, "initialize") == 0)
        fake_status(f, sent, 400, "{'code':-32601,'message':'Method not found'}");
}

void fake_legacy_server(struct fake *f, struct fake_sent *sent) {
    if (strcmp(sent->method, "server/discover") == 0)
        fake_error(f, sent, -32601, "Method not found", NULL);
    else if (strcmp(sent->method, "initialize") == 0)
        fake_result(f, sent,
                    "{'protocolVersion':'2025-11-25','capabilities':"
                    "{'resources':{'subscribe':true,'listChanged':true},"
                    "'tools':{},'prompts':{}},"
                    "'serverInfo':{'name':'legacy','version':'1'}}");
}

void fake_up(struct fake *f, tdg_era_t era) {
    f->answer = era == TDG_ERA_MODERN ? fake_modern_server : fake_legacy_server;
    fake_start(f);
    assert_int_equal(fake_code(f->connected), 0);
    assert_int_equal(f->core->state, TDG__CORE_UP);
}

static void note_stopped(void *user) {
    struct fake *f = user;

    assert_false(f->stopped);
    f->stopped = true;
}

static void release(struct fake *f) {
    for (size_t i = 0; i < f->sent_count; i++) {
        free(f->sent[i]->text);
        free(f->sent[i]->id);
        free(f->sent[i]->method);
        free(f->sent[i]->name);
        free(f->sent[i]->headers);
        free(f->sent[i]);
    }
    for (size_t i = 0; i < f->transport_count; i++)
        free(f->transports[i]);
    for (size_t i = 0; i < f->note_count; i++) {
        free(f->notes[i]->result);
        free(f->notes[i]);
    }
    for (size_t i = 0; i < f->event_count; i++)
        tdg_event_free(f->events[i]);
    for (size_t i = 0; i < f->line_count; i++)
        free(f->lines[i]);
    free(f->sent);
    free(f->transports);
    free(f->notes);
    free(f->input_asked);
}

void fake_stop(struct fake *f) {
    tdg__core_stop(f->core, note_stopped, f);
    f->stopping = true;
    assert_false(f->stopped);
    fake_run(f);
}

void fake_end(struct fake *f) {
    if (f->core != NULL) {
        if (f->core->state != TDG__CORE_NEW && !f->stopped) {
            if (!f->stopping)
                fake_stop(f);
            if (!f->stopped)
                fake_pass(f, 5000);
            assert_true(f->stopped);
        }
        tdg__core_destroy(f->core);
        f->core = NULL;
    }

    for (size_t i = 0; i < f->transport_count; i++)
        assert_true(f->transports[i]->closed && f->transports[i]->closing == NULL);
    for (size_t i = 0; i < f->note_count; i++)
        assert_int_equal(f->notes[i]->calls, 1);
    release(f);
}

/* ---- Time --------------------------------------------------------------- */

/* Whether the transport had something to do. */
static bool run_transport(struct fake *f, struct fake_transport *transport) {
    void (*opening)(void *user, int code, const char *why) = transport->opening;
    void (*ending)(void *user) = transport->ending;
    void (*closing)(void *arg) = transport->closing;

    if (opening != NULL && !f->hold_open) {
        transport->opening = NULL;
        transport->open = f->open_code == 0;
        opening(transport->base.user, f->open_code,
                f->open_code == 0 ? "" : "cannot be opened");
    } else if (ending != NULL && !f->hold_session_end) {
        transport->ending = NULL;
        ending(transport->base.user);
    } else if (closing != NULL) {
        transport->closing = NULL;
        closing(transport->closing_arg);
    } else {
        return false;
    }
    return true;
}

static void end_delivery(struct fake_sent *sent, const tdg__delivery_report_t *report) {
    assert_false(sent->over);
    assert_false(sent->cancelled);
    sent->over = true;
    sent->calls->ended(sent->user, report);
}

/* Notifications and responses are taken; requests are shown to whoever answers. */
static void show(struct fake *f, struct fake_sent *sent) {
    const tdg__delivery_report_t taken = {.end = TDG__DELIVERY_DONE,
                                          .status = 202,
                                          .error = "",
                                          .retry_after_ms = -1,
                                          .sent = true};

    if (sent->over || sent->cancelled)
        return;
    if (sent->id == NULL && strcmp(sent->method, "GET") != 0) {
        if (!f->hold_notifications)
            end_delivery(sent, &taken);
    } else if (f->answer != NULL) {
        f->answer(f, sent);
    }
}

void fake_run(struct fake *f) {
    bool busy = true;

    for (int round = 0; busy; round++) {
        assert_true(round < MAX_ROUNDS);
        busy = false;
        for (size_t i = 0; i < f->transport_count; i++)
            busy = run_transport(f, f->transports[i]) || busy;
        while (f->answered < f->sent_count) {
            busy = true;
            show(f, f->sent[f->answered++]);
        }
        if (tdg__core_deadline(f->core) <= f->now) {
            busy = true;
            tdg__core_tick(f->core);
        }
    }
}

int64_t fake_next(struct fake *f, int64_t max_ms) {
    int64_t at, before = f->now;

    fake_run(f);
    at = tdg__core_deadline(f->core);
    if (at == INT64_MAX || at - f->now > max_ms)
        return -1;

    f->now = at;
    fake_run(f);
    return at - before;
}

void fake_pass(struct fake *f, int64_t ms) {
    int64_t end = f->now + ms;

    for (int round = 0; fake_next(f, end - f->now) >= 0; round++)
        assert_true(round < MAX_ROUNDS);
    f->now = end;
    fake_run(f);
}

/* ---- What was sent ------------------------------------------------------ */

struct fake_sent *fake_seek(struct fake *f, const char *method) {
    for (size_t i = f->sent_count; i > 0; i--) {
        struct fake_sent *sent = f->sent[i - 1];

        if (!sent->over && !sent->cancelled && strcmp(sent->method, method) == 0)
            return sent;
    }
    return NULL;
}

struct fake_sent *fake_find(struct fake *f, const char *method) {
    struct fake_sent *sent = fake_seek(f, method);

    if (sent == NULL)
        fail_msg("no %s is under way", method);
    return sent;
}

size_t fake_count(const struct fake *f, const char *method) {
    size_t count = 0;

    for (size_t i = 0; i < f->sent_count; i++)
        count += strcmp(f->sent[i]->method, method) == 0;
    return count;
}

struct fake_sent *fake_last(struct fake *f) {
    assert_true(f->sent_count > 0);
    return f->sent[f->sent_count - 1];
}

json_t *fake_message(const struct fake_sent *sent) {
    json_t *message = json_loads(sent->text, 0, NULL);

    assert_non_null(message);
    return message;
}

json_t *fake_params(const struct fake_sent *sent) {
    json_t *message = fake_message(sent);
    json_t *params = json_incref(json_object_get(message, "params"));

    json_decref(message);
    return params;
}

/* ---- What the server does ----------------------------------------------- */

/* A message from text; false: there was no memory for it. */
static bool read_message(const char *text, tdg__rpc_message_t *ret) {
    tdg__rpc_error_t error = {0};
    json_t *json = read_json(text);
    int rv;

    if (json == NULL)
        return false;

    rv = tdg__rpc_read(json, ret, &error);
    json_decref(json);
    if (rv < 0)
        fail_msg("%s: %s", text, error.message);
    return true;
}

void fake_broken(struct fake *f, struct fake_sent *sent, tdg__delivery_end_t end,
                 bool was_sent) {
    static const int statuses[] = {
        [TDG__DELIVERY_DONE] = 200, [TDG__DELIVERY_NO_SESSION] = 404};
    const tdg__delivery_report_t report = {
        .end = end,
        .status = end <= TDG__DELIVERY_NO_SESSION ? statuses[end] : 0,
        .error = end == TDG__DELIVERY_DONE ? "" : "it broke",
        .retry_after_ms = -1,
        .sent = was_sent};

    end_delivery(sent, &report);
    fake_run(f);
}

/* Delivers the response and ends it in order. */
static void respond(struct fake *f, struct fake_sent *sent, const char *text) {
    const tdg__delivery_report_t report = {.end = TDG__DELIVERY_DONE,
                                           .status = 200,
                                           .error = "",
                                           .retry_after_ms = -1,
                                           .sent = true};
    tdg__rpc_message_t message;

    if (!read_message(text, &message)) {
        fake_broken(f, sent, TDG__DELIVERY_NO_MEMORY, true);
        return;
    }
    sent->calls->message(sent->user, &message);
    tdg__rpc_message_done(&message);
    if (!sent->cancelled)
        end_delivery(sent, &report);
    fake_run(f);
}

/* printf into memory of the fake's own. */
static char *print(const char *format, ...) __attribute__((format(printf, 1, 2)));

static char *print(const char *format, ...) {
    va_list args, again;
    char *text;
    int len;

    va_start(args, format);
    va_copy(again, args);
    len = vsnprintf(NULL, 0, format, args);
    assert_true(len >= 0);
    text = own((size_t)len + 1);
    vsnprintf(text, (size_t)len + 1, format, again);
    va_end(again);
    va_end(args);
    return text;
}

void fake_result(struct fake *f, struct fake_sent *sent, const char *result) {
    char *text = print("{'jsonrpc':'2.0','id':%s,'result':%s}", sent->id, result);

    respond(f, sent, text);
    free(text);
}

static char *error_text(const char *id, const char *error) {
    return id != NULL ? print("{'jsonrpc':'2.0','id':%s,'error':%s}", id, error)
                      : print("{'jsonrpc':'2.0','error':%s}", error);
}

void fake_error(struct fake *f, struct fake_sent *sent, int code, const char *message,
                const char *data) {
    char *error = print("{'code':%d,'message':'%s'%s%s}", code, message,
                        data != NULL ? ",'data':" : "", data != NULL ? data : "");
    char *text = error_text(sent->id, error);

    respond(f, sent, text);
    free(text);
    free(error);
}

static void end_with_status(struct fake *f, struct fake_sent *sent, int status,
                            const char *body, int64_t retry_after_ms) {
    tdg__delivery_report_t report = {.end = TDG__DELIVERY_STATUS,
                                     .status = status,
                                     .error = "the server does not want it",
                                     .retry_after_ms = retry_after_ms,
                                     .sent = true};
    char *text = body != NULL ? error_text(sent->id, body) : NULL;
    tdg__rpc_message_t message = {0};

    if (text != NULL && read_message(text, &message))
        report.body = &message;
    free(text);
    end_delivery(sent, &report);
    tdg__rpc_message_done(&message);
    fake_run(f);
}

void fake_status(struct fake *f, struct fake_sent *sent, int status, const char *body) {
    end_with_status(f, sent, status, body, -1);
}

void fake_retry_after(struct fake *f, struct fake_sent *sent, int status, int64_t ms) {
    end_with_status(f, sent, status, NULL, ms);
}

void fake_opened(struct fake *f, struct fake_sent *sent) {
    if (sent->calls->opened != NULL)
        sent->calls->opened(sent->user, 200);
    fake_run(f);
}

void fake_says(struct fake *f, struct fake_sent *sent, const char *text) {
    tdg__rpc_message_t message;

    if (!read_message(text, &message)) {
        fake_broken(f, sent, TDG__DELIVERY_NO_MEMORY, true);
        return;
    }
    if (sent->calls->alive != NULL) /* as transports do, for the bytes of it */
        sent->calls->alive(sent->user);
    if (!sent->cancelled)
        sent->calls->message(sent->user, &message);
    tdg__rpc_message_done(&message);
    fake_run(f);
}

void fake_alive(struct fake *f, struct fake_sent *sent) {
    const struct fake_transport *transport = fake_transport(f);

    if (sent == NULL)
        transport->base.calls->alive(transport->base.user);
    else if (sent->calls->alive != NULL)
        sent->calls->alive(sent->user);
    fake_run(f);
}

void fake_retry(struct fake *f, struct fake_sent *sent, uint32_t ms) {
    if (sent->calls->retry != NULL)
        sent->calls->retry(sent->user, ms);
    fake_run(f);
}

void fake_event_id(struct fake *f, struct fake_sent *sent, const char *id) {
    sent->event_id(sent->user, id);
    fake_run(f);
}

struct fake_transport *fake_transport(struct fake *f) {
    assert_true(f->transport_count > 0);
    return f->transports[f->transport_count - 1];
}

void fake_tells(struct fake *f, const char *text) {
    tdg__transport_t *transport = &fake_transport(f)->base;
    tdg__rpc_message_t message;

    if (!read_message(text, &message))
        return;
    transport->calls->message(transport->user, &message);
    tdg__rpc_message_done(&message);
    fake_run(f);
}

void fake_lost(struct fake *f, const char *why) {
    const tdg__delivery_report_t report = {
        .end = TDG__DELIVERY_BROKEN, .error = why, .retry_after_ms = -1, .sent = true};
    struct fake_transport *transport = fake_transport(f);

    assert_true(transport->base.ops->shared);
    assert_false(transport->lost);
    transport->lost = true;
    for (size_t i = 0; i < f->sent_count; i++) {
        struct fake_sent *sent = f->sent[i];

        if (sent->transport == transport && !sent->over && !sent->cancelled)
            end_delivery(sent, &report);
    }
    if (!transport->closed)
        transport->base.calls->lost(transport->base.user, why);
    fake_run(f);
}

/* ---- What was told ------------------------------------------------------ */

struct fake_note *fake_note(struct fake *f) {
    struct fake_note *note = own(sizeof(*note));

    assert_true(f->note_count < FAKE_MAX_NOTES);
    f->notes = room(f->notes, f->note_count);
    f->notes[f->note_count++] = note;
    note->fake = f;
    return note;
}

static void write_note(struct fake_note *note, int code, json_t *result,
                       const tdg_failure_t *failure) {
    char *text;

    note->calls++;
    note->code = code;
    if (code != 0) {
        assert_non_null(failure);
        assert_int_equal(failure->code, code);
        note->rpc_code = failure->rpc_code;
        note->passing = failure->passing;
        note->http_status = failure->http_status;
        strcpy(note->message, failure->message);
    }
    if (result != NULL) {
        text = json_dumps(result, JSON_COMPACT | JSON_ENCODE_ANY);
        free(note->result);
        note->result = own_text(text);
        tdg__free(text);
    }
}

void fake_done(void *user, int code, json_t *result, const tdg_failure_t *failure) {
    write_note(user, code, result, failure);
}

void fake_asked(void *user, const tdg__outcome_t *outcome) {
    write_note(user, outcome->code, outcome->result, outcome->failure);
}

int fake_code(const struct fake_note *note) {
    assert_int_equal(note->calls, 1);
    return note->code;
}

char *fake_told(struct fake *f) {
    static const char *const kinds[] = {
        [TDG_EVENT_UPDATED] = "UPDATED", [TDG_EVENT_DELETED] = "DELETED",
        [TDG_EVENT_LOST] = "LOST",       [TDG_EVENT_LIST_CHANGED] = "LIST_CHANGED",
        [TDG_EVENT_DOWN] = "DOWN",       [TDG_EVENT_UP] = "UP",
        [TDG_EVENT_MESSAGE] = "MESSAGE", [TDG_EVENT_CLOSED] = "CLOSED",
    };
    char *text = own_text("");

    for (size_t i = 0; i < f->event_count; i++) {
        const tdg_event_t *event = f->events[i];

        add_text(&text, kinds[event->kind]);
        if (event->uri != NULL) {
            add_text(&text, " ");
            add_text(&text, event->uri);
        }
        add_text(&text, event->maybe ? " maybe\n" : "\n");
        tdg_event_free(f->events[i]);
    }
    f->event_count = 0;
    return text;
}

bool fake_logged(const struct fake *f, const char *part) {
    for (size_t i = 0; i < f->line_count; i++) {
        if (strstr(f->lines[i], part) != NULL)
            return true;
    }
    return false;
}

/* ---- As fixtures -------------------------------------------------------- */

int fake_setup_http(void **state) {
    fake_init(state_create(state, sizeof(struct fake)), TDG__TRANSPORT_HTTP);
    return 0;
}

int fake_setup_stdio(void **state) {
    fake_init(state_create(state, sizeof(struct fake)), TDG__TRANSPORT_STDIO);
    return 0;
}

int fake_teardown(void **state) {
    fake_end(*state);
    return state_destroy(state);
}

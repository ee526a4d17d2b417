/* SPDX-License-Identifier: MIT */
#include "transports.h"

#include <stdio.h>

static void copy_json(char ret[TRANSPORTS_TEXT], const json_t *json) {
    size_t len =
        json_dumpb(json, ret, TRANSPORTS_TEXT - 1, JSON_COMPACT | JSON_ENCODE_ANY);

    ret[len < TRANSPORTS_TEXT ? len : TRANSPORTS_TEXT - 1] = '\0';
}

static void copy_text(char ret[TRANSPORTS_TEXT], const char *text) {
    snprintf(ret, TRANSPORTS_TEXT, "%s", text != NULL ? text : "");
}

/* ---- The transport ----------------------------------------------------------- */

static void on_transport_closed(void *arg) {
    struct transports *w = arg;

    w->closed++;
    w->transport = NULL;
    w->closing = false;
}

void transports_begin_close(struct transports *w) {
    assert_false(w->closing);
    w->closing = true;
    w->transport->ops->close(w->transport, on_transport_closed, w);
    assert_non_null(w->transport); /* not from inside */
}

static void at(struct transports *w, enum moment moment) {
    assert_false(w->closing);
    if (w->close_at == moment)
        transports_begin_close(w);
}

static void on_message(void *user, tdg__rpc_message_t *message) {
    struct transports *w = user;

    copy_json(w->message[w->messages++ % TRANSPORTS_LOG], message->root);
    at(w, IN_MESSAGE);
}

static void on_lost(void *user, const char *why) {
    struct transports *w = user;

    w->lost++;
    copy_text(w->why, why);
    at(w, IN_LOST);
}

static void on_alive(void *user) {
    struct transports *w = user;

    w->alive++;
    at(w, IN_ALIVE);
}

static void on_retry(void *user, uint32_t ms) {
    struct transports *w = user;

    w->retries++;
    w->retry_ms = ms;
    at(w, IN_RETRY);
}

static void on_said(void *user, const char *line) {
    struct transports *w = user;

    w->said++;
    copy_text(w->word, line);
}

static void on_warn(void *user, const char *line) {
    struct transports *w = user;

    w->warned++;
    copy_text(w->warning, line);
}

const tdg__transport_calls_t transports_calls = {on_message, on_lost, on_alive,
                                                 on_retry,   on_said, on_warn};

void transports_opened(void *user, int code, const char *why) {
    struct transports *w = user;

    w->opened++;
    w->open_code = code;
    copy_text(w->why, why);
    at(w, IN_OPENED);
}

void transports_session_ended(void *user) {
    struct transports *w = user;

    w->sessions_ended++;
}

void transports_open(struct transports *w) {
    assert_int_equal(w->transport->ops->open(w->transport, transports_opened), 0);
    assert_int_equal(w->opened, 0);
    RUN_UNTIL(w, w->opened == 1);
    assert_int_equal(w->open_code, 0);
}

/* ---- Parcels ------------------------------------------------------------ */

static void note_at(struct note *note, enum moment moment) {
    assert_non_null(note->delivery);
    assert_false(note->w->closing);
    assert_int_equal(note->ended, 0);
    if (moment == NEVER)
        return;
    if (note->cancel_at == moment)
        transports_cancel(note);
    else if (note->w->close_at == moment)
        transports_begin_close(note->w);
}

static void note_opened(void *user, int status) {
    struct note *note = user;

    note->opened++;
    note->open_status = status;
    note_at(note, IN_OPENED);
}

static void note_message(void *user, tdg__rpc_message_t *message) {
    struct note *note = user;

    copy_json(note->message[note->messages++ % TRANSPORTS_LOG], message->root);
    note_at(note, IN_MESSAGE);
}

static void note_alive(void *user) {
    struct note *note = user;

    note->alive++;
    note_at(note, IN_ALIVE);
}

static void note_retry(void *user, uint32_t ms) {
    struct note *note = user;

    note->retries++;
    note->retry_ms = ms;
    note_at(note, IN_RETRY);
}

static void note_ended(void *user, const tdg__delivery_report_t *report) {
    struct note *note = user;

    note_at(note, NEVER);
    note->delivery = NULL;
    note->ended++;
    note->end = report->end;
    note->status = report->status;
    note->sent = report->sent;
    note->retry_after_ms = report->retry_after_ms;
    copy_text(note->error, report->error);
    if (report->body != NULL)
        copy_json(note->body, report->body->root);
    assert_true(report->end == TDG__DELIVERY_DONE ? report->error[0] == '\0'
                                                  : report->error[0] != '\0');
    assert_null(strchr(report->error, '\n'));
    if (note->w->close_at == IN_ENDED)
        transports_begin_close(note->w);
}

static const tdg__delivery_calls_t note_calls = {note_opened, note_message, note_alive,
                                                 note_retry, note_ended};

tdg__outgoing_t transports_parcel(const char *id, const char *method, const char *text) {
    return (tdg__outgoing_t){
        .id = id,
        .method = method,
        .text = text,
        .len = strlen(text),
        .version = TDG__V_LATEST_LEGACY,
        .timeout_ms = TRANSPORTS_PATIENCE_MS,
    };
}

static void begin(struct transports *w, struct note *note) {
    enum moment moment = note->cancel_at;

    *note = (struct note){.w = w, .cancel_at = moment};
}

void transports_send(struct transports *w, struct note *note,
                     const tdg__outgoing_t *out) {
    int rv;

    begin(w, note);
    rv = w->transport->ops->send(w->transport, out, &note_calls, note, &note->delivery);
    if (rv == TDG_ENOMEM && memory_failed()) {
        w->refused++;
        note->ended++;
        note->end = TDG__DELIVERY_NO_MEMORY;
        return;
    }
    assert_int_equal(rv, 0);
    assert_int_equal(note->ended + note->opened + note->messages, 0);
}

void transports_ask(struct transports *w, struct note *note, int id, const char *method,
                    const char *params) {
    char text[4096], id_text[16];
    tdg__outgoing_t out;

    snprintf(id_text, sizeof(id_text), "%d", id);
    snprintf(text, sizeof(text), "{'jsonrpc':'2.0','id':%d,'method':'%s'%s%s}", id,
             method, params != NULL ? ",'params':" : "", params != NULL ? params : "");
    for (char *c = text; *c != '\0'; c++)
        *c = *c == '\'' ? '"' : *c;
    out = transports_parcel(id_text, method, text);
    transports_send(w, note, &out);
}

static void on_id(void *user, const char *id) {
    struct note *note = user;

    note->w->ids++;
    copy_text(note->w->last_id, id);
}

void transports_listen(struct transports *w, struct note *note, const char *after,
                       tdg__version_t version) {
    begin(w, note);
    assert_int_equal(w->transport->ops->listen(w->transport, after, version, on_id,
                                               &note_calls, note, &note->delivery),
                     0);
}

void transports_cancel(struct note *note) {
    note->w->transport->ops->cancel(note->w->transport, note->delivery);
    note->delivery = NULL;
}

bool transports_has(const char *text, const char *part) {
    char *quoted = requote(part);
    bool found = strstr(text, quoted) != NULL;

    free(quoted);
    return found;
}

void transports_expect(struct note *note, tdg__delivery_end_t end, const char *part) {
    RUN_UNTIL(note->w, note->ended == 1);
    if (note->end != end)
        fail_msg("ended as %d, status %d: %s", (int)note->end, note->status, note->error);
    if (part == NULL)
        return;
    assert_int_not_equal(note->messages, 0);
    if (!transports_has(note->message[(note->messages - 1) % TRANSPORTS_LOG], part))
        fail_msg("%s is not in %s", part,
                 note->message[(note->messages - 1) % TRANSPORTS_LOG]);
}

/* ---- The world ---------------------------------------------------------- */

static void on_pulse(uv_timer_t *timer) {
    (void)timer;
}

void transports_init(struct transports *w) {
    assert_int_equal(uv_loop_init(&w->loop), 0);
    uv_timer_init(&w->loop, &w->pulse);
    uv_timer_start(&w->pulse, on_pulse, 10, 10);
}

void transports_close(struct transports *w) {
    if (!w->closing)
        transports_begin_close(w);
    RUN_UNTIL(w, w->transport == NULL);
}

void transports_done(struct transports *w) {
    if (w->transport != NULL)
        transports_close(w);
    uv_close((uv_handle_t *)&w->pulse, NULL);
    uv_run(&w->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&w->loop), 0);
}

void transports_run_ms(struct transports *w, uint64_t ms) {
    uint64_t until = uv_hrtime() + ms * 1000000;

    while (uv_hrtime() < until)
        uv_run(&w->loop, UV_RUN_ONCE);
}

/* SPDX-License-Identifier: MIT */
#include "unit/client/model.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "mcp/cursor.h"

uint32_t model_chance(struct model *m, uint32_t limit) {
    return roll(&m->f->dice, limit);
}

const char *model_uri(int i) {
    static char text[MODEL_URIS][8];

    snprintf(text[i], sizeof(text[i]), "r:%d", i);
    return text[i];
}

int model_index(const char *uri) {
    return uri != NULL && strncmp(uri, "r:", 2) == 0 ? atoi(uri + 2) : -1;
}

void model_trace(const struct model *m, const char *format, ...) {
    va_list args;

    if (getenv("TDG_TRACE") == NULL)
        return;
    va_start(args, format);
    fprintf(stderr, "%8" PRId64 " ", m->f->now);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
}

static void begin_session(struct model *m) {
    m->session = (struct model_session){.opens_with_id = model_chance(m, 2) == 0};
    m->stuck = false;
}

void model_init(struct model *m, struct fake *f, bool modern, bool ours) {
    *m = (struct model){
        .f = f, .modern = modern, .ours = ours, .faults = true, .epoch = 1};
    m->seen = f->sent_count;
    m->single = model_chance(m, 2) == 0;
    begin_session(m);
}

/* ---- Streams ------------------------------------------------------------ */

static bool is_open(const struct model_stream *stream) {
    return stream->sent != NULL && !stream->sent->over && !stream->sent->cancelled;
}

static struct model_stream *add_stream(struct model *m, struct fake_sent *sent) {
    for (int s = 0; s < MODEL_STREAMS; s++) {
        if (!is_open(&m->streams[s])) {
            m->streams[s] = (struct model_stream){
                .sent = sent, .serial = ++m->serials, .alive_ms = m->f->now};
            model_trace(m, "stream %d: %s", s, sent->text != NULL ? sent->text : "GET");
            return &m->streams[s];
        }
    }
    fail_msg("too many streams");
    return NULL;
}

/* Of a session: where notifications go. NULL: there is none. */
static struct model_stream *get_of(struct model *m) {
    struct model_stream *newest = NULL;

    for (int s = 0; s < MODEL_STREAMS; s++) {
        if (is_open(&m->streams[s]) &&
            (newest == NULL || m->streams[s].serial > newest->serial))
            newest = &m->streams[s];
    }
    return newest;
}

/* Messages arrive in the order in which they are sent. */
static struct model_message *post(struct model *m, struct model_stream *stream) {
    int64_t due = m->f->now + model_chance(m, MODEL_NETWORK_MS);
    struct model_message *message;

    if (stream->first == stream->end)
        stream->first = stream->end = 0;
    else if (stream->queue[stream->end - 1].due > due)
        due = stream->queue[stream->end - 1].due;
    assert_true(stream->end < MODEL_QUEUE);
    message = &stream->queue[stream->end++];
    *message = (struct model_message){.due = due};
    return message;
}

/* ---- What a server of ours looks after ---------------------------------- */

/* Everything up to here that concerns the feed was written. */
static struct model_cursor cursor_of(const struct model *m,
                                     const struct model_feed *feed) {
    struct model_cursor cursor = {m->epoch, m->number};

    for (int i = 0; i < MODEL_URIS; i++) {
        const struct model_flight *flight = &feed->flights[i];

        if (flight->used && flight->foreign)
            return (struct model_cursor){0, 0};
        if (flight->used && flight->first - 1 < cursor.number)
            cursor.number = flight->first - 1;
    }
    return cursor;
}

static void put(struct model *m, struct model_feed *feed, int i, uint64_t first,
                bool foreign) {
    struct model_flight *flight = &feed->flights[i];

    if (!flight->used)
        *flight =
            (struct model_flight){.used = true,
                                  .first = first,
                                  .due = m->f->now + model_chance(m, MODEL_BATCH_MS)};
    if (first < flight->first)
        flight->first = first;
    flight->foreign = flight->foreign || foreign;
    flight->version = m->number;
}

/* Returns whether it was possible to say what has changed since. */
static bool catch_up(struct model *m, struct model_feed *feed, unsigned uris,
                     const char *text) {
    struct model_cursor cursor = {0, 0};
    bool foreign = tdg__cursor_read(text, &cursor.epoch, &cursor.number) < 0 ||
                   cursor.epoch != m->epoch;

    for (int i = 0; i < MODEL_URIS; i++) {
        if ((uris & 1u << i) == 0)
            continue;
        feed->told[i] = foreign || m->version[i] > cursor.number;
        if (feed->told[i])
            put(m, feed, i, foreign ? 0 : cursor.number + 1, foreign);
    }
    return !foreign || model_chance(m, 2) == 0; /* what it is told will do */
}

static void go_back(struct model *m, struct model_cursor cursor) {
    struct model_session *session = &m->session;
    struct model_feed *feed = &session->feed;
    bool foreign;

    if (session->owes && cursor.epoch != session->owed.epoch)
        cursor = (struct model_cursor){0, 0};
    else if (session->owes && session->owed.number < cursor.number)
        cursor = session->owed;
    foreign = cursor.epoch != m->epoch;

    for (int i = 0; i < MODEL_URIS; i++) {
        uint64_t after = cursor.number > feed->began[i] ? cursor.number : feed->began[i];

        if ((feed->uris & 1u << i) == 0)
            continue;
        if (foreign)
            put(m, feed, i, 0, true);
        else if (feed->told[i] && cursor.number <= feed->began[i])
            put(m, feed, i, 1, false);
        else if (m->version[i] > after)
            put(m, feed, i, after + 1, false);
    }
    session->owes = true;
    session->owed = cursor;
    session->owed_events = session->events;
}

static void write_flights(struct model *m, struct model_stream *stream,
                          struct model_feed *feed) {
    for (int i = 0; i < MODEL_URIS; i++) {
        struct model_message *message;

        if (!feed->flights[i].used || feed->flights[i].due > m->f->now)
            continue;
        feed->flights[i].used = false;
        message = post(m, stream);
        message->kind = MODEL_UPDATE;
        message->uri = i;
        message->version = feed->flights[i].version;
        message->cursor = cursor_of(m, feed);
        message->stream = m->session.streams;
        message->event = ++m->session.events;
    }
}

/* ---- Changes ------------------------------------------------------------ */

static void write_foreign(struct model *m, struct model_stream *stream, int i) {
    for (int times = model_chance(m, 8) == 0 ? 2 : 1; times > 0; times--) {
        struct model_message *message = post(m, stream);

        message->kind = MODEL_UPDATE;
        message->uri = i;
    }
}

void model_change(struct model *m, int i) {
    struct model_stream *get = m->modern ? NULL : get_of(m);

    m->version[i] = ++m->number;
    if (!m->modern && (m->session.feed.uris & 1u << i)) {
        if (m->ours)
            put(m, &m->session.feed, i, m->number, false);
        else if (get != NULL)
            write_foreign(m, get, i);
    }
    for (int s = 0; m->modern && s < MODEL_STREAMS; s++) {
        struct model_stream *stream = &m->streams[s];

        if (!is_open(stream) || (stream->feed.uris & 1u << i) == 0)
            continue;
        if (m->ours)
            put(m, &stream->feed, i, m->number, false);
        else
            write_foreign(m, stream, i);
    }
}

/* ---- What arrives at the client ----------------------------------------- */

static void arrive_ack(struct model *m, const struct model_stream *stream,
                       const struct model_message *message, const char *meta) {
    char text[1024] = "{'notifications':{'resourceSubscriptions':[";
    size_t len = strlen(text);
    const char *comma = "";

    for (int i = 0; i < MODEL_URIS; i++) {
        if (stream->feed.uris & 1u << i) {
            len += (size_t)snprintf(text + len, sizeof(text) - len, "%s'%s'", comma,
                                    model_uri(i));
            comma = ",";
        }
    }
    snprintf(text + len, sizeof(text) - len, "]},'_meta':{%s%s%s}}", meta,
             m->ours ? ",'dev.tidings/keepAliveMs':1000" : "",
             !m->ours || !message->had_cursor ? ""
             : message->resumed               ? ",'dev.tidings/resumed':true"
                                              : ",'dev.tidings/resumed':false");
    play_notify(m->f, stream->sent, "notifications/subscriptions/acknowledged", text);
}

static void arrive_update(struct model *m, const struct model_stream *stream,
                          const struct model_message *message, const char *meta) {
    char text[200];

    if (message->cursor.epoch == 0)
        m->vague[message->uri] = true;
    snprintf(text, sizeof(text), "%s", meta);
    if (m->ours && message->version > 0)
        snprintf(text, sizeof(text), "%s,'dev.tidings/version':%" PRIu64, meta,
                 message->version);
    play_update(m->f, stream->sent, model_uri(message->uri), text);
    if (message->cursor.epoch != 0)
        m->vague[message->uri] = false;
}

static void arrive(struct model *m, struct model_stream *stream) {
    static const char *const kinds[] = {"acknowledged", "update", "opening"};
    const struct model_message message = stream->queue[stream->first++];
    const tdg__event_id_t parts = {
        .stream = message.stream,
        .event = message.event,
        .epoch = message.cursor.epoch,
        .number = message.cursor.number,
    };
    char cursor[TDG__CURSOR_MAX + 1], meta[100] = "", id[TDG__EVENT_ID_MAX + 1];

    cursor[tdg__cursor_put(cursor, message.cursor.epoch, message.cursor.number)] = '\0';
    model_trace(m, "stream %d: %s %s, version %" PRIu64 ", cursor %s",
                (int)(stream - m->streams), kinds[message.kind],
                message.kind == MODEL_UPDATE ? model_uri(message.uri) : "",
                message.version, cursor);
    if (m->ours)
        snprintf(meta, sizeof(meta), "'dev.tidings/cursor':'%s'", cursor);
    if (message.kind == MODEL_ACK)
        arrive_ack(m, stream, &message, meta);
    else if (message.kind == MODEL_UPDATE)
        arrive_update(m, stream, &message, meta);

    if (!m->modern && m->ours && is_open(stream)) {
        id[tdg__event_id_put(id, &parts)] = '\0';
        fake_event_id(m->f, stream->sent, id);
    }
}

static void answer_due(struct model *m) {
    for (int i = 0; i < MODEL_ANSWERS; i++) {
        struct fake_sent *sent = m->answers[i].sent;

        if (sent == NULL || m->answers[i].due > m->f->now)
            continue;
        m->answers[i].sent = NULL;
        model_trace(m, "answer %s to %s", m->answers[i].result, sent->text);
        if (sent->over || sent->cancelled)
            continue;
        if (m->answers[i].result[0] != '\0')
            fake_result(m->f, sent, m->answers[i].result);
        else
            fake_broken(m->f, sent, TDG__DELIVERY_BROKEN, true);
    }
}

void model_write(struct model *m) {
    struct model_stream *get = m->modern ? NULL : get_of(m), *next;

    if (get != NULL)
        write_flights(m, get, &m->session.feed);
    for (int s = 0; m->modern && s < MODEL_STREAMS; s++) {
        if (is_open(&m->streams[s]))
            write_flights(m, &m->streams[s], &m->streams[s].feed);
    }
    do {
        next = NULL;
        for (int s = 0; s < MODEL_STREAMS; s++) {
            struct model_stream *stream = &m->streams[s];

            if (stream->frozen)
                stream->first = stream->end = 0;
            if (is_open(stream) && stream->first < stream->end &&
                stream->queue[stream->first].due <= m->f->now &&
                (next == NULL ||
                 stream->queue[stream->first].due < next->queue[next->first].due))
                next = stream;
        }
        if (next != NULL)
            arrive(m, next);
    } while (next != NULL);
    for (int s = 0; m->ours && s < MODEL_STREAMS; s++) {
        struct model_stream *stream = &m->streams[s];

        if (!is_open(stream) || stream->frozen ||
            m->f->now - stream->alive_ms < MODEL_KEEPALIVE_MS)
            continue;
        stream->alive_ms = m->f->now;
        fake_alive(m->f, stream->sent);
    }
    answer_due(m);
}

/* ---- Requests ----------------------------------------------------------- */

static unsigned bits_of(const json_t *uris) {
    unsigned bits = 0;

    for (size_t i = 0; i < json_array_size(uris); i++)
        bits |= 1u << model_index(json_string_value(json_array_get(uris, i)));
    return bits;
}

static void take_listen(struct model *m, struct model_stream *stream) {
    json_t *params = fake_params(stream->sent);
    json_t *meta = json_object_get(params, "_meta");
    const char *cursor = json_string_value(json_object_get(meta, "dev.tidings/cursor"));
    unsigned fresh = bits_of(json_object_get(json_object_get(meta, "dev.tidings/fresh"),
                                             "resourceSubscriptions"));
    struct model_message *ack;
    bool resumed = false;

    fake_opened(m->f, stream->sent);
    stream->feed.uris = bits_of(json_object_get(json_object_get(params, "notifications"),
                                                "resourceSubscriptions"));
    for (int i = 0; i < MODEL_URIS; i++) {
        if (m->faults && model_chance(m, 40) == 0)
            stream->feed.uris &= ~(1u << i);
    }
    if (m->ours && cursor != NULL)
        resumed = catch_up(m, &stream->feed, stream->feed.uris & ~fresh, cursor);
    ack = post(m, stream);
    ack->kind = MODEL_ACK;
    ack->had_cursor = cursor != NULL;
    ack->resumed = resumed;
    ack->cursor = cursor_of(m, &stream->feed);
    json_decref(params);
}

static void take_get(struct model *m, struct model_stream *stream) {
    struct model_session *session = &m->session;
    const char *text = stream->sent->text;
    tdg__event_id_t id;

    if (m->ours && text == NULL && session->events > session->began_events) {
        session->owes = false;
        go_back(m, session->began);
    } else if (m->ours && text != NULL) {
        assert_int_equal(tdg__event_id_read(text, &id), 0);
        if (id.event > session->owed_events)
            session->owes = false;
        if (id.stream != session->streams || id.event != session->events)
            go_back(m, (struct model_cursor){id.epoch, id.number});
    }
    session->streams++;
    session->began = cursor_of(m, &session->feed);
    session->began_events = session->events;
    if (m->ours && session->opens_with_id) {
        struct model_message *opening = post(m, stream);

        opening->kind = MODEL_OPENING;
        opening->stream = session->streams;
        opening->cursor = session->began;
    }
    fake_opened(m->f, stream->sent);
}

/* NULL: it is lost. */
static void answer(struct model *m, struct fake_sent *sent, const char *result) {
    for (int i = 0; i < MODEL_ANSWERS; i++) {
        if (m->answers[i].sent != NULL)
            continue;
        m->answers[i].sent = sent;
        m->answers[i].due = m->f->now + model_chance(m, MODEL_NETWORK_MS);
        snprintf(m->answers[i].result, sizeof(m->answers[i].result), "%s",
                 m->faults && model_chance(m, 25) == 0 ? "" : result);
        return;
    }
    fail_msg("too many answers");
}

static void take_subscribe(struct model *m, struct fake_sent *sent) {
    json_t *params = fake_params(sent);
    int i = model_index(json_string_value(json_object_get(params, "uri")));
    const char *cursor = json_string_value(
        json_object_get(json_object_get(params, "_meta"), "dev.tidings/cursor"));
    struct model_feed *feed = &m->session.feed;
    char result[200] = "{}", text[TDG__CURSOR_MAX + 1];
    struct model_cursor now;
    bool resumed = true;

    if (m->faults && model_chance(m, 30) == 0) {
        json_decref(params);
        fake_error(m->f, sent, model_chance(m, 2) != 0 ? -32603 : -32002, "no", NULL);
        return;
    }
    if ((feed->uris & 1u << i) == 0)
        feed->told[i] = false;
    if (m->ours && cursor != NULL)
        resumed = catch_up(m, feed, 1u << i, cursor);
    if ((feed->uris & 1u << i) == 0 || cursor != NULL)
        feed->began[i] = m->number;
    feed->uris |= 1u << i;
    if (m->ours && cursor != NULL) {
        now = cursor_of(m, feed);
        text[tdg__cursor_put(text, now.epoch, now.number)] = '\0';
        snprintf(result, sizeof(result),
                 "{'_meta':{'dev.tidings/cursor':'%s','dev.tidings/resumed':%s}}", text,
                 resumed ? "true" : "false");
    }
    json_decref(params);
    answer(m, sent, result);
}

static void take_unsubscribe(struct model *m, struct fake_sent *sent) {
    json_t *params = fake_params(sent);
    int i = model_index(json_string_value(json_object_get(params, "uri")));

    m->session.feed.uris &= ~(1u << i);
    m->session.feed.flights[i].used = false;
    json_decref(params);
    answer(m, sent, "{}");
}

/* What the content is shows which change was the last. */
static void take_read(struct model *m, struct fake_sent *sent) {
    json_t *params = fake_params(sent);
    int i = model_index(json_string_value(json_object_get(params, "uri")));
    char result[200];

    snprintf(result, sizeof(result),
             "{'contents':[{'uri':'%s','text':'%" PRIu64 "-%" PRIu64 "'}]}", model_uri(i),
             m->epoch, m->version[i]);
    json_decref(params);
    answer(m, sent, result);
}

void model_initialize(struct model *m, struct fake_sent *sent) {
    char result[300];

    begin_session(m);
    snprintf(result, sizeof(result),
             "{'protocolVersion':'2025-11-25','capabilities':{'resources':"
             "{'subscribe':true}},'serverInfo':{'name':'model','version':'1'}%s}",
             m->ours ? ",'_meta':{'dev.tidings/keepAliveMs':1000}" : "");
    fake_result(m->f, sent, result);
}

static bool is_taken(const struct model *m, const struct fake_sent *sent) {
    bool get = strcmp(sent->method, "GET") == 0;

    if (sent->over || sent->cancelled || (sent->id == NULL && !get))
        return true;
    for (int s = 0; s < MODEL_STREAMS; s++) {
        if (m->streams[s].sent == sent)
            return true;
    }
    for (int i = 0; i < MODEL_ANSWERS; i++) {
        if (m->answers[i].sent == sent)
            return true;
    }
    return false;
}

void model_take(struct model *m) {
    for (size_t n = m->seen; n < m->f->sent_count; n++) {
        struct fake_sent *sent = m->f->sent[n];
        bool taken = is_taken(m, sent);

        if (taken && n == m->seen)
            m->seen++;
        if (taken || (m->faults && model_chance(m, 3) == 0))
            continue;

        if (m->unknown)
            fake_broken(m->f, sent, TDG__DELIVERY_NO_SESSION, true);
        else if (m->faults && model_chance(m, 25) == 0)
            fake_broken(m->f, sent, TDG__DELIVERY_AWAY, false);
        else if (strcmp(sent->method, LISTEN) == 0)
            take_listen(m, add_stream(m, sent));
        else if (strcmp(sent->method, "GET") == 0 && m->single && !m->ours &&
                 (m->stuck || get_of(m) != NULL))
            fake_status(m->f, sent, 409, NULL);
        else if (strcmp(sent->method, "GET") == 0)
            take_get(m, add_stream(m, sent));
        else if (strcmp(sent->method, "resources/read") == 0)
            take_read(m, sent);
        else if (strcmp(sent->method, "resources/subscribe") == 0)
            take_subscribe(m, sent);
        else if (strcmp(sent->method, "resources/unsubscribe") == 0)
            take_unsubscribe(m, sent);
        m->unknown = false;
        return;
    }
}

/* ---- Losses ------------------------------------------------------------- */

/* The result comes after all that was written. */
static void complete(struct model *m, struct model_stream *stream) {
    while (is_open(stream) && stream->first < stream->end)
        arrive(m, stream);
    if (is_open(stream))
        fake_result(m->f, stream->sent, "{'resultType':'complete'}");
}

void model_break(struct model *m, bool all) {
    for (int s = 0; s < MODEL_STREAMS; s++) {
        struct model_stream *stream = &m->streams[s];

        if (!is_open(stream) || (!all && model_chance(m, 3) != 0))
            continue;
        model_trace(m, "stream %d breaks", s);
        if (m->modern && !stream->frozen && model_chance(m, 3) == 0)
            complete(m, stream);
        else
            fake_broken(m->f, stream->sent, TDG__DELIVERY_BROKEN, true);
    }
}

void model_freeze(struct model *m) {
    for (int s = 0; s < MODEL_STREAMS; s++) {
        struct model_stream *stream = &m->streams[s];

        if (!is_open(stream) || model_chance(m, 2) != 0)
            continue;
        model_trace(m, "stream %d freezes", s);
        stream->frozen = true;
        m->stuck = m->stuck || m->single;
    }
}

/* Whatever is asked in the session gets to know it. */
void model_forget(struct model *m) {
    struct fake_sent *sent;

    model_trace(m, "the session is forgotten");
    begin_session(m);
    model_break(m, true);
    for (int i = 0; i < 50 && fake_seek(m->f, "GET") == NULL; i++)
        fake_pass(m->f, 1000);
    sent = fake_seek(m->f, "GET");
    if (sent != NULL)
        fake_broken(m->f, sent, TDG__DELIVERY_NO_SESSION, true);
    m->unknown = sent == NULL;
}

void model_restart(struct model *m) {
    model_break(m, true);
    m->epoch++;
    m->number = 0;
    memset(m->version, 0, sizeof(m->version));
    if (m->fickle && model_chance(m, 2) == 0)
        m->ours = !m->ours;
    if (!m->modern)
        model_forget(m);
}

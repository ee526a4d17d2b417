/* SPDX-License-Identifier: MIT
 *
 * The promise of the client, beside a model server that does everything to break it:
 * streams that end, answers that are late, updates that are repeated or come in another
 * order, restarts, refusals; in both eras, as one of ours (versions and cursors) and as a
 * foreign one. Time is simulated. After some quiet, whatever is subscribed has been told
 * at or after its last change; versions have never gone back; and nothing was told about
 * what was unsubscribed from. */
#include <inttypes.h>
#include <stdio.h>

#include <tidings/error.h>

#include "mcp/cursor.h"
#include "unit/client/play.h"

enum {
    URIS = 10,
    STREAMS = 64,
    PENDING = 256,
    STEPS = 400,
    NETWORK_MS = 80, /* the longest that a message is on its way */
    BATCH_MS = 400,  /* the longest that a server of ours holds it back */
};

/* A message on its way to the client. */
struct pending {
    bool used, ack;
    int uri;
    int64_t version, due;
    bool resumed, had_cursor;
};

/* A stream as the server sees it: a listen, or the GET stream of a session. */
struct stream {
    struct fake_sent *sent;
    bool known; /* the server has taken it */
    unsigned uris;
    struct pending pending[PENDING];
};

static struct sim {
    struct fake *f;
    bool modern, ours, faults;
    uint64_t epoch, number; /* of ours */
    int session;            /* legacy: grows with every one */
    unsigned session_uris;
    int64_t session_cursor;
    int64_t version[URIS]; /* of the last change, in this epoch */
    struct stream streams[STREAMS];
    size_t seen; /* of f->sent, by the server */

    uint64_t clock; /* counts changes, tellings and subscribes */
    bool subscribed[URIS];
    uint64_t changed[URIS], told[URIS], since[URIS];
    int64_t told_version[URIS];
    struct fake_note *asked[URIS];
} sim;

static uint32_t chance(uint32_t limit) {
    return roll(&sim.f->dice, limit);
}

static const char *uri_of(int i) {
    static char text[URIS][8];

    snprintf(text[i], sizeof(text[i]), "r:%d", i);
    return text[i];
}

static int index_of(const char *uri) {
    return uri != NULL && strncmp(uri, "r:", 2) == 0 ? atoi(uri + 2) : -1;
}

/* ---- What the client tells ---------------------------------------------- */

static void on_event(void *user, tdg_event_t *event) {
    int i = index_of(event->uri);

    (void)user;
    if (event->kind == TDG_EVENT_LOST) {
        sim.subscribed[i] = false;
        sim.told_version[i] = 0; /* one that is made anew starts anew */
    } else if (i >= 0) {
        assert_non_null(tdg__subs_find(sim.f->core, event->uri));
        sim.told[i] = ++sim.clock;
        if (event->version > 0) {
            assert_true(event->version > sim.told_version[i]);
            sim.told_version[i] = event->version;
        }
    }
    tdg_event_free(event);
}

static void on_forget(void *user, const char *uri) {
    (void)user;
    (void)uri;
}

/* ---- The server --------------------------------------------------------- */

static bool is_open(const struct stream *stream) {
    return stream->sent != NULL && !stream->sent->over && !stream->sent->cancelled;
}

static struct pending *find_pending(struct stream *stream, int uri) {
    for (int i = 0; i < PENDING; i++) {
        struct pending *pending = &stream->pending[i];

        if (uri < 0 ? !pending->used
                    : pending->used && !pending->ack && pending->uri == uri)
            return pending;
    }
    return NULL;
}

/* Foreign servers write at once, in order; ours hold back, merge and overtake. */
static void put(struct stream *stream, int uri, int64_t version) {
    struct pending *pending = sim.ours ? find_pending(stream, uri) : NULL;
    int64_t latest = sim.f->now;

    if (pending != NULL) {
        pending->version = version;
        return;
    }
    for (int i = 0; i < PENDING; i++) {
        if (stream->pending[i].used && stream->pending[i].due > latest &&
            (!sim.ours || stream->pending[i].ack))
            latest = stream->pending[i].due;
    }
    pending = find_pending(stream, -1);
    assert_non_null(pending);
    *pending = (struct pending){.used = true, .uri = uri, .version = version};
    pending->due = sim.ours ? latest + chance(BATCH_MS) : sim.f->now + chance(NETWORK_MS);
    if (pending->due < latest)
        pending->due = latest;
}

/* Everything up to here that concerns the stream was written. */
static int64_t low_water(const struct stream *stream) {
    int64_t low = (int64_t)sim.number;

    for (int i = 0; i < PENDING; i++) {
        const struct pending *pending = &stream->pending[i];

        if (pending->used && !pending->ack && pending->version - 1 < low)
            low = pending->version - 1;
    }
    return low;
}

static void change(int i) {
    sim.changed[i] = ++sim.clock;
    sim.version[i] = (int64_t)++sim.number;
    for (int s = 0; s < STREAMS; s++) {
        struct stream *stream = &sim.streams[s];
        unsigned uris = sim.modern ? stream->uris : sim.session_uris;

        if (!is_open(stream) || !stream->known || (uris & 1u << i) == 0)
            continue;
        put(stream, i, sim.version[i]);
        if (!sim.ours && chance(8) == 0)
            put(stream, i, sim.version[i]);
        if (!sim.modern)
            break; /* one GET stream gets it */
    }
}

/* What changed since a cursor waits for the stream. Returns whether that is known. */
static bool catch_up(struct stream *stream, unsigned uris, const char *cursor) {
    uint64_t epoch = 0, number = 0;
    bool known = cursor != NULL && tdg__cursor_read(cursor, &epoch, &number) == 0 &&
                 epoch == sim.epoch;

    for (int i = 0; i < URIS; i++) {
        if ((uris & 1u << i) == 0)
            continue;
        if (!known && cursor != NULL)
            sim.version[i] = (int64_t)++sim.number;
        if (cursor != NULL && (!known || sim.version[i] > (int64_t)number))
            put(stream, i, sim.version[i]);
    }
    return known;
}

static void take_listen(struct stream *stream) {
    json_t *params = fake_params(stream->sent);
    json_t *uris = json_object_get(json_object_get(params, "notifications"),
                                   "resourceSubscriptions");
    const char *cursor = json_string_value(
        json_object_get(json_object_get(params, "_meta"), "dev.tidings/cursor"));
    struct pending *ack = &stream->pending[0];

    fake_opened(sim.f, stream->sent);
    stream->known = true;
    for (size_t i = 0; i < json_array_size(uris); i++) {
        if (!sim.faults || chance(40) != 0)
            stream->uris |= 1u << index_of(json_string_value(json_array_get(uris, i)));
    }
    *ack = (struct pending){.used = true, .ack = true, .had_cursor = cursor != NULL};
    ack->due = sim.f->now + chance(NETWORK_MS);
    if (sim.ours)
        ack->resumed = catch_up(stream, stream->uris, cursor);
    json_decref(params);
}

static void write_meta(char *text, size_t size, const struct stream *stream,
                       const struct pending *pending) {
    char cursor[TDG__CURSOR_MAX + 1];

    text[0] = '\0';
    if (!sim.ours)
        return;
    cursor[tdg__cursor_put(cursor, sim.epoch, (uint64_t)low_water(stream))] = '\0';
    if (pending->ack)
        snprintf(text, size, "'dev.tidings/cursor':'%s'%s", cursor,
                 !pending->had_cursor ? ""
                 : pending->resumed   ? ",'dev.tidings/resumed':true"
                                      : ",'dev.tidings/resumed':false");
    else
        snprintf(text, size, "'dev.tidings/cursor':'%s','dev.tidings/version':%" PRId64,
                 cursor, pending->version);
}

static void write_ack(struct stream *stream, const char *meta) {
    char text[1024] = "{'notifications':{'resourceSubscriptions':[";
    size_t len = strlen(text);
    bool first = true;

    for (int i = 0; i < URIS; i++) {
        if (stream->uris & 1u << i) {
            len += (size_t)snprintf(text + len, sizeof(text) - len, "%s'%s'",
                                    first ? "" : ",", uri_of(i));
            first = false;
        }
    }
    snprintf(text + len, sizeof(text) - len, "]},'_meta':{%s}}", meta);
    play_notify(sim.f, stream->sent, "notifications/subscriptions/acknowledged", text);
}

static void deliver(struct stream *stream, struct pending *pending) {
    struct pending copy = *pending;
    char meta[200];
    char id[TDG__EVENT_ID_MAX + 1];
    tdg__event_id_t parts = {.stream = 1, .event = 1, .epoch = sim.epoch};

    pending->used = false;
    write_meta(meta, sizeof(meta), stream, &copy);
    if (copy.ack) {
        write_ack(stream, meta);
        return;
    }
    play_update(sim.f, stream->sent, uri_of(copy.uri), meta);
    if (!sim.modern && sim.ours && is_open(stream)) {
        parts.number = (uint64_t)low_water(stream);
        sim.session_cursor = (int64_t)parts.number;
        id[tdg__event_id_put(id, &parts)] = '\0';
        fake_event_id(sim.f, stream->sent, id);
    }
}

static void deliver_due(void) {
    for (;;) {
        struct stream *from = NULL;
        struct pending *next = NULL;

        for (int s = 0; s < STREAMS; s++) {
            for (int i = 0; is_open(&sim.streams[s]) && i < PENDING; i++) {
                struct pending *pending = &sim.streams[s].pending[i];

                if (pending->used && pending->due <= sim.f->now &&
                    (next == NULL || pending->due < next->due)) {
                    next = pending;
                    from = &sim.streams[s];
                }
            }
        }
        if (next == NULL)
            return;
        deliver(from, next);
    }
}

static struct stream *add_stream(struct fake_sent *sent) {
    for (int s = 0; s < STREAMS; s++) {
        if (!is_open(&sim.streams[s])) {
            sim.streams[s] = (struct stream){.sent = sent};
            return &sim.streams[s];
        }
    }
    fail_msg("too many streams");
    return NULL;
}

/* The GET stream: a session of ours goes on where it was, or where the client says. */
static void take_get(struct stream *stream) {
    tdg__event_id_t parts;
    char cursor[TDG__CURSOR_MAX + 1];

    stream->known = true;
    if (sim.ours) {
        uint64_t number = (uint64_t)sim.session_cursor;

        if (stream->sent->text != NULL &&
            tdg__event_id_read(stream->sent->text, &parts) == 0)
            number = parts.number;
        cursor[tdg__cursor_put(cursor, sim.epoch, number)] = '\0';
        catch_up(stream, sim.session_uris, cursor);
    }
    fake_opened(sim.f, stream->sent);
}

static struct stream *newest_get(void) {
    struct stream *newest = NULL;

    for (int s = 0; s < STREAMS; s++) {
        if (is_open(&sim.streams[s]) && sim.streams[s].known)
            newest = &sim.streams[s];
    }
    return newest;
}

static void take_subscribe(struct fake_sent *sent) {
    json_t *params = fake_params(sent);
    int i = index_of(json_string_value(json_object_get(params, "uri")));
    const char *cursor = json_string_value(
        json_object_get(json_object_get(params, "_meta"), "dev.tidings/cursor"));
    struct stream *get = newest_get();
    bool known = false, had = cursor != NULL;

    if (sim.faults && chance(30) == 0) {
        json_decref(params);
        fake_error(sim.f, sent, chance(2) != 0 ? -32603 : -32002, "no", NULL);
        return;
    }
    sim.session_uris |= 1u << i;
    if (sim.ours && had && get != NULL)
        known = catch_up(get, 1u << i, cursor);
    json_decref(params);
    fake_result(sim.f, sent,
                !(sim.ours && had) ? "{}"
                : known            ? "{'_meta':{'dev.tidings/resumed':true}}"
                                   : "{'_meta':{'dev.tidings/resumed':false}}");
}

static void take_unsubscribe(struct fake_sent *sent) {
    json_t *params = fake_params(sent);
    int i = index_of(json_string_value(json_object_get(params, "uri")));

    sim.session_uris &= ~(1u << i);
    json_decref(params);
    fake_result(sim.f, sent, "{}");
}

/* One of the requests that were not taken yet, in any order. */
static void take_request(void) {
    for (size_t n = sim.seen; n < sim.f->sent_count; n++) {
        struct fake_sent *sent = sim.f->sent[n];
        bool stream =
            strcmp(sent->method, LISTEN) == 0 || strcmp(sent->method, "GET") == 0;
        bool taken = sent->over || sent->cancelled || sent->id == NULL;

        if (strcmp(sent->method, "GET") == 0)
            taken = sent->over || sent->cancelled;
        for (int s = 0; stream && s < STREAMS; s++)
            taken = taken || sim.streams[s].sent == sent;
        if (taken && n == sim.seen)
            sim.seen++;
        if (taken || (sim.faults && chance(3) == 0))
            continue;

        if (sim.faults && chance(25) == 0)
            fake_broken(sim.f, sent, TDG__CARRY_AWAY, false);
        else if (strcmp(sent->method, LISTEN) == 0)
            take_listen(add_stream(sent));
        else if (strcmp(sent->method, "GET") == 0)
            take_get(add_stream(sent));
        else if (strcmp(sent->method, "resources/subscribe") == 0)
            take_subscribe(sent);
        else if (strcmp(sent->method, "resources/unsubscribe") == 0)
            take_unsubscribe(sent);
        return;
    }
}

static void break_stream(bool all) {
    for (int s = 0; s < STREAMS; s++) {
        struct stream *stream = &sim.streams[s];

        if (!is_open(stream) || (!all && chance(3) != 0))
            continue;
        if (sim.modern && chance(3) == 0)
            fake_result(sim.f, stream->sent, "{'resultType':'complete'}");
        else
            fake_broken(sim.f, stream->sent,
                        chance(2) != 0 ? TDG__CARRY_BROKEN : TDG__CARRY_QUIET, true);
    }
}

/* The session is gone: whatever is asked in it gets to know that. */
static void end_session(void) {
    struct fake_sent *sent;

    sim.session++;
    sim.session_uris = 0;
    sim.session_cursor = (int64_t)sim.number;
    for (int s = 0; s < STREAMS; s++) {
        if (is_open(&sim.streams[s]))
            fake_broken(sim.f, sim.streams[s].sent, TDG__CARRY_BROKEN, true);
    }
    for (int i = 0; i < 50 && (sent = fake_seek(sim.f, "GET")) == NULL; i++)
        fake_pass(sim.f, 1000);
    sent = fake_seek(sim.f, "GET");
    if (sent != NULL)
        fake_broken(sim.f, sent, TDG__CARRY_NO_SESSION, true);
}

static void restart(void) {
    sim.epoch++;
    sim.number = 0;
    memset(sim.version, 0, sizeof(sim.version));
    memset(sim.told_version, 0, sizeof(sim.told_version));
    if (sim.modern)
        break_stream(true);
    else
        end_session();
}

/* ---- The client --------------------------------------------------------- */

static void note_subscribed(void *user, int code, json_t *result,
                            const tdg_failure_t *failure) {
    int i = (int)(intptr_t)user;

    (void)result;
    (void)failure;
    sim.asked[i] = NULL;
    if (code == 0 && tdg__subs_find(sim.f->core, uri_of(i)) != NULL) {
        if (!sim.subscribed[i])
            sim.since[i] = ++sim.clock;
        sim.subscribed[i] = true;
    }
}

static void ignore_done(void *user, int code, json_t *result,
                        const tdg_failure_t *failure) {
    (void)user;
    (void)code;
    (void)result;
    (void)failure;
}

static void subscribe(int i) {
    const tdg_subscribe_opts_t opts = {.batch_ms = chance(4) == 0 ? 50 : 0};
    const char *uri = uri_of(i);

    tdg__core_subscribe(sim.f->core, &uri, 1, &opts, NULL, note_subscribed,
                        (void *)(intptr_t)i);
}

static void unsubscribe(int i) {
    sim.subscribed[i] = false;
    sim.told_version[i] = 0;
    tdg__core_unsubscribe(sim.f->core, uri_of(i), ignore_done, NULL);
    assert_null(tdg__subs_find(sim.f->core, uri_of(i)));
}

/* ---- A run -------------------------------------------------------------- */

static void pass(int64_t ms) {
    int64_t end = sim.f->now + ms, piece = sim.faults ? 5 : 40;

    while (sim.f->now < end) {
        fake_pass(sim.f, end - sim.f->now < piece ? end - sim.f->now : piece);
        deliver_due();
    }
}

static void step(void) {
    switch (chance(16)) {
    case 0:
        subscribe((int)chance(URIS));
        break;
    case 1:
        if (chance(3) == 0)
            unsubscribe((int)chance(URIS));
        break;
    case 2:
        if (chance(4) == 0)
            break_stream(false);
        break;
    case 3:
        if (chance(20) == 0)
            restart();
        else if (!sim.modern && chance(20) == 0)
            end_session();
        break;
    case 4:
    case 5:
    case 6:
        change((int)chance(URIS));
        break;
    case 7:
    case 8:
    case 9:
    case 10:
        take_request();
        break;
    default:
        pass(chance(chance(10) == 0 ? 2000 : 60));
    }
    fake_run(sim.f);
    deliver_due();
}

static void quiet(void) {
    sim.faults = false;
    for (int i = 0; i < 200; i++) {
        for (int n = 0; n < 40; n++)
            take_request();
        pass(500);
    }
}

static void check(void) {
    for (int i = 0; i < URIS; i++) {
        const tdg__sub_t *sub = tdg__subs_find(sim.f->core, uri_of(i));

        assert_int_equal(sub != NULL, sim.subscribed[i]);
        if (!sim.subscribed[i] || sim.changed[i] < sim.since[i])
            continue;
        if (sim.told[i] < sim.changed[i])
            fail_msg("a change of %s was missed", uri_of(i));
    }
}

static void run(uint64_t seed, bool modern, bool ours) {
    void *state = NULL;
    struct fake *f = state_create(&state, sizeof(*f));

    memset(&sim, 0, sizeof(sim));
    sim.f = f;
    sim.modern = modern;
    sim.ours = ours;
    sim.faults = true;
    sim.epoch = 1;
    fake_init(f, TDG__WIRE_HTTP);
    f->dice.seed = f->dice.state = seed;
    assert_int_equal(fake_create(f), 0);
    f->core->opts.event = on_event;
    f->core->opts.forget = on_forget;
    fake_up(f, modern ? TDG_ERA_MODERN : TDG_ERA_LEGACY);
    sim.seen = f->sent_count;

    for (int i = 0; i < STEPS; i++)
        step();
    quiet();
    check();
    fake_end(f);
    state_destroy(&state);
}

static void keeps_it(bool modern, bool ours) {
    struct dice dice = dice_from_env();
    const char *runs = getenv("TDG_RUNS");
    int count = getenv("TDG_SEED") != NULL ? 1 : runs != NULL ? atoi(runs) : 40;

    for (int i = 0; i < count; i++) {
        if (getenv("TDG_VERBOSE") != NULL)
            print_message("TDG_SEED=%" PRIu64 "\n", dice.seed + (uint64_t)i);
        run(dice.seed + (uint64_t)i, modern, ours);
    }
}

static void modern_ours(void **state) {
    (void)state;
    keeps_it(true, true);
}

static void modern_foreign(void **state) {
    (void)state;
    keeps_it(true, false);
}

static void legacy_ours(void **state) {
    (void)state;
    keeps_it(false, true);
}

static void legacy_foreign(void **state) {
    (void)state;
    keeps_it(false, false);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(modern_ours),
        cmocka_unit_test(modern_foreign),
        cmocka_unit_test(legacy_ours),
        cmocka_unit_test(legacy_foreign),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("client_promise", tests, NULL, NULL);
}

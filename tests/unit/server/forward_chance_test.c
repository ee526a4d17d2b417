/* SPDX-License-Identifier: MIT
 *
 * Sessions by chance, over connections that the kernel gives to any worker: requests one
 * by one and pipelined, subscriptions, streams that break and resume, resets in the
 * middle, ends of sessions. Who stays gets every answer, in order; a stream learns the
 * last change of all that its session is subscribed to, and nothing that was caused after
 * an unsubscribe was acknowledged. TDG_SEED chooses another run. */
#include <stdio.h>

#include "served.h"
#include "server/context/context.h"
#include "server/mcp/session.h"

enum { WORKERS = 3, SESSIONS = 6, CONNS = 8, STEPS = 1500, ROUNDS = 2, PIPELINED = 6 };

static const char *const uris[] = {"a:1", "a:2", "t:1", "t:2", "t:3"};

enum { URIS = COUNT(uris) };

struct session {
    struct client stream; /* `session` is its id */
    bool has_stream;
    char last_id[64]; /* of the last event that was read */
    bool subscribed[URIS];
    int from[URIS];  /* the first change that counts for this subscription */
    int until[URIS]; /* unsubscribed: the last change that may arrive */
    int seen[URIS];
};

struct chance {
    struct served served;
    struct dice dice;
    struct session sessions[SESSIONS];
    struct client conns[CONNS];
    int published[URIS]; /* the number of the last change of each */
    int number;          /* of the last change */
    unsigned answers, updates, resets, resumed, ended, elsewhere; /* so the test is one */
};

static struct client *any_conn(struct chance *chance, struct session *session) {
    struct client *conn = &chance->conns[roll(&chance->dice, CONNS)];

    if (conn->eof || conn->fd < 0 || roll(&chance->dice, 12) == 0) {
        client_connect(conn, chance->served.port);
        chance->elsewhere++;
    }
    legacy_join(conn, &session->stream);
    return conn;
}

static void fail_at(const struct chance *chance, const struct session *session, int uri,
                    const char *what) {
    fail_msg("%s: session %d, %s, seen %d, published %d; TDG_SEED=%llu", what,
             (int)(session - chance->sessions), uri >= 0 ? uris[uri] : "-",
             uri >= 0 ? session->seen[uri] : 0, uri >= 0 ? chance->published[uri] : 0,
             (unsigned long long)chance->dice.seed);
}

/* ---- What streams carry ------------------------------------------------- */

static void note_update(struct chance *chance, struct session *session,
                        const char *data) {
    static const char version[] = "\"dev.tidings/version\":";
    const char *at = strstr(data, version);
    int uri = 0;

    while (uri < (int)URIS) {
        char text[32];

        snprintf(text, sizeof(text), "'uri':'%s'", uris[uri]);
        if (has(data, text))
            break;
        uri++;
    }
    if (uri == (int)URIS) /* a list */
        return;
    chance->updates++;
    if (at == NULL)
        fail_at(chance, session, uri, "without a version");
    int number = atoi(at + sizeof(version) - 1);
    if (number < session->seen[uri])
        fail_at(chance, session, uri, "backwards");
    if (!session->subscribed[uri] && number > session->until[uri])
        fail_at(chance, session, uri, "after the end of the subscription");
    session->seen[uri] = number;
}

/* Returns false where nothing comes within `ms`. */
static bool read_event(struct chance *chance, struct session *session, int ms) {
    char data[CLIENT_TEXT], id[64];
    const char *event = client_event_within(&session->stream, ms);

    if (event == NULL)
        return false;
    if (event_field(event, "id", id, sizeof(id)))
        snprintf(session->last_id, sizeof(session->last_id), "%s", id);
    if (event_field(event, "data", data, sizeof(data)) && data[0] != '\0')
        note_update(chance, session, data);
    return true;
}

static bool knows_all(const struct chance *chance, const struct session *session,
                      int *ret) {
    for (int i = 0; i < (int)URIS; i++) {
        *ret = i;
        if (session->subscribed[i] && chance->published[i] >= session->from[i] &&
            session->seen[i] < chance->published[i])
            return false;
    }
    return true;
}

/* Promise 3: the last change always arrives. */
static void catch_up(struct chance *chance, struct session *session) {
    int missing;

    while (!knows_all(chance, session, &missing)) {
        if (!read_event(chance, session, 20000))
            fail_at(chance, session, missing, "lost");
    }
}

/* ---- What clients do ---------------------------------------------------- */

static void begin_session(struct chance *chance, struct session *session) {
    struct client stream = session->stream;

    *session = (struct session){.stream = stream};
    client_connect(&session->stream, chance->served.port);
    legacy_initialize(&session->stream, LATEST_LEGACY);
}

static void open_stream(struct chance *chance, struct session *session) {
    client_connect(&session->stream, chance->served.port);
    int status = legacy_get(&session->stream,
                            session->last_id[0] != '\0' ? session->last_id : NULL);

    if (status != 200)
        fail_at(chance, session, -1, "no stream");
    session->has_stream = true;
    chance->resumed++;
}

static void break_stream(struct chance *chance, struct session *session) {
    for (uint32_t i = roll(&chance->dice, 4); i > 0; i--)
        (void)read_event(chance, session, 0);
    client_reset(&session->stream);
    session->has_stream = false;
    chance->resets++;
}

static void subscribe(struct chance *chance, struct session *session, int uri) {
    legacy_subscribe(any_conn(chance, session), uris[uri]);
    if (!session->subscribed[uri])
        session->from[uri] = chance->number + 1;
    session->subscribed[uri] = true;
}

static void unsubscribe(struct chance *chance, struct session *session, int uri) {
    if (!session->subscribed[uri])
        return;
    legacy_unsubscribe(any_conn(chance, session), uris[uri]);
    session->subscribed[uri] = false;
    session->until[uri] = chance->number;
}

static void publish(struct chance *chance, int uri) {
    served_change(&chance->served, uris[uri]);
    chance->number = (int)tdg__hub_last_number(chance->served.server->hub);
    chance->published[uri] = chance->number;
}

/* Requests of several sessions in one go, some of which nobody waits for. */
static void ask(struct chance *chance) {
    struct session *session = &chance->sessions[roll(&chance->dice, SESSIONS)];
    struct client *conn = any_conn(chance, session);
    uint32_t count = 1 + roll(&chance->dice, PIPELINED);
    char text[128];

    for (uint32_t i = 0; i < count; i++) {
        bool echo = roll(&chance->dice, 2) == 0;

        session = &chance->sessions[roll(&chance->dice, SESSIONS)];
        legacy_join(conn, &session->stream);
        snprintf(text, sizeof(text), "{'jsonrpc':'2.0','id':%u,'method':'%s'}", i,
                 echo ? "tools/call','params':{'name':'echo'},'x':'" : "ping");
        legacy_send(conn, text);
    }
    if (roll(&chance->dice, 6) == 0) {
        client_reset(conn);
        chance->resets++;
        return;
    }
    for (uint32_t i = 0; i < count; i++) {
        snprintf(text, sizeof(text), "'id':%u", i);
        int status = client_response(conn);
        if (status != 200 || !body_has(conn, text))
            fail_at(chance, session, -1, "an answer is lost");
        chance->answers++;
    }
}

static void end_session(struct chance *chance, struct session *session) {
    struct client *conn = any_conn(chance, session);
    char fields[128];

    snprintf(fields, sizeof(fields), "Mcp-Session-Id: %s\r\n", session->stream.session);
    client_request(conn, "DELETE", "/mcp", fields, NULL);
    assert_int_equal(client_response(conn), 204);
    if (session->has_stream) {
        while (read_event(chance, session, 20000))
            ;
        assert_true(session->stream.ended);
    }
    assert_int_equal(legacy_post(conn, "{'jsonrpc':'2.0','id':1,'method':'ping'}"), 404);
    chance->ended++;
    begin_session(chance, session);
}

static void act(struct chance *chance) {
    struct session *session = &chance->sessions[roll(&chance->dice, SESSIONS)];
    int uri = (int)roll(&chance->dice, URIS);

    switch (roll(&chance->dice, 16)) {
    case 0:
    case 1:
    case 2:
        subscribe(chance, session, uri);
        break;
    case 3:
    case 4:
        unsubscribe(chance, session, uri);
        break;
    case 5:
        if (session->has_stream)
            break_stream(chance, session);
        break;
    case 6:
        if (roll(&chance->dice, 6) == 0)
            end_session(chance, session);
        break;
    case 7:
    case 8:
        if (!session->has_stream)
            open_stream(chance, session);
        break;
    case 9:
        if (session->has_stream)
            catch_up(chance, session);
        break;
    case 10:
    case 11:
        ask(chance);
        break;
    default:
        publish(chance, uri);
    }
}

/* Fences with a last change of everything: nothing that is over comes before it. */
static void finish(struct chance *chance) {
    for (int i = 0; i < SESSIONS; i++) {
        struct session *session = &chance->sessions[i];

        if (!session->has_stream)
            open_stream(chance, session);
        subscribe(chance, session, 0);
    }
    for (int uri = (int)URIS - 1; uri >= 0; uri--)
        publish(chance, uri);
    for (int i = 0; i < SESSIONS; i++)
        catch_up(chance, &chance->sessions[i]);
}

static void run_round(struct chance *chance) {
    const tdg_server_opts_t opts = {.workers = WORKERS};

    memset(chance->published, 0, sizeof(chance->published));
    chance->number = 0;
    served_open(&chance->served, &opts, NULL);
    for (int i = 0; i < CONNS; i++)
        served_client(&chance->served, &chance->conns[i]);
    for (int i = 0; i < SESSIONS; i++) {
        client_init(&chance->sessions[i].stream, NULL);
        begin_session(chance, &chance->sessions[i]);
    }
    for (int i = 0; i < STEPS; i++)
        act(chance);
    finish(chance);
    for (int i = 0; i < SESSIONS; i++)
        client_done(&chance->sessions[i].stream);
    for (int i = 0; i < CONNS; i++)
        client_done(&chance->conns[i]);
    served_close(&chance->served);
}

static void nothing_is_lost_between_workers(void **state) {
    static struct chance chance;

    (void)state;
    chance.dice = dice_from_env();
    for (int i = 0; i < ROUNDS; i++)
        run_round(&chance);
    print_message("# %u answers, %u updates, %u resets, %u streams, %u ended\n",
                  chance.answers, chance.updates, chance.resets, chance.resumed,
                  chance.ended);
    assert_true(chance.answers > 100 && chance.updates > 200 && chance.resets > 50 &&
                chance.resumed > 50 && chance.ended > 5 && chance.elsewhere > 20);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(nothing_is_lost_between_workers)};

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("forward_chance", tests, NULL, NULL);
}

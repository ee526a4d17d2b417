/* SPDX-License-Identifier: MIT
 *
 * Finding the era, connecting again, giving up and stopping, against a simulated server.
 */
#include "unit/client/fake.h"

/* ---- Finding the era ---------------------------------------------------- */

#define LEGACY_RESULT                                                                    \
    "{'protocolVersion':'2025-11-25','capabilities':{},"                                 \
    "'serverInfo':{'name':'s','version':'1'}}"

/* How the server answers to a probe. */
struct answer {
    enum { RESULT, ERROR, STATUS, END } how;
    int number;       /* error code, status, tdg__delivery_end_t */
    const char *text; /* result, data, body */
};

struct era_case {
    const char *what;
    struct answer probe;
    const char *next;  /* what is sent then; NULL: nothing */
    int code;          /* of connecting, where nothing is sent */
    const char *offer; /* initialize: protocolVersion */
};

static void give(struct fake *f, struct fake_sent *sent, const struct answer *answer) {
    switch (answer->how) {
    case RESULT:
        fake_result(f, sent, answer->text);
        break;
    case ERROR:
        fake_error(f, sent, answer->number, "no", answer->text);
        break;
    case STATUS:
        fake_status(f, sent, answer->number, answer->text);
        break;
    case END:
        fake_broken(f, sent, (tdg__delivery_end_t)answer->number, true);
        break;
    }
}

static void run_case(tdg__transport_kind_t kind, const struct era_case *c) {
    struct fake *f;
    void *state;
    json_t *params;

    print_message("  %s\n", c->what);
    fake_init(state_create(&state, sizeof(*f)), kind);
    f = state;
    fake_start(f);
    assert_int_equal(f->sent_count, 1);
    give(f, fake_find(f, "server/discover"), &c->probe);

    if (c->next == NULL) {
        assert_int_equal(fake_code(f->connected), c->code);
        assert_int_equal(f->sent_count, 1);
    } else {
        params = fake_params(fake_find(f, c->next));
        if (c->offer != NULL)
            assert_string_equal(
                json_string_value(json_object_get(params, "protocolVersion")), c->offer);
        json_decref(params);
        if (strcmp(c->next, "initialize") == 0) {
            fake_result(f, fake_find(f, "initialize"), LEGACY_RESULT);
            assert_int_equal(fake_count(f, "notifications/initialized"), 1);
            assert_int_equal(fake_code(f->connected), 0);
            assert_int_equal(f->core->era, TDG_ERA_LEGACY);
        }
    }
    fake_end(f);
    state_destroy(&state);
}

static void every_answer_to_the_probe_over_http(void **state) {
    static const struct era_case cases[] = {
        {"modern",
         {RESULT, 0, "{'supportedVersions':['2026-07-28'],'capabilities':{}}"},
         NULL,
         0,
         NULL},
        {"both eras",
         {RESULT, 0, "{'supportedVersions':['2025-11-25','2026-07-28']}"},
         NULL,
         0,
         NULL},
        {"lists only legacy",
         {RESULT, 0, "{'supportedVersions':['2025-06-18','2024-11-05']}"},
         "initialize",
         0,
         "2025-06-18"},
        {"lists only strange",
         {RESULT, 0, "{'supportedVersions':['2031-01-01']}"},
         NULL,
         TDG_ENOTSUP,
         NULL},
        {"lists none", {RESULT, 0, "{'supportedVersions':[]}"}, NULL, TDG_ENOTSUP, NULL},
        {"a result of something else", {RESULT, 0, "{}"}, "initialize", 0, "2025-11-25"},
        {"-32022 with ours",
         {STATUS, 400,
          "{'code':-32022,'message':'x','data':{'supported':['2026-07-28']}}"},
         "server/discover",
         0,
         NULL},
        {"-32022 with legacy",
         {STATUS, 400,
          "{'code':-32022,'message':'x','data':{'supported':['2025-03-26']}}"},
         "initialize",
         0,
         "2025-03-26"},
        {"-32022 with strange",
         {STATUS, 400, "{'code':-32022,'message':'x','data':{'supported':['x']}}"},
         NULL,
         TDG_ENOTSUP,
         NULL},
        {"-32022 of another protocol",
         {STATUS, 400, "{'code':-32022,'message':'x'}"},
         "initialize",
         0,
         "2025-11-25"},
        {"-32021",
         {STATUS, 400, "{'code':-32021,'message':'x'}"},
         NULL,
         TDG_EREFUSED,
         NULL},
        {"-32020",
         {STATUS, 400, "{'code':-32020,'message':'x'}"},
         NULL,
         TDG_EREFUSED,
         NULL},
        {"401", {STATUS, 401, NULL}, NULL, TDG_EREFUSED, NULL},
        {"403", {STATUS, 403, NULL}, NULL, TDG_EREFUSED, NULL},
        {"500", {STATUS, 500, NULL}, NULL, TDG_EUNREACHABLE, NULL},
        {"503 with an error",
         {STATUS, 503, "{'code':-32603,'message':'x'}"},
         NULL,
         TDG_EUNREACHABLE,
         NULL},
        {"429", {STATUS, 429, NULL}, NULL, TDG_EUNREACHABLE, NULL},
        {"no connection", {END, TDG__DELIVERY_AWAY, NULL}, NULL, TDG_EUNREACHABLE, NULL},
        {"cut", {END, TDG__DELIVERY_BROKEN, NULL}, NULL, TDG_EUNREACHABLE, NULL},
        {"time-out", {END, TDG__DELIVERY_TIMEOUT, NULL}, NULL, TDG_ETIMEDOUT, NULL},
        {"refused by ourselves",
         {END, TDG__DELIVERY_REFUSED, NULL},
         NULL,
         TDG_EREFUSED,
         NULL},
        {"no memory", {END, TDG__DELIVERY_NO_MEMORY, NULL}, NULL, TDG_ENOMEM, NULL},
        {"400", {STATUS, 400, NULL}, "initialize", 0, "2025-11-25"},
        {"400 with an error",
         {STATUS, 400, "{'code':-32000,'message':'x'}"},
         "initialize",
         0,
         "2025-11-25"},
        {"404", {STATUS, 404, NULL}, "initialize", 0, "2025-11-25"},
        {"405", {STATUS, 405, NULL}, "initialize", 0, "2025-11-25"},
        {"-32601", {ERROR, -32601, NULL}, "initialize", 0, "2025-11-25"},
        {"-32000", {ERROR, -32000, NULL}, "initialize", 0, "2025-11-25"},
        {"what is no MCP",
         {END, TDG__DELIVERY_NONSENSE, NULL},
         "initialize",
         0,
         "2025-11-25"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++)
        run_case(TDG__TRANSPORT_HTTP, &cases[i]);
}

static void every_answer_to_the_probe_over_stdio(void **state) {
    static const struct era_case cases[] = {
        {"modern", {RESULT, 0, "{'supportedVersions':['2026-07-28']}"}, NULL, 0, NULL},
        {"lists only legacy",
         {RESULT, 0, "{'supportedVersions':['2025-06-18']}"},
         "initialize",
         0,
         "2025-06-18"},
        {"-32601", {ERROR, -32601, NULL}, "initialize", 0, "2025-11-25"},
        {"-32602", {ERROR, -32602, NULL}, "initialize", 0, "2025-11-25"},
        {"-32022 with ours",
         {ERROR, -32022, "{'supported':['2026-07-28']}"},
         "server/discover",
         0,
         NULL},
        {"-32022 with legacy",
         {ERROR, -32022, "{'supported':['2025-11-25']}"},
         "initialize",
         0,
         "2025-11-25"},
        {"-32022 with strange",
         {ERROR, -32022, "{'supported':['1']}"},
         NULL,
         TDG_ENOTSUP,
         NULL},
        {"-32020", {ERROR, -32020, NULL}, NULL, TDG_EREFUSED, NULL},
        {"what is no MCP",
         {END, TDG__DELIVERY_NONSENSE, NULL},
         "initialize",
         0,
         "2025-11-25"},
        {"silence, as the wire sees it",
         {END, TDG__DELIVERY_TIMEOUT, NULL},
         "initialize",
         0,
         "2025-11-25"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++)
        run_case(TDG__TRANSPORT_STDIO, &cases[i]);
}

static void no_version_in_common_names_both_sides(void **state) {
    struct fake *f = *state;

    fake_start(f);
    fake_result(f, fake_find(f, "server/discover"),
                "{'supportedVersions':['2031-01-01']}");
    assert_int_equal(fake_code(f->connected), TDG_ENOTSUP);
    assert_non_null(strstr(f->connected->message, "2031-01-01"));
    assert_non_null(strstr(f->connected->message, "2026-07-28"));
}

static void a_silent_program_is_initialised_after_ten_seconds(void **state) {
    struct fake *f = *state;

    fake_start(f);
    fake_pass(f, 9999);
    assert_int_equal(f->sent_count, 1);
    fake_pass(f, 1);
    assert_int_equal(f->transport_count, 1);
    fake_result(f, fake_find(f, "initialize"), LEGACY_RESULT);
    assert_int_equal(fake_code(f->connected), 0);
    assert_int_equal(fake_count(f, "notifications/cancelled"), 0);
}

static void a_program_has_three_seconds_where_time_is_short(void **state) {
    struct fake *f = *state;

    f->client.connect_timeout_ms = 5000;
    fake_start(f);
    fake_pass(f, 2999);
    assert_int_equal(fake_count(f, "initialize"), 0);
    fake_pass(f, 1);
    assert_int_equal(fake_count(f, "initialize"), 1);
}

static void a_slow_modern_program_is_probed_again(void **state) {
    struct fake *f = *state;

    fake_start(f);
    fake_pass(f, 10000);
    fake_error(f, fake_find(f, "initialize"), -32601, "Method not found", NULL);
    fake_result(f, fake_find(f, "server/discover"),
                "{'supportedVersions':['2026-07-28']}");
    assert_int_equal(fake_code(f->connected), 0);
    assert_int_equal(f->core->era, TDG_ERA_MODERN);
}

static void a_program_that_ends_when_probed_is_started_again(void **state) {
    struct fake *f = *state;

    fake_start(f);
    fake_find(f, "server/discover");
    fake_lost(f, "it has exited");
    fake_pass(f, 1000);
    assert_int_equal(f->transport_count, 2);
    assert_int_equal(fake_count(f, "server/discover"), 1);
    fake_result(f, fake_find(f, "initialize"), LEGACY_RESULT);
    assert_int_equal(fake_code(f->connected), 0);
}

static void a_program_that_always_ends_is_given_up(void **state) {
    struct fake *f = *state;

    fake_start(f);
    fake_lost(f, "it has exited");
    fake_pass(f, 1000);
    fake_lost(f, "it has exited with 1");
    assert_int_equal(fake_code(f->connected), TDG_EUNREACHABLE);
    assert_non_null(strstr(f->connected->message, "exited with 1"));
}

static void a_program_that_cannot_be_started_fails(void **state) {
    struct fake *f = *state;

    f->open_code = TDG_EUNREACHABLE;
    fake_start(f);
    assert_int_equal(fake_code(f->connected), TDG_EUNREACHABLE);
    assert_int_equal(f->sent_count, 0);
}

static void forced_eras_do_not_look_left_or_right(void **state) {
    struct fake *f = *state;

    f->client.era = TDG_ERA_LEGACY;
    fake_start(f);
    assert_int_equal(f->sent_count, 1);
    fake_error(f, fake_find(f, "initialize"), -32601, "no", NULL);
    assert_int_equal(fake_code(f->connected), TDG_ENOTSUP);
    assert_int_equal(fake_count(f, "server/discover"), 0);
}

static void modern_and_nothing_else(void **state) {
    struct fake *f = *state;

    f->client.era = TDG_ERA_MODERN;
    fake_start(f);
    fake_status(f, fake_find(f, "server/discover"), 404, NULL);
    assert_int_equal(fake_code(f->connected), TDG_ENOTSUP);
    assert_int_equal(fake_count(f, "initialize"), 0);
}

/* ---- The transport of 2024-11-05 ---------------------------------------- */

static void to_sse(struct fake *f, int status) {
    fake_start(f);
    fake_status(f, fake_find(f, "server/discover"), status, NULL);
    fake_status(f, fake_find(f, "initialize"), status, NULL);
}

static void nobody_at_the_url_means_the_old_transport(void **state) {
    static const int statuses[] = {400, 404, 405};

    (void)state;
    for (size_t i = 0; i < COUNT(statuses); i++) {
        struct fake *f;
        void *own;

        fake_init(state_create(&own, sizeof(*f)), TDG__TRANSPORT_HTTP);
        f = own;
        to_sse(f, statuses[i]);
        assert_int_equal(f->transport_count, 2);
        assert_int_equal(fake_transport(f)->kind, TDG__TRANSPORT_SSE);
        fake_result(f, fake_find(f, "initialize"), LEGACY_RESULT);
        assert_int_equal(fake_code(f->connected), 0);
        fake_end(f);
        state_destroy(&own);
    }
}

static void an_error_to_initialize_is_no_reason_for_the_old_transport(void **state) {
    struct fake *f = *state;

    fake_start(f);
    fake_status(f, fake_find(f, "server/discover"), 404, NULL);
    fake_status(f, fake_find(f, "initialize"), 400, "{'code':-32600,'message':'no'}");
    assert_int_equal(fake_code(f->connected), TDG_EREFUSED);
    assert_int_equal(f->transport_count, 1);
}

static void nothing_at_all_at_the_url_tells_the_status(void **state) {
    struct fake *f = *state;

    f->open_code = 0;
    fake_start(f);
    fake_status(f, fake_find(f, "server/discover"), 404, NULL);
    f->open_code = TDG_EREFUSED;
    fake_status(f, fake_find(f, "initialize"), 404, NULL);
    assert_int_equal(fake_code(f->connected), TDG_EREFUSED);
    assert_int_equal(f->connected->http_status, 404);
}

/* ---- Initialising ------------------------------------------------------- */

static void a_session_is_up_when_the_server_has_been_told(void **state) {
    struct fake *f = *state;

    f->hold_notifications = true;
    f->answer = fake_legacy_server;
    fake_start(f);
    assert_int_equal(f->connected->calls, 0);
    assert_int_equal(fake_last(f)->version, TDG__V2025_11_25);
    fake_broken(f, fake_find(f, "notifications/initialized"), TDG__DELIVERY_DONE, true);
    assert_int_equal(fake_code(f->connected), 0);
    assert_int_equal(f->core->counts.sessions, 1);
}

static void another_version_than_offered_is_taken(void **state) {
    struct fake *f = *state;
    tdg_server_facts_t facts;

    fake_start(f);
    fake_status(f, fake_find(f, "server/discover"), 400, NULL);
    assert_int_equal(fake_find(f, "initialize")->version, TDG__V_UNKNOWN);
    fake_result(f, fake_find(f, "initialize"),
                "{'protocolVersion':'2025-03-26','instructions':'be kind',"
                "'capabilities':{'resources':{'subscribe':true}},"
                "'serverInfo':{'name':'old','version':'0.9'}}");
    assert_int_equal(fake_code(f->connected), 0);
    assert_int_equal(tdg__core_facts(f->core, &facts), 0);
    assert_string_equal(facts.protocol, "2025-03-26");
    assert_string_equal(facts.transport, "http");
    assert_string_equal(facts.name, "old");
    assert_string_equal(facts.version, "0.9");
    assert_string_equal(facts.instructions, "be kind");
    assert_int_equal(facts.era, TDG_ERA_LEGACY);
    assert_true(facts.subscribe);
    assert_json_equal(facts.supported, "['2025-03-26']");
    json_decref(facts.info);
    json_decref(facts.capabilities);
    json_decref(facts.supported);
}

static void a_version_that_nobody_knows_is_refused(void **state) {
    struct fake *f = *state;

    fake_start(f);
    fake_status(f, fake_find(f, "server/discover"), 400, NULL);
    fake_result(f, fake_find(f, "initialize"), "{'protocolVersion':'1.0'}");
    assert_int_equal(fake_code(f->connected), TDG_ENOTSUP);
    assert_int_equal(fake_count(f, "notifications/initialized"), 0);
}

/* ---- Patience ----------------------------------------------------------- */

static void nobody_there_fails_at_once_without_patience(void **state) {
    struct fake *f = *state;
    int64_t start = f->now;

    fake_start(f);
    fake_broken(f, fake_find(f, "server/discover"), TDG__DELIVERY_AWAY, false);
    assert_int_equal(fake_code(f->connected), TDG_EUNREACHABLE);
    assert_int_equal(f->now, start);
}

static void the_patient_try_again(void **state) {
    struct fake *f = *state;

    f->client.flags = TDG_CLIENT_PATIENT;
    fake_start(f);
    for (int i = 0; i < 3; i++) {
        fake_broken(f, fake_find(f, "server/discover"), TDG__DELIVERY_AWAY, false);
        assert_int_equal(f->connected->calls, 0);
        assert_true(fake_next(f, 30000) > 0);
    }
    fake_modern_server(f, fake_find(f, "server/discover"));
    assert_int_equal(fake_code(f->connected), 0);
}

static void patience_has_an_end(void **state) {
    struct fake *f = *state;
    int64_t start = f->now, last = start;

    f->client.flags = TDG_CLIENT_PATIENT;
    fake_start(f);
    while (f->connected->calls == 0) {
        struct fake_sent *sent = fake_seek(f, "server/discover");

        if (sent != NULL) {
            last = f->now;
            fake_broken(f, sent, TDG__DELIVERY_AWAY, false);
        } else {
            assert_true(fake_next(f, 30000) > 0);
        }
        assert_true(f->now - start <= 30000);
    }
    assert_int_equal(fake_code(f->connected), TDG_EUNREACHABLE);
    assert_int_equal(f->now - start, 30000); /* and not before it */
    assert_int_equal(last - start, 29000);
}

/* A server that has asked for a longer wait is not tried before it is over. */
static void the_last_attempt_does_not_come_before_retry_after(void **state) {
    struct fake *f = *state;

    f->client.flags = TDG_CLIENT_PATIENT;
    fake_start(f);
    fake_retry_after(f, fake_find(f, "server/discover"), 503, 40000);
    fake_pass(f, 29999);
    assert_int_equal(f->connected->calls, 0);
    assert_int_equal(fake_count(f, "server/discover"), 1);
    fake_pass(f, 1);
    assert_int_equal(f->connected->calls, 1);
}

static void patience_does_not_help_against_a_refusal(void **state) {
    struct fake *f = *state;

    f->client.flags = TDG_CLIENT_PATIENT;
    fake_start(f);
    fake_status(f, fake_find(f, "server/discover"), 401, NULL);
    assert_int_equal(fake_code(f->connected), TDG_EREFUSED);
    assert_int_equal(f->connected->http_status, 401);
}

static void retry_after_is_honoured(void **state) {
    struct fake *f = *state;

    f->client.flags = TDG_CLIENT_PATIENT;
    fake_start(f);
    fake_retry_after(f, fake_find(f, "server/discover"), 503, 7000);
    assert_true(fake_next(f, 30000) >= 7000);
    fake_modern_server(f, fake_find(f, "server/discover"));
    assert_int_equal(fake_code(f->connected), 0);
}

static void a_server_that_never_answers_times_out(void **state) {
    struct fake *f = *state;

    fake_start(f);
    fake_pass(f, 29999);
    assert_int_equal(f->connected->calls, 0);
    fake_pass(f, 1);
    assert_int_equal(fake_code(f->connected), TDG_ETIMEDOUT);
    assert_true(f->sent[0]->cancelled);
}

static void a_transport_that_never_opens_times_out(void **state) {
    struct fake *f = *state;

    f->hold_open = true;
    fake_start(f);
    fake_pass(f, 30000);
    assert_int_equal(fake_code(f->connected), TDG_ETIMEDOUT);
}

/* ---- The token ---------------------------------------------------------- */

static void a_token_is_renewed_once(void **state) {
    struct fake *f = *state;

    f->token = true;
    fake_start(f);
    fake_status(f, fake_find(f, "server/discover"), 401, NULL);
    assert_int_equal(f->renewed, 1);
    assert_int_equal(f->connected->calls, 0);
    fake_status(f, fake_find(f, "server/discover"), 401, NULL);
    assert_int_equal(f->renewed, 1);
    assert_int_equal(fake_code(f->connected), TDG_EREFUSED);
    assert_int_equal(f->connected->http_status, 401);
}

static void a_fresh_token_connects(void **state) {
    struct fake *f = *state;

    f->token = true;
    fake_start(f);
    fake_status(f, fake_find(f, "server/discover"), 401, NULL);
    fake_modern_server(f, fake_find(f, "server/discover"));
    assert_int_equal(fake_code(f->connected), 0);
}

/* ---- Again -------------------------------------------------------------- */

static void lose(struct fake *f) {
    tdg__connect_lost(f->core, TDG_EUNREACHABLE, "gone");
    f->answer = NULL;
    fake_run(f);
    assert_int_equal(f->core->state, TDG__CORE_WAITING);
    assert_true(fake_next(f, 60000) > 0);
}

static void the_legacy_era_is_remembered(void **state) {
    struct fake *f = *state;

    fake_up(f, TDG_ERA_LEGACY);
    lose(f);
    assert_int_equal(fake_count(f, "server/discover"), 1);
    fake_legacy_server(f, fake_find(f, "initialize"));
    assert_int_equal(f->core->state, TDG__CORE_UP);
    assert_int_equal(f->core->counts.sessions, 2);
}

static void a_server_that_became_modern_is_probed_anew(void **state) {
    struct fake *f = *state;

    fake_up(f, TDG_ERA_LEGACY);
    lose(f);
    fake_modern_server(f, fake_find(f, "initialize"));
    fake_modern_server(f, fake_find(f, "server/discover"));
    assert_int_equal(f->core->state, TDG__CORE_UP);
    assert_int_equal(f->core->era, TDG_ERA_MODERN);
}

static void a_server_that_became_legacy_is_initialised(void **state) {
    struct fake *f = *state;

    fake_up(f, TDG_ERA_MODERN);
    lose(f);
    fake_legacy_server(f, fake_find(f, "server/discover"));
    fake_legacy_server(f, fake_find(f, "initialize"));
    assert_int_equal(f->core->era, TDG_ERA_LEGACY);
}

static void a_request_shows_that_the_server_became_legacy(void **state) {
    struct fake *f = *state;
    struct fake_note *note;

    fake_up(f, TDG_ERA_MODERN);
    f->answer = NULL;
    note = fake_note(f);
    tdg__core_request(f->core, "prompts/list", NULL, 0, fake_done, note);
    fake_status(f, fake_find(f, "prompts/list"), 400,
                "{'code':-32000,'message':'no session'}");
    assert_int_equal(fake_code(note), TDG_EREFUSED);
    fake_legacy_server(f, fake_find(f, "server/discover"));
    assert_int_equal(f->core->state, TDG__CORE_WAITING);
    f->answer = fake_legacy_server;
    fake_pass(f, 2000);
    assert_int_equal(f->core->state, TDG__CORE_UP);
    assert_int_equal(f->core->era, TDG_ERA_LEGACY);
}

static void a_strange_answer_alone_changes_nothing(void **state) {
    struct fake *f = *state;

    fake_up(f, TDG_ERA_MODERN);
    tdg__core_request(f->core, "prompts/list", NULL, 0, fake_done, fake_note(f));
    fake_run(f);
    fake_status(f, fake_find(f, "prompts/list"), 404, NULL);
    assert_int_equal(fake_count(f, "server/discover"), 2);
    assert_int_equal(f->core->state, TDG__CORE_UP);
}

static void a_request_shows_that_the_server_became_modern(void **state) {
    struct fake *f = *state;

    fake_up(f, TDG_ERA_LEGACY);
    f->answer = fake_modern_server;
    tdg__core_request(f->core, "prompts/list", NULL, 0, fake_done, fake_note(f));
    fake_run(f);
    fake_status(f, fake_find(f, "prompts/list"), 400,
                "{'code':-32020,'message':'headers'}");
    fake_pass(f, 2000);
    assert_int_equal(f->core->state, TDG__CORE_UP);
    assert_int_equal(f->core->era, TDG_ERA_MODERN);
}

static void a_return_is_tried_for_ever(void **state) {
    struct fake *f = *state;

    fake_up(f, TDG_ERA_MODERN);
    lose(f);
    for (int i = 0; i < 100; i++) {
        fake_broken(f, fake_find(f, "server/discover"), TDG__DELIVERY_AWAY, false);
        assert_true(fake_next(f, 120000) > 0);
    }
    fake_modern_server(f, fake_find(f, "server/discover"));
    assert_int_equal(f->core->state, TDG__CORE_UP);
}

static void a_server_that_asks_who_we_are_is_given_up(void **state) {
    struct fake *f = *state;
    struct fake_note *note;
    char *told;

    f->token = true;
    fake_up(f, TDG_ERA_MODERN);
    lose(f);
    note = fake_note(f);
    tdg__core_request(f->core, "prompts/list", NULL, 0, fake_done, note);
    fake_status(f, fake_find(f, "server/discover"), 401, NULL);
    fake_status(f, fake_find(f, "server/discover"), 401, NULL);
    assert_int_equal(f->core->state, TDG__CORE_OVER);
    assert_int_equal(fake_code(note), TDG_EREFUSED);
    told = fake_told(f);
    assert_non_null(strstr(told, "CLOSED"));
    free(told);

    note = fake_note(f);
    tdg__core_request(f->core, "prompts/list", NULL, 0, fake_done, note);
    fake_run(f);
    assert_int_equal(fake_code(note), TDG_EENDED);
}

static void one_life_is_not_followed_by_another(void **state) {
    struct fake *f = *state;
    char *told;

    f->client.flags = TDG_CLIENT_ONE_LIFE;
    fake_up(f, TDG_ERA_LEGACY);
    fake_lost(f, "it has exited");
    assert_int_equal(f->core->state, TDG__CORE_OVER);
    assert_int_equal(f->transport_count, 1);
    told = fake_told(f);
    assert_non_null(strstr(told, "CLOSED"));
    free(told);
}

static void that_it_is_over_is_told_without_memory(void **state) {
    struct fake *f = *state;

    f->client.flags = TDG_CLIENT_ONE_LIFE;
    fake_up(f, TDG_ERA_LEGACY);
    memory_fail(1, MEMORY_FROM_THEN_ON);
    fake_lost(f, "it has exited");
    assert_true(memory_failed());
    memory_fail(0, MEMORY_ONCE);
    assert_int_equal(f->core->state, TDG__CORE_OVER);
    assert_true(f->event_count >= 1);
    assert_int_equal(f->events[f->event_count - 1]->kind, TDG_EVENT_CLOSED);
    assert_int_equal(f->events[f->event_count - 1]->code, TDG_EUNREACHABLE);
    assert_string_equal(f->events[f->event_count - 1]->message,
                        tdg_strerror(TDG_EUNREACHABLE));
}

/* What was on its way over a transport that was closed must not count for ever: after 64
 * of them the server would get no answer any more. */
static void answers_that_went_down_with_a_transport_are_forgotten(void **state) {
    struct fake *f = *state;

    fake_up(f, TDG_ERA_LEGACY);
    f->hold_notifications = true;
    for (int i = 0; i < 3 * TDG__REQUESTS_MAX_LOOSE; i++)
        tdg__core_notify(f->core, "notifications/none", NULL, f->core->version);
    f->hold_notifications = false;
    tdg__connect_lost(f->core, TDG_EUNREACHABLE, "another server has taken its place");
    fake_pass(f, 2000);
    assert_int_equal(f->core->state, TDG__CORE_UP);
    assert_int_equal(f->transport_count, 2);

    fake_tells(f, "{'jsonrpc':'2.0','id':7,'method':'ping'}");
    assert_string_equal(fake_last(f)->method, "");
    assert_non_null(strstr(fake_last(f)->text, "\"id\":7"));
}

static void a_lost_program_is_started_again(void **state) {
    struct fake *f = *state;

    fake_up(f, TDG_ERA_LEGACY);
    fake_lost(f, "it has exited");
    assert_int_equal(f->core->state, TDG__CORE_WAITING);
    fake_pass(f, 2000);
    assert_int_equal(f->transport_count, 2);
    assert_int_equal(f->core->state, TDG__CORE_UP);
    assert_int_equal(fake_count(f, "server/discover"), 1);
}

static void what_a_program_says_is_logged(void **state) {
    struct fake *f = *state;
    tdg__transport_t *transport;

    fake_up(f, TDG_ERA_LEGACY);
    transport = &fake_transport(f)->base;
    transport->calls->said(transport->user, "hello from stderr");
    assert_true(fake_logged(f, "hello from stderr"));
}

/* ---- Storms ------------------------------------------------------------- */

static void accept_and_break(struct fake *f, struct fake_sent *sent) {
    fake_legacy_server(f, sent);
    if (strcmp(sent->method, "initialize") == 0 && f->core->state == TDG__CORE_UP)
        fake_lost(f, "it has exited");
}

/* At most so many starts in any minute of an hour. */
static void check_minutes(const struct fake *f, const char *method, size_t limit) {
    for (size_t i = 0; i < f->sent_count; i++) {
        size_t count = 0;

        if (strcmp(f->sent[i]->method, method) != 0)
            continue;
        for (size_t j = i;
             j < f->sent_count && f->sent[j]->at_ms < f->sent[i]->at_ms + 60000; j++)
            count += strcmp(f->sent[j]->method, method) == 0;
        assert_true(count <= limit);
    }
}

static void a_server_that_accepts_and_breaks_meets_no_storm(void **state) {
    struct fake *f = *state;
    int64_t start = f->now;

    f->client.retry_ms = 1;
    f->client.retry_max_ms = 10;
    f->answer = accept_and_break;
    fake_start(f);
    for (int i = 0; i < 20000 && f->now - start < 3600000; i++) {
        if (f->core->state == TDG__CORE_UP)
            fake_lost(f, "it has exited");
        else
            fake_next(f, 120000);
    }
    assert_true(f->now - start >= 3600000);
    assert_true(fake_count(f, "initialize") > 600); /* it does go on trying */
    check_minutes(f, "initialize", f->client.retry_per_minute + 1); /* and the first */
}

static void a_program_that_ends_when_probed_meets_no_storm(void **state) {
    struct fake *f = *state;
    int64_t start = f->now;

    f->client.retry_ms = 1;
    f->client.retry_max_ms = 10;
    fake_up(f, TDG_ERA_MODERN);
    f->answer = NULL;
    for (int i = 0; i < 20000 && f->now - start < 600000; i++) {
        if (!fake_transport(f)->lost && !fake_transport(f)->closed)
            fake_lost(f, "it has exited");
        else
            fake_next(f, 120000);
    }
    assert_true(f->now - start >= 600000);
    assert_in_range(f->transport_count, 100, 10 * 20 + 21);
}

/* ---- Stopping ----------------------------------------------------------- */

static void stopping_works_in_every_state(void **state) {
    enum { OPENING, PROBING, INITIALISING, SAYING_SO, UP, WAITING, FAILED, STATES };

    (void)state;
    for (int kind = TDG__TRANSPORT_HTTP; kind <= TDG__TRANSPORT_STDIO; kind += 2) {
        for (int at = 0; at < STATES; at++) {
            struct fake *f;
            void *own;

            fake_init(state_create(&own, sizeof(*f)), (tdg__transport_kind_t)kind);
            f = own;
            f->hold_open = at == OPENING;
            f->hold_notifications = at == SAYING_SO;
            f->answer = at >= SAYING_SO && at < FAILED ? fake_legacy_server : NULL;
            fake_start(f);
            if (at == INITIALISING)
                fake_error(f, fake_find(f, "server/discover"), -32601, "no", NULL);
            if (at == WAITING)
                tdg__connect_lost(f->core, TDG_EUNREACHABLE, "gone");
            if (at == FAILED)
                fake_error(f, fake_find(f, "server/discover"), -32020, "no", NULL);
            tdg__core_request(f->core, "prompts/list", NULL, 0, fake_done, fake_note(f));
            fake_end(f);
            state_destroy(&own);
        }
    }
}

static void everything_ends_before_the_stop_does(void **state) {
    struct fake *f = *state;
    struct fake_note *sent, *early;

    fake_up(f, TDG_ERA_LEGACY);
    sent = fake_note(f);
    tdg__core_request(f->core, "prompts/list", NULL, 0, fake_done, sent);
    fake_run(f);
    f->hold_session_end = true;
    early = fake_note(f);
    tdg__core_request(f->core, "prompts/list", NULL, 0, fake_done, early);
    fake_stop(f);
    assert_int_equal(fake_code(sent), TDG_EENDED);
    assert_int_equal(fake_code(early), TDG_EENDED);
    assert_false(f->stopped);
    assert_int_equal(fake_transport(f)->sessions_said, 1);
    fake_pass(f, 4999); /* the server does not answer to the goodbye */
    assert_true(f->stopped);
}

static void set_stopped(void *user) {
    ((struct fake *)user)->stopped = true;
}

static void no_answer_brings_us_up_once_we_stop(void **state) {
    struct fake *f = *state;

    fake_start(f);
    f->stopping = true;
    tdg__core_stop(f->core, set_stopped, f);
    assert_null(fake_seek(f, "server/discover"));
    assert_int_equal(f->connected->calls, 0);
    fake_run(f);
    assert_int_equal(fake_code(f->connected), TDG_EENDED);
    assert_true(f->stopped);
}

static void a_modern_server_needs_no_goodbye(void **state) {
    struct fake *f = *state;

    fake_up(f, TDG_ERA_MODERN);
    fake_stop(f);
    assert_true(f->stopped);
    assert_int_equal(fake_transport(f)->sessions_said, 0);
}

/* ---- Without memory ----------------------------------------------------- */

static void script(struct fake *f, struct fake_sent *sent) {
    if (strcmp(sent->method, "prompts/list") == 0)
        fake_result(f, sent, "{'prompts':[{'name':'a'}]}");
    else if (f->client.era == TDG_ERA_MODERN)
        fake_modern_server(f, sent);
    else
        fake_legacy_server(f, sent);
}

/* Connects, lists, loses the connection, returns, lists again, stops; the n-th allocation
 * fails. Returns whether one did. */
static bool run_without_memory(tdg__transport_kind_t kind, bool modern, size_t nth,
                               int how) {
    struct fake *f;
    void *state;
    bool failed;

    fake_init(state_create(&state, sizeof(*f)), kind);
    f = state;
    f->client.era = modern ? TDG_ERA_MODERN : TDG_ERA_FIND;
    f->client.flags = TDG_CLIENT_LOGS;
    f->answer = script;
    memory_fail(nth, how);
    if (fake_create(f) == 0) {
        fake_start(f);
        tdg__core_list(f->core, TDG_LIST_PROMPTS, fake_done, fake_note(f));
        fake_run(f);
        if (f->core->state == TDG__CORE_UP) {
            tdg__connect_lost(f->core, TDG_EUNREACHABLE, "gone");
            tdg__core_list(f->core, TDG_LIST_PROMPTS, fake_done, fake_note(f));
            fake_pass(f, 2000);
        }
    }
    failed = memory_failed();
    if (how == MEMORY_ONCE)
        memory_fail(0, MEMORY_ONCE);
    fake_end(f);
    memory_fail(0, MEMORY_ONCE);
    state_destroy(&state);
    return failed;
}

static void nothing_leaks_or_hangs_without_memory(void **state) {
    (void)state;
    for (int kind = TDG__TRANSPORT_HTTP; kind <= TDG__TRANSPORT_STDIO; kind += 2) {
        for (int modern = 0; modern <= 1; modern++) {
            for (int how = MEMORY_ONCE; how <= MEMORY_FROM_THEN_ON; how++) {
                size_t nth = 1;

                while (run_without_memory((tdg__transport_kind_t)kind, modern != 0, nth,
                                          how))
                    nth++;
                assert_true(nth > 50);
            }
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_answer_to_the_probe_over_http),
        cmocka_unit_test(every_answer_to_the_probe_over_stdio),
#define HTTP(name) cmocka_unit_test_setup_teardown(name, fake_setup_http, fake_teardown)
#define STDIO(name) cmocka_unit_test_setup_teardown(name, fake_setup_stdio, fake_teardown)
        HTTP(no_version_in_common_names_both_sides),
        STDIO(a_silent_program_is_initialised_after_ten_seconds),
        STDIO(a_program_has_three_seconds_where_time_is_short),
        STDIO(a_slow_modern_program_is_probed_again),
        STDIO(a_program_that_ends_when_probed_is_started_again),
        STDIO(a_program_that_always_ends_is_given_up),
        STDIO(a_program_that_cannot_be_started_fails),
        HTTP(forced_eras_do_not_look_left_or_right),
        HTTP(modern_and_nothing_else),
        cmocka_unit_test(nobody_at_the_url_means_the_old_transport),
        HTTP(an_error_to_initialize_is_no_reason_for_the_old_transport),
        HTTP(nothing_at_all_at_the_url_tells_the_status),
        HTTP(a_session_is_up_when_the_server_has_been_told),
        HTTP(another_version_than_offered_is_taken),
        HTTP(a_version_that_nobody_knows_is_refused),
        HTTP(nobody_there_fails_at_once_without_patience),
        HTTP(the_patient_try_again),
        HTTP(the_last_attempt_does_not_come_before_retry_after),
        HTTP(patience_has_an_end),
        HTTP(patience_does_not_help_against_a_refusal),
        HTTP(retry_after_is_honoured),
        HTTP(a_server_that_never_answers_times_out),
        STDIO(a_transport_that_never_opens_times_out),
        HTTP(a_token_is_renewed_once),
        HTTP(a_fresh_token_connects),
        HTTP(the_legacy_era_is_remembered),
        HTTP(a_server_that_became_modern_is_probed_anew),
        HTTP(a_server_that_became_legacy_is_initialised),
        HTTP(a_request_shows_that_the_server_became_legacy),
        HTTP(a_strange_answer_alone_changes_nothing),
        HTTP(a_request_shows_that_the_server_became_modern),
        HTTP(a_return_is_tried_for_ever),
        HTTP(a_server_that_asks_who_we_are_is_given_up),
        STDIO(one_life_is_not_followed_by_another),
        STDIO(that_it_is_over_is_told_without_memory),
        STDIO(answers_that_went_down_with_a_transport_are_forgotten),
        STDIO(a_lost_program_is_started_again),
        STDIO(what_a_program_says_is_logged),
        STDIO(a_server_that_accepts_and_breaks_meets_no_storm),
        STDIO(a_program_that_ends_when_probed_meets_no_storm),
        cmocka_unit_test(stopping_works_in_every_state),
        HTTP(everything_ends_before_the_stop_does),
        HTTP(no_answer_brings_us_up_once_we_stop),
        HTTP(a_modern_server_needs_no_goodbye),
        cmocka_unit_test(nothing_leaks_or_hangs_without_memory),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("client/connect", tests, NULL, NULL);
}

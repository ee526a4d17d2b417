/* SPDX-License-Identifier: MIT
 *
 * Small answers that wait for one client together: in a batch, or on an old stream that
 * nobody reads. Together they count as a large one does. Where there is no room, reads
 * are refused as busy; what a tool has done is answered. */
#include <stdio.h>

#include "served.h"
#include "server/context/context.h"
#include "server/context/limits.h"

enum {
    TEXT = 60000,
    EVENT = 12000, /* as much as the client takes as one event */
    POSTS = 3000,
};

#define READ(id)                                                                         \
    "{'jsonrpc':'2.0','id':" id ",'method':'resources/read','params':{'uri':'small:1'}}"

#define HOLD_AS(id)                                                                      \
    "{'jsonrpc':'2.0','id':" id ",'method':'tools/call','params':{'name':'hold'}}"

struct fixture {
    struct served served;
    struct client client, stream;
    unsigned reads; /* that have run */
    char path[128]; /* where the old stream's client posts */
    char text[TEXT + 1];
};

static void read_text(void *user, tdg_request_t *request, const char *uri) {
    struct fixture *f = user;

    (void)uri;
    f->reads++;
    tdg_request_reply_text(request, f->text);
}

static int setup(void **state) {
    struct fixture *f = calloc(1, sizeof(*f));
    tdg_resource_t resource = {
        .uri = "small:1", .name = "small", .read = read_text, .user = f};

    assert_non_null(f);
    memset(f->text, 'x', TEXT);
    served_open(&f->served, NULL, NULL);
    assert_int_equal(tdg_server_add_resource(f->served.server, &resource), 0);
    served_client(&f->served, &f->client);
    served_client(&f->served, &f->stream);
    *state = f;
    return 0;
}

static int teardown(void **state) {
    struct fixture *f = *state;

    client_done(&f->client);
    client_done(&f->stream);
    served_close(&f->served);
    free(f);
    return 0;
}

static tdg__budget_t *room(struct fixture *f) {
    return f->served.server->small_answers;
}

static unsigned count(const char *text, const char *part) {
    unsigned found = 0;

    while ((text = strstr(text, part)) != NULL) {
        found++;
        text += strlen(part);
    }
    return found;
}

static void assert_answers(struct fixture *f, unsigned all, unsigned busy) {
    assert_int_equal(client_response(&f->client), 200);
    assert_int_equal(count(f->client.body, "\"jsonrpc\""), all);
    assert_int_equal(count(f->client.body, "\"error_type\":\"busy\""), busy);
}

/* ---- Batches ------------------------------------------------------------ */

static void the_answers_of_a_batch_count_together(void **state) {
    struct fixture *f = *state;

    legacy_initialize(&f->client, "2025-03-26");
    legacy_send(&f->client, "[" READ("1") "," READ("2") "," READ("3") "," HOLD "]");
    tdg_request_t *request = served_take(&f->served, &f->client);
    WAIT_UNTIL(&f->client, tdg__budget_used(room(f)) >= 2 * (size_t)TEXT);
    assert_true(tdg__budget_used(room(f)) < 3 * (size_t)TEXT);
    tdg_request_reply_text(request, "done");
    assert_answers(f, 4, 0);
    assert_true(f->client.body_len > 3 * (size_t)TEXT);
    WAIT_UNTIL(&f->client, tdg__budget_used(room(f)) == 0);
}

static void reads_of_a_batch_are_refused_where_there_is_no_room(void **state) {
    struct fixture *f = *state;

    legacy_initialize(&f->client, "2025-03-26");
    tdg__budget_overdraw(room(f), TDG__SMALL_ANSWERS_MAX);
    legacy_send(&f->client, "[" READ("1") "," READ("2") "," READ("3") "]");
    assert_answers(f, 3, 2);
    legacy_send(&f->client, READ("4"));
    assert_answers(f, 1, 0);
    tdg__budget_give(room(f), TDG__SMALL_ANSWERS_MAX);
    legacy_send(&f->client, "[" READ("5") "," READ("6") "]");
    assert_answers(f, 2, 0);
}

static void what_a_tool_of_a_batch_has_done_is_answered(void **state) {
    struct fixture *f = *state;

    legacy_initialize(&f->client, "2025-03-26");
    tdg__budget_overdraw(room(f), TDG__SMALL_ANSWERS_MAX);
    legacy_send(&f->client, "[" READ("1") "," HOLD "]");
    tdg_request_reply_text(served_take(&f->served, &f->client), f->text);
    assert_answers(f, 2, 0);
    assert_true(f->client.body_len > 2 * (size_t)TEXT);
    tdg__budget_give(room(f), TDG__SMALL_ANSWERS_MAX);
}

static void hold_some(struct fixture *f, unsigned busy) {
    legacy_send(&f->client, "[" HOLD_AS("11") "," HOLD_AS("12") "," HOLD_AS(
                                "13") "," HOLD_AS("14") "," READ("1") "," READ("2") "]");
    for (int i = 0; i < TDG__FREE_READS; i++)
        tdg_request_reply_text(served_take(&f->served, &f->client), "done");
    assert_answers(f, 6, busy);
}

static void reads_beside_other_requests_of_a_batch_have_a_limit(void **state) {
    struct fixture *f = *state;
    tdg__budget_t *reads = f->served.server->parallel_reads;

    legacy_initialize(&f->client, "2025-03-26");
    tdg__budget_overdraw(reads, TDG__PARALLEL_READS);
    hold_some(f, 2);
    assert_int_equal(f->reads, 0);
    legacy_send(&f->client, "[" READ("1") "," READ("2") "]"); /* these are few */
    assert_answers(f, 2, 0);
    tdg__budget_give(reads, TDG__PARALLEL_READS);
    hold_some(f, 0);
    WAIT_UNTIL(&f->client, tdg__budget_used(reads) == 0);
}

/* ---- The endpoints of 2024-11-05 ---------------------------------------- */

static int post_old(struct fixture *f, const char *message) {
    client_request(&f->client, "POST", f->path, NULL, message);
    return client_response(&f->client);
}

static void open_old(struct fixture *f) {
    client_request(&f->stream, "GET", "/sse", NULL, NULL);
    assert_int_equal(client_response(&f->stream), 200);
    assert_true(event_field(client_event(&f->stream), "data", f->path, sizeof(f->path)));
    assert_int_equal(post_old(f,
                              "{'jsonrpc':'2.0','id':0,'method':'initialize','params':{"
                              "'protocolVersion':'2024-11-05','capabilities':{},"
                              "'clientInfo':{'name':'old','version':'1'}}}"),
                     202);
    client_expect(&f->stream, "'id':0");
    post_old(f, "{'jsonrpc':'2.0','method':'notifications/initialized'}");
}

/* Counts what comes until the stream ends. */
static void drain(struct fixture *f, unsigned *ret_answers, unsigned *ret_busy) {
    const char *event;

    while ((event = client_message(&f->stream)) != NULL) {
        *ret_answers += strstr(event, "\"contents\"") != NULL;
        *ret_busy += strstr(event, "\"busy\"") != NULL;
    }
}

/* The kernel takes some megabytes, then 1 MiB waits, then there are errors until the
 * stream is closed. Whoever reads it nevertheless learns all that. */
static void an_old_stream_that_nobody_reads_holds_little(void **state) {
    struct fixture *f = *state;
    unsigned answers = 0, busy = 0;
    size_t most = 0;

    open_old(f);
    f->text[EVENT] = '\0';
    for (int i = 0; i < POSTS; i++) {
        size_t used = tdg__budget_used(room(f));

        most = used > most ? used : most;
        assert_int_equal(post_old(f, READ("1")), 202);
    }
    assert_in_range(most, (1 << 20) - (100 << 10), (1 << 20) + (100 << 10));
    drain(f, &answers, &busy);
    assert_in_range(busy, 100, 1000);
    assert_true(answers + busy < POSTS);
    WAIT_UNTIL(&f->client, tdg__budget_used(room(f)) == 0);
}

static void an_old_stream_that_is_read_later_carries_every_answer(void **state) {
    struct fixture *f = *state;

    open_old(f);
    f->text[EVENT] = '\0';
    for (int i = 0; i < 60; i++)
        assert_int_equal(post_old(f, READ("1")), 202);
    for (int i = 0; i < 60; i++)
        client_expect(&f->stream, "'contents'");
    WAIT_UNTIL(&f->client, tdg__budget_used(room(f)) == 0);
}

#define CASE(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void) {
    /* clang-format off: version 14 crashes on a table with a macro in it */
    const struct CMUnitTest tests[] = {
        CASE(the_answers_of_a_batch_count_together),
        CASE(reads_of_a_batch_are_refused_where_there_is_no_room),
        CASE(what_a_tool_of_a_batch_has_done_is_answered),
        CASE(reads_beside_other_requests_of_a_batch_have_a_limit),
        CASE(an_old_stream_that_nobody_reads_holds_little),
        CASE(an_old_stream_that_is_read_later_carries_every_answer),
    };
    /* clang-format on */

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("small_answers", tests, NULL, NULL);
}

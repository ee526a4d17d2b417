/* SPDX-License-Identifier: MIT
 *
 * How long an answer is kept for a client that has to come back for it. The clock of the
 * test is put forward, so nothing waits for minutes. Server and client are in one thread.
 */
#include "clock.h"
#include "served.h"

struct fixture {
    uv_loop_t loop;
    struct served served;
    struct client post, other;
};

static int setup(void **state) {
    struct fixture *f = state_create(state, sizeof(*f));

    assert_int_equal(uv_loop_init(&f->loop), 0);
    return 0;
}

static int teardown(void **state) {
    struct fixture *f = *state;

    client_done(&f->post);
    client_done(&f->other);
    served_close(&f->served);
    assert_int_equal(uv_loop_close(&f->loop), 0);
    return state_destroy(state);
}

static struct fixture *open_with(void **state, const tdg_server_opts_t *opts) {
    struct fixture *f = *state;

    served_open(&f->served, opts, &f->loop);
    served_client(&f->served, &f->post);
    served_client(&f->served, &f->other);
    legacy_initialize(&f->post, LATEST_LEGACY);
    legacy_join(&f->other, &f->post);
    return f;
}

/* The server has seen that so much time has passed. */
static void pass(struct fixture *f, time_t seconds) {
    clock_pass((uint32_t)seconds * 1000);
    for (int i = 0; i < 10; i++)
        uv_run(&f->loop, UV_RUN_NOWAIT);
}

/* Calls a tool whose answer its client has to come back for, with the id. */
static tdg_request_t *hold_released(struct fixture *f, char id[128]) {
    legacy_send(&f->post, HOLD);
    tdg_request_t *request = served_take(&f->served, &f->post);

    tdg_request_release_connection(request);
    assert_int_equal(client_response(&f->post), 200);
    assert_true(event_field(client_event(&f->post), "id", id, 128));
    client_expect_end(&f->post);
    return request;
}

/* The idle time of a session begins with the answer, not with the call. */
static void an_answer_keeps_its_session(void **state) {
    const tdg_server_opts_t opts = {.session_idle_ms = 50000, .idle_timeout_ms = 1000000};
    struct fixture *f = open_with(state, &opts);
    char id[128];

    tdg_request_t *request = hold_released(f, id);
    pass(f, 40);
    tdg_request_reply_text(request, "at last");
    pass(f, 40);
    assert_int_equal(legacy_get(&f->other, id), 200);
    client_expect(&f->other, "at last");
    client_expect_end(&f->other);
}

/* A minute, also where the session lives on and posts nothing more. */
static void an_answer_is_kept_for_a_minute(void **state) {
    const tdg_server_opts_t opts = {.idle_timeout_ms = 1000000};
    struct fixture *f = open_with(state, &opts);
    char id[128];

    tdg_request_reply_text(hold_released(f, id), "kept");
    pass(f, 50);
    assert_int_equal(legacy_get(&f->other, id), 200);
    client_expect(&f->other, "kept");
    client_expect_end(&f->other); /* from now on it is kept for another minute */
    pass(f, 80);
    assert_int_equal(legacy_get(&f->other, id), 400);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        CASE(an_answer_keeps_its_session),
        CASE(an_answer_is_kept_for_a_minute),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("replay", tests, NULL, NULL);
}

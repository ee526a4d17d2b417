/* SPDX-License-Identifier: MIT */
#include <pthread.h>
#include <sched.h>

#include "fake_worker.h"

enum { THREADS = 4, CALLS = 400 };

/* Answers every THREADS-th call. */
struct member {
    tdg__call_t **calls;
    size_t first;
};

static void *answer_some(void *user) {
    const struct member *member = user;

    for (size_t i = member->first; i < CALLS; i += THREADS) {
        tdg__call_t *call = member->calls[i];

        tdg_request_progress(call, 1, 0, "m");
        if (!tdg_request_cancelled(call))
            tdg_request_log(call, TDG_LOG_ERROR, NULL, json_pack("[i]", 1));
        tdg_request_release_connection(call);
        tdg_request_progress(call, 2, 0, NULL);
        if (i % 3 == 0)
            tdg_request_fail(call, -32000, "m", json_object());
        else
            tdg_request_reply_text(call, "t");
    }
    return NULL;
}

static void begin_all(struct fake *fake, tdg__call_t **ret) {
    json_t *token = json_integer(1);
    const tdg__mcp_request_t request = {.method = TDG__M_READ,
                                        .version = TDG__V2026_07_28,
                                        .id = "7",
                                        .log_level = TDG_LOG_DEBUG,
                                        .uri = "clock://now",
                                        .progress_token = token};

    for (size_t i = 0; i < CALLS; i++) {
        ret[i] = tdg__call_create(&fake->channel, &request);
        assert_non_null(ret[i]);
    }
    json_decref(token);
}

/* What a worker does until `left` calls are unanswered; each call says five things. */
static void serve_until(struct fake *fake, unsigned left) {
    while (fake->channel.call_count > left) {
        if (fake_turn(fake) == 0)
            sched_yield();
        for (size_t i = 0; i < fake->count; i++)
            assert_string_equal(fake->said[i].id, "7");
        fake_forget(fake);
    }
}

/* The worker serves until `left` calls are unanswered; then it goes. Memory is not
 * counted in this program: threads allocate. */
static void answer_from_threads(unsigned left) {
    struct fake *fake = calloc(1, sizeof(*fake));
    tdg__call_t *calls[CALLS];
    struct member members[THREADS];
    pthread_t threads[THREADS];

    assert_non_null(fake);
    fake_start(fake);
    begin_all(fake, calls);
    for (size_t i = 0; i < THREADS; i++) {
        members[i] = (struct member){calls, i};
        assert_int_equal(pthread_create(&threads[i], NULL, answer_some, &members[i]), 0);
    }

    serve_until(fake, left);
    fake_leave_channel(fake);
    fake_turn(fake); /* answers to nobody */
    fake_end(fake);  /* and from here on nowhere */
    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(fake->count, 0);
    fake_stop(fake);
    free(fake);
}

static void threads_answer_while_the_worker_serves(void **state) {
    (void)state;
    answer_from_threads(0);
}

static void threads_answer_while_the_worker_goes(void **state) {
    static const unsigned left[] = {CALLS, CALLS * 3 / 4, CALLS / 2, CALLS / 4};

    (void)state;
    for (size_t i = 0; i < COUNT(left); i++)
        answer_from_threads(left[i]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_answer_while_the_worker_serves),
        cmocka_unit_test(threads_answer_while_the_worker_goes),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("call_threads", tests, NULL, NULL);
}

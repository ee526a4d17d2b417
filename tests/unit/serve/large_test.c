/* SPDX-License-Identifier: MIT */
#include <stdio.h>

#include "mcp/content.h"
#include "serve/large.h"
#include "source/common/checksum.h"
#include "support.h"

enum { MB = 1 << 20, READS = 8 };

struct one {
    tdg__large_read_t read;
    bool admitted, busy, cancelled, is_encoded;
    int status;
    tdg__buf_t *member; /* a reference */
};

struct fixture {
    uv_loop_t loop;
    tdg__heavy_t heavy;
    tdg__large_t large;
    tdg__budget_t *budget;
    struct one reads[READS];
    char *content; /* MB bytes */
    bool idle;
};

static void on_admitted(tdg__large_read_t *read, bool busy) {
    struct one *one = (struct one *)read;

    assert_false(one->admitted || one->busy);
    one->admitted = !busy;
    one->busy = busy;
}

static void on_encoded(tdg__large_read_t *read, tdg__buf_t *member, int status) {
    struct one *one = (struct one *)read;

    assert_false(one->is_encoded);
    one->is_encoded = true;
    one->status = status;
    one->member = member != NULL ? tdg__buf_ref(member) : NULL;
}

static bool is_cancelled(const tdg__large_read_t *read) {
    return ((const struct one *)read)->cancelled;
}

static void on_idle(void *user) {
    ((struct fixture *)user)->idle = true;
}

static int setup(void **state) {
    struct fixture *f = calloc(1, sizeof(*f)); /* threads allocate: it is not counted */

    assert_non_null(f);
    *state = f;
    assert_int_equal(uv_loop_init(&f->loop), 0);
    tdg__heavy_init(&f->heavy, &f->loop);
    tdg__large_init(&f->large, &f->loop, &f->heavy);
    f->budget = tdg__budget_create(10 * MB);
    tdg__large_bind(&f->large, f->budget);
    f->content = malloc(MB);
    assert_non_null(f->content);
    memset(f->content, 'x', MB);
    return 0;
}

static int teardown(void **state) {
    struct fixture *f = *state;

    for (size_t i = 0; i < READS; i++) {
        tdg__large_leave(&f->large, &f->reads[i].read);
        tdg__buf_unref(f->reads[i].member);
    }
    if (!f->large.closing)
        tdg__large_close(&f->large, on_idle, f);
    uv_run(&f->loop, UV_RUN_DEFAULT);
    assert_true(f->idle);
    tdg__large_done(&f->large);
    assert_int_equal(tdg__budget_used(f->budget), 0);
    tdg__budget_unref(f->budget);
    assert_int_equal(uv_loop_close(&f->loop), 0);
    free(f->content);
    free(f);
    return 0;
}

static void ask_for(struct fixture *f, struct one *one, uint64_t client, const char *uri,
                    uint64_t size) {
    one->read = (tdg__large_read_t){.client = client,
                                    .uri = uri,
                                    .size = size,
                                    .admitted = on_admitted,
                                    .encoded = on_encoded,
                                    .cancelled = is_cancelled};
    tdg__large_admit(&f->large, &one->read);
}

static struct one *ask(struct fixture *f, size_t i, const char *uri, uint64_t size) {
    ask_for(f, &f->reads[i], 1, uri, size);
    return &f->reads[i];
}

static void encode(struct fixture *f, struct one *one, const char *data, size_t len) {
    char checksum[TDG__CHECKSUM + 1];

    assert_int_equal(tdg__checksum(data, len, checksum), 0);

    tdg__content_t content = {
        .data = data, .len = len, .metadata = json_pack("{s:s}", "checksum", checksum)};

    tdg__large_encode(&f->large, &one->read, &content);
    json_decref(content.metadata);
}

static void leave(struct fixture *f, struct one *one) {
    tdg__large_leave(&f->large, &one->read);
    tdg__buf_unref(one->member);
    one->member = NULL;
}

#define RUN_UNTIL(f, condition)                                                          \
    while (!(condition))                                                                 \
    uv_run(&(f)->loop, UV_RUN_ONCE)

/* ---- Cases -------------------------------------------------------------- */

static void small_ones_do_not_wait(void **state) {
    struct fixture *f = *state;

    assert_true(tdg__budget_take(f->budget, 10 * MB));
    assert_true(ask(f, 0, "a:1", 0)->admitted);
    assert_true(ask(f, 1, "a:2", TDG__HEAVY_BYTES)->admitted);
    tdg__budget_give(f->budget, 10 * MB);
}

static void a_few_are_under_way_at_a_time_and_others_follow_in_order(void **state) {
    struct fixture *f = *state;

    assert_true(ask(f, 0, "a:0", MB)->admitted);
    assert_true(ask(f, 1, "a:1", MB)->admitted);
    for (size_t i = 2; i < 5; i++)
        assert_false(ask(f, i, i == 4 ? "a:2" : i == 3 ? "a:3" : "a:2", MB)->admitted);
    assert_true(ask(f, 5, "a:0", MB)->admitted); /* with the first */
    leave(f, &f->reads[0]);
    leave(f, &f->reads[5]);
    RUN_UNTIL(f, f->reads[2].admitted);
    assert_true(f->reads[4].admitted); /* with that one */
    assert_false(f->reads[3].admitted);
    leave(f, &f->reads[1]);
    RUN_UNTIL(f, f->reads[3].admitted);
}

static void without_room_a_read_waits_until_some_comes_back(void **state) {
    struct fixture *f = *state;

    assert_true(tdg__budget_take(f->budget, 8 * MB));
    assert_false(ask(f, 0, "a:0", MB)->admitted);
    assert_false(f->reads[0].busy);
    tdg__budget_give(f->budget, 8 * MB); /* as other threads do */
    RUN_UNTIL(f, f->reads[0].admitted);
}

static void whoever_waits_too_long_or_leaves_is_refused(void **state) {
    struct fixture *f = *state;

    assert_true(tdg__budget_take(f->budget, 9 * MB));
    for (size_t i = 0; i < 3; i++)
        assert_false(ask(f, i, "a:0", MB)->busy);
    assert_true(f->reads[0].read.until_ms > uv_now(&f->loop) + 1000);
    f->reads[1].read.until_ms = 0;
    f->reads[2].cancelled = true;
    RUN_UNTIL(f, f->reads[1].busy && f->reads[2].busy);
    assert_false(f->reads[0].busy);
    tdg__large_close(&f->large, on_idle, f);
    assert_true(f->reads[0].busy);
    tdg__budget_give(f->budget, 9 * MB);
}

/* One client asks for many things, another for one. */
static void clients_take_turns(void **state) {
    struct fixture *f = *state;
    static const char *const uris[] = {"a:0", "a:1", "a:2", "a:3", "a:4"};

    assert_true(tdg__budget_take(f->budget, 10 * MB));
    for (size_t i = 0; i < 5; i++)
        ask_for(f, &f->reads[i], 1, uris[i], 4 * MB);
    ask_for(f, &f->reads[5], 2, "b:0", 4 * MB);
    tdg__budget_give(f->budget, 10 * MB); /* enough for one */
    RUN_UNTIL(f, f->reads[0].admitted);
    assert_false(f->reads[5].admitted);
    leave(f, &f->reads[0]);
    RUN_UNTIL(f, f->reads[5].admitted || f->reads[1].admitted);
    assert_true(f->reads[5].admitted);
    assert_false(f->reads[1].admitted);
    leave(f, &f->reads[5]);
    for (size_t i = 1; i < 5; i++) {
        RUN_UNTIL(f, f->reads[i].admitted);
        leave(f, &f->reads[i]);
    }
}

static void whoever_has_the_most_waiting_gives_way(void **state) {
    struct fixture *f = *state;
    struct one *many = calloc(TDG__LARGE_WAITING, sizeof(*many));
    size_t last = TDG__LARGE_WAITING - 1;

    assert_non_null(many);
    assert_true(tdg__budget_take(f->budget, 10 * MB));
    for (size_t i = 0; i <= last; i++)
        ask_for(f, &many[i], 1, "a:0", MB);
    ask_for(f, &f->reads[0], 1, "a:0", MB); /* the same client */
    assert_true(f->reads[0].busy);
    ask_for(f, &f->reads[1], 2, "a:0", MB);
    assert_false(f->reads[1].busy);
    assert_true(many[last].busy);
    assert_false(many[last - 1].busy);
    tdg__large_close(&f->large, on_idle, f);
    assert_true(f->reads[1].busy);
    for (size_t i = 0; i < last; i++)
        assert_true(many[i].busy);
    tdg__budget_give(f->budget, 10 * MB);
    free(many);
}

static void equal_contents_are_encoded_once_while_somebody_reads_them(void **state) {
    struct fixture *f = *state;
    size_t len;

    for (size_t i = 0; i < 2; i++)
        encode(f, ask(f, i, "a:0", MB), f->content, MB);
    RUN_UNTIL(f, f->reads[0].is_encoded && f->reads[1].is_encoded);
    assert_non_null(f->reads[0].member);
    assert_ptr_equal(f->reads[0].member, f->reads[1].member);
    len = f->reads[0].member->len;
    assert_int_equal(tdg__budget_used(f->budget), len); /* the estimate is gone */

    encode(f, ask(f, 2, "b:0", MB), f->content, MB); /* of another name, and later */
    assert_ptr_equal(f->reads[2].member, f->reads[0].member);
    for (size_t i = 0; i < 3; i++)
        leave(f, &f->reads[i]);
    RUN_UNTIL(f, tdg__budget_used(f->budget) == 0);
}

static void what_was_larger_than_expected_is_refused_where_it_does_not_fit(void **state) {
    struct fixture *f = *state;

    assert_true(tdg__budget_take(f->budget, 10 * MB - 100000));
    encode(f, ask(f, 0, "a:0", 0), f->content, MB);
    RUN_UNTIL(f, f->reads[0].is_encoded);
    assert_null(f->reads[0].member);
    assert_int_equal(f->reads[0].status, TDG_EAGAIN);
    tdg__budget_give(f->budget, 10 * MB - 100000);
}

#define CASE(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void) {
    /* clang-format off: version 14 crashes on a table with a macro in it */
    const struct CMUnitTest tests[] = {
        CASE(small_ones_do_not_wait),
        CASE(a_few_are_under_way_at_a_time_and_others_follow_in_order),
        CASE(without_room_a_read_waits_until_some_comes_back),
        CASE(whoever_waits_too_long_or_leaves_is_refused),
        CASE(clients_take_turns),
        CASE(whoever_has_the_most_waiting_gives_way),
        CASE(equal_contents_are_encoded_once_while_somebody_reads_them),
        CASE(what_was_larger_than_expected_is_refused_where_it_does_not_fit),
    };
    /* clang-format on */

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("large", tests, NULL, NULL);
}

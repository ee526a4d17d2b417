/* SPDX-License-Identifier: MIT */
#include "support.h"
#include "watch/exec_queue.h"

struct fixture {
    exec_queue_t queue;
};

struct payload {
    uint64_t merged; /* earlier ones that it stands for as well */
    char text[16];
};

static struct payload *payload(const char *text) {
    struct payload *made = calloc(1, sizeof(*made));

    assert_non_null(made);
    snprintf(made->text, sizeof(made->text), "%s", text);
    return made;
}

static void release(void *made) {
    free(made);
}

/* What was merged last, and what the newer one costs then. */
static struct {
    char older[16], newer[16];
    size_t bytes;
} merging;

static size_t merge(void *waiting, void *coming) {
    struct payload *older = waiting, *newer = coming;

    strcpy(merging.older, older->text);
    strcpy(merging.newer, newer->text);
    newer->merged += 1 + older->merged;
    return merging.bytes;
}

static int add_bytes(struct fixture *f, const char *uri, const char *text, size_t bytes) {
    return exec_queue_add(&f->queue, uri, payload(text), bytes);
}

static void add(struct fixture *f, const char *uri, const char *text) {
    assert_int_equal(add_bytes(f, uri, text, strlen(text)), 0);
}

/* The next run has this payload and stands for so many more. Returns its id. */
static uint32_t runs(struct fixture *f, const char *text, uint64_t merged) {
    uint32_t id;
    struct payload *next = exec_queue_next(&f->queue, &id);

    assert_non_null(next);
    assert_string_equal(next->text, text);
    assert_int_equal(next->merged, merged);
    release(next);
    return id;
}

static void runs_nothing(struct fixture *f) {
    uint32_t id;

    assert_null(exec_queue_next(&f->queue, &id));
}

static int setup(void **state) {
    struct fixture *f = state_create(state, sizeof(struct fixture));

    memset(&merging, 0, sizeof(merging));
    exec_queue_init(&f->queue, 4, 1, 100, merge, release);
    return 0;
}

static int teardown(void **state) {
    struct fixture *f = *state;

    exec_queue_done(&f->queue);
    return state_destroy(state);
}

static void runs_what_comes_at_once(void **state) {
    struct fixture *f = *state;

    runs_nothing(f);
    add(f, "a:1", "one");
    exec_queue_over(&f->queue, runs(f, "one", 0));
    runs_nothing(f);
    assert_int_equal(f->queue.uris.count, 0);
}

static void never_runs_two_of_one_uri(void **state) {
    struct fixture *f = *state;
    uint32_t first;

    add(f, "a:1", "one");
    first = runs(f, "one", 0);
    add(f, "a:1", "two");
    runs_nothing(f);
    exec_queue_over(&f->queue, first);
    exec_queue_over(&f->queue, runs(f, "two", 0));
}

static void collapses_what_comes_meanwhile_into_the_newest(void **state) {
    struct fixture *f = *state;
    uint32_t first;

    add(f, "a:1", "one");
    first = runs(f, "one", 0);
    for (int i = 0; i < 99; i++)
        add(f, "a:1", "more");
    struct payload *last = payload("last");
    last->merged = 5;
    assert_int_equal(exec_queue_add(&f->queue, "a:1", last, 4), 0);
    assert_int_equal(f->queue.waiting, 1);
    exec_queue_over(&f->queue, first);
    exec_queue_over(&f->queue, runs(f, "last", 99 + 5));
    runs_nothing(f);
}

static void merges_what_waits_with_what_comes(void **state) {
    struct fixture *f = *state;
    uint32_t first;

    add(f, "a:1", "one");
    first = runs(f, "one", 0);
    add(f, "a:1", "two");
    assert_string_equal(merging.newer, ""); /* what runs is not merged with */
    add(f, "a:1", "three");
    assert_string_equal(merging.older, "two");
    assert_string_equal(merging.newer, "three");
    exec_queue_over(&f->queue, first);
    exec_queue_over(&f->queue, runs(f, "three", 1));
}

static void runs_others_beside_a_slow_one(void **state) {
    struct fixture *f = *state;
    uint32_t slow;

    add(f, "a:slow", "slow");
    slow = runs(f, "slow", 0);
    add(f, "a:slow", "again");
    add(f, "a:2", "quick");
    exec_queue_over(&f->queue, runs(f, "quick", 0));
    exec_queue_over(&f->queue, slow);
    exec_queue_over(&f->queue, runs(f, "again", 0));
}

static void bounds_what_runs_in_all(void **state) {
    struct fixture *f = *state;
    uint32_t ids[4];

    add(f, "a:0", "0");
    add(f, "a:1", "1");
    add(f, "a:2", "2");
    add(f, "a:3", "3");
    add(f, "a:4", "4");
    ids[0] = runs(f, "0", 0);
    ids[1] = runs(f, "1", 0);
    ids[2] = runs(f, "2", 0);
    ids[3] = runs(f, "3", 0);
    runs_nothing(f);
    exec_queue_over(&f->queue, ids[2]);
    ids[2] = runs(f, "4", 0);
    for (int i = 0; i < 4; i++)
        exec_queue_over(&f->queue, ids[i]);
    assert_int_equal(f->queue.running, 0);
}

static void takes_turns_in_the_order_of_coming(void **state) {
    struct fixture *f = *state;
    uint32_t busy;

    exec_queue_done(&f->queue);
    exec_queue_init(&f->queue, 1, 1, 100, merge, release);
    add(f, "a:busy", "busy");
    busy = runs(f, "busy", 0);
    add(f, "a:1", "1");
    add(f, "a:busy", "busy");
    add(f, "a:2", "2");
    add(f, "a:1", "1 again");
    exec_queue_over(&f->queue, busy);
    exec_queue_over(&f->queue, runs(f, "1 again", 1));
    exec_queue_over(&f->queue, runs(f, "busy", 0));
    exec_queue_over(&f->queue, runs(f, "2", 0));
}

static void runs_several_of_one_uri_where_asked(void **state) {
    struct fixture *f = *state;
    uint32_t one, two;

    exec_queue_done(&f->queue);
    exec_queue_init(&f->queue, 4, 2, 100, merge, release);
    add(f, "a:1", "one");
    one = runs(f, "one", 0);
    add(f, "a:1", "two");
    two = runs(f, "two", 0);
    add(f, "a:1", "three");
    add(f, "a:1", "four");
    runs_nothing(f);
    exec_queue_over(&f->queue, one);
    one = runs(f, "four", 1);
    exec_queue_over(&f->queue, one);
    exec_queue_over(&f->queue, two);
}

static void is_full_by_what_waits(void **state) {
    struct fixture *f = *state;
    uint32_t id;

    assert_int_equal(add_bytes(f, "a:1", "x", 101), 0);
    assert_true(exec_queue_is_full(&f->queue));
    id = runs(f, "x", 0);
    assert_false(exec_queue_is_full(&f->queue));
    assert_int_equal(add_bytes(f, "a:1", "x", 101), 0);
    merging.bytes = 100;
    assert_int_equal(add_bytes(f, "a:1", "y", 50), 0);
    assert_false(exec_queue_is_full(&f->queue)); /* only one is kept */
    merging.bytes = 101;
    assert_int_equal(add_bytes(f, "a:1", "z", 50), 0);
    assert_true(exec_queue_is_full(&f->queue)); /* it took over what the other had */
    exec_queue_over(&f->queue, id);
}

static void drops_what_waits_only(void **state) {
    struct fixture *f = *state;
    uint32_t id;

    add(f, "a:1", "one");
    id = runs(f, "one", 0);
    add(f, "a:1", "two");
    add(f, "a:2", "three");
    exec_queue_drop(&f->queue);
    runs_nothing(f);
    assert_int_equal(f->queue.running, 1);
    assert_int_equal(f->queue.bytes, 0);
    exec_queue_over(&f->queue, id);
    assert_int_equal(f->queue.uris.count, 0);
}

/* Whatever happens in whatever order: within the bounds, and nothing added is lost. */
static void keeps_its_promises_by_chance(void **state) {
    enum { URIS = 7, STEPS = 20000 };
    struct fixture *f = *state;
    struct dice dice = dice_from_env();
    uint64_t added[URIS] = {0}, told[URIS] = {0};
    size_t running[URIS] = {0}, count = 0;
    struct {
        uint32_t id;
        unsigned uri;
    } list[3];

    exec_queue_done(&f->queue);
    exec_queue_init(&f->queue, 3, 2, 100, merge, release);
    for (int step = 0; step < STEPS; step++) {
        unsigned what = roll(&dice, 3), uri = roll(&dice, URIS);
        struct payload *next;
        uint32_t id;

        if (what == 0 && step < STEPS - 200) {
            char name[] = {'u', ':', (char)('0' + uri), '\0'};

            add(f, name, name + 2);
            added[uri]++;
        } else if (what == 1 && count > 0) {
            size_t i = roll(&dice, (uint32_t)count);

            running[list[i].uri]--;
            exec_queue_over(&f->queue, list[i].id);
            list[i] = list[--count];
        } else if (what == 2 && (next = exec_queue_next(&f->queue, &id)) != NULL) {
            uri = (unsigned)(next->text[0] - '0');
            told[uri] += 1 + next->merged;
            assert_true(++running[uri] <= 2);
            assert_true(count < 3);
            list[count].id = id;
            list[count++].uri = uri;
            release(next);
        }
    }
    while (count > 0)
        exec_queue_over(&f->queue, list[--count].id);
    assert_int_equal(f->queue.uris.count, f->queue.waiting);
    assert_int_equal(f->queue.waiting, 0);
    assert_memory_equal(added, told, sizeof(added));
}

static void survives_a_lack_of_memory(void **state) {
    struct fixture *f = *state;

    for (size_t nth = 1;; nth++) {
        memory_fail(nth, MEMORY_ONCE);
        int rv = add_bytes(f, "a:1", "x", 1);
        bool failed = memory_failed();
        memory_fail(0, MEMORY_ONCE);

        if (rv == 0) {
            assert_false(failed);
            break;
        }
        assert_int_equal(rv, TDG_ENOMEM);
        assert_int_equal(f->queue.uris.count, 0);
        assert_true(nth < 20);
    }
    exec_queue_over(&f->queue, runs(f, "x", 0));
}

int main(void) {
#define CASE(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(runs_what_comes_at_once),
        CASE(never_runs_two_of_one_uri),
        CASE(collapses_what_comes_meanwhile_into_the_newest),
        CASE(merges_what_waits_with_what_comes),
        CASE(runs_others_beside_a_slow_one),
        CASE(bounds_what_runs_in_all),
        CASE(takes_turns_in_the_order_of_coming),
        CASE(runs_several_of_one_uri_where_asked),
        CASE(is_full_by_what_waits),
        CASE(drops_what_waits_only),
        CASE(keeps_its_promises_by_chance),
        CASE(survives_a_lack_of_memory),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("exec_queue", tests, NULL, NULL);
}

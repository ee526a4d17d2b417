/* SPDX-License-Identifier: MIT */
#include "server/hub/inbox.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>

#include "base/alloc.h"
#include "support.h"

#define URI(text) (&(const tdg__target_t){TDG__TARGET_URI, (text), strlen(text)})
#define LIST(text) (&(const tdg__target_t){TDG__TARGET_LIST, (text), strlen(text)})

enum { MAX = 8 };

struct box {
    tdg__inbox_t *inbox;
    int woken;
};

static void count_wake(void *user) {
    (*(int *)user)++;
}

static int setup(void **state) {
    struct box *b = state_create(state, sizeof(*b));

    return tdg__inbox_create(MAX, count_wake, &b->woken, &b->inbox);
}

static int teardown(void **state) {
    struct box *b = *state;

    memory_fail(0, MEMORY_ONCE);
    tdg__inbox_unref(b->inbox);
    return state_destroy(state);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

static tdg__change_t *change_of(const tdg__target_t *target, uint64_t number) {
    tdg__change_t *change;

    assert_int_equal(tdg__change_create(target, NULL, false, 0, 100, &change), 0);
    assert_int_equal(tdg__change_stamp(change, number), 0);
    return change;
}

/* Puts a change in and does as the hub does. Returns 0 or the error. */
static int put_target(tdg__inbox_t *inbox, const tdg__target_t *target, uint64_t number) {
    tdg__change_t *change = change_of(target, number);
    int rv = tdg__inbox_put_change(inbox, change, false);

    tdg__change_unref(change);
    if (rv == 1)
        tdg__inbox_wake(inbox);
    return rv < 0 ? rv : 0;
}

static int put(tdg__inbox_t *inbox, const char *uri, uint64_t number) {
    return put_target(inbox, URI(uri), number);
}

static tdg__answer_t *put_answer(tdg__inbox_t *inbox, const char *uri, int error,
                                 uint64_t number) {
    tdg__answer_t *answer;
    int rv;

    assert_int_equal(tdg__inbox_prepare_answer(URI(uri), &answer), 0);
    rv = tdg__inbox_put_answer(inbox, answer, error, number);
    assert_true(rv >= 0);
    if (rv == 1)
        tdg__inbox_wake(inbox);
    return answer;
}

static void expect_change(tdg__inbox_t *inbox, const char *uri, uint64_t number,
                          bool unfiltered) {
    tdg__inbox_entry_t entry;

    assert_int_equal(tdg__inbox_take(inbox, &entry, 1), 1);
    assert_non_null(entry.change);
    assert_string_equal(entry.change->name, uri);
    assert_int_equal(entry.change->number, number);
    assert_int_equal(entry.number, number);
    assert_int_equal(entry.unfiltered, unfiltered);
    tdg__change_unref(entry.change);
}

static void expect_answer(tdg__inbox_t *inbox, const char *uri, int error,
                          uint64_t number) {
    tdg__inbox_entry_t entry;

    assert_int_equal(tdg__inbox_take(inbox, &entry, 1), 1);
    assert_null(entry.change);
    assert_int_equal(entry.target.kind, TDG__TARGET_URI);
    assert_int_equal(entry.target.len, strlen(uri));
    assert_string_equal(entry.target.name, uri);
    assert_int_equal(entry.error, error);
    assert_int_equal(entry.number, number);
    tdg__free((char *)(uintptr_t)entry.target.name);
}

static void expect_nothing(tdg__inbox_t *inbox) {
    tdg__inbox_entry_t entry;

    assert_int_equal(tdg__inbox_take(inbox, &entry, 1), 0);
    assert_null(tdg__inbox_take_tasks(inbox));
}

/* ---- Order -------------------------------------------------------------- */

static void changes_come_out_as_they_went_in(void **state) {
    struct box *b = *state;

    expect_nothing(b->inbox);
    assert_int_equal(put(b->inbox, "a:1", 1), 0);
    assert_int_equal(put(b->inbox, "a:2", 2), 0);
    assert_int_equal(put(b->inbox, "a:1", 5), 0);
    expect_change(b->inbox, "a:1", 1, false);
    expect_change(b->inbox, "a:2", 2, false);
    expect_change(b->inbox, "a:1", 5, false);
    expect_nothing(b->inbox);
}

static void several_can_be_taken_at_once(void **state) {
    struct box *b = *state;
    tdg__inbox_entry_t entries[MAX];

    for (uint64_t n = 1; n <= 5; n++)
        assert_int_equal(put(b->inbox, "a:1", n), 0);
    assert_int_equal(tdg__inbox_take(b->inbox, entries, 3), 3);
    assert_int_equal(tdg__inbox_take(b->inbox, entries + 3, MAX - 3), 2);
    assert_int_equal(tdg__inbox_take(b->inbox, entries + 5, 0), 0);
    for (uint64_t n = 1; n <= 5; n++) {
        assert_int_equal(entries[n - 1].number, n);
        tdg__change_unref(entries[n - 1].change);
    }
}

static void what_is_not_taken_goes_with_the_inbox(void **state) {
    struct box *b = *state;

    for (uint64_t n = 1; n <= 5; n++)
        assert_int_equal(put(b->inbox, "a:1", n), 0);
    /* teardown counts the memory */
}

static void an_answer_stands_behind_the_changes_below_its_number(void **state) {
    struct box *b = *state;
    tdg__answer_t *first, *second;

    assert_int_equal(put(b->inbox, "a:1", 1), 0);
    first = put_answer(b->inbox, "w:1", 0, 2);
    second = put_answer(b->inbox, "w:2", TDG_ENOTSUP, 3);
    assert_int_equal(put(b->inbox, "a:1", 4), 0);
    expect_change(b->inbox, "a:1", 1, false);
    expect_answer(b->inbox, "w:1", 0, 2);
    expect_answer(b->inbox, "w:2", TDG_ENOTSUP, 3);
    expect_change(b->inbox, "a:1", 4, false);
    expect_nothing(b->inbox);
    tdg__inbox_drop_answer(b->inbox, first);
    tdg__inbox_drop_answer(b->inbox, second);
}

static void an_answer_is_taken_alone(void **state) {
    struct box *b = *state;
    tdg__inbox_entry_t entries[MAX];
    tdg__answer_t *answer;

    assert_int_equal(put(b->inbox, "a:1", 1), 0);
    answer = put_answer(b->inbox, "w:1", 0, 2);
    assert_int_equal(put(b->inbox, "a:1", 3), 0);
    for (uint64_t n = 1; n <= 3; n++) {
        assert_int_equal(tdg__inbox_take(b->inbox, entries, MAX), 1);
        assert_int_equal(entries[0].number, n);
        assert_int_equal(entries[0].change == NULL, n == 2);
        tdg__change_unref(entries[0].change);
        tdg__free((char *)(uintptr_t)entries[0].target.name);
    }
    expect_nothing(b->inbox);
    tdg__inbox_drop_answer(b->inbox, answer);
}

static void an_answer_that_was_dropped_does_not_come(void **state) {
    struct box *b = *state;
    tdg__answer_t *answers[3], *unused;

    for (size_t i = 0; i < 3; i++)
        answers[i] = put_answer(b->inbox, "w:1", 0, i + 1);
    assert_true(tdg__inbox_answer_waits(b->inbox, answers[1]));
    tdg__inbox_drop_answer(b->inbox, answers[1]);
    expect_answer(b->inbox, "w:1", 0, 1);
    assert_false(tdg__inbox_answer_waits(b->inbox, answers[0]));
    tdg__inbox_drop_answer(b->inbox, answers[0]);
    tdg__inbox_drop_answer(b->inbox, answers[2]);
    expect_nothing(b->inbox);

    assert_int_equal(tdg__inbox_prepare_answer(URI("w:1"), &unused), 0);
    tdg__inbox_drop_answer(b->inbox, unused);
    tdg__inbox_drop_answer(b->inbox, NULL);
}

static void answers_need_no_room(void **state) {
    struct box *b = *state;
    tdg__answer_t *answer;

    for (uint64_t n = 1; n <= MAX; n++)
        assert_int_equal(put(b->inbox, "a:1", n), 0);
    answer = put_answer(b->inbox, "w:1", 0, MAX + 1);
    for (uint64_t n = 1; n <= MAX; n++)
        expect_change(b->inbox, "a:1", n, false);
    expect_answer(b->inbox, "w:1", 0, MAX + 1);
    tdg__inbox_drop_answer(b->inbox, answer);
}

/* ---- Waking ------------------------------------------------------------- */

static void news_wake_when_there_were_none(void **state) {
    struct box *b = *state;
    tdg__answer_t *answer;

    assert_int_equal(put(b->inbox, "a:1", 1), 0);
    assert_int_equal(put(b->inbox, "a:1", 2), 0);
    assert_int_equal(b->woken, 1);
    expect_change(b->inbox, "a:1", 1, false);
    assert_int_equal(put(b->inbox, "a:1", 3), 0);
    assert_int_equal(b->woken, 1);
    expect_change(b->inbox, "a:1", 2, false);
    expect_change(b->inbox, "a:1", 3, false);
    answer = put_answer(b->inbox, "w:1", 0, 4);
    assert_int_equal(b->woken, 2);
    assert_int_equal(put(b->inbox, "a:1", 5), 0);
    assert_int_equal(b->woken, 2);
    tdg__inbox_drop_answer(b->inbox, answer);
}

struct errand {
    tdg__task_t task;
    int ran, ran_elsewhere;
};

static void run_errand(tdg__task_t *task, bool here) {
    struct errand *errand = (struct errand *)(void *)task;

    errand->ran++;
    errand->ran_elsewhere += here ? 0 : 1;
}

static void tasks_wake_when_there_were_none_also_beside_news(void **state) {
    struct box *b = *state;
    struct errand errands[3] = {
        {.task.run = run_errand}, {.task.run = run_errand}, {.task.run = run_errand}};

    assert_int_equal(put(b->inbox, "a:1", 1), 0);
    tdg__inbox_post(b->inbox, &errands[0].task);
    assert_int_equal(b->woken, 2);
    tdg__inbox_post(b->inbox, &errands[1].task);
    assert_int_equal(b->woken, 2);
    assert_ptr_equal(tdg__inbox_take_tasks(b->inbox), &errands[0].task);
    tdg__inbox_post(b->inbox, &errands[2].task);
    assert_int_equal(b->woken, 3);
    assert_non_null(tdg__inbox_take_tasks(b->inbox));
}

static void tasks_come_out_as_they_went_in(void **state) {
    struct box *b = *state;
    struct errand errands[3] = {
        {.task.run = run_errand}, {.task.run = run_errand}, {.task.run = run_errand}};
    tdg__task_t *task;

    for (size_t i = 0; i < 3; i++)
        tdg__inbox_post(b->inbox, &errands[i].task);
    task = tdg__inbox_take_tasks(b->inbox);
    for (size_t i = 0; i < 3; i++, task = task->next)
        assert_ptr_equal(task, &errands[i].task);
    assert_null(task);
    assert_null(tdg__inbox_take_tasks(b->inbox));
    assert_int_equal(errands[0].ran, 0);
}

static void tasks_that_nobody_took_are_cleaned_up_with_the_inbox(void **state) {
    struct errand errand = {.task.run = run_errand};
    tdg__inbox_t *inbox;

    (void)state;
    assert_int_equal(tdg__inbox_create(MAX, NULL, NULL, &inbox), 0);
    tdg__inbox_post(inbox, &errand.task);
    assert_ptr_equal(tdg__inbox_ref(inbox), inbox);
    tdg__inbox_unref(inbox);
    assert_int_equal(errand.ran, 0);
    tdg__inbox_unref(inbox);
    assert_int_equal(errand.ran, 1);
    assert_int_equal(errand.ran_elsewhere, 1);
    tdg__inbox_unref(NULL);
}

static void a_closed_inbox_takes_nothing_in_and_gives_out_what_it_has(void **state) {
    struct box *b = *state;
    struct errand early = {.task.run = run_errand}, late = {.task.run = run_errand};
    tdg__answer_t *answer;
    size_t room = 77;

    assert_int_equal(put(b->inbox, "a:1", 1), 0);
    tdg__inbox_post(b->inbox, &early.task);
    tdg__inbox_close(b->inbox);
    tdg__inbox_close(b->inbox);
    b->woken = 0;
    assert_int_equal(put(b->inbox, "a:1", 2), TDG_EENDED);
    assert_int_equal(tdg__inbox_reserve(b->inbox, URI("a:1"), &room), TDG_EENDED);
    assert_int_equal(room, 77);
    assert_int_equal(tdg__inbox_prepare_answer(URI("w:1"), &answer), 0);
    assert_int_equal(tdg__inbox_put_answer(b->inbox, answer, 0, 3), TDG_EENDED);
    tdg__inbox_drop_answer(b->inbox, answer);
    tdg__inbox_post(b->inbox, &late.task);
    assert_int_equal(late.ran_elsewhere, 1);
    tdg__inbox_wake(b->inbox);
    assert_int_equal(b->woken, 0);

    expect_change(b->inbox, "a:1", 1, false);
    assert_ptr_equal(tdg__inbox_take_tasks(b->inbox), &early.task);
    expect_nothing(b->inbox);
    assert_int_equal(early.ran, 0);
}

/* ---- The bound ---------------------------------------------------------- */

static void fill(tdg__inbox_t *inbox) {
    char uri[16];

    for (unsigned n = 1; n <= MAX; n++) {
        snprintf(uri, sizeof(uri), "a:%u", n);
        assert_int_equal(put(inbox, uri, n), 0);
    }
}

static void beyond_the_bound_a_new_uri_has_to_wait(void **state) {
    struct box *b = *state;
    size_t room = 0;

    assert_int_equal(tdg__inbox_reserve(b->inbox, URI("b:1"), &room), 0);
    assert_int_equal(room, MAX);
    fill(b->inbox);
    assert_int_equal(tdg__inbox_reserve(b->inbox, URI("b:1"), &room), TDG_EAGAIN);
    assert_int_equal(put(b->inbox, "b:1", 20), TDG_EAGAIN);
    expect_change(b->inbox, "a:1", 1, false);
    assert_int_equal(tdg__inbox_reserve(b->inbox, URI("b:1"), &room), 0);
    assert_int_equal(room, 1);
    assert_int_equal(put(b->inbox, "b:1", 20), 0);
}

static void beyond_the_bound_a_change_takes_the_place_of_an_earlier_one(void **state) {
    struct box *b = *state;
    size_t room;

    fill(b->inbox);
    assert_int_equal(tdg__inbox_reserve(b->inbox, URI("a:3"), &room), 1);
    assert_int_equal(put(b->inbox, "a:3", 9), 0);
    assert_int_equal(put(b->inbox, "a:1", 10), 0);
    assert_int_equal(put(b->inbox, "a:3", 11), 0);
    expect_change(b->inbox, "a:2", 2, false);
    expect_change(b->inbox, "a:4", 4, false);
    expect_change(b->inbox, "a:5", 5, false);
    expect_change(b->inbox, "a:6", 6, false);
    expect_change(b->inbox, "a:7", 7, false);
    expect_change(b->inbox, "a:8", 8, false);
    expect_change(b->inbox, "a:1", 10, true);
    expect_change(b->inbox, "a:3", 11, true);
    expect_nothing(b->inbox);
}

static void the_newest_of_a_uri_is_merged_with_first(void **state) {
    struct box *b = *state;

    for (uint64_t n = 1; n <= MAX; n++)
        assert_int_equal(put(b->inbox, "a:1", n), 0);
    for (uint64_t n = MAX + 1; n <= MAX + 100; n++)
        assert_int_equal(put(b->inbox, "a:1", n), 0);
    for (uint64_t n = 1; n < MAX; n++)
        expect_change(b->inbox, "a:1", n, false);
    expect_change(b->inbox, "a:1", MAX + 100, true);
    expect_nothing(b->inbox);
}

static void a_list_is_no_uri_of_the_same_name_and_always_fits_in(void **state) {
    struct box *b = *state;
    tdg__inbox_entry_t entry;

    for (uint64_t n = 1; n <= MAX; n++)
        assert_int_equal(put(b->inbox, "tools", n), 0);
    assert_int_equal(put_target(b->inbox, LIST("tools"), MAX + 1), 0);
    assert_int_equal(put_target(b->inbox, LIST("prompts"), MAX + 2), 0);
    assert_int_equal(put_target(b->inbox, LIST("resources"), MAX + 3), 0);
    assert_int_equal(put_target(b->inbox, LIST("prompts"), MAX + 4), 0); /* merged */
    assert_int_equal(put(b->inbox, "b:1", MAX + 5), TDG_EAGAIN);
    for (uint64_t n = 1; n <= MAX; n++)
        expect_change(b->inbox, "tools", n, false);
    for (uint64_t n = 0; n < 3; n++) {
        static const uint64_t numbers[] = {MAX + 1, MAX + 3, MAX + 4};

        assert_int_equal(tdg__inbox_take(b->inbox, &entry, 1), 1);
        assert_int_equal(entry.change->kind, TDG__TARGET_LIST);
        assert_int_equal(entry.number, numbers[n]);
        tdg__change_unref(entry.change);
    }
    expect_nothing(b->inbox);
    assert_int_equal(put(b->inbox, "b:1", MAX + 5), 0);
}

static void changes_of_a_list_merge_while_they_wait(void **state) {
    struct box *b = *state;

    assert_int_equal(put_target(b->inbox, LIST("tools"), 1), 0);
    assert_int_equal(put_target(b->inbox, LIST("prompts"), 2), 0);
    assert_int_equal(put(b->inbox, "a:1", 3), 0);
    assert_int_equal(put_target(b->inbox, LIST("tools"), 4), 0);
    assert_int_equal(put_target(b->inbox, LIST("tools"), 5), 0);
    assert_int_equal(b->woken, 1);
    expect_change(b->inbox, "prompts", 2, false);
    assert_int_equal(put_target(b->inbox, LIST("prompts"), 6), 0); /* that one is taken */
    expect_change(b->inbox, "a:1", 3, false);
    expect_change(b->inbox, "tools", 5, false);
    expect_change(b->inbox, "prompts", 6, false);
    expect_nothing(b->inbox);
}

/* Each comes out after a bounded number of others, however busy the publisher is. */
static void a_list_is_not_kept_away_by_its_own_changes(void **state) {
    enum { ROUNDS = 1000 };
    tdg__inbox_t *inbox;
    uint64_t number = 0, last = 0;
    tdg__inbox_entry_t entry;
    char uri[16];

    (void)state;
    assert_int_equal(tdg__inbox_create(ROUNDS, NULL, NULL, &inbox), 0);
    for (int i = 0; i < ROUNDS / 2; i++) { /* the worker is behind from the start */
        snprintf(uri, sizeof(uri), "a:%d", i);
        assert_int_equal(put(inbox, uri, ++number), 0);
    }
    for (int i = 0; i < 10 * ROUNDS; i++) { /* and stays behind */
        snprintf(uri, sizeof(uri), "b:%d", i);
        assert_int_equal(put(inbox, uri, ++number), 0);
        assert_int_equal(put_target(inbox, LIST("tools"), ++number), 0);
        assert_int_equal(tdg__inbox_take(inbox, &entry, 1), 1);
        if (entry.change->kind == TDG__TARGET_LIST) {
            assert_true(entry.number - last <= 3 * ROUNDS);
            last = entry.number;
        }
        tdg__change_unref(entry.change);
    }
    assert_true(last >= 9 * ROUNDS);
    tdg__inbox_unref(inbox);
}

static void a_change_may_be_unfiltered_from_the_start(void **state) {
    struct box *b = *state;
    tdg__change_t *change = change_of(URI("a:1"), 1);

    assert_int_equal(tdg__inbox_put_change(b->inbox, change, true), 1);
    tdg__change_unref(change);
    expect_change(b->inbox, "a:1", 1, true);
}

static void an_inbox_for_one_holds_one(void **state) {
    tdg__inbox_t *inbox;

    (void)state;
    assert_int_equal(tdg__inbox_create(0, NULL, NULL, &inbox), TDG_EINVAL);
    assert_int_equal(tdg__inbox_create(SIZE_MAX, NULL, NULL, &inbox), TDG_EINVAL);
    assert_int_equal(tdg__inbox_create(1, NULL, NULL, &inbox), 0);
    for (uint64_t n = 1; n <= 6; n += 2) {
        assert_int_equal(put(inbox, "a:1", n), 0);
        assert_int_equal(put(inbox, "a:2", n + 1), TDG_EAGAIN);
        assert_int_equal(put(inbox, "a:1", n + 1), 0);
        expect_change(inbox, "a:1", n + 1, true);
    }
    expect_nothing(inbox);
    tdg__inbox_unref(inbox);
}

/* ---- Beside a simple model ---------------------------------------------- */

enum { URIS = 12, STEPS = 40000, MODEL_ROOM = 40 };

struct model {
    struct {
        unsigned uri;
        uint64_t number;
        bool unfiltered;
    } items[MODEL_ROOM];
    size_t count, max;
};

/* What the header says, word for word. */
static int model_put(struct model *m, unsigned uri, uint64_t number) {
    bool merged = false;

    if (m->count == m->max) {
        size_t i = m->count;

        while (i > 0 && m->items[i - 1].uri != uri)
            i--;
        if (i == 0)
            return TDG_EAGAIN;
        memmove(&m->items[i - 1], &m->items[i], (m->count - i) * sizeof(m->items[0]));
        m->count--;
        merged = true;
    }
    m->items[m->count].uri = uri;
    m->items[m->count].number = number;
    m->items[m->count++].unfiltered = merged;
    return 0;
}

static void walk_beside_model(struct dice *dice, size_t max) {
    struct model m = {.max = max};
    tdg__inbox_t *inbox;
    char uri[16];

    assert_int_equal(tdg__inbox_create(max, NULL, NULL, &inbox), 0);
    for (uint64_t n = 1; n <= STEPS; n++) {
        bool filling = n / 64 % 2 == 0;

        if (roll(dice, 10) < (filling ? 8U : 3U)) {
            unsigned pick = roll(dice, URIS);

            snprintf(uri, sizeof(uri), "a:%u", pick);
            assert_int_equal(put(inbox, uri, n), model_put(&m, pick, n));
        } else if (m.count > 0) {
            snprintf(uri, sizeof(uri), "a:%u", m.items[0].uri);
            expect_change(inbox, uri, m.items[0].number, m.items[0].unfiltered);
            memmove(&m.items[0], &m.items[1], --m.count * sizeof(m.items[0]));
        } else {
            expect_nothing(inbox);
        }
    }
    tdg__inbox_unref(inbox);
}

static void a_random_walk_agrees_with_the_model(void **state) {
    static const size_t sizes[] = {1, 2, 3, 7, 16, MODEL_ROOM};
    struct dice dice = dice_from_env();

    (void)state;
    for (size_t i = 0; i < COUNT(sizes); i++)
        walk_beside_model(&dice, sizes[i]);
}

/* ---- Without memory ----------------------------------------------------- */

static void without_memory_an_inbox_is_not_made(void **state) {
    tdg__inbox_t *inbox = NULL;

    (void)state;
    memory_fail(1, MEMORY_ONCE);
    assert_int_equal(tdg__inbox_create(MAX, NULL, NULL, &inbox), TDG_ENOMEM);
    assert_null(inbox);
    for (size_t nth = 1; nth <= 2; nth++) {
        tdg__answer_t *answer = NULL;

        memory_fail(nth, MEMORY_ONCE);
        assert_int_equal(tdg__inbox_prepare_answer(URI("a:1"), &answer), TDG_ENOMEM);
        assert_null(answer);
    }
}

static void without_memory_room_is_not_promised_and_what_is_there_stays(void **state) {
    struct box *b = *state;
    tdg__change_t *change = change_of(URI("a:1"), 1);
    size_t room;

    memory_fail(1, MEMORY_ONCE);
    assert_int_equal(tdg__inbox_put_change(b->inbox, change, false), TDG_ENOMEM);
    memory_fail(1, MEMORY_ONCE);
    assert_int_equal(tdg__inbox_reserve(b->inbox, URI("a:1"), &room), TDG_ENOMEM);
    assert_int_equal(tdg__inbox_reserve(b->inbox, URI("a:1"), &room), 0);

    /* What was promised needs none. */
    memory_fail(1, MEMORY_FROM_THEN_ON);
    for (size_t i = 0; i < room; i++)
        assert_int_equal(tdg__inbox_put_change(b->inbox, change, false), i == 0);
    memory_fail(0, MEMORY_ONCE);
    tdg__change_unref(change);
    expect_change(b->inbox, "a:1", 1, false);
}

/* The index could not be built, so nothing can be merged; nothing else suffers. */
static void without_memory_for_the_index_the_publisher_has_to_wait(void **state) {
    struct box *b = *state;
    tdg__change_t *changes[MAX + 1];
    size_t room;

    for (uint64_t n = 0; n <= MAX; n++)
        changes[n] = change_of(URI("a:1"), n + 1);
    assert_int_equal(tdg__inbox_reserve(b->inbox, URI("a:1"), &room), 0);
    memory_fail(1, MEMORY_FROM_THEN_ON);
    for (uint64_t n = 0; n < MAX; n++)
        assert_true(tdg__inbox_put_change(b->inbox, changes[n], false) >= 0);
    assert_int_equal(tdg__inbox_put_change(b->inbox, changes[MAX], false), TDG_EAGAIN);
    memory_fail(0, MEMORY_ONCE);
    for (uint64_t n = 0; n <= MAX; n++) {
        tdg__change_unref(changes[n]);
        if (n < MAX)
            expect_change(b->inbox, "a:1", n + 1, false);
    }
    expect_nothing(b->inbox);
}

/* ---- Threads ------------------------------------------------------------ */

enum { POSTERS = 3, TASKS = 3000, CHANGES = 3000, SMALL = 16 };

/* A worker that sleeps until it is woken. */
struct sleeper {
    tdg__inbox_t *inbox;
    pthread_mutex_t lock;
    pthread_cond_t woken;
    bool awake;
};

static void wake_sleeper(void *user) {
    struct sleeper *s = user;

    pthread_mutex_lock(&s->lock);
    s->awake = true;
    pthread_cond_signal(&s->woken);
    pthread_mutex_unlock(&s->lock);
}

static void sleep_until_woken(struct sleeper *s) {
    pthread_mutex_lock(&s->lock);
    while (!s->awake)
        pthread_cond_wait(&s->woken, &s->lock);
    s->awake = false;
    pthread_mutex_unlock(&s->lock);
}

struct poster {
    pthread_t thread;
    struct sleeper *to;
    struct errand errands[TASKS];
};

static void *post_tasks(void *arg) {
    struct poster *poster = arg;

    for (int i = 0; i < TASKS; i++) {
        poster->errands[i].task.run = run_errand;
        tdg__inbox_post(poster->to->inbox, &poster->errands[i].task);
    }
    return NULL;
}

static void *put_changes(void *arg) {
    struct poster *poster = arg;
    char uri[16];

    for (uint64_t n = 1; n <= CHANGES; n++) {
        int rv;

        snprintf(uri, sizeof(uri), "a:%u", n == CHANGES ? 0 : (unsigned)(n % SMALL));
        while ((rv = put(poster->to->inbox, uri, n)) == TDG_EAGAIN)
            sched_yield();
        if (rv < 0)
            break;
    }
    return NULL;
}

/* Returns whether numbers grew and tasks of each poster came in order. */
static bool take_all(struct sleeper *s) {
    uint64_t last = 0;
    size_t tasks = 0;
    bool in_order = true;

    while (last < CHANGES || tasks < POSTERS * TASKS) {
        tdg__inbox_entry_t entries[SMALL];
        tdg__task_t *task, *next;
        size_t n;

        sleep_until_woken(s);
        for (task = tdg__inbox_take_tasks(s->inbox); task != NULL; task = next) {
            next = task->next;
            task->run(task, true);
            tasks++;
        }
        while ((n = tdg__inbox_take(s->inbox, entries, SMALL)) > 0)
            for (size_t i = 0; i < n; i++) {
                in_order &= entries[i].number > last;
                last = entries[i].number;
                tdg__change_unref(entries[i].change);
            }
    }
    return in_order;
}

static int uncounted(void **state) {
    (void)state;
    return tdg_set_allocator(NULL); /* the counting one is for one thread */
}

static void a_worker_that_sleeps_misses_nothing(void **state) {
    static struct poster posters[POSTERS], publisher;
    struct sleeper s = {.lock = PTHREAD_MUTEX_INITIALIZER,
                        .woken = PTHREAD_COND_INITIALIZER};

    (void)state;
    assert_int_equal(tdg__inbox_create(SMALL, wake_sleeper, &s, &s.inbox), 0);
    for (int i = 0; i < POSTERS; i++) {
        posters[i].to = &s;
        assert_int_equal(
            pthread_create(&posters[i].thread, NULL, post_tasks, &posters[i]), 0);
    }
    publisher.to = &s;
    assert_int_equal(pthread_create(&publisher.thread, NULL, put_changes, &publisher), 0);
    assert_true(take_all(&s));

    pthread_join(publisher.thread, NULL);
    for (int i = 0; i < POSTERS; i++) {
        pthread_join(posters[i].thread, NULL);
        for (int k = 0; k < TASKS; k++) {
            assert_int_equal(posters[i].errands[k].ran, 1);
            assert_int_equal(posters[i].errands[k].ran_elsewhere, 0);
        }
    }
    tdg__inbox_unref(s.inbox);
}

/* Frees what `wake` uses right after close: a wake that came later would be seen by the
 * sanitizers. */
static void closing_while_others_post_ends_waking_and_loses_no_task(void **state) {
    static struct poster posters[POSTERS];
    size_t elsewhere = 0, here = 0;
    tdg__task_t *task, *next;

    (void)state;
    struct sleeper *s = calloc(1, sizeof(*s));
    struct sleeper alias;

    assert_non_null(s);
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->woken, NULL);
    memset(posters, 0, sizeof(posters));
    assert_int_equal(tdg__inbox_create(SMALL, wake_sleeper, s, &s->inbox), 0);
    alias.inbox = s->inbox;
    for (int i = 0; i < POSTERS; i++) {
        posters[i].to = &alias;
        assert_int_equal(
            pthread_create(&posters[i].thread, NULL, post_tasks, &posters[i]), 0);
    }
    sleep_until_woken(s);
    tdg__inbox_close(alias.inbox);
    pthread_cond_destroy(&s->woken);
    pthread_mutex_destroy(&s->lock);
    free(s);
    for (task = tdg__inbox_take_tasks(alias.inbox); task != NULL; task = next) {
        next = task->next;
        task->run(task, true);
        here++;
    }
    for (int i = 0; i < POSTERS; i++) {
        pthread_join(posters[i].thread, NULL);
        for (int k = 0; k < TASKS; k++) {
            assert_int_equal(posters[i].errands[k].ran, 1);
            elsewhere += (size_t)posters[i].errands[k].ran_elsewhere;
        }
    }
    assert_int_equal(here + elsewhere, POSTERS * TASKS);
    tdg__inbox_unref(alias.inbox);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(changes_come_out_as_they_went_in),
        TEST(several_can_be_taken_at_once),
        TEST(what_is_not_taken_goes_with_the_inbox),
        TEST(an_answer_stands_behind_the_changes_below_its_number),
        TEST(an_answer_is_taken_alone),
        TEST(an_answer_that_was_dropped_does_not_come),
        TEST(answers_need_no_room),

        TEST(news_wake_when_there_were_none),
        TEST(tasks_wake_when_there_were_none_also_beside_news),
        TEST(tasks_come_out_as_they_went_in),
        TEST(tasks_that_nobody_took_are_cleaned_up_with_the_inbox),
        TEST(a_closed_inbox_takes_nothing_in_and_gives_out_what_it_has),

        TEST(beyond_the_bound_a_new_uri_has_to_wait),
        TEST(beyond_the_bound_a_change_takes_the_place_of_an_earlier_one),
        TEST(the_newest_of_a_uri_is_merged_with_first),
        TEST(a_list_is_no_uri_of_the_same_name_and_always_fits_in),
        TEST(changes_of_a_list_merge_while_they_wait),
        TEST(a_list_is_not_kept_away_by_its_own_changes),
        TEST(a_change_may_be_unfiltered_from_the_start),
        TEST(an_inbox_for_one_holds_one),
        TEST(a_random_walk_agrees_with_the_model),

        TEST(without_memory_an_inbox_is_not_made),
        TEST(without_memory_room_is_not_promised_and_what_is_there_stays),
        TEST(without_memory_for_the_index_the_publisher_has_to_wait),

        cmocka_unit_test_setup(a_worker_that_sleeps_misses_nothing, uncounted),
        cmocka_unit_test_setup(closing_while_others_post_ends_waking_and_loses_no_task,
                               uncounted),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("inbox", tests, NULL, NULL);
}

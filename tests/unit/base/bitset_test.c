/* SPDX-License-Identifier: MIT
 *
 * The set of numbers alone, and beside an array on random cases. TDG_SEED=n tries one
 * seed. */
#include "base/bitset.h"
#include "support.h"

enum { LARGEST = 1 << 20 };

struct fixture {
    tdg__bitset_t set;
    bool *in;       /* the naive set */
    uint32_t *next; /* by number, what tdg__bitset_next() has to give */
    uint32_t size;  /* of both: the numbers in use are smaller */
    struct dice dice;
};

static int setup(void **state) {
    struct fixture *f = state_create(state, sizeof(*f));

    f->in = calloc(LARGEST, sizeof(*f->in));
    f->next = calloc(LARGEST, sizeof(*f->next));
    f->dice = dice_from_env();
    return f->in == NULL || f->next == NULL ? -1 : 0;
}

static int teardown(void **state) {
    struct fixture *f = *state;

    tdg__bitset_done(&f->set);
    free(f->in);
    free(f->next);
    return state_destroy(state);
}

static void reserve(struct fixture *f, uint32_t size) {
    assert_int_equal(tdg__bitset_reserve(&f->set, size), 0);
    f->size = size;
}

static void add(struct fixture *f, uint32_t number) {
    tdg__bitset_add(&f->set, number);
    f->in[number] = true;
}

static void remove_number(struct fixture *f, uint32_t number) {
    tdg__bitset_remove(&f->set, number);
    f->in[number] = false;
}

static void expect_next(const struct fixture *f, uint32_t from, uint32_t expected) {
    uint32_t next = tdg__bitset_next(&f->set, from);

    if (next != expected)
        fail_msg("seed %llu, size %u: from %u comes %u, not %u",
                 (unsigned long long)f->dice.seed, (unsigned)f->size, (unsigned)from,
                 (unsigned)next, (unsigned)expected);
}

/* Asks from every position, and from behind the last. */
static void expect_all(struct fixture *f) {
    uint32_t next = UINT32_MAX;

    for (uint32_t from = f->size; from-- > 0;)
        f->next[from] = next = f->in[from] ? from : next;
    for (uint32_t from = 0; from < f->size; from++)
        expect_next(f, from, f->next[from]);
    expect_next(f, f->size, UINT32_MAX);
    expect_next(f, f->set.room, UINT32_MAX);
    expect_next(f, UINT32_MAX, UINT32_MAX);
}

/* ---- Beside an array ---------------------------------------------------- */

/* Random steps, of which about `adds` in a hundred add a number, there already or not. */
static void steps(struct fixture *f, int count, uint32_t adds) {
    for (int i = 0; i < count; i++) {
        uint32_t number = roll(&f->dice, f->size);

        if (roll(&f->dice, 100) < adds)
            add(f, number);
        else
            remove_number(f, number);
        expect_next(f, number,
                    f->in[number] ? number : tdg__bitset_next(&f->set, number + 1));
    }
}

static void empty_it(struct fixture *f) {
    for (uint32_t number = 0; number < f->size; number++)
        if (f->in[number])
            remove_number(f, number);
}

static void beside_an_array(struct fixture *f, uint32_t size) {
    int full = size < 5000 ? 5000 : 200000;

    reserve(f, size);
    expect_all(f);
    for (int i = 0; i < 100; i++) { /* sparse: a few numbers far from each other */
        steps(f, 4, 60);
        if (size < 5000 || i % 25 == 0)
            expect_all(f);
    }
    empty_it(f);
    expect_all(f);
    steps(f, full, 90);
    expect_all(f);
    steps(f, full, 50);
    expect_all(f);
    steps(f, full, 2);
    expect_all(f);
    empty_it(f);
    expect_all(f);
}

static void agrees_with_an_array_of_1(void **state) {
    beside_an_array(*state, 1);
}

static void agrees_with_an_array_of_63(void **state) {
    beside_an_array(*state, 63);
}

static void agrees_with_an_array_of_64(void **state) {
    beside_an_array(*state, 64);
}

static void agrees_with_an_array_of_65(void **state) {
    beside_an_array(*state, 65);
}

static void agrees_with_an_array_of_4096(void **state) {
    beside_an_array(*state, 4096);
}

static void agrees_with_an_array_of_4097(void **state) {
    beside_an_array(*state, 4097);
}

static void agrees_with_an_array_of_2_to_the_18_and_one(void **state) {
    beside_an_array(*state, (1 << 18) + 1);
}

static void agrees_with_an_array_of_2_to_the_20(void **state) {
    beside_an_array(*state, LARGEST);
}

/* ---- One thing at a time ------------------------------------------------ */

static void has_nothing_next_without_room(void **state) {
    struct fixture *f = *state;

    expect_next(f, 0, UINT32_MAX);
    expect_next(f, UINT32_MAX, UINT32_MAX);
    assert_int_equal(tdg__bitset_bytes(&f->set), 0);
}

/* From every word up to the only member, from the member itself, and from behind it. */
static void finds_the_only_member_from_wherever_it_is_asked(void **state) {
    static const uint32_t members[] = {
        0,    1,    63,          64,        65,          4095,
        4096, 4097, 262143,      262144,    262145,      LARGEST / 2 - 1,
        4159, 4160, LARGEST / 2, 300 * 643, LARGEST - 1, 2 * 4096 - 1,
    };
    struct fixture *f = *state;

    reserve(f, LARGEST);
    for (size_t i = 0; i < COUNT(members); i++) {
        add(f, members[i]);
        for (uint32_t from = 0; from < members[i]; from += 61)
            expect_next(f, from, members[i]);
        expect_next(f, members[i], members[i]);
        for (uint32_t from = members[i] + 1; from < LARGEST; from += 61)
            expect_next(f, from, UINT32_MAX);
        remove_number(f, members[i]);
        expect_next(f, 0, UINT32_MAX);
    }
}

static void walks_over_members_in_order(void **state) {
    static const uint32_t members[] = {0, 7, 63, 64, 4096, 70000, 70001, LARGEST - 1};
    struct fixture *f = *state;
    uint32_t number = 0;

    reserve(f, LARGEST);
    for (size_t i = COUNT(members); i-- > 0;)
        add(f, members[i]);
    for (size_t i = 0; i < COUNT(members); i++) {
        number = tdg__bitset_next(&f->set, number);
        assert_int_equal(number, members[i]);
        number++;
    }
    assert_int_equal(tdg__bitset_next(&f->set, number), UINT32_MAX);
}

static void removes_a_number_that_was_added_twice(void **state) {
    struct fixture *f = *state;

    reserve(f, LARGEST);
    add(f, 70000);
    add(f, 70000);
    remove_number(f, 70000);
    expect_next(f, 0, UINT32_MAX);
}

/* Numbers that share a word with a member on the first level, the second, the third, and
 * on none but the last. */
static void keeps_its_members_when_others_are_removed(void **state) {
    static const uint32_t others[] = {70001, 70000 + 64, 70000 + 4096, 5, LARGEST - 1};
    struct fixture *f = *state;

    reserve(f, LARGEST);
    add(f, 70000);
    for (size_t i = 0; i < COUNT(others); i++) {
        remove_number(f, others[i]); /* not there */
        expect_next(f, 0, 70000);
        add(f, others[i]);
        remove_number(f, others[i]);
        expect_next(f, 0, 70000);
        expect_next(f, 70001, UINT32_MAX);
    }
}

static void takes_numbers_up_to_the_largest(void **state) {
    struct fixture *f = *state;

    assert_int_equal(tdg__bitset_reserve(&f->set, TDG__BITSET_MAX), 0);
    tdg__bitset_add(&f->set, TDG__BITSET_MAX - 1);
    expect_next(f, 0, TDG__BITSET_MAX - 1);
    expect_next(f, TDG__BITSET_MAX - 1, TDG__BITSET_MAX - 1);
    expect_next(f, TDG__BITSET_MAX, UINT32_MAX);
    tdg__bitset_remove(&f->set, TDG__BITSET_MAX - 1);
    expect_next(f, 0, UINT32_MAX);
    expect_next(f, TDG__BITSET_MAX - 1, UINT32_MAX);
}

/* ---- Room --------------------------------------------------------------- */

static void refuses_more_room_than_it_can_have(void **state) {
    struct fixture *f = *state;

    assert_int_equal(tdg__bitset_reserve(&f->set, TDG__BITSET_MAX + 1), TDG_EINVAL);
    assert_int_equal(tdg__bitset_reserve(&f->set, UINT32_MAX), TDG_EINVAL);
    assert_int_equal(memory_live(), 0);
    reserve(f, 10);
    add(f, 3);
    assert_int_equal(tdg__bitset_reserve(&f->set, TDG__BITSET_MAX + 1), TDG_EINVAL);
    expect_all(f);
}

static void has_the_room_that_was_asked_for(void **state) {
    struct fixture *f = *state;

    for (uint32_t room = 1; room < LARGEST; room += room / 3 + 1) {
        reserve(f, room);
        assert_true(f->set.room >= room);
        add(f, room - 1);
        expect_next(f, room - 1, room - 1);
    }
    expect_all(f);
}

static void keeps_its_members_when_it_grows(void **state) {
    static const uint32_t sizes[] = {1,    64,    65,    1024,   1025,       4096,
                                     4097, 65536, 65537, 262144, 262144 + 1, LARGEST};
    struct fixture *f = *state;

    for (size_t i = 0; i < COUNT(sizes); i++) {
        reserve(f, sizes[i]);
        expect_all(f);
        add(f, sizes[i] - 1);
        for (int n = 0; n < 5; n++)
            add(f, roll(&f->dice, sizes[i]));
        expect_all(f);
    }
    empty_it(f);
    expect_all(f);
}

static void is_empty_where_it_has_grown(void **state) {
    struct fixture *f = *state;

    reserve(f, 1024);
    for (uint32_t number = 0; number < 1024; number++)
        add(f, number);
    reserve(f, LARGEST);
    expect_all(f);
}

static void does_not_allocate_while_there_is_room(void **state) {
    struct fixture *f = *state;
    size_t calls;

    reserve(f, 5000);
    calls = memory_calls();
    reserve(f, 5000);
    reserve(f, 1);
    reserve(f, 0);
    add(f, 4999);
    assert_int_equal(memory_calls(), calls);
    assert_int_equal(tdg__bitset_next(&f->set, 0), 4999);
}

/* Growing by one number at a time costs few copies. */
static void grows_by_doubling(void **state) {
    struct fixture *f = *state;
    size_t calls = memory_calls();

    for (uint32_t room = 1; room <= LARGEST; room++)
        assert_int_equal(tdg__bitset_reserve(&f->set, room), 0);
    assert_true(memory_calls() - calls <= (size_t)2 * 20);
}

static void costs_little_more_than_a_bit_for_each_number(void **state) {
    struct fixture *f = *state;

    reserve(f, LARGEST);
    assert_in_range(tdg__bitset_bytes(&f->set), LARGEST / 8, LARGEST / 8 * 66 / 64);
}

static void gives_all_memory_back_when_done(void **state) {
    struct fixture *f = *state;

    reserve(f, 10);
    reserve(f, 70000);
    add(f, 69999);
    tdg__bitset_done(&f->set);
    assert_int_equal(memory_live(), 0);
    assert_int_equal(tdg__bitset_bytes(&f->set), 0);
    expect_next(f, 0, UINT32_MAX);
    f->in[69999] = false;
    reserve(f, 70000); /* and can be used again */
    expect_all(f);
}

static void is_intact_when_there_is_no_memory_to_grow(void **state) {
    struct fixture *f = *state;

    memory_fail(1, MEMORY_ONCE);
    assert_int_equal(tdg__bitset_reserve(&f->set, 1), TDG_ENOMEM);
    expect_next(f, 0, UINT32_MAX);
    assert_int_equal(tdg__bitset_bytes(&f->set), 0);

    reserve(f, 5000);
    add(f, 4998);
    memory_fail(1, MEMORY_ONCE);
    assert_int_equal(tdg__bitset_reserve(&f->set, 70000), TDG_ENOMEM);
    expect_all(f);
    reserve(f, 70000);
    expect_all(f);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(agrees_with_an_array_of_1),
        TEST(agrees_with_an_array_of_63),
        TEST(agrees_with_an_array_of_64),
        TEST(agrees_with_an_array_of_65),
        TEST(agrees_with_an_array_of_4096),
        TEST(agrees_with_an_array_of_4097),
        TEST(agrees_with_an_array_of_2_to_the_18_and_one),
        TEST(agrees_with_an_array_of_2_to_the_20),
        TEST(has_nothing_next_without_room),
        TEST(finds_the_only_member_from_wherever_it_is_asked),
        TEST(walks_over_members_in_order),
        TEST(removes_a_number_that_was_added_twice),
        TEST(keeps_its_members_when_others_are_removed),
        TEST(takes_numbers_up_to_the_largest),
        TEST(refuses_more_room_than_it_can_have),
        TEST(has_the_room_that_was_asked_for),
        TEST(keeps_its_members_when_it_grows),
        TEST(is_empty_where_it_has_grown),
        TEST(does_not_allocate_while_there_is_room),
        TEST(grows_by_doubling),
        TEST(costs_little_more_than_a_bit_for_each_number),
        TEST(gives_all_memory_back_when_done),
        TEST(is_intact_when_there_is_no_memory_to_grow),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("bitset", tests, NULL, NULL);
}

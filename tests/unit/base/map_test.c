/* SPDX-License-Identifier: MIT
 *
 * The map alone, and beside an array on random cases. TDG_SEED=n tries one seed. */
#include "base/hash.h"
#include "base/map.h"
#include "support.h"

enum { KEYS = 600, FIRST_SLOTS = 16 };

/* Value v has key v; so has its twin, v + KEYS, for tdg__map_replace(). */
struct fixture {
    tdg__map_t map;
    uint32_t (*hash)(uint32_t key);
    uint32_t in[KEYS + 1]; /* the naive map: by key, the value or 0 */
    size_t count;
    size_t asked; /* how often the map called has_key() */
    struct dice dice;
};

static int setup(void **state) {
    struct fixture *f = state_create(state, sizeof(*f));

    f->dice = dice_from_env();
    tdg__map_init(&f->map);
    return 0;
}

static int teardown(void **state) {
    struct fixture *f = *state;

    tdg__map_done(&f->map);
    return state_destroy(state);
}

static uint32_t key_of(uint32_t value) {
    return value > KEYS ? value - KEYS : value;
}

static bool has_key(const void *ctx, uint32_t value, const void *key) {
    size_t *asked = *(size_t *const *)ctx;
    const uint32_t *wanted = key;

    (*asked)++;
    return key_of(value) == *wanted;
}

static uint32_t find(struct fixture *f, uint32_t key) {
    size_t *asked = &f->asked;

    return tdg__map_find(&f->map, f->hash(key), has_key, &asked, &key);
}

static void insert(struct fixture *f, uint32_t value) {
    uint32_t key = key_of(value);

    assert_int_equal(tdg__map_reserve(&f->map), 0);
    tdg__map_insert(&f->map, f->hash(key), value);
    f->in[key] = value;
    f->count++;
}

static void remove_key(struct fixture *f, uint32_t key) {
    tdg__map_remove(&f->map, f->hash(key), f->in[key]);
    f->in[key] = 0;
    f->count--;
}

static void expect_key(struct fixture *f, uint32_t key) {
    uint32_t found = find(f, key);

    if (found != f->in[key])
        fail_msg("seed %llu: key %u gives %u, not %u", (unsigned long long)f->dice.seed,
                 (unsigned)key, (unsigned)found, (unsigned)f->in[key]);
}

static void expect_all_keys(struct fixture *f) {
    for (uint32_t key = 1; key <= KEYS; key++)
        expect_key(f, key);
    if (f->map.count != f->count)
        fail_msg("seed %llu: %zu values, not %zu", (unsigned long long)f->dice.seed,
                 f->map.count, f->count);
}

/* ---- Hashes, from good to worst ----------------------------------------- */

static uint32_t spread(uint32_t key) {
    static const tdg__hash_key_t hash_key = {1, 2};

    return (uint32_t)tdg__hash(&hash_key, &key, sizeof(key));
}

static uint32_t plain(uint32_t key) {
    return key;
}

/* At home in the last slot, whatever the size of the table: the rest wraps around. */
static uint32_t all_in_the_last_slot(uint32_t key) {
    (void)key;
    return UINT32_MAX;
}

/* Homes in the last four and the first four slots, with values of equal hash and of
 * different ones in the same cluster across the end of the table. */
static uint32_t around_the_end(uint32_t key) {
    return (spread(key) & 0xfff00000) - 4 + key % 8;
}

/* Clusters that touch: sixteen homes side by side in tables of every size. */
static uint32_t few_homes(uint32_t key) {
    return (spread(key) & 0xf000) + key % 16 + 8;
}

/* ---- Beside an array ---------------------------------------------------- */

static void replace_by_twin(struct fixture *f, uint32_t key) {
    uint32_t twin = f->in[key] > KEYS ? key : key + KEYS;

    tdg__map_replace(&f->map, f->hash(key), f->in[key], twin);
    f->in[key] = twin;
}

/* One random step; of a hundred that change the map, about `inserts` insert. */
static void step(struct fixture *f, uint32_t inserts) {
    uint32_t key = 1 + roll(&f->dice, KEYS);
    bool is_in = f->in[key] != 0;

    if (roll(&f->dice, 10) == 0) {
        if (is_in)
            replace_by_twin(f, key);
        else
            tdg__map_remove(&f->map, f->hash(key), key); /* not there: nothing happens */
    } else if (roll(&f->dice, 100) < inserts) {
        if (!is_in)
            insert(f, roll(&f->dice, 2) == 0 ? key : key + KEYS);
    } else if (is_in) {
        remove_key(f, key);
    }
    expect_key(f, key);
    expect_key(f, 1 + roll(&f->dice, KEYS));
}

/* Fills and empties the map again and again, wholly and in part. */
static void beside_an_array(struct fixture *f, uint32_t (*hash)(uint32_t key)) {
    static const struct {
        int steps;
        uint32_t inserts;
    } phases[] = {
        {200, 90},  {1000, 50}, {3000, 95}, {3000, 10},
        {2000, 60}, {6000, 0},  {300, 100}, {1000, 30},
    };

    f->hash = hash;
    for (size_t p = 0; p < COUNT(phases); p++) {
        for (int i = 0; i < phases[p].steps; i++) {
            step(f, phases[p].inserts);
            if (i % 100 == 0)
                expect_all_keys(f);
        }
        expect_all_keys(f);
    }
    for (uint32_t key = 1; key <= KEYS; key++) {
        if (f->in[key] == 0)
            continue;
        remove_key(f, key);
        if (key % 8 == 0)
            expect_all_keys(f);
    }
    assert_int_equal(memory_live(), 0);
}

static void agrees_with_an_array_when_hashes_are_good(void **state) {
    beside_an_array(*state, spread);
}

static void agrees_with_an_array_when_hashes_are_consecutive(void **state) {
    beside_an_array(*state, plain);
}

static void agrees_with_an_array_when_all_hashes_are_equal(void **state) {
    beside_an_array(*state, all_in_the_last_slot);
}

static void agrees_with_an_array_when_clusters_wrap_around(void **state) {
    beside_an_array(*state, around_the_end);
}

static void agrees_with_an_array_when_clusters_touch(void **state) {
    beside_an_array(*state, few_homes);
}

/* ---- One thing at a time ------------------------------------------------ */

static void finds_nothing_while_it_is_empty(void **state) {
    struct fixture *f = *state;

    f->hash = spread;
    assert_int_equal(find(f, 1), 0);
    tdg__map_remove(&f->map, spread(1), 1);
    assert_int_equal(f->map.count, 0);
    assert_int_equal(f->asked, 0);
}

static void takes_no_memory_before_the_first_value(void **state) {
    struct fixture *f = *state;

    assert_int_equal(tdg__map_bytes(&f->map), 0);
    assert_int_equal(memory_live(), 0);
}

static void finds_the_value_of_the_key_among_equal_hashes(void **state) {
    struct fixture *f = *state;

    f->hash = all_in_the_last_slot;
    for (uint32_t value = 1; value <= 5; value++)
        insert(f, value);
    for (uint32_t value = 1; value <= 5; value++)
        assert_int_equal(find(f, value), value);
    assert_int_equal(find(f, 6), 0);
}

/* Neighbours in the table, and equal in the bits that choose the slot. */
static void asks_only_about_values_with_the_same_hash(void **state) {
    struct fixture *f = *state;

    f->hash = plain;
    assert_int_equal(tdg__map_reserve(&f->map), 0);
    tdg__map_insert(&f->map, 0x100 + 3, 1);
    tdg__map_insert(&f->map, 0x200 + 3, 2);
    tdg__map_insert(&f->map, 3, 3);
    assert_int_equal(find(f, 3), 3);
    assert_int_equal(f->asked, 1);
}

static void removes_exactly_the_value_given(void **state) {
    struct fixture *f = *state;

    f->hash = all_in_the_last_slot;
    insert(f, 1);
    insert(f, 2);
    tdg__map_remove(&f->map, UINT32_MAX, 3);
    expect_all_keys(f);
    remove_key(f, 1);
    expect_all_keys(f);
}

static void replaces_a_value_in_its_place(void **state) {
    struct fixture *f = *state;
    size_t calls;

    f->hash = all_in_the_last_slot;
    for (uint32_t value = 1; value <= 4; value++)
        insert(f, value);
    calls = memory_calls();
    replace_by_twin(f, 2);
    assert_int_equal(find(f, 2), 2 + KEYS);
    expect_all_keys(f);
    assert_int_equal(memory_calls(), calls);
}

static void keeps_values_up_to_the_largest(void **state) {
    struct fixture *f = *state;
    size_t *asked = &f->asked;
    uint32_t key = UINT32_MAX - KEYS;

    assert_int_equal(tdg__map_reserve(&f->map), 0);
    tdg__map_insert(&f->map, 0, UINT32_MAX);
    assert_int_equal(tdg__map_find(&f->map, 0, has_key, &asked, &key), UINT32_MAX);
}

/* ---- Memory ------------------------------------------------------------- */

static void grows_at_three_quarters(void **state) {
    struct fixture *f = *state;

    f->hash = spread;
    for (uint32_t value = 1; value <= KEYS; value++) {
        insert(f, value);
        assert_true(f->count <= (f->map.mask + 1) / 4 * 3);
        assert_true(f->map.mask + 1 == FIRST_SLOTS ||
                    f->count > (f->map.mask + 1) / 2 / 4 * 3);
    }
    expect_all_keys(f);
}

static void shrinks_at_one_eighth(void **state) {
    struct fixture *f = *state;

    f->hash = spread;
    for (uint32_t value = 1; value <= KEYS; value++)
        insert(f, value);
    for (uint32_t key = 1; key < KEYS; key++) {
        remove_key(f, key);
        assert_true(f->map.mask + 1 <= FIRST_SLOTS || f->count >= (f->map.mask + 1) / 8);
        expect_all_keys(f);
    }
    assert_int_equal(memory_live(), 1);
}

/* At any count, one in and one out for ever must not resize each time. */
static void does_not_resize_back_and_forth(void **state) {
    struct fixture *f = *state;

    f->hash = spread;
    for (uint32_t n = 2; n < KEYS; n++) {
        size_t calls;

        insert(f, n);
        insert(f, 1);
        remove_key(f, 1);
        calls = memory_calls();
        for (int i = 0; i < 3; i++) {
            insert(f, 1);
            remove_key(f, 1);
        }
        assert_int_equal(memory_calls(), calls);
    }
    for (uint32_t n = 2; n < KEYS - 1; n++) {
        size_t calls;

        remove_key(f, n);
        insert(f, 1);
        calls = memory_calls();
        for (int i = 0; i < 3; i++) {
            remove_key(f, 1);
            insert(f, 1);
        }
        assert_int_equal(memory_calls(), calls);
        remove_key(f, 1);
    }
}

static void gives_all_memory_back_when_empty(void **state) {
    struct fixture *f = *state;

    f->hash = spread;
    for (int round = 0; round < 2; round++) { /* and can be used again */
        for (uint32_t value = 1; value <= 100; value++)
            insert(f, value);
        for (uint32_t key = 1; key <= 100; key++)
            remove_key(f, key);
        assert_int_equal(memory_live(), 0);
        assert_int_equal(tdg__map_bytes(&f->map), 0);
        expect_all_keys(f);
    }
}

static void tells_how_many_bytes_it_has(void **state) {
    struct fixture *f = *state;

    f->hash = spread;
    for (uint32_t value = 1; value <= KEYS; value++) {
        insert(f, value);
        assert_int_equal(tdg__map_bytes(&f->map),
                         (f->map.mask + 1) * sizeof(tdg__map_slot_t));
    }
}

static void makes_room_once_for_an_insert(void **state) {
    struct fixture *f = *state;
    size_t calls;

    f->hash = spread;
    for (uint32_t value = 1; value <= KEYS; value++) {
        assert_int_equal(tdg__map_reserve(&f->map), 0);
        calls = memory_calls();
        assert_int_equal(tdg__map_reserve(&f->map), 0);
        insert(f, value);
        assert_int_equal(memory_calls(), calls);
    }
}

static void is_intact_when_the_first_reserve_fails(void **state) {
    struct fixture *f = *state;

    f->hash = spread;
    memory_fail(1, MEMORY_ONCE);
    assert_int_equal(tdg__map_reserve(&f->map), TDG_ENOMEM);
    assert_int_equal(tdg__map_bytes(&f->map), 0);
    expect_all_keys(f);
    insert(f, 1);
    expect_all_keys(f);
}

static void is_intact_when_growing_fails(void **state) {
    struct fixture *f = *state;

    f->hash = spread;
    for (uint32_t value = 1; value <= KEYS; value++) {
        memory_fail(1, MEMORY_ONCE);
        if (tdg__map_reserve(&f->map) < 0) {
            assert_true(memory_failed());
            expect_all_keys(f);
        }
        memory_fail(0, MEMORY_ONCE);
        insert(f, value);
    }
    expect_all_keys(f);
}

static void reports_a_failure_to_grow(void **state) {
    struct fixture *f = *state;

    f->hash = spread;
    for (uint32_t value = 1; value <= FIRST_SLOTS / 4 * 3; value++)
        insert(f, value);
    memory_fail(1, MEMORY_ONCE);
    assert_int_equal(tdg__map_reserve(&f->map), TDG_ENOMEM);
    assert_true(memory_failed());
}

static void stays_large_when_there_is_no_memory_to_shrink(void **state) {
    struct fixture *f = *state;

    f->hash = around_the_end;
    for (uint32_t value = 1; value <= KEYS; value++)
        insert(f, value);
    memory_fail(1, MEMORY_FROM_THEN_ON);
    for (uint32_t key = 1; key < KEYS; key++) {
        remove_key(f, key);
        if (key % 8 == 0)
            expect_all_keys(f);
    }
    assert_true(memory_failed());
    assert_int_equal(tdg__map_bytes(&f->map), 1024 * sizeof(tdg__map_slot_t));
    remove_key(f, KEYS);
    assert_int_equal(memory_live(), 0);
}

/* ---- Chosen keys -------------------------------------------------------- */

enum { ATTACK = 400, ATTACKED_SLOTS = 1024 };

static uint32_t hash_of(const tdg__hash_key_t *key, uint64_t number) {
    return (uint32_t)tdg__hash(key, &number, sizeof(number));
}

/* Numbers that all come into the same slot under `key`. */
static void choose_numbers(const tdg__hash_key_t *key, uint64_t numbers[ATTACK]) {
    uint64_t candidate = 0;

    for (size_t i = 0; i < ATTACK; candidate++)
        if (hash_of(key, candidate) % ATTACKED_SLOTS == 0)
            numbers[i++] = candidate;
}

/* Steps from home to place, summed over a map of these numbers. */
static size_t distance_under(tdg__map_t *map, const tdg__hash_key_t *key,
                             const uint64_t numbers[ATTACK]) {
    size_t sum = 0;

    for (uint32_t i = 0; i < ATTACK; i++) {
        assert_int_equal(tdg__map_reserve(map), 0);
        tdg__map_insert(map, hash_of(key, numbers[i]), i + 1);
    }
    assert_int_equal(map->mask + 1, ATTACKED_SLOTS);
    for (size_t i = 0; i <= map->mask; i++)
        if (map->slots[i].value != 0)
            sum += (i - map->slots[i].hash) & map->mask;
    tdg__map_done(map);
    return sum;
}

static void chosen_keys_do_not_cluster_under_a_random_key(void **state) {
    static const tdg__hash_key_t known = {3, 4};
    struct fixture *f = *state;
    uint64_t numbers[ATTACK];
    tdg__hash_key_t secret;
    size_t distance;

    choose_numbers(&known, numbers);
    assert_int_equal(distance_under(&f->map, &known, numbers), ATTACK * (ATTACK - 1) / 2);

    assert_int_equal(tdg__random(&secret, sizeof(secret)), 0);
    distance = distance_under(&f->map, &secret, numbers);
    if (distance > ATTACK * 2) /* about a third of a step each is to be expected */
        fail_msg("key %llx %llx: %zu steps in all", (unsigned long long)secret.k0,
                 (unsigned long long)secret.k1, distance);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(agrees_with_an_array_when_hashes_are_good),
        TEST(agrees_with_an_array_when_hashes_are_consecutive),
        TEST(agrees_with_an_array_when_all_hashes_are_equal),
        TEST(agrees_with_an_array_when_clusters_wrap_around),
        TEST(agrees_with_an_array_when_clusters_touch),
        TEST(finds_nothing_while_it_is_empty),
        TEST(takes_no_memory_before_the_first_value),
        TEST(finds_the_value_of_the_key_among_equal_hashes),
        TEST(asks_only_about_values_with_the_same_hash),
        TEST(removes_exactly_the_value_given),
        TEST(replaces_a_value_in_its_place),
        TEST(keeps_values_up_to_the_largest),
        TEST(grows_at_three_quarters),
        TEST(shrinks_at_one_eighth),
        TEST(does_not_resize_back_and_forth),
        TEST(gives_all_memory_back_when_empty),
        TEST(tells_how_many_bytes_it_has),
        TEST(makes_room_once_for_an_insert),
        TEST(is_intact_when_the_first_reserve_fails),
        TEST(is_intact_when_growing_fails),
        TEST(reports_a_failure_to_grow),
        TEST(stays_large_when_there_is_no_memory_to_shrink),
        TEST(chosen_keys_do_not_cluster_under_a_random_key),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("map", tests, NULL, NULL);
}

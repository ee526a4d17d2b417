/* SPDX-License-Identifier: MIT
 *
 * The pool alone, and beside an array on random cases. TDG_SEED=n tries one seed. */
#include "base/pool.h"
#include "support.h"

enum { CHUNK = TDG__POOL_CHUNK, MOST = 12 * CHUNK, SIZE = 24 };

struct fixture {
    tdg__pool_t pool;
    void *records[MOST + 1]; /* by identifier, those in use */
    size_t count;
    struct dice dice;
};

static int setup(void **state) {
    struct fixture *f = state_create(state, sizeof(*f));

    f->dice = dice_from_env();
    tdg__pool_init(&f->pool, SIZE);
    return 0;
}

static int teardown(void **state) {
    struct fixture *f = *state;

    tdg__pool_done(&f->pool);
    return state_destroy(state);
}

/* What a record in use is filled with: no byte is 0, and neighbours differ. */
static unsigned char mark(uint32_t id, size_t byte) {
    return (unsigned char)(1 + (id * 31 + byte * 7) % 255);
}

static uint32_t make(struct fixture *f) {
    uint32_t id = 0;
    unsigned char *record = tdg__pool_alloc(&f->pool, &id);

    assert_non_null(record);
    assert_in_range(id, 1, MOST);
    assert_null(f->records[id]); /* none is handed out twice */
    for (size_t i = 0; i < f->pool.size; i++) {
        assert_int_equal(record[i], 0);
        record[i] = mark(id, i);
    }
    f->records[id] = record;
    f->count++;
    return id;
}

static void make_many(struct fixture *f, size_t count) {
    for (size_t i = 0; i < count; i++)
        make(f);
}

static void give_back(struct fixture *f, uint32_t id) {
    tdg__pool_free(&f->pool, id);
    f->records[id] = NULL;
    f->count--;
}

/* From `first` to `last`, whichever of them are in use. */
static void give_many_back(struct fixture *f, uint32_t first, uint32_t last) {
    for (uint32_t id = first; id <= last; id++)
        if (f->records[id] != NULL)
            give_back(f, id);
}

static void expect_in_use(struct fixture *f, uint32_t id) {
    const unsigned char *record = tdg__pool_get(&f->pool, id);

    if (record != f->records[id])
        fail_msg("seed %llu: record %u has moved", (unsigned long long)f->dice.seed,
                 (unsigned)id);
    for (size_t i = 0; i < f->pool.size; i++)
        if (record[i] != mark(id, i))
            fail_msg("seed %llu: byte %zu of record %u has changed",
                     (unsigned long long)f->dice.seed, i, (unsigned)id);
}

static void expect_free(struct fixture *f, uint32_t id) {
    const unsigned char *record = tdg__pool_get(&f->pool, id);

    for (size_t i = 4; record != NULL && i < f->pool.size; i++)
        if (record[i] != 0)
            fail_msg("seed %llu: byte %zu of record %u is not 0 though it is free",
                     (unsigned long long)f->dice.seed, i, (unsigned)id);
}

/* Walks over all identifiers as a caller does who looks for the records in use. */
static void expect_all(struct fixture *f) {
    uint32_t end = tdg__pool_end(&f->pool);

    assert_in_range(end, 1, MOST + 1);
    for (uint32_t id = 1; id < end; id++) {
        if (f->records[id] != NULL)
            expect_in_use(f, id);
        else
            expect_free(f, id);
    }
    for (uint32_t id = end; id <= MOST; id++)
        assert_null(f->records[id]);
    assert_int_equal(f->pool.count, f->count);
}

static size_t chunk_bytes(const struct fixture *f) {
    return sizeof(tdg__pool_chunk_t) + (size_t)CHUNK * f->pool.size;
}

/* How many chunks the pool says it holds; the allocator has to agree. */
static size_t chunks(const struct fixture *f) {
    size_t n = tdg__pool_bytes(&f->pool) / chunk_bytes(f);

    assert_int_equal(memory_live(), n == 0 ? 0 : n + 1); /* and the array of them */
    return n;
}

/* Chunks of which at least one record is in use. */
static size_t chunks_in_use(const struct fixture *f) {
    size_t n = 0;

    for (uint32_t first = 1; first <= MOST; first += CHUNK) {
        uint32_t id = first;

        while (id < first + CHUNK && f->records[id] == NULL)
            id++;
        n += id < first + CHUNK;
    }
    return n;
}

/* ---- Beside an array ---------------------------------------------------- */

/* Of a hundred steps about `makes` make a record while fewer than `most` are there. */
static void steps(struct fixture *f, int count, uint32_t makes, size_t most) {
    for (int i = 0; i < count; i++) {
        if (roll(&f->dice, 100) < makes) {
            if (f->count < most)
                make(f);
        } else {
            uint32_t id = 1 + roll(&f->dice, MOST);

            if (f->records[id] != NULL)
                give_back(f, id);
        }
        /* One empty chunk may be kept to have room. */
        if (i % 16 == 0)
            assert_in_range(chunks(f), chunks_in_use(f), chunks_in_use(f) + 1);
        if (i % 250 == 0)
            expect_all(f);
    }
    expect_all(f);
}

static void beside_an_array(struct fixture *f) {
    steps(f, 2000, 80, MOST / 2);
    steps(f, 4000, 50, MOST / 2);
    steps(f, 4000, 95, MOST);
    steps(f, 30000, 5, MOST);
    steps(f, 2000, 60, CHUNK + 1);
    steps(f, 20000, 2, CHUNK);
    steps(f, 6000, 90, MOST);
    for (int round = 0; round < 30; round++) { /* whole chunks at a time */
        uint32_t first = 1 + roll(&f->dice, MOST / CHUNK) * CHUNK;

        give_many_back(f, first, first + CHUNK - 1);
        assert_in_range(chunks(f), chunks_in_use(f), chunks_in_use(f) + 1);
        expect_all(f);
        steps(f, 100, 95, MOST);
    }
}

static void agrees_with_an_array(void **state) {
    beside_an_array(*state);
}

static void agrees_with_an_array_for_the_smallest_records(void **state) {
    struct fixture *f = *state;

    tdg__pool_init(&f->pool, 8);
    beside_an_array(f);
}

static void agrees_with_an_array_for_large_records(void **state) {
    struct fixture *f = *state;

    tdg__pool_init(&f->pool, 200);
    beside_an_array(f);
}

/* ---- Identifiers -------------------------------------------------------- */

static void has_no_identifiers_while_it_is_empty(void **state) {
    struct fixture *f = *state;

    assert_int_equal(tdg__pool_end(&f->pool), 1);
    assert_int_equal(chunks(f), 0);
}

static void gives_identifiers_from_1_on_without_gaps(void **state) {
    struct fixture *f = *state;

    for (uint32_t id = 1; id <= MOST; id++)
        assert_int_equal(make(f), id);
}

static void ends_above_the_last_chunk(void **state) {
    struct fixture *f = *state;

    make(f);
    assert_int_equal(tdg__pool_end(&f->pool), CHUNK + 1);
    make_many(f, CHUNK - 1);
    assert_int_equal(tdg__pool_end(&f->pool), CHUNK + 1);
    assert_int_equal(make(f), CHUNK + 1);
    assert_int_equal(tdg__pool_end(&f->pool), 2 * CHUNK + 1);
}

static void keeps_records_in_place_while_it_grows(void **state) {
    struct fixture *f = *state;

    make_many(f, MOST);
    for (uint32_t id = 1; id <= MOST; id++)
        expect_in_use(f, id);
}

static void keeps_records_apart_at_the_edges_of_a_chunk(void **state) {
    static const uint32_t edges[] = {1, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK};
    struct fixture *f = *state;

    make_many(f, (size_t)2 * CHUNK);
    for (size_t i = 0; i < sizeof(edges) / sizeof(edges[0]); i++) {
        give_back(f, edges[i]);
        expect_all(f);
        assert_int_equal(make(f), edges[i]);
        expect_all(f);
    }
}

static void reuses_the_identifier_of_a_free_record(void **state) {
    struct fixture *f = *state;

    make_many(f, (size_t)3 * CHUNK);
    give_back(f, 5);
    give_back(f, CHUNK + 7);
    make_many(f, 2);
    assert_non_null(f->records[5]);
    assert_non_null(f->records[CHUNK + 7]);
    assert_int_equal(tdg__pool_end(&f->pool), 3 * CHUNK + 1);
}

/* The largest number of chunks cannot be made in a test, so this one is made up. */
static void has_no_more_identifiers_than_32_bits_hold(void **state) {
    struct fixture *f = *state;
    size_t calls = memory_calls();
    uint32_t id = 77;

    f->pool.n_chunks = UINT32_MAX / CHUNK;
    assert_int_equal(tdg__pool_end(&f->pool), UINT32_MAX / CHUNK * CHUNK + 1);
    assert_null(tdg__pool_alloc(&f->pool, &id));
    assert_int_equal(id, 77);
    assert_int_equal(memory_calls(), calls);
    tdg__pool_init(&f->pool, SIZE);
}

/* ---- Records ------------------------------------------------------------ */

static void hands_out_zeroed_records_again(void **state) {
    struct fixture *f = *state;

    make_many(f, CHUNK);
    give_many_back(f, 2, CHUNK);
    make_many(f, CHUNK - 1); /* looks at each of their bytes */
}

static void aligns_records_for_numbers_and_pointers(void **state) {
    struct fixture *f = *state;

    for (int i = 0; i < 3 * CHUNK; i++)
        assert_int_equal((uintptr_t)f->records[make(f)] % 8, 0);
}

static void gives_zeros_for_a_record_that_is_free(void **state) {
    static const unsigned char zeros[SIZE];
    struct fixture *f = *state;

    make_many(f, 3);
    give_back(f, 2);
    assert_non_null(tdg__pool_get(&f->pool, 2));
    assert_memory_equal((char *)tdg__pool_get(&f->pool, 2) + 4, zeros, SIZE - 4);
    assert_memory_equal((char *)tdg__pool_get(&f->pool, 4) + 4, zeros, SIZE - 4);
    assert_memory_equal((char *)tdg__pool_get(&f->pool, CHUNK) + 4, zeros, SIZE - 4);
}

static void gives_null_where_a_chunk_was_given_back(void **state) {
    struct fixture *f = *state;

    make_many(f, (size_t)3 * CHUNK);
    give_back(f, 1); /* so that the next chunk is not the only one with room */
    give_many_back(f, CHUNK + 1, 2 * CHUNK);
    for (uint32_t id = CHUNK + 1; id <= 2 * CHUNK; id++)
        assert_null(tdg__pool_get(&f->pool, id));
    assert_non_null(tdg__pool_get(&f->pool, CHUNK));
    assert_non_null(tdg__pool_get(&f->pool, 2 * CHUNK + 1));
}

/* ---- Memory ------------------------------------------------------------- */

static void gives_whole_chunks_back(void **state) {
    struct fixture *f = *state;

    make_many(f, MOST);
    give_back(f, MOST);
    for (uint32_t first = 1; first + CHUNK < MOST; first += CHUNK) {
        size_t before = chunks(f);

        give_many_back(f, first, first + CHUNK - 2);
        assert_int_equal(chunks(f), before);
        give_back(f, first + CHUNK - 1);
        assert_int_equal(chunks(f), before - 1);
    }
    expect_all(f);
}

/* Each of three chunks with room, whichever came to have it first, last or between. */
static void gives_all_memory_back_when_full_chunks_are_emptied(void **state) {
    struct fixture *f = *state;

    make_many(f, (size_t)2 * CHUNK);
    give_many_back(f, 1, CHUNK); /* kept: the only chunk with room */
    give_many_back(f, CHUNK + 1, 2 * CHUNK);
    assert_int_equal(f->pool.count, 0);
    assert_int_equal(memory_live(), 0);
    assert_int_equal(tdg__pool_bytes(&f->pool), 0);
    assert_int_equal(tdg__pool_end(&f->pool), 1);
}

static void gives_any_chunk_back_while_another_has_room(void **state) {
    struct fixture *f = *state;

    for (uint32_t chosen = 0; chosen < 3; chosen++) {
        make_many(f, (size_t)4 * CHUNK - f->count);
        for (uint32_t chunk = 0; chunk < 3; chunk++)
            give_back(f, chunk * CHUNK + 9);
        give_many_back(f, chosen * CHUNK + 1, (chosen + 1) * CHUNK);
        assert_int_equal(chunks(f), 3);
        expect_all(f);
    }
}

static void ends_lower_when_the_last_chunks_are_given_back(void **state) {
    struct fixture *f = *state;

    make_many(f, (size_t)4 * CHUNK);
    give_back(f, 1);
    give_many_back(f, 2 * CHUNK + 1, 3 * CHUNK);
    assert_int_equal(tdg__pool_end(&f->pool), 4 * CHUNK + 1);
    give_many_back(f, 3 * CHUNK + 1, 4 * CHUNK);
    assert_int_equal(tdg__pool_end(&f->pool), 2 * CHUNK + 1); /* over the gap, too */
    expect_all(f);
}

static void fills_gaps_before_it_grows(void **state) {
    struct fixture *f = *state;

    make_many(f, (size_t)5 * CHUNK);
    give_back(f, 1);
    give_many_back(f, CHUNK + 1, 2 * CHUNK);
    give_many_back(f, 3 * CHUNK + 1, 4 * CHUNK);
    assert_int_equal(chunks(f), 3);
    make_many(f, (size_t)2 * CHUNK + 1);
    assert_int_equal(tdg__pool_end(&f->pool), 5 * CHUNK + 1);
    assert_int_equal(chunks(f), 5);
    expect_all(f);
    assert_int_equal(make(f), 5 * CHUNK + 1);
}

static void keeps_an_empty_chunk_that_is_the_only_one_with_room(void **state) {
    struct fixture *f = *state;
    size_t calls;

    make_many(f, CHUNK + 1);
    calls = memory_calls();
    for (int i = 0; i < 10; i++) {
        give_back(f, CHUNK + 1);
        assert_int_equal(make(f), CHUNK + 1);
    }
    assert_int_equal(memory_calls(), calls);
    assert_int_equal(chunks(f), 2);
}

static void gives_all_memory_back_when_empty(void **state) {
    struct fixture *f = *state;

    for (int round = 0; round < 2; round++) { /* and can be used again */
        make_many(f, (size_t)5 * CHUNK + 1);
        give_many_back(f, 1, 5 * CHUNK + 1);
        assert_int_equal(chunks(f), 0);
        assert_int_equal(memory_live(), 0);
        assert_int_equal(tdg__pool_bytes(&f->pool), 0);
        assert_int_equal(tdg__pool_end(&f->pool), 1);
    }
}

static void gives_all_memory_back_when_done(void **state) {
    struct fixture *f = *state;

    make_many(f, (size_t)4 * CHUNK);
    give_back(f, 1);
    give_many_back(f, CHUNK + 1, 2 * CHUNK);
    tdg__pool_done(&f->pool);
    assert_int_equal(memory_live(), 0);
    assert_int_equal(tdg__pool_bytes(&f->pool), 0);
    memset(f->records, 0, sizeof(f->records));
    assert_int_equal(make(f), 1); /* records have the same size as before */
    expect_in_use(f, 1);
}

static void tells_how_many_bytes_it_has(void **state) {
    struct fixture *f = *state;

    make(f);
    assert_in_range(tdg__pool_bytes(&f->pool), chunk_bytes(f) + sizeof(void *),
                    chunk_bytes(f) + 8 * sizeof(void *));
    make_many(f, (size_t)5 * CHUNK);
    assert_in_range(tdg__pool_bytes(&f->pool), 6 * (chunk_bytes(f) + sizeof(void *)),
                    6 * (chunk_bytes(f) + 2 * sizeof(void *)));
}

/* ---- Without memory ----------------------------------------------------- */

/* Makes one record with the n-th allocation failing, n from 1 on, until none does.
 * Returns how many failed. */
static size_t make_against_failures(struct fixture *f) {
    for (size_t n = 1;; n++) {
        uint32_t id = 77;
        void *record;

        memory_fail(n, MEMORY_ONCE);
        record = tdg__pool_alloc(&f->pool, &id);
        if (!memory_failed()) {
            assert_non_null(record);
            tdg__pool_free(&f->pool, id);
            memory_fail(0, MEMORY_ONCE);
            return n - 1;
        }
        assert_null(record);
        assert_int_equal(id, 77);
        assert_int_equal(f->pool.count, f->count);
        expect_all(f);
    }
}

static void is_intact_when_there_is_no_memory_for_a_chunk(void **state) {
    struct fixture *f = *state;
    size_t failures = 0;

    for (int i = 0; i < MOST; i++) {
        if (f->count % CHUNK == 0)
            failures += make_against_failures(f);
        make(f);
    }
    assert_true(failures >= MOST / CHUNK); /* each chunk, and sometimes the array */
    expect_all(f);
}

static void is_intact_when_there_is_no_memory_to_fill_a_gap(void **state) {
    struct fixture *f = *state;

    make_many(f, (size_t)3 * CHUNK);
    give_back(f, 1);
    give_many_back(f, CHUNK + 1, 2 * CHUNK);
    make(f);
    assert_int_equal(chunks(f), 2);
    memory_fail(1, MEMORY_ONCE);
    assert_null(tdg__pool_alloc(&f->pool, &(uint32_t){0}));
    assert_true(memory_failed());
    expect_all(f);
    make_many(f, CHUNK);
    assert_int_equal(tdg__pool_end(&f->pool), 3 * CHUNK + 1);
    expect_all(f);
}

static void gives_records_back_without_memory(void **state) {
    struct fixture *f = *state;

    make_many(f, MOST - 1);
    memory_fail(1, MEMORY_FROM_THEN_ON);
    give_many_back(f, 1, MOST);
    assert_false(memory_failed());
    assert_int_equal(memory_live(), 0);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(agrees_with_an_array),
        TEST(agrees_with_an_array_for_the_smallest_records),
        TEST(agrees_with_an_array_for_large_records),
        TEST(has_no_identifiers_while_it_is_empty),
        TEST(gives_identifiers_from_1_on_without_gaps),
        TEST(ends_above_the_last_chunk),
        TEST(keeps_records_in_place_while_it_grows),
        TEST(keeps_records_apart_at_the_edges_of_a_chunk),
        TEST(reuses_the_identifier_of_a_free_record),
        TEST(has_no_more_identifiers_than_32_bits_hold),
        TEST(hands_out_zeroed_records_again),
        TEST(aligns_records_for_numbers_and_pointers),
        TEST(gives_zeros_for_a_record_that_is_free),
        TEST(gives_null_where_a_chunk_was_given_back),
        TEST(gives_whole_chunks_back),
        TEST(gives_all_memory_back_when_full_chunks_are_emptied),
        TEST(gives_any_chunk_back_while_another_has_room),
        TEST(ends_lower_when_the_last_chunks_are_given_back),
        TEST(fills_gaps_before_it_grows),
        TEST(keeps_an_empty_chunk_that_is_the_only_one_with_room),
        TEST(gives_all_memory_back_when_empty),
        TEST(gives_all_memory_back_when_done),
        TEST(tells_how_many_bytes_it_has),
        TEST(is_intact_when_there_is_no_memory_for_a_chunk),
        TEST(is_intact_when_there_is_no_memory_to_fill_a_gap),
        TEST(gives_records_back_without_memory),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("pool", tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT
 *
 * Lists of pool records: the ends one by one, then two lists at once through the same
 * records beside arrays, on random cases. TDG_SEED=n tries one seed. */
#include "base/list.h"
#include "support.h"

enum { RECORDS = 40, STEPS = 20000 };

struct record {
    uint64_t unused; /* the pool's, while the record is free */
    tdg__link_t odd, even;
};

struct fixture {
    tdg__pool_t pool;
    uint32_t ids[RECORDS];
    tdg__list_t list;
};

static int setup(void **state) {
    struct fixture *f = state_create(state, sizeof(*f));

    tdg__pool_init(&f->pool, sizeof(struct record));
    for (size_t i = 0; i < RECORDS; i++)
        if (tdg__pool_alloc(&f->pool, &f->ids[i]) == NULL)
            return -1;
    return 0;
}

static int teardown(void **state) {
    struct fixture *f = *state;

    tdg__pool_done(&f->pool);
    return state_destroy(state);
}

/* The list holds exactly these, read in both directions. */
static void expect(const struct fixture *f, const tdg__list_t *list, size_t offset,
                   const uint32_t *ids, size_t count) {
    uint32_t id = list->first;

    for (size_t i = 0; i < count; i++, id = tdg__link_at(&f->pool, offset, id)->next)
        assert_int_equal(id, ids[i]);
    assert_int_equal(id, 0);

    id = list->last;
    for (size_t i = count; i-- > 0; id = tdg__link_at(&f->pool, offset, id)->prev)
        assert_int_equal(id, ids[i]);
    assert_int_equal(id, 0);
}

#define ODD offsetof(struct record, odd)
#define EVEN offsetof(struct record, even)

static void appends_behind_and_prepends_in_front(void **state) {
    struct fixture *f = *state;
    uint32_t a = f->ids[0], b = f->ids[1], c = f->ids[2];

    tdg__list_append(&f->list, &f->pool, ODD, b);
    tdg__list_append(&f->list, &f->pool, ODD, c);
    tdg__list_prepend(&f->list, &f->pool, ODD, a);
    expect(f, &f->list, ODD, (uint32_t[]){a, b, c}, 3);
}

static void inserts_behind_a_member(void **state) {
    struct fixture *f = *state;
    uint32_t a = f->ids[0], b = f->ids[1], c = f->ids[2];

    tdg__list_append(&f->list, &f->pool, ODD, a);
    tdg__list_insert(&f->list, &f->pool, ODD, c, a);
    tdg__list_insert(&f->list, &f->pool, ODD, b, a);
    expect(f, &f->list, ODD, (uint32_t[]){a, b, c}, 3);
}

static void removes_the_first_the_middle_and_the_last(void **state) {
    struct fixture *f = *state;
    uint32_t *ids = f->ids;

    for (size_t i = 0; i < 5; i++)
        tdg__list_append(&f->list, &f->pool, ODD, ids[i]);
    tdg__list_remove(&f->list, &f->pool, ODD, ids[0]);
    tdg__list_remove(&f->list, &f->pool, ODD, ids[2]);
    tdg__list_remove(&f->list, &f->pool, ODD, ids[4]);
    expect(f, &f->list, ODD, (uint32_t[]){ids[1], ids[3]}, 2);
    tdg__list_remove(&f->list, &f->pool, ODD, ids[3]);
    tdg__list_remove(&f->list, &f->pool, ODD, ids[1]);
    expect(f, &f->list, ODD, NULL, 0);
}

static void a_removed_record_points_nowhere(void **state) {
    struct fixture *f = *state;

    for (size_t i = 0; i < 3; i++)
        tdg__list_append(&f->list, &f->pool, ODD, f->ids[i]);
    tdg__list_remove(&f->list, &f->pool, ODD, f->ids[1]);
    assert_int_equal(tdg__link_at(&f->pool, ODD, f->ids[1])->next, 0);
    assert_int_equal(tdg__link_at(&f->pool, ODD, f->ids[1])->prev, 0);
}

/* A list and what it must hold. */
struct mirror {
    tdg__list_t list;
    size_t offset;
    uint32_t ids[RECORDS];
    size_t count;
};

static size_t find(const struct mirror *m, uint32_t id) {
    size_t i = 0;

    while (i < m->count && m->ids[i] != id)
        i++;
    return i;
}

static void insert_at(struct fixture *f, struct mirror *m, uint32_t id, size_t at) {
    memmove(&m->ids[at + 1], &m->ids[at], (m->count - at) * sizeof(m->ids[0]));
    m->ids[at] = id;
    m->count++;
    tdg__list_insert(&m->list, &f->pool, m->offset, id, at == 0 ? 0 : m->ids[at - 1]);
}

static void remove_at(struct fixture *f, struct mirror *m, size_t at) {
    tdg__list_remove(&m->list, &f->pool, m->offset, m->ids[at]);
    m->count--;
    memmove(&m->ids[at], &m->ids[at + 1], (m->count - at) * sizeof(m->ids[0]));
}

static void records_in_two_lists_are_in_each_as_in_an_array(void **state) {
    struct fixture *f = *state;
    struct mirror mirrors[] = {{.offset = ODD}, {.offset = EVEN}};
    struct dice dice = dice_from_env();

    for (int step = 0; step < STEPS; step++) {
        struct mirror *m = &mirrors[roll(&dice, 2)];
        uint32_t id = f->ids[roll(&dice, RECORDS)];
        size_t at = find(m, id);

        if (at < m->count)
            remove_at(f, m, at);
        else
            insert_at(f, m, id, roll(&dice, (uint32_t)m->count + 1));
        expect(f, &mirrors[0].list, ODD, mirrors[0].ids, mirrors[0].count);
        expect(f, &mirrors[1].list, EVEN, mirrors[1].ids, mirrors[1].count);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(appends_behind_and_prepends_in_front),
        TEST(inserts_behind_a_member),
        TEST(removes_the_first_the_middle_and_the_last),
        TEST(a_removed_record_points_nowhere),
        TEST(records_in_two_lists_are_in_each_as_in_an_array),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("list", tests, NULL, NULL);
}

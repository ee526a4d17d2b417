/* SPDX-License-Identifier: MIT */
#include "server/shelf.h"

#include <stdio.h>

#include "support.h"

static const tdg__hash_key_t hash_key = {1, 2};

static void call_nothing(void *user, tdg_request_t *request, const json_t *arguments) {
    (void)user, (void)request, (void)arguments;
}

static tdg__entry_t *entry_named(const char *name) {
    const tdg_tool_t tool = {.name = name, .call = call_nothing};
    tdg__entry_t *entry = NULL;

    assert_int_equal(tdg__entry_from_tool(&tool, &entry), 0);
    return entry;
}

static uint32_t add(tdg__shelf_t *shelf, const char *name) {
    uint32_t id = 0;

    assert_int_equal(tdg__shelf_add(shelf, entry_named(name), &id), 0);
    return id;
}

static void an_empty_shelf_has_nothing(void **state) {
    tdg__shelf_t shelf;

    (void)state;
    tdg__shelf_init(&shelf, &hash_key);
    assert_int_equal(tdg__shelf_find(&shelf, "a", 1), 0);
    assert_int_equal(tdg__shelf_after(&shelf, 0), 0);
    tdg__shelf_done(&shelf);
}

static void a_key_need_not_end_in_nul(void **state) {
    tdg__shelf_t shelf;
    uint32_t id;

    (void)state;
    tdg__shelf_init(&shelf, &hash_key);
    id = add(&shelf, "ab");
    assert_int_equal(tdg__shelf_find(&shelf, "abc", 2), id);
    assert_int_equal(tdg__shelf_find(&shelf, "abc", 3), 0);
    assert_int_equal(tdg__shelf_find(&shelf, "abc", 1), 0);
    tdg__entry_unref(tdg__shelf_remove(&shelf, id));
    assert_int_equal(tdg__shelf_find(&shelf, "ab", 2), 0);
    tdg__shelf_done(&shelf);
}

static void without_memory_nothing_is_added(void **state) {
    size_t before, failures = 0;
    tdg__entry_t *entry;
    tdg__shelf_t shelf;
    uint32_t id;

    (void)state;
    tdg__shelf_init(&shelf, &hash_key);
    entry = entry_named("a");
    before = memory_live();
    for (size_t nth = 1;; nth++, failures++) {
        memory_fail(nth, MEMORY_ONCE);
        if (tdg__shelf_add(&shelf, entry, &id) == 0)
            break;
        assert_int_equal(tdg__shelf_find(&shelf, "a", 1), 0);
        assert_int_equal(tdg__shelf_after(&shelf, 0), 0);
        tdg__shelf_done(&shelf);
        tdg__shelf_init(&shelf, &hash_key);
        assert_int_equal(memory_live(), before);
    }
    assert_in_range(failures, 2, 10);
    tdg__entry_unref(tdg__shelf_remove(&shelf, id));
    tdg__shelf_done(&shelf);
}

/* ---- Beside an array ---------------------------------------------------- */

enum { NAMES = 300, STEPS = 20000 };

/* What is on the shelf, in order: numbers that names are made of. */
struct model {
    struct {
        int name;
        uint64_t sequence;
    } items[NAMES];
    size_t count;
};

static const char *name_of(int number) {
    static char name[16];

    snprintf(name, sizeof(name), "n%d", number);
    return name;
}

static size_t position(const struct model *model, int name) {
    size_t i = 0;

    while (i < model->count && model->items[i].name != name)
        i++;
    return i;
}

/* Both the look-up by key and a walk from a place in the middle. */
static void compare(const tdg__shelf_t *shelf, const struct model *model, int name,
                    uint64_t after) {
    size_t at = position(model, name), i = 0;
    uint32_t id = tdg__shelf_find(shelf, name_of(name), strlen(name_of(name)));

    assert_int_equal(id != 0, at < model->count);
    if (id != 0)
        assert_true(tdg__shelf_at(shelf, id)->sequence == model->items[at].sequence);

    while (i < model->count && model->items[i].sequence <= after)
        i++;
    for (id = tdg__shelf_after(shelf, after); id != 0;
         id = tdg__shelf_next(shelf, id), i++) {
        assert_true(i < model->count);
        assert_true(tdg__shelf_at(shelf, id)->sequence == model->items[i].sequence);
    }
    assert_int_equal(i, model->count);
}

static void toggle(tdg__shelf_t *shelf, struct model *model, int name) {
    size_t at = position(model, name);
    uint32_t id;

    if (at < model->count) {
        id = tdg__shelf_find(shelf, name_of(name), strlen(name_of(name)));
        tdg__entry_unref(tdg__shelf_remove(shelf, id));
        model->count--;
        memmove(&model->items[at], &model->items[at + 1],
                (model->count - at) * sizeof(model->items[0]));
        return;
    }

    id = add(shelf, name_of(name));
    model->items[model->count].name = name;
    model->items[model->count++].sequence = tdg__shelf_at(shelf, id)->sequence;
}

static void it_does_what_a_sorted_array_does(void **state) {
    struct dice dice = dice_from_env();
    struct model model = {.count = 0};
    tdg__shelf_t shelf;

    (void)state;
    tdg__shelf_init(&shelf, &hash_key);
    for (int step = 0; step < STEPS; step++) {
        toggle(&shelf, &model, (int)roll(&dice, NAMES));
        if (step % 10 == 0)
            compare(&shelf, &model, (int)roll(&dice, NAMES),
                    roll(&dice, (uint32_t)shelf.last + 2));
    }
    while (model.count > 0) {
        toggle(&shelf, &model, model.items[model.count / 2].name);
        compare(&shelf, &model, 0, 0);
    }
    assert_int_equal(shelf.root, 0);
    tdg__shelf_done(&shelf);
}

/* ---- Depth -------------------------------------------------------------- */

static unsigned depth(const tdg__shelf_t *shelf, uint32_t id) {
    unsigned left, right;

    if (id == 0)
        return 0;
    left = depth(shelf, tdg__shelf_at(shelf, id)->left);
    right = depth(shelf, tdg__shelf_at(shelf, id)->right);
    return 1 + (left > right ? left : right);
}

/* A balanced tree of as many has 15 levels; chance makes it two or three times that. */
static void the_tree_stays_shallow(void **state) {
    enum { MANY = 30000 };
    tdg__shelf_t shelf;

    (void)state;
    tdg__shelf_init(&shelf, &hash_key);
    for (int i = 0; i < MANY; i++)
        add(&shelf, name_of(i));
    assert_in_range(depth(&shelf, shelf.root), 15, 60);
    for (int i = 0; i < MANY; i++) {
        uint32_t id = tdg__shelf_find(&shelf, name_of(i), strlen(name_of(i)));

        if (i % 16 != 0)
            tdg__entry_unref(tdg__shelf_remove(&shelf, id));
    }
    assert_in_range(depth(&shelf, shelf.root), 11, 45);
    for (uint32_t id = tdg__shelf_after(&shelf, 0); id != 0;
         id = tdg__shelf_after(&shelf, 0))
        tdg__entry_unref(tdg__shelf_remove(&shelf, id));
    tdg__shelf_done(&shelf);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, memory_setup, memory_teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        CASE(an_empty_shelf_has_nothing),      CASE(a_key_need_not_end_in_nul),
        CASE(without_memory_nothing_is_added), CASE(it_does_what_a_sorted_array_does),
        CASE(the_tree_stays_shallow),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("shelf", tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT */
#include "server/catalogue/entry_list.h"

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

static uint32_t add(tdg__entry_list_t *list, const char *name) {
    uint32_t id = 0;

    assert_int_equal(tdg__entry_list_add(list, entry_named(name), &id), 0);
    return id;
}

static void an_empty_list_has_nothing(void **state) {
    tdg__entry_list_t list;

    (void)state;
    tdg__entry_list_init(&list, &hash_key);
    assert_int_equal(tdg__entry_list_find(&list, "a", 1), 0);
    assert_int_equal(tdg__entry_list_after(&list, 0), 0);
    tdg__entry_list_done(&list);
}

static void a_key_need_not_end_in_nul(void **state) {
    tdg__entry_list_t list;
    uint32_t id;

    (void)state;
    tdg__entry_list_init(&list, &hash_key);
    id = add(&list, "ab");
    assert_int_equal(tdg__entry_list_find(&list, "abc", 2), id);
    assert_int_equal(tdg__entry_list_find(&list, "abc", 3), 0);
    assert_int_equal(tdg__entry_list_find(&list, "abc", 1), 0);
    tdg__entry_unref(tdg__entry_list_remove(&list, id));
    assert_int_equal(tdg__entry_list_find(&list, "ab", 2), 0);
    tdg__entry_list_done(&list);
}

static void without_memory_nothing_is_added(void **state) {
    size_t before, failures = 0;
    tdg__entry_t *entry;
    tdg__entry_list_t list;
    uint32_t id;

    (void)state;
    tdg__entry_list_init(&list, &hash_key);
    entry = entry_named("a");
    before = memory_live();
    for (size_t nth = 1;; nth++, failures++) {
        memory_fail(nth, MEMORY_ONCE);
        if (tdg__entry_list_add(&list, entry, &id) == 0)
            break;
        assert_int_equal(tdg__entry_list_find(&list, "a", 1), 0);
        assert_int_equal(tdg__entry_list_after(&list, 0), 0);
        tdg__entry_list_done(&list);
        tdg__entry_list_init(&list, &hash_key);
        assert_int_equal(memory_live(), before);
    }
    assert_in_range(failures, 2, 10);
    tdg__entry_unref(tdg__entry_list_remove(&list, id));
    tdg__entry_list_done(&list);
}

/* ---- Beside an array ---------------------------------------------------- */

enum { NAMES = 300, STEPS = 20000 };

/* What is on the list, in order: numbers that names are made of. */
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
static void compare(const tdg__entry_list_t *list, const struct model *model, int name,
                    uint64_t after) {
    size_t at = position(model, name), i = 0;
    uint32_t id = tdg__entry_list_find(list, name_of(name), strlen(name_of(name)));

    assert_int_equal(id != 0, at < model->count);
    if (id != 0)
        assert_true(tdg__entry_list_at(list, id)->sequence == model->items[at].sequence);

    while (i < model->count && model->items[i].sequence <= after)
        i++;
    for (id = tdg__entry_list_after(list, after); id != 0;
         id = tdg__entry_list_next(list, id), i++) {
        assert_true(i < model->count);
        assert_true(tdg__entry_list_at(list, id)->sequence == model->items[i].sequence);
    }
    assert_int_equal(i, model->count);
}

static void toggle(tdg__entry_list_t *list, struct model *model, int name) {
    size_t at = position(model, name);
    uint32_t id;

    if (at < model->count) {
        id = tdg__entry_list_find(list, name_of(name), strlen(name_of(name)));
        tdg__entry_unref(tdg__entry_list_remove(list, id));
        model->count--;
        memmove(&model->items[at], &model->items[at + 1],
                (model->count - at) * sizeof(model->items[0]));
        return;
    }

    id = add(list, name_of(name));
    model->items[model->count].name = name;
    model->items[model->count++].sequence = tdg__entry_list_at(list, id)->sequence;
}

static void it_does_what_a_sorted_array_does(void **state) {
    struct dice dice = dice_from_env();
    struct model model = {.count = 0};
    tdg__entry_list_t list;

    (void)state;
    tdg__entry_list_init(&list, &hash_key);
    for (int step = 0; step < STEPS; step++) {
        toggle(&list, &model, (int)roll(&dice, NAMES));
        if (step % 10 == 0)
            compare(&list, &model, (int)roll(&dice, NAMES),
                    roll(&dice, (uint32_t)list.last + 2));
    }
    while (model.count > 0) {
        toggle(&list, &model, model.items[model.count / 2].name);
        compare(&list, &model, 0, 0);
    }
    assert_int_equal(list.root, 0);
    tdg__entry_list_done(&list);
}

/* ---- Depth -------------------------------------------------------------- */

static unsigned depth(const tdg__entry_list_t *list, uint32_t id) {
    unsigned left, right;

    if (id == 0)
        return 0;
    left = depth(list, tdg__entry_list_at(list, id)->left);
    right = depth(list, tdg__entry_list_at(list, id)->right);
    return 1 + (left > right ? left : right);
}

/* A balanced tree of as many has 15 levels; chance makes it two or three times that. */
static void the_tree_stays_shallow(void **state) {
    enum { MANY = 30000 };
    tdg__entry_list_t list;

    (void)state;
    tdg__entry_list_init(&list, &hash_key);
    for (int i = 0; i < MANY; i++)
        add(&list, name_of(i));
    assert_in_range(depth(&list, list.root), 15, 60);
    for (int i = 0; i < MANY; i++) {
        uint32_t id = tdg__entry_list_find(&list, name_of(i), strlen(name_of(i)));

        if (i % 16 != 0)
            tdg__entry_unref(tdg__entry_list_remove(&list, id));
    }
    assert_in_range(depth(&list, list.root), 11, 45);
    for (uint32_t id = tdg__entry_list_after(&list, 0); id != 0;
         id = tdg__entry_list_after(&list, 0))
        tdg__entry_unref(tdg__entry_list_remove(&list, id));
    tdg__entry_list_done(&list);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, memory_setup, memory_teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        CASE(an_empty_list_has_nothing),       CASE(a_key_need_not_end_in_nul),
        CASE(without_memory_nothing_is_added), CASE(it_does_what_a_sorted_array_does),
        CASE(the_tree_stays_shallow),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("list", tests, NULL, NULL);
}

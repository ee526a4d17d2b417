/* SPDX-License-Identifier: MIT */
#include "server/catalogue/catalogue.h"

#include <stdio.h>

#include "entries.h"
#include "support.h"

static void read_nothing(void *user, tdg_request_t *request, const char *uri) {
    (void)user, (void)request, (void)uri;
}

static void call_nothing(void *user, tdg_request_t *request, const json_t *arguments) {
    (void)user, (void)request, (void)arguments;
}

static void complete_nothing(void *user, tdg_request_t *request, const char *argument,
                             const char *value, const json_t *context) {
    (void)user, (void)request, (void)argument, (void)value, (void)context;
}

struct fixture {
    tdg__catalogue_t *catalogue;
    int freed;
};

static int setup(void **state) {
    struct fixture *f = state_create(state, sizeof(*f));

    return tdg__catalogue_create(NULL, NULL, &f->catalogue);
}

static int teardown(void **state) {
    struct fixture *f = *state;

    memory_fail(0, MEMORY_ONCE);
    tdg__catalogue_destroy(f->catalogue);
    return state_destroy(state);
}

static void count_free(void *user) {
    ((struct fixture *)user)->freed++;
}

static int add_resource(struct fixture *f, const char *uri, const char *name) {
    const tdg_resource_t resource = {.uri = uri,
                                     .name = name,
                                     .read = read_nothing,
                                     .user = f,
                                     .user_free = count_free};

    return catalogue_add_resource(f->catalogue, &resource);
}

static int add_template(struct fixture *f, const char *text, const char *name) {
    const tdg_template_t template_ = {.uri_template = text,
                                      .name = name,
                                      .read = read_nothing,
                                      .user = f,
                                      .user_free = count_free};

    return catalogue_add_template(f->catalogue, &template_);
}

static int add_tool(struct fixture *f, const char *name) {
    const tdg_tool_t tool = {
        .name = name, .call = call_nothing, .user = f, .user_free = count_free};

    return catalogue_add_tool(f->catalogue, &tool);
}

static int add_prompt(struct fixture *f, const char *name, tdg_complete_fn complete) {
    const tdg_prompt_t prompt = {.name = name,
                                 .get = call_nothing,
                                 .complete = complete,
                                 .user = f,
                                 .user_free = count_free};

    return catalogue_add_prompt(f->catalogue, &prompt);
}

static const char *name_of(const tdg__entry_t *entry) {
    return json_string_value(json_object_get(entry->definition, "name"));
}

/* Fails unless the entry with this key has this name; NULL: there is none. */
static void assert_found(struct fixture *f, tdg__kind_t kind, const char *key,
                         const char *name) {
    tdg__entry_t *entry = tdg__catalogue_find(f->catalogue, kind, key);

    if (name == NULL) {
        assert_null(entry);
        return;
    }
    assert_non_null(entry);
    assert_int_equal(entry->kind, kind);
    assert_string_equal(name_of(entry), name);
    tdg__entry_unref(entry);
}

static void assert_matched(struct fixture *f, const char *uri, const char *name) {
    tdg__entry_t *entry = NULL;
    int rv = tdg__catalogue_match(f->catalogue, uri, &entry);

    assert_int_equal(rv, name != NULL ? 0 : TDG_ENOTFOUND);
    if (name == NULL) {
        assert_null(entry);
        return;
    }
    assert_string_equal(name_of(entry), name);
    tdg__entry_unref(entry);
}

/* ---- Adding, changing, removing ----------------------------------------- */

static void what_was_added_is_found_until_it_is_removed(void **state) {
    struct fixture *f = *state;
    static const char *const keys[TDG__KIND_COUNT] = {"a:1", "a:{x}", "t", "p"};

    assert_int_equal(add_resource(f, "a:1", "r"), 0);
    assert_int_equal(add_template(f, "a:{x}", "tt"), 0);
    assert_int_equal(add_tool(f, "t"), 0);
    assert_int_equal(add_prompt(f, "p", NULL), 0);
    assert_found(f, TDG__RESOURCE, "a:1", "r");
    assert_found(f, TDG__TEMPLATE, "a:{x}", "tt");
    assert_found(f, TDG__TOOL, "t", "t");
    assert_found(f, TDG__PROMPT, "p", "p");
    assert_found(f, TDG__TOOL, "p", NULL);

    for (int kind = 0; kind < TDG__KIND_COUNT; kind++) {
        assert_int_equal(tdg__catalogue_count(f->catalogue, (tdg__kind_t)kind), 1);
        assert_int_equal(
            tdg__catalogue_remove(f->catalogue, (tdg__kind_t)kind, keys[kind]), 0);
        assert_int_equal(f->freed, kind + 1);
        assert_found(f, (tdg__kind_t)kind, keys[kind], NULL);
        assert_int_equal(tdg__catalogue_count(f->catalogue, (tdg__kind_t)kind), 0);
        assert_int_equal(
            tdg__catalogue_remove(f->catalogue, (tdg__kind_t)kind, keys[kind]),
            TDG_ENOTFOUND);
    }
    assert_matched(f, "a:1", NULL);
    assert_int_equal(tdg__catalogue_remove(f->catalogue, TDG__TOOL, NULL), TDG_EINVAL);
}

static void an_entry_outlives_its_removal_while_it_is_used(void **state) {
    struct fixture *f = *state;
    tdg__entry_t *entry;

    assert_int_equal(add_resource(f, "a:1", "first"), 0);
    entry = tdg__catalogue_find(f->catalogue, TDG__RESOURCE, "a:1");
    assert_int_equal(add_resource(f, "a:1", "second"), 0);
    assert_int_equal(tdg__catalogue_remove(f->catalogue, TDG__RESOURCE, "a:1"), 0);
    assert_int_equal(f->freed, 1);
    assert_string_equal(name_of(entry), "first");
    tdg__entry_unref(entry);
    assert_int_equal(f->freed, 2);
}

static void a_changed_template_serves_with_its_new_entry(void **state) {
    struct fixture *f = *state;

    assert_int_equal(add_template(f, "a:{x}", "first"), 0);
    assert_int_equal(add_template(f, "a:{x}", "second"), 0);
    assert_int_equal(f->freed, 1);
    assert_matched(f, "a:1", "second");
    assert_int_equal(tdg__catalogue_count(f->catalogue, TDG__TEMPLATE), 1);
    assert_int_equal(tdg__catalogue_remove(f->catalogue, TDG__TEMPLATE, "a:{x}"), 0);
    assert_matched(f, "a:1", NULL);
}

static void what_is_refused_changes_nothing(void **state) {
    struct fixture *f = *state;

    assert_int_equal(add_resource(f, "a:1", "r"), 0);
    assert_int_equal(add_resource(f, "no scheme", "r"), TDG_EURI);
    assert_int_equal(add_resource(f, "a:1", NULL), TDG_EINVAL);
    assert_int_equal(add_template(f, "a:{", "t"), TDG_ETEMPLATE);
    assert_int_equal(add_tool(f, ""), TDG_EINVAL);
    assert_int_equal(f->freed, 0);
    assert_found(f, TDG__RESOURCE, "a:1", "r");
    assert_int_equal(tdg__catalogue_count(f->catalogue, TDG__TOOL), 0);
}

/* The user's data is freed while the catalogue can be used. */
static void look_inside(void *user) {
    struct fixture *f = user;

    assert_int_equal(tdg__catalogue_count(f->catalogue, TDG__TOOL), 1);
    f->freed++;
}

static void removing_and_changing_call_back_without_the_lock(void **state) {
    struct fixture *f = *state;
    tdg_tool_t tool = {
        .name = "b", .call = call_nothing, .user = f, .user_free = look_inside};

    assert_int_equal(catalogue_add_tool(f->catalogue, &tool), 0);
    tool.user_free = NULL;
    assert_int_equal(catalogue_add_tool(f->catalogue, &tool), 0);
    assert_int_equal(f->freed, 1);
    tool.name = "c";
    tool.user_free = look_inside;
    assert_int_equal(catalogue_add_tool(f->catalogue, &tool), 0);
    assert_int_equal(tdg__catalogue_remove(f->catalogue, TDG__TOOL, "c"), 0);
    assert_int_equal(f->freed, 2);
}

static void whether_something_completes_is_known(void **state) {
    struct fixture *f = *state;

    assert_false(tdg__catalogue_completes(f->catalogue));
    assert_int_equal(add_prompt(f, "a", complete_nothing), 0);
    assert_int_equal(add_prompt(f, "b", complete_nothing), 0);
    assert_int_equal(add_prompt(f, "a", NULL), 0);
    assert_true(tdg__catalogue_completes(f->catalogue));
    assert_int_equal(tdg__catalogue_remove(f->catalogue, TDG__PROMPT, "b"), 0);
    assert_false(tdg__catalogue_completes(f->catalogue));
}

/* ---- Templates ---------------------------------------------------------- */

static void the_most_specific_template_matches(void **state) {
    struct fixture *f = *state;

    assert_int_equal(add_template(f, "db://{+any}", "any"), 0);
    assert_int_equal(add_template(f, "db://orders/{id}", "order"), 0);
    assert_int_equal(add_template(f, "db://{table}/first", "first"), 0);
    assert_int_equal(add_template(f, "db://{other}/first", "later"), 0);
    assert_matched(f, "db://orders/7", "order");
    assert_matched(f, "db://orders/first", "order");
    assert_matched(f, "db://users/first", "first");
    assert_matched(f, "db://users/7/x", "any");
    assert_matched(f, "web://users/7", NULL);

    /* Changing keeps the age. */
    assert_int_equal(add_template(f, "db://{table}/first", "changed"), 0);
    assert_matched(f, "db://users/first", "changed");
    assert_int_equal(
        tdg__catalogue_remove(f->catalogue, TDG__TEMPLATE, "db://{table}/first"), 0);
    assert_matched(f, "db://users/first", "later");
}

static void a_template_may_be_spelled_without_braces(void **state) {
    struct fixture *f = *state;
    char *longest = malloc(3 * TDG__ENTRY_MAX_KEY + 4);

    assert_int_equal(add_template(f, "a:{x}/{y}", "t"), 0);
    assert_int_equal(add_template(f, "a:%7Bx%7D{y}", "literal"), 0);
    assert_found(f, TDG__TEMPLATE, "a:%7Bx%7D/%7by%7d", "t");
    assert_found(f, TDG__TEMPLATE, "a:{x}/%7By}", "t");
    assert_found(f, TDG__TEMPLATE, "a:%7Bx%7D{y}", "literal");
    assert_found(f, TDG__TEMPLATE, "a:%7Ax%7D/{y}", NULL);
    assert_found(f, TDG__TEMPLATE, "a:%7", NULL);
    assert_found(f, TDG__TEMPLATE, "", NULL);
    assert_found(f, TDG__RESOURCE, "a:%7Bx%7D/%7By%7D", NULL);

    for (size_t i = 0; i <= TDG__ENTRY_MAX_KEY; i++)
        memcpy(longest + 3 * i, "%7B", 3);
    longest[3 * TDG__ENTRY_MAX_KEY + 3] = '\0';
    assert_found(f, TDG__TEMPLATE, longest, NULL);
    free(longest);
}

static void resource_or_template_say_whether_they_may_be_watched(void **state) {
    struct fixture *f = *state;
    const tdg_resource_t still = {
        .uri = "a:still", .name = "n", .read = read_nothing, .not_subscribable = true};
    const tdg_template_t dead = {.uri_template = "a:dead/{x}",
                                 .name = "n",
                                 .read = read_nothing,
                                 .not_subscribable = true};
    static const struct {
        const char *uri;
        int rv;
    } cases[] = {
        {"a:still", TDG_ENOTSUP}, {"a:dead/1", TDG_ENOTSUP},
        {"a:dead/live", 0},       {"a:7", 0},
        {"b:7", TDG_ENOTFOUND},   {"", TDG_ENOTFOUND},
    };

    assert_int_equal(catalogue_add_resource(f->catalogue, &still), 0);
    assert_int_equal(catalogue_add_template(f->catalogue, &dead), 0);
    assert_int_equal(add_resource(f, "a:dead/live", "n"), 0);
    assert_int_equal(add_template(f, "a:{+x}", "n"), 0);
    for (size_t i = 0; i < COUNT(cases); i++)
        assert_int_equal(tdg__catalogue_may_watch(f->catalogue, cases[i].uri),
                         cases[i].rv);
    assert_int_equal(tdg__catalogue_may_watch_template(f->catalogue, "a:{+x}"), 0);
    assert_int_equal(tdg__catalogue_may_watch_template(f->catalogue, "a:%7B+x%7D"), 0);
    assert_int_equal(tdg__catalogue_may_watch_template(f->catalogue, "a:dead/{x}"),
                     TDG_ENOTSUP);
    assert_int_equal(tdg__catalogue_may_watch_template(f->catalogue, "a:{y}"),
                     TDG_ENOTFOUND);
}

/* ---- Pages -------------------------------------------------------------- */

/* The names of one page, one after the other. The cursor is the text in `next`, which is
 * "" where no page follows; the two may be the same. */
static const char *page(struct fixture *f, tdg__kind_t kind, const char *cursor,
                        size_t max, char next[64]) {
    static char names[4096];
    json_t *items = NULL, *following = NULL;
    size_t len = 0;

    names[0] = '\0';
    assert_int_equal(
        tdg__catalogue_page(f->catalogue, kind, cursor, max, &items, &following), 0);
    assert_true(json_array_size(items) <= max);
    for (size_t i = 0; i < json_array_size(items); i++) {
        const json_t *name = json_object_get(json_array_get(items, i), "name");

        len += (size_t)snprintf(names + len, sizeof(names) - len, "%s%s",
                                i > 0 ? " " : "", json_string_value(name));
    }
    assert_in_range(json_string_length(following), 0, 63);
    strcpy(next, following != NULL ? json_string_value(following) : "");
    json_decref(items);
    json_decref(following);
    return names;
}

static void pages_follow_each_other_to_the_end(void **state) {
    struct fixture *f = *state;
    char next[64];

    assert_string_equal(page(f, TDG__TOOL, NULL, 2, next), "");
    assert_string_equal(next, "");
    for (const char *name = "a\0b\0c\0d\0e\0"; *name != '\0'; name += 2)
        assert_int_equal(add_tool(f, name), 0);

    assert_string_equal(page(f, TDG__TOOL, NULL, 2, next), "a b");
    assert_string_equal(page(f, TDG__TOOL, next, 2, next), "c d");
    assert_string_equal(page(f, TDG__TOOL, next, 2, next), "e");
    assert_string_equal(next, "");
    assert_string_equal(page(f, TDG__TOOL, NULL, 5, next), "a b c d e");
    assert_string_equal(next, "");
    assert_string_equal(page(f, TDG__TOOL, NULL, 4, next), "a b c d");
    assert_string_not_equal(next, "");
}

static void a_page_lists_definitions(void **state) {
    struct fixture *f = *state;
    json_t *items, *next;

    assert_int_equal(add_resource(f, "a:1", "n"), 0);
    assert_int_equal(
        tdg__catalogue_page(f->catalogue, TDG__RESOURCE, NULL, 9, &items, &next), 0);
    assert_json_equal(items, "[{'uri': 'a:1', 'name': 'n'}]");
    assert_null(next);
    json_decref(items);
}

static void pages_are_stable_while_others_come_and_go(void **state) {
    struct fixture *f = *state;
    char next[64], again[64];

    for (const char *name = "a\0b\0c\0d\0e\0"; *name != '\0'; name += 2) {
        const char uri[] = {'x', ':', name[0], '\0'};

        assert_int_equal(add_resource(f, uri, name), 0);
    }
    assert_string_equal(page(f, TDG__RESOURCE, NULL, 2, next), "a b");

    /* The one that the page ended with goes, and one that was listed comes back last. */
    assert_int_equal(tdg__catalogue_remove(f->catalogue, TDG__RESOURCE, "x:b"), 0);
    assert_int_equal(tdg__catalogue_remove(f->catalogue, TDG__RESOURCE, "x:d"), 0);
    assert_int_equal(add_resource(f, "x:b", "b"), 0);
    assert_int_equal(add_resource(f, "x:c", "C"), 0); /* keeps its place */
    assert_string_equal(page(f, TDG__RESOURCE, next, 2, again), "C e");
    assert_string_equal(page(f, TDG__RESOURCE, next, 2, again), "C e"); /* once more */
    assert_string_equal(page(f, TDG__RESOURCE, again, 2, next), "b");
    assert_string_equal(next, "");
}

static void only_our_own_cursors_are_accepted(void **state) {
    struct fixture *f = *state;
    static const char *const garbled[] = {
        "",
        ".",
        "1",
        "1.",
        "1.0",
        "g.1",
        ".1",
        "-1.1",
        "00000000000000001.1",
        " ",
        "null",
        "10000000000000000.1",
        "ffffffffffffffffffff.ffffffffffffffffffff",
    };
    json_t *items = NULL, *unused = NULL;
    tdg__catalogue_t *other;
    char next[64], bent[66];

    assert_int_equal(add_tool(f, "a"), 0);
    assert_int_equal(add_tool(f, "b"), 0);
    page(f, TDG__TOOL, NULL, 1, next);
    for (size_t i = 0; i < COUNT(garbled); i++)
        assert_int_equal(
            tdg__catalogue_page(f->catalogue, TDG__TOOL, garbled[i], 1, &items, &unused),
            TDG_EINVAL);

    /* One character more, less or different. */
    for (size_t i = 0; i <= strlen(next); i++) {
        strcpy(bent, next);
        bent[i] = bent[i] == '1' ? '2' : '1';
        bent[strlen(next) + 1] = '\0';
        assert_int_equal(
            tdg__catalogue_page(f->catalogue, TDG__TOOL, bent, 1, &items, &unused),
            TDG_EINVAL);
        strcpy(bent, next);
        bent[i] = '\0';
        if (i < strlen(next))
            assert_int_equal(
                tdg__catalogue_page(f->catalogue, TDG__TOOL, bent, 1, &items, &unused),
                TDG_EINVAL);
    }

    /* Another list, another catalogue. */
    assert_int_equal(
        tdg__catalogue_page(f->catalogue, TDG__PROMPT, next, 1, &items, &unused),
        TDG_EINVAL);
    assert_int_equal(tdg__catalogue_create(NULL, NULL, &other), 0);
    assert_int_equal(tdg__catalogue_page(other, TDG__TOOL, next, 1, &items, &unused),
                     TDG_EINVAL);
    tdg__catalogue_destroy(other);
    assert_null(items);
}

/* ---- Visits ------------------------------------------------------------- */

struct visit {
    struct fixture *f;
    size_t count, stop_after; /* 0: never */
    bool seen[1000];
};

static bool on_uri(void *arg, const tdg__target_t *uri) {
    struct visit *visit = arg;
    int number = atoi(uri->name + strlen("a:x/"));

    assert_int_equal(uri->kind, TDG__TARGET_URI);
    assert_int_equal(strlen(uri->name), uri->len);
    assert_false(visit->seen[number]);
    visit->seen[number] = true;
    /* The lock is not held. */
    assert_true(tdg__catalogue_count(visit->f->catalogue, TDG__RESOURCE) > 0);
    return ++visit->count != visit->stop_after;
}

static void add_numbers(struct fixture *f, int count) {
    for (int i = 0; i < count; i++) {
        char uri[32];

        snprintf(uri, sizeof(uri), "a:%c/%d", i % 3 == 0 ? 'y' : 'x', i);
        assert_int_equal(add_resource(f, uri, "n"), 0);
    }
}

static void assert_visits(struct fixture *f, const char *text, size_t stop_after,
                          size_t expected) {
    /* Not ended by NUL, as the engine may give it. */
    char *copy = strdup(text);
    const tdg__target_t template_ = {TDG__TARGET_TEMPLATE, copy, strlen(text)};
    struct visit visit = {.f = f, .stop_after = stop_after};

    copy[strlen(text)] = '}';
    assert_int_equal(
        tdg__catalogue_list_matches(f->catalogue, &template_, on_uri, &visit), 0);
    assert_int_equal(visit.count, expected);
    free(copy);
}

static void resources_that_a_template_matches_are_visited_once(void **state) {
    struct fixture *f = *state;

    assert_visits(f, "a:x/{n}", 0, 0);
    add_numbers(f, 999);
    assert_visits(f, "a:x/{n}", 0, 666);
    assert_visits(f, "a:x/{n}", 1, 1);
    assert_visits(f, "a:x/{n}", 100, 100);
    assert_visits(f, "a:x/7{n}", 0, 74);
    assert_visits(f, "b:x/{n}", 0, 0);
}

static void a_listed_template_needs_no_memory_to_be_visited(void **state) {
    struct fixture *f = *state;
    const tdg__target_t unlisted = tdg__target_template("a:x/1{n}");
    struct visit visit = {.f = f};

    add_numbers(f, 30);
    assert_int_equal(add_template(f, "a:x/{n}", "t"), 0);
    memory_fail(1, MEMORY_FROM_THEN_ON);
    assert_visits(f, "a:x/{n}", 0, 20);
    assert_false(memory_failed());
    assert_int_equal(tdg__catalogue_list_matches(f->catalogue, &unlisted, on_uri, &visit),
                     TDG_ENOMEM);
}

static void a_malformed_template_visits_nothing(void **state) {
    struct fixture *f = *state;
    const tdg__target_t malformed = tdg__target_template("a:x/{");
    struct visit visit = {.f = f};

    add_numbers(f, 3);
    assert_int_equal(
        tdg__catalogue_list_matches(f->catalogue, &malformed, on_uri, &visit),
        TDG_ETEMPLATE);
    assert_int_equal(visit.count, 0);
}

static bool remove_visited(void *arg, tdg__entry_t *entry) {
    struct visit *visit = arg;

    visit->count++;
    assert_int_equal(tdg__catalogue_remove(visit->f->catalogue, entry->kind, entry->key),
                     0);
    assert_string_equal(name_of(entry), "n");
    return true;
}

static void a_visitor_may_change_the_catalogue(void **state) {
    struct fixture *f = *state;
    struct visit visit = {.f = f};

    add_numbers(f, 999);
    tdg__catalogue_each(f->catalogue, TDG__RESOURCE, remove_visited, &visit);
    assert_int_equal(visit.count, 999);
    assert_int_equal(tdg__catalogue_count(f->catalogue, TDG__RESOURCE), 0);
    assert_int_equal(f->freed, 999);
}

/* ---- Many --------------------------------------------------------------- */

enum { MANY = 100000 };

/* Were one of the steps O(n), this would take 10^10 of them and run into the time limit.
 */
static void a_hundred_thousand_come_are_listed_and_go(void **state) {
    struct fixture *f = *state;
    struct dice dice = dice_from_env();
    uint32_t *order = malloc(MANY * sizeof(*order));
    char uri[32], cursor[64] = "";
    size_t listed = 0;

    for (uint32_t i = 0; i < MANY; i++) {
        uint32_t other = roll(&dice, i + 1);

        order[i] = order[other];
        order[other] = i;
        snprintf(uri, sizeof(uri), "a:%u", i);
        assert_int_equal(add_resource(f, uri, "n"), 0);
    }
    do {
        page(f, TDG__RESOURCE, listed == 0 ? NULL : cursor, 10, cursor);
        listed += 10;
    } while (cursor[0] != '\0');
    assert_int_equal(listed, MANY);

    for (uint32_t i = 0; i < MANY; i++) {
        snprintf(uri, sizeof(uri), "a:%u", order[i]);
        assert_int_equal(tdg__catalogue_remove(f->catalogue, TDG__RESOURCE, uri), 0);
    }
    assert_int_equal(tdg__catalogue_count(f->catalogue, TDG__RESOURCE), 0);
    assert_int_equal(f->freed, MANY);
    free(order);
}

/* ---- Memory ------------------------------------------------------------- */

static void without_memory_adding_changes_nothing(void **state) {
    struct fixture *f = *state;
    size_t failures = 0;
    int changed = 0, rv;

    assert_int_equal(add_template(f, "a:{x}", "first"), 0);
    for (size_t nth = 1;; nth++, failures++) {
        memory_fail(nth, MEMORY_ONCE);
        rv = add_template(f, "a:{x}", "second");
        changed += rv == 0;
        if (rv == 0)
            rv = add_template(f, "b:{x}", "new");
        memory_fail(0, MEMORY_ONCE);
        assert_int_equal(f->freed,
                         changed); /* and what was refused is still the user's */
        if (rv == 0)
            break;

        assert_int_equal(rv, TDG_ENOMEM);
        assert_found(f, TDG__TEMPLATE, "b:{x}", NULL);
        assert_matched(f, "b:1", NULL);
        assert_int_equal(tdg__catalogue_count(f->catalogue, TDG__TEMPLATE), 1);
        assert_int_equal(add_template(f, "a:{x}", "first"), 0);
        changed++;
        assert_matched(f, "a:1", "first");
    }
    assert_matched(f, "a:1", "second");
    assert_matched(f, "b:1", "new");
    assert_in_range(failures, 10, 500);
}

static void without_memory_there_is_no_page(void **state) {
    struct fixture *f = *state;
    size_t before, failures = 0;
    json_t *items, *next;
    int rv;

    for (const char *name = "a\0b\0c\0d\0e\0f\0g\0h\0i\0j\0k\0"; *name != '\0'; name += 2)
        assert_int_equal(add_tool(f, name), 0);
    before = memory_live();
    for (size_t nth = 1;; nth++, failures++) {
        memory_fail(nth, MEMORY_ONCE);
        rv = tdg__catalogue_page(f->catalogue, TDG__TOOL, NULL, 10, &items, &next);
        if (rv == 0)
            break;
        assert_int_equal(rv, TDG_ENOMEM);
        assert_int_equal(memory_live(), before);
    }
    assert_false(memory_failed());
    assert_in_range(failures, 3, 50);
    json_decref(items);
    json_decref(next);
}

static void without_memory_there_is_no_catalogue(void **state) {
    tdg__catalogue_t *catalogue = NULL;
    size_t before = memory_live(), failures = 0;

    (void)state;
    for (size_t nth = 1;; nth++, failures++) {
        memory_fail(nth, MEMORY_ONCE);
        if (tdg__catalogue_create(NULL, NULL, &catalogue) == 0)
            break;
        assert_null(catalogue);
        assert_int_equal(memory_live(), before);
    }
    assert_in_range(failures, 2, 20);
    tdg__catalogue_destroy(catalogue);
    tdg__catalogue_destroy(NULL);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        CASE(what_was_added_is_found_until_it_is_removed),
        CASE(an_entry_outlives_its_removal_while_it_is_used),
        CASE(a_changed_template_serves_with_its_new_entry),
        CASE(what_is_refused_changes_nothing),
        CASE(removing_and_changing_call_back_without_the_lock),
        CASE(whether_something_completes_is_known),
        CASE(the_most_specific_template_matches),
        CASE(a_template_may_be_spelled_without_braces),
        CASE(resource_or_template_say_whether_they_may_be_watched),
        CASE(pages_follow_each_other_to_the_end),
        CASE(a_page_lists_definitions),
        CASE(pages_are_stable_while_others_come_and_go),
        CASE(only_our_own_cursors_are_accepted),
        CASE(resources_that_a_template_matches_are_visited_once),
        CASE(a_listed_template_needs_no_memory_to_be_visited),
        CASE(a_malformed_template_visits_nothing),
        CASE(a_visitor_may_change_the_catalogue),
        CASE(a_hundred_thousand_come_are_listed_and_go),
        CASE(without_memory_adding_changes_nothing),
        CASE(without_memory_there_is_no_page),
        CASE(without_memory_there_is_no_catalogue),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("catalogue", tests, NULL, NULL);
}

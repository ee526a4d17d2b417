/* SPDX-License-Identifier: MIT */
#include <stdio.h>

#include "base/template_index.h"
#include "support.h"

enum { MAX_TEMPLATES = 4096, MAX_TEXT = 128 };

/* An index, and the same templates in a plain array to compare it with. The value of a
 * template is its place in the array and one more. */
struct fixture {
    tdg__template_index_t *index;
    tdg__template_t *templates[MAX_TEMPLATES];
    bool added[MAX_TEMPLATES];
    unsigned visits[MAX_TEMPLATES];
    size_t count;
    struct dice dice;
};

static int setup(void **state) {
    struct fixture *f = state_create(state, sizeof(*f));

    f->dice = dice_from_env();
    return tdg__template_index_create(&f->index);
}

static int teardown(void **state) {
    struct fixture *f = *state;

    tdg__template_index_destroy(f->index);
    for (size_t i = 0; i < f->count; i++)
        tdg__template_destroy(f->templates[i]);
    return state_destroy(state);
}

/* Returns the place of the template; it is not in the index yet. */
static size_t make(struct fixture *f, const char *text) {
    tdg__parse_error_t error = {0};

    assert_in_range(f->count, 0, MAX_TEMPLATES - 1);
    if (tdg__template_parse(text, strlen(text), &f->templates[f->count], &error) != 0)
        fail_msg("%s: %s", text, error.text);
    return f->count++;
}

static int add(struct fixture *f, size_t i) {
    int rv = tdg__template_index_add(f->index, f->templates[i], (uint32_t)i + 1);

    if (rv == 0)
        f->added[i] = true;
    return rv;
}

static void drop(struct fixture *f, size_t i) {
    tdg__template_index_remove(f->index, f->templates[i], (uint32_t)i + 1);
    f->added[i] = false;
}

static void count_visit(void *user, uint32_t value) {
    struct fixture *f = user;

    f->visits[value - 1]++;
}

/* Returns how many templates matched. */
static size_t compare(struct fixture *f, const char *uri) {
    size_t matched = 0, present = 0;

    memset(f->visits, 0, sizeof(f->visits));
    tdg__template_index_match(f->index, uri, strlen(uri), count_visit, f);
    for (size_t i = 0; i < f->count; i++) {
        bool expected =
            f->added[i] && tdg__template_match(f->templates[i], uri, strlen(uri));
        size_t len;

        if (f->visits[i] != expected)
            fail_msg("seed %llu: %s visited %u times for %s",
                     (unsigned long long)f->dice.seed,
                     tdg__template_text(f->templates[i], &len), f->visits[i], uri);
        matched += expected;
        present += f->added[i];
    }
    assert_int_equal(tdg__template_index_count(f->index), present);
    return matched;
}

static void an_empty_index_finds_nothing(void **state) {
    struct fixture *f = *state;

    assert_int_equal(compare(f, "db://a"), 0);
    assert_int_equal(compare(f, ""), 0);
}

static void finds_what_matches_and_only_that(void **state) {
    static const char *const texts[] = {
        "db://{t}/orders/{id}",
        "db://{t}/orders",
        "db://{t}/orders{?page}",
        "db://t1/{table}/{id}",
        "db://{+rest}",
        "{+all}",
        "{+all}/42",
        "{scheme}://{host}",
        "db://{t}{/path*}",
        "db://{t:2}/{x}/{id}",
        "{a}{/b}{?c}{#d}",
        "{?q}",
    };
    static const struct {
        const char *uri;
        size_t matches;
    } cases[] = {
        {"db://t1/orders/42", 7},
        {"db://t1/orders", 5},
        {"db://t1/orders?page=1", 3},
        {"db://t12/orders/42", 5},
        {"db://x", 4},
        {"file:///42", 2},
        {"x", 2},
        {"", 1},
        {"?q=", 2},
    };
    struct fixture *f = *state;

    for (size_t i = 0; i < COUNT(texts); i++)
        assert_int_equal(add(f, make(f, texts[i])), 0);
    for (size_t i = 0; i < COUNT(cases); i++) {
        size_t matched = compare(f, cases[i].uri);

        if (matched != cases[i].matches)
            fail_msg("%s: %zu matches", cases[i].uri, matched);
    }
}

static void tells_apart_values_of_one_template(void **state) {
    struct fixture *f = *state;
    size_t i = make(f, "db://{x}"), j = make(f, "db://{y}");

    assert_int_equal(add(f, i), 0);
    assert_int_equal(add(f, j), 0);
    assert_int_equal(tdg__template_index_add(f->index, f->templates[i], 3), 0);
    f->count = 3; /* so that a visit of value 3 has a counter */
    tdg__template_index_match(f->index, "db://1", 6, count_visit, f);
    f->count = 2;
    assert_int_equal(f->visits[0] + f->visits[1] + f->visits[2], 3);

    tdg__template_index_remove(f->index, f->templates[i], 3);
    assert_int_equal(compare(f, "db://1"), 2);
    drop(f, i);
    assert_int_equal(compare(f, "db://1"), 1);
}

static void ignores_the_removal_of_what_was_not_added(void **state) {
    struct fixture *f = *state;
    size_t i = make(f, "db://a/{x}"), j = make(f, "db://b/{x}"), k = make(f, "db:{+x}");

    assert_int_equal(add(f, i), 0);
    drop(f, j);
    drop(f, k);
    tdg__template_index_remove(f->index, f->templates[i], 99);
    assert_int_equal(compare(f, "db://a/1"), 1);
}

static void a_uri_beyond_the_limit_matches_nothing(void **state) {
    struct fixture *f = *state;
    char *uri = malloc(8194);

    assert_non_null(uri);
    memset(uri, 'a', 8193);
    uri[8193] = '\0';
    assert_int_equal(add(f, make(f, "{+x}")), 0);
    assert_int_equal(compare(f, uri), 0);
    uri[8192] = '\0';
    assert_int_equal(compare(f, uri), 1);
    free(uri);
}

/* Few different bytes, so that literals and values are easily taken for each other. */
static void random_literal(struct fixture *f, char *text) {
    static const char *const bits[] = {"a",  "b",   "/", "-", ".", "a/", "ab",
                                       "//", "%41", "?", "=", ",", "&x="};

    for (size_t i = roll(&f->dice, 3) + 1; i > 0; i--)
        strcat(text, bits[roll(&f->dice, COUNT(bits))]);
}

/* The variables are named by their place, so that none appears twice. */
static void random_template(struct fixture *f, char *text) {
    static const char *const operators[] = {"",  "",  "",  "+", "#",
                                            ".", "/", ";", "?", "&"};
    static const char *const tails[] = {"", "", "", "*", ":1", ":2"};
    size_t pieces = roll(&f->dice, 4) + 1;
    bool after_expression = false;

    text[0] = '\0';
    for (size_t i = 0; i < pieces; i++) {
        const char *operator_ = operators[roll(&f->dice, COUNT(operators))];
        char expression[64];

        if (after_expression && (operator_[0] == '\0' || operator_[0] == '+'))
            random_literal(f, text);
        else if (!after_expression && roll(&f->dice, 4) != 0)
            random_literal(f, text);
        if (strchr("+#", operator_[0]) == NULL && roll(&f->dice, 4) == 0)
            snprintf(expression, sizeof(expression), "{%sx%zu,y%zu}", operator_, i, i);
        else
            snprintf(expression, sizeof(expression), "{%sx%zu%s}", operator_, i,
                     tails[roll(&f->dice, COUNT(tails))]);
        strcat(text, expression);
        after_expression = true;
        if (roll(&f->dice, 2) == 0) {
            random_literal(f, text);
            after_expression = false;
        }
    }
}

/* Makes `count` templates. */
static void make_random(struct fixture *f, size_t count) {
    char text[MAX_TEXT];

    for (size_t i = 0; i < count; i++) {
        random_template(f, text);
        make(f, text);
    }
}

static void add_random(struct fixture *f, size_t count) {
    size_t first = f->count;

    make_random(f, count);
    for (size_t i = first; i < f->count; i++)
        assert_int_equal(add(f, i), 0);
}

/* What the template may have been expanded to, or something that looks like it. */
static void random_uri(struct fixture *f, const char *template_, char *uri) {
    static const char *const values[] = {"a",   "b",   "ab",  "a/b",   "-",    "%41",
                                         "a,b", "a.b", "/a",  "?x0=a", "&x1=", ".a",
                                         "#",   ";x0", "a=b", ""};
    size_t len = 0;

    for (const char *c = template_; *c != '\0'; c++)
        if (*c == '{') {
            len +=
                (size_t)sprintf(uri + len, "%s", values[roll(&f->dice, COUNT(values))]);
            c = strchr(c, '}');
        } else {
            uri[len++] = roll(&f->dice, 40) == 0 ? 'b' : *c;
        }
    uri[len] = '\0';
}

/* Returns how many templates matched in all. */
static size_t random_rounds(struct fixture *f, size_t rounds) {
    char text[MAX_TEXT];
    size_t matches = 0;

    for (size_t i = 0; i < rounds; i++) {
        size_t len;

        random_uri(f, tdg__template_text(f->templates[roll(&f->dice, f->count)], &len),
                   text);
        matches += compare(f, text);
    }
    return matches;
}

static void finds_the_same_as_trying_every_template(void **state) {
    struct fixture *f = *state;

    add_random(f, 2000);
    assert_true(random_rounds(f, 2000) > 2000); /* else the test would say little */
}

static void stays_right_while_templates_come_and_go(void **state) {
    struct fixture *f = *state;

    make_random(f, 300);
    for (size_t round = 0; round < 300; round++) {
        for (size_t i = 0; i < 50; i++) {
            size_t at = roll(&f->dice, f->count);

            if (f->added[at])
                drop(f, at);
            else
                assert_int_equal(add(f, at), 0);
        }
        random_rounds(f, 10);
    }
    for (size_t i = 0; i < f->count; i++)
        if (f->added[i])
            drop(f, i);
    assert_int_equal(random_rounds(f, 10), 0);
}

static void an_add_that_fails_leaves_the_index_as_it_was(void **state) {
    struct fixture *f = *state;
    size_t failures = 0;

    make_random(f, 300); /* more than a chunk of the pool */
    for (size_t i = 0; i < f->count; i++) {
        size_t live = memory_live(), n = 1;

        for (memory_fail(n, MEMORY_ONCE); add(f, i) != 0; memory_fail(++n, MEMORY_ONCE)) {
            assert_true(memory_failed());
            failures++;
            /* Room for links and for entries may have grown; that is a block each. */
            assert_in_range(memory_live(), live, live + 2);
            random_rounds(f, 2);
        }
        assert_false(memory_failed());
        memory_fail(0, MEMORY_ONCE);
    }
    assert_true(failures > f->count); /* only look-alikes need no memory */
    random_rounds(f, 200);
}

static void removing_works_without_memory(void **state) {
    struct fixture *f = *state;

    add_random(f, 200);
    for (size_t i = 0; i < 200; i++) {
        /* Every other time, what was split cannot be joined. */
        memory_fail(i % 2, MEMORY_ONCE);
        drop(f, i);
        memory_fail(0, MEMORY_ONCE);
        random_rounds(f, 2);
    }
    assert_int_equal(tdg__template_index_count(f->index), 0);
}

static void gives_back_all_memory_of_what_is_removed(void **state) {
    struct fixture *f = *state;
    size_t before;

    make_random(f, 500);
    before = memory_live();
    for (size_t i = 0; i < 500; i++)
        assert_int_equal(add(f, i), 0);
    for (size_t i = 0; i < 500; i++)
        drop(f, (i * 7) % 500);
    assert_int_equal(memory_live(), before);
}

static void matching_allocates_nothing(void **state) {
    struct fixture *f = *state;
    size_t calls;

    assert_int_equal(add(f, make(f, "db://{x}/a{?y}")), 0);
    assert_int_equal(add(f, make(f, "db://{+x}")), 0);
    calls = memory_calls();
    tdg__template_index_match(f->index, "db://1/a?y=2", 12, count_visit, f);
    assert_int_equal(memory_calls(), calls);
    assert_int_equal(f->visits[0] + f->visits[1], 2);
}

static void creating_reports_each_allocation_that_fails(void **state) {
    tdg__template_index_t *index = NULL;
    size_t live = memory_live();

    (void)state;
    for (size_t n = 1; n <= 2; n++) {
        memory_fail(n, MEMORY_ONCE);
        assert_int_equal(tdg__template_index_create(&index), TDG_ENOMEM);
        assert_true(memory_failed());
        assert_null(index);
        assert_int_equal(memory_live(), live);
    }
    tdg__template_index_destroy(NULL);
}

/* Every literal of every template but its end is in the URI, many times over. An index
 * that tries all cuts would not come back, and the time limit of the runner would end
 * it. */
static void a_hostile_uri_does_not_take_long(void **state) {
    struct fixture *f = *state;
    char uri[8001] = "", text[MAX_TEXT];

    for (size_t i = 0; i < 100; i++) {
        snprintf(text, sizeof(text), "{+a}%.*s{b}-{+c}-{d}-%.*s{+e}!", (int)(i % 10) + 1,
                 "----------", (int)(i / 10) + 1, "----------");
        assert_int_equal(add(f, make(f, text)), 0);
    }
    memset(uri, '-', sizeof(uri) - 1);
    assert_int_equal(compare(f, uri), 0);
}

/* Oldest first, for an entry that is found by walking from the newest, is 500 billion
 * steps in all: the time limit of the runner would end it. Here each removal looks at a
 * few entries whatever their number. */
static void removing_one_of_many_that_look_alike_does_not_take_long(void **state) {
    enum { MANY = 1000000 };
    struct fixture *f = *state;
    size_t i = make(f, "x://q{?a}"), j = make(f, "x://q{?b}"), before = memory_live();

    for (uint32_t value = 1; value <= MANY; value++)
        assert_int_equal(tdg__template_index_add(
                             f->index, f->templates[value % 2 == 0 ? i : j], value),
                         0);
    assert_int_equal(tdg__template_index_count(f->index), MANY);
    for (uint32_t value = 1; value <= MANY; value++)
        tdg__template_index_remove(f->index, f->templates[value % 2 == 0 ? i : j], value);
    assert_int_equal(tdg__template_index_count(f->index), 0);
    assert_int_equal(memory_live(), before);
}

/* Whichever goes, the others stay, as do those of the same value. */
static void look_alikes_go_in_any_order(void **state) {
    struct fixture *f = *state;
    char text[MAX_TEXT];

    for (size_t i = 0; i < 600; i++) {
        snprintf(text, sizeof(text), "x://q{?a%zu}", i);
        assert_int_equal(add(f, make(f, text)), 0);
    }
    assert_int_equal(tdg__template_index_add(f->index, f->templates[0], 600), 0);
    tdg__template_index_remove(f->index, f->templates[0], 599);
    assert_int_equal(tdg__template_index_count(f->index), 601);
    tdg__template_index_remove(f->index, f->templates[0], 600);
    tdg__template_index_remove(f->index, f->templates[0], 600);

    for (size_t left = 600; left > 0; left--) {
        size_t i = roll(&f->dice, 600);

        while (!f->added[i])
            i = (i + 1) % 600;
        drop(f, i);
        snprintf(text, sizeof(text), "x://q?a%u=1", (unsigned)roll(&f->dice, 600));
        compare(f, text);
        assert_int_equal(compare(f, "x://q"), left - 1);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(an_empty_index_finds_nothing),
        TEST(finds_what_matches_and_only_that),
        TEST(tells_apart_values_of_one_template),
        TEST(ignores_the_removal_of_what_was_not_added),
        TEST(a_uri_beyond_the_limit_matches_nothing),
        TEST(finds_the_same_as_trying_every_template),
        TEST(stays_right_while_templates_come_and_go),
        TEST(an_add_that_fails_leaves_the_index_as_it_was),
        TEST(removing_works_without_memory),
        TEST(gives_back_all_memory_of_what_is_removed),
        TEST(matching_allocates_nothing),
        TEST(creating_reports_each_allocation_that_fails),
        TEST(a_hostile_uri_does_not_take_long),
        TEST(removing_one_of_many_that_look_alike_does_not_take_long),
        TEST(look_alikes_go_in_any_order),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("template_index", tests, NULL, NULL);
}

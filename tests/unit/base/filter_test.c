/* SPDX-License-Identifier: MIT */
#include "base/filter.h"
#include "support.h"

static const tdg__filter_limits_t limits = {.max_bytes = 4096, .max_depth = 4};

/* The tables are JSON as json_from() reads it, with ' for ". */

static tdg__filter_t *parse(const char *text) {
    tdg__parse_error_t error;
    tdg__filter_t *filter = NULL;
    json_t *json = json_from(text);
    int rv = tdg__filter_parse(json, &limits, &filter, &error);

    json_decref(json);
    if (rv < 0)
        fail_msg("%s: %s in %s", tdg_error_name(rv), error.text, text);
    return filter;
}

struct verdict {
    const char *filter;
    const char *uri;
    const char *metadata; /* NULL for none */
    int64_t wall_ms;
    bool passes;
};

static void judge(const struct verdict *cases, size_t count) {
    for (size_t i = 0; i < count; i++) {
        const struct verdict *c = &cases[i];
        tdg__filter_t *filter = parse(c->filter);
        json_t *metadata = json_from(c->metadata);
        tdg__filter_input_t input = {c->uri, strlen(c->uri), metadata, c->wall_ms, NULL};

        if (tdg__filter_match(filter, &input) != c->passes)
            fail_msg("%s on %s %s: expected to %s", c->filter, c->uri,
                     c->metadata != NULL ? c->metadata : "nothing",
                     c->passes ? "pass" : "fail");
        json_decref(metadata);
        tdg__filter_destroy(filter);
    }
}

#define U "file:///notes/a.md"

/* A filter by one operator on the URI. Steals `operand`. */
static json_t *condition(const char *op, json_t *operand) {
    return json_pack("{s:{s:o}}", "uri", op, operand);
}

static void passes_everything_when_empty(void **state) {
    static const struct verdict cases[] = {
        {"{}", U, NULL, 0, true},
        {"{}", U, "{'a': 1}", 0, true},
        {"{}", U, "[]", 0, true},
        {"{'not':{}}", U, NULL, 0, false},
    };

    (void)state;
    judge(cases, COUNT(cases));
}

static void selects_by_size(void **state) {
    static const char filter[] = "{'metadata.size': {'gt': 10000}}";
    static const struct verdict cases[] = {
        {filter, U, "{'size': 10001}", 0, true},
        {filter, U, "{'size': 10000}", 0, false},
        {filter, U, "{'size': 10000.5}", 0, true},
        {filter, U, "{'size': '20000'}", 0, false},
        {filter, U, "{'size': null}", 0, false},
        {filter, U, "{'size': [20000]}", 0, false},
        {filter, U, "{'size': true}", 0, false},
        {filter, U, "{}", 0, false},
        {filter, U, NULL, 0, false},
        {filter, U, "20000", 0, false},
    };

    (void)state;
    judge(cases, COUNT(cases));
}

static void selects_by_age(void **state) {
    static const char older[] = "{'age_ms': {'gt': 5000}}";
    static const char never[] = "{'age_ms': {'exists': false}}";
    static const struct verdict cases[] = {
        {older, U, "{'updated_at': 1000}", 6001, true},
        {older, U, "{'updated_at': 1000}", 6000, false},
        {older, U, "{'updated_at': 999.5}", 6000, true},
        {older, U, "{'updated_at': 9000}", 6000, false},
        {older, U, "{'updated_at': '1000'}", 6001, false},
        {older, U, "{}", 6001, false},
        {older, U, NULL, 6001, false},
        {never, U, NULL, 1, true},
        {never, U, "{'updated_at': null}", 1, true},
        {never, U, "{'updated_at': 0}", 1, false},
        {"{'age_ms': {'lt': 0}}", U, "{'updated_at': 2}", 1, true},
        {older, U, "{'updated_at': -9}", INT64_MAX, true},
        {"{'age_ms': {'lt': -9}}", U, "{'updated_at': 9}", INT64_MIN, true},
        {"{'age_ms': {'glob': '*'}}", U, "{'updated_at': 9}", 10, false},
    };

    (void)state;
    judge(cases, COUNT(cases));
}

static void selects_by_kind_of_change(void **state) {
    static const char filter[] =
        "{'metadata.change_type': {'in': ['content_update', 'deleted']}}";
    static const char others[] = "{'metadata.change_type': {'nin': ['deleted']}}";
    static const struct verdict cases[] = {
        {filter, U, "{'change_type': 'deleted'}", 0, true},
        {filter, U, "{'change_type': 'content_update'}", 0, true},
        {filter, U, "{'change_type': 'created'}", 0, false},
        {filter, U, "{'change_type': 'delete'}", 0, false},
        {filter, U, "{'change_type': 7}", 0, false},
        {filter, U, "{}", 0, false},
        {others, U, "{'change_type': 'created'}", 0, true},
        {others, U, "{'change_type': 'deleted'}", 0, false},
        {others, U, "{'change_type': 7}", 0, true},
        {others, U, "{}", 0, false},
    };

    (void)state;
    judge(cases, COUNT(cases));
}

static void needs_the_field_unless_asked_for_its_absence(void **state) {
    static const struct verdict cases[] = {
        {"{'metadata.a': {'eq': null}}", U, "{}", 0, false},
        {"{'metadata.a': {'eq': null}}", U, "{'a':null}", 0, true},
        {"{'metadata.a': {'ne': 1}}", U, "{}", 0, false},
        {"{'metadata.a': {'ne': 1}}", U, "{'a':'1'}", 0, true},
        {"{'metadata.a': {'nin': [1]}}", U, "{}", 0, false},
        {"{'metadata.a': {'contains': 1}}", U, "{}", 0, false},
        {"{'metadata.a': {'glob': '*'}}", U, "{}", 0, false},
        {"{'metadata.a': {'exists': true}}", U, "{}", 0, false},
        {"{'metadata.a': {'exists': true}}", U, "{'a':null}", 0, true},
        {"{'metadata.a': {'exists': false}}", U, "{}", 0, true},
        {"{'metadata.a': {'exists': false}}", U, NULL, 0, true},
        {"{'metadata.a': {'exists': false}}", U, "{'a':null}", 0, false},
        {"{'metadata.a': {'exists': false, 'ne': 1}}", U, "{}", 0, false},
        {"{'not': {'metadata.a': {'eq': 1}}}", U, "{}", 0, true},
        {"{'uri': {'exists': true}}", U, NULL, 0, true},
        {"{'uri': {'exists': false}}", U, NULL, 0, false},
    };

    (void)state;
    judge(cases, COUNT(cases));
}

static void walks_nested_objects(void **state) {
    static const char filter[] = "{'metadata.a.b.c': {'eq': 1}}";
    static const struct verdict cases[] = {
        {filter, U, "{'a': {'b': {'c': 1}}}", 0, true},
        {filter, U, "{'a': {'b': {'c': 2}}}", 0, false},
        {filter, U, "{'a': {'b': 1}}", 0, false},
        {filter, U, "{'a': [{'b': {'c': 1}}]}", 0, false},
        {filter, U, "{'a.b.c': 1}", 0, false},
        {filter, U, "{'a': {'b.c': 1}}", 0, false},
    };

    (void)state;
    judge(cases, COUNT(cases));
}

static void compares_numbers_exactly(void **state) {
    static const char big_eq[] = "{'metadata.n': {'eq': 9007199254740993}}";
    static const char big_gt[] = "{'metadata.n': {'gt': 9007199254740992.0}}";
    static const char max_lt[] = "{'metadata.n': {'lt': 9223372036854775807}}";
    static const char min_eq[] = "{'metadata.n': {'eq': -9223372036854775808}}";
    static const struct verdict cases[] = {
        {big_eq, U, "{'n': 9007199254740993}", 0, true},
        {big_eq, U, "{'n': 9007199254740992.0}", 0, false},
        {big_gt, U, "{'n': 9007199254740993}", 0, true},
        {big_gt, U, "{'n': 9007199254740992}", 0, false},
        {max_lt, U, "{'n': 9223372036854775808.0}", 0, false},
        {max_lt, U, "{'n': 9223372036854774784.0}", 0, true},
        {max_lt, U, "{'n': 1e300}", 0, false},
        {max_lt, U, "{'n': -1e300}", 0, true},
        {min_eq, U, "{'n': -9223372036854775808.0}", 0, true},
        {"{'metadata.n': {'eq': 1}}", U, "{'n': 1.0}", 0, true},
        {"{'metadata.n': {'eq': 0}}", U, "{'n': -0.0}", 0, true},
        {"{'metadata.n': {'gt': -2}}", U, "{'n': -1.5}", 0, true},
        {"{'metadata.n': {'lt': -1}}", U, "{'n': -1.5}", 0, true},
        {"{'metadata.n': {'gte': 1.5}}", U, "{'n': 1}", 0, false},
        {"{'metadata.n': {'gte': 1.5}}", U, "{'n': 2}", 0, true},
        {"{'metadata.n': {'lte': 1.5}}", U, "{'n': 1.5}", 0, true},
        {"{'metadata.n': {'eq': 1}}", U, "{'n': true}", 0, false},
    };

    (void)state;
    judge(cases, COUNT(cases));
}

static void compares_strings_bytewise_and_by_length(void **state) {
    static const struct verdict cases[] = {
        {"{'metadata.s': {'eq': 'a\\u0000b'}}", U, "{'s': 'a\\u0000b'}", 0, true},
        {"{'metadata.s': {'eq': 'a\\u0000b'}}", U, "{'s': 'a\\u0000c'}", 0, false},
        {"{'metadata.s': {'eq': 'a'}}", U, "{'s': 'a\\u0000'}", 0, false},
        {"{'metadata.s': {'gt': 'a'}}", U, "{'s': 'a\\u0000'}", 0, true},
        {"{'metadata.s': {'gt': 'a'}}", U, "{'s': 'a'}", 0, false},
        {"{'metadata.s': {'gte': 'a'}}", U, "{'s': 'a'}", 0, true},
        {"{'metadata.s': {'lt': 'b'}}", U, "{'s': 'ab'}", 0, true},
        {"{'metadata.s': {'lt': 'z'}}", U, "{'s': 'é'}", 0, false},
        {"{'metadata.s': {'lte': ''}}", U, "{'s': ''}", 0, true},
        {"{'metadata.s': {'gt': '0'}}", U, "{'s': 1}", 0, false},
        {"{'uri': {'eq': '" U "'}}", U, NULL, 0, true},
        {"{'uri': {'gt': 'file:'}}", U, NULL, 0, true},
    };

    (void)state;
    judge(cases, COUNT(cases));
}

static void compares_arrays_and_objects_by_value(void **state) {
    static const char array[] = "{'metadata.v': {'eq': [1, {'a': null}, 'x']}}";
    static const char object[] = "{'metadata.v': {'eq': {'a': 1, 'b': [2.0]}}}";
    static const struct verdict cases[] = {
        {array, U, "{'v': [1.0, {'a': null}, 'x']}", 0, true},
        {array, U, "{'v': [1, {'a': null}]}", 0, false},
        {array, U, "{'v': [1, {'a': null}, 'y']}", 0, false},
        {array, U, "{'v': [1, {'b': null}, 'x']}", 0, false},
        {array, U, "{'v': {}}", 0, false},
        {object, U, "{'v': {'b': [2], 'a': 1}}", 0, true},
        {object, U, "{'v': {'b': [2], 'a': 1, 'c': 1}}", 0, false},
        {object, U, "{'v': {'b': [3], 'a': 1}}", 0, false},
        {object, U, "{'v': {'b': [2]}}", 0, false},
        {"{'metadata.v': {'eq': {}}}", U, "{'v': {}}", 0, true},
        {"{'metadata.v': {'eq': {}}}", U, "{'v': []}", 0, false},
        {"{'metadata.v': {'in': [[], {}]}}", U, "{'v': []}", 0, true},
    };

    (void)state;
    judge(cases, COUNT(cases));
}

static void finds_a_part_in_strings_and_arrays(void **state) {
    static const char text[] = "{'metadata.v': {'contains': 'b'}}";
    static const struct verdict cases[] = {
        {text, U, "{'v': 'abc'}", 0, true},
        {text, U, "{'v': 'acd'}", 0, false},
        {text, U, "{'v': ['a', 'b']}", 0, true},
        {text, U, "{'v': ['abc']}", 0, false},
        {text, U, "{'v': {'b': 1}}", 0, false},
        {text, U, "{'v': 1}", 0, false},
        {"{'metadata.v': {'contains': ''}}", U, "{'v': ''}", 0, true},
        {"{'metadata.v': {'contains': 1}}", U, "{'v': [2, 1.0]}", 0, true},
        {"{'metadata.v': {'contains': 1}}", U, "{'v': '1'}", 0, false},
        {"{'metadata.v': {'contains': [1]}}", U, "{'v': [[1]]}", 0, true},
        {"{'metadata.v': {'contains': null}}", U, "{'v': []}", 0, false},
        {"{'uri': {'contains': '/notes/'}}", U, NULL, 0, true},
    };

    (void)state;
    judge(cases, COUNT(cases));
}

/* As long as a piece between stars with ? or \ may be, and around it. */
#define Q31 "?\?\?\?\?\?\?\?\?\?\?\?\?\?\?\?\?\?\?\?\?\?\?\?\?\?\?\?\?\?\?"
#define Q32 Q31 "?"
#define A31 "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define A32 A31 "a"
#define E32 "\\a\\a\\a\\a\\a\\a\\a\\a\\a\\a\\a\\a\\a\\a\\a\\a"

static void globs_strings(void **state) {
    static const struct {
        const char *pattern;
        const char *text;
        bool passes;
    } cases[] = {
        {"file:///notes/*.md", "file:///notes/a.md", true},
        {"file:///notes/*.md", "file:///notes/a/b.md", true},
        {"file:///notes/*.md", "file:///notes/a.mdx", false},
        {"*", "", true},
        {"", "", true},
        {"", "a", false},
        {"a", "", false},
        {"a", "ab", false},
        {"?", "", false},
        {"?", "\u00e9", true},
        {"?\?", "\u00e9", false},
        {"*?\?", "\u00e9", false},
        {"*?\u00e9?*", "x\u00e9\u00e9", true},
        {"*?\u00e9?*", "\u00e9\u00e9", false},
        {"\\*", "*", true},
        {"\\*", "a", false},
        {"\\?\\\\\\a", "?\\a", true},
        {"[a]", "[a]", true},
        {"*ab*ab", "abaabab", true},
        {"*ab*ab", "abaab", true},
        {"*ab*ab", "aab", false},
        {"a**b", "ab", true},
        {"*z?", "\xffz\x80", true},
        {"***", "", true},
        {"***", "abc", true},
        {"**a**b**", "xaxbx", true},
        {"**a**b**", "xbxax", false},
        {"*a*b*c*d*e*", "abcde", true},
        {"*a*b*c*d*e*", "abced", false},
        {"*aba*", "ababa", true},
        {"*aba*aba*", "ababa", false},
        {"*aba*aba*", "abaaba", true},
        {"aba*aba", "ababa", false},
        {"aba*aba", "abaaba", true},
        {"a*a", "a", false},
        {"a*a", "aa", true},
        {"a*?", "a", false},
        {"*a*a*a*", "aa", false},
        {"*aab", "aaaab", true},
        {"*ab*b", "ab", false},
        {"*ab*b", "abb", true},
        {"*ab*cab", "abcabcab", true},
        {"*ab*cab", "abcab", true},
        {"*abc*cab", "abcab", false},
        {"*a?*?b", "axb", false},
        {"*a?*?b", "aaab", true},
        {"*a?a*", "aabaa", true},
        {"*a?a*aa", "abaa", false},
        {"*a?a*aa", "abaaa", true},
        {"*?a?*", "a\u00e9", false},
        {"*?a?*", "\u20aca\u20ac", true},
        {"*?\?\?*", "\u20ac\u20ac", false},
        {"*?\?\?*", "\u20ac\u20ac\u20ac", true},
        {"*?*?*", "\u20ac", false},
        {"*?*?", "\u20ac\u20ac", true},
        {"\u20ac*?", "\u20ac", false},
        {"*\u20ac?", "\u20ac\U0001f4e8", true},
        {"*\u00e9*\u00a9", "\u00e9", false},
        {"*\\\u00e9?*", "x\u00e9\u20ac", true},
        {"*\\\u00e9", "x\u00e9", true},
        {"*\\**", "a*b", true},
        {"*\\**", "ab", false},
        {"*\\?*\\?", "a?", false},
        {"*\\?*\\?", "a??", true},
        {"*\\\\*", "a\\b", true},
        {"*\\\\", "a\\", true},
        {"*\\a\\b*c", "xabc", true},
        {"*\\a\\b*c", "xacb", false},
        {"\\**\\*", "*", false},
        {"\\**\\*", "**", true},
        {"?", "\x80\x80", true},
        {"?\?", "\x80\x80", false},
        {"*?\?*", "\x80\x80", false},
        {"a*?", "a\x80", true},
        {"*a?*", "a\x80\x80", true},
        {"*a?\?*", "a\x80\x80", false},
        {"*a?b*",
         "a\xff\x80"
         "b",
         true},
        {"*ya?", "ya\x80", true},
        {"*ya?", "yaa\x80", true},
        {"*a?a?",
         "aa\x80"
         "a\x80",
         true},
        {"*" Q32 "*", "x" Q31, true},
        {"*" Q32 "*", Q31, false},
        {"*" E32 "*", "baaaaaaaaaaaaaaaab", true},
        {"*" E32 "*", "baaaaaaaaaaaaaaab", false},
        {"*" A32 "b*", "a" A32 "bb", true},
        {"*?" A31 "*b", "aa" A31 "b", true},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        json_t *json = condition("glob", json_string(cases[i].pattern));
        tdg__filter_input_t input = {cases[i].text, strlen(cases[i].text), NULL, 0, NULL};
        tdg__filter_t *filter = NULL;

        assert_int_equal(tdg__filter_parse(json, &limits, &filter, NULL), 0);
        if (tdg__filter_match(filter, &input) != cases[i].passes)
            fail_msg("%s on %s", cases[i].pattern, cases[i].text);
        tdg__filter_destroy(filter);
        json_decref(json);
    }
}

static void combines_conditions(void **state) {
    static const char both[] = "{'metadata.a': {'gt': 1, 'lt': 5}, "
                               "'metadata.b': {'eq': true}}";
    static const char any[] = "{'any': [{'metadata.a': {'eq': 1}}, "
                              "{'metadata.b': {'eq': 1}}], "
                              "'metadata.c': {'exists': true}}";
    static const char all[] = "{'all': [{'metadata.a': {'gt': 1}}, "
                              "{'not': {'metadata.a': {'gt': 5}}}]}";
    static const char deep[] =
        "{'not': {'any': [{'all': [{'metadata.a': {'eq': 1}}, "
        "{'metadata.b': {'eq': 1}}]}, {'metadata.c': {'eq': 1}}]}}";
    static const struct verdict cases[] = {
        {both, U, "{'a': 3, 'b': true}", 0, true},
        {both, U, "{'a': 1, 'b': true}", 0, false},
        {both, U, "{'a': 5, 'b': true}", 0, false},
        {both, U, "{'a': 3, 'b': false}", 0, false},
        {any, U, "{'a': 1, 'c': 0}", 0, true},
        {any, U, "{'b': 1, 'c': 0}", 0, true},
        {any, U, "{'a': 2, 'b': 2, 'c': 0}", 0, false},
        {any, U, "{'a': 1, 'b': 1}", 0, false},
        {all, U, "{'a': 3}", 0, true},
        {all, U, "{'a': 6}", 0, false},
        {all, U, "{'a': 0}", 0, false},
        {deep, U, "{'a': 1}", 0, true},
        {deep, U, "{'a': 1, 'b': 1}", 0, false},
        {deep, U, "{'c': 1}", 0, false},
    };

    (void)state;
    judge(cases, COUNT(cases));
}

static void globs_hostile_patterns_in_bounded_time(void **state) {
    /* Exponential backtracking would not come back from this one, and the time limit of
     * the runner would end it. */
    char uri[2001], text[512] = "{'uri': {'glob': '";
    tdg__filter_input_t input = {uri, sizeof(uri) - 1, NULL, 0, NULL};
    tdg__filter_t *filter;

    (void)state;
    for (int i = 0; i < 100; i++)
        strcat(text, "*a");
    strcat(text, "*b'}}");
    memset(uri, 'a', sizeof(uri) - 1);
    uri[sizeof(uri) - 1] = '\0';

    filter = parse(text);
    assert_false(tdg__filter_match(filter, &input));
    tdg__filter_destroy(filter);
}

static json_t *filled(const char *before, const char *unit, size_t max_len,
                      const char *after) {
    char text[16 * 1024 + 1];
    size_t len = strlen(before);

    assert_true(max_len < sizeof(text));
    strcpy(text, before);
    while (len + strlen(unit) + strlen(after) <= max_len) {
        strcpy(text + len, unit);
        len += strlen(unit);
    }
    strcpy(text + len, after);
    return json_string(text);
}

static void globs_long_patterns_in_linear_time(void **state) {
    /* A matcher that takes pattern times text needs 10^10 steps and more for these, which
     * is minutes in a build for tests: the time limit of the runner would end it. */
    static const struct {
        const char *before, *unit, *after;
    } cases[] = {
        {"*", "a", "b"},
        {"*", "a", "b*"},
        {"*?", "a", "b"},
        {"*", "?", "b"},
        {"*", "\\a", "b"},
        {"*", "*" A31 "?", "b"},
        {"*", "*?aaaaaaaaaaaaaaaaaaaaaaaaaa\\a", "b"},
        {"", "a*", "b"},
    };
    static const tdg__filter_limits_t large = {.max_bytes = 10000, .max_depth = 1};
    json_t *text = filled("", "a", 16 * 1024, "");
    tdg__filter_input_t input = {json_string_value(text), 16 * 1024, NULL, 0, NULL};

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        json_t *json = condition(
            "glob", filled(cases[i].before, cases[i].unit, 4096, cases[i].after));
        tdg__filter_t *filter = NULL;

        assert_int_equal(tdg__filter_parse(json, &large, &filter, NULL), 0);
        for (int n = 0; n < 100; n++)
            assert_false(tdg__filter_match(filter, &input));
        tdg__filter_destroy(filter);
        json_decref(json);
    }
    json_decref(text);
}

static void globs_many_short_patterns_in_linear_time(void **state) {
    /* As many pieces as fit, each of which nearly matches everywhere. */
    static const tdg__filter_limits_t large = {.max_bytes = 10000, .max_depth = 2};
    json_t *text = filled("", "a", 16 * 1024, ""), *filters = json_array(), *json;
    tdg__filter_input_t input = {json_string_value(text), 16 * 1024, NULL, 0, NULL};
    tdg__filter_t *filter = NULL;

    (void)state;
    for (int i = 0; i < 100; i++)
        json_array_append_new(filters, condition("glob", filled("*?", "a", 34, "b*")));
    json = json_pack("{s:o}", "any", filters);
    assert_int_equal(tdg__filter_parse(json, &large, &filter, NULL), 0);
    for (int n = 0; n < 30; n++)
        assert_false(tdg__filter_match(filter, &input));
    tdg__filter_destroy(filter);
    json_decref(json);
    json_decref(text);
}

struct refusal {
    const char *filter;
    const char *text; /* with ' for " as well */
};

static void assert_refused(const json_t *json, int code, const char *text) {
    tdg__parse_error_t error = {.text = ""};
    tdg__filter_t *filter = NULL;

    assert_int_equal(tdg__filter_parse(json, &limits, &filter, &error), code);
    assert_string_equal(error.text, text);
    assert_int_equal(tdg__filter_parse(json, &limits, &filter, NULL), code);
    assert_null(filter);
}

/* Each is TDG_EFILTER; the other codes have tests of their own. */
static void judge_refusals(const struct refusal *cases, size_t count) {
    for (size_t i = 0; i < count; i++) {
        json_t *json = json_from(cases[i].filter);
        char *text = requote(cases[i].text);

        assert_refused(json, TDG_EFILTER, text);
        json_decref(json);
        free(text);
    }
}

#define UNKNOWN_FIELD                                                                    \
    "unknown field, expected uri, age_ms, metadata.NAME, all, any or not"

static void refuses_what_is_no_filter(void **state) {
    static const struct refusal cases[] = {
        {"1", "expected an object"},
        {"[]", "expected an object"},
        {"null", "expected an object"},
        {"{'all': {}}", "all: expected an array of filters"},
        {"{'any': []}", "any: expected at least one filter"},
        {"{'all': []}", "all: expected at least one filter"},
        {"{'all': [{}, 1]}", "all[1]: expected an object"},
        {"{'not': []}", "not: expected an object"},
        {"{'not': {'any': [{}, {'not': 1}]}}", "not.any[1].not: expected an object"},
        {"{'all': [{'any': 1}]}", "all[0].any: expected an array of filters"},
    };

    (void)state;
    judge_refusals(cases, COUNT(cases));
    assert_refused(NULL, TDG_EFILTER, "expected an object");
}

static void refuses_unknown_fields(void **state) {
    static const struct refusal cases[] = {
        {"{'size': {'gt': 1}}", "size: " UNKNOWN_FIELD},
        {"{'': {'gt': 1}}", "['']: " UNKNOWN_FIELD},
        {"{'URI': {'gt': 1}}", "['URI']: " UNKNOWN_FIELD},
        {"{'uri.x': {'gt': 1}}", "['uri.x']: " UNKNOWN_FIELD},
        {"{'metadatas.x': {'gt': 1}}", "['metadatas.x']: " UNKNOWN_FIELD},
        {"{'metadata': {'eq': {}}}", "metadata: expected a name, as in metadata.size"},
        {"{'metadata.': {'eq': 1}}", "['metadata.']: a name between dots is empty"},
        {"{'metadata..x': {'eq': 1}}", "['metadata..x']: a name between dots is empty"},
        {"{'metadata.x.': {'eq': 1}}", "['metadata.x.']: a name between dots is empty"},
    };

    (void)state;
    judge_refusals(cases, COUNT(cases));
}

static void refuses_malformed_conditions(void **state) {
    static const struct refusal cases[] = {
        {"{'uri': 'x'}", "uri: expected an object of operators"},
        {"{'uri': ['x']}", "uri: expected an object of operators"},
        {"{'uri': {}}", "uri: a condition needs at least one operator"},
        {"{'metadata.a': {}}", "['metadata.a']: a condition needs at least one operator"},
        {"{'uri': {'near': 1}}", "uri.near: unknown operator"},
        {"{'uri': {'': 1}}", "uri['']: unknown operator"},
        {"{'uri': {'EQ': 1}}", "uri['EQ']: unknown operator"},
        {"{'uri': {'all': [{}]}}", "uri.all: unknown operator"},
        {"{'any': [{}, {'metadata.size': {'gt': null}}]}",
         "any[1]['metadata.size'].gt: expected a number or a string"},
        {"{'age_ms': {'gte': true}}", "age_ms.gte: expected a number or a string"},
        {"{'age_ms': {'lt': []}}", "age_ms.lt: expected a number or a string"},
        {"{'age_ms': {'lte': {}}}", "age_ms.lte: expected a number or a string"},
        {"{'uri': {'in': 'x'}}", "uri.in: expected an array of values"},
        {"{'uri': {'in': []}}", "uri.in: expected at least one value"},
        {"{'uri': {'nin': {}}}", "uri.nin: expected an array of values"},
        {"{'uri': {'nin': []}}", "uri.nin: expected at least one value"},
        {"{'uri': {'exists': 1}}", "uri.exists: expected true or false"},
        {"{'uri': {'glob': 1}}", "uri.glob: expected a string"},
        {"{'uri': {'glob': 'a\\\\'}}", "uri.glob: ends in a lone backslash"},
        {"{'uri': {'glob': '\\\\\\\\\\\\'}}", "uri.glob: ends in a lone backslash"},
        {"{'uri': {'eq': 'x', 'like': 'x'}}", "uri.like: unknown operator"},
    };

    (void)state;
    judge_refusals(cases, COUNT(cases));
}

#define LONG_PIECE                                                                       \
    "uri.glob: expected at most 32 bytes between stars where ? or \\ is used"

static void refuses_long_pieces_between_stars(void **state) {
    static const struct {
        const char *pattern;
        bool refused;
    } cases[] = {
        {"*" Q32 "?*", true},         {"*" A32 "?*", true},      {"*?" A32 "*", true},
        {"*" E32 "a*", true},         {"*a" E32 "*", true},      {"*" A31 "\\**", true},
        {"*\\*" A31 "*", true},       {"a*b*" Q32 "?*c", true},  {"?*" Q32 "?**", true},
        {"*" Q32 "*" Q32 "*", false}, {"*" E32 "*", false},      {"*" A32 A32 "*", false},
        {Q32 "?*" Q32 "?", false},    {E32 "a*" E32 "a", false}, {Q32 "?", false},
        {"\\*" Q32 "?*", false},      {"*" Q32 "?\\*", false},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        json_t *json = condition("glob", json_string(cases[i].pattern));
        tdg__filter_t *filter = NULL;

        if (cases[i].refused)
            assert_refused(json, TDG_EFILTER, LONG_PIECE);
        else
            assert_int_equal(tdg__filter_parse(json, &limits, &filter, NULL), 0);
        tdg__filter_destroy(filter);
        json_decref(json);
    }
}

static void cuts_long_paths_in_error_texts(void **state) {
    static const char accents[] = "{'metadata.ééééééééééééééééééééééééééééé': {'x': 1}}";
    static const char deep[] =
        "{'all': [{'all': [{'all': [{"
        "'metadata.a23456789012345678901234567890123456789012345678901234567890': {"
        "'b234567890123456789012345678901234567890123456789012345678901234567890': 1"
        "}}]}]}]}";
    static const char deep_text[] =
        "...0]['metadata.a23456789012345678901234567890123456789...']"
        "['b23456789012345678901234567890123456789012345678...']: unknown operator";
    static const struct refusal cases[] = {
        {accents, "['metadata.ééééééééééééééééééé...'].x: unknown operator"},
        {deep, deep_text},
    };

    (void)state;
    judge_refusals(cases, COUNT(cases));
}

static void keeps_error_texts_printable(void **state) {
    json_t *json = json_object(); /* jansson parses no key with a NUL, but holds one */

    (void)state;
    assert_int_equal(json_object_setn_new(json, "a\n\0\x1b\x7f", 5, json_true()), 0);
    assert_refused(json, TDG_EFILTER, "[\"a????\"]: " UNKNOWN_FIELD);
    json_decref(json);
}

static int parse_within(const char *text, size_t max_bytes, size_t max_depth) {
    tdg__filter_limits_t within = {max_bytes, max_depth};
    tdg__filter_t *filter = NULL;
    json_t *json = json_from(text);
    int rv = tdg__filter_parse(json, &within, &filter, NULL);

    assert_true((rv == 0) == (filter != NULL));
    tdg__filter_destroy(filter);
    json_decref(json);
    return rv;
}

static void bounds_the_size_of_the_canonical_text(void **state) {
    static const char filter[] = "{ 'uri' : { 'eq' : 'x' } }"; /* {"uri":{"eq":"x"}} */
    static const char escaped[] = "{'uri': {'eq': '\\u0001\\n'}}";

    (void)state;
    assert_int_equal(parse_within(filter, 18, 1), 0);
    assert_int_equal(parse_within(filter, 17, 1), TDG_EFILTERSIZE);
    assert_int_equal(parse_within(filter, 0, 1), TDG_EFILTERSIZE);
    assert_int_equal(parse_within(filter, SIZE_MAX, SIZE_MAX), 0);
    assert_int_equal(parse_within(escaped, 25, 1), 0);
    assert_int_equal(parse_within(escaped, 24, 1), TDG_EFILTERSIZE);
    assert_int_equal(parse_within("{}", 2, 1), 0);
    assert_int_equal(parse_within("{}", 1, 1), TDG_EFILTERSIZE);
}

static void refuses_every_size_below_the_text(void **state) {
    static const char filter[] =
        "{'all':[{'any':[{'not':{'age_ms':{'gt':5}}}]}],'metadata.a.b':"
        "{'eq':{'k':['x',{'l':null}]},'in':[1,'y']},'uri':{'glob':'*'}}";
    size_t len = strlen(filter);

    (void)state;
    for (size_t i = 0; i < len; i++)
        assert_int_equal(parse_within(filter, i, 4), TDG_EFILTERSIZE);
    assert_int_equal(parse_within(filter, len, 4), 0);
}

static void says_which_size_is_allowed(void **state) {
    tdg__filter_limits_t within = {17, 1};
    tdg__parse_error_t error;
    tdg__filter_t *filter = NULL;
    json_t *json = json_from("{'uri': {'eq': 'x'}}");

    (void)state;
    assert_int_equal(tdg__filter_parse(json, &within, &filter, &error), TDG_EFILTERSIZE);
    assert_string_equal(error.text, "the filter takes more than 17 bytes");
    json_decref(json);
}

static void bounds_the_depth_of_filters(void **state) {
    static const char plain[] = "{'uri': {'eq': 'x'}}";
    static const char three[] = "{'any': [{'not': {'uri': {'eq': 'x'}}}]}";
    json_t *five = json_from("{'not': {'not': {'not': {'not': {}}}}}");

    (void)state;
    assert_int_equal(parse_within(plain, 100, 1), 0);
    assert_int_equal(parse_within(plain, 100, 0), TDG_EFILTERDEPTH);
    assert_int_equal(parse_within(three, 100, 3), 0);
    assert_int_equal(parse_within(three, 100, 2), TDG_EFILTERDEPTH);
    assert_refused(five, TDG_EFILTERDEPTH, "not.not.not.not: nested too deeply");
    json_decref(five);
}

/* `inner` inside `levels` arrays. Steals `inner`. */
static json_t *nest(json_t *inner, int levels) {
    while (levels-- > 0)
        inner = json_pack("[o]", inner);
    return inner;
}

static void bounds_the_depth_of_operands(void **state) {
    json_t *good = condition("eq", nest(json_null(), TDG__FILTER_VALUE_DEPTH));
    json_t *deep = condition("eq", nest(json_null(), TDG__FILTER_VALUE_DEPTH + 1));
    json_t *abyss = condition("eq", nest(json_object(), 2000));
    json_t *member =
        condition("ne", json_pack("{s:o, s:n}", "a", nest(json_null(), 16), "b"));
    tdg__filter_t *filter = NULL;

    (void)state;
    assert_int_equal(tdg__filter_parse(good, &limits, &filter, NULL), 0);
    assert_refused(deep, TDG_EFILTERDEPTH, "uri.eq: nested too deeply");
    assert_refused(abyss, TDG_EFILTERDEPTH, "uri.eq: nested too deeply");
    assert_refused(member, TDG_EFILTERDEPTH, "uri.ne: nested too deeply");
    tdg__filter_destroy(filter);
    json_decref(member);
    json_decref(good);
    json_decref(deep);
    json_decref(abyss);
}

static void bounds_the_depth_whatever_the_limits_allow(void **state) {
    tdg__filter_limits_t generous = {SIZE_MAX, SIZE_MAX};
    tdg__filter_t *filter = NULL;
    json_t *json = json_object();

    (void)state;
    for (int depth = 1; depth < TDG__FILTER_MAX_DEPTH; depth++)
        json = json_pack("{s:o}", "not", json);
    assert_int_equal(tdg__filter_parse(json, &generous, &filter, NULL), 0);

    json = json_pack("{s:o}", "not", json);
    assert_int_equal(tdg__filter_parse(json, &generous, &(tdg__filter_t *){NULL}, NULL),
                     TDG_EFILTERDEPTH);
    tdg__filter_destroy(filter);
    json_decref(json);
}

static void gives_up_early_on_shared_values(void **state) {
    /* 10^15 values in the text, 150 in memory. */
    json_t *json = json_null();

    (void)state;
    for (int level = 0; level < TDG__FILTER_VALUE_DEPTH - 1; level++) {
        json_t *wide = json_array();

        for (int i = 0; i < 10; i++)
            json_array_append(wide, json);
        json_decref(json);
        json = wide;
    }
    json = condition("in", json);
    assert_refused(json, TDG_EFILTERSIZE, "the filter takes more than 4096 bytes");
    json_decref(json);
}

static void survives_cycles(void **state) {
    json_t *a = json_array(), *b = json_array(), *json;
    json_t *f = json_object(), *g = json_object();

    (void)state;
    json_array_append(a, b);
    json_array_append(b, a);
    json = condition("in", json_incref(a));
    assert_refused(json, TDG_EFILTERDEPTH, "uri.in: nested too deeply");

    json_object_set(f, "not", g);
    json_object_set(g, "not", f);
    assert_refused(f, TDG_EFILTERDEPTH, "not.not.not.not: nested too deeply");

    json_array_clear(a);
    json_object_clear(f);
    json_decref(json);
    json_decref(a);
    json_decref(b);
    json_decref(f);
    json_decref(g);
}

static void shares_one_text_between_equal_filters(void **state) {
    tdg__filter_t *a =
        parse("{'uri': {'ne': 'x', 'eq': [1, {'b': 1, 'a': 2}]}, 'any': [{}]}");
    tdg__filter_t *b =
        parse("{'any':[{ }],'uri':{'eq':[1,{'a':2,'b':1}],'ne':'\\u0078'}}");
    static const char text[] =
        "{\"any\":[{}],\"uri\":{\"eq\":[1,{\"a\":2,\"b\":1}],\"ne\":\"x\"}}";

    (void)state;
    assert_string_equal(tdg__filter_text(a)->data, text);
    assert_string_equal(tdg__filter_text(b)->data, text);
    assert_int_equal(tdg__filter_text(a)->len, strlen(text));
    tdg__filter_destroy(a);
    tdg__filter_destroy(b);
    tdg__filter_destroy(NULL);
}

static void fills_in_what_the_application_did_not_say(void **state) {
    static const struct {
        const char *filter, *metadata;
        bool deleted, passes;
    } cases[] = {
        {"{'metadata.change_type': {'eq': 'content_update'}}", "{}", false, true},
        {"{'metadata.change_type': {'eq': 'moved'}}", "{'change_type': 'moved'}", false,
         true},
        {"{'metadata.change_type': {'eq': 'moved'}}", "{'change_type': 'moved'}", true,
         false},
        {"{'metadata.change_type': {'eq': 'deleted'}}", "{'change_type': 'moved'}", true,
         true},
        {"{'metadata.version': {'eq': 7}}", "{}", false, true},
        {"{'metadata.version': {'eq': 7}}", "{'version': 'v7'}", false, false},
        {"{'metadata.updated_at': {'eq': 90}}", "{}", false, true},
        {"{'age_ms': {'eq': 10}}", "{}", false, true},
        {"{'age_ms': {'eq': 60}}", "{'updated_at': 40}", false, true},
        {"{'metadata.version.x': {'exists': true}}", "{}", false, false},
        {"{'metadata.size': {'exists': true}}", "{}", false, false},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        tdg__filter_known_t known = {
            90, 7, cases[i].deleted ? "deleted" : "content_update", cases[i].deleted};
        json_t *metadata = json_from(cases[i].metadata);
        tdg__filter_input_t input = {U, strlen(U), metadata, 100, &known};
        tdg__filter_t *filter = parse(cases[i].filter);

        if (tdg__filter_match(filter, &input) != cases[i].passes)
            fail_msg("%s on %s", cases[i].filter, cases[i].metadata);
        tdg__filter_destroy(filter);
        json_decref(metadata);
    }
}

static void outlives_the_json_it_was_made_from(void **state) {
    json_t *json = json_from("{'metadata.v': {'in': ['abc', {'k': 'v'}]}}");
    json_t *metadata = json_from("{'v': {'k': 'v'}}");
    tdg__filter_input_t input = {U, strlen(U), metadata, 0, NULL};
    tdg__filter_t *filter = NULL;

    (void)state;
    assert_int_equal(tdg__filter_parse(json, &limits, &filter, NULL), 0);
    json_object_clear(json_object_get(json, "metadata.v"));
    json_decref(json);
    assert_true(tdg__filter_match(filter, &input));
    tdg__filter_destroy(filter);
    json_decref(metadata);
}

static void run_out_of_memory_everywhere(int how) {
    json_t *json =
        json_from("{'metadata.a.b': {'in': ['x', [1, {'k': null}]]}, 'any': "
                  "[{'uri': {'glob': '*.md'}}, {'not': {'age_ms': {'gt': 1.5}}}]}");
    size_t live = memory_live(), n = 0;
    tdg__filter_t *filter = NULL;
    tdg__parse_error_t error;
    int rv;

    do {
        memory_fail(++n, how);
        rv = tdg__filter_parse(json, &limits, &filter, &error);
        assert_int_equal(rv, memory_failed() ? TDG_ENOMEM : 0);
        if (rv < 0) {
            assert_string_equal(error.text, "out of memory");
            assert_null(filter);
            assert_int_equal(memory_live(), live);
        }
    } while (rv < 0);

    assert_true(n > 3); /* the text twice, its buffer, the block */
    tdg__filter_destroy(filter);
    assert_int_equal(memory_live(), live);
    json_decref(json);
}

static void gives_back_all_memory_when_it_runs_out(void **state) {
    (void)state;
    run_out_of_memory_everywhere(MEMORY_FROM_THEN_ON);
}

static void gives_back_all_memory_when_one_request_fails(void **state) {
    (void)state;
    run_out_of_memory_everywhere(MEMORY_ONCE);
}

static void matches_without_allocating(void **state) {
    tdg__filter_t *filter = parse("{'metadata.a': {'contains': {'k': [1]}}, "
                                  "'uri': {'glob': '*.md'}, 'age_ms': {'gt': 1}}");
    json_t *metadata = json_from("{'a': [1, {'k': [1]}], 'updated_at': 1}");
    tdg__filter_input_t input = {U, strlen(U), metadata, 10, NULL};
    size_t calls = memory_calls();

    (void)state;
    assert_true(tdg__filter_match(filter, &input));
    assert_int_equal(memory_calls(), calls);
    tdg__filter_destroy(filter);
    json_decref(metadata);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, memory_setup, memory_teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(passes_everything_when_empty),
        TEST(selects_by_size),
        TEST(selects_by_age),
        TEST(selects_by_kind_of_change),
        TEST(needs_the_field_unless_asked_for_its_absence),
        TEST(walks_nested_objects),
        TEST(compares_numbers_exactly),
        TEST(compares_strings_bytewise_and_by_length),
        TEST(compares_arrays_and_objects_by_value),
        TEST(finds_a_part_in_strings_and_arrays),
        TEST(globs_strings),
        TEST(combines_conditions),
        TEST(globs_hostile_patterns_in_bounded_time),
        TEST(globs_long_patterns_in_linear_time),
        TEST(globs_many_short_patterns_in_linear_time),
        TEST(refuses_what_is_no_filter),
        TEST(refuses_unknown_fields),
        TEST(refuses_malformed_conditions),
        TEST(refuses_long_pieces_between_stars),
        TEST(cuts_long_paths_in_error_texts),
        TEST(keeps_error_texts_printable),
        TEST(bounds_the_size_of_the_canonical_text),
        TEST(refuses_every_size_below_the_text),
        TEST(says_which_size_is_allowed),
        TEST(bounds_the_depth_of_filters),
        TEST(bounds_the_depth_of_operands),
        TEST(bounds_the_depth_whatever_the_limits_allow),
        TEST(gives_up_early_on_shared_values),
        TEST(survives_cycles),
        TEST(shares_one_text_between_equal_filters),
        TEST(fills_in_what_the_application_did_not_say),
        TEST(outlives_the_json_it_was_made_from),
        TEST(gives_back_all_memory_when_it_runs_out),
        TEST(gives_back_all_memory_when_one_request_fails),
        TEST(matches_without_allocating),
    };

    cmocka_set_test_filter(getenv("TDG_TEST")); /* TDG_TEST='*glob*' runs some */
    return cmocka_run_group_tests_name("filter", tests, NULL, NULL);
}

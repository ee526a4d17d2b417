/* SPDX-License-Identifier: MIT
 *
 * Filters against a second, naive evaluator on random cases. TDG_SEED=n starts with
 * the case that failed with that seed. */
#include <stdio.h>

#include "base/filter.h"
#include "support.h"

static const tdg__filter_limits_t limits = {.max_bytes = 4096, .max_depth = 4};

/* The naive evaluator: straight over the json_t, nothing shared with the real one. */

/* A long double of 64 bits of mantissa or more holds each int64_t and double exactly. */
static int naive_order(const json_t *a, const json_t *b) {
    long double x = json_is_integer(a) ? (long double)json_integer_value(a)
                                       : (long double)json_real_value(a);
    long double y = json_is_integer(b) ? (long double)json_integer_value(b)
                                       : (long double)json_real_value(b);
    size_t shorter;
    int order;

    if (json_is_number(a))
        return x < y ? -1 : x > y;

    shorter = json_string_length(a) < json_string_length(b) ? json_string_length(a)
                                                            : json_string_length(b);
    order = memcmp(json_string_value(a), json_string_value(b), shorter);
    if (order != 0)
        return order;
    return (int)json_string_length(a) - (int)json_string_length(b);
}

static bool naive_equal(json_t *a, json_t *b) {
    json_t *member;
    const char *key;

    if (json_is_number(a) && json_is_number(b))
        return naive_order(a, b) == 0;
    if (json_typeof(a) != json_typeof(b))
        return false;
    if (json_is_array(a)) {
        for (size_t i = 0; i < json_array_size(a) && i < json_array_size(b); i++)
            if (!naive_equal(json_array_get(a, i), json_array_get(b, i)))
                return false;
        return json_array_size(a) == json_array_size(b);
    }
    if (json_is_object(a)) {
        json_object_foreach(
            a, key,
            member) if (json_object_get(b, key) == NULL ||
                        !naive_equal(member, json_object_get(b, key))) return false;
        return json_object_size(a) == json_object_size(b);
    }
    return json_equal(a, b);
}

static bool naive_member(json_t *value, json_t *array) {
    for (size_t i = 0; i < json_array_size(array); i++)
        if (naive_equal(value, json_array_get(array, i)))
            return true;
    return false;
}

static size_t naive_character(const char *text) {
    size_t len = 1;

    while (((unsigned char)text[len] & 0xc0) == 0x80)
        len++;
    return len;
}

static bool naive_glob(const char *pattern, const char *text) {
    if (*pattern == '\0')
        return *text == '\0';
    if (*pattern == '*')
        return naive_glob(pattern + 1, text) ||
               (*text != '\0' && naive_glob(pattern, text + naive_character(text)));
    if (*text == '\0')
        return false;
    if (*pattern == '?')
        return naive_glob(pattern + 1, text + naive_character(text));
    if (*pattern == '\\')
        pattern++;
    return *pattern == *text && naive_glob(pattern + 1, text + 1);
}

static bool naive_operator(const char *op, json_t *operand, json_t *field) {
    bool ordered = field != NULL && ((json_is_number(operand) && json_is_number(field)) ||
                                     (json_is_string(operand) && json_is_string(field)));
    bool strings = ordered && json_is_string(operand);

    if (strcmp(op, "exists") == 0)
        return json_is_true(operand) == (field != NULL);
    if (field == NULL)
        return false;
    if (strcmp(op, "eq") == 0)
        return naive_equal(operand, field);
    if (strcmp(op, "ne") == 0)
        return !naive_equal(operand, field);
    if (strcmp(op, "in") == 0)
        return naive_member(field, operand);
    if (strcmp(op, "nin") == 0)
        return !naive_member(field, operand);
    if (strcmp(op, "contains") == 0)
        return json_is_array(field) ? naive_member(operand, field)
                                    : strings && strstr(json_string_value(field),
                                                        json_string_value(operand));
    if (strcmp(op, "glob") == 0)
        return strings &&
               naive_glob(json_string_value(operand), json_string_value(field));
    if (!ordered)
        return false;
    if (strcmp(op, "gt") == 0)
        return naive_order(field, operand) > 0;
    if (strcmp(op, "gte") == 0)
        return naive_order(field, operand) >= 0;
    if (strcmp(op, "lt") == 0)
        return naive_order(field, operand) < 0;
    assert_string_equal(op, "lte");
    return naive_order(field, operand) <= 0;
}

/* A new reference, or NULL where the field is missing. */
static json_t *naive_field(const char *name, const tdg__filter_input_t *input) {
    json_t *value = json_deep_copy(input->metadata), *next;
    json_t *updated_at = json_object_get(value, "updated_at");
    char part[64];

    if (strcmp(name, "uri") == 0) {
        next = json_stringn(input->uri, input->uri_len);
    } else if (strcmp(name, "age_ms") == 0) {
        if (json_is_integer(updated_at))
            next = json_integer(input->wall_ms - json_integer_value(updated_at));
        else if (json_is_real(updated_at))
            next = json_real((double)input->wall_ms - json_real_value(updated_at));
        else
            next = NULL;
    } else {
        next = value;
        for (name = strchr(name, '.'); name != NULL; name = strchr(name + 1, '.')) {
            snprintf(part, sizeof(part), "%.*s", (int)strcspn(name + 1, "."), name + 1);
            next = json_object_get(next, part);
        }
        json_incref(next);
    }
    json_decref(value);
    return next;
}

static bool naive_condition(const char *name, json_t *operators,
                            const tdg__filter_input_t *input) {
    json_t *field = naive_field(name, input), *operand;
    bool passes = true;
    const char *op;

    json_object_foreach(operators, op, operand) passes &=
        naive_operator(op, operand, field);
    json_decref(field);
    return passes;
}

static bool naive_match(json_t *filter, const tdg__filter_input_t *input) {
    bool passes = true;
    const char *key;
    json_t *member;

    json_object_foreach(filter, key, member) {
        size_t count = json_array_size(member), passing = 0;

        for (size_t i = 0; i < count; i++)
            passing += naive_match(json_array_get(member, i), input);
        if (strcmp(key, "all") == 0)
            passes &= passing == count;
        else if (strcmp(key, "any") == 0)
            passes &= passing > 0;
        else if (strcmp(key, "not") == 0)
            passes &= !naive_match(member, input);
        else
            passes &= naive_condition(key, member, input);
    }
    return passes;
}

/* Random filters and metadata from a small vocabulary, so that they often meet. */

static struct dice dice;

static json_t *random_string(bool pattern) {
    static const char *const plain[] = {"a", "b", "é", "€", "/"};
    static const char *const special[] = {"*", "?", "\\*", "\\?", "\\\\", "\\a"};
    char text[64] = "";

    for (unsigned i = roll(&dice, 5); i > 0; i--)
        strcat(text, pattern && roll(&dice, 2) ? special[roll(&dice, COUNT(special))]
                                               : plain[roll(&dice, COUNT(plain))]);
    return json_string(text);
}

static json_t *random_number(void) {
    static const json_int_t integers[] = {
        0, 1, 2, -1, 9007199254740992, 9007199254740993, INT64_MAX, INT64_MIN};
    static const double reals[] = {
        0.0, -0.0, 1.0, 1.5, -1.0, -0.5, 9007199254740992.0, 0x1p63, -0x1p63, 1e300};

    if (roll(&dice, 2))
        return json_integer(integers[roll(&dice, COUNT(integers))]);
    return json_real(reals[roll(&dice, COUNT(reals))]);
}

static json_t *random_value(unsigned depth) {
    static const char *const keys[] = {"a", "b", "c"};
    json_t *value;

    switch (roll(&dice, depth > 0 ? 8 : 6)) {
    case 0:
    case 1:
        return random_string(false);
    case 2:
    case 3:
        return random_number();
    case 4:
        return json_boolean(roll(&dice, 2));
    case 5:
        return json_null();
    case 6:
        value = json_array();
        for (unsigned i = roll(&dice, 3); i > 0; i--)
            json_array_append_new(value, random_value(depth - 1));
        return value;
    default:
        value = json_object();
        for (unsigned i = roll(&dice, 3); i > 0; i--)
            json_object_set_new(value, keys[roll(&dice, COUNT(keys))],
                                random_value(depth - 1));
        return value;
    }
}

static json_t *random_metadata(void) {
    static const char *const keys[] = {"a", "b", "c"};
    json_t *metadata;

    if (roll(&dice, 20) == 0)
        return NULL;

    metadata = json_object();
    for (size_t i = 0; i < COUNT(keys); i++)
        if (roll(&dice, 4) > 0)
            json_object_set_new(metadata, keys[i], random_value(2));
    if (roll(&dice, 4) > 0)
        json_object_set_new(metadata, "updated_at",
                            roll(&dice, 4) > 0 ? json_integer(roll(&dice, 10))
                                               : random_value(0));
    /* naive_field() would overflow where the real one saturates; see selects_by_age. */
    if (json_integer_value(json_object_get(metadata, "updated_at")) == INT64_MIN)
        json_object_del(metadata, "updated_at");
    return metadata;
}

/* Half of the operands come from the metadata itself, or equality would be rare. */
static json_t *random_operand(json_t *metadata) {
    static const char *const keys[] = {"a", "b", "c", "updated_at"};
    json_t *value = json_object_get(metadata, keys[roll(&dice, COUNT(keys))]);

    if (json_array_size(value) > 0 && roll(&dice, 2))
        value = json_array_get(value, 0);
    return value != NULL && roll(&dice, 2) ? json_deep_copy(value) : random_value(2);
}

static void random_condition(json_t *ret_operators, json_t *metadata) {
    static const char *const ops[] = {"eq", "ne",     "gt",       "gte", "lt",  "lte",
                                      "in", "exists", "contains", "nin", "glob"};
    const char *op = ops[roll(&dice, COUNT(ops))];
    json_t *operand;

    if (op[0] == 'g' && op[1] == 'l') {
        operand = random_string(true);
    } else if (op[0] == 'g' || op[0] == 'l') {
        operand = random_operand(metadata);
        if (!json_is_number(operand) && !json_is_string(operand)) {
            json_decref(operand);
            operand = random_number();
        }
    } else if (strcmp(op, "exists") == 0) {
        operand = json_boolean(roll(&dice, 2));
    } else if (strcmp(op, "in") == 0 || strcmp(op, "nin") == 0) {
        operand = json_array();
        for (unsigned i = 1 + roll(&dice, 3); i > 0; i--)
            json_array_append_new(operand, random_operand(metadata));
    } else {
        operand = random_operand(metadata);
    }
    json_object_set_new(ret_operators, op, operand);
}

static json_t *random_filter(unsigned depth, json_t *metadata) {
    static const char *const fields[] = {"uri",          "age_ms",       "metadata.a",
                                         "metadata.b",   "metadata.a.a", "metadata.c.b",
                                         "metadata.b.c", "metadata.c"};
    json_t *filter = json_object(), *part;

    for (unsigned i = roll(&dice, 8) == 0 ? 0 : 1 + roll(&dice, 2); i > 0; i--) {
        unsigned kind = roll(&dice, depth > 0 ? 6 : 3);

        if (kind < 3) {
            part = json_object();
            for (unsigned j = 1 + roll(&dice, 4) / 3; j > 0; j--)
                random_condition(part, metadata);
            json_object_set_new(filter, fields[roll(&dice, COUNT(fields))], part);
        } else if (kind == 3) {
            json_object_set_new(filter, "not", random_filter(depth - 1, metadata));
        } else {
            part = json_array();
            for (unsigned j = 1 + roll(&dice, 3); j > 0; j--)
                json_array_append_new(part, random_filter(depth - 1, metadata));
            json_object_set_new(filter, kind == 4 ? "all" : "any", part);
        }
    }
    return filter;
}

/* Returns the verdict both agree on; fails with what it takes to try again. */
static bool compare_with_naive(void) {
    static const char *const uris[] = {"a", "ab", "éa", "a/b", "b€/a"};
    const uint64_t seed = dice.state; /* starts again with this case */
    json_t *metadata, *json;
    tdg__filter_input_t input;
    tdg__parse_error_t error;
    tdg__filter_t *filter;
    bool passes;
    int rv;

    metadata = random_metadata();
    json = random_filter(3, metadata);
    input = (tdg__filter_input_t){.uri = uris[roll(&dice, COUNT(uris))],
                                  .metadata = metadata,
                                  .wall_ms = roll(&dice, 10)};
    input.uri_len = strlen(input.uri);

    rv = tdg__filter_parse(json, &limits, &filter, &error);
    if (rv < 0)
        fail_msg("seed %llu: %s: %s", (unsigned long long)seed, error.text,
                 json_dumps(json, 0));
    passes = tdg__filter_match(filter, &input);
    if (passes != naive_match(json, &input))
        fail_msg("seed %llu: %s on %s %s: expected to %s", (unsigned long long)seed,
                 json_dumps(json, 0), input.uri, json_dumps(metadata, 0),
                 passes ? "fail" : "pass");

    tdg__filter_destroy(filter);
    json_decref(json);
    json_decref(metadata);
    return passes;
}

static void agrees_with_a_naive_evaluator(void **state) {
    unsigned passing = 0, cases = often(12500);

    (void)state;
    dice = dice_from_env();
    for (unsigned i = 0; i < cases; i++)
        passing += compare_with_naive();
    assert_in_range(passing, cases / 5, cases / 5 * 4); /* else the cases are dull */
}

/* Bytes that are not UTF-8 are for the text alone: a URI may hold any. */
static void random_glob(bool pattern, char *ret) {
    static const char *const plain[] = {"a", "a", "b", "ab", "é", "€"};
    static const char *const special[] = {"*", "*", "*", "?", "?", "\\a", "\\*", "\\é"};
    static const char *const broken[] = {"\x80", "\x80", "\xc3", "\xff", "*"};
    unsigned one_in = pattern ? 2 : 4;

    *ret = '\0';
    for (unsigned i = roll(&dice, 10); i > 0; i--)
        if (roll(&dice, one_in) > 0)
            strcat(ret, plain[roll(&dice, COUNT(plain))]);
        else if (pattern)
            strcat(ret, special[roll(&dice, COUNT(special))]);
        else
            strcat(ret, broken[roll(&dice, COUNT(broken))]);
}

static bool compare_globs(void) {
    const uint64_t seed = dice.state;
    char pattern[64], text[64];
    tdg__filter_input_t input = {.uri = text};
    tdg__filter_t *filter = NULL;
    json_t *json;
    bool passes;

    random_glob(true, pattern);
    random_glob(false, text);
    input.uri_len = strlen(text);
    json = json_pack("{s:{s:s}}", "uri", "glob", pattern);
    assert_int_equal(tdg__filter_parse(json, &limits, &filter, NULL), 0);
    passes = tdg__filter_match(filter, &input);
    if (passes != naive_glob(pattern, text))
        fail_msg("seed %llu: %s on %s: expected to %s", (unsigned long long)seed, pattern,
                 text, passes ? "fail" : "pass");
    tdg__filter_destroy(filter);
    json_decref(json);
    return passes;
}

static void globs_like_a_naive_matcher(void **state) {
    unsigned passing = 0, cases = often(25000);

    (void)state;
    dice = dice_from_env();
    for (unsigned i = 0; i < cases; i++)
        passing += compare_globs();
    assert_in_range(passing, cases / 20, cases / 2);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, memory_setup, memory_teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(agrees_with_a_naive_evaluator),
        TEST(globs_like_a_naive_matcher),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("filter_random", tests, NULL, NULL);
}

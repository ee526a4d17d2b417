/* SPDX-License-Identifier: MIT */
#include <stdio.h>

#include "source/postgres/pg_sql.h"
#include "support.h"

/* What comes out, and the names behind it: "SELECT $1 | id". */
static void describe(const char *sql, char *out, size_t size) {
    tdg__parse_error_t error = {0};
    tdg__pg_sql_t parsed;
    size_t len;
    int rv = tdg__pg_sql_parse(sql, strlen(sql), &parsed, &error);

    if (rv < 0) {
        snprintf(out, size, "at %zu: %s", error.at, error.text);
        return;
    }
    len = (size_t)snprintf(out, size, "%s", parsed.text);
    for (size_t i = 0; i < parsed.count; i++)
        len += (size_t)snprintf(out + len, size - len, "%s%s", i == 0 ? " | " : " ",
                                parsed.names[i]);
    tdg__pg_sql_done(&parsed);
}

static const struct {
    const char *sql, *expected;
} queries[] = {
    {"SELECT 1", "SELECT 1"},
    {"", ""},
    {"a = :id", "a = $1 | id"},
    {":a :b :a :ab :a_1", "$1 $2 $1 $3 $4 | a b ab a_1"},
    {"x::text = :x::int", "x::text = $1::int | x"},
    {"f(a := :a)", "f(a := $1) | a"},
    {"':a' :b", "':a' $1 | b"},
    {"'it''s :a' :b", "'it''s :a' $1 | b"},
    {"'back\\' :b", "'back\\' $1 | b"},
    {"E'it\\'s :a' :b", "E'it\\'s :a' $1 | b"},
    {"e'\\\\' :b", "e'\\\\' $1 | b"},
    {"E'a'\n 'b\\':a' :b", "E'a'\n 'b\\':a' $1 | b"},
    {"E'a' 'b\\' :b", "E'a' 'b\\' $1 | b"},
    {"U&'\\0061' :b", "U&'\\0061' $1 | b"},
    {"type'x\\' :b", "type'x\\' $1 | b"},
    {"\"a \"\" :a\" :b", "\"a \"\" :a\" $1 | b"},
    {"$$ :a ' $$ :b", "$$ :a ' $$ $1 | b"},
    {"$t$ :a $$ $t $t1$ $t$ :b", "$t$ :a $$ $t $t1$ $t$ $1 | b"},
    {"a$b$ :b", "a$b$ $1 | b"},
    {"-- :a '\n:b", "-- :a '\n$1 | b"},
    {"/* :a /* ' */ :a */ :b", "/* :a /* ' */ :a */ $1 | b"},
    {"1 - -2 / 3 * :b", "1 - -2 / 3 * $1 | b"},
    {"a[1 : 2] : 3 :4", "a[1 : 2] : 3 :4"},
    {"a[:low:high]", "a[$1$2] | low high"},
    {":\u00e4", "$1 | \u00e4"},
    {":a;:b--", "$1;$2-- | a b"},
    {"'abc", "at 0: this string does not end"},
    {"x \"abc", "at 2: this name in quotes does not end"},
    {"/* /* */", "at 0: this comment does not end"},
    {"$a$ $$", "at 0: this dollar quote does not end"},
    {"E'\\'", "at 1: this string does not end"},
    {"a = $1", "at 4: parameters have names here, such as :id, not numbers"},
};

static void names_become_numbers_and_nothing_else_changes(void **state) {
    char text[256];

    (void)state;
    for (size_t i = 0; i < COUNT(queries); i++) {
        describe(queries[i].sql, text, sizeof(text));
        assert_string_equal(text, queries[i].expected);
    }
}

static void there_is_a_limit_of_names_and_bytes(void **state) {
    char text[512] = "", out[512];
    static char large[TDG__PG_SQL_MAX + 2];
    tdg__pg_sql_t parsed;
    size_t len = 0;

    (void)state;
    for (int i = 0; i < TDG__TEMPLATE_MAX_NAMES; i++)
        len += (size_t)snprintf(text + len, sizeof(text) - len, ":v%d ", i);
    describe(text, out, sizeof(out));
    assert_non_null(strstr(out, "$16  | v0 v1"));
    snprintf(text + len, sizeof(text) - len, ":v0 :more");
    describe(text, out, sizeof(out));
    assert_non_null(strstr(out, "more than 16 different parameters"));

    memset(large, ' ', sizeof(large) - 1);
    assert_int_equal(tdg__pg_sql_parse(large, sizeof(large) - 1, &parsed, NULL),
                     TDG_ETOOLARGE);
    assert_int_equal(tdg__pg_sql_parse(large, sizeof(large) - 2, &parsed, NULL), 0);
    tdg__pg_sql_done(&parsed);
    assert_int_equal(tdg__pg_sql_parse("a\0b", 3, &parsed, NULL), TDG_EINVAL);
}

static void failing_memory_is_reported(void **state) {
    static const char sql[] = "SELECT :a, :b";
    tdg__pg_sql_t parsed;
    int rv = TDG_ENOMEM;

    (void)state;
    for (size_t nth = 1; rv != 0; nth++) {
        memory_fail(nth, MEMORY_FROM_THEN_ON);
        rv = tdg__pg_sql_parse(sql, strlen(sql), &parsed, NULL);
        memory_fail(0, MEMORY_ONCE);
        assert_true(rv == 0 || rv == TDG_ENOMEM);
    }
    tdg__pg_sql_done(&parsed);
}

static const struct {
    const char *text, *schema, *name; /* NULL: refused */
} tables[] = {
    {"orders", "public", "orders"},
    {"Orders", "public", "orders"},
    {"shop.Orders_2", "shop", "orders_2"},
    {"\"Shop\".\"a.b\"", "Shop", "a.b"},
    {"\"say \"\"hi\"\"\"", "public", "say \"hi\""},
    {"\u00e4.b$", "\u00e4", "b$"},
    {"", NULL, NULL},
    {".a", NULL, NULL},
    {"a.", NULL, NULL},
    {"a.b.c", NULL, NULL},
    {"\"a", NULL, NULL},
    {"\"a\"b", NULL, NULL},
    {"\"\"", NULL, NULL},
    {"a b", NULL, NULL},
    {"a;b", NULL, NULL},
    {"1a", NULL, NULL},
    {"a1234567890123456789012345678901234567890123456789012345678901234", NULL, NULL},
};

static void names_are_read_as_sql_reads_them(void **state) {
    tdg__pg_table_t table;

    (void)state;
    for (size_t i = 0; i < COUNT(tables); i++) {
        tdg__parse_error_t error = {0};
        int rv = tdg__pg_table_parse(tables[i].text, &table, &error);

        if (tables[i].name == NULL) {
            assert_int_equal(rv, TDG_EINVAL);
            assert_true(error.text[0] != '\0');
            continue;
        }
        assert_int_equal(rv, 0);
        assert_string_equal(table.schema, tables[i].schema);
        assert_string_equal(table.name, tables[i].name);
    }
}

static void a_channel_fits_and_differs(void **state) {
    tdg__pg_table_t a = {"public", "orders"}, b = {"s", ""};
    char channel[TDG__PG_NAME_SIZE], other[TDG__PG_NAME_SIZE];

    (void)state;
    tdg__pg_channel(&a, channel);
    assert_string_equal(channel, "tidings_public_orders");

    for (int i = 0; i < 60; i += 2) /* no character is cut */
        memcpy(b.name + i, "\u00e4", 2);
    for (size_t len = 40; len < 60; len += 2) {
        b.name[len] = 'x', b.name[len + 1] = '\0';
        tdg__pg_channel(&b, channel);
        assert_true(strlen(channel) <= TDG__PG_NAME_MAX);
        assert_true(tdg__utf8_is_valid(channel, strlen(channel)));
        b.name[len] = 'y';
        tdg__pg_channel(&b, other);
        assert_string_not_equal(channel, other);
        memcpy(b.name + len, "\u00e4", 2);
    }
}

static void quotes_are_doubled(void **state) {
    tdg__text_t out;

    (void)state;
    tdg__text_init(&out, 100);
    tdg__pg_put_name(&out, "a\"b");
    tdg__pg_put_literal(&out, "it's");
    tdg__pg_put_literal(&out, "a\\'b");
    assert_string_equal(out.data, "\"a\"\"b\"'it''s' E'a\\\\''b'");
    tdg__text_done(&out);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, memory_setup, memory_teardown)
    const struct CMUnitTest tests[] = {
        TEST(names_become_numbers_and_nothing_else_changes),
        TEST(there_is_a_limit_of_names_and_bytes),
        TEST(failing_memory_is_reported),
        TEST(names_are_read_as_sql_reads_them),
        TEST(a_channel_fits_and_differs),
        TEST(quotes_are_doubled),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("pg_sql", tests, NULL, NULL);
}

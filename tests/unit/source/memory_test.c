/* SPDX-License-Identifier: MIT */
#include <stdio.h>

#include "support.h"
#include "unit/source/harness.h"
#include "unit/targets.h"

static tdg__content_t text(const char *data) {
    return (tdg__content_t){.data = data, .len = strlen(data)};
}

static int put(struct harness *harness, const char *uri, const char *data) {
    tdg__content_t content = text(data);

    return tdg__source_put(harness->source, uri, &content, false);
}

static void what_is_put_is_listed_and_read(void **state) {
    tdg__content_t gone = {.status = TDG_ENOTFOUND};
    struct harness harness;

    (void)state;
    harness_open(&harness, "memory: 'build://{job}'\n");
    assert_int_equal(put(&harness, "build://a", "one"), 0);
    assert_int_equal(harness_wait(&harness, LISTED, "build://a")->size, 3);
    harness_wait(&harness, CHANGED, "build://a");
    harness_expect(&harness, "build://a", "one");
    assert_int_equal(put(&harness, "build://a", "two"), 0);
    assert_int_equal(harness_count(&harness, LISTED, NULL), 0);
    assert_int_equal(put(&harness, "build://a", "three"), 0);
    assert_int_equal(harness_wait(&harness, LISTED, "build://a")->size, 5);
    assert_int_equal(tdg__source_put(harness.source, "build://a", &gone, false), 0);
    harness_wait(&harness, UNLISTED, "build://a");
    harness_wait(&harness, DELETED, "build://a");

    struct reading reading = harness_read(&harness, "build://a");

    assert_int_equal(reading.status, TDG_ENOTFOUND);
    reading_done(&reading);
    harness_close(&harness);
}

static void it_has_limits(void **state) {
    struct harness harness;

    (void)state;
    harness_open(&harness, "memory: 'm:{x}'\nmax-items: 2\nmax-total: 8\nmax-size: 5\n");
    assert_int_equal(put(&harness, "m:1", "123456"), TDG_ETOOLARGE);
    assert_int_equal(put(&harness, "m:1", "12345"), 0);
    assert_int_equal(put(&harness, "m:2", "1234"), TDG_ETOTAL);
    assert_int_equal(put(&harness, "m:2", "123"), 0);
    assert_int_equal(put(&harness, "m:3", ""), TDG_ETOTAL);
    assert_int_equal(put(&harness, "m:1", "1"), 0); /* in the place of the old one */
    assert_int_equal(put(&harness, "m:2", "12345"), 0);
    harness_close(&harness);
}

static void what_is_prepared_is_not_seen_before_its_time(void **state) {
    tdg__content_t content = text("one");
    tdg__prepared_t *first, *second;
    struct harness harness;

    (void)state;
    harness_open(&harness, "memory: 'm:{x}'\n");
    assert_int_equal(tdg__source_prepare(harness.source, "m:1", &content, &first), 0);
    assert_int_equal(tdg__source_prepare(harness.source, "m:2", &content, &second), 0);
    assert_non_null(json_object_get(tdg__prepared_metadata(first), "checksum"));

    struct reading reading = harness_read(&harness, "m:1");

    assert_int_equal(reading.status, TDG_ENOTFOUND);
    reading_done(&reading);
    tdg__source_commit(first);
    tdg__source_abandon(second);
    harness_expect(&harness, "m:1", "one");
    reading = harness_read(&harness, "m:2");
    assert_int_equal(reading.status, TDG_ENOTFOUND);
    reading_done(&reading);
    assert_int_equal(harness_count(&harness, CHANGED, NULL), 0); /* others tell */
    harness_close(&harness);
}

static void what_is_prepared_counts(void **state) {
    tdg__content_t content = text("1234"), small = text("1");
    tdg__prepared_t *first, *second, *third;
    struct harness harness;

    (void)state;
    harness_open(&harness, "memory: 'm:{x}'\nmax-items: 2\nmax-total: 8\n");
    assert_int_equal(tdg__source_prepare(harness.source, "m:1", &content, &first), 0);
    assert_int_equal(tdg__source_prepare(harness.source, "m:2", &content, &second), 0);
    assert_int_equal(tdg__source_prepare(harness.source, "m:3", &small, &third),
                     TDG_ETOTAL);
    tdg__source_abandon(second);
    assert_int_equal(tdg__source_prepare(harness.source, "m:3", &content, &third), 0);
    tdg__source_commit(first);
    tdg__source_commit(third);
    assert_int_equal(put(&harness, "m:2", ""), TDG_ETOTAL);
    assert_int_equal(put(&harness, "m:1", "4321"), 0);
    assert_int_equal(put(&harness, "m:1", "54321"), TDG_ETOTAL);
    harness_close(&harness);
}

/* What was deleted is remembered while the template is watched; what is put there again
 * stays, whatever becomes of the watching. */
static void what_is_put_again_outlives_the_watching(void **state) {
    tdg__content_t gone = {.status = TDG_ENOTFOUND};
    struct harness harness;

    (void)state;
    harness_open(&harness, "memory: 'm:{x}'\n");
    harness_watch_template(&harness, "m:{x}");
    assert_int_equal(put(&harness, "m:1", "one"), 0);
    assert_int_equal(tdg__source_put(harness.source, "m:1", &gone, false), 0);
    assert_int_equal(put(&harness, "m:1", "two"), 0);
    tdg__source_unwatch(harness.source, FOR_TEMPLATE("m:{x}"));
    harness_expect(&harness, "m:1", "two");
    harness_close(&harness);
}

/* Nor is it forgotten for others between its two steps. */
static void what_is_prepared_is_not_forgotten(void **state) {
    enum { MORE_THAN_REMEMBERED = 10001 };
    tdg__content_t gone = {.status = TDG_ENOTFOUND}, content = text("one");
    struct harness harness;
    tdg__prepared_t *prepared, *other;
    char uri[32];

    (void)state;
    harness_open(&harness, "memory: 'm:{x}'\n");
    harness_watch_template(&harness, "m:{x}");
    assert_int_equal(tdg__source_prepare(harness.source, "m:1", &gone, &other), 0);
    tdg__source_commit(other);
    assert_int_equal(tdg__source_prepare(harness.source, "m:1", &content, &prepared), 0);
    for (int i = 0; i < MORE_THAN_REMEMBERED; i++) {
        snprintf(uri, sizeof(uri), "m:other%d", i);
        assert_int_equal(tdg__source_prepare(harness.source, uri, &gone, &other), 0);
        tdg__source_commit(other);
    }
    tdg__source_commit(prepared);
    harness_expect(&harness, "m:1", "one");
    harness_close(&harness);
}

static void its_uri_is_its_value(void **state) {
    (void)state;
    harness_refuses("memory: m:1\nuri: m:2\n", "after memory:");
    harness_refuses("memory: 'm:{'\n", "not a valid URI template");
    harness_refuses("memory: not a uri\n", "not a valid URI");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_put_is_listed_and_read),
        cmocka_unit_test(it_has_limits),
        cmocka_unit_test(what_is_prepared_is_not_seen_before_its_time),
        cmocka_unit_test(what_is_prepared_counts),
        cmocka_unit_test(what_is_put_again_outlives_the_watching),
        cmocka_unit_test(what_is_prepared_is_not_forgotten),
        cmocka_unit_test(its_uri_is_its_value),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT */
#include "mcp/version.h"
#include "support.h"

static void knows_each_revision_by_its_date(void **state) {
    static const char *const dates[] = {"2024-11-05", "2025-03-26", "2025-06-18",
                                        "2025-11-25", "2026-07-28"};

    (void)state;
    assert_int_equal(COUNT(dates), TDG__V_COUNT - 1);
    for (size_t i = 0; i < COUNT(dates); i++) {
        tdg__version_t version = tdg__version_from_text(dates[i]);

        assert_int_equal(version, TDG__V_UNKNOWN + 1 + i); /* oldest first */
        assert_string_equal(tdg__version_text(version), dates[i]);
    }
}

static void knows_no_other_text(void **state) {
    static const char *const texts[] = {"",
                                        "1900-01-01",
                                        "2025-11-2",
                                        "2025-11-255",
                                        " 2025-11-25",
                                        "2026-07-28 ",
                                        "DRAFT-2026"};

    (void)state;
    for (size_t i = 0; i < COUNT(texts); i++)
        assert_int_equal(tdg__version_from_text(texts[i]), TDG__V_UNKNOWN);
    assert_int_equal(tdg__version_from_text(NULL), TDG__V_UNKNOWN);
}

static void has_no_text_for_what_is_no_revision(void **state) {
    (void)state;
    assert_null(tdg__version_text(TDG__V_UNKNOWN));
    assert_null(tdg__version_text(TDG__V_COUNT));
}

static void calls_only_the_last_one_modern(void **state) {
    (void)state;
    for (int v = TDG__V_UNKNOWN; v < TDG__V2026_07_28; v++)
        assert_false(tdg__version_modern((tdg__version_t)v));
    assert_true(tdg__version_modern(TDG__V2026_07_28));
    assert_true(tdg__version_modern(TDG__V_MODERN));
    assert_false(tdg__version_modern(TDG__V_LATEST_LEGACY));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(knows_each_revision_by_its_date),
        cmocka_unit_test(knows_no_other_text),
        cmocka_unit_test(has_no_text_for_what_is_no_revision),
        cmocka_unit_test(calls_only_the_last_one_modern),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("version", tests, NULL, NULL);
}

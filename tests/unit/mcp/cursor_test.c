/* SPDX-License-Identifier: MIT */
#include "mcp/cursor.h"
#include "support.h"

#define MAX UINT64_MAX

static const char *cursor_text(uint64_t epoch, uint64_t number) {
    static char text[TDG__CURSOR_MAX + 1];
    size_t len = tdg__cursor_put(text, epoch, number);

    assert_in_range(len, 1, TDG__CURSOR_MAX);
    text[len] = '\0';
    return text;
}

static const char *event_text(tdg__event_id_t id) {
    static char text[TDG__EVENT_ID_MAX + 1];
    size_t len = tdg__event_id_put(text, &id);

    assert_in_range(len, 1, TDG__EVENT_ID_MAX);
    text[len] = '\0';
    return text;
}

static void a_cursor_is_epoch_and_number(void **state) {
    static const struct {
        const char *text;
        uint64_t epoch, number;
    } cases[] = {
        {"0-0", 0, 0},
        {"1-2", 1, 2},
        {"c0ffee-10", 0xc0ffee, 10},
        {"ffffffffffffffff-18446744073709551615", MAX, MAX},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        uint64_t epoch = 77, number = 77;

        assert_string_equal(cursor_text(cases[i].epoch, cases[i].number), cases[i].text);
        assert_int_equal(tdg__cursor_read(cases[i].text, &epoch, &number), 0);
        assert_true(epoch == cases[i].epoch && number == cases[i].number);
    }
    assert_int_equal(strlen(cases[3].text), TDG__CURSOR_MAX);
}

static void any_other_text_is_no_cursor(void **state) {
    static const char *const cases[] = {
        "",
        "-",
        "1",
        "1-",
        "-1",
        "1-2-3",
        "1-2 ",
        " 1-2",
        "01-2",
        "1-02",
        "00-0",
        "0-00",
        "A-1",
        "g-1",
        "1-a",
        "+1-2",
        "1-+2",
        "1--2",
        "0x1-2",
        "1.2",
        "1-2\n",
        "1-2g",
        "1\xe2\x88\x92-2",
        "1-18446744073709551616",
        "1-99999999999999999999",
        "10000000000000000-1",
        "1-184467440737095516150",
        "ffffffffffffffff0-1",
    };
    uint64_t epoch = 77, number = 78;

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        if (tdg__cursor_read(cases[i], &epoch, &number) != TDG_EINVAL)
            fail_msg("accepted: %s", cases[i]);
    }
    assert_int_equal(tdg__cursor_read(NULL, &epoch, &number), TDG_EINVAL);
    assert_true(epoch == 77 && number == 78);
}

static void an_event_id_names_stream_event_and_cursor(void **state) {
    static const struct {
        const char *text;
        tdg__event_id_t id;
    } cases[] = {
        {"g3.17.ab-42", {false, 3, 17, 0xab, 42}},
        {"g0.0.0-0", {false, 0, 0, 0, 0}},
        {"p5.2", {true, 5, 2, 0, 0}},
        {"g18446744073709551615.18446744073709551615."
         "ffffffffffffffff-18446744073709551615",
         {false, MAX, MAX, MAX, MAX}},
        {"p18446744073709551615.18446744073709551615", {true, MAX, MAX, 0, 0}},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        const tdg__event_id_t *id = &cases[i].id;
        tdg__event_id_t got = {.epoch = 77, .number = 77};

        assert_string_equal(event_text(*id), cases[i].text);
        assert_int_equal(tdg__event_id_read(cases[i].text, &got), 0);
        assert_true(got.post == id->post && got.stream == id->stream &&
                    got.event == id->event && got.epoch == id->epoch &&
                    got.number == id->number);
    }
    assert_int_equal(strlen(cases[3].text), TDG__EVENT_ID_MAX);
}

static void any_other_text_is_no_event_id(void **state) {
    static const char *const cases[] = {
        "",
        "g",
        "p",
        "x1.2",
        "G3.17.a-1",
        "3.17.a-1",
        "g3",
        "g3.",
        "g3.17",
        "g3.17.",
        "g3.17.a",
        "g3.17.a-",
        "p5",
        "p5.",
        "p5.2.",
        "p5.2.a-1",
        "p5.2 ",
        "p05.2",
        "g03.1.a-1",
        "g3.01.a-1",
        "g3.1.0a-1",
        "g3.1.a-01",
        "g3.1.A-1",
        "g-3.1.a-1",
        "g3.1.a-1.",
        "g.1.a-1",
        "p.2",
        "p1.2\n",
        "p18446744073709551616.1",
        "g1.99999999999999999999.a-1",
    };
    tdg__event_id_t id = {.stream = 77};

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        if (tdg__event_id_read(cases[i], &id) != TDG_EINVAL)
            fail_msg("accepted: %s", cases[i]);
    }
    assert_int_equal(tdg__event_id_read(NULL, &id), TDG_EINVAL);
    assert_int_equal(id.stream, 77);
}

static uint64_t any_number(struct dice *dice) {
    uint64_t number = (uint64_t)roll(dice, 1u << 31) << 33 ^ roll(dice, 1u << 31);

    return number >> roll(dice, 64);
}

static void whatever_is_written_is_read_back(void **state) {
    struct dice dice = dice_from_env();

    (void)state;
    for (int i = 0; i < 10000; i++) {
        uint64_t epoch = any_number(&dice), number = any_number(&dice), e, n;
        tdg__event_id_t id = {i % 2 == 0, any_number(&dice), any_number(&dice), 0, 0},
                        got;

        if (!id.post) {
            id.epoch = epoch;
            id.number = number;
        }
        assert_int_equal(tdg__cursor_read(cursor_text(epoch, number), &e, &n), 0);
        assert_true(e == epoch && n == number);
        assert_int_equal(tdg__event_id_read(event_text(id), &got), 0);
        assert_true(got.post == id.post && got.stream == id.stream &&
                    got.event == id.event && got.epoch == id.epoch &&
                    got.number == id.number);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cursor_is_epoch_and_number),
        cmocka_unit_test(any_other_text_is_no_cursor),
        cmocka_unit_test(an_event_id_names_stream_event_and_cursor),
        cmocka_unit_test(any_other_text_is_no_event_id),
        cmocka_unit_test(whatever_is_written_is_read_back),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("cursor", tests, NULL, NULL);
}

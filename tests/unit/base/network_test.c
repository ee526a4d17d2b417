/* SPDX-License-Identifier: MIT */
#include "base/network.h"
#include "support.h"

static tdg__address_t address(const char *text) {
    tdg__address_t ret;

    if (!tdg__address_parse(text, &ret))
        fail_msg("no address: %s", text);
    return ret;
}

static void an_address_is_the_same_however_it_is_written(void **state) {
    tdg__address_t a = address("10.1.2.3"), b = address("::ffff:10.1.2.3"),
                   c = address("2001:db8::1"), d = address("2001:DB8:0:0:0:0:0:1");

    (void)state;
    assert_true(tdg__address_equal(&a, &b));
    assert_true(tdg__address_equal(&c, &d));
    assert_false(tdg__address_equal(&a, &c));
}

static void an_address_is_written_in_its_usual_form(void **state) {
    static const char *const texts[][2] = {
        {"10.1.2.3", "10.1.2.3"},
        {"::ffff:10.1.2.3", "10.1.2.3"},
        {"2001:DB8:0:0:0:0:0:1", "2001:db8::1"},
        {"::", "::"},
        {"ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
         "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(texts); i++) {
        tdg__address_t one = address(texts[i][0]);
        char text[TDG__ADDRESS_TEXT];

        tdg__address_write(&one, text);
        assert_string_equal(text, texts[i][1]);
    }
}

static void what_is_no_address_is_refused(void **state) {
    static const char *const texts[] = {"",         "localhost", "1.2.3",  "1.2.3.256",
                                        "1.2.3.4 ", "[::1]",     "::1%lo", "1.2.3.4:80"};
    tdg__address_t ret;

    (void)state;
    for (size_t i = 0; i < COUNT(texts); i++)
        if (tdg__address_parse(texts[i], &ret))
            fail_msg("taken: %s", texts[i]);
}

static void one_machine_has_a_whole_network_of_ipv6(void **state) {
    tdg__address_t a = address("2001:db8::1"), b = address("2001:db8::ffff:2"),
                   c = address("2001:db8:0:1::1"), d = address("10.1.2.3"),
                   e = address("10.1.2.4");

    (void)state;
    tdg__address_shorten(&a);
    tdg__address_shorten(&b);
    tdg__address_shorten(&c);
    tdg__address_shorten(&d);
    tdg__address_shorten(&e);
    assert_true(tdg__address_equal(&a, &b));
    assert_false(tdg__address_equal(&a, &c));
    assert_false(tdg__address_equal(&d, &e));
}

static void networks_have_what_is_in_them(void **state) {
    static const char *const texts[] = {"127.0.0.1", "10.0.0.0/8",  "192.168.4.0/22",
                                        "fd00::/8",  "2001:db8::7", NULL};
    static const struct {
        const char *text;
        bool in;
    } cases[] = {
        {"127.0.0.1", true},    {"127.0.0.2", false},    {"10.255.0.1", true},
        {"11.0.0.1", false},    {"192.168.7.255", true}, {"192.168.8.0", false},
        {"fdab::1", true},      {"fe00::1", false},      {"2001:db8::7", true},
        {"2001:db8::8", false},
    };
    tdg__networks_t *networks;

    (void)state;
    assert_int_equal(tdg__networks_create(texts, &networks), 0);
    for (size_t i = 0; i < COUNT(cases); i++) {
        tdg__address_t one = address(cases[i].text);

        if (tdg__networks_have(networks, &one) != cases[i].in)
            fail_msg("wrong: %s", cases[i].text);
    }
    tdg__networks_destroy(networks);
}

static void everything_and_nothing_are_networks_too(void **state) {
    static const char *const all[] = {"0.0.0.0/0", NULL}, *const none[] = {NULL};
    tdg__address_t four = address("1.2.3.4"), six = address("::1");
    tdg__networks_t *networks;

    (void)state;
    assert_int_equal(tdg__networks_create(all, &networks), 0);
    assert_true(tdg__networks_have(networks, &four));
    assert_false(tdg__networks_have(networks, &six));
    tdg__networks_destroy(networks);
    assert_int_equal(tdg__networks_create(none, &networks), 0);
    assert_null(networks);
    assert_false(tdg__networks_have(NULL, &four));
    tdg__networks_destroy(NULL);
}

static void what_is_no_network_is_refused(void **state) {
    static const char *const texts[] = {
        "x", "10.0.0.0/33", "10.0.0.0/", "::/129", "10.0.0.0/-1", "10.0.0.0/8x", "/8"};
    tdg__networks_t *networks;

    (void)state;
    for (size_t i = 0; i < COUNT(texts); i++) {
        const char *const one[] = {"127.0.0.1", texts[i], NULL};

        if (tdg__networks_create(one, &networks) != TDG_EINVAL)
            fail_msg("taken: %s", texts[i]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_address_is_the_same_however_it_is_written),
        cmocka_unit_test(an_address_is_written_in_its_usual_form),
        cmocka_unit_test(what_is_no_address_is_refused),
        cmocka_unit_test(one_machine_has_a_whole_network_of_ipv6),
        cmocka_unit_test(networks_have_what_is_in_them),
        cmocka_unit_test(everything_and_nothing_are_networks_too),
        cmocka_unit_test(what_is_no_network_is_refused),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("network", tests, NULL, NULL);
}

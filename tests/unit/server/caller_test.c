/* SPDX-License-Identifier: MIT
 *
 * Whom a request counts for, with and without proxies in front. */
#include "server/http/caller.h"
#include "support.h"

static const char *const trusted[] = {"127.0.0.1", "10.0.0.0/8", NULL};

/* Fails unless a request of this peer with these fields counts for `expected`. */
static void assert_caller_of(bool forwarded, const char *peer,
                             const tdg__http_field_t *fields, size_t count,
                             const char *expected) {
    tdg__http_request_t http = {.fields = fields, .field_count = count};
    tdg__proxies_t proxies = {.forwarded = forwarded};
    tdg__address_t got, wanted;

    assert_int_equal(tdg__networks_create(trusted, &proxies.networks), 0);
    assert_true(tdg__caller_find(&proxies, peer, &http, &got));
    assert_true(tdg__address_parse(expected, &wanted));
    if (!tdg__address_equal(&got, &wanted))
        fail_msg("not %s: %s with %s", expected, peer, count > 0 ? fields[0].value : "-");
    tdg__networks_destroy(proxies.networks);
}

static void assert_caller(const char *peer, const tdg__http_field_t *fields, size_t count,
                          const char *expected) {
    assert_caller_of(false, peer, fields, count, expected);
}

static void without_a_trusted_proxy_the_peer_counts(void **state) {
    static const tdg__http_field_t fields[] = {
        {"x-forwarded-for", "1.2.3.4"},
        {"forwarded", "for=1.2.3.4"},
    };

    (void)state;
    assert_caller("192.0.2.1", fields, 2, "192.0.2.1");
    assert_caller("127.0.0.1", NULL, 0, "127.0.0.1");
}

static void behind_proxies_the_last_stranger_counts(void **state) {
    static const struct {
        const char *list, *expected;
    } cases[] = {
        {"192.0.2.7", "192.0.2.7"},
        {"6.6.6.6, 192.0.2.7", "192.0.2.7"}, /* forged */
        {"6.6.6.6,192.0.2.7 , 10.1.1.1", "192.0.2.7"},
        {"192.0.2.7:5678", "192.0.2.7"},
        {"2001:db8::9", "2001:db8::9"},
        {"[2001:db8::9]:443", "2001:db8::9"},
        {"10.1.1.1, 10.2.2.2", "10.1.1.1"}, /* all of them ours */
        {"6.6.6.6, unknown", "127.0.0.1"},
        {"6.6.6.6, unknown, 10.1.1.1", "10.1.1.1"},
        {"6.6.6.6,", "127.0.0.1"},
        {"6.6.6.6, \"x,192.0.2.7", "192.0.2.7"}, /* no quotes here */
        {"", "127.0.0.1"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        tdg__http_field_t field = {"x-forwarded-for", cases[i].list};

        assert_caller("127.0.0.1", &field, 1, cases[i].expected);
    }
}

static void several_fields_are_one_list(void **state) {
    static const tdg__http_field_t fields[] = {
        {"x-forwarded-for", "6.6.6.6"},
        {"accept", "x"},
        {"x-forwarded-for", "192.0.2.7"},
        {"x-forwarded-for", "10.1.1.1"},
    };

    (void)state;
    assert_caller("127.0.0.1", fields, COUNT(fields), "192.0.2.7");
}

static void the_field_of_rfc_7239_is_understood(void **state) {
    static const struct {
        const char *list, *expected;
    } cases[] = {
        {"for=192.0.2.7", "192.0.2.7"},
        {"proto=https;For=\"192.0.2.7:80\"; by=10.0.0.1", "192.0.2.7"},
        {"for=6.6.6.6, for=\"[2001:db8::9]:47\"", "2001:db8::9"},
        {"for=192.0.2.7, for=10.3.3.3;proto=http", "192.0.2.7"},
        {"for=_hidden", "127.0.0.1"},
        {"by=192.0.2.7", "127.0.0.1"},
        {"for=192.0.2.7 ; proto=http", "192.0.2.7"},
        {"for=192.0.2.7;host=\"x,for=6.6.6.6;y=\"", "192.0.2.7"},
        {"host=\"x;for=6.6.6.6;y=\";for=192.0.2.7", "192.0.2.7"},
        {"for=192.0.2.7;host=\"\\\",for=6.6.6.6;x=\"", "192.0.2.7"},
        {"for=192.0.2.7;for=6.6.6.6", "127.0.0.1"},
        {"for=6.6.6.6;host=\"x", "127.0.0.1"},
        {"for=6.6.6.6;by=\"x, for=192.0.2.7", "127.0.0.1"},
        {"host=\"x, for=192.0.2.7", "127.0.0.1"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        tdg__http_field_t field = {"forwarded", cases[i].list};

        assert_caller_of(true, "127.0.0.1", &field, 1, cases[i].expected);
    }
}

/* Proxies pass on what a client wrote into the other one. */
static void only_the_field_of_the_proxies_counts(void **state) {
    static const tdg__http_field_t both[] = {
        {"x-forwarded-for", "192.0.2.7"},
        {"forwarded", "for=192.0.2.8"},
    };

    (void)state;
    assert_caller("127.0.0.1", both, 2, "192.0.2.7");
    assert_caller("127.0.0.1", both + 1, 1, "127.0.0.1");
    assert_caller_of(true, "127.0.0.1", both, 2, "192.0.2.8");
    assert_caller_of(true, "127.0.0.1", both, 1, "127.0.0.1");
}

/* A chain that is longer than any is not followed to its beginning. */
static void chains_are_bounded(void **state) {
    enum { HOPS = 2000 };
    static char list[HOPS * 10 + 16] = "192.0.2.7";
    tdg__http_field_t field = {"x-forwarded-for", list};

    (void)state;
    for (int i = 0; i < HOPS; i++)
        strcat(list, ",10.1.1.1");
    assert_caller("127.0.0.1", &field, 1, "10.1.1.1");
    list[strlen("192.0.2.7") + 31 * strlen(",10.1.1.1")] = '\0';
    assert_caller("127.0.0.1", &field, 1, "192.0.2.7");
}

static void who_has_no_address_counts_for_nobody(void **state) {
    tdg__http_request_t http = {0};
    tdg__address_t ret;

    (void)state;
    assert_false(tdg__caller_find(&(tdg__proxies_t){0}, "", &http, &ret));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_trusted_proxy_the_peer_counts),
        cmocka_unit_test(behind_proxies_the_last_stranger_counts),
        cmocka_unit_test(several_fields_are_one_list),
        cmocka_unit_test(the_field_of_rfc_7239_is_understood),
        cmocka_unit_test(only_the_field_of_the_proxies_counts),
        cmocka_unit_test(chains_are_bounded),
        cmocka_unit_test(who_has_no_address_counts_for_nobody),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("caller", tests, NULL, NULL);
}

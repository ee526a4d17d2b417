/* SPDX-License-Identifier: MIT */
#include "client/transport/transport.h"
#include "support.h"

struct heard {
    size_t count;
    char ids[8][TDG__RPC_MAX_ID + 1];
    tdg__rpc_kind_t kinds[8];
};

static void on_message(void *arg, tdg__rpc_message_t *message) {
    struct heard *heard = arg;

    assert_in_range(heard->count, 0, 7);
    strcpy(heard->ids[heard->count], message->id);
    heard->kinds[heard->count++] = message->kind;
}

static int read_text(const char *text, struct heard *heard, char why[200]) {
    char *quoted = requote(text);
    int rv;

    *heard = (struct heard){0};
    why[0] = '\0';
    rv = tdg__transport_parse(1000, quoted, strlen(quoted), on_message, heard, why, 200);
    free(quoted);
    return rv;
}

static void reads_one_message(void **state) {
    struct heard heard;
    char why[200];

    (void)state;
    assert_int_equal(read_text("{'jsonrpc':'2.0','id':'a','result':{}}", &heard, why), 0);
    assert_int_equal(heard.count, 1);
    assert_string_equal(heard.ids[0], "\"a\"");
    assert_int_equal(heard.kinds[0], TDG__RPC_RESPONSE);
}

static void reads_each_of_a_batch(void **state) {
    struct heard heard;
    char why[200];

    (void)state;
    assert_int_equal(read_text("[{'jsonrpc':'2.0','id':1,'result':{}},"
                               "{'jsonrpc':'2.0','method':'m'},"
                               "{'jsonrpc':'2.0','id':2,'method':'m'}]",
                               &heard, why),
                     0);
    assert_int_equal(heard.count, 3);
    assert_string_equal(heard.ids[0], "1");
    assert_int_equal(heard.kinds[1], TDG__RPC_NOTIFICATION);
    assert_int_equal(heard.kinds[2], TDG__RPC_REQUEST);
}

static void a_bad_one_does_not_spoil_a_batch(void **state) {
    struct heard heard;
    char why[200];

    (void)state;
    assert_int_equal(read_text("[7,{'jsonrpc':'2.0','id':2,'result':{}}]", &heard, why),
                     TDG_EJSON);
    assert_int_equal(heard.count, 1);
    assert_string_equal(heard.ids[0], "2");
    assert_string_not_equal(why, "");
}

static void says_what_is_wrong(void **state) {
    static const char *const texts[] = {
        "",
        "x",
        "{",
        "7",
        "null",
        "[]",
        "[[]]",
        "{'jsonrpc':'2.0'}",
        "{}",
        "[7]",
        "{'jsonrpc':'1.0','id':1,'result':{}}",
        "{'jsonrpc':'2.0','id':1,'result':{},'error':{}}",
        "{'jsonrpc':'2.0','id':1.5,'result':{}}",
        "{'jsonrpc':'2.0','id':99999999999999999999,'result':{}}",
        "{'jsonrpc':'2.0','id':1,'result':{}} x",
    };
    struct heard heard;
    char why[200];

    (void)state;
    for (size_t i = 0; i < COUNT(texts); i++) {
        if (read_text(texts[i], &heard, why) != TDG_EJSON || why[0] == '\0')
            fail_msg("%s: %s", texts[i], why);
        assert_int_equal(heard.count, 0);
    }
}

static void bounds_what_it_reads(void **state) {
    char text[2000], why[200];
    struct heard heard;

    (void)state;
    memset(text, ' ', sizeof(text));
    text[1001] = '\0';
    assert_int_equal(read_text(text, &heard, why), TDG_ETOOLARGE);
    assert_string_not_equal(why, "");

    memset(text, '[', 400);
    text[400] = '\0';
    assert_int_equal(read_text(text, &heard, why), TDG_ETOOLARGE);
}

static void survives_each_failed_allocation(void **state) {
    struct heard heard;
    char why[200];
    size_t n;
    int rv;

    (void)state;
    for (n = 1;; n++) {
        memory_fail(n, MEMORY_ONCE);
        rv =
            read_text("[{'jsonrpc':'2.0','id':'a','result':{'b':[1,'c']}}]", &heard, why);
        if (!memory_failed())
            break;
        assert_int_equal(rv, TDG_ENOMEM);
        assert_int_equal(heard.count, 0);
    }
    assert_int_equal(rv, 0);
    assert_true(n > 5);
}

int main(void) {
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, memory_setup, memory_teardown)
        TEST(reads_one_message),
        TEST(reads_each_of_a_batch),
        TEST(a_bad_one_does_not_spoil_a_batch),
        TEST(says_what_is_wrong),
        TEST(bounds_what_it_reads),
        TEST(survives_each_failed_allocation),
#undef TEST
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("transport", tests, NULL, NULL);
}

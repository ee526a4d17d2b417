/* SPDX-License-Identifier: MIT
 *
 * What a call to the endpoint of a webhook does, without HTTP. Signatures are checked
 * against values that were made elsewhere. */
#include "source/push/webhook.h"

#include <stdio.h>

#include <openssl/hmac.h>

#include "support.h"
#include "unit/source/harness.h"

#define SECRET "It's a Secret to Everybody"
#define ENTRY "webhook: /hooks/x\nuri: h:x\nsecret: \"" SECRET "\"\n"

/* A call; fields are pairs of name and value. */
struct call {
    const char *body, *fields[12];
};

static const char *field(const void *arg, const char *name) {
    const char *const *fields = arg;

    for (size_t i = 0; fields[i] != NULL; i += 2)
        if (strcmp(fields[i], name) == 0)
            return fields[i + 1];
    return NULL;
}

static tdg__hook_answer_t post(struct harness *harness, struct call call) {
    tdg__hook_call_t made = {.body = call.body,
                             .len = strlen(call.body),
                             .field = field,
                             .arg = call.fields,
                             .peer = "192.0.2.1"};

    return tdg__webhook_handle(harness->source, &made);
}

/* The same with a right signature, and two fields of GitHub's. */
static int post_signed(struct harness *harness, const char *body, const char *event,
                       const char *delivery) {
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned len;
    char signature[80] = "sha256=";

    assert_non_null(HMAC(EVP_sha256(), SECRET, (int)strlen(SECRET),
                         (const unsigned char *)body, strlen(body), digest, &len));
    for (unsigned i = 0; i < len; i++)
        sprintf(signature + 7 + 2 * i, "%02x", digest[i]);

    struct call call = {body, {"x-hub-signature-256", signature}};
    size_t count = 2;

    if (event != NULL) {
        call.fields[count++] = "x-github-event";
        call.fields[count++] = event;
    }
    if (delivery != NULL) {
        call.fields[count++] = "x-github-delivery";
        call.fields[count++] = delivery;
    }
    return post(harness, call).status;
}

static const char *said(const struct happening *told, const char *name) {
    return json_string_value(json_object_get(told->metadata, name));
}

static void expect_nothing(struct harness *harness) {
    struct reading reading = harness_read(harness, "h:x");

    assert_int_equal(reading.status, TDG_ENOTFOUND);
    reading_done(&reading);
}

/* ---- Who may call ------------------------------------------------------- */

#define GOOD "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"

static void the_body_is_the_content(void **state) {
    struct harness harness;

    (void)state;
    harness_open(&harness, ENTRY);
    assert_string_equal(tdg__webhook_path(harness.source), "/hooks/x");
    assert_int_equal(harness.source->entry.max_size, 4 << 20);
    expect_nothing(&harness);

    tdg__hook_answer_t answer =
        post(&harness, (struct call){"Hello, World!",
                                     {"x-hub-signature-256", GOOD, "content-type",
                                      "application/json", "x-github-event", "push",
                                      "x-github-delivery",
                                      "72d3162e-cc78-11e3-81ab-4c9367dc0958"}});

    assert_int_equal(answer.status, 202);
    assert_string_equal(answer.text, "accepted");

    struct happening *told = harness_wait(&harness, CHANGED, "h:x");

    assert_string_equal(said(told, "event"), "push");
    assert_string_equal(said(told, "delivery"), "72d3162e-cc78-11e3-81ab-4c9367dc0958");
    assert_non_null(said(told, "checksum"));

    struct reading reading = harness_read(&harness, "h:x");

    assert_string_equal(reading.data, "Hello, World!");
    assert_string_equal(reading.mime_type, "application/json");
    assert_string_equal(json_string_value(json_object_get(reading.metadata, "event")),
                        "push");
    reading_done(&reading);
    harness_close(&harness);
}

static void whoever_signs_wrong_learns_nothing(void **state) {
    static const char *const wrong[] = {
        "",
        "sha256=",
        "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e1",
        "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e18",
        "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17a",
        "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e1g",
        "sha1=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17",
        "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17",
        "sha256=0000000000000000000000000000000000000000000000000000000000000000",
    };
    struct harness harness;

    (void)state;
    harness_open(&harness, ENTRY);

    tdg__hook_answer_t first = post(&harness, (struct call){"Hello, World!", {NULL}});

    assert_int_equal(first.status, 401);
    for (size_t i = 0; i < COUNT(wrong); i++) {
        tdg__hook_answer_t answer = post(
            &harness, (struct call){"Hello, World!", {"x-hub-signature-256", wrong[i]}});

        if (answer.status != 401)
            fail_msg("taken: %s", wrong[i]);
        assert_string_equal(answer.text, first.text);
        assert_string_equal(answer.fields, first.fields);
    }
    /* right for another body; the secret itself, where a signature was asked for */
    assert_int_equal(
        post(&harness, (struct call){"Hello, World?", {"x-hub-signature-256", GOOD}})
            .status,
        401);
    assert_int_equal(post(&harness, (struct call){"Hello, World!",
                                                  {"authorization", "Bearer " SECRET}})
                         .status,
                     401);
    assert_int_equal(harness_count(&harness, CHANGED, NULL), 0);

    /* and the log has one line, without the secret */
    struct happening *line = harness_wait(&harness, LOGGED, "wrong or missing signature");

    assert_non_null(strstr(line->uri, "192.0.2.1"));
    assert_null(strstr(line->uri, "Secret"));
    assert_int_equal(harness_count(&harness, LOGGED, NULL), 0);
    harness_close(&harness);
}

static void a_bearer_brings_the_secret(void **state) {
    static const struct {
        const char *value;
        int status;
    } rows[] = {
        {"Bearer s3cret", 202},  {"bearer  s3cret", 202}, {"Bearer s3cre", 401},
        {"Bearer s3crett", 401}, {"Bearer S3CRET", 401},  {"Bearer ", 401},
        {"Basic s3cret", 401},   {"s3cret", 401},
    };
    struct harness harness;

    (void)state;
    harness_open(&harness,
                 "webhook: /hooks/x\nuri: h:x\nsecret: s3cret\nsignature: bearer\n");
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct call call = {"body", {"authorization", rows[i].value}};

        if (post(&harness, call).status != rows[i].status)
            fail_msg("not %d: %s", rows[i].status, rows[i].value);
    }
    harness_close(&harness);
}

static void an_open_one_takes_all(void **state) {
    struct harness harness;

    (void)state;
    harness_open(&harness, "webhook: /hooks/x\nuri: h:x\nopen: true\nmax-size: 4\n");
    assert_int_equal(post(&harness, (struct call){"1234", {NULL}}).status, 202);
    assert_int_equal(post(&harness, (struct call){"12345", {NULL}}).status, 413);
    assert_int_equal(post(&harness, (struct call){"", {NULL}}).status, 202);
    harness_expect(&harness, "h:x", "");
    harness_close(&harness);
}

/* ---- What is told ------------------------------------------------------- */

static void a_delivery_is_told_once(void **state) {
    struct harness harness;
    char id[16];

    (void)state;
    harness_open(&harness, ENTRY "content: signal\n");
    assert_int_equal(post_signed(&harness, "a", "push", "one"), 202);
    harness_wait(&harness, CHANGED, "h:x");
    assert_int_equal(post_signed(&harness, "a", "push", "one"), 202);
    assert_int_equal(harness_count(&harness, CHANGED, NULL), 0);
    for (int i = 0; i < 999; i++) { /* "one" is the oldest of a thousand */
        snprintf(id, sizeof(id), "id-%d", i);
        assert_int_equal(post_signed(&harness, "a", "push", id), 202);
        harness_wait(&harness, CHANGED, "h:x");
    }
    assert_int_equal(post_signed(&harness, "a", "push", "one"), 202);
    assert_int_equal(harness_count(&harness, CHANGED, NULL), 0);
    assert_int_equal(post_signed(&harness, "a", "push", "another"), 202);
    harness_wait(&harness, CHANGED, "h:x");
    assert_int_equal(post_signed(&harness, "a", "push", "one"), 202); /* forgotten */
    harness_wait(&harness, CHANGED, "h:x");
    harness_close(&harness);
}

static void a_wrong_signature_uses_up_no_delivery(void **state) {
    struct harness harness;

    (void)state;
    harness_open(&harness, ENTRY);
    assert_int_equal(
        post(&harness, (struct call){"a", {"x-github-delivery", "one"}}).status, 401);
    assert_int_equal(post_signed(&harness, "a", "push", "one"), 202);
    harness_wait(&harness, CHANGED, "h:x");
    harness_close(&harness);
}

static void the_same_body_is_no_news_but_a_signal_is(void **state) {
    struct harness harness;

    (void)state;
    harness_open(&harness, ENTRY);
    assert_int_equal(post_signed(&harness, "same", NULL, NULL), 202);
    harness_wait(&harness, CHANGED, "h:x");
    assert_int_equal(post_signed(&harness, "same", NULL, NULL), 202);
    assert_int_equal(harness_count(&harness, CHANGED, NULL), 0);
    harness_close(&harness);

    harness_open(&harness, ENTRY "content: signal\n");
    for (int i = 0; i < 2; i++) {
        assert_int_equal(post_signed(&harness, "same", "deployment", NULL), 202);
        harness_wait(&harness, CHANGED, "h:x");
    }

    struct reading reading = harness_read(&harness, "h:x");
    json_t *content = json_loads(reading.data, 0, NULL);

    assert_string_equal(reading.mime_type, "application/json");
    assert_string_equal(json_string_value(json_object_get(content, "event")),
                        "deployment");
    assert_int_equal(json_integer_value(json_object_get(content, "body_size")), 4);
    assert_true(json_integer_value(json_object_get(content, "received_at")) > 0);
    json_decref(content);
    reading_done(&reading);
    harness_close(&harness);
}

static void what_could_not_be_told_is_news_still(void **state) {
    struct harness harness;

    (void)state;
    harness_open(&harness, ENTRY);
    harness.refuses_news = 1;
    assert_int_equal(post_signed(&harness, "same", "push", "one"), 503);
    assert_int_equal(harness_count(&harness, CHANGED, NULL), 0);
    assert_int_equal(post_signed(&harness, "same", "push", "one"), 202);
    harness_wait(&harness, CHANGED, "h:x");
    harness_close(&harness);
}

static void only_the_events_that_are_named_count(void **state) {
    struct harness harness;

    (void)state;
    harness_open(&harness, ENTRY "events: [push, release]\n");
    assert_int_equal(post_signed(&harness, "a", "ping", "1"), 202);
    assert_int_equal(post_signed(&harness, "b", NULL, NULL), 202);
    assert_int_equal(harness_count(&harness, CHANGED, NULL), 0);
    expect_nothing(&harness);
    assert_int_equal(post_signed(&harness, "c", "release", "1"), 202);
    harness_wait(&harness, CHANGED, "h:x");
    harness_expect(&harness, "h:x", "c");
    harness_close(&harness);
}

static void strange_fields_are_left_out(void **state) {
    char longest[300];
    struct harness harness;

    (void)state;
    memset(longest, 'x', sizeof(longest) - 1);
    longest[sizeof(longest) - 1] = '\0';
    harness_open(&harness, ENTRY "content: signal\n");
    assert_int_equal(post_signed(&harness, "a", "\xff\xfe", longest), 202);

    struct happening *told = harness_wait(&harness, CHANGED, "h:x");

    assert_null(json_object_get(told->metadata, "event"));
    assert_null(json_object_get(told->metadata, "delivery"));
    harness_close(&harness);

    harness_open(&harness, "webhook: /hooks/x\nuri: h:x\nopen: true\n");
    post(&harness, (struct call){"text", {"content-type", "no\x01type/x"}});

    struct reading reading = harness_read(&harness, "h:x");

    assert_null(strchr(reading.mime_type != NULL ? reading.mime_type : "", '\x01'));
    reading_done(&reading);
    harness_close(&harness);
}

static void without_memory_it_may_be_tried_again(void **state) {
    size_t nth = 1;
    int status;

    (void)state;
    memory_count();
    do {
        struct harness harness;

        harness_open(&harness, ENTRY "content: signal\n");
        memory_fail(nth, MEMORY_ONCE);
        status = post_signed(&harness, "a", "push", "one");
        bool failed = memory_failed();
        memory_fail(0, MEMORY_ONCE);
        if (status == 503) {
            assert_true(failed);
            assert_int_equal(harness_count(&harness, CHANGED, NULL), 0);
            assert_int_equal(post_signed(&harness, "a", "push", "one"), 202);
        }
        harness_wait(&harness, CHANGED, "h:x");
        harness_close(&harness);
        if (!failed)
            break;
    } while (++nth < 200);
    assert_true(nth > 3);
    assert_true(nth < 200);
}

/* ---- The entry ---------------------------------------------------------- */

static void an_entry_says_who_may_call(void **state) {
    static const struct {
        const char *yaml, *problem;
    } rows[] = {
        {"webhook: /deploys\nuri: h:x\nsecret: s\n", "/hooks/deploys"},
        {"webhook: /hooks/\nuri: h:x\nsecret: s\n", "/hooks/deploys"},
        {"webhook: /hooks/a/\nuri: h:x\nsecret: s\n", "ends without a slash"},
        {"webhook: /hooks/../mcp\nuri: h:x\nsecret: s\n", "/hooks/deploys"},
        {"webhook: /hooks/a%2fb\nuri: h:x\nsecret: s\n", "/hooks/deploys"},
        {"webhook: /hooks/a?b\nuri: h:x\nsecret: s\n", "/hooks/deploys"},
        {"webhook: /hooks/a\nuri: h:x\n", "secret is missing"},
        {"webhook: /hooks/a\nuri: h:x\nsecret: ''\n", "secret is missing"},
        {"webhook: /hooks/a\nuri: h:x\nsecret: s\nopen: true\n", "be combined"},
        {"webhook: /hooks/a\nuri: h:x\nopen: true\nsignature: bearer\n",
         "does not check signatures"},
        {"webhook: /hooks/a\nuri: h:x\nsecret: s\nsignature: none\n", "`none` requires"},
        {"webhook: /hooks/a\nuri: 'h:{x}'\nsecret: s\n", "no {}"},
        {"webhook: /hooks/a\nsecret: s\n", "needs a uri"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++)
        harness_refuses(rows[i].yaml, rows[i].problem);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_body_is_the_content),
        cmocka_unit_test(whoever_signs_wrong_learns_nothing),
        cmocka_unit_test(a_bearer_brings_the_secret),
        cmocka_unit_test(an_open_one_takes_all),
        cmocka_unit_test(a_delivery_is_told_once),
        cmocka_unit_test(a_wrong_signature_uses_up_no_delivery),
        cmocka_unit_test(the_same_body_is_no_news_but_a_signal_is),
        cmocka_unit_test(what_could_not_be_told_is_news_still),
        cmocka_unit_test(only_the_events_that_are_named_count),
        cmocka_unit_test(strange_fields_are_left_out),
        cmocka_unit_test(an_entry_says_who_may_call),
        cmocka_unit_test(without_memory_it_may_be_tried_again),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("webhook", tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT
 *
 * The endpoints of webhooks over HTTP. Who may call, and what it does, is tested in
 * unit/source/webhook_test.c. */
#include "serve/hooks.h"

#include <poll.h>
#include <stdio.h>

#include "serve/live_internal.h"
#include "unit/serve/scene.h"

#define BEARER "  signature: bearer\n"
#define HOOK "- webhook: /hooks/x\n  uri: h:x\n  secret: s3cret\n" BEARER
#define HOOK_NEW "- webhook: /hooks/x\n  uri: h:x\n  secret: new\n" BEARER
#define OTHER "- webhook: /hooks/y\n  uri: h:y\n  secret: s3cret\n" BEARER

static int request(struct scene *scene, const char *method, const char *path,
                   const char *key, const char *body) {
    struct client client;
    char fields[256] = "";

    if (key != NULL)
        snprintf(fields, sizeof(fields), "Authorization: Bearer %s\r\n", key);
    scene_client(scene, &client);
    client_request(&client, method, path, fields, body);

    int status = client_response(&client);

    client_done(&client);
    return status;
}

static int post(struct scene *scene, const char *path, const char *body) {
    return request(scene, "POST", path, "s3cret", body);
}

static void a_call_reaches_subscribers(void **state) {
    struct client client;
    struct scene scene;

    (void)state;
    scene_open(&scene, NULL, HOOK OTHER);
    scene_client(&scene, &client);
    modern_listen(&client, "{'resourceSubscriptions':['h:x','h:y']}");
    assert_int_equal(post(&scene, "/hooks/x", "first"), 202);
    client_expect(&client, "'uri':'h:x'");
    scene_expect(&scene, "h:x", "first");
    scene_expect(&scene, "h:y", NULL);
    assert_int_equal(post(&scene, "/hooks/y", "second"), 202);
    client_expect(&client, "'uri':'h:y'");
    client_done(&client);
    scene_close(&scene);
}

static void others_are_refused(void **state) {
    struct scene scene;
    char large[200];

    (void)state;
    memset(large, 'x', sizeof(large) - 1);
    large[sizeof(large) - 1] = '\0';
    scene_open(&scene, NULL, HOOK "  max-size: 100\n");
    assert_int_equal(request(&scene, "POST", "/hooks/x", NULL, "body"), 401);
    assert_int_equal(request(&scene, "POST", "/hooks/x", "wrong", "body"), 401);
    assert_int_equal(request(&scene, "GET", "/hooks/x", "s3cret", NULL), 405);
    assert_int_equal(request(&scene, "PUT", "/hooks/x", "s3cret", "body"), 405);
    assert_int_equal(post(&scene, "/hooks/x", large), 413);
    assert_int_equal(post(&scene, "/hooks/none", "body"), 404);
    assert_int_equal(post(&scene, "/hooks/x/", "body"), 404);
    scene_expect(&scene, "h:x", NULL);
    assert_int_equal(post(&scene, "/hooks/x", "body"), 202);
    scene_close(&scene);
}

/* Sends a head that promises a body, and no body. Returns the status. While it waits it
 * runs `loop`, where that is not NULL. */
static int send_head_beside(uv_loop_t *loop, const struct scene *scene, const char *path,
                            const char *fields) {
    struct client client;
    char text[512], connection[256];

    client_init(&client, loop);
    client_connect(&client, scene->port);
    snprintf(text, sizeof(text),
             "POST %s HTTP/1.1\r\nHost: localhost\r\n%sContent-Length: 9\r\n"
             "Expect: 100-continue\r\n\r\n",
             path, fields);
    client_send(&client, text);

    int status = client_response(&client);

    client_header(&client, "Connection", connection);
    assert_string_equal(connection, status == 100 ? "" : "close");
    if (status == 401)
        assert_body(&client, "wrong or missing");
    client_done(&client);
    return status;
}

static int send_head(struct scene *scene, const char *path, const char *fields) {
    return send_head_beside(&scene->loop, scene, path, fields);
}

#define WRONG "Authorization: Bearer s3cre\r\n"
#define RIGHT "Authorization: Bearer s3cret\r\n"
#define SIGNATURE(hex) "X-Hub-Signature-256: sha256=" hex "\r\n"
#define HEX "00112233445566778899aabbccddeeff00112233445566778899AABBCCDDEEFF"

static void a_secret_is_judged_before_the_body_is_sent(void **state) {
    struct scene scene;

    (void)state;
    scene_open(&scene, NULL,
               HOOK "- webhook: /hooks/signed\n  uri: h:s\n  secret: s3cret\n"
                    "- webhook: /hooks/open\n  uri: h:o\n  open: true\n");
    assert_int_equal(send_head(&scene, "/hooks/x", ""), 401);
    SCENE_UNTIL(&scene, strstr(scene.log, "1 call with a wrong or missing") != NULL);
    assert_non_null(strstr(scene.log, "the last from 127.0.0.1"));
    assert_int_equal(send_head(&scene, "/hooks/x", WRONG), 401);
    assert_int_equal(send_head(&scene, "/hooks/x", RIGHT), 100);

    /* of a signature it is known before the body whether it is one */
    assert_int_equal(send_head(&scene, "/hooks/signed", ""), 401);
    assert_int_equal(send_head(&scene, "/hooks/signed", RIGHT), 401);
    assert_int_equal(send_head(&scene, "/hooks/signed", SIGNATURE("zz")), 401);
    assert_int_equal(send_head(&scene, "/hooks/signed", SIGNATURE(HEX HEX)), 401);
    assert_int_equal(send_head(&scene, "/hooks/signed", SIGNATURE(HEX)), 100);
    assert_int_equal(send_head(&scene, "/hooks/open", ""), 100);

    scene_replace(&scene, HOOK_NEW);
    assert_int_equal(send_head(&scene, "/hooks/x", RIGHT), 401);
    assert_int_equal(send_head(&scene, "/hooks/x", "Authorization: Bearer new\r\n"), 100);
    scene_close(&scene);
}

/* Sends a head, then 100,000 bytes when the server asks for them (`waits`), or at once.
 * Returns the last status. */
static int send_large(struct scene *scene, const char *fields, bool waits) {
    enum { LARGE = 100000 };
    struct client client;
    char *text = malloc(LARGE + 512);

    assert_non_null(text);
    scene_client(scene, &client);
    snprintf(text, 512,
             "POST /hooks/x HTTP/1.1\r\nHost: localhost\r\n" RIGHT
             "%sContent-Length: %d\r\n\r\n",
             fields, LARGE);
    client_send(&client, text);
    if (waits)
        assert_int_equal(client_response(&client), 100);
    memset(text, 'x', LARGE);
    text[LARGE] = '\0';
    client_send(&client, text);

    int status = client_response(&client);

    client_done(&client);
    free(text);
    return status;
}

/* As curl sends them, by itself or with -H 'Expect: 100-continue' or -H 'Expect;'. */
static void a_large_body_is_asked_for_where_the_client_waits(void **state) {
    struct scene scene;

    (void)state;
    scene_open(&scene, NULL, HOOK);
    assert_int_equal(send_large(&scene, "Expect: 100-continue\r\n", true), 202);
    assert_int_equal(send_large(&scene, "Expect: 100-Continue\r\n", true), 202);
    assert_int_equal(send_large(&scene, "Expect:\r\n", false), 202);
    assert_int_equal(send_large(&scene, "", false), 202);
    scene_close(&scene);
}

static void endpoints_come_and_go_with_their_entries(void **state) {
    struct scene scene;

    (void)state;
    scene_open(&scene, NULL, HOOK);
    assert_int_equal(post(&scene, "/hooks/y", "body"), 404);
    scene_replace(&scene, HOOK OTHER);
    assert_int_equal(post(&scene, "/hooks/y", "body"), 202);

    /* the same path with another secret: the old entry goes after the new one came */
    scene_replace(&scene, HOOK_NEW OTHER);
    assert_int_equal(post(&scene, "/hooks/x", "body"), 401);
    assert_int_equal(request(&scene, "POST", "/hooks/x", "new", "body"), 202);
    scene_expect(&scene, "h:y", "body"); /* which stayed */
    scene_replace(&scene, OTHER);
    assert_int_equal(post(&scene, "/hooks/x", "body"), 404);
    assert_int_equal(post(&scene, "/hooks/y", "other"), 202);
    scene_close(&scene);
}

/* Sends a call and waits until it is in the queue to the loop, which stands still. */
static void post_to_sleeping_loop(struct scene *scene, struct client *client) {
    struct pollfd woken = {.fd = uv_backend_fd(&scene->loop), .events = POLLIN};

    scene_client(scene, client);
    scene_step(scene);
    assert_int_equal(poll(&woken, 1, 0), 0);
    client_request(client, "POST", "/hooks/x", "Authorization: Bearer s3cret\r\n", "a");
    assert_int_equal(poll(&woken, 1, CLIENT_PATIENCE_MS), 1);
}

/* Calls that are refused by their heads, while the loop of the sources stands still. */
static void refuse_calls(const struct scene *scene, int count) {
    for (int i = 0; i < count; i++)
        assert_int_equal(send_head_beside(NULL, scene, "/hooks/x", WRONG), 401);
}

static size_t tasks_under_way(const struct scene *scene) {
    tdg__task_t *next;
    size_t count = 0;

    for (tdg__task_t *task = tdg__inbox_take_tasks(scene->live->inbox); task != NULL;
         task = next) {
        next = task->next;
        tdg__inbox_post(scene->live->inbox, task);
        count++;
    }
    return count;
}

static void refused_calls_do_not_pile_up_before_a_loop_that_is_held_up(void **state) {
    const tdg_server_opts_t opts = {.workers = 4};
    struct scene scene;

    (void)state;
    scene_open(&scene, &opts, HOOK OTHER);
    scene_step(&scene);
    refuse_calls(&scene, 20);
    assert_int_equal(send_head_beside(NULL, &scene, "/hooks/y", WRONG), 401);
    assert_int_equal(tasks_under_way(&scene), 2); /* one per endpoint */
    SCENE_UNTIL(&scene, tasks_under_way(&scene) == 0);
    assert_non_null(strstr(scene.log, "20 calls with a wrong or missing"));
    assert_non_null(strstr(scene.log, "1 call with a wrong or missing"));
    refuse_calls(&scene, 1);
    assert_int_equal(tasks_under_way(&scene), 1); /* which the end overtakes */
    scene_close(&scene);
}

static void refused_calls_are_reported_after_a_reload(void **state) {
    struct scene scene;

    (void)state;
    scene_open(&scene, NULL, HOOK);
    scene_step(&scene);
    refuse_calls(&scene, 3);
    assert_int_equal(scene_try_replace(&scene, HOOK_NEW), 0);
    refuse_calls(&scene, 2); /* by the new endpoint */
    SCENE_UNTIL(&scene, strstr(scene.log, "3 calls with a wrong or missing") != NULL);
    scene_replace(&scene, OTHER);
    scene_close(&scene);
}

static void a_call_may_come_too_late(void **state) {
    struct client client;
    struct scene scene;

    (void)state;
    scene_open(&scene, NULL, HOOK OTHER);
    post_to_sleeping_loop(&scene, &client);
    assert_int_equal(scene_try_replace(&scene, OTHER), 0);
    assert_int_equal(client_response(&client), 404);
    assert_body(&client, "was removed"); /* the source's word, not the server's */
    client_done(&client);
    scene_close(&scene);
}

static void after_the_end_it_is_refused(void **state) {
    struct client client;
    struct scene scene;

    (void)state;
    scene_open(&scene, NULL, HOOK);
    post_to_sleeping_loop(&scene, &client);
    tdg__live_close(scene.live);
    assert_int_equal(client_response(&client), 503);
    client_done(&client);
    scene_close(&scene);
}

static void memory_may_run_out(void **state) {
    struct scene scene;
    int status;
    size_t nth = 0;

    (void)state;
    memory_count();
    scene_attach(&scene, HOOK);
    do {
        struct client client;

        assert_true(++nth < 1000);
        scene_client(&scene, &client);
        scene_step(&scene); /* the connection is there */
        memory_fail(nth, MEMORY_ONCE);
        client_request(&client, "POST", "/hooks/x", "Authorization: Bearer s3cret\r\n",
                       "body");
        status = client_response(&client);
        memory_fail(0, MEMORY_ONCE);
        assert_true(status == 0 || status == 202 || status == 500 || status == 503);
        client_done(&client);
    } while (status != 202);
    assert_true(nth > 3);
    scene_expect(&scene, "h:x", "body");
    scene_close(&scene);
}

/* What is in force judges a call by its head and as a whole. */
static void expect_secret(struct scene *scene, const char *right, const char *wrong) {
    char fields[64];

    snprintf(fields, sizeof(fields), "Authorization: Bearer %s\r\n", right);
    assert_int_equal(send_head(scene, "/hooks/x", fields), 100);
    assert_int_equal(request(scene, "POST", "/hooks/x", right, "body"), 202);
    snprintf(fields, sizeof(fields), "Authorization: Bearer %s\r\n", wrong);
    assert_int_equal(send_head(scene, "/hooks/x", fields), 401);
    assert_int_equal(request(scene, "POST", "/hooks/x", wrong, "body"), 401);
}

/* Makes each allocation of a reload fail in turn, alone or with all later ones. */
static void reload_without_memory(int how) {
    static const char *const configs[] = {HOOK, HOOK_NEW};
    static const char *const secrets[] = {"s3cret", "new"};
    const size_t blocks = memory_live();
    struct scene scene;
    size_t refused = 0;
    bool failed = true;
    int at = 0;

    scene_attach(&scene, configs[at]);
    for (size_t nth = 1; failed; nth++) {
        assert_true(nth < 1000);
        memory_fail(nth, how);

        int rv = scene_try_replace(&scene, configs[1 - at]);

        failed = memory_failed();
        memory_fail(0, how);
        if (rv == 0)
            at = 1 - at;
        else
            refused++;
        expect_secret(&scene, secrets[at], secrets[1 - at]);
    }
    assert_true(refused > 10);
    scene_close(&scene);
    assert_int_equal(memory_live(), blocks); /* what was prepared in vain is given back */
}

static void a_reload_without_memory_never_mixes_secrets(void **state) {
    (void)state;
    memory_count();
    reload_without_memory(MEMORY_ONCE);
    reload_without_memory(MEMORY_FROM_THEN_ON);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_call_reaches_subscribers),
        cmocka_unit_test(others_are_refused),
        cmocka_unit_test(a_secret_is_judged_before_the_body_is_sent),
        cmocka_unit_test(a_large_body_is_asked_for_where_the_client_waits),
        cmocka_unit_test(endpoints_come_and_go_with_their_entries),
        cmocka_unit_test(refused_calls_do_not_pile_up_before_a_loop_that_is_held_up),
        cmocka_unit_test(refused_calls_are_reported_after_a_reload),
        cmocka_unit_test(a_call_may_come_too_late),
        cmocka_unit_test(after_the_end_it_is_refused),
        cmocka_unit_test(memory_may_run_out), /* counts memory from here on */
        cmocka_unit_test(a_reload_without_memory_never_mixes_secrets),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("hooks", tests, NULL, NULL);
}

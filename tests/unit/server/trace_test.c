/* SPDX-License-Identifier: MIT
 *
 * What is logged step by step, and that nothing is where nobody has asked for it. */
#include <stdio.h>

#include "served.h"
#include "unit/targets.h"

enum { LOG_ROOM = 1 << 16 };

#define SUBSCRIBE(uri)                                                                   \
    "{'jsonrpc':'2.0','id':5,'method':'resources/subscribe','params':{'uri':'" uri "'}}"

struct fixture {
    struct served served;
    struct client one, two;
    pthread_mutex_t lock;
    size_t len;
    char lines[LOG_ROOM]; /* of debug level, each ends with \n */
};

static void write_down(void *user, tdg_log_level_t level, const char *message) {
    struct fixture *f = user;

    if (level != TDG_LOG_DEBUG)
        return;
    pthread_mutex_lock(&f->lock);
    assert_true(f->len + strlen(message) + 2 < LOG_ROOM);
    f->len += (size_t)sprintf(f->lines + f->len, "%s\n", message);
    pthread_mutex_unlock(&f->lock);
}

static bool is_logged(struct fixture *f, const char *text) {
    pthread_mutex_lock(&f->lock);
    bool found = strstr(f->lines, text) != NULL;
    pthread_mutex_unlock(&f->lock);
    return found;
}

/* Waits for a line that holds it. */
#define EXPECT(f, text) WAIT_UNTIL(&(f)->one, is_logged((f), (text)))

static int start(void *user, tdg_server_t *server, const tdg_target_t *target) {
    (void)user, (void)server;
    return strcmp(target->name, "t:late") == 0      ? TDG_WATCH_PENDING
           : strcmp(target->name, "t:absent") == 0  ? TDG_WATCH_ABSENT
           : strcmp(target->name, "t:refused") == 0 ? TDG_ENOTSUP
                                                    : 0;
}

static void stop(void *user, tdg_server_t *server, const tdg_target_t *target) {
    (void)user, (void)server, (void)target;
}

static struct fixture *open_as(void **state, unsigned debug, unsigned flags) {
    struct fixture *f = *state;
    const tdg_server_opts_t opts = {
        .watcher = &(tdg_watcher_t){start, stop, NULL},
        .linger_ms = 1,
        .log = write_down,
        .log_user = f,
        .debug = debug,
        .flags = flags,
    };

    served_open(&f->served, &opts, NULL);
    served_client(&f->served, &f->one);
    served_client(&f->served, &f->two);
    return f;
}

static struct fixture *open_with(void **state, unsigned debug) {
    return open_as(state, debug, 0);
}

static int setup(void **state) {
    struct fixture *f = calloc(1, sizeof(*f));

    if (f == NULL)
        return -1;
    pthread_mutex_init(&f->lock, NULL);
    *state = f;
    return 0;
}

static int teardown(void **state) {
    struct fixture *f = *state;

    client_done(&f->one);
    client_done(&f->two);
    served_close(&f->served);
    pthread_mutex_destroy(&f->lock);
    free(f);
    return 0;
}

/* A legacy session and a modern listen that do all there is to do. */
static void play(struct fixture *f) {
    legacy_initialize(&f->one, LATEST_LEGACY);
    legacy_subscribe(&f->one, "a:1");
    assert_int_equal(legacy_post(&f->one, SUBSCRIBE("b:none")), 200);
    modern_listen(&f->two, "{'resourceSubscriptions':['a:1','t:{x}','b:other',"
                           "'t:refused'],'toolsListChanged':true}");
    served_change(&f->served, "a:1");
    client_expect(&f->two, "'uri':'a:1'");
    legacy_unsubscribe(&f->one, "a:1");
    client_done(&f->two);
    WAIT_COUNTER(&f->served, &f->one, streams, 1);
}

static void clients_come_and_go(void **state) {
    struct fixture *f = open_with(state, TDG_DEBUG_CLIENTS);

    play(f);
    EXPECT(f, "stream 1 (test): connected; version 1, 2025-11-25, http, 127.0.0.1\n");
    EXPECT(f, "stream 2 (test): connected; version 1, 2026-07-28, http, 127.0.0.1\n");
    EXPECT(f, "stream 2 (test): disconnected; subscriptions removed: 3\n");
    assert_false(is_logged(f, "subscribed"));
    assert_false(is_logged(f, "watcher"));
    assert_false(is_logged(f, "change"));
}

static void subscriptions_and_refusals_are_logged(void **state) {
    struct fixture *f = open_with(state, TDG_DEBUG_SUBSCRIPTIONS);

    play(f);
    EXPECT(f, "stream 1 (test): subscribed to list of resources\n");
    EXPECT(f, "stream 1 (test): subscribed to a:1\n");
    EXPECT(f, "stream 1 (test): refused b:none: ");
    EXPECT(f, "stream 1 (test): unsubscribed from a:1\n");
    EXPECT(f, "stream 2 (test): subscribed to template t:{x}\n");
    EXPECT(f, "stream 2 (test): subscribed to list of tools\n");
    EXPECT(f, "stream 2 (test): refused b:other: ");
    EXPECT(f, "stream 2 (test): refused t:refused: ");
    assert_false(is_logged(f, "connected"));
}

static void read_nothing(void *user, tdg_request_t *request, const char *uri) {
    (void)user, (void)uri;
    tdg_request_fail_not_found(request);
}

/* Also those that never came to a target. */
static void every_refusal_is_logged_with_its_reason(void **state) {
    struct fixture *f = open_with(state, TDG_DEBUG_SUBSCRIPTIONS);
    const tdg_resource_t only_read = {
        .uri = "r:1", .name = "r", .read = read_nothing, .not_subscribable = true};

    assert_int_equal(tdg_server_add_resource(f->served.server, &only_read), 0);
    legacy_initialize(&f->one, LATEST_LEGACY);
    legacy_post(&f->one, "{'jsonrpc':'2.0','id':5,'method':'resources/unsubscribe',"
                         "'params':{'uri':'a:1'}}");
    EXPECT(f, "stream 1 (test): refused a:1: not subscribed\n");
    legacy_post(&f->one, "{'jsonrpc':'2.0','id':6,'method':'resources/subscribe',"
                         "'params':{}}");
    EXPECT(f, "stream 1 (test): refused resources/subscribe: Invalid params: Missing uri "
              "parameter\n");
    legacy_post(&f->one,
                "{'jsonrpc':'2.0','id':7,'method':'resources/subscribe','params':"
                "{'uri':'a:1','_meta':{'dev.tidings/options':7}}}");
    EXPECT(f, "stream 1 (test): refused resources/subscribe: Invalid params: "
              "dev.tidings/options in _meta must be an object\n");
    legacy_post(&f->one, SUBSCRIBE("r:1"));
    EXPECT(f, "stream 1 (test): refused r:1: not subscribable\n");
    modern_post(&f->two, "subscriptions/listen", NULL, "'notifications':7");
    EXPECT(f, "\nrefused subscriptions/listen: Invalid params: ");
}

static void a_list_that_a_server_does_not_have_is_logged(void **state) {
    struct fixture *f = *state;
    const tdg_server_opts_t opts = {
        .log = write_down, .log_user = f, .debug = TDG_DEBUG_SUBSCRIPTIONS};

    served_open_empty(&f->served, &opts);
    served_client(&f->served, &f->one);
    served_client(&f->served, &f->two);
    modern_listen(&f->one, "{'toolsListChanged':true,'resourcesListChanged':true}");
    EXPECT(f, "stream 1 (test): refused list of tools: the server has none\n"
              "stream 1 (test): subscribed to list of resources\n");
}

static void where_subscriptions_are_off_each_refusal_is_logged(void **state) {
    struct fixture *f =
        open_as(state, TDG_DEBUG_SUBSCRIPTIONS, TDG_NO_SUBSCRIBE | TDG_NO_LIST_CHANGED);

    legacy_initialize(&f->one, LATEST_LEGACY);
    legacy_post(&f->one, SUBSCRIBE("a:1"));
    EXPECT(f, "stream 1 (test): refused a:1: subscriptions are off\n");
    modern_listen(&f->two,
                  "{'resourceSubscriptions':['a:1'],'resourcesListChanged':true}");
    EXPECT(f, "stream 2 (test): refused list of resources: list changes are off\n"
              "stream 2 (test): refused a:1: subscriptions are off\n");
}

/* What does not exist is found out after the engine has taken it, which is nobody's
 * business: at once, and where the watcher takes its time. */
static void what_does_not_exist_is_logged_once(void **state) {
    struct fixture *f = open_with(state, TDG_DEBUG_SUBSCRIPTIONS);

    legacy_initialize(&f->one, LATEST_LEGACY);
    assert_int_equal(legacy_post(&f->one, SUBSCRIBE("t:absent")), 200);
    assert_body(&f->one, "-32002");
    legacy_send(&f->one, SUBSCRIBE("t:late"));
    WAIT_UNTIL(&f->one, tdg_server_watch_done(f->served.server, FOR_URI("t:late"),
                                              TDG_WATCH_ABSENT) == 0);
    assert_int_equal(client_response(&f->one), 200);
    assert_body(&f->one, "-32002");
    legacy_subscribe(&f->one, "a:1"); /* the last line */
    EXPECT(f, "stream 1 (test): subscribed to a:1\n");
    EXPECT(f, "stream 1 (test): refused t:absent: no such entry\n"
              "stream 1 (test): refused t:late: no such entry\n"
              "stream 1 (test): subscribed to a:1\n");
    assert_false(is_logged(f, "subscribed to t:"));
    assert_false(is_logged(f, "unsubscribed"));
}

static void a_change_is_logged_with_its_subscriptions(void **state) {
    struct fixture *f = open_with(state, TDG_DEBUG_NOTIFICATIONS);

    play(f);
    EXPECT(f, " of a:1: 2 subscriptions in worker 0\n");
    legacy_subscribe(&f->one, "a:1");
    served_change(&f->served, "a:1");
    EXPECT(f, " of a:1: 1 subscription in worker 0\n");
    served_change(&f->served, "c:nobody");
    EXPECT(f, " of c:nobody: 0 subscriptions in worker 0\n");
    assert_int_equal(tdg_server_notify_deleted(f->served.server, "c:nobody", NULL), 0);
    EXPECT(f, " of c:nobody (deleted): 0 subscriptions in worker 0\n");
    assert_false(is_logged(f, "stream"));
}

static void watchers_are_logged(void **state) {
    struct fixture *f = open_with(state, TDG_DEBUG_WATCHERS);

    play(f);
    EXPECT(f, "watcher of a:1: starts\n");
    EXPECT(f, "watcher of a:1: armed\n");
    EXPECT(f, "watcher of list of tools: armed\n");
    EXPECT(f, "watcher of t:refused: failed: ");
    EXPECT(f, "watcher of a:1: stopped\n");
    legacy_send(&f->one, SUBSCRIBE("t:late"));
    EXPECT(f, "watcher of t:late: starts\n");
    assert_false(is_logged(f, "watcher of t:late: armed\n"));
    WAIT_UNTIL(&f->one,
               tdg_server_watch_done(f->served.server, FOR_URI("t:late"), 0) == 0);
    EXPECT(f, "watcher of t:late: armed\n");
    assert_false(is_logged(f, "stream"));
}

/* Lines that a client has a part in are one line each, and none is too long. */
static void names_cannot_forge_lines(void **state) {
    struct fixture *f = open_with(state, TDG_DEBUG_ALL);
    char uri[700], message[1200];

    memset(uri, 'x', sizeof(uri));
    memcpy(uri, "t:", 2);
    uri[sizeof(uri) - 1] = '\0';
    snprintf(message, sizeof(message),
             "{'jsonrpc':'2.0','id':1,'method':'initialize','params':{'protocolVersion':"
             "'" LATEST_LEGACY "','capabilities':{},'clientInfo':{'name':'a\\nb: c%.*s',"
             "'version':'\\u001b[2J'}}}",
             300, uri);
    client_request(&f->one, "POST", "/mcp", "Accept: application/json\r\n", message);
    assert_int_equal(client_response(&f->one), 200);
    EXPECT(f, "stream 1 (a?b: ct:xxx");
    EXPECT(f, "; version ?[2J, ");
    snprintf(message, sizeof(message), "{'resourceSubscriptions':['%s']}", uri);
    modern_listen(&f->two, message);
    EXPECT(f, "stream 2 (test): subscribed to t:xxx");
}

static void names_are_cut_between_characters(void **state) {
    struct fixture *f = open_with(state, TDG_DEBUG_SUBSCRIPTIONS);
    char message[1000] = "{'resourceSubscriptions':['n";

    for (int i = 0; i < 200; i++)
        strcat(message, "é");
    strcat(message, "']}");
    modern_listen(&f->one, message);
    EXPECT(f, "refused néé");
}

static void nothing_is_logged_unless_it_is_asked_for(void **state) {
    struct fixture *f = open_with(state, 0);

    play(f);
    assert_int_equal(f->len, 0);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        CASE(clients_come_and_go),
        CASE(subscriptions_and_refusals_are_logged),
        CASE(every_refusal_is_logged_with_its_reason),
        CASE(a_list_that_a_server_does_not_have_is_logged),
        CASE(where_subscriptions_are_off_each_refusal_is_logged),
        CASE(what_does_not_exist_is_logged_once),
        CASE(a_change_is_logged_with_its_subscriptions),
        CASE(watchers_are_logged),
        CASE(names_cannot_forge_lines),
        CASE(names_are_cut_between_characters),
        CASE(nothing_is_logged_unless_it_is_asked_for),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("trace", tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT
 *
 * subscriptions/listen, watchers, and what is switched off: what is honoured, when it is
 * acknowledged, how it ends. */
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>

#include "clock.h"
#include "served.h"
#include "server/api/server.h"
#include "server/hub/hub.h"
#include "unit/targets.h"

struct fixture {
    struct served served;
    struct client one, two;
    atomic_int starts, stops;
    atomic_int answer;  /* of start(), for targets other than lists */
    const char *spared; /* the target that start() accepts anyhow */
    char last[64];
};

static int start(void *user, tdg_server_t *server, const tdg_target_t *target) {
    struct fixture *f = user;

    (void)server;
    if (f->spared != NULL && strcmp(target->name, f->spared) == 0)
        return 0;
    if (target->kind == TDG_TARGET_LIST && f->answer != TDG_ESTREAMS)
        return 0;
    atomic_fetch_add(&f->starts, 1);
    return f->answer == TDG_ESTREAMS ? TDG_WATCH_PENDING : f->answer;
}

static void stop(void *user, tdg_server_t *server, const tdg_target_t *target) {
    struct fixture *f = user;

    (void)server;
    if (target->kind != TDG_TARGET_LIST)
        atomic_fetch_add(&f->stops, 1);
}

static struct fixture *open_with(void **state, const tdg_server_opts_t *opts) {
    struct fixture *f = *state;

    served_open(&f->served, opts, NULL);
    served_client(&f->served, &f->one);
    served_client(&f->served, &f->two);
    return f;
}

static struct fixture *open_watched(void **state, unsigned workers, int answer) {
    struct fixture *f = *state;
    const tdg_server_opts_t opts = {
        .workers = workers, .linger_ms = 10, .watcher = &(tdg_watcher_t){start, stop, f}};

    f->answer = answer;
    return open_with(state, &opts);
}

static int setup(void **state) {
    *state = calloc(1, sizeof(struct fixture));
    return *state == NULL;
}

static int teardown(void **state) {
    struct fixture *f = *state;

    client_done(&f->one);
    client_done(&f->two);
    served_close(&f->served);
    free(f);
    return 0;
}

static void read_nothing(void *user, tdg_request_t *request, const char *uri) {
    (void)user, (void)uri;
    tdg_request_reply_text(request, "");
}

static void listen_to(struct client *client, const char *notifications) {
    char params[512];

    snprintf(params, sizeof(params), "'notifications':%s", notifications);
    assert_int_equal(modern_post(client, "subscriptions/listen", NULL, params), 200);
}

/* ---- What is honoured --------------------------------------------------- */

static void what_is_not_there_is_left_out(void **state) {
    struct fixture *f = open_with(state, NULL);

    modern_listen(&f->one, "{'resourceSubscriptions':['a:1','b:none','no uri','t:9',"
                           "'t:{x}','u:{x}','a:1']}");
    assert_true(has(f->one.event, "'resourceSubscriptions':['a:1','t:9','t:{x}']"));
}

static void add_mute(struct fixture *f, const char *uri) {
    const tdg_resource_t resource = {
        .uri = uri, .name = uri, .read = read_nothing, .not_subscribable = true};

    assert_int_equal(tdg_server_add_resource(f->served.server, &resource), 0);
}

static void what_is_left_out_has_a_reason(void **state) {
    struct fixture *f = open_with(state, NULL);

    add_mute(f, "a:mute");
    modern_listen(&f->one, "{'resourceSubscriptions':['a:1','b:none','no uri','a:mute',"
                           "'u:{x}','b:none']}");
    assert_true(has(f->one.event, "'resourceSubscriptions':['a:1']"));
    assert_true(has(f->one.event,
                    "'dev.tidings/refused':{'b:none':'not_found',"
                    "'no uri':'invalid_uri_format','a:mute':'not_subscribable',"
                    "'u:{x}':'invalid_uri_format'}"));
    modern_listen(&f->two, "{'resourceSubscriptions':['a:1']}");
    assert_false(has(f->two.event, "dev.tidings/refused"));
}

static void a_template_may_be_escaped(void **state) {
    struct fixture *f = open_with(state, NULL);

    modern_listen(&f->one, "{'resourceSubscriptions':['t:%7Bx%7d']}");
    assert_true(has(f->one.event, "'resourceSubscriptions':['t:%7Bx%7d']"));
    served_change(&f->served, "t:new");
    client_expect(&f->one, "'uri':'t:new'");
}

static void any_template_is_fine_where_that_is_switched_on(void **state) {
    const tdg_server_opts_t opts = {.flags = TDG_ANY_TEMPLATE};
    struct fixture *f = open_with(state, &opts);

    modern_listen(&f->one, "{'resourceSubscriptions':['u:{x}','u:1']}");
    assert_true(has(f->one.event, "'resourceSubscriptions':['u:{x}']"));
    served_change(&f->served, "u:2");
    client_expect(&f->one, "'uri':'u:2'");
}

static void a_bad_filter_is_the_clients_fault(void **state) {
    struct fixture *f = open_with(state, NULL);

    assert_int_equal(modern_post(&f->one, "subscriptions/listen", NULL,
                                 "'notifications':{'resourceSubscriptions':[1]}"),
                     400);
    assert_body(&f->one, "-32602");
}

static void lists_are_told_of(void **state) {
    const tdg_tool_t tool = {.name = "new", .call = NULL};
    struct fixture *f = open_with(state, NULL);

    modern_listen(&f->one, "{'toolsListChanged':true}");
    modern_listen(&f->two, "{'resourcesListChanged':true,'promptsListChanged':true}");
    assert_int_equal(tdg_server_add_tool(f->served.server, &tool), TDG_EINVAL);
    assert_int_equal(tdg_server_remove_tool(f->served.server, "none"), TDG_ENOTFOUND);
    assert_int_equal(tdg_server_remove_tool(f->served.server, "echo"), 0);
    client_expect(&f->one, "notifications/tools/list_changed");
    assert_int_equal(tdg_server_remove_prompt(f->served.server, "p"), 0);
    client_expect(&f->two, "notifications/prompts/list_changed");
    assert_int_equal(tdg_server_remove_template(f->served.server, "t:{x}"), 0);
    client_expect(&f->two, "notifications/resources/list_changed");
}

#define ALL_LISTS                                                                        \
    "{'toolsListChanged':true,'promptsListChanged':true,'resourcesListChanged':true}"

static void lists_that_are_not_advertised_are_not_acknowledged(void **state) {
    struct fixture *f = *state;

    served_open_empty(&f->served, NULL);
    served_client(&f->served, &f->one);
    served_client(&f->served, &f->two);
    modern_listen(&f->one, ALL_LISTS);
    assert_true(has(f->one.event, "'notifications':{'resourcesListChanged':true}"));
    assert_int_equal(modern_post(&f->two, "server/discover", NULL, NULL), 200);
    assert_false(body_has(&f->two, "'tools'"));
    assert_false(body_has(&f->two, "'prompts'"));
}

static void lists_that_may_fill_later_are_advertised(void **state) {
    const tdg_server_opts_t opts = {.flags = TDG_OFFERS_TOOLS | TDG_OFFERS_PROMPTS};
    struct fixture *f = *state;

    served_open_empty(&f->served, &opts);
    served_client(&f->served, &f->one);
    served_client(&f->served, &f->two);
    modern_listen(&f->one, ALL_LISTS);
    assert_true(has(f->one.event, "'toolsListChanged':true,'promptsListChanged':true"));
    assert_int_equal(modern_post(&f->two, "tools/list", NULL, NULL), 200);
    assert_body(&f->two, "'tools':[]");
    assert_int_equal(modern_post(&f->two, "server/discover", NULL, NULL), 200);
    assert_body(&f->two, "'tools':{'listChanged':true},'prompts':{'listChanged':true}");
}

static void call_nothing(void *user, tdg_request_t *request, const json_t *arguments) {
    (void)user, (void)arguments;
    tdg_request_reply_text(request, "");
}

static void add_tool(struct fixture *f, const char *name) {
    const tdg_tool_t tool = {.name = name, .call = call_nothing};

    assert_int_equal(tdg_server_add_tool(f->served.server, &tool), 0);
}

static void add_prompt(struct fixture *f, const char *name) {
    const tdg_prompt_t prompt = {.name = name, .get = call_nothing};

    assert_int_equal(tdg_server_add_prompt(f->served.server, &prompt), 0);
}

static void add_resource(struct fixture *f, const char *uri) {
    const tdg_resource_t resource = {.uri = uri, .name = uri, .read = read_nothing};

    assert_int_equal(tdg_server_add_resource(f->served.server, &resource), 0);
}

/* A session asks for the lists that were advertised when it was initialised, as a listen
 * for those of its time. What was advertised once stays so. */
static void both_eras_can_watch_the_same_lists(void **state) {
    struct fixture *f = *state;
    struct client early, late;

    served_open_empty(&f->served, NULL);
    served_client(&f->served, &f->one);
    served_client(&f->served, &f->two);
    legacy_initialize(&f->one, LATEST_LEGACY);
    served_client(&f->served, &early);
    legacy_join(&early, &f->one);
    assert_int_equal(legacy_get(&early, NULL), 200);
    add_tool(f, "first");
    assert_int_equal(tdg_server_remove_tool(f->served.server, "first"), 0);
    add_prompt(f, "first");
    assert_int_equal(tdg_server_remove_prompt(f->served.server, "first"), 0);

    legacy_initialize(&f->two, LATEST_LEGACY);
    served_client(&f->served, &late);
    legacy_join(&late, &f->two);
    assert_int_equal(legacy_get(&late, NULL), 200);
    modern_listen(&f->one, ALL_LISTS);
    assert_true(has(f->one.event, "'notifications':{'toolsListChanged':true,"
                                  "'promptsListChanged':true,'resources"));
    add_tool(f, "second");
    client_expect(&f->one, "notifications/tools/list_changed");
    client_expect(&late, "notifications/tools/list_changed");
    add_prompt(f, "second");
    client_expect(&f->one, "notifications/prompts/list_changed");
    client_expect(&late, "notifications/prompts/list_changed");

    add_resource(f, "a:1");
    client_expect(&early, "notifications/resources/list_changed");
    client_done(&early);
    client_done(&late);
}

/* ---- What was missed ---------------------------------------------------- */

static void what_changed_lately_is_told_of_lists_too(void **state) {
    struct fixture *f = open_with(state, NULL);

    add_tool(f, "first");
    modern_listen_with(&f->one, "'dev.tidings/sinceMs':60000",
                       "{'toolsListChanged':true}");
    client_expect(&f->one, "notifications/tools/list_changed");
}

static void a_cursor_that_is_not_known_is_not_resumed(void **state) {
    static const char *const asked[] = {"{'resourceSubscriptions':['a:1']}",
                                        "{'toolsListChanged':true}"};
    struct fixture *f = open_with(state, NULL);
    char known[64], meta[128];

    for (size_t i = 0; i < COUNT(asked); i++) {
        client_connect(&f->one, f->served.port);
        modern_listen_with(&f->one, "'dev.tidings/cursor':'1234-5'", asked[i]);
        assert_true(has(f->one.event, "'dev.tidings/resumed':false"));
        client_message(&f->one); /* it counts as changed */
        const char *at = strstr(f->one.event, "dev.tidings/cursor\":\"");
        assert_non_null(at);
        snprintf(known, sizeof(known), "%.*s", (int)strcspn(at + 21, "\""), at + 21);

        snprintf(meta, sizeof(meta), "'dev.tidings/cursor':'%s'", known);
        client_connect(&f->one, f->served.port);
        modern_listen_with(&f->one, meta, asked[i]);
        assert_true(has(f->one.event, "'dev.tidings/resumed':true"));
    }
}

static void a_cursor_that_was_never_given_out_is_not_resumed(void **state) {
    struct fixture *f = open_with(state, NULL);
    tdg__hub_t *hub = f->served.server->hub;
    uint64_t last = tdg__hub_last_number(hub);
    char meta[128];

    served_change(&f->served, "a:1");
    assert_true(tdg__hub_last_number(hub) > last);
    snprintf(meta, sizeof(meta), "'dev.tidings/cursor':'%016" PRIx64 "-%" PRIu64 "'",
             tdg__hub_epoch(hub), tdg__hub_last_number(hub) + 1000);
    modern_listen_with(&f->one, meta, "{'resourceSubscriptions':['a:1']}");
    assert_true(has(f->one.event, "'dev.tidings/resumed':false"));
    client_expect(&f->one, "'uri':'a:1'");
}

/* Nor where nothing of it had to be assumed. */
static void a_cursor_that_is_not_known_is_not_resumed_for_nothing(void **state) {
    struct fixture *f = open_with(state, NULL);

    modern_listen_with(&f->one, "'dev.tidings/cursor':'1234-5'",
                       "{'resourceSubscriptions':['no URI']}");
    assert_true(has(f->one.event, "'dev.tidings/resumed':false"));
    client_connect(&f->two, f->served.port);
    modern_listen_with(&f->two,
                       "'dev.tidings/cursor':'?',"
                       "'dev.tidings/fresh':{'resourceSubscriptions':['a:1']}",
                       "{'resourceSubscriptions':['a:1']}");
    assert_true(has(f->two.event, "'dev.tidings/resumed':false"));
}

/* ---- What is switched off ----------------------------------------------- */

static void no_subscribe(void **state) {
    const tdg_server_opts_t opts = {.flags = TDG_NO_SUBSCRIBE};
    struct fixture *f = open_with(state, &opts);

    listen_to(&f->one, "{'resourceSubscriptions':['a:1'],'toolsListChanged':true}");
    client_expect(&f->one, "subscriptions/acknowledged");
    assert_false(has(f->one.event, "a:1"));
    served_change(&f->served, "a:1");
    assert_null(client_event_within(&f->one, 50));
    assert_int_equal(modern_post(&f->two, "server/discover", NULL, NULL), 200);
    assert_false(body_has(&f->two, "'subscribe':true"));
    legacy_initialize(&f->two, LATEST_LEGACY);
    legacy_post(&f->two, "{'jsonrpc':'2.0','id':1,'method':'resources/subscribe',"
                         "'params':{'uri':'a:1'}}");
    assert_body(&f->two, "-32004");
}

static void no_list_changed(void **state) {
    const tdg_server_opts_t opts = {.flags = TDG_NO_LIST_CHANGED};
    struct fixture *f = open_with(state, &opts);

    listen_to(&f->one, "{'resourceSubscriptions':['a:1'],'toolsListChanged':true}");
    client_expect(&f->one, "subscriptions/acknowledged");
    assert_false(has(f->one.event, "'toolsListChanged':true"));
    assert_int_equal(tdg_server_remove_tool(f->served.server, "echo"), 0);
    served_change(&f->served, "a:1");
    client_expect(&f->one, "'uri':'a:1'");
    assert_int_equal(modern_post(&f->two, "server/discover", NULL, NULL), 200);
    assert_false(body_has(&f->two, "'listChanged':true"));
}

static void no_legacy(void **state) {
    const tdg_server_opts_t opts = {.flags = TDG_NO_LEGACY};
    struct fixture *f = open_with(state, &opts);

    client_request(&f->one, "POST", "/mcp", NULL,
                   "{'jsonrpc':'2.0','id':1,'method':'initialize','params':{"
                   "'protocolVersion':'2025-11-25','capabilities':{},"
                   "'clientInfo':{'name':'c','version':'1'}}}");
    assert_int_equal(client_response(&f->one), 400);
    client_request(&f->one, "GET", "/mcp", NULL, NULL);
    assert_int_equal(client_response(&f->one), 405);
    client_request(&f->one, "GET", "/sse", NULL, NULL);
    assert_int_equal(client_response(&f->one), 404);
    assert_int_equal(modern_post(&f->one, "server/discover", NULL, NULL), 200);
    assert_false(body_has(&f->one, "2025-11-25"));
}

static void no_modern(void **state) {
    const tdg_server_opts_t opts = {.flags = TDG_NO_MODERN};
    struct fixture *f = open_with(state, &opts);

    assert_int_equal(modern_post(&f->one, "server/discover", NULL, NULL), 400);
    legacy_initialize(&f->one, "2026-07-28");
    assert_int_equal(legacy_post(&f->one, "{'jsonrpc':'2.0','id':1,'method':'ping'}"),
                     200);
}

static void no_logging(void **state) {
    const tdg_server_opts_t opts = {.flags = TDG_NO_LOGGING};
    struct fixture *f = open_with(state, &opts);

    assert_int_equal(modern_post(&f->two, "server/discover", NULL, NULL), 200);
    assert_false(body_has(&f->two, "'logging'"));
    legacy_initialize(&f->one, LATEST_LEGACY);
    assert_int_equal(legacy_post(&f->one, "{'jsonrpc':'2.0','id':1,'method':"
                                          "'logging/setLevel','params':{'level':"
                                          "'debug'}}"),
                     200);
    assert_body(&f->one, "-32601");
    legacy_send(&f->one, HOLD);
    tdg_request_t *request = served_take(&f->served, &f->one);
    tdg_request_log(request, TDG_LOG_EMERGENCY, NULL, json_string("said"));
    tdg_request_reply_text(request, "done");
    assert_int_equal(client_response(&f->one), 200);
    assert_false(f->one.chunked);
}

/* ---- Watchers ----------------------------------------------------------- */

static void somebody_watches_while_somebody_listens(void **state) {
    struct fixture *f = open_watched(state, 3, 0);

    modern_listen(&f->one, "{'resourceSubscriptions':['a:1']}");
    modern_listen(&f->two, "{'resourceSubscriptions':['a:1']}");
    assert_int_equal(f->starts, 1);
    served_change(&f->served, "a:1");
    client_expect(&f->one, "'uri':'a:1'");
    client_expect(&f->two, "'uri':'a:1'");
    client_reset(&f->one);
    client_reset(&f->two);
    WAIT_UNTIL(&f->one, f->stops == 1);
    assert_int_equal(f->starts, 1);
}

static void waits_for_its_watcher(void **state) {
    struct fixture *f = open_watched(state, 3, TDG_WATCH_PENDING);

    listen_to(&f->one, "{'resourceSubscriptions':['a:1']}");
    listen_to(&f->two, "{'resourceSubscriptions':['a:1','t:{x}']}");
    WAIT_UNTIL(&f->one, f->starts == 2);
    served_change(&f->served, "a:1"); /* is kept until the acknowledgement */
    assert_null(client_message_within(&f->one, 50));
    assert_int_equal(tdg_server_watch_done(f->served.server, FOR_URI("a:1"), 0), 0);
    client_expect(&f->one, "subscriptions/acknowledged");
    client_expect(&f->one, "'uri':'a:1'");
    assert_null(client_message_within(&f->two, 50)); /* one of its two is missing */
    assert_int_equal(tdg_server_watch_done(f->served.server, FOR_TEMPLATE("t:{x}"), 0),
                     0);
    client_expect(&f->two, "subscriptions/acknowledged");
    client_expect(&f->two, "'uri':'a:1'");
    assert_int_equal(tdg_server_watch_done(f->served.server, FOR_TEMPLATE("t:{x}"), 0),
                     TDG_ENOTFOUND);
    assert_int_equal(tdg_server_watch_done(f->served.server, FOR_URI("a:1"), 7),
                     TDG_EINVAL);
}

static void a_watcher_that_fails_is_left_out(void **state) {
    struct fixture *f = open_watched(state, 2, TDG_WATCH_PENDING);

    listen_to(&f->one, "{'resourceSubscriptions':['a:1','a:2']}");
    WAIT_UNTIL(&f->one, f->starts == 2);
    assert_int_equal(tdg_server_watch_done(f->served.server, FOR_URI("a:1"), TDG_EENDED),
                     0);
    assert_int_equal(tdg_server_watch_done(f->served.server, FOR_URI("a:2"), 0), 0);
    client_expect(&f->one, "subscriptions/acknowledged");
    assert_true(has(f->one.event, "'resourceSubscriptions':['a:2']"));
    assert_true(has(f->one.event, "refused':{'a:1':'subscription_failed'}"));
    served_change(&f->served, "a:1");
    served_change(&f->served, "a:2");
    client_expect(&f->one, "'uri':'a:2'");
}

static void a_watcher_that_refuses_is_left_out(void **state) {
    struct fixture *f = open_watched(state, 2, TDG_EENDED);

    modern_listen(&f->one, "{'resourceSubscriptions':['a:1']}");
    assert_true(has(f->one.event, "'resourceSubscriptions':[]"));
    legacy_initialize(&f->two, LATEST_LEGACY);
    legacy_post(&f->two, "{'jsonrpc':'2.0','id':1,'method':'resources/subscribe',"
                         "'params':{'uri':'a:1'}}");
    assert_body(&f->two, "-32006");
}

static const int all_codes[] = {
#define CODE(name, code, text) TDG_##name,
    TDG_ERROR_MAP(CODE)
#undef CODE
};

/* Whatever it is called: also codes that mean something else to the engine, such as that
 * the client's options are wrong, and those that are none of ours. */
static void every_code_of_start_refuses_its_target_alone(void **state) {
    struct fixture *f = *state;
    const size_t count = sizeof(all_codes) / sizeof(all_codes[0]);

    f->spared = "a:2";
    open_watched(state, 1, 0);
    legacy_initialize(&f->two, LATEST_LEGACY);
    for (size_t i = 0; i <= count; i++) {
        int code = i < count ? all_codes[i] : -12345;

        if (code == TDG_ESTREAMS) /* which is `start`'s own */
            continue;
        f->answer = code;
        modern_listen(&f->one, "{'resourceSubscriptions':['a:1','a:2']}");
        assert_true(has(f->one.event, "'resourceSubscriptions':['a:2']"));
        client_connect(&f->one, f->served.port);
        legacy_post(&f->two, "{'jsonrpc':'2.0','id':1,'method':'resources/subscribe',"
                             "'params':{'uri':'a:1'}}");
        assert_body(&f->two, code == TDG_ENOTSUP     ? "'not_subscribable'"
                             : code == TDG_ENOTFOUND ? "-32002"
                                                     : "-32006");
    }
}

static void every_code_of_an_answer_refuses_its_target_alone(void **state) {
    struct fixture *f = *state;
    const size_t count = sizeof(all_codes) / sizeof(all_codes[0]);

    f->spared = "a:2";
    open_watched(state, 1, TDG_WATCH_PENDING);
    for (size_t i = 0; i <= count; i++) {
        int code = i < count ? all_codes[i] : -12345;
        int before = f->starts;

        listen_to(&f->one, "{'resourceSubscriptions':['a:1','a:2']}");
        WAIT_UNTIL(&f->one, f->starts == before + 1);
        assert_int_equal(tdg_server_watch_done(f->served.server, FOR_URI("a:1"), code),
                         0);
        client_expect(&f->one, "subscriptions/acknowledged");
        assert_true(has(f->one.event, "'resourceSubscriptions':['a:2']"));
        client_connect(&f->one, f->served.port);
    }
}

/* A list whose watcher fails is not acknowledged either. */
static void a_list_whose_watcher_fails_is_left_out(void **state) {
    struct fixture *f = open_watched(state, 1, TDG_ESTREAMS);

    listen_to(&f->one, "{'toolsListChanged':true,'promptsListChanged':true}");
    WAIT_UNTIL(&f->one, f->starts == 2);
    assert_int_equal(
        tdg_server_watch_done(f->served.server, FOR_LIST("tools"), TDG_EENDED), 0);
    assert_int_equal(tdg_server_watch_done(f->served.server, FOR_LIST("prompts"), 0), 0);
    client_expect(&f->one, "subscriptions/acknowledged");
    assert_true(has(f->one.event, "'promptsListChanged':true"));
    assert_false(has(f->one.event, "'toolsListChanged':true"));
}

/* What a name looks like says nothing: the watcher of the URI is another one than that of
 * the list. */
static void a_uri_may_look_like_a_list(void **state) {
    const tdg_resource_t odd = {.uri = "list:tools", .name = "odd", .read = read_nothing};
    struct fixture *f = open_watched(state, 1, TDG_ESTREAMS);

    assert_int_equal(tdg_server_add_resource(f->served.server, &odd), 0);
    listen_to(&f->one,
              "{'toolsListChanged':true,'resourceSubscriptions':['list:tools']}");
    WAIT_UNTIL(&f->one, f->starts == 2);
    assert_int_equal(tdg_server_watch_done(f->served.server, FOR_URI("list:tools"), 0),
                     0);
    assert_int_equal(tdg_server_watch_done(f->served.server, FOR_URI("list:tools"), 0),
                     TDG_ENOTFOUND);
    assert_int_equal(
        tdg_server_watch_done(f->served.server, FOR_LIST("tools"), TDG_EENDED), 0);
    client_expect(&f->one, "subscriptions/acknowledged");
    assert_true(has(f->one.event, "'resourceSubscriptions':['list:tools']"));
    assert_false(has(f->one.event, "'toolsListChanged':true"));
    served_change(&f->served, "list:tools");
    client_expect(&f->one, "'uri':'list:tools'");
}

static void a_legacy_subscribe_waits_for_its_watcher(void **state) {
    struct fixture *f = open_watched(state, 2, TDG_WATCH_PENDING);

    legacy_initialize(&f->one, LATEST_LEGACY);
    legacy_join(&f->two, &f->one);
    assert_int_equal(legacy_get(&f->two, NULL), 200);
    legacy_send(&f->one, "{'jsonrpc':'2.0','id':1,'method':'resources/subscribe',"
                         "'params':{'uri':'a:1'}}");
    WAIT_UNTIL(&f->one, f->starts == 1);
    served_change(&f->served, "a:1");
    assert_int_equal(client_response_within(&f->one, 50), -1);
    assert_int_equal(tdg_server_watch_done(f->served.server, FOR_URI("a:1"), 0), 0);
    assert_int_equal(client_response(&f->one), 200);
    assert_body(&f->one, "'result':{}");
    client_expect(&f->two, "'uri':'a:1'");

    legacy_send(&f->one, "{'jsonrpc':'2.0','id':2,'method':'resources/subscribe',"
                         "'params':{'uri':'a:2'}}");
    WAIT_UNTIL(&f->one, f->starts == 2);
    assert_int_equal(tdg_server_watch_done(f->served.server, FOR_URI("a:2"), TDG_EENDED),
                     0);
    assert_int_equal(client_response(&f->one), 200);
    assert_body(&f->one, "-32006");
}

#define SUBSCRIBE(uri)                                                                   \
    "{'jsonrpc':'2.0','id':1,'method':'resources/subscribe','params':{'uri':'" uri "'}}"
#define AWAIT(uri)                                                                       \
    "{'jsonrpc':'2.0','id':2,'method':'resources/subscribe','params':{'uri':'" uri "',"  \
    "'_meta':{'dev.tidings/options':{'awaitCreation':true}}}}"

/* A session on f->one whose stream is f->two. */
static void open_session(struct fixture *f) {
    legacy_initialize(&f->one, LATEST_LEGACY);
    legacy_join(&f->two, &f->one);
    assert_int_equal(legacy_get(&f->two, NULL), 200);
}

static void a_legacy_subscribe_to_what_does_not_exist_is_not_found(void **state) {
    struct fixture *f = open_watched(state, 2, TDG_WATCH_ABSENT);

    open_session(f);
    assert_int_equal(legacy_post(&f->one, SUBSCRIBE("t:9")), 200);
    assert_body(&f->one, "'code':-32002");
    assert_body(&f->one, "'data':{'uri':'t:9'}");
    WAIT_COUNTER(&f->served, &f->one, subscriptions, 3); /* the lists */
    served_change(&f->served, "t:9");
    assert_null(client_message_within(&f->two, 50));
    WAIT_UNTIL(&f->one, f->stops == 1);
}

static void who_awaits_a_creation_is_told_of_it(void **state) {
    struct fixture *f = open_watched(state, 2, TDG_WATCH_ABSENT);

    open_session(f);
    assert_int_equal(legacy_post(&f->one, AWAIT("t:9")), 200);
    assert_body(&f->one, "'result':{'_meta':{'dev.tidings/cursor':");
    assert_false(has(f->one.body, "dev.tidings/resumed")); /* there was no cursor */
    served_change(&f->served, "t:9");
    client_expect(&f->two, "'uri':'t:9'");
}

/* Whoever watches it already makes no difference: neither the other session, nor the
 * worker, nor that nobody asks the watcher again. */
static void what_has_come_and_gone_since_is_known(void **state) {
    struct fixture *f = open_watched(state, 3, TDG_WATCH_ABSENT);
    struct client third;

    open_session(f);
    assert_int_equal(legacy_post(&f->one, AWAIT("t:9")), 200);
    served_client(&f->served, &third);
    legacy_initialize(&third, LATEST_LEGACY);
    assert_int_equal(legacy_post(&third, SUBSCRIBE("t:9")), 200);
    assert_body(&third, "-32002");

    served_change(&f->served, "t:9");
    assert_int_equal(legacy_post(&third, SUBSCRIBE("t:9")), 200);
    assert_body(&third, "'result':{}");
    assert_int_equal(tdg_server_notify_deleted(f->served.server, "t:9", NULL), 0);
    assert_int_equal(legacy_post(&third, SUBSCRIBE("t:9")), 200); /* it has it already */
    assert_body(&third, "'result':{}");
    legacy_unsubscribe(&third, "t:9");
    assert_int_equal(legacy_post(&third, SUBSCRIBE("t:9")), 200);
    assert_body(&third, "-32002");
    assert_int_equal(f->starts, 1);
    client_done(&third);
}

/* Both come while the watcher still looks. */
static void who_awaits_and_who_does_not_may_wait_together(void **state) {
    struct fixture *f = open_watched(state, 1, TDG_WATCH_PENDING);

    open_session(f);
    client_connect(&f->two, f->served.port);
    legacy_send(&f->one, SUBSCRIBE("t:9"));
    WAIT_UNTIL(&f->one, f->starts == 1);
    legacy_send(&f->two, AWAIT("t:9"));
    WAIT_COUNTER(&f->served, &f->one, requests, 4);
    assert_int_equal(
        tdg_server_watch_done(f->served.server, FOR_URI("t:9"), TDG_WATCH_ABSENT), 0);
    assert_int_equal(client_response(&f->one), 200);
    assert_body(&f->one, "-32002");
    assert_int_equal(client_response(&f->two), 200);
    assert_body(&f->two, "'result':{'_meta'");
    WAIT_COUNTER(&f->served, &f->one, subscriptions, 4);
}

static void a_listen_takes_what_does_not_exist_yet(void **state) {
    struct fixture *f = open_watched(state, 1, TDG_WATCH_ABSENT);

    modern_listen(&f->one, "{'resourceSubscriptions':['t:9']}");
    assert_true(has(f->one.event, "'resourceSubscriptions':['t:9']"));
    served_change(&f->served, "t:9");
    client_expect(&f->one, "'uri':'t:9'");
}

/* A cursor of another server: what it missed is that the resource is gone. */
static void what_was_deleted_meanwhile_is_told_as_that(void **state) {
    struct fixture *f = open_watched(state, 1, TDG_WATCH_ABSENT);

    open_session(f);
    assert_int_equal(legacy_post(&f->one,
                                 "{'jsonrpc':'2.0','id':2,'method':'resources/subscribe',"
                                 "'params':{'uri':'t:9','_meta':{'dev.tidings/cursor':"
                                 "'0123456789abcdef-7','dev.tidings/options':"
                                 "{'awaitCreation':true}}}}"),
                     200);
    assert_body(&f->one, "'result':{'_meta'");
    client_expect(&f->two, "'change_type':'deleted'");
}

/* After ten seconds the subscription counts, and something may have changed meanwhile. */
static void a_watcher_that_never_answers_is_not_waited_for(void **state) {
    struct fixture *f = open_watched(state, 3, TDG_WATCH_PENDING);

    listen_to(&f->one, "{'resourceSubscriptions':['a:1']}");
    legacy_initialize(&f->two, LATEST_LEGACY);
    legacy_send(&f->two, "{'jsonrpc':'2.0','id':1,'method':'resources/subscribe',"
                         "'params':{'uri':'a:1'}}");
    WAIT_UNTIL(&f->one, f->starts == 1);
    assert_null(client_message_within(&f->one, 10));
    clock_pass(10000);
    client_expect(&f->one, "subscriptions/acknowledged");
    assert_true(has(f->one.event, "'resourceSubscriptions':['a:1']"));
    assert_int_equal(client_response(&f->two), 200);
    assert_body(&f->two, "'result':{}");
    served_change(&f->served, "a:1");
    client_expect(&f->one, "'uri':'a:1'");
}

/* ---- Ends --------------------------------------------------------------- */

static void a_stream_has_its_time(void **state) {
    const tdg_server_opts_t opts = {.stream_lifetime_ms = 60, .retry_ms = 5};
    struct fixture *f = open_with(state, &opts);

    modern_listen(&f->one, "{'resourceSubscriptions':['a:1']}");
    client_expect(&f->one, "'resultType':'complete'");
    client_expect_end(&f->one);
    legacy_initialize(&f->two, LATEST_LEGACY);
    assert_int_equal(legacy_get(&f->two, NULL), 200);
    client_expect_end(&f->two);
}

/* Its watcher has not answered when its time is over. */
static void a_stream_that_was_never_acknowledged_fails(void **state) {
    struct fixture *f = *state;
    const tdg_server_opts_t opts = {.stream_lifetime_ms = 100,
                                    .watcher = &(tdg_watcher_t){start, stop, f}};

    f->answer = TDG_WATCH_PENDING;
    open_with(state, &opts);
    listen_to(&f->one, "{'resourceSubscriptions':['a:1']}");
    client_expect(&f->one, "'message':'The stream has ended before it was acknowledged'");
    client_expect_end(&f->one);
}

static void a_server_that_stops_says_so_before_an_acknowledgement(void **state) {
    struct fixture *f = open_watched(state, 1, TDG_WATCH_PENDING);

    listen_to(&f->one, "{'resourceSubscriptions':['a:1']}");
    tdg_server_stop_soon(f->served.server);
    client_expect(&f->one, "'message':'The server is stopping'");
    client_expect_end(&f->one);
}

static void subscriptions_of_a_stream_have_a_limit(void **state) {
    const tdg_server_opts_t opts = {.max_subscriptions = 4};
    struct fixture *f = open_with(state, &opts);

    modern_listen(&f->one, "{'resourceSubscriptions':['t:1','t:2','t:3','t:4','t:5']}");
    assert_true(has(f->one.event, "['t:1','t:2','t:3','t:4']"));
    legacy_initialize(&f->two, LATEST_LEGACY); /* has three lists */
    legacy_subscribe(&f->two, "a:1");
    legacy_post(&f->two, "{'jsonrpc':'2.0','id':1,'method':'resources/subscribe',"
                         "'params':{'uri':'a:2'}}");
    assert_body(&f->two, "-32006");
}

static void connections_have_a_limit(void **state) {
    const tdg_server_opts_t opts = {.max_connections = 2};
    struct fixture *f = open_with(state, &opts);
    struct client third;

    modern_listen(&f->one, "{'resourceSubscriptions':['a:1']}");
    modern_listen(&f->two, "{'resourceSubscriptions':['a:1']}");
    served_client(&f->served, &third);
    assert_int_equal(client_response(&third), 503);
    client_done(&third);
}

static void a_stream_that_goes_leaves_nothing(void **state) {
    struct fixture *f = open_with(state, NULL);

    modern_listen(&f->one, "{'resourceSubscriptions':['a:1','a:2']}");
    WAIT_COUNTER(&f->served, &f->two, subscriptions, 2);
    client_reset(&f->one);
    WAIT_COUNTER(&f->served, &f->two, subscriptions, 0);
    WAIT_COUNTER(&f->served, &f->two, streams, 0);
    WAIT_COUNTER(&f->served, &f->two, connections, 1);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        CASE(what_is_not_there_is_left_out),
        CASE(what_is_left_out_has_a_reason),
        CASE(a_template_may_be_escaped),
        CASE(any_template_is_fine_where_that_is_switched_on),
        CASE(a_bad_filter_is_the_clients_fault),
        CASE(lists_are_told_of),
        CASE(lists_that_are_not_advertised_are_not_acknowledged),
        CASE(lists_that_may_fill_later_are_advertised),
        CASE(both_eras_can_watch_the_same_lists),
        CASE(what_changed_lately_is_told_of_lists_too),
        CASE(a_cursor_that_is_not_known_is_not_resumed),
        CASE(a_cursor_that_was_never_given_out_is_not_resumed),
        CASE(a_cursor_that_is_not_known_is_not_resumed_for_nothing),
        CASE(no_subscribe),
        CASE(no_list_changed),
        CASE(no_legacy),
        CASE(no_modern),
        CASE(no_logging),
        CASE(somebody_watches_while_somebody_listens),
        CASE(waits_for_its_watcher),
        CASE(a_watcher_that_fails_is_left_out),
        CASE(a_watcher_that_refuses_is_left_out),
        CASE(every_code_of_start_refuses_its_target_alone),
        CASE(every_code_of_an_answer_refuses_its_target_alone),
        CASE(a_list_whose_watcher_fails_is_left_out),
        CASE(a_uri_may_look_like_a_list),
        CASE(a_legacy_subscribe_waits_for_its_watcher),
        CASE(a_legacy_subscribe_to_what_does_not_exist_is_not_found),
        CASE(who_awaits_a_creation_is_told_of_it),
        CASE(what_has_come_and_gone_since_is_known),
        CASE(who_awaits_and_who_does_not_may_wait_together),
        CASE(a_listen_takes_what_does_not_exist_yet),
        CASE(what_was_deleted_meanwhile_is_told_as_that),
        CASE(a_watcher_that_never_answers_is_not_waited_for),
        CASE(a_stream_has_its_time),
        CASE(a_stream_that_was_never_acknowledged_fails),
        CASE(a_server_that_stops_says_so_before_an_acknowledgement),
        CASE(subscriptions_of_a_stream_have_a_limit),
        CASE(connections_have_a_limit),
        CASE(a_stream_that_goes_leaves_nothing),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("listen", tests, NULL, NULL);
}

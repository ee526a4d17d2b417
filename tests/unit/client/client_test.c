/* SPDX-License-Identifier: MIT
 *
 * The client library as programs use it, against a real server (ours.h): over HTTP in
 * this process, and as a program on stdio, which is this one again; in both eras. */
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "ours.h"
#include "support.h"

enum { PATIENCE_MS = 60000 };

/* ---- What every test has ------------------------------------------------ */

static const struct kind {
    const char *name;
    tdg_era_t era;
    bool stdio;
} kinds[] = {
    {"http, modern", TDG_ERA_MODERN, false},
    {"http, legacy", TDG_ERA_LEGACY, false},
    {"stdio, modern", TDG_ERA_MODERN, true},
    {"stdio, legacy", TDG_ERA_LEGACY, true},
};

struct scene {
    const struct kind *kind;
    struct ours peer; /* of HTTP */
    tdg_client_t *client;
};

static int64_t now_ms(void) {
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void doze(void) {
    nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
}

#define WAIT_UNTIL(condition)                                                            \
    do {                                                                                 \
        int64_t deadline_ = now_ms() + PATIENCE_MS;                                      \
                                                                                         \
        while (!(condition)) {                                                           \
            if (now_ms() > deadline_)                                                    \
                fail_msg("never happened: %s", #condition);                              \
            doze();                                                                      \
        }                                                                                \
    } while (0)

/* Fails with what the client said in `why`. */
#define WORKS(call)                                                                      \
    do {                                                                                 \
        int rv_ = (call);                                                                \
                                                                                         \
        if (rv_ != 0)                                                                    \
            fail_msg("%s: %s: %s", #call, tdg_error_name(rv_), why.message);             \
    } while (0)
static tdg_failure_t why;

static const char *const myself[] = {"/proc/self/exe", "--stdio", NULL};
static const char *const deaf[] = {"/proc/self/exe", "--deaf", NULL};

/* Where the scene's server is, and in which era to speak to it. */
static tdg_client_opts_t opts_of(struct scene *scene) {
    tdg_client_opts_t opts = {.era = scene->kind->era, .retry_ms = 20};

    if (scene->kind->stdio)
        opts.argv = myself;
    else
        opts.url = scene->peer.url;
    return opts;
}

static tdg_client_t *connected(const tdg_client_opts_t *opts) {
    tdg_client_t *client = NULL;

    WORKS(tdg_client_connect(opts, &client, &why));
    return client;
}

static int setup_server(void **state) {
    const struct kind *kind = *state;
    struct scene *scene = calloc(1, sizeof(*scene));

    if (scene == NULL)
        return -1;
    scene->kind = kind != NULL ? kind : &kinds[0];
    *state = scene;
    return scene->kind->stdio || ours_open(&scene->peer, 0, 0) ? 0 : -1;
}

static int setup(void **state) {
    struct scene *scene;
    tdg_client_opts_t opts;

    if (setup_server(state) < 0)
        return -1;
    scene = *state;
    opts = opts_of(scene);
    scene->client = connected(&opts);
    return 0;
}

static int teardown(void **state) {
    struct scene *scene = *state;

    tdg_client_close(scene->client);
    ours_close(&scene->peer);
    free(scene);
    return 0;
}

static void call(tdg_client_t *client, const char *tool, json_t *arguments) {
    json_t *result = NULL;

    WORKS(tdg_client_call(client, tool, arguments, &result, &why));
    assert_false(json_is_true(json_object_get(result, "isError")));
    json_decref(result);
}

static void change(tdg_client_t *client, const char *uri) {
    call(client, "change", json_pack("{s:s}", "uri", uri));
}

static void subscribe(tdg_client_t *client, const char *uri) {
    WORKS(tdg_client_subscribe(client, uri, NULL, &why));
}

static tdg_event_t *next(tdg_client_t *client) {
    tdg_event_t *event = NULL;
    int rv = tdg_client_next(client, PATIENCE_MS, &event);

    if (rv != 0)
        fail_msg("no event: %s", tdg_error_name(rv));
    return event;
}

/* Fails unless the next event is of this kind and resource. */
static void expect(tdg_client_t *client, tdg_event_kind_t kind, const char *uri) {
    tdg_event_t *event = next(client);

    if (event->kind != kind ||
        (uri != NULL && (event->uri == NULL || strcmp(event->uri, uri) != 0)))
        fail_msg("event %d of %s instead of %d of %s", (int)event->kind,
                 event->uri != NULL ? event->uri : "-", (int)kind,
                 uri != NULL ? uri : "-");
    tdg_event_free(event);
}

static tdg_client_counters_t counts_of(tdg_client_t *client) {
    tdg_client_counters_t counts;

    tdg_client_counters(client, &counts);
    return counts;
}

/* ---- Requests ----------------------------------------------------------- */

static void it_is_known_who_serves(void **state) {
    struct scene *s = *state;
    tdg_server_facts_t facts;

    assert_int_equal(tdg_client_facts(s->client, &facts), 0);
    assert_int_equal(facts.era, s->kind->era);
    assert_string_equal(facts.protocol,
                        s->kind->era == TDG_ERA_MODERN ? "2026-07-28" : "2025-11-25");
    assert_string_equal(facts.transport, s->kind->stdio ? "stdio" : "http");
    assert_string_equal(facts.name, "ours");
    assert_string_equal(facts.version, "7");
    assert_string_equal(facts.instructions, "Be kind.");
    assert_true(facts.subscribe);
    assert_true(json_is_object(facts.capabilities));
    tdg_server_facts_done(&facts);
}

static void lists_are_complete(void **state) {
    static const struct {
        tdg_list_kind_t list;
        size_t count;
        const char *key, *first;
    } lists[] = {
        {TDG_LIST_RESOURCES, 3, "uri", "a:1"},
        {TDG_LIST_TEMPLATES, 1, "uriTemplate", "t:{x}"},
        {TDG_LIST_TOOLS, 5, "name", "change"},
        {TDG_LIST_PROMPTS, 1, "name", "p"},
    };
    struct scene *s = *state;

    for (size_t i = 0; i < COUNT(lists); i++) {
        json_t *list = NULL;
        const json_t *first;

        WORKS(tdg_client_list(s->client, lists[i].list, &list, &why));
        assert_int_equal(json_array_size(list), lists[i].count);
        first = json_object_get(json_array_get(list, 0), lists[i].key);
        assert_string_equal(json_string_value(first), lists[i].first);
        json_decref(list);
    }
}

static const char *first_text(const json_t *contents) {
    const char *text =
        json_string_value(json_object_get(json_array_get(contents, 0), "text"));

    return text != NULL ? text : "(none)";
}

static void resources_are_read(void **state) {
    struct scene *s = *state;
    tdg_failure_t failure = {0};
    json_t *result = NULL;
    char before[16];

    WORKS(tdg_client_read(s->client, "a:1", &result, &why));
    snprintf(before, sizeof(before), "%s",
             first_text(json_object_get(result, "contents")));
    json_decref(result);
    change(s->client, "a:1");
    WORKS(tdg_client_read(s->client, "a:1", &result, &why));
    assert_int_equal(atoi(first_text(json_object_get(result, "contents"))),
                     atoi(before) + 1);
    json_decref(result);

    assert_int_equal(tdg_client_read(s->client, "t:none", &result, &failure),
                     TDG_ENOTFOUND);
    assert_int_equal(failure.code, TDG_ENOTFOUND);
    assert_int_not_equal(failure.rpc_code, 0);
    assert_true(failure.message[0] != '\0');
    tdg_failure_done(&failure);
}

static void tools_prompts_and_completions_answer(void **state) {
    struct scene *s = *state;
    tdg_failure_t failure = {0};
    json_t *result = NULL;

    WORKS(tdg_client_call(s->client, "echo", json_pack("{s:s}", "text", "hällo"), &result,
                          &why));
    assert_string_equal(first_text(json_object_get(result, "content")), "hällo");
    json_decref(result);

    WORKS(tdg_client_prompt(s->client, "p", json_pack("{s:s}", "text", "hi"), &result,
                            &why));
    assert_int_equal(json_array_size(json_object_get(result, "messages")), 1);
    json_decref(result);

    WORKS(tdg_client_complete(s->client, "p", "a", "v", NULL, &result, &why));
    assert_json_equal(json_object_get(result, "values"), "['a', 'v']");
    json_decref(result);
    WORKS(tdg_client_complete(s->client, "t:{x}", "x", "", json_object(), &result, &why));
    assert_json_equal(json_object_get(result, "values"), "['x', '']");
    json_decref(result);

    WORKS(tdg_client_request(s->client, "resources/templates/list", NULL, 0, &result,
                             &why));
    assert_int_equal(json_array_size(json_object_get(result, "resourceTemplates")), 1);
    json_decref(result);
    WORKS(tdg_client_ping(s->client, &why));

    assert_int_equal(tdg_client_call(s->client, "none", NULL, &result, &failure),
                     TDG_EREFUSED);
    assert_int_equal(failure.rpc_code, -32602);
    tdg_failure_done(&failure);
    assert_int_equal(tdg_client_request(s->client, "no/such", NULL, 0, &result, &failure),
                     TDG_ENOTSUP);
    assert_int_equal(failure.rpc_code, -32601);
    tdg_failure_done(&failure);
}

static void what_is_not_answered_times_out(void **state) {
    struct scene *s = *state;
    tdg_failure_t failure = {0};
    json_t *result = NULL;
    int64_t began = now_ms();

    assert_int_equal(tdg_client_request(s->client, "tools/call",
                                        json_pack("{s:s}", "name", "hold"), 300, &result,
                                        &failure),
                     TDG_ETIMEDOUT);
    assert_true(now_ms() - began >= 300);
    assert_int_equal(failure.code, TDG_ETIMEDOUT);
    WORKS(tdg_client_ping(s->client, &why)); /* nothing else is hurt */
}

/* ---- Subscriptions ------------------------------------------------------ */

static void a_change_is_told(void **state) {
    struct scene *s = *state;
    tdg_event_t *event;
    int64_t version;

    subscribe(s->client, "a:1");
    change(s->client, "a:1");
    event = next(s->client);
    assert_int_equal(event->kind, TDG_EVENT_UPDATED);
    assert_string_equal(event->uri, "a:1");
    assert_false(event->maybe);
    assert_false(event->polled);
    assert_int_equal(event->merged, 0);
    assert_true(event->at_ms > 0);
    assert_true(json_is_integer(json_object_get(event->metadata, "number")));
    version = event->version;
    assert_true(version > 0);
    tdg_event_free(event);

    change(s->client, "a:1");
    event = next(s->client);
    assert_true(event->version > version);
    tdg_event_free(event);
    call(s->client, "delete", json_pack("{s:s}", "uri", "a:1"));
    expect(s->client, TDG_EVENT_DELETED, "a:1");
}

static void only_what_is_subscribed_is_told(void **state) {
    struct scene *s = *state;
    tdg_event_t *event;
    json_t *list;

    subscribe(s->client, "a:1");
    subscribe(s->client, "a:2");
    assert_int_equal(tdg_client_subscriptions(s->client, &list), 0);
    assert_int_equal(json_array_size(list), 2);
    json_decref(list);
    WORKS(tdg_client_unsubscribe(s->client, "a:1", &why));
    assert_int_equal(tdg_client_subscriptions(s->client, &list), 0);
    assert_json_equal(list, "['a:2']");
    json_decref(list);
    change(s->client, "a:1");
    change(s->client, "t:x");
    change(s->client, "a:2");
    expect(s->client, TDG_EVENT_UPDATED, "a:2");
    assert_int_equal(tdg_client_next(s->client, 0, &event), TDG_ETIMEDOUT);
    assert_int_equal(tdg_client_unsubscribe(s->client, "a:1", NULL), TDG_ENOTFOUND);
}

static void unsubscribing_removes_what_waits(void **state) {
    struct scene *s = *state;
    tdg_event_t *event;

    subscribe(s->client, "a:1");
    change(s->client, "a:1");
    WAIT_UNTIL(counts_of(s->client).pending == 1);
    WORKS(tdg_client_unsubscribe(s->client, "a:1", &why));
    assert_int_equal(tdg_client_next(s->client, 0, &event), TDG_ETIMEDOUT);
    assert_int_equal(counts_of(s->client).pending, 0);
}

static void what_cannot_be_subscribed_is_refused(void **state) {
    const char *uris[] = {"a:1", "x:none", "a:2", "a:mute", "no uri"};
    const int expected[] = {0, TDG_ENOTFOUND, 0, TDG_ENOTSUP, TDG_EURI};
    struct scene *s = *state;
    tdg_failure_t failure = {0};
    int codes[COUNT(uris)];
    json_t *list;

    assert_int_equal(
        tdg_client_subscribe_all(s->client, uris, COUNT(uris), NULL, codes, &failure),
        TDG_ENOTFOUND);
    assert_int_equal(failure.code, TDG_ENOTFOUND);
    assert_true(failure.message[0] != '\0');
    tdg_failure_done(&failure);
    for (size_t i = 0; i < COUNT(uris); i++)
        assert_int_equal(codes[i], expected[i]);
    assert_int_equal(tdg_client_subscriptions(s->client, &list), 0);
    assert_int_equal(json_array_size(list), 2);
    json_decref(list);
    change(s->client, "a:2");
    expect(s->client, TDG_EVENT_UPDATED, "a:2");
}

static void a_template_tells_of_what_it_matches(void **state) {
    struct scene *s = *state;

    subscribe(s->client, "t:{x}");
    change(s->client, "a:1");
    change(s->client, "t:5");
    expect(s->client, TDG_EVENT_UPDATED, "t:5");
}

static void many_are_subscribed_at_once(void **state) {
    enum { MANY = 1000, CHANGED = 50 };
    struct scene *s = *state;
    static char texts[MANY][16];
    const char *uris[MANY];

    for (int i = 0; i < MANY; i++) {
        snprintf(texts[i], sizeof(texts[i]), "t:%d", i);
        uris[i] = texts[i];
    }
    WORKS(tdg_client_subscribe_all(s->client, uris, MANY, NULL, NULL, &why));
    assert_int_equal(counts_of(s->client).subscriptions, MANY);
    for (int i = 0; i < CHANGED; i++)
        change(s->client, uris[i * (MANY / CHANGED)]);
    for (int i = 0; i < CHANGED; i++)
        expect(s->client, TDG_EVENT_UPDATED, uris[i * (MANY / CHANGED)]);
}

struct changer {
    tdg_client_t *client;
    pthread_t thread;
    atomic_bool done;
    int code;
};

/* Subscribes to more and more, and unsubscribes from some. */
static void *change_the_set(void *arg) {
    struct changer *changer = arg;
    char uri[16];

    for (int i = 0; i < 40 && changer->code == 0; i++) {
        snprintf(uri, sizeof(uri), "t:%d", i);
        changer->code = tdg_client_subscribe(changer->client, uri, NULL, NULL);
        if (changer->code == 0 && i % 3 == 0)
            changer->code = tdg_client_unsubscribe(changer->client, uri, NULL);
    }
    atomic_store(&changer->done, true);
    return NULL;
}

/* Each change is told, and none twice. */
static void nothing_is_lost_while_the_set_changes(void **state) {
    struct scene *s = *state;
    struct changer changer = {.client = s->client};
    int64_t version = 0;
    bool last;

    subscribe(s->client, "a:1");
    assert_int_equal(pthread_create(&changer.thread, NULL, change_the_set, &changer), 0);
    do {
        tdg_event_t *event;

        last = atomic_load(&changer.done);
        change(s->client, "a:1");
        event = next(s->client);
        assert_int_equal(event->kind, TDG_EVENT_UPDATED);
        assert_string_equal(event->uri, "a:1");
        assert_int_equal(event->merged, 0);
        assert_true(event->version > version);
        version = event->version;
        tdg_event_free(event);
    } while (!last);
    pthread_join(changer.thread, NULL);
    assert_int_equal(changer.code, 0);
    assert_int_equal(counts_of(s->client).subscriptions, 1 + 40 - 14);
}

static void list_changes_are_told(void **state) {
    struct scene *s = *state;
    tdg_event_t *event;

    WORKS(tdg_client_watch_lists(s->client, 1U << TDG_LIST_RESOURCES, &why));
    call(s->client, "add", json_pack("{s:s}", "uri", "a:3"));
    event = next(s->client);
    assert_int_equal(event->kind, TDG_EVENT_LIST_CHANGED);
    assert_int_equal(event->list, TDG_LIST_RESOURCES);
    tdg_event_free(event);
}

static void reread_brings_the_contents(void **state) {
    tdg_subscribe_opts_t reread = {.reread = true};
    struct scene *s = *state;

    WORKS(tdg_client_subscribe(s->client, "a:1", &reread, &why));
    for (int i = 0; i < 3; i++) {
        tdg_event_t *event;
        json_int_t number;

        change(s->client, "a:1");
        event = next(s->client);
        assert_int_equal(event->kind, TDG_EVENT_UPDATED);
        assert_int_equal(event->code, 0);
        number = json_integer_value(json_object_get(event->metadata, "number"));
        assert_int_equal(atoi(first_text(event->contents)), number);
        tdg_event_free(event);
    }
}

static void a_slow_reader_is_told_the_newest_once(void **state) {
    enum { TIMES = 500 };
    struct scene *s = *state;
    tdg_event_t *event;

    subscribe(s->client, "a:1");
    subscribe(s->client, "a:2");
    call(s->client, "change", json_pack("{s:s, s:i}", "uri", "a:1", "times", TIMES));
    change(s->client, "a:2"); /* comes after all of them */
    WAIT_UNTIL(counts_of(s->client).pending == 2);
    event = next(s->client);
    assert_string_equal(event->uri, "a:1");
    assert_int_equal(event->merged + 1, TIMES);
    tdg_event_free(event);
    expect(s->client, TDG_EVENT_UPDATED, "a:2");
    assert_int_equal(tdg_client_next(s->client, 0, &event), TDG_ETIMEDOUT);
}

static void the_descriptor_serves_poll(void **state) {
    struct scene *s = *state;
    struct pollfd fd = {.fd = tdg_client_fd(s->client), .events = POLLIN};

    subscribe(s->client, "a:1");
    assert_int_equal(poll(&fd, 1, 0), 0);
    for (int i = 0; i < 20; i++) {
        change(s->client, "a:1");
        assert_int_equal(poll(&fd, 1, PATIENCE_MS), 1);
        expect(s->client, TDG_EVENT_UPDATED, "a:1");
        assert_int_equal(poll(&fd, 1, 0), 0);
    }
}

/* ---- Callbacks ---------------------------------------------------------- */

struct called {
    atomic_int events, answers, failed;
};

static void on_answer(void *user, const json_t *result, const tdg_failure_t *failure) {
    struct called *called = user;

    if (failure != NULL || !json_is_array(json_object_get(result, "contents")))
        atomic_fetch_add(&called->failed, 1);
    atomic_fetch_add(&called->answers, 1);
}

static void on_event(void *user, tdg_client_t *client, const tdg_event_t *event) {
    struct called *called = user;

    if (event->kind != TDG_EVENT_UPDATED ||
        tdg_client_send(client, "resources/read", json_pack("{s:s}", "uri", event->uri),
                        0, on_answer, called) < 0)
        atomic_fetch_add(&called->failed, 1);
    atomic_fetch_add(&called->events, 1);
}

static void callbacks_are_told_and_send(void **state) {
    enum { CHANGES = 20 };
    struct scene *s = *state;
    struct called called = {0};
    tdg_client_opts_t opts = opts_of(s);
    tdg_client_t *client;

    opts.on_event = on_event;
    opts.user = &called;
    client = connected(&opts);
    subscribe(client, "a:1");
    for (int i = 1; i <= CHANGES; i++) {
        change(client, "a:1");
        WAIT_UNTIL(atomic_load(&called.events) == i);
    }
    WAIT_UNTIL(atomic_load(&called.answers) == CHANGES);
    tdg_client_close(client);
    assert_int_equal(atomic_load(&called.failed), 0);
}

struct leaver {
    atomic_int first, second, failed;
};

static void leave_first(void *user, tdg_client_t *client, const tdg_event_t *event) {
    struct leaver *leaver = user;

    if (event->kind != TDG_EVENT_UPDATED)
        return;
    if (strcmp(event->uri, "a:2") == 0) {
        atomic_fetch_add(&leaver->second, 1);
        return;
    }
    atomic_fetch_add(&leaver->first, 1);
    if (tdg_client_unsubscribe(client, "a:1", NULL) != 0)
        atomic_fetch_add(&leaver->failed, 1);
}

/* With reread there are requests under way that go with the subscription. */
static void who_unsubscribes_when_told_is_not_told_again(void **state) {
    struct scene *s = *state;
    struct leaver leaver = {0};
    tdg_client_opts_t opts = opts_of(s);
    const tdg_subscribe_opts_t reread = {
        .batch_ms = -1, .rate_limit_ms = -1, .reread = true};
    const char *const uris[] = {"a:1", "a:2"};
    tdg_client_t *client;
    json_t *list;

    opts.on_event = leave_first;
    opts.user = &leaver;
    client = connected(&opts);
    WORKS(tdg_client_subscribe_all(client, uris, 2, &reread, NULL, &why));
    for (int i = 0; i < 10; i++)
        change(client, "a:1");
    WAIT_UNTIL(atomic_load(&leaver.first) > 0);
    change(client, "a:1");
    change(client, "a:2"); /* behind it on the same stream */
    WAIT_UNTIL(atomic_load(&leaver.second) > 0);
    assert_int_equal(atomic_load(&leaver.first), 1);
    assert_int_equal(atomic_load(&leaver.failed), 0);
    assert_int_equal(tdg_client_subscriptions(client, &list), 0);
    assert_json_equal(list, "['a:2']");
    json_decref(list);
    tdg_client_close(client);
}

/* ---- Several at once ---------------------------------------------------- */

static void ten_clients_are_told(void **state) {
    enum { CLIENTS = 10 };
    struct scene *s = *state;
    tdg_client_opts_t opts = opts_of(s);
    tdg_client_t *clients[CLIENTS];

    for (int i = 0; i < CLIENTS; i++) {
        clients[i] = connected(&opts);
        subscribe(clients[i], "a:1");
    }
    if (s->kind->stdio) { /* each has a program of its own */
        for (int i = 0; i < CLIENTS; i++)
            change(clients[i], "a:1");
    } else {
        change(s->client, "a:1");
    }
    for (int i = 0; i < CLIENTS; i++)
        expect(clients[i], TDG_EVENT_UPDATED, "a:1");
    for (int i = 0; i < CLIENTS; i++)
        tdg_client_close(clients[i]);
}

struct busy {
    tdg_client_t *client;
    int number;
    pthread_t thread;
    atomic_int *done;
    int code; /* that ended it */
};

static void *be_busy(void *arg) {
    struct busy *busy = arg;
    tdg_event_t *event;
    char uri[16];

    snprintf(uri, sizeof(uri), "t:%d", busy->number);
    while (busy->code == 0) {
        json_t *result = NULL;

        switch (busy->number % 5) {
        case 0:
            busy->code = tdg_client_read(busy->client, uri, &result, NULL);
            break;
        case 1:
            busy->code = tdg_client_subscribe(busy->client, uri, NULL, NULL);
            if (busy->code == 0)
                busy->code = tdg_client_unsubscribe(busy->client, uri, NULL);
            break;
        case 2:
            busy->code = tdg_client_call(busy->client, "change",
                                         json_pack("{s:s}", "uri", "a:1"), &result, NULL);
            break;
        case 3:
            busy->code = tdg_client_next(busy->client, -1, &event);
            if (busy->code == 0)
                tdg_event_free(event);
            break;
        default:
            busy->code = tdg_client_call(busy->client, "hold", NULL, &result, NULL);
        }
        json_decref(result);
        atomic_fetch_add(busy->done, 1);
    }
    return NULL;
}

static void the_end_may_come_in_the_middle_of_everything(void **state) {
    enum { THREADS = 10 };
    struct scene *s = *state;
    struct busy busy[THREADS];
    atomic_int done = 0;

    subscribe(s->client, "a:1");
    for (int i = 0; i < THREADS; i++) {
        busy[i] = (struct busy){.client = s->client, .number = i, .done = &done};
        assert_int_equal(pthread_create(&busy[i].thread, NULL, be_busy, &busy[i]), 0);
    }
    WAIT_UNTIL(atomic_load(&done) >= 200);
    tdg_client_stop(s->client);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(busy[i].thread, NULL);
        assert_int_equal(busy[i].code, TDG_EENDED);
    }
}

static void closing_does_not_wait_for_answers(void **state) {
    struct scene *s = *state;
    struct busy busy = {.client = s->client, .number = 4};
    atomic_int done = 0;
    int64_t began;

    busy.done = &done;
    assert_int_equal(pthread_create(&busy.thread, NULL, be_busy, &busy), 0);
    if (s->kind->stdio) /* its memory is not ours: what it has sent is all we know */
        WAIT_UNTIL(counts_of(s->client).requests >= 2);
    else
        WAIT_UNTIL(atomic_load(&ours_held) == 1);
    began = now_ms();
    tdg_client_close(s->client);
    s->client = NULL;
    pthread_join(busy.thread, NULL);
    assert_int_equal(busy.code, TDG_EENDED);
    assert_true(now_ms() - began < 20000); /* 5 s of a slow machine */
}

/* ---- Connecting --------------------------------------------------------- */

static void the_era_is_found(void **state) {
    static const struct {
        unsigned flags;
        tdg_era_t era;
    } cases[] = {
        {0, TDG_ERA_MODERN},
        {TDG_NO_LEGACY, TDG_ERA_MODERN},
        {TDG_NO_MODERN, TDG_ERA_LEGACY},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct ours peer = {0};
        tdg_server_facts_t facts;
        tdg_client_t *client;

        assert_true(ours_open(&peer, cases[i].flags, 0));
        client = connected(&(tdg_client_opts_t){.url = peer.url});
        assert_int_equal(tdg_client_facts(client, &facts), 0);
        assert_int_equal(facts.era, cases[i].era);
        tdg_server_facts_done(&facts);
        subscribe(client, "a:1");
        change(client, "a:1");
        expect(client, TDG_EVENT_UPDATED, "a:1");
        tdg_client_close(client);
        ours_close(&peer);
    }
}

static void an_era_that_is_not_spoken_is_told(void **state) {
    static const struct {
        unsigned flags;
        tdg_era_t era;
    } cases[] = {
        {TDG_NO_LEGACY, TDG_ERA_LEGACY},
        {TDG_NO_MODERN, TDG_ERA_MODERN},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct ours peer = {0};
        tdg_failure_t failure = {0};
        tdg_client_opts_t opts = {.url = peer.url, .era = cases[i].era};
        tdg_client_t *client = NULL;
        int rv;

        assert_true(ours_open(&peer, cases[i].flags, 0));
        rv = tdg_client_connect(&opts, &client, &failure);
        if (rv != TDG_ENOTSUP && rv != TDG_EREFUSED)
            fail_msg("case %zu: %s: %s", i, tdg_error_name(rv), failure.message);
        assert_null(client);
        assert_true(failure.message[0] != '\0');
        tdg_failure_done(&failure);
        ours_close(&peer);
    }
}

/* A port where nobody listens. */
static uint16_t free_port(void) {
    struct ours peer = {0};

    assert_true(ours_open(&peer, 0, 0));
    ours_close(&peer);
    return peer.port;
}

static void who_is_not_there_is_away(void **state) {
    tdg_failure_t failure = {0};
    tdg_client_t *client = NULL;
    char url[64];
    tdg_client_opts_t opts = {.url = url};
    tdg_client_opts_t program = {.argv = (const char *const[]){"/no/such/program", NULL}};

    (void)state;
    snprintf(url, sizeof(url), "http://127.0.0.1:%u", free_port());
    assert_int_equal(tdg_client_connect(&opts, &client, &failure), TDG_EUNREACHABLE);
    assert_true(failure.message[0] != '\0');
    tdg_failure_done(&failure);
    assert_int_equal(tdg_client_connect(&program, &client, &failure), TDG_EUNREACHABLE);
    assert_non_null(strstr(failure.message, "/no/such/program"));
    tdg_failure_done(&failure);
}

struct patient {
    char url[64];
    pthread_t thread;
    int rv;
    tdg_client_t *client;
    atomic_bool tried;
};

static void log_tries(void *user, tdg_log_level_t level, const char *line) {
    struct patient *patient = user;

    (void)level, (void)line;
    atomic_store(&patient->tried, true);
}

static void *connect_patiently(void *arg) {
    struct patient *patient = arg;
    tdg_client_opts_t opts = {.url = patient->url,
                              .flags = TDG_CLIENT_PATIENT,
                              .connect_timeout_ms = PATIENCE_MS,
                              .retry_ms = 20,
                              .retry_max_ms = 200,
                              .retry_per_minute = 120,
                              .log = log_tries,
                              .user = patient};

    patient->rv = tdg_client_connect(&opts, &patient->client, NULL);
    return NULL;
}

static void the_patient_wait_for_a_server(void **state) {
    struct patient patient = {0};
    struct ours peer = {0};
    uint16_t port = free_port();

    (void)state;
    snprintf(patient.url, sizeof(patient.url), "http://127.0.0.1:%u/mcp", port);
    assert_int_equal(pthread_create(&patient.thread, NULL, connect_patiently, &patient),
                     0);
    WAIT_UNTIL(atomic_load(&patient.tried));
    assert_true(ours_open(&peer, 0, port));
    pthread_join(patient.thread, NULL);
    assert_int_equal(patient.rv, 0);
    WORKS(tdg_client_ping(patient.client, &why));
    tdg_client_close(patient.client);
    ours_close(&peer);
}

/* Skips events until one of this kind; returns it. */
static tdg_event_t *skip_to(tdg_client_t *client, tdg_event_kind_t kind) {
    for (;;) {
        tdg_event_t *event = next(client);

        if (event->kind == kind)
            return event;
        tdg_event_free(event);
    }
}

/* Nobody knows what happened meanwhile, so an update is told, once. It may come before
 * UP: the server tells it as soon as the subscription is there again. */
static void expect_return(tdg_client_t *client, const char *uri) {
    bool up = false, updated = false;

    while (!up || !updated) {
        tdg_event_t *event = next(client);

        if (event->kind == TDG_EVENT_UP) {
            assert_false(up);
            up = true;
        } else {
            assert_int_equal(event->kind, TDG_EVENT_UPDATED);
            assert_string_equal(event->uri, uri);
            assert_false(updated);
            updated = true;
        }
        tdg_event_free(event);
    }
}

static void a_restarted_server_is_found_again(void **state) {
    struct scene *s = *state;
    tdg_event_t *event;
    uint16_t port = s->peer.port;

    subscribe(s->client, "a:1");
    ours_close(&s->peer);
    event = next(s->client);
    assert_int_equal(event->kind, TDG_EVENT_DOWN);
    assert_int_not_equal(event->code, 0);
    assert_non_null(event->message);
    tdg_event_free(event);
    assert_true(ours_open(&s->peer, 0, port));
    expect_return(s->client, "a:1");

    change(s->client, "a:1");
    event = next(s->client);
    assert_int_equal(event->kind, TDG_EVENT_UPDATED);
    assert_false(event->maybe);
    tdg_event_free(event);
    assert_int_equal(counts_of(s->client).subscriptions, 1);
}

static void whoever_wants_one_life_has_one(void **state) {
    struct scene *s = *state;
    tdg_client_opts_t opts = opts_of(s);
    tdg_client_t *client;
    tdg_event_t *event = NULL;

    opts.flags = TDG_CLIENT_ONE_LIFE;
    client = connected(&opts);
    subscribe(client, "a:1");
    ours_close(&s->peer);
    tdg_event_free(skip_to(client, TDG_EVENT_CLOSED));
    assert_int_equal(tdg_client_next(client, -1, &event), TDG_EENDED);
    tdg_client_close(client);
}

static void a_program_that_will_not_end_is_ended(void **state) {
    tdg_client_opts_t opts = {.argv = deaf};
    tdg_client_t *client = connected(&opts);
    int64_t began, took;

    (void)state;
    WORKS(tdg_client_ping(client, &why));
    began = now_ms();
    clock_hurry(true);
    tdg_client_close(client);
    clock_hurry(false);
    took = now_ms() - began;
    assert_true(took >= 3900); /* it got its time */
    assert_true(took < 20000);
}

/* What is written after that ends with EPIPE, and not with us. The first request may
 * still fit into the pipe; the second one comes when nobody has answered for 3 s. */
static void a_program_that_closes_its_input_does_no_harm(void **state) {
    static const char *const shut[] = {"/bin/sh", "-c", "exec 0<&-; exec sleep 600",
                                       NULL};
    tdg_client_opts_t opts = {.argv = shut, .connect_timeout_ms = 5000};
    struct sigaction plain = {.sa_handler = SIG_DFL}, before;
    tdg_client_t *client = NULL;
    int rv;

    (void)state;
    assert_int_equal(sigaction(SIGPIPE, &plain, &before), 0);
    rv = tdg_client_connect(&opts, &client, NULL);
    sigaction(SIGPIPE, &before, NULL);
    assert_true(rv == TDG_EUNREACHABLE || rv == TDG_ETIMEDOUT);
    assert_null(client);
}

/* ---- All ---------------------------------------------------------------- */

#define OF(kind, test)                                                                   \
    { #test, test, setup, teardown, (void *)(uintptr_t)(kind) }
#define HTTP(test) OF(&kinds[0], test), OF(&kinds[1], test)
#define ALL(test) HTTP(test), OF(&kinds[2], test), OF(&kinds[3], test)
#define ALONE(test)                                                                      \
    { #test, test, NULL, NULL, NULL }

int main(int argc, char **argv) {
    if (argc > 1)
        return ours_serve_stdio(strcmp(argv[1], "--deaf") == 0);

    const struct CMUnitTest tests[] = {
        ALL(it_is_known_who_serves),
        ALL(lists_are_complete),
        ALL(resources_are_read),
        ALL(tools_prompts_and_completions_answer),
        ALL(what_is_not_answered_times_out),

        ALL(a_change_is_told),
        ALL(only_what_is_subscribed_is_told),
        ALL(unsubscribing_removes_what_waits),
        ALL(what_cannot_be_subscribed_is_refused),
        ALL(a_template_tells_of_what_it_matches),
        ALL(many_are_subscribed_at_once),
        ALL(nothing_is_lost_while_the_set_changes),
        ALL(list_changes_are_told),
        ALL(reread_brings_the_contents),
        ALL(a_slow_reader_is_told_the_newest_once),
        ALL(the_descriptor_serves_poll),
        ALL(callbacks_are_told_and_send),
        ALL(who_unsubscribes_when_told_is_not_told_again),

        ALL(ten_clients_are_told),
        ALL(the_end_may_come_in_the_middle_of_everything),
        ALL(closing_does_not_wait_for_answers),

        ALONE(the_era_is_found),
        ALONE(an_era_that_is_not_spoken_is_told),
        ALONE(who_is_not_there_is_away),
        ALONE(the_patient_wait_for_a_server),
        HTTP(a_restarted_server_is_found_again),
        HTTP(whoever_wants_one_life_has_one),
        ALONE(a_program_that_will_not_end_is_ended),
        ALONE(a_program_that_closes_its_input_does_no_harm),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("client", tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT
 *
 * POST /publish: who may, what a body may be, all or nothing, content before the news,
 * and how many subscriptions match. */
#include "clock.h"
#include "server/http/publish.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include "base/base64.h"
#include "served.h"
#include "server/context/matches.h"

enum { SHORT_MS = 10000 };

/* ---- The body ----------------------------------------------------------- */

static int read_body(const char *text, tdg__publish_list_t *ret,
                     tdg__publish_error_t *error) {
    char *body = requote(text);
    int rv = tdg__publish_read(body, strlen(body), ret, error);

    free(body);
    return rv;
}

static void a_body_is_one_change_or_several(void **state) {
    tdg__publish_list_t list = {0};
    tdg__publish_error_t error;

    (void)state;
    assert_int_equal(read_body("{'uri':'a:1'}", &list, &error), 0);
    assert_int_equal(list.count, 1);
    assert_string_equal(list.items[0].uri, "a:1");
    assert_null(list.items[0].metadata);
    assert_null(list.items[0].content);
    assert_false(list.items[0].deleted);
    tdg__publish_list_done(&list);

    assert_int_equal(
        read_body("[{'uri':'a:1','metadata':{'n':1},'content':'text','mimeType':'a/b'},"
                  " {'uri':'a:2','content':{'blob':'AAECAw=='}},"
                  " {'uri':'a:3','deleted':true},{'uri':'a:1','content':''}]",
                  &list, &error),
        0);
    assert_int_equal(list.count, 4);
    assert_json_equal(list.items[0].metadata, "{'n':1}");
    assert_int_equal(list.items[0].metadata->refcount, 1); /* nobody else's */
    assert_string_equal(list.items[0].content, "text");
    assert_string_equal(list.items[0].mime_type, "a/b");
    assert_int_equal(list.items[1].content_len, 4);
    assert_memory_equal(list.items[1].content, "\0\1\2\3", 5);
    assert_true(list.items[2].deleted);
    assert_non_null(list.items[3].content);
    assert_int_equal(list.items[3].content_len, 0);
    tdg__publish_list_done(&list);
}

static void what_is_wrong_is_named_with_its_place(void **state) {
    static const struct {
        const char *body;
        int status;
        int index; /* -1: none */
        const char *field, *message;
    } rows[] = {
        {"", 400, -1, "", "Invalid JSON"},
        {"{'uri':'a:1'", 400, -1, "", "Invalid JSON at byte 12"},
        {"{'uri':'a:1','uri':'a:2'}", 400, -1, "", "Invalid JSON"},
        {"7", 400, -1, "", "object"},
        {"[]", 400, -1, "", "1 to 1000"},
        {"[7]", 400, 0, "", "must be an object"},
        {"{}", 400, 0, "uri", "uri is missing"},
        {"{'uri':7}", 400, 0, "uri", "uri must be a string"},
        {"{'uri':''}", 400, 0, "uri", "uri is not a valid URI"},
        {"{'uri':'no scheme'}", 400, 0, "uri", "uri is not a valid URI"},
        {"[{'uri':'a:1'},{'uri':'a:2','metadata':[]}]", 400, 1, "metadata",
         "metadata must be an object"},
        {"{'uri':'a:1','metadata':null}", 400, 0, "metadata", "must be an object"},
        {"{'uri':'a:1','content':7}", 400, 0, "content", "must be a string"},
        {"{'uri':'a:1','content':{}}", 400, 0, "content", "must be a string"},
        {"{'uri':'a:1','content':{'blob':'AA==','x':1}}", 400, 0, "content", "blob"},
        {"{'uri':'a:1','content':{'blob':'A'}}", 400, 0, "content", "not base64"},
        {"{'uri':'a:1','mimeType':'a/b'}", 400, 0, "mimeType", "requires"},
        {"{'uri':'a:1','content':'','mimeType':''}", 400, 0, "mimeType", "1 to 255"},
        {"{'uri':'a:1','content':'','mimeType':'a\\n'}", 400, 0, "mimeType", "ASCII"},
        {"{'uri':'a:1','deleted':1}", 400, 0, "deleted", "true or false"},
        {"{'uri':'a:1','deleted':true,'content':'x'}", 400, 0, "content", "deleted"},
        {"{'uri':'a:1','mimetype':'a/b'}", 400, 0, "mimetype",
         "mimetype is not known here"},
        {"{'uri':'a:1','"
         "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx':1}",
         400, 0, "(a long name)", "is not known here"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        tdg__publish_list_t list = {0};
        tdg__publish_error_t error = {0};

        if (read_body(rows[i].body, &list, &error) != TDG_EINVAL)
            fail_msg("taken: %s", rows[i].body);
        assert_int_equal(error.status, rows[i].status);
        assert_int_equal(error.has_index ? (int)error.index : -1, rows[i].index);
        assert_string_equal(error.field, rows[i].field);
        if (strstr(error.message, rows[i].message) == NULL)
            fail_msg("%s: %s", rows[i].body, error.message);
        assert_null(list.items);
    }
}

static void a_body_has_at_most_a_thousand_changes(void **state) {
    static const char one[] = "{\"uri\":\"a:1\"},";
    char *body = malloc(1001 * strlen(one) + 2);
    char *at = body;
    tdg__publish_list_t list = {0};
    tdg__publish_error_t error;

    (void)state;
    assert_non_null(body);
    *at++ = '[';
    for (int i = 0; i < 1001; i++)
        at = stpcpy(at, one);
    at[-1] = ']';
    assert_int_equal(tdg__publish_read(body, (size_t)(at - body), &list, &error),
                     TDG_EINVAL);
    assert_int_equal(error.status, 413);
    at[-1 - (ptrdiff_t)strlen(one)] = ']';
    assert_int_equal(
        tdg__publish_read(body, (size_t)(at - body) - strlen(one), &list, &error), 0);
    assert_int_equal(list.count, 1000);
    tdg__publish_list_done(&list);
    free(body);
}

/* ---- A store ------------------------------------------------------------ */

/* Keeps what is published for m:…, on a thread of its own or right here. */
struct work {
    struct work *next;
    void (*work)(void *arg, bool here);
    void *arg;
};

struct store {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t thread;
    bool threaded, held, stop;
    struct work *first, **last;
    char kept[64]; /* the last content */
    atomic_int checks, commits, abandons;
};

static void *run_store(void *arg) {
    struct store *store = arg;

    pthread_mutex_lock(&store->lock);
    while (store->first != NULL || !store->stop) {
        struct work *work = store->first;

        if (work == NULL || (store->held && !store->stop)) {
            pthread_cond_wait(&store->changed, &store->lock);
            continue;
        }
        store->first = work->next;
        if (store->first == NULL)
            store->last = &store->first;
        bool here = !store->stop;
        pthread_mutex_unlock(&store->lock);
        work->work(work->arg, here);
        free(work);
        pthread_mutex_lock(&store->lock);
    }
    pthread_mutex_unlock(&store->lock);
    return NULL;
}

static void store_enter(void *user, void (*work)(void *arg, bool here), void *arg) {
    struct store *store = user;
    struct work *entry;

    if (!store->threaded) {
        work(arg, !store->stop);
        return;
    }
    entry = malloc(sizeof(*entry));
    if (entry == NULL)
        abort();
    *entry = (struct work){NULL, work, arg};
    pthread_mutex_lock(&store->lock);
    *store->last = entry;
    store->last = &entry->next;
    pthread_cond_signal(&store->changed);
    pthread_mutex_unlock(&store->lock);
}

static int store_check(void *user, tdg__publish_item_t *item, char why[160]) {
    struct store *store = user;

    if (item->content != NULL && strncmp(item->uri, "m:", 2) != 0) {
        snprintf(why, 160, "%s is no memory resource", item->uri);
        return TDG_ENOTFOUND;
    }
    if (item->content_len >= sizeof(store->kept))
        return TDG_ETOOLARGE;
    if (strcmp(item->uri, "m:away") == 0)
        return TDG_EUNREACHABLE;
    if (strcmp(item->uri, "m:full") == 0)
        return TDG_ETOTAL;
    if (strcmp(item->uri, "m:odd") == 0)
        return TDG_EREFUSED;
    if (item->content != NULL) {
        item->prepared = store;
        json_t *metadata = item->metadata != NULL ? item->metadata : json_object();
        item->metadata = metadata;
        if (json_object_set_new(metadata, "size",
                                json_integer((json_int_t)item->content_len)) < 0)
            return TDG_ENOMEM;
    }
    atomic_fetch_add(&store->checks, 1);
    return 0;
}

static void store_commit(void *user, tdg__publish_item_t *item) {
    struct store *store = user;

    atomic_fetch_add(&store->commits, 1);
    if (item->content == NULL)
        return;
    if (item->prepared != store)
        abort();
    pthread_mutex_lock(&store->lock);
    snprintf(store->kept, sizeof(store->kept), "%s", item->content);
    pthread_mutex_unlock(&store->lock);
}

static void store_abandon(void *user, tdg__publish_item_t *item) {
    struct store *store = user;

    (void)item;
    atomic_fetch_add(&store->abandons, 1);
}

static void store_open(struct store *store, bool threaded) {
    store->threaded = threaded;
    store->last = &store->first;
    pthread_mutex_init(&store->lock, NULL);
    pthread_cond_init(&store->changed, NULL);
    if (threaded)
        assert_int_equal(pthread_create(&store->thread, NULL, run_store, store), 0);
}

static void store_set(struct store *store, bool held, bool stop) {
    pthread_mutex_lock(&store->lock);
    store->held = held;
    store->stop = stop;
    pthread_cond_signal(&store->changed);
    pthread_mutex_unlock(&store->lock);
}

static void store_close(struct store *store) {
    store_set(store, false, true);
    if (store->threaded)
        pthread_join(store->thread, NULL);
    pthread_cond_destroy(&store->changed);
    pthread_mutex_destroy(&store->lock);
}

static void store_kept(struct store *store, char ret[64]) {
    pthread_mutex_lock(&store->lock);
    memcpy(ret, store->kept, 64);
    pthread_mutex_unlock(&store->lock);
}

/* ---- Fixture ------------------------------------------------------------ */

#define KEY "Authorization: Bearer s3cret key\r\n"

static const char *const keys[] = {"other key", "s3cret key", NULL};

struct fixture {
    struct served served;
    struct client client, listener, second;
    struct store store;
    bool has_store;
};

static tdg__publish_store_t store_of(struct fixture *f) {
    return (tdg__publish_store_t){.enter = store_enter,
                                  .check = store_check,
                                  .commit = store_commit,
                                  .abandon = store_abandon,
                                  .user = &f->store};
}

static void enable(struct fixture *f, bool with_store, uint32_t timeout_ms) {
    tdg__publish_store_t store = store_of(f);
    tdg__publish_opts_t opts = {
        .keys = keys, .store = with_store ? &store : NULL, .timeout_ms = timeout_ms};

    assert_int_equal(tdg__server_enable_publish(f->served.server, &opts), 0);
}

static int setup_with(void **state, const tdg_server_opts_t *opts) {
    struct fixture *f = calloc(1, sizeof(*f));

    if (f == NULL)
        return 1;
    *state = f;
    served_open(&f->served, opts, NULL);
    served_client(&f->served, &f->client);
    client_init(&f->listener, NULL);
    client_init(&f->second, NULL);
    store_open(&f->store, true);
    return 0;
}

static int setup(void **state) {
    const tdg_server_opts_t opts = {.workers = 3, .keepalive_ms = 40};

    return setup_with(state, &opts);
}

/* Whoever stops waits for what is being done, however slow the machine is. */
static int setup_patient(void **state) {
    const tdg_server_opts_t opts = {
        .workers = 3, .keepalive_ms = 40, .stop_timeout_ms = 120000};

    return setup_with(state, &opts);
}

static int teardown(void **state) {
    struct fixture *f = *state;

    client_done(&f->client);
    client_done(&f->listener);
    client_done(&f->second);
    store_close(&f->store); /* before the server goes */
    if (f->served.server != NULL)
        served_close(&f->served);
    free(f);
    return 0;
}

static int publish(struct fixture *f, const char *body) {
    client_request(&f->client, "POST", "/publish", KEY, body);
    return client_response(&f->client);
}

static void listen_to(struct fixture *f, struct client *client,
                      const char *notifications) {
    client_connect(client, f->served.port);
    modern_listen(client, notifications);
}

/* ---- Who may ------------------------------------------------------------ */

static void without_a_key_it_is_not_there(void **state) {
    struct fixture *f = *state;
    tdg__publish_opts_t off = {.keys = NULL};

    assert_int_equal(publish(f, "{'uri':'a:1'}"), 404);
    enable(f, false, 0);
    assert_int_equal(publish(f, "{'uri':'a:1'}"), 200);
    assert_int_equal(tdg__server_enable_publish(f->served.server, &off), 0);
    assert_int_equal(publish(f, "{'uri':'a:1'}"), 404);
}

static void only_who_has_a_key_may_publish(void **state) {
    static const char *const wrong[] = {
        NULL,
        "Authorization: Bearer\r\n",
        "Authorization: Bearer \r\n",
        "Authorization: s3cret key\r\n",
        "Authorization: Basic s3cret key\r\n",
        "Authorization: Bearer s3cret kez\r\n",
        "Authorization: Bearer s3cret key2\r\n",
        "Authorization: Bearer s3cret ke\r\n",
        "Authorization: Bearer S3cret key\r\n",
    };
    struct fixture *f = *state;
    char fields[256];

    enable(f, false, 0);
    listen_to(f, &f->listener, "{'resourceSubscriptions':['a:1']}");
    for (size_t i = 0; i < COUNT(wrong); i++) {
        client_request(&f->client, "POST", "/publish", wrong[i], "{'uri':'a:1'}");
        assert_int_equal(client_response(&f->client), 401);
        client_header(&f->client, "WWW-Authenticate", fields);
        assert_string_equal(fields, "Bearer realm=\"publish\"");
        assert_body(&f->client, "{'error':{'message':'Publishing needs the publish key");
    }
    client_request(&f->client, "POST", "/publish", "Authorization: bearer  other key\r\n",
                   "{'uri':'a:1','metadata':{'mark':'right'}}");
    assert_int_equal(client_response(&f->client), 200);
    client_expect(&f->listener, "'mark':'right'"); /* and nothing before */
}

/* Before the body is read, and before the client is told to send it. */
static void who_has_no_key_need_not_send_a_body(void **state) {
    static const char *const wrong[] = {"", "Authorization: Bearer s3cret kez\r\n"};
    struct fixture *f = *state;
    char text[512];

    enable(f, false, 0);
    for (size_t i = 0; i < COUNT(wrong); i++) {
        client_connect(&f->client, f->served.port);
        snprintf(text, sizeof(text),
                 "POST /publish HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\n"
                 "Content-Type: application/json\r\nContent-Length: 100000\r\n%s\r\n",
                 wrong[i]);
        client_send(&f->client, text);
        assert_int_equal(client_response(&f->client), 401);
        client_header(&f->client, "WWW-Authenticate", text);
        assert_string_equal(text, "Bearer realm=\"publish\"");
        assert_body(&f->client, "{'error':{'message':'Publishing needs the publish key");
    }
}

static void keys_have_to_be_keys(void **state) {
    static const char *const empty[] = {"fine", "", NULL};
    static const char *many[66];
    struct fixture *f = *state;
    tdg__publish_opts_t opts = {.keys = empty};

    assert_int_equal(tdg__server_enable_publish(f->served.server, &opts), TDG_EINVAL);
    for (size_t i = 0; i < 65; i++)
        many[i] = "k";
    opts.keys = many;
    assert_int_equal(tdg__server_enable_publish(f->served.server, &opts), TDG_EINVAL);
    assert_int_equal(publish(f, "{'uri':'a:1'}"), 404);
}

static void the_request_has_to_be_json(void **state) {
    struct fixture *f = *state;

    enable(f, false, 0);
    client_send(&f->client, "POST /publish HTTP/1.1\r\nHost: localhost\r\n" KEY
                            "Content-Type: text/plain\r\nContent-Length: 2\r\n\r\n{}");
    assert_int_equal(client_response(&f->client), 415);
    assert_body(&f->client, "'error':{'message':");
    assert_int_equal(publish(f, "nothing"), 400);
    assert_body(&f->client, "{'error':{'message':'Invalid JSON");
    assert_int_equal(publish(f, "[{'uri':'a:1'},{'url':'a:2'}]"), 400);
    assert_body(&f->client,
                "{'error':{'message':'url is not known here','index':1,'field':'url'}}");
    client_request(&f->client, "GET", "/publish", KEY, NULL);
    assert_int_equal(client_response(&f->client), 405);
}

/* ---- What is told ------------------------------------------------------- */

static uint64_t number_at(const char *body, const char *name, size_t index) {
    json_t *all = json_loads(body, 0, NULL);
    json_t *change = json_array_get(json_object_get(all, "changes"), index);
    json_t *number = json_object_get(change, name);

    if (!json_is_integer(number))
        fail_msg("no %s at %zu in %s", name, index, body);
    uint64_t value = (uint64_t)json_integer_value(number);
    json_decref(all);
    return value;
}

static void subscribers_are_told_and_the_caller_hears_of_them(void **state) {
    struct fixture *f = *state;

    enable(f, false, 0);
    listen_to(f, &f->listener, "{'resourceSubscriptions':['a:1','a:2','t:{x}']}");
    listen_to(f, &f->second, "{'resourceSubscriptions':['a:1','t:x']}");
    assert_int_equal(publish(f, "{'uri':'a:1','metadata':{'by':'me','version':'v7'}}"),
                     200);
    assert_body(&f->client, "{'changes':[{'uri':'a:1','number':");
    uint64_t number = number_at(f->client.body, "number", 0);
    assert_int_equal(number_at(f->client.body, "version", 0), number);
    assert_int_equal(number_at(f->client.body, "subscriptions", 0), 2);
    char text[64];
    snprintf(text, sizeof(text), "'dev.tidings/version':%llu",
             (unsigned long long)number);
    client_expect(&f->listener, text);
    assert_true(has(f->listener.event, "'by':'me'"));
    assert_true(has(f->listener.event, "'version':'v7'"));
    client_expect(&f->second, text);

    assert_int_equal(publish(f, "[{'uri':'a:2'},{'uri':'t:x','deleted':true},"
                                "{'uri':'b:nobody'}]"),
                     200);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(number_at(f->client.body, "number", i), number + 1 + i);
    assert_int_equal(number_at(f->client.body, "subscriptions", 0), 1);
    assert_int_equal(number_at(f->client.body, "subscriptions", 1), 2);
    assert_int_equal(number_at(f->client.body, "subscriptions", 2), 0);
    client_expect(&f->listener, "'uri':'a:2'");
    client_expect(&f->listener, "'uri':'t:x'");
    client_expect(&f->second, "'change_type':'deleted'");
}

static void all_are_told_or_none(void **state) {
    struct fixture *f = *state;
    char long_uri[5000], body[6000];

    enable(f, false, 0);
    listen_to(f, &f->listener, "{'resourceSubscriptions':['a:1','a:2']}");
    memset(long_uri, 'x', sizeof(long_uri) - 1);
    memcpy(long_uri, "a:", 2);
    long_uri[sizeof(long_uri) - 1] = '\0';
    snprintf(body, sizeof(body), "[{'uri':'a:1'},{'uri':'%s'}]", long_uri);
    assert_int_equal(publish(f, body), 400);
    assert_body(&f->client, "'uri is too long','index':1,'field':'uri'");
    assert_int_equal(publish(f, "[{'uri':'a:1'},{'uri':'a:2','deleted':0}]"), 400);
    assert_int_equal(publish(f, "[{'uri':'a:1'},{'uri':'a:2','content':'x'}]"), 409);
    assert_body(&f->client,
                "'content is not accepted for this URI','index':1,'field':'content'");

    char large[20100];
    int at =
        snprintf(large, sizeof(large), "[{'uri':'a:1'},{'uri':'a:2','metadata':{'m':'");
    memset(large + at, 'x', 20000);
    memcpy(large + at + 20000, "'}}]", 5);
    assert_int_equal(publish(f, large), 400);
    assert_body(&f->client, "'metadata is too large','index':1,'field':'metadata'");

    assert_int_equal(publish(f, "{'uri':'a:1','metadata':{'mark':'last'}}"), 200);
    client_expect(&f->listener, "'mark':'last'");
    assert_true(has(f->listener.event, "'uri':'a:1'"));
}

/* ---- Content ------------------------------------------------------------ */

static void content_is_there_before_subscribers_hear(void **state) {
    struct fixture *f = *state;
    char kept[64], body[128], expected[64];

    enable(f, true, 0);
    listen_to(f, &f->listener, "{'resourceSubscriptions':['t:x']}");
    for (int i = 0; i < 50; i++) {
        snprintf(body, sizeof(body),
                 "[{'uri':'m:1','content':'state %d'},{'uri':'t:x','metadata':{'i':%d}}]",
                 i, i);
        client_request(&f->client, "POST", "/publish", KEY, body);
        snprintf(expected, sizeof(expected), "'i':%d", i);
        client_expect(&f->listener, expected);
        store_kept(&f->store, kept);
        snprintf(expected, sizeof(expected), "state %d", i);
        assert_string_equal(kept, expected);
        assert_int_equal(client_response(&f->client), 200);
    }
    assert_int_equal(f->store.commits, 100);
    assert_int_equal(f->store.abandons, 0);
}

static void the_store_may_add_to_the_metadata(void **state) {
    struct fixture *f = *state;

    enable(f, true, 0);
    listen_to(f, &f->listener, "{'resourceSubscriptions':['t:x','a:1']}");
    assert_int_equal(publish(f, "{'uri':'m:1','content':'four'}"), 200);
    assert_int_equal(publish(f, "{'uri':'a:1','metadata':{'mark':1}}"), 200);
    client_expect(&f->listener, "'mark':1");
    assert_false(has(f->listener.event, "'size'"));
}

static void what_the_store_refuses_is_not_told(void **state) {
    struct fixture *f = *state;
    static const struct {
        const char *body;
        int status;
        const char *text;
    } rows[] = {
        {"[{'uri':'m:1','content':'x'},{'uri':'a:1','content':'x'}]", 409,
         "'a:1 is no memory resource','index':1,'field':'content'"},
        {"[{'uri':'a:1'},{'uri':'m:1','content':'"
         "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx'}]",
         413, "'content is too large','index':1"},
        {"[{'uri':'a:1'},{'uri':'m:full','content':''}]", 413, "'no room for content"},
        {"[{'uri':'a:1'},{'uri':'m:away','content':''}]", 503, "'index':1"},
        {"[{'uri':'a:1'},{'uri':'m:odd'}]", 422, "'index':1"},
    };

    enable(f, true, 0);
    listen_to(f, &f->listener, "{'resourceSubscriptions':['a:1']}");
    for (size_t i = 0; i < COUNT(rows); i++) {
        assert_int_equal(publish(f, rows[i].body), rows[i].status);
        assert_body(&f->client, rows[i].text);
    }
    assert_int_equal(f->store.commits, 0);
    assert_int_equal(f->store.abandons, f->store.checks);
    assert_int_equal(publish(f, "{'uri':'a:1','metadata':{'mark':1}}"), 200);
    client_expect(&f->listener, "'mark':1");
}

/* A store that hangs: its caller is told so, and the store may go on later. */
static void a_store_that_hangs_holds_nobody_up(void **state) {
    struct fixture *f = *state;

    enable(f, true, 50);
    store_set(&f->store, true, false);
    assert_int_equal(publish(f, "{'uri':'m:1','content':'late'}"), 504);
    enable(f, false, 0);
    assert_int_equal(publish(f, "{'uri':'a:1'}"), 200);
    store_set(&f->store, false, false);
    WAIT_UNTIL(&f->client, f->store.commits == 1);
}

/* Sends one, and waits until it is with the store, which does not look at it. */
static void publish_into_held_store(struct fixture *f) {
    struct work *first = NULL;

    enable(f, true, 0);
    store_set(&f->store, true, false);
    client_request(&f->client, "POST", "/publish", KEY, "{'uri':'m:1','content':'x'}");
    WAIT_UNTIL(&f->client, (pthread_mutex_lock(&f->store.lock), first = f->store.first,
                            pthread_mutex_unlock(&f->store.lock), first != NULL));
}

static void a_store_that_goes_first_refuses(void **state) {
    struct fixture *f = *state;

    publish_into_held_store(f);
    store_set(&f->store, true, true);
    assert_int_equal(client_response(&f->client), 503);
    assert_body(&f->client, "stopping");
    assert_int_equal(f->store.commits, 0);
}

static void read_nothing(void *user, tdg_request_t *request, const char *uri) {
    (void)user, (void)uri;
    tdg_request_fail_not_found(request);
}

/* The store has it when the stop begins: subscribers hear of it all the same. */
static void what_is_being_published_is_told_before_a_stop_ends_the_streams(void **state) {
    const tdg_resource_t kept = {.uri = "m:1", .name = "kept", .read = read_nothing};
    struct fixture *f = *state;

    assert_int_equal(tdg_server_add_resource(f->served.server, &kept), 0);
    listen_to(f, &f->listener, "{'resourceSubscriptions':['m:1']}");
    listen_to(f, &f->second, "{'resourceSubscriptions':['m:1']}");
    publish_into_held_store(f);
    tdg_server_stop_soon(f->served.server);
    assert_null(client_message_within(&f->listener, 50));
    assert_false(f->listener.ended);
    store_set(&f->store, false, false);
    assert_int_equal(client_response(&f->client), 200);
    client_expect(&f->listener, "'uri':'m:1'");
    client_expect(&f->listener, "'resultType':'complete'");
    client_expect(&f->second, "'uri':'m:1'");
    client_expect(&f->second, "'resultType':'complete'");
}

static void a_server_may_go_while_the_store_works(void **state) {
    struct fixture *f = *state;

    publish_into_held_store(f);
    clock_hurry(true);
    tdg_server_stop(f->served.server);
    assert_int_equal(client_response(&f->client), 503);
    served_destroy(&f->served);
    clock_hurry(false);
    store_set(&f->store, true, true); /* from now on it only cleans up */
}

/* ---- From inside -------------------------------------------------------- */

struct counted {
    pthread_mutex_t lock;
    bool done;
    uint64_t counts[3];
};

static void take_counts(void *arg, const tdg__matches_t *counts, size_t count) {
    struct counted *counted = arg;

    pthread_mutex_lock(&counted->lock);
    if (counted->done || count > COUNT(counted->counts))
        abort();
    for (size_t i = 0; i < count; i++)
        counted->counts[i] = counts[i];
    counted->done = true;
    pthread_mutex_unlock(&counted->lock);
}

static bool has_counted(struct counted *counted) {
    pthread_mutex_lock(&counted->lock);
    bool done = counted->done;
    pthread_mutex_unlock(&counted->lock);
    return done;
}

static tdg__change_t *change_of(const char *uri) {
    tdg__target_t target = tdg__target_uri(uri);
    tdg__change_t *change = NULL;

    assert_int_equal(tdg__change_create(&target, NULL, false, 0, 0, &change), 0);
    return change;
}

static void subscriptions_are_counted_on_all_workers(void **state) {
    enum { STREAMS = 9 };
    tdg__change_t *const changes[] = {change_of("a:1"), change_of("t:x"),
                                      change_of("a:2")};
    struct fixture *f = *state;
    struct client streams[STREAMS];
    struct counted counted = {.lock = PTHREAD_MUTEX_INITIALIZER};

    for (int i = 0; i < STREAMS; i++) {
        client_init(&streams[i], NULL);
        listen_to(f, &streams[i],
                  i % 3 == 0 ? "{'resourceSubscriptions':['a:1','t:x','t:{x}']}"
                             : "{'resourceSubscriptions':['a:1','t:{x}']}");
    }
    assert_int_equal(
        tdg__server_count_matches(f->served.server, changes, 3, take_counts, &counted),
        0);
    WAIT_UNTIL(&f->client, has_counted(&counted));
    assert_int_equal(counted.counts[0], STREAMS);
    assert_int_equal(counted.counts[1], STREAMS + STREAMS / 3); /* subscriptions */
    assert_int_equal(counted.counts[2], 0);
    for (size_t i = 0; i < COUNT(changes); i++)
        tdg__change_unref(changes[i]);
    for (int i = 0; i < STREAMS; i++)
        client_done(&streams[i]);
}

static void a_server_that_does_not_run_counts_none(void **state) {
    tdg__change_t *change = change_of("a:1");
    struct fixture *f = *state;
    struct counted counted = {.lock = PTHREAD_MUTEX_INITIALIZER, .counts = {7}};
    struct served other;

    served_create(&other, NULL);
    assert_int_equal(
        tdg__server_count_matches(other.server, &change, 1, take_counts, &counted), 0);
    assert_true(counted.done);
    assert_int_equal(counted.counts[0], 0);
    served_destroy(&other);

    tdg_server_stop(f->served.server);
    counted.done = false;
    counted.counts[0] = 7;
    assert_int_equal(
        tdg__server_count_matches(f->served.server, &change, 1, take_counts, &counted),
        0);
    assert_true(counted.done);
    assert_int_equal(counted.counts[0], 0);
    tdg__change_unref(change);
}

/* ---- Many at once ------------------------------------------------------- */

enum { CALLERS = 3, TIMES = 40 };

static void *call_often(void *arg) {
    struct fixture *f = arg;
    struct client client;

    served_client(&f->served, &client);
    for (int i = 0; i < TIMES; i++) {
        client_request(&client, "POST", "/publish", KEY,
                       "[{'uri':'m:1','content':'x'},{'uri':'a:1'},{'uri':'t:x'}]");
        if (client_response(&client) != 200 ||
            number_at(client.body, "number", 2) !=
                number_at(client.body, "number", 0) + 2)
            abort();
    }
    client_done(&client);
    return NULL;
}

static void callers_do_not_come_between_each_others_changes(void **state) {
    struct fixture *f = *state;
    pthread_t callers[CALLERS];

    enable(f, true, 0);
    for (int i = 0; i < CALLERS; i++)
        assert_int_equal(pthread_create(&callers[i], NULL, call_often, f), 0);
    for (int i = 0; i < CALLERS; i++)
        pthread_join(callers[i], NULL);
    assert_int_equal(f->store.commits, CALLERS * TIMES * 3);
}

/* ---- Memory ------------------------------------------------------------- */

struct oom {
    uv_loop_t loop;
    struct fixture f;
};

static void try_publish(struct oom *oom) {
    struct fixture *f = &oom->f;

    client_request(&f->client, "POST", "/publish", KEY,
                   "[{'uri':'m:1','content':{'blob':'AAEC'},'metadata':{'n':1}},"
                   "{'uri':'a:1','metadata':{'mark':1}},{'uri':'t:x','deleted':true}]");
    int status = client_response_within(&f->client, SHORT_MS);
    assert_int_not_equal(status, -1); /* answered, or cut off */
    if (status != 0 && status != 200 && status != 500 && status != 503)
        fail_msg("status %d: %s", status, f->client.body);
    if (status == 200 || (status == 500 && body_has(&f->client, "was published"))) {
        assert_int_equal(f->store.commits, 3);
    } else if (status != 0) { /* then nothing has happened */
        assert_int_equal(f->store.commits, 0);
        assert_int_equal(f->store.abandons, f->store.checks);
    }
}

/* Every allocation fails in turn, in one thread; nothing leaks. */
static void memory_may_run_out_at_any_time(void **state) {
    static const tdg_server_opts_t opts = {.keepalive_ms = 40, .stop_timeout_ms = 200};
    size_t nth = 0;
    bool failed = true;

    for (int how = MEMORY_ONCE; how <= MEMORY_FROM_THEN_ON; how++) {
        failed = true;
        for (nth = 1; failed; nth++) {
            struct oom *oom = state_create(state, sizeof(*oom));
            struct fixture *f = &oom->f;

            assert_int_equal(uv_loop_init(&oom->loop), 0);
            served_open(&f->served, &opts, &oom->loop);
            store_open(&f->store, false);
            served_client(&f->served, &f->client);
            memory_fail(nth, how);
            tdg__publish_store_t store = store_of(f);
            tdg__publish_opts_t all = {.keys = keys, .store = &store};
            if (tdg__server_enable_publish(f->served.server, &all) == 0)
                try_publish(oom);
            failed = memory_failed();
            memory_fail(0, MEMORY_ONCE);

            client_done(&f->client);
            tdg_server_stop(f->served.server);
            assert_int_equal(uv_run(&oom->loop, UV_RUN_DEFAULT), 0);
            served_destroy(&f->served);
            store_close(&f->store);
            assert_int_equal(uv_loop_close(&oom->loop), 0);
            state_destroy(state);
        }
        assert_true(nth > 20);
    }
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_body_is_one_change_or_several),
        cmocka_unit_test(what_is_wrong_is_named_with_its_place),
        cmocka_unit_test(a_body_has_at_most_a_thousand_changes),
        CASE(without_a_key_it_is_not_there),
        CASE(only_who_has_a_key_may_publish),
        CASE(who_has_no_key_need_not_send_a_body),
        CASE(keys_have_to_be_keys),
        CASE(the_request_has_to_be_json),
        CASE(subscribers_are_told_and_the_caller_hears_of_them),
        CASE(all_are_told_or_none),
        CASE(content_is_there_before_subscribers_hear),
        CASE(the_store_may_add_to_the_metadata),
        CASE(what_the_store_refuses_is_not_told),
        CASE(a_store_that_hangs_holds_nobody_up),
        CASE(a_store_that_goes_first_refuses),
        cmocka_unit_test_setup_teardown(
            what_is_being_published_is_told_before_a_stop_ends_the_streams, setup_patient,
            teardown),
        CASE(a_server_may_go_while_the_store_works),
        CASE(subscriptions_are_counted_on_all_workers),
        CASE(a_server_that_does_not_run_counts_none),
        CASE(callers_do_not_come_between_each_others_changes),
        cmocka_unit_test(memory_may_run_out_at_any_time), /* counts memory from here on */
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("publish", tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT
 *
 * What becomes not subscribable while somebody is subscribed: those subscriptions end in
 * the way of their protocol, and no others. */
#include <stdio.h>

#include "served.h"

#define COMPLETE "'result':{"

struct fixture {
    struct served served;
    struct client one, two, three;
};

static struct fixture *open_with(void **state, unsigned workers) {
    struct fixture *f = *state;
    const tdg_server_opts_t opts = {.workers = workers};

    served_open(&f->served, &opts, NULL);
    served_client(&f->served, &f->one);
    served_client(&f->served, &f->two);
    served_client(&f->served, &f->three);
    return f;
}

static int setup(void **state) {
    *state = calloc(1, sizeof(struct fixture));
    return *state == NULL;
}

static int teardown(void **state) {
    struct fixture *f = *state;

    client_done(&f->one);
    client_done(&f->two);
    client_done(&f->three);
    served_close(&f->served);
    free(f);
    return 0;
}

static void read_nothing(void *user, tdg_request_t *request, const char *uri) {
    (void)user, (void)uri;
    tdg_request_reply_text(request, "");
}

static void add_resource(struct fixture *f, const char *uri, bool not_subscribable) {
    const tdg_resource_t resource = {.uri = uri,
                                     .name = uri,
                                     .read = read_nothing,
                                     .not_subscribable = not_subscribable};

    assert_int_equal(tdg_server_add_resource(f->served.server, &resource), 0);
}

static void add_template(struct fixture *f, const char *text, bool not_subscribable) {
    const tdg_template_t template_ = {.uri_template = text,
                                      .name = text,
                                      .read = read_nothing,
                                      .not_subscribable = not_subscribable};

    assert_int_equal(tdg_server_add_template(f->served.server, &template_), 0);
}

/* The listen is complete: its client comes back and learns what it can have. */
static void expect_complete(struct client *client) {
    client_expect(client, COMPLETE);
    client_expect_end(client);
}

/* The deletion comes first, also where the workers are still looking for another reason.
 */
static void expect_complete_after_deletion(struct client *client) {
    client_expect(client, "'change_type':'deleted'");
    expect_complete(client);
}

static void a_listen_ends_and_is_refused_when_it_comes_back(void **state) {
    struct fixture *f = open_with(state, 2);

    modern_listen(&f->one, "{'resourceSubscriptions':['a:1','a:2']}");
    modern_listen(&f->two, "{'resourceSubscriptions':['a:2','t:{x}']}");
    add_resource(f, "a:1", true);
    expect_complete(&f->one);
    modern_listen(&f->one, "{'resourceSubscriptions':['a:1','a:2']}");
    assert_true(has(f->one.event, "'resourceSubscriptions':['a:2']"));
    assert_true(has(f->one.event, "'dev.tidings/refused':{'a:1':'not_subscribable'}"));
    served_change(&f->served, "a:2");
    client_expect(&f->one, "'uri':'a:2'");
    client_expect(&f->two, "'uri':'a:2'"); /* it has heard nothing of all that */
}

static void a_template_takes_its_uris_along(void **state) {
    struct fixture *f = open_with(state, 2);

    add_resource(f, "t:own", false);
    modern_listen(&f->one, "{'resourceSubscriptions':['t:5']}");
    modern_listen(&f->two, "{'resourceSubscriptions':['t:{x}']}");
    modern_listen(&f->three, "{'resourceSubscriptions':['t:own']}");
    add_template(f, "t:{x}", true);
    expect_complete(&f->one);
    expect_complete(&f->two);
    served_change(&f->served, "t:own");
    client_expect(&f->three, "'uri':'t:own'"); /* a resource of its own */
}

static void a_resource_that_is_added_takes_its_uri_out_of_a_template(void **state) {
    struct fixture *f = open_with(state, 1);

    modern_listen(&f->one, "{'resourceSubscriptions':['t:5']}");
    modern_listen(&f->two, "{'resourceSubscriptions':['t:6']}");
    add_resource(f, "t:5", true);
    expect_complete(&f->one);
    served_change(&f->served, "t:6");
    client_expect(&f->two, "'uri':'t:6'");
}

static void remove_resource(struct fixture *f, const char *uri) {
    assert_int_equal(tdg_server_remove_resource(f->served.server, uri), 0);
}

static void a_resource_that_is_removed_leaves_its_uri_to_a_template(void **state) {
    struct fixture *f = open_with(state, 2);

    add_resource(f, "t:own", false);
    add_resource(f, "t:other", false);
    add_template(f, "t:{x}", true);
    modern_listen(&f->one, "{'resourceSubscriptions':['t:own','a:2']}");
    modern_listen(&f->two, "{'resourceSubscriptions':['t:other']}");
    remove_resource(f, "t:own");
    expect_complete_after_deletion(&f->one);
    modern_listen(&f->one, "{'resourceSubscriptions':['t:own','a:2']}");
    assert_true(has(f->one.event, "'dev.tidings/refused':{'t:own':'not_subscribable'}"));
    served_change(&f->served, "t:other");
    client_expect(&f->two, "'uri':'t:other'"); /* it has heard nothing of all that */
}

static void a_template_that_is_removed_leaves_its_uris_to_another(void **state) {
    struct fixture *f = open_with(state, 2);

    add_template(f, "t:deep/{x}", false);
    add_template(f, "t:{+x}", true);
    add_resource(f, "t:deep/own", false);
    modern_listen(&f->one, "{'resourceSubscriptions':['t:deep/5']}");
    modern_listen(&f->two, "{'resourceSubscriptions':['t:deep/own','t:6']}");
    assert_int_equal(tdg_server_remove_template(f->served.server, "t:deep/{x}"), 0);
    expect_complete(&f->one);
    served_change(&f->served, "t:deep/own");
    client_expect(&f->two, "'uri':'t:deep/own'");
}

/* It may be created again. */
static void subscriptions_survive_a_removal_that_leaves_nothing_behind(void **state) {
    struct fixture *f = open_with(state, 1);

    add_template(f, "other:{x}", true);
    add_resource(f, "other:5", false);
    modern_listen(&f->one, "{'resourceSubscriptions':['a:1','t:7']}");
    modern_listen(&f->two, "{'resourceSubscriptions':['other:5']}");
    remove_resource(f, "a:1");
    client_expect(&f->one, "'change_type':'deleted'");
    assert_int_equal(tdg_server_remove_template(f->served.server, "t:{x}"), 0);
    remove_resource(f, "other:5"); /* whose end comes after a round through all */
    expect_complete_after_deletion(&f->two);
    served_change(&f->served, "a:1");
    client_expect(&f->one, "'uri':'a:1'");
    served_change(&f->served, "t:7");
    client_expect(&f->one, "'uri':'t:7'");
}

static void a_legacy_session_ends(void **state) {
    struct fixture *f = open_with(state, 2);
    struct client other;

    legacy_initialize(&f->one, LATEST_LEGACY);
    legacy_join(&f->two, &f->one);
    assert_int_equal(legacy_get(&f->two, NULL), 200);
    legacy_subscribe(&f->one, "a:1");
    served_client(&f->served, &other);
    legacy_initialize(&other, LATEST_LEGACY);
    legacy_subscribe(&other, "a:2");
    add_resource(f, "a:1", true);
    while (client_message(&f->two) != NULL)
        ;
    assert_true(f->two.ended);
    assert_int_equal(legacy_post(&f->one, "{'jsonrpc':'2.0','id':1,'method':'ping'}"),
                     404);
    assert_int_equal(legacy_post(&other, "{'jsonrpc':'2.0','id':1,'method':'ping'}"),
                     200);
    client_done(&other);
}

/* More subscriptions than a turn looks at, and more than a turn ends. */
enum { CROWD = 40, CROWD_URIS = 100 };

static void open_crowd(struct fixture *f, struct client *crowd) {
    char wanted[64 + CROWD_URIS * 12] = "{'resourceSubscriptions':['a:1'";

    for (int i = 0; i < CROWD_URIS; i++)
        snprintf(wanted + strlen(wanted), sizeof(wanted) - strlen(wanted), ",'t:%d'", i);
    strcat(wanted, "]}");
    for (int i = 0; i < CROWD; i++) {
        served_client(&f->served, &crowd[i]);
        modern_listen(&crowd[i], wanted);
    }
}

static void close_crowd(struct client *crowd) {
    for (int i = 0; i < CROWD; i++)
        client_done(&crowd[i]);
}

static void many_end_over_several_turns(void **state) {
    struct fixture *f = open_with(state, 1);
    struct client crowd[CROWD];

    open_crowd(f, crowd);
    modern_listen(&f->one, "{'resourceSubscriptions':['a:2']}");
    add_resource(f, "t:99", true);
    add_resource(f, "a:1", true); /* asked again meanwhile */
    add_resource(f, "t:98", true);
    for (int i = 0; i < CROWD; i++)
        expect_complete(&crowd[i]);
    close_crowd(crowd);
    WAIT_COUNTER(&f->served, &f->one, subscriptions, 1);
    add_resource(f, "a:2", true); /* a round that begins anew */
    expect_complete(&f->one);
}

/* A little time passes, so that what follows meets a worker at whatever it is doing. */
static void dawdle(unsigned steps) {
    for (volatile unsigned i = 0; i < steps; i++)
        ;
}

/* Also where a round is under way for another reason: for those removed before. */
static void a_deletion_comes_before_the_end(void **state) {
    enum { ROUNDS = 20, OWN = 20 };
    struct fixture *f = open_with(state, 1);
    struct client crowd[CROWD], own[OWN] = {0};
    char uri[32], wanted[64];

    open_crowd(f, crowd);
    add_template(f, "own:{x}", true);
    for (int i = 0; i < OWN; i++)
        served_client(&f->served, &own[i]);
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < OWN; i++) {
            snprintf(uri, sizeof(uri), "own:%d", i);
            snprintf(wanted, sizeof(wanted), "{'resourceSubscriptions':['%s']}", uri);
            add_resource(f, uri, false);
            modern_listen(&own[i], wanted);
        }
        for (int i = 0; i < OWN; i++) {
            snprintf(uri, sizeof(uri), "own:%d", i);
            remove_resource(f, uri);
            dawdle((unsigned)round * 5000);
        }
        for (int i = 0; i < OWN; i++)
            expect_complete_after_deletion(&own[i]);
    }
    for (int i = 0; i < OWN; i++)
        client_done(&own[i]);
    close_crowd(crowd);
}

/* More streams than are written to in the turns before the round. */
static void a_deletion_comes_before_the_end_behind_a_crowd(void **state) {
    enum { STREAMS = 300 };
    struct fixture *f = open_with(state, 1);
    struct client *crowd = calloc(STREAMS, sizeof(*crowd));

    assert_non_null(crowd);
    add_template(f, "own:{x}", true);
    add_resource(f, "own:1", false);
    for (int i = 0; i < STREAMS; i++) {
        served_client(&f->served, &crowd[i]);
        modern_listen(&crowd[i], "{'resourceSubscriptions':['a:2']}");
    }
    for (int round = 0; round < 10; round++) {
        modern_listen(&f->one, "{'resourceSubscriptions':['own:1']}");
        served_change(&f->served, "a:2");
        remove_resource(f, "own:1");
        expect_complete_after_deletion(&f->one);
        for (int i = 0; i < STREAMS; i++)
            client_expect(&crowd[i], "'uri':'a:2'");
        add_resource(f, "own:1", false);
    }
    for (int i = 0; i < STREAMS; i++)
        client_done(&crowd[i]);
    free(crowd);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        CASE(a_listen_ends_and_is_refused_when_it_comes_back),
        CASE(a_template_takes_its_uris_along),
        CASE(a_resource_that_is_added_takes_its_uri_out_of_a_template),
        CASE(a_resource_that_is_removed_leaves_its_uri_to_a_template),
        CASE(a_template_that_is_removed_leaves_its_uris_to_another),
        CASE(subscriptions_survive_a_removal_that_leaves_nothing_behind),
        CASE(a_legacy_session_ends),
        CASE(many_end_over_several_turns),
        CASE(a_deletion_comes_before_the_end),
        CASE(a_deletion_comes_before_the_end_behind_a_crowd),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("recheck", tests, NULL, NULL);
}

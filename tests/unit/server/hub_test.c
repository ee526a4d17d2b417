/* SPDX-License-Identifier: MIT
 *
 * The hub from one thread: what it says to workers and to watchers. With threads:
 * hub_threads_test.c. */
#include "server/hub/hub.h"

#include <stdio.h>

#include <tidings/server.h>

#include "base/alloc.h"
#include "support.h"

#define URI(text) (&(const tdg__target_t){TDG__TARGET_URI, (text), strlen(text)})
#define TEMPLATE(text)                                                                   \
    (&(const tdg__target_t){TDG__TARGET_TEMPLATE, (text), strlen(text)})
#define LIST(text) (&(const tdg__target_t){TDG__TARGET_LIST, (text), strlen(text)})

enum { WORKERS = 3, ROOM = 8, MAX_LOG = 2000 };

/* A hub with workers that have joined, and a source that does as it is told. */
struct world {
    tdg__hub_t *hub;
    tdg__inbox_t *inboxes[WORKERS];
    int woken;

    int start_answer; /* what start() returns */
    void (*inside)(struct world *w, const tdg__target_t *target); /* called by it */
    char log[MAX_LOG]; /* "+URI " for each start(), "-URI " for each stop() */
};

static void note(struct world *w, const char *what, const tdg__target_t *target) {
    size_t len = strlen(w->log);

    assert_true(len + target->len + 3 < sizeof(w->log));
    assert_int_equal(strlen(target->name), target->len);
    snprintf(w->log + len, sizeof(w->log) - len, "%s%s ", what, target->name);
}

static int on_start(void *user, const tdg__target_t *target) {
    struct world *w = user;

    note(w, "+", target);
    if (w->inside != NULL)
        w->inside(w, target);
    return w->start_answer;
}

static void on_stop(void *user, const tdg__target_t *target) {
    struct world *w = user;

    note(w, "-", target);
    /* Nobody waits for an answer, and no lock is held. */
    assert_int_equal(tdg__hub_watch_done(w->hub, target, 0), TDG_ENOTFOUND);
}

static void expect_log(struct world *w, const char *text) {
    assert_string_equal(w->log, text);
    w->log[0] = '\0';
}

/* Would hang where a lock is held. */
static void on_wake(void *user) {
    struct world *w = user;

    w->woken++;
    if (w->hub != NULL)
        tdg__hub_last_number(w->hub);
}

static int setup(void **state) {
    struct world *w = state_create(state, sizeof(*w));
    tdg__hub_opts_t opts = {.start = on_start, .stop = on_stop, .user = w};

    assert_int_equal(tdg__hub_create(&opts, &w->hub), 0);
    for (int i = 0; i < WORKERS; i++) {
        uint64_t number = 99;

        assert_int_equal(tdg__inbox_create(ROOM, on_wake, w, &w->inboxes[i]), 0);
        assert_int_equal(tdg__hub_join(w->hub, w->inboxes[i], &number), 0);
        assert_int_equal(number, 0);
    }
    return 0;
}

static int teardown(void **state) {
    struct world *w = *state;

    memory_fail(0, MEMORY_ONCE);
    tdg__hub_destroy(w->hub);
    w->hub = NULL;
    for (int i = 0; i < WORKERS; i++)
        tdg__inbox_unref(w->inboxes[i]);
    return state_destroy(state);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

static int publish(struct world *w, const char *uri) {
    return tdg__hub_publish(w->hub, URI(uri), NULL, false);
}

static int watch(struct world *w, int worker, const char *uri) {
    return tdg__hub_watch(w->hub, w->inboxes[worker], URI(uri));
}

static void unwatch(struct world *w, int worker, const char *uri) {
    tdg__hub_unwatch(w->hub, w->inboxes[worker], URI(uri));
}

static int done(struct world *w, const char *uri, int error) {
    return tdg__hub_watch_done(w->hub, URI(uri), error);
}

/* The returned change is the caller's. */
static tdg__change_t *take_change(struct world *w, int worker) {
    tdg__inbox_entry_t entry;

    assert_int_equal(tdg__inbox_take(w->inboxes[worker], &entry, 1), 1);
    assert_non_null(entry.change);
    return entry.change;
}

static void expect_change(struct world *w, int worker, const char *uri, uint64_t number) {
    tdg__change_t *change = take_change(w, worker);

    assert_string_equal(change->name, uri);
    assert_int_equal(change->number, number);
    tdg__change_unref(change);
}

static void expect_answer(struct world *w, int worker, const char *name, int error,
                          uint64_t number) {
    tdg__inbox_entry_t entry;

    assert_int_equal(tdg__inbox_take(w->inboxes[worker], &entry, 1), 1);
    assert_null(entry.change);
    assert_string_equal(entry.target.name, name);
    assert_int_equal(entry.error, error);
    if (error == 0)
        assert_int_equal(entry.number, number);
    tdg__free((char *)(uintptr_t)entry.target.name);
}

static void expect_nothing(struct world *w, int worker) {
    tdg__inbox_entry_t entry;

    assert_int_equal(tdg__inbox_take(w->inboxes[worker], &entry, 1), 0);
}

/* ---- Publishing --------------------------------------------------------- */

static void a_change_reaches_every_worker_as_one_object(void **state) {
    struct world *w = *state;
    json_t *metadata = json_from("{'size': 7}");
    tdg__change_t *changes[WORKERS];

    assert_int_equal(tdg__hub_publish(w->hub, URI("a:1"), metadata, true), 0);
    json_decref(metadata);
    assert_int_equal(tdg__hub_publish(w->hub, LIST("tools"), NULL, false), 0);
    for (int i = 0; i < WORKERS; i++) {
        changes[i] = take_change(w, i);
        assert_ptr_equal(changes[i], changes[0]);
        expect_change(w, i, "tools", 2);
        expect_nothing(w, i);
    }
    assert_int_equal(changes[0]->number, 1);
    assert_true(changes[0]->deleted);
    assert_true(changes[0]->wall_ms > INT64_C(1600000000000));
    assert_json_equal(changes[0]->metadata, "{'size': 7}");
    for (int i = 0; i < WORKERS; i++)
        tdg__change_unref(changes[i]);
    assert_int_equal(tdg__hub_last_number(w->hub), 2);
}

/* Makes changes of a:0, a:1, …; for tdg__change_unref(). */
static void prepare(struct world *w, tdg__change_t **changes, size_t count) {
    char uri[32];

    for (size_t i = 0; i < count; i++) {
        snprintf(uri, sizeof(uri), "a:%zu", i);
        assert_int_equal(tdg__hub_prepare(w->hub, URI(uri), NULL, false, &changes[i]), 0);
    }
}

static void drop_all(tdg__change_t **changes, size_t count) {
    for (size_t i = 0; i < count; i++)
        tdg__change_unref(changes[i]);
}

static void several_are_published_together(void **state) {
    struct world *w = *state;
    tdg__change_t *changes[ROOM];

    assert_int_equal(publish(w, "b:1"), 0);
    prepare(w, changes, ROOM - 1);
    assert_int_equal(tdg__hub_has_room(w->hub, ROOM - 1), 0);
    assert_int_equal(tdg__hub_publish_all(w->hub, changes, ROOM - 1), 0);
    for (int i = 0; i < WORKERS; i++) {
        expect_change(w, i, "b:1", 1);
        expect_change(w, i, "a:0", 2);
        expect_change(w, i, "a:1", 3);
    }
    assert_int_equal(tdg__hub_last_number(w->hub), ROOM);
    drop_all(changes, ROOM - 1);
}

/* Also where one of them could be merged with what waits. */
static void where_one_has_no_room_for_all_nobody_gets_any(void **state) {
    struct world *w = *state;
    tdg__change_t *changes[3];
    tdg__inbox_entry_t entry;

    for (int i = 0; i < ROOM - 2; i++)
        assert_int_equal(publish(w, "a:0"), 0);
    for (int i = 0; i < WORKERS - 1; i++) {
        while (tdg__inbox_take(w->inboxes[i], &entry, 1) == 1)
            tdg__change_unref(entry.change);
    }
    prepare(w, changes, 3);
    assert_int_equal(tdg__hub_has_room(w->hub, 3), TDG_EAGAIN);
    assert_int_equal(tdg__hub_publish_all(w->hub, changes, 3), TDG_EAGAIN);
    assert_int_equal(changes[0]->number, 0);
    assert_int_equal(tdg__hub_last_number(w->hub), ROOM - 2);
    for (int i = 0; i < WORKERS - 1; i++)
        expect_nothing(w, i);

    expect_change(w, WORKERS - 1, "a:0", 1); /* now there is room */
    assert_int_equal(tdg__hub_publish_all(w->hub, changes, 3), 0);
    for (int i = 0; i < WORKERS - 1; i++)
        expect_change(w, i, "a:0", ROOM - 1);
    drop_all(changes, 3);
}

static void several_need_memory_in_every_inbox_first(void **state) {
    struct world *w = *state;
    tdg__change_t *changes[2];

    prepare(w, changes, 2);
    for (int nth = 1; nth <= WORKERS; nth++) {
        memory_fail(1, MEMORY_ONCE); /* the room that was made stays */
        assert_int_equal(tdg__hub_publish_all(w->hub, changes, 2), TDG_ENOMEM);
        memory_fail(0, MEMORY_ONCE);
        assert_int_equal(tdg__hub_last_number(w->hub), 0);
        for (int i = 0; i < WORKERS; i++)
            expect_nothing(w, i);
        memory_fail(2, MEMORY_ONCE);
        tdg__hub_has_room(w->hub, 2);
    }
    memory_fail(0, MEMORY_ONCE);
    assert_int_equal(tdg__hub_publish_all(w->hub, changes, 2), 0);
    assert_int_equal(changes[1]->number, 2);
    drop_all(changes, 2);
}

static void workers_are_woken_without_a_lock(void **state) {
    struct world *w = *state;

    assert_int_equal(publish(w, "a:1"), 0);
    assert_int_equal(w->woken, WORKERS);
    assert_int_equal(publish(w, "a:1"), 0);
    assert_int_equal(w->woken, WORKERS);
}

struct deed {
    struct world *world;
    int answer;
    int done;
};

static int do_it(void *arg) {
    struct deed *deed = arg;

    for (int i = 0; i < WORKERS; i++)
        expect_nothing(deed->world, i);
    deed->done++;
    return deed->answer;
}

static int publish_with(struct world *w, struct deed *deed) {
    return tdg__hub_publish_with(w->hub, URI("a:1"), NULL, true, do_it, deed);
}

static void what_belongs_to_a_change_is_done_before_anybody_sees_it(void **state) {
    struct world *w = *state;
    struct deed deed = {.world = w};

    assert_int_equal(publish_with(w, &deed), 0);
    assert_int_equal(deed.done, 1);
    for (int i = 0; i < WORKERS; i++)
        expect_change(w, i, "a:1", 1);

    deed.answer = TDG_ENOTFOUND; /* it cannot be done: there is no change */
    assert_int_equal(publish_with(w, &deed), TDG_ENOTFOUND);
    assert_int_equal(deed.done, 2);
    assert_int_equal(tdg__hub_last_number(w->hub), 1);
    expect_nothing(w, 0);
}

static void it_is_not_done_where_the_change_does_not_fit_in(void **state) {
    struct world *w = *state;
    struct deed deed = {.world = w};
    char uri[16];

    for (int i = 0; i < ROOM; i++) {
        snprintf(uri, sizeof(uri), "b:%d", i);
        assert_int_equal(publish(w, uri), 0);
    }
    assert_int_equal(publish_with(w, &deed), TDG_EAGAIN);
    memory_fail(1, MEMORY_ONCE);
    assert_int_equal(publish_with(w, &deed), TDG_ENOMEM);
    assert_int_equal(deed.done, 0);
}

static void what_makes_no_sense_is_not_published(void **state) {
    struct world *w = *state;
    tdg__hub_opts_t opts = {.max_name_bytes = 5, .max_metadata_bytes = 12};
    json_t *array = json_from("[]"), *large = json_from("{'size': 1000}");
    tdg__hub_t *strict;

    assert_int_equal(tdg__hub_create(&opts, &strict), 0);
    assert_int_equal(tdg__hub_publish(strict, URI("a:123"), NULL, false), 0);
    assert_int_equal(tdg__hub_publish(strict, URI("a:1234"), NULL, false), TDG_EURILEN);
    assert_int_equal(tdg__hub_publish(strict, URI("a:1"), large, false), TDG_EMETADATA);
    assert_int_equal(tdg__hub_last_number(strict), 1);
    tdg__hub_destroy(strict);
    tdg__hub_destroy(NULL);

    assert_int_equal(publish(w, ""), TDG_EINVAL);
    assert_int_equal(tdg__hub_publish(w->hub, NULL, NULL, false), TDG_EINVAL);
    assert_int_equal(tdg__hub_publish(w->hub, TEMPLATE("a:{x}"), NULL, false),
                     TDG_EINVAL);
    assert_int_equal(tdg__hub_publish(w->hub, LIST("toys"), NULL, false), TDG_EINVAL);
    assert_int_equal(tdg__hub_publish(w->hub, URI("a:1"), array, false), TDG_EINVAL);
    json_decref(array);
    json_decref(large);
    assert_int_equal(tdg__hub_last_number(w->hub), 0);
    expect_nothing(w, 0);
}

static void epochs_differ(void **state) {
    struct world *w = *state;
    tdg__hub_t *other;

    assert_int_equal(tdg__hub_create(NULL, &other), 0);
    assert_true(tdg__hub_epoch(w->hub) != 0);
    assert_true(tdg__hub_epoch(w->hub) != tdg__hub_epoch(other));
    tdg__hub_destroy(other);
}

/* ---- Coming and going --------------------------------------------------- */

static void who_joins_late_sees_what_comes_later(void **state) {
    struct world *w = *state;
    uint64_t number;

    tdg__hub_leave(w->hub, w->inboxes[1]);
    assert_int_equal(publish(w, "a:1"), 0);
    expect_nothing(w, 1);
    assert_int_equal(tdg__hub_join(w->hub, w->inboxes[1], &number), 0);
    assert_int_equal(number, 1);
    assert_int_equal(publish(w, "a:1"), 0);
    expect_change(w, 1, "a:1", 2);
    expect_nothing(w, 1);
    expect_change(w, 2, "a:1", 1);
    expect_change(w, 2, "a:1", 2);
}

static void a_worker_joins_once_and_no_more_than_64_do(void **state) {
    struct world *w = *state;
    tdg__inbox_t *more[62];
    uint64_t number = 7;

    assert_int_equal(tdg__hub_join(w->hub, w->inboxes[0], &number), TDG_EINVAL);
    assert_int_equal(number, 7);
    for (size_t i = 0; i < COUNT(more); i++) {
        assert_int_equal(tdg__inbox_create(1, NULL, NULL, &more[i]), 0);
        assert_int_equal(tdg__hub_join(w->hub, more[i], &number),
                         i < 61 ? 0 : TDG_EINVAL);
    }
    assert_int_equal(publish(w, "a:1"), 0);
    for (size_t i = 0; i < COUNT(more); i++) {
        tdg__hub_leave(w->hub, more[i]);
        tdg__inbox_unref(more[i]);
    }
}

static void a_worker_that_has_closed_holds_nobody_up(void **state) {
    struct world *w = *state;

    tdg__inbox_close(w->inboxes[0]);
    for (int i = 0; i < 3 * ROOM; i++) {
        assert_int_equal(publish(w, "a:1"), 0);
        expect_change(w, 1, "a:1", (uint64_t)i + 1);
        expect_change(w, 2, "a:1", (uint64_t)i + 1);
    }
    assert_int_equal(watch(w, 0, "w:1"), TDG_EAGAIN);
    expect_log(w, "+w:1 ");
    expect_nothing(w, 0);
    tdg__hub_leave(w->hub, w->inboxes[0]);
    expect_log(w, "-w:1 ");
}

/* ---- Full inboxes ------------------------------------------------------- */

static void fill(struct world *w) {
    char uri[16];

    for (int i = 1; i <= ROOM; i++) {
        snprintf(uri, sizeof(uri), "a:%d", i);
        assert_int_equal(publish(w, uri), 0);
    }
}

static void where_one_has_no_room_nobody_gets_it(void **state) {
    struct world *w = *state;

    fill(w);
    expect_change(w, 0, "a:1", 1);
    expect_change(w, 1, "a:1", 1);
    assert_int_equal(publish(w, "b:1"), TDG_EAGAIN);
    assert_int_equal(tdg__hub_last_number(w->hub), ROOM);
    expect_change(w, 2, "a:1", 1);
    assert_int_equal(publish(w, "b:1"), 0);
    for (int i = 0; i < WORKERS; i++) {
        for (uint64_t n = 2; n <= ROOM; n++)
            tdg__change_unref(take_change(w, i));
        expect_change(w, i, "b:1", ROOM + 1);
        expect_nothing(w, i);
    }
}

static void what_one_merges_is_unfiltered_for_all(void **state) {
    struct world *w = *state;
    tdg__inbox_entry_t entries[ROOM];

    fill(w);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(tdg__inbox_take(w->inboxes[i], entries, ROOM), ROOM);
        for (int k = 0; k < ROOM; k++)
            tdg__change_unref(entries[k].change);
    }
    assert_int_equal(publish(w, "a:3"), 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(tdg__inbox_take(w->inboxes[i], entries, ROOM), 1);
        assert_int_equal(entries[0].number, ROOM + 1);
        assert_true(entries[0].unfiltered);
        tdg__change_unref(entries[0].change);
    }
    assert_int_equal(tdg__inbox_take(w->inboxes[2], entries, ROOM), ROOM);
    for (int k = 0; k < ROOM; k++) {
        assert_int_equal(entries[k].number, k < 2 ? k + 1 : k + 2);
        assert_int_equal(entries[k].unfiltered, k == ROOM - 1);
        tdg__change_unref(entries[k].change);
    }
    assert_int_equal(publish(w, "a:3"), 0);
    assert_int_equal(tdg__inbox_take(w->inboxes[0], entries, ROOM), 1);
    assert_false(entries[0].unfiltered);
    tdg__change_unref(entries[0].change);
}

/* ---- Watching ----------------------------------------------------------- */

static void publish_inside(struct world *w, const tdg__target_t *target) {
    assert_int_equal(tdg__hub_publish(w->hub, target, NULL, false), 0);
}

static void an_arming_takes_a_number_and_comes_behind_what_is_below_it(void **state) {
    struct world *w = *state;

    w->inside = publish_inside;
    assert_int_equal(publish(w, "a:1"), 0);
    assert_int_equal(watch(w, 0, "w:1"), TDG_EAGAIN);
    assert_int_equal(publish(w, "a:2"), 0);
    expect_change(w, 0, "a:1", 1);
    expect_change(w, 0, "w:1", 2);
    expect_answer(w, 0, "w:1", 0, 3);
    expect_change(w, 0, "a:2", 4);
    expect_change(w, 1, "a:1", 1);
    expect_change(w, 1, "w:1", 2);
    expect_change(w, 1, "a:2", 4);
    expect_log(w, "+w:1 ");
}

static void a_target_is_watched_once_for_all_workers(void **state) {
    struct world *w = *state;

    assert_int_equal(watch(w, 0, "w:1"), TDG_EAGAIN);
    assert_int_equal(watch(w, 1, "w:1"), TDG_EAGAIN);
    expect_log(w, "+w:1 ");
    expect_answer(w, 0, "w:1", 0, 1);
    expect_answer(w, 1, "w:1", 0, 1); /* it has seen all since */
    unwatch(w, 0, "w:1");
    expect_log(w, "");
    unwatch(w, 0, "w:1");
    unwatch(w, 2, "w:1");
    expect_log(w, "");
    unwatch(w, 1, "w:1");
    expect_log(w, "-w:1 ");
    unwatch(w, 1, "w:1");
    assert_int_equal(watch(w, 2, "w:1"), TDG_EAGAIN);
    expect_log(w, "+w:1 ");
    unwatch(w, 2, "w:1");
    expect_log(w, "-w:1 ");
}

static void who_joins_after_an_arming_knows_from_now_on(void **state) {
    struct world *w = *state;
    uint64_t number;

    tdg__hub_leave(w->hub, w->inboxes[1]);
    assert_int_equal(watch(w, 0, "w:1"), TDG_EAGAIN);
    assert_int_equal(publish(w, "w:1"), 0);
    assert_int_equal(tdg__hub_join(w->hub, w->inboxes[1], &number), 0);
    assert_int_equal(watch(w, 1, "w:1"), TDG_EAGAIN);
    expect_answer(w, 0, "w:1", 0, 1);
    expect_change(w, 0, "w:1", 2);
    expect_answer(w, 1, "w:1", 0, 3);
    unwatch(w, 0, "w:1");
    unwatch(w, 1, "w:1");
    expect_log(w, "+w:1 -w:1 ");
}

static void kinds_of_targets_are_kept_apart(void **state) {
    struct world *w = *state;

    assert_int_equal(watch(w, 0, "tools"), TDG_EAGAIN);
    assert_int_equal(tdg__hub_watch(w->hub, w->inboxes[0], LIST("tools")), TDG_EAGAIN);
    assert_int_equal(tdg__hub_watch(w->hub, w->inboxes[0], TEMPLATE("tools")),
                     TDG_EAGAIN);
    expect_log(w, "+tools +tools +tools ");
    tdg__hub_unwatch(w->hub, w->inboxes[0], LIST("tools"));
    expect_log(w, "-tools ");
    expect_answer(w, 0, "tools", 0, 1);
    expect_answer(w, 0, "tools", 0, 3);
    expect_nothing(w, 0);
}

static void who_has_not_joined_cannot_watch(void **state) {
    struct world *w = *state;

    tdg__hub_leave(w->hub, w->inboxes[0]);
    tdg__hub_leave(w->hub, w->inboxes[0]);
    assert_int_equal(watch(w, 0, "w:1"), TDG_EINVAL);
    assert_int_equal(watch(w, 1, ""), TDG_EINVAL);
    unwatch(w, 0, "w:1");
    expect_log(w, "");
}

static void where_nothing_needs_watching_every_watch_is_armed(void **state) {
    struct world *w = *state;
    uint64_t number;
    tdg__hub_t *plain;

    tdg__hub_leave(w->hub, w->inboxes[0]);
    assert_int_equal(tdg__hub_create(NULL, &plain), 0);
    assert_int_equal(tdg__hub_join(plain, w->inboxes[0], &number), 0);
    assert_int_equal(tdg__hub_watch(plain, w->inboxes[0], URI("w:1")), TDG_EAGAIN);
    expect_answer(w, 0, "w:1", 0, 1);
    tdg__hub_unwatch(plain, w->inboxes[0], URI("w:1"));
    tdg__hub_destroy(plain);
}

static void an_error_of_start_is_returned_at_once(void **state) {
    struct world *w = *state;

    w->start_answer = TDG_ENOTSUP;
    assert_int_equal(watch(w, 0, "w:1"), TDG_ENOTSUP);
    expect_nothing(w, 0);
    assert_int_equal(tdg__hub_last_number(w->hub), 0);
    w->start_answer = 0;
    assert_int_equal(watch(w, 0, "w:1"), TDG_EAGAIN);
    expect_answer(w, 0, "w:1", 0, 1);
    expect_log(w, "+w:1 +w:1 ");
}

static void who_waits_is_answered_when_the_start_is(void **state) {
    struct world *w = *state;

    w->start_answer = TDG_EAGAIN;
    assert_int_equal(watch(w, 0, "w:1"), TDG_EAGAIN);
    assert_int_equal(watch(w, 1, "w:1"), TDG_EAGAIN);
    expect_nothing(w, 0);
    assert_int_equal(publish(w, "w:1"), 0);
    assert_int_equal(done(w, "w:1", 0), 0);
    for (int i = 0; i < 2; i++) {
        expect_change(w, i, "w:1", 1);
        expect_answer(w, i, "w:1", 0, 2);
    }
    expect_change(w, 2, "w:1", 1);
    expect_nothing(w, 2);
    assert_int_equal(done(w, "w:1", 0), TDG_ENOTFOUND);
    assert_int_equal(done(w, "w:2", 0), TDG_ENOTFOUND);
    expect_log(w, "+w:1 ");
}

static void an_answer_is_one_of_those_there_are(void **state) {
    struct world *w = *state;

    w->start_answer = TDG_EAGAIN;
    assert_int_equal(watch(w, 0, "w:1"), TDG_EAGAIN);
    assert_int_equal(done(w, "w:1", 3), TDG_EINVAL);
    assert_int_equal(done(w, "w:1", TDG_EAGAIN), TDG_EINVAL);
    assert_int_equal(done(w, "", 0), TDG_EINVAL);
    assert_int_equal(done(w, "w:1", 0), 0);
}

static void an_error_reaches_all_who_wait_and_ends_the_watch(void **state) {
    struct world *w = *state;

    w->start_answer = TDG_EAGAIN;
    assert_int_equal(watch(w, 0, "w:1"), TDG_EAGAIN);
    assert_int_equal(watch(w, 1, "w:1"), TDG_EAGAIN);
    assert_int_equal(done(w, "w:1", TDG_ENOTSUP), 0);
    expect_answer(w, 0, "w:1", TDG_ENOTSUP, 0);
    assert_int_equal(watch(w, 0, "w:1"), TDG_EAGAIN);
    expect_answer(w, 1, "w:1", TDG_ENOTSUP, 0);
    expect_log(w, "+w:1 +w:1 ");
    assert_int_equal(done(w, "w:1", 0), 0);
    expect_answer(w, 0, "w:1", 0, 1);
    expect_nothing(w, 1);
    unwatch(w, 0, "w:1");
    expect_log(w, "-w:1 ");
}

static void arm_inside(struct world *w, const tdg__target_t *target) {
    assert_int_equal(tdg__hub_watch_done(w->hub, target, 0), 0);
    assert_int_equal(tdg__hub_watch_done(w->hub, target, 0), TDG_ENOTFOUND);
}

static void fail_inside(struct world *w, const tdg__target_t *target) {
    assert_int_equal(tdg__hub_watch_done(w->hub, target, TDG_ENOTSUP), 0);
}

static void a_start_may_be_answered_before_it_returns(void **state) {
    struct world *w = *state;

    w->start_answer = TDG_EAGAIN;
    w->inside = arm_inside;
    assert_int_equal(watch(w, 0, "w:1"), TDG_EAGAIN);
    expect_answer(w, 0, "w:1", 0, 1);
    w->inside = fail_inside;
    assert_int_equal(watch(w, 0, "w:2"), TDG_ENOTSUP);
    w->inside = NULL;
    assert_int_equal(watch(w, 0, "w:2"), TDG_EAGAIN); /* the answer was for that one */
    expect_nothing(w, 0);
}

static void one_name_is_another_target_for_each_kind(void **state) {
    const tdg__target_t targets[] = {
        tdg__target_uri("tools"),
        tdg__target_template("tools"),
        tdg__target_list("tools"),
    };
    struct world *w = *state;

    w->start_answer = TDG_EAGAIN;
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(tdg__hub_watch(w->hub, w->inboxes[0], &targets[i]), TDG_EAGAIN);
    expect_log(w, "+tools +tools +tools ");
    for (size_t i = 0; i < 3; i++) {
        tdg__inbox_entry_t entry;

        assert_int_equal(tdg__hub_watch_done(w->hub, &targets[i], 0), 0);
        assert_int_equal(tdg__inbox_take(w->inboxes[0], &entry, 1), 1);
        assert_true(tdg__target_equal(&entry.target, &targets[i]));
        tdg__free((char *)(uintptr_t)entry.target.name);
    }
}

/* ---- Taking back -------------------------------------------------------- */

static void
a_start_that_nobody_wants_any_more_is_stopped_when_it_has_armed(void **state) {
    struct world *w = *state;

    w->start_answer = TDG_EAGAIN;
    assert_int_equal(watch(w, 0, "w:1"), TDG_EAGAIN);
    unwatch(w, 0, "w:1");
    expect_log(w, "+w:1 ");
    assert_int_equal(done(w, "w:1", 0), 0);
    expect_log(w, "-w:1 ");
    expect_nothing(w, 0);
    assert_int_equal(done(w, "w:1", 0), TDG_ENOTFOUND);
    assert_int_equal(tdg__hub_last_number(w->hub), 0);
}

static void a_start_that_nobody_wants_any_more_and_fails_is_not_stopped(void **state) {
    struct world *w = *state;

    w->start_answer = TDG_EAGAIN;
    assert_int_equal(watch(w, 0, "w:1"), TDG_EAGAIN);
    unwatch(w, 0, "w:1");
    assert_int_equal(done(w, "w:1", TDG_ENOTSUP), 0);
    expect_log(w, "+w:1 ");
    expect_nothing(w, 0);
}

static void who_wants_it_again_meanwhile_waits_for_the_same_start(void **state) {
    struct world *w = *state;

    w->start_answer = TDG_EAGAIN;
    assert_int_equal(watch(w, 0, "w:1"), TDG_EAGAIN);
    unwatch(w, 0, "w:1");
    assert_int_equal(watch(w, 1, "w:1"), TDG_EAGAIN);
    assert_int_equal(watch(w, 0, "w:1"), TDG_EAGAIN);
    assert_int_equal(done(w, "w:1", 0), 0);
    expect_log(w, "+w:1 ");
    expect_answer(w, 0, "w:1", 0, 1);
    expect_nothing(w, 0);
    expect_answer(w, 1, "w:1", 0, 1);
}

static void an_answer_that_was_not_taken_goes_with_the_wish(void **state) {
    struct world *w = *state;

    assert_int_equal(watch(w, 0, "w:1"), TDG_EAGAIN);
    unwatch(w, 0, "w:1");
    w->start_answer = TDG_EAGAIN;
    assert_int_equal(watch(w, 0, "w:1"), TDG_EAGAIN);
    expect_nothing(w, 0);
    assert_int_equal(done(w, "w:1", TDG_ENOTSUP), 0);
    unwatch(w, 0, "w:1");
    assert_int_equal(watch(w, 0, "w:1"), TDG_EAGAIN);
    expect_nothing(w, 0);
    assert_int_equal(done(w, "w:1", TDG_EREFUSED), 0);
    assert_int_equal(watch(w, 0, "w:1"), TDG_EAGAIN);
    expect_nothing(w, 0);
    expect_log(w, "+w:1 -w:1 +w:1 +w:1 +w:1 ");
}

static void who_leaves_gives_up_what_it_watches_and_waits_for(void **state) {
    struct world *w = *state;

    assert_int_equal(watch(w, 0, "w:1"), TDG_EAGAIN);
    assert_int_equal(watch(w, 0, "w:2"), TDG_EAGAIN);
    assert_int_equal(watch(w, 1, "w:2"), TDG_EAGAIN);
    w->start_answer = TDG_EAGAIN;
    assert_int_equal(watch(w, 0, "w:3"), TDG_EAGAIN);
    assert_int_equal(watch(w, 0, "w:4"), TDG_EAGAIN);
    assert_int_equal(done(w, "w:4", TDG_ENOTSUP), 0);
    expect_log(w, "+w:1 +w:2 +w:3 +w:4 ");
    tdg__hub_leave(w->hub, w->inboxes[0]);
    expect_log(w, "-w:1 ");
    assert_int_equal(done(w, "w:3", 0), 0);
    expect_log(w, "-w:3 ");
    expect_nothing(w, 0);
    unwatch(w, 1, "w:2");
    expect_log(w, "-w:2 ");
}

static void the_end_stops_what_is_watched_and_what_starts(void **state) {
    struct world *w = *state;

    assert_int_equal(watch(w, 0, "w:1"), TDG_EAGAIN);
    w->start_answer = TDG_EAGAIN;
    assert_int_equal(watch(w, 1, "w:2"), TDG_EAGAIN);
    assert_int_equal(watch(w, 1, "w:3"), TDG_EAGAIN);
    assert_int_equal(done(w, "w:3", TDG_ENOTSUP), 0);
    w->log[0] = '\0';
    tdg__hub_destroy(w->hub);
    expect_log(w, "-w:1 -w:2 ");
    w->hub = NULL;
}

static void watches_that_failed_leave_nothing_behind(void **state) {
    struct world *w = *state;
    size_t live = 0;
    char uri[16];

    w->start_answer = TDG_EAGAIN;
    for (int i = 0; i < 200; i++) {
        snprintf(uri, sizeof(uri), "w:%d", i);
        assert_int_equal(watch(w, 0, uri), TDG_EAGAIN);
        assert_int_equal(done(w, uri, TDG_ENOTSUP), 0);
        expect_answer(w, 0, uri, TDG_ENOTSUP, 0);
        if (i == 20)
            live = memory_live();
    }
    assert_true(memory_live() <= live);
}

/* ---- Without memory ----------------------------------------------------- */

static void without_memory_a_change_did_not_happen(void **state) {
    struct world *w = *state;
    int failures = 0;
    int rv;

    for (size_t nth = 1;; nth++) {
        memory_fail(nth, MEMORY_ONCE);
        rv = publish(w, "a:1");
        memory_fail(0, MEMORY_ONCE);
        if (rv == 0)
            break;
        failures++;
        assert_int_equal(rv, TDG_ENOMEM);
        assert_int_equal(tdg__hub_last_number(w->hub), 0);
        for (int i = 0; i < WORKERS; i++)
            expect_nothing(w, i);
    }
    assert_true(failures >= 2);
    for (int i = 0; i < WORKERS; i++)
        expect_change(w, i, "a:1", 1);
}

static void without_memory_a_watch_did_not_happen(void **state) {
    struct world *w = *state;
    size_t live;
    int failures = 0;
    int rv;

    w->start_answer = TDG_EAGAIN;
    for (size_t nth = 1;; nth++) {
        live = memory_live();
        memory_fail(nth, MEMORY_ONCE);
        rv = watch(w, 0, "w:1");
        memory_fail(0, MEMORY_ONCE);
        if (rv == TDG_EAGAIN)
            break;
        failures++;
        assert_int_equal(rv, TDG_ENOMEM);
        assert_true(memory_live() <= live + 3); /* tables that have grown */
        expect_log(w, "");
    }
    assert_true(failures >= 4);

    /* From here on none is needed. */
    memory_fail(1, MEMORY_FROM_THEN_ON);
    assert_int_equal(done(w, "w:1", 0), 0);
    expect_answer(w, 0, "w:1", 0, 1);
    unwatch(w, 0, "w:1");
    memory_fail(0, MEMORY_ONCE);
    expect_log(w, "+w:1 -w:1 ");
}

static void without_memory_there_is_neither_hub_nor_member(void **state) {
    struct world *w = *state;
    tdg__hub_t *hub = NULL;
    uint64_t number = 7;

    tdg__hub_leave(w->hub, w->inboxes[0]);
    memory_fail(1, MEMORY_ONCE);
    assert_int_equal(tdg__hub_create(NULL, &hub), TDG_ENOMEM);
    assert_null(hub);
    memory_fail(1, MEMORY_ONCE);
    assert_int_equal(tdg__hub_join(w->hub, w->inboxes[0], &number), TDG_ENOMEM);
    assert_int_equal(number, 7);
}

/* ---- Whether something exists ------------------------------------------- */

static bool is_absent(struct world *w, const char *uri) {
    return tdg__hub_is_absent(w->hub, URI(uri));
}

static void what_a_watcher_says_to_be_absent_is_so_until_it_changes(void **state) {
    struct world *w = *state;

    w->start_answer = TDG_EAGAIN;
    assert_int_equal(watch(w, 0, "a:1"), TDG_EAGAIN);
    assert_false(is_absent(w, "a:1"));
    assert_int_equal(done(w, "a:1", TDG_WATCH_ABSENT), 0);
    assert_true(is_absent(w, "a:1"));
    assert_false(is_absent(w, "a:2"));
    assert_int_equal(publish(w, "a:2"), 0);
    assert_true(is_absent(w, "a:1"));

    assert_int_equal(publish(w, "a:1"), 0);
    assert_false(is_absent(w, "a:1"));
    assert_int_equal(tdg__hub_publish(w->hub, URI("a:1"), NULL, true), 0);
    assert_true(is_absent(w, "a:1"));

    /* Another one watches it now, and finds it. */
    assert_int_equal(done(w, "a:1", TDG_WATCH_EXISTS), TDG_ENOTFOUND);
    assert_false(is_absent(w, "a:1"));
    assert_int_equal(done(w, "a:1", TDG_WATCH_ABSENT), TDG_ENOTFOUND);
    unwatch(w, 0, "a:1");
    assert_false(is_absent(w, "a:1"));
    assert_int_equal(done(w, "a:1", 3), TDG_EINVAL);
}

static void start_itself_may_say_whether_it_exists(void **state) {
    struct world *w = *state;

    w->start_answer = TDG_WATCH_ABSENT;
    assert_int_equal(watch(w, 0, "a:1"), TDG_EAGAIN);
    assert_true(is_absent(w, "a:1"));
    w->start_answer = TDG_WATCH_EXISTS;
    assert_int_equal(watch(w, 1, "a:2"), TDG_EAGAIN);
    assert_false(is_absent(w, "a:2"));
}

/* The change came after the watcher has looked, whatever thread is faster. */
static void come_and_change(struct world *w, const tdg__target_t *target) {
    assert_int_equal(tdg__hub_watch_done(w->hub, target, TDG_WATCH_ABSENT), 0);
    assert_int_equal(tdg__hub_publish(w->hub, target, NULL, false), 0);
}

static void what_comes_while_it_is_answered_exists(void **state) {
    struct world *w = *state;

    w->start_answer = TDG_EAGAIN;
    w->inside = come_and_change;
    assert_int_equal(watch(w, 0, "a:1"), TDG_EAGAIN);
    assert_false(is_absent(w, "a:1"));
}

static void who_says_nothing_of_it_has_nothing_absent(void **state) {
    struct world *w = *state;

    assert_int_equal(watch(w, 0, "a:1"), TDG_EAGAIN);
    assert_int_equal(tdg__hub_publish(w->hub, URI("a:1"), NULL, true), 0);
    assert_false(is_absent(w, "a:1"));
}

/* A deletion that fails is none: a resource that is removed, but was not listed. */
static void what_could_not_be_published_changes_nothing_of_it(void **state) {
    struct world *w = *state;
    struct deed deed = {.world = w, .answer = TDG_ENOTFOUND};

    w->start_answer = TDG_WATCH_EXISTS;
    assert_int_equal(watch(w, 0, "a:1"), TDG_EAGAIN);
    expect_answer(w, 0, "a:1", 0, 1);
    assert_int_equal(publish_with(w, &deed), TDG_ENOTFOUND);
    assert_false(is_absent(w, "a:1"));
    deed.answer = 0;
    assert_int_equal(publish_with(w, &deed), 0);
    assert_true(is_absent(w, "a:1"));
}

static void several_at_once_count_for_what_exists(void **state) {
    struct world *w = *state;
    tdg__change_t *changes[2];

    w->start_answer = TDG_WATCH_ABSENT;
    assert_int_equal(watch(w, 0, "a:0"), TDG_EAGAIN);
    w->start_answer = TDG_WATCH_EXISTS;
    assert_int_equal(watch(w, 0, "a:1"), TDG_EAGAIN);
    assert_int_equal(tdg__hub_prepare(w->hub, URI("a:0"), NULL, false, &changes[0]), 0);
    assert_int_equal(tdg__hub_prepare(w->hub, URI("a:1"), NULL, true, &changes[1]), 0);
    assert_int_equal(tdg__hub_publish_all(w->hub, changes, 2), 0);
    assert_false(is_absent(w, "a:0"));
    assert_true(is_absent(w, "a:1"));
    drop_all(changes, 2);
}

static void create_inside(struct world *w, const tdg__target_t *target) {
    assert_int_equal(tdg__hub_publish(w->hub, target, NULL, false), 0);
}

static void delete_inside(struct world *w, const tdg__target_t *target) {
    assert_int_equal(tdg__hub_publish(w->hub, target, NULL, true), 0);
}

static void say_it_exists_inside(struct world *w, const tdg__target_t *target) {
    assert_int_equal(tdg__hub_watch_done(w->hub, target, TDG_WATCH_EXISTS), 0);
}

static void correct_it_inside(struct world *w, const tdg__target_t *target) {
    assert_int_equal(tdg__hub_watch_done(w->hub, target, TDG_WATCH_ABSENT), 0);
    assert_int_equal(tdg__hub_watch_done(w->hub, target, TDG_WATCH_EXISTS),
                     TDG_ENOTFOUND);
    assert_int_equal(tdg__hub_watch_done(w->hub, target, TDG_ENOTSUP), TDG_ENOTFOUND);
}

/* start() looked before that, or after it: nobody knows. */
static void what_is_published_or_said_while_start_runs_beats_its_answer(void **state) {
    static const struct {
        void (*inside)(struct world *w, const tdg__target_t *target);
        int answer;
        bool absent;
    } cases[] = {
        {create_inside, TDG_WATCH_ABSENT, false},
        {delete_inside, TDG_WATCH_EXISTS, true},
        {say_it_exists_inside, TDG_WATCH_ABSENT, false},
        {correct_it_inside, TDG_WATCH_ABSENT, false},
        {correct_it_inside, TDG_EAGAIN, false},
        {delete_inside, 0, false}, /* it says nothing of that */
        {NULL, TDG_WATCH_ABSENT, true},
    };
    struct world *w = *state;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        w->inside = cases[i].inside;
        w->start_answer = cases[i].answer;
        assert_int_equal(watch(w, 0, "a:1"), TDG_EAGAIN);
        assert_int_equal(is_absent(w, "a:1"), cases[i].absent);
        /* From now on what is published counts, as ever. */
        w->inside = NULL;
        assert_int_equal(publish(w, "a:1"), 0);
        assert_false(is_absent(w, "a:1"));
        unwatch(w, 0, "a:1");
    }
}

/* What was published before is no news to a start() that comes later. */
static void a_start_that_comes_later_has_the_word(void **state) {
    struct world *w = *state;

    w->inside = create_inside;
    w->start_answer = TDG_WATCH_ABSENT;
    assert_int_equal(watch(w, 0, "a:1"), TDG_EAGAIN);
    unwatch(w, 0, "a:1");
    w->inside = NULL;
    assert_int_equal(watch(w, 0, "a:1"), TDG_EAGAIN);
    assert_true(is_absent(w, "a:1"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(a_change_reaches_every_worker_as_one_object),
        TEST(several_are_published_together),
        TEST(where_one_has_no_room_for_all_nobody_gets_any),
        TEST(several_need_memory_in_every_inbox_first),
        TEST(workers_are_woken_without_a_lock),
        TEST(what_belongs_to_a_change_is_done_before_anybody_sees_it),
        TEST(it_is_not_done_where_the_change_does_not_fit_in),
        TEST(what_makes_no_sense_is_not_published),
        TEST(epochs_differ),

        TEST(who_joins_late_sees_what_comes_later),
        TEST(a_worker_joins_once_and_no_more_than_64_do),
        TEST(a_worker_that_has_closed_holds_nobody_up),

        TEST(where_one_has_no_room_nobody_gets_it),
        TEST(what_one_merges_is_unfiltered_for_all),

        TEST(an_arming_takes_a_number_and_comes_behind_what_is_below_it),
        TEST(a_target_is_watched_once_for_all_workers),
        TEST(who_joins_after_an_arming_knows_from_now_on),
        TEST(kinds_of_targets_are_kept_apart),
        TEST(who_has_not_joined_cannot_watch),
        TEST(where_nothing_needs_watching_every_watch_is_armed),
        TEST(an_error_of_start_is_returned_at_once),
        TEST(who_waits_is_answered_when_the_start_is),
        TEST(an_answer_is_one_of_those_there_are),
        TEST(an_error_reaches_all_who_wait_and_ends_the_watch),
        TEST(a_start_may_be_answered_before_it_returns),
        TEST(one_name_is_another_target_for_each_kind),

        TEST(a_start_that_nobody_wants_any_more_is_stopped_when_it_has_armed),
        TEST(a_start_that_nobody_wants_any_more_and_fails_is_not_stopped),
        TEST(who_wants_it_again_meanwhile_waits_for_the_same_start),
        TEST(an_answer_that_was_not_taken_goes_with_the_wish),
        TEST(who_leaves_gives_up_what_it_watches_and_waits_for),
        TEST(the_end_stops_what_is_watched_and_what_starts),
        TEST(watches_that_failed_leave_nothing_behind),

        TEST(without_memory_a_change_did_not_happen),
        TEST(without_memory_a_watch_did_not_happen),
        TEST(without_memory_there_is_neither_hub_nor_member),
        TEST(what_a_watcher_says_to_be_absent_is_so_until_it_changes),
        TEST(start_itself_may_say_whether_it_exists),
        TEST(what_comes_while_it_is_answered_exists),
        TEST(who_says_nothing_of_it_has_nothing_absent),
        TEST(what_is_published_or_said_while_start_runs_beats_its_answer),
        TEST(a_start_that_comes_later_has_the_word),
        TEST(what_could_not_be_published_changes_nothing_of_it),
        TEST(several_at_once_count_for_what_exists),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("hub", tests, NULL, NULL);
}

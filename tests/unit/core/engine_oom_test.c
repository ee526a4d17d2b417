/* SPDX-License-Identifier: MIT
 *
 * Failure is tested like success: a scenario that touches everything is run with the n-th
 * allocation failing, for every n. Each call succeeds, or says TDG_ENOMEM and has changed
 * nothing; called again it succeeds; and in the end everybody was told the same as if
 * memory had never been short. */
#include <inttypes.h>
#include <stdio.h>

#include "unit/core/fixture.h"

enum { STREAMS = 5, TRANSCRIPT_BYTES = 16384 };

struct run {
    struct fixture *f;
    size_t nth; /* the allocation that fails */
    int how;
    tdg__stream_t stream[STREAMS];
    char text[TRANSCRIPT_BYTES]; /* what was told to whom, in order */
    size_t len;
    size_t next_call;
};

/* Everything a caller hands in, made while memory is plenty. */
static struct {
    json_t *large, *other_large; /* filters */
    json_t *small, *big;         /* metadata */
    tdg__change_t *change;       /* stamped elsewhere */
} input;

static int setup(void **state) {
    (void)state;
    memory_count();
    memory_fail(0, MEMORY_ONCE);
    input.large = json_from("{'metadata.size': {'gt': 10}}");
    input.other_large = json_from("{'any': [{'metadata.size': {'gte': 11}},"
                                  " {'metadata.change_type': {'eq': 'deleted'}}]}");
    input.small = json_from("{'size': 1}");
    input.big = json_from("{'size': 20, 'tags': ['a', 'b']}");
    input.change = NULL;
    assert_int_equal(
        tdg__change_create(URI("a:1"), input.big, false, NOON_MS, 4096, &input.change),
        0);
    assert_int_equal(tdg__change_stamp(input.change, 1000), 0);
    return 0;
}

static int teardown_input(void **state) {
    (void)state;
    json_decref(input.large);
    json_decref(input.other_large);
    json_decref(input.small);
    json_decref(input.big);
    tdg__change_unref(input.change);
    return 0;
}

/* ---- The transcript ----------------------------------------------------- */

static void say(struct run *run, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void say(struct run *run, const char *format, ...) {
    va_list args;
    int len;

    va_start(args, format);
    len = vsnprintf(run->text + run->len, sizeof(run->text) - run->len, format, args);
    va_end(args);
    run->len += (size_t)len;
    assert_true(run->len < sizeof(run->text));
}

static int index_of(const struct run *run, tdg__stream_t stream) {
    for (int i = 0; i < STREAMS; i++) {
        if (run->stream[i] == stream)
            return i;
    }
    return -1;
}

static int by_text(const void *one, const void *other) {
    return strcmp(one, other);
}

/* Writes down what was called since the last time, in the order of the alphabet: who
 * cannot be settled for want of memory is settled a little later, behind others. */
static void tell_calls(struct run *run) {
    static const char *const names[] = {"watch", "unwatch", "settled"};
    char line[32][64];
    size_t count = 0;

    for (; run->next_call < run->f->n_calls; run->next_call++) {
        const struct call *call = &run->f->calls[run->next_call];

        assert_true(count < 32);
        if (call->what == CALL_SETTLED)
            snprintf(line[count++], sizeof(line[0]), "settled %s, stream %d: %d%s",
                     call->name, index_of(run, call->stream), call->status,
                     call->resumed ? "" : ", not resumed");
        else
            snprintf(line[count++], sizeof(line[0]), "%s %s", names[call->what],
                     call->name);
    }
    qsort(line, count, sizeof(line[0]), by_text);
    for (size_t i = 0; i < count; i++)
        say(run, "%s\n", line[i]);
}

/* Takes everything, and writes down what was called and told. */
static void tell(struct run *run) {
    tdg__engine_t *engine = run->f->engine;
    tdg__note_t note;

    tell_calls(run);
    for (tdg__stream_t s = tdg__engine_next_ready(engine, 0); s != 0;
         s = tdg__engine_next_ready(engine, s)) {
        while (tdg__engine_take(engine, s, &note) == 1)
            say(run, "stream %d: %s %" PRIu64 "%s, merged %u, cursor %" PRIu64 "\n",
                index_of(run, s), note.change == NULL ? "end" : note.change->name,
                note.change == NULL ? 0 : note.change->number,
                note.change != NULL && note.change->assumed ? " (assumed)" : "",
                note.merged, note.cursor.number);
    }
}

/* ---- Doing -------------------------------------------------------------- */

/* What can be seen of an engine. */
struct view {
    tdg__counters_t counters;
    tdg__cursor_t cursor[STREAMS];
    tdg__stream_t ready;
    int64_t deadline;
    size_t calls;
};

static struct view look(const struct run *run) {
    struct view view;

    memset(&view, 0, sizeof(view));
    tdg__engine_counters(run->f->engine, &view.counters);
    for (int i = 0; i < STREAMS; i++)
        (void)tdg__engine_cursor(run->f->engine, run->stream[i], &view.cursor[i]);
    view.ready = tdg__engine_next_ready(run->f->engine, 0);
    view.deadline = tdg__engine_next_deadline(run->f->engine);
    view.calls = run->f->n_calls;
    return view;
}

/* The one thing that a failing call may leave behind, as engine.h says: a watcher that
 * was started before memory ran out. It lingers, and its arming has taken a number. */
static void forgive_watcher(const struct view *before, struct view *now) {
    if (now->counters.watchers != before->counters.watchers + 1)
        return;

    assert_int_equal(now->calls, before->calls + 1);
    assert_int_equal(now->counters.last_number, before->counters.last_number + 1);
    assert_int_equal(now->counters.subscriptions, before->counters.subscriptions);
    assert_int_equal(now->counters.pending, before->counters.pending);
    *now = *before;
}

static void check_failure(const struct run *run, const struct view *before, int rv,
                          const char *call) {
    struct view now = look(run);

    /* Where memory stays short, later calls miss what the earlier ones did not make. */
    if (rv != TDG_ENOMEM) {
        if (run->how == MEMORY_ONCE)
            print_error("%s: %s\n", call, tdg_strerror(rv));
        assert_int_equal(run->how, MEMORY_FROM_THEN_ON);
        return;
    }
    assert_true(memory_failed());
    forgive_watcher(before, &now);
    if (memcmp(before, &now, sizeof(now)) != 0) {
        print_error("allocation %zu: %s said ENOMEM and changed something\n", run->nth,
                    call);
        fail();
    }
}

/* Calls the engine; after TDG_ENOMEM looks that nothing changed, and calls again unless
 * memory stays short. */
#define DO(run, call)                                                                    \
    do {                                                                                 \
        struct view before_ = look(run);                                                 \
        int rv_ = (call);                                                                \
                                                                                         \
        if (rv_ < 0) {                                                                   \
            check_failure((run), &before_, rv_, #call);                                  \
            rv_ = (run)->how == MEMORY_ONCE ? (call) : 0;                                \
        }                                                                                \
        assert_int_equal(rv_, 0);                                                        \
    } while (0)

static void settle(struct run *run, const tdg__target_t *target,
                   tdg__watch_result_t result, int error) {
    tdg__engine_t *engine = run->f->engine;
    int rv = tdg__engine_watch_done(engine, target, result, error);

    /* "Call again": some of those who wait may have been settled already. */
    if (rv == TDG_ENOMEM && run->how == MEMORY_ONCE)
        rv = tdg__engine_watch_done(engine, target, result, error);
    assert_true(rv == 0 || run->how == MEMORY_FROM_THEN_ON);
}

static void wait_ms(struct run *run, int64_t ms) {
    advance(run->f, ms);
    tell(run);
}

/* ---- The scenario ------------------------------------------------------- */

static void open_and_configure(struct run *run) {
    tdg__engine_t *engine = run->f->engine;
    tdg__settings_t settings = batch(50), slow = {.rate_limit_ms = 300};

    for (int i = 0; i < STREAMS; i++)
        DO(run, tdg__engine_open(engine, NULL, &run->stream[i]));
    DO(run, tdg__engine_configure(engine, URI("c:1"), &settings));
    DO(run, tdg__engine_configure(engine, TEMPLATE("c:{x}"), &settings));
    DO(run, tdg__engine_configure(engine, TEMPLATE("a:{+x}"), &settings));
    DO(run, tdg__engine_configure(engine, URI("a:2"), &slow));
}

static void subscribe_all(struct run *run) {
    tdg__engine_t *engine = run->f->engine;
    const tdg__stream_t *s = run->stream;
    tdg__sub_opts_t filtered = {.filter = input.large};
    tdg__sub_opts_t now = {.settings = at_once, .priority = TDG__PRIORITY_HIGH};

    DO(run, tdg__engine_subscribe(engine, s[0], URI("a:1"), &filtered, NULL));
    DO(run, tdg__engine_subscribe(engine, s[0], TEMPLATE("{y}:1"), &now, NULL));
    DO(run, tdg__engine_subscribe(engine, s[0], LIST("tools"), NULL, NULL));
    DO(run, tdg__engine_subscribe(engine, s[1], TEMPLATE("a:{x}"), &filtered, NULL));
    DO(run, tdg__engine_subscribe(engine, s[1], URI("c:1"), &now, NULL));
    DO(run, tdg__engine_subscribe(engine, s[2], TEMPLATE("a:{x}"), NULL, NULL));
    for (int i = 0; i < STREAMS; i++) { /* enough for a group to grow */
        DO(run, tdg__engine_subscribe(engine, s[i], URI("a:2"), NULL, NULL));
        (void)tdg__engine_acknowledge(engine, s[i], NULL);
    }
    tell(run);
}

static void change_all(struct run *run) {
    tdg__engine_t *engine = run->f->engine;
    static const char *const uris[] = {"b:1", "b:2", "b:3", "b:4", "b:5",
                                       "b:6", "b:7", "b:8", "b:9"};

    DO(run, tdg__engine_publish(engine, URI("a:1"), input.small, false, NULL));
    DO(run, tdg__engine_publish(engine, URI("a:1"), input.big, false, NULL));
    DO(run, tdg__engine_publish(engine, URI("a:2"), NULL, false, NULL));
    DO(run, tdg__engine_publish(engine, URI("a:3"), input.big, false, NULL));
    DO(run, tdg__engine_publish(engine, LIST("tools"), NULL, false, NULL));
    DO(run, tdg__engine_publish(engine, URI("c:1"), NULL, true, NULL));
    tell(run);
    wait_ms(run, 100);
    DO(run, tdg__engine_publish(engine, URI("a:2"), input.big, false, NULL));
    DO(run, tdg__engine_publish(engine, URI("a:1"), input.small, true, NULL));
    wait_ms(run, 100);
    for (size_t i = 0; i < 9; i++) /* the history wraps */
        DO(run, tdg__engine_publish(engine, URI(uris[i]), NULL, false, NULL));
    DO(run, tdg__engine_apply(engine, input.change));
    wait_ms(run, 2000);
}

static void change_wishes(struct run *run) {
    tdg__engine_t *engine = run->f->engine;
    const tdg__stream_t *s = run->stream;
    tdg__settings_t settings = debounce(200, 1000);
    tdg__sub_opts_t other = {.settings = batch(70), .filter = input.other_large};

    DO(run, tdg__engine_publish(engine, URI("a:1"), input.big, false, NULL));
    DO(run, tdg__engine_publish(engine, URI("a:2"), input.big, false, NULL));
    DO(run, tdg__engine_publish(engine, URI("a:3"), input.big, false, NULL));
    DO(run, tdg__engine_subscribe(engine, s[0], URI("a:1"), &other, NULL));
    DO(run, tdg__engine_subscribe(engine, s[1], TEMPLATE("a:{x}"), &other, NULL));
    DO(run, tdg__engine_subscribe(engine, s[2], URI("a:2"), &other, NULL));
    tell(run);
    DO(run, tdg__engine_publish(engine, URI("a:3"), input.big, false, NULL));
    DO(run, tdg__engine_set_defaults(engine, &settings));
    DO(run, tdg__engine_configure(engine, TEMPLATE("a:{x}"), &settings));
    DO(run, tdg__engine_configure(engine, URI("c:1"), &(tdg__settings_t){0}));
    wait_ms(run, 5000);
}

static void watch_all(struct run *run) {
    tdg__engine_t *engine = run->f->engine;
    const tdg__stream_t *s = run->stream;
    tdg__sub_opts_t old = after(0);

    run->f->watch_answer = TDG_EAGAIN;
    DO(run, tdg__engine_subscribe(engine, s[0], URI("w:1"), &old, NULL));
    DO(run, tdg__engine_subscribe(engine, s[1], URI("w:1"), &old, NULL));
    DO(run, tdg__engine_subscribe(engine, s[2], URI("w:2"), &old, NULL));
    DO(run, tdg__engine_subscribe(engine, s[3], URI("w:2"), NULL, NULL));
    DO(run, tdg__engine_subscribe(engine, s[3], TEMPLATE("w:{x}"), &old, NULL));
    DO(run, tdg__engine_subscribe(engine, s[4], URI("w:3"), NULL, NULL));
    DO(run, tdg__engine_publish(engine, URI("w:1"), NULL, false, NULL));
    settle(run, URI("w:1"), TDG__WATCH_ARMED, 0);
    settle(run, URI("w:3"), TDG__WATCH_FAILED, TDG_ESYSTEM);
    tell(run);
    advance(run->f, 10000);
    wait_ms(run, 1000); /* who could not be settled for want of memory is by now */
    for (int i = 0; i < STREAMS; i++)
        (void)tdg__engine_acknowledge(engine, s[i], NULL);
    tell(run);
    settle(run, URI("w:2"), TDG__WATCH_ARMED, 0);
    settle(run, TEMPLATE("w:{x}"), TDG__WATCH_ARMED, 0);
    tell(run);
    run->f->watch_answer = 0;
}

static void come_back(struct run *run) {
    tdg__engine_t *engine = run->f->engine;
    tdg__stream_t *s = run->stream;
    tdg__sub_opts_t old = after(3);
    tdg__sub_opts_t foreign = {.has_cursor = true, .cursor = {EPOCH + 1, 5}};
    tdg__sub_opts_t lately = {.since_ms = 60000};

    tdg__engine_close(engine, s[4]);
    s[4] = 0;
    DO(run, tdg__engine_open(engine, NULL, &s[4]));
    DO(run, tdg__engine_subscribe(engine, s[4], URI("a:1"), &old, NULL));
    DO(run, tdg__engine_subscribe(engine, s[4], TEMPLATE("l:{x}"), &old, NULL));
    DO(run, tdg__engine_subscribe(engine, s[4], TEMPLATE("a:{+x}"), &foreign, NULL));
    DO(run, tdg__engine_subscribe(engine, s[4], URI("never:1"), &foreign, NULL));
    DO(run, tdg__engine_subscribe(engine, s[4], TEMPLATE("b:{x}"), &lately, NULL));
    DO(run, tdg__engine_subscribe(engine, s[4], LIST("tools"), &old, NULL));
    DO(run, tdg__engine_subscribe(engine, s[4], URI("a:1"), &foreign, NULL));
    DO(run, tdg__engine_subscribe(engine, s[4], TEMPLATE("l:{x}"), &foreign, NULL));
    DO(run, tdg__engine_subscribe(engine, s[4], TEMPLATE("b:{x}"), &old, NULL));
    (void)tdg__engine_acknowledge(engine, s[4], NULL);
    wait_ms(run, 10);
}

static void leave(struct run *run) {
    tdg__engine_t *engine = run->f->engine;
    const tdg__stream_t *s = run->stream;

    DO(run, tdg__engine_publish(engine, URI("a:2"), NULL, false, NULL));
    (void)tdg__engine_unsubscribe(engine, s[0], URI("a:1"));
    (void)tdg__engine_end(engine, s[1], 42);
    tell(run);
    for (int i = 0; i < STREAMS; i++)
        tdg__engine_close(engine, s[i]);
    wait_ms(run, 5000);
}

static void list_resource(struct fixture *f, const char *template_, const char *uri) {
    f->listed[f->n_listed].template_ = template_;
    f->listed[f->n_listed].uri = uri;
    f->n_listed++;
}

/* A fresh change reaches a fresh subscriber. */
static void expect_that_it_works(struct fixture *f) {
    tdg__stream_t s = open_stream(f);
    uint64_t number;

    f->watch_answer = 0;
    subscribe_settings(f, s, "fresh:1", at_once);
    subscribe_with(f, s, TEMPLATE("fresh:{x}"), &(tdg__sub_opts_t){.settings = at_once});
    assert_int_equal(tdg__engine_publish(f->engine, URI("fresh:1"), NULL, false, &number),
                     0);
    expect_note(f, s, "fresh:1", number, 0);
    assert_int_equal(tdg__engine_publish(f->engine, URI("fresh:2"), NULL, false, &number),
                     0);
    expect_note(f, s, "fresh:2", number, 0);
    expect_nothing(f, s);
    tdg__engine_close(f->engine, s);
    advance(f, 5000);
    assert_int_equal(counters(f).streams, 0);
    assert_int_equal(counters(f).subscriptions, 0);
    assert_int_equal(counters(f).watchers, 0);
    assert_int_equal(counters(f).pending, 0);
    assert_int_equal(counters(f).templates, 0);
    for (int i = 0; i < 8; i++) /* the history holds nothing else any more */
        assert_int_equal(
            tdg__engine_publish(f->engine, URI("fresh:1"), NULL, false, NULL), 0);
    assert_int_equal(counters(f).resources, 1);
    assert_true(tdg__engine_next_deadline(f->engine) == INT64_MAX);
}

/* Runs the scenario. Returns whether an allocation failed. */
static bool play(struct run *run, size_t nth, int how) {
    const tdg__engine_opts_t opts = {
        .calls = calls_watched, .history = 8, .max_pending = 64};
    void *state = NULL;
    bool failed;

    memset(run, 0, sizeof(*run));
    fixture_create(&state, &opts);
    run->f = state;
    run->nth = nth;
    run->how = how;
    list_resource(run->f, "l:{x}", "l:1");
    list_resource(run->f, "l:{x}", "l:2");
    list_resource(run->f, "w:{x}", "w:7");

    memory_fail(nth, how);
    open_and_configure(run);
    subscribe_all(run);
    change_all(run);
    change_wishes(run);
    watch_all(run);
    come_back(run);
    leave(run);
    failed = memory_failed();
    memory_fail(0, MEMORY_ONCE);

    expect_that_it_works(run->f);
    assert_int_equal(teardown(&state), 0);
    return failed;
}

static struct run plenty, now; /* large, so not on the stack */

static void any_single_allocation_may_fail_and_nothing_is_lost(void **state) {
    size_t nth = 1;

    (void)state;
    assert_false(play(&plenty, 0, MEMORY_ONCE));
    assert_true(plenty.len > 1000);
    for (; play(&now, nth, MEMORY_ONCE); nth++) {
        if (strcmp(now.text, plenty.text) != 0) {
            size_t at = 0, line = 0;

            while (now.text[at] == plenty.text[at])
                line = now.text[at++] == '\n' ? at : line;
            print_error("allocation %zu: somebody is told something else:\n%.60s\nnot\n"
                        "%.60s\n",
                        nth, now.text + line, plenty.text + line);
        }
        assert_string_equal(now.text, plenty.text);
    }
    assert_true(nth > 100);
}

static void memory_may_run_out_for_good_and_come_back(void **state) {
    size_t nth = 1;

    (void)state;
    while (play(&now, nth, MEMORY_FROM_THEN_ON))
        nth++;
    assert_true(nth > 100);
}

static void an_engine_is_created_completely_or_not_at_all(void **state) {
    tdg__engine_opts_t opts = {.calls = calls_watched, .defaults = at_once};
    size_t live = memory_live(), nth = 1;
    int rv;

    (void)state;
    for (;; nth++) {
        tdg__engine_t *engine = NULL;

        memory_fail(nth, MEMORY_ONCE);
        rv = tdg__engine_create(&opts, &engine);
        if (rv == 0) {
            assert_false(memory_failed());
            tdg__engine_destroy(engine);
            break;
        }
        assert_int_equal(rv, TDG_ENOMEM);
        assert_null(engine);
        assert_int_equal(memory_live(), live);
    }
    memory_fail(0, MEMORY_ONCE);
    assert_int_equal(memory_live(), live);
    assert_true(nth > 1);
}

static void a_change_without_memory_uses_up_no_number_and_tells_nobody(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s[8];
    uint64_t number = 77;
    size_t nth = 1;
    int rv;

    for (int i = 0; i < 8; i++) { /* a fan-out through a template, in several groups */
        s[i] = open_stream(f);
        subscribe_with(f, s[i], TEMPLATE("a:{x}"),
                       &(tdg__sub_opts_t){.settings = rate_limit(1000 + i / 2)});
    }
    for (;; nth++) {
        memory_fail(nth, MEMORY_ONCE);
        rv = tdg__engine_publish(f->engine, URI("a:1"), NULL, false, &number);
        memory_fail(0, MEMORY_ONCE);
        if (rv == 0)
            break;
        assert_int_equal(rv, TDG_ENOMEM);
        assert_int_equal(number, 77);
        assert_int_equal(counters(f).last_number, 0);
        assert_int_equal(counters(f).pending, 0);
        assert_int_equal(counters(f).changes, 0);
        expect_silence(f);
        expect_cursor(f, s[0], 0);
    }
    assert_true(nth > 1);
    for (int i = 0; i < 8; i++)
        expect_note(f, s[i], "a:1", 1, 0);
}

/* Fails each allocation of a call in turn until it succeeds. */
#define UNTIL_IT_SUCCEEDS(call)                                                          \
    for (size_t nth_ = 1;; nth_++) {                                                     \
        int rv_;                                                                         \
                                                                                         \
        memory_fail(nth_, MEMORY_ONCE);                                                  \
        rv_ = (call);                                                                    \
        memory_fail(0, MEMORY_ONCE);                                                     \
        if (rv_ == 0)                                                                    \
            break;                                                                       \
        assert_int_equal(rv_, TDG_ENOMEM);                                               \
    }

static void the_engine_grows_though_memory_fails_at_every_step(void **state) {
    enum { MANY = 3000 };
    struct fixture *f = *state;
    tdg__stream_t first = 0, s = 0;
    char uri[32];

    UNTIL_IT_SUCCEEDS(tdg__engine_open(f->engine, NULL, &first));
    for (int i = 0; i < MANY; i++) {
        UNTIL_IT_SUCCEEDS(tdg__engine_open(f->engine, NULL, &s));
        UNTIL_IT_SUCCEEDS(
            tdg__engine_subscribe(f->engine, s, URI("shared:1"), NULL, NULL));
        snprintf(uri, sizeof(uri), "own:%d", i);
        UNTIL_IT_SUCCEEDS(tdg__engine_subscribe(f->engine, first, URI(uri), NULL, NULL));
        if (i % 10 == 0) {
            snprintf(uri, sizeof(uri), "t%d:{x}", i);
            UNTIL_IT_SUCCEEDS(
                tdg__engine_subscribe(f->engine, s, TEMPLATE(uri), NULL, NULL));
        }
        acknowledge(f, s);
    }
    acknowledge(f, first);
    assert_int_equal(counters(f).streams, MANY + 1);
    assert_int_equal(counters(f).subscriptions, 2 * MANY + MANY / 10);
    assert_int_equal(counters(f).resources, MANY + 1);
    assert_int_equal(counters(f).templates, MANY / 10);

    UNTIL_IT_SUCCEEDS(tdg__engine_publish(f->engine, URI("shared:1"), NULL, false, NULL));
    UNTIL_IT_SUCCEEDS(tdg__engine_publish(f->engine, URI("own:77"), NULL, false, NULL));
    UNTIL_IT_SUCCEEDS(tdg__engine_publish(f->engine, URI("t70:1"), NULL, false, NULL));
    assert_int_equal(drain(f), MANY + 2);
}

static void leaving_needs_no_memory(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f), t = open_stream(f), u = open_stream(f);

    subscribe(f, s, "a:1");
    subscribe_template(f, s, "a:{x}");
    subscribe(f, t, "a:1");
    subscribe_list(f, u, "tools");
    changed(f, "a:1", NULL);
    changed(f, "a:2", NULL);
    memory_fail(1, MEMORY_FROM_THEN_ON);
    assert_int_equal(tdg__engine_take(f->engine, s, &(tdg__note_t){0}), 1);
    assert_int_equal(tdg__engine_acknowledge(f->engine, s, NULL), 0);
    assert_int_equal(tdg__engine_unsubscribe(f->engine, s, URI("a:1")), 0);
    assert_int_equal(tdg__engine_unsubscribe(f->engine, s, TEMPLATE("a:{x}")), 0);
    assert_int_equal(tdg__engine_end(f->engine, t, 0), 0);
    assert_int_equal(tdg__engine_block(f->engine, u, true), 0);
    tdg__engine_close(f->engine, s);
    tdg__engine_close(f->engine, t);
    tdg__engine_close(f->engine, u);
    tdg__engine_advance(f->engine, f->now_ms + 10000, f->wall_ms);
    memory_fail(0, MEMORY_ONCE);
    assert_int_equal(counters(f).streams, 0);
    assert_int_equal(counters(f).subscriptions, 0);
    assert_int_equal(counters(f).pending, 0);
}

static void telling_needs_no_memory(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);
    tdg__note_t note;

    subscribe_settings(f, s, "a:1", batch(100));
    subscribe_with(f, s, TEMPLATE("a:{x}"), &(tdg__sub_opts_t){.settings = batch(200)});
    subscribe_settings(f, s, "b:1", rate_limit(1000));
    changed(f, "a:1", NULL);
    changed(f, "a:2", NULL);
    changed(f, "b:1", NULL);
    memory_fail(1, MEMORY_FROM_THEN_ON);
    for (int i = 0; i < 3; i++) {
        tdg__engine_advance(f->engine, f->now_ms + 100 * (i + 1), f->wall_ms);
        while (tdg__engine_take(f->engine, s, &note) == 1)
            continue;
    }
    assert_false(memory_failed());
    memory_fail(0, MEMORY_ONCE);
    assert_int_equal(counters(f).delivered, 3);
    assert_int_equal(counters(f).pending, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            any_single_allocation_may_fail_and_nothing_is_lost, setup, teardown_input),
        cmocka_unit_test_setup_teardown(memory_may_run_out_for_good_and_come_back, setup,
                                        teardown_input),
        cmocka_unit_test_setup_teardown(an_engine_is_created_completely_or_not_at_all,
                                        setup, teardown_input),
        TEST(a_change_without_memory_uses_up_no_number_and_tells_nobody, setup_at_once),
        TEST(the_engine_grows_though_memory_fails_at_every_step, setup_at_once),
        TEST(leaving_needs_no_memory, setup_watched),
        TEST(telling_needs_no_memory, setup_at_once),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("engine_oom", tests, NULL, NULL);
}

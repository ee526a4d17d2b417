/* SPDX-License-Identifier: MIT
 *
 * What all sources share, with a kind that does as the test says. */
#include "source/common/item_internal.h"
#include "support.h"
#include "unit/source/harness.h"
#include "unit/targets.h"

#include <string.h>

/* ---- A kind that is told what it holds ---------------------------------- */

enum { MAX_FETCHES = 64 };

struct script {
    tdg__source_t source;
    char *main_value;
    tdg__content_t holds; /* what fetches find */
    bool manual;          /* fetches wait for finish() */
    tdg__fetch_t *fetches[MAX_FETCHES];
    size_t waiting;
    size_t fetched, cancelled;
    int watch_answer;
    char watched[256];
};

static const tdg__option_t script_options[] = {
    {.name = "script",
     .type = TDG__OPTION_STRING,
     .offset = offsetof(struct script, main_value),
     .help = "Anything."},
    {.name = NULL},
};

static struct script *script_of(struct harness *harness) {
    return (struct script *)harness->source;
}

static void script_fetch(tdg__source_t *source, tdg__fetch_t *fetch) {
    struct script *script = (struct script *)source;

    script->fetched++;
    if (!script->manual) {
        tdg__content_t content = script->holds;

        json_incref(content.metadata);
        tdg__fetch_done(fetch, &content);
        return;
    }
    assert_true(script->waiting < MAX_FETCHES);
    script->fetches[script->waiting++] = fetch;
}

/* Ends the oldest fetch that waits. */
static void finish(struct harness *harness, tdg__content_t content) {
    struct script *script = script_of(harness);
    tdg__fetch_t *fetch = script->fetches[0];

    assert_true(script->waiting > 0);
    memmove(script->fetches, script->fetches + 1,
            --script->waiting * sizeof(script->fetches[0]));
    tdg__fetch_done(fetch, &content);
}

static void script_cancel(tdg__source_t *source, tdg__fetch_t *fetch) {
    struct script *script = (struct script *)source;

    script->cancelled++;
    for (size_t i = 0; i < script->waiting; i++) {
        if (script->fetches[i] != fetch)
            continue;
        memmove(script->fetches + i, script->fetches + i + 1,
                (--script->waiting - i) * sizeof(script->fetches[0]));
        tdg__fetch_failed(fetch, TDG_EUNREACHABLE, "cancelled");
        return;
    }
}

static int script_watch(tdg__source_t *source, const tdg_target_t *target) {
    struct script *script = (struct script *)source;

    snprintf(script->watched, sizeof(script->watched), "%s", target->name);
    return script->watch_answer;
}

static void script_unwatch(tdg__source_t *source, const tdg_target_t *target) {
    (void)target;
    ((struct script *)source)->watched[0] = '\0';
}

static const tdg__source_kind_t script_kind = {
    .name = "script",
    .help = "Does as it is told.",
    .options = script_options,
    .size = sizeof(struct script),
    .watch = script_watch,
    .unwatch = script_unwatch,
    .fetch = script_fetch,
    .cancel = script_cancel,
};

static const tdg__source_kind_t pushed_kind = {
    .name = "script",
    .help = "Gets its content pushed.",
    .options = script_options,
    .flags = TDG__SOURCE_PUSHED,
    .size = sizeof(struct script),
};

static tdg__content_t text(const char *data) {
    return (tdg__content_t){.data = data, .len = strlen(data)};
}

static void hold(struct harness *harness, const char *data) {
    script_of(harness)->holds = text(data);
}

static const char *field(const struct happening *happening, const char *name) {
    return json_string_value(json_object_get(happening->metadata, name));
}

static void open_plain(struct harness *harness) {
    harness_open_kind(harness, &script_kind,
                      "script: x\nuri: a:1\nretry: 1ms\nretry-max: 4ms\n");
    hold(harness, "one");
}

/* ---- Reading ------------------------------------------------------------ */

static void reads_without_a_watcher(void **state) {
    struct harness harness;

    (void)state;
    open_plain(&harness);
    struct reading reading = harness_read(&harness, "a:1");
    assert_int_equal(reading.status, 0);
    assert_string_equal(reading.data, "one");
    assert_int_equal(json_integer_value(json_object_get(reading.metadata, "size")), 3);
    assert_string_equal(
        json_string_value(json_object_get(reading.metadata, "checksum")),
        "sha256:7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed");
    reading_done(&reading);
    harness_wait(&harness, READY, NULL);
    assert_int_equal(harness.count, 1);
    harness_close(&harness);
}

static void a_read_waits_for_a_fetch_that_began_after_it(void **state) {
    struct reading early, late;
    struct harness harness;

    (void)state;
    open_plain(&harness);
    script_of(&harness)->manual = true;
    harness_start_read(&harness, "a:1", &early);
    harness_start_read(&harness, "a:1", &late);
    finish(&harness, text("old"));
    assert_true(early.done);
    assert_string_equal(early.data, "old");
    assert_false(late.done);
    finish(&harness, text("new"));
    assert_true(late.done);
    assert_string_equal(late.data, "new");
    reading_done(&early);
    reading_done(&late);
    harness_close(&harness);
}

static void too_large_content_is_refused(void **state) {
    struct harness harness;

    (void)state;
    harness_open_kind(&harness, &script_kind, "script: x\nuri: a:1\nmax-size: 2\n");
    hold(&harness, "one");
    struct reading reading = harness_read(&harness, "a:1");
    assert_int_equal(reading.status, TDG_ETOOLARGE);
    reading_done(&reading);
    harness_close(&harness);
}

static void a_fetch_that_hangs_is_cancelled(void **state) {
    struct harness harness;

    (void)state;
    harness_open_kind(&harness, &script_kind, "script: x\nuri: a:1\ntimeout: 5ms\n");
    script_of(&harness)->manual = true;
    struct reading reading = harness_read(&harness, "a:1");
    assert_int_equal(reading.status, TDG_EUNREACHABLE);
    assert_non_null(strstr(reading.error, "no answer within 5 ms"));
    reading_done(&reading);
    harness_close(&harness);
}

/* ---- Watching ----------------------------------------------------------- */

static void a_change_is_told_once(void **state) {
    struct harness harness;

    (void)state;
    open_plain(&harness);
    harness_watch(&harness, "a:1");
    assert_string_equal(script_of(&harness)->watched, "a:1");
    tdg__source_touch(harness.source, "a:1"); /* nothing changed */
    assert_int_equal(harness_count(&harness, CHANGED, NULL), 0);
    hold(&harness, "two");
    tdg__source_touch(harness.source, "a:1");
    tdg__source_touch(harness.source, "a:1");
    struct happening *told = harness_wait(&harness, CHANGED, "a:1");
    assert_string_equal(field(told, "change_type"), "content_update");
    assert_non_null(field(told, "checksum"));
    assert_int_equal(harness_count(&harness, CHANGED, NULL), 0);
    tdg__source_unwatch(harness.source, FOR_URI("a:1"));
    assert_string_equal(script_of(&harness)->watched, "");
    hold(&harness, "three");
    tdg__source_touch(harness.source, "a:1");
    assert_int_equal(harness_count(&harness, CHANGED, NULL), 0);
    harness_close(&harness);
}

static void what_cannot_be_told_is_told_later(void **state) {
    struct harness harness;

    (void)state;
    open_plain(&harness);
    harness_watch(&harness, "a:1");
    harness.refuses_news = 2;
    hold(&harness, "two");
    tdg__source_touch(harness.source, "a:1");
    harness_wait(&harness, CHANGED, "a:1");
    assert_int_equal(harness.refuses_news, 0);
    tdg__source_touch(harness.source, "a:1");
    assert_int_equal(harness_count(&harness, CHANGED, NULL), 0);
    harness_close(&harness);
}

static void deleted_and_created(void **state) {
    struct harness harness;

    (void)state;
    open_plain(&harness);
    harness_watch(&harness, "a:1");
    script_of(&harness)->holds = (tdg__content_t){.status = TDG_ENOTFOUND};
    tdg__source_touch(harness.source, "a:1");
    assert_string_equal(field(harness_wait(&harness, DELETED, "a:1"), "change_type"),
                        "deleted");
    tdg__source_touch(harness.source, "a:1");
    assert_int_equal(harness_count(&harness, DELETED, NULL), 0);
    hold(&harness, "one");
    tdg__source_touch(harness.source, "a:1");
    assert_string_equal(field(harness_wait(&harness, CHANGED, "a:1"), "change_type"),
                        "created");
    harness_close(&harness);
}

/* Whichever comes first: the look at what is gone, or its going from the list. */
static void that_it_is_gone_is_told_once(void **state) {
    struct harness harness;

    (void)state;
    open_plain(&harness);
    harness_watch(&harness, "a:1");
    script_of(&harness)->holds = (tdg__content_t){.status = TDG_ENOTFOUND};
    tdg__source_touch(harness.source, "a:1");
    harness_wait(&harness, DELETED, "a:1");
    tdg__source_unlist(harness.source, "a:1");
    assert_true(harness_wait(&harness, UNLISTED, "a:1")->told);

    hold(&harness, "two");
    tdg__source_touch(harness.source, "a:1");
    harness_wait(&harness, CHANGED, "a:1");
    script_of(&harness)->holds = (tdg__content_t){.status = TDG_ENOTFOUND};
    tdg__source_unlist(harness.source, "a:1");
    assert_false(harness_wait(&harness, UNLISTED, "a:1")->told);
    tdg__source_touch(harness.source, "a:1");
    assert_int_equal(harness_count(&harness, DELETED, "a:1"), 0);

    /* Nobody watches this one. */
    tdg__source_unlist(harness.source, "a:2");
    assert_false(harness_wait(&harness, UNLISTED, "a:2")->told);
    harness_close(&harness);
}

/* It is in the list still: whoever was to take it from there tries again. */
static void that_it_is_gone_and_cannot_be_told_is_told_later(void **state) {
    struct harness harness;

    (void)state;
    open_plain(&harness);
    harness_watch(&harness, "a:1");
    script_of(&harness)->holds = (tdg__content_t){.status = TDG_ENOTFOUND};
    harness.refuses_news = 1;
    assert_int_equal(tdg__source_unlist(harness.source, "a:1"), TDG_EAGAIN);
    assert_int_equal(harness_count(&harness, UNLISTED, NULL), 0);
    tdg__source_touch(harness.source, "a:1"); /* the next look finds it out itself */
    harness_wait(&harness, DELETED, "a:1");
    assert_int_equal(tdg__source_unlist(harness.source, "a:1"), 0);
    assert_true(harness_wait(&harness, UNLISTED, "a:1")->told);
    harness_close(&harness);
}

static void a_touch_during_a_fetch_is_not_lost(void **state) {
    struct harness harness;

    (void)state;
    open_plain(&harness);
    harness_watch(&harness, "a:1");
    script_of(&harness)->manual = true;
    tdg__source_touch(harness.source, "a:1");
    tdg__source_touch(harness.source, "a:1"); /* while it is fetched */
    finish(&harness, text("one"));
    assert_int_equal(harness_count(&harness, CHANGED, NULL), 0);
    finish(&harness, text("two"));
    harness_wait(&harness, CHANGED, "a:1");
    assert_int_equal(script_of(&harness)->waiting, 0);
    harness_close(&harness);
}

static void watching_waits_for_the_kind_and_the_first_look(void **state) {
    struct harness harness;

    (void)state;
    open_plain(&harness);
    script_of(&harness)->manual = true;
    script_of(&harness)->watch_answer = TDG_EAGAIN;
    assert_int_equal(tdg__source_watch(harness.source, FOR_URI("a:1"), NULL), TDG_EAGAIN);
    finish(&harness, text("one"));
    assert_int_equal(harness_count(&harness, WATCHED, NULL), 0);
    tdg__source_watched(harness.source, FOR_URI("a:1"), 0);
    assert_int_equal(harness_wait(&harness, WATCHED, "a:1")->status, 0);
    assert_int_equal(harness_count(&harness, CHANGED, NULL), 0);
    harness_close(&harness);
}

static void watching_tells_whether_it_exists(void **state) {
    const struct {
        tdg__content_t holds;
        int existence;
    } cases[] = {
        {text("one"), TDG_WATCH_EXISTS},
        {{.status = TDG_ENOTFOUND, .error = "gone"}, TDG_WATCH_ABSENT},
        {{.status = TDG_EUNREACHABLE, .error = "no answer"}, TDG_WATCH_EXISTS},
        {{.status = TDG_ETOOLARGE, .error = "too large"}, TDG_WATCH_EXISTS},
        {{.status = TDG_ENOTFOUND, .passing = true}, TDG_WATCH_EXISTS},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct harness harness;

        open_plain(&harness);
        script_of(&harness)->holds = cases[i].holds;
        assert_int_equal(tdg__source_watch(harness.source, FOR_URI("a:1"), NULL),
                         TDG_EAGAIN);
        assert_int_equal(harness_wait(&harness, WATCHED, "a:1")->existence,
                         cases[i].existence);
        harness_close(&harness);
    }
}

static void a_kind_may_refuse_to_watch(void **state) {
    struct harness harness;

    (void)state;
    open_plain(&harness);
    script_of(&harness)->watch_answer = TDG_ENOTSUP;
    assert_int_equal(tdg__source_watch(harness.source, FOR_URI("a:1"), NULL),
                     TDG_ENOTSUP);
    script_of(&harness)->watch_answer = TDG_EAGAIN;
    assert_int_equal(tdg__source_watch(harness.source, FOR_URI("a:1"), NULL), TDG_EAGAIN);
    tdg__source_watched(harness.source, FOR_URI("a:1"), TDG_EREFUSED);
    assert_int_equal(harness_wait(&harness, WATCHED, "a:1")->status, TDG_EREFUSED);
    harness_close(&harness);
}

/* Watches it in a new source that holds this, after another one that has seen what that
 * one holds. Returns how many changes were published. */
static size_t changes_after(struct harness *old, tdg__content_t holds) {
    struct harness harness;
    size_t count;

    open_plain(&harness);
    script_of(&harness)->holds = holds;
    assert_int_equal(tdg__source_watch(harness.source, FOR_URI("a:1"),
                                       &(tdg__past_t){.source = old->source}),
                     TDG_EAGAIN);
    harness_wait(&harness, WATCHED, "a:1");
    count =
        harness_count(&harness, CHANGED, "a:1") + harness_count(&harness, DELETED, "a:1");
    harness_close(&harness);
    return count;
}

static void what_was_published_before_a_reload_is_compared(void **state) {
    tdg__content_t nothing = {.status = TDG_ENOTFOUND};
    tdg__content_t broken = {.status = TDG_EINVAL, .error = "the query is wrong"};
    tdg__content_t away = {.status = TDG_EUNREACHABLE, .error = "it does not answer"};
    struct {
        tdg__content_t before, now;
        size_t changes;
    } cases[] = {
        {text("one"), text("one"), 0}, {text("one"), text("two"), 1},
        {text("one"), nothing, 1},     {nothing, text("one"), 1},
        {nothing, nothing, 0},         {broken, nothing, 1},
        {broken, broken, 0},           {away, nothing, 1}, /* nobody knows what it was */
        {away, text("one"), 1},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct harness old;

        open_plain(&old);
        script_of(&old)->holds = cases[i].before;
        harness_watch(&old, "a:1");
        assert_int_equal(changes_after(&old, cases[i].now), cases[i].changes);
        harness_close(&old);
    }
}

/* ---- Turns -------------------------------------------------------------- */

enum { MANY = 1000 };

/* One client reads a thousand URIs of a source that fetches one at a time. */
static struct reading *read_many(struct harness *harness) {
    struct reading *readings = calloc(MANY, sizeof(*readings));
    char uri[32];

    harness_open_kind(harness, &script_kind, "script: x\nuri: 'a:{id}'\n");
    harness->source->max_fetches = 1;
    script_of(harness)->manual = true;
    for (int i = 0; i < MANY; i++) {
        snprintf(uri, sizeof(uri), "a:%d", i);
        harness_start_read_as(harness, 7, uri, &readings[i]);
    }
    return readings;
}

static void end_many(struct harness *harness, struct reading *readings) {
    harness_close(harness);
    for (int i = 0; i < MANY; i++) {
        assert_true(readings[i].done);
        reading_done(&readings[i]);
    }
    free(readings);
}

static void finish_some(struct harness *harness, int count) {
    while (count-- > 0)
        finish(harness, text("x"));
}

static void who_reads_much_lets_others_read(void **state) {
    struct harness harness;
    struct reading *readings, mine, also;

    (void)state;
    readings = read_many(&harness);
    harness_start_read_as(&harness, 8, "a:mine", &mine);
    harness_start_read_as(&harness, 9, "a:999", &also); /* one of the thousand */
    finish_some(&harness, 1);
    assert_false(mine.done);
    finish_some(&harness, 3);
    assert_true(mine.done);
    assert_true(also.done);
    assert_true(readings[999].done);
    assert_false(readings[2].done);
    reading_done(&mine);
    reading_done(&also);

    /* And is served himself. */
    finish_some(&harness, MANY - 3);
    end_many(&harness, readings);
}

static void who_reads_much_lets_changes_be_told(void **state) {
    struct harness harness;
    struct reading *readings = read_many(&harness);

    (void)state;
    assert_int_equal(tdg__source_watch(harness.source, FOR_URI("a:x"), NULL), TDG_EAGAIN);
    finish_some(&harness, 3);
    assert_int_equal(harness_count(&harness, WATCHED, "a:x"), 1);
    for (int i = 0; i < 5; i++) {
        tdg__source_touch(harness.source, "a:x");
        finish_some(&harness, 3);
    }
    finish(&harness, text("y"));
    end_many(&harness, readings);
}

static void nothing_is_fetched_for_readers_that_have_left(void **state) {
    struct harness harness;
    struct reading *readings, mine, also;

    (void)state;
    readings = read_many(&harness);
    harness_start_read_as(&harness, 8, "a:500", &also); /* one of the thousand */
    harness_start_read_as(&harness, 9, "a:mine", &mine);
    for (int i = 0; i < MANY; i++)
        readings[i].left = true;

    finish_some(&harness, 1); /* it had begun */
    assert_int_equal(readings[0].status, 0);
    finish_some(&harness, 2);
    assert_int_equal(also.status, 0);
    assert_int_equal(mine.status, 0);
    assert_int_equal(script_of(&harness)->fetched, 3);
    for (int i = 1; i < MANY; i++)
        assert_int_equal(readings[i].status, TDG_EENDED);
    reading_done(&mine);
    reading_done(&also);
    end_many(&harness, readings);
}

/* The template is watched: what a read would have found is nothing that changed. */
static void what_is_due_for_subscribers_is_fetched_without_readers(void **state) {
    struct harness harness;
    struct reading *readings = read_many(&harness);

    (void)state;
    harness_watch_template(&harness, "a:{id}");
    tdg__source_touch(harness.source, "a:5");
    for (int i = 0; i < MANY; i++)
        readings[i].left = true;
    finish_some(&harness, 2);
    assert_int_equal(script_of(&harness)->fetched, 2);
    harness_wait(&harness, CHANGED, "a:5");
    end_many(&harness, readings);
}

static void what_is_touched_is_fetched_without_the_reader_it_waited_for(void **state) {
    struct harness harness;
    struct reading other, mine;

    (void)state;
    harness_open_kind(&harness, &script_kind, "script: x\nuri: 'a:{id}'\n");
    harness.source->max_fetches = 1;
    harness_watch_template(&harness, "a:{id}");
    script_of(&harness)->manual = true;
    tdg__source_touch(harness.source, "a:1");
    finish(&harness, text("old"));
    harness_wait(&harness, CHANGED, "a:1"); /* subscribers of the template know "old" */
    harness_start_read_as(&harness, 8, "a:0", &other);
    harness_start_read_as(&harness, 7, "a:1", &mine);
    tdg__source_touch_all(harness.source); /* while it waits for its turn */
    mine.left = true;
    finish(&harness, text("x")); /* a:0, that had begun */
    while (script_of(&harness)->waiting > 0)
        finish(&harness, text("new"));
    assert_int_equal(harness_count(&harness, CHANGED, "a:1"), 1);
    harness_close(&harness);
    reading_done(&mine);
    reading_done(&other);
}

/* ---- A backend that goes away ------------------------------------------- */

static void what_was_seen_last_is_served_as_stale(void **state) {
    struct harness harness;

    (void)state;
    open_plain(&harness);
    harness_watch(&harness, "a:1");
    tdg__source_is_away(harness.source, "the plug was pulled");
    script_of(&harness)->holds =
        (tdg__content_t){.status = TDG_EUNREACHABLE, .error = "no connection"};
    struct reading reading = harness_read(&harness, "a:1");
    assert_int_equal(reading.status, 0);
    assert_string_equal(reading.data, "one");
    assert_true(json_is_true(json_object_get(reading.metadata, "stale")));
    assert_true(json_integer_value(json_object_get(reading.metadata, "stale_since")) > 0);
    assert_non_null(json_object_get(reading.metadata, "stale_reason"));
    reading_done(&reading);

    hold(&harness, "two");
    tdg__source_is_back(harness.source);
    harness_wait(&harness, CHANGED, "a:1");
    reading = harness_read(&harness, "a:1");
    assert_null(json_object_get(reading.metadata, "stale"));
    reading_done(&reading);
    harness_close(&harness);
}

static bool is_stale(const struct reading *reading) {
    return reading->status == 0 &&
           json_is_true(json_object_get(reading->metadata, "stale"));
}

/* "b:1" while the backend is away: what is kept, or nothing. */
static bool reads_stale(struct harness *harness, const char *uri, const char *data) {
    struct reading reading = harness_read(harness, uri);
    bool stale = is_stale(&reading);

    if (stale)
        assert_string_equal(reading.data, data);
    else
        assert_int_equal(reading.status, TDG_EUNREACHABLE);
    reading_done(&reading);
    return stale;
}

static void go_away(struct harness *harness) {
    tdg__source_is_away(harness->source, "the plug was pulled");
    script_of(harness)->holds =
        (tdg__content_t){.status = TDG_EUNREACHABLE, .error = "no connection"};
}

static void what_was_only_read_is_served_as_stale(void **state) {
    struct harness harness;

    (void)state;
    harness_open_kind(&harness, &script_kind, "script: x\nuri: 'b:{id}'\n");
    hold(&harness, "one");
    harness_expect(&harness, "b:1", "one");
    go_away(&harness);
    assert_true(reads_stale(&harness, "b:1", "one"));
    assert_true(reads_stale(&harness, "b:1", "one"));
    assert_false(reads_stale(&harness, "b:2", NULL));

    /* Who watches it then hears of what differs from nothing that was told. */
    assert_int_equal(tdg__source_watch(harness.source, FOR_URI("b:1"), NULL), TDG_EAGAIN);
    harness_wait(&harness, WATCHED, "b:1");
    assert_true(reads_stale(&harness, "b:1", "one"));
    hold(&harness, "two");
    tdg__source_is_back(harness.source);
    harness_wait(&harness, CHANGED, "b:1");

    /* What is gone is not served. */
    script_of(&harness)->holds = (tdg__content_t){.status = TDG_ENOTFOUND};
    struct reading reading = harness_read(&harness, "b:1");
    assert_int_equal(reading.status, TDG_ENOTFOUND);
    reading_done(&reading);
    go_away(&harness);
    assert_false(reads_stale(&harness, "b:1", NULL));
    harness_close(&harness);
}

static void what_was_read_is_kept_within_limits(void **state) {
    struct harness harness;
    char uri[32];

    (void)state;
    harness_open_kind(&harness, &script_kind, "script: x\nuri: 'b:{id}'\n");
    harness.source->items->own_stale.max_bytes = 40;
    hold(&harness, "12345678901"); /* more than a quarter */
    harness_expect(&harness, "b:large", "12345678901");
    hold(&harness, "1234567890");
    for (int i = 0; i < 6; i++) {
        snprintf(uri, sizeof(uri), "b:%d", i);
        harness_expect(&harness, uri, "1234567890");
    }
    harness_expect(&harness, "b:3", "1234567890"); /* used again: stays longer */
    assert_int_equal(harness.source->items->all.pool.count, 4);
    harness_expect(&harness, "b:6", "1234567890");
    go_away(&harness);
    assert_false(reads_stale(&harness, "b:large", NULL));
    assert_false(reads_stale(&harness, "b:2", NULL));
    assert_true(reads_stale(&harness, "b:3", "1234567890"));
    assert_true(reads_stale(&harness, "b:6", "1234567890"));
    assert_int_equal(harness.source->items->own_stale.bytes, 40);
    harness_close(&harness);
}

static void ten_thousand_contents_are_kept_at_most(void **state) {
    struct harness harness;
    char uri[32];

    (void)state;
    harness_open_kind(&harness, &script_kind, "script: x\nuri: 'b:{id}'\n");
    hold(&harness, "");
    for (int i = 0; i <= 10000; i++) {
        snprintf(uri, sizeof(uri), "b:%d", i);
        harness_expect(&harness, uri, "");
    }
    go_away(&harness);
    assert_false(reads_stale(&harness, "b:0", NULL));
    assert_true(reads_stale(&harness, "b:1", ""));
    assert_true(reads_stale(&harness, "b:10000", ""));
    harness_close(&harness);
}

static void a_failed_fetch_is_tried_again(void **state) {
    struct harness harness;

    (void)state;
    open_plain(&harness);
    harness_watch(&harness, "a:1");
    script_of(&harness)->manual = true;
    tdg__source_touch(harness.source, "a:1");
    script_of(&harness)->manual = false; /* from the second try on */
    hold(&harness, "two");
    finish(&harness, (tdg__content_t){.status = TDG_EUNREACHABLE, .error = "not now"});
    harness_wait(&harness, LOGGED, "not now");
    harness_wait(&harness, CHANGED, "a:1");
    harness_close(&harness);
}

static void watching_begins_while_the_backend_is_away(void **state) {
    struct harness harness;

    (void)state;
    open_plain(&harness);
    script_of(&harness)->manual = true;
    assert_int_equal(tdg__source_watch(harness.source, FOR_URI("a:1"), NULL), TDG_EAGAIN);
    script_of(&harness)->manual = false; /* from the second try on */
    finish(&harness, (tdg__content_t){.status = TDG_EUNREACHABLE, .error = "not now"});
    assert_int_equal(harness_wait(&harness, WATCHED, "a:1")->status, 0);
    harness_wait(&harness, CHANGED, "a:1"); /* nobody knows what it was before */
    harness_close(&harness);
}

/* ---- Templates ---------------------------------------------------------- */

static void a_watched_template_tells_what_is_touched(void **state) {
    struct harness harness;

    (void)state;
    harness_open_kind(&harness, &script_kind, "script: x\nuri: 'a:{id}'\n");
    hold(&harness, "one");
    tdg__source_touch(harness.source, "a:1"); /* nobody watches */
    harness_watch_template(&harness, "a:{id}");
    harness_expect(&harness, "a:2", "one");
    assert_int_equal(harness_count(&harness, CHANGED, NULL), 0);
    tdg__source_touch(harness.source, "a:1");
    harness_wait(&harness, CHANGED, "a:1");
    tdg__source_touch(harness.source, "a:1");
    tdg__source_touch(harness.source, "b:1");
    assert_int_equal(harness_count(&harness, CHANGED, NULL), 0);
    hold(&harness, "two");
    tdg__source_touch_all(harness.source); /* both are remembered */
    harness_wait(&harness, CHANGED, "a:1");
    harness_wait(&harness, CHANGED, "a:2");
    tdg__source_unwatch(harness.source, FOR_TEMPLATE("a:{id}"));
    tdg__source_touch_all(harness.source);
    assert_int_equal(harness_count(&harness, CHANGED, NULL), 0);
    harness_close(&harness);
}

/* The kind says that something has changed after somebody has already read it. */
static void a_read_before_the_touch_hides_nothing(void **state) {
    struct harness harness;

    (void)state;
    harness_open_kind(&harness, &script_kind, "script: x\nuri: 'a:{id}'\n");
    hold(&harness, "one");
    harness_watch_template(&harness, "a:{id}");
    harness_expect(&harness, "a:1", "one");
    tdg__source_touch(harness.source, "a:1");
    harness_wait(&harness, CHANGED, "a:1");
    tdg__source_touch(harness.source, "a:1"); /* nothing is owed any more */
    harness_watch(&harness, "a:2");
    tdg__source_touch(harness.source, "a:2");
    harness_wait(&harness, CHANGED, "a:2");
    assert_int_equal(harness_count(&harness, CHANGED, NULL), 0);
    harness_close(&harness);
}

/* The same where nobody can be told at first. */
static void what_a_read_found_first_is_told_later(void **state) {
    struct harness harness;

    (void)state;
    harness_open_kind(&harness, &script_kind,
                      "script: x\nuri: 'a:{id}'\nretry: 1ms\nretry-max: 4ms\n");
    hold(&harness, "one");
    harness_watch_template(&harness, "a:{id}");
    harness_expect(&harness, "a:1", "one");
    harness.refuses_news = 1;
    tdg__source_came(harness.source, "a:1");
    assert_int_equal(harness_count(&harness, CHANGED, NULL), 0);
    assert_string_equal(field(harness_wait(&harness, CHANGED, "a:1"), "change_type"),
                        "created");
    harness_close(&harness);
}

/* Somebody subscribes to the very resource that is being looked at for the others. */
static void a_watch_that_begins_hides_nothing_from_the_template(void **state) {
    struct harness harness;

    (void)state;
    harness_open_kind(&harness, &script_kind, "script: x\nuri: 'a:{id}'\n");
    harness_watch_template(&harness, "a:{id}");
    script_of(&harness)->manual = true;
    tdg__source_came(harness.source, "a:1");
    assert_int_equal(tdg__source_watch(harness.source, FOR_URI("a:1"), NULL), TDG_EAGAIN);
    finish(&harness, text("one"));
    finish(&harness, text("one"));
    assert_string_equal(field(harness_wait(&harness, CHANGED, "a:1"), "change_type"),
                        "created");
    assert_int_equal(harness_count(&harness, CHANGED, NULL), 0);
    harness_close(&harness);
}

static void that_what_was_only_read_is_gone_is_told_once(void **state) {
    struct harness harness;

    (void)state;
    harness_open_kind(&harness, &script_kind, "script: x\nuri: 'a:{id}'\n");
    hold(&harness, "one");
    harness_watch_template(&harness, "a:{id}");
    harness_expect(&harness, "a:1", "one");
    script_of(&harness)->manual = true;
    tdg__source_touch(harness.source, "a:1"); /* as files does */
    tdg__source_unlist(harness.source, "a:1");
    assert_false(harness_wait(&harness, UNLISTED, "a:1")->told);
    finish(&harness, (tdg__content_t){.status = TDG_ENOTFOUND});
    assert_int_equal(harness_count(&harness, DELETED, NULL), 0);
    harness_close(&harness);
}

static void what_was_only_read_and_is_gone_leaves_nothing_behind(void **state) {
    struct harness harness;

    (void)state;
    harness_open_kind(&harness, &script_kind, "script: x\nuri: 'a:{id}'\n");
    hold(&harness, "one");
    harness_expect(&harness, "a:1", "one");
    assert_int_equal(harness.source->items->all.pool.count, 1); /* kept for later */
    tdg__source_unlist(harness.source, "a:1");
    assert_int_equal(harness.source->items->all.pool.count, 0);
    harness_close(&harness);
}

static void touch_many(struct harness *harness, int count) {
    char uri[32];

    for (int i = 0; i < count; i++) {
        snprintf(uri, sizeof(uri), "a:%d", i);
        tdg__source_touch(harness->source, uri);
    }
}

/* So many are touched while nobody can look that not all of them are remembered. */
static void what_is_owed_a_look_is_not_forgotten_silently(void **state) {
    enum { MORE = 3 };
    struct harness harness;

    (void)state;
    harness_open_kind(&harness, &script_kind, "script: x\nuri: 'a:{id}'\n");
    script_of(&harness)->holds =
        (tdg__content_t){.status = TDG_EUNREACHABLE, .error = "away"};
    harness_watch_template(&harness, "a:{id}");
    tdg__source_is_away(harness.source, "away");
    touch_many(&harness, REMEMBERED);
    assert_int_equal(harness_count(&harness, CHANGED, NULL), 0);
    touch_many(&harness, REMEMBERED + MORE);
    assert_int_equal(harness_count(&harness, CHANGED, NULL), MORE);
    harness_close(&harness);
}

static void what_waits_to_be_looked_at_is_bounded(void **state) {
    enum { AT_A_TIME = 16, WAITING = 100000, MORE = 3 };
    struct harness harness;

    (void)state;
    harness_open_kind(&harness, &script_kind, "script: x\nuri: 'a:{id}'\n");
    hold(&harness, "one");
    script_of(&harness)->manual = true;
    harness_watch_template(&harness, "a:{id}");
    touch_many(&harness, AT_A_TIME + WAITING);
    assert_int_equal(harness_count(&harness, CHANGED, NULL), 0);
    touch_many(&harness, AT_A_TIME + WAITING + MORE);
    assert_int_equal(harness_count(&harness, CHANGED, NULL), MORE);

    /* And when nobody is interested any more, none of it is fetched. */
    tdg__source_unwatch(harness.source, FOR_TEMPLATE("a:{id}"));
    while (script_of(&harness)->waiting > 0)
        finish(&harness, text("two"));
    assert_int_equal(script_of(&harness)->fetched, AT_A_TIME);
    harness_close(&harness);
}

/* The kind has lost track while a look was under way, which began too early. */
static void touching_all_is_not_lost_on_what_is_fetched(void **state) {
    struct harness harness;

    (void)state;
    harness_open_kind(&harness, &script_kind, "script: x\nuri: 'a:{id}'\n");
    hold(&harness, "one");
    harness_watch_template(&harness, "a:{id}");
    tdg__source_touch(harness.source, "a:1");
    harness_wait(&harness, CHANGED, "a:1");
    script_of(&harness)->manual = true;
    tdg__source_touch(harness.source, "a:1");
    tdg__source_touch_all(harness.source);
    script_of(&harness)->manual = false;
    hold(&harness, "two");
    finish(&harness, text("one"));
    harness_wait(&harness, CHANGED, "a:1");
    harness_close(&harness);
}

static void what_a_template_has_is_tried_again(void **state) {
    struct harness harness;

    (void)state;
    harness_open_kind(&harness, &script_kind,
                      "script: x\nuri: 'a:{id}'\nretry: 1ms\nretry-max: 4ms\n");
    hold(&harness, "one");
    harness_watch_template(&harness, "a:{id}");
    tdg__source_touch(harness.source, "a:1");
    harness_wait(&harness, CHANGED, "a:1");
    script_of(&harness)->manual = true;
    tdg__source_touch_all(harness.source);
    script_of(&harness)->manual = false; /* from the second try on */
    hold(&harness, "two");
    finish(&harness, (tdg__content_t){.status = TDG_EUNREACHABLE, .error = "not now"});
    harness_wait(&harness, CHANGED, "a:1");
    harness_close(&harness);
}

/* ---- Options ------------------------------------------------------------ */

static void timing_that_means_nothing_is_refused(void **state) {
    (void)state;
    harness_refuses("memory: m:1\nwindow: 2s\n",
                    "window: this has no effect without `timing`");
    harness_refuses("memory: m:1\ntiming: immediate\nlongest-wait: 2s\n", "no effect");
    harness_refuses("memory: m:1\ntiming: debounce\nwindow: 2s\nlongest-wait: 1s\n",
                    "shorter than the window");
}

/* ---- Pushed content ----------------------------------------------------- */

static void pushed_content_is_kept_and_told(void **state) {
    struct harness harness;
    tdg__content_t content = text("one");

    (void)state;
    harness_open_kind(&harness, &pushed_kind, "script: x\nuri: a:1\nmax-size: 3\n");
    struct reading reading = harness_read(&harness, "a:1");
    assert_int_equal(reading.status, TDG_ENOTFOUND);
    reading_done(&reading);
    assert_int_equal(tdg__source_put(harness.source, "a:1", &content, false), 0);
    assert_string_equal(field(harness_wait(&harness, CHANGED, "a:1"), "change_type"),
                        "created");
    harness_expect(&harness, "a:1", "one");
    assert_int_equal(tdg__source_put(harness.source, "a:1", &content, false), 0);
    assert_int_equal(harness_count(&harness, CHANGED, NULL), 0);
    assert_int_equal(tdg__source_put(harness.source, "a:1", &content, true), 0);
    assert_string_equal(field(harness_wait(&harness, CHANGED, "a:1"), "change_type"),
                        "content_update");
    content = text("four");
    assert_int_equal(tdg__source_put(harness.source, "a:1", &content, false),
                     TDG_ETOOLARGE);
    harness_expect(&harness, "a:1", "one");
    content = (tdg__content_t){.status = TDG_ENOTFOUND};
    assert_int_equal(tdg__source_put(harness.source, "a:1", &content, false), 0);
    harness_wait(&harness, DELETED, "a:1");
    harness_close(&harness);
}

/* ---- The log ------------------------------------------------------------ */

static void messages_are_bounded_and_counted(void **state) {
    struct harness harness;

    (void)state;
    open_plain(&harness);
    for (int i = 0; i < 27; i++)
        tdg__source_log(harness.source, TDG_LOG_WARNING, "message %d.", i);
    assert_int_equal(harness_count(&harness, LOGGED, NULL), 20);
    harness_wait(&harness, LOGGED, "message 19.");

    /* As if their time were over. */
    harness.source->logged_since_ms -= 10000;
    tdg__source_log(harness.source, TDG_LOG_WARNING, "message 27.");
    harness_wait(&harness, LOGGED, "7 messages were left out");
    harness_wait(&harness, LOGGED, "message 27.");
    harness.source->logged_since_ms -= 10000;
    tdg__source_log(harness.source, TDG_LOG_WARNING, "message 28.");
    harness_wait(&harness, LOGGED, "message 28.");
    assert_int_equal(harness_count(&harness, LOGGED, NULL), 19);
    harness_close(&harness);
}

/* ---- The end ------------------------------------------------------------ */

static void closing_answers_everybody(void **state) {
    struct reading now, next;
    struct harness harness;

    (void)state;
    open_plain(&harness);
    script_of(&harness)->manual = true;
    harness_start_read(&harness, "a:1", &now);
    harness_start_read(&harness, "a:1", &next);
    harness_close(&harness);
    assert_int_equal(now.status, TDG_EUNREACHABLE);
    assert_int_equal(next.status, TDG_EUNREACHABLE);
    reading_done(&now);
    reading_done(&next);
}

static void a_source_that_there_is_no_memory_for_leaves_none_behind(void **state) {
    static const char yaml[] = "memory: 'a:{x}'";
    tdg__source_t *source = NULL;
    tdg__problems_t problems;
    tdg__node_t *node = NULL;
    size_t nth = 0;

    (void)state;
    tdg__problems_init(&problems, "test.yaml");
    assert_int_equal(tdg__node_read_text(yaml, strlen(yaml), &problems, &node), 0);
    while (source == NULL) {
        size_t live = memory_live();

        memory_fail(++nth, MEMORY_ONCE);
        int rv = tdg__source_create(node, &problems, &source);
        memory_fail(0, MEMORY_ONCE);
        assert_int_equal(rv, source != NULL ? 0 : TDG_ENOMEM);
        if (source == NULL)
            assert_int_equal(memory_live(), live);
    }
    assert_true(nth > 5);
    tdg__source_destroy(source);
    tdg__node_destroy(node);
    tdg__problems_done(&problems);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_without_a_watcher),
        cmocka_unit_test(a_read_waits_for_a_fetch_that_began_after_it),
        cmocka_unit_test(too_large_content_is_refused),
        cmocka_unit_test(a_fetch_that_hangs_is_cancelled),
        cmocka_unit_test(a_change_is_told_once),
        cmocka_unit_test(what_cannot_be_told_is_told_later),
        cmocka_unit_test(deleted_and_created),
        cmocka_unit_test(that_it_is_gone_is_told_once),
        cmocka_unit_test(that_it_is_gone_and_cannot_be_told_is_told_later),
        cmocka_unit_test(a_touch_during_a_fetch_is_not_lost),
        cmocka_unit_test(watching_waits_for_the_kind_and_the_first_look),
        cmocka_unit_test(watching_tells_whether_it_exists),
        cmocka_unit_test(a_kind_may_refuse_to_watch),
        cmocka_unit_test(what_was_published_before_a_reload_is_compared),
        cmocka_unit_test(who_reads_much_lets_others_read),
        cmocka_unit_test(who_reads_much_lets_changes_be_told),
        cmocka_unit_test(nothing_is_fetched_for_readers_that_have_left),
        cmocka_unit_test(what_is_due_for_subscribers_is_fetched_without_readers),
        cmocka_unit_test(what_is_touched_is_fetched_without_the_reader_it_waited_for),
        cmocka_unit_test(what_was_seen_last_is_served_as_stale),
        cmocka_unit_test(what_was_only_read_is_served_as_stale),
        cmocka_unit_test(ten_thousand_contents_are_kept_at_most),
        cmocka_unit_test(what_was_read_is_kept_within_limits),
        cmocka_unit_test(a_failed_fetch_is_tried_again),
        cmocka_unit_test(watching_begins_while_the_backend_is_away),
        cmocka_unit_test(a_watched_template_tells_what_is_touched),
        cmocka_unit_test(a_read_before_the_touch_hides_nothing),
        cmocka_unit_test(what_a_read_found_first_is_told_later),
        cmocka_unit_test(a_watch_that_begins_hides_nothing_from_the_template),
        cmocka_unit_test(that_what_was_only_read_is_gone_is_told_once),
        cmocka_unit_test(what_was_only_read_and_is_gone_leaves_nothing_behind),
        cmocka_unit_test(what_is_owed_a_look_is_not_forgotten_silently),
        cmocka_unit_test(what_waits_to_be_looked_at_is_bounded),
        cmocka_unit_test(touching_all_is_not_lost_on_what_is_fetched),
        cmocka_unit_test(what_a_template_has_is_tried_again),
        cmocka_unit_test(timing_that_means_nothing_is_refused),
        cmocka_unit_test(pushed_content_is_kept_and_told),
        cmocka_unit_test(messages_are_bounded_and_counted),
        cmocka_unit_test(closing_answers_everybody),
        cmocka_unit_test_setup_teardown(
            a_source_that_there_is_no_memory_for_leaves_none_behind, memory_setup,
            memory_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT */
#include "unit/core/fixture.h"

#include <inttypes.h>

/* ---- Call-outs ---------------------------------------------------------- */

static struct call *record(struct fixture *f, int what, const tdg__target_t *target) {
    struct call *call;

    /* Room doubles, without a field for it: it is full at every power of two. */
    if ((f->n_calls & (f->n_calls - 1)) == 0) {
        size_t room = f->n_calls == 0 ? 1 : 2 * f->n_calls;

        f->calls = realloc(f->calls, room * sizeof(*f->calls));
        assert_non_null(f->calls);
    }

    call = &f->calls[f->n_calls++];
    memset(call, 0, sizeof(*call));
    call->what = what;
    call->kind = target->kind;
    call->name = strndup(target->name, target->len);
    call->resumed = true;
    assert_non_null(call->name);
    return call;
}

static int on_watch(void *user, const tdg__target_t *target) {
    struct fixture *f = user;

    record(f, CALL_WATCH, target);
    return f->watch_answer;
}

static void on_unwatch(void *user, const tdg__target_t *target) {
    record(user, CALL_UNWATCH, target);
}

static void on_settled(void *user, tdg__stream_t stream, const tdg__target_t *target,
                       int status, bool resumed) {
    struct fixture *f = user;
    struct call *call = record(f, CALL_SETTLED, target);

    call->stream = stream;
    call->status = status;
    call->resumed = resumed;
    if (f->on_settled != NULL)
        f->on_settled(f, stream, target, status);
}

static bool named(const tdg__target_t *target, const char *name) {
    return target->len == strlen(name) && memcmp(target->name, name, target->len) == 0;
}

static bool on_may_read(void *user, tdg__stream_t stream, const tdg__target_t *uri) {
    struct fixture *f = user;

    f->asked++;
    return f->forbidden == NULL || !named(uri, f->forbidden) ||
           (f->forbidden_to != 0 && f->forbidden_to != stream);
}

static void on_list_matches(void *user, const tdg__target_t *template_,
                            bool (*visit)(void *arg, const tdg__target_t *uri),
                            void *arg) {
    struct fixture *f = user;

    for (size_t i = 0; i < f->n_listed; i++) {
        if (!named(template_, f->listed[i].template_))
            continue;
        f->visited++;
        if (!visit(arg, URI(f->listed[i].uri)))
            return;
    }
}

const tdg__engine_calls_t calls_pushed = {
    .settled = on_settled,
    .may_read = on_may_read,
    .list_matches = on_list_matches,
};

const tdg__engine_calls_t calls_watched = {
    .watch = on_watch,
    .unwatch = on_unwatch,
    .settled = on_settled,
    .may_read = on_may_read,
    .list_matches = on_list_matches,
};

/* ---- Making one --------------------------------------------------------- */

const tdg__settings_t at_once = {
    .timing = {.mode = TDG__TIMING_IMMEDIATE},
    .rate_limit_ms = TDG__RATE_OFF,
};

tdg__settings_t batch(uint32_t window_ms) {
    return (tdg__settings_t){.timing = {TDG__TIMING_BATCH, window_ms, 0},
                             .rate_limit_ms = TDG__RATE_OFF};
}

tdg__settings_t debounce(uint32_t window_ms, uint32_t longest_ms) {
    return (tdg__settings_t){.timing = {TDG__TIMING_DEBOUNCE, window_ms, longest_ms},
                             .rate_limit_ms = TDG__RATE_OFF};
}

tdg__settings_t throttle(uint32_t window_ms) {
    return (tdg__settings_t){.timing = {TDG__TIMING_THROTTLE, window_ms, 0},
                             .rate_limit_ms = TDG__RATE_OFF};
}

tdg__settings_t rate_limit(int32_t ms) {
    return (tdg__settings_t){.timing = {.mode = TDG__TIMING_IMMEDIATE},
                             .rate_limit_ms = ms};
}

int fixture_create(void **state, const tdg__engine_opts_t *opts) {
    tdg__engine_opts_t mine = *opts;
    struct fixture *f;

    memory_count();
    memory_fail(0, MEMORY_ONCE);

    f = calloc(1, sizeof(*f));
    assert_non_null(f);
    f->live = memory_live();
    f->now_ms = START_MS;
    f->wall_ms = NOON_MS;

    mine.user = f;
    mine.epoch = EPOCH;
    assert_int_equal(tdg__engine_create(&mine, &f->engine), 0);

    tdg__engine_advance(f->engine, f->now_ms, f->wall_ms);
    *state = f;
    return 0;
}

int setup_default(void **state) {
    return fixture_create(state, &(tdg__engine_opts_t){.calls = calls_pushed});
}

int setup_at_once(void **state) {
    return fixture_create(
        state, &(tdg__engine_opts_t){.calls = calls_pushed, .defaults = at_once});
}

int setup_watched(void **state) {
    return fixture_create(
        state, &(tdg__engine_opts_t){.calls = calls_watched, .defaults = at_once});
}

int teardown(void **state) {
    struct fixture *f = *state;
    size_t live;

    tdg__engine_destroy(f->engine);
    live = memory_live() - f->live;

    for (size_t i = 0; i < f->n_calls; i++)
        free(f->calls[i].name);
    free(f->calls);
    free(f);

    if (live != 0)
        print_error("%zu blocks of memory are left behind\n", live);
    return live == 0 ? 0 : -1;
}

/* ---- Acting ------------------------------------------------------------- */

void advance(struct fixture *f, int64_t ms) {
    f->now_ms += ms;
    f->wall_ms += ms;
    tdg__engine_advance(f->engine, f->now_ms, f->wall_ms);
}

tdg__stream_t open_stream(struct fixture *f) {
    tdg__stream_t stream = 0;

    assert_int_equal(tdg__engine_open(f->engine, NULL, &stream), 0);
    assert_true(stream != 0);
    return stream;
}

void subscribe_at(struct fixture *f, tdg__stream_t stream, const tdg__target_t *target,
                  const tdg__sub_opts_t *opts, const char *file, int line) {
    int rv = tdg__engine_subscribe(f->engine, stream, target, opts, NULL);

    if (rv == 0)
        rv = tdg__engine_acknowledge(f->engine, stream, target);
    if (rv != 0) {
        print_error("subscribe to %.*s: %s\n", (int)target->len, target->name,
                    tdg_strerror(rv));
        _fail(file, line);
    }
}

void subscribe_settings(struct fixture *f, tdg__stream_t stream, const char *uri,
                        tdg__settings_t settings) {
    subscribe_with(f, stream, URI(uri), &(tdg__sub_opts_t){.settings = settings});
}

void subscribe_filter(struct fixture *f, tdg__stream_t stream, const char *uri,
                      const char *filter) {
    json_t *json = json_from(filter);

    subscribe_with(f, stream, URI(uri), &(tdg__sub_opts_t){.filter = json});
    json_decref(json);
}

tdg__subscribed_t subscribe_only(struct fixture *f, tdg__stream_t stream,
                                 const tdg__target_t *target,
                                 const tdg__sub_opts_t *opts) {
    tdg__subscribed_t answer;

    assert_int_equal(tdg__engine_subscribe(f->engine, stream, target, opts, &answer), 0);
    return answer;
}

tdg__sub_opts_t after(uint64_t number) {
    return (tdg__sub_opts_t){.has_cursor = true, .cursor = {EPOCH, number}};
}

void acknowledge(struct fixture *f, tdg__stream_t stream) {
    assert_int_equal(tdg__engine_acknowledge(f->engine, stream, NULL), 0);
}

void unsubscribe(struct fixture *f, tdg__stream_t stream, const char *uri) {
    assert_int_equal(tdg__engine_unsubscribe(f->engine, stream, URI(uri)), 0);
}

uint64_t changed(struct fixture *f, const char *uri, const char *metadata) {
    json_t *json = json_from(metadata);
    uint64_t number = 0;

    assert_int_equal(tdg__engine_publish(f->engine, URI(uri), json, false, &number), 0);
    json_decref(json);
    return number;
}

uint64_t deleted(struct fixture *f, const char *uri) {
    uint64_t number = 0;

    assert_int_equal(tdg__engine_publish(f->engine, URI(uri), NULL, true, &number), 0);
    return number;
}

uint64_t list_changed(struct fixture *f, const char *list) {
    uint64_t number = 0;

    assert_int_equal(tdg__engine_publish(f->engine, LIST(list), NULL, false, &number), 0);
    return number;
}

void configure(struct fixture *f, const tdg__target_t *target, tdg__settings_t settings) {
    assert_int_equal(tdg__engine_configure(f->engine, target, &settings), 0);
}

void watch_done(struct fixture *f, const tdg__target_t *target,
                tdg__watch_result_t result, int error) {
    assert_int_equal(tdg__engine_watch_done(f->engine, target, result, error), 0);
}

/* ---- Looking ------------------------------------------------------------ */

tdg__note_t take_at(struct fixture *f, tdg__stream_t stream, const char *file, int line) {
    tdg__note_t note = {0};
    tdg__cursor_t cursor;
    int rv = tdg__engine_take(f->engine, stream, &note);

    if (rv != 1) {
        print_error("nothing to take: %d\n", rv);
        _fail(file, line);
    }

    /* A note carries the cursor that the stream has from then on. */
    assert_int_equal(tdg__engine_cursor(f->engine, stream, &cursor), 0);
    if (cursor.epoch != note.cursor.epoch || cursor.number != note.cursor.number) {
        print_error("the note has another cursor (%" PRIu64 ") than the stream (%" PRIu64
                    ")\n",
                    note.cursor.number, cursor.number);
        _fail(file, line);
    }
    return note;
}

static void expect_name(const tdg__change_t *change, const char *name, const char *file,
                        int line) {
    if (change == NULL || change->len != strlen(name) ||
        strcmp(change->name, name) != 0) {
        print_error("a note about %s, not %s\n",
                    change == NULL ? "nothing" : change->name, name);
        _fail(file, line);
    }
}

void expect_note_at(struct fixture *f, tdg__stream_t stream, tdg__note_kind_t kind,
                    const char *name, uint64_t number, uint32_t merged, const char *file,
                    int line) {
    tdg__note_t note = take_at(f, stream, file, line);

    _assert_int_equal(note.kind, kind, file, line);
    expect_name(note.change, name, file, line);
    _assert_int_equal(note.change->number, number, file, line);
    _assert_int_equal(note.change->assumed, false, file, line);
    _assert_int_equal(note.merged, merged, file, line);
}

void expect_assumed_at(struct fixture *f, tdg__stream_t stream, const char *name,
                       uint64_t number, const char *file, int line) {
    tdg__note_t note = take_at(f, stream, file, line);

    expect_name(note.change, name, file, line);
    _assert_int_equal(note.change->number, number, file, line);
    _assert_int_equal(note.change->assumed, true, file, line);
    _assert_int_equal(note.merged, 0, file, line);
}

void expect_metadata_at(const tdg__change_t *change, const char *text, const char *file,
                        int line) {
    json_t *metadata = NULL;

    _assert_int_equal(tdg__change_metadata(change, &metadata), 0, file, line);
    assert_json_equal_at(metadata, text, file, line);
    json_decref(metadata);
}

void expect_end_at(struct fixture *f, tdg__stream_t stream, int reason, uint64_t number,
                   const char *file, int line) {
    tdg__note_t note = take_at(f, stream, file, line);

    _assert_int_equal(note.kind, TDG__NOTE_END, file, line);
    _assert_int_equal(note.reason, reason, file, line);
    _assert_int_equal(note.change == NULL, true, file, line);
    _assert_int_equal(note.cursor.epoch, EPOCH, file, line);
    _assert_int_equal(note.cursor.number, number, file, line);
}

void expect_silence_at(struct fixture *f, const char *file, int line) {
    tdg__stream_t stream = tdg__engine_next_ready(f->engine, 0);
    tdg__note_t note;

    if (stream == 0)
        return;

    if (tdg__engine_take(f->engine, stream, &note) == 1 && note.change != NULL)
        print_error("%s %" PRIu64 " breaks the silence\n", note.change->name,
                    note.change->number);
    _fail(file, line);
}

void expect_nothing_at(struct fixture *f, tdg__stream_t stream, const char *file,
                       int line) {
    tdg__note_t note;
    int rv = tdg__engine_take(f->engine, stream, &note);

    if (rv == 1 && note.change != NULL)
        print_error("%s %" PRIu64 " is there to take\n", note.change->name,
                    note.change->number);
    _assert_int_equal(rv, 0, file, line);
}

size_t drain(struct fixture *f) {
    tdg__note_t note;
    size_t count = 0;

    for (tdg__stream_t s = tdg__engine_next_ready(f->engine, 0); s != 0;
         s = tdg__engine_next_ready(f->engine, s)) {
        while (tdg__engine_take(f->engine, s, &note) == 1)
            count++;
    }
    return count;
}

void expect_cursor_at(struct fixture *f, tdg__stream_t stream, uint64_t epoch,
                      uint64_t number, const char *file, int line) {
    tdg__cursor_t cursor = {0};

    _assert_int_equal(tdg__engine_cursor(f->engine, stream, &cursor), 0, file, line);
    _assert_int_equal(cursor.epoch, epoch, file, line);
    _assert_int_equal(cursor.number, number, file, line);
}

tdg__counters_t counters(struct fixture *f) {
    tdg__counters_t now;

    tdg__engine_counters(f->engine, &now);
    return now;
}

void expect_empty_at(struct fixture *f, const char *file, int line) {
    tdg__counters_t now = counters(f);

    _assert_int_equal(now.streams, 0, file, line);
    _assert_int_equal(now.subscriptions, 0, file, line);
    _assert_int_equal(now.resources, 0, file, line);
    _assert_int_equal(now.templates, 0, file, line);
    _assert_int_equal(now.watchers, 0, file, line);
    _assert_int_equal(now.pending, 0, file, line);
    _assert_int_equal(tdg__engine_next_ready(f->engine, 0), 0, file, line);
    _assert_int_equal(tdg__engine_next_deadline(f->engine) == INT64_MAX, true, file,
                      line);
}

static const char *const call_names[] = {"watch", "unwatch", "settled"};

void expect_call_at(struct fixture *f, int what, const tdg__target_t *target,
                    tdg__stream_t stream, int status, bool resumed, const char *file,
                    int line) {
    const struct call *call;

    if (f->next_call == f->n_calls) {
        print_error("%s was not called\n", call_names[what]);
        _fail(file, line);
        return;
    }

    call = &f->calls[f->next_call++];
    if ((int)call->what != what || call->kind != target->kind ||
        !named(target, call->name)) {
        print_error("%s of %s was called, not %s of %.*s\n", call_names[call->what],
                    call->name, call_names[what], (int)target->len, target->name);
        _fail(file, line);
    }
    _assert_int_equal(call->stream, stream, file, line);
    _assert_int_equal(call->status, status, file, line);
    _assert_int_equal(call->resumed, resumed, file, line);
}

void expect_no_call_at(struct fixture *f, const char *file, int line) {
    if (f->next_call == f->n_calls)
        return;

    print_error("%s of %s was called\n", call_names[f->calls[f->next_call].what],
                f->calls[f->next_call].name);
    _fail(file, line);
}

bool count_visit(void *count, const tdg__sub_info_t *info) {
    (void)info;
    ++*(size_t *)count;
    return true;
}

size_t subscribers(struct fixture *f, const tdg__target_t *target,
                   bool through_templates) {
    size_t count = 0;

    tdg__engine_each_subscriber(f->engine, target, through_templates, SIZE_MAX,
                                count_visit, &count);
    if (through_templates) /* counting is another way to the same */
        assert_int_equal(tdg__engine_count_subscribers(f->engine, target), count);
    return count;
}

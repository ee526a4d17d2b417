/* SPDX-License-Identifier: MIT
 *
 * An engine with simulated time whose call-outs are recorded, and words to write tests of
 * behaviour with. A word that starts with `expect` fails the test where it stands. */
#ifndef TDG_TESTS_CORE_FIXTURE_H
#define TDG_TESTS_CORE_FIXTURE_H

#include "core/engine.h"
#include "support.h"

enum {
    EPOCH = 7,            /* of every engine that a fixture creates */
    START_MS = 1000,      /* the time at which it is created */
    NOON_MS = 1750000000, /* the time of day then */
};

struct call {
    enum { CALL_WATCH, CALL_UNWATCH, CALL_SETTLED } what;
    tdg__target_kind_t kind;
    char *name;
    tdg__stream_t stream; /* SETTLED only, like the rest */
    int status;
    bool resumed;
};

struct fixture {
    tdg__engine_t *engine;
    int64_t now_ms;
    int64_t wall_ms;

    int watch_answer; /* what `watch` returns; 0 at first */
    /* Called from inside `settled`, after it is recorded; may be NULL. */
    void (*on_settled)(struct fixture *f, tdg__stream_t stream,
                       const tdg__target_t *target, int status);
    tdg__stream_t other; /* for on_settled */

    const char *forbidden;      /* the URI that `may_read` denies; NULL: none */
    tdg__stream_t forbidden_to; /* and to whom; 0: to all */
    size_t asked;               /* how often `may_read` was called */

    struct {
        const char *template_;
        const char *uri;
    } listed[16]; /* what `list_matches` visits */
    size_t n_listed;
    size_t visited; /* how many of them the engine took in before it had enough */

    struct call *calls; /* recorded, in order */
    size_t n_calls;
    size_t next_call; /* the first that no expect_…() has looked at */

    size_t live; /* blocks of memory before the engine was created */
};

/* ---- Making one --------------------------------------------------------- */

extern const tdg__engine_calls_t calls_pushed;  /* nothing needs watching */
extern const tdg__engine_calls_t calls_watched; /* every target needs a watcher */

extern const tdg__settings_t at_once;      /* immediate, no rate limit */
tdg__settings_t batch(uint32_t window_ms); /* and no rate limit */
tdg__settings_t debounce(uint32_t window_ms, uint32_t longest_ms);
tdg__settings_t throttle(uint32_t window_ms);
tdg__settings_t rate_limit(int32_t ms); /* and immediate */

/* Stores a new fixture in *state with an engine of these options and EPOCH. For setup
 * functions. */
int fixture_create(void **state, const tdg__engine_opts_t *opts);

int setup_default(void **state); /* built-in settings, nothing needs watching */
int setup_at_once(void **state); /* immediate, no rate limit, nothing needs watching */
int setup_watched(void **state); /* immediate, no rate limit, everything needs watching */

/* Destroys the engine and fails where it leaves memory behind. */
int teardown(void **state);

#define TEST(name, setup) cmocka_unit_test_setup_teardown(name, setup, teardown)

/* ---- Acting ------------------------------------------------------------- */

#define URI(text) (&(const tdg__target_t){TDG__TARGET_URI, (text), strlen(text)})
#define TEMPLATE(text)                                                                   \
    (&(const tdg__target_t){TDG__TARGET_TEMPLATE, (text), strlen(text)})
#define LIST(text) (&(const tdg__target_t){TDG__TARGET_LIST, (text), strlen(text)})

void advance(struct fixture *f, int64_t ms);

tdg__stream_t open_stream(struct fixture *f);

/* Subscribe, and acknowledge at once; `opts` may be NULL. */
#define subscribe(f, stream, uri) subscribe_with((f), (stream), URI(uri), NULL)
#define subscribe_template(f, stream, text)                                              \
    subscribe_with((f), (stream), TEMPLATE(text), NULL)
#define subscribe_list(f, stream, name) subscribe_with((f), (stream), LIST(name), NULL)
#define subscribe_with(f, stream, target, opts)                                          \
    subscribe_at((f), (stream), (target), (opts), __FILE__, __LINE__)
void subscribe_at(struct fixture *f, tdg__stream_t stream, const tdg__target_t *target,
                  const tdg__sub_opts_t *opts, const char *file, int line);

/* As subscribe_with() with these settings, or with a filter as json_from() reads it. */
void subscribe_settings(struct fixture *f, tdg__stream_t stream, const char *uri,
                        tdg__settings_t settings);
void subscribe_filter(struct fixture *f, tdg__stream_t stream, const char *uri,
                      const char *filter);

/* Subscribe without acknowledging. Return what the engine answered. */
tdg__subscribed_t subscribe_only(struct fixture *f, tdg__stream_t stream,
                                 const tdg__target_t *target,
                                 const tdg__sub_opts_t *opts);

/* Coming back: options with a cursor of this epoch. */
tdg__sub_opts_t after(uint64_t number);

void acknowledge(struct fixture *f, tdg__stream_t stream);
void unsubscribe(struct fixture *f, tdg__stream_t stream, const char *uri);

/* Return the number of the change. `metadata` as json_from() reads it, or NULL. */
uint64_t changed(struct fixture *f, const char *uri, const char *metadata);
uint64_t deleted(struct fixture *f, const char *uri);
uint64_t list_changed(struct fixture *f, const char *list);

void configure(struct fixture *f, const tdg__target_t *target, tdg__settings_t settings);

/* The answer of a watcher that was asked with TDG_EAGAIN. */
void watch_done(struct fixture *f, const tdg__target_t *target,
                tdg__watch_result_t result, int error);

/* ---- Looking ------------------------------------------------------------ */

/* Takes the next notification of a stream; there must be one. */
#define take(f, stream) take_at((f), (stream), __FILE__, __LINE__)
tdg__note_t take_at(struct fixture *f, tdg__stream_t stream, const char *file, int line);

/* Takes the next notification: it is of this URI, with this number and merge count. */
#define expect_note(f, stream, uri, number, merged)                                      \
    expect_note_at((f), (stream), TDG__NOTE_UPDATED, (uri), (number), (merged),          \
                   __FILE__, __LINE__)
#define expect_list_note(f, stream, list, number, merged)                                \
    expect_note_at((f), (stream), TDG__NOTE_LIST, (list), (number), (merged), __FILE__,  \
                   __LINE__)
void expect_note_at(struct fixture *f, tdg__stream_t stream, tdg__note_kind_t kind,
                    const char *name, uint64_t number, uint32_t merged, const char *file,
                    int line);

/* Takes the next notification: it is assumed, of this URI, with this number. */
#define expect_assumed(f, stream, uri, number)                                           \
    expect_assumed_at((f), (stream), (uri), (number), __FILE__, __LINE__)
void expect_assumed_at(struct fixture *f, tdg__stream_t stream, const char *name,
                       uint64_t number, const char *file, int line);

/* The metadata of a change as a client gets it, as json_from() reads it. */
#define expect_metadata(change, text)                                                    \
    expect_metadata_at((change), (text), __FILE__, __LINE__)
void expect_metadata_at(const tdg__change_t *change, const char *text, const char *file,
                        int line);

/* Takes the end of the stream: for this reason, with this cursor to come back with. */
#define expect_end(f, stream, reason, number)                                            \
    expect_end_at((f), (stream), (reason), (number), __FILE__, __LINE__)
void expect_end_at(struct fixture *f, tdg__stream_t stream, int reason, uint64_t number,
                   const char *file, int line);

/* Nothing is ready, on no stream. */
#define expect_silence(f) expect_silence_at((f), __FILE__, __LINE__)
void expect_silence_at(struct fixture *f, const char *file, int line);

/* Nothing can be taken from this stream. */
#define expect_nothing(f, stream) expect_nothing_at((f), (stream), __FILE__, __LINE__)
void expect_nothing_at(struct fixture *f, tdg__stream_t stream, const char *file,
                       int line);

/* Takes all there is from all streams. Returns how many it was. */
size_t drain(struct fixture *f);

#define expect_cursor(f, stream, number)                                                 \
    expect_cursor_at((f), (stream), EPOCH, (number), __FILE__, __LINE__)
#define expect_foreign_cursor(f, stream)                                                 \
    expect_cursor_at((f), (stream), 0, 0, __FILE__, __LINE__)
void expect_cursor_at(struct fixture *f, tdg__stream_t stream, uint64_t epoch,
                      uint64_t number, const char *file, int line);

#define expect_state(f, stream, target, state)                                           \
    assert_int_equal(tdg__engine_state((f)->engine, (stream), (target)), (state))

tdg__counters_t counters(struct fixture *f);

/* Nobody is there and nothing is left: streams, subscriptions, resources, templates,
 * watchers, notifications, timers. */
#define expect_empty(f) expect_empty_at((f), __FILE__, __LINE__)
void expect_empty_at(struct fixture *f, const char *file, int line);

/* The next call-out that was recorded. */
#define expect_watch(f, target)                                                          \
    expect_call_at((f), CALL_WATCH, (target), 0, 0, true, __FILE__, __LINE__)
#define expect_unwatch(f, target)                                                        \
    expect_call_at((f), CALL_UNWATCH, (target), 0, 0, true, __FILE__, __LINE__)
#define expect_settled(f, stream, target, status)                                        \
    expect_call_at((f), CALL_SETTLED, (target), (stream), (status), true, __FILE__,      \
                   __LINE__)
#define expect_settled_not_resumed(f, stream, target)                                    \
    expect_call_at((f), CALL_SETTLED, (target), (stream), 0, false, __FILE__, __LINE__)
void expect_call_at(struct fixture *f, int what, const tdg__target_t *target,
                    tdg__stream_t stream, int status, bool resumed, const char *file,
                    int line);

/* Nothing was called that no expect_…() has looked at. */
#define expect_no_call(f) expect_no_call_at((f), __FILE__, __LINE__)
void expect_no_call_at(struct fixture *f, const char *file, int line);

/* Counts what is visited, for the functions that visit. */
bool count_visit(void *count, const tdg__sub_info_t *info);

size_t subscribers(struct fixture *f, const tdg__target_t *target,
                   bool through_templates);

#endif

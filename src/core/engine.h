/* SPDX-License-Identifier: MIT
 *
 * The engine decides which stream is notified of which change, and when. It does no I/O,
 * starts no thread and has no clock: events and the time go in; out come streams that are
 * ready, and from each the notifications to write. Several engines may live in one
 * process; drive each from one thread.
 *
 *     advance(now) ─┐                                          ┌─▶ next_ready() ─▶ take()
 *     publish(…)   ─┼─▶ filter ▶ timing ▶ rate limit ▶ pending ┤
 *     subscribe(…) ─┘                                          └─▶ next_deadline()
 *
 * All calls happen "at" the time of the last tdg__engine_advance(). After any call that
 * may have made something ready, drain:
 *
 *     for (s = tdg__engine_next_ready(e, 0); s != 0; s = tdg__engine_next_ready(e, s))
 *         while (can_write(s) && tdg__engine_take(e, s, &note) == 1)
 *             write(s, &note);
 *
 * What is not taken stays pending; later changes of the same resource merge into it. A
 * function that fails changes nothing, unless its comment says otherwise. */
#ifndef TDG_CORE_ENGINE_H
#define TDG_CORE_ENGINE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "base/parse_error.h"
#include "core/change.h"

typedef struct tdg__engine tdg__engine_t;

/* ---- Settings: timing and rate limit ------------------------------------ */

typedef enum tdg__timing_mode {
    TDG__TIMING_INHERIT,   /* whatever is said one level up */
    TDG__TIMING_IMMEDIATE, /* at once */
    TDG__TIMING_BATCH, /* the first change opens a window; one notification at its end */
    TDG__TIMING_DEBOUNCE, /* after `window_ms` without a change, at the latest
                             `longest_ms` after the first */
    TDG__TIMING_THROTTLE, /* the first at once, then at most one per window */
} tdg__timing_mode_t;

typedef struct tdg__timing {
    tdg__timing_mode_t mode;
    uint32_t window_ms;  /* 0 means immediate, whatever the mode */
    uint32_t longest_ms; /* debounce only; 0: ten windows. Counts as a window at least */
} tdg__timing_t;

enum {
    TDG__RATE_INHERIT = 0,
    TDG__RATE_OFF = -1,
    TDG__FLOOR_INHERIT = 0,
    TDG__FLOOR_OFF = -1,
    TDG__MAX_WINDOW_MS = 24 * 60 * 60 * 1000, /* of every window and rate limit */
};

/* All zero: everything is inherited. The floor holds for whatever the others say: see
 * docs/engine.md. It is not for subscriptions, where it is ignored.
 *
 * A subscription's settings beat those configured for the URI, those beat a configured
 * template that matches the URI (the one with the most literal characters, then the one
 * configured first), those beat the engine's defaults. */
typedef struct tdg__settings {
    tdg__timing_t timing;
    int32_t rate_limit_ms; /* at most one notification per this many ms and resource;
                              TDG__RATE_INHERIT, TDG__RATE_OFF */
    int32_t min_window_ms, min_rate_limit_ms; /* the operator's floor;
                                                 TDG__FLOOR_INHERIT, TDG__FLOOR_OFF */
} tdg__settings_t;

/* ---- The engine --------------------------------------------------------- */

/* A handle to a stream, never 0. A handle of a closed stream is noticed: TDG_ENOTFOUND.
 */
typedef uint64_t tdg__stream_t;

/* The outside world. Every function may be NULL. But for `settled`, none may call back
 * into the engine. Names in targets are borrowed for the call. */
typedef struct tdg__engine_calls {
    /* The first subscriber of a resource, template or list came: start watching. Returns
     * 0 (armed already), TDG_EAGAIN (tdg__engine_watch_done() follows) or an error, which
     * refuses the subscribe. NULL: nothing needs watching, every change is pushed. */
    int (*watch)(void *user, const tdg__target_t *target);

    /* The last subscriber has been gone for linger_ms: stop watching, or stop trying to.
     * Not called for a watcher that said FAILED. */
    void (*unwatch)(void *user, const tdg__target_t *target);

    /* News of a subscription whose watcher took its time. With 0, one that answered
     * TDG__SUBSCRIBING may be acknowledged; with TDG_ETIMEDOUT likewise, but its watcher
     * is not armed yet (what it may have missed is reported once it is). With another
     * error the subscription is gone: that may also come later, for one that timed out or
     * that was ARMED at once because the watcher had timed out before. Subscribing again
     * while SUBSCRIBING does not make it come twice. `resumed` as in tdg__subscribed_t.
     * May call the engine; must not destroy it. */
    void (*settled)(void *user, tdg__stream_t stream, const tdg__target_t *target,
                    int status, bool resumed);

    /* Whether a watched URI is known not to exist: then what was missed of it is a
     * deletion. Asked by catch-up, where no change of it is known. NULL: it exists. */
    bool (*absent)(void *user, const tdg__target_t *uri);

    /* Whether the owner of a stream may read a URI that one of its templates matches.
     * Asked when a change of it comes or is caught up with, unless something of it is in
     * flight or remembered, and again before it is taken. While some of a template's
     * subscribers may not, every change of the URI asks those again. NULL: yes. */
    bool (*may_read)(void *user, tdg__stream_t stream, const tdg__target_t *uri);

    /* Calls visit(arg, uri) for listed resources that match a template until it returns
     * false. For catch-up beyond the history. NULL: nothing is listed. */
    void (*list_matches)(void *user, const tdg__target_t *template_,
                         bool (*visit)(void *arg, const tdg__target_t *uri), void *arg);
} tdg__engine_calls_t;

/* What engines have together, on whatever threads: limits in all hold for the sum. All
 * zero at first; it outlives them. */
typedef struct tdg__tally {
    atomic_uint_fast64_t subscriptions;
    atomic_uint_fast64_t bytes;
} tdg__tally_t;

/* 0 in any field takes the default in brackets. */
typedef struct tdg__engine_opts {
    tdg__engine_calls_t calls;
    void *user; /* handed to every call as it is */

    tdg__settings_t defaults; /* [batch of 100 ms, rate limit 1,000 ms] */

    uint64_t epoch;        /* names the numbering; [random] */
    uint64_t first_number; /* of the first change, below 2^62; [1] */
    bool shared_numbers;   /* several engines share one numbering: changes come stamped,
                              through tdg__engine_apply() only */
    uint8_t hash_key[16];  /* against chosen keys; all zero: [random] */

    uint32_t linger_ms;        /* from the last subscriber to unwatch; [5,000];
                                  TDG__NO_LINGER for none */
    uint32_t watch_timeout_ms; /* for a watcher to arm; [10,000] */
    uint32_t max_lingering;    /* watchers of URIs, and as many of templates, that linger;
                                  [256]; beyond it the oldest stops at once */

    uint32_t max_streams;       /* [1,000,000] TDG_ESTREAMS */
    uint32_t max_subscriptions; /* per stream, templates included [10,000]
                                   TDG_ESUBSCRIPTIONS */
    uint32_t max_templates;     /* per stream [100] TDG_ETEMPLATES. One change may concern
                                   all of them, and they are compared with each other */
    uint32_t max_total;         /* subscriptions in all [10,000,000] TDG_ETOTAL */
    uint32_t max_total_bytes;   /* of the names that are subscribed to and of the filters,
                                   each counted once per engine [no limit]
                                   TDG_ETOTAL */
    tdg__tally_t *tally;        /* that both are counted in, borrowed; [its own] */
    uint32_t max_name_bytes;    /* of a URI or template [4,096], at most 8,192 (more is
                                   TDG_EINVAL: templates could not match it)
                                   TDG_EURILEN */
    uint32_t max_metadata_bytes; /* of one change [16,384] TDG_EMETADATA */
    uint32_t max_filter_bytes;   /* [4,096] TDG_EFILTERSIZE */
    uint32_t max_filter_depth;   /* [8] TDG_EFILTERDEPTH */
    uint32_t max_pending;        /* URIs that wait on one stream through templates
                                    [10,000]; beyond it the stream ends with
                                    TDG_EPENDING. As many rate-limit windows of such
                                    URIs are remembered; beyond, the limit is not
                                    kept for them */
    uint32_t history;            /* recent changes remembered for catch-up [16,384] */
    uint32_t max_listed;         /* listed matches reported per template when the
                                    history does not reach back [1,000] */
} tdg__engine_opts_t;

#define TDG__NO_LINGER UINT32_MAX

/* Stores a new, empty engine in *ret; `opts` is copied, NULL is all defaults. Returns 0,
 * TDG_EINVAL (settings that make no sense), TDG_ENOMEM or TDG_ESYSTEM (no randomness). */
int tdg__engine_create(const tdg__engine_opts_t *opts, tdg__engine_t **ret);

/* Drops everything without delivering; calls unwatch for what is watched. NULL is
 * accepted. */
void tdg__engine_destroy(tdg__engine_t *engine);

/* Moves the time on and does what became due. `mono_ms` counts from 0 or more and never
 * steps (a smaller value than before counts as the same time); `wall_ms` is the time of
 * day, used for `updated_at` and `age_ms` only. Call it once per turn of the loop, before
 * the other calls. */
void tdg__engine_advance(tdg__engine_t *engine, int64_t mono_ms, int64_t wall_ms);

/* When to call advance again at the latest; INT64_MAX: no need. */
int64_t tdg__engine_next_deadline(const tdg__engine_t *engine);

/* Ends every window and every rate limit that runs: what waits for one of them can be
 * taken now. For the end of a server, which writes what it knows before it goes. Goes
 * through all groups of subscriptions; changes that come later wait as ever. */
void tdg__engine_end_windows(tdg__engine_t *engine);

/* ---- Cursor ------------------------------------------------------------- */

/* Where a stream is: everything at or below `number` that concerns it has been taken. */
typedef struct tdg__cursor {
    uint64_t epoch;
    uint64_t number;
} tdg__cursor_t;

/* The older of two; of two numberings, one that is older than everything. */
static inline tdg__cursor_t tdg__cursor_lower(tdg__cursor_t a, tdg__cursor_t b) {
    if (a.epoch != b.epoch)
        return (tdg__cursor_t){0, 0};
    return a.number < b.number ? a : b;
}

/* ---- Streams ------------------------------------------------------------ */

/* Opens a stream without subscriptions. `user` is the caller's, see
 * tdg__engine_stream_user(). Returns 0, TDG_ESTREAMS or TDG_ENOMEM. */
int tdg__engine_open(tdg__engine_t *engine, void *user, tdg__stream_t *ret);

/* Forgets the stream and all that it had, whatever its state, in time proportional to its
 * own subscriptions. A handle that is not open is ignored. */
void tdg__engine_close(tdg__engine_t *engine, tdg__stream_t stream);

/* Ends a stream the graceful way: its subscriptions go, what was pending goes, and the
 * one thing left to take is a note of kind TDG__NOTE_END with `reason` and the cursor to
 * resume from. Ending twice keeps the first reason. Returns 0 or TDG_ENOTFOUND. */
int tdg__engine_end(tdg__engine_t *engine, tdg__stream_t stream, int reason);

/* Whether a stream has ended: it is open only for the note that says so. */
bool tdg__engine_has_ended(const tdg__engine_t *engine, tdg__stream_t stream);

/* NULL for a handle that is not open. */
void *tdg__engine_stream_user(const tdg__engine_t *engine, tdg__stream_t stream);

/* The stream's cursor now. It may step back when a subscribe brings an older one, and by
 * tdg__engine_rewind(). Returns 0 or TDG_ENOTFOUND. */
int tdg__engine_cursor(const tdg__engine_t *engine, tdg__stream_t stream,
                       tdg__cursor_t *ret);

/* ---- Subscriptions ------------------------------------------------------ */

typedef enum tdg__sub_state {
    TDG__NOT_SUBSCRIBED,
    TDG__SUBSCRIBING, /* its watcher is being armed */
    TDG__ARMED,       /* may be acknowledged; changes are kept until it is */
    TDG__SUBSCRIBED,  /* acknowledged */
} tdg__sub_state_t;

enum { TDG__PRIORITY_LOW = -1, TDG__PRIORITY_NORMAL = 0, TDG__PRIORITY_HIGH = 1 };

/* A filter that is parsed once for any number of subscribes; counted. */
typedef struct tdg__shared_filter tdg__shared_filter_t;

/* Stores a reference to the filter of this JSON (borrowed) in *ret; NULL for one that
 * passes everything (NULL or {}), and on failure. Filters of the same text are one. It
 * counts in max_total_bytes while somebody holds it. Returns 0, TDG_EFILTER… (see *error,
 * which may be NULL), TDG_ETOTAL or TDG_ENOMEM. */
int tdg__engine_filter_get(tdg__engine_t *engine, const json_t *json,
                           tdg__parse_error_t *error, tdg__shared_filter_t **ret);

/* Gives the reference back, before the engine is destroyed. NULL is accepted. */
void tdg__engine_filter_unref(tdg__engine_t *engine, tdg__shared_filter_t *filter);

/* All zero, or NULL: no wishes. Lists take no filter, not even {} (TDG_EINVAL). */
typedef struct tdg__sub_opts {
    tdg__settings_t settings;
    const json_t *filter;         /* borrowed; NULL or {} passes everything */
    tdg__shared_filter_t *shared; /* borrowed: in the place of `filter`; may be NULL */
    int priority;                 /* what of the stream's own is taken first */
    bool has_cursor;              /* report what changed after `cursor` */
    tdg__cursor_t cursor;
    int64_t since_ms; /* without a cursor: report what changed in the last so many
                         ms, as far as the history reaches; 0: nothing */
    tdg__parse_error_t *error; /* where a template or filter is wrong; may be NULL */
} tdg__sub_opts_t;

typedef struct tdg__subscribed {
    tdg__sub_state_t state; /* SUBSCRIBING: `settled` follows. ARMED: acknowledge it now.
                               SUBSCRIBED: it was there before, with other wishes maybe */
    bool resumed; /* false: a cursor was given, and what was missed is not known: a URI
                     or list counts as changed, and what a template missed may not be
                     named completely. Final only unless SUBSCRIBING */
} tdg__subscribed_t;

/* Subscribes a stream to a target. Where it is subscribed already, the new wishes replace
 * the old ones and nothing pending is lost; a cursor or since_ms counts as in a first
 * subscribe, whatever was notified meanwhile. Without memory for that, some of what was
 * missed may be in flight, and subscribing again does the rest. *ret may be NULL.
 * Returns 0; TDG_ENOTFOUND, TDG_EENDED (stream); TDG_EINVAL (empty name, unknown list,
 * settings, priority or since_ms out of range); TDG_ETEMPLATE, TDG_EAMBIGUOUS,
 * TDG_EFILTER… (see opts->error); a limit's error; TDG_ENOMEM; or what `watch` refused
 * with. Where memory runs out after a watcher was started for it, that watcher lingers,
 * and its number is used. */
int tdg__engine_subscribe(tdg__engine_t *engine, tdg__stream_t stream,
                          const tdg__target_t *target, const tdg__sub_opts_t *opts,
                          tdg__subscribed_t *ret);

/* Say that the acknowledgement of an ARMED subscription has been written: from now on its
 * notifications may be taken, those kept so far at once. With `target` NULL, of all ARMED
 * subscriptions of the stream. Returns 0; TDG_ENOTFOUND; TDG_EAGAIN where it is still
 * SUBSCRIBING. Acknowledging twice is fine. */
int tdg__engine_acknowledge(tdg__engine_t *engine, tdg__stream_t stream,
                            const tdg__target_t *target);

/* Ends a subscription, whatever its state, together with what it had pending, before it
 * returns: the state UNSUBSCRIBING of the protocol lasts from here until the caller has
 * written its answer, and nothing can be taken for it meanwhile. What another
 * subscription of the stream (a template, say) has pending on the same URI stays. Returns
 * 0, or TDG_ENOTFOUND where there is no such stream or subscription. */
int tdg__engine_unsubscribe(tdg__engine_t *engine, tdg__stream_t stream,
                            const tdg__target_t *target);

/* Rewinds a stream to a cursor that it had: what was taken after that counts as not
 * taken, and waits to be taken again as after a subscribe with a cursor, without filter,
 * window or limit. What waits already waits on. Each subscription goes back no further
 * than to where it began, or to what it caught up from then; so do those that are not
 * acknowledged yet. With a cursor of another epoch everything counts as changed.
 * *ret_complete is false where what a template was notified of cannot all be named again:
 * the history has dropped it, or max_pending is reached. Returns 0, TDG_ENOTFOUND,
 * TDG_EENDED or TDG_ENOMEM: then some of it waits already, nothing is lost that was not
 * lost before, and calling again does the rest. */
int tdg__engine_rewind(tdg__engine_t *engine, tdg__stream_t stream, tdg__cursor_t cursor,
                       bool *ret_complete);

/* ---- Watchers ----------------------------------------------------------- */

typedef enum tdg__watch_result {
    TDG__WATCH_ARMED,     /* changes from now on are seen; this takes a number */
    TDG__WATCH_UNCHANGED, /* and the content is what it was when last watched (a checksum
                             proves it), so nothing was missed in between */
    TDG__WATCH_FAILED,    /* it cannot be watched: its subscriptions end with `error` */
} tdg__watch_result_t;

/* The answer to a `watch` that returned TDG_EAGAIN; `error` (negative) for FAILED only.
 * An answer that nobody waits for is ignored. Returns 0, TDG_EINVAL or TDG_ENOMEM (call
 * again). */
int tdg__engine_watch_done(tdg__engine_t *engine, const tdg__target_t *target,
                           tdg__watch_result_t result, int error);

/* ---- Changes ------------------------------------------------------------ */

/* A resource changed or was deleted, or a list changed. `metadata` is an object, or NULL
 * for none, as it is for a list; a reference is taken, and nobody may modify it from now
 * on. The number given to the change goes to *ret_number (may be NULL). Returns 0,
 * TDG_EINVAL, TDG_EURILEN, TDG_EMETADATA, TDG_ENOMEM or TDG_ENOTSUP (shared_numbers). On
 * failure the change did not happen: no number is used up, nobody is notified. */
int tdg__engine_publish(tdg__engine_t *engine, const tdg__target_t *target,
                        json_t *metadata, bool deleted, uint64_t *ret_number);

/* A change that was stamped elsewhere, so that several engines share one numbering. Takes
 * its own reference. Returns 0, TDG_EORDER (its number is not above the last one),
 * TDG_EINVAL (not stamped), TDG_EURILEN or TDG_ENOMEM. */
int tdg__engine_apply(tdg__engine_t *engine, tdg__change_t *change);

/* The same for a change that also stands for earlier ones of its resource, which no
 * filter has seen: every filter lets it pass, as one of those might have passed. */
int tdg__engine_apply_unfiltered(tdg__engine_t *engine, tdg__change_t *change);

/* For shared_numbers: the numbering stands at `number`, and every change at or below it
 * has been applied here. The last number moves on to it, and with it the cursors of
 * streams that have nothing in flight. Arming takes a number, so before
 * tdg__engine_watch_done() with ARMED take one from the numbering, apply what is below
 * it, and say so here (therefore `watch` should answer TDG_EAGAIN). Without that, a
 * client that resumes before the next change is notified once too often. A number that is
 * not above the last one is ignored. */
void tdg__engine_reach(tdg__engine_t *engine, uint64_t number);

/* The same for an answer with ARMED that follows, where the watcher has been armed since
 * `number` already, because another engine wanted it first: a cursor from there on counts
 * as known. Everything since that number must have been applied here. */
void tdg__engine_armed_at(tdg__engine_t *engine, uint64_t number);

/* ---- Delivery ----------------------------------------------------------- */

typedef enum tdg__note_kind {
    TDG__NOTE_UPDATED, /* a resource changed, or is deleted: see change->deleted */
    TDG__NOTE_LIST,    /* a list changed: change->name */
    TDG__NOTE_END,     /* the stream is over; close it */
} tdg__note_kind_t;

typedef struct tdg__note {
    tdg__note_kind_t kind;
    tdg__change_t *change; /* the newest one; borrowed until the next call into the
                              engine, take a reference to keep it; NULL for END */
    uint32_t merged;       /* earlier changes that this notification stands for as well */
    int reason;            /* END: why */
    tdg__cursor_t cursor;  /* of the stream, this notification included */
} tdg__note_t;

/* Walks the streams that have something to take and are not blocked, in an order that
 * does not change: start with 0, then give what was returned last (it may be closed by
 * then). Returns 0 at the end. A right that went meanwhile may leave nothing to take. */
tdg__stream_t tdg__engine_next_ready(const tdg__engine_t *engine, tdg__stream_t after);

/* Takes the next notification: by priority, then by the time it became ready. Returns 1
 * and fills *ret; 0 when there is nothing; TDG_ENOTFOUND. */
int tdg__engine_take(tdg__engine_t *engine, tdg__stream_t stream, tdg__note_t *ret);

/* Whether a stream has a notification that can be taken, blocked or not; or its end. */
bool tdg__engine_has_note(const tdg__engine_t *engine, tdg__stream_t stream);

/* What is taken from now on is taken at this time, where that is later than the last
 * advance: a caller that is held up between an advance and a write says so here, so that
 * rate limits are measured from the write. */
void tdg__engine_set_taking_time(tdg__engine_t *engine, int64_t mono_ms);

/* A stream that cannot be written to now can be taken out of next_ready() until it is
 * unblocked. Returns 0 or TDG_ENOTFOUND. */
int tdg__engine_block(tdg__engine_t *engine, tdg__stream_t stream, bool blocked);

/* ---- Settings while running --------------------------------------------- */

/* Sets the defaults of the engine. Fields that inherit take the built-in default. Returns
 * 0 or TDG_EINVAL. */
int tdg__engine_set_defaults(tdg__engine_t *engine, const tdg__settings_t *settings);

/* Sets what holds for a URI or for every URI that a template matches; all zero removes
 * it. Windows that run are measured anew. Returns 0, TDG_EINVAL, TDG_EURILEN,
 * TDG_ETEMPLATE, TDG_EAMBIGUOUS or TDG_ENOMEM. */
int tdg__engine_configure(tdg__engine_t *engine, const tdg__target_t *target,
                          const tdg__settings_t *settings);

/* What is configured for exactly this target; all zero: nothing. */
tdg__settings_t tdg__engine_configured(const tdg__engine_t *engine,
                                       const tdg__target_t *target);

/* Configures every target as in another engine. Returns 0, or as configure: then some are
 * configured. */
int tdg__engine_configure_as(tdg__engine_t *engine, const tdg__engine_t *other);

/* ---- Introspection ------------------------------------------------------ */

tdg__sub_state_t tdg__engine_state(const tdg__engine_t *engine, tdg__stream_t stream,
                                   const tdg__target_t *target);

typedef struct tdg__sub_info {
    tdg__stream_t stream;
    tdg__target_t target; /* what was subscribed to; names and texts in here are borrowed
                             until the next call that changes the engine */
    tdg__sub_state_t state;
    tdg__settings_t settings; /* as wished */
    const char *filter;       /* canonical text; NULL: none */
    int priority;
    bool pending; /* something waits to be taken, or for its time */
} tdg__sub_info_t;

/* Returns false to stop. Must not change the engine. */
typedef bool (*tdg__sub_visit_fn)(void *arg, const tdg__sub_info_t *info);

/* Visits the subscriptions to exactly this target; for a URI with `through_templates`
 * also the template subscriptions that match it. A stream may come up more than once
 * then. Returns false where it gave up because that takes more than `max_steps`
 * (SIZE_MAX: as many as it takes): some may have been visited; tdg__engine_page() finds
 * all of them bit by bit. */
bool tdg__engine_each_subscriber(tdg__engine_t *engine, const tdg__target_t *target,
                                 bool through_templates, size_t max_steps,
                                 tdg__sub_visit_fn visit, void *arg);

/* How many subscriptions the same with `through_templates` would visit, by the groups
 * that they form rather than one by one. */
uint64_t tdg__engine_count_subscribers(tdg__engine_t *engine,
                                       const tdg__target_t *target);

/* Visits the subscriptions of a stream. Returns 0 or TDG_ENOTFOUND. */
int tdg__engine_each_subscription(tdg__engine_t *engine, tdg__stream_t stream,
                                  tdg__sub_visit_fn visit, void *arg);

/* All subscriptions, or those that each_subscriber() would visit, page by page: looks at
 * `max` records from *position on (start with 0), fills `page` with those of them that
 * are meant, and moves *position, to 0 after the last one. Returns how many there are on
 * this page: perhaps none, though more follow. `target` NULL: all. What is subscribed
 * throughout appears exactly once, whatever happens between the calls. */
size_t tdg__engine_page(tdg__engine_t *engine, uint32_t *position,
                        const tdg__target_t *target, bool through_templates,
                        tdg__sub_info_t *page, size_t max);

typedef struct tdg__counters {
    /* now */
    uint64_t streams;
    uint64_t subscriptions; /* lists and templates included */
    uint64_t resources;     /* with a subscriber, watched, or remembered for catch-up */
    uint64_t templates;     /* with a subscriber */
    uint64_t watchers;      /* arming, armed or lingering */
    uint64_t pending;       /* in flight: what waits for a window, a limit, an
                               acknowledgement or to be taken, per subscription and URI */
    /* since the start */
    uint64_t changes;
    uint64_t delivered;    /* notifications taken */
    uint64_t merged;       /* changes that left merged into a later one, per stream */
    uint64_t filtered;     /* changes that a filter kept away, per subscription */
    uint64_t rate_limited; /* notifications that a rate limit delayed */
    uint64_t ended;        /* streams ended for TDG_EPENDING */
    uint64_t last_number;
    uint64_t epoch;
} tdg__counters_t;

void tdg__engine_counters(const tdg__engine_t *engine, tdg__counters_t *ret);

/* What the engine holds in bytes, for the benchmark: `subscriptions` is their records and
 * their share of the indexes; URI text, streams and resources apart. Parsed templates and
 * their index, filters and configured settings are not counted. */
typedef struct tdg__memory {
    size_t subscriptions;
    size_t streams;
    size_t resources; /* with groups, watchers and timers */
    size_t names;     /* those that do not fit into the record of their resource */
    size_t history;
} tdg__memory_t;

void tdg__engine_memory(const tdg__engine_t *engine, tdg__memory_t *ret);

#endif

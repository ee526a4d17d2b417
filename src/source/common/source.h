/* SPDX-License-Identifier: MIT
 *
 * A source serves something outside of the server (files, rows, a URL, the output of a
 * program) as resources that change. Each kind is one file and one table of functions;
 * the common part is written once, for every URI that is watched or read:
 *
 *     kind: something may have changed ──▶ touch(uri) ─┐
 *     client: resources/read ──────────▶ read(uri) ────┼─▶ fetch ──▶ checksum ─▶ differs:
 *     the backend is reachable again ──▶ touch_all() ──┘     │                   publish
 *                                                            └──▶ readers answered
 *
 * A touch during a fetch causes another fetch afterwards, so the last state is always
 * seen; a read waits for a fetch that began after the read arrived. Unchanged content is
 * not published. A kind with pushed content (webhook, memory) has no fetch and calls
 * put() instead.
 *
 * Everything here happens on the thread of one loop, the host's. A kind must never block
 * it: what may take long goes to libuv's thread pool or is asynchronous by itself. */
#ifndef TDG_SOURCE_SOURCE_H
#define TDG_SOURCE_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>
#include <uv.h>

#include <tidings/server.h> /* tdg_log_level_t, tdg_settings_t: types only */

#include "base/buf.h"
#include "base/target.h"
#include "base/template.h"
#include "config/option.h"
#include "config/timing.h"
#include "source/common/records.h"
#include "source/common/stale.h"

typedef struct tdg__source tdg__source_t;
typedef struct tdg__source_kind tdg__source_kind_t;
typedef struct tdg__fetch tdg__fetch_t;
typedef struct tdg__item tdg__item_t; /* item.c: a URI that is watched or being read */

/* ---- Content ------------------------------------------------------------ */

/* What a URI holds now, or why that is unknown. */
typedef struct tdg__content {
    int status; /* 0; TDG_ENOTFOUND: it does not exist (any more); TDG_ETOOLARGE: it
                   exceeds max-size; TDG_EUNREACHABLE: the backend is unreachable, retry;
                   TDG_EINVAL: no retry helps (the query is wrong, for example) */
    const char *error;  /* where status is not 0: one line for the log, which may name
                           paths, addresses and what others wrote; borrowed */
    const char *public; /* the same for clients, without any of that; NULL: a sentence for
                           `status`; borrowed */
    const void *data;   /* borrowed */
    size_t len;
    const char *mime_type; /* NULL: what the source's entry says, or text/plain where the
                              content is UTF-8, or application/octet-stream */
    json_t *metadata;   /* fields of the kind's own, such as "etag"; stolen; may be NULL.
                           size, checksum, updated_at and change_type are filled in */
    int64_t updated_ms; /* wall clock; 0: now */
    bool passing; /* it is being changed right now: reads get this, subscribers are not
                     notified; the kind touches it when that is over */

    /* Filled in for readers only: the counted buffer of `data`, where it has one; the
     * checksum, where it is known already. */
    tdg__buf_t *bytes;
    const char *checksum;
} tdg__content_t;

/* What a client may know of an error. */
const char *tdg__content_public(const tdg__content_t *content);

/* ---- The host of sources ------------------------------------------------ */

/* What a source lists. Names are borrowed for the call. */
typedef struct tdg__listed {
    const char *uri, *name, *title, *description, *mime_type;
    uint64_t size;       /* 0: not said */
    int64_t modified_ms; /* wall clock, becomes annotations.lastModified; 0: not said */
} tdg__listed_t;

typedef struct tdg__source_host_ops {
    /* Publishes that the content of a URI differs from what was published last; that it
     * was deleted. `metadata` is complete; stolen. Return 0, or a code where subscribers
     * could not be notified: this is retried, or for pushed content, returned to the
     * publisher. */
    int (*changed)(void *user, tdg__source_t *source, const char *uri, json_t *metadata);
    int (*deleted)(void *user, tdg__source_t *source, const char *uri, json_t *metadata);

    /* Lists a resource, or corrects what the list has of it, which is not published;
     * takes it from the list, and publishes that it was deleted unless that is
     * `published`. A URI that another source has (by an earlier template or an entry of
     * its own) is left alone. Returns 0 or a negative code. After TDG_EAGAIN or
     * TDG_ENOMEM of unlist(), subscribers could not be notified: the resource is still in
     * the list, and the source tries again. The uri of an entry itself (a resource or a
     * template) is listed by the host, not through this. */
    int (*list)(void *user, tdg__source_t *source, const tdg__listed_t *listed);
    int (*unlist)(void *user, tdg__source_t *source, const char *uri, bool published);

    /* Its first list is complete. Called once, also for a source that lists nothing, and
     * not before the backend has answered or was found to be unreachable. */
    void (*ready)(void *user, tdg__source_t *source);

    /* The answer to a tdg__source_watch() that returned TDG_EAGAIN: a negative code, 0,
     * or TDG_WATCH_EXISTS or TDG_WATCH_ABSENT for a URI that was looked at. */
    void (*watched)(void *user, tdg__source_t *source, const tdg_target_t *target,
                    int status);

    /* tdg__source_close() is complete: the source can be freed. */
    void (*closed)(void *user, tdg__source_t *source);

    void (*log)(void *user, tdg__source_t *source, tdg_log_level_t level,
                const char *message);
} tdg__source_host_ops_t;

typedef struct tdg__source_host {
    const tdg__source_host_ops_t *ops;
    void *user;
    uv_loop_t *loop;
    struct tdg__heavy *heavy; /* for work on large content (heavy.h); NULL: at once */
    tdg__stale_t *stale; /* outlives the source; NULL: the source has one of its own */
} tdg__source_host_t;

/* ---- A kind of source --------------------------------------------------- */

enum {
    TDG__SOURCE_LISTS = 1 << 0,   /* its list changes by itself, and is watched too */
    TDG__SOURCE_NO_URI = 1 << 1,  /* makes its URIs itself; `uri` is not required */
    TDG__SOURCE_PUSHED = 1 << 2,  /* no fetch: content comes through tdg__source_put() */
    TDG__SOURCE_PUBLISH = 1 << 3, /* anybody with the publish key may put content */
};

enum { TDG__COMPLETIONS = 100 }; /* as many as the protocol allows in one answer */

struct tdg__source_kind {
    const char *name;             /* its key in the config: "files" */
    const char *help;             /* one or two plain sentences for the reference */
    const tdg__option_t *options; /* its own; the first row is the one named as the kind,
                                     the entry's main value: a path, a URL, a program */
    const char *uri_example;      /* for `tidings init`; NULL: any will do, or none */
    unsigned flags;
    size_t size; /* of its record, which begins with a tdg__source_t */

    /* After the options were read: what a table cannot say. Adds problems at the places
     * of `node`; returns 0 or TDG_EINVAL or TDG_ENOMEM. No I/O. May be NULL. */
    int (*check)(tdg__source_t *source, const tdg__node_t *node,
                 tdg__problems_t *problems);

    /* Begins: connects, walks a folder, ... An unreachable backend is no failure: it is
     * retried. Returns 0, or a code where the source cannot work at all (already logged).
     * May be NULL. */
    int (*open)(tdg__source_t *source);

    /* Ends everything: no touch, list or put afterwards. The source is closed once
     * nothing holds it (tdg__source_hold()) and the last fetch is done. May be NULL:
     * there is nothing to end. */
    void (*close)(tdg__source_t *source);

    /* Starts watching a target: a URI of ours, our template, or the list of resources
     * (LISTS). Returns 0: from now on changes are noticed. TDG_EAGAIN:
     * tdg__source_armed() or one of its kind follows. Another code refuses: the target is
     * not watched, and may be watched again later, but not after TDG_ENOTSUP. Where the
     * backend is unreachable, watching begins all the same, and the reconnect touches
     * everything. Each target is watched once; which of them are is known to
     * tdg__source_is_watched() and its kind. May be NULL: changes are noticed anyway. */
    int (*watch)(tdg__source_t *source, const tdg_target_t *target);
    void (*unwatch)(tdg__source_t *source, const tdg_target_t *target);

    /* Whether a URI that entry.uri stands for is really one of ours; NULL: yes. */
    bool (*owns)(tdg__source_t *source, const char *uri);

    /* Finds what the URI holds: ends with tdg__fetch_done(), at once or later. Not for
     * TDG__SOURCE_PUSHED. */
    void (*fetch)(tdg__source_t *source, tdg__fetch_t *fetch);

    /* The time is over, or the source closes: tdg__fetch_done() must follow soon. May be
     * NULL where every fetch ends in time by itself. */
    void (*cancel)(tdg__source_t *source, tdg__fetch_t *fetch);

    /* Takes over what another source of this kind and URI or template knows, after open()
     * and before that one closes. What one with a template listed is this one's from now
     * on, to correct and to unlist. Returns whether the first look will be compared with
     * it; else all that the other one knew is looked at. May be NULL: there is nothing to
     * know beside the items. */
    bool (*inherit)(tdg__source_t *source, tdg__source_t *from);

    /* Some of its URIs were another source's so far: lists all that it has once more. May
     * be NULL: it lists nothing by itself, or what is pushed. */
    void (*list_again)(tdg__source_t *source);

    /* Visits the URIs that exist as far as it knows and that it does not list; for a
     * source of another kind that takes its place. May be NULL: none. */
    void (*each)(const tdg__source_t *source, void (*visit)(void *arg, const char *uri),
                 void *arg);

    /* What a variable of the template may stand for, where it begins with `value`: puts
     * at most TDG__COMPLETIONS texts into the array `values`, in order, and stores how
     * many there are in all. Returns 0 or TDG_ENOMEM. NULL: nothing is suggested. */
    int (*complete)(tdg__source_t *source, const char *variable, const char *value,
                    json_t *values, size_t *ret_total);

    void (*free)(tdg__source_t *source); /* what the options did not allocate; may be
                                            NULL */
};

/* All kinds, in the order of the reference; NULL ends. (kinds.c) */
extern const tdg__source_kind_t *const tdg__source_kinds[];

/* The same as sections of a config; the last has no name. Borrowed; not for several
 * threads at a time. */
const tdg__section_t *tdg__source_sections(void);

/* ---- A source ----------------------------------------------------------- */

/* Options of every kind; the table is tdg__source_options. */
typedef struct tdg__source_entry {
    char *uri; /* a URI or a template; NULL only where the kind makes its own */
    char *name, *title, *description, *mime_type;
    bool subscribable;
    int64_t max_size;               /* of content; more is TDG_ETOOLARGE */
    int64_t timeout_ms;             /* of one fetch */
    int64_t retry_ms, retry_max_ms; /* the first wait for a backend, and the longest */
    int mode;                       /* tdg_timing_mode_t */
    tdg__timing_options_t timing;
} tdg__source_entry_t;

extern const tdg__option_t tdg__source_options[];

/* A row of a table of options, with what else there is to say of it as .member = value.
 * The file says AT(field): where the record has a field. */
#define TDG__OPTION(type_, field, name_, ...)                                            \
    { .name = (name_), .type = TDG__OPTION_##type_, .offset = AT(field), __VA_ARGS__ }

/* When its subscribers are notified. */
tdg_settings_t tdg__source_settings(const tdg__source_t *source);

struct tdg__source {
    const tdg__source_kind_t *kind;
    tdg__source_entry_t entry;
    const char *label; /* "files /srv/docs": for logs and lists; owned */
    tdg__source_host_t host;
    tdg__template_t *template_; /* of entry.uri, where that is one; else NULL */
    char *config_path; /* absolute path of a file that must not be served, by whatever
                          name: the config itself; NULL: none. Set before opening;
                          owned */
    struct tdg__items *items;     /* item.c's */
    int64_t max_items, max_total; /* of what is pushed; the kind sets them; 0: no limit */
    unsigned max_fetches; /* at a time, where fewer than usual; the kind sets it; 0: no */
    bool logged_inotify;  /* path_watch.c: the log has why inotify does not work */
    bool awaited; /* content comes some time after the first subscriber: none yet does not
                     mean that it does not exist; the kind sets it */
    unsigned holds; /* what has to end before it is closed */
    bool closing;
    bool ready;
    bool compares;  /* subscribers of its template know what another source had: what its
                       first look finds is published where it differs from that */
    bool inherited; /* the kind compares with what it has inherited */
    bool has_read;  /* content of something */
    bool away;      /* the backend is unreachable */
    bool missing;   /* likewise, and it was never reachable */
    int64_t away_since_ms; /* wall clock */
    char *away_why;
    uint64_t logged_since_ms;    /* of the loop: from when messages are counted */
    unsigned logged, not_logged; /* since then */
    uint64_t detail_ms;          /* of the loop: when an error of a read was logged */
    uint32_t detail_hash;        /* which one */
};

/* Creates a source from one entry of the config. Adds what is wrong to `problems`.
 * Nothing runs yet. Returns 0, TDG_EINVAL or TDG_ENOMEM. */
int tdg__source_create(const tdg__node_t *entry, tdg__problems_t *problems,
                       tdg__source_t **ret);

/* The same for a kind that need not be in the table. */
int tdg__source_create_kind(const tdg__source_kind_t *kind, const tdg__node_t *entry,
                            tdg__problems_t *problems, tdg__source_t **ret);

/* Whether what stands after the kind, or what makes the URI of the entry, holds a
 * variable that is not set (only where `problems` allows that): it cannot be compared
 * with others.
 */
bool tdg__source_main_is_unset(const tdg__source_t *source, const tdg__node_t *entry,
                               const tdg__problems_t *problems);
bool tdg__source_uri_is_unset(const tdg__source_t *source, const tdg__node_t *entry,
                              const tdg__problems_t *problems);

void tdg__source_destroy(
    tdg__source_t *source); /* closed, or never opened; NULL is fine */

/* Begins. Returns 0, or a code where the source cannot work (which it has logged). In any
 * case it must be closed from now on. */
int tdg__source_open(tdg__source_t *source, const tdg__source_host_t *host);
void tdg__source_close(
    tdg__source_t *source); /* ops->closed() follows, never from inside */

/* Whether the source has (or would have) this URI; with template variables where its
 * entry is a template. */
bool tdg__source_owns(tdg__source_t *source, const char *uri);

/* The source that watched a target until a reload. */
typedef struct tdg__past {
    tdg__source_t *source; /* NULL: none had it, so it did not exist */
    bool unknown;          /* it is not known which: whatever is found is published */
} tdg__past_t;

/* Begins and ends watching a target. ops->watched() follows a start that returned
 * TDG_EAGAIN. The first watch of a URI fetches it, so that a later change differs from
 * it. `past` is not NULL where there were subscribers before: what differs from what that
 * source reported is published. */
int tdg__source_watch(tdg__source_t *source, const tdg_target_t *target,
                      const tdg__past_t *past);
void tdg__source_unwatch(tdg__source_t *source, const tdg_target_t *target);

/* The checksum of a URI that was seen last, "sha256:…"; NULL: none yet. Borrowed. */
const char *tdg__source_checksum(tdg__source_t *source, const char *uri);

/* Reads a URI for a client: any number but 0, the same for all that it asks; clients take
 * turns where not everything can be fetched at once. 0: for no client. `done` is called
 * once, at once or later; the content is borrowed, its metadata complete (with "stale",
 * "stale_since", "stale_reason" where the backend is unreachable and this is the last
 * known content). `has_left` may be NULL: it returns whether the reader needs no answer
 * any more, and is called when the turn of the read comes. Nothing is fetched for readers
 * that have left; the status is TDG_EENDED. */
typedef void (*tdg__read_done_fn)(void *arg, const tdg__content_t *content);
typedef bool (*tdg__read_has_left_fn)(const void *arg);
void tdg__source_read(tdg__source_t *source, const char *uri, uint64_t client,
                      tdg__read_done_fn done, tdg__read_has_left_fn has_left, void *arg);

/* ---- For the kinds ------------------------------------------------------ */

/* Something may have changed: fetches the URI if it is watched, by itself or through the
 * template; everything that is watched. */
void tdg__source_touch(tdg__source_t *source, const char *uri);
void tdg__source_touch_all(tdg__source_t *source);

/* Whether anything is watched; whether the template is, or still waits for the kind to be
 * ready. While watch() and unwatch() run, the answer is that of afterwards. */
bool tdg__source_is_watched(const tdg__source_t *source);
bool tdg__source_template_is_watched(const tdg__source_t *source);
bool tdg__source_awaits_template(const tdg__source_t *source);

/* Answers watch() where that has returned TDG_EAGAIN: for all targets; for all URIs; for
 * one target, with 0 or why it cannot be watched. */
void tdg__source_armed(tdg__source_t *source);
void tdg__source_uris_armed(tdg__source_t *source);
void tdg__source_watched(tdg__source_t *source, const tdg_target_t *target, int status);

/* Touches a URI that did not exist when the kind looked last: where nothing else is known
 * of it, it is published as created. */
void tdg__source_came(tdg__source_t *source, const char *uri);

/* What the URI holds now, with status 0 or TDG_ENOTFOUND: it is kept for reads (kinds
 * that are PUSHED; within max-size), and published if it differs, or `always`. Returns as
 * tdg__source_prepare(), or why subscribers could not be notified. */
int tdg__source_put(tdg__source_t *source, const char *uri, const tdg__content_t *content,
                    bool always);

/* The same in two steps, for a caller that stores several at once and publishes by
 * itself. Preparing returns 0, TDG_ETOOLARGE, TDG_ETOTAL (max_items or
 * max_total of the source), TDG_EENDED or TDG_ENOMEM, and stores a new one in *ret, which
 * is to be committed or abandoned before the loop goes on. The metadata is complete;
 * borrowed; NULL for what is gone. */
typedef struct tdg__prepared tdg__prepared_t;
int tdg__source_prepare(tdg__source_t *source, const char *uri,
                        const tdg__content_t *content, tdg__prepared_t **ret);
const json_t *tdg__prepared_metadata(const tdg__prepared_t *prepared);
void tdg__source_commit(tdg__prepared_t *prepared);
void tdg__source_abandon(tdg__prepared_t *prepared);

/* ---- For reloads --------------------------------------------------------- */

/* Whether a source takes the place of another one: same kind, same URI. */
bool tdg__source_succeeds(const tdg__source_t *source, const tdg__source_t *from);

/* Takes over what such a one knows: what was pushed to it, within the limits of the new
 * one, and what its kind hands over. After opening, before watching, and before the other
 * one closes. Publishes nothing. */
void tdg__source_inherit(tdg__source_t *source, tdg__source_t *from);

/* Visits the URIs that its subscribers may take to exist, beside those that are listed.
 */
void tdg__source_each(const tdg__source_t *source,
                      void (*visit)(void *arg, const char *uri), void *arg);

/* The same for one URI. */
bool tdg__source_may_have(const tdg__source_t *source, const char *uri);

/* ---- Reachability -------------------------------------------------------- */

/* The backend is unreachable; reachable again: everything that is watched is fetched.
 * Meanwhile reads are answered with the last known content, where that is kept, marked as
 * stale. Each logs once, when the state changes. The second is for a backend that does
 * not exist yet. */
void tdg__source_is_away(tdg__source_t *source, const char *why);
void tdg__source_is_missing(tdg__source_t *source, const char *why);
void tdg__source_is_back(tdg__source_t *source);

/* Lists all that it has once more; see `list_again`. */
void tdg__source_list_again(tdg__source_t *source);

/* Through the host. */
int tdg__source_list(tdg__source_t *source, const tdg__listed_t *listed);
/* Also published as deleted. Returns as unlist() of the host: after TDG_EAGAIN or
 * TDG_ENOMEM the caller has to unlist it once more. */
int tdg__source_unlist(tdg__source_t *source, const char *uri);
void tdg__source_ready(tdg__source_t *source);

/* Something runs that uses the source: a handle, a job in a thread. The source is not
 * closed before all have let go of it, on the loop, and stays until control is back
 * there. */
void tdg__source_hold(tdg__source_t *source);
void tdg__source_let_go(tdg__source_t *source);

/* The same for a timer; for the timer of records, which are empty then, and whose user is
 * the source (returns as tdg__records_init(), with a handle in any case); for any handle
 * of libuv whose data is the source. */
void tdg__source_open_timer(tdg__source_t *source, uv_timer_t *timer);
int tdg__source_open_records(tdg__source_t *source, tdg__records_t *records, size_t size,
                             tdg__record_due_fn due);
void tdg__source_close_handle(uv_handle_t *handle);

/* No more than 20 messages in 10 s; the first one after that is preceded by how many were
 * left out. On the loop. */
void tdg__source_log(tdg__source_t *source, tdg_log_level_t level, const char *format,
                     ...) __attribute__((format(printf, 3, 4)));

/* How long to wait before the next try: doubles from retry_ms to retry_max_ms, with a
 * random part of up to a half, so that many do not reconnect at the same time. `tries`
 * counts from 0. */
int64_t tdg__source_wait_ms(const tdg__source_t *source, unsigned tries);

/* How long to wait for the next turn of what happens every so often: give or take a
 * tenth, for the same reason. */
int64_t tdg__source_turn_ms(int64_t every_ms);
int64_t tdg__source_random_ms(int64_t limit); /* evenly from 0 to `limit` */

static inline int64_t tdg__source_now_ms(const tdg__source_t *source) { /* of the loop */
    return (int64_t)uv_now(source->host.loop);
}

/* ---- A fetch ------------------------------------------------------------ */

struct tdg__fetch {
    tdg__source_t *source;
    const char *uri;
    void *state; /* the kind's */
    bool cancelled;
    tdg__item_t *item;
};

/* The kind's record for a fetch, all zero, which is its state from then on. NULL where
 * memory is out: the fetch has ended. */
void *tdg__fetch_begin(tdg__fetch_t *fetch, size_t size);

/* The decoded value of a variable of the source's template; NULL where it has none. */
const char *tdg__fetch_variable(const tdg__fetch_t *fetch, const char *name);

/* Ends the fetch, which must not be used any more. */
void tdg__fetch_done(tdg__fetch_t *fetch, const tdg__content_t *content);

/* The same for an error; `status` as in tdg__content_t. The first is for a text that is
 * fit for clients, too. With the second, clients get `public`, or where it is NULL a
 * sentence for `status`, and the log has the text. */
void tdg__fetch_failed(tdg__fetch_t *fetch, int status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void tdg__fetch_failed_inside(tdg__fetch_t *fetch, int status, const char *public,
                              const char *format, ...)
    __attribute__((format(printf, 4, 5)));

#endif

/* SPDX-License-Identifier: MIT
 *
 * The record of the half of the core that handles subscriptions; docs/architecture.md
 * lists its files.
 *
 * One rule avoids surprises: functions that the owner calls only store the request and
 * arm the timer `soon`; groups, streams and finished calls are processed when it is due.
 * So the owner may call anything from inside an event: records may be removed then (loops
 * look up each of them again, by number), groups and streams are not. */
#ifndef TDG_CLIENT_SUBS_H
#define TDG_CLIENT_SUBS_H

#include "base/hash.h"
#include "base/pool.h"
#include "base/template_index.h"
#include "client/subs/groups.h"
#include "client/subs/legacy.h"
#include "client/subs/pending.h"
#include "client/subs/sub.h"

enum {
    TDG__SUBS_MAX_HELD_BYTES = 16 << 20, /* of metadata that waits for a read */
    TDG__SUBS_OVERLAP_MS = 100, /* after two streams: what one brought may come again */
    TDG__SUBS_MAX_LATE = 16,    /* calls that there was no memory for */
};

struct tdg__subs {
    tdg__hash_key_t key;
    tdg__map_t by_uri;
    tdg__pool_t pool;
    tdg__template_index_t *templates;
    size_t template_count, wild_count; /* wild: templates that we cannot read */

    tdg__core_timer_t soon;   /* see above */
    tdg__core_timer_t settle; /* collected events are due */
    tdg__core_timer_t retry;  /* of what was lost or refused: at the later one of ... */
    int64_t attempt_ms;       /* ... the attempt that the backoff has planned, 0: none, */
    int64_t allowed_ms;       /* ... and the first `retry_ms`; INT64_MAX: nothing waits */
    bool failed;              /* something has: soon, an attempt is to be planned */
    bool up;                  /* requests go through */
    bool stopped;
    bool told_down;
    bool suspected; /* the server may have changed: it was asked to connect anew */

    tdg__queue_t calls;    /* not finished */
    tdg__queue_t finished; /* `done` is to be called, in order */
    struct {
        tdg__core_done_fn done;
        void *user;
        int code;
    } late[TDG__SUBS_MAX_LATE];
    size_t late_count;

    tdg__sub_group_t *groups; /* the first has no options */
    uint32_t serials;
    int64_t overlap_end; /* when two streams were open last */

    unsigned lists;      /* wanted */
    unsigned lists_once; /* of these: some stream has had them */
    unsigned list_gap;   /* may have changed unseen; still to be reported */
    tdg_era_t era;       /* in which it was up last */
    unsigned list_collected;
    int64_t collected_ms;        /* since when something is collected */
    bool gaps;                   /* some subscription has a gap */
    tdg__waiter_t *list_waiters; /* legacy */

    tdg__queue_t todo; /* legacy: to be (un)subscribed */
    size_t requests;   /* of these in flight */
    size_t put_off;    /* subscriptions that are put off and were live before */
    struct tdg__legacy_get get;
    char cursor[TDG__CURSOR_MAX + 1]; /* of the legacy session */
    uint64_t epoch;                   /* seen last */

    tdg__queue_t to_read, collected, heard;
    size_t reads, heard_count, heard_bytes;
    size_t held_bytes; /* of the metadata of what is held or collected */
};

static inline tdg__sub_t *tdg__sub_get(const struct tdg__subs *subs, uint32_t id) {
    return tdg__pool_get(&subs->pool, id);
}

void tdg__subs_kick(tdg__core_t *core); /* the timer `soon` */

/* The gap that follows in this group is reported only where reading finds a change
 * (gaps.c). */
void tdg__subs_compare(const tdg__core_t *core, const tdg__sub_group_t *group);

/* DOWN, where it was not reported yet; UP, where everything is well again. */
void tdg__subs_tell_down(tdg__core_t *core, int code, const char *why);
void tdg__subs_check_up(tdg__core_t *core);

/* Something was lost, or refused for now: it is tried again with the retry timer, but not
 * before the returned time, which its owner keeps as `retry_ms` (INT64_MAX: it does not
 * wait). `retry_after_ms`: what the server asked for; -1: nothing. */
int64_t tdg__subs_retry(tdg__core_t *core, int64_t retry_after_ms);

/* For the retry timer: ends a wait that is over. Returns whether it was one. */
bool tdg__subs_retry_now(tdg__core_t *core, int64_t *retry_ms);

/* Whether an attempt that ended so may well succeed later. */
bool tdg__subs_transient(const tdg__outcome_t *outcome);

#endif

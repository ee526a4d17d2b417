/* SPDX-License-Identifier: MIT
 *
 * The record of a URI: why it exists, what the server has acknowledged, and the state
 * that the files of this folder keep for it. */
#ifndef TDG_CLIENT_SUB_H
#define TDG_CLIENT_SUB_H

#include "base/queue.h"
#include "base/template.h"
#include "client/session/core_internal.h"

typedef struct tdg__sub tdg__sub_t;               /* one subscribed URI or template */
typedef struct tdg__sub_stream tdg__sub_stream_t; /* a listen stream of the modern era */
typedef struct tdg__sub_group tdg__sub_group_t;   /* all with the same options; in the
                                                     modern era they share a stream */

/* The role of the record of a URI: the reason why the client keeps it.
 *
 *     subscribe ──▶ WANTED ──unsubscribe, refused──▶ GONE ──the server knows──▶ freed
 *                     ▲  ▲                            │
 *           subscribe │  └──── subscribe ─────────────┘
 *                     │
 *     reported ───────▶ HEARD ──nothing covers it any more, or it is the oldest──▶ freed
 */
typedef enum tdg__sub_role {
    TDG__SUB_WANTED, /* the application subscribes to it */
    TDG__SUB_HEARD,  /* an update named it; a subscription to something else covers it */
    TDG__SUB_GONE,   /* unsubscribed; legacy: kept until the server has answered */
} tdg__sub_role_t;

/* The state of the subscription at the server. Only tdg__sub_enter(), which has the table
 * of allowed changes, changes it.
 *
 *              acknowledged             other options are wanted
 *        ┌────────────────────▶ LIVE ───────────────────────────▶ STALE
 *        │                       │ ▲                              │ │
 *        │                       │ └── acknowledged, refused, or ─┘ │
 *        │   the stream or       ▼     the old ones wanted again    │
 *       OUT ◀──the session is────┴──────────────────────────────────┘
 *       │ ▲    lost, or it is left out
 *       │ │
 *       │ └─── requests go through to a server that has subscriptions ──┐
 *       ▼                                                               │
 *   the server has none:  POLL_BEGINS ──first read──▶ POLLED ───────────┤
 *   it is polled                └───────────────────────────────────────┘
 *
 * STALE: in the modern era, the stream of the previous group carries the subscription
 * until that of the new group does; in the legacy era, the server has acknowledged it
 * with options that are no longer wanted. A subscription that is LIVE or STALE becomes
 * POLLED if the server stops supporting subscriptions; one that is polled becomes LIVE or
 * STALE if a request in flight is acknowledged late. */
typedef enum tdg__sub_phase {
    TDG__SUB_OUT,
    TDG__SUB_LIVE,
    TDG__SUB_STALE,
    TDG__SUB_POLL_BEGINS, /* the first read decides whether there is a subscription */
    TDG__SUB_POLLED,
} tdg__sub_phase_t;

/* Legacy: the request that subscribes or, for a GONE record, unsubscribes.
 *
 *     NONE ──▶ QUEUED ──▶ SENT ──answered──▶ NONE
 *                ▲         └──something else is wanted──▶ OUTDATED ──answered──┐
 *                └─────────────────────────────────────────────────────────────┘
 */
typedef enum tdg__sub_sending {
    TDG__SENDING_NONE,
    TDG__SENDING_QUEUED, /* in `todo` */
    TDG__SENDING_SENT,
    TDG__SENDING_OUTDATED,
} tdg__sub_sending_t;

/* Reads of the resource: one at a time; an update during a read causes another. */
typedef enum tdg__sub_reading {
    TDG__READING_NONE,
    TDG__READING_QUEUED, /* in `to_read` */
    TDG__READING_SENT,
} tdg__sub_reading_t;

/* What is known of the content. */
typedef enum tdg__sub_content {
    TDG__CONTENT_UNKNOWN,
    TDG__CONTENT_PRESENT, /* its hash is that of the last read */
    TDG__CONTENT_ABSENT,  /* the last read found nothing, or it was deleted */
} tdg__sub_content_t;

/* What the text of a subscription stands for. */
typedef enum tdg__sub_form {
    TDG__SUB_URI,
    TDG__SUB_TEMPLATE, /* its updates are of other URIs */
    TDG__SUB_WILD,     /* the same; all that begin as the template does before a brace */
} tdg__sub_form_t;

/* A cursor, as two numbers. */
typedef struct tdg__resume_point {
    uint64_t epoch, number;
    bool known;
} tdg__resume_point_t;

/* Why the server refuses a subscription temporarily. */
typedef struct tdg__refusal {
    int code, rpc_code, http_status;
    bool answered; /* by the server; false: the request was lost before it answered */
    char message[];
} tdg__refusal_t;

typedef struct tdg__waiter tdg__waiter_t;

/* The record of one URI: subscribed to, or named by an update. Lives in a pool; in a free
 * record `uri` is NULL. */
struct tdg__sub {
    uint32_t id; /* first: it survives in a free record */
    uint32_t hash;
    tdg__core_t *core;
    char *uri;
    size_t len;
    tdg__sub_role_t role;
    tdg__sub_phase_t state;
    bool ever_live;   /* was acknowledged or polled once: its end is an event */
    bool reread;      /* option: read after every update */
    bool awaits;      /* option: also if the resource does not exist yet */
    bool gap;         /* changes may have been missed; not reported yet (gaps.c) */
    bool compare_gap; /* such a gap is reported only if the content differs (gaps.c) */
    bool put_off;     /* refused temporarily: requested again later, ... */
    int64_t retry_ms; /* ... if it waits alone for the retry timer, not before this time;
                         else INT64_MAX */
    tdg__waiter_t *waiters;
    tdg__refusal_t *refusal; /* put_off: the last refusal; NULL: no reason is known */
    tdg__sub_group_t *group; /* has its options */

    /* Modern. */
    tdg__sub_group_t *leaving; /* STALE: the previous group, whose stream still has it */
    uint32_t serial;           /* the newest listen of the group that includes it */
    uint32_t acked;            /* the newest acknowledgement that includes it */

    /* Legacy. */
    tdg__sub_sending_t sending;
    bool owed;                      /* resumed from `resume`, and no update has arrived
                                       since: until then, the session's cursor does not
                                       apply */
    tdg__client_request_t *request; /* SENT, OUTDATED */
    tdg__sub_group_t *before;       /* STALE: has the options to return to if the server
                                       refuses those of `group`; counts the subscription,
                                       too; NULL: none */
    tdg__resume_point_t resume;     /* the client has every update up to this cursor */

    /* cover.c */
    tdg__sub_form_t form;
    uint32_t prefix_len;        /* WILD: of the text before the first brace */
    tdg__template_t *template_; /* TEMPLATE */

    /* updates.c */
    int64_t version; /* of the last update, in this epoch; 0: none */
    uint64_t epoch;
    json_t *number;         /* metadata.version of the last update; NULL: it had none */
    tdg_event_t *collected; /* reported when the streams no longer overlap */

    /* reread.c */
    tdg__sub_reading_t reading;
    tdg__sub_content_t content;
    tdg__client_request_t *read; /* SENT */
    tdg_event_t *held;           /* reported once the resource has been read */
    tdg_event_t *told_read;      /* the event that the current read is for */
    uint64_t content_hash;
    bool changed; /* a change was reported since the last read began */
    uint32_t poll_ms;
    int64_t heard_ms; /* time of the last update or read */
    tdg__core_timer_t poll;

    tdg__queue_t in_todo, in_reads, in_collected, in_heard;
};

/* The record of a URI, in any role; NULL: there is none. */
tdg__sub_t *tdg__subs_lookup(const struct tdg__subs *subs, const char *uri, size_t len);

/* A new record without flags. NULL when memory is out. */
tdg__sub_t *tdg__sub_create(tdg__core_t *core, const char *uri, size_t len);
void tdg__sub_free(tdg__core_t *core, tdg__sub_t *sub); /* with all that is under way */

/* The parameters of a subscribe or unsubscribe, new; NULL: no memory. `meta` is stolen,
 * and may be NULL. */
json_t *tdg__sub_params(const tdg__sub_t *sub, json_t *meta);

/* The next record in use above *id; NULL: none is left. Begin with 0. */
tdg__sub_t *tdg__subs_next(const struct tdg__subs *subs, uint32_t *id);

/* NULL: there is none. */
tdg__sub_t *tdg__subs_find(const tdg__core_t *core, const char *uri);

static inline bool tdg__sub_wanted(const tdg__sub_t *sub) {
    return sub->role == TDG__SUB_WANTED;
}

/* Whether the server notifies of its changes, with current or previous options. */
static inline bool tdg__sub_is_live(const tdg__sub_t *sub) {
    return sub->state == TDG__SUB_LIVE || sub->state == TDG__SUB_STALE;
}

static inline bool tdg__sub_is_polled(const tdg__sub_t *sub) {
    return sub->state == TDG__SUB_POLL_BEGINS || sub->state == TDG__SUB_POLLED;
}

static inline bool tdg__sub_is_template(const tdg__sub_t *sub) {
    return sub->form != TDG__SUB_URI;
}

/* The only way from state to state. */
void tdg__sub_enter(tdg__sub_t *sub, tdg__sub_phase_t state);

/* The stream or session that had it is lost. A polled subscription stays polled. */
void tdg__sub_lost(tdg__sub_t *sub);

/* Does what the server supports to make it live. A GONE record: unsubscribes. */
void tdg__sub_place(tdg__core_t *core, tdg__sub_t *sub);

void tdg__sub_live(tdg__core_t *core, tdg__sub_t *sub);

/* Forgets the previous options: the subscription does not return to them. */
void tdg__sub_drop_before(tdg__sub_t *sub);

/* From now on it causes no events; its events that wait to be fetched are dropped. */
void tdg__sub_silence(tdg__core_t *core, tdg__sub_t *sub);

/* Ends the subscription: no further events, and the record is freed. */
void tdg__sub_end(tdg__core_t *core, tdg__sub_t *sub);

/* The server refuses it permanently. The subscription ends, unless it can be polled, or
 * continues with its previous options. */
void tdg__sub_refused(tdg__core_t *core, tdg__sub_t *sub, int code,
                      const tdg_failure_t *failure);

/* The server refuses it for a temporary reason: the client retries later. */
void tdg__sub_put_off(tdg__core_t *core, tdg__sub_t *sub, const tdg_failure_t *failure);
void tdg__sub_clear_put_off(tdg__core_t *core, tdg__sub_t *sub);

/* A check has found a change that was not reported, or cannot rule one out. */
void tdg__sub_missed(tdg__core_t *core, tdg__sub_t *sub);

#endif

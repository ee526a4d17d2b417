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
typedef struct tdg__sub_group tdg__sub_group_t;   /* those with the same options: modern,
                                                     one stream */

/* Why there is a record of a URI.
 *
 *     subscribe ──▶ WANTED ──unsubscribe, refused──▶ GONE ──the server knows──▶ freed
 *                     ▲  ▲                            │
 *           subscribe │  └──── subscribe ─────────────┘
 *                     │
 *     reported ───────▶ HEARD ──nothing covers it any more, or it is the oldest──▶ freed
 */
typedef enum tdg__sub_role {
    TDG__SUB_WANTED,
    TDG__SUB_HEARD, /* not subscribed to by itself: something covers it */
    TDG__SUB_GONE,  /* unsubscribed; where a legacy server has it, until it knows */
} tdg__sub_role_t;

/* What the server has of it. Changed by tdg__sub_enter() alone, which has the table.
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
 * STALE: modern, the stream of the group that it leaves has it until that of its own
 * group does; legacy, it was acknowledged with options that are not wanted any more. One
 * that is LIVE or STALE can become POLLED as well, where the server has given up
 * subscriptions; and one that is polled becomes LIVE or STALE where a request that was
 * under way is acknowledged late. */
typedef enum tdg__sub_phase {
    TDG__SUB_OUT,
    TDG__SUB_LIVE,
    TDG__SUB_STALE,
    TDG__SUB_POLL_BEGINS, /* the first read decides whether there is a subscription */
    TDG__SUB_POLLED,
} tdg__sub_phase_t;

/* Legacy: the request about it, which subscribes or, where it is GONE, unsubscribes.
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

/* The read of it: one at a time; an update meanwhile makes another. */
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

/* Why a subscription is refused for now. */
typedef struct tdg__refusal {
    int code, rpc_code, http_status;
    bool answered; /* by the server; else it was lost before it did */
    char message[];
} tdg__refusal_t;

typedef struct tdg__waiter tdg__waiter_t;

/* One URI: subscribed to, or heard of. Lives in a pool; `uri` is NULL where it is free.
 */
struct tdg__sub {
    uint32_t id; /* first: it survives in a free record */
    uint32_t hash;
    tdg__core_t *core;
    char *uri;
    size_t len;
    tdg__sub_role_t role;
    tdg__sub_phase_t state;
    bool ever_live;   /* or polled: it is a subscription, and its end an event */
    bool reread;      /* option: read after every update */
    bool awaits;      /* option: also where it does not exist yet */
    bool put_off;     /* refused for now: asked for again in due time, ... */
    int64_t retry_ms; /* ... where it waits alone for the retry timer: not before; else
                         INT64_MAX */
    bool gap;         /* may have changed unseen; still to be reported (gaps.c) */
    bool compare_gap; /* such a gap is reported only if the content differs (gaps.c) */
    tdg__waiter_t *waiters;
    tdg__refusal_t *refusal; /* put_off: the last one; NULL: no reason is known */
    tdg__sub_group_t *group; /* whose options it has */

    /* Modern. */
    tdg__sub_group_t *leaving; /* STALE: whose stream has it until the group's has */
    uint32_t serial;           /* the newest listen of the group that names it */
    uint32_t acked;            /* the newest acknowledgement that does */

    /* Legacy. */
    tdg__sub_sending_t sending;
    tdg__client_request_t *request; /* SENT, OUTDATED */
    tdg__sub_group_t *before;   /* STALE: whose options it goes back to where those of the
                                 * group are refused; counts it as well; NULL: none */
    tdg__resume_point_t resume; /* up to where everything about it was heard */
    bool owed;                  /* what that stands for was not heard yet; once it was,
                                 * the session's cursor counts for it */

    /* cover.c */
    tdg__sub_form_t form;
    tdg__template_t *template_; /* TEMPLATE */
    size_t prefix_len;          /* WILD: of the text before the first brace */

    /* updates.c */
    int64_t version; /* last seen, in this epoch; 0: none */
    uint64_t epoch;
    json_t *number;         /* metadata.version of the last update; NULL: it had none */
    tdg_event_t *collected; /* reported when streams do not overlap any more */

    /* reread.c */
    tdg__sub_reading_t reading;
    tdg__client_request_t *read; /* SENT */
    tdg_event_t *held;           /* reported when it has been read */
    tdg_event_t *told_read;      /* the one that the read under way is for */
    tdg__sub_content_t content;
    uint64_t content_hash;
    bool changed; /* that was reported, since the last read began */
    uint32_t poll_ms;
    int64_t heard_ms; /* last update or read */
    tdg__core_timer_t poll;

    tdg__queue_t in_todo, in_reads, in_collected, in_heard;
};

/* The record of a URI, also one that is only heard of, or gone; NULL: there is none. */
tdg__sub_t *tdg__subs_lookup(const struct tdg__subs *subs, const char *uri, size_t len);

/* A new record without flags. NULL when memory is out. */
tdg__sub_t *tdg__sub_create(tdg__core_t *core, const char *uri, size_t len);
void tdg__sub_free(tdg__core_t *core, tdg__sub_t *sub); /* with all that is under way */

/* The parameters of a request about it, new; NULL: no memory. `meta` is stolen, and may
 * be NULL. */
json_t *tdg__sub_params(const tdg__sub_t *sub, json_t *meta);

/* The next record in use above *id; NULL: none is left. Begin with 0. */
tdg__sub_t *tdg__subs_next(const struct tdg__subs *subs, uint32_t *id);

/* NULL: there is none. */
tdg__sub_t *tdg__subs_find(const tdg__core_t *core, const char *uri);

static inline bool tdg__sub_wanted(const tdg__sub_t *sub) {
    return sub->role == TDG__SUB_WANTED;
}

/* Whether the server notifies of it, with whichever options. */
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

/* No stream and no session has it any more. What is polled stays so. */
void tdg__sub_lost(tdg__sub_t *sub);

/* Does whatever its server allows so that it becomes live. */
void tdg__sub_place(tdg__core_t *core, tdg__sub_t *sub);

void tdg__sub_live(tdg__core_t *core, tdg__sub_t *sub);

/* It does not go back to the options that it had. */
void tdg__sub_drop_before(tdg__sub_t *sub);

/* From here on nothing is reported because of it, nor what waits to be fetched. */
void tdg__sub_silence(tdg__core_t *core, tdg__sub_t *sub);

/* It is over: nothing is reported about it any more, and it is freed. */
void tdg__sub_end(tdg__core_t *core, tdg__sub_t *sub);

/* The server does not want it. The subscription is over, unless it can be polled, or
 * lives on with the options that it had. */
void tdg__sub_refused(tdg__core_t *core, tdg__sub_t *sub, int code,
                      const tdg_failure_t *failure);

/* The server refuses it for a passing reason: it is to be tried again in due time. */
void tdg__sub_put_off(tdg__core_t *core, tdg__sub_t *sub, const tdg_failure_t *failure);
void tdg__sub_clear_put_off(tdg__core_t *core, tdg__sub_t *sub);

/* A check has found a change that was not reported, or that nobody can rule out. */
void tdg__sub_missed(tdg__core_t *core, tdg__sub_t *sub);

#endif

/* SPDX-License-Identifier: MIT
 *
 * What the half of the core that looks after subscriptions keeps, and which of its files
 * does what:
 *
 *     subs.c      records by URI; subscribe and unsubscribe, up and down
 *     sub_call.c  who waits for an outcome: one `done` for many URIs
 *     groups.c    wire options: which subscriptions share a listen stream
 *     listen.c    modern streams;  listen_ack.c  what an acknowledgement says
 *     session.c   legacy requests; session_get.c the GET stream
 *     updates.c   notifications;   gaps.c        what may have been missed
 *     cover.c     URIs that are told because of a template or of what is above them
 *     reread.c    reads after updates, and polling
 *     lifesign.c  how much silence of a stream is too much
 *
 * One rule keeps this free of surprises: functions that the owner calls only note what is
 * wanted and arm the timer `soon`; groups, streams and finished calls are dealt with when
 * it is due. So the owner may call anything from inside of an event: records may go then
 * (loops look each of them up anew, by number), groups and streams do not. */
#ifndef TDG_CLIENT_SUBS_INTERNAL_H
#define TDG_CLIENT_SUBS_INTERNAL_H

#include "base/hash.h"
#include "base/pool.h"
#include "base/template_index.h"
#include "client/internal.h"
#include "client/lifesign.h"
#include "mcp/cursor.h"

enum {
    TDG__SUBS_MAX_GROUPS = 64,   /* distinct options: as many streams */
    TDG__SUBS_MAX_ASKED = 32,    /* legacy: subscribe requests in flight */
    TDG__SUBS_MAX_READS = 16,    /* in flight */
    TDG__SUBS_MAX_URI = 65536,   /* bytes of a URI to subscribe to */
    TDG__SUBS_MAX_HEARD = 65536, /* URIs known through templates alone */
    TDG__SUBS_MAX_HEARD_URI = 8192,
    TDG__SUBS_MAX_HEARD_BYTES = 16 << 20, /* of their texts */
    TDG__SUBS_MAX_HELD_BYTES = 16 << 20,  /* of metadata that waits for a read */
    TDG__SUBS_OVERLAP_MS = 100,    /* after two streams: what one told may come again */
    TDG__SUBS_COLLECT_MS = 1000,   /* no update waits longer for that */
    TDG__SUBS_LAZY_HEAD_MS = 2000, /* a GET stream without a head counts as open */
    TDG__SUBS_MAX_LATE = 16,       /* calls that there was no memory for */
    TDG__SUBS_PATIENCE_PART = 10,  /* of a call's time: until it returns a refusal */
};

/* Besides those in internal.h. */
enum {
    TDG__SUB_HEARD = 1 << 8,    /* not subscribed to by itself: something covers it */
    TDG__SUB_GAP = 1 << 9,      /* may have changed unseen; still to be told */
    TDG__SUB_REREAD = 1 << 10,  /* read after every update */
    TDG__SUB_STALE = 1 << 11,   /* legacy: live with other options than wanted */
    TDG__SUB_QUEUED = 1 << 12,  /* legacy: in `todo` */
    TDG__SUB_KNOWN = 1 << 13,   /* `contents` is that of the last read */
    TDG__SUB_ABSENT = 1 << 14,  /* the last read found nothing */
    TDG__SUB_OWED = 1 << 15,    /* legacy: what `resume` stands for was not heard yet */
    TDG__SUB_BASE = 1 << 16,    /* polled only: its first read is still to come */
    TDG__SUB_TO_READ = 1 << 17, /* in `to_read` */
    TDG__SUB_CHANGED = 1 << 18, /* and told, since the last read began */
    TDG__SUB_AWAITS = 1 << 19,  /* also where it does not exist yet */
    TDG__SUB_COMPARE = 1 << 20, /* a gap of it is told only if the content differs */
    TDG__SUB_PUT_OFF = 1 << 21, /* refused for now: asked for again in due time */
};

/* A cursor, as two numbers. */
typedef struct tdg__place {
    uint64_t epoch, number;
    bool known;
} tdg__place_t;

/* Why a subscription is refused for now. */
typedef struct tdg__refusal {
    int code, rpc_code, http_status;
    bool answered; /* by the server; else it was lost before it did */
    char message[];
} tdg__refusal_t;

typedef struct tdg__sub_call tdg__sub_call_t;
typedef struct tdg__waiter tdg__waiter_t;
typedef struct tdg__listen tdg__listen_t;

/* One of the things that a call waits for. Lives inside its call. */
struct tdg__waiter {
    tdg__sub_call_t *call;
    tdg__waiter_t *next;  /* of those that wait for the same thing */
    tdg__waiter_t **list; /* that it is in; NULL: it has its outcome */
    uint32_t sub;         /* subscribe: the record */
    int64_t give_up_ms;   /* if the server refuses it still; INT64_MAX: it does not */
    int code;
};

typedef enum tdg__sub_call_kind {
    TDG__CALL_SUBSCRIBE,
    TDG__CALL_UNSUBSCRIBE,
    TDG__CALL_LISTS,
} tdg__sub_call_kind_t;

struct tdg__sub_call {
    tdg__sub_call_t *next, *prev; /* among all calls that are not finished */
    tdg__core_timer_t timeout;
    int64_t end_ms; /* its time is over then */
    int64_t due_ms; /* of the timer: then, or before for those that are refused */
    tdg__sub_call_kind_t kind;
    tdg__core_done_fn done;
    void *user;
    int *codes; /* the caller's, or NULL */
    size_t count, left;
    size_t failed_at; /* the first that failed; `count`: none did */
    tdg_failure_t failure;
    tdg__waiter_t waiters[];
};

/* One URI: subscribed to, or heard of. Lives in a pool; `uri` is NULL where it is free.
 */
struct tdg__sub {
    uint32_t id; /* first: it survives in a free record */
    uint32_t hash;
    tdg__core_t *core;
    char *uri;
    size_t len;
    unsigned flags;
    tdg__waiter_t *waiters;

    tdg__sub_group_t *group;   /* whose options it has */
    tdg__sub_group_t *leaving; /* modern: whose stream has it until the group's has */
    tdg__sub_group_t *before;  /* legacy: whose options it goes back to where those of the
                                * group are refused; counts it as well; NULL: none */
    uint32_t serial;           /* modern: the newest listen of the group that names it */
    uint32_t acked;            /* the newest acknowledgement that does */
    tdg__asked_t *asked;       /* legacy: (un)subscribe under way */
    tdg__refusal_t *refusal;   /* PUT_OFF: the last one; NULL: no reason is known */

    tdg__template_t *template_; /* TEMPLATE; NULL: by the text before the first brace */
    size_t prefix_len;

    int64_t version; /* last seen, in this epoch; 0: none */
    uint64_t epoch;
    json_t *number;      /* metadata.version of the last update; NULL: it had none */
    tdg__place_t resume; /* legacy: up to where everything about it was heard */

    tdg_event_t *collected; /* told when streams do not overlap any more */
    tdg_event_t *held;      /* told when it has been read */
    tdg_event_t *told_read; /* the one that the read under way is for */
    tdg__asked_t *read;
    uint64_t contents; /* hash of the last read */
    uint32_t poll_ms;
    int64_t heard_ms; /* last update or read */
    bool poll_ready;  /* the timer exists */
    tdg__core_timer_t poll;

    tdg__link_t in_todo, in_reads, in_collected, in_heard;
};

/* Subscriptions with the same wire options, and in the modern era their streams. */
struct tdg__sub_group {
    tdg__sub_group_t *next;
    json_t *options; /* dev.tidings/options; NULL: none */
    char *key;       /* the same as text; "" for none */
    int64_t since_ms;
    size_t count; /* subscriptions */

    tdg__listen_t *live;  /* acknowledged */
    tdg__listen_t *fresh; /* not yet */
    tdg__listen_t *old;   /* was replaced, and is still listened to for a moment */
    bool dirty;           /* what it has differs from what the newest listen asks for */
    bool gap;             /* nobody listened for a while */
    bool waits;           /* for the retry timer */
    bool left;            /* a subscription has gone to another group */
    bool refused;         /* a check was: the next stream goes on with its wait */
    bool checked; /* `live` is silent: what `fresh` brings shows whether it lives */
    tdg__lifesign_t life;             /* of `live` */
    tdg__waiter_t *waiters;           /* for the next listen to be acknowledged */
    char cursor[TDG__CURSOR_MAX + 1]; /* "": none */
};

struct tdg__listen {
    tdg__core_t *core;
    tdg__sub_group_t *group;
    tdg__asked_t *asked;
    uint32_t serial;
    bool had_cursor;
    bool left;               /* old: some that it has are of other groups now */
    unsigned lists;          /* asked for */
    unsigned honoured;       /* of these: acknowledged */
    tdg__waiter_t *waiters;  /* for its acknowledgement */
    tdg__core_timer_t timer; /* until the acknowledgement; of an old one: until its end */
};

/* One GET request. */
typedef struct tdg__get_stream {
    tdg__core_t *core;
    tdg__carry_t *carry; /* NULL: there is none */
} tdg__get_stream_t;

/* What the second GET stream is there for; see session_get.c. */
typedef enum tdg__get_check {
    TDG__GET_UNCHECKED, /* there is none */
    TDG__GET_BESIDE,    /* it is being opened, to take the place of `now` */
    TDG__GET_COMPARING, /* it is the one before, until everything was compared */
} tdg__get_check_t;

/* The GET stream of a legacy session. */
struct tdg__get {
    tdg__wire_t *wire; /* that has the carries */
    tdg__get_stream_t streams[2];
    tdg__get_stream_t *now; /* one of them */
    tdg__get_check_t check; /* what the other is */
    bool open;
    bool assumed;            /* it is open, but has not shown it */
    bool gap;                /* nobody listened for a while */
    bool missing;            /* the server has none */
    bool waits;              /* for the retry timer */
    bool renewed;            /* the token, since it was open last */
    bool lazy_head;          /* the server sends the head with the first event */
    bool refused;            /* a check was: the next stream goes on with its wait */
    unsigned conflicts;      /* 409 since it was open last */
    char *event_id;          /* the last one; NULL: none */
    tdg__core_timer_t timer; /* until it counts as open; until a check is over */
    tdg__lifesign_t life;
};

struct tdg__subs {
    tdg__hash_key_t key;
    tdg__map_t by_uri;
    tdg__pool_t pool;
    tdg__template_index_t *templates;
    size_t template_count, wild_count; /* wild: templates that we cannot read */

    tdg__core_timer_t soon;   /* see above */
    tdg__core_timer_t retry;  /* of everything that is down */
    tdg__core_timer_t settle; /* collected events are due */
    bool retry_wanted;        /* it is to be armed soon */
    bool up;                  /* requests go through */
    bool stopped;
    bool told_down;
    bool suspected; /* the server may have changed: it was asked to connect anew */

    tdg__sub_call_t *calls;    /* not finished */
    tdg__sub_call_t *finished; /* `done` is to be called, in order */
    tdg__sub_call_t **finished_end;
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
    unsigned list_gap;   /* may have changed unseen; still to be told */
    tdg_era_t era;       /* in which it was up last */
    unsigned list_collected;
    int64_t collected_ms;        /* since when something is collected */
    bool gaps;                   /* some subscription has GAP */
    tdg__waiter_t *list_waiters; /* legacy */

    tdg__list_t todo; /* legacy: to be (un)subscribed */
    size_t asked;     /* of these in flight */
    size_t failed;    /* to be tried again with the retry timer */
    size_t put_off;   /* subscriptions with PUT_OFF that were live before */
    struct tdg__get get;
    char cursor[TDG__CURSOR_MAX + 1]; /* of the legacy session */
    uint64_t epoch;                   /* seen last */

    tdg__list_t to_read, collected, heard;
    size_t reads, heard_count, heard_bytes;
    size_t held_bytes; /* of the metadata of what is held or collected */
};

/* ---- subs.c ------------------------------------------------------------- */

void tdg__subs_kick(tdg__core_t *core); /* the timer `soon` */

/* The record of a URI, also one that is only heard of, or gone; NULL: there is none. */
tdg__sub_t *tdg__subs_lookup(const struct tdg__subs *subs, const char *uri, size_t len);

/* A new record without flags. NULL when memory is out. */
tdg__sub_t *tdg__sub_create(tdg__core_t *core, const char *uri, size_t len);
void tdg__sub_free(tdg__core_t *core, tdg__sub_t *sub); /* with all that is under way */

static inline tdg__sub_t *tdg__sub_get(const struct tdg__subs *subs, uint32_t id) {
    return tdg__pool_get(&subs->pool, id);
}

/* The next record in use above *id; NULL: none is left. Begin with 0. */
tdg__sub_t *tdg__subs_next(const struct tdg__subs *subs, uint32_t *id);

static inline bool tdg__sub_wanted(const tdg__sub_t *sub) {
    return (sub->flags & (TDG__SUB_HEARD | TDG__SUB_GONE)) == 0;
}

/* Does whatever its server allows so that it becomes live. */
void tdg__sub_place(tdg__core_t *core, tdg__sub_t *sub);

void tdg__sub_live(tdg__core_t *core, tdg__sub_t *sub);

/* It does not go back to the options that it had. */
void tdg__sub_drop_before(tdg__sub_t *sub);

/* It is over: nothing is told about it any more, and it is freed. */
void tdg__sub_end(tdg__core_t *core, tdg__sub_t *sub);

/* The server does not want it. The subscription is over, unless it can be polled, or
 * lives on with the options that it had. */
void tdg__sub_refused(tdg__core_t *core, tdg__sub_t *sub, int code,
                      const tdg_failure_t *failure);

/* The server refuses it for a passing reason: it is tried again in due time. */
void tdg__sub_put_off(tdg__core_t *core, tdg__sub_t *sub, const tdg_failure_t *failure);
void tdg__sub_retry(tdg__core_t *core, int64_t retry_after_ms); /* those put off */

/* DOWN, where it was not told yet; UP, where everything is well again. */
void tdg__subs_tell_down(tdg__core_t *core, int code, const char *why);
void tdg__subs_check_up(tdg__core_t *core);

/* Tries what is down again in due time. */
void tdg__subs_retry(tdg__core_t *core, int64_t retry_after_ms);

/* A check has found a change that nobody was told of, or that nobody can rule out. */
void tdg__sub_missed(tdg__core_t *core, tdg__sub_t *sub);

/* Whether an attempt that ended so may well succeed later. */
bool tdg__subs_transient(const tdg__outcome_t *outcome);

/* Whether we are asked who we are, and the answer does not do. */
bool tdg__subs_barred(const tdg__outcome_t *outcome);

/* ---- sub_call.c --------------------------------------------------------- */

/* NULL when memory is out: then `done` is called with that, later. */
tdg__sub_call_t *tdg__sub_call_create(tdg__core_t *core, tdg__sub_call_kind_t kind,
                                      size_t count, tdg__core_done_fn done, void *user);
void tdg__sub_call_late(tdg__core_t *core, int code, tdg__core_done_fn done, void *user);

void tdg__waiter_add(tdg__waiter_t **list, tdg__waiter_t *waiter);
void tdg__waiter_settle(tdg__core_t *core, tdg__waiter_t *waiter, int code,
                        const tdg_failure_t *failure);
void tdg__waiters_settle(tdg__core_t *core, tdg__waiter_t **list, int code,
                         const tdg_failure_t *failure);
void tdg__waiters_move(tdg__waiter_t **from, tdg__waiter_t **to);

/* They wait for what was refused for now: each does so for a part of its call's time,
 * from the first refusal on. */
void tdg__waiters_put_off(tdg__core_t *core, tdg__waiter_t *list);

void tdg__sub_calls_flush(tdg__core_t *core); /* calls `done` of those that finished */
void tdg__sub_calls_end(tdg__core_t *core);   /* all that wait: TDG_EENDED */

/* Fills in a failure of our own making. */
const tdg_failure_t *tdg__failure_make(tdg_failure_t *failure, int code,
                                       const char *message);

/* ---- groups.c ----------------------------------------------------------- */

/* The group for these options, made where there is none. Returns 0, TDG_EINVAL,
 * TDG_ESTREAMS or TDG_ENOMEM. */
int tdg__group_find(tdg__core_t *core, const tdg_subscribe_opts_t *opts,
                    tdg__sub_group_t **ret);
void tdg__group_free(tdg__core_t *core, tdg__sub_group_t *group);
void tdg__groups_clean(tdg__core_t *core); /* frees those without anything */

/* Its options, and a cursor where not empty, as the `_meta` of a request: new, or NULL
 * where there is nothing to say. *ret_failed: memory is out. */
json_t *tdg__group_meta(const tdg__sub_group_t *group, const char *cursor, bool since,
                        bool *ret_failed);

/* ---- listen.c, listen_ack.c --------------------------------------------- */

void tdg__listen_work(tdg__core_t *core); /* opens and ends streams as wanted */
void tdg__listen_down(tdg__core_t *core); /* all streams are gone */
void tdg__listen_drop(tdg__core_t *core, tdg__listen_t **listen);

/* The stream with that subscription id (a JSON value); NULL: none. */
tdg__listen_t *tdg__listen_by_id(const tdg__core_t *core, const json_t *id);
tdg__listen_t *tdg__listen_of(const tdg__core_t *core, const tdg__asked_t *asked);

unsigned tdg__listen_lists(const json_t *notifications); /* bits of those named */
void tdg__listen_acknowledged(tdg__listen_t *listen, json_t *params);
void tdg__listen_cancelled(tdg__listen_t *listen); /* by the server */
void tdg__listen_silent(tdg__core_t *core, tdg__lifesign_t *life,
                        bool dead); /* a group's */
bool tdg__listens_overlap(const tdg__core_t *core);

/* ---- session.c, session_get.c ------------------------------------------- */

void tdg__session_work(tdg__core_t *core);
void tdg__session_down(tdg__core_t *core);
void tdg__session_queue(tdg__core_t *core, tdg__sub_t *sub);
void tdg__session_heard(tdg__sub_t *sub); /* of it: the session's cursor counts for it */
bool tdg__session_well(const tdg__core_t *core);

int tdg__get_init(tdg__core_t *core);
void tdg__get_done(tdg__core_t *core);
void tdg__get_work(tdg__core_t *core); /* opens the GET stream where there is to be one */
void tdg__get_drop(tdg__core_t *core);
bool tdg__get_ready(const tdg__core_t *core);   /* it is open, or none is needed */
bool tdg__get_opening(const tdg__core_t *core); /* neither open nor refused so far */

/* ---- updates.c, gaps.c -------------------------------------------------- */

/* Tells it, after a read where that is wanted. The event is stolen; NULL stands for one
 * that there was no memory for. */
void tdg__update_tell(tdg__core_t *core, tdg__sub_t *sub, tdg_event_t *event);
/* Straight to the owner. */
void tdg__update_emit(tdg__core_t *core, tdg_event_t *event);
/* The newer one, with what the older stood for; both stolen, either may be NULL. */
tdg_event_t *tdg__update_merge(tdg_event_t *older, tdg_event_t *newer);
/* All that waits in the record to be told, as one; new, or NULL: nothing does. */
tdg_event_t *tdg__update_take(tdg__core_t *core, tdg__sub_t *sub);
void tdg__updates_settle(tdg__core_t *core); /* sees that what is collected is told */
void tdg__updates_flush(tdg__core_t *core);  /* tells it */
void tdg__update_list(tdg__core_t *core, tdg_list_t list, bool maybe);

/* Keeps a cursor that the server has shown: in `ret`, of TDG__CURSOR_MAX + 1 bytes. */
bool tdg__update_cursor(tdg__core_t *core, const json_t *meta, char *ret);

void tdg__gap_mark(tdg__sub_t *sub);
void tdg__gap_compare(
    tdg__sub_t *sub); /* the next one is told only if there is a change */
void tdg__gaps_tell(tdg__core_t *core); /* all that are marked, and live */

/* ---- cover.c ------------------------------------------------------------ */

/* A subscription that is one for a template, as its text says. Returns 0 or TDG_ENOMEM.
 */
int tdg__cover_add(tdg__core_t *core, tdg__sub_t *sub);
void tdg__cover_remove(tdg__core_t *core, tdg__sub_t *sub);

/* Whether two texts are one template, spelled with braces or with %7B and %7D. */
bool tdg__cover_same(const char *a, size_t a_len, const char *b, size_t b_len);

/* Whether something else that is subscribed to covers it. */
bool tdg__cover_has(tdg__core_t *core, const tdg__sub_t *sub);

/* The record of a URI that is covered, made where there is none; NULL: no memory. */
tdg__sub_t *tdg__cover_hear(tdg__core_t *core, const char *uri, size_t len);
/* It is not only heard of any more, or is about to be freed. */
void tdg__cover_leave(tdg__core_t *core, const tdg__sub_t *sub);
/* Those that nothing covers any more, now that this one is GONE. */
void tdg__cover_forget(tdg__core_t *core, const tdg__sub_t *gone);

/* ---- reread.c ----------------------------------------------------------- */

void tdg__reread_queue(tdg__core_t *core, tdg__sub_t *sub, bool look);
/* Tells an update that nobody knows of whether there was one (`maybe`), unless a read
 * finds what was known before. The event is stolen; NULL: there was no memory for it. */
void tdg__reread_compare(tdg__core_t *core, tdg__sub_t *sub, tdg_event_t *event);
bool tdg__reread_idle(const tdg__core_t *core); /* nothing is read, or to be read */
void tdg__reread_work(tdg__core_t *core);
void tdg__reread_down(tdg__core_t *core);
void tdg__reread_end(tdg__core_t *core, tdg__sub_t *sub); /* drops all about it */
int tdg__poll_set(tdg__core_t *core, tdg__sub_t *sub, uint32_t poll_ms);
void tdg__poll_heard(tdg__core_t *core, tdg__sub_t *sub);

#endif

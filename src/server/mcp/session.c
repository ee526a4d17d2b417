/* SPDX-License-Identifier: MIT */
#include "server/mcp/session.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/map.h"
#include "base/pool.h"
#include "server/log/log.h"

struct tdg__sessions {
    tdg__worker_t *worker;
    unsigned index; /* of the worker */
    tdg__pool_t pool;
    tdg__map_t by_id;
    tdg__list_t by_age; /* longest unused first */
    tdg__list_t fresh;  /* not initialised, looked at longest ago first */
    int64_t swept_ms;   /* when old answers were looked for */
    uint64_t ended;     /* streams that the engine had ended when last looked at */
    tdg__hash_key_t key;
};

int tdg__sessions_create(tdg__worker_t *worker, unsigned index, tdg__sessions_t **ret) {
    tdg__sessions_t *sessions = tdg__calloc(1, sizeof(*sessions));
    if (sessions == NULL)
        return TDG_ENOMEM;

    int rv = tdg__random(&sessions->key, sizeof(sessions->key));
    if (rv < 0) {
        tdg__free(sessions);
        return rv;
    }
    sessions->worker = worker;
    sessions->index = index;
    tdg__pool_init(&sessions->pool, sizeof(tdg__session_t));
    tdg__map_init(&sessions->by_id);
    *ret = sessions;
    return 0;
}

void tdg__sessions_destroy(tdg__sessions_t *sessions) {
    if (sessions == NULL)
        return;
    while (sessions->by_age.first != 0)
        tdg__session_destroy(tdg__pool_get(&sessions->pool, sessions->by_age.first));
    assert(sessions->pool.count == 0 && sessions->fresh.first == 0);
    tdg__map_done(&sessions->by_id);
    tdg__pool_done(&sessions->pool);
    tdg__free(sessions);
}

size_t tdg__sessions_count(const tdg__sessions_t *sessions) {
    return sessions->pool.count;
}

/* ---- Ids ---------------------------------------------------------------- */

static int hex_value(char c) {
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

int tdg__session_worker(const char *id) {
    if (strlen(id) != TDG__SESSION_ID)
        return -1;
    for (const char *at = id; *at != '\0'; at++) {
        if (hex_value(*at) < 0)
            return -1;
    }
    return hex_value(id[0]) * 16 + hex_value(id[1]);
}

static int make_id(unsigned worker, char *ret) {
    static const char digits[] = "0123456789abcdef";
    uint8_t bytes[TDG__SESSION_ID / 2];

    int rv = tdg__random(bytes, sizeof(bytes));
    if (rv < 0)
        return rv;
    bytes[0] = (uint8_t)worker;
    for (size_t i = 0; i < sizeof(bytes); i++) {
        ret[2 * i] = digits[bytes[i] >> 4];
        ret[2 * i + 1] = digits[bytes[i] & 15];
    }
    ret[TDG__SESSION_ID] = '\0';
    return 0;
}

static uint32_t hash_id(const tdg__sessions_t *sessions, const char *id) {
    return (uint32_t)tdg__hash(&sessions->key, id, TDG__SESSION_ID);
}

static bool has_id(const void *ctx, uint32_t number, const void *id) {
    const tdg__sessions_t *sessions = ctx;
    const tdg__session_t *session = tdg__pool_get(&sessions->pool, number);

    return memcmp(session->id, id, TDG__SESSION_ID) == 0;
}

tdg__session_t *tdg__session_find(tdg__sessions_t *sessions, const char *id) {
    if (tdg__session_worker(id) != (int)sessions->index)
        return NULL;

    uint32_t number =
        tdg__map_find(&sessions->by_id, hash_id(sessions, id), has_id, sessions, id);
    return number != 0 ? tdg__pool_get(&sessions->pool, number) : NULL;
}

/* ---- Eviction ----------------------------------------------------------- */

/* Of those that gave way and that nobody was asked to end, for want of memory. */
enum { ENDS_PER_TICK = 64 };

enum { SWEEP_MS = 15000 }; /* from one look for old answers to the next */

#define IN_FRESH offsetof(tdg__session_t, in_fresh)

static tdg__census_t *census_of(const tdg__sessions_t *sessions) {
    return sessions->worker->server->census;
}

/* An honest client sends notifications/initialized as soon as initialize is answered; a
 * stream or a request before that proves nothing. */
static tdg__standing_t standing_of(const tdg__session_t *session) {
    if (!session->initialised)
        return session->ops->before;
    return session->came_back ? TDG__SETTLED : session->ops->after;
}

static void update_standing(tdg__session_t *session) {
    tdg__standing_t standing = standing_of(session);

    if (standing == session->standing || session->ending)
        return;
    session->standing = standing;
    tdg__census_settle(census_of(session->feed.worker->sessions), session->resident,
                       standing);
}

void tdg__session_came_back(tdg__session_t *session) {
    session->came_back = true;
    update_standing(session);
}

static void remove_fresh(tdg__sessions_t *sessions, tdg__session_t *session) {
    if (!session->is_fresh)
        return;
    session->is_fresh = false;
    tdg__list_remove(&sessions->fresh, &sessions->pool, IN_FRESH, session->number);
}

void tdg__session_initialised(tdg__session_t *session) {
    assert(!session->initialised && session->version != TDG__V_UNKNOWN);
    session->initialised = true;
    remove_fresh(session->feed.worker->sessions, session);
    update_standing(session);
}

/* Ends one of this worker that has given way. No session may be half-made. False: there
 * is none. */
static bool end_leaving(tdg__sessions_t *sessions) {
    uint32_t number = tdg__census_leaving(census_of(sessions), sessions->index);

    if (number != 0)
        tdg__session_destroy(tdg__pool_get(&sessions->pool, number));
    return number != 0;
}

/* To another worker, one of whose sessions has given way. */
struct end_leaving {
    tdg__task_t task;
    tdg__worker_t *worker;
};

static void run_end_leaving(tdg__task_t *task, bool here) {
    struct end_leaving *end = (struct end_leaving *)(void *)task;

    if (here)
        (void)end_leaving(end->worker->sessions);
    tdg__free(end);
}

/* Without memory for it the worker finds out by itself: tdg__sessions_expire(). */
static void evict_elsewhere(tdg__worker_t *worker) {
    struct end_leaving *end = worker != NULL ? tdg__calloc(1, sizeof(*end)) : NULL;

    if (end == NULL)
        return;
    end->task.run = run_end_leaving;
    end->worker = worker;
    tdg__inbox_post(worker->inbox, &end->task);
}

static int admit(tdg__sessions_t *sessions, tdg__session_t *session) {
    tdg_server_t *server = sessions->worker->server;
    const tdg__arrival_t arrival = {
        .address = session->has_caller ? &session->caller : NULL,
        .worker = sessions->index,
        .session = session->number,
        .standing = session->standing,
    };
    tdg__eviction_t eviction;

    switch (
        tdg__census_enter(census_of(sessions), &arrival, &session->resident, &eviction)) {
    case TDG__ADMITTED:
        /* Only this one: the new session, which is not complete, may have to leave, too.
         */
        if (eviction.worker == (int)sessions->index)
            tdg__session_destroy(tdg__pool_get(&sessions->pool, eviction.session));
        else if (eviction.worker >= 0)
            evict_elsewhere(tdg__server_worker(server, eviction.worker));
        return 0;
    case TDG__FULL:
        tdg__server_log_event(server, TDG__EVENT_SESSION_REFUSED, NULL);
        return TDG_EAGAIN;
    case TDG__FULL_OF_ADDRESS:
        tdg__server_log_event(server, TDG__EVENT_CALLER_REFUSED, NULL);
        return TDG_EAGAIN;
    case TDG__NO_MEMORY:
        break;
    }
    return TDG_ENOMEM;
}

/* ---- Life --------------------------------------------------------------- */

static void begin(tdg__sessions_t *sessions, tdg__session_t *session, bool erlmcp) {
    tdg__queue_init(&session->http.posts);
    tdg__queue_init(&session->http.streams);
    session->erlmcp = erlmcp;
    session->log_level = -1;
    session->feed.form = erlmcp ? TDG__FORM_ERLMCP : TDG__FORM_STANDARD;
    session->feed.frame = session->ops->frame;
    session->feed.peer = (tdg__peer_t){
        .transport = session->ops->transport,
        .session = session->id,
    };
    tdg__map_insert(&sessions->by_id, hash_id(sessions, session->id), session->number);
    tdg__list_append(&sessions->by_age, &sessions->pool, offsetof(tdg__session_t, by_age),
                     session->number);
    tdg__session_touch(session);
    session->looked_at_ms = session->used_ms;
    session->is_fresh = session->standing == TDG__FRESH;
    if (session->is_fresh)
        tdg__list_append(&sessions->fresh, &sessions->pool, IN_FRESH, session->number);
    tdg__feed_attach(&session->feed, NULL);
}

int tdg__session_create(tdg__sessions_t *sessions, const tdg__session_ops_t *ops,
                        bool erlmcp, const tdg__address_t *caller, tdg__session_t **ret) {
    uint32_t number;

    tdg__session_t *session = tdg__pool_alloc(&sessions->pool, &number);
    if (session == NULL)
        return TDG_ENOMEM;
    session->number = number;
    assert(ops->transport != NULL && ops->fail != NULL);
    session->ops = ops;
    session->standing = standing_of(session);
    session->has_caller = caller != NULL;
    if (caller != NULL) {
        session->caller = *caller;
        tdg__address_shorten(&session->caller);
    }

    int rv = admit(sessions, session);
    if (rv < 0)
        goto fail_session;

    rv = tdg__map_reserve(&sessions->by_id);
    if (rv < 0)
        goto fail_admission;

    rv = make_id(sessions->index, session->id);
    if (rv < 0)
        goto fail_admission;

    rv = tdg__feed_open(&session->feed, sessions->worker, &tdg__session_feed_ops);
    if (rv < 0)
        goto fail_admission;

    begin(sessions, session, erlmcp);
    if (caller != NULL)
        tdg__peer_set_address(&session->feed.peer, caller);
    *ret = session;
    return 0;

fail_admission:
    tdg__census_leave(census_of(sessions), session->resident);
fail_session:
    tdg__pool_free(&sessions->pool, number);
    return rv;
}

void tdg__session_destroy(tdg__session_t *session) {
    tdg__worker_t *worker = session->feed.worker;
    tdg__sessions_t *sessions = worker->sessions;

    if (session->ending)
        return;
    session->ending = true; /* what is closed below must not get here again */
    tdg__map_remove(&sessions->by_id, hash_id(sessions, session->id), session->number);
    tdg__list_remove(&sessions->by_age, &sessions->pool, offsetof(tdg__session_t, by_age),
                     session->number);
    remove_fresh(sessions, session);
    tdg__feed_close(&session->feed);
    tdg__session_drop_waiting(session);
    if (session->ops->close != NULL)
        session->ops->close(session);
    assert(session->http.stream_count == 0 && tdg__queue_is_empty(&session->http.posts) &&
           session->waiting == NULL);
    json_decref(session->client);
    tdg__census_leave(census_of(sessions), session->resident);
    tdg__pool_free(&sessions->pool, session->number);
}

void tdg__session_touch(tdg__session_t *session) {
    tdg__sessions_t *sessions = session->feed.worker->sessions;
    size_t offset = offsetof(tdg__session_t, by_age);

    if (session->ending) /* it is in no list */
        return;
    session->used_ms = tdg__worker_now(session->feed.worker);
    if (sessions->by_age.last == session->number)
        return;
    tdg__list_remove(&sessions->by_age, &sessions->pool, offset, session->number);
    tdg__list_append(&sessions->by_age, &sessions->pool, offset, session->number);
}

static bool in_use(const tdg__session_t *session) {
    return session->ops->in_use == NULL || session->ops->in_use(session);
}

/* Some clients never send notifications/initialized and go on all the same: they stay as
 * long as they do something and no new session needs their place. Each is looked at once
 * per time-out. */
static void expire_fresh(tdg__sessions_t *sessions, int64_t now_ms) {
    int64_t patience_ms = sessions->worker->server->opts.handshake_timeout_ms;

    while (sessions->fresh.first != 0) {
        tdg__session_t *oldest = tdg__pool_get(&sessions->pool, sessions->fresh.first);

        if (now_ms - oldest->looked_at_ms < patience_ms)
            return;
        if (in_use(oldest) || now_ms - oldest->used_ms < patience_ms) {
            oldest->looked_at_ms = now_ms;
            tdg__list_remove(&sessions->fresh, &sessions->pool, IN_FRESH, oldest->number);
            tdg__list_append(&sessions->fresh, &sessions->pool, IN_FRESH, oldest->number);
        } else {
            tdg__session_destroy(oldest);
        }
    }
}

/* The engine drops the subscriptions of a stream that it ends, also those that are not
 * settled. A session without an open stream does not notice; the subscribes that wait
 * would keep it in use for ever. */
static void refuse_ended(tdg__sessions_t *sessions) {
    tdg__engine_t *engine = sessions->worker->engine;
    tdg__counters_t counters;
    uint32_t next;

    tdg__engine_counters(engine, &counters);
    if (counters.ended == sessions->ended)
        return;
    sessions->ended = counters.ended;
    for (uint32_t id = sessions->by_age.first; id != 0; id = next) {
        tdg__session_t *session = tdg__pool_get(&sessions->pool, id);

        next = session->by_age.next;
        if (session->waiting != NULL &&
            tdg__engine_has_ended(engine, session->feed.stream))
            tdg__session_drop_waiting(session); /* moves it to the end of the list */
    }
}

/* The answers that are kept share one limit: a session that lives on and posts nothing
 * more must not use it up for all others. */
static void drop_old_answers(tdg__sessions_t *sessions, int64_t now_ms) {
    if (now_ms - sessions->swept_ms < SWEEP_MS)
        return;
    sessions->swept_ms = now_ms;
    for (uint32_t id = sessions->by_age.first; id != 0;) {
        tdg__session_t *session = tdg__pool_get(&sessions->pool, id);

        if (session->ops->tidy != NULL)
            session->ops->tidy(session);
        id = session->by_age.next;
    }
}

void tdg__sessions_expire(tdg__sessions_t *sessions, int64_t now_ms) {
    int64_t idle_ms = sessions->worker->server->opts.session_idle_ms;

    refuse_ended(sessions);
    drop_old_answers(sessions, now_ms);
    for (int left = ENDS_PER_TICK; left > 0 && end_leaving(sessions); left--)
        ;
    expire_fresh(sessions, now_ms);
    /* One that is in use moves to the end, so each is looked at once per idle time. */
    for (size_t left = sessions->pool.count; left > 0; left--) {
        tdg__session_t *oldest = tdg__pool_get(&sessions->pool, sessions->by_age.first);

        if (now_ms - oldest->used_ms < idle_ms)
            return;
        if (in_use(oldest))
            tdg__session_touch(oldest);
        else
            tdg__session_destroy(oldest);
    }
}

/* ---- Rewinding ---------------------------------------------------------- */

int tdg__session_rewind(tdg__session_t *session, tdg__cursor_t cursor) {
    bool complete;

    assert(!session->ending && session->feed.stream != 0);
    if (session->owes)
        cursor = tdg__cursor_lower(cursor, session->owed);

    int rv = tdg__engine_rewind(session->feed.worker->engine, session->feed.stream,
                                cursor, &complete);
    if (rv < 0)
        return rv;
    session->owes = true;
    session->owed = cursor;
    session->owed_event = session->feed.event_number;
    return complete ? 0 : TDG_EENDED;
}

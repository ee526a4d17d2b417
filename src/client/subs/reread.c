/* SPDX-License-Identifier: MIT
 *
 * Reads by the client itself: after an update, if its contents are wanted, and at
 * intervals, if a server is unreliable or has no subscriptions. One read per URI at a
 * time and MAX_READS in total; updates meanwhile cause one further read. Contents are
 * remembered by hash, so that a gap without a change is not reported, nor a poll that
 * finds nothing new; a poll that finds reported content only stores its hash. */
#include <assert.h>
#include <string.h>

#include <tidings/error.h>

#include "base/alloc.h"
#include "client/subs/reread.h"
#include "client/subs/subs.h"
#include "client/subs/updates.h"

enum { MAX_READS = 16 }; /* in flight */

/* ---- Telling ------------------------------------------------------------ */

/* The event again, with what was read; the one given is stolen, and may be NULL: there
 * was no update, the difference was found by looking. */
static void tell(tdg__core_t *core, tdg__sub_t *sub, tdg_event_t *update,
                 tdg_event_kind_t kind, json_t *contents, const tdg_failure_t *failure) {
    json_t *metadata = update != NULL ? (json_t *)(uintptr_t)update->metadata : NULL;
    int code = update != NULL ? update->code : 0;
    const char *message = update != NULL ? update->message : NULL;
    tdg_event_t *event;

    if (failure != NULL) {
        code = failure->code;
        message = failure->message;
    }
    event = tdg__event_create(kind, sub->uri, metadata, sub->reread ? contents : NULL,
                              code, message);

    if (event != NULL && update != NULL) {
        event->version = update->version;
        event->merged = update->merged;
        event->maybe = update->maybe;
        event->polled = update->polled;
        event->older = update->older;
        event->at_ms = update->at_ms;
    } else if (event != NULL) {
        event->polled = true;
    }
    tdg_event_free(update);
    tdg__update_emit(core, event);
}

/* ---- What a read brings ------------------------------------------------- */

static bool hash_of(const tdg__core_t *core, const json_t *contents, uint64_t *ret) {
    char *text = json_dumps(contents, JSON_COMPACT | JSON_SORT_KEYS | JSON_ENCODE_ANY);

    if (text == NULL)
        return false;
    *ret = tdg__hash(&core->subs->key, text, strlen(text));
    tdg__free(text);
    return true;
}

/* Notes what was read. Returns whether it is the same as the last time. */
static bool compare(tdg__core_t *core, tdg__sub_t *sub, const json_t *contents,
                    bool absent) {
    const tdg__sub_content_t before = sub->content;
    uint64_t hash = 0;
    bool same;

    sub->content = absent ? TDG__CONTENT_ABSENT : TDG__CONTENT_UNKNOWN;
    if (absent)
        return before == TDG__CONTENT_ABSENT;
    if (!hash_of(core, contents, &hash))
        return false; /* no memory: counts as another */
    same = before == TDG__CONTENT_PRESENT && sub->content_hash == hash;
    sub->content = TDG__CONTENT_PRESENT;
    sub->content_hash = hash;
    return same;
}

bool tdg__reread_knows(const tdg__sub_t *sub) {
    return sub->content != TDG__CONTENT_UNKNOWN && !sub->changed;
}

void tdg__reread_changed(tdg__sub_t *sub, bool deleted) {
    if (deleted)
        sub->content = TDG__CONTENT_ABSENT;
    else
        sub->changed = true;
}

/* A read begins: what was known before a change that was reported says nothing any more.
 */
static void forget_changed(tdg__sub_t *sub) {
    if (sub->changed)
        sub->content = TDG__CONTENT_UNKNOWN;
    sub->changed = false;
}

/* Polled only: the first read decides whether there is a subscription at all. */
static void on_base(tdg__core_t *core, tdg__sub_t *sub, const tdg__outcome_t *outcome) {
    if (outcome->code == 0) {
        tdg__sub_enter(sub, TDG__SUB_POLLED);
        sub->ever_live = true;
        tdg__waiters_settle(core, &sub->waiters, 0, NULL);
    } else if (tdg__subs_transient(outcome) || sub->ever_live) {
        tdg__core_timer_at(core, &sub->poll, tdg__core_now(core) + sub->poll_ms);
    } else {
        tdg__sub_refused(core, sub, outcome->code, outcome->failure);
    }
}

static void on_contents(tdg__core_t *core, tdg__sub_t *sub, tdg_event_t *update,
                        const tdg__outcome_t *outcome) {
    const bool known = tdg__reread_knows(sub);
    const bool absent = outcome->code == TDG_ENOTFOUND;
    json_t *contents = json_object_get(outcome->result, "contents");
    bool same = compare(core, sub, contents, absent);

    /* Of a check. Where there is nothing to compare with, it is reported after the read,
     * so that what the next check compares with is no newer than what was reported. */
    if (update != NULL && update->maybe && update->polled) {
        update->maybe = !known || same;
        update->polled = !update->maybe;
        if (!same)
            tdg__sub_missed(core, sub);
    }
    if (update != NULL ? update->maybe && same : !known || same)
        tdg_event_free(update);
    else
        tell(core, sub, update, absent ? TDG_EVENT_DELETED : TDG_EVENT_UPDATED, contents,
             NULL);
}

static void on_read(void *user, const tdg__outcome_t *outcome) {
    tdg__sub_t *sub = user;
    tdg__core_t *core = sub->core;
    tdg_event_t *update = sub->told_read;
    bool base = sub->state == TDG__SUB_POLL_BEGINS;
    json_t *contents = json_object_get(outcome->result, "contents");
    bool answered = outcome->code == TDG_ENOTFOUND || json_is_array(contents);
    tdg_failure_t nonsense;

    assert(sub->reading == TDG__READING_SENT);
    sub->read = NULL;
    sub->reading = TDG__READING_NONE;
    sub->told_read = NULL;
    core->subs->reads--;
    if (sub->held != NULL || (base && update != NULL)) /* that one decides nothing */
        tdg__reread_queue(core, sub);
    tdg__subs_kick(core);
    if (outcome->code == TDG_EENDED) {
        tdg_event_free(update);
        return;
    }
    sub->heard_ms = tdg__core_now(core);

    /* Both may be the last thing that happens to the record. */
    if (base && update == NULL) {
        if (outcome->code == 0)
            compare(core, sub, contents, false);
        on_base(core, sub, outcome);
    } else if (answered) {
        on_contents(core, sub, update, outcome);
    } else if (update != NULL) {
        update->polled = update->polled && !update->maybe;
        tell(core, sub, update, TDG_EVENT_UPDATED, NULL,
             outcome->failure != NULL
                 ? outcome->failure
                 : tdg__failure_set(&nonsense, TDG_EJSON,
                                    "resources/read: the response has no \"contents\""));
    }
}

/* ---- Reading ------------------------------------------------------------ */

void tdg__reread_queue(tdg__core_t *core, tdg__sub_t *sub) {
    if (sub->reading != TDG__READING_NONE)
        return;
    sub->reading = TDG__READING_QUEUED;
    tdg__queue_append(&core->subs->to_read, &sub->in_reads);
    tdg__subs_kick(core);
}

static void unqueue(tdg__sub_t *sub) {
    if (sub->reading != TDG__READING_QUEUED)
        return;
    sub->reading = TDG__READING_NONE;
    tdg__queue_remove(&sub->in_reads);
}

void tdg__reread_compare(tdg__core_t *core, tdg__sub_t *sub, tdg_event_t *event) {
    if (event == NULL) {
        tdg__update_emit(core, NULL);
        return;
    }
    event->polled = true;
    sub->held = tdg__update_merge(sub->held, event);
    tdg__reread_queue(core, sub);
}

bool tdg__reread_idle(const tdg__core_t *core) {
    return core->subs->reads == 0 && tdg__queue_is_empty(&core->subs->to_read);
}

static int start(tdg__core_t *core, tdg__sub_t *sub) {
    const tdg__client_request_opts_t wanted = {.method = "resources/read",
                                               .params = tdg__sub_params(sub, NULL)};

    if (wanted.params == NULL)
        return TDG_ENOMEM;
    return tdg__client_request_begin(core, &wanted, on_read, sub, &sub->read);
}

void tdg__reread_work(tdg__core_t *core) {
    struct tdg__subs *subs = core->subs;
    tdg_failure_t failure;
    tdg_event_t *update;

    while (subs->up && subs->reads < MAX_READS && !tdg__queue_is_empty(&subs->to_read)) {
        tdg__sub_t *sub = TDG__RECORD(tdg__sub_t, in_reads, subs->to_read.next);

        unqueue(sub);
        update = sub->held;
        sub->held = NULL;
        if (start(core, sub) == 0) {
            forget_changed(sub);
            sub->reading = TDG__READING_SENT;
            sub->told_read = update;
            subs->reads++;
            core->counts.reads++;
        } else if (update != NULL) {
            tell(core, sub, update, TDG_EVENT_UPDATED, NULL,
                 tdg__failure_set(&failure, TDG_ENOMEM, "%s", tdg_strerror(TDG_ENOMEM)));
        } else if (sub->state == TDG__SUB_POLL_BEGINS) {
            tdg__sub_refused(core, sub, TDG_ENOMEM, NULL);
        }
    }
}

static void stop_read(tdg__core_t *core, tdg__sub_t *sub) {
    if (sub->reading != TDG__READING_SENT)
        return;
    tdg__client_request_drop(sub->read);
    sub->read = NULL;
    sub->reading = TDG__READING_NONE;
    core->subs->reads--;
}

void tdg__reread_end(tdg__core_t *core, tdg__sub_t *sub) {
    stop_read(core, sub);
    unqueue(sub);
    tdg_event_free(sub->told_read);
    tdg_event_free(sub->held);
    sub->told_read = sub->held = NULL;
}

/* Reads under way are made again when requests go through. */
void tdg__reread_down(tdg__core_t *core) {
    tdg__sub_t *sub;

    for (uint32_t id = 0; (sub = tdg__subs_next(core->subs, &id)) != NULL;) {
        if (sub->reading != TDG__READING_SENT)
            continue;
        stop_read(core, sub);
        sub->held = tdg__update_merge(sub->told_read, sub->held);
        sub->told_read = NULL;
        if (sub->held != NULL || sub->state == TDG__SUB_POLL_BEGINS)
            tdg__reread_queue(core, sub);
    }
}

/* ---- Reads of the owner ------------------------------------------------- */

/* What the owner reads it knows: later reads are compared with that. An update that is
 * reported meanwhile makes it void, as with our own. */
void tdg__reread_begun(tdg__core_t *core, const char *uri) {
    tdg__sub_t *sub = tdg__subs_find(core, uri);

    if (sub != NULL && sub->reading != TDG__READING_SENT)
        forget_changed(sub);
}

void tdg__reread_noted(tdg__core_t *core, const char *uri, const json_t *contents) {
    tdg__sub_t *sub = tdg__subs_find(core, uri);

    if (sub != NULL && sub->reading != TDG__READING_SENT && json_is_array(contents))
        (void)compare(core, sub, contents, false);
}

/* ---- By the clock ------------------------------------------------------- */

/* So that many that were subscribed to at once are not read at once. */
static int64_t jittered(tdg__core_t *core, uint32_t poll_ms) {
    uint32_t share = poll_ms / 4;

    return poll_ms - (int64_t)(share > 0 ? tdg__core_random(core) % share : 0);
}

static void on_poll(tdg__core_t *core, tdg__core_timer_t *timer) {
    tdg__sub_t *sub = (void *)((char *)timer - offsetof(tdg__sub_t, poll));
    int64_t now = tdg__core_now(core);
    int64_t due = sub->heard_ms + sub->poll_ms - sub->poll_ms / 4;

    if (now < due && sub->state != TDG__SUB_POLL_BEGINS) {
        tdg__core_timer_at(core, timer, sub->heard_ms + jittered(core, sub->poll_ms));
        return;
    }
    if (core->subs->up && tdg__sub_wanted(sub))
        tdg__reread_queue(core, sub);
    tdg__core_timer_at(core, timer, now + jittered(core, sub->poll_ms));
}

int tdg__poll_set(tdg__core_t *core, tdg__sub_t *sub, uint32_t poll_ms) {
    if (tdg__sub_is_template(sub))
        poll_ms = 0;
    if (poll_ms != 0 && sub->poll.due == NULL) {
        if (tdg__core_timer_init(core, &sub->poll, on_poll) < 0)
            return TDG_ENOMEM;
    }
    if (poll_ms != 0 && poll_ms != sub->poll_ms)
        tdg__core_timer_at(core, &sub->poll,
                           tdg__core_now(core) + jittered(core, poll_ms));
    else if (poll_ms == 0 && sub->poll.due != NULL)
        tdg__core_timer_stop(core, &sub->poll);
    sub->poll_ms = poll_ms;
    return 0;
}

/* SPDX-License-Identifier: MIT
 *
 * Replaces another source, in a reload. If both read tables, the first snapshot of the
 * new one is compared with that of the old one. A query has no such list: its old
 * connection listens for the new source, until that one listens itself and the old one
 * has passed on all earlier notifications:
 *
 *     old:  LISTEN ──── notifications ──▶ heir ── SELECT 1, twice ──▶ closed
 *     new:        connecting ──── LISTEN ────────┘
 *
 * Another reload may happen before that, so there may be several, each with the next one
 * as its heir. They end one after the other, the oldest first: its notifications pass
 * through the others, some of which have never listened. */
#include <assert.h>

#include "source/postgres/pg_source.h"

/* Notifications that arrive with the answer to the first query are taken after it, before
 * the next. */
enum { ROUNDS = 2 };

static void relay(tdg__pg_source_t *postgres, tdg__pg_source_t *before) {
    if (!postgres->plan.listens) /* it would never end */
        return;
    if (postgres->plan.by_table || before->plan.by_table ||
        !tdg__source_template_is_watched(&before->source) ||
        (before->listening != TDG__PG_LISTENING && before->before == NULL))
        return;
    assert(postgres->before == NULL && before->heir == NULL);
    postgres->before = before;
    before->heir = postgres;
}

/* That it is another table does not matter: what differs is looked at. */
bool tdg__pg_source_inherit(tdg__source_t *source, tdg__source_t *from) {
    tdg__pg_source_t *postgres = (tdg__pg_source_t *)source,
                     *before = (tdg__pg_source_t *)from;

    if (source->template_ == NULL)
        return false; /* one row is looked at anyway */
    if (!before->baseline || !postgres->plan.by_table) {
        relay(postgres, before);
        return false;
    }
    postgres->seen = before->seen;
    postgres->baseline = true;
    before->seen = (tdg__pg_seen_t){.max = 0};
    before->baseline = false;
    return true;
}

void tdg__pg_source_each(const tdg__source_t *source,
                         void (*visit)(void *arg, const char *uri), void *arg) {
    const tdg__pg_source_t *postgres = (const tdg__pg_source_t *)source;

    if (postgres->baseline)
        tdg__pg_seen_each(&postgres->seen, visit, arg);
}

/* The old one may have taken the place of another one itself. */
void tdg__pg_relay_stop(tdg__pg_source_t *postgres) {
    tdg__pg_source_t *before = postgres->before;

    if (before == NULL)
        return;
    assert(before->heir == postgres);
    postgres->before = NULL;
    before->heir = NULL;
    tdg__pg_relay_stop(before);
    tdg__pg_close(before->pg);
}

/* A source after it listens. */
static bool is_relieved(const tdg__pg_source_t *postgres) {
    const tdg__pg_source_t *at = postgres->heir;

    while (at != NULL && at->listening != TDG__PG_LISTENING)
        at = at->heir;
    return at != NULL;
}

static void ask(tdg__pg_source_t *oldest);

/* Ends it, and those after it, as far as they are relieved. */
static void end_oldest(tdg__pg_source_t *oldest) {
    while (is_relieved(oldest) && !oldest->ending) {
        tdg__pg_source_t *heir = oldest->heir;

        oldest->ending = true;
        if (oldest->listening == TDG__PG_LISTENING &&
            tdg__pg_state(oldest->pg) == TDG__PG_UP) {
            ask(oldest);
            return;
        }
        tdg__pg_relay_stop(heir);
        oldest = heir;
    }
}

static void on_answer(tdg__pg_query_t *query, const tdg__pg_end_t *end) {
    tdg__pg_source_t *oldest = query->user, *heir = oldest->heir;

    if (heir == NULL)
        return; /* it is being closed */
    if (end->status == 0 && ++oldest->rounds < ROUNDS) {
        ask(oldest);
        return;
    }
    tdg__pg_relay_stop(heir);
    end_oldest(heir);
}

static void ask(tdg__pg_source_t *oldest) {
    tdg__pg_source_submit(oldest, TDG__PG_FENCE, false,
                          &(tdg__pg_query_t){.sql = "SELECT 1",
                                             .done = on_answer,
                                             .limit_ms = oldest->probe_ms});
}

void tdg__pg_relay_end(tdg__pg_source_t *postgres) {
    while (postgres->before != NULL)
        postgres = postgres->before;
    end_oldest(postgres);
}

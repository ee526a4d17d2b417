/* SPDX-License-Identifier: MIT */
#include "serve/large.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "mcp/content.h"
#include "source/common/checksum.h"

enum {
    AT_ONCE = 2, /* large URIs that are fetched and encoded at a time */
    WAIT_MS = 10000,
    LOOK_MS = 20, /* bytes are released on other threads; how often to look */
};

/* What was taken for the reads of one URI. */
struct tdg__ticket {
    tdg__queue_t link; /* first */
    unsigned reads;
    size_t bytes; /* 0 once an encoded answer has taken their place */
    char uri[];
};

/* One content as text. */
struct tdg__encoded {
    tdg__queue_t link; /* first */
    tdg__heavy_job_t job;
    tdg__large_t *large;
    tdg__buf_t *bytes;    /* while it is being encoded */
    tdg__buf_t *made;     /* the thread's; NULL: memory was out */
    tdg__buf_t *member;   /* the same for the loop; NULL: not yet */
    tdg__queue_t readers; /* reads that wait for it */
    char checksum[TDG__CHECKSUM + 1];
};

/* ---- Room --------------------------------------------------------------- */

/* The content twice, while it is handed on, and encoded: base64 adds a third. */
static size_t cost_of(uint64_t size) {
    return size > SIZE_MAX / 8 ? SIZE_MAX / 2 : (size_t)(2 * size + size / 2);
}

static struct tdg__ticket *find_ticket(const tdg__large_t *large, const char *uri) {
    for (tdg__queue_t *at = large->tickets.next; at != &large->tickets; at = at->next)
        if (strcmp(((struct tdg__ticket *)at)->uri, uri) == 0)
            return (struct tdg__ticket *)at;
    return NULL;
}

static struct tdg__ticket *create_ticket(tdg__large_t *large, const char *uri,
                                         size_t bytes) {
    struct tdg__ticket *ticket = tdg__malloc(sizeof(*ticket) + strlen(uri) + 1);

    if (ticket == NULL)
        return NULL;
    *ticket = (struct tdg__ticket){.bytes = bytes};
    strcpy(ticket->uri, uri);
    tdg__queue_append(&large->tickets, &ticket->link);
    large->ticket_count++;
    return ticket;
}

static void destroy_ticket(tdg__large_t *large, struct tdg__ticket *ticket) {
    assert(large->ticket_count > 0);
    tdg__queue_remove(&ticket->link);
    large->ticket_count--;
    if (ticket->bytes > 0)
        tdg__budget_give(large->budget, ticket->bytes);
    tdg__free(ticket);
}

static void forget(struct tdg__encoded *encoded) {
    tdg__queue_remove(&encoded->link);
    tdg__buf_unref(encoded->member);
    tdg__free(encoded);
}

/* Forgets answers that nobody reads any more. Other threads only release references, so a
 * count of one stays one. */
static void sweep(tdg__large_t *large) {
    tdg__queue_t *next;

    for (tdg__queue_t *at = large->encoded.next; at != &large->encoded; at = next) {
        struct tdg__encoded *encoded = (struct tdg__encoded *)at;

        next = at->next;
        if (encoded->member != NULL &&
            atomic_load_explicit(&encoded->member->refs, memory_order_acquire) == 1)
            forget(encoded);
    }
}

/* Whether the read may begin; it has its ticket then. */
static bool take_ticket(tdg__large_t *large, tdg__large_read_t *read) {
    struct tdg__ticket *ticket = find_ticket(large, read->uri);
    size_t bytes = cost_of(read->size);

    if (ticket == NULL) {
        if (large->ticket_count >= AT_ONCE || !tdg__budget_take(large->budget, bytes))
            return false;
        ticket = create_ticket(large, read->uri, bytes);
        if (ticket == NULL) {
            tdg__budget_give(large->budget, bytes);
            return false;
        }
    }
    ticket->reads++;
    read->ticket = ticket;
    return true;
}

/* ---- Turns -------------------------------------------------------------- */

static tdg__large_read_t *read_of(tdg__turn_t *turn) {
    return TDG__RECORD(tdg__large_read_t, turn, turn);
}

static void enqueue(tdg__large_t *large, tdg__large_read_t *read) {
    read->until_ms = uv_now(large->loop) + WAIT_MS;
    tdg__queue_append(&large->waiting, &read->link);
    large->waiting_count++;
    tdg__turns_put(&large->turns, &read->turn, read->client);
}

static void dequeue(tdg__large_t *large, tdg__large_read_t *read) {
    if (read->turn.lane != 0) /* else its turn was taken */
        tdg__turns_leave(&large->turns, &read->turn);
    assert(large->waiting_count > 0);
    tdg__queue_remove(&read->link);
    large->waiting_count--;
}

/* Reads leave the queue in two steps, since a call may add others: first into a list,
 * then the calls. */
static void move_to(tdg__large_t *large, tdg__large_read_t *read, tdg__queue_t *list) {
    dequeue(large, read);
    tdg__queue_append(list, &read->link);
}

/* Those whose time is over, or that were cancelled. */
static void take_over(tdg__large_t *large, uint64_t now_ms, tdg__queue_t *list) {
    tdg__queue_t *next;

    for (tdg__queue_t *at = large->waiting.next; at != &large->waiting; at = next) {
        tdg__large_read_t *read = (tdg__large_read_t *)at;

        next = at->next;
        if (now_ms >= read->until_ms || read->cancelled(read))
            move_to(large, read, list);
    }
}

/* Those whose turn it is. The first without room stops those behind it, except those that
 * share a ticket with one before. */
static void take_due(tdg__large_t *large, tdg__queue_t *list) {
    tdg__turn_t *turn;
    tdg__queue_t *next;

    while ((turn = tdg__turns_next(&large->turns)) != NULL &&
           take_ticket(large, read_of(turn))) {
        tdg__turns_take(&large->turns);
        move_to(large, read_of(turn), list);
    }
    for (tdg__queue_t *at = large->waiting.next; at != &large->waiting; at = next) {
        tdg__large_read_t *read = (tdg__large_read_t *)at;

        next = at->next;
        if (find_ticket(large, read->uri) != NULL && take_ticket(large, read))
            move_to(large, read, list);
    }
}

static void call_all(tdg__queue_t *reads, bool busy) {
    tdg__large_read_t *read;

    while ((read = (tdg__large_read_t *)tdg__queue_take(reads)) != NULL)
        read->admitted(read, busy);
}

static void on_time(uv_timer_t *timer);

static void look_after(tdg__large_t *large) {
    if (large->closing)
        return;
    if (large->waiting_count == 0 && tdg__queue_is_empty(&large->encoded))
        uv_timer_stop(&large->timer);
    else if (!uv_is_active((uv_handle_t *)&large->timer))
        uv_timer_start(&large->timer, on_time, LOOK_MS, LOOK_MS);
}

static void pump(tdg__large_t *large) {
    tdg__queue_t due, over;

    tdg__queue_init(&due);
    tdg__queue_init(&over);
    sweep(large);
    take_over(large, uv_now(large->loop), &over);
    take_due(large, &due);
    look_after(large);
    call_all(&over, true);
    call_all(&due, false);
}

static void on_time(uv_timer_t *timer) {
    pump(timer->data);
}

/* One more waits. Where that exceeds the limit, another one gives way, or it does itself.
 */
static void wait_for_turn(tdg__large_t *large, tdg__large_read_t *read) {
    tdg__large_read_t *refused = NULL;

    if (large->waiting_count >= TDG__LARGE_WAITING) {
        tdg__turn_t *last = tdg__turns_last_of_longest(&large->turns, read->client);

        refused = last != NULL ? read_of(last) : read;
    }
    if (refused != NULL && refused != read)
        dequeue(large, refused);
    if (refused != read)
        enqueue(large, read);
    look_after(large);
    if (refused != NULL)
        refused->admitted(refused, true);
}

void tdg__large_admit(tdg__large_t *large, tdg__large_read_t *read) {
    read->ticket = NULL;
    if (large->budget == NULL || read->size <= TDG__HEAVY_BYTES) {
        read->admitted(read, false);
        return;
    }
    sweep(large);
    if ((large->waiting_count == 0 || find_ticket(large, read->uri) != NULL) &&
        take_ticket(large, read))
        read->admitted(read, false);
    else if (large->closing)
        read->admitted(read, true);
    else
        wait_for_turn(large, read);
}

void tdg__large_leave(tdg__large_t *large, tdg__large_read_t *read) {
    struct tdg__ticket *ticket = read->ticket;

    assert(!tdg__queue_has(&read->link));
    read->ticket = NULL;
    if (ticket == NULL || --ticket->reads > 0)
        return;
    destroy_ticket(large, ticket);
    if (large->waiting_count > 0)
        uv_timer_start(&large->timer, on_time, 0, LOOK_MS); /* not from inside a call */
}

/* ---- Encoding ----------------------------------------------------------- */

/* In a thread. */
static void run(tdg__heavy_job_t *job) {
    struct tdg__encoded *encoded = TDG__RECORD(struct tdg__encoded, job, job);

    encoded->made = tdg__content_member(encoded->bytes->data, encoded->bytes->len);
}

/* A ticket of one of the readers for which bytes are still taken; or NULL. */
static struct tdg__ticket *ticket_of(const struct tdg__encoded *encoded) {
    for (tdg__queue_t *at = encoded->readers.next; at != &encoded->readers;
         at = at->next) {
        struct tdg__ticket *ticket = ((tdg__large_read_t *)at)->ticket;

        if (ticket != NULL && ticket->bytes > 0)
            return ticket;
    }
    return NULL;
}

/* The answer is charged from now on,
 * in the place of what one of its readers has taken. */
static bool charge(tdg__large_t *large, const struct tdg__encoded *encoded) {
    struct tdg__ticket *ticket = ticket_of(encoded);

    if (large->budget == NULL)
        return true;
    if (!tdg__buf_charge(encoded->member, large->budget,
                         ticket != NULL ? ticket->bytes : 0))
        return false;
    if (ticket != NULL)
        ticket->bytes = 0;
    return true;
}

/* Calls all readers; an answer that could not be made is forgotten. They are the last to
 * need it: a call may begin another read of the same content. */
static void answer_all(struct tdg__encoded *encoded, int status) {
    tdg__buf_t *member = status == 0 ? tdg__buf_ref(encoded->member) : NULL;
    tdg__queue_t readers, *link;

    tdg__queue_init(&readers);
    while ((link = tdg__queue_take(&encoded->readers)) != NULL)
        tdg__queue_append(&readers, link);
    if (status < 0)
        forget(encoded);
    while ((link = tdg__queue_take(&readers)) != NULL) {
        tdg__large_read_t *read = (tdg__large_read_t *)link;

        read->encoded(read, member, status);
    }
    tdg__buf_unref(member);
}

static void done(tdg__heavy_job_t *job) {
    struct tdg__encoded *encoded = TDG__RECORD(struct tdg__encoded, job, job);
    tdg__large_t *large = encoded->large;

    tdg__buf_unref(encoded->bytes);
    encoded->bytes = NULL;
    encoded->member = encoded->made;
    assert(large->encoding > 0);
    large->encoding--;
    if (encoded->member == NULL) {
        answer_all(encoded, TDG_ENOMEM);
    } else if (!charge(large, encoded)) {
        answer_all(encoded, TDG_EAGAIN);
    } else {
        look_after(large);
        answer_all(encoded, 0);
    }
    if (large->closing && large->encoding == 0)
        large->idle(large->user);
}

static struct tdg__encoded *find_encoded(const tdg__large_t *large,
                                         const char *checksum) {
    for (tdg__queue_t *at = large->encoded.next; at != &large->encoded; at = at->next)
        if (strcmp(((struct tdg__encoded *)at)->checksum, checksum) == 0)
            return (struct tdg__encoded *)at;
    return NULL;
}

/* Begins to encode; NULL: memory is out. */
static struct tdg__encoded *encode(tdg__large_t *large, const tdg__content_t *content,
                                   const char *checksum) {
    struct tdg__encoded *encoded = tdg__calloc(1, sizeof(*encoded));

    if (encoded == NULL)
        return NULL;
    encoded->bytes = content->bytes != NULL
                         ? tdg__buf_ref(content->bytes)
                         : tdg__buf_create(content->data, content->len);
    if (encoded->bytes == NULL) {
        tdg__free(encoded);
        return NULL;
    }
    strcpy(encoded->checksum, checksum);
    encoded->large = large;
    tdg__queue_init(&encoded->readers);
    tdg__queue_append(&large->encoded, &encoded->link);
    large->encoding++;
    encoded->job.run = run;
    encoded->job.done = done;
    tdg__heavy_do(large->heavy, &encoded->job);
    return encoded;
}

void tdg__large_encode(tdg__large_t *large, tdg__large_read_t *read,
                       const tdg__content_t *content) {
    const char *checksum =
        json_string_value(json_object_get(content->metadata, "checksum"));
    struct tdg__encoded *encoded;

    assert(checksum != NULL && strlen(checksum) == TDG__CHECKSUM);
    encoded = find_encoded(large, checksum);
    if (encoded != NULL && encoded->member != NULL) {
        read->encoded(read, encoded->member, 0);
        return;
    }
    if (encoded == NULL)
        encoded = encode(large, content, checksum);
    if (encoded == NULL) {
        read->encoded(read, NULL, TDG_ENOMEM);
        return;
    }
    tdg__queue_append(&encoded->readers, &read->link);
}

/* ---- Life --------------------------------------------------------------- */

void tdg__large_init(tdg__large_t *large, uv_loop_t *loop, tdg__heavy_t *heavy) {
    *large = (tdg__large_t){.loop = loop, .heavy = heavy};
    tdg__queue_init(&large->tickets);
    tdg__queue_init(&large->waiting);
    tdg__queue_init(&large->encoded);
    tdg__turns_init(&large->turns);
    uv_timer_init(loop, &large->timer);
    large->timer.data = large;
}

void tdg__large_bind(tdg__large_t *large, tdg__budget_t *budget) {
    large->budget = tdg__budget_ref(budget);
}

void tdg__large_close(tdg__large_t *large, void (*idle)(void *user), void *user) {
    tdg__queue_t refused;

    large->closing = true;
    large->idle = idle;
    large->user = user;
    tdg__queue_init(&refused);
    while (large->waiting_count > 0)
        move_to(large, (tdg__large_read_t *)large->waiting.next, &refused);
    uv_close((uv_handle_t *)&large->timer, NULL);
    call_all(&refused, true);
    if (large->encoding == 0)
        idle(user);
}

void tdg__large_done(tdg__large_t *large) {
    assert(large->encoding == 0);
    while (!tdg__queue_is_empty(&large->encoded))
        forget((struct tdg__encoded *)large->encoded.next);
    while (!tdg__queue_is_empty(&large->tickets))
        destroy_ticket(large, (struct tdg__ticket *)large->tickets.next);
    tdg__turns_done(&large->turns);
    tdg__budget_unref(large->budget);
}

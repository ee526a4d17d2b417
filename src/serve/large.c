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
    LOOK_MS = 20, /* bytes come back on other threads; how often to look */
};

/* What was taken for the reads of one URI. */
struct tdg__ticket {
    struct tdg__ticket *next;
    unsigned reads;
    size_t bytes; /* 0 once an encoded answer has taken their place */
    char uri[];
};

/* One content as text. */
struct tdg__encoded {
    tdg__heavy_job_t job;
    struct tdg__encoded *next;
    tdg__large_t *large;
    tdg__buf_t *bytes;          /* while it is being encoded */
    tdg__buf_t *made;           /* the thread's; NULL: memory was out */
    tdg__buf_t *member;         /* the same for the loop; NULL: not yet */
    tdg__large_read_t *readers; /* who waits for it */
    char checksum[TDG__CHECKSUM + 1];
};

/* ---- Room --------------------------------------------------------------- */

/* The content twice, while it is handed on, and encoded: base64 adds a third. */
static size_t cost_of(uint64_t size) {
    return size > SIZE_MAX / 8 ? SIZE_MAX / 2 : (size_t)(2 * size + size / 2);
}

static struct tdg__ticket *find_ticket(const tdg__large_t *large, const char *uri) {
    struct tdg__ticket *ticket = large->tickets;

    while (ticket != NULL && strcmp(ticket->uri, uri) != 0)
        ticket = ticket->next;
    return ticket;
}

static struct tdg__ticket *create_ticket(tdg__large_t *large, const char *uri,
                                         size_t bytes) {
    struct tdg__ticket *ticket = tdg__malloc(sizeof(*ticket) + strlen(uri) + 1);

    if (ticket == NULL)
        return NULL;
    ticket->reads = 0;
    ticket->bytes = bytes;
    strcpy(ticket->uri, uri);
    ticket->next = large->tickets;
    large->tickets = ticket;
    large->ticket_count++;
    return ticket;
}

static void destroy_ticket(tdg__large_t *large, struct tdg__ticket *ticket) {
    struct tdg__ticket **at = &large->tickets;

    while (*at != ticket)
        at = &(*at)->next;
    *at = ticket->next;
    large->ticket_count--;
    if (ticket->bytes > 0)
        tdg__budget_give(large->budget, ticket->bytes);
    tdg__free(ticket);
}

/* Answers that nobody reads any more go. Others only let go of them, so a count of one
 * stays one. */
static void sweep(tdg__large_t *large) {
    struct tdg__encoded **at = &large->encoded;

    while (*at != NULL) {
        struct tdg__encoded *encoded = *at;

        if (encoded->member == NULL ||
            atomic_load_explicit(&encoded->member->refs, memory_order_acquire) > 1) {
            at = &encoded->next;
            continue;
        }
        *at = encoded->next;
        tdg__buf_unref(encoded->member);
        tdg__free(encoded);
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
    return (tdg__large_read_t *)(void *)((char *)turn -
                                         offsetof(tdg__large_read_t, turn));
}

static void enqueue(tdg__large_t *large, tdg__large_read_t *read) {
    read->until_ms = uv_now(large->loop) + WAIT_MS;
    read->prev = large->last;
    if (large->last != NULL)
        large->last->next = read;
    else
        large->first = read;
    large->last = read;
    large->waiting++;
    tdg__turns_put(&large->turns, &read->turn, read->client);
}

static void dequeue(tdg__large_t *large, tdg__large_read_t *read) {
    if (read->turn.lane != 0) /* else its turn was taken */
        tdg__turns_leave(&large->turns, &read->turn);
    if (read->prev != NULL)
        read->prev->next = read->next;
    else
        large->first = read->next;
    if (read->next != NULL)
        read->next->prev = read->prev;
    else
        large->last = read->prev;
    read->next = read->prev = NULL;
    large->waiting--;
}

/* Takes those out for whom it is over. They are called afterwards, as the next ones,
 * since a call may bring others. */
static tdg__large_read_t *take_over(tdg__large_t *large, uint64_t now_ms) {
    tdg__large_read_t *over = NULL, **last = &over, *next;

    for (tdg__large_read_t *read = large->first; read != NULL; read = next) {
        next = read->next;
        if (now_ms < read->until_ms && !read->cancelled(read))
            continue;
        dequeue(large, read);
        *last = read;
        last = &read->next;
    }
    return over;
}

/* Takes those out whose turn it is. The first that finds no room stops those behind it,
 * but for those that share with one before. */
static tdg__large_read_t *take_due(tdg__large_t *large) {
    tdg__large_read_t *due = NULL, **last = &due, *next;
    tdg__turn_t *turn;

    while ((turn = tdg__turns_next(&large->turns)) != NULL &&
           take_ticket(large, read_of(turn))) {
        tdg__turns_take(&large->turns);
        dequeue(large, read_of(turn));
        *last = read_of(turn);
        last = &read_of(turn)->next;
    }
    for (tdg__large_read_t *read = large->first; read != NULL; read = next) {
        next = read->next;
        if (find_ticket(large, read->uri) == NULL || !take_ticket(large, read))
            continue;
        dequeue(large, read);
        *last = read;
        last = &read->next;
    }
    return due;
}

static void call_all(tdg__large_read_t *reads, bool busy) {
    while (reads != NULL) {
        tdg__large_read_t *read = reads;

        reads = read->next;
        read->next = NULL;
        read->admitted(read, busy);
    }
}

static void on_time(uv_timer_t *timer);

static void look_after(tdg__large_t *large) {
    if (large->closing)
        return;
    if (large->first == NULL && large->encoded == NULL)
        uv_timer_stop(&large->timer);
    else if (!uv_is_active((uv_handle_t *)&large->timer))
        uv_timer_start(&large->timer, on_time, LOOK_MS, LOOK_MS);
}

static void pump(tdg__large_t *large) {
    tdg__large_read_t *due, *over;

    sweep(large);
    over = take_over(large, uv_now(large->loop));
    due = take_due(large);
    look_after(large);
    call_all(over, true);
    call_all(due, false);
}

static void on_time(uv_timer_t *timer) {
    pump(timer->data);
}

/* One more waits: where that is one too many, another one gives way, or it does itself.
 */
static void wait_for_turn(tdg__large_t *large, tdg__large_read_t *read) {
    tdg__large_read_t *refused = NULL;

    if (large->waiting >= TDG__LARGE_WAITING) {
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
    read->next = read->prev = NULL;
    if (large->budget == NULL || read->size <= TDG__HEAVY_BYTES) {
        read->admitted(read, false);
        return;
    }
    sweep(large);
    if ((large->first == NULL || find_ticket(large, read->uri) != NULL) &&
        take_ticket(large, read))
        read->admitted(read, false);
    else if (large->closing)
        read->admitted(read, true);
    else
        wait_for_turn(large, read);
}

void tdg__large_leave(tdg__large_t *large, tdg__large_read_t *read) {
    struct tdg__ticket *ticket = read->ticket;

    read->ticket = NULL;
    if (ticket == NULL || --ticket->reads > 0)
        return;
    destroy_ticket(large, ticket);
    if (large->first != NULL)
        uv_timer_start(&large->timer, on_time, 0, LOOK_MS); /* not from inside a call */
}

/* ---- Encoding ----------------------------------------------------------- */

/* In a thread. */
static void run(tdg__heavy_job_t *job) {
    struct tdg__encoded *encoded = (struct tdg__encoded *)job;

    encoded->made = tdg__content_member(encoded->bytes->data, encoded->bytes->len);
}

/* The answer counts from now on, in the place of what one of its readers has taken. */
static bool charge(tdg__large_t *large, const struct tdg__encoded *encoded) {
    const tdg__large_read_t *read = encoded->readers;
    struct tdg__ticket *ticket;

    if (large->budget == NULL)
        return true;
    while (read != NULL && (read->ticket == NULL || read->ticket->bytes == 0))
        read = read->next;
    ticket = read != NULL ? read->ticket : NULL;
    if (!tdg__buf_charge(encoded->member, large->budget,
                         ticket != NULL ? ticket->bytes : 0))
        return false;
    if (ticket != NULL)
        ticket->bytes = 0;
    return true;
}

static void answer_all(tdg__large_read_t *readers, tdg__buf_t *member, int status) {
    while (readers != NULL) {
        tdg__large_read_t *read = readers;

        readers = read->next;
        read->next = NULL;
        read->encoded(read, member, status);
    }
}

static void forget(tdg__large_t *large, struct tdg__encoded *encoded) {
    struct tdg__encoded **at = &large->encoded;

    while (*at != encoded)
        at = &(*at)->next;
    *at = encoded->next;
    tdg__buf_unref(encoded->member);
    tdg__free(encoded);
}

static void done(tdg__heavy_job_t *job) {
    struct tdg__encoded *encoded = (struct tdg__encoded *)job;
    tdg__large_t *large = encoded->large;
    tdg__large_read_t *readers = encoded->readers;

    tdg__buf_unref(encoded->bytes);
    encoded->bytes = NULL;
    encoded->member = encoded->made;
    large->encoding--;
    if (encoded->member == NULL) {
        forget(large, encoded);
        answer_all(readers, NULL, TDG_ENOMEM);
    } else if (!charge(large, encoded)) {
        forget(large, encoded);
        answer_all(readers, NULL, TDG_EAGAIN);
    } else {
        tdg__buf_t *member = tdg__buf_ref(encoded->member);

        encoded->readers = NULL;
        look_after(large);
        answer_all(readers, member, 0);
        tdg__buf_unref(member);
    }
    if (large->closing && large->encoding == 0)
        large->idle(large->user);
}

static struct tdg__encoded *find_encoded(const tdg__large_t *large,
                                         const char *checksum) {
    struct tdg__encoded *encoded = large->encoded;

    while (encoded != NULL && strcmp(encoded->checksum, checksum) != 0)
        encoded = encoded->next;
    return encoded;
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
    encoded->next = large->encoded;
    large->encoded = encoded;
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
    read->next = encoded->readers;
    encoded->readers = read;
}

/* ---- Life --------------------------------------------------------------- */

void tdg__large_init(tdg__large_t *large, uv_loop_t *loop, tdg__heavy_t *heavy) {
    *large = (tdg__large_t){.loop = loop, .heavy = heavy};
    tdg__turns_init(&large->turns);
    uv_timer_init(loop, &large->timer);
    large->timer.data = large;
}

void tdg__large_bind(tdg__large_t *large, tdg__budget_t *budget) {
    large->budget = tdg__budget_ref(budget);
}

void tdg__large_close(tdg__large_t *large, void (*idle)(void *user), void *user) {
    tdg__large_read_t *waiting = NULL, **last = &waiting;

    large->closing = true;
    large->idle = idle;
    large->user = user;
    while (large->first != NULL) {
        *last = large->first;
        dequeue(large, large->first);
        last = &(*last)->next;
    }
    uv_close((uv_handle_t *)&large->timer, NULL);
    call_all(waiting, true);
    if (large->encoding == 0)
        idle(user);
}

void tdg__large_done(tdg__large_t *large) {
    assert(large->encoding == 0);
    while (large->encoded != NULL)
        forget(large, large->encoded);
    while (large->tickets != NULL)
        destroy_ticket(large, large->tickets);
    tdg__turns_done(&large->turns);
    tdg__budget_unref(large->budget);
}

/* SPDX-License-Identifier: MIT */
#include "client.h"

#include <string.h>

#include <tidings/error.h>

static struct interest *interest_of(struct truth *truth, int client, int target) {
    return &truth->clients[client].interests[target];
}

static bool concerns(const struct truth *truth, int client, int target, int resource) {
    if (!cast_covers(target, resource))
        return false;
    return !cast_is_template(target) || truth->may_read[client][resource];
}

void truth_init(struct truth *truth, const struct cast_world *world, uint64_t epoch,
                uint64_t *hits) {
    int c;
    int r;

    memset(truth, 0, sizeof(*truth));
    truth->epoch = epoch;
    truth->hits = hits;
    truth->shared_numbers = world->opts.shared_numbers;
    for (c = 0; c < CLIENTS; c++)
        for (r = 0; r < RESOURCES; r++)
            truth->may_read[c][r] = !world->may_read || cast_may_read(c, r);
}

/* ---- What happens ------------------------------------------------------- */

void truth_changed(struct truth *truth, const struct cast_news *news, uint64_t number) {
    int r = news->resource;
    int c;
    int t;

    truth->serial++;
    truth->resources[r].number = number;
    for (c = 0; c < CLIENTS; c++)
        for (t = 0; t < TARGETS; t++) {
            struct interest *interest = interest_of(truth, c, t);

            if (!interest->wanted || !concerns(truth, c, t, r))
                continue;
            /* Who is away is told of everything, whatever the filter. */
            if (!interest->live || cast_passes(interest->filter, news))
                interest->owed[r].number = number;
        }
}

/* With its right a client loses what it has not been told so far. */
void truth_set_right(struct truth *truth, int client, int resource, bool may_read) {
    int t;

    truth->may_read[client][resource] = may_read;
    for (t = RESOURCES; t < TARGETS && !may_read; t++)
        interest_of(truth, client, t)->owed[resource] = (struct owed){0};
}

/* Who waits for a watcher without a cursor reads the resource after the acknowledgement.
 */
void truth_unseen(struct truth *truth, int resource) {
    int c;
    int t;

    truth->serial++;
    truth->hits[HIT_UNSEEN]++;
    truth->resources[resource].unseen = truth->serial;
    for (c = 0; c < CLIENTS; c++)
        for (t = 0; t < TARGETS; t++) {
            struct interest *interest = interest_of(truth, c, t);

            if (!interest->wanted || !concerns(truth, c, t, resource))
                continue;
            /* A template whose watcher is late cannot name what is in no list and no
             * history, and has given its answer about `resumed` before. */
            if (interest->live && interest->settled && cast_is_template(t))
                continue;
            if (!interest->live || interest->settled || interest->resumes)
                interest->owed[resource].serial = truth->serial;
        }
}

/* ---- Messages ----------------------------------------------------------- */

static void forget_owed(struct interest *interest) {
    memset(interest->owed, 0, sizeof(interest->owed));
}

static void drop_interest(struct interest *interest) {
    *interest = (struct interest){0};
}

/* No subscription on this stream any more. Who has a cursor can come back. */
static void off_stream(struct interest *interest) {
    interest->live = false;
    interest->settled = false;
    interest->acknowledged = false;
    interest->received = false;
    if (!interest->cursor.valid)
        drop_interest(interest);
}

static void receive_note(struct truth *truth, struct client *client,
                         const struct message *message) {
    int t;

    for (t = 0; t < TARGETS; t++) {
        struct interest *interest = &client->interests[t];
        struct owed *owed = &interest->owed[message->target];

        if (owed->number != 0 && owed->number <= message->number) {
            owed->number = 0;
            truth->hits[HIT_AWAY_TOLD] += interest->resumes;
        }
        if (owed->serial != 0 && owed->serial <= message->cursor.serial) {
            owed->serial = 0;
            truth->hits[HIT_UNSEEN_TOLD]++;
        }
    }
}

static void receive_one(struct truth *truth, struct client *client,
                        const struct message *message) {
    int t;

    if (message->kind == MESSAGE_NOTE) {
        receive_note(truth, client, message);
        client->position = message->cursor;
        truth->hits[HIT_REWOUND_TOLD_AGAIN] += client->lost[message->target];
        client->lost[message->target] = false;
    }
    if (message->kind == MESSAGE_ACK)
        client->interests[message->target].received = true;

    for (t = 0; t < TARGETS; t++)
        if (client->interests[t].received)
            client->interests[t].cursor = message->cursor;
    truth->kept[truth->kept_count++ % KEPT_CURSORS] = message->cursor;

    if (message->kind == MESSAGE_END)
        for (t = 0; t < TARGETS; t++)
            off_stream(&client->interests[t]);
}

static void receive_first(struct truth *truth, struct client *client) {
    struct message message = client->messages[0];

    client->message_count--;
    memmove(&client->messages[0], &client->messages[1],
            (size_t)client->message_count * sizeof(client->messages[0]));
    receive_one(truth, client, &message);
}

struct kept_cursor truth_kept(const struct truth *truth, unsigned age) {
    if (age >= KEPT_CURSORS || age >= truth->kept_count)
        return (struct kept_cursor){0};
    return truth->kept[(truth->kept_count - 1 - age) % KEPT_CURSORS];
}

void client_receive(struct truth *truth, int client) {
    while (truth->clients[client].message_count > 0)
        receive_first(truth, &truth->clients[client]);
}

static void send_message(struct truth *truth, int client, struct message message,
                         tdg__cursor_t cursor) {
    struct client *own = &truth->clients[client];

    message.cursor = (struct kept_cursor){true, cursor, truth->serial};
    if (own->message_count == ON_THE_WAY)
        receive_first(truth, own);
    own->messages[own->message_count++] = message;
}

/* ---- Streams ------------------------------------------------------------ */

void client_opened(struct truth *truth, int client, tdg__stream_t stream,
                   tdg__cursor_t cursor) {
    struct client *own = &truth->clients[client];

    own->position = (struct kept_cursor){true, cursor, truth->serial};
    memset(own->lost, 0, sizeof(own->lost));

    own->stream = stream;
    own->open = true;
    own->over = false;
    memset(own->told, 0, sizeof(own->told));
}

void client_left(struct truth *truth, int client) {
    struct client *own = &truth->clients[client];
    int t;

    own->open = false;
    own->over = false;
    own->message_count = 0;
    for (t = 0; t < TARGETS; t++)
        drop_interest(&own->interests[t]);
}

void client_dropped(struct truth *truth, int client, int lost) {
    struct client *own = &truth->clients[client];
    int t;

    if (lost > own->message_count)
        lost = own->message_count;
    own->message_count -= lost;
    truth->hits[HIT_LOST] += (uint64_t)lost;
    client_receive(truth, client);
    own->open = false;
    own->over = false;
    for (t = 0; t < TARGETS; t++)
        off_stream(&own->interests[t]);
}

int client_loses(struct truth *truth, int client, int lost) {
    struct client *own = &truth->clients[client];
    int first = own->message_count > lost ? own->message_count - lost : 0;
    int end = own->message_count;

    own->message_count = first;
    client_receive(truth, client);
    lost = 0;
    for (int i = first; i < end; i++) {
        const struct message *message = &own->messages[i];

        if (message->kind == MESSAGE_ACK) {
            own->interests[message->target].received = true;
        } else {
            own->lost[message->target] = true;
            lost++;
        }
    }
    return lost;
}

/* Whoever goes back to somewhere else than where it was relies on nothing. */
void client_rewound(struct truth *truth, int client, const struct kept_cursor *cursor,
                    bool lost, bool complete) {
    struct client *own = &truth->clients[client];
    bool foreign = cursor->cursor.epoch != truth->epoch;
    bool too_new = !foreign && (own->position.cursor.epoch != truth->epoch ||
                                cursor->cursor.number > own->position.cursor.number);

    for (int t = 0; t < TARGETS; t++) {
        struct interest *interest = &own->interests[t];

        for (int r = 0; r < RESOURCES; r++)
            interest->may_repeat[r] |= interest->live && cast_covers(t, r);
        if ((lost && too_new) || (!complete && cast_is_template(t)))
            forget_owed(interest);
    }
}

/* ---- Subscriptions ------------------------------------------------------ */

/* What happened after the cursor was given out. */
static void owe_since(struct truth *truth, int client, int target,
                      const struct kept_cursor *cursor) {
    struct interest *interest = interest_of(truth, client, target);
    uint64_t c = cursor->cursor.epoch == truth->epoch ? cursor->cursor.number : 0;
    int r;

    for (r = 0; r < RESOURCES; r++) {
        if (!concerns(truth, client, target, r))
            continue;
        if (truth->resources[r].number > c)
            interest->owed[r].number = truth->resources[r].number;
        if (truth->resources[r].unseen > cursor->serial)
            interest->owed[r].serial = truth->resources[r].unseen;
    }
}

static void client_resumes(struct truth *truth, int client, int target,
                           const struct kept_cursor *cursor) {
    struct interest *interest = interest_of(truth, client, target);
    struct kept_cursor *own = &interest->cursor;

    /* With its own last cursor a client relies on all that it has not been told. */
    if (!own->valid || own->cursor.epoch != cursor->cursor.epoch ||
        own->cursor.number != cursor->cursor.number || own->serial != cursor->serial)
        forget_owed(interest);
    interest->resumes = true;
    owe_since(truth, client, target, cursor);
}

/* An acknowledgement on its way is of an earlier request. */
static void receive_acknowledgement(struct truth *truth, int client, int target) {
    const struct client *own = &truth->clients[client];

    for (int i = 0; i < own->message_count; i++)
        if (own->messages[i].kind == MESSAGE_ACK && own->messages[i].target == target) {
            client_receive(truth, client);
            return;
        }
}

/* What waits already may be older than the last change, which a filter kept away: it will
 * do, as the client reads the resource after it. So anything from now on counts. */
static void owe_again(struct truth *truth, int client, int target,
                      const struct kept_cursor *cursor) {
    struct interest *interest = interest_of(truth, client, target);
    uint64_t c = cursor->cursor.epoch == truth->epoch ? cursor->cursor.number : 0;

    truth->serial++;
    for (int r = 0; r < RESOURCES; r++)
        if (concerns(truth, client, target, r) &&
            (truth->resources[r].number > c ||
             truth->resources[r].unseen > cursor->serial))
            interest->owed[r].serial = truth->serial;
}

/* Whether one of two cursors asks for more: a foreign one for everything. */
static bool is_older(const struct truth *truth, const struct kept_cursor *one,
                     const struct kept_cursor *other) {
    if (other->cursor.epoch != truth->epoch)
        return false;
    return one->cursor.epoch != truth->epoch || one->cursor.number < other->cursor.number;
}

/* A client with a subscription relies on what it is owed, and with a cursor on what came
 * after that too. Its next cursor is that of the answer: what is on its way was written
 * before the server knew of this one. */
static void client_resumes_again(struct truth *truth, int client, int target,
                                 const struct kept_cursor *cursor,
                                 const tdg__subscribed_t *how) {
    struct interest *interest = interest_of(truth, client, target);

    receive_acknowledgement(truth, client, target);
    interest->resumes = true;
    interest->received = false;
    interest->acknowledged = false;
    if (interest->cursor.valid && is_older(truth, cursor, &interest->cursor))
        interest->cursor = *cursor;
    if (how->resumed || !cast_is_template(target))
        owe_again(truth, client, target, cursor);
}

static void client_asks_again(struct truth *truth, int client, int target,
                              const struct kept_cursor *cursor, bool since,
                              const tdg__subscribed_t *how) {
    struct interest *interest = interest_of(truth, client, target);

    if (cursor->valid)
        client_resumes_again(truth, client, target, cursor, how);
    interest->since |= since;
    for (int r = 0; r < RESOURCES; r++)
        interest->may_repeat[r] |= (cursor->valid || since) && cast_covers(target, r);
}

void client_subscribed(struct truth *truth, int client, int target, int filter,
                       const struct kept_cursor *cursor, bool since,
                       const tdg__subscribed_t *how) {
    struct interest *interest = interest_of(truth, client, target);

    interest->filter = filter;
    if (interest->live) {
        client_asks_again(truth, client, target, cursor, since, how);
        return;
    }

    if (cursor->valid)
        client_resumes(truth, client, target, cursor);
    else
        drop_interest(interest);
    interest->filter = filter;
    interest->wanted = true;
    interest->live = true;
    interest->since = since;
    interest->cursor = *cursor;
    if (how->state != TDG__SUBSCRIBING)
        client_settled(truth, client, target, 0, how->resumed);
}

void client_settled(struct truth *truth, int client, int target, int status,
                    bool resumed) {
    struct interest *interest = interest_of(truth, client, target);
    int r;

    if (status < 0 && status != TDG_ETIMEDOUT) {
        client_unsubscribed(truth, client, target);
        return;
    }

    interest->settled = true;
    for (r = 0; r < RESOURCES; r++)
        interest->may_repeat[r] =
            (interest->resumes || interest->since) && cast_covers(target, r);
    if (!resumed && cast_is_template(target))
        forget_owed(interest); /* of a URI or list nothing is left out */
    if (status == TDG_ETIMEDOUT && cast_is_template(target))
        for (r = 0; r < RESOURCES; r++)
            interest->owed[r].serial = 0;
}

void client_acknowledged(struct truth *truth, int client, int target,
                         tdg__cursor_t cursor) {
    struct interest *interest = interest_of(truth, client, target);

    if (interest->acknowledged)
        return;
    interest->acknowledged = true;
    send_message(truth, client, (struct message){.kind = MESSAGE_ACK, .target = target},
                 cursor);
}

void client_unsubscribed(struct truth *truth, int client, int target) {
    receive_acknowledgement(truth, client, target);
    drop_interest(interest_of(truth, client, target));
}

/* ---- Promises ----------------------------------------------------------- */

static const char *check_asked(struct truth *truth, int client, int resource) {
    bool live = false;
    bool covered = false;
    int t;

    for (t = 0; t < TARGETS; t++) {
        struct interest *interest = interest_of(truth, client, t);

        if (!cast_covers(t, resource) || !interest->live)
            continue;
        covered = true;
        if (!concerns(truth, client, t, resource))
            continue;
        live = true;
        if (interest->acknowledged)
            return NULL;
    }
    if (live)
        return "promise 1: told before the acknowledgement";
    return covered ? "promise 6: told of what the client may not read"
                   : "promise 2 or 6: told of what the client is not subscribed to";
}

static const char *check_order(struct truth *truth, struct client *client,
                               const tdg__note_t *note, int resource) {
    uint64_t before = client->told_number[resource];
    bool told = client->told[resource];
    bool may_repeat = truth->shared_numbers || note->change->assumed;
    int t;

    for (t = 0; t < TARGETS; t++) {
        may_repeat |= client->interests[t].may_repeat[resource];
        client->interests[t].may_repeat[resource] = false;
    }
    client->told[resource] = true;
    client->told_number[resource] = note->change->number;
    if (told && note->change->number < before)
        return "promise 4: a version went back";
    if (told && note->change->number == before && !may_repeat)
        return "promise 4: a version came twice";
    return NULL;
}

const char *client_took(struct truth *truth, int client, const tdg__note_t *note,
                        int resource) {
    struct client *own = &truth->clients[client];
    const char *broken;

    if (own->over)
        return "promise 2: told after the end";
    if (note->kind == TDG__NOTE_END) {
        own->over = true;
        send_message(truth, client, (struct message){.kind = MESSAGE_END}, note->cursor);
        return NULL;
    }

    broken = check_asked(truth, client, resource);
    if (broken == NULL)
        broken = check_order(truth, own, note, resource);
    send_message(truth, client,
                 (struct message){.kind = MESSAGE_NOTE,
                                  .target = resource,
                                  .number = note->change->number},
                 note->cursor);
    return broken;
}

const char *truth_check(const struct truth *truth, int *ret_client, int *ret_target,
                        int *ret_resource) {
    int c;
    int t;
    int r;

    for (c = 0; c < CLIENTS; c++)
        for (t = 0; t < TARGETS; t++)
            for (r = 0; r < RESOURCES; r++) {
                const struct interest *interest = &truth->clients[c].interests[t];

                if (!truth->clients[c].open || !interest->live)
                    continue;
                *ret_client = c;
                *ret_target = t;
                *ret_resource = r;
                if (interest->owed[r].serial != 0)
                    return "promise 5: never told of an unseen change";
                if (interest->owed[r].number != 0)
                    return interest->resumes
                               ? "promise 5: never told of a change while away"
                               : "promise 3: never told of the last change";
            }
    return NULL;
}

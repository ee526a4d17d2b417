/* SPDX-License-Identifier: MIT
 *
 * A subscriber reads the resource when it is told that it changed; a poller reads it all
 * the time. Both keep a connection open for reading. */
#include "sources.h"

/* Every change up to `number` that was made and that this client had not seen is seen
 * now. */
static void mark(sources_track_t *track, size_t *next, uint32_t number, uint64_t now,
                 sources_audience_t id) {
    while (*next < track->count && track->first + *next <= number &&
           track->changes[*next].made != 0)
        track->changes[(*next)++].known[id] = now;
}

/* The same for the notification. A change that was made after it came, and before the
 * content was read, has its own notification on the way. */
static void mark_told(sources_track_t *track, size_t *next, uint32_t number,
                      uint64_t told) {
    while (*next < track->count && track->first + *next <= number &&
           track->changes[*next].made != 0 && track->changes[*next].made <= told)
        track->changes[(*next)++].told = told;
}

static void account(sources_client_t *client, sources_wire_t *wire) {
    client->requests += wire->requests;
    client->bytes += wire->bytes;
    sources_wire_close(wire);
}

void *sources_subscribe(void *arg) {
    sources_client_t *client = arg;
    sources_track_t *track = client->track;
    size_t next_told = 0, next_known = 0;
    sources_wire_t stream, reads;

    sources_wire_open(&reads, track->world->ports[client->id]);
    sources_wire_open(&stream, track->world->ports[client->id]);
    sources_wire_listen(&stream, track->kind->uri);
    client->opening_bytes = stream.bytes;
    stream.requests = stream.bytes = 0;
    client->ready = true;
    while (!*track->stop) {
        uint64_t told;
        uint32_t number;

        if (!sources_wire_told(&stream))
            continue;
        told = bench_now_ns();
        number = sources_wire_read(&reads, track->kind->uri);
        mark(track, &next_known, number, bench_now_ns(), SUBSCRIBER);
        mark_told(track, &next_told, number, told);
    }
    account(client, &reads);
    account(client, &stream);
    return NULL;
}

void *sources_poll(void *arg) {
    sources_client_t *client = arg;
    sources_track_t *track = client->track;
    uint64_t due = client->first_ns, longest_nap = 100000000;
    sources_wire_t wire;
    size_t next = 0;

    sources_wire_open(&wire, track->world->ports[client->id]);
    client->ready = true;
    while (!*track->stop) {
        uint64_t now = bench_now_ns();
        uint32_t number;

        if (now < due) {
            sources_sleep_until(due - now > longest_nap ? now + longest_nap : due);
            continue;
        }
        number = sources_wire_read(&wire, track->kind->uri);
        mark(track, &next, number, bench_now_ns(), client->id);
        due += client->every_ns;
    }
    account(client, &wire);
    return NULL;
}

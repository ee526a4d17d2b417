/* SPDX-License-Identifier: MIT
 *
 * Whether updates arrive, and whether requests work while streams are open. */
#include <stdio.h>
#include <stdlib.h>

#include "doctor/doctor.h"

/* ---- Updates -------------------------------------------------------------------- */

struct tally {
    size_t changed, updated, silent; /* silent: changed without an update */
    char first_silent[200];
    uint64_t first_us; /* of an update */
};

static void compare(doctor_t *doctor, struct tally *ret) {
    const doctor_held_t *held = &doctor->held[doctor->era];
    json_t *uri;
    size_t i;

    *ret = (struct tally){.changed = 0};
    json_array_foreach(doctor_uris(doctor), i, uri) {
        const char *name = json_string_value(uri);
        const json_t *before = json_object_get(held->before, name);
        const json_t *after = json_object_get(held->after, name);
        bool changed = before != NULL && (after == NULL || !json_equal(before, after));
        uint64_t at_us;

        ret->changed += changed;
        if (doctor_was_notified(doctor, doctor->era, name, &at_us)) {
            ret->updated++;
            if (ret->first_us == 0 || at_us < ret->first_us)
                ret->first_us = at_us;
        } else if (changed && ret->silent++ == 0) {
            snprintf(ret->first_silent, sizeof(ret->first_silent), "%s", name);
        }
    }
}

static bool is_stream_open(const doctor_t *doctor) {
    const doctor_call_t *updates = doctor->held[doctor->era].updates;

    return updates != NULL &&
           (doctor->url == NULL || (updates->is_stream && updates->status == 200));
}

static void judge_updates(doctor_t *doctor, const struct tally *tally) {
    doctor_fact(doctor, "changed", (json_int_t)tally->changed);
    doctor_fact(doctor, "notified", (json_int_t)tally->updated);
    if (tally->silent > 0) {
        doctor_saw(doctor, "%zu changed without an update, the first is %s",
                   tally->silent, tally->first_silent);
        doctor_bad(doctor, DOCTOR_FAILED,
                   "The server has to send notifications/resources/updated for what is "
                   "subscribed to. Does it watch the source of this resource? `tidings "
                   "serve` does. If checks of streams have problems as well, or show no "
                   "keep-alives, fix those first: a proxy that buffers (nginx: "
                   "proxy_buffering off) delays updates.");
    } else if (tally->updated > 0) {
        doctor_saw(doctor, "%zu changed; updates arrived for %zu", tally->changed,
                   tally->updated);
        if (doctor->triggered && tally->first_us > doctor->trigger_us) {
            doctor_saw(doctor, "%.1f ms after the trigger was started",
                       (double)(tally->first_us - doctor->trigger_us) / 1000);
            doctor_fact(doctor, "latency_us",
                        (json_int_t)(tally->first_us - doctor->trigger_us));
        }
    } else if (doctor->triggered) {
        doctor_saw(doctor, "the trigger ran, but nothing changed and no update arrived");
        doctor_bad(doctor, DOCTOR_WARNING,
                   "Let --trigger change a resource that --uri names. If it did: the "
                   "server neither notifies of the change nor serves it.");
    } else {
        doctor_skip(doctor, "nothing changed. Change a resource while the doctor waits, "
                            "or let --trigger CMD do it");
    }
    if (doctor->trigger_failed) {
        doctor_saw(doctor, "the trigger failed");
        doctor_bad(doctor, DOCTOR_WARNING,
                   "Find out why the command of --trigger fails.");
    }
}

static void check_arrive(doctor_t *doctor) {
    struct tally tally;

    doctor_did(doctor, "subscribed to %zu resource%s, read before and after",
               json_array_size(doctor_uris(doctor)),
               json_array_size(doctor_uris(doctor)) == 1 ? "" : "s");
    if (!is_stream_open(doctor)) {
        doctor_skip(doctor, "there is no stream, see stream.head and stream.open");
        return;
    }
    if (doctor->url != NULL && doctor->held[doctor->era].updates->bytes == 0 &&
        doctor_nothing_passes(doctor)) {
        doctor_skip(doctor, "nothing arrives on streams, see stream.first-byte");
        return;
    }
    if (!doctor->held[doctor->era].subscribed) {
        doctor_skip(doctor, "no subscription was accepted, see capability.subscribe");
        return;
    }
    compare(doctor, &tally);
    if (tally.silent > 0 && doctor->held[doctor->era].updates->full)
        doctor_skip(doctor, "more arrived on the stream than the doctor keeps");
    else
        judge_updates(doctor, &tally);
}

const doctor_check_t doctor_update_checks[] = {
    {"updates.arrive", "Updates arrive", NULL,
     DOCTOR_EACH_ERA | DOCTOR_NEEDS_URI | DOCTOR_NEEDS_STREAMS, check_arrive},
    {NULL, NULL, NULL, 0, NULL},
};

/* ---- Concurrent requests ------------------------------------------------------ */

enum { PARALLEL = 8 };

static int by_time(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

/* Sends all, then waits for all. Returns how many were answered, with their times. */
static size_t send_all(doctor_t *doctor, uint64_t times[PARALLEL]) {
    const doctor_request_t request = {
        .era = doctor->era,
        .method = doctor->era == DOCTOR_MODERN ? "server/discover" : "ping"};
    doctor_call_t *calls[PARALLEL];
    size_t answered = 0;

    for (size_t i = 0; i < PARALLEL; i++)
        calls[i] = doctor_send(doctor, &request);
    for (size_t i = 0; i < PARALLEL; i++) {
        doctor_wait(calls[i], doctor_is_answered);
        if (calls[i]->message != NULL && (doctor->url == NULL || calls[i]->status == 200))
            times[answered++] = calls[i]->answered_us - calls[i]->began_us;
    }
    return answered;
}

static void check_parallel(doctor_t *doctor) {
    uint64_t times[PARALLEL] = {0};
    size_t answered;

    doctor_did(doctor, "sent %d requests at once with streams open", PARALLEL);
    answered = send_all(doctor, times);
    doctor_saw(doctor, "%zu answered", answered);
    if (answered < PARALLEL)
        doctor_bad(doctor, DOCTOR_FAILED,
                   "Requests must work while streams are open. Does a proxy allow too "
                   "few connections (browsers have six per host with HTTP/1.1), or does "
                   "the server have too few workers (each stream may take one)?");
    if (answered == 0)
        return;
    qsort(times, answered, sizeof(times[0]), by_time);
    doctor_saw(doctor, "half of them within %.1f ms, all within %.1f ms",
               (double)times[answered / 2] / 1000, (double)times[answered - 1] / 1000);
    doctor_fact(doctor, "p50_us", (json_int_t)times[answered / 2]);
    doctor_fact(doctor, "max_us", (json_int_t)times[answered - 1]);
    if (times[answered - 1] > (uint64_t)DOCTOR_SOON_MS * 1000)
        doctor_bad(doctor, DOCTOR_WARNING,
                   "That is slow for requests that do nothing: does the server process "
                   "them one after the other, or does a stream block a worker?");
}

const doctor_check_t doctor_load_checks[] = {
    {"requests.parallel", "Requests work while streams are open", NULL,
     DOCTOR_EACH_ERA | DOCTOR_NEEDS_STREAMS, check_parallel},
    {NULL, NULL, NULL, 0, NULL},
};

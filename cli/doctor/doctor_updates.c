/* SPDX-License-Identifier: MIT
 *
 * Whether updates arrive, and whether requests work beside streams. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "doctor/doctor.h"

/* ---- Updates -------------------------------------------------------------------- */

struct told {
    size_t changed, told, silent; /* silent: changed, and nothing was told */
    char first_silent[200];
    uint64_t first_us; /* of an update */
};

static void compare(doctor_t *doctor, doctor_era_t era, struct told *ret) {
    const doctor_held_t *held = &doctor->held[era];
    json_t *uri;
    size_t i;

    *ret = (struct told){.changed = 0};
    json_array_foreach(doctor_uris(doctor), i, uri) {
        const char *name = json_string_value(uri);
        const json_t *before = json_object_get(held->before, name);
        const json_t *after = json_object_get(held->after, name);
        bool changed = before != NULL && (after == NULL || !json_equal(before, after));
        uint64_t at_us;

        ret->changed += changed;
        if (doctor_was_told(doctor, era, name, &at_us)) {
            ret->told++;
            if (ret->first_us == 0 || at_us < ret->first_us)
                ret->first_us = at_us;
        } else if (changed && ret->silent++ == 0) {
            snprintf(ret->first_silent, sizeof(ret->first_silent), "%s", name);
        }
    }
}

static bool stream_is_there(const doctor_t *doctor, doctor_era_t era) {
    const doctor_exchange_t *seen = &doctor->held[era].updates;

    return doctor->url == NULL || (seen->begun && seen->is_stream && seen->status == 200);
}

static void judge_updates(doctor_t *doctor, const struct told *told,
                          doctor_result_t *result) {
    doctor_fact(result, "changed", (json_int_t)told->changed);
    doctor_fact(result, "told", (json_int_t)told->told);
    if (told->silent > 0) {
        doctor_saw(result, "%zu changed without an update, the first is %s", told->silent,
                   told->first_silent);
        doctor_bad(
            result, DOCTOR_FAILED,
            "The server has to send notifications/resources/updated for what is "
            "subscribed to. Does it watch the source of this resource? "
            "`tidings serve` does. If checks of streams are bad as well, or show no "
            "keep-alives, fix those first: a proxy that buffers (nginx: "
            "proxy_buffering off) delays updates.");
    } else if (told->told > 0) {
        doctor_saw(result, "%zu changed, an update arrived for %zu", told->changed,
                   told->told);
        if (doctor->triggered && told->first_us > doctor->trigger_us) {
            doctor_saw(result, "%.1f ms after the trigger was started",
                       (double)(told->first_us - doctor->trigger_us) / 1000);
            doctor_fact(result, "latency_us",
                        (json_int_t)(told->first_us - doctor->trigger_us));
        }
    } else if (doctor->triggered) {
        doctor_saw(result, "the trigger ran, but nothing changed and no update arrived");
        doctor_bad(result, DOCTOR_WARNING,
                   "Let --trigger change a resource that --uri names. If it did: the "
                   "server neither notifies of the change nor serves it.");
    } else {
        doctor_skip(result,
                    "nothing changed meanwhile. Change a resource while the doctor "
                    "waits, or let --trigger CMD do it");
    }
    if (doctor->trigger_failed) {
        doctor_saw(result, "the trigger failed");
        doctor_bad(result, DOCTOR_WARNING, "Look why the command of --trigger fails.");
    }
}

static void check_arrive(doctor_t *doctor, doctor_era_t era, doctor_result_t *result) {
    struct told told;

    doctor_did(result, "subscribed to %zu resource%s, read before and after",
               json_array_size(doctor_uris(doctor)),
               json_array_size(doctor_uris(doctor)) == 1 ? "" : "s");
    if (!stream_is_there(doctor, era)) {
        doctor_skip(result, "there is no stream, see stream.head and stream.open");
        return;
    }
    if (doctor->url != NULL && doctor->held[era].updates.bytes == 0 &&
        doctor_nothing_passes(doctor)) {
        doctor_skip(result, "nothing arrives on streams, see stream.first-byte");
        return;
    }
    if (!doctor->held[era].subscribed) {
        doctor_skip(result, "no subscription was accepted, see capability.subscribe");
        return;
    }
    compare(doctor, era, &told);
    judge_updates(doctor, &told, result);
}

const doctor_check_t doctor_update_checks[] = {
    {"updates.arrive", "Updates arrive",
     DOCTOR_EACH_ERA | DOCTOR_NEEDS_URI | DOCTOR_NEEDS_STREAMS, check_arrive},
    {NULL, NULL, 0, NULL},
};

/* ---- Requests beside streams ------------------------------------------------------ */

enum { PARALLEL = 8 };

static int by_time(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

/* Sends all, then waits for all. Returns how many were answered, with their times. */
static size_t parallel_http(doctor_t *doctor, doctor_era_t era,
                            uint64_t times[PARALLEL]) {
    bool modern = era == DOCTOR_MODERN;
    const char *method = modern ? "server/discover" : "ping";
    const char *version = modern ? DOCTOR_MODERN_VERSION : doctor->legacy_version;
    doctor_exchange_t seen[PARALLEL];
    size_t answered = 0;

    for (size_t i = 0; i < PARALLEL; i++) {
        char *text = doctor_compose(era, version, doctor_next_id(doctor), method, NULL);
        const doctor_request_t request = {.method = TDG__WEB_POST,
                                          .era = era,
                                          .body = text,
                                          .rpc_method = modern ? method : NULL,
                                          .version = version,
                                          .session = modern ? NULL : doctor->session};

        doctor_begin(doctor, &request, &seen[i]);
        tdg__free(text);
    }
    for (size_t i = 0; i < PARALLEL; i++) {
        doctor_until(doctor, doctor_over, &seen[i], doctor_patience(doctor));
        if (seen[i].over && seen[i].status == 200 && seen[i].tape.count > 0)
            times[answered++] = seen[i].over_us - seen[i].began_us;
        doctor_end(&seen[i]);
    }
    return answered;
}

struct wanted {
    const doctor_tape_t *tape;
    json_int_t first;
};

static bool all_answered(void *arg) {
    const struct wanted *wanted = arg;

    for (int i = 0; i < PARALLEL; i++)
        if (doctor_find_answer(wanted->tape, wanted->first + i) == NULL)
            return false;
    return true;
}

static size_t parallel_program(doctor_t *doctor, doctor_era_t era,
                               uint64_t times[PARALLEL]) {
    bool modern = era == DOCTOR_MODERN;
    const doctor_program_t *program = doctor->programs[era];
    struct wanted wanted = {&program->tape, doctor->last_id + 1};
    uint64_t began_us = doctor_now_us();
    size_t answered = 0;

    for (size_t i = 0; i < PARALLEL; i++) {
        char *text = doctor_compose(
            era, modern ? DOCTOR_MODERN_VERSION : doctor->legacy_version,
            doctor_next_id(doctor), modern ? "server/discover" : "ping", NULL);

        if (text != NULL && program->started)
            tdg__child_send(program->child, text, strlen(text));
        tdg__free(text);
    }
    doctor_until(doctor, all_answered, &wanted, doctor_patience(doctor));
    for (size_t i = 0; i < program->tape.count; i++) {
        const json_t *id = json_object_get(program->tape.heard[i].message, "id");

        if (json_integer_value(id) >= wanted.first && answered < PARALLEL)
            times[answered++] = program->tape.heard[i].at_us - began_us;
    }
    return answered;
}

static void check_parallel(doctor_t *doctor, doctor_era_t era, doctor_result_t *result) {
    uint64_t times[PARALLEL] = {0};
    size_t answered;

    doctor_did(result, "sent %d requests at once beside open streams", PARALLEL);
    answered = doctor->url != NULL ? parallel_http(doctor, era, times)
                                   : parallel_program(doctor, era, times);
    doctor_saw(result, "%zu answered", answered);
    if (answered < PARALLEL)
        doctor_bad(
            result, DOCTOR_FAILED,
            "Requests must work while streams are open. Does a proxy allow too few "
            "connections (browsers have six per host with HTTP/1.1), or does the "
            "server have too few workers (each stream may take one)?");
    if (answered == 0)
        return;
    qsort(times, answered, sizeof(times[0]), by_time);
    doctor_saw(result, "half of them within %.1f ms, all within %.1f ms",
               (double)times[answered / 2] / 1000, (double)times[answered - 1] / 1000);
    doctor_fact(result, "p50_us", (json_int_t)times[answered / 2]);
    doctor_fact(result, "max_us", (json_int_t)times[answered - 1]);
    if (times[answered - 1] > (uint64_t)DOCTOR_SOON_MS * 1000)
        doctor_bad(result, DOCTOR_WARNING,
                   "That is slow for requests that do nothing: are they done one after "
                   "the other, or does a stream hold a worker?");
}

const doctor_check_t doctor_load_checks[] = {
    {"requests.parallel", "Requests work beside streams",
     DOCTOR_EACH_ERA | DOCTOR_NEEDS_STREAMS, check_parallel},
    {NULL, NULL, 0, NULL},
};

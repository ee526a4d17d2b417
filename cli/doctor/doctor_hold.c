/* SPDX-License-Identifier: MIT
 *
 * Waits once for all checks that need it: opens streams of both eras, idle ones and ones
 * with subscriptions; reads the subscribed resources; runs the trigger; waits for --idle
 * and --wait; and reads everything again. The checks evaluate the records. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "doctor/doctor.h"

enum { TRIGGER_MS = 60000, GRACE_MS = 3000, TICK_MS = 500, PULSE_MS = 100 };

/* ---- What is subscribed to ---------------------------------------------------- */

static void add_listed(doctor_t *doctor, doctor_era_t era) {
    doctor_call_t *call = doctor_ask(doctor, era, "resources/list", NULL);
    json_t *one, *uri;
    size_t i;

    json_array_foreach(json_object_get(call->result, "resources"), i, one) {
        uri = json_object_get(one, "uri");
        if (json_is_string(uri) && json_array_size(doctor->uris) < DOCTOR_MAX_URIS)
            json_array_append(doctor->uris, uri);
    }
    doctor_end(call);
}

json_t *doctor_uris(doctor_t *doctor) {
    if (doctor->uris != NULL)
        return doctor->uris;
    doctor->uris = json_array();
    for (size_t i = 0; i < doctor->options->uris.count; i++)
        json_array_append_new(doctor->uris, json_string(doctor->options->uris.items[i]));
    if (doctor->options->uris.count == 0)
        add_listed(doctor, doctor->spoken[DOCTOR_MODERN] ? DOCTOR_MODERN : DOCTOR_LEGACY);
    return doctor->uris;
}

/* A hash of contents, new: they may be large, and only differences count. */
static json_t *hash_of(const json_t *contents) {
    static const tdg__hash_key_t key = {1, 2};
    char *text = json_dumps(contents, JSON_COMPACT | JSON_SORT_KEYS);
    uint64_t hash = text != NULL ? tdg__hash(&key, text, strlen(text)) : 0;

    tdg__free(text);
    return json_integer((json_int_t)(hash >> 1));
}

/* What is in all of them, by URI; new. What cannot be read is left out. */
static json_t *read_all(doctor_t *doctor, doctor_era_t era) {
    json_t *all = json_object(), *uri, *contents;
    size_t i;

    json_array_foreach(doctor_uris(doctor), i, uri) {
        doctor_call_t *call =
            doctor_ask(doctor, era, "resources/read", json_pack("{s:O}", "uri", uri));

        contents = json_object_get(call->result, "contents");
        if (contents != NULL)
            json_object_set_new(all, json_string_value(uri), hash_of(contents));
        doctor_end(call);
    }
    return all;
}

/* Those whose contents differ between two reads in a row say nothing: they always do. */
static void drop_restless(json_t *before, json_t *again) {
    const char *uri;
    json_t *contents;
    void *next;

    json_object_foreach_safe(before, next, uri, contents) {
        if (!json_equal(contents, json_object_get(again, uri)))
            json_object_del(before, uri);
    }
    json_decref(again);
}

/* ---- The trigger ---------------------------------------------------------------- */

static void on_output(void *user, const char *data, size_t len) {
    (void)user;
    (void)data;
    (void)len;
}

static void on_said(void *user, const char *line) {
    (void)user;
    fprintf(stderr, "| %s\n", line);
}

static void on_trigger_ended(void *user, const tdg__process_end_t *end) {
    doctor_t *doctor = user;

    doctor->trigger = NULL;
    doctor->trigger_failed = end->error != 0 || end->signal != 0 || end->exit_status != 0;
}

static bool has_triggered(void *arg) {
    return ((const doctor_t *)arg)->trigger == NULL;
}

static void run_trigger(doctor_t *doctor) {
    static const tdg__process_ops_t ops = {on_output, on_said, on_trigger_ended, NULL};
    static char shell[] = "sh", option[] = "-c";
    char *command = tdg__strdup(doctor->options->trigger);
    char *const argv[] = {shell, option, command, NULL};
    const tdg__process_opts_t opts = {.argv = argv, .ops = &ops, .user = doctor};

    doctor->triggered = true;
    doctor->trigger_us = doctor_now_us();
    if (command == NULL || tdg__process_start(&doctor->loop, &opts, &doctor->trigger) < 0)
        doctor->trigger_failed = true;
    else if (!doctor_until(doctor, has_triggered, doctor, TRIGGER_MS)) {
        tdg__process_stop(doctor->trigger);
        doctor_until(doctor, has_triggered, doctor, TRIGGER_MS);
        doctor->trigger_failed = true;
    }
    tdg__free(command);
}

/* ---- Opening -------------------------------------------------------------------- */

static void subscribe_all(doctor_t *doctor, doctor_held_t *held, const char *method) {
    json_t *uri;
    size_t i;

    json_array_foreach(doctor_uris(doctor), i, uri) {
        doctor_call_t *call =
            doctor_ask(doctor, DOCTOR_LEGACY, method, json_pack("{s:O}", "uri", uri));

        if (call->result != NULL)
            held->subscribed = true;
        doctor_end(call);
    }
}

static doctor_call_t *keep(doctor_call_t *call) {
    call->kept = true;
    return call;
}

static void open_modern(doctor_t *doctor, doctor_held_t *held) {
    if (doctor->url != NULL)
        held->silent = keep(doctor_listen(doctor, NULL, NULL));
    if (json_array_size(doctor_uris(doctor)) == 0)
        return;
    held->updates = keep(doctor_listen(doctor, doctor_uris(doctor), NULL));
    held->subscribed = true;
    doctor_wait(held->updates, doctor_is_acknowledged);
}

static void open_legacy(doctor_t *doctor, doctor_held_t *held) {
    if (doctor->url != NULL) {
        if (doctor_new_session(doctor, held->session))
            held->silent = keep(doctor_get(doctor, held->session, NULL));
        held->updates = keep(doctor_get(doctor, doctor->session, NULL));
        /* updates of what is subscribed to before the stream is there may go elsewhere */
        doctor_wait(held->updates, doctor_is_headed);
    } else {
        held->updates = keep(doctor_overhear(doctor, DOCTOR_LEGACY));
    }
    subscribe_all(doctor, held, "resources/subscribe");
}

/* ---- Waiting -------------------------------------------------------------------- */

int64_t doctor_hold_ms(const doctor_options_t *options) {
    return options->wait_ms > options->idle_ms ? options->wait_ms : options->idle_ms;
}

static void wait_idle(doctor_t *doctor) {
    uint64_t end_us = doctor_now_us() + (uint64_t)doctor_hold_ms(doctor->options) * 1000;
    uint64_t now_us;

    while ((now_us = doctor_now_us()) < end_us && doctor_left_ms(doctor) > 0) {
        int64_t left = (int64_t)(end_us - now_us) / 1000 + 1;

        doctor_show_progress(doctor, "Streams are open; waiting, %d s left ...",
                             (int)(left / 1000));
        doctor_until(doctor, NULL, NULL, left < TICK_MS ? left : TICK_MS);
    }
}

/* An update for each that has changed has come. */
static bool all_notified(void *arg) {
    doctor_t *doctor = arg;

    for (int era = 0; era < DOCTOR_ERAS; era++) {
        const doctor_held_t *held = &doctor->held[era];
        const char *uri;
        json_t *contents;

        if (!held->subscribed)
            continue;
        json_object_foreach(held->before, uri, contents) {
            if (!json_equal(contents, json_object_get(held->after, uri)) &&
                !doctor_was_notified(doctor, (doctor_era_t)era, uri, NULL))
                return false;
        }
    }
    return true;
}

bool doctor_nothing_passes(const doctor_t *doctor) {
    const doctor_call_t *silent = doctor->held[DOCTOR_MODERN].silent;

    return silent != NULL && silent->is_stream && silent->bytes == 0;
}

/* The URI of an update; NULL: it is none. */
static const char *updated_uri(const json_t *message) {
    const char *method = json_string_value(json_object_get(message, "method"));

    /* the second is the name in the erlmcp dialect */
    if (method == NULL || (strcmp(method, "notifications/resources/updated") != 0 &&
                           strcmp(method, "resources/updated") != 0))
        return NULL;
    return json_string_value(json_object_get(json_object_get(message, "params"), "uri"));
}

bool doctor_was_notified(doctor_t *doctor, doctor_era_t era, const char *uri,
                         uint64_t *ret_us) {
    const doctor_call_t *updates = doctor->held[era].updates;

    for (size_t i = 0; updates != NULL && i < updates->count; i++) {
        const char *updated = updated_uri(updates->heard[i].message);

        if (updated != NULL && strcmp(updated, uri) == 0) {
            if (ret_us != NULL)
                *ret_us = updates->heard[i].at_us;
            return true;
        }
    }
    return false;
}

/* What comes while this process does not run seems to come all at once. */
static void on_pulse(uv_timer_t *timer) {
    doctor_t *doctor = timer->data;
    uint64_t now_us = doctor_now_us(), late_us = now_us - doctor->pulse_us;

    if (late_us > doctor->stalled_us)
        doctor->stalled_us = late_us;
    doctor->pulse_us = now_us;
}

static void hold(doctor_t *doctor) {
    doctor->pulse_us = doctor_now_us();
    uv_update_time(&doctor->loop);
    uv_timer_start(&doctor->pulse, on_pulse, PULSE_MS, PULSE_MS);
    doctor_show_progress(doctor, "Opening streams ...");
    for (int era = 0; era < DOCTOR_ERAS; era++)
        if (doctor->spoken[era]) {
            doctor->held[era].before = read_all(doctor, (doctor_era_t)era);
            drop_restless(doctor->held[era].before, read_all(doctor, (doctor_era_t)era));
        }
    if (doctor->spoken[DOCTOR_MODERN])
        open_modern(doctor, &doctor->held[DOCTOR_MODERN]);
    if (doctor->spoken[DOCTOR_LEGACY])
        open_legacy(doctor, &doctor->held[DOCTOR_LEGACY]);
    for (int era = 0; era < DOCTOR_ERAS; era++) {
        doctor_call_t *silent = doctor->held[era].silent;

        if (silent != NULL) /* the legacy one need not carry anything */
            doctor_wait(silent,
                        era == DOCTOR_MODERN ? doctor_has_bytes : doctor_is_headed);
    }
    if (doctor->options->trigger != NULL)
        run_trigger(doctor);
    wait_idle(doctor);
    for (int era = 0; era < DOCTOR_ERAS; era++)
        if (doctor->spoken[era])
            doctor->held[era].after = read_all(doctor, (doctor_era_t)era);
    doctor_until(doctor, all_notified, doctor, GRACE_MS);
    uv_timer_stop(&doctor->pulse);
    for (int era = 0; era < DOCTOR_ERAS; era++)
        doctor->held[era].held_us = doctor_now_us();
}

bool doctor_hold(doctor_t *doctor) {
    if (!doctor->held_done && doctor_left_ms(doctor) > doctor_hold_ms(doctor->options)) {
        doctor->held_done = true;
        hold(doctor);
    }
    return doctor->held_done;
}

const doctor_call_t *doctor_silent(doctor_t *doctor) {
    const doctor_call_t *silent = doctor->held[doctor->era].silent;

    if (silent == NULL)
        doctor_skip(doctor, "there was no stream to look at");
    else if (!silent->headed)
        doctor_skip(doctor, "the stream did not open, see stream.head");
    else if (silent->status != 200 || !silent->is_stream)
        doctor_skip(doctor, "the stream is missing, see stream.open");
    else
        return silent;
    return NULL;
}

void doctor_held_end(doctor_t *doctor) {
    doctor_held_t *legacy = &doctor->held[DOCTOR_LEGACY];

    if (legacy->subscribed && !doctor->late &&
        !doctor->own_programs[DOCTOR_LEGACY].stopped)
        subscribe_all(doctor, legacy, "resources/unsubscribe");
    for (int era = 0; era < DOCTOR_ERAS; era++) {
        doctor_held_t *held = &doctor->held[era];

        doctor_end(held->silent);
        doctor_end(held->updates);
        json_decref(held->before);
        json_decref(held->after);
    }
    doctor_delete(doctor, legacy->session);
    doctor_delete(doctor, doctor->session);
}

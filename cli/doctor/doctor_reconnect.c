/* SPDX-License-Identifier: MIT
 *
 * Reconnection: a stream is broken on purpose and opened again, as every network does
 * sooner or later. */
#include <stdio.h>
#include <string.h>

#include "doctor/doctor.h"

enum { RETRIES = 6, RETRY_MS = 500 };

/* ---- Legacy -------------------------------------------------------------------- */

/* Opens it again; some servers need a moment to see that the old one has ended. */
static doctor_call_t *get_again(doctor_t *doctor, const char *session,
                                const char *after) {
    for (int i = 1;; i++) {
        doctor_call_t *call = doctor_get(doctor, session, after);

        doctor_wait(call, doctor_is_headed);
        if (call->status != 409 || i == RETRIES)
            return call;
        doctor_end(call);
        doctor_until(doctor, NULL, NULL, RETRY_MS);
    }
}

static void judge_reopened(doctor_t *doctor, const doctor_call_t *seen, bool with_id) {
    if (seen->status == 200) {
        doctor_saw(doctor, "reopened%s", with_id ? ", Last-Event-ID was accepted" : "");
        if (!with_id)
            doctor_saw(doctor,
                       "the server gives no event ids, so changes while a client is "
                       "disconnected are not notified later; clients read again");
        return;
    }
    doctor_saw(doctor, "reopening: %s", doctor_describe(seen));
    doctor_bad(
        doctor, DOCTOR_FAILED, "%s",
        seen->status == 404 ? "The session is lost with its stream. Let sessions outlive "
                              "their connections; behind a load balancer, send requests "
                              "with the same Mcp-Session-Id to the same process."
        : seen->status == 409
            ? "The server considers the broken stream open. Detect closed connections, "
              "or let a new stream replace the old one."
            : "Accept the same GET again, with or without Last-Event-ID: an id that is "
              "not known means that everything may have changed, not an error.");
}

/* Breaks the GET stream of this session and opens it again. */
static void reopen(doctor_t *doctor, const char *session) {
    doctor_call_t *stream = doctor_get(doctor, session, NULL);
    char last_id[TDG__SSE_MAX_ID + 1];
    const doctor_call_t *ping;
    uint64_t broken_us;
    bool has_id;

    doctor_wait(stream, doctor_is_headed);
    if (stream->status != 200 || !stream->is_stream) {
        doctor_skip(doctor, "the stream did not open, see stream.head and stream.open");
        return;
    }
    doctor_until(doctor, doctor_has_bytes, stream, 1000); /* ids, where there are any */
    snprintf(last_id, sizeof(last_id), "%s", stream->last_id);
    has_id = last_id[0] != '\0';
    doctor_end(stream);

    broken_us = doctor_now_us();
    stream = get_again(doctor, session, has_id ? last_id : NULL);
    doctor_fact(doctor, "again_us", (json_int_t)(doctor_now_us() - broken_us));
    judge_reopened(doctor, stream, has_id);
    doctor_saw(doctor, "after %.1f ms", doctor_ms(broken_us, doctor_now_us()));
    ping = doctor_ping_in(doctor, session);
    if (ping->result == NULL && doctor->result->status == DOCTOR_OK) {
        doctor_saw(doctor, "a ping in the session: %s", doctor_describe(ping));
        doctor_bad(doctor, DOCTOR_FAILED,
                   "A broken stream must not end the session: its requests go on.");
    }
}

static void check_legacy(doctor_t *doctor) {
    char session[TDG__WEB_MAX_SESSION + 1] = "";

    if (!doctor_new_session(doctor, session)) {
        doctor_skip(doctor, "no other session could be started");
        return;
    }
    reopen(doctor, session);
    doctor_end_calls(doctor); /* before their session */
    doctor_delete(doctor, session);
}

/* ---- Modern --------------------------------------------------------------------- */

/* What an acknowledgement says besides, NULL: it has not come. */
static const json_t *wait_for_meta(doctor_call_t *listen) {
    const doctor_heard_t *found;

    doctor_wait(listen, doctor_is_acknowledged);
    found = doctor_acknowledgement(listen);
    return found != NULL
               ? json_object_get(json_object_get(found->message, "params"), "_meta")
               : NULL;
}

static void judge_cursor(doctor_t *doctor, const json_t *meta, const char *cursor) {
    if (cursor == NULL) {
        doctor_saw(doctor, "no cursor: changes while a client is disconnected are not "
                           "notified later, so clients read again");
    } else if (json_is_false(json_object_get(meta, "dev.tidings/resumed"))) {
        doctor_saw(doctor, "its cursor was unknown");
        doctor_bad(doctor, DOCTOR_WARNING,
                   "Is the listen answered by another process? A cursor is valid only in "
                   "the process that issued it: behind a load balancer, keep each client "
                   "on one process.");
    } else {
        doctor_saw(doctor, "its cursor was accepted");
    }
}

static void check_modern(doctor_t *doctor) {
    json_t *uris = json_array_size(doctor_uris(doctor)) > 0 ? doctor_uris(doctor) : NULL;
    doctor_call_t *listen = doctor_listen(doctor, uris, NULL);
    const json_t *meta = wait_for_meta(listen);
    const char *given = json_string_value(json_object_get(meta, "dev.tidings/cursor"));
    char kept[256], *cursor = NULL;
    uint64_t broken_us;

    if (meta == NULL) {
        doctor_skip(doctor, "the listen was not acknowledged, see stream.acknowledged");
        return;
    }
    if (given != NULL && given[0] != '\0' && strlen(given) < sizeof(kept))
        cursor = strcpy(kept, given);
    doctor_end(listen);

    broken_us = doctor_now_us();
    listen = doctor_listen(doctor, uris, cursor);
    meta = wait_for_meta(listen);
    if (meta == NULL) {
        doctor_saw(doctor, "reopening: %s", doctor_describe(listen));
        doctor_bad(doctor, DOCTOR_FAILED,
                   "A client that reconnects opens the same listen again: acknowledge "
                   "it, even if the server has not noticed the end of the old one.");
        return;
    }
    doctor_saw(doctor, "acknowledged again after %.1f ms",
               doctor_ms(broken_us, doctor_now_us()));
    doctor_fact(doctor, "again_us", (json_int_t)(doctor_now_us() - broken_us));
    judge_cursor(doctor, meta, cursor);
}

/* ---- Requests -------------------------------------------------------------------- */

static void check_requests(doctor_t *doctor) {
    doctor_call_t *stream = doctor->era == DOCTOR_MODERN
                                ? doctor_listen(doctor, NULL, NULL)
                                : doctor_get(doctor, doctor->session, NULL);
    size_t failed = 0;

    doctor_until(doctor, doctor_is_headed, stream, DOCTOR_SOON_MS);
    doctor_end(stream);
    for (int i = 0; i < 3; i++) {
        const doctor_call_t *call = doctor_ping(doctor);

        if (call->result == NULL && failed++ == 0)
            doctor_saw(doctor, "%s", doctor_describe(call));
    }
    doctor_saw(doctor, "%zu of 3 answered", 3 - failed);
    if (failed > 0)
        doctor_bad(doctor, DOCTOR_FAILED,
                   "The end of a stream must end neither the session nor other "
                   "requests.");
}

const doctor_check_t doctor_reconnect_checks[] = {
    {"reconnect.legacy", "A session survives a broken stream",
     "broke the GET stream of a session and reopened it",
     DOCTOR_HTTP | DOCTOR_NEEDS_LEGACY, check_legacy},
    {"reconnect.modern", "A listen can be reopened", "broke a listen and reopened it",
     DOCTOR_HTTP | DOCTOR_NEEDS_MODERN, check_modern},
    {"reconnect.requests", "Requests survive a broken stream",
     "broke a stream and sent three requests at once after it",
     DOCTOR_HTTP | DOCTOR_EACH_ERA, check_requests},
    {NULL, NULL, NULL, 0, NULL},
};

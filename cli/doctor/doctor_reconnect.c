/* SPDX-License-Identifier: MIT
 *
 * Coming back: a stream is broken on purpose and opened again, as every network does
 * sooner or later. */
#include <stdio.h>
#include <string.h>

#include "doctor/doctor.h"

enum { RETRIES = 6, RETRY_MS = 500 };

/* ---- Legacy -------------------------------------------------------------------- */

/* Opens it again; some servers need a moment to see that the old one is gone. */
static void get_again(doctor_t *doctor, const char *session, const char *after,
                      doctor_exchange_t *ret) {
    for (int i = 0; i < RETRIES; i++) {
        doctor_get(doctor, session, after, ret);
        doctor_until(doctor, doctor_headed, ret, doctor_patience(doctor));
        if (ret->status != 409 || i == RETRIES - 1)
            return;
        doctor_end(ret);
        doctor_rest(doctor, RETRY_MS);
    }
}

static void judge_return(doctor_t *doctor, const doctor_exchange_t *seen, bool with_id,
                         doctor_result_t *result) {
    if (seen->status == 200) {
        doctor_saw(result, "reopened%s", with_id ? ", Last-Event-ID was accepted" : "");
        if (!with_id)
            doctor_saw(
                result,
                "the server gives no event ids, so changes while a "
                "client is disconnected are not notified later; clients read again");
        return;
    }
    doctor_saw(result, "reopening: %s", doctor_describe_exchange(doctor, seen));
    doctor_bad(
        result, DOCTOR_FAILED,
        seen->status == 404
            ? "The session is lost with its stream. Let sessions outlive their "
              "connections; behind a load balancer, send requests with the same "
              "Mcp-Session-Id to the same process."
        : seen->status == 409
            ? "The server takes the broken stream for open. Notice closed "
              "connections, or let a new stream replace the old one."
            : "Accept the same GET again, with or without Last-Event-ID: an id that "
              "is not known means that everything may have changed, not an error.");
}

static void check_legacy(doctor_t *doctor, doctor_era_t era, doctor_result_t *result) {
    char session[TDG__WEB_MAX_SESSION + 1] = "", last_id[TDG__SSE_MAX_ID + 1];
    doctor_exchange_t seen;
    doctor_answer_t answer;
    uint64_t broken_us;

    doctor_did(result, "broke the GET stream of a session and reopened it");
    if (!doctor_new_session(doctor, session, sizeof(session))) {
        doctor_skip(result, "no other session could be begun");
        return;
    }
    doctor_get(doctor, session, NULL, &seen);
    doctor_until(doctor, doctor_headed, &seen, doctor_patience(doctor));
    if (seen.status != 200 || !seen.is_stream) {
        doctor_skip(result, "the stream did not open, see stream.head and stream.open");
        doctor_end(&seen);
        doctor_delete(doctor, session);
        return;
    }
    doctor_until(doctor, doctor_first_byte, &seen, 1000); /* ids, where there are any */
    snprintf(last_id, sizeof(last_id), "%s", seen.last_id);
    doctor_end(&seen);

    broken_us = doctor_now_us();
    get_again(doctor, session, last_id[0] != '\0' ? last_id : NULL, &seen);
    doctor_fact(result, "again_us", (json_int_t)(doctor_now_us() - broken_us));
    judge_return(doctor, &seen, last_id[0] != '\0', result);
    doctor_saw(result, "after %.1f ms", (double)(doctor_now_us() - broken_us) / 1000);
    doctor_ask_as(doctor, era, doctor->legacy_version, session, "ping", NULL, &answer);
    if (answer.result == NULL && result->status == DOCTOR_OK) {
        doctor_saw(result, "a ping in the session: %s", doctor_describe(doctor, &answer));
        doctor_bad(result, DOCTOR_FAILED,
                   "A stream that breaks must not break the session: requests go on.");
    }
    doctor_answer_done(&answer);
    doctor_end(&seen);
    doctor_delete(doctor, session);
}

/* ---- Modern --------------------------------------------------------------------- */

static const json_t *meta_of(const doctor_exchange_t *seen) {
    const doctor_heard_t *found =
        doctor_find_method(&seen->tape, 0, "notifications/subscriptions/acknowledged");

    return found != NULL
               ? json_object_get(json_object_get(found->message, "params"), "_meta")
               : NULL;
}

static bool is_acknowledged(void *arg) {
    const doctor_exchange_t *seen = arg;

    return seen->over || meta_of(seen) != NULL || (seen->headed && !seen->is_stream);
}

static void check_modern(doctor_t *doctor, doctor_era_t era, doctor_result_t *result) {
    doctor_exchange_t seen;
    json_t *uris = json_array_size(doctor_uris(doctor)) > 0 ? doctor_uris(doctor) : NULL;
    const char *cursor;
    char kept[256] = "";
    uint64_t broken_us;
    json_int_t id;

    (void)era;
    doctor_did(result, "broke a listen and reopened it");
    doctor_listen(doctor, uris, NULL, &id, &seen);
    if (!doctor_until(doctor, is_acknowledged, &seen, doctor_patience(doctor)) ||
        meta_of(&seen) == NULL) {
        doctor_skip(result, "the listen was not acknowledged, see stream.acknowledged");
        doctor_end(&seen);
        return;
    }
    cursor = json_string_value(json_object_get(meta_of(&seen), "dev.tidings/cursor"));
    if (cursor != NULL && strlen(cursor) < sizeof(kept))
        snprintf(kept, sizeof(kept), "%s", cursor);
    doctor_end(&seen);

    broken_us = doctor_now_us();
    doctor_listen(doctor, uris, kept[0] != '\0' ? kept : NULL, &id, &seen);
    if (!doctor_until(doctor, is_acknowledged, &seen, doctor_patience(doctor)) ||
        meta_of(&seen) == NULL) {
        doctor_saw(result, "reopening: %s", doctor_describe_exchange(doctor, &seen));
        doctor_bad(result, DOCTOR_FAILED,
                   "A client that reconnects opens the same listen again: acknowledge "
                   "it, whether the old one was seen to end or not.");
    } else {
        doctor_saw(result, "acknowledged again after %.1f ms",
                   (double)(doctor_now_us() - broken_us) / 1000);
        doctor_fact(result, "again_us", (json_int_t)(doctor_now_us() - broken_us));
        if (kept[0] == '\0')
            doctor_saw(result,
                       "no cursor: changes while a client is disconnected are not "
                       "notified later, so clients read again");
        else if (json_is_false(json_object_get(meta_of(&seen), "dev.tidings/resumed"))) {
            doctor_saw(result, "its cursor was no longer known");
            doctor_bad(result, DOCTOR_WARNING,
                       "Is the listen answered by another process? A cursor holds where "
                       "that issued it: behind a load balancer, keep clients at one "
                       "process.");
        } else {
            doctor_saw(result, "its cursor was taken");
        }
    }
    doctor_end(&seen);
}

/* ---- Requests -------------------------------------------------------------------- */

static void check_requests(doctor_t *doctor, doctor_era_t era, doctor_result_t *result) {
    bool modern = era == DOCTOR_MODERN;
    doctor_exchange_t seen;
    size_t failed = 0;
    json_int_t id;

    doctor_did(result, "broke a stream and sent three requests at once after it");
    if (modern)
        doctor_listen(doctor, NULL, NULL, &id, &seen);
    else
        doctor_get(doctor, doctor->session, NULL, &seen);
    doctor_until(doctor, doctor_headed, &seen, DOCTOR_SOON_MS);
    doctor_end(&seen);
    for (int i = 0; i < 3; i++) {
        doctor_answer_t answer;

        doctor_ask(doctor, era, modern ? "server/discover" : "ping", NULL, &answer);
        if (answer.result == NULL && failed++ == 0)
            doctor_saw(result, "%s", doctor_describe(doctor, &answer));
        doctor_answer_done(&answer);
    }
    doctor_saw(result, "%zu of 3 answered", 3 - failed);
    if (failed > 0)
        doctor_bad(result, DOCTOR_FAILED,
                   "The end of a stream must not end anything else: neither the session "
                   "nor other requests.");
}

const doctor_check_t doctor_reconnect_checks[] = {
    {"reconnect.legacy", "A session survives its stream",
     DOCTOR_HTTP | DOCTOR_NEEDS_LEGACY, check_legacy},
    {"reconnect.modern", "A listen can be reopened", DOCTOR_HTTP | DOCTOR_NEEDS_MODERN,
     check_modern},
    {"reconnect.requests", "Requests survive a stream", DOCTOR_HTTP | DOCTOR_EACH_ERA,
     check_requests},
    {NULL, NULL, 0, NULL},
};

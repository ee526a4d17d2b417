/* SPDX-License-Identifier: MIT
 *
 * Sessions and headers over HTTP: what servers must refuse, and with what, so that
 * clients know what to do and strangers' web pages can do nothing. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "doctor/doctor.h"

/* ---- Sessions ------------------------------------------------------------------ */

static void check_id(doctor_t *doctor, doctor_era_t era, doctor_result_t *result) {
    static const char request_text[] = "initialize";
    char *text = doctor_compose(era, doctor->legacy_version, doctor_next_id(doctor),
                                request_text, NULL);
    const doctor_request_t request = {.method = TDG__WEB_POST, .era = era, .body = text};
    doctor_exchange_t seen;
    const char *raw;

    doctor_did(result, "checked the Mcp-Session-Id of an initialize");
    doctor_begin(doctor, &request, &seen);
    doctor_until(doctor, doctor_headed, &seen, doctor_patience(doctor));
    raw = doctor_field(&seen, "mcp-session-id");
    if (raw == NULL) {
        doctor_saw(result, "none: the server keeps no sessions");
    } else if (seen.session[0] == '\0') {
        doctor_saw(result, "one that is not visible ASCII");
        doctor_bad(result, DOCTOR_FAILED,
                   "A session id has visible ASCII characters only (0x21 to 0x7e): use a "
                   "random UUID or hexadecimal digits.");
    } else {
        doctor_saw(result, "one of %zu characters", strlen(raw));
        if (strlen(raw) < 16)
            doctor_bad(result, DOCTOR_WARNING,
                       "Whoever guesses a session id has the session: make it at least "
                       "128 random bits.");
        doctor_delete(doctor, seen.session);
    }
    doctor_end(&seen);
    tdg__free(text);
}

static void ping_as(doctor_t *doctor, const char *session, doctor_answer_t *ret) {
    doctor_ask_as(doctor, DOCTOR_LEGACY, doctor->legacy_version, session, "ping", NULL,
                  ret);
}

static void check_unknown(doctor_t *doctor, doctor_era_t era, doctor_result_t *result) {
    doctor_answer_t answer;

    (void)era;
    doctor_did(result, "sent a ping in a session that never was");
    ping_as(doctor, "d0c70200000000000000000000000d0c70", &answer);
    doctor_saw(result, "%s", doctor_describe(doctor, &answer));
    if (answer.status != 404)
        doctor_bad(result, answer.result != NULL ? DOCTOR_FAILED : DOCTOR_WARNING,
                   "Answer an unknown session with 404: only then clients begin a new "
                   "one. Otherwise they stay broken after every restart of the server.");
    doctor_answer_done(&answer);
}

static void check_missing(doctor_t *doctor, doctor_era_t era, doctor_result_t *result) {
    doctor_answer_t answer;

    (void)era;
    doctor_did(result, "sent a ping without Mcp-Session-Id");
    ping_as(doctor, NULL, &answer);
    doctor_saw(result, "%s", doctor_describe(doctor, &answer));
    if (answer.status != 400)
        doctor_bad(result, DOCTOR_WARNING,
                   "Answer a request without its session with 400.");
    doctor_answer_done(&answer);
}

static void check_delete(doctor_t *doctor, doctor_era_t era, doctor_result_t *result) {
    char session[TDG__WEB_MAX_SESSION + 1] = "";
    doctor_answer_t answer;
    int status;

    (void)era;
    doctor_did(result, "began a session, ended it with DELETE, and sent a ping in it");
    if (!doctor_new_session(doctor, session, sizeof(session)) || session[0] == '\0') {
        doctor_skip(result, "no other session could be begun");
        return;
    }
    status = doctor_delete(doctor, session);
    doctor_saw(result, "DELETE: HTTP %d", status);
    if (status == 405) {
        doctor_saw(result, "the server lets no client end its session, which it may");
        return;
    }
    if (status < 200 || status > 299) {
        doctor_bad(
            result, DOCTOR_FAILED,
            "Answer DELETE of a session with 200 or 204, or with 405 where clients "
            "may not end theirs. Does the proxy let DELETE through?");
        return;
    }
    ping_as(doctor, session, &answer);
    doctor_saw(result, "afterwards: %s", doctor_describe(doctor, &answer));
    if (answer.result != NULL)
        doctor_bad(result, DOCTOR_FAILED,
                   "A session that was ended must be deleted, and answered with 404; "
                   "otherwise sessions pile up until memory runs out.");
    else if (answer.status != 404)
        doctor_bad(result, DOCTOR_WARNING,
                   "Answer an ended session with 404: only then do clients start a "
                   "new one.");
    doctor_answer_done(&answer);
}

/* ---- Headers -------------------------------------------------------------------- */

/* One request that changes nothing, in either era, with something odd about it. */
static void send_odd(doctor_t *doctor, doctor_era_t era, const doctor_request_t *odd,
                     doctor_exchange_t *ret) {
    bool modern = era == DOCTOR_MODERN;
    const char *method = modern ? "server/discover" : "ping";
    char *text =
        doctor_compose(era, modern ? DOCTOR_MODERN_VERSION : doctor->legacy_version,
                       doctor_next_id(doctor), method, NULL);
    doctor_request_t request = *odd;

    request.method = TDG__WEB_POST;
    request.era = era;
    request.version = modern ? DOCTOR_MODERN_VERSION : doctor->legacy_version;
    request.session = modern ? NULL : doctor->session;
    if (request.body == NULL)
        request.body = text;
    if (request.rpc_method == NULL && modern)
        request.rpc_method = method;
    doctor_begin(doctor, &request, ret);
    doctor_until(doctor, doctor_over, ret, doctor_patience(doctor));
    tdg__free(text);
}

static json_int_t rpc_code(const doctor_exchange_t *seen) {
    const json_t *message = seen->tape.count > 0 ? seen->tape.heard[0].message : NULL;

    return json_integer_value(json_object_get(json_object_get(message, "error"), "code"));
}

static bool has_result(const doctor_exchange_t *seen) {
    const json_t *message = seen->tape.count > 0 ? seen->tape.heard[0].message : NULL;

    return seen->status == 200 &&
           (json_object_get(message, "result") != NULL || json_is_array(message));
}

static void check_mirrored(doctor_t *doctor, doctor_era_t era, doctor_result_t *result) {
    const doctor_request_t odd = {.rpc_method = "tools/list"};
    doctor_exchange_t seen;

    doctor_did(result, "sent server/discover with Mcp-Method: tools/list");
    send_odd(doctor, era, &odd, &seen);
    doctor_saw(result, "%s", doctor_describe_exchange(doctor, &seen));
    if (has_result(&seen))
        doctor_bad(result, DOCTOR_FAILED,
                   "Refuse a request whose headers differ from its body with 400 and "
                   "error -32020: proxies decide by the headers, so a difference gets "
                   "around them.");
    else if (seen.status != 400 || rpc_code(&seen) != -32020)
        doctor_bad(result, DOCTOR_WARNING,
                   "Refuse a request whose headers differ from its body with 400 and "
                   "error -32020, so that clients know why.");
    doctor_end(&seen);
}

static void check_origin(doctor_t *doctor, doctor_era_t era, doctor_result_t *result) {
    const doctor_request_t odd = {.extra_name = "Origin",
                                  .extra_value = "http://doctor.invalid"};
    doctor_exchange_t seen;

    doctor_did(result, "sent a request with Origin: http://doctor.invalid");
    send_odd(doctor, era, &odd, &seen);
    doctor_saw(result, "%s", doctor_describe_exchange(doctor, &seen));
    if (has_result(&seen))
        doctor_bad(
            result, DOCTOR_FAILED,
            "Refuse foreign origins with 403. Otherwise, any web page that a user "
            "has open can reach this server through their browser (DNS rebinding). "
            "`tidings serve` does; allowed_origins names those that may.");
    else if (seen.status != 403)
        doctor_bad(result, DOCTOR_WARNING, "A foreign origin is refused with 403.");
    doctor_end(&seen);
}

static void check_type(doctor_t *doctor, doctor_era_t era, doctor_result_t *result) {
    const doctor_request_t odd = {.content_type = "text/plain"};
    doctor_exchange_t seen;

    doctor_did(result, "sent a request with Content-Type: text/plain");
    send_odd(doctor, era, &odd, &seen);
    doctor_saw(result, "%s", doctor_describe_exchange(doctor, &seen));
    if (has_result(&seen))
        doctor_bad(
            result, DOCTOR_WARNING,
            "Accept application/json only, and refuse others with 415: web pages may "
            "send text/plain anywhere without permission.");
    doctor_end(&seen);
}

static void check_batch(doctor_t *doctor, doctor_era_t era, doctor_result_t *result) {
    const doctor_request_t odd = {
        .body = "[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"},"
                "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"ping\"}]"};
    doctor_exchange_t seen;
    bool batches =
        era == DOCTOR_LEGACY && strcmp(doctor->legacy_version, "2025-03-26") == 0;

    if (doctor->spoken[DOCTOR_LEGACY])
        era = DOCTOR_LEGACY; /* batches are of that era, if of any */
    doctor_did(result, "sent two pings as a batch");
    send_odd(doctor, era, &odd, &seen);
    doctor_saw(result, "%s", doctor_describe_exchange(doctor, &seen));
    if (!seen.headed || seen.status >= 500)
        doctor_bad(result, DOCTOR_FAILED,
                   "A batch must not break the server: answer it with 400 and error "
                   "-32600.");
    else if (!batches && has_result(&seen))
        doctor_bad(result, DOCTOR_WARNING,
                   "Batches exist in 2025-03-26 only: refuse them with 400 and error "
                   "-32600 elsewhere, because proxies that check requests do not check "
                   "inside.");
    doctor_end(&seen);
}

enum {
    IN_SESSION = DOCTOR_HTTP | DOCTOR_NEEDS_LEGACY | DOCTOR_NEEDS_SESSION,
};

const doctor_check_t doctor_session_checks[] = {
    {"session.id", "Session ids are well formed", DOCTOR_HTTP | DOCTOR_NEEDS_LEGACY,
     check_id},
    {"session.unknown", "Unknown sessions are refused", IN_SESSION, check_unknown},
    {"session.missing", "Missing sessions are refused", IN_SESSION, check_missing},
    {"session.delete", "Sessions can be ended", IN_SESSION, check_delete},
    {"header.mirrored", "Headers must agree with the body",
     DOCTOR_HTTP | DOCTOR_NEEDS_MODERN, check_mirrored},
    {"header.origin", "Foreign origins are refused", DOCTOR_HTTP, check_origin},
    {"header.content-type", "Other types are refused", DOCTOR_HTTP, check_type},
    {"header.batch", "Batches do no harm", DOCTOR_HTTP, check_batch},
    {NULL, NULL, 0, NULL},
};

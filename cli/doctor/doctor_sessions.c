/* SPDX-License-Identifier: MIT
 *
 * Sessions and headers over HTTP: which requests a server must refuse, and with which
 * status, so that clients know what to do and foreign web pages cannot use it. */
#include <string.h>

#include "doctor/doctor.h"

/* ---- Sessions ------------------------------------------------------------------ */

static void check_id(doctor_t *doctor) {
    doctor_call_t *call = doctor_send(
        doctor, &(doctor_request_t){.era = doctor->era, .method = "initialize"});
    const char *raw;

    doctor_wait(call, doctor_is_headed);
    raw = doctor_field(call, "mcp-session-id");
    if (raw == NULL) {
        doctor_saw(doctor, "none: the server keeps no sessions");
    } else if (call->session[0] == '\0') {
        doctor_saw(doctor, "one that is not visible ASCII");
        doctor_bad(doctor, DOCTOR_FAILED,
                   "A session id has visible ASCII characters only (0x21 to 0x7e): use a "
                   "random UUID or hexadecimal digits.");
    } else {
        doctor_saw(doctor, "one of %zu characters", strlen(raw));
        if (strlen(raw) < 16)
            doctor_bad(doctor, DOCTOR_WARNING,
                       "Anyone who guesses a session id can use the session: make it at "
                       "least 128 random bits.");
        doctor_delete(doctor, call->session);
    }
}

static void check_unknown(doctor_t *doctor) {
    const doctor_call_t *call =
        doctor_ping_in(doctor, "d0c70200000000000000000000000d0c70");

    doctor_saw(doctor, "%s", doctor_describe(call));
    if (call->status != 404)
        doctor_bad(doctor, call->result != NULL ? DOCTOR_FAILED : DOCTOR_WARNING,
                   "Answer an unknown session with 404: only then do clients start a new "
                   "one. Otherwise they stay broken after every restart of the server.");
}

static void check_missing(doctor_t *doctor) {
    const doctor_call_t *call = doctor_ping_in(doctor, "");

    doctor_saw(doctor, "%s", doctor_describe(call));
    if (call->status != 400)
        doctor_bad(doctor, DOCTOR_WARNING,
                   "Answer a request without a session id with 400.");
}

static void check_delete(doctor_t *doctor) {
    char session[TDG__WEB_MAX_SESSION + 1] = "";
    const doctor_call_t *call;
    int status;

    if (!doctor_new_session(doctor, session) || session[0] == '\0') {
        doctor_skip(doctor, "no other session could be started");
        return;
    }
    status = doctor_delete(doctor, session);
    doctor_saw(doctor, "DELETE: HTTP %d", status);
    if (status == 405) {
        doctor_saw(doctor,
                   "clients cannot end their sessions, which the protocol allows");
        return;
    }
    if (status < 200 || status > 299) {
        doctor_bad(doctor, DOCTOR_FAILED,
                   "Answer DELETE of a session with 200 or 204, or with 405 if "
                   "clients cannot end theirs. Does the proxy pass DELETE on?");
        return;
    }
    call = doctor_ping_in(doctor, session);
    doctor_saw(doctor, "afterwards: %s", doctor_describe(call));
    if (call->result != NULL)
        doctor_bad(doctor, DOCTOR_FAILED,
                   "A session that was ended must be deleted, and answered with 404; "
                   "otherwise sessions pile up until memory runs out.");
    else if (call->status != 404)
        doctor_bad(
            doctor, DOCTOR_WARNING,
            "Answer an ended session with 404: only then do clients start a new one.");
}

/* ---- Headers -------------------------------------------------------------------- */

/* One request that changes nothing, in either era, with something odd about it. (A body
 * of its own is a batch, which only the legacy era has had.) */
static const doctor_call_t *send_odd(doctor_t *doctor, doctor_request_t odd) {
    const doctor_call_t *call;

    odd.era =
        odd.body != NULL && doctor->spoken[DOCTOR_LEGACY] ? DOCTOR_LEGACY : doctor->era;
    odd.method = odd.era == DOCTOR_MODERN ? "server/discover" : "ping";
    call = doctor_send_and_wait(doctor, &odd);
    doctor_saw(doctor, "%s", doctor_describe(call));
    return call;
}

static bool was_accepted(const doctor_call_t *call) {
    return call->status == 200 && (call->result != NULL || json_is_array(call->message));
}

static void check_mirrored(doctor_t *doctor) {
    const doctor_call_t *call =
        send_odd(doctor, (doctor_request_t){.mcp_method = "tools/list"});

    if (was_accepted(call))
        doctor_bad(
            doctor, DOCTOR_FAILED,
            "Refuse a request whose headers differ from its body with 400 and error "
            "-32020: proxies decide by the headers, so a difference bypasses them.");
    else if (call->status != 400 || call->rpc_code != -32020)
        doctor_bad(doctor, DOCTOR_WARNING,
                   "Refuse a request whose headers differ from its body with 400 and "
                   "error -32020, so that clients know why.");
}

static void check_origin(doctor_t *doctor) {
    const doctor_call_t *call =
        send_odd(doctor, (doctor_request_t){.extra_name = "Origin",
                                            .extra_value = "http://doctor.invalid"});

    if (was_accepted(call))
        doctor_bad(
            doctor, DOCTOR_FAILED,
            "Refuse foreign origins with 403. Otherwise, any web page that a user has "
            "open can reach this server through their browser (DNS rebinding). `tidings "
            "serve` does; its allowed-origins lists the exceptions.");
    else if (call->status != 403)
        doctor_bad(doctor, DOCTOR_WARNING, "Refuse foreign origins with 403.");
}

static void check_type(doctor_t *doctor) {
    const doctor_call_t *call =
        send_odd(doctor, (doctor_request_t){.content_type = "text/plain"});

    if (was_accepted(call))
        doctor_bad(doctor, DOCTOR_WARNING,
                   "Accept application/json only, and refuse others with 415: web pages "
                   "may send text/plain to any server without asking it first.");
}

static void check_batch(doctor_t *doctor) {
    static const char two_pings[] = "[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"},"
                                    "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"ping\"}]";
    bool batches =
        doctor->era == DOCTOR_LEGACY && strcmp(doctor->legacy_version, "2025-03-26") == 0;
    const doctor_call_t *call = send_odd(doctor, (doctor_request_t){.body = two_pings});

    if (!call->headed || call->status >= 500)
        doctor_bad(
            doctor, DOCTOR_FAILED,
            "A batch must not break the server: answer it with 400 and error -32600.");
    else if (!batches && was_accepted(call))
        doctor_bad(
            doctor, DOCTOR_WARNING,
            "Batches exist in 2025-03-26 only: refuse them with 400 and error -32600 "
            "in other versions: proxies that check requests do not look inside.");
}

enum {
    IN_SESSION = DOCTOR_HTTP | DOCTOR_NEEDS_LEGACY | DOCTOR_NEEDS_SESSION,
};

const doctor_check_t doctor_session_checks[] = {
    {"session.id", "Session ids are well formed",
     "checked the Mcp-Session-Id of an initialize", DOCTOR_HTTP | DOCTOR_NEEDS_LEGACY,
     check_id},
    {"session.unknown", "Unknown sessions are refused",
     "sent a ping with an invented session id", IN_SESSION, check_unknown},
    {"session.missing", "Missing sessions are refused",
     "sent a ping without Mcp-Session-Id", IN_SESSION, check_missing},
    {"session.delete", "Sessions can be ended",
     "started a session, ended it with DELETE, and sent a ping in it", IN_SESSION,
     check_delete},
    {"header.mirrored", "Headers must agree with the body",
     "sent server/discover with Mcp-Method: tools/list",
     DOCTOR_HTTP | DOCTOR_NEEDS_MODERN, check_mirrored},
    {"header.origin", "Foreign origins are refused",
     "sent a request with Origin: http://doctor.invalid", DOCTOR_HTTP, check_origin},
    {"header.content-type", "Other content types are refused",
     "sent a request with Content-Type: text/plain", DOCTOR_HTTP, check_type},
    {"header.batch", "The server survives a batch", "sent two pings as a batch",
     DOCTOR_HTTP, check_batch},
    {NULL, NULL, NULL, 0, NULL},
};

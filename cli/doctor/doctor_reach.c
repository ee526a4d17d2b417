/* SPDX-License-Identifier: MIT
 *
 * Whether the server is reachable and grants access, and how long that takes. If not, the
 * other checks do not run. */
#include <stdio.h>
#include <string.h>

#include <tidings/error.h>

#include "doctor/doctor.h"

static const char *fix_for(int code, const char *error) {
    if (code == TDG_EREFUSED || strstr(error, "certificate") != NULL)
        return "If the certificate is the problem: it has to name this host; send the "
               "whole chain (nginx: ssl_certificate with the intermediate certificates), "
               "renew it in time; for a private one, pass its authority with --ca-file.";
    if (code == TDG_ETIMEDOUT)
        return "The connection is accepted, or its packets are dropped, and there is no "
               "answer: check firewalls, the proxy's upstream address, and what the "
               "server is busy with.";
    return "Is the server running, and is this its address? `tidings serve` prints its "
           "own. Behind a proxy: is its upstream right?";
}

/* The first request of all, in the newer era that is wanted. */
static doctor_call_t *say_hello(doctor_t *doctor, const char *what) {
    bool modern = doctor_wants(doctor, DOCTOR_MODERN);
    const char *method = modern ? "server/discover" : "initialize";

    doctor_did(doctor, "%s %s", what, method);
    return doctor_ask(doctor, modern ? DOCTOR_MODERN : DOCTOR_LEGACY, method, NULL);
}

static void check_connect(doctor_t *doctor) {
    doctor_call_t *call = say_hello(doctor, "sent");
    double answer_ms = doctor_ms(call->began_us, call->head_us);

    doctor->first = call;
    call->kept = true;
    if (!call->headed) {
        doctor_saw(doctor, "%s", doctor_why(call));
        doctor_bad(doctor, DOCTOR_FAILED, "%s", fix_for(call->code, call->error));
        doctor_give_up(doctor,
                       call->code == TDG_ETIMEDOUT ? CLI_TIMEOUT : CLI_UNREACHABLE);
        return;
    }
    doctor_saw(doctor, "name %.1f ms, connection %.1f ms",
               (double)call->resolved_us / 1000, (double)call->connected_us / 1000);
    if (call->secured_us > 0)
        doctor_saw(doctor, "TLS %.1f ms, the certificate is valid",
                   (double)call->secured_us / 1000);
    doctor_saw(doctor, "response (HTTP %d) %.1f ms", call->status, answer_ms);
    doctor_fact(doctor, "connect_us", call->connected_us);
    doctor_fact(doctor, "tls_us", call->secured_us);
    doctor_fact(doctor, "answer_us", (json_int_t)(call->head_us - call->began_us));
    doctor_fact(doctor, "status", call->status);
    if (answer_ms > DOCTOR_SOON_MS)
        doctor_bad(doctor, DOCTOR_WARNING,
                   "The first response is slow: a cold start, or a proxy that looks for "
                   "its upstream?");
}

static void check_access(doctor_t *doctor) {
    const doctor_call_t *seen = doctor->first;

    doctor_saw(doctor, "HTTP %d", seen->status);
    if (seen->status == 401 || seen->status == 403) {
        doctor_bad(
            doctor, DOCTOR_FAILED, "%s",
            seen->status == 401
                ? "The server requires authentication: --token-file FILE, or --header "
                  "'Authorization: ...'."
                : "The server, or a proxy, denies access. Is the token allowed to do "
                  "this? `tidings serve` also does so if Host or Origin is not in its "
                  "allowed-hosts or allowed-origins: let the proxy pass Host on (nginx: "
                  "proxy_set_header Host $host), or add it there.");
        doctor_give_up(doctor, CLI_DENIED);
    } else if (seen->status >= 500) {
        doctor_bad(doctor, DOCTOR_FAILED, "%s",
                   seen->status == 502 || seen->status == 504
                       ? "A proxy answers, but its upstream does not: check whether the "
                         "server runs, and the proxy's upstream address."
                       : "The server fails or is overloaded: see its log.");
        doctor_give_up(doctor, CLI_UNREACHABLE);
    }
}

static void check_redirect(doctor_t *doctor) {
    const doctor_call_t *seen = doctor->first;

    if (seen->status >= 300 && seen->status < 400) {
        doctor_saw(doctor, "HTTP %d, a redirect that clients cannot or must not follow",
                   seen->status);
        doctor_bad(doctor, DOCTOR_FAILED,
                   "Use the address that it redirects to. 301, 302 and 303 turn a POST "
                   "into a GET, and clients send no token to another host.");
        doctor_give_up(doctor, CLI_UNREACHABLE);
    } else if (seen->hops > 0) {
        doctor_saw(doctor, "after %u redirect%s", seen->hops, seen->hops == 1 ? "" : "s");
        doctor_bad(doctor, DOCTOR_WARNING,
                   "Not every client follows redirects of a POST. Use the last address "
                   "(often it is https, or a slash at the end).");
    } else {
        doctor_saw(doctor, "at once, without a redirect");
    }
}

/* The program starts and answers. Where it may know the older era alone, an answer is not
 * expected yet. */
static void check_start(doctor_t *doctor) {
    const doctor_call_t *call = say_hello(doctor, "started it and sent");
    uint64_t took_us = doctor_now_us() - call->began_us;

    if (call->message != NULL ||
        (doctor_wants(doctor, DOCTOR_MODERN) && doctor_wants(doctor, DOCTOR_LEGACY))) {
        doctor_saw(doctor, "%s after %.1f ms", doctor_describe(call),
                   (double)took_us / 1000);
    } else {
        doctor_saw(doctor, "%s", doctor_why(call));
        doctor_bad(doctor, DOCTOR_FAILED,
                   "Run the command by hand: what does it print? Is it a server that "
                   "speaks over its standard input and output?");
        doctor_give_up(doctor,
                       call->code == TDG_ETIMEDOUT ? CLI_TIMEOUT : CLI_UNREACHABLE);
    }
    doctor_fact(doctor, "answer_us", (json_int_t)took_us);
}

const doctor_check_t doctor_reach_checks[] = {
    {"reach.connect", "The server is reachable", NULL, DOCTOR_HTTP, check_connect},
    {"reach.access", "The server grants access",
     "checked the status of the first response", DOCTOR_HTTP, check_access},
    {"reach.redirect", "The address needs no redirect",
     "checked for redirects of the first request", DOCTOR_HTTP, check_redirect},
    {"reach.start", "The program starts", NULL, DOCTOR_STDIO, check_start},
    {NULL, NULL, NULL, 0, NULL},
};

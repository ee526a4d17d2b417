/* SPDX-License-Identifier: MIT
 *
 * Checks of the response headers of streams: fields that ask proxies and caches not to
 * interfere, and signs that they do. */
#include <string.h>
#include <strings.h>

#include "doctor/doctor.h"

static void check_length(doctor_t *doctor) {
    const char *length = doctor_field(doctor_silent(doctor), "content-length");

    doctor_saw(doctor, "%s", length != NULL ? length : "none");
    if (length != NULL)
        doctor_bad(doctor, DOCTOR_FAILED,
                   "A stream has no length. Either a proxy reads it to its end before it "
                   "passes it on, or the server buffers it.");
}

static void check_caching(doctor_t *doctor) {
    const char *cache = doctor_field(doctor_silent(doctor), "cache-control");

    doctor_saw(doctor, "%s", cache != NULL ? cache : "none");
    if (cache == NULL ||
        (strstr(cache, "no-cache") == NULL && strstr(cache, "no-store") == NULL))
        doctor_bad(doctor, DOCTOR_WARNING,
                   "Send Cache-Control: no-cache, no-transform with streams, so that "
                   "caches on the way pass them on and do not compress them.");
}

static void check_accel(doctor_t *doctor) {
    const char *accel = doctor_field(doctor_silent(doctor), "x-accel-buffering");
    const char *server = doctor_field(doctor_silent(doctor), "server");

    if (accel == NULL && server != NULL && strncasecmp(server, "nginx", 5) == 0) {
        doctor_saw(doctor, "none, but nginx answers, and removes it");
        return;
    }
    doctor_saw(doctor, "%s", accel != NULL ? accel : "none");
    if (accel == NULL || strcasecmp(accel, "no") != 0)
        doctor_bad(doctor, DOCTOR_WARNING,
                   "Send X-Accel-Buffering: no with streams: then nginx does not buffer "
                   "them, whatever its configuration says.");
}

static void check_proxy(doctor_t *doctor) {
    static const char *const marks[] = {"via",
                                        "x-cache",
                                        "cf-ray",
                                        "x-amz-cf-id",
                                        "x-served-by",
                                        "x-varnish",
                                        "x-envoy-upstream-service-time",
                                        NULL};
    const doctor_call_t *seen = doctor_silent(doctor);
    const char *server = doctor_field(seen, "server");

    if (server != NULL)
        doctor_saw(doctor, "Server: %.100s", server);
    for (size_t i = 0; marks[i] != NULL; i++)
        if (doctor_field(seen, marks[i]) != NULL)
            doctor_saw(doctor, "%s: %.100s", marks[i], doctor_field(seen, marks[i]));
    if (doctor->result->saw.len == 0)
        doctor_saw(doctor, "none");
}

/* Many clients and all browsers accept gzip, so the doctor offers to. A legacy session of
 * its own, because some servers have one stream per session. */
static doctor_call_t *open_compressed(doctor_t *doctor,
                                      char session[TDG__WEB_MAX_SESSION + 1]) {
    doctor_request_t request = {
        .era = doctor->era,
        .extra_name = "Accept-Encoding",
        .extra_value = "gzip, deflate, br",
        .stream = true,
    };

    if (doctor->era == DOCTOR_MODERN) {
        request.method = "subscriptions/listen";
        request.params =
            json_pack("{s:{s:b}}", "notifications", "resourcesListChanged", 1);
    } else {
        doctor_new_session(doctor, session);
        request.http = TDG__WEB_GET;
        request.session = session;
    }
    return doctor_send(doctor, &request);
}

static void check_compression(doctor_t *doctor) {
    char session[TDG__WEB_MAX_SESSION + 1] = "";
    const char *encoding;
    doctor_call_t *seen;

    seen = open_compressed(doctor, session);
    doctor_wait(seen, doctor_is_headed);
    encoding = doctor_field(seen, "content-encoding");
    if (!seen->headed || seen->status != 200) {
        doctor_skip(doctor, "the stream did not open: %s", doctor_describe(seen));
    } else if (encoding == NULL || strcasecmp(encoding, "identity") == 0) {
        doctor_saw(doctor, "it is not compressed");
    } else {
        doctor_until(doctor, doctor_has_bytes, seen, DOCTOR_SOON_MS);
        doctor_saw(doctor, "Content-Encoding: %s, %s", encoding,
                   seen->bytes > 0 ? "but bytes arrive" : "and nothing arrives");
        /* only the modern era has something that must come */
        doctor_bad(
            doctor,
            seen->bytes > 0 || doctor->era == DOCTOR_LEGACY ? DOCTOR_WARNING
                                                            : DOCTOR_FAILED,
            "Compression delays events until its buffer is full: switch it off for "
            "text/event-stream (nginx: remove it from gzip_types, or gzip off for this "
            "location; Apache: SetEnv no-gzip 1), and send Cache-Control: no-transform.");
    }
    doctor_end(seen); /* before its session */
    doctor_delete(doctor, session);
}

const doctor_check_t doctor_head_checks[] = {
    {"stream.length", "A stream has no length", "checked Content-Length",
     DOCTOR_ON_SILENT, check_length},
    {"stream.caching", "Caching of streams is disabled", "checked Cache-Control",
     DOCTOR_ON_SILENT, check_caching},
    {"stream.accel", "Buffering by nginx is disabled", "checked X-Accel-Buffering",
     DOCTOR_ON_SILENT, check_accel},
    {"stream.proxy", "Server and proxies", "looked for signs of a proxy in the headers",
     DOCTOR_ON_SILENT, check_proxy},
    {"stream.compression", "Streams are not compressed",
     "opened a stream with Accept-Encoding: gzip, deflate, br", DOCTOR_ON_SILENT,
     check_compression},
    {NULL, NULL, NULL, 0, NULL},
};

/* SPDX-License-Identifier: MIT
 *
 * What the heads of streams say: by their fields proxies and caches are told to leave
 * them alone, or show that they do not. */
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "doctor/doctor.h"

static void check_length(doctor_t *doctor, doctor_era_t era, doctor_result_t *result) {
    const doctor_exchange_t *seen = doctor_silent(doctor, era, result);
    const char *length;

    doctor_did(result, "checked Content-Length");
    if (seen == NULL)
        return;
    length = doctor_field(seen, "content-length");
    doctor_saw(result, "%s", length != NULL ? length : "none");
    if (length != NULL)
        doctor_bad(result, DOCTOR_FAILED,
                   "A stream has no length. Something reads it to its end before it "
                   "passes it on, or the server collects it.");
}

static void check_caching(doctor_t *doctor, doctor_era_t era, doctor_result_t *result) {
    const doctor_exchange_t *seen = doctor_silent(doctor, era, result);
    const char *cache;

    doctor_did(result, "checked Cache-Control");
    if (seen == NULL)
        return;
    cache = doctor_field(seen, "cache-control");
    doctor_saw(result, "%s", cache != NULL ? cache : "none");
    if (cache == NULL ||
        (strstr(cache, "no-cache") == NULL && strstr(cache, "no-store") == NULL))
        doctor_bad(result, DOCTOR_WARNING,
                   "Send Cache-Control: no-cache, no-transform with streams, so that "
                   "caches on the way pass them on and do not compress them.");
}

static bool is_nginx(const doctor_exchange_t *seen) {
    const char *server = doctor_field(seen, "server");

    return server != NULL && strncasecmp(server, "nginx", 5) == 0;
}

static void check_accel(doctor_t *doctor, doctor_era_t era, doctor_result_t *result) {
    const doctor_exchange_t *seen = doctor_silent(doctor, era, result);
    const char *accel;

    doctor_did(result, "checked X-Accel-Buffering");
    if (seen == NULL)
        return;
    accel = doctor_field(seen, "x-accel-buffering");
    if (accel == NULL && is_nginx(seen)) {
        doctor_saw(result, "none, but nginx answers, and takes it out");
        return;
    }
    doctor_saw(result, "%s", accel != NULL ? accel : "none");
    if (accel == NULL || strcasecmp(accel, "no") != 0)
        doctor_bad(result, DOCTOR_WARNING,
                   "Send X-Accel-Buffering: no with streams: then nginx does not buffer "
                   "them, whatever its configuration says.");
}

static void check_proxy(doctor_t *doctor, doctor_era_t era, doctor_result_t *result) {
    static const char *const marks[] = {"via",
                                        "x-cache",
                                        "cf-ray",
                                        "x-amz-cf-id",
                                        "x-served-by",
                                        "x-varnish",
                                        "x-envoy-upstream-service-time",
                                        NULL};
    const doctor_exchange_t *seen = doctor_silent(doctor, era, result);
    const char *server;

    doctor_did(result, "looked for signs of a proxy in the headers");
    if (seen == NULL)
        return;
    server = doctor_field(seen, "server");
    if (server != NULL)
        doctor_saw(result, "Server: %.100s", server);
    for (size_t i = 0; marks[i] != NULL; i++)
        if (doctor_field(seen, marks[i]) != NULL)
            doctor_saw(result, "%s: %.100s", marks[i], doctor_field(seen, marks[i]));
    if (result->saw.len == 0)
        doctor_saw(result, "none");
}

/* Opens a stream of its own as `request` says, and looks whether it is compressed. */
static void judge_compression(doctor_t *doctor, const doctor_request_t *request,
                              doctor_result_t *result) {
    doctor_exchange_t seen;
    const char *encoding;

    doctor_begin(doctor, request, &seen);
    doctor_until(doctor, doctor_headed, &seen, doctor_patience(doctor));
    encoding = doctor_field(&seen, "content-encoding");
    if (!seen.headed || seen.status != 200) {
        doctor_skip(result, "the stream did not open: %s",
                    doctor_describe_exchange(doctor, &seen));
    } else if (encoding == NULL || strcasecmp(encoding, "identity") == 0) {
        doctor_saw(result, "it is not compressed");
    } else {
        doctor_until(doctor, doctor_first_byte, &seen, DOCTOR_SOON_MS);
        doctor_saw(result, "Content-Encoding: %s, %s", encoding,
                   seen.bytes > 0 ? "though bytes arrive" : "and nothing arrives");
        /* only the modern era has something that must come */
        doctor_bad(result,
                   seen.bytes > 0 || request->era == DOCTOR_LEGACY ? DOCTOR_WARNING
                                                                   : DOCTOR_FAILED,
                   "Compression delays events until its buffer is full: switch "
                   "it off for text/event-stream (nginx: take it out of gzip_types, or "
                   "gzip off for this location; Apache: SetEnv no-gzip 1), and send "
                   "Cache-Control: no-transform.");
    }
    doctor_end(&seen);
}

/* Many clients and all browsers say that they take gzip; so the doctor says it, too. */
static void check_compression(doctor_t *doctor, doctor_era_t era,
                              doctor_result_t *result) {
    bool modern = era == DOCTOR_MODERN;
    char session[TDG__WEB_MAX_SESSION + 1] = "", *text = NULL;
    doctor_request_t request = {
        .method = modern ? TDG__WEB_POST : TDG__WEB_GET,
        .era = era,
        .rpc_method = modern ? "subscriptions/listen" : NULL,
        .version = modern ? DOCTOR_MODERN_VERSION : doctor->legacy_version,
        .session = session,
        .extra_name = "Accept-Encoding",
        .extra_value = "gzip, deflate, br",
        .stream = true,
    };

    doctor_did(result, "opened a stream with Accept-Encoding: gzip, deflate, br");
    if (doctor_silent(doctor, era, result) == NULL)
        return;
    if (modern)
        text = doctor_compose(
            era, DOCTOR_MODERN_VERSION, doctor_next_id(doctor), "subscriptions/listen",
            json_pack("{s:{s:b}}", "notifications", "resourcesListChanged", 1));
    else /* one of its own: some servers have one stream per session */
        doctor_new_session(doctor, session, sizeof(session));
    request.body = text;
    judge_compression(doctor, &request, result);
    doctor_delete(doctor, session);
    tdg__free(text);
}

const doctor_check_t doctor_head_checks[] = {
    {"stream.length", "A stream has no length", DOCTOR_SILENT, check_length},
    {"stream.caching", "Caching of streams is disabled", DOCTOR_SILENT, check_caching},
    {"stream.accel", "Buffering by nginx is disabled", DOCTOR_SILENT, check_accel},
    {"stream.proxy", "What answers", DOCTOR_SILENT, check_proxy},
    {"stream.compression", "Streams are not compressed", DOCTOR_SILENT,
     check_compression},
    {NULL, NULL, 0, NULL},
};

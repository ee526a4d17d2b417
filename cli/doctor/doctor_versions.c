/* SPDX-License-Identifier: MIT
 *
 * Which versions of the protocol the server speaks, and whether it reports them
 * correctly. The result decides which other checks can run. */
#include <stdio.h>
#include <string.h>

#include "ask/ask.h"
#include "doctor/doctor.h"

enum { MAX_VERSIONS = 10 }; /* that are tried */

static void keep_hello(doctor_t *doctor, doctor_era_t era, const doctor_call_t *call) {
    doctor->hello[era] = json_incref((json_t *)(uintptr_t)call->result);
    doctor->spoken[era] = true;
}

static void put_versions(doctor_t *doctor, const char *what, const json_t *list) {
    tdg__text_t text;
    json_t *one;
    size_t i;

    tdg__text_init(&text, 512);
    json_array_foreach((json_t *)(uintptr_t)list, i, one) {
        tdg__text_put(&text, i > 0 ? ", " : "");
        tdg__text_put(&text, json_is_string(one) ? json_string_value(one) : "?");
    }
    doctor_saw(doctor, "%s %s", what, text.len > 0 ? text.data : "nothing");
    tdg__text_done(&text);
}

/* Whether this era is wanted, else the check is skipped. */
static bool is_wanted(doctor_t *doctor, doctor_era_t era) {
    if (doctor_wants(doctor, era))
        return true;
    doctor_skip(doctor, "--era %s", era == DOCTOR_MODERN ? "legacy" : "modern");
    return false;
}

static void check_modern(doctor_t *doctor) {
    const doctor_call_t *call;
    const json_t *versions;

    if (!is_wanted(doctor, DOCTOR_MODERN))
        return;
    call = doctor_ask(doctor, DOCTOR_MODERN, "server/discover", NULL);
    versions = json_object_get(call->result, "supportedVersions");
    if (call->result == NULL) {
        doctor_skip(doctor, "the server does not speak it: %s", doctor_describe(call));
    } else if (!cli_lists(versions, DOCTOR_MODERN_VERSION)) {
        put_versions(doctor, "the result does not list it, but", versions);
        doctor_bad(doctor, DOCTOR_FAILED,
                   "A server that answers server/discover lists " DOCTOR_MODERN_VERSION
                   " in `supportedVersions`, or else clients fall back.");
    } else {
        put_versions(doctor, "the server lists", versions);
        keep_hello(doctor, DOCTOR_MODERN, call);
        if (!json_is_object(json_object_get(call->result, "capabilities"))) {
            doctor_saw(doctor, "no capabilities");
            doctor_bad(doctor, DOCTOR_FAILED,
                       "The result of server/discover must have `capabilities`.");
        }
    }
}

static void check_legacy(doctor_t *doctor) {
    const doctor_call_t *call;
    const char *version;

    if (!is_wanted(doctor, DOCTOR_LEGACY))
        return;
    call = doctor_ask(doctor, DOCTOR_LEGACY, "initialize", NULL);
    version = json_string_value(json_object_get(call->result, "protocolVersion"));
    if (version == NULL || strlen(version) >= sizeof(doctor->legacy_version)) {
        doctor_skip(doctor, "the server does not speak it: %s", doctor_describe(call));
        return;
    }
    doctor_saw(doctor, "the server answers with %s", version);
    snprintf(doctor->legacy_version, sizeof(doctor->legacy_version), "%s", version);
    snprintf(doctor->session, sizeof(doctor->session), "%s", call->session);
    keep_hello(doctor, DOCTOR_LEGACY, call);
    doctor_send_and_wait(doctor,
                         &(doctor_request_t){.era = DOCTOR_LEGACY,
                                             .method = "notifications/initialized",
                                             .notify = true});
}

static void check_any(doctor_t *doctor) {
    if (doctor->spoken[DOCTOR_MODERN] && doctor->spoken[DOCTOR_LEGACY]) {
        doctor_saw(doctor, "both eras: every client can connect");
    } else if (doctor->spoken[DOCTOR_MODERN] || doctor->spoken[DOCTOR_LEGACY]) {
        doctor_saw(doctor, "only %s",
                   doctor->spoken[DOCTOR_MODERN]
                       ? DOCTOR_MODERN_VERSION
                       : "versions up to " DOCTOR_LEGACY_VERSION);
        if (doctor->options->target.era == TDG_ERA_FIND && !doctor->spoken[DOCTOR_LEGACY])
            doctor_bad(doctor, DOCTOR_WARNING,
                       "Most clients begin with initialize: let the server "
                       "speak " DOCTOR_LEGACY_VERSION " as well.");
    } else {
        doctor_saw(doctor, "neither era is answered");
        doctor_bad(doctor, DOCTOR_FAILED,
                   "Is this a server of the Model Context Protocol, and is the path "
                   "right? Servers are often found at /mcp. (Servers with only the two "
                   "endpoints of 2024-11-05 are not tested.)");
        doctor_give_up(doctor, CLI_FAILED);
    }
}

/* A version that nobody speaks: refused by the modern era with the list of those that
 * are. */
static void check_unsupported(doctor_t *doctor) {
    const doctor_call_t *call = doctor_send_and_wait(
        doctor, &(doctor_request_t){.era = doctor->era,
                                    .method = "server/discover",
                                    .version = DOCTOR_UNKNOWN_VERSION});
    const json_t *supported =
        json_object_get(json_object_get(call->trouble, "data"), "supported");

    doctor_saw(doctor, "%s", doctor_describe(call));
    if (call->rpc_code != -32022) {
        doctor_bad(doctor, DOCTOR_FAILED,
                   "Refuse an unknown version with error -32022, where `data.supported` "
                   "lists the versions; without it, clients cannot find another one.");
    } else if (!cli_lists(supported, DOCTOR_MODERN_VERSION)) {
        put_versions(doctor, "`supported` lists", supported);
        doctor_bad(doctor, DOCTOR_FAILED,
                   "`data.supported` of error -32022 must list every supported "
                   "version; " DOCTOR_MODERN_VERSION " is missing.");
    } else {
        put_versions(doctor, "supported:", supported);
    }
}

static void try_version(doctor_t *doctor, const char *version) {
    bool modern = strcmp(version, DOCTOR_MODERN_VERSION) >= 0;
    const doctor_call_t *call;
    const char *got;

    if (!modern && doctor->url == NULL)
        return; /* a pipe is initialised once */
    call = doctor_send_and_wait(
        doctor, &(doctor_request_t){.era = modern ? DOCTOR_MODERN : DOCTOR_LEGACY,
                                    .method = modern ? "server/discover" : "initialize",
                                    .version = version});
    got = json_string_value(json_object_get(call->result, "protocolVersion"));
    if (call->result != NULL && (modern || (got != NULL && strcmp(got, version) == 0)))
        return;
    doctor_saw(doctor, "%s: %s%s", version,
               got != NULL ? "answered with " : doctor_describe(call),
               got != NULL ? got : "");
    doctor_bad(doctor, DOCTOR_FAILED,
               "Remove the version from `supportedVersions`, or support it.");
}

static void check_named(doctor_t *doctor) {
    const json_t *versions =
        json_object_get(doctor->hello[doctor->era], "supportedVersions");

    for (size_t i = 0; i < json_array_size(versions) && i < MAX_VERSIONS; i++)
        if (json_is_string(json_array_get(versions, i)))
            try_version(doctor, json_string_value(json_array_get(versions, i)));
    if (doctor->result->status == DOCTOR_OK)
        put_versions(doctor, doctor->url != NULL ? "supported:" : "listed:", versions);
}

/* Legacy: whatever the client asks for, the server answers with a version it speaks. */
static void check_negotiated(doctor_t *doctor) {
    doctor_program_t *other = &doctor->own_programs[DOCTOR_ERAS];
    const doctor_call_t *call;
    const char *version;

    if (doctor->url == NULL) /* a program of its own: a pipe is initialised once */
        doctor->programs[DOCTOR_LEGACY] = other;
    call = doctor_send_and_wait(doctor,
                                &(doctor_request_t){.era = doctor->era,
                                                    .method = "initialize",
                                                    .version = DOCTOR_UNKNOWN_VERSION});
    version = json_string_value(json_object_get(call->result, "protocolVersion"));
    if (version == NULL) {
        doctor_saw(doctor, "%s", doctor_describe(call));
        doctor_bad(doctor, DOCTOR_WARNING,
                   "initialize answers an unknown version with one that the server "
                   "speaks, so that newer clients can use that one.");
    } else if (strcmp(version, DOCTOR_UNKNOWN_VERSION) == 0) {
        doctor_saw(doctor, "the server claims to speak it");
        doctor_bad(doctor, DOCTOR_FAILED,
                   "initialize must answer with a version that the server speaks, not "
                   "with the requested one.");
    } else {
        doctor_saw(doctor, "the server offers %s", version);
    }
    doctor->programs[DOCTOR_LEGACY] = &doctor->own_programs[DOCTOR_LEGACY];
    doctor_stop(other, 15000);
}

const doctor_check_t doctor_version_checks[] = {
    {"version.modern", DOCTOR_MODERN_VERSION " is supported",
     "sent server/discover as of " DOCTOR_MODERN_VERSION, 0, check_modern},
    {"version.legacy", "2025-11-25 or older is supported",
     "sent initialize with " DOCTOR_LEGACY_VERSION, 0, check_legacy},
    {"version.any", "Every client finds a version", "compared both eras", 0, check_any},
    {"version.unsupported", "An unknown version is refused",
     "sent server/discover as of " DOCTOR_UNKNOWN_VERSION, DOCTOR_NEEDS_MODERN,
     check_unsupported},
    {"version.named", "The listed versions are supported",
     "tried every version that server/discover lists", DOCTOR_NEEDS_MODERN, check_named},
    {"version.negotiated", "initialize negotiates the version",
     "sent initialize with " DOCTOR_UNKNOWN_VERSION, DOCTOR_NEEDS_LEGACY,
     check_negotiated},
    {NULL, NULL, NULL, 0, NULL},
};

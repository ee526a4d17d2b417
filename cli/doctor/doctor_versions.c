/* SPDX-License-Identifier: MIT
 *
 * Which versions of the protocol the server speaks, and whether what it says about them
 * is true. What is found out here decides which other checks can be run. */
#include <stdio.h>
#include <string.h>

#include "doctor/doctor.h"

static void keep_hello(doctor_t *doctor, doctor_era_t era,
                       const doctor_answer_t *answer) {
    doctor->hello[era] = json_incref(answer->result);
    doctor->capabilities[era] = json_object_get(answer->result, "capabilities");
    doctor->spoken[era] = true;
}

static bool lists_version(const json_t *versions, const char *version) {
    json_t *one;
    size_t i;

    json_array_foreach((json_t *)(uintptr_t)versions, i, one) {
        if (json_is_string(one) && strcmp(json_string_value(one), version) == 0)
            return true;
    }
    return false;
}

static void put_versions(doctor_result_t *result, const char *what, const json_t *list) {
    tdg__text_t text;
    json_t *one;
    size_t i;

    tdg__text_init(&text, 512);
    json_array_foreach((json_t *)(uintptr_t)list, i, one) {
        tdg__text_put(&text, i > 0 ? ", " : "");
        tdg__text_put(&text, json_is_string(one) ? json_string_value(one) : "?");
    }
    doctor_saw(result, "%s %s", what, text.len > 0 ? text.data : "nothing");
    tdg__text_done(&text);
}

static void check_modern(doctor_t *doctor, doctor_era_t era, doctor_result_t *result) {
    doctor_answer_t answer;
    const json_t *versions;

    (void)era;
    doctor_did(result, "sent server/discover as of " DOCTOR_MODERN_VERSION);
    if (!doctor_wants(doctor, DOCTOR_MODERN)) {
        doctor_skip(result, "--era legacy");
        return;
    }
    doctor_ask(doctor, DOCTOR_MODERN, "server/discover", NULL, &answer);
    versions = json_object_get(answer.result, "supportedVersions");
    if (answer.result != NULL && lists_version(versions, DOCTOR_MODERN_VERSION)) {
        put_versions(result, "the server lists", versions);
        keep_hello(doctor, DOCTOR_MODERN, &answer);
        if (!json_is_object(doctor->capabilities[DOCTOR_MODERN])) {
            doctor_saw(result, "no capabilities");
            doctor_bad(result, DOCTOR_FAILED,
                       "The result of server/discover must have `capabilities`.");
        }
    } else if (answer.result != NULL) {
        put_versions(result, "the result does not list it, but", versions);
        doctor_bad(result, DOCTOR_FAILED,
                   "A server that answers server/discover lists " DOCTOR_MODERN_VERSION
                   " in `supportedVersions`, or else clients fall back.");
    } else {
        doctor_skip(result, "the server does not speak it: %s",
                    doctor_describe(doctor, &answer));
    }
    doctor_answer_done(&answer);
}

static void check_legacy(doctor_t *doctor, doctor_era_t era, doctor_result_t *result) {
    doctor_answer_t answer;
    const char *version;

    (void)era;
    doctor_did(result, "sent initialize with " DOCTOR_LEGACY_VERSION);
    if (!doctor_wants(doctor, DOCTOR_LEGACY)) {
        doctor_skip(result, "--era modern");
        return;
    }
    doctor_ask_as(doctor, DOCTOR_LEGACY, DOCTOR_LEGACY_VERSION, NULL, "initialize", NULL,
                  &answer);
    version = json_string_value(json_object_get(answer.result, "protocolVersion"));
    if (version != NULL && strlen(version) < sizeof(doctor->legacy_version)) {
        doctor_saw(result, "the server answers with %s", version);
        snprintf(doctor->legacy_version, sizeof(doctor->legacy_version), "%s", version);
        snprintf(doctor->session, sizeof(doctor->session), "%s", answer.session);
        keep_hello(doctor, DOCTOR_LEGACY, &answer);
        doctor_notify(doctor, DOCTOR_LEGACY, doctor->session,
                      "notifications/initialized");
    } else {
        doctor_skip(result, "the server does not speak it: %s",
                    doctor_describe(doctor, &answer));
    }
    doctor_answer_done(&answer);
}

static void check_any(doctor_t *doctor, doctor_era_t era, doctor_result_t *result) {
    (void)era;
    doctor_did(result, "compared both eras");
    if (doctor->spoken[DOCTOR_MODERN] && doctor->spoken[DOCTOR_LEGACY]) {
        doctor_saw(result, "both eras: every client can talk to it");
    } else if (doctor->spoken[DOCTOR_MODERN] || doctor->spoken[DOCTOR_LEGACY]) {
        doctor_saw(result, "only %s",
                   doctor->spoken[DOCTOR_MODERN]
                       ? DOCTOR_MODERN_VERSION
                       : "versions until " DOCTOR_LEGACY_VERSION);
        if (doctor->options->target.era == TDG_ERA_FIND && !doctor->spoken[DOCTOR_LEGACY])
            doctor_bad(result, DOCTOR_WARNING,
                       "Most clients begin with initialize: let the server "
                       "speak " DOCTOR_LEGACY_VERSION " as well.");
    } else {
        doctor_saw(result, "neither era is answered");
        doctor_bad(result, DOCTOR_FAILED,
                   "Is this a server of the Model Context Protocol, and is the path "
                   "right? Servers are often found at /mcp. (Servers with only the two "
                   "endpoints of 2024-11-05 are not examined.)");
        doctor_give_up(doctor, CLI_FAILED);
    }
}

/* A version that nobody speaks: refused by the modern era with the list of those that
 * are. */
static void check_unsupported(doctor_t *doctor, doctor_era_t era,
                              doctor_result_t *result) {
    doctor_answer_t answer;
    const json_t *supported;

    doctor_did(result, "sent server/discover as of " DOCTOR_UNKNOWN_VERSION);
    doctor_ask_as(doctor, era, DOCTOR_UNKNOWN_VERSION, NULL, "server/discover", NULL,
                  &answer);
    doctor_saw(result, "%s", doctor_describe(doctor, &answer));
    supported = json_object_get(json_object_get(answer.trouble, "data"), "supported");
    if (answer.rpc_code != -32022) {
        doctor_bad(result, DOCTOR_FAILED,
                   "Refuse an unknown version with error -32022, where `data.supported` "
                   "lists the versions; without it, clients cannot find another one.");
    } else if (!lists_version(supported, DOCTOR_MODERN_VERSION)) {
        put_versions(result, "`supported` lists", supported);
        doctor_bad(result, DOCTOR_FAILED,
                   "`data.supported` of error -32022 must list every version that is "
                   "spoken; " DOCTOR_MODERN_VERSION " is, and is missing.");
    } else {
        put_versions(result, "supported are", supported);
    }
    doctor_answer_done(&answer);
}

/* Every version that the server names is tried. */
static void check_named(doctor_t *doctor, doctor_era_t era, doctor_result_t *result) {
    const json_t *versions = json_object_get(doctor->hello[era], "supportedVersions");
    json_t *one;
    size_t i;

    doctor_did(result, "spoke every version that server/discover names");
    json_array_foreach((json_t *)(uintptr_t)versions, i, one) {
        const char *version = json_string_value(one), *got;
        bool modern = version != NULL && strcmp(version, DOCTOR_MODERN_VERSION) >= 0;
        doctor_answer_t answer;

        if (version == NULL || i >= 10)
            continue;
        if (!modern && doctor->url == NULL)
            continue; /* a pipe is initialised once */
        doctor_ask_as(doctor, modern ? DOCTOR_MODERN : DOCTOR_LEGACY, version, NULL,
                      modern ? "server/discover" : "initialize", NULL, &answer);
        got = json_string_value(json_object_get(answer.result, "protocolVersion"));
        if (answer.result == NULL ||
            (!modern && (got == NULL || strcmp(got, version) != 0))) {
            doctor_saw(result, "%s: %s%s", version,
                       got != NULL ? "answered with " : doctor_describe(doctor, &answer),
                       got != NULL ? got : "");
            doctor_bad(result, DOCTOR_FAILED,
                       "Remove the version from `supportedVersions`, or support it.");
        }
        doctor_answer_done(&answer);
    }
    if (result->status == DOCTOR_OK)
        put_versions(result, doctor->url != NULL ? "spoken are" : "named are", versions);
}

/* Legacy: whatever the client asks for, the server answers with a version it speaks. */
static void check_negotiated(doctor_t *doctor, doctor_era_t era,
                             doctor_result_t *result) {
    doctor_program_t *other = &doctor->own_programs[DOCTOR_ERAS];
    doctor_answer_t answer;
    const char *version;

    doctor_did(result, "sent initialize with " DOCTOR_UNKNOWN_VERSION);
    if (doctor->url == NULL) /* a program of its own: a pipe is initialised once */
        doctor->programs[DOCTOR_LEGACY] = other;
    doctor_ask_as(doctor, era, DOCTOR_UNKNOWN_VERSION, NULL, "initialize", NULL, &answer);
    version = json_string_value(json_object_get(answer.result, "protocolVersion"));
    if (version == NULL) {
        doctor_saw(result, "%s", doctor_describe(doctor, &answer));
        doctor_bad(result, DOCTOR_WARNING,
                   "initialize answers an unknown version with one that the server "
                   "speaks, so that newer clients can go on with that.");
    } else if (strcmp(version, DOCTOR_UNKNOWN_VERSION) == 0) {
        doctor_saw(result, "the server claims to speak it");
        doctor_bad(result, DOCTOR_FAILED,
                   "initialize must answer with a version that the server speaks, not "
                   "with the requested one.");
    } else {
        doctor_saw(result, "the server offers %s", version);
    }
    doctor_answer_done(&answer);
    doctor->programs[DOCTOR_LEGACY] = &doctor->own_programs[DOCTOR_LEGACY];
    doctor_stop(other, 15000);
}

const doctor_check_t doctor_version_checks[] = {
    {"version.modern", DOCTOR_MODERN_VERSION " is spoken", 0, check_modern},
    {"version.legacy", "2025-11-25 or older is spoken", 0, check_legacy},
    {"version.any", "Clients find a version", 0, check_any},
    {"version.unsupported", "An unknown version is refused", DOCTOR_NEEDS_MODERN,
     check_unsupported},
    {"version.named", "The listed versions are spoken", DOCTOR_NEEDS_MODERN, check_named},
    {"version.negotiated", "initialize negotiates", DOCTOR_NEEDS_LEGACY,
     check_negotiated},
    {NULL, NULL, 0, NULL},
};

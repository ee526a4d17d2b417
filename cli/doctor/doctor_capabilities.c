/* SPDX-License-Identifier: MIT
 *
 * Capabilities that are advertised and do not work, and those that work and are not
 * advertised: clients look at what is advertised, and use nothing else. */
#include <stdio.h>
#include <string.h>

#include "doctor/doctor.h"

static json_t *advertised(const doctor_t *doctor, doctor_era_t era, const char *name) {
    json_t *value = json_object_get(doctor->capabilities[era], name);

    return json_is_null(value) || json_is_false(value) ? NULL : value;
}

/* Judges a list that was asked for. */
static void judge_list(doctor_t *doctor, doctor_result_t *result, bool is_advertised,
                       const char *field, const doctor_answer_t *answer) {
    const json_t *list = json_object_get(answer->result, field);

    if (is_advertised && !json_is_array(list)) {
        doctor_saw(result, "advertised, and answered with %s%s",
                   doctor_describe(doctor, answer),
                   answer->result != NULL ? " that has no list" : "");
        doctor_bad(
            result, DOCTOR_FAILED,
            "Remove the capability from the result of server/discover and initialize, "
            "or make its methods work.");
    } else if (is_advertised) {
        doctor_saw(result, "advertised; %zu listed%s", json_array_size(list),
                   json_object_get(answer->result, "nextCursor") != NULL ? ", and more"
                                                                         : "");
        doctor_fact(result, "listed", (json_int_t)json_array_size(list));
    } else if (json_array_size(list) > 0) {
        doctor_saw(result, "not advertised, but %zu are listed", json_array_size(list));
        doctor_bad(
            result, DOCTOR_WARNING,
            "Clients only use what is advertised: add the capability to the result of "
            "server/discover and initialize.");
    } else {
        doctor_skip(result, "the server does not advertise it, and lists none");
    }
}

static void ask_list(doctor_t *doctor, doctor_era_t era, doctor_result_t *result,
                     const char *capability, const char *method, const char *field) {
    doctor_answer_t answer;

    doctor_did(result, "asked for %s", method);
    doctor_ask(doctor, era, method, NULL, &answer);
    judge_list(doctor, result, advertised(doctor, era, capability) != NULL, field,
               &answer);
    doctor_answer_done(&answer);
}

static void read_first(doctor_t *doctor, doctor_era_t era, doctor_result_t *result,
                       const char *uri) {
    doctor_answer_t answer;

    doctor_ask(doctor, era, "resources/read", json_pack("{s:s}", "uri", uri), &answer);
    if (json_is_array(json_object_get(answer.result, "contents"))) {
        doctor_saw(result, "the first can be read");
    } else {
        doctor_saw(result, "reading the first, %s: %s", uri,
                   doctor_describe(doctor, &answer));
        doctor_bad(result, DOCTOR_FAILED,
                   "Clients expect to read every listed resource: list only existing "
                   "ones, and see "
                   "the server's log for the reason.");
    }
    doctor_answer_done(&answer);
}

static void check_resources(doctor_t *doctor, doctor_era_t era, doctor_result_t *result) {
    const char *uri;
    doctor_answer_t answer;

    doctor_did(result, "asked for resources/list and read the first");
    doctor_ask(doctor, era, "resources/list", NULL, &answer);
    judge_list(doctor, result, advertised(doctor, era, "resources") != NULL, "resources",
               &answer);
    uri = json_string_value(json_object_get(
        json_array_get(json_object_get(answer.result, "resources"), 0), "uri"));
    if (uri != NULL)
        read_first(doctor, era, result, uri);
    doctor_answer_done(&answer);
}

static void check_templates(doctor_t *doctor, doctor_era_t era, doctor_result_t *result) {
    ask_list(doctor, era, result, "resources", "resources/templates/list",
             "resourceTemplates");
}

static void check_tools(doctor_t *doctor, doctor_era_t era, doctor_result_t *result) {
    ask_list(doctor, era, result, "tools", "tools/list", "tools");
}

static void check_prompts(doctor_t *doctor, doctor_era_t era, doctor_result_t *result) {
    ask_list(doctor, era, result, "prompts", "prompts/list", "prompts");
}

/* Something to complete: the first argument of a prompt, or the first variable of a
 * template. New; NULL: there is nothing. */
static json_t *completion_params(doctor_t *doctor, doctor_era_t era) {
    doctor_answer_t answer;
    json_t *params = NULL, *one, *arguments;
    const char *name, *template;
    size_t i;

    doctor_ask(doctor, era, "prompts/list", NULL, &answer);
    json_array_foreach(json_object_get(answer.result, "prompts"), i, one) {
        arguments = json_object_get(one, "arguments");
        name = json_string_value(json_object_get(json_array_get(arguments, 0), "name"));
        if (name != NULL && params == NULL)
            params = json_pack("{s:{s:s, s:O}, s:{s:s, s:s}}", "ref", "type",
                               "ref/prompt", "name", json_object_get(one, "name"),
                               "argument", "name", name, "value", "");
    }
    doctor_answer_done(&answer);
    if (params != NULL)
        return params;

    doctor_ask(doctor, era, "resources/templates/list", NULL, &answer);
    one = json_array_get(json_object_get(answer.result, "resourceTemplates"), 0);
    template = json_string_value(json_object_get(one, "uriTemplate"));
    name = template != NULL ? strchr(template, '{') : NULL;
    if (name != NULL) {
        name += 1 + strspn(name + 1, "+#./;?&");
        params = json_pack("{s:{s:s, s:s}, s:{s:s%, s:s}}", "ref", "type", "ref/resource",
                           "uri", template, "argument", "name", name,
                           strcspn(name, ",*:}"), "value", "");
    }
    doctor_answer_done(&answer);
    return params;
}

static void check_completions(doctor_t *doctor, doctor_era_t era,
                              doctor_result_t *result) {
    bool is_advertised = advertised(doctor, era, "completions") != NULL;
    json_t *params = completion_params(doctor, era);
    doctor_answer_t answer;

    doctor_did(result, "asked to complete the first argument of a prompt or template");
    if (params == NULL) {
        doctor_skip(result, "there is no prompt with arguments and no template");
        return;
    }
    doctor_ask(doctor, era, "completion/complete", params, &answer);
    if (!is_advertised && answer.result != NULL &&
        json_array_size(json_object_get(json_object_get(answer.result, "completion"),
                                        "values")) > 0) {
        doctor_saw(result, "not advertised, but answered");
        doctor_bad(result, DOCTOR_WARNING,
                   "Clients only use what is advertised: add the capability "
                   "`completions`.");
    } else if (!is_advertised) {
        doctor_skip(result, "the server does not advertise it");
    } else if (!json_is_object(json_object_get(answer.result, "completion"))) {
        doctor_saw(result, "advertised, and answered with %s",
                   doctor_describe(doctor, &answer));
        doctor_bad(result, DOCTOR_FAILED,
                   "Remove the capability `completions`, or answer "
                   "completion/complete.");
    } else {
        doctor_saw(result, "advertised and answered");
    }
    doctor_answer_done(&answer);
}

static void check_logging(doctor_t *doctor, doctor_era_t era, doctor_result_t *result) {
    bool is_advertised = advertised(doctor, era, "logging") != NULL;
    doctor_answer_t answer;

    doctor_did(result, "sent logging/setLevel");
    doctor_ask(doctor, era, "logging/setLevel", json_pack("{s:s}", "level", "warning"),
               &answer);
    if (is_advertised && answer.result == NULL) {
        doctor_saw(result, "advertised, and answered with %s",
                   doctor_describe(doctor, &answer));
        doctor_bad(result, DOCTOR_FAILED,
                   "Remove the capability `logging`, or answer logging/setLevel.");
    } else if (!is_advertised && answer.result != NULL) {
        doctor_saw(result, "not advertised, but answered");
        doctor_bad(result, DOCTOR_WARNING,
                   "Clients only use what is advertised: add the capability `logging`.");
    } else if (!is_advertised) {
        doctor_skip(result, "the server does not advertise it");
    } else {
        doctor_saw(result, "advertised and answered");
    }
    doctor_answer_done(&answer);
}

/* Legacy: a real resource is subscribed to, and unsubscribed from. (The modern era has
 * the acknowledgement, see doctor_streams.c.) */
static void check_subscribe(doctor_t *doctor, doctor_era_t era, doctor_result_t *result) {
    json_t *value = json_object_get(advertised(doctor, era, "resources"), "subscribe");
    bool is_advertised = json_is_true(value), works = false;
    json_t *uris = doctor_uris(doctor), *one;
    size_t i, tried = 0;
    char said[300] = "";

    doctor_did(result, "subscribed to a resource, and unsubscribed");
    json_array_foreach(uris, i, one) {
        doctor_answer_t in, out;

        if (works || ++tried > 5)
            break;
        doctor_ask(doctor, era, "resources/subscribe", json_pack("{s:O}", "uri", one),
                   &in);
        works = in.result != NULL;
        if (!works)
            snprintf(said, sizeof(said), "%s", doctor_describe(doctor, &in));
        doctor_answer_done(&in);
        if (!works)
            continue;
        doctor_ask(doctor, era, "resources/unsubscribe", json_pack("{s:O}", "uri", one),
                   &out);
        if (is_advertised && out.result == NULL) {
            doctor_saw(result, "resources/unsubscribe: %s",
                       doctor_describe(doctor, &out));
            doctor_bad(result, DOCTOR_FAILED,
                       "Answer resources/unsubscribe with {}; otherwise clients cannot "
                       "unsubscribe.");
        }
        doctor_answer_done(&out);
    }
    if (is_advertised && !works) {
        doctor_saw(result, "advertised, and refused for %zu resource%s: %s", i,
                   i == 1 ? "" : "s", said);
        doctor_bad(result, DOCTOR_FAILED,
                   "Let resources/subscribe work for listed resources, or remove "
                   "`resources.subscribe`. `tidings serve` adds subscriptions to servers "
                   "without them.");
    } else if (!is_advertised && works) {
        doctor_saw(result, "not advertised, but it works");
        doctor_bad(result, DOCTOR_WARNING,
                   "Clients only use what is advertised: add \"resources\": "
                   "{\"subscribe\": true}.");
    } else if (!is_advertised) {
        doctor_skip(result, "the server does not advertise it");
    } else if (result->status == DOCTOR_OK) {
        doctor_saw(result, "advertised and works");
    }
}

static void check_unknown(doctor_t *doctor, doctor_era_t era, doctor_result_t *result) {
    doctor_answer_t answer;

    doctor_did(result, "sent a request for an unknown method");
    doctor_ask(doctor, era, "doctor/nonsense", NULL, &answer);
    doctor_saw(result, "%s", doctor_describe(doctor, &answer));
    if (answer.rpc_code != -32601)
        doctor_bad(result, answer.trouble != NULL ? DOCTOR_WARNING : DOCTOR_FAILED,
                   "Answer an unknown method with error -32601, so that clients "
                   "know that it does not exist.");
    doctor_answer_done(&answer);
}

const doctor_check_t doctor_capability_checks[] = {
    {"capability.resources", "Resources are listed and read", DOCTOR_EACH_ERA,
     check_resources},
    {"capability.templates", "Templates are listed", DOCTOR_EACH_ERA, check_templates},
    {"capability.subscribe", "Resources can be subscribed to",
     DOCTOR_NEEDS_LEGACY | DOCTOR_NEEDS_URI, check_subscribe},
    {"capability.tools", "Tools are listed", DOCTOR_EACH_ERA, check_tools},
    {"capability.prompts", "Prompts are listed", DOCTOR_EACH_ERA, check_prompts},
    {"capability.completions", "Arguments are completed", DOCTOR_EACH_ERA,
     check_completions},
    {"capability.logging", "The log level can be set", DOCTOR_NEEDS_LEGACY,
     check_logging},
    {"capability.unknown", "Unknown methods are refused", DOCTOR_EACH_ERA, check_unknown},
    {NULL, NULL, 0, NULL},
};

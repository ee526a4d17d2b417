/* SPDX-License-Identifier: MIT
 *
 * Capabilities that are advertised but do not work, and those that work but are not
 * advertised: clients use only advertised ones. */
#include <assert.h>
#include <string.h>

#include "doctor/doctor.h"

static const json_t *advertised(const doctor_t *doctor, const char *name) {
    const json_t *capabilities =
        json_object_get(doctor->hello[doctor->era], "capabilities");
    const json_t *value = json_object_get(capabilities, name);

    return json_is_null(value) || json_is_false(value) ? NULL : value;
}

/* ---- Lists ------------------------------------------------------------------------- */

static const doctor_call_t *ask_list(doctor_t *doctor, const char *capability,
                                     const char *method, const char *field) {
    bool is_advertised = advertised(doctor, capability) != NULL;
    const doctor_call_t *call = doctor_ask(doctor, doctor->era, method, NULL);
    const json_t *list = json_object_get(call->result, field);

    if (is_advertised && !json_is_array(list)) {
        doctor_saw(doctor, "advertised, and answered with %s%s", doctor_describe(call),
                   call->result != NULL ? " that has no list" : "");
        doctor_bad(doctor, DOCTOR_FAILED,
                   "Remove the capability from the result of server/discover and "
                   "initialize, or make its methods work.");
    } else if (is_advertised) {
        doctor_saw(doctor, "advertised; %zu listed%s", json_array_size(list),
                   json_object_get(call->result, "nextCursor") != NULL ? ", and more"
                                                                       : "");
        doctor_fact(doctor, "listed", (json_int_t)json_array_size(list));
    } else if (json_array_size(list) > 0) {
        doctor_saw(doctor, "not advertised, but %zu are listed", json_array_size(list));
        doctor_bad(doctor, DOCTOR_WARNING,
                   "Clients only use what is advertised: add the capability to the "
                   "result of server/discover and initialize.");
    } else {
        doctor_skip(doctor, "the server does not advertise it, and lists none");
    }
    return call;
}

static void check_resources(doctor_t *doctor) {
    const doctor_call_t *call;
    const json_t *first;
    const char *uri;

    call = ask_list(doctor, "resources", "resources/list", "resources");
    first = json_array_get(json_object_get(call->result, "resources"), 0);
    uri = json_string_value(json_object_get(first, "uri"));
    if (uri == NULL)
        return;
    call =
        doctor_ask(doctor, doctor->era, "resources/read", json_pack("{s:s}", "uri", uri));
    if (json_is_array(json_object_get(call->result, "contents"))) {
        doctor_saw(doctor, "the first can be read");
    } else {
        doctor_saw(doctor, "reading the first, %s: %s", uri, doctor_describe(call));
        doctor_bad(doctor, DOCTOR_FAILED,
                   "Clients expect to read every listed resource: list only existing "
                   "ones, and see the server's log for the reason.");
    }
}

static void check_templates(doctor_t *doctor) {
    ask_list(doctor, "resources", "resources/templates/list", "resourceTemplates");
}

static void check_tools(doctor_t *doctor) {
    ask_list(doctor, "tools", "tools/list", "tools");
}

static void check_prompts(doctor_t *doctor) {
    ask_list(doctor, "prompts", "prompts/list", "prompts");
}

/* ---- Single requests --------------------------------------------------------------- */

/* `is_right`: it is answered as it has to be; `is_used`: a client could use it. */
static void judge(doctor_t *doctor, const char *capability, const doctor_call_t *call,
                  const char *method, bool is_right, bool is_used) {
    bool is_advertised = advertised(doctor, capability) != NULL;

    if (is_advertised && !is_right) {
        doctor_saw(doctor, "advertised, and answered with %s", doctor_describe(call));
        doctor_bad(doctor, DOCTOR_FAILED, "Remove the capability `%s`, or answer %s.",
                   capability, method);
    } else if (is_advertised) {
        doctor_saw(doctor, "advertised and answered");
    } else if (is_used) {
        doctor_saw(doctor, "not advertised, but answered");
        doctor_bad(doctor, DOCTOR_WARNING,
                   "Clients only use what is advertised: add the capability `%s`.",
                   capability);
    } else {
        doctor_skip(doctor, "the server does not advertise it");
    }
}

/* Something to complete: the first argument of a prompt, or the first variable of a
 * template. New; NULL: there is nothing. */
static json_t *completion_params(doctor_t *doctor) {
    const doctor_call_t *call = doctor_ask(doctor, doctor->era, "prompts/list", NULL);
    const char *name, *template;
    json_t *one;
    size_t i;

    json_array_foreach(json_object_get(call->result, "prompts"), i, one) {
        const json_t *arguments = json_object_get(one, "arguments");

        name = json_string_value(json_object_get(json_array_get(arguments, 0), "name"));
        if (name != NULL)
            return json_pack("{s:{s:s, s:O}, s:{s:s, s:s}}", "ref", "type", "ref/prompt",
                             "name", json_object_get(one, "name"), "argument", "name",
                             name, "value", "");
    }

    call = doctor_ask(doctor, doctor->era, "resources/templates/list", NULL);
    one = json_array_get(json_object_get(call->result, "resourceTemplates"), 0);
    template = json_string_value(json_object_get(one, "uriTemplate"));
    name = template != NULL ? strchr(template, '{') : NULL;
    if (name == NULL)
        return NULL;
    name += 1 + strspn(name + 1, "+#./;?&");
    return json_pack("{s:{s:s, s:s}, s:{s:s%, s:s}}", "ref", "type", "ref/resource",
                     "uri", template, "argument", "name", name, strcspn(name, ",*:}"),
                     "value", "");
}

static void check_completions(doctor_t *doctor) {
    static const char method[] = "completion/complete";
    json_t *params = completion_params(doctor);
    const doctor_call_t *call;
    const json_t *completion;

    if (params == NULL) {
        doctor_skip(doctor, "there is no prompt with arguments and no template");
        return;
    }
    call = doctor_ask(doctor, doctor->era, method, params);
    completion = json_object_get(call->result, "completion");
    judge(doctor, "completions", call, method, json_is_object(completion),
          json_array_size(json_object_get(completion, "values")) > 0);
}

static void check_logging(doctor_t *doctor) {
    static const char method[] = "logging/setLevel";
    const doctor_call_t *call;

    call =
        doctor_ask(doctor, doctor->era, method, json_pack("{s:s}", "level", "warning"));
    judge(doctor, "logging", call, method, call->result != NULL, call->result != NULL);
}

/* Legacy: a real resource is subscribed to, and unsubscribed from. (The modern era has
 * the acknowledgement, see doctor_streams.c.) */
static void check_subscribe(doctor_t *doctor) {
    bool is_advertised =
        json_is_true(json_object_get(advertised(doctor, "resources"), "subscribe"));
    json_t *uris = doctor_uris(doctor), *uri = NULL;
    const doctor_call_t *call = NULL;
    bool works = false;
    size_t tried = 0;

    assert(json_array_size(uris) > 0);
    for (; !works && tried < 5 && tried < json_array_size(uris); tried++) {
        uri = json_array_get(uris, tried);
        call = doctor_ask(doctor, doctor->era, "resources/subscribe",
                          json_pack("{s:O}", "uri", uri));
        works = call->result != NULL;
    }
    if (works) {
        call = doctor_ask(doctor, doctor->era, "resources/unsubscribe",
                          json_pack("{s:O}", "uri", uri));
        if (is_advertised && call->result == NULL) {
            doctor_saw(doctor, "resources/unsubscribe: %s", doctor_describe(call));
            doctor_bad(doctor, DOCTOR_FAILED,
                       "Answer resources/unsubscribe with {}; otherwise clients cannot "
                       "unsubscribe.");
        }
    }
    if (is_advertised && !works) {
        doctor_saw(doctor, "advertised, and refused for %zu resource%s: %s", tried,
                   tried == 1 ? "" : "s", doctor_describe(call));
        doctor_bad(doctor, DOCTOR_FAILED,
                   "Let resources/subscribe work for listed resources, or remove "
                   "`resources.subscribe`. `tidings serve` adds subscriptions to servers "
                   "without them.");
    } else if (!is_advertised && works) {
        doctor_saw(doctor, "not advertised, but it works");
        doctor_bad(doctor, DOCTOR_WARNING,
                   "Clients only use what is advertised: add \"resources\": "
                   "{\"subscribe\": true}.");
    } else if (!is_advertised) {
        doctor_skip(doctor, "the server does not advertise it");
    } else if (doctor->result->status == DOCTOR_OK) {
        doctor_saw(doctor, "advertised and works");
    }
}

static void check_unknown(doctor_t *doctor) {
    const doctor_call_t *call = doctor_ask(doctor, doctor->era, "doctor/nonsense", NULL);

    doctor_saw(doctor, "%s", doctor_describe(call));
    if (call->rpc_code != -32601)
        doctor_bad(doctor, call->trouble != NULL ? DOCTOR_WARNING : DOCTOR_FAILED,
                   "Answer an unknown method with error -32601, so that clients know "
                   "that it does not exist.");
}

const doctor_check_t doctor_capability_checks[] = {
    {"capability.resources", "Resources are listed and read",
     "requested resources/list and read the first", DOCTOR_EACH_ERA, check_resources},
    {"capability.templates", "Templates are listed", "requested resources/templates/list",
     DOCTOR_EACH_ERA, check_templates},
    {"capability.subscribe", "Resources can be subscribed to",
     "subscribed to a resource, and unsubscribed", DOCTOR_NEEDS_LEGACY | DOCTOR_NEEDS_URI,
     check_subscribe},
    {"capability.tools", "Tools are listed", "requested tools/list", DOCTOR_EACH_ERA,
     check_tools},
    {"capability.prompts", "Prompts are listed", "requested prompts/list",
     DOCTOR_EACH_ERA, check_prompts},
    {"capability.completions", "Arguments are completed",
     "completed the first argument of a prompt or template", DOCTOR_EACH_ERA,
     check_completions},
    {"capability.logging", "The log level can be set", "sent logging/setLevel",
     DOCTOR_NEEDS_LEGACY, check_logging},
    {"capability.unknown", "Unknown methods are refused",
     "sent a request for an unknown method", DOCTOR_EACH_ERA, check_unknown},
    {NULL, NULL, NULL, 0, NULL},
};

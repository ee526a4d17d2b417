/* SPDX-License-Identifier: MIT
 *
 * conformance_client URL: what the official conformance suite runs as a client. Does what
 * the scenario in MCP_CONFORMANCE_SCENARIO asks for, at the revision in
 * MCP_CONFORMANCE_PROTOCOL_VERSION, and ends with 0 when all of it went well. With
 * TDG_FIND_ERA it is not told the revision's era, and has to find it. */
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <tidings/tidings.h>

static tdg_client_t *client;

/* ---- What scenarios are made of ----------------------------------------- */

static void fail(const char *what, int code, tdg_failure_t *failure) {
    fprintf(stderr, "%s: %s: %s\n", what, tdg_error_name(code), failure->message);
    tdg_failure_done(failure);
    exit(1);
}

static json_t *list(tdg_list_kind_t which) {
    tdg_failure_t failure = {0};
    json_t *found;
    int rv = tdg_client_list(client, which, &found, &failure);

    if (rv < 0)
        fail("list", rv, &failure);
    return found;
}

/* `arguments` is stolen. */
static json_t *call(const char *tool, json_t *arguments) {
    tdg_failure_t failure = {0};
    json_t *result;
    int rv = tdg_client_call(client, tool, arguments, &result, &failure);

    if (rv < 0)
        fail(tool, rv, &failure);
    return result;
}

/* Calls a tool whose result is a text. Where it is not `wanted`, that is the end. */
static void call_for(const char *tool, const char *wanted) {
    json_t *result = call(tool, json_object());
    const json_t *content = json_array_get(json_object_get(result, "content"), 0);
    const char *text = json_string_value(json_object_get(content, "text"));

    if (text == NULL || strcmp(text, wanted) != 0) {
        fprintf(stderr, "%s says %s, not %s\n", tool, text != NULL ? text : "nothing",
                wanted);
        exit(1);
    }
    json_decref(result);
}

/* Something of the type that a property of a schema wants: its default, or as good as
 * any. New. */
static json_t *value_for(const json_t *schema) {
    const json_t *given = json_object_get(schema, "default");
    const char *type = json_string_value(json_object_get(schema, "type"));

    if (given != NULL)
        return json_deep_copy(given);
    if (type != NULL && (strcmp(type, "integer") == 0 || strcmp(type, "number") == 0))
        return json_integer(1);
    if (type != NULL && strcmp(type, "boolean") == 0)
        return json_true();
    return json_string("any");
}

static json_t *values_for(json_t *schema) {
    json_t *values = json_object();
    const char *name;
    json_t *property;

    json_object_foreach(json_object_get(schema, "properties"), name, property)
        json_object_set_new(values, name, value_for(property));
    return values;
}

/* ---- Being asked -------------------------------------------------------- */

static bool between; /* something else is to be sent while the server waits for us */
static sem_t unrelated;

static void unrelated_done(void *user, const json_t *result,
                           const tdg_failure_t *failure) {
    (void)user;
    (void)failure;
    if (result != NULL)
        sem_post(&unrelated);
}

static json_t *on_input(void *user, const char *method, const json_t *params) {
    (void)user;
    if (between) {
        between = false;
        tdg_client_send(
            client, "tools/call",
            json_pack("{s:s, s:{}}", "name", "test_mrtr_unrelated", "arguments"), 0,
            unrelated_done, NULL);
    }
    if (strcmp(method, "elicitation/create") == 0)
        return json_pack("{s:s, s:o}", "action", "accept", "content",
                         values_for(json_object_get(params, "requestedSchema")));
    if (strcmp(method, "roots/list") == 0)
        return json_pack("{s:[]}", "roots");
    return NULL;
}

/* ---- Scenarios ---------------------------------------------------------- */

static void only_lists_tools(void) {
    json_decref(list(TDG_LIST_TOOLS));
}

/* Asks even where the server says that it has no tools. */
static void asks_for_tools(void) {
    tdg_failure_t failure = {0};
    json_t *result;
    int rv = tdg_client_request(client, "tools/list", NULL, 0, &result, &failure);

    if (rv < 0)
        fail("tools/list", rv, &failure);
    json_decref(result);
}

static void adds_numbers(void) {
    json_decref(list(TDG_LIST_TOOLS));
    json_decref(call("add_numbers", json_pack("{s:i, s:i}", "a", 5, "b", 3)));
}

static void accepts_defaults(void) {
    json_decref(list(TDG_LIST_TOOLS));
    json_decref(call("test_client_elicitation_defaults", json_object()));
}

static void comes_back_for_the_answer(void) {
    json_decref(list(TDG_LIST_TOOLS));
    call_for("test_reconnection", "Reconnection test completed successfully");
}

static void answers_what_is_asked(void) {
    struct timespec end;

    sem_init(&unrelated, 0, 0);
    json_decref(list(TDG_LIST_TOOLS));
    between = true;
    call_for("test_mrtr_echo_state", "echo-state-ok");
    call_for("test_mrtr_no_state", "no-state-ok");
    call_for("test_mrtr_unrelated", "unrelated-ok");
    call_for("test_mrtr_no_result_type", "no-result-type-test-ok");
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += 60;
    if (sem_timedwait(&unrelated, &end) != 0) {
        fprintf(stderr, "the call in between was not answered\n");
        exit(1);
    }
}

/* Calls every tool that there is. */
static void calls_tools(void) {
    json_t *tools = list(TDG_LIST_TOOLS), *tool;
    size_t i;

    json_array_foreach(tools, i, tool)
        json_decref(call(json_string_value(json_object_get(tool, "name")),
                         values_for(json_object_get(tool, "inputSchema"))));
    json_decref(tools);
}

static void uses_everything(void) {
    json_t *resources = list(TDG_LIST_RESOURCES), *prompts = list(TDG_LIST_PROMPTS);
    tdg_failure_t failure = {0};
    json_t *each, *result;
    size_t i;
    int rv;

    calls_tools();
    json_array_foreach(resources, i, each) {
        rv = tdg_client_read(client, json_string_value(json_object_get(each, "uri")),
                             &result, &failure);
        if (rv < 0)
            fail("read", rv, &failure);
        json_decref(result);
    }
    json_array_foreach(prompts, i, each) {
        rv = tdg_client_prompt(client, json_string_value(json_object_get(each, "name")),
                               NULL, &result, &failure);
        if (rv < 0)
            fail("prompt", rv, &failure);
        json_decref(result);
    }
    json_decref(resources);
    json_decref(prompts);
}

/* The suite says which calls, with which arguments. */
static void calls_what_it_is_told(void) {
    const char *text = getenv("MCP_CONFORMANCE_CONTEXT");
    json_t *context = text != NULL ? json_loads(text, 0, NULL) : NULL, *each;
    size_t i;

    if (context == NULL) {
        fprintf(stderr, "there is no context\n");
        exit(1);
    }
    json_array_foreach(json_object_get(context, "toolCalls"), i, each)
        json_decref(call(json_string_value(json_object_get(each, "name")),
                         json_incref(json_object_get(each, "arguments"))));
    json_decref(context);
}

/* Gives the schema of one tool to another, as it came. */
static void echoes_a_schema(void) {
    json_t *tools = list(TDG_LIST_TOOLS), *tool;
    size_t i;

    json_array_foreach(tools, i, tool) {
        const char *name = json_string_value(json_object_get(tool, "name"));

        if (name != NULL && strcmp(name, "json_schema_2020_12_tool") == 0)
            json_decref(
                call("json_schema_echo",
                     json_pack("{s:O}", "schema", json_object_get(tool, "inputSchema"))));
    }
    json_decref(tools);
}

static const struct {
    const char *name;
    void (*run)(void);
} scenarios[] = {
    {"initialize", only_lists_tools},
    {"tools_call", adds_numbers},
    {"elicitation-sep1034-client-defaults", accepts_defaults},
    {"sse-retry", comes_back_for_the_answer},
    {"request-metadata", asks_for_tools},
    {"sep-2322-client-request-state", answers_what_is_asked},
    {"http-standard-headers", uses_everything},
    {"http-custom-headers", calls_what_it_is_told},
    {"http-invalid-tool-headers", calls_tools},
    {"json-schema-ref-no-deref", only_lists_tools},
    {"json-schema-2020-12-preservation", echoes_a_schema},
};

/* ---- Running one -------------------------------------------------------- */

static void on_log(void *user, tdg_log_level_t level, const char *line) {
    (void)user;
    if (level != TDG_LOG_DEBUG)
        fprintf(stderr, "%s\n", line);
}

static void on_stderr(void *user, const char *line) {
    (void)user;
    fprintf(stderr, "%s\n", line);
}

static tdg_era_t era(void) {
    const char *version = getenv("MCP_CONFORMANCE_PROTOCOL_VERSION");

    if (getenv("TDG_FIND_ERA") != NULL || version == NULL)
        return TDG_ERA_FIND;
    return strcmp(version, "2026-07-28") == 0 ? TDG_ERA_MODERN : TDG_ERA_LEGACY;
}

int main(int argc, char **argv) {
    const char *name = getenv("MCP_CONFORMANCE_SCENARIO");
    tdg_client_opts_t opts = {
        .url = argc > 1 ? argv[1] : NULL,
        .name = "conformance",
        .era = era(),
        .on_input = on_input,
        .log = on_log,
        .on_stderr = on_stderr,
    };
    tdg_failure_t failure = {0};
    int rv;

    for (size_t i = 0; i < sizeof(scenarios) / sizeof(scenarios[0]); i++)
        if (name != NULL && strcmp(name, scenarios[i].name) == 0) {
            rv = tdg_client_connect(&opts, &client, &failure);
            if (rv < 0)
                fail("connect", rv, &failure);
            scenarios[i].run();
            tdg_client_close(client);
            return 0;
        }
    fprintf(stderr, "no scenario %s\n", name != NULL ? name : "is named");
    return 1;
}

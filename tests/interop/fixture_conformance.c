/* SPDX-License-Identifier: MIT
 *
 * What the official conformance suite expects to find, by the names it uses: tools and
 * prompts with fixed answers as a table of JSON, the others as functions. */
#include "fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One red pixel, and eight samples of silence. */
#define PNG                                                                              \
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR42mP4z8AAAAMBAQD3A0FDAAAAAE" \
    "l"                                                                                  \
    "FTkSuQmCC"
#define WAV "UklGRiwAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQgAAACAgICAgICAgA=="

static const unsigned char png[] = {
    0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, 0x00, 0x00, 0x00, 0x0d, 0x49, 0x48,
    0x44, 0x52, 0x00, 0x00, 0x00, 0x01, 0x00, 0x00, 0x00, 0x01, 0x08, 0x02, 0x00, 0x00,
    0x00, 0x90, 0x77, 0x53, 0xde, 0x00, 0x00, 0x00, 0x0c, 0x49, 0x44, 0x41, 0x54, 0x78,
    0xda, 0x63, 0xf8, 0xcf, 0xc0, 0x00, 0x00, 0x03, 0x01, 0x01, 0x00, 0xf7, 0x03, 0x41,
    0x43, 0x00, 0x00, 0x00, 0x00, 0x49, 0x45, 0x4e, 0x44, 0xae, 0x42, 0x60, 0x82};

/* ---- Fixed answers ------------------------------------------------------ */

static const struct fixed {
    const char *name, *description, *result;
} fixed_tools[] =
    {
        {"test_simple_text", "One text.",
         "{'content': [{'type': 'text', 'text': 'A simple text for testing.'}]}"},
        {"test_image_content", "One image.",
         "{'content': [{'type': 'image', 'data': '" PNG "', 'mimeType': 'image/png'}]}"},
        {"test_audio_content", "One sound.",
         "{'content': [{'type': 'audio', 'data': '" WAV "', 'mimeType': 'audio/wav'}]}"},
        {"test_embedded_resource", "One embedded resource.",
         "{'content': [{'type': 'resource', 'resource': {'uri': "
         "'test://embedded-resource',"
         " 'mimeType': 'text/plain', 'text': 'An embedded resource.'}}]}"},
        {"test_multiple_content_types", "Text, image and resource.",
         "{'content': [{'type': 'text', 'text': 'Several kinds:'},"
         " {'type': 'image', 'data': '" PNG "', 'mimeType': 'image/png'},"
         " {'type': 'resource', 'resource': {'uri': 'test://mixed-content-resource',"
         " 'mimeType': 'application/json', 'text': '{}'}}]}"},
        {"test_streaming_elicitation", "Answers without asking anybody.",
         "{'content': [{'type': 'text', 'text': 'Nothing was asked.'}]}"},
},
  fixed_prompts[] = {
      {"test_simple_prompt", "One text.",
       "{'messages': [{'role': 'user', 'content': {'type': 'text',"
       " 'text': 'A simple prompt for testing.'}}]}"},
      {"test_prompt_with_image", "An image and a text.",
       "{'messages': [{'role': 'user', 'content': {'type': 'image', 'data': '" PNG "',"
       " 'mimeType': 'image/png'}},"
       " {'role': 'user', 'content': {'type': 'text', 'text': 'What is this?'}}]}"},
};

/* The texts above have ' where JSON has ". */
static json_t *json_of(const char *text) {
    char *copy = strdup(text);
    json_t *value;

    for (char *c = copy; c != NULL && *c != '\0'; c++)
        if (*c == '\'')
            *c = '"';
    value = copy != NULL ? json_loads(copy, 0, NULL) : NULL;
    free(copy);
    return value;
}

static void call_fixed(void *user, tdg_request_t *request, const json_t *arguments) {
    const struct fixed *fixed = user;

    (void)arguments;
    tdg_request_reply(request, json_of(fixed->result));
}

/* ---- Tools that do something -------------------------------------------- */

/* Three messages or reports of progress, 50 ms apart, then the answer. */
struct steps {
    tdg_request_t *request;
    bool progress;
    int step;
};

static void next_step(void *arg) {
    static const char *const texts[] = {"started", "at work", "completed"};
    struct steps *steps = arg;

    if (steps->step == 3) {
        tdg_request_reply_text(steps->request, "three steps");
        free(steps);
        return;
    }
    if (steps->progress)
        tdg_request_progress(steps->request, steps->step * 50, 100, texts[steps->step]);
    else
        tdg_request_log(steps->request, TDG_LOG_INFO, NULL,
                        json_string(texts[steps->step]));
    steps->step++;
    fixture_later(50, next_step, steps);
}

static void begin_steps(tdg_request_t *request, bool progress) {
    struct steps *steps = calloc(1, sizeof(*steps));

    if (steps == NULL)
        abort();
    steps->request = request;
    steps->progress = progress;
    next_step(steps);
}

static void call_logging(void *user, tdg_request_t *request, const json_t *arguments) {
    (void)user;
    (void)arguments;
    begin_steps(request, false);
}

static void call_progress(void *user, tdg_request_t *request, const json_t *arguments) {
    (void)user;
    (void)arguments;
    begin_steps(request, true);
}

static void call_error(void *user, tdg_request_t *request, const json_t *arguments) {
    (void)user;
    (void)arguments;
    tdg_request_reply_tool_error(request, "This tool always fails.");
}

static void answer_reconnection(void *arg) {
    tdg_request_reply_text(arg, "after the connection");
}

static void call_reconnection(void *user, tdg_request_t *request,
                              const json_t *arguments) {
    (void)user;
    (void)arguments;
    tdg_request_release_connection(request);
    fixture_later(100, answer_reconnection, request);
}

/* There is no sampling yet, so whoever calls this lacks what it needs. */
static void call_missing_capability(void *user, tdg_request_t *request,
                                    const json_t *arguments) {
    (void)user;
    (void)arguments;
    tdg_request_fail(request, -32021, "this tool needs sampling",
                     json_pack("{s:{s:{}}}", "requiredCapabilities", "sampling"));
}

/* Adding what is there already changes it, and that is a change of the list as well. */
static void call_tool_change(void *user, tdg_request_t *request,
                             const json_t *arguments) {
    tdg_tool_t tool = {.name = "test_dynamic_tool",
                       .description = "Comes and goes.",
                       .call = call_error};
    tdg_server_t *server = tdg_request_server(request);

    (void)user;
    (void)arguments;
    if (tdg_server_remove_tool(server, tool.name) == TDG_ENOTFOUND)
        fixture_reply_code(request, tdg_server_add_tool(server, &tool));
    else
        tdg_request_reply_text(request, "removed");
}

static void call_prompt_change(void *user, tdg_request_t *request,
                               const json_t *arguments) {
    tdg_prompt_t prompt = {.name = "test_dynamic_prompt",
                           .description = "Comes and goes.",
                           .get = call_fixed,
                           .user = (void *)(uintptr_t)&fixed_prompts[0]};
    tdg_server_t *server = tdg_request_server(request);

    (void)user;
    (void)arguments;
    if (tdg_server_remove_prompt(server, prompt.name) == TDG_ENOTFOUND)
        fixture_reply_code(request, tdg_server_add_prompt(server, &prompt));
    else
        tdg_request_reply_text(request, "removed");
}

/* One of its arguments also travels in a header, Mcp-Param-Region. */
static void call_region(void *user, tdg_request_t *request, const json_t *arguments) {
    const char *region = json_string_value(json_object_get(arguments, "region"));

    (void)user;
    tdg_request_reply_text(request, region != NULL ? region : "nowhere");
}

static const struct offered_tool tools[] = {
    {"test_tool_with_logging", "Three log messages.", call_logging, NULL},
    {"test_logging_tool", "Three log messages.", call_logging, NULL},
    {"test_tool_with_progress", "Three steps.", call_progress, NULL},
    {"test_error_handling", "Fails.", call_error, NULL},
    {"test_reconnection", "Lets the connection go.", call_reconnection, NULL},
    {"test_missing_capability", "Needs sampling.", call_missing_capability, NULL},
    {"test_trigger_tool_change", "Changes the tools.", call_tool_change, NULL},
    {"test_trigger_prompt_change", "Changes the prompts.", call_prompt_change, NULL},
    {"test_region", "Says where.", call_region,
     "{\"type\": \"object\", \"properties\": {\"region\": {\"type\": \"string\","
     " \"x-mcp-header\": \"Region\"}}}"},
    {"json_schema_2020_12_tool", "Has a schema to keep.", call_error,
     "{\"$schema\": \"https://json-schema.org/draft/2020-12/schema\", \"type\": "
     "\"object\","
     " \"$defs\": {\"address\": {\"$anchor\": \"addressDef\", \"type\": \"object\","
     " \"properties\": {\"street\": {\"type\": \"string\"}}}},"
     " \"properties\": {\"name\": {\"type\": \"string\"}, \"phone\": {\"type\": "
     "\"string\"},"
     " \"email\": {\"type\": \"string\"}, \"address\": {\"$ref\": \"#/$defs/address\"}},"
     " \"allOf\": [{\"anyOf\": [{\"required\": [\"phone\"]}, {\"required\": "
     "[\"email\"]}]}],"
     " \"if\": {\"required\": [\"name\"]}, \"then\": {\"required\": [\"phone\"]},"
     " \"else\": {\"required\": [\"email\"]}, \"additionalProperties\": false}"},
};

/* ---- Prompts with arguments --------------------------------------------- */

static void get_arguments(void *user, tdg_request_t *request, const json_t *arguments) {
    char text[256];

    (void)user;
    snprintf(text, sizeof(text), "The arguments are %s and %s.",
             json_string_value(json_object_get(arguments, "arg1")),
             json_string_value(json_object_get(arguments, "arg2")));
    tdg_request_reply_text(request, text);
}

static void get_embedded(void *user, tdg_request_t *request, const json_t *arguments) {
    (void)user;
    tdg_request_reply(
        request, json_pack("{s:[{s:s, s:{s:s, s:{s:O, s:s, s:s}}}]}", "messages", "role",
                           "user", "content", "type", "resource", "resource", "uri",
                           json_object_get(arguments, "resourceUri"), "mimeType",
                           "text/plain", "text", "An embedded resource."));
}

static void complete_argument(void *user, tdg_request_t *request, const char *argument,
                              const char *value, const json_t *context) {
    char text[64];

    (void)user;
    (void)context;
    snprintf(text, sizeof(text), "%.20s of %.20s", value, argument);
    tdg_request_reply_completion(request, json_pack("[s]", text), 1, false);
}

static const struct {
    const char *name, *description, *arguments;
    tdg_call_fn get;
    tdg_complete_fn complete;
} prompts[] = {
    {"test_prompt_with_arguments", "Says its arguments.",
     "[{'name': 'arg1', 'required': true}, {'name': 'arg2', 'required': true}]",
     get_arguments, complete_argument},
    {"test_prompt_with_embedded_resource", "Embeds a resource.",
     "[{'name': 'resourceUri', 'required': true}]", get_embedded, NULL},
};

/* ---- Resources ---------------------------------------------------------- */

static void read_text(void *user, tdg_request_t *request, const char *uri) {
    (void)user;
    (void)uri;
    tdg_request_reply_text(request, "The content of a text.");
}

static void read_binary(void *user, tdg_request_t *request, const char *uri) {
    (void)user;
    (void)uri;
    tdg_request_reply_blob(request, png, sizeof(png));
}

static void read_template(void *user, tdg_request_t *request, const char *uri) {
    char text[256];

    (void)user;
    snprintf(text, sizeof(text), "{\"data\": \"%.200s\"}", uri);
    tdg_request_reply_text(request, text);
}

static const struct {
    const char *uri, *name, *mime_type;
    tdg_read_fn read;
} resources[] = {
    {"test://static-text", "static text", "text/plain", read_text},
    {"test://static-binary", "static binary", "image/png", read_binary},
    {"test://watched-resource", "watched", "text/plain", read_text},
};

/* ---- Adding them -------------------------------------------------------- */

static int add_fixed(tdg_server_t *server) {
    int rv = 0;

    for (size_t i = 0; i < sizeof(fixed_tools) / sizeof(fixed_tools[0]) && rv == 0; i++)
        rv = tdg_server_add_tool(
            server, &(tdg_tool_t){.name = fixed_tools[i].name,
                                  .description = fixed_tools[i].description,
                                  .call = call_fixed,
                                  .user = (void *)(uintptr_t)&fixed_tools[i]});
    for (size_t i = 0; i < sizeof(fixed_prompts) / sizeof(fixed_prompts[0]) && rv == 0;
         i++)
        rv = tdg_server_add_prompt(
            server, &(tdg_prompt_t){.name = fixed_prompts[i].name,
                                    .description = fixed_prompts[i].description,
                                    .get = call_fixed,
                                    .user = (void *)(uintptr_t)&fixed_prompts[i]});
    return rv;
}

static int add_prompts(tdg_server_t *server) {
    int rv = 0;

    for (size_t i = 0; i < sizeof(prompts) / sizeof(prompts[0]) && rv == 0; i++) {
        json_t *arguments = json_of(prompts[i].arguments);

        rv = tdg_server_add_prompt(server,
                                   &(tdg_prompt_t){.name = prompts[i].name,
                                                   .description = prompts[i].description,
                                                   .arguments = arguments,
                                                   .get = prompts[i].get,
                                                   .complete = prompts[i].complete});
        json_decref(arguments);
    }
    return rv;
}

static int add_resources(tdg_server_t *server) {
    tdg_template_t template_ = {.uri_template = "test://template/{id}/data",
                                .name = "template",
                                .description = "Says its URI.",
                                .mime_type = "application/json",
                                .read = read_template};
    int rv = tdg_server_add_template(server, &template_);

    for (size_t i = 0; i < sizeof(resources) / sizeof(resources[0]) && rv == 0; i++)
        rv = tdg_server_add_resource(
            server, &(tdg_resource_t){.uri = resources[i].uri,
                                      .name = resources[i].name,
                                      .description = "For the suite.",
                                      .mime_type = resources[i].mime_type,
                                      .read = resources[i].read});
    return rv;
}

int fixture_add_conformance(tdg_server_t *server) {
    int rv = add_fixed(server);

    if (rv == 0)
        rv = fixture_offer_tools(server, tools, sizeof(tools) / sizeof(tools[0]));
    if (rv == 0)
        rv = add_prompts(server);
    if (rv == 0)
        rv = add_resources(server);
    return rv;
}

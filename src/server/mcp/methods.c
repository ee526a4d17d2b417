/* SPDX-License-Identifier: MIT
 *
 * The methods that only need the catalogue. Each handler answers the call, or hands it to
 * a callback of the application, which answers now or later: after that the call must not
 * be touched. Callbacks run without a lock. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include <tidings/error.h>

#include "base/text.h"
#include "base/uri.h"
#include "mcp/result.h"
#include "server/context/context.h"
#include "server/log/log.h"
#include "server/mcp/call.h"

/* Where the headers of a request are found; `find` NULL: there are none to check. */
struct headers {
    const char *(*find)(void *user, const char *name);
    void *user;
};

/* A callback may answer and go on: until it is over, its user must not be freed, though
 * the call has gone and the entry was removed. */
static tdg__entry_t *hold(const tdg__call_t *call) {
    return tdg__entry_ref(call->entry);
}

/* ---- Errors ------------------------------------------------------------- */

static void refuse_memory(tdg__call_t *call) {
    tdg__call_answer(call, NULL);
}

void tdg__call_set_not_found(const tdg__call_t *call, tdg__rpc_error_t *error) {
    const char *what;

    switch (call->method) {
    case TDG__M_CALL:
        what = "tool";
        break;
    case TDG__M_PROMPT:
        what = "prompt";
        break;
    case TDG__M_COMPLETE:
        what = "reference";
        break;
    default:
        tdg__fault_set(error, TDG__FAULT_NOT_FOUND, call->version, call->erlmcp,
                       call->target, NULL);
        return;
    }
    tdg__rpc_error_set(error, TDG__RPC_INVALID_PARAMS, NULL, "Unknown %s: %s", what,
                       call->target);
}

static void refuse_not_found(tdg__call_t *call) {
    tdg__rpc_error_t error;

    tdg__call_set_not_found(call, &error);
    tdg__call_refuse(call, &error);
}

/* ---- Lists -------------------------------------------------------------- */

static void list(tdg__call_t *call, const tdg__mcp_request_t *request, tdg__kind_t kind,
                 const char *key) {
    size_t max = call->server->opts.page_size;
    json_t *items, *next, *result;
    int rv;

    rv = tdg__catalogue_page(call->server->catalogue, kind, request->page, max, &items,
                             &next);
    if (rv == TDG_EINVAL) {
        tdg__call_refuse_plainly(call, TDG__RPC_INVALID_PARAMS, "Invalid cursor");
        return;
    }

    result = rv == 0 ? json_pack("{s:o, s:o*}", key, items, "nextCursor", next) : NULL;
    tdg__call_answer(call, result);
}

static void on_resources(tdg__call_t *call, const tdg__mcp_request_t *request) {
    list(call, request, TDG__RESOURCE, "resources");
}

static void on_templates(tdg__call_t *call, const tdg__mcp_request_t *request) {
    list(call, request, TDG__TEMPLATE, "resourceTemplates");
}

static void on_tools(tdg__call_t *call, const tdg__mcp_request_t *request) {
    list(call, request, TDG__TOOL, "tools");
}

static void on_prompts(tdg__call_t *call, const tdg__mcp_request_t *request) {
    list(call, request, TDG__PROMPT, "prompts");
}

/* ---- Reading ------------------------------------------------------------ */

/* A URI that is listed is a valid one, so only others are looked at closely. The values
 * of the variables are read before the callback runs: it could report neither that memory
 * is out nor that a value is missing. */
static int find_readable(tdg__call_t *call, const tdg__mcp_request_t *request) {
    const char *uri = request->uri;
    int rv;

    call->entry = tdg__catalogue_find(call->server->catalogue, TDG__RESOURCE, uri);
    if (call->entry != NULL)
        return 0;

    rv = tdg__uri_check(uri, strlen(uri), NULL);
    if (rv == 0)
        rv = tdg__catalogue_match(call->server->catalogue, uri, &call->entry);
    if (rv == 0)
        rv = tdg__variables_create(call->entry->parsed, uri, strlen(uri),
                                   &call->variables);
    return rv;
}

static void refuse_busy(tdg__call_t *call) {
    tdg__rpc_error_t error;

    tdg__server_log_event(call->server, TDG__EVENT_ANSWER_REFUSED, NULL);
    tdg__call_set_busy(call, &error);
    tdg__call_refuse(call, &error);
}

static void read_entry(tdg__call_t *call, const tdg__mcp_request_t *request) {
    tdg__entry_t *entry;

    if (!tdg__call_admit_read(call)) {
        refuse_busy(call);
        return;
    }
    entry = hold(call);
    entry->read(entry->user, call, request->uri);
    tdg__entry_unref(entry);
}

static void on_read(tdg__call_t *call, const tdg__mcp_request_t *request) {
    tdg__rpc_error_t error;

    switch (find_readable(call, request)) {
    case 0:
        read_entry(call, request);
        break;
    case TDG_EURI:
        tdg__fault_set(&error, TDG__FAULT_INVALID_URI, call->version, call->erlmcp,
                       call->target, NULL);
        tdg__call_refuse(call, &error);
        break;
    case TDG_ENOTFOUND:
        refuse_not_found(call);
        break;
    default:
        refuse_memory(call);
    }
}

/* ---- Tools and prompts -------------------------------------------------- */

/* Calls the application with an object, whether the client sent one or not. */
static void invoke(tdg__call_t *call, const tdg__mcp_request_t *request) {
    const json_t *arguments = request->arguments;
    json_t *none;
    tdg__entry_t *entry;

    if (!tdg__call_admit(call)) {
        refuse_busy(call);
        return;
    }
    none = arguments == NULL ? json_object() : NULL;
    if (arguments == NULL && none == NULL) {
        refuse_memory(call);
        return;
    }

    entry = hold(call);
    entry->call(entry->user, call, arguments != NULL ? arguments : none);
    tdg__entry_unref(entry);
    json_decref(none);
}

static void on_call(tdg__call_t *call, const tdg__mcp_request_t *request,
                    const struct headers *headers) {
    tdg__rpc_error_t error;

    call->entry = tdg__catalogue_find(call->server->catalogue, TDG__TOOL, request->name);
    if (call->entry == NULL) {
        refuse_not_found(call);
        return;
    }

    if (headers->find != NULL &&
        tdg__mcp_check_param_headers(
            json_object_get(call->entry->definition, "inputSchema"), request->arguments,
            headers->find, headers->user, &error) < 0)
        tdg__call_refuse(call, &error);
    else
        invoke(call, request);
}

/* Refuses arguments that are not strings; the protocol has no others. */
static bool are_strings(tdg__call_t *call, const json_t *arguments) {
    json_t *given = (json_t *)(uintptr_t)arguments; /* only to walk through */
    tdg__rpc_error_t error;
    const char *name;
    json_t *value;

    json_object_foreach(given, name, value) {
        if (json_is_string(value))
            continue;
        tdg__rpc_error_set(&error, TDG__RPC_INVALID_PARAMS, NULL,
                           "The argument must be a string: %s", name);
        tdg__call_refuse(call, &error);
        return false;
    }
    return true;
}

/* Refuses a prompt whose required arguments are not there, and names them. */
static bool has_required(tdg__call_t *call, const json_t *arguments) {
    const json_t *all = json_object_get(call->entry->definition, "arguments");
    char missing[sizeof((tdg__rpc_error_t *)0)->message] = "";
    tdg__rpc_error_t error;
    size_t len = 0;

    for (size_t i = 0; i < json_array_size(all) && len < sizeof(missing); i++) {
        const json_t *one = json_array_get(all, i);
        const char *name = json_string_value(json_object_get(one, "name"));

        if (name == NULL || !json_is_true(json_object_get(one, "required")) ||
            json_object_get(arguments, name) != NULL)
            continue;
        len += (size_t)snprintf(missing + len, sizeof(missing) - len, "%s%s",
                                len > 0 ? ", " : "", name);
    }
    if (len == 0)
        return true;

    tdg__rpc_error_set(&error, TDG__RPC_INVALID_PARAMS, NULL,
                       "Missing required arguments: %s", missing);
    tdg__call_refuse(call, &error);
    return false;
}

static void on_prompt(tdg__call_t *call, const tdg__mcp_request_t *request) {
    const json_t *arguments = request->arguments;

    call->entry =
        tdg__catalogue_find(call->server->catalogue, TDG__PROMPT, request->name);
    if (call->entry == NULL)
        refuse_not_found(call);
    else if (are_strings(call, arguments) && has_required(call, arguments))
        invoke(call, request);
}

/* ---- Completion --------------------------------------------------------- */

/* A reference to a template is its text; a listed resource has nothing to complete. */
static tdg__entry_t *find_reference(tdg__call_t *call,
                                    const tdg__mcp_request_t *request) {
    static const tdg__kind_t resources[] = {TDG__TEMPLATE, TDG__RESOURCE};
    tdg__entry_t *entry = NULL;

    if (request->ref_is_prompt)
        return tdg__catalogue_find(call->server->catalogue, TDG__PROMPT, request->ref);
    for (size_t i = 0; i < 2 && entry == NULL; i++)
        entry = tdg__catalogue_find(call->server->catalogue, resources[i], request->ref);
    return entry;
}

static void on_complete(tdg__call_t *call, const tdg__mcp_request_t *request) {
    tdg__entry_t *entry;

    call->entry = find_reference(call, request);
    if (call->entry == NULL) {
        refuse_not_found(call);
        return;
    }
    if (call->entry->complete == NULL) {
        tdg__call_answer(
            call, json_pack("{s:{s:[], s:b}}", "completion", "values", "hasMore", false));
        return;
    }

    entry = hold(call);
    entry->complete(entry->user, call, request->argument, request->value,
                    request->context);
    tdg__entry_unref(entry);
}

/* ---- The table ---------------------------------------------------------- */

/* The capability that must be advertised, where the era is strict about that. */
enum needs { NOTHING, TOOLS, PROMPTS, COMPLETIONS };

static const struct handler {
    void (*handle)(tdg__call_t *call, const tdg__mcp_request_t *request);
    enum needs needs;
} handlers[TDG__M_COUNT] = {
    [TDG__M_RESOURCES] = {on_resources, NOTHING},
    [TDG__M_TEMPLATES] = {on_templates, NOTHING},
    [TDG__M_READ] = {on_read, NOTHING},
    [TDG__M_TOOLS] = {on_tools, TOOLS},
    [TDG__M_CALL] = {NULL, TOOLS},
    [TDG__M_PROMPTS] = {on_prompts, PROMPTS},
    [TDG__M_PROMPT] = {on_prompt, PROMPTS},
    [TDG__M_COMPLETE] = {on_complete, COMPLETIONS},
};

/* Legacy lists of what there is none of are empty, which nobody minds; a completion has
 * nothing to refer to. */
static bool is_advertised(const tdg__call_t *call, enum needs needs) {
    bool strict = tdg__version_modern(call->version) || needs == COMPLETIONS;
    tdg__server_info_t info;

    if (needs == NOTHING || !strict)
        return true;

    tdg__server_describe(call->server, &info);
    return needs == TOOLS     ? info.tools
           : needs == PROMPTS ? info.prompts
                              : info.completions;
}

bool tdg__call_handle(tdg__call_t *call, const tdg__mcp_request_t *request,
                      const char *(*find_header)(void *user, const char *name),
                      void *user) {
    assert(request->method < TDG__M_COUNT && call->channel != NULL);
    const struct handler *handler = &handlers[request->method];
    const struct headers headers = {find_header, user};
    tdg__rpc_error_t error;

    bool is_tool = request->method == TDG__M_CALL; /* the one that has headers to check */

    if (handler->handle == NULL && !is_tool)
        return false;

    if (!is_advertised(call, handler->needs)) {
        tdg__rpc_error_set(&error, TDG__RPC_METHOD_NOT_FOUND, NULL,
                           "Method not found: %s", tdg__method_name(request->method));
        tdg__call_refuse(call, &error);
    } else if (is_tool) {
        on_call(call, request, &headers);
    } else {
        handler->handle(call, request);
    }
    return true;
}

/* ---- The modern era ----------------------------------------------------- */

void tdg__modern_serve(tdg__channel_t *channel, const tdg__mcp_request_t *request,
                       const char *(*find_header)(void *user, const char *name),
                       void *user) {
    tdg__server_info_t info;

    tdg__call_t *call = tdg__call_create(channel, request);
    if (call == NULL) {
        tdg__channel_refuse_plainly(channel, request->id, TDG__RPC_INTERNAL,
                                    "Out of memory");
        return;
    }
    if (request->method == TDG__M_DISCOVER) {
        tdg__server_describe(channel->worker->server, &info);
        tdg__call_answer(call, tdg__result_discover(&info));
    } else if (!tdg__call_handle(call, request, find_header, user)) {
        tdg__call_refuse_plainly(call, TDG__RPC_METHOD_NOT_FOUND, "Method not found");
    }
}

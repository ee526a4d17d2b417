/* SPDX-License-Identifier: MIT
 *
 * The methods that only need the catalogue. Each handler answers the call, or hands it to
 * a callback of the application, which answers now or later: after that the call must not
 * be touched. Callbacks run without a lock. */
#include <stdio.h>
#include <string.h>

#include <tidings/error.h>

#include "base/text.h"
#include "base/uri.h"
#include "mcp/result.h"
#include "server/call_internal.h"
#include "server/log.h"
#include "server/worker.h"

/* What a handler is given. */
struct job {
    tdg__call_t *call;
    const tdg__mcp_request_t *request;
    tdg__catalogue_t *catalogue;
    const char *(*find_header)(void *user, const char *name);
    void *user;
};

/* A callback may answer and go on: until it is over, its user must not be freed, though
 * the call has gone and the entry was removed. */
static tdg__entry_t *hold(const struct job *job) {
    return tdg__entry_ref(job->call->entry);
}

/* ---- Errors ------------------------------------------------------------- */

static void refuse(tdg__call_t *call, int code, const char *message) {
    tdg__rpc_error_t error;

    tdg__rpc_error_set(&error, code, NULL, "%s", message);
    tdg__call_refuse(call, &error);
}

static void refuse_memory(tdg__call_t *call) {
    tdg__call_answer(call, NULL);
}

void tdg__call_set_not_found(const tdg__call_t *call, tdg__rpc_error_t *error) {
    const char *what;

    switch (tdg__call_method(call)) {
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
        tdg__fault_set(error, TDG__FAULT_NOT_FOUND, tdg__call_version(call), call->erlmcp,
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

static void list(const struct job *job, tdg__kind_t kind, const char *key) {
    size_t max = tdg__server_opts(job->call->server)->page_size;
    json_t *items, *next, *result;
    int rv;

    rv =
        tdg__catalogue_page(job->catalogue, kind, job->request->page, max, &items, &next);
    if (rv == TDG_EINVAL) {
        refuse(job->call, TDG__RPC_INVALID_PARAMS, "Invalid cursor");
        return;
    }

    result = rv == 0 ? json_pack("{s:o, s:o*}", key, items, "nextCursor", next) : NULL;
    tdg__call_answer(job->call, result);
}

static void on_resources(const struct job *job) {
    list(job, TDG__RESOURCE, "resources");
}

static void on_templates(const struct job *job) {
    list(job, TDG__TEMPLATE, "resourceTemplates");
}

static void on_tools(const struct job *job) {
    list(job, TDG__TOOL, "tools");
}

static void on_prompts(const struct job *job) {
    list(job, TDG__PROMPT, "prompts");
}

/* ---- Reading ------------------------------------------------------------ */

/* A URI that is listed is a valid one, so only others are looked at closely. What the
 * variables stand for is found out before the callback runs: it can be told neither that
 * memory is out nor that a value is none. */
static int find_readable(const struct job *job) {
    const char *uri = job->request->uri;
    tdg__call_t *call = job->call;
    int rv;

    call->entry = tdg__catalogue_find(job->catalogue, TDG__RESOURCE, uri);
    if (call->entry != NULL)
        return 0;

    rv = tdg__uri_check(uri, strlen(uri), NULL);
    if (rv == 0)
        rv = tdg__catalogue_match(job->catalogue, uri, &call->entry);
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

static void read_entry(const struct job *job) {
    tdg__entry_t *entry;

    if (!tdg__call_admit_read(job->call)) {
        refuse_busy(job->call);
        return;
    }
    entry = hold(job);
    entry->read(entry->user, job->call, job->request->uri);
    tdg__entry_unref(entry);
}

static void on_read(const struct job *job) {
    tdg__call_t *call = job->call;
    tdg__rpc_error_t error;

    switch (find_readable(job)) {
    case 0:
        read_entry(job);
        break;
    case TDG_EURI:
        tdg__fault_set(&error, TDG__FAULT_INVALID_URI, tdg__call_version(call),
                       call->erlmcp, call->target, NULL);
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
static void invoke(const struct job *job) {
    const json_t *arguments = job->request->arguments;
    json_t *none;
    tdg__entry_t *entry;

    if (!tdg__call_admit(job->call)) {
        refuse_busy(job->call);
        return;
    }
    none = arguments == NULL ? json_object() : NULL;
    if (arguments == NULL && none == NULL) {
        refuse_memory(job->call);
        return;
    }

    entry = hold(job);
    entry->call(entry->user, job->call, arguments != NULL ? arguments : none);
    tdg__entry_unref(entry);
    json_decref(none);
}

static void on_call(const struct job *job) {
    tdg__call_t *call = job->call;
    tdg__rpc_error_t error;

    call->entry = tdg__catalogue_find(job->catalogue, TDG__TOOL, job->request->name);
    if (call->entry == NULL) {
        refuse_not_found(call);
        return;
    }

    if (job->find_header != NULL &&
        tdg__mcp_check_param_headers(
            json_object_get(call->entry->definition, "inputSchema"),
            job->request->arguments, job->find_header, job->user, &error) < 0)
        tdg__call_refuse(call, &error);
    else
        invoke(job);
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

static void on_prompt(const struct job *job) {
    tdg__call_t *call = job->call;
    const json_t *arguments = job->request->arguments;

    call->entry = tdg__catalogue_find(job->catalogue, TDG__PROMPT, job->request->name);
    if (call->entry == NULL)
        refuse_not_found(call);
    else if (are_strings(call, arguments) && has_required(call, arguments))
        invoke(job);
}

/* ---- Completion --------------------------------------------------------- */

/* A reference to a template is its text; a listed resource has nothing to complete. */
static tdg__entry_t *find_reference(const struct job *job) {
    static const tdg__kind_t resources[] = {TDG__TEMPLATE, TDG__RESOURCE};
    tdg__entry_t *entry = NULL;

    if (job->request->ref_is_prompt)
        return tdg__catalogue_find(job->catalogue, TDG__PROMPT, job->request->ref);
    for (size_t i = 0; i < 2 && entry == NULL; i++)
        entry = tdg__catalogue_find(job->catalogue, resources[i], job->request->ref);
    return entry;
}

static void on_complete(const struct job *job) {
    const tdg__mcp_request_t *request = job->request;
    tdg__call_t *call = job->call;
    tdg__entry_t *entry;

    call->entry = find_reference(job);
    if (call->entry == NULL) {
        refuse_not_found(call);
        return;
    }
    if (call->entry->complete == NULL) {
        tdg_request_reply_completion(call, json_array(), 0, false);
        return;
    }

    entry = hold(job);
    entry->complete(entry->user, call, request->argument, request->value,
                    request->context);
    tdg__entry_unref(entry);
}

/* ---- The table ---------------------------------------------------------- */

/* What must be advertised, where the era is strict about that. */
enum needs { NOTHING, TOOLS, PROMPTS, COMPLETIONS };

static const struct handler {
    void (*handle)(const struct job *job);
    enum needs needs;
} handlers[TDG__M_COUNT] = {
    [TDG__M_RESOURCES] = {on_resources, NOTHING    },
    [TDG__M_TEMPLATES] = {on_templates, NOTHING    },
    [TDG__M_READ] = {on_read,      NOTHING    },
    [TDG__M_TOOLS] = {on_tools,     TOOLS      },
    [TDG__M_CALL] = {on_call,      TOOLS      },
    [TDG__M_PROMPTS] = {on_prompts,   PROMPTS    },
    [TDG__M_PROMPT] = {on_prompt,    PROMPTS    },
    [TDG__M_COMPLETE] = {on_complete,  COMPLETIONS},
};

/* Legacy lists of what there is none of are empty, which nobody minds; a completion has
 * nothing to refer to. */
static bool is_advertised(const tdg__call_t *call, enum needs needs) {
    bool strict = tdg__version_modern(tdg__call_version(call)) || needs == COMPLETIONS;
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
    const struct handler *handler = &handlers[request->method];
    const struct job job = {call, request, tdg__server_catalogue(call->server),
                            find_header, user};
    tdg__rpc_error_t error;

    if (handler->handle == NULL)
        return false;

    if (is_advertised(call, handler->needs)) {
        handler->handle(&job);
    } else {
        tdg__rpc_error_set(&error, TDG__RPC_METHOD_NOT_FOUND, NULL,
                           "Method not found: %s", tdg__method_name(request->method));
        tdg__call_refuse(call, &error);
    }
    return true;
}

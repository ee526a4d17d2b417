/* SPDX-License-Identifier: MIT
 *
 * Calls of tools. In the modern era, over HTTP, a tool may require some of its arguments
 * in headers as well; so the tools are listed before the first call, and the annotations
 * are remembered. If the server reports a missing header, it has changed its tools: they
 * are listed again, and the call is repeated once. */
#include <string.h>

#include <tidings/error.h>

#include "base/alloc.h"
#include "client/session/core_internal.h"

/* ---- What tools ask for ------------------------------------------------- */

int tdg__tools_listed(tdg__core_t *core, json_t *tools) {
    json_t *schemas = json_object();
    char why[200];
    size_t i = 0;

    if (schemas == NULL)
        return TDG_ENOMEM;

    while (i < json_array_size(tools)) {
        const json_t *tool = json_array_get(tools, i);
        const char *name = json_string_value(json_object_get(tool, "name"));
        int count = tdg__tool_headers_check(tool, why, sizeof(why));

        if (count < 0) {
            tdg__core_log(core, TDG_LOG_WARNING, "tool %.64s is left out: %s",
                          name != NULL ? name : "?", why);
            json_array_remove(tools, i);
            continue;
        }
        if (count > 0 && name != NULL &&
            json_object_set(schemas, name, json_object_get(tool, "inputSchema")) < 0) {
            json_decref(schemas);
            return TDG_ENOMEM;
        }
        i++;
    }

    json_decref(core->tool_schemas);
    core->tool_schemas = schemas;
    return 0;
}

/* ---- Calls -------------------------------------------------------------- */

struct call {
    tdg__core_t *core;
    char *tool;
    json_t *arguments; /* an object, or NULL */
    int64_t deadline;  /* for the list and the call together */
    bool refreshed;    /* the tools were listed for this call */
    tdg__core_done_fn done;
    void *user;
};

static void finish(struct call *call, int code, json_t *result,
                   const tdg_failure_t *failure) {
    call->done(call->user, code, result, failure);
    json_decref(call->arguments);
    tdg__free(call->tool);
    tdg__free(call);
}

static void fail(struct call *call, int code) {
    tdg_failure_t failure;

    tdg__failure_set(&failure, code, "tools/call: %s",
                     code == TDG_EINVAL ? "a whole number for a header exceeds 53 bits"
                                        : tdg_strerror(code));
    finish(call, code, NULL, &failure);
}

bool tdg__tools_want_headers(const tdg__core_t *core) {
    return core->transport_kind == TDG__TRANSPORT_HTTP && core->era == TDG_ERA_MODERN;
}

static void on_called(void *user, const tdg__outcome_t *outcome);

static int send_call(struct call *call) {
    tdg__core_t *core = call->core;
    json_t *schema = json_object_get(core->tool_schemas, call->tool);
    tdg__tool_headers_t headers = {.count = 0};
    json_t *progress = NULL;
    int64_t left = call->deadline - tdg__core_now(core);
    tdg__client_request_opts_t wanted = {.method = "tools/call",
                                         .timeout_ms = left > 0 ? (uint32_t)left : 1};
    int rv;

    if (core->opts.progress != NULL) {
        progress =
            json_pack("{s:I}", "progressToken", (json_int_t)++core->progress_tokens);
        if (progress == NULL)
            return TDG_ENOMEM;
    }
    if (tdg__tools_want_headers(core)) {
        rv = tdg__tool_headers(schema, call->arguments, &headers);
        if (rv < 0) {
            json_decref(progress);
            return rv;
        }
    }

    wanted.headers = &headers;
    wanted.params = json_pack("{s:s, s:O*, s:o*}", "name", call->tool, "arguments",
                              call->arguments, "_meta", progress);
    if (wanted.params == NULL) {
        tdg__tool_headers_done(&headers);
        return TDG_ENOMEM;
    }
    return tdg__client_request_begin(core, &wanted, on_called, call, NULL);
}

static void on_listed(void *user, int code, json_t *tools, const tdg_failure_t *failure) {
    struct call *call = user;
    int rv;

    (void)tools;
    (void)failure;
    if (code == TDG_EENDED || code == TDG_ENOMEM || code == TDG_ETIMEDOUT) {
        fail(call, code);
        return;
    }

    /* Without the list the server may still take it as it is. */
    rv = send_call(call);
    if (rv < 0)
        fail(call, rv);
}

static void refresh(struct call *call) {
    call->refreshed = true;
    tdg__list_until(call->core, TDG_LIST_TOOLS, call->deadline, on_listed, call);
}

static void on_called(void *user, const tdg__outcome_t *outcome) {
    struct call *call = user;

    if (outcome->code != 0 && outcome->failure->rpc_code == TDG__RPC_HEADER_MISMATCH &&
        tdg__tools_want_headers(call->core) && !call->refreshed)
        refresh(call);
    else
        finish(call, outcome->code, outcome->result, outcome->failure);
}

void tdg__core_call(tdg__core_t *core, const char *tool, json_t *arguments,
                    uint32_t timeout_ms, tdg__core_done_fn done, void *user) {
    struct call *call = tdg__calloc(1, sizeof(*call));
    int rv = TDG_ENOMEM;

    if (call == NULL) {
        json_decref(arguments);
        tdg__core_refuse(done, user, rv);
        return;
    }

    *call = (struct call){.core = core,
                          .tool = tdg__strdup(tool),
                          .arguments = arguments,
                          .deadline =
                              tdg__core_now(core) +
                              (timeout_ms != 0 ? timeout_ms : core->client->timeout_ms),
                          .done = done,
                          .user = user};
    if (call->tool != NULL && tdg__tools_want_headers(core) &&
        core->tool_schemas == NULL) {
        refresh(call);
        return;
    }
    if (call->tool != NULL)
        rv = send_call(call);
    if (rv < 0)
        fail(call, rv);
}

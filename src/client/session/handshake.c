/* SPDX-License-Identifier: MIT
 *
 * Detects the era of a server, and performs the handshake of each. A server is probed
 * with server/discover; its response decides:
 *
 *     versions, the modern one among them    modern
 *     versions, only older ones              initialize
 *     no version that we speak               TDG_ENOTSUP
 *     another error of the modern protocol   modern, and it refuses us
 *     401, 403                               it asks who we are
 *     5xx, 429, nothing, silence over HTTP   nobody knows: later
 *     anything else, silence over stdio      initialize
 *
 * The detected era is used at once the next time; a server that does not respond to it as
 * it should is probed again. A modern server that was too slow for the probe and refuses
 * initialize is probed once more. */
#include <string.h>

#include <tidings/error.h>

#include "base/alloc.h"
#include "client/session/connect.h"

enum {
    STDIO_PROBE_MS = 10000, /* a legacy server may not answer at all, and a modern one may
                               take its time to start */
    STDIO_PROBE_MIN_MS = 3000,
    MAX_PROBES = 2,     /* of one attempt */
    MAX_SUPPORTED = 32, /* versions in a message for people */
};

static void probe(tdg__core_t *core);
static void initialise(tdg__core_t *core);

/* ---- Versions ----------------------------------------------------------- */

/* The newest of a server's versions that we speak; UNKNOWN: none. */
static tdg__version_t newest_common(const json_t *versions) {
    tdg__version_t best = TDG__V_UNKNOWN;

    for (size_t i = 0; i < json_array_size(versions); i++) {
        tdg__version_t version =
            tdg__version_from_text(json_string_value(json_array_get(versions, i)));

        if (version > best)
            best = version;
    }
    return best;
}

static void fail_version(tdg__core_t *core, const json_t *versions) {
    static const char *const ours[] = {
        [TDG_ERA_FIND] = "2024-11-05 to 2026-07-28",
        [TDG_ERA_MODERN] = "2026-07-28",
        [TDG_ERA_LEGACY] = "2024-11-05 to 2025-11-25",
    };
    tdg__text_t text;

    tdg__text_init(&text, 1000);
    for (size_t i = 0; i < json_array_size(versions) && i < MAX_SUPPORTED; i++) {
        const char *version = json_string_value(json_array_get(versions, i));

        tdg__text_put(&text, i > 0 ? ", " : "");
        tdg__text_put(&text, version != NULL ? version : "?");
    }
    tdg__connect_fail(core, TDG_ENOTSUP,
                      "no version in common: the server speaks %.300s; we speak %s",
                      text.len > 0 ? text.data : "none", ours[core->client->era]);
    tdg__text_done(&text);
}

/* ---- What is known of the server ---------------------------------------- */

static void replace(json_t **known, json_t *value) {
    json_incref(value);
    json_decref(*known);
    *known = value;
}

/* Returns 0 or TDG_ENOMEM. */
static int learn(tdg__core_t *core, json_t *result, json_t *info, json_t *versions) {
    const char *text = json_string_value(json_object_get(result, "instructions"));
    char *instructions;

    if (!tdg__copy(text, &instructions))
        return TDG_ENOMEM;

    tdg__free(core->instructions);
    core->instructions = instructions;
    replace(&core->server_info, json_is_object(info) ? info : NULL);
    replace(&core->capabilities, json_object_get(result, "capabilities"));
    replace(&core->supported, versions);
    replace(&core->tool_schemas, NULL); /* it may be another server by now */
    return 0;
}

static void fail_for_memory(tdg__core_t *core) {
    tdg__connect_fail(core, TDG_ENOMEM, "%s", tdg_strerror(TDG_ENOMEM));
}

/* ---- Asking ------------------------------------------------------------- */

/* A hanging server must leave time to try again. */
static uint32_t step_timeout(const tdg__core_t *core) {
    return core->client->timeout_ms < core->client->connect_timeout_ms
               ? core->client->timeout_ms
               : core->client->connect_timeout_ms;
}

static void ask(tdg__core_t *core, enum tdg__phase phase,
                const tdg__client_request_opts_t *what, tdg__outcome_fn done) {
    struct tdg__connect *connect = core->connect;

    connect->phase = phase;
    if (tdg__client_request_begin(core, what, done, core, &connect->request) < 0) {
        connect->request = NULL;
        fail_for_memory(core);
    }
}

/* On a channel that all share its loss is reported next, and decides. */
static bool loss_follows(const tdg__core_t *core, const tdg__outcome_t *outcome) {
    return outcome->end == TDG__DELIVERY_BROKEN && core->transport != NULL &&
           core->transport->ops->shared;
}

static void fail_with(tdg__core_t *core, const tdg__outcome_t *outcome) {
    if (outcome->retry_after_ms >= 0) {
        core->connect->floor_asked = true;
        tdg__backoff_floor(&core->backoff, outcome->retry_after_ms);
    }
    tdg__connect_failed(core, outcome->failure);
}

/* Whether the failure says nothing about the era. */
static bool is_no_answer(const tdg__outcome_t *outcome) {
    return outcome->code == TDG_EUNREACHABLE || outcome->code == TDG_ETIMEDOUT ||
           outcome->code == TDG_ENOMEM || outcome->end == TDG__DELIVERY_REFUSED ||
           tdg__failure_barred(outcome->failure);
}

/* Whether there is no MCP at this URL, as far as its answer to POST shows. */
static bool is_nobody(const tdg_failure_t *failure) {
    return failure->rpc_code == 0 &&
           (failure->http_status == 400 || failure->http_status == 404 ||
            failure->http_status == 405);
}

/* ---- The modern era ----------------------------------------------------- */

/* The versions that an answer to the probe names; NULL: none. */
static json_t *versions_in(const tdg__outcome_t *outcome) {
    json_t *versions = NULL;

    if (outcome->code == 0)
        versions = json_object_get(outcome->result, "supportedVersions");
    else if (outcome->failure->rpc_code == TDG__RPC_UNSUPPORTED_VERSION)
        versions = json_object_get(outcome->failure->data, "supported");
    return json_is_array(versions) ? versions : NULL;
}

static bool refuses_as_modern(const tdg__outcome_t *outcome) {
    return outcome->code != 0 &&
           (outcome->failure->rpc_code == TDG__RPC_HEADER_MISMATCH ||
            outcome->failure->rpc_code == TDG__RPC_MISSING_CAPABILITY);
}

bool tdg__handshake_denies_modern(const tdg__outcome_t *outcome) {
    const json_t *versions = versions_in(outcome);

    if (versions != NULL)
        return newest_common(versions) != TDG__V_MODERN;
    return !refuses_as_modern(outcome) && (outcome->code == 0 || !is_no_answer(outcome));
}

static void accept_modern(tdg__core_t *core, json_t *result, json_t *versions) {
    json_t *meta = json_object_get(result, "_meta");
    json_t *info = json_object_get(meta, "io.modelcontextprotocol/serverInfo");

    if (info == NULL)
        info = json_object_get(result, "serverInfo");
    if (learn(core, result, info, versions) < 0) {
        fail_for_memory(core);
        return;
    }

    core->era = TDG_ERA_MODERN;
    core->version = TDG__V_MODERN;
    tdg__connect_up(core);
}

/* The server is of the legacy era, as far as the probe shows. */
static void fall_back(tdg__core_t *core, const tdg__outcome_t *outcome) {
    struct tdg__connect *connect = core->connect;
    const tdg_failure_t *before = &connect->failure;
    tdg_failure_t failure;

    if (core->client->era == TDG_ERA_MODERN) {
        tdg__connect_fail(core, TDG_ENOTSUP,
                          "the server does not speak 2026-07-28, and no other era is "
                          "allowed: %.300s",
                          outcome->code != 0 ? outcome->failure->message : "");
    } else if (!connect->initialised) {
        initialise(core);
    } else if (is_nobody(before) && core->transport_kind == TDG__TRANSPORT_HTTP) {
        tdg__connect_use_sse(core);
    } else {
        failure = *before;
        failure.data = NULL;
        tdg__connect_failed(core, &failure);
    }
}

static void read_versions(tdg__core_t *core, const tdg__outcome_t *outcome,
                          json_t *versions) {
    tdg__version_t version = newest_common(versions);

    if (version == TDG__V_UNKNOWN ||
        (!tdg__version_modern(version) && core->client->era == TDG_ERA_MODERN)) {
        fail_version(core, versions);
    } else if (!tdg__version_modern(version)) {
        core->connect->offer = version;
        fall_back(core, outcome);
    } else if (outcome->code == 0) {
        accept_modern(core, outcome->result, versions);
    } else if (core->connect->probes < MAX_PROBES) {
        probe(core); /* it speaks what it has refused: once more */
    } else {
        fail_with(core, outcome);
    }
}

static void on_probed(void *user, const tdg__outcome_t *outcome) {
    tdg__core_t *core = user;
    struct tdg__connect *connect = core->connect;
    json_t *versions = versions_in(outcome);

    connect->request = NULL;
    if (loss_follows(core, outcome))
        return;

    if (versions != NULL) {
        read_versions(core, outcome, versions);
    } else if (refuses_as_modern(outcome)) {
        fail_with(core, outcome);
    } else if (outcome->end == TDG__DELIVERY_TIMEOUT &&
               core->transport_kind == TDG__TRANSPORT_STDIO && !connect->silent &&
               core->client->era == TDG_ERA_FIND) {
        connect->silent = true;
        fall_back(core, outcome);
    } else if (outcome->code != 0 && is_no_answer(outcome)) {
        fail_with(core, outcome);
    } else {
        fall_back(core, outcome);
    }
}

/* A third is enough where there is little time, as long as it is some. */
static uint32_t probe_timeout(const tdg__core_t *core) {
    uint32_t all = step_timeout(core), part = all / 3;

    if (part < STDIO_PROBE_MIN_MS)
        part = STDIO_PROBE_MIN_MS;
    if (part > STDIO_PROBE_MS)
        part = STDIO_PROBE_MS;
    return part < all ? part : all;
}

static void probe(tdg__core_t *core) {
    struct tdg__connect *connect = core->connect;
    bool short_wait = core->transport_kind == TDG__TRANSPORT_STDIO &&
                      core->client->era == TDG_ERA_FIND && !connect->silent;
    const tdg__client_request_opts_t what = {
        .method = "server/discover",
        .timeout_ms = short_wait ? probe_timeout(core) : step_timeout(core),
        .early = true,
        .version = TDG__V_MODERN};

    connect->probes++;
    ask(core, TDG__PHASE_PROBING, &what, on_probed);
}

/* ---- The legacy era ----------------------------------------------------- */

static void on_level_set(void *user, const tdg__outcome_t *outcome) {
    if (outcome->code != 0)
        tdg__core_log(user, TDG_LOG_DEBUG, "the server sends no log messages: %s",
                      outcome->failure->message);
}

static void ask_for_logs(tdg__core_t *core) {
    tdg__client_request_opts_t what = {.method = "logging/setLevel"};

    if ((core->client->flags & TDG_CLIENT_LOGS) == 0 ||
        json_object_get(core->capabilities, "logging") == NULL)
        return;
    what.params = json_pack("{s:s}", "level", "debug");
    if (what.params != NULL)
        (void)tdg__client_request_begin(core, &what, on_level_set, core, NULL);
}

static void on_said_so(void *user, const tdg__delivery_report_t *report) {
    tdg__core_t *core = user;

    core->connect->notice = NULL;
    if (report->end == TDG__DELIVERY_DONE || report->end == TDG__DELIVERY_STATUS) {
        core->counts.sessions++;
        tdg__connect_up(core);
        ask_for_logs(core);
    } else if (report->end != TDG__DELIVERY_BROKEN || !core->transport->ops->shared) {
        tdg__connect_fail(core, TDG_EUNREACHABLE, "connection lost after initialize: %s",
                          report->error);
    }
}

/* Requests may only follow when the server has this. */
static void say_initialised(tdg__core_t *core) {
    static const tdg__delivery_calls_t calls = {.message = tdg__incoming_loose,
                                                .ended = on_said_so};
    static const char text[] =
        "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}";
    const tdg__outgoing_t out = {
        .method = "notifications/initialized",
        .text = text,
        .len = sizeof(text) - 1,
        .version = core->version,
        .timeout_ms = step_timeout(core),
    };
    int rv;

    core->connect->phase = TDG__PHASE_SAYING_SO;
    rv = core->transport->ops->send(core->transport, &out, &calls, core,
                                    &core->connect->notice);
    if (rv < 0) {
        core->connect->notice = NULL;
        tdg__connect_fail(core, rv, "connection lost after initialize: %s",
                          tdg_strerror(rv));
    }
}

static void accept_legacy(tdg__core_t *core, json_t *result) {
    json_t *text = json_object_get(result, "protocolVersion");
    tdg__version_t version = tdg__version_from_text(json_string_value(text));
    json_t *versions = json_pack("[O]", text);
    int rv;

    if (version == TDG__V_UNKNOWN || tdg__version_modern(version)) {
        fail_version(core, versions);
        json_decref(versions);
        return;
    }

    rv = versions == NULL
             ? TDG_ENOMEM
             : learn(core, result, json_object_get(result, "serverInfo"), versions);
    json_decref(versions);
    if (rv < 0) {
        fail_for_memory(core);
        return;
    }
    core->era = TDG_ERA_LEGACY;
    core->version = version;
    core->keepalive_ms = tdg__lifesign_announced(json_object_get(result, "_meta"));
    say_initialised(core);
}

/* Initialize was refused. It may be a modern server after all: one that was not asked in
 * this attempt, or did not answer in time. */
static void on_refused(tdg__core_t *core, const tdg__outcome_t *outcome) {
    struct tdg__connect *connect = core->connect;
    const tdg_failure_t *failure = outcome->failure;
    bool ask_anew =
        core->client->era == TDG_ERA_FIND &&
        (connect->probes == 0 || (connect->silent && connect->probes < MAX_PROBES));

    json_decref(connect->failure.data);
    connect->failure = *failure;
    connect->failure.data = NULL;
    if (ask_anew && core->transport_kind != TDG__TRANSPORT_SSE)
        probe(core);
    else if (is_nobody(failure) && core->transport_kind == TDG__TRANSPORT_HTTP)
        tdg__connect_use_sse(core);
    else
        fail_with(core, outcome);
}

static void on_initialised(void *user, const tdg__outcome_t *outcome) {
    tdg__core_t *core = user;

    core->connect->request = NULL;
    if (loss_follows(core, outcome))
        return;
    if (outcome->code == 0)
        accept_legacy(core, outcome->result);
    else if (is_no_answer(outcome))
        fail_with(core, outcome);
    else
        on_refused(core, outcome);
}

static void initialise(tdg__core_t *core) {
    tdg__client_request_opts_t what = {.method = "initialize",
                                       .timeout_ms = step_timeout(core),
                                       .early = true,
                                       .version = TDG__V_UNKNOWN};

    core->connect->initialised = true;
    what.params = tdg__compose_initialize(core, core->connect->offer);
    if (what.params == NULL)
        fail_for_memory(core);
    else
        ask(core, TDG__PHASE_INITIALISING, &what, on_initialised);
}

/* ---- Beginning, and being dropped --------------------------------------- */

void tdg__handshake_begin(tdg__core_t *core) {
    if (core->era == TDG_ERA_LEGACY || core->transport_kind == TDG__TRANSPORT_SSE ||
        core->connect->ends_when_probed)
        initialise(core);
    else
        probe(core);
}

void tdg__handshake_drop(tdg__core_t *core) {
    struct tdg__connect *connect = core->connect;

    if (connect->request != NULL)
        tdg__client_request_drop(connect->request);
    if (connect->doubt != NULL)
        tdg__client_request_drop(connect->doubt);
    if (connect->notice != NULL)
        core->transport->ops->cancel(core->transport, connect->notice);
    connect->request = NULL;
    connect->doubt = NULL;
    connect->notice = NULL;
    connect->phase = TDG__PHASE_NONE;
}

/* SPDX-License-Identifier: MIT
 *
 * Whether the server is still the known one, while connected: its one stream of
 * 2024-11-05 is silent, or its responses look like those of another era. One request at a
 * time finds out; if the doubt was justified, the connection counts as lost. */
#include <tidings/error.h>

#include "client/session/connect.h"

/* ---- Silence of the one stream of 2024-11-05 ---------------------------- */

/* Answers come by that stream: whatever comes shows that nothing was lost on it. */
static void on_pinged(void *user, const tdg__outcome_t *outcome) {
    tdg__core_t *core = user;

    core->connect->doubt = NULL;
    if (outcome->code != TDG_ETIMEDOUT || core->state != TDG__CORE_UP ||
        tdg__core_now(core) - core->connect->life.heard_ms < tdg__lifesign_patience(core))
        return;
    core->opts.upper->compare(core);
    tdg__connect_lost(core, TDG_EUNREACHABLE, "no response to a ping on the stream");
}

void tdg__doubt_silence(tdg__core_t *core, tdg__lifesign_t *life, const char *dead) {
    const tdg__client_request_opts_t ping = {.method = "ping",
                                             .timeout_ms = tdg__lifesign_patience(core)};

    if (core->state != TDG__CORE_UP) {
        tdg__lifesign_rest(core, life);
    } else if (dead != NULL) {
        tdg__connect_lost(core, TDG_EUNREACHABLE, dead);
    } else if (core->connect->doubt == NULL) {
        tdg__core_log(core, TDG_LOG_DEBUG, "checking a silent stream");
        (void)tdg__client_request_begin(core, &ping, on_pinged, core,
                                        &core->connect->doubt);
    }
}

/* ---- Doubt about the era ------------------------------------------------ */

static void forget_era(tdg__core_t *core) {
    core->era = TDG_ERA_FIND;
    tdg__connect_lost(core, TDG_EUNREACHABLE, "the server speaks another era now");
}

static void on_doubt_settled(void *user, const tdg__outcome_t *outcome) {
    tdg__core_t *core = user;

    core->connect->doubt = NULL;
    if (core->state == TDG__CORE_UP && tdg__handshake_denies_modern(outcome))
        forget_era(core);
}

/* What a server of the legacy era answers to a modern request: 400 for want of a session,
 * or nothing that it would call MCP. */
static bool looks_legacy(const tdg_failure_t *failure) {
    bool odd = failure->http_status == 400 || failure->http_status == 404 ||
               failure->http_status == 405;

    return odd && (failure->rpc_code == 0 || failure->rpc_code == -32000 ||
                   failure->rpc_code == TDG__RPC_INVALID_REQUEST);
}

static bool names_versions(const tdg_failure_t *failure) {
    return failure->rpc_code == TDG__RPC_UNSUPPORTED_VERSION &&
           json_is_array(json_object_get(failure->data, "supported"));
}

void tdg__doubt_outcome(tdg__core_t *core, const tdg__outcome_t *outcome) {
    const tdg_failure_t *failure = outcome->failure;
    const tdg__client_request_opts_t probe = {.method = "server/discover",
                                              .timeout_ms =
                                                  core->client->connect_timeout_ms,
                                              .early = true,
                                              .version = TDG__V_MODERN};

    if (core->state != TDG__CORE_UP || core->client->era != TDG_ERA_FIND ||
        core->transport->ops->shared || core->connect->doubt != NULL)
        return;

    if (core->era == TDG_ERA_LEGACY) {
        if (failure->rpc_code == TDG__RPC_HEADER_MISMATCH ||
            failure->rpc_code == TDG__RPC_MISSING_CAPABILITY || names_versions(failure))
            forget_era(core);
    } else if (looks_legacy(failure) || names_versions(failure)) {
        (void)tdg__client_request_begin(core, &probe, on_doubt_settled, core,
                                        &core->connect->doubt);
    }
}

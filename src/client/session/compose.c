/* SPDX-License-Identifier: MIT
 *
 * Messages as each era requires them. A modern request has the version, the client's name
 * and its capabilities in `_meta`; a legacy client has sent these in `initialize`. Pure:
 * nothing here depends on connections. */
#include <string.h>

#include <tidings/error.h>

#include "client/session/core_internal.h"
#include "mcp/request.h"

#define META "io.modelcontextprotocol/"

/* ---- Who we are --------------------------------------------------------- */

static json_t *make_identity(const tdg__core_t *core) {
    return json_pack("{s:s, s:s}", "name", core->client->name, "version",
                     core->client->version);
}

static json_t *make_capabilities(const tdg__core_t *core) {
    if (core->opts.input == NULL)
        return json_object();
    return json_pack("{s:{}, s:{}, s:{}}", "elicitation", "roots", "sampling");
}

/* ---- Requests ----------------------------------------------------------- */

/* Adds what is not there yet; `value` is stolen. */
static int set_missing(json_t *object, const char *key, json_t *value) {
    if (value == NULL)
        return TDG_ENOMEM;
    if (json_object_get(object, key) != NULL) {
        json_decref(value);
        return 0;
    }
    return json_object_set_new(object, key, value) == 0 ? 0 : TDG_ENOMEM;
}

static int fill_meta(const tdg__core_t *core, json_t *meta, tdg__version_t version) {
    int rv;

    rv = set_missing(meta, META "protocolVersion",
                     json_string(tdg__version_text(version)));
    if (rv == 0)
        rv = set_missing(meta, META "clientInfo", make_identity(core));
    if (rv == 0)
        rv = set_missing(meta, META "clientCapabilities", make_capabilities(core));
    if (rv == 0 && (core->client->flags & TDG_CLIENT_LOGS) != 0)
        rv = set_missing(meta, META "logLevel", json_string("debug"));
    return rv;
}

json_t *tdg__compose_copy(json_t *object) {
    json_t *copy = object != NULL ? json_copy(object) : json_object();

    /* jansson does not say when it had no memory for all of it. */
    if (copy != NULL && json_object_size(copy) != json_object_size(object)) {
        json_decref(copy);
        return NULL;
    }
    return copy;
}

/* A copy of the parameters with all of `_meta`, new; NULL: no memory. The original stays
 * as it is: it may have to be sent again in the other era. */
static json_t *with_meta(const tdg__core_t *core, json_t *params,
                         tdg__version_t version) {
    json_t *given = json_object_get(params, "_meta");
    json_t *copy = tdg__compose_copy(params);
    json_t *meta = tdg__compose_copy(json_is_object(given) ? given : NULL);

    if (copy == NULL || meta == NULL || fill_meta(core, meta, version) < 0) {
        json_decref(copy);
        json_decref(meta);
        return NULL;
    }
    if (json_object_set_new(copy, "_meta", meta) < 0) {
        json_decref(copy);
        return NULL;
    }
    return copy;
}

void tdg__compose_request(const tdg__core_t *core, tdg__text_t *text, const char *id,
                          const char *method, json_t *params, tdg__version_t version) {
    json_t *full;

    if (!tdg__version_modern(version)) {
        tdg__rpc_put_request(text, id, method, params);
        return;
    }

    full = with_meta(core, params, version);
    if (full == NULL) {
        text->error = TDG_ENOMEM;
        return;
    }
    tdg__rpc_put_request(text, id, method, full);
    json_decref(full);
}

const char *tdg__compose_name(const char *method, const json_t *params) {
    const char *field = tdg__mcp_name_field(method);

    return field != NULL ? json_string_value(json_object_get(params, field)) : NULL;
}

json_t *tdg__compose_initialize(const tdg__core_t *core, tdg__version_t version) {
    return json_pack("{s:s, s:o, s:o}", "protocolVersion", tdg__version_text(version),
                     "capabilities", make_capabilities(core), "clientInfo",
                     make_identity(core));
}

/* SPDX-License-Identifier: MIT */
#include "server/http/visit.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/json.h"
#include "server/context/limits.h"
#include "server/http/caller.h"
#include "server/mcp/session.h"

/* ---- Plain answers ------------------------------------------------------ */

void tdg__visit_respond(tdg__visit_t *visit, int status, const char *fields) {
    char all[sizeof(visit->fields) + 128];

    snprintf(all, sizeof(all), "%s%s", visit->fields, fields != NULL ? fields : "");
    tdg__exchange_respond(visit->exchange, status, NULL, all, NULL, 0);
}

void tdg__visit_refuse(tdg__visit_t *visit, int status, int code, const char *message) {
    tdg__visit_refuse_id(visit, status, NULL, code, message);
}

void tdg__visit_refuse_id(tdg__visit_t *visit, int status, const char *id, int code,
                          const char *message) {
    tdg__rpc_error_t error = {0};
    tdg__text_t text;

    tdg__rpc_error_set(&error, code, NULL, "%s", message);
    tdg__text_init(&text, SIZE_MAX);
    tdg__rpc_put_error(&text, id, &error);
    tdg__rpc_error_done(&error);
    if (text.error == 0)
        tdg__exchange_respond(visit->exchange, status, "application/json", visit->fields,
                              text.data, text.len);
    else
        tdg__visit_respond(visit, 500, NULL);
    tdg__text_done(&text);
}

/* ---- Versions ----------------------------------------------------------- */

bool tdg__visit_era_is_off(const tdg__visit_t *visit, unsigned flag) {
    return (visit->worker->server->opts.flags & flag) != 0;
}

/* The versions that are spoken here, newest first; new. */
static json_t *spoken(const tdg__visit_t *visit) {
    json_t *versions = json_array();

    for (int i = TDG__V_COUNT - 1; i > TDG__V_UNKNOWN; i--) {
        tdg__version_t version = (tdg__version_t)i;
        unsigned flag = tdg__version_modern(version) ? TDG_NO_MODERN : TDG_NO_LEGACY;

        if (!tdg__visit_era_is_off(visit, flag))
            json_array_append_new(versions, json_string(tdg__version_text(version)));
    }
    return versions;
}

void tdg__visit_refuse_version(tdg__visit_t *visit, const char *id,
                               const char *requested) {
    tdg__rpc_error_t error = {0};
    json_t *data =
        json_pack("{s:o, s:s}", "supported", spoken(visit), "requested", requested);

    tdg__rpc_error_set(&error, TDG__RPC_UNSUPPORTED_VERSION, data,
                       "This version of the protocol is not supported");
    tdg__visit_refuse_message(visit, id, &error);
}

/* ---- What the client accepts -------------------------------------------- */

/* Whether a weight is none: "0", "0.000". What follows it is another parameter. */
static bool is_zero(const char *weight, const char *end) {
    const char *at = weight;

    while (at < end && (*at == '0' || *at == '.'))
        at++;
    return at > weight && *weight == '0' && (at == end || strchr(" \t;", *at) != NULL);
}

/* Whether the parameters of an item say that it is not wanted: ";q=0". */
static bool is_refused(const char *params, size_t len) {
    const char *end = params + len, *at = params;

    while ((at = memchr(at, ';', (size_t)(end - at))) != NULL) {
        at++;
        while (at < end && (*at == ' ' || *at == '\t'))
            at++;
        if (end - at > 2 && (*at == 'q' || *at == 'Q') && at[1] == '=')
            return is_zero(at + 2, end);
    }
    return false;
}

bool tdg__visit_accepts(const tdg__visit_t *visit, const char *type) {
    const char *accept = tdg__http_field(visit->http, "accept");
    size_t major = strcspn(type, "/") + 1;

    if (accept == NULL)
        return true;
    while (*accept != '\0') {
        accept += strspn(accept, " \t,");
        size_t len = strcspn(accept, " \t,;");
        size_t item = strcspn(accept, ",");
        if (is_refused(accept + len, item - len)) {
            accept += item;
            continue;
        }
        if ((len == 3 && memcmp(accept, "*/*", 3) == 0) ||
            (len == strlen(type) && strncasecmp(accept, type, len) == 0) ||
            (len == major + 1 && accept[major] == '*' &&
             strncasecmp(accept, type, major) == 0))
            return true;
        accept += item;
    }
    return false;
}

/* ---- Messages ----------------------------------------------------------- */

bool tdg__visit_brings_json(tdg__visit_t *visit) {
    if (tdg__http_is_json(tdg__http_field(visit->http, "content-type")))
        return true;
    tdg__visit_refuse(visit, 415, TDG__RPC_INVALID_REQUEST,
                      "The Content-Type must be application/json");
    return false;
}

bool tdg__visit_read_body(tdg__visit_t *visit) {
    tdg__json_limits_t limits = tdg__message_limits(&visit->worker->server->opts);
    tdg__parse_error_t why = {0};
    tdg__rpc_error_t error = {0};

    if (visit->body != NULL)
        return true;
    if (!tdg__visit_brings_json(visit))
        return false;

    int rv = tdg__json_parse(visit->http->body, visit->http->body_len, &limits,
                             &visit->body, &why);
    if (rv == 0)
        return true;
    tdg__json_error_set(&error, rv, &why);
    tdg__visit_refuse(visit, rv == TDG_ENOMEM ? 500 : 400, error.code, error.message);
    return false;
}

const tdg__address_t *tdg__visit_caller(const tdg__visit_t *visit, tdg__address_t *room) {
    char peer[TDG__PEER_MAX];

    tdg__exchange_peer(visit->exchange, peer);
    return tdg__caller_find(&visit->listener->proxies, peer, visit->http, room) ? room
                                                                                : NULL;
}

void tdg__visit_address(const tdg__visit_t *visit, char ret[TDG__ADDRESS_TEXT]) {
    tdg__address_t room;
    const tdg__address_t *caller = tdg__visit_caller(visit, &room);

    ret[0] = '\0';
    if (caller != NULL)
        tdg__address_write(caller, ret);
}

void tdg__visit_refuse_message(tdg__visit_t *visit, const char *id,
                               tdg__rpc_error_t *error) {
    tdg__channel_t *channel;

    if (tdg__visit_post(visit, NULL, TDG__V_MODERN, false, 1, &channel) < 0) {
        tdg__rpc_error_done(error);
        return;
    }
    if (error->code != TDG__RPC_INTERNAL) /* which is not the client's fault */
        tdg__post_channel_set_malformed(channel);
    tdg__channel_refuse(channel, id, error);
}

bool tdg__visit_read_message(tdg__visit_t *visit, tdg__rpc_message_t *ret) {
    tdg__rpc_error_t error = {0};

    if (tdg__rpc_read(visit->body, ret, &error) == 0)
        return true;
    tdg__visit_refuse_message(visit, ret->id, &error);
    return false;
}

bool tdg__visit_wants_stream(tdg__visit_t *visit) {
    if (tdg__visit_accepts(visit, "text/event-stream"))
        return true;
    tdg__visit_refuse(visit, 406, TDG__RPC_INVALID_REQUEST,
                      "This is a stream: the Accept header must allow text/event-stream");
    return false;
}

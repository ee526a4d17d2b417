/* SPDX-License-Identifier: MIT
 *
 * The single messages of notice.h: each is written for one stream or pipe, rarely enough
 * that JSON values are affordable. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include <tidings/error.h>

#include "mcp/cursor.h"
#include "mcp/notice.h"

#define SUBSCRIPTION_ID "\"io.modelcontextprotocol/subscriptionId\":"

/* ---- Subscriptions ------------------------------------------------------ */

/* Appends `member` with a comma in front unless it is the first. */
static void put_next(tdg__text_t *text, bool *first, const char *member) {
    if (!*first)
        tdg__text_put(text, ",");
    *first = false;
    tdg__text_put(text, member);
}

static void put_honoured(tdg__text_t *text, const tdg__ack_t *ack) {
    bool first = true;

    tdg__text_put(text, "\"notifications\":{");
    if (ack->tools)
        put_next(text, &first, "\"toolsListChanged\":true");
    if (ack->prompts)
        put_next(text, &first, "\"promptsListChanged\":true");
    if (ack->resources)
        put_next(text, &first, "\"resourcesListChanged\":true");
    if (ack->uris != NULL) {
        put_next(text, &first, "\"resourceSubscriptions\":");
        tdg__text_put_json(text, ack->uris);
    }
    tdg__text_put(text, "}");
}

void tdg__put_acknowledged(tdg__text_t *text, const tdg__ack_t *ack) {
    char cursor[TDG__CURSOR_MAX];

    tdg__text_put(text, "{\"jsonrpc\":\"2.0\","
                        "\"method\":\"notifications/subscriptions/acknowledged\","
                        "\"params\":{");
    put_honoured(text, ack);
    tdg__text_put(text, ",\"_meta\":{\"dev.tidings/cursor\":\"");
    tdg__text_add(text, cursor, tdg__cursor_put(cursor, ack->epoch, ack->number));
    tdg__text_put(text, "\"");
    if (ack->had_cursor)
        tdg__text_format(text, ",\"dev.tidings/resumed\":%s",
                         ack->resumed ? "true" : "false");
    if (json_object_size(ack->refused) > 0) {
        tdg__text_put(text, ",\"dev.tidings/refused\":");
        tdg__text_put_json(text, ack->refused);
    }
    if (ack->keepalive_ms > 0)
        tdg__text_format(text, ",\"dev.tidings/keepAliveMs\":%" PRIu32,
                         ack->keepalive_ms);
    tdg__text_format(text, "," SUBSCRIPTION_ID "%s}}}", ack->subscription);
}

void tdg__put_listen_complete(tdg__text_t *text, const char *subscription,
                              const json_t *server_info) {
    tdg__text_format(text,
                     "{\"jsonrpc\":\"2.0\",\"id\":%s,"
                     "\"result\":{\"resultType\":\"complete\",\"_meta\":{",
                     subscription);
    if (server_info != NULL) {
        tdg__text_put(text, "\"io.modelcontextprotocol/serverInfo\":");
        tdg__text_put_json(text, server_info);
        tdg__text_put(text, ",");
    }
    tdg__text_format(text, SUBSCRIPTION_ID "%s}}}", subscription);
}

void tdg__put_cancelled(tdg__text_t *text, const char *subscription, const char *reason) {
    tdg__text_format(text,
                     "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\","
                     "\"params\":{\"requestId\":%s",
                     subscription);
    if (reason != NULL) {
        tdg__text_put(text, ",\"reason\":");
        tdg__text_put_quoted(text, reason, strlen(reason));
    }
    tdg__text_format(text, ",\"_meta\":{" SUBSCRIPTION_ID "%s}}}", subscription);
}

/* ---- Requests under way ------------------------------------------------- */

/* Whole numbers as such: 3 rather than 3.0. */
static void put_number(tdg__text_t *text, double number) {
    const double exact = 9007199254740992.0; /* 2^53 */
    json_t *value;

    if (fabs(number) <= exact && number == (double)(json_int_t)number)
        value = json_integer((json_int_t)number);
    else
        value = json_real(number);
    tdg__text_put_json(text, value);
    json_decref(value);
}

void tdg__put_progress(tdg__text_t *text, const json_t *token, double progress,
                       double total, const char *message) {
    if (!isfinite(progress))
        return;

    tdg__text_put(text, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\","
                        "\"params\":{\"progressToken\":");
    tdg__text_put_json(text, token);
    tdg__text_put(text, ",\"progress\":");
    put_number(text, progress);
    if (isfinite(total) && total > 0) {
        tdg__text_put(text, ",\"total\":");
        put_number(text, total);
    }
    if (message != NULL) {
        tdg__text_put(text, ",\"message\":");
        tdg__text_put_quoted(text, message, strlen(message));
    }
    tdg__text_put(text, "}}");
}

static const char *const levels[] = {
    "debug", "info", "notice", "warning", "error", "critical", "alert", "emergency",
};
enum { LEVELS = sizeof(levels) / sizeof(levels[0]) };

const char *tdg__log_level_name(int level) {
    return level >= 0 && level < LEVELS ? levels[level] : NULL;
}

int tdg__log_level_from_name(const char *name) {
    for (int level = 0; name != NULL && level < LEVELS; level++) {
        if (strcmp(name, levels[level]) == 0)
            return level;
    }
    return -1;
}

void tdg__put_log(tdg__text_t *text, int level, const char *logger, const json_t *data) {
    tdg__text_format(text,
                     "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\","
                     "\"params\":{\"level\":\"%s\"",
                     levels[level]);
    if (logger != NULL) {
        tdg__text_put(text, ",\"logger\":");
        tdg__text_put_quoted(text, logger, strlen(logger));
    }
    tdg__text_put(text, ",\"data\":");
    tdg__text_put_json(text, data);
    tdg__text_put(text, "}}");
}

/* ---- SSE ---------------------------------------------------------------- */

void tdg__put_event_start(tdg__text_t *text, const char *id, const char *event) {
    if (id != NULL) {
        tdg__text_put(text, "id: ");
        tdg__text_put(text, id);
        tdg__text_put(text, "\n");
    }
    if (event != NULL) {
        tdg__text_put(text, "event: ");
        tdg__text_put(text, event);
        tdg__text_put(text, "\n");
    }
    tdg__text_put(text, "data: ");
}

void tdg__put_event(tdg__text_t *text, const char *id, const char *event,
                    const char *data, size_t len) {
    tdg__put_event_start(text, id, event);
    if (data != NULL)
        tdg__text_add(text, data, len);
    tdg__text_put(text, "\n\n");
}

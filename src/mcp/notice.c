/* SPDX-License-Identifier: MIT */
#include "mcp/notice.h"

#include <string.h>

#include "mcp/cursor.h"

/* Far beyond what a URI and metadata within their limits can become by escaping. */
enum { MAX_HEAD_BYTES = 1024 * 1024 };

/* ---- Head --------------------------------------------------------------- */

static void put_method(tdg__text_t *text, const tdg__notice_t *notice, tdg__form_t form) {
    bool short_name = form == TDG__FORM_ERLMCP && notice->list == NULL;

    tdg__text_put(text, "{\"jsonrpc\":\"2.0\",\"method\":\"");
    if (!short_name)
        tdg__text_put(text, "notifications/");
    if (notice->list != NULL) {
        tdg__text_put(text, notice->list);
        tdg__text_put(text, "/list_changed");
    } else {
        tdg__text_put(text, short_name && notice->deleted ? "resources/deleted"
                                                          : "resources/updated");
    }
    tdg__text_put(text, "\",\"params\":{");
}

static void put_update(tdg__text_t *text, const tdg__notice_t *notice,
                       const tdg__text_t *metadata) {
    tdg__text_put(text, "\"uri\":");
    tdg__text_put_quoted(text, notice->uri, notice->uri_len);
    if (notice->in_params && metadata->len > 0) {
        tdg__text_put(text, ",\"metadata\":");
        tdg__text_add(text, metadata->data, metadata->len);
    }

    tdg__text_put(text, ",\"_meta\":{\"dev.tidings/version\":");
    tdg__text_put_u64(text, notice->version);
    if (notice->in_meta && metadata->len > 0) {
        tdg__text_put(text, ",\"dev.tidings/metadata\":");
        tdg__text_add(text, metadata->data, metadata->len);
    }
    tdg__text_put(text, ",");
}

tdg__buf_t *tdg__notice_head(const tdg__notice_t *notice, tdg__form_t form) {
    tdg__text_t text, metadata; /* the latter is encoded once and may go to two places */
    tdg__buf_t *head = NULL;

    tdg__text_init(&text, MAX_HEAD_BYTES);
    tdg__text_init(&metadata, MAX_HEAD_BYTES);

    put_method(&text, notice, form);
    if (notice->list != NULL) {
        tdg__text_put(&text, tdg__notice_has_tail(true, form) ? "\"_meta\":{" : "}}");
    } else {
        if (notice->metadata != NULL && (notice->in_params || notice->in_meta))
            tdg__text_put_json(&metadata, notice->metadata);
        put_update(&text, notice, &metadata);
    }
    if (text.error == 0 && metadata.error == 0)
        head = tdg__buf_create(text.data, text.len);

    tdg__text_done(&metadata);
    tdg__text_done(&text);
    return head;
}

bool tdg__notice_has_tail(bool is_list, tdg__form_t form) {
    return !is_list || form != TDG__FORM_ERLMCP;
}

/* ---- Tail --------------------------------------------------------------- */

static inline char *put(char *out, const char *data, size_t len) {
    memcpy(out, data, len);
    return out + len;
}

/* The length is known when compiled, so that this becomes a few moves. */
#define PUT(out, literal) put((out), (literal), sizeof(literal) - 1)

size_t tdg__notice_tail(char *out, const tdg__tail_t *tail) {
    char *at = out;

    at = PUT(at, "\"dev.tidings/cursor\":\"");
    at += tdg__cursor_put(at, tail->epoch, tail->number);
    at = PUT(at, "\"");
    if (tail->merged != 0) {
        at = PUT(at, ",\"dev.tidings/merged\":");
        at += tdg__u64_digits(at, tail->merged);
    }
    if (tail->subscription != NULL) {
        at = PUT(at, ",\"io.modelcontextprotocol/subscriptionId\":");
        at = put(at, tail->subscription, tail->subscription_len);
    }
    at = PUT(at, "}}}");
    return (size_t)(at - out);
}

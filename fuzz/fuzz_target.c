/* SPDX-License-Identifier: MIT
 *
 * Input: what a client wants to subscribe to. A server that lists its templates gives
 * nothing but a URI as it was sent or one of these templates, however their braces are
 * spelled; one that takes any template gives that, with braces. */
#include <string.h>

#include <tidings/tidings.h>

#include "base/template.h"
#include "base/uri.h"
#include "fuzz.h"
#include "server/mcp/target.h"

enum { MAX_BYTES = 4096 };

static const char *const templates[] = {"t:{x}", "u:{a}/{b}"};

static tdg_server_t *listed, *any;

static void on_read(void *user, tdg_request_t *request, const char *uri) {
    (void)user;
    tdg_request_reply_text(request, uri);
}

static tdg_server_t *create(unsigned flags) {
    const tdg_server_opts_t opts = {.flags = flags, .workers = 1};
    const tdg_resource_t resources[] = {
        {.uri = "a:1", .name = "one", .read = on_read},
        {.uri = "t:%7Bx%7D", .name = "odd", .read = on_read},
        {.uri = "a:still", .name = "s", .read = on_read, .not_subscribable = true},
    };
    tdg_server_t *server;

    require(tdg_server_create(&opts, &server) == 0);
    for (size_t i = 0; i < sizeof(resources) / sizeof(resources[0]); i++)
        require(tdg_server_add_resource(server, &resources[i]) == 0);
    for (size_t i = 0; i < sizeof(templates) / sizeof(templates[0]); i++)
        require(tdg_server_add_template(server,
                                        &(tdg_template_t){.uri_template = templates[i],
                                                          .name = templates[i],
                                                          .read = on_read}) == 0);
    return server;
}

/* ---- Braces ------------------------------------------------------------- */

/* Writes both braces with a percent sign. Returns the length. */
static size_t escape(const char *text, size_t len, char *out) {
    size_t out_len = 0;

    for (size_t i = 0; i < len; i++) {
        if (text[i] == '{' || text[i] == '}') {
            memcpy(out + out_len, text[i] == '{' ? "%7B" : "%7d", 3);
            out_len += 3;
        } else {
            out[out_len++] = text[i];
        }
    }
    return out_len;
}

/* Stores the text with braces in `ret`, where there is room for all of it. Whatever the
 * spelling, there is one such text. */
static size_t check_braces(const char *text, size_t len, char *ret) {
    char escaped[3 * MAX_BYTES], again[3 * MAX_BYTES];
    char *out = malloc(len > 0 ? len : 1); /* no byte more than it has room for */
    size_t out_len, escaped_len;

    require(out != NULL);
    out_len = tdg__template_unescape(text, len, out);
    require(out_len <= len && (len - out_len) % 2 == 0);
    require(out_len < len || memcmp(text, out, len) == 0);
    require(tdg__template_unescape(out, out_len, again) == out_len);
    escaped_len = escape(text, len, escaped);
    require(tdg__template_unescape(escaped, escaped_len, again) == out_len);
    require(memcmp(again, out, out_len) == 0);
    memcpy(ret, out, out_len);
    free(out);
    return out_len;
}

/* ---- Names -------------------------------------------------------------- */

static bool is_listed(const tdg__target_t *target) {
    for (size_t i = 0; i < sizeof(templates) / sizeof(templates[0]); i++)
        if (strlen(templates[i]) == target->len &&
            memcmp(templates[i], target->name, target->len) == 0)
            return true;
    return false;
}

static void check_resolved(const tdg__resolved_t *resolved, const char *text,
                           const char *braces, size_t braces_len, bool takes_any) {
    const tdg__target_t *target = &resolved->target;

    if (target->kind == TDG__TARGET_URI) {
        require(resolved->owned == NULL && target->len == strlen(text));
        require(memcmp(target->name, text, target->len) == 0);
        require(tdg__uri_check(text, target->len, NULL) == 0);
        return;
    }
    require(target->kind == TDG__TARGET_TEMPLATE);
    require(target->len == braces_len && memcmp(target->name, braces, braces_len) == 0);
    require(memchr(braces, '{', braces_len) != NULL);
    require(takes_any || is_listed(target));
}

static int resolve(tdg_server_t *server, const char *text, const char *braces,
                   size_t braces_len) {
    tdg__resolved_t resolved;

    int rv = tdg__resolve(server, text, &resolved);
    require(rv == 0 || rv == TDG_EURI || rv == TDG_EURILEN || rv == TDG_ENOTFOUND ||
            rv == TDG_ENOTSUP);
    if (rv == 0)
        check_resolved(&resolved, text, braces, braces_len, server == any);
    tdg__resolved_done(&resolved);
    return rv;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char text[MAX_BYTES + 1], braces[MAX_BYTES];

    if (size > MAX_BYTES)
        return 0;
    if (listed == NULL) {
        listed = create(0);
        any = create(TDG_ANY_TEMPLATE);
    }
    memcpy(text, data, size);
    text[size] = '\0';

    size_t len = check_braces(text, strlen(text), braces);
    int rv = resolve(listed, text, braces, len);
    require(resolve(any, text, braces, len) == rv || memchr(braces, '{', len) != NULL);
    return 0;
}

/* SPDX-License-Identifier: MIT */
#include "server/mcp/target.h"

#include <string.h>

#include "base/alloc.h"
#include "base/template.h"
#include "base/uri.h"
#include "mcp/cursor.h"

/* ---- Names ------------------------------------------------------------- */

static int set_template(tdg__resolved_t *ret, const char *text, size_t len) {
    ret->owned = tdg__strndup(text, len);
    if (ret->owned == NULL)
        return TDG_ENOMEM;
    ret->target = tdg__target_template(ret->owned);
    return 0;
}

/* A template that the server lists, however its braces are spelled. */
static int find_listed(tdg_server_t *server, const char *text, tdg__resolved_t *ret) {
    tdg__entry_t *entry = tdg__catalogue_find(server->catalogue, TDG__TEMPLATE, text);
    int rv = TDG_ENOTFOUND;

    if (entry != NULL)
        rv = entry->not_subscribable ? TDG_ENOTSUP
                                     : set_template(ret, entry->key, entry->len);
    tdg__entry_unref(entry);
    return rv;
}

/* Any other template, where such are allowed. */
static int read_template(tdg_server_t *server, const char *text, tdg__resolved_t *ret) {
    char braces[TDG__ENTRY_MAX_KEY];
    size_t len = strlen(text);

    if ((server->opts.flags & TDG_ANY_TEMPLATE) == 0)
        return TDG_ENOTFOUND;
    if (len > sizeof(braces))
        return TDG_EURILEN;
    len = tdg__template_unescape(text, len, braces);
    return memchr(braces, '{', len) != NULL ? set_template(ret, braces, len)
                                            : TDG_ENOTFOUND;
}

static bool is_resource(tdg_server_t *server, const char *text) {
    tdg__entry_t *entry = tdg__catalogue_find(server->catalogue, TDG__RESOURCE, text);

    tdg__entry_unref(entry);
    return entry != NULL;
}

/* A template comes before the URIs that look like it: its own text, with braces escaped,
 * is one that it matches. */
int tdg__resolve(tdg_server_t *server, const char *text, tdg__resolved_t *ret) {
    *ret = (tdg__resolved_t){.target = tdg__target_uri(text)};
    if (ret->target.len > TDG__ENTRY_MAX_KEY)
        return TDG_EURILEN;
    if (!is_resource(server, text)) {
        int rv = find_listed(server, text, ret);
        if (rv != TDG_ENOTFOUND)
            return rv;
    }

    int rv = tdg__uri_check(ret->target.name, ret->target.len, NULL);
    if (rv == TDG_ENOMEM)
        return rv;

    int watch = rv == 0 ? tdg__catalogue_may_watch(server->catalogue, text) : rv;
    if (watch == 0 || watch == TDG_ENOTSUP)
        return watch;

    rv = read_template(server, text, ret);
    return rv == TDG_ENOTFOUND ? watch : rv;
}

tdg__fault_t tdg__subscribe_fault(int code) {
    static const struct {
        int code;
        tdg__fault_t fault;
    } faults[] = {
        {TDG_EURI, TDG__FAULT_INVALID_URI},
        {TDG_EURILEN, TDG__FAULT_INVALID_URI},
        {TDG_ETEMPLATE, TDG__FAULT_INVALID_URI},
        {TDG_EAMBIGUOUS, TDG__FAULT_INVALID_URI},
        {TDG_ENOTFOUND, TDG__FAULT_NOT_FOUND},
        {TDG_ENOTSUP, TDG__FAULT_NOT_SUBSCRIBABLE},
    };

    for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
        if (faults[i].code == code)
            return faults[i].fault;
    }
    return TDG__FAULT_SUBSCRIBE_FAILED;
}

int tdg__resolve_subscribed(const tdg__feed_t *feed, const char *text,
                            tdg__resolved_t *ret) {
    char braces[TDG__ENTRY_MAX_KEY];
    tdg__engine_t *engine = feed->worker->engine;
    size_t len = strlen(text);

    *ret = (tdg__resolved_t){.target = tdg__target_uri(text)};
    if (len == 0)
        return TDG_EURI;
    if (tdg__engine_state(engine, feed->stream, &ret->target) != TDG__NOT_SUBSCRIBED)
        return 0;
    ret->target.kind = TDG__TARGET_TEMPLATE;
    if (tdg__engine_state(engine, feed->stream, &ret->target) != TDG__NOT_SUBSCRIBED)
        return 0;
    if (len > sizeof(braces))
        return TDG_ENOTFOUND;
    len = tdg__template_unescape(text, len, braces);
    ret->target = (tdg__target_t){TDG__TARGET_TEMPLATE, braces, len};
    if (tdg__engine_state(engine, feed->stream, &ret->target) == TDG__NOT_SUBSCRIBED)
        return TDG_ENOTFOUND;
    return set_template(ret, braces, len);
}

void tdg__resolved_done(tdg__resolved_t *resolved) {
    tdg__free(resolved->owned);
    resolved->owned = NULL;
}

/* ---- Wishes ------------------------------------------------------------- */

static void set_timing(tdg__timing_t *timing, tdg__timing_mode_t mode,
                       int64_t window_ms) {
    if (window_ms < 0)
        return;
    timing->mode = mode;
    timing->window_ms = (uint32_t)window_ms;
}

void tdg__wishes_to_opts(const tdg__wishes_t *wishes, tdg__parse_error_t *error,
                         tdg__sub_opts_t *ret) {
    *ret = (tdg__sub_opts_t){
        .filter = wishes->filter,
        .priority = wishes->priority,
        .since_ms = wishes->since_ms,
        .error = error,
    };
    set_timing(&ret->settings.timing, TDG__TIMING_BATCH, wishes->batch_ms);
    set_timing(&ret->settings.timing, TDG__TIMING_DEBOUNCE, wishes->debounce_ms);
    set_timing(&ret->settings.timing, TDG__TIMING_THROTTLE, wishes->throttle_ms);
    if (wishes->rate_limit_ms >= 0)
        ret->settings.rate_limit_ms =
            wishes->rate_limit_ms == 0 ? TDG__RATE_OFF : (int32_t)wishes->rate_limit_ms;
    if (wishes->cursor != NULL) {
        ret->has_cursor = true;
        tdg__cursor_read(wishes->cursor, &ret->cursor.epoch, &ret->cursor.number);
    }
}

bool tdg__wishes_blamed(int code, const tdg__parse_error_t *why,
                        tdg__rpc_error_t *error) {
    bool filter =
        code == TDG_EFILTER || code == TDG_EFILTERSIZE || code == TDG_EFILTERDEPTH;

    if (!filter && code != TDG_EINVAL)
        return false;
    if (error != NULL) {
        const char *detail = why->text[0] != '\0' ? why->text : tdg_strerror(code);

        tdg__rpc_error_set(error, TDG__RPC_INVALID_PARAMS,
                           json_pack("{s:s}", "detail", detail), "Invalid %s",
                           filter ? "filter" : "options");
    }
    return true;
}

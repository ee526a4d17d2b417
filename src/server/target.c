/* SPDX-License-Identifier: MIT */
#include "server/target.h"

#include <string.h>

#include "base/alloc.h"
#include "base/uri.h"
#include "mcp/cursor.h"

static bool is_escape(const char *at, char digit) {
    return at[0] == '%' && at[1] == '7' && (at[2] | 0x20) == digit;
}

static bool has_expression(const char *text) {
    for (; *text != '\0'; text++) {
        if (*text == '{' || is_escape(text, 'b'))
            return true;
    }
    return false;
}

/* The template with %7B and %7D written as braces, new. */
static char *with_braces(const char *text) {
    char *ret = tdg__malloc(strlen(text) + 1);
    char *out = ret;

    if (ret == NULL)
        return NULL;
    while (*text != '\0') {
        bool opens = is_escape(text, 'b'), closes = is_escape(text, 'd');

        *out++ = opens ? '{' : closes ? '}' : *text;
        text += opens || closes ? 3 : 1;
    }
    *out = '\0';
    return ret;
}

int tdg__resolve_any(const char *text, tdg__resolved_t *ret) {
    *ret = (tdg__resolved_t){.target = tdg__target_uri(text)};
    if (!has_expression(text))
        return 0;

    ret->owned = with_braces(text);
    if (ret->owned == NULL)
        return TDG_ENOMEM;
    ret->target = tdg__target_template(ret->owned);
    return 0;
}

void tdg__resolved_done(tdg__resolved_t *resolved) {
    tdg__free(resolved->owned);
    resolved->owned = NULL;
}

/* Whether the server has, or could have, what is asked for, and lets it be watched. */
static int check_served(tdg_server_t *server, const tdg__target_t *target) {
    tdg__catalogue_t *catalogue = tdg__server_catalogue(server);
    bool is_template = target->kind == TDG__TARGET_TEMPLATE;

    if (is_template && (tdg__server_opts(server)->flags & TDG_ANY_TEMPLATE) != 0)
        return 0;
    return is_template ? tdg__catalogue_may_watch_template(catalogue, target->name)
                       : tdg__catalogue_may_watch(catalogue, target->name);
}

int tdg__resolve(tdg_server_t *server, const char *text, tdg__resolved_t *ret) {
    int rv = tdg__resolve_any(text, ret);
    if (rv < 0)
        return rv;

    if (ret->target.kind == TDG__TARGET_URI)
        rv = tdg__uri_check(ret->target.name, ret->target.len, NULL);
    if (rv == 0)
        rv = check_served(server, &ret->target);
    if (rv < 0)
        tdg__resolved_done(ret);
    return rv;
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

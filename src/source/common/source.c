/* SPDX-License-Identifier: MIT */
#include "source/common/source.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/uri.h"
#include "source/common/item.h"

/* ---- Options of every kind ---------------------------------------------- */

static const char *const timings[] = {"inherit",  "immediate", "batch",
                                      "debounce", "throttle",  NULL};

enum { DAY_MS = 24 * 60 * 60 * 1000, MAX_SIZE = 64 * 1024 * 1024 };

#define AT(field) offsetof(tdg__source_t, entry.field)

const tdg__option_t tdg__source_options[] = {
    TDG__OPTION(STRING, uri, "uri", .example = "shop://orders",
                .help =
                    "The URI of the resource, or a URI template (RFC 6570) for many."),
    TDG__OPTION(STRING, name, "name", .example = "orders",
                .help = "Its name in lists. Default: the URI."),
    TDG__OPTION(STRING, title, "title", .example = "Orders of today",
                .help = "The display name for people."),
    TDG__OPTION(STRING, description, "description",
                .example = "Incoming orders, newest first.",
                .help = "A description of the content, for language models."),
    TDG__OPTION(
        STRING, mime_type, "mime-type", .example = "application/json",
        .help = "The MIME type of the content, if the source does not determine one."),
    TDG__OPTION(
        BOOL, subscribable, "subscribable", .fallback = "true", .example = "false",
        .help =
            "Whether clients may subscribe to it; with false they can only read it. A "
            "reload that sets false ends the subscriptions to it."),
    TDG__OPTION(SIZE, max_size, "max-size", .fallback = "4MiB", .min = 1, .max = MAX_SIZE,
                .example = "1MiB",
                .help =
                    "Maximum size of the content; reads of larger content fail with an "
                    "error."),
    TDG__OPTION(DURATION, timeout_ms, "timeout", .fallback = "30s", .min = 1,
                .max = DAY_MS, .example = "10s",
                .help = "Time limit for fetching the content."),
    TDG__OPTION(DURATION, retry_ms, "retry", .fallback = "1s", .min = 1, .max = DAY_MS,
                .example = "500ms",
                .help = "The first wait when the source is unreachable; each further "
                        "wait is twice as long, with a random part."),
    TDG__OPTION(DURATION, retry_max_ms, "retry-max", .fallback = "1m", .min = 1,
                .max = DAY_MS, .example = "5m", .help = "The longest such wait."),
    TDG__OPTION(CHOICE, mode, "timing", .fallback = "inherit", .choices = timings,
                .example = "debounce",
                .help = "When subscribers are notified: the server's setting, at once, "
                        "collected for a window, after a window without changes, or at "
                        "most once per window."),
    TDG__OPTION(
        DURATION, timing.window_ms, "window", .max = DAY_MS, .example = "500ms",
        .help =
            "The window of `timing`. Default: 100ms for batch, 500ms for debounce, 1s "
            "for throttle."),
    TDG__OPTION(DURATION, timing.longest_ms, "longest-wait", .min = 1, .max = DAY_MS,
                .example = "5s",
                .help = "With `timing: debounce`, the longest wait for a window without "
                        "changes. Default: ten windows."),
    TDG__OPTION(
        DURATION, timing.rate_limit_ms, "rate-limit", .max = DAY_MS, .example = "1s",
        .help = "At most one notification per this time and subscription; 0 is no limit. "
                "Default: the server's setting."),
    TDG__OPTION(DURATION, timing.min_window_ms, "min-window", .max = DAY_MS,
                .example = "50ms",
                .help = "The minimum window, whatever a client sets; 0 is none. Default: "
                        "the server's setting."),
    TDG__OPTION(DURATION, timing.min_rate_limit_ms, "min-rate-limit", .max = DAY_MS,
                .example = "200ms",
                .help = "The minimum rate limit, whatever a client sets; 0 is none. "
                        "Default: the server's setting."),
    {.name = NULL},
};

/* ---- Making one --------------------------------------------------------- */

static const tdg__source_kind_t *kind_of(const tdg__node_t *entry) {
    for (size_t i = 0; tdg__source_kinds[i] != NULL; i++)
        if (tdg__node_get(entry, tdg__source_kinds[i]->name) != NULL)
            return tdg__source_kinds[i];
    return NULL;
}

bool tdg__source_main_is_unset(const tdg__source_t *source, const tdg__node_t *entry,
                               const tdg__problems_t *problems) {
    const tdg__option_t *main_option = source->kind->options;

    return main_option->name != NULL && (main_option->flags & TDG__OPTION_RAW) == 0 &&
           tdg__node_is_unset(tdg__node_get(entry, main_option->name), problems);
}

bool tdg__source_uri_is_unset(const tdg__source_t *source, const tdg__node_t *entry,
                              const tdg__problems_t *problems) {
    const tdg__node_t *uri = tdg__node_get(entry, "uri");

    return uri != NULL ? tdg__node_is_unset(uri, problems)
                       : tdg__source_main_is_unset(source, entry, problems);
}

static int no_uri(const tdg__source_t *source, const tdg__node_t *entry,
                  tdg__problems_t *problems) {
    if ((source->kind->flags & TDG__SOURCE_NO_URI) != 0)
        return 0;
    if (tdg__node_get(entry, "uri") == NULL) /* else that is a problem already */
        tdg__node_problem(problems, entry,
                          "an entry of kind %s needs a uri, such as uri: shop://orders",
                          source->kind->name);
    return TDG_EINVAL;
}

static int check_uri(tdg__source_t *source, const tdg__node_t *entry,
                     tdg__problems_t *problems) {
    const char *uri = source->entry.uri;
    const tdg__node_t *place = tdg__node_get(entry, "uri");
    char quoted[TDG__QUOTED_MAX];
    tdg__parse_error_t error = {0};
    int rv;

    if (uri == NULL)
        return no_uri(source, entry, problems);
    if (place == NULL) /* it is the main value of some kinds */
        place = tdg__node_get(entry, source->kind->name);

    bool is_template = strchr(uri, '{') != NULL;

    rv = is_template ? tdg__template_parse(uri, strlen(uri), &source->template_, &error)
                     : tdg__uri_check(uri, strlen(uri), &error);
    if (rv == TDG_ENOMEM || rv == 0)
        return rv;

    /* As it is written: what the environment put in may be a secret. */
    tdg__node_problem(problems, place, "%s is not a valid %s: %s",
                      place != NULL && place->text != NULL
                          ? tdg__quoted(quoted, place->text)
                          : "the value",
                      is_template ? "URI template" : "URI",
                      error.text[0] != '\0' ? error.text : tdg_strerror(rv));
    return TDG_EINVAL;
}

tdg_settings_t tdg__source_settings(const tdg__source_t *source) {
    return tdg__timing_settings((tdg_timing_mode_t)source->entry.mode,
                                &source->entry.timing);
}

/* What the tables cannot check. All problems are added, not only the first. */
static int check_together(tdg__source_t *source, const tdg__node_t *entry,
                          tdg__problems_t *problems) {
    const tdg__source_kind_t *kind = source->kind;
    tdg_settings_t settings = tdg__source_settings(source);
    int codes[] = {
        kind->check != NULL ? kind->check(source, entry, problems) : 0,
        tdg__timing_check(&settings, entry, problems),
    };

    return codes[0] < 0 ? codes[0] : codes[1];
}

/* An entry may hold variables that are not set (no_env). What is wrong only because of
 * one is no problem; where it makes the URI or the main value, which are compared with
 * each other, nothing can be said. The source is good to look at then, not to open. */
static int check(tdg__source_t *source, const tdg__node_t *entry,
                 tdg__problems_t *problems) {
    bool is_unset = tdg__source_uri_is_unset(source, entry, problems) ||
                    tdg__source_main_is_unset(source, entry, problems);
    size_t before = tdg__problems_total(problems);
    tdg__problems_t ignored;
    int rv, uri_rv;

    tdg__problems_init(&ignored, problems->file);
    ignored.no_env = problems->no_env;
    rv = check_together(source, entry, is_unset ? &ignored : problems);
    uri_rv = check_uri(source, entry, is_unset ? &ignored : problems);
    tdg__problems_done(&ignored);
    rv = rv == 0 || uri_rv == TDG_ENOMEM ? uri_rv : rv;
    return rv == TDG_EINVAL && problems->no_env && tdg__problems_total(problems) == before
               ? 0
               : rv;
}

/* "files /srv/docs"; a main value that may hold a secret is left out. */
static char *label_of(const tdg__source_t *source) {
    const tdg__option_t *main_option = source->kind->options;
    const char *what = source->entry.uri;
    char *label;

    if (main_option->name != NULL && (main_option->flags & TDG__OPTION_SECRET) == 0 &&
        (main_option->type == TDG__OPTION_STRING ||
         main_option->type == TDG__OPTION_PATH))
        what = *(char *const *)((const char *)source + main_option->offset);
    if (what == NULL)
        what = "";

    size_t room = strlen(source->kind->name) + strlen(what) + 2;

    label = tdg__malloc(room);
    if (label != NULL)
        snprintf(label, room, "%s %s", source->kind->name, what);
    return label;
}

int tdg__source_create(const tdg__node_t *entry, tdg__problems_t *problems,
                       tdg__source_t **ret) {
    const tdg__source_kind_t *kind = kind_of(entry);

    if (kind == NULL) {
        tdg__node_problem(problems, entry, "this entry has no kind of resource");
        return TDG_EINVAL;
    }
    return tdg__source_create_kind(kind, entry, problems, ret);
}

int tdg__source_create_kind(const tdg__source_kind_t *kind, const tdg__node_t *entry,
                            tdg__problems_t *problems, tdg__source_t **ret) {
    int failed;
    const tdg__option_t *const tables[] = {kind->options, tdg__source_options, NULL};
    tdg__source_t *source = tdg__calloc(1, kind->size);
    if (source == NULL)
        return TDG_ENOMEM;
    source->kind = kind;

    failed = tdg__options_read(tables, entry, source, problems);
    if (failed == 0)
        failed = check(source, entry, problems);
    else
        check_uri(source, entry, problems); /* so that all problems are found */
    if (failed == 0) {
        source->label = label_of(source);
        failed = source->label == NULL ? TDG_ENOMEM : tdg__items_create(source);
    }
    if (failed != 0) {
        tdg__source_destroy(source);
        return failed;
    }
    *ret = source;
    return 0;
}

void tdg__source_destroy(tdg__source_t *source) {
    if (source == NULL)
        return;

    const tdg__option_t *const tables[] = {source->kind->options, tdg__source_options,
                                           NULL};

    tdg__items_destroy(source);
    if (source->kind->free != NULL)
        source->kind->free(source);
    tdg__template_destroy(source->template_);
    tdg__free((char *)(uintptr_t)source->label);
    tdg__free(source->away_why);
    tdg__free(source->config_path);
    tdg__options_done(tables, source);
    tdg__free(source);
}

/* ---- Life --------------------------------------------------------------- */

int tdg__source_open(tdg__source_t *source, const tdg__source_host_t *host) {
    source->host = *host;
    tdg__items_open(source);

    int rv = source->kind->open != NULL ? source->kind->open(source) : 0;
    if (rv == 0 && (source->kind->flags & TDG__SOURCE_LISTS) == 0)
        tdg__source_ready(source);
    return rv;
}

void tdg__source_ready(tdg__source_t *source) {
    if (source->ready || source->closing)
        return;
    source->ready = true;
    source->host.ops->ready(source->host.user, source);
}

void tdg__source_close(tdg__source_t *source) {
    if (source->closing)
        return;
    source->closing = true;
    tdg__source_hold(source); /* until all are closed */
    tdg__items_close(source);
    if (source->kind->close != NULL)
        source->kind->close(source);
    tdg__source_let_go(source);
}

static void closed(tdg__source_t *source) {
    source->host.ops->closed(source->host.user, source);
}

void tdg__source_hold(tdg__source_t *source) {
    assert(source->host.loop != NULL);
    source->holds++;
}

void tdg__source_let_go(tdg__source_t *source) {
    assert(source->holds > 0);
    if (--source->holds == 0 && source->closing)
        tdg__items_end(source, closed);
}

static void let_go(uv_handle_t *handle) {
    tdg__source_let_go(handle->data);
}

void tdg__source_open_timer(tdg__source_t *source, uv_timer_t *timer) {
    uv_timer_init(source->host.loop, timer);
    timer->data = source;
    tdg__source_hold(source);
}

int tdg__source_open_records(tdg__source_t *source, tdg__records_t *records, size_t size,
                             tdg__record_due_fn due) {
    tdg__records_open(records, source->host.loop);
    records->timer.data = source;
    tdg__source_hold(source);
    return tdg__records_init(records, size, due, source);
}

void tdg__source_close_handle(uv_handle_t *handle) {
    uv_close(handle, let_go);
}

bool tdg__source_owns(tdg__source_t *source, const char *uri) {
    const char *own = source->entry.uri;

    if (own == NULL || source->closing)
        return false;
    if (source->template_ != NULL
            ? !tdg__template_match(source->template_, uri, strlen(uri))
            : strcmp(own, uri) != 0)
        return false;
    return source->kind->owns == NULL || source->kind->owns(source, uri);
}

/* ---- For the kinds ------------------------------------------------------ */

enum { LOG_MESSAGES = 20, LOG_MS = 10000 };

/* Whether one more message may be logged now. Else it is counted: an unstable backend
 * with ten thousand URIs would fill the log. */
static bool may_log(tdg__source_t *source) {
    uint64_t now = uv_now(source->host.loop);
    unsigned left_out = source->not_logged;
    char message[64];

    if (now - source->logged_since_ms >= LOG_MS) {
        source->logged_since_ms = now;
        source->logged = source->not_logged = 0;
        if (left_out > 0) {
            snprintf(message, sizeof(message), "%u messages were left out", left_out);
            source->host.ops->log(source->host.user, source, TDG_LOG_NOTICE, message);
        }
    }
    if (source->logged < LOG_MESSAGES) {
        source->logged++;
        return true;
    }
    source->not_logged++;
    return false;
}

void tdg__source_log(tdg__source_t *source, tdg_log_level_t level, const char *format,
                     ...) {
    char message[1024];
    va_list args;

    if (source->host.ops == NULL || source->host.ops->log == NULL || !may_log(source))
        return;
    va_start(args, format);
    vsnprintf(message, sizeof(message), format, args);
    va_end(args);
    source->host.ops->log(source->host.user, source, level, message);
}

int tdg__source_list(tdg__source_t *source, const tdg__listed_t *listed) {
    if (source->closing)
        return TDG_EENDED;
    return source->host.ops->list(source->host.user, source, listed);
}

/* What was seen last changes only with the list: else a look that was asked for would
 * find it gone already, and publish nothing. */
int tdg__source_unlist(tdg__source_t *source, const char *uri) {
    if (source->closing)
        return TDG_EENDED;

    int rv = source->host.ops->unlist(source->host.user, source, uri,
                                      tdg__item_is_known_gone(source, uri));
    if (rv == 0)
        tdg__item_gone(source, uri);
    return rv;
}

int64_t tdg__source_wait_ms(const tdg__source_t *source, unsigned tries) {
    int64_t wait = source->entry.retry_ms, longest = source->entry.retry_max_ms;

    while (tries-- > 0 && wait < longest)
        wait *= 2;
    if (wait > longest)
        wait = longest;
    return wait - tdg__source_random_ms(wait / 2);
}

int64_t tdg__source_turn_ms(int64_t every_ms) {
    return every_ms - every_ms / 10 + tdg__source_random_ms(every_ms / 5);
}

int64_t tdg__source_random_ms(int64_t limit) {
    uint32_t random;

    if (tdg__random(&random, sizeof(random)) < 0)
        random = UINT32_MAX / 2;
    return (int64_t)((uint64_t)random * (uint64_t)(limit + 1) >> 32);
}

/* Logs "before: why; after". */
static void set_away(tdg__source_t *source, const char *before, const char *why,
                     const char *after) {
    if (source->closing)
        return;
    if (!source->away) {
        source->away = true;
        source->away_since_ms = tdg__wall_ms();
        tdg__source_log(source, TDG_LOG_WARNING, "%s%s; %s", before, why, after);
    }

    char *copy = tdg__strdup(why);
    if (copy != NULL) {
        tdg__free(source->away_why);
        source->away_why = copy;
    }
}

void tdg__source_is_away(tdg__source_t *source, const char *why) {
    set_away(source, "unreachable: ", why,
             source->has_read ? "serving the last known content, marked stale"
                              : "retrying");
}

void tdg__source_is_missing(tdg__source_t *source, const char *why) {
    source->missing = true;
    set_away(source, "", why, "it will be served once it exists");
}

void tdg__source_is_back(tdg__source_t *source) {
    if (source->closing || !source->away)
        return;
    source->away = false;
    tdg__source_log(source, TDG_LOG_NOTICE, "%s after %" PRId64 " ms",
                    source->missing ? "exists" : "reachable again",
                    tdg__wall_ms() - source->away_since_ms);
    source->missing = false;
    tdg__source_touch_all(source);
}

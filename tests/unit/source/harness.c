/* SPDX-License-Identifier: MIT */
#include "unit/source/harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "support.h"
#include "unit/targets.h"

enum { PATIENCE_MS = 60000, TICK_MS = 5 };

static char *copy_of(const char *text) {
    return text != NULL ? strdup(text) : NULL;
}

static struct happening *write_down(struct harness *harness, enum happening_kind kind,
                                    const char *uri) {
    struct happening *list =
        realloc(harness->happenings, (harness->count + 1) * sizeof(*harness->happenings));

    assert_non_null(list);
    harness->happenings = list;
    list[harness->count] = (struct happening){.kind = kind, .uri = copy_of(uri)};
    return &list[harness->count++];
}

/* ---- The host ----------------------------------------------------------- */

static int on_changed(void *user, tdg__source_t *source, const char *uri,
                      json_t *metadata) {
    struct harness *harness = user;

    (void)source;
    if (harness->refuses_news > 0) {
        harness->refuses_news--;
        json_decref(metadata);
        return TDG_EAGAIN;
    }
    write_down(user, CHANGED, uri)->metadata = metadata;
    return 0;
}

static int on_deleted(void *user, tdg__source_t *source, const char *uri,
                      json_t *metadata) {
    struct harness *harness = user;

    (void)source;
    if (harness->refuses_news > 0) {
        harness->refuses_news--;
        json_decref(metadata);
        return TDG_EAGAIN;
    }
    write_down(user, DELETED, uri)->metadata = metadata;
    return 0;
}

static int on_list(void *user, tdg__source_t *source, const tdg__listed_t *listed) {
    struct happening *happening = write_down(user, LISTED, listed->uri);

    (void)source;
    happening->size = listed->size;
    happening->mime_type = copy_of(listed->mime_type);
    return 0;
}

static int on_unlist(void *user, tdg__source_t *source, const char *uri, bool told) {
    struct harness *harness = user;

    (void)source;
    if (!told && harness->refuses_news > 0) {
        harness->refuses_news--;
        return TDG_EAGAIN;
    }
    write_down(user, UNLISTED, uri)->told = told;
    return 0;
}

static void on_ready(void *user, tdg__source_t *source) {
    (void)source;
    write_down(user, READY, "");
}

static void on_watched(void *user, tdg__source_t *source, const tdg_target_t *target,
                       int status) {
    struct happening *happening = write_down(user, WATCHED, target->name);

    (void)source;
    happening->status = status < 0 ? status : 0;
    happening->existence = status > 0 ? status : 0;
}

static void on_closed(void *user, tdg__source_t *source) {
    (void)source;
    ((struct harness *)user)->closed = true;
}

static void on_log(void *user, tdg__source_t *source, tdg_log_level_t level,
                   const char *message) {
    printf("# %s: %s\n", source->label, message);
    write_down(user, LOGGED, message)->status = (int)level;
}

static const tdg__source_host_ops_t ops = {
    on_changed, on_deleted, on_list, on_unlist, on_ready, on_watched, on_closed, on_log,
};

/* ---- Opening and closing ------------------------------------------------ */

static int make(const tdg__source_kind_t *kind, const char *yaml,
                tdg__problems_t *problems, tdg__source_t **ret) {
    tdg__node_t *node;

    int rv = tdg__node_read_text(yaml, strlen(yaml), problems, &node);
    if (rv < 0)
        return rv;
    rv = kind != NULL ? tdg__source_create_kind(kind, node, problems, ret)
                      : tdg__source_create(node, problems, ret);
    tdg__node_destroy(node);
    return rv;
}

static void open_without(struct harness *harness, const tdg__source_kind_t *kind,
                         const char *yaml, const char *never) {
    tdg__problems_t problems;

    *harness = (struct harness){0};
    assert_int_equal(uv_loop_init(&harness->loop), 0);
    tdg__problems_init(&problems, "test.yaml");
    int rv = make(kind, yaml, &problems, &harness->source);
    for (size_t i = 0; i < problems.count; i++)
        printf("# %u:%u: %s\n", problems.list[i].line, problems.list[i].column,
               problems.list[i].text);
    assert_int_equal(rv, 0);
    tdg__problems_done(&problems);
    if (never != NULL) {
        harness->source->config_path = tdg__malloc(strlen(never) + 1);
        assert_non_null(harness->source->config_path);
        strcpy(harness->source->config_path, never);
    }

    tdg__heavy_init(&harness->heavy, &harness->loop);

    tdg__source_host_t host = {&ops, harness, &harness->loop, &harness->heavy, NULL};

    assert_int_equal(tdg__source_open(harness->source, &host), 0);
}

void harness_open_kind(struct harness *harness, const tdg__source_kind_t *kind,
                       const char *yaml) {
    open_without(harness, kind, yaml, NULL);
}

void harness_open_without(struct harness *harness, const char *yaml, const char *never) {
    open_without(harness, NULL, yaml, never);
}

void harness_open(struct harness *harness, const char *yaml) {
    open_without(harness, NULL, yaml, NULL);
}

static bool is_closed(void *arg) {
    return ((struct harness *)arg)->closed;
}

void harness_close(struct harness *harness) {
    tdg__source_close(harness->source);
    harness_until(harness, is_closed, harness);
    tdg__source_destroy(harness->source);
    uv_run(&harness->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&harness->loop), 0);
    for (size_t i = 0; i < harness->count; i++) {
        free(harness->happenings[i].uri);
        free(harness->happenings[i].mime_type);
        json_decref(harness->happenings[i].metadata);
    }
    free(harness->happenings);
}

void harness_refuses(const char *yaml, const char *expected) {
    tdg__source_t *source = NULL;
    tdg__problems_t problems;
    bool found = false;

    tdg__problems_init(&problems, "test.yaml");
    assert_int_equal(make(NULL, yaml, &problems, &source), TDG_EINVAL);
    for (size_t i = 0; i < problems.count; i++) {
        found = found || strstr(problems.list[i].text, expected) != NULL;
        printf("# %u:%u: %s\n", problems.list[i].line, problems.list[i].column,
               problems.list[i].text);
    }
    assert_true(found);
    tdg__problems_done(&problems);
}

/* ---- Waiting ------------------------------------------------------------ */

static void on_patience(uv_timer_t *timer) {
    *(bool *)timer->data = true;
}

static void ignore(uv_handle_t *handle) {
    *(bool *)handle->data = true;
}

struct waiting {
    bool (*is_true)(void *arg);
    void *arg;
};

/* A timer may have done it at the beginning of this very turn of the loop, which must
 * not go to sleep then. */
static void on_prepare(uv_prepare_t *prepare) {
    struct waiting *waiting = prepare->data;

    if (waiting->is_true(waiting->arg))
        uv_stop(prepare->loop);
}

/* Returns false where it did not come. No handle of it is left then either: the test
 * fails, and closing the source runs the loop. */
static bool comes(struct harness *harness, bool (*is_true)(void *arg), void *arg) {
    bool over = false, patience_closed = false, prepare_closed = false;
    struct waiting waiting = {is_true, arg};
    uv_prepare_t prepare;
    uv_timer_t patience;

    uv_prepare_init(&harness->loop, &prepare);
    prepare.data = &waiting;
    uv_prepare_start(&prepare, on_prepare);
    uv_timer_init(&harness->loop, &patience);
    patience.data = &over;
    uv_timer_start(&patience, on_patience, PATIENCE_MS, 0);
    while (!is_true(arg) && !over)
        uv_run(&harness->loop, UV_RUN_ONCE);
    prepare.data = &prepare_closed;
    uv_close((uv_handle_t *)&prepare, ignore);
    patience.data = &patience_closed;
    uv_close((uv_handle_t *)&patience, ignore);
    while (!patience_closed || !prepare_closed)
        uv_run(&harness->loop, UV_RUN_NOWAIT);
    return !over;
}

static void expect_came(bool came) {
    if (!came)
        fail_msg("what was waited for did not come");
}

void harness_until(struct harness *harness, bool (*is_true)(void *arg), void *arg) {
    expect_came(comes(harness, is_true, arg));
}

static void on_tick(uv_timer_t *timer) {
    (void)timer; /* only wakes the loop */
}

void harness_ask_until(struct harness *harness, bool (*is_true)(void *arg), void *arg) {
    bool closed = false;
    uv_timer_t tick;

    uv_timer_init(&harness->loop, &tick);
    uv_timer_start(&tick, on_tick, TICK_MS, TICK_MS);
    bool came = comes(harness, is_true, arg);
    tick.data = &closed;
    uv_close((uv_handle_t *)&tick, ignore);
    while (!closed)
        uv_run(&harness->loop, UV_RUN_NOWAIT);
    expect_came(came);
}

static bool fits(const struct happening *happening, enum happening_kind kind,
                 const char *uri) {
    if (happening->taken || happening->kind != kind)
        return false;
    return uri == NULL || (kind == LOGGED ? strstr(happening->uri, uri) != NULL
                                          : strcmp(happening->uri, uri) == 0);
}

static struct happening *find(const struct harness *harness, enum happening_kind kind,
                              const char *uri) {
    for (size_t i = 0; i < harness->count; i++)
        if (fits(&harness->happenings[i], kind, uri))
            return &harness->happenings[i];
    return NULL;
}

struct expected {
    struct harness *harness;
    enum happening_kind kind;
    const char *uri;
};

static bool has_happened(void *arg) {
    struct expected *expected = arg;

    return find(expected->harness, expected->kind, expected->uri) != NULL;
}

static const char *name_of(enum happening_kind kind) {
    static const char *const names[] = {"CHANGED", "DELETED", "LISTED", "UNLISTED",
                                        "READY",   "WATCHED", "LOGGED"};

    return names[kind];
}

struct happening *harness_wait(struct harness *harness, enum happening_kind kind,
                               const char *uri) {
    struct expected expected = {harness, kind, uri};

    if (!comes(harness, has_happened, &expected)) {
        for (size_t i = 0; i < harness->count; i++)
            print_error("there was: %s %s\n", name_of(harness->happenings[i].kind),
                        harness->happenings[i].uri);
        fail_msg("never happened: %s %s", name_of(kind), uri != NULL ? uri : "anything");
    }

    struct happening *happening = find(harness, kind, uri);

    happening->taken = true;
    return happening;
}

size_t harness_count(const struct harness *harness, enum happening_kind kind,
                     const char *uri) {
    size_t count = 0;

    for (size_t i = 0; i < harness->count; i++)
        count += fits(&harness->happenings[i], kind, uri);
    return count;
}

static void watch(struct harness *harness, const tdg_target_t *target) {
    int rv = tdg__source_watch(harness->source, target, NULL);

    if (rv == TDG_EAGAIN)
        rv = harness_wait(harness, WATCHED, target->name)->status;
    assert_int_equal(rv, 0);
}

void harness_watch(struct harness *harness, const char *uri) {
    watch(harness, FOR_URI(uri));
}

void harness_watch_template(struct harness *harness, const char *template_) {
    watch(harness, FOR_TEMPLATE(template_));
}

/* ---- Reading ------------------------------------------------------------ */

static void on_read(void *arg, const tdg__content_t *content) {
    struct reading *reading = arg;

    assert_false(reading->done);
    reading->status = content->status;
    reading->data = calloc(1, content->len + 1);
    if (content->len > 0)
        memcpy(reading->data, content->data, content->len);
    reading->len = content->len;
    reading->error = copy_of(content->error);
    reading->public = content->status != 0 ? copy_of(tdg__content_public(content)) : NULL;
    reading->mime_type = copy_of(content->mime_type);
    reading->metadata = json_incref(content->metadata);
    reading->done = true;
}

static bool is_read(void *arg) {
    return ((struct reading *)arg)->done;
}

static bool has_left(const void *arg) {
    return ((const struct reading *)arg)->left;
}

void harness_start_read_as(struct harness *harness, uint64_t client, const char *uri,
                           struct reading *ret) {
    *ret = (struct reading){0};
    tdg__source_read(harness->source, uri, client, on_read, has_left, ret);
}

void harness_start_read(struct harness *harness, const char *uri, struct reading *ret) {
    harness_start_read_as(harness, 1, uri, ret);
}

struct reading harness_read(struct harness *harness, const char *uri) {
    struct reading reading;

    harness_start_read(harness, uri, &reading);
    harness_until(harness, is_read, &reading);
    return reading;
}

void reading_done(struct reading *reading) {
    free(reading->data);
    free(reading->error);
    free(reading->public);
    free(reading->mime_type);
    json_decref(reading->metadata);
}

void harness_expect(struct harness *harness, const char *uri, const char *text) {
    struct reading reading = harness_read(harness, uri);

    if (reading.status != 0)
        printf("# %s: %s\n", uri, reading.error);
    assert_int_equal(reading.status, 0);
    assert_string_equal(reading.data, text);
    reading_done(&reading);
}

void harness_wait_for_text(struct harness *harness, const char *uri, const char *text) {
    for (;;) {
        harness_wait(harness, CHANGED, uri);

        struct reading reading = harness_read(harness, uri);
        bool same = reading.status == 0 && strcmp(reading.data, text) == 0;

        reading_done(&reading);
        if (same)
            return;
    }
}

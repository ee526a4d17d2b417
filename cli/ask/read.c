/* SPDX-License-Identifier: MIT
 *
 * `tidings read`: the contents of resources. Texts are printed unchanged, except that a
 * terminal gets no control characters and no binary data. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "ask/ask.h"
#include "ask/body.h"
#include "base/alloc.h"
#include "safe_text.h"

enum { MAX_URIS = 1000 };

struct options {
    cli_target_t target; /* first, for cli_ask() */
    const char *output;
    bool json;
};

static const cli_option_t options[] = {
    CLI_STRING_OPTION(struct options, output, "output", "FILE",
                      "write the contents into this file, unchanged; - is\n"
                      "standard output, also for binary data on a terminal"),
    CLI_FLAG_OPTION(struct options, json, "json",
                    "print the results as the server sent them, as JSON, one\n"
                    "per line"),
    CLI_TARGET_OPTIONS(struct options, target),
    CLI_TIMEOUT_OPTION(struct options, target.timeout_ms),
    CLI_END,
};

/* ---- One content -------------------------------------------------------- */

static int write_file(const char *name, const char *data, size_t len) {
    FILE *file = fopen(name, "wb");
    bool lost = file == NULL;

    if (file != NULL) {
        lost = fwrite(data, 1, len, file) != len;
        lost = fclose(file) != 0 || lost;
    }
    if (!lost)
        return CLI_OK;
    return cli_error("read: cannot write %s: %s", name, strerror(errno));
}

static bool ends_in_newline(const json_t *content) {
    const json_t *text = json_object_get(content, "text");
    size_t len = json_string_length(text);

    return len > 0 && json_string_value(text)[len - 1] == '\n';
}

static int write_content(const struct options *opts, const json_t *content,
                         const char *uri, bool several) {
    bool is_text = json_is_string(json_object_get(content, "text"));
    bool raw = opts->output != NULL && strcmp(opts->output, "-") == 0;
    const char *data, *type = cli_string(content, "mimeType");
    int code = CLI_OK;
    size_t len;
    char *own;

    if (body_part(content, &data, &len, &own) < 0)
        return cli_error("read: %s: the content is neither text nor valid base64", uri);
    if (opts->output != NULL && !raw) {
        code = write_file(opts->output, data, len);
    } else if (raw) {
        fwrite(data, 1, len, stdout);
    } else if (is_text || !isatty(STDOUT_FILENO)) {
        cli_put_content(stdout, data, len);
        if (isatty(STDOUT_FILENO) && !several && !ends_in_newline(content))
            putchar('\n'); /* else the shell writes into the same line */
    } else {
        code = cli_error(
            "read: %s: not printing %zu bytes of %s on a terminal; write them to a "
            "file with --output FILE",
            uri, len, type[0] != '\0' ? type : "binary data");
    }
    tdg__free(own);
    return code;
}

/* ---- All of them -------------------------------------------------------- */

/* Where there are several, each has a line above it that says which it is. */
static void print_heading(const json_t *content, size_t number) {
    const char *type = cli_string(content, "mimeType");

    fputs(number > 0 ? "\n==> " : "==> ", stdout);
    cli_put_line(stdout, cli_string(content, "uri"));
    if (type[0] != '\0') {
        fputs(" (", stdout);
        cli_put_line(stdout, type);
        fputs(")", stdout);
    }
    fputs(" <==\n", stdout);
}

/* `shown` counts the contents that were printed so far; `several`: more will come, or
 * have come. */
static int print_contents(const struct options *opts, const char *uri,
                          const json_t *contents, bool several, size_t *shown) {
    const json_t *content;
    int code = CLI_OK;
    size_t i;

    several = several || json_array_size(contents) > 1;
    if (opts->output != NULL && json_array_size(contents) > 1)
        return cli_error(
            "read: %s has %zu contents, and --output takes one; --json shows all", uri,
            json_array_size(contents));
    json_array_foreach(contents, i, content) {
        int one;

        if (several)
            print_heading(content, (*shown)++);
        one = write_content(opts, content, uri, several);
        if (one != CLI_OK)
            code = one;
        else if (several && !ends_in_newline(content))
            putchar('\n');
    }
    return code;
}

static int read_one(struct options *opts, tdg_client_t *client, const char *uri,
                    bool several, size_t *shown) {
    tdg_failure_t failure = {0};
    json_t *result = NULL;
    int rv = tdg_client_read(client, uri, &result, &failure), code = CLI_OK;

    if (rv < 0)
        return cli_target_failed(&opts->target, uri, rv, &failure);
    if (opts->json)
        cli_print_json(result);
    else
        code = print_contents(opts, uri, json_object_get(result, "contents"), several,
                              shown);
    json_decref(result);
    return code;
}

/* The rest is read although one of them could not be, unless no other could be either:
 * the time-out is for all of them. The first failure counts. */
static int ask(void *options_, tdg_client_t *client, char **argv, int count) {
    struct options *opts = options_;
    size_t shown = 0;
    int code = CLI_OK;

    for (int i = 0; i < count; i++) {
        int one = read_one(opts, client, argv[i], count > 1, &shown);

        if (code == CLI_OK)
            code = one;
        if (one == CLI_UNREACHABLE || one == CLI_DENIED || one == CLI_TIMEOUT ||
            ferror(stdout) != 0)
            break;
    }
    return code;
}

static int check(const void *options_, int count) {
    const struct options *opts = options_;

    if (opts->output != NULL && count > 1)
        return cli_usage_error("read: --output takes one resource, not %d", count);
    if (opts->output != NULL && opts->json)
        return cli_usage_error("read: --output and --json cannot be combined");
    return CLI_OK;
}

static int run(const cli_command_t *self, int argc, char **argv) {
    static const cli_asking_t asking = {
        .ask = ask,
        .needs = "the URI of a resource; `tidings ls` lists them",
        .check = check,
    };
    struct options opts = {0};

    return cli_ask(self, &asking, argc, argv, &opts);
}

const cli_command_t cli_read = {
    .name = "read",
    .summary = "print resources of a server",
    .operands = "[TARGET] URI...",
    .max_operands = 1 + MAX_URIS,
    .description = "Prints the contents of resources unchanged. Binary contents are not "
                   "printed on a\n"
                   "terminal. With several resources, a line ==> URI <== precedes each."
                   "\n\n" CLI_TARGET_HELP ".\n\n" CLI_TARGET_EXITS,
    .options = options,
    .run = run,
};

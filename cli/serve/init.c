/* SPDX-License-Identifier: MIT
 *
 * `tidings init`: writes a config file to start from. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <tidings/tidings.h>

#include "command.h"
#include "serve/config.h"
#include "source/common/source.h"

enum { MAX_STARTER = 1 << 20 };

typedef struct init_options {
    bool force;
} init_options_t;

static const cli_option_t options[] = {
    CLI_FLAG_OPTION(init_options_t, force, "force", "overwrite an existing file"),
    CLI_END,
};

/* A file that we made and could not fill is taken away again. */
static int write_file(const char *path, bool force, const tdg__text_t *text) {
    FILE *out = fopen(path, force ? "we" : "wxe");
    int why;

    if (out == NULL && errno == EEXIST)
        return cli_error("init: %s exists already; --force overwrites it", path);
    if (out == NULL)
        return cli_error("init: cannot write %s: %s", path, strerror(errno));
    why = fwrite(text->data, 1, text->len, out) == text->len ? 0 : errno;
    if (fclose(out) != 0 && why == 0)
        why = errno;
    if (why != 0) {
        cli_error("init: cannot write %s: %s", path, strerror(why));
        if (!force)
            unlink(path);
        return CLI_FAILED;
    }
    printf("Wrote %s, which serves its own folder. Review it, then run\n"
           "  tidings check %s\n",
           path, path);
    return CLI_OK;
}

static int run_init(const cli_command_t *self, int argc, char **argv) {
    init_options_t opts = {.force = false};
    const char *path = CLI_CONFIG_FILE;
    int operands, exit_code;
    tdg__text_t text;

    if (!cli_parse(self, argc, argv, &opts, &operands, &exit_code))
        return exit_code;
    if (operands > 0)
        path = argv[0];

    tdg__text_init(&text, MAX_STARTER);
    tdg__starter_write(tdg__source_options, tdg__source_sections(), &text);
    if (text.error < 0)
        exit_code = cli_error("init: %s", tdg_strerror(text.error));
    else if (strcmp(path, "-") == 0)
        fputs(text.data, stdout);
    else
        exit_code = write_file(path, opts.force, &text);
    tdg__text_done(&text);
    return exit_code;
}

const cli_command_t cli_init = {
    .name = "init",
    .summary = "write a config file to start from",
    .operands = "[FILE]",
    .max_operands = 1,
    .description =
        "Writes a config file (default " CLI_CONFIG_FILE "; - is standard output) that\n"
        "serves its own folder. In YAML, comments show every other option, with an\n"
        "example. An existing file is not changed unless --force is given.",
    .options = options,
    .run = run_init,
};

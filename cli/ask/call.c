/* SPDX-License-Identifier: MIT
 *
 * `tidings call`: calls a tool. Its definition is asked for first, so that arguments get
 * the types that it wants, and what is missing is said before anything happens. */
#include <stdio.h>

#include "args.h"
#include "ask/ask.h"
#include "ask/content.h"
#include "ask/progress.h"

enum { MAX_ARGUMENTS = 1000 };

struct options {
    cli_target_t target; /* first, for cli_ask() */
    const char *arguments;
    bool json;
};

static const cli_option_t options[] = {
    CLI_STRING_OPTION(struct options, arguments, "arguments", "JSON",
                      "arguments as a JSON object; NAME=VALUE adds to them"),
    CLI_FLAG_OPTION(struct options, json, "json",
                    "print the result as the server sent it, as one line of\n"
                    "JSON"),
    CLI_TARGET_OPTIONS(struct options, target),
    CLI_TARGET_TIMEOUT(struct options, target),
    CLI_END,
};

static int wrong_arguments(int rv, const char *tool, const char *why) {
    if (rv == TDG_ENOMEM) {
        cli_error("call: out of memory");
        return CLI_FAILED;
    }
    cli_error("call: %s: %s", tool, why);
    return CLI_USAGE;
}

/* Makes the arguments, new in *ret. Returns an exit code. */
static int make_arguments(const struct options *opts, const json_t *tool, char **argv,
                          int count, json_t **ret) {
    const json_t *schema = json_object_get(tool, "inputSchema");
    char why[CLI_ARGS_WHY] = "";
    json_t *arguments = NULL;
    int rv = 0;

    if (opts->arguments != NULL)
        rv = cli_args_parse(opts->arguments, &arguments, why);
    else
        arguments = json_object();
    if (rv == 0 && arguments == NULL)
        rv = TDG_ENOMEM;
    if (rv == 0)
        rv = cli_args_add(arguments, schema, argv + 1, (size_t)count - 1, why);
    if (rv == 0)
        rv = cli_args_complete(arguments, schema, why);
    if (rv < 0) {
        json_decref(arguments);
        return wrong_arguments(rv, argv[0], why);
    }
    *ret = arguments;
    return CLI_OK;
}

/* Tools that answer with a structure put it into a text as well; the structure is printed
 * where they do not. */
static void print_result(const json_t *result) {
    const json_t *content = json_object_get(result, "content"), *block;
    const json_t *structure = json_object_get(result, "structuredContent");
    size_t i;

    json_array_foreach(content, i, block) {
        cli_print_block(block);
    }
    if (structure != NULL && json_array_size(content) == 0)
        cli_print_json(structure);
}

static int call(struct options *opts, tdg_client_t *client, const char *tool,
                json_t *arguments) {
    tdg_failure_t failure = {0};
    json_t *result = NULL;
    int rv, code = CLI_OK;

    cli_progress_begin(&opts->target, tool);
    rv = tdg_client_call(client, tool, arguments, &result, &failure);
    cli_progress_end();
    if (rv < 0)
        return cli_target_failed(&opts->target, tool, rv, &failure);
    if (opts->json)
        cli_print_json(result);
    else
        print_result(result);
    if (json_is_true(json_object_get(result, "isError"))) {
        fflush(stdout); /* what the tool says comes first */
        cli_error("call: %s reports an error", tool);
        code = CLI_FAILED;
    }
    json_decref(result);
    return code;
}

static int ask(void *options_, tdg_client_t *client, char **argv, int count) {
    struct options *opts = options_;
    json_t *tools, *arguments;
    const json_t *tool;
    int code = cli_ask_list(&opts->target, client, TDG_LIST_TOOLS, &tools);

    if (code != CLI_OK)
        return code;
    tool = cli_find_named(&opts->target, tools, "tool", argv[0]);
    code = tool == NULL ? CLI_NOT_FOUND
                        : make_arguments(opts, tool, argv, count, &arguments);
    json_decref(tools);
    return code == CLI_OK ? call(opts, client, argv[0], arguments) : code;
}

static int check(const void *options_, char **argv, int count) {
    (void)options_;
    (void)argv;
    if (count > 0)
        return CLI_OK;
    cli_error("call: it needs the name of a tool; `tidings ls --tools` lists them");
    return CLI_USAGE;
}

static int run(const cli_command_t *self, int argc, char **argv) {
    struct options opts = {0};

    return cli_ask(self, argc, argv, &opts, check, ask);
}

const cli_command_t cli_call = {
    .name = "call",
    .summary = "call a tool of a server",
    .operands = "[TARGET] TOOL [NAME=VALUE | NAME:=JSON]...",
    .max_operands = 2 + MAX_ARGUMENTS,
    .description =
        "Calls a tool and prints the texts of its result. A VALUE is converted to the\n"
        "type in the schema of the tool: a number, true or false, JSON for arrays and\n"
        "objects, otherwise a text. NAME:=JSON is JSON whatever the schema has. If the\n"
        "tool reports an error, the exit code is 1."
        "\n\n" CLI_TARGET_HELP ".\n\n" CLI_TARGET_EXITS,
    .options = options,
    .run = run,
};

/* SPDX-License-Identifier: MIT
 *
 * `tidings prompt`: the messages of a prompt. */
#include <stdio.h>

#include "args.h"
#include "ask/ask.h"
#include "ask/content.h"
#include "safe_text.h"

enum { MAX_ARGUMENTS = 1000 };

struct options {
    cli_target_t target; /* first, for cli_ask() */
    bool json;
};

static const cli_option_t options[] = {
    CLI_FLAG_OPTION(struct options, json, "json",
                    "print the result as the server sent it, as one line of\n"
                    "JSON"),
    CLI_TARGET_OPTIONS(struct options, target),
    CLI_TARGET_TIMEOUT(struct options, target),
    CLI_END,
};

/* Makes the arguments, new in *ret; NULL where there are none. Returns an exit code. */
static int make_arguments(const json_t *prompt, char **argv, int count, json_t **ret) {
    json_t *schema = cli_args_prompt_schema(prompt), *arguments = json_object(), *value;
    int rv = schema != NULL && arguments != NULL ? 0 : TDG_ENOMEM;
    char why[CLI_ARGS_WHY] = "";
    const char *name;

    if (rv == 0)
        rv = cli_args_add(arguments, schema, argv + 1, (size_t)count - 1, why);
    if (rv == 0)
        rv = cli_args_complete(arguments, schema, why);
    json_object_foreach(arguments, name, value) {
        if (rv == 0 && !json_is_string(value)) {
            snprintf(why, sizeof(why),
                     "%.100s is not a text; arguments of prompts have to be texts", name);
            rv = TDG_EINVAL;
        }
    }
    json_decref(schema);
    if (rv == 0) {
        *ret = arguments;
        return CLI_OK;
    }
    json_decref(arguments);
    cli_error("prompt: %s: %s", argv[0], rv == TDG_ENOMEM ? tdg_strerror(rv) : why);
    return rv == TDG_ENOMEM ? CLI_FAILED : CLI_USAGE;
}

static void print_messages(const json_t *result) {
    const char *description = cli_string(result, "description");
    const json_t *message;
    size_t i;

    if (description[0] != '\0') {
        cli_put_line(stdout, description);
        fputs("\n\n", stdout);
    }
    json_array_foreach(json_object_get(result, "messages"), i, message) {
        fputs(i > 0 ? "\n==> " : "==> ", stdout);
        cli_put_line(stdout, cli_string(message, "role"));
        fputs(" <==\n", stdout);
        cli_print_block(json_object_get(message, "content"));
    }
}

static int get(struct options *opts, tdg_client_t *client, const char *prompt,
               json_t *arguments) {
    tdg_failure_t failure = {0};
    json_t *result = NULL;
    int rv = tdg_client_prompt(client, prompt, arguments, &result, &failure);

    if (rv < 0)
        return cli_target_failed(&opts->target, prompt, rv, &failure);
    if (opts->json)
        cli_print_json(result);
    else
        print_messages(result);
    json_decref(result);
    return CLI_OK;
}

static int ask(void *options_, tdg_client_t *client, char **argv, int count) {
    struct options *opts = options_;
    json_t *prompts, *arguments;
    const json_t *prompt;
    int code = cli_ask_list(&opts->target, client, TDG_LIST_PROMPTS, &prompts);

    if (code != CLI_OK)
        return code;
    prompt = cli_find_named(&opts->target, prompts, "prompt", argv[0]);
    code =
        prompt == NULL ? CLI_NOT_FOUND : make_arguments(prompt, argv, count, &arguments);
    json_decref(prompts);
    return code == CLI_OK ? get(opts, client, argv[0], arguments) : code;
}

static int check(const void *options_, char **argv, int count) {
    (void)options_;
    (void)argv;
    if (count > 0)
        return CLI_OK;
    cli_error("prompt: it needs the name of a prompt; `tidings ls --prompts` lists them");
    return CLI_USAGE;
}

static int run(const cli_command_t *self, int argc, char **argv) {
    struct options opts = {0};

    return cli_ask(self, argc, argv, &opts, check, ask);
}

const cli_command_t cli_prompt = {
    .name = "prompt",
    .summary = "print a prompt of a server",
    .operands = "[TARGET] NAME [ARGUMENT=VALUE]...",
    .max_operands = 2 + MAX_ARGUMENTS,
    .description =
        "Prints the messages of a prompt, each below a line ==> ROLE <==. All arguments\n"
        "of prompts are texts."
        "\n\n" CLI_TARGET_HELP ".\n\n" CLI_TARGET_EXITS,
    .options = options,
    .run = run,
};

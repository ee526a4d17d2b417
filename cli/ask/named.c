/* SPDX-License-Identifier: MIT
 *
 * `tidings call` and `tidings prompt`. The definition of the tool or prompt is requested
 * first, so that arguments get the declared types, and missing ones are reported before
 * the call. */
#include <stdio.h>
#include <string.h>

#include "args.h"
#include "ask/ask.h"
#include "ask/progress.h"
#include "safe_text.h"

enum { MAX_ARGUMENTS = 1000 };

/* What is called by its name. */
typedef struct named_kind {
    tdg_list_kind_t list;
    const char *noun;
    bool only_texts;                       /* as arguments */
    json_t *(*schema)(const json_t *item); /* of the arguments, new; NULL: no memory */
    int (*request)(tdg_client_t *client, const char *name, json_t *arguments,
                   json_t **ret, tdg_failure_t *failure);
    void (*print)(const json_t *result);
} named_kind_t;

struct options {
    cli_target_t target; /* first, for cli_ask() */
    const named_kind_t *kind;
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
    CLI_TIMEOUT_OPTION(struct options, target.timeout_ms),
    CLI_END,
};

/* ---- Arguments ---------------------------------------------------------- */

static int check_texts(const json_t *arguments, char why[CLI_ARGS_WHY]) {
    const char *name;
    json_t *value;

    json_object_foreach((json_t *)(uintptr_t)arguments, name, value) {
        if (json_is_string(value))
            continue;
        snprintf(why, CLI_ARGS_WHY,
                 "%.100s is not a text; arguments of prompts have to be texts", name);
        return TDG_EINVAL;
    }
    return 0;
}

/* Makes the arguments, new in *ret. Returns an exit code. */
static int make_arguments(const struct options *opts, const json_t *item, char **argv,
                          int count, json_t **ret) {
    json_t *schema = opts->kind->schema(item), *arguments = NULL;
    char why[CLI_ARGS_WHY] = "";
    int rv = schema != NULL ? 0 : TDG_ENOMEM;

    if (rv == 0)
        rv = cli_args_parse(opts->arguments, &arguments, why);
    if (rv == 0)
        rv = cli_args_add(arguments, schema, argv + 1, (size_t)count - 1, why);
    if (rv == 0)
        rv = cli_args_complete(arguments, schema, why);
    if (rv == 0 && opts->kind->only_texts)
        rv = check_texts(arguments, why);
    json_decref(schema);
    if (rv == 0) {
        *ret = arguments;
        return CLI_OK;
    }
    json_decref(arguments);
    if (rv == TDG_ENOMEM)
        cli_error("%s: out of memory", opts->target.command->name);
    else
        cli_error("%s: %s: %s", opts->target.command->name, argv[0], why);
    return rv == TDG_ENOMEM ? CLI_FAILED : CLI_USAGE;
}

/* ---- What both do ------------------------------------------------------- */

static int request(struct options *opts, tdg_client_t *client, const char *name,
                   json_t *arguments) {
    tdg_failure_t failure = {0};
    json_t *result = NULL;
    int rv, code = CLI_OK;

    cli_progress_begin(&opts->target, name);
    rv = opts->kind->request(client, name, arguments, &result, &failure);
    cli_progress_end();
    if (rv < 0)
        return cli_target_failed(&opts->target, name, rv, &failure);
    if (opts->json)
        cli_print_json(result);
    else
        opts->kind->print(result);
    if (json_is_true(json_object_get(result, "isError"))) {
        fflush(stdout); /* the output of the tool comes first */
        code = cli_error("call: %s reports an error", name);
    }
    json_decref(result);
    return code;
}

static int ask(void *options_, tdg_client_t *client, char **argv, int count) {
    struct options *opts = options_;
    json_t *items, *arguments;
    const json_t *item;
    int code = cli_ask_list(&opts->target, client, opts->kind->list, &items);

    if (code != CLI_OK)
        return code;
    item = cli_find_named(&opts->target, items, opts->kind->noun, argv[0]);
    code = item == NULL ? CLI_NOT_FOUND
                        : make_arguments(opts, item, argv, count, &arguments);
    json_decref(items);
    return code == CLI_OK ? request(opts, client, argv[0], arguments) : code;
}

/* ---- What tools answer and prompts hold ---------------------------------- */

static void print_text(const json_t *text) {
    const char *data = json_string_value(text);
    size_t len = json_string_length(text);

    cli_put_content(stdout, data, len);
    if (len == 0 || data[len - 1] != '\n')
        putchar('\n');
}

/* How many bytes a base64 text stands for. */
static size_t decoded_size(const json_t *data) {
    const char *text = json_string_value(data);
    size_t len = json_string_length(data), size = len / 4 * 3;

    while (len > 0 && text[len - 1] == '=' && size > 0) {
        len--;
        size--;
    }
    return size;
}

static void put_word(const char *word) {
    if (word[0] == '\0')
        return;
    putchar(' ');
    cli_put_line(stdout, word);
}

static void print_data(const char *what, const json_t *holder, const char *member) {
    printf("[%s", what);
    put_word(cli_string(holder, "uri"));
    put_word(cli_string(holder, "mimeType"));
    printf(" %zu bytes; --json prints them]\n",
           decoded_size(json_object_get(holder, member)));
}

static void print_link(const json_t *block) {
    fputs("[resource", stdout);
    put_word(cli_string(block, "uri"));
    put_word(cli_string(block, "name"));
    fputs("]\n", stdout);
}

/* Prints one content block, ended by a line break: a text as it is (safe_text.h), of
 * anything else one line that says what it is. */
static void print_block(const json_t *block) {
    const char *type = cli_string(block, "type");
    const json_t *text = json_object_get(block, "text");
    const json_t *resource = json_object_get(block, "resource");

    if (strcmp(type, "text") == 0 && json_is_string(text)) {
        print_text(text);
    } else if (strcmp(type, "image") == 0 || strcmp(type, "audio") == 0) {
        print_data(type, block, "data");
    } else if (strcmp(type, "resource_link") == 0) {
        print_link(block);
    } else if (strcmp(type, "resource") == 0 &&
               json_is_string(json_object_get(resource, "text"))) {
        print_link(resource);
        print_text(json_object_get(resource, "text"));
    } else if (strcmp(type, "resource") == 0) {
        print_data("resource", resource, "blob");
    } else {
        fputs("[", stdout);
        cli_put_line(stdout, type[0] != '\0' ? type : "content without a type");
        fputs("; --json prints it]\n", stdout);
    }
}

/* ---- Tools -------------------------------------------------------------- */

static json_t *tool_schema(const json_t *tool) {
    json_t *schema = json_object_get(tool, "inputSchema");

    return schema != NULL ? json_incref(schema) : json_null();
}

/* Tools that answer with a structure put it into a text as well; the structure is printed
 * where they do not. */
static void print_tool_result(const json_t *result) {
    const json_t *content = json_object_get(result, "content"), *block;
    const json_t *structure = json_object_get(result, "structuredContent");
    size_t i;

    json_array_foreach(content, i, block) {
        print_block(block);
    }
    if (structure != NULL && json_array_size(content) == 0)
        cli_print_json(structure);
}

static int run_call(const cli_command_t *self, int argc, char **argv) {
    static const named_kind_t tool = {.list = TDG_LIST_TOOLS,
                                      .noun = "tool",
                                      .schema = tool_schema,
                                      .request = tdg_client_call,
                                      .print = print_tool_result};
    static const cli_asking_t asking = {
        .ask = ask,
        .needs = "the name of a tool; `tidings ls --tools` lists them",
    };
    struct options opts = {.kind = &tool};

    return cli_ask(self, &asking, argc, argv, &opts);
}

const cli_command_t cli_call = {
    .name = "call",
    .summary = "call a tool of a server",
    .operands = "[TARGET] TOOL [NAME=VALUE | NAME:=JSON]...",
    .max_operands = 2 + MAX_ARGUMENTS,
    .description =
        "Calls a tool and prints the texts of its result. A VALUE is converted to the\n"
        "type in the schema of the tool: a number, true or false, JSON for arrays and\n"
        "objects, otherwise a text. NAME:=JSON is always JSON. If the tool reports an\n"
        "error, the exit code is 1."
        "\n\n" CLI_TARGET_HELP ".\n\n" CLI_TARGET_EXITS,
    .options = options,
    .run = run_call,
};

/* ---- Prompts ------------------------------------------------------------ */

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
        print_block(json_object_get(message, "content"));
    }
}

static int run_prompt(const cli_command_t *self, int argc, char **argv) {
    static const named_kind_t prompt = {.list = TDG_LIST_PROMPTS,
                                        .noun = "prompt",
                                        .only_texts = true,
                                        .schema = cli_args_prompt_schema,
                                        .request = tdg_client_prompt,
                                        .print = print_messages};
    static const cli_asking_t asking = {
        .ask = ask,
        .needs = "the name of a prompt; `tidings ls --prompts` lists them",
    };
    struct options opts = {.kind = &prompt};

    return cli_ask(self, &asking, argc, argv, &opts);
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
    .options = options + 1, /* without --arguments */
    .run = run_prompt,
};

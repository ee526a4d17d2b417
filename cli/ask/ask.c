/* SPDX-License-Identifier: MIT */
#include "ask/ask.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "ask/progress.h"
#include "base/nearest.h"
#include "interrupt.h"

static int check(const cli_asking_t *asking, const void *options, char **argv,
                 int count) {
    const char *name = ((const cli_target_t *)options)->command->name;

    if (asking->needs != NULL && count == 0)
        return cli_usage_error("%s: expected %s", name, asking->needs);
    if (asking->needs == NULL && count > 0)
        return cli_usage_error("%s: unexpected argument '%s'", name, argv[0]);
    return asking->check != NULL ? asking->check(options, count) : CLI_OK;
}

int cli_ask(const cli_command_t *command, const cli_asking_t *asking, int argc,
            char **argv, void *options) {
    cli_target_t *target = options;
    tdg_client_opts_t opts;
    tdg_client_t *client;
    int operands, code;

    cli_target_init(target, command);
    if (!cli_parse(command, argc, argv, options, &operands, &code))
        goto done;

    code = cli_target_take(target, &argv, &operands);
    if (code == CLI_OK)
        code = check(asking, options, argv, operands);
    if (code != CLI_OK)
        goto done;

    cli_target_opts(target, &opts);
    opts.on_progress = isatty(STDERR_FILENO) ? cli_progress_report : NULL;
    code = cli_interrupt_begin(target);
    if (code != CLI_OK)
        goto done;
    code = cli_target_connect(target, &opts, &client);
    if (code == CLI_OK)
        code = asking->ask(options, client, argv, operands);
    cli_target_close(target);
    cli_interrupt_end();
done:
    cli_target_done(target);
    return code;
}

int cli_ask_list(cli_target_t *target, tdg_client_t *client, tdg_list_kind_t list,
                 json_t **ret) {
    tdg_failure_t failure = {0};
    int rv = tdg_client_list(client, list, ret, &failure);

    return rv == 0 ? CLI_OK : cli_target_failed(target, NULL, rv, &failure);
}

static const char *name_at(const void *list, size_t i) {
    const json_t *item = json_array_get(list, i);

    return item != NULL ? cli_string(item, "name") : NULL;
}

const json_t *cli_find_named(const cli_target_t *target, const json_t *list,
                             const char *what, const char *name) {
    const char *nearest;

    for (size_t i = 0; i < json_array_size(list); i++)
        if (strcmp(name_at(list, i), name) == 0)
            return json_array_get(list, i);

    nearest = tdg__nearest(name, name_at, list);
    if (nearest != NULL)
        cli_error("%s: there is no %s '%s'; did you mean '%s'?", target->command->name,
                  what, name, nearest);
    else if (json_array_size(list) == 0)
        cli_error("%s: this server has no %ss", target->command->name, what);
    else
        cli_error("%s: there is no %s '%s'; `tidings ls --%ss` lists them",
                  target->command->name, what, name, what);
    return NULL;
}

const char *cli_string(const json_t *object, const char *name) {
    const char *text = json_string_value(json_object_get(object, name));

    return text != NULL ? text : "";
}

bool cli_lists(const json_t *array, const char *text) {
    const json_t *one;
    size_t i;

    json_array_foreach(array, i, one) {
        if (json_is_string(one) && strcmp(json_string_value(one), text) == 0)
            return true;
    }
    return false;
}

/* JSON_ENSURE_ASCII leaves one control character as it is: DEL, inside a string. */
static int put_ascii(const char *data, size_t len, void *out) {
    for (size_t i = 0; i < len; i++)
        if ((data[i] == 0x7f ? fputs("\\u007F", out) : fputc(data[i], out)) == EOF)
            return -1;
    return 0;
}

void cli_print_json(const json_t *value) {
    size_t flags = JSON_COMPACT | JSON_ENCODE_ANY;
    int rv = isatty(STDOUT_FILENO)
                 ? json_dump_callback(value, put_ascii, stdout, flags | JSON_ENSURE_ASCII)
                 : json_dumpf(value, stdout, flags);

    if (rv < 0 && ferror(stdout) == 0)
        cli_error("out of memory");
    putchar('\n');
}

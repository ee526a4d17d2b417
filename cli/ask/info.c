/* SPDX-License-Identifier: MIT
 *
 * `tidings info`: the protocol, name and capabilities of a server. */
#include <stdio.h>
#include <string.h>

#include "ask/ask.h"
#include "base/alloc.h"
#include "safe_text.h"

enum { LABEL = 14 }; /* columns */

struct options {
    cli_target_t target; /* first, for cli_ask() */
    bool json;
};

static const cli_option_t options[] = {
    CLI_FLAG_OPTION(struct options, json, "json",
                    "print all of it as one JSON object in one line"),
    CLI_TARGET_OPTIONS(struct options, target),
    CLI_TIMEOUT_OPTION(struct options, target.timeout_ms),
    CLI_END,
};

/* ---- For people --------------------------------------------------------- */

static void print_label(const char *label) {
    printf("%-*s", LABEL, label);
}

static void print_line(const char *label, const char *text) {
    print_label(label);
    cli_put_line(stdout, text);
    putchar('\n');
}

static const char *era_name(const tdg_server_facts_t *facts) {
    return facts->era == TDG_ERA_MODERN ? "modern" : "legacy";
}

static void print_server(const tdg_server_facts_t *facts) {
    const char *title = cli_string(facts->info, "title");

    print_label("server");
    cli_put_line(stdout, facts->name[0] != '\0' ? facts->name : "(no name)");
    if (facts->version[0] != '\0') {
        putchar(' ');
        cli_put_line(stdout, facts->version);
    }
    if (title[0] != '\0') {
        fputs(", ", stdout);
        cli_put_line(stdout, title);
    }
    putchar('\n');
}

static void print_versions(const json_t *supported) {
    const json_t *version;
    size_t i;

    if (json_array_size(supported) == 0)
        return;
    print_label("versions");
    json_array_foreach(supported, i, version) {
        const char *text = json_string_value(version);

        fputs(i > 0 ? ", " : "", stdout);
        cli_put_line(stdout, text != NULL ? text : "?");
    }
    putchar('\n');
}

/* One capability in a line: its name, and what it says about itself. */
static void print_capability(const char *name, json_t *value) {
    const char *member, *separator = ": ";
    json_t *one;

    cli_put_line(stdout, name);
    json_object_foreach(value, member, one) {
        if (json_is_false(one) || json_is_null(one))
            continue;
        fputs(separator, stdout);
        cli_put_line(stdout, member);
        separator = ", ";
    }
    putchar('\n');
}

static void print_capabilities(json_t *capabilities) {
    const char *name, *label = "capabilities";
    json_t *value;

    if (json_object_size(capabilities) == 0)
        print_line(label, "none");
    json_object_foreach(capabilities, name, value) {
        print_label(label);
        print_capability(name, value);
        label = "";
    }
}

/* Line by line, each under the first. */
static void print_instructions(const char *text) {
    const char *label = "instructions";

    while (*text != '\0') {
        size_t len = strcspn(text, "\n");
        char *line = tdg__strndup(text, len);

        if (len > 0) {
            print_line(label, line != NULL ? line : "");
            label = "";
        } else {
            putchar('\n');
        }
        tdg__free(line);
        text += len + (text[len] == '\n');
    }
}

static const char *subscriptions_text(const tdg_server_facts_t *facts, int cursors) {
    if (!facts->subscribe)
        return "no";
    return cursors > 0 ? "yes, with cursors: missed updates are sent after a reconnect"
           : cursors == 0
               ? "yes, without cursors: anything may have changed after a reconnect"
               : "yes";
}

/* `cursors` is 1, 0, or -1: not known. */
static void print_facts(const cli_target_t *target, const tdg_server_facts_t *facts,
                        int cursors) {
    print_server(facts);
    print_line("target", target->name);
    print_line("transport", facts->transport);
    print_label("protocol");
    cli_put_line(stdout, facts->protocol);
    printf(" (%s)\n", era_name(facts));
    print_versions(facts->supported);
    print_capabilities(facts->capabilities);
    print_line("subscriptions", subscriptions_text(facts, cursors));
    if (facts->instructions != NULL)
        print_instructions(facts->instructions);
}

/* ---- For programs ------------------------------------------------------- */

static int print_json(const tdg_server_facts_t *facts, int cursors) {
    json_t *all =
        json_pack("{s:s, s:s, s:s, s:O?, s:O?, s:O?, s:s?, s:b, s:o}", "era",
                  era_name(facts), "protocolVersion", facts->protocol, "transport",
                  facts->transport, "serverInfo", facts->info, "capabilities",
                  facts->capabilities, "supportedVersions", facts->supported,
                  "instructions", facts->instructions, "subscribe", (int)facts->subscribe,
                  "cursors", cursors < 0 ? json_null() : json_boolean(cursors));

    if (all == NULL)
        return cli_error("info: out of memory");
    cli_print_json(all);
    json_decref(all);
    return CLI_OK;
}

/* ---- The command -------------------------------------------------------- */

/* Whether the server gives cursors: 1, 0, or -1 where that cannot be known. They come
 * with acknowledgements, so one is asked for; legacy ones have none. */
static int find_cursors(tdg_client_t *client, const tdg_server_facts_t *facts) {
    tdg_server_facts_t later;
    int ours;

    if (facts->ours)
        return 1;
    if (!facts->subscribe || facts->era != TDG_ERA_MODERN ||
        tdg_client_watch_lists(client, 1 << TDG_LIST_RESOURCES, NULL) < 0 ||
        tdg_client_facts(client, &later) < 0)
        return -1;
    ours = later.ours;
    tdg_server_facts_done(&later);
    return ours;
}

static int ask(void *options_, tdg_client_t *client, char **argv, int count) {
    struct options *opts = options_;
    tdg_server_facts_t facts;
    int code = CLI_OK, cursors, rv = tdg_client_facts(client, &facts);

    (void)argv;
    (void)count;
    if (rv < 0)
        return cli_error("info: %s", tdg_strerror(rv));
    cursors = find_cursors(client, &facts);
    if (opts->json)
        code = print_json(&facts, cursors);
    else
        print_facts(&opts->target, &facts, cursors);
    tdg_server_facts_done(&facts);
    return code;
}

static int run(const cli_command_t *self, int argc, char **argv) {
    static const cli_asking_t asking = {.ask = ask};
    struct options opts = {0};

    return cli_ask(self, &asking, argc, argv, &opts);
}

const cli_command_t cli_info = {
    .name = "info",
    .summary = "show the protocol, name and capabilities of a server",
    .operands = "[TARGET]",
    .max_operands = 1,
    .description =
        "Shows the protocol version and transport of a server, its name, its\n"
        "capabilities, the versions that it supports, whether it sends cursors, and its\n"
        "instructions."
        "\n\n" CLI_TARGET_HELP ".\n\n" CLI_TARGET_EXITS,
    .options = options,
    .run = run,
};

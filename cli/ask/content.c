/* SPDX-License-Identifier: MIT */
#include "ask/content.h"

#include <stdio.h>
#include <string.h>

#include "ask/ask.h"
#include "safe_text.h"

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

void cli_print_block(const json_t *block) {
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

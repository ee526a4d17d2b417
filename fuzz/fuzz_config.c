/* SPDX-License-Identifier: MIT
 *
 * Input: a config file. It is right or something is said, never both; what is said has a
 * place in the file and is text without control characters; nothing that comes from the
 * environment is said, and nothing of a secret. What was read can be written and read
 * again. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include <tidings/error.h>

#include "base/text.h"
#include "config/file.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define SECRET "WHAT-NOBODY-SEES"

typedef struct record {
    char *main, *uri, *path, *query;
    bool hidden;
    int64_t count, every, max_size;
    int format;
    char **include;
    json_t *headers;
} record_t;

static const char *const formats[] = {"json", "csv", NULL};

#define ROW(kind, field, ...)                                                            \
    { .type = TDG__OPTION_##kind, .offset = offsetof(record_t, field), __VA_ARGS__ }

static const tdg__option_t options[] = {
    ROW(STRING, main, .name = "files", .flags = TDG__OPTION_REQUIRED),
    ROW(STRING, uri, .name = "uri"),
    ROW(PATH, path, .name = "path", .fallback = "data"),
    ROW(STRING, query, .name = "query", .flags = TDG__OPTION_RAW),
    ROW(BOOL, hidden, .name = "hidden", .fallback = "true"),
    ROW(NUMBER, count, .name = "count", .min = -5, .max = 10),
    ROW(DURATION, every, .name = "every", .fallback = "1s", .min = 1),
    ROW(SIZE, max_size, .name = "max-size"),
    ROW(CHOICE, format, .name = "format", .choices = formats, .fallback = "csv"),
    ROW(STRINGS, include, .name = "include", .fallback = "a"),
    ROW(MAP, headers, .name = "headers", .flags = TDG__OPTION_SECRET),
    {.name = NULL},
};

static const tdg__option_t *const tables[] = {options, NULL};

static const tdg__section_t kinds[] = {
    {.name = "files", .help = "", .options = options},
    {.name = "http", .help = "", .options = options},
    {.name = NULL},
};

/* Stays on with NDEBUG, and is what the fuzzer reports. */
static void require(bool holds) {
    if (!holds)
        abort();
}

int LLVMFuzzerInitialize(int *argc, char ***argv) {
    (void)argc;
    (void)argv;
    json_object_seed(1); /* the same input takes the same path in each run */
    clearenv();
    setenv("A", SECRET, 1);
    setenv("N", "3", 1);
    setenv("HOME", "/home/me", 1);
    return 0;
}

static bool contains(const uint8_t *data, size_t size, const char *text) {
    return memmem(data, size, text, strlen(text)) != NULL;
}

static void check_problems(const tdg__problems_t *problems, const uint8_t *data,
                           size_t size) {
    unsigned lines = 1;

    /* libyaml knows five kinds of line breaks; no line has less than a byte. */
    lines += (unsigned)size;
    for (size_t i = 0; i < problems->count; i++) {
        const char *text = problems->list[i].text;

        require(text[0] != '\0' && tdg__utf8_is_valid(text, strlen(text)));
        for (const char *at = text; *at != '\0'; at++)
            require((unsigned char)*at >= 0x20 && *at != 0x7f);
        require(problems->list[i].line <= lines && problems->list[i].column <= size + 1);
        require(strstr(text, SECRET) == NULL || contains(data, size, SECRET));
    }
}

static void check_entry(const tdg__node_t *entry, tdg__problems_t *problems) {
    size_t before = tdg__problems_total(problems);
    record_t record = {.main = NULL};
    int rv = tdg__options_read(tables, entry, &record, problems);

    require((rv == 0) == (tdg__problems_total(problems) == before));
    for (const tdg__option_t *option = options; rv == 0 && option->name != NULL;
         option++) {
        tdg__text_t text;

        tdg__text_init(&text, SIZE_MAX);
        tdg__option_write(option, &record, &text);
        require(text.error == 0);
        require(text.data == NULL || tdg__utf8_is_valid(text.data, text.len));
        tdg__text_done(&text);
    }
    tdg__options_done(tables, &record);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    tdg__problems_t problems, again;
    tdg__config_t *config, *twin;
    int rv;

    tdg__problems_init(&problems, "/etc/t.yaml");
    tdg__problems_init(&again, "/etc/t.yaml");
    rv = tdg__config_read_text((const char *)data, size, kinds, &problems, &config);
    require(rv == 0 || rv == TDG_EINVAL);
    require((rv == 0) == (tdg__problems_total(&problems) == 0));
    require(rv < 0 || config != NULL);

    require(tdg__config_read_text((const char *)data, size, kinds, &again, &twin) == rv);
    require((config == NULL) == (twin == NULL));
    require(config == NULL || tdg__node_equal(config->tree, twin->tree));

    for (size_t i = 0; config != NULL && i < config->entry_count; i++)
        check_entry(config->entries[i], &problems);
    tdg__problems_sort(&problems);
    check_problems(&problems, data, size);

    tdg__config_destroy(config);
    tdg__config_destroy(twin);
    tdg__problems_done(&problems);
    tdg__problems_done(&again);
    return 0;
}

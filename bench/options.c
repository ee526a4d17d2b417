/* SPDX-License-Identifier: MIT */
#include "options.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common.h"

enum { MAX_OPTIONS = 16, MESSAGE_SIZE = 128 };

static bool takes_value(const bench_option_t *option) {
    return option->flag == NULL && option->call == NULL;
}

static size_t number_of(const bench_option_t *option, const char *value) {
    char message[MESSAGE_SIZE];

    snprintf(message, sizeof(message), "--%s takes %s from %zu to %zu, not", option->name,
             option->sizes != NULL ? "numbers" : "a number", option->min, option->max);
    return bench_number(value, option->min, option->max, message);
}

static void set_sizes(const bench_option_t *option, char *list) {
    bench_sizes_t *sizes = option->sizes;
    char message[MESSAGE_SIZE];

    sizes->count = 0;
    for (char *text = strtok(list, ","); text != NULL; text = strtok(NULL, ",")) {
        snprintf(message, sizeof(message), "--%s takes at most %d numbers, not",
                 option->name, BENCH_MAX_SIZES);
        if (sizes->count == BENCH_MAX_SIZES)
            bench_usage(message, text);
        sizes->values[sizes->count++] = number_of(option, text);
    }
    if (sizes->count == 0)
        number_of(option, ""); /* says what is wanted */
}

static void choose(const bench_option_t *option, char *list) {
    char message[MESSAGE_SIZE];

    memset(option->chosen, 0, option->name_count * sizeof(option->chosen[0]));
    for (char *name = strtok(list, ","); name != NULL; name = strtok(NULL, ",")) {
        size_t i = 0;

        while (i < option->name_count && strcmp(option->names[i], name) != 0)
            i++;
        snprintf(message, sizeof(message), "--%s knows no", option->name);
        if (i == option->name_count)
            bench_usage(message, name);
        option->chosen[i] = true;
    }
}

static void obey(const bench_option_t *option, char *value) {
    if (option->flag != NULL)
        *option->flag = true;
    else if (option->call != NULL)
        option->call(option->user);
    else if (option->text != NULL)
        *option->text = value;
    else if (option->number != NULL)
        *option->number = number_of(option, value);
    else if (option->sizes != NULL)
        set_sizes(option, value);
    else
        choose(option, value);
}

void bench_parse(int argc, char **argv, const bench_option_t *options) {
    struct option longs[MAX_OPTIONS + 1] = {{0}};
    int index;

    for (size_t i = 0; options[i].name != NULL; i++) {
        if (i == MAX_OPTIONS)
            bench_fail("there are more options than there is room for");
        longs[i].name = options[i].name;
        longs[i].has_arg = takes_value(&options[i]) ? required_argument : no_argument;
    }

    for (;;) {
        int found = getopt_long(argc, argv, "", longs, &index);

        if (found == -1)
            break;
        if (found != 0)
            exit(2); /* getopt has said what is wrong */
        obey(&options[index], optarg);
    }
    if (optind < argc)
        bench_usage("unexpected argument", argv[optind]);
}

/* SPDX-License-Identifier: MIT
 *
 * The frame of every fuzz target: one program each, so it may define what libFuzzer
 * calls.
 */
#ifndef TDG_FUZZ_FUZZ_H
#define TDG_FUZZ_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size); /* the target has it */

int LLVMFuzzerInitialize(int *argc, char ***argv) {
    (void)argc;
    (void)argv;
    json_object_seed(1); /* the same input takes the same path in each run */
    return 0;
}

/* Stays on with NDEBUG, and is what the fuzzer reports. */
static inline void require(bool holds) {
    if (!holds)
        abort();
}

/* Cuts a line off *text; what is left is "" after the last one. */
static inline char *next_line(char **text) {
    char *line = *text, *end = strchr(line, '\n');

    if (end != NULL)
        *end++ = '\0';
    *text = end != NULL ? end : line + strlen(line);
    return line;
}

#endif

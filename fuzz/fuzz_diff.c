/* SPDX-License-Identifier: MIT
 *
 * Input: two contents of a resource with a NUL byte between them. What differs is written
 * in the format of `diff -u`: equal texts differ by nothing, and a patch of the first
 * gives the second. */
#include <string.h>

#include "fuzz.h"
#include "watch/diff.h"

enum { MAX_BYTES = 8192 };

struct slice {
    const char *at, *end;
};

/* Takes a line with its end. */
static struct slice take_line(struct slice *text) {
    const char *newline = memchr(text->at, '\n', (size_t)(text->end - text->at));
    struct slice line = {text->at, newline != NULL ? newline + 1 : text->end};

    text->at = line.end;
    return line;
}

static bool starts(struct slice text, const char *with) {
    size_t len = strlen(with);

    return (size_t)(text.end - text.at) >= len && memcmp(text.at, with, len) == 0;
}

static void copy(tdg__text_t *out, struct slice line) {
    tdg__text_add(out, line.at, (size_t)(line.end - line.at));
}

static size_t read_number(const char **at) {
    char *end;
    size_t number = strtoul(*at, &end, 10);

    require(end > *at);
    *at = end;
    return number;
}

/* "-12,3" or "+12". */
static void read_range(const char **at, char sign, size_t *ret_start, size_t *ret_count) {
    require(*(*at)++ == sign);
    *ret_start = read_number(at);
    *ret_count = 1;
    if (**at == ',') {
        ++*at;
        *ret_count = read_number(at);
    }
}

/* The lines of one hunk: those of the first text have to stand there. */
static void apply_lines(struct slice *patch, struct slice *before, size_t removed,
                        size_t added, tdg__text_t *out) {
    while (removed > 0 || added > 0) {
        struct slice line = take_line(patch);
        char sign = line.at < line.end ? *line.at++ : '\0';

        require(sign == ' ' || sign == '-' || sign == '+');
        if (starts(*patch, "\\ No newline")) {
            take_line(patch);
            line.end--;
        }
        if (sign != '+') {
            struct slice old = take_line(before);

            require(removed-- > 0 && old.end - old.at == line.end - line.at);
            require(memcmp(old.at, line.at, (size_t)(old.end - old.at)) == 0);
        }
        if (sign != '-') {
            require(added-- > 0);
            copy(out, line);
        }
    }
}

static void apply(struct slice patch, struct slice before, tdg__text_t *out) {
    size_t line = 0, start, removed, to, added;

    require(starts(take_line(&patch), "--- a\n"));
    require(starts(take_line(&patch), "+++ b\n"));
    while (patch.at < patch.end) {
        const char *at = take_line(&patch).at;

        require(memcmp(at, "@@ ", 3) == 0);
        at += 3;
        read_range(&at, '-', &start, &removed);
        require(*at++ == ' ');
        read_range(&at, '+', &to, &added);
        require(memcmp(at, " @@\n", 4) == 0 && removed + added > 0);
        for (start -= removed > 0; line < start; line++) {
            require(before.at < before.end);
            copy(out, take_line(&before));
        }
        apply_lines(&patch, &before, removed, added, out);
        line += removed;
    }
    copy(out, before);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const char *text = (const char *)data;
    tdg__text_t patch, patched;

    if (size < 1 || size > MAX_BYTES)
        return 0;
    const char *nul = memchr(text, '\0', size);
    size_t first = nul != NULL ? (size_t)(nul - text) : size;
    diff_side_t before = {"a", text, first};
    diff_side_t after = {"b", nul != NULL ? nul + 1 : NULL,
                         nul != NULL ? size - first - 1 : 0};

    tdg__text_init(&patch, SIZE_MAX);
    tdg__text_init(&patched, SIZE_MAX);
    require(diff_unified(&before, &after, &patch) == 0 && patch.error == 0);
    if (patch.len > 0) {
        apply((struct slice){patch.data, patch.data + patch.len},
              (struct slice){text, text + first}, &patched);
        require(patched.error == 0 && patched.len == after.len);
        require(after.len == 0 || memcmp(patched.data, after.text, after.len) == 0);
    } else {
        require(before.len == after.len);
        require(before.len == 0 || memcmp(before.text, after.text, before.len) == 0);
    }
    tdg__text_done(&patched);
    tdg__text_done(&patch);
    return 0;
}

/* SPDX-License-Identifier: MIT
 *
 * Any bytes as a glob and a path, with a NUL between them: what compiles says the same as
 * a naive matcher that tries everything, as long as that is able to. The same path as
 * part of a URI: what is accepted leads nowhere else, and comes back as it was. */
#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "source/files/files_glob.h"
#include "source/files/files_path.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* ---- The naive matcher: '*', '?', "**" and letters only ------------------ */

static bool is_simple(const char *text) {
    for (; *text != '\0'; text++)
        if ((unsigned char)*text >= 0x80 || strchr("[]{}\\", *text) != NULL)
            return false;
    return true;
}

static bool ends(const char *path) {
    return *path == '\0' || *path == '/';
}

static bool naive(const char *pattern, const char *path, bool begins, int *budget) {
    if (--*budget < 0)
        return false;
    if (*pattern == '\0')
        return ends(path);
    if (begins && strncmp(pattern, "**/", 3) == 0) {
        if (naive(pattern + 3, path, true, budget))
            return true;
        while (*path != '\0')
            if (*path++ == '/' && naive(pattern + 3, path, true, budget))
                return true;
        return false;
    }
    if (begins && strcmp(pattern, "**") == 0) { /* some name, at any depth */
        for (;; path++) {
            if (!ends(path))
                return true;
            if (*path == '\0')
                return false;
        }
    }
    if (*pattern == '*') {
        while (pattern[1] == '*')
            pattern++;
        for (;; path++) {
            if (naive(pattern + 1, path, false, budget))
                return true;
            if (ends(path))
                return false;
        }
    }
    if (*path == '\0' || (*pattern == '?' ? *path == '/' : *path != *pattern))
        return false;
    return naive(pattern + 1, path + 1, *path == '/', budget);
}

static void compare(const char *pattern, const char *path, bool matched) {
    char copy[TDG__GLOB_MAX_LEN + 1];
    size_t len = strlen(pattern);
    int budget = 20000;
    bool expected;

    /* What the naive matcher does not know: a '/' at the end, and names that are empty.
     */
    if (len > 24 || strlen(path) > 24 || !is_simple(pattern) || !is_simple(path) ||
        pattern[len - 1] == '/' || strstr(pattern, "//") != NULL ||
        strstr(path, "//") != NULL || path[0] == '/' || path[0] == '\0' ||
        path[strlen(path) - 1] == '/')
        return;
    memcpy(copy, pattern, len + 1);
    if (strchr(pattern, '/') == NULL) {
        memcpy(copy, "**/", 3);
        memcpy(copy + 3, pattern, len + 1);
    } else if (pattern[0] == '/') {
        memmove(copy, pattern + 1, len);
    }
    expected = naive(copy, path, true, &budget);
    if (budget >= 0)
        assert(matched == expected);
}

/* ---- Paths -------------------------------------------------------------- */

static void check_path(const char *encoded) {
    char path[TDG__FILES_MAX_PATH], again[TDG__FILES_MAX_PATH];
    char *uri;

    if (!tdg__files_path(encoded, strlen(encoded), path))
        return;
    assert(path[0] != '/' && path[0] != '\0' && strstr(path, "//") == NULL);
    for (const char *name = path; name != NULL;) {
        size_t len = strcspn(name, "/");

        assert(len > 0 && !(len == 1 && name[0] == '.') &&
               !(len == 2 && memcmp(name, "..", 2) == 0));
        name = name[len] == '/' ? name + len + 1 : NULL;
    }
    uri = tdg__files_uri("x:", path);
    assert(uri != NULL);
    assert(tdg__files_path(uri + 2, strlen(uri + 2), again));
    assert(strcmp(path, again) == 0);
    tdg__free(uri);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *text = malloc(size + 2);
    const char *pattern = text, *path;
    tdg__parse_error_t error = {.at = SIZE_MAX};
    tdg__globs_t *globs = NULL;
    size_t bad = SIZE_MAX;

    assert(text != NULL);
    memcpy(text, data, size);
    text[size] = text[size + 1] = '\0';
    path = text + strlen(text) + 1;

    const char *const patterns[] = {pattern, NULL};
    int rv = tdg__globs_create(patterns, &globs, &bad, &error);

    if (rv == 0)
        compare(pattern, path, tdg__globs_match(globs, path));
    else
        assert(globs == NULL && bad == 0 && error.at <= size && error.text[0] != '\0');
    tdg__globs_destroy(globs);
    check_path(path);
    free(text);
    return 0;
}

/* SPDX-License-Identifier: MIT */
#include "base/json_pointer.h"

#include <stdint.h>
#include <string.h>

#include <tidings/error.h>

#include "base/text.h"

int tdg__json_pointer_check(const char *pointer, tdg__parse_error_t *error) {
    size_t len = strlen(pointer);

    if (len > TDG__JSON_POINTER_MAX)
        return tdg__parse_fail(error, TDG_EINVAL, TDG__JSON_POINTER_MAX,
                               "a JSON Pointer must have at most %d bytes",
                               TDG__JSON_POINTER_MAX);
    if (len > 0 && pointer[0] != '/')
        return tdg__parse_fail(error, TDG_EINVAL, 0,
                               "a JSON Pointer begins with '/', such as /items/0");
    if (!tdg__utf8_is_valid(pointer, len))
        return tdg__parse_fail(error, TDG_EINVAL, 0, "a JSON Pointer must be UTF-8");
    for (size_t i = 0; i < len; i++)
        if (pointer[i] == '~' && pointer[i + 1] != '0' && pointer[i + 1] != '1')
            return tdg__parse_fail(error, TDG_EINVAL, i,
                                   "'~' is written ~0 in a JSON Pointer, and '/' in a "
                                   "name ~1");
    return 0;
}

/* Undoes the escapes of one name; `out` has room for it. Returns its length. */
static size_t unescape(const char *name, size_t len, char *out) {
    size_t n = 0;

    for (size_t i = 0; i < len; i++) {
        if (name[i] != '~')
            out[n++] = name[i];
        else
            out[n++] = name[++i] == '1' ? '/' : '~';
    }
    return n;
}

/* "0", or digits without a zero in front. Returns SIZE_MAX for all else. */
static size_t index_of(const char *digits, size_t len) {
    size_t index = 0;

    if (len == 0 || len > 9 || (digits[0] == '0' && len > 1))
        return SIZE_MAX;
    for (size_t i = 0; i < len; i++) {
        if (digits[i] < '0' || digits[i] > '9')
            return SIZE_MAX;
        index = 10 * index + (size_t)(digits[i] - '0');
    }
    return index;
}

static json_t *step(json_t *value, const char *name, size_t len) {
    char key[TDG__JSON_POINTER_MAX];

    if (json_is_array(value))
        return json_array_get(value, index_of(name, len));
    return json_object_getn(value, key, unescape(name, len, key));
}

json_t *tdg__json_pointer_get(json_t *value, const char *pointer) {
    while (value != NULL && *pointer != '\0') {
        const char *name = pointer + 1;
        size_t len = strcspn(name, "/");

        value = step(value, name, len);
        pointer = name + len;
    }
    return value;
}

/* SPDX-License-Identifier: MIT
 *
 * Input: a JSON Pointer, a NUL, and JSON. The part that is found is the one that is found
 * by taking the pointer apart and going down one name at a time; and every name of the
 * top, written as a pointer, leads to its value. */
#include <string.h>

#include "base/json.h"
#include "base/json_pointer.h"
#include "fuzz.h"

enum { MAX_INPUT = 4096 };

static const tdg__json_limits_t limits = {
    .max_bytes = MAX_INPUT, .max_depth = 64, .max_values = MAX_INPUT};

/* All but the last name, then the last one. */
static void check_by_halves(json_t *value, const char *pointer) {
    const char *last = strrchr(pointer, '/');
    char head[TDG__JSON_POINTER_MAX + 1];
    json_t *part = tdg__json_pointer_get(value, pointer), *above;

    if (last == NULL) {
        require(part == value);
        return;
    }
    memcpy(head, pointer, (size_t)(last - pointer));
    head[last - pointer] = '\0';
    require(tdg__json_pointer_check(head, NULL) == 0);
    require(tdg__json_pointer_check(last, NULL) == 0);
    above = tdg__json_pointer_get(value, head);
    require(part == (above != NULL ? tdg__json_pointer_get(above, last) : NULL));
}

static void check_names(json_t *value) {
    char pointer[2 * MAX_INPUT + 2];
    const char *key;
    json_t *member;

    json_object_foreach(value, key, member) {
        size_t n = 0;

        pointer[n++] = '/';
        for (const char *at = key; *at != '\0'; at++) {
            if (*at == '~' || *at == '/') {
                pointer[n++] = '~';
                pointer[n++] = *at == '~' ? '0' : '1';
            } else {
                pointer[n++] = *at;
            }
        }
        pointer[n] = '\0';
        if (tdg__json_pointer_check(pointer, NULL) == 0)
            require(tdg__json_pointer_get(value, pointer) == member);
        else
            require(n > TDG__JSON_POINTER_MAX);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const char *pointer = (const char *)data;
    const char *end = size > 0 ? memchr(data, '\0', size) : NULL;
    tdg__parse_error_t error = {0};
    json_t *value;

    if (end == NULL || size > MAX_INPUT)
        return 0;
    if (tdg__json_parse(end + 1, size - (size_t)(end - pointer) - 1, &limits, &value,
                        NULL) < 0)
        return 0;
    if (tdg__json_pointer_check(pointer, &error) == 0)
        check_by_halves(value, pointer);
    else
        require(error.text[0] != '\0' && error.at <= strlen(pointer));
    check_names(value);
    json_decref(value);
    return 0;
}

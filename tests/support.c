/* SPDX-License-Identifier: MIT */
#include "support.h"

#include <stdio.h>

/* ---- Memory ---------------------------------------------------------------------- */

static struct {
    size_t live;
    size_t calls;
    size_t until_failure; /* 0: none is planned */
    int how;
    bool failed;
} memory;

static bool must_fail(void) {
    memory.calls++;
    if (memory.failed && memory.how == MEMORY_FROM_THEN_ON)
        return true;
    if (memory.until_failure == 0 || --memory.until_failure != 0)
        return false;

    memory.failed = true;
    return true;
}

static void *counted_malloc(size_t size) {
    void *ptr;

    if (must_fail())
        return NULL;

    ptr = malloc(size);
    if (ptr != NULL)
        memory.live++;
    return ptr;
}

static void *counted_realloc(void *ptr, size_t size) {
    void *bigger;

    if (must_fail())
        return NULL;

    bigger = realloc(ptr, size);
    if (bigger != NULL && ptr == NULL)
        memory.live++;
    return bigger;
}

static void counted_free(void *ptr) {
    memory.calls++;
    if (ptr != NULL)
        memory.live--;
    free(ptr);
}

void memory_count(void) {
    static const tdg_allocator_t counted = {counted_malloc, counted_realloc,
                                            counted_free};

    assert_int_equal(tdg_set_allocator(&counted), 0);
}

size_t memory_live(void) {
    return memory.live;
}

size_t memory_calls(void) {
    return memory.calls;
}

void memory_fail(size_t nth, int how) {
    memory.until_failure = nth;
    memory.how = how;
    memory.failed = false;
}

bool memory_failed(void) {
    return memory.failed;
}

/* ---- JSON ------------------------------------------------------------------------ */

json_t *json_from(const char *text) {
    json_error_t error;
    json_t *json;
    char *copy;

    if (text == NULL)
        return NULL;

    copy = strdup(text);
    assert_non_null(copy);
    for (char *c = copy; *c != '\0'; c++) {
        if (*c == '\'')
            *c = '"';
    }

    json = json_loads(copy, JSON_DECODE_ANY, &error);
    if (json == NULL)
        print_error("%s: %s\n", copy, error.text);
    free(copy);
    assert_non_null(json);
    return json;
}

void assert_json_equal_at(const json_t *json, const char *text, const char *file,
                          int line) {
    json_t *expected = json_from(text);
    bool equal = json_equal(json, expected) == 1;
    char *is = equal ? NULL : json_dumps(json, JSON_ENCODE_ANY | JSON_SORT_KEYS);

    json_decref(expected);
    if (!equal) {
        print_error("%s, not %s\n", is == NULL ? "nothing" : is, text);
        _fail(file, line);
    }
}

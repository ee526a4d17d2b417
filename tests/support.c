/* SPDX-License-Identifier: MIT */
#include "support.h"

#include <stdio.h>

/* ---- Memory ------------------------------------------------------------- */

static struct {
    size_t live;
    size_t before; /* how many were live at memory_setup(): what failed tests left */
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

int memory_setup(void **state) {
    (void)state;
    memory_count();
    memory_fail(0, MEMORY_ONCE);
    memory.before = memory.live;
    return 0;
}

int memory_teardown(void **state) {
    (void)state;
    memory_fail(0, MEMORY_ONCE);
    assert_int_equal(memory.live, memory.before);
    return 0;
}

void *state_create(void **state, size_t size) {
    *state = calloc(1, size);
    assert_non_null(*state);
    memory_setup(state);
    return *state;
}

int state_destroy(void **state) {
    free(*state);
    return memory_teardown(state);
}

/* ---- JSON --------------------------------------------------------------- */

char *requote(const char *text) {
    char *copy = strdup(text);

    assert_non_null(copy);
    for (char *c = copy; *c != '\0'; c++) {
        if (*c == '\'')
            *c = '"';
    }
    return copy;
}

json_t *json_from(const char *text) {
    const size_t flags = JSON_DECODE_ANY | JSON_ALLOW_NUL | JSON_REJECT_DUPLICATES;
    json_error_t error;
    json_t *json;
    char *copy;

    if (text == NULL)
        return NULL;

    copy = requote(text);
    json = json_loads(copy, flags, &error);
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

/* ---- Chance ------------------------------------------------------------- */

struct dice dice_from_env(void) {
    const char *seed = getenv("TDG_SEED");
    uint64_t number = seed != NULL ? strtoull(seed, NULL, 10) : 20240611;

    return (struct dice){number, number};
}

unsigned often(unsigned normal) {
    const char *factor = getenv("TDG_LONG");

    return factor != NULL ? normal * (unsigned)strtoul(factor, NULL, 10) : normal;
}

uint32_t roll(struct dice *dice, uint32_t limit) {
    dice->state = dice->state * UINT64_C(6364136223846793005) + 1442695040888963407;
    return (uint32_t)(dice->state >> 33) % limit;
}

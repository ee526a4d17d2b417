/* SPDX-License-Identifier: MIT */
#include <uv.h>

#include "base/alloc.h"
#include "support.h"

/* An allocator of its own, for replacing it is what is tested: it counts each kind of
 * call and fills what it hands out with something else than 0. */
static struct {
    int mallocs;
    int reallocs;
    int frees;
} calls;

static void *counting_malloc(size_t size) {
    void *ptr = malloc(size);

    calls.mallocs++;
    if (ptr != NULL)
        memset(ptr, 0xa5, size);
    return ptr;
}

static void *counting_realloc(void *ptr, size_t size) {
    calls.reallocs++;
    return realloc(ptr, size);
}

static void counting_free(void *ptr) {
    calls.frees++;
    free(ptr);
}

static const tdg_allocator_t counting = {counting_malloc, counting_realloc,
                                         counting_free};

static int count_calls(void **state) {
    (void)state;
    memset(&calls, 0, sizeof(calls));
    return tdg_set_allocator(&counting);
}

static int restore(void **state) {
    (void)state;
    return tdg_set_allocator(NULL);
}

static void uses_the_replaced_allocator(void **state) {
    void *ptr = tdg__malloc(1);

    (void)state;
    assert_non_null(ptr);
    assert_int_equal(calls.mallocs, 1);

    ptr = tdg__realloc(ptr, 2);
    assert_non_null(ptr);
    ptr = tdg__reallocarray(ptr, 2, 3);
    assert_non_null(ptr);
    assert_int_equal(calls.reallocs, 2);

    tdg__free(ptr);
    assert_int_equal(calls.frees, 1);
}

static void uses_the_replaced_allocator_for_json(void **state) {
    json_t *json = json_string("tidings");

    (void)state;
    assert_non_null(json);
    assert_true(calls.mallocs > 0);
    json_decref(json);
    assert_int_equal(calls.frees, calls.mallocs);
}

static void goes_back_to_malloc(void **state) {
    json_t *json;

    (void)state;
    assert_int_equal(tdg_set_allocator(NULL), 0);
    json = json_string("tidings");
    tdg__free(tdg__malloc(1));
    json_decref(json);
    assert_int_equal(calls.mallocs, 0);
    assert_int_equal(calls.frees, 0);
}

static void refuses_an_incomplete_allocator(void **state) {
    const tdg_allocator_t incomplete[] = {
        {NULL, counting_realloc, counting_free},
        {counting_malloc, NULL, counting_free},
        {counting_malloc, counting_realloc, NULL},
    };

    (void)state;
    assert_int_equal(tdg_set_allocator(NULL), 0);
    for (size_t i = 0; i < COUNT(incomplete); i++)
        assert_int_equal(tdg_set_allocator(&incomplete[i]), TDG_EINVAL);

    tdg__free(tdg__malloc(1));
    assert_int_equal(calls.mallocs, 0); /* the one before is still in place */
}

static void copies_texts(void **state) {
    char word[] = "something", *copy, *none = word;

    (void)state;
    copy = tdg__strdup("text");
    assert_string_equal(copy, "text");
    tdg__free(copy);
    copy = tdg__strndup("text", 2);
    assert_string_equal(copy, "te");
    tdg__free(copy);
    assert_null(tdg__strdup(NULL));
    assert_true(tdg__copy(NULL, &none));
    assert_null(none);
    assert_true(tdg__copy("", &copy));
    assert_string_equal(copy, "");
    tdg__free(copy);
}

static void zeroes_what_calloc_returns(void **state) {
    static const char zeroes[24];
    void *ptr = tdg__calloc(3, 8);

    (void)state;
    assert_non_null(ptr);
    assert_memory_equal(ptr, zeroes, sizeof(zeroes));
    tdg__free(ptr);
}

static void refuses_sizes_that_overflow(void **state) {
    size_t half = SIZE_MAX / 2 + 1;
    char *ptr = tdg__malloc(1);

    (void)state;
    assert_non_null(ptr);
    *ptr = 'x';
    assert_null(tdg__calloc(half, 2));
    assert_null(tdg__calloc(2, half));
    assert_null(tdg__calloc(SIZE_MAX, SIZE_MAX));
    assert_null(tdg__reallocarray(ptr, half, 2));
    assert_null(tdg__reallocarray(ptr, 2, half));
    assert_int_equal(calls.mallocs, 1);
    assert_int_equal(calls.reallocs, 0);
    assert_int_equal(*ptr, 'x'); /* still valid */
    tdg__free(ptr);
}

static void frees_null_without_asking_the_allocator(void **state) {
    (void)state;
    tdg__free(NULL);
    assert_int_equal(calls.frees, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, count_calls, restore)

/* The rest of the process may use libuv already. */
static void leaves_libuv_its_own_allocator(void **state) {
    uv_loop_t loop;

    (void)state;
    assert_int_equal(uv_loop_init(&loop), 0);
    assert_int_equal(uv_loop_close(&loop), 0);
    assert_int_equal(calls.mallocs + calls.reallocs + calls.frees, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(leaves_libuv_its_own_allocator),
        TEST(uses_the_replaced_allocator),
        TEST(uses_the_replaced_allocator_for_json),
        TEST(goes_back_to_malloc),
        TEST(refuses_an_incomplete_allocator),
        TEST(copies_texts),
        TEST(zeroes_what_calloc_returns),
        TEST(refuses_sizes_that_overflow),
        TEST(frees_null_without_asking_the_allocator),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("alloc", tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT */
#include <pthread.h>
#include <stdatomic.h>

#include "base/buf.h"
#include "support.h"

/* Not memory_count(), which is for one thread: here the last reference may be dropped on
 * any. */
static atomic_int frees;
static atomic_bool out_of_memory;

static void *failing_malloc(size_t size) {
    return atomic_load(&out_of_memory) ? NULL : malloc(size);
}

static void counting_free(void *ptr) {
    atomic_fetch_add(&frees, 1);
    free(ptr);
}

static const tdg_allocator_t counting = {failing_malloc, realloc, counting_free};

static int count_frees(void **state) {
    (void)state;
    atomic_store(&frees, 0);
    atomic_store(&out_of_memory, false);
    return tdg_set_allocator(&counting);
}

static int restore(void **state) {
    (void)state;
    return tdg_set_allocator(NULL);
}

static void holds_a_copy_and_a_nul(void **state) {
    char bytes[] = {'a', '\0', 'b'};
    tdg__buf_t *buf = tdg__buf_create(bytes, sizeof(bytes));

    (void)state;
    assert_non_null(buf);
    memset(bytes, 'x', sizeof(bytes));
    assert_int_equal(buf->len, 3);
    assert_memory_equal(buf->data, "a\0b", 4); /* with the NUL behind the bytes */
    tdg__buf_unref(buf);
}

static void may_be_empty(void **state) {
    tdg__buf_t *buf = tdg__buf_create("", 0);

    (void)state;
    assert_non_null(buf);
    assert_int_equal(buf->len, 0);
    assert_string_equal(buf->data, "");
    tdg__buf_unref(buf);
}

static void leaves_the_bytes_to_the_caller(void **state) {
    tdg__buf_t *buf = tdg__buf_create(NULL, 5);

    (void)state;
    assert_non_null(buf);
    memcpy(buf->data, "hello", 5);
    assert_string_equal(buf->data, "hello");
    tdg__buf_unref(buf);
}

static void is_freed_with_the_last_reference(void **state) {
    tdg__buf_t *buf = tdg__buf_create("x", 1);

    (void)state;
    assert_ptr_equal(tdg__buf_ref(buf), buf);
    tdg__buf_unref(buf);
    assert_int_equal(atomic_load(&frees), 0);
    assert_string_equal(buf->data, "x");
    tdg__buf_unref(buf);
    assert_int_equal(atomic_load(&frees), 1);
}

static void ignores_the_unref_of_null(void **state) {
    (void)state;
    tdg__buf_unref(NULL);
    assert_int_equal(atomic_load(&frees), 0);
}

static void is_null_when_memory_is_out(void **state) {
    (void)state;
    atomic_store(&out_of_memory, true);
    assert_null(tdg__buf_create("x", 1));
}

static void is_null_when_the_size_overflows(void **state) {
    (void)state;
    assert_null(tdg__buf_create(NULL, SIZE_MAX));
    assert_null(tdg__buf_create(NULL, SIZE_MAX - sizeof(tdg__buf_t)));
}

/* Owns one reference; takes and drops many more, reading all the while. */
static void *share(void *arg) {
    tdg__buf_t *buf = arg;
    size_t wrong = 0;

    for (int i = 0; i < 10000; i++) {
        tdg__buf_t *mine = tdg__buf_ref(buf);

        wrong += mine->len != 6 || mine->data[i % 6] != "shared"[i % 6];
        tdg__buf_unref(mine);
    }
    tdg__buf_unref(buf);
    return wrong == 0 ? NULL : arg;
}

static void is_freed_once_when_threads_share_it(void **state) {
    tdg__buf_t *buf = tdg__buf_create("shared", 6);
    pthread_t threads[8];
    void *wrong;

    (void)state;
    for (size_t i = 0; i < 8; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, share, tdg__buf_ref(buf)), 0);
    tdg__buf_unref(buf); /* any of the threads may be the last one */
    for (size_t i = 0; i < 8; i++) {
        assert_int_equal(pthread_join(threads[i], &wrong), 0);
        assert_null(wrong);
    }
    assert_int_equal(atomic_load(&frees), 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, count_frees, restore)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(holds_a_copy_and_a_nul),          TEST(may_be_empty),
        TEST(leaves_the_bytes_to_the_caller),  TEST(is_freed_with_the_last_reference),
        TEST(ignores_the_unref_of_null),       TEST(is_null_when_memory_is_out),
        TEST(is_null_when_the_size_overflows), TEST(is_freed_once_when_threads_share_it),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("buf", tests, NULL, NULL);
}

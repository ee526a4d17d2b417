/* SPDX-License-Identifier: MIT */
#include "base/alloc.h"
#include "core/engine.h"
#include "server/api/options.h"
#include "server/context/context.h"
#include "support.h"

static int copy(const tdg_server_opts_t *opts, tdg_server_opts_t *ret) {
    const tdg__given_opts_t given = {opts, sizeof(*opts), sizeof(tdg_settings_t),
                                     sizeof(tdg_watcher_t)};

    return tdg__options_copy(&given, ret);
}

static void nothing_given_is_all_defaults(void **state) {
    const tdg_server_opts_t zero = {0};
    tdg_server_opts_t opts;

    (void)state;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(copy(i == 0 ? NULL : &zero, &opts), 0);
        assert_string_equal(opts.name, "tidings");
        assert_string_equal(opts.version, tdg_version());
        assert_null(opts.title);
        assert_in_range(opts.workers, 1, 64);
        assert_int_equal(opts.keepalive_ms, 15000);
        assert_int_equal(opts.linger_ms, 5000);
        assert_int_equal(opts.stream_lifetime_ms, 0); /* never */
        assert_int_equal(opts.max_message_bytes, 4 << 20);
        assert_int_equal(opts.max_history, 65536);
        tdg__options_free(&opts);
    }
}

static void what_is_given_is_kept_and_copied(void **state) {
    char name[] = "n", title[] = "t";
    tdg_settings_t settings = {.window_ms = 7};
    tdg_watcher_t watcher = {.user = name};
    const tdg_server_opts_t given = {.name = name,
                                     .title = title,
                                     .version = "1",
                                     .instructions = "i",
                                     .workers = 64,
                                     .settings = &settings,
                                     .watcher = &watcher,
                                     .keepalive_ms = 1,
                                     .flags = TDG_NO_LEGACY};
    tdg_server_opts_t opts;

    (void)state;
    assert_int_equal(copy(&given, &opts), 0);
    name[0] = title[0] = 'x';
    settings.window_ms = 8;
    watcher.user = NULL;
    assert_string_equal(opts.name, "n");
    assert_string_equal(opts.title, "t");
    assert_int_equal(opts.settings->window_ms, 7);
    assert_ptr_equal(opts.watcher->user, name);
    assert_string_equal(opts.instructions, "i");
    assert_int_equal(opts.workers, 64);
    assert_int_equal(opts.keepalive_ms, 1);
    assert_int_equal(opts.flags, TDG_NO_LEGACY);
    tdg__options_free(&opts);
}

static void no_keepalive_is_announced_where_there_is_none(void **state) {
    const tdg_server_opts_t none = {.keepalive_ms = TDG_NONE, .linger_ms = TDG_NONE};
    tdg_server_opts_t opts;

    (void)state;
    assert_int_equal(copy(&none, &opts), 0);
    assert_int_equal(tdg__options_keepalive(&opts), 0);
    assert_true(opts.linger_ms == TDG__NO_LINGER);
    tdg__options_free(&opts);
}

static void nonsense_is_refused(void **state) {
    const tdg_server_opts_t many = {.workers = 65};
    const tdg_server_opts_t mute = {.flags = TDG_NO_LEGACY | TDG_NO_MODERN};
    tdg_server_opts_t opts;

    (void)state;
    assert_int_equal(copy(&many, &opts), TDG_EINVAL);
    assert_int_equal(copy(&mute, &opts), TDG_EINVAL);
}

static void nothing_is_lost_where_memory_runs_out(void **state) {
    static const char *const list[] = {"a", "b", NULL};
    const tdg_server_opts_t given = {.title = "t", .instructions = "i"};
    tdg_server_opts_t opts;
    char **copies;

    (void)state;
    for (size_t n = 1; n <= 4; n++) {
        memory_fail(n, MEMORY_ONCE);
        memset(&opts, 0, sizeof(opts));
        assert_int_equal(copy(&given, &opts), TDG_ENOMEM);
        tdg__options_free(&opts);
    }
    for (size_t n = 1; n <= 3; n++) {
        memory_fail(n, MEMORY_ONCE);
        assert_false(tdg__copy_strings(list, &copies));
        assert_null(copies);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(nothing_given_is_all_defaults, memory_setup,
                                        memory_teardown),
        cmocka_unit_test_setup_teardown(what_is_given_is_kept_and_copied, memory_setup,
                                        memory_teardown),
        cmocka_unit_test_setup_teardown(no_keepalive_is_announced_where_there_is_none,
                                        memory_setup, memory_teardown),
        cmocka_unit_test_setup_teardown(nonsense_is_refused, memory_setup,
                                        memory_teardown),
        cmocka_unit_test_setup_teardown(nothing_is_lost_where_memory_runs_out,
                                        memory_setup, memory_teardown),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("options", tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT */
#include "config/file.h"

#include <stdio.h>
#include <unistd.h>

#include "said.h"
#include "server/api/options.h"
#include "support.h"

static const tdg__option_t no_options[] = {{.name = NULL}};

static const tdg__section_t kinds[] = {
    {.name = "files", .help = "", .options = no_options},
    {.name = "http", .help = "", .options = no_options},
    {.name = "webhook", .help = "", .options = no_options},
    {.name = NULL},
};

static tdg__config_t *read_text(const char *text, int *ret_code, char **ret_said) {
    tdg__problems_t problems;
    tdg__config_t *config;

    tdg__problems_init(&problems, "/etc/t.yaml");
    *ret_code = tdg__config_read_text(text, strlen(text), kinds, &problems, &config);
    *ret_said = said(&problems);
    tdg__problems_done(&problems);
    return config;
}

static tdg__config_t *read_well(const char *text) {
    char *what;
    int rv;
    tdg__config_t *config = read_text(text, &rv, &what);

    if (rv != 0 || what[0] != '\0')
        fail_msg("%s: %d: %s", text, rv, what);
    free(what);
    return config;
}

/* Field by field: padding may differ. */
static void defaults_are_those_of_the_server(void **state) {
    tdg__config_t *config = read_well("");
    const tdg_server_opts_t *ours = &config->opts;
    tdg_server_opts_t theirs;

    (void)state;
    assert_int_equal(tdg__options_copy(&(tdg__given_opts_t){0}, &theirs), 0);
    assert_string_equal(ours->name, theirs.name);
    assert_null(ours->title);
    assert_null(ours->instructions);
    assert_int_equal(ours->flags, 0);
    assert_int_equal(ours->workers, 0); /* which is one per core */
#define SAME(field) assert_int_equal(ours->field, theirs.field)
    SAME(linger_ms);
    SAME(page_size);
    SAME(keepalive_ms);
    SAME(request_timeout_ms);
    SAME(idle_timeout_ms);
    SAME(session_idle_ms);
    SAME(stream_lifetime_ms);
    SAME(retry_ms);
    SAME(stop_timeout_ms);
    SAME(max_connections);
    SAME(max_sessions);
    SAME(max_calls);
    SAME(max_streams);
    SAME(max_header_bytes);
    SAME(max_message_bytes);
    SAME(max_subscriptions);
    SAME(max_pending);
    SAME(max_history);
#undef SAME
    tdg__options_free(&theirs);

    /* What the engine takes where nothing is said; see server.h. */
    assert_int_equal(ours->settings->timing, TDG_TIMING_BATCH);
    assert_int_equal(ours->settings->window_ms, 100);
    assert_int_equal(ours->settings->longest_ms, 0);
    assert_int_equal(ours->settings->rate_limit_ms, 1000);

    assert_int_equal(config->listen_count, 1);
    assert_string_equal(config->listen[0].host, "127.0.0.1");
    assert_int_equal(config->listen[0].port, 8808);
    assert_null(config->publish.key);
    assert_false(config->top.reload_on_change);
    assert_int_equal(config->entry_count, 0);
    tdg__config_destroy(config);
}

static void sections_without_content_are_fine(void **state) {
    (void)state;
    tdg__config_destroy(read_well("server:\npublish:\nresources:\n"));
    tdg__config_destroy(read_well("server: {}\nresources: []\n"));
}

static void everything_can_be_set(void **state) {
    tdg__config_t *config;

    (void)state;
    setenv("TDG_KEY", "hunter2", 1);
    config = read_well("server:\n"
                       "  name: shop\n  title: The shop\n  instructions: read\n"
                       "  listen: [\"http://[::1]:1\", 'http://0.0.0.0:2']\n"
                       "  allowed-hosts: [a, b]\n  allowed-origins: 'https://c'\n"
                       "  dialect: erlmcp\n  workers: 3\n"
                       "  timing: debounce\n  window: 2s\n  longest-wait: 9s\n"
                       "  rate-limit: 0\n  linger: 1s\n"
                       "  min-window: 20ms\n  min-rate-limit: 2s\n"
                       "  modern: false\n  any-template: true\n  log-messages: false\n"
                       "  page-size: 10\n  stream-lifetime: 1h\n"
                       "  max-message-size: 64KiB\n  max-history: 7\n"
                       "publish:\n  key: ${TDG_KEY}\n"
                       "reload-on-change: true\n"
                       "resources:\n  - files: a\n    x: y\n  - uri: b\n    http: c\n");
    assert_string_equal(config->opts.name, "shop");
    assert_string_equal(config->opts.title, "The shop");
    assert_string_equal(config->opts.instructions, "read");
    assert_int_equal(config->opts.workers, 3);
    assert_int_equal(config->opts.settings->timing, TDG_TIMING_DEBOUNCE);
    assert_int_equal(config->opts.settings->window_ms, 2000);
    assert_int_equal(config->opts.settings->longest_ms, 9000);
    assert_int_equal(config->opts.settings->rate_limit_ms, TDG_RATE_OFF);
    assert_int_equal(config->opts.settings->min_window_ms, 20);
    assert_int_equal(config->opts.settings->min_rate_limit_ms, 2000);
    assert_int_equal(config->opts.linger_ms, 1000);
    assert_int_equal(config->opts.flags,
                     TDG_NO_MODERN | TDG_ANY_TEMPLATE | TDG_NO_LOGGING);
    assert_int_equal(config->opts.page_size, 10);
    assert_int_equal(config->opts.stream_lifetime_ms, 3600000);
    assert_int_equal(config->opts.max_message_bytes, 65536);
    assert_int_equal(config->opts.max_history, 7);
    assert_int_equal(config->listen_count, 2);
    assert_string_equal(config->listen[0].host, "::1");
    assert_int_equal(config->listen[1].port, 2);
    assert_string_equal(config->server.allowed_hosts[1], "b");
    assert_string_equal(config->server.allowed_origins[0], "https://c");
    assert_int_equal(config->server.dialect, 1);
    assert_string_equal(config->publish.key, "hunter2");
    assert_true(config->top.reload_on_change);
    assert_int_equal(config->entry_count, 2);
    assert_string_equal(tdg__node_get(config->entries[0], "files")->text, "a");
    assert_string_equal(tdg__node_get(config->entries[1], "http")->text, "c");
    tdg__config_destroy(config);
}

/* A server takes what the file gives it, whatever it is. */
static void the_server_takes_every_timing(void **state) {
    static const struct {
        const char *text;
        tdg_timing_mode_t mode;
        uint32_t window_ms;
    } cases[] = {
        {"server: {timing: immediate}\n", TDG_TIMING_IMMEDIATE, 0},
        {"server: {timing: batch}\n", TDG_TIMING_BATCH, 100},
        {"server: {timing: debounce}\n", TDG_TIMING_DEBOUNCE, 500},
        {"server: {timing: throttle}\n", TDG_TIMING_THROTTLE, 1000},
        {"server: {timing: batch, window: 0}\n", TDG_TIMING_BATCH, 0},
        {"server: {window: 1d, rate-limit: 1d}\n", TDG_TIMING_BATCH, 86400000},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        tdg__config_t *config = read_well(cases[i].text);
        tdg_server_t *server;

        assert_int_equal(config->opts.settings->timing, cases[i].mode);
        assert_int_equal(config->opts.settings->window_ms, cases[i].window_ms);
        assert_int_equal(tdg_server_create(&config->opts, &server), 0);
        tdg_server_destroy(server);
        tdg__config_destroy(config);
    }
}

static void every_message(void **state) {
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"- a\n",
         "1:1: this is not a config; its top level has server:, publish: and resources:"},
        {"sever:\n", "1:1: sever: unknown section; did you mean server?"},
        {"blah: 1\n", "1:1: blah: unknown section; the sections are server, publish, "
                      "resources and reload-on-change"},
        {"files: docs\n", "1:1: files: this belongs in an entry of resources:, as - "
                          "files: …"},
        {"server: 5\n", "1:9: server: this is one value; expected a map of options and "
                        "their values"},
        {"server:\n  worker: 3\n",
         "2:3: server.worker: unknown option; did you mean workers?"},
        {"server:\n  workers: 65\n",
         "2:12: server.workers: \"65\" is out of range; write a value from 1 to 64"},
        {"server:\n  listen: []\n", "2:11: server.listen: an empty list; write at least "
                                    "one URL, or leave the line out"},
        {"server:\n  listen: [\"http://[::1]\", \"b\"]\n",
         "2:28: server.listen[1]: this is not an address to listen on: it must begin "
         "with "
         "http://, such as http://127.0.0.1:8808"},
        {"server:\n  listen: 'http://a/b'\n",
         "2:11: server.listen: this is not an address to listen on: only a port may "
         "follow "
         "the host, such as http://127.0.0.1:8808"},
        {"server:\n  legacy: false\n  modern: false\n",
         "3:11: server.modern: legacy and modern are both off; at least one is "
         "needed"},
        {"server:\n  timing: immediate\n  window: 2s\n",
         "3:11: server.window: this has no effect with `timing: immediate`"},
        {"server:\n  window: 2s\n  longest-wait: 1s\n",
         "3:17: server.longest-wait: the longest wait is shorter than the window"},
        {"publish:\n  key: ''\n",
         "2:8: publish.key: the key is empty; set one that nobody can guess"},
        {"publish:\n  key: ${TDG_UNSET}\n",
         "2:8: publish.key: the environment variable TDG_UNSET is not set"},
        {"reload-on-change: yes\n", "1:19: reload-on-change: \"yes\" is neither true nor "
                                    "false; write true"},
        {"resources: files\n",
         "1:12: resources: this is not a list; each entry begins with "
         "a dash, such as - files: docs"},
        {"resources:\n  files: a\n",
         "2:3: resources: this is not a list; each entry begins with a dash, such as - "
         "files: docs"},
        {"resources:\n  - docs\n",
         "2:5: resources[0]: this is not a map; an entry is a kind with its value and "
         "options, such as files: docs"},
        {"resources:\n  - fils: docs\n", "2:5: resources[0].fils: unknown kind of "
                                         "resource; did you mean files?"},
        {"resources:\n  - uri: docs\n",
         "2:5: resources[0]: this entry has no kind of resource; it needs files, http or "
         "webhook"},
        {"resources:\n  - files: a\n    http: b\n    webhook: c\n",
         "3:5: resources[0].http: the entry is of the kind files already; begin another "
         "entry with a dash\n"
         "4:5: resources[0].webhook: the entry is of the kind files already; begin "
         "another entry with a dash"},
    };

    (void)state;
    unsetenv("TDG_UNSET");
    for (size_t i = 0; i < COUNT(cases); i++) {
        char *what;
        int rv;
        tdg__config_t *config = read_text(cases[i].text, &rv, &what);

        if (rv != TDG_EINVAL || strcmp(what, cases[i].says) != 0)
            fail_msg("%s: %d\n  is:       %s\n  expected: %s", cases[i].text, rv, what,
                     cases[i].says);
        free(what);
        tdg__config_destroy(config);
    }
}

static void sound_entries_of_a_wrong_file_can_be_looked_at(void **state) {
    char *what;
    int rv;
    tdg__config_t *config = read_text("server: {workers: x}\nresources:\n  - files: a\n"
                                      "  - fils: b\n  - http: c\n",
                                      &rv, &what);

    (void)state;
    assert_int_equal(rv, TDG_EINVAL);
    assert_non_null(config);
    assert_int_equal(config->entry_count, 2);
    assert_int_equal(config->entries[1]->index, 2);
    free(what);
    tdg__config_destroy(config);

    config = read_text("a: [\n", &rv, &what);
    assert_int_equal(rv, TDG_EINVAL);
    assert_null(config);
    free(what);
}

/* What is wrong with one option keeps nobody from looking at the others, nor is it the
 * reason of a complaint about others. */
static void everything_wrong_is_told_at_once(void **state) {
    char *what;
    int rv;
    tdg__config_t *config =
        read_text("server:\n  workers: many\n  listen: 8808\n  legacy: false\n"
                  "  modern: false\n  window: soon\n  longest-wait: 10ms\n"
                  "publish:\n  key: ''\nresources: {}\n",
                  &rv, &what);

    (void)state;
    assert_int_equal(rv, TDG_EINVAL);
    assert_non_null(strstr(what, "server.workers: "));
    assert_non_null(strstr(what, "server.listen: this is not an address to listen on"));
    assert_non_null(strstr(what, "server.modern: legacy and modern are both off"));
    assert_non_null(strstr(what, "server.window: "));
    assert_null(strstr(what, "server.longest-wait: "));
    assert_non_null(strstr(what, "publish.key: "));
    assert_non_null(strstr(what, "resources: "));
    free(what);
    tdg__config_destroy(config);

    config = read_text("server: {legacy: false, modern: maybe}\n", &rv, &what);
    assert_non_null(strstr(what, "server.modern: \"maybe\""));
    assert_null(strstr(what, "both off"));
    free(what);
    tdg__config_destroy(config);
}

/* NULL: the list is right. */
static void assert_hosts(const char *list, const char *says) {
    char text[128], *what;
    int rv;

    snprintf(text, sizeof(text), "server: {allowed-hosts: [%s]}\n", list);
    tdg__config_t *config = read_text(text, &rv, &what);
    if ((rv < 0) != (says != NULL) || (says != NULL && strstr(what, says) == NULL))
        fail_msg("%s: %d, %s", list, rv, what);
    free(what);
    tdg__config_destroy(config);
}

static void hosts_that_no_client_sends_are_mistakes(void **state) {
    static const char *const fine[] = {"\"*\"",
                                       "tidings.example",
                                       "a:80",
                                       "10.0.0.1",
                                       "\"[::1]\"",
                                       "\"[2001:db8::1]:80\"",
                                       "\"[fe80::1%eth0]\""};
    static const char *const bad[] = {"\"::1\"",
                                      "\"https://a.example\"",
                                      "\"*.example\"",
                                      "\"a:x\"",
                                      "\"a:\"",
                                      "\":80\"",
                                      "\"[::1\"",
                                      "\"[]\"",
                                      "\"[10.0.0.1]\"",
                                      "\"a b\"",
                                      "\"\""};

    (void)state;
    for (size_t i = 0; i < COUNT(fine); i++)
        assert_hosts(fine[i], NULL);
    for (size_t i = 0; i < COUNT(bad); i++)
        assert_hosts(bad[i], "server.allowed-hosts[0]: no client sends such a Host");
    assert_hosts("", "server.allowed-hosts: an empty list admits no client");
}

static void files_are_read(void **state) {
    char path[] = "file_test_XXXXXX";
    int fd = mkstemp(path);
    tdg__problems_t problems;
    tdg__config_t *config;

    (void)state;
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "server: {name: x}\n", 18), 18);
    close(fd);
    tdg__problems_init(&problems, path);
    assert_int_equal(tdg__config_read_file(path, kinds, &problems, &config), 0);
    assert_string_equal(config->opts.name, "x");
    tdg__config_destroy(config);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(tdg__config_read_file(path, kinds, &problems, &config), TDG_ESYSTEM);
    assert_null(config);
    assert_int_equal(problems.count, 1);
    tdg__problems_done(&problems);
}

static void every_allocation_may_fail(void **state) {
    static const char *const texts[] = {
        "server: {listen: 'http://[::1]', title: b}\npublish: {key: k}\n"
        "resources:\n  - files: a\n  - http: b\n",
        "server: {listen: [x]}\nnothing: 1\nresources:\n  - uri: a\n  - b\n",
    };

    (void)state;
    for (size_t i = 0; i < COUNT(texts); i++) {
        bool complete = false;

        for (size_t nth = 1; !complete; nth++) {
            tdg__problems_t problems;
            tdg__config_t *config;
            int rv;

            tdg__problems_init(&problems, NULL);
            memory_fail(nth, nth % 2 ? MEMORY_ONCE : MEMORY_FROM_THEN_ON);
            rv = tdg__config_read_text(texts[i], strlen(texts[i]), kinds, &problems,
                                       &config);
            complete = !memory_failed();
            memory_fail(0, MEMORY_ONCE);
            if (complete || rv != TDG_ENOMEM) {
                assert_int_equal(rv, i == 0 ? 0 : TDG_EINVAL);
                assert_int_equal(tdg__problems_total(&problems), i == 0 ? 0 : 4);
            } else {
                assert_null(config);
            }
            tdg__problems_done(&problems);
            tdg__config_destroy(config);
        }
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, memory_setup, memory_teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(defaults_are_those_of_the_server),
        TEST(sections_without_content_are_fine),
        TEST(everything_can_be_set),
        TEST(the_server_takes_every_timing),
        TEST(every_message),
        TEST(sound_entries_of_a_wrong_file_can_be_looked_at),
        TEST(everything_wrong_is_told_at_once),
        TEST(hosts_that_no_client_sends_are_mistakes),
        TEST(files_are_read),
        TEST(every_allocation_may_fail),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("config file", tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT
 *
 * What clients are told when something fails, of each kind of source: no path of this
 * machine, no address, no program, nothing that others wrote. The log has it. */
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support.h"
#include "unit/source/folder.h"
#include "unit/source/harness.h"

static struct folder folder;

static int setup(void **state) {
    (void)state;
    folder_create(&folder);
    return 0;
}

static int teardown(void **state) {
    (void)state;
    folder_destroy(&folder);
    return 0;
}

/* "@" is the folder of the test, where it stands first. Port 1 is nobody's. */
static const struct failure {
    const char *entry; /* but for its URI */
    int status;
    const char *logged; /* in the log; NULL: the client has it all */
} failures[] = {
    {"files: @/none/a\n", TDG_EUNREACHABLE, "does not exist"},
    {"files: @/none\n", TDG_ENOTFOUND, NULL},
    {"files: @/a\nmax-size: 1\n", TDG_ETOOLARGE, NULL},
    {"log: @\n", TDG_EINVAL, NULL},
    {"log: @/a/b\n", TDG_ENOTFOUND, NULL},
    {"sqlite: @/none\nquery: SELECT 1\n", TDG_EUNREACHABLE, "No such file"},
    {"sqlite: @/a\nquery: SELECT 1\n", TDG_EUNREACHABLE, "not a database"},
    {"command: [@/none]\n", TDG_EUNREACHABLE, "/none"},
    {"command: [@/none]\nmode: lines\n", TDG_EUNREACHABLE, "/none"},
    {"command: [cat]\ncwd: @/none\n", TDG_EUNREACHABLE, "cat"},
    {"command: [ls, @/secret]\n", TDG_EUNREACHABLE, "/secret"},
    {"http: http://127.0.0.1:1@\n", TDG_EUNREACHABLE, "127.0.0.1"},
    {"http: http://tidings.invalid@\n", TDG_EUNREACHABLE, "tidings.invalid"},
    {"postgres: host=@\nquery: SELECT 1\n", TDG_EUNREACHABLE, "PGSQL"},
    {"postgres: host=127.0.0.1 port=1\nquery: SELECT '@'\n", TDG_EUNREACHABLE,
     "127.0.0.1"},
    {"memory: x:1\nname: '@'\n", TDG_ENOTFOUND, NULL},
    {"webhook: /hooks/x\nopen: true\nname: '@'\n", TDG_ENOTFOUND, NULL},
};

static void expect_public(const struct failure *failure, const char *text) {
    static const char *const inside[] = {"127.0.0.1", "invalid", "secret", "none",
                                         "/",         "cat",     "PGSQL",  "very"};

    printf("# %s", failure->entry);
    printf("# %s\n", text);
    assert_null(strstr(text, folder.path));
    for (size_t i = 0; i < COUNT(inside); i++)
        if (strstr(text, inside[i]) != NULL)
            fail_msg("\"%s\" is in \"%s\"", inside[i], text);
}

static void expand(const char *entry, char *out, size_t room) {
    size_t len = strcspn(entry, "@");

    snprintf(out, room, "%.*s%s%s%s", (int)len, entry, folder.path, entry + len + 1,
             strncmp(entry, "memory:", 7) != 0 ? "uri: x:1\n" : "");
}

static void errors_name_nothing_that_is_inside(void **state) {
    (void)state;
    folder_write(&folder, "a",
                 "this is no database, and long enough to be looked at as "
                 "one: a header has a hundred bytes, so some more follow");
    for (size_t i = 0; i < COUNT(failures); i++) {
        const struct failure *failure = &failures[i];
        struct harness harness;
        struct reading reading;
        char yaml[1024];

        expand(failure->entry, yaml, sizeof(yaml));
        harness_open(&harness, yaml);
        reading = harness_read(&harness, "x:1");
        assert_int_equal(reading.status, failure->status);
        expect_public(failure, reading.public);
        reading_done(&reading);
        if (failure->logged != NULL)
            harness_wait(&harness, LOGGED, failure->logged);
        harness_close(&harness);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(errors_name_nothing_that_is_inside, setup,
                                        teardown),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("errors", tests, NULL, NULL);
}

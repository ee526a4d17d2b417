/* SPDX-License-Identifier: MIT
 *
 * Random things are done to a folder while it is served. When they stop, the list must be
 * what is in the folder, and what was last told of each watched file what it holds. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "source/common/checksum.h"
#include "support.h"
#include "unit/source/folder.h"
#include "unit/source/harness.h"

enum {
    ROUNDS = 25,
    OPERATIONS = 150,
    MAX_FILES = 4096,
    TARGETS = 12,
    REPLACED = 20,
    LARGE = 500
};

struct world {
    struct folder folder;
    struct harness harness;
    struct dice dice;
    char prefix[FOLDER_PATH]; /* of URIs */
    char watched[TARGETS][FOLDER_PATH];
    size_t at; /* the happening that is next */
    char *listed[MAX_FILES];
    size_t n_listed;
    char *found[MAX_FILES];
    size_t n_found;
};

/* ---- What is done ------------------------------------------------------- */

/* A path of one to three names out of three each; collisions are wanted. */
static void any_path(struct world *w, char *out) {
    char name[32] = "root";
    uint32_t depth = 1 + roll(&w->dice, 3);

    for (uint32_t i = 0; i < depth; i++) {
        char part[4] = {'/', (char)('a' + roll(&w->dice, 3)), '\0'};

        strcat(name, part);
    }
    folder_path(&w->folder, name, out);
}

static void write_file(struct world *w, const char *path, int flags) {
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | flags, 0644);

    if (fd < 0)
        return; /* a folder, or nowhere to be */
    dprintf(fd, "%u", roll(&w->dice, 1000));
    close(fd);
}

static void remove_all(const char *path) {
    DIR *dir = opendir(path);
    struct dirent *entry;

    if (dir == NULL) {
        (void)unlink(path);
        return;
    }
    while ((entry = readdir(dir)) != NULL) {
        char inner[FOLDER_PATH * 2];

        if (entry->d_name[0] == '.')
            continue;
        snprintf(inner, sizeof(inner), "%s/%s", path, entry->d_name);
        remove_all(inner);
    }
    closedir(dir);
    (void)rmdir(path);
}

/* Another folder takes its place, with some of the same names in it. */
static void replace_folder(struct world *w, const char *path) {
    remove_all(path);
    if (mkdir(path, 0755) != 0)
        return;
    for (char name = 'a'; name <= 'c'; name++) {
        char inner[FOLDER_PATH + 4];

        snprintf(inner, sizeof(inner), "%s/%c", path, name);
        if (roll(&w->dice, 2) == 0)
            write_file(w, inner, O_TRUNC);
    }
}

/* What cannot be done is not done. */
static void do_something(struct world *w) {
    char path[FOLDER_PATH], other[FOLDER_PATH], temporary[FOLDER_PATH];

    any_path(w, path);
    any_path(w, other);
    folder_path(&w->folder, "temporary", temporary);
    switch (roll(&w->dice, 11)) {
    case 0:
    case 1:
        (void)mkdir(path, 0755);
        break;
    case 2:
        remove_all(path);
        break;
    case 3:
        (void)rename(path, other); /* files and folders */
        break;
    case 4: /* out of the folder, and back under another name */
        (void)rename(path, temporary);
        if (roll(&w->dice, 2) == 0)
            (void)rename(temporary, other);
        remove_all(temporary);
        break;
    case 5: /* as editors do */
        write_file(w, temporary, O_TRUNC);
        (void)rename(temporary, path);
        (void)unlink(temporary);
        break;
    case 6:
        write_file(w, path, O_APPEND);
        break;
    case 7:
        replace_folder(w, path);
        break;
    default:
        write_file(w, path, O_TRUNC);
    }
}

/* A folder was replaced when the server comes to look, for longer than a file counts as
 * young, and as one that may still be written (100 ms). Nothing follows that would tell
 * it what it has missed. */
static void replace_and_be_late(struct world *w) {
    const struct timespec late = {.tv_nsec = 120000000};
    char path[FOLDER_PATH];

    any_path(w, path);
    replace_folder(w, path);
    nanosleep(&late, NULL);
}

/* ---- What is compared --------------------------------------------------- */

static void add(char **list, size_t *count, const char *text) {
    for (size_t i = 0; i < *count; i++)
        if (strcmp(list[i], text) == 0)
            return;
    assert_true(*count < MAX_FILES);
    list[(*count)++] = strdup(text);
}

static void take(char **list, size_t *count, const char *text) {
    for (size_t i = 0; i < *count; i++)
        if (strcmp(list[i], text) == 0) {
            free(list[i]);
            list[i] = list[--*count];
            return;
        }
}

static void clear(char **list, size_t *count) {
    while (*count > 0)
        free(list[--*count]);
}

static void find_files(struct world *w, const char *path) {
    DIR *dir = opendir(path);
    struct dirent *entry;

    assert_non_null(dir);
    while ((entry = readdir(dir)) != NULL) {
        char inner[FOLDER_PATH * 2], uri[FOLDER_PATH * 2 + 8];

        if (entry->d_name[0] == '.')
            continue;
        snprintf(inner, sizeof(inner), "%s/%s", path, entry->d_name);
        snprintf(uri, sizeof(uri), "file://%s", inner);
        if (entry->d_type == DT_DIR)
            find_files(w, inner);
        else
            add(w->found, &w->n_found, uri);
    }
    closedir(dir);
}

static void follow_list(struct world *w) {
    for (; w->at < w->harness.count; w->at++) {
        const struct happening *h = &w->harness.happenings[w->at];

        if (h->kind == LISTED)
            add(w->listed, &w->n_listed, h->uri);
        else if (h->kind == UNLISTED)
            take(w->listed, &w->n_listed, h->uri);
    }
}

/* Whether what was told of a file is what it holds. */
static bool is_told(struct world *w, const char *uri) {
    const char *told = tdg__source_checksum(w->harness.source, uri);
    char text[4096], checksum[TDG__CHECKSUM + 1];
    int fd = open(uri + strlen("file://"), O_RDONLY | O_CLOEXEC);
    ssize_t len = fd >= 0 ? read(fd, text, sizeof(text)) : -1;

    if (fd >= 0)
        close(fd);
    if (len < 0)
        return told == NULL;
    assert_int_equal(tdg__checksum(text, (size_t)len, checksum), 0);
    return told != NULL && strcmp(told, checksum) == 0;
}

static bool agrees(void *arg) {
    struct world *w = arg;

    follow_list(w);

    bool same = w->n_listed == w->n_found;

    for (size_t i = 0; i < w->n_found && same; i++) {
        size_t before = w->n_listed;

        add(w->listed, &w->n_listed, w->found[i]);
        if (w->n_listed > before) { /* was not there */
            take(w->listed, &w->n_listed, w->found[i]);
            same = false;
        }
    }
    for (size_t i = 0; i < TARGETS && same; i++)
        same = is_told(w, w->watched[i]);
    return same;
}

/* Says what differs before the wait is given up. */
static void wait_for_agreement(struct world *w) {
    uv_update_time(&w->harness.loop);

    uint64_t deadline = uv_now(&w->harness.loop) + 50000;

    while (!agrees(w) && uv_now(&w->harness.loop) < deadline)
        uv_run(&w->harness.loop, UV_RUN_ONCE);
    if (agrees(w))
        return;
    for (size_t i = 0; i < w->n_listed; i++)
        printf("# listed: %s\n", w->listed[i]);
    for (size_t i = 0; i < w->n_found; i++)
        printf("# there: %s\n", w->found[i]);
    for (size_t i = 0; i < TARGETS; i++)
        if (!is_told(w, w->watched[i]))
            printf("# not told: %s\n", w->watched[i]);
    fail_msg("they do not agree; TDG_SEED=%llu", (unsigned long long)w->dice.seed);
}

/* ---- The test ----------------------------------------------------------- */

static void watch_some(struct world *w) {
    for (size_t i = 0; i < TARGETS; i++) {
        char path[FOLDER_PATH];
        bool is_new = true;

        any_path(w, path);
        snprintf(w->watched[i], FOLDER_PATH, "file://%.*s", FOLDER_PATH - 8, path);
        for (size_t j = 0; j < i; j++)
            is_new = is_new && strcmp(w->watched[i], w->watched[j]) != 0;
        if (is_new)
            harness_watch(&w->harness, w->watched[i]);
    }
}

static void run(const char *options) {
    struct world *w = calloc(1, sizeof(*w));
    char yaml[512];

    assert_non_null(w);
    w->dice = dice_from_env();
    printf("# TDG_SEED=%llu\n", (unsigned long long)w->dice.seed);
    folder_create(&w->folder);
    folder_mkdir(&w->folder, "root");
    snprintf(yaml, sizeof(yaml), "files: %s/root\n%s", w->folder.path, options);
    harness_open(&w->harness, yaml);
    watch_some(w);
    for (unsigned round = 0; round < often(ROUNDS); round++) {
        char root[FOLDER_PATH];

        for (int i = 0; i < OPERATIONS; i++) {
            do_something(w);
            if (roll(&w->dice, 4) == 0)
                uv_run(&w->harness.loop, UV_RUN_NOWAIT);
        }
        if (roll(&w->dice, 2) == 0)
            replace_and_be_late(w);
        folder_path(&w->folder, "root", root);
        clear(w->found, &w->n_found);
        find_files(w, root);
        wait_for_agreement(w);
    }
    harness_close(&w->harness);
    clear(w->found, &w->n_found);
    clear(w->listed, &w->n_listed);
    folder_destroy(&w->folder);
    free(w);
}

static void the_list_and_what_is_told_come_to_agree(void **state) {
    (void)state;
    run("settle: 20ms\n");
}

static void and_so_they_do_without_a_wait_for_saves(void **state) {
    (void)state;
    run("settle: 0\n");
}

static void and_so_they_do_by_polling(void **state) {
    (void)state;
    run("poll: 10ms\nsettle: 20ms\n");
}

/* ---- While it is read --------------------------------------------------- */

/* Another folder, and so many files in it that reading it takes its time. */
static void replace_by_a_large_one(struct world *w) {
    char path[FOLDER_PATH], name[32];

    folder_path(&w->folder, "root/b", path);
    remove_all(path);
    folder_mkdir(&w->folder, "root/b");
    for (int i = 0; i < LARGE; i++) {
        snprintf(name, sizeof(name), "root/b/%d", i);
        folder_write(&w->folder, name, "");
    }
}

/* Any time, mostly while the walk is there. */
static void look_for_a_while(struct world *w) {
    const struct timespec pause = {.tv_nsec = 20000};

    for (uint32_t turns = 1 + roll(&w->dice, 200); turns > 0; turns--) {
        uv_run(&w->harness.loop, UV_RUN_NOWAIT);
        nanosleep(&pause, NULL);
    }
}

/* The folder in it is another one than before, too, however the walk and the events
 * meet. */
static void what_comes_into_a_replaced_folder_as_it_is_read_is_told(void **state) {
    struct world *w = calloc(1, sizeof(*w));
    char yaml[512], path[FOLDER_PATH], uri[FOLDER_PATH + 8], text[16];

    (void)state;
    assert_non_null(w);
    w->dice = dice_from_env();
    folder_create(&w->folder);
    folder_mkdir(&w->folder, "root");
    folder_path(&w->folder, "root/b/c/a", path);
    snprintf(uri, sizeof(uri), "file://%s", path);
    snprintf(yaml, sizeof(yaml), "files: %s/root\nsettle: 20ms\n", w->folder.path);
    harness_open(&w->harness, yaml);
    harness_watch(&w->harness, uri);
    for (unsigned i = 0; i < often(REPLACED); i++) {
        replace_by_a_large_one(w);
        look_for_a_while(w);
        snprintf(text, sizeof(text), "%u", i);
        folder_mkdir(&w->folder, "root/b/c");
        folder_write(&w->folder, "root/b/c/a", text);
        harness_wait_for_text(&w->harness, uri, text);
    }
    harness_close(&w->harness);
    folder_destroy(&w->folder);
    free(w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_list_and_what_is_told_come_to_agree),
        cmocka_unit_test(and_so_they_do_without_a_wait_for_saves),
        cmocka_unit_test(and_so_they_do_by_polling),
        cmocka_unit_test(what_comes_into_a_replaced_folder_as_it_is_read_is_told),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("files_random", tests, NULL, NULL);
}

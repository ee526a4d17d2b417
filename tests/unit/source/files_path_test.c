/* SPDX-License-Identifier: MIT */
#include "source/files/files_path.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "support.h"
#include "unit/source/folder.h"

/* ---- URIs --------------------------------------------------------------- */

static void paths_become_uris_and_come_back(void **state) {
    static const struct {
        const char *path, *uri;
    } cases[] = {
        {"a.md", "x://a.md"},
        {"a b/c", "x://a%20b/c"},
        {"100%", "x://100%25"},
        {"a?b#c", "x://a%3Fb%23c"},
        {"\xc3\xa9", "x://%C3%A9"},
        {"\xff\n", "x://%FF%0A"},
        {"[x]{y}", "x://%5Bx%5D%7By%7D"},
        {"a+b,c;d=e&f@g:h!$'", "x://a+b,c;d=e&f@g:h!$'"},
        {"...", "x://..."},
        {"a/..b/.c", "x://a/..b/.c"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        char back[TDG__FILES_MAX_PATH];
        char *uri = tdg__files_uri("x://", cases[i].path);

        assert_string_equal(uri, cases[i].uri);
        assert_true(tdg__files_path(uri + 4, strlen(uri + 4), back));
        assert_string_equal(back, cases[i].path);
        tdg__free(uri);
    }
}

static void what_leaves_the_folder_is_no_path(void **state) {
    static const char *const bad[] = {
        "",      ".",     "..",    "../a",   "a/..",       "a/../b", "a/./b",
        "a//b",  "/a",    "a/",    "%2e%2e", "%2E./a",     "a/.%2e", "a/%2e%2e/b",
        "a%2fb", "a%2Fb", "a%00b", "%2e",    "a/%2e/b",    "a?b",    "a#b",
        "a%",    "a%2",   "a%zz",  "%",      "a%2f..%2fb",
    };
    char out[TDG__FILES_MAX_PATH], large[TDG__FILES_MAX_PATH + 8];

    (void)state;
    for (size_t i = 0; i < COUNT(bad); i++)
        if (tdg__files_path(bad[i], strlen(bad[i]), out))
            fail_msg("accepted: %s as %s", bad[i], out);

    for (size_t i = 0; i < sizeof(large); i++)
        large[i] = i % 2 == 0 ? 'a' : '/';
    large[sizeof(large) - 1] = 'a';
    assert_false(tdg__files_path(large, sizeof(large), out));
    memset(large, 'a', 256);
    assert_false(tdg__files_path(large, 256, out));
    assert_true(tdg__files_path(large, 255, out));
}

static void hidden_is_a_leading_dot_anywhere_on_the_way(void **state) {
    (void)state;
    assert_true(tdg__files_is_hidden(".a"));
    assert_true(tdg__files_is_hidden("a/.b/c"));
    assert_true(tdg__files_is_hidden("a/.b"));
    assert_true(tdg__files_is_hidden("a/b.md~"));
    assert_true(tdg__files_is_hidden("#a.md#"));
    assert_true(tdg__files_is_hidden(".#a.md"));
    assert_true(tdg__files_is_hidden(".a.md.swp"));
    assert_true(tdg__files_is_hidden("a/4913"));
    assert_true(tdg__files_is_hidden("a/b.md.bak"));
    assert_true(tdg__files_is_hidden("b.md.orig"));
    assert_true(tdg__files_is_hidden("old.bak/b.md"));
    assert_false(tdg__files_is_hidden("a/bak"));
    assert_false(tdg__files_is_hidden("orig"));
    assert_false(tdg__files_is_hidden("a.original"));
    assert_false(tdg__files_is_hidden("a.bak.md"));
    assert_true(tdg__files_is_hidden("a.md___jb_tmp___"));
    assert_true(tdg__files_is_hidden("a~/b"));
    assert_false(tdg__files_is_hidden("~a/b#/#c"));
    assert_false(tdg__files_is_hidden("a/49130"));
    assert_false(tdg__files_is_hidden("#"));
    assert_false(tdg__files_is_hidden("a.b/c."));
}

/* ---- Opening ------------------------------------------------------------ */

static int opened(int root, const char *path, unsigned flags) {
    int fd = tdg__files_open(root, path, O_RDONLY, flags);

    if (fd >= 0)
        close(fd);
    return fd < 0 ? fd : 0;
}

static void only_links_that_stay_inside_are_followed(void **state) {
    struct folder f;
    int root;

    (void)state;
    folder_create(&f);
    folder_write(&f, "outside.txt", "secret");
    folder_mkdir(&f, "root/sub/deep");
    folder_write(&f, "root/sub/a.txt", "a");
    folder_link(&f, "sub/a.txt", "root/inside");
    folder_link(&f, "../sub/a.txt", "root/sub/up");
    folder_link(&f, "../outside.txt", "root/outside");
    folder_link(&f, "/etc/passwd", "root/absolute");
    folder_link(&f, "sub", "root/folder");
    folder_link(&f, "..", "root/parent");
    folder_link(&f, "loop", "root/loop");
    folder_link(&f, "inside", "root/twice");
    folder_link(&f, "/proc/self/cwd/x", "root/magic");
    root = folder_open(&f, "root");

    for (unsigned old = 0; old <= TDG__FILES_NO_OPENAT2; old += TDG__FILES_NO_OPENAT2) {
        unsigned follow = TDG__FILES_FOLLOW | old;

        assert_int_equal(opened(root, "sub/a.txt", old), 0);
        assert_int_equal(opened(root, "", old), 0);
        assert_int_equal(opened(root, "sub/none", old), -ENOENT);
        assert_int_equal(opened(root, "inside", old), -ELOOP);
        /* Without openat2 no link is followed. */
        assert_int_equal(opened(root, "inside", follow), old ? -ELOOP : 0);
        assert_int_equal(opened(root, "sub/up", follow), old ? -ELOOP : 0);
        assert_int_equal(opened(root, "twice", follow), old ? -ELOOP : 0);
        assert_int_equal(opened(root, "outside", follow), old ? -ELOOP : -EXDEV);
        assert_int_equal(opened(root, "absolute", follow), old ? -ELOOP : -EXDEV);
        assert_true(opened(root, "magic", follow) < 0);
        assert_true(opened(root, "loop", follow) < 0);
        /* A link on the way is no way. */
        assert_true(opened(root, "folder/a.txt", follow) < 0);
        assert_true(opened(root, "parent/outside.txt", follow) < 0);
        assert_true(opened(root, "parent/root/sub/a.txt", follow) < 0);
    }
    close(root);
    folder_destroy(&f);
}

/* ---- The race ----------------------------------------------------------- */

struct swapper {
    struct folder *folder;
    atomic_bool stop;
    atomic_ulong swaps;
};

/* "root/sub" is by turns a folder and a link to the folder outside, and so is the file
 * "root/file". */
static void *swap(void *arg) {
    struct swapper *s = arg;
    char sub[FOLDER_PATH], dir[FOLDER_PATH], link[FOLDER_PATH], file[FOLDER_PATH],
        good[FOLDER_PATH], bad[FOLDER_PATH];

    folder_path(s->folder, "root/sub", sub);
    folder_path(s->folder, "root/dir", dir);
    folder_path(s->folder, "root/link", link);
    folder_path(s->folder, "root/file", file);
    folder_path(s->folder, "root/good", good);
    folder_path(s->folder, "root/bad", bad);
    for (; !atomic_load(&s->stop); s->swaps++) {
        /* Errors are none: the next round puts it right. */
        (void)!rename(sub, dir);
        (void)!rename(link, sub);
        (void)!rename(sub, link);
        (void)!rename(dir, sub);
        (void)!rename(file, good);
        (void)!rename(bad, file);
        (void)!rename(file, bad);
        (void)!rename(good, file);
    }
    return NULL;
}

static void nobody_gets_out_by_swapping(void **state) {
    static const char *const paths[] = {"sub/a.txt", "file"};
    struct swapper s = {0};
    struct folder f;
    pthread_t thread;
    unsigned inside = 0;

    (void)state;
    folder_create(&f);
    s.folder = &f;
    folder_mkdir(&f, "out");
    folder_write(&f, "out/a.txt", "secret");
    folder_mkdir(&f, "root/sub");
    folder_write(&f, "root/sub/a.txt", "public");
    folder_write(&f, "root/file", "public");
    folder_link(&f, "../out", "root/link");
    folder_link(&f, "../out/a.txt", "root/bad");

    int root = folder_open(&f, "root");

    assert_int_equal(pthread_create(&thread, NULL, swap, &s), 0);
    while (s.swaps == 0) /* until it has begun */
        usleep(100);
    for (int i = 0; i < 40000; i++) {
        unsigned flags = TDG__FILES_FOLLOW | (i % 4 < 2 ? TDG__FILES_NO_OPENAT2 : 0);
        char text[16] = "";
        int fd = tdg__files_open(root, paths[i % 2], O_RDONLY, flags);

        if (fd < 0)
            continue;
        assert_true(read(fd, text, sizeof(text) - 1) >= 0);
        close(fd);
        assert_string_equal(text, "public");
        inside++;
    }
    atomic_store(&s.stop, true);
    pthread_join(thread, NULL);
    assert_true(inside > 0);
    close(root);
    folder_destroy(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(paths_become_uris_and_come_back),
        cmocka_unit_test(what_leaves_the_folder_is_no_path),
        cmocka_unit_test(hidden_is_a_leading_dot_anywhere_on_the_way),
        cmocka_unit_test(only_links_that_stay_inside_are_followed),
        cmocka_unit_test(nobody_gets_out_by_swapping),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("files_path", tests, NULL, NULL);
}

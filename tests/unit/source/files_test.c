/* SPDX-License-Identifier: MIT
 *
 * Real files in a temporary folder. "root" is served; what is beside it is outside. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "source/files/files.h"
#include "support.h"
#include "unit/source/folder.h"
#include "unit/source/harness.h"

struct fixture {
    struct folder folder;
    struct harness harness;
    bool is_open;
};

static int setup(void **state) {
    struct fixture *f = state_create(state, sizeof(*f));

    folder_create(&f->folder);
    folder_mkdir(&f->folder, "root");
    return 0;
}

static int teardown(void **state) {
    struct fixture *f = *state;

    if (f->is_open)
        harness_close(&f->harness);
    folder_destroy(&f->folder);
    return state_destroy(state);
}

static void serve_name(struct fixture *f, const char *name, const char *options) {
    char yaml[2048];

    snprintf(yaml, sizeof(yaml), "files: %s/%s\n%s", f->folder.path, name, options);
    harness_open(&f->harness, yaml);
    f->is_open = true;
    harness_wait(&f->harness, READY, NULL);
}

static void serve(struct fixture *f, const char *options) {
    serve_name(f, "root", options);
}

/* The URI of a name; valid for the next three calls. */
static const char *uri(struct fixture *f, const char *name) {
    static char uris[4][FOLDER_PATH];
    static unsigned next;
    char *out = uris[next++ % COUNT(uris)];

    snprintf(out, sizeof(uris[0]), "file://%s/root/%s", f->folder.path, name);
    return out;
}

static size_t listed(struct fixture *f, const char *name) {
    return harness_count(&f->harness, LISTED, uri(f, name));
}

static int status_of(struct fixture *f, const char *target, char *error) {
    struct reading reading = harness_read(&f->harness, target);
    int status = reading.status;

    if (error != NULL)
        snprintf(error, 128, "%s", reading.error != NULL ? reading.error : "");
    reading_done(&reading);
    return status;
}

static const char *change_type(const struct happening *happening) {
    return json_string_value(json_object_get(happening->metadata, "change_type"));
}

static void hard_link(struct fixture *f, const char *from, const char *to) {
    char old[FOLDER_PATH], new[FOLDER_PATH];

    folder_path(&f->folder, from, old);
    folder_path(&f->folder, to, new);
    assert_int_equal(link(old, new), 0);
}

/* Serves "root" (or another name) but for one file in the folder of the test. */
static void serve_without(struct fixture *f, const char *name, const char *never,
                          const char *options) {
    char yaml[2048], path[FOLDER_PATH];

    snprintf(yaml, sizeof(yaml), "files: %s/%s\n%s", f->folder.path, name, options);
    folder_path(&f->folder, never, path);
    harness_open_without(&f->harness, yaml, path);
    f->is_open = true;
    harness_wait(&f->harness, READY, NULL);
}

/* ---- The list ----------------------------------------------------------- */

static void lists_what_is_there(void **state) {
    struct fixture *f = *state;

    folder_mkdir(&f->folder, "root/sub/deep");
    folder_mkdir(&f->folder, "root/.git");
    folder_write(&f->folder, "root/a.md", "# A");
    folder_write(&f->folder, "root/sub/deep/b.json", "{}");
    folder_write(&f->folder, "root/.hidden", "x");
    folder_write(&f->folder, "root/.git/config", "x");
    serve(f, "");

    struct happening *a = harness_wait(&f->harness, LISTED, uri(f, "a.md"));
    assert_string_equal(a->mime_type, "text/markdown");
    assert_int_equal(a->size, 3);
    struct happening *b = harness_wait(&f->harness, LISTED, uri(f, "sub/deep/b.json"));
    assert_string_equal(b->mime_type, "application/json");
    assert_int_equal(harness_count(&f->harness, LISTED, NULL), 0);
}

/* The config itself: by no name, and not after it was replaced either. */
static void one_file_is_never_served(void **state) {
    struct fixture *f = *state;

    folder_mkdir(&f->folder, "root/sub");
    folder_write(&f->folder, "root/sub/t.yaml", "key: secret");
    folder_write(&f->folder, "root/sub/u.yaml", "key: none");
    folder_link(&f->folder, "sub/t.yaml", "root/soft");
    hard_link(f, "root/sub/t.yaml", "root/hard");
    serve_without(f, "root", "root/sub/t.yaml", "");
    harness_wait(&f->harness, LISTED, uri(f, "sub/u.yaml"));
    assert_int_equal(harness_count(&f->harness, LISTED, NULL), 0);
    assert_false(tdg__source_owns(f->harness.source, uri(f, "sub/t.yaml")));
    assert_int_equal(status_of(f, uri(f, "sub/t.yaml"), NULL), TDG_ENOTFOUND);
    assert_int_equal(status_of(f, uri(f, "soft"), NULL), TDG_ENOTFOUND);
    assert_int_equal(status_of(f, uri(f, "hard"), NULL), TDG_ENOTFOUND);

    char template_[FOLDER_PATH];

    snprintf(template_, sizeof(template_), "file://%s/root/{+path}", f->folder.path);
    harness_watch_template(&f->harness, template_);
    folder_replace(&f->folder, "root/sub/t.yaml", "key: another");
    folder_write(&f->folder, "root/last", "x");
    harness_wait(&f->harness, CHANGED, uri(f, "last"));
    assert_int_equal(harness_count(&f->harness, LISTED, uri(f, "sub/t.yaml")), 0);
    assert_int_equal(harness_count(&f->harness, CHANGED, uri(f, "sub/t.yaml")), 0);
    assert_int_equal(status_of(f, uri(f, "sub/t.yaml"), NULL), TDG_ENOTFOUND);
    assert_int_equal(status_of(f, uri(f, "soft"), NULL), TDG_ENOTFOUND);
}

/* Its name below the root is not known then. */
static void nor_is_it_in_a_folder_that_comes_later(void **state) {
    struct fixture *f = *state;

    folder_mkdir(&f->folder, "aside");
    folder_write(&f->folder, "aside/t.yaml", "key: secret");
    folder_write(&f->folder, "aside/u.yaml", "key: none");
    folder_remove(&f->folder, "root");
    serve_without(f, "root", "aside/t.yaml", "");
    folder_link(&f->folder, "aside", "root");
    harness_wait(&f->harness, LISTED, uri(f, "u.yaml"));
    harness_expect(&f->harness, uri(f, "u.yaml"), "key: none");
    assert_int_equal(listed(f, "t.yaml"), 0);
    assert_int_equal(status_of(f, uri(f, "t.yaml"), NULL), TDG_ENOTFOUND);
}

static void nor_is_it_by_an_entry_of_its_own(void **state) {
    struct fixture *f = *state;

    folder_write(&f->folder, "root/t.yaml", "key: secret");
    serve_without(f, "root/t.yaml", "root/t.yaml", "uri: x:config\n");
    harness_wait(&f->harness, LOGGED, "never served");
    assert_int_equal(harness_count(&f->harness, LISTED, NULL), 0);
    assert_int_equal(status_of(f, "x:config", NULL), TDG_ENOTFOUND);
}

static void lists_hidden_names_when_asked(void **state) {
    struct fixture *f = *state;

    folder_mkdir(&f->folder, "root/.git");
    folder_write(&f->folder, "root/.git/config", "x");
    serve(f, "hidden: true\n");
    assert_int_equal(listed(f, ".git/config"), 1);
    assert_true(tdg__source_owns(f->harness.source, uri(f, ".env")));
}

static void globs_choose(void **state) {
    struct fixture *f = *state;

    folder_mkdir(&f->folder, "root/docs/old");
    folder_mkdir(&f->folder, "root/node_modules/x");
    folder_write(&f->folder, "root/docs/a.md", "x");
    folder_write(&f->folder, "root/docs/a.txt", "x");
    folder_write(&f->folder, "root/docs/old/b.md", "x");
    folder_write(&f->folder, "root/node_modules/x/c.md", "x");
    serve(f, "include: ['*.md']\nexclude: [node_modules, docs/old]\n");
    assert_int_equal(listed(f, "docs/a.md"), 1);
    assert_int_equal(harness_count(&f->harness, LISTED, NULL), 1);

    /* Nor later, nor by a client that guesses. */
    folder_write(&f->folder, "root/docs/b.txt", "x");
    folder_write(&f->folder, "root/docs/old/c.md", "x");
    folder_write(&f->folder, "root/docs/c.md", "x");
    harness_wait(&f->harness, LISTED, uri(f, "docs/c.md"));
    assert_int_equal(listed(f, "docs/b.txt") + listed(f, "docs/old/c.md"), 0);
    assert_int_equal(status_of(f, uri(f, "docs/a.txt"), NULL), TDG_ENOTFOUND);
    assert_int_equal(status_of(f, uri(f, "docs/old/b.md"), NULL), TDG_ENOTFOUND);
}

static void the_list_follows_without_a_watcher(void **state) {
    struct fixture *f = *state;

    serve(f, "");
    folder_write(&f->folder, "root/a.txt", "one");
    while (harness_wait(&f->harness, LISTED, uri(f, "a.txt"))->size != 3) {
    }
    folder_append(&f->folder, "root/a.txt", " two");
    while (harness_wait(&f->harness, LISTED, uri(f, "a.txt"))->size != 7) {
    }
    folder_rename(&f->folder, "root/a.txt", "root/b.txt");
    harness_wait(&f->harness, UNLISTED, uri(f, "a.txt"));
    harness_wait(&f->harness, LISTED, uri(f, "b.txt"));
    folder_remove(&f->folder, "root/b.txt");
    harness_wait(&f->harness, UNLISTED, uri(f, "b.txt"));
}

/* Whether somebody is subscribed or not, and whatever comes next. */
static void what_goes_is_unlisted_however_long_it_cannot_be_told(void **state) {
    struct fixture *f = *state;
    char template_[FOLDER_PATH];

    folder_mkdir(&f->folder, "root/sub/deep");
    folder_write(&f->folder, "root/sub/a", "x");
    folder_write(&f->folder, "root/sub/b", "x");
    folder_write(&f->folder, "root/sub/deep/c", "x");
    serve(f, "settle: 0s\nretry: 1ms\nretry-max: 1ms\n");
    f->harness.refuses_news = 3;
    folder_remove(&f->folder, "root/sub/deep");
    harness_wait(&f->harness, UNLISTED, uri(f, "sub/deep/c"));
    assert_int_equal(f->harness.refuses_news, 0);

    snprintf(template_, sizeof(template_), "file://%s/root/{+path}", f->folder.path);
    harness_watch_template(&f->harness, template_);
    f->harness.refuses_news = 9;
    folder_remove(&f->folder, "root/sub");
    folder_write(&f->folder, "root/sub", "a file");
    harness_wait(&f->harness, UNLISTED, uri(f, "sub/a"));
    harness_wait(&f->harness, UNLISTED, uri(f, "sub/b"));
    harness_wait(&f->harness, LISTED, uri(f, "sub"));
    assert_int_equal(f->harness.refuses_news, 0);
}

static void more_than_max_files_are_left_out_until_there_is_room(void **state) {
    struct fixture *f = *state;

    for (int i = 0; i < 8; i++) {
        char name[32];

        snprintf(name, sizeof(name), "root/%d", i);
        folder_write(&f->folder, name, "x");
    }
    serve(f, "max-files: 5\nretry: 10ms\n");
    harness_wait(&f->harness, LOGGED, "max-files");
    assert_int_equal(harness_count(&f->harness, LISTED, NULL), 5);
    for (int i = 0; i < 5; i++)
        harness_wait(&f->harness, LISTED, NULL);
    for (int i = 0; i < 8; i++) {
        char name[32];

        snprintf(name, sizeof(name), "root/%d", i);
        folder_remove(&f->folder, name);
    }
    for (int i = 0; i < 5; i++)
        harness_wait(&f->harness, UNLISTED, NULL);
    folder_write(&f->folder, "root/late", "x");
    harness_wait(&f->harness, LISTED, uri(f, "late"));
}

/* What looks after links and the root has done so, and waits for the next time. */
static bool has_looked(void *arg) {
    return uv_timer_get_due_in(arg) > 1;
}

/* Nothing more fits, so nothing is gained by walking it again and again. */
static void a_full_list_is_not_read_again(void **state) {
    struct fixture *f = *state;
    char path[FOLDER_PATH], template_[FOLDER_PATH];
    struct inotify_event event;
    uv_timer_t *timer;
    int fd;

    for (int i = 0; i < 8; i++) {
        char name[32];

        snprintf(name, sizeof(name), "root/%d", i);
        folder_write(&f->folder, name, "x");
    }
    serve(f, "max-files: 5\n");
    snprintf(template_, sizeof(template_), "%s", uri(f, "{+path}"));
    harness_watch_template(&f->harness, template_);
    folder_path(&f->folder, "root", path);
    fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    assert_true(inotify_add_watch(fd, path, IN_ACCESS | IN_ONLYDIR) >= 0);

    timer = &((tdg__files_t *)f->harness.source)->timer;
    assert_true(has_looked(timer));
    uv_timer_set_repeat(timer, 1);
    assert_int_equal(uv_timer_again(timer), 0); /* now, and not in two seconds */
    uv_timer_set_repeat(timer, 0);
    harness_until(&f->harness, has_looked, timer);
    /* Nobody has read the folder. */
    assert_int_equal(read(fd, &event, sizeof(event)), -1);
    assert_int_equal(errno, EAGAIN);
    close(fd);
}

static void odd_names_are_encoded(void **state) {
    static const struct {
        const char *name, *encoded;
    } cases[] = {
        {"a b.txt", "a%20b.txt"},
        {"100%.txt", "100%25.txt"},
        {"q?h#.txt", "q%3Fh%23.txt"},
        {"{x}.txt", "%7Bx%7D.txt"},
        {"\xc3\xa9.txt", "%C3%A9.txt"},
        {"\xff\xfe.txt", "%FF%FE.txt"}, /* no UTF-8: left out */
        {"line\nbreak.txt", "line%0Abreak.txt"},
        {"..dots..", "%2E.dots.."}, /* hidden */
        {"a..b", "a..b"},
    };
    struct fixture *f = *state;

    for (size_t i = 0; i < COUNT(cases); i++) {
        char name[64];

        snprintf(name, sizeof(name), "root/%s", cases[i].name);
        folder_write(&f->folder, name, cases[i].name);
    }
    serve(f, "");
    for (size_t i = 0; i < COUNT(cases); i++) {
        bool is_served = cases[i].name[0] != '.' && cases[i].name[0] != '\xff';

        assert_int_equal(listed(f, cases[i].encoded), is_served);
        if (is_served)
            harness_expect(&f->harness, uri(f, cases[i].encoded), cases[i].name);
    }
}

/* ---- Reading ------------------------------------------------------------ */

static void reads_content_and_says_what_it_is(void **state) {
    struct fixture *f = *state;
    struct stat st;
    char path[FOLDER_PATH];

    folder_mkdir(&f->folder, "root/sub");
    folder_write(&f->folder, "root/sub/a.md", "# A");
    serve(f, "");
    folder_path(&f->folder, "root/sub/a.md", path);
    assert_int_equal(stat(path, &st), 0);

    struct reading reading = harness_read(&f->harness, uri(f, "sub/a.md"));

    assert_int_equal(reading.status, 0);
    assert_string_equal(reading.data, "# A");
    assert_string_equal(reading.mime_type, "text/markdown");
    assert_string_equal(json_string_value(json_object_get(reading.metadata, "path")),
                        "sub/a.md");
    assert_int_equal(json_integer_value(json_object_get(reading.metadata, "size")), 3);
    assert_int_equal(json_integer_value(json_object_get(reading.metadata, "updated_at")),
                     (int64_t)st.st_mtim.tv_sec * 1000 + st.st_mtim.tv_nsec / 1000000);
    reading_done(&reading);
}

static void reads_to_the_end_whatever_the_size(void **state) {
    static const size_t sizes[] = {0,     1,     511,   512,   513,   16383,
                                   16384, 16385, 70000, 99999, 100000};
    struct fixture *f = *state;

    serve(f, "max-size: 100000\n");
    for (size_t i = 0; i < COUNT(sizes); i++) {
        char *text = calloc(1, sizes[i] + 1), name[32];

        memset(text, 'x', sizes[i]);
        snprintf(name, sizeof(name), "root/%zu", i);
        folder_write(&f->folder, name, text);
        harness_expect(&f->harness, uri(f, name + 5), text); /* not known yet */
        harness_wait(&f->harness, LISTED, uri(f, name + 5));
        harness_expect(&f->harness, uri(f, name + 5), text); /* known */
        folder_append(&f->folder, name, "more than we thought");
        if (sizes[i] < 99000) {
            text = realloc(text, sizes[i] + 32);
            strcat(text, "more than we thought");
            harness_expect(&f->harness, uri(f, name + 5), text);
        } else {
            assert_int_equal(status_of(f, uri(f, name + 5), NULL), TDG_ETOOLARGE);
        }
        free(text);
    }
}

static void what_is_no_file_is_not_there(void **state) {
    struct fixture *f = *state;

    folder_mkdir(&f->folder, "root/sub");
    serve(f, "");
    assert_int_equal(harness_count(&f->harness, LISTED, NULL), 0);
    assert_int_equal(status_of(f, uri(f, "sub"), NULL), TDG_ENOTFOUND);
    assert_int_equal(status_of(f, uri(f, "none"), NULL), TDG_ENOTFOUND);
    assert_int_equal(status_of(f, uri(f, "none/none"), NULL), TDG_ENOTFOUND);
}

/* Its writer would die of SIGPIPE. */
static void a_fifo_is_not_opened(void **state) {
    struct fixture *f = *state;
    int guard = folder_guard_fifo(&f->folder, "root/fifo");

    folder_link(&f->folder, "fifo", "root/link");
    serve(f, "");
    assert_int_equal(harness_count(&f->harness, LISTED, NULL), 0);
    harness_watch(&f->harness, uri(f, "fifo"));
    assert_int_equal(status_of(f, uri(f, "fifo"), NULL), TDG_ENOTFOUND);
    assert_int_equal(status_of(f, uri(f, "link"), NULL), TDG_ENOTFOUND);
    assert_false(folder_was_opened(guard));
}

static void a_fifo_that_an_entry_names_is_not_opened(void **state) {
    struct fixture *f = *state;
    int guard = folder_guard_fifo(&f->folder, "root/fifo");

    serve_name(f, "root/fifo", "");
    harness_watch(&f->harness, uri(f, "fifo"));
    assert_int_equal(status_of(f, uri(f, "fifo"), NULL), TDG_ENOTFOUND);
    assert_false(folder_was_opened(guard));
}

/* Nor listed, also where it comes later. */
static void a_socket_is_not_opened(void **state) {
    struct fixture *f = *state;

    folder_socket(&f->folder, "root/socket");
    folder_link(&f->folder, "socket", "root/link");
    serve(f, "");
    harness_watch(&f->harness, uri(f, "socket"));
    folder_socket(&f->folder, "root/later");
    folder_write(&f->folder, "root/mark", "");
    harness_wait(&f->harness, LISTED, uri(f, "mark"));
    assert_int_equal(harness_count(&f->harness, LISTED, NULL), 0);
    assert_int_equal(status_of(f, uri(f, "socket"), NULL), TDG_ENOTFOUND);
    assert_int_equal(status_of(f, uri(f, "link"), NULL), TDG_ENOTFOUND);
    assert_int_equal(status_of(f, uri(f, "later"), NULL), TDG_ENOTFOUND);
}

static void a_device_is_not_opened(void **state) {
    struct fixture *f = *state;
    int guard;

    if (!folder_device(&f->folder, "root/device"))
        skip(); /* needs the right to make one */
    guard = folder_guard(&f->folder, "root/device");
    folder_link(&f->folder, "device", "root/link");
    serve(f, "");
    harness_watch(&f->harness, uri(f, "device"));
    assert_true(folder_device(&f->folder, "root/later"));
    folder_write(&f->folder, "root/mark", "");
    harness_wait(&f->harness, LISTED, uri(f, "mark"));
    assert_int_equal(harness_count(&f->harness, LISTED, NULL), 0);
    assert_int_equal(status_of(f, uri(f, "device"), NULL), TDG_ENOTFOUND);
    assert_int_equal(status_of(f, uri(f, "link"), NULL), TDG_ENOTFOUND);
    assert_int_equal(status_of(f, uri(f, "later"), NULL), TDG_ENOTFOUND);
    assert_false(folder_was_opened(guard));
}

static void a_device_that_an_entry_names_is_not_opened(void **state) {
    struct fixture *f = *state;
    int guard;

    if (!folder_device(&f->folder, "root/device"))
        skip();
    guard = folder_guard(&f->folder, "root/device");
    serve_name(f, "root/device", "");
    harness_watch(&f->harness, uri(f, "device"));
    assert_int_equal(status_of(f, uri(f, "device"), NULL), TDG_ENOTFOUND);
    assert_false(folder_was_opened(guard));
}

static void denied_permission_is_said_and_its_return_noticed(void **state) {
    struct fixture *f = *state;
    char path[FOLDER_PATH], error[128];

    if (geteuid() != 0)
        skip(); /* needs to be two users */
    folder_write(&f->folder, "root/a.txt", "secret");
    folder_path(&f->folder, "root/a.txt", path);
    assert_int_equal(chmod(path, 0600), 0);
    assert_int_equal(chmod(f->folder.path, 0755), 0);
    assert_int_equal(seteuid(65534), 0);
    serve(f, "");
    harness_watch(&f->harness, uri(f, "a.txt"));

    int status = status_of(f, uri(f, "a.txt"), error);

    assert_int_equal(seteuid(0), 0);
    assert_int_equal(chmod(path, 0644), 0);
    assert_int_equal(seteuid(65534), 0);
    harness_wait_for_text(&f->harness, uri(f, "a.txt"), "secret");
    assert_int_equal(seteuid(0), 0);
    assert_int_equal(status, TDG_EINVAL);
    assert_non_null(strstr(error, "denied"));
}

/* ---- What is ours ------------------------------------------------------- */

static void owns_only_what_is_inside_and_chosen(void **state) {
    static const struct {
        const char *name;
        bool ours;
    } cases[] = {
        {"a.md", true},
        {"not/there/yet", true},
        {"a%20b", true},
        {"...", false}, /* hidden */
        {"", false},
        {".", false},
        {"..", false},
        {"../root/a.md", false},
        {"sub/../a.md", false},
        {"sub/./a.md", false},
        {"%2e%2e/a.md", false},
        {"sub/%2E%2E/a.md", false},
        {"..%2fa.md", false},
        {"sub%2fa.md", false},
        {"a%00.md", false},
        {"sub//a.md", false},
        {"sub/", false},
        {".hidden", false},
        {"%2ehidden", false},
        {"sub/.hidden/x", false},
        {"skip/x", false},
        {"%61.md", false}, /* another spelling */
        {"a.md?x", false},
        {"a.md#x", false},
        {"a%2", false},
    };
    struct fixture *f = *state;

    serve(f, "exclude: skip\n");
    for (size_t i = 0; i < COUNT(cases); i++)
        if (tdg__source_owns(f->harness.source, uri(f, cases[i].name)) != cases[i].ours)
            fail_msg("\"%s\" should %sbe ours", cases[i].name,
                     cases[i].ours ? "" : "not ");
    assert_false(tdg__source_owns(f->harness.source, "file:///etc/passwd"));
    assert_false(tdg__source_owns(f->harness.source, "http://example.com/a.md"));

    /* And who reads all the same gets nothing. */
    folder_write(&f->folder, "outside.txt", "secret");
    assert_int_equal(status_of(f, uri(f, "../outside.txt"), NULL), TDG_ENOTFOUND);
    assert_int_equal(status_of(f, uri(f, "%2e%2e/outside.txt"), NULL), TDG_ENOTFOUND);
}

static void uris_come_from_a_template(void **state) {
    struct fixture *f = *state;

    folder_mkdir(&f->folder, "root/sub");
    folder_write(&f->folder, "root/sub/a b.md", "x");
    serve(f, "uri: docs://handbook/{+path}\n");
    harness_wait(&f->harness, LISTED, "docs://handbook/sub/a%20b.md");
    harness_expect(&f->harness, "docs://handbook/sub/a%20b.md", "x");
    assert_false(tdg__source_owns(f->harness.source, uri(f, "sub/a%20b.md")));
    harness_watch(&f->harness, "docs://handbook/sub/a%20b.md");
    folder_write(&f->folder, "root/sub/a b.md", "y");
    harness_wait_for_text(&f->harness, "docs://handbook/sub/a%20b.md", "y");
}

static void a_folder_without_a_uri_offers_a_template(void **state) {
    struct fixture *f = *state;

    serve(f, "");
    assert_string_equal(f->harness.source->entry.uri, uri(f, "{+path}"));
    assert_non_null(f->harness.source->template_);
}

static void bad_entries_are_refused(void **state) {
    struct fixture *f = *state;
    char yaml[512];

    folder_write(&f->folder, "file", "x");
    snprintf(yaml, sizeof(yaml), "files: %s\nuri: docs://x\n", f->folder.path);
    harness_refuses(yaml, "{+path}");
    snprintf(yaml, sizeof(yaml), "files: %s\nuri: docs://x/{path}\n", f->folder.path);
    harness_refuses(yaml, "{+path}");
    snprintf(yaml, sizeof(yaml), "files: %s\nuri: docs://{+a}/{+b}\n", f->folder.path);
    harness_refuses(yaml, "{+path}");
    snprintf(yaml, sizeof(yaml), "files: %s/file\nuri: docs://x/{+path}\n",
             f->folder.path);
    harness_refuses(yaml, "single file");
    snprintf(yaml, sizeof(yaml), "files: %s\ninclude: [a, '[b']\n", f->folder.path);
    harness_refuses(yaml, "include: \"[b\" is not a glob");
    snprintf(yaml, sizeof(yaml), "files: %s\nexclude: '{a'\n", f->folder.path);
    harness_refuses(yaml, "exclude: \"{a\" is not a glob");
    assert_int_equal(setenv("TDG_TEST_SECRET", "hidden", 1), 0);
    snprintf(yaml, sizeof(yaml), "files: %s\ninclude: '[${TDG_TEST_SECRET}'\n",
             f->folder.path);
    harness_refuses(yaml, "include: \"[${TDG_TEST_SECRET}\" is not a glob");
}

/* ---- Changes ------------------------------------------------------------ */

static void writing_in_every_way_is_told(void **state) {
    struct fixture *f = *state;
    char path[FOLDER_PATH];

    folder_write(&f->folder, "root/a.txt", "one");
    serve(f, "");
    harness_watch(&f->harness, uri(f, "a.txt"));
    folder_append(&f->folder, "root/a.txt", " two");
    harness_wait_for_text(&f->harness, uri(f, "a.txt"), "one two");
    folder_path(&f->folder, "root/a.txt", path);
    assert_int_equal(truncate(path, 3), 0);
    harness_wait_for_text(&f->harness, uri(f, "a.txt"), "one");
    folder_write(&f->folder, "root/a.txt", "three");
    harness_wait_for_text(&f->harness, uri(f, "a.txt"), "three");
    folder_replace(&f->folder, "root/a.txt", "four");
    harness_wait_for_text(&f->harness, uri(f, "a.txt"), "four");
    folder_remove(&f->folder, "root/a.txt");
    folder_write(&f->folder, "root/a.txt", "five");
    harness_wait_for_text(&f->harness, uri(f, "a.txt"), "five");
    folder_rename(&f->folder, "root/a.txt", "root/a.bak");
    folder_write(&f->folder, "root/a.txt", "six");
    harness_wait_for_text(&f->harness, uri(f, "a.txt"), "six");
}

static void the_same_content_is_not_told(void **state) {
    struct fixture *f = *state;

    folder_write(&f->folder, "root/a.txt", "one");
    folder_write(&f->folder, "root/b.txt", "one");
    serve(f, "");
    harness_watch(&f->harness, uri(f, "a.txt"));
    harness_watch(&f->harness, uri(f, "b.txt"));
    folder_replace(&f->folder, "root/a.txt", "one");
    folder_write(&f->folder, "root/b.txt", "two");
    harness_wait(&f->harness, CHANGED, uri(f, "b.txt"));
    assert_int_equal(harness_count(&f->harness, CHANGED, uri(f, "a.txt")), 0);
}

static void deleting_and_making_anew_are_told(void **state) {
    struct fixture *f = *state;

    folder_write(&f->folder, "root/a.txt", "one");
    serve(f, "");
    harness_watch(&f->harness, uri(f, "a.txt"));
    folder_remove(&f->folder, "root/a.txt");
    harness_wait(&f->harness, UNLISTED, uri(f, "a.txt"));
    assert_int_equal(status_of(f, uri(f, "a.txt"), NULL), TDG_ENOTFOUND);
    folder_replace(&f->folder, "root/a.txt", "two");

    struct happening *made = harness_wait(&f->harness, CHANGED, uri(f, "a.txt"));

    assert_string_equal(change_type(made), "created");
    harness_expect(&f->harness, uri(f, "a.txt"), "two");
}

static void a_file_that_does_not_exist_yet_can_be_watched(void **state) {
    struct fixture *f = *state;

    serve(f, "");
    harness_watch(&f->harness, uri(f, "not/yet/a.txt"));
    folder_mkdir(&f->folder, "root/not/yet");
    folder_replace(&f->folder, "root/not/yet/a.txt", "here");

    struct happening *made = harness_wait(&f->harness, CHANGED, uri(f, "not/yet/a.txt"));

    assert_string_equal(change_type(made), "created");
}

static void whoever_watches_the_template_hears_of_all(void **state) {
    struct fixture *f = *state;

    folder_write(&f->folder, "root/a.txt", "a");
    folder_write(&f->folder, "root/quiet.txt", "q");
    serve(f, "");
    harness_watch_template(&f->harness, f->harness.source->entry.uri);
    folder_write(&f->folder, "root/a.txt", "b");
    harness_wait_for_text(&f->harness, uri(f, "a.txt"), "b");
    folder_mkdir(&f->folder, "root/new");
    folder_write(&f->folder, "root/new/n.txt", "n");
    harness_wait_for_text(&f->harness, uri(f, "new/n.txt"), "n");
    folder_write(&f->folder, "root/.hidden", "h");
    folder_remove(&f->folder, "root/new");
    harness_wait(&f->harness, UNLISTED, uri(f, "new/n.txt"));
    folder_write(&f->folder, "root/a.txt", "c");
    harness_wait_for_text(&f->harness, uri(f, "a.txt"), "c");
    assert_int_equal(harness_count(&f->harness, CHANGED, uri(f, "quiet.txt")), 0);
    assert_int_equal(harness_count(&f->harness, CHANGED, uri(f, ".hidden")), 0);
}

static void what_comes_is_created_and_what_was_there_is_not(void **state) {
    static const struct {
        const char *name, *change_type;
    } expected[] = {
        {"old.txt", "content_update"},
        {"new.txt", "created"},
        {"sub/new.txt", "created"},
        {"moved.txt", "created"},
    };
    struct fixture *f = *state;

    folder_write(&f->folder, "root/old.txt", "o");
    folder_write(&f->folder, "outside.txt", "m");
    serve(f, "");
    harness_watch_template(&f->harness, f->harness.source->entry.uri);
    folder_write(&f->folder, "root/old.txt", "p");
    folder_write(&f->folder, "root/new.txt", "n");
    folder_mkdir(&f->folder, "root/sub");
    folder_write(&f->folder, "root/sub/new.txt", "n");
    folder_rename(&f->folder, "outside.txt", "root/moved.txt");
    for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
        struct happening *told =
            harness_wait(&f->harness, CHANGED, uri(f, expected[i].name));

        assert_string_equal(change_type(told), expected[i].change_type);
    }
    folder_write(&f->folder, "root/moved.txt", "again");
    assert_string_equal(
        change_type(harness_wait(&f->harness, CHANGED, uri(f, "moved.txt"))),
        "content_update");
}

/* ---- Folders ------------------------------------------------------------ */

static void files_in_new_folders_are_never_missed(void **state) {
    struct fixture *f = *state;

    serve(f, "");
    for (int i = 0; i < 200; i++) {
        char name[64];

        /* The file is there before anybody can have begun to watch its folder. */
        snprintf(name, sizeof(name), "root/%d/a/b", i);
        folder_mkdir(&f->folder, name);
        snprintf(name, sizeof(name), "root/%d/a/b/x", i);
        folder_write(&f->folder, name, "x");
        if (i % 10 == 0)
            uv_run(&f->harness.loop, UV_RUN_NOWAIT);
        snprintf(name, sizeof(name), "root/%d/a/y", i);
        folder_write(&f->folder, name, "y");
    }
    for (int i = 0; i < 200; i++) {
        char name[64];

        snprintf(name, sizeof(name), "%d/a/b/x", i);
        harness_wait(&f->harness, LISTED, uri(f, name));
        snprintf(name, sizeof(name), "%d/a/y", i);
        harness_wait(&f->harness, LISTED, uri(f, name));
    }
}

static void folders_move_in_around_and_out(void **state) {
    struct fixture *f = *state;

    folder_mkdir(&f->folder, "beside/deep");
    folder_write(&f->folder, "beside/deep/a.txt", "a");
    serve(f, "");
    folder_rename(&f->folder, "beside", "root/in");
    harness_wait(&f->harness, LISTED, uri(f, "in/deep/a.txt"));

    folder_rename(&f->folder, "root/in", "root/other");
    harness_wait(&f->harness, UNLISTED, uri(f, "in/deep/a.txt"));
    harness_wait(&f->harness, LISTED, uri(f, "other/deep/a.txt"));

    /* It is watched under its new name. */
    harness_watch(&f->harness, uri(f, "other/deep/a.txt"));
    folder_write(&f->folder, "root/other/deep/a.txt", "b");
    harness_wait_for_text(&f->harness, uri(f, "other/deep/a.txt"), "b");
    folder_write(&f->folder, "root/other/deep/n.txt", "n");
    harness_wait(&f->harness, LISTED, uri(f, "other/deep/n.txt"));

    folder_rename(&f->folder, "root/other", "beside");
    harness_wait(&f->harness, UNLISTED, uri(f, "other/deep/a.txt"));
    harness_wait(&f->harness, UNLISTED, uri(f, "other/deep/n.txt"));

    /* And no longer watched outside. */
    folder_write(&f->folder, "beside/deep/late.txt", "x");
    folder_write(&f->folder, "root/last.txt", "x");
    harness_wait(&f->harness, LISTED, uri(f, "last.txt"));
    assert_int_equal(harness_count(&f->harness, LISTED, uri(f, "other/deep/late.txt")),
                     0);
}

static void a_folder_moved_often_stays_watched(void **state) {
    struct fixture *f = *state;

    folder_mkdir(&f->folder, "root/a0/deep");
    serve(f, "");
    for (int i = 0; i < 100; i++) {
        char from[32], to[32];

        snprintf(from, sizeof(from), "root/a%d", i);
        snprintf(to, sizeof(to), "root/a%d", i + 1);
        folder_rename(&f->folder, from, to);
        if (i % 3 == 0)
            uv_run(&f->harness.loop, UV_RUN_NOWAIT);
    }
    folder_write(&f->folder, "root/a100/deep/x", "1");
    harness_wait(&f->harness, LISTED, uri(f, "a100/deep/x"));
    harness_watch(&f->harness, uri(f, "a100/deep/x"));
    folder_write(&f->folder, "root/a100/deep/x", "2");
    harness_wait_for_text(&f->harness, uri(f, "a100/deep/x"), "2");
}

static void a_file_becomes_a_folder_and_a_file_again(void **state) {
    struct fixture *f = *state;

    folder_write(&f->folder, "root/x", "file");
    serve(f, "");
    folder_remove(&f->folder, "root/x");
    folder_mkdir(&f->folder, "root/x");
    folder_write(&f->folder, "root/x/y", "inside");
    harness_wait(&f->harness, UNLISTED, uri(f, "x"));
    harness_wait(&f->harness, LISTED, uri(f, "x/y"));
    folder_remove(&f->folder, "root/x");
    folder_write(&f->folder, "root/x", "file");
    harness_wait(&f->harness, UNLISTED, uri(f, "x/y"));
    harness_expect(&f->harness, uri(f, "x"), "file");
}

static void thousands_come_and_go_in_pieces(void **state) {
    enum { FILES = 5000 };
    struct fixture *f = *state;
    size_t most = 0;

    folder_mkdir(&f->folder, "beside");
    for (int i = 0; i < FILES; i++) {
        char name[64];

        snprintf(name, sizeof(name), "beside/f%d", i);
        folder_write(&f->folder, name, "");
    }
    serve(f, "");
    for (int way = 0; way < 2; way++) {
        enum happening_kind kind = way == 0 ? LISTED : UNLISTED;

        folder_rename(&f->folder, way == 0 ? "beside" : "root/in",
                      way == 0 ? "root/in" : "beside");
        for (size_t before = 0, now = 0; now < FILES; before = now) {
            uv_run(&f->harness.loop, UV_RUN_NOWAIT);
            now = harness_count(&f->harness, kind, NULL);
            if (now - before > most)
                most = now - before;
        }
    }
    assert_true(most < 1100); /* in one turn */
}

/* ---- Links -------------------------------------------------------------- */

static void links_inside_are_files_and_others_are_nothing(void **state) {
    struct fixture *f = *state;

    folder_write(&f->folder, "secret.txt", "secret");
    folder_mkdir(&f->folder, "root/sub");
    folder_write(&f->folder, "root/sub/a.txt", "one");
    folder_link(&f->folder, "sub/a.txt", "root/link.txt");
    folder_link(&f->folder, "../secret.txt", "root/out.txt");
    folder_link(&f->folder, "/etc/passwd", "root/passwd.txt");
    folder_link(&f->folder, "sub", "root/folder");
    folder_link(&f->folder, ".", "root/self");
    folder_link(&f->folder, "nothing", "root/broken");
    serve(f, "");
    harness_wait(&f->harness, LISTED, uri(f, "sub/a.txt"));
    harness_wait(&f->harness, LISTED, uri(f, "link.txt"));
    assert_int_equal(harness_count(&f->harness, LISTED, NULL), 0);
    harness_expect(&f->harness, uri(f, "link.txt"), "one");
    assert_int_equal(status_of(f, uri(f, "out.txt"), NULL), TDG_ENOTFOUND);
    assert_int_equal(status_of(f, uri(f, "passwd.txt"), NULL), TDG_ENOTFOUND);
    assert_int_equal(status_of(f, uri(f, "folder/a.txt"), NULL), TDG_ENOTFOUND);
    assert_int_equal(status_of(f, uri(f, "self/sub/a.txt"), NULL), TDG_ENOTFOUND);

    /* What they lead to changes. */
    harness_watch(&f->harness, uri(f, "link.txt"));
    folder_write(&f->folder, "root/sub/a.txt", "two");
    harness_wait_for_text(&f->harness, uri(f, "link.txt"), "two");
}

/* As Kubernetes keeps its volumes. */
static void a_hidden_folder_behind_links_is_swapped(void **state) {
    struct fixture *f = *state;

    folder_mkdir(&f->folder, "root/..1");
    folder_mkdir(&f->folder, "root/..2");
    folder_write(&f->folder, "root/..1/conf.yaml", "one");
    folder_write(&f->folder, "root/..2/conf.yaml", "two");
    folder_link(&f->folder, "..1", "root/..data");
    folder_link(&f->folder, "..data/conf.yaml", "root/conf.yaml");
    serve(f, "");
    harness_watch(&f->harness, uri(f, "conf.yaml"));
    harness_expect(&f->harness, uri(f, "conf.yaml"), "one");
    folder_link(&f->folder, "..2", "root/..tmp");
    folder_rename(&f->folder, "root/..tmp", "root/..data");
    harness_wait_for_text(&f->harness, uri(f, "conf.yaml"), "two");

    /* Where nothing is watched, it is found by looking. */
    folder_write(&f->folder, "root/..2/conf.yaml", "three");
    harness_wait_for_text(&f->harness, uri(f, "conf.yaml"), "three");
}

/* What it leads to goes and comes where nothing is watched. */
static void a_link_to_nothing_is_looked_after(void **state) {
    struct fixture *f = *state;

    folder_mkdir(&f->folder, "root/.store");
    folder_link(&f->folder, ".store/t", "root/link");
    serve(f, "settle: 10ms\n");
    harness_watch(&f->harness, uri(f, "link"));
    folder_write(&f->folder, "root/.store/t", "one");
    harness_wait(&f->harness, LISTED, uri(f, "link"));
    harness_wait_for_text(&f->harness, uri(f, "link"), "one");
    folder_remove(&f->folder, "root/.store/t");
    harness_wait(&f->harness, UNLISTED, uri(f, "link"));
    folder_write(&f->folder, "root/.store/t", "two");
    harness_wait(&f->harness, LISTED, uri(f, "link"));
    harness_wait_for_text(&f->harness, uri(f, "link"), "two");
}

/* Nor is one that leads to a folder or out of the root. Each is looked at before the last
 * one, whose target comes. */
static void a_link_to_nothing_is_not_notified_as_deleted(void **state) {
    struct fixture *f = *state;

    folder_mkdir(&f->folder, "root/.store");
    folder_mkdir(&f->folder, "root/sub");
    folder_link(&f->folder, "nothing", "root/a");
    folder_link(&f->folder, "sub", "root/b");
    folder_link(&f->folder, "../aside", "root/c");
    folder_link(&f->folder, ".store/t", "root/d");
    serve(f, "settle: 10ms\n");
    harness_watch_template(&f->harness, f->harness.source->entry.uri);
    for (int i = 0; i < 2; i++) {
        folder_write(&f->folder, "root/.store/t", i == 0 ? "one" : "three");
        harness_wait(&f->harness, CHANGED, uri(f, "d"));
    }
    folder_write(&f->folder, "root/mark", "mark");
    harness_wait(&f->harness, CHANGED, uri(f, "mark"));
    assert_int_equal(harness_count(&f->harness, DELETED, NULL), 0);
}

static void a_file_becomes_a_link_that_leaves(void **state) {
    struct fixture *f = *state;

    folder_write(&f->folder, "secret.txt", "secret");
    folder_write(&f->folder, "root/a.txt", "public");
    serve(f, "");
    harness_watch(&f->harness, uri(f, "a.txt"));
    folder_link(&f->folder, "../secret.txt", "root/link");
    folder_rename(&f->folder, "root/link", "root/a.txt");
    harness_wait(&f->harness, UNLISTED, uri(f, "a.txt"));
    assert_int_equal(status_of(f, uri(f, "a.txt"), NULL), TDG_ENOTFOUND);
}

/* ---- A single file ------------------------------------------------------ */

static void a_single_file_is_served_and_nothing_beside_it(void **state) {
    struct fixture *f = *state;

    folder_write(&f->folder, "root/a.md", "one");
    folder_write(&f->folder, "root/b.md", "other");
    serve_name(f, "root/a.md", "");
    assert_string_equal(f->harness.source->entry.uri, uri(f, "a.md"));
    assert_null(f->harness.source->template_);
    assert_int_equal(harness_wait(&f->harness, LISTED, uri(f, "a.md"))->size, 3);
    assert_false(tdg__source_owns(f->harness.source, uri(f, "b.md")));
    harness_expect(&f->harness, uri(f, "a.md"), "one");
    harness_watch(&f->harness, uri(f, "a.md"));
    folder_write(&f->folder, "root/b.md", "more");
    folder_replace(&f->folder, "root/a.md", "two");
    harness_wait_for_text(&f->harness, uri(f, "a.md"), "two");
    folder_remove(&f->folder, "root/a.md");
    harness_wait(&f->harness, DELETED, uri(f, "a.md"));
    folder_write(&f->folder, "root/a.md", "three");
    harness_wait_for_text(&f->harness, uri(f, "a.md"), "three");
    assert_int_equal(harness_count(&f->harness, LISTED, uri(f, "b.md")), 0);
    assert_int_equal(harness_count(&f->harness, UNLISTED, NULL), 0);
}

static void a_single_file_with_a_uri_may_come_later(void **state) {
    struct fixture *f = *state;

    serve_name(f, "root/a.md", "uri: notes://today\n");
    harness_watch(&f->harness, "notes://today");
    assert_int_equal(status_of(f, "notes://today", NULL), TDG_ENOTFOUND);
    folder_write(&f->folder, "root/a.md", "one");
    harness_wait_for_text(&f->harness, "notes://today", "one");
}

/* ---- Polling ------------------------------------------------------------ */

static void polling_finds_the_same(void **state) {
    struct fixture *f = *state;

    folder_mkdir(&f->folder, "root/sub");
    folder_write(&f->folder, "root/sub/a.txt", "one");
    folder_write(&f->folder, "root/quiet.txt", "q");
    serve(f, "poll: 20ms\n");
    harness_watch(&f->harness, uri(f, "sub/a.txt"));
    harness_watch(&f->harness, uri(f, "quiet.txt"));
    folder_write(&f->folder, "root/sub/a.txt", "two"); /* the same size */
    harness_wait_for_text(&f->harness, uri(f, "sub/a.txt"), "two");
    folder_mkdir(&f->folder, "root/new");
    folder_write(&f->folder, "root/new/b.txt", "b");
    harness_wait(&f->harness, LISTED, uri(f, "new/b.txt"));
    folder_remove(&f->folder, "root/new");
    harness_wait(&f->harness, UNLISTED, uri(f, "new/b.txt"));
    for (int i = 0; i < 50; i++) {
        char text[16];

        snprintf(text, sizeof(text), "%03d", i);
        folder_write(&f->folder, "root/sub/a.txt", text);
        if (i % 5 == 0)
            harness_wait_for_text(&f->harness, uri(f, "sub/a.txt"), text);
    }
    harness_wait_for_text(&f->harness, uri(f, "sub/a.txt"), "049");
    assert_int_equal(harness_count(&f->harness, CHANGED, uri(f, "quiet.txt")), 0);
}

static void what_comes_during_the_first_walk_is_notified(void **state) {
    struct fixture *f = *state;
    char yaml[512], name[256] = "root";
    struct reading before = {0};

    for (int i = 0; i < 100; i++) /* each is a piece of walking */
        strcat(name, "/d");
    folder_mkdir(&f->folder, name);
    strcat(name, "/x.txt");

    const char *target = uri(f, name + strlen("root/"));

    snprintf(yaml, sizeof(yaml), "files: %s/root", f->folder.path);
    harness_open(&f->harness, yaml);
    f->is_open = true;
    assert_int_equal(tdg__source_watch(f->harness.source, TDG__URI_TARGET(target), NULL),
                     TDG_EAGAIN);
    harness_start_read(&f->harness, target, &before);
    while (!before.done)
        uv_run(&f->harness.loop, UV_RUN_ONCE);
    assert_int_equal(before.status, TDG_ENOTFOUND);
    reading_done(&before);
    assert_int_equal(harness_count(&f->harness, READY, NULL), 0);
    folder_write(&f->folder, name, "here");
    harness_wait(&f->harness, WATCHED, target);
    harness_wait_for_text(&f->harness, target, "here");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(lists_what_is_there),
        TEST(lists_hidden_names_when_asked),
        TEST(one_file_is_never_served),
        TEST(nor_is_it_in_a_folder_that_comes_later),
        TEST(nor_is_it_by_an_entry_of_its_own),
        TEST(globs_choose),
        TEST(the_list_follows_without_a_watcher),
        TEST(what_goes_is_unlisted_however_long_it_cannot_be_told),
        TEST(more_than_max_files_are_left_out_until_there_is_room),
        TEST(a_full_list_is_not_read_again),
        TEST(odd_names_are_encoded),
        TEST(reads_content_and_says_what_it_is),
        TEST(reads_to_the_end_whatever_the_size),
        TEST(what_is_no_file_is_not_there),
        TEST(a_fifo_is_not_opened),
        TEST(a_fifo_that_an_entry_names_is_not_opened),
        TEST(a_socket_is_not_opened),
        TEST(a_device_is_not_opened),
        TEST(a_device_that_an_entry_names_is_not_opened),
        TEST(denied_permission_is_said_and_its_return_noticed),
        TEST(owns_only_what_is_inside_and_chosen),
        TEST(uris_come_from_a_template),
        TEST(a_folder_without_a_uri_offers_a_template),
        TEST(bad_entries_are_refused),
        TEST(writing_in_every_way_is_told),
        TEST(the_same_content_is_not_told),
        TEST(deleting_and_making_anew_are_told),
        TEST(a_file_that_does_not_exist_yet_can_be_watched),
        TEST(whoever_watches_the_template_hears_of_all),
        TEST(what_comes_is_created_and_what_was_there_is_not),
        TEST(files_in_new_folders_are_never_missed),
        TEST(folders_move_in_around_and_out),
        TEST(a_folder_moved_often_stays_watched),
        TEST(a_file_becomes_a_folder_and_a_file_again),
        TEST(thousands_come_and_go_in_pieces),
        TEST(links_inside_are_files_and_others_are_nothing),
        TEST(a_hidden_folder_behind_links_is_swapped),
        TEST(a_link_to_nothing_is_looked_after),
        TEST(a_link_to_nothing_is_not_notified_as_deleted),
        TEST(a_file_becomes_a_link_that_leaves),
        TEST(a_single_file_is_served_and_nothing_beside_it),
        TEST(a_single_file_with_a_uri_may_come_later),
        TEST(polling_finds_the_same),
        TEST(what_comes_during_the_first_walk_is_notified),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("files", tests, NULL, NULL);
}

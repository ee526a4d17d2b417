/* SPDX-License-Identifier: MIT
 *
 * The judge is patch(1): what it makes of the old text and our diff has to be the new
 * text. For small edits the diff is also what diff(1) prints. */
#include "watch/diff.h"

#include <stdio.h>
#include <unistd.h>

#include "support.h"

struct fixture {
    char folder[64];
};

static int setup(void **state) {
    struct fixture *f = state_create(state, sizeof(struct fixture));

    snprintf(f->folder, sizeof(f->folder), "/tmp/tidings-diff-XXXXXX");
    return mkdtemp(f->folder) != NULL ? 0 : -1;
}

static int teardown(void **state) {
    struct fixture *f = *state;
    char command[128];

    snprintf(command, sizeof(command), "rm -r '%s'", f->folder);
    assert_int_equal(system(command), 0);
    return state_destroy(state);
}

static void make_diff(const char *before, size_t before_len, const char *after,
                      size_t after_len, tdg__text_t *out) {
    diff_side_t a = {"old", before, before_len}, b = {"new", after, after_len};

    tdg__text_init(out, SIZE_MAX);
    assert_int_equal(diff_unified(&a, &b, out), 0);
    assert_int_equal(out->error, 0);
}

static void gives(const char *before, const char *after, const char *diff) {
    tdg__text_t out;

    make_diff(before, strlen(before), after, strlen(after), &out);
    assert_string_equal(out.len > 0 ? out.data : "", diff);
    tdg__text_done(&out);
}

static void write_file(struct fixture *f, const char *name, const char *data,
                       size_t len) {
    char path[128];
    FILE *file;

    snprintf(path, sizeof(path), "%s/%s", f->folder, name);
    file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, len, file), len);
    assert_int_equal(fclose(file), 0);
}

/* patch(1) turns one text into the other with our diff. Returns how long that is. */
static size_t is_applied_by_patch(struct fixture *f, const char *before,
                                  size_t before_len, const char *after,
                                  size_t after_len) {
    char command[512];
    tdg__text_t out;
    size_t len;

    make_diff(before, before_len, after, after_len, &out);
    write_file(f, "old", before, before_len);
    write_file(f, "wanted", after, after_len);
    write_file(f, "diff", out.len > 0 ? out.data : "", out.len);
    snprintf(command, sizeof(command),
             "cd '%s' && if [ -s diff ]; then patch -s -F0 -o new old diff; "
             "else cp old new; fi && touch new && cmp wanted new",
             f->folder);
    assert_int_equal(system(command), 0);
    len = out.len;
    tdg__text_done(&out);
    return len;
}

static void says_nothing_about_equal_texts(void **state) {
    (void)state;
    gives("", "", "");
    gives("a\nb\n", "a\nb\n", "");
    gives("a\nb", "a\nb", "");
}

static void tells_a_changed_line_with_three_around_it(void **state) {
    (void)state;
    gives("1\n2\n3\n4\n5\n6\n7\n8\n9\n", "1\n2\n3\n4\nfive\n6\n7\n8\n9\n",
          "--- old\n+++ new\n@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8\n");
}

static void tells_what_came_and_went(void **state) {
    (void)state;
    gives("", "a\n", "--- old\n+++ new\n@@ -0,0 +1 @@\n+a\n");
    gives("a\n", "", "--- old\n+++ new\n@@ -1 +0,0 @@\n-a\n");
    gives("b\n", "a\nb\nc\n", "--- old\n+++ new\n@@ -1 +1,3 @@\n+a\n b\n+c\n");
}

static void tells_where_the_last_line_has_no_end(void **state) {
    (void)state;
    gives("a", "a\n",
          "--- old\n+++ new\n@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+a\n");
    gives("a\nb", "a\nc",
          "--- old\n+++ new\n@@ -1,2 +1,2 @@\n a\n-b\n\\ No newline at end of file\n"
          "+c\n\\ No newline at end of file\n");
    gives("x\nb", "y\nb",
          "--- old\n+++ new\n@@ -1,2 +1,2 @@\n-x\n+y\n b\n\\ No newline at end of "
          "file\n");
}

static void joins_hunks_whose_contexts_touch(void **state) {
    (void)state;
    gives("a\n1\n2\n3\n4\n5\n6\nb\n", "A\n1\n2\n3\n4\n5\n6\nB\n",
          "--- old\n+++ new\n@@ -1,8 +1,8 @@\n-a\n+A\n 1\n 2\n 3\n 4\n 5\n 6\n-b\n+B\n");
    gives("a\n1\n2\n3\n4\n5\n6\n7\nb\n", "A\n1\n2\n3\n4\n5\n6\n7\nB\n",
          "--- old\n+++ new\n@@ -1,4 +1,4 @@\n-a\n+A\n 1\n 2\n 3\n"
          "@@ -6,4 +6,4 @@\n 5\n 6\n 7\n-b\n+B\n");
}

static void names_cannot_break_the_header(void **state) {
    diff_side_t a = {"x:\n+++ \033[31m", "", 0}, b = {"/dev/null", "a\n", 2};
    tdg__text_t out;

    (void)state;
    tdg__text_init(&out, SIZE_MAX);
    assert_int_equal(diff_unified(&a, &b, &out), 0);
    assert_string_equal(out.data,
                        "--- x:^J+++ ^[[31m\n+++ /dev/null\n@@ -0,0 +1 @@\n+a\n");
    tdg__text_done(&out);
}

/* Lines out of few, so that many are equal. */
static size_t random_text(struct dice *dice, char *out, size_t max_lines) {
    static const char *const words[] = {"", "a", "b", "int x;", "}", "\ttab", "- minus"};
    size_t lines = roll(dice, (uint32_t)max_lines + 1), len = 0;

    for (size_t i = 0; i < lines; i++)
        len += (size_t)sprintf(out + len, "%s\n", words[roll(dice, COUNT(words))]);
    if (len > 0 && roll(dice, 3) == 0)
        len--; /* without the last line end; an empty last line goes with it */
    return len;
}

static void random_texts_are_applied_by_patch(void **state) {
    struct fixture *f = *state;
    struct dice dice = dice_from_env();
    char before[4096], after[4096];

    for (unsigned i = 0; i < often(40); i++) {
        size_t max = i % 2 == 0 ? 6 : 60;
        size_t before_len = random_text(&dice, before, max);
        size_t after_len = random_text(&dice, after, max);

        is_applied_by_patch(f, before, before_len, after, after_len);
    }
}

/* Some lines of a long text are dropped, doubled or changed. */
static size_t edit(struct dice *dice, const char *text, char *out) {
    size_t len = 0;

    while (*text != '\0') {
        size_t line = strcspn(text, "\n") + 1;
        unsigned what = roll(dice, 30);

        if (what > 0) {
            memcpy(out + len, text, line);
            len += line;
        }
        if (what == 1)
            len += (size_t)sprintf(out + len, "new %u\n", (unsigned)roll(dice, 1000));
        text += line;
    }
    return len;
}

static void edited_texts_give_what_diff_gives(void **state) {
    struct fixture *f = *state;
    struct dice dice = dice_from_env();
    char *before = malloc(100000), *after = malloc(200000), command[256];

    for (unsigned i = 0; i < often(5); i++) {
        size_t len = 0, after_len;

        for (int line = 0; line < 500; line++)
            len += (size_t)sprintf(before + len, "line %d\n", line);
        after_len = edit(&dice, before, after);
        is_applied_by_patch(f, before, len, after, after_len);
        snprintf(command, sizeof(command),
                 "cd '%s' && diff -u --label old --label new old wanted | cmp - diff",
                 f->folder);
        assert_int_equal(system(command), 0);
    }
    free(before);
    free(after);
}

static void wholly_different_texts_are_replaced(void **state) {
    struct fixture *f = *state;
    char *before = malloc(1 << 20), *after = malloc(1 << 20);
    size_t before_len, after_len;

    before_len = (size_t)sprintf(before, "same\n");
    after_len = (size_t)sprintf(after, "same\n");
    for (int i = 0; i < 30000; i++) {
        before_len += (size_t)sprintf(before + before_len, "old %d\n", i);
        after_len += (size_t)sprintf(after + after_len, "new %d\n", i);
    }
    assert_true(is_applied_by_patch(f, before, before_len, after, after_len) >
                before_len + after_len - 100);
    free(before);
    free(after);
}

/* The worst for the search: one line, over and over, with others in between. */
static void work_has_a_bound(void **state) {
    struct fixture *f = *state;
    size_t before_len = 0, after_len = 0;
    char *before = malloc(1 << 20), *after = malloc(1 << 20);

    for (int i = 0; i < 100000; i++) {
        before_len += (size_t)sprintf(before + before_len, i % 50 == 0 ? "b\n" : "a\n");
        after_len += (size_t)sprintf(after + after_len, i % 53 == 0 ? "c\n" : "a\n");
    }
    is_applied_by_patch(f, before, before_len, after, after_len);
    free(before);
    free(after);
}

static void lines_without_text_in_a_million(void **state) {
    enum { MANY = 1 << 20 };
    char *before = malloc(MANY), *after = malloc(MANY);
    tdg__text_t out;

    (void)state;
    memset(before, '\n', MANY);
    memset(after, '\n', MANY);
    after[MANY / 2] = 'x';
    make_diff(before, MANY, after, MANY, &out);
    assert_true(out.len < 200);
    tdg__text_done(&out);
    free(before);
    free(after);
}

static void more_lines_are_too_many(void **state) {
    enum { MANY = (1 << 20) + 1 };
    char *text = malloc(MANY);
    diff_side_t before = {"old", text, MANY}, after = {"new", "x\n", 2};
    tdg__text_t out;

    (void)state;
    memset(text, '\n', MANY);
    tdg__text_init(&out, SIZE_MAX);
    assert_int_equal(diff_unified(&before, &after, &out), TDG_ETOOLARGE);
    assert_int_equal(diff_unified(&after, &before, &out), TDG_ETOOLARGE);
    assert_int_equal(out.len, 0);
    tdg__text_done(&out);
    free(text);
}

static void survives_a_lack_of_memory(void **state) {
    diff_side_t a = {"old", "a\nb\n", 4}, b = {"new", "a\nc\n", 4};
    int rv = TDG_ENOMEM;

    (void)state;
    for (size_t nth = 1; rv < 0; nth++) {
        tdg__text_t out;

        assert_true(nth < 50);
        tdg__text_init(&out, SIZE_MAX);
        memory_fail(nth, MEMORY_ONCE);
        rv = diff_unified(&a, &b, &out);
        memory_fail(0, MEMORY_ONCE);
        if (rv == 0)
            rv = out.error;
        assert_true(rv == 0 || rv == TDG_ENOMEM);
        tdg__text_done(&out);
    }
}

int main(void) {
#define CASE(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(says_nothing_about_equal_texts),
        CASE(tells_a_changed_line_with_three_around_it),
        CASE(tells_what_came_and_went),
        CASE(tells_where_the_last_line_has_no_end),
        CASE(joins_hunks_whose_contexts_touch),
        CASE(names_cannot_break_the_header),
        CASE(random_texts_are_applied_by_patch),
        CASE(edited_texts_give_what_diff_gives),
        CASE(wholly_different_texts_are_replaced),
        CASE(work_has_a_bound),
        CASE(lines_without_text_in_a_million),
        CASE(more_lines_are_too_many),
        CASE(survives_a_lack_of_memory),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("diff", tests, NULL, NULL);
}

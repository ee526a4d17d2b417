/* SPDX-License-Identifier: MIT */
#include "unit/client/play.h"

#include <stdio.h>

struct fake_note *play_subscribe(struct fake *f, const char *uri,
                                 const tdg_subscribe_opts_t *opts) {
    struct fake_note *note = fake_note(f);

    tdg__core_subscribe(f->core, &uri, 1, opts, NULL, fake_done, note);
    assert_int_equal(note->calls, 0);
    fake_run(f);
    return note;
}

struct fake_note *play_unsubscribe(struct fake *f, const char *uri) {
    struct fake_note *note = fake_note(f);

    tdg__core_unsubscribe(f->core, uri, fake_done, note);
    assert_int_equal(note->calls, 0);
    fake_run(f);
    return note;
}

struct fake_note *play_lists(struct fake *f, unsigned lists) {
    struct fake_note *note = fake_note(f);

    tdg__core_watch_lists(f->core, lists, fake_done, note);
    assert_int_equal(note->calls, 0);
    fake_run(f);
    return note;
}

void play_notify(struct fake *f, struct fake_sent *on, const char *method,
                 const char *params) {
    size_t size = strlen(method) + strlen(params) + 100;
    char *text = test_malloc(size);

    snprintf(text, size, "{'jsonrpc':'2.0','method':'%s','params':%s}", method, params);
    if (on != NULL)
        fake_says(f, on, text);
    else
        fake_tells(f, text);
    test_free(text);
}

void play_ack(struct fake *f, struct fake_sent *listen, const char *left_out,
              const char *meta) {
    bool shared = listen->transport->base.ops->shared;
    const char *from = strstr(listen->text, "\"notifications\":");
    size_t size = strlen(listen->text) + strlen(meta) + 300;
    char *text = test_malloc(size), *found;
    char quoted[256];
    int depth = 0;
    size_t len = 0;

    /* As text: that needs no memory of the library, which may be out. */
    if (from == NULL)
        fail_msg("%s", listen->text);
    from += strlen("\"notifications\":");
    do {
        depth += from[len] == '{' ? 1 : from[len] == '}' ? -1 : 0;
        len++;
    } while (depth > 0);
    snprintf(text, size,
             "{'notifications':%.*s,'_meta':{%s%s"
             "'io.modelcontextprotocol/subscriptionId':%s}}",
             (int)len, from, meta, meta[0] != '\0' ? "," : "", listen->id);
    snprintf(quoted, sizeof(quoted), "\"%s\"", left_out != NULL ? left_out : "");
    found = left_out != NULL ? strstr(text, quoted) : NULL;
    if (found != NULL) /* another name of the same length, which nobody knows */
        memset(found + 1, '?', strlen(left_out));
    fake_opened(f, listen);
    play_notify(f, shared ? NULL : listen, "notifications/subscriptions/acknowledged",
                text);
    test_free(text);
}

void play_update(struct fake *f, struct fake_sent *on, const char *uri,
                 const char *meta) {
    size_t size = strlen(uri) + strlen(meta) + 100;
    char *params = test_malloc(size);

    snprintf(params, size, "{'uri':'%s','_meta':{%s}}", uri, meta);
    play_notify(f, on, "notifications/resources/updated", params);
    test_free(params);
}

void play_live(struct fake *f, const char *uri, const tdg_subscribe_opts_t *opts,
               const char *meta) {
    struct fake_note *note = play_subscribe(f, uri, opts);

    if (f->core->era == TDG_ERA_MODERN) {
        play_ack(f, fake_find(f, LISTEN), NULL, meta);
    } else {
        struct fake_sent *get = fake_seek(f, "GET");

        if (get != NULL && fake_seek(f, "resources/subscribe") == NULL)
            fake_opened(f, get);
        fake_result(f, fake_find(f, "resources/subscribe"), "{}");
    }
    assert_int_equal(fake_code(note), 0);
}

void play_live_late(struct fake *f, const char *uri) {
    struct fake_note *note = play_subscribe(f, uri, NULL);

    fake_pass(f, 2000); /* then it counts as open */
    fake_result(f, fake_find(f, "resources/subscribe"), "{}");
    assert_int_equal(fake_code(note), 0);
}

size_t play_open(const struct fake *f, const char *method) {
    size_t count = 0;

    for (size_t i = 0; i < f->sent_count; i++)
        count += !f->sent[i]->over && !f->sent[i]->cancelled &&
                 strcmp(f->sent[i]->method, method) == 0;
    return count;
}

void assert_told_at(struct fake *f, const char *text, const char *file, int line) {
    char *told = fake_told(f);
    bool same = strcmp(told, text) == 0;

    if (!same)
        print_error("told was:\n%s", told);
    free(told);
    _assert_true(same, "told is as expected", file, line);
}

/* SPDX-License-Identifier: MIT */
#include "base/rope.h"

#include <string.h>

#include <tidings/error.h>

#include "base/alloc.h"

void tdg__rope_init(tdg__rope_t *rope, size_t max_bytes) {
    *rope = (tdg__rope_t){0};
    tdg__text_init(&rope->text, max_bytes);
}

void tdg__rope_done(tdg__rope_t *rope) {
    for (size_t i = 0; i < rope->splice_count; i++)
        tdg__buf_unref(rope->splices[i].buf);
    tdg__free(rope->splices);
    tdg__text_done(&rope->text);
    *rope = (tdg__rope_t){.text = rope->text};
}

static bool make_room(tdg__rope_t *rope) {
    size_t room = rope->splice_room == 0 ? 1 : 2 * rope->splice_room;
    tdg__splice_t *splices;

    if (rope->splice_count < rope->splice_room)
        return true;
    splices = tdg__reallocarray(rope->splices, room, sizeof(*splices));
    if (splices == NULL)
        return false;
    rope->splices = splices;
    rope->splice_room = room;
    return true;
}

void tdg__rope_splice(tdg__rope_t *rope, tdg__buf_t *buf) {
    if (rope->text.error != 0)
        return;
    if (buf->len > rope->text.max - rope->text.len)
        rope->text.error = TDG_ETOOLARGE;
    else if (!make_room(rope))
        rope->text.error = TDG_ENOMEM;
    if (rope->text.error != 0)
        return;
    rope->splices[rope->splice_count++] =
        (tdg__splice_t){rope->text.len, tdg__buf_ref(buf)};
    rope->spliced += buf->len;
    rope->text.max -= buf->len;
}

static void append(void *arg, const char *data, size_t len, tdg__buf_t *shared) {
    tdg__rope_t *rope = arg;

    if (shared != NULL)
        tdg__rope_splice(rope, shared);
    else
        tdg__text_add(&rope->text, data, len);
}

void tdg__rope_append(tdg__rope_t *rope, const tdg__rope_t *other) {
    tdg__rope_each(other, append, rope);
}

size_t tdg__rope_len(const tdg__rope_t *rope) {
    return rope->text.len + rope->spliced;
}

static void copy(void *arg, const char *data, size_t len, tdg__buf_t *shared) {
    char **to = arg;

    (void)shared;
    memcpy(*to, data, len);
    *to += len;
}

void tdg__rope_copy(const tdg__rope_t *rope, char *to) {
    tdg__rope_each(rope, copy, &to);
}

void tdg__rope_each(const tdg__rope_t *rope,
                    void (*visit)(void *arg, const char *data, size_t len,
                                  tdg__buf_t *shared),
                    void *arg) {
    size_t done = 0;

    for (size_t i = 0; i < rope->splice_count; i++) {
        const tdg__splice_t *splice = &rope->splices[i];

        if (splice->at > done)
            visit(arg, rope->text.data + done, splice->at - done, NULL);
        visit(arg, splice->buf->data, splice->buf->len, splice->buf);
        done = splice->at;
    }
    if (rope->text.len > done)
        visit(arg, rope->text.data + done, rope->text.len - done, NULL);
}

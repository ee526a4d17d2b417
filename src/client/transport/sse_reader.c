/* SPDX-License-Identifier: MIT
 *
 * Lines are found by memchr() and read in place. Only a line that continues in the next
 * piece is copied; if that is a `data` line and the event's first, its memory becomes the
 * event's, so that large ones are not copied twice. */
#include "client/transport/sse_reader.h"

#include <string.h>

#include <tidings/error.h>

enum {
    FIELD_ROOM = 16,       /* what a line may have beside the data: "data: " */
    KEPT_ROOM = 64 * 1024, /* memory beyond it goes after the event that needed it */
};

static size_t max_line(const tdg__sse_reader_t *sse) {
    return sse->max_bytes < SIZE_MAX - FIELD_ROOM ? sse->max_bytes + FIELD_ROOM
                                                  : SIZE_MAX;
}

void tdg__sse_reader_init(tdg__sse_reader_t *sse, size_t max_bytes,
                          const tdg__sse_reader_calls_t *calls, void *user) {
    *sse = (tdg__sse_reader_t){.calls = *calls, .user = user, .max_bytes = max_bytes};
    tdg__text_init(&sse->line, max_line(sse));
    tdg__text_init(&sse->data, max_line(sse));
    tdg__text_init(&sse->name, max_line(sse));
    tdg__text_init(&sse->id, TDG__SSE_MAX_ID);
}

void tdg__sse_reader_done(tdg__sse_reader_t *sse) {
    tdg__text_done(&sse->line);
    tdg__text_done(&sse->data);
    tdg__text_done(&sse->name);
    tdg__text_done(&sse->id);
}

void tdg__sse_reader_stop(tdg__sse_reader_t *sse) {
    sse->stopped = true;
}

static void fail(tdg__sse_reader_t *sse, int code) {
    if (sse->failed == 0)
        sse->failed = code;
}

static void empty(tdg__text_t *text) {
    if (text->room > KEPT_ROOM)
        tdg__text_done(text);
    else
        tdg__text_clear(text);
}

/* ---- Fields ------------------------------------------------------------- */

static void set_text(tdg__sse_reader_t *sse, tdg__text_t *text, const char *value,
                     size_t len) {
    tdg__text_clear(text);
    tdg__text_add(text, value, len);
    if (text->error < 0)
        fail(sse, text->error);
}

static void on_data(tdg__sse_reader_t *sse, const char *value, size_t len) {
    size_t before = sse->data.len - sse->data_from + sse->has_data; /* the LF between */

    if (before > sse->max_bytes || len > sse->max_bytes - before) {
        fail(sse, TDG_ETOOLARGE);
        return;
    }
    if (sse->own && !sse->has_data) {
        tdg__text_t spare = sse->data;

        sse->data = sse->line;
        sse->line = spare;
        sse->data_from = sse->data.len - len;
    } else {
        if (sse->has_data)
            tdg__text_add(&sse->data, "\n", 1);
        tdg__text_add(&sse->data, value, len);
        if (sse->data.error < 0)
            fail(sse, sse->data.error);
    }
    sse->has_data = true;
}

static void on_name(tdg__sse_reader_t *sse, const char *value, size_t len) {
    if (len == 0 || memchr(value, '\0', len) == NULL) /* else it is no C string */
        set_text(sse, &sse->name, value, len);
}

static void on_id(tdg__sse_reader_t *sse, const char *value, size_t len) {
    if (len > TDG__SSE_MAX_ID || (len > 0 && memchr(value, '\0', len) != NULL))
        return;
    set_text(sse, &sse->id, value, len);
    sse->has_id = sse->touched = true;
}

static void on_retry(tdg__sse_reader_t *sse, const char *value, size_t len) {
    uint64_t ms = 0;

    if (len == 0)
        return;
    for (size_t i = 0; i < len; i++) {
        if (value[i] < '0' || value[i] > '9')
            return;
        ms = ms * 10 + (uint64_t)(value[i] - '0');
        if (ms > UINT32_MAX)
            ms = UINT32_MAX;
    }
    if (sse->calls.retry != NULL)
        sse->calls.retry(sse->user, (uint32_t)ms);
}

static const struct field {
    const char *name;
    size_t len;
    void (*set)(tdg__sse_reader_t *sse, const char *value, size_t len);
} fields[] = {
    {"data", 4, on_data},
    {"event", 5, on_name},
    {"id", 2, on_id},
    {"retry", 5, on_retry},
};

/* ---- Lines -------------------------------------------------------------- */

static void dispatch(tdg__sse_reader_t *sse) {
    tdg__sse_reader_event_t event = {
        .name = sse->name.len > 0 ? sse->name.data : "message",
        .data = sse->has_data ? sse->data.data + sse->data_from : "",
        .len = sse->data.len - sse->data_from,
        .has_data = sse->has_data,
        .id = sse->has_id ? sse->id.data : NULL,
    };

    if (sse->has_data || sse->touched)
        sse->calls.event(sse->user, &event);
    empty(&sse->data);
    empty(&sse->name);
    sse->data_from = 0;
    sse->has_data = sse->touched = false;
}

/* One line without its end. */
static void read_line(tdg__sse_reader_t *sse, const char *text, size_t len) {
    const char *colon, *value;
    size_t name_len;

    if (!sse->started && len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) {
        text += 3;
        len -= 3;
    }
    sse->started = true;
    if (len == 0) {
        dispatch(sse);
        return;
    }

    colon = memchr(text, ':', len);
    if (colon == text) {
        if (sse->calls.comment != NULL)
            sse->calls.comment(sse->user);
        return;
    }
    name_len = colon != NULL ? (size_t)(colon - text) : len;
    value = text + name_len + (colon != NULL);
    if (value < text + len && *value == ' ')
        value++;
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
        if (fields[i].len == name_len && memcmp(fields[i].name, text, name_len) == 0)
            fields[i].set(sse, value, (size_t)(text + len - value));
}

/* `text` ends a line: alone, or what was kept of it before. */
static void end_line(tdg__sse_reader_t *sse, const char *text, size_t len) {
    sse->own = sse->line.len > 0;
    if (sse->own) {
        tdg__text_add(&sse->line, text, len);
        text = sse->line.data;
        len = sse->line.len;
    }
    if (sse->line.error < 0 || len > sse->line.max) {
        fail(sse, sse->line.error < 0 ? sse->line.error : TDG_ETOOLARGE);
        return;
    }
    read_line(sse, text, len);
    if (sse->own)
        empty(&sse->line);
}

int tdg__sse_reader_feed(tdg__sse_reader_t *sse, const char *bytes, size_t len) {
    const char *at = bytes, *end = bytes + len;
    const char *lf = NULL; /* the next one from `at`; `end`: there is none */

    while (at < end && sse->failed == 0 && !sse->stopped) {
        const char *stop;

        if (sse->after_cr && *at == '\n') {
            sse->after_cr = false;
            at++;
            continue;
        }
        sse->after_cr = false;
        if (lf == NULL || lf < at) {
            lf = memchr(at, '\n', (size_t)(end - at));
            if (lf == NULL)
                lf = end;
        }
        stop = memchr(at, '\r', (size_t)(lf - at));
        if (stop == NULL)
            stop = lf;
        if (stop == end) {
            tdg__text_add(&sse->line, at, (size_t)(end - at));
            if (sse->line.error < 0)
                fail(sse, sse->line.error);
            break;
        }
        sse->after_cr = *stop == '\r';
        end_line(sse, at, (size_t)(stop - at));
        at = stop + 1;
    }
    return sse->failed;
}

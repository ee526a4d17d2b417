/* SPDX-License-Identifier: MIT
 *
 * Reads server-sent events as the HTML standard has them: lines that end with LF, CR or
 * CRLF, a BOM at the start, comments, `data` over several lines, `event`, `id`, `retry`.
 * No I/O: bytes go in, in pieces of any size; events come out. What is sent in is
 * borrowed for the call. An event that the stream's end cuts off is not reported. */
#ifndef TDG_CLIENT_SSE_READER_H
#define TDG_CLIENT_SSE_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text.h"

/* One event. All borrowed for the call; data ends in NUL, which does not count. */
typedef struct tdg__sse_reader_event {
    const char *name; /* "message" where the stream gives none */
    const char *data;
    size_t len;
    bool has_data;  /* there was a data line; an event with an id alone has none. The
                       standard does not report those; we need the id */
    const char *id; /* the last id of the stream so far; NULL: none yet */
} tdg__sse_reader_event_t;

typedef struct tdg__sse_reader_calls {
    void (*event)(void *user, const tdg__sse_reader_event_t *event);
    void (*comment)(void *user);            /* a sign of life; may be NULL */
    void (*retry)(void *user, uint32_t ms); /* may be NULL */
} tdg__sse_reader_calls_t;

typedef struct tdg__sse_reader {
    tdg__sse_reader_calls_t calls;
    void *user;
    size_t max_bytes;
    tdg__text_t line; /* one that has not ended yet */
    tdg__text_t data; /* of the event so far, behind `data_from` bytes */
    tdg__text_t name, id;
    size_t data_from;
    bool started;          /* the first line is over */
    bool own;              /* the line that is read lies in `line` */
    bool after_cr;         /* a LF that comes now belongs to the line before */
    bool has_data, has_id; /* has_id: of the stream */
    bool touched;          /* the event has an id line */
    bool stopped;
    int failed; /* why; 0: it has not */
} tdg__sse_reader_t;

/* An id line that is longer is ignored: ids travel back in a header. */
enum { TDG__SSE_MAX_ID = 1024 };

/* `max_bytes`: of one event's data; a line may have a few more, for the field's name. */
void tdg__sse_reader_init(tdg__sse_reader_t *sse, size_t max_bytes,
                          const tdg__sse_reader_calls_t *calls, void *user);
void tdg__sse_reader_done(tdg__sse_reader_t *sse);

/* Returns 0, TDG_ETOOLARGE or TDG_ENOMEM; after a failure nothing more is read, and every
 * call fails in the same way. A call may not destroy the reader, but may ask it to stop:
 * tdg__sse_reader_stop() makes the rest of the bytes, and all later ones, be ignored. */
int tdg__sse_reader_feed(tdg__sse_reader_t *sse, const char *bytes, size_t len);
void tdg__sse_reader_stop(tdg__sse_reader_t *sse);

#endif

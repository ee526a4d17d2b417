/* SPDX-License-Identifier: MIT
 *
 * Any bytes as a stream of events. The first two bytes of the input say how the rest is
 * cut, the third after how many events the reader is stopped. In one piece or in many,
 * what comes out is the same, and a plain reading, byte by byte, counts as many events.
 */
#include <stdio.h>
#include <string.h>

#include <tidings/error.h>

#include "client/transport/sse_reader.h"
#include "fuzz.h"

enum { MAX_BYTES = 64 };

struct reading {
    tdg__sse_reader_t sse;
    FILE *seen;
    char *text;
    size_t len, events, with_data, stop_after;
};

static void on_event(void *user, const tdg__sse_reader_event_t *event) {
    struct reading *reading = user;

    require(event->len <= MAX_BYTES && event->data[event->len] == '\0');
    require(event->has_data || (event->len == 0 && event->id != NULL));
    require(event->name[0] != '\0' && strpbrk(event->name, "\r\n") == NULL);
    require(event->id == NULL || strpbrk(event->id, "\r\n") == NULL);
    require(memchr(event->data, '\r', event->len) == NULL);
    fprintf(reading->seen, "%s %d %zu ", event->name, event->has_data, event->len);
    fwrite(event->data, 1, event->len, reading->seen);
    fprintf(reading->seen, " %s\n", event->id != NULL ? event->id : "-");
    reading->with_data += event->has_data;
    if (++reading->events == reading->stop_after)
        tdg__sse_reader_stop(&reading->sse);
    require(reading->stop_after == 0 || reading->events <= reading->stop_after);
}

static void on_comment(void *user) {
    fputs("comment\n", ((struct reading *)user)->seen);
}

static void on_retry(void *user, uint32_t ms) {
    fprintf(((struct reading *)user)->seen, "retry %u\n", ms);
}

static void begin(struct reading *reading, size_t stop_after) {
    static const tdg__sse_reader_calls_t calls = {on_event, on_comment, on_retry};

    memset(reading, 0, sizeof(*reading));
    reading->stop_after = stop_after;
    reading->seen = open_memstream(&reading->text, &reading->len);
    require(reading->seen != NULL);
    tdg__sse_reader_init(&reading->sse, MAX_BYTES, &calls, reading);
}

/* Feeds a copy, so that reading behind a piece is noticed. */
static int feed(struct reading *reading, const uint8_t *data, size_t len) {
    char *copy = malloc(len > 0 ? len : 1);
    int rv;

    require(copy != NULL);
    memcpy(copy, data, len);
    rv = tdg__sse_reader_feed(&reading->sse, copy, len);
    free(copy);
    require(rv == 0 || rv == TDG_ETOOLARGE);
    return rv;
}

static void end(struct reading *reading) {
    tdg__sse_reader_done(&reading->sse);
    fclose(reading->seen);
    free(reading->text);
}

/* How many events with data the standard sees, where nothing is beyond the limits. */
static size_t count_plainly(const uint8_t *data, size_t len) {
    size_t events = 0, at = 0;
    bool has_data = false;

    if (len >= 3 && memcmp(data, "\xef\xbb\xbf", 3) == 0)
        at = 3;
    while (at < len) {
        size_t start = at, size;

        while (at < len && data[at] != '\n' && data[at] != '\r')
            at++;
        if (at == len)
            break;
        size = at - start;
        at += data[at] == '\r' && at + 1 < len && data[at + 1] == '\n' ? 2 : 1;
        if (size == 0) {
            events += has_data;
            has_data = false;
        } else if (size >= 4 && memcmp(data + start, "data", 4) == 0 &&
                   (size == 4 || data[start + 4] == ':')) {
            has_data = true;
        }
    }
    return events;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct reading whole, pieces;
    size_t cut, piece, stop_after;
    int rv, rv_in_pieces;

    if (size < 3)
        return 0;
    cut = data[0];
    piece = 1 + data[1] % 64U;
    stop_after = data[2] % 8U;
    data += 3;
    size -= 3;

    begin(&whole, stop_after);
    rv = feed(&whole, data, size);
    begin(&pieces, stop_after);
    cut = cut < size ? cut : size;
    rv_in_pieces = feed(&pieces, data, cut);
    for (size_t at = cut; at < size; at += piece)
        rv_in_pieces = feed(&pieces, data + at, piece < size - at ? piece : size - at);
    fflush(whole.seen);
    fflush(pieces.seen);
    require(rv == rv_in_pieces);
    require(whole.len == pieces.len && memcmp(whole.text, pieces.text, whole.len) == 0);
    require(rv != 0 || stop_after != 0 || whole.with_data == count_plainly(data, size));
    end(&whole);
    end(&pieces);
    return 0;
}

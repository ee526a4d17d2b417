/* SPDX-License-Identifier: MIT
 *
 * Any bytes as requests, one after the other. The first two bytes of the input say how
 * the rest is cut. In one piece or in many, the outcome is the same; what is accepted
 * keeps the promises of the header, and, written down again, is read as the same request.
 * Guard and llhttp never disagree. */
#include <assert.h>
#include <ctype.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "net/http_request.h"

static const tdg__http_limits_t limits = {
    .max_header_bytes = 1024, .max_fields = 12, .max_body_bytes = 256};

struct cutter {
    size_t cut;   /* length of the first piece */
    size_t piece; /* and of the others; 0: all that is there */
};

/* Feeds copies, so that reading behind a piece is noticed. */
static tdg__http_step_t feed(tdg__http_reader_t *reader, const char *data, size_t len,
                             struct cutter cutter, size_t *ret_used, int *ret_continues) {
    size_t end = cutter.piece == 0 || cutter.cut > len ? len : cutter.cut;
    tdg__http_step_t step;

    *ret_used = 0;
    *ret_continues = 0;
    for (;;) {
        size_t used, part = end - *ret_used;
        char *copy = malloc(part);

        assert(part == 0 || copy != NULL);
        if (part > 0)
            memcpy(copy, data + *ret_used, part);
        step = tdg__http_reader_feed(reader, copy, part, &used);
        free(copy);
        assert(used <= part);
        *ret_used += used;
        *ret_continues += step == TDG__HTTP_HEADED && tdg__http_reader_expects(reader);
        if (step == TDG__HTTP_HEADED)
            continue;
        if (step != TDG__HTTP_MORE || end == len)
            return step;
        assert(used == part);
        end += cutter.piece < len - end ? cutter.piece : len - end;
    }
}

/* How often a field of that name is there. */
static size_t field_times(const tdg__http_request_t *request, const char *name) {
    size_t times = 0;

    for (size_t i = 0; i < request->field_count; i++)
        times += strcmp(request->fields[i].name, name) == 0;
    return times;
}

static void check_promises(const tdg__http_request_t *request) {
    size_t hosts = field_times(request, "host");

    assert(request->path[0] == '/' ||
           (strcmp(request->path, "*") == 0 && request->method == TDG__HTTP_OPTIONS));
    assert(strpbrk(request->path, " ?#") == NULL &&
           strpbrk(request->query, " #") == NULL);
    assert(request->minor == 0 || request->minor == 1);
    assert(request->body_len <= limits.max_body_bytes);
    assert(request->body[request->body_len] == '\0');
    assert(request->field_count <= limits.max_fields && hosts == 1);
    for (size_t i = 0; i < request->field_count; i++) {
        const char *name = request->fields[i].name, *value = request->fields[i].value;
        size_t len = strlen(value);

        assert(name[0] != '\0' && strpbrk(name, " \t:\r\n") == NULL);
        for (const char *c = name; *c != '\0'; c++)
            assert(!isupper((unsigned char)*c));
        assert(strpbrk(value, "\r\n") == NULL);
        assert(len == 0 || (strchr(" \t", value[0]) == NULL &&
                            strchr(" \t", value[len - 1]) == NULL));
        if (strncmp(name, "mcp-", 4) == 0 || strcmp(name, "origin") == 0)
            assert(field_times(request, name) == 1);
    }
    assert(field_times(request, "content-length") +
               field_times(request, "transfer-encoding") <=
           1);
}

static void check_same(const tdg__http_request_t *a, const tdg__http_request_t *b) {
    assert(a->method == b->method && a->minor == b->minor);
    assert(a->keep_alive == b->keep_alive);
    assert(strcmp(a->path, b->path) == 0 && strcmp(a->query, b->query) == 0);
    assert(a->body_len == b->body_len && memcmp(a->body, b->body, a->body_len) == 0);
    assert(a->field_count == b->field_count);
    for (size_t i = 0; i < a->field_count; i++) {
        /* A chunked request is written down again with its length. */
        if (strcmp(a->fields[i].name, "transfer-encoding") == 0)
            continue;
        assert(strcmp(a->fields[i].name, b->fields[i].name) == 0);
        assert(strcmp(a->fields[i].value, b->fields[i].value) == 0);
    }
}

static char *write_down(const tdg__http_request_t *request, size_t *ret_len) {
    static const char *const methods[] = {"PATCH",   "DELETE", "GET", "HEAD",
                                          "OPTIONS", "POST",   "PUT"};
    char *text;
    FILE *file = open_memstream(&text, ret_len);

    assert(file != NULL);
    fprintf(file, "%s %s?%s HTTP/1.%d\r\n", methods[request->method], request->path,
            request->query, request->minor);
    for (size_t i = 0; i < request->field_count; i++) {
        const tdg__http_field_t *field = &request->fields[i];

        if (strcmp(field->name, "transfer-encoding") == 0)
            fprintf(file, "content-length:%zu\r\n", request->body_len);
        else
            fprintf(file, "%s:%s\r\n", field->name, field->value);
    }
    fputs("\r\n", file);
    fwrite(request->body, 1, request->body_len, file);
    assert(fclose(file) == 0);
    return text;
}

static void check_one_meaning(const tdg__http_request_t *request) {
    static const tdg__http_limits_t wider = {
        .max_header_bytes = 8192, .max_fields = 12, .max_body_bytes = 256};
    tdg__http_reader_t *reader;
    tdg__http_step_t step;
    int continues;
    size_t len, used;
    char *text;

    if (request->path[0] == '*')
        return; /* has no query, not even an empty one */
    text = write_down(request, &len);
    assert(tdg__http_reader_create(&wider, &reader) == 0);
    step = feed(reader, text, len, (struct cutter){0, 0}, &used, &continues);
    assert(step == TDG__HTTP_READY && used == len);
    check_same(request, tdg__http_reader_request(reader));
    tdg__http_reader_destroy(reader);
    free(text);
}

/* Reads one request with both; returns how long it was, or 0 where nothing follows. */
static size_t compare(tdg__http_reader_t *whole, tdg__http_reader_t *pieces,
                      const char *data, size_t len, struct cutter cutter) {
    size_t used, used_in_pieces;
    int continues, continues_in_pieces;
    tdg__http_step_t step =
        feed(whole, data, len, (struct cutter){0, 0}, &used, &continues);

    assert(feed(pieces, data, len, cutter, &used_in_pieces, &continues_in_pieces) ==
           step);
    assert(continues == continues_in_pieces);
    assert(tdg__http_reader_begun(whole) == tdg__http_reader_begun(pieces) ||
           step == TDG__HTTP_REFUSED);
    if (step == TDG__HTTP_REFUSED) {
        const char *reason = tdg__http_reader_reason(whole);
        int status = tdg__http_reader_status(whole);

        assert(status >= 400 && status < 600 && status != 500);
        assert(strstr(reason, "several ways") == NULL);
        assert(strcmp(reason, tdg__http_reader_reason(pieces)) == 0);
        return 0;
    }
    assert(used == used_in_pieces);
    if (step != TDG__HTTP_READY)
        return 0;

    check_promises(tdg__http_reader_request(whole));
    check_same(tdg__http_reader_request(whole), tdg__http_reader_request(pieces));
    check_one_meaning(tdg__http_reader_request(whole));
    tdg__http_reader_reset(whole);
    tdg__http_reader_reset(pieces);
    return used;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    tdg__http_reader_t *whole, *pieces;
    struct cutter cutter;
    size_t at = 2, used;

    if (size < 2)
        return 0;
    cutter = (struct cutter){data[0], 1 + data[1] % 64U};
    assert(tdg__http_reader_create(&limits, &whole) == 0);
    assert(tdg__http_reader_create(&limits, &pieces) == 0);
    while (at < size) {
        used = compare(whole, pieces, (const char *)data + at, size - at, cutter);
        if (used == 0)
            break;
        at += used;
    }
    tdg__http_reader_destroy(pieces);
    tdg__http_reader_destroy(whole);
    return 0;
}

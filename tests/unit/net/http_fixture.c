/* SPDX-License-Identifier: MIT */
#include "unit/net/http_fixture.h"

#include <stdio.h>

#include "support.h"

const tdg__http_limits_t http_wide = {
    .max_header_bytes = 4096, .max_fields = 20, .max_body_bytes = 4096};

/* The reader must not look behind the piece, so it ends where its block ends. */
static tdg__http_step_t feed_piece(tdg__http_reader_t *reader, const char *data,
                                   size_t len, size_t *ret_used) {
    char *copy = len > 0 ? malloc(len) : NULL;
    tdg__http_step_t step;

    if (len > 0) {
        assert_non_null(copy);
        memcpy(copy, data, len);
    }
    step = tdg__http_reader_feed(reader, copy, len, ret_used);
    assert_true(*ret_used <= len);
    free(copy);
    return step;
}

struct outcome http_feed(tdg__http_reader_t *reader, const char *data, size_t len,
                         size_t cut, size_t piece) {
    struct outcome outcome = {.step = TDG__HTTP_MORE, .reason = ""};
    size_t end = cut < len ? cut : len;

    for (;;) {
        size_t used;

        outcome.step = feed_piece(reader, data + outcome.used, end - outcome.used, &used);
        outcome.used += used;
        if (outcome.step == TDG__HTTP_HEADED) {
            outcome.continues += tdg__http_reader_expects(reader);
            continue;
        }
        if (outcome.step != TDG__HTTP_MORE)
            break;
        assert_int_equal(outcome.used, end); /* wants more, so it has taken all */
        if (end == len)
            break;
        end += piece < len - end ? piece : len - end;
    }

    if (outcome.step == TDG__HTTP_REFUSED) {
        outcome.status = tdg__http_reader_status(reader);
        outcome.reason = tdg__http_reader_reason(reader);
        outcome.used = 0;
    }
    if (outcome.step == TDG__HTTP_READY)
        outcome.text = http_text(tdg__http_reader_request(reader));
    return outcome;
}

static struct outcome read_cut(const tdg__http_limits_t *limits, const char *data,
                               size_t len, size_t cut, size_t piece) {
    tdg__http_reader_t *reader;
    struct outcome outcome;

    assert_int_equal(tdg__http_reader_create(limits, &reader), 0);
    outcome = http_feed(reader, data, len, cut, piece);
    tdg__http_reader_destroy(reader);
    return outcome;
}

struct outcome http_read(const tdg__http_limits_t *limits, const char *data, size_t len) {
    return read_cut(limits, data, len, len, len);
}

void outcome_done(struct outcome *outcome) {
    free(outcome->text);
    outcome->text = NULL;
}

void assert_same_outcome(const char *name, const struct outcome *is,
                         const struct outcome *expected) {
    bool same = is->step == expected->step && is->status == expected->status &&
                is->used == expected->used && is->continues == expected->continues &&
                strcmp(is->reason, expected->reason) == 0;

    if (is->text != NULL && expected->text != NULL)
        same = same && strcmp(is->text, expected->text) == 0;
    if (!same)
        fail_msg("%s: step %d, status %d (%s), used %zu, instead of step %d, status %d "
                 "(%s), used %zu: %s instead of %s",
                 name, (int)is->step, is->status, is->reason, is->used,
                 (int)expected->step, expected->status, expected->reason, expected->used,
                 is->text != NULL ? is->text : "", expected->text ? expected->text : "");
}

void assert_cuts_do_not_matter(const tdg__http_limits_t *limits, const char *name,
                               const char *data, size_t len) {
    struct outcome whole = http_read(limits, data, len), cut;

    for (size_t i = 0; i <= len; i++) {
        cut = read_cut(limits, data, len, i, len);
        assert_same_outcome(name, &cut, &whole);
        outcome_done(&cut);
    }
    for (size_t piece = 1; piece <= 3; piece += 2) {
        cut = read_cut(limits, data, len, piece, piece);
        assert_same_outcome(name, &cut, &whole);
        outcome_done(&cut);
    }
    outcome_done(&whole);
}

/* ---- Requests as text --------------------------------------------------- */

struct writer {
    char *text;
    size_t len;
    FILE *file;
};

static void writer_open(struct writer *writer) {
    writer->file = open_memstream(&writer->text, &writer->len);
    assert_non_null(writer->file);
}

char *http_wire(const char *text) {
    struct writer w;

    writer_open(&w);
    for (; *text != '\0'; text++)
        if (*text == '|')
            fputs("\r\n", w.file);
        else
            fputc(*text, w.file);
    assert_int_equal(fclose(w.file), 0);
    return w.text;
}

static const char *const methods[] = {"PATCH",   "DELETE", "GET", "HEAD",
                                      "OPTIONS", "POST",   "PUT"};

static void write_body(FILE *file, const char *body, size_t len) {
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)body[i];

        if (c == '\r' && i + 1 < len && body[i + 1] == '\n') {
            fputc('|', file);
            i++;
        } else if (c >= ' ' && c < 0x7f && c != '\\' && c != '|') {
            fputc(c, file);
        } else {
            fprintf(file, "\\%02x", c);
        }
    }
}

char *http_text(const tdg__http_request_t *request) {
    struct writer w;

    writer_open(&w);
    fprintf(w.file, "%s %s?%s 1.%d%s|", methods[request->method], request->path,
            request->query, request->minor, request->keep_alive ? "" : " close");
    for (size_t i = 0; i < request->field_count; i++)
        fprintf(w.file, "%s=%s|", request->fields[i].name, request->fields[i].value);
    write_body(w.file, request->body, request->body_len);
    assert_int_equal(fclose(w.file), 0);
    return w.text;
}

char *http_bytes(const tdg__http_request_t *request, size_t *ret_len) {
    struct writer w;

    writer_open(&w);
    fprintf(w.file, "%s %s%s%s HTTP/1.%d\r\n", methods[request->method], request->path,
            request->query[0] != '\0' ? "?" : "", request->query, request->minor);
    for (size_t i = 0; i < request->field_count; i++) {
        const tdg__http_field_t *field = &request->fields[i];

        if (strcmp(field->name, "transfer-encoding") == 0)
            fprintf(w.file, "content-length: %zu\r\n", request->body_len);
        else
            fprintf(w.file, "%s: %s\r\n", field->name, field->value);
    }
    fputs("\r\n", w.file);
    fwrite(request->body, 1, request->body_len, w.file);
    assert_int_equal(fclose(w.file), 0);
    *ret_len = w.len;
    return w.text;
}

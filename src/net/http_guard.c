/* SPDX-License-Identifier: MIT */
#include "net/http_guard.h"

#include <string.h>

#include "base/text.h"

typedef const tdg__http_refusal_t *verdict;

static const tdg__http_refusal_t
    bare_cr = {400, "a carriage return without a line feed"},
    bare_lf = {400, "a line feed without a carriage return"},
    control = {400, "a control character in the header block"},
    folded = {400, "a header line starts with a blank"},
    bad_name = {400, "the name of a header field is not valid"},
    no_colon = {400, "a header line has no colon"},
    bad_line = {400, "the request line is not METHOD TARGET HTTP/1.1"},
    bad_target = {400, "the request target is not a path"},
    bad_version = {505, "only HTTP/1.1 and HTTP/1.0 are supported"},
    no_host = {400, "the Host header is missing"},
    bad_host = {400, "the Host field is not a host"},
    bad_length = {400, "Content-Length is not a number"},
    two_lengths = {400, "both Content-Length and Transfer-Encoding are present"},
    old_coding = {400, "HTTP/1.0 has no Transfer-Encoding"},
    bad_coding = {501, "chunked is the only supported transfer coding"},
    bad_expect = {417, "100-continue is the only supported expectation"},
    twice = {400, "a header field that may appear once appears twice"},
    many_fields = {431, "there are too many header fields"},
    large_body = {413, "the body is too large"},
    bad_size = {400, "the size of a chunk is not valid"},
    extension = {400, "chunk extensions are not accepted"},
    bad_chunk = {400, "a chunk does not match its size"},
    trailer = {400, "trailers are not accepted"};

/* ---- Characters --------------------------------------------------------- */

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

static bool is_alnum(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || is_digit(c);
}

static bool is_blank(char c) {
    return c == ' ' || c == '\t';
}

static bool is_one_of(char c, const char *set) {
    return c != '\0' && strchr(set, c) != NULL;
}

static bool is_token_char(char c) {
    return is_alnum(c) || is_one_of(c, "!#$%&'*+-.^_`|~");
}

static bool is_host_char(char c) {
    return is_alnum(c) || is_one_of(c, "-._~%!$&'()*+;=:[]");
}

static bool is_target_char(char c) {
    return c > ' ' && c < 0x7f && c != '#';
}

/* Any length, none included. */
static bool is_made_of(const char *text, size_t len, bool (*allowed)(char c)) {
    for (size_t i = 0; i < len; i++)
        if (!allowed(text[i]))
            return false;
    return true;
}

/* Whether the text is `word`, which is in lower case, in any case. */
static bool is_word(const char *text, size_t len, const char *word) {
    for (size_t i = 0; i < len; i++)
        if (word[i] == '\0' || tdg__http_lower(text[i]) != word[i])
            return false;
    return word[len] == '\0';
}

/* ---- Fields that decide where a request ends, or have one value only ---- */

static verdict check_host(tdg__http_guard_t *guard, const char *value, size_t len) {
    (void)guard;
    return len > 0 && is_made_of(value, len, is_host_char) ? NULL : &bad_host;
}

static verdict check_length(tdg__http_guard_t *guard, const char *value, size_t len) {
    uint64_t length = 0;

    for (size_t i = 0; i < len; i++) {
        unsigned digit = (unsigned)(value[i] - '0');

        if (!is_digit(value[i]) || length > (UINT64_MAX - digit) / 10)
            return &bad_length;
        length = 10 * length + digit;
    }
    guard->length = length;
    return len > 0 ? NULL : &bad_length;
}

static verdict check_coding(tdg__http_guard_t *guard, const char *value, size_t len) {
    guard->coded = is_word(value, len, "chunked");
    return NULL;
}

/* A list: `curl -H 'Expect;'` sends an empty one, which expects nothing. */
static verdict check_expect(tdg__http_guard_t *guard, const char *value, size_t len) {
    const char *end = value + len;

    while (value < end) {
        const char *comma = memchr(value, ',', (size_t)(end - value));
        const char *last = comma != NULL ? comma : end;

        while (value < last && is_blank(*value))
            value++;
        while (value < last && is_blank(last[-1]))
            last--;
        if (is_word(value, (size_t)(last - value), "100-continue"))
            guard->expects = true;
        else if (value < last)
            guard->unexpected = true;
        value = comma != NULL ? comma + 1 : end;
    }
    return NULL;
}

enum { HOST = 1 << 0, LENGTH = 1 << 1, CODING = 1 << 2 }; /* places in the table */

static const struct single {
    const char *name;
    verdict (*check)(tdg__http_guard_t *guard, const char *value, size_t len);
} singles[] = {
    {"host", check_host},
    {"content-length", check_length},
    {"transfer-encoding", check_coding},
    {"expect", check_expect},
    {"authorization", NULL},
    {"content-type", NULL},
    {"last-event-id", NULL},
    {"origin", NULL},
};

static verdict check_single(tdg__http_guard_t *guard, const char *name, size_t name_len,
                            const char *value, size_t len) {
    for (size_t i = 0; i < sizeof(singles) / sizeof(singles[0]); i++) {
        if (!is_word(name, name_len, singles[i].name))
            continue;
        if (guard->seen & 1U << i)
            return &twice;
        guard->seen |= 1U << i;
        return singles[i].check != NULL ? singles[i].check(guard, value, len) : NULL;
    }
    return NULL;
}

/* ---- Head --------------------------------------------------------------- */

void tdg__http_guard_init(tdg__http_guard_t *guard, const tdg__http_limits_t *limits) {
    *guard = (tdg__http_guard_t){.limits = limits};
}

verdict tdg__http_guard_bytes(tdg__http_guard_t *guard, const char *data, size_t len,
                              size_t *ret_len, bool *ret_ended) {
    bool after_cr = guard->after_cr, ended = false;
    size_t at = 0;

    while (at < len && !ended) {
        unsigned char c = (unsigned char)data[at++];

        ended = c == '\n';
        if (after_cr != ended)
            return ended ? &bare_lf : &bare_cr;
        after_cr = c == '\r';
        if ((c < ' ' && !ended && !after_cr && c != '\t') || c == 0x7f)
            return &control;
    }
    guard->after_cr = after_cr;
    *ret_len = at;
    *ret_ended = ended;
    return NULL;
}

static verdict check_version(tdg__http_guard_t *guard, const char *text, size_t len) {
    if (len != strlen("HTTP/1.1") || memcmp(text, "HTTP/", 5) != 0 || text[6] != '.' ||
        !is_digit(text[5]) || !is_digit(text[7]))
        return &bad_line;
    if (text[5] != '1' || text[7] > '1')
        return &bad_version;
    guard->minor = text[7] - '0';
    return NULL;
}

static bool is_exactly(const char *text, size_t len, const char *word) {
    return len == strlen(word) && memcmp(text, word, len) == 0;
}

static bool is_target(const char *method, size_t method_len, const char *target,
                      size_t len) {
    if (is_exactly(target, len, "*"))
        return is_exactly(method, method_len, "OPTIONS");
    /* These have no path; after them another protocol would begin. */
    if (is_exactly(method, method_len, "CONNECT") ||
        is_exactly(method, method_len, "PRI"))
        return false;
    return len > 0 && target[0] == '/' && is_made_of(target, len, is_target_char);
}

static verdict check_request_line(tdg__http_guard_t *guard, const char *line,
                                  size_t len) {
    const char *end = line + len;
    const char *target = memchr(line, ' ', len);
    const char *version =
        target == NULL ? NULL : memchr(target + 1, ' ', (size_t)(end - target - 1));
    size_t method_len, target_len;
    verdict refusal;

    if (version == NULL)
        return &bad_line;
    method_len = (size_t)(target++ - line);
    target_len = (size_t)(version++ - target);
    if (method_len == 0 || !is_made_of(line, method_len, is_token_char))
        return &bad_line;

    refusal = check_version(guard, version, (size_t)(end - version));
    if (refusal != NULL)
        return refusal;

    return is_target(line, method_len, target, target_len) ? NULL : &bad_target;
}

static verdict check_field(tdg__http_guard_t *guard, const char *line, size_t len) {
    const char *colon = memchr(line, ':', len);
    const char *value, *end = line + len;
    size_t name_len;

    if (is_blank(line[0]))
        return &folded;
    if (colon == NULL)
        return &no_colon;
    name_len = (size_t)(colon - line);
    if (name_len == 0 || !is_made_of(line, name_len, is_token_char))
        return &bad_name;

    /* Only spaces: tabs around what decides where a request ends are read in many ways.
     */
    value = colon + 1;
    while (value < end && *value == ' ')
        value++;
    while (value < end && end[-1] == ' ')
        end--;
    return check_single(guard, line, name_len, value, (size_t)(end - value));
}

verdict tdg__http_guard_line(tdg__http_guard_t *guard, const char *line, size_t len) {
    if (guard->lines++ == 0)
        return check_request_line(guard, line, len);
    if (guard->lines - 1 > guard->limits->max_fields)
        return &many_fields;
    return check_field(guard, line, len);
}

/* Where the next byte of the body stands. */
enum {
    SIZE,
    SIZE_LF,
    DATA,
    DATA_CR,
    DATA_LF,
    END_CR, /* after the last chunk */
    END_LF,
    DONE,
};

verdict tdg__http_guard_head(tdg__http_guard_t *guard) {
    unsigned seen = guard->seen;

    if (!(seen & HOST))
        return &no_host;
    if ((seen & LENGTH) && (seen & CODING))
        return &two_lengths;
    if ((seen & CODING) && guard->minor == 0)
        return &old_coding;
    if ((seen & CODING) && !guard->coded)
        return &bad_coding;
    if (guard->unexpected)
        return &bad_expect;
    if (guard->length > guard->limits->max_body_bytes)
        return &large_body;

    guard->room = guard->limits->max_body_bytes;
    guard->place = guard->coded ? SIZE : guard->length > 0 ? DATA : DONE;
    /* A client of HTTP/1.0 does not understand "100 Continue". */
    guard->expects = guard->expects && guard->minor > 0 && guard->place != DONE;
    return NULL;
}

verdict tdg__http_guard_limit(tdg__http_guard_t *guard, size_t max) {
    if (guard->room > max)
        guard->room = max;
    return !guard->coded && guard->length > guard->room ? &large_body : NULL;
}

verdict tdg__http_guard_fields(const tdg__http_field_t *fields, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (strncmp(fields[i].name, "mcp-", 4) != 0)
            continue;
        for (size_t k = i + 1; k < count; k++)
            if (strcmp(fields[k].name, fields[i].name) == 0)
                return &twice;
    }
    return NULL;
}

/* ---- Body --------------------------------------------------------------- */

enum {
    MAX_DIGITS = 16
}; /* of a chunk's size: 64 bits; more could only be zeros in front */

static verdict size_char(tdg__http_guard_t *guard, char c) {
    int digit = tdg__hex_value(c);

    if (digit < 0) {
        if (c == '\r' && guard->digits > 0) {
            guard->place = SIZE_LF;
            return NULL;
        }
        return guard->digits > 0 && (c == ';' || is_blank(c)) ? &extension : &bad_size;
    }
    if (guard->digits++ == MAX_DIGITS)
        return &bad_size;
    guard->length = guard->length << 4 | (unsigned)digit;
    return guard->length <= guard->room ? NULL : &large_body;
}

static void chunk_begins(tdg__http_guard_t *guard) {
    guard->room -= guard->length;
    guard->place = guard->length > 0 ? DATA : END_CR;
}

static void chunk_ended(tdg__http_guard_t *guard) {
    guard->length = 0;
    guard->digits = 0;
    guard->place = SIZE;
}

/* Any byte of the body that is no data. */
static verdict frame_char(tdg__http_guard_t *guard, char c) {
    switch (guard->place) {
    case SIZE:
        return size_char(guard, c);
    case SIZE_LF:
        chunk_begins(guard);
        return c == '\n' ? NULL : &bare_cr;
    case DATA_CR:
        guard->place = DATA_LF;
        return c == '\r' ? NULL : &bad_chunk;
    case DATA_LF:
        chunk_ended(guard);
        return c == '\n' ? NULL : &bare_cr;
    case END_CR:
        guard->place = END_LF;
        return c == '\r' ? NULL : c == '\n' ? &bare_lf : &trailer;
    default:
        guard->place = DONE;
        return c == '\n' ? NULL : &bare_cr;
    }
}

verdict tdg__http_guard_body(tdg__http_guard_t *guard, const char *data, size_t len,
                             size_t *ret_len) {
    size_t at = 0;

    while (at < len && guard->place != DONE) {
        verdict refusal;

        if (guard->place == DATA) {
            size_t part = guard->length < len - at ? (size_t)guard->length : len - at;

            at += part;
            guard->length -= part;
            if (guard->length == 0)
                guard->place = guard->coded ? DATA_CR : DONE;
            continue;
        }
        refusal = frame_char(guard, data[at++]);
        if (refusal != NULL)
            return refusal;
    }
    *ret_len = at;
    return NULL;
}

bool tdg__http_guard_done(const tdg__http_guard_t *guard) {
    return guard->place == DONE;
}

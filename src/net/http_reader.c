/* SPDX-License-Identifier: MIT
 *
 * The guard (http_guard.h) sees every byte first, then llhttp parses it. The header block
 * is collected, checked line by line as it arrives, and passed to llhttp once, whole: so
 * names and values are pointers into it. The body is passed on in the pieces that arrive.
 * If guard and llhttp disagree on a field, or on the end of the request, it is refused,
 * so that a bug in one of them cannot be exploited.
 *
 * Every request gets an llhttp of its own: nothing of one is left in the next. */
#include <stdint.h>
#include <string.h>

#include <llhttp.h>

#include <tidings/error.h>

#include "base/alloc.h"
#include "net/http_guard.h"
#include "net/http_request.h"

enum {
    BLANK_LINES_MAX = 8, /* before a request */
    FIRST_ROOM = 512,
    KEEP_BYTES = 4096, /* of head and body each, over a reset */
    KEEP_FIELDS = 64,
    SMALL_ROOM = TDG__HTTP_SMALL_BODY + 1, /* with the NUL */
};

enum state { HEAD, BODY, READY, REFUSED };

struct bytes {
    char *data;
    size_t len, room;
};

struct tdg__http_reader {
    tdg__http_limits_t limits;
    enum state state;
    size_t blank_lines;
    size_t line; /* where in the head the current line begins */
    struct bytes head;
    struct bytes body;
    size_t body_max;
    tdg__http_budget_t *budget; /* where the body counts; NULL: nowhere */
    tdg__http_field_t *fields;  /* pointers into the head */
    size_t field_room;
    tdg__http_request_t request;
    char *target; /* in the head */
    size_t target_len;
    bool complete; /* as llhttp sees it */
    const tdg__http_refusal_t *refusal;
    tdg__http_guard_t guard;
    llhttp_t parser;
};

typedef const tdg__http_refusal_t *verdict;

static const tdg__http_refusal_t
    blank_lines = {400, "there are too many empty lines before the request"},
    long_line = {414, "the request line is too long"},
    long_head = {431, "the header block is too long"},
    bad_method = {501, "the method is not supported"},
    unclear = {400, "the request is ambiguous"},
    no_memory = {500, "the server is out of memory"},
    no_budget = {503, "too many large requests are being read"};

/* ---- Bytes -------------------------------------------------------------- */

/* The room that so many more bytes, and the NUL behind them, take: it doubles, up to
 * `max` bytes. What is small does not get the room of something large. */
static size_t room_for(const struct bytes *bytes, size_t len, size_t max) {
    size_t need = bytes->len + len + 1;
    size_t room = 2 * bytes->room < FIRST_ROOM ? FIRST_ROOM : 2 * bytes->room;

    if (need <= bytes->room)
        return bytes->room;
    if (room < need)
        room = need;
    if (room > SMALL_ROOM && need <= SMALL_ROOM)
        room = SMALL_ROOM;
    return room > max + 1 ? max + 1 : room;
}

/* There is always a NUL behind the last byte. */
static int append(struct bytes *bytes, const char *data, size_t len, size_t max) {
    size_t room = room_for(bytes, len, max);

    if (room > bytes->room) {
        char *grown = tdg__realloc(bytes->data, room);

        if (grown == NULL)
            return TDG_ENOMEM;
        bytes->data = grown;
        bytes->room = room;
    }
    memcpy(bytes->data + bytes->len, data, len);
    bytes->len += len;
    bytes->data[bytes->len] = '\0';
    return 0;
}

static void release(struct bytes *bytes) {
    tdg__free(bytes->data);
    *bytes = (struct bytes){NULL, 0, 0};
}

/* ---- Budget ------------------------------------------------------------- */

static size_t cost(size_t room) {
    return room > SMALL_ROOM ? room : 0;
}

static bool can_afford(const tdg__http_reader_t *reader, size_t room) {
    const tdg__http_budget_t *budget = reader->budget;
    size_t others;

    if (budget == NULL || budget->max_bytes == 0 || cost(room) == 0)
        return true;
    others = budget->used_bytes - cost(reader->body.room);
    return others == 0 ||
           (others < budget->max_bytes && room <= budget->max_bytes - others);
}

/* The body has other room than before. */
static void recount(tdg__http_reader_t *reader, size_t before) {
    if (reader->budget != NULL)
        reader->budget->used_bytes += cost(reader->body.room) - cost(before);
}

void tdg__http_reader_charge(tdg__http_reader_t *reader, tdg__http_budget_t *budget) {
    if (reader->budget != NULL)
        reader->budget->used_bytes -= cost(reader->body.room);
    reader->budget = budget;
    if (budget != NULL)
        budget->used_bytes += cost(reader->body.room);
}

/* ---- What llhttp reports ------------------------------------------------ */

/* The bytes behind a pointer that llhttp gave: they are in the head, which is ours. */
static char *writable(tdg__http_reader_t *reader, const char *at) {
    return reader->head.data + (at - reader->head.data);
}

/* Each of these is called once, with all of it: llhttp gets the head in one piece. */

static int on_url(llhttp_t *parser, const char *at, size_t len) {
    tdg__http_reader_t *reader = parser->data;

    if (reader->target != NULL || at[len] != ' ')
        return HPE_USER;
    reader->target = writable(reader, at);
    reader->target_len = len;
    return 0;
}

static int on_header_field(llhttp_t *parser, const char *at, size_t len) {
    tdg__http_reader_t *reader = parser->data;

    if (reader->request.field_count == reader->guard.lines - 1 || at[len] != ':')
        return HPE_USER;
    reader->fields[reader->request.field_count++] = (tdg__http_field_t){at, NULL};
    return 0;
}

static int on_header_value(llhttp_t *parser, const char *at, size_t len) {
    tdg__http_reader_t *reader = parser->data;
    tdg__http_field_t *field = &reader->fields[reader->request.field_count - 1];

    if (len == 0)
        return 0; /* found only after the line has ended, so `at` is somewhere else */
    while (at[len] == ' ' || at[len] == '\t')
        len++;
    if (field->value != NULL || at[len] != '\r')
        return HPE_USER;
    field->value = at;
    return 0;
}

static int on_body(llhttp_t *parser, const char *at, size_t len) {
    tdg__http_reader_t *reader = parser->data;

    size_t before = reader->body.room;

    if (!can_afford(reader, room_for(&reader->body, len, reader->body_max)))
        reader->refusal = &no_budget;
    else if (append(&reader->body, at, len, reader->body_max) < 0)
        reader->refusal = &no_memory;
    else
        recount(reader, before);
    return reader->refusal == NULL ? 0 : HPE_USER;
}

/* Pausing makes llhttp stop before the bytes of the next request. */
static int on_message_complete(llhttp_t *parser) {
    tdg__http_reader_t *reader = parser->data;

    reader->complete = true;
    return HPE_PAUSED;
}

static const llhttp_settings_t settings = {
    .on_url = on_url,
    .on_header_field = on_header_field,
    .on_header_value = on_header_value,
    .on_body = on_body,
    .on_message_complete = on_message_complete,
};

/* Gives llhttp what the guard has let pass. */
static verdict parse(tdg__http_reader_t *reader, const char *data, size_t len) {
    llhttp_errno_t error = llhttp_execute(&reader->parser, data, len);

    if (reader->refusal != NULL)
        return reader->refusal;
    /* The guard takes any token. llhttp knows a list, with some methods of RTSP in it, at
     * which it fails only when it sees that the protocol is HTTP. */
    if (error == HPE_INVALID_METHOD || error == HPE_INVALID_CONSTANT)
        return &bad_method;
    if (error != (reader->complete ? HPE_PAUSED : HPE_OK) ||
        reader->complete != tdg__http_guard_done(&reader->guard))
        return &unclear;
    return NULL;
}

/* ---- Head --------------------------------------------------------------- */

static tdg__http_method_t method_of(llhttp_t *parser) {
    switch (llhttp_get_method(parser)) {
    case HTTP_DELETE:
        return TDG__HTTP_DELETE;
    case HTTP_GET:
        return TDG__HTTP_GET;
    case HTTP_HEAD:
        return TDG__HTTP_HEAD;
    case HTTP_OPTIONS:
        return TDG__HTTP_OPTIONS;
    case HTTP_POST:
        return TDG__HTTP_POST;
    case HTTP_PUT:
        return TDG__HTTP_PUT;
    default:
        return TDG__HTTP_OTHER;
    }
}

/* Ends the name by NUL in the place of its colon, and makes it lower case. */
static void settle_name(char *at) {
    for (; *at != ':'; at++)
        *at = tdg__http_lower(*at);
    *at = '\0';
}

/* Ends the value by NUL in the place of what follows it, a blank or the CR. */
static void settle_value(char *at) {
    char *end = strchr(at, '\r');

    while (end > at && (end[-1] == ' ' || end[-1] == '\t'))
        end--;
    *end = '\0';
}

/* Turns the head, which is parsed, into the strings of the request. */
static void settle(tdg__http_reader_t *reader) {
    tdg__http_request_t *request = &reader->request;
    char *query;

    for (size_t i = 0; i < request->field_count; i++) {
        settle_name(writable(reader, reader->fields[i].name));
        if (reader->fields[i].value == NULL)
            reader->fields[i].value = "";
        else
            settle_value(writable(reader, reader->fields[i].value));
    }

    reader->target[reader->target_len] = '\0';
    query = strchr(reader->target, '?');
    if (query != NULL)
        *query++ = '\0';
    request->path = reader->target;
    request->query = query != NULL ? query : "";
    request->fields = reader->fields;
    request->method = method_of(&reader->parser);
    request->minor = llhttp_get_http_minor(&reader->parser);
    request->keep_alive = tdg__http_keeps_alive(request);
}

static int make_room_for_fields(tdg__http_reader_t *reader, size_t count) {
    tdg__http_field_t *fields;

    if (count <= reader->field_room)
        return 0;

    fields = tdg__reallocarray(reader->fields, count, sizeof(*fields));
    if (fields == NULL)
        return TDG_ENOMEM;
    reader->fields = fields;
    reader->field_room = count;
    return 0;
}

static void become_ready(tdg__http_reader_t *reader) {
    tdg__http_request_t *request = &reader->request;

    request->body = reader->body.len > 0 ? reader->body.data : "";
    request->body_len = reader->body.len;
    reader->state = READY;
}

static verdict limit_body(tdg__http_reader_t *reader) {
    const tdg__http_limits_t *limits = &reader->limits;
    size_t max = limits->max_body_bytes;

    if (limits->body_limit != NULL)
        max = limits->body_limit(limits->user, &reader->request);
    verdict refusal = tdg__http_guard_limit(&reader->guard, max);
    reader->body_max =
        (size_t)(reader->guard.coded ? reader->guard.room : reader->guard.length);
    return refusal;
}

static verdict end_head(tdg__http_reader_t *reader) {
    verdict refusal = tdg__http_guard_head(&reader->guard);

    if (refusal != NULL)
        return refusal;
    if (make_room_for_fields(reader, reader->guard.lines - 1) < 0)
        return &no_memory;
    llhttp_init(&reader->parser, HTTP_REQUEST, &settings);
    reader->parser.data = reader;
    refusal = parse(reader, reader->head.data, reader->head.len);
    if (refusal != NULL)
        return refusal;
    if (reader->target == NULL || reader->request.field_count != reader->guard.lines - 1)
        return &unclear;

    settle(reader);
    refusal = tdg__http_guard_fields(reader->fields, reader->request.field_count);
    if (refusal == NULL)
        refusal = limit_body(reader);
    if (refusal != NULL)
        return refusal;

    reader->state = BODY;
    if (reader->complete)
        become_ready(reader);
    return NULL;
}

static verdict end_line(tdg__http_reader_t *reader) {
    const char *line = reader->head.data + reader->line;
    size_t len = reader->head.len - reader->line - strlen("\r\n");

    if (len == 0 && reader->line > 0)
        return end_head(reader);
    if (len == 0) {
        reader->head.len = 0;
        return ++reader->blank_lines > BLANK_LINES_MAX ? &blank_lines : NULL;
    }
    reader->line = reader->head.len;
    return tdg__http_guard_line(&reader->guard, line, len);
}

static verdict read_head(tdg__http_reader_t *reader, const char *data, size_t len,
                         size_t *ret_used) {
    size_t used = 0;

    while (used < len && reader->state == HEAD) {
        size_t left = reader->limits.max_header_bytes - reader->head.len, part;
        verdict refusal;
        bool ended;

        if (left == 0)
            return reader->line == 0 ? &long_line : &long_head;
        if (left > len - used)
            left = len - used;

        refusal = tdg__http_guard_bytes(&reader->guard, data + used, left, &part, &ended);
        if (refusal != NULL)
            return refusal;
        if (append(&reader->head, data + used, part, reader->limits.max_header_bytes) < 0)
            return &no_memory;
        used += part;

        refusal = ended ? end_line(reader) : NULL;
        if (refusal != NULL)
            return refusal;
    }
    *ret_used += used;
    return NULL;
}

/* ---- Body --------------------------------------------------------------- */

static verdict read_body(tdg__http_reader_t *reader, const char *data, size_t len,
                         size_t *ret_used) {
    size_t part;
    verdict refusal;

    refusal = tdg__http_guard_body(&reader->guard, data, len, &part);
    if (refusal != NULL)
        return refusal;

    refusal = parse(reader, data, part);
    if (refusal != NULL)
        return refusal;

    if (reader->complete)
        become_ready(reader);
    *ret_used += part;
    return NULL;
}

/* ---- Reader ------------------------------------------------------------- */

/* Whatever the limits allow, so that sums do not overflow. */
static const size_t BYTES_MAX = SIZE_MAX / 4;

static size_t at_most(size_t value, size_t max) {
    return value < max ? value : max;
}

int tdg__http_reader_create(const tdg__http_limits_t *limits, tdg__http_reader_t **ret) {
    tdg__http_reader_t *reader = tdg__calloc(1, sizeof(*reader));

    if (reader == NULL)
        return TDG_ENOMEM;
    reader->limits = *limits;
    reader->limits.max_header_bytes = at_most(limits->max_header_bytes, BYTES_MAX);
    reader->limits.max_body_bytes = at_most(limits->max_body_bytes, BYTES_MAX);
    tdg__http_guard_init(&reader->guard, &reader->limits);
    *ret = reader;
    return 0;
}

void tdg__http_reader_destroy(tdg__http_reader_t *reader) {
    if (reader == NULL)
        return;
    tdg__http_reader_charge(reader, NULL);
    release(&reader->head);
    release(&reader->body);
    tdg__free(reader->fields);
    tdg__free(reader);
}

static tdg__http_step_t refuse(tdg__http_reader_t *reader, verdict refusal) {
    reader->refusal = refusal;
    reader->state = REFUSED;
    return TDG__HTTP_REFUSED;
}

tdg__http_step_t tdg__http_reader_feed(tdg__http_reader_t *reader, const char *data,
                                       size_t len, size_t *ret_used) {
    bool headed = false;
    verdict refusal;

    *ret_used = 0;
    if (reader->state == HEAD) {
        refusal = read_head(reader, data, len, ret_used);
        if (refusal != NULL)
            return refuse(reader, refusal);
        headed = reader->state == BODY;
        if (headed && reader->guard.expects)
            return TDG__HTTP_HEADED;
    }
    if (reader->state == BODY && *ret_used < len) {
        refusal = read_body(reader, data + *ret_used, len - *ret_used, ret_used);
        if (refusal != NULL)
            return refuse(reader, refusal);
    }
    if (headed && reader->state == BODY)
        return TDG__HTTP_HEADED;
    return reader->state == READY     ? TDG__HTTP_READY
           : reader->state == REFUSED ? TDG__HTTP_REFUSED
                                      : TDG__HTTP_MORE;
}

bool tdg__http_reader_expects(const tdg__http_reader_t *reader) {
    return reader->guard.expects;
}

uint64_t tdg__http_reader_missing(const tdg__http_reader_t *reader) {
    return reader->state == BODY ? reader->guard.length : 0;
}

bool tdg__http_reader_begun(const tdg__http_reader_t *reader) {
    return reader->state != HEAD ||
           (reader->head.len > 0 && reader->head.data[0] != '\r');
}

const tdg__http_request_t *tdg__http_reader_request(const tdg__http_reader_t *reader) {
    return &reader->request;
}

int tdg__http_reader_status(const tdg__http_reader_t *reader) {
    return reader->refusal->status;
}

const char *tdg__http_reader_reason(const tdg__http_reader_t *reader) {
    return reader->refusal->reason;
}

void tdg__http_reader_reset(tdg__http_reader_t *reader) {
    size_t before = reader->body.room;

    reader->state = HEAD;
    reader->blank_lines = reader->line = 0;
    reader->head.len = reader->body.len = 0;
    reader->request = (tdg__http_request_t){0};
    reader->target = NULL;
    reader->complete = false;
    reader->refusal = NULL;
    tdg__http_guard_init(&reader->guard, &reader->limits);

    if (reader->head.room > KEEP_BYTES)
        release(&reader->head);
    if (reader->body.room > KEEP_BYTES)
        release(&reader->body);
    recount(reader, before);
    if (reader->field_room > KEEP_FIELDS) {
        tdg__free(reader->fields);
        reader->fields = NULL;
        reader->field_room = 0;
    }
}

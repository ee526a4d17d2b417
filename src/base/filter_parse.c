/* SPDX-License-Identifier: MIT
 *
 * Makes a filter from JSON: filter_check.c has checked it and counted, what remains is to
 * write the text, and the program into one block of memory. */
#include "base/filter_program.h"

#include <string.h>

#include <tidings/error.h>

#include "base/alloc.h"

enum { TEXT_FLAGS = JSON_SORT_KEYS | JSON_COMPACT };

/* Free room in the block of a filter, by kind. */
struct room {
    tdg__filter_step_t *first;
    uint32_t step; /* the number of the next one */
    tdg__filter_field_t *fields;
    tdg__filter_name_t *names;
    tdg__filter_value_t *values;
    char *bytes;
};

bool tdg__filter_is_name(const char *name, size_t len, const char *literal) {
    return strlen(literal) == len && memcmp(name, literal, len) == 0;
}

const char *tdg__filter_names(const char *field, size_t len) {
    static const char prefix[] = "metadata.";
    size_t prefix_len = sizeof(prefix) - 1;

    return len >= prefix_len && memcmp(field, prefix, prefix_len) == 0
               ? field + prefix_len
               : NULL;
}

tdg__filter_name_t tdg__filter_next_name(const char **names, const char *end) {
    const char *name = *names, *dot = memchr(name, '.', (size_t)(end - name));

    *names = dot != NULL ? dot + 1 : NULL;
    return (tdg__filter_name_t){name, (size_t)((dot != NULL ? dot : end) - name)};
}

int tdg__filter_refuse_size(const tdg__filter_limits_t *limits,
                            tdg__parse_error_t *error) {
    return tdg__parse_fail(error, TDG_EFILTERSIZE, 0,
                           "the filter takes more than %zu bytes", limits->max_bytes);
}

static const char *keep_bytes(struct room *room, const char *bytes, size_t len) {
    char *kept = room->bytes;

    memcpy(kept, bytes, len);
    room->bytes += len;
    return kept;
}

static void keep_string(struct room *room, const char *bytes, size_t len,
                        tdg__filter_value_t *ret) {
    ret->type = JSON_STRING;
    ret->len = len;
    ret->as.bytes = keep_bytes(room, bytes, len);
}

static void keep_value(struct room *room, const json_t *json, tdg__filter_value_t *ret) {
    tdg__filter_value_t *items = room->values;
    const json_t *member;
    const char *key;
    size_t key_len;

    ret->type = json_typeof(json);
    switch (ret->type) {
    case JSON_STRING:
        keep_string(room, json_string_value(json), json_string_length(json), ret);
        break;
    case JSON_INTEGER:
        ret->as.integer = json_integer_value(json);
        break;
    case JSON_REAL:
        ret->as.real = json_real_value(json);
        break;
    case JSON_ARRAY:
        ret->as.items = items;
        ret->len = json_array_size(json);
        room->values += ret->len; /* before the elements take theirs */
        for (size_t i = 0; i < ret->len; i++)
            keep_value(room, json_array_get(json, i), items++);
        break;
    case JSON_OBJECT:
        ret->as.items = items;
        ret->len = json_object_size(json);
        room->values += 2 * ret->len;
        json_object_keylen_foreach(tdg__filter_iterable(json), key, key_len, member) {
            keep_string(room, key, key_len, items++);
            keep_value(room, member, items++);
        }
        break;
    default:
        break;
    }
}

static const tdg__filter_field_t *keep_field(struct room *room, const char *text,
                                             size_t len) {
    const char *names = tdg__filter_names(text, len), *end = text + len;
    tdg__filter_field_t *field = room->fields++;

    if (names != NULL)
        field->source = TDG__FILTER_METADATA;
    else if (tdg__filter_is_name(text, len, "uri"))
        field->source = TDG__FILTER_URI;
    else
        field->source = TDG__FILTER_AGE;

    field->names = room->names;
    while (names != NULL) {
        tdg__filter_name_t name = tdg__filter_next_name(&names, end);

        *room->names++ =
            (tdg__filter_name_t){keep_bytes(room, name.bytes, name.len), name.len};
        field->count++;
    }
    return field;
}

/* The emit functions get where to go when a part passes or fails, and return where the
 * part begins. They write a program from its end to its beginning, so that both are
 * known: what passes in `all` goes on to the part written before it, what fails in `any`
 * does. */
static uint32_t emit_condition(struct room *room, const char *name, size_t name_len,
                               const json_t *json, uint32_t pass, uint32_t fail) {
    const tdg__filter_field_t *field = keep_field(room, name, name_len);
    const tdg__filter_operator_t *op;
    const json_t *operand;
    const char *key;
    size_t key_len;

    json_object_keylen_foreach(tdg__filter_iterable(json), key, key_len, operand) {
        tdg__filter_step_t *step = &room->first[room->step - TDG__FILTER_FIRST_STEP];

        op = tdg__filter_operator_find(key, key_len);
        step->test = op->test;
        step->field = field;
        keep_value(room, operand, &step->operand);
        step->if_missing = op->asks_presence && json_is_false(operand);
        step->pass = pass;
        step->fail = fail;
        pass = room->step++;
    }
    return pass;
}

static uint32_t emit_filter(struct room *room, const json_t *json, uint32_t pass,
                            uint32_t fail) {
    const json_t *member;
    const char *key;
    size_t len;

    json_object_keylen_foreach(tdg__filter_iterable(json), key, len, member) {
        if (tdg__filter_is_name(key, len, "not")) {
            pass = emit_filter(room, member, fail, pass);
        } else if (tdg__filter_is_name(key, len, "all")) {
            for (size_t i = json_array_size(member); i-- > 0;)
                pass = emit_filter(room, json_array_get(member, i), pass, fail);
        } else if (tdg__filter_is_name(key, len, "any")) {
            uint32_t otherwise = fail;

            for (size_t i = json_array_size(member); i-- > 0;)
                otherwise = emit_filter(room, json_array_get(member, i), pass, otherwise);
            pass = otherwise;
        } else {
            pass = emit_condition(room, key, len, member, pass, fail);
        }
    }
    return pass;
}

/* Returns a new buffer with the canonical text, or NULL with a code in *ret_code. A text
 * that jansson cannot write counts as lack of memory: the only other reason is a string
 * that is not UTF-8, which filter.h rules out. */
static tdg__buf_t *write_text(const json_t *json, size_t max_bytes, int *ret_code) {
    size_t len = json_dumpb(json, NULL, 0, TEXT_FLAGS);
    tdg__buf_t *text;

    *ret_code = len > max_bytes ? TDG_EFILTERSIZE : TDG_ENOMEM;
    if (len == 0 || len > max_bytes)
        return NULL;

    text = tdg__buf_create(NULL, len);
    if (text == NULL)
        return NULL;

    if (json_dumpb(json, text->data, len, TEXT_FLAGS) != len) {
        tdg__buf_unref(text);
        return NULL;
    }
    return text;
}

/* A new filter with room for what was counted, all zero; NULL when memory is out. The
 * counts are bounded by TDG__FILTER_MAX_BYTES, so their sum does not overflow. */
static tdg__filter_t *create(const tdg__filter_counts_t *counts, struct room *ret_room) {
    tdg__filter_t *filter;
    size_t size = sizeof(*filter) + counts->steps * sizeof(filter->steps[0]) +
                  counts->fields * sizeof(tdg__filter_field_t) +
                  counts->names * sizeof(tdg__filter_name_t) +
                  counts->values * sizeof(tdg__filter_value_t) + counts->bytes;

    filter = tdg__calloc(1, size);
    if (filter == NULL)
        return NULL;

    filter->size = size;
    ret_room->first = filter->steps;
    ret_room->step = TDG__FILTER_FIRST_STEP;
    ret_room->fields = (void *)(ret_room->first + counts->steps);
    ret_room->names = (void *)(ret_room->fields + counts->fields);
    ret_room->values = (void *)(ret_room->names + counts->names);
    ret_room->bytes = (void *)(ret_room->values + counts->values);
    return filter;
}

static size_t at_most(size_t size, size_t limit) {
    return size < limit ? size : limit;
}

int tdg__filter_parse(const json_t *json, const tdg__filter_limits_t *limits,
                      tdg__filter_t **ret, tdg__parse_error_t *error) {
    const tdg__filter_limits_t capped = {
        .max_bytes = at_most(limits->max_bytes, TDG__FILTER_MAX_BYTES),
        .max_depth = at_most(limits->max_depth, TDG__FILTER_MAX_DEPTH),
    };
    tdg__filter_counts_t counts;
    tdg__filter_t *filter;
    tdg__buf_t *text;
    struct room room;
    int rv;

    rv = tdg__filter_check(json, &capped, &counts, error);
    if (rv < 0)
        return rv;

    text = write_text(json, capped.max_bytes, &rv);
    if (text == NULL && rv == TDG_EFILTERSIZE)
        return tdg__filter_refuse_size(&capped, error);
    if (text == NULL)
        goto fail_memory;

    filter = create(&counts, &room);
    if (filter == NULL)
        goto fail_text;
    filter->text = text;
    filter->entry = emit_filter(&room, json, TDG__FILTER_PASS, TDG__FILTER_FAIL);

    *ret = filter;
    return 0;

fail_text:
    tdg__buf_unref(text);
fail_memory:
    return tdg__parse_fail(error, TDG_ENOMEM, 0, "%s", tdg_strerror(TDG_ENOMEM));
}

void tdg__filter_destroy(tdg__filter_t *filter) {
    if (filter == NULL)
        return;
    tdg__buf_unref(filter->text);
    tdg__free(filter);
}

const tdg__buf_t *tdg__filter_text(const tdg__filter_t *filter) {
    return filter->text;
}

size_t tdg__filter_bytes(const tdg__filter_t *filter) {
    return filter->size + filter->text->len;
}

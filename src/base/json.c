/* SPDX-License-Identifier: MIT
 *
 * The values are jansson's, the parser is ours: jansson's own (2.14, and later ones at
 * the time of writing) continues without the byte for which an allocation failed, and
 * past its buffer if that byte is a closing quote. Also, our parser enforces limits while
 * reading, in one pass. A container is added to its parent when it opens, so the stack
 * has only borrowed pointers, and giving up means releasing the root. */
#include "base/json.h"

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include <tidings/error.h>

#include "base/alloc.h"
#include "base/json_scalar.h"

enum state {
    VALUE,        /* comes next */
    VALUE_OR_END, /* after [ */
    KEY,          /* after a comma */
    KEY_OR_END,   /* after { */
    COMMA_OR_END, /* after a value */
    DONE,
};

struct parser {
    tdg__json_input_t in;
    const tdg__json_limits_t *limits;
    size_t *places; /* of each value, where somebody wants to know; or NULL */
    size_t values;
    enum state state;
    json_t *root;
    size_t depth;
    json_t *open[TDG__JSON_MAX_DEPTH];
    tdg__json_string_t key; /* of the value that comes next in an object */
    size_t key_at;
};

static int fail(const struct parser *p, int code, const char *text) {
    return tdg__parse_fail(p->in.error, code, p->in.at, "%s", text);
}

static int out_of_memory(const struct parser *p) {
    return fail(p, TDG_ENOMEM, tdg_strerror(TDG_ENOMEM));
}

static int count(struct parser *p) {
    if (p->values == p->limits->max_values)
        return tdg__parse_fail(p->in.error, TDG_ETOOLARGE, p->in.at,
                               "more than %zu values", p->limits->max_values);
    if (p->places != NULL)
        p->places[p->values] = p->in.at;
    p->values++;
    return 0;
}

/* Steals `value` and puts it where it belongs. */
static int attach(struct parser *p, json_t *value) {
    json_t *parent = p->depth > 0 ? p->open[p->depth - 1] : NULL;
    int rv;

    if (value == NULL)
        return out_of_memory(p);

    if (parent == NULL) {
        p->root = value;
        rv = 0;
    } else if (json_is_array(parent)) {
        rv = json_array_append_new(parent, value);
    } else {
        size_t size = json_object_size(parent);

        rv = json_object_setn_new_nocheck(parent, p->key.text, p->key.len, value);
        tdg__json_string_done(&p->key);
        if (rv == 0 && json_object_size(parent) == size) {
            p->in.at = p->key_at;
            return fail(p, TDG_EJSON, "this key appears twice");
        }
    }
    return rv < 0 ? out_of_memory(p) : 0;
}

static int open_container(struct parser *p, char bracket) {
    json_t *container;
    int rv;

    if (p->depth == p->limits->max_depth)
        return tdg__parse_fail(p->in.error, TDG_ETOOLARGE, p->in.at,
                               "nested more than %zu deep", p->limits->max_depth);

    container = bracket == '{' ? json_object() : json_array();
    rv = attach(p, container);
    if (rv < 0)
        return rv;

    p->open[p->depth++] = container;
    p->state = bracket == '{' ? KEY_OR_END : VALUE_OR_END;
    p->in.at++;
    return 0;
}

static void close_container(struct parser *p) {
    p->depth--;
    p->state = p->depth > 0 ? COMMA_OR_END : DONE;
    p->in.at++;
}

static int read_value(struct parser *p, char byte) {
    json_t *value = NULL;
    int rv;

    rv = count(p);
    if (rv < 0)
        return rv;
    if (byte == '{' || byte == '[')
        return open_container(p, byte);

    rv = tdg__json_scalar(&p->in, &value);
    if (rv < 0)
        return rv;

    p->state = p->depth > 0 ? COMMA_OR_END : DONE;
    return attach(p, value);
}

static int read_key(struct parser *p) {
    int rv;

    rv = count(p);
    if (rv < 0)
        return rv;

    p->key_at = p->in.at;
    rv = tdg__json_string(&p->in, &p->key);
    if (rv < 0)
        return rv;

    tdg__json_skip_blanks(&p->in);
    if (p->in.at == p->in.len || p->in.data[p->in.at] != ':')
        return fail(p, TDG_EJSON, "expected a colon");
    p->in.at++;
    p->state = VALUE;
    return 0;
}

/* Takes what comes next: a value, a key with its colon, a comma or an end. */
static int step(struct parser *p) {
    char byte = p->in.data[p->in.at];
    bool in_object = p->depth > 0 && json_is_object(p->open[p->depth - 1]);

    switch (p->state) {
    case VALUE_OR_END:
    case VALUE:
        if (p->state == VALUE_OR_END && byte == ']') {
            close_container(p);
            return 0;
        }
        return read_value(p, byte);
    case KEY_OR_END:
    case KEY:
        if (p->state == KEY_OR_END && byte == '}') {
            close_container(p);
            return 0;
        }
        return byte == '"' ? read_key(p) : fail(p, TDG_EJSON, "expected a key");
    case COMMA_OR_END:
        if (byte == ',') {
            p->state = in_object ? KEY : VALUE;
            p->in.at++;
            return 0;
        }
        if (byte != (in_object ? '}' : ']'))
            return fail(p, TDG_EJSON,
                        in_object ? "expected a comma or }" : "expected a comma or ]");
        close_container(p);
        return 0;
    case DONE:
        break;
    }
    return fail(p, TDG_EJSON, "expected the end");
}

static int parse(struct parser *p) {
    int rv;

    for (;;) {
        tdg__json_skip_blanks(&p->in);
        if (p->in.at == p->in.len)
            return p->state == DONE ? 0 : fail(p, TDG_EJSON, "unexpected end of input");

        rv = step(p);
        if (rv < 0)
            return rv;
    }
}

int tdg__json_parse(const char *data, size_t len, const tdg__json_limits_t *limits,
                    json_t **ret, tdg__parse_error_t *error) {
    return tdg__json_parse_placed(data, len, limits, NULL, ret, error);
}

int tdg__json_parse_placed(const char *data, size_t len, const tdg__json_limits_t *limits,
                           size_t *places, json_t **ret, tdg__parse_error_t *error) {
    struct parser p;
    int rv;

    assert(limits->max_depth <= TDG__JSON_MAX_DEPTH);
    if (len > limits->max_bytes)
        return tdg__parse_fail(error, TDG_ETOOLARGE, limits->max_bytes,
                               "more than %zu bytes", limits->max_bytes);

    /* The stack needs no zeros, and there is a lot of it. */
    p.in = (tdg__json_input_t){.data = data, .len = len, .error = error};
    p.limits = limits;
    p.places = places;
    p.values = 0;
    p.state = VALUE;
    p.root = NULL;
    p.depth = 0;
    p.key = (tdg__json_string_t){0};

    rv = parse(&p);
    tdg__json_string_done(&p.key);
    if (rv < 0) {
        json_decref(p.root);
        return rv;
    }

    *ret = p.root;
    return 0;
}

/* ---- Weight ------------------------------------------------------------- */

size_t tdg__json_weigh(const json_t *value) {
    enum { STRING = 32, NUMBER = 24, ARRAY = 100, ENTRY = 8, OBJECT = 300, MEMBER = 64 };
    size_t size, i;
    json_t *each, *all = (json_t *)(uintptr_t)value; /* to iterate */
    const char *key;

    switch (value != NULL ? json_typeof(value) : JSON_NULL) {
    case JSON_STRING:
        return STRING + json_string_length(value);
    case JSON_ARRAY:
        size = ARRAY;
        json_array_foreach(all, i, each) size += ENTRY + tdg__json_weigh(each);
        return size;
    case JSON_OBJECT:
        size = OBJECT;
        json_object_foreach(all, key, each) size +=
            MEMBER + strlen(key) + tdg__json_weigh(each);
        return size;
    case JSON_INTEGER:
    case JSON_REAL:
        return NUMBER;
    default:
        return 0; /* shared by all */
    }
}

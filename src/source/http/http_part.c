/* SPDX-License-Identifier: MIT */
#include "source/http/http_part.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tidings/error.h>

#include "base/alloc.h"
#include "base/json.h"
#include "base/json_pointer.h"

/* ---- Writing ------------------------------------------------------------ */

/* The shortest text that is read as the same number; jansson would write 0.1 as
 * 0.10000000000000001. */
static void put_real(tdg__text_t *out, double number) {
    char text[40];

    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, sizeof(text), "%.*g", digits, number);
        if (strtod(text, NULL) == number)
            break;
    }
    tdg__text_put(out, text);
    if (strpbrk(text, ".eE") == NULL)
        tdg__text_put(out, ".0"); /* stays a number with a fraction */
}

static void put_value(tdg__text_t *out, json_t *value);

static int by_name(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void put_object(tdg__text_t *out, json_t *object) {
    size_t count = json_object_size(object), n = 0;
    const char **names;
    const char *name;
    json_t *value;

    if (count == 0) {
        tdg__text_put(out, "{}");
        return;
    }
    names = tdg__reallocarray(NULL, count, sizeof(*names));
    if (names == NULL) {
        out->error = TDG_ENOMEM;
        return;
    }
    json_object_foreach(object, name, value) {
        names[n++] = name;
    }
    qsort(names, count, sizeof(*names), by_name);
    for (size_t i = 0; i < count && out->error == 0; i++) {
        tdg__text_put(out, i == 0 ? "{" : ",");
        tdg__text_put_quoted(out, names[i], strlen(names[i]));
        tdg__text_put(out, ":");
        put_value(out, json_object_get(object, names[i]));
    }
    tdg__text_put(out, "}");
    tdg__free(names);
}

static void put_array(tdg__text_t *out, json_t *array) {
    size_t i;
    json_t *item;

    tdg__text_put(out, "[");
    json_array_foreach(array, i, item) {
        if (i > 0)
            tdg__text_put(out, ",");
        put_value(out, item);
    }
    tdg__text_put(out, "]");
}

/* As deep as the document, which the parser has bounded. */
static void put_value(tdg__text_t *out, json_t *value) {
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        put_object(out, value);
        break;
    case JSON_ARRAY:
        put_array(out, value);
        break;
    case JSON_REAL:
        put_real(out, json_real_value(value));
        break;
    default:
        tdg__text_put_json(out, value);
        break;
    }
}

/* ---- One part ----------------------------------------------------------- */

int tdg__http_part(const char *data, size_t len, const char *pointer, tdg__text_t *out,
                   tdg__parse_error_t *error) {
    const tdg__json_limits_t limits = {.max_bytes = len,
                                       .max_depth = TDG__JSON_MAX_DEPTH,
                                       .max_values = TDG__HTTP_PART_VALUES};
    json_t *document, *part;

    int rv = tdg__json_parse(data, len, &limits, &document, error);
    if (rv < 0)
        return rv;
    part = tdg__json_pointer_get(document, pointer);
    if (part == NULL) {
        rv = TDG_ENOTFOUND;
    } else {
        put_value(out, part);
        rv = out->error;
        if (rv == TDG_ETOOLARGE)
            tdg__parse_fail(error, rv, 0, "the part is larger than max-size");
    }
    json_decref(document);
    return rv;
}

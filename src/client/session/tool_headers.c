/* SPDX-License-Identifier: MIT */
#include "client/session/tool_headers.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include <tidings/error.h>

#include "base/alloc.h"
#include "mcp/request.h"
#include "web/web_header.h"

enum { MAX_NESTING = 64 };

static const char annotation[] = "x-mcp-header";
static const int64_t max_safe = (INT64_C(1) << 53) - 1; /* what JavaScript can count to */

/* jansson's iteration wants what it does not change as if it would. */
static json_t *iterable(const json_t *json) {
    return (json_t *)(uintptr_t)json;
}

/* ---- Whether they are valid --------------------------------------------- */

/* How a keyword of JSON Schema holds other schemas. */
enum holds {
    SCHEMA, /* one, or an array of them: what is not in the table */
    PATH,   /* by name, and on the way to a parameter */
    NAMED,  /* by name, but not on that way */
    DATA,   /* none */
};

static const struct keyword {
    const char *name;
    enum holds holds;
} keywords[] = {
    {"properties", PATH},
    {"patternProperties", NAMED},
    {"$defs", NAMED},
    {"definitions", NAMED},
    {"dependentSchemas", NAMED},
    {"default", DATA},
    {"const", DATA},
    {"enum", DATA},
    {"examples", DATA},
};

struct check {
    const char *names[TDG__TOOL_MAX_HEADERS];
    size_t count;
    const char *wrong; /* NULL: nothing so far */
    const char *about; /* the annotation that it is about, or NULL */
};

static bool is_primitive(const json_t *type) {
    const char *name = json_string_value(type);

    return name != NULL && (strcmp(name, "string") == 0 || strcmp(name, "integer") == 0 ||
                            strcmp(name, "boolean") == 0);
}

/* "string", or ["string", "null"]: a null is never sent in a header. */
static bool has_primitive_type(const json_t *schema) {
    const json_t *type = json_object_get(schema, "type"), *one;
    size_t i, primitive = 0, nulls = 0;

    if (!json_is_array(type))
        return is_primitive(type);

    json_array_foreach(iterable(type), i, one) {
        const char *name = json_string_value(one);

        primitive += is_primitive(one) ? 1 : 0;
        nulls += name != NULL && strcmp(name, "null") == 0 ? 1 : 0;
    }
    return primitive == 1 && primitive + nulls == json_array_size(type);
}

static const char *wrong_with(struct check *check, const json_t *schema, const char *name,
                              bool reachable) {
    if (name == NULL)
        return "it is not a string";
    if (name[0] == '\0')
        return "it is empty";
    if (strlen(name) > TDG__TOOL_MAX_NAME)
        return "it is too long";
    if (!tdg__web_is_token(name, strlen(name)))
        return "it has characters that are not allowed in a header name";
    if (!reachable)
        return "its property is not reachable through `properties` alone";
    if (!has_primitive_type(schema))
        return "the type of its parameter is not string, integer or boolean";
    for (size_t i = 0; i < check->count; i++) {
        if (strcasecmp(check->names[i], name) == 0)
            return "it is used twice";
    }
    if (check->count == TDG__TOOL_MAX_HEADERS)
        return "there are too many of them";
    return NULL;
}

static void check_annotation(struct check *check, const json_t *schema, bool reachable) {
    const json_t *value = json_object_get(schema, annotation);
    const char *name = json_string_value(value);

    if (value == NULL)
        return;

    check->wrong = wrong_with(check, schema, name, reachable);
    check->about = name;
    if (check->wrong == NULL)
        check->names[check->count++] = name;
}

static void check_schema(struct check *check, const json_t *schema, bool on_path,
                         bool is_property, int depth);

static void check_named(struct check *check, const json_t *schemas, bool on_path,
                        int depth) {
    const json_t *schema;
    const char *key;

    json_object_foreach(iterable(schemas), key, schema)
        check_schema(check, schema, on_path, on_path, depth);
}

static void check_keyword(struct check *check, const char *key, const json_t *value,
                          bool on_path, int depth) {
    enum holds holds = SCHEMA;
    const json_t *schema;
    size_t i;

    for (i = 0; i < sizeof(keywords) / sizeof(keywords[0]); i++) {
        if (strcmp(keywords[i].name, key) == 0)
            holds = keywords[i].holds;
    }

    if (holds == PATH || holds == NAMED) {
        check_named(check, value, on_path && holds == PATH, depth);
    } else if (holds == SCHEMA) {
        check_schema(check, value, false, false, depth);
        json_array_foreach(iterable(value), i, schema)
            check_schema(check, schema, false, false, depth);
    }
}

/* `on_path`: only `properties` lead here from the root. Stops at the first mistake. */
static void check_schema(struct check *check, const json_t *schema, bool on_path,
                         bool is_property, int depth) {
    const json_t *value;
    const char *key;

    if (check->wrong != NULL || !json_is_object(schema))
        return;
    if (depth > MAX_NESTING) {
        check->wrong = "the schema is nested too deeply";
        return;
    }

    check_annotation(check, schema, on_path && is_property);
    json_object_foreach(iterable(schema), key, value) {
        if (check->wrong == NULL)
            check_keyword(check, key, value, on_path, depth + 1);
    }
}

int tdg__tool_headers_check(const json_t *tool, char *why, size_t why_size) {
    struct check check = {.count = 0};

    check_schema(&check, json_object_get(tool, "inputSchema"), true, false, 0);
    if (check.wrong == NULL)
        return (int)check.count;
    snprintf(why, why_size, "%s \"%.*s\": %s", annotation, 40,
             check.about != NULL ? check.about : "", check.wrong);
    return TDG_EINVAL;
}

/* ---- The headers of a call ---------------------------------------------- */

static int number_text(const json_t *value, char *ret, size_t size) {
    double real = json_real_value(value);

    if (json_is_integer(value)) {
        int64_t whole = json_integer_value(value);

        if (whole > max_safe || whole < -max_safe)
            return TDG_EINVAL;
        snprintf(ret, size, "%" PRId64, whole);
        return 0;
    }
    if (!(fabs(real) <= (double)max_safe) || real != (double)(int64_t)real)
        return TDG_EINVAL;
    snprintf(ret, size, "%.0f", real);
    return 0;
}

static int add_header(tdg__tool_headers_t *headers, const char *name, const char *text) {
    char full[TDG__TOOL_MAX_NAME + 16];
    tdg__web_field_t field;

    if (headers->count == TDG__TOOL_MAX_HEADERS)
        return TDG_EINVAL;

    snprintf(full, sizeof(full), "Mcp-Param-%s", name);
    field = (tdg__web_field_t){tdg__strdup(full), tdg__mcp_header_value(text)};
    headers->fields[headers->count++] = field;
    return field.name != NULL && field.value != NULL ? 0 : TDG_ENOMEM;
}

static int add_value(tdg__tool_headers_t *headers, const char *name,
                     const json_t *value) {
    char text[32];
    int rv;

    switch (json_typeof(value)) {
    case JSON_STRING:
        return add_header(headers, name, json_string_value(value));
    case JSON_TRUE:
    case JSON_FALSE:
        return add_header(headers, name, json_is_true(value) ? "true" : "false");
    case JSON_INTEGER:
    case JSON_REAL:
        rv = number_text(value, text, sizeof(text));
        return rv < 0 ? rv : add_header(headers, name, text);
    default:
        return 0; /* null is never sent; the rest is the server's to refuse */
    }
}

static int add_all(tdg__tool_headers_t *headers, const json_t *schema,
                   const json_t *arguments, int depth) {
    const json_t *property, *value;
    const char *key, *name;
    int rv = 0;

    if (depth > MAX_NESTING)
        return 0;

    json_object_foreach(iterable(json_object_get(schema, "properties")), key, property) {
        name = json_string_value(json_object_get(property, annotation));
        value = json_object_get(arguments, key);
        if (value == NULL)
            continue;
        rv = name != NULL ? add_value(headers, name, value)
                          : add_all(headers, property, value, depth + 1);
        if (rv < 0)
            return rv;
    }
    return 0;
}

int tdg__tool_headers(const json_t *input_schema, const json_t *arguments,
                      tdg__tool_headers_t *ret) {
    int rv;

    ret->count = 0;
    rv = add_all(ret, input_schema, arguments, 0);
    if (rv < 0)
        tdg__tool_headers_done(ret);
    return rv;
}

void tdg__tool_headers_done(tdg__tool_headers_t *headers) {
    for (size_t i = 0; i < headers->count; i++) {
        tdg__free((char *)(uintptr_t)headers->fields[i].name);
        tdg__free((char *)(uintptr_t)headers->fields[i].value);
    }
    headers->count = 0;
}

/* SPDX-License-Identifier: MIT */
#include "args.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <tidings/error.h>

#include "base/alloc.h"
#include "base/json.h"
#include "base/json_pointer.h"
#include "base/nearest.h"

enum {
    MAX_DEPTH = 8,      /* of schemas inside each other; deeper ones say nothing */
    MAX_NAMED = 8,      /* names or choices in one message */
    MAX_REF = 1024,     /* bytes of a "$ref"; longer ones lead nowhere */
    MAX_STEPS = 100000, /* for all words together; what is left then says nothing */
};

/* A way through a schema. Branches that refer to each other can be followed in more ways
 * than anybody has time for, so the steps are counted. */
struct walk {
    const json_t *root;
    size_t steps; /* that are left */
};

static bool may_step(struct walk *walk) {
    if (walk->steps == 0)
        return false;
    walk->steps--;
    return true;
}

static const tdg__json_limits_t limits = {
    .max_bytes = 16 << 20, .max_depth = 64, .max_values = 1000000};

/* ---- What is wrong ------------------------------------------------------ */

__attribute__((format(printf, 2, 3))) static int wrong(char *why, const char *format,
                                                       ...) {
    va_list args;

    va_start(args, format);
    vsnprintf(why, CLI_ARGS_WHY, format, args);
    va_end(args);
    return TDG_EINVAL;
}

__attribute__((format(printf, 2, 3))) static void append(char *why, const char *format,
                                                         ...) {
    size_t used = strlen(why);
    va_list args;

    va_start(args, format);
    vsnprintf(why + used, CLI_ARGS_WHY - used, format, args);
    va_end(args);
}

/* ---- Types -------------------------------------------------------------- */

enum {
    T_NULL = 1 << JSON_NULL,
    T_BOOLEAN = 1 << JSON_TRUE,
    T_INTEGER = 1 << JSON_INTEGER,
    T_NUMBER = 1 << JSON_REAL,
    T_STRING = 1 << JSON_STRING,
    T_ARRAY = 1 << JSON_ARRAY,
    T_OBJECT = 1 << JSON_OBJECT,
};

static const struct {
    const char *name, *wanted;
    unsigned type;
} types[] = {
    {"boolean", "true or false", T_BOOLEAN}, {"integer", "a whole number", T_INTEGER},
    {"number", "a number", T_NUMBER},        {"array", "a JSON array", T_ARRAY},
    {"object", "a JSON object", T_OBJECT},   {"null", "null", T_NULL},
    {"string", "a text", T_STRING},
};

static unsigned type_named(const char *name) {
    for (size_t i = 0; name != NULL && i < sizeof(types) / sizeof(types[0]); i++)
        if (strcmp(types[i].name, name) == 0)
            return types[i].type;
    return 0;
}

static unsigned type_of(const json_t *value) {
    return json_is_false(value) ? T_BOOLEAN : 1u << json_typeof(value);
}

/* Where "$ref" leads, inside the same document; the schema itself where it has none. */
static const json_t *follow(const json_t *root, const json_t *schema) {
    for (int i = 0; i < MAX_DEPTH; i++) {
        const json_t *given = json_object_get(schema, "$ref");
        const char *ref = json_string_value(given);

        if (ref == NULL)
            return schema;
        if (ref[0] != '#' || json_string_length(given) > MAX_REF ||
            tdg__json_pointer_check(ref + 1, NULL) < 0)
            return NULL;
        schema = tdg__json_pointer_get((json_t *)(uintptr_t)root, ref + 1);
    }
    return NULL;
}

static unsigned types_of(struct walk *walk, const json_t *schema, int depth);

/* The types of all branches together; 0 where one of them takes anything. */
static unsigned types_of_any(struct walk *walk, const json_t *branches, int depth) {
    unsigned all = 0;
    const json_t *branch;
    size_t i;

    json_array_foreach(branches, i, branch) {
        unsigned one = types_of(walk, branch, depth);

        if (one == 0)
            return 0;
        all |= one;
    }
    return all;
}

/* The first of these that says something decides. */
static unsigned types_of_all(struct walk *walk, const json_t *branches, int depth) {
    unsigned found = 0;
    const json_t *branch;
    size_t i;

    json_array_foreach(branches, i, branch) {
        found = types_of(walk, branch, depth);
        if (found != 0 || walk->steps == 0)
            break;
    }
    return found;
}

static unsigned types_of_values(struct walk *walk, const json_t *values) {
    unsigned all = 0;
    const json_t *value;
    size_t i;

    json_array_foreach(values, i, value) {
        if (!may_step(walk))
            return 0;
        all |= type_of(value);
    }
    return all;
}

/* The types that a schema allows; 0: it does not say. */
static unsigned types_of(struct walk *walk, const json_t *schema, int depth) {
    const json_t *type, *name;
    unsigned found;
    size_t i;

    if (depth == MAX_DEPTH || !may_step(walk))
        return 0;
    schema = follow(walk->root, schema);
    if (!json_is_object(schema))
        return 0;

    type = json_object_get(schema, "type");
    found = type_named(json_string_value(type));
    json_array_foreach(type, i, name) {
        if (!may_step(walk))
            return 0;
        found |= type_named(json_string_value(name));
    }
    if (found == 0)
        found = types_of_values(walk, json_object_get(schema, "enum"));
    if (found == 0 && json_object_get(schema, "const") != NULL)
        found = type_of(json_object_get(schema, "const"));
    if (found == 0)
        found = types_of_any(walk, json_object_get(schema, "anyOf"), depth + 1);
    if (found == 0)
        found = types_of_any(walk, json_object_get(schema, "oneOf"), depth + 1);
    if (found == 0)
        found = types_of_all(walk, json_object_get(schema, "allOf"), depth + 1);
    return found;
}

/* ---- Values ------------------------------------------------------------- */

/* 5.0 is a whole number, too. */
static json_t *as_integer(const json_t *value) {
    double real = json_real_value(value);

    if (!json_is_real(value) || real < -9e15 || real > 9e15 ||
        real != (double)(json_int_t)real)
        return NULL;
    return json_integer((json_int_t)real);
}

/* The word as JSON of one of the types, new. NULL: it is none, or memory is out. */
static json_t *read_typed(const char *text, unsigned allowed) {
    json_t *value = NULL, *whole = NULL;
    unsigned type;

    if (tdg__json_parse(text, strlen(text), &limits, &value, NULL) < 0)
        return NULL;
    type = type_of(value);
    if ((type & T_INTEGER) != 0)
        type |= T_NUMBER;
    if ((type & allowed & ~(unsigned)T_STRING) != 0)
        return value;
    if ((allowed & T_INTEGER) != 0)
        whole = as_integer(value);
    json_decref(value);
    return whole;
}

static int wrong_type(const char *key, const char *text, unsigned allowed, char *why) {
    const char *separator = "";

    wrong(why, "%s is ", key);
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        if ((types[i].type & allowed) == 0)
            continue;
        append(why, "%s%s", separator, types[i].wanted);
        separator = " or ";
    }
    append(why, ", not '%.60s'", text);
    return TDG_EINVAL;
}

static int wrong_choice(const char *key, const json_t *choices, const char *text,
                        char *why) {
    const json_t *choice;
    size_t i;

    wrong(why, "%s is one of ", key);
    json_array_foreach(choices, i, choice) {
        char *shown = json_dumps(choice, JSON_ENCODE_ANY | JSON_COMPACT);

        if (i == MAX_NAMED) {
            append(why, " …");
            tdg__free(shown);
            break;
        }
        append(why, "%s%.60s", i > 0 ? ", " : "",
               json_is_string(choice) ? json_string_value(choice)
               : shown != NULL        ? shown
                                      : "?");
        tdg__free(shown);
    }
    append(why, ", not '%.60s'", text);
    return TDG_EINVAL;
}

static bool is_choice(const json_t *choices, const json_t *value) {
    const json_t *choice;
    size_t i;

    json_array_foreach(choices, i, choice) {
        if (json_equal(choice, value) ||
            (json_is_number(choice) && json_is_number(value) &&
             json_number_value(choice) == json_number_value(value)))
            return true;
    }
    return json_array_size(choices) == 0;
}

/* Converts `text`, the value of `key`, to what `schema` asks for. */
static int convert(struct walk *walk, const json_t *schema, const char *key,
                   const char *text, json_t **ret, char *why) {
    unsigned allowed = types_of(walk, schema, 0);
    const json_t *choices = json_object_get(follow(walk->root, schema), "enum");
    json_t *value = allowed != 0 ? read_typed(text, allowed) : NULL;

    if (value == NULL && (allowed == 0 || (allowed & T_STRING) != 0)) {
        value = json_string(text);
        if (value == NULL)
            return wrong(why, "the value of %s is not UTF-8", key);
    }
    if (value == NULL)
        return wrong_type(key, text, allowed, why);
    if (!is_choice(choices, value)) {
        json_decref(value);
        return wrong_choice(key, choices, text, why);
    }
    *ret = value;
    return 0;
}

static int parse(const char *what, const char *text, json_t **ret, char *why) {
    tdg__parse_error_t error = {0};
    int rv = tdg__json_parse(text, strlen(text), &limits, ret, &error);

    if (rv < 0 && rv != TDG_ENOMEM)
        return wrong(why, "%s is not JSON: %s (column %zu)", what, error.text,
                     error.at + 1);
    return rv;
}

/* ---- Words -------------------------------------------------------------- */

static const char *property_at(const void *properties, size_t i) {
    json_t *object = (json_t *)(uintptr_t)properties;
    void *iter = json_object_iter(object);

    while (iter != NULL && i-- > 0)
        iter = json_object_iter_next(object, iter);
    return iter != NULL ? json_object_iter_key(iter) : NULL;
}

/* The schema of one property; NULL: nothing is known. Returns TDG_EINVAL where there must
 * be no such property. */
static int find_property(const json_t *root, const char *key, const json_t **ret,
                         char *why) {
    const json_t *properties = json_object_get(follow(root, root), "properties");
    const json_t *others = json_object_get(follow(root, root), "additionalProperties");
    const char *nearest;

    *ret = json_object_get(properties, key);
    if (*ret != NULL)
        return 0;
    *ret = others;
    if (!json_is_false(others))
        return 0;

    nearest = json_object_size(properties) <= 1000
                  ? tdg__nearest(key, property_at, properties)
                  : NULL;
    if (nearest != NULL)
        return wrong(why, "unknown argument %.60s; did you mean %.60s?", key, nearest);
    return wrong(why, "unknown argument %.60s", key);
}

/* `key` ends with NUL. */
static int add_word(json_t *arguments, struct walk *walk, const char *key,
                    const char *text, bool forced, char *why) {
    const json_t *property;
    json_t *value = NULL;
    int rv = find_property(walk->root, key, &property, why);

    if (rv == 0 && forced)
        rv = parse(key, text, &value, why);
    else if (rv == 0)
        rv = convert(walk, property, key, text, &value, why);
    if (rv < 0)
        return rv;
    if (json_object_set_new(arguments, key, value) == 0)
        return 0;
    return wrong(why, "the name of an argument is not UTF-8");
}

int cli_args_add(json_t *arguments, const json_t *schema, char *const *words,
                 size_t count, char why[CLI_ARGS_WHY]) {
    struct walk walk = {.root = schema, .steps = MAX_STEPS};
    json_t *seen = json_object();
    int rv = seen != NULL ? 0 : TDG_ENOMEM;

    for (size_t i = 0; i < count && rv == 0; i++) {
        const char *equals = strchr(words[i], '=');
        bool forced = equals != NULL && equals > words[i] && equals[-1] == ':';
        size_t len = equals != NULL ? (size_t)(equals - words[i]) - forced : 0;
        char *key;

        if (len == 0) {
            rv = wrong(why, "'%.100s' is not an argument; write name=value", words[i]);
            break;
        }
        key = tdg__strndup(words[i], len);
        if (key == NULL) {
            rv = TDG_ENOMEM;
        } else if (json_object_get(seen, key) != NULL) {
            rv = wrong(why, "%.100s is given twice", key);
        } else {
            rv = add_word(arguments, &walk, key, equals + 1, forced, why);
            if (rv == 0 && json_object_set_new(seen, key, json_true()) < 0)
                rv = TDG_ENOMEM;
        }
        tdg__free(key);
    }
    json_decref(seen);
    return rv;
}

int cli_args_parse(const char *text, json_t **ret, char why[CLI_ARGS_WHY]) {
    json_t *value = NULL;
    int rv = parse("--arguments", text != NULL ? text : "{}", &value, why);

    if (rv < 0)
        return rv;
    if (!json_is_object(value)) {
        json_decref(value);
        return wrong(why,
                     "--arguments is not a JSON object, such as '{\"city\": \"Oslo\"}'");
    }
    *ret = value;
    return 0;
}

int cli_args_complete(const json_t *arguments, const json_t *schema,
                      char why[CLI_ARGS_WHY]) {
    const json_t *required = json_object_get(follow(schema, schema), "required");
    const json_t *name;
    size_t missing = 0, i;

    why[0] = '\0';
    json_array_foreach(required, i, name) {
        const char *text = json_string_value(name);

        if (text == NULL || json_object_get(arguments, text) != NULL)
            continue;
        if (++missing <= MAX_NAMED)
            append(why, "%s%.60s", missing > 1 ? ", " : "missing: ", text);
    }
    if (missing > MAX_NAMED)
        append(why, " and %zu more", missing - MAX_NAMED);
    return missing == 0 ? 0 : TDG_EINVAL;
}

json_t *cli_args_prompt_schema(const json_t *prompt) {
    const json_t *arguments = json_object_get(prompt, "arguments"), *argument;
    json_t *properties = json_object(), *required = json_array();
    bool whole = properties != NULL && required != NULL;
    size_t i;

    json_array_foreach(arguments, i, argument) {
        const char *name = json_string_value(json_object_get(argument, "name"));

        if (name == NULL || !whole)
            continue;
        whole = json_object_set_new(properties, name,
                                    json_pack("{s:s}", "type", "string")) == 0;
        if (whole && json_is_true(json_object_get(argument, "required")))
            whole = json_array_append_new(required, json_string(name)) == 0;
    }
    if (!whole) {
        json_decref(properties);
        json_decref(required);
        return NULL;
    }
    /* A server that does not list arguments may take some all the same. */
    return json_pack("{s:o, s:o, s:b}", "properties", properties, "required", required,
                     "additionalProperties", json_array_size(arguments) == 0);
}

/* SPDX-License-Identifier: MIT
 *
 * The first pass over a filter's JSON: checks everything and counts what the program will
 * need. It charges each value with the least text it can take, so it gives up after
 * max_bytes of work however large the JSON is, and refuses to go too deep, so that even a
 * cycle ends. */
#include "base/filter_program.h"

#include <stdio.h>
#include <string.h>

#include <tidings/error.h>

enum {
    MAX_NAME_BYTES = 48,  /* of one name in a path */
    MAX_PATH_BYTES = 112, /* two such names with brackets, a field's and an operator's;
                             with the longest message it fits tdg__parse_error_t */
};

/* The way from the filter to a part of it; lives on the stack of the first pass. */
struct where {
    const struct where *up; /* NULL for a member of the whole filter */
    const char *name;       /* NULL where the part is an element of an array */
    size_t len;
    size_t index;
};

struct path {
    char text[MAX_PATH_BYTES + 1];
    size_t len;
    bool cut; /* the beginning was dropped */
};

struct check {
    const tdg__filter_limits_t *limits;
    tdg__parse_error_t *error;
    size_t budget; /* bytes of text that are left */
    tdg__filter_counts_t counts;
};

/* Keeps the end of a path that is too long: the offending part is there. The part that is
 * dropped is only ever some `all[0].any[1].not`, so no character of a name is cut in two.
 */
static void path_append(struct path *path, const char *text, size_t len) {
    if (len > MAX_PATH_BYTES - path->len) {
        size_t drop = len - (MAX_PATH_BYTES - path->len);

        path->len -= drop;
        memmove(path->text, path->text + drop, path->len);
        path->cut = true;
    }
    memcpy(path->text + path->len, text, len);
    path->len += len;
}

/* Names come from the client: the text stays one line of UTF-8, whatever they hold. */
static void path_append_name(struct path *path, const char *name, size_t len) {
    size_t shown = len < MAX_NAME_BYTES ? len : MAX_NAME_BYTES;

    if (shown < len)
        shown = tdg__utf8_cut(name, shown);
    for (size_t i = 0; i < shown; i++) {
        bool control = (unsigned char)name[i] < 0x20 || name[i] == 0x7f;

        path_append(path, control ? "?" : &name[i], 1);
    }
    if (shown < len)
        path_append(path, "...", 3);
}

static bool is_word(const char *name, size_t len) {
    for (size_t i = 0; i < len; i++)
        if ((name[i] < 'a' || name[i] > 'z') && name[i] != '_')
            return false;
    return len > 0;
}

static void path_write(struct path *path, const struct where *where) {
    char index[32];

    if (where == NULL)
        return;
    path_write(path, where->up);

    if (where->name == NULL) {
        snprintf(index, sizeof(index), "[%zu]", where->index);
        path_append(path, index, strlen(index));
    } else if (is_word(where->name, where->len)) {
        path_append(path, ".", path->len > 0 ? 1 : 0);
        path_append_name(path, where->name, where->len);
    } else {
        path_append(path, "[\"", 2);
        path_append_name(path, where->name, where->len);
        path_append(path, "\"]", 2);
    }
}

static int refuse(const struct check *check, int code, const struct where *where,
                  const char *what) {
    struct path path = {.len = 0};

    path_write(&path, where);
    path.text[path.len] = '\0';
    return tdg__parse_fail(check->error, code, 0, "%s%s%s%s", path.cut ? "..." : "",
                           path.text, path.len > 0 ? ": " : "", what);
}

static bool charge(struct check *check, size_t bytes) {
    if (bytes > check->budget)
        return false;
    check->budget -= bytes;
    return true;
}

/* Charges for a value the text that is certain without looking inside: escapes, digits,
 * keys and elements come on top. */
static bool charge_value(struct check *check, const json_t *json) {
    switch (json_typeof(json)) {
    case JSON_STRING:
        return charge(check, 2) && charge(check, json_string_length(json));
    case JSON_ARRAY:
        return charge(check, 1) && charge(check, json_array_size(json));
    case JSON_OBJECT: /* quotes, colon, comma */
        return charge(check, 1) && json_object_size(json) <= check->budget / 4 &&
               charge(check, 4 * json_object_size(json));
    default:
        return charge(check, 1);
    }
}

/* Counts what lies inside an operand, and bounds it. */
static int check_value(struct check *check, const json_t *json, size_t depth,
                       const struct where *where) {
    const json_t *item;
    const char *key;
    size_t key_len;
    int rv = 0;

    if (!charge_value(check, json))
        return tdg__filter_refuse_size(check->limits, check->error);
    if ((json_is_array(json) || json_is_object(json)) && depth >= TDG__FILTER_VALUE_DEPTH)
        return refuse(check, TDG_EFILTERDEPTH, where, "nested too deeply");

    check->counts.bytes += json_string_length(json);
    check->counts.values += json_array_size(json) + 2 * json_object_size(json);

    for (size_t i = 0; i < json_array_size(json) && rv == 0; i++)
        rv = check_value(check, json_array_get(json, i), depth + 1, where);
    json_object_keylen_foreach(tdg__filter_iterable(json), key, key_len, item) {
        if (rv < 0)
            break;
        if (!charge(check, key_len))
            return tdg__filter_refuse_size(check->limits, check->error);
        check->counts.bytes += key_len;
        rv = check_value(check, item, depth + 1, where);
    }
    return rv;
}

static int check_operator(struct check *check, const json_t *operand,
                          const struct where *where) {
    const tdg__filter_operator_t *op = tdg__filter_operator_find(where->name, where->len);
    const char *complaint;
    char expected[64];

    if (op == NULL)
        return refuse(check, TDG_EFILTER, where, "unknown operator");

    if ((op->accepts & 1u << json_typeof(operand)) == 0) {
        snprintf(expected, sizeof(expected), "expected %s", op->expected);
        return refuse(check, TDG_EFILTER, where, expected);
    }

    complaint = op->check != NULL ? op->check(operand) : NULL;
    if (complaint != NULL)
        return refuse(check, TDG_EFILTER, where, complaint);

    check->counts.steps++;
    return check_value(check, operand, 0, where);
}

static int check_field(struct check *check, const struct where *where) {
    const char *names = tdg__filter_names(where->name, where->len);
    const char *end = where->name + where->len;
    tdg__filter_name_t name;

    check->counts.fields++;
    if (tdg__filter_is_name(where->name, where->len, "uri") ||
        tdg__filter_is_name(where->name, where->len, "age_ms"))
        return 0;
    if (tdg__filter_is_name(where->name, where->len, "metadata"))
        return refuse(check, TDG_EFILTER, where, "expected a name, as in metadata.size");
    if (names == NULL)
        return refuse(
            check, TDG_EFILTER, where,
            "unknown field, expected uri, age_ms, metadata.NAME, all, any or not");

    while (names != NULL) {
        name = tdg__filter_next_name(&names, end);
        if (name.len == 0)
            return refuse(check, TDG_EFILTER, where, "a name between dots is empty");
        check->counts.names++;
        check->counts.bytes += name.len;
    }
    return 0;
}

static int check_condition(struct check *check, const json_t *json,
                           const struct where *where) {
    struct where here = {.up = where};
    const json_t *operand;
    int rv;

    rv = check_field(check, where);
    if (rv < 0)
        return rv;

    if (!json_is_object(json))
        return refuse(check, TDG_EFILTER, where, "expected an object of operators");
    if (json_object_size(json) == 0)
        return refuse(check, TDG_EFILTER, where,
                      "a condition needs at least one operator");
    if (!charge_value(check, json))
        return tdg__filter_refuse_size(check->limits, check->error);

    json_object_keylen_foreach(tdg__filter_iterable(json), here.name, here.len, operand) {
        if (!charge(check, here.len))
            return tdg__filter_refuse_size(check->limits, check->error);
        rv = check_operator(check, operand, &here);
        if (rv < 0)
            return rv;
    }
    return 0;
}

static int check_filter(struct check *check, const json_t *json, size_t depth,
                        const struct where *where);

/* The filters of `all` or `any`. */
static int check_filters(struct check *check, const json_t *json, size_t depth,
                         const struct where *where) {
    struct where here = {.up = where};
    int rv = 0;

    if (!json_is_array(json))
        return refuse(check, TDG_EFILTER, where, "expected an array of filters");
    if (json_array_size(json) == 0)
        return refuse(check, TDG_EFILTER, where, "expected at least one filter");
    if (!charge_value(check, json))
        return tdg__filter_refuse_size(check->limits, check->error);

    for (; here.index < json_array_size(json) && rv == 0; here.index++)
        rv = check_filter(check, json_array_get(json, here.index), depth, &here);
    return rv;
}

static int check_filter(struct check *check, const json_t *json, size_t depth,
                        const struct where *where) {
    struct where here = {.up = where};
    const json_t *member;
    int rv;

    if (!json_is_object(json))
        return refuse(check, TDG_EFILTER, where, "expected an object");
    if (depth > check->limits->max_depth)
        return refuse(check, TDG_EFILTERDEPTH, where, "nested too deeply");
    if (!charge_value(check, json))
        return tdg__filter_refuse_size(check->limits, check->error);

    json_object_keylen_foreach(tdg__filter_iterable(json), here.name, here.len, member) {
        if (!charge(check, here.len))
            return tdg__filter_refuse_size(check->limits, check->error);
        if (tdg__filter_is_name(here.name, here.len, "all") ||
            tdg__filter_is_name(here.name, here.len, "any"))
            rv = check_filters(check, member, depth + 1, &here);
        else if (tdg__filter_is_name(here.name, here.len, "not"))
            rv = check_filter(check, member, depth + 1, &here);
        else
            rv = check_condition(check, member, &here);
        if (rv < 0)
            return rv;
    }
    return 0;
}

int tdg__filter_check(const json_t *json, const tdg__filter_limits_t *limits,
                      tdg__filter_counts_t *ret, tdg__parse_error_t *error) {
    struct check check = {.limits = limits, .error = error, .budget = limits->max_bytes};
    int rv;

    rv = check_filter(&check, json, 1, NULL);
    if (rv < 0)
        return rv;

    *ret = check.counts;
    return 0;
}

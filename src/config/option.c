/* SPDX-License-Identifier: MIT */
#include "config/option.h"

#include <string.h>

#include <tidings/error.h>

#include "base/nearest.h"
#include "config/option_value.h"

/* The i-th row of all tables. */
static const tdg__option_t *option_at(const tdg__option_t *const *tables, size_t i) {
    for (; *tables != NULL; tables++)
        for (const tdg__option_t *option = *tables; option->name != NULL; option++)
            if (i-- == 0)
                return option;
    return NULL;
}

static const char *name_at(const void *tables, size_t i) {
    const tdg__option_t *option = option_at(tables, i);

    return option != NULL ? option->name : NULL;
}

const tdg__option_t *tdg__option_find(const tdg__option_t *const *tables,
                                      const char *name) {
    const tdg__option_t *option;

    for (size_t i = 0; (option = option_at(tables, i)) != NULL; i++)
        if (strcmp(option->name, name) == 0)
            return option;
    return NULL;
}

static void unknown(const tdg__option_t *const *tables, const tdg__node_t *node,
                    tdg__problems_t *problems) {
    const char *nearest = tdg__nearest(node->key, name_at, tables);
    tdg__text_t names;

    if (nearest != NULL) {
        tdg__node_key_problem(problems, node, "unknown option; did you mean %s?",
                              nearest);
        return;
    }
    tdg__text_init(&names, 1024);
    for (size_t i = 0; name_at(tables, i) != NULL; i++) {
        tdg__text_put(&names, i > 0 ? ", " : "");
        tdg__text_put(&names, name_at(tables, i));
    }
    tdg__node_key_problem(problems, node, "unknown option; the options are %s",
                          names.error == 0 ? names.data : "others");
    tdg__text_done(&names);
}

static int missing(const tdg__option_t *option, const tdg__node_t *node,
                   tdg__problems_t *problems) {
    if (option->example != NULL)
        tdg__node_problem(problems, node, "%s is missing; an example is %s: %s",
                          option->name, option->name, option->example);
    else
        tdg__node_problem(problems, node, "%s is missing", option->name);
    return TDG_EINVAL;
}

static int read_one(const tdg__option_t *option, const tdg__node_t *node, void *fields,
                    tdg__problems_t *problems) {
    const tdg__node_t *value = tdg__node_get(node, option->name);

    if (value != NULL) {
        int rv = tdg__option_read(option, value, fields, problems);

        /* So that the rest can be looked at, without a second word about this one. */
        if (rv == TDG_EINVAL &&
            tdg__option_fall_back(option, fields, problems) == TDG_ENOMEM)
            return TDG_ENOMEM;
        return rv == TDG_EINVAL && tdg__node_is_unset(value, problems) ? 0 : rv;
    }
    if (option->flags & TDG__OPTION_REQUIRED)
        return missing(option, node, problems);
    return tdg__option_fall_back(option, fields, problems);
}

int tdg__options_read(const tdg__option_t *const *tables, const tdg__node_t *node,
                      void *fields, tdg__problems_t *problems) {
    const tdg__option_t *option;
    int rv = 0;

    if (node != NULL && node->kind != TDG__NODE_MAP && !tdg__node_is_null(node)) {
        tdg__node_problem(problems, node,
                          "this is %s; expected a map of options and their values",
                          node->kind == TDG__NODE_LIST ? "a list" : "one value");
        rv = TDG_EINVAL;
    }
    for (const tdg__node_t *child = node != NULL ? node->first : NULL;
         child != NULL && node->kind == TDG__NODE_MAP; child = child->next) {
        if (tdg__option_find(tables, child->key) == NULL) {
            unknown(tables, child, problems);
            rv = TDG_EINVAL;
        }
    }
    for (size_t i = 0; (option = option_at(tables, i)) != NULL; i++) {
        int one = read_one(option, node, fields, problems);

        if (one == TDG_ENOMEM)
            return one;
        rv = one < 0 ? one : rv;
    }
    return rv;
}

void tdg__options_done(const tdg__option_t *const *tables, void *fields) {
    const tdg__option_t *option;

    for (size_t i = 0; (option = option_at(tables, i)) != NULL; i++)
        tdg__option_free(option, fields);
}

/* ---- Values as text ------------------------------------------------------ */

static void write_strings(char *const *strings, tdg__text_t *out) {
    if (strings == NULL)
        return;
    tdg__text_put(out, "[");
    for (size_t i = 0; strings[i] != NULL; i++) {
        tdg__text_put(out, i > 0 ? ", " : "");
        tdg__text_put(out, strings[i]);
    }
    tdg__text_put(out, "]");
}

static int64_t amount_of(const tdg__option_t *option, const void *field) {
    uint32_t narrow;

    if ((option->flags & TDG__OPTION_UINT32) == 0)
        return *(const int64_t *)field;
    narrow = *(const uint32_t *)field;
    return narrow > 0 ? (int64_t)narrow : -1;
}

static bool is_given(const tdg__option_t *option, const void *field) {
    switch (option->type) {
    case TDG__OPTION_STRING:
    case TDG__OPTION_PATH:
    case TDG__OPTION_STRINGS:
    case TDG__OPTION_MAP:
        return *(void *const *)field != NULL;
    case TDG__OPTION_NUMBER:
    case TDG__OPTION_DURATION:
    case TDG__OPTION_SIZE:
        return option->fallback != NULL || amount_of(option, field) != -1;
    default:
        return true;
    }
}

void tdg__option_write(const tdg__option_t *option, const void *fields,
                       tdg__text_t *out) {
    const void *field = (const char *)fields + option->offset;

    if (!is_given(option, field))
        return;
    if (option->flags & TDG__OPTION_SECRET) {
        tdg__text_put(out, "(secret)");
        return;
    }
    switch (option->type) {
    case TDG__OPTION_STRING:
    case TDG__OPTION_PATH:
        tdg__text_put(out, *(char *const *)field);
        break;
    case TDG__OPTION_BOOL:
        tdg__text_put(out, *(const bool *)field ? "true" : "false");
        break;
    case TDG__OPTION_CHOICE:
        tdg__text_put(out, option->choices[*(const int *)field]);
        break;
    case TDG__OPTION_STRINGS:
        write_strings(*(char **const *)field, out);
        break;
    case TDG__OPTION_MAP:
        tdg__text_put_json(out, *(json_t *const *)field);
        break;
    default:
        tdg__option_write_amount(option, amount_of(option, field), out);
    }
}

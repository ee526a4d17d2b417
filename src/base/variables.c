/* SPDX-License-Identifier: MIT */
#include "base/variables.h"

#include <stdint.h>
#include <string.h>

#include <tidings/error.h>

#include "base/alloc.h"
#include "base/text.h"
#include "base/uri.h"

struct variable {
    const char *name; /* in the template */
    size_t name_len;
    const char *value; /* in `text`; NULL: not given */
};

struct tdg__variables {
    struct variable variables[TDG__TEMPLATE_MAX_NAMES];
    size_t count;
    char text[]; /* the values, each with its NUL */
};

/* Decodes a value to `text`, which has room for it. Returns the length, or SIZE_MAX. */
static size_t decode(const tdg__template_value_t *value, char *text) {
    size_t len = tdg__uri_decode(value->text, value->len, text);

    if (memchr(text, '\0', len) != NULL || !tdg__utf8_is_valid(text, len))
        return SIZE_MAX;
    text[len] = '\0';
    return len;
}

static int fill(tdg__variables_t *variables, const tdg__template_value_t *values,
                size_t count) {
    char *text = variables->text;

    for (size_t i = 0; i < count; i++) {
        struct variable *variable = &variables->variables[i];
        size_t len;

        *variable = (struct variable){values[i].name, values[i].name_len, NULL};
        if (values[i].text == NULL)
            continue;
        len = decode(&values[i], text);
        if (len == SIZE_MAX)
            return TDG_ENOTFOUND;
        variable->value = text;
        text += len + 1;
    }
    variables->count = count;
    return 0;
}

int tdg__variables_create(const tdg__template_t *template_, const char *uri, size_t len,
                          tdg__variables_t **ret) {
    tdg__template_value_t values[TDG__TEMPLATE_MAX_NAMES];
    tdg__variables_t *variables;
    size_t count;
    int rv;

    if (template_ == NULL) {
        *ret = NULL;
        return 0;
    }
    if (!tdg__template_extract(template_, uri, len, values, &count))
        return TDG_ENOTFOUND;

    /* Values do not overlap, and decoding makes nothing longer. */
    variables = tdg__malloc(sizeof(*variables) + len + count);
    if (variables == NULL)
        return TDG_ENOMEM;

    rv = fill(variables, values, count);
    if (rv < 0)
        tdg__free(variables);
    else
        *ret = variables;
    return rv;
}

void tdg__variables_destroy(tdg__variables_t *variables) {
    tdg__free(variables);
}

const char *tdg__variables_get(const tdg__variables_t *variables, const char *name) {
    size_t len = strlen(name);

    for (size_t i = 0; variables != NULL && i < variables->count; i++) {
        const struct variable *variable = &variables->variables[i];

        if (variable->name_len == len && memcmp(variable->name, name, len) == 0)
            return variable->value;
    }
    return NULL;
}

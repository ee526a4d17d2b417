/* SPDX-License-Identifier: MIT */
#include "base/template_expand.h"

#include <string.h>

#include <tidings/error.h>

#include "base/template_internal.h"

/* One expression as it stands in the text, without its braces. */
struct expression {
    const char *name;
    size_t len;
    bool reserved; /* {+x} */
};

const char *tdg__template_name(const tdg__template_t *template_, size_t i,
                               size_t *ret_len) {
    if (i >= template_->name_count)
        return NULL;
    *ret_len = template_->names[i].len;
    return template_->text + template_->names[i].at;
}

bool tdg__template_has_name(const tdg__template_t *template_, const char *wanted) {
    const char *name;
    size_t len;

    for (size_t i = 0;
         template_ != NULL && (name = tdg__template_name(template_, i, &len)) != NULL;
         i++)
        if (strlen(wanted) == len && memcmp(wanted, name, len) == 0)
            return true;
    return false;
}

/* Reads from the '{' at `at`; a parsed template has the '}' too. Returns where the text
 * goes on, or 0 where it is no plain variable. */
static size_t read_expression(const tdg__template_t *template_, size_t at,
                              struct expression *ret) {
    const char *text = template_->text + at + 1;
    const char *close = memchr(text, '}', template_->len - at - 1);

    if (close == NULL)
        return 0;
    ret->reserved = *text == '+';
    if (ret->reserved)
        text++;
    ret->name = text;
    ret->len = (size_t)(close - text);
    for (size_t i = 0; i < ret->len; i++)
        if (strchr("#./;?&,:*", text[i]) != NULL && (text[i] != '.' || i == 0))
            return 0; /* a dot inside belongs to the name */
    return (size_t)(close - template_->text) + 1;
}

bool tdg__template_can_expand(const tdg__template_t *template_) {
    struct expression expression;
    size_t at = 0;

    while (at < template_->len) {
        if (template_->text[at] != '{') {
            at++;
            continue;
        }
        at = read_expression(template_, at, &expression);
        if (at == 0)
            return false;
    }
    return true;
}

static bool is_reserved(char c) {
    return c != '\0' && strchr(":/?#[]@!$&'()*+,;=", c) != NULL;
}

static void add_value(tdg__text_t *out, const char *value, size_t len, bool reserved) {
    static const char hex[] = "0123456789ABCDEF";

    for (size_t i = 0; i < len && out->error == 0; i++) {
        unsigned char c = (unsigned char)value[i];
        char triplet[3] = {'%', hex[c >> 4], hex[c & 0xf]};

        if (tdg__is_unreserved(c) || (reserved && is_reserved(value[i])))
            tdg__text_add(out, value + i, 1);
        else
            tdg__text_add(out, triplet, sizeof(triplet));
    }
}

int tdg__template_expand(const tdg__template_t *template_, tdg__template_value_fn value,
                         void *arg, tdg__text_t *out) {
    struct expression expression;
    size_t at = 0, len;
    const char *found;

    while (at < template_->len) {
        const char *text = template_->text + at;
        const char *open = memchr(text, '{', template_->len - at);

        len = open != NULL ? (size_t)(open - text) : template_->len - at;
        tdg__text_add(out, text, len);
        at += len;
        if (open == NULL)
            break;

        at = read_expression(template_, at, &expression);
        if (at == 0)
            return TDG_ENOTSUP;
        found = value(arg, expression.name, expression.len, &len);
        if (found == NULL || len == 0)
            return TDG_ENOTFOUND;
        add_value(out, found, len, expression.reserved);
    }
    return 0;
}

/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "config/reference.h"

/* Columns of UTF-8 without wide characters. */
static size_t columns(const char *text, size_t len) {
    size_t count = 0;

    for (size_t i = 0; i < len; i++)
        count += ((unsigned char)text[i] & 0xc0) != 0x80;
    return count;
}

void tdg__wrap(const char *text, const char *indent, size_t width, tdg__text_t *out) {
    size_t start = columns(indent, strlen(indent)), at = 0;

    while (*text != '\0') {
        size_t len = strcspn(text, " "), wide = columns(text, len);

        if (at > 0 && at + 1 + wide > width) {
            tdg__text_put(out, "\n");
            at = 0;
        }
        tdg__text_put(out, at == 0 ? indent : " ");
        tdg__text_add(out, text, len);
        at = (at == 0 ? start : at + 1) + wide;
        text += len;
        text += strspn(text, " ");
    }
    tdg__text_put(out, "\n");
}

/* SPDX-License-Identifier: MIT
 *
 * Input: a JSON Pointer, a line break, then a document as a web server answers with it.
 * The part that the pointer names is JSON, and taken once more whole it is the same text:
 * its checksum depends on its value alone. */
#include <string.h>

#include <tidings/error.h>

#include "base/json_pointer.h"
#include "fuzz.h"
#include "source/http/http_part.h"

enum { MAX_POINTER = 256, MAX_PART = 1 << 20 };

static void check_again(const tdg__text_t *part) {
    tdg__parse_error_t error = {0};
    tdg__text_t again;

    tdg__text_init(&again, MAX_PART);
    require(tdg__http_part(part->data, part->len, "", &again, &error) == 0);
    require(again.len == part->len && memcmp(again.data, part->data, part->len) == 0);
    tdg__text_done(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const char *text = (const char *)data, *line = memchr(data, '\n', size);
    size_t len = line != NULL ? (size_t)(line - text) : size;
    tdg__parse_error_t error = {0};
    char pointer[MAX_POINTER + 1];
    tdg__text_t part;

    if (line == NULL || len > MAX_POINTER || memchr(text, '\0', len) != NULL)
        return 0;
    memcpy(pointer, text, len);
    pointer[len] = '\0';
    if (tdg__json_pointer_check(pointer, &error) < 0)
        return 0;

    tdg__text_init(&part, MAX_PART);
    int rv = tdg__http_part(line + 1, size - len - 1, pointer, &part, &error);
    require(rv == 0 || rv == TDG_ENOTFOUND || error.text[0] != '\0');
    if (rv == 0)
        check_again(&part);
    tdg__text_done(&part);
    return 0;
}

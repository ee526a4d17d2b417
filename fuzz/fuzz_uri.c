/* SPDX-License-Identifier: MIT
 *
 * Any bytes as a URI: what passes the check is made of allowed characters. */
#include <ctype.h>
#include <string.h>

#include "base/uri.h"
#include "fuzz.h"

static void check_characters(const char *uri, size_t len) {
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)uri[i];

        require(c < 0x80 && c != 0 &&
                (isalnum(c) || strchr("-._~:/?#[]@!$&'()*+,;=%", c) != NULL));
        if (c == '%')
            require(len - i > 2 && isxdigit((unsigned char)uri[i + 1]) &&
                    isxdigit((unsigned char)uri[i + 2]));
    }
}

/* Decoding leaves what is not encoded, and never needs more room. */
static void check_decoded(const char *text, size_t size) {
    char *copy, *out;
    size_t len;

    if (size == 0)
        return;
    copy = malloc(size);
    out = malloc(size);
    require(copy != NULL && out != NULL);
    memcpy(copy, text, size);
    len = tdg__uri_decode(copy, size, out);
    require(len <= size && (size - len) % 2 == 0);
    if (memchr(copy, '%', size) == NULL)
        require(len == size && memcmp(out, copy, size) == 0);
    free(copy);
    free(out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const char *uri = (const char *)data;
    tdg__parse_error_t error = {.at = SIZE_MAX};

    check_decoded(uri, size);
    if (tdg__uri_check(uri, size, &error) != 0)
        require(error.at <= size && error.text[0] != '\0');
    else
        check_characters(uri, size);
    return 0;
}

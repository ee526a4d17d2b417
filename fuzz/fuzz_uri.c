/* SPDX-License-Identifier: MIT
 *
 * Any bytes as a URI: what passes the check has a normal form, made of allowed
 * characters, with the scheme it had, that stays as it is when normalised again. */
#include <assert.h>
#include <ctype.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <strings.h>

#include "base/uri.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_characters(const char *uri, size_t len) {
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)uri[i];

        assert(c < 0x80 && c != 0 &&
               (isalnum(c) || strchr("-._~:/?#[]@!$&'()*+,;=%", c) != NULL));
        if (c == '%')
            assert(len - i > 2 && isxdigit((unsigned char)uri[i + 1]) &&
                   isxdigit((unsigned char)uri[i + 2]));
    }
}

static size_t scheme_len(const char *uri, size_t len) {
    const char *colon = memchr(uri, ':', len);

    assert(colon != NULL && colon > uri);
    return (size_t)(colon - uri);
}

static int has_authority(const char *uri, size_t len) {
    size_t scheme = scheme_len(uri, len);

    return len - scheme >= 3 && memcmp(uri + scheme, "://", 3) == 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const char *uri = (const char *)data;
    tdg__parse_error_t error = {.at = SIZE_MAX};
    tdg__buf_t *once = NULL, *twice = NULL;

    if (tdg__uri_check(uri, size, &error) != 0) {
        assert(error.at <= size && error.text[0] != '\0');
        assert(tdg__uri_normalize(uri, size, &once, NULL) != 0 && once == NULL);
        return 0;
    }

    check_characters(uri, size);
    assert(tdg__uri_normalize(uri, size, &once, NULL) == 0);
    assert(strlen(once->data) == once->len);
    check_characters(once->data, once->len);
    assert(scheme_len(once->data, once->len) == scheme_len(uri, size));
    assert(strncasecmp(once->data, uri, scheme_len(uri, size)) == 0);
    assert(has_authority(once->data, once->len) == has_authority(uri, size));

    assert(tdg__uri_normalize(once->data, once->len, &twice, NULL) == 0);
    assert(twice->len == once->len && memcmp(twice->data, once->data, once->len) == 0);
    tdg__buf_unref(twice);
    tdg__buf_unref(once);
    return 0;
}

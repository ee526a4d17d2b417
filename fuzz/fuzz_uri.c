/* SPDX-License-Identifier: MIT
 *
 * Any bytes as a URI: what passes the check has a normal form, made of allowed
 * characters, with the scheme it had, that stays as it is when normalised again. */
#include <ctype.h>
#include <string.h>
#include <strings.h>

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

static size_t scheme_len(const char *uri, size_t len) {
    const char *colon = memchr(uri, ':', len);

    require(colon != NULL && colon > uri);
    return (size_t)(colon - uri);
}

static int has_authority(const char *uri, size_t len) {
    size_t scheme = scheme_len(uri, len);

    return len - scheme >= 3 && memcmp(uri + scheme, "://", 3) == 0;
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
    tdg__buf_t *once = NULL, *twice = NULL;

    check_decoded(uri, size);
    if (tdg__uri_check(uri, size, &error) != 0) {
        require(error.at <= size && error.text[0] != '\0');
        require(tdg__uri_normalize(uri, size, &once, NULL) != 0 && once == NULL);
        return 0;
    }

    check_characters(uri, size);
    require(tdg__uri_normalize(uri, size, &once, NULL) == 0);
    require(strlen(once->data) == once->len);
    check_characters(once->data, once->len);
    require(scheme_len(once->data, once->len) == scheme_len(uri, size));
    require(strncasecmp(once->data, uri, scheme_len(uri, size)) == 0);
    require(has_authority(once->data, once->len) == has_authority(uri, size));

    require(tdg__uri_normalize(once->data, once->len, &twice, NULL) == 0);
    require(twice->len == once->len && memcmp(twice->data, once->data, once->len) == 0);
    tdg__buf_unref(twice);
    tdg__buf_unref(once);
    return 0;
}

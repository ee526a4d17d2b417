/* SPDX-License-Identifier: MIT
 *
 * On uriparser. A scheme is required and checked here first, because a missing scheme is
 * the usual mistake. */
#include "base/uri.h"

#include <limits.h>
#include <stddef.h>

#include <uriparser/Uri.h>

#include <tidings/error.h>

#include "base/alloc.h"
#include "base/text.h"

static void *uri_malloc(UriMemoryManager *memory, size_t size) {
    (void)memory;
    return tdg__malloc(size);
}

static void *uri_realloc(UriMemoryManager *memory, void *ptr, size_t size) {
    (void)memory;
    return tdg__realloc(ptr, size);
}

static void uri_free(UriMemoryManager *memory, void *ptr) {
    (void)memory;
    tdg__free(ptr);
}

static UriMemoryManager memory = {
    uri_malloc, uriEmulateCalloc, uri_realloc, uriEmulateReallocarray, uri_free, NULL};

/* uriparser counts in int. */
enum { LEN_MAX = INT_MAX / 2 };

static bool is_alpha(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_scheme_char(char c) {
    return is_alpha(c) || (c >= '0' && c <= '9') || c == '+' || c == '-' || c == '.';
}

/* Where the ':' behind the scheme stands, or the first byte that cannot be part of one.
 */
static size_t scheme_end(const char *uri, size_t len) {
    size_t at = 0;

    if (len > 0 && is_alpha(uri[0]))
        while (at < len && is_scheme_char(uri[at]))
            at++;
    return at;
}

static int fail_at(const char *uri, size_t len, size_t at, tdg__parse_error_t *error) {
    unsigned char byte;

    if (at >= len)
        return tdg__parse_fail(error, TDG_EURI, len, "the URI ends too early");

    byte = (unsigned char)uri[at];
    if (byte > ' ' && byte < 0x7f)
        return tdg__parse_fail(error, TDG_EURI, at, "'%c' is not allowed here", byte);
    return tdg__parse_fail(error, TDG_EURI, at,
                           "byte 0x%02x must be percent-encoded in a URI", byte);
}

int tdg__uri_check(const char *uri, size_t len, tdg__parse_error_t *error) {
    const char *bad = NULL;
    UriUriA parsed;
    size_t colon;
    int rv;

    if (len == 0)
        return tdg__parse_fail(error, TDG_EURI, 0, "the URI is empty");
    if (len > LEN_MAX)
        return tdg__parse_fail(error, TDG_EURI, LEN_MAX, "the URI is too long");

    colon = scheme_end(uri, len);
    if (colon == 0 || colon == len || uri[colon] != ':')
        return tdg__parse_fail(error, TDG_EURI, colon,
                               "a URI starts with a scheme and a colon, as in file:");

    rv = uriParseSingleUriExMmA(&parsed, uri, uri + len, &bad, &memory);
    if (rv == URI_ERROR_MALLOC)
        return tdg__parse_fail(error, TDG_ENOMEM, 0, "out of memory");
    if (rv != URI_SUCCESS)
        return fail_at(uri, len, bad != NULL ? (size_t)(bad - uri) : 0, error);
    uriFreeUriMembersMmA(&parsed, &memory);
    return 0;
}

/* ---- Decoding ----------------------------------------------------------- */

size_t tdg__uri_decode(const char *text, size_t len, char *out) {
    size_t n = 0;

    for (size_t at = 0; at < len; at++) {
        int high = -1, low = -1;

        if (text[at] == '%' && len - at > 2) {
            high = tdg__hex_value(text[at + 1]);
            low = tdg__hex_value(text[at + 2]);
        }
        if (high >= 0 && low >= 0) {
            out[n++] = (char)(high << 4 | low);
            at += 2;
        } else {
            out[n++] = text[at];
        }
    }
    return n;
}

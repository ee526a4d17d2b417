/* SPDX-License-Identifier: MIT
 *
 * uriparser does the work. Three things are ours: a scheme is required and looked at
 * first, because "no scheme" is the mistake people make; percent-encodings are written in
 * upper case in the host too, where uriparser makes them lower; and a path that starts
 * with two slashes after its dot segments are gone is written as "/.//…" where there is
 * no authority, because "a:/..//b" would otherwise turn b into a host.
 *
 * An IPv6 address comes out in full, eight groups of four digits. Ports are left alone:
 * which one a scheme implies is not known here. */
#include "base/uri.h"

#include <limits.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <uriparser/Uri.h>

#include <tidings/error.h>

#include "base/alloc.h"
#include "base/text.h"

/* uriparser 0.9.7 forgets blocks when an allocation fails while it normalises. So each
 * call keeps a list of the blocks that uriparser holds, and ends by releasing it. */
struct block {
    struct block *previous, *next;
    max_align_t data[]; /* what uriparser sees */
};

static void *hold(struct block *list, struct block *block) {
    if (block == NULL)
        return NULL;
    block->previous = list;
    block->next = list->next;
    if (block->next != NULL)
        block->next->previous = block;
    list->next = block;
    return block->data;
}

static struct block *let_go(void *data) {
    struct block *block = (struct block *)((char *)data - offsetof(struct block, data));

    block->previous->next = block->next;
    if (block->next != NULL)
        block->next->previous = block->previous;
    return block;
}

static void *uri_malloc(UriMemoryManager *memory, size_t size) {
    if (size > SIZE_MAX - sizeof(struct block))
        return NULL;
    return hold(memory->userData, tdg__malloc(sizeof(struct block) + size));
}

static void *uri_realloc(UriMemoryManager *memory, void *ptr, size_t size) {
    struct block *block, *moved;

    if (ptr == NULL)
        return uri_malloc(memory, size);
    if (size > SIZE_MAX - sizeof(struct block))
        return NULL;

    block = let_go(ptr);
    moved = tdg__realloc(block, sizeof(struct block) + size);
    if (moved == NULL) {
        hold(memory->userData, block);
        return NULL;
    }
    return hold(memory->userData, moved);
}

static void uri_free(UriMemoryManager *memory, void *ptr) {
    (void)memory;
    if (ptr != NULL)
        tdg__free(let_go(ptr));
}

/* `list` is the head of the blocks; it holds no data itself. */
static UriMemoryManager memory_of(struct block *list) {
    list->previous = list->next = NULL;
    return (UriMemoryManager){uri_malloc,  uriEmulateCalloc,
                              uri_realloc, uriEmulateReallocarray,
                              uri_free,    list};
}

static void release_all(struct block *list) {
    while (list->next != NULL)
        tdg__free(let_go(list->next->data));
}

/* uriparser counts in int, and an IPv6 address grows when it is written out. */
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

/* What *ret holds is released with the blocks of `memory`. */
static int parse(const char *uri, size_t len, UriMemoryManager *memory, UriUriA *ret,
                 tdg__parse_error_t *error) {
    const char *bad = NULL;
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

    rv = uriParseSingleUriExMmA(ret, uri, uri + len, &bad, memory);
    if (rv == URI_ERROR_MALLOC)
        return tdg__parse_fail(error, TDG_ENOMEM, 0, "out of memory");
    if (rv != URI_SUCCESS)
        return fail_at(uri, len, bad != NULL ? (size_t)(bad - uri) : 0, error);
    return 0;
}

int tdg__uri_check(const char *uri, size_t len, tdg__parse_error_t *error) {
    struct block blocks;
    UriMemoryManager memory = memory_of(&blocks);
    UriUriA parsed;
    int rv;

    rv = parse(uri, len, &memory, &parsed, error);
    release_all(&blocks);
    return rv;
}

static void raise_hex_digits(char *text, size_t len) {
    for (size_t i = 0; i + 2 < len; i++)
        if (text[i] == '%')
            for (size_t digit = i + 1; digit <= i + 2; digit++)
                if (text[digit] >= 'a' && text[digit] <= 'f')
                    text[digit] -= 'a' - 'A';
}

/* Writes the parsed URI into a new buffer. `rootless` says that it has no authority, so
 * that what follows the scheme must not begin with "//". */
static int write_out(const UriUriA *parsed, bool rootless, tdg__buf_t **ret) {
    static const char guard[] = "/.";
    const size_t guard_len = sizeof(guard) - 1;
    tdg__buf_t *buf;
    char *path;
    int chars;

    if (uriToStringCharsRequiredA(parsed, &chars) != URI_SUCCESS)
        return TDG_EURI;

    buf = tdg__buf_create(NULL, (size_t)chars + guard_len);
    if (buf == NULL)
        return TDG_ENOMEM;

    if (uriToStringA(buf->data, parsed, chars + 1, NULL) != URI_SUCCESS) {
        tdg__buf_unref(buf);
        return TDG_EURI;
    }

    buf->len = (size_t)chars;
    path = buf->data + scheme_end(buf->data, buf->len) + 1;
    if (rootless && strncmp(path, "//", 2) == 0) {
        memmove(path + guard_len, path, strlen(path) + 1);
        memcpy(path, guard, guard_len);
        buf->len += guard_len;
    }
    raise_hex_digits(buf->data, buf->len);
    *ret = buf;
    return 0;
}

int tdg__uri_normalize(const char *uri, size_t len, tdg__buf_t **ret,
                       tdg__parse_error_t *error) {
    struct block blocks;
    UriMemoryManager memory = memory_of(&blocks);
    size_t after_scheme;
    UriUriA parsed;
    bool rootless;
    int rv;

    rv = parse(uri, len, &memory, &parsed, error);
    if (rv < 0)
        goto out;

    rv = uriNormalizeSyntaxExMmA(&parsed, UINT_MAX, &memory);
    if (rv != URI_SUCCESS) {
        rv = rv == URI_ERROR_MALLOC ? TDG_ENOMEM : TDG_EURI;
        goto fail;
    }

    after_scheme = scheme_end(uri, len) + 1;
    rootless = len - after_scheme < 2 || memcmp(uri + after_scheme, "//", 2) != 0;
    rv = write_out(&parsed, rootless, ret);

fail:
    if (rv < 0)
        tdg__parse_fail(error, rv, 0, "%s", tdg_strerror(rv));
out:
    release_all(&blocks);
    return rv;
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

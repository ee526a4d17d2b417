/* SPDX-License-Identifier: MIT */
#include "base/base64.h"

#include <stdbool.h>
#include <stdint.h>

#include <tidings/error.h>

#include "base/alloc.h"

static const char alphabet[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/* Writes four characters for up to three bytes. */
static void encode_group(const uint8_t *bytes, size_t count, char *out) {
    uint32_t bits = (uint32_t)bytes[0] << 16;

    if (count > 1)
        bits |= (uint32_t)bytes[1] << 8;
    if (count > 2)
        bits |= bytes[2];

    out[0] = alphabet[bits >> 18];
    out[1] = alphabet[bits >> 12 & 63];
    out[2] = count > 1 ? alphabet[bits >> 6 & 63] : '=';
    out[3] = count > 2 ? alphabet[bits & 63] : '=';
}

size_t tdg__base64_len(size_t len) {
    return (len / 3 + (len % 3 != 0)) * 4;
}

void tdg__base64_put(char *out, const void *data, size_t len) {
    const uint8_t *bytes = data;

    for (size_t at = 0; at < len; at += 3) {
        encode_group(bytes + at, len - at < 3 ? len - at : 3, out);
        out += 4;
    }
}

char *tdg__base64_encode(const void *data, size_t len) {
    char *text;

    if (len > SIZE_MAX / 2)
        return NULL;

    text = tdg__malloc(tdg__base64_len(len) + 1);
    if (text == NULL)
        return NULL;

    tdg__base64_put(text, data, len);
    text[tdg__base64_len(len)] = '\0';
    return text;
}

static int digit(char c) {
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

/* Writes up to three bytes for four characters, `pad` of which are padding. False where
 * one is no digit, or where the bits that the padding leaves over are not 0. */
static bool decode_group(const char *text, size_t pad, char *out) {
    uint32_t bits = 0;
    int value;

    for (size_t i = 0; i < 4; i++) {
        value = i < 4 - pad ? digit(text[i]) : 0;
        if (value < 0)
            return false;
        bits = bits << 6 | (uint32_t)value;
    }
    if ((pad == 1 && (bits & 0xff) != 0) || (pad == 2 && (bits & 0xffff) != 0))
        return false;

    for (size_t i = 0; i < 3 - pad; i++)
        out[i] = (char)(bits >> (16 - 8 * i));
    return true;
}

int tdg__base64_decode(const char *text, size_t len, char **ret, size_t *ret_len) {
    size_t pad = 0, at;
    char *data, *out;

    if (len % 4 != 0)
        return TDG_EINVAL;
    if (len > 0 && text[len - 1] == '=')
        pad = text[len - 2] == '=' ? 2 : 1;

    data = tdg__malloc(len / 4 * 3 + 1);
    if (data == NULL)
        return TDG_ENOMEM;

    out = data;
    for (at = 0; at < len; at += 4) {
        if (!decode_group(text + at, at + 4 == len ? pad : 0, out)) {
            tdg__free(data);
            return TDG_EINVAL;
        }
        out += 3;
    }
    *ret_len = len / 4 * 3 - pad;
    data[*ret_len] = '\0';
    *ret = data;
    return 0;
}

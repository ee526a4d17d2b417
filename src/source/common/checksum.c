/* SPDX-License-Identifier: MIT */
#include "source/common/checksum.h"

#include <string.h>

#include <openssl/evp.h>

#include <tidings/error.h>

int tdg__checksum(const void *data, size_t len, char ret[TDG__CHECKSUM + 1]) {
    static const char digits[] = "0123456789abcdef";
    unsigned char hash[EVP_MAX_MD_SIZE];
    unsigned hash_len;

    if (EVP_Digest(len > 0 ? data : "", len, hash, &hash_len, EVP_sha256(), NULL) != 1)
        return TDG_ENOMEM;

    char *at = ret;

    memcpy(at, "sha256:", 7);
    at += 7;
    for (unsigned i = 0; i < hash_len; i++) {
        *at++ = digits[hash[i] >> 4];
        *at++ = digits[hash[i] & 15];
    }
    *at = '\0';
    return 0;
}

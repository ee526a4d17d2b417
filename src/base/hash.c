/* SPDX-License-Identifier: MIT */
#include "base/hash.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include <tidings/error.h>

static inline uint64_t rotate(uint64_t x, int bits) {
    return (x << bits) | (x >> (64 - bits));
}

struct sip {
    uint64_t a, b, c, d;
};

static inline void sip_round(struct sip *s) {
    s->a += s->b;
    s->c += s->d;
    s->b = rotate(s->b, 13) ^ s->a;
    s->d = rotate(s->d, 16) ^ s->c;
    s->a = rotate(s->a, 32);
    s->c += s->b;
    s->a += s->d;
    s->b = rotate(s->b, 17) ^ s->c;
    s->d = rotate(s->d, 21) ^ s->a;
    s->c = rotate(s->c, 32);
}

static inline void sip_word(struct sip *s, uint64_t word) {
    s->d ^= word;
    sip_round(s);
    s->a ^= word;
}

/* The last, partial word: its bytes, and the length in the top byte. */
static uint64_t tail_word(const unsigned char *at, size_t len) {
    uint64_t word = (uint64_t)len << 56;

    for (size_t i = 0; i < (len & 7); i++)
        word |= (uint64_t)at[i] << (8 * i);
    return word;
}

uint64_t tdg__hash(const tdg__hash_key_t *key, const void *data, size_t len) {
    const unsigned char *at = data;
    const unsigned char *end = at + (len & ~(size_t)7);
    struct sip s = {
        key->k0 ^ UINT64_C(0x736f6d6570736575), key->k1 ^ UINT64_C(0x646f72616e646f6d),
        key->k0 ^ UINT64_C(0x6c7967656e657261), key->k1 ^ UINT64_C(0x7465646279746573)};

    for (; at != end; at += 8) {
        uint64_t word;

        memcpy(&word, at, sizeof(word)); /* little endian; another order is as good */
        sip_word(&s, word);
    }
    sip_word(&s, tail_word(at, len));

    s.c ^= 0xff;
    sip_round(&s);
    sip_round(&s);
    sip_round(&s);
    return s.a ^ s.b ^ s.c ^ s.d;
}

int tdg__random(void *data, size_t len) {
    unsigned char *at = data;

    while (len > 0) {
        ssize_t got = getrandom(at, len, 0);

        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return TDG_ESYSTEM;
        at += got;
        len -= (size_t)got;
    }
    return 0;
}

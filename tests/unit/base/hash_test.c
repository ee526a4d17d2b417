/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/hash.h"
#include "support.h"

enum { LONGEST = 64 };

/* ---- SipHash a second time, as the paper describes it ------------------- */

static uint64_t rotate(uint64_t x, unsigned bits) {
    return (x << bits) | (x >> (64 - bits));
}

static void naive_rounds(uint64_t v[4], int rounds) {
    for (int i = 0; i < rounds; i++) {
        v[0] += v[1], v[1] = rotate(v[1], 13), v[1] ^= v[0], v[0] = rotate(v[0], 32);
        v[2] += v[3], v[3] = rotate(v[3], 16), v[3] ^= v[2];
        v[0] += v[3], v[3] = rotate(v[3], 21), v[3] ^= v[0];
        v[2] += v[1], v[1] = rotate(v[1], 17), v[1] ^= v[2], v[2] = rotate(v[2], 32);
    }
}

/* Pads the whole message first, and reads its words byte by byte. */
static uint64_t naive_hash(tdg__hash_key_t key, const unsigned char *data, size_t len) {
    unsigned char padded[LONGEST + 8] = {0};
    size_t n_words = len / 8 + 1;
    uint64_t v[4] = {key.k0 ^ 0x736f6d6570736575, key.k1 ^ 0x646f72616e646f6d,
                     key.k0 ^ 0x6c7967656e657261, key.k1 ^ 0x7465646279746573};

    assert_true(len <= LONGEST);
    memcpy(padded, data, len);
    padded[n_words * 8 - 1] = (unsigned char)len;

    for (size_t i = 0; i < n_words; i++) {
        uint64_t word = 0;

        for (size_t b = 0; b < 8; b++)
            word |= (uint64_t)padded[i * 8 + b] << (8 * b);
        v[3] ^= word;
        naive_rounds(v, 1);
        v[0] ^= word;
    }
    v[2] ^= 0xff;
    naive_rounds(v, 3);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

/* Where words are read the other way round, the hash is as good but another one. */
static void skip_on_big_endian(void) {
    const uint16_t one = 1;

    if (*(const unsigned char *)&one != 1)
        skip();
}

/* ---- The hash ----------------------------------------------------------- */

static const tdg__hash_key_t keys[] = {
    {0, 0},
    {0x0706050403020100, 0x0f0e0d0c0b0a0908},
    {UINT64_MAX, 1},
    {0x8000000000000000, 0x0123456789abcdef},
};

/* As CPython 3.11 says: _imp.source_hash(0x0706050403020100, bytes(range(len))). */
static void is_siphash_1_3_as_others_compute_it(void **state) {
    static const struct {
        size_t len;
        uint64_t hash;
    } cases[] = {
        {0, 0xf46d3bfe2ea281dc},  {1, 0x5bb2c195fe70a449},  {2, 0x48e409dbe38c2bd3},
        {7, 0x3dd20bc6123b60e0},  {8, 0x5124317f8cfc24cb},  {9, 0x9d1f9dbb9125d122},
        {15, 0x7f501f340ece0c62}, {16, 0xa07bf4038d638986}, {63, 0x9c56dbe0649233f3},
    };
    const tdg__hash_key_t key = {0x0706050403020100, 0};
    unsigned char bytes[LONGEST];

    (void)state;
    skip_on_big_endian();
    for (size_t i = 0; i < LONGEST; i++)
        bytes[i] = (unsigned char)i;
    for (size_t i = 0; i < COUNT(cases); i++)
        assert_int_equal(tdg__hash(&key, bytes, cases[i].len), cases[i].hash);
}

static void agrees_with_a_naive_one_at_every_length_and_key(void **state) {
    unsigned char bytes[LONGEST];

    (void)state;
    skip_on_big_endian();
    for (size_t i = 0; i < LONGEST; i++)
        bytes[i] = (unsigned char)(0xff - 7 * i); /* with the top bits set, too */
    for (size_t k = 0; k < COUNT(keys); k++)
        for (size_t len = 0; len <= LONGEST; len++)
            assert_int_equal(tdg__hash(&keys[k], bytes, len),
                             naive_hash(keys[k], bytes, len));
}

static void is_the_same_wherever_the_bytes_lie(void **state) {
    unsigned char bytes[LONGEST], elsewhere[LONGEST + 8];

    (void)state;
    for (size_t i = 0; i < LONGEST; i++)
        bytes[i] = (unsigned char)(i * i);
    for (size_t offset = 0; offset <= 8; offset++) {
        memset(elsewhere, 0xa5, sizeof(elsewhere));
        memcpy(elsewhere + offset, bytes, LONGEST);
        for (size_t len = 0; len <= LONGEST; len++)
            assert_int_equal(tdg__hash(&keys[1], elsewhere + offset, len),
                             tdg__hash(&keys[1], bytes, len));
    }
}

/* In memory of exactly that size, where a sanitizer sees the byte too many. */
static void reads_no_byte_behind_the_last(void **state) {
    unsigned char bytes[LONGEST] = {0};

    (void)state;
    for (size_t len = 1; len <= LONGEST; len++) {
        unsigned char *exact = calloc(len, 1);

        assert_non_null(exact);
        assert_int_equal(tdg__hash(&keys[1], exact, len),
                         tdg__hash(&keys[1], bytes, len));
        free(exact);
    }
}

static void differs_for_each_length_of_the_same_bytes(void **state) {
    static const unsigned char zeros[LONGEST];
    uint64_t hashes[LONGEST + 1];

    (void)state;
    for (size_t len = 0; len <= LONGEST; len++) {
        hashes[len] = tdg__hash(&keys[1], zeros, len);
        for (size_t shorter = 0; shorter < len; shorter++)
            assert_int_not_equal(hashes[len], hashes[shorter]);
    }
}

static void depends_on_every_bit_of_the_key(void **state) {
    uint64_t hash = tdg__hash(&keys[1], "db://orders/42", 14);

    (void)state;
    for (int bit = 0; bit < 64; bit++) {
        tdg__hash_key_t other = keys[1];

        other.k0 ^= UINT64_C(1) << bit;
        assert_int_not_equal(tdg__hash(&other, "db://orders/42", 14), hash);
        other = keys[1];
        other.k1 ^= UINT64_C(1) << bit;
        assert_int_not_equal(tdg__hash(&other, "db://orders/42", 14), hash);
    }
}

static void depends_on_every_bit_of_the_bytes(void **state) {
    unsigned char bytes[LONGEST] = {0};

    (void)state;
    for (size_t len = 1; len <= LONGEST; len++) {
        uint64_t hash = tdg__hash(&keys[1], bytes, len);

        for (size_t bit = 0; bit < 8 * len; bit++) {
            bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
            assert_int_not_equal(tdg__hash(&keys[1], bytes, len), hash);
            bytes[bit / 8] = 0;
        }
    }
}

/* The engine keeps 32 bits and the map masks them: both halves have to be good. */
static void spreads_the_low_and_the_high_half_alike(void **state) {
    enum { BUCKETS = 256, EACH = 64 };
    unsigned low[BUCKETS] = {0}, high[BUCKETS] = {0};

    (void)state;
    for (uint32_t i = 0; i < BUCKETS * EACH; i++) {
        uint64_t hash = tdg__hash(&keys[1], &i, sizeof(i));

        low[hash % BUCKETS]++;
        high[(hash >> 32) % BUCKETS]++;
    }
    for (size_t i = 0; i < BUCKETS; i++) { /* 64 ± 8; four times that is allowed */
        assert_in_range(low[i], EACH / 2, EACH * 3 / 2);
        assert_in_range(high[i], EACH / 2, EACH * 3 / 2);
    }
}

/* ---- Randomness --------------------------------------------------------- */

/* What the operating system does in the next calls; beyond them it does as asked. */
static struct {
    ssize_t answers[4]; /* bytes to give; negative: an errno; 0: nothing */
    size_t n_answers;
    size_t calls;
} os;

/* In the place of the C library's. */
ssize_t getrandom(void *data, size_t len, unsigned flags) {
    ssize_t answer = os.calls < os.n_answers ? os.answers[os.calls] : (ssize_t)len;

    os.calls++;
    if (answer < 0) {
        errno = (int)-answer;
        return -1;
    }
    if ((size_t)answer < len)
        len = (size_t)answer;
    return len == 0 ? 0 : syscall(SYS_getrandom, data, len, flags);
}

static int ordinary_os(void **state) {
    (void)state;
    memset(&os, 0, sizeof(os));
    return 0;
}

/* Whether every byte of `data` gets another value than 0 sooner or later. */
static bool fills_all(size_t len) {
    unsigned char data[40], seen[40] = {0};
    size_t missing = len;

    assert_true(len < sizeof(data));
    for (int try = 0; try < 20; try++) {
        memset(data, 0, sizeof(data));
        os.calls = 0;
        assert_int_equal(tdg__random(data, len), 0);
        for (size_t i = 0; i < len; i++)
            seen[i] |= data[i];
        for (size_t i = len; i < sizeof(data); i++)
            assert_int_equal(data[i], 0); /* and not a byte behind them */
    }
    for (size_t i = 0; i < len; i++)
        missing -= seen[i] != 0;
    return missing == 0;
}

static void random_fills_every_byte_and_no_more(void **state) {
    (void)state;
    for (size_t len = 1; len < 40; len++)
        assert_true(fills_all(len));
}

static void random_differs_from_call_to_call(void **state) {
    uint64_t numbers[32][2];

    (void)state;
    for (size_t i = 0; i < COUNT(numbers); i++) {
        assert_int_equal(tdg__random(numbers[i], sizeof(numbers[i])), 0);
        for (size_t j = 0; j < i; j++)
            assert_memory_not_equal(numbers[i], numbers[j], sizeof(numbers[i]));
    }
}

static void random_of_nothing_succeeds(void **state) {
    unsigned char byte = 7;

    (void)state;
    assert_int_equal(tdg__random(&byte, 0), 0);
    assert_int_equal(byte, 7);
}

static void random_goes_on_after_a_signal(void **state) {
    (void)state;
    os.answers[0] = -EINTR;
    os.answers[1] = -EINTR;
    os.n_answers = 2;
    assert_true(fills_all(16));
    assert_int_equal(os.calls, 3);
}

static void random_asks_again_for_what_is_missing(void **state) {
    (void)state;
    os.answers[0] = 3;
    os.answers[1] = -EINTR;
    os.answers[2] = 5;
    os.n_answers = 3;
    assert_true(fills_all(16));
    assert_int_equal(os.calls, 4);
}

static void random_fails_when_the_system_refuses(void **state) {
    unsigned char data[16];

    (void)state;
    os.answers[0] = 3;
    os.answers[1] = -ENOSYS;
    os.n_answers = 2;
    assert_int_equal(tdg__random(data, sizeof(data)), TDG_ESYSTEM);
    assert_int_equal(os.calls, 2);
}

static void random_fails_when_the_system_gives_nothing(void **state) {
    unsigned char data[16];

    (void)state;
    os.answers[0] = 0;
    os.n_answers = 1;
    assert_int_equal(tdg__random(data, sizeof(data)), TDG_ESYSTEM);
    assert_int_equal(os.calls, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(is_siphash_1_3_as_others_compute_it),
        cmocka_unit_test(agrees_with_a_naive_one_at_every_length_and_key),
        cmocka_unit_test(is_the_same_wherever_the_bytes_lie),
        cmocka_unit_test(reads_no_byte_behind_the_last),
        cmocka_unit_test(differs_for_each_length_of_the_same_bytes),
        cmocka_unit_test(depends_on_every_bit_of_the_key),
        cmocka_unit_test(depends_on_every_bit_of_the_bytes),
        cmocka_unit_test(spreads_the_low_and_the_high_half_alike),
        cmocka_unit_test_setup(random_fills_every_byte_and_no_more, ordinary_os),
        cmocka_unit_test_setup(random_differs_from_call_to_call, ordinary_os),
        cmocka_unit_test_setup(random_of_nothing_succeeds, ordinary_os),
        cmocka_unit_test_setup(random_goes_on_after_a_signal, ordinary_os),
        cmocka_unit_test_setup(random_asks_again_for_what_is_missing, ordinary_os),
        cmocka_unit_test_setup(random_fails_when_the_system_refuses, ordinary_os),
        cmocka_unit_test_setup(random_fails_when_the_system_gives_nothing, ordinary_os),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("hash", tests, NULL, NULL);
}

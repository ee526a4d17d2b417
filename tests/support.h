/* SPDX-License-Identifier: MIT
 *
 * What the unit tests share: cmocka with the headers that it wants, memory that counts
 * and can fail, fixtures, random numbers, and JSON from text. */
#ifndef TDG_TESTS_SUPPORT_H
#define TDG_TESTS_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include <tidings/tidings.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* ---- Memory ------------------------------------------------------------- */

/* From here on all memory of the library (and of jansson) is counted. Once per program is
 * enough; again does no harm. One thread only. */
void memory_count(void);

size_t memory_live(void);  /* blocks that are allocated now */
size_t memory_calls(void); /* allocations, reallocations and frees so far: work done */

enum { MEMORY_ONCE, MEMORY_FROM_THEN_ON };

/* The n-th allocation from now, counted from 1, fails: it alone, or with every later one.
 * 0: none fails any more. */
void memory_fail(size_t nth, int how);

bool memory_failed(void); /* whether one has failed since memory_fail() */

/* For tests that need no fixture: counts memory, none of which fails; afterwards fails
 * where the test has not given all of it back. */
int memory_setup(void **state);
int memory_teardown(void **state);

/* The same for tests with a fixture: stores a new one of `size` bytes, all 0, in *state
 * and returns it; frees it. The fixture itself is not counted. For setup and teardown
 * functions. */
void *state_create(void **state, size_t size);
int state_destroy(void **state);

/* ---- Chance ------------------------------------------------------------- */

/* Random numbers that are the same for the same seed. */
struct dice {
    uint64_t seed; /* print it when a random test fails */
    uint64_t state;
};

/* The seed from the environment, TDG_SEED, or a fixed one. */
struct dice dice_from_env(void);
uint32_t roll(struct dice *dice, uint32_t limit); /* below `limit` */

/* How often a random test repeats what it does: `normal` times, and TDG_LONG times as
 * often where that is in the environment, as in `make soak`. */
unsigned often(unsigned normal);

/* ---- JSON --------------------------------------------------------------- */

/* A new copy, for free(), with " in the place of '. */
char *requote(const char *text);

/* A new value from text with ' in the place of ", which reads better in C; NULL for NULL.
 * The test fails where it is no JSON. */
json_t *json_from(const char *text);

/* Fails unless `json` equals what json_from(text) makes. */
#define assert_json_equal(json, text)                                                    \
    assert_json_equal_at((json), (text), __FILE__, __LINE__)
void assert_json_equal_at(const json_t *json, const char *text, const char *file,
                          int line);

#endif

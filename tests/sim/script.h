/* SPDX-License-Identifier: MIT
 *
 * A run of the simulation as data: a world and a list of operations, which can be made
 * from a seed, printed, read back and shortened. Operations name clients and targets by
 * number and never by what they are at the time, so that a script still runs when some of
 * its operations are left out. */
#ifndef TDG_SIM_SCRIPT_H
#define TDG_SIM_SCRIPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* One row per operation: its name, how often it comes up, the fields it uses. */
#define OPERATIONS(X)                                                                    \
    X(ADVANCE, "advance", 150, MS | WALL | THEN)                                         \
    X(UNTIL, "until", 120, DELTA | THEN)                                                 \
    X(OPEN, "open", 50, CLIENT)                                                          \
    X(CLOSE, "close", 6, CLIENT)                                                         \
    X(DROP, "drop", 14, CLIENT | COUNT)                                                  \
    X(END, "end", 4, CLIENT)                                                             \
    X(RESUME, "resume", 40, CLIENT | TIMING | RATE | PRIORITY | CURSOR | MS | WATCH)     \
    X(SUBSCRIBE, "subscribe", 150,                                                       \
      CLIENT | TARGET | TIMING | RATE | FILTER | PRIORITY | CURSOR | MS | WATCH)         \
    X(REWIND, "rewind", 30, CLIENT | COUNT | CURSOR)                                     \
    X(ACKNOWLEDGE, "acknowledge", 90, CLIENT | TARGET)                                   \
    X(UNSUBSCRIBE, "unsubscribe", 24, CLIENT | TARGET)                                   \
    X(CHANGED, "changed", 320, TARGET | SIZE | KIND | AGE | GAP)                         \
    X(DELETED, "deleted", 24, TARGET | SIZE | KIND | AGE | GAP)                          \
    X(UNSEEN, "unseen", 40, TARGET)                                                      \
    X(WATCH_DONE, "watch_done", 90, TARGET | RESULT | THEN | GAP)                        \
    X(TAKE, "take", 110, CLIENT | COUNT)                                                 \
    X(HELD_UP, "held_up", 10, MS)                                                        \
    X(FLUSH, "flush", 60, COUNT)                                                         \
    X(BLOCK, "block", 14, CLIENT)                                                        \
    X(UNBLOCK, "unblock", 20, CLIENT)                                                    \
    X(RECEIVE, "receive", 40, CLIENT)                                                    \
    X(CONFIGURE, "configure", 16, TARGET | TIMING | RATE | FLOOR)                        \
    X(SET_RATE, "set_rate_limit", 10, TARGET | RATE)                                     \
    X(SET_DEFAULTS, "set_defaults", 5, TIMING | RATE | FLOOR)                            \
    X(END_WINDOWS, "end_windows", 4, NOTHING)                                            \
    X(RIGHT, "right", 40, CLIENT | TARGET | COUNT)                                       \
    X(SUBSCRIBERS, "subscribers", 6, TARGET)                                             \
    X(PAGE, "page", 20, COUNT)                                                           \
    X(MISTAKE, "mistake", 10, CLIENT | COUNT)                                            \
    X(QUIET, "quiet", 2, NOTHING)

enum op_kind {
#define OP_KIND(name, text, weight, fields) OP_##name,
    OPERATIONS(OP_KIND)
#undef OP_KIND
        OP_KINDS
};

/* The cursor that a subscribe brings, or that a stream goes back to (NONE and SINCE stand
 * for OWN then). */
enum op_cursor {
    CURSOR_NONE,
    CURSOR_OWN,     /* the newest that the client received for this target */
    CURSOR_FOREIGN, /* of another epoch */
    CURSOR_SINCE,   /* none, but `ms` for since_ms */
    CURSOR_AHEAD,   /* of a number that was not given out; of another epoch where numbers
                       are shared */
    CURSOR_KEPT,    /* and above: one that somebody received, older and older */
    CURSOR_KINDS = CURSOR_KEPT + 7,
};

/* What the outside does in the middle of a `settled` call. */
enum op_then { THEN_NOTHING, THEN_ACKNOWLEDGE, THEN_UNSUBSCRIBE, THEN_CLOSE, THEN_KINDS };

/* How `watch` answers, and how it goes on. */
enum op_watch { WATCH_AT_ONCE, WATCH_LATER, WATCH_REFUSED, WATCH_KINDS };

enum { ALL = -1 }; /* as a target: of acknowledge, watch_done */

struct op {
    enum op_kind kind;
    int32_t client;
    int32_t target;
    int32_t ms;
    int32_t wall; /* by how much the time of day steps beside the time */
    int32_t delta;
    int32_t then;
    int32_t count;
    int32_t timing;
    int32_t rate;
    int32_t floor;
    int32_t filter;
    int32_t priority;
    int32_t cursor;
    int32_t watch;
    int32_t result;
    int32_t size;
    int32_t kind_of; /* metadata.kind */
    int32_t age;
    int32_t gap; /* -1: numbered by the engine; else stamped here, skipping so many */
};

struct script {
    int world;
    bool abrupt; /* the engine is destroyed in the middle of everything */
    struct op *ops;
    size_t count;
};

/* A new script of `count` operations. */
struct script script_generate(uint64_t seed, size_t count);
struct script script_copy(const struct script *script);
void script_done(struct script *script);

void script_print_op(FILE *out, const struct op *op);
void script_print(FILE *out, const struct script *script);

/* Returns false and prints the line that it does not understand. */
bool script_read(FILE *in, struct script *ret);

/* Numbers that look random, all from one seed. */
uint64_t sim_random(uint64_t *state);

#endif

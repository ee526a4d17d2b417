/* SPDX-License-Identifier: MIT
 *
 * How much silence of a stream means that it is dead, learned from its keep-alives. A
 * keep-alive is a sign of life on a silent stream that brings no message. Once two were
 * seen, three times the largest pause between any signs of life is too much, but never
 * less than five seconds. Pieces of one large message do not count: they follow each
 * other at once. Pure: time is given. */
#ifndef TDG_CLIENT_LIFESIGN_H
#define TDG_CLIENT_LIFESIGN_H

#include <stdbool.h>
#include <stdint.h>

enum {
    TDG__LIFESIGN_PAUSE_MS = 100, /* shorter ones are no silence */
    TDG__LIFESIGN_ENOUGH = 2,     /* keep-alives */
    TDG__LIFESIGN_TIMES = 3,
    TDG__LIFESIGN_LEAST_MS = 5000,
    TDG__LIFESIGN_MOST_MS = 24 * 60 * 60 * 1000,
};

typedef struct tdg__lifesign {
    int64_t sign_ms;    /* the last one */
    int64_t message_ms; /* the last message */
    int64_t largest_ms;
    uint32_t count; /* keep-alives */
    bool candidate; /* the last sign came after a pause */
    uint32_t quiet_ms;
} tdg__lifesign_t;

void tdg__lifesign_init(tdg__lifesign_t *life, int64_t now_ms); /* it was opened */
void tdg__lifesign_message(tdg__lifesign_t *life, int64_t now_ms);

/* A sign of life. Returns whether the one before was a keep-alive; *ret_quiet_ms gets
 * what is too much silence from now on; 0: nobody knows. */
bool tdg__lifesign_seen(tdg__lifesign_t *life, int64_t now_ms, uint32_t *ret_quiet_ms);

#endif

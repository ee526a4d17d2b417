/* SPDX-License-Identifier: MIT
 *
 * The demonstration in three parts: demo_run.c lets the engine decide, with simulated
 * time; demo_draw.c shows what it decided; demo_live.c shows it growing. demo.c reads the
 * command line and puts them together. */
#ifndef TDG_CLI_DEMO_H
#define TDG_CLI_DEMO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "core/engine.h"

/* What the command line asks for. Times in ms. */
typedef struct demo_options {
    int pattern;      /* position in demo_patterns */
    long changes;     /* how many; -1: what suits the pattern */
    long duration_ms; /* within which time; -1: what suits the pattern */
    long batch_ms;    /* 0: at once, as for all windows */
    long debounce_ms; /* -1: 500 */
    long longest_ms;  /* of debounce; -1: see demo.c */
    long throttle_ms;
    long rate_limit_ms; /* of the second half of the subscribers; 0: no such half */
    long width;         /* columns; -1: those of the terminal */
    int color;          /* position in "auto", "always", "never" */
    bool ascii;
    bool live;
    bool json;
} demo_options_t;

extern const char *const demo_patterns[]; /* ends with NULL */

/* One notification that left. */
typedef struct demo_note {
    int64_t at_ms;
    size_t first, last; /* positions of the changes that it stands for */
} demo_note_t;

/* One subscriber and its notifications. */
typedef struct demo_row {
    const char *mode;
    tdg__timing_mode_t timing; /* the same */
    uint32_t window_ms;
    uint32_t longest_ms;    /* debounce; else 0 */
    uint32_t rate_limit_ms; /* 0: none */
    demo_note_t *notes;
    size_t note_count, note_room;
    tdg__stream_t stream;
    bool wrong; /* the engine's own count of merged changes is another than ours */
} demo_row_t;

enum {
    DEMO_MODES = 4,
    DEMO_MAX_ROWS = 2 * DEMO_MODES,
    DEMO_MIN_WIDTH = 60, /* columns; less leaves no room for a time line */
};

typedef struct demo {
    const char *pattern;
    int64_t duration_ms;
    int64_t *changes; /* when each came, in order */
    size_t change_count;
    demo_row_t rows[DEMO_MAX_ROWS]; /* first those without a rate limit, then the same
                                       with it */
    size_t row_count;
    int64_t end_ms; /* when nothing more happens */
} demo_t;

/* Runs the engine from the first change until it has nothing left to notify of. Returns 0
 * or a negative code; `demo` is to be given to demo_done() in both cases. */
int demo_run(demo_t *demo, const demo_options_t *options);
void demo_done(demo_t *demo);

/* Whether the subscriber was notified of every change up to the last one. */
bool demo_row_complete(const demo_t *demo, const demo_row_t *row);

/* The longest that a change waited until its notification left, of those that had left by
 * `until_ms`; and how many had. */
int64_t demo_row_longest_wait(const demo_t *demo, const demo_row_t *row,
                              int64_t until_ms);
size_t demo_row_sent(const demo_row_t *row, int64_t until_ms);

/* How to draw. */
typedef struct demo_pen {
    FILE *out;
    int width;
    bool color;
    bool utf8;
    bool live;    /* a frame: without the words on which mode is good for what; also for
                     a terminal with few lines */
    bool compact; /* without the line of counts under each subscriber */
} demo_pen_t;

/* Draws the picture as it is at `until_ms`; from the end on, with some words on which
 * mode is good for what. */
void demo_draw(const demo_t *demo, const demo_pen_t *pen, int64_t until_ms);

/* Says whether the last change arrived everywhere. */
void demo_draw_verdict(const demo_t *demo, const demo_pen_t *pen);

/* One JSON object per subscriber and line. Returns 0 or TDG_ENOMEM. */
int demo_print_json(const demo_t *demo, FILE *out);

/* Plays the picture in real time on the terminal's other screen. Returns 0, or the signal
 * that ended it; the terminal is as it was in both cases. */
int demo_play(const demo_t *demo, const demo_pen_t *pen);

#endif

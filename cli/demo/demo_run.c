/* SPDX-License-Identifier: MIT
 *
 * Runs a real engine in simulated time: it jumps from one event to the next, so a run
 * takes no time and always has the same result. */
#include "demo/demo.h"

#include <stdlib.h>

#include <tidings/tidings.h>

static const char resource[] = "demo://counter";

/* ---- Patterns ----------------------------------------------------------- */

const char *const demo_patterns[] = {"steady",  "burst",  "bursts",
                                     "trickle", "typing", NULL};

enum { STEADY, BURST, BURSTS, TRICKLE, TYPING };

static const struct pattern {
    long changes;
    long duration_ms;
} patterns[] = {
    [STEADY] = {100, 1000}, [BURST] = {100, 1000}, [BURSTS] = {100, 2000},
    [TRICKLE] = {8, 4000},  [TYPING] = {60, 9000},
};

/* Words of two to seven letters; the writer thinks after every sixth. */
static double typing_gap(size_t letter, uint32_t random) {
    static const unsigned char word_ends[] = {4, 7, 14, 17, 22, 29};

    if (letter == 29)
        return 16;
    for (size_t k = 0; k < sizeof(word_ends); k++)
        if (letter == word_ends[k])
            return 4 + random % 3;
    return 1 + random % 100 / 100.0;
}

/* The gap after a change, in no particular unit: together they are scaled to the
 * duration. `random` is any number, always the same for `i`. */
static double gap_after(int pattern, size_t i, size_t count, uint32_t random) {
    size_t burst = (count + 3) / 4;

    switch (pattern) {
    case BURST: /* all in the first tenth */
        return i + 1 == count ? 9.0 * (double)count : 1;
    case BURSTS: /* four, in a quarter of the time, with quiet in between */
        return (i + 1) % burst == 0 || i + 1 == count ? 3.0 * (double)burst : 1;
    case TRICKLE: /* now and then one, sometimes two in a row */
        return random % 4 == 0 ? 1 : 6 + random % 7;
    case TYPING:
        return typing_gap(i % 30, random);
    default:
        return 1;
    }
}

static int make_changes(demo_t *demo, int pattern) {
    double total = 0, passed = 0;

    demo->changes = calloc(demo->change_count, sizeof(demo->changes[0]));
    if (demo->changes == NULL)
        return TDG_ENOMEM;

    /* Twice over the same numbers: once for the scale, once for the times. */
    for (int pass = 0; pass < 2; pass++) {
        uint32_t random = 20;

        for (size_t i = 0; i < demo->change_count; i++) {
            double gap;

            random = random * 1664525 + 1013904223;
            gap = gap_after(pattern, i, demo->change_count, random >> 16);
            if (pass == 0) {
                total += gap;
            } else {
                demo->changes[i] = (int64_t)((double)demo->duration_ms * passed / total);
                passed += gap;
            }
        }
    }
    return 0;
}

/* ---- Subscribers -------------------------------------------------------- */

/* The DEMO_MODES, in the order in which they are drawn. */
static void add_rows(demo_t *demo, const demo_options_t *options, long rate_limit_ms) {
    const struct {
        const char *name;
        tdg__timing_mode_t timing;
        long window_ms, longest_ms;
    } modes[DEMO_MODES] = {
        {"immediate", TDG__TIMING_IMMEDIATE, 0, 0},
        {"batch", TDG__TIMING_BATCH, options->batch_ms, 0},
        {"debounce", TDG__TIMING_DEBOUNCE, options->debounce_ms, options->longest_ms},
        {"throttle", TDG__TIMING_THROTTLE, options->throttle_ms, 0},
    };

    for (size_t i = 0; i < DEMO_MODES; i++)
        demo->rows[demo->row_count++] = (demo_row_t){
            .mode = modes[i].name,
            .timing = modes[i].timing,
            .window_ms = (uint32_t)modes[i].window_ms,
            .longest_ms = (uint32_t)modes[i].longest_ms,
            .rate_limit_ms = (uint32_t)rate_limit_ms,
        };
}

static int subscribe(tdg__engine_t *engine, demo_row_t *row) {
    tdg__target_t target = tdg__target_uri(resource);
    tdg__sub_opts_t opts = {.settings = {
                                .timing = {row->timing, row->window_ms, row->longest_ms},
                                .rate_limit_ms = row->rate_limit_ms > 0
                                                     ? (int32_t)row->rate_limit_ms
                                                     : TDG__RATE_OFF,
                            }};
    int rv;

    rv = tdg__engine_open(engine, row, &row->stream);
    if (rv < 0)
        return rv;

    rv = tdg__engine_subscribe(engine, row->stream, &target, &opts, NULL);
    if (rv < 0)
        return rv;

    return tdg__engine_acknowledge(engine, row->stream, &target);
}

/* ---- The run ------------------------------------------------------------ */

static int note_down(demo_row_t *row, const tdg__note_t *note, int64_t now_ms) {
    demo_note_t *entry;

    if (row->note_count == row->note_room) {
        size_t room = row->note_room == 0 ? 16 : 2 * row->note_room;
        demo_note_t *notes = realloc(row->notes, room * sizeof(notes[0]));

        if (notes == NULL)
            return TDG_ENOMEM;
        row->notes = notes;
        row->note_room = room;
    }

    /* Numbers start with 1, positions with 0. */
    entry = &row->notes[row->note_count];
    entry->at_ms = now_ms;
    entry->first = row->note_count > 0 ? entry[-1].last + 1 : 0;
    entry->last = (size_t)note->change->number - 1;
    if (entry->last < entry->first || note->merged != entry->last - entry->first)
        row->wrong = true;
    row->note_count++;
    return 0;
}

/* Takes all that is ready. */
static int drain(tdg__engine_t *engine, int64_t now_ms) {
    tdg__stream_t stream = tdg__engine_next_ready(engine, 0);
    tdg__note_t note;
    int rv;

    for (; stream != 0; stream = tdg__engine_next_ready(engine, stream)) {
        demo_row_t *row = tdg__engine_stream_user(engine, stream);

        while ((rv = tdg__engine_take(engine, stream, &note)) == 1) {
            rv = note_down(row, &note, now_ms);
            if (rv < 0)
                return rv;
        }
        if (rv < 0)
            return rv;
    }
    return 0;
}

static int play(demo_t *demo, tdg__engine_t *engine) {
    tdg__target_t target = tdg__target_uri(resource);
    size_t next = 0;
    int rv;

    for (;;) {
        int64_t deadline = tdg__engine_next_deadline(engine);
        int64_t now = next < demo->change_count ? demo->changes[next] : INT64_MAX;

        if (deadline < now)
            now = deadline;
        if (now == INT64_MAX)
            return 0;

        tdg__engine_advance(engine, now, now);
        rv = drain(engine, now);
        if (rv < 0)
            return rv;

        for (; next < demo->change_count && demo->changes[next] == now; next++) {
            rv = tdg__engine_publish(engine, &target, NULL, false, NULL);
            if (rv < 0)
                return rv;
            rv = drain(engine, now);
            if (rv < 0)
                return rv;
        }
    }
}

static void find_end(demo_t *demo) {
    demo->end_ms = demo->duration_ms;
    for (size_t i = 0; i < demo->row_count; i++) {
        const demo_row_t *row = &demo->rows[i];

        if (row->note_count > 0 && row->notes[row->note_count - 1].at_ms > demo->end_ms)
            demo->end_ms = row->notes[row->note_count - 1].at_ms;
    }
}

int demo_run(demo_t *demo, const demo_options_t *options) {
    const struct pattern *pattern = &patterns[options->pattern];
    tdg__engine_opts_t opts = {
        .epoch = 1,
        .hash_key = {1},
        .linger_ms = TDG__NO_LINGER,
    };
    tdg__engine_t *engine;
    int rv;

    *demo = (demo_t){
        .pattern = demo_patterns[options->pattern],
        .duration_ms =
            options->duration_ms >= 0 ? options->duration_ms : pattern->duration_ms,
        .change_count =
            (size_t)(options->changes >= 0 ? options->changes : pattern->changes),
    };

    add_rows(demo, options, 0);
    if (options->rate_limit_ms > 0)
        add_rows(demo, options, options->rate_limit_ms);

    rv = make_changes(demo, options->pattern);
    if (rv < 0)
        return rv;

    rv = tdg__engine_create(&opts, &engine);
    if (rv < 0)
        return rv;

    for (size_t i = 0; i < demo->row_count && rv == 0; i++)
        rv = subscribe(engine, &demo->rows[i]);
    if (rv == 0)
        rv = play(demo, engine);
    find_end(demo);
    tdg__engine_destroy(engine);
    return rv;
}

void demo_done(demo_t *demo) {
    for (size_t i = 0; i < demo->row_count; i++)
        free(demo->rows[i].notes);
    free(demo->changes);
    *demo = (demo_t){0};
}

/* ---- What came of it ---------------------------------------------------- */

bool demo_row_complete(const demo_t *demo, const demo_row_t *row) {
    return row->note_count > 0 &&
           row->notes[row->note_count - 1].last + 1 == demo->change_count && !row->wrong;
}

size_t demo_row_sent(const demo_row_t *row, int64_t until_ms) {
    size_t sent = 0;

    while (sent < row->note_count && row->notes[sent].at_ms <= until_ms)
        sent++;
    return sent;
}

int64_t demo_row_longest_wait(const demo_t *demo, const demo_row_t *row,
                              int64_t until_ms) {
    size_t sent = demo_row_sent(row, until_ms);
    int64_t longest = 0;

    for (size_t i = 0; i < sent; i++) {
        int64_t wait = row->notes[i].at_ms - demo->changes[row->notes[i].first];

        if (wait > longest)
            longest = wait;
    }
    return longest;
}

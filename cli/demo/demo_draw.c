/* SPDX-License-Identifier: MIT
 *
 * Draws a run as text. A row is a label, a time line and three figures; the time line has
 * one cell per column. A cell shows what happened in its share of the time. */
#include "demo/demo.h"

#include <stdarg.h>
#include <string.h>

#include <jansson.h>

#include <tidings/tidings.h>

#include "safe_text.h"

enum {
    MAX_CELLS = 512,
    FIGURES = 21,  /* columns to the right of the time line: sent, longest wait, last */
    TICK_ROOM = 9, /* columns that the label of a tick on the axis needs */
};

typedef enum color { PLAIN, BOLD, DIM, CHANGE, SENT, COUNT, BAD } color_t;

/* What a time line is drawn with. */
struct glyphs {
    const char *bars[9]; /* from nothing to all */
    const char *mark, *wait, *tick, *axis, *yes, *no, *dash;
};

static const struct glyphs ascii_glyphs = {
    .bars = {" ", ".", ".", ":", ":", "|", "|", "#", "#"},
    .mark = "*",
    .wait = "-",
    .tick = "+",
    .axis = "-",
    .yes = "yes",
    .no = "NO",
    .dash = "-",
};

static const struct glyphs utf8_glyphs = {
    .bars = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"},
    .mark = "●",
    .wait = "─",
    .tick = "┬",
    .axis = "─",
    .yes = "✓",
    .no = "✗",
    .dash = "–",
};

/* The picture's proportions, the same for all its rows. */
typedef struct layout {
    const demo_t *demo;
    const demo_pen_t *pen;
    const struct glyphs *glyphs;
    int label; /* columns */
    int cells; /* of the time line */
    int64_t until_ms;
    size_t busiest; /* changes in the fullest cell */
} layout_t;

__attribute__((format(printf, 3, 4))) static void
put(const demo_pen_t *pen, color_t color, const char *format, ...) {
    static const char *const escapes[] = {
        "", "\033[1m", "\033[2m", "\033[33m", "\033[1;32m", "\033[36m", "\033[1;31m"};
    bool colored = pen->color && color != PLAIN;
    va_list args;

    if (colored)
        fputs(escapes[color], pen->out);
    va_start(args, format);
    vfprintf(pen->out, format, args);
    va_end(args);
    if (colored)
        fputs("\033[0m", pen->out);
}

/* 990 → "990 ms", 1490 → "1,490 ms", 12345 → "12.3 s", 5400000 → "90 min". */
static const char *duration(int64_t ms, char *text, size_t size) {
    if (ms < 1000)
        snprintf(text, size, "%d ms", (int)ms);
    else if (ms < 10000)
        snprintf(text, size, "%d,%03d ms", (int)(ms / 1000), (int)(ms % 1000));
    else if (ms < 600000)
        snprintf(text, size, ms % 1000 < 50 ? "%.0f s" : "%.1f s", (double)ms / 1e3);
    else if (ms < 36000000)
        snprintf(text, size, ms % 60000 < 3000 ? "%.0f min" : "%.1f min",
                 (double)ms / 60e3);
    else
        snprintf(text, size, ms % 3600000 < 180000 ? "%.0f h" : "%.1f h",
                 (double)ms / 3600e3);
    return text;
}

/* ---- Layout ------------------------------------------------------------- */

static int row_label(const demo_row_t *row, char *text, size_t size) {
    char window[24];

    if (strcmp(row->mode, "immediate") == 0)
        return snprintf(text, size, "%s", row->mode);
    return snprintf(text, size, "%s %s", row->mode,
                    duration(row->window_ms, window, sizeof(window)));
}

static int cell_of(const layout_t *layout, int64_t at_ms) {
    return (int)((double)at_ms * layout->cells / (double)(layout->demo->end_ms + 1));
}

static void lay_out(layout_t *layout, const demo_t *demo, const demo_pen_t *pen,
                    int64_t until_ms) {
    size_t counts[MAX_CELLS] = {0};

    *layout = (layout_t){
        .demo = demo,
        .pen = pen,
        .glyphs = pen->utf8 ? &utf8_glyphs : &ascii_glyphs,
        .label = (int)strlen("changes"),
        .until_ms = until_ms < demo->end_ms ? until_ms : demo->end_ms,
    };
    for (size_t i = 0; i < demo->row_count; i++) {
        char text[48];
        int len = row_label(&demo->rows[i], text, sizeof(text));

        if (len > layout->label)
            layout->label = len;
    }
    layout->cells = pen->width - layout->label - 2 - FIGURES;
    if (layout->cells > MAX_CELLS)
        layout->cells = MAX_CELLS;

    for (size_t i = 0; i < demo->change_count; i++) {
        size_t *count = &counts[cell_of(layout, demo->changes[i])];

        if (++*count > layout->busiest)
            layout->busiest = *count;
    }
}

/* ---- Time lines --------------------------------------------------------- */

/* The distance of the ticks: 1, 2, 2.5 or 5 times a power of ten, so that labels fit. */
static double tick_distance(const layout_t *layout) {
    static const double steps[] = {1, 2, 2.5, 5, 10};
    double least = (double)(layout->demo->end_ms + 1) / layout->cells * TICK_ROOM;
    double power = 1;

    while (power * 10 < least)
        power *= 10;
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++)
        if (power * steps[i] >= least && (power * steps[i] >= 10 || steps[i] != 2.5))
            return power * steps[i];
    return power * 10;
}

static void tick_label(double ms, double distance, char *text, size_t size) {
    if (ms < 0.5)
        snprintf(text, size, "0");
    else if (ms < 1000)
        snprintf(text, size, "%.0f ms", ms);
    else if (ms < 600e3)
        snprintf(text, size, "%.*f s",
                 distance >= 1000  ? 0
                 : distance >= 100 ? 1
                                   : 2,
                 ms / 1e3);
    else if (ms < 36000e3)
        snprintf(text, size, "%.*f min", distance >= 60e3 ? 0 : 1, ms / 60e3);
    else
        snprintf(text, size, "%.*f h", distance >= 3600e3 ? 0 : 1, ms / 3600e3);
}

static void draw_axis(const layout_t *layout) {
    const demo_pen_t *pen = layout->pen;
    double distance = tick_distance(layout), next = 0;
    int column = 0;

    put(pen, PLAIN, "%*s", layout->label + 2, "");
    for (double at = 0; at <= (double)layout->demo->end_ms; at += distance) {
        char text[32];
        int cell = cell_of(layout, (int64_t)at);

        tick_label(at, distance, text, sizeof(text));
        if (cell + (int)strlen(text) > layout->cells + 1)
            break;
        put(pen, DIM, "%*s%s", cell - column, "", text);
        column = cell + (int)strlen(text);
    }
    put(pen, DIM, "%*s%*s\n", layout->cells - column, "", FIGURES - 6, "longest");

    put(pen, PLAIN, "%*s", layout->label + 2, "");
    for (int cell = 0; cell < layout->cells; cell++) {
        if (cell >= cell_of(layout, (int64_t)next)) {
            put(pen, DIM, "%s", layout->glyphs->tick);
            next += distance;
        } else {
            put(pen, DIM, "%s", layout->glyphs->axis);
        }
    }
    put(pen, DIM, "%6s%9s%6s\n", "sent", "wait", "last");
}

static const char *bar(const layout_t *layout, size_t count) {
    size_t level = (count * 8 + layout->busiest - 1) / layout->busiest;

    if (layout->busiest == 1)
        level = 4; /* single changes need not shout */
    return layout->glyphs->bars[level < 8 ? level : 8];
}

static void draw_changes(const layout_t *layout) {
    const demo_t *demo = layout->demo;
    size_t counts[MAX_CELLS] = {0}, seen = 0;

    for (; seen < demo->change_count && demo->changes[seen] <= layout->until_ms; seen++)
        counts[cell_of(layout, demo->changes[seen])]++;

    put(layout->pen, PLAIN, "%-*s", layout->label + 2, "changes");
    for (int cell = 0; cell < layout->cells; cell++) {
        if (counts[cell] > 0)
            put(layout->pen, CHANGE, "%s", bar(layout, counts[cell]));
        else
            put(layout->pen, PLAIN, " ");
    }
    put(layout->pen, PLAIN, "%6zu\n", seen);
}

/* Under each mark, for how many changes it stands; where the numbers do not fit, from how
 * few to how many. */
static void draw_counts(const layout_t *layout, const demo_row_t *row, size_t sent) {
    size_t least = SIZE_MAX, most = 0;
    int column = 0, width = 0;
    bool fits = true;

    if (sent == 0) {
        put(layout->pen, PLAIN, "\n");
        return;
    }

    for (size_t i = 0; i < sent; i++) {
        const demo_note_t *note = &row->notes[i];
        size_t count = note->last - note->first + 1;
        int cell = cell_of(layout, note->at_ms);

        least = count < least ? count : least;
        most = count > most ? count : most;
        if (i > 0 && cell <= width)
            fits = false;
        width = cell + snprintf(NULL, 0, "%zu", count);
        if (width > layout->cells + 6)
            fits = false;
    }

    put(layout->pen, PLAIN, "%*s", layout->label + 2, "");
    if (!fits) {
        put(layout->pen, PLAIN, "%*s", cell_of(layout, row->notes[0].at_ms), "");
        if (least == most)
            put(layout->pen, COUNT, "%zu each\n", least);
        else
            put(layout->pen, COUNT, "%zu%s%zu each\n", least, layout->glyphs->dash, most);
        return;
    }
    for (size_t i = 0; i < sent; i++) {
        size_t count = row->notes[i].last - row->notes[i].first + 1;
        int cell = cell_of(layout, row->notes[i].at_ms);

        put(layout->pen, COUNT, "%*s%zu", cell - column, "", count);
        column = cell + snprintf(NULL, 0, "%zu", count);
    }
    put(layout->pen, PLAIN, "\n");
}

/* Marks the cells in which a change waits: from its arrival until its notification,
 * or until now. */
static void find_waits(const layout_t *layout, const demo_row_t *row, size_t sent,
                       bool *ret_waits) {
    const demo_t *demo = layout->demo;
    size_t first = 0;

    for (size_t i = 0; i <= sent; i++) {
        int64_t until = i < sent ? row->notes[i].at_ms : layout->until_ms;

        if (first < demo->change_count && demo->changes[first] <= until)
            for (int cell = cell_of(layout, demo->changes[first]);
                 cell <= cell_of(layout, until); cell++)
                ret_waits[cell] = true;
        if (i < sent)
            first = row->notes[i].last + 1;
    }
}

static void draw_row(const layout_t *layout, const demo_row_t *row) {
    const demo_pen_t *pen = layout->pen;
    size_t counts[MAX_CELLS] = {0}, sent = demo_row_sent(row, layout->until_ms);
    bool waits[MAX_CELLS] = {false};
    char label[48], wait[24];

    for (size_t i = 0; i < sent; i++)
        counts[cell_of(layout, row->notes[i].at_ms)]++;
    find_waits(layout, row, sent, waits);

    row_label(row, label, sizeof(label));
    put(pen, PLAIN, "%-*s", layout->label + 2, label);
    for (int cell = 0; cell < layout->cells; cell++) {
        if (counts[cell] == 1)
            put(pen, SENT, "%s", layout->glyphs->mark);
        else if (counts[cell] > 1)
            put(pen, SENT, "%s", bar(layout, counts[cell]));
        else
            put(pen, DIM, "%s", waits[cell] ? layout->glyphs->wait : " ");
    }

    put(pen, PLAIN, "%6zu", sent);
    if (sent > 0)
        duration(demo_row_longest_wait(layout->demo, row, layout->until_ms), wait,
                 sizeof(wait));
    else
        wait[0] = '\0';
    put(pen, PLAIN, "%9s", wait);

    if (layout->until_ms < layout->demo->end_ms)
        put(pen, PLAIN, "\n");
    else if (demo_row_complete(layout->demo, row))
        put(pen, SENT, "%*s\n", pen->utf8 ? 7 : 6, layout->glyphs->yes);
    else
        put(pen, BAD, "%*s\n", pen->utf8 ? 7 : 6, layout->glyphs->no);

    if (!pen->compact)
        draw_counts(layout, row, sent);
}

/* ---- Words -------------------------------------------------------------- */

/* Prints a paragraph with a word in front. */
static void put_paragraph(const demo_pen_t *pen, const char *term, const char *text) {
    int indent = term[0] != '\0' ? (int)strlen("debounce  ") : 0;

    put(pen, BOLD, "%-*s", indent, term);
    cli_put_wrapped(pen->out, text, indent, pen->width < 100 ? pen->width : 100);
}

/* What helps to choose, after the rows that show it. */
static void draw_advice(const demo_pen_t *pen, const demo_t *demo, bool limited) {
    char longest[24], text[256];

    put(pen, PLAIN, "\n");
    if (!limited) {
        put_paragraph(
            pen, "batch",
            "collects changes for a window: notifications are evenly spaced, and "
            "no change waits longer than the window. The default, with the "
            "rate limit below, and right for most resources.");
        snprintf(text, sizeof(text),
                 "waits until the changes stop, here for at most %s. For content that is "
                 "worth reading only when it is complete: a build, a text being typed.",
                 duration(demo->rows[2].longest_ms, longest, sizeof(longest)));
        put_paragraph(pen, "debounce", text);
        put_paragraph(
            pen, "throttle",
            "notifies of the first change at once, then at most once per window. For "
            "dashboards and progress, where the first change matters.");
        return;
    }
    put_paragraph(
        pen, "",
        "The limit applies in addition to the mode, per subscriber and resource: "
        "the first notification passes, later ones merge until its time is over, and "
        "the last change is always notified. The mode decides when a change is worth "
        "a notification; the limit protects the reader.");
}

static void draw_head(const layout_t *layout) {
    const demo_t *demo = layout->demo;
    const demo_pen_t *pen = layout->pen;
    char time[24];

    put(pen, BOLD, "%zu change%s of one resource in %s (%s)\n", demo->change_count,
        demo->change_count == 1 ? "" : "s",
        duration(demo->duration_ms, time, sizeof(time)), demo->pattern);
    put(pen, SENT, "%s", layout->glyphs->mark);
    put(pen, PLAIN, " a notification%s   ",
        pen->compact ? "" : ", with its changes below");
    put(pen, DIM, "%s", layout->glyphs->wait);
    put(pen, PLAIN, " a change waits\n\n");
}

void demo_draw(const demo_t *demo, const demo_pen_t *pen, int64_t until_ms) {
    layout_t layout;

    lay_out(&layout, demo, pen, until_ms);
    draw_head(&layout);
    draw_axis(&layout);
    draw_changes(&layout);

    for (size_t i = 0; i < demo->row_count; i++) {
        char limit[24];

        if (i % DEMO_MODES == 0) {
            put(pen, PLAIN, "\n");
            if (demo->rows[i].rate_limit_ms == 0)
                put(pen, BOLD, "Without a rate limit\n");
            else
                put(pen, BOLD, "With a rate limit: one notification per %s\n",
                    duration(demo->rows[i].rate_limit_ms, limit, sizeof(limit)));
        }
        draw_row(&layout, &demo->rows[i]);
        if ((i + 1) % DEMO_MODES == 0 && !pen->live)
            draw_advice(pen, demo, demo->rows[i].rate_limit_ms > 0);
    }
}

void demo_draw_verdict(const demo_t *demo, const demo_pen_t *pen) {
    size_t complete = 0;

    for (size_t i = 0; i < demo->row_count; i++)
        complete += demo_row_complete(demo, &demo->rows[i]);

    put(pen, PLAIN, "\n");
    if (complete == demo->row_count)
        put(pen, BOLD, "The last change arrived at all %zu subscribers.\n", complete);
    else
        put(pen, BAD, "The last change arrived at %zu of %zu subscribers only.\n",
            complete, demo->row_count);
}

/* ---- JSON --------------------------------------------------------------- */

static json_t *row_json(const demo_t *demo, const demo_row_t *row) {
    json_t *times = json_array();
    size_t merged = 0;
    char name[48];

    for (size_t i = 0; i < row->note_count; i++) {
        merged += row->notes[i].last - row->notes[i].first;
        if (json_array_append_new(times, json_integer(row->notes[i].at_ms)) < 0) {
            json_decref(times);
            return NULL;
        }
    }

    snprintf(name, sizeof(name), "%s%s", row->mode,
             row->rate_limit_ms > 0 ? ", rate limited" : "");
    return json_pack(
        "{s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:b, s:o}", "name", name, "mode",
        row->mode, "window_ms", (json_int_t)row->window_ms, "longest_ms",
        (json_int_t)row->longest_ms, "rate_limit_ms", (json_int_t)row->rate_limit_ms,
        "changes", (json_int_t)demo->change_count, "notifications",
        (json_int_t)row->note_count, "merged", (json_int_t)merged, "longest_wait_ms",
        (json_int_t)demo_row_longest_wait(demo, row, INT64_MAX), "last_arrived",
        (int)demo_row_complete(demo, row), "times", times);
}

int demo_print_json(const demo_t *demo, FILE *out) {
    for (size_t i = 0; i < demo->row_count; i++) {
        json_t *json = row_json(demo, &demo->rows[i]);

        if (json == NULL)
            return TDG_ENOMEM;
        json_dumpf(json, out, JSON_COMPACT);
        fputc('\n', out);
        json_decref(json);
    }
    return 0;
}

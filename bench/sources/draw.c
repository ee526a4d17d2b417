/* SPDX-License-Identifier: MIT
 *
 * The plot: a block per source, in it a line per way to learn of a change; time to the
 * right, on a logarithmic axis. A dot is the median, the thick part reaches to p95, the
 * thin one to the longest. */
#include <errno.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>

#include "sources.h"

enum {
    LEFT = 90,
    TOP = 96,
    PLOT_W = 700,
    RIGHT = 84, /* room for the last value */
    ROW_H = 17,
    BLOCK_GAP = 12,
    BOTTOM = 48,
};

static const struct way {
    const char *name, *color;
    sources_run_id_t run;
    sources_audience_t client;
} ways[] = {
    {"subscription, every change at once", "#0f6fc5", AT_ONCE, SUBSCRIBER},
    {"subscription, default settings", "#2f8f57", DEFAULTS, SUBSCRIBER},
    {"polling every 1 s", "#c2571a", AT_ONCE, POLL_1S},
    {"polling every 5 s", "#6b7680", AT_ONCE, POLL_5S},
};

enum { WAYS = sizeof(ways) / sizeof(ways[0]) };

struct frame {
    const sources_table_t *table;
    FILE *out;
    double min, max; /* logarithms of ns, whole */
    int height;
};

static const sources_spread_t *spread_of(const sources_table_t *table, int id,
                                         const struct way *way) {
    return &table->runs[way->run].seen[id][way->client].known;
}

static void survey(struct frame *frame) {
    int blocks = 0;

    frame->min = HUGE_VAL;
    frame->max = -HUGE_VAL;
    for (int id = 0; id < KINDS; id++) {
        if (!frame->table->used[id])
            continue;
        blocks++;
        for (size_t w = 0; w < WAYS; w++) {
            const sources_spread_t *spread = spread_of(frame->table, id, &ways[w]);

            frame->min = fmin(frame->min, floor(log10(spread->p50)));
            frame->max = fmax(frame->max, ceil(log10(spread->max)));
        }
    }
    frame->height = TOP + blocks * (WAYS * ROW_H + BLOCK_GAP) + BOTTOM;
}

static double place(const struct frame *frame, double ns) {
    return LEFT + (log10(ns) - frame->min) / (frame->max - frame->min) * PLOT_W;
}

/* "10 ms", without the decimal that bench_duration() has. */
static void power_label(double power, char *text, size_t size) {
    char *point;

    bench_duration(pow(10, power), text, size);
    point = strstr(text, ".0");
    if (point != NULL)
        memmove(point, point + 2, strlen(point + 2) + 1);
}

static void draw_axis(const struct frame *frame) {
    int end = frame->height - BOTTOM;

    for (double power = frame->min; power <= frame->max; power++) {
        double x = place(frame, pow(10, power));
        char text[32];

        power_label(power, text, sizeof(text));
        for (int k = 2; k < 10 && power < frame->max; k++) {
            double between = place(frame, k * pow(10, power));

            fprintf(frame->out,
                    "<line x1=\"%.1f\" y1=\"%d\" x2=\"%.1f\" y2=\"%d\" "
                    "class=\"weak\"/>\n",
                    between, TOP - 8, between, end);
        }
        fprintf(frame->out,
                "<line x1=\"%.1f\" y1=\"%d\" x2=\"%.1f\" y2=\"%d\" class=\"grid\"/>\n"
                "<text x=\"%.1f\" y=\"%d\" class=\"tick\" text-anchor=\"middle\">%s"
                "</text>\n",
                x, TOP - 8, x, end, x, end + 16, text);
    }
}

static void draw_way(const struct frame *frame, const sources_spread_t *spread,
                     const struct way *way, double y) {
    double p50 = place(frame, spread->p50), p95 = place(frame, spread->p95);
    double max = place(frame, spread->max);
    char text[32];

    fprintf(frame->out,
            "<g stroke=\"%s\" fill=\"%s\"><line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" "
            "y2=\"%.1f\"/><line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>"
            "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke-width=\"5\"/>"
            "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"4.5\" stroke=\"#ffffff\"/></g>\n",
            way->color, way->color, p50, y, max, y, max, y - 4, max, y + 4, p50, y, p95,
            y, p50, y);
    fprintf(frame->out,
            "<text x=\"%.1f\" y=\"%.1f\" class=\"value\" fill=\"%s\">%s</text>\n",
            max + 7, y + 4, way->color, bench_duration(spread->p50, text, sizeof(text)));
}

static void draw_legend(const struct frame *frame) {
    int x = LEFT;

    for (size_t w = 0; w < WAYS; w++) {
        fprintf(frame->out,
                "<circle cx=\"%d\" cy=\"66\" r=\"4.5\" fill=\"%s\"/>"
                "<text x=\"%d\" y=\"70\">%s</text>\n",
                x + 5, ways[w].color, x + 15, ways[w].name);
        x += 15 + (int)(6.4 * (double)strlen(ways[w].name)) + 18;
    }
}

static void draw_blocks(const struct frame *frame) {
    double y = TOP;

    for (int id = 0; id < KINDS; id++) {
        if (!frame->table->used[id])
            continue;
        fprintf(frame->out,
                "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\" class=\"source\">%s"
                "</text>\n",
                LEFT - 14, y + WAYS * ROW_H / 2.0 + 4, sources_kinds[id].name);
        for (size_t w = 0; w < WAYS; w++)
            draw_way(frame, spread_of(frame->table, id, &ways[w]), &ways[w],
                     y + ((double)w + 0.5) * ROW_H);
        y += WAYS * ROW_H + BLOCK_GAP;
    }
}

static void draw(const struct frame *frame) {
    int width = LEFT + PLOT_W + RIGHT;
    const sources_table_t *table = frame->table;

    fprintf(
        frame->out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
        "viewBox=\"0 0 %d %d\" font-family=\"system-ui, 'DejaVu Sans', sans-serif\" "
        "font-size=\"12\" fill=\"#20262c\">\n"
        "<style>.grid{stroke:#d5dadf}.weak{stroke:#f0f2f4}.tick{font-size:11px;"
        "fill:#5a646d}.source{font-weight:600}.value{font-size:11px}</style>\n"
        "<rect width=\"100%%\" height=\"100%%\" fill=\"#ffffff\"/>\n"
        "<text x=\"%d\" y=\"26\" font-size=\"16\" font-weight=\"600\">From a change to "
        "its content at the client</text>\n"
        "<text x=\"%d\" y=\"45\" fill=\"#5a646d\">%zu changes of each source, one every "
        "%.1f s on average. Dot and number: median; thick: to p95; thin: to the longest."
        "</text>\n",
        width, frame->height, width, frame->height, LEFT, LEFT,
        table->runs[AT_ONCE].changes, (double)table->gap_ns / 1e9);
    draw_legend(frame);
    draw_axis(frame);
    draw_blocks(frame);
    fprintf(frame->out,
            "<text x=\"%d\" y=\"%d\" class=\"tick\" text-anchor=\"middle\">time, "
            "logarithmic</text>\n</svg>\n",
            LEFT + PLOT_W / 2, frame->height - 10);
}

void sources_draw(const sources_table_t *table, const char *folder) {
    struct frame frame = {.table = table};
    char path[4096];
    bool lost;

    if (mkdir(folder, 0777) < 0 && errno != EEXIST)
        sources_fail("cannot make the folder %s: %s", folder, strerror(errno));
    snprintf(path, sizeof(path), "%s/sources.svg", folder);
    frame.out = fopen(path, "w");
    if (frame.out == NULL)
        sources_fail("cannot write %s: %s", path, strerror(errno));
    survey(&frame);
    draw(&frame);
    lost = ferror(frame.out) != 0;
    if (fclose(frame.out) != 0 || lost)
        sources_fail("cannot write %s", path);
}

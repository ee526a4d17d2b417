/* SPDX-License-Identifier: MIT
 *
 * Writes plots as SVG, by itself: a grid of panels that share their axes, each with a few
 * lines over n. The x axis is logarithmic. */
#ifndef TDG_BENCH_PLOT_H
#define TDG_BENCH_PLOT_H

#include <stdbool.h>
#include <stddef.h>

enum { PLOT_MAX_POINTS = 8, PLOT_MAX_LINES = 5 };

typedef struct plot_line {
    const char *name; /* the same name has the same color in all panels */
    double x[PLOT_MAX_POINTS], y[PLOT_MAX_POINTS];
    size_t count;
} plot_line_t;

typedef struct plot_panel {
    const char *title;
    plot_line_t lines[PLOT_MAX_LINES];
    size_t line_count;
    double target; /* a level to stay below, drawn as a line; 0: none */
} plot_panel_t;

typedef struct plot {
    const char *title;
    const char *subtitle;
    const char *x_label;
    const char *unit; /* of the y axis: "ns" is shown as ns, µs, ms; else as it is */
    bool log_y;
    const plot_panel_t *panels;
    size_t panel_count;
} plot_t;

/* Returns 0, or -1 with errno set. Without a point in any panel, nothing is written. */
int plot_write(const plot_t *plot, const char *path);

#endif

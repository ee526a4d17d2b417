/* SPDX-License-Identifier: MIT */
#include "plot.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common.h"

enum {
    COLUMNS = 3,
    PANEL_W = 300,
    PANEL_H = 210,
    GAP_X = 34,
    GAP_Y = 52,
    LEFT = 66,
    TOP = 108,
    RIGHT = 24,
    BOTTOM = 50,
};

/* Told apart by people who see colors differently, and by their dashes. */
static const struct style {
    const char *color, *dash;
} styles[] = {
    {"#0f6fc5", "none"}, {"#c2571a", "6 4"}, {"#6b7680", "2 3"},
    {"#2f8f57", "8 3"},  {"#8a4fbf", "4 2"},
};

struct frame {
    const plot_t *plot;
    FILE *out;
    double x_min, x_max, y_min, y_max; /* logarithms on a logarithmic axis */
    const char *names[PLOT_MAX_LINES]; /* of lines, in the order of their styles */
    size_t name_count;
    size_t columns, rows;
};

static double scale_y(const struct frame *frame, double y) {
    return frame->plot->log_y ? log10(y) : y;
}

static size_t style_of(const struct frame *frame, const char *name) {
    for (size_t i = 0; i < frame->name_count; i++)
        if (strcmp(frame->names[i], name) == 0)
            return i;
    return 0;
}

static void add_name(struct frame *frame, const char *name) {
    for (size_t i = 0; i < frame->name_count; i++)
        if (strcmp(frame->names[i], name) == 0)
            return;
    if (frame->name_count < PLOT_MAX_LINES)
        frame->names[frame->name_count++] = name;
}

static void include(struct frame *frame, double x, double y) {
    frame->x_min = fmin(frame->x_min, log10(x));
    frame->x_max = fmax(frame->x_max, log10(x));
    frame->y_min = fmin(frame->y_min, scale_y(frame, y));
    frame->y_max = fmax(frame->y_max, scale_y(frame, y));
}

/* Finds the ranges and the names. Returns false where there is nothing to show. */
static bool survey(struct frame *frame) {
    const plot_t *plot = frame->plot;

    frame->x_min = frame->y_min = HUGE_VAL;
    frame->x_max = frame->y_max = -HUGE_VAL;
    for (size_t p = 0; p < plot->panel_count; p++) {
        const plot_panel_t *panel = &plot->panels[p];

        for (size_t l = 0; l < panel->line_count; l++) {
            const plot_line_t *line = &panel->lines[l];

            add_name(frame, line->name);
            for (size_t i = 0; i < line->count; i++)
                include(frame, line->x[i], line->y[i]);
        }
        if (panel->target > 0 && panel->line_count > 0 && panel->lines[0].count > 0)
            include(frame, panel->lines[0].x[0], panel->target);
    }
    if (frame->x_min > frame->x_max)
        return false;

    if (plot->log_y) { /* whole halves of decades, with room for the values */
        frame->y_min = floor(frame->y_min * 2 - 0.3) / 2;
        frame->y_max = ceil(frame->y_max * 2 + 0.2) / 2;
    } else {
        frame->y_min = 0;
        frame->y_max *= 1.12;
    }
    if (frame->x_min == frame->x_max) {
        frame->x_min -= 0.5;
        frame->x_max += 0.5;
    }
    return true;
}

static double place_x(const struct frame *frame, double x) {
    double pad = 14; /* so that marks do not sit on the border */

    return pad + (log10(x) - frame->x_min) / (frame->x_max - frame->x_min) *
                     (PANEL_W - 2 * pad);
}

static double place_y(const struct frame *frame, double y) {
    return PANEL_H *
           (1 - (scale_y(frame, y) - frame->y_min) / (frame->y_max - frame->y_min));
}

static void value_label(const struct frame *frame, double y, char *text, size_t size) {
    if (strcmp(frame->plot->unit, "ns") == 0) {
        static const char *const units[] = {"ns", "µs", "ms", "s"};
        size_t unit = 0;

        while (y >= 999.5 && unit < 3) {
            y /= 1000;
            unit++;
        }
        snprintf(text, size, "%.*f %s", y < 9.95 && y != floor(y) ? 1 : 0, y,
                 units[unit]);
    } else {
        snprintf(text, size, "%.0f", y);
    }
}

static void draw_grid_y(const struct frame *frame, double y, bool labelled, bool strong) {
    double at = place_y(frame, y);
    char text[32];

    if (at < -0.5 || at > PANEL_H + 0.5)
        return;
    fprintf(frame->out,
            "<line x1=\"0\" y1=\"%.1f\" x2=\"%d\" y2=\"%.1f\" class=\"grid%s\"/>\n", at,
            PANEL_W, at, strong ? "" : " weak");
    if (labelled) {
        value_label(frame, y, text, sizeof(text));
        fprintf(frame->out,
                "<text x=\"-8\" y=\"%.1f\" class=\"tick\" text-anchor=\"end\">%s"
                "</text>\n",
                at + 4, text);
    }
}

static void draw_axes(const struct frame *frame, bool y_labels, bool x_labels) {
    if (frame->plot->log_y) {
        for (int power = (int)floor(frame->y_min); power <= (int)ceil(frame->y_max);
             power++) {
            draw_grid_y(frame, pow(10, power), y_labels, true);
            for (int k = 2; k < 10; k++)
                draw_grid_y(frame, k * pow(10, power), false, false);
        }
    } else {
        double step = pow(10, floor(log10(frame->y_max)));

        while (frame->y_max / step < 4)
            step /= 2;
        for (double y = 0; y <= frame->y_max; y += step)
            draw_grid_y(frame, y, y_labels, true);
    }

    for (int power = (int)ceil(frame->x_min); power <= (int)floor(frame->x_max);
         power++) {
        double at = place_x(frame, pow(10, power));

        fprintf(frame->out,
                "<line x1=\"%.1f\" y1=\"%d\" x2=\"%.1f\" y2=\"%d\" class=\"axis\"/>\n",
                at, PANEL_H, at, PANEL_H + 4);
        if (x_labels)
            fprintf(frame->out,
                    "<text x=\"%.1f\" y=\"%d\" class=\"tick\" text-anchor=\"middle\">10"
                    "<tspan dy=\"-4\" font-size=\"8\">%d</tspan></text>\n",
                    at, PANEL_H + 19, power);
    }
    fprintf(frame->out, "<line x1=\"0\" y1=\"%d\" x2=\"%d\" y2=\"%d\" class=\"axis\"/>\n",
            PANEL_H, PANEL_W, PANEL_H);
}

static void draw_line(const struct frame *frame, const plot_line_t *line) {
    const struct style *style = &styles[style_of(frame, line->name)];

    fprintf(frame->out,
            "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"2\" "
            "stroke-dasharray=\"%s\" "
            "points=\"",
            style->color, style->dash);
    for (size_t i = 0; i < line->count; i++)
        fprintf(frame->out, "%.1f,%.1f ", place_x(frame, line->x[i]),
                place_y(frame, line->y[i]));
    fprintf(frame->out, "\"/>\n");
    for (size_t i = 0; i < line->count; i++)
        fprintf(frame->out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" fill=\"%s\"/>\n",
                place_x(frame, line->x[i]), place_y(frame, line->y[i]), style->color);
}

/* How many points a line climbs in the width of a label, to the right of its first point
 * or to the left of its last one. */
static double climb(const struct frame *frame, const plot_line_t *line, size_t i) {
    enum { LABEL_W = 42 };
    size_t from = i == 0 ? 0 : i - 1;

    if (line->count < 2)
        return 0;
    return (place_y(frame, line->y[from]) - place_y(frame, line->y[from + 1])) /
           (place_x(frame, line->x[from + 1]) - place_x(frame, line->x[from])) * LABEL_W;
}

static void draw_value(const struct frame *frame, const plot_line_t *line, size_t i,
                       bool above) {
    double rise = climb(frame, line, i), y = place_y(frame, line->y[i]);
    char text[32];

    /* Clear of its own line, which runs on one side of the point. */
    if (above)
        y -= 8 + fmax(0, i == 0 ? rise : -rise);
    else
        y += 16 + fmax(0, i == 0 ? -rise : rise);

    value_label(frame, line->y[i], text, sizeof(text));
    fprintf(
        frame->out,
        "<text x=\"%.1f\" y=\"%.1f\" class=\"value\" text-anchor=\"%s\" fill=\"%s\">%s"
        "</text>\n",
        place_x(frame, line->x[i]) + (i == 0 ? -6 : 8), fmin(y, PANEL_H - 4),
        i == 0 ? "start" : "end", styles[style_of(frame, line->name)].color, text);
}

/* The values at both ends of a line: of two, the upper one's above it and the lower one's
 * below. Of more, those of the last one above and of the first one below. */
static void draw_values(const struct frame *frame, const plot_panel_t *panel) {
    for (size_t l = 0; l < panel->line_count; l++) {
        const plot_line_t *line = &panel->lines[l];
        const plot_line_t *other = &panel->lines[l == 0 ? 1 : 0];

        if (l > 0 && l + 1 < panel->line_count)
            continue;
        for (size_t i = 0; i<line->count; i += line->count> 1 ? line->count - 1 : 1) {
            bool above = panel->line_count == 2
                             ? i >= other->count || line->y[i] >= other->y[i]
                             : l > 0;

            draw_value(frame, line, i, above);
        }
    }
}

static void draw_panel(const struct frame *frame, size_t index) {
    const plot_panel_t *panel = &frame->plot->panels[index];
    size_t column = index % frame->columns, row = index / frame->columns;
    bool last_row = index + frame->columns >= frame->plot->panel_count;

    fprintf(frame->out, "<g transform=\"translate(%zu %zu)\">\n",
            LEFT + column * (PANEL_W + GAP_X), TOP + row * (PANEL_H + GAP_Y));
    fprintf(frame->out, "<text x=\"0\" y=\"-10\" class=\"panel\">%s</text>\n",
            panel->title);
    draw_axes(frame, column == 0, last_row);
    if (panel->target > 0) {
        double at = place_y(frame, panel->target);

        fprintf(frame->out,
                "<line x1=\"0\" y1=\"%.1f\" x2=\"%d\" y2=\"%.1f\" class=\"target\"/>\n"
                "<text x=\"%d\" y=\"%.1f\" class=\"value\" text-anchor=\"middle\" "
                "fill=\"#b3261e\">target: at most "
                "%.0f</text>\n",
                at, PANEL_W, at, PANEL_W / 2, at + 14, panel->target);
    }
    for (size_t l = 0; l < panel->line_count; l++)
        draw_line(frame, &panel->lines[l]);
    draw_values(frame, panel);
    fprintf(frame->out, "</g>\n");
}

static void draw_legend(const struct frame *frame) {
    int x = LEFT;

    for (size_t i = 0; i < frame->name_count; i++) {
        fprintf(frame->out,
                "<line x1=\"%d\" y1=\"62\" x2=\"%d\" y2=\"62\" stroke=\"%s\" "
                "stroke-width=\"2\" stroke-dasharray=\"%s\"/>\n"
                "<text x=\"%d\" y=\"66\" class=\"legend\">%s</text>\n",
                x, x + 28, styles[i].color, styles[i].dash, x + 35, frame->names[i]);
        x += 35 + 7 * (int)strlen(frame->names[i]) + 22;
    }
}

static void draw(const struct frame *frame) {
    const plot_t *plot = frame->plot;
    size_t width = LEFT + frame->columns * (PANEL_W + GAP_X) - GAP_X + RIGHT;
    size_t height = TOP + frame->rows * (PANEL_H + GAP_Y) - GAP_Y + BOTTOM;

    fprintf(
        frame->out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%zu\" height=\"%zu\" "
        "viewBox=\"0 0 %zu %zu\" font-family=\"system-ui, 'DejaVu Sans', sans-serif\" "
        "font-size=\"12\" fill=\"#20262c\">\n"
        "<style>.grid{stroke:#d5dadf}.weak{stroke:#eef1f3}.axis{stroke:#8b949c}"
        ".target{stroke:#b3261e;stroke-dasharray:3 3}.tick{font-size:11px;fill:#5a646d}"
        ".panel{font-weight:600}.value{font-size:11px}.legend{font-size:12px}</style>\n"
        "<rect width=\"100%%\" height=\"100%%\" fill=\"#ffffff\"/>\n"
        "<text x=\"%d\" y=\"26\" font-size=\"16\" font-weight=\"600\">%s</text>\n"
        "<text x=\"%d\" y=\"45\" fill=\"#5a646d\">%s</text>\n",
        width, height, width, height, LEFT, plot->title, LEFT, plot->subtitle);
    draw_legend(frame);
    for (size_t i = 0; i < plot->panel_count; i++)
        draw_panel(frame, i);
    fprintf(frame->out,
            "<text x=\"%zu\" y=\"%zu\" class=\"tick\" text-anchor=\"middle\">%s</text>\n"
            "</svg>\n",
            (width + LEFT - RIGHT) / 2, height - 12, plot->x_label);
}

int plot_write(const plot_t *plot, const char *path) {
    struct frame frame = {.plot = plot};
    bool lost;

    if (!survey(&frame))
        return 0;
    frame.columns = plot->panel_count == 4        ? 2
                    : plot->panel_count < COLUMNS ? plot->panel_count
                                                  : COLUMNS;
    frame.rows = (plot->panel_count + frame.columns - 1) / frame.columns;

    frame.out = fopen(path, "w");
    if (frame.out == NULL)
        return -1;
    draw(&frame);
    lost = ferror(frame.out) != 0;
    return fclose(frame.out) != 0 || lost ? -1 : 0;
}

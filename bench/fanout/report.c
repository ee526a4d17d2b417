/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <jansson.h>

#include "../plot.h"
#include "fanout.h"

/* What issue 3 asks for. */
static const double max_to_raw = 1.25, max_burst_ns = 1000, max_modern_bytes = 1.5 * 1024,
                    max_legacy_bytes = 2.5 * 1024, max_subscription_bytes = 160;

static double value(const bench_samples_t *samples) {
    return bench_median(samples);
}

/* ---- Table -------------------------------------------------------------- */

static void put_number(double number, int decimals, const char *unit, int width) {
    char text[48] = "-";

    if (number > 0)
        snprintf(text, sizeof(text), "%.*f%s", decimals, number, unit);
    bench_put_right(stdout, text, width);
}

static void put_time(double ns, int width) {
    char text[32];

    bench_put_right(stdout, ns > 0 ? bench_duration(ns, text, sizeof(text)) : "-", width);
}

static void print_heading(void) {
    printf("%-7s%-8s%9s%7s%12s%20s%12s%12s%7s\n", "", "", "CPU per", "to the",
           "deliveries", "publish to client", "process", "kernel", "bytes");
    printf("%-7s%-8s%9s%7s%12s%10s%10s%12s%12s%7s\n", "n", "peer", "delivery", "raw",
           "per s", "p50", "p99", "per stream", "per stream", "each");
}

void fanout_print(const fanout_table_t *table, fanout_form_t form, size_t size) {
    static const char *const titles[FORMS] = {
        "Legacy: a session, a subscription, a GET stream; one write per update",
        "Modern: a subscriptions/listen; one write per update",
        "Burst: updates of 16 resources leave together",
    };
    static bool printed;
    char text[32];

    if (size == 0) {
        printf("%s%s\n", printed ? "\n" : "", titles[form]);
        print_heading();
        printed = true;
    }
    for (int peer = 0; peer < PEERS; peer++) {
        const fanout_cell_t *cell = &table->cells[form][size][peer];

        if (cell->cpu_ns.count == 0)
            continue;
        bench_put_left(stdout, bench_power(table->sizes[size], text, sizeof(text)), 7);
        bench_put_left(stdout, fanout_peer_names[peer], 8);
        put_time(value(&cell->cpu_ns), 9);
        put_number(value(&cell->to_raw), 2, "", 7);
        bench_put_right(stdout, bench_count(value(&cell->rate), text, sizeof(text)), 12);
        put_time(value(&cell->p50), 10);
        put_time(value(&cell->p99), 10);
        put_number(value(&cell->memory) / 1024, 2, " KiB", 12);
        put_number(value(&cell->kernel) / 1024, 1, " KiB", 12);
        put_number(value(&cell->bytes), 0, "", 7);
        printf("\n");
    }
    fflush(stdout);
}

void fanout_print_json(const fanout_table_t *table, fanout_form_t form, size_t size) {
    for (int peer = 0; peer < PEERS; peer++) {
        const fanout_cell_t *cell = &table->cells[form][size][peer];
        json_t *object;

        if (cell->cpu_ns.count == 0)
            continue;
        object = json_pack(
            "{s:s, s:s, s:I, s:I, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "form",
            fanout_form_names[form], "peer", fanout_peer_names[peer], "subscribers",
            (json_int_t)table->sizes[size], "rounds", (json_int_t)cell->cpu_ns.count,
            "cpu_ns_per_delivery", value(&cell->cpu_ns), "cpu_to_raw",
            value(&cell->to_raw), "deliveries_per_s", value(&cell->rate), "p50_ns",
            value(&cell->p50), "p99_ns", value(&cell->p99), "process_bytes_per_stream",
            value(&cell->memory), "kernel_bytes_per_stream", value(&cell->kernel),
            "wire_bytes_per_delivery", value(&cell->bytes));
        if (object == NULL)
            bench_fail("out of memory");
        json_dumpf(object, stdout, JSON_COMPACT | JSON_REAL_PRECISION(6));
        printf("\n");
        json_decref(object);
    }
    fflush(stdout);
}

/* ---- Targets ------------------------------------------------------------ */

static void judge(const char *what, const char *is, const char *limit, bool reached) {
    printf("  %s  ", reached ? "reached" : "MISSED ");
    bench_put_left(stdout, what, 52);
    printf("%s (%s)\n", is, limit);
}

static void judge_cpu(const fanout_table_t *table, fanout_form_t form, size_t size) {
    double ratio = value(&table->cells[form][size][TIDINGS].to_raw);
    char what[80], is[32];

    if (ratio <= 0)
        return;
    snprintf(what, sizeof(what), "%s, n = %zu: CPU to the raw sender",
             fanout_form_names[form], table->sizes[size]);
    snprintf(is, sizeof(is), "%.2f", ratio);
    judge(what, is, "at most 1.25", ratio <= max_to_raw);
}

static void judge_latency(const fanout_table_t *table, fanout_form_t form, size_t size) {
    double ours = value(&table->cells[form][size][TIDINGS].p99);
    double theirs = value(&table->cells[form][size][NCHAN].p99);
    char what[80], is[32], limit[48], text[32];

    if (ours <= 0 || theirs <= 0)
        return;
    snprintf(what, sizeof(what), "%s, n = %zu: p99 from publish to client",
             fanout_form_names[form], table->sizes[size]);
    snprintf(is, sizeof(is), "%s", bench_duration(ours, text, sizeof(text)));
    snprintf(limit, sizeof(limit), "below nchan's %s",
             bench_duration(theirs, text, sizeof(text)));
    judge(what, is, limit, ours < theirs);
}

static void judge_burst(const fanout_table_t *table, size_t size) {
    double cpu = value(&table->cells[FORM_BURST][size][TIDINGS].cpu_ns);
    char what[80], is[32];

    if (cpu <= 0)
        return;
    snprintf(what, sizeof(what), "burst, n = %zu: CPU per delivery", table->sizes[size]);
    judge(what, bench_duration(cpu, is, sizeof(is)), "below 1 µs", cpu < max_burst_ns);
}

/* Memory is judged where there are most streams: what is there once weighs least. */
static void judge_memory(const fanout_table_t *table, fanout_form_t form, double max) {
    const fanout_cell_t *cell = &table->cells[form][table->size_count - 1][TIDINGS];
    char what[80], is[32], limit[32];

    if (cell->memory.count == 0)
        return;
    snprintf(what, sizeof(what), "%s, n = %zu: process memory per idle stream",
             fanout_form_names[form], table->sizes[table->size_count - 1]);
    snprintf(is, sizeof(is), "%.2f KiB", value(&cell->memory) / 1024);
    snprintf(limit, sizeof(limit), "at most %.1f KiB", max / 1024);
    judge(what, is, limit, value(&cell->memory) <= max);
}

/* The streams of the burst form differ in nothing but the number of subscriptions. */
static void judge_subscription(const fanout_table_t *table) {
    size_t last = table->size_count - 1;
    const bench_samples_t *many = &table->cells[FORM_BURST][last][TIDINGS].memory;
    const bench_samples_t *one = &table->cells[FORM_MODERN][last][TIDINGS].memory;
    double bytes = (value(many) - value(one)) / (FANOUT_BURST - 1);
    char is[32];

    if (many->count == 0 || one->count == 0)
        return;
    snprintf(is, sizeof(is), "%.0f bytes", bytes);
    judge("modern: process memory per further subscription", is, "at most 160 bytes",
          bytes <= max_subscription_bytes);
}

void fanout_print_targets(const fanout_table_t *table) {
    bool ours = false;

    for (int form = 0; form < FORMS; form++)
        ours = ours || table->cells[form][0][TIDINGS].cpu_ns.count > 0;
    if (!ours)
        return;
    printf("\nTargets\n");
    for (size_t size = 0; size < table->size_count; size++)
        for (int form = FORM_LEGACY; form <= FORM_MODERN; form++)
            judge_cpu(table, (fanout_form_t)form, size);
    for (size_t size = 0; size < table->size_count; size++)
        for (int form = FORM_LEGACY; form <= FORM_MODERN; form++)
            judge_latency(table, (fanout_form_t)form, size);
    for (size_t size = 0; size < table->size_count; size++)
        judge_burst(table, size);
    judge_memory(table, FORM_LEGACY, max_legacy_bytes);
    judge_memory(table, FORM_MODERN, max_modern_bytes);
    judge_subscription(table);
}

/* ---- Plots -------------------------------------------------------------- */

static void add_point(plot_line_t *line, size_t x, double y) {
    if (y < 1 || line->count == PLOT_MAX_POINTS) /* the raw sender has no memory */
        return;
    line->x[line->count] = (double)x;
    line->y[line->count++] = y;
}

/* One panel per form, a line per peer; `field` is where in a cell its samples are. */
static size_t fill_panels(const fanout_table_t *table, size_t field,
                          plot_panel_t *panels) {
    size_t count = 0;

    for (int form = 0; form < FORMS; form++) {
        plot_panel_t *panel = &panels[count];

        *panel = (plot_panel_t){.title = fanout_form_names[form]};
        for (int peer = 0; peer < PEERS; peer++) {
            plot_line_t *line = &panel->lines[panel->line_count];

            *line = (plot_line_t){.name = fanout_peer_names[peer]};
            for (size_t size = 0; size < table->size_count; size++) {
                const char *cell = (const char *)&table->cells[form][size][peer];

                add_point(line, table->sizes[size],
                          value((const bench_samples_t *)(const void *)(cell + field)));
            }
            panel->line_count += line->count > 0;
        }
        count += panel->line_count > 0;
    }
    return count;
}

void fanout_write_plots(const fanout_table_t *table, const char *folder) {
    static const struct {
        size_t field;
        const char *title, *unit, *file;
    } plots[] = {
        {offsetof(fanout_cell_t, cpu_ns), "Server CPU per delivery", "ns",
         "fanout-cpu.svg"},
        {offsetof(fanout_cell_t, p99), "From publish to client at a gentle rate, p99",
         "ns", "fanout-latency.svg"},
        {offsetof(fanout_cell_t, memory), "Process memory per idle stream, bytes",
         "bytes", "fanout-memory.svg"},
    };
    char path[4096];

    if (mkdir(folder, 0777) < 0 && errno != EEXIST)
        bench_fail("cannot make the folder %s: %s", folder, strerror(errno));
    for (size_t i = 0; i < sizeof(plots) / sizeof(plots[0]); i++) {
        plot_panel_t panels[FORMS];
        plot_t plot = {
            .title = plots[i].title,
            .subtitle = "n subscribers of one resource, SSE over HTTP/1.1, one core; "
                        "median; both axes logarithmic",
            .x_label = "subscribers",
            .unit = plots[i].unit,
            .log_y = true,
            .panels = panels,
            .panel_count = fill_panels(table, plots[i].field, panels),
        };

        snprintf(path, sizeof(path), "%s/%s", folder, plots[i].file);
        if (plot_write(&plot, path) < 0)
            bench_fail("cannot write %s: %s", path, strerror(errno));
    }
}

/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <jansson.h>

#include "../plot.h"
#include "client.h"

/* ---- Table -------------------------------------------------------------- */

static void put_time(const bench_samples_t *samples, int width) {
    char text[32];

    bench_put_right(stdout,
                    samples->count > 0
                        ? bench_duration(bench_median(samples), text, sizeof(text))
                        : "-",
                    width);
}

static void put_number(const bench_samples_t *samples, double unit, const char *name,
                       int decimals, int width) {
    char text[48] = "-";

    if (samples->count > 0)
        snprintf(text, sizeof(text), "%.*f%s", decimals, bench_median(samples) / unit,
                 name);
    bench_put_right(stdout, text, width);
}

static void print_heading(void) {
    printf("%-7s%-10s%11s%10s%10s%12s%12s%14s%12s\n", "", "", "updates", "CPU per", "to",
           "subscribe", "back after", "memory per", "most");
    printf("%-7s%-10s%11s%10s%10s%12s%12s%14s%12s\n", "n", "client", "per s", "update",
           "tidings", "to all", "a loss", "subscription", "memory");
}

void client_print(const client_table_t *table, client_form_t form, size_t size) {
    static const char *const titles[FORMS] = {
        "Legacy: a session, a request per subscription, a GET stream",
        "Modern: one subscriptions/listen",
    };
    static bool printed;
    char text[32];

    if (size == 0) {
        printf("%s%s\n", printed ? "\n" : "", titles[form]);
        print_heading();
        printed = true;
    }
    for (int peer = 0; peer < PEERS; peer++) {
        const client_cell_t *cell = &table->cells[form][size][peer];

        if (cell->cpu_ns.count == 0)
            continue;
        bench_put_left(stdout, bench_power(table->sizes.values[size], text, sizeof(text)),
                       7);
        bench_put_left(stdout, client_peer_names[peer], 10);
        bench_put_right(stdout,
                        bench_count(bench_median(&cell->rate), text, sizeof(text)), 11);
        put_time(&cell->cpu_ns, 10);
        put_number(&cell->to_ours, 1, "", 2, 10);
        put_time(&cell->setup_ns, 12);
        put_time(&cell->again_ns, 12);
        put_number(&cell->memory, 1, " B", 0, 14);
        put_number(&cell->peak, 1 << 20, " MiB", 1, 12);
        printf("\n");
    }
    fflush(stdout);
}

void client_print_json(const client_table_t *table, client_form_t form, size_t size) {
    for (int peer = 0; peer < PEERS; peer++) {
        const client_cell_t *cell = &table->cells[form][size][peer];
        const struct {
            const char *name;
            const bench_samples_t *samples;
        } fields[] = {
            {"updates_per_s", &cell->rate},     {"cpu_ns_per_update", &cell->cpu_ns},
            {"cpu_to_tidings", &cell->to_ours}, {"subscribe_ns", &cell->setup_ns},
            {"back_ns", &cell->again_ns},       {"bytes_per_subscription", &cell->memory},
            {"peak_bytes", &cell->peak},
        };
        json_t *object;

        if (cell->cpu_ns.count == 0)
            continue;
        object = json_pack("{s:s, s:s, s:I, s:I}", "form", client_form_names[form],
                           "peer", client_peer_names[peer], "subscriptions",
                           (json_int_t)table->sizes.values[size], "rounds",
                           (json_int_t)cell->cpu_ns.count);
        if (object == NULL)
            bench_fail("out of memory");
        for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
            if (fields[i].samples->count > 0)
                json_object_set_new(object, fields[i].name,
                                    json_real(bench_median(fields[i].samples)));
        json_dumpf(object, stdout, JSON_COMPACT | JSON_REAL_PRECISION(6));
        printf("\n");
        json_decref(object);
    }
    fflush(stdout);
}

/* ---- Plot --------------------------------------------------------------- */

static size_t fill_panels(const client_table_t *table, plot_panel_t *panels) {
    size_t count = 0;

    for (int form = 0; form < FORMS; form++) {
        plot_panel_t *panel = &panels[count];

        *panel = (plot_panel_t){.title = client_form_names[form]};
        for (int peer = 0; peer < PEERS; peer++) {
            plot_line_t *line = &panel->lines[panel->line_count];

            *line = (plot_line_t){.name = client_peer_names[peer]};
            for (size_t size = 0; size < table->sizes.count; size++) {
                const bench_samples_t *cpu = &table->cells[form][size][peer].cpu_ns;

                if (cpu->count == 0)
                    continue;
                line->x[line->count] = (double)table->sizes.values[size];
                line->y[line->count++] = bench_median(cpu);
            }
            panel->line_count += line->count > 0;
        }
        count += panel->line_count > 0;
    }
    return count;
}

void client_write_plots(const client_table_t *table, const char *folder) {
    plot_panel_t panels[FORMS];
    plot_t plot = {
        .title = "Client CPU per update",
        .subtitle =
            "n subscriptions, updates as fast as they are taken, SSE over HTTP/1.1;"
            " median; both axes logarithmic",
        .x_label = "subscriptions",
        .unit = "ns",
        .log_y = true,
        .panels = panels,
        .panel_count = fill_panels(table, panels),
    };
    char path[4096];

    if (mkdir(folder, 0777) < 0 && errno != EEXIST)
        bench_fail("cannot make the folder %s: %s", folder, strerror(errno));
    snprintf(path, sizeof(path), "%s/client-cpu.svg", folder);
    if (plot_write(&plot, path) < 0)
        bench_fail("cannot write %s: %s", path, strerror(errno));
}

/* SPDX-License-Identifier: MIT
 *
 * Measures the engine: time per operation and bytes per subscription, from 10³ to 10⁶
 * subscriptions, beside a bare hash map. Each row is measured several times, engine and
 * map in turn, and the median counts. One thread; run it on a machine that does nothing
 * else. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common.h"
#include "options.h"
#include "plot.h"
#include "scenarios.h"

enum {
    MIN_N = 1000,
    MAX_N = 10000000,
    SIZES = 5, /* 10³ … 10⁷ */
    REPEATS = 5,
    OPERATIONS = 200000, /* in one sample at least */
    QUICK_OPERATIONS = 1000,
};

/* What issue 2 asks for. */
static const double max_ratio = 2, max_growth = 3, max_bytes = 200, min_deliveries = 5e6,
                    min_subscribes = 1e6;

struct options {
    size_t max_n;
    size_t repeats;
    size_t operations;
    const char *only;
    const char *svg;
    bool json;
};

struct table {
    bench_result_t rows[BENCH_ROWS][SIZES];
    size_t counts[BENCH_ROWS]; /* of sizes that were measured */
};

/* ---- Measuring ---------------------------------------------------------- */

/* The name of a scenario means all of its rows and no other. */
static bool wanted(const struct options *options, const bench_scenario_t *scenario,
                   int row) {
    for (size_t i = 0; i < BENCH_SCENARIOS && options->only != NULL; i++)
        if (strcmp(options->only, bench_scenarios[i].name) == 0)
            return scenario == &bench_scenarios[i];
    return options->only == NULL || strstr(bench_rows[row].name, options->only) != NULL;
}

static bool wanted_scenario(const struct options *options,
                            const bench_scenario_t *scenario) {
    for (int row = (int)scenario->first_row; row <= (int)scenario->last_row; row++)
        if (wanted(options, scenario, row))
            return true;
    return false;
}

static bench_result_t result_of(const bench_measured_t *measured, int row, size_t n) {
    bench_result_t result = {
        .name = bench_rows[row].name,
        .n = n,
        .ns = bench_median(&measured->ns),
        .map_ns = bench_median(&measured->map_ns),
        .record_bytes = measured->record_bytes,
        .stream_bytes = measured->stream_bytes,
        .resource_bytes = measured->resource_bytes,
        .name_bytes = measured->name_bytes,
        .process_bytes = measured->process_bytes,
    };

    for (int i = 0; i < 3; i++) {
        result.spread[i] = bench_median(&measured->spread[i]);
        result.map_spread[i] = bench_median(&measured->map_spread[i]);
    }
    return result;
}

static void measure(const struct options *options, const bench_scenario_t *scenario,
                    size_t n, struct table *table) {
    bench_measured_t *rows = bench_alloc(BENCH_ROWS, sizeof(rows[0]));
    bench_round_t round = {.n = n, .operations = options->operations, .rows = rows};
    char power[32];

    for (size_t i = 0; i <= options->repeats; i++) {
        bench_progress("%s, n = %s: round %zu of %zu%s", scenario->name,
                       bench_power(n, power, sizeof(power)), i, options->repeats,
                       i == 0 ? " (warming up)" : "");
        if (i == 1)
            memset(rows, 0, BENCH_ROWS * sizeof(rows[0])); /* what warmed up, goes */
        scenario->run(&round);
    }
    bench_progress(NULL);

    for (int row = (int)scenario->first_row; row <= (int)scenario->last_row; row++)
        table->rows[row][table->counts[row]++] = result_of(&rows[row], row, n);
    free(rows);
}

static void print_scenario(const struct options *options,
                           const bench_scenario_t *scenario, const struct table *table) {
    for (int row = (int)scenario->first_row; row <= (int)scenario->last_row; row++) {
        if (!wanted(options, scenario, row))
            continue;
        if (options->json) {
            for (size_t i = 0; i < table->counts[row]; i++)
                bench_print_json(stdout, &table->rows[row][i]);
        } else {
            bench_print_rows(stdout, bench_rows[row].what, table->rows[row],
                             table->counts[row]);
        }
    }
    fflush(stdout);
}

static void measure_all(const struct options *options, struct table *table) {
    if (!options->json)
        bench_print_heading(stdout);
    for (size_t s = 0; s < BENCH_SCENARIOS; s++) {
        const bench_scenario_t *scenario = &bench_scenarios[s];

        if (!wanted_scenario(options, scenario))
            continue;
        for (size_t n = MIN_N; n <= options->max_n && n <= scenario->max_n; n *= 10)
            measure(options, scenario, n, table);
        print_scenario(options, scenario, table);
    }
}

/* ---- Targets ------------------------------------------------------------ */

static const bench_result_t *result_at(const struct table *table, int row, size_t n) {
    for (size_t i = 0; i < table->counts[row]; i++)
        if (table->rows[row][i].n == n)
            return &table->rows[row][i];
    return NULL;
}

static void print_target(const char *name, const char *what, const char *measured,
                         const char *target, bool reached) {
    char text[96];

    snprintf(text, sizeof(text), "%s: %s", name, what);
    printf("  %s  ", reached ? "reached" : "MISSED ");
    bench_put_left(stdout, text, 62);
    printf("%9s  (%s)\n", measured, target);
}

static void judge_rate(const bench_result_t *result, const char *what, double least) {
    char measured[32], target[32], count[32];

    snprintf(measured, sizeof(measured), "%s/s",
             bench_count(1e9 / result->ns, count, sizeof(count)));
    snprintf(target, sizeof(target), "at least %s/s",
             bench_count(least, count, sizeof(count)));
    print_target(result->name, what, measured, target, 1e9 / result->ns >= least);
}

static void judge_bytes(const bench_result_t *result) {
    char measured[32], target[32];

    snprintf(measured, sizeof(measured), "%.0f", result->record_bytes);
    snprintf(target, sizeof(target), "at most %.0f", max_bytes);
    print_target(result->name, "bytes of record and indexes", measured, target,
                 result->record_bytes <= max_bytes);
}

static void judge_factor(const char *name, const char *what, double factor, double most,
                         const char *more) {
    char measured[32], target[64];

    snprintf(measured, sizeof(measured), "%.2f", factor);
    snprintf(target, sizeof(target), "at most %.0f%s", most, more);
    print_target(name, what, measured, target, factor <= most);
}

/* How a row grows with n. The map beside it shows how much of that is memory latency. */
static void judge_growth(const struct table *table, int row) {
    const bench_result_t *small = result_at(table, row, 1000);
    const bench_result_t *large = result_at(table, row, 1000000);
    double growth, map_growth;
    char more[48];

    if (small == NULL || large == NULL)
        return;
    growth = large->ns / small->ns;
    map_growth = large->map_ns / small->map_ns;
    snprintf(more, sizeof(more), "; the bare map %.2f", map_growth);
    if (row == DROP)
        judge_factor(large->name, "growth since 10³, times that of the bare map",
                     growth / map_growth, max_ratio, "");
    else
        judge_factor(large->name, "times what it is at 10³", growth, max_growth, more);
}

static void print_targets(const struct table *table) {
    static const int subscribes[] = {HOT_SUBSCRIBE, OWN_SUBSCRIBE};
    const bench_result_t *fanout = result_at(table, HOT_CHANGE, 1000000);

    printf("\nTargets, at 10⁶ unless it says otherwise\n");
    if (fanout != NULL)
        judge_rate(fanout, "one core", min_deliveries);
    for (size_t i = 0; i < 2; i++) {
        const bench_result_t *result = result_at(table, subscribes[i], 1000000);

        if (result == NULL)
            continue;
        judge_rate(result, "one core", min_subscribes);
        judge_bytes(result);
    }

    for (int row = 0; row < BENCH_ROWS; row++) {
        const bench_result_t *large = result_at(table, row, 1000000);

        if (large != NULL)
            judge_factor(large->name, "times the bare map", large->ns / large->map_ns,
                         max_ratio, "");
    }
    for (int row = HOT_SUBSCRIBE; row <= HOT_UNSUBSCRIBE; row++)
        judge_growth(table, row);
    judge_growth(table, DROP);
}

static void print_memory(const struct table *table) {
    if (table->counts[HOT_SUBSCRIBE] + table->counts[OWN_SUBSCRIBE] == 0)
        return;
    printf("\n");
    bench_print_memory_heading(stdout);
    bench_print_memory(stdout, table->rows[HOT_SUBSCRIBE], table->counts[HOT_SUBSCRIBE]);
    bench_print_memory(stdout, table->rows[OWN_SUBSCRIBE], table->counts[OWN_SUBSCRIBE]);
    printf("record+index is what the target is about. malloc is what the process really "
           "took\nfor all of it, streams and the overhead of malloc included.\n");
}

/* ---- Plots -------------------------------------------------------------- */

static void add_point(plot_line_t *line, size_t x, double y) {
    if (y <= 0 || line->count == PLOT_MAX_POINTS)
        return;
    line->x[line->count] = (double)x;
    line->y[line->count++] = y;
}

static plot_panel_t time_panel(const struct table *table, int row) {
    plot_panel_t panel = {
        .title = bench_rows[row].name,
        .lines = {{.name = "engine"}, {.name = "bare map, same look-ups"}},
        .line_count = 2,
    };

    for (size_t i = 0; i < table->counts[row]; i++) {
        add_point(&panel.lines[0], table->rows[row][i].n, table->rows[row][i].ns);
        add_point(&panel.lines[1], table->rows[row][i].n, table->rows[row][i].map_ns);
    }
    return panel;
}

static plot_panel_t memory_panel(const struct table *table, int row, const char *title) {
    plot_panel_t panel = {
        .title = title,
        .lines = {{.name = "record and indexes"},
                  {.name = "stream, resource and name as well"},
                  {.name = "malloc, all of it"}},
        .line_count = 3,
        .target = max_bytes,
    };

    for (size_t i = 0; i < table->counts[row]; i++) {
        const bench_result_t *result = &table->rows[row][i];

        add_point(&panel.lines[0], result->n, result->record_bytes);
        add_point(&panel.lines[1], result->n,
                  result->record_bytes + result->stream_bytes + result->resource_bytes +
                      result->name_bytes);
        add_point(&panel.lines[2], result->n, result->process_bytes);
    }
    return panel;
}

static void write_plot(const struct options *options, const plot_t *plot,
                       const char *file) {
    char path[4096];

    snprintf(path, sizeof(path), "%s/%s", options->svg, file);
    if (plot_write(plot, path) < 0)
        bench_fail("cannot write %s: %s", path, strerror(errno));
}

static void write_times(const struct options *options, const struct table *table,
                        int first, int last, const char *title, const char *file) {
    plot_panel_t panels[BENCH_ROWS];
    plot_t plot = {
        .title = title,
        .subtitle = "CPU time per operation, median; both axes logarithmic",
        .x_label = "n",
        .unit = "ns",
        .log_y = true,
        .panels = panels,
    };

    for (int row = first; row <= last; row++)
        if (table->counts[row] > 0)
            panels[plot.panel_count++] = time_panel(table, row);
    write_plot(options, &plot, file);
}

static void write_plots(const struct options *options, const struct table *table) {
    plot_panel_t panels[2];
    plot_t plot = {
        .title = "Bytes per subscription",
        .subtitle = "what the engine counts, and what malloc handed out",
        .x_label = "subscriptions",
        .unit = "bytes",
        .panels = panels,
        .panel_count = 2,
    };

    if (mkdir(options->svg, 0777) < 0 && errno != EEXIST)
        bench_fail("cannot make the folder %s: %s", options->svg, strerror(errno));
    write_times(options, table, HOT_SUBSCRIBE, HOT_UNSUBSCRIBE,
                "One hot resource with n subscribers", "hot.svg");
    write_times(options, table, OWN_SUBSCRIBE, OWN_SINGLE,
                "n subscribers, each with a resource of its own", "own.svg");
    write_times(options, table, DROP, TEMPLATE_FANOUT,
                "Dropping a stream beside n others, and templates",
                "drop-and-templates.svg");

    panels[0] = memory_panel(table, HOT_SUBSCRIBE, "one hot resource");
    panels[1] = memory_panel(table, OWN_SUBSCRIBE, "a resource for each");
    write_plot(options, &plot, "memory.svg");
    if (!options->json)
        printf(
            "\nPlots are in %s/: hot.svg, own.svg, drop-and-templates.svg, memory.svg\n",
            options->svg);
}

/* ---- Command line ------------------------------------------------------- */

static void print_wrapped(const char *text, int indent, int width) {
    int column = 0;

    while (*text != '\0') {
        int word = (int)strcspn(text, " ");

        if (column > 0 && column + 1 + word > width) {
            printf("\n");
            column = 0;
        }
        column += printf("%*s%.*s", column > 0 ? 1 : indent, "", word, text);
        text += word + (text[word] == ' ');
    }
    printf("\n");
}

static void print_help(void) {
    printf("usage: engine [OPTION]...\n\n"
           "Measures the engine with 10³ to 10⁶ subscriptions, beside a bare hash\n"
           "map (our own, same hash function) that does the same look-ups with the\n"
           "same keys in the same order, right after it. Medians of %d rounds; one\n"
           "thread, and the time that it used of a core.\n\n"
           "Options:\n"
           "  --max N      the largest n, from 1000 to 10000000 (default 1000000)\n"
           "  --only NAME  only rows whose name contains NAME, or the scenario NAME:\n"
           "              ",
           REPEATS);
    for (size_t i = 0; i < BENCH_SCENARIOS; i++)
        printf(" %s", bench_scenarios[i].name);
    printf("\n"
           "  --repeat N   rounds, from 1 to %d (default %d)\n"
           "  --quick      one short round up to 10⁴: whether it works, not how fast\n"
           "  --json       one JSON object per row and n\n"
           "  --svg DIR    write plots into this folder\n"
           "  --help       show this text\n\n"
           "In \"hot\", n streams subscribe to one resource; in \"own\", to one each,\n"
           "visited in shuffled order. What the bare map does for one operation of\n"
           "each row:\n",
           BENCH_MAX_SAMPLES, REPEATS);
    for (int row = 0; row < BENCH_ROWS; row++) {
        printf("\n  %s (one %s)\n", bench_rows[row].name, bench_rows[row].what);
        print_wrapped(bench_rows[row].lookups, 4, 80);
    }
    printf("\nMemory: \"record+index\" is what the engine counts for subscriptions;\n"
           "\"malloc\" is by how much what malloc handed out grew from the empty\n"
           "engine to n streams with one subscription each.\n");
}

static void check_only(const struct options *options) {
    for (size_t i = 0; i < BENCH_SCENARIOS; i++)
        if (wanted_scenario(options, &bench_scenarios[i]))
            return;
    bench_usage("no row and no scenario is called", options->only);
}

static void show_help(void *user) {
    (void)user;
    print_help();
    exit(0);
}

static void be_quick(void *user) {
    struct options *options = user;

    options->max_n = 10 * MIN_N;
    options->repeats = 1;
    options->operations = QUICK_OPERATIONS;
}

static struct options parse(int argc, char **argv) {
    struct options options = {
        .max_n = 1000000, .repeats = REPEATS, .operations = OPERATIONS};
    const bench_option_t table[] = {
        BENCH_NUMBER("max", &options.max_n, MIN_N, MAX_N),
        BENCH_TEXT("only", &options.only),
        BENCH_NUMBER("repeat", &options.repeats, 1, BENCH_MAX_SAMPLES),
        BENCH_CALL("quick", be_quick, &options),
        BENCH_FLAG("json", &options.json),
        BENCH_TEXT("svg", &options.svg),
        BENCH_CALL("help", show_help, NULL),
        BENCH_NO_MORE,
    };

    bench_parse(argc, argv, table);
    if (options.only != NULL)
        check_only(&options);
    return options;
}

int main(int argc, char **argv) {
    struct options options = parse(argc, argv);
    struct table *table = bench_alloc(1, sizeof(*table));

    measure_all(&options, table);
    if (!options.json) {
        if (table->counts[OWN_SINGLE] > 0) {
            printf("\n");
            bench_print_spread(stdout, table->rows[OWN_SINGLE],
                               table->counts[OWN_SINGLE]);
        }
        print_memory(table);
        print_targets(table);
    }
    if (options.svg != NULL)
        write_plots(&options, table);
    free(table);

    if (ferror(stdout) || fclose(stdout) != 0)
        bench_fail("cannot write to standard output");
    return 0;
}

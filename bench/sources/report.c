/* SPDX-License-Identifier: MIT */
#include <jansson.h>

#include "sources.h"

const char *const sources_audience_names[AUDIENCES] = {
    [SUBSCRIBER] = "subscribes",
    [POLL_1S] = "polls every 1 s",
    [POLL_5S] = "polls every 5 s",
    [NOBODY] = "nobody",
};

const char *const sources_run_names[RUNS] = {
    [AT_ONCE] = "every change at once",
    [DEFAULTS] = "default settings",
    [QUIET] = "no changes",
};

/* ---- Table -------------------------------------------------------------- */

static void put_time(double ns, int width) {
    char text[32] = "-";

    if (ns > 0)
        bench_duration(ns, text, sizeof(text));
    bench_put_right(stdout, text, width);
}

static void put_spread(const sources_spread_t *spread) {
    put_time(spread->p50, 10);
    put_time(spread->p95, 10);
    put_time(spread->max, 10);
}

static void print_row(const sources_outcome_t *outcome, int id, int client) {
    const sources_seen_t *seen = &outcome->seen[id][client];
    double changes = (double)outcome->changes;

    printf("%-10s%-16s", client == SUBSCRIBER ? sources_kinds[id].name : "",
           sources_audience_names[client]);
    put_spread(&seen->told);
    put_spread(&seen->known);
    printf("%10.1f%10.0f%10.1f%10.1f\n", (double)seen->requests / changes,
           (double)seen->bytes / changes, (double)seen->requests / outcome->minutes,
           (double)seen->bytes / 1024 / outcome->minutes);
}

static size_t largest_opening(const sources_table_t *table,
                              const sources_outcome_t *outcome) {
    size_t largest = 0;

    for (int id = 0; id < KINDS; id++)
        if (table->used[id] && outcome->seen[id][SUBSCRIBER].opening_bytes > largest)
            largest = outcome->seen[id][SUBSCRIBER].opening_bytes;
    return largest;
}

void sources_print(const sources_table_t *table, sources_run_id_t run) {
    const sources_outcome_t *outcome = &table->runs[run];

    printf("%s%s: %zu changes of each source, one every %.1f s on average\n",
           run > 0 ? "\n" : "", sources_run_names[run], outcome->changes,
           (double)table->gap_ns / 1e9);
    printf("%-26s%30s%30s%20s%20s\n", "", "from change to notification",
           "from change to new content", "per change", "per minute");
    printf("%-10s%-16s%10s%10s%10s%10s%10s%10s%10s%10s%10s%10s\n", "source", "client",
           "p50", "p95", "max", "p50", "p95", "max", "requests", "bytes", "requests",
           "KiB");
    for (int id = 0; id < KINDS; id++)
        for (int client = 0; client < CLIENTS && table->used[id]; client++)
            print_row(outcome, id, client);
    printf("To open a subscription takes one more request, of at most %zu bytes with its "
           "answer.\n",
           largest_opening(table, outcome));
    fflush(stdout);
}

static double requests_per_minute(const sources_outcome_t *outcome, int audience) {
    uint64_t requests = 0;

    for (int id = 0; id < KINDS && audience < CLIENTS; id++)
        requests += outcome->seen[id][audience].requests;
    return (double)requests / outcome->minutes;
}

void sources_print_cpu(const sources_table_t *table) {
    printf("\nServer, all sources together, per minute\n%-18s", "");
    for (int run = 0; run < RUNS; run++)
        printf("%24s", sources_run_names[run]);
    printf("\n%-18s", "client");
    for (int run = 0; run < RUNS; run++)
        printf("%14s%10s", "CPU time", "requests");
    for (int audience = 0; audience < AUDIENCES; audience++) {
        printf("\n%-18s", sources_audience_names[audience]);
        for (int run = 0; run < RUNS; run++) {
            const sources_outcome_t *outcome = &table->runs[run];

            put_time(outcome->cpu_ns[audience] / outcome->minutes, 14);
            printf("%10.1f", requests_per_minute(outcome, audience));
        }
    }
    printf("\n");
    fflush(stdout);
}

/* ---- JSON --------------------------------------------------------------- */

static void print_object(json_t *object) {
    if (object == NULL)
        sources_fail("out of memory");
    json_dumpf(object, stdout, JSON_COMPACT | JSON_REAL_PRECISION(6));
    printf("\n");
    json_decref(object);
}

static json_t *spread_object(const sources_spread_t *spread) {
    return json_pack("{s:f, s:f, s:f}", "p50", spread->p50, "p95", spread->p95, "max",
                     spread->max);
}

static void print_seen(const sources_outcome_t *outcome, int run, int id, int client) {
    const sources_seen_t *seen = &outcome->seen[id][client];
    json_t *object = json_pack(
        "{s:s, s:s, s:s, s:I, s:f, s:I, s:I}", "run", sources_run_names[run], "source",
        sources_kinds[id].name, "client", sources_audience_names[client], "changes",
        (json_int_t)outcome->changes, "minutes", outcome->minutes, "requests",
        (json_int_t)seen->requests, "bytes", (json_int_t)seen->bytes);

    if (outcome->changes > 0)
        json_object_set_new(object, "content_ns", spread_object(&seen->known));
    if (outcome->changes > 0 && client == SUBSCRIBER)
        json_object_set_new(object, "notification_ns", spread_object(&seen->told));
    if (client == SUBSCRIBER)
        json_object_set_new(object, "opening_bytes",
                            json_integer((json_int_t)seen->opening_bytes));
    print_object(object);
}

static void print_server(const sources_outcome_t *outcome, int run, int audience) {
    print_object(
        json_pack("{s:s, s:s, s:I, s:f, s:f, s:f}", "run", sources_run_names[run],
                  "client", sources_audience_names[audience], "changes",
                  (json_int_t)outcome->changes, "minutes", outcome->minutes,
                  "cpu_ns_per_minute", outcome->cpu_ns[audience] / outcome->minutes,
                  "requests_per_minute", requests_per_minute(outcome, audience)));
}

void sources_print_json(const sources_table_t *table) {
    for (int run = 0; run < RUNS; run++) {
        const sources_outcome_t *outcome = &table->runs[run];

        for (int id = 0; id < KINDS; id++)
            for (int client = 0; client < CLIENTS && table->used[id]; client++)
                print_seen(outcome, run, id, client);
        for (int audience = 0; audience < AUDIENCES; audience++)
            print_server(outcome, run, audience);
    }
}

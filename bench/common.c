/* SPDX-License-Identifier: MIT */
#include "common.h"

#include <errno.h>
#include <malloc.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <jansson.h>

#include <tidings/tidings.h>

void bench_fail(const char *format, ...) {
    va_list args;

    bench_progress(NULL);
    fputs("bench: ", stderr);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    exit(1);
}

void bench_usage(const char *what, const char *value) {
    fprintf(stderr, "%s: %s '%s'; --help tells more\n", program_invocation_short_name,
            what, value);
    exit(2);
}

size_t bench_number(const char *value, size_t min, size_t max, const char *message) {
    char *end;
    unsigned long result;

    errno = 0;
    result = strtoul(value, &end, 10);
    if (*value < '0' || *value > '9' || *end != '\0' || errno != 0 || result < min ||
        result > max)
        bench_usage(message, value);
    return result;
}

void bench_check(int rv, const char *what) {
    if (rv != 0)
        bench_fail("%s: %s", what, tdg_strerror(rv));
}

void *bench_alloc(size_t count, size_t size) {
    void *ptr = calloc(count > 0 ? count : 1, size);

    if (ptr == NULL)
        bench_fail("out of memory");
    return ptr;
}

uint16_t bench_free_port(void) {
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0 || bind(fd, (struct sockaddr *)&address, len) < 0 ||
        getsockname(fd, (struct sockaddr *)&address, &len) < 0)
        bench_fail("cannot find a free port: %s", strerror(errno));
    close(fd);
    return ntohs(address.sin_port);
}

/* ---- Time and memory ---------------------------------------------------- */

static uint64_t read_clock(clockid_t clock) {
    struct timespec now;

    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

uint64_t bench_now_ns(void) {
    return read_clock(CLOCK_MONOTONIC);
}

uint64_t bench_cpu_ns(void) {
    return read_clock(CLOCK_THREAD_CPUTIME_ID);
}

size_t bench_heap_bytes(void) {
    struct mallinfo2 info = mallinfo2();

    return info.uordblks + info.hblkhd;
}

void bench_use(uint64_t value) {
    static volatile uint64_t sink;

    sink = sink + value;
}

/* ---- Order -------------------------------------------------------------- */

uint64_t bench_random(bench_random_t *random) {
    /* splitmix64 */
    uint64_t z = (random->state += UINT64_C(0x9e3779b97f4a7c15));

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

void bench_shuffle(bench_random_t *random, uint32_t *items, size_t count) {
    for (size_t i = count; i > 1; i--) {
        size_t other = bench_random(random) % i;
        uint32_t item = items[i - 1];

        items[i - 1] = items[other];
        items[other] = item;
    }
}

uint32_t *bench_shuffled(bench_random_t *random, size_t count) {
    uint32_t *items = bench_alloc(count, sizeof(items[0]));

    for (size_t i = 0; i < count; i++)
        items[i] = (uint32_t)i;
    bench_shuffle(random, items, count);
    return items;
}

/* ---- Samples ------------------------------------------------------------ */

void bench_add(bench_samples_t *samples, double value) {
    if (samples->count < BENCH_MAX_SAMPLES)
        samples->values[samples->count++] = value;
}

static int compare_doubles(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static int compare_times(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

double bench_median(const bench_samples_t *samples) {
    bench_samples_t sorted = *samples;

    if (sorted.count == 0)
        return 0;
    qsort(sorted.values, sorted.count, sizeof(sorted.values[0]), compare_doubles);
    return sorted.values[sorted.count / 2];
}

bench_spread_t bench_spread(uint64_t *times, size_t count) {
    qsort(times, count, sizeof(times[0]), compare_times);
    return (bench_spread_t){
        .p50 = (double)times[count / 2],
        .p99 = (double)times[count - 1 - count / 100],
        .max = (double)times[count - 1],
    };
}

/* ---- Results ------------------------------------------------------------ */

const char *bench_duration(double ns, char *text, size_t size) {
    static const char *const units[] = {"ns", "µs", "ms", "s"};
    size_t unit = 0;

    while (ns >= 999.5 && unit < 3) {
        ns /= 1000;
        unit++;
    }
    snprintf(text, size, "%.*f %s", ns < 99.95 ? 1 : 0, ns, units[unit]);
    return text;
}

const char *bench_count(double count, char *text, size_t size) {
    static const char *const units[] = {"", " k", " M", " G"};
    size_t unit = 0;

    while (count >= 999.5 && unit < 3) {
        count /= 1000;
        unit++;
    }
    snprintf(text, size, "%.*f%s", count < 99.95 && unit > 0 ? 1 : 0, count, units[unit]);
    return text;
}

const char *bench_power(size_t n, char *text, size_t size) {
    static const char *const digits[] = {"⁰", "¹", "²", "³", "⁴",
                                         "⁵", "⁶", "⁷", "⁸", "⁹"};
    size_t power = 0, rest = n;

    while (rest > 1 && rest % 10 == 0) {
        rest /= 10;
        power++;
    }
    if (rest == 1 && power > 0 && power < 10)
        snprintf(text, size, "10%s", digits[power]);
    else
        snprintf(text, size, "%zu", n);
    return text;
}

/* By columns: printf counts bytes, and µ or ² have two or three. */
static int columns_of(const char *text) {
    int columns = 0;

    for (; *text != '\0'; text++)
        columns += ((unsigned char)*text & 0xc0) != 0x80;
    return columns;
}

void bench_put_right(FILE *out, const char *text, int width) {
    int columns = columns_of(text);

    fprintf(out, "%*s%s", width > columns ? width - columns : 0, "", text);
}

void bench_put_left(FILE *out, const char *text, int width) {
    int columns = columns_of(text);

    fprintf(out, "%s%*s", text, width > columns ? width - columns : 0, "");
}

void bench_print_heading(FILE *out) {
    fprintf(out, "%-48s%6s%11s%9s%11s%8s\n", "", "n", "per op", "per s", "bare map",
            "ratio");
}

void bench_print_rows(FILE *out, const char *what, const bench_result_t *results,
                      size_t count) {
    for (size_t i = 0; i < count; i++) {
        const bench_result_t *result = &results[i];
        char text[64];

        if (i == 0)
            snprintf(text, sizeof(text), "%s", result->name);
        else
            snprintf(text, sizeof(text), "%s%s", i == 1 ? "  per " : "",
                     i == 1 ? what : "");
        bench_put_left(out, text, 48);
        bench_put_right(out, bench_power(result->n, text, sizeof(text)), 6);
        bench_put_right(out, bench_duration(result->ns, text, sizeof(text)), 11);
        bench_put_right(out, bench_count(1e9 / result->ns, text, sizeof(text)), 9);
        bench_put_right(out, bench_duration(result->map_ns, text, sizeof(text)), 11);
        fprintf(out, "%8.2f\n", result->ns / result->map_ns);
    }
}

void bench_print_spread(FILE *out, const bench_result_t *results, size_t count) {
    fprintf(out, "%-36s%6s%10s%10s%10s   %10s%10s%10s\n", "Single calls", "n", "p50",
            "p99", "longest", "map p50", "p99", "longest");
    for (size_t i = 0; i < count; i++) {
        const bench_result_t *result = &results[i];
        char text[64];

        bench_put_left(out, i == 0 ? result->name : "", 36);
        bench_put_right(out, bench_power(result->n, text, sizeof(text)), 6);
        for (int k = 0; k < 3; k++)
            bench_put_right(out, bench_duration(result->spread[k], text, sizeof(text)),
                            10);
        fprintf(out, "   ");
        for (int k = 0; k < 3; k++)
            bench_put_right(
                out, bench_duration(result->map_spread[k], text, sizeof(text)), 10);
        fputc('\n', out);
    }
}

void bench_print_memory_heading(FILE *out) {
    fprintf(out, "%-36s%6s%14s%8s%10s%6s%10s%8s\n", "Bytes per subscription", "n",
            "record+index", "stream", "resource", "name", "together", "malloc");
}

void bench_print_memory(FILE *out, const bench_result_t *results, size_t count) {
    for (size_t i = 0; i < count; i++) {
        const bench_result_t *result = &results[i];
        char text[64];

        bench_put_left(out, i == 0 ? result->name : "", 36);
        bench_put_right(out, bench_power(result->n, text, sizeof(text)), 6);
        fprintf(out, "%14.0f%8.0f%10.0f%6.0f%10.0f%8.0f\n", result->record_bytes,
                result->stream_bytes, result->resource_bytes, result->name_bytes,
                result->record_bytes + result->stream_bytes + result->resource_bytes +
                    result->name_bytes,
                result->process_bytes);
    }
}

void bench_print_json(FILE *out, const bench_result_t *result) {
    json_t *object =
        json_pack("{s:s, s:I}", "name", result->name, "n", (json_int_t)result->n);
    const struct {
        const char *name;
        double value;
    } fields[] = {
        {"ops_per_s", result->ns > 0 ? 1e9 / result->ns : 0},
        {"ns_per_op", result->ns},
        {"map_ns_per_op", result->map_ns},
        {"ratio", result->map_ns > 0 ? result->ns / result->map_ns : 0},
        {"p50_ns", result->spread[0]},
        {"p99_ns", result->spread[1]},
        {"max_ns", result->spread[2]},
        {"map_p50_ns", result->map_spread[0]},
        {"map_p99_ns", result->map_spread[1]},
        {"map_max_ns", result->map_spread[2]},
        {"bytes_per_subscription", result->record_bytes},
        {"stream_bytes", result->stream_bytes},
        {"resource_bytes", result->resource_bytes},
        {"name_bytes", result->name_bytes},
        {"malloc_bytes", result->process_bytes},
    };

    if (object == NULL)
        bench_fail("out of memory");
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
        if (fields[i].value > 0)
            json_object_set_new(object, fields[i].name, json_real(fields[i].value));
    json_dumpf(object, out, JSON_COMPACT | JSON_REAL_PRECISION(5));
    fputc('\n', out);
    json_decref(object);
}

void bench_progress(const char *format, ...) {
    static bool shown;
    bool terminal = isatty(STDERR_FILENO);
    va_list args;

    if (terminal && shown)
        fputs("\r\033[K", stderr);
    shown = false;
    if (format == NULL)
        return;

    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    if (terminal)
        shown = true;
    else
        fputc('\n', stderr);
    fflush(stderr);
}

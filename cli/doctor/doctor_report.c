/* SPDX-License-Identifier: MIT
 *
 * The report: for people line by line during the run, for programs one document at the
 * end. Texts from the server pass through cli_put_plain() in both. */
#include <langinfo.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <tidings/error.h>

#include "base/alloc.h"
#include "doctor/doctor.h"
#include "safe_text.h"
#include "terminal.h"

enum {
    WIDTH = 80,
    INDENT = 6,
    LONG = 12, /* checks: what is bad has left the screen when the last one is shown */
};

static const struct look {
    const char *name, *mark, *plain_mark, *color;
} looks[DOCTOR_STATUSES] = {
    [DOCTOR_OK] = {"ok", "\u2713", "+", CLI_GREEN},
    [DOCTOR_SKIPPED] = {"skipped", "\u2013", "-", CLI_DIM},
    [DOCTOR_WARNING] = {"warning", "!", "!", CLI_YELLOW},
    [DOCTOR_FAILED] = {"failed", "\u2717", "x", CLI_RED},
};

/* ---- Filling a result ----------------------------------------------------- */

static const char *text_of(const tdg__text_t *text) {
    return text->len > 0 ? text->data : "";
}

__attribute__((format(printf, 2, 0))) static void
put_format(tdg__text_t *text, const char *format, va_list args) {
    char piece[DOCTOR_MAX_TEXT / 4];

    vsnprintf(piece, sizeof(piece), format, args);
    cli_put_plain(text, piece, strlen(piece), false);
}

void doctor_did(doctor_t *doctor, const char *format, ...) {
    va_list args;

    va_start(args, format);
    put_format(&doctor->result->did, format, args);
    va_end(args);
}

void doctor_saw(doctor_t *doctor, const char *format, ...) {
    va_list args;

    if (doctor->result->saw.len > 0)
        tdg__text_put(&doctor->result->saw, "; ");
    va_start(args, format);
    put_format(&doctor->result->saw, format, args);
    va_end(args);
}

void doctor_bad(doctor_t *doctor, doctor_status_t status, const char *format, ...) {
    va_list args;

    if (status > doctor->result->status)
        doctor->result->status = status;
    if (doctor->result->fix.len > 0)
        tdg__text_put(&doctor->result->fix, " ");
    va_start(args, format);
    put_format(&doctor->result->fix, format, args);
    va_end(args);
}

void doctor_skip(doctor_t *doctor, const char *format, ...) {
    va_list args;

    doctor->result->status = DOCTOR_SKIPPED;
    tdg__text_clear(&doctor->result->saw);
    tdg__text_clear(&doctor->result->fix);
    va_start(args, format);
    put_format(&doctor->result->saw, format, args);
    va_end(args);
}

void doctor_fact(doctor_t *doctor, const char *name, json_int_t value) {
    if (doctor->result->facts == NULL)
        doctor->result->facts = json_object();
    json_object_set_new(doctor->result->facts, name, json_integer(value));
}

/* ---- For people ------------------------------------------------------------ */

/* The escape, or "" without colors. */
static const char *paint(const doctor_t *doctor, const char *escape) {
    return cli_wants_color(doctor->options->color, STDOUT_FILENO) ? escape : "";
}

static bool is_utf8(void) {
    return strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
}

static void print_wrapped(const char *text, int indent) {
    printf("%*s", indent, "");
    cli_put_wrapped(stdout, text, indent, WIDTH);
}

static void print_seen(const doctor_result_t *result) {
    tdg__text_t line;

    tdg__text_init(&line, 2 * DOCTOR_MAX_TEXT + 2);
    tdg__text_put(&line, text_of(&result->did));
    tdg__text_put(&line, result->did.len > 0 ? ": " : "");
    tdg__text_put(&line, text_of(&result->saw));
    if (line.len > 0)
        print_wrapped(line.data, INDENT);
    tdg__text_done(&line);
}

/* "✓ Updates arrive (modern)" */
static void print_head(const doctor_t *doctor, const doctor_result_t *result,
                       const char *what) {
    const struct look *look = &looks[result->status];

    printf("  %s%s%s %s%s%s%s", paint(doctor, look->color),
           is_utf8() ? look->mark : look->plain_mark, paint(doctor, CLI_OFF), what,
           result->era != NULL ? " (" : "", result->era != NULL ? result->era : "",
           result->era != NULL ? ")" : "");
}

void doctor_show(const doctor_t *doctor, const doctor_result_t *result) {
    const doctor_result_t *before = result > doctor->results ? result - 1 : NULL;

    if (doctor->options->json)
        return;
    doctor_show_progress(doctor, "%s", "");
    if (before == NULL || before->group != result->group)
        printf("\n%s%s%s\n", paint(doctor, CLI_BOLD), result->group->title,
               paint(doctor, CLI_OFF));
    print_head(doctor, result, result->check->title);
    printf("  %s%s%s\n", paint(doctor, CLI_DIM), result->check->id,
           paint(doctor, CLI_OFF));
    fputs(paint(doctor, CLI_DIM), stdout);
    print_seen(result);
    fputs(paint(doctor, CLI_OFF), stdout);
    if (result->fix.len > 0) {
        fputs(paint(doctor, CLI_CYAN), stdout);
        print_wrapped("To fix it:", INDENT);
        print_wrapped(result->fix.data, INDENT + 2);
        fputs(paint(doctor, CLI_OFF), stdout);
    }
    fflush(stdout);
}

void doctor_show_progress(const doctor_t *doctor, const char *format, ...) {
    va_list args;

    if (doctor->options->json || !isatty(STDERR_FILENO) || !isatty(STDOUT_FILENO))
        return;
    fputs("\r\033[K", stderr);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fflush(stderr);
}

static void count_all(const doctor_t *doctor, unsigned counts[DOCTOR_STATUSES]) {
    for (size_t i = 0; i < doctor->count; i++)
        counts[doctor->results[i].status]++;
}

/* Once more, in short. */
static void show_bad(const doctor_t *doctor) {
    printf("\n%sProblems%s\n", paint(doctor, CLI_BOLD), paint(doctor, CLI_OFF));
    for (size_t i = 0; i < doctor->count; i++) {
        const doctor_result_t *result = &doctor->results[i];

        if (result->status == DOCTOR_FAILED || result->status == DOCTOR_WARNING) {
            print_head(doctor, result, result->check->id);
            putchar('\n');
        }
    }
}

void doctor_show_end(const doctor_t *doctor) {
    unsigned counts[DOCTOR_STATUSES] = {0};

    count_all(doctor, counts);
    if (doctor->count >= LONG && counts[DOCTOR_FAILED] + counts[DOCTOR_WARNING] > 0)
        show_bad(doctor);
    printf("\n%u ok, %u warning%s, %u failed, %u skipped\n", counts[DOCTOR_OK],
           counts[DOCTOR_WARNING], counts[DOCTOR_WARNING] == 1 ? "" : "s",
           counts[DOCTOR_FAILED], counts[DOCTOR_SKIPPED]);
}

/* ---- For machines ------------------------------------------------------------ */

static json_t *result_json(const doctor_result_t *result) {
    return json_pack(
        "{s:s, s:s, s:s, s:s?, s:s, s:s, s:s, s:s?, s:o}", "id", result->check->id,
        "group", result->group->title, "title", result->check->title, "era", result->era,
        "status", looks[result->status].name, "did", text_of(&result->did), "saw",
        text_of(&result->saw), "fix", result->fix.len > 0 ? result->fix.data : NULL,
        "facts", result->facts != NULL ? json_incref(result->facts) : json_object());
}

int doctor_show_json(const doctor_t *doctor) {
    unsigned counts[DOCTOR_STATUSES] = {0};
    json_t *checks = json_array(), *eras = json_array(), *all = NULL;
    char *text = NULL;

    count_all(doctor, counts);
    for (size_t i = 0; i < doctor->count; i++)
        json_array_append_new(checks, result_json(&doctor->results[i]));
    for (int era = 0; era < DOCTOR_ERAS; era++)
        if (doctor->spoken[era])
            json_array_append_new(eras, json_string(cli_eras[era + 1]));
    all = json_pack("{s:s, s:b, s:o, s:{s:i, s:i, s:i, s:i}, s:o}", "target",
                    doctor->options->target.name, "ok",
                    counts[DOCTOR_FAILED] == 0 && !doctor->late, "eras", eras, "counts",
                    "ok", (int)counts[DOCTOR_OK], "warning", (int)counts[DOCTOR_WARNING],
                    "failed", (int)counts[DOCTOR_FAILED], "skipped",
                    (int)counts[DOCTOR_SKIPPED], "checks", checks);
    if (all != NULL)
        text = json_dumps(all, JSON_COMPACT | JSON_ENSURE_ASCII);
    json_decref(all);
    if (text == NULL)
        return TDG_ENOMEM;
    puts(text);
    tdg__free(text);
    return 0;
}

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
    [DOCTOR_OK] = {"ok", "\u2713", "+", "\033[32m"},
    [DOCTOR_SKIPPED] = {"skipped", "\u2013", "-", "\033[2m"},
    [DOCTOR_WARNING] = {"warning", "!", "!", "\033[33m"},
    [DOCTOR_FAILED] = {"failed", "\u2717", "x", "\033[31m"},
};

/* ---- Filling a result ----------------------------------------------------- */

__attribute__((format(printf, 2, 0))) static void
put_format(tdg__text_t *text, const char *format, va_list args) {
    char piece[DOCTOR_MAX_TEXT / 4];

    vsnprintf(piece, sizeof(piece), format, args);
    tdg__text_put(text, piece);
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

static bool is_utf8(void) {
    return strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
}

static void print_wrapped(const char *text, int indent) {
    printf("%*s", indent, "");
    cli_put_wrapped(stdout, text, indent, WIDTH);
}

static void print_plain(const tdg__text_t *prefix, const tdg__text_t *text, int indent) {
    tdg__text_t plain;

    tdg__text_init(&plain, 8 * DOCTOR_MAX_TEXT);
    if (prefix != NULL && prefix->len > 0) {
        cli_put_plain(&plain, prefix->data, prefix->len, false);
        tdg__text_put(&plain, ": ");
    }
    if (text->len > 0)
        cli_put_plain(&plain, text->data, text->len, false);
    if (plain.len > 0)
        print_wrapped(plain.data, indent);
    tdg__text_done(&plain);
}

void doctor_show(const doctor_t *doctor, const doctor_result_t *result) {
    bool color = cli_wants_color(doctor->options->color, STDOUT_FILENO);
    const struct look *look = &looks[result->status];
    const doctor_result_t *before = result > doctor->results ? result - 1 : NULL;

    if (doctor->options->json)
        return;
    doctor_show_progress(doctor, "%s", "");
    if (before == NULL || before->group != result->group)
        printf("\n%s%s%s\n", color ? "\033[1m" : "", result->group->title,
               color ? "\033[0m" : "");
    printf("  %s%s%s %s%s%s%s", color ? look->color : "",
           is_utf8() ? look->mark : look->plain_mark, color ? "\033[0m" : "",
           result->check->title, result->era != NULL ? " (" : "",
           result->era != NULL ? result->era : "", result->era != NULL ? ")" : "");
    printf("  %s%s%s\n", color ? "\033[2m" : "", result->check->id,
           color ? "\033[0m" : "");
    fputs(color ? "\033[2m" : "", stdout);
    print_plain(&result->did, &result->saw, INDENT);
    fputs(color ? "\033[0m" : "", stdout);
    if (result->fix.len > 0) {
        fputs(color ? "\033[36m" : "", stdout);
        print_wrapped("To fix it:", INDENT);
        print_plain(NULL, &result->fix, INDENT + 2);
        fputs(color ? "\033[0m" : "", stdout);
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
    bool color = cli_wants_color(doctor->options->color, STDOUT_FILENO);

    printf("\n%sProblems%s\n", color ? "\033[1m" : "", color ? "\033[0m" : "");
    for (size_t i = 0; i < doctor->count; i++) {
        const doctor_result_t *result = &doctor->results[i];
        const struct look *look = &looks[result->status];

        if (result->status == DOCTOR_FAILED || result->status == DOCTOR_WARNING)
            printf("  %s%s%s %s%s%s%s\n", color ? look->color : "",
                   is_utf8() ? look->mark : look->plain_mark, color ? "\033[0m" : "",
                   result->check->id, result->era != NULL ? " (" : "",
                   result->era != NULL ? result->era : "",
                   result->era != NULL ? ")" : "");
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

static json_t *plain_json(const tdg__text_t *text) {
    tdg__text_t plain;
    json_t *string;

    tdg__text_init(&plain, 8 * DOCTOR_MAX_TEXT);
    if (text->len > 0)
        cli_put_plain(&plain, text->data, text->len, false);
    string = json_string(plain.len > 0 ? plain.data : "");
    tdg__text_done(&plain);
    return string;
}

static json_t *result_json(const doctor_result_t *result) {
    json_t *one =
        json_pack("{s:s, s:s, s:s, s:s?, s:s, s:o, s:o}", "id", result->check->id,
                  "group", result->group->title, "title", result->check->title, "era",
                  result->era, "status", looks[result->status].name, "did",
                  plain_json(&result->did), "saw", plain_json(&result->saw));

    if (one == NULL)
        return NULL;
    json_object_set_new(one, "mend",
                        result->fix.len > 0 ? plain_json(&result->fix) : json_null());
    json_object_set_new(
        one, "facts", result->facts != NULL ? json_incref(result->facts) : json_object());
    return one;
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

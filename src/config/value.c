/* SPDX-License-Identifier: MIT */
#include "config/value.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

typedef struct unit {
    const char *name;
    int64_t factor;
} unit_t;

/* From the largest to the smallest. */
static const unit_t duration_units[] = {
    {"d", INT64_C(86400000)}, {"h", INT64_C(3600000)}, {"m", INT64_C(60000)},
    {"s", INT64_C(1000)},     {"ms", INT64_C(1)},      {NULL, 0},
};

static const unit_t size_units[] = {
    {"GiB", INT64_C(1) << 30},
    {"MiB", INT64_C(1) << 20},
    {"KiB", INT64_C(1) << 10},
    {"B", INT64_C(1)},
    {NULL, 0},
};

/* Reads digits; leaves *text behind them. */
static bool read_digits(const char **text, int64_t *ret) {
    const char *at = *text;
    int64_t number = 0;

    for (; *at >= '0' && *at <= '9'; at++) {
        int digit = *at - '0';

        if (number > (INT64_MAX - digit) / 10)
            return false;
        number = number * 10 + digit;
    }
    if (at == *text)
        return false;
    *text = at;
    *ret = number;
    return true;
}

static bool read_with_unit(const char *text, const unit_t *units, int64_t *ret) {
    int64_t number;

    if (!read_digits(&text, &number))
        return false;
    if (*text == ' ')
        text++; /* "5 s" is as good */
    for (; units->name != NULL; units++) {
        if (strcmp(units->name, text) != 0)
            continue;
        if (number > INT64_MAX / units->factor)
            return false;
        *ret = number * units->factor;
        return true;
    }
    return false;
}

bool tdg__number_parse(const char *text, int64_t *ret) {
    bool negative = text[0] == '-';
    int64_t number;

    text += negative;
    if (!read_digits(&text, &number) || *text != '\0')
        return false;
    *ret = negative ? -number : number;
    return true;
}

bool tdg__duration_parse(const char *text, int64_t *ret_ms) {
    if (strcmp(text, "0") == 0) {
        *ret_ms = 0;
        return true;
    }
    return read_with_unit(text, duration_units, ret_ms);
}

bool tdg__size_parse(const char *text, int64_t *ret_bytes) {
    const char *end = text;

    if (read_digits(&end, ret_bytes) && *end == '\0')
        return true;
    return read_with_unit(text, size_units, ret_bytes);
}

static void write_with_unit(int64_t value, const unit_t *units, char *out) {
    if (value == 0) {
        snprintf(out, TDG__VALUE_TEXT_MAX, "0");
        return;
    }
    while (value % units->factor != 0)
        units++;
    snprintf(out, TDG__VALUE_TEXT_MAX, "%" PRId64 "%s", value / units->factor,
             units->name);
}

void tdg__duration_write(int64_t ms, char out[TDG__VALUE_TEXT_MAX]) {
    write_with_unit(ms, duration_units, out);
}

void tdg__size_write(int64_t bytes, char out[TDG__VALUE_TEXT_MAX]) {
    /* Bytes without a unit read better than 4097B. */
    if (bytes % 1024 != 0)
        snprintf(out, TDG__VALUE_TEXT_MAX, "%" PRId64, bytes);
    else
        write_with_unit(bytes, size_units, out);
}

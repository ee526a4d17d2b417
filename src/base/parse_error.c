/* SPDX-License-Identifier: MIT */
#include "base/parse_error.h"

#include <stdarg.h>
#include <stdio.h>

int tdg__parse_fail(tdg__parse_error_t *error, int code, size_t at, const char *format,
                    ...) {
    va_list args;

    if (error != NULL) {
        error->at = at;
        va_start(args, format);
        vsnprintf(error->text, sizeof(error->text), format, args);
        va_end(args);
    }
    return code;
}

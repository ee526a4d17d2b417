/* SPDX-License-Identifier: MIT */
#include <tidings/tidings.h>

struct error {
    int code;
    const char *name;
    const char *text;
};

#define ERROR_ROW(name, code, text) {code, "TDG_" #name, text},

/* clang-format off: version 14 crashes on a table with a macro in it */
static const struct error errors[] = {
    {0, "TDG_OK", "success"},
    TDG_ERROR_MAP(ERROR_ROW)
};
/* clang-format on */

static const struct error *find(int code) {
    static const struct error unknown = {0, "TDG_UNKNOWN", "unknown error"};

    for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++)
        if (errors[i].code == code)
            return &errors[i];
    return &unknown;
}

const char *tdg_strerror(int code) {
    return find(code)->text;
}

const char *tdg_error_name(int code) {
    return find(code)->name;
}

const char *tdg_version(void) {
    return TDG_VERSION;
}

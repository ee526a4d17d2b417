/* SPDX-License-Identifier: MIT */
#include <tidings/error.h>
#include <tidings/version.h>

#include <stddef.h>
#include <string.h>

struct error {
    int code;
    const char *name;
    const char *text;
};

#define ERROR_ROW(name, code, text) {code, "TDG_" #name, text},

/* clang-format off: version 14 crashes on a table with a macro in it */
static const struct error errors[] = {{0, "TDG_OK", "success"}, TDG_ERROR_MAP(ERROR_ROW)};
/* clang-format on */

static const struct error *find(int code) {
    static const struct error unknown = {0, "TDG_UNKNOWN", "unknown error"};

    for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++)
        if (errors[i].code == code)
            return &errors[i];
    return &unknown;
}

/* Of an errno, in English and for ever; NULL where there is none, or where the C library
 * does not know. */
static const char *text_of_system(int error) {
#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 32)
    return error > 0 ? strerrordesc_np(error) : NULL;
#else
    return error > 0 ? find(TDG_ESYSTEM)->text : NULL;
#endif
}

static const char *name_of_system(int error) {
#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 32)
    return error > 0 ? strerrorname_np(error) : NULL;
#else
    return error > 0 ? "TDG_ESYSTEM" : NULL;
#endif
}

const char *tdg_strerror(int code) {
    const char *text = text_of_system(tdg_system_error(code));

    return text != NULL ? text : find(code)->text;
}

const char *tdg_error_name(int code) {
    const char *name = name_of_system(tdg_system_error(code));

    return name != NULL ? name : find(code)->name;
}

const char *tdg_version(void) {
    return TDG_VERSION;
}

int tdg_version_number(void) {
    return TDG_VERSION_NUMBER;
}

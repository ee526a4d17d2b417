/* SPDX-License-Identifier: MIT
 *
 * Replaces placeholders in a value: environment variables, and the folder that a path is
 * relative to. Values of variables never appear in a message: they may be secrets. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <tidings/error.h>

#include "base/alloc.h"
#include "base/text.h"
#include "config/value.h"

enum { MAX_NAME = 64 }; /* of a variable */

static size_t name_length(const char *text) {
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789";

    return *text >= '0' && *text <= '9' ? 0 : strspn(text, letters);
}

/* Of an empty one, too, the default holds. */
static bool is_set(const char *name) {
    const char *value = getenv(name);

    return value != NULL && value[0] != '\0';
}

typedef struct variable {
    char name[MAX_NAME + 1];
    const char *fallback; /* behind ":-"; NULL: there is none */
    size_t fallback_len;
    size_t len; /* from the dollar to the brace */
} variable_t;

/* Reads the ${…} at `text`. Returns what is wrong with it, or NULL. */
static const char *read_variable(const char *text, variable_t *ret) {
    const char *name = text + 2;
    size_t len = name_length(name), end = strcspn(name, "}");
    bool has_default = strncmp(name + len, ":-", 2) == 0;

    if (name[end] == '\0')
        return "a ${ is not closed; write ${NAME}, or $${ for a literal ${";
    if (len == 0 || len > MAX_NAME || (name[len] != '}' && !has_default))
        return "a ${…} has no valid variable name; write ${NAME} or ${NAME:-text}, or "
               "$${ for a literal ${";
    memcpy(ret->name, name, len);
    ret->name[len] = '\0';
    ret->fallback = has_default ? name + len + 2 : NULL;
    ret->fallback_len = has_default ? end - len - 2 : 0;
    ret->len = 2 + end + 1;
    return NULL;
}

/* Appends what ${…} at `text` stands for; *ret_len is how long it is. */
static int put_variable(const char *text, bool no_env, tdg__text_t *out, size_t *ret_len,
                        tdg__parse_error_t *error) {
    variable_t variable;
    const char *wrong = read_variable(text, &variable), *value;

    if (wrong != NULL)
        return tdg__parse_fail(error, TDG_EINVAL, 0, "%s", wrong);

    value = getenv(variable.name);
    if (variable.fallback != NULL && !is_set(variable.name))
        tdg__text_add(out, variable.fallback, variable.fallback_len);
    else if (value == NULL && no_env)
        tdg__text_put(out, variable.name);
    else if (value == NULL)
        return tdg__parse_fail(error, TDG_EINVAL, 0,
                               "the environment variable %s is not set", variable.name);
    else if (!tdg__utf8_is_valid(value, strlen(value)))
        return tdg__parse_fail(error, TDG_EINVAL, 0,
                               "the environment variable %s is not valid UTF-8",
                               variable.name);
    else
        tdg__text_put(out, value);
    *ret_len = variable.len;
    return 0;
}

/* Hands the text over; an empty one has no memory yet. */
static int finish(tdg__text_t *out, char **ret, tdg__parse_error_t *error) {
    tdg__text_put(out, "");
    if (out->error == TDG_ETOOLARGE)
        return tdg__parse_fail(
            error, TDG_EINVAL, 0,
            "the value is longer than %d bytes after replacing its variables",
            TDG__EXPANDED_MAX);
    if (out->error < 0)
        return out->error;
    *ret = out->data;
    return 0;
}

int tdg__expand(const char *text, bool no_env, char **ret, tdg__parse_error_t *error) {
    tdg__text_t out;
    int rv = 0;

    tdg__text_init(&out, TDG__EXPANDED_MAX);
    while (rv == 0 && *text != '\0') {
        size_t len = strcspn(text, "$");

        if (len == 0 && strncmp(text, "$${", 3) == 0) {
            tdg__text_put(&out, "${");
            len = 3;
        } else if (len == 0 && text[1] == '{') {
            rv = put_variable(text, no_env, &out, &len, error);
        } else {
            len += len == 0; /* a dollar by itself */
            tdg__text_add(&out, text, len);
        }
        text += len;
    }
    if (rv == 0)
        rv = finish(&out, ret, error);
    if (rv < 0)
        tdg__text_done(&out);
    return rv;
}

void tdg__expand_names(const char *text, void (*visit)(void *arg, const char *name),
                       void *arg) {
    const char *next = text;

    for (const char *at; (at = strstr(next, "${")) != NULL;) {
        variable_t variable;

        next = at + 2;
        if (at > text && at[-1] == '$')
            continue; /* a literal one */
        next += strcspn(next, "}");
        if (read_variable(at, &variable) == NULL &&
            (variable.fallback == NULL || is_set(variable.name)))
            visit(arg, variable.name);
    }
}

/* ---- Paths --------------------------------------------------------------- */

/* Appends the parts of a path, each with a slash before it. */
static void put_parts(tdg__text_t *out, const char *path, size_t len) {
    const char *end = path + len;

    while (path < end) {
        size_t part = strcspn(path, "/");

        part = part < (size_t)(end - path) ? part : (size_t)(end - path);
        if (part > 0 && !(part == 1 && path[0] == '.')) {
            tdg__text_put(out, "/");
            tdg__text_add(out, path, part);
        }
        path += part + 1;
    }
}

static int put_folder(tdg__text_t *out, const char *file, tdg__parse_error_t *error) {
    const char *slash = file != NULL ? strrchr(file, '/') : NULL;
    char here[PATH_MAX];

    if (slash == NULL || file[0] != '/') {
        if (getcwd(here, sizeof(here)) == NULL)
            return tdg__parse_fail(error, TDG_EINVAL, 0,
                                   "cannot determine the working directory: %s",
                                   strerror(errno));
        put_parts(out, here, strlen(here));
    }
    if (slash != NULL)
        put_parts(out, file, (size_t)(slash - file));
    return 0;
}

static int put_home(tdg__text_t *out, tdg__parse_error_t *error) {
    const char *home = getenv("HOME");

    if (home == NULL || home[0] != '/')
        return tdg__parse_fail(error, TDG_EINVAL, 0,
                               "~ stands for the home directory, but the environment "
                               "variable HOME is not set");
    put_parts(out, home, strlen(home));
    return 0;
}

int tdg__path_resolve(const char *path, const char *file, char **ret,
                      tdg__parse_error_t *error) {
    tdg__text_t out;
    int rv = 0;

    if (path[0] == '\0')
        return tdg__parse_fail(error, TDG_EINVAL, 0, "a path cannot be empty");
    tdg__text_init(&out, TDG__EXPANDED_MAX);
    if (path[0] == '~' && (path[1] == '/' || path[1] == '\0')) {
        rv = put_home(&out, error);
        path++;
    } else if (path[0] != '/') {
        rv = put_folder(&out, file, error);
    }
    if (rv == 0) {
        put_parts(&out, path, strlen(path));
        if (out.len == 0)
            tdg__text_put(&out, "/");
        if (out.len >= PATH_MAX || out.error == TDG_ETOOLARGE)
            rv = tdg__parse_fail(error, TDG_EINVAL, 0, "the path is longer than %d bytes",
                                 PATH_MAX - 1);
        else
            rv = finish(&out, ret, error);
    }
    if (rv < 0)
        tdg__text_done(&out);
    return rv;
}

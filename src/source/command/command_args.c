/* SPDX-License-Identifier: MIT
 *
 * The arguments of a program. {name} in an argument is replaced by a variable of the
 * URI's template, inside this one argument: no shell interprets it. A value that begins
 * with - is refused at the start of an argument. A shell gets the variables only in its
 * environment, as TIDINGS_name, since text in a script is executed. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <tidings/error.h>

#include "base/alloc.h"
#include "base/template_expand.h"
#include "base/text.h"
#include "base/variables.h"
#include "source/command/command.h"

enum { MAX_ARGUMENT = 128 * 1024 }; /* the kernel takes no longer ones */

static size_t count_of(char *const *strings) {
    size_t count = 0;

    while (strings[count] != NULL)
        count++;
    return count;
}

/* The text is taken over; *ret is for tdg__free(). */
static int finish(tdg__text_t *text, char **ret) {
    tdg__text_put(text, ""); /* a NUL, also where nothing was put */
    if (text->error != 0) {
        int rv = text->error == TDG_ENOMEM ? TDG_ENOMEM : TDG_ENOTFOUND;

        tdg__text_done(text);
        return rv;
    }
    *ret = text->data;
    return 0;
}

/* ---- Arguments ---------------------------------------------------------- */

/* The value of a variable whose {name} stands at `text`, and the length of that; NULL
 * where it is none. */
static const char *variable_at(const tdg__variables_t *variables, const char *text,
                               size_t *ret_len) {
    char name[64];
    const char *end = text[0] == '{' ? strchr(text, '}') : NULL;
    size_t len = end != NULL ? (size_t)(end - text) - 1 : 0;

    if (len == 0 || len >= sizeof(name))
        return NULL;
    memcpy(name, text + 1, len);
    name[len] = '\0';
    *ret_len = len + 2;
    return tdg__variables_get(variables, name);
}

static int fill_in(const char *text, const tdg__variables_t *variables, char **ret) {
    tdg__text_t out;

    tdg__text_init(&out, MAX_ARGUMENT);
    while (*text != '\0') {
        size_t len = strcspn(text + 1, "{") + 1;
        const char *value = variable_at(variables, text, &len);

        if (value == NULL) {
            tdg__text_add(&out, text, len);
        } else if (out.len == 0 && value[0] == '-') {
            tdg__text_done(&out);
            return TDG_ENOTFOUND;
        } else {
            tdg__text_put(&out, value);
        }
        text += len;
    }
    return finish(&out, ret);
}

static int shell_argv(const tdg__command_source_t *command, char **argv) {
    const char *const words[] = {"/bin/sh", "-c", command->argv[0]};
    int rv = 0;

    for (size_t i = 0; i < 3 && rv == 0; i++)
        rv = fill_in(words[i], NULL, &argv[i]);
    return rv;
}

int tdg__command_argv(const tdg__command_source_t *command, const char *uri,
                      char ***ret) {
    size_t count = count_of(command->argv);
    char **argv = tdg__calloc(count + 4, sizeof(*argv));
    tdg__variables_t *variables = NULL;
    int rv = 0;

    if (argv == NULL)
        return TDG_ENOMEM;
    if (command->shell)
        rv = shell_argv(command, argv);
    else
        rv = tdg__variables_create(command->source.template_, uri, strlen(uri),
                                   &variables);
    for (size_t i = 0; i < count && rv == 0 && !command->shell; i++)
        rv = fill_in(command->argv[i], variables, &argv[i]);
    tdg__variables_destroy(variables);
    if (rv == 0)
        *ret = argv;
    else
        tdg__free_strings(argv);
    return rv;
}

/* ---- Environment -------------------------------------------------------- */

struct env {
    char **list;
    size_t count, room;
};

/* Adds NAME=value, in the place of what had this name. */
static int env_set(struct env *env, const char *prefix, const char *name,
                   const char *value) {
    tdg__text_t text;
    size_t name_len, at = 0;
    char *entry = NULL;
    int rv;

    tdg__text_init(&text, MAX_ARGUMENT);
    tdg__text_format(&text, "%s%s", prefix, name);
    for (size_t i = strlen(prefix); i < text.len; i++) /* "a.b" is no name for a shell */
        if (prefix[0] != '\0' && !isalnum((unsigned char)text.data[i]))
            text.data[i] = '_';
    tdg__text_put(&text, "=");
    name_len = text.len;
    tdg__text_put(&text, value);
    rv = finish(&text, &entry);
    if (rv < 0)
        return rv;

    while (at < env->count && strncmp(env->list[at], entry, name_len) != 0)
        at++;
    if (at == env->room) {
        tdg__free(entry);
        return TDG_ENOMEM; /* cannot be: all are counted before */
    }
    tdg__free(env->list[at]);
    env->list[at] = entry;
    env->count += at == env->count;
    return 0;
}

static int env_add_variables(struct env *env, const tdg__template_t *template_,
                             const char *uri) {
    tdg__variables_t *variables;
    const char *part;
    size_t len;

    int rv = tdg__variables_create(template_, uri, strlen(uri), &variables);
    if (rv < 0 || variables == NULL)
        return rv;
    for (size_t i = 0; rv == 0 && (part = tdg__template_name(template_, i, &len)) != NULL;
         i++) {
        char name[256];

        snprintf(name, sizeof(name), "%.*s", (int)len, part);

        const char *value = tdg__variables_get(variables, name);

        rv = env_set(env, "TIDINGS_", name, value != NULL ? value : "");
    }
    tdg__variables_destroy(variables);
    return rv;
}

int tdg__command_env(const tdg__command_source_t *command, const char *uri, char ***ret) {
    size_t count = count_of(environ);
    struct env env = {.room = count + json_object_size(command->env) +
                              TDG__TEMPLATE_MAX_NAMES + 1};
    const char *name;
    json_t *value;
    int rv = 0;

    env.list = tdg__calloc(env.room + 1, sizeof(*env.list));
    if (env.list == NULL)
        return TDG_ENOMEM;
    for (; env.count < count && rv == 0; env.count++) {
        env.list[env.count] = tdg__strdup(environ[env.count]);
        if (env.list[env.count] == NULL)
            rv = TDG_ENOMEM;
    }
    json_object_foreach(command->env, name, value) {
        if (rv == 0)
            rv = env_set(&env, "", name, json_string_value(value));
    }
    if (rv == 0)
        rv = env_set(&env, "TIDINGS_", "URI", uri);
    if (rv == 0)
        rv = env_add_variables(&env, command->source.template_, uri);
    if (rv == 0)
        *ret = env.list;
    else
        tdg__free_strings(env.list);
    return rv;
}

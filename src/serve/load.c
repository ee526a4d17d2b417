/* SPDX-License-Identifier: MIT
 *
 * From a file and paths to sources. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/text.h"
#include "serve/serve.h"
#include "source/webhook.h"

enum { MAX_SOURCES = 10000 };

/* An entry for a path, as if it stood in a config. */
static char *entry_text(const char *path) {
    tdg__text_t text;

    tdg__text_init(&text, SIZE_MAX);
    tdg__text_put(&text, "{\"files\": ");

    /* "${" would be replaced from the environment; a JSON string is a YAML string. */
    tdg__text_t escaped;

    tdg__text_init(&escaped, SIZE_MAX);
    for (const char *at = path; *at != '\0'; at++) {
        if (at[0] == '$' && at[1] == '{')
            tdg__text_put(&escaped, "$");
        tdg__text_add(&escaped, at, 1);
    }
    if (escaped.error == 0)
        tdg__text_put_quoted(&text, escaped.data, escaped.len);
    else
        text.error = escaped.error;
    tdg__text_done(&escaped);
    tdg__text_put(&text, "}");
    if (text.error == 0)
        return text.data;
    tdg__text_done(&text);
    return NULL;
}

/* Whether the URIs that one entry lists by itself lie among those of the other: a folder
 * inside a folder. Both would list the same files, and one that goes would take them
 * along.
 */
static bool lies_inside(const tdg__source_t *inner, const tdg__source_t *outer) {
    const char *brace = strchr(outer->entry.uri, '{');
    size_t len = brace != NULL ? (size_t)(brace - outer->entry.uri) : 0;

    return (inner->kind->flags & outer->kind->flags & TDG__SOURCE_LISTS) != 0 &&
           len > 0 && strncmp(inner->entry.uri, outer->entry.uri, len) == 0;
}

/* Two entries cannot have the same URI. (Those of a template and of a resource may meet;
 * the resource has them then.) */
static int check_twice(const tdg__node_t *node, const tdg__source_t *source,
                       const tdg__live_entry_t *list, size_t count,
                       tdg__problems_t *problems) {
    const tdg__node_t *place = tdg__node_get(node, "uri");

    if (place == NULL)
        place = tdg__node_get(node, source->kind->name);
    for (size_t i = 0; i < count && source->entry.uri != NULL; i++) {
        const char *other = list[i].source->entry.uri;

        if (other == NULL)
            continue;
        if (strcmp(other, source->entry.uri) == 0) {
            tdg__node_problem(problems, place, "an entry before has the same URI");
            return TDG_EINVAL;
        }
        if (lies_inside(source, list[i].source) || lies_inside(list[i].source, source)) {
            tdg__node_problem(problems, place,
                              "this and an entry before serve the same files; a `uri` of "
                              "its own keeps them apart");
            return TDG_EINVAL;
        }
    }
    return 0;
}

/* Nor the same endpoint. */
static int check_path(const tdg__node_t *node, const tdg__source_t *source,
                      const tdg__live_entry_t *list, size_t count,
                      tdg__problems_t *problems) {
    const struct tdg__hook_ops *hook = source->kind->hook;

    for (size_t i = 0; i < count && hook != NULL; i++) {
        const tdg__source_t *other = list[i].source;

        if (other->kind->hook == NULL ||
            strcmp(other->kind->hook->path(other), hook->path(source)) != 0)
            continue;
        tdg__node_problem(problems, tdg__node_get(node, source->kind->name),
                          "an entry before has the same path");
        return TDG_EINVAL;
    }
    return 0;
}

static int add_entry(const tdg__node_t *node, tdg__problems_t *problems,
                     tdg__live_entry_t *list, size_t *count) {
    tdg__live_entry_t entry = {NULL, NULL};

    int rv = tdg__source_create(node, problems, &entry.source);
    if (rv < 0)
        return rv;
    rv = check_twice(node, entry.source, list, *count, problems);
    if (rv == 0)
        rv = check_path(node, entry.source, list, *count, problems);
    if (rv == 0) {
        entry.identity = tdg__live_identity(node);
        rv = entry.identity != NULL ? 0 : TDG_ENOMEM;
    }
    if (rv < 0) {
        tdg__source_destroy(entry.source);
        return rv;
    }
    list[(*count)++] = entry;
    return 0;
}

/* As it was given, not resolved: a link may lead to another file by the next reload. */
static int absolute_path(const char *path, char **ret) {
    char folder[PATH_MAX] = "";
    tdg__text_t text;

    if (path[0] != '/' && getcwd(folder, sizeof(folder)) == NULL)
        return TDG_ESYSTEM;
    tdg__text_init(&text, SIZE_MAX);
    tdg__text_put(&text, folder);
    tdg__text_put(&text, path[0] != '/' ? "/" : "");
    tdg__text_put(&text, path);
    if (text.error != 0) {
        tdg__text_done(&text);
        return TDG_ENOMEM;
    }
    *ret = text.data;
    return 0;
}

/* A path that does not exist yet is served once it does, as in a config. */
static int full_path(const char *path, tdg__problems_t *problems, char **ret) {
    char *full = realpath(path, NULL);
    int rv = 0;

    if (full != NULL) {
        *ret = tdg__strdup(full);
        rv = *ret != NULL ? 0 : TDG_ENOMEM;
        free(full);
    } else if (errno == ENOENT) {
        rv = absolute_path(path, ret);
    } else {
        rv = TDG_EINVAL;
    }
    if (rv == TDG_EINVAL || rv == TDG_ESYSTEM)
        tdg__problems_add(problems, 0, 0, "%s: %s", path, strerror(errno));
    if (rv == 0 && !tdg__utf8_is_valid(*ret, strlen(*ret))) {
        tdg__problems_add(problems, 0, 0, "%s: the path is not UTF-8", path);
        tdg__free(*ret);
        rv = TDG_EINVAL;
    }
    return rv;
}

static int add_path(const char *path, tdg__problems_t *problems, tdg__live_entry_t *list,
                    size_t *count) {
    tdg__node_t *node = NULL;
    tdg__problems_t own;
    char *full, *text;
    int rv = full_path(path, problems, &full);

    if (rv < 0)
        return rv;
    text = entry_text(full);
    tdg__free(full);
    tdg__problems_init(&own, NULL);
    rv = text != NULL ? tdg__node_read_text(text, strlen(text), &own, &node) : TDG_ENOMEM;
    tdg__free(text);
    if (rv == 0)
        rv = add_entry(node, &own, list, count);
    tdg__node_destroy(node);
    for (size_t i = 0; i < own.count; i++) /* nobody has seen the entry: no places */
        tdg__problems_add(problems, 0, 0, "%s: %s", path, own.list[i].text);
    tdg__problems_done(&own);
    return rv;
}

/* No entry may serve the config itself, which often has keys in it. */
static int keep_config_back(const char *config_file, tdg__problems_t *problems,
                            const tdg__live_entry_t *list, size_t count) {
    if (config_file == NULL || strcmp(config_file, "-") == 0)
        return 0;
    for (size_t i = 0; i < count; i++) {
        int rv = absolute_path(config_file, &list[i].source->never);

        if (rv == TDG_ESYSTEM)
            tdg__problems_add(problems, 0, 0, "the current folder is not known: %s",
                              strerror(errno));
        if (rv < 0)
            return rv;
    }
    return 0;
}

static size_t count_of(const char *const *paths) {
    size_t count = 0;

    while (paths != NULL && paths[count] != NULL)
        count++;
    return count;
}

/* Goes on after what is wrong, so that all of it is told; but not without memory. */
static void note(int rv, int *result) {
    if (rv < 0 && *result != TDG_ENOMEM)
        *result = rv;
}

int tdg__serve_load(const char *config_file, const char *const *paths,
                    tdg__problems_t *problems, tdg__config_t **ret_config,
                    tdg__live_entry_t **ret, size_t *ret_count) {
    const tdg__section_t *kinds = tdg__source_sections();
    tdg__live_entry_t *list = NULL;
    tdg__config_t *config = NULL;
    size_t count = 0, total;
    int result = config_file != NULL
                     ? tdg__config_read_file(config_file, kinds, problems, &config)
                     : tdg__config_read_text("", 0, kinds, problems, &config);

    if (config == NULL)
        return result;
    total = config->entry_count + count_of(paths);
    if (total > MAX_SOURCES) {
        tdg__problems_add(problems, 0, 0, "%zu entries are more than %d", total,
                          MAX_SOURCES);
        note(TDG_EINVAL, &result);
        goto fail;
    }
    if (total == 0 && result == 0) {
        tdg__problems_add(problems, 1, 1,
                          "nothing is served: there are no entries under `resources`; "
                          "`tidings init` writes a config to start from");
        note(TDG_EINVAL, &result);
        goto fail;
    }
    list = tdg__calloc(total + 1, sizeof(*list));
    if (list == NULL) {
        note(TDG_ENOMEM, &result);
        goto fail;
    }
    for (size_t i = 0; i < config->entry_count && result != TDG_ENOMEM; i++)
        note(add_entry(config->entries[i], problems, list, &count), &result);
    for (size_t i = 0; i < count_of(paths) && result != TDG_ENOMEM; i++)
        note(add_path(paths[i], problems, list, &count), &result);
    note(keep_config_back(config_file, problems, list, count), &result);
    if (result < 0)
        goto fail;
    *ret_config = config;
    *ret = list;
    *ret_count = count;
    return 0;

fail:
    tdg__live_free_entries(list, count);
    tdg__config_destroy(config);
    return result;
}

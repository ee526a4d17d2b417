/* SPDX-License-Identifier: MIT
 *
 * Creates the sources of a config file and of paths. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/text.h"
#include "serve/roster.h"
#include "serve/serve.h"
#include "source/push/webhook.h"

enum { MAX_SOURCES = 10000 };

/* Hands the text over. */
static int take(tdg__text_t *text, char **ret) {
    if (text->error != 0) {
        tdg__text_done(text);
        return TDG_ENOMEM;
    }
    *ret = text->data;
    return 0;
}

/* A path as a config would have it: "${" would be replaced from the environment. */
static int escape_path(const char *path, char **ret) {
    tdg__text_t text;

    tdg__text_init(&text, SIZE_MAX);
    for (const char *at = path; *at != '\0'; at++) {
        if (at[0] == '$' && at[1] == '{')
            tdg__text_put(&text, "$");
        tdg__text_add(&text, at, 1);
    }
    return take(&text, ret);
}

/* Where an entry of the roster stands. */
struct place {
    const tdg__source_t *source;
    const tdg__node_t *node; /* NULL: it was a path */
    const char *path;
    bool is_double; /* an entry before lists the same files */
};

/* Entries as they are read. The roster lacks those that cannot be compared with others:
 * their URI or endpoint holds a variable that is not set. */
struct loading {
    tdg__live_entry_t *list;
    size_t count;
    tdg__roster_t *roster;
    struct place *places; /* in the order of the roster */
    size_t place_count;
};

static const tdg__node_t *place_of(const tdg__node_t *node, const tdg__source_t *source) {
    const tdg__node_t *uri = tdg__node_get(node, "uri");

    return uri != NULL ? uri : tdg__node_get(node, source->kind->name);
}

/* Two entries cannot have the same URI, nor the same endpoint. (The URIs of a template
 * and of a resource may meet; the resource has them then.) */
static int check_twice(const tdg__node_t *node, const tdg__source_t *source,
                       const tdg__roster_t *roster, tdg__problems_t *problems) {
    const char *path = tdg__webhook_path(source);

    if (source->entry.uri != NULL &&
        tdg__roster_named(roster, source->entry.uri) != NULL) {
        tdg__node_problem(problems, place_of(node, source),
                          "an earlier entry has the same URI");
        return TDG_EINVAL;
    }
    if (path != NULL && tdg__roster_hook(roster, path) != NULL) {
        tdg__node_problem(problems, tdg__node_get(node, source->kind->name),
                          "an earlier entry has the same path");
        return TDG_EINVAL;
    }
    return 0;
}

static bool can_compare(const tdg__node_t *node, const tdg__source_t *source,
                        const tdg__problems_t *problems) {
    return !tdg__source_uri_is_unset(source, node, problems) &&
           (tdg__webhook_path(source) == NULL ||
            !tdg__source_main_is_unset(source, node, problems));
}

static int add_to_roster(struct loading *loading, const tdg__node_t *node,
                         tdg__source_t *source, tdg__problems_t *problems) {
    int rv = check_twice(node, source, loading->roster, problems);

    if (rv == 0)
        rv = tdg__roster_add(loading->roster, source);
    if (rv == 0)
        loading->places[loading->place_count++] =
            (struct place){.source = source, .node = node};
    return rv;
}

static int add_entry(struct loading *loading, const tdg__node_t *node,
                     tdg__problems_t *problems) {
    tdg__live_entry_t entry = {NULL, NULL};

    int rv = tdg__source_create(node, problems, &entry.source);
    if (rv < 0)
        return rv;
    entry.identity = tdg__live_identity(node);
    if (entry.identity == NULL)
        rv = TDG_ENOMEM;
    else if (can_compare(node, entry.source, problems))
        rv = add_to_roster(loading, node, entry.source, problems);
    if (rv < 0) {
        tdg__free(entry.identity);
        tdg__source_destroy(entry.source);
        return rv;
    }
    loading->list[loading->count++] = entry;
    return 0;
}

struct pair {
    struct loading *loading;
    size_t inner;
};

static void on_enclosing(void *arg, size_t outer) {
    const struct pair *pair = arg;

    pair->loading->places[outer > pair->inner ? outer : pair->inner].is_double = true;
}

/* A folder inside a folder: both would list the same files, and one that goes would take
 * them along. */
static int check_nested(struct loading *loading, tdg__problems_t *problems) {
    static const char text[] = "an earlier entry serves the same files; give one of them "
                               "its own `uri`";
    int rv = 0;

    for (size_t i = 0; i < loading->place_count; i++)
        tdg__roster_enclosing(loading->roster, loading->places[i].source, on_enclosing,
                              &(struct pair){loading, i});
    for (size_t i = 0; i < loading->place_count; i++) {
        const struct place *place = &loading->places[i];

        if (!place->is_double)
            continue;
        rv = TDG_EINVAL;
        if (place->node == NULL)
            tdg__problems_add(problems, 0, 0, "%s: files: %s", place->path, text);
        else
            tdg__node_problem(problems, place_of(place->node, place->source), "%s", text);
    }
    return rv;
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
    return take(&text, ret);
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

/* As if "files: PATH" stood in a config. */
static int add_path(struct loading *loading, const char *path,
                    tdg__problems_t *problems) {
    char key[] = "files", *full;
    tdg__node_t entry = {.kind = TDG__NODE_MAP, .line = 1, .column = 1};
    tdg__node_t value = {.kind = TDG__NODE_SCALAR, .key = key, .parent = &entry};
    tdg__problems_t own;
    int rv = full_path(path, problems, &full);

    if (rv < 0)
        return rv;
    entry.first = &value;
    tdg__problems_init(&own, NULL);
    rv = escape_path(full, &value.text);
    tdg__free(full);
    if (rv == 0)
        rv = add_entry(loading, &entry, &own);
    if (rv == 0) {
        loading->places[loading->place_count - 1].node = NULL;
        loading->places[loading->place_count - 1].path = path;
    }
    tdg__free(value.text);
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
        int rv = absolute_path(config_file, &list[i].source->config_path);

        if (rv == TDG_ESYSTEM)
            tdg__problems_add(problems, 0, 0, "cannot determine the current folder: %s",
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

/* Goes on after a problem, so that all are found; but not without memory. */
static void note(int rv, int *result) {
    if (rv < 0 && *result != TDG_ENOMEM)
        *result = rv;
}

static int begin_loading(struct loading *loading, size_t total) {
    loading->list = tdg__calloc(total + 1, sizeof(*loading->list));
    loading->places = tdg__calloc(total + 1, sizeof(*loading->places));
    loading->roster = tdg__roster_create(total);
    return loading->list != NULL && loading->places != NULL && loading->roster != NULL
               ? 0
               : TDG_ENOMEM;
}

static int check_total(size_t total, tdg__problems_t *problems) {
    if (total > MAX_SOURCES) {
        tdg__problems_add(problems, 0, 0, "%zu entries; the limit is %d", total,
                          MAX_SOURCES);
        return TDG_EINVAL;
    }
    if (total == 0) {
        tdg__problems_add(problems, 1, 1,
                          "nothing is served: there are no entries under `resources`; "
                          "`tidings init` writes a config to start from");
        return TDG_EINVAL;
    }
    return 0;
}

static int load_all(struct loading *loading, const tdg__config_t *config,
                    const char *const *paths, const char *config_file,
                    tdg__problems_t *problems) {
    int result = 0;

    for (size_t i = 0; i < config->entry_count && result != TDG_ENOMEM; i++)
        note(add_entry(loading, config->entries[i], problems), &result);
    for (size_t i = 0; i < count_of(paths) && result != TDG_ENOMEM; i++)
        note(add_path(loading, paths[i], problems), &result);
    note(check_nested(loading, problems), &result);
    note(keep_config_back(config_file, problems, loading->list, loading->count), &result);
    return result;
}

int tdg__serve_load(const char *config_file, const char *const *paths,
                    tdg__problems_t *problems, tdg__config_t **ret_config,
                    tdg__live_entry_t **ret, size_t *ret_count) {
    const tdg__section_t *kinds = tdg__source_sections();
    struct loading loading = {0};
    tdg__config_t *config = NULL;
    int result = config_file != NULL
                     ? tdg__config_read_file(config_file, kinds, problems, &config)
                     : tdg__config_read_text("", 0, kinds, problems, &config);

    if (config == NULL)
        return result;

    size_t total = config->entry_count + count_of(paths);
    if (result == 0 || total > MAX_SOURCES) /* else it was said what is wrong */
        note(check_total(total, problems), &result);
    if (total > 0 && total <= MAX_SOURCES) {
        int rv = begin_loading(&loading, total);

        if (rv == 0)
            rv = load_all(&loading, config, paths, config_file, problems);
        note(rv, &result);
    }
    tdg__roster_destroy(loading.roster);
    tdg__free(loading.places);
    if (result < 0) {
        if (loading.list != NULL)
            tdg__live_free_entries(loading.list, loading.count);
        tdg__config_destroy(config);
        return result;
    }
    *ret_config = config;
    *ret = loading.list;
    *ret_count = loading.count;
    return 0;
}

/* SPDX-License-Identifier: MIT */
#include "config/file.h"

#include <string.h>

#include <tidings/error.h>

#include "base/alloc.h"
#include "base/nearest.h"
#include "config/left_out.h"

enum { TOP, SERVER, PUBLISH }; /* positions in tdg__config_sections */

/* Only used with the tables of tdg__config_sections. */
typedef const tdg__option_t *const tables_t[2];

static const char *kind_at(const void *kinds, size_t i) {
    return ((const tdg__section_t *)kinds)[i].name;
}

static bool is_kind(const tdg__section_t *kinds, const char *name) {
    for (; kinds->name != NULL; kinds++)
        if (strcmp(kinds->name, name) == 0)
            return true;
    return false;
}

/* ---- Entries ------------------------------------------------------------- */

static int no_kind(const tdg__node_t *entry, const tdg__section_t *kinds,
                   tdg__problems_t *problems) {
    const tdg__node_t *child;
    tdg__text_t names;

    for (child = entry->first; child != NULL; child = child->next) {
        if (tdg__is_left_out_kind(child->key)) {
            tdg__node_key_problem(problems, child,
                                  "this build of tidings leaves out the kind %s",
                                  child->key);
            return TDG_EINVAL;
        }

        const char *nearest = tdg__nearest(child->key, kind_at, kinds);

        if (nearest == NULL)
            continue;
        tdg__node_key_problem(problems, child,
                              "unknown kind of resource; did you mean %s?", nearest);
        return TDG_EINVAL;
    }
    tdg__text_init(&names, 512);
    for (size_t i = 0; kinds[i].name != NULL; i++) {
        tdg__text_put(&names, i == 0 ? "" : kinds[i + 1].name == NULL ? " or " : ", ");
        tdg__text_put(&names, kinds[i].name);
    }
    tdg__node_problem(problems, entry, "this entry has no kind of resource; it needs %s",
                      names.error == 0 && names.len > 0 ? names.data : "one");
    tdg__text_done(&names);
    return TDG_EINVAL;
}

static int check_entry(const tdg__node_t *entry, const tdg__section_t *kinds,
                       tdg__problems_t *problems) {
    const tdg__node_t *child, *kind = NULL;
    int rv = 0;

    if (entry->kind != TDG__NODE_MAP) {
        tdg__node_problem(
            problems, entry,
            "this is not a map; an entry is a kind with its value and options, "
            "such as files: docs");
        return TDG_EINVAL;
    }
    for (child = entry->first; child != NULL; child = child->next) {
        if (!is_kind(kinds, child->key))
            continue;
        if (kind != NULL) {
            tdg__node_key_problem(problems, child,
                                  "the entry is of the kind %s already; begin another "
                                  "entry with a dash",
                                  kind->key);
            rv = TDG_EINVAL;
        } else {
            kind = child;
        }
    }
    return kind != NULL ? rv : no_kind(entry, kinds, problems);
}

static int read_entries(tdg__config_t *config, const tdg__node_t *list,
                        const tdg__section_t *kinds, tdg__problems_t *problems) {
    const tdg__node_t *entry;
    size_t count = 0;
    int rv = 0;

    if (list == NULL || tdg__node_is_null(list))
        return 0;
    if (list->kind != TDG__NODE_LIST) {
        tdg__node_problem(problems, list,
                          "this is not a list; each entry begins with a dash, such as "
                          "- files: docs");
        return TDG_EINVAL;
    }
    for (entry = list->first; entry != NULL; entry = entry->next)
        count++;
    config->entries = tdg__calloc(count + 1, sizeof(*config->entries));
    if (config->entries == NULL)
        return TDG_ENOMEM;
    for (entry = list->first; entry != NULL; entry = entry->next) {
        if (check_entry(entry, kinds, problems) < 0)
            rv = TDG_EINVAL;
        else
            config->entries[config->entry_count++] = entry;
    }
    return rv;
}

/* ---- Sections ------------------------------------------------------------ */

/* What may stand at the top, besides the options there. */
static const char *const parts[] = {"server", "publish", "resources", "reload-on-change",
                                    NULL};

static bool is_part(const char *name) {
    for (size_t i = 0; parts[i] != NULL; i++)
        if (strcmp(parts[i], name) == 0)
            return true;
    return false;
}

static int check_top(const tdg__node_t *tree, const tdg__section_t *kinds,
                     tdg__problems_t *problems) {
    const tdg__node_t *child;
    int rv = 0;

    if (tree->kind != TDG__NODE_MAP) {
        tdg__node_problem(problems, tree,
                          "this is not a config; its top level has server:, publish: and "
                          "resources:");
        return TDG_EINVAL;
    }
    for (child = tree->first; child != NULL; child = child->next) {
        const char *nearest = tdg__nearest_of(child->key, parts);

        if (is_part(child->key))
            continue;
        rv = TDG_EINVAL;
        if (is_kind(kinds, child->key))
            tdg__node_key_problem(problems, child,
                                  "this belongs in an entry of resources:, as - %s: …",
                                  child->key);
        else if (nearest != NULL)
            tdg__node_key_problem(problems, child, "unknown section; did you mean %s?",
                                  nearest);
        else
            tdg__node_key_problem(problems, child,
                                  "unknown section; the sections are server, publish, "
                                  "resources and reload-on-change");
    }
    return rv;
}

/* A map of the options at the top alone, for tdg__options_read(). */
static int read_top(tdg__config_t *config, const tdg__node_t *tree,
                    tdg__problems_t *problems) {
    tables_t tables = {tdg__config_sections[TOP].options, NULL};
    tdg__node_t only = {.kind = TDG__NODE_MAP};
    const tdg__node_t *node = tdg__node_get(tree, tables[0]->name);
    tdg__node_t copy;

    if (node != NULL) {
        copy = *node;
        copy.next = NULL;
        only.first = &copy;
    }
    return tdg__options_read(tables, &only, config, problems);
}

static int read_publish(tdg__config_t *config, const tdg__node_t *section,
                        tdg__problems_t *problems) {
    tables_t tables = {tdg__config_sections[PUBLISH].options, NULL};
    int rv = tdg__options_read(tables, section, config, problems);

    if (config->publish.key != NULL && config->publish.key[0] == '\0')
        return tdg__node_option_problem(
            problems, section, "key", "the key is empty; set one that nobody can guess");
    return rv;
}

static int read_server(tdg__config_t *config, const tdg__node_t *section,
                       tdg__problems_t *problems) {
    tables_t tables = {tdg__config_sections[SERVER].options, NULL};
    int rv = tdg__options_read(tables, section, config, problems);
    int derived = 0;

    /* An option that is wrong has its default here, so the others can be judged. */
    if (rv != TDG_ENOMEM)
        derived = tdg__config_finish_server(config, section, rv == 0, problems);
    return rv < 0 && derived != TDG_ENOMEM ? rv : derived;
}

static int read_parts(tdg__config_t *config, const tdg__section_t *kinds,
                      tdg__problems_t *problems) {
    const tdg__node_t *tree = config->tree;
    int worst = 0;
    int codes[] = {
        check_top(tree, kinds, problems),
        read_top(config, tree, problems),
        read_server(config, tdg__node_get(tree, "server"), problems),
        read_publish(config, tdg__node_get(tree, "publish"), problems),
        read_entries(config, tdg__node_get(tree, "resources"), kinds, problems),
    };

    for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++)
        if (codes[i] < 0 && worst != TDG_ENOMEM)
            worst = codes[i];
    return worst;
}

/* ---- The file ------------------------------------------------------------ */

void tdg__config_destroy(tdg__config_t *config) {
    if (config == NULL)
        return;
    for (const tdg__section_t *part = tdg__config_sections; part->name != NULL; part++)
        tdg__options_done((tables_t){part->options, NULL}, config);
    tdg__free(config->listen);
    tdg__free(config->entries);
    tdg__node_destroy(config->tree);
    tdg__free(config);
}

/* `rv` is what came of reading the tree, which is stolen. */
static int read_tree(int rv, tdg__node_t *tree, const tdg__section_t *kinds,
                     tdg__problems_t *problems, tdg__config_t **ret) {
    tdg__config_t *config;

    *ret = NULL;
    if (rv < 0)
        return rv;
    config = tdg__calloc(1, sizeof(*config));
    if (config == NULL) {
        tdg__node_destroy(tree);
        return TDG_ENOMEM;
    }
    config->tree = tree;
    rv = read_parts(config, kinds, problems);
    if (rv == TDG_ENOMEM)
        tdg__config_destroy(config);
    else
        *ret = config;
    return rv;
}

int tdg__config_read_text(const char *text, size_t len, const tdg__section_t *kinds,
                          tdg__problems_t *problems, tdg__config_t **ret) {
    tdg__node_t *tree = NULL;
    int rv = tdg__node_read_text(text, len, problems, &tree);

    return read_tree(rv, tree, kinds, problems, ret);
}

int tdg__config_read_file(const char *path, const tdg__section_t *kinds,
                          tdg__problems_t *problems, tdg__config_t **ret) {
    tdg__node_t *tree = NULL;
    int rv = tdg__node_read_file(path, problems, &tree);

    return read_tree(rv, tree, kinds, problems, ret);
}

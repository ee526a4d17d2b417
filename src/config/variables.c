/* SPDX-License-Identifier: MIT
 *
 * The environment variables that a config uses, for hosts that start tidings. */
#include <string.h>

#include "config/file.h"
#include "config/value.h"

struct walk {
    void (*visit)(void *arg, const char *name);
    void *arg;
};

static void walk_values(const struct walk *walk, const tdg__node_t *node) {
    if (node->kind == TDG__NODE_SCALAR)
        tdg__expand_names(node->text, walk->visit, walk->arg);
    for (const tdg__node_t *child = node->first; child != NULL; child = child->next)
        walk_values(walk, child);
}

/* The options of its kind; the common ones are not among them, and none is raw. */
static const tdg__option_t *options_of(const tdg__node_t *entry,
                                       const tdg__section_t *kinds) {
    for (; kinds->name != NULL; kinds++)
        if (tdg__node_get(entry, kinds->name) != NULL)
            return kinds->options;
    return NULL;
}

static bool is_raw(const tdg__option_t *options, const char *name) {
    const tdg__option_t *const tables[] = {options, NULL};
    const tdg__option_t *option = options != NULL ? tdg__option_find(tables, name) : NULL;

    return option != NULL && (option->flags & TDG__OPTION_RAW) != 0;
}

void tdg__config_variables(const tdg__config_t *config, const tdg__section_t *kinds,
                           void (*visit)(void *arg, const char *name), void *arg) {
    const struct walk walk = {visit, arg};

    for (const tdg__node_t *part = config->tree->first; part != NULL; part = part->next)
        if (strcmp(part->key, "resources") != 0)
            walk_values(&walk, part);
    for (size_t i = 0; i < config->entry_count; i++) {
        const tdg__option_t *options = options_of(config->entries[i], kinds);

        for (const tdg__node_t *value = config->entries[i]->first; value != NULL;
             value = value->next)
            if (!is_raw(options, value->key))
                walk_values(&walk, value);
    }
}

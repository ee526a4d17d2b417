/* SPDX-License-Identifier: MIT
 *
 * Adds to a catalogue from the structs of the public header, as the server does. */
#ifndef TDG_TESTS_ENTRIES_H
#define TDG_TESTS_ENTRIES_H

#include "server/catalogue/catalogue.h"

static inline int catalogue_add_resource(tdg__catalogue_t *catalogue,
                                         const tdg_resource_t *resource) {
    tdg__entry_t *entry;
    int rv = tdg__entry_from_resource(resource, &entry);

    return rv < 0 ? rv : tdg__catalogue_add(catalogue, entry);
}

static inline int catalogue_add_template(tdg__catalogue_t *catalogue,
                                         const tdg_template_t *template_) {
    tdg__entry_t *entry;
    int rv = tdg__entry_from_template(template_, &entry);

    return rv < 0 ? rv : tdg__catalogue_add(catalogue, entry);
}

static inline int catalogue_add_tool(tdg__catalogue_t *catalogue,
                                     const tdg_tool_t *tool) {
    tdg__entry_t *entry;
    int rv = tdg__entry_from_tool(tool, &entry);

    return rv < 0 ? rv : tdg__catalogue_add(catalogue, entry);
}

static inline int catalogue_add_prompt(tdg__catalogue_t *catalogue,
                                       const tdg_prompt_t *prompt) {
    tdg__entry_t *entry;
    int rv = tdg__entry_from_prompt(prompt, &entry);

    return rv < 0 ? rv : tdg__catalogue_add(catalogue, entry);
}

#endif

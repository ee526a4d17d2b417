/* SPDX-License-Identifier: MIT
 *
 * Resources that exist only through publishing: POST /publish and `tidings publish`. They
 * end with the process. */
#include "base/alloc.h"
#include "source/common/source.h"

struct memory {
    tdg__source_t source;
    char *uri;
    int64_t max_items, max_total;
};

#define AT(field) offsetof(struct memory, field)

static const tdg__option_t options[] = {
    TDG__OPTION(
        STRING, uri, "memory", .flags = TDG__OPTION_REQUIRED, .example = "build://{job}",
        .help = "The URI, or a URI template for many, whose content is published."),
    TDG__OPTION(NUMBER, max_items, "max-items", .fallback = "10000", .min = 1,
                .max = 1000000, .example = "1000",
                .help = "Maximum number of resources of a template."),
    TDG__OPTION(SIZE, max_total, "max-total", .fallback = "64MiB", .min = 1,
                .max = (int64_t)1 << 40, .example = "16MiB",
                .help = "Maximum size of all their contents together."),
    {.name = NULL},
};

static int check(tdg__source_t *source, const tdg__node_t *node,
                 tdg__problems_t *problems) {
    struct memory *memory = (struct memory *)source;
    const tdg__node_t *uri = tdg__node_get(node, "uri");

    if (uri != NULL) {
        tdg__node_key_problem(problems, uri, "a memory entry has its URI after memory:");
        return TDG_EINVAL;
    }
    source->entry.uri = tdg__strdup(memory->uri);
    if (source->entry.uri == NULL)
        return TDG_ENOMEM;
    source->max_items = memory->max_items;
    source->max_total = memory->max_total;
    return 0;
}

const tdg__source_kind_t tdg__source_memory = {
    .name = "memory",
    .help = "Keeps published content in memory.",
    .options = options,
    .flags = TDG__SOURCE_NO_URI | TDG__SOURCE_PUSHED | TDG__SOURCE_PUBLISH,
    .size = sizeof(struct memory),
    .check = check,
};

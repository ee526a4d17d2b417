/* SPDX-License-Identifier: MIT */
#include "source/common/source.h"

/* Kinds that a build may leave out; config/left_out.c has their names. */
#ifdef TDG_WITHOUT_POSTGRES
#define POSTGRES(X)
#else
#define POSTGRES(X) X(postgres)
#endif
#ifdef TDG_WITHOUT_HTTP_SOURCE
#define HTTP(X)
#else
#define HTTP(X) X(http)
#endif
#ifdef TDG_WITHOUT_SQLITE
#define SQLITE(X)
#else
#define SQLITE(X) X(sqlite)
#endif

/* One word per kind, in the order of the reference. */
#define KINDS(X)                                                                         \
    X(files) POSTGRES(X) HTTP(X) X(webhook) X(command) SQLITE(X) X(logs) X(memory)

#define DECLARE(name) extern const tdg__source_kind_t tdg__source_##name;
KINDS(DECLARE)

#define ROW(name) &tdg__source_##name,
const tdg__source_kind_t *const tdg__source_kinds[] = {KINDS(ROW) NULL};

enum { COUNT = sizeof(tdg__source_kinds) / sizeof(tdg__source_kinds[0]) };

const tdg__section_t *tdg__source_sections(void) {
    static tdg__section_t sections[COUNT];

    for (size_t i = 0; tdg__source_kinds[i] != NULL; i++) {
        const tdg__source_kind_t *kind = tdg__source_kinds[i];

        sections[i] = (tdg__section_t){.name = kind->name,
                                       .help = kind->help,
                                       .options = kind->options,
                                       .uri = kind->uri_example};
        if ((kind->flags & TDG__SOURCE_NO_URI) == 0 && kind->uri_example == NULL)
            sections[i].uri = "";
    }
    return sections;
}

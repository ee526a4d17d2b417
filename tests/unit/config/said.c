/* SPDX-License-Identifier: MIT */
#include "said.h"

#include <stdio.h>
#include <stdlib.h>

#include "support.h"

char *said(tdg__problems_t *problems) {
    char *text;
    size_t size;
    FILE *out = open_memstream(&text, &size);

    assert_non_null(out);
    tdg__problems_sort(problems);
    for (size_t i = 0; i < problems->count; i++)
        fprintf(out, "%s%u:%u: %s", i > 0 ? "\n" : "", problems->list[i].line,
                problems->list[i].column, problems->list[i].text);
    fclose(out);
    return text;
}

/* SPDX-License-Identifier: MIT */
#include "serve/config.h"

#include <tidings/tidings.h>

#include "command.h"
#include "source/common/source.h"

enum { MAX_REFERENCE = 1 << 20 };

void cli_print_problems(tdg__problems_t *problems, FILE *out) {
    tdg__problems_sort(problems);
    for (size_t i = 0; i < problems->count; i++) {
        const tdg__problem_t *problem = &problems->list[i];

        if (problem->line > 0)
            fprintf(out, "%s:%u:%u: %s\n", problems->file, problem->line, problem->column,
                    problem->text);
        else
            fprintf(out, "%s: %s\n", problems->file, problem->text);
    }
    if (problems->left_out > 0)
        fprintf(out, "%s: and %zu more\n", problems->file, problems->left_out);
}

int cli_print_reference(tdg__reference_format_t format) {
    int exit_code = CLI_OK;
    tdg__text_t text;

    tdg__text_init(&text, MAX_REFERENCE);
    tdg__reference_write(format, tdg__source_options, tdg__source_sections(), &text);
    if (text.error < 0)
        exit_code = cli_error("help: %s", tdg_strerror(text.error));
    else
        fputs(text.data, stdout);
    tdg__text_done(&text);
    return exit_code;
}

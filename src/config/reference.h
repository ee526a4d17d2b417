/* SPDX-License-Identifier: MIT
 *
 * The tables of options as documentation: plain text for the terminal, Markdown for
 * docs/config.md, mdoc for the man page, and a config file to start from. */
#ifndef TDG_CONFIG_REFERENCE_H
#define TDG_CONFIG_REFERENCE_H

#include "config/option.h"

typedef enum tdg__reference_format {
    TDG__REFERENCE_TEXT,
    TDG__REFERENCE_MARKDOWN,
    TDG__REFERENCE_MDOC,
} tdg__reference_format_t;

/* Writes everything that a config file may hold: the sections of file.h, what every entry
 * of `resources` may hold (`common`), and what each of `kinds` may hold besides; the last
 * of them has no name. Ask out->error afterwards. */
void tdg__reference_write(tdg__reference_format_t format, const tdg__option_t *common,
                          const tdg__section_t *kinds, tdg__text_t *out);

/* Writes a config file to start from. One folder is served (where there is a kind
 * `files`); everything else is there as a comment: prose as `# text`, examples as
 * `#name: value`, so that taking away every # that no space or two spaces follow leaves a
 * file that is right as well. A build without YAML writes JSON, with nothing but the
 * folder. (starter.c, starter_json.c) */
void tdg__starter_write(const tdg__option_t *common, const tdg__section_t *kinds,
                        tdg__text_t *out);

/* Breaks a text into lines of at most `width` columns, each after `indent`. (wrap.c) */
void tdg__wrap(const char *text, const char *indent, size_t width, tdg__text_t *out);

#endif

/* SPDX-License-Identifier: MIT
 *
 * The file that `tidings init` writes in a build without YAML: JSON has no comments to
 * show the options in. */
#include "config/reference.h"

void tdg__starter_write(const tdg__option_t *common, const tdg__section_t *kinds,
                        tdg__text_t *out) {
    (void)common, (void)kinds;
    tdg__text_put(out, "{\n  \"resources\": [\n    {\"files\": \".\"}\n  ]\n}\n");
}

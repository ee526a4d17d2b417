/* SPDX-License-Identifier: MIT
 *
 * The revisions of the protocol that we speak, oldest first, and in what they differ. */
#ifndef TDG_MCP_VERSION_H
#define TDG_MCP_VERSION_H

#include <stdbool.h>

#include <jansson.h>

typedef enum tdg__version {
    TDG__V_UNKNOWN,
    TDG__V2024_11_05,
    TDG__V2025_03_26,
    TDG__V2025_06_18,
    TDG__V2025_11_25,
    TDG__V2026_07_28,
    TDG__V_COUNT,
} tdg__version_t;

#define TDG__V_LATEST_LEGACY TDG__V2025_11_25
#define TDG__V_MODERN TDG__V2026_07_28

tdg__version_t tdg__version_from_text(const char *text); /* exactly; NULL is UNKNOWN */
const char *tdg__version_text(tdg__version_t version);

/* Those of the eras that are spoken, as texts, latest first; new, NULL: no memory. */
json_t *tdg__versions_list(bool legacy, bool modern);

static inline bool tdg__version_modern(tdg__version_t version) {
    return version >= TDG__V2026_07_28;
}

#endif

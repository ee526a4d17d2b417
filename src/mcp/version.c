/* SPDX-License-Identifier: MIT */
#include "mcp/version.h"

#include <stddef.h>
#include <string.h>

static const char *const texts[TDG__V_COUNT] = {
    [TDG__V2024_11_05] = "2024-11-05", [TDG__V2025_03_26] = "2025-03-26",
    [TDG__V2025_06_18] = "2025-06-18", [TDG__V2025_11_25] = "2025-11-25",
    [TDG__V2026_07_28] = "2026-07-28",
};

tdg__version_t tdg__version_from_text(const char *text) {
    if (text == NULL)
        return TDG__V_UNKNOWN;

    for (int v = TDG__V_UNKNOWN + 1; v < TDG__V_COUNT; v++) {
        if (strcmp(text, texts[v]) == 0)
            return (tdg__version_t)v;
    }
    return TDG__V_UNKNOWN;
}

const char *tdg__version_text(tdg__version_t version) {
    return version > TDG__V_UNKNOWN && version < TDG__V_COUNT ? texts[version] : NULL;
}

json_t *tdg__versions_list(bool legacy, bool modern) {
    json_t *list = json_array();

    for (int v = TDG__V_COUNT - 1; v > TDG__V_UNKNOWN; v--) {
        if (!(tdg__version_modern((tdg__version_t)v) ? modern : legacy))
            continue;
        if (json_array_append_new(list, json_string(texts[v])) < 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

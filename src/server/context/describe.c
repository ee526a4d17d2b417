/* SPDX-License-Identifier: MIT */
#include "server/context/context.h"

void tdg__server_describe(const tdg_server_t *server, tdg__server_info_t *ret) {
    unsigned flags = server->opts.flags;

    *ret = (tdg__server_info_t){
        .name = server->opts.name,
        .title = server->opts.title,
        .version = server->opts.version,
        .instructions = server->opts.instructions,
        .legacy = (flags & TDG_NO_LEGACY) == 0,
        .modern = (flags & TDG_NO_MODERN) == 0,
        .subscribe = (flags & TDG_NO_SUBSCRIBE) == 0,
        .list_changed = (flags & TDG_NO_LIST_CHANGED) == 0,
        .logging = (flags & TDG_NO_LOGGING) == 0,
        .completions = tdg__catalogue_completes(server->catalogue),
        .tools = (flags & TDG_OFFERS_TOOLS) != 0 ||
                 tdg__catalogue_ever_had(server->catalogue, TDG__TOOL),
        .prompts = (flags & TDG_OFFERS_PROMPTS) != 0 ||
                   tdg__catalogue_ever_had(server->catalogue, TDG__PROMPT),
        .resources = true,
    };
}

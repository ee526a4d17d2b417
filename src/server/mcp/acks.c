/* SPDX-License-Identifier: MIT */
#include "server/mcp/acks.h"

#include <string.h>

#include "base/alloc.h"

struct tdg__acked {
    tdg__acked_t *next;
    tdg__target_t target;
    char name[];
};

bool tdg__acks_add(tdg__acked_t **acks, const tdg__target_t *target) {
    tdg__acked_t *ack = tdg__malloc(sizeof(*ack) + target->len + 1);

    if (ack == NULL)
        return false;
    memcpy(ack->name, target->name, target->len);
    ack->name[target->len] = '\0';
    ack->target = (tdg__target_t){target->kind, ack->name, target->len};
    ack->next = *acks;
    *acks = ack;
    return true;
}

void tdg__acks_remove(tdg__acked_t **acks, const tdg__target_t *target) {
    while (*acks != NULL) {
        tdg__acked_t *ack = *acks;

        if (tdg__target_equal(&ack->target, target)) {
            *acks = ack->next;
            tdg__free(ack);
        } else {
            acks = &ack->next;
        }
    }
}

void tdg__acks_settle(tdg__acked_t **acks, tdg__engine_t *engine, tdg__stream_t stream) {
    while (*acks != NULL) {
        tdg__acked_t *ack = *acks;

        *acks = ack->next;
        if (engine != NULL)
            tdg__engine_acknowledge(engine, stream, &ack->target);
        tdg__free(ack);
    }
}

void tdg__acks_drop(tdg__acked_t **acks) {
    tdg__acks_settle(acks, NULL, 0);
}

/* SPDX-License-Identifier: MIT */
#include "base/target.h"

#include <string.h>

#include "base/alloc.h"

bool tdg__same_target(const tdg_target_t *a, const tdg_target_t *b) {
    return a->kind == b->kind && strcmp(a->name, b->name) == 0;
}

tdg_target_t *tdg__copy_target(const tdg_target_t *target) {
    size_t size = strlen(target->name) + 1;
    tdg_target_t *copy = tdg__malloc(sizeof(*copy) + size);

    if (copy == NULL)
        return NULL;
    copy->kind = target->kind;
    copy->name = memcpy(copy + 1, target->name, size);
    return copy;
}

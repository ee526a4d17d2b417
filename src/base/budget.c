/* SPDX-License-Identifier: MIT */
#include "base/budget.h"

#include <assert.h>
#include <stdatomic.h>

#include "base/alloc.h"

struct tdg__budget {
    atomic_size_t refs;
    atomic_size_t used;
    atomic_size_t reserved;
    atomic_uint refusals;
    size_t max;
};

tdg__budget_t *tdg__budget_create(size_t max_bytes) {
    tdg__budget_t *budget = tdg__malloc(sizeof(*budget));

    if (budget == NULL)
        return NULL;
    atomic_init(&budget->refs, 1);
    atomic_init(&budget->used, 0);
    atomic_init(&budget->reserved, 0);
    atomic_init(&budget->refusals, 0);
    budget->max = max_bytes;
    return budget;
}

tdg__budget_t *tdg__budget_ref(tdg__budget_t *budget) {
    atomic_fetch_add_explicit(&budget->refs, 1, memory_order_relaxed);
    return budget;
}

void tdg__budget_unref(tdg__budget_t *budget) {
    if (budget != NULL &&
        atomic_fetch_sub_explicit(&budget->refs, 1, memory_order_acq_rel) == 1) {
        assert(atomic_load(&budget->used) == 0);
        assert(atomic_load(&budget->reserved) == 0);
        tdg__free(budget);
    }
}

/* Whether so many bytes fit in beside those that others have; counts where not. */
static bool fits(tdg__budget_t *budget, size_t others, size_t bytes) {
    if (others == 0 || (others < budget->max && bytes <= budget->max - others))
        return true;
    atomic_fetch_add_explicit(&budget->refusals, 1, memory_order_relaxed);
    return false;
}

static void subtract(atomic_size_t *total, size_t bytes) {
    size_t before = atomic_fetch_sub_explicit(total, bytes, memory_order_relaxed);

    assert(before >= bytes);
    (void)before;
}

bool tdg__budget_exchange(tdg__budget_t *budget, size_t before, size_t bytes) {
    size_t used = atomic_load_explicit(&budget->used, memory_order_relaxed);
    size_t others;

    do {
        assert(used >= before);
        others = used - before;
        if (!fits(budget, others, bytes))
            return false;
    } while (!atomic_compare_exchange_weak_explicit(&budget->used, &used, others + bytes,
                                                    memory_order_relaxed,
                                                    memory_order_relaxed));
    return true;
}

bool tdg__budget_take(tdg__budget_t *budget, size_t bytes) {
    return tdg__budget_exchange(budget, 0, bytes);
}

void tdg__budget_give(tdg__budget_t *budget, size_t bytes) {
    subtract(&budget->used, bytes);
}

void tdg__budget_overdraw(tdg__budget_t *budget, size_t bytes) {
    atomic_fetch_add_explicit(&budget->used, bytes, memory_order_relaxed);
}

size_t tdg__budget_used(tdg__budget_t *budget) {
    return atomic_load_explicit(&budget->used, memory_order_relaxed);
}

bool tdg__budget_reserve(tdg__budget_t *budget, size_t bytes) {
    size_t reserved = atomic_load_explicit(&budget->reserved, memory_order_relaxed);
    size_t others;

    do {
        others = tdg__budget_used(budget) + (bytes > 0 ? reserved : 0);
        if (!fits(budget, others, bytes))
            return false;
    } while (!atomic_compare_exchange_weak_explicit(
        &budget->reserved, &reserved, reserved + bytes, memory_order_relaxed,
        memory_order_relaxed));
    return true;
}

void tdg__budget_unreserve(tdg__budget_t *budget, size_t bytes) {
    subtract(&budget->reserved, bytes);
}

size_t tdg__budget_reserved(tdg__budget_t *budget) {
    return atomic_load_explicit(&budget->reserved, memory_order_relaxed);
}

unsigned tdg__budget_refusals(tdg__budget_t *budget) {
    return atomic_load_explicit(&budget->refusals, memory_order_relaxed);
}

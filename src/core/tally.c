/* SPDX-License-Identifier: MIT
 *
 * The number of subscriptions, and the bytes of their targets: of one engine, or of
 * several on different threads. Changed by a subscribe or unsubscribe, never by a
 * delivery. */
#include "core/internal.h"

#include <assert.h>

/* Adds so many unless that would exceed `max`: exact, whichever threads add. */
static bool add_within(atomic_uint_fast64_t *count, uint64_t more, uint64_t max) {
    uint_fast64_t before = atomic_load_explicit(count, memory_order_relaxed);

    do {
        if (before > max || more > max - before)
            return false;
    } while (!atomic_compare_exchange_weak_explicit(
        count, &before, before + more, memory_order_relaxed, memory_order_relaxed));
    return true;
}

static void subtract(atomic_uint_fast64_t *count, uint64_t less) {
    atomic_fetch_sub_explicit(count, less, memory_order_relaxed);
}

bool tdg__tally_take(tdg__engine_t *engine, uint32_t subscriptions, size_t bytes) {
    uint64_t max_bytes =
        engine->opts.max_total_bytes == 0 ? UINT64_MAX : engine->opts.max_total_bytes;

    if (subscriptions > 0 &&
        !add_within(&engine->tally->subscriptions, subscriptions, engine->opts.max_total))
        return false;
    if (bytes > 0 && !add_within(&engine->tally->bytes, bytes, max_bytes)) {
        subtract(&engine->tally->subscriptions, subscriptions);
        return false;
    }
    engine->subscribed_bytes += bytes;
    return true;
}

void tdg__tally_give(tdg__engine_t *engine, uint64_t subscriptions, size_t bytes) {
    assert(bytes <= engine->subscribed_bytes);
    if (subscriptions > 0)
        subtract(&engine->tally->subscriptions, subscriptions);
    if (bytes > 0)
        subtract(&engine->tally->bytes, bytes);
    engine->subscribed_bytes -= bytes;
}

/* SPDX-License-Identifier: MIT */
#include "client/lifesign.h"

void tdg__lifesign_init(tdg__lifesign_t *life, int64_t now_ms) {
    *life = (tdg__lifesign_t){.sign_ms = now_ms, .message_ms = INT64_MIN};
}

void tdg__lifesign_message(tdg__lifesign_t *life, int64_t now_ms) {
    life->message_ms = now_ms;
}

bool tdg__lifesign_seen(tdg__lifesign_t *life, int64_t now_ms, uint32_t *ret_quiet_ms) {
    int64_t pause = now_ms - life->sign_ms;
    bool silent = pause >= TDG__LIFESIGN_PAUSE_MS;
    bool keepalive;
    int64_t quiet;

    /* Whether a sign stands alone shows when the next one comes: the message that it
     * belongs to may follow it in the same moment, or some pieces later. */
    keepalive = silent && life->candidate && life->message_ms < life->sign_ms;
    if (keepalive)
        life->count++;
    if (pause > life->largest_ms)
        life->largest_ms = pause;
    if (pause > 0) {
        life->candidate = silent;
        life->sign_ms = now_ms;
    }

    if (life->count >= TDG__LIFESIGN_ENOUGH) {
        quiet = life->largest_ms > TDG__LIFESIGN_MOST_MS / TDG__LIFESIGN_TIMES
                    ? TDG__LIFESIGN_MOST_MS
                    : life->largest_ms * TDG__LIFESIGN_TIMES;
        life->quiet_ms =
            (uint32_t)(quiet < TDG__LIFESIGN_LEAST_MS ? TDG__LIFESIGN_LEAST_MS : quiet);
    }
    *ret_quiet_ms = life->quiet_ms;
    return keepalive;
}

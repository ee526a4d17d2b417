/* SPDX-License-Identifier: MIT
 *
 * Cursors and event ids as text. A cursor is "EPOCH-NUMBER", epoch in hexadecimal, number
 * in decimal. An event id of a legacy stream is unique in its session and names stream,
 * event and cursor: "g3.17.EPOCH-NUMBER" for a GET stream; "p5.2" for the second message
 * on the stream of the fifth POST, whose messages are kept.
 *
 * Reading is strict: exactly what was written, so there is one text for each value. */
#ifndef TDG_MCP_CURSOR_H
#define TDG_MCP_CURSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    TDG__CURSOR_MAX = 16 + 1 + 20,
    TDG__EVENT_ID_MAX = 1 + 20 + 1 + 20 + 1 + TDG__CURSOR_MAX,
};

/* Writes the text without NUL; returns its length. */
size_t tdg__cursor_put(char *out, uint64_t epoch, uint64_t number);

/* Returns 0 or TDG_EINVAL. */
int tdg__cursor_read(const char *text, uint64_t *ret_epoch, uint64_t *ret_number);

typedef struct tdg__event_id {
    bool post; /* on the stream of a POST */
    uint64_t stream;
    uint64_t event;
    uint64_t epoch, number; /* GET streams only; 0 otherwise */
} tdg__event_id_t;

size_t tdg__event_id_put(char *out, const tdg__event_id_t *id);
int tdg__event_id_read(const char *text, tdg__event_id_t *ret); /* 0 or TDG_EINVAL */

#endif

/* SPDX-License-Identifier: MIT
 *
 * Listen streams of the modern era (modern_streams.c), their requests (modern_listen.c)
 * and their acknowledgements (modern_ack.c). */
#ifndef TDG_CLIENT_MODERN_STREAMS_H
#define TDG_CLIENT_MODERN_STREAMS_H

#include "client/subs/groups.h"

struct tdg__sub_stream {
    tdg__core_t *core;
    tdg__sub_group_t *group;
    tdg__client_request_t *request;
    uint32_t serial;
    bool had_cursor;
    bool left;               /* old: some that it has are of other groups now */
    unsigned lists;          /* asked for */
    unsigned honoured;       /* of these: acknowledged */
    tdg__waiter_t *waiters;  /* for its acknowledgement */
    tdg__core_timer_t timer; /* until the acknowledgement; of an old one: until its end */
};

void tdg__sub_streams_work(tdg__core_t *core); /* opens and ends streams as wanted */
void tdg__sub_streams_down(tdg__core_t *core); /* all streams are gone */
void tdg__sub_stream_drop(tdg__sub_stream_t **listen);

/* The stream with that subscription id (a JSON value); NULL: none. */
tdg__sub_stream_t *tdg__sub_stream_by_id(const tdg__core_t *core, const json_t *id);

/* What the group wants: an array of URIs, new; NULL: no memory. *ret_new: one of them was
 * never live. Those that are leaving are named until they have left. */
json_t *tdg__sub_stream_uris(tdg__core_t *core, tdg__sub_group_t *group, uint32_t serial,
                             bool *ret_new);

/* The `params` of a listen, new; NULL: no memory. `uris` is stolen. */
json_t *tdg__sub_stream_params(tdg__core_t *core, const tdg__sub_group_t *group,
                               json_t *uris, unsigned lists, bool since,
                               bool *ret_had_cursor);

unsigned tdg__sub_stream_lists(const json_t *notifications); /* bits of those named */
void tdg__sub_stream_acknowledged(tdg__sub_stream_t *listen, json_t *params);
void tdg__sub_stream_cancelled(tdg__sub_stream_t *listen); /* by the server */
void tdg__sub_stream_silent(tdg__core_t *core, tdg__lifesign_t *life,
                            const char *dead); /* a group's */
bool tdg__sub_streams_overlap(const tdg__core_t *core);

#endif

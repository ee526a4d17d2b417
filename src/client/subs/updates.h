/* SPDX-License-Identifier: MIT
 *
 * From notifications to events; and the gaps in which none could come (gaps.c). */
#ifndef TDG_CLIENT_UPDATES_H
#define TDG_CLIENT_UPDATES_H

#include "client/subs/sub.h"

/* A notification from the server, of either era or dialect; also progress and log
 * messages. `on` as for tdg__incoming_message(); `stream`: whose it is, or NULL. */
void tdg__updates_notification(tdg__core_t *core, const tdg__client_request_t *on,
                               tdg__sub_stream_t *stream,
                               const tdg__rpc_message_t *message);

/* Reports it, after a read where that is wanted. The event is stolen; NULL stands for one
 * that there was no memory for. */
void tdg__update_tell(tdg__core_t *core, tdg__sub_t *sub, tdg_event_t *event);
/* Straight to the owner. */
void tdg__update_emit(tdg__core_t *core, tdg_event_t *event);
/* The newer one, with what the older stood for; both stolen, either may be NULL. */
tdg_event_t *tdg__update_merge(tdg_event_t *older, tdg_event_t *newer);
/* All that waits in the record to be reported, as one; new, or NULL: nothing does. */
tdg_event_t *tdg__update_take(tdg__sub_t *sub);
void tdg__updates_settle(tdg__core_t *core); /* sees that what is collected is reported */
void tdg__updates_flush(tdg__core_t *core);  /* reports it */
/* Each of these lists has changed, or may have. */
void tdg__update_lists(tdg__core_t *core, unsigned lists, bool maybe);

/* Keeps a cursor that the server has shown: in `ret`, of TDG__CURSOR_MAX + 1 bytes. */
bool tdg__update_cursor(tdg__core_t *core, const json_t *meta, char *ret);

void tdg__gap_mark(tdg__sub_t *sub);
void tdg__gap_compare(tdg__sub_t *sub); /* the next is reported only if it is a change */
void tdg__gaps_tell(tdg__core_t *core); /* all that are marked, and live */

#endif

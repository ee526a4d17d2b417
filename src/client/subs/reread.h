/* SPDX-License-Identifier: MIT
 *
 * Reads by the client itself, and their results. */
#ifndef TDG_CLIENT_REREAD_H
#define TDG_CLIENT_REREAD_H

#include "client/subs/sub.h"

/* Reads it, unless a read is under way: what is held then makes another after that. */
void tdg__reread_queue(tdg__core_t *core, tdg__sub_t *sub);

/* Whether there is something to compare with: the content as of what was reported last.
 */
bool tdg__reread_knows(const tdg__sub_t *sub);
void tdg__reread_changed(tdg__sub_t *sub, bool deleted); /* that is reported now */

/* Reports an update that nobody knows of whether there was one (`maybe`), unless a read
 * finds what was known before. The event is stolen; NULL: there was no memory for it. */
void tdg__reread_compare(tdg__core_t *core, tdg__sub_t *sub, tdg_event_t *event);
bool tdg__reread_idle(const tdg__core_t *core); /* nothing is read, or to be read */
void tdg__reread_work(tdg__core_t *core);
void tdg__reread_down(tdg__core_t *core);
void tdg__reread_end(tdg__core_t *core, tdg__sub_t *sub); /* drops all about it */
/* The owner reads this URI, or has read this: what later reads are compared with. */
void tdg__reread_begun(tdg__core_t *core, const char *uri);
void tdg__reread_noted(tdg__core_t *core, const char *uri, const json_t *contents);
int tdg__poll_set(tdg__core_t *core, tdg__sub_t *sub, uint32_t poll_ms);

#endif

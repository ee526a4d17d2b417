/* SPDX-License-Identifier: MIT
 *
 * The URIs of one source that are watched, read or remembered: the last known state of
 * each, and the one fetch at a time that determines its current state. For source.c. */
#ifndef TDG_SOURCE_ITEM_H
#define TDG_SOURCE_ITEM_H

#include "source/common/source.h"

/* Returns 0, TDG_ENOMEM or TDG_ESYSTEM (no randomness). */
int tdg__items_create(tdg__source_t *source);

/* From now on there is a handle on the host's loop. */
void tdg__items_open(tdg__source_t *source);

/* Cancels what is being fetched, which holds the source, and refuses what is asked from
 * now on. */
void tdg__items_close(tdg__source_t *source);

/* Nothing holds the source any more: `done` is called from the loop. */
void tdg__items_end(tdg__source_t *source, void (*done)(tdg__source_t *source));

/* Frees all; after `done`, or before tdg__items_open(). */
void tdg__items_destroy(tdg__source_t *source);

/* Whether it is published that the resource was deleted: a look has found that. */
bool tdg__item_is_known_gone(const tdg__source_t *source, const char *uri);

/* The resource was deleted, which is published. */
void tdg__item_gone(tdg__source_t *source, const char *uri);

#endif

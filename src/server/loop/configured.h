/* SPDX-License-Identifier: MIT
 *
 * Settings of URIs and templates: stored for future engines, and sent to the running
 * workers. Thread-safe. */
#ifndef TDG_SERVER_CONFIGURED_H
#define TDG_SERVER_CONFIGURED_H

#include <tidings/server.h>

#include "core/engine.h"
#include "server/context/context.h"

/* ---- From the public header to the engine ------------------------------- */

/* Borrows the name; NULL becomes a target that is not valid. */
tdg__target_t tdg__target_to_engine(const tdg_target_t *target);

tdg__settings_t tdg__settings_to_engine(const tdg_settings_t *settings);

/* ---- Settings made for targets ------------------------------------------ */

typedef struct tdg__configured tdg__configured_t;

/* `defaults` are those of the engines to come. Returns 0, TDG_EINVAL or TDG_ENOMEM. */
int tdg__configured_create(const tdg_settings_t *defaults, tdg__configured_t **ret);
void tdg__configured_destroy(tdg__configured_t *configured); /* NULL is accepted */

/* Remembers them for engines to come; all zero forgets. Checks them, too. Returns 0,
 * TDG_EINVAL, TDG_EURILEN, TDG_ETEMPLATE, TDG_EAMBIGUOUS or TDG_ENOMEM. */
int tdg__configured_set(tdg__configured_t *configured, const tdg_target_t *target,
                        const tdg_settings_t *settings);

/* What was set; all zero where nothing was. */
tdg_settings_t tdg__configured_get(tdg__configured_t *configured,
                                   const tdg_target_t *target);

/* Hands all of them to an engine. */
int tdg__configured_apply(tdg__configured_t *configured, tdg__engine_t *engine);

/* Hands one to the engine of a worker that runs. Returns 0 or TDG_ENOMEM. */
int tdg__configured_send(tdg__worker_t *worker, const tdg_target_t *target,
                         const tdg_settings_t *settings);

#endif

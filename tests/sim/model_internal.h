/* SPDX-License-Identifier: MIT
 *
 * What the files of the model share. */
#ifndef TDG_SIM_MODEL_INTERNAL_H
#define TDG_SIM_MODEL_INTERNAL_H

#include "model.h"

/* ---- model.c ------------------------------------------------------------ */

void model__hit(struct model *model, enum situation situation);
bool model__same_wishes(struct wishes a, struct wishes b);
struct subscription *model__sub_of(struct model *model, int client, int target);
bool model__has_derived(const struct subscription *sub, int resource);
bool model__is_refused(const struct model *model, int client, int target, int resource);
tdg__timing_t model__timing_of(const struct model *model, struct wishes wishes,
                               int resource);
int64_t model__limit_of(const struct model *model, struct wishes wishes, int resource);
uint64_t model__oldest_first(const struct model *model, int client);
tdg__cursor_t model__cursor_of(const struct model *model, int client);
void model__end_stream(struct model *model, int client, int reason, tdg__cursor_t cursor);

/* ---- model_flow.c ------------------------------------------------------- */

struct window *model__find_window(struct model *model, int target, int resource,
                                  struct wishes wishes);
int64_t model__window_deadline(const struct model *model, const struct window *window);
bool model__limit_runs(const struct model *model, const struct subscription *sub,
                       int resource);
void model__make_ready(struct model *model, struct subscription *sub, int resource);
void model__go_on_to_limit(struct model *model, struct subscription *sub, int resource);
void model__fire(struct model *model, struct window *window, bool deletion);
void model__count_firing(struct model *model, const struct window *window);
int model__users_of(const struct model *model, int target);
void model__tidy(struct model *model);

/* ---- model_catchup.c ---------------------------------------------------- */

uint32_t model__pending_through_templates(const struct model *model, int client);
bool model__assume(struct model *model, int client, int target, int resource,
                   uint64_t first, uint64_t above);
bool model__catch_up_listed(struct model *model, int client, int target, uint64_t first,
                            uint64_t c);
bool model__catch_up(struct model *model, int client, int target);
bool model__is_foreign(const struct model *model, tdg__cursor_t cursor);
bool model__catch_up_again(struct model *model, int client, int target);

/* ---- model_watch.c ------------------------------------------------------ */

void model__linger(struct model *model, int target);
void model__armed(struct model *model, int target, bool unchanged);

#endif

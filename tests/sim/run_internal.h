/* SPDX-License-Identifier: MIT
 *
 * A run, and what the files that make it up share. */
#ifndef TDG_SIM_RUN_INTERNAL_H
#define TDG_SIM_RUN_INTERNAL_H

#include "client.h"
#include "run.h"

struct run {
    const struct cast_world *world;
    tdg__engine_t *engine;
    struct model model;
    struct truth truth;
    struct verdict *verdict;
    struct run_opts opts;

    int64_t wall_offset_ms;
    int refused[RESOURCES]; /* what may_read said no to during a take, in order */
    int refused_count;
    int watch_answer; /* of the next call of `watch` */
    enum op_then then;
    uint64_t watched[TARGETS]; /* what the engine called */
    uint64_t unwatched[TARGETS];
    bool dirty[TARGETS];       /* changed unseen since it was last watched */
    bool was_watched[TARGETS]; /* has been armed at least once */

    uint32_t page_position; /* of tdg__engine_page(), which goes on between operations */
    bool paging;
    uint64_t page_uids[CLIENTS][TARGETS]; /* who was there when it began */
    int page_seen[CLIENTS][TARGETS];
};

/* One operation, on the engine, on the model and in the clients' logs. */
typedef void run_op_fn(struct run *run, const struct op *op);

/* ---- run.c -------------------------------------------------------------- */

/* The run has failed, if it has not before. `kind` is equal for failures alike. */
void run__fail(struct run *run, const char *kind, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void run__check_number(struct run *run, const char *kind, uint64_t expected,
                       uint64_t got);
void run__check_code(struct run *run, const char *kind, int expected, int got);
const char *run__name_of(int target);
int run__find_client(struct run *run, tdg__stream_t stream);

/* Whether a subscription that goes in the middle of a change or of an advance had
 * something delayed before depends on an order that is nobody's business. */
void run__forgive_limited(struct run *run);

/* ---- run_compare.c ------------------------------------------------------ */

/* What can be seen of the engine and of the model must be the same. */
void run__compare(struct run *run);

run_op_fn run__op_subscribers, run__op_page, run__op_mistake;

/* ---- run_ops.c ---------------------------------------------------------- */

void run__do_close(struct run *run, int client);
void run__do_block(struct run *run, int client, bool blocked);
void run__do_acknowledge(struct run *run, int client, int target);
void run__do_unsubscribe(struct run *run, int client, int target);
bool run__is_arming(const struct run *run, int target);
void run__do_watch_done(struct run *run, int target, int result, int gap);

run_op_fn run__op_open, run__op_close, run__op_drop, run__op_end, run__op_block,
    run__op_unblock, run__op_subscribe, run__op_resume, run__op_acknowledge,
    run__op_rewind, run__op_unsubscribe, run__op_changed, run__op_deleted, run__op_unseen,
    run__op_watch_done, run__op_take, run__op_flush, run__op_receive, run__op_configure,
    run__op_set_rate, run__op_end_windows, run__op_held_up, run__op_right,
    run__op_set_defaults;

#endif

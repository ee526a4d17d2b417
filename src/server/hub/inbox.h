/* SPDX-License-Identifier: MIT
 *
 * The queue of a worker: changes and answers of watchers, in the order of their numbers,
 * and tasks of other threads. Any thread adds, the worker removes.
 *
 * Changes are bounded. When the bound is reached, a change takes the place of an earlier
 * one of the same URI that waits, and counts as unfiltered then: a filter might have let
 * the earlier one pass, and the last change that passes must not be lost. When nothing
 * can be merged, the publisher gets TDG_EAGAIN. Changes of one list are merged also
 * below the bound, as long as not many others came in between. Answers and tasks are not
 * bounded here: each belongs to something that is. */
#ifndef TDG_SERVER_INBOX_H
#define TDG_SERVER_INBOX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/change.h"

typedef struct tdg__inbox tdg__inbox_t;

/* ---- Beginning and end -------------------------------------------------- */

/* A new inbox for at most max_changes changes, with one reference. `wake` may be NULL; it
 * is called on the putting thread, when an entry comes and none waits, or a task and none
 * waits; it may call the inbox, but for tdg__inbox_close(). Returns 0, TDG_EINVAL,
 * TDG_ENOMEM or TDG_ESYSTEM. */
int tdg__inbox_create(size_t max_changes, void (*wake)(void *user), void *user,
                      tdg__inbox_t **ret);
tdg__inbox_t *tdg__inbox_ref(tdg__inbox_t *inbox);

/* The last one frees; tasks that are left are run with `here` false. NULL is accepted. */
void tdg__inbox_unref(tdg__inbox_t *inbox);

/* Nothing comes in from now on; what is there can still be taken. `wake` is not called
 * after this has returned. */
void tdg__inbox_close(tdg__inbox_t *inbox);

/* ---- For the worker ----------------------------------------------------- */

typedef struct tdg__inbox_entry {
    tdg__change_t *change; /* a reference, the taker's; NULL: a watcher's answer */
    bool unfiltered;       /* stands for earlier changes that no filter has seen:
                              tdg__engine_apply_unfiltered() */
    tdg__target_t target;  /* of a watcher's answer; its name is the taker's to free
                              (tdg__free) */
    int error;             /* of a watcher's answer; 0: armed at `number` */
    uint64_t number;
} tdg__inbox_entry_t;

/* Takes up to `max` entries, oldest first; returns how many. Take until it returns 0, not
 * until it returns less than `max`: an answer comes alone, so that one that is outdated
 * by what the entries before it lead to can still be dropped. */
size_t tdg__inbox_take(tdg__inbox_t *inbox, tdg__inbox_entry_t *entries, size_t max);

/* Embedded in whatever the task is about. `here` false: the worker has gone, only clean
 * up; that may be on any thread. */
typedef struct tdg__task tdg__task_t;
struct tdg__task {
    tdg__task_t *next;
    void (*run)(tdg__task_t *task, bool here);
};

/* Never fails. After close the task is run at once, with `here` false. */
void tdg__inbox_post(tdg__inbox_t *inbox, tdg__task_t *task);

/* Takes all tasks as a list, oldest first; NULL: none. Read `next` before a task is run.
 */
tdg__task_t *tdg__inbox_take_tasks(tdg__inbox_t *inbox);

/* ---- For the hub -------------------------------------------------------- */

/* Entries are put in in the order of their numbers, by one thread at a time. A return
 * value of 1 means that the inbox was empty: call tdg__inbox_wake() soon, best when no
 * lock is held. */
void tdg__inbox_wake(tdg__inbox_t *inbox);

/* Makes sure that a change of `target` can be put in. Returns 0 where there is room: for
 * so many changes as *ret_room says, and taking only makes it more; 1 where there is none
 * but the change can be merged with one that waits; TDG_EAGAIN (full), TDG_ENOMEM or
 * TDG_EENDED (closed). */
int tdg__inbox_reserve(tdg__inbox_t *inbox, const tdg__target_t *target,
                       size_t *ret_room);

/* The same for `count` changes of whatever resources, without merging: TDG_EAGAIN where
 * they do not all fit in. With `count` 0 it says how much room there is. */
int tdg__inbox_reserve_more(tdg__inbox_t *inbox, size_t count, size_t *ret_room);

/* Puts in a stamped change (takes its own reference). Returns 0, 1 (wake), or as
 * tdg__inbox_reserve(), after which it does not fail for lack of room or memory. */
int tdg__inbox_put_change(tdg__inbox_t *inbox, tdg__change_t *change, bool unfiltered);

/* A watcher's answer, made ahead so that answering cannot fail for lack of memory. It
 * belongs to its maker, also while it waits and after it was taken, until it is dropped.
 * Returns 0 or TDG_ENOMEM. */
typedef struct tdg__answer tdg__answer_t;
int tdg__inbox_prepare_answer(const tdg__target_t *target, tdg__answer_t **ret);

/* Puts the answer in, once. Returns 0, 1 (wake) or TDG_EENDED. */
int tdg__inbox_put_answer(tdg__inbox_t *inbox, tdg__answer_t *answer, int error,
                          uint64_t number);

/* Whether it was put in and not taken yet. */
bool tdg__inbox_answer_waits(tdg__inbox_t *inbox, const tdg__answer_t *answer);

/* Frees an answer, and takes it out of its inbox where it waits. NULL is accepted. */
void tdg__inbox_drop_answer(tdg__inbox_t *inbox, tdg__answer_t *answer);

#endif

/* SPDX-License-Identifier: MIT
 *
 * Where threads hand things over: any thread pushes, one thread takes. Bounded; whoever
 * pushes into a full queue is told, and decides. */
#ifndef TDG_BASE_QUEUE_H
#define TDG_BASE_QUEUE_H

#include <stddef.h>

typedef struct tdg__queue tdg__queue_t;

/* Called on the pushing thread, without the lock, when an item comes into an empty queue:
 * wake the taking thread. May be NULL. */
typedef void (*tdg__queue_wake_fn)(void *user);

/* A new queue for at most `max` items (not 0). Returns 0, TDG_EINVAL, TDG_ENOMEM or
 * TDG_ESYSTEM. */
int tdg__queue_create(size_t max, tdg__queue_wake_fn wake, void *user,
                      tdg__queue_t **ret);
/* No other thread may be inside. What is still queued is not looked at. NULL is fine. */
void tdg__queue_destroy(tdg__queue_t *queue);

/* Queues `item` (not NULL) behind the others. Returns 0, TDG_EAGAIN when full, TDG_EENDED
 * after tdg__queue_close(). The item stays the caller's unless 0 is returned. */
int tdg__queue_push(tdg__queue_t *queue, void *item);

/* Takes up to `max` items, oldest first, without waiting. Returns how many. Take until
 * there is nothing: `wake` comes only when an item meets an empty queue. */
size_t tdg__queue_take(tdg__queue_t *queue, void **items, size_t max);

/* From now on nothing can be pushed; what is there can still be taken. Wakes nobody. */
void tdg__queue_close(tdg__queue_t *queue);

#endif

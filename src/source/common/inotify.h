/* SPDX-License-Identifier: MIT
 *
 * inotify on a loop: opening and reading. The user decides what is watched. */
#ifndef TDG_SOURCE_INOTIFY_H
#define TDG_SOURCE_INOTIFY_H

#include <stdbool.h>
#include <sys/inotify.h>

#include <uv.h>

enum {
    TDG__INOTIFY_STRUCTURE = IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO,
    TDG__INOTIFY_ITSELF = IN_DELETE_SELF | IN_MOVE_SELF | IN_UNMOUNT,
    TDG__INOTIFY_READS = 4, /* in one turn of the loop */
};

/* Opens an instance and starts `poll`, whose data is the caller's. Returns a descriptor,
 * or a negative errno, and `poll` is no handle then. */
int tdg__inotify_open(uv_loop_t *loop, uv_poll_t *poll, uv_poll_cb readable);

/* Visits the events that the kernel has, of at most so many reads. The visitor returns
 * whether to go on. Returns false where there may be more. */
bool tdg__inotify_read(int fd, int reads,
                       bool (*visit)(void *user, const struct inotify_event *event),
                       void *user);

#endif

/* SPDX-License-Identifier: MIT
 *
 * Opening a file without side effects at its other end. Opening a FIFO for reading lets
 * its writer continue, which gets SIGPIPE when it is closed again; opening a device may
 * rewind a tape or reset a board. O_PATH does none of that, so: O_PATH first,
 * fstat(), and only what is a regular file is opened for reading. */
#ifndef TDG_SOURCE_REGULAR_H
#define TDG_SOURCE_REGULAR_H

#include <sys/stat.h>

/* Opens for reading what the O_PATH descriptor `path_fd` stands for; `st` is its
 * fstat(). `path_fd` stays the caller's. Returns a descriptor or a negative errno:
 * -EINVAL where it is no regular file, -ENOSYS where /proc is not mounted. For any
 * thread. */
int tdg__regular_open(int path_fd, const struct stat *st);

#endif

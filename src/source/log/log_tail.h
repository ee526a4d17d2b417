/* SPDX-License-Identifier: MIT
 *
 * The last complete lines of a file, read from its end. Blocks; for the thread pool. */
#ifndef TDG_SOURCE_LOG_TAIL_H
#define TDG_SOURCE_LOG_TAIL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct tdg__log_tail {
    char *data;        /* new; NULL where there is none */
    size_t start, len; /* the lines are at data + start */
    uint64_t lines;    /* that they are */
    bool cut;          /* the only line was too long: this is its end */
    uint64_t offset;   /* in the file, where the next line begins */
    uint64_t size;     /* of the file */
    uint64_t bytes_read;
    uint64_t device, inode;
    int64_t modified_ms;
} tdg__log_tail_t;

/* Reads at most `max_lines` lines with at most `max_bytes` in all. Where the file holds
 * longer ones they are fewer; the end of one that is too long by itself. What has no line
 * end yet is left out. Returns 0, TDG_ENOTFOUND, TDG_EINVAL (no regular file),
 * TDG_EUNREACHABLE (with errno in *ret_errno) or TDG_ENOMEM.
 * Free ret->data with tdg__free(). */
int tdg__log_tail_read(const char *path, uint64_t max_lines, size_t max_bytes,
                       tdg__log_tail_t *ret, int *ret_errno);

#endif

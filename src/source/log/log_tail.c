/* SPDX-License-Identifier: MIT */
#include "source/log/log_tail.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <tidings/error.h>

#include "base/alloc.h"
#include "source/common/regular.h"

/* The window at the end of the file begins small and grows until enough lines are in it.
 * Beyond max_bytes it has some room for a last line that is not complete. */
enum { FIRST_WINDOW = 64 * 1024, GROWTH = 4, EXTRA = 64 * 1024 };

/* Reads `len` bytes at `offset`, less where the file became shorter. */
static int read_at(int fd, char *data, size_t len, uint64_t offset, size_t *ret_len) {
    size_t done = 0;

    while (done < len) {
        ssize_t n = pread(fd, data + done, len - done, (off_t)(offset + done));

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return TDG_EUNREACHABLE;
        if (n == 0)
            break;
        done += (size_t)n;
    }
    *ret_len = done;
    return 0;
}

/* Where the last `max_lines` lines that end before `end` begin, and how many there are;
 * `end` is behind a line end. Returns false where the window is too small to say. */
static bool find_lines(const char *data, size_t end, uint64_t max_lines,
                       size_t *ret_start, uint64_t *ret_lines) {
    uint64_t lines = 0;
    size_t at = end;

    while (at > 0) {
        const char *before = memrchr(data, '\n', at - 1);

        lines++;
        at = before != NULL ? (size_t)(before - data) + 1 : 0;
        if (lines == max_lines && at > 0)
            break;
    }
    *ret_start = at;
    *ret_lines = lines;
    return at > 0;
}

/* Leaves out lines at the beginning until no more than max_bytes are left. */
static void fit(tdg__log_tail_t *tail, size_t max_bytes) {
    size_t end = tail->start + tail->len;

    while (tail->len > max_bytes && tail->lines > 1) {
        const char *next = memchr(tail->data + tail->start, '\n', tail->len);

        tail->start = (size_t)(next - tail->data) + 1;
        tail->len = end - tail->start;
        tail->lines--;
    }
    if (tail->len > max_bytes) {
        tail->start = end - max_bytes;
        tail->len = max_bytes;
        tail->cut = true;
    }
    /* Not in the middle of a character. */
    for (int i = 0; tail->cut && i < 3 && tail->len > 1 &&
                    ((unsigned char)tail->data[tail->start] & 0xC0) == 0x80;
         i++) {
        tail->start++;
        tail->len--;
    }
}

/* Picks the lines out of a window of `len` bytes that begins at `offset`. Returns false
 * where a larger window would have more of them. */
static bool pick(tdg__log_tail_t *tail, size_t len, uint64_t offset, uint64_t max_lines,
                 bool is_last) {
    const char *last = len > 0 ? memrchr(tail->data, '\n', len) : NULL;
    size_t end = last != NULL ? (size_t)(last - tail->data) + 1 : 0;
    bool enough = find_lines(tail->data, end, max_lines, &tail->start, &tail->lines);

    tail->offset = offset + end;
    tail->len = end - tail->start;
    if (enough || offset == 0)
        return true;
    if (!is_last)
        return false;
    /* The first line of the window is the end of one that began before it. */
    const char *next = memchr(tail->data, '\n', end);

    if (tail->lines > 1) {
        tail->start = (size_t)(next - tail->data) + 1;
        tail->len = end - tail->start;
        tail->lines--;
    } else {
        tail->cut = tail->lines == 1;
    }
    return true;
}

static int read_window(int fd, uint64_t size, uint64_t max_lines, size_t max_bytes,
                       tdg__log_tail_t *tail) {
    size_t limit = max_bytes + EXTRA, window = FIRST_WINDOW;

    for (;; window *= GROWTH) {
        size_t want = window < limit / 2 ? window : limit, len;

        want = want < size ? want : (size_t)size;
        if (want == 0)
            return 0;

        char *data = tdg__realloc(tail->data, want);
        if (data == NULL)
            return TDG_ENOMEM;
        tail->data = data;

        int rv = read_at(fd, data, want, size - want, &len);
        if (rv < 0)
            return rv;
        tail->bytes_read += len;
        if (pick(tail, len, size - want, max_lines, want == limit))
            return 0;
    }
}

/* Returns a descriptor or a negative errno: -EINVAL where it is no regular file. */
static int open_log(const char *path, struct stat *ret_st) {
    int path_fd = open(path, O_PATH | O_CLOEXEC);

    if (path_fd < 0)
        return -errno;

    int fd = fstat(path_fd, ret_st) < 0 ? -errno : tdg__regular_open(path_fd, ret_st);

    close(path_fd);
    return fd;
}

int tdg__log_tail_read(const char *path, uint64_t max_lines, size_t max_bytes,
                       tdg__log_tail_t *ret, int *ret_errno) {
    tdg__log_tail_t tail = {0};
    struct stat st;
    int fd = open_log(path, &st);

    if (fd < 0) {
        *ret_errno = -fd;
        return fd == -ENOENT || fd == -ENOTDIR ? TDG_ENOTFOUND
               : fd == -EINVAL                 ? TDG_EINVAL
                                               : TDG_EUNREACHABLE;
    }

    int rv = read_window(fd, (uint64_t)st.st_size, max_lines, max_bytes, &tail);

    *ret_errno = errno;
    close(fd);
    if (rv < 0) {
        tdg__free(tail.data);
        return rv;
    }
    fit(&tail, max_bytes);
    tail.size = (uint64_t)st.st_size;
    tail.device = st.st_dev;
    tail.inode = st.st_ino;
    tail.modified_ms = (int64_t)st.st_mtim.tv_sec * 1000 + st.st_mtim.tv_nsec / 1000000;
    *ret = tail;
    return 0;
}

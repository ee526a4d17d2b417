/* SPDX-License-Identifier: MIT
 *
 * Input: a byte for how many lines are wanted, one for how many bytes, then a file that
 * somebody else writes. What is read are whole lines at its end, as many as fit, and
 * where the file is read at once, those that a plain reading gives. */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "fuzz.h"
#include "source/log/log_tail.h"

enum { MAX_BYTES = 4096, MANY = 100, ONE_WINDOW = 64 * 1024 };

static uint64_t count_ends(const char *data, size_t len) {
    uint64_t count = 0;

    for (size_t i = 0; i < len; i++)
        count += data[i] == '\n';
    return count;
}

/* Where the line begins that ends before `end`. */
static size_t begin_of_line(const char *data, size_t end) {
    const char *before = end > 1 ? memrchr(data, '\n', end - 1) : NULL;

    return before != NULL ? (size_t)(before - data) + 1 : 0;
}

/* From the end, line by line, as long as there is room. */
static void check_plainly(const tdg__log_tail_t *tail, const char *all, size_t end,
                          uint64_t max_lines, size_t max_bytes) {
    size_t start = end;
    uint64_t lines = 0;

    while (start > 0 && lines < max_lines) {
        size_t begin = begin_of_line(all, start);

        if (end - begin > max_bytes && lines > 0)
            break;
        start = begin;
        lines++;
    }
    require(tail->lines == lines);
    require(tail->cut == (end - start > max_bytes));
    require(tail->cut || tail->len == end - start);
}

static void check_tail(const tdg__log_tail_t *tail, const char *all, size_t size,
                       uint64_t max_lines, size_t max_bytes) {
    const char *last = size > 0 ? memrchr(all, '\n', size) : NULL;
    size_t end = last != NULL ? (size_t)(last - all) + 1 : 0;

    require(tail->size == size && tail->lines <= max_lines && tail->len <= max_bytes);
    require((tail->len == 0) == (tail->lines == 0));
    if (size <= ONE_WINDOW)
        check_plainly(tail, all, end, max_lines, max_bytes);
    if (tail->lines == 0)
        return;
    require(tail->offset == end);
    require(memcmp(tail->data + tail->start, all + end - tail->len, tail->len) == 0);
    require(count_ends(tail->data + tail->start, tail->len) == tail->lines);
    require(tail->cut ? tail->lines == 1
                      : end == tail->len || all[end - tail->len - 1] == '\n');
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    uint64_t max_lines;
    size_t max_bytes, times;
    char path[64], *all;
    tdg__log_tail_t tail;
    int error;

    if (size < 2 || size > MAX_BYTES)
        return 0;
    max_lines = 1 + data[0] % 100U;
    max_bytes = 1U + data[1];
    /* Files that are not read at once, now and then. */
    times = data[0] >= 200 && size > 1000 ? MANY : 1;
    max_bytes *= times;
    data += 2;
    size -= 2;

    int fd = memfd_create("log", MFD_CLOEXEC);
    all = malloc(size * times + 1);
    require(fd >= 0 && all != NULL);
    for (size_t i = 0; i < times; i++)
        memcpy(all + i * size, data, size);
    require(write(fd, all, size * times) == (ssize_t)(size * times));
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    require(tdg__log_tail_read(path, max_lines, max_bytes, &tail, &error) == 0);
    check_tail(&tail, all, size * times, max_lines, max_bytes);
    tdg__free(tail.data);
    free(all);
    close(fd);
    return 0;
}

/* SPDX-License-Identifier: MIT
 *
 * Standard output, and signals, which interrupt a write that blocks. */
#include "watch/watch.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "interrupt.h"

/* ---- Signals ------------------------------------------------------------ */

static int signal_pipe = -1;
static volatile sig_atomic_t signal_count;

/* The third time the loop seems to be stuck. */
static void on_signal(int number) {
    char byte = (char)number;
    int saved = errno;

    if (++signal_count >= 3)
        _exit(128 + number);
    if (write(signal_pipe, &byte, 1) < 0)
        errno = saved;
    errno = saved;
}

/* Without SA_RESTART: a write to a terminal or pipe that is stuck is interrupted. */
int watch_catch_signals(watch_t *watch) {
    if (pipe2(watch->signals, O_CLOEXEC | O_NONBLOCK) < 0)
        return TDG_ESYSTEM;
    signal_pipe = watch->signals[1];
    cli_handle_ending_signals(on_signal, 0);
    return 0;
}

/* ---- Standard output ---------------------------------------------------- */

/* Waits until standard output takes more. False: it does not, and a signal has come: to
 * leave is more important than the rest of a line. */
static bool wait_for_output(watch_t *watch) {
    struct pollfd fds[] = {
        {.fd = STDOUT_FILENO, .events = POLLOUT},
        {.fd = watch->signals[0], .events = POLLIN},
    };

    while (poll(fds, 2, signal_count > 0 ? 0 : -1) < 0 && errno == EINTR)
        ;
    return fds[0].revents != 0;
}

void watch_flush(watch_t *watch) {
    size_t sent = 0;

    if (watch->out.error != 0)
        watch_say(watch, "out of memory: some changes are not shown");
    while (watch->out.error == 0 && sent < watch->out.len && !watch->output_gone) {
        size_t left = watch->out.len - sent;

        if (!wait_for_output(watch))
            break;
        ssize_t len = write(STDOUT_FILENO, watch->out.data + sent,
                            left < PIPE_BUF ? left : PIPE_BUF);
        if (len >= 0) {
            sent += (size_t)len;
        } else if (errno == EINTR) {
            if (signal_count > 0)
                break;
        } else if (errno != EAGAIN) { /* somebody else may have made it so */
            watch->output_gone = true;
            watch->output_failed = errno != EPIPE;
            if (watch->output_failed)
                watch_say(watch, "cannot write to standard output: %s", strerror(errno));
        }
    }
    tdg__text_clear(&watch->out);
}

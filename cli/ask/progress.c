/* SPDX-License-Identifier: MIT */
#include "ask/progress.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "interrupt.h"
#include "safe_text.h"
#include "terminal.h"

enum { MAX_MESSAGE = 160, MAX_LINE = 512, COLUMNS = 80 };

static const char clear[] = "\r\033[K";
static volatile sig_atomic_t is_shown; /* for on_signal() */

static struct {
    pthread_t thread;
    bool started;
    const char *what;

    pthread_mutex_t lock; /* guards the rest */
    pthread_cond_t wake;
    bool stop;
    double progress, total; /* total 0: not known; progress below 0: nothing reported */
    char message[MAX_MESSAGE];
} state = {.lock = PTHREAD_MUTEX_INITIALIZER, .wake = PTHREAD_COND_INITIALIZER};

/* Under the lock. */
static void show(int64_t seconds) {
    char line[MAX_LINE];
    int len =
        snprintf(line, sizeof(line), "%.100s: %lld s", state.what, (long long)seconds);
    int columns = COLUMNS, lines;

    if (state.progress >= 0 && state.total > 0)
        len += snprintf(line + len, sizeof(line) - (size_t)len, ", %.0f %%",
                        100 * state.progress / state.total);
    else if (state.progress >= 0)
        len += snprintf(line + len, sizeof(line) - (size_t)len, ", %g", state.progress);
    if (state.message[0] != '\0')
        snprintf(line + len, sizeof(line) - (size_t)len, ", %s", state.message);

    is_shown = 1;
    fputs(clear, stderr);
    cli_terminal_size(STDERR_FILENO, &columns, &lines);
    if (cli_columns(line) >= columns)
        cli_put_cell(stderr, line, columns - 1);
    else
        cli_put_line(stderr, line);
    fflush(stderr);
}

static void *run(void *arg) {
    struct timespec next;

    (void)arg;
    clock_gettime(CLOCK_REALTIME, &next);
    pthread_mutex_lock(&state.lock);
    for (int64_t seconds = 1; !state.stop; seconds++) {
        next.tv_sec++;
        while (!state.stop &&
               pthread_cond_timedwait(&state.wake, &state.lock, &next) == 0)
            ;
        if (!state.stop)
            show(seconds);
    }
    pthread_mutex_unlock(&state.lock);
    if (is_shown)
        fputs(clear, stderr);
    is_shown = 0;
    return NULL;
}

/* Takes the line away before the signal ends us as it would have anyway. Where a program
 * has to be ended first, the signals are blocked, and cli_interrupt_end() comes
 * after us. */
static void on_signal(int number) {
    if (is_shown && write(STDERR_FILENO, clear, sizeof(clear) - 1) < 0)
        is_shown = 0; /* nobody to take it away for */
    raise(number);
}

void cli_progress_begin(const cli_target_t *target, const char *what) {
    if (target->verbose || !isatty(STDERR_FILENO))
        return;
    state.what = what;
    state.progress = -1;
    cli_handle_ending_signals(on_signal, SA_RESETHAND);
    state.started = pthread_create(&state.thread, NULL, run, NULL) == 0;
}

void cli_progress_end(void) {
    if (!state.started)
        return;
    pthread_mutex_lock(&state.lock);
    state.stop = true;
    pthread_cond_signal(&state.wake);
    pthread_mutex_unlock(&state.lock);
    pthread_join(state.thread, NULL);
    cli_handle_ending_signals(SIG_DFL, 0);
    state.started = false;
}

void cli_progress_report(void *user, const json_t *params) {
    const char *message = json_string_value(json_object_get(params, "message"));

    (void)user;
    pthread_mutex_lock(&state.lock);
    state.progress = json_number_value(json_object_get(params, "progress"));
    state.total = json_number_value(json_object_get(params, "total"));
    snprintf(state.message, sizeof(state.message), "%s", message != NULL ? message : "");
    pthread_mutex_unlock(&state.lock);
}

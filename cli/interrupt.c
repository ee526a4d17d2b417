/* SPDX-License-Identifier: MIT */
#include "interrupt.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <time.h>
#include <unistd.h>

enum { GONE_AFTER_S = 6 }; /* a program that ignores everything is gone after 5 */

static sigset_t signals;
static atomic_int came; /* the signal; 0: none */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static cli_target_t *stoppable; /* NULL: it is over */

static void stop_target(void (*stop)(cli_target_t *target)) {
    pthread_mutex_lock(&lock);
    if (stoppable != NULL)
        stop(stoppable);
    pthread_mutex_unlock(&lock);
}

/* The next signal; 0: there is none in that time. */
static int wait_for_signal(long ms) {
    const struct timespec time = {ms / 1000, ms % 1000 * 1000000};
    int number;

    do
        number = sigtimedwait(&signals, NULL, &time);
    while (number < 0 && errno == EINTR);
    return number > 0 ? number : 0;
}

/* The main thread may be waiting for the reader of our output: it gets a while to leave
 * in good order, and the program to end. */
static void *supervise(void *arg) {
    int number = wait_for_signal(*(long *)arg);

    if (number == 0) {
        stop_target(cli_target_expire);
        if (sigwait(&signals, &number) != 0)
            return NULL;
    }
    atomic_store(&came, number);
    stop_target(cli_target_stop);
    (void)wait_for_signal(GONE_AFTER_S * 1000);
    _exit(128 + number);
}

size_t cli_ending_signals(int ret[CLI_ENDING_SIGNALS]) {
    static const int numbers[CLI_ENDING_SIGNALS] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction now;
    size_t count = 0;

    for (size_t i = 0; i < CLI_ENDING_SIGNALS; i++)
        if (sigaction(numbers[i], NULL, &now) == 0 && now.sa_handler != SIG_IGN)
            ret[count++] = numbers[i];
    return count;
}

void cli_handle_ending_signals(void (*handler)(int number), int flags) {
    const struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
    int numbers[CLI_ENDING_SIGNALS];
    size_t count = cli_ending_signals(numbers);

    for (size_t i = 0; i < count; i++)
        sigaction(numbers[i], &action, NULL);
}

int cli_interrupt_begin(cli_target_t *target) {
    static long total_ms; /* outlives this call, as the thread does */
    int numbers[CLI_ENDING_SIGNALS];
    pthread_t thread;
    size_t count;

    sigemptyset(&signals);
    count = target->program != NULL ? cli_ending_signals(numbers) : 0;
    for (size_t i = 0; i < count; i++)
        sigaddset(&signals, numbers[i]);
    stoppable = target;
    total_ms = cli_target_total_ms(target);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
    if (pthread_create(&thread, NULL, supervise, &total_ms) != 0)
        return cli_error("%s: cannot start a thread", target->command->name);
    pthread_detach(thread);
    return CLI_OK;
}

void cli_interrupt_end(void) {
    int number;

    pthread_mutex_lock(&lock);
    stoppable = NULL;
    pthread_mutex_unlock(&lock);
    number = atomic_load(&came);
    if (number == 0)
        return;
    signal(number, SIG_DFL);
    raise(number); /* blocked until the next line */
    pthread_sigmask(SIG_UNBLOCK, &signals, NULL);
}

/* SPDX-License-Identifier: MIT */
#include "interrupt.h"

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

static void stop_target(void) {
    pthread_mutex_lock(&lock);
    if (stoppable != NULL)
        cli_target_stop(stoppable);
    pthread_mutex_unlock(&lock);
}

/* The main thread may be waiting for whoever reads our output: it gets a while to leave
 * in good order, and the program to end. */
static void *wait_for_signal(void *arg) {
    const struct timespec while_ = {.tv_sec = GONE_AFTER_S};
    int number;

    (void)arg;
    if (sigwait(&signals, &number) != 0)
        return NULL;
    atomic_store(&came, number);
    stop_target();
    (void)sigtimedwait(&signals, NULL, &while_);
    _exit(128 + number);
}

void cli_interrupt_catch(cli_target_t *target) {
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction before;
    pthread_t thread;

    sigemptyset(&signals);
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
        if (sigaction(numbers[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN)
            sigaddset(&signals, numbers[i]);
    stoppable = target;
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
    if (pthread_create(&thread, NULL, wait_for_signal, NULL) == 0)
        pthread_detach(thread);
    else
        pthread_sigmask(SIG_UNBLOCK, &signals, NULL); /* as without us */
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

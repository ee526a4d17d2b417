/* SPDX-License-Identifier: MIT
 *
 * One thread and a list of work sorted by time. */
#include "fixture.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>

struct job {
    struct job *next;
    struct timespec due;
    later_fn work;
    void *arg;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed;
static pthread_t thread;
static struct job *jobs;
static bool stopping;

static bool before(const struct timespec *a, const struct timespec *b) {
    return a->tv_sec != b->tv_sec ? a->tv_sec < b->tv_sec : a->tv_nsec < b->tv_nsec;
}

/* Takes the first job whose time has come, or waits for one. NULL: all is done. */
static struct job *next_job(void) {
    struct timespec now;
    struct job *job = NULL;

    pthread_mutex_lock(&lock);
    for (;;) {
        clock_gettime(CLOCK_MONOTONIC, &now);
        if (jobs != NULL && (stopping || !before(&now, &jobs->due))) {
            job = jobs;
            jobs = job->next;
            break;
        }
        if (jobs != NULL)
            pthread_cond_timedwait(&changed, &lock, &jobs->due);
        else if (stopping)
            break;
        else
            pthread_cond_wait(&changed, &lock);
    }
    pthread_mutex_unlock(&lock);
    return job;
}

static void *run(void *unused) {
    struct job *job;

    (void)unused;
    while ((job = next_job()) != NULL) {
        job->work(job->arg);
        free(job);
    }
    return NULL;
}

int fixture_later_start(void) {
    pthread_condattr_t attr;
    sigset_t all, old;
    int rv;

    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&changed, &attr);
    pthread_condattr_destroy(&attr);

    /* Signals are for the main thread. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    rv = pthread_create(&thread, NULL, run, NULL);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return rv == 0 ? 0 : TDG_ESYSTEM;
}

void fixture_later(uint32_t delay_ms, later_fn work, void *arg) {
    struct job *job = malloc(sizeof(*job)), **place;

    if (job == NULL)
        abort(); /* A test program may. */
    job->work = work;
    job->arg = arg;
    clock_gettime(CLOCK_MONOTONIC, &job->due);
    job->due.tv_sec += delay_ms / 1000;
    job->due.tv_nsec += (long)(delay_ms % 1000) * 1000000;
    if (job->due.tv_nsec >= 1000000000) {
        job->due.tv_sec++;
        job->due.tv_nsec -= 1000000000;
    }

    pthread_mutex_lock(&lock);
    for (place = &jobs; *place != NULL && !before(&job->due, &(*place)->due);)
        place = &(*place)->next;
    job->next = *place;
    *place = job;
    pthread_cond_signal(&changed);
    pthread_mutex_unlock(&lock);
}

void fixture_later_stop(void) {
    pthread_mutex_lock(&lock);
    stopping = true;
    pthread_cond_signal(&changed);
    pthread_mutex_unlock(&lock);
    pthread_join(thread, NULL);
}

/* SPDX-License-Identifier: MIT */
#include "driver.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t idle = PTHREAD_COND_INITIALIZER;
static size_t working; /* threads */
static driven_t *clients;

void driver_tell(json_t *object) {
    static pthread_mutex_t one_by_one = PTHREAD_MUTEX_INITIALIZER;
    char *text = json_dumps(object, JSON_COMPACT);

    if (text == NULL)
        abort();
    pthread_mutex_lock(&one_by_one);
    puts(text);
    fflush(stdout);
    pthread_mutex_unlock(&one_by_one);
    free(text);
    json_decref(object);
}

driven_t *driver_find(const char *name) {
    driven_t *driven;

    pthread_mutex_lock(&lock);
    for (driven = clients; driven != NULL; driven = driven->next)
        if (strcmp(driven->name, name) == 0)
            break;
    if (driven == NULL) {
        driven = calloc(1, sizeof(*driven));
        if (driven == NULL)
            abort();
        driven->name = strdup(name);
        driven->next = clients;
        clients = driven;
    }
    pthread_mutex_unlock(&lock);
    return driven;
}

/* Who asks for something after an answer sees all that was done for the answer. */
static void settle(void) {
    pthread_mutex_lock(&lock);
    pthread_mutex_unlock(&lock);
}

static void *work(void *arg) {
    json_t *line = arg;
    json_t *answer = driver_do(line);

    json_object_set(answer, "id", json_object_get(line, "id"));
    json_decref(line);
    settle();
    driver_tell(answer);

    pthread_mutex_lock(&lock);
    working--;
    pthread_cond_signal(&idle);
    pthread_mutex_unlock(&lock);
    return NULL;
}

static void start_work(json_t *line) {
    pthread_t thread;

    pthread_mutex_lock(&lock);
    working++;
    pthread_mutex_unlock(&lock);
    if (pthread_create(&thread, NULL, work, line) != 0)
        abort();
    pthread_detach(thread);
}

static void finish(void) {
    settle();
    for (driven_t *driven = clients; driven != NULL; driven = driven->next)
        driver_close(driven);
    pthread_mutex_lock(&lock);
    while (working > 0)
        pthread_cond_wait(&idle, &lock);
    pthread_mutex_unlock(&lock);
    while (clients != NULL) {
        driven_t *driven = clients;

        clients = driven->next;
        json_decref(driven->opts);
        free(driven->name);
        free(driven);
    }
}

int main(void) {
    char *text = NULL;
    size_t size = 0;

    signal(SIGPIPE, SIG_IGN);
    while (getline(&text, &size, stdin) > 0) {
        json_error_t error;
        json_t *line = json_loads(text, 0, &error);

        if (line == NULL) {
            fprintf(stderr, "driver: %s: %s", error.text, text);
            return 2;
        }
        start_work(line);
    }
    free(text);
    finish();
    return 0;
}

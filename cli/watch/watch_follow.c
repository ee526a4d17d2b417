/* SPDX-License-Identifier: MIT
 *
 * The thread that queries the server. Its calls wait for responses, which the loop must
 * not do: the loop runs commands and handles Ctrl-C. It passes its results on as notes.
 * Without URIs it follows the list of resources: it subscribes to new ones and drops
 * removed ones. */
#include "watch/watch.h"

#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "interrupt.h"

enum {
    STOP_WAIT_S = 6, /* a program that ignores everything is gone after 5 */
    /* Between two looks at a list that does not stop to change. */
    PAUSE_MS = 250,
    MAX_PAUSE_MS = 8000,
    FOLLOWED = 1 << TDG_LIST_RESOURCES | 1 << TDG_LIST_TOOLS | 1 << TDG_LIST_PROMPTS,
};

bool watch_follow_is_stopped(watch_t *watch) {
    pthread_mutex_lock(&watch->follow.lock);
    bool stop = watch->follow.stop;
    pthread_mutex_unlock(&watch->follow.lock);
    return stop;
}

void watch_follow_rest(watch_follow_t *follow, long ms, unsigned lists) {
    struct timespec until;
    int rv = 0;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += ms / 1000;
    until.tv_nsec += ms % 1000 * 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    while (!follow->stop && (follow->changed & lists) == 0 && rv == 0)
        rv = pthread_cond_timedwait(&follow->wake, &follow->lock, &until);
}

/* ---- Following the list ------------------------------------------------- */

/* The URIs in a list of resources, as an object; new. NULL: no memory for all of them. */
static json_t *uris_of(const json_t *list) {
    json_t *uris = json_object();

    for (size_t i = 0; uris != NULL && i < json_array_size(list); i++) {
        const char *uri =
            json_string_value(json_object_get(json_array_get(list, i), "uri"));

        if (uri != NULL && json_object_set_new(uris, uri, json_true()) < 0) {
            json_decref(uris);
            uris = NULL;
        }
    }
    return uris;
}

/* Those that are in `some` and not in `others`, borrowed; for tdg__free(). */
static const char **only_in(json_t *some, const json_t *others, size_t *ret_count) {
    const char **uris = tdg__calloc(json_object_size(some) + 1, sizeof(*uris));
    const char *uri;
    json_t *value;
    size_t count = 0;

    if (uris != NULL)
        json_object_foreach(some, uri, value) if (json_object_get(others, uri) == NULL)
            uris[count++] = uri;
    *ret_count = count;
    return uris;
}

/* A server may say that a list has changed where it only cannot be sure. */
static void report_if_different(watch_t *watch, tdg_list_kind_t which,
                                const json_t *list) {
    json_t *before = watch->follow.lists[which];

    if (before != NULL && !json_equal(before, list))
        watch_note_send_item(watch, WATCH_LIST_CHANGED, which, NULL, NULL);
}

/* The lists of tools and prompts are only compared. */
static void look_at_list(watch_t *watch, tdg_list_kind_t which) {
    watch_follow_t *follow = &watch->follow;
    json_t *list = NULL;

    if (tdg_client_list(follow->client, which, &list, NULL) < 0)
        return;
    report_if_different(watch, which, list);
    json_decref(follow->lists[which]);
    follow->lists[which] = list;
}

/* Compares the list with what is known, and makes them the same. Other differences, such
 * as another title, are reported as a change of the list. */
static int follow_list(watch_t *watch, bool first) {
    watch_follow_t *follow = &watch->follow;
    tdg_failure_t failure = {0};
    size_t new_count = 0, gone_count = 0;
    json_t *list = NULL;
    int code = CLI_OK;

    int rv = tdg_client_list(follow->client, TDG_LIST_RESOURCES, &list, &failure);
    if (rv < 0) {
        if (first)
            return cli_target_failed(&watch->opts.target, "the list of resources", rv,
                                     &failure);
        tdg_failure_done(&failure); /* lost again: another event will come */
        return CLI_OK;
    }

    json_t *listed = uris_of(list);
    if (listed == NULL) { /* what is missing here would count as gone */
        watch_say(watch, "out of memory: changes of the list are not followed");
        json_decref(list);
        return first ? CLI_FAILED : CLI_OK;
    }
    const char **added = only_in(listed, follow->known, &new_count);
    const char **gone = only_in(follow->known, listed, &gone_count);
    if (added != NULL && new_count > 0)
        code = watch_subscribe_listed(watch, added, new_count, first);
    if (code == CLI_OK && first && added != NULL)
        watch_read_bases(watch, added, new_count);
    for (size_t i = 0; gone != NULL && i < gone_count; i++) {
        char *uri = tdg__strdup(gone[i]); /* it is the key itself */

        tdg_client_unsubscribe(follow->client, gone[i], NULL);
        watch_note_send_item(watch, WATCH_UNLISTED, TDG_LIST_RESOURCES, gone[i], NULL);
        if (uri != NULL)
            json_object_del(follow->known, uri);
        tdg__free(uri);
    }
    if (new_count == 0 && gone_count == 0)
        report_if_different(watch, TDG_LIST_RESOURCES, list);
    tdg__free(added);
    tdg__free(gone);
    json_decref(listed);
    json_decref(follow->lists[TDG_LIST_RESOURCES]);
    follow->lists[TDG_LIST_RESOURCES] = list;
    return code;
}

void watch_follow_list(watch_t *watch, tdg_list_kind_t list) {
    watch_follow_t *follow = &watch->follow;

    pthread_mutex_lock(&follow->lock);
    follow->changed |= 1u << list;
    pthread_cond_signal(&follow->wake);
    pthread_mutex_unlock(&follow->lock);
}

/* ---- The thread --------------------------------------------------------- */

/* With --patient a little less than the whole, so that the server is what has failed when
 * the time is over. */
static long connect_ms(const watch_opts_t *opts) {
    long less_ms = opts->timeout_ms < 1000 ? opts->timeout_ms / 10 : 100;

    return opts->patient ? opts->timeout_ms - less_ms : opts->timeout_ms;
}

static void fill_client_opts(watch_t *watch, tdg_client_opts_t *ret) {
    const watch_opts_t *opts = &watch->opts;

    cli_target_opts(&watch->opts.target, ret);
    if (opts->patient)
        ret->flags |= TDG_CLIENT_PATIENT;
    if (opts->no_retry)
        ret->flags |= TDG_CLIENT_ONE_LIFE;
    if (opts->timeout_ms > 0)
        ret->connect_timeout_ms = (uint32_t)connect_ms(opts);
    else if (opts->patient)
        ret->connect_timeout_ms = CLI_MAX_TIME_MS;
}

static int connect_it(watch_t *watch) {
    tdg_client_opts_t opts;
    tdg_client_t *client = NULL;

    fill_client_opts(watch, &opts);
    int code = cli_target_connect(&watch->opts.target, &opts, &client);
    pthread_mutex_lock(&watch->follow.lock);
    watch->follow.client = client;
    pthread_mutex_unlock(&watch->follow.lock);
    return code;
}

/* Nothing is listed, and no template stands for more: without --patient there is nothing
 * to watch. A server that does not answer now is not known to have none. */
static int expect_resources(watch_t *watch) {
    json_t *templates = NULL;
    int code = CLI_OK;

    if (json_object_size(watch->follow.known) > 0)
        return CLI_OK;
    if (tdg_client_list(watch->follow.client, TDG_LIST_TEMPLATES, &templates, NULL) ==
            0 &&
        json_array_size(templates) == 0) {
        cli_error("watch: %s lists no resources and no templates, so there is nothing to "
                  "watch; --patient waits for some",
                  watch->opts.target.name);
        code = CLI_NOT_FOUND;
    }
    json_decref(templates);
    return code;
}

static int subscribe_all(watch_t *watch, size_t *ret_count) {
    int code;

    if (watch->uri_count > 0) {
        code = watch_subscribe_given(watch);
        if (code == CLI_OK)
            watch_read_bases(watch, (const char *const *)watch->uris, watch->uri_count);
        *ret_count = watch->uri_count;
        return code;
    }

    /* What can be subscribed to is subscribed first: a server that is asked for more, and
     * given a start, may take what is new to it for changed. Then the lists are read
     * once more, as they may have changed before that was asked for. A server that
     * notifies of no list changes is watched all the same. */
    code = follow_list(watch, true);
    if (code == CLI_OK && !watch->opts.patient && !watch_follow_is_stopped(watch))
        code = expect_resources(watch);
    if (code == CLI_OK && !watch_follow_is_stopped(watch)) {
        tdg_client_watch_lists(watch->follow.client, FOLLOWED, NULL);
        *ret_count = json_object_size(watch->follow.known);
        look_at_list(watch, TDG_LIST_TOOLS);
        look_at_list(watch, TDG_LIST_PROMPTS);
        watch_follow_list(watch, TDG_LIST_RESOURCES);
    }
    return code;
}

/* A pause after a look at a list. A server that says that it has changed while we look
 * at it, every time, is asked less and less often. Under the lock. */
static void pause_between_looks(watch_follow_t *follow, long *pause_ms) {
    watch_follow_rest(follow, *pause_ms, 0);
    *pause_ms = follow->changed == 0       ? PAUSE_MS
                : *pause_ms < MAX_PAUSE_MS ? *pause_ms * 2
                                           : MAX_PAUSE_MS;
}

/* Waits for a change of a list; stores which have changed. Returns false where it is time
 * to end. */
static bool wait_for_lists(watch_follow_t *follow, long *pause_ms, unsigned *ret) {
    pthread_mutex_lock(&follow->lock);
    pause_between_looks(follow, pause_ms);
    if (follow->left_out && follow->changed == 0) {
        watch_follow_rest(follow, 2 * WATCH_RETRY_MS, FOLLOWED);
        follow->changed |= 1u << TDG_LIST_RESOURCES;
    }
    while (!follow->stop && follow->changed == 0)
        pthread_cond_wait(&follow->wake, &follow->lock);
    bool stop = follow->stop;
    *ret = follow->changed;
    follow->changed = 0;
    pthread_mutex_unlock(&follow->lock);
    return !stop;
}

static void follow_lists(watch_t *watch) {
    long pause_ms = PAUSE_MS;
    unsigned changed;

    while (wait_for_lists(&watch->follow, &pause_ms, &changed)) {
        if ((changed & 1u << TDG_LIST_RESOURCES) != 0)
            follow_list(watch, false);
        if ((changed & 1u << TDG_LIST_TOOLS) != 0)
            look_at_list(watch, TDG_LIST_TOOLS);
        if ((changed & 1u << TDG_LIST_PROMPTS) != 0)
            look_at_list(watch, TDG_LIST_PROMPTS);
    }
}

static void *run_follow(void *user) {
    watch_t *watch = user;
    watch_follow_t *follow = &watch->follow;
    size_t count = 0;

    int code = connect_it(watch);
    if (code == CLI_OK && !watch_follow_is_stopped(watch))
        code = subscribe_all(watch, &count);
    if (code == CLI_OK) {
        const watch_note_t ready = {.kind = WATCH_NOTE_READY,
                                    .count = count,
                                    .contents = json_copy(follow->known)};

        watch_note_send(watch, &ready, true);
        if (!watch->opts.json) /* people want to know */
            watch_look_for_given(watch);
        follow_lists(watch);
    }

    pthread_mutex_lock(&follow->lock);
    follow->over = true; /* the client is not used from here any more */
    pthread_cond_signal(&follow->idle);
    pthread_mutex_unlock(&follow->lock);
    if (code != CLI_OK) {
        const watch_note_t failed = {.kind = WATCH_NOTE_FAILED, .exit_code = code};

        watch_note_send(watch, &failed, true);
    }
    return NULL;
}

int watch_follow_start(watch_t *watch) {
    watch_follow_t *follow = &watch->follow;
    int numbers[CLI_ENDING_SIGNALS];
    size_t count = cli_ending_signals(numbers);
    sigset_t ours, before;

    follow->known = json_object();
    if (follow->known == NULL || pipe2(follow->pipe, O_CLOEXEC | O_NONBLOCK) < 0)
        return TDG_ESYSTEM;
    pthread_mutex_init(&follow->lock, NULL);
    pthread_cond_init(&follow->wake, NULL);
    pthread_cond_init(&follow->idle, NULL);

    /* Signals are for the loop, so that they interrupt what it does. The client's thread
     * is started by this one and has the same mask. */
    sigemptyset(&ours);
    for (size_t i = 0; i < count; i++)
        sigaddset(&ours, numbers[i]);
    pthread_sigmask(SIG_BLOCK, &ours, &before);
    follow->started = pthread_create(&follow->thread, NULL, run_follow, watch) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return follow->started ? 0 : TDG_ESYSTEM;
}

bool watch_follow_stop(watch_t *watch) {
    watch_follow_t *follow = &watch->follow;
    struct timespec until;
    watch_note_t *note;

    if (follow->started) {
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec += STOP_WAIT_S;
        pthread_mutex_lock(&follow->lock);
        follow->stop = true;
        pthread_cond_signal(&follow->wake);
        pthread_mutex_unlock(&follow->lock);
        cli_target_stop(&watch->opts.target);
        /* Not connected yet: no server waits for a message, but a program has to end. */
        pthread_mutex_lock(&follow->lock);
        while (!follow->over &&
               (follow->client != NULL || watch->opts.target.program != NULL) &&
               pthread_cond_timedwait(&follow->idle, &follow->lock, &until) == 0)
            ;
        bool over = follow->over;
        pthread_mutex_unlock(&follow->lock);
        if (!over)
            return false;
        pthread_join(follow->thread, NULL);
    }

    cli_target_close(&watch->opts.target);
    follow->client = NULL;
    while ((note = watch_follow_next(watch)) != NULL)
        watch_note_free(note);
    json_decref(follow->known);
    for (size_t i = 0; i <= TDG_LIST_PROMPTS; i++)
        json_decref(follow->lists[i]);
    close(follow->pipe[0]);
    close(follow->pipe[1]);
    return true;
}

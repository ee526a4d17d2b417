/* SPDX-License-Identifier: MIT
 *
 * The thread that asks the server. Its calls wait for answers, and the loop must not:
 * commands run there, and Ctrl-C has to work. What it finds it hands over as notes. Where
 * no URIs were given it follows the list of resources: what is new is subscribed to, what
 * is gone is dropped. */
#include "watch/watch.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "mcp/rpc.h"

enum {
    READS = 16,         /* at the same time, at the start */
    SHOWN_REFUSALS = 5, /* of listed resources */
    LOOKED_FOR = 16,    /* of those that the command line names */
    STOP_WAIT_S = 6,    /* a program that ignores everything is gone after 5 */
    /* Between two looks at a list that does not stop to change. */
    PAUSE_MS = 250,
    MAX_PAUSE_MS = 8000,
    /* Before what is refused for now is subscribed to once more. The library has retried
     * for some seconds by then. */
    RETRY_MS = 1000,
    MAX_RETRY_MS = 30000,
    FOLLOWED = 1 << TDG_LIST_RESOURCES | 1 << TDG_LIST_TOOLS | 1 << TDG_LIST_PROMPTS,
};

/* ---- Notes -------------------------------------------------------------- */

static watch_note_t *make_note(watch_note_kind_t kind) {
    watch_note_t *note = tdg__calloc(1, sizeof(*note));

    if (note != NULL)
        note->kind = kind;
    return note;
}

void watch_note_free(watch_note_t *note) {
    if (note == NULL)
        return;
    tdg__free(note->uri);
    json_decref(note->contents);
    watch_item_free(note->item);
    tdg__free(note);
}

/* Hands a note over; NULL: there was no memory for it, which is said. */
static void send_note(watch_t *watch, watch_note_t *note) {
    watch_follow_t *follow = &watch->follow;

    if (note == NULL) {
        watch_say(watch, "out of memory: something is not shown");
        return;
    }
    pthread_mutex_lock(&follow->lock);
    if (follow->first == NULL)
        follow->first = note;
    else
        follow->last->next = note;
    follow->last = note;
    pthread_mutex_unlock(&follow->lock);
    /* A full pipe is readable anyway. */
    while (write(follow->pipe[1], "", 1) < 0 && errno == EINTR)
        ;
}

static void send_result(watch_t *watch, watch_note_kind_t kind, int exit_code,
                        size_t count) {
    watch_note_t *note = make_note(kind);

    if (note != NULL) {
        note->exit_code = exit_code;
        note->count = count;
        if (kind == WATCH_NOTE_READY)
            note->contents = json_copy(watch->follow.known);
    }
    send_note(watch, note);
}

/* `contents` is stolen. */
static void send_item(watch_t *watch, watch_kind_t kind, const char *uri,
                      json_t *contents) {
    watch_item_t *item = watch_item_found(kind, uri, contents);
    watch_note_t *note = item != NULL ? make_note(WATCH_NOTE_ITEM) : NULL;

    if (note != NULL)
        note->item = item;
    else
        watch_item_free(item);
    send_note(watch, note);
}

/* `contents` is borrowed. */
static void send_base(watch_t *watch, const char *uri, const json_t *contents) {
    watch_note_t *note = make_note(WATCH_NOTE_BASE);

    if (note != NULL) {
        note->uri = tdg__strdup(uri);
        note->contents = json_deep_copy(contents);
        if (note->uri == NULL || (contents != NULL && note->contents == NULL)) {
            watch_note_free(note);
            note = NULL;
        }
    }
    send_note(watch, note);
}

watch_note_t *watch_follow_next(watch_t *watch) {
    watch_follow_t *follow = &watch->follow;
    char bytes[64];

    while (read(follow->pipe[0], bytes, sizeof(bytes)) > 0)
        ;
    pthread_mutex_lock(&follow->lock);
    watch_note_t *note = follow->first;
    if (note != NULL)
        follow->first = note->next;
    pthread_mutex_unlock(&follow->lock);
    return note;
}

static bool is_stopped(watch_follow_t *follow) {
    pthread_mutex_lock(&follow->lock);
    bool stop = follow->stop;
    pthread_mutex_unlock(&follow->lock);
    return stop;
}

/* ---- The content at the start ------------------------------------------- */

typedef struct reading {
    watch_t *watch;
    pthread_mutex_t lock;
    pthread_cond_t done;
    size_t in_flight;
} reading_t;

typedef struct one_read {
    reading_t *reading;
    char *uri;
} one_read_t;

/* On the client's thread. */
static void on_read(void *user, const json_t *result, const tdg_failure_t *failure) {
    one_read_t *one = user;
    reading_t *reading = one->reading;

    if (result != NULL)
        send_base(reading->watch, one->uri, json_object_get(result, "contents"));
    else if (failure->code == TDG_ENOTFOUND)
        send_base(reading->watch, one->uri, NULL);
    tdg__free(one->uri);
    tdg__free(one);

    pthread_mutex_lock(&reading->lock);
    reading->in_flight--;
    pthread_cond_signal(&reading->done);
    pthread_mutex_unlock(&reading->lock);
}

static void wait_for_reads(reading_t *reading, size_t at_most) {
    pthread_mutex_lock(&reading->lock);
    while (reading->in_flight > at_most)
        pthread_cond_wait(&reading->done, &reading->lock);
    pthread_mutex_unlock(&reading->lock);
}

static void start_read(reading_t *reading, tdg_client_t *client, const char *uri) {
    one_read_t *one = tdg__calloc(1, sizeof(*one));

    if (one == NULL)
        return;
    one->reading = reading;
    one->uri = tdg__strdup(uri);
    wait_for_reads(reading, READS - 1);
    pthread_mutex_lock(&reading->lock);
    reading->in_flight++;
    pthread_mutex_unlock(&reading->lock);
    if (one->uri == NULL ||
        tdg_client_send(client, "resources/read", json_pack("{s:s}", "uri", uri), 0,
                        on_read, one) < 0) {
        tdg__free(one->uri);
        tdg__free(one);
        pthread_mutex_lock(&reading->lock);
        reading->in_flight--;
        pthread_mutex_unlock(&reading->lock);
    }
}

/* What --diff compares with: the content of all of them. What cannot be read has none. */
static void read_bases(watch_t *watch, const char *const *uris, size_t count) {
    reading_t reading = {.watch = watch};

    if (!watch->opts.diff)
        return;
    pthread_mutex_init(&reading.lock, NULL);
    pthread_cond_init(&reading.done, NULL);
    for (size_t i = 0; i < count && !is_stopped(&watch->follow); i++)
        if (strchr(uris[i], '{') == NULL)
            start_read(&reading, watch->follow.client, uris[i]);
    wait_for_reads(&reading, 0);
    pthread_cond_destroy(&reading.done);
    pthread_mutex_destroy(&reading.lock);
}

/* ---- Subscribing -------------------------------------------------------- */

static void fill_subscribe_opts(const watch_t *watch, tdg_subscribe_opts_t *ret) {
    const watch_opts_t *opts = &watch->opts;

    /* On the command line -1 is "not said" and 0 "none"; there it is the other way. */
    *ret = (tdg_subscribe_opts_t){
        .batch_ms = opts->batch_ms < 0    ? 0
                    : opts->batch_ms == 0 ? -1
                                          : opts->batch_ms,
        .debounce_ms = opts->debounce_ms < 0    ? 0
                       : opts->debounce_ms == 0 ? -1
                                                : opts->debounce_ms,
        .rate_limit_ms = opts->rate_limit_ms < 0    ? 0
                         : opts->rate_limit_ms == 0 ? -1
                                                    : opts->rate_limit_ms,
        .filter = watch->filter,
        .since_ms = opts->since_ms,
        .await_creation = true,
        .reread = opts->read || opts->diff || opts->exec != NULL,
        .poll_ms = (uint32_t)opts->poll_ms,
    };
}

/* A modern server that is not ours does not say why it leaves a resource out, and older
 * ones take an unknown resource for a wrong parameter. Other errors are failures, and so
 * is what the server may accept later. */
static int refused_code(int code, const tdg_failure_t *failure) {
    int exit_code = cli_exit_code(code, failure);
    bool unsaid =
        (failure->rpc_code == 0 || failure->rpc_code == TDG__RPC_INVALID_PARAMS) &&
        !failure->passing;

    return exit_code == CLI_FAILED && code == TDG_EREFUSED && unsaid ? CLI_NOT_FOUND
                                                                     : exit_code;
}

static int tell_refusal(watch_t *watch, const char *uri, int code,
                        tdg_failure_t *failure) {
    int exit_code = refused_code(code, failure);

    cli_target_failed(&watch->opts.target, uri, code, failure);
    if (code == TDG_ENOTSUP)
        watch_say(watch, "the server sends no updates of it; --poll TIME reads it at "
                         "intervals instead");
    else if (exit_code == CLI_NOT_FOUND)
        watch_say(watch, "`tidings ls` shows what can be watched; a server may not list "
                         "whether something is missing or not for you");
    return exit_code;
}

/* Waits, unless it is time to end, or a list changes that `lists` has. Under the lock. */
static void rest(watch_follow_t *follow, long ms, unsigned lists) {
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

/* Whether the server may accept later whatever it has refused. */
static bool is_passing(const watch_t *watch, const int *codes, size_t count,
                       const tdg_failure_t *failure) {
    if (!failure->passing || watch->opts.no_retry)
        return false;
    for (size_t i = 0; i < count; i++)
        if (codes[i] != 0 && codes[i] != failure->code)
            return false;
    return true;
}

/* How many were refused; stores which was the first. */
static size_t count_refused(const int *codes, size_t count, size_t *ret_first) {
    size_t refused = 0;

    for (size_t i = count; i-- > 0;) {
        if (codes[i] == 0)
            continue;
        refused++;
        *ret_first = i;
    }
    return refused;
}

/* Subscribes, and again while the server refuses more than `accepted` of them for a
 * passing reason. Returns what tdg_client_subscribe_all() did at last. */
static int subscribe(watch_t *watch, const char *const *uris, size_t count,
                     size_t accepted, int *codes, tdg_failure_t *failure) {
    watch_follow_t *follow = &watch->follow;
    long pause_ms = RETRY_MS;
    tdg_subscribe_opts_t opts;
    size_t first = 0;
    int rv;

    fill_subscribe_opts(watch, &opts);
    while ((rv = tdg_client_subscribe_all(follow->client, uris, count, &opts, codes,
                                          failure)) < 0 &&
           is_passing(watch, codes, count, failure) &&
           count_refused(codes, count, &first) > accepted) {
        if (pause_ms == RETRY_MS)
            watch_say(watch, "%s is refused for now, retrying: %s", uris[first],
                      failure->message);
        tdg_failure_done(failure);
        *failure = (tdg_failure_t){0};
        pthread_mutex_lock(&follow->lock);
        rest(follow, pause_ms, 0);
        pthread_mutex_unlock(&follow->lock);
        pause_ms = 2 * pause_ms < MAX_RETRY_MS ? 2 * pause_ms : MAX_RETRY_MS;
    }
    return rv;
}

/* Subscribes to what was asked for. All of it, or it has failed. */
static int subscribe_given(watch_t *watch) {
    tdg_failure_t failure = {0};
    int *codes = tdg__calloc(watch->uri_count, sizeof(*codes));
    int exit_code = CLI_OK;

    if (codes == NULL)
        return cli_target_failed(&watch->opts.target, NULL, TDG_ENOMEM, &failure);
    int rv = subscribe(watch, (const char *const *)watch->uris, watch->uri_count, 0,
                       codes, &failure);
    for (size_t i = 0; rv < 0 && i < watch->uri_count; i++)
        if (codes[i] < 0 && exit_code == CLI_OK)
            exit_code = tell_refusal(watch, watch->uris[i], codes[i], &failure);
        else if (codes[i] < 0)
            watch_say(watch, "%s: %s", watch->uris[i], tdg_strerror(codes[i]));
    if (rv < 0 && exit_code == CLI_OK)
        exit_code = tell_refusal(watch, NULL, rv, &failure);
    tdg__free(codes);
    return exit_code;
}

/* ---- Whether it is there ------------------------------------------------ */

typedef struct look {
    watch_t *watch;
    char *uri;
} look_t;

/* On the client's thread. */
static void on_looked(void *user, const json_t *result, const tdg_failure_t *failure) {
    look_t *look = user;

    if (result == NULL && failure->code == TDG_ENOTFOUND)
        watch_say(look->watch, "%s does not exist yet; it is shown when it is created",
                  look->uri);
    tdg__free(look->uri);
    tdg__free(look);
}

/* A server acknowledges what may come as well, so that whoever mistypes a URI would wait
 * for ever. Nobody waits for the answers. */
static void look_for_given(watch_t *watch) {
    for (size_t i = 0; i < watch->uri_count && i < LOOKED_FOR; i++) {
        const char *uri = watch->uris[i];
        look_t *look = strchr(uri, '{') == NULL ? tdg__calloc(1, sizeof(*look)) : NULL;

        if (look == NULL)
            continue;
        look->watch = watch;
        look->uri = tdg__strdup(uri);
        if (look->uri == NULL ||
            tdg_client_send(watch->follow.client, "resources/read",
                            json_pack("{s:s}", "uri", uri), 0, on_looked, look) < 0) {
            tdg__free(look->uri);
            tdg__free(look);
        }
    }
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

/* What is new and could be read goes with its content, as an update does. */
static void tell_listed(watch_t *watch, const char *uri) {
    json_t *result = NULL, *contents = NULL;
    tdg_subscribe_opts_t opts;

    fill_subscribe_opts(watch, &opts);
    if (opts.reread && tdg_client_read(watch->follow.client, uri, &result, NULL) == 0)
        contents = json_incref(json_object_get(result, "contents"));
    json_decref(result);
    send_item(watch, WATCH_LISTED, uri, contents);
}

/* Subscribes to resources of the list. Those that are refused are left out, for a while
 * where the reason may pass; it fails only where the server cannot be asked, or refuses
 * all. */
static int subscribe_listed(watch_t *watch, const char **uris, size_t count, bool first) {
    watch_follow_t *follow = &watch->follow;
    int *codes = tdg__calloc(count + 1, sizeof(*codes));
    tdg_failure_t failure = {0};
    size_t refused = 0;
    int rv = TDG_ENOMEM;

    if (codes != NULL)
        rv = subscribe(watch, uris, count, first ? count - 1 : count, codes, &failure);
    follow->left_out =
        rv < 0 && codes != NULL && is_passing(watch, codes, count, &failure);
    for (size_t i = 0; codes != NULL && i < count; i++) {
        if (codes[i] == 0)
            json_object_set_new(follow->known, uris[i], json_true());
        else if (++refused <= SHOWN_REFUSALS && first)
            watch_say(watch,
                      follow->left_out ? "%s is refused for now, retrying: %s"
                                       : "%s is listed but cannot be watched: %s",
                      uris[i], tdg_strerror(codes[i]));
        if (codes[i] == 0 && !first)
            tell_listed(watch, uris[i]);
    }
    if (first && refused > SHOWN_REFUSALS)
        watch_say(watch, "and %zu more", refused - SHOWN_REFUSALS);
    tdg__free(codes);
    if (rv < 0 && first && refused == count)
        return tell_refusal(watch, NULL, rv, &failure);
    tdg_failure_done(&failure);
    return CLI_OK;
}

/* A server may say that a list has changed where it only cannot be sure. */
static void tell_if_different(watch_t *watch, tdg_list_kind_t which, const json_t *list) {
    json_t *before = watch->follow.lists[which];

    if (before == NULL || json_equal(before, list))
        return;
    watch_note_t *note = make_note(WATCH_NOTE_ITEM);
    if (note != NULL) {
        note->item = watch_item_found(WATCH_LIST_CHANGED, NULL, NULL);
        if (note->item == NULL) {
            watch_note_free(note);
            note = NULL;
        } else {
            note->item->list = which;
        }
    }
    send_note(watch, note);
}

/* The lists of tools and prompts are only compared. */
static void look_at_list(watch_t *watch, tdg_list_kind_t which) {
    watch_follow_t *follow = &watch->follow;
    json_t *list = NULL;

    if (tdg_client_list(follow->client, which, &list, NULL) < 0)
        return;
    tell_if_different(watch, which, list);
    json_decref(follow->lists[which]);
    follow->lists[which] = list;
}

/* Compares the list with what is known, and makes them the same. Other differences, such
 * as another title, are told as a change of the list. */
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
        watch_say(watch, "out of memory: the list is not followed");
        json_decref(list);
        return first ? CLI_FAILED : CLI_OK;
    }
    const char **added = only_in(listed, follow->known, &new_count);
    const char **gone = only_in(follow->known, listed, &gone_count);
    if (added != NULL && new_count > 0)
        code = subscribe_listed(watch, added, new_count, first);
    if (code == CLI_OK && first && added != NULL)
        read_bases(watch, added, new_count);
    for (size_t i = 0; gone != NULL && i < gone_count; i++) {
        tdg_client_unsubscribe(follow->client, gone[i], NULL);
        send_item(watch, WATCH_UNLISTED, gone[i], NULL);
    }
    for (size_t i = 0; gone != NULL && i < gone_count; i++) {
        char *uri = tdg__strdup(gone[i]); /* it is the key itself */

        if (uri != NULL)
            json_object_del(follow->known, uri);
        tdg__free(uri);
    }
    if (new_count == 0 && gone_count == 0)
        tell_if_different(watch, TDG_LIST_RESOURCES, list);
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
        code = subscribe_given(watch);
        if (code == CLI_OK)
            read_bases(watch, (const char *const *)watch->uris, watch->uri_count);
        *ret_count = watch->uri_count;
        return code;
    }

    /* What can be subscribed to is subscribed first: a server that is asked for more, and
     * told from when on, may take what is new to it for changed. Then the lists are read
     * once more, as they may have changed before that was asked for. A server that tells
     * no list changes is watched all the same. */
    code = follow_list(watch, true);
    if (code == CLI_OK && !watch->opts.patient && !is_stopped(&watch->follow))
        code = expect_resources(watch);
    if (code == CLI_OK && !is_stopped(&watch->follow)) {
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
    rest(follow, *pause_ms, 0);
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
        rest(follow, 2 * RETRY_MS, FOLLOWED);
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
    if (code == CLI_OK && !is_stopped(follow))
        code = subscribe_all(watch, &count);
    if (code == CLI_OK) {
        send_result(watch, WATCH_NOTE_READY, CLI_OK, count);
        if (!watch->opts.json) /* what people are told */
            look_for_given(watch);
        follow_lists(watch);
    }

    pthread_mutex_lock(&follow->lock);
    follow->over = true; /* the client is not used from here any more */
    pthread_cond_signal(&follow->idle);
    pthread_mutex_unlock(&follow->lock);
    if (code != CLI_OK)
        send_result(watch, WATCH_NOTE_FAILED, code, 0);
    return NULL;
}

int watch_follow_start(watch_t *watch) {
    watch_follow_t *follow = &watch->follow;
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
    sigaddset(&ours, SIGINT);
    sigaddset(&ours, SIGTERM);
    sigaddset(&ours, SIGHUP);
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
        /* Not connected yet: no server needs to be told, but a program has to end. */
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

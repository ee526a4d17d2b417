/* SPDX-License-Identifier: MIT
 *
 * Subscribes, and reads the content that --diff compares with. Runs on the thread that
 * queries the server, because everything here waits for responses. */
#include "watch/watch.h"

#include <string.h>

#include "base/alloc.h"
#include "mcp/rpc.h"

enum {
    READS = 16,         /* at the same time, at the start */
    LOOKED_FOR = 16,    /* of those that the command line names */
    SHOWN_REFUSALS = 5, /* of listed resources */
    MAX_RETRY_MS = 30000,
};

/* ---- Reading ------------------------------------------------------------ */

/* The reads of the content at the start, which are waited for. */
typedef struct reading {
    pthread_mutex_t lock;
    pthread_cond_t done;
    size_t in_flight;
} reading_t;

typedef struct one_read {
    watch_t *watch;
    reading_t *reading; /* NULL: it is only looked whether the resource exists */
    char *uri;
} one_read_t;

static void end_read(one_read_t *one) {
    reading_t *reading = one->reading;

    tdg__free(one->uri);
    tdg__free(one);
    if (reading == NULL)
        return;
    pthread_mutex_lock(&reading->lock);
    reading->in_flight--;
    pthread_cond_signal(&reading->done);
    pthread_mutex_unlock(&reading->lock);
}

/* `contents` is borrowed; NULL: the resource does not exist. */
static void send_base(watch_t *watch, const char *uri, const json_t *contents) {
    const watch_note_t note = {.kind = WATCH_NOTE_BASE,
                               .uri = tdg__strdup(uri),
                               .contents = json_deep_copy(contents)};

    watch_note_send(watch, &note,
                    note.uri != NULL && (contents == NULL || note.contents != NULL));
}

/* On the client's thread. */
static void on_read(void *user, const json_t *result, const tdg_failure_t *failure) {
    one_read_t *one = user;
    bool is_missing = result == NULL && failure->code == TDG_ENOTFOUND;

    if (one->reading != NULL && (result != NULL || is_missing))
        send_base(one->watch, one->uri, json_object_get(result, "contents"));
    else if (is_missing)
        watch_say(one->watch, "%s does not exist yet; watching for its creation",
                  one->uri);
    end_read(one);
}

static void wait_for_reads(reading_t *reading, size_t at_most) {
    pthread_mutex_lock(&reading->lock);
    while (reading->in_flight > at_most)
        pthread_cond_wait(&reading->done, &reading->lock);
    pthread_mutex_unlock(&reading->lock);
}

static void start_read(watch_t *watch, reading_t *reading, const char *uri) {
    one_read_t *one = tdg__calloc(1, sizeof(*one));

    if (one == NULL)
        return;
    *one = (one_read_t){watch, reading, tdg__strdup(uri)};
    if (reading != NULL) {
        wait_for_reads(reading, READS - 1);
        pthread_mutex_lock(&reading->lock);
        reading->in_flight++;
        pthread_mutex_unlock(&reading->lock);
    }
    if (one->uri == NULL ||
        tdg_client_send(watch->follow.client, "resources/read",
                        json_pack("{s:s}", "uri", uri), 0, on_read, one) < 0)
        end_read(one);
}

static bool is_template(const char *uri) {
    return strchr(uri, '{') != NULL;
}

void watch_read_bases(watch_t *watch, const char *const *uris, size_t count) {
    reading_t reading = {.in_flight = 0};

    if (!watch->opts.diff)
        return;
    pthread_mutex_init(&reading.lock, NULL);
    pthread_cond_init(&reading.done, NULL);
    for (size_t i = 0; i < count && !watch_follow_is_stopped(watch); i++)
        if (!is_template(uris[i]))
            start_read(watch, &reading, uris[i]);
    wait_for_reads(&reading, 0);
    pthread_cond_destroy(&reading.done);
    pthread_mutex_destroy(&reading.lock);
}

void watch_look_for_given(watch_t *watch) {
    for (size_t i = 0; i < watch->uri_count && i < LOOKED_FOR; i++)
        if (!is_template(watch->uris[i]))
            start_read(watch, NULL, watch->uris[i]);
}

/* ---- Subscribing -------------------------------------------------------- */

/* On the command line -1 is "not given" and 0 "none"; for the client it is the other way
 * round. */
static long client_ms(long given_ms) {
    return given_ms < 0 ? 0 : given_ms == 0 ? -1 : given_ms;
}

static void fill_subscribe_opts(const watch_t *watch, tdg_subscribe_opts_t *ret) {
    const watch_opts_t *opts = &watch->opts;

    *ret = (tdg_subscribe_opts_t){
        .batch_ms = client_ms(opts->batch_ms),
        .debounce_ms = client_ms(opts->debounce_ms),
        .rate_limit_ms = client_ms(opts->rate_limit_ms),
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

static int report_refusal(watch_t *watch, const char *uri, int code,
                          tdg_failure_t *failure) {
    int exit_code = refused_code(code, failure);

    cli_target_failed(&watch->opts.target, uri, code, failure);
    if (code == TDG_ENOTSUP)
        watch_say(watch, "the server does not support subscriptions to this resource; "
                         "--poll TIME reads it at intervals instead");
    else if (exit_code == CLI_NOT_FOUND)
        watch_say(watch, "`tidings ls` shows what can be watched; some servers report a "
                         "resource that you may not read as missing");
    return exit_code;
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
    long pause_ms = WATCH_RETRY_MS;
    tdg_subscribe_opts_t opts;
    size_t first = 0;
    int rv;

    fill_subscribe_opts(watch, &opts);
    while ((rv = tdg_client_subscribe_all(follow->client, uris, count, &opts, codes,
                                          failure)) < 0 &&
           is_passing(watch, codes, count, failure) &&
           count_refused(codes, count, &first) > accepted) {
        if (pause_ms == WATCH_RETRY_MS)
            watch_say(watch, "%s is temporarily refused, retrying: %s", uris[first],
                      failure->message);
        tdg_failure_done(failure);
        *failure = (tdg_failure_t){0};
        pthread_mutex_lock(&follow->lock);
        watch_follow_rest(follow, pause_ms, 0);
        pthread_mutex_unlock(&follow->lock);
        pause_ms = 2 * pause_ms < MAX_RETRY_MS ? 2 * pause_ms : MAX_RETRY_MS;
    }
    return rv;
}

int watch_subscribe_given(watch_t *watch) {
    tdg_failure_t failure = {0};
    int *codes = tdg__calloc(watch->uri_count, sizeof(*codes));
    int exit_code = CLI_OK;

    if (codes == NULL)
        return cli_target_failed(&watch->opts.target, NULL, TDG_ENOMEM, &failure);
    int rv = subscribe(watch, (const char *const *)watch->uris, watch->uri_count, 0,
                       codes, &failure);
    for (size_t i = 0; rv < 0 && i < watch->uri_count; i++)
        if (codes[i] < 0 && exit_code == CLI_OK)
            exit_code = report_refusal(watch, watch->uris[i], codes[i], &failure);
        else if (codes[i] < 0)
            watch_say(watch, "%s: %s", watch->uris[i], tdg_strerror(codes[i]));
    if (rv < 0 && exit_code == CLI_OK)
        exit_code = report_refusal(watch, NULL, rv, &failure);
    tdg__free(codes);
    return exit_code;
}

/* What is new and could be read goes with its content, as an update does. */
static void report_listed(watch_t *watch, const char *uri) {
    json_t *result = NULL, *contents = NULL;
    tdg_subscribe_opts_t opts;

    fill_subscribe_opts(watch, &opts);
    if (opts.reread && tdg_client_read(watch->follow.client, uri, &result, NULL) == 0)
        contents = json_incref(json_object_get(result, "contents"));
    json_decref(result);
    watch_note_send_item(watch, WATCH_LISTED, TDG_LIST_RESOURCES, uri, contents);
}

int watch_subscribe_listed(watch_t *watch, const char **uris, size_t count, bool first) {
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
                      follow->left_out ? "%s is temporarily refused, retrying: %s"
                                       : "%s is listed but cannot be watched: %s",
                      uris[i], tdg_strerror(codes[i]));
        if (codes[i] == 0 && !first)
            report_listed(watch, uris[i]);
    }
    if (first && refused > SHOWN_REFUSALS)
        watch_say(watch, "and %zu more", refused - SHOWN_REFUSALS);
    tdg__free(codes);
    if (rv < 0 && first && refused == count)
        return report_refusal(watch, NULL, rv, &failure);
    tdg_failure_done(&failure);
    return CLI_OK;
}

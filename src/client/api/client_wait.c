/* SPDX-License-Identifier: MIT
 *
 * Functions that wait for the client's thread, and through it for the server. The task
 * and its outcome are on the caller's stack, which is safe because the core answers every
 * task: in time, or when it is stopped. */
#include "client/api/client.h"
#include "client/subs/subscribing.h"

#include <pthread.h>
#include <string.h>

#include "base/alloc.h"
#include "base/sized.h"

typedef struct wait wait_task_t;
struct wait {
    tdg__client_task_t task; /* first: a task is a wait_task */
    /* On the client's thread; ends with answered(), now or later. */
    void (*start)(tdg__core_t *core, wait_task_t *wait);

    /* What is asked; which of them depends on `start`. */
    const char *name; /* method, tool, URI */
    json_t *params;   /* ours until started */
    uint32_t timeout_ms;
    unsigned lists;
    tdg_list_kind_t list;
    const char *const *uris;
    size_t count;
    const tdg_subscribe_opts_t *opts;
    int *codes;
    void *fill;

    /* What came of it. */
    pthread_mutex_t lock;
    pthread_cond_t answered;
    bool done;
    int code;
    json_t *result;
    tdg_failure_t failure;
};

/* ---- Waiting ------------------------------------------------------------ */

/* As the core has it: tdg__core_done_fn. */
static void answered(void *user, int code, json_t *result, const tdg_failure_t *failure) {
    wait_task_t *wait = user;

    pthread_mutex_lock(&wait->lock);
    wait->code = code;
    if (code == 0)
        wait->result = json_incref(result);
    else if (failure != NULL)
        wait->failure = *failure;
    else
        tdg__client_fail(&wait->failure, code, "%s", tdg_strerror(code));
    wait->failure.code = code;
    json_incref(wait->failure.data);
    wait->done = true;
    pthread_cond_signal(&wait->answered);
    pthread_mutex_unlock(&wait->lock);
}

static void run_wait(tdg__core_t *core, tdg__client_task_t *task) {
    wait_task_t *wait = (wait_task_t *)task;

    wait->start(core, wait);
}

static int wait_inside(tdg_client_t *client, wait_task_t *wait) {
    int rv = 0;

    wait->task.run = run_wait;
    pthread_mutex_init(&wait->lock, NULL);
    pthread_cond_init(&wait->answered, NULL);
    if (tdg__client_is_here(client))
        wait->start(tdg__client_core(client), wait);
    else
        rv = tdg__client_post(client, &wait->task);
    if (rv == 0) {
        pthread_mutex_lock(&wait->lock);
        while (!wait->done)
            pthread_cond_wait(&wait->answered, &wait->lock);
        pthread_mutex_unlock(&wait->lock);
        rv = wait->code;
    } else {
        json_decref(wait->params);
        tdg__client_fail(&wait->failure, rv, "%s",
                         rv == TDG_EENDED ? "the client is being closed"
                                          : "too many requests are waiting");
    }
    pthread_cond_destroy(&wait->answered);
    pthread_mutex_destroy(&wait->lock);
    return rv;
}

/* What is wrong with a call, or NULL. */
static const char *wrong_call(const tdg_client_t *client, const wait_task_t *wait) {
    if (client == NULL)
        return "no client";
    if (tdg__client_is_here(client))
        return "a callback must not wait for its own client";
    if (!tdg__client_is_text(wait->name))
        return "a name or URI is not UTF-8";
    if (wait->params != NULL && !json_is_object(wait->params))
        return "params and arguments must be an object";
    return NULL;
}

/* Returns what came of it; then wait->result, where there is one, is the caller's. */
static int wait_for(tdg_client_t *client, wait_task_t *wait, tdg_failure_t *failure) {
    const char *wrong = wrong_call(client, wait);
    int rv;

    if (wrong != NULL) {
        json_decref(wait->params);
        return tdg__client_fail(failure, TDG_EINVAL, "%s", wrong);
    }
    if (!tdg__client_enter(client)) {
        json_decref(wait->params);
        return tdg__client_fail(failure, TDG_EENDED, "the client is being closed");
    }

    rv = wait_inside(client, wait);
    tdg__client_leave(client);
    if (rv < 0 && failure != NULL)
        *failure = wait->failure;
    else
        json_decref(wait->failure.data);
    return rv;
}

/* The same for a result that has to be there. */
static int wait_for_result(tdg_client_t *client, wait_task_t *wait, json_t **ret,
                           tdg_failure_t *failure) {
    int rv = wait_for(client, wait, failure);

    if (rv < 0)
        return rv;
    if (wait->result == NULL)
        return tdg__client_fail(failure, TDG_EJSON, "the response has no result");
    *ret = wait->result;
    return 0;
}

static int no_argument(json_t *stolen, tdg_failure_t *failure) {
    json_decref(stolen);
    return tdg__client_fail(failure, TDG_EINVAL, "a required argument is NULL");
}

static int no_text(json_t *stolen, tdg_failure_t *failure) {
    json_decref(stolen);
    return tdg__client_fail(failure, TDG_EINVAL, "a name or text is not UTF-8");
}

/* ---- Connecting and what is known --------------------------------------- */

static void start_connect(tdg__core_t *core, wait_task_t *wait) {
    tdg__core_connect(core, answered, wait);
}

int tdg__client_connect(tdg_client_t *client, tdg_failure_t *failure) {
    wait_task_t wait = {.start = start_connect};

    return wait_for(client, &wait, failure);
}

/* Runs `start` here where this is the client's thread: it does not wait for the server.
 */
static int look(tdg_client_t *client, wait_task_t *wait) {
    if (client == NULL)
        return TDG_EINVAL;
    return tdg__client_is_here(client) ? wait_inside(client, wait)
                                       : wait_for(client, wait, NULL);
}

static void start_facts(tdg__core_t *core, wait_task_t *wait) {
    tdg_server_facts_t *facts = wait->fill;
    const char **const texts[] = {&facts->protocol, &facts->transport, &facts->name,
                                  &facts->version, &facts->instructions};
    int rv = tdg__core_facts(core, facts);
    char *copy;

    /* All of them, so that what was not copied is never freed. */
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        if (!tdg__copy(*texts[i], &copy))
            rv = TDG_ENOMEM;
        *texts[i] = copy;
    }
    answered(wait, rv, NULL, NULL);
}

int tdg_client_facts_sized(tdg_client_t *client, tdg_server_facts_t *ret, size_t size) {
    tdg_server_facts_t facts = {0};
    wait_task_t wait = {.start = start_facts, .fill = &facts};
    int rv = ret != NULL ? look(client, &wait) : TDG_EINVAL;

    if (rv == 0)
        rv = tdg__sized_write(ret, size, &facts, sizeof(facts));
    if (rv == 0)
        memset(&facts, 0, size < sizeof(facts) ? size : sizeof(facts));
    tdg_server_facts_done(&facts); /* what the caller has no room for */
    return rv;
}

void tdg_server_facts_done_sized(tdg_server_facts_t *facts, size_t size) {
    tdg_server_facts_t own;

    if (facts == NULL)
        return;

    /* What we do not know was never filled. */
    if (tdg__sized_read(&own, sizeof(own), facts, size) == TDG_EINVAL)
        return;
    /* The texts are ours; that they are const is for those who look at them. */
    tdg__free((char *)(uintptr_t)own.protocol);
    tdg__free((char *)(uintptr_t)own.transport);
    tdg__free((char *)(uintptr_t)own.name);
    tdg__free((char *)(uintptr_t)own.version);
    tdg__free((char *)(uintptr_t)own.instructions);
    json_decref(own.info);
    json_decref(own.capabilities);
    json_decref(own.supported);
    memset(facts, 0, size);
}

static void start_count(tdg__core_t *core, wait_task_t *wait) {
    tdg__core_count(core, wait->fill);
    answered(wait, 0, NULL, NULL);
}

void tdg_client_counters_sized(tdg_client_t *client, tdg_client_counters_t *ret,
                               size_t size) {
    tdg_client_counters_t counts = {0};
    wait_task_t wait = {.start = start_count, .fill = &counts};

    if (ret == NULL)
        return;
    if (look(client, &wait) == 0) {
        counts.pending = tdg__client_waiting(client);
        counts.lost = tdg__client_lost(client);
    }
    (void)tdg__sized_write(ret, size, &counts, sizeof(counts));
}

/* ---- Subscriptions ------------------------------------------------------ */

static void start_subscribe(tdg__core_t *core, wait_task_t *wait) {
    tdg__core_subscribe(core, wait->uris, wait->count, wait->opts, wait->codes, answered,
                        wait);
}

static int check_uris(const char *const *uris, size_t count, tdg_failure_t *failure) {
    for (size_t i = 0; i < count; i++) {
        if (uris == NULL || uris[i] == NULL)
            return no_argument(NULL, failure);
        if (!tdg__client_is_text(uris[i]))
            return tdg__client_fail(failure, TDG_EINVAL, "URI %zu is not UTF-8", i + 1);
    }
    return 0;
}

/* Where all failed alike, before there was an outcome for each. */
static void fill_codes(int *codes, size_t count, int code) {
    for (size_t i = 0; codes != NULL && i < count; i++) {
        if (codes[i] != 0)
            return;
    }
    for (size_t i = 0; codes != NULL && i < count; i++)
        codes[i] = code;
}

int tdg_client_subscribe_all_sized(tdg_client_t *client, const char *const *uris,
                                   size_t count, const tdg_subscribe_opts_t *given,
                                   size_t opts_size, int *codes, tdg_failure_t *failure) {
    tdg_subscribe_opts_t opts;
    wait_task_t wait = {.start = start_subscribe,
                        .uris = uris,
                        .count = count,
                        .opts = given != NULL ? &opts : NULL,
                        .codes = codes};
    int rv;

    if (count == 0)
        return 0;

    if (codes != NULL)
        memset(codes, 0, count * sizeof(codes[0]));
    rv = tdg__client_opts_read(&opts, sizeof(opts), given, opts_size, failure);
    if (rv == 0)
        rv = check_uris(uris, count, failure);
    if (rv == 0)
        rv = wait_for(client, &wait, failure);
    if (rv < 0)
        fill_codes(codes, count, rv);
    return rv;
}

int tdg_client_subscribe_sized(tdg_client_t *client, const char *uri,
                               const tdg_subscribe_opts_t *opts, size_t opts_size,
                               tdg_failure_t *failure) {
    return tdg_client_subscribe_all_sized(client, &uri, 1, opts, opts_size, NULL,
                                          failure);
}

static void start_unsubscribe(tdg__core_t *core, wait_task_t *wait) {
    tdg__core_unsubscribe(core, wait->name, answered, wait);
}

static void unsubscribed(void *user, int code, json_t *result,
                         const tdg_failure_t *failure) {
    (void)user; /* nobody waits for it */
    (void)code;
    (void)result;
    (void)failure;
}

/* In a callback. The silence begins at once; what the server says does not matter. */
static int unsubscribe_here(tdg_client_t *client, const char *uri,
                            tdg_failure_t *failure) {
    tdg__core_t *core = tdg__client_core(client);
    int rv = 0;

    if (tdg__client_is_amidst(client))
        return tdg__client_fail(
            failure, TDG_EINVAL,
            "log, on_input, on_progress and on_stderr must not unsubscribe");
    if (!tdg__client_is_text(uri))
        return no_text(NULL, failure);
    if (!tdg__client_enter(client))
        return tdg__client_fail(failure, TDG_EENDED, "the client is being closed");

    if (tdg__core_is_subscribed(core, uri))
        tdg__core_unsubscribe(core, uri, unsubscribed, NULL);
    else
        rv = tdg__client_fail(failure, TDG_ENOTFOUND, "no such subscription");
    tdg__client_leave(client);
    return rv;
}

int tdg_client_unsubscribe(tdg_client_t *client, const char *uri,
                           tdg_failure_t *failure) {
    wait_task_t wait = {.start = start_unsubscribe, .name = uri};

    if (uri == NULL)
        return no_argument(NULL, failure);
    if (client != NULL && tdg__client_is_here(client))
        return unsubscribe_here(client, uri, failure);
    return wait_for(client, &wait, failure);
}

static void start_subscriptions(tdg__core_t *core, wait_task_t *wait) {
    json_t *list = tdg__core_subscriptions(core);

    answered(wait, list != NULL ? 0 : TDG_ENOMEM, list, NULL);
    json_decref(list);
}

int tdg_client_subscriptions(tdg_client_t *client, json_t **ret) {
    wait_task_t wait = {.start = start_subscriptions};
    int rv;

    if (ret == NULL)
        return TDG_EINVAL;

    rv = look(client, &wait);
    if (rv == 0)
        *ret = wait.result;
    return rv;
}

static void start_watch_lists(tdg__core_t *core, wait_task_t *wait) {
    tdg__core_watch_lists(core, wait->lists, answered, wait);
}

int tdg_client_watch_lists(tdg_client_t *client, unsigned lists, tdg_failure_t *failure) {
    wait_task_t wait = {.start = start_watch_lists, .lists = lists};

    if (lists >= 1U << (TDG_LIST_PROMPTS + 1))
        return tdg__client_fail(failure, TDG_EINVAL, "unknown lists: 0x%x", lists);
    return wait_for(client, &wait, failure);
}

/* ---- Requests ----------------------------------------------------------- */

static void start_request(tdg__core_t *core, wait_task_t *wait) {
    tdg__core_request(core, wait->name, wait->params, wait->timeout_ms, answered, wait);
}

static void start_list(tdg__core_t *core, wait_task_t *wait) {
    tdg__core_list(core, wait->list, answered, wait);
}

static void start_call(tdg__core_t *core, wait_task_t *wait) {
    tdg__core_call(core, wait->name, wait->params, wait->timeout_ms, answered, wait);
}

int tdg_client_request(tdg_client_t *client, const char *method, json_t *params,
                       uint32_t timeout_ms, json_t **ret, tdg_failure_t *failure) {
    wait_task_t wait = {.start = start_request, .name = method, .params = params};

    if (client == NULL || method == NULL || ret == NULL)
        return no_argument(params, failure);
    wait.timeout_ms = timeout_ms != 0 ? timeout_ms : tdg__client_timeout(client);
    return wait_for_result(client, &wait, ret, failure);
}

/* A request with params that were made here; NULL: memory is out. */
static int request_packed(tdg_client_t *client, const char *method, json_t *params,
                          json_t **ret, tdg_failure_t *failure) {
    if (params == NULL)
        return tdg__client_fail(failure, TDG_ENOMEM, "out of memory");
    return tdg_client_request(client, method, params, 0, ret, failure);
}

/* A request that carries its arguments in an object of its own: `made` is stolen, and so
 * are the arguments, which may be NULL. */
static int request_with(tdg_client_t *client, const char *method, json_t *made,
                        const char *key, json_t *arguments, json_t **ret,
                        tdg_failure_t *failure) {
    if (arguments != NULL && !json_is_object(arguments)) {
        json_decref(made);
        json_decref(arguments);
        return tdg__client_fail(failure, TDG_EINVAL, "arguments must be an object");
    }
    if (arguments != NULL && json_object_set_new(made, key, arguments) < 0) {
        json_decref(made);
        made = NULL;
    }
    return request_packed(client, method, made, ret, failure);
}

int tdg_client_list(tdg_client_t *client, tdg_list_kind_t list, json_t **ret,
                    tdg_failure_t *failure) {
    wait_task_t wait = {.start = start_list, .list = list};

    if (ret == NULL)
        return no_argument(NULL, failure);
    if ((unsigned)list > TDG_LIST_PROMPTS)
        return tdg__client_fail(failure, TDG_EINVAL, "unknown list: %d", (int)list);
    return wait_for_result(client, &wait, ret, failure);
}

int tdg_client_read(tdg_client_t *client, const char *uri, json_t **ret,
                    tdg_failure_t *failure) {
    json_t *result;
    int rv;

    if (uri == NULL || ret == NULL)
        return no_argument(NULL, failure);
    if (!tdg__client_is_text(uri))
        return no_text(NULL, failure);

    rv = request_packed(client, "resources/read", json_pack("{s:s}", "uri", uri), &result,
                        failure);
    if (rv < 0)
        return rv;
    if (!json_is_array(json_object_get(result, "contents"))) {
        json_decref(result);
        return tdg__client_fail(failure, TDG_EJSON, "the response has no \"contents\"");
    }
    *ret = result;
    return 0;
}

int tdg_client_call(tdg_client_t *client, const char *tool, json_t *arguments,
                    json_t **ret, tdg_failure_t *failure) {
    wait_task_t wait = {.start = start_call, .name = tool, .params = arguments};

    if (client == NULL || tool == NULL || ret == NULL)
        return no_argument(arguments, failure);
    wait.timeout_ms = tdg__client_timeout(client);
    return wait_for_result(client, &wait, ret, failure);
}

int tdg_client_prompt(tdg_client_t *client, const char *prompt, json_t *arguments,
                      json_t **ret, tdg_failure_t *failure) {
    if (prompt == NULL || ret == NULL)
        return no_argument(arguments, failure);
    if (!tdg__client_is_text(prompt))
        return no_text(arguments, failure);
    return request_with(client, "prompts/get", json_pack("{s:s}", "name", prompt),
                        "arguments", arguments, ret, failure);
}

static json_t *completion_params(const char *ref, const char *argument,
                                 const char *value) {
    bool template = strstr(ref, "://") != NULL || strchr(ref, '{') != NULL;

    return json_pack("{s:{s:s, s:s}, s:{s:s, s:s}}", "ref", "type",
                     template ? "ref/resource" : "ref/prompt", template ? "uri" : "name",
                     ref, "argument", "name", argument, "value", value);
}

int tdg_client_complete(tdg_client_t *client, const char *ref, const char *argument,
                        const char *value, json_t *context, json_t **ret,
                        tdg_failure_t *failure) {
    json_t *arguments, *result, *completion;
    int rv;

    if (ref == NULL || argument == NULL || value == NULL || ret == NULL)
        return no_argument(context, failure);
    if (!tdg__client_is_text(ref) || !tdg__client_is_text(argument) ||
        !tdg__client_is_text(value))
        return no_text(context, failure);

    arguments = context != NULL ? json_pack("{s:o}", "arguments", context) : NULL;
    if (context != NULL && arguments == NULL)
        return tdg__client_fail(failure, TDG_ENOMEM, "out of memory");
    rv = request_with(client, "completion/complete",
                      completion_params(ref, argument, value), "context", arguments,
                      &result, failure);
    if (rv < 0)
        return rv;

    completion = json_object_get(result, "completion");
    if (json_is_object(completion))
        *ret = json_incref(completion);
    else
        rv = tdg__client_fail(failure, TDG_EJSON, "the response has no \"completion\"");
    json_decref(result);
    return rv;
}

int tdg_client_ping(tdg_client_t *client, tdg_failure_t *failure) {
    /* In the modern era the core asks for something else. */
    wait_task_t wait = {.start = start_request, .name = "ping"};
    int rv;

    if (client == NULL)
        return no_argument(NULL, failure);

    wait.timeout_ms = tdg__client_timeout(client);
    rv = wait_for(client, &wait, failure);
    json_decref(wait.result);
    return rv;
}

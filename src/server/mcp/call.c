/* SPDX-License-Identifier: MIT */
#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "mcp/result.h"
#include "server/context/context.h"
#include "server/context/limits.h"
#include "server/log/log.h"
#include "server/mcp/call.h"

enum { MAX_ANSWER_BYTES = 64 << 20 };

/* ---- Channels ----------------------------------------------------------- */

void tdg__channel_init(tdg__channel_t *channel, const tdg__channel_ops_t *ops,
                       tdg__worker_t *worker, bool erlmcp) {
    assert(worker != NULL);
    *channel = (tdg__channel_t){.ops = ops,
                                .worker = worker,
                                .erlmcp = erlmcp,
                                .log_level = -1,
                                .client = (uintptr_t)channel};
    tdg__queue_init(&channel->calls);
}

/* A client without a session says with every request how it is called. */
static uint64_t client_of(const tdg__channel_t *channel, const json_t *client_info) {
    const char *name = json_string_value(json_object_get(client_info, "name"));
    uint64_t client = tdg__number_of_bytes(channel->client, name != NULL ? name : "",
                                           name != NULL ? strlen(name) : 0);

    return client != 0 ? client : 1;
}

uint64_t tdg__number_of_bytes(uint64_t number, const void *bytes, size_t len) {
    const unsigned char *at = bytes;

    for (size_t i = 0; i < len; i++) /* FNV-1a */
        number = (number ^ at[i]) * UINT64_C(0x100000001b3);
    return number;
}

uint64_t tdg__request_client(const tdg_request_t *request) {
    return request->client_id;
}

static void join(tdg__call_t *call, tdg__channel_t *channel) {
    assert(channel->ops != NULL); /* else the answer would get lost */
    call->channel = channel;
    call->mark = channel->mark;
    tdg__queue_prepend(&channel->calls, &call->link);
    channel->call_count++;
}

static void leave(tdg__call_t *call) {
    assert(call->channel != NULL && call->channel->call_count > 0);
    tdg__queue_remove(&call->link);
    call->channel->call_count--;
    call->channel = NULL;
}

static void abandon(tdg__call_t *call) {
    leave(call);
    atomic_store_explicit(&call->cancelled, true, memory_order_release);
}

void tdg__channel_done(tdg__channel_t *channel) {
    while (!tdg__queue_is_empty(&channel->calls))
        abandon(tdg__channel_newest(channel));
    assert(channel->call_count == 0);
}

tdg__call_t *tdg__channel_find(const tdg__channel_t *channel, const char *id) {
    for (tdg__queue_t *at = channel->calls.next; at != &channel->calls; at = at->next) {
        tdg__call_t *call = TDG__RECORD(tdg__call_t, link, at);

        if (strcmp(call->id, id) == 0)
            return call;
    }
    return NULL;
}

tdg__call_t *tdg__channel_newest(const tdg__channel_t *channel) {
    return tdg__queue_is_empty(&channel->calls)
               ? NULL
               : TDG__RECORD(tdg__call_t, link, channel->calls.next);
}

size_t tdg__out_of_memory(const char *id, char ret[TDG__OUT_OF_MEMORY_MAX]) {
    bool has_id = id != NULL && id[0] != '\0';
    int len = snprintf(ret, TDG__OUT_OF_MEMORY_MAX,
                       "{\"jsonrpc\":\"2.0\"%s%s,\"error\":"
                       "{\"code\":%d,\"message\":\"Out of memory\"}}",
                       has_id ? ",\"id\":" : "", has_id ? id : "", TDG__RPC_INTERNAL);

    assert(len > 0 && len < TDG__OUT_OF_MEMORY_MAX);
    return (size_t)len;
}

static void answer_out_of_memory(tdg__channel_t *channel, tdg__call_t *call,
                                 const char *id) {
    char text[TDG__OUT_OF_MEMORY_MAX];
    tdg__rope_t message = {.text = {.data = text, .len = tdg__out_of_memory(id, text)}};

    channel->ops->answer(channel, call, &message, TDG__RPC_INTERNAL);
}

void tdg__channel_refuse(tdg__channel_t *channel, const char *id,
                         tdg__rpc_error_t *error) {
    int code = error->code;
    tdg__rope_t message;

    tdg__rope_init(&message, SIZE_MAX);
    tdg__rpc_put_error(&message.text, id, error);
    tdg__rpc_error_done(error);
    if (message.text.error == 0)
        channel->ops->answer(channel, NULL, &message, code);
    else
        answer_out_of_memory(channel, NULL, id);
    tdg__rope_done(&message);
}

void tdg__channel_refuse_plainly(tdg__channel_t *channel, const char *id, int code,
                                 const char *message) {
    tdg__rpc_error_t error = {0};

    tdg__rpc_error_set(&error, code, NULL, "%s", message);
    tdg__channel_refuse(channel, id, &error);
}

/* ---- Life of a call ----------------------------------------------------- */

static const char *target_of(const tdg__mcp_request_t *request) {
    if (request->uri != NULL)
        return request->uri;
    if (request->name != NULL)
        return request->name;
    return request->ref != NULL ? request->ref : "";
}

/* Decided here as far as it can be: later the call may be on another thread, and the
 * server gone. */
static int8_t log_from(const tdg__mcp_request_t *request, const tdg_server_t *server) {
    if (server->opts.flags & TDG_NO_LOGGING)
        return TDG__LOG_NEVER;
    if (!tdg__version_modern(request->version))
        return TDG__LOG_BY_CHANNEL;
    return (int8_t)(request->log_level < 0 ? TDG__LOG_NEVER : request->log_level);
}

/* jansson takes what it only reads or counts as if it would change it. */
static json_t *counted(const json_t *value) {
    return (json_t *)(uintptr_t)value;
}

/* Stores a copy: one of our own, because the message is freed on the worker's thread and
 * the call on any. Returns 0 or TDG_ENOMEM. */
static int copy_token(const json_t *token, json_t **ret) {
    if (token == NULL)
        return 0;
    *ret = json_copy(counted(token));
    return *ret != NULL ? 0 : TDG_ENOMEM;
}

tdg__call_t *tdg__call_create(tdg__channel_t *channel,
                              const tdg__mcp_request_t *request) {
    assert(request->id[0] != '\0'); /* a notification gets no answer */
    const char *target = target_of(request);
    size_t id_size = strlen(request->id) + 1, target_size = strlen(target) + 1;
    tdg__call_t *call = tdg__calloc(1, sizeof(*call) + id_size + target_size);

    if (call == NULL || copy_token(request->progress_token, &call->progress_token) < 0) {
        tdg__free(call);
        return NULL;
    }

    memcpy(call->id, request->id, id_size);
    call->target = memcpy(call->id + id_size, target, target_size);
    call->client = json_incref(counted(request->client_info));
    call->client_id = client_of(channel, request->client_info);
    call->worker = channel->worker;
    call->server = channel->worker->server;
    call->inbox = tdg__inbox_ref(channel->worker->inbox);
    call->progress = -INFINITY;
    call->method = request->method;
    call->version = request->version;
    call->log_from = log_from(request, call->server);
    call->erlmcp = channel->erlmcp;
    atomic_init(&call->refs, 1);
    join(call, channel);
    return call;
}

void tdg__call_ref(tdg__call_t *call) {
    atomic_fetch_add_explicit(&call->refs, 1, memory_order_relaxed);
}

static void unreserve(tdg__call_t *call) {
    if (call->reserved > 0)
        tdg__budget_unreserve(call->budget, call->reserved);
    call->reserved = 0;
}

void tdg__call_unref(tdg__call_t *call) {
    if (atomic_fetch_sub_explicit(&call->refs, 1, memory_order_acq_rel) != 1)
        return;

    assert(call->channel == NULL);
    tdg__variables_destroy(call->variables);
    tdg__entry_unref(call->entry);
    tdg__inbox_unref(call->inbox);
    tdg__buf_unref(call->member);
    unreserve(call);
    tdg__budget_unref(call->budget);
    if (call->parallel != NULL)
        tdg__budget_give(call->parallel, 1);
    tdg__budget_unref(call->parallel);
    json_decref(call->progress_token);
    json_decref(call->client);
    tdg__free(call);
}

void tdg__call_cancel(tdg__call_t *call) {
    tdg__channel_t *channel = call->channel;
    void *mark = call->mark;

    abandon(call);
    if (channel->ops->cancelled != NULL)
        channel->ops->cancelled(channel, mark);
}

/* ---- The answer as text ------------------------------------------------- */

/* Without a channel no client waits. The channel may be freed in here. */
static void hand_over(tdg__call_t *call, const tdg__rope_t *message, int code) {
    tdg__channel_t *channel = call->channel;

    if (channel == NULL)
        return;

    leave(call);
    if (message->text.error == 0)
        channel->ops->answer(channel, call, message, code);
    else
        answer_out_of_memory(channel, call, call->id);
}

static void hand_over_error(tdg__call_t *call, const tdg__rpc_error_t *error) {
    tdg__rope_t message;

    tdg__rope_init(&message, MAX_ANSWER_BYTES);
    tdg__rpc_put_error(&message.text, call->id, error);
    hand_over(call, &message, error->code);
    tdg__rope_done(&message);
}

static void hand_over_fault(tdg__call_t *call, const char *why) {
    tdg__rpc_error_t error;

    tdg__rpc_error_set(&error, TDG__RPC_INTERNAL, NULL, "%s", why);
    hand_over_error(call, &error);
}

static int finish(const tdg__call_t *call, json_t *result) {
    tdg__caching_t caching = {0};

    if (call->entry != NULL)
        caching = call->entry->caching;
    return tdg__result_finish(result, call->method, call->version, &caching,
                              call->channel->worker->info);
}

/* The era's fields are added to a copy: the application may hold the original too, and
 * answer from another thread with it. (json_copy() would lose fields without memory.) */
static int put_modern_result(tdg__text_t *text, const tdg__call_t *call, json_t *result) {
    json_t *copy = json_object();
    int rv = TDG_ENOMEM;

    if (json_object_update(copy, result) == 0)
        rv = finish(call, copy);
    if (rv == 0)
        tdg__rpc_put_result(text, call->id, copy);
    json_decref(copy);
    return rv;
}

static void put_result(tdg__text_t *text, const tdg__call_t *call, json_t *result) {
    if (result == NULL)
        text->error = TDG_ENOMEM;
    else if (!tdg__version_modern(call->version))
        tdg__rpc_put_result(text, call->id, result);
    else if (put_modern_result(text, call, result) < 0)
        text->error = TDG_ENOMEM;
}

/* {"contents":[{ITEM, MEMBER}], what the era adds}: the member is shared, the rest is
 * small. */
static void put_contents(tdg__rope_t *message, const tdg__call_t *call, json_t *item) {
    tdg__text_t *text = &message->text;
    json_t *more = json_object();
    size_t at;

    if (item == NULL || more == NULL || finish(call, more) < 0) {
        text->error = TDG_ENOMEM;
        json_decref(more);
        return;
    }

    tdg__rpc_put_result_start(text, call->id);
    tdg__text_put(text, "{\"contents\":[");
    tdg__text_put_json(text, item);
    if (text->error == 0)
        text->data[text->len - 1] = ','; /* in the place of its brace */
    tdg__rope_splice(message, call->member);
    tdg__text_put(text, "}]");
    at = text->len;
    if (json_object_size(more) == 0)
        tdg__text_put(text, "}");
    else
        tdg__text_put_json(text, more);
    if (text->error == 0 && json_object_size(more) > 0)
        text->data[at] = ','; /* they go on in the same object */
    tdg__text_put(text, "}");
    json_decref(more);
}

/* Counts a large answer. Returns false where there is no room, and it can be refused. */
static bool charge(tdg__call_t *call, tdg__buf_t *buf) {
    if (call->budget == NULL)
        return tdg__buf_charge(buf,
                               buf->len > TDG__SMALL_ANSWER ? call->server->answers
                                                            : call->server->small_answers,
                               0);
    tdg__buf_overcharge(buf, call->budget);
    unreserve(call);
    return true;
}

/* Whether the answer counts nowhere: it is small, together with those before it that wait
 * for the same client. A tiny one costs less than what it takes to count it. */
static bool is_small(const tdg__channel_t *channel, size_t len) {
    size_t before =
        channel->ops->uncounted != NULL ? channel->ops->uncounted(channel) : 0;

    return len <= TDG__TINY_ANSWER ||
           (len <= TDG__SMALL_ANSWER && before <= TDG__SMALL_ANSWER - len);
}

/* Whether the client has to wait, though the answer alone is small: too many of them wait
 * for it already. A callback that has run is answered. */
static bool is_crowded(const tdg__call_t *call, size_t len) {
    const tdg__channel_t *channel = call->channel;

    return call->budget == NULL && len <= TDG__SMALL_ANSWER &&
           channel->ops->crowded != NULL && channel->ops->crowded(channel);
}

/* A large answer counts, and waits for its reader without being copied. Returns false
 * where there is no room for it. */
static bool share(tdg__rope_t *message, tdg__call_t *call) {
    tdg__buf_t *buf;
    bool fits;

    if (message->text.error != 0)
        return true;
    if (call->member != NULL) /* of a source, it counts already */
        return call->member->budget != NULL || charge(call, call->member);
    if (is_small(call->channel, message->text.len))
        return true;
    if (is_crowded(call, message->text.len))
        return false;
    buf = tdg__buf_create(message->text.data, message->text.len);
    tdg__text_done(&message->text);
    if (buf == NULL) {
        message->text.error = TDG_ENOMEM;
        return true;
    }

    fits = charge(call, buf);
    tdg__rope_splice(message, buf);
    tdg__buf_unref(buf);
    return fits;
}

static void hand_over_busy(tdg__call_t *call) {
    tdg__rpc_error_t error;

    tdg__server_log_event(call->server, TDG__EVENT_ANSWER_REFUSED, NULL);
    tdg__call_set_busy(call, &error);
    hand_over_error(call, &error);
    tdg__rpc_error_done(&error);
}

/* For the next call of the same tool or prompt: as large as this one, or half of what was
 * expected, so that one large answer is forgotten after some small ones. Calls that end
 * at the same time may overwrite each other's, which does no harm. */
static void note_size(const tdg__call_t *call, size_t len) {
    atomic_size_t *next = &call->entry->answer_bytes;
    size_t bytes = atomic_load_explicit(next, memory_order_relaxed) / 2;

    if (bytes < len)
        bytes = len;
    if (bytes <= TDG__SMALL_ANSWER)
        bytes = 0;
    atomic_store_explicit(next, bytes, memory_order_relaxed);
}

static void hand_over_result(tdg__call_t *call, json_t *result) {
    tdg__rope_t message;

    if (call->channel == NULL)
        return;
    if (result != NULL && !json_is_object(result)) {
        hand_over_fault(call, "The result is not an object");
        return;
    }

    tdg__rope_init(&message, MAX_ANSWER_BYTES);
    if (call->member != NULL)
        put_contents(&message, call, result);
    else
        put_result(&message.text, call, result);
    if (call->budget != NULL)
        note_size(call, message.text.len);
    if (message.text.error == TDG_ETOOLARGE)
        hand_over_fault(call, "The response is too large");
    else if (!share(&message, call))
        hand_over_busy(call);
    else
        hand_over(call, &message, 0);
    tdg__rope_done(&message);
}

/* ---- Answering ---------------------------------------------------------- */

static void mark_answered(tdg__call_t *call) {
    bool twice = atomic_exchange_explicit(&call->answered, true, memory_order_relaxed);

    assert(!twice && "a request is answered once");
    (void)twice;
}

static void answer_here(tdg__call_t *call, json_t *result, tdg__rpc_error_t *error) {
    if (error != NULL)
        hand_over_error(call, error);
    else
        hand_over_result(call, result);

    json_decref(result);
    if (error != NULL)
        tdg__rpc_error_done(error);
    tdg__call_unref(call);
}

void tdg__call_answer(tdg__call_t *call, json_t *result) {
    mark_answered(call);
    answer_here(call, result, NULL);
}

void tdg__call_refuse(tdg__call_t *call, tdg__rpc_error_t *error) {
    mark_answered(call);
    answer_here(call, NULL, error);
}

void tdg__call_refuse_plainly(tdg__call_t *call, int code, const char *message) {
    tdg__rpc_error_t error = {0};

    tdg__rpc_error_set(&error, code, NULL, "%s", message);
    tdg__call_refuse(call, &error);
}

static void run_answer(tdg__task_t *task, bool here) {
    tdg__call_t *call = (tdg__call_t *)(void *)task;
    tdg__rpc_error_t *error = call->error;

    if (here) {
        answer_here(call, call->result, error);
    } else {
        json_decref(call->result);
        if (error != NULL)
            tdg__rpc_error_done(error);
        tdg__call_unref(call);
    }
    tdg__free(error);
}

bool tdg__call_is_here(const tdg__call_t *call) {
    return tdg__worker_current() == call->worker &&
           atomic_load_explicit(&call->refs, memory_order_acquire) == 1;
}

void tdg__call_conclude(tdg__call_t *call, json_t *result, tdg__rpc_error_t *error) {
    mark_answered(call);
    if (tdg__call_is_here(call)) {
        answer_here(call, result, error);
        return;
    }

    call->result = result;
    if (error != NULL) {
        call->error = tdg__malloc(sizeof(*error));
        if (call->error != NULL)
            *call->error = *error;
        else
            tdg__rpc_error_done(error); /* and the client gets "Out of memory" instead */
    }
    call->task.run = run_answer;
    tdg__inbox_post(call->inbox, &call->task);
}

/* ---- Large answers ------------------------------------------------------ */

bool tdg__call_admit(tdg__call_t *call) {
    assert(call->entry != NULL && call->channel != NULL);
    tdg__budget_t *budget = call->server->answers;
    size_t bytes = atomic_load_explicit(&call->entry->answer_bytes, memory_order_relaxed);

    if (!tdg__budget_reserve(budget, bytes))
        return false;
    assert(call->budget == NULL); /* one callback per call */
    call->budget = tdg__budget_ref(budget);
    call->reserved = bytes;
    return true;
}

bool tdg__call_admit_read(tdg__call_t *call) {
    tdg__budget_t *reads = call->server->parallel_reads;

    assert(call->channel != NULL && call->parallel == NULL);
    if (call->channel->ops->uncounted == NULL ||
        call->channel->call_count <= TDG__FREE_READS)
        return true;
    if (!tdg__budget_take(reads, 1))
        return false;
    call->parallel = tdg__budget_ref(reads);
    return true;
}

void tdg__call_set_busy(const tdg__call_t *call, tdg__rpc_error_t *error) {
    tdg__method_t method = call->method;
    bool named = method == TDG__M_CALL || method == TDG__M_PROMPT;

    tdg__busy_error_set(error, method == TDG__M_READ ? call->target : NULL,
                        named ? call->target : NULL);
}

void tdg__request_fail_busy(tdg_request_t *request) {
    tdg__rpc_error_t error;

    tdg__call_set_busy(request, &error);
    tdg__call_conclude(request, NULL, &error);
}

void tdg__request_reply_contents(tdg_request_t *request, json_t *item,
                                 tdg__buf_t *member) {
    assert(member != NULL && request->member == NULL);
    request->member = tdg__buf_ref(member);
    tdg__call_conclude(request, item, NULL);
}

uint64_t tdg__request_size(const tdg_request_t *request) {
    const json_t *size = request->entry != NULL
                             ? json_object_get(request->entry->definition, "size")
                             : NULL;

    return json_integer_value(size) > 0 ? (uint64_t)json_integer_value(size) : 0;
}

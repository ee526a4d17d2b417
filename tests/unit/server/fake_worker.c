/* SPDX-License-Identifier: MIT */
#include "fake_worker.h"

#include <pthread.h>

#include "server/log/log.h"
#include "server/loop/worker.h"

/* ---- What surrounds a worker -------------------------------------------- */

static struct fake_server *fake_of(const tdg_server_t *server) {
    return (struct fake_server *)(uintptr_t)server;
}

void tdg__server_log_event(tdg_server_t *server, tdg__event_t event, const char *detail) {
    (void)event, (void)detail;
    fake_of(server)->events++;
}

void tdg__worker_do(tdg__worker_t *worker, tdg__job_t *job) {
    fake_of(worker->server)->jobs++;
    job->run(job);
    job->done(job);
}

void tdg__server_describe(const tdg_server_t *server, tdg__server_info_t *ret) {
    *ret = fake_of(server)->describes;
}

int tdg_server_notify_updated(tdg_server_t *server, const char *uri, json_t *metadata) {
    strncpy(fake_of(server)->updated, uri, sizeof(fake_of(server)->updated) - 1);
    json_decref(metadata);
    return TDG_EAGAIN; /* to be seen by whoever called */
}

/* ---- The channel -------------------------------------------------------- */

/* With memory that is not counted and does not fail. */
static void write_down(tdg__channel_t *channel, int kind, const tdg__call_t *call,
                       const char *text, size_t len, int code) {
    struct fake *fake = channel->mark;
    struct said *said = &fake->said[fake->count];

    assert_false(fake->gone);
    assert_true(fake->count < SAID_MAX);
    *said = (struct said){.kind = kind, .code = code, .len = len};
    strncpy(said->id, call->id, sizeof(said->id) - 1);
    if (text != NULL) {
        said->text = malloc(len + 1);
        assert_non_null(said->text);
        memcpy(said->text, text, len);
        said->text[len] = '\0';
    }
    fake->count++;
}

static void take_notify(tdg__channel_t *channel, tdg__call_t *call, const char *text,
                        size_t len) {
    struct fake *fake = channel->mark;

    write_down(channel, SAID_NOTIFY, call, text, len, 0);
    if (fake->goes_on_notify)
        fake_leave_channel(fake);
}

static void take_answer(tdg__channel_t *channel, tdg__call_t *call,
                        const tdg__rope_t *message, int code) {
    struct fake *fake = channel->mark;
    size_t len = tdg__rope_len(message);
    char *text = malloc(len + 1);

    assert_non_null(text);
    tdg__rope_copy(message, text);

    /* It has left the list already, though others may have the same id here. */
    assert_null(call->channel);
    write_down(channel, SAID_ANSWER, call, text, len, code);
    free(text);
    if (fake->goes_on_answer)
        fake_leave_channel(fake);
}

static void take_release(tdg__channel_t *channel, tdg__call_t *call) {
    write_down(channel, SAID_RELEASE, call, NULL, 0, 0);
}

static const tdg__channel_ops_t ops = {
    .notify = take_notify, .answer = take_answer, .release = take_release};

void fake_leave_channel(struct fake *fake) {
    tdg__channel_done(&fake->channel);
    assert_int_equal(fake->channel.call_count, 0);
    assert_null(tdg__channel_newest(&fake->channel));
    fake->gone = true;
}

/* ---- Life --------------------------------------------------------------- */

/* Nobody sleeps. */
static void wake(void *user) {
    (void)user;
}

void fake_start(struct fake *fake) {
    fake->worker.info = json_pack("{s:s, s:s}", "name", "fake", "version", "1");
    assert_non_null(fake->worker.info);
    fake->server.shared.answers = tdg__budget_create(FAKE_ANSWERS);
    assert_non_null(fake->server.shared.answers);
    fake->server.shared.small_answers = tdg__budget_ref(fake->server.shared.answers);
    fake->server.shared.parallel_reads = tdg__budget_create(FAKE_ANSWERS);
    assert_non_null(fake->server.shared.parallel_reads);
    fake->server.shared.opts.page_size = 2;
    fake->server.describes = (tdg__server_info_t){
        .tools = true, .prompts = true, .resources = true, .completions = true};
    fake->worker.server = &fake->server.shared;
    assert_int_equal(tdg__inbox_create(16, wake, &fake->worker, &fake->worker.inbox), 0);
    tdg__channel_init(&fake->channel, &ops, &fake->worker, false);
    fake->channel.mark = fake;
    fake_on_thread(fake, true);
}

size_t fake_turn(struct fake *fake) {
    tdg__task_t *task = tdg__inbox_take_tasks(fake->worker.inbox), *next;
    size_t count = 0;

    for (; task != NULL; task = next) {
        next = task->next;
        task->run(task, !fake->closed);
        count++;
    }
    return count;
}

void fake_end(struct fake *fake) {
    if (fake->closed)
        return;

    if (!fake->gone)
        fake_leave_channel(fake);
    tdg__inbox_close(fake->worker.inbox);
    fake->closed = true;
    fake_turn(fake);
    fake_on_thread(fake, false);
}

void fake_stop(struct fake *fake) {
    fake_end(fake);
    fake_forget(fake);
    tdg__inbox_unref(fake->worker.inbox);
    json_decref(fake->worker.info);
    tdg__budget_unref(fake->server.shared.answers);
    tdg__budget_unref(fake->server.shared.small_answers);
    tdg__budget_unref(fake->server.shared.parallel_reads);
}

void fake_forget(struct fake *fake) {
    for (size_t i = 0; i < fake->count; i++)
        free(fake->said[i].text);
    fake->count = 0;
}

/* ---- Threads ------------------------------------------------------------ */

void fake_on_thread(struct fake *fake, bool is) {
    tdg__worker_set_current(is ? &fake->worker : NULL);
}

struct errand {
    void (*work)(void *user);
    void *user;
};

static void *run_errand(void *user) {
    const struct errand *errand = user;

    errand->work(errand->user);
    return NULL;
}

void elsewhere(void (*work)(void *user), void *user) {
    struct errand errand = {work, user};
    pthread_t thread;

    assert_int_equal(pthread_create(&thread, NULL, run_errand, &errand), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

/* ---- Calls -------------------------------------------------------------- */

const tdg__mcp_request_t fake_read = {.method = TDG__M_READ,
                                      .version = TDG__V2025_11_25,
                                      .id = "7",
                                      .log_level = -1,
                                      .uri = "clock://now"};

tdg__call_t *fake_begin(struct fake *fake, const tdg__mcp_request_t *request) {
    tdg__call_t *call = tdg__call_create(&fake->channel, request);

    assert_non_null(call);
    return call;
}

tdg__call_t *fake_begin_method(struct fake *fake, tdg__method_t method,
                               tdg__version_t version) {
    tdg__mcp_request_t request = fake_read;

    request.method = method;
    request.version = version;
    return fake_begin(fake, &request);
}

void fake_reply(void *call) {
    tdg_request_reply(call, json_pack("{s:i}", "a", 1));
}

void fake_end_call(struct fake *fake, tdg__call_t *call, enum ending ending) {
    if (ending == CHANNEL_GOES)
        fake_leave_channel(fake);
    else if (ending == CANCELLED)
        tdg__call_cancel(call);
    else
        fake_end(fake);
}

/* ---- Looking ------------------------------------------------------------ */

void assert_said_at(const struct fake *fake, size_t index, int kind, int code,
                    const char *text, const char *file, int line) {
    const struct said *said = &fake->said[index];
    json_t *json;

    if (index >= fake->count || said->kind != kind || said->code != code) {
        print_error("said %zu things; number %zu is %s with code %d\n", fake->count,
                    index,
                    index < fake->count && said->text != NULL ? said->text : "nothing",
                    index < fake->count ? said->code : 0);
        _fail(file, line);
    }
    if (text == NULL)
        return;

    json = json_loadb(said->text, said->len, 0, NULL);
    assert_json_equal_at(json, text, file, line);
    json_decref(json);
}

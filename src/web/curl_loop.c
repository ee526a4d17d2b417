/* SPDX-License-Identifier: MIT
 *
 * libcurl reports the sockets and the time that it waits for; the loop waits and calls it
 * back. Finished transfers are collected after each such call, outside of libcurl, so
 * that the owner may then begin and cancel others. */
#include "web/curl_loop.h"

#include <pthread.h>
#include <stdbool.h>

#include <tidings/error.h>

#include "base/alloc.h"
#include "base/queue.h"

enum { KEPT_OPEN = 16 }; /* idle connections */

struct watch {
    uv_poll_t poll;
    tdg__curl_t *curl;
    curl_socket_t fd;
    int events; /* that are waited for */
    tdg__queue_t in_watches;
};

struct tdg__curl {
    uv_loop_t *loop;
    uv_timer_t timer;
    CURLM *multi; /* NULL until it is needed */
    tdg__queue_t watches;
    size_t handles; /* of the loop, the timer among them, until they are closed */
    size_t running;
    bool collecting, resting, closing;
    bool in_timer; /* inside the timer's callback */
    const tdg__curl_calls_t *calls;
    void *owner;
    void (*closed)(void *arg);
    void *arg;
};

/* ---- Collecting --------------------------------------------------------- */

/* The sockets of idle connections are not watched, so nothing of the loop is left. */
static void drop_multi(tdg__curl_t *curl) {
    if (curl->multi == NULL)
        return;
    curl_multi_setopt(curl->multi, CURLMOPT_SOCKETFUNCTION, NULL);
    curl_multi_setopt(curl->multi, CURLMOPT_TIMERFUNCTION, NULL);
    curl_multi_cleanup(curl->multi);
    curl->multi = NULL;
}

static void rest(tdg__curl_t *curl) {
    if (!curl->resting || curl->running > 0 || curl->collecting || curl->closing ||
        !tdg__queue_is_empty(&curl->watches))
        return;
    uv_timer_stop(&curl->timer);
    drop_multi(curl);
}

static void collect(tdg__curl_t *curl) {
    CURLMsg *message;
    int left;

    curl->collecting = true;
    while (!curl->closing &&
           (message = curl_multi_info_read(curl->multi, &left)) != NULL) {
        CURL *easy = message->easy_handle;
        CURLcode code = message->data.result;
        char *job = NULL;

        if (message->msg != CURLMSG_DONE)
            continue;
        curl_easy_getinfo(easy, CURLINFO_PRIVATE, &job);
        tdg__curl_remove(curl, easy); /* the message is gone with it */
        curl->calls->finished(job, code);
    }
    curl->collecting = false;
    rest(curl);
}

static void act(tdg__curl_t *curl, curl_socket_t fd, int flags) {
    int running;

    if (curl->closing || curl->multi == NULL)
        return;
    curl_multi_socket_action(curl->multi, fd, flags, &running);
    curl->calls->turn(curl->owner);
    collect(curl);
}

/* ---- What libcurl waits for --------------------------------------------- */

static void on_timer(uv_timer_t *timer) {
    tdg__curl_t *curl = timer->data;

    curl->in_timer = true;
    act(curl, CURL_SOCKET_TIMEOUT, 0);
    curl->in_timer = false;
}

static int set_timer(CURLM *multi, long timeout_ms, void *arg) {
    tdg__curl_t *curl = arg;

    (void)multi;
    /* libcurl wants to be called at once where a peer has sent more than it reads in one
     * go. The loop would do so before anything else, and for as long as the peer sends.
     */
    if (timeout_ms == 0 && curl->in_timer)
        timeout_ms = 1;
    if (timeout_ms < 0)
        uv_timer_stop(&curl->timer);
    else
        uv_timer_start(&curl->timer, on_timer, (uint64_t)timeout_ms, 0);
    return 0;
}

/* A connection may have broken behind an answer: what came before is still to be read,
 * and reading shows the rest. libcurl, given an error, would not look; and libuv, which
 * has stopped to wait for the socket, would not report it again. */
static void on_ready(uv_poll_t *poll, int status, int events) {
    struct watch *watch = poll->data;
    int flags = 0;

    if (status < 0) {
        flags = uv_poll_start(poll, watch->events, on_ready) < 0 ? CURL_CSELECT_ERR : 0;
        events = watch->events | UV_READABLE;
    }
    if (events & UV_READABLE)
        flags |= CURL_CSELECT_IN;
    if (events & UV_WRITABLE)
        flags |= CURL_CSELECT_OUT;
    act(watch->curl, watch->fd, flags);
}

static void check_closed(tdg__curl_t *curl) {
    if (!curl->closing || curl->handles > 0)
        return;

    void (*closed)(void *arg) = curl->closed;
    void *arg = curl->arg;

    drop_multi(curl);
    tdg__free(curl);
    closed(arg);
}

static void watch_closed(uv_handle_t *handle) {
    struct watch *watch = handle->data;
    tdg__curl_t *curl = watch->curl;

    tdg__free(watch);
    curl->handles--;
    check_closed(curl);
}

static void watch_end(struct watch *watch) {
    tdg__queue_remove(&watch->in_watches);
    uv_close((uv_handle_t *)&watch->poll, watch_closed);
}

static struct watch *watch_begin(tdg__curl_t *curl, curl_socket_t fd) {
    struct watch *watch = tdg__calloc(1, sizeof(*watch));

    if (watch == NULL)
        return NULL;
    if (uv_poll_init_socket(curl->loop, &watch->poll, fd) < 0) {
        tdg__free(watch);
        return NULL;
    }
    watch->poll.data = watch;
    watch->curl = curl;
    watch->fd = fd;
    tdg__queue_append(&curl->watches, &watch->in_watches);
    curl->handles++;
    return watch;
}

/* A failure here would end every transfer for good if libcurl knew. Instead this
 * one stalls until its time is over, and its owner tries again. */
static int set_socket(CURL *easy, curl_socket_t fd, int what, void *arg, void *known) {
    tdg__curl_t *curl = arg;
    struct watch *watch = known;
    int events = 0;

    (void)easy;
    if (what == CURL_POLL_REMOVE) {
        if (watch != NULL) {
            curl_multi_assign(curl->multi, fd, NULL);
            watch_end(watch);
        }
        return 0;
    }
    if (watch == NULL) {
        watch = watch_begin(curl, fd);
        if (watch == NULL)
            return 0;
        curl_multi_assign(curl->multi, fd, watch);
    }
    if (what == CURL_POLL_IN || what == CURL_POLL_INOUT)
        events |= UV_READABLE;
    if (what == CURL_POLL_OUT || what == CURL_POLL_INOUT)
        events |= UV_WRITABLE;
    watch->events = events;
    uv_poll_start(&watch->poll, events, on_ready);
    return 0;
}

/* ---- Life --------------------------------------------------------------- */

static CURLcode global;

static void init_global(void) {
    global = curl_global_init(CURL_GLOBAL_DEFAULT);
}

int tdg__curl_create(uv_loop_t *loop, const tdg__curl_calls_t *calls, void *owner,
                     tdg__curl_t **ret) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    tdg__curl_t *curl;

    pthread_once(&once, init_global);
    if (global != CURLE_OK)
        return TDG_ESYSTEM;
    curl = tdg__calloc(1, sizeof(*curl));
    if (curl == NULL)
        return TDG_ENOMEM;
    curl->loop = loop;
    curl->calls = calls;
    curl->owner = owner;
    tdg__queue_init(&curl->watches);
    uv_timer_init(loop, &curl->timer);
    curl->timer.data = curl;
    curl->handles = 1;
    *ret = curl;
    return 0;
}

static void timer_closed(uv_handle_t *handle) {
    tdg__curl_t *curl = handle->data;

    curl->handles--;
    check_closed(curl);
}

void tdg__curl_close(tdg__curl_t *curl, void (*closed)(void *arg), void *arg) {
    curl->closing = true;
    curl->closed = closed;
    curl->arg = arg;
    if (curl->multi != NULL) {
        curl_multi_setopt(curl->multi, CURLMOPT_SOCKETFUNCTION, NULL);
        curl_multi_setopt(curl->multi, CURLMOPT_TIMERFUNCTION, NULL);
    }
    while (!tdg__queue_is_empty(&curl->watches))
        watch_end(TDG__RECORD(struct watch, in_watches, curl->watches.next));
    uv_close((uv_handle_t *)&curl->timer, timer_closed);
}

void tdg__curl_rest(tdg__curl_t *curl) {
    curl->resting = true;
    rest(curl);
}

static bool make_multi(tdg__curl_t *curl) {
    CURLM *multi = curl_multi_init();

    if (multi == NULL)
        return false;
    curl_multi_setopt(multi, CURLMOPT_SOCKETFUNCTION, set_socket);
    curl_multi_setopt(multi, CURLMOPT_SOCKETDATA, curl);
    curl_multi_setopt(multi, CURLMOPT_TIMERFUNCTION, set_timer);
    curl_multi_setopt(multi, CURLMOPT_TIMERDATA, curl);
    curl_multi_setopt(multi, CURLMOPT_MAXCONNECTS, (long)KEPT_OPEN);
    curl->multi = multi;
    return true;
}

int tdg__curl_add(tdg__curl_t *curl, CURL *easy) {
    if (curl->multi == NULL && !make_multi(curl))
        return TDG_ENOMEM;
    curl->resting = false;
    if (curl_multi_add_handle(curl->multi, easy) != CURLM_OK)
        return TDG_ENOMEM;
    curl->running++;
    return 0;
}

void tdg__curl_remove(tdg__curl_t *curl, CURL *easy) {
    curl_multi_remove_handle(curl->multi, easy);
    curl->running--;
}

/* SPDX-License-Identifier: MIT
 *
 * A client: connects to an MCP server of either era by URL or by starting a program, and
 * maintains the connection from then on. Subscriptions survive broken streams, restarted
 * servers and lost sessions; resources that may have changed meanwhile are reported.
 *
 *     tdg_client_opts_t opts = {.url = "http://127.0.0.1:8808/mcp"};
 *     tdg_client_t *client;
 *     tdg_event_t *event;
 *
 *     tdg_client_connect(&opts, &client, NULL);
 *     tdg_client_subscribe(client, "weather://city/oslo", NULL, NULL);
 *     while (tdg_client_next(client, -1, &event) == 0) {
 *         if (event->kind == TDG_EVENT_UPDATED)
 *             printf("%s has changed\n", event->uri);
 *         tdg_event_free(event);
 *     }
 *     tdg_client_close(client);
 *
 * In libtidings-client; link with `pkg-config --cflags --libs tidings-client`.
 *
 * Threads: a client has a thread of its own, which does all its work. Every function may
 * be called from any thread, also several at a time, except that functions that wait for
 * the server must not be called from a callback of the same client (TDG_EINVAL): use
 * tdg_client_send() there. The comments of functions that work in callbacks say so. Calls
 * that wait do so for at most the client's `timeout_ms`.
 *
 * Strings given are copied. JSON is jansson's: "stolen" means that the reference is ours
 * from then on, even on failure; "borrowed" is valid during the call; "new" is yours to
 * release. What a server sends is bounded (see `max_message_bytes`) and checked before it
 * reaches you; texts are valid UTF-8, and may still contain anything.
 *
 * Options: in a struct of options, zero in a field means its default. Later releases add
 * fields at the end, and programs that were compiled before go on working: call the
 * inline functions, which pass the size that the struct had at compile time to the
 * functions that end in _sized. TDG_ENOTSUP from such a function: the program is newer
 * than the library, and sets a field that the library does not know. */
#ifndef TIDINGS_CLIENT_H
#define TIDINGS_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include <tidings/error.h>
#include <tidings/export.h>
#include <tidings/log.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tdg_client tdg_client_t;

/* ---- What went wrong ---------------------------------------------------- */

/* Why a call failed, beyond its code. Functions that wait take one and may be given NULL.
 * It is written on failure only. `data` is new: free it with tdg_failure_done(). */
typedef struct tdg_failure {
    int code;             /* what the function returned */
    int rpc_code;         /* of the server's JSON-RPC error; 0: none */
    int http_status;      /* of the response, if it is the reason; else 0 */
    bool passing;         /* a subscription: temporarily refused; see there */
    char message[512];    /* one line for people: what happened, and where */
    json_t *data;         /* of the JSON-RPC error, or NULL */
    uint64_t reserved[6]; /* for later releases, which do not grow this struct */
} tdg_failure_t;

TDG_API void tdg_failure_done(tdg_failure_t *failure); /* may be all zero */

/* The codes of functions that contact the server:
 *
 *   TDG_EINVAL        an argument is not valid, or it is called from a callback
 *   TDG_ENOMEM        out of memory
 *   TDG_EREFUSED      the server answered with an error: see `rpc_code`; or
 *                     authentication or authorisation failed (`http_status` 401 or
 *                     403); or it did not acknowledge a subscription, without a reason
 *                     that the client knows
 *   TDG_ENOTFOUND     no such resource
 *   TDG_ENOTSUP       the server does not support this, or the resource is not
 *                     subscribable
 *   TDG_EURI          the server rejects the subscribed URI as invalid
 *   TDG_ETIMEDOUT     no response in time; the request was cancelled
 *   TDG_EUNREACHABLE  the server is unreachable, or the connection was lost before
 *                     the response
 *   TDG_EJSON         the reply is not valid MCP
 *   TDG_ETOOLARGE     the reply exceeds `max_message_bytes`
 *   TDG_EAGAIN        10,000 requests are waiting already; nothing was sent
 *   TDG_EENDED        the client is being closed */

/* ---- Events ------------------------------------------------------------- */

typedef enum tdg_event_kind {
    TDG_EVENT_UPDATED, /* a subscribed resource has changed, or may have */
    TDG_EVENT_DELETED, /* it was deleted; the subscription stays */
    TDG_EVENT_LOST,    /* the subscription ended: refused after a reconnect. See code */
    TDG_EVENT_LIST_CHANGED, /* a list of the server changed, or may have: `list` */
    TDG_EVENT_DOWN,         /* updates are interrupted. See code and message */
    TDG_EVENT_UP,           /* updates arrive again; those of missed changes follow */
    TDG_EVENT_MESSAGE,      /* the server logs: `metadata` has level, logger and data */
    TDG_EVENT_CLOSED, /* the client gave up (TDG_CLIENT_ONE_LIFE, or 401 or 403): the
                               last event */
} tdg_event_kind_t;

typedef enum tdg_list_kind {
    TDG_LIST_RESOURCES,
    TDG_LIST_TEMPLATES, /* changes with the resources; for tdg_client_list() */
    TDG_LIST_TOOLS,
    TDG_LIST_PROMPTS,
} tdg_list_kind_t;

/* One event. Fields that do not apply are zero. Events that are not fetched yet merge: at
 * most one waits per resource, and it has the newest state. Only the library creates
 * events: later releases may add fields at the end. */
typedef struct tdg_event {
    tdg_event_kind_t kind;
    tdg_list_kind_t list;
    const char *uri;        /* the resource; not the subscribed target if that is a
                               template */
    int64_t version;        /* the server's dev.tidings/version; 0: none */
    uint32_t merged;        /* earlier changes that this event includes */
    bool maybe;             /* it is unknown whether it changed: there was a gap */
    bool polled;            /* found by reading, not notified by the server */
    bool older;             /* its metadata.version is lower than the previous one, and
                               there is no dev.tidings/version: it arrived late, or the
                               application has reset its counter */
    int64_t at_ms;          /* when it arrived, since 1970 */
    const json_t *metadata; /* of the change, an object; NULL: none */
    const json_t *contents; /* with reread: the `contents` of the read after the change */
    int code;               /* DOWN, LOST, CLOSED: why; UPDATED with reread: why it could
                               not be read; any: TDG_ETOOLARGE if contents or metadata
                               were left out, as 64 MiB of them wait already; else 0 */
    const char *message;    /* the same for people; NULL if code is 0 */
} tdg_event_t;

TDG_API void tdg_event_free(tdg_event_t *event); /* NULL is accepted */

/* Called on the client's thread; `event` is borrowed. Must not wait. */
typedef void (*tdg_event_fn)(void *user, tdg_client_t *client, const tdg_event_t *event);

/* The server requests input before it can answer: `method` is "elicitation/create",
 * "sampling/createMessage" or "roots/list" with its params (borrowed; may be NULL).
 * Returns the result, stolen by the client; NULL declines. Called on the client's thread;
 * it must not wait for this client. */
typedef json_t *(*tdg_input_fn)(void *user, const char *method, const json_t *params);

/* The progress of a tool call: `params` of notifications/progress (borrowed), with
 * `progress`, and optionally `total` and `message`. Called on the client's thread; it
 * must not wait for this client. */
typedef void (*tdg_progress_fn)(void *user, const json_t *params);

/* One line that a program writes to its standard error, without its end; borrowed. Called
 * on the client's thread; it must not wait for this client. */
typedef void (*tdg_stderr_fn)(void *user, const char *line);

/* ---- Connecting --------------------------------------------------------- */

typedef enum tdg_era {
    TDG_ERA_FIND,   /* detect it, and remember */
    TDG_ERA_MODERN, /* 2026-07-28 only */
    TDG_ERA_LEGACY, /* 2025-11-25 and older */
} tdg_era_t;

enum {
    TDG_CLIENT_PATIENT = 1 << 0,  /* retry the first connection until connect_timeout_ms
                                     is over */
    TDG_CLIENT_ONE_LIFE = 1 << 1, /* do not reconnect (CLOSED), and do not retry a refused
                                     subscription */
    TDG_CLIENT_LOGS = 1 << 2,     /* request the server's log messages */
    /* Send credentials over http: to other machines. */
    TDG_CLIENT_INSECURE_TOKEN = 1 << 3,
};

/* Zero means the default, given in brackets. One of `url` and `argv` is required. No time
 * can be switched off: the longest is 49 days (UINT32_MAX). */
typedef struct tdg_client_opts {
    const char *url;         /* http:// or https://; the path defaults to /mcp */
    const char *const *argv; /* a program to start, looked up in PATH; ends with NULL */
    const char *const *env;  /* its whole environment, "NAME=value"; [ours] */
    const char *cwd;         /* [ours] */

    const char *const *headers; /* more headers, "Name: value"; ends with NULL. They are
                                   sent to the scheme, host and port of `url` only */
    const char *token_file; /* sent as Authorization: Bearer; read again when the server
                               refuses the token */
    const char *ca_file;    /* certificates to trust [the system's] */
    const char *proxy;      /* URL of an HTTP proxy [none] */

    const char *name, *version; /* how the client introduces itself ["tidings", ours] */
    tdg_era_t era;
    unsigned flags;

    uint32_t connect_timeout_ms; /* until connected, in total [30,000] */
    uint32_t timeout_ms;         /* of a call of this header, in total [60,000] */
    uint32_t quiet_ms; /* a stream without a byte for so long is checked by a second one,
                          and subscribed resources are read and compared; the wait then
                          doubles up to 10 minutes, until something was missed [60,000].
                          Servers that announce their keep-alive interval (ours do) need
                          no check: their stream is dead after three intervals */
    uint32_t retry_ms; /* first wait before reconnecting; grows, with jitter, and is never
                          shorter than the server's `retry` or Retry-After [500] */
    uint32_t retry_max_ms;     /* up to this [30,000] */
    uint32_t retry_per_minute; /* attempts, at most [20] */

    size_t max_message_bytes; /* of one message from the server [16 MiB] */
    size_t max_subscriptions; /* [100,000] */

    tdg_event_fn on_event;       /* NULL: events wait for tdg_client_next() */
    tdg_input_fn on_input;       /* NULL: the server gets an error */
    tdg_progress_fn on_progress; /* NULL: no progress is requested */
    tdg_log_fn log;          /* what the client does: connects, waits, gives up. On its
                                thread; must not wait for this client. NULL: no log */
    tdg_stderr_fn on_stderr; /* NULL: the standard error of a program is dropped */
    void *user;              /* given to all callbacks */
} tdg_client_opts_t;

/* Connects and detects the server's era. Stores a new client in *ret. `failure` may be
 * NULL. Besides the codes above returns
 *
 *   TDG_ESYSTEM  no thread or descriptor is available: see `message`
 *   TDG_ENOTSUP  (also) a field of the options is unknown to the library */
TDG_API int tdg_client_connect_sized(const tdg_client_opts_t *opts, size_t opts_size,
                                     tdg_client_t **ret, tdg_failure_t *failure);

static inline int tdg_client_connect(const tdg_client_opts_t *opts, tdg_client_t **ret,
                                     tdg_failure_t *failure) {
    return tdg_client_connect_sized(opts, sizeof(*opts), ret, failure);
}

/* Begins to close, without waiting. From then on every function of this client returns
 * TDG_EENDED, also those that wait already, and there are no more events. If other
 * threads use the client: stop, wait until they have finished, close. From any thread,
 * also from a callback; a second call does nothing. NULL is accepted. */
TDG_API void tdg_client_stop(tdg_client_t *client);

/* Unsubscribes, ends the connection (a legacy session is deleted; the input of a program
 * is closed, followed by SIGTERM after 2 s and SIGKILL after 2 s more), waits at most 5 s
 * for that, and frees the client. Calls that wait return TDG_EENDED; a call that begins
 * later uses freed memory, so if other threads may still call, see tdg_client_stop(). No
 * callback begins after it has returned; one that takes longer than the 5 s is still
 * running then. NULL is accepted. Not from a callback, where it does nothing. */
TDG_API void tdg_client_close(tdg_client_t *client);

/* What is known about the server. tdg_server_facts_done() releases all of it. */
typedef struct tdg_server_facts {
    tdg_era_t era;              /* MODERN or LEGACY */
    bool subscribe;             /* it supports subscriptions to resources */
    bool ours;                  /* it sends cursors: missed updates are known exactly */
    const char *protocol;       /* such as "2025-11-25" */
    const char *transport;      /* "http", "sse" (that of 2024-11-05) or "stdio" */
    const char *name, *version; /* as the server has introduced itself; else "" */
    json_t *info;               /* serverInfo; new reference */
    json_t *capabilities;       /* new reference */
    json_t *supported;          /* versions that it lists, an array; new reference */
    const char *instructions;   /* NULL: none */
} tdg_server_facts_t;

/* Fills *ret with what is known now; the server may have been replaced since the last
 * call. Does not wait for the server, and works in callbacks. Returns 0, or
 *
 *   TDG_EENDED  the client is being closed
 *   TDG_EINVAL  `ret` is NULL
 *   TDG_ENOMEM  out of memory */
TDG_API int tdg_client_facts_sized(tdg_client_t *client, tdg_server_facts_t *ret,
                                   size_t size);
TDG_API void tdg_server_facts_done_sized(tdg_server_facts_t *facts, size_t size);

static inline int tdg_client_facts(tdg_client_t *client, tdg_server_facts_t *ret) {
    return tdg_client_facts_sized(client, ret, sizeof(*ret));
}

/* May be all zero; NULL is accepted. */
static inline void tdg_server_facts_done(tdg_server_facts_t *facts) {
    tdg_server_facts_done_sized(facts, sizeof(*facts));
}

typedef struct tdg_client_counters_t {
    /* Now. */
    uint64_t subscriptions;
    uint64_t retrying; /* of these: temporarily refused, and retried */
    uint64_t pending;  /* events that are not fetched yet */

    /* Since the client connected first. */
    uint64_t requests;   /* sent */
    uint64_t sessions;   /* of the legacy era, started */
    uint64_t streams;    /* opened */
    uint64_t reconnects; /* of these: opened again after a loss */
    uint64_t updates;    /* notifications of resources that arrived */
    uint64_t repeated;   /* of these: dropped, as repeated or out of date */
    uint64_t older;      /* of these: reported, marked as `older` */
    uint64_t keepalives; /* that arrived on idle streams */
    uint64_t reads;      /* for reread and polling */
    uint64_t lost;       /* events for which there was no room: see tdg_client_next() */
} tdg_client_counters_t;

/* Fills *ret; all zero while the client is being closed. Works in callbacks. */
TDG_API void tdg_client_counters_sized(tdg_client_t *client, tdg_client_counters_t *ret,
                                       size_t size);

static inline void tdg_client_counters(tdg_client_t *client, tdg_client_counters_t *ret) {
    tdg_client_counters_sized(client, ret, sizeof(*ret));
}

/* ---- Subscriptions ------------------------------------------------------ */

/* All zero: the server's defaults. The first seven are for servers that support
 * dev.tidings/options; others ignore them. */
typedef struct tdg_subscribe_opts {
    /* One of these three. 0: the server's default; -1: at once. */
    int64_t batch_ms, debounce_ms, throttle_ms;
    int64_t rate_limit_ms; /* 0: the server's default; -1: none */
    json_t *filter;        /* an object, see docs/protocol.md; borrowed; NULL: none */
    int64_t since_ms;      /* also notify of changes in the last so many ms */
    bool await_creation; /* legacy servers of ours: also subscribe to a resource that does
                            not exist yet; otherwise TDG_ENOTFOUND. Modern: always */
    bool reread; /* read after every update, and report it with the contents; unchanged
                    content after a gap is not reported */
    uint32_t poll_ms; /* as a fallback: read when no update has arrived for this long, and
                         report a difference; also for servers without subscriptions.
                         0: never */
} tdg_subscribe_opts_t;

/* Subscribes to a resource, or to a template that the server lists (then every matching
 * resource is reported). Returns when the server has acknowledged it: changes from then
 * on are reported. Subscribing again replaces the options. `opts` may be NULL. A
 * temporary refusal (-32006, -32603, 429, 5xx) is retried with back-off for a tenth of
 * `timeout_ms` (6 s by default), then it is returned, with `passing` in the failure; to
 * go on, subscribe again. With TDG_CLIENT_ONE_LIFE it is returned at once. A subscription
 * that was acknowledged once is retried for as long as it takes. Returns
 * 0, TDG_EAGAIN, TDG_EENDED, TDG_EINVAL, TDG_EJSON, TDG_ENOMEM, TDG_ENOTFOUND,
 * TDG_EREFUSED, TDG_ETIMEDOUT, TDG_ETOOLARGE, TDG_EUNREACHABLE or TDG_EURI (listed under
 * "What went wrong"), or
 *
 *   TDG_ENOTSUP         the server has no subscriptions, or none to this resource, and
 *                       `poll_ms` is 0; or a field of the options is unknown to the
 *                       library
 *   TDG_ESTREAMS        more than 64 different options
 *   TDG_ESUBSCRIPTIONS  more than `max_subscriptions`
 *   TDG_EURILEN         a URI of more than 64 KiB */
TDG_API int tdg_client_subscribe_sized(tdg_client_t *client, const char *uri,
                                       const tdg_subscribe_opts_t *opts, size_t opts_size,
                                       tdg_failure_t *failure);

static inline int tdg_client_subscribe(tdg_client_t *client, const char *uri,
                                       const tdg_subscribe_opts_t *opts,
                                       tdg_failure_t *failure) {
    return tdg_client_subscribe_sized(client, uri, opts, sizeof(*opts), failure);
}

/* Subscribes to many resources at once, which costs one request where the era allows.
 * `codes`, of `count` elements, gets the outcome of each; may be NULL. Returns 0 when all
 * were acknowledged, else the first code that is not 0; the others are subscribed then.
 * The codes are TDG_EAGAIN, TDG_EENDED, TDG_EINVAL, TDG_EJSON, TDG_ENOMEM, TDG_ENOTFOUND,
 * TDG_EREFUSED, TDG_ETIMEDOUT, TDG_ETOOLARGE, TDG_EUNREACHABLE or TDG_EURI (listed under
 * "What went wrong"), or
 *
 *   TDG_ENOTSUP         the server has no subscriptions, or none to this resource, and
 *                       `poll_ms` is 0; or a field of the options is unknown to the
 *                       library
 *   TDG_ESTREAMS        more than 64 different options
 *   TDG_ESUBSCRIPTIONS  more than `max_subscriptions`
 *   TDG_EURILEN         a URI of more than 64 KiB */
TDG_API int tdg_client_subscribe_all_sized(tdg_client_t *client, const char *const *uris,
                                           size_t count, const tdg_subscribe_opts_t *opts,
                                           size_t opts_size, int *codes,
                                           tdg_failure_t *failure);

static inline int tdg_client_subscribe_all(tdg_client_t *client, const char *const *uris,
                                           size_t count, const tdg_subscribe_opts_t *opts,
                                           int *codes, tdg_failure_t *failure) {
    return tdg_client_subscribe_all_sized(client, uris, count, opts, sizeof(*opts), codes,
                                          failure);
}

/* Unsubscribes: after it has returned there is no event about the URI, and waiting ones
 * are dropped, whatever the server answers. Works in on_event and in the callback of
 * tdg_client_send(), where it does not wait; not in on_input, on_progress, on_stderr and
 * log. Returns 0, or
 *
 *   TDG_EENDED     the client is being closed
 *   TDG_EINVAL     an argument is NULL, or it is called from a callback in which it does
 *                  not work
 *   TDG_ENOMEM     out of memory
 *   TDG_ENOTFOUND  it was not subscribed */
TDG_API int tdg_client_unsubscribe(tdg_client_t *client, const char *uri,
                                   tdg_failure_t *failure);

/* The current subscriptions: an array of strings, new, in *ret. Works in callbacks.
 * Returns 0, or
 *
 *   TDG_EENDED  the client is being closed
 *   TDG_EINVAL  an argument is NULL
 *   TDG_ENOMEM  out of memory */
TDG_API int tdg_client_subscriptions(tdg_client_t *client, json_t **ret);

/* Subscribes to changes of lists: one bit, 1 << TDG_LIST_..., for each. Replaces the
 * lists of the last call; 0 is none, the initial state. Templates belong to resources.
 * Returns 0, or TDG_EAGAIN, TDG_EENDED, TDG_EINVAL, TDG_EJSON, TDG_ENOMEM, TDG_ENOTFOUND,
 * TDG_ENOTSUP, TDG_EREFUSED, TDG_ETIMEDOUT, TDG_ETOOLARGE or TDG_EUNREACHABLE (listed
 * under "What went wrong"). */
TDG_API int tdg_client_watch_lists(tdg_client_t *client, unsigned lists,
                                   tdg_failure_t *failure);

/* The next event, new, in *ret. Waits up to `timeout_ms`; 0: not at all, -1: for ever.
 * Returns 0, or
 *
 *   TDG_EENDED     the client is closed or gave up, and all events are fetched
 *   TDG_EINVAL     the client has `on_event`, or `ret` is NULL
 *   TDG_ENOMEM     events were lost: memory ran out, or too many were waiting. Anything
 *                  may have changed. Returned once; the next call returns events again
 *   TDG_ETIMEDOUT  no event in time */
TDG_API int tdg_client_next(tdg_client_t *client, int timeout_ms, tdg_event_t **ret);

/* A descriptor that is readable while tdg_client_next() would not wait, for poll(2) and
 * other event loops. Do not read from it or close it. -1 if `on_event` is set. */
TDG_API int tdg_client_fd(tdg_client_t *client);

/* ---- Requests ----------------------------------------------------------- */

/* All entries of a list, from all its pages: an array as the protocol defines it, new.
 * Over HTTP, a tool with invalid x-mcp-header annotations is left out, and logged. A
 * server without that list: an empty array. Returns 0, or TDG_EAGAIN, TDG_EENDED,
 * TDG_EINVAL, TDG_EJSON, TDG_ENOMEM, TDG_ENOTFOUND, TDG_ENOTSUP, TDG_EREFUSED,
 * TDG_ETIMEDOUT, TDG_ETOOLARGE or TDG_EUNREACHABLE (listed under "What went wrong"). */
TDG_API int tdg_client_list(tdg_client_t *client, tdg_list_kind_t list, json_t **ret,
                            tdg_failure_t *failure);

/* The result of resources/read, new: an object with "contents". Returns 0, or TDG_EAGAIN,
 * TDG_EENDED, TDG_EINVAL, TDG_EJSON, TDG_ENOMEM, TDG_ENOTFOUND, TDG_ENOTSUP,
 * TDG_EREFUSED, TDG_ETIMEDOUT, TDG_ETOOLARGE, TDG_EUNREACHABLE or TDG_EURI (listed under
 * "What went wrong"). */
TDG_API int tdg_client_read(tdg_client_t *client, const char *uri, json_t **ret,
                            tdg_failure_t *failure);

/* The results of tools/call and prompts/get, new. `arguments` is an object, stolen, or
 * NULL. A failed tool call returns 0, with isError in the result. Over HTTP the tool's
 * definition is looked up for the headers that it may require. Both return 0, or
 * TDG_EAGAIN, TDG_EENDED, TDG_EINVAL, TDG_EJSON, TDG_ENOMEM, TDG_ENOTFOUND, TDG_ENOTSUP,
 * TDG_EREFUSED, TDG_ETIMEDOUT, TDG_ETOOLARGE or TDG_EUNREACHABLE (listed under "What went
 * wrong"). */
TDG_API int tdg_client_call(tdg_client_t *client, const char *tool, json_t *arguments,
                            json_t **ret, tdg_failure_t *failure);
TDG_API int tdg_client_prompt(tdg_client_t *client, const char *prompt, json_t *arguments,
                              json_t **ret, tdg_failure_t *failure);

/* What could complete an argument: the "completion" object of the response, new. `ref` is
 * a prompt's name, or a URI template (which contains "://" or "{"). `context` holds other
 * arguments, an object of strings, stolen, or NULL. Returns 0, or TDG_EAGAIN, TDG_EENDED,
 * TDG_EINVAL, TDG_EJSON, TDG_ENOMEM, TDG_ENOTFOUND, TDG_ENOTSUP, TDG_EREFUSED,
 * TDG_ETIMEDOUT, TDG_ETOOLARGE or TDG_EUNREACHABLE (listed under "What went wrong"). */
TDG_API int tdg_client_complete(tdg_client_t *client, const char *ref,
                                const char *argument, const char *value, json_t *context,
                                json_t **ret, tdg_failure_t *failure);

/* Checks that the server answers: ping, or in the modern era server/discover. Returns 0,
 * or TDG_EAGAIN, TDG_EENDED, TDG_EINVAL, TDG_EJSON, TDG_ENOMEM, TDG_ENOTFOUND,
 * TDG_ENOTSUP, TDG_EREFUSED, TDG_ETIMEDOUT, TDG_ETOOLARGE or TDG_EUNREACHABLE (listed
 * under "What went wrong"). */
TDG_API int tdg_client_ping(tdg_client_t *client, tdg_failure_t *failure);

/* Any request, for methods without a function here: its result, new. `params` is an
 * object, stolen, or NULL; the `_meta` of the era is added. `timeout_ms` 0: the client's.
 * Returns 0, or TDG_EAGAIN, TDG_EENDED, TDG_EINVAL, TDG_EJSON, TDG_ENOMEM, TDG_ENOTFOUND,
 * TDG_ENOTSUP, TDG_EREFUSED, TDG_ETIMEDOUT, TDG_ETOOLARGE, TDG_EUNREACHABLE or, for
 * methods of resources, TDG_EURI (listed under "What went wrong"). */
TDG_API int tdg_client_request(tdg_client_t *client, const char *method, json_t *params,
                               uint32_t timeout_ms, json_t **ret, tdg_failure_t *failure);

/* Sends any request without waiting, also from callbacks. `done`, which may be NULL, is
 * called once, on the client's thread, unless the client is closed before: `result` is
 * NULL on failure, `failure` on success; both borrowed. Returns 0, or one of these codes,
 * in which case `done` is not called:
 *
 *   TDG_EAGAIN  too many requests are waiting already; nothing was sent
 *   TDG_EENDED  the client is being closed
 *   TDG_EINVAL  an argument is not valid
 *   TDG_ENOMEM  out of memory */
typedef void (*tdg_done_fn)(void *user, const json_t *result,
                            const tdg_failure_t *failure);
TDG_API int tdg_client_send(tdg_client_t *client, const char *method, json_t *params,
                            uint32_t timeout_ms, tdg_done_fn done, void *user);

#ifdef __cplusplus
}
#endif

#endif

/* SPDX-License-Identifier: MIT
 *
 * A server: resources, templates, tools and prompts with callbacks, served to MCP clients
 * of both eras over HTTP and stdio, and one call to publish a change.
 *
 *     static void read_time(void *user, tdg_request_t *request, const char *uri) {
 *         tdg_request_reply_text(request, "12:00");
 *     }
 *
 *     tdg_server_t *server;
 *     tdg_resource_t clock = {.uri = "clock://now", .name = "now", .read = read_time};
 *     tdg_listen_opts_t http = {.port = 8080};
 *
 *     tdg_server_create(NULL, &server);
 *     tdg_server_add_resource(server, &clock);
 *     tdg_server_listen(server, &http);
 *     tdg_server_start(server);
 *     ...
 *     tdg_server_notify_updated(server, "clock://now", NULL); // from any thread
 *     ...
 *     tdg_server_stop(server);
 *     tdg_server_destroy(server);
 *
 * Threads: every function may be called from any thread, unless its comment forbids it.
 * Callbacks run on the server's own threads, several at the same time when there is more
 * than one worker; they must not block. To answer later, keep the request and answer it
 * from any thread.
 *
 * Strings given are copied. JSON is jansson's: "stolen" means that the reference is ours
 * from then on, even on failure; "borrowed" is valid during the call.
 *
 * Options: in a struct of options, zero in a field means its default. Later releases add
 * fields at the end, and programs that were compiled before go on working: call the
 * inline functions, which pass the size that the struct had at compile time to the
 * functions that end in _sized. TDG_ENOTSUP from such a function: the program is newer
 * than the library, and sets a field that the library does not know. */
#ifndef TIDINGS_SERVER_H
#define TIDINGS_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include <tidings/error.h>
#include <tidings/export.h>
#include <tidings/log.h>
#include <tidings/target.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tdg_server tdg_server_t;
typedef struct tdg_request tdg_request_t;

/* ---- When subscribers are notified -------------------------------------- */

typedef enum tdg_timing_mode {
    TDG_TIMING_INHERIT,   /* the setting one level up */
    TDG_TIMING_IMMEDIATE, /* at once */
    TDG_TIMING_BATCH, /* the first change opens a window; one notification at its end */
    TDG_TIMING_DEBOUNCE, /* after window_ms without a change, or after longest_ms */
    TDG_TIMING_THROTTLE, /* the first at once, then at most one per window */
} tdg_timing_mode_t;

enum { TDG_RATE_INHERIT = 0, TDG_RATE_OFF = -1 };
enum { TDG_FLOOR_INHERIT = 0, TDG_FLOOR_OFF = -1 };

/* All zero: inherit everything. The options of the subscription take precedence over the
 * settings of the resource, these over those of a template, and these over those of the
 * server, whose default is a batch of 100 ms and one notification per second,
 * subscription and resource.
 *
 * The minimum is the operator's: a shorter window or rate limit, or none, is raised to
 * it, even if the client asks for less. That of a resource takes precedence over that of
 * a template, and that over the server's, which has none by default.
 *
 * Times of more than a day (86,400,000 ms) are not valid. */
typedef struct tdg_settings {
    tdg_timing_mode_t timing;
    uint32_t window_ms;        /* 0: immediate */
    uint32_t longest_ms;       /* debounce; 0: ten windows */
    int32_t rate_limit_ms;     /* TDG_RATE_INHERIT, TDG_RATE_OFF or milliseconds */
    int32_t min_window_ms;     /* TDG_FLOOR_INHERIT, TDG_FLOOR_OFF or milliseconds */
    int32_t min_rate_limit_ms; /* the same */
} tdg_settings_t;

/* ---- The server --------------------------------------------------------- */

/* Features that can be switched off or on. Those that are off are not advertised. */
enum {
    TDG_NO_LEGACY = 1 << 0,          /* no protocol before 2026-07-28 */
    TDG_NO_MODERN = 1 << 1,          /* only protocols before 2026-07-28 */
    TDG_NO_SUBSCRIBE = 1 << 2,       /* no subscriptions to resources */
    TDG_NO_LIST_CHANGED = 1 << 3,    /* no notifications of changed lists */
    TDG_NO_LOGGING = 1 << 4,         /* no log messages to clients */
    TDG_NO_PARAMS_METADATA = 1 << 5, /* metadata of changes not in params.metadata */
    TDG_NO_META_METADATA = 1 << 6,   /* ... not in _meta["dev.tidings/metadata"] */
    TDG_ANY_TEMPLATE =
        1 << 7, /* clients may subscribe to templates that are not listed */
    /* The server may add some later: they are advertised from the start, and clients can
     * subscribe to that list. Otherwise they are advertised once one has been added. */
    TDG_OFFERS_TOOLS = 1 << 8,
    TDG_OFFERS_PROMPTS = 1 << 9,
};

/* Values that start() of a watcher may return instead of 0, and that
 * tdg_server_watch_done() takes, except PENDING. */
enum {
    /* The target is watched, and the resource exists or not. While it is watched,
     * tdg_server_notify_updated() and tdg_server_notify_deleted() update this state; a
     * call of these or of tdg_server_watch_done() while start() runs takes precedence
     * over the return value of start(). A legacy client that subscribes to a resource
     * that does not exist gets "not found", unless it asks to wait for its creation; a
     * modern one is acknowledged. */
    TDG_WATCH_EXISTS = 1,
    TDG_WATCH_ABSENT = 2,

    TDG_WATCH_PENDING = 3, /* not watched yet: tdg_server_watch_done() follows */
};

/* For data that is watched only while there are subscribers. `target` is a URI, a
 * template or a list; borrowed. start() is called before the first subscriber is
 * acknowledged, and returns
 *
 *   0, TDG_WATCH_EXISTS or TDG_WATCH_ABSENT
 *                      changes from now on are notified
 *   TDG_WATCH_PENDING  tdg_server_watch_done() follows; the subscriber is acknowledged
 *                      then
 *   TDG_ENOTSUP        the target is not subscribable; the client gets this reason
 *   TDG_ENOTFOUND      it does not exist and never will; the client gets this reason
 *   another code       the subscription to this target is refused
 *
 * stop() is called `linger_ms` after the last subscriber has left. Both are called from
 * the server's threads, for one target never two at a time, and may call
 * tdg_server_notify_updated() and tdg_server_watch_done(). */
typedef struct tdg_watcher {
    int (*start)(void *user, tdg_server_t *server, const tdg_target_t *target);
    void (*stop)(void *user, tdg_server_t *server, const tdg_target_t *target);
    void *user;
} tdg_watcher_t;

/* `log` reports to the operator: the server starts and stops, clients are refused because
 * a limit is reached, something was lost because memory ran out. Messages that clients
 * can cause are logged at most once per second and kind, with a count of the others;
 * except at TDG_LOG_DEBUG, which has one line per step of the parts in `debug`. `log` is
 * called from any thread, also from several at a time; it must not block, nor stop or
 * destroy the server (tdg_server_stop_soon() is fine).
 *
 * `debug` names parts that log each step, to find out why a client is or is not notified.
 * Lines name the stream by the number that tdg_server_subscriptions() shows, and the
 * client as it has introduced itself:
 *
 *     stream 7 (weather-app): connected; version 1.2, 2025-11-25, http, 127.0.0.1
 *     stream 7 (weather-app): subscribed to clock://now
 *     stream 7 (weather-app): refused clock://then: no such entry
 *     watcher of clock://now: starts
 *     watcher of clock://now: armed
 *     change 12 of clock://now: 3 subscriptions in worker 0
 *     stream 7 (weather-app): disconnected; subscriptions removed: 4
 *
 * Each step costs time, and clients determine the number of steps. Parts that are off
 * cost nothing. */
enum {
    TDG_DEBUG_CLIENTS = 1 << 0,       /* connects; disconnects, with the number of its
                                         subscriptions */
    TDG_DEBUG_SUBSCRIPTIONS = 1 << 1, /* subscribe, unsubscribe, refusals with reasons */
    TDG_DEBUG_NOTIFICATIONS = 1 << 2, /* each change, and how many subscriptions there are
                                         in each worker that has some */
    TDG_DEBUG_WATCHERS = 1 << 3,      /* start, are armed, fail, stop */
    TDG_DEBUG_ALL = (1 << 4) - 1,
};

/* None at all, for times whose comment mentions it. For others it is a time of 49 days.
 * */
#define TDG_NONE UINT32_MAX

/* 0 or NULL in any field takes the default in brackets; of a time, in milliseconds. */
typedef struct tdg_server_opts {
    const char *name;               /* how the server introduces itself ["tidings"] */
    const char *title;              /* the same for people [none] */
    const char *version;            /* [tdg_version()] */
    const char *instructions;       /* for the language model [none] */
    unsigned flags;                 /* TDG_NO_..., TDG_ANY_TEMPLATE, TDG_OFFERS_... */
    unsigned workers;               /* threads that serve [one per core]; at most 64 */
    const tdg_settings_t *settings; /* copied [batch of 100 ms, rate limit 1,000 ms] */
    const tdg_watcher_t *watcher;   /* copied [none: every change is notified anyway] */
    uint32_t linger_ms; /* from the last subscriber to stop() of the watcher; TDG_NONE: it
                           is called at once [5,000] */
    tdg_log_fn log;     /* for the operator, not for clients [nothing] */
    void *log_user;     /* handed to `log` */
    unsigned debug;     /* TDG_DEBUG_...: what is logged step by step [none] */

    uint32_t page_size;          /* entries of one page of a list [250] */
    uint32_t keepalive_ms;       /* between keep-alives on an idle stream; TDG_NONE: none
                                    are sent [15,000] */
    uint32_t request_timeout_ms; /* for a client to send its whole request [30,000] */
    uint32_t idle_timeout_ms;    /* of a connection between requests [75,000] */
    uint32_t session_idle_ms; /* of a legacy session without stream or request; [5 min] */
    uint32_t handshake_timeout_ms; /* of one that never sent notifications/initialized;
                                      [30,000] */
    uint32_t stream_lifetime_ms;   /* streams are ended after this time [never] */
    uint32_t retry_ms;             /* after an ended legacy stream, clients wait this long
                                 before they reconnect [1,000] */
    uint32_t stop_timeout_ms;      /* for tdg_server_stop() to flush [3,000] */

    uint32_t max_connections; /* beyond it: 503 and close [16,384] */
    uint32_t max_sessions;    /* legacy; beyond it a new one replaces the oldest that is
                                 not initialized, or else the oldest unused one; if
                                 there is none: 503 [10,000] */
    uint32_t max_sessions_per_address; /* of them; off for pipes [half of them] */
    uint32_t max_calls;         /* unanswered requests of one session or pipe [100] */
    uint32_t max_streams;       /* modern streams of one pipe, GET streams of one legacy
                                   session [16] */
    uint32_t max_header_bytes;  /* of one request [16,384] */
    uint32_t max_message_bytes; /* of one message from a client [4 MiB] */
    uint32_t max_subscriptions; /* of one stream [10,000] */
    uint32_t max_total_subscriptions; /* of all streams of the server [1,000,000] */
    uint32_t max_subscribed_bytes; /* of the URIs that are subscribed to, and the memory
                                      of their filters, each counted once in every
                                      worker that has it [64 MiB] */
    uint32_t max_pending; /* URIs waiting on one stream through templates [10,000] */
    uint32_t max_history; /* changes remembered for clients that reconnect [65,536] */
} tdg_server_opts_t;

/* Stores a new server in *ret; nothing is served yet. `opts` is copied, and may be NULL.
 * Returns 0, or
 *
 *   TDG_EINVAL   an option has no valid value
 *   TDG_ENOMEM   out of memory
 *   TDG_ENOTSUP  a field of the options is unknown to the library */
TDG_API int tdg_server_create_sized(const tdg_server_opts_t *opts, size_t opts_size,
                                    size_t settings_size, size_t watcher_size,
                                    tdg_server_t **ret);

static inline int tdg_server_create(const tdg_server_opts_t *opts, tdg_server_t **ret) {
    return tdg_server_create_sized(opts, sizeof(*opts), sizeof(tdg_settings_t),
                                   sizeof(tdg_watcher_t), ret);
}

/* Stops the server if it runs and frees it. Requests that are not answered yet stay valid
 * and may be answered later, which has no effect; but their tdg_request_server() is no
 * longer valid. NULL is accepted. Not from a callback. An attached server that has not
 * ended yet is closed at once, and its loop is run for that. */
TDG_API void tdg_server_destroy(tdg_server_t *server);

typedef struct tdg_listen_opts {
    const char *host; /* address to bind; "::" and "0.0.0.0" are all of this machine
                         ["127.0.0.1"] */
    uint16_t port;    /* [any free one, see tdg_server_port()] */
    bool forwarded;   /* `trusted_proxies` write Forwarded (RFC 7239), which is read
                         instead of X-Forwarded-For */
    bool erlmcp; /* speak the erlmcp dialect with legacy clients here: names and error
                         codes differ */
    /* Names by which clients may call this server (Host) and pages that may (Origin),
     * each a list that ends in NULL; "*" is any. [where `host` is a loopback address:
     * localhost and loopback addresses at any port; else as Host localhost, any numeric
     * address and the name of this machine, and no Origin] A host without a port means
     * any port. */
    const char *const *allowed_hosts;
    const char *const *allowed_origins;
    /* Proxies in front of this server: addresses and networks such as "10.0.0.0/8", a
     * list that ends in NULL. If a request comes through one, the client's address is the
     * last one in X-Forwarded-For that is not such a proxy: for max_sessions_per_address,
     * for turns between clients, in the log and in tdg_server_subscriptions(). [none:
     * that header is ignored] */
    const char *const *trusted_proxies;
} tdg_listen_opts_t;

/* Binds an address for HTTP: /mcp for every protocol version since 2025-03-26, /sse (or
 * /events) and /messages for 2024-11-05. Before tdg_server_start(); several times for
 * several addresses, at most 16. Returns 0, or
 *
 *   a code of the system, as tdg_system_error() has it
 *                the address cannot be bound: EADDRINUSE, EACCES, ...
 *   TDG_EINVAL   `host` or a trusted proxy is not an address, there are 16 addresses
 *                already, or the server has started
 *   TDG_ENOMEM   out of memory
 *   TDG_ENOTSUP  a field of the options is unknown to the library */
TDG_API int tdg_server_listen_sized(tdg_server_t *server, const tdg_listen_opts_t *opts,
                                    size_t opts_size);

static inline int tdg_server_listen(tdg_server_t *server, const tdg_listen_opts_t *opts) {
    return tdg_server_listen_sized(server, opts, sizeof(*opts));
}

/* The port of the index-th tdg_server_listen(), 0 where there is none. NULL is accepted.
 * */
TDG_API uint16_t tdg_server_port(const tdg_server_t *server, size_t index);

/* Serves one client on two file descriptors, one message per line; for stdio 0 and 1. The
 * end of input stops the server. Before tdg_server_start(), once. The descriptors stay
 * the caller's. Returns 0, or TDG_EINVAL: a descriptor is not open, or this was called
 * before, or the server has started. */
TDG_API int tdg_server_pipe(tdg_server_t *server, int input, int output, bool erlmcp);

/* Starts the threads and returns; or, with `tdg_server_attach`, serves from the caller's
 * libuv loop: the caller runs it, on the thread that calls this, and ignores or blocks
 * SIGPIPE; there is one worker, whatever `workers` is. Both return 0, or
 *
 *   TDG_EINVAL   the server was started before, or has no address and no pipe
 *   TDG_ENOMEM   out of memory
 *   TDG_ESYSTEM  no thread, descriptor or address is available */
struct uv_loop_s;
TDG_API int tdg_server_start(tdg_server_t *server);
TDG_API int tdg_server_attach(tdg_server_t *server, struct uv_loop_s *loop);

/* Writes the changes accepted before (windows and rate limits end early), ends every
 * stream as its protocol requires, answers running requests, all within stop_timeout_ms,
 * and closes all connections; a stream whose reader has not received everything by then
 * is cut without a regular end. tdg_server_stop() returns when that is done (attached:
 * when it has begun; the loop has no handle of ours left when it is done). A server does
 * not start again. Stopping twice is allowed. Not from a callback: use
 * tdg_server_stop_soon() there. NULL is accepted. */
TDG_API void tdg_server_stop(tdg_server_t *server);
TDG_API void tdg_server_stop_soon(tdg_server_t *server);

/* Waits until the server has stopped: by tdg_server_stop_soon() or the end of its pipe.
 * Not for an attached server. NULL is accepted. */
TDG_API void tdg_server_wait(tdg_server_t *server);

/* For programs that only serve: starts, waits for SIGINT, SIGTERM, the end of the pipe or
 * the hang-up of the terminal, and stops; a second signal ends the process at once.
 * SIGHUP from elsewhere is ignored. Returns 0, or
 *
 *   TDG_EINVAL   the server was started before, or has no address and no pipe
 *   TDG_ENOMEM   out of memory
 *   TDG_ESYSTEM  no thread, descriptor or address is available */
TDG_API int tdg_server_run(tdg_server_t *server);

/* ---- Requests: how callbacks answer ------------------------------------- */

/* Answers a request, once, immediately or later, from any thread; there is no time-out:
 * the client decides how long it waits. The request is no longer valid afterwards.
 * `result` is the method's result object, such as {"contents": […]} of a read or
 * {"content": […]} of a tool call; stolen. NULL counts as out of memory. */
TDG_API void tdg_request_reply(tdg_request_t *request, json_t *result);

/* The same for the common cases. For a read, the content, with the MIME type of the
 * resource; for a tool call, one text; for a prompt, one message of the user. The text
 * must be UTF-8; NULL counts as out of memory. A blob answers reads only. */
TDG_API void tdg_request_reply_text(tdg_request_t *request, const char *text);
TDG_API void tdg_request_reply_blob(tdg_request_t *request, const void *data, size_t len);

/* A tool that ran and failed: the model sees the text. */
TDG_API void tdg_request_reply_tool_error(tdg_request_t *request, const char *text);

/* The request fails with a JSON-RPC error; `data` is stolen and may be NULL. */
TDG_API void tdg_request_fail(tdg_request_t *request, int code, const char *message,
                              json_t *data);

/* The resource, tool or prompt does not exist (any more): fails with the error that the
 * client's version of the protocol has for that. */
TDG_API void tdg_request_fail_not_found(tdg_request_t *request);

/* Notifies the client of progress, if it requested that. `progress` must grow;
 * `total` 0 is unknown; `message` may be NULL. Not after the answer. */
TDG_API void tdg_request_progress(tdg_request_t *request, double progress, double total,
                                  const char *message);

/* Sends a log message to the client of this request, if it requested them. `logger` may
 * be NULL; `data` (any JSON value) is stolen. */
TDG_API void tdg_request_log(tdg_request_t *request, tdg_log_level_t level,
                             const char *logger, json_t *data);

/* Whether the client has cancelled the request or disconnected; the request must still be
 * answered. */
TDG_API bool tdg_request_cancelled(const tdg_request_t *request);

/* Closes the client's connection while the work goes on: the client reconnects for the
 * answer after retry_ms. Only clients of 2025-11-25 over HTTP can; for others nothing
 * happens. */
TDG_API void tdg_request_release_connection(tdg_request_t *request);

/* For a read of a URI that matches a template: the value of a variable in that URI,
 * percent-decoded, always UTF-8. With "file:///{+path}" and "file:///a/b%20c", "path" is
 * "a/b c". An exploded variable ({x*}) is all of its items with their separators, decoded
 * as well: to distinguish an encoded separator from a real one, parse the URI. A decoded
 * value may contain anything, such as "../": check it before you use it in a path. (A URI
 * that decodes to a NUL or to bytes that are not UTF-8 is answered as not found, without
 * a callback.) NULL if the URI does not contain the variable, if the template has none of
 * that name, and for all other requests. Borrowed until the request is answered. */
TDG_API const char *tdg_request_variable(const tdg_request_t *request, const char *name);

/* The caller, as the client has introduced itself: {"name", "version", ...}, of the
 * session or of the request itself. A client can claim any name: use it for logs, not for
 * decisions. NULL if the client has not introduced itself (a session keeps at most 4 KiB;
 * more counts as nothing). Borrowed until the request is answered. */
TDG_API const json_t *tdg_request_client(const tdg_request_t *request);

/* Does what tdg_server_notify_updated() does, for the server of the request. Returns 0,
 * or one of these codes, in which case nothing is notified:
 *
 *   TDG_EAGAIN     too many changes are waiting; retry later
 *   TDG_EENDED     the server is stopping, or has stopped
 *   TDG_EINVAL     the URI is empty, or the metadata is not an object
 *   TDG_EMETADATA  the metadata is larger than 16 KiB
 *   TDG_ENOMEM     out of memory
 *   TDG_EURILEN    the URI is too long */
TDG_API int tdg_request_notify_updated(tdg_request_t *request, const char *uri,
                                       json_t *metadata);

/* The server that handed out the request. Borrowed. */
TDG_API tdg_server_t *tdg_request_server(const tdg_request_t *request);

/* ---- What is served ----------------------------------------------------- */

/* Adding an entry under an existing URI or name replaces it. Adding, replacing and
 * removing notifies the subscribers of that list. Adding returns 0, or
 *
 *   TDG_EINVAL      a required field is missing, `extra` is not an object, or the
 *                   settings are not valid
 *   TDG_ENOMEM      out of memory
 *   TDG_ENOTSUP     a field of the struct is unknown to the library
 *   TDG_EURI        a resource: its URI is not valid
 *   TDG_EURILEN     a resource or template: its URI is too long
 *   TDG_ETEMPLATE   a template: it is not valid
 *   TDG_EAMBIGUOUS  a template: it could match one URI in several ways
 *
 * and removing returns 0, TDG_EINVAL, TDG_ENOMEM, or TDG_ENOTFOUND where there is none.
 *
 * `extra` has further fields of the definition as the protocol defines them (annotations,
 * icons, _meta, outputSchema, ...); borrowed, and may be NULL. `user` is passed to the
 * callbacks; `user_free`, if set, is called with it when no callback needs it any longer.
 * If a function fails, `user` stays the caller's. */

typedef void (*tdg_read_fn)(void *user, tdg_request_t *request, const char *uri);
typedef void (*tdg_call_fn)(void *user, tdg_request_t *request, const json_t *arguments);
typedef void (*tdg_user_free_fn)(void *user);

/* Suggests values for the argument of a template or prompt: answer with
 * tdg_request_reply_completion(). `context` has the arguments that are known so far, or
 * is NULL. */
typedef void (*tdg_complete_fn)(void *user, tdg_request_t *request, const char *argument,
                                const char *value, const json_t *context);

/* `values` is an array of at most 100 strings; stolen. `total` 0: unknown. */
TDG_API void tdg_request_reply_completion(tdg_request_t *request, json_t *values,
                                          uint32_t total, bool has_more);

typedef struct tdg_resource {
    const char *uri;  /* required; RFC 3986 with a scheme */
    const char *name; /* required */
    const char *title, *description, *mime_type;
    uint64_t size; /* in bytes; 0: unknown */
    const json_t *extra;
    tdg_read_fn read; /* required */
    void *user;
    tdg_user_free_fn user_free;
    bool not_subscribable; /* clients can only read it; subscribing is refused, and
                                existing subscriptions end */
    bool private_content;  /* caches must not share its content */
    uint32_t ttl_ms;       /* how long the content counts as fresh [0] */
    const tdg_settings_t *settings; /* when its subscribers are notified; copied [those of
                                       its template, or of the server] */
} tdg_resource_t;

TDG_API int tdg_server_add_resource_sized(tdg_server_t *server,
                                          const tdg_resource_t *resource,
                                          size_t resource_size, size_t settings_size);

static inline int tdg_server_add_resource(tdg_server_t *server,
                                          const tdg_resource_t *resource) {
    return tdg_server_add_resource_sized(server, resource, sizeof(*resource),
                                         sizeof(tdg_settings_t));
}

/* Also notifies its subscribers, as tdg_server_notify_deleted() does. Their subscriptions
 * stay, unless the URI now belongs to a template that is not subscribable: then they end.
 * Returns 0, or one of these codes, in which case nothing is removed:
 *
 *   TDG_EAGAIN     too many changes are waiting; retry later
 *   TDG_EINVAL     an argument is NULL
 *   TDG_ENOMEM     out of memory
 *   TDG_ENOTFOUND  there is no such resource */
TDG_API int tdg_server_remove_resource(tdg_server_t *server, const char *uri);

/* Serves every URI that the template (RFC 6570) matches, except those of resources.
 * `read` gets the variables by tdg_request_variable(), and answers with
 * tdg_request_fail_not_found() if a resource does not exist. */
typedef struct tdg_template {
    const char *uri_template; /* required */
    const char *name;         /* required */
    const char *title, *description, *mime_type;
    const json_t *extra;
    tdg_read_fn read;         /* required */
    tdg_complete_fn complete; /* may be NULL */
    void *user;
    tdg_user_free_fn user_free;
    bool not_subscribable;
    bool private_content;
    uint32_t ttl_ms;
    const tdg_settings_t *settings; /* copied [those of the server] */
} tdg_template_t;

TDG_API int tdg_server_add_template_sized(tdg_server_t *server,
                                          const tdg_template_t *template_,
                                          size_t template_size, size_t settings_size);

static inline int tdg_server_add_template(tdg_server_t *server,
                                          const tdg_template_t *template_) {
    return tdg_server_add_template_sized(server, template_, sizeof(*template_),
                                         sizeof(tdg_settings_t));
}

TDG_API int tdg_server_remove_template(tdg_server_t *server, const char *uri_template);

typedef struct tdg_tool {
    const char *name; /* required */
    const char *title, *description;
    const json_t *input_schema; /* borrowed; sent to clients, not enforced: `call` must
                                   check its arguments itself [any object] */
    const json_t *extra;
    tdg_call_fn call; /* required; `arguments` is an object, borrowed */
    void *user;
    tdg_user_free_fn user_free;
} tdg_tool_t;

TDG_API int tdg_server_add_tool_sized(tdg_server_t *server, const tdg_tool_t *tool,
                                      size_t tool_size);

static inline int tdg_server_add_tool(tdg_server_t *server, const tdg_tool_t *tool) {
    return tdg_server_add_tool_sized(server, tool, sizeof(*tool));
}

TDG_API int tdg_server_remove_tool(tdg_server_t *server, const char *name);

typedef struct tdg_prompt {
    const char *name; /* required */
    const char *title, *description;
    const json_t *arguments; /* array as the protocol defines it, or NULL; borrowed.
                                Required ones are checked before `get` is called */
    const json_t *extra;
    tdg_call_fn get; /* required; `arguments` is an object of strings, borrowed */
    tdg_complete_fn complete; /* may be NULL */
    void *user;
    tdg_user_free_fn user_free;
} tdg_prompt_t;

TDG_API int tdg_server_add_prompt_sized(tdg_server_t *server, const tdg_prompt_t *prompt,
                                        size_t prompt_size);

static inline int tdg_server_add_prompt(tdg_server_t *server,
                                        const tdg_prompt_t *prompt) {
    return tdg_server_add_prompt_sized(server, prompt, sizeof(*prompt));
}

TDG_API int tdg_server_remove_prompt(tdg_server_t *server, const char *name);

/* ---- Publishing changes ------------------------------------------------- */

/* A resource changed: notifies its subscribers, in either era and on any transport.
 * `metadata` is an object that describes the change, or NULL; stolen, and must not be
 * modified from now on. The URI need not be listed. Before tdg_server_start() there are
 * no subscribers, but clients that connect later can catch up. Returns 0, or one of
 * these codes, in which case nothing is notified:
 *
 *   TDG_EAGAIN     too many changes are waiting; retry later
 *   TDG_EENDED     the server is stopping, or has stopped
 *   TDG_EINVAL     the URI is empty, or the metadata is not an object
 *   TDG_EMETADATA  the metadata is larger than 16 KiB
 *   TDG_ENOMEM     out of memory
 *   TDG_EURILEN    the URI is too long */
TDG_API int tdg_server_notify_updated(tdg_server_t *server, const char *uri,
                                      json_t *metadata);

/* A resource was deleted: its subscribers get an update of change_type "deleted", at
 * once. Returns 0, or one of these codes, in which case nothing is notified:
 *
 *   TDG_EAGAIN     too many changes are waiting; retry later
 *   TDG_EENDED     the server is stopping, or has stopped
 *   TDG_EINVAL     the URI is empty, or the metadata is not an object
 *   TDG_EMETADATA  the metadata is larger than 16 KiB
 *   TDG_ENOMEM     out of memory
 *   TDG_EURILEN    the URI is too long */
TDG_API int tdg_server_notify_deleted(tdg_server_t *server, const char *uri,
                                      json_t *metadata);

/* Completes a start() of the watcher that returned TDG_WATCH_PENDING: `result` is what
 * start() could have returned instead. For a target that is watched already it corrects
 * whether the resource exists. May call stop() of the watcher if no subscriber is
 * left. Returns 0, or
 *
 *   TDG_EINVAL     the target or the result is not valid
 *   TDG_ENOTFOUND  the target is not watched */
TDG_API int tdg_server_watch_done(tdg_server_t *server, const tdg_target_t *target,
                                  int result);

/* Changes the settings of a URI or template while running; all zero removes them. Returns
 * 0, or
 *
 *   TDG_EINVAL      the target is a list or the settings are not valid
 *   TDG_ENOMEM      out of memory
 *   TDG_ENOTSUP     a field of the settings is unknown to the library
 *   TDG_EURILEN     the URI is too long
 *   TDG_ETEMPLATE   the template is not valid
 *   TDG_EAMBIGUOUS  the template could match one URI in several ways */
TDG_API int tdg_server_configure_sized(tdg_server_t *server, const tdg_target_t *target,
                                       const tdg_settings_t *settings,
                                       size_t settings_size);

static inline int tdg_server_configure(tdg_server_t *server, const tdg_target_t *target,
                                       const tdg_settings_t *settings) {
    return tdg_server_configure_sized(server, target, settings, sizeof(*settings));
}

/* ---- Inspection --------------------------------------------------------- */

typedef struct tdg_server_counters_t {
    /* Now. */
    uint64_t connections;
    uint64_t sessions; /* of legacy clients */
    uint64_t streams;  /* that can receive notifications */
    uint64_t subscriptions;
    uint64_t pending; /* notifications that wait for their time or a slow reader */

    /* Since the start. */
    uint64_t requests;
    uint64_t changes;
    uint64_t delivered;    /* notifications written */
    uint64_t merged;       /* changes that were merged into a later one */
    uint64_t filtered;     /* changes that a filter rejected */
    uint64_t rate_limited; /* notifications that a rate limit delayed */
    uint64_t ended;        /* streams ended because max_pending was exceeded */
} tdg_server_counters_t;

/* Fills *ret with sums over all workers, each as of its last turn (at most a second old);
 * all zero if `server` is NULL. */
TDG_API void tdg_server_counters_sized(const tdg_server_t *server,
                                       tdg_server_counters_t *ret, size_t size);

static inline void tdg_server_counters(const tdg_server_t *server,
                                       tdg_server_counters_t *ret) {
    tdg_server_counters_sized(server, ret, sizeof(*ret));
}

/* Which subscriptions; NULL or 0 in any field is all of them. */
typedef struct tdg_subscription_query {
    const tdg_target_t *target; /* to exactly this URI, template or list */
    const char *client;         /* of clients with this name */
    const char *session;        /* of this legacy session */
    size_t max;                 /* limit of the list [1,000] */
    bool matching;              /* with a URI: also to templates that match it */
    uint32_t timeout_ms;        /* to wait for the workers, in total [10,000] */
    uint64_t stream;            /* of this stream */
} tdg_subscription_query_t;

/* Lists the subscriptions of all workers; `query` NULL is all zero. Stores an array in
 * *ret, new; each entry is an object with
 *
 *     "target"     the URI, the template or the name of the list
 *     "kind"       "uri", "template" or "list"
 *     "state"      "subscribing" (its watcher is not armed yet), "armed" (it is, and the
 *                  acknowledgement has not been written yet) or "subscribed"
 *     "pending"    whether a notification waits for its time or for a slow reader
 *     "options"    those that the client sent, as in "dev.tidings/options"; {}: none
 *     "stream"     a number that no other stream of this server has or will have; all
 *                  subscriptions of a legacy session have the same
 *     "era"        "modern" or "legacy"
 *     "protocol"   the revision, such as "2026-07-28"
 *     "transport"  "http", "sse" (the endpoints of 2024-11-05) or "stdio"
 *     "session"    its id; legacy only. A secret: it is enough to use the session
 *     "address"    of the connection that opened the stream or session, without its port;
 *                  not with stdio
 *     "client"     {"name", "version"} as the client has introduced itself, cut after 128
 *                  bytes each; a client can claim any name. Absent if it has not
 *
 * and perhaps more in later versions. Waits for the workers, which collect some entries
 * at a time and serve their clients in between. Avoid calling this from a callback: the
 * clients of its worker wait meanwhile, and two callbacks that wait for each other's
 * worker do so until the time-out. Returns 0, or
 *
 *   TDG_EENDED     the server does not run, or is stopping, which ends the wait
 *   TDG_EINVAL     `server` or `ret` is NULL
 *   TDG_ENOMEM     out of memory
 *   TDG_ENOTSUP    a field of the query is unknown to the library
 *   TDG_ETIMEDOUT  a worker has not answered in time: a callback on its thread is slow
 *                  or hangs */
TDG_API int tdg_server_subscriptions_sized(tdg_server_t *server,
                                           const tdg_subscription_query_t *query,
                                           size_t query_size, json_t **ret);

static inline int tdg_server_subscriptions(tdg_server_t *server,
                                           const tdg_subscription_query_t *query,
                                           json_t **ret) {
    return tdg_server_subscriptions_sized(server, query, sizeof(*query), ret);
}

#ifdef __cplusplus
}
#endif

#endif

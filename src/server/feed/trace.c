/* SPDX-License-Identifier: MIT */
#include "server/feed/trace.h"

#include <inttypes.h>
#include <string.h>

#include "mcp/request.h"
#include "server/log/log.h"

enum { LOGGED_MAX = 300 }; /* bytes of a URI or template that are logged */

static bool is_on(const tdg_server_t *server, unsigned part) {
    return (server->opts.debug & part) != 0;
}

static bool is_on_for(const tdg__feed_t *feed, unsigned part) {
    return is_on(feed->worker->server, part);
}

/* "a:1", "template t:{x}", "list of tools": what stands before the name, and its length,
 * for "%s%.*s". */
static const char *kind_of(const tdg__target_t *target) {
    static const char *const kinds[] = {
        [TDG__TARGET_URI] = "",
        [TDG__TARGET_TEMPLATE] = "template ",
        [TDG__TARGET_LIST] = "list of ",
    };

    return kinds[target->kind];
}

/* Whole characters: the log takes a line with half of one for one that is not UTF-8. */
static int length_of(const tdg__target_t *target) {
    size_t len = target->len < LOGGED_MAX ? target->len : LOGGED_MAX;

    while (len < target->len && len > 0 && (target->name[len] & 0xC0) == 0x80)
        len--;
    return (int)len;
}

/* ---- Clients ------------------------------------------------------------ */

void tdg__trace_connected(const tdg__feed_t *feed) {
    const tdg__peer_t *peer = &feed->peer;
    const char *name = tdg__peer_name(peer);

    if (!is_on_for(feed, TDG_DEBUG_CLIENTS))
        return;
    tdg__server_log(feed->worker->server, TDG_LOG_DEBUG,
                    "stream %" PRIu64 " (%s): connected; version %s, %s, %s, %s",
                    feed->id, name,
                    peer->client != NULL ? peer->client + strlen(name) + 1 : "unknown",
                    tdg__version_text(peer->version), peer->transport,
                    peer->address != NULL ? peer->address : "no address");
}

static bool count(void *arg, const tdg__sub_info_t *info) {
    (void)info;
    ++*(size_t *)arg;
    return true;
}

void tdg__trace_gone(const tdg__feed_t *feed) {
    size_t subscriptions = 0;

    if (!is_on_for(feed, TDG_DEBUG_CLIENTS))
        return;
    tdg__engine_each_subscription(feed->worker->engine, feed->stream, count,
                                  &subscriptions);
    tdg__server_log(feed->worker->server, TDG_LOG_DEBUG,
                    "stream %" PRIu64 " (%s): disconnected; subscriptions removed: %zu",
                    feed->id, tdg__peer_name(&feed->peer), subscriptions);
}

/* ---- Subscriptions ------------------------------------------------------ */

/* `why` may be NULL. */
static void trace_target(const tdg__feed_t *feed, const char *what,
                         const tdg__target_t *target, const char *why) {
    if (!is_on_for(feed, TDG_DEBUG_SUBSCRIPTIONS))
        return;
    tdg__server_log(feed->worker->server, TDG_LOG_DEBUG,
                    "stream %" PRIu64 " (%s): %s %s%.*s%s%s", feed->id,
                    tdg__peer_name(&feed->peer), what, kind_of(target), length_of(target),
                    target->name, why != NULL ? ": " : "", why != NULL ? why : "");
}

void tdg__trace_subscribed(const tdg__feed_t *feed, const tdg__target_t *target) {
    trace_target(feed, "subscribed to", target, NULL);
}

void tdg__trace_unsubscribed(const tdg__feed_t *feed, const tdg__target_t *target) {
    trace_target(feed, "unsubscribed from", target, NULL);
}

void tdg__trace_refused(const tdg__feed_t *feed, const tdg__target_t *target, int code) {
    trace_target(feed, "refused", target,
                 code == TDG_ENOTSUP ? "not subscribable" : tdg_strerror(code));
}

void tdg__trace_refused_why(const tdg__feed_t *feed, const tdg__target_t *target,
                            const char *why) {
    trace_target(feed, "refused", target, why);
}

void tdg__trace_refused_uris(const tdg__feed_t *feed, const json_t *uris,
                             const char *why) {
    const json_t *uri;
    size_t i;

    if (!is_on_for(feed, TDG_DEBUG_SUBSCRIPTIONS))
        return;
    json_array_foreach(uris, i, uri) {
        tdg__target_t target = tdg__target_uri(json_string_value(uri));

        tdg__trace_refused_why(feed, &target, why);
    }
}

void tdg__trace_settled(const tdg__feed_t *feed, const tdg__target_t *target,
                        int status) {
    if (status == TDG_ETIMEDOUT)
        trace_target(feed, "no longer waits for the watcher of", target, NULL);
    else if (status < 0)
        tdg__trace_refused(feed, target, status);
}

static bool is_about_subscriptions(const char *method) {
    static const tdg__method_t methods[] = {TDG__M_SUBSCRIBE, TDG__M_UNSUBSCRIBE,
                                            TDG__M_LISTEN};

    for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++)
        if (strcmp(method, tdg__method_name(methods[i])) == 0)
            return true;
    return false;
}

void tdg__trace_rejected(tdg_server_t *server, const tdg__feed_t *feed,
                         const tdg__rpc_message_t *message,
                         const tdg__rpc_error_t *error) {
    if (!is_on(server, TDG_DEBUG_SUBSCRIPTIONS) || message->kind != TDG__RPC_REQUEST ||
        !is_about_subscriptions(message->method))
        return;
    if (feed == NULL)
        tdg__server_log(server, TDG_LOG_DEBUG, "refused %s: %s", message->method,
                        error->message);
    else
        tdg__server_log(server, TDG_LOG_DEBUG, "stream %" PRIu64 " (%s): refused %s: %s",
                        feed->id, tdg__peer_name(&feed->peer), message->method,
                        error->message);
}

/* ---- Changes ------------------------------------------------------------ */

void tdg__trace_change(tdg__worker_t *worker, const tdg__change_t *change) {
    const tdg__target_t target = {change->kind, change->name, change->len};
    uint64_t subscribers = tdg__engine_count_subscribers(worker->engine, &target);

    if (subscribers > 0 || worker->index == 0)
        tdg__server_log(worker->server, TDG_LOG_DEBUG,
                        "change %" PRIu64 " of %s%.*s%s: %" PRIu64
                        " subscription%s in worker %u",
                        change->number, kind_of(&target), length_of(&target), target.name,
                        change->deleted ? " (deleted)" : "", subscribers,
                        subscribers == 1 ? "" : "s", worker->index);
}

/* ---- Watchers ----------------------------------------------------------- */

void tdg__trace_watch(tdg_server_t *server, const tdg__target_t *target, const char *what,
                      const char *why) {
    if (is_on(server, TDG_DEBUG_WATCHERS))
        tdg__server_log(server, TDG_LOG_DEBUG, "watcher of %s%.*s: %s%s%s",
                        kind_of(target), length_of(target), target->name, what,
                        why != NULL ? ": " : "", why != NULL ? why : "");
}

void tdg__trace_watch_answered(tdg_server_t *server, const tdg__target_t *target,
                               int code) {
    if (code < 0 && code != TDG_EAGAIN)
        tdg__trace_watch(server, target, "failed", tdg_strerror(code));
    else if (code >= 0)
        tdg__trace_watch(server, target, "armed", NULL);
}

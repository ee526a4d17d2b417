/* SPDX-License-Identifier: MIT */
#include "server/mcp/listen.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "base/rope.h"
#include "server/context/limits.h"
#include "server/feed/trace.h"
#include "server/log/log.h"
#include "server/mcp/target.h"

/* Nothing has been written while it is OPENING, and no notification may be before it is
 * ACKNOWLEDGED. */
enum state { OPENING, WAITING, ACKNOWLEDGED };

struct tdg__listen_stream {
    tdg__feed_t feed;
    const tdg__listen_ops_t *ops;
    void *owner;
    tdg__queue_t link; /* in the owner's list, where it shares its outlet */
    json_t *honoured;  /* URIs as they were asked for, by the key of their target; NULL
                           once acknowledged, as the next */
    json_t *waiting;   /* keys of targets whose watchers have not answered */
    json_t *refused;   /* reasons by the URIs that are left out */
    size_t charged;    /* bytes taken for the acknowledgement among the large answers */
    enum state state;
    bool tools, prompts, resources;
    bool requested_uris, had_cursor, resumed;
    char id[]; /* JSON text */
};

static tdg__listen_stream_t *listen_of(tdg__feed_t *feed) {
    return TDG__RECORD(tdg__listen_stream_t, feed, feed);
}

static tdg__budget_t *answers_of(const tdg__listen_stream_t *listen) {
    return listen->feed.worker->server->answers;
}

/* Frees what only the acknowledgement needs. */
static void forget_requested(tdg__listen_stream_t *listen) {
    if (listen->charged > 0)
        tdg__budget_give(answers_of(listen), listen->charged);
    listen->charged = 0;
    json_decref(listen->honoured);
    json_decref(listen->waiting);
    json_decref(listen->refused);
    listen->honoured = listen->waiting = listen->refused = NULL;
}

static void destroy(tdg__listen_stream_t *listen) {
    tdg__feed_close(&listen->feed);
    if (tdg__queue_has(&listen->link))
        tdg__queue_remove(&listen->link);
    forget_requested(listen);
    tdg__free(listen);
}

/* ---- Acknowledging ------------------------------------------------------ */

/* A large message as a rope of shared bytes, counted as a large answer. Room was taken
 * for about as much; what is there is written, whatever its size. */
static int make_large(tdg__listen_stream_t *listen, const tdg__text_t *framed,
                      tdg__rope_t *ret) {
    tdg__buf_t *buf = tdg__buf_create(framed->data, framed->len);

    if (buf == NULL)
        return TDG_ENOMEM;
    if (tdg__buf_charge(buf, answers_of(listen), listen->charged))
        listen->charged = 0;
    else
        tdg__buf_overcharge(buf, answers_of(listen));
    tdg__rope_init(ret, SIZE_MAX);
    tdg__rope_splice(ret, buf);
    tdg__buf_unref(buf);
    int rv = ret->text.error;
    if (rv < 0)
        tdg__rope_done(ret);
    return rv;
}

/* Whether its owner writes what comes next, since these are the first bytes. */
static bool has_first(const tdg__listen_stream_t *listen) {
    return listen->state == OPENING && listen->ops->write_first != NULL;
}

/* Lets it wait for its reader as large answers do: not copied, and within their rules of
 * pace. */
static int write_large(tdg__listen_stream_t *listen, const tdg__text_t *framed) {
    tdg__rope_t rope;

    int rv = make_large(listen, framed, &rope);
    if (rv < 0)
        return rv;
    if (has_first(listen))
        rv = listen->ops->write_first(listen->owner, NULL, 0);
    if (rv == 0 || rv == TDG_EAGAIN)
        rv = tdg__outlet_piece_rope(listen->feed.outlet, &rope);
    tdg__rope_done(&rope);
    return rv;
}

/* Writes one message in the framing of the listen. Returns 0, TDG_EAGAIN or an error. */
static int write_message(tdg__listen_stream_t *listen, const tdg__text_t *message) {
    tdg__text_t framed;

    if (message->error != 0)
        return message->error;
    tdg__text_init(&framed, SIZE_MAX);
    if (listen->ops->frame == TDG__FRAME_LINE) {
        tdg__text_add(&framed, message->data, message->len);
        tdg__text_put(&framed, "\n");
    } else {
        tdg__put_event(&framed, NULL, NULL, message->data, message->len);
    }
    int rv = framed.error;
    if (rv == 0 && framed.len > TDG__SMALL_ANSWER)
        rv = write_large(listen, &framed);
    else if (rv == 0 && has_first(listen))
        rv = listen->ops->write_first(listen->owner, framed.data, framed.len);
    else if (rv == 0)
        rv = tdg__outlet_piece(listen->feed.outlet, framed.data, framed.len);
    tdg__text_done(&framed);
    return rv;
}

/* Frees it, and notifies its owner. */
static void end(tdg__listen_stream_t *listen, bool broken) {
    const tdg__listen_ops_t *ops = listen->ops;
    void *owner = listen->owner;

    destroy(listen);
    ops->over(owner, broken);
}

/* The URIs that are honoured; new. NULL: none was asked for, or memory is out. */
static json_t *honoured_uris(const tdg__listen_stream_t *listen) {
    json_t *uris = listen->requested_uris ? json_array() : NULL;
    const char *name;
    json_t *uri;

    json_object_foreach(listen->honoured, name, uri) {
        if (json_array_append(uris, uri) != 0) {
            json_decref(uris);
            return NULL;
        }
    }
    return uris;
}

/* All watchers have answered. From here on notifications may follow: they go by the same
 * outlet, behind the acknowledgement. */
static void acknowledge(tdg__listen_stream_t *listen) {
    assert(listen->state != ACKNOWLEDGED && json_object_size(listen->waiting) == 0);
    tdg__cursor_t cursor = tdg__feed_cursor(&listen->feed);
    json_t *uris = honoured_uris(listen);
    tdg__text_t text;
    tdg__ack_t ack = {
        .subscription = listen->id,
        .tools = listen->tools,
        .prompts = listen->prompts,
        .resources = listen->resources,
        .uris = uris,
        .refused = listen->refused,
        .epoch = cursor.epoch,
        .number = cursor.number,
        .had_cursor = listen->had_cursor,
        .resumed = listen->resumed,
        .keepalive_ms = listen->ops->has_keepalive
                            ? tdg__options_keepalive(&listen->feed.worker->server->opts)
                            : 0,
    };

    tdg__text_init(&text, SIZE_MAX);
    tdg__put_acknowledged(&text, &ack);
    int rv = listen->requested_uris && uris == NULL ? TDG_ENOMEM
                                                    : write_message(listen, &text);
    tdg__text_done(&text);
    json_decref(uris);
    if (rv < 0 && rv != TDG_EAGAIN) {
        end(listen, true);
        return;
    }

    forget_requested(listen);
    listen->state = ACKNOWLEDGED;
    tdg__engine_acknowledge(listen->feed.worker->engine, listen->feed.stream, NULL);
    tdg__feed_attach(&listen->feed, listen->feed.outlet);
}

/* ---- Subscribing -------------------------------------------------------- */

/* One text per target: its kind and its name. */
struct key {
    char text[1 + TDG__ENTRY_MAX_KEY + 1];
};

static const char *key_of(const tdg__target_t *target, struct key *room) {
    assert(target->len <= TDG__ENTRY_MAX_KEY);
    room->text[0] = (char)('0' + target->kind);
    memcpy(room->text + 1, target->name, target->len);
    room->text[1 + target->len] = '\0';
    return room->text;
}

/* Notes something for a target. Returns 0 or TDG_ENOMEM. */
static int note(json_t *targets, const tdg__target_t *target, json_t *value) {
    struct key room;

    return json_object_set(targets, key_of(target, &room), value) == 0 ? 0 : TDG_ENOMEM;
}

static void forget(json_t *targets, const tdg__target_t *target) {
    struct key room;

    json_object_del(targets, key_of(target, &room));
}

/* The URI by which an honoured target was asked for; NULL: it is not among them. */
static const char *honoured_as(const tdg__listen_stream_t *listen,
                               const tdg__target_t *target) {
    struct key room;

    return json_string_value(json_object_get(listen->honoured, key_of(target, &room)));
}

/* The subscriptions that a listen requests, with its wishes. */
struct requested {
    tdg__sub_opts_t opts;
    int filter_status; /* what is wrong with the filter, for every URI; 0: nothing */
    json_t *fresh; /* an object whose keys are URIs that the cursor does not hold for, or
                      NULL */
};

/* Of the wishes only those about what was missed are for lists, the cursor unless it does
 * not hold (`fresh`). */
static int honour_list(tdg__listen_stream_t *listen, tdg__target_t list, bool fresh,
                       const struct requested *requested, bool *ret) {
    tdg__sub_opts_t opts = {.cursor = requested->opts.cursor,
                            .since_ms = requested->opts.since_ms};
    tdg__subscribed_t subscribed;

    opts.has_cursor = requested->opts.has_cursor && !fresh;
    if (tdg__feed_subscribe(&listen->feed, &list, &opts, &subscribed) < 0)
        return 0;
    tdg__trace_subscribed(&listen->feed, &list);
    *ret = true;
    listen->resumed &= subscribed.resumed;
    return subscribed.state == TDG__SUBSCRIBING
               ? note(listen->waiting, &list, json_null())
               : 0;
}

/* Leaves out a URI, and notes why. A resource that the caller may not read is unknown to
 * it. */
static int leave_out_uri(tdg__listen_stream_t *listen, const char *uri, int code) {
    json_t *reason = json_string(tdg__fault_reason(tdg__subscribe_fault(code)));

    return json_object_set_new(listen->refused, uri, reason) == 0 ? 0 : TDG_ENOMEM;
}

/* Subscribes to one URI, or leaves it out. Returns 0, or an error that is the client's
 * fault or ours. */
static int honour_uri(tdg__listen_stream_t *listen, json_t *uri,
                      const struct requested *requested) {
    tdg__worker_t *worker = listen->feed.worker;
    tdg__engine_t *engine = worker->engine;
    tdg__sub_opts_t opts = requested->opts;
    tdg__subscribed_t subscribed = {TDG__NOT_SUBSCRIBED, true};
    tdg__resolved_t resolved;

    int rv = tdg__resolve(worker->server, json_string_value(uri), &resolved);
    if (rv < 0) {
        tdg__trace_refused(&listen->feed, &resolved.target, rv);
        return rv == TDG_ENOMEM ? rv : leave_out_uri(listen, json_string_value(uri), rv);
    }

    opts.has_cursor = requested->opts.has_cursor &&
                      json_object_get(requested->fresh, json_string_value(uri)) == NULL;
    bool again = tdg__engine_state(engine, listen->feed.stream, &resolved.target) !=
                 TDG__NOT_SUBSCRIBED;
    if (!again && requested->filter_status < 0) {
        rv = requested->filter_status;
        tdg__trace_refused(&listen->feed, &resolved.target, rv);
    } else if (!again) {
        rv = tdg__feed_subscribe(&listen->feed, &resolved.target, &opts, &subscribed);
    }
    if (!again && rv == 0)
        tdg__trace_subscribed(&listen->feed, &resolved.target);
    if (rv == TDG_ESUBSCRIPTIONS || rv == TDG_ETEMPLATES || rv == TDG_ETOTAL)
        tdg__server_log_event(worker->server, TDG__EVENT_SUBSCRIPTION_REFUSED,
                              tdg_strerror(rv));
    if (rv == 0 && subscribed.state == TDG__SUBSCRIBING)
        rv = note(listen->waiting, &resolved.target, json_null());
    if (rv == 0 && !again)
        rv = note(listen->honoured, &resolved.target, uri);
    tdg__resolved_done(&resolved);
    listen->resumed &= subscribed.resumed;
    if (rv < 0 && rv != TDG_ENOMEM && !tdg__wishes_blamed(rv, opts.error, NULL))
        rv = leave_out_uri(listen, json_string_value(uri), rv);
    return rv;
}

/* Of the lists those that the server advertises. */
static int honour_lists(tdg__listen_stream_t *listen, const tdg__mcp_request_t *request,
                        const struct requested *requested) {
    const tdg__listen_filter_t *wanted = &request->listen,
                               *fresh = &request->wishes.fresh;
    tdg__server_info_t info;
    int rv = 0;

    tdg__server_describe(listen->feed.worker->server, &info);
    const struct {
        const char *name;
        bool wanted, offered, fresh;
        bool *honoured;
    } lists[] = {
        {"tools", wanted->tools, info.tools, fresh->tools, &listen->tools},
        {"prompts", wanted->prompts, info.prompts, fresh->prompts, &listen->prompts},
        {"resources", wanted->resources, info.resources, fresh->resources,
         &listen->resources},
    };
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]) && rv == 0; i++) {
        tdg__target_t list = tdg__target_list(lists[i].name);

        if (!lists[i].wanted)
            continue;
        if (info.list_changed && lists[i].offered)
            rv = honour_list(listen, list, lists[i].fresh, requested, lists[i].honoured);
        else
            tdg__trace_refused_why(&listen->feed, &list,
                                   info.list_changed ? "the server has none"
                                                     : "list changes are off");
    }
    return rv;
}

static int honour_requested(tdg__listen_stream_t *listen,
                            const tdg__mcp_request_t *request,
                            const struct requested *requested) {
    const json_t *uris = request->listen.uris;
    tdg__server_info_t info;
    json_t *uri;
    size_t i;

    int rv = honour_lists(listen, request, requested);
    tdg__server_describe(listen->feed.worker->server, &info);
    if (rv == 0 && !info.subscribe)
        tdg__trace_refused_uris(&listen->feed, uris, "subscriptions are off");
    if (rv < 0 || uris == NULL || !info.subscribe)
        return rv;
    listen->requested_uris = true;
    json_array_foreach(uris, i, uri) {
        rv = honour_uri(listen, uri, requested);
        if (rv < 0)
            break;
    }
    return rv;
}

/* The names in an array, as keys: there may be as many of them as URIs. */
static int make_set(const json_t *names, json_t **ret) {
    const json_t *name;
    size_t i;

    *ret = NULL;
    if (json_array_size(names) == 0)
        return 0;
    *ret = json_object();
    json_array_foreach(names, i, name) {
        if (json_object_set_new(*ret, json_string_value(name), json_true()) < 0)
            return TDG_ENOMEM;
    }
    return *ret != NULL ? 0 : TDG_ENOMEM;
}

static int honour_all(tdg__listen_stream_t *listen, const tdg__mcp_request_t *request,
                      tdg__parse_error_t *why) {
    tdg__hub_t *hub = listen->feed.worker->server->hub;
    tdg__engine_t *engine = listen->feed.worker->engine;
    struct requested requested;

    listen->had_cursor = request->wishes.cursor != NULL;
    tdg__wishes_to_opts(&request->wishes, why, &requested.opts);
    requested.opts.cursor = tdg__hub_known_cursor(hub, requested.opts.cursor);
    listen->resumed = requested.opts.cursor.epoch == tdg__hub_epoch(hub);
    /* Parsed once, whatever the number of URIs: a filter may cost as much as hundreds. */
    requested.filter_status = tdg__engine_filter_get(engine, requested.opts.filter, why,
                                                     &requested.opts.shared);
    requested.opts.filter = NULL;
    int rv = make_set(request->wishes.fresh.uris, &requested.fresh);
    if (rv == 0)
        rv = honour_requested(listen, request, &requested);
    json_decref(requested.fresh);
    tdg__engine_filter_unref(engine, requested.opts.shared);
    return rv;
}

/* ---- Its events --------------------------------------------------------- */

static bool *list_flag(tdg__listen_stream_t *listen, const tdg__target_t *list) {
    return list->name[0] == 't'   ? &listen->tools
           : list->name[0] == 'p' ? &listen->prompts
                                  : &listen->resources;
}

/* A target whose watcher could not be armed is not honoured. Where memory is out, the
 * reason is missing. */
static void leave_out(tdg__listen_stream_t *listen, const tdg__target_t *target,
                      int code) {
    if (target->kind == TDG__TARGET_LIST) {
        *list_flag(listen, target) = false;
        return;
    }
    const char *uri = honoured_as(listen, target);

    if (uri != NULL)
        leave_out_uri(listen, uri, code);
    forget(listen->honoured, target);
}

/* A subscription may settle twice: first its watcher takes too long, which counts as
 * armed, later it fails. Before the acknowledgement such a target is left out; after it
 * the listen ends, so that the client reconnects and gets a new acknowledgement. */
static void feed_settled(tdg__feed_t *feed, const tdg__target_t *target, int status,
                         bool resumed) {
    tdg__listen_stream_t *listen = listen_of(feed);
    bool failed = status < 0 && status != TDG_ETIMEDOUT;

    if (listen->state == ACKNOWLEDGED) {
        if (failed)
            tdg__listen_complete(listen);
        return;
    }
    listen->resumed &= resumed;
    forget(listen->waiting, target);
    if (failed)
        leave_out(listen, target, status);
    if (json_object_size(listen->waiting) == 0 && listen->state == WAITING)
        acknowledge(listen);
}

static void feed_ended(tdg__feed_t *feed, int reason) {
    (void)reason;
    tdg__listen_complete(listen_of(feed));
}

static void feed_failed(tdg__feed_t *feed) {
    end(listen_of(feed), true);
}

static const tdg__feed_ops_t feed_ops = {feed_ended, feed_settled, feed_failed};

void tdg__listen_drained(tdg__listen_stream_t *listen) {
    tdg__feed_drained(&listen->feed);
}

bool tdg__listen_has_more(const tdg__listen_stream_t *listen) {
    return tdg__feed_has_more(&listen->feed);
}

/* The result that completes a listen; where it was not acknowledged yet, the request has
 * failed, since nothing may come before the acknowledgement. */
static void put_completion(tdg__listen_stream_t *listen, tdg__text_t *text) {
    tdg__rpc_error_t error = {0};

    if (listen->state == ACKNOWLEDGED) {
        tdg__put_listen_complete(text, listen->id, listen->feed.worker->info);
        return;
    }
    tdg__rpc_error_set(&error, TDG__RPC_INTERNAL, NULL, "%s",
                       tdg__server_stopping(listen->feed.worker->server)
                           ? "The server is stopping"
                           : "The stream has ended before it was acknowledged");
    tdg__rpc_put_error(text, listen->id, &error);
    tdg__rpc_error_done(&error);
}

void tdg__listen_complete(tdg__listen_stream_t *listen) {
    tdg__text_t text;

    tdg__text_init(&text, SIZE_MAX);
    put_completion(listen, &text);
    int rv = write_message(listen, &text);
    if (listen->ops->shares_outlet && listen->state == ACKNOWLEDGED &&
        (rv == 0 || rv == TDG_EAGAIN)) {
        tdg__text_clear(&text);
        tdg__put_cancelled(&text, listen->id, "the server has ended the subscription");
        write_message(listen, &text);
    }
    tdg__text_done(&text);
    end(listen, false);
}

void tdg__listen_cancel(tdg__listen_stream_t *listen) {
    destroy(listen);
}

/* ---- Opening ------------------------------------------------------------ */

static tdg__listen_stream_t *create(const tdg__listen_opts_t *opts,
                                    const tdg__mcp_request_t *request) {
    size_t len = strlen(request->id);
    tdg__listen_stream_t *listen = tdg__calloc(1, sizeof(*listen) + len + 1);
    if (listen == NULL)
        return NULL;

    memcpy(listen->id, request->id, len);
    listen->ops = opts->ops;
    listen->owner = opts->owner;
    listen->honoured = json_object();
    listen->waiting = json_object();
    listen->refused = json_object();
    if (listen->honoured == NULL || listen->waiting == NULL || listen->refused == NULL ||
        tdg__feed_open(&listen->feed, opts->worker, &feed_ops) < 0) {
        forget_requested(listen);
        tdg__free(listen);
        return NULL;
    }
    listen->feed.subscription = listen->id;
    listen->feed.subscription_len = (uint32_t)len;
    listen->feed.frame = opts->ops->frame;
    listen->feed.form = TDG__FORM_STANDARD; /* the erlmcp dialect is a legacy one */
    listen->feed.peer = (tdg__peer_t){
        .transport = opts->ops->transport,
        .version = request->version,
    };
    if (opts->caller != NULL)
        tdg__peer_set_address(&listen->feed.peer, opts->caller);
    tdg__peer_set_client(&listen->feed.peer, request->client_name,
                         request->client_version);
    tdg__trace_connected(&listen->feed);
    return listen;
}

static void begin(tdg__listen_stream_t *listen, const tdg__listen_opts_t *opts) {
    assert(listen->state == OPENING);
    assert(opts->outlet != NULL && opts->ops->shares_outlet == (opts->list != NULL));
    if (opts->list != NULL)
        tdg__queue_prepend(opts->list, &listen->link);
    if (opts->ops->begun != NULL)
        opts->ops->begun(opts->owner, listen);
    tdg__feed_attach(&listen->feed, opts->outlet);
}

/* Takes room for the acknowledgement, where it will be a large answer: it repeats every
 * URI, and until it is written the listen keeps them three times (as asked for, by their
 * targets, by what waits). False: there is none. */
static bool take_room(tdg__listen_stream_t *listen, const tdg__mcp_request_t *request) {
    enum { COPIES = 3, BESIDE_URI = sizeof("\"\":\"invalid_uri_format\",") - 1 };
    const json_t *uri;
    size_t i, bytes = 0;

    json_array_foreach(request->listen.uris, i, uri) bytes +=
        json_string_length(uri) + BESIDE_URI;
    if (bytes <= TDG__SMALL_ANSWER)
        return true;
    if (!tdg__budget_take(answers_of(listen), COPIES * bytes))
        return false;
    listen->charged = COPIES * bytes;
    return true;
}

void tdg__listen_refuse(tdg__rpc_error_t *error) {
    tdg__rpc_error_set(error, TDG__RPC_INTERNAL, NULL,
                       "The server cannot take one more stream");
}

int tdg__listen_open(const tdg__listen_opts_t *opts, const tdg__mcp_request_t *request,
                     tdg__rpc_error_t *error) {
    tdg__parse_error_t why = {0};
    tdg__listen_stream_t *listen = create(opts, request);

    if (listen == NULL) {
        tdg__listen_refuse(error);
        return TDG_EINVAL;
    }

    if (!take_room(listen, request)) {
        tdg__server_log_event(opts->worker->server, TDG__EVENT_ANSWER_REFUSED, NULL);
        tdg__busy_error_set(error, NULL, NULL);
        destroy(listen);
        return TDG_EINVAL;
    }
    int rv = honour_all(listen, request, &why);
    if (rv < 0) {
        if (!tdg__wishes_blamed(rv, &why, error))
            tdg__rpc_error_set(error, TDG__RPC_INTERNAL, NULL, "%s", tdg_strerror(rv));
        destroy(listen);
        return TDG_EINVAL;
    }
    begin(listen, opts);
    if (json_object_size(listen->waiting) == 0) {
        acknowledge(listen);
        return 0;
    }
    /* The first byte leaves at once, so that nobody on the way gives up. */
    if (has_first(listen))
        listen->ops->write_first(listen->owner, ":\n\n", 3);
    listen->state = WAITING;
    return 0;
}

/* ---- The listens of one owner ------------------------------------------- */

static tdg__listen_stream_t *listen_at(tdg__queue_t *link) {
    return TDG__RECORD(tdg__listen_stream_t, link, link);
}

tdg__listen_stream_t *tdg__listen_find(const tdg__queue_t *listens, const char *id) {
    for (tdg__queue_t *at = listens->next; at != listens; at = at->next)
        if (strcmp(listen_at(at)->id, id) == 0)
            return listen_at(at);
    return NULL;
}

size_t tdg__listen_count(const tdg__queue_t *listens) {
    size_t count = 0;

    for (const tdg__queue_t *at = listens->next; at != listens; at = at->next)
        count++;
    return count;
}

void tdg__listens_finish(const tdg__queue_t *listens) {
    tdg__queue_t *next;

    for (tdg__queue_t *at = listens->next; at != listens; at = next) {
        next = at->next;
        if (!tdg__feed_has_more(&listen_at(at)->feed))
            tdg__listen_complete(listen_at(at));
    }
}

void tdg__listens_drained(const tdg__queue_t *listens) {
    for (tdg__queue_t *at = listens->next; at != listens; at = at->next)
        tdg__feed_drained(&listen_at(at)->feed);
}

void tdg__listens_cancel(const tdg__queue_t *listens) {
    while (!tdg__queue_is_empty(listens))
        tdg__listen_cancel(listen_at(listens->next));
}

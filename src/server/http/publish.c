/* SPDX-License-Identifier: MIT
 *
 * A job is one request in progress: from the worker that read it to the thread of the
 * store, and from there, through all workers, to its own worker again. Only one thread
 * has it at a time. */
#include "server/http/publish.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/text.h"
#include "server/context/matches.h"
#include "server/http/route.h"
#include "server/hub/hub.h"

enum { MAX_KEYS = 64, MAX_WHY = 160 };

/* A key is compared by what a keyed hash makes of it, under secrets of this process: how
 * long that takes tells nothing of how much of a guess was right. */
struct key {
    uint64_t hashes[2];
    size_t len;
    char *text;
};

struct publish {
    tdg_server_t *server;
    tdg__publish_store_t store;
    bool has_store;
    tdg__hash_key_t secrets[2];
    size_t key_count;
    struct key keys[MAX_KEYS];
};

struct job {
    const struct publish *publish;
    tdg__route_request_t *request;
    tdg__publish_list_t list;
    size_t checked; /* so many of them, by the store */
    tdg__change_t **changes;
};

/* ---- Keys --------------------------------------------------------------- */

static void hash_key(const struct publish *publish, const char *text, size_t len,
                     uint64_t ret[2]) {
    for (int i = 0; i < 2; i++)
        ret[i] = tdg__hash(&publish->secrets[i], text, len);
}

/* All are looked at, whichever is right. Where the hashes are equal, so are the keys but
 * for a miracle; that is excluded too. */
static bool is_key(const struct publish *publish, const char *text) {
    size_t len = strlen(text);
    uint64_t hashes[2];
    bool right = false;

    hash_key(publish, text, len, hashes);
    for (size_t i = 0; i < publish->key_count; i++) {
        const struct key *key = &publish->keys[i];
        uint64_t differs = (hashes[0] ^ key->hashes[0]) | (hashes[1] ^ key->hashes[1]);

        if (differs == 0)
            right = key->len == len && memcmp(key->text, text, len) == 0;
    }
    return right;
}

static bool is_authorised(const struct publish *publish,
                          const tdg__http_request_t *http) {
    const char *value = tdg__http_field(http, "authorization");

    if (value == NULL || strncasecmp(value, "Bearer ", 7) != 0)
        return false;
    value += 7;
    return is_key(publish, value + strspn(value, " "));
}

/* ---- Refusing ----------------------------------------------------------- */

static const char media_type[] = "application/json";

/* Writes a string with quotes and escapes, and returns its end. */
static char *put_quoted(char *at, const char *string) {
    *at++ = '"';
    for (; *string != '\0'; string++)
        at += tdg__json_escape(at, *string);
    *at++ = '"';
    return at;
}

/* Without memory, since the lack of it is one of the reasons. */
static void refuse(tdg__route_request_t *request, const tdg__publish_error_t *error) {
    char text[TDG__JSON_ESCAPE_MAX * (sizeof(error->message) + sizeof(error->field)) +
              100];
    char *at = stpcpy(text, "{\"error\":{\"message\":");

    at = put_quoted(at, error->message);
    if (error->has_index)
        at += sprintf(at, ",\"index\":%zu", error->index);
    if (error->field[0] != '\0')
        at = put_quoted(stpcpy(at, ",\"field\":"), error->field);
    at = stpcpy(at, "}}");
    tdg__route_reply(request, error->status, media_type,
                     error->status == 503 ? "Retry-After: 1\r\n" : NULL, text,
                     (size_t)(at - text));
}

static void refuse_plainly(tdg__route_request_t *request, int status,
                           const char *message) {
    tdg__publish_error_t error;

    tdg__publish_fail(&error, status, SIZE_MAX, NULL, "%s", message);
    refuse(request, &error);
}

/* ---- Jobs --------------------------------------------------------------- */

static void destroy_job(struct job *job) {
    for (size_t i = 0; job->changes != NULL && i < job->list.count; i++)
        tdg__change_unref(job->changes[i]);
    tdg__free(job->changes);
    tdg__publish_list_done(&job->list);
    tdg__free(job);
}

/* The request is gone afterwards, and with it what holds `publish`. */
static void end_job(struct job *job, const tdg__publish_error_t *error) {
    const struct publish *publish = job->publish;

    for (size_t i = 0; i < job->checked; i++)
        publish->store.abandon(publish->store.user, &job->list.items[i]);
    refuse(job->request, error);
    destroy_job(job);
}

static void end_job_plainly(struct job *job, int status, const char *message) {
    tdg__publish_error_t error;

    tdg__publish_fail(&error, status, SIZE_MAX, NULL, "%s", message);
    end_job(job, &error);
}

static struct job *create_job(const struct publish *publish,
                              tdg__route_request_t *request, tdg__publish_list_t *list) {
    struct job *job = tdg__calloc(1, sizeof(*job));

    if (job == NULL)
        return NULL;
    job->changes = tdg__calloc(list->count, sizeof(tdg__change_t *));
    if (job->changes == NULL) {
        tdg__free(job);
        return NULL;
    }
    job->publish = publish;
    job->request = request;
    job->list = *list;
    return job;
}

/* ---- Answering ---------------------------------------------------------- */

static void put_change(tdg__text_t *text, const tdg__publish_item_t *item,
                       const tdg__change_t *change, uint64_t subscriptions) {
    tdg__text_put(text, "{\"uri\":");
    tdg__text_put_quoted(text, change->name, change->len);
    tdg__text_put(text, ",\"number\":");
    tdg__text_put_u64(text, change->number);
    tdg__text_put(text, ",\"version\":"); /* the number is the version */
    tdg__text_put_u64(text, change->number);
    tdg__text_put(text, ",\"subscriptions\":");
    tdg__text_put_u64(text, subscriptions);
    tdg__text_put(text, item->unserved ? ",\"served\":false}" : "}");
}

static const char published_unanswered[] =
    "The change was published, but there is no memory for the response";

/* Published is published: without memory for the answer the caller at least hears that.
 */
static void answer(void *arg, const tdg__matches_t *counts, size_t count) {
    struct job *job = arg;
    tdg__text_t text;

    tdg__text_init(&text, SIZE_MAX);
    tdg__text_put(&text, "{\"changes\":[");
    for (size_t i = 0; i < count; i++) {
        if (i > 0)
            tdg__text_put(&text, ",");
        put_change(&text, &job->list.items[i], job->changes[i], counts[i]);
    }
    tdg__text_put(&text, "]}");
    if (text.error == 0)
        tdg__route_reply(job->request, 200, media_type, NULL, text.data, text.len);
    else
        refuse_plainly(job->request, 500, published_unanswered);
    tdg__text_done(&text);
    destroy_job(job);
}

/* ---- Publishing --------------------------------------------------------- */

static const struct {
    int code, status;
    const char *field, *message;
} failures[] = {
    {TDG_ENOTFOUND, 409, "content", "content is not accepted for this URI"},
    {TDG_ETOOLARGE, 413, "content", "content is too large"},
    {TDG_ETOTAL, 413, "content",
     "no room for content: the limit of stored content is reached"},
    {TDG_EENDED, 503, "content", "content can no longer be stored"},
    {TDG_EURILEN, 400, "uri", "uri is too long"},
    {TDG_EMETADATA, 400, "metadata", "metadata is too large"},
    {TDG_EINVAL, 422, NULL, "The change cannot be published"},
    {TDG_ENOMEM, 503, NULL, "Out of memory"},
    {TDG_EUNREACHABLE, 503, NULL, "content cannot be stored now"},
};

/* What is wrong with one of them; `why` is the store's word, or "". */
static void end_job_at(struct job *job, size_t index, int code, const char *why) {
    tdg__publish_error_t error;
    size_t i = 0;

    while (i + 1 < sizeof(failures) / sizeof(failures[0]) && failures[i].code != code)
        i++;
    bool known = failures[i].code == code;
    tdg__publish_fail(&error, known ? failures[i].status : 422, index,
                      known ? failures[i].field : NULL, "%s",
                      why[0] != '\0' ? why
                      : known        ? failures[i].message
                                     : tdg_strerror(code));
    end_job(job, &error);
}

/* False: the job has ended. */
static bool check_all(struct job *job) {
    const tdg__publish_store_t *store = &job->publish->store;

    for (size_t i = 0; i < job->list.count; i++) {
        tdg__publish_item_t *item = &job->list.items[i];
        char why[MAX_WHY] = "";
        int rv = 0;

        if (job->publish->has_store)
            rv = store->check(store->user, item, why);
        else if (item->content != NULL)
            rv = TDG_ENOTFOUND;
        if (rv < 0) {
            why[MAX_WHY - 1] = '\0';
            end_job_at(job, i, rv, why);
            return false;
        }
        job->checked += job->publish->has_store;
    }
    return true;
}

static bool prepare_all(struct job *job) {
    tdg__hub_t *hub = job->publish->server->hub;

    for (size_t i = 0; i < job->list.count; i++) {
        const tdg__publish_item_t *item = &job->list.items[i];
        tdg__target_t target = tdg__target_uri(item->uri);
        int rv = tdg__hub_prepare(hub, &target, item->metadata, item->deleted,
                                  &job->changes[i]);

        if (rv < 0) {
            end_job_at(job, i, rv, "");
            return false;
        }
    }
    /* Asked now, since what the store has kept it cannot give back. */
    if (tdg__hub_has_room(hub, job->list.count) < 0) {
        end_job_plainly(job, 503, "The server is busy; retry");
        return false;
    }
    return true;
}

static void commit_all(struct job *job) {
    const tdg__publish_store_t *store = &job->publish->store;

    for (size_t i = 0; i < job->checked; i++)
        store->commit(store->user, &job->list.items[i]);
    job->checked = 0; /* nothing to abandon any more */
}

/* On the store's thread: so whoever comes later there also has the later number. */
static void work(void *arg, bool here) {
    struct job *job = arg;

    if (!here) {
        end_job_plainly(job, 503, "The server is stopping");
        return;
    }
    if (!check_all(job) || !prepare_all(job))
        return;
    commit_all(job);
    if (tdg__hub_publish_all(job->publish->server->hub, job->changes, job->list.count) <
        0)
        end_job_plainly(job, 503,
                        "Content was stored, but the server is too busy to notify "
                        "subscribers; publish it again");
    else if (tdg__server_count_matches(job->publish->server, job->changes,
                                       job->list.count, answer, job) < 0)
        end_job_plainly(job, 500, published_unanswered);
}

/* ---- The route ---------------------------------------------------------- */

#define REFUSAL(text) "{\"error\":{\"message\":\"" text "\"}}"

static const tdg__route_refusal_t needs_key = {
    401, media_type, "WWW-Authenticate: Bearer realm=\"publish\"\r\n",
    REFUSAL("Publishing needs the publish key: Authorization: Bearer KEY")};
static const tdg__route_refusal_t needs_json = {
    415, media_type, NULL, REFUSAL("The Content-Type must be application/json")};

/* What is wrong with a request by its head; NULL: nothing. */
static const tdg__route_refusal_t *judge(const struct publish *publish,
                                         const tdg__http_request_t *http) {
    if (!is_authorised(publish, http))
        return &needs_key;
    return tdg__http_is_json(tdg__http_field(http, "content-type")) ? NULL : &needs_json;
}

/* False: it has been refused. */
static bool read_request(const struct publish *publish, tdg__route_request_t *request,
                         tdg__publish_list_t *ret) {
    const tdg__http_request_t *http = tdg__route_http(request);
    const tdg__route_refusal_t *why = judge(publish, http);
    tdg__publish_error_t error;

    if (why != NULL) {
        tdg__route_reply(request, why->status, why->content_type, why->fields, why->body,
                         strlen(why->body));
        return false;
    }

    int rv = tdg__publish_read(http->body, http->body_len, ret, &error);
    if (rv == TDG_ENOMEM)
        refuse_plainly(request, 503, "Out of memory");
    else if (rv < 0)
        refuse(request, &error);
    return rv == 0;
}

/* Who has no key need not send a body. */
static bool admit(void *user, const tdg__http_request_t *head, const char *peer,
                  tdg__route_refusal_t *ret_why) {
    const tdg__route_refusal_t *why = judge(user, head);

    (void)peer;
    if (why != NULL)
        *ret_why = *why;
    return why == NULL;
}

static void on_publish(void *user, tdg__route_request_t *request) {
    const struct publish *publish = user;
    tdg__publish_list_t list = {0};

    if (!read_request(publish, request, &list))
        return;
    struct job *job = create_job(publish, request, &list);
    if (job == NULL) {
        tdg__publish_list_done(&list);
        refuse_plainly(request, 503, "Out of memory");
    } else if (publish->has_store) {
        publish->store.enter(publish->store.user, work, job);
    } else {
        work(job, true);
    }
}

/* ---- Switching it on ---------------------------------------------------- */

static void destroy(void *user) {
    struct publish *publish = user;

    for (size_t i = 0; publish != NULL && i < publish->key_count; i++)
        tdg__free(publish->keys[i].text);
    tdg__free(publish);
}

static int add_key(struct publish *publish, const char *text) {
    if (text[0] == '\0' || publish->key_count == MAX_KEYS)
        return TDG_EINVAL;

    struct key *key = &publish->keys[publish->key_count];
    key->len = strlen(text);
    key->text = tdg__strdup(text);
    if (key->text == NULL)
        return TDG_ENOMEM;
    hash_key(publish, text, key->len, key->hashes);
    publish->key_count++;
    return 0;
}

static int create(tdg_server_t *server, const tdg__publish_opts_t *opts,
                  struct publish **ret) {
    struct publish *publish = tdg__calloc(1, sizeof(*publish));

    if (publish == NULL)
        return TDG_ENOMEM;
    publish->server = server;
    publish->has_store = opts->store != NULL;
    if (publish->has_store)
        publish->store = *opts->store;
    int rv = tdg__random(publish->secrets, sizeof(publish->secrets));
    for (size_t i = 0; rv == 0 && opts->keys[i] != NULL; i++)
        rv = add_key(publish, opts->keys[i]);
    if (rv < 0)
        destroy(publish);
    else
        *ret = publish;
    return rv;
}

int tdg__server_enable_publish(tdg_server_t *server, const tdg__publish_opts_t *opts) {
    tdg__route_t route = {.path = "/publish",
                          .methods = 1u << TDG__HTTP_POST,
                          .max_body_bytes = TDG__PUBLISH_MAX_BYTES,
                          .timeout_ms = opts->timeout_ms,
                          .admit = admit,
                          .handler = on_publish,
                          .release = destroy};
    struct publish *publish = NULL;

    if (opts->keys == NULL || opts->keys[0] == NULL) {
        tdg__server_unroute(server, route.path);
        return 0;
    }
    int rv = create(server, opts, &publish);
    if (rv < 0)
        return rv;
    route.user = publish;
    rv = tdg__server_route(server, &route);
    if (rv < 0)
        destroy(publish);
    return rv;
}

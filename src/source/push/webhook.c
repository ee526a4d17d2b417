/* SPDX-License-Identifier: MIT
 *
 * An endpoint that others call when something has happened: the body of the request
 * becomes the content, or only signals a change. The caller is authenticated by a
 * signature over the body, as GitHub makes it, or by a secret in a header.
 *
 * A delivery that arrives twice (GitHub's X-GitHub-Delivery) is answered and not
 * published again. The signature does not cover that id, so this helps against
 * repetitions, not against replayed requests. */
#include "source/push/webhook.h"

#include <string.h>
#include <strings.h>

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/text.h"

enum {
    DIGEST = 32,
    DELIVERIES = 1000, /* remembered */
    MAX_PATH = 200,
    MAX_SHOWN = 128,  /* of a header field that becomes metadata */
    QUIET_MS = 60000, /* between two lines of the log about callers that are refused */
};

enum content { BODY, SIGNAL };

struct delivery {
    uint64_t hashes[2];
};

struct webhook {
    tdg__source_t source;
    char *path, *secret;
    int proof, content; /* tdg__hook_proof_t */
    bool open;
    char **events;

    tdg__hash_key_t keys[2];                /* of the deliveries */
    struct delivery deliveries[DELIVERIES]; /* here, so that opening needs no memory */
    size_t delivery_count, next_delivery;

    uint64_t refused_at; /* when it was last logged, by the loop's clock */
    uint64_t refused;    /* since then */
};

static const char *const signatures[] = {"github", "bearer", "none", NULL}; /* proofs */
static const char *const contents[] = {"body", "signal", NULL};

#define AT(field) offsetof(struct webhook, field)

static const tdg__option_t options[] = {
    TDG__OPTION(
        STRING, path, "webhook", .flags = TDG__OPTION_REQUIRED,
        .example = "/hooks/deploys",
        .help =
            "The path of the endpoint, which begins with /hooks/. Others POST to it."),
    TDG__OPTION(STRING, secret, "secret", .flags = TDG__OPTION_SECRET,
                .example = "${DEPLOYS_SECRET}",
                .help =
                    "The secret that callers use. Required unless `open` is true. Keep "
                    "it out of the file: ${NAME} takes it from the environment."),
    TDG__OPTION(CHOICE, proof, "signature", .fallback = "github", .choices = signatures,
                .example = "github",
                .help = "How callers prove that they know the secret: github, an HMAC of "
                        "the body in X-Hub-Signature-256; bearer, the secret itself in "
                        "`Authorization: Bearer`. none requires `open: true`."),
    TDG__OPTION(BOOL, open, "open", .fallback = "false",
                .help = "Accept calls without a secret, from anybody who reaches the "
                        "server."),
    TDG__OPTION(CHOICE, content, "content", .fallback = "body", .choices = contents,
                .example = "body",
                .help =
                    "The effect of a call: its body becomes the content of the "
                    "resource, or it only signals a change, and the content describes "
                    "the last call."),
    TDG__OPTION(
        STRINGS, events, "events", .example = "[push, release]",
        .help =
            "Only calls with one of these in X-GitHub-Event count; others are answered "
            "and ignored. Default: all."),
    {.name = NULL},
};

/* ---- The entry ---------------------------------------------------------- */

/* A path that nobody can read in two ways: no escapes, no empty or dotted segments. */
static bool is_path(const char *path) {
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                "0123456789-._~/";
    size_t len = strlen(path);

    return strncmp(path, "/hooks/", 7) == 0 && len > 7 && len <= MAX_PATH &&
           path[len - 1] != '/' && strspn(path, plain) == len &&
           strstr(path, "//") == NULL && strstr(path, "/.") == NULL;
}

static int check(tdg__source_t *source, const tdg__node_t *node,
                 tdg__problems_t *problems) {
    struct webhook *hook = (struct webhook *)source;
    int rv = 0;

    if (!is_path(hook->path))
        rv = tdg__node_option_problem(
            problems, node, "webhook",
            "a path such as /hooks/deploys was expected: it begins with /hooks/, ends "
            "without a slash, and has letters, digits, - . _ ~ and /");
    if (source->entry.uri != NULL && strchr(source->entry.uri, '{') != NULL)
        rv = tdg__node_option_problem(problems, node, "uri",
                                      "a webhook is one resource; its URI has no {}");
    if (hook->open && hook->secret != NULL)
        rv = tdg__node_option_problem(problems, node, "open",
                                      "`open: true` and `secret` cannot be combined; "
                                      "remove one");
    else if (!hook->open && (hook->secret == NULL || hook->secret[0] == '\0'))
        rv = tdg__node_option_problem(
            problems, node, "secret",
            "the secret is missing; set the one that the callers use, or `open: true`, "
            "which accepts every call");
    if (hook->open && tdg__node_get(node, "signature") == NULL)
        hook->proof = TDG__HOOK_OPEN;
    if (hook->open != (hook->proof == TDG__HOOK_OPEN))
        rv = tdg__node_option_problem(
            problems, node, "signature",
            hook->open ? "`open: true` does not check signatures; remove `signature`, or "
                         "set it to none"
                       : "`none` requires `open: true`");
    return rv;
}

static int open_hook(tdg__source_t *source) {
    struct webhook *hook = (struct webhook *)source;
    int rv = tdg__random(hook->keys, sizeof(hook->keys));

    if (rv < 0)
        tdg__source_log(source, TDG_LOG_ERROR, "cannot start: %s", tdg_strerror(rv));
    return rv;
}

/* ---- Who calls ---------------------------------------------------------- */

static const char *field_of(const tdg__hook_call_t *call, const char *name) {
    return call->field(call->arg, name);
}

static bool read_hex(const char *text, unsigned char ret[DIGEST]) {
    if (strlen(text) != 2 * DIGEST)
        return false;
    for (size_t i = 0; i < DIGEST; i++) {
        int high = tdg__hex_value(text[2 * i]), low = tdg__hex_value(text[2 * i + 1]);

        if (high < 0 || low < 0)
            return false;
        ret[i] = (unsigned char)(high << 4 | low);
    }
    return true;
}

static bool read_signature(const char *text, unsigned char ret[DIGEST]) {
    return text != NULL && strncmp(text, "sha256=", 7) == 0 && read_hex(text + 7, ret);
}

/* Returns 1: right, 0: wrong, or TDG_ENOMEM. What is compared always has the same length,
 * and how long that takes says nothing. */
static int check_github(const struct webhook *hook, const tdg__hook_call_t *call) {
    const char *said = field_of(call, "x-hub-signature-256");
    unsigned char given[DIGEST], right[EVP_MAX_MD_SIZE];
    unsigned len = 0;

    if (!read_signature(said, given))
        return 0;
    if (HMAC(EVP_sha256(), hook->secret, (int)strlen(hook->secret),
             (const unsigned char *)call->body, call->len, right, &len) == NULL ||
        len != DIGEST)
        return TDG_ENOMEM;
    return CRYPTO_memcmp(given, right, DIGEST) == 0;
}

static int hash(const char *text, unsigned char ret[DIGEST]) {
    unsigned char digest[EVP_MAX_MD_SIZE];

    if (EVP_Digest(text, strlen(text), digest, NULL, EVP_sha256(), NULL) != 1)
        return TDG_ENOMEM;
    memcpy(ret, digest, DIGEST);
    return 0;
}

static int bearer_fits(const tdg__hook_key_t *key, const char *authorization) {
    unsigned char given[DIGEST];

    if (authorization == NULL || strncasecmp(authorization, "Bearer ", 7) != 0)
        return 0;
    authorization += 7;
    authorization += strspn(authorization, " ");
    if (hash(authorization, given) < 0)
        return TDG_ENOMEM;
    return CRYPTO_memcmp(given, key->digest, DIGEST) == 0;
}

int tdg__hook_key_fits(const tdg__hook_key_t *key, const char *authorization,
                       const char *signature) {
    unsigned char given[DIGEST];

    switch (key->proof) {
    case TDG__HOOK_BEARER:
        return bearer_fits(key, authorization);
    case TDG__HOOK_SIGNED:
        return read_signature(signature, given);
    case TDG__HOOK_OPEN:
        break;
    }
    return 1;
}

int tdg__webhook_key(const tdg__source_t *source, tdg__hook_key_t *ret) {
    const struct webhook *hook = (const struct webhook *)source;

    *ret = (tdg__hook_key_t){.proof = (tdg__hook_proof_t)hook->proof};
    return ret->proof == TDG__HOOK_BEARER ? hash(hook->secret, ret->digest) : 0;
}

static int check_bearer(const struct webhook *hook, const tdg__hook_call_t *call) {
    tdg__hook_key_t key;

    if (tdg__webhook_key(&hook->source, &key) < 0)
        return TDG_ENOMEM;
    return bearer_fits(&key, field_of(call, "authorization"));
}

static int check_caller(const struct webhook *hook, const tdg__hook_call_t *call) {
    switch ((tdg__hook_proof_t)hook->proof) {
    case TDG__HOOK_SIGNED:
        return check_github(hook, call);
    case TDG__HOOK_BEARER:
        return check_bearer(hook, call);
    case TDG__HOOK_OPEN:
        break;
    }
    return 1;
}

/* However many calls are refused, the log gets a line a minute. */
void tdg__webhook_refused(tdg__source_t *source, uint64_t count, const char *peer) {
    struct webhook *hook = (struct webhook *)source;
    uint64_t now = uv_now(hook->source.host.loop);

    hook->refused += count;
    if (hook->refused_at != 0 && now - hook->refused_at < QUIET_MS)
        return;
    tdg__source_log(&hook->source, TDG_LOG_WARNING,
                    "%llu call%s with a wrong or missing signature; the last from %s",
                    (unsigned long long)hook->refused, hook->refused == 1 ? "" : "s",
                    peer[0] != '\0' ? peer : "somewhere");
    hook->refused_at = now != 0 ? now : 1;
    hook->refused = 0;
}

/* ---- Deliveries --------------------------------------------------------- */

static struct delivery delivery_of(const struct webhook *hook, const char *id) {
    struct delivery delivery;

    for (int i = 0; i < 2; i++)
        delivery.hashes[i] = tdg__hash(&hook->keys[i], id, strlen(id));
    return delivery;
}

static bool was_delivered(const struct webhook *hook, const char *id) {
    struct delivery delivery;

    if (id == NULL)
        return false;
    delivery = delivery_of(hook, id);
    for (size_t i = 0; i < hook->delivery_count; i++)
        if (memcmp(&hook->deliveries[i], &delivery, sizeof(delivery)) == 0)
            return true;
    return false;
}

static void remember(struct webhook *hook, const char *id) {
    if (id == NULL)
        return;
    hook->deliveries[hook->next_delivery] = delivery_of(hook, id);
    hook->next_delivery = (hook->next_delivery + 1) % DELIVERIES;
    if (hook->delivery_count < DELIVERIES)
        hook->delivery_count++;
}

/* ---- What is published -------------------------------------------------- */

static bool is_wanted(const struct webhook *hook, const char *event) {
    if (hook->events == NULL)
        return true;
    for (size_t i = 0; event != NULL && hook->events[i] != NULL; i++)
        if (strcmp(hook->events[i], event) == 0)
            return true;
    return false;
}

/* Whether a header field is there, and neither long nor strange. */
static bool is_shown(const char *value) {
    size_t len = value != NULL ? strlen(value) : 0;

    for (size_t i = 0; i < len; i++)
        if (value[i] < ' ' || value[i] > '~')
            return false;
    return len > 0 && len <= MAX_SHOWN;
}

static int add_field(json_t *object, const char *key, const char *value) {
    return is_shown(value) ? json_object_set_new(object, key, json_string(value)) : 0;
}

static json_t *metadata_of(const tdg__hook_call_t *call) {
    json_t *metadata = json_object();

    if (metadata != NULL &&
        add_field(metadata, "event", field_of(call, "x-github-event")) == 0 &&
        add_field(metadata, "delivery", field_of(call, "x-github-delivery")) == 0)
        return metadata;
    json_decref(metadata);
    return NULL;
}

/* Something that can be shown as a MIME type, or NULL. */
static const char *mime_type_of(const char *content_type) {
    return is_shown(content_type) && strchr(content_type, '/') != NULL ? content_type
                                                                       : NULL;
}

static int put_body(struct webhook *hook, const tdg__hook_call_t *call) {
    tdg__content_t content = {.data = call->body,
                              .len = call->len,
                              .mime_type = mime_type_of(field_of(call, "content-type")),
                              .metadata = metadata_of(call)};

    if (content.metadata == NULL)
        return TDG_ENOMEM;
    return tdg__source_put(&hook->source, hook->source.entry.uri, &content, false);
}

/* What there is to read is when it was, and what. */
static int put_signal(struct webhook *hook, const tdg__hook_call_t *call) {
    tdg__content_t content = {.mime_type = "application/json",
                              .metadata = metadata_of(call),
                              .updated_ms = tdg__wall_ms()};
    json_t *said = content.metadata != NULL ? json_copy(content.metadata) : NULL;
    char text[8 * MAX_SHOWN];
    size_t len = 0;

    if (said != NULL &&
        json_object_set_new(said, "received_at", json_integer(content.updated_ms)) == 0 &&
        add_field(said, "content_type", field_of(call, "content-type")) == 0 &&
        json_object_set_new(said, "body_size", json_integer((json_int_t)call->len)) == 0)
        len = json_dumpb(said, text, sizeof(text), JSON_COMPACT);
    json_decref(said);
    if (len == 0 || len > sizeof(text)) {
        json_decref(content.metadata);
        return TDG_ENOMEM;
    }
    content.data = text;
    content.len = len;
    return tdg__source_put(&hook->source, hook->source.entry.uri, &content, true);
}

/* ---- A call ------------------------------------------------------------- */

static const tdg__hook_answer_t accepted = {202, "accepted", NULL};
static const tdg__hook_answer_t ignored = {202, "accepted, and ignored", NULL};
const tdg__hook_answer_t tdg__webhook_refusal = {
    401, "the signature is wrong or missing",
    "WWW-Authenticate: Bearer realm=\"webhook\"\r\n"};
static const tdg__hook_answer_t too_large = {413, "the body is too large", NULL};
static const tdg__hook_answer_t not_now = {
    503, "the call cannot be accepted now; retry it", "Retry-After: 1\r\n"};

static const tdg__hook_answer_t *handle(struct webhook *hook,
                                        const tdg__hook_call_t *call) {
    const char *delivery = field_of(call, "x-github-delivery");

    if (call->len > (size_t)hook->source.entry.max_size)
        return &too_large;

    int rv = check_caller(hook, call);
    if (rv < 0)
        return &not_now;
    if (rv == 0) {
        tdg__webhook_refused(&hook->source, 1, call->peer);
        return &tdg__webhook_refusal;
    }
    if (!is_wanted(hook, field_of(call, "x-github-event")))
        return &ignored;
    if (was_delivered(hook, delivery))
        return &accepted;

    rv = hook->content == SIGNAL ? put_signal(hook, call) : put_body(hook, call);
    if (rv < 0)
        return rv == TDG_ETOOLARGE ? &too_large : &not_now;
    remember(hook, delivery);
    return &accepted;
}

tdg__hook_answer_t tdg__webhook_handle(tdg__source_t *source,
                                       const tdg__hook_call_t *call) {
    return *handle((struct webhook *)source, call);
}

const tdg__source_kind_t tdg__source_webhook = {
    .name = "webhook",
    .help = "An endpoint that others call when something has happened.",
    .options = options,
    .uri_example = "deploys://last",
    .flags = TDG__SOURCE_PUSHED,
    .size = sizeof(struct webhook),
    .check = check,
    .open = open_hook,
};

const char *tdg__webhook_path(const tdg__source_t *source) {
    return source->kind == &tdg__source_webhook ? ((const struct webhook *)source)->path
                                                : NULL;
}

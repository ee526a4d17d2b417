/* SPDX-License-Identifier: MIT
 *
 * Input: a call of a webhook: a byte that chooses the entry of the config, header fields
 * as "name: value" lines, an empty line, the body. The second byte's lowest bit adds the
 * right signature. Without it nothing is ever accepted, except where the config asks for
 * none. */
#include <stdio.h>
#include <string.h>

#include <openssl/hmac.h>
#include <uv.h>

#include "fuzz.h"
#include "source/push/webhook.h"

#define SECRET "a secret that nobody guesses"

enum { MAX_BYTES = 8192, MAX_FIELDS = 8 };

enum { GITHUB, GITHUB_SIGNAL, BEARER, NONE, ENTRIES };

static const char *const entries[ENTRIES] = {
    "webhook: /hooks/h\nuri: h:x\nsecret: " SECRET "\n",
    "webhook: /hooks/h\nuri: h:x\nsecret: " SECRET "\ncontent: signal\nevents: [push]\n",
    "webhook: /hooks/h\nuri: h:x\nsecret: " SECRET "\nsignature: bearer\n",
    "webhook: /hooks/h\nuri: h:x\nsignature: none\nopen: true\n",
};

struct fields {
    const char *names[MAX_FIELDS], *values[MAX_FIELDS];
    size_t count;
    char signature[80];
};

/* ---- The host ----------------------------------------------------------- */

static unsigned changes;

static int on_changed(void *user, tdg__source_t *source, const char *uri,
                      json_t *metadata) {
    (void)user;
    (void)source;
    require(strcmp(uri, "h:x") == 0);
    json_decref(metadata);
    changes++;
    return 0;
}

static int on_list(void *user, tdg__source_t *source, const tdg__listed_t *listed) {
    (void)user;
    (void)source;
    (void)listed;
    return 0;
}

static int on_unlist(void *user, tdg__source_t *source, const char *uri, bool told) {
    (void)user;
    (void)source;
    (void)uri;
    (void)told;
    return 0;
}

static void on_ready(void *user, tdg__source_t *source) {
    (void)user;
    (void)source;
}

static void on_closed(void *user, tdg__source_t *source) {
    (void)source;
    *(bool *)user = true;
}

static void on_log(void *user, tdg__source_t *source, tdg_log_level_t level,
                   const char *message) {
    (void)user;
    (void)source;
    (void)level;
    require(strstr(message, SECRET) == NULL);
}

static const tdg__source_host_ops_t host_ops = {
    .changed = on_changed,
    .deleted = on_changed,
    .list = on_list,
    .unlist = on_unlist,
    .ready = on_ready,
    .closed = on_closed,
    .log = on_log,
};

/* ---- A call ------------------------------------------------------------- */

static const char *find_field(const void *arg, const char *name) {
    const struct fields *fields = arg;

    for (size_t i = 0; i < fields->count; i++)
        if (strcmp(fields->names[i], name) == 0)
            return fields->values[i];
    return NULL;
}

static void add_field(struct fields *fields, const char *name, const char *value) {
    if (fields->count == MAX_FIELDS)
        return;
    fields->names[fields->count] = name;
    fields->values[fields->count++] = value;
}

static void sign(struct fields *fields, const char *body, size_t len) {
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned digest_len;

    require(HMAC(EVP_sha256(), SECRET, (int)strlen(SECRET), (const unsigned char *)body,
                 len, digest, &digest_len) != NULL);
    strcpy(fields->signature, "sha256=");
    for (unsigned i = 0; i < digest_len; i++)
        sprintf(fields->signature + 7 + 2 * i, "%02x", digest[i]);
    add_field(fields, "x-hub-signature-256", fields->signature);
    add_field(fields, "authorization", "Bearer " SECRET);
}

/* Reads fields up to an empty line. Returns where the body begins. */
static char *read_fields(char *text, struct fields *fields) {
    for (;;) {
        char *end = strchr(text, '\n'), *colon;

        if (end == NULL)
            return text + strlen(text);
        *end = '\0';
        if (end == text)
            return end + 1;
        colon = strstr(text, ": ");
        if (colon != NULL) {
            *colon = '\0';
            add_field(fields, text, colon + 2);
        }
        text = end + 1;
    }
}

static tdg__source_t *open_source(uv_loop_t *loop, const char *entry, bool *closed) {
    tdg__source_host_t host = {.ops = &host_ops, .user = closed, .loop = loop};
    tdg__problems_t problems;
    tdg__source_t *source = NULL;
    tdg__node_t *node;

    tdg__problems_init(&problems, "fuzz.yaml");
    require(tdg__node_read_text(entry, strlen(entry), &problems, &node) == 0);
    require(tdg__source_create(node, &problems, &source) == 0);
    tdg__node_destroy(node);
    tdg__problems_done(&problems);
    require(tdg__source_open(source, &host) == 0);
    return source;
}

static void check_answer(const tdg__hook_answer_t *answer, int entry, bool is_signed) {
    require(answer->status == 202 || answer->status == 401 || answer->status == 413 ||
            answer->status == 503);
    require(answer->text != NULL && answer->text[0] != '\0');
    require(answer->status != 202 || is_signed || entry == NONE);
    require(answer->status == 202 || changes == 0);
    require(answer->status != 401 || !is_signed);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char text[MAX_BYTES + 1];
    struct fields fields = {.count = 0};
    tdg__hook_answer_t answer = {0};
    bool closed = false, is_signed;
    uv_loop_t loop;

    if (size < 2 || size > MAX_BYTES)
        return 0;
    memcpy(text, data, size);
    text[size] = '\0';

    int entry = (unsigned char)text[0] % ENTRIES;
    is_signed = text[1] & 1;
    if (is_signed)
        fields.count = 2; /* their places come first, so that no other is found */
    char *body = read_fields(text + 2, &fields);
    size_t len = (size_t)(text + size - body), count = fields.count;
    if (is_signed) {
        fields.count = 0;
        sign(&fields, body, len);
        fields.count = count;
    }

    require(uv_loop_init(&loop) == 0);
    changes = 0;
    tdg__source_t *source = open_source(&loop, entries[entry], &closed);
    tdg__hook_call_t call = {body, len, find_field, &fields, "192.0.2.1"};
    answer = tdg__webhook_handle(source, &call);
    check_answer(&answer, entry, is_signed);
    tdg__source_close(source);
    while (!closed)
        uv_run(&loop, UV_RUN_ONCE);
    tdg__source_destroy(source);
    uv_run(&loop, UV_RUN_DEFAULT);
    require(uv_loop_close(&loop) == 0);
    return 0;
}

/* SPDX-License-Identifier: MIT
 *
 * Ten ways to misbehave. Each action is one text on a connection; when the server closes
 * it, the next action makes a new one. */
#include <stdio.h>
#include <string.h>

#include "abuse.h"

static size_t put(char *text, const char *what) {
    return (size_t)snprintf(text, ABUSE_REQUEST_MAX, "%s", what);
}

/* A header block that never ends, byte by byte. */
static size_t slow_head(const abuse_plan_t *plan, size_t number, size_t step,
                        char *text) {
    (void)plan, (void)number;
    return put(text,
               step == 0 ? "POST /mcp HTTP/1.1\r\nHost: localhost\r\nX-Slow: " : "x");
}

static size_t slow_body(const abuse_plan_t *plan, size_t number, size_t step,
                        char *text) {
    (void)plan, (void)number;
    return put(text, step == 0 ? "POST /mcp HTTP/1.1\r\nHost: localhost\r\n"
                                 "Content-Type: application/json\r\n"
                                 "Content-Length: 100000\r\n\r\n{"
                               : " ");
}

/* Subscribes to what the good are subscribed to, and never reads. */
static size_t not_reading(const abuse_plan_t *plan, size_t number, size_t step,
                          char *text) {
    (void)plan, (void)number;
    return step > 0 ? 0
                    : abuse_put_modern(text, "subscriptions/listen", NULL,
                                       "\"notifications\":{\"resourceSubscriptions\":["
                                       "\"bench://resource/0\"]}");
}

static size_t large_reads(const abuse_plan_t *plan, size_t number, size_t step,
                          char *text) {
    char uri[256], params[300];

    snprintf(uri, sizeof(uri), "file://%s/large-%zu", plan->folder, number % plan->files);
    snprintf(params, sizeof(params), "\"uri\":\"%s\"", uri);
    return step > 0 ? 0 : abuse_put_modern(text, "resources/read", uri, params);
}

static size_t bad_key(const abuse_plan_t *plan, size_t number, size_t step, char *text) {
    (void)plan, (void)number, (void)step;
    return abuse_put_post(text, "/publish", "Authorization: Bearer guessed\r\n",
                          "{\"uri\":\"bench://resource/0\"}");
}

static size_t initialize(const abuse_plan_t *plan, size_t number, size_t step,
                         char *text) {
    (void)plan, (void)number, (void)step;
    return abuse_put_post(
        text, "/mcp", "",
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{"
        "\"protocolVersion\":\"2025-11-25\",\"capabilities\":{},"
        "\"clientInfo\":{\"name\":\"abuse\",\"version\":\"1\"}}}");
}

/* Subscribes, and leaves with its connection. */
static size_t churn(const abuse_plan_t *plan, size_t number, size_t step, char *text) {
    char params[160];

    (void)plan;
    snprintf(params, sizeof(params),
             "\"notifications\":{\"resourceSubscriptions\":[\"bench://resource/%zu\"]}",
             number + step);
    return abuse_put_modern(text, "subscriptions/listen", NULL, params);
}

static size_t malformed(const abuse_plan_t *plan, size_t number, size_t step,
                        char *text) {
    (void)plan, (void)number, (void)step;
    return abuse_put_post(text, "/mcp", "",
                          "{\"jsonrpc\":\"2.0\",\"id\":1,,[[[[[[[\"\\u");
}

static size_t connect_close(const abuse_plan_t *plan, size_t number, size_t step,
                            char *text) {
    (void)plan, (void)number, (void)step;
    return put(text, "GET");
}

static size_t oversized(const abuse_plan_t *plan, size_t number, size_t step,
                        char *text) {
    (void)plan, (void)number, (void)step;
    return put(text, "POST /mcp HTTP/1.1\r\nHost: localhost\r\n"
                     "Content-Type: application/json\r\n"
                     "Content-Length: 1000000000\r\n\r\n{\"jsonrpc\":");
}

const abuse_kind_t abuse_kinds[ABUSE_KINDS] = {
    {"slow-head", true, false, slow_head},
    {"slow-body", true, false, slow_body},
    {"not-reading", false, false, not_reading},
    {"large-reads", false, false, large_reads},
    {"bad-key", true, false, bad_key},
    {"initialize", true, false, initialize},
    {"churn", true, true, churn},
    {"malformed", true, false, malformed},
    {"connect-close", true, true, connect_close},
    {"oversized", true, false, oversized},
};

const char *const abuse_kind_names[ABUSE_KINDS] = {
    "slow-head",  "slow-body", "not-reading", "large-reads",   "bad-key",
    "initialize", "churn",     "malformed",   "connect-close", "oversized",
};

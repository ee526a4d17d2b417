/* SPDX-License-Identifier: MIT
 *
 * The server that the suites of this folder talk to. It is written against the public
 * header alone, as any program of a stranger would be.
 *
 *     fixture.c              options, main
 *     fixture_conformance.c  what the official conformance suite expects to find
 *     fixture_live.c         resources that change, and the watcher that tests hold back
 *     fixture_tools.c        tools by which tests make things happen
 *     fixture_held.c         a tool that is answered when a test says so
 *     fixture_later.c        a thread on which answers come later */
#ifndef TIDINGS_TESTS_INTEROP_FIXTURE_H
#define TIDINGS_TESTS_INTEROP_FIXTURE_H

#include <tidings/server.h>

/* A tool of a table. `schema` is JSON, or NULL for any object. */
struct offered_tool {
    const char *name, *description;
    tdg_call_fn call;
    const char *schema;
};

/* The schema of a tool that needs one string. */
#define WITH_STRING(name)                                                                \
    "{\"type\": \"object\", \"properties\": {\"" name                                    \
    "\": {\"type\": \"string\"}}, \"required\": [\"" name "\"]}"

/* Each adds its part and returns 0 or a TDG_E… code. */
int fixture_add_conformance(tdg_server_t *server);
int fixture_add_live(tdg_server_t *server);
int fixture_add_tools(tdg_server_t *server);
int fixture_add_held(tdg_server_t *server);

int fixture_offer_tools(tdg_server_t *server, const struct offered_tool *tools, size_t n);

/* The argument, or NULL after the request has been answered with what is wrong. */
const char *fixture_string(tdg_request_t *request, const json_t *arguments,
                           const char *name);

/* The argument, or `fallback`. */
uint32_t fixture_number(const json_t *arguments, const char *name, uint32_t fallback);

/* Answers with a text that says how a call of the library went. */
void fixture_reply_code(tdg_request_t *request, int rv);

/* Answers a tool call with an object, as text and as structured content. Stolen. */
void fixture_reply_object(tdg_request_t *request, json_t *object);

/* Counts a change of a live resource, so that reading it shows the number. */
void fixture_live_changed(const char *uri);

/* Acknowledges, or refuses, a watcher that was held back. */
int fixture_live_arm(tdg_server_t *server, const char *uri, int error);

/* What the watcher was told so far: {"started": {target: times}, "stopped": {...}}. New.
 */
json_t *fixture_live_watched(void);

/* Frees what the watcher remembered. */
void fixture_live_done(void);

extern const tdg_watcher_t fixture_watcher;

/* Calls work(arg) on a thread of its own, once delay_ms are over. After
 * fixture_later_stop(), which does at once all that waits, nothing more may be added. */
typedef void (*later_fn)(void *arg);
int fixture_later_start(void);
void fixture_later(uint32_t delay_ms, later_fn work, void *arg);
void fixture_later_stop(void);

/* Answers all that the tool `hold` holds. */
void fixture_release_all(void);

#endif

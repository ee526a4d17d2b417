/* SPDX-License-Identifier: MIT
 *
 * A worker without a loop or thread, for the tests of calls and methods: the functions of
 * worker.h that those use, and a channel that writes down what it is told. The real ones
 * stay in the library, because nobody asks for them. */
#ifndef TDG_TESTS_FAKE_WORKER_H
#define TDG_TESTS_FAKE_WORKER_H

#include "server/context/context.h"
#include "server/mcp/call.h"
#include "support.h"

/* First its record; `answers` are FAKE_ANSWERS bytes of large and small ones together,
 * the catalogue is the test's. */
struct fake_server {
    tdg_server_t shared;
    unsigned events; /* that were logged */
    unsigned jobs;   /* that the pool was given */
    tdg__server_info_t describes;
    char updated[64]; /* the last URI that was notified */
};

enum { SAID_NOTIFY = 'n', SAID_ANSWER = 'a', SAID_RELEASE = 'r' };
enum { SAID_MAX = 4000, FAKE_ANSWERS = 1 << 20 };

struct said {
    int kind;
    int code;
    char id[32]; /* of the call */
    char *text;  /* NULL where nothing was said */
    size_t len;
};

struct fake {
    tdg__worker_t worker;
    struct fake_server server;
    bool closed; /* the worker */
    tdg__channel_t channel;
    bool gone;           /* the channel is done */
    bool goes_on_answer; /* it is done while it takes an answer */
    bool goes_on_notify; /* ... or a notification */
    struct said said[SAID_MAX];
    size_t count;
};

/* On this thread the worker is at home; on others it is not. */
void fake_start(struct fake *fake);
void fake_stop(struct fake *fake);
void fake_leave_channel(struct fake *fake);

/* What the worker's loop does: runs the tasks of the inbox. Returns how many. */
size_t fake_turn(struct fake *fake);

/* The worker goes: its channel first, then its inbox, then what is in there. */
void fake_end(struct fake *fake);

/* The calling thread is (or is not) the worker's. */
void fake_on_thread(struct fake *fake, bool is);

/* Runs `work` on another thread, to its end. */
void elsewhere(void (*work)(void *user), void *user);

/* ---- Calls -------------------------------------------------------------- */

/* A legacy read of "clock://now" with the id 7. */
extern const tdg__mcp_request_t fake_read;

tdg__call_t *fake_begin(struct fake *fake, const tdg__mcp_request_t *request);

/* The same with another method and version. */
tdg__call_t *fake_begin_method(struct fake *fake, tdg__method_t method,
                               tdg__version_t version);

/* Answers a call with {"a": 1}; fits elsewhere(). */
void fake_reply(void *call);

/* Every way in which a call can be over before its answer comes. */
enum ending { CHANNEL_GOES, CANCELLED, WORKER_GOES };
void fake_end_call(struct fake *fake, tdg__call_t *call, enum ending ending);

/* ---- What was said ------------------------------------------------------ */

#define RESULT(id, result) "{'jsonrpc':'2.0', 'id':" id ", 'result':" result "}"
#define ERROR(id, error) "{'jsonrpc':'2.0', 'id':" id ", 'error':" error "}"
#define OUT_OF_MEMORY ERROR("7", "{'code':-32603, 'message':'Out of memory'}")

/* Fails unless the index-th thing said is of that kind and, as JSON, equals `text` (NULL:
 * not looked at); `code` is that of an answer. */
#define assert_said(fake, index, kind, code, text)                                       \
    assert_said_at((fake), (index), (kind), (code), (text), __FILE__, __LINE__)
void assert_said_at(const struct fake *fake, size_t index, int kind, int code,
                    const char *text, const char *file, int line);

/* Forgets what was said. */
void fake_forget(struct fake *fake);

#endif

/* SPDX-License-Identifier: MIT
 *
 * `tidings watch`, in parts. watch.c has the options and the loop, which waits for
 * signals, events and commands. watch_follow.c has a thread for calls that wait for the
 * server: connecting and following the list; watch_subscribe.c subscribes and reads for
 * it, watch_note.c passes its results to the loop. watch_item.c is one event;
 * watch_show.c and watch_json.c write it for people and for programs, watch_output.c
 * writes to standard output; watch_exec.c runs commands. */
#ifndef TDG_CLI_WATCH_H
#define TDG_CLI_WATCH_H

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tidings/client.h>

#include "ask/body.h"
#include "ask/target.h"
#include "base/text.h"
#include "watch/exec_queue.h"

/* ---- What happened ------------------------------------------------------ */

typedef enum watch_kind {
    WATCH_UPDATED,
    WATCH_DELETED,
    WATCH_LISTED,   /* new in the list of resources, and watched from now on */
    WATCH_UNLISTED, /* not in it any more, and not watched any more */
    WATCH_LIST_CHANGED,
    WATCH_LOST, /* from here on: something about us, no change */
    WATCH_DOWN,
    WATCH_UP,
    WATCH_CLOSED,
    WATCH_MESSAGE,
} watch_kind_t;

/* An event of the client, or something like it that we found ourselves. */
typedef struct watch_item {
    watch_kind_t kind;
    uint64_t merged;
    tdg_event_t *event; /* all but the kind */
    bool is_found;
} watch_item_t;

/* New items; NULL: memory is out. The event and `contents` (may be NULL) are stolen. */
watch_item_t *watch_item_from(tdg_event_t *event);
watch_item_t *watch_item_found(watch_kind_t kind, tdg_list_kind_t list, const char *uri,
                               json_t *contents);

void watch_item_free(watch_item_t *item); /* NULL is accepted */

const char *watch_kind_name(watch_kind_t kind); /* as in JSON and TIDINGS_KIND */
const char *watch_list_name(tdg_list_kind_t list);

/* ---- Commands ----------------------------------------------------------- */

enum { WATCH_MAX_COMMANDS = 64 };

typedef struct watch watch_t;

typedef struct watch_command {
    int pid;                  /* 0: this place is free */
    int pidfd;                /* readable once it is over; -1: the system has none */
    int input;                /* its standard input; -1: closed */
    uint32_t id;              /* in the queue */
    watch_item_t *item;       /* what it is about */
    body_t content;           /* for its input */
    size_t sent;              /* of the content */
    int64_t since_ms, end_ms; /* started; when to end it, 0: never */
    bool asked_to_end;        /* SIGTERM was sent; the next time it is SIGKILL */
    bool late;                /* because of --exec-timeout */
} watch_command_t;

typedef struct watch_exec {
    exec_queue_t queue;
    watch_command_t commands[WATCH_MAX_COMMANDS];
    size_t failed; /* commands that did not exit with 0 */
    bool hurry;    /* we are leaving, and end what runs */
} watch_exec_t;

void watch_exec_init(watch_t *watch); /* exec_queue_done() undoes it */

/* Wants a run about an item, which is stolen. */
void watch_exec_add(watch_t *watch, watch_item_t *item);

/* Starts what may run now. */
void watch_exec_start(watch_t *watch);

/* Adds the descriptors to wait for; returns how many. At most two per command. */
size_t watch_exec_poll(watch_t *watch, struct pollfd *fds);

/* How long to wait at most, in ms; -1: as long as you like. */
int watch_exec_timeout(watch_t *watch, int64_t now_ms);

/* Feeds inputs, and reports what is over. */
void watch_exec_check(watch_t *watch, int64_t now_ms);

/* Leaves: what waits is dropped; what runs gets SIGTERM after `grace_ms` and SIGKILL some
 * time after that. Again with 0: at once. */
void watch_exec_leave(watch_t *watch, int64_t grace_ms);

/* ---- The thread that asks the server ------------------------------------ */

typedef enum watch_note_kind {
    WATCH_NOTE_READY,  /* everything is subscribed */
    WATCH_NOTE_FAILED, /* the reason is reported: `exit_code` */
    WATCH_NOTE_BASE,   /* what a resource has in it at the start; NULL: it is not there */
    WATCH_NOTE_ITEM,   /* something was found */
} watch_note_kind_t;

typedef struct watch_note {
    watch_note_kind_t kind;
    int exit_code;
    size_t count;     /* READY: subscriptions */
    char *uri;        /* BASE */
    json_t *contents; /* BASE; READY: the listed resources, by URI */
    watch_item_t *item;
    struct watch_note *next;
} watch_note_t;

typedef struct watch_follow {
    pthread_t thread;
    bool started;
    int pipe[2]; /* readable while there are notes */

    pthread_mutex_t lock; /* guards the rest */
    pthread_cond_t wake, idle;
    watch_note_t *first, *last;
    bool stop, over;
    unsigned changed;     /* lists, one bit for each */
    tdg_client_t *client; /* once connected */

    json_t *lists[TDG_LIST_PROMPTS + 1]; /* of the thread alone: as they were read last */
    json_t *known; /* and the resources that are subscribed, by URI */
    bool left_out; /* some of the list are not, for a reason that may pass */
} watch_follow_t;

/* Starts it. Returns 0 or TDG_ESYSTEM. */
int watch_follow_start(watch_t *watch);

/* The next note, new; NULL: none now. */
watch_note_t *watch_follow_next(watch_t *watch);
void watch_note_free(watch_note_t *note);

/* Hands a note over; what it holds is stolen. `whole` false: memory was out for some of
 * it, and that is reported instead. */
void watch_note_send(watch_t *watch, const watch_note_t *given, bool whole);
/* One with an item; `contents` is stolen. */
void watch_note_send_item(watch_t *watch, watch_kind_t kind, tdg_list_kind_t list,
                          const char *uri, json_t *contents);

/* A list has changed, or may have. */
void watch_follow_list(watch_t *watch, tdg_list_kind_t list);

/* Ends the thread and closes the client. False: it still waits for a server that does not
 * answer, and nothing may be freed any more. */
bool watch_follow_stop(watch_t *watch);

/* Whether it is time to end. */
bool watch_follow_is_stopped(watch_t *watch);

/* Waits, unless it is time to end, or a list changes that `lists` has. Under the lock. */
void watch_follow_rest(watch_follow_t *follow, long ms, unsigned lists);

/* ---- For that thread ---------------------------------------------------- */

/* Before what is refused for now is subscribed to once more. The library has retried for
 * some seconds by then. */
enum { WATCH_RETRY_MS = 1000 };

/* Subscribes to what the command line names. All of it, or it has failed. Returns an exit
 * code. */
int watch_subscribe_given(watch_t *watch);

/* Subscribes to resources of the list. Those that are refused are left out, for a while
 * where the reason may pass; it fails only where the server cannot be asked, or refuses
 * all. Returns an exit code. */
int watch_subscribe_listed(watch_t *watch, const char **uris, size_t count, bool first);

/* Reads what --diff compares with: the content of all of them. What cannot be read has
 * none. */
void watch_read_bases(watch_t *watch, const char *const *uris, size_t count);

/* Reports which of those that the command line names do not exist: a server acknowledges
 * what may come as well, so a mistyped URI would wait for ever. Nothing waits for the
 * answers. */
void watch_look_for_given(watch_t *watch);

/* ---- What is news ------------------------------------------------------- */

/* False: it was shown already, in another way. An update of a resource that is new
 * becomes one of the list. */
bool watch_is_news(watch_t *watch, watch_item_t *item);

/* ---- All of it ---------------------------------------------------------- */

typedef struct watch_opts {
    cli_target_t target;
    bool json, read, diff, once, patient, no_retry;
    const char *exec, *filter;
    long parallel, jobs, exec_timeout_ms;
    long timeout_ms, debounce_ms, batch_ms, rate_limit_ms, since_ms, poll_ms;
    int color;
} watch_opts_t;

struct watch {
    watch_opts_t opts;
    char **uris; /* borrowed */
    size_t uri_count;
    json_t *filter;

    watch_follow_t follow;
    watch_exec_t exec;
    tdg_client_t *client; /* NULL: not ready yet */
    int signals[2];       /* the numbers of signals come through it */

    tdg__text_t out; /* what goes to standard output next */
    bool output_gone, output_failed, is_terminal, color, color_errors;

    json_t *base; /* by URI: its text; null: it is not there; true: not to be compared */
    size_t base_bytes;
    json_t *deleted; /* URIs that were shown as deleted: unlisted is no news then */
    json_t *listed;  /* URIs that are known to be in the list */
    json_t *hashes;  /* by URI, of what was in it when it was shown as listed */

    int64_t began_ms, down_since_ms;
    uint64_t dropped; /* changes, of which that was reported */
    int64_t dropped_ms;
    size_t lost;   /* subscriptions */
    int exit_code; /* of `leaving` */
    bool leaving, waits_for_command;
    bool said_waiting; /* for a server that is not there yet */
};

/* Makes the numbers of signals that end us come through `signals`. Returns 0 or
 * TDG_ESYSTEM. */
int watch_catch_signals(watch_t *watch);

/* Writes what is in `out`. Where nobody reads it any more, output_gone is set. */
void watch_flush(watch_t *watch);

/* ---- Showing ------------------------------------------------------------ */

/* What --diff has for an item, besides what it writes. */
typedef enum watch_diff {
    WATCH_DIFF_NONE,    /* not asked for, or does not apply */
    WATCH_DIFF_TEXT,    /* there is one */
    WATCH_DIFF_SAME,    /* the content is as it was */
    WATCH_DIFF_UNKNOWN, /* nothing to compare with: it becomes that */
    WATCH_DIFF_BINARY,
    WATCH_DIFF_LARGE,
} watch_diff_t;

/* Compares an item with what was there before, which it replaces. */
watch_diff_t watch_compare(watch_t *watch, const watch_item_t *item, tdg__text_t *ret);

/* The content at the start; NULL: it is not there. */
void watch_set_base(watch_t *watch, const char *uri, const json_t *contents);
void watch_forget_base(watch_t *watch, const char *uri);

void watch_show_item(watch_t *watch, const watch_item_t *item);
void watch_show_ready(watch_t *watch, size_t count);
void watch_show_command(watch_t *watch, const watch_command_t *command, int status);

void watch_json_item(watch_t *watch, const watch_item_t *item);
void watch_json_ready(watch_t *watch, size_t count);
void watch_json_dropped(watch_t *watch, uint64_t count);
void watch_json_command(watch_t *watch, const watch_command_t *command, int status);

/* A line for people on standard error: "tidings: ..." in one write. */
void watch_say(watch_t *watch, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif

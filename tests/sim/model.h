/* SPDX-License-Identifier: MIT
 *
 * A second engine, written from docs/engine.md, that is slow and obviously right: arrays,
 * linear scans, and every deadline computed from what happened whenever it is asked for.
 * Clients stand for their streams (each has at most one), targets and resources are the
 * numbers of the cast.
 *
 * Where the rules leave something open (which of two that became ready at the same time
 * is taken first), the model takes the engine's choice as a hint and judges whether it
 * was allowed. */
#ifndef TDG_SIM_MODEL_H
#define TDG_SIM_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "cast.h"
#include "core/engine.h"

enum { MAX_GROUPS = CLIENTS * TARGETS * URIS, MAX_HISTORY = 4096 };

/* As the cast numbers them. */
struct wishes {
    int timing;
    int rate;
    int filter;
};

enum waits_for { WINDOW, LIMIT, ITS_TURN };

/* What one subscription has in flight on one resource. */
struct flight {
    bool used;
    enum waits_for wait;
    uint64_t first;
    uint64_t newest; /* of the changes that passed */
    bool deleted;
    bool assumed;    /* the newest is one that catch-up made up */
    bool real_too;   /* the real change of that number will do as well */
    uint32_t passed; /* real changes */
    int64_t ready_ms;
};

struct subscription {
    bool used;
    uint64_t uid;
    tdg__sub_state_t state;
    struct wishes wishes;
    int priority;
    bool has_cursor; /* to catch up with when settled */
    tdg__cursor_t cursor;
    bool has_since;
    int64_t since_ms; /* the time from which on */
    bool late;        /* settled by time-out: may have missed something */
    uint64_t began;   /* the last number when it was made, or when it caught up */
    uint64_t oldest;  /* that it caught up with in the history; 0: nothing */
    uint64_t base;    /* what counts for it is above this */
    bool told;        /* caught up with something that no number shows */
    bool foreign;     /* with a cursor of another epoch */
    bool served;      /* by another one, before it was acknowledged */
    bool must_settle; /* a call of `settled` with these is due from the engine */
    int settle_status;
    struct flight flights[RESOURCES];
    bool taken[RESOURCES];
    int64_t taken_ms[RESOURCES]; /* when its last notification on a resource was taken */
};

struct stream_model {
    bool open;
    bool ended;
    bool end_taken;
    bool blocked;
    int reason;
    tdg__cursor_t end_cursor;
    uint64_t held_first; /* while a subscription waits for its watcher with a cursor */
    struct subscription subs[TARGETS];
};

/* The window that subscriptions with the same wishes share on one resource. */
struct window {
    bool used;
    int target;
    int resource;
    struct wishes wishes;
    bool runs;
    int64_t first_ms; /* the first and the last change of this window */
    int64_t last_ms;
    bool fired;
    int64_t fired_ms;
    uint64_t newest; /* change that passed, while somebody has it in flight */
    bool newest_deleted;
    bool look; /* whether it is still needed is to be looked at */
};

struct watcher {
    bool used;
    bool armed;
    bool late; /* the time-out is over */
    bool lingers;
    int64_t since_ms;
    int64_t linger_ms;
};

struct knowledge {
    uint64_t last; /* number of the last change; 0: not remembered */
    int64_t last_ms;
    bool deleted;
    bool known; /* known_from means something */
    uint64_t known_from;
};

struct model {
    const struct cast_world *world;
    tdg__engine_opts_t opts; /* defaults filled in */
    int64_t now_ms;
    int64_t wall_ms;
    int64_t taking_ms; /* when something is taken, if later than now */
    uint64_t epoch;
    uint64_t last_number;
    uint64_t numbering; /* the last number given out, here or elsewhere */
    bool reached;       /* the last number is one that nobody has seen in a cursor yet */
    uint64_t floor;
    uint64_t dropped; /* newest entry that left the history */
    uint64_t next_uid;

    bool may_read[CLIENTS][RESOURCES]; /* through templates */
    struct stream_model streams[CLIENTS];
    struct window windows[MAX_GROUPS];
    int windows_end;
    struct watcher watchers[TARGETS];
    struct knowledge known[TARGETS];
    struct {
        int timing;
        int rate;
        int floor;
        uint64_t order;
    } configs[TARGETS];
    uint64_t next_order;
    struct wishes defaults;
    int default_floor;

    struct {
        int resource;
        uint64_t number;
        int64_t ms;
    } history[MAX_HISTORY];
    uint32_t history_count;

    /* What the engine should have called so far. */
    uint64_t watched[TARGETS];
    uint64_t unwatched[TARGETS];

    tdg__counters_t counters; /* those since the start */

    /* How often something interesting happened; see sim.c. */
    uint64_t *hits;
};

/* Situations that a run must have reached to prove anything. */
#define SITUATIONS(X)                                                                    \
    X(RESUMED, "catch-ups with a cursor")                                                \
    X(BELOW_FLOOR, "of a resource that was forgotten, below the floor")                  \
    X(ABOVE_FLOOR, "of a resource that was forgotten, nothing missed")                   \
    X(BELOW_KNOWN, "below what its watcher knows")                                       \
    X(NOTHING_MISSED, "with nothing missed")                                             \
    X(FOREIGN, "with a cursor of another epoch")                                         \
    X(SINCE, "with since_ms")                                                            \
    X(TEMPLATE_CATCH_UP, "of a template, complete")                                      \
    X(TEMPLATE_INCOMPLETE, "of a template, beyond the history")                          \
    X(TEMPLATE_LISTED, "of a template, with listed matches")                             \
    X(TEMPLATE_OVERFULL, "of a template, cut at max_pending")                            \
    X(REWOUND, "subscriptions whose stream went back")                                   \
    X(REWOUND_FOREIGN, "with a cursor of another epoch")                                 \
    X(REWOUND_ARMING, "while its watcher was being armed")                               \
    X(REWOUND_UNACKNOWLEDGED, "before it was acknowledged")                              \
    X(REWOUND_LATE, "while its watcher was late")                                        \
    X(REWOUND_TOLD, "told again of what no number shows")                                \
    X(REWOUND_BELOW_KNOWN, "below what its watcher knows, nothing lost")                 \
    X(REWOUND_INCOMPLETE, "of a template, beyond the history")                           \
    X(REWOUND_MIXED, "of a URI through a template and by itself")                        \
    X(REWOUND_TOLD_AGAIN, "clients told of a lost message after it")                     \
    X(AGAIN, "subscribes again with a cursor or since_ms")                               \
    X(AGAIN_ARMING, "while its watcher was being armed")                                 \
    X(AGAIN_TOLD, "that were told of something")                                         \
    X(MET_IN_FLIGHT, "that met a change in flight")                                      \
    X(PENDING_END, "streams ended by max_pending")                                       \
    X(FORGOTTEN, "resources forgotten")                                                  \
    X(WATCH_TIMEOUT, "watchers that timed out")                                          \
    X(LATE_SUBSCRIBER, "subscribes to a watcher that had timed out")                     \
    X(LATE_ARMED, "armed after the time-out")                                            \
    X(LATE_UNCHANGED, "unchanged after the time-out")                                    \
    X(UNCHANGED, "watched again, unchanged")                                             \
    X(WATCH_FAILED, "watchers that failed")                                              \
    X(WATCH_REFUSED, "subscribes that watch refused")                                    \
    X(LINGERED, "subscribes to a lingering watcher")                                     \
    X(UNWATCHED, "watchers stopped after lingering")                                     \
    X(FILTERED, "changes kept away by a filter")                                         \
    X(FORBIDDEN, "changes kept away by may_read")                                        \
    X(RIGHT_GONE, "notifications dropped for a right that has gone")                     \
    X(MERGED, "notifications that merged changes")                                       \
    X(SIBLINGS, "notifications for several subscriptions")                               \
    X(SIBLING_SERVED, "unacknowledged ones served by a sibling")                         \
    X(SIBLING_NEWER, "unacknowledged ones with something newer")                         \
    X(LIMITED, "notifications delayed by the rate limit")                                \
    X(HELD_UP, "notifications taken later than the last advance")                        \
    X(LIMIT_OVER, "rate limits that ran out")                                            \
    X(LIMIT_SKIPPED, "deletions past window or limit")                                   \
    X(ENDED_EARLY, "notifications whose rate limit was ended early")                     \
    X(RAISED_WINDOW, "windows raised to the floor")                                      \
    X(RAISED_LIMIT, "rate limits raised to the floor")                                   \
    X(BATCHED, "batch windows fired")                                                    \
    X(DEBOUNCED, "debounce windows fired")                                               \
    X(DEBOUNCED_LONGEST, "debounce windows fired by longest_ms")                         \
    X(THROTTLED, "throttle windows fired late")                                          \
    X(KEPT, "notifications kept until the acknowledgement")                              \
    X(REWISHED, "new wishes for a subscription")                                         \
    X(REWISHED_IN_FLIGHT, "new wishes with something in flight")                         \
    X(REMEASURED, "settings changed under a running window or limit")                    \
    X(REFUSED_LIMIT, "subscribes and opens refused by a limit")                          \
    X(PRIORITY, "takes where priority decided")                                          \
    X(UNSEEN, "changes that nobody could see")                                           \
    X(UNSEEN_TOLD, "clients told of one nevertheless")                                   \
    X(AWAY_TOLD, "clients told of a change while they were away")                        \
    X(LOST, "messages lost with their connection")                                       \
    X(BLOCKED, "readers blocked with something to take")                                 \
    X(IN_SETTLED, "calls from within `settled`")                                         \
    X(QUIET, "times when all was quiet and everybody knew everything")

enum situation {
#define SITUATION(name, text) HIT_##name,
    SITUATIONS(SITUATION)
#undef SITUATION
        HITS
};

void model_init(struct model *model, const struct cast_world *world, uint64_t epoch,
                uint64_t *hits);

/* Sets the time. What became due by it is done in model_work(), and before that, as far
 * as it comes earlier, when the engine settles a subscription: so what happens in the
 * middle of an advance meets both in the same state. */
void model_advance(struct model *model, int64_t mono_ms, int64_t wall_ms);
void model_work(struct model *model);
int64_t model_next_deadline(const struct model *model);

int model_open(struct model *model, int client);
void model_close(struct model *model, int client);
int model_end(struct model *model, int client, int reason);
int model_block(struct model *model, int client, bool blocked);
int model_cursor(const struct model *model, int client, tdg__cursor_t *ret);
bool model_ready(const struct model *model, int client);

struct model_subscribe {
    int client;
    int target;
    struct wishes wishes;
    int priority;
    bool has_cursor;
    tdg__cursor_t cursor;
    int64_t since_ms;
    int watch; /* what `watch` answers if it is called */
};

int model_subscribe(struct model *model, const struct model_subscribe *request,
                    tdg__subscribed_t *ret);
int model_acknowledge(struct model *model, int client, int target); /* -1: all */
int model_rewind(struct model *model, int client, tdg__cursor_t cursor,
                 bool *ret_complete);
int model_unsubscribe(struct model *model, int client, int target);

int model_watch_done(struct model *model, int target, tdg__watch_result_t result,
                     int error);
/* Whether the engine's call of `settled` is what it should be; catches up then. */
bool model_settled(struct model *model, int client, int target, int status, bool resumed);
/* Whether some call of `settled` is still due. */
bool model_unsettled(const struct model *model);

/* The number that comes after the last one, leaving out `gap`. */
uint64_t model_number(struct model *model, uint64_t gap);
/* The numbering stands there, and a watcher's answer follows. */
void model_reach(struct model *model, uint64_t number);
void model_changed(struct model *model, const struct cast_news *news, uint64_t number);

struct model_note {
    tdg__note_kind_t kind;
    int resource;
    uint64_t number;
    bool deleted;
    bool assumed;
    bool real_too;    /* the real change of that number will do as well */
    bool deleted_too; /* Decided: two siblings say different things about the deletion
                         under one number; either will do */
    uint32_t merged;
    int reason;
    tdg__cursor_t cursor;
};

/* What is taken is taken so much later than the last advance. */
void model_held_up(struct model *model, int64_t ms);

/* Every window and every limit that runs is over. */
void model_end_windows(struct model *model);

void model_set_right(struct model *model, int client, int resource, bool may_read);

/* The engine asked whether a client may read a resource before it takes a note, and was
 * told no: all that template subscriptions have there goes. Returns whether it had to
 * ask. */
bool model_refused(struct model *model, int client, int resource);

/* What take() should give. `hint` is the resource that the engine's note is about, or -1;
 * of several that may come first, that one is taken. Returns as take() does. */
int model_take(struct model *model, int client, int hint, struct model_note *ret);

void model_configure(struct model *model, int target, int timing, int rate, int floor);
void model_set_rate(struct model *model, int target, int rate);
void model_set_defaults(struct model *model, int timing, int rate, int floor);

tdg__sub_state_t model_state(const struct model *model, int client, int target);
bool model_pending(const struct model *model, int client, int target);
void model_counters(const struct model *model, tdg__counters_t *ret);

#endif

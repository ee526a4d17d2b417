/* SPDX-License-Identifier: MIT
 *
 * What tests of subscriptions share: subscribing, and what servers say to it. JSON has '
 * in the place of ". */
#ifndef TDG_TESTS_UNIT_CLIENT_PLAY_H
#define TDG_TESTS_UNIT_CLIENT_PLAY_H

#include "unit/client/fake.h"

#define LISTEN "subscriptions/listen"

/* Starts to subscribe, and runs. */
struct fake_note *play_subscribe(struct fake *f, const char *uri,
                                 const tdg_subscribe_opts_t *opts);
struct fake_note *play_unsubscribe(struct fake *f, const char *uri);
struct fake_note *play_lists(struct fake *f, unsigned lists);

/* Acknowledges a listen, all that it asks for but `left_out` (may be NULL); `meta` is
 * what is in `_meta`, without braces; "" for nothing. */
void play_ack(struct fake *f, struct fake_sent *listen, const char *left_out,
              const char *meta);

/* An update on a stream; NULL: on the transport. */
void play_update(struct fake *f, struct fake_sent *on, const char *uri, const char *meta);
void play_notify(struct fake *f, struct fake_sent *on, const char *method,
                 const char *params);

/* Subscribes, and is acknowledged: in a modern era by a listen, in a legacy one with a
 * GET stream over HTTP. */
void play_live(struct fake *f, const char *uri, const tdg_subscribe_opts_t *opts,
               const char *meta);

/* The same in a legacy era, at a server that sends the head of the GET stream with the
 * first event. */
void play_live_late(struct fake *f, const char *uri);

/* How many are neither over nor cancelled. */
size_t play_open(const struct fake *f, const char *method);

/* What was told since the last time, as fake_told() has it. */
#define assert_told(f, text) assert_told_at((f), (text), __FILE__, __LINE__)
void assert_told_at(struct fake *f, const char *text, const char *file, int line);

#endif

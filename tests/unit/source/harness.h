/* SPDX-License-Identifier: MIT
 *
 * A host with a loop for one source. What the source tells is written down in order; a
 * test waits for what must come. Everything that waits fails the test after a minute. */
#ifndef TDG_TESTS_SOURCE_HARNESS_H
#define TDG_TESTS_SOURCE_HARNESS_H

#include "source/common/heavy.h"
#include "source/common/source.h"

enum happening_kind { CHANGED, DELETED, LISTED, UNLISTED, READY, WATCHED, LOGGED };

struct happening {
    enum happening_kind kind;
    char *uri;        /* or name of a target; the message of LOGGED */
    json_t *metadata; /* CHANGED, DELETED */
    int status;       /* WATCHED; the level of LOGGED */
    int existence;    /* WATCHED: TDG_WATCH_…, or 0 */
    uint64_t size;    /* LISTED */
    char *mime_type;  /* LISTED; or NULL */
    bool told;        /* UNLISTED */
    bool taken;
};

struct harness {
    uv_loop_t loop;
    tdg__heavy_t heavy;
    tdg__source_t *source;
    struct happening *happenings;
    size_t count;
    bool closed;
    unsigned refuses_news; /* so many times nobody can be told */
};

/* What a read gave; free with reading_done(). */
struct reading {
    int status;
    char *data; /* with a NUL behind it */
    size_t len;
    char *error, *mime_type;
    char *public; /* what a client is told of the error */
    json_t *metadata;
    bool done;
    bool left; /* set by a test: the reader has left */
};

/* Opens a source made from one entry of a config, in YAML: "files: /srv\ninclude: ...".
 * The kind is looked up in the table, or given. Fails the test where it cannot. */
void harness_open(struct harness *harness, const char *yaml);
void harness_open_kind(struct harness *harness, const tdg__source_kind_t *kind,
                       const char *yaml);

/* With a file that is never served. */
void harness_open_without(struct harness *harness, const char *yaml, const char *never);

/* Closes the source and waits for it; frees all. */
void harness_close(struct harness *harness);

/* Expects that an entry is refused with a problem that contains `expected`. */
void harness_refuses(const char *yaml, const char *expected);

/* Runs the loop until it is true, which an event of the loop makes it. */
void harness_until(struct harness *harness, bool (*is_true)(void *arg), void *arg);

/* The same for what others do, in processes of their own: the loop hears nothing of it,
 * so it is asked for every few milliseconds. */
void harness_ask_until(struct harness *harness, bool (*is_true)(void *arg), void *arg);

/* Waits for the next happening of this kind that was not taken yet, of this URI (NULL:
 * any), and takes it. For LOGGED, of a message that contains the text. */
struct happening *harness_wait(struct harness *harness, enum happening_kind kind,
                               const char *uri);

/* How many were written down that were not taken yet. */
size_t harness_count(const struct harness *harness, enum happening_kind kind,
                     const char *uri);

/* Watch a URI or a template and wait until that is complete; expect success. */
void harness_watch(struct harness *harness, const char *uri);
void harness_watch_template(struct harness *harness, const char *template_);

/* Reads and waits for the answer. */
struct reading harness_read(struct harness *harness, const char *uri);
void harness_start_read(struct harness *harness, const char *uri,
                        struct reading *ret); /* ret->done later */
void harness_start_read_as(struct harness *harness, uint64_t client, const char *uri,
                           struct reading *ret); /* for one of several clients */
void reading_done(struct reading *reading);

/* Reads, expects success and this text. */
void harness_expect(struct harness *harness, const char *uri, const char *text);

/* Waits for changes of a URI until a read gives this text. */
void harness_wait_for_text(struct harness *harness, const char *uri, const char *text);

#endif

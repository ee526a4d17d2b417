/* SPDX-License-Identifier: MIT
 *
 * What the files about items share: item.c (the records), item_fetch.c (finding out what
 * a URI holds), item_watch.c (watching, reading, touching) and item_put.c (content that
 * is pushed). */
#ifndef TDG_SOURCE_ITEM_INTERNAL_H
#define TDG_SOURCE_ITEM_INTERNAL_H

#include "base/hash.h"
#include "base/heap.h"
#include "base/list.h"
#include "base/map.h"
#include "base/pool.h"
#include "base/variables.h"
#include "source/checksum.h"
#include "source/item.h"
#include "source/turns.h"

/* Limits of one source. */
enum {
    PARALLEL = 16,       /* fetches of one source at a time */
    REMEMBERED = 10000,  /* items that only a template's watching keeps */
    QUEUED_MAX = 100000, /* beyond, what only a template has is not looked at */
};

enum known {
    UNKNOWN,
    PRESENT, /* with the checksum */
    ABSENT,
    BROKEN, /* it is there and cannot be had: too large, the query is wrong, ... */
};

struct seen {
    enum known known;
    char checksum[TDG__CHECKSUM + 1]; /* "" where there is none */
};

enum state { IDLE, QUEUED, FETCHING };

struct reader {
    struct reader *next;
    tdg__read_done_fn done;
    tdg__read_has_left_fn has_left; /* NULL: it stays */
    void *arg;
};

/* Content that was seen last, for reads while nobody can look. */
struct kept {
    tdg__buf_t *bytes;
    const void *data; /* in `bytes`; NULL: nothing is kept */
    size_t len;
    char *mime_type;
    json_t *metadata;
    int64_t updated_ms;
};

struct tdg__item {
    uint32_t id, hash;
    tdg__source_t *source;
    char *uri;

    bool watched;      /* by itself, not through the template */
    bool kind_arming;  /* the kind has not said tdg__source_watched() yet */
    bool first_fetch;  /* of the watching: nothing to compare with, nobody to tell */
    bool only_read;    /* seen, and who watches the template was told nothing */
    bool touched;      /* since the last fetch began */
    bool was_touched;  /* before that */
    bool came;         /* the kind says that it was not there before */
    bool digesting;    /* FETCHING: the kind is done, its content is being looked at */
    bool again;        /* asked while FETCHING */
    bool is_due;       /* to be looked at for those who watch, not only for readers */
    bool remembered;   /* in by_use */
    unsigned held;     /* by whoever needs it for a while, whatever happens */
    unsigned prepared; /* contents that may take the place of the one there is */

    struct seen seen; /* last */
    struct kept kept;
    int64_t stale_since_ms; /* 0: it is not */
    unsigned tries;

    enum state state;
    tdg__fetch_t fetch;
    tdg__timer_t timer; /* FETCHING: its time is over; IDLE: try again */
    struct reader *readers, *next_readers; /* of this fetch, of the next */
    tdg__turn_t turn;                      /* while QUEUED */
    tdg__link_t by_use;
    tdg__item_t *older, *newer;  /* in the cache, while something is kept */
    tdg__variables_t *variables; /* while FETCHING, where the source has a template */
};

struct tdg__items {
    tdg__pool_t pool;
    tdg__map_t by_uri;
    tdg__hash_key_t key;
    tdg__heap_t timers;
    uv_timer_t timer; /* for the first of them */
    bool template_watched;
    bool pumping;
    tdg__turns_t turns; /* of those that are QUEUED */
    unsigned queued, fetching;
    tdg__list_t by_use; /* remembered ones, the longest unused first */
    unsigned remembered;
    tdg__stale_t *stale, own_stale; /* the host's, or our own */
    size_t kept_bytes, kept_count;
    int64_t prepared_bytes, prepared_count; /* more than that once all are committed */
    bool kind_closed, timer_closing;
    void (*closed)(tdg__source_t *source);
};

#define LINK(field) offsetof(tdg__item_t, field)

bool tdg__source_is_pushed(const tdg__source_t *source);

/* ---- item.c ------------------------------------------------------------- */

tdg__item_t *tdg__item_find(const tdg__source_t *source, const char *uri); /* or NULL */
tdg__item_t *tdg__item_make(tdg__source_t *source, const char *uri); /* NULL: no memory */
void tdg__item_destroy(tdg__item_t *item);

/* Lets go of an item that nobody needs; and the opposite, for one that was remembered. */
void tdg__item_release(tdg__item_t *item);
void tdg__item_recall(tdg__item_t *item);

/* Makes a copy of content, with complete metadata; shares its bytes where they are
 * counted. Returns 0 or TDG_ENOMEM. */
int tdg__kept_copy(const tdg__source_t *source, const tdg__content_t *content,
                   json_t *metadata, struct kept *ret);
void tdg__kept_done(struct kept *kept);

/* Whether there is room for content of this length in the cache. */
bool tdg__item_may_keep(const tdg__item_t *item, size_t len);

/* Keeps such a copy, in the place of the one before; *kept is empty then. */
void tdg__item_take_kept(tdg__item_t *item, struct kept *kept);
void tdg__item_forget_kept(tdg__item_t *item);

/* ---- item_digest.c ------------------------------------------------------ */

/* Whether the checksum of what was fetched is found out in a thread: tdg__fetch_done()
 * follows, with it. */
bool tdg__item_digest(tdg__item_t *item, const tdg__content_t *content);

/* ---- item_fetch.c ------------------------------------------------------- */

/* The item is fetched, or fetched again, as soon as it is its turn: for those who watch;
 * or for readers, of whom `client` is one, unless all of them have left by then. */
void tdg__item_look(tdg__item_t *item);
void tdg__item_look_for(tdg__item_t *item, uint64_t client);
void tdg__items_pump(tdg__source_t *source);
void tdg__items_set_timer(struct tdg__items *items);

const char *tdg__item_mime(const tdg__source_t *source, const tdg__content_t *content);

/* The complete metadata of content: the kind's own fields, and those of every kind. New;
 * NULL where memory is out. */
json_t *tdg__item_metadata(const tdg__content_t *content, const char *checksum,
                           const char *change_type);

/* Tells whoever has to know that the item holds something else than before. `always`:
 * also where it does not. Returns 0, or the host's code where they could not be told. */
int tdg__item_tell(tdg__item_t *item, const struct seen *before,
                   const tdg__content_t *content, bool touched, bool always);

/* The watching of an item is complete once the kind is ready and a first look was had. */
void tdg__item_check_armed(tdg__item_t *item);

void tdg__readers_answer(struct reader *readers, const tdg__content_t *content);

/* ---- item_put.c --------------------------------------------------------- */

/* Takes over what was pushed to another source, within the limits of this one. */
void tdg__items_adopt(tdg__source_t *source, tdg__source_t *from);

/* ---- item_past.c -------------------------------------------------------- */

/* The watching of an item begins where another source has ended. Returns as a watch. */
int tdg__item_follow(tdg__item_t *item, const tdg__past_t *past);

/* The same for all that another source knew through its template. */
void tdg__items_follow(tdg__source_t *source, const tdg__source_t *from);

/* ---- item_fetch.c ------------------------------------------------------- */

/* The last fetch of a source that closes, or its kind, may have come to an end. */
void tdg__items_check_closed(tdg__source_t *source);

#endif

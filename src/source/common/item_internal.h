/* SPDX-License-Identifier: MIT
 *
 * What the files about items share: item.c (the records), item_fetch.c (fetching the
 * content of a URI), item_watch.c (watching, reading, touching) and item_put.c (pushed
 * content). */
#ifndef TDG_SOURCE_ITEM_INTERNAL_H
#define TDG_SOURCE_ITEM_INTERNAL_H

#include "base/list.h"
#include "base/variables.h"
#include "source/common/checksum.h"
#include "source/common/item.h"
#include "source/common/records.h"
#include "source/common/turns.h"

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
    BROKEN, /* it exists and cannot be read: too large, the query is wrong, ... */
};

/* What was found last. */
struct seen {
    enum known known;
    bool unreported; /* subscribers of the template were not notified of it */
    char checksum[TDG__CHECKSUM + 1]; /* "" where there is none */
};

/* Finding out what it holds: one fetch at a time. */
enum look {
    IDLE, /* perhaps until a timer: to try again */
    QUEUED,
    FETCHING,  /* by the kind */
    DIGESTING, /* the kind is done; the checksum is found out in a thread */
    SETTLING,  /* what was found is compared and reported, readers are answered */
};

/* Whether a target is watched: a URI, the template of the source, its list. */
enum watch {
    UNWATCHED,
    AWAITS_BOTH, /* the kind is not ready, and there was no look at it yet */
    AWAITS_KIND,
    AWAITS_LOOK, /* whose outcome has nothing to be compared with */
    WATCHING
};

/* What the kind has reported of a URI; subscribers are owed the next look. */
enum hint {
    NO_HINT,
    TOUCHED, /* it may have changed */
    CAME,    /* and it did not exist before */
};

struct reader {
    struct reader *next;
    tdg__read_done_fn done;
    tdg__read_has_left_fn has_left; /* NULL: it stays */
    void *arg;
};

/* The last known content, for reads while the backend is unreachable. */
struct kept {
    tdg__buf_t *bytes;
    const void *data; /* in `bytes`; NULL: nothing is kept */
    size_t len;
    char *mime_type;
    json_t *metadata;
    int64_t updated_ms;
};

struct tdg__item {
    tdg__record_t record; /* its name is the URI; its time, while FETCHING, is over; while
                             IDLE: it is tried again */
    tdg__source_t *source;

    enum watch watch; /* by itself, not through the template */
    enum look look;
    enum hint hint;    /* since the last fetch began */
    enum hint taken;   /* by the fetch that runs */
    bool is_due;       /* the next look is for subscribers, not only for readers */
    bool remembered;   /* in by_use */
    unsigned held;     /* how many need it for a while, whatever happens */
    unsigned prepared; /* contents that may take the place of the one there is */

    struct seen seen;
    struct kept kept;
    int64_t stale_since_ms; /* 0: it is not */
    unsigned tries;         /* that have failed in a row */

    tdg__fetch_t fetch;
    struct reader *readers, *next_readers; /* of this fetch, of the next */
    tdg__turn_t turn;                      /* while QUEUED */
    tdg__link_t by_use;
    tdg__queue_t cached;         /* while something is kept, and was not pushed */
    tdg__variables_t *variables; /* during a fetch, where the source has a template */
};

struct tdg__items {
    tdg__records_t all;         /* of tdg__item_t */
    enum watch template_, list; /* of the source */
    size_t watched;             /* targets, these two among them */
    size_t awaiting;            /* URIs for which the kind is not ready */
    bool pumping;
    tdg__turns_t turns; /* of those that are QUEUED */
    unsigned queued, fetching;
    tdg__list_t by_use; /* remembered ones, the longest unused first */
    unsigned remembered;
    tdg__stale_t *stale, own_stale; /* the host's, or our own */
    size_t kept_bytes, kept_count;
    int64_t prepared_bytes, prepared_count; /* more than that once all are committed */
    void (*closed)(tdg__source_t *source);
};

#define LINK(field) offsetof(tdg__item_t, field)

bool tdg__source_is_pushed(const tdg__source_t *source);

static inline bool tdg__item_is_watched(const tdg__item_t *item) {
    return item->watch != UNWATCHED;
}

static inline bool tdg__item_is_fetched(const tdg__item_t *item) {
    return item->look >= FETCHING;
}

/* ---- item.c ------------------------------------------------------------- */

tdg__item_t *tdg__item_find(const tdg__source_t *source, const char *uri); /* or NULL */
tdg__item_t *tdg__item_make(tdg__source_t *source, const char *uri); /* NULL: no memory */

/* Walks them as tdg__records_next(). */
tdg__item_t *tdg__items_next(const tdg__source_t *source, uint32_t *at);

/* Forgets an item that nothing needs; the second takes it out of those remembered. */
void tdg__item_release(tdg__item_t *item);
void tdg__item_recall(tdg__item_t *item);

/* Makes a copy of content, with complete metadata; shares its bytes where they are
 * counted. Returns 0 or TDG_ENOMEM. */
int tdg__kept_copy(const tdg__source_t *source, const tdg__content_t *content,
                   json_t *metadata, struct kept *ret);
void tdg__kept_done(struct kept *kept);

/* The content that such a copy is of; all of it is borrowed. */
tdg__content_t tdg__kept_content(const struct kept *kept);

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
void tdg__item_due(tdg__record_t *record, void *source);

/* The kind is to end the fetch that runs, if one does. */
void tdg__item_cancel(tdg__item_t *item);

const char *tdg__item_mime(const tdg__source_t *source, const tdg__content_t *content);

/* The complete metadata of content: the kind's own fields, and those of every kind. New;
 * NULL where memory is out. */
json_t *tdg__item_metadata(const tdg__content_t *content, const char *checksum,
                           const char *change_type);

/* Publishes that the item differs from `before`, where that is watched; `always`: also
 * where it does not differ. Returns 0, or the host's code where that failed. */
int tdg__item_publish(tdg__item_t *item, const struct seen *before,
                      const tdg__content_t *content, bool touched, bool always);

void tdg__readers_answer(struct reader *readers, const tdg__content_t *content);

/* ---- item_watch.c ------------------------------------------------------- */

/* Subscribers are owed a look; the stronger hint counts. */
void tdg__item_hint(tdg__item_t *item, enum hint hint);

/* A look is over: the first one may be what the watching of the item waits for. */
void tdg__item_was_looked_at(tdg__item_t *item);

/* ---- item_put.c --------------------------------------------------------- */

/* Takes over what was pushed to another source, within the limits of this one. */
void tdg__items_adopt(tdg__source_t *source, tdg__source_t *from);

/* ---- item_past.c -------------------------------------------------------- */

/* The watching of an item begins where another source has ended. Returns as a watch. */
int tdg__item_follow(tdg__item_t *item, const tdg__past_t *past);

/* The same for all that another source knew through its template. */
void tdg__items_follow(tdg__source_t *source, const tdg__source_t *from);

#endif

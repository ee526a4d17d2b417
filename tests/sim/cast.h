/* SPDX-License-Identifier: MIT
 *
 * Everything a simulated world is made of: a few resources, lists and templates that
 * overlap, a few timings, limits and filters, and the options of several worlds. All of
 * it is known by small numbers, so that the model can use arrays and a script is data. */
#ifndef TDG_SIM_CAST_H
#define TDG_SIM_CAST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "core/engine.h"

/* Targets are numbered: first the URIs, then the lists, then the templates. The first two
 * kinds together are the resources, so a resource has the same number as its target. */
enum {
    URIS = 8,
    LISTS = 3,
    RESOURCES = URIS + LISTS,
    TEMPLATES = 6,
    TARGETS = RESOURCES + TEMPLATES,
    CLIENTS = 6,

    TIMINGS = 9,
    RATES = 5,
    FLOORS = 16, /* four of windows, four of limits */
    FILTERS = 7,
    SIZES = 2,
    KINDS = 4,
    WORLDS = 9,
};

tdg__target_t cast_target(int target);
int cast_find(const tdg__target_t *target); /* its number, or -1 */

bool cast_is_list(int target);
bool cast_is_template(int target);

/* Whether a target stands for a resource: it is the resource, or a template that matches.
 */
bool cast_covers(int target, int resource);

/* How many bytes of a template are literal. */
size_t cast_literals(int target);

/* Whether the owner of a client's streams may read a resource, in worlds that forbid
 * some. */
bool cast_may_read(int client, int resource);

/* Whether the catalogue lists a resource. */
bool cast_is_listed(int resource);

extern const tdg__timing_t cast_timings[TIMINGS]; /* 0 inherits */
extern const int32_t cast_rates[RATES];           /* 0 inherits */

/* The floor of this number, as settings have it; 0 inherits. */
int32_t cast_min_window(int floor);
int32_t cast_min_rate(int floor);

/* Borrowed; NULL for number 0, which is no filter. */
const json_t *cast_filter(int filter);

/* What the filters look at. */
struct cast_news {
    int resource;
    bool deleted;
    int size;       /* 0: absent, else metadata.size */
    int kind;       /* 0: absent, else metadata.kind is "a", "b" or "c" */
    int64_t age_ms; /* how long ago metadata.updated_at was when the change arrived */
};

/* A second opinion on the filters, spelled out by hand. */
bool cast_passes(int filter, const struct cast_news *news);

/* New metadata for a change that arrives at `wall_ms`. */
json_t *cast_metadata(const struct cast_news *news, int64_t wall_ms);

struct cast_world {
    const char *name;
    bool watch;        /* sources must be armed */
    bool may_read;     /* not everybody may read everything */
    bool list_matches; /* the catalogue can be asked */
    int timing;        /* defaults of the engine */
    int rate;
    tdg__engine_opts_t opts;
};

extern const struct cast_world cast_worlds[WORLDS];

/* Parses the templates and checks that the tables agree with themselves. Returns false
 * and prints what is wrong. */
bool cast_init(void);
void cast_done(void);

#endif

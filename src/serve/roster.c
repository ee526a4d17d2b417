/* SPDX-License-Identifier: MIT */
#include "serve/roster.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/map.h"
#include "base/template_index.h"
#include "source/push/webhook.h"

struct tdg__roster {
    tdg__source_t **sources; /* by number, from 1 */
    uint32_t count;
    size_t max;
    tdg__hash_key_t key;
    tdg__map_t by_name, by_hook;
    tdg__template_index_t *templates;
};

tdg__roster_t *tdg__roster_create(size_t max_sources) {
    tdg__roster_t *roster = tdg__calloc(1, sizeof(*roster));
    if (roster == NULL)
        return NULL;

    roster->max = max_sources;
    roster->sources = tdg__calloc(max_sources + 1, sizeof(tdg__source_t *));
    tdg__map_init(&roster->by_name);
    tdg__map_init(&roster->by_hook);
    if (roster->sources != NULL && tdg__random(&roster->key, sizeof(roster->key)) == 0 &&
        tdg__template_index_create(&roster->templates) == 0)
        return roster;
    tdg__roster_destroy(roster);
    return NULL;
}

void tdg__roster_destroy(tdg__roster_t *roster) {
    if (roster == NULL)
        return;
    tdg__template_index_destroy(roster->templates);
    tdg__map_done(&roster->by_name);
    tdg__map_done(&roster->by_hook);
    tdg__free(roster->sources);
    tdg__free(roster);
}

static uint32_t hash_of(const tdg__roster_t *roster, const char *text) {
    return (uint32_t)tdg__hash(&roster->key, text, strlen(text));
}

int tdg__roster_add(tdg__roster_t *roster, tdg__source_t *source) {
    const char *uri = source->entry.uri, *path = tdg__webhook_path(source);
    uint32_t number = roster->count + 1;

    if (roster->count == roster->max || tdg__map_reserve(&roster->by_name) < 0 ||
        tdg__map_reserve(&roster->by_hook) < 0)
        return TDG_ENOMEM;
    if (source->template_ != NULL &&
        tdg__template_index_add(roster->templates, source->template_, number) < 0)
        return TDG_ENOMEM;
    roster->sources[number] = source;
    roster->count = number;
    if (uri != NULL && tdg__roster_named(roster, uri) == NULL)
        tdg__map_insert(&roster->by_name, hash_of(roster, uri), number);
    if (path != NULL && tdg__roster_hook(roster, path) == NULL)
        tdg__map_insert(&roster->by_hook, hash_of(roster, path), number);
    return 0;
}

static bool has_name(const void *roster, uint32_t number, const void *uri) {
    return strcmp(((const tdg__roster_t *)roster)->sources[number]->entry.uri, uri) == 0;
}

static bool has_path(const void *roster, uint32_t number, const void *path) {
    const tdg__source_t *source = ((const tdg__roster_t *)roster)->sources[number];

    return strcmp(tdg__webhook_path(source), path) == 0;
}

static tdg__source_t *find(const tdg__roster_t *roster, const tdg__map_t *map,
                           tdg__map_eq_fn has, const char *text) {
    uint32_t number = tdg__map_find(map, hash_of(roster, text), has, roster, text);
    tdg__source_t *source = roster->sources[number];

    return number != 0 && !source->closing ? source : NULL;
}

tdg__source_t *tdg__roster_named(const tdg__roster_t *roster, const char *uri) {
    return roster != NULL ? find(roster, &roster->by_name, has_name, uri) : NULL;
}

tdg__source_t *tdg__roster_hook(const tdg__roster_t *roster, const char *path) {
    return roster != NULL ? find(roster, &roster->by_hook, has_path, path) : NULL;
}

void tdg__roster_remove(tdg__roster_t *roster, const tdg__source_t *source) {
    const char *path = tdg__webhook_path(source);
    uint32_t number = 1;

    while (number <= roster->count && roster->sources[number] != source)
        number++;
    if (number > roster->count)
        return;
    if (source->template_ != NULL)
        tdg__template_index_remove(roster->templates, source->template_, number);
    if (source->entry.uri != NULL)
        tdg__map_remove(&roster->by_name, hash_of(roster, source->entry.uri), number);
    if (path != NULL)
        tdg__map_remove(&roster->by_hook, hash_of(roster, path), number);
    roster->sources[number] = NULL;
}

struct search {
    const tdg__roster_t *roster;
    const char *uri;
    uint32_t number; /* 0: none yet */
};

static void on_match(void *user, uint32_t number) {
    struct search *search = user;

    if ((search->number == 0 || number < search->number) &&
        tdg__source_owns(search->roster->sources[number], search->uri))
        search->number = number;
}

tdg__source_t *tdg__roster_owner(const tdg__roster_t *roster, const char *uri) {
    tdg__source_t *named = tdg__roster_named(roster, uri);
    struct search search = {roster, uri, 0};

    if (roster == NULL)
        return NULL;
    if (named != NULL && tdg__source_owns(named, uri))
        return named;
    tdg__template_index_match(roster->templates, uri, strlen(uri), on_match, &search);
    return roster->sources[search.number];
}

/* ---- Folders inside folders --------------------------------------------- */

enum { MAX_PREFIX = 4096 }; /* longer URIs are none */

struct enclosing {
    const tdg__roster_t *roster;
    const tdg__source_t *source;
    void (*visit)(void *arg, size_t number);
    void *arg;
};

static bool lists(const tdg__source_t *source) {
    return (source->kind->flags & TDG__SOURCE_LISTS) != 0 && source->entry.uri != NULL;
}

static void on_enclosing(void *user, uint32_t number) {
    const struct enclosing *search = user;
    const tdg__source_t *outer = search->roster->sources[number];

    if (outer != search->source && lists(outer) && outer->entry.uri[0] != '{')
        search->visit(search->arg, number - 1);
}

void tdg__roster_enclosing(const tdg__roster_t *roster, const tdg__source_t *source,
                           void (*visit)(void *arg, size_t number), void *arg) {
    struct enclosing search = {roster, source, visit, arg};
    char uri[MAX_PREFIX + 2];
    size_t len = lists(source) ? strcspn(source->entry.uri, "{") : 0;

    if (len == 0 || len > MAX_PREFIX)
        return;
    memcpy(uri, source->entry.uri, len);
    if (source->template_ != NULL)
        uri[len++] = 'x'; /* some file in the folder */
    tdg__template_index_match(roster->templates, uri, len, on_enclosing, &search);
}

/* ---- URIs that two sources could have ----------------------------------- */

static bool fills_list(const tdg__source_t *source) {
    return source->template_ != NULL &&
           (source->kind->flags & (TDG__SOURCE_LISTS | TDG__SOURCE_PUSHED)) != 0;
}

struct overlap {
    const tdg__roster_t *roster;
    bool found;
};

static void on_overlap(void *user, uint32_t number) {
    struct overlap *overlap = user;

    overlap->found = overlap->found || fills_list(overlap->roster->sources[number]);
}

/* A resource of its own that a template stands for as well. */
static bool resources_overlap(const tdg__roster_t *roster) {
    struct overlap overlap = {roster, false};

    for (uint32_t i = 1; i <= roster->count && !overlap.found; i++) {
        const tdg__source_t *source = roster->sources[i];

        if (source != NULL && source->template_ == NULL && source->entry.uri != NULL)
            tdg__template_index_match(roster->templates, source->entry.uri,
                                      strlen(source->entry.uri), on_overlap, &overlap);
    }
    return overlap.found;
}

static int compare_texts(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Whether what one template begins with, up to its first variable, is what another one
 * begins with: those that have no URI in common differ there, as a rule. In order, such
 * two are next to each other. */
static bool has_common_beginning(const char **templates, size_t count) {
    qsort(templates, count, sizeof(*templates), compare_texts);
    for (size_t i = 1; i < count; i++) {
        size_t a = strcspn(templates[i - 1], "{"), b = strcspn(templates[i], "{");

        if (strncmp(templates[i - 1], templates[i], a < b ? a : b) == 0)
            return true;
    }
    return false;
}

static bool templates_overlap(const tdg__roster_t *roster) {
    const char **templates = tdg__reallocarray(NULL, roster->count + 1, sizeof(char *));
    bool any_fills = false;
    size_t count = 0;

    if (templates == NULL)
        return true; /* they may */
    for (uint32_t i = 1; i <= roster->count; i++) {
        const tdg__source_t *source = roster->sources[i];

        if (source == NULL || source->template_ == NULL)
            continue;
        templates[count++] = source->entry.uri;
        any_fills = any_fills || fills_list(source);
    }

    bool overlap = any_fills && has_common_beginning(templates, count);

    tdg__free(templates);
    return overlap;
}

bool tdg__roster_overlaps(const tdg__roster_t *roster) {
    return roster != NULL && (resources_overlap(roster) || templates_overlap(roster));
}

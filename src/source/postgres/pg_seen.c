/* SPDX-License-Identifier: MIT */
#include "source/postgres/pg_seen.h"

#include <assert.h>
#include <string.h>

#include <tidings/error.h>

#include "base/alloc.h"
#include "base/text.h"

struct tdg__pg_seen_row {
    char *uri;
    uint64_t digest;
    uint32_t hash;
};

int tdg__pg_seen_init(tdg__pg_seen_t *seen, size_t max) {
    assert(max < UINT32_MAX);
    *seen = (tdg__pg_seen_t){.max = max};
    tdg__map_init(&seen->map);
    return tdg__random(&seen->key, sizeof(seen->key));
}

void tdg__pg_seen_done(tdg__pg_seen_t *seen) {
    for (size_t i = 0; i < seen->count; i++)
        tdg__free(seen->rows[i].uri);
    tdg__free(seen->rows);
    tdg__map_done(&seen->map);
    *seen = (tdg__pg_seen_t){.max = 0};
}

static uint32_t hash_of(const tdg__pg_seen_t *seen, const char *uri) {
    return (uint32_t)tdg__hash(&seen->key, uri, strlen(uri));
}

static bool has_uri(const void *ctx, uint32_t value, const void *key) {
    const tdg__pg_seen_t *seen = ctx;

    return strcmp(seen->rows[value - 1].uri, key) == 0;
}

static struct tdg__pg_seen_row *find(const tdg__pg_seen_t *seen, const char *uri) {
    uint32_t value = tdg__map_find(&seen->map, hash_of(seen, uri), has_uri, seen, uri);

    return value != 0 ? &seen->rows[value - 1] : NULL;
}

static int make_room(tdg__pg_seen_t *seen) {
    size_t room = seen->room > 0 ? seen->room * 2 : 64;
    struct tdg__pg_seen_row *rows;

    if (seen->count < seen->room)
        return 0;
    rows = tdg__reallocarray(seen->rows, room, sizeof(*rows));
    if (rows == NULL)
        return TDG_ENOMEM;
    seen->rows = rows;
    seen->room = room;
    return 0;
}

static int insert(tdg__pg_seen_t *seen, const char *uri, uint64_t digest) {
    struct tdg__pg_seen_row row = {.digest = digest, .hash = hash_of(seen, uri)};

    if (seen->count >= seen->max)
        return TDG_ETOOLARGE;
    if (make_room(seen) < 0 || tdg__map_reserve(&seen->map) < 0)
        return TDG_ENOMEM;
    row.uri = tdg__strdup(uri);
    if (row.uri == NULL)
        return TDG_ENOMEM;

    seen->rows[seen->count++] = row;
    tdg__map_insert(&seen->map, row.hash, (uint32_t)seen->count);
    return 0;
}

int tdg__pg_seen_add(tdg__pg_seen_t *seen, const char *uri, uint64_t digest) {
    struct tdg__pg_seen_row *row = find(seen, uri);

    if (row == NULL)
        return insert(seen, uri, digest);
    row->digest += digest;
    return 0;
}

int tdg__pg_seen_set(tdg__pg_seen_t *seen, const char *uri, uint64_t digest) {
    struct tdg__pg_seen_row *row = find(seen, uri);

    if (row == NULL)
        return insert(seen, uri, digest);
    row->digest = digest;
    return 0;
}

bool tdg__pg_seen_get(const tdg__pg_seen_t *seen, const char *uri, uint64_t *ret) {
    const struct tdg__pg_seen_row *row = find(seen, uri);

    if (row == NULL)
        return false;
    *ret = row->digest;
    return true;
}

void tdg__pg_seen_remove(tdg__pg_seen_t *seen, const char *uri) {
    struct tdg__pg_seen_row *row = find(seen, uri), *last;
    uint32_t value;

    if (row == NULL)
        return;

    value = (uint32_t)(row - seen->rows) + 1;
    last = &seen->rows[seen->count - 1];
    tdg__map_remove(&seen->map, row->hash, value);
    tdg__free(row->uri);
    if (row != last) {
        tdg__map_replace(&seen->map, last->hash, (uint32_t)seen->count, value);
        *row = *last;
    }
    seen->count--;
}

void tdg__pg_seen_compare(const tdg__pg_seen_t *before, const tdg__pg_seen_t *after,
                          void (*differs)(void *arg, const char *uri), void *arg) {
    for (size_t i = 0; i < after->count; i++) {
        const struct tdg__pg_seen_row *now = &after->rows[i];
        const struct tdg__pg_seen_row *then = find(before, now->uri);

        if (then == NULL || then->digest != now->digest)
            differs(arg, now->uri);
    }
    for (size_t i = 0; i < before->count; i++)
        if (find(after, before->rows[i].uri) == NULL)
            differs(arg, before->rows[i].uri);
}

void tdg__pg_seen_each(const tdg__pg_seen_t *seen,
                       void (*visit)(void *arg, const char *uri), void *arg) {
    for (size_t i = 0; i < seen->count; i++)
        visit(arg, seen->rows[i].uri);
}

uint64_t tdg__pg_digest(const char *hex) {
    uint64_t digest = 0;

    for (size_t i = 0; i < 16; i++) {
        int value = tdg__hex_value(hex[i]);

        if (value < 0)
            return 0;
        digest = digest << 4 | (uint64_t)value;
    }
    return digest;
}

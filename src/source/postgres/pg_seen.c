/* SPDX-License-Identifier: MIT */
#include "source/postgres/pg_seen.h"

#include <assert.h>

#include <tidings/error.h>

#include "base/text.h"

struct row {
    tdg__record_t record; /* its name is the URI */
    uint64_t digest;
};

int tdg__pg_seen_init(tdg__pg_seen_t *seen, size_t max) {
    assert(max < UINT32_MAX);
    *seen = (tdg__pg_seen_t){.max = max};
    return tdg__records_init(&seen->rows, sizeof(struct row), NULL, NULL);
}

void tdg__pg_seen_done(tdg__pg_seen_t *seen) {
    tdg__records_done(&seen->rows);
    *seen = (tdg__pg_seen_t){.max = 0};
}

/* Stores the row of a URI, which may be a new one. */
static int make(tdg__pg_seen_t *seen, const char *uri, struct row **ret) {
    *ret = tdg__records_find(&seen->rows, uri);
    if (*ret != NULL)
        return 0;
    if (seen->rows.pool.count >= seen->max)
        return TDG_ETOOLARGE;
    *ret = tdg__records_add(&seen->rows, uri);
    return *ret != NULL ? 0 : TDG_ENOMEM;
}

int tdg__pg_seen_add(tdg__pg_seen_t *seen, const char *uri, uint64_t digest) {
    struct row *row;
    int rv = make(seen, uri, &row);

    if (rv == 0)
        row->digest += digest;
    return rv;
}

int tdg__pg_seen_set(tdg__pg_seen_t *seen, const char *uri, uint64_t digest) {
    struct row *row;
    int rv = make(seen, uri, &row);

    if (rv == 0)
        row->digest = digest;
    return rv;
}

bool tdg__pg_seen_get(const tdg__pg_seen_t *seen, const char *uri, uint64_t *ret) {
    const struct row *row = tdg__records_find(&seen->rows, uri);

    if (row != NULL)
        *ret = row->digest;
    return row != NULL;
}

void tdg__pg_seen_remove(tdg__pg_seen_t *seen, const char *uri) {
    struct row *row = tdg__records_find(&seen->rows, uri);

    if (row != NULL)
        tdg__records_remove(&seen->rows, &row->record);
}

void tdg__pg_seen_compare(const tdg__pg_seen_t *before, const tdg__pg_seen_t *after,
                          void (*differs)(void *arg, const char *uri), void *arg) {
    const struct row *row;

    for (uint32_t at = 0; (row = tdg__records_next(&after->rows, &at)) != NULL;) {
        const struct row *then = tdg__records_find(&before->rows, row->record.name);

        if (then == NULL || then->digest != row->digest)
            differs(arg, row->record.name);
    }
    for (uint32_t at = 0; (row = tdg__records_next(&before->rows, &at)) != NULL;)
        if (tdg__records_find(&after->rows, row->record.name) == NULL)
            differs(arg, row->record.name);
}

void tdg__pg_seen_each(const tdg__pg_seen_t *seen,
                       void (*visit)(void *arg, const char *uri), void *arg) {
    const struct row *row;

    for (uint32_t at = 0; (row = tdg__records_next(&seen->rows, &at)) != NULL;)
        visit(arg, row->record.name);
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

/* SPDX-License-Identifier: MIT
 *
 * A query with named parameters. What comes out has numbers where names were and is the
 * same elsewhere: with every $n put back it is the text that went in. The first line is
 * also read as the name of a table, whose quoted form is read as the same name again. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <tidings/error.h>

#include "source/postgres/pg_sql.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Walks both texts: where they differ, one has :name and the other its number. */
static void compare(const tdg__pg_sql_t *sql, const char *text, size_t len) {
    const char *out = sql->text, *end = text + len;

    while (text < end) {
        if (*out == *text) {
            out++;
            text++;
            continue;
        }

        assert(*text == ':' && *out == '$');
        char *behind;
        unsigned long number = strtoul(out + 1, &behind, 10);
        /* Digits that follow in the text cannot be there: a name takes them. */
        assert(number >= 1 && number <= sql->count);
        const char *name = sql->names[number - 1];

        assert((size_t)(end - text) > strlen(name));
        assert(memcmp(text + 1, name, strlen(name)) == 0);
        text += 1 + strlen(name);
        out = behind;
    }
    assert(*out == '\0');
}

static void check_table(const char *text) {
    tdg__pg_table_t table, again;
    char channel[TDG__PG_NAME_SIZE];
    tdg__text_t quoted;

    if (tdg__pg_table_parse(text, &table, NULL) < 0)
        return;
    tdg__pg_channel(&table, channel);
    assert(channel[0] != '\0' && strlen(channel) <= TDG__PG_NAME_MAX);
    tdg__text_init(&quoted, 1024);
    tdg__pg_put_table(&quoted, &table);
    assert(quoted.error == 0);
    assert(tdg__pg_table_parse(quoted.data, &again, NULL) == 0);
    assert(strcmp(table.schema, again.schema) == 0);
    assert(strcmp(table.name, again.name) == 0);
    tdg__text_done(&quoted);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    tdg__parse_error_t error = {.at = SIZE_MAX};
    tdg__pg_sql_t sql;
    char line[256];
    size_t len = 0;
    int rv = tdg__pg_sql_parse((const char *)data, size, &sql, &error);

    if (rv == 0) {
        compare(&sql, (const char *)data, size);
        tdg__pg_sql_done(&sql);
    } else {
        assert(error.at <= size && error.text[0] != '\0');
    }

    while (len < size && len + 1 < sizeof(line) && data[len] != '\n')
        len++;
    memcpy(line, data, len);
    line[len] = '\0';
    check_table(line);
    return 0;
}

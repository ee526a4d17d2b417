/* SPDX-License-Identifier: MIT */
#include "source/postgres/pg_sql.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <tidings/error.h>

#include "base/alloc.h"

/* ---- Parameters --------------------------------------------------------- */

struct lexer {
    const char *text;
    size_t len;
    size_t at;
    tdg__pg_sql_t *sql;
    tdg__text_t out;
    tdg__parse_error_t *error;
};

static char peek(const struct lexer *lexer, size_t ahead) {
    return lexer->len - lexer->at > ahead ? lexer->text[lexer->at + ahead] : '\0';
}

static bool is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
           (unsigned char)c >= 0x80;
}

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

static void copy(struct lexer *lexer, size_t len) {
    tdg__text_add(&lexer->out, lexer->text + lexer->at, len);
    lexer->at += len;
}

static int unfinished(struct lexer *lexer, size_t start, const char *what) {
    return tdg__parse_fail(lexer->error, TDG_EINVAL, start, "this %s does not end", what);
}

/* From the opening quote on. A doubled quote is one inside; so is one behind a backslash
 * where `escapes`. */
static int lex_quoted(struct lexer *lexer, char quote, bool escapes) {
    size_t start = lexer->at;

    copy(lexer, 1);
    while (lexer->at < lexer->len) {
        if (peek(lexer, 0) == '\\' && escapes && lexer->len - lexer->at > 1)
            copy(lexer, 2);
        else if (peek(lexer, 0) != quote)
            copy(lexer, 1);
        else if (peek(lexer, 1) == quote)
            copy(lexer, 2);
        else {
            copy(lexer, 1);
            return 0;
        }
    }
    return unfinished(lexer, start, quote == '"' ? "name in quotes" : "string");
}

/* A string goes on behind a line break, with the rules of its first part. */
static bool string_goes_on(const struct lexer *lexer) {
    size_t at = lexer->at;
    bool newline = false;

    while (at < lexer->len && lexer->text[at] != '\0' &&
           strchr(" \t\r\n\f", lexer->text[at])) {
        newline |= lexer->text[at] == '\n' || lexer->text[at] == '\r';
        at++;
    }
    return newline && at < lexer->len && lexer->text[at] == '\'';
}

static int lex_escape_string(struct lexer *lexer) {
    int rv = lex_quoted(lexer, '\'', true);

    while (rv == 0 && string_goes_on(lexer)) {
        while (peek(lexer, 0) != '\'')
            copy(lexer, 1);
        rv = lex_quoted(lexer, '\'', true);
    }
    return rv;
}

static int lex_block_comment(struct lexer *lexer) {
    size_t start = lexer->at, depth = 0;

    do {
        if (peek(lexer, 0) == '/' && peek(lexer, 1) == '*') {
            depth++;
            copy(lexer, 2);
        } else if (peek(lexer, 0) == '*' && peek(lexer, 1) == '/') {
            depth--;
            copy(lexer, 2);
        } else if (lexer->at < lexer->len) {
            copy(lexer, 1);
        } else {
            return unfinished(lexer, start, "comment");
        }
    } while (depth > 0);
    return 0;
}

static int lex_line_comment(struct lexer *lexer) {
    while (lexer->at < lexer->len && peek(lexer, 0) != '\n' && peek(lexer, 0) != '\r')
        copy(lexer, 1);
    return 0;
}

/* At a '$' that is not part of a name: $tag$…$tag$, or $1. */
static int lex_dollar(struct lexer *lexer) {
    size_t start = lexer->at, tag = 1;

    if (is_digit(peek(lexer, 1)))
        return tdg__parse_fail(lexer->error, TDG_EINVAL, start,
                               "parameters have names here, such as :id, not numbers");
    while (is_letter(peek(lexer, tag)) || (tag > 1 && is_digit(peek(lexer, tag))))
        tag++;
    if (peek(lexer, tag) != '$') {
        copy(lexer, 1);
        return 0;
    }

    tag++;
    copy(lexer, tag);
    for (; lexer->len - lexer->at >= tag; copy(lexer, 1)) {
        if (memcmp(lexer->text + lexer->at, lexer->text + start, tag) == 0) {
            copy(lexer, tag);
            return 0;
        }
    }
    return unfinished(lexer, start, "dollar quote");
}

/* The number of a parameter, from 1; a name that is new gets the next. 0: out of memory
 * or too many. */
static size_t number_of(tdg__pg_sql_t *sql, const char *name, size_t len) {
    for (size_t i = 0; i < sql->count; i++)
        if (strlen(sql->names[i]) == len && memcmp(sql->names[i], name, len) == 0)
            return i + 1;

    if (sql->count == TDG__TEMPLATE_MAX_NAMES)
        return 0;
    sql->names[sql->count] = tdg__strndup(name, len);
    return sql->names[sql->count] != NULL ? ++sql->count : 0;
}

static int lex_colon(struct lexer *lexer) {
    size_t len = 0, number;

    if (peek(lexer, 1) == ':' || peek(lexer, 1) == '=') {
        copy(lexer, 2);
        return 0;
    }
    if (!is_letter(peek(lexer, 1))) {
        copy(lexer, 1);
        return 0;
    }

    while (is_letter(peek(lexer, 1 + len)) || is_digit(peek(lexer, 1 + len)))
        len++;
    number = number_of(lexer->sql, lexer->text + lexer->at + 1, len);
    if (number == 0 && lexer->sql->count == TDG__TEMPLATE_MAX_NAMES)
        return tdg__parse_fail(lexer->error, TDG_EINVAL, lexer->at,
                               "more than %d different parameters",
                               TDG__TEMPLATE_MAX_NAMES);
    if (number == 0)
        return TDG_ENOMEM;

    tdg__text_format(&lexer->out, "$%zu", number);
    lexer->at += 1 + len;
    /* `:a1` beside a digit would become another number. A name has taken all digits. */
    return 0;
}

/* A word: a name or a keyword. One letter may begin a string of another kind. */
static int lex_word(struct lexer *lexer) {
    size_t start = lexer->at;

    while (is_letter(peek(lexer, 0)) || is_digit(peek(lexer, 0)) || peek(lexer, 0) == '$')
        copy(lexer, 1);
    if (lexer->at - start == 1 &&
        (lexer->text[start] == 'e' || lexer->text[start] == 'E') &&
        peek(lexer, 0) == '\'')
        return lex_escape_string(lexer);
    return 0;
}

static int lex_one(struct lexer *lexer) {
    char c = peek(lexer, 0);

    if (c == '\0')
        return tdg__parse_fail(lexer->error, TDG_EINVAL, lexer->at, "a NUL byte");
    if (c == '\'' || c == '"')
        return lex_quoted(lexer, c, false);
    if (c == '-' && peek(lexer, 1) == '-')
        return lex_line_comment(lexer);
    if (c == '/' && peek(lexer, 1) == '*')
        return lex_block_comment(lexer);
    if (c == '$')
        return lex_dollar(lexer);
    if (c == ':')
        return lex_colon(lexer);
    if (is_letter(c))
        return lex_word(lexer);
    copy(lexer, 1);
    return 0;
}

int tdg__pg_sql_parse(const char *sql, size_t len, tdg__pg_sql_t *ret,
                      tdg__parse_error_t *error) {
    tdg__pg_sql_t result = {NULL, {NULL}, 0};
    struct lexer lexer = {.text = sql, .len = len, .sql = &result, .error = error};
    int rv = 0;

    if (len > TDG__PG_SQL_MAX)
        return tdg__parse_fail(error, TDG_ETOOLARGE, 0, "a query has at most %d bytes",
                               TDG__PG_SQL_MAX);

    /* A name of one letter may become "$16". */
    tdg__text_init(&lexer.out, 2 * TDG__PG_SQL_MAX);
    tdg__text_add(&lexer.out, "", 0);
    while (rv == 0 && lexer.at < len && lexer.out.error == 0)
        rv = lex_one(&lexer);
    if (rv == 0)
        rv = lexer.out.error;
    result.text = lexer.out.data;
    if (rv < 0) {
        tdg__pg_sql_done(&result);
        return rv;
    }
    *ret = result;
    return 0;
}

void tdg__pg_sql_done(tdg__pg_sql_t *sql) {
    tdg__free(sql->text);
    for (size_t i = 0; i < sql->count; i++)
        tdg__free(sql->names[i]);
    *sql = (tdg__pg_sql_t){NULL, {NULL}, 0};
}

/* ---- Names -------------------------------------------------------------- */

const char *tdg__pg_name_parse(const char *text, char stop, char ret[TDG__PG_NAME_SIZE],
                               tdg__parse_error_t *error) {
    const char *at = text;
    bool quoted = *at == '"';
    size_t len = 0;

    if (quoted)
        at++;
    for (; *at != '\0'; at++) {
        char c = *at;

        if (quoted && c == '"' && *++at != '"') {
            quoted = false;
            break;
        }
        if (!quoted && text[0] != '"') {
            if (c == stop)
                break;
            if (!is_letter(c) && !(at > text && (is_digit(c) || c == '$'))) {
                tdg__parse_fail(error, TDG_EINVAL, (size_t)(at - text),
                                "'%c' is not part of a plain name; put the name in "
                                "double quotes",
                                c);
                return NULL;
            }
            if (c >= 'A' && c <= 'Z')
                c = (char)(c | 0x20);
        }
        if (len == TDG__PG_NAME_MAX) {
            tdg__parse_fail(error, TDG_EINVAL, (size_t)(at - text),
                            "a name has at most %d bytes", TDG__PG_NAME_MAX);
            return NULL;
        }
        ret[len++] = c;
    }

    ret[len] = '\0';
    if (quoted || len == 0 || (*at != '\0' && *at != stop)) {
        tdg__parse_fail(error, TDG_EINVAL, (size_t)(at - text), "%s",
                        quoted     ? "the closing quote is missing"
                        : len == 0 ? "a name is empty"
                                   : "the name continues after its closing quote");
        return NULL;
    }
    return at;
}

int tdg__pg_table_parse(const char *text, tdg__pg_table_t *ret,
                        tdg__parse_error_t *error) {
    tdg__pg_table_t table = {"public", ""};
    const char *at = tdg__pg_name_parse(text, '.', table.name, error);

    if (at != NULL && *at == '.') {
        memcpy(table.schema, table.name, sizeof(table.schema));
        at = tdg__pg_name_parse(at + 1, '\0', table.name, error);
    }
    if (at == NULL)
        return TDG_EINVAL;
    *ret = table;
    return 0;
}

/* FNV-1a: the name must be the same on every machine and in every process, so it cannot
 * be the keyed hash; nobody gains by a collision but the owner of both tables. */
static uint64_t name_hash(const char *text) {
    uint64_t hash = UINT64_C(0xcbf29ce484222325);

    for (; *text != '\0'; text++)
        hash = (hash ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
    return hash;
}

void tdg__pg_channel(const tdg__pg_table_t *table, char ret[TDG__PG_NAME_SIZE]) {
    enum { HASH = 16 };
    char full[sizeof("tidings__") + 2 * TDG__PG_NAME_SIZE];
    int len = snprintf(full, sizeof(full), "tidings_%s_%s", table->schema, table->name);
    size_t cut;

    if (len <= TDG__PG_NAME_MAX) {
        memcpy(ret, full, (size_t)len + 1);
        return;
    }
    cut = tdg__utf8_cut(full, TDG__PG_NAME_MAX - HASH - 1);
    snprintf(ret, TDG__PG_NAME_SIZE, "%.*s_%016llx", (int)cut, full,
             (unsigned long long)name_hash(full));
}

static void put_doubled(tdg__text_t *out, const char *text, char quote) {
    tdg__text_add(out, &quote, 1);
    for (; *text != '\0'; text++) {
        if (*text == quote)
            tdg__text_add(out, &quote, 1);
        tdg__text_add(out, text, 1);
    }
    tdg__text_add(out, &quote, 1);
}

void tdg__pg_put_name(tdg__text_t *out, const char *name) {
    put_doubled(out, name, '"');
}

void tdg__pg_put_table(tdg__text_t *out, const tdg__pg_table_t *table) {
    tdg__pg_put_name(out, table->schema);
    tdg__text_put(out, ".");
    tdg__pg_put_name(out, table->name);
}

void tdg__pg_put_literal(tdg__text_t *out, const char *value) {
    if (strchr(value, '\\') == NULL) {
        put_doubled(out, value, '\'');
        return;
    }

    /* E'…' means the same under every setting. */
    tdg__text_put(out, " E'");
    for (; *value != '\0'; value++) {
        if (*value == '\'' || *value == '\\')
            tdg__text_add(out, value, 1);
        tdg__text_add(out, value, 1);
    }
    tdg__text_put(out, "'");
}

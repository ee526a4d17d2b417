/* SPDX-License-Identifier: MIT */
#include "source/files/files_glob.h"

#include <stdint.h>
#include <string.h>

#include <tidings/error.h>

#include "base/alloc.h"

enum op {
    CHAR,    /* this one */
    ANY,     /* one, but no '/' */
    CLASS,   /* one of the set, but no '/' */
    STAR,    /* any number, but no '/' */
    FOLDERS, /* any number of whole names, each with its '/' */
};

struct token {
    uint8_t op;
    bool negated;   /* CLASS */
    uint16_t first; /* CLASS: its ranges */
    uint16_t count;
    uint32_t c; /* CHAR */
};

struct range {
    uint32_t from, to;
};

struct glob {
    bool inside; /* ends in '/': only what is in the folder */
    uint16_t n_tokens;
    struct token *tokens;
    struct range *ranges; /* of all classes */
};

struct tdg__globs {
    size_t count, room;
    struct glob *list;
};

/* ---- Characters --------------------------------------------------------- */

/* The character at `text` and how many bytes it has. What is no UTF-8 is a byte, with a
 * number that no character has. */
static uint32_t next_char(const char *text, size_t *ret_len) {
    const unsigned char *s = (const unsigned char *)text;
    size_t len = s[0] < 0xc2   ? 1
                 : s[0] < 0xe0 ? 2
                 : s[0] < 0xf0 ? 3
                 : s[0] < 0xf5 ? 4
                               : 1;
    uint32_t c = s[0] & (0xffu >> (len + 1));

    *ret_len = 1;
    if (s[0] < 0x80)
        return s[0];
    if (len == 1)
        return 0x110000u + s[0];
    for (size_t i = 1; i < len; i++) {
        if ((s[i] & 0xc0) != 0x80) /* also at the NUL */
            return 0x110000u + s[0];
        c = c << 6 | (s[i] & 0x3f);
    }
    *ret_len = len;
    return c;
}

/* ---- Compiling ---------------------------------------------------------- */

struct reader {
    const char *text;
    size_t at;
    struct glob *glob;
    uint16_t n_ranges;
    tdg__parse_error_t *error;
};

static void add_token(struct reader *r, enum op op, uint32_t c) {
    r->glob->tokens[r->glob->n_tokens++] = (struct token){.op = (uint8_t)op, .c = c};
}

static int read_escaped(struct reader *r, uint32_t *ret) {
    size_t len;

    if (r->text[r->at] == '\\')
        r->at++;
    if (r->text[r->at] == '\0')
        return tdg__parse_fail(r->error, TDG_EINVAL, r->at,
                               "the pattern ends where a character was expected");
    *ret = next_char(r->text + r->at, &len);
    r->at += len;
    return 0;
}

static int read_class(struct reader *r) {
    size_t begin = r->at++;
    struct token token = {.op = CLASS, .first = r->n_ranges};
    bool is_first = true;
    int rv;

    if (r->text[r->at] == '!' || r->text[r->at] == '^') {
        token.negated = true;
        r->at++;
    }
    for (; r->text[r->at] != ']' || is_first; is_first = false) {
        struct range range;

        if (r->text[r->at] == '\0')
            return tdg__parse_fail(r->error, TDG_EINVAL, begin, "[ without ]");
        rv = read_escaped(r, &range.from);
        if (rv < 0)
            return rv;
        range.to = range.from;
        if (r->text[r->at] == '-' && r->text[r->at + 1] != ']' &&
            r->text[r->at + 1] != '\0') {
            r->at++;
            rv = read_escaped(r, &range.to);
            if (rv < 0)
                return rv;
        }
        if (range.to < range.from)
            return tdg__parse_fail(r->error, TDG_EINVAL, begin, "a range runs backwards");
        r->glob->ranges[r->n_ranges++] = range;
        token.count++;
    }
    r->at++;
    r->glob->tokens[r->glob->n_tokens++] = token;
    return 0;
}

/* "**" as a whole name stands for folders; anywhere else it is a "*". */
static void read_stars(struct reader *r) {
    bool begins = r->at == 0 || r->text[r->at - 1] == '/';
    size_t stars = strspn(r->text + r->at, "*");
    char after = r->text[r->at + stars];

    r->at += stars;
    if (stars == 2 && begins && after == '/') {
        add_token(r, FOLDERS, 0);
        r->at++;
    } else if (stars == 2 && begins && after == '\0') {
        add_token(r, FOLDERS, 0); /* and the last name */
        add_token(r, ANY, 0);
        add_token(r, STAR, 0);
    } else {
        add_token(r, STAR, 0);
    }
}

static int read_tokens(struct reader *r) {
    int rv = 0;

    while (rv == 0 && r->text[r->at] != '\0') {
        uint32_t c;

        switch (r->text[r->at]) {
        case '*':
            read_stars(r);
            break;
        case '?':
            add_token(r, ANY, 0);
            r->at++;
            break;
        case '[':
            rv = read_class(r);
            break;
        default:
            rv = read_escaped(r, &c);
            if (rv == 0)
                add_token(r, CHAR, c);
        }
    }
    return rv;
}

/* One pattern without braces. */
static int compile(const char *text, struct glob *glob, tdg__parse_error_t *error) {
    size_t len = strlen(text);
    struct reader r = {.text = text, .glob = glob, .error = error};
    char copy[TDG__GLOB_MAX_LEN + 1];

    if (len > TDG__GLOB_MAX_LEN)
        return tdg__parse_fail(error, TDG_EINVAL, 0, "longer than %d bytes",
                               TDG__GLOB_MAX_LEN);
    memcpy(copy, text, len + 1);
    if (len > 1 && copy[len - 1] == '/' && copy[len - 2] != '\\') {
        glob->inside = true;
        copy[len - 1] = '\0';
    }
    r.text = copy;
    if (copy[0] == '/')
        r.text++;
    if (r.text[0] == '\0')
        return tdg__parse_fail(error, TDG_EINVAL, 0, "an empty pattern");

    /* A byte makes one token, "**" at the end two more; a range has at least one byte. */
    glob->tokens = tdg__calloc(len + 4, sizeof(*glob->tokens));
    glob->ranges = tdg__calloc(len + 1, sizeof(*glob->ranges));
    if (glob->tokens == NULL || glob->ranges == NULL)
        return TDG_ENOMEM;

    if (strchr(copy, '/') == NULL)
        add_token(&r, FOLDERS, 0);
    return read_tokens(&r);
}

static void glob_done(struct glob *glob) {
    tdg__free(glob->tokens);
    tdg__free(glob->ranges);
}

static int add_glob(tdg__globs_t *globs, const char *text, tdg__parse_error_t *error) {
    struct glob glob = {0};

    if (globs->count == globs->room) {
        size_t room = globs->room * 2 + 4;
        struct glob *list = tdg__reallocarray(globs->list, room, sizeof(*list));
        if (list == NULL)
            return TDG_ENOMEM;
        globs->list = list;
        globs->room = room;
    }

    int rv = compile(text, &glob, error);
    if (rv < 0) {
        glob_done(&glob);
        return rv;
    }
    globs->list[globs->count++] = glob;
    return 0;
}

/* ---- {a,b} -------------------------------------------------------------- */

/* The first byte at or after `at` that is in `wanted`, outside of classes and escapes,
 * and outside of inner braces where `inner` is given. */
static size_t find_byte(const char *text, size_t at, const char *wanted, bool inner) {
    unsigned depth = 0;

    for (; text[at] != '\0'; at++) {
        if (depth == 0 && strchr(wanted, text[at]) != NULL)
            return at;
        if (text[at] == '\\' && text[at + 1] != '\0') {
            at++;
        } else if (text[at] == '[') {
            /* The first character of a class may be ']'. */
            size_t from = at + 1 + (text[at + 1] == '!' || text[at + 1] == '^');
            const char *end = text[from] != '\0' ? strchr(text + from + 1, ']') : NULL;

            if (end != NULL)
                at = (size_t)(end - text);
        } else if (inner && text[at] == '{') {
            depth++;
        } else if (inner && text[at] == '}') {
            depth--;
        }
    }
    return at;
}

/* Writes the first {a,b} out, once for each branch, and goes on with the results. Each
 * level takes one pair of braces away, and branches are counted over all levels. */
static int add_branches(tdg__globs_t *globs, const char *text, unsigned *branches,
                        tdg__parse_error_t *error) {
    size_t open = find_byte(text, 0, "{", false);
    int rv;

    if (text[open] == '\0')
        return add_glob(globs, text, error);

    for (size_t from = open + 1, close = from;; from = close + 1) {
        char one[TDG__GLOB_MAX_LEN + 1];
        size_t end, tail;

        close = find_byte(text, from, ",}", true);
        end = close;
        while (text[end] == ',')
            end = find_byte(text, end + 1, ",}", true);
        if (text[end] == '\0')
            return tdg__parse_fail(error, TDG_EINVAL, open, "{ without }");
        if (++*branches > TDG__GLOB_MAX_BRANCHES)
            return tdg__parse_fail(error, TDG_EINVAL, open,
                                   "more than %d branches in {...}",
                                   TDG__GLOB_MAX_BRANCHES);
        tail = strlen(text + end + 1);
        memcpy(one, text, open);
        memcpy(one + open, text + from, close - from);
        memcpy(one + open + (close - from), text + end + 1, tail + 1);
        rv = add_branches(globs, one, branches, error);
        if (rv < 0 || text[close] == '}')
            return rv;
    }
}

int tdg__globs_create(const char *const *patterns, tdg__globs_t **ret, size_t *ret_bad,
                      tdg__parse_error_t *error) {
    tdg__globs_t *globs = tdg__calloc(1, sizeof(*globs));
    int rv = 0;

    if (globs == NULL)
        return TDG_ENOMEM;

    for (size_t i = 0; rv == 0 && patterns != NULL && patterns[i] != NULL; i++) {
        unsigned branches = 0;

        *ret_bad = i;
        if (i == TDG__GLOBS_MAX)
            rv = tdg__parse_fail(error, TDG_EINVAL, 0, "more than %d patterns",
                                 TDG__GLOBS_MAX);
        else if (strlen(patterns[i]) > TDG__GLOB_MAX_LEN)
            rv = tdg__parse_fail(error, TDG_EINVAL, 0, "longer than %d bytes",
                                 TDG__GLOB_MAX_LEN);
        else
            rv = add_branches(globs, patterns[i], &branches, error);
    }
    if (rv < 0) {
        tdg__globs_destroy(globs);
        return rv;
    }
    *ret = globs;
    return 0;
}

void tdg__globs_destroy(tdg__globs_t *globs) {
    if (globs == NULL)
        return;
    for (size_t i = 0; i < globs->count; i++)
        glob_done(&globs->list[i]);
    tdg__free(globs->list);
    tdg__free(globs);
}

bool tdg__globs_are_empty(const tdg__globs_t *globs) {
    return globs->count == 0;
}

/* ---- Matching ----------------------------------------------------------- */

enum { MAX_PLACES = TDG__GLOB_MAX_LEN + 5 };

/* The places before a token that can be reached; the last is behind all of them. */
struct places {
    bool on[MAX_PLACES];
};

/* STAR and FOLDERS may stand for nothing. */
static void reach(const struct glob *glob, struct places *places, size_t place) {
    while (place < glob->n_tokens &&
           (glob->tokens[place].op == STAR || glob->tokens[place].op == FOLDERS)) {
        places->on[place] = true;
        place++;
    }
    places->on[place] = true;
}

static bool class_has(const struct glob *glob, const struct token *token, uint32_t c) {
    for (uint16_t i = 0; i < token->count; i++) {
        const struct range *range = &glob->ranges[token->first + i];

        if (c >= range->from && c <= range->to)
            return !token->negated;
    }
    return token->negated;
}

static bool takes(const struct glob *glob, const struct token *token, uint32_t c) {
    switch (token->op) {
    case CHAR:
        return token->c == c;
    case CLASS:
        return c != '/' && class_has(glob, token, c);
    case FOLDERS:
        return true;
    default:
        return c != '/';
    }
}

/* Where one more character leads. FOLDERS swallows all, and lets go of it behind a '/'
 * only: the place after it stands at the beginning of a name. */
static void step(const struct glob *glob, const struct places *from, uint32_t c,
                 struct places *to) {
    memset(to->on, 0, glob->n_tokens + 1u);
    for (size_t i = 0; i < glob->n_tokens; i++) {
        const struct token *token = &glob->tokens[i];

        if (!from->on[i] || !takes(glob, token, c))
            continue;
        if (token->op == FOLDERS) {
            if (c == '/')
                reach(glob, to, i);
            to->on[i] = true;
        } else {
            reach(glob, to, token->op == STAR ? i : i + 1);
        }
    }
}

static bool matches(const struct glob *glob, const char *path) {
    struct places a, b, *now = &a, *then = &b;
    size_t len;

    memset(now->on, 0, glob->n_tokens + 1u);
    reach(glob, now, 0);
    for (; *path != '\0'; path += len) {
        uint32_t c = next_char(path, &len);
        struct places *swap = now;

        if (c == '/' && now->on[glob->n_tokens])
            return true; /* a folder on the way */
        step(glob, now, c, then);
        now = then;
        then = swap;
    }
    return now->on[glob->n_tokens] && !glob->inside;
}

bool tdg__globs_match(const tdg__globs_t *globs, const char *path) {
    for (size_t i = 0; i < globs->count; i++)
        if (matches(&globs->list[i], path))
            return true;
    return false;
}

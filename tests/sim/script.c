/* SPDX-License-Identifier: MIT */
#include "script.h"

#include <stdlib.h>
#include <string.h>

#include "cast.h"

enum field {
    NOTHING = 0,
    CLIENT = 1 << 0,
    TARGET = 1 << 1,
    MS = 1 << 2,
    WALL = 1 << 3,
    DELTA = 1 << 4,
    THEN = 1 << 5,
    COUNT = 1 << 6,
    TIMING = 1 << 7,
    RATE = 1 << 8,
    FILTER = 1 << 9,
    PRIORITY = 1 << 10,
    CURSOR = 1 << 11,
    WATCH = 1 << 12,
    RESULT = 1 << 13,
    SIZE = 1 << 14,
    KIND = 1 << 15,
    AGE = 1 << 16,
    GAP = 1 << 17,
    FLOOR = 1 << 18,
};

static const struct {
    const char *name;
    unsigned weight;
    unsigned fields;
} kinds[OP_KINDS] = {
#define OP_ROW(name, text, weight, fields) {text, weight, fields},
    OPERATIONS(OP_ROW)
#undef OP_ROW
};

static const struct {
    const char *name;
    size_t offset;
    enum field field;
} fields[] = {
    {"client", offsetof(struct op, client), CLIENT},
    {"target", offsetof(struct op, target), TARGET},
    {"ms", offsetof(struct op, ms), MS},
    {"wall", offsetof(struct op, wall), WALL},
    {"delta", offsetof(struct op, delta), DELTA},
    {"then", offsetof(struct op, then), THEN},
    {"count", offsetof(struct op, count), COUNT},
    {"timing", offsetof(struct op, timing), TIMING},
    {"rate", offsetof(struct op, rate), RATE},
    {"filter", offsetof(struct op, filter), FILTER},
    {"priority", offsetof(struct op, priority), PRIORITY},
    {"cursor", offsetof(struct op, cursor), CURSOR},
    {"watch", offsetof(struct op, watch), WATCH},
    {"result", offsetof(struct op, result), RESULT},
    {"size", offsetof(struct op, size), SIZE},
    {"kind", offsetof(struct op, kind_of), KIND},
    {"age", offsetof(struct op, age), AGE},
    {"gap", offsetof(struct op, gap), GAP},
    {"floor", offsetof(struct op, floor), FLOOR},
};

enum { FIELDS = sizeof(fields) / sizeof(fields[0]) };

static int32_t *field_of(struct op *op, size_t offset) {
    return (int32_t *)(void *)((char *)op + offset);
}

/* SplitMix64. */
uint64_t sim_random(uint64_t *state) {
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* ---- Making ------------------------------------------------------------- */

static int below(uint64_t *rng, int limit) {
    return (int)(sim_random(rng) % (uint64_t)limit);
}

static bool one_in(uint64_t *rng, int n) {
    return below(rng, n) == 0;
}

static enum op_kind some_kind(uint64_t *rng) {
    static unsigned total;
    unsigned left;
    int kind;

    if (total == 0)
        for (kind = 0; kind < OP_KINDS; kind++)
            total += kinds[kind].weight;

    left = (unsigned)below(rng, (int)total);
    for (kind = 0; left >= kinds[kind].weight; kind++)
        left -= kinds[kind].weight;
    return (enum op_kind)kind;
}

/* Mostly within the windows of the cast, now and then beyond everything. */
static int some_ms(uint64_t *rng) {
    if (one_in(rng, 40))
        return 500 + below(rng, 1500);
    if (one_in(rng, 8))
        return below(rng, 200);
    if (one_in(rng, 30))
        return -below(rng, 50);
    return below(rng, 25);
}

static int some_target(uint64_t *rng, enum op_kind kind) {
    switch (kind) {
    case OP_CHANGED:
        return one_in(rng, 10) ? URIS + below(rng, LISTS) : below(rng, URIS);
    case OP_RIGHT:
        return below(rng, URIS);
    case OP_DELETED:
    case OP_UNSEEN:
        return below(rng, one_in(rng, 12) ? RESOURCES : URIS);
    case OP_ACKNOWLEDGE:
    case OP_WATCH_DONE:
        return one_in(rng, 3) ? ALL : below(rng, TARGETS);
    case OP_CONFIGURE:
    case OP_SET_RATE:
        return one_in(rng, 12)  ? below(rng, TARGETS)
               : one_in(rng, 2) ? below(rng, URIS)
                                : RESOURCES + below(rng, TEMPLATES);
    default:
        return one_in(rng, 3) ? RESOURCES + below(rng, TEMPLATES) : below(rng, RESOURCES);
    }
}

static int some_cursor(uint64_t *rng) {
    int roll = below(rng, 20);

    return roll < 9    ? CURSOR_NONE
           : roll < 13 ? CURSOR_OWN
           : roll < 14 ? CURSOR_FOREIGN
           : roll < 15 ? CURSOR_SINCE
           : roll < 16 ? CURSOR_AHEAD
                       : CURSOR_KEPT + below(rng, CURSOR_KINDS - CURSOR_KEPT);
}

static int some_count(uint64_t *rng, enum op_kind kind) {
    switch (kind) {
    case OP_DROP: /* how many of the last messages never arrived */
    case OP_REWIND:
        return one_in(rng, 2) ? 0 : below(rng, 6);
    case OP_TAKE:
        return 1 + below(rng, 4);
    case OP_FLUSH:
        return one_in(rng, 3) ? 1 : 1000;
    case OP_PAGE:
        return 1 + below(rng, 5);
    case OP_RIGHT: /* given or taken away */
        return below(rng, 2);
    default:
        return below(rng, 1000);
    }
}

static struct op some_op(uint64_t *rng) {
    struct op op = {0};

    op.kind = some_kind(rng);
    op.client = below(rng, CLIENTS);
    op.target = some_target(rng, op.kind);
    op.ms = some_ms(rng);
    op.wall = one_in(rng, 50) ? below(rng, 2000) - 1000 : 0;
    op.delta = below(rng, 3) - 1;
    op.then = one_in(rng, 3) ? below(rng, THEN_KINDS) : THEN_NOTHING;
    op.count = some_count(rng, op.kind);
    op.timing = one_in(rng, 2) ? 0 : below(rng, TIMINGS);
    op.rate = one_in(rng, 2) ? 0 : below(rng, RATES);
    op.floor = one_in(rng, 2) ? 0 : below(rng, FLOORS);
    op.filter = one_in(rng, 2) ? 0 : below(rng, FILTERS);
    op.priority = one_in(rng, 2) ? 0 : below(rng, 3) - 1;
    op.cursor = some_cursor(rng);
    op.watch = one_in(rng, 25) ? WATCH_REFUSED : below(rng, 2);
    op.result = one_in(rng, 12) ? TDG__WATCH_FAILED : below(rng, 2);
    op.size = one_in(rng, 4) ? 0 : one_in(rng, 2) ? 5 : 20;
    op.kind_of = below(rng, KINDS);
    op.age = one_in(rng, 4) ? below(rng, 300) : 0;
    op.gap = one_in(rng, op.kind == OP_WATCH_DONE ? 2 : 6) ? below(rng, 4) : -1;
    return op;
}

/* Some things come in pairs more often than by chance. */
static void follow(uint64_t *rng, const struct op *before, struct op *op) {
    if (before->kind == OP_DROP && one_in(rng, 2))
        op->kind = OP_RESUME;
    else if (before->kind == OP_SUBSCRIBE && one_in(rng, 3))
        op->kind = OP_ACKNOWLEDGE;
    else if (before->kind == OP_SUBSCRIBE && one_in(rng, 6))
        op->kind = OP_SUBSCRIBE;
    else
        return;

    op->client = before->client;
    op->target = before->target;
}

static struct op some_op_of(uint64_t *rng, enum op_kind kind, int client) {
    struct op op = some_op(rng);

    op.kind = kind;
    op.client = client;
    op.target = some_target(rng, kind);
    op.count = some_count(rng, kind);
    return op;
}

/* Chance alone seldom tells this story: the connections of most clients break for longer
 * than watchers linger, things happen that nobody sees, and all come back. Returns how
 * many operations it took, at most `room`. */
static size_t outage(uint64_t *rng, struct op *ops, size_t room) {
    bool away[CLIENTS];
    size_t n = 0;
    int c;
    int i;

    if (room < 2 * CLIENTS + 8)
        return 0;
    for (c = 0; c < CLIENTS; c++) {
        away[c] = !one_in(rng, 8);
        if (away[c])
            ops[n++] = some_op_of(rng, OP_DROP, c);
    }
    ops[n] = some_op_of(rng, OP_ADVANCE, 0);
    ops[n++].ms = 250 + below(rng, 300);
    for (i = 1 + below(rng, 5); i > 0; i--)
        ops[n++] = some_op_of(rng, one_in(rng, 3) ? OP_CHANGED : OP_UNSEEN, 0);
    for (c = 0; c < CLIENTS; c++)
        if (away[c])
            ops[n++] = some_op_of(rng, OP_RESUME, c);
    if (!one_in(rng, 3))
        ops[n++] = some_op_of(rng, OP_QUIET, 0);
    return n;
}

struct script script_generate(uint64_t seed, size_t count) {
    struct script script;
    uint64_t rng = seed;
    size_t i;

    script.world = below(&rng, WORLDS);
    script.abrupt = one_in(&rng, 4);
    script.count = count;
    script.ops = malloc(count * sizeof(script.ops[0]));
    if (script.ops == NULL)
        abort();
    for (i = 0; i < count; i++) {
        if (one_in(&rng, 200))
            i += outage(&rng, &script.ops[i], count - i - 1);
        script.ops[i] = some_op(&rng);
        if (i > 0)
            follow(&rng, &script.ops[i - 1], &script.ops[i]);
    }
    return script;
}

struct script script_copy(const struct script *script) {
    struct script copy = *script;

    copy.ops = malloc((script->count + 1) * sizeof(copy.ops[0]));
    if (copy.ops == NULL)
        abort();
    memcpy(copy.ops, script->ops, script->count * sizeof(copy.ops[0]));
    return copy;
}

void script_done(struct script *script) {
    free(script->ops);
    script->ops = NULL;
    script->count = 0;
}

/* ---- Writing and reading ------------------------------------------------ */

void script_print_op(FILE *out, const struct op *op) {
    struct op copy = *op;
    unsigned used = kinds[op->kind].fields;
    int i;

    fprintf(out, "%s", kinds[op->kind].name);
    for (i = 0; i < FIELDS; i++)
        if (used & fields[i].field)
            fprintf(out, " %s=%d", fields[i].name, *field_of(&copy, fields[i].offset));
    if ((used & TARGET) && op->target >= 0)
        fprintf(out, " # %s", cast_target(op->target).name);
    fputc('\n', out);
}

void script_print(FILE *out, const struct script *script) {
    size_t i;

    fprintf(out, "world %d # %s\n", script->world, cast_worlds[script->world].name);
    if (script->abrupt)
        fprintf(out, "abrupt\n");
    for (i = 0; i < script->count; i++)
        script_print_op(out, &script->ops[i]);
}

static bool read_field(struct op *op, const char *word) {
    const char *equals = strchr(word, '=');
    int i;

    if (equals == NULL)
        return false;
    for (i = 0; i < FIELDS; i++) {
        if (strlen(fields[i].name) == (size_t)(equals - word) &&
            strncmp(fields[i].name, word, (size_t)(equals - word)) == 0) {
            *field_of(op, fields[i].offset) = (int32_t)strtol(equals + 1, NULL, 10);
            return true;
        }
    }
    return false;
}

static bool in_range(const struct op *op) {
    return op->client >= 0 && op->client < CLIENTS && op->target >= ALL &&
           op->target < TARGETS && op->timing >= 0 && op->timing < TIMINGS &&
           op->rate >= 0 && op->rate < RATES && op->floor >= 0 && op->floor < FLOORS &&
           op->filter >= 0 && op->filter < FILTERS && op->cursor >= 0 &&
           op->cursor < CURSOR_KINDS && op->kind_of >= 0 && op->kind_of < KINDS;
}

static bool read_op(char *line, struct op *ret) {
    struct op op = {.gap = -1};
    char *rest = NULL;
    char *word = strtok_r(line, " \t\n", &rest);
    int kind;

    for (kind = 0; kind < OP_KINDS && strcmp(word, kinds[kind].name) != 0; kind++)
        ;
    if (kind == OP_KINDS)
        return false;
    op.kind = (enum op_kind)kind;

    while ((word = strtok_r(NULL, " \t\n", &rest)) != NULL)
        if (!read_field(&op, word))
            return false;

    *ret = op;
    return in_range(&op);
}

bool script_read(FILE *in, struct script *ret) {
    struct script script = {0};
    char line[512];
    size_t room = 0;

    while (fgets(line, sizeof(line), in) != NULL) {
        char copy[512];
        struct op op;

        line[strcspn(line, "#")] = '\0';
        if (line[strspn(line, " \t\n")] == '\0')
            continue;
        if (sscanf(line, "world %d", &script.world) == 1 && script.world >= 0 &&
            script.world < WORLDS)
            continue;
        if (strncmp(line, "abrupt", 6) == 0) {
            script.abrupt = true;
            continue;
        }

        memcpy(copy, line, sizeof(copy));
        if (!read_op(copy, &op)) {
            fprintf(stderr, "sim: not understood: %s\n", line);
            script_done(&script);
            return false;
        }

        if (script.count == room) {
            room = room * 2 + 64;
            script.ops = realloc(script.ops, room * sizeof(script.ops[0]));
            if (script.ops == NULL)
                abort();
        }
        script.ops[script.count++] = op;
    }

    *ret = script;
    return true;
}

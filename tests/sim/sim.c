/* SPDX-License-Identifier: MIT
 *
 * The simulation: random scripts on the engine and on the model beside it.
 *
 *     sim [--operations N] [--seed S|random] [--script-seed X] [--replay FILE]
 * [--verbose]
 *         [--promise-only]
 *
 * Scripts run in a child, so that one that crashes or hangs the engine can be shortened
 * like any other. What fails is printed with its seed, shortened while it fails in the
 * same way, and printed as a script for --replay. */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cast.h"
#include "run.h"
#include "script.h"

enum {
    MIN_OPERATIONS = 400, /* of one script */
    MAX_OPERATIONS = 2000,
    ENOUGH = 200000, /* operations that must reach every situation */
    HANGS_AFTER_S = 60,
    SHORTENING_S = 120,
};

struct options {
    uint64_t operations;
    uint64_t seed;
    bool one_script;
    uint64_t script_seed;
    const char *replay;
    struct run_opts run;
};

/* What the child tells, also when it dies. */
struct shared {
    uint64_t operations;
    uint64_t scripts;
    uint64_t script_seed;
    uint64_t hits[HITS];
    struct verdict verdict;
};

static struct shared *shared;

static const struct {
    const char *text;
} situations[HITS] = {
#define SITUATION_ROW(name, text) {text},
    SITUATIONS(SITUATION_ROW)
#undef SITUATION_ROW
};

/* ---- Scripts and seeds
 * ----------------------------------------------------------------- */

static struct script script_of(uint64_t seed) {
    uint64_t rng = seed;
    size_t count =
        MIN_OPERATIONS + sim_random(&rng) % (MAX_OPERATIONS - MIN_OPERATIONS + 1);

    return script_generate(sim_random(&rng), count);
}

static void run_many(const struct options *options) {
    uint64_t rng = options->seed;

    while (shared->operations < options->operations) {
        struct script script;

        shared->script_seed = sim_random(&rng);
        script = script_of(shared->script_seed);
        alarm(HANGS_AFTER_S);
        run_script(&script, &options->run, shared->hits, &shared->verdict);
        script_done(&script);
        if (shared->verdict.failed)
            return;
        shared->operations += shared->verdict.op;
        shared->scripts++;
    }
}

/* ---- Children
 * -------------------------------------------------------------------------- */

/* A death without a word is a failure of its own kind. */
static void judge_death(int status) {
    struct verdict *verdict = &shared->verdict;

    if (verdict->failed || (WIFEXITED(status) && WEXITSTATUS(status) == 0))
        return;
    verdict->failed = true;
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
        snprintf(verdict->kind, sizeof(verdict->kind), "it hangs");
    else
        snprintf(verdict->kind, sizeof(verdict->kind), "it crashes");
    snprintf(verdict->text, sizeof(verdict->text), "status %d", status);
}

static void wait_for(pid_t child) {
    int status = 0;

    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    judge_death(status);
}

static pid_t start_child(void) {
    pid_t child;

    fflush(NULL);
    child = fork();
    if (child < 0) {
        perror("sim: fork");
        exit(2);
    }
    return child;
}

/* Runs one script in a child of its own. */
static void try_script(const struct script *script, const struct run_opts *opts,
                       unsigned seconds) {
    pid_t child;

    memset(&shared->verdict, 0, sizeof(shared->verdict));
    child = start_child();
    if (child == 0) {
        if (!opts->verbose)
            (void)!freopen("/dev/null", "w", stderr);
        alarm(seconds);
        run_script(script, opts, shared->hits, &shared->verdict);
        fflush(NULL);
        _exit(0);
    }
    wait_for(child);
}

/* ---- Shortening
 * ------------------------------------------------------------------------ */

static bool promise_only;

static bool fails_like(const struct script *script, const char *kind) {
    const struct run_opts opts = {.promise_only = promise_only};

    try_script(script, &opts, 5);
    return shared->verdict.failed && strcmp(shared->verdict.kind, kind) == 0;
}

static struct script without(const struct script *script, size_t from, size_t count) {
    struct script shorter = script_copy(script);

    if (from + count > shorter.count)
        count = shorter.count - from;
    memmove(&shorter.ops[from], &shorter.ops[from + count],
            (shorter.count - from - count) * sizeof(shorter.ops[0]));
    shorter.count -= count;
    return shorter;
}

/* One pass over the script, leaving out `chunk` operations at a time. */
static bool drop_chunks(struct script *script, size_t chunk, const char *kind,
                        time_t deadline) {
    bool dropped = false;
    size_t from = script->count;

    while (from > 0 && time(NULL) < deadline) {
        struct script shorter;

        from = from > chunk ? from - chunk : 0;
        shorter = without(script, from, chunk);
        if (fails_like(&shorter, kind)) {
            script_done(script);
            *script = shorter;
            dropped = true;
        } else {
            script_done(&shorter);
        }
    }
    return dropped;
}

/* Plainer operations are easier to read: each field is set to nothing where that fails as
 * well. */
static void simplify(struct script *script, const char *kind, time_t deadline) {
    static const struct {
        size_t offset;
        int32_t nothing;
    } fields[] = {
        {offsetof(struct op, wall), 0},   {offsetof(struct op, then), 0},
        {offsetof(struct op, timing), 0}, {offsetof(struct op, rate), 0},
        {offsetof(struct op, filter), 0}, {offsetof(struct op, priority), 0},
        {offsetof(struct op, cursor), 0}, {offsetof(struct op, watch), 0},
        {offsetof(struct op, size), 0},   {offsetof(struct op, kind_of), 0},
        {offsetof(struct op, age), 0},    {offsetof(struct op, gap), -1},
    };
    size_t i;
    size_t k;

    for (i = 0; i < script->count; i++)
        for (k = 0; k < sizeof(fields) / sizeof(fields[0]); k++) {
            char *at = (char *)&script->ops[i] + fields[k].offset;
            int32_t before;

            memcpy(&before, at, sizeof(before));
            if (before == fields[k].nothing || time(NULL) >= deadline)
                continue;
            memcpy(at, &fields[k].nothing, sizeof(before));
            if (!fails_like(script, kind))
                memcpy(at, &before, sizeof(before));
        }
}

/* What follows the failing operation goes first. */
static void shorten(struct script *script, const char *kind, uint64_t failed_at) {
    time_t deadline = time(NULL) + SHORTENING_S;
    size_t chunk;

    if (failed_at < script->count) {
        struct script shorter =
            without(script, (size_t)failed_at, script->count - (size_t)failed_at);

        if (fails_like(&shorter, kind)) {
            script_done(script);
            *script = shorter;
        } else {
            script_done(&shorter);
        }
    }
    for (chunk = script->count / 2; chunk >= 1; chunk /= 2)
        while (drop_chunks(script, chunk, kind, deadline) && chunk == 1)
            ;
    simplify(script, kind, deadline);
    while (drop_chunks(script, 1, kind, deadline))
        ;
}

/* ---- Reporting
 * --------------------------------------------------------------------------- */

static void report_failure(struct script *script) {
    struct verdict verdict = shared->verdict;

    printf("# operation %" PRIu64 " of %zu\n# %s: %s\n", verdict.op, script->count,
           verdict.kind, verdict.text);
    printf("shortening…\n");
    fflush(stdout);
    shorten(script, verdict.kind, verdict.op);

    if (!fails_like(script, verdict.kind))
        printf("(the shortened script does not fail alone)\n");
    printf("# %s: %s\n", shared->verdict.kind, shared->verdict.text);
    script_print(stdout, script);
}

static bool every_situation(uint64_t operations) {
    bool missing = false;
    int i;

    for (i = 0; i < HITS; i++) {
        bool never = shared->hits[i] == 0;

        printf("  %10" PRIu64 "  %s%s\n", shared->hits[i], situations[i].text,
               never ? "  <- never" : "");
        missing |= never;
    }
    return !missing || operations < ENOUGH;
}

static int run_all(const struct options *options) {
    pid_t child;

    printf("sim: seed %" PRIu64 "\n", options->seed);
    child = start_child();
    if (child == 0) {
        run_many(options);
        fflush(NULL);
        _exit(0);
    }
    wait_for(child);

    if (shared->verdict.failed) {
        struct script script = script_of(shared->script_seed);

        printf("sim: FAILED, seed %" PRIu64 ", after %" PRIu64
               " operations: --script-seed %" PRIu64 "\n",
               options->seed, shared->operations, shared->script_seed);
        report_failure(&script);
        script_done(&script);
        return 1;
    }

    if (!every_situation(shared->operations)) {
        printf("sim: FAILED, seed %" PRIu64 ": a situation was never reached\n",
               options->seed);
        return 1;
    }
    printf("sim: %" PRIu64 " operations in %" PRIu64 " scripts, seed %" PRIu64 ": ok\n",
           shared->operations, shared->scripts, options->seed);
    return 0;
}

static int run_one(struct script *script, const struct options *options) {
    try_script(script, &options->run, HANGS_AFTER_S);
    if (!shared->verdict.failed) {
        printf("sim: %" PRIu64 " operations: ok\n", shared->verdict.op);
        return 0;
    }
    printf("sim: FAILED\n");
    report_failure(script);
    return 1;
}

/* ---- The command line
 * ---------------------------------------------------------------------- */

static bool parse_number(const char *text, uint64_t *ret) {
    char *end;

    if (*text < '0' || *text > '9')
        return false;
    *ret = strtoull(text, &end, 0);
    return *end == '\0';
}

static bool parse_seed(const char *text, uint64_t *ret) {
    if (strcmp(text, "random") == 0)
        return getrandom(ret, sizeof(*ret), 0) == sizeof(*ret);
    return parse_number(text, ret);
}

static bool parse_options(int argc, char **argv, struct options *ret) {
    int i;

    for (i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;

        if (strcmp(argv[i], "--verbose") == 0) {
            ret->run.verbose = true;
            continue;
        }
        if (strcmp(argv[i], "--promise-only") == 0) {
            ret->run.promise_only = promise_only = true;
            continue;
        }
        if (value == NULL)
            return false;
        i++;
        if (strcmp(argv[i - 1], "--operations") == 0) {
            if (!parse_number(value, &ret->operations) || ret->operations == 0)
                return false;
        } else if (strcmp(argv[i - 1], "--seed") == 0) {
            if (!parse_seed(value, &ret->seed))
                return false;
        } else if (strcmp(argv[i - 1], "--script-seed") == 0) {
            ret->one_script = true;
            if (!parse_number(value, &ret->script_seed))
                return false;
        } else if (strcmp(argv[i - 1], "--replay") == 0) {
            ret->replay = value;
        } else {
            return false;
        }
    }
    return true;
}

static int run_replay(const struct options *options) {
    FILE *in = fopen(options->replay, "r");
    struct script script;
    int rv;

    if (in == NULL) {
        perror(options->replay);
        return 2;
    }
    if (!script_read(in, &script)) {
        fclose(in);
        return 2;
    }
    fclose(in);
    rv = run_one(&script, options);
    script_done(&script);
    return rv;
}

int main(int argc, char **argv) {
    struct options options = {.operations = 1000000, .seed = 42};
    int rv;

    if (!parse_options(argc, argv, &options)) {
        fprintf(
            stderr,
            "usage: sim [--operations N] [--seed S|random] [--script-seed X] "
            "[--replay FILE] [--verbose] [--promise-only]\n"
            "--verbose prints every operation; --promise-only checks what clients see, "
            "not the model\n");
        return 2;
    }

    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
                  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) {
        perror("sim: mmap");
        return 2;
    }
    run_count_memory();
    if (!cast_init())
        return 2;

    if (options.replay != NULL) {
        rv = run_replay(&options);
    } else if (options.one_script) {
        struct script script = script_of(options.script_seed);

        rv = run_one(&script, &options);
        script_done(&script);
    } else {
        rv = run_all(&options);
    }
    cast_done();
    munmap(shared, sizeof(*shared));
    return rv;
}

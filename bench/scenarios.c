/* SPDX-License-Identifier: MIT */
#include "scenarios.h"

#include <stdlib.h>
#include <string.h>

#include "bare.h"
#include "core/engine.h"

enum {
    NAME_ROOM = 48, /* bytes for a URI */
    HISTORY = 16384,
    MERGED = 10,       /* changes in one batch window */
    DROPPED = 10000,   /* subscriptions of the stream that is dropped */
    PER_STREAM = 1000, /* templates */
    FANOUT_URIS = 4,   /* resources that one template matches in turn */
    LIMIT_MS = 1000,
    WINDOW_MS = 100,
};

#define ROW(id, name, what, lookups) [id] = {name, what, lookups}

const bench_row_t bench_rows[BENCH_ROWS] = {
    ROW(HOT_SUBSCRIBE, "hot: subscribe", "subscribe and acknowledge",
        "subscribe: find the URI, find and insert the pair (stream, URI); acknowledge: "
        "find the URI, find the pair"),
    ROW(HOT_CHANGE, "hot: change to delivered", "delivery",
        "find the stream (and once per change, the URI)"),
    ROW(HOT_CHURNED, "hot: the same after churn", "delivery",
        "find the stream (and once per change, the URI)"),
    ROW(HOT_LIMITED, "hot: held by the rate limit", "delivery at the end of the limit",
        "find the stream when the change comes, and again when the limit is over"),
    ROW(HOT_BATCH, "hot: 10 changes in a batch", "delivery at the end of the window",
        "find the stream (and once per change, the URI)"),
    ROW(HOT_UNSUBSCRIBE, "hot: unsubscribe", "unsubscribe",
        "find the URI, find and remove the pair"),
    ROW(OWN_SUBSCRIBE, "own: subscribe", "subscribe and acknowledge",
        "subscribe: find and insert the URI, find and insert the pair (stream, URI); "
        "acknowledge: find the URI, find the pair"),
    ROW(OWN_CHANGE, "own: change to delivered", "change and its delivery",
        "find the URI, then the stream that it names"),
    ROW(OWN_CHURNED, "own: the same after churn", "change and its delivery",
        "find the URI, then the stream that it names"),
    ROW(OWN_UNSUBSCRIBE, "own: unsubscribe", "unsubscribe",
        "find the URI, find and remove the pair, remove the URI"),
    ROW(OWN_SINGLE, "own: single subscribes", "subscribe, each timed by itself",
        "find and insert the URI, find and insert the pair"),
    ROW(DROP, "drop a stream of 10⁴", "subscription dropped while n others stay",
        "find and remove the pair, remove the URI"),
    ROW(TEMPLATE_PREFIX, "template: n prefixes", "change that matches one of n templates",
        "find or insert the URI, find and remove the one that leaves the history, find "
        "the "
        "template by its text, find the stream"),
    ROW(TEMPLATE_MIDDLE, "template: n middles", "change that matches one of n templates",
        "as with a prefix"),
    ROW(TEMPLATE_FANOUT, "template: n subscribers", "delivery",
        "find and insert the pair (stream, URI) when the change comes; find the stream, "
        "find and remove the pair when it is taken"),
};

/* ---- Names -------------------------------------------------------------- */

/* n URIs or templates, and targets that point to them. */
struct names {
    char *text;
    tdg__target_t *targets;
};

static struct names make_names(size_t n, const char *format, tdg__target_kind_t kind) {
    struct names names = {
        .text = bench_alloc(n, NAME_ROOM),
        .targets = bench_alloc(n, sizeof(names.targets[0])),
    };

    for (size_t i = 0; i < n; i++) {
        const char *mark = strchr(format, '#');
        char *text = names.text + i * NAME_ROOM;
        int len = snprintf(text, NAME_ROOM, "%.*s%07zu%s", (int)(mark - format), format,
                           i, mark + 1);

        if (len >= NAME_ROOM)
            bench_fail("the name %s is too long", text);
        names.targets[i] = (tdg__target_t){kind, text, (size_t)len};
    }
    return names;
}

static void free_names(struct names *names) {
    free(names->text);
    free(names->targets);
}

/* ---- An engine and the maps beside it ----------------------------------- */

struct world {
    tdg__engine_t *engine;
    int64_t now_ms;
    size_t n;
    tdg__stream_t *streams;
    tdg__stream_t *told; /* the streams in the order of their last notifications */
    size_t told_count;
    bare_t map_uris, map_pairs, map_streams;
    bench_random_t random;
};

static void world_open(struct world *world, size_t n, size_t streams) {
    tdg__engine_opts_t opts = {
        .defaults = {.timing = {.mode = TDG__TIMING_IMMEDIATE},
                     .rate_limit_ms = TDG__RATE_OFF},
        .epoch = 1,
        .hash_key = {1, 2, 3, 4, 5, 6, 7, 8},
        .linger_ms = TDG__NO_LINGER,
        .history = HISTORY,
        .max_streams = 16000000,
        .max_total = 100000000,
        .max_templates = PER_STREAM,
    };

    *world = (struct world){
        .n = n,
        .now_ms = 1000000,
        .streams = bench_alloc(streams, sizeof(world->streams[0])),
        .told = bench_alloc(streams, sizeof(world->told[0])),
        .random = {n},
    };
    bare_init(&world->map_uris);
    bare_init(&world->map_pairs);
    bare_init(&world->map_streams);

    bench_check(tdg__engine_create(&opts, &world->engine), "create");
    tdg__engine_advance(world->engine, world->now_ms, world->now_ms);
}

static void open_streams(struct world *world, size_t count) {
    for (size_t i = 0; i < count; i++)
        bench_check(tdg__engine_open(world->engine, world, &world->streams[i]), "open");
}

static void map_open_streams(struct world *world, size_t count) {
    for (size_t i = 0; i < count; i++)
        bare_add_number(&world->map_streams, world->streams[i]);
}

static void world_close(struct world *world) {
    tdg__engine_destroy(world->engine);
    bare_done_texts(&world->map_uris);
    bare_done_numbers(&world->map_pairs);
    bare_done_numbers(&world->map_streams);
    free(world->streams);
    free(world->told);
}

static void advance(struct world *world, int64_t ms) {
    world->now_ms += ms;
    tdg__engine_advance(world->engine, world->now_ms, world->now_ms);
}

/* The key of a pair in the map: what the engine hashes for it, two 32-bit identifiers. */
static uint64_t pair_of(tdg__stream_t stream, uint32_t uri) {
    return (uint64_t)(uint32_t)stream << 32 | uri;
}

static void subscribe(struct world *world, tdg__stream_t stream,
                      const tdg__target_t *target) {
    int rv = tdg__engine_subscribe(world->engine, stream, target, NULL, NULL);

    if (rv == 0)
        rv = tdg__engine_acknowledge(world->engine, stream, target);
    bench_check(rv, "subscribe");
}

static uint32_t map_find_uri(const struct world *world, const tdg__target_t *target) {
    return bare_find_text(&world->map_uris, target->name, target->len);
}

static void map_subscribe(struct world *world, tdg__stream_t stream,
                          const tdg__target_t *target) {
    uint32_t uri = bare_add_text(&world->map_uris, target->name, target->len);
    uint32_t again;

    world->map_uris.records[uri].value = stream; /* who to tell; of several, the last */
    bare_add_number(&world->map_pairs, pair_of(stream, uri));

    again = map_find_uri(world, target);
    bench_use(bare_find_number(&world->map_pairs, pair_of(stream, again)));
}

static void map_remove_pair(struct world *world, tdg__stream_t stream, uint32_t uri) {
    uint32_t id = bare_find_number(&world->map_pairs, pair_of(stream, uri));

    bare_remove_number(&world->map_pairs, id);
}

static uint64_t changed(struct world *world, const tdg__target_t *target) {
    uint64_t number;

    bench_check(tdg__engine_publish(world->engine, target, NULL, false, &number),
                "changed");
    return number;
}

/* Takes everything, the way that engine.h shows. Fails unless there are `count`
 * notifications, all with this change and so many merged into it. */
static void drain(struct world *world, size_t count, uint64_t number, uint32_t merged) {
    tdg__stream_t stream = tdg__engine_next_ready(world->engine, 0);
    tdg__note_t note;
    size_t told = 0, wrong = 0;

    for (; stream != 0; stream = tdg__engine_next_ready(world->engine, stream)) {
        while (tdg__engine_take(world->engine, stream, &note) == 1) {
            wrong += note.change->number != number || note.merged != merged;
            if (told < count)
                world->told[told] = stream;
            told++;
        }
    }
    if (told != count || wrong != 0)
        bench_fail("%zu notifications instead of %zu, %zu of them wrong", told, count,
                   wrong);
    world->told_count = told;
}

static void map_drain(struct world *world) {
    uint64_t sum = 0;

    for (size_t i = 0; i < world->told_count; i++)
        sum += bare_find_number(&world->map_streams, world->told[i]);
    bench_use(sum);
}

/* ---- Samples ------------------------------------------------------------ */

/* A pair of stop-watches for a row, which may run several times for one sample. */
struct watch {
    uint64_t engine_ns, map_ns, start;
    size_t operations;
};

static void start(struct watch *watch) {
    watch->start = bench_cpu_ns();
}

static void stop_engine(struct watch *watch, size_t operations) {
    watch->engine_ns += bench_cpu_ns() - watch->start;
    watch->operations += operations;
}

static void stop_map(struct watch *watch) {
    watch->map_ns += bench_cpu_ns() - watch->start;
}

static void add_sample(const bench_round_t *round, enum bench_row_id row,
                       const struct watch *watch) {
    bench_add(&round->rows[row].ns, (double)watch->engine_ns / (double)watch->operations);
    bench_add(&round->rows[row].map_ns,
              (double)watch->map_ns / (double)watch->operations);
}

/* How often to do something that has n operations. */
static size_t cycles(const bench_round_t *round, size_t n) {
    return n >= round->operations ? 1 : (round->operations + n - 1) / n;
}

static void add_memory(const struct world *world, bench_measured_t *row,
                       size_t heap_before) {
    double n = (double)world->n;
    tdg__memory_t memory;

    tdg__engine_memory(world->engine, &memory);
    row->record_bytes = (double)memory.subscriptions / n;
    row->stream_bytes = (double)memory.streams / n;
    row->resource_bytes = (double)memory.resources / n;
    row->name_bytes = (double)memory.names / n;
    row->process_bytes = (double)(bench_heap_bytes() - heap_before) / n;
}

/* ---- Subscribing, in both layouts --------------------------------------- */

/* `targets` is the URI of each stream: the same one n times, or one each. */
static const tdg__target_t *target_of(const struct names *names, bool hot, size_t i) {
    return &names->targets[hot ? 0 : i];
}

static void subscribe_all(struct world *world, const struct names *names, bool hot,
                          struct watch *watch) {
    start(watch);
    for (size_t i = 0; i < world->n; i++)
        subscribe(world, world->streams[i], target_of(names, hot, i));
    stop_engine(watch, world->n);
}

static void map_subscribe_all(struct world *world, const struct names *names, bool hot,
                              struct watch *watch) {
    start(watch);
    for (size_t i = 0; i < world->n; i++)
        map_subscribe(world, world->streams[i], target_of(names, hot, i));
    stop_map(watch);
}

/* Who unsubscribes, does so in no order. */
static void unsubscribe_all(struct world *world, const struct names *names, bool hot,
                            struct watch *watch) {
    uint32_t *order = bench_shuffled(&world->random, world->n);
    tdg__counters_t counters;

    start(watch);
    for (size_t i = 0; i < world->n; i++)
        bench_check(tdg__engine_unsubscribe(world->engine, world->streams[order[i]],
                                            target_of(names, hot, order[i])),
                    "unsubscribe");
    stop_engine(watch, world->n);

    start(watch);
    for (size_t i = 0; i < world->n; i++) {
        const tdg__target_t *target = target_of(names, hot, order[i]);
        uint32_t uri = map_find_uri(world, target);

        map_remove_pair(world, world->streams[order[i]], uri);
        if (!hot)
            bare_remove_text(&world->map_uris, uri);
    }
    stop_map(watch);

    tdg__engine_counters(world->engine, &counters);
    if (counters.subscriptions != 0 || world->map_pairs.map.count != 0)
        bench_fail("%zu subscriptions are left", (size_t)counters.subscriptions);
    free(order);
}

/* Closes half of the streams and opens as many new ones, in random order, twice: memory
 * is then handed out in no order, for the engine and for the maps. */
static void churn(struct world *world, const struct names *names, bool hot) {
    for (int pass = 0; pass < 2; pass++) {
        uint32_t *order = bench_shuffled(&world->random, world->n);

        for (size_t i = 0; i < world->n / 2; i++) {
            const tdg__target_t *target = target_of(names, hot, order[i]);
            tdg__stream_t stream = world->streams[order[i]];
            uint32_t uri = map_find_uri(world, target);

            tdg__engine_close(world->engine, stream);
            map_remove_pair(world, stream, uri);
            bare_remove_number(&world->map_streams,
                               bare_find_number(&world->map_streams, stream));
            if (!hot)
                bare_remove_text(&world->map_uris, uri);
        }

        bench_shuffle(&world->random, order, world->n / 2);
        for (size_t i = 0; i < world->n / 2; i++) {
            const tdg__target_t *target = target_of(names, hot, order[i]);
            tdg__stream_t *stream = &world->streams[order[i]];

            bench_check(tdg__engine_open(world->engine, world, stream), "open");
            bare_add_number(&world->map_streams, *stream);
            subscribe(world, *stream, target);
            map_subscribe(world, *stream, target);
        }
        free(order);
    }
}

/* ---- One hot resource --------------------------------------------------- */

static void hot_change(const bench_round_t *round, struct world *world,
                       const tdg__target_t *uri, enum bench_row_id row) {
    struct watch watch = {0};

    for (size_t i = 0; i < cycles(round, world->n); i++) {
        uint64_t number;

        start(&watch);
        number = changed(world, uri);
        drain(world, world->n, number, 0);
        stop_engine(&watch, world->n);

        start(&watch);
        bench_use(map_find_uri(world, uri));
        map_drain(world);
        stop_map(&watch);
    }
    add_sample(round, row, &watch);
}

static void hot_limited(const bench_round_t *round, struct world *world,
                        const tdg__target_t *uri) {
    const tdg__settings_t limited = {.rate_limit_ms = LIMIT_MS}, none = {0};
    struct watch watch = {0};

    bench_check(tdg__engine_configure(world->engine, uri, &limited), "rate limit");
    for (size_t i = 0; i < cycles(round, world->n); i++) {
        uint64_t number;

        advance(world, 5 * LIMIT_MS);
        number = changed(world, uri);
        drain(world, world->n, number, 0);

        start(&watch);
        number = changed(world, uri);
        drain(world, 0, number, 0);
        advance(world, LIMIT_MS);
        drain(world, world->n, number, 0);
        stop_engine(&watch, world->n);

        start(&watch);
        map_drain(world);
        map_drain(world);
        stop_map(&watch);
    }
    bench_check(tdg__engine_configure(world->engine, uri, &none), "rate limit");
    add_sample(round, HOT_LIMITED, &watch);
}

static void hot_batch(const bench_round_t *round, struct world *world,
                      const tdg__target_t *uri) {
    tdg__settings_t batch = {.timing = {TDG__TIMING_BATCH, WINDOW_MS, 0}};
    tdg__settings_t none = {0};
    struct watch watch = {0};

    bench_check(tdg__engine_configure(world->engine, uri, &batch), "configure");
    for (size_t i = 0; i < cycles(round, world->n); i++) {
        uint64_t number = 0;

        advance(world, 5 * WINDOW_MS);
        start(&watch);
        for (int k = 0; k < MERGED; k++) {
            number = changed(world, uri);
            advance(world, 1);
        }
        advance(world, WINDOW_MS);
        drain(world, world->n, number, MERGED - 1);
        stop_engine(&watch, world->n);

        start(&watch);
        for (int k = 0; k < MERGED; k++)
            bench_use(map_find_uri(world, uri));
        map_drain(world);
        stop_map(&watch);
    }
    bench_check(tdg__engine_configure(world->engine, uri, &none), "configure");
    add_sample(round, HOT_BATCH, &watch);
}

/* Builds up a layout, so often that a sample is worth something; hands the last one to
 * `within` before everybody unsubscribes. */
static void run_layout(const bench_round_t *round, const struct names *names, bool hot,
                       void (*within)(const bench_round_t *round, struct world *world,
                                      const struct names *names)) {
    enum bench_row_id first = hot ? HOT_SUBSCRIBE : OWN_SUBSCRIBE;
    enum bench_row_id last = hot ? HOT_UNSUBSCRIBE : OWN_UNSUBSCRIBE;
    struct watch subscribing = {0}, unsubscribing = {0};
    size_t times = cycles(round, round->n);

    for (size_t i = 0; i < times; i++) {
        struct world world;
        size_t heap;

        world_open(&world, round->n, round->n);
        heap = bench_heap_bytes();
        open_streams(&world, round->n);
        subscribe_all(&world, names, hot, &subscribing);
        add_memory(&world, &round->rows[first], heap);

        map_open_streams(&world, round->n);
        map_subscribe_all(&world, names, hot, &subscribing);
        if (i + 1 == times)
            within(round, &world, names);
        unsubscribe_all(&world, names, hot, &unsubscribing);
        world_close(&world);
    }
    add_sample(round, first, &subscribing);
    add_sample(round, last, &unsubscribing);
}

static void within_hot(const bench_round_t *round, struct world *world,
                       const struct names *names) {
    hot_change(round, world, names->targets, HOT_CHANGE);
    hot_limited(round, world, names->targets);
    hot_batch(round, world, names->targets);
    churn(world, names, true);
    hot_change(round, world, names->targets, HOT_CHURNED);
}

static void run_hot(const bench_round_t *round) {
    struct names names = make_names(1, "file:///srv/notes/#/today.md", TDG__TARGET_URI);

    run_layout(round, &names, true, within_hot);
    free_names(&names);
}

/* ---- A resource for each ------------------------------------------------ */

static void own_change(const bench_round_t *round, struct world *world,
                       const struct names *names, enum bench_row_id row) {
    uint32_t *order = bench_shuffled(&world->random, world->n);
    struct watch watch = {0};

    for (size_t k = 0; k < cycles(round, world->n); k++) {
        uint64_t sum = 0;

        start(&watch);
        for (size_t i = 0; i < world->n; i++) {
            uint64_t number = changed(world, &names->targets[order[i]]);

            drain(world, 1, number, 0);
            sum += world->told[0] ^ world->streams[order[i]];
        }
        stop_engine(&watch, world->n);
        if (sum != 0)
            bench_fail("a change was delivered to the wrong stream");

        start(&watch);
        for (size_t i = 0; i < world->n; i++) {
            const tdg__target_t *target = &names->targets[order[i]];
            uint32_t uri = map_find_uri(world, target);

            sum +=
                bare_find_number(&world->map_streams, world->map_uris.records[uri].value);
        }
        stop_map(&watch);
        bench_use(sum);
    }
    add_sample(round, row, &watch);
    free(order);
}

static void within_own(const bench_round_t *round, struct world *world,
                       const struct names *names) {
    own_change(round, world, names, OWN_CHANGE);
    churn(world, names, false);
    own_change(round, world, names, OWN_CHURNED);
}

static void run_own(const bench_round_t *round) {
    struct names names =
        make_names(round->n, "file:///srv/notes/#/today.md", TDG__TARGET_URI);

    run_layout(round, &names, false, within_own);
    free_names(&names);
}

static void add_spread(bench_samples_t *samples, uint64_t *times, size_t count) {
    bench_spread_t spread = bench_spread(times, count);

    bench_add(&samples[0], spread.p50);
    bench_add(&samples[1], spread.p99);
    bench_add(&samples[2], spread.max);
}

/* Every call by itself, so that the pause shows in which a table grows. */
static void run_single(const bench_round_t *round) {
    bench_measured_t *row = &round->rows[OWN_SINGLE];
    struct names names =
        make_names(round->n, "file:///srv/notes/#/today.md", TDG__TARGET_URI);
    uint64_t *times = bench_alloc(round->n, sizeof(times[0]));
    struct world world;

    world_open(&world, round->n, round->n);
    open_streams(&world, round->n);
    for (size_t i = 0; i < round->n; i++) {
        uint64_t before = bench_now_ns();

        bench_check(tdg__engine_subscribe(world.engine, world.streams[i],
                                          &names.targets[i], NULL, NULL),
                    "subscribe");
        times[i] = bench_now_ns() - before;
    }
    add_spread(row->spread, times, round->n);

    for (size_t i = 0; i < round->n; i++) {
        const tdg__target_t *target = &names.targets[i];
        uint64_t before = bench_now_ns();
        uint32_t uri = bare_add_text(&world.map_uris, target->name, target->len);

        bare_add_number(&world.map_pairs, pair_of(world.streams[i], uri));
        times[i] = bench_now_ns() - before;
    }
    add_spread(row->map_spread, times, round->n);

    bench_add(&row->ns, row->spread[0].values[row->spread[0].count - 1]);
    bench_add(&row->map_ns, row->map_spread[0].values[row->map_spread[0].count - 1]);
    world_close(&world);
    free(times);
    free_names(&names);
}

/* ---- A stream with many subscriptions goes ------------------------------ */

static void run_drop(const bench_round_t *round) {
    struct names others =
        make_names(round->n, "file:///srv/notes/#/today.md", TDG__TARGET_URI);
    struct names own =
        make_names(DROPPED, "file:///srv/tasks/#/today.md", TDG__TARGET_URI);
    uint32_t *ids = bench_alloc(DROPPED, sizeof(ids[0])); /* the map's list of its own */
    struct watch watch = {0}, aside = {0};
    struct world world;

    world_open(&world, round->n, round->n);
    open_streams(&world, round->n);
    subscribe_all(&world, &others, false, &aside);
    map_subscribe_all(&world, &others, false, &aside);

    for (size_t k = 0; k < cycles(round, DROPPED); k++) {
        tdg__stream_t stream;
        tdg__counters_t counters;

        bench_check(tdg__engine_open(world.engine, &world, &stream), "open");
        for (size_t i = 0; i < DROPPED; i++) {
            subscribe(&world, stream, &own.targets[i]);
            map_subscribe(&world, stream, &own.targets[i]);
            ids[i] = map_find_uri(&world, &own.targets[i]);
        }

        start(&watch);
        tdg__engine_close(world.engine, stream);
        stop_engine(&watch, DROPPED);

        start(&watch);
        for (size_t i = 0; i < DROPPED; i++) {
            map_remove_pair(&world, stream, ids[i]);
            bare_remove_text(&world.map_uris, ids[i]);
        }
        stop_map(&watch);

        tdg__engine_counters(world.engine, &counters);
        if (counters.subscriptions != round->n || counters.resources != round->n)
            bench_fail("something is left of a stream that was dropped");
    }
    add_sample(round, DROP, &watch);
    world_close(&world);
    free(ids);
    free_names(&others);
    free_names(&own);
}

/* ---- Templates ---------------------------------------------------------- */

static void match_templates(const bench_round_t *round, const char *template_format,
                            const char *uri_format, enum bench_row_id row) {
    struct names templates = make_names(round->n, template_format, TDG__TARGET_TEMPLATE);
    struct names uris = make_names(round->n, uri_format, TDG__TARGET_URI);
    size_t streams = (round->n + PER_STREAM - 1) / PER_STREAM, times;
    struct watch watch = {0};
    struct world world;
    bare_t map_templates;
    uint32_t *order;

    world_open(&world, round->n, streams);
    open_streams(&world, streams);
    map_open_streams(&world, streams);
    bare_init(&map_templates);
    for (size_t i = 0; i < round->n; i++) {
        subscribe(&world, world.streams[i / PER_STREAM], &templates.targets[i]);
        bare_add_text(&map_templates, templates.targets[i].name,
                      templates.targets[i].len);
    }
    order = bench_shuffled(&world.random, round->n);

    /* Once to fill the history, then measured. */
    times = cycles(round, round->n);
    for (size_t k = 0; k < times + 1; k++) {
        uint64_t sum = 0;

        if (k == 1)
            watch = (struct watch){0};
        start(&watch);
        for (size_t i = 0; i < round->n; i++) {
            uint64_t number = changed(&world, &uris.targets[order[i]]);

            drain(&world, 1, number, 0);
            sum += world.told[0] ^ world.streams[order[i] / PER_STREAM];
        }
        stop_engine(&watch, round->n);
        if (sum != 0)
            bench_fail("a change was delivered to the wrong stream");

        start(&watch);
        for (size_t i = 0; i < round->n; i++) {
            const tdg__target_t *uri = &uris.targets[order[i]];
            const tdg__target_t *template_ = &templates.targets[order[i]];

            sum += bare_add_text(&world.map_uris, uri->name, uri->len);
            if (round->n > HISTORY) {
                uri = &uris.targets[order[(i + round->n - HISTORY) % round->n]];
                bare_remove_text(&world.map_uris, map_find_uri(&world, uri));
            }
            sum += bare_find_text(&map_templates, template_->name, template_->len);
            sum += bare_find_number(&world.map_streams,
                                    world.streams[order[i] / PER_STREAM]);
        }
        stop_map(&watch);
        bench_use(sum);
    }
    add_sample(round, row, &watch);

    free(order);
    bare_done_texts(&map_templates);
    world_close(&world);
    free_names(&templates);
    free_names(&uris);
}

static void run_prefix(const bench_round_t *round) {
    match_templates(round, "db://shop/tenant-#/{table}/{row}",
                    "db://shop/tenant-#/orders/17", TEMPLATE_PREFIX);
}

static void run_middle(const bench_round_t *round) {
    match_templates(round, "db://{shop}/tenant-#/orders/{row}",
                    "db://north/tenant-#/orders/17", TEMPLATE_MIDDLE);
}

static void run_fanout(const bench_round_t *round) {
    tdg__target_t template_ = {TDG__TARGET_TEMPLATE, "db://shop/tenant-{id}/orders", 28};
    struct names uris =
        make_names(FANOUT_URIS, "db://shop/tenant-#/orders", TDG__TARGET_URI);
    struct watch watch = {0};
    struct world world;

    world_open(&world, round->n, round->n);
    open_streams(&world, round->n);
    map_open_streams(&world, round->n);
    for (size_t i = 0; i < round->n; i++)
        subscribe(&world, world.streams[i], &template_);
    for (size_t i = 0; i < FANOUT_URIS; i++)
        bare_add_text(&world.map_uris, uris.targets[i].name, uris.targets[i].len);

    for (size_t k = 0; k < cycles(round, round->n); k++) {
        const tdg__target_t *uri = &uris.targets[k % FANOUT_URIS];
        uint64_t number, sum = 0;
        uint32_t id;

        start(&watch);
        number = changed(&world, uri);
        drain(&world, round->n, number, 0);
        stop_engine(&watch, round->n);

        start(&watch);
        id = map_find_uri(&world, uri);
        for (size_t i = 0; i < round->n; i++)
            bare_add_number(&world.map_pairs, pair_of(world.told[i], id));
        for (size_t i = 0; i < round->n; i++) {
            sum += bare_find_number(&world.map_streams, world.told[i]);
            map_remove_pair(&world, world.told[i], id);
        }
        stop_map(&watch);
        bench_use(sum);
    }
    add_sample(round, TEMPLATE_FANOUT, &watch);
    world_close(&world);
    free_names(&uris);
}

const bench_scenario_t bench_scenarios[BENCH_SCENARIOS] = {
    {"hot", HOT_SUBSCRIBE, HOT_UNSUBSCRIBE, SIZE_MAX, run_hot},
    {"own", OWN_SUBSCRIBE, OWN_UNSUBSCRIBE, SIZE_MAX, run_own},
    {"single", OWN_SINGLE, OWN_SINGLE, SIZE_MAX, run_single},
    {"drop", DROP, DROP, SIZE_MAX, run_drop},
    {"prefix", TEMPLATE_PREFIX, TEMPLATE_PREFIX, 100000, run_prefix},
    {"middle", TEMPLATE_MIDDLE, TEMPLATE_MIDDLE, 100000, run_middle},
    {"fanout", TEMPLATE_FANOUT, TEMPLATE_FANOUT, SIZE_MAX, run_fanout},
};

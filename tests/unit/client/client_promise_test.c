/* SPDX-License-Identifier: MIT
 *
 * The promise of the client, beside a server that does everything to break it (model.h):
 * in both eras, as one of ours (versions and cursors), as a foreign one, and as one that
 * is now this and now that. Time is simulated. After some quiet, whatever is subscribed
 * has been told at or after its last change; versions have never gone back; and nothing
 * was told about what was unsubscribed from.
 *
 * TDG_RUNS says how many runs of each; TDG_SEED makes it that one alone. TDG_TRACE shows
 * what happens in them. */
#include <inttypes.h>
#include <stdio.h>

#include <tidings/error.h>

#include "unit/client/model.h"

enum { STEPS = 400, RUNS = 100, QUIET_MS = 5000, LONGEST_CHECK_MS = 10 * 60 * 1000 };

static struct sim {
    struct fake *f;
    struct model server;
    uint64_t clock; /* counts changes, tellings and subscribes */
    bool subscribed[MODEL_URIS];
    uint64_t changed[MODEL_URIS], told[MODEL_URIS], since[MODEL_URIS];
    int64_t told_version[MODEL_URIS];
} sim;

static uint32_t chance(uint32_t limit) {
    return model_chance(&sim.server, limit);
}

/* ---- What the client tells ---------------------------------------------- */

/* Whose versions those of an unknown epoch are nobody can say. */
static void check_version(int i, int64_t version) {
    if (sim.server.vague[i]) {
        sim.told_version[i] = 0;
    } else if (version > 0) {
        assert_true(version > sim.told_version[i]);
        sim.told_version[i] = version;
    }
}

static void on_event(void *user, tdg_event_t *event) {
    int i = model_index(event->uri);

    (void)user;
    model_trace(&sim.server, "told: kind %d %s version %" PRId64 "%s", (int)event->kind,
                event->uri != NULL ? event->uri : "", event->version,
                event->maybe ? " maybe" : "");
    if (event->kind == TDG_EVENT_LOST) {
        sim.subscribed[i] = false;
        sim.told_version[i] = 0; /* one that is made anew starts anew */
    } else if (i >= 0) {
        assert_non_null(tdg__subs_find(sim.f->core, event->uri));
        sim.told[i] = ++sim.clock;
        check_version(i, event->version);
    }
    tdg_event_free(event);
}

static void on_forget(void *user, const char *uri) {
    (void)user;
    (void)uri;
}

/* ---- What is done to it ------------------------------------------------- */

static void note_subscribed(void *user, int code, json_t *result,
                            const tdg_failure_t *failure) {
    int i = (int)(intptr_t)user;

    (void)result;
    (void)failure;
    model_trace(&sim.server, "subscribed to %s: %d", model_uri(i), code);
    if (code == 0 && tdg__subs_find(sim.f->core, model_uri(i)) != NULL) {
        if (!sim.subscribed[i])
            sim.since[i] = ++sim.clock;
        sim.subscribed[i] = true;
    }
}

static void ignore_done(void *user, int code, json_t *result,
                        const tdg_failure_t *failure) {
    (void)user;
    (void)code;
    (void)result;
    (void)failure;
}

static void subscribe(int i) {
    const tdg_subscribe_opts_t opts = {.batch_ms = chance(4) == 0 ? 50 : 0};
    const char *uri = model_uri(i);

    model_trace(&sim.server, "subscribe to %s, batch %" PRId64, uri, opts.batch_ms);
    tdg__core_subscribe(sim.f->core, &uri, 1, &opts, NULL, note_subscribed,
                        (void *)(intptr_t)i);
}

static void unsubscribe(int i) {
    model_trace(&sim.server, "unsubscribe from %s", model_uri(i));
    sim.subscribed[i] = false;
    sim.told_version[i] = 0;
    tdg__core_unsubscribe(sim.f->core, model_uri(i), ignore_done, NULL);
    assert_null(tdg__subs_find(sim.f->core, model_uri(i)));
}

static void change(int i) {
    sim.changed[i] = ++sim.clock;
    model_change(&sim.server, i);
    model_trace(&sim.server, "%s changes: %" PRIu64, model_uri(i), sim.server.number);
}

static void restart(void) {
    model_trace(&sim.server, "the server starts anew");
    model_restart(&sim.server);
    memset(sim.told_version, 0, sizeof(sim.told_version));
}

/* ---- A run -------------------------------------------------------------- */

static void pass(int64_t ms) {
    int64_t end = sim.f->now + ms, piece = sim.server.faults ? 5 : ms <= 500 ? 40 : 500;

    while (sim.f->now < end) {
        fake_pass(sim.f, end - sim.f->now < piece ? end - sim.f->now : piece);
        model_write(&sim.server);
    }
}

static void step(void) {
    switch (chance(16)) {
    case 0:
        subscribe((int)chance(MODEL_URIS));
        break;
    case 1:
        if (chance(3) == 0)
            unsubscribe((int)chance(MODEL_URIS));
        break;
    case 2:
        if (chance(4) == 0)
            model_break(&sim.server, false);
        else if (chance(8) == 0)
            model_freeze(&sim.server);
        break;
    case 3:
        if (chance(20) == 0)
            restart();
        else if (!sim.server.modern && chance(20) == 0)
            model_forget(&sim.server);
        break;
    case 4:
    case 5:
    case 6:
        change((int)chance(MODEL_URIS));
        break;
    case 7:
    case 8:
    case 9:
    case 10:
        model_take(&sim.server);
        break;
    default:
        pass(chance(chance(10) == 0 ? 2000 : 60));
    }
    fake_run(sim.f);
    model_write(&sim.server);
}

/* Long enough for the longest wait until a silent stream is checked. */
static void quiet(void) {
    int64_t end = sim.f->now + 2 * LONGEST_CHECK_MS;

    sim.server.faults = false;
    for (int i = 0; i < 200 || sim.f->now < end; i++) {
        for (int n = 0; n < 40; n++)
            model_take(&sim.server);
        pass(i < 200 ? 500 : 5000);
    }
}

static void check(uint64_t seed) {
    for (int i = 0; i < MODEL_URIS; i++) {
        const tdg__sub_t *sub = tdg__subs_find(sim.f->core, model_uri(i));

        if ((sub != NULL) != sim.subscribed[i])
            fail_msg("TDG_SEED=%" PRIu64 ": %s is%s subscribed to", seed, model_uri(i),
                     sub != NULL ? "" : " not");
        if (!sim.subscribed[i] || sim.changed[i] < sim.since[i])
            continue;
        if (sim.told[i] < sim.changed[i])
            fail_msg("TDG_SEED=%" PRIu64 ": a change of %s was missed", seed,
                     model_uri(i));
    }
}

/* A server, and seeds that have shown a mistake once. */
struct setting {
    bool modern, ours, fickle;
    uint64_t seeds[4]; /* 0: no more */
};

static void shake_hands(struct fake *f, struct fake_sent *sent) {
    if (sim.server.modern)
        fake_modern_server(f, sent);
    else if (strcmp(sent->method, "initialize") == 0)
        model_initialize(&sim.server, sent);
    else
        fake_legacy_server(f, sent);
}

static void run(uint64_t seed, const struct setting *setting) {
    void *state = NULL;
    struct fake *f = state_create(&state, sizeof(*f));

    memset(&sim, 0, sizeof(sim));
    sim.f = f;
    fake_init(f, TDG__TRANSPORT_HTTP);
    f->dice.seed = f->dice.state = seed;
    f->client.quiet_ms = QUIET_MS;
    assert_int_equal(fake_create(f), 0);
    f->core->opts.event = on_event;
    f->core->opts.forget = on_forget;
    model_init(&sim.server, f, setting->modern, setting->ours);
    sim.server.fickle = setting->fickle;
    f->answer = shake_hands;
    fake_start(f);
    assert_int_equal(f->core->state, TDG__CORE_UP);

    for (int i = 0; i < STEPS; i++)
        step();
    quiet();
    check(seed);
    fake_end(f);
    state_destroy(&state);
}

static void keeps_it(const struct setting *setting) {
    struct dice dice = dice_from_env();
    const char *runs = getenv("TDG_RUNS");
    int count = getenv("TDG_SEED") != NULL ? 1
                : runs != NULL             ? atoi(runs)
                                           : (int)often(RUNS);

    for (size_t i = 0; i < 4 && setting->seeds[i] != 0; i++)
        run(setting->seeds[i], setting);
    for (int i = 0; i < count; i++) {
        if (getenv("TDG_VERBOSE") != NULL)
            print_message("TDG_SEED=%" PRIu64 "\n", dice.seed + (uint64_t)i);
        run(dice.seed + (uint64_t)i, setting);
    }
}

static void modern_ours(void **state) {
    (void)state;
    keeps_it(&(struct setting){.modern = true, .ours = true, .seeds = {20240724}});
}

static void modern_foreign(void **state) {
    (void)state;
    keeps_it(&(struct setting){.modern = true, .seeds = {20259294}});
}

static void modern_fickle(void **state) {
    (void)state;
    keeps_it(&(struct setting){
        .modern = true, .ours = true, .fickle = true, .seeds = {20241314}});
}

static void legacy_ours(void **state) {
    (void)state;
    keeps_it(&(struct setting){.ours = true, .seeds = {20240614, 20241081}});
}

static void legacy_foreign(void **state) {
    (void)state;
    keeps_it(&(struct setting){.seeds = {20240993, 20249698}});
}

static void legacy_fickle(void **state) {
    (void)state;
    keeps_it(&(struct setting){.ours = true, .fickle = true, .seeds = {20240689}});
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(modern_ours),    cmocka_unit_test(modern_foreign),
        cmocka_unit_test(modern_fickle),  cmocka_unit_test(legacy_ours),
        cmocka_unit_test(legacy_foreign), cmocka_unit_test(legacy_fickle),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("client_promise", tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT */
#include "server/mcp/census.h"
#include "support.h"

static tdg__address_t address(uint8_t last) {
    return (tdg__address_t){.bytes = {[15] = last}};
}

/* Of worker 0 unless told otherwise; the number of a session is of no importance here. */
static tdg__admission_t enter(tdg__census_t *census, const tdg__address_t *from,
                              tdg__standing_t standing, uint32_t *ret_id,
                              tdg__eviction_t *ret_eviction) {
    static uint32_t session;
    tdg__arrival_t arrival = {from, 0, ++session, standing};

    return tdg__census_enter(census, &arrival, ret_id, ret_eviction);
}

static tdg__admission_t settle_in(tdg__census_t *census, const tdg__address_t *from,
                                  uint32_t *ret_id) {
    tdg__eviction_t eviction = {7, 7};
    tdg__admission_t admission = enter(census, from, TDG__SETTLED, ret_id, &eviction);

    if (admission == TDG__ADMITTED)
        assert_int_equal(eviction.worker, -1);
    return admission;
}

static void sessions_are_counted_in_all_and_per_address(void **state) {
    tdg__address_t one = address(1), two = address(2);
    uint32_t ids[3], id;
    tdg__census_t *census;

    (void)state;
    assert_int_equal(tdg__census_create(3, 2, &census), 0);
    assert_int_equal(settle_in(census, &one, &ids[0]), TDG__ADMITTED);
    assert_int_equal(settle_in(census, &one, &ids[1]), TDG__ADMITTED);
    assert_int_equal(settle_in(census, &one, &id), TDG__FULL_OF_ADDRESS);
    assert_int_equal(settle_in(census, &two, &ids[2]), TDG__ADMITTED);
    assert_int_equal(settle_in(census, &two, &id), TDG__FULL);
    assert_int_equal(settle_in(census, NULL, &id), TDG__FULL);
    tdg__census_leave(census, ids[0]);
    assert_int_equal(settle_in(census, NULL, &ids[0]), TDG__ADMITTED);
    assert_int_equal(settle_in(census, &one, &id), TDG__FULL);
    tdg__census_leave(census, ids[1]);
    assert_int_equal(settle_in(census, &one, &ids[1]), TDG__ADMITTED);
    tdg__census_destroy(census);
    tdg__census_destroy(NULL);
}

static void many_addresses_come_and_go(void **state) {
    uint32_t ids[256], id;
    tdg__census_t *census;

    (void)state;
    assert_int_equal(tdg__census_create(1000, 1, &census), 0);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 256; i++) {
            tdg__address_t one = address((uint8_t)i);

            assert_int_equal(settle_in(census, &one, &ids[i]), TDG__ADMITTED);
            assert_int_equal(settle_in(census, &one, &id), TDG__FULL_OF_ADDRESS);
        }
        for (int i = 0; i < 256; i++)
            tdg__census_leave(census, ids[i]);
    }
    tdg__census_destroy(census);
}

/* ---- Giving way --------------------------------------------------------- */

struct guest {
    uint32_t id, session;
    unsigned worker;
};

static tdg__admission_t come(tdg__census_t *census, struct guest *guest,
                             const tdg__address_t *from, tdg__eviction_t *ret_eviction) {
    tdg__arrival_t arrival = {from, guest->worker, guest->session, TDG__FRESH};

    *ret_eviction = (tdg__eviction_t){.worker = -1};
    return tdg__census_enter(census, &arrival, &guest->id, ret_eviction);
}

/* `count` fresh ones without any eviction, numbered from `first` on. */
static void fill(tdg__census_t *census, struct guest *guests, size_t count,
                 uint32_t first, const tdg__address_t *from) {
    tdg__eviction_t eviction;

    for (size_t i = 0; i < count; i++) {
        guests[i].session = first + (uint32_t)i;
        assert_int_equal(come(census, &guests[i], from, &eviction), TDG__ADMITTED);
        assert_int_equal(eviction.worker, -1);
    }
}

static void expect_eviction(tdg__census_t *census, struct guest *comes,
                            const tdg__address_t *from, const struct guest *goes) {
    tdg__eviction_t eviction;

    assert_int_equal(come(census, comes, from, &eviction), TDG__ADMITTED);
    assert_int_equal(eviction.worker, goes->worker);
    assert_int_equal(eviction.session, goes->session);
    assert_int_equal(tdg__census_leaving(census, goes->worker), goes->session);
    tdg__census_leave(census, goes->id);
    assert_int_equal(tdg__census_leaving(census, goes->worker), 0);
}

/* Whatever stands before it: settled ones are in no list. */
static void the_oldest_that_can_give_way_is_found_behind_any_number(void **state) {
    static struct guest guests[2000];
    struct guest late = {.session = 5000};
    tdg__eviction_t eviction;
    tdg__census_t *census;

    (void)state;
    assert_int_equal(tdg__census_create(2000, 2000, &census), 0);
    fill(census, guests, 2000, 1, NULL);
    for (int i = 0; i < 1998; i++)
        tdg__census_settle(census, guests[i].id, TDG__SETTLED);
    expect_eviction(census, &late, NULL, &guests[1998]);
    tdg__census_settle(census, guests[1999].id, TDG__SETTLED);
    tdg__census_settle(census, late.id, TDG__SETTLED);
    assert_int_equal(come(census, &late, NULL, &eviction), TDG__FULL);
    tdg__census_destroy(census);
}

static void the_oldest_of_an_address_is_found_behind_any_number_of_others(void **state) {
    tdg__address_t one = address(1), two = address(2);
    static struct guest others[150], guests[200];
    struct guest late = {.session = 5000};
    tdg__census_t *census;

    (void)state;
    assert_int_equal(tdg__census_create(400, 200, &census), 0);
    fill(census, others, 150, 1, &one);
    fill(census, guests, 200, 1000, &two);
    expect_eviction(census, &late, &two, &guests[0]);
    expect_eviction(census, &late, &two, &guests[1]);
    tdg__census_destroy(census);
}

static void fresh_ones_give_way_before_quiet_ones(void **state) {
    struct guest guests[3] = {0}, late = {.session = 10};
    tdg__census_t *census;

    (void)state;
    assert_int_equal(tdg__census_create(3, 3, &census), 0);
    fill(census, guests, 3, 1, NULL);
    tdg__census_settle(census, guests[0].id, TDG__QUIET);
    expect_eviction(census, &late, NULL, &guests[1]);
    tdg__census_settle(census, late.id, TDG__SETTLED);
    expect_eviction(census, &late, NULL, &guests[2]);
    tdg__census_settle(census, late.id, TDG__SETTLED);
    expect_eviction(census, &late, NULL, &guests[0]);
    tdg__census_destroy(census);
}

/* Also where it is another worker that has to end it. */
static void nobody_is_admitted_for_one_that_cannot_give_way(void **state) {
    tdg__address_t one = address(1);
    struct guest guests[20], late = {.session = 30, .worker = 1};
    tdg__eviction_t eviction;
    tdg__census_t *census;

    (void)state;
    assert_int_equal(tdg__census_create(40, 20, &census), 0);
    for (int i = 0; i < 20; i++)
        guests[i].worker = 0;
    fill(census, guests, 20, 1, &one);
    for (int i = 0; i < 20; i++)
        tdg__census_settle(census, guests[i].id, TDG__SETTLED);
    assert_int_equal(come(census, &late, &one, &eviction), TDG__FULL_OF_ADDRESS);
    tdg__census_destroy(census);
}

/* A worker may take its time. Those that it has to end do not count, but they are few. */
static void few_wait_for_a_worker_that_is_busy(void **state) {
    tdg__address_t one = address(1);
    struct guest guests[64], late = {.session = 1000, .worker = 1};
    tdg__eviction_t eviction;
    tdg__census_t *census;
    uint32_t waiting = 0;

    (void)state;
    assert_int_equal(tdg__census_create(128, 64, &census), 0);
    for (int i = 0; i < 64; i++)
        guests[i].worker = 0;
    fill(census, guests, 64, 1, &one);
    while (waiting < 64 && come(census, &late, &one, &eviction) == TDG__ADMITTED) {
        assert_int_equal(eviction.session, guests[waiting].session);
        waiting++;
    }
    assert_int_equal(waiting, 24);
    late.worker = 0; /* the busy worker itself ends it at once */
    assert_int_equal(come(census, &late, &one, &eviction), TDG__ADMITTED);
    assert_int_equal(eviction.session, guests[24].session);
    for (uint32_t i = 0; i < 25; i++) {
        assert_int_equal(tdg__census_leaving(census, 0), guests[i].session);
        tdg__census_settle(census, guests[i].id, TDG__SETTLED); /* too late */
        tdg__census_leave(census, guests[i].id);
    }
    assert_int_equal(tdg__census_leaving(census, 0), 0);
    late.worker = 1;
    assert_int_equal(come(census, &late, &one, &eviction), TDG__ADMITTED);
    assert_int_equal(eviction.session, guests[25].session);
    tdg__census_destroy(census);
}

static void memory_may_run_out(void **state) {
    tdg__address_t one = address(1);
    tdg__eviction_t eviction;
    tdg__census_t *census;
    uint32_t id;

    (void)state;
    for (size_t nth = 1;; nth++) {
        assert_int_equal(tdg__census_create(3, 2, &census), 0);
        memory_fail(nth, MEMORY_ONCE);
        tdg__admission_t admission = enter(census, &one, TDG__FRESH, &id, &eviction);
        bool failed = memory_failed();

        memory_fail(0, MEMORY_ONCE);
        assert_int_equal(admission, failed ? TDG__NO_MEMORY : TDG__ADMITTED);
        if (!failed)
            tdg__census_leave(census, id);
        tdg__census_destroy(census);
        if (!failed)
            break;
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sessions_are_counted_in_all_and_per_address),
        cmocka_unit_test(many_addresses_come_and_go),
        cmocka_unit_test(the_oldest_that_can_give_way_is_found_behind_any_number),
        cmocka_unit_test(the_oldest_of_an_address_is_found_behind_any_number_of_others),
        cmocka_unit_test(fresh_ones_give_way_before_quiet_ones),
        cmocka_unit_test(nobody_is_admitted_for_one_that_cannot_give_way),
        cmocka_unit_test(few_wait_for_a_worker_that_is_busy),
        cmocka_unit_test_setup_teardown(memory_may_run_out, memory_setup,
                                        memory_teardown),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("census", tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT
 *
 * Several threads use one catalogue: some add, change and remove, others look up, list
 * and visit. Meant for ThreadSanitizer. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include "entries.h"
#include "server/catalogue/catalogue.h"
#include "support.h"

enum { WRITERS = 2, READERS = 2, ROUNDS = 300, FIXED = 50, MOVING = 10 };

struct shared {
    tdg__catalogue_t *catalogue;
    atomic_int writers; /* that still run */
    atomic_int made, freed;
    atomic_int wrong; /* cmocka fails on the main thread only */
};

struct part {
    struct shared *shared;
    int number;
};

static void read_nothing(void *user, tdg_request_t *request, const char *uri) {
    (void)user, (void)request, (void)uri;
}

static void count_free(void *user) {
    atomic_fetch_add(&((struct shared *)user)->freed, 1);
}

static void expect(struct shared *shared, bool what) {
    if (!what)
        atomic_fetch_add(&shared->wrong, 1);
}

static void add(struct shared *shared, const char *uri, bool is_template) {
    const tdg_resource_t resource = {.uri = uri,
                                     .name = uri,
                                     .read = read_nothing,
                                     .user = shared,
                                     .user_free = count_free};
    const tdg_template_t template_ = {.uri_template = uri,
                                      .name = uri,
                                      .read = read_nothing,
                                      .user = shared,
                                      .user_free = count_free};
    int rv = is_template ? catalogue_add_template(shared->catalogue, &template_)
                         : catalogue_add_resource(shared->catalogue, &resource);

    expect(shared, rv == 0);
    atomic_fetch_add(&shared->made, 1);
}

/* Every writer has URIs and templates of its own, so that it knows what is there. */
static void *write_some(void *arg) {
    struct part *part = arg;
    struct shared *shared = part->shared;
    char uri[64], text[64];

    for (int i = 0; i < ROUNDS; i++) {
        snprintf(uri, sizeof(uri), "moving:%d/%d", part->number, i % MOVING);
        snprintf(text, sizeof(text), "moving:%d/%d/{x}", part->number, i % MOVING);
        add(shared, uri, false);
        add(shared, uri, false);
        add(shared, text, true);
        add(shared, text, true);
        expect(shared, tdg__catalogue_may_watch(shared->catalogue, uri) == 0);
        expect(shared, tdg__catalogue_remove(shared->catalogue, TDG__RESOURCE, uri) == 0);
        expect(shared,
               tdg__catalogue_remove(shared->catalogue, TDG__TEMPLATE, text) == 0);
    }
    atomic_fetch_sub(&shared->writers, 1);
    return NULL;
}

static bool count_fixed(void *arg, const tdg__target_t *uri) {
    (void)uri;
    ++*(int *)arg;
    return true;
}

/* What is there all the time is listed exactly once. */
static int fixed_on_all_pages(struct shared *shared) {
    json_t *items, *next = NULL;
    int fixed = 0;

    do {
        json_t *cursor = next;
        int rv = tdg__catalogue_page(shared->catalogue, TDG__RESOURCE,
                                     json_string_value(cursor), 7, &items, &next);

        json_decref(cursor);
        if (rv < 0)
            return rv;
        for (size_t i = 0; i < json_array_size(items); i++) {
            json_t *uri = json_object_get(json_array_get(items, i), "uri");

            fixed += strncmp(json_string_value(uri), "fixed:", 6) == 0;
        }
        json_decref(items);
    } while (next != NULL);
    return fixed;
}

static void *read_some(void *arg) {
    const tdg__target_t fixed = tdg__target_template("fixed:{x}");
    struct part *part = arg;
    struct shared *shared = part->shared;

    do {
        tdg__entry_t *entry = NULL;
        int visited = 0;

        expect(shared, fixed_on_all_pages(shared) == FIXED);
        expect(shared, tdg__catalogue_list_matches(shared->catalogue, &fixed, count_fixed,
                                                   &visited) == 0);
        expect(shared, visited == FIXED);
        if (tdg__catalogue_match(shared->catalogue, "moving:0/3/7", &entry) == 0)
            expect(shared, strcmp(entry->key, "moving:0/3/{x}") == 0);
        tdg__entry_unref(entry);
        entry = tdg__catalogue_find(shared->catalogue, TDG__RESOURCE, "moving:1/3");
        expect(shared, entry == NULL || strcmp(entry->key, "moving:1/3") == 0);
        tdg__entry_unref(entry);
        expect(shared, tdg__catalogue_count(shared->catalogue, TDG__RESOURCE) >= FIXED);
    } while (atomic_load(&shared->writers) > 0);
    return NULL;
}

static void threads_share_a_catalogue(void **state) {
    struct shared shared = {.writers = WRITERS};
    struct part parts[WRITERS + READERS];
    pthread_t threads[WRITERS + READERS];

    (void)state;
    assert_int_equal(tdg__catalogue_create(NULL, NULL, &shared.catalogue), 0);
    for (int i = 0; i < FIXED; i++) {
        char uri[32];

        snprintf(uri, sizeof(uri), "fixed:%d", i);
        add(&shared, uri, false);
    }
    for (int i = 0; i < WRITERS + READERS; i++) {
        parts[i] = (struct part){&shared, i};
        assert_int_equal(pthread_create(&threads[i], NULL,
                                        i < WRITERS ? write_some : read_some, &parts[i]),
                         0);
    }
    for (int i = 0; i < WRITERS + READERS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);

    assert_int_equal(atomic_load(&shared.wrong), 0);
    assert_int_equal(tdg__catalogue_count(shared.catalogue, TDG__RESOURCE), FIXED);
    assert_int_equal(tdg__catalogue_count(shared.catalogue, TDG__TEMPLATE), 0);
    tdg__catalogue_destroy(shared.catalogue);
    assert_int_equal(atomic_load(&shared.freed), atomic_load(&shared.made));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_share_a_catalogue),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("catalogue_threads", tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT */
#include "core/change.h"

#include <pthread.h>

#include "unit/core/fixture.h"

enum { LARGE = 16384 };

static size_t live;

static int setup(void **state) {
    (void)state;
    memory_count();
    memory_fail(0, MEMORY_ONCE);
    live = memory_live();
    return 0;
}

static int nothing_left(void **state) {
    (void)state;
    return memory_live() == live ? 0 : -1;
}

static tdg__change_t *create(const tdg__target_t *target, const char *metadata,
                             bool is_deletion) {
    json_t *json = json_from(metadata);
    tdg__change_t *change = NULL;

    assert_int_equal(
        tdg__change_create(target, json, is_deletion, NOON_MS, LARGE, &change), 0);
    json_decref(json);
    return change;
}

static int create_fails(const tdg__target_t *target, const char *metadata,
                        size_t max_bytes) {
    tdg__change_t untouched, *change = &untouched;
    json_t *json = json_from(metadata);
    int rv = tdg__change_create(target, json, false, NOON_MS, max_bytes, &change);

    assert_ptr_equal(change, &untouched);
    json_decref(json);
    return rv;
}

static void a_target_is_a_kind_and_a_name(void **state) {
    tdg__target_t uri = tdg__target_uri("db://orders/42");
    tdg__target_t template_ = tdg__target_template("db://orders/{id}");
    tdg__target_t list = tdg__target_list("tools");

    (void)state;
    assert_int_equal(uri.kind, TDG__TARGET_URI);
    assert_int_equal(uri.len, strlen("db://orders/42"));
    assert_string_equal(uri.name, "db://orders/42");
    assert_int_equal(template_.kind, TDG__TARGET_TEMPLATE);
    assert_int_equal(template_.len, strlen("db://orders/{id}"));
    assert_int_equal(list.kind, TDG__TARGET_LIST);
    assert_int_equal(list.len, strlen("tools"));
}

static void
a_target_is_valid_if_it_has_a_name_and_a_list_is_one_of_the_three(void **state) {
    (void)state;
    assert_true(tdg__target_valid(URI("a")));
    assert_true(tdg__target_valid(TEMPLATE("a")));
    assert_true(tdg__target_valid(LIST("prompts")));
    assert_false(tdg__target_valid(NULL));
    assert_false(tdg__target_valid(URI("")));
    assert_false(tdg__target_valid(TEMPLATE("")));
    assert_false(tdg__target_valid(LIST("prompt")));
    assert_false(tdg__target_valid(&(tdg__target_t){TDG__TARGET_URI, NULL, 3}));
    assert_false(tdg__target_valid(&(tdg__target_t){(tdg__target_kind_t)9, "a", 1}));
}

static void a_new_change_is_not_stamped(void **state) {
    tdg__change_t *change = create(URI("db://orders/42"), NULL, false);

    (void)state;
    assert_int_equal(change->kind, TDG__TARGET_URI);
    assert_int_equal(change->number, 0);
    assert_false(change->deleted);
    assert_false(change->assumed);
    tdg__change_unref(change);
}

static void a_change_keeps_its_own_copy_of_the_name(void **state) {
    char name[] = "db://orders/42";
    tdg__change_t *change = create(URI(name), NULL, false);

    (void)state;
    name[0] = 'X';
    assert_string_equal(change->name, "db://orders/42");
    assert_int_equal(change->len, strlen("db://orders/42"));
    tdg__change_unref(change);
}

static void a_name_need_not_end_in_nul(void **state) {
    tdg__change_t *change =
        create(&(tdg__target_t){TDG__TARGET_URI, "db://orders/42?tail", 14}, NULL, false);

    (void)state;
    assert_int_equal(change->len, 14);
    assert_string_equal(change->name, "db://orders/42");
    tdg__change_unref(change);
}

static void a_name_may_be_unicode(void **state) {
    tdg__change_t *change = create(URI("notes://Grüße/日本"), NULL, false);

    (void)state;
    assert_string_equal(change->name, "notes://Grüße/日本");
    tdg__change_unref(change);
}

static void what_the_application_said_is_kept_as_it_is(void **state) {
    tdg__change_t *change = create(URI("a:1"), "{'size': 1, 'a': {'b': [2]}}", false);

    (void)state;
    assert_int_equal(tdg__change_stamp(change, 1), 0);
    assert_json_equal(change->metadata, "{'size': 1, 'a': {'b': [2]}}");
    assert_int_equal(change->wall_ms, NOON_MS);
    tdg__change_unref(change);
}

static void an_application_may_say_nothing(void **state) {
    tdg__change_t *change = create(URI("a:1"), NULL, false);

    (void)state;
    assert_null(change->metadata);
    tdg__change_unref(change);
}

static void a_reference_to_the_metadata_is_held_while_the_change_lives(void **state) {
    json_t *json = json_from("{'size': 1}");
    tdg__change_t *change = NULL;

    (void)state;
    assert_int_equal(tdg__change_create(URI("a:1"), json, false, NOON_MS, LARGE, &change),
                     0);
    assert_ptr_equal(change->metadata, json);
    json_decref(json);
    assert_json_equal(change->metadata, "{'size': 1}");
    tdg__change_unref(change);
}

/* ---- As a client gets it ------------------------------------------------ */

static void a_client_gets_time_kind_and_version_where_nothing_was_said(void **state) {
    tdg__change_t *change = create(URI("a:1"), NULL, false);

    (void)state;
    assert_int_equal(tdg__change_stamp(change, 12), 0);
    assert_string_equal(tdg__change_type(change), "content_update");
    expect_metadata(change, "{'updated_at': 1750000000, 'version': 12,"
                            " 'change_type': 'content_update'}");
    tdg__change_unref(change);
}

static void a_client_gets_the_applications_time_kind_and_version(void **state) {
    tdg__change_t *change = create(
        URI("a:1"), "{'updated_at': '10:30', 'change_type': 'created', 'version': '1.0'}",
        false);

    (void)state;
    assert_int_equal(tdg__change_stamp(change, 12), 0);
    expect_metadata(
        change, "{'updated_at': '10:30', 'change_type': 'created', 'version': '1.0'}");
    tdg__change_unref(change);
}

static void the_well_known_fields_travel_as_they_are(void **state) {
    const char *text =
        "{'updated_at': 1, 'version': '2.1.0', 'revision': 42, 'size': 4096,"
        " 'checksum': 'sha256:abc', 'mime_type': 'text/plain', 'author': 'admin',"
        " 'change_type': 'content_update'}";
    tdg__change_t *change = create(URI("a:1"), text, false);

    (void)state;
    assert_int_equal(tdg__change_stamp(change, 5), 0);
    expect_metadata(change, text);
    tdg__change_unref(change);
}

static void a_deletion_says_so_whatever_it_said_before(void **state) {
    tdg__change_t *change = create(
        URI("a:1"), "{'change_type': 'created', 'updated_at': 1, 'version': 2}", true);

    (void)state;
    assert_true(change->deleted);
    assert_string_equal(tdg__change_type(change), "deleted");
    expect_metadata(change, "{'change_type': 'deleted', 'updated_at': 1, 'version': 2}");
    tdg__change_unref(change);
}

static void a_deletion_without_metadata_says_deleted(void **state) {
    tdg__change_t *change = create(URI("a:1"), NULL, true);

    (void)state;
    assert_int_equal(tdg__change_stamp(change, 1), 0);
    expect_metadata(change, "{'change_type': 'deleted', 'updated_at': 1750000000,"
                            " 'version': 1}");
    tdg__change_unref(change);
}

static void filling_in_leaves_the_change_alone(void **state) {
    tdg__change_t *change = create(URI("a:1"), "{'change_type': 'created'}", true);
    json_t *metadata = NULL;

    (void)state;
    assert_int_equal(tdg__change_metadata(change, &metadata), 0);
    json_object_clear(metadata);
    json_decref(metadata);
    assert_json_equal(change->metadata, "{'change_type': 'created'}");
    tdg__change_unref(change);
}

static void a_list_has_no_metadata_to_fill_in(void **state) {
    tdg__change_t *change = create(LIST("tools"), NULL, false);
    json_t *metadata = NULL;

    (void)state;
    assert_int_equal(tdg__change_metadata(change, &metadata), TDG_EINVAL);
    assert_null(metadata);
    tdg__change_unref(change);
}

/* ---- What is refused ---------------------------------------------------- */

static void metadata_that_is_no_object_is_refused(void **state) {
    static const char *const texts[] = {"[]", "'text'", "1", "true", "null"};

    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        assert_int_equal(create_fails(URI("a:1"), texts[i], LARGE), TDG_EINVAL);
}

static void metadata_as_large_as_the_limit_is_accepted(void **state) {
    const char *metadata = "{'change_type':'x','updated_at':1}"; /* 34 bytes */
    json_t *json = json_from(metadata);
    tdg__change_t *change = NULL;

    (void)state;
    assert_int_equal(tdg__change_create(URI("a:1"), json, false, 0, 34, &change), 0);
    json_decref(json);
    tdg__change_unref(change);
}

static void metadata_one_byte_larger_than_the_limit_is_refused(void **state) {
    (void)state;
    assert_int_equal(create_fails(URI("a:1"), "{'change_type':'x','updated_at':1}", 33),
                     TDG_EMETADATA);
}

static void spaces_in_metadata_do_not_count(void **state) {
    json_t *json = json_from("{  'change_type' :   'x' , 'updated_at' :   1 }");
    tdg__change_t *change = NULL;

    (void)state;
    assert_int_equal(tdg__change_create(URI("a:1"), json, false, 0, 34, &change), 0);
    json_decref(json);
    tdg__change_unref(change);
}

static void an_empty_name_is_refused(void **state) {
    (void)state;
    assert_int_equal(create_fails(URI(""), NULL, LARGE), TDG_EINVAL);
}

static void a_template_cannot_change(void **state) {
    (void)state;
    assert_int_equal(create_fails(TEMPLATE("a:{x}"), NULL, LARGE), TDG_EINVAL);
}

static void tools_prompts_and_resources_are_the_lists(void **state) {
    static const char *const lists[] = {"tools", "prompts", "resources"};

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        tdg__change_t *change = create(LIST(lists[i]), NULL, false);

        assert_int_equal(change->kind, TDG__TARGET_LIST);
        assert_string_equal(change->name, lists[i]);
        tdg__change_unref(change);
    }
}

static void a_list_that_does_not_exist_is_refused(void **state) {
    (void)state;
    assert_int_equal(create_fails(LIST("tool"), NULL, LARGE), TDG_EINVAL);
    assert_int_equal(create_fails(LIST("toolss"), NULL, LARGE), TDG_EINVAL);
    assert_int_equal(create_fails(LIST("Tools"), NULL, LARGE), TDG_EINVAL);
    assert_int_equal(create_fails(LIST(""), NULL, LARGE), TDG_EINVAL);
}

static void a_list_takes_no_metadata_and_cannot_be_deleted(void **state) {
    tdg__change_t *change = NULL;

    (void)state;
    assert_int_equal(create_fails(LIST("tools"), "{}", LARGE), TDG_EINVAL);
    assert_int_equal(
        tdg__change_create(LIST("tools"), NULL, true, NOON_MS, LARGE, &change),
        TDG_EINVAL);
    assert_null(change);
}

static void a_list_change_has_no_metadata(void **state) {
    tdg__change_t *change = create(LIST("tools"), NULL, false);

    (void)state;
    assert_int_equal(tdg__change_stamp(change, 3), 0);
    assert_null(change->metadata);
    assert_int_equal(change->number, 3);
    tdg__change_unref(change);
}

static void stamping_with_0_is_refused(void **state) {
    tdg__change_t *change = create(URI("a:1"), NULL, false);

    (void)state;
    assert_int_equal(tdg__change_stamp(change, 0), TDG_EINVAL);
    assert_int_equal(change->number, 0);
    assert_int_equal(tdg__change_stamp(change, 1), 0);
    tdg__change_unref(change);
}

static void stamping_twice_is_refused(void **state) {
    tdg__change_t *change = create(URI("a:1"), NULL, false);

    (void)state;
    assert_int_equal(tdg__change_stamp(change, 1), 0);
    assert_int_equal(tdg__change_stamp(change, 2), TDG_EINVAL);
    assert_int_equal(change->number, 1);
    tdg__change_unref(change);
}

static void a_change_lives_until_its_last_reference_goes(void **state) {
    tdg__change_t *change = create(URI("a:1"), "{'size': 1}", false);

    (void)state;
    assert_ptr_equal(tdg__change_ref(change), change);
    tdg__change_unref(change);
    assert_string_equal(change->name, "a:1");
    tdg__change_unref(change);
    assert_int_equal(memory_live(), live);
}

static void releasing_nothing_is_fine(void **state) {
    (void)state;
    tdg__change_unref(NULL);
}

/* ---- Encoded forms ------------------------------------------------------ */

static void a_change_has_no_forms_at_first(void **state) {
    tdg__change_t *change = create(URI("a:1"), NULL, false);

    (void)state;
    for (unsigned i = 0; i < TDG__CHANGE_FORMS; i++)
        assert_null(tdg__change_form(change, i));
    tdg__change_unref(change);
}

static void the_first_form_counts_and_goes_with_the_change(void **state) {
    tdg__change_t *change = create(URI("a:1"), NULL, false);
    tdg__buf_t *first = tdg__buf_create("first", 5);

    (void)state;
    assert_ptr_equal(tdg__change_set_form(change, 0, first), first);
    assert_ptr_equal(tdg__change_set_form(change, 0, tdg__buf_create("second", 6)),
                     first);
    assert_ptr_equal(tdg__change_form(change, 0), first);
    assert_null(tdg__change_form(change, 1));
    tdg__change_set_form(change, 1, tdg__buf_create("other", 5));
    assert_string_equal(tdg__change_form(change, 1)->data, "other");
    tdg__change_unref(change);
    assert_int_equal(memory_live(), live);
}

enum { ENCODERS = 4, ROUNDS = 500 };

struct encoder {
    pthread_t thread;
    pthread_barrier_t *start;
    tdg__change_t **changes;
    const tdg__buf_t *used[ROUNDS];
    bool whole; /* every form it used had its bytes */
};

static void *encode(void *arg) {
    struct encoder *encoder = arg;

    encoder->whole = true;
    pthread_barrier_wait(encoder->start);
    for (int i = 0; i < ROUNDS; i++) {
        tdg__buf_t *form = tdg__change_form(encoder->changes[i], 1);

        if (form == NULL)
            form = tdg__change_set_form(encoder->changes[i], 1,
                                        tdg__buf_create("encoded", 7));
        encoder->used[i] = form;
        encoder->whole &= form->len == 7 && memcmp(form->data, "encoded", 7) == 0;
    }
    return NULL;
}

static void threads_that_encode_at_the_same_time_use_the_same_form(void **state) {
    static struct encoder encoders[ENCODERS];
    tdg__change_t *changes[ROUNDS];
    pthread_barrier_t start;

    (void)state;
    for (int i = 0; i < ROUNDS; i++)
        changes[i] = create(URI("a:1"), NULL, false);
    pthread_barrier_init(&start, NULL, ENCODERS);
    for (int i = 0; i < ENCODERS; i++) {
        encoders[i].start = &start;
        encoders[i].changes = changes;
        assert_int_equal(pthread_create(&encoders[i].thread, NULL, encode, &encoders[i]),
                         0);
    }
    for (int i = 0; i < ENCODERS; i++)
        pthread_join(encoders[i].thread, NULL);
    pthread_barrier_destroy(&start);

    for (int i = 0; i < ENCODERS; i++) {
        assert_true(encoders[i].whole);
        for (int k = 0; k < ROUNDS; k++)
            assert_ptr_equal(encoders[i].used[k], tdg__change_form(changes[k], 1));
    }
    for (int i = 0; i < ROUNDS; i++)
        tdg__change_unref(changes[i]);
}

static int uncounted(void **state) {
    (void)state;
    return tdg_set_allocator(NULL); /* the counting one is for one thread */
}

static void running_out_of_memory_leaves_no_change_behind(void **state) {
    json_t *json = json_from("{'a': {'b': [1, 2, 'three']}, 'size': 1}");
    size_t before = memory_live();

    (void)state;
    for (size_t nth = 1;; nth++) {
        tdg__change_t untouched, *change = &untouched;
        int rv;

        memory_fail(nth, MEMORY_ONCE);
        rv = tdg__change_create(URI("a:1"), json, nth % 2 == 0, NOON_MS, LARGE, &change);
        if (rv == 0) {
            assert_false(memory_failed());
            tdg__change_unref(change);
            break;
        }
        assert_int_equal(rv, TDG_ENOMEM);
        assert_ptr_equal(change, &untouched);
        assert_int_equal(memory_live(), before);
    }
    memory_fail(0, MEMORY_ONCE);
    json_decref(json);
}

static void running_out_of_memory_leaves_no_metadata_behind(void **state) {
    tdg__change_t *change = create(URI("a:1"), "{'size': 1, 'change_type': 'x'}", true);
    size_t before = memory_live();
    size_t failures = 0;
    json_t *metadata = NULL;
    int rv;

    (void)state;
    for (size_t nth = 1;; nth++) {
        memory_fail(nth, MEMORY_ONCE);
        rv = tdg__change_metadata(change, &metadata);
        if (rv == 0)
            break;
        assert_int_equal(rv, TDG_ENOMEM);
        assert_null(metadata);
        assert_int_equal(memory_live(), before);
        failures++;
    }
    assert_false(memory_failed());
    assert_true(failures > 0);
    memory_fail(0, MEMORY_ONCE);
    json_decref(metadata);
    tdg__change_unref(change);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, nothing_left)

int main(void) {
    const struct CMUnitTest tests[] = {
        CASE(a_target_is_a_kind_and_a_name),
        CASE(a_target_is_valid_if_it_has_a_name_and_a_list_is_one_of_the_three),
        CASE(a_new_change_is_not_stamped),
        CASE(a_change_keeps_its_own_copy_of_the_name),
        CASE(a_name_need_not_end_in_nul),
        CASE(a_name_may_be_unicode),
        CASE(what_the_application_said_is_kept_as_it_is),
        CASE(an_application_may_say_nothing),
        CASE(a_reference_to_the_metadata_is_held_while_the_change_lives),
        CASE(a_client_gets_time_kind_and_version_where_nothing_was_said),
        CASE(a_client_gets_the_applications_time_kind_and_version),
        CASE(the_well_known_fields_travel_as_they_are),
        CASE(a_deletion_says_so_whatever_it_said_before),
        CASE(a_deletion_without_metadata_says_deleted),
        CASE(filling_in_leaves_the_change_alone),
        CASE(a_list_has_no_metadata_to_fill_in),
        CASE(metadata_that_is_no_object_is_refused),
        CASE(metadata_as_large_as_the_limit_is_accepted),
        CASE(metadata_one_byte_larger_than_the_limit_is_refused),
        CASE(spaces_in_metadata_do_not_count),
        CASE(an_empty_name_is_refused),
        CASE(a_template_cannot_change),
        CASE(tools_prompts_and_resources_are_the_lists),
        CASE(a_list_that_does_not_exist_is_refused),
        CASE(a_list_takes_no_metadata_and_cannot_be_deleted),
        CASE(a_list_change_has_no_metadata),
        CASE(stamping_with_0_is_refused),
        CASE(stamping_twice_is_refused),
        CASE(a_change_lives_until_its_last_reference_goes),
        CASE(releasing_nothing_is_fine),
        CASE(running_out_of_memory_leaves_no_change_behind),
        CASE(running_out_of_memory_leaves_no_metadata_behind),
        CASE(a_change_has_no_forms_at_first),
        CASE(the_first_form_counts_and_goes_with_the_change),
        cmocka_unit_test_setup(threads_that_encode_at_the_same_time_use_the_same_form,
                               uncounted),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("change", tests, NULL, NULL);
}

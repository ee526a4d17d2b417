/* SPDX-License-Identifier: MIT */
#include "server/catalogue/entry.h"

#include "support.h"

static void read_nothing(void *user, tdg_request_t *request, const char *uri) {
    (void)user, (void)request, (void)uri;
}

static void call_nothing(void *user, tdg_request_t *request, const json_t *arguments) {
    (void)user, (void)request, (void)arguments;
}

static void complete_nothing(void *user, tdg_request_t *request, const char *argument,
                             const char *value, const json_t *context) {
    (void)user, (void)request, (void)argument, (void)value, (void)context;
}

static void count_free(void *user) {
    ++*(int *)user;
}

static const tdg_resource_t resource = {.uri = "a:1", .name = "n", .read = read_nothing};
static const tdg_template_t template_ = {
    .uri_template = "a:{x}", .name = "n", .read = read_nothing};
static const tdg_tool_t tool = {.name = "t", .call = call_nothing};
static const tdg_prompt_t prompt = {.name = "p", .get = call_nothing};

/* Takes the entry. */
static void assert_defined(tdg__entry_t *entry, const char *definition) {
    assert_non_null(entry);
    assert_json_equal(entry->definition, definition);
    tdg__entry_unref(entry);
}

static tdg__entry_t *from_resource(tdg_resource_t r) {
    tdg__entry_t *entry = NULL;

    assert_int_equal(tdg__entry_from_resource(&r, &entry), 0);
    return entry;
}

static tdg__entry_t *from_tool(tdg_tool_t t) {
    tdg__entry_t *entry = NULL;

    assert_int_equal(tdg__entry_from_tool(&t, &entry), 0);
    return entry;
}

/* ---- Definitions -------------------------------------------------------- */

static void a_definition_holds_what_was_said(void **state) {
    tdg__entry_t *entry = NULL;

    (void)state;
    assert_defined(from_resource(resource), "{'uri': 'a:1', 'name': 'n'}");
    assert_defined(from_tool(tool), "{'name': 't', 'inputSchema': {'type': 'object'}}");
    assert_int_equal(tdg__entry_from_template(&template_, &entry), 0);
    assert_defined(entry, "{'uriTemplate': 'a:{x}', 'name': 'n'}");
    assert_int_equal(tdg__entry_from_prompt(&prompt, &entry), 0);
    assert_defined(entry, "{'name': 'p'}");
}

static void a_resource_has_all_its_fields(void **state) {
    json_t *extra =
        json_from("{'annotations': {'priority': 1}, 'uri': 'b:2', 'size': 7}");
    tdg_resource_t all = resource;
    tdg__entry_t *entry;

    (void)state;
    all.title = "T";
    all.description = "D";
    all.mime_type = "text/plain";
    all.size = 5;
    all.extra = extra;
    all.not_subscribable = true;
    all.private_content = true;
    all.ttl_ms = 9;
    entry = from_resource(all);
    json_decref(extra);

    assert_string_equal(entry->key, "a:1");
    assert_int_equal(entry->len, 3);
    assert_int_equal(entry->kind, TDG__RESOURCE);
    assert_ptr_equal(entry->read, read_nothing);
    assert_true(entry->not_subscribable);
    assert_true(entry->caching.private_scope);
    assert_int_equal(entry->caching.ttl_ms, 9);
    assert_defined(entry, "{'uri': 'a:1', 'name': 'n', 'title': 'T', 'description': 'D', "
                          "'mimeType': 'text/plain', 'size': 5, "
                          "'annotations': {'priority': 1}}");
}

static void a_template_has_all_its_fields(void **state) {
    tdg_template_t all = template_;
    tdg__entry_t *entry = NULL;

    (void)state;
    all.title = "T";
    all.description = "D";
    all.mime_type = "text/plain";
    all.complete = complete_nothing;
    all.ttl_ms = 9;
    all.not_subscribable = true;
    all.private_content = true;
    assert_int_equal(tdg__entry_from_template(&all, &entry), 0);
    assert_true(tdg__template_match(entry->parsed, "a:7", 3));
    assert_ptr_equal(entry->complete, complete_nothing);
    assert_true(entry->not_subscribable && entry->caching.private_scope);
    assert_int_equal(entry->caching.ttl_ms, 9);
    assert_defined(entry, "{'uriTemplate': 'a:{x}', 'name': 'n', 'title': 'T', "
                          "'description': 'D', 'mimeType': 'text/plain'}");
}

static void a_tool_has_a_schema_of_an_object(void **state) {
    static const struct {
        const char *schema, *listed; /* NULL: refused */
    } cases[] = {
        {NULL, "{'type': 'object'}"},
        {"{}", "{'type': 'object'}"},
        {"{'required': ['a']}", "{'type': 'object', 'required': ['a']}"},
        {"{'type': 'object', 'title': 'x'}", "{'type': 'object', 'title': 'x'}"},
        {"{'type': 'array'}", NULL},
        {"{'type': ['object']}", NULL},
        {"[]", NULL},
        {"'object'", NULL},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        json_t *schema = json_from(cases[i].schema);
        tdg__entry_t *entry = NULL;
        tdg_tool_t t = tool;
        int rv;

        t.input_schema = schema;
        rv = tdg__entry_from_tool(&t, &entry);
        assert_int_equal(rv, cases[i].listed != NULL ? 0 : TDG_EINVAL);
        if (rv == 0)
            assert_json_equal(json_object_get(entry->definition, "inputSchema"),
                              cases[i].listed);
        tdg__entry_unref(entry);
        json_decref(schema);
    }
}

static void a_prompt_has_its_arguments(void **state) {
    static const struct {
        const char *arguments;
        int rv;
    } cases[] = {
        {"[]", 0},
        {"[{'name': 'a', 'required': true}]", 0},
        {"{}", TDG_EINVAL},
        {"['a']", TDG_EINVAL},
        {"[{'name': 1}]", TDG_EINVAL},
        {"[{'name': 'a'}, {}]", TDG_EINVAL},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        json_t *arguments = json_from(cases[i].arguments);
        tdg__entry_t *entry = NULL;
        tdg_prompt_t p = prompt;

        p.arguments = arguments;
        assert_int_equal(tdg__entry_from_prompt(&p, &entry), cases[i].rv);
        if (entry != NULL)
            assert_json_equal(json_object_get(entry->definition, "arguments"),
                              cases[i].arguments);
        tdg__entry_unref(entry);
        json_decref(arguments);
    }
}

static void a_definition_shares_nothing_with_the_caller(void **state) {
    json_t *extra = json_from("{'annotations': {'a': 1}}");
    json_t *schema = json_from("{'properties': {}}");
    tdg_tool_t t = tool;
    tdg__entry_t *entry;

    (void)state;
    t.extra = extra;
    t.input_schema = schema;
    entry = from_tool(t);
    json_object_clear(json_object_get(extra, "annotations"));
    json_object_set_new(json_object_get(schema, "properties"), "x", json_true());
    assert_null(json_object_get(schema, "type"));
    json_decref(extra);
    json_decref(schema);
    assert_defined(entry, "{'name': 't', 'inputSchema': {'properties': {}, "
                          "'type': 'object'}, 'annotations': {'a': 1}}");
}

/* ---- What is refused ---------------------------------------------------- */

static void assert_resource_refused(tdg_resource_t r, int code) {
    tdg__entry_t *untouched = (void *)&r, *entry = untouched;
    int freed = 0;

    r.user = &freed;
    r.user_free = count_free;
    assert_int_equal(tdg__entry_from_resource(&r, &entry), code);
    assert_ptr_equal(entry, untouched);
    assert_int_equal(freed, 0);
}

static void a_malformed_resource_is_refused(void **state) {
    json_t *array = json_array();
    char *longest = calloc(1, TDG__ENTRY_MAX_KEY + 2);
    tdg_resource_t r;

    (void)state;
    assert_resource_refused((r = resource, r.uri = NULL, r), TDG_EINVAL);
    assert_resource_refused((r = resource, r.name = NULL, r), TDG_EINVAL);
    assert_resource_refused((r = resource, r.read = NULL, r), TDG_EINVAL);
    assert_resource_refused((r = resource, r.extra = array, r), TDG_EINVAL);
    assert_resource_refused((r = resource, r.name = "\xff", r), TDG_EINVAL);
    assert_resource_refused((r = resource, r.title = "\xc3(", r), TDG_EINVAL);
    assert_resource_refused((r = resource, r.size = UINT64_MAX, r), TDG_EINVAL);
    assert_resource_refused((r = resource, r.uri = "", r), TDG_EURI);
    assert_resource_refused((r = resource, r.uri = "no-scheme", r), TDG_EURI);
    assert_resource_refused((r = resource, r.uri = "a: ", r), TDG_EURI);
    assert_resource_refused((r = resource, r.uri = "a:{x}", r), TDG_EURI);

    memset(longest, 'a', TDG__ENTRY_MAX_KEY + 1);
    longest[1] = ':';
    assert_resource_refused((r = resource, r.uri = longest, r), TDG_EURILEN);
    longest[TDG__ENTRY_MAX_KEY] = '\0';
    tdg__entry_unref(from_resource((r = resource, r.uri = longest, r)));
    free(longest);
    json_decref(array);
}

static void a_malformed_template_is_refused(void **state) {
    char *longest = calloc(1, TDG__ENTRY_MAX_KEY + 2);
    const struct {
        const char *text;
        int code;
    } cases[] = {
        {NULL, TDG_EINVAL},
        {"", TDG_ETEMPLATE},
        {"a:1", TDG_ETEMPLATE},
        {"a:{", TDG_ETEMPLATE},
        {"a:{x*}{y*}", TDG_EAMBIGUOUS},
        {longest, TDG_EURILEN},
    };

    (void)state;
    memset(longest, 'a', TDG__ENTRY_MAX_KEY + 1);
    memcpy(longest, "a:{x}", 5);
    for (size_t i = 0; i < COUNT(cases); i++) {
        tdg_template_t t = template_;
        tdg__entry_t *entry = NULL;

        t.uri_template = cases[i].text;
        assert_int_equal(tdg__entry_from_template(&t, &entry), cases[i].code);
        assert_null(entry);
    }
    free(longest);
}

static void a_nameless_tool_or_prompt_is_refused(void **state) {
    tdg__entry_t *entry = NULL;
    tdg_prompt_t p = prompt;
    tdg_tool_t t = tool;

    (void)state;
    t.name = "";
    assert_int_equal(tdg__entry_from_tool(&t, &entry), TDG_EINVAL);
    t.name = NULL;
    assert_int_equal(tdg__entry_from_tool(&t, &entry), TDG_EINVAL);
    t = tool;
    t.call = NULL;
    assert_int_equal(tdg__entry_from_tool(&t, &entry), TDG_EINVAL);
    p.name = "";
    assert_int_equal(tdg__entry_from_prompt(&p, &entry), TDG_EINVAL);
    p = prompt;
    p.get = NULL;
    assert_int_equal(tdg__entry_from_prompt(&p, &entry), TDG_EINVAL);
    assert_null(entry);
}

/* ---- References --------------------------------------------------------- */

static void the_last_reference_frees_the_users_data(void **state) {
    int freed = 0;
    tdg_tool_t t = tool;
    tdg__entry_t *entry;

    (void)state;
    t.user = &freed;
    t.user_free = count_free;
    entry = from_tool(t);
    assert_ptr_equal(tdg__entry_ref(entry), entry);
    tdg__entry_unref(entry);
    assert_int_equal(freed, 0);
    tdg__entry_unref(entry);
    assert_int_equal(freed, 1);
    tdg__entry_unref(NULL);

    tdg__entry_discard(from_tool(t));
    assert_int_equal(freed, 1);
}

static int make_all(const json_t *extra, int *freed) {
    tdg_template_t t = template_;
    tdg_tool_t with_schema = tool;
    tdg_prompt_t p = prompt;
    tdg__entry_t *entries[3] = {NULL};
    int rv;

    t.extra = p.extra = with_schema.input_schema = extra;
    t.user = with_schema.user = p.user = freed;
    t.user_free = with_schema.user_free = p.user_free = count_free;
    t.title = "T";
    rv = tdg__entry_from_template(&t, &entries[0]);
    if (rv == 0)
        rv = tdg__entry_from_tool(&with_schema, &entries[1]);
    if (rv == 0)
        rv = tdg__entry_from_prompt(&p, &entries[2]);

    for (size_t i = 0; i < COUNT(entries); i++) {
        if (entries[i] != NULL)
            tdg__entry_discard(entries[i]);
    }
    return rv;
}

static void without_memory_there_is_no_entry(void **state) {
    json_t *extra = json_from("{'a': {'b': [1, 'c', {'d': 2}]}, 'e': 'f'}");
    size_t before = memory_live(), failures = 0;
    int freed = 0, rv;

    (void)state;
    for (size_t nth = 1;; nth++, failures++) {
        memory_fail(nth, MEMORY_ONCE);
        rv = make_all(extra, &freed);
        assert_int_equal(memory_live(), before);
        if (!memory_failed())
            break;
        assert_int_equal(rv, TDG_ENOMEM);
    }
    assert_int_equal(rv, 0);
    assert_int_equal(freed, 0);
    assert_in_range(failures, 20, 500);
    json_decref(extra);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, memory_setup, memory_teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        CASE(a_definition_holds_what_was_said),
        CASE(a_resource_has_all_its_fields),
        CASE(a_template_has_all_its_fields),
        CASE(a_tool_has_a_schema_of_an_object),
        CASE(a_prompt_has_its_arguments),
        CASE(a_definition_shares_nothing_with_the_caller),
        CASE(a_malformed_resource_is_refused),
        CASE(a_malformed_template_is_refused),
        CASE(a_nameless_tool_or_prompt_is_refused),
        CASE(the_last_reference_frees_the_users_data),
        CASE(without_memory_there_is_no_entry),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("entry", tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT */
#include "args.h"
#include "support.h"

static const char schema_text[] =
    "{'type': 'object', 'required': ['city', 'days'], 'properties': {"
    " 'city': {'type': 'string'}, 'days': {'type': 'integer'},"
    " 'scale': {'type': 'number'}, 'deep': {'type': 'boolean'},"
    " 'tags': {'type': 'array'}, 'where': {'type': 'object'},"
    " 'mode': {'enum': ['fast', 'slow', 3]}, 'nothing': {'type': 'null'},"
    " 'maybe': {'type': ['integer', 'null', 'string']},"
    " 'either': {'anyOf': [{'type': 'boolean'}, {'$ref': '#/$defs/count'}]},"
    " 'open': {'anyOf': [{'type': 'boolean'}, {}]},"
    " 'both': {'allOf': [{'title': 'x'}, {'type': 'integer'}]},"
    " 'fixed': {'const': 7}, 'loop': {'$ref': '#/properties/loop'},"
    " 'far': {'$ref': 'http://example.org/x'}, 'any': {}, 'true': true},"
    " '$defs': {'count': {'type': 'integer'}}}";

/* One word against the schema: what came out, or what was said. */
static int read_word(const char *word, json_t **ret, char *why) {
    json_t *schema = json_from(schema_text);
    char copy[256];
    char *words[] = {copy};
    int rv;

    snprintf(copy, sizeof(copy), "%s", word);
    *ret = json_object();
    rv = cli_args_add(*ret, schema, words, 1, why);
    json_decref(schema);
    return rv;
}

static void values_get_the_type_of_the_schema(void **state) {
    static const struct {
        const char *word, *object;
    } cases[] = {
        {"city=Oslo", "{'city': 'Oslo'}"},
        {"city=5", "{'city': '5'}"},
        {"city=", "{'city': ''}"},
        {"city=a=b:=c", "{'city': 'a=b:=c'}"},
        {"city=\"x\"", "{'city': '\\\"x\\\"'}"},
        {"days=-3", "{'days': -3}"},
        {"days=4.0", "{'days': 4}"},
        {"scale=2", "{'scale': 2}"},
        {"scale=2.5e1", "{'scale': 25.0}"},
        {"deep=true", "{'deep': true}"},
        {"tags=[\"a\", 1]", "{'tags': ['a', 1]}"},
        {"where={\"a\": {}}", "{'where': {'a': {}}}"},
        {"mode=slow", "{'mode': 'slow'}"},
        {"mode=3", "{'mode': 3}"},
        {"nothing=null", "{'nothing': null}"},
        {"maybe=5", "{'maybe': 5}"},
        {"maybe=null", "{'maybe': null}"},
        {"maybe=five", "{'maybe': 'five'}"},
        {"either=false", "{'either': false}"},
        {"either=12", "{'either': 12}"},
        {"open=true", "{'open': 'true'}"},
        {"both=1", "{'both': 1}"},
        {"fixed=7", "{'fixed': 7}"},
        {"loop=1", "{'loop': '1'}"},
        {"far=1", "{'far': '1'}"},
        {"any=1", "{'any': '1'}"},
        {"true=1", "{'true': '1'}"},
        {"unknown=1", "{'unknown': '1'}"},
    };
    char why[CLI_ARGS_WHY];
    json_t *object;

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        assert_int_equal(read_word(cases[i].word, &object, why), 0);
        assert_json_equal(object, cases[i].object);
        json_decref(object);
    }
}

static void json_can_be_forced(void **state) {
    char why[CLI_ARGS_WHY];
    json_t *object;

    (void)state;
    assert_int_equal(read_word("city:={\"a\": [1, null]}", &object, why), 0);
    assert_json_equal(object, "{'city': {'a': [1, null]}}");
    json_decref(object);
    assert_int_equal(read_word("city:=Oslo", &object, why), TDG_EINVAL);
    assert_non_null(strstr(why, "city is not JSON"));
    json_decref(object);
}

static void says_which_type_is_wanted(void **state) {
    static const struct {
        const char *word, *said;
    } cases[] = {
        {"days=many", "days is a whole number, not 'many'"},
        {"days=1.5", "days is a whole number, not '1.5'"},
        {"days=", "days is a whole number, not ''"},
        {"scale=much", "scale is a number, not 'much'"},
        {"deep=yes", "deep is true or false, not 'yes'"},
        {"tags=a,b", "tags is a JSON array, not 'a,b'"},
        {"where=[1]", "where is a JSON object, not '[1]'"},
        {"mode=medium", "mode is one of fast, slow, 3, not 'medium'"},
        {"either=x", "either is true or false or a whole number, not 'x'"},
        {"=x", "'=x' is not an argument; write name=value"},
        {":=x", "':=x' is not an argument; write name=value"},
        {"word", "'word' is not an argument; write name=value"},
        {"city=\xff", "the value of city is not UTF-8"},
        {"\xff=x", "the name of an argument is not UTF-8"},
    };
    char why[CLI_ARGS_WHY];
    json_t *object;

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        assert_int_equal(read_word(cases[i].word, &object, why), TDG_EINVAL);
        assert_string_equal(why, cases[i].said);
        json_decref(object);
    }
}

static void words_stand_beside_arguments_given_as_json(void **state) {
    char first[] = "a=1", second[] = "b=2";
    char *words[] = {first, second};
    char why[CLI_ARGS_WHY];
    json_t *object;

    (void)state;
    assert_int_equal(cli_args_parse("{\"a\": 0, \"c\": 3}", &object, why), 0);
    assert_int_equal(cli_args_add(object, NULL, words, 2, why), 0);
    assert_json_equal(object, "{'a': '1', 'b': '2', 'c': 3}");
    json_decref(object);

    assert_int_equal(cli_args_parse("[1]", &object, why), TDG_EINVAL);
    assert_non_null(strstr(why, "--arguments is not a JSON object"));
    assert_int_equal(cli_args_parse("{\"a\": 1, \"a\": 2}", &object, why), TDG_EINVAL);
    assert_non_null(strstr(why, "--arguments is not JSON"));
}

static void the_same_word_twice_is_a_mistake(void **state) {
    char first[] = "a=1", second[] = "a:=2";
    char *words[] = {first, second};
    char why[CLI_ARGS_WHY];
    json_t *object = json_object();

    (void)state;
    assert_int_equal(cli_args_add(object, NULL, words, 2, why), TDG_EINVAL);
    assert_string_equal(why, "a is given twice");
    json_decref(object);
}

static void names_that_must_not_be_are_refused_with_a_suggestion(void **state) {
    json_t *schema = json_from("{'properties': {'city': {}, 'days': {}},"
                               " 'additionalProperties': false}");
    char near[] = "ctiy=x", far[] = "zebra=x";
    char *words[] = {near, far};
    char why[CLI_ARGS_WHY];
    json_t *object = json_object();

    (void)state;
    assert_int_equal(cli_args_add(object, schema, words, 1, why), TDG_EINVAL);
    assert_string_equal(why, "unknown argument ctiy; did you mean city?");
    assert_int_equal(cli_args_add(object, schema, words + 1, 1, why), TDG_EINVAL);
    assert_string_equal(why, "unknown argument zebra");
    assert_int_equal(json_object_size(object), 0);
    json_decref(schema);
    json_decref(object);
}

static void names_what_is_missing(void **state) {
    json_t *schema = json_from(schema_text);
    json_t *object = json_from("{'city': 'Oslo'}"), *nothing = json_object();
    char why[CLI_ARGS_WHY];

    (void)state;
    assert_int_equal(cli_args_complete(object, schema, why), TDG_EINVAL);
    assert_string_equal(why, "missing: days");
    assert_int_equal(cli_args_complete(nothing, schema, why), TDG_EINVAL);
    assert_string_equal(why, "missing: city, days");
    json_object_set_new(object, "days", json_integer(1));
    assert_int_equal(cli_args_complete(object, schema, why), 0);
    assert_int_equal(cli_args_complete(nothing, NULL, why), 0);
    json_decref(schema);
    json_decref(object);
    json_decref(nothing);
}

static void a_message_stays_within_its_bounds(void **state) {
    json_t *required = json_array(), *schema;
    char why[CLI_ARGS_WHY], name[400];
    json_t *object = json_object();

    (void)state;
    memset(name, 'n', sizeof(name));
    for (int i = 0; i < 100; i++) {
        name[0] = (char)('a' + i % 26);
        assert_int_equal(
            json_array_append_new(required, json_stringn(name, sizeof(name))), 0);
    }
    schema = json_pack("{s:o}", "required", required);
    assert_int_equal(cli_args_complete(object, schema, why), TDG_EINVAL);
    assert_true(strlen(why) < CLI_ARGS_WHY);
    json_decref(schema);
    json_decref(object);
}

static void a_prompt_takes_texts(void **state) {
    json_t *prompt = json_from("{'name': 'p', 'arguments': [{'name': 'topic', "
                               "'required': true}, {'name': 'tone'}, 5, {}]}");
    json_t *schema = cli_args_prompt_schema(prompt);

    (void)state;
    assert_json_equal(schema, "{'properties': {'topic': {'type': 'string'}, 'tone': "
                              "{'type': 'string'}}, 'required': ['topic'], "
                              "'additionalProperties': false}");
    json_decref(schema);
    json_decref(prompt);

    schema = cli_args_prompt_schema(NULL);
    assert_json_equal(schema, "{'properties': {}, 'required': [], "
                              "'additionalProperties': true}");
    json_decref(schema);
}

/* Schemas that make no sense are read without harm, and what they say is not known. */
static void a_hostile_schema_does_no_harm(void **state) {
    static const char *const schemas[] = {
        "[]",
        "5",
        "{'properties': 5, 'required': 'x', 'additionalProperties': []}",
        "{'properties': {'x': {'type': {'a': 1}}}}",
        "{'properties': {'x': {'type': [1, null, 'strange']}}}",
        "{'properties': {'x': {'$ref': '#'}}, '$ref': '#'}",
        ("{'properties': {'x': {'$ref': '#/properties/y'}, 'y': "
         "{'$ref': '#/properties/x'}}}"),
        "{'properties': {'x': {'anyOf': [{'$ref': '#/properties/x'}]}}}",
        "{'properties': {'x': {'enum': {}, 'anyOf': 1, 'allOf': [[]]}}}",
    };
    char why[CLI_ARGS_WHY];

    (void)state;
    for (size_t i = 0; i < COUNT(schemas); i++) {
        json_t *schema = json_from(schemas[i]), *object = json_object();
        char word[] = "x=1";
        char *words[] = {word};

        assert_int_equal(cli_args_add(object, schema, words, 1, why), 0);
        assert_json_equal(object, "{'x': '1'}");
        assert_int_equal(cli_args_complete(object, schema, why), 0);
        json_decref(schema);
        json_decref(object);
    }
}

/* A definition that refers to itself a thousand times can be followed in 1000^8 ways;
 * other words still get what the schema says of them. */
static void a_schema_that_refers_to_itself_is_not_followed_for_ever(void **state) {
    json_t *branches = json_array(), *schema, *object = json_object();
    char first[] = "n=1", second[] = "x=1";
    char *words[] = {first, second};
    char why[CLI_ARGS_WHY];

    (void)state;
    for (int i = 0; i < 1000; i++)
        assert_int_equal(
            json_array_append_new(branches, json_pack("{s:s}", "$ref", "#/$defs/self")),
            0);
    schema = json_pack("{s:{s:{s:O}}, s:{s:{s:s}, s:{s:s}}}", "$defs", "self", "allOf",
                       branches, "properties", "n", "type", "integer", "x", "$ref",
                       "#/$defs/self");
    assert_non_null(schema);
    assert_int_equal(cli_args_add(object, schema, words, COUNT(words), why), 0);
    assert_json_equal(object, "{'n': 1, 'x': '1'}");
    json_decref(branches);
    json_decref(schema);
    json_decref(object);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_get_the_type_of_the_schema),
        cmocka_unit_test(json_can_be_forced),
        cmocka_unit_test(says_which_type_is_wanted),
        cmocka_unit_test(words_stand_beside_arguments_given_as_json),
        cmocka_unit_test(the_same_word_twice_is_a_mistake),
        cmocka_unit_test(names_that_must_not_be_are_refused_with_a_suggestion),
        cmocka_unit_test(names_what_is_missing),
        cmocka_unit_test(a_message_stays_within_its_bounds),
        cmocka_unit_test(a_prompt_takes_texts),
        cmocka_unit_test(a_hostile_schema_does_no_harm),
        cmocka_unit_test(a_schema_that_refers_to_itself_is_not_followed_for_ever),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("args", tests, NULL, NULL);
}

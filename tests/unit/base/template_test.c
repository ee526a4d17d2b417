/* SPDX-License-Identifier: MIT */
#include <stdio.h>

#include "base/template.h"
#include "support.h"

static tdg__template_t *parse(const char *text) {
    tdg__parse_error_t error = {0};
    tdg__template_t *t = NULL;

    if (tdg__template_parse(text, strlen(text), &t, &error) != 0)
        fail_msg("%s: at %zu: %s", text, error.at, error.text);
    return t;
}

static bool matches(const char *text, const char *uri) {
    tdg__template_value_t values[TDG__TEMPLATE_MAX_NAMES];
    tdg__template_t *t = parse(text);
    bool result = tdg__template_match(t, uri, strlen(uri));
    size_t count;

    assert_int_equal(tdg__template_extract(t, uri, strlen(uri), values, &count), result);
    tdg__template_destroy(t);
    return result;
}

/* Writes the values as "x=1 y=- z=" where y is absent, or "no match". */
static void describe(const tdg__template_t *t, const char *uri, char *text, size_t size) {
    tdg__template_value_t values[TDG__TEMPLATE_MAX_NAMES];
    size_t count, len = 0;

    if (!tdg__template_extract(t, uri, strlen(uri), values, &count)) {
        snprintf(text, size, "no match");
        return;
    }
    for (size_t i = 0; i < count; i++)
        len += (size_t)snprintf(text + len, size - len, "%s%.*s=%.*s", i > 0 ? " " : "",
                                (int)values[i].name_len, values[i].name,
                                values[i].text != NULL ? (int)values[i].len : 1,
                                values[i].text != NULL ? values[i].text : "-");
}

/* Sections 3.2.2 to 3.2.9 of RFC 6570 without the examples that we refuse as ambiguous,
 * and without those that tests below show not to match: empty values, lists not exploded.
 */
static const struct {
    const char *template_;
    const char *expansion;
} rfc_expansions[] = {
    {"{var}", "value"},
    {"{hello}", "Hello%20World%21"},
    {"{half}", "50%25"},
    {"{x,y}", "1024,768"},
    {"{x,hello,y}", "1024,Hello%20World%21,768"},
    {"?{x,undef}", "?1024"},
    {"?{undef,y}", "?768"},
    {"{var:3}", "val"},
    {"{var:30}", "value"},
    {"{list*}", "red,green,blue"},
    {"{keys*}", "semi=%3B,dot=.,comma=%2C"},
    {"{+var}", "value"},
    {"{+hello}", "Hello%20World!"},
    {"{+half}", "50%25"},
    {"{base}index", "http%3A%2F%2Fexample.com%2Fhome%2Findex"},
    {"{+base}index", "http://example.com/home/index"},
    {"{+path}/here", "/foo/bar/here"},
    {"here?ref={+path}", "here?ref=/foo/bar"},
    {"{+path:6}here", "/foo/bhere"},
    {"{+list}", "red,green,blue"},
    {"{+list*}", "red,green,blue"},
    {"{+keys}", "semi,;,dot,.,comma,,"},
    {"{+keys*}", "semi=;,dot=.,comma=,"},
    {"{#var}", "#value"},
    {"{#hello}", "#Hello%20World!"},
    {"{#half}", "#50%25"},
    {"foo{#empty}", "foo#"},
    {"foo{#undef}", "foo"},
    {"{#path:6}here", "#/foo/bhere"},
    {"{#list}", "#red,green,blue"},
    {"{#list*}", "#red,green,blue"},
    {"{#keys}", "#semi,;,dot,.,comma,,"},
    {"{#keys*}", "#semi=;,dot=.,comma=,"},
    {"{.who}", ".fred"},
    {"{.half,who}", ".50%25.fred"},
    {"www{.dom*}", "www.example.com"},
    {"X{.var}", "X.value"},
    {"X{.undef}", "X"},
    {"X{.var:3}", "X.val"},
    {"X{.list*}", "X.red.green.blue"},
    {"X{.keys*}", "X.semi=%3B.dot=..comma=%2C"},
    {"X{.empty_keys*}", "X"},
    {"{/who}", "/fred"},
    {"{/half,who}", "/50%25/fred"},
    {"{/who,dub}", "/fred/me%2Ftoo"},
    {"{/var,undef}", "/value"},
    {"{/var,x}/here", "/value/1024/here"},
    {"{/list*}", "/red/green/blue"},
    {"{/keys*}", "/semi=%3B/dot=./comma=%2C"},
    {"{;who}", ";who=fred"},
    {"{;half}", ";half=50%25"},
    {"{;empty}", ";empty"},
    {"{;v,empty,who}", ";v=6;empty;who=fred"},
    {"{;v,bar,who}", ";v=6;who=fred"},
    {"{;x,y}", ";x=1024;y=768"},
    {"{;x,y,empty}", ";x=1024;y=768;empty"},
    {"{;x,y,undef}", ";x=1024;y=768"},
    {"{;hello:5}", ";hello=Hello"},
    {"{;list*}", ";list=red;list=green;list=blue"},
    {"{;keys*}", ";semi=%3B;dot=.;comma=%2C"},
    {"{?who}", "?who=fred"},
    {"{?half}", "?half=50%25"},
    {"{?x,y}", "?x=1024&y=768"},
    {"{?x,y,empty}", "?x=1024&y=768&empty="},
    {"{?x,y,undef}", "?x=1024&y=768"},
    {"{?var:3}", "?var=val"},
    {"{?list*}", "?list=red&list=green&list=blue"},
    {"{?keys*}", "?semi=%3B&dot=.&comma=%2C"},
    {"{&who}", "&who=fred"},
    {"{&half}", "&half=50%25"},
    {"?fixed=yes{&x}", "?fixed=yes&x=1024"},
    {"{&x,y,empty}", "&x=1024&y=768&empty="},
    {"{&x,y,undef}", "&x=1024&y=768"},
    {"{&var:3}", "&var=val"},
    {"{&list*}", "&list=red&list=green&list=blue"},
    {"{&keys*}", "&semi=%3B&dot=.&comma=%2C"},
};

static void an_expansion_of_the_rfc_matches_its_template(void **state) {
    (void)state;
    for (size_t i = 0; i < COUNT(rfc_expansions); i++)
        if (!matches(rfc_expansions[i].template_, rfc_expansions[i].expansion))
            fail_msg("%s and %s", rfc_expansions[i].template_,
                     rfc_expansions[i].expansion);
}

static void what_no_value_expands_to_does_not_match(void **state) {
    static const struct {
        const char *template_;
        const char *uri;
    } cases[] = {
        {"{x}", "/a"},          {"{x}", "a/b"},         {"{x}", "a,b"},
        {"{x}", "a?b"},         {"{x}", "a b"},         {"{x}", "50%"},
        {"{x}", "50%2"},        {"{x}", "50%2g"},       {"{+x}", "a b"},
        {"{+x}", "a\"b"},       {"{+x}", "a%"},         {"{#x}", "a"},
        {"{.x}", "a"},          {"{/x}", "a"},          {"{/x}", "/a/b"},
        {"{/x,y}", "/a/b/c"},   {"{;x}", ";y"},         {"{;x}", ";xy"},
        {"{;x}", "?x=1"},       {"{?x}", "?x"},         {"{?x}", "?y=1"},
        {"{?x}", "&x=1"},       {"{?x,y}", "?y=1&x=2"}, {"{?x,y}", "?x=1?y=2"},
        {"{?x,y}", "&x=1&y=2"}, {"{?x}", "?x=1&z=2"},   {"{?x*}", "?x"},
        {"{?x*}", "?=1"},       {"{?x*}", "?"},         {"{?x*}", "?a=1&"},
        {"{?x*}", "?a=1=2"},    {"{&x}", "?x=1"},       {"{/x*}", "/"},
        {"{/x*}", "/a/"},       {"{/x*}", "/a//b"},     {"{/x*}", "a/b"},
        {"{x*}", "a,"},         {"{x*}", ",a"},         {"{x*}", "a,,b"},
        {"{x,y}", "a,b,c"},     {"{x,y}", ","},         {"{x,y}", "a,"},
        {"{x:3}", "abcd"},      {"{/x:3}", "/abcd"},    {"{?x:3}", "?x=abcd"},
        {"lit{x}", "liTa"},     {"lit{x}", "lit"},      {"{x}lit", "lit"},
        {"a{x}a", "aa"},        {"a{x}a", "a"},         {"a{?x}a", "a"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++)
        if (matches(cases[i].template_, cases[i].uri))
            fail_msg("%s and %s", cases[i].template_, cases[i].uri);
}

/* Unlike the RFC, where it would make {x} match nothing at all. */
static void an_empty_value_counts_only_behind_a_name_or_a_hash(void **state) {
    (void)state;
    assert_false(matches("O{empty}X", "OX"));
    assert_false(matches("O{+empty}X", "OX"));
    assert_false(matches("?{x,empty}", "?1024,"));
    assert_false(matches("X{.empty}", "X."));
    assert_false(matches("{/var,empty}", "/value/"));
    assert_true(matches("X{#empty}", "X#"));
    assert_true(matches("X{;empty}", "X;empty"));
    assert_true(matches("X{;empty}", "X;empty="));
    assert_true(matches("X{?empty}", "X?empty="));
    assert_true(matches("X{&empty}", "X&empty="));
}

static void a_list_matches_only_where_it_is_exploded(void **state) {
    (void)state;
    assert_false(matches("{list}", "red,green,blue"));
    assert_false(matches("{/list}", "/red,green,blue"));
    assert_false(matches("{?list}", "?list=red,green,blue"));
    assert_true(matches("{list*}", "red,green,blue"));
    assert_true(matches("{list*}", "red"));
}

static void values_are_slices_of_the_uri(void **state) {
    static const struct {
        const char *template_;
        const char *uri;
        const char *values;
    } cases[] = {
        {"db://{tenant}/{table}/{id}", "db://a/b/c", "tenant=a table=b id=c"},
        {"db://{tenant}/{table}/{id}", "db://a/b", "no match"},
        {"f:{+path}", "f:/a/b?c#d", "path=/a/b?c#d"},
        {"f:{x}", "f:%41%c3%A9", "x=%41%c3%A9"},
        {"{a}-{b}", "1-2-3", "a=1-2 b=3"},
        {"{a}-{b}", "---", "a=- b=-"},
        {"{+a}/{b}", "x/y/z", "a=x/y b=z"},
        {"{+a}/end", "x/end/end", "a=x/end"},
        {"{x,y,z}", "1", "x=1 y=- z=-"},
        {"{x,y,z}", "1,2", "x=1 y=2 z=-"},
        {"{x,y,z}", "1,2,3", "x=1 y=2 z=3"},
        {"{x:1,y}", "12,3", "no match"},
        {"{x:1,y}", "12", "x=- y=12"},
        {"{.x,y}", ".a.b", "x=a.b y=-"},
        {"{.x,y}", ".a", "x=a y=-"},
        {"{.x:1,y}", ".a.bc", "x=a y=bc"},
        {"{.x}{/y}", "/b", "x=- y=b"},
        {"{/x,y}", "/a", "x=a y=-"},
        {"{/x,y}/z", "/a/z", "x=a y=-"},
        {"{/x,y}/z", "/z", "x=- y=-"},
        {"{/x,y}/z", "/z/z", "x=z y=-"},
        {"{;x,y}", ";y", "x=- y="},
        {"{;x,y}", ";x=1;y", "x=1 y="},
        {"{;x}y", ";xy", "x="},
        {"{?x,y}", "?y=2", "x=- y=2"},
        {"{?x,y}", "?x=&y=2", "x= y=2"},
        {"{?x,y}", "", "x=- y=-"},
        {"a{?x}{&y}", "a&y=1", "x=- y=1"},
        {"{+x}{?y}", "a?y=1", "x=a?y=1 y=-"},
        {"{x}{?y}{#z}", "a?y=1#2", "x=a y=1 z=2"},
        {"{x}{#z}", "a", "x=a z=-"},
        {"{x}{#z}", "a#", "x=a z="},
        {"w{.dom*}", "w.a.b", "dom=a.b"},
        {"w{.dom*}", "w", "dom=-"},
        {"{/path*}", "/a/b/c", "path=a/b/c"},
        {"{/path*}/c", "/a/b/c", "path=a/b"},
        {"{/path*}{/last}", "/a/b/c", "path=a/b/c last=-"},
        {"{/path*}{?q*}", "/a/b?c=d&e=", "path=a/b q=c=d&e="},
        {"{;q*}", ";a;b=1", "q=a;b=1"},
        {"{x*}-{y}", "a,b-c,d-e", "x=a,b-c,d y=e"},
        {"{x:2}{/y}", "ab/c", "x=ab y=c"},
        {"a{x:2}b", "abbb", "x=bb"},
        {"{v%41.w_1}", "1", "v%41.w_1=1"},
    };
    char text[256];

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        tdg__template_t *t = parse(cases[i].template_);

        describe(t, cases[i].uri, text, sizeof(text));
        if (strcmp(text, cases[i].values) != 0)
            fail_msg("%s and %s: %s, not %s", cases[i].template_, cases[i].uri, text,
                     cases[i].values);
        tdg__template_destroy(t);
    }
}

static void a_prefix_counts_characters_not_bytes(void **state) {
    (void)state;
    assert_true(matches("{x:1}", "a"));
    assert_true(matches("{x:1}", "%41"));
    assert_true(matches("{x:1}", "\xc3\xa9"));
    assert_true(matches("{x:1}", "%C3%A9"));
    assert_true(matches("{x:1}", "%E2%82%AC"));
    assert_true(matches("{x:1}", "%F4%8F%BF%BF"));
    assert_false(matches("{x:1}", "%41%42"));
    assert_false(matches("{x:1}", "%C3%41"));
    assert_false(matches("{x:1}", "\xc3\xa9\xc3\xa9"));
    assert_true(matches("{x:2}", "\xc3\xa9%C3%A9"));
    assert_false(matches("{x:1}", ""));
}

static void a_value_ends_between_characters(void **state) {
    (void)state;
    assert_false(matches("{x}1", "%41"));
    assert_false(matches("{x}%A9", "%C3%A9"));
    assert_true(matches("{x}%A9", "a%A9"));
    assert_true(matches("{x}\xc3\xa9", "\xc3\xa9\xc3\xa9"));
}

static void takes_bytes_that_are_no_utf8_as_they_are(void **state) {
    (void)state;
    assert_true(matches("f:{x}", "f:\xff\xfe"));
    assert_true(matches("f:{+x}", "f:/\xc3/"));
}

static void a_nul_is_part_of_no_value(void **state) {
    tdg__template_t *t = parse("f:{+x}");

    (void)state;
    assert_false(tdg__template_match(t, "f:a\0b", 5));
    assert_true(tdg__template_match(t, "f:a\0b", 3));
    tdg__template_destroy(t);
}

static void tells_its_text_and_how_much_of_it_is_literal(void **state) {
    tdg__template_t *t = parse("db://{a}/x{?b}");
    size_t len;

    (void)state;
    assert_string_equal(tdg__template_text(t, &len), "db://{a}/x{?b}");
    assert_int_equal(len, strlen("db://{a}/x{?b}"));
    assert_int_equal(tdg__template_literal_len(t), strlen("db:///x"));
    tdg__template_destroy(t);
}

static void refuses_what_the_grammar_does_not_have(void **state) {
    static const struct {
        const char *text;
        size_t at;
    } cases[] = {
        {"", 0},          {"plain:uri", 0}, {"{", 1},
        {"a{x", 3},       {"a}", 1},        {"{x}}", 3},
        {"{}", 1},        {"{+}", 2},       {"{{x}}", 1},
        {"{x{y}}", 2},    {"{=x}", 1},      {"{,x}", 1},
        {"{!x}", 1},      {"{@x}", 1},      {"{|x}", 1},
        {"{x,}", 3},      {"{x,,y}", 3},    {"{x y}", 2},
        {"{-x}", 1},      {"{x-y}", 2},     {"{.}", 2},
        {"{x.}", 3},      {"{x..y}", 3},    {"{%4}", 1},
        {"{x:}", 3},      {"{x:0}", 3},     {"{x:03}", 3},
        {"{x:10000}", 7}, {"{x:a}", 3},     {"{x:-1}", 3},
        {"{x:3*}", 4},    {"{x*:3}", 3},    {"{x**}", 3},
        {"a b{x}", 1},    {"a\"{x}", 1},    {"a'{x}", 1},
        {"a<{x}", 1},     {"a>{x}", 1},     {"a\\{x}", 1},
        {"a^{x}", 1},     {"a`{x}", 1},     {"a|{x}", 1},
        {"a\x01{x}", 1},  {"a\x7f{x}", 1},  {"a\xc2\x80{x}", 1},
        {"a\xff{x}", 1},  {"a\xc3{x}", 1},  {"a%{x}", 1},
        {"a%4{x}", 1},    {"a%4g{x}", 1},   {"{a}{b}}", 6},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        tdg__parse_error_t error = {.at = 999};
        tdg__template_t *t = NULL;
        int rv = tdg__template_parse(cases[i].text, strlen(cases[i].text), &t, &error);

        if (rv != TDG_ETEMPLATE || error.at != cases[i].at)
            fail_msg("%s: %d at %zu, not at %zu: %s", cases[i].text, rv, error.at,
                     cases[i].at, error.text);
        assert_null(t);
        assert_int_equal(
            tdg__template_parse(cases[i].text, strlen(cases[i].text), &t, NULL),
            TDG_ETEMPLATE);
    }
}

static void refuses_a_nul_wherever_it_stands(void **state) {
    static const char *const texts[] = {"\0{x}", "{\0x}", "{x\0}", "{x:\0}", "{x}\0"};
    static const size_t lens[] = {4, 4, 4, 5, 4};
    tdg__template_t *t = NULL;

    (void)state;
    for (size_t i = 0; i < COUNT(texts); i++)
        assert_int_equal(tdg__template_parse(texts[i], lens[i], &t, NULL), TDG_ETEMPLATE);
}

static void refuses_what_could_be_cut_in_several_ways(void **state) {
    static const struct {
        const char *text;
        size_t at;
    } cases[] = {
        {"{a}{b}", 3},  {"{a}{+b}", 3}, {"{+a}{b}", 4},  {"{?a}{b}", 4},  {"x{a}{b*}", 4},
        {"{+x,y}", 0},  {"{#x,y}", 0},  {"a{x*,y}", 2},  {"{x,y*}", 3},   {"{/x,y*}", 4},
        {"{?x*,y}", 2}, {"{a}/{a}", 5}, {"{/a:1,a}", 6}, {"{?a,b,a}", 6},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        tdg__parse_error_t error = {.at = 999};
        tdg__template_t *t = NULL;
        int rv = tdg__template_parse(cases[i].text, strlen(cases[i].text), &t, &error);

        if (rv != TDG_EAMBIGUOUS || error.at != cases[i].at)
            fail_msg("%s: %d at %zu, not at %zu: %s", cases[i].text, rv, error.at,
                     cases[i].at, error.text);
        assert_null(t);
    }
}

static void takes_as_many_parts_and_names_as_promised(void **state) {
    tdg__parse_error_t error = {0};
    char text[1024] = "";
    size_t len = 0;
    tdg__template_t *t;

    (void)state;
    assert_int_equal(TDG__TEMPLATE_MAX_NAMES, 16);
    assert_int_equal(TDG__TEMPLATE_MAX_PARTS, 33);
    for (int i = 0; i < 16; i++)
        len += (size_t)snprintf(text + len, sizeof(text) - len, "/{v%d}", i);
    strcpy(text + len, "/");
    assert_true(matches(text, "/a/b/c/d/e/f/g/h/i/j/k/l/m/n/o/p/"));
    strcpy(text + len, "{/w}");
    assert_int_equal(tdg__template_parse(text, strlen(text), &t, &error), TDG_ETEMPLATE);
    assert_string_equal(error.text, "more than 16 variables");
    strcpy(text + len, "/{w}");
    assert_int_equal(tdg__template_parse(text, strlen(text), &t, &error), TDG_ETEMPLATE);
    assert_string_equal(error.text, "more than 33 literals and expressions");

    len = (size_t)snprintf(text, sizeof(text), "{?v0");
    for (int i = 1; i < TDG__TEMPLATE_MAX_NAMES; i++)
        len += (size_t)snprintf(text + len, sizeof(text) - len, ",v%d", i);
    strcpy(text + len, "}");
    assert_true(matches(text, "?v0=a&v7=b&v15=c"));
    assert_true(matches(text, ""));
    strcpy(text + len, ",w}");
    assert_int_equal(tdg__template_parse(text, strlen(text), &t, &error), TDG_ETEMPLATE);
    assert_string_equal(error.text, "more than 16 variables");
    assert_int_equal(error.at, len + 1);
}

/* What stands where decides, not only that it stands there. */
static void literals_stand_in_their_order_and_apart(void **state) {
    (void)state;
    assert_true(matches("a{+x}b{+y}c", "a1b2c"));
    assert_false(matches("a{+x}b{+y}c", "a1c2b"));
    assert_false(matches("a{+x}b{+y}c", "a1c"));
    assert_false(matches("a{+x}b{+y}c", "ab2c"));
    assert_false(matches("a{+x}b{+y}c", "a1bc"));
    assert_true(matches("a{+x}b{+y}c", "abbbc"));
    assert_true(matches("a{+x}b{+y}c", "abbcc"));
    assert_false(matches("a{+x}b{+y}c", "abbc"));
    assert_true(matches("{+x}ab{+y}", "aabb"));
    assert_false(matches("{+x}aba{+y}aba{+z}", "-aba-ba-"));
    assert_true(matches("{+x}aba{+y}aba{+z}", "-abababa-"));
    assert_true(matches("{x}.{y}{.z}-{w}", "1.2-3"));
    assert_false(matches("{x}.{y}{.z}-{w}", "1.-3"));
    assert_true(matches("a{/x}b{?y}c{;z}d{#w}e{&v}f", "abcdef"));
    assert_false(matches("a{/x}b{?y}c{;z}d{#w}e{&v}f", "abcedf"));
    assert_true(matches("{x,y}-{z*}", "1-2"));
    assert_false(matches("{x,y}-{z*}", "-2"));
    assert_false(matches("{x,y}-{z*}", "1-"));
    assert_false(matches("{x}", ""));
}

static char *repeat(const char *start, char fill, size_t len) {
    char *uri = malloc(len + 1);

    assert_non_null(uri);
    memset(uri, fill, len);
    memcpy(uri, start, strlen(start));
    uri[len] = '\0';
    return uri;
}

static void takes_uris_and_templates_of_8_kib_and_no_longer(void **state) {
    char *uri = repeat("f:", 'a', 8193);
    tdg__template_t *t = parse("f:{x}");

    (void)state;
    assert_true(tdg__template_match(t, uri, 8192));
    assert_false(tdg__template_match(t, uri, 8193));
    tdg__template_destroy(t);

    memcpy(uri, "{x}", 3);
    assert_int_equal(tdg__template_parse(uri, 8193, &t, NULL), TDG_ETEMPLATE);
    assert_int_equal(tdg__template_parse(uri, 8192, &t, NULL), 0);
    tdg__template_destroy(t);
    free(uri);
}

/* The dashes of the URI are literal and value at once, at every place: a matcher that
 * tries all cuts would not come back, and the time limit of the runner would end it. */
static void hostile_templates_do_not_take_long(void **state) {
    static const struct {
        const char *before;
        const char *after;
        bool matches; /* dashes alone; never the URI with another end */
    } shapes[] = {
        {"{v", "}-", true},  {"{+v", "}-", true},     {"{.v", "}-", false},
        {"{v", "*}-", true}, {"{v", ":9000}-", true},
    };
    char *uri = repeat("", '-', 8192);

    (void)state;
    uri[8191] = '!';
    for (size_t shape = 0; shape < COUNT(shapes); shape++) {
        char text[1024] = "";
        size_t len = 0;
        tdg__template_t *t;

        for (int i = 0; i < TDG__TEMPLATE_MAX_PARTS / 2; i++)
            len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%d%s",
                                    shapes[shape].before, i, shapes[shape].after);
        t = parse(text);
        assert_false(tdg__template_match(t, uri, 8192));
        assert_int_equal(tdg__template_match(t, uri, 8191), shapes[shape].matches);
        tdg__template_destroy(t);
    }
    free(uri);
}

static void says_when_memory_is_out(void **state) {
    tdg__template_t *t = NULL;

    (void)state;
    memory_fail(1, MEMORY_FROM_THEN_ON);
    assert_int_equal(tdg__template_parse("{x}", 3, &t, NULL), TDG_ENOMEM);
    assert_true(memory_failed());
    assert_null(t);
    tdg__template_destroy(NULL);
}

static void matches_without_memory(void **state) {
    tdg__template_value_t values[TDG__TEMPLATE_MAX_NAMES];
    tdg__template_t *t = parse("db://{x}{?y}");
    size_t count, calls = memory_calls();

    (void)state;
    memory_fail(1, MEMORY_FROM_THEN_ON);
    assert_true(tdg__template_match(t, "db://a?y=1", 10));
    assert_true(tdg__template_extract(t, "db://a?y=1", 10, values, &count));
    assert_int_equal(memory_calls(), calls); /* it does not even ask */
    assert_int_equal(count, 2);
    tdg__template_destroy(t);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, memory_setup, memory_teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(an_expansion_of_the_rfc_matches_its_template),
        TEST(what_no_value_expands_to_does_not_match),
        TEST(an_empty_value_counts_only_behind_a_name_or_a_hash),
        TEST(a_list_matches_only_where_it_is_exploded),
        TEST(values_are_slices_of_the_uri),
        TEST(a_prefix_counts_characters_not_bytes),
        TEST(a_value_ends_between_characters),
        TEST(takes_bytes_that_are_no_utf8_as_they_are),
        TEST(a_nul_is_part_of_no_value),
        TEST(tells_its_text_and_how_much_of_it_is_literal),
        TEST(refuses_what_the_grammar_does_not_have),
        TEST(refuses_a_nul_wherever_it_stands),
        TEST(refuses_what_could_be_cut_in_several_ways),
        TEST(takes_as_many_parts_and_names_as_promised),
        TEST(literals_stand_in_their_order_and_apart),
        TEST(takes_uris_and_templates_of_8_kib_and_no_longer),
        TEST(hostile_templates_do_not_take_long),
        TEST(says_when_memory_is_out),
        TEST(matches_without_memory),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("template", tests, NULL, NULL);
}

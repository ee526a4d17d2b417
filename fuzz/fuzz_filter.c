/* SPDX-License-Identifier: MIT
 *
 * Input: a filter and metadata, two JSON values one after the other; what follows them is
 * the URI. Beyond "nothing crashes" it checks what must hold for every filter: its text
 * is a filter of the same text and verdict, and `not`, `all` and `any` mean what they
 * say. */
#include <string.h>

#include <tidings/error.h>

#include "base/filter.h"
#include "fuzz.h"

enum {
    MAX_INPUT = 4096,
    LOAD_FLAGS = JSON_DECODE_ANY | JSON_ALLOW_NUL | JSON_REJECT_DUPLICATES,
};

static const tdg__filter_limits_t limits = {.max_bytes = 1024, .max_depth = 6};

/* Takes one value off the front of *data. NULL where there is none. */
static json_t *take_value(const char **data, size_t *size) {
    json_error_t error;
    json_t *json = json_loadb(*data, *size, LOAD_FLAGS | JSON_DISABLE_EOF_CHECK, &error);

    if (json != NULL) {
        *data += error.position;
        *size -= (size_t)error.position;
    }
    return json;
}

/* The text is one printable line, as clients and logs get to see it. */
static void require_readable(const tdg__parse_error_t *error) {
    size_t len = strnlen(error->text, sizeof(error->text));
    json_t *json;

    require(len > 0 && len < sizeof(error->text));
    for (size_t i = 0; i < len; i++)
        require((unsigned char)error->text[i] >= 0x20);

    json = json_stringn(error->text, len); /* refuses what is not UTF-8 */
    require(json != NULL);
    json_decref(json);
}

/* A larger filter made around a good one has the verdict that follows, unless it exceeds
 * the limits. Steals `json`. */
static void require_verdict(json_t *json, const tdg__filter_input_t *input,
                            bool expected) {
    tdg__filter_t *filter = NULL;
    int rv;

    require(json != NULL);
    rv = tdg__filter_parse(json, &limits, &filter, NULL);
    if (rv == 0)
        require(tdg__filter_match(filter, input) == expected);
    else
        require(rv == TDG_EFILTERSIZE || rv == TDG_EFILTERDEPTH);
    tdg__filter_destroy(filter);
    json_decref(json);
}

static void check_text(const tdg__filter_t *filter, const tdg__filter_input_t *input,
                       bool passes) {
    const tdg__buf_t *text = tdg__filter_text(filter), *again_text;
    json_t *json = json_loadb(text->data, text->len, LOAD_FLAGS, NULL);
    tdg__filter_t *again = NULL;

    require(text->len <= limits.max_bytes && json != NULL);
    require(tdg__filter_parse(json, &limits, &again, NULL) == 0);
    again_text = tdg__filter_text(again);
    require(again_text->len == text->len);
    require(memcmp(again_text->data, text->data, text->len) == 0);
    require(tdg__filter_match(again, input) == passes);
    tdg__filter_destroy(again);
    json_decref(json);
}

static void check_filter(json_t *json, const tdg__filter_input_t *input) {
    tdg__parse_error_t error = {.text = ""};
    tdg__filter_t *filter = NULL;
    bool passes;
    int rv;

    rv = tdg__filter_parse(json, &limits, &filter, &error);
    if (rv < 0) {
        require(rv == TDG_EFILTER || rv == TDG_EFILTERSIZE || rv == TDG_EFILTERDEPTH);
        require(filter == NULL);
        require_readable(&error);
        return;
    }

    passes = tdg__filter_match(filter, input);
    check_text(filter, input, passes);
    require_verdict(json_pack("{s:O}", "not", json), input, !passes);
    require_verdict(json_pack("{s:[O,O]}", "all", json, json), input, passes);
    require_verdict(json_pack("{s:[{s:{}},O]}", "any", "not", json), input, passes);
    require_verdict(json_pack("{s:[O,{}]}", "any", json), input, true);
    tdg__filter_destroy(filter);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const char *rest = (const char *)data;
    tdg__filter_input_t input = {.wall_ms = 1700000000000};
    json_t *filter, *metadata;

    if (size > MAX_INPUT)
        return 0;

    filter = take_value(&rest, &size);
    if (filter == NULL)
        return 0;

    metadata = take_value(&rest, &size);
    input.metadata = metadata;
    input.uri = rest;
    input.uri_len = size;
    check_filter(filter, &input);

    json_decref(metadata);
    json_decref(filter);
    return 0;
}

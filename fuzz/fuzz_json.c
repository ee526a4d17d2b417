/* SPDX-License-Identifier: MIT
 *
 * Input: text that may be JSON. Our parser takes what jansson's takes, makes the same of
 * it, and what we write of that is read back as the same. With narrow limits it either
 * stops at one of them or does the same as without. */
#include <string.h>

#include <tidings/error.h>

#include "base/json.h"
#include "base/text.h"
#include "fuzz.h"

enum { MAX_INPUT = 4096 };

static const tdg__json_limits_t wide = {
    .max_bytes = 16 * MAX_INPUT, .max_depth = 64, .max_values = MAX_INPUT};
static const tdg__json_limits_t narrow = {
    .max_bytes = 256, .max_depth = 3, .max_values = 16};

static void check_error(const tdg__parse_error_t *error, size_t size) {
    size_t len = strnlen(error->text, sizeof(error->text));

    require(error->at <= size);
    require(len > 0 && len < sizeof(error->text));
    for (size_t i = 0; i < len; i++)
        require(error->text[i] >= 0x20 && error->text[i] < 0x7f);
}

/* What we write is one line, and the same when it is read and written again. */
static void check_written(const json_t *json) {
    tdg__text_t text, again_text;
    json_t *again = NULL;

    tdg__text_init(&text, wide.max_bytes);
    tdg__text_put_json(&text, json);
    require(text.error == 0 || text.error == TDG_ETOOLARGE);
    if (text.error == 0) {
        require(strchr(text.data, '\n') == NULL && strlen(text.data) == text.len);
        require(tdg__json_parse(text.data, text.len, &wide, &again, NULL) == 0);
        require(json_equal(json, again) == 1);

        tdg__text_init(&again_text, wide.max_bytes);
        tdg__text_put_json(&again_text, again);
        require(again_text.len == text.len);
        require(memcmp(again_text.data, text.data, text.len) == 0);
        tdg__text_done(&again_text);
    }
    json_decref(again);
    tdg__text_done(&text);
}

/* A string that we quote is the string that is read. */
static void check_quoted(const char *data, size_t size) {
    tdg__text_t text;
    json_t *json = NULL;

    if (!tdg__utf8_is_valid(data, size) || memchr(data, '\0', size) != NULL)
        return;

    tdg__text_init(&text, wide.max_bytes);
    tdg__text_put_quoted(&text, data, size);
    require(text.error == 0);
    require(tdg__json_parse(text.data, text.len, &wide, &json, NULL) == 0);
    require(json_string_length(json) == size);
    require(memcmp(json_string_value(json), data, size) == 0);
    json_decref(json);
    tdg__text_done(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    tdg__parse_error_t error = {.at = SIZE_MAX, .text = ""};
    const char *text = (const char *)data;
    bool has_nul = size > 0 && memchr(text, '\0', size) != NULL; /* jansson skips some */
    json_t *ours = NULL, *theirs, *bounded = NULL;
    int rv;

    if (size > MAX_INPUT)
        return 0;

    theirs = json_loadb(text, size, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, NULL);
    rv = tdg__json_parse(text, size, &wide, &ours, &error);
    if (rv == 0) {
        require(theirs != NULL && json_equal(ours, theirs) == 1 && !has_nul);
        check_written(ours);
    } else {
        require(ours == NULL);
        require(rv == TDG_EJSON || rv == TDG_ENUMBER || rv == TDG_ETOOLARGE);
        require(theirs == NULL || rv == TDG_ETOOLARGE || has_nul);
        check_error(&error, size);
    }

    rv = tdg__json_parse(text, size, &narrow, &bounded, NULL);
    require(rv == TDG_ETOOLARGE || json_equal(bounded, ours) == 1 ||
            (bounded == NULL && ours == NULL));
    check_quoted(text, size);

    json_decref(bounded);
    json_decref(ours);
    json_decref(theirs);
    return 0;
}

/* SPDX-License-Identifier: MIT
 *
 * Lines: the first is a URI, each other one a template. Matching and extracting agree,
 * values lie in the URI in the order of the template, a template is found by the index if
 * and only if it matches, and what is removed is not found. */
#include <string.h>

#include "base/template_index.h"
#include "fuzz.h"

enum { MAX_TEMPLATES = 8 };

struct lines {
    const char *uri;
    size_t uri_len;
    tdg__template_t *templates[MAX_TEMPLATES];
    size_t count;
    unsigned visits[MAX_TEMPLATES];
};

static void visit(void *user, uint32_t value) {
    struct lines *lines = user;

    lines->visits[value - 1]++;
}

static void check_values(const struct lines *lines, const tdg__template_t *t) {
    tdg__template_value_t values[TDG__TEMPLATE_MAX_NAMES];
    bool matched = tdg__template_match(t, lines->uri, lines->uri_len);
    const char *at = lines->uri, *end = lines->uri + lines->uri_len;
    size_t count;

    require(tdg__template_extract(t, lines->uri, lines->uri_len, values, &count) ==
            matched);
    for (size_t i = 0; matched && i < count; i++) {
        require(values[i].name_len > 0);
        if (values[i].text == NULL)
            continue;
        require(values[i].text >= at && values[i].len <= (size_t)(end - values[i].text));
        at = values[i].text + values[i].len;
    }
}

static void check_index(struct lines *lines, tdg__template_index_t *index,
                        size_t removed) {
    memset(lines->visits, 0, sizeof(lines->visits));
    tdg__template_index_match(index, lines->uri, lines->uri_len, visit, lines);
    for (size_t i = 0; i < lines->count; i++)
        require(lines->visits[i] ==
                (i >= removed &&
                 tdg__template_match(lines->templates[i], lines->uri, lines->uri_len)));
}

static void parse_line(struct lines *lines, const char *text, size_t len) {
    tdg__parse_error_t error = {.at = SIZE_MAX};

    if (lines->count == MAX_TEMPLATES)
        return;
    if (tdg__template_parse(text, len, &lines->templates[lines->count], &error) == 0)
        lines->count++;
    else
        require(error.at <= len && error.text[0] != '\0');
}

static struct lines read_lines(const char *text, size_t len) {
    struct lines lines = {.uri = text};
    const char *end = text + len, *newline;

    newline = len > 0 ? memchr(text, '\n', len) : NULL;
    lines.uri_len = newline != NULL ? (size_t)(newline - text) : len;
    while (newline != NULL) {
        text = newline + 1;
        newline = text < end ? memchr(text, '\n', (size_t)(end - text)) : NULL;
        parse_line(&lines, text, (size_t)((newline != NULL ? newline : end) - text));
    }
    return lines;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct lines lines = read_lines((const char *)data, size);
    tdg__template_index_t *index;

    require(tdg__template_index_create(&index) == 0);
    for (size_t i = 0; i < lines.count; i++) {
        check_values(&lines, lines.templates[i]);
        require(tdg__template_index_add(index, lines.templates[i], (uint32_t)i + 1) == 0);
    }
    for (size_t i = 0; i <= lines.count; i++) {
        check_index(&lines, index, i);
        if (i < lines.count)
            tdg__template_index_remove(index, lines.templates[i], (uint32_t)i + 1);
    }

    require(tdg__template_index_count(index) == 0);
    tdg__template_index_destroy(index);
    for (size_t i = 0; i < lines.count; i++)
        tdg__template_destroy(lines.templates[i]);
    return 0;
}

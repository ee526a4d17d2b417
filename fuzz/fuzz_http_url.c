/* SPDX-License-Identifier: MIT
 *
 * Input: three lines. A URL of a config with variables of the template
 * "x:{a}/{b}", and the values of both as a client chooses them, the third up to the end.
 * Whatever they are, the URL that is asked has the scheme and the host of the config, no
 * segment that leads elsewhere, and no byte that ends a line: by its text, and as the
 * room that sends the request reads it. */
#include <string.h>

#include <tidings/error.h>

#include "fuzz.h"
#include "source/http/http_url.h"
#include "web/web_url.h"

enum { MAX_BYTES = 4096 };

static tdg__template_t *template_;

static const char *value_of(void *arg, const char *name) {
    char *const *values = arg;

    return strcmp(name, "a") == 0 ? values[0] : strcmp(name, "b") == 0 ? values[1] : NULL;
}

/* The length of scheme, host and port: up to the first slash or question mark behind
 * them. */
static size_t origin_len(const char *url) {
    const char *host = strstr(url, "://");

    require(host != NULL);
    return (size_t)(host - url) + 3 + strcspn(host + 3, "/?");
}

static void check_path(const char *path) {
    size_t end = strcspn(path, "?");

    require(memmem(path, end, "/../", 4) == NULL && memmem(path, end, "/./", 3) == NULL);
    require(end < 3 || memcmp(path + end - 3, "/..", 3) != 0);
    require(memmem(path, end, "%2F..%2F", 8) == NULL);
    for (const char *c = path; *c != '\0'; c++)
        require((unsigned char)*c > ' ' && *c != 0x7f && *c != '#');
}

static void check_request(const char *url, const char *expanded) {
    tdg__web_url_t from, to;
    const char *why;

    if (tdg__web_url_read(url, NULL, &from, &why) == 0) {
        require(tdg__web_url_read(expanded, NULL, &to, &why) == 0);
        require(tdg__web_url_hop(&from, &to) == TDG__WEB_HOP_SAME);
        tdg__web_url_done(&to);
    }
    tdg__web_url_done(&from);
}

static void check_expanded(const char *url, char **values) {
    tdg__text_t out;

    tdg__text_init(&out, TDG__HTTP_URL_MAX);
    int rv = tdg__http_url_expand(url, value_of, values, &out);
    require(rv == 0 || rv == TDG_ENOTFOUND || rv == TDG_ETOOLARGE);
    if (rv == 0) {
        size_t origin = origin_len(url);

        require(origin_len(out.data) == origin && memcmp(out.data, url, origin) == 0);
        check_path(out.data + origin);
        check_request(url, out.data);
    }
    tdg__text_done(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char pattern[] = "x:{a}/{b}";
    tdg__parse_error_t error = {0};
    char text[MAX_BYTES + 1], *rest = text, *url, *values[2];

    if (size > MAX_BYTES)
        return 0;
    if (template_ == NULL)
        require(tdg__template_parse(pattern, strlen(pattern), &template_, &error) == 0);
    memcpy(text, data, size);
    text[size] = '\0';
    url = next_line(&rest);
    values[0] = next_line(&rest);
    values[1] = rest;

    int rv = tdg__http_url_check(url, template_, &error);
    require(rv == 0 || (rv == TDG_EINVAL && error.text[0] != '\0'));
    if (rv == 0)
        check_expanded(url, values);
    return 0;
}

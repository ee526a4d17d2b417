/* SPDX-License-Identifier: MIT */
#include "source/http/http_url.h"

#include <string.h>
#include <strings.h>

#include <tidings/error.h>

#include "base/template_expand.h"
#include "web/web_url.h"

enum { MAX_NAME = 256 };

/* ---- Variables ---------------------------------------------------------- */

/* Where the path (or the query) begins: behind "scheme://host". */
static size_t authority_end(const char *url) {
    const char *host = strstr(url, "://");
    size_t at = host != NULL ? (size_t)(host + 3 - url) : 0;

    return at + strcspn(url + at, "/?#");
}

/* The variable at `open`, a '{'. Stores its name and returns what comes behind its '}';
 * NULL: it is none. */
static const char *read_variable(const char *open, char name[MAX_NAME]) {
    size_t len = strcspn(open + 1, "{}");

    if (open[len + 1] != '}' || len == 0 || len >= MAX_NAME)
        return NULL;
    memcpy(name, open + 1, len);
    name[len] = '\0';
    return open + len + 2;
}

/* Appends the URL, with what `value` says in the places of its variables. */
static int replace(const char *url, tdg__http_url_value_fn value, void *arg,
                   tdg__text_t *out) {
    static const char hex[] = "0123456789ABCDEF";
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                                "0123456789-._~";
    char name[MAX_NAME];

    while (*url != '\0') {
        size_t len = strcspn(url, "{");

        tdg__text_add(out, url, len);
        url += len;
        if (*url == '\0')
            break;
        url = read_variable(url, name);
        if (url == NULL)
            return TDG_EINVAL;

        const char *text = value(arg, name);

        for (; text != NULL && *text != '\0' && out->error == 0; text++) {
            unsigned char c = (unsigned char)*text;
            char triplet[3] = {'%', hex[c >> 4], hex[c & 0xf]};

            if (strchr(plain, c) != NULL)
                tdg__text_add(out, text, 1);
            else
                tdg__text_add(out, triplet, 3);
        }
    }
    return out->error;
}

/* ---- The shape of a path ------------------------------------------------ */

/* How many bytes the separator here has; 0: it is none. */
static size_t separator(const char *at) {
    if (*at == '/' || *at == '\\')
        return 1;
    return strncasecmp(at, "%2f", 3) == 0 || strncasecmp(at, "%5c", 3) == 0 ? 3 : 0;
}

static size_t dot(const char *at) {
    return *at == '.' ? 1 : strncasecmp(at, "%2e", 3) == 0 ? 3 : 0;
}

static bool is_end(const char *at) {
    return *at == '\0' || *at == '?' || *at == '#' || separator(at) > 0;
}

/* Whether a segment of the path is "." or "..", however it is written. */
static bool has_dot_segment(const char *path) {
    while (*path != '\0' && *path != '?' && *path != '#') {
        const char *at = path + separator(path);

        if (dot(at) > 0) {
            const char *behind = at + dot(at);

            if (is_end(behind) || (dot(behind) > 0 && is_end(behind + dot(behind))))
                return true;
        }
        for (path = at; !is_end(path);)
            path++;
    }
    return false;
}

/* ---- Using a URL -------------------------------------------------------- */

struct filler {
    tdg__http_url_value_fn value;
    void *arg;
    const tdg__text_t *out;
    size_t begin; /* of the URL in there */
    bool missing; /* a value in the path */
};

static bool is_in_path(const struct filler *filler) {
    const tdg__text_t *out = filler->out;

    return out->data == NULL ||
           memchr(out->data + filler->begin, '?', out->len - filler->begin) == NULL;
}

static const char *filled(void *arg, const char *name) {
    struct filler *filler = arg;
    const char *text = filler->value(filler->arg, name);

    if ((text == NULL || *text == '\0') && is_in_path(filler))
        filler->missing = true;
    return text;
}

int tdg__http_url_expand(const char *url, tdg__http_url_value_fn value, void *arg,
                         tdg__text_t *out) {
    size_t begin = out->len;
    struct filler filler = {.value = value, .arg = arg, .out = out, .begin = begin};

    int rv = replace(url, filled, &filler, out);
    if (rv < 0)
        return rv;
    if (out->data == NULL || filler.missing ||
        has_dot_segment(out->data + begin + authority_end(out->data + begin)))
        return TDG_ENOTFOUND;
    return 0;
}

/* ---- Checking it -------------------------------------------------------- */

static const char *stand_in(void *arg, const char *name) {
    (void)arg, (void)name;
    return "x";
}

static int check_variables(const char *url, const tdg__template_t *template_,
                           tdg__parse_error_t *error) {
    size_t host_end = authority_end(url);
    const char *at = url + strcspn(url, "{}"), *behind;
    char name[MAX_NAME];

    for (; *at != '\0'; at = behind + strcspn(behind, "{}")) {
        size_t offset = (size_t)(at - url);

        behind = *at == '{' ? read_variable(at, name) : NULL;
        if (behind == NULL)
            return tdg__parse_fail(error, TDG_EINVAL, offset,
                                   "a variable is written {name}; a brace is %%7B or "
                                   "%%7D");
        if (offset < host_end)
            return tdg__parse_fail(error, TDG_EINVAL, offset,
                                   "a variable cannot be part of scheme, host or port");
        if (!tdg__template_has_name(template_, name))
            return tdg__parse_fail(error, TDG_EINVAL, offset,
                                   "`uri` has no variable {%s}", name);
    }
    return 0;
}

/* Both slashes: libcurl finds a host behind one as well, and we would take it for the
 * path, where a client may choose. */
static bool begins_right(const char *url) {
    return strncasecmp(url, "http://", 7) == 0 || strncasecmp(url, "https://", 8) == 0;
}

/* The URL without variables. */
static int check_plain(const char *url, tdg__parse_error_t *error) {
    tdg__web_url_t read;
    const char *why;
    int rv = tdg__web_url_read(url, NULL, &read, &why);
    bool has_user = read.user != NULL || read.password != NULL;

    tdg__web_url_done(&read);
    if (rv == TDG_ENOMEM)
        return rv;
    if (rv < 0 || !begins_right(url))
        return tdg__parse_fail(error, TDG_EINVAL, 0,
                               "this is not a URL that begins with http:// or https://");
    if (has_user)
        return tdg__parse_fail(error, TDG_EINVAL, 0,
                               "a user name cannot be part of the URL; put it into "
                               "`headers`, as Authorization");
    if (strchr(url, '#') != NULL)
        return tdg__parse_fail(error, TDG_EINVAL, 0,
                               "a fragment (#...) is never sent to a server");
    if (has_dot_segment(url + authority_end(url)))
        return tdg__parse_fail(error, TDG_EINVAL, 0,
                               "the path has a segment that is `.` or `..`");
    return 0;
}

int tdg__http_url_check(const char *url, const tdg__template_t *template_,
                        tdg__parse_error_t *error) {
    tdg__text_t plain;

    int rv = check_variables(url, template_, error);
    if (rv < 0)
        return rv;
    tdg__text_init(&plain, TDG__HTTP_URL_MAX);
    rv = replace(url, stand_in, NULL, &plain);
    if (rv == TDG_ETOOLARGE)
        rv = tdg__parse_fail(error, TDG_EINVAL, TDG__HTTP_URL_MAX,
                             "a URL has at most %d bytes", TDG__HTTP_URL_MAX);
    if (rv == 0)
        rv = check_plain(plain.data != NULL ? plain.data : "", error);
    tdg__text_done(&plain);
    return rv;
}

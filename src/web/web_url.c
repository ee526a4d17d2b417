/* SPDX-License-Identifier: MIT */
#include "web/web_url.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <curl/curl.h>
#include <tidings/error.h>

#include "base/alloc.h"

void tdg__web_url_done(tdg__web_url_t *url) {
    tdg__free(url->url);
    tdg__free(url->host);
    tdg__free(url->user);
    tdg__free(url->password);
    *url = (tdg__web_url_t){.url = NULL};
}

static bool is_sane(const char *text, char least) {
    if (strlen(text) > TDG__WEB_MAX_URL)
        return false;
    for (; *text != '\0'; text++)
        if ((unsigned char)*text < (unsigned char)least || *text == 0x7f)
            return false;
    return true;
}

/* A part as our own copy; NULL where there is none. False: memory is out. */
static bool take(CURLU *parsed, CURLUPart part, unsigned flags, char **ret) {
    char *text = NULL;
    CURLUcode code = curl_url_get(parsed, part, &text, flags);
    bool ok = code != CURLUE_OUT_OF_MEMORY && tdg__copy(text, ret);

    curl_free(text);
    return ok;
}

static int take_parts(CURLU *parsed, tdg__web_url_t *ret, const char **ret_why) {
    char *scheme = NULL, *port = NULL;
    int rv = TDG_ENOMEM;

    if (!take(parsed, CURLUPART_SCHEME, 0, &scheme) ||
        !take(parsed, CURLUPART_PORT, CURLU_DEFAULT_PORT, &port) ||
        !take(parsed, CURLUPART_HOST, 0, &ret->host) ||
        !take(parsed, CURLUPART_USER, CURLU_URLDECODE, &ret->user) ||
        !take(parsed, CURLUPART_PASSWORD, CURLU_URLDECODE, &ret->password))
        goto out;

    rv = TDG_EINVAL;
    if (scheme == NULL || (strcmp(scheme, "http") != 0 && strcmp(scheme, "https") != 0))
        *ret_why = "the URL is neither http nor https";
    else if (ret->host == NULL || ret->host[0] == '\0' || port == NULL)
        *ret_why = "the URL has no host";
    else
        rv = 0;
    if (rv < 0)
        goto out;

    ret->secure = strcmp(scheme, "https") == 0;
    ret->port = (uint16_t)strtoul(port, NULL, 10);
    rv = TDG_ENOMEM;
    if (curl_url_set(parsed, CURLUPART_USER, NULL, 0) == CURLUE_OK &&
        curl_url_set(parsed, CURLUPART_PASSWORD, NULL, 0) == CURLUE_OK &&
        curl_url_set(parsed, CURLUPART_OPTIONS, NULL, 0) == CURLUE_OK &&
        curl_url_set(parsed, CURLUPART_FRAGMENT, NULL, 0) == CURLUE_OK &&
        take(parsed, CURLUPART_URL, 0, &ret->url) && ret->url != NULL)
        rv = 0;

out:
    tdg__free(scheme);
    tdg__free(port);
    return rv;
}

/* libcurl takes "65%36" for the name 656, and what it writes of that for an address. Such
 * a host is refused: it must be the same for all who look at the URL. */
static int check_host(const tdg__web_url_t *url, const char **ret_why) {
    CURLU *parsed = curl_url();
    char *host = NULL;
    int rv = TDG_ENOMEM;

    if (parsed == NULL)
        return TDG_ENOMEM;
    if (curl_url_set(parsed, CURLUPART_URL, url->url, 0) != CURLUE_OUT_OF_MEMORY &&
        take(parsed, CURLUPART_HOST, 0, &host))
        rv = host != NULL && strcmp(host, url->host) == 0 ? 0 : TDG_EINVAL;
    if (rv == TDG_EINVAL)
        *ret_why = "the host of the URL is ambiguous";
    tdg__free(host);
    curl_url_cleanup(parsed);
    return rv;
}

int tdg__web_url_read(const char *text, const char *base, tdg__web_url_t *ret,
                      const char **ret_why) {
    tdg__web_url_t url = {.url = NULL};
    CURLU *parsed = curl_url();
    unsigned flags = CURLU_NON_SUPPORT_SCHEME | (base != NULL ? CURLU_URLENCODE : 0);
    CURLUcode code = CURLUE_OK;
    int rv = TDG_ENOMEM;

    *ret = url;
    *ret_why = tdg_strerror(TDG_ENOMEM);
    if (parsed == NULL)
        return TDG_ENOMEM;
    if (base != NULL)
        code = curl_url_set(parsed, CURLUPART_URL, base, CURLU_NON_SUPPORT_SCHEME);
    if (code == CURLUE_OK)
        code = is_sane(text, base != NULL ? ' ' : '!')
                   ? curl_url_set(parsed, CURLUPART_URL, text, flags)
                   : CURLUE_MALFORMED_INPUT;
    if (code == CURLUE_OK) {
        rv = take_parts(parsed, &url, ret_why);
        if (rv == 0)
            rv = check_host(&url, ret_why);
    } else if (code != CURLUE_OUT_OF_MEMORY) {
        *ret_why = "this is not a complete URL such as http://localhost:8080/mcp";
        rv = TDG_EINVAL;
    }
    curl_url_cleanup(parsed);
    if (rv < 0)
        tdg__web_url_done(&url);
    *ret = url;
    return rv;
}

tdg__web_hop_t tdg__web_url_hop(const tdg__web_url_t *from, const tdg__web_url_t *to) {
    if (from->secure && !to->secure)
        return TDG__WEB_HOP_EXPOSED;
    if (strcasecmp(from->host, to->host) != 0)
        return TDG__WEB_HOP_OTHER;
    if (from->secure == to->secure)
        return from->port == to->port ? TDG__WEB_HOP_SAME : TDG__WEB_HOP_OTHER;
    return from->port == 80 && to->port == 443 ? TDG__WEB_HOP_SAME : TDG__WEB_HOP_SECURED;
}

bool tdg__web_url_near(const tdg__web_url_t *from, const tdg__web_url_t *to) {
    return tdg__web_url_hop(from, to) <= TDG__WEB_HOP_SECURED;
}

char *tdg__web_url_complete(const char *url, const char *path) {
    const char *authority = strstr(url, "://") + 3;
    size_t head = (size_t)(authority - url) + strcspn(authority, "/?#");
    size_t size = strlen(url) + strlen(path) + 1;
    char *text = tdg__malloc(size);

    if (text != NULL)
        snprintf(text, size, "%.*s%s%s", (int)head, url, url[head] == '/' ? "" : path,
                 url + head);
    return text;
}

bool tdg__web_url_is_here(const tdg__web_url_t *url) {
    struct in_addr four;

    return strcasecmp(url->host, "localhost") == 0 || strcmp(url->host, "[::1]") == 0 ||
           (inet_pton(AF_INET, url->host, &four) == 1 &&
            (ntohl(four.s_addr) >> 24) == 127);
}

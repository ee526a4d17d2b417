/* SPDX-License-Identifier: MIT
 *
 * Input: lines. The URL that the client is given, where a server sends it to (the event
 * `endpoint`, or a redirect), then headers that the client is given. The client goes only
 * to http and https; what it asks holds no user and no fragment, and is read as the same
 * place again; secrets never stand in a message. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include <tidings/error.h>

#include "client/api/client.h"
#include "fuzz.h"
#include "web/web_url.h"

#define SECRET "s3cr3tly"

enum { MAX_BYTES = 4096, MAX_HEADERS = 8 };

/* ---- Where a server sends it to ----------------------------------------- */

static void check_url(const tdg__web_url_t *url) {
    const char *authority = url->url + (url->secure ? 8 : 7);
    tdg__web_url_t again;
    const char *why;

    require(strncasecmp(url->url, url->secure ? "https://" : "http://",
                        url->secure ? 8 : 7) == 0);
    require(url->host[0] != '\0');
    require(memchr(authority, '@', strcspn(authority, "/?")) == NULL);
    require(strchr(url->url, '#') == NULL);
    for (const char *c = url->url; *c != '\0'; c++)
        require((unsigned char)*c > ' ' && *c != 0x7f);

    require(tdg__web_url_near(url, url));
    if (strlen(url->url) > TDG__WEB_MAX_URL)
        return;
    require(tdg__web_url_read(url->url, NULL, &again, &why) == 0);
    require(tdg__web_url_near(url, &again) && tdg__web_url_near(&again, url));
    require(again.user == NULL && again.password == NULL);
    require(strcmp(again.url, url->url) == 0);
    tdg__web_url_done(&again);
}

static int read_url(const char *text, const char *base, tdg__web_url_t *ret) {
    const char *why = "";

    int rv = tdg__web_url_read(text, base, ret, &why);
    require(rv == 0 || (rv == TDG_EINVAL && why[0] != '\0' && ret->url == NULL));
    if (rv == 0)
        check_url(ret);
    return rv;
}

/* Nothing goes to another host, and nothing from https to http. */
static void follow(const char *base, const char *text) {
    tdg__web_url_t home, there;

    if (read_url(base, NULL, &home) < 0)
        return;
    if (read_url(text, home.url, &there) == 0) {
        if (tdg__web_url_near(&home, &there)) {
            require(strcasecmp(home.host, there.host) == 0);
            require(!home.secure || (there.secure && there.port == home.port));
            require(tdg__web_url_is_here(&home) == tdg__web_url_is_here(&there));
        }
        tdg__web_url_done(&there);
    }
    tdg__web_url_done(&home);
}

/* ---- What the client is given ------------------------------------------- */

/* What we have checked, and what libcurl makes of it. */
static void check_given(const char *url) {
    const char *authority = strstr(url, "://") + 3, *port;
    size_t len = strcspn(authority, "/?");
    tdg__web_url_t parsed;

    require(authority[len] == '/');
    if (read_url(url, NULL, &parsed) < 0)
        return;
    require(parsed.user == NULL && parsed.password == NULL);
    require(parsed.secure == (strncasecmp(url, "https", 5) == 0));
    port = memrchr(authority, ':', len);
    if (port != NULL && authority[len - 1] != ']')
        require(parsed.port == (uint16_t)atoi(port + 1));
    else
        require(parsed.port == (parsed.secure ? 443 : 80));
    tdg__web_url_done(&parsed);
}

static void check_header(const char *header) {
    const char *colon = strchr(header, ':');

    require(colon != NULL && colon > header);
    for (const char *c = header; c < colon; c++)
        require(*c > ' ' && *c < 0x7f);
    for (const char *c = colon; *c != '\0'; c++)
        require(((unsigned char)*c >= ' ' && *c != 0x7f) || *c == '\t');
    require(strncasecmp(header, "Host:", 5) != 0 &&
            strncasecmp(header, "Content-Length:", 15) != 0 &&
            strncasecmp(header, "Mcp-", 4) != 0);
}

static void give(const char *url, const char *const *headers) {
    tdg_client_opts_t opts = {.url = url, .headers = headers};
    tdg_failure_t failure = {0};
    tdg__client_opts_t own;

    int rv = tdg__client_opts_init(&own, &opts, &failure);
    if (rv < 0) {
        require(rv == TDG_EINVAL && failure.message[0] != '\0');
        require(strstr(failure.message, SECRET) == NULL);
        tdg_failure_done(&failure);
        return;
    }
    check_given(own.opts.url);
    for (const char *const *header = own.opts.headers; *header != NULL; header++)
        check_header(*header);
    tdg__client_opts_done(&own);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char text[MAX_BYTES + 1], *rest = text, *url, *there;
    char with_secret[MAX_HEADERS + 1][MAX_BYTES + sizeof(SECRET)];
    const char *headers[MAX_HEADERS + 1] = {NULL}, *none[] = {NULL};
    size_t count = 0;

    if (size > MAX_BYTES)
        return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    if (strstr(text, SECRET) != NULL)
        return 0; /* a name may be shown */
    url = next_line(&rest);
    there = next_line(&rest);
    follow(url, there);
    give(url, none);

    snprintf(with_secret[MAX_HEADERS], sizeof(with_secret[0]), "%s" SECRET, url);
    give(with_secret[MAX_HEADERS], none);
    for (; *rest != '\0' && count < MAX_HEADERS; count++) {
        snprintf(with_secret[count], sizeof(with_secret[0]), "%s" SECRET,
                 next_line(&rest));
        headers[count] = with_secret[count];
    }
    give("http://localhost/mcp", headers);
    return 0;
}

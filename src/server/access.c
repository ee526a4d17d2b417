/* SPDX-License-Identifier: MIT
 *
 * Against DNS rebinding: a page on some other site must not reach a server on this
 * machine by a name that it has pointed here. */
#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "server/http.h"

/* The length of "name" in "name:port" or "[::1]:port"; 0: not of that shape. */
static size_t name_len(const char *host) {
    const char *end = host[0] == '[' ? strchr(host, ']') : host + strcspn(host, ":");

    if (end == NULL)
        return 0;
    if (*end == ']')
        end++;

    const char *port = end;
    if (*port == ':')
        port++;
    else if (*port != '\0')
        return 0;
    while (isdigit((unsigned char)*port))
        port++;
    return *port == '\0' ? (size_t)(end - host) : 0;
}

/* An entry without a port allows any port. */
static bool matches(const char *allowed, const char *host) {
    size_t len = name_len(host);

    if (strcmp(allowed, "*") == 0 || strcasecmp(allowed, host) == 0)
        return true;
    return len > 0 && strlen(allowed) == len && strncasecmp(allowed, host, len) == 0;
}

static bool is_loopback(const char *host) {
    size_t len = name_len(host);

    return matches("localhost", host) || matches("[::1]", host) ||
           (len > 4 && strncmp(host, "127.", 4) == 0 &&
            strspn(host, "0123456789.") == len);
}

bool tdg__listener_allows_host(const tdg__listener_t *listener, const char *host) {
    if (listener->hosts == NULL)
        return !listener->loopback || is_loopback(host);
    for (char **at = listener->hosts; *at != NULL; at++) {
        if (matches(*at, host))
            return true;
    }
    return false;
}

bool tdg__listener_allows_origin(const tdg__listener_t *listener, const char *origin) {
    const char *host = strstr(origin, "://");

    if (listener->origins == NULL)
        return listener->loopback && host != NULL && is_loopback(host + 3);
    for (char **at = listener->origins; *at != NULL; at++) {
        if (strcmp(*at, "*") == 0 || strcasecmp(*at, origin) == 0)
            return true;
    }
    return false;
}

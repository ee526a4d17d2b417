/* SPDX-License-Identifier: MIT
 *
 * Prevents DNS rebinding: a page of another site must not reach a server on this machine
 * by a name that it has pointed here. */
#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "base/network.h"
#include "net/net.h"
#include "server/http/http.h"

enum { MAX_NAME = 256 };

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

/* The name or address without brackets and port; "" where there is none. IPv6 addresses
 * stand in brackets, and nothing else does. */
static void cut_name(const char *host, char ret[MAX_NAME]) {
    size_t len = name_len(host);
    bool in_brackets = host[0] == '[' && len >= 2;

    if (in_brackets) {
        host++;
        len -= 2;
    }
    if (len >= MAX_NAME || in_brackets != (memchr(host, ':', len) != NULL))
        len = 0;
    memcpy(ret, host, len);
    ret[len] = '\0';
}

/* Names as text, addresses however they are written. */
static bool is_same_name(const char *a, const char *b) {
    char a_name[MAX_NAME], b_name[MAX_NAME];
    tdg__address_t a_address, b_address;

    cut_name(a, a_name);
    cut_name(b, b_name);
    if (a_name[0] == '\0' || b_name[0] == '\0')
        return false;
    return strcasecmp(a_name, b_name) == 0 ||
           (tdg__address_parse(a_name, &a_address) &&
            tdg__address_parse(b_name, &b_address) &&
            tdg__address_equal(&a_address, &b_address));
}

/* An entry without a port allows any port. */
static bool matches(const char *allowed, const char *host) {
    const char *port = allowed + name_len(allowed);

    if (strcmp(allowed, "*") == 0 || strcasecmp(allowed, host) == 0)
        return true;
    return is_same_name(allowed, host) &&
           (*port == '\0' || strcmp(port, host + name_len(host)) == 0);
}

static bool is_loopback_name(const char *name) {
    return strcasecmp(name, "localhost") == 0 || tdg__net_is_loopback(name);
}

static bool is_loopback(const char *host) {
    char name[MAX_NAME];

    cut_name(host, name);
    return is_loopback_name(name);
}

/* A page can point a name of its own at this machine, but neither an address nor the
 * machine's name. */
static bool is_machine(const tdg__listener_t *listener, const char *host) {
    char name[MAX_NAME];

    cut_name(host, name);
    return name[0] != '\0' && (is_loopback_name(name) || tdg__net_is_address(name) ||
                               strcasecmp(name, listener->machine) == 0);
}

bool tdg__listener_allows_host(const tdg__listener_t *listener, const char *host) {
    if (listener->hosts == NULL)
        return listener->loopback ? is_loopback(host) : is_machine(listener, host);
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

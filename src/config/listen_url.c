/* SPDX-License-Identifier: MIT */
#include "config/listen_url.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include <tidings/error.h>

#include "base/network.h"
#include "config/value.h"

/* What follows the host: a port, a slash, both or nothing. */
static int read_port(const char *text, uint16_t *ret, tdg__parse_error_t *error) {
    bool has_port = *text == ':';
    size_t len = has_port ? strspn(++text, "0123456789") : 0;
    char digits[6];
    int64_t port;

    if (strcmp(text + len, "/") != 0 && text[len] != '\0')
        return tdg__parse_fail(error, TDG_EINVAL, 0,
                               "only a port may follow the host, such as "
                               "http://127.0.0.1:8808");
    if (!has_port)
        return 0;
    if (len == 0 || len >= sizeof(digits))
        return tdg__parse_fail(error, TDG_EINVAL, 0, "a port must be from 0 to 65535");
    memcpy(digits, text, len);
    digits[len] = '\0';
    if (!tdg__number_parse(digits, &port) || port > UINT16_MAX)
        return tdg__parse_fail(error, TDG_EINVAL, 0, "a port must be from 0 to 65535");
    *ret = (uint16_t)port;
    return 0;
}

/* The host, of which *ret_len bytes are the text inside the brackets, which an IPv6
 * address has and nothing else; returns what follows, or NULL. */
static const char *read_host(const char *text, const char **ret_host, size_t *ret_len) {
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                                  "0123456789-._";
    bool has_brackets = text[0] == '[';

    text += has_brackets;
    *ret_host = text;
    *ret_len = strspn(text, has_brackets ? "0123456789abcdefABCDEF:." : letters);
    if (has_brackets && text[*ret_len] == '%') /* the zone of a link-local address */
        *ret_len += 1 + strspn(text + *ret_len + 1, letters);
    text += *ret_len;
    if (has_brackets &&
        (text[-1] == '%' || *text++ != ']' || memchr(*ret_host, ':', *ret_len) == NULL))
        return NULL;
    return *ret_len > 0 && *ret_len <= TDG__LISTEN_HOST_MAX ? text : NULL;
}

/* Names are not looked up: what one stands for may change, and who may call with it. */
static bool is_address(const char *host) {
    char text[TDG__LISTEN_HOST_MAX + 1];
    tdg__address_t address;

    strcpy(text, host);
    text[strcspn(text, "%")] = '\0';
    return strcasecmp(host, "localhost") == 0 || tdg__address_parse(text, &address);
}

const char *const tdg__dialects[] = {"mcp", "erlmcp", NULL};

/* "erlmcp+" in front of the URL; returns what follows. */
static const char *read_dialect(const char *url, tdg__dialect_t *ret) {
    for (int i = 0; tdg__dialects[i] != NULL; i++) {
        size_t len = strlen(tdg__dialects[i]);

        if (strncasecmp(url, tdg__dialects[i], len) == 0 && url[len] == '+') {
            *ret = (tdg__dialect_t)i;
            return url + len + 1;
        }
    }
    *ret = TDG__DIALECT_UNSAID;
    return url;
}

int tdg__listen_url_parse(const char *url, tdg__listen_url_t *ret,
                          tdg__parse_error_t *error) {
    tdg__listen_url_t listen = {.port = TDG__LISTEN_PORT};
    const char *host, *rest;
    size_t len;

    url = read_dialect(url, &listen.dialect);
    if (strncasecmp(url, "https://", 8) == 0)
        return tdg__parse_fail(error, TDG_EINVAL, 0,
                               "https is not supported; listen on http and put a TLS "
                               "proxy in front");
    if (strncasecmp(url, "http://", 7) != 0)
        return tdg__parse_fail(error, TDG_EINVAL, 0,
                               "it must begin with http://, such as "
                               "http://127.0.0.1:8808");
    rest = read_host(url + 7, &host, &len);
    if (rest == NULL)
        return tdg__parse_fail(error, TDG_EINVAL, 0,
                               "the host is missing; write an address, such as "
                               "http://127.0.0.1:8808 or http://[::1]:8808");
    memcpy(listen.host, host, len);

    int rv = read_port(rest, &listen.port, error);
    if (rv < 0)
        return rv;
    if (!is_address(listen.host))
        return tdg__parse_fail(
            error, TDG_EINVAL, 0,
            "the host must be an IP address of this machine or "
            "localhost, such as http://127.0.0.1:8808 or http://0.0.0.0:8808");
    *ret = listen;
    return 0;
}

void tdg__listen_url_put(const tdg__listen_url_t *listen, char url[TDG__LISTEN_URL_MAX]) {
    bool brackets = strchr(listen->host, ':') != NULL;

    snprintf(url, TDG__LISTEN_URL_MAX, brackets ? "http://[%s]:%u" : "http://%s:%u",
             listen->host, listen->port);
}

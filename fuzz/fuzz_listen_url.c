/* SPDX-License-Identifier: MIT
 *
 * Input: where to listen, as a config or an argument has it. What is accepted is an
 * address that can be bound, and is read again from what is written of it. */
#include <string.h>
#include <strings.h>

#include <tidings/error.h>

#include "config/listen_url.h"
#include "fuzz.h"
#include "net/net.h"

enum { MAX_BYTES = 1024 };

static void check_listen(const tdg__listen_url_t *listen) {
    char url[TDG__LISTEN_URL_MAX];
    tdg__listen_url_t again;

    require(listen->dialect <= TDG__DIALECT_UNSAID);
    require(strcasecmp(listen->host, "localhost") == 0 ||
            tdg__net_is_address(listen->host));
    memset(url, 'x', sizeof(url));
    tdg__listen_url_put(listen, url);
    require(memchr(url, '\0', sizeof(url)) != NULL);
    require(tdg__listen_url_parse(url, &again, NULL) == 0);
    require(strcmp(again.host, listen->host) == 0 && again.port == listen->port);
    require(again.dialect == TDG__DIALECT_UNSAID);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char text[MAX_BYTES + 1];
    tdg__parse_error_t error = {0};
    tdg__listen_url_t listen;

    if (size > MAX_BYTES)
        return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    int rv = tdg__listen_url_parse(text, &listen, &error);
    require(rv == 0 || (rv == TDG_EINVAL && error.text[0] != '\0'));
    if (rv == 0)
        check_listen(&listen);
    return 0;
}

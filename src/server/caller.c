/* SPDX-License-Identifier: MIT */
#include "server/caller.h"

#include <string.h>
#include <strings.h>

enum { MAX_TEXT = 64 };

/* "1.2.3.4", "1.2.3.4:567", "::1", "[::1]", "[::1]:567", all of it in quotes maybe. */
static bool parse_hop(const char *text, size_t len, tdg__address_t *ret) {
    char address[MAX_TEXT];

    if (len >= 2 && text[0] == '"' && text[len - 1] == '"') {
        text++;
        len -= 2;
    }
    if (len >= sizeof(address))
        return false;
    memcpy(address, text, len);
    address[len] = '\0';

    char *colon = strchr(address, ':');
    if (address[0] == '[') {
        char *end = strchr(address, ']');

        if (end == NULL)
            return false;
        *end = '\0';
        return tdg__address_parse(address + 1, ret);
    }
    if (colon != NULL && strchr(colon + 1, ':') == NULL)
        *colon = '\0'; /* the port of an IPv4 address */
    return tdg__address_parse(address, ret);
}

/* The value of `for` in one element of Forwarded. */
static bool parse_forwarded(const char *text, size_t len, tdg__address_t *ret) {
    while (len > 0) {
        const char *end = memchr(text, ';', len);
        size_t part = end != NULL ? (size_t)(end - text) : len;

        while (part > 0 && (*text == ' ' || *text == '\t')) {
            text++;
            part--;
            len--;
        }
        if (part > 4 && strncasecmp(text, "for=", 4) == 0)
            return parse_hop(text + 4, part - 4, ret);
        text += part + (end != NULL);
        len -= part + (end != NULL);
    }
    return false;
}

struct hops {
    const tdg__networks_t *proxies;
    bool (*parse)(const char *text, size_t len, tdg__address_t *ret);
    tdg__address_t *found; /* the last that can be believed */
};

/* From the right: each proxy appends whom it heard from. False: no further. */
static bool walk(struct hops *hops, const char *list) {
    size_t end = strlen(list);

    while (end > 0) {
        size_t begin = end, len;
        tdg__address_t hop;

        while (begin > 0 && list[begin - 1] != ',')
            begin--;
        const char *text = list + begin;
        for (len = end - begin; len > 0 && (*text == ' ' || *text == '\t'); len--)
            text++;
        while (len > 0 && (text[len - 1] == ' ' || text[len - 1] == '\t'))
            len--;
        if (!hops->parse(text, len, &hop))
            return false;
        *hops->found = hop;
        if (!tdg__networks_have(hops->proxies, &hop))
            return false;
        end = begin > 0 ? begin - 1 : 0;
    }
    return true;
}

static void walk_fields(struct hops *hops, const tdg__http_request_t *http,
                        const char *name) {
    for (size_t i = http->field_count; i-- > 0;)
        if (strcmp(http->fields[i].name, name) == 0 && !walk(hops, http->fields[i].value))
            return;
}

bool tdg__caller_find(const tdg__networks_t *proxies, const char *peer,
                      const tdg__http_request_t *http, tdg__address_t *ret) {
    if (!tdg__address_parse(peer, ret))
        return false;
    if (tdg__networks_have(proxies, ret)) {
        struct hops hops = {proxies, parse_hop, ret};

        if (tdg__http_field(http, "x-forwarded-for") != NULL) {
            walk_fields(&hops, http, "x-forwarded-for");
        } else {
            hops.parse = parse_forwarded;
            walk_fields(&hops, http, "forwarded");
        }
    }
    return true;
}

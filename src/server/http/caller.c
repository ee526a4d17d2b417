/* SPDX-License-Identifier: MIT */
#include "server/http/caller.h"

#include <string.h>
#include <strings.h>

enum {
    MAX_TEXT = 64,
    MAX_HOPS = 32, /* of one field that are looked at, from the right */
};

/* ---- Lists -------------------------------------------------------------- */

struct slice {
    const char *text;
    size_t len;
};

static bool is_blank(char c) {
    return c == ' ' || c == '\t';
}

static struct slice trim(struct slice slice) {
    while (slice.len > 0 && is_blank(slice.text[0])) {
        slice.text++;
        slice.len--;
    }
    while (slice.len > 0 && is_blank(slice.text[slice.len - 1]))
        slice.len--;
    return slice;
}

/* The length of what comes before the first separator that is not in quotes; *ret_open:
 * quotes are not closed. */
static size_t find_end(struct slice slice, char separator, bool *ret_open) {
    size_t len = 0;

    *ret_open = false;
    for (; len < slice.len && (*ret_open || slice.text[len] != separator); len++) {
        if (slice.text[len] == '"')
            *ret_open = !*ret_open;
        else if (*ret_open && slice.text[len] == '\\' && len + 1 < slice.len)
            len++;
    }
    return len;
}

/* Cuts off what comes before the first separator; with `quotes`, one in quotes is none:
 * clients choose what stands there. False: nothing is left. */
static bool cut(struct slice *rest, char separator, bool quotes, struct slice *ret) {
    bool open;
    size_t len;

    if (rest->text == NULL)
        return false;
    if (quotes)
        len = find_end(*rest, separator, &open);
    else
        for (len = 0; len < rest->len && rest->text[len] != separator;)
            len++;
    *ret = trim((struct slice){rest->text, len});
    if (len < rest->len)
        *rest = (struct slice){rest->text + len + 1, rest->len - len - 1};
    else
        *rest = (struct slice){NULL, 0};
    return true;
}

/* ---- One hop ------------------------------------------------------------ */

/* "1.2.3.4", "1.2.3.4:567", "::1", "[::1]", "[::1]:567", all of it in quotes maybe. */
static bool parse_hop(struct slice hop, tdg__address_t *ret) {
    char address[MAX_TEXT];

    if (hop.len >= 2 && hop.text[0] == '"' && hop.text[hop.len - 1] == '"')
        hop = (struct slice){hop.text + 1, hop.len - 2};
    if (hop.len >= sizeof(address))
        return false;
    memcpy(address, hop.text, hop.len);
    address[hop.len] = '\0';

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

/* The value of `for` in one element of Forwarded, which has it once. Quotes that a client
 * has left open hide what the proxy appends. */
static bool parse_forwarded(struct slice element, tdg__address_t *ret) {
    struct slice pair, hop = {NULL, 0};
    bool open;

    (void)find_end(element, '\0', &open);
    if (open)
        return false;
    while (cut(&element, ';', true, &pair)) {
        if (pair.len < 4 || strncasecmp(pair.text, "for=", 4) != 0)
            continue;
        if (hop.text != NULL)
            return false;
        hop = (struct slice){pair.text + 4, pair.len - 4};
    }
    return hop.text != NULL && parse_hop(hop, ret);
}

/* ---- All hops ----------------------------------------------------------- */

struct field {
    const char *name;
    bool quotes;
    bool (*parse)(struct slice hop, tdg__address_t *ret);
};

static const struct field x_forwarded_for = {"x-forwarded-for", false, parse_hop};
static const struct field forwarded = {"forwarded", true, parse_forwarded};

/* From the right: each proxy appends whom it heard from. *found is the last that can be
 * believed. False: no further. */
static bool walk(const struct field *field, const char *list,
                 const tdg__networks_t *proxies, tdg__address_t *found) {
    struct slice rest = {list, strlen(list)}, hop, last[MAX_HOPS];
    size_t count = 0;

    while (cut(&rest, ',', field->quotes, &hop))
        last[count++ % MAX_HOPS] = hop;
    for (size_t i = count; i > 0; i--) {
        tdg__address_t address;

        if (count - i == MAX_HOPS || !field->parse(last[(i - 1) % MAX_HOPS], &address))
            return false;
        *found = address;
        if (!tdg__networks_have(proxies, &address))
            return false;
    }
    return true;
}

bool tdg__caller_find(const tdg__proxies_t *proxies, const char *peer,
                      const tdg__http_request_t *http, tdg__address_t *ret) {
    const struct field *field = proxies->forwarded ? &forwarded : &x_forwarded_for;

    if (!tdg__address_parse(peer, ret))
        return false;
    if (!tdg__networks_have(proxies->networks, ret))
        return true;
    for (size_t i = http->field_count; i-- > 0;)
        if (strcmp(http->fields[i].name, field->name) == 0 &&
            !walk(field, http->fields[i].value, proxies->networks, ret))
            break;
    return true;
}

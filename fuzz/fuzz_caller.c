/* SPDX-License-Identifier: MIT
 *
 * Input: lines. Trusted networks with blanks between them, the address of the peer, then
 * header fields: "f" and the value of a Forwarded, anything else and the value of an
 * X-Forwarded-For. A peer that is not trusted counts itself, whatever it claims. Behind a
 * trusted one, nothing that a stranger has sent decides whom a request counts for: only
 * the address of the stranger, as the proxy appends it. */
#include <string.h>

#include "fuzz.h"
#include "server/http/caller.h"

#define STRANGER "203.0.113.9"

enum { MAX_BYTES = 2048, MAX_FIELDS = 8, MAX_NETWORKS = 8 };

struct call {
    tdg__proxies_t proxies;
    const char *peer;
    tdg__address_t peer_address;
    tdg__http_field_t fields[MAX_FIELDS + 1]; /* one more than the input has */
    size_t count;
};

static tdg__address_t find(const struct call *call) {
    tdg__http_request_t http = {.fields = call->fields, .field_count = call->count};
    tdg__address_t found;
    char text[TDG__ADDRESS_TEXT];

    require(tdg__caller_find(&call->proxies, call->peer, &http, &found));
    tdg__address_write(&found, text); /* that all of it is set */
    return found;
}

/* The proxy appends whom it heard from. Where it cannot be found in what the stranger has
 * made of the list, the proxy itself counts. */
static void check_found(const struct call *call, const char *name) {
    tdg__address_t found = find(call), stranger;
    bool plain = name[0] == 'x';

    require(tdg__address_parse(STRANGER, &stranger));
    require(tdg__address_equal(&found, &stranger) ||
            (!plain && tdg__address_equal(&found, &call->peer_address)));
}

/* In a field of its own. */
static void append_field(struct call call, const char *name, const char *element) {
    call.fields[call.count++] = (tdg__http_field_t){name, element};
    check_found(&call, name);
}

/* Behind the last field of that name. */
static void append_element(struct call call, const char *name, const char *element) {
    char value[MAX_BYTES + 64];

    for (size_t i = call.count; i-- > 0;) {
        if (strcmp(call.fields[i].name, name) != 0)
            continue;
        strcpy(value, call.fields[i].value);
        strcat(value, ", ");
        strcat(value, element);
        call.fields[i].value = value;
        check_found(&call, name);
        return;
    }
}

static void check_call(const struct call *call) {
    tdg__address_t found = find(call), stranger;

    if (!tdg__networks_have(call->proxies.networks, &call->peer_address)) {
        require(tdg__address_equal(&found, &call->peer_address));
        return;
    }
    require(tdg__address_parse(STRANGER, &stranger));
    if (tdg__networks_have(call->proxies.networks, &stranger))
        return;
    if (call->proxies.forwarded) {
        append_field(*call, "forwarded", "for=" STRANGER);
        append_element(*call, "forwarded", "for=" STRANGER);
    } else {
        append_field(*call, "x-forwarded-for", STRANGER);
        append_element(*call, "x-forwarded-for", STRANGER);
    }
}

static tdg__networks_t *read_proxies(char *line) {
    const char *list[MAX_NETWORKS + 1] = {NULL};
    tdg__networks_t *proxies;
    char *rest = NULL;
    size_t count = 0;

    for (char *at = strtok_r(line, " ", &rest); at != NULL && count < MAX_NETWORKS;
         at = strtok_r(NULL, " ", &rest))
        list[count++] = at;
    return tdg__networks_create(list, &proxies) == 0 ? proxies : NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char text[MAX_BYTES + 1], *rest = text;
    struct call call = {.count = 0};

    if (size > MAX_BYTES)
        return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    call.proxies.networks = read_proxies(next_line(&rest));
    call.peer = next_line(&rest);
    while (*rest != '\0' && call.count < MAX_FIELDS) {
        const char *line = next_line(&rest);

        if (line[0] != '\0')
            call.fields[call.count++] = (tdg__http_field_t){
                line[0] == 'f' ? "forwarded" : "x-forwarded-for", line + 1};
    }
    if (tdg__address_parse(call.peer, &call.peer_address)) {
        check_call(&call);
        call.proxies.forwarded = true;
        check_call(&call);
    } else {
        require(!tdg__caller_find(&call.proxies, call.peer, &(tdg__http_request_t){0},
                                  &call.peer_address));
    }
    tdg__networks_destroy(call.proxies.networks);
    return 0;
}

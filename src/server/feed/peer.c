/* SPDX-License-Identifier: MIT */
#include "server/feed/peer.h"

#include <string.h>

#include <tidings/error.h>

#include "base/alloc.h"
#include "base/text.h"

enum { MAX_NAME = 128 }; /* bytes of a client's name, and of its version */

void tdg__peer_set_address(tdg__peer_t *peer, const tdg__address_t *address) {
    char text[TDG__ADDRESS_TEXT];

    tdg__address_write(address, text);
    tdg__free(peer->address);
    peer->address = tdg__strdup(text);
}

/* How much of a text is kept: whole characters. */
static size_t length_of(const char *text) {
    size_t len = text != NULL ? strnlen(text, MAX_NAME + 1) : 0;

    if (len > MAX_NAME)
        len = MAX_NAME;
    while (len > 0 && !tdg__utf8_is_valid(text, len))
        len--;
    return len;
}

void tdg__peer_set_client(tdg__peer_t *peer, const char *name, const char *version) {
    size_t name_len = length_of(name), version_len = length_of(version);

    tdg__free(peer->client);
    peer->client = NULL;
    if (name_len == 0)
        return;
    peer->client = tdg__calloc(1, name_len + version_len + 2);
    if (peer->client == NULL)
        return;
    memcpy(peer->client, name, name_len);
    if (version_len > 0)
        memcpy(peer->client + name_len + 1, version, version_len);
}

void tdg__peer_done(tdg__peer_t *peer) {
    tdg__free(peer->address);
    tdg__free(peer->client);
    peer->address = peer->client = NULL;
}

const char *tdg__peer_name(const tdg__peer_t *peer) {
    return peer->client != NULL ? peer->client : "unnamed";
}

int tdg__peer_describe(const tdg__peer_t *peer, json_t *object) {
    bool modern = tdg__version_modern(peer->version);
    bool unknown = peer->version == TDG__V_UNKNOWN;
    json_t *known =
        json_pack("{s:s, s:s, s:s*, s:s*, s:s*}", "transport", peer->transport, "era",
                  modern ? "modern" : "legacy", "protocol",
                  unknown ? NULL : tdg__version_text(peer->version), "session",
                  peer->session, "address", peer->address);
    int rv = json_object_update(object, known);

    json_decref(known);
    if (rv == 0 && peer->client != NULL)
        rv = json_object_set_new(object, "client",
                                 json_pack("{s:s, s:s}", "name", peer->client, "version",
                                           peer->client + strlen(peer->client) + 1));
    return rv == 0 ? 0 : TDG_ENOMEM;
}

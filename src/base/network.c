/* SPDX-License-Identifier: MIT */
#include "base/network.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include <tidings/error.h>

#include "base/alloc.h"

enum { MAX_TEXT = 64, ALL_BITS = 128, MAPPED_BITS = 96 };

struct network {
    tdg__address_t address;
    unsigned bits;
};

struct tdg__networks {
    size_t count;
    struct network networks[];
};

/* ---- Addresses ---------------------------------------------------------- */

static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};

static bool is_mapped(const tdg__address_t *address) {
    return memcmp(address->bytes, mapped, sizeof(mapped)) == 0;
}

bool tdg__address_parse(const char *text, tdg__address_t *ret) {
    memcpy(ret->bytes, mapped, sizeof(mapped));
    return inet_pton(AF_INET, text, ret->bytes + sizeof(mapped)) == 1 ||
           inet_pton(AF_INET6, text, ret->bytes) == 1;
}

void tdg__address_write(const tdg__address_t *address, char ret[TDG__ADDRESS_TEXT]) {
    if (is_mapped(address))
        inet_ntop(AF_INET, address->bytes + sizeof(mapped), ret, TDG__ADDRESS_TEXT);
    else
        inet_ntop(AF_INET6, address->bytes, ret, TDG__ADDRESS_TEXT);
}

bool tdg__address_equal(const tdg__address_t *a, const tdg__address_t *b) {
    return memcmp(a->bytes, b->bytes, sizeof(a->bytes)) == 0;
}

void tdg__address_shorten(tdg__address_t *address) {
    if (!is_mapped(address))
        memset(address->bytes + 8, 0, 8);
}

/* ---- Networks ----------------------------------------------------------- */

static bool parse_bits(const char *text, unsigned most, unsigned *ret) {
    size_t len = strspn(text, "0123456789");
    unsigned long bits = strtoul(text, NULL, 10);

    *ret = (unsigned)bits;
    return len > 0 && len <= 3 && text[len] == '\0' && bits <= most;
}

static bool parse_network(const char *text, struct network *ret) {
    char address[MAX_TEXT];
    size_t len = strcspn(text, "/");
    unsigned before, bits;

    if (len >= sizeof(address))
        return false;
    memcpy(address, text, len);
    address[len] = '\0';
    if (!tdg__address_parse(address, &ret->address))
        return false;
    before = strchr(address, ':') == NULL ? MAPPED_BITS : 0;
    bits = ALL_BITS - before;
    if (text[len] == '/' && !parse_bits(text + len + 1, ALL_BITS - before, &bits))
        return false;
    ret->bits = before + bits;
    return true;
}

int tdg__networks_create(const char *const *texts, tdg__networks_t **ret) {
    tdg__networks_t *set;
    size_t count = 0;

    *ret = NULL;
    while (texts != NULL && texts[count] != NULL)
        count++;
    if (count == 0)
        return 0;
    set = tdg__malloc(sizeof(*set) + count * sizeof(struct network));
    if (set == NULL)
        return TDG_ENOMEM;
    set->count = count;
    for (size_t i = 0; i < count; i++) {
        if (!parse_network(texts[i], &set->networks[i])) {
            tdg__free(set);
            return TDG_EINVAL;
        }
    }
    *ret = set;
    return 0;
}

void tdg__networks_destroy(tdg__networks_t *set) {
    tdg__free(set);
}

static bool is_in(const struct network *network, const tdg__address_t *address) {
    unsigned whole = network->bits / 8, rest = network->bits % 8;
    uint8_t differs = 0;

    if (rest > 0)
        differs = (uint8_t)((network->address.bytes[whole] ^ address->bytes[whole]) >>
                            (8 - rest));
    return differs == 0 && memcmp(network->address.bytes, address->bytes, whole) == 0;
}

bool tdg__networks_have(const tdg__networks_t *networks, const tdg__address_t *address) {
    for (size_t i = 0; networks != NULL && i < networks->count; i++)
        if (is_in(&networks->networks[i], address))
            return true;
    return false;
}

/* SPDX-License-Identifier: MIT
 *
 * Input: lines. The first is an address, each other one a network of a config. An address
 * that is written is read again; a network holds its own address, and the same ones as a
 * comparison bit by bit; a set holds what one of its networks holds. */
#include <string.h>

#include <tidings/error.h>

#include "base/network.h"
#include "fuzz.h"

enum { MAX_BYTES = 1024, MAX_NETWORKS = 8, ALL_BITS = 128, MAPPED_BITS = 96 };

static void check_address(const tdg__address_t *address) {
    char text[TDG__ADDRESS_TEXT];
    tdg__address_t again, shorter = *address;

    tdg__address_write(address, text);
    require(memchr(text, '\0', sizeof(text)) != NULL);
    require(tdg__address_parse(text, &again) && tdg__address_equal(address, &again));

    tdg__address_shorten(&shorter);
    again = shorter;
    tdg__address_shorten(&again);
    require(tdg__address_equal(&shorter, &again));
    require(tdg__address_equal(address, &shorter) || strchr(text, ':') != NULL);
    require(memcmp(address->bytes, shorter.bytes, 8) == 0);
}

static bool bit(const tdg__address_t *address, unsigned at) {
    return (address->bytes[at / 8] >> (7 - at % 8) & 1) != 0;
}

/* Whether an address is in a network that was accepted, by its text. */
static bool is_inside(const char *text, const tdg__address_t *own,
                      const tdg__address_t *address) {
    const char *slash = strchr(text, '/');
    unsigned before = strchr(text, ':') == NULL ? MAPPED_BITS : 0;
    unsigned bits = slash != NULL ? before + (unsigned)atoi(slash + 1) : ALL_BITS;

    require(bits <= ALL_BITS);
    for (unsigned i = 0; i < bits; i++)
        if (bit(own, i) != bit(address, i))
            return false;
    return true;
}

/* Returns whether it is a network; *ret: whether it holds the address. */
static bool check_network(const char *text, const tdg__address_t *address, bool *ret) {
    const char *list[] = {text, NULL};
    tdg__networks_t *set;
    tdg__address_t own;
    char copy[MAX_BYTES + 1];

    int rv = tdg__networks_create(list, &set);
    require(rv == (set != NULL ? 0 : TDG_EINVAL));
    if (rv < 0)
        return false;
    strcpy(copy, text);
    copy[strcspn(copy, "/")] = '\0';
    require(tdg__address_parse(copy, &own) && tdg__networks_have(set, &own));
    *ret = tdg__networks_have(set, address);
    require(*ret == is_inside(text, &own, address));
    tdg__networks_destroy(set);
    return true;
}

static void check_set(const char *const *list, const tdg__address_t *address, bool held) {
    tdg__networks_t *set;

    require(tdg__networks_create(list, &set) == 0 && (set == NULL) == (list[0] == NULL));
    require(tdg__networks_have(set, address) == held);
    tdg__networks_destroy(set);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char text[MAX_BYTES + 1], *rest = text;
    const char *list[MAX_NETWORKS + 1] = {NULL};
    tdg__address_t address;
    size_t count = 0;
    bool held = false, any = false;

    if (size > MAX_BYTES)
        return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    if (!tdg__address_parse(next_line(&rest), &address))
        memset(&address, 0, sizeof(address));
    check_address(&address);
    while (*rest != '\0' && count < MAX_NETWORKS) {
        const char *line = next_line(&rest);

        if (check_network(line, &address, &held)) {
            list[count++] = line;
            any = any || held;
        }
    }
    check_set(list, &address, any);
    return 0;
}

/* SPDX-License-Identifier: MIT
 *
 * Addresses of the network, and sets of them. */
#ifndef TDG_BASE_NETWORK_H
#define TDG_BASE_NETWORK_H

#include <stdbool.h>
#include <stdint.h>

/* An IPv6 address; those of IPv4 are mapped into it. */
typedef struct tdg__address {
    uint8_t bytes[16];
} tdg__address_t;

/* Reads an address in text; false: it is none. */
bool tdg__address_parse(const char *text, tdg__address_t *ret);

/* Writes it in its usual form, those of IPv4 with dots. */
enum { TDG__ADDRESS_TEXT = 46 };
void tdg__address_write(const tdg__address_t *address, char ret[TDG__ADDRESS_TEXT]);

bool tdg__address_equal(const tdg__address_t *a, const tdg__address_t *b);

/* The network that one machine has for itself: of an IPv6 address the first 64 bits. */
void tdg__address_shorten(tdg__address_t *address);

/* A set of addresses and networks. */
typedef struct tdg__networks tdg__networks_t;

/* `texts` ends in NULL: "10.0.0.1", "10.0.0.0/8", "fd00::/8". NULL, and an empty list,
 * give NULL: none. Returns 0, TDG_EINVAL (one of them is wrong) or TDG_ENOMEM. */
int tdg__networks_create(const char *const *texts, tdg__networks_t **ret);
void tdg__networks_destroy(tdg__networks_t *networks); /* NULL is accepted */
bool tdg__networks_have(const tdg__networks_t *networks, const tdg__address_t *address);

#endif

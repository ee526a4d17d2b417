/* SPDX-License-Identifier: MIT */
#include "client/wire.h"

#include <stdio.h>

#include <tidings/error.h>

#include "base/json.h"

/* Nesting that no honest message has; and room for one value per 16 bytes, which long
 * lists with short fields need. */
enum { MAX_DEPTH = 64, BYTES_PER_VALUE = 16, FEW_VALUES = 1024 };

static int read_one(json_t *value, void (*next)(void *arg, tdg__rpc_message_t *message),
                    void *arg, char *why, size_t why_size) {
    tdg__rpc_message_t message;
    tdg__rpc_error_t error = {0};

    if (tdg__rpc_read(value, &message, &error) < 0) {
        snprintf(why, why_size, "%s", error.message);
        tdg__rpc_error_done(&error);
        return TDG_EJSON;
    }
    next(arg, &message);
    tdg__rpc_message_done(&message);
    return 0;
}

int tdg__wire_read(const tdg__wire_t *wire, const char *text, size_t len,
                   void (*next)(void *arg, tdg__rpc_message_t *message), void *arg,
                   char *why, size_t why_size) {
    tdg__json_limits_t limits = {
        .max_bytes = wire->max_message_bytes,
        .max_depth = MAX_DEPTH,
        .max_values = wire->max_message_bytes / BYTES_PER_VALUE + FEW_VALUES,
    };
    tdg__parse_error_t error = {0};
    json_t *root;
    int rv, failed = 0;

    rv = tdg__json_parse(text, len, &limits, &root, &error);
    if (rv < 0) {
        snprintf(why, why_size, "%s",
                 error.text[0] != '\0' ? error.text : tdg_strerror(rv));
        return rv == TDG_ENUMBER ? TDG_EJSON : rv;
    }

    if (!json_is_array(root)) {
        failed = read_one(root, next, arg, why, why_size);
    } else if (json_array_size(root) == 0) {
        snprintf(why, why_size, "a batch without messages");
        failed = TDG_EJSON;
    }
    /* What is wrong with one message of a batch does not concern the others. */
    for (size_t i = 0; i < json_array_size(root); i++) {
        rv = read_one(json_array_get(root, i), next, arg, why, why_size);
        if (rv < 0)
            failed = rv;
    }
    json_decref(root);
    return failed;
}

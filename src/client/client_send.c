/* SPDX-License-Identifier: MIT
 *
 * Requests that nobody waits for: an errand goes to the client's thread, and ends with a
 * callback there. */
#include "client/client.h"

#include <string.h>

#include "base/alloc.h"

typedef struct errand {
    tdg__command_t command; /* first: a command is an errand */
    json_t *params;
    uint32_t timeout_ms;
    tdg_client_t *client;
    tdg_done_fn done;
    void *user;
    char method[];
} errand_t;

static void errand_done(void *user, int code, json_t *result,
                        const tdg_failure_t *failure) {
    errand_t *errand = user;
    tdg_failure_t made;

    if (code != 0 && failure == NULL) {
        tdg__client_fail(&made, code, "%s", tdg_strerror(code));
        failure = &made;
    }
    if (errand->done != NULL && !tdg__client_is_left(errand->client)) {
        tdg__client_wake(errand->client);
        errand->done(errand->user, code == 0 ? result : NULL, code == 0 ? NULL : failure);
    }
    tdg__free(errand);
}

static void run_errand(tdg__core_t *core, tdg__command_t *command) {
    errand_t *errand = (errand_t *)command;

    tdg__core_request(core, errand->method, errand->params, errand->timeout_ms,
                      errand_done, errand);
}

static int post_errand(tdg_client_t *client, errand_t *errand) {
    int rv;

    if (tdg__client_is_here(client))
        return tdg__client_post(client, &errand->command);
    if (!tdg__client_enter(client))
        return TDG_EENDED;

    rv = tdg__client_post(client, &errand->command);
    tdg__client_leave(client);
    return rv;
}

int tdg_client_send(tdg_client_t *client, const char *method, json_t *params,
                    uint32_t timeout_ms, tdg_done_fn done, void *user) {
    errand_t *errand;
    int rv;

    if (client == NULL || method == NULL || !tdg__client_is_text(method) ||
        (params != NULL && !json_is_object(params))) {
        json_decref(params);
        return TDG_EINVAL;
    }
    errand = tdg__malloc(sizeof(*errand) + strlen(method) + 1);
    if (errand == NULL) {
        json_decref(params);
        return TDG_ENOMEM;
    }

    *errand = (errand_t){.command = {.run = run_errand},
                         .client = client,
                         .params = params,
                         .timeout_ms =
                             timeout_ms != 0 ? timeout_ms : tdg__client_timeout(client),
                         .done = done,
                         .user = user};
    strcpy(errand->method, method);
    rv = post_errand(client, errand);
    if (rv < 0) {
        json_decref(params);
        tdg__free(errand);
    }
    return rv;
}

/* SPDX-License-Identifier: MIT
 *
 * Requests without waiting: a task goes to the client's thread, and ends with a callback
 * there. */
#include "client/api/client.h"

#include <string.h>

#include "base/alloc.h"

typedef struct sending {
    tdg__client_task_t task; /* first: a task is a send_task */
    json_t *params;
    uint32_t timeout_ms;
    tdg_client_t *client;
    tdg_done_fn done;
    void *user;
    char method[];
} send_task_t;

static void errand_done(void *user, int code, json_t *result,
                        const tdg_failure_t *failure) {
    send_task_t *sending = user;

    if (sending->done != NULL && !tdg__client_is_left(sending->client)) {
        tdg__client_wake(sending->client);
        sending->done(sending->user, code == 0 ? result : NULL,
                      code == 0 ? NULL : failure);
    }
    tdg__free(sending);
}

static void run_errand(tdg__core_t *core, tdg__client_task_t *task) {
    send_task_t *sending = (send_task_t *)task;

    tdg__core_request(core, sending->method, sending->params, sending->timeout_ms,
                      errand_done, sending);
}

int tdg_client_send(tdg_client_t *client, const char *method, json_t *params,
                    uint32_t timeout_ms, tdg_done_fn done, void *user) {
    send_task_t *sending;
    int rv;

    if (client == NULL || method == NULL || !tdg__client_is_text(method) ||
        (params != NULL && !json_is_object(params))) {
        json_decref(params);
        return TDG_EINVAL;
    }
    sending = tdg__malloc(sizeof(*sending) + strlen(method) + 1);
    if (sending == NULL) {
        json_decref(params);
        return TDG_ENOMEM;
    }

    *sending = (send_task_t){.task = {.run = run_errand},
                             .client = client,
                             .params = params,
                             .timeout_ms = timeout_ms != 0 ? timeout_ms
                                                           : tdg__client_timeout(client),
                             .done = done,
                             .user = user};
    strcpy(sending->method, method);
    rv = tdg__client_post(client, &sending->task);
    if (rv < 0) {
        json_decref(params);
        tdg__free(sending);
    }
    return rv;
}

/* SPDX-License-Identifier: MIT */
#include "server/http/sse.h"

#include <string.h>

#include "mcp/notice.h"

size_t tdg__sse_put_retry(const tdg__worker_t *worker, char *out) {
    static const char retry[] = "retry: ";
    size_t len = sizeof(retry) - 1;

    memcpy(out, retry, len);
    len += tdg__u64_digits(out + len, worker->server->opts.retry_ms);
    out[len++] = '\n';
    return len;
}

void tdg__sse_put_opening(const tdg__worker_t *worker, const tdg__event_id_t *id,
                          tdg__text_t *text) {
    char line[TDG__SSE_RETRY_MAX];
    char id_text[TDG__EVENT_ID_MAX + 1];

    tdg__text_add(text, line, tdg__sse_put_retry(worker, line));
    if (id == NULL) {
        tdg__text_put(text, "\n");
        return;
    }
    id_text[tdg__event_id_put(id_text, id)] = '\0';
    tdg__put_event(text, id_text, NULL, NULL, 0);
}

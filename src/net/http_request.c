/* SPDX-License-Identifier: MIT */
#include "net/http_request.h"

#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/text.h"
#include "net/http_guard.h"

const char *tdg__http_field(const tdg__http_request_t *request, const char *name) {
    for (size_t i = 0; i < request->field_count; i++)
        if (strcmp(request->fields[i].name, name) == 0)
            return request->fields[i].value;
    return NULL;
}

bool tdg__http_is_json(const char *content_type) {
    static const char json[] = "application/json";
    size_t len = content_type != NULL ? strcspn(content_type, "; \t") : 0;

    return len == sizeof(json) - 1 && strncasecmp(content_type, json, len) == 0;
}

/* Whether the list of words has `word`, which is in lower case, in any case. */
static bool has_word(const char *list, const char *word) {
    size_t len = strlen(word);

    for (;;) {
        size_t match = 0;

        list += strspn(list, ", \t");
        if (*list == '\0')
            return false;
        while (match < len && tdg__http_lower(list[match]) == word[match])
            match++;
        if (match == len && strchr(", \t", list[match]) != NULL) /* or at the end */
            return true;
        list += strcspn(list, ", \t");
    }
}

bool tdg__http_keeps_alive(const tdg__http_request_t *request) {
    bool keep = false, close = false;

    for (size_t i = 0; i < request->field_count; i++) {
        if (strcmp(request->fields[i].name, "connection") != 0)
            continue;
        keep = keep || has_word(request->fields[i].value, "keep-alive");
        close = close || has_word(request->fields[i].value, "close");
    }
    return !close && (keep || request->minor > 0);
}

/* ---- Copies ------------------------------------------------------------- */

struct copy {
    tdg__http_request_t request;
    tdg__http_field_t fields[]; /* and behind them all strings and the body */
};

size_t tdg__http_request_size(const tdg__http_request_t *request) {
    size_t size = sizeof(struct copy) + request->field_count * sizeof(tdg__http_field_t);

    for (size_t i = 0; i < request->field_count; i++)
        size += strlen(request->fields[i].name) + strlen(request->fields[i].value) + 2;
    return size + strlen(request->path) + strlen(request->query) + request->body_len + 3;
}

static const char *copy_text(char **at, const char *text) {
    return tdg__text_pack(at, text, strlen(text));
}

tdg__http_request_t *tdg__http_request_copy(const tdg__http_request_t *request) {
    struct copy *copy = tdg__malloc(tdg__http_request_size(request));

    if (copy == NULL)
        return NULL;
    char *at = (char *)&copy->fields[request->field_count];
    for (size_t i = 0; i < request->field_count; i++) {
        copy->fields[i].name = copy_text(&at, request->fields[i].name);
        copy->fields[i].value = copy_text(&at, request->fields[i].value);
    }
    copy->request = *request;
    copy->request.fields = copy->fields;
    copy->request.path = copy_text(&at, request->path);
    copy->request.query = copy_text(&at, request->query);
    copy->request.body = tdg__text_pack(&at, request->body, request->body_len);
    return &copy->request;
}

/* SPDX-License-Identifier: MIT */
#include "ask/body.h"

#include <stdint.h>

#include <tidings/error.h>

#include "base/alloc.h"
#include "base/base64.h"
#include "base/text.h"

int body_part(const json_t *part, const char **ret, size_t *ret_len, char **ret_own) {
    const json_t *text = json_object_get(part, "text");
    const json_t *blob = json_object_get(part, "blob");
    int rv;

    *ret = "";
    *ret_len = 0;
    *ret_own = NULL;
    if (json_is_string(text)) {
        *ret = json_string_value(text);
        *ret_len = json_string_length(text);
        return 0;
    }
    if (!json_is_string(blob))
        return TDG_ENOTFOUND;
    rv = tdg__base64_decode(json_string_value(blob), json_string_length(blob), ret_own,
                            ret_len);
    if (rv == 0)
        *ret = *ret_own;
    return rv;
}

/* What has neither text nor a blob adds nothing. */
static int add_part(tdg__text_t *all, const json_t *part, bool *is_text) {
    const char *data;
    size_t len;
    char *own;
    int rv = body_part(part, &data, &len, &own);

    if (!json_is_string(json_object_get(part, "text")))
        *is_text = false;
    if (rv == 0)
        tdg__text_add(all, data, len);
    tdg__free(own);
    return rv == TDG_ENOTFOUND ? 0 : rv;
}

static int join_parts(body_t *body, const json_t *contents) {
    tdg__text_t all;
    int rv = 0;

    tdg__text_init(&all, SIZE_MAX / 2);
    for (size_t i = 0; rv == 0 && i < json_array_size(contents); i++)
        rv = add_part(&all, json_array_get(contents, i), &body->is_text);
    if (rv == 0)
        rv = all.error;
    if (rv < 0) {
        tdg__text_done(&all);
        return rv;
    }
    body->owned = all.data;
    body->data = all.data != NULL ? all.data : "";
    body->len = all.len;
    return 0;
}

int body_init(body_t *ret, const json_t *contents) {
    static const body_t empty = {.data = "", .is_text = true, .mime_type = ""};
    const json_t *first = json_array_get(contents, 0);
    const json_t *text = json_object_get(first, "text");
    const char *mime_type = json_string_value(json_object_get(first, "mimeType"));

    *ret = empty;
    if (mime_type != NULL)
        ret->mime_type = mime_type;
    if (json_array_size(contents) == 1 && json_is_string(text)) {
        ret->data = json_string_value(text);
        ret->len = json_string_length(text);
        return 0;
    }
    if (first == NULL)
        return 0;

    int rv = join_parts(ret, contents);
    if (rv < 0)
        *ret = empty;
    return rv;
}

void body_done(body_t *body) {
    tdg__free(body->owned);
    body->owned = NULL;
}

/* SPDX-License-Identifier: MIT
 *
 * Input: the body of a POST to /publish. What is taken is within its limits and complete;
 * what is refused has a status, a sentence, and a place that exists. */
#include <string.h>

#include <tidings/error.h>

#include "base/text.h"
#include "base/uri.h"
#include "fuzz.h"
#include "server/http/publish_body.h"

static void check_text(const char *text, size_t size) {
    size_t len = strnlen(text, size);

    require(len < size && tdg__utf8_is_valid(text, len));
}

static void check_error(const tdg__publish_error_t *error) {
    require(error->status == 400 || error->status == 413);
    require(error->index < TDG__PUBLISH_MAX_ITEMS);
    require(error->has_index || error->field[0] == '\0');
    require(error->message[0] != '\0');
    check_text(error->message, sizeof(error->message));
    check_text(error->field, sizeof(error->field));
}

static void check_item(const tdg__publish_item_t *item, size_t size) {
    require(tdg__uri_check(item->uri, strlen(item->uri), NULL) == 0);
    require(item->metadata == NULL ||
            (json_is_object(item->metadata) && item->metadata->refcount == 1));
    require(item->content != NULL || (item->mime_type == NULL && item->content_len == 0));
    require(item->content == NULL || !item->deleted);
    require(item->content == NULL ||
            (item->content_len < size && item->content[item->content_len] == '\0'));
    require(item->prepared == NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    tdg__publish_list_t list = {0};
    tdg__publish_error_t error = {0};
    char *body = malloc(size > 0 ? size : 1); /* no NUL behind it */

    require(body != NULL);
    if (size > 0)
        memcpy(body, data, size);
    int rv = tdg__publish_read(body, size, &list, &error);
    require(rv == 0 || rv == TDG_EINVAL);
    if (rv == 0)
        require(list.count >= 1 && list.count <= TDG__PUBLISH_MAX_ITEMS);
    else
        check_error(&error);
    for (size_t i = 0; i < list.count; i++)
        check_item(&list.items[i], size);
    tdg__publish_list_done(&list);
    free(body);
    return 0;
}

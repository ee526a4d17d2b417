/* SPDX-License-Identifier: MIT */
#include "server/http/publish_body.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <tidings/error.h>

#include "base/alloc.h"
#include "base/base64.h"
#include "base/json.h"
#include "base/text.h"
#include "base/uri.h"

static const tdg__json_limits_t limits = {
    .max_bytes = TDG__PUBLISH_MAX_BYTES,
    .max_depth = 64,
    .max_values = TDG__PUBLISH_MAX_BYTES / 32,
};

struct reader {
    tdg__publish_error_t *error;
    size_t index;
    tdg__publish_item_t *item;
};

/* ---- Errors ------------------------------------------------------------- */

int tdg__publish_fail(tdg__publish_error_t *error, int status, size_t index,
                      const char *field, const char *format, ...) {
    va_list args;

    *error = (tdg__publish_error_t){.status = status};
    error->has_index = index != SIZE_MAX;
    error->index = error->has_index ? index : 0;
    if (field != NULL) /* what is longer than all of ours is cut off whole, or its UTF-8
                          might break */
        snprintf(error->field, sizeof(error->field), "%s",
                 strlen(field) < sizeof(error->field) ? field : "(a long name)");
    va_start(args, format);
    vsnprintf(error->message, sizeof(error->message), format, args);
    va_end(args);
    return TDG_EINVAL;
}

static int wrong(struct reader *reader, const char *field, const char *what) {
    size_t len = field != NULL ? strlen(field) : 0;
    bool named = len > 0 && len < sizeof(reader->error->field);

    return tdg__publish_fail(reader->error, 400, reader->index, field, "%s%s%s",
                             named ? field : "", named ? " " : "", what);
}

/* ---- Fields ------------------------------------------------------------- */

static int read_uri(struct reader *reader, json_t *value) {
    tdg__parse_error_t why = {0};

    if (!json_is_string(value))
        return wrong(reader, "uri", "must be a string");
    reader->item->uri = json_string_value(value);
    int rv = tdg__uri_check(reader->item->uri, json_string_length(value), &why);
    if (rv != TDG_EURI)
        return rv;
    return tdg__publish_fail(reader->error, 400, reader->index, "uri",
                             "uri is not a valid URI (at byte %zu: %s)", why.at,
                             why.text);
}

static int read_metadata(struct reader *reader, json_t *value) {
    if (!json_is_object(value))
        return wrong(reader, "metadata", "must be an object");
    reader->item->metadata = json_incref(value);
    return 0;
}

/* Text as a string, anything else as {"blob": base64}. */
static int read_content(struct reader *reader, json_t *value) {
    tdg__publish_item_t *item = reader->item;
    json_t *blob = json_object_get(value, "blob");

    if (json_is_string(value)) {
        item->content = json_string_value(value);
        item->content_len = json_string_length(value);
        return 0;
    }
    if (!json_is_string(blob) || json_object_size(value) != 1)
        return wrong(reader, "content",
                     "must be a string, or an object with base64 in \"blob\"");
    int rv = tdg__base64_decode(json_string_value(blob), json_string_length(blob),
                                &item->decoded, &item->content_len);
    if (rv == TDG_EINVAL)
        return wrong(reader, "content", "has a \"blob\" that is not base64");
    item->content = item->decoded;
    return rv;
}

static int read_mime_type(struct reader *reader, json_t *value) {
    const char *text = json_string_value(value);

    if (text == NULL || text[0] == '\0' || strlen(text) > 255)
        return wrong(reader, "mimeType", "must be a string of 1 to 255 bytes");
    for (const char *at = text; *at != '\0'; at++) {
        if ((unsigned char)*at < 0x20 || (unsigned char)*at > 0x7e)
            return wrong(reader, "mimeType", "must be printable ASCII");
    }
    reader->item->mime_type = text;
    return 0;
}

static int read_deleted(struct reader *reader, json_t *value) {
    if (!json_is_boolean(value))
        return wrong(reader, "deleted", "must be true or false");
    reader->item->deleted = json_is_true(value);
    return 0;
}

static const struct field {
    const char *name;
    int (*read)(struct reader *reader, json_t *value);
} fields[] = {
    {"uri", read_uri},         {"metadata", read_metadata},
    {"content", read_content}, {"mimeType", read_mime_type},
    {"deleted", read_deleted},
};

static const struct field *find_field(const char *name) {
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
        if (strcmp(fields[i].name, name) == 0)
            return &fields[i];
    }
    return NULL;
}

/* ---- Items -------------------------------------------------------------- */

static int check_item(struct reader *reader) {
    const tdg__publish_item_t *item = reader->item;

    if (item->uri == NULL)
        return wrong(reader, "uri", "is missing");
    if (item->deleted && item->content != NULL)
        return wrong(reader, "content", "does not go with \"deleted\"");
    if (item->mime_type != NULL && item->content == NULL)
        return wrong(reader, "mimeType", "requires \"content\"");
    return 0;
}

static int read_item(struct reader *reader, json_t *object) {
    const char *name;
    json_t *value;

    if (!json_is_object(object))
        return wrong(reader, NULL, "a change must be an object");
    json_object_foreach(object, name, value) {
        const struct field *field = find_field(name);

        if (field == NULL)
            return wrong(reader, name, "is not known here");
        int rv = field->read(reader, value);
        if (rv < 0)
            return rv;
    }
    /* From now on it is the item's alone: it leaves with the change, to other threads. */
    json_object_del(object, "metadata");
    return check_item(reader);
}

void tdg__publish_list_done(tdg__publish_list_t *list) {
    for (size_t i = 0; i < list->count; i++) {
        json_decref(list->items[i].metadata);
        tdg__free(list->items[i].decoded);
    }
    tdg__free(list->items);
    json_decref(list->root);
    *list = (tdg__publish_list_t){0};
}

static int read_list(tdg__publish_list_t *list, tdg__publish_error_t *error) {
    bool several = json_is_array(list->root);
    size_t count = several ? json_array_size(list->root) : 1;

    if (!several && !json_is_object(list->root))
        return tdg__publish_fail(error, 400, SIZE_MAX, NULL,
                                 "The body must be an object, or an array of objects");
    if (count == 0 || count > TDG__PUBLISH_MAX_ITEMS)
        return tdg__publish_fail(error, count == 0 ? 400 : 413, SIZE_MAX, NULL,
                                 "There must be 1 to %d changes, not %zu",
                                 TDG__PUBLISH_MAX_ITEMS, count);
    list->items = tdg__calloc(count, sizeof(*list->items));
    if (list->items == NULL)
        return TDG_ENOMEM;
    list->count = count;
    for (size_t i = 0; i < count; i++) {
        struct reader reader = {error, i, &list->items[i]};
        int rv = read_item(&reader, several ? json_array_get(list->root, i) : list->root);

        if (rv < 0)
            return rv;
    }
    return 0;
}

int tdg__publish_read(const char *body, size_t len, tdg__publish_list_t *ret,
                      tdg__publish_error_t *error) {
    tdg__parse_error_t why = {0};
    tdg__publish_list_t list = {0};
    int rv = tdg__json_parse(body, len, &limits, &list.root, &why);

    if (rv == TDG_ENOMEM)
        return rv;
    if (rv < 0) {
        const char *text = why.text[0] != '\0' ? why.text : tdg_strerror(rv);
        int status = rv == TDG_ETOOLARGE ? 413 : 400;

        return tdg__publish_fail(error, status, SIZE_MAX, NULL,
                                 "Invalid JSON at byte %zu: %s", why.at, text);
    }
    rv = read_list(&list, error);
    if (rv < 0)
        tdg__publish_list_done(&list);
    else
        *ret = list;
    return rv;
}

/* SPDX-License-Identifier: MIT */
#include "mcp/content.h"

#include <stdint.h>
#include <string.h>

#include "base/base64.h"
#include "base/text.h"

static const char text_key[] = "\"text\":\"", blob_key[] = "\"blob\":\"";

bool tdg__content_is_text(const char *data, size_t len) {
    return memchr(data, '\0', len) == NULL && tdg__utf8_is_valid(data, len);
}

static bool needs_escape(char byte) {
    return (unsigned char)byte < 0x20 || byte == '"' || byte == '\\';
}

static size_t escaped_len(const char *data, size_t len) {
    char escaped[TDG__JSON_ESCAPE_MAX];
    size_t more = 0;

    for (size_t i = 0; i < len; i++)
        if (needs_escape(data[i]))
            more += tdg__json_escape(escaped, data[i]) - 1;
    return len + more;
}

/* Stretches without escapes are copied whole. */
static void escape(char *out, const char *data, size_t len) {
    size_t start = 0;

    for (size_t i = 0; i < len; i++) {
        if (!needs_escape(data[i]))
            continue;
        memcpy(out, data + start, i - start);
        out += i - start;
        out += tdg__json_escape(out, data[i]);
        start = i + 1;
    }
    memcpy(out, data + start, len - start);
}

static tdg__buf_t *encode(const char *data, size_t len, bool text) {
    const char *key = text ? text_key : blob_key;
    size_t key_len = strlen(key), value_len;
    tdg__buf_t *member;

    if (len > SIZE_MAX / 8)
        return NULL;
    value_len = text ? escaped_len(data, len) : tdg__base64_len(len);
    member = tdg__buf_create(NULL, key_len + value_len + 1);
    if (member == NULL)
        return NULL;

    memcpy(member->data, key, key_len);
    if (text)
        escape(member->data + key_len, data, len);
    else
        tdg__base64_put(member->data + key_len, data, len);
    member->data[key_len + value_len] = '"';
    return member;
}

tdg__buf_t *tdg__content_member(const char *data, size_t len) {
    return encode(data, len, tdg__content_is_text(data, len));
}

tdg__buf_t *tdg__content_blob(const char *data, size_t len) {
    return encode(data, len, false);
}

bool tdg__content_member_is_text(const tdg__buf_t *member) {
    return strncmp(member->data, text_key, sizeof(text_key) - 1) == 0;
}

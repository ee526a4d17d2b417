/* SPDX-License-Identifier: MIT */
#include "server/catalogue/entry.h"

#include <string.h>

#include <tidings/error.h>

#include "base/alloc.h"
#include "base/text.h"
#include "base/uri.h"

/* What the four public structs have in common, borrowed. */
struct draft {
    tdg__kind_t kind;
    const char *key, *name; /* the same for tools and prompts */
    const char *title, *description, *mime_type;
    uint64_t size;
    const json_t *input_schema, *arguments, *extra;
    tdg_read_fn read; /* one of these two is required */
    tdg_call_fn call;
    tdg_complete_fn complete;
    void *user;
    tdg_user_free_fn user_free;
    bool not_subscribable;
    tdg__caching_t caching;
};

/* ---- The definition ----------------------------------------------------- */

/* jansson returns the same for text that is not UTF-8 and for memory that is out. */
static int put_text(json_t *object, const char *field, const char *text) {
    if (text == NULL)
        return 0;
    if (!tdg__utf8_is_valid(text, strlen(text)))
        return TDG_EINVAL;
    return json_object_set_new(object, field, json_string(text)) < 0 ? TDG_ENOMEM : 0;
}

static int put_texts(json_t *object, const struct draft *draft) {
    static const char *const keys[TDG__KIND_COUNT] = {"uri", "uriTemplate", "name",
                                                      "name"};
    const struct {
        const char *field, *text;
    } texts[] = {
        {keys[draft->kind], draft->key}, {"name", draft->name},
        {"title", draft->title},         {"description", draft->description},
        {"mimeType", draft->mime_type},
    };
    int rv = 0;

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]) && rv == 0; i++)
        rv = put_text(object, texts[i].field, texts[i].text);
    return rv;
}

static int put_size(json_t *object, const struct draft *draft) {
    if (draft->size == 0)
        return 0;
    if (draft->size > INT64_MAX)
        return TDG_EINVAL;
    return json_object_set_new(object, "size", json_integer((json_int_t)draft->size)) < 0
               ? TDG_ENOMEM
               : 0;
}

/* The protocol requires a schema of type "object". */
static int put_schema(json_t *object, const struct draft *draft) {
    const json_t *type = json_object_get(draft->input_schema, "type");
    const char *name = json_string_value(type);
    json_t *schema;

    if (draft->kind != TDG__TOOL)
        return 0;
    if ((draft->input_schema != NULL && !json_is_object(draft->input_schema)) ||
        (type != NULL && (name == NULL || strcmp(name, "object") != 0)))
        return TDG_EINVAL;

    schema =
        draft->input_schema != NULL ? json_deep_copy(draft->input_schema) : json_object();
    if (type == NULL && json_object_set_new(schema, "type", json_string("object")) < 0) {
        json_decref(schema);
        return TDG_ENOMEM;
    }
    return json_object_set_new(object, "inputSchema", schema) < 0 ? TDG_ENOMEM : 0;
}

static int put_arguments(json_t *object, const struct draft *draft) {
    const json_t *list = draft->arguments;

    if (list == NULL)
        return 0;
    if (!json_is_array(list))
        return TDG_EINVAL;

    for (size_t i = 0; i < json_array_size(list); i++) {
        if (!json_is_string(json_object_get(json_array_get(list, i), "name")))
            return TDG_EINVAL;
    }
    return json_object_set_new(object, "arguments", json_deep_copy(list)) < 0 ? TDG_ENOMEM
                                                                              : 0;
}

static int put_extra(json_t *object, const struct draft *draft) {
    json_t *copy, *value;
    const char *field;
    int rv = 0;

    if (draft->extra == NULL)
        return 0;
    if (!json_is_object(draft->extra))
        return TDG_EINVAL;

    copy = json_deep_copy(draft->extra);
    if (copy == NULL)
        return TDG_ENOMEM;

    json_object_foreach(copy, field, value) {
        if (json_object_get(object, field) == NULL &&
            json_object_set_nocheck(object, field, value) < 0)
            rv = TDG_ENOMEM;
    }
    json_decref(copy);
    return rv;
}

static int define(const struct draft *draft, json_t **ret) {
    static int (*const steps[])(json_t *, const struct draft *) = {
        put_texts, put_size, put_schema, put_arguments, put_extra,
    };
    json_t *object = json_object();
    int rv = object != NULL ? 0 : TDG_ENOMEM;

    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]) && rv == 0; i++)
        rv = steps[i](object, draft);
    if (rv < 0) {
        json_decref(object);
        return rv;
    }

    *ret = object;
    return 0;
}

/* ---- Making one --------------------------------------------------------- */

static int check_key(const struct draft *draft, size_t *ret_len) {
    bool is_uri = draft->kind == TDG__RESOURCE || draft->kind == TDG__TEMPLATE;
    size_t len;

    if (draft->key == NULL || draft->name == NULL ||
        (draft->read == NULL && draft->call == NULL))
        return TDG_EINVAL;

    len = strlen(draft->key);
    if (len > TDG__ENTRY_MAX_KEY)
        return is_uri ? TDG_EURILEN : TDG_EINVAL;
    if (len == 0 && !is_uri)
        return TDG_EINVAL;

    *ret_len = len;
    return draft->kind == TDG__RESOURCE ? tdg__uri_check(draft->key, len, NULL) : 0;
}

static int create(const struct draft *draft, tdg__entry_t **ret) {
    tdg__entry_t *entry;
    size_t len;
    int rv = check_key(draft, &len);
    if (rv < 0)
        return rv;

    entry = tdg__calloc(1, sizeof(*entry) + len + 1);
    if (entry == NULL)
        return TDG_ENOMEM;
    atomic_init(&entry->refs, 1);
    entry->kind = draft->kind;
    entry->len = len;
    memcpy(entry->key, draft->key, len);

    if (draft->kind == TDG__TEMPLATE)
        rv = tdg__template_parse(entry->key, len, &entry->parsed, NULL);
    if (rv == 0)
        rv = define(draft, &entry->definition);
    if (rv < 0) {
        tdg__entry_unref(entry); /* without user_free: `user` stays the caller's */
        return rv;
    }

    entry->read = draft->read;
    entry->call = draft->call;
    entry->complete = draft->complete;
    entry->user = draft->user;
    entry->user_free = draft->user_free;
    entry->not_subscribable = draft->not_subscribable;
    entry->caching = draft->caching;
    *ret = entry;
    return 0;
}

int tdg__entry_from_resource(const tdg_resource_t *resource, tdg__entry_t **ret) {
    const struct draft draft = {
        .kind = TDG__RESOURCE,
        .key = resource->uri,
        .name = resource->name,
        .title = resource->title,
        .description = resource->description,
        .mime_type = resource->mime_type,
        .size = resource->size,
        .extra = resource->extra,
        .read = resource->read,
        .user = resource->user,
        .user_free = resource->user_free,
        .not_subscribable = resource->not_subscribable,
        .caching = {resource->ttl_ms, resource->private_content},
    };

    return create(&draft, ret);
}

int tdg__entry_from_template(const tdg_template_t *template_, tdg__entry_t **ret) {
    const struct draft draft = {
        .kind = TDG__TEMPLATE,
        .key = template_->uri_template,
        .name = template_->name,
        .title = template_->title,
        .description = template_->description,
        .mime_type = template_->mime_type,
        .extra = template_->extra,
        .read = template_->read,
        .complete = template_->complete,
        .user = template_->user,
        .user_free = template_->user_free,
        .not_subscribable = template_->not_subscribable,
        .caching = {template_->ttl_ms, template_->private_content},
    };

    return create(&draft, ret);
}

int tdg__entry_from_tool(const tdg_tool_t *tool, tdg__entry_t **ret) {
    const struct draft draft = {
        .kind = TDG__TOOL,
        .key = tool->name,
        .name = tool->name,
        .title = tool->title,
        .description = tool->description,
        .input_schema = tool->input_schema,
        .extra = tool->extra,
        .call = tool->call,
        .user = tool->user,
        .user_free = tool->user_free,
    };

    return create(&draft, ret);
}

int tdg__entry_from_prompt(const tdg_prompt_t *prompt, tdg__entry_t **ret) {
    const struct draft draft = {
        .kind = TDG__PROMPT,
        .key = prompt->name,
        .name = prompt->name,
        .title = prompt->title,
        .description = prompt->description,
        .arguments = prompt->arguments,
        .extra = prompt->extra,
        .call = prompt->get,
        .complete = prompt->complete,
        .user = prompt->user,
        .user_free = prompt->user_free,
    };

    return create(&draft, ret);
}

/* ---- References --------------------------------------------------------- */

tdg__entry_t *tdg__entry_ref(tdg__entry_t *entry) {
    atomic_fetch_add_explicit(&entry->refs, 1, memory_order_relaxed);
    return entry;
}

void tdg__entry_unref(tdg__entry_t *entry) {
    /* acq_rel: the free follows every other holder's last use. */
    if (entry == NULL ||
        atomic_fetch_sub_explicit(&entry->refs, 1, memory_order_acq_rel) != 1)
        return;

    if (entry->user_free != NULL)
        entry->user_free(entry->user);
    json_decref(entry->definition);
    tdg__template_destroy(entry->parsed);
    tdg__free(entry);
}

void tdg__entry_discard(tdg__entry_t *entry) {
    entry->user_free = NULL;
    tdg__entry_unref(entry);
}

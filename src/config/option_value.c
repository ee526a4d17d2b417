/* SPDX-License-Identifier: MIT */
#include "config/option_value.h"

#include <string.h>
#include <strings.h>

#include <tidings/error.h>

#include "base/alloc.h"
#include "base/nearest.h"
#include "config/value.h"

/* What a row of the table asks to be read, and how its value came about. */
typedef struct reading {
    const tdg__option_t *option;
    const tdg__node_t *node;
    tdg__problems_t *problems;
    bool is_fallback; /* the text is ours: nothing in it is replaced */
} reading_t;

static void *field_of(const tdg__option_t *option, void *fields) {
    return (char *)fields + option->offset;
}

/* ---- What is wrong ------------------------------------------------------- */

/* A value as it stands in the file: what the environment puts in is not shown, and
 * nothing of a secret. */
static const char *shown(const reading_t *r, const tdg__node_t *node,
                         char out[TDG__QUOTED_MAX]) {
    if (r->option->flags & TDG__OPTION_SECRET)
        return "the value";
    return tdg__quoted(out, node->text);
}

void tdg__option_write_choices(const tdg__option_t *option, tdg__text_t *out) {
    for (size_t i = 0; option->choices[i] != NULL; i++) {
        if (i > 0)
            tdg__text_put(out, option->choices[i + 1] == NULL ? " or " : ", ");
        tdg__text_put(out, option->choices[i]);
    }
}

static int wrong_shape(const reading_t *r, const tdg__node_t *node, const char *wanted) {
    static const char *const shapes[] = {"one value", "a list", "a map"};

    if (tdg__node_is_null(node))
        tdg__node_key_problem(r->problems, node,
                              "the value is missing; write %s, or remove the line",
                              wanted);
    else
        tdg__node_problem(r->problems, node, "this is %s; %s is expected",
                          shapes[node->kind], wanted);
    return TDG_EINVAL;
}

/* ---- Texts --------------------------------------------------------------- */

/* The text of a scalar with the environment put in; new. */
static int read_text(const reading_t *r, const tdg__node_t *node, char **ret) {
    tdg__parse_error_t error;
    int rv;

    if (node->kind != TDG__NODE_SCALAR || tdg__node_is_null(node))
        return wrong_shape(r, node, "a text");
    if (r->is_fallback || (r->option->flags & TDG__OPTION_RAW)) {
        *ret = tdg__strdup(node->text);
        return *ret != NULL ? 0 : TDG_ENOMEM;
    }
    rv = tdg__expand(node->text, r->problems->no_env, ret, &error);
    if (rv == TDG_EINVAL)
        tdg__node_problem(r->problems, node, "%s", error.text);
    return rv;
}

static int read_path(const reading_t *r, const tdg__node_t *node, char **ret) {
    tdg__parse_error_t error;
    char *text;
    int rv = read_text(r, node, &text);

    if (rv < 0)
        return rv;
    rv = tdg__path_resolve(text, r->problems->file, ret, &error);
    if (rv == TDG_EINVAL)
        tdg__node_problem(r->problems, node, "%s", error.text);
    tdg__free(text);
    return rv;
}

/* ---- Single values ------------------------------------------------------- */

static int read_bool(const reading_t *r, const char *text, bool *ret) {
    static const struct {
        const char *word;
        bool value;
    } meant[] = {
        {"true", true},   {"yes", true}, {"on", true},   {"y", true},  {"1", true},
        {"false", false}, {"no", false}, {"off", false}, {"n", false}, {"0", false},
    };
    char quoted[TDG__QUOTED_MAX];

    if (strcmp(text, "true") == 0 || strcmp(text, "false") == 0) {
        *ret = text[0] == 't';
        return 0;
    }
    for (size_t i = 0; i < sizeof(meant) / sizeof(meant[0]); i++) {
        if (strcasecmp(text, meant[i].word) != 0)
            continue;
        tdg__node_problem(r->problems, r->node, "%s is neither true nor false; write %s",
                          shown(r, r->node, quoted), meant[i].value ? "true" : "false");
        return TDG_EINVAL;
    }
    tdg__node_problem(r->problems, r->node, "%s is neither true nor false",
                      shown(r, r->node, quoted));
    return TDG_EINVAL;
}

static int read_choice(const reading_t *r, const char *text, int *ret) {
    const char *nearest;
    char quoted[TDG__QUOTED_MAX];
    tdg__text_t names;

    for (int i = 0; r->option->choices[i] != NULL; i++) {
        if (strcmp(r->option->choices[i], text) == 0) {
            *ret = i;
            return 0;
        }
    }
    nearest = tdg__nearest_of(text, r->option->choices);
    tdg__text_init(&names, 512);
    tdg__option_write_choices(r->option, &names);
    if (nearest != NULL)
        tdg__node_problem(r->problems, r->node, "%s is not known; did you mean %s?",
                          shown(r, r->node, quoted), nearest);
    else
        tdg__node_problem(r->problems, r->node, "%s is not known; write %s",
                          shown(r, r->node, quoted),
                          names.data != NULL ? names.data : "one of the choices");
    tdg__text_done(&names);
    return TDG_EINVAL;
}

static const struct {
    bool (*parse)(const char *text, int64_t *ret);
    const char *wanted;
} amounts[] = {
    [TDG__OPTION_NUMBER] = {tdg__number_parse, "is not a whole number"},
    [TDG__OPTION_DURATION] = {tdg__duration_parse,
                              "is not a duration; write a number with ms, s, m, h or d, "
                              "such as 30s"},
    [TDG__OPTION_SIZE] =
        {tdg__size_parse,
         "is not a size; write a number of bytes, or one with KiB, MiB or "
         "GiB, such as 64KiB"},
};

static bool is_amount(const tdg__option_t *option) {
    return option->type == TDG__OPTION_NUMBER || option->type == TDG__OPTION_DURATION ||
           option->type == TDG__OPTION_SIZE;
}

int64_t tdg__option_max(const tdg__option_t *option) {
    return option->max == 0 && option->min >= 0 ? INT64_MAX : option->max;
}

void tdg__option_write_amount(const tdg__option_t *option, int64_t amount,
                              tdg__text_t *out) {
    char text[TDG__VALUE_TEXT_MAX];

    if (option->type == TDG__OPTION_DURATION)
        tdg__duration_write(amount, text);
    else if (option->type == TDG__OPTION_SIZE)
        tdg__size_write(amount, text);
    else {
        if (amount < 0)
            tdg__text_put(out, "-");
        tdg__text_put_u64(out, amount < 0 ? -(uint64_t)amount : (uint64_t)amount);
        return;
    }
    tdg__text_put(out, text);
}

static int out_of_range(const reading_t *r) {
    const tdg__option_t *option = r->option;
    int64_t max = tdg__option_max(option);
    char quoted[TDG__QUOTED_MAX];
    tdg__text_t low, high;

    tdg__text_init(&low, 64);
    tdg__text_init(&high, 64);
    tdg__option_write_amount(option, option->min, &low);
    tdg__option_write_amount(option, max, &high);
    if (low.error < 0 || high.error < 0)
        tdg__node_problem(r->problems, r->node, "%s is out of range",
                          shown(r, r->node, quoted));
    else if (max == INT64_MAX)
        tdg__node_problem(r->problems, r->node, "%s is too small; the smallest is %s",
                          shown(r, r->node, quoted), low.data);
    else
        tdg__node_problem(r->problems, r->node,
                          "%s is out of range; write a value from %s to %s",
                          shown(r, r->node, quoted), low.data, high.data);
    tdg__text_done(&low);
    tdg__text_done(&high);
    return TDG_EINVAL;
}

static void set_amount(const tdg__option_t *option, void *field, int64_t amount) {
    if (option->flags & TDG__OPTION_UINT32)
        *(uint32_t *)field = amount > 0 ? (uint32_t)amount : 0;
    else
        *(int64_t *)field = amount;
}

static int read_amount(const reading_t *r, const char *text, void *field) {
    char quoted[TDG__QUOTED_MAX];
    int64_t amount;

    if (!amounts[r->option->type].parse(text, &amount)) {
        tdg__node_problem(r->problems, r->node, "%s %s", shown(r, r->node, quoted),
                          amounts[r->option->type].wanted);
        return TDG_EINVAL;
    }
    if (amount < r->option->min || amount > tdg__option_max(r->option))
        return out_of_range(r);
    set_amount(r->option, field, amount);
    return 0;
}

static int read_single(const reading_t *r, void *field) {
    char *text;
    int rv = read_text(r, r->node, &text);

    if (rv < 0)
        return rv;
    if (r->option->type == TDG__OPTION_BOOL)
        rv = read_bool(r, text, field);
    else if (r->option->type == TDG__OPTION_CHOICE)
        rv = read_choice(r, text, field);
    else
        rv = read_amount(r, text, field);
    tdg__free(text);
    return rv;
}

/* ---- Lists and maps ------------------------------------------------------ */

static int read_strings(const reading_t *r, char ***ret) {
    const tdg__node_t *item = r->node->kind == TDG__NODE_LIST ? r->node->first : r->node;
    bool is_list = r->node->kind == TDG__NODE_LIST;
    char **strings;
    size_t count = 0;
    int rv = 0;

    if (r->node->kind == TDG__NODE_MAP || tdg__node_is_null(r->node))
        return wrong_shape(r, r->node, "a text or a list of texts");
    for (const tdg__node_t *n = item; n != NULL; n = is_list ? n->next : NULL)
        count++;
    strings = tdg__calloc(count + 1, sizeof(*strings));
    if (strings == NULL)
        return TDG_ENOMEM;

    count = 0;
    for (; item != NULL && rv != TDG_ENOMEM; item = is_list ? item->next : NULL) {
        int one = read_text(r, item, &strings[count]);

        if (one == 0)
            count++;
        else
            rv = one;
    }
    if (rv == 0)
        *ret = strings;
    else
        tdg__free_strings(strings);
    return rv;
}

static int read_map(const reading_t *r, json_t **ret) {
    const tdg__node_t *item;
    json_t *map;
    int rv = 0;

    if (r->node->kind != TDG__NODE_MAP)
        return wrong_shape(r, r->node, "a map of names and texts");
    map = json_object();
    if (map == NULL)
        return TDG_ENOMEM;
    for (item = r->node->first; item != NULL && rv != TDG_ENOMEM; item = item->next) {
        char *text;
        int one = read_text(r, item, &text);

        if (one == 0) {
            if (json_object_set_new(map, item->key, json_string(text)) < 0)
                one = TDG_ENOMEM;
            tdg__free(text);
        }
        rv = one < 0 ? one : rv;
    }
    if (rv == 0)
        *ret = map;
    else
        json_decref(map);
    return rv;
}

/* ---- One option ---------------------------------------------------------- */

static int read_value(const reading_t *r, void *fields) {
    void *field = field_of(r->option, fields);

    switch (r->option->type) {
    case TDG__OPTION_STRING:
        return read_text(r, r->node, field);
    case TDG__OPTION_PATH:
        return read_path(r, r->node, field);
    case TDG__OPTION_STRINGS:
        return read_strings(r, field);
    case TDG__OPTION_MAP:
        return read_map(r, field);
    default:
        return read_single(r, field);
    }
}

int tdg__option_read(const tdg__option_t *option, const tdg__node_t *node, void *fields,
                     tdg__problems_t *problems) {
    reading_t r = {.option = option, .node = node, .problems = problems};

    return read_value(&r, fields);
}

int tdg__option_fall_back(const tdg__option_t *option, void *fields,
                          tdg__problems_t *problems) {
    tdg__node_t text = {.kind = TDG__NODE_SCALAR};
    reading_t r = {
        .option = option, .node = &text, .problems = problems, .is_fallback = true};

    if (option->fallback == NULL) {
        if (is_amount(option))
            set_amount(option, field_of(option, fields), -1);
        return 0;
    }
    text.text = (char *)(uintptr_t)option->fallback; /* is only read */
    return read_value(&r, fields);
}

void tdg__option_free(const tdg__option_t *option, void *fields) {
    void *field = field_of(option, fields);

    switch (option->type) {
    case TDG__OPTION_STRING:
    case TDG__OPTION_PATH:
        tdg__free(*(char **)field);
        *(char **)field = NULL;
        break;
    case TDG__OPTION_STRINGS:
        tdg__free_strings(*(char ***)field);
        *(char ***)field = NULL;
        break;
    case TDG__OPTION_MAP:
        json_decref(*(json_t **)field);
        *(json_t **)field = NULL;
        break;
    default:
        break;
    }
}

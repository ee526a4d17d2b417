/* SPDX-License-Identifier: MIT
 *
 * From the events of libyaml to a tree. YAML features that we refuse (anchors, tags) are
 * reported and skipped, so that one run reports all of them; an error after which no tree
 * is left ends it. */
#include <string.h>

#include <yaml.h>

#include <tidings/error.h>

#include "base/alloc.h"
#include "config/node.h"

typedef struct builder {
    yaml_parser_t parser;
    tdg__problems_t *problems;
    const char *text;
    size_t len;
    tdg__node_t *root;
    tdg__node_t *open[TDG__NODE_MAX_DEPTH]; /* lists and maps that have no end yet */
    tdg__node_t *last[TDG__NODE_MAX_DEPTH]; /* the newest child of each */
    size_t depth;
    size_t nodes;
    unsigned documents;
    char *key; /* the key whose value comes next */
    unsigned key_line, key_column;
    bool bad; /* something was told; reading goes on */
} builder_t;

static unsigned line_of(yaml_mark_t mark) {
    return (unsigned)mark.line + 1;
}

static unsigned column_of(yaml_mark_t mark) {
    return (unsigned)mark.column + 1;
}

/* ---- What libyaml refuses ------------------------------------------------ */

/* Whether the line is indented with a tab, which YAML refuses in words that few
 * understand. */
static bool begins_with_tab(const builder_t *b, size_t line) {
    const char *at = b->text, *end = b->text + b->len;

    for (; line > 0 && at != NULL; line--) {
        at = memchr(at, '\n', (size_t)(end - at));
        at = at != NULL ? at + 1 : NULL;
    }
    while (at != NULL && at < end && *at == ' ')
        at++;
    return at != NULL && at < end && *at == '\t';
}

/* The place of a byte; columns count bytes here, since what stands before may be no
 * UTF-8 either. */
static void place_of(const builder_t *b, size_t offset, unsigned *ret_line,
                     unsigned *ret_column) {
    *ret_line = *ret_column = 1;
    for (size_t i = 0; i < offset && i < b->len; i++) {
        if (b->text[i] == '\n') {
            ++*ret_line;
            *ret_column = 1;
        } else {
            ++*ret_column;
        }
    }
}

static int refused_by_yaml(builder_t *b) {
    const yaml_parser_t *p = &b->parser;
    unsigned line, column;

    if (p->error == YAML_MEMORY_ERROR)
        return TDG_ENOMEM;
    if (p->error == YAML_READER_ERROR) {
        place_of(b, p->problem_offset, &line, &column);
        tdg__problems_add(b->problems, line, column,
                          "this is not valid UTF-8, or contains control characters");
        return TDG_EINVAL;
    }

    line = line_of(p->problem_mark);
    column = column_of(p->problem_mark);
    if (begins_with_tab(b, p->problem_mark.line))
        tdg__problems_add(b->problems, line, column,
                          "this line begins with a tab; indent with spaces");
    else if (p->context != NULL)
        tdg__problems_add(b->problems, line, column,
                          "this is not valid YAML: %s (%s that begins in line %u)",
                          p->problem, p->context, line_of(p->context_mark));
    else
        tdg__problems_add(b->problems, line, column, "this is not valid YAML: %s",
                          p->problem);
    return TDG_EINVAL;
}

/* ---- The tree ------------------------------------------------------------ */

static void complain(builder_t *b, const yaml_event_t *event, const char *what) {
    tdg__problems_add(b->problems, line_of(event->start_mark),
                      column_of(event->start_mark), "%s", what);
    b->bad = true;
}

static int copy_text(const yaml_event_t *event, char **ret) {
    *ret =
        tdg__strndup((const char *)event->data.scalar.value, event->data.scalar.length);
    return *ret != NULL ? 0 : TDG_ENOMEM;
}

static bool wants_key(const builder_t *b) {
    return b->depth > 0 && b->open[b->depth - 1]->kind == TDG__NODE_MAP && b->key == NULL;
}

static bool has_key(const builder_t *b, const char *key) {
    return tdg__node_get(b->open[b->depth - 1], key) != NULL;
}

static int add_key(builder_t *b, const yaml_event_t *event) {
    char quoted[TDG__QUOTED_MAX];
    int rv;

    if (event->type != YAML_SCALAR_EVENT) {
        complain(b, event, "expected a name, followed by a colon");
        return TDG_EINVAL;
    }
    rv = copy_text(event, &b->key);
    if (rv < 0)
        return rv;
    b->key_line = line_of(event->start_mark);
    b->key_column = column_of(event->start_mark);
    if (strlen(b->key) != event->data.scalar.length)
        complain(b, event, "a name cannot contain a NUL byte");
    if (has_key(b, b->key)) {
        tdg__problems_add(b->problems, b->key_line, b->key_column,
                          "%s appears twice in the same map",
                          tdg__quoted(quoted, b->key));
        b->bad = true;
    }
    return 0;
}

/* Puts a new node where the next value belongs. */
static int add_node(builder_t *b, const yaml_event_t *event, tdg__node_kind_t kind,
                    tdg__node_t **ret) {
    tdg__node_t *parent = b->depth > 0 ? b->open[b->depth - 1] : NULL, *node;

    if (b->nodes++ == TDG__NODE_MAX_NODES) {
        complain(b, event, "the file has more than 250,000 values");
        return TDG_EINVAL;
    }
    node = tdg__calloc(1, sizeof(*node));
    if (node == NULL)
        return TDG_ENOMEM;
    node->kind = kind;
    node->line = line_of(event->start_mark);
    node->column = column_of(event->start_mark);
    node->parent = parent;
    node->key = b->key;
    node->key_line = b->key_line;
    node->key_column = b->key_column;
    b->key = NULL;

    if (parent == NULL) {
        b->root = node;
    } else if (parent->first == NULL) {
        parent->first = b->last[b->depth - 1] = node;
    } else {
        node->index = b->last[b->depth - 1]->index + 1;
        b->last[b->depth - 1]->next = node;
        b->last[b->depth - 1] = node;
    }
    *ret = node;
    if (node->key != NULL && node->index == TDG__NODE_MAX_KEYS) {
        complain(b, event, "there are more than 1,000 names in one map");
        return TDG_EINVAL;
    }
    return 0;
}

static int add_scalar(builder_t *b, const yaml_event_t *event) {
    tdg__node_t *node;
    int rv = add_node(b, event, TDG__NODE_SCALAR, &node);

    if (rv < 0)
        return rv;
    if (event->type == YAML_ALIAS_EVENT) {
        complain(b, event, "aliases (*name) are not supported; repeat the value");
        node->text = tdg__calloc(1, 1);
        return node->text != NULL ? 0 : TDG_ENOMEM;
    }
    node->plain = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    rv = copy_text(event, &node->text);
    if (rv < 0)
        return rv;
    if (strlen(node->text) != event->data.scalar.length)
        complain(b, event, "a text cannot contain a NUL byte");
    return 0;
}

static int add_collection(builder_t *b, const yaml_event_t *event) {
    tdg__node_t *node;
    int rv;

    if (b->depth == TDG__NODE_MAX_DEPTH) {
        complain(b, event, "lists and maps are nested more than 16 deep");
        return TDG_EINVAL;
    }
    rv = add_node(
        b, event,
        event->type == YAML_MAPPING_START_EVENT ? TDG__NODE_MAP : TDG__NODE_LIST, &node);
    if (rv == 0)
        b->open[b->depth++] = node;
    return rv;
}

static void refuse_marks(builder_t *b, const yaml_event_t *event) {
    const yaml_char_t *anchor = NULL, *tag = NULL;

    if (event->type == YAML_SCALAR_EVENT) {
        anchor = event->data.scalar.anchor;
        tag = event->data.scalar.tag;
    } else if (event->type == YAML_MAPPING_START_EVENT) {
        anchor = event->data.mapping_start.anchor;
        tag = event->data.mapping_start.tag;
    } else if (event->type == YAML_SEQUENCE_START_EVENT) {
        anchor = event->data.sequence_start.anchor;
        tag = event->data.sequence_start.tag;
    }
    if (anchor != NULL)
        complain(b, event,
                 "anchors (&name) are not supported; repeat the value "
                 "where it is needed");
    if (tag != NULL)
        complain(b, event,
                 "tags (!name) are not supported; remove it, or put the "
                 "text in quotes");
}

static int take_event(builder_t *b, const yaml_event_t *event) {
    refuse_marks(b, event);
    switch (event->type) {
    case YAML_DOCUMENT_START_EVENT:
        if (b->documents++ == 0)
            return 0;
        complain(b, event, "a second document begins here; there can be only one");
        return TDG_EINVAL;
    case YAML_ALIAS_EVENT:
    case YAML_SCALAR_EVENT:
        return wants_key(b) ? add_key(b, event) : add_scalar(b, event);
    case YAML_SEQUENCE_START_EVENT:
    case YAML_MAPPING_START_EVENT:
        return wants_key(b) ? add_key(b, event) : add_collection(b, event);
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT:
        b->depth--;
        return 0;
    default:
        return 0;
    }
}

static int take_events(builder_t *b) {
    bool ended = false;
    int rv = 0;

    while (!ended && rv == 0) {
        yaml_event_t event;

        if (!yaml_parser_parse(&b->parser, &event))
            return refused_by_yaml(b);
        ended = event.type == YAML_STREAM_END_EVENT;
        rv = take_event(b, &event);
        yaml_event_delete(&event);
    }
    return rv;
}

/* A file of nothing, or of comments only, is a map of nothing. */
static int check_top(builder_t *b) {
    if (b->root != NULL && !tdg__node_is_null(b->root))
        return 0;
    tdg__node_destroy(b->root);
    b->root = tdg__calloc(1, sizeof(*b->root));
    if (b->root == NULL)
        return TDG_ENOMEM;
    b->root->kind = TDG__NODE_MAP;
    b->root->line = b->root->column = 1;
    return 0;
}

int tdg__node_parse(const char *text, size_t len, tdg__problems_t *problems,
                    tdg__node_t **ret) {
    builder_t b = {.problems = problems, .text = text, .len = len};
    int rv;

    if (!yaml_parser_initialize(&b.parser))
        return TDG_ENOMEM;
    yaml_parser_set_encoding(&b.parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&b.parser, (const unsigned char *)text, len);

    rv = take_events(&b);
    if (rv == 0)
        rv = check_top(&b);
    if (rv == 0 && b.bad)
        rv = TDG_EINVAL;
    if (rv == 0)
        *ret = b.root;
    else
        tdg__node_destroy(b.root);
    tdg__free(b.key);
    yaml_parser_delete(&b.parser);
    return rv;
}

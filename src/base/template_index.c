/* SPDX-License-Identifier: MIT
 *
 * A trie over the parts of the templates. Literals are compressed paths, one node per run
 * of bytes that no template ends or branches in; an expression is a node of its own, of
 * one of two kinds: WORD for {x} and its like, one or more bytes that a simple expression
 * can expand to, and ANY for all others, any bytes behind the operator's character, or
 * nothing. Templates that look the same this way share their nodes. What the walk finds
 * is a candidate; tdg__template_match has the last word on each.
 *
 * The walk. Behind an expression the rest of the template can start at several positions
 * of the URI. A node remembers how far the positions that it has tried reach, so that it
 * tries each once, whatever the ways to come there. One number is enough for that: a node
 * is reached from the expression above it over literals of a fixed length, so by
 * induction it is entered at growing positions; an ANY covers all positions behind, or
 * only the one where it is if its character does not stand there; and a WORD covers all
 * to the end of its run of bytes, so a later entry either falls into the same run and
 * brings nothing new, or starts behind it. The work is thus at most expressions reached
 * times length of the URI, and the recursion as deep as a template has parts.
 *
 * Where this does not help, because the templates are the same but for what only the
 * exact match can tell, every one of them is tried: templates that differ only inside
 * their expressions ("db://x{?a17}", "{id:17}"), or the same template under many values.
 * And where each template has an ANY of its own between two literals
 * ("{+a}/k17/{+b}/end") and the URI has most of these literals, most of the trie is
 * walked. Removing never depends on how many look the same: the entries of a node are
 * doubly linked, and a hash table finds the one that goes.
 *
 * Memory: a node takes 48 bytes and its label, a link to it 16, an entry 24 and its place
 * in the hash table 11 to 21. A template that differs from the others in its last literal
 * needs two nodes: 250 bytes or so. */
#include "base/template_index.h"

#include <assert.h>
#include <string.h>

#include <tidings/error.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/list.h"
#include "base/map.h"
#include "base/pool.h"
#include "base/template_internal.h"

/* One pair that was added; in a pool. */
struct entry {
    const tdg__template_t *template_;
    tdg__link_t same; /* among the entries of its node */
    uint32_t value;
};

enum {
    /* Keys of links: below, the first byte of a label. */
    KEY_WORD = 256,
    KEY_ANY = 257, /* and its lead */
};

struct link {
    struct node *to;
    uint16_t key;
};

struct node {
    struct node *parent; /* NULL for the root */
    struct link *links;  /* sorted by key */
    tdg__list_t entries; /* the templates that end here */
    uint64_t walk;       /* the walk that `covered` belongs to */
    uint32_t covered;    /* behind the last position that was tried */
    uint16_t link_count;
    uint16_t link_room;
    uint16_t label_len;
    uint8_t kind; /* tdg__template_part_kind_t; the root is a literal without label */
    char lead;    /* of an ANY */
    char label[];
};

struct tdg__template_index {
    struct node *root;
    tdg__pool_t entries;
    tdg__map_t by_pair;  /* entries by template and value */
    tdg__hash_key_t key; /* who subscribes has a say in which values stay */
    uint64_t walks;      /* so far: stamps of 64 bits are never used up */
};

static struct entry *entry_at(const tdg__template_index_t *index, uint32_t id) {
    return tdg__pool_get(&index->entries, id);
}

static struct node *node_create(const char *label, size_t label_len) {
    struct node *node = tdg__calloc(1, sizeof(*node) + label_len);

    if (node == NULL)
        return NULL;
    node->kind = TDG__PART_LITERAL;
    node->label_len = (uint16_t)label_len;
    if (label_len > 0)
        memcpy(node->label, label, label_len);
    return node;
}

static void node_destroy(struct node *node) {
    tdg__free(node->links);
    tdg__free(node);
}

/* Iterative, because a path of literals can be as deep as a template is long. */
static void tree_destroy(struct node *root) {
    struct node *node = root;

    while (node != NULL) {
        struct node *parent = node == root ? NULL : node->parent;

        if (node->link_count > 0) {
            node = node->links[--node->link_count].to;
        } else {
            node_destroy(node);
            node = parent;
        }
    }
}

/* `first` is the lead of an ANY, or the first byte of a literal. */
static uint16_t make_key(uint8_t kind, char first) {
    if (kind == TDG__PART_WORD)
        return KEY_WORD;
    return (uint16_t)((kind == TDG__PART_ANY ? KEY_ANY : 0) + (unsigned char)first);
}

static uint16_t node_key(const struct node *node) {
    return make_key(node->kind,
                    node->kind == TDG__PART_LITERAL ? node->label[0] : node->lead);
}

/* Where the link with this key is, or would be. */
static size_t link_position(const struct node *node, uint16_t key) {
    size_t low = 0, high = node->link_count;

    while (low < high) {
        size_t middle = (low + high) / 2;

        if (node->links[middle].key < key)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static struct node *find_link(const struct node *node, uint16_t key) {
    size_t at = link_position(node, key);

    return at < node->link_count && node->links[at].key == key ? node->links[at].to
                                                               : NULL;
}

/* Makes room for `count` more links, so that link_node cannot fail. */
static int reserve_links(struct node *node, size_t count) {
    size_t room = node->link_room;
    struct link *links;

    if (node->link_count + count <= room)
        return 0;

    while (room < node->link_count + count)
        room = room == 0 ? 1 : 2 * room;
    links = tdg__reallocarray(node->links, room, sizeof(*links));
    if (links == NULL)
        return TDG_ENOMEM;
    node->links = links;
    node->link_room = (uint16_t)room;
    return 0;
}

static void link_node(struct node *parent, struct node *child) {
    uint16_t key = node_key(child);
    size_t at = link_position(parent, key);

    assert(parent->link_count < parent->link_room);
    memmove(parent->links + at + 1, parent->links + at,
            (parent->link_count - at) * sizeof(*parent->links));
    parent->links[at] = (struct link){child, key};
    parent->link_count++;
    child->parent = parent;
}

static void unlink_node(struct node *child) {
    struct node *parent = child->parent;
    size_t at = link_position(parent, node_key(child));

    parent->link_count--;
    memmove(parent->links + at, parent->links + at + 1,
            (parent->link_count - at) * sizeof(*parent->links));
    if (parent->link_count == 0) {
        tdg__free(parent->links);
        parent->links = NULL;
        parent->link_room = 0;
    }
}

int tdg__template_index_create(tdg__template_index_t **ret) {
    tdg__template_index_t *index = tdg__calloc(1, sizeof(*index));
    int rv;

    if (index == NULL)
        return TDG_ENOMEM;
    tdg__pool_init(&index->entries, sizeof(struct entry));
    tdg__map_init(&index->by_pair);

    rv = tdg__random(&index->key, sizeof(index->key));
    if (rv < 0)
        goto fail_index;

    rv = TDG_ENOMEM;
    index->root = node_create(NULL, 0);
    if (index->root == NULL)
        goto fail_index;
    *ret = index;
    return 0;

fail_index:
    tdg__free(index);
    return rv;
}

void tdg__template_index_destroy(tdg__template_index_t *index) {
    if (index == NULL)
        return;
    tree_destroy(index->root);
    tdg__map_done(&index->by_pair);
    tdg__pool_done(&index->entries);
    tdg__free(index);
}

size_t tdg__template_index_count(const tdg__template_index_t *index) {
    return index->by_pair.count;
}

/* The key of an entry. */
struct pair {
    const tdg__template_t *template_;
    uint32_t value;
};

static uint32_t hash_pair(const tdg__template_index_t *index, const struct pair *pair) {
    uint64_t words[2] = {(uintptr_t)pair->template_, pair->value};

    return (uint32_t)tdg__hash(&index->key, words, sizeof(words));
}

static bool is_pair(const void *ctx, uint32_t id, const void *key) {
    const struct entry *entry = entry_at(ctx, id);
    const struct pair *pair = key;

    return entry->template_ == pair->template_ && entry->value == pair->value;
}

/* How much of a template's path is in the trie already. */
struct path {
    const tdg__template_t *template_;
    size_t part;          /* the first part that is not, wholly */
    size_t offset;        /* bytes of it that are */
    struct node *node;    /* the last node of the path that belongs to it wholly */
    struct node *partial; /* the child of it whose label agrees at first; or NULL */
    size_t common;        /* for how many bytes */
};

static const char *part_text(const struct path *path) {
    return path->template_->text + path->template_->parts[path->part].at + path->offset;
}

static size_t part_left(const struct path *path) {
    return path->template_->parts[path->part].len - path->offset;
}

static uint16_t path_key(const struct path *path) {
    const tdg__template_part_t *part = &path->template_->parts[path->part];

    return make_key(part->kind,
                    part->kind == TDG__PART_LITERAL ? *part_text(path) : part->lead);
}

static size_t common_len(const struct node *node, const char *text, size_t len) {
    size_t common = 0;

    while (common < len && common < node->label_len &&
           node->label[common] == text[common])
        common++;
    return common;
}

static bool path_complete(const struct path *path) {
    return path->part == path->template_->part_count;
}

static struct path follow(tdg__template_index_t *index, const tdg__template_t *t) {
    struct path path = {.template_ = t, .node = index->root};

    while (!path_complete(&path)) {
        struct node *next = find_link(path.node, path_key(&path));

        if (next == NULL)
            break;
        if (next->kind == TDG__PART_LITERAL) {
            size_t common = common_len(next, part_text(&path), part_left(&path));

            path.offset += common;
            if (common < next->label_len) {
                path.partial = next;
                path.common = common;
            }
        }
        if (next->kind != TDG__PART_LITERAL || part_left(&path) == 0) {
            path.part++;
            path.offset = 0;
        }
        if (path.partial != NULL)
            break;
        path.node = next;
    }
    return path;
}

/* Stores a new chain of nodes for what is left of the path, perhaps of none: then both
 * are NULL. */
static int build_chain(struct path path, struct node **ret_head, struct node **ret_tail) {
    struct node *head = NULL, *tail = NULL;

    for (; !path_complete(&path); path.part++, path.offset = 0) {
        const tdg__template_part_t *part = &path.template_->parts[path.part];
        size_t len = part->kind == TDG__PART_LITERAL ? part_left(&path) : 0;
        struct node *node = node_create(part_text(&path), len);

        if (node == NULL)
            goto fail;
        node->kind = part->kind;
        node->lead = part->lead;
        if (tail == NULL) {
            head = node;
        } else if (reserve_links(tail, 1) == 0) {
            link_node(tail, node);
        } else {
            node_destroy(node);
            goto fail;
        }
        tail = node;
    }
    *ret_head = head;
    *ret_tail = tail;
    return 0;

fail:
    tree_destroy(head);
    return TDG_ENOMEM;
}

/* Puts a new node with the first `common` bytes of `lower`'s label above it, with room
 * for one more link. */
static struct node *split(struct node *lower, size_t common) {
    struct node *upper = node_create(lower->label, common);
    struct node *parent = lower->parent;

    if (upper == NULL)
        return NULL;
    if (reserve_links(upper, 2) < 0) {
        node_destroy(upper);
        return NULL;
    }

    parent->links[link_position(parent, node_key(lower))].to = upper;
    upper->parent = parent;
    lower->label_len = (uint16_t)(lower->label_len - common);
    memmove(lower->label, lower->label + common, lower->label_len);
    link_node(upper, lower);
    return upper;
}

/* Stores a new entry that no node has yet, with room for it in the hash table. */
static int entry_create(tdg__template_index_t *index, const struct pair *pair,
                        uint32_t *ret) {
    struct entry *entry;

    if (tdg__map_reserve(&index->by_pair) < 0)
        return TDG_ENOMEM;

    entry = tdg__pool_alloc(&index->entries, ret);
    if (entry == NULL)
        return TDG_ENOMEM;
    entry->template_ = pair->template_;
    entry->value = pair->value;
    return 0;
}

int tdg__template_index_add(tdg__template_index_t *index,
                            const tdg__template_t *template_, uint32_t value) {
    const struct pair pair = {template_, value};
    struct path path = follow(index, template_);
    struct node *head, *tail, *at = path.node;
    uint32_t id;

    if (entry_create(index, &pair, &id) < 0)
        goto fail_map;
    if (build_chain(path, &head, &tail) < 0)
        goto fail_entry;

    /* The last thing that can fail: from here on the trie changes. */
    if (path.partial != NULL)
        at = split(path.partial, path.common);
    else if (head != NULL && reserve_links(at, 1) < 0)
        at = NULL;
    if (at == NULL)
        goto fail_chain;

    if (head != NULL) {
        link_node(at, head);
        at = tail;
    }
    tdg__list_prepend(&at->entries, &index->entries, offsetof(struct entry, same), id);
    tdg__map_insert(&index->by_pair, hash_pair(index, &pair), id);
    return 0;

fail_chain:
    tree_destroy(head);
fail_entry:
    tdg__pool_free(&index->entries, id);
fail_map:
    if (index->by_pair.count == 0)
        tdg__map_done(&index->by_pair);
    return TDG_ENOMEM;
}

/* Joins a literal with the only node below it, a literal too, as if it had never been
 * split. Without memory for the longer label both just stay. */
static void join(struct node *upper) {
    struct node *lower, *joined, *parent = upper->parent;

    if (parent == NULL || upper->kind != TDG__PART_LITERAL || upper->entries.first != 0 ||
        upper->link_count != 1 || upper->links[0].to->kind != TDG__PART_LITERAL)
        return;

    lower = upper->links[0].to;
    joined = tdg__malloc(sizeof(*joined) + upper->label_len + lower->label_len);
    if (joined == NULL)
        return;

    *joined = *lower;
    joined->parent = parent;
    joined->label_len = (uint16_t)(upper->label_len + lower->label_len);
    memcpy(joined->label, upper->label, upper->label_len);
    memcpy(joined->label + upper->label_len, lower->label, lower->label_len);
    for (size_t i = 0; i < joined->link_count; i++)
        joined->links[i].to->parent = joined;
    parent->links[link_position(parent, node_key(upper))].to = joined;

    tdg__free(lower); /* its links and entries belong to `joined` now */
    tdg__free(upper->links);
    tdg__free(upper);
}

static void prune(struct node *node) {
    while (node->parent != NULL && node->entries.first == 0 && node->link_count == 0) {
        struct node *parent = node->parent;

        unlink_node(node);
        node_destroy(node);
        node = parent;
    }
    join(node);
}

void tdg__template_index_remove(tdg__template_index_t *index,
                                const tdg__template_t *template_, uint32_t value) {
    const struct pair pair = {template_, value};
    uint32_t hash = hash_pair(index, &pair);
    uint32_t id = tdg__map_find(&index->by_pair, hash, is_pair, index, &pair);
    struct path path;

    if (id == 0)
        return;

    path = follow(index, template_);
    assert(path_complete(&path) && path.partial == NULL);
    tdg__list_remove(&path.node->entries, &index->entries, offsetof(struct entry, same),
                     id);
    tdg__map_remove(&index->by_pair, hash, id);
    tdg__pool_free(&index->entries, id);
    prune(path.node);
}

struct walk {
    const tdg__template_index_t *index;
    uint64_t number;
    const char *uri;
    size_t len;
    tdg__template_visit_fn visit;
    void *user;
};

static void visit_entries(const struct walk *walk, const struct node *node) {
    const struct entry *entry;

    for (uint32_t id = node->entries.first; id != 0; id = entry->same.next) {
        entry = entry_at(walk->index, id);
        if (tdg__template_match(entry->template_, walk->uri, walk->len))
            walk->visit(walk->user, entry->value);
    }
}

static void enter(const struct walk *walk, struct node *node, size_t at);

/* Goes on below a node with what the URI has from `at` on. */
static void descend(const struct walk *walk, struct node *node, size_t at) {
    while (node != NULL) {
        struct node *next = NULL;

        if (at == walk->len)
            visit_entries(walk, node);

        /* Expressions have the largest keys. */
        for (size_t i = node->link_count; i-- > 0 && node->links[i].key >= KEY_WORD;)
            enter(walk, node->links[i].to, at);

        if (at < walk->len)
            next = find_link(node, (unsigned char)walk->uri[at]);
        if (next != NULL && (next->label_len > walk->len - at ||
                             memcmp(next->label, walk->uri + at, next->label_len) != 0))
            next = NULL;
        at += next != NULL ? next->label_len : 0;
        node = next;
    }
}

/* Tries every end that an expression can have which starts at `at`. */
static void enter(const struct walk *walk, struct node *node, size_t at) {
    size_t start = at, end = walk->len;

    if (node->walk == walk->number && at < node->covered)
        return;

    if (node->kind == TDG__PART_WORD) {
        start = at + 1;
        for (end = at; end < walk->len; end++)
            if (!tdg__is_word_byte((unsigned char)walk->uri[end]))
                break;
    } else if (node->lead != 0 && (at == end || walk->uri[at] != node->lead)) {
        end = at;
    }
    if (start > end)
        return;

    node->walk = walk->number;
    node->covered = (uint32_t)end + 1;
    if (node->link_count == 0)
        start = end; /* nothing can follow, so only the end of the URI is of interest */
    for (; start <= end; start++)
        descend(walk, node, start);
}

void tdg__template_index_match(tdg__template_index_t *index, const char *uri, size_t len,
                               tdg__template_visit_fn visit, void *user) {
    struct walk walk = {index, ++index->walks, uri, len, visit, user};

    if (len <= TDG__TEMPLATE_MAX_LEN)
        descend(&walk, index->root, 0);
}

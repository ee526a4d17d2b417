/* SPDX-License-Identifier: MIT */
#include "source/files/files_tree.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include <tidings/error.h>

#include "base/alloc.h"

#define LINK offsetof(tdg__files_node_t, link)

struct name_key {
    uint32_t parent;
    const char *name;
    size_t len;
};

static bool name_eq(const void *ctx, uint32_t value, const void *key) {
    const tdg__files_node_t *node = tdg__files_node(ctx, value);
    const struct name_key *wanted = key;

    return node->parent == wanted->parent &&
           strncmp(node->name, wanted->name, wanted->len) == 0 &&
           node->name[wanted->len] == '\0';
}

static bool wd_eq(const void *ctx, uint32_t value, const void *key) {
    return tdg__files_node(ctx, value)->u.folder.wd == *(const int *)key;
}

static uint32_t hash_name(const tdg__files_tree_t *tree, uint32_t parent,
                          const char *name, size_t len) {
    tdg__hash_key_t key = {tree->key.k0 ^ parent, tree->key.k1};

    return (uint32_t)tdg__hash(&key, name, len);
}

/* Small numbers given by the kernel: mixing is enough. */
static uint32_t hash_wd(int wd) {
    return (uint32_t)wd * 2654435761u;
}

int tdg__files_tree_init(tdg__files_tree_t *tree) {
    tdg__files_node_t *root;

    *tree = (tdg__files_tree_t){0};
    tdg__pool_init(&tree->pool, sizeof(tdg__files_node_t));
    tdg__map_init(&tree->by_name);
    tdg__map_init(&tree->by_wd);
    if (tdg__random(&tree->key, sizeof(tree->key)) < 0)
        return TDG_ESYSTEM;

    root = tdg__pool_alloc(&tree->pool, &tree->root);
    if (root == NULL)
        return TDG_ENOMEM;
    root->flags = TDG__NODE_IS_FOLDER;
    root->u.folder.wd = -1;
    return 0;
}

void tdg__files_tree_done(tdg__files_tree_t *tree) {
    for (uint32_t id = 0; (id = tdg__files_next(tree, id)) != 0;)
        tdg__free(tdg__files_node(tree, id)->name);
    tdg__map_done(&tree->by_name);
    tdg__map_done(&tree->by_wd);
    if (tree->pool.size != 0)
        tdg__pool_done(&tree->pool);
    *tree = (tdg__files_tree_t){0};
}

uint32_t tdg__files_next(const tdg__files_tree_t *tree, uint32_t id) {
    while (++id < tdg__pool_end(&tree->pool)) {
        const tdg__files_node_t *node = tdg__files_node(tree, id);

        if (node != NULL && (node->name != NULL || id == tree->root))
            return id;
    }
    return 0;
}

uint32_t tdg__files_child(const tdg__files_tree_t *tree, uint32_t parent,
                          const char *name, size_t len) {
    struct name_key key = {parent, name, len};

    return tdg__map_find(&tree->by_name, hash_name(tree, parent, name, len), name_eq,
                         tree, &key);
}

uint32_t tdg__files_find(const tdg__files_tree_t *tree, const char *path) {
    uint32_t id = tree->root;

    while (id != 0 && *path != '\0') {
        size_t len = strcspn(path, "/");

        id = tdg__files_child(tree, id, path, len);
        path += len + (path[len] == '/');
    }
    return id;
}

uint32_t tdg__files_add(tdg__files_tree_t *tree, uint32_t parent, const char *name,
                        size_t len, unsigned flags) {
    uint32_t id;
    tdg__files_node_t *node;
    char *copy;

    if (tdg__map_reserve(&tree->by_name) < 0)
        return 0;
    copy = tdg__strndup(name, len);
    if (copy == NULL)
        return 0;
    node = tdg__pool_alloc(&tree->pool, &id);
    if (node == NULL) {
        tdg__free(copy);
        return 0;
    }

    tdg__files_node_t *folder = tdg__files_node(tree, parent);

    assert((folder->flags & TDG__NODE_IS_FOLDER) != 0);
    node->name = copy;
    node->parent = parent;
    node->hash = hash_name(tree, parent, name, len);
    node->flags = flags;
    node->seen = folder->u.folder.scan;
    if ((flags & TDG__NODE_IS_FOLDER) != 0) {
        node->u.folder.wd = -1;
        tree->folders++;
    } else {
        tree->files++;
        tree->links += (flags & TDG__NODE_IS_LINK) != 0;
    }
    tdg__map_insert(&tree->by_name, node->hash, id);
    tdg__list_append(&folder->u.folder.children, &tree->pool, LINK, id);
    return id;
}

void tdg__files_own(tdg__files_tree_t *tree, uint32_t id) {
    tdg__files_node_t *node = tdg__files_node(tree, id);

    if ((node->flags & TDG__NODE_INHERITED) != 0)
        tree->inherited--;
    node->flags &= ~(unsigned)TDG__NODE_INHERITED;
}

/* What is absent is looked at anyway, and since when it is stays known. */
void tdg__files_forget_fingerprint(tdg__files_node_t *node) {
    if ((node->flags & TDG__NODE_ABSENT) == 0)
        node->fingerprint = 0;
}

void tdg__files_tree_disown(tdg__files_tree_t *tree) {
    for (uint32_t id = 0; (id = tdg__files_next(tree, id)) != 0;) {
        tdg__files_node_t *node = tdg__files_node(tree, id);

        node->flags &= ~(unsigned)(TDG__NODE_QUEUED | TDG__NODE_LATER);
        if ((node->flags & TDG__NODE_IS_FOLDER) != 0)
            (void)tdg__files_set_wd(tree, id, -1);
        if (id != tree->root)
            node->flags |= TDG__NODE_INHERITED;
    }
    tree->inherited = tree->files + tree->folders;
}

void tdg__files_remove(tdg__files_tree_t *tree, uint32_t id) {
    tdg__files_node_t *node = tdg__files_node(tree, id);
    tdg__files_node_t *folder = tdg__files_node(tree, node->parent);

    assert(id != tree->root && tdg__files_leaf(tree, id) == id);
    tdg__files_own(tree, id);
    if ((node->flags & TDG__NODE_IS_FOLDER) != 0) {
        (void)tdg__files_set_wd(tree, id, -1);
        tree->folders--;
    } else {
        tree->files--;
        tree->links -= (node->flags & TDG__NODE_IS_LINK) != 0;
    }
    tdg__map_remove(&tree->by_name, node->hash, id);
    tdg__list_remove(&folder->u.folder.children, &tree->pool, LINK, id);
    tdg__free(node->name);
    tdg__pool_free(&tree->pool, id);
}

uint32_t tdg__files_leaf(const tdg__files_tree_t *tree, uint32_t id) {
    for (;;) {
        const tdg__files_node_t *node = tdg__files_node(tree, id);

        if ((node->flags & TDG__NODE_IS_FOLDER) == 0 ||
            node->u.folder.children.first == 0)
            return id;
        id = node->u.folder.children.first;
    }
}

bool tdg__files_path_of(const tdg__files_tree_t *tree, uint32_t id, char *out,
                        size_t room) {
    size_t at = room - 1;

    /* From the end, then moved to the front. */
    out[at] = '\0';
    while (id != tree->root) {
        const tdg__files_node_t *node = tdg__files_node(tree, id);
        size_t len = strlen(node->name), slash = out[at] != '\0';

        if (len + slash > at)
            return false;
        at -= len + slash;
        memcpy(out + at, node->name, len);
        if (slash)
            out[at + len] = '/';
        id = node->parent;
    }
    memmove(out, out + at, room - at);
    return true;
}

bool tdg__files_path_in(const tdg__files_tree_t *tree, uint32_t parent, const char *name,
                        char *out, size_t room) {
    size_t len;

    if (!tdg__files_path_of(tree, parent, out, room))
        return false;
    len = strlen(out);
    if (len + strlen(name) + 2 > room)
        return false;
    snprintf(out + len, room - len, "%s%s", len > 0 ? "/" : "", name);
    return true;
}

uint32_t tdg__files_by_wd(const tdg__files_tree_t *tree, int wd) {
    return tdg__map_find(&tree->by_wd, hash_wd(wd), wd_eq, tree, &wd);
}

static void drop_wd(tdg__files_tree_t *tree, uint32_t id) {
    tdg__files_node_t *node = tdg__files_node(tree, id);

    if (node->u.folder.wd >= 0)
        tdg__map_remove(&tree->by_wd, hash_wd(node->u.folder.wd), id);
    node->u.folder.wd = -1;
}

int tdg__files_set_wd(tdg__files_tree_t *tree, uint32_t id, int wd) {
    uint32_t before;

    if (tdg__files_node(tree, id)->u.folder.wd == wd)
        return 0;
    drop_wd(tree, id);
    if (wd < 0)
        return 0;

    before = tdg__files_by_wd(tree, wd);
    if (before != 0)
        drop_wd(tree, before);
    if (tdg__map_reserve(&tree->by_wd) < 0)
        return TDG_ENOMEM;
    tdg__files_node(tree, id)->u.folder.wd = wd;
    tdg__map_insert(&tree->by_wd, hash_wd(wd), id);
    return 0;
}

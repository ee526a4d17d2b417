/* SPDX-License-Identifier: MIT
 *
 * The known state of a folder: a node for each file and folder in it, found by parent and
 * name, and folders also by their inotify watch. About 100 bytes per file. Names are
 * bytes. One thread, the loop's. */
#ifndef TDG_SOURCE_FILES_TREE_H
#define TDG_SOURCE_FILES_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/hash.h"
#include "base/list.h"
#include "base/map.h"
#include "base/pool.h"

enum {
    TDG__NODE_IS_FOLDER = 1 << 0,
    TDG__NODE_IS_LINK = 1 << 1,   /* a file behind a symbolic link */
    TDG__NODE_QUEUED = 1 << 2,    /* is to be looked at next */
    TDG__NODE_LATER = 1 << 3,     /* is to be looked at soon */
    TDG__NODE_LISTED = 1 << 4,    /* the host knows it */
    TDG__NODE_DENIED = 1 << 5,    /* a folder that could not be read when last tried */
    TDG__NODE_ABSENT = 1 << 6,    /* was not found; goes if that lasts */
    TDG__NODE_INHERITED = 1 << 7, /* from another source, and not met by a walk yet */
};

typedef struct tdg__files_node {
    uint32_t parent; /* 0: the root */
    uint32_t hash;
    tdg__link_t link; /* among the children of the parent */
    uint32_t seen;    /* the scan of the parent that met it last */
    uint32_t flags;
    char *name;
    union {
        uint64_t fingerprint;    /* differs when the file does; 0: unknown */
        int64_t absent_since_ms; /* of the loop; while ABSENT */
    };
    union {
        struct {
            uint64_t size;
            int64_t modified_ms;
        } file;
        struct {
            tdg__list_t children;
            int wd; /* -1: not watched */
            uint32_t scan;
        } folder;
    } u;
} tdg__files_node_t;

typedef struct tdg__files_tree {
    tdg__pool_t pool;
    tdg__map_t by_name;
    tdg__map_t by_wd;
    tdg__hash_key_t key;
    uint32_t root;
    size_t files, folders, links; /* links are files too */
    size_t inherited;             /* nodes with that flag */
} tdg__files_tree_t;

/* With the root and nothing else. Returns 0, TDG_ENOMEM or TDG_ESYSTEM. */
int tdg__files_tree_init(tdg__files_tree_t *tree);
void tdg__files_tree_done(tdg__files_tree_t *tree); /* all zero is accepted */

static inline tdg__files_node_t *tdg__files_node(const tdg__files_tree_t *tree,
                                                 uint32_t id) {
    return tdg__pool_get(&tree->pool, id);
}

/* Walks the nodes in use, the root among them: begin with 0, which also ends. */
uint32_t tdg__files_next(const tdg__files_tree_t *tree, uint32_t id);

/* A child by name; a node by its path, "" for the root. 0: there is none. */
uint32_t tdg__files_child(const tdg__files_tree_t *tree, uint32_t parent,
                          const char *name, size_t len);
uint32_t tdg__files_find(const tdg__files_tree_t *tree, const char *path);

/* Adds a child that is not there yet. 0: memory is out. */
uint32_t tdg__files_add(tdg__files_tree_t *tree, uint32_t parent, const char *name,
                        size_t len, unsigned flags);

/* A node was met: it is ours now. */
void tdg__files_own(tdg__files_tree_t *tree, uint32_t id);

/* Whatever its file looks like, it is not known any more. */
void tdg__files_forget_fingerprint(tdg__files_node_t *node);

/* Makes the tree one that was inherited: nothing is watched, queued or met. */
void tdg__files_tree_disown(tdg__files_tree_t *tree);

/* Removes a node without children that is not the root. */
void tdg__files_remove(tdg__files_tree_t *tree, uint32_t id);

/* Some node at the bottom: the first child of the first child ... */
uint32_t tdg__files_leaf(const tdg__files_tree_t *tree, uint32_t id);

/* Writes the path of a node. False where it has no room. */
bool tdg__files_path_of(const tdg__files_tree_t *tree, uint32_t id, char *out,
                        size_t room);

/* The same for a name in a folder, which need not be known. */
bool tdg__files_path_in(const tdg__files_tree_t *tree, uint32_t parent, const char *name,
                        char *out, size_t room);

/* The folder with this watch, or 0. Setting takes it from the folder that had it; -1 is
 * none. Returns 0, or TDG_ENOMEM: then no folder has it. */
uint32_t tdg__files_by_wd(const tdg__files_tree_t *tree, int wd);
int tdg__files_set_wd(tdg__files_tree_t *tree, uint32_t id, int wd);

#endif

/* SPDX-License-Identifier: MIT
 *
 * Paths below a root, as URIs and as open files.
 *
 * A relative path is names with '/' between them: none empty, none "." or "..". A path
 * from a URI has to have this form, too: encoded dots are dots, and an encoded slash or
 * NUL is refused. The kernel resolves a path beneath the root in the same step as it
 * opens it (openat2), so no process can swap a folder for a link in between. If the
 * kernel has no openat2, each name is opened in its parent and no link is followed at
 * all. */
#ifndef TDG_SOURCE_FILES_PATH_H
#define TDG_SOURCE_FILES_PATH_H

#include <stdbool.h>
#include <stddef.h>

enum { TDG__FILES_MAX_PATH = 4096 }; /* bytes, with the NUL */

/* Writes `path` percent-encoded behind `prefix`: everything but the characters that a
 * path may have in a URI. Returns a new string, or NULL when memory is out. */
char *tdg__files_uri(const char *prefix, const char *path);

/* Decodes what is behind the prefix of a URI into `out` (TDG__FILES_MAX_PATH bytes).
 * False where it is no relative path. */
bool tdg__files_path(const char *encoded, size_t len, char *out);

/* Writes the path of the folder that `path` is in to `out` (TDG__FILES_MAX_PATH bytes; ""
 * for the root); returns the name in it, which is part of `path`. */
const char *tdg__files_parent(const char *path, char *out);

/* Whether a name or one on the way to it begins with a dot, or is what editors leave
 * behind: x~, #x#, x.bak, x.orig, 4913. */
bool tdg__files_is_hidden(const char *path);

/* Opens `path` beneath the folder `root`; "" is the root itself. Links on the way are
 * refused. With FOLLOW the last name may be a link, to anything beneath the root. Returns
 * a descriptor or a negative errno: -ELOOP, -EXDEV where a link leads elsewhere. */
enum { TDG__FILES_FOLLOW = 1 << 0, TDG__FILES_NO_OPENAT2 = 1 << 1 /* for tests */ };
int tdg__files_open(int root, const char *path, int open_flags, unsigned flags);

#endif

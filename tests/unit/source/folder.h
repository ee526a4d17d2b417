/* SPDX-License-Identifier: MIT
 *
 * A temporary folder for a test, and what is done in it. Names are relative to it. What
 * cannot be done fails the test. */
#ifndef TDG_TESTS_SOURCE_FOLDER_H
#define TDG_TESTS_SOURCE_FOLDER_H

#include <stdbool.h>
#include <stddef.h>

enum { FOLDER_PATH = 512 };

struct folder {
    char path[128];
};

void folder_create(struct folder *folder);
void folder_destroy(struct folder *folder); /* with all that is in it */

void folder_path(const struct folder *folder, const char *name, char *out);
void folder_write(const struct folder *folder, const char *name, const char *text);
void folder_append(const struct folder *folder, const char *name, const char *text);
void folder_replace(const struct folder *folder, const char *name, const char *text);
void folder_mkdir(const struct folder *folder, const char *name); /* and its parents */
void folder_link(const struct folder *folder, const char *target, const char *name);
void folder_rename(const struct folder *folder, const char *from, const char *to);
void folder_remove(const struct folder *folder, const char *name); /* with all in it */
int folder_open(const struct folder *folder, const char *name);    /* a descriptor */

void folder_socket(const struct folder *folder, const char *name);
bool folder_device(const struct folder *folder, const char *name); /* false: may not */

/* Notices whether anybody opens a name, or a FIFO that is made; the last says so, and
 * ends it. */
int folder_guard(const struct folder *folder, const char *name);
int folder_guard_fifo(const struct folder *folder, const char *name);
bool folder_was_opened(int guard);

#endif

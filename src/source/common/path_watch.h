/* SPDX-License-Identifier: MIT
 *
 * Watches one path, whatever becomes of it: written to, truncated, deleted and made anew,
 * replaced by rename, a link that leads elsewhere, a folder that comes later. inotify on
 * the folder and on the file tells at once; a look every two seconds finds what it does
 * not tell (a link on the way, a network file system), and every half second where
 * inotify is not to be had. Paths are looked up in the thread pool only. */
#ifndef TDG_SOURCE_PATH_WATCH_H
#define TDG_SOURCE_PATH_WATCH_H

#include <uv.h>

typedef struct tdg__path_watch tdg__path_watch_t;

typedef struct tdg__path_watch_ops {
    /* From now on changes are noticed; called once. `error`: 0, or why inotify does not
     * work, as errno has it. */
    void (*armed)(void *user, int error);

    /* Something may have changed. Also called right before armed(). */
    void (*changed)(void *user);

    /* The last call, after tdg__path_watch_stop(). */
    void (*closed)(void *user);
} tdg__path_watch_ops_t;

/* Starts watching `path`, and with it the files whose names have something from `also`
 * behind it (at most two; ends with NULL, or is NULL). Returns 0 or TDG_ENOMEM. */
int tdg__path_watch_start(uv_loop_t *loop, const char *path, const char *const *also,
                          const tdg__path_watch_ops_t *ops, void *user,
                          tdg__path_watch_t **ret);
void tdg__path_watch_stop(tdg__path_watch_t *watch);

#endif

/* SPDX-License-Identifier: MIT
 *
 * Watches one path, whatever happens to it: written, truncated, deleted and recreated,
 * replaced by rename, a link to another place, a folder that is created later. inotify on
 * the folder and on the file reports at once; a check every two seconds finds what it
 * does not report (a link in the path, a network file system), and every half second if
 * inotify does not work. Paths are looked up in the thread pool only. */
#ifndef TDG_SOURCE_PATH_WATCH_H
#define TDG_SOURCE_PATH_WATCH_H

#include "source/common/source.h"

typedef struct tdg__path_watch tdg__path_watch_t;

typedef struct tdg__path_watch_ops {
    /* Something may have changed. Also called right before armed(). */
    void (*changed)(tdg__source_t *source);

    /* From now on changes are noticed; called once. May be NULL. */
    void (*armed)(tdg__source_t *source);

    const char *instead; /* for the log: what happens where inotify does not work */
} tdg__path_watch_ops_t;

/* Starts watching `path` for a source, and with it the files whose names have something
 * from `also` behind it (at most two; ends with NULL, or is NULL). It holds the source
 * until it has ended. Returns 0 or TDG_ENOMEM. */
int tdg__path_watch_start(tdg__source_t *source, const char *path,
                          const char *const *also, const tdg__path_watch_ops_t *ops,
                          tdg__path_watch_t **ret);

/* Nothing is called from then on. */
void tdg__path_watch_stop(tdg__path_watch_t *watch);

#endif

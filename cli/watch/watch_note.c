/* SPDX-License-Identifier: MIT
 *
 * Notes: results that the thread that queries the server passes to the loop. */
#include "watch/watch.h"

#include <errno.h>
#include <unistd.h>

#include "base/alloc.h"

static void release(const watch_note_t *note) {
    tdg__free(note->uri);
    json_decref(note->contents);
    watch_item_free(note->item);
}

void watch_note_free(watch_note_t *note) {
    if (note != NULL)
        release(note);
    tdg__free(note);
}

void watch_note_send(watch_t *watch, const watch_note_t *given, bool whole) {
    watch_follow_t *follow = &watch->follow;
    watch_note_t *note = whole ? tdg__calloc(1, sizeof(*note)) : NULL;

    if (note == NULL) {
        release(given);
        watch_say(watch, "out of memory: a change is not shown");
        return;
    }
    *note = *given;
    pthread_mutex_lock(&follow->lock);
    if (follow->first == NULL)
        follow->first = note;
    else
        follow->last->next = note;
    follow->last = note;
    pthread_mutex_unlock(&follow->lock);
    /* A full pipe is readable anyway. */
    while (write(follow->pipe[1], "", 1) < 0 && errno == EINTR)
        ;
}

void watch_note_send_item(watch_t *watch, watch_kind_t kind, tdg_list_kind_t list,
                          const char *uri, json_t *contents) {
    const watch_note_t note = {.kind = WATCH_NOTE_ITEM,
                               .item = watch_item_found(kind, list, uri, contents)};

    watch_note_send(watch, &note, note.item != NULL);
}

watch_note_t *watch_follow_next(watch_t *watch) {
    watch_follow_t *follow = &watch->follow;
    char bytes[64];

    while (read(follow->pipe[0], bytes, sizeof(bytes)) > 0)
        ;
    pthread_mutex_lock(&follow->lock);
    watch_note_t *note = follow->first;
    if (note != NULL)
        follow->first = note->next;
    pthread_mutex_unlock(&follow->lock);
    return note;
}

/* SPDX-License-Identifier: MIT
 *
 * Replaces another source for the same URI, or folder of URIs. The new source inherits
 * its tree: the first walk updates it, as every walk does, so every change between the
 * last event that was read and the first watch is found. */
#include "source/files/files.h"

/* Both may be of other folders, or include other files: what is not met by the walk goes.
 */
bool tdg__files_inherit(tdg__source_t *source, tdg__source_t *from) {
    tdg__files_t *files = (tdg__files_t *)source, *before = (tdg__files_t *)from;
    tdg__files_tree_t own = files->tree;

    tdg__files_doubt_unread(before);
    files->tree = before->tree;
    before->tree = (tdg__files_tree_t){0};
    tdg__files_tree_disown(&files->tree);
    tdg__files_tree_done(&own);
    tdg__files_inherit_saves(files, before);
    tdg__files_inherit_absent(files);

    files->unsure = before->unsure;
    files->all_unsure = before->all_unsure;
    before->unsure = (tdg__files_queue_t){0};
    return true;
}

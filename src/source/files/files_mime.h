/* SPDX-License-Identifier: MIT
 *
 * MIME types by extension: what people keep in folders that a language model reads. */
#ifndef TDG_SOURCE_FILES_MIME_H
#define TDG_SOURCE_FILES_MIME_H

/* Of a path or name; NULL where the extension says nothing. Static. */
const char *tdg__files_mime(const char *path);

#endif

/* SPDX-License-Identifier: MIT
 *
 * Any bytes as a text of a server that a person is to see: a terminal only shows it. It
 * gets UTF-8 without a character that does something, and what is shown once is shown the
 * same way again. The first byte of the input says into how many columns it goes. */
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "fuzz.h"
#include "safe_text.h"
#include "terminal.h"

enum { MAX_BYTES = 4096, GROWTH = 8 };

static void check_shown(const char *text, size_t len, bool lines) {
    require(tdg__utf8_is_valid(text, len));
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)text[i];

        require((c >= 0x20 && c != 0x7f) || (lines && (c == '\n' || c == '\t')));
        require(c != 0xc2 || (unsigned char)text[i + 1] >= 0xa0); /* C1 */
    }
    require(memmem(text, len, "\u202e", 3) == NULL);
    require(memmem(text, len, "\u2067", 3) == NULL);
}

static void check_plain(const char *text, size_t len, bool lines) {
    tdg__text_t shown, again;

    tdg__text_init(&shown, GROWTH * len + 1);
    tdg__text_init(&again, GROWTH * len + 1);
    cli_put_plain(&shown, text, len, lines);
    require(shown.error == 0 && shown.len >= len);
    if (shown.len > 0) {
        check_shown(shown.data, shown.len, lines);
        cli_put_plain(&again, shown.data, shown.len, lines);
        require(again.error == 0 && again.len == shown.len);
        require(memcmp(again.data, shown.data, shown.len) == 0);
    }
    tdg__text_done(&again);
    tdg__text_done(&shown);
}

static void check_cell(const char *text, int columns) {
    char *cell = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&cell, &len);

    require(out != NULL);
    cli_put_cell(out, text, columns);
    require(fclose(out) == 0);
    check_shown(cell, len, false);
    require(strlen(cell) == len && cli_columns(cell) == columns);
    free(cell);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *text;

    if (size < 1 || size > MAX_BYTES)
        return 0;
    text = malloc(size);
    require(text != NULL);
    memcpy(text, data + 1, size - 1);
    text[size - 1] = '\0';
    check_plain(text, size - 1, false);
    check_plain(text, size - 1, true);
    check_cell(text, data[0]);
    free(text);
    return 0;
}

/* SPDX-License-Identifier: MIT */
#include "terminal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

const char *const cli_colors[] = {"auto", "always", "never", NULL};

bool cli_wants_color(int when, int fd) {
    const char *no_color = getenv("NO_COLOR"), *term = getenv("TERM");

    if (when != CLI_COLOR_AUTO)
        return when == CLI_COLOR_ALWAYS;
    return isatty(fd) && (no_color == NULL || no_color[0] == '\0') && term != NULL &&
           strcmp(term, "dumb") != 0;
}

void cli_terminal_size(int fd, int *ret_columns, int *ret_lines) {
    struct winsize size;

    if (ioctl(fd, TIOCGWINSZ, &size) != 0)
        return;
    if (size.ws_col > 0)
        *ret_columns = size.ws_col;
    if (size.ws_row > 0)
        *ret_lines = size.ws_row;
}

/* Ranges of characters beyond ASCII that do something instead of showing something. */
static const struct range {
    uint32_t first, last;
} active[] = {
    {0x80, 0x9f}, /* C1: 0x9b is as good as escape and [ */
    {0x61c, 0x61c},   {0x200e, 0x200f},
    {0x2028, 0x202e}, /* line and paragraph ends, and the directions of writing */
    {0x2066, 0x2069}, {0xfeff, 0xfeff},
    {0xfff9, 0xfffb}, {0xe0000, 0xe007f}, /* tags: text that nobody sees */
};

static bool is_active(uint32_t character) {
    for (size_t i = 0; i < sizeof(active) / sizeof(active[0]); i++)
        if (character >= active[i].first && character <= active[i].last)
            return true;
    return false;
}

uint32_t cli_decode(const char *data, size_t len, size_t *ret_len) {
    static const uint32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
    const unsigned char *text = (const unsigned char *)data;
    size_t need = text[0] < 0xc0 ? 1 : text[0] < 0xe0 ? 2 : text[0] < 0xf0 ? 3 : 4;
    uint32_t character = text[0] & (0xffu >> (need + 1));

    *ret_len = 1;
    if (text[0] < 0x80)
        return text[0];
    if (text[0] < 0xc0 || text[0] > 0xf4 || need > len)
        return 0x80;
    for (size_t i = 1; i < need; i++) {
        if ((text[i] & 0xc0) != 0x80)
            return 0x80;
        character = character << 6 | (text[i] & 0x3f);
    }
    if (character < smallest[need] || character > 0x10ffff ||
        (character >= 0xd800 && character <= 0xdfff))
        return 0x80;
    *ret_len = need;
    return character;
}

void cli_put_plain(tdg__text_t *out, const char *text, size_t len, bool lines) {
    const unsigned char *at = (const unsigned char *)text;
    size_t kept = 0; /* start of what is not written yet */

    for (size_t i = 0; i < len;) {
        char shown[16];
        size_t width = 1;

        if (at[i] >= 0x20 && at[i] < 0x7f) {
            i++;
            continue;
        }
        if (at[i] < 0x80) {
            if (lines && (at[i] == '\n' || at[i] == '\t')) {
                i++;
                continue;
            }
            snprintf(shown, sizeof(shown), "^%c", at[i] ^ 0x40);
        } else {
            uint32_t character = cli_decode(text + i, len - i, &width);

            if (!is_active(character)) {
                i += width;
                continue;
            }
            if (width == 1)
                snprintf(shown, sizeof(shown), "<%02X>", at[i]);
            else
                snprintf(shown, sizeof(shown), "<U+%04X>", (unsigned)character);
        }
        if (i > kept)
            tdg__text_add(out, text + kept, i - kept);
        tdg__text_put(out, shown);
        i += width;
        kept = i;
    }
    if (len > kept)
        tdg__text_add(out, text + kept, len - kept);
}

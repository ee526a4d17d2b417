/* SPDX-License-Identifier: MIT
 *
 * Plays a run in real time. The frames go to the terminal's alternate screen, which
 * leaves the previous content unchanged, and never scroll: what does not fit is left
 * out. */
#include "demo/demo.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "command.h"
#include "terminal.h"

enum {
    FRAME_MS = 40,
    LAST_FRAME_MS =
        600, /* how long the complete picture stays before the screen goes back */
};

static volatile sig_atomic_t caught; /* the signal that wants us to end or to pause */

static void on_signal(int number) {
    caught = number;
}

/* Returns early when a signal comes. */
static void sleep_ms(int64_t ms) {
    struct timespec time = {ms / 1000, ms % 1000 * 1000000};

    if (caught == 0)
        nanosleep(&time, NULL);
}

/* Other screen, no cursor; and back. */
static void enter(void) {
    fputs("\033[?1049h\033[?25l\033[2J", stdout);
    fflush(stdout);
}

static void leave(void) {
    fputs("\033[?25h\033[?1049l", stdout);
    fflush(stdout);
}

/* Writes a text to the screen from the top, as many lines as fit. Every line wipes what
 * an older frame left behind it. */
static void show(const char *text, int lines) {
    fputs("\033[H", stdout);
    for (int line = 0; line < lines && *text != '\0'; line++) {
        size_t len = strcspn(text, "\n");

        printf("%s%.*s\033[K", line > 0 ? "\r\n" : "", (int)len, text);
        text += len + (text[len] == '\n');
    }
    fputs("\033[J", stdout);
    fflush(stdout);
}

static int count_lines(const char *text) {
    int lines = 0;

    for (; *text != '\0'; text++)
        lines += *text == '\n';
    return lines;
}

/* Draws one frame in memory first: compact if the terminal is too low otherwise. Returns
 * false when memory ran out. */
static bool draw_frame(const demo_t *demo, demo_pen_t pen, int64_t at_ms) {
    int columns = pen.width, lines = 24;
    char *text = NULL;
    size_t size;

    pen.live = true;
    cli_terminal_size(STDOUT_FILENO, &columns, &lines);
    if (columns < pen.width)
        pen.width = columns > DEMO_MIN_WIDTH ? columns : DEMO_MIN_WIDTH;

    for (int compact = 0; compact < 2; compact++) {
        pen.compact = compact != 0;
        pen.out = open_memstream(&text, &size);
        if (pen.out == NULL)
            return false;
        demo_draw(demo, &pen, at_ms);
        if (fclose(pen.out) != 0) {
            free(text);
            return false;
        }
        if (compact == 1 || count_lines(text) <= lines) {
            show(text, lines);
            free(text);
            return true;
        }
        free(text);
    }
    return true;
}

/* Gives the terminal back, sleeps until somebody continues us, and takes it again.
 * Returns how long that was. */
static int64_t pause_here(void) {
    int64_t before = cli_now_ms();

    leave();
    caught = 0;
    raise(SIGSTOP);
    enter();
    return cli_now_ms() - before;
}

static void play(const demo_t *demo, const demo_pen_t *pen) {
    int64_t start = cli_now_ms();

    for (;;) {
        int64_t at = cli_now_ms() - start;

        if (caught == SIGTSTP)
            start += pause_here();
        if (caught != 0 || ferror(stdout))
            return;
        if (!draw_frame(demo, *pen, at))
            return;
        if (at >= demo->end_ms)
            break;
        sleep_ms(FRAME_MS);
    }
    sleep_ms(LAST_FRAME_MS);
}

int demo_play(const demo_t *demo, const demo_pen_t *pen) {
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP};
    enum { SIGNALS = sizeof(signals) / sizeof(signals[0]) };
    struct sigaction action = {.sa_handler = on_signal}, before[SIGNALS];

    caught = 0;
    for (int i = 0; i < SIGNALS; i++)
        sigaction(signals[i], &action, &before[i]);

    enter();
    play(demo, pen);
    leave();

    for (int i = 0; i < SIGNALS; i++)
        sigaction(signals[i], &before[i], NULL);
    return caught;
}

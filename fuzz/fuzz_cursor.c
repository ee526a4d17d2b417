/* SPDX-License-Identifier: MIT
 *
 * Input: a cursor or event id as a client sends it. What is read is written as the same
 * text again, so each value has one text; and any numbers, taken from the same bytes, are
 * read as they were written. */
#include <string.h>

#include <tidings/error.h>

#include "fuzz.h"
#include "mcp/cursor.h"

static void check_cursor(const char *text) {
    uint64_t epoch = 1, number = 2;
    char again[TDG__CURSOR_MAX + 1];

    int rv = tdg__cursor_read(text, &epoch, &number);
    if (rv < 0) {
        require(rv == TDG_EINVAL && epoch == 1 && number == 2);
        return;
    }
    size_t len = tdg__cursor_put(again, epoch, number);
    require(len <= TDG__CURSOR_MAX);
    again[len] = '\0';
    require(strcmp(again, text) == 0);
}

static void check_event_id(const char *text) {
    tdg__event_id_t id;
    char again[TDG__EVENT_ID_MAX + 1];

    int rv = tdg__event_id_read(text, &id);
    if (rv < 0) {
        require(rv == TDG_EINVAL);
        return;
    }
    require(!id.post || (id.epoch == 0 && id.number == 0));
    size_t len = tdg__event_id_put(again, &id);
    require(len <= TDG__EVENT_ID_MAX);
    again[len] = '\0';
    require(strcmp(again, text) == 0);
}

static void check_numbers(const uint8_t *data, size_t size) {
    uint64_t numbers[4] = {0};
    char text[TDG__EVENT_ID_MAX + 1];
    tdg__event_id_t again;

    memcpy(numbers, data, size < sizeof(numbers) ? size : sizeof(numbers));
    tdg__event_id_t id = {size % 2 == 0, numbers[0], numbers[1], numbers[2], numbers[3]};
    if (id.post)
        id.epoch = id.number = 0;
    text[tdg__event_id_put(text, &id)] = '\0';
    require(tdg__event_id_read(text, &again) == 0);
    require(again.post == id.post && again.stream == id.stream &&
            again.event == id.event && again.epoch == id.epoch &&
            again.number == id.number);
    text[tdg__cursor_put(text, numbers[0], numbers[1])] = '\0';
    require(tdg__cursor_read(text, &numbers[2], &numbers[3]) == 0);
    require(numbers[2] == numbers[0] && numbers[3] == numbers[1]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *text = malloc(size + 1);

    require(text != NULL);
    memcpy(text, data, size);
    text[size] = '\0';
    check_cursor(text);
    check_event_id(text);
    check_numbers(data, size);
    free(text);
    return 0;
}

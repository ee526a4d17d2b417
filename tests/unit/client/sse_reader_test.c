/* SPDX-License-Identifier: MIT */
#include "client/transport/sse_reader.h"

#include <stdio.h>
#include <time.h>

#include "base/text.h"
#include "support.h"

enum { WIDE = 1 << 20 };

/* ---- What comes out, as text -------------------------------------------- */

/* "name|data|id;" for an event ("-" where there is no data or no id), "#;" for a comment,
 * "retry 5;" for a wish. */
struct reading {
    tdg__sse_reader_t sse;
    char seen[8192];
    size_t len, events;
    size_t stop_after; /* events; 0: never */
};

static void note(struct reading *reading, const char *data, size_t len) {
    assert_true(reading->len + len < sizeof(reading->seen));
    memcpy(reading->seen + reading->len, data, len);
    reading->len += len;
    reading->seen[reading->len] = '\0';
}

static void on_event(void *user, const tdg__sse_reader_event_t *event) {
    struct reading *reading = user;

    assert_int_equal(event->data[event->len], '\0');
    note(reading, event->name, strlen(event->name));
    note(reading, "|", 1);
    note(reading, event->has_data ? event->data : "-", event->has_data ? event->len : 1);
    note(reading, "|", 1);
    note(reading, event->id != NULL ? event->id : "-",
         event->id != NULL ? strlen(event->id) : 1);
    note(reading, ";", 1);
    if (++reading->events == reading->stop_after)
        tdg__sse_reader_stop(&reading->sse);
}

static void on_comment(void *user) {
    note(user, "#;", 2);
}

static void on_retry(void *user, uint32_t ms) {
    char text[32];

    note(user, text, (size_t)snprintf(text, sizeof(text), "retry %u;", ms));
}

static const tdg__sse_reader_calls_t calls = {on_event, on_comment, on_retry};

static void begin(struct reading *reading, size_t max_bytes) {
    memset(reading, 0, sizeof(*reading));
    tdg__sse_reader_init(&reading->sse, max_bytes, &calls, reading);
}

/* Feeds a copy, so that reading behind it is noticed. */
static int feed(struct reading *reading, const char *bytes, size_t len) {
    char *copy = malloc(len > 0 ? len : 1);
    int rv;

    assert_non_null(copy);
    memcpy(copy, bytes, len);
    rv = tdg__sse_reader_feed(&reading->sse, copy, len);
    free(copy);
    return rv;
}

/* ---- Streams ------------------------------------------------------------ */

#define TEXT(literal) (literal), sizeof(literal) - 1

static const struct stream {
    const char *bytes;
    size_t len;
    const char *seen;
} streams[] = {
    {TEXT("data: a\n\n"), "message|a|-;"},
    {TEXT("data:a\n\n"), "message|a|-;"},
    {TEXT("data:  a\n\n"), "message| a|-;"},
    {TEXT("data: a\ndata: b\ndata\ndata: c\n\n"), "message|a\nb\n\nc|-;"},
    {TEXT("data\n\n"), "message||-;"},
    {TEXT("data:\n\n"), "message||-;"},
    {TEXT("data\ndata\n\n"), "message|\n|-;"},
    {TEXT("event: x\ndata: a\n\ndata: b\n\n"), "x|a|-;message|b|-;"},
    {TEXT("event: x\nevent: y\ndata: a\n\n"), "y|a|-;"},
    {TEXT("event: x\nevent:\ndata: a\n\n"), "message|a|-;"},
    {TEXT("event: x\nevent: \0\ndata: a\n\n"), "x|a|-;"},
    {TEXT("event: x\n\ndata: a\n\n"), "message|a|-;"},
    {TEXT("id: 7\n\ndata: a\n\n"), "message|-|7;message|a|7;"},
    {TEXT("id: 7\ndata: a\n\nid\ndata: b\n\n"), "message|a|7;message|b|;"},
    {TEXT("id: 7\nid: 8\ndata: a\n\n"), "message|a|8;"},
    {TEXT("id: a\0b\ndata: a\n\n"), "message|a|-;"},
    {TEXT("id: 1\nid: a\0b\ndata: a\n\n"), "message|a|1;"},
    {TEXT(": hello\n\n:\n"), "#;#;"},
    {TEXT("data: a\n: x\ndata: b\n\n"), "#;message|a\nb|-;"},
    {TEXT("retry: 5\n\n"), "retry 5;"},
    {TEXT("retry: 005\nretry\nretry:\nretry: 5 \n"), "retry 5;"},
    {TEXT("retry: -5\nretry: 5x\nretry: 1.5\n"), ""},
    {TEXT("retry: 99999999999999999999999999999\n\n"), "retry 4294967295;"},
    {TEXT("Data: a\ndatax: a\ndat: a\n data: a\n\n"), ""},
    {TEXT("data : a\n\n"), ""},
    {TEXT("data: a\r\n\r\ndata: b\r\n\r\n"), "message|a|-;message|b|-;"},
    {TEXT("data: a\r\rdata: b\r\r"), "message|a|-;message|b|-;"},
    {TEXT("data: a\r\n\rdata: b\n\r\n"), "message|a|-;message|b|-;"},
    {TEXT("data: a\rdata: b\r\ndata: c\n\r"), "message|a\nb\nc|-;"},
    {TEXT("\n\r\r\n\n\ndata: a\n\n\n\n"), "message|a|-;"},
    {TEXT("\xef\xbb\xbf"
          "data: a\n\n"),
     "message|a|-;"},
    {TEXT("\xef\xbb\xbf\xef\xbb\xbf"
          "data: a\n\n"),
     ""},
    {TEXT("\xef\xbb\xbf\ndata: a\n\n"), "message|a|-;"},
    {TEXT("\n\xef\xbb\xbf"
          "data: a\n\ndata: b\n\n"),
     "message|b|-;"},
    {TEXT("\xef\xbb"
          "data: a\n\ndata: b\n\n"),
     "message|b|-;"},
    {TEXT("data: a:b: c\n\n"), "message|a:b: c|-;"},
    {TEXT("data: a\0b\n\n"), "message|a\0b|-;"},
    {TEXT("data: a\n\ndata: cut off"), "message|a|-;"},
    {TEXT("data: a\n\ndata: cut off\n"), "message|a|-;"},
    {TEXT("id: 3\ndata: x"), ""},
    {TEXT(""), ""},
    {TEXT("event: message\nid: e-1\nretry: 10\n"
          "data: {\"jsonrpc\":\"2.0\"}\n\n: ping\n\n"),
     "retry 10;message|{\"jsonrpc\":\"2.0\"}|e-1;#;"},
};

static void assert_stream(const struct stream *stream, size_t first, size_t second) {
    struct reading reading;

    begin(&reading, WIDE);
    assert_int_equal(feed(&reading, stream->bytes, first), 0);
    assert_int_equal(feed(&reading, stream->bytes + first, second - first), 0);
    assert_int_equal(feed(&reading, stream->bytes + second, stream->len - second), 0);
    if (strcmp(reading.seen, stream->seen) != 0)
        fail_msg("\"%s\" cut at %zu and %zu gives \"%s\", not \"%s\"", stream->bytes,
                 first, second, reading.seen, stream->seen);
    tdg__sse_reader_done(&reading.sse);
}

static void events_are_the_same_wherever_the_stream_is_cut(void **state) {
    (void)state;
    for (size_t i = 0; i < COUNT(streams); i++)
        for (size_t first = 0; first <= streams[i].len; first++)
            for (size_t second = first; second <= streams[i].len; second++)
                assert_stream(&streams[i], first, second);
}

static void events_are_the_same_byte_by_byte(void **state) {
    (void)state;
    for (size_t i = 0; i < COUNT(streams); i++) {
        struct reading reading;

        begin(&reading, WIDE);
        for (size_t k = 0; k < streams[i].len; k++)
            assert_int_equal(feed(&reading, streams[i].bytes + k, 1), 0);
        assert_string_equal(reading.seen, streams[i].seen);
        tdg__sse_reader_done(&reading.sse);
    }
}

static void calls_that_nobody_wants_are_not_made(void **state) {
    static const tdg__sse_reader_calls_t few = {.event = on_event};
    struct reading reading;

    (void)state;
    begin(&reading, WIDE);
    reading.sse.calls = few;
    assert_int_equal(feed(&reading, TEXT(": c\nretry: 5\ndata: a\n\n")), 0);
    assert_string_equal(reading.seen, "message|a|-;");
    tdg__sse_reader_done(&reading.sse);
}

/* ---- Limits ------------------------------------------------------------- */

static void the_limit_of_an_event_is_exact(void **state) {
    static const struct {
        const char *bytes;
        size_t len;
        int rv;
    } cases[] = {
        {TEXT("data: 12345678\n\n"), 0},
        {TEXT("data: 1234\ndata: 678\n\n"), 0},
        {TEXT("data: 123456789\n\n"), TDG_ETOOLARGE},
        {TEXT("data: 1234\ndata: 6789\n\n"), TDG_ETOOLARGE},
        {TEXT("data: 12345678\ndata\n\n"), TDG_ETOOLARGE},
        {TEXT("data: 12345678\n\ndata: 12345678\n\n"), 0},
        {TEXT("data\ndata\ndata\ndata\ndata\ndata\ndata\ndata\ndata\n\n"), 0},
        {TEXT("data\ndata\ndata\ndata\ndata\ndata\ndata\ndata\ndata\ndata\n\n"),
         TDG_ETOOLARGE},
        {TEXT(": 0123456789012345678901234567890123456789\n\n"), TDG_ETOOLARGE},
        {TEXT(": 0123456789012345678901234567890123456789"), TDG_ETOOLARGE},
        {TEXT("x0123456789012345678901234567890123456789"), TDG_ETOOLARGE},
        {TEXT(": 01234567\n: 01234567\n: 01234567\n"), 0},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++)
        for (size_t cut = 0; cut <= cases[i].len; cut++) {
            struct reading reading;

            begin(&reading, 8);
            feed(&reading, cases[i].bytes, cut);
            if (feed(&reading, cases[i].bytes + cut, cases[i].len - cut) != cases[i].rv)
                fail_msg("%s cut at %zu", cases[i].bytes, cut);
            tdg__sse_reader_done(&reading.sse);
        }
}

static void nothing_is_read_after_a_failure(void **state) {
    struct reading reading;

    (void)state;
    begin(&reading, 8);
    assert_int_equal(feed(&reading, TEXT("data: a\n\ndata: 123456789\n\ndata: b\n\n")),
                     TDG_ETOOLARGE);
    assert_int_equal(feed(&reading, TEXT("\n\ndata: c\n\n")), TDG_ETOOLARGE);
    assert_int_equal(feed(&reading, TEXT("")), TDG_ETOOLARGE);
    assert_string_equal(reading.seen, "message|a|-;");
    tdg__sse_reader_done(&reading.sse);
}

static void ids_that_are_too_long_are_ignored(void **state) {
    char stream[TDG__SSE_MAX_ID * 2 + 64], id[TDG__SSE_MAX_ID + 2];
    struct reading reading;

    (void)state;
    memset(id, 'i', sizeof(id));
    id[TDG__SSE_MAX_ID + 1] = '\0';
    snprintf(stream, sizeof(stream), "id: a\ndata: x\n\nid: %s\ndata: y\n\n", id);
    begin(&reading, WIDE);
    assert_int_equal(feed(&reading, stream, strlen(stream)), 0);
    assert_string_equal(reading.seen, "message|x|a;message|y|a;");
    snprintf(stream, sizeof(stream), "id: %s\ndata: z\n\n", id + 1);
    assert_int_equal(feed(&reading, stream, strlen(stream)), 0);
    assert_non_null(strstr(reading.seen, id + 1));
    tdg__sse_reader_done(&reading.sse);
}

/* ---- Stopping, memory, speed -------------------------------------------- */

static void stopping_inside_a_call_ignores_all_the_rest(void **state) {
    const char *stream = "data: a\n\ndata: b\n\ndata: c\n\n";

    (void)state;
    for (size_t cut = 0; cut <= strlen(stream); cut++) {
        struct reading reading;

        begin(&reading, WIDE);
        reading.stop_after = 2;
        assert_int_equal(feed(&reading, stream, cut), 0);
        assert_int_equal(feed(&reading, stream + cut, strlen(stream) - cut), 0);
        assert_int_equal(feed(&reading, TEXT("data: d\n\n")), 0);
        assert_string_equal(reading.seen, "message|a|-;message|b|-;");
        tdg__sse_reader_done(&reading.sse);
    }
}

static void failing_allocations_end_the_reading_and_leak_nothing(void **state) {
    const char *stream = "id: 1\nevent: e\ndata: abc\ndata: def\n\nid: 2\ndata: g\n\n";
    bool failed = true;

    (void)state;
    for (size_t nth = 1; failed; nth++)
        for (size_t cut = 0; cut <= strlen(stream); cut++) {
            struct reading reading;
            int rv;

            begin(&reading, WIDE);
            memory_fail(nth, MEMORY_ONCE);
            feed(&reading, stream, cut);
            rv = feed(&reading, stream + cut, strlen(stream) - cut);
            failed = memory_failed();
            assert_int_equal(rv, failed ? TDG_ENOMEM : 0);
            if (!failed)
                assert_string_equal(reading.seen, "e|abc\ndef|1;message|g|2;");
            memory_fail(0, MEMORY_ONCE);
            tdg__sse_reader_done(&reading.sse);
        }
}

static void count_event(void *user, const tdg__sse_reader_event_t *event) {
    *(size_t *)user += event->len;
}

static void large_data_is_not_kept_after_its_event(void **state) {
    enum { LEN = 500000 };
    char *large = malloc(LEN);
    size_t total = 0;
    tdg__sse_reader_t sse;

    (void)state;
    memset(large, 'x', LEN);
    memcpy(large, "data: ", 6);
    memcpy(large + LEN - 2, "\n\n", 2);
    tdg__sse_reader_init(&sse, WIDE, &(tdg__sse_reader_calls_t){.event = count_event},
                         &total);
    for (size_t cut = 0; cut < LEN; cut += LEN / 2) {
        total = 0;
        assert_int_equal(tdg__sse_reader_feed(&sse, large, cut), 0);
        assert_int_equal(tdg__sse_reader_feed(&sse, large + cut, LEN - cut), 0);
        assert_int_equal(total, LEN - 8);
        assert_in_range(sse.data.room + sse.line.room, 0, 256 * 1024);
    }
    tdg__sse_reader_done(&sse);
    free(large);
}

/* Small events, in one piece and with line ends that only one of the searches finds:
 * looking for the other must not go through the whole rest each time. */
static void a_long_stream_of_small_events_is_cheap(void **state) {
    static const char *const events[] = {"data: {\"a\":1}\n\n", "data: {\"a\":1}\r\r",
                                         "data: {\"a\":1}\r\n\r\n"};
    enum { BYTES = 10 << 20 };
    char *stream = malloc(BYTES + 64);

    (void)state;
    for (size_t i = 0; i < COUNT(events); i++) {
        const tdg__sse_reader_calls_t counting = {.event = count_event};
        size_t len = 0, total = 0, step = strlen(events[i]), work;
        clock_t from = clock();
        tdg__sse_reader_t sse;

        while (len < BYTES) {
            memcpy(stream + len, events[i], step);
            len += step;
        }
        tdg__sse_reader_init(&sse, WIDE, &counting, &total);
        work = memory_calls();
        assert_int_equal(tdg__sse_reader_feed(&sse, stream, len), 0);
        assert_int_equal(total, len / step * strlen("{\"a\":1}"));
        assert_true(memory_calls() - work < 10);
        tdg__sse_reader_done(&sse);
        /* Takes 0.1 s here, and with a search too many, minutes. */
        assert_true(clock() - from < (clock_t)20 * CLOCKS_PER_SEC);
    }
    free(stream);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, memory_setup, memory_teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(events_are_the_same_wherever_the_stream_is_cut),
        TEST(events_are_the_same_byte_by_byte),
        TEST(calls_that_nobody_wants_are_not_made),
        TEST(the_limit_of_an_event_is_exact),
        TEST(nothing_is_read_after_a_failure),
        TEST(ids_that_are_too_long_are_ignored),
        TEST(stopping_inside_a_call_ignores_all_the_rest),
        TEST(failing_allocations_end_the_reading_and_leak_nothing),
        TEST(large_data_is_not_kept_after_its_event),
        TEST(a_long_stream_of_small_events_is_cheap),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("sse", tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT */
#include "unit/source/http_page.h"

#include <stdio.h>
#include <time.h>

#include "support.h"

int page_setup(void **state) {
    struct fixture *f = calloc(1, sizeof(*f));

    f->server = http_server_start();
    f->other = http_server_start();
    *state = f;
    return 0;
}

int page_teardown(void **state) {
    struct fixture *f = *state;

    if (f->is_open)
        harness_close(&f->harness);
    http_server_stop(f->server);
    http_server_stop(f->other);
    free(f);
    return 0;
}

void page_open_yaml(struct fixture *f, const char *yaml) {
    harness_open(&f->harness, yaml);
    f->is_open = true;
}

void page_open(struct fixture *f, const char *more) {
    char yaml[2048];

    snprintf(yaml, sizeof(yaml), "http: http://127.0.0.1:%d/page\nuri: " PAGE "\n%s",
             http_server_port(f->server), more);
    page_open_yaml(f, yaml);
}

void page_close(struct fixture *f) {
    harness_close(&f->harness);
    f->is_open = false;
}

void page_set(struct fixture *f, struct page page) {
    http_server_set(f->server, "/page", &page);
}

void page_expect_failure(struct fixture *f, int status, const char *error) {
    struct reading reading = harness_read(&f->harness, PAGE);

    printf("# %d: %s\n", reading.status, reading.error);
    assert_int_equal(reading.status, status);
    assert_non_null(reading.error);
    assert_non_null(strstr(reading.error, error));
    reading_done(&reading);
}

/* ---- Waiting for what the server sees ----------------------------------- */

struct awaited {
    http_server_t *server;
    const char *path;
    size_t count;
    bool (*is_true)(struct awaited *awaited);
};

static bool holds(void *arg) {
    struct awaited *awaited = arg;

    return awaited->is_true(awaited);
}

static void await(struct fixture *f, struct awaited awaited) {
    harness_ask_until(&f->harness, holds, &awaited);
}

static bool was_asked(struct awaited *awaited) {
    return http_server_count(awaited->server, awaited->path) >= awaited->count;
}

static bool has_open(struct awaited *awaited) {
    return http_server_open(awaited->server) == awaited->count;
}

void page_wait_asked(struct fixture *f, size_t count) {
    await(f, (struct awaited){f->server, "/page", count, was_asked});
}

void page_wait_open(struct fixture *f, size_t count) {
    await(f, (struct awaited){f->server, NULL, count, has_open});
}

static bool has_passed(struct awaited *awaited) {
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);

    size_t ms = (size_t)now.tv_sec * 1000 + (size_t)now.tv_nsec / 1000000;

    if (awaited->path == NULL) {
        awaited->path = "begun";
        awaited->count += ms;
    }
    return ms >= awaited->count;
}

void page_run_for(struct fixture *f, size_t ms) {
    await(f, (struct awaited){NULL, NULL, ms, has_passed});
}

bool page_asked_with(struct fixture *f, size_t n, const char *text) {
    char *request = http_server_request(f->server, "/page", n);
    bool has = strstr(request, text) != NULL;

    free(request);
    return has;
}

/* SPDX-License-Identifier: MIT
 *
 * What the tests of the http source share: two servers, and a source `it://page` that
 * asks the first for /page. */
#ifndef TDG_TESTS_SOURCE_HTTP_PAGE_H
#define TDG_TESTS_SOURCE_HTTP_PAGE_H

#include "unit/source/harness.h"
#include "unit/source/http_server.h"

#define PAGE "it://page"

struct fixture {
    http_server_t *server, *other;
    struct harness harness;
    bool is_open;
};

int page_setup(void **state);
int page_teardown(void **state);

/* Opens the source with further options, or one of its own; closes it before its time. */
void page_open(struct fixture *f, const char *more);
void page_open_yaml(struct fixture *f, const char *yaml);
void page_close(struct fixture *f);

/* What /page answers from now on. */
void page_set(struct fixture *f, struct page page);

/* Reads it and expects this failure, with an error that contains the text. */
void page_expect_failure(struct fixture *f, int status, const char *error);

/* Runs the loop until /page was asked for so often; until so many connections are open;
 * for so long: for what must not happen. */
void page_wait_asked(struct fixture *f, size_t count);
void page_wait_open(struct fixture *f, size_t count);
void page_run_for(struct fixture *f, size_t ms);

/* Whether the n-th request for /page contains the text. */
bool page_asked_with(struct fixture *f, size_t n, const char *text);

#define PAGE_TEST(name) cmocka_unit_test_setup_teardown(name, page_setup, page_teardown)

#endif

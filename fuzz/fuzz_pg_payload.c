/* SPDX-License-Identifier: MIT
 *
 * Input: the payload of a PostgreSQL notification, which anybody with a login may send.
 * Where it names a row, its URI is one that the template of the config matches, as long
 * as a URI may be, and holds the values of the key in their places. */
#include <string.h>

#include <tidings/error.h>

#include "base/uri.h"
#include "fuzz.h"
#include "source/postgres/pg_plan.h"

enum { MAX_BYTES = 16 * 1024, PLANS = 3 };

static char id[] = "id", region[] = "region";
static char *const one_key[] = {id, NULL};
static char *const two_keys[] = {region, id, NULL};

static const tdg__pg_entry_t entries[PLANS] = {
    {.uri = "pg://l/{id}", .table = "lines", .keys = one_key, .max_rows = 5},
    {.uri = "pg://l/{region}/{id}", .table = "lines", .keys = two_keys, .max_rows = 5},
    {.uri = "pg://lines", .table = "lines", .keys = one_key, .max_rows = 5},
};

static tdg__pg_plan_t plans[PLANS];

static void make_plans(void) {
    static const tdg__node_t nowhere = {.kind = TDG__NODE_MAP};
    tdg__problems_t problems;

    tdg__problems_init(&problems, "fuzz.yaml");
    for (size_t i = 0; i < PLANS; i++)
        require(tdg__pg_plan_init(&plans[i], &entries[i], &nowhere, &problems) == 0);
    tdg__problems_done(&problems);
}

static void check_uri(const tdg__pg_plan_t *plan, const tdg__text_t *uri) {
    tdg__template_value_t values[TDG__TEMPLATE_MAX_NAMES];
    size_t count;

    require(plan->template_ != NULL && uri->error == 0);
    require(strlen(uri->data) == uri->len);
    require(tdg__uri_check(uri->data, uri->len, NULL) == 0);
    require(tdg__template_extract(plan->template_, uri->data, uri->len, values, &count));
    require(count == plan->variable_count);
    for (size_t i = 0; i < count; i++)
        require(values[i].len > 0 && memchr(values[i].text, '/', values[i].len) == NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char payload[MAX_BYTES + 1];
    tdg__pg_op_t op;
    tdg__text_t uri;

    if (size > MAX_BYTES)
        return 0;
    if (plans[0].read == NULL)
        make_plans();
    memcpy(payload, data, size);
    payload[size] = '\0';
    for (size_t i = 0; i < PLANS; i++) {
        tdg__text_init(&uri, 64 * 1024);
        int rv = tdg__pg_plan_payload(&plans[i], payload, &op, &uri);
        require(rv == 0 || rv == TDG_ENOTFOUND);
        require(op >= TDG__PG_NO_OP && op <= TDG__PG_DDL);
        require(op == TDG__PG_NO_OP || payload[0] == '{');
        if (rv == 0)
            check_uri(&plans[i], &uri);
        tdg__text_done(&uri);
    }
    return 0;
}

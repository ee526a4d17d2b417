/* SPDX-License-Identifier: MIT */
#include <arpa/inet.h>
#include <netinet/in.h>

#include "source/postgres/pg_params.h"
#include "source/postgres/pg_plan.h"
#include "support.h"

static const tdg__node_t nowhere = {.kind = TDG__NODE_MAP};

static int make(tdg__pg_plan_t *plan, const tdg__pg_entry_t *entry) {
    tdg__problems_t problems;
    int rv;

    tdg__problems_init(&problems, "test.yaml");
    rv = tdg__pg_plan_init(plan, entry, &nowhere, &problems);
    tdg__problems_done(&problems);
    return rv;
}

static char order[] = "order";
static char *const one_key[] = {order, NULL};
static char quoted_no[] = "\"No\"";
static char *const two_keys[] = {order, quoted_no, NULL};

static void a_table_becomes_sql(void **state) {
    tdg__pg_entry_t entry = {.uri = "pg://l/{order}/{No}",
                             .table = "Shop.lines",
                             .keys = two_keys,
                             .max_rows = 5};
    tdg__pg_plan_t plan;

    (void)state;
    assert_int_equal(make(&plan, &entry), 0);
    assert_true(plan.one);
    assert_string_equal(
        plan.read,
        "SELECT tidings__row.*, md5(CAST(tidings__row AS text)) FROM \"shop\".\"lines\" "
        "AS tidings__row WHERE tidings__row.\"order\" = $1 AND "
        "CAST(tidings__row.\"order\" AS text) = $2 AND tidings__row.\"No\" = $3 AND "
        "CAST(tidings__row.\"No\" AS text) = $4 ORDER BY tidings__row.\"order\", "
        "tidings__row.\"No\" LIMIT 6");
    assert_string_equal(
        plan.snapshot,
        "SELECT CAST(tidings__row.\"order\" AS text), CAST(tidings__row.\"No\" AS text), "
        "md5(CAST(tidings__row AS text)) FROM \"shop\".\"lines\" AS tidings__row");
    assert_string_equal(plan.listen, "LISTEN \"tidings_shop_lines\"");
    tdg__pg_plan_done(&plan);
}

static const struct {
    const char *payload, *uri; /* NULL: none */
    tdg__pg_op_t op;
} payloads[] = {
    {"7", "pg://l/7", TDG__PG_NO_OP},
    {"a/b", "pg://l/a%2Fb", TDG__PG_NO_OP},
    {"{\"op\":\"UPDATE\",\"key\":{\"order\":\"7\"}}", "pg://l/7", TDG__PG_UPDATE},
    {"{\"op\":\"DELETE\",\"key\":{\"order\":-7}}", "pg://l/-7", TDG__PG_DELETE},
    {"{\"key\":{\"order\":true,\"more\":1}}", "pg://l/true", TDG__PG_NO_OP},
    {"{\"op\":\"TRUNCATE\"}", NULL, TDG__PG_TRUNCATE},
    {"{\"op\":\"INSERT\",\"key\":{\"order\":null}}", NULL, TDG__PG_INSERT},
    {"{\"op\":5,\"key\":{\"order\":\"\"}}", NULL, TDG__PG_NO_OP},
    {"{\"key\":{\"order\":1.5}}", NULL, TDG__PG_NO_OP},
    {"{\"key\":{\"other\":1}}", NULL, TDG__PG_NO_OP},
    {"{\"key\":7}", NULL, TDG__PG_NO_OP},
    {"{\"op\":\"DDL\"}", NULL, TDG__PG_DDL},
    {"{}", NULL, TDG__PG_NO_OP},
    {"", NULL, TDG__PG_NO_OP},
    {"{not json", "pg://l/%7Bnot%20json", TDG__PG_NO_OP},
    {"{\"key\":{\"order\":99999999999999999999}}", NULL, TDG__PG_NO_OP},
    {"{\"key\":{\"order\":7},\"row\":[[[[[[[[[0]]]]]]]]]}", NULL, TDG__PG_NO_OP},
};

static void a_payload_names_a_uri(void **state) {
    tdg__pg_entry_t entry = {
        .uri = "pg://l/{id}", .table = "lines", .keys = one_key, .max_rows = 5};
    tdg__pg_plan_t plan;
    tdg__text_t uri;

    (void)state;
    assert_int_equal(make(&plan, &entry), 0);
    tdg__text_init(&uri, 10000);
    for (size_t i = 0; i < COUNT(payloads); i++) {
        tdg__pg_op_t op;
        int rv;

        tdg__text_clear(&uri);
        rv = tdg__pg_plan_payload(&plan, payloads[i].payload, &op, &uri);
        assert_int_equal(rv, payloads[i].uri != NULL ? 0 : TDG_ENOTFOUND);
        assert_int_equal(op, payloads[i].op);
        if (rv == 0)
            assert_string_equal(uri.data, payloads[i].uri);
    }
    tdg__text_done(&uri);
    tdg__pg_plan_done(&plan);
}

static void failing_memory_is_reported(void **state) {
    tdg__pg_entry_t entries[] = {
        {.uri = "pg://l/{order}", .table = "t", .keys = one_key, .max_rows = 5},
        {.uri = "pg://l/{x}", .query = "SELECT :x", .channel = "c", .max_rows = 5},
    };
    tdg__pg_plan_t plan;

    (void)state;
    for (size_t i = 0; i < COUNT(entries); i++) {
        int rv = TDG_ENOMEM;

        for (size_t nth = 1; rv != 0; nth++) {
            memory_fail(nth, MEMORY_FROM_THEN_ON);
            rv = make(&plan, &entries[i]);
            memory_fail(0, MEMORY_ONCE);
            assert_true(rv == 0 || rv == TDG_ENOMEM);
            tdg__pg_plan_done(&plan);
        }
    }
}

/* ---- Connection strings ------------------------------------------------- */

static const char *param(const tdg__pg_params_t *params, const char *keyword) {
    for (size_t i = 0; i < params->count; i++)
        if (strcmp(params->keywords[i], keyword) == 0)
            return params->values[i];
    return NULL;
}

static void what_we_need_is_added(void **state) {
    tdg__pg_params_t params;

    (void)state;
    assert_int_equal(
        tdg__pg_params_init(&params, "host=/run user=u options='-c a=b'", 2500), 0);
    tdg__pg_params_finish(&params);
    assert_string_equal(param(&params, "user"), "u");
    assert_string_equal(param(&params, "application_name"), "tidings");
    assert_string_equal(param(&params, "client_encoding"), "UTF8");
    assert_string_equal(param(&params, "tcp_user_timeout"), "30000");
    assert_non_null(strstr(param(&params, "options"), "-c a=b -c "));
    assert_non_null(
        strstr(param(&params, "options"), "-c default_transaction_read_only=on"));
    assert_non_null(strstr(param(&params, "options"), "-c statement_timeout=2500"));
    tdg__pg_params_done(&params);

    assert_int_equal(tdg__pg_params_init(&params, "application_name=x keepalives=0", 1),
                     0);
    tdg__pg_params_finish(&params);
    assert_string_equal(param(&params, "application_name"), "x");
    assert_string_equal(param(&params, "keepalives"), "0");
    tdg__pg_params_done(&params);
}

static void each_address_keeps_its_name_and_port(void **state) {
    struct sockaddr_in v4 = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6,
                              .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    tdg__pg_params_t params;

    (void)state;
    assert_int_equal(
        tdg__pg_params_init(&params, "postgresql://u@a.example:1,10.0.0.1:2/db", 1000),
        0);
    assert_int_equal(params.host_count, 2);
    assert_true(tdg__pg_params_wants(&params, 0));
    assert_false(tdg__pg_params_wants(&params, 1));
    for (int round = 0; round < 2; round++) {
        tdg__pg_params_forget(&params);
        tdg__pg_params_add(&params, 0, (struct sockaddr *)&v4);
        tdg__pg_params_add(&params, 0, (struct sockaddr *)&v6);
        tdg__pg_params_add(&params, 1, NULL);
        tdg__pg_params_finish(&params);
        assert_string_equal(param(&params, "host"), "a.example,a.example,10.0.0.1");
        assert_string_equal(param(&params, "hostaddr"), "127.0.0.1,::1,");
        assert_string_equal(param(&params, "port"), "1,1,2");
    }
    tdg__pg_params_done(&params);
}

static void what_is_no_connection_string_is_refused(void **state) {
    static const char *const wrong[] = {"nonsense", "postgresql://[::1", "user='x",
                                        "host=a,b port=1,2,3"};
    tdg__pg_params_t params;

    (void)state;
    for (size_t i = 0; i < COUNT(wrong); i++)
        assert_int_equal(tdg__pg_params_init(&params, wrong[i], 1000), TDG_EINVAL);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, memory_setup, memory_teardown)
    const struct CMUnitTest tests[] = {
        TEST(a_table_becomes_sql),
        TEST(a_payload_names_a_uri),
        TEST(failing_memory_is_reported),
        TEST(what_we_need_is_added),
        TEST(each_address_keeps_its_name_and_port),
        TEST(what_is_no_connection_string_is_refused),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("pg_plan", tests, NULL, NULL);
}

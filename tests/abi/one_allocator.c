/* SPDX-License-Identifier: MIT
 *
 * Server, client and sources in one process: all three take their memory from the
 * allocator that was set once, and give all of it back. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tidings/tidings.h>

static atomic_long live, calls;

static void *count_malloc(size_t size) {
    void *ptr = malloc(size);

    atomic_fetch_add(&calls, 1);
    if (ptr != NULL)
        atomic_fetch_add(&live, 1);
    return ptr;
}

static void *count_realloc(void *ptr, size_t size) {
    if (ptr == NULL)
        return count_malloc(size);
    atomic_fetch_add(&calls, 1);
    return realloc(ptr, size);
}

static void count_free(void *ptr) {
    if (ptr != NULL)
        atomic_fetch_sub(&live, 1);
    free(ptr);
}

static void read_it(void *user, tdg_request_t *request, const char *uri) {
    (void)user, (void)uri;
    tdg_request_reply_text(request, "12:00");
}

/* Whether memory was asked for since `before`. */
static int used(const char *what, long before) {
    long asked = atomic_load(&calls) - before;

    printf("%s: %ld allocations\n", what, asked);
    return asked > 0;
}

static int connect_and_read(uint16_t port) {
    char url[64];
    tdg_client_opts_t opts = {.url = url};
    tdg_client_t *client;
    json_t *result;

    snprintf(url, sizeof(url), "http://127.0.0.1:%u/mcp", (unsigned)port);
    if (tdg_client_connect(&opts, &client, NULL) < 0)
        return 0;

    int rv = tdg_client_read(client, "clock://now", &result, NULL);
    if (rv == 0)
        json_decref(result);
    tdg_client_close(client);
    return rv == 0;
}

static int serve_and_connect(void) {
    const tdg_resource_t now = {.uri = "clock://now", .name = "now", .read = read_it};
    const tdg_listen_opts_t http = {.port = 0};
    tdg_server_t *server;
    long before = atomic_load(&calls);
    int ok;

    if (tdg_server_create(NULL, &server) < 0)
        return 0;
    ok = tdg_server_add_resource(server, &now) == 0 &&
         tdg_server_listen(server, &http) == 0 && tdg_server_start(server) == 0 &&
         used("server", before);
    before = atomic_load(&calls);
    ok = ok && connect_and_read(tdg_server_port(server, 0)) && used("client", before);
    tdg_server_destroy(server);
    return ok;
}

/* A config that does not exist is read, reported, and forgotten. */
static int serve_nothing(void) {
    const tdg_sources_opts_t opts = {.config_file = "/nonexistent/tidings.yaml"};
    long before = atomic_load(&calls);

    return tdg_sources_serve(&opts) < 0 && used("sources", before);
}

int main(void) {
    static const tdg_allocator_t counting = {count_malloc, count_realloc, count_free};

    if (tdg_set_allocator(&counting) < 0 || !serve_and_connect() || !serve_nothing())
        return 1;
    printf("%ld blocks are left\n", atomic_load(&live));
    return atomic_load(&live) == 0 ? 0 : 1;
}

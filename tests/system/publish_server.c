/* SPDX-License-Identifier: MIT
 *
 * A server that can be published to, for publish_test.sh: prints its port, then what it
 * is told to keep; ends with its input. Its key is the first argument; without one,
 * publishing is off. With "hang" as the second it never answers. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <tidings/tidings.h>

#include "server/http/publish.h"

static bool hangs;
static void (*hung)(void *arg, bool here); /* one at most */
static void *hung_arg;

static void enter(void *user, void (*work)(void *arg, bool here), void *arg) {
    (void)user;
    if (!hangs) {
        work(arg, true);
        return;
    }
    hung = work;
    hung_arg = arg;
}

static int check(void *user, tdg__publish_item_t *item, char why[160]) {
    (void)user;
    if (item->content == NULL || strncmp(item->uri, "memory:", 7) == 0)
        return 0;
    snprintf(why, 160, "content can be published for memory: only");
    return TDG_ENOTFOUND;
}

static void commit(void *user, tdg__publish_item_t *item) {
    (void)user;
    if (item->content != NULL) {
        printf("kept %s as %s: ", item->uri,
               item->mime_type != NULL ? item->mime_type : "nothing");
        for (size_t i = 0; i < item->content_len; i++)
            printf("%02x", (unsigned char)item->content[i]);
    } else {
        printf("heard of %s", item->uri);
    }
    if (item->metadata != NULL) {
        printf(" with ");
        json_dumpf(item->metadata, stdout, JSON_COMPACT);
    }
    printf("%s\n", item->deleted ? ", deleted" : "");
    fflush(stdout);
}

static void abandon(void *user, tdg__publish_item_t *item) {
    (void)user, (void)item;
}

int main(int argc, char **argv) {
    const tdg_server_opts_t opts = {.workers = 2};
    const tdg_listen_opts_t http = {.port = 0};
    const tdg__publish_store_t store = {enter, check, commit, abandon, NULL};
    const char *keys[] = {argc > 1 ? argv[1] : NULL, NULL};
    const tdg__publish_opts_t publish = {.keys = keys, .store = &store};
    tdg_server_t *server;
    char byte;

    hangs = argc > 2 && strcmp(argv[2], "hang") == 0;
    if (tdg_server_create(&opts, &server) < 0 || tdg_server_listen(server, &http) < 0 ||
        tdg__server_enable_publish(server, &publish) < 0 || tdg_server_start(server) < 0)
        return 1;
    printf("%u\n", tdg_server_port(server, 0));
    fflush(stdout);
    while (read(STDIN_FILENO, &byte, 1) > 0)
        ;
    tdg_server_stop(server);
    if (hung != NULL)
        hung(hung_arg, false);
    tdg_server_destroy(server);
    return 0;
}

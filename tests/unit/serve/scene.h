/* SPDX-License-Identifier: MIT
 *
 * Sources on the loop of the test, bound to a server that clients call over sockets: as
 * `tidings serve` has it, but for two kinds of sources that do as they are told. Clients
 * of the scene run the loop while they wait. */
#ifndef TDG_TESTS_SERVE_SCENE_H
#define TDG_TESTS_SERVE_SCENE_H

#include "serve/live.h"
#include "unit/server/client.h"

enum { MAX_WAITING = 16 };

/* `script: TEXT` holds the text, "gone" nothing, until the test says otherwise; changes
 * are noticed when the test touches it. "slow" is never done with beginning to watch,
 * unless the test does that; "full" refuses to watch until the test sets `accepts`, and
 * "unable" always.
 * `lister: TEXT` is the same, and lists what the test says; it is ready when the text is
 * not "later". */
struct script {
    tdg__source_t source;
    char *text;        /* what it holds; owned by the options */
    const char *holds; /* instead of that; NULL: nothing is there */
    bool manual;       /* fetches wait until they are cancelled */
    bool accepts;      /* it is not "full" any more */
    tdg__fetch_t *waiting[MAX_WAITING];
    size_t waiting_count;
    char watched[256]; /* the last target, "" after its end */
    unsigned watches, unwatches;
};

struct scene {
    uv_loop_t loop;
    tdg__live_t *live;
    tdg_server_t *server;
    uint16_t port;
    bool attached; /* the server is on the loop, too: one thread in all */
    unsigned ready, opened, closing;
    bool closed;
    char log[8192]; /* all lines */
};

/* Serves the entries of a YAML list. `opts` may be NULL; changes are told at once unless
 * they say otherwise. */
void scene_open(struct scene *scene, const tdg_server_opts_t *opts, const char *yaml);
void scene_attach(struct scene *scene, const char *yaml); /* in one thread */
void scene_close(struct scene *scene);

/* Replaces what is served. The first returns what tdg__live_replace() does, the second
 * expects success and waits until it is ready. */
int scene_try_replace(struct scene *scene, const char *yaml);
void scene_replace(struct scene *scene, const char *yaml);

void scene_client(struct scene *scene, struct client *ret); /* a connected one */

/* The source that has a URI, which is one of ours. */
struct script *scene_script(struct scene *scene, const char *uri);

/* It holds this from now on, and notices. */
void scene_change(struct scene *scene, const char *uri, const char *holds);

/* Reads over the wire; fails unless this is what it holds (NULL: not found). */
void scene_expect(struct scene *scene, const char *uri, const char *text);

/* Entries for it, and one whose changes are markers: where a marker comes next, nothing
 * has come before it. */
#define ONE "- script: one\n  uri: a:1\n"
#define TWO "- script: two\n  uri: a:2\n"
#define MARK "- script: mark\n  uri: mark:1\n"

/* Opens a scene whose client listens to some URIs ("'a:1','a:2'") and to the marker. */
void scene_open_listening(struct scene *scene, struct client *client, const char *yaml,
                          const char *uris);

/* Connects a client that listens to some URIs, to the marker and to lists. */
void scene_listen(struct scene *scene, struct client *client, const char *uris);

/* The next message is an update of this. */
void scene_expect_update(struct client *client, const char *uri);
void scene_expect_marker(struct scene *scene, struct client *client);

bool scene_lists(struct scene *scene, const char *uri);
void scene_expect_listed(struct scene *scene, const char *uri, bool listed); /* waits */

uint64_t scene_connections(struct scene *scene);

/* From the first to the second, the only worker waits inside a read, and its inbox is
 * full: nobody can be notified of anything that does not wait there already. Not for a
 * scene that is attached. */
struct scene_jam {
    uv_sem_t is_inside, may_leave;
    struct client client;
};

void scene_jam(struct scene *scene, struct scene_jam *jam);
void scene_clear(struct scene_jam *jam);

#define SCENE_UNTIL(scene, condition)                                                    \
    do {                                                                                 \
        uint64_t until_ = now_ms() + CLIENT_PATIENCE_MS;                                 \
                                                                                         \
        while (!(condition)) {                                                           \
            if (now_ms() > until_)                                                       \
                fail_msg("never happened: %s", #condition);                              \
            scene_step(scene);                                                           \
        }                                                                                \
    } while (0)
void scene_step(struct scene *scene);

#endif

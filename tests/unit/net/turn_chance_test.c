/* SPDX-License-Identifier: MIT
 *
 * Turns by chance: a crowd sends pieces of pipelined requests and leaves in every way,
 * while its connections and large answers are made to wait for turns. Who stays gets all
 * its answers, in order. TDG_SEED chooses another run. */
#include <stdio.h>
#include <sys/socket.h>

#include "net/internal.h"
#include "unit/net/fixture.h"

enum {
    CROWD = 12,
    ROUNDS = 12,
    STEPS = 300,
    ASKED_MAX = 400, /* by one client */
    QUEUE_BYTES = 64 * 1024,
    FIELD_BYTES = 3000, /* so that few requests are more than is read at once */
    LARGE_BYTES = 200 * 1024,
};

/* What a client has asked for, has to send still, and has seen. */
struct asker {
    struct client *client;
    char kinds[ASKED_MAX];
    int asked, answered;
    char queue[QUEUE_BYTES];
    size_t start, end;
    bool over; /* sends no more: it was refused for good, or has said so */
};

struct chance {
    struct world world;
    struct dice dice;
    struct asker crowd[CROWD];
    struct {
        tdg__conn_t *conn;
        char path[64];
    } due[CROWD * 2];
    size_t due_count;
    tdg__buf_t *large;
    int refused, waited, large_waited; /* so that the test is one */
};

static struct chance *chance_of(struct world *w) {
    return (struct chance *)(void *)((char *)w - offsetof(struct chance, world));
}

/* ---- The owner ---------------------------------------------------------- */

static void answer_now(struct chance *chance, tdg__conn_t *conn, const char *path) {
    char kind = path[1];
    tdg__rope_t rope;

    if (kind == 'p')
        tdg__exchange_prove(tdg__conn_exchange(conn));
    tdg__rope_init(&rope, SIZE_MAX);
    tdg__text_put(&rope.text, path);
    if (kind == 'l' || kind == 'm')
        tdg__rope_splice(&rope, chance->large);
    tdg__exchange_respond_rope(tdg__conn_exchange(conn), kind == 'r' ? 404 : 200,
                               "text/plain", NULL, &rope);
    tdg__rope_done(&rope);
}

static void answer_due(struct chance *chance) {
    size_t i = roll(&chance->dice, (uint32_t)chance->due_count);
    tdg__conn_t *conn = chance->due[i].conn;
    char path[64];

    memcpy(path, chance->due[i].path, sizeof(path));
    chance->due[i] = chance->due[--chance->due_count];
    answer_now(chance, conn, path);
}

static void on_net_done(void *arg) {
    ((struct world *)arg)->net_done = true;
}

static void close_net(struct world *w) {
    tdg__net_close(w->net, on_net_done, w);
    w->net = NULL;
}

/* The kernel has taken some of what is due, and the rest waits for its turn. */
static void close_amid_answers(struct chance *chance) {
    while (chance->due_count > 0) {
        answer_due(chance);
        chance->world.net->shared = roll(&chance->dice, 2) == 0 ? UINT32_MAX : 0;
    }
    chance->world.net->shared = UINT32_MAX;
    close_net(&chance->world);
}

/* /a is answered, and proves nothing; /p proves; /r is refused; /l is large; /h and /m
 * (large) are answered later; /v moves to another loop, which is the same; at /z the net
 * closes. */
static void answer_by_kind(struct world *w, tdg__conn_t *conn,
                           const tdg__http_request_t *request) {
    struct chance *chance = chance_of(w);
    char kind = request->path[1];

    if (kind == 'z') {
        close_amid_answers(chance);
    } else if (kind == 'h' || kind == 'm') {
        assert_true(chance->due_count < COUNT(chance->due));
        chance->due[chance->due_count].conn = conn;
        snprintf(chance->due[chance->due_count++].path, sizeof(chance->due[0].path), "%s",
                 request->path);
    } else {
        answer_now(chance, conn, request->path);
    }
}

static void forget_closed(void *user, tdg__conn_t *conn) {
    struct chance *chance = chance_of(user);

    for (size_t i = 0; i < chance->due_count; i++) {
        if (chance->due[i].conn == conn)
            chance->due[i--] = chance->due[--chance->due_count];
    }
}

/* As if others had used up what there is for a turn. */
static void use_up(struct chance *chance) {
    tdg__net_t *net = chance->world.net;

    if (roll(&chance->dice, 2) == 0)
        net->lanes[STRANGERS].spent_ns = UINT32_MAX;
    if (roll(&chance->dice, 2) == 0)
        net->lanes[PROVEN].spent_ns = UINT32_MAX;
    if (roll(&chance->dice, 2) == 0)
        net->shared = UINT32_MAX;
}

static void count_waits(struct chance *chance) {
    for (tdg__conn_t *conn = NULL;
         (conn = tdg__net_next(chance->world.net, conn)) != NULL;) {
        chance->waited += tdg__turn_waits(conn);
        chance->large_waited += conn->outlet.waits;
    }
}

static void act_as_owner(struct chance *chance) {
    if (chance->due_count > 0 && roll(&chance->dice, 2) == 0)
        answer_due(chance);
    use_up(chance);
}

/* ---- Clients ------------------------------------------------------------ */

/* The same place with another client. */
static void replace(struct chance *chance, struct asker *asker) {
    struct world *w = &chance->world;
    size_t count = w->client_count;

    client_close(asker->client);
    w->client_count = (size_t)(asker->client - w->clients);
    *asker = (struct asker){.client = client_open(w)};
    w->client_count = count;
}

static void enqueue(struct asker *asker, const char *text, size_t len) {
    assert_true(len <= sizeof(asker->queue) - asker->end);
    memcpy(asker->queue + asker->end, text, len);
    asker->end += len;
}

static bool has_room(const struct asker *asker) {
    return !asker->over && asker->asked < ASKED_MAX &&
           sizeof(asker->queue) - asker->end > 2 * FIELD_BYTES;
}

static void ask(struct asker *asker, char kind, uint32_t how) {
    char text[2 * FIELD_BYTES];
    int len;

    if (!has_room(asker))
        return;
    if (how == 0)
        len = snprintf(text, sizeof(text),
                       "POST /%c%d HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n"
                       "Expect: 100-continue\r\n\r\nabcde",
                       kind, asker->asked);
    else
        len = snprintf(text, sizeof(text),
                       "GET /%c%d HTTP/1.1\r\nHost: h\r\nF: %0*d\r\n\r\n", kind,
                       asker->asked, how == 1 ? FIELD_BYTES : 1, 0);
    enqueue(asker, text, (size_t)len);
    asker->kinds[asker->asked++] = kind;
}

static void send_some(struct asker *asker, size_t len) {
    size_t left = asker->end - asker->start;
    ssize_t n = send(asker->client->fd, asker->queue + asker->start,
                     len < left ? len : left, MSG_NOSIGNAL | MSG_DONTWAIT);

    asker->start += n > 0 ? (size_t)n : 0;
    if (asker->start == asker->end)
        asker->start = asker->end = 0;
}

/* What cannot be a request: an answer, and then the end. */
static void ask_nonsense(struct chance *chance, struct asker *asker) {
    static const char nonsense[FIELD_BYTES] = "no request\r\n\r\n";

    if (!has_room(asker))
        return;
    enqueue(asker, nonsense, sizeof(nonsense));
    asker->kinds[asker->asked++] = '!';
    asker->over = true;
    chance->refused++;
}

static void say_no_more(struct asker *asker) {
    if (asker->start < asker->end)
        return;
    (void)shutdown(asker->client->fd, SHUT_WR);
    asker->over = true;
}

static void act_as_client(struct chance *chance, struct asker *asker) {
    static const char kinds[] = "aapprhhlm";
    struct dice *dice = &chance->dice;

    switch (roll(dice, 40)) {
    case 0:
        client_reset(asker->client);
        replace(chance, asker);
        return;
    case 1:
        replace(chance, asker);
        return;
    case 2:
        say_no_more(asker);
        return;
    case 3:
        ask_nonsense(chance, asker);
        break;
    case 4:
    case 5:
        asker->client->deaf = !asker->client->deaf;
        break;
    default:
        for (uint32_t i = roll(dice, 8); i > 0; i--)
            ask(asker, kinds[roll(dice, sizeof(kinds) - 1)], roll(dice, 8));
    }
    send_some(asker, roll(dice, 3) == 0 ? roll(dice, 200) : QUEUE_BYTES);
}

/* ---- What they get ------------------------------------------------------ */

static void take(struct client *client, size_t len) {
    client->len -= len;
    memmove(client->data, client->data + len, client->len + 1);
}

/* The length of an interim answer that is ahead of the others, or 0. */
static size_t interim(const struct client *client) {
    static const char text[] = "HTTP/1.1 100 Continue\r\n\r\n";
    size_t len = sizeof(text) - 1;

    return client->len >= len && memcmp(client->data, text, len) == 0 ? len : 0;
}

static void check_body(const struct asker *asker, int status, const char *body,
                       size_t len) {
    char kind = asker->kinds[asker->answered];
    char path[64];
    size_t path_len =
        (size_t)snprintf(path, sizeof(path), "/%c%d", kind, asker->answered);

    if (kind == '!') {
        assert_int_equal(status, 400);
        return;
    }
    assert_int_equal(status, kind == 'r' ? 404 : 200);
    assert_memory_equal(body, path, path_len);
    assert_int_equal(len, path_len + (kind == 'l' || kind == 'm' ? LARGE_BYTES : 0));
}

/* Takes the next answer where it is complete. */
static bool take_answer(struct asker *asker) {
    struct client *client = asker->client;
    const char *head_end, *length;
    size_t head, body;
    int status;

    if (client->len == 0)
        return false;
    take(client, interim(client));
    head_end = client->len > 0 ? strstr(client->data, "\r\n\r\n") : NULL;
    if (head_end == NULL)
        return false;
    head = (size_t)(head_end + 4 - client->data);
    length = strstr(client->data, "Content-Length: ");
    assert_true(length != NULL && length < head_end);
    body = strtoul(length + 16, NULL, 10);
    if (client->len < head + body)
        return false;
    assert_true(asker->answered < asker->asked);
    assert_int_equal(sscanf(client->data, "HTTP/1.1 %d ", &status), 1);
    check_body(asker, status, client->data + head, body);
    take(client, head + body);
    asker->answered++;
    return true;
}

static void step(struct chance *chance) {
    world_step(&chance->world);
    for (int i = 0; i < CROWD; i++) {
        while (take_answer(&chance->crowd[i]))
            ;
        assert_int_equal(chance->crowd[i].client->error, 0);
    }
}

/* ---- The test ----------------------------------------------------------- */

static bool is_done(const struct asker *asker) {
    return asker->answered == asker->asked && (!asker->over || asker->client->eof);
}

static bool all_are_done(const struct chance *chance) {
    for (int i = 0; i < CROWD; i++) {
        if (!is_done(&chance->crowd[i]))
            return false;
    }
    return true;
}

static void print_undone(const struct chance *chance) {
    for (int i = 0; i < CROWD; i++) {
        const struct asker *asker = &chance->crowd[i];

        if (!is_done(asker))
            print_error("client %d: answer %d (/%c) of %d does not come%s\n", i,
                        asker->answered, asker->kinds[asker->answered], asker->asked,
                        asker->over ? ", or the end" : "");
    }
}

/* Nobody leaves any more, and all that is due is done. */
static void finish_all(struct chance *chance) {
    uint64_t limit_ns = uv_hrtime() + UINT64_C(20000000000);

    while (!all_are_done(chance)) {
        for (int i = 0; i < CROWD; i++) {
            chance->crowd[i].client->deaf = false;
            if (chance->crowd[i].start < chance->crowd[i].end)
                send_some(&chance->crowd[i], QUEUE_BYTES);
        }
        while (chance->due_count > 0)
            answer_due(chance);
        step(chance);
        if (uv_hrtime() > limit_ns) {
            print_undone(chance);
            fail_msg("with TDG_SEED=%llu", (unsigned long long)chance->dice.seed);
        }
    }
    for (int i = 0; i < CROWD; i++)
        client_close(chance->crowd[i].client);
    RUN_UNTIL(&chance->world,
              tdg__net_connections(chance->world.net) == 0 &&
                  !uv_is_active((uv_handle_t *)&chance->world.net->turner));
}

/* In the middle of everything, from inside a request or not. */
static void end_abruptly(struct chance *chance) {
    struct world *w = &chance->world;

    if (roll(&chance->dice, 2) == 0) {
        client_get(w, client_open(w), "/z");
        RUN_UNTIL(w, w->net == NULL);
    } else {
        close_net(w);
    }
    RUN_UNTIL(w, w->net_done);
}

static void open_world(struct chance *chance) {
    struct world *w = &chance->world;
    tdg__net_opts_t opts = world_opts(w);

    *w = (struct world){.answer = answer_by_kind};
    opts.calls.closed = forget_closed;
    world_open(w, &opts);
    chance->due_count = 0;
    for (int i = 0; i < CROWD; i++)
        chance->crowd[i] = (struct asker){.client = client_open(w)};
}

static void run_round(struct chance *chance) {
    open_world(chance);
    for (int i = 0; i < STEPS; i++) {
        struct asker *asker = &chance->crowd[roll(&chance->dice, CROWD)];

        if (asker->client->eof)
            replace(chance, asker);
        act_as_client(chance, asker);
        act_as_owner(chance);
        if (roll(&chance->dice, 3) == 0)
            step(chance);
        count_waits(chance);
    }
    if (roll(&chance->dice, 3) == 0)
        end_abruptly(chance);
    else
        finish_all(chance);
    world_close(&chance->world);
}

static void all_that_stay_are_answered_in_order(void **state) {
    struct chance *chance = *state;

    chance->dice = dice_from_env();
    chance->large = tdg__buf_create(NULL, LARGE_BYTES);
    assert_non_null(chance->large);
    memset(chance->large->data, 'x', LARGE_BYTES);
    for (int i = 0; i < ROUNDS; i++)
        run_round(chance);
    assert_int_equal(atomic_load(&chance->large->refs), 1);
    tdg__buf_unref(chance->large);
    print_message("# refused %d, waited %d, large answers %d\n", chance->refused,
                  chance->waited, chance->large_waited);
    assert_true(chance->refused > 20);
    assert_true(chance->waited > 1000 && chance->large_waited > 20);
}

static int setup(void **state) {
    (void)state_create(state, sizeof(struct chance));
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(all_that_stay_are_answered_in_order, setup,
                                        state_destroy),
    };

    return cmocka_run_group_tests_name("turn_chance", tests, NULL, NULL);
}

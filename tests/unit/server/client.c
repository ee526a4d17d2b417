/* SPDX-License-Identifier: MIT */
#include "client.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { EVENTS_AT_ONCE = 64 * 1024 }; /* bytes of them */

/* cmocka knows of failures in the main thread only. */
static void give_up(const char *what, const struct client *client) {
    const char *data = client->data != NULL ? client->data : "";

    if (syscall(SYS_gettid) != getpid()) { /* cmocka would keep it to itself */
        fprintf(stderr, "%s; status %d, read: %.2000s\n", what, client->status, data);
        abort();
    }
    print_error("%s; status %d, read: %.2000s\n", what, client->status, data);
    fail_msg("%s", what);
}

uint64_t now_ms(void) {
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* ---- Connection --------------------------------------------------------- */

void client_init(struct client *client, uv_loop_t *loop) {
    memset(client, 0, sizeof(*client));
    client->fd = -1;
    client->loop = loop;
}

static void forget(struct client *client) {
    if (client->fd >= 0)
        close(client->fd);
    client->fd = -1;
    client->len = client->body_len = 0;
    client->eof = client->ended = client->chunked = false;
    client->status = 0;
}

void client_done(struct client *client) {
    forget(client);
    free(client->data);
    free(client->body);
    client->data = client->body = NULL;
    client->size = client->body_size = 0;
}

void client_reset(struct client *client) {
    struct linger linger = {.l_onoff = 1, .l_linger = 0};

    setsockopt(client->fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
    forget(client);
}

bool client_try_connect(struct client *client, uint16_t port) {
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons(port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};

    forget(client);
    client->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (client->fd < 0)
        return false;
    if (connect(client->fd, (struct sockaddr *)&address, sizeof(address)) < 0)
        return false;
    return fcntl(client->fd, F_SETFL, O_NONBLOCK) == 0;
}

void client_connect(struct client *client, uint16_t port) {
    if (!client_try_connect(client, port))
        give_up("cannot connect", client);
}

static void make_room(char **data, size_t *size, size_t needed) {
    if (needed < *size)
        return;
    *size = needed * 2 + 4096;
    *data = realloc(*data, *size);
    if (*data == NULL)
        abort();
}

/* Reads all there is, or all that makes so many bytes. */
static void read_up_to(struct client *client, size_t max) {
    while (client->fd >= 0 && !client->eof && client->len < max) {
        make_room(&client->data, &client->size, client->len + 4096);
        ssize_t n = read(client->fd, client->data + client->len, 4096);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            break;
        if (n <= 0) {
            client->eof = true;
            break;
        }
        client->len += (size_t)n;
    }
    make_room(&client->data, &client->size, client->len + 1);
    client->data[client->len] = '\0';
}

static void read_some(struct client *client) {
    read_up_to(client, SIZE_MAX);
}

/* At most 10 ms, or until something can be read. */
static bool poll_a_while(struct client *client, uint64_t deadline_ms) {
    struct pollfd fd = {.fd = client->eof ? -1 : client->fd, .events = POLLIN};

    if (now_ms() >= deadline_ms)
        return false;
    if (client->loop != NULL) {
        uv_run(client->loop, UV_RUN_NOWAIT);
        poll(&fd, 1, 1);
    } else {
        poll(&fd, 1, 10);
    }
    return true;
}

bool client_wait(struct client *client, uint64_t deadline_ms) {
    if (!poll_a_while(client, deadline_ms))
        return false;
    read_some(client);
    return true;
}

static void take(char *data, size_t *len, size_t count) {
    memmove(data, data + count, *len - count + 1);
    *len -= count;
}

/* ---- HTTP --------------------------------------------------------------- */

void client_send(struct client *client, const char *text) {
    uint64_t deadline = now_ms() + CLIENT_PATIENCE_MS;
    size_t len = strlen(text);

    while (len > 0) {
        ssize_t n = send(client->fd, text, len, MSG_NOSIGNAL);

        if (n >= 0) {
            text += n;
            len -= (size_t)n;
        } else if (errno != EAGAIN && errno != EINTR) {
            return; /* the other side has closed: the response tells */
        } else if (!client_wait(client, deadline)) {
            give_up("cannot send", client);
        }
    }
}

void client_request(struct client *client, const char *method, const char *path,
                    const char *fields, const char *body) {
    char *text = requote(body != NULL ? body : "");
    size_t size = strlen(text) + 2 * CLIENT_TEXT;
    char *all = malloc(size);

    assert_non_null(all);
    snprintf(all, size,
             "%s %s HTTP/1.1\r\nHost: 127.0.0.1\r\n"
             "Accept: application/json, text/event-stream\r\n%s%s%s%s",
             method, path, client->via != NULL ? "X-Forwarded-For: " : "",
             client->via != NULL ? client->via : "", client->via != NULL ? "\r\n" : "",
             fields != NULL ? fields : "");
    if (body != NULL)
        snprintf(all + strlen(all), size - strlen(all),
                 "Content-Type: application/json\r\nContent-Length: %zu\r\n",
                 strlen(text));
    snprintf(all + strlen(all), size - strlen(all), "\r\n%s", text);
    client_send(client, all);
    free(text);
    free(all);
}

static void find_header(const char *head, const char *name, char ret[256]) {
    size_t len = strlen(name);

    ret[0] = '\0';
    for (const char *line = head; (line = strstr(line, "\r\n")) != NULL;) {
        line += 2;
        if (strncasecmp(line, name, len) == 0 && line[len] == ':') {
            const char *value = line + len + 1;

            value += strspn(value, " ");
            snprintf(ret, 256, "%.*s", (int)strcspn(value, "\r"), value);
            return;
        }
    }
}

void client_header(const struct client *client, const char *name, char ret[256]) {
    find_header(client->head, name, ret);
}

static void add_to_body(struct client *client, const char *data, size_t len) {
    make_room(&client->body, &client->body_size, client->body_len + len + 1);
    memcpy(client->body + client->body_len, data, len);
    client->body_len += len;
    client->body[client->body_len] = '\0';
}

/* Moves whole chunks from what was read into the body. */
static void read_chunks(struct client *client) {
    while (!client->ended) {
        char *end = client->len > 0 ? strstr(client->data, "\r\n") : NULL;
        if (end == NULL)
            return;
        size_t size = strtoul(client->data, NULL, 16);
        size_t head = (size_t)(end - client->data) + 2;
        if (client->len < head + size + 2)
            return;
        add_to_body(client, client->data + head, size);
        take(client->data, &client->len, head + size + 2);
        client->ended = size == 0;
    }
}

static bool read_head(struct client *client) {
    char *end = client->len > 0 ? strstr(client->data, "\r\n\r\n") : NULL;

    if (end == NULL)
        return false;
    size_t len = (size_t)(end - client->data) + 4;
    snprintf(client->head, sizeof(client->head), "%.*s", (int)len - 2, client->data);
    client->status = atoi(client->data + strlen("HTTP/1.1 "));
    take(client->data, &client->len, len);
    return true;
}

static bool whole(struct client *client, size_t len, uint64_t deadline) {
    while (client->len < len && !client->eof) {
        if (!client_wait(client, deadline))
            return false;
    }
    return true;
}

int client_response_within(struct client *client, int ms) {
    uint64_t deadline = now_ms() + (uint64_t)ms;
    char value[256];

    client->status = 0;
    client->body_len = 0;
    client->ended = client->chunked = false;
    add_to_body(client, "", 0);
    read_some(client);
    while (!read_head(client)) {
        if (client->eof)
            return 0;
        if (!client_wait(client, deadline))
            return -1;
    }
    client_header(client, "Transfer-Encoding", value);
    client->chunked = strcmp(value, "chunked") == 0;
    if (client->chunked)
        return client->status;

    client_header(client, "Content-Length", value);
    size_t len = strtoul(value, NULL, 10);
    if (!whole(client, len, deadline))
        return -1;
    if (client->len < len)
        return 0;
    add_to_body(client, client->data, len);
    take(client->data, &client->len, len);
    return client->status;
}

int client_response(struct client *client) {
    int status = client_response_within(client, CLIENT_PATIENCE_MS);

    if (status < 0)
        give_up("no response", client);
    return status;
}

/* ---- Events ------------------------------------------------------------- */

/* Reads no more than it needs: a flood waits at the server, which merges it, and not
 * here, where each event costs as much as all that follow it. */
const char *client_event_within(struct client *client, int ms) {
    uint64_t deadline = now_ms() + (uint64_t)ms;
    char *end;

    for (;;) {
        read_chunks(client);
        end = client->body_len > 0 ? strstr(client->body, "\n\n") : NULL;
        if (end != NULL)
            break;

        size_t before = client->len;
        read_up_to(client, before + EVENTS_AT_ONCE);
        if (client->len == before &&
            (client->ended || client->eof || !poll_a_while(client, deadline)))
            return NULL;
    }
    size_t len = (size_t)(end - client->body) + 2;
    snprintf(client->event, sizeof(client->event), "%.*s", (int)len - 1, client->body);
    take(client->body, &client->body_len, len);
    return client->event;
}

const char *client_event(struct client *client) {
    const char *event = client_event_within(client, CLIENT_PATIENCE_MS);

    if (event == NULL)
        give_up("no event", client);
    return event;
}

bool event_field(const char *event, const char *field, char *ret, size_t size) {
    size_t len = strlen(field);

    for (const char *line = event; *line != '\0'; line = strchr(line, '\n') + 1) {
        if (strncmp(line, field, len) == 0 && line[len] == ':') {
            line += len + 1;
            line += *line == ' ';
            snprintf(ret, size, "%.*s", (int)strcspn(line, "\n"), line);
            return true;
        }
    }
    return false;
}

const char *client_message_within(struct client *client, int ms) {
    uint64_t deadline = now_ms() + (uint64_t)ms;
    const char *event;
    char first[2];

    do {
        uint64_t now = now_ms();

        event = client_event_within(client, now < deadline ? (int)(deadline - now) : 0);
    } while (event != NULL &&
             (!event_field(event, "data", first, sizeof(first)) || first[0] == '\0'));
    return event;
}

const char *client_message(struct client *client) {
    return client_message_within(client, CLIENT_PATIENCE_MS);
}

bool has(const char *haystack, const char *text) {
    char *wanted = requote(text);
    bool found = haystack != NULL && strstr(haystack, wanted) != NULL;

    free(wanted);
    return found;
}

void client_expect(struct client *client, const char *text) {
    const char *message = client_message(client);

    if (has(message, text))
        return;
    print_error("%s\nis not in\n%s\n", text, message != NULL ? message : "nothing");
    give_up("another message was expected", client);
}

void client_expect_end(struct client *client) {
    const char *message = client_message(client);

    if (message != NULL || !client->ended) {
        print_error("%s\n", message != NULL ? message : "cut off, or still open");
        give_up("the end of the stream was expected", client);
    }
}

bool body_has(const struct client *client, const char *text) {
    return has(client->body, text);
}

/* ---- Legacy ------------------------------------------------------------- */

void legacy_initialize(struct client *client, const char *version) {
    char body[512], value[256];

    snprintf(body, sizeof(body),
             "{'jsonrpc':'2.0','id':'init','method':'initialize','params':{"
             "'protocolVersion':'%s','capabilities':{},"
             "'clientInfo':{'name':'test','version':'1'}}}",
             version);
    client->session[0] = '\0';
    client_request(client, "POST", "/mcp", NULL, body);
    if (client_response(client) != 200)
        give_up("cannot initialize", client);
    client_header(client, "Mcp-Session-Id", value);
    snprintf(client->session, sizeof(client->session), "%.63s", value);
    if (legacy_post(client, "{'jsonrpc':'2.0','method':'notifications/initialized'}") !=
        202)
        give_up("cannot say initialized", client);
}

void legacy_join(struct client *client, const struct client *other) {
    memcpy(client->session, other->session, sizeof(client->session));
}

void legacy_send(struct client *client, const char *message) {
    char fields[128];

    snprintf(fields, sizeof(fields), "Mcp-Session-Id: %s\r\n", client->session);
    client_request(client, "POST", "/mcp", fields, message);
}

/* An answer that took its time comes as a stream: its last message is the body. */
static void read_late_answer(struct client *client) {
    char *last = NULL;

    if (!client->chunked)
        return;
    while (client_message(client) != NULL) {
        free(last);
        last = strdup(client->event);
    }
    if (last == NULL || !client->ended)
        give_up("no answer in the stream", client);
    client->body_len = 0;
    add_to_body(client, last, strlen(last));
    free(last);
}

int legacy_post(struct client *client, const char *message) {
    legacy_send(client, message);
    int status = client_response(client);
    read_late_answer(client);
    return status;
}

int legacy_get(struct client *client, const char *last_event_id) {
    char fields[512];

    snprintf(fields, sizeof(fields), "Mcp-Session-Id: %s\r\n%s%s%s", client->session,
             last_event_id != NULL ? "Last-Event-ID: " : "",
             last_event_id != NULL ? last_event_id : "",
             last_event_id != NULL ? "\r\n" : "");
    client_request(client, "GET", "/mcp", fields, NULL);
    return client_response(client);
}

static void about_uri(struct client *client, const char *method, const char *uri) {
    char body[1024];

    snprintf(body, sizeof(body),
             "{'jsonrpc':'2.0','id':'%s','method':'%s','params':{'uri':'%s'}}", uri,
             method, uri);
    if (legacy_post(client, body) != 200 || !body_has(client, "'result':{}")) {
        print_error("%s %s: %s\n", method, uri, client->body);
        give_up("refused", client);
    }
}

void legacy_subscribe(struct client *client, const char *uri) {
    about_uri(client, "resources/subscribe", uri);
}

void legacy_unsubscribe(struct client *client, const char *uri) {
    about_uri(client, "resources/unsubscribe", uri);
}

/* ---- Modern ------------------------------------------------------------- */

static void send_modern(struct client *client, const char *method, const char *name,
                        const char *meta, const char *params) {
    char fields[1024], body[CLIENT_TEXT];

    snprintf(fields, sizeof(fields),
             "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: %s\r\n%s%s%s", method,
             name != NULL ? "Mcp-Name: " : "", name != NULL ? name : "",
             name != NULL ? "\r\n" : "");
    snprintf(body, sizeof(body),
             "{'jsonrpc':'2.0','id':'m','method':'%s','params':{'_meta':{"
             "'io.modelcontextprotocol/protocolVersion':'2026-07-28',"
             "'io.modelcontextprotocol/clientInfo':{'name':'test','version':'1'},"
             "'io.modelcontextprotocol/clientCapabilities':{}%s%s}%s%s}}",
             method, meta != NULL ? "," : "", meta != NULL ? meta : "",
             params != NULL ? "," : "", params != NULL ? params : "");
    client_request(client, "POST", "/mcp", fields, body);
}

void modern_send(struct client *client, const char *method, const char *name,
                 const char *params) {
    send_modern(client, method, name, NULL, params);
}

int modern_post(struct client *client, const char *method, const char *name,
                const char *params) {
    modern_send(client, method, name, params);
    int status = client_response(client);
    if (strcmp(method, "subscriptions/listen") != 0)
        read_late_answer(client);
    return status;
}

void modern_listen(struct client *client, const char *notifications) {
    modern_listen_with(client, NULL, notifications);
}

void modern_listen_with(struct client *client, const char *meta,
                        const char *notifications) {
    char params[1024];

    snprintf(params, sizeof(params), "'notifications':%s", notifications);
    send_modern(client, "subscriptions/listen", NULL, meta, params);
    if (client_response(client) != 200)
        give_up("cannot listen", client);
    client_expect(client, "notifications/subscriptions/acknowledged");
}

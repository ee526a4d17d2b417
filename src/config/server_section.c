/* SPDX-License-Identifier: MIT
 *
 * The section `server`: its options, and the arguments of tdg_server_create() made from
 * them. The defaults are those of the server; a test compares them. */
#include <stdint.h>
#include <string.h>

#include <tidings/error.h>

#include "base/alloc.h"
#include "base/network.h"
#include "base/text.h"
#include "config/file.h"

enum {
    SECOND = 1000,
    DAY = 24 * 60 * 60 * SECOND,
};

#define AT(field) offsetof(tdg__config_t, server.field)
#define OPT(field) offsetof(tdg__config_t, opts.field)

static const char *const timings[] = {"immediate", "batch", "debounce", "throttle", NULL};

#define TEXT(field, name, example, help)                                                 \
    { name, TDG__OPTION_STRING, OPT(field), 0, NULL, 0, 0, NULL, example, help }
#define TEXTS(field, name, fallback, example, help)                                      \
    { name, TDG__OPTION_STRINGS, AT(field), 0, fallback, 0, 0, NULL, example, help }
#define CHOICE(field, name, fallback, choices, help)                                     \
    { name, TDG__OPTION_CHOICE, AT(field), 0, fallback, 0, 0, choices, NULL, help }
#define SWITCH(field, name, fallback, help)                                              \
    { name, TDG__OPTION_BOOL, AT(field), 0, fallback, 0, 0, NULL, NULL, help }
#define WAIT(field, name, fallback, min, example, help)                                  \
    {                                                                                    \
        name, TDG__OPTION_DURATION, AT(timing.field), 0, fallback, min, DAY, NULL,       \
            example, help                                                                \
    }
#define AMOUNT(type, field, name, fallback, min, max, example, help)                     \
    {                                                                                    \
        name, type, OPT(field), TDG__OPTION_UINT32, fallback, min, max, NULL, example,   \
            help                                                                         \
    }
#define TIME(field, name, fallback, min, example, help)                                  \
    AMOUNT(TDG__OPTION_DURATION, field, name, fallback, min, DAY, example, help)
#define COUNT(field, name, fallback, max, example, help)                                 \
    AMOUNT(TDG__OPTION_NUMBER, field, name, fallback, 1, max, example, help)
#define SIZE(field, name, fallback, min, max, help)                                      \
    AMOUNT(TDG__OPTION_SIZE, field, name, fallback, min, max, NULL, help)

static const char *const proxy_headers[] = {"x-forwarded-for", "forwarded", NULL};

static const tdg__option_t server_options[] = {
    {"name", TDG__OPTION_STRING, OPT(name), 0, "tidings", 0, 0, NULL, "shop",
     "How the server introduces itself to clients."},
    TEXT(title, "title", "The shop, live", "The display name for people."),
    TEXT(instructions, "instructions",
         "Subscribe to shop://orders to be notified of new orders",
         "Instructions about this server for language models."),

    TEXTS(listen, "listen", TDG__LISTEN_DEFAULT, "[\"http://127.0.0.1:8808\"]",
          "The address to listen on, as a URL http://HOST:PORT or a list of them. HOST "
          "is an "
          "IP address or localhost; 0.0.0.0 and [::] are all addresses of the machine. "
          "Port "
          "0 is any free port. erlmcp+http://HOST:PORT speaks the erlmcp dialect, "
          "mcp+http://HOST:PORT plain MCP; http:// uses the option `dialect`."),
    TEXTS(allowed_hosts, "allowed-hosts", NULL, "[localhost, 127.0.0.1, tidings.example]",
          "Names by which clients may call this server; a name without a port means any "
          "port, \"*\" any name. Default: loopback names for a loopback address, "
          "else localhost, any address, and the machine's own name."),
    TEXTS(allowed_origins, "allowed-origins", NULL, "[\"https://app.example\"]",
          "Web pages that may call this server, by their origin; \"*\" is any. Default: "
          "loopback pages for a loopback address, else none."),
    TEXTS(
        trusted_proxies, "trusted-proxies", NULL, "[127.0.0.1, 10.0.0.0/8]",
        "Proxies in front of this server, as addresses or networks. If a request comes "
        "through a proxy, the client's address is the last one in `proxy-header` that is "
        "not such a proxy: for max-sessions-per-address, for turns between clients, and "
        "in the log."),
    CHOICE(proxy_header, "proxy-header", "x-forwarded-for", proxy_headers,
           "The header in which the trusted proxies pass the address of the caller: "
           "x-forwarded-for, or forwarded (RFC 7239). The other header is ignored."),
    CHOICE(dialect, "dialect", "mcp", tdg__dialects,
           "The dialect for legacy clients: mcp, or erlmcp with different names and "
           "codes. An entry of `listen` may choose another."),
    COUNT(workers, "workers", NULL, 64, "2",
          "Threads that serve clients. Default: one per core."),

    CHOICE(
        mode, "timing", "batch", timings,
        "When subscribers are notified: at once (immediate), once at the end of a window "
        "(batch), after a window without changes (debounce), or at once and then at most "
        "once per window (throttle). A resource may override this."),
    WAIT(window_ms, "window", NULL, 0, "100ms",
         "The window of `timing`. Default: 100ms for batch, 500ms for debounce, 1s for "
         "throttle."),
    WAIT(longest_ms, "longest-wait", NULL, 1, "5s",
         "With debounce, the longest wait for a window without changes. Default: ten "
         "windows."),
    WAIT(rate_limit_ms, "rate-limit", "1s", 0, NULL,
         "At most one notification per this time, subscription and resource; 0 is no "
         "limit."),
    WAIT(min_window_ms, "min-window", "0", 0, "50ms",
         "The minimum window, whatever a client or an entry sets: \"at once\" waits for "
         "this window, too. An entry may set its own minimum."),
    WAIT(min_rate_limit_ms, "min-rate-limit", "0", 0, "200ms",
         "The minimum rate limit, whatever a client or an entry sets. An entry may set "
         "its own minimum."),
    TIME(linger_ms, "linger", "5s", 1, NULL,
         "How long a source is still watched after its last subscription has ended."),

    SWITCH(legacy, "legacy", "true",
           "Speak the versions of the protocol before 2026-07-28."),
    SWITCH(modern, "modern", "true", "Speak the protocol of 2026-07-28."),
    SWITCH(subscriptions, "subscriptions", "true", "Let clients subscribe to resources."),
    SWITCH(list_changes, "list-changes", "true",
           "Notify clients when the list of resources changes."),
    SWITCH(log_messages, "log-messages", "true", "Send log messages to clients."),
    SWITCH(params_metadata, "metadata-in-params", "true",
           "Put the metadata of a change into `params.metadata`."),
    SWITCH(meta_metadata, "metadata-in-meta", "true",
           "Put the metadata of a change into `_meta`, where the official clients find "
           "it."),
    SWITCH(any_template, "any-template", "false",
           "Let clients subscribe to URI templates that are not listed."),

    COUNT(page_size, "page-size", "250", 10000, NULL, "Entries per page of a list."),
    TIME(keepalive_ms, "keepalive", "15s", 1, NULL,
         "Interval of keep-alive bytes on an idle stream."),
    TIME(request_timeout_ms, "request-timeout", "30s", 1, NULL,
         "Time limit for a client to send its whole request."),
    TIME(idle_timeout_ms, "idle-timeout", "75s", 1, NULL,
         "Time limit for an idle connection between requests."),
    TIME(session_idle_ms, "session-idle", "5m", 1, NULL,
         "Time after which a legacy session without a stream or a request ends."),
    TIME(handshake_timeout_ms, "handshake-timeout", "30s", 1, NULL,
         "The same for a session whose client never sent notifications/initialized."),
    TIME(
        stream_lifetime_ms, "stream-lifetime", "0", 0, "1h",
        "Time after which a stream is ended, so that its client reconnects; 0 is never."),
    TIME(retry_ms, "retry", "1s", 1, NULL,
         "How long clients of an ended legacy stream wait before they reconnect."),
    TIME(stop_timeout_ms, "stop-timeout", "3s", 1, NULL,
         "Time limit for pending writes and answers when the server stops."),

    COUNT(max_connections, "max-connections", "16384", 1000000, NULL,
          "Connections at the same time; those beyond get 503."),
    COUNT(
        max_sessions, "max-sessions", "10000", 1000000, NULL,
        "Legacy sessions at the same time. Beyond this limit a new session replaces the "
        "oldest one whose client has not sent notifications/initialized; without such a "
        "session, the oldest one whose client has sent no request and opened no stream "
        "after initialize; without such a session either: 503."),
    COUNT(
        max_sessions_per_address, "max-sessions-per-address", NULL, 1000000, "100",
        "Legacy sessions of one address (of IPv6: of one /64 network) at the same time. "
        "Beyond this limit a new session replaces one of the same address, as with "
        "max-sessions. Default: half of max-sessions."),
    COUNT(max_calls, "max-calls", "100", 100000, NULL,
          "Unanswered requests of one session or pipe."),
    COUNT(max_streams, "max-streams", "16", 10000, NULL,
          "Streams of one pipe or legacy session."),
    SIZE(max_header_bytes, "max-header-size", "16KiB", 1024, 1 << 20,
         "Maximum size of the header of one request."),
    SIZE(max_message_bytes, "max-message-size", "4MiB", 1024, 1 << 30,
         "Maximum size of one message from a client."),
    COUNT(max_subscriptions, "max-subscriptions", "10000", 1000000, NULL,
          "Subscriptions of one stream."),
    COUNT(max_total_subscriptions, "max-total-subscriptions", "1000000", 10000000, NULL,
          "Subscriptions of all streams, in the whole server."),
    SIZE(max_subscribed_bytes, "max-subscribed-size", "64MiB", 4096, 1 << 30,
         "Maximum size of the subscribed URIs and of the memory of their filters, in the "
         "whole server; each counts once per worker that has it."),
    COUNT(max_pending, "max-pending", "10000", 1000000, NULL,
          "URIs that may wait on one stream through templates."),
    COUNT(max_history, "max-history", "65536", 16 << 20, NULL,
          "Changes remembered for clients that reconnect."),
    {"stale-size", TDG__OPTION_SIZE, AT(stale_size), 0, "16MiB", 0, 1 << 30, NULL, NULL,
     "Maximum size of the last known contents of all sources together, which are "
     "served as stale while a source is unreachable: at most 10000 contents, none "
     "larger than a quarter of this. 0 keeps nothing."},
    {.name = NULL},
};

static const tdg__option_t publish_options[] = {
    {"key", TDG__OPTION_STRING, offsetof(tdg__config_t, publish.key), TDG__OPTION_SECRET,
     NULL, 0, 0, NULL, "${TIDINGS_PUBLISH_KEY}",
     "The key that publishers have to send. Without it, publishing is off. Keep it out "
     "of the "
     "file: ${NAME} takes it from the environment."},
    {.name = NULL},
};

static const tdg__option_t top_options[] = {
    {"reload-on-change", TDG__OPTION_BOOL, offsetof(tdg__config_t, top.reload_on_change),
     0, "false", 0, 0, NULL, "true",
     "Reload this file when it changes, as SIGHUP does. Unchanged entries "
     "keep their subscribers; a file with mistakes changes nothing."},
    {.name = NULL},
};

const tdg__section_t tdg__config_sections[] = {
    {.name = "top of the file",
     .help = "Options at the top of the file, in addition to server, publish and "
             "resources.",
     .options = top_options},
    {.name = "server",
     .help = "How clients reach the server, when they are notified of changes, "
             "and its limits. All options are optional.",
     .options = server_options},
    {.name = "publish",
     .help = "Who may publish changes over HTTP, at /publish, and with tidings publish.",
     .options = publish_options},
    {.name = NULL},
};

/* ---- From the options to the server's ------------------------------------ */

static const struct {
    size_t from;
    bool when; /* what the option must be for the flag to be set */
    unsigned flag;
} switches[] = {
    {AT(legacy), false, TDG_NO_LEGACY},
    {AT(modern), false, TDG_NO_MODERN},
    {AT(subscriptions), false, TDG_NO_SUBSCRIBE},
    {AT(list_changes), false, TDG_NO_LIST_CHANGED},
    {AT(log_messages), false, TDG_NO_LOGGING},
    {AT(params_metadata), false, TDG_NO_PARAMS_METADATA},
    {AT(meta_metadata), false, TDG_NO_META_METADATA},
    {AT(any_template), true, TDG_ANY_TEMPLATE},
};

static unsigned flags_of(const tdg__config_t *config) {
    unsigned flags = 0;

    for (size_t i = 0; i < sizeof(switches) / sizeof(switches[0]); i++)
        if (*(const bool *)((const char *)config + switches[i].from) == switches[i].when)
            flags |= switches[i].flag;
    return flags;
}

/* `complete`: no option was wrong. Where one was, it may have been the timing. */
static int check_together(const tdg__config_t *config, const tdg__node_t *section,
                          bool complete, tdg__problems_t *problems) {
    int rv = 0;

    if (complete)
        rv = tdg__timing_check(&config->settings, section, problems);
    if (!config->server.legacy && !config->server.modern) {
        tdg__node_problem(problems, tdg__node_get(section, "modern"),
                          "legacy and modern are both off; at least one is needed");
        rv = TDG_EINVAL;
    }
    return rv;
}

/* The node of the i-th text of an option that takes one or a list. */
static const tdg__node_t *place_of_text(const tdg__node_t *node, size_t i) {
    if (node == NULL || node->kind != TDG__NODE_LIST)
        return node;
    node = node->first;
    while (node != NULL && i-- > 0)
        node = node->next;
    return node;
}

/* A text that was refused is a mistake, unless nobody knows what it is. */
static int refused_unless_unset(const tdg__node_t *text, const tdg__problems_t *problems,
                                int rv) {
    return tdg__node_is_unset(text, problems) ? rv : TDG_EINVAL;
}

static bool is_network(const char *text) {
    const char *const one[] = {text, NULL};
    tdg__networks_t *networks = NULL;
    int rv = tdg__networks_create(one, &networks);

    tdg__networks_destroy(networks);
    return rv != TDG_EINVAL;
}

/* Whether some Host could match it: "*", "name", "name:80", "[::1]:80". */
static bool is_host(const char *text) {
    size_t len = text[0] == '[' ? strcspn(text, "]") + 1 : strcspn(text, ":");
    char address[64];

    if (strcmp(text, "*") == 0)
        return true;
    if (len == 0 || len > strlen(text) || strcspn(text, "*/@?# \t") < len)
        return false;
    if (text[0] == '[') {
        tdg__address_t ret;

        if (len < 2 || len - 2 >= sizeof(address))
            return false;
        memcpy(address, text + 1, len - 2);
        address[len - 2] = '\0';
        address[strcspn(address, "%")] = '\0'; /* a zone may follow */
        if (strchr(address, ':') == NULL || !tdg__address_parse(address, &ret))
            return false;
    }
    text += len;
    return *text == '\0' || (*text == ':' && text[1] != '\0' &&
                             text[1 + strspn(text + 1, "0123456789")] == '\0');
}

static int check_texts(char **texts, const tdg__node_t *node,
                       bool (*fits)(const char *text), const char *complaint,
                       tdg__problems_t *problems) {
    int rv = 0;

    for (size_t i = 0; texts != NULL && texts[i] != NULL; i++) {
        if (fits(texts[i]))
            continue;
        tdg__node_problem(problems, place_of_text(node, i), "%s", complaint);
        rv = refused_unless_unset(place_of_text(node, i), problems, rv);
    }
    return rv;
}

/* Who may call, and who forwards calls. */
static int check_callers(const tdg__config_t *config, const tdg__node_t *section,
                         tdg__problems_t *problems) {
    char **hosts = config->server.allowed_hosts;
    const tdg__node_t *node = tdg__node_get(section, "allowed-hosts");
    int rv =
        check_texts(hosts, node, is_host,
                    "no client sends such a Host; write a name or an address, such as "
                    "tidings.example, 10.0.0.1:8808 or [::1]",
                    problems);

    if (hosts != NULL && hosts[0] == NULL) {
        tdg__node_problem(problems, node, "an empty list admits no client; write %s",
                          "at least one host, or leave the line out");
        rv = TDG_EINVAL;
    }
    int proxies = check_texts(
        config->server.trusted_proxies, tdg__node_get(section, "trusted-proxies"),
        is_network, "this is neither an address nor a network such as 10.0.0.0/8",
        problems);
    return rv < 0 ? rv : proxies;
}

static int fill_listen(tdg__config_t *config, const tdg__node_t *node,
                       tdg__problems_t *problems) {
    size_t count = 0;
    int rv = 0;

    while (config->server.listen[count] != NULL)
        count++;
    if (count == 0) {
        tdg__node_problem(problems, node, "an empty list; write %s",
                          "at least one URL, or leave the line out");
        return TDG_EINVAL;
    }
    config->listen = tdg__calloc(count, sizeof(*config->listen));
    if (config->listen == NULL)
        return TDG_ENOMEM;
    for (size_t i = 0; i < count; i++) {
        tdg__parse_error_t error;

        if (tdg__listen_url_parse(config->server.listen[i], &config->listen[i], &error) <
            0) {
            tdg__node_problem(problems, place_of_text(node, i),
                              "this is not an address to listen on: %s", error.text);
            rv = refused_unless_unset(place_of_text(node, i), problems, rv);
        }
    }
    config->listen_count = count;
    return rv;
}

int tdg__config_finish_server(tdg__config_t *config, const tdg__node_t *section,
                              bool complete, tdg__problems_t *problems) {
    int rv, together;

    config->opts.flags = flags_of(config);
    config->opts.settings = &config->settings;
    config->settings = tdg__timing_settings((tdg_timing_mode_t)(config->server.mode + 1),
                                            &config->server.timing);
    together = check_together(config, section, complete, problems);
    rv = fill_listen(config, tdg__node_get(section, "listen"), problems);
    if (check_callers(config, section, problems) < 0)
        together = TDG_EINVAL;
    return rv < 0 ? rv : together;
}

/* SPDX-License-Identifier: MIT
 *
 * Input: a byte that chooses what the rest is: a Host, an Origin, two Accept headers with
 * a line break between them, a Content-Type, or the query of a legacy request. */
#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "base/network.h"
#include "fuzz.h"
#include "server/http/visit.h"
#include "server/mcp/session.h"

enum { MAX_BYTES = 1024, ROOM = 2 * MAX_BYTES + 64 };

/* The texts one after the other; the buffer is that of the next call. */
static const char *join(const char *a, const char *b, const char *c) {
    static char all[ROOM];

    require(strlen(a) + strlen(b) + strlen(c) < sizeof(all));
    strcpy(all, a);
    strcat(all, b);
    return strcat(all, c);
}

static void swap_case(char *text) {
    for (; *text != '\0'; text++)
        *text = (char)(islower((unsigned char)*text) ? toupper((unsigned char)*text)
                                                     : tolower((unsigned char)*text));
}

/* ---- Host and Origin ---------------------------------------------------- */

static const tdg__listener_t local = {.loopback = true};
static const tdg__listener_t open_ = {.machine = "this-machine"};

/* Another reading: whether "name", "name:port" or "[address]:port" is this machine. */
static bool is_here(const char *host) {
    static const uint8_t one[16] = {[15] = 1}, four[12] = {[10] = 0xff, [11] = 0xff};
    char name[MAX_BYTES + 1];
    tdg__address_t address;

    strcpy(name, host + (host[0] == '['));
    name[strcspn(name, host[0] == '[' ? "%]" : ":")] = '\0';
    if (strcasecmp(name, "localhost") == 0)
        return host[0] != '[';
    if (!tdg__address_parse(name, &address))
        return false;
    return memcmp(address.bytes, one, 16) == 0 ||
           (memcmp(address.bytes, four, 12) == 0 && address.bytes[12] == 127);
}

static void check_host(char *host) {
    char *list[] = {host, NULL};
    const tdg__listener_t listed = {.hosts = list, .loopback = true};
    bool here = tdg__listener_allows_host(&local, host);
    bool allowed = tdg__listener_allows_host(&open_, host);

    require(!here || (allowed && is_here(host)));
    require(!allowed || strpbrk(host, "/@?#, \t\\") == NULL || host[0] == '[');
    require(!tdg__listener_allows_host(&open_, join("evil.", host, "")));
    require(tdg__listener_allows_host(&listed, host));
    require(!allowed || !tdg__listener_allows_host(&open_, join(host, ".evil", "")));
    require(!tdg__listener_allows_host(&listed, join(host, "x", "")) ||
            strcmp(host, "*") == 0);
    swap_case(host);
    require(tdg__listener_allows_host(&local, host) == here || strchr(host, '%') != NULL);
}

static void check_origin(char *origin) {
    char *list[] = {origin, NULL};
    const tdg__listener_t listed = {.origins = list};
    const char *host = strstr(origin, "://");
    bool here = tdg__listener_allows_origin(&local, origin);

    require(!here || (host != NULL && is_here(host + 3)));
    require(!here || tdg__listener_allows_host(&local, host + 3));
    require(!tdg__listener_allows_origin(&open_, origin));
    require(tdg__listener_allows_origin(&listed, origin));
    require(!tdg__listener_allows_origin(&listed, join(origin, "x", "")) ||
            strcmp(origin, "*") == 0);
}

/* ---- Accept and Content-Type -------------------------------------------- */

static bool accepts(const char *accept, const char *type) {
    const tdg__http_field_t field = {"accept", accept};
    const tdg__http_request_t http = {.fields = &field, .field_count = 1};
    const tdg__visit_t visit = {.http = &http};

    return tdg__visit_accepts(&visit, type);
}

/* A list allows what one of its two parts allows. */
static void check_accept(char *a) {
    static const char *const types[] = {"application/json", "text/event-stream"};
    const char *b = next_line(&a);

    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        bool by_a = accepts(a, types[i]), by_b = accepts(b, types[i]);

        require(accepts(join(a, ",", b), types[i]) == (by_a || by_b));
        require(accepts(join(b, " , ", a), types[i]) == (by_a || by_b));
        require(accepts(join(a, ",", types[i]), types[i]));
        require(accepts(join(a, ",x/y,", "*/*;v=1;q=0.001"), types[i]));
        require(accepts(join(a, ",", "*/*;q=0.000"), types[i]) == by_a);
        require(!by_a || strchr(a, '/') != NULL);
    }
    bool json = accepts(a, types[0]);
    swap_case(a);
    require(accepts(a, types[0]) == json);
}

static void check_content_type(char *type) {
    bool json = tdg__http_is_json(type);

    require(!json || strncasecmp(type, "application/json", 16) == 0);
    require(tdg__http_is_json(join(type, ";charset=utf-8", "")) == json);
    require(tdg__http_is_json(join(type, " ;x=", type)) == json);
    require(!json || type[16] != '\0' || !tdg__http_is_json(join(type, "-seq", "")));
    swap_case(type);
    require(tdg__http_is_json(type) == json);
}

/* ---- The query ---------------------------------------------------------- */

/* What is found is all of the first value; a session has no other id than what it was
 * given, so what is cut or encoded finds none. */
static void check_query(char *query) {
    char room[TDG__SESSION_ID + 1];
    const char *id = tdg__visit_query_session(query, room);

    if (id == NULL) {
        require(strncmp(query, "sessionId=", 10) != 0);
        require(strstr(query, "&sessionId=") == NULL);
        id = tdg__visit_query_session(join(query, "&sessionId=", "a&b"), room);
        require(id != NULL && strcmp(id, "a") == 0);
        return;
    }
    const char *at = strncmp(query, "sessionId=", 10) == 0
                         ? query + 10
                         : strstr(query, "&sessionId=") + 11;
    size_t len = strcspn(at, "&");
    require(strlen(id) == (len <= TDG__SESSION_ID ? len : 0));
    require(memcmp(id, at, strlen(id)) == 0);

    int worker = tdg__session_worker(id);
    require(worker < 256 && (worker < 0 || len == TDG__SESSION_ID));
    require((worker >= 0) == (len == TDG__SESSION_ID &&
                              strspn(id, "0123456789abcdef") == TDG__SESSION_ID));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static void (*const checks[])(char *text) = {check_host, check_origin, check_accept,
                                                 check_content_type, check_query};
    char *text;

    if (size < 1 || size > MAX_BYTES)
        return 0;
    text = malloc(size); /* as long as it is, so that reading behind it is noticed */
    require(text != NULL);
    memcpy(text, data + 1, size - 1);
    text[size - 1] = '\0';
    checks[data[0] % (sizeof(checks) / sizeof(checks[0]))](text);
    free(text);
    return 0;
}

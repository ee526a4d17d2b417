/* SPDX-License-Identifier: MIT */
#include "web/web_answer.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include <curl/curl.h>
#include <tidings/error.h>

#include "web/web.h"

enum { MAX_WAIT_S = 24 * 60 * 60 };

/* ---- Fields ------------------------------------------------------------- */

/* Of one line already, so only other control characters are looked for. */
static bool is_text(const char *value, size_t len, unsigned char least) {
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)value[i];

        if ((c < least && c != '\t') || c == 0x7f || (least > ' ' && c > 0x7e))
            return false;
    }
    return true;
}

static void keep(tdg__web_facts_t *facts, tdg__text_t *text, const char *value,
                 size_t len) {
    if (text->len > 0 || len > text->max)
        return;
    tdg__text_add(text, value, len);
    if (text->error < 0)
        facts->no_memory = true;
}

static void on_type(tdg__web_facts_t *facts, const char *value, size_t len) {
    tdg__text_t *text = &facts->content_type;
    size_t end = 0;

    while (end < len && strchr("; \t,", value[end]) == NULL)
        end++; /* also at a NUL, which strchr() finds */
    if (end == 0 || !is_text(value, end, '!'))
        return;
    keep(facts, text, value, end);
    for (size_t i = 0; i < text->len; i++)
        if (text->data[i] >= 'A' && text->data[i] <= 'Z')
            text->data[i] = (char)(text->data[i] | 0x20);
}

int64_t tdg__web_date_ms(const char *text) {
    time_t when = text != NULL ? curl_getdate(text, NULL) : -1;

    return when >= 0 ? (int64_t)when * 1000 : -1;
}

static int64_t date_ms(const char *value, size_t len) {
    char text[64];

    if (len >= sizeof(text))
        return -1;
    memcpy(text, value, len);
    text[len] = '\0';
    return tdg__web_date_ms(text);
}

static void on_retry_after(tdg__web_facts_t *facts, const char *value, size_t len) {
    int64_t seconds = 0;

    for (size_t i = 0; i < len; i++) {
        if (value[i] < '0' || value[i] > '9') {
            facts->retry_date_ms = date_ms(value, len);
            return;
        }
        seconds = seconds * 10 + (value[i] - '0');
        if (seconds > MAX_WAIT_S)
            seconds = MAX_WAIT_S;
    }
    facts->retry_after_ms = seconds * 1000;
}

static void on_date(tdg__web_facts_t *facts, const char *value, size_t len) {
    facts->date_ms = date_ms(value, len);
}

#define TEXT(field) offsetof(tdg__web_facts_t, field)

/* A field is kept as text, or read. */
static const struct field {
    const char *name;
    void (*read)(tdg__web_facts_t *facts, const char *value, size_t len);
    size_t text, max; /* where `read` is NULL: the text, */
    char least;       /* and what it consists of; above ' ', it is visible ASCII */
} fields[] = {
    {"Content-Type", on_type, TEXT(content_type), TDG__WEB_MAX_FIELD, 0},
    {"Content-Type", NULL, TEXT(full_type), TDG__WEB_MAX_FIELD, ' '},
    {"Date", on_date, 0, 0, 0},
    {"ETag", NULL, TEXT(etag), TDG__WEB_MAX_FIELD, ' '},
    {"Last-Modified", NULL, TEXT(last_modified), TDG__WEB_MAX_FIELD, ' '},
    {"Location", NULL, TEXT(location), TDG__WEB_MAX_URL, ' '},
    {"Mcp-Session-Id", NULL, TEXT(session), TDG__WEB_MAX_SESSION, '!'},
    {"Retry-After", on_retry_after, 0, 0, 0},
};

/* NULL: it has none. */
static tdg__text_t *text_of(tdg__web_facts_t *facts, const struct field *field) {
    return field->max > 0 ? (tdg__text_t *)(void *)((char *)facts + field->text) : NULL;
}

static void set(tdg__web_facts_t *facts, const struct field *field, const char *value,
                size_t len) {
    if (field->read != NULL)
        field->read(facts, value, len);
    else if (is_text(value, len, (unsigned char)field->least) &&
             (field->least == ' ' || memchr(value, '\t', len) == NULL))
        keep(facts, text_of(facts, field), value, len);
}

/* ---- Facts -------------------------------------------------------------- */

void tdg__web_facts_init(tdg__web_facts_t *facts) {
    *facts = (tdg__web_facts_t){.retry_after_ms = -1, .retry_date_ms = -1, .date_ms = -1};
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
        if (fields[i].max > 0)
            tdg__text_init(text_of(facts, &fields[i]), fields[i].max);
}

void tdg__web_facts_done(tdg__web_facts_t *facts) {
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
        if (fields[i].max > 0)
            tdg__text_done(text_of(facts, &fields[i]));
}

void tdg__web_facts_clear(tdg__web_facts_t *facts) {
    facts->status = 0;
    facts->complete = facts->no_memory = false;
    facts->retry_after_ms = facts->retry_date_ms = facts->date_ms = -1;
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
        if (fields[i].max > 0)
            tdg__text_clear(text_of(facts, &fields[i]));
}

/* ---- Lines -------------------------------------------------------------- */

/* "HTTP/1.1 200 OK", "HTTP/2 200". */
static bool read_status(tdg__web_facts_t *facts, const char *line, size_t len) {
    const char *at;
    int status = 0;

    if (len < 5 || memcmp(line, "HTTP/", 5) != 0)
        return false;
    tdg__web_facts_clear(facts);
    at = memchr(line, ' ', len);
    for (size_t i = 0; at != NULL && i < 3; i++) {
        at++;
        if (at >= line + len || *at < '0' || *at > '9')
            return true;
        status = status * 10 + (*at - '0');
    }
    facts->status = status;
    return true;
}

static void end_head(tdg__web_facts_t *facts, int64_t now_ms) {
    int64_t wait;

    if (facts->status < 200) {
        tdg__web_facts_clear(facts);
        return;
    }
    facts->complete = true;
    if (facts->retry_after_ms >= 0 || facts->retry_date_ms < 0)
        return;
    /* By the server's clock, where it shows it. */
    wait = facts->retry_date_ms - (facts->date_ms >= 0 ? facts->date_ms : now_ms);
    facts->retry_after_ms = wait < 0 ? 0
                            : wait > (int64_t)MAX_WAIT_S * 1000
                                ? (int64_t)MAX_WAIT_S * 1000
                                : wait;
}

static bool is_blank(char c) {
    return c == ' ' || c == '\t';
}

void tdg__web_facts_line(tdg__web_facts_t *facts, const char *line, size_t len,
                         int64_t now_ms) {
    const char *colon, *value, *end;

    while (len > 0 && (line[len - 1] == '\n' || line[len - 1] == '\r'))
        len--;
    if (facts->complete)
        return;
    if (len == 0) {
        end_head(facts, now_ms);
        return;
    }
    if (read_status(facts, line, len))
        return;
    colon = memchr(line, ':', len);
    if (colon == NULL)
        return;
    value = colon + 1;
    end = line + len;
    while (value < end && is_blank(*value))
        value++;
    while (end > value && is_blank(end[-1]))
        end--;
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]) && value < end; i++)
        if (strlen(fields[i].name) == (size_t)(colon - line) &&
            strncasecmp(fields[i].name, line, (size_t)(colon - line)) == 0)
            set(facts, &fields[i], value, (size_t)(end - value));
}

/* ---- Failures ----------------------------------------------------------- */

enum {
    WITH_WORDS = 1 << 0,  /* libcurl's words add something */
    WITH_SYSTEM = 1 << 1, /* and so does errno, if there is one */
};

/* "HOST port N" stands between the two texts. */
static const struct meaning {
    CURLcode curl;
    int code;
    unsigned flags;
    const char *before, *after;
} meanings[] = {
    {CURLE_COULDNT_CONNECT, TDG_EUNREACHABLE, WITH_SYSTEM, "cannot connect to ", ""},
    {CURLE_COULDNT_RESOLVE_HOST, TDG_EUNREACHABLE, 0, "cannot find the address of ", ""},
    {CURLE_COULDNT_RESOLVE_PROXY, TDG_EUNREACHABLE, 0,
     "cannot find the address of the proxy to ", ""},
    {CURLE_OPERATION_TIMEDOUT, TDG_ETIMEDOUT, 0, "no connection to ", " in time"},
    {CURLE_GOT_NOTHING, TDG_EUNREACHABLE, 0, "",
     " closed the connection without a response"},
    {CURLE_PARTIAL_FILE, TDG_EUNREACHABLE, 0, "",
     " closed the connection in the middle of its response"},
    {CURLE_RECV_ERROR, TDG_EUNREACHABLE, WITH_SYSTEM, "the connection to ", " broke"},
    {CURLE_SEND_ERROR, TDG_EUNREACHABLE, WITH_SYSTEM, "the connection to ", " broke"},
    {CURLE_SEND_FAIL_REWIND, TDG_EUNREACHABLE, 0, "the connection to ",
     " broke after the request was sent"},
    {CURLE_UNSUPPORTED_PROTOCOL, TDG_EUNREACHABLE, 0, "", " does not speak HTTP"},
    {CURLE_WEIRD_SERVER_REPLY, TDG_EUNREACHABLE, WITH_WORDS, "", " does not speak HTTP"},
    {CURLE_PEER_FAILED_VERIFICATION, TDG_EREFUSED, WITH_WORDS, "the certificate of ",
     " is not trusted"},
    {CURLE_SSL_ISSUER_ERROR, TDG_EREFUSED, WITH_WORDS, "the certificate of ",
     " is not trusted"},
    {CURLE_SSL_INVALIDCERTSTATUS, TDG_EREFUSED, WITH_WORDS, "the certificate of ",
     " is not trusted"},
    {CURLE_SSL_CONNECT_ERROR, TDG_EUNREACHABLE, WITH_WORDS, "no TLS with ", ""},
    {CURLE_OUT_OF_MEMORY, TDG_ENOMEM, 0, "out of memory in an exchange with ", ""},
};

static const struct meaning unknown = {CURLE_OK, TDG_EUNREACHABLE, WITH_WORDS,
                                       "the exchange with ", " failed"};

static const struct meaning *look_up(CURLcode code) {
    for (size_t i = 0; i < sizeof(meanings) / sizeof(meanings[0]); i++)
        if (meanings[i].curl == code)
            return &meanings[i];
    return &unknown;
}

static void make_printable(char *text) {
    for (; *text != '\0'; text++)
        if ((unsigned char)*text < 0x20 || *text == 0x7f)
            *text = ' ';
}

int tdg__web_explain(const tdg__web_trouble_t *trouble, char *why, size_t why_size) {
    const struct meaning *meaning = look_up(trouble->code);
    const char *more = "";

    if (trouble->code == CURLE_SSL_CACERT_BADFILE) {
        snprintf(why, why_size, "cannot use the certificates in %s",
                 trouble->ca_file != NULL ? trouble->ca_file : "the system's files");
        make_printable(why);
        return TDG_EREFUSED;
    }
    if ((meaning->flags & WITH_SYSTEM) && trouble->system != 0)
        more = strerror((int)trouble->system);
    else if (meaning->flags & WITH_WORDS)
        more =
            trouble->said[0] != '\0' ? trouble->said : curl_easy_strerror(trouble->code);
    snprintf(why, why_size, "%s%s port %u%s%s%s%s", meaning->before, trouble->url->host,
             trouble->url->port, meaning->after, trouble->by_proxy ? " by the proxy" : "",
             more[0] != '\0' ? ": " : "", more);
    make_printable(why);
    return meaning->code;
}

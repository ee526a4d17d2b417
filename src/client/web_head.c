/* SPDX-License-Identifier: MIT */
#include "client/web_head.h"

#include <string.h>
#include <strings.h>

#include <curl/curl.h>
#include <tidings/error.h>

#include "client/web.h"

enum { MAX_WAIT_S = 24 * 60 * 60 };

void tdg__web_facts_init(tdg__web_facts_t *facts) {
    *facts = (tdg__web_facts_t){.retry_after_ms = -1, .retry_date_ms = -1, .date_ms = -1};
    tdg__text_init(&facts->content_type, TDG__WEB_MAX_FIELD);
    tdg__text_init(&facts->session, TDG__WEB_MAX_SESSION);
    tdg__text_init(&facts->authenticate, TDG__WEB_MAX_FIELD);
    tdg__text_init(&facts->location, TDG__WEB_MAX_FIELD);
}

void tdg__web_facts_done(tdg__web_facts_t *facts) {
    tdg__text_done(&facts->content_type);
    tdg__text_done(&facts->session);
    tdg__text_done(&facts->authenticate);
    tdg__text_done(&facts->location);
}

void tdg__web_facts_clear(tdg__web_facts_t *facts) {
    facts->status = 0;
    facts->complete = facts->no_memory = false;
    facts->retry_after_ms = facts->retry_date_ms = facts->date_ms = -1;
    tdg__text_clear(&facts->content_type);
    tdg__text_clear(&facts->session);
    tdg__text_clear(&facts->authenticate);
    tdg__text_clear(&facts->location);
}

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

static void on_session(tdg__web_facts_t *facts, const char *value, size_t len) {
    if (is_text(value, len, '!') && memchr(value, '\t', len) == NULL)
        keep(facts, &facts->session, value, len);
}

static void on_authenticate(tdg__web_facts_t *facts, const char *value, size_t len) {
    if (is_text(value, len, ' '))
        keep(facts, &facts->authenticate, value, len);
}

static void on_location(tdg__web_facts_t *facts, const char *value, size_t len) {
    if (is_text(value, len, ' '))
        keep(facts, &facts->location, value, len);
}

/* -1: it is no date. */
static int64_t date_ms(const char *value, size_t len) {
    char text[64];
    time_t when;

    if (len >= sizeof(text))
        return -1;
    memcpy(text, value, len);
    text[len] = '\0';
    when = curl_getdate(text, NULL);
    return when >= 0 ? (int64_t)when * 1000 : -1;
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

static const struct field {
    const char *name;
    void (*set)(tdg__web_facts_t *facts, const char *value, size_t len);
} fields[] = {
    {"Content-Type",     on_type        },
    {"Date",             on_date        },
    {"Location",         on_location    },
    {"Mcp-Session-Id",   on_session     },
    {"Retry-After",      on_retry_after },
    {"WWW-Authenticate", on_authenticate},
};

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
            fields[i].set(facts, value, (size_t)(end - value));
}

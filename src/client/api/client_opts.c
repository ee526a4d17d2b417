/* SPDX-License-Identifier: MIT */
#include "client/api/client.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/sized.h"
#include "base/text.h"
#include "base/uri.h"
#include "client/session/backoff.h"
#include "web/web_header.h"
#include "web/web_url.h"

enum {
    MIN_MESSAGE_BYTES = 1024,
    ALL_FLAGS = TDG_CLIENT_PATIENT | TDG_CLIENT_ONE_LIFE | TDG_CLIENT_LOGS |
                TDG_CLIENT_INSECURE_TOKEN,
};

int tdg__client_fail(tdg_failure_t *failure, int code, const char *format, ...) {
    va_list args;

    if (failure == NULL)
        return code;

    *failure = (tdg_failure_t){.code = code};
    va_start(args, format);
    vsnprintf(failure->message, sizeof(failure->message), format, args);
    va_end(args);
    return code;
}

void tdg_failure_done(tdg_failure_t *failure) {
    if (failure == NULL)
        return;
    json_decref(failure->data);
    *failure = (tdg_failure_t){0};
}

int tdg__client_opts_read(void *ret, size_t size, const void *given, size_t given_size,
                          tdg_failure_t *failure) {
    int rv = tdg__sized_read(ret, size, given, given_size);

    if (rv < 0)
        tdg__client_fail(failure, rv,
                         rv == TDG_ENOTSUP ? "an option is unknown to this version"
                                           : "the size of the options is invalid");
    return rv;
}

static int invalid(tdg_failure_t *failure, const char *what) {
    return tdg__client_fail(failure, TDG_EINVAL, "%s", what);
}

/* ---- The URL ------------------------------------------------------------ */

/* Behind "scheme://"; NULL: it is neither http nor https. */
static const char *after_scheme(const char *url) {
    if (strncasecmp(url, "http://", 7) == 0)
        return url + 7;
    if (strncasecmp(url, "https://", 8) == 0)
        return url + 8;
    return NULL;
}

/* Whether what ends here, or at one of "/?#", is "HOST" or "HOST:PORT", with HOST perhaps
 * in brackets. */
static bool is_authority(const char *text, size_t len) {
    size_t host = strcspn(text, text[0] == '[' ? "]/?#" : ":/?#"), digits;
    unsigned long port;

    if (text[0] == '[') {
        if (text[host] != ']' || host == 1)
            return false;
        host++;
    }
    if (host == 0 || host == len)
        return host > 0;
    digits = strspn(text + host + 1, "0123456789");
    port = strtoul(text + host + 1, NULL, 10);
    return text[host] == ':' && digits <= 5 && host + 1 + digits == len && port >= 1 &&
           port <= 65535;
}

/* What is wrong with a URL, or NULL. The URL itself may hold secrets, and is not said. */
static const char *wrong_url(const char *url) {
    const char *authority = after_scheme(url);
    size_t len;

    if (authority == NULL)
        return "the URL must begin with http:// or https://";
    if (strlen(url) > TDG__CLIENT_MAX_URL)
        return "the URL is too long";
    len = strcspn(authority, "/?#");
    if (memchr(authority, '@', len) != NULL)
        return "the URL must not contain a user name or password: give credentials as a "
               "header or in a token file";
    if (len == 0)
        return "the URL has no host";
    if (strchr(url, '#') != NULL)
        return "the URL must not have a fragment (#…)";
    if (!is_authority(authority, len))
        return "the URL's host or port is not valid";
    return NULL;
}

static int check_url(const char *url, tdg_failure_t *failure) {
    const char *wrong = wrong_url(url);
    tdg__parse_error_t error;
    int rv;

    if (wrong != NULL)
        return invalid(failure, wrong);

    rv = tdg__uri_check(url, strlen(url), &error);
    if (rv == TDG_EURI)
        return invalid(failure, "the URL contains characters that are not allowed, or a "
                                "% without two hexadecimal digits");
    return rv < 0 ? tdg__client_fail(failure, rv, "%s", tdg_strerror(rv)) : 0;
}

/* ---- Headers ------------------------------------------------------------ */

static int check_headers(const tdg_client_opts_t *opts, tdg_failure_t *failure) {
    char why[200];

    for (size_t i = 0; opts->headers != NULL && opts->headers[i] != NULL; i++) {
        if (i == TDG__CLIENT_MAX_HEADERS)
            return invalid(failure, "too many headers");
        if (!tdg__web_header_is_fine(opts->headers[i], why, sizeof(why)))
            return tdg__client_fail(failure, TDG_EINVAL, "header %zu: %s", i + 1, why);
        if (opts->token_file != NULL &&
            strncasecmp(opts->headers[i], "Authorization:", 14) == 0)
            return invalid(failure, "an Authorization header and a token file exclude "
                                    "each other");
    }
    return 0;
}

/* ---- All ---------------------------------------------------------------- */

bool tdg__client_is_text(const char *text) {
    return text == NULL || tdg__utf8_is_valid(text, strlen(text));
}

static int check_target(const tdg_client_opts_t *opts, tdg_failure_t *failure) {
    bool http = opts->headers != NULL || opts->token_file != NULL ||
                opts->ca_file != NULL || opts->proxy != NULL;
    bool program = opts->env != NULL || opts->cwd != NULL;

    if ((opts->url != NULL) == (opts->argv != NULL))
        return invalid(failure, opts->url != NULL
                                    ? "either a URL or a program, not both"
                                    : "a URL or a program to start is required");
    if (opts->argv != NULL && (opts->argv[0] == NULL || opts->argv[0][0] == '\0'))
        return invalid(failure, "the program to start has no name");
    if (opts->argv != NULL && http)
        return invalid(failure, "headers, token_file, ca_file and proxy require a URL");
    if (opts->url != NULL && program)
        return invalid(failure, "env and cwd require a program");
    if (opts->proxy != NULL && after_scheme(opts->proxy) == NULL)
        return invalid(failure, "the proxy must be a http:// or https:// URL");
    return opts->url != NULL ? check_url(opts->url, failure) : 0;
}

static int check_rest(const tdg_client_opts_t *opts, tdg_failure_t *failure) {
    if ((opts->flags & ~(unsigned)ALL_FLAGS) != 0)
        return tdg__client_fail(failure, TDG_EINVAL, "unknown flags: 0x%x",
                                opts->flags & ~(unsigned)ALL_FLAGS);
    if ((unsigned)opts->era > TDG_ERA_LEGACY)
        return tdg__client_fail(failure, TDG_EINVAL, "unknown era: %d", (int)opts->era);
    if (opts->retry_per_minute > TDG__BACKOFF_MAX_PER_MINUTE)
        return tdg__client_fail(failure, TDG_EINVAL, "retry_per_minute is at most %d",
                                TDG__BACKOFF_MAX_PER_MINUTE);
    if (opts->max_message_bytes != 0 && opts->max_message_bytes < MIN_MESSAGE_BYTES)
        return tdg__client_fail(failure, TDG_EINVAL, "max_message_bytes is at least %d",
                                MIN_MESSAGE_BYTES);
    if (opts->retry_max_ms != 0 && opts->retry_ms > opts->retry_max_ms)
        return invalid(failure, "retry_ms is larger than retry_max_ms");
    if (!tdg__client_is_text(opts->name) || !tdg__client_is_text(opts->version))
        return invalid(failure, "name and version must be UTF-8");
    return check_headers(opts, failure);
}

/* ---- Copying ------------------------------------------------------------ */

/* In place of each text a copy that is ours. False: memory is out. */
static bool copy_texts(tdg__client_opts_t *own) {
    tdg_client_opts_t *opts = &own->opts;
    const char **const texts[TDG__CLIENT_TEXTS] = {
        &opts->cwd,   &opts->token_file, &opts->ca_file,
        &opts->proxy, &opts->name,       &opts->version,
    };
    const char *const **const lists[TDG__CLIENT_LISTS] = {&opts->argv, &opts->env,
                                                          &opts->headers};

    if (opts->url != NULL) {
        opts->url = own->url = tdg__web_url_complete(opts->url, "/mcp");
        if (own->url == NULL)
            return false;
    }
    for (size_t i = 0; i < TDG__CLIENT_TEXTS; i++) {
        if (!tdg__copy(*texts[i], &own->texts[i]))
            return false;
        *texts[i] = own->texts[i];
    }
    for (size_t i = 0; i < TDG__CLIENT_LISTS; i++) {
        if (!tdg__copy_strings(*lists[i], &own->lists[i]))
            return false;
        *lists[i] = (const char *const *)own->lists[i];
    }
    return true;
}

static void fill_in(tdg_client_opts_t *opts) {
    const struct {
        uint32_t *field, value;
    } numbers[] = {
        {&opts->connect_timeout_ms, 30000}, {&opts->timeout_ms, 60000},
        {&opts->quiet_ms, 60000},           {&opts->retry_ms, 500},
        {&opts->retry_max_ms, 30000},       {&opts->retry_per_minute, 20},
    };

    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        if (*numbers[i].field == 0)
            *numbers[i].field = numbers[i].value;
    }
    if (opts->retry_max_ms < opts->retry_ms)
        opts->retry_max_ms = opts->retry_ms;
    if (opts->max_message_bytes == 0)
        opts->max_message_bytes = (size_t)16 << 20;
    if (opts->max_subscriptions == 0)
        opts->max_subscriptions = 100000;
    if (opts->name == NULL)
        opts->name = "tidings";
    if (opts->version == NULL)
        opts->version = TDG_VERSION;
}

int tdg__client_opts_init(tdg__client_opts_t *own, const tdg_client_opts_t *given,
                          tdg_failure_t *failure) {
    int rv = check_target(given, failure);

    if (rv == 0)
        rv = check_rest(given, failure);
    if (rv < 0)
        return rv;

    *own = (tdg__client_opts_t){.opts = *given};
    if (!copy_texts(own)) {
        tdg__client_opts_done(own);
        return tdg__client_fail(failure, TDG_ENOMEM, "out of memory");
    }
    fill_in(&own->opts);
    return 0;
}

void tdg__client_opts_done(tdg__client_opts_t *own) {
    tdg__free(own->url);
    for (size_t i = 0; i < TDG__CLIENT_TEXTS; i++)
        tdg__free(own->texts[i]);
    for (size_t i = 0; i < TDG__CLIENT_LISTS; i++)
        tdg__free_strings(own->lists[i]);
    *own = (tdg__client_opts_t){0};
}

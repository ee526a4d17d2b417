/* SPDX-License-Identifier: MIT */
#include "source/http/transfer.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include <tidings/error.h>

#include "base/alloc.h"
#include "source/http/http_url.h"
#include "web/web_header.h"

/* The body of an answer that we do not want is read up to here, so that the connection
 * can be used again. */
enum { UNWANTED = 64 * 1024 };

struct tdg__transfer {
    tdg__curl_job_t job; /* first */
    tdg__curl_t *curl;
    CURL *easy;
    bool added;
    struct curl_slist *lines; /* of this hop */
    char *first_url, *url;
    const json_t *headers;
    char *etag, *last_modified, *known_url;
    size_t max_bytes;
    tdg__transfer_follow_t follow;
    unsigned hops;
    bool bare; /* has left the host of the headers */

    tdg__text_t body;
    size_t header_bytes, unwanted;
    bool too_large, enough;
    char error[CURL_ERROR_SIZE];

    tdg__transfer_done_fn done;
    void *arg;
};

/* ---- Headers ------------------------------------------------------------ */

/* What the transfer itself says. */
static const char *const own_headers[] = {
    "Accept-Encoding", "Connection",    "Content-Length",    "Expect",  "Host",
    "If-Match",        "If-None-Match", "If-Modified-Since", "Range",   "TE",
    "If-Range",        "Upgrade",       "Transfer-Encoding", "Trailer", NULL};

bool tdg__transfer_header_is_fine(const char *name, const char *value,
                                  const char **ret_why) {
    *ret_why = !tdg__web_is_token(name, strlen(name)) ? "this is no name of a header"
               : value[strspn(value, " \t")] == '\0'  ? "the header has no value"
               : !tdg__web_is_one_line(value) ? "the value has a line break or a control "
                                                "character"
                                              : NULL;
    for (size_t i = 0; own_headers[i] != NULL && *ret_why == NULL; i++)
        if (strcasecmp(name, own_headers[i]) == 0)
            *ret_why = "tidings sets this header itself";
    return *ret_why == NULL;
}

/* The configured headers as long as we are where they belong; what is known already only
 * where it came from, because elsewhere the same date may mean something else. */
static int make_lines(tdg__transfer_t *transfer) {
    json_t *headers = transfer->bare ? NULL : (json_t *)(uintptr_t)transfer->headers;
    const char *name;
    json_t *value;
    int rv = 0;

    curl_slist_free_all(transfer->lines);
    transfer->lines = NULL;
    json_object_foreach(headers, name, value) {
        if (rv == 0)
            rv = tdg__web_line_add(&transfer->lines, name, json_string_value(value));
    }
    if (transfer->known_url == NULL || strcmp(transfer->known_url, transfer->url) != 0)
        return rv;
    if (rv == 0 && transfer->etag != NULL)
        rv = tdg__web_line_add(&transfer->lines, "If-None-Match", transfer->etag);
    if (rv == 0 && transfer->last_modified != NULL)
        rv = tdg__web_line_add(&transfer->lines, "If-Modified-Since",
                               transfer->last_modified);
    return rv;
}

/* ---- What comes in ------------------------------------------------------ */

static size_t on_header(char *data, size_t size, size_t count, void *arg) {
    tdg__transfer_t *transfer = arg;

    (void)data;
    transfer->header_bytes += size * count;
    return transfer->header_bytes <= TDG__TRANSFER_MAX_HEADERS ? size * count : 0;
}

static long status_of(const tdg__transfer_t *transfer) {
    long status = 0;

    curl_easy_getinfo(transfer->easy, CURLINFO_RESPONSE_CODE, &status);
    return status;
}

/* Gets decoded bytes, in pieces of some KiB: a small answer that unpacks to a huge one
 * ends here in time. Returning less than was given ends the transfer. */
static size_t on_body(char *data, size_t size, size_t count, void *arg) {
    tdg__transfer_t *transfer = arg;
    size_t len = size * count;
    long status = status_of(transfer);
    curl_off_t announced = -1;

    if (status < 200 || status > 299) {
        transfer->unwanted += len;
        transfer->enough = transfer->unwanted > UNWANTED;
        return transfer->enough ? 0 : len;
    }
    curl_easy_getinfo(transfer->easy, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &announced);
    if (announced > (curl_off_t)transfer->max_bytes ||
        len > transfer->max_bytes - transfer->body.len) {
        transfer->too_large = true;
        return 0;
    }
    tdg__text_add(&transfer->body, data, len);
    return transfer->body.error == 0 ? len : 0;
}

/* ---- Ending ------------------------------------------------------------- */

static void transfer_free(tdg__transfer_t *transfer) {
    if (transfer->added)
        tdg__curl_remove(transfer->curl, transfer->easy);
    curl_easy_cleanup(transfer->easy);
    curl_slist_free_all(transfer->lines);
    tdg__text_done(&transfer->body);
    tdg__free(transfer->first_url);
    tdg__free(transfer->url);
    tdg__free(transfer->etag);
    tdg__free(transfer->last_modified);
    tdg__free(transfer->known_url);
    tdg__free(transfer);
}

void tdg__transfer_cancel(tdg__transfer_t *transfer) {
    transfer_free(transfer);
}

/* A header of the last answer that can be shown and sent back; NULL: there is none. */
static const char *field(const tdg__transfer_t *transfer, const char *name) {
    struct curl_header *header;

    if (curl_easy_header(transfer->easy, name, 0, CURLH_HEADER, -1, &header) != CURLHE_OK)
        return NULL;
    if (header->value[0] == '\0' || strlen(header->value) > TDG__TRANSFER_MAX_FIELD ||
        !tdg__web_is_one_line(header->value) ||
        !tdg__utf8_is_valid(header->value, strlen(header->value)))
        return NULL;
    return header->value;
}

static int64_t date_ms(const char *text) {
    time_t when = text != NULL ? curl_getdate(text, NULL) : -1;

    return when > 0 ? (int64_t)when * 1000 : 0;
}

static void finish(tdg__transfer_t *transfer, int result, const char *error) {
    tdg__transfer_answer_t answer = {.result = result,
                                     .error = error,
                                     .status = status_of(transfer),
                                     .body = &transfer->body,
                                     .url = transfer->url,
                                     .retry_after_ms = -1};
    curl_off_t seconds = 0;

    if (result == 0) {
        /* Each call may move what the one before has given, but not its value. */
        answer.etag = field(transfer, "ETag");
        answer.last_modified = field(transfer, "Last-Modified");
        answer.content_type = field(transfer, "Content-Type");
        answer.modified_ms = date_ms(answer.last_modified);
        answer.date_ms = date_ms(field(transfer, "Date"));
        curl_easy_getinfo(transfer->easy, CURLINFO_RETRY_AFTER, &seconds);
        if (field(transfer, "Retry-After") != NULL)
            answer.retry_after_ms =
                seconds > INT32_MAX ? (int64_t)INT32_MAX * 1000 : (int64_t)seconds * 1000;
    }
    transfer->done(transfer->arg, &answer);
    transfer_free(transfer);
}

/* ---- Beginning, and going on -------------------------------------------- */

static int start(tdg__transfer_t *transfer) {
    transfer->header_bytes = transfer->unwanted = 0;
    transfer->error[0] = '\0';

    int rv = make_lines(transfer);
    if (rv < 0)
        return rv;
    if (curl_easy_setopt(transfer->easy, CURLOPT_URL, transfer->url) != CURLE_OK)
        return TDG_ENOMEM;
    curl_easy_setopt(transfer->easy, CURLOPT_HTTPHEADER, transfer->lines);
    rv = tdg__curl_add(transfer->curl, transfer->easy);
    transfer->added = rv == 0;
    return rv;
}

/* Returns 0 where the next hop has begun; else why not, with *ret_error. */
static int redirect(tdg__transfer_t *transfer, const char *to, const char **ret_error) {
    tdg__http_hop_t hop = tdg__http_url_hop(transfer->url, to);
    char *url;

    if (hop == TDG__HOP_REFUSED) {
        *ret_error = "the server redirects to something other than an http or https URL, "
                     "or from https "
                     "to http";
        return TDG_EINVAL;
    }
    if (hop == TDG__HOP_OTHER && transfer->follow != TDG__FOLLOW_ANY) {
        *ret_error =
            "the server redirects to another host, which `follow-redirects` does "
            "not allow";
        return TDG_EINVAL;
    }
    if (transfer->hops++ == TDG__TRANSFER_MAX_REDIRECTS) {
        *ret_error = "the server redirects too often";
        return TDG_EINVAL;
    }
    url = tdg__strdup(to);
    if (url == NULL) {
        *ret_error = tdg_strerror(TDG_ENOMEM);
        return TDG_ENOMEM;
    }
    tdg__free(transfer->url);
    transfer->url = url;
    /* Also on the way back, which the other host has chosen. */
    if (tdg__http_url_hop(transfer->first_url, url) != TDG__HOP_SAME)
        transfer->bare = true;

    int rv = start(transfer);
    if (rv < 0)
        *ret_error = tdg_strerror(rv);
    return rv;
}

static const char *why(const tdg__transfer_t *transfer, CURLcode code) {
    return transfer->error[0] != '\0' ? transfer->error : curl_easy_strerror(code);
}

static void on_finished(tdg__curl_job_t *job, CURLcode code) {
    tdg__transfer_t *transfer = (tdg__transfer_t *)job;
    const char *error = NULL;
    char *to = NULL;
    int rv;

    transfer->added = false;
    if (transfer->too_large) {
        finish(transfer, TDG_ETOOLARGE, "the content is larger than max-size");
    } else if (transfer->body.error < 0 || code == CURLE_OUT_OF_MEMORY) {
        finish(transfer, TDG_ENOMEM, tdg_strerror(TDG_ENOMEM));
    } else if (transfer->header_bytes > TDG__TRANSFER_MAX_HEADERS) {
        finish(transfer, TDG_EAWAY, "the headers of the answer are too large");
    } else if (code != CURLE_OK && !transfer->enough) {
        finish(transfer, TDG_EAWAY, why(transfer, code));
    } else {
        if (status_of(transfer) != 304)
            curl_easy_getinfo(transfer->easy, CURLINFO_REDIRECT_URL, &to);
        if (to == NULL || transfer->follow == TDG__FOLLOW_NONE) {
            finish(transfer, 0, NULL);
            return;
        }
        transfer->enough = false;
        rv = redirect(transfer, to, &error);
        if (rv < 0)
            finish(transfer, rv, error);
    }
}

static int set_up(tdg__transfer_t *transfer, const tdg__transfer_request_t *wish) {
    CURL *easy = transfer->easy;
    const struct {
        CURLoption option;
        const char *text;
    } texts[] = {
        {CURLOPT_PROTOCOLS_STR, "http,https"},
        {CURLOPT_REDIR_PROTOCOLS_STR, "http,https"},
        {CURLOPT_ACCEPT_ENCODING, ""},
        {CURLOPT_USERAGENT, "tidings/" TDG_VERSION},
        {CURLOPT_PROXY, wish->proxy != NULL ? wish->proxy : ""},
        {CURLOPT_NOPROXY, ""},
    };

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        if (curl_easy_setopt(easy, texts[i].option, texts[i].text) != CURLE_OK)
            return TDG_ENOMEM;
    if (wish->ca_file != NULL &&
        curl_easy_setopt(easy, CURLOPT_CAINFO, wish->ca_file) != CURLE_OK)
        return TDG_ENOMEM;
    curl_easy_setopt(easy, CURLOPT_PRIVATE, &transfer->job);
    curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, transfer->error);
    curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(easy, CURLOPT_HEADERDATA, transfer);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, transfer);
    curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, 1L);
    curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, 2L);
    curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
    /* What is meant for a server behind a tunnel is not told to the proxy. */
    curl_easy_setopt(easy, CURLOPT_HEADEROPT, (long)CURLHEADER_SEPARATE);
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_FORBID_REUSE, wish->keep_open ? 0L : 1L);
    /* Without it, cancelling waits for a name server that does not answer. */
    curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L);
    curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long)wish->timeout_ms);
    return 0;
}

int tdg__transfer_begin(tdg__curl_t *curl, const tdg__transfer_request_t *wish,
                        tdg__transfer_done_fn done, void *arg, tdg__transfer_t **ret) {
    tdg__transfer_t *transfer = tdg__calloc(1, sizeof(*transfer));
    int rv = TDG_ENOMEM;

    if (transfer == NULL)
        return TDG_ENOMEM;
    transfer->job.finished = on_finished;
    transfer->curl = curl;
    transfer->headers = wish->headers;
    transfer->max_bytes = wish->max_bytes;
    transfer->follow = wish->follow;
    transfer->done = done;
    transfer->arg = arg;
    tdg__text_init(&transfer->body, wish->max_bytes);
    transfer->easy = curl_easy_init();
    if (transfer->easy != NULL && tdg__copy(wish->url, &transfer->first_url) &&
        tdg__copy(wish->url, &transfer->url) && tdg__copy(wish->etag, &transfer->etag) &&
        tdg__copy(wish->last_modified, &transfer->last_modified) &&
        tdg__copy(wish->known_url, &transfer->known_url))
        rv = set_up(transfer, wish);
    if (rv == 0)
        rv = start(transfer);
    if (rv < 0) {
        transfer_free(transfer);
        return rv;
    }
    *ret = transfer;
    return 0;
}

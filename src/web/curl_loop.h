/* SPDX-License-Identifier: MIT
 *
 * libcurl's multi interface on a libuv loop: its sockets are polls of the loop, its waits
 * one timer. The owner of an easy handle (web.c) defines the request and processes the
 * response.
 *
 * libcurl's own memory does not come from our allocator. */
#ifndef TDG_WEB_CURL_LOOP_H
#define TDG_WEB_CURL_LOOP_H

#include <curl/curl.h>
#include <uv.h>

typedef struct tdg__curl tdg__curl_t; /* easy handles that share their connections */

/* In libcurl's own callbacks hardly anything is allowed; in these all is. */
typedef struct tdg__curl_calls {
    void (*turn)(void *owner); /* libcurl has worked; before `finished` of what is over */

    /* The transfer is over and its handle has been removed. `job` is CURLOPT_PRIVATE of
     * the handle. */
    void (*finished)(void *job, CURLcode code);
} tdg__curl_calls_t;

/* `calls` is borrowed for ever. Returns 0, TDG_ENOMEM or TDG_ESYSTEM. */
int tdg__curl_create(uv_loop_t *loop, const tdg__curl_calls_t *calls, void *owner,
                     tdg__curl_t **ret);

/* Ends; all handles have been removed. `closed` is called later, from the loop. */
void tdg__curl_close(tdg__curl_t *curl, void (*closed)(void *arg), void *arg);

/* Closes the connections that were kept open, as soon as no transfer runs. */
void tdg__curl_rest(tdg__curl_t *curl);

/* Begins and ends the work on one easy handle. Not from libcurl's callbacks. Returns 0 or
 * TDG_ENOMEM. */
int tdg__curl_add(tdg__curl_t *curl, CURL *easy);
void tdg__curl_remove(tdg__curl_t *curl, CURL *easy);

#endif

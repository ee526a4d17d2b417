/* SPDX-License-Identifier: MIT
 *
 * libcurl's multi interface on a libuv loop: its sockets are polls of the loop, its waits
 * one timer. What is asked, and what becomes of the answer, is the business of whoever
 * adds an easy handle (web.c, source/http/transfer.c).
 *
 * libcurl's own memory does not come from our allocator. */
#ifndef TDG_WEB_CURL_LOOP_H
#define TDG_WEB_CURL_LOOP_H

#include <curl/curl.h>
#include <uv.h>

typedef struct tdg__curl tdg__curl_t; /* easy handles that share their connections */

/* What CURLOPT_PRIVATE of an easy handle points to: the first member of its owner. */
typedef struct tdg__curl_job tdg__curl_job_t;
struct tdg__curl_job {
    /* The transfer is over and the handle has been removed. From outside of libcurl:
     * others may be added and removed, and everything may be closed. */
    void (*finished)(tdg__curl_job_t *job, CURLcode code);
};

/* Returns 0, TDG_ENOMEM or TDG_ESYSTEM. */
int tdg__curl_create(uv_loop_t *loop, tdg__curl_t **ret);

/* Ends; all handles have been removed. `closed` is called later, from the loop. */
void tdg__curl_close(tdg__curl_t *curl, void (*closed)(void *arg), void *arg);

/* Called whenever libcurl has worked, before `finished` of what is over. In libcurl's
 * own callbacks hardly anything is allowed; here all is. */
void tdg__curl_on_turn(tdg__curl_t *curl, void (*turn)(void *arg), void *arg);

/* Closes the connections that were kept open, as soon as no transfer runs. */
void tdg__curl_rest(tdg__curl_t *curl);

/* Begins and ends the work on one easy handle. Not from libcurl's callbacks. Returns 0 or
 * TDG_ENOMEM. */
int tdg__curl_add(tdg__curl_t *curl, CURL *easy);
void tdg__curl_remove(tdg__curl_t *curl, CURL *easy);

#endif

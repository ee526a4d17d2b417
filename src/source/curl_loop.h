/* SPDX-License-Identifier: MIT
 *
 * What curl.c (one request after the other) and curl_loop.c (libcurl on libuv) share. */
#ifndef TDG_SOURCE_CURL_LOOP_H
#define TDG_SOURCE_CURL_LOOP_H

#include <curl/curl.h>

#include "source/curl.h"

/* Begins and ends the work on one easy handle, whose CURLOPT_PRIVATE is what `finished`
 * gets. Returns 0 or TDG_ENOMEM. */
int tdg__curl_add(tdg__curl_t *curl, CURL *easy);
void tdg__curl_remove(tdg__curl_t *curl, CURL *easy);

/* curl.c: the handle has been removed. */
void tdg__transfer_finished(tdg__transfer_t *transfer, CURLcode code);

#endif

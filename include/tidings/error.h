/* SPDX-License-Identifier: MIT */
#ifndef TIDINGS_ERROR_H
#define TIDINGS_ERROR_H

#include <tidings/export.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Every function that can fail returns an int: 0, or a negative code. The comment of each
 * function lists its codes. TDG_EAGAIN always means that nothing happened because too
 * much is waiting already, and that the same call may succeed later.
 *
 * One list, expanded here into constants and in error.c into names and texts. */
#define TDG_ERROR_MAP(X)                                                                 \
    X(EINVAL, -1, "invalid argument")                                                    \
    X(ENOMEM, -2, "out of memory")                                                       \
    X(ENOTFOUND, -3, "no such entry")                                                    \
    X(EAGAIN, -4, "too much is waiting already; retry later")                            \
    X(ETIMEDOUT, -5, "timed out")                                                        \
    X(EENDED, -6, "already closed")                                                      \
    X(EURI, -7, "not a valid URI (RFC 3986, with a scheme)")                             \
    X(ETEMPLATE, -8, "not a valid URI template (RFC 6570)")                              \
    X(EAMBIGUOUS, -9, "the URI template could match one URI in several ways")            \
    X(EFILTER, -10, "not a valid filter")                                                \
    X(ENOTSUP, -11, "not supported")                                                     \
    X(EORDER, -12, "the number of a change does not exceed the last one")                \
    X(EJSON, -13, "not valid JSON")                                                      \
    X(ENUMBER, -14, "a whole number exceeds 64 bits")                                    \
    X(ETOOLARGE, -15, "too large")                                                       \
    X(EREFUSED, -16, "the other side refused")                                           \
    X(ESTREAMS, -20, "too many streams")                                                 \
    X(ESUBSCRIPTIONS, -21, "too many subscriptions on one stream")                       \
    X(ETEMPLATES, -22, "too many template subscriptions on one stream")                  \
    X(EURILEN, -23, "the URI is too long")                                               \
    X(EMETADATA, -24, "the metadata is too large")                                       \
    X(EFILTERSIZE, -25, "the filter is too large")                                       \
    X(EFILTERDEPTH, -26, "the filter is nested too deeply")                              \
    X(EPENDING, -27, "too many URIs wait on one stream")                                 \
    X(ETOTAL, -28,                                                                       \
      "too many subscriptions in all, or their URIs and filters are too large")          \
    X(ESYSTEM, -29, "the operating system refused")                                      \
    X(EUNREACHABLE, -30, "unreachable")

enum {
#define TDG_ERROR_CONSTANT(name, code, text) TDG_##name = (code),
    TDG_ERROR_MAP(TDG_ERROR_CONSTANT)
#undef TDG_ERROR_CONSTANT
};

/* If the operating system refused and the reason is known, the code is the errno with an
 * offset, such as -1000 - EADDRINUSE. The comments of functions that return such codes
 * list "a code of the system". Returns the errno of such a code, and 0 for every other
 * code. */
static inline int tdg_system_error(int code) {
    return code < -1000 ? -1000 - code : 0;
}

/* A sentence for people, without a full stop: "out of memory". Borrowed for ever.
 * 0 gives "success"; a code of the system gives the text of its errno, in English; any
 * other number gives "unknown error". */
TDG_API const char *tdg_strerror(int code);

/* The name of the constant, such as "TDG_ENOMEM", or "EADDRINUSE" for a code of the
 * system; "TDG_OK" for 0, "TDG_UNKNOWN" for any other number. Borrowed for ever. */
TDG_API const char *tdg_error_name(int code);

#ifdef __cplusplus
}
#endif

#endif

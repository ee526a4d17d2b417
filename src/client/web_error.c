/* SPDX-License-Identifier: MIT */
#include "client/web_error.h"

#include <stdio.h>
#include <string.h>

#include <tidings/error.h>

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
    {CURLE_COULDNT_CONNECT,          TDG_EAWAY,     WITH_SYSTEM, "cannot connect to ",                 ""                                        },
    {CURLE_COULDNT_RESOLVE_HOST,     TDG_EAWAY,     0,           "cannot find the address of ",        ""                                        },
    {CURLE_COULDNT_RESOLVE_PROXY,    TDG_EAWAY,     0,
     "cannot find the address of the proxy to ",                                                       ""                                        },
    {CURLE_OPERATION_TIMEDOUT,       TDG_ETIMEDOUT, 0,           "no connection to ",                  " in time"                                },
    {CURLE_GOT_NOTHING,              TDG_EAWAY,     0,           "",                                   " closed the connection without an answer"},
    {CURLE_PARTIAL_FILE,             TDG_EAWAY,     0,           "",
     " closed the connection in the middle of its answer"                                                                                        },
    {CURLE_RECV_ERROR,               TDG_EAWAY,     WITH_SYSTEM, "the connection to ",                 " broke"                                  },
    {CURLE_SEND_ERROR,               TDG_EAWAY,     WITH_SYSTEM, "the connection to ",                 " broke"                                  },
    {CURLE_SEND_FAIL_REWIND,         TDG_EAWAY,     0,           "the connection to ",
     " broke after the request was sent"                                                                                                         },
    {CURLE_UNSUPPORTED_PROTOCOL,     TDG_EAWAY,     0,           "",                                   " does not answer in HTTP"                },
    {CURLE_WEIRD_SERVER_REPLY,       TDG_EAWAY,     WITH_WORDS,  "",                                   " does not answer in HTTP"                },
    {CURLE_PEER_FAILED_VERIFICATION, TDG_EREFUSED,  WITH_WORDS,  "the certificate of ",
     " is not trusted"                                                                                                                           },
    {CURLE_SSL_ISSUER_ERROR,         TDG_EREFUSED,  WITH_WORDS,  "the certificate of ",
     " is not trusted"                                                                                                                           },
    {CURLE_SSL_INVALIDCERTSTATUS,    TDG_EREFUSED,  WITH_WORDS,  "the certificate of ",
     " is not trusted"                                                                                                                           },
    {CURLE_SSL_CONNECT_ERROR,        TDG_EAWAY,     WITH_WORDS,  "no TLS with ",                       ""                                        },
    {CURLE_OUT_OF_MEMORY,            TDG_ENOMEM,    0,           "out of memory in an exchange with ", ""                                        },
};

static const struct meaning unknown = {CURLE_OK, TDG_EAWAY, WITH_WORDS,
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

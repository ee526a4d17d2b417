/* SPDX-License-Identifier: MIT
 *
 * Streams: whether they open at once, whether events arrive when they are sent, and
 * whether idle streams stay open. These are the places where proxies interfere.
 *
 * Each defect is reported by one check: the headers are late (stream.head), the headers
 * arrive but the bytes that must follow do not (stream.first-byte), keep-alives arrive in
 * bursts (stream.buffering), there are none (stream.keepalive), the stream is cut off
 * (stream.idle). */
#include "doctor/doctor.h"

#define FIX_BUFFERING                                                                    \
    "A proxy or a compressing layer buffers the stream. nginx: "                         \
    "proxy_buffering off; gzip off for text/event-stream; proxy_read_timeout 1h. "       \
    "Caddy: flush_interval -1. Apache: ProxyPass ... flushpackets=on, and no "           \
    "mod_deflate "                                                                       \
    "for text/event-stream. HAProxy: no option http-buffer-response, no compression. "   \
    "CDNs: switch caching and transformations off for this path. In a server: write "    \
    "the head and each event at once (Node: res.flushHeaders())."

/* Lumps closer together than this count as one, and gaps shorter as none. */
enum { LUMP_US = 20 * 1000, GAP_US = 400 * 1000, LONGEST_SILENCE_MS = 55000 };

static const char *what_opened(const doctor_t *doctor) {
    return doctor->era == DOCTOR_MODERN ? "opened subscriptions/listen for list changes"
                                        : "opened the GET stream of a session";
}

/* ---- Opening ------------------------------------------------------------------ */

static void check_head(doctor_t *doctor) {
    const doctor_call_t *seen = doctor->held[doctor->era].silent;
    double ms;

    doctor_did(doctor, "%s", what_opened(doctor));
    if (seen == NULL) {
        doctor_skip(doctor, "no session could be started");
        return;
    }
    if (!seen->headed) {
        doctor_saw(
            doctor, "no response headers within %.1f s (%s), while requests are answered",
            doctor_ms(seen->began_us, seen->over ? seen->over_us : doctor_now_us()) /
                1000,
            seen->error[0] != '\0' ? seen->error : "still waiting");
        doctor_bad(doctor, DOCTOR_FAILED, FIX_BUFFERING);
        return;
    }
    ms = doctor_ms(seen->began_us, seen->head_us);
    doctor_saw(doctor, "the response headers arrived after %.1f ms", ms);
    doctor_fact(doctor, "head_us", (json_int_t)(seen->head_us - seen->began_us));
    if (ms > DOCTOR_SOON_MS)
        doctor_bad(doctor, DOCTOR_FAILED, FIX_BUFFERING);
}

static void check_open(doctor_t *doctor) {
    const doctor_call_t *seen = doctor->held[doctor->era].silent;

    doctor_did(doctor, "%s", what_opened(doctor));
    if (seen == NULL || !seen->headed) {
        doctor_skip(doctor, "the stream did not open, see stream.head");
        return;
    }
    doctor_saw(doctor, "HTTP %d, %s", seen->status,
               seen->type[0] != '\0' ? seen->type : "no Content-Type");
    if (seen->status == 405 && doctor->era == DOCTOR_LEGACY) {
        doctor_bad(doctor, DOCTOR_WARNING,
                   "The server has no GET stream, so updates cannot reach its clients: "
                   "they have to poll. Offer one, or put `tidings serve` in front.");
    } else if (seen->status != 200) {
        doctor_bad(doctor, DOCTOR_FAILED,
                   "Answer a stream with 200 and text/event-stream. Does the proxy pass "
                   "the method (GET and POST), with the headers Accept, Mcp-Session-Id "
                   "and MCP-Protocol-Version?");
    } else if (!seen->is_stream) {
        doctor_bad(doctor, DOCTOR_FAILED,
                   "Send Content-Type: text/event-stream; otherwise clients do not "
                   "recognise the stream.");
    }
}

static void check_first_byte(doctor_t *doctor) {
    const doctor_call_t *seen = doctor_silent(doctor);
    double ms;

    doctor_did(doctor, "%s", what_opened(doctor));
    if (seen == NULL)
        return;
    if (seen->bytes == 0 && doctor->era == DOCTOR_LEGACY) {
        doctor_skip(doctor, "this server sends nothing when a stream opens");
        return;
    }
    if (seen->bytes == 0) {
        doctor_saw(
            doctor,
            "the headers arrived, and then nothing for %.1f s, but the "
            "acknowledgement must come first",
            doctor_ms(seen->head_us, seen->over ? seen->over_us : doctor_now_us()) /
                1000);
        doctor_bad(doctor, DOCTOR_FAILED, FIX_BUFFERING);
        return;
    }
    ms = doctor_ms(seen->head_us, seen->first_us);
    doctor_saw(doctor, "the first byte arrived %.1f ms after the headers", ms);
    doctor_fact(doctor, "first_byte_us", (json_int_t)(seen->first_us - seen->head_us));
    if (ms > DOCTOR_SOON_MS && doctor->era == DOCTOR_MODERN)
        doctor_bad(doctor, DOCTOR_FAILED, FIX_BUFFERING);
}

/* ---- Signs of life ---------------------------------------------------------------- */

struct signs {
    size_t count;        /* comments, and messages after the first */
    size_t lumps;        /* of more than one comment, after a gap */
    size_t largest;      /* lump */
    uint64_t gap_us;     /* before it */
    uint64_t longest_us; /* between two, or between the opening and the first */
};

static void measure(const doctor_call_t *seen, struct signs *ret) {
    uint64_t last_us = seen->head_us, before_us = 0;
    size_t lump = 0;

    *ret = (struct signs){.count = 0};
    for (size_t i = 0; i < seen->count; i++) {
        const doctor_heard_t *heard = &seen->heard[i];
        uint64_t gap_us = heard->at_us - last_us;

        if (heard->message != NULL) {
            last_us = heard->at_us;
            lump = 0;
            continue;
        }
        ret->count++;
        if (gap_us > ret->longest_us)
            ret->longest_us = gap_us;
        if (gap_us > GAP_US)
            before_us = gap_us;
        lump = gap_us > GAP_US ? 1 : lump > 0 && gap_us < LUMP_US ? lump + 1 : 0;
        if (lump == 2)
            ret->lumps++;
        if (lump > ret->largest) {
            ret->largest = lump;
            ret->gap_us = before_us;
        }
        last_us = heard->at_us;
    }
}

static double held_s(const doctor_t *doctor, const doctor_call_t *seen) {
    return doctor_ms(seen->head_us,
                     seen->over ? seen->over_us : doctor->held[doctor->era].held_us) /
           1000;
}

static void check_buffering(doctor_t *doctor) {
    const doctor_call_t *seen = doctor_silent(doctor);
    struct signs signs;

    if (seen->bytes == 0) {
        doctor_skip(doctor, "nothing arrived, see %s",
                    doctor->era == DOCTOR_MODERN ? "stream.first-byte"
                                                 : "stream.keepalive");
        return;
    }
    measure(seen, &signs);
    if (signs.lumps > 0 && doctor->stalled_us * 3 > signs.gap_us) {
        doctor_skip(doctor, "this machine was too busy to measure arrival times");
    } else if (signs.lumps > 0) {
        doctor_saw(doctor, "up to %zu keep-alives at the same moment, after silence",
                   signs.largest);
        doctor_bad(doctor, DOCTOR_FAILED, FIX_BUFFERING);
    } else if (signs.count > 1) {
        doctor_saw(doctor, "%zu keep-alives, one by one", signs.count);
    } else {
        doctor_saw(doctor, "a small message arrived by itself, %.1f ms after the headers",
                   doctor_ms(seen->head_us, seen->first_us));
    }
    doctor_fact(doctor, "bursts", (json_int_t)signs.lumps);
}

static void check_keepalive(doctor_t *doctor) {
    const doctor_call_t *seen = doctor_silent(doctor);
    struct signs signs;

    doctor_did(doctor, "held an idle stream open for %.1f s",
               seen != NULL ? held_s(doctor, seen) : 0);
    if (seen == NULL)
        return;
    measure(seen, &signs);
    if (seen->over && signs.count == 0) {
        doctor_skip(doctor, "the stream ended first, see stream.idle");
        return;
    }
    if (seen->bytes == 0 && doctor_nothing_passes(doctor)) {
        doctor_skip(doctor, "nothing arrived, see stream.first-byte");
        return;
    }
    doctor_fact(doctor, "keepalives", (json_int_t)signs.count);
    doctor_fact(doctor, "longest_silence_us", (json_int_t)signs.longest_us);
    if (signs.count == 0)
        doctor_saw(doctor, "no keep-alive bytes");
    else
        doctor_saw(doctor, "%zu keep-alive%s, at most %.1f s apart", signs.count,
                   signs.count == 1 ? "" : "s", (double)signs.longest_us / 1e6);
    if (signs.count == 0 || signs.longest_us > (uint64_t)LONGEST_SILENCE_MS * 1000)
        doctor_bad(
            doctor, DOCTOR_WARNING,
            "Proxies cut idle connections: nginx and many load balancers after 60 s, one "
            "CDN after 125 s. Let the server write a comment (a line with a colon) every "
            "15 s or so; `tidings serve` does that (keepalive in its config). If the "
            "server sends them more rarely than this check waited, try --idle 150s.");
}

static void check_idle(doctor_t *doctor) {
    const doctor_call_t *seen = doctor_silent(doctor);

    doctor_fact(doctor, "held_ms", (json_int_t)(held_s(doctor, seen) * 1000));
    if (!seen->over) {
        doctor_saw(doctor, "still open after %.1f s", held_s(doctor, seen));
        return;
    }
    if (seen->code == 0 && seen->message != NULL) {
        doctor_saw(doctor, "the server ended it after %.1f s, as the protocol requires",
                   held_s(doctor, seen));
        doctor_bad(doctor, DOCTOR_WARNING,
                   "Clients reconnect, but that has a cost. Let streams live longer "
                   "(tidings serve: stream-lifetime).");
        return;
    }
    doctor_saw(doctor, "cut off after %.1f s%s%s", held_s(doctor, seen),
               seen->error[0] != '\0' ? ": " : "", seen->error);
    doctor_bad(doctor, DOCTOR_FAILED,
               "Let idle streams live: nginx proxy_read_timeout 1h; Apache "
               "ProxyTimeout 3600; HAProxy timeout server 1h and timeout tunnel 1h; AWS "
               "load balancers: idle timeout; a server's own limit on requests (Node: "
               "server.requestTimeout, gunicorn: --timeout). Also let the server write a "
               "comment more often than that: `tidings serve` has keepalive.");
}

/* ---- The acknowledgement ------------------------------------------------------------
 */

/* The id that a message names as its subscription. */
static bool has_subscription(const json_t *message, json_int_t id) {
    const json_t *meta = json_object_get(json_object_get(message, "params"), "_meta");
    const json_t *given = json_object_get(meta, DOCTOR_META "subscriptionId");

    return json_is_integer(given) && json_integer_value(given) == id;
}

static void judge_acknowledgement(doctor_t *doctor, const json_t *message,
                                  json_int_t id) {
    const json_t *params = json_object_get(message, "params");
    const json_t *named = json_object_get(json_object_get(params, "notifications"),
                                          "resourceSubscriptions");
    size_t asked = json_array_size(doctor_uris(doctor));

    if (!has_subscription(message, id)) {
        doctor_saw(doctor, "the id of the listen is missing");
        doctor_bad(doctor, DOCTOR_FAILED,
                   "`_meta` of the acknowledgement must have \"" DOCTOR_META
                   "subscriptionId\" with the id of the request, of the same type.");
    }
    doctor_saw(doctor, "it lists %zu of %zu resource%s", json_array_size(named), asked,
               asked == 1 ? "" : "s");
    if (asked > 0 && json_array_size(named) == 0)
        doctor_bad(doctor, DOCTOR_FAILED,
                   "The acknowledgement has to list every subscribed resource. Let "
                   "clients subscribe to all listed resources.");
    else if (json_array_size(named) < asked)
        doctor_bad(doctor, DOCTOR_WARNING,
                   "Some resources cannot be subscribed to: clients are not notified "
                   "when these change.");
}

/* The notifications before the acknowledgement. */
static size_t count_early(const doctor_call_t *listen, const doctor_heard_t *found) {
    size_t count = 0;

    for (const doctor_heard_t *heard = listen->heard; heard < found; heard++)
        count += json_object_get(heard->message, "method") != NULL;
    return count;
}

static void check_acknowledged(doctor_t *doctor) {
    const doctor_call_t *listen = doctor->held[doctor->era].updates;
    const doctor_heard_t *found;
    size_t early, count = json_array_size(doctor_uris(doctor));

    doctor_did(doctor, "opened subscriptions/listen for %zu resource%s", count,
               count == 1 ? "" : "s");
    if (doctor->url != NULL && (!listen->is_stream || listen->bytes == 0)) {
        doctor_skip(
            doctor,
            "nothing arrived, see stream.head, stream.open and stream.first-byte");
        return;
    }
    found = doctor_acknowledgement(listen);
    if (found == NULL) {
        doctor_saw(doctor, "no acknowledgement%s",
                   listen->trouble != NULL ? ", but an error" : "");
        doctor_bad(doctor, DOCTOR_FAILED,
                   "The first message on a listen is " DOCTOR_ACKNOWLEDGED
                   ": without it, clients do not know when notifications begin.");
        return;
    }
    early = count_early(listen, found);
    if (early > 0) {
        doctor_saw(doctor, "%zu notification%s before the acknowledgement", early,
                   early == 1 ? "" : "s");
        doctor_bad(doctor, DOCTOR_FAILED,
                   "Send nothing before the acknowledgement: hold changes back until it "
                   "is written.");
    } else {
        doctor_saw(doctor, "the acknowledgement comes first");
    }
    judge_acknowledgement(doctor, found->message, listen->id);
}

/* Legacy: subscribing is answered, and there is a stream for what follows. */
static void check_subscribed(doctor_t *doctor) {
    const doctor_held_t *held = &doctor->held[doctor->era];
    size_t count;

    count = json_array_size(doctor_uris(doctor));
    doctor_did(doctor, "subscribed to %zu resource%s while a stream was open", count,
               count == 1 ? "" : "s");
    if (!held->subscribed) {
        doctor_skip(doctor, "no subscription was accepted, see capability.subscribe");
        return;
    }
    if (doctor->url == NULL) {
        doctor_saw(doctor, "answered");
    } else if (!held->updates->headed) {
        doctor_skip(doctor, "the stream did not open, see stream.head");
    } else if (held->updates->status != 200) {
        doctor_skip(doctor, "the stream is missing, see stream.open");
    } else {
        doctor_saw(doctor, "answered, and the stream is open");
    }
}

const doctor_check_t doctor_stream_checks[] = {
    {"stream.head", "A stream opens at once", NULL, DOCTOR_SILENT, check_head},
    {"stream.open", "A stream has the right type", NULL, DOCTOR_SILENT, check_open},
    {"stream.first-byte", "The first bytes arrive at once", NULL, DOCTOR_SILENT,
     check_first_byte},
    {"stream.acknowledged", "The acknowledgement comes first", NULL,
     DOCTOR_NEEDS_MODERN | DOCTOR_NEEDS_URI | DOCTOR_NEEDS_STREAMS, check_acknowledged},
    {"stream.subscribed", "Subscribing works while a stream is open", NULL,
     DOCTOR_NEEDS_LEGACY | DOCTOR_NEEDS_URI | DOCTOR_NEEDS_STREAMS, check_subscribed},
    {"stream.buffering", "Nothing on the path buffers events",
     "measured when keep-alive bytes arrived on an idle stream", DOCTOR_ON_SILENT,
     check_buffering},
    {"stream.keepalive", "An idle stream gets keep-alive bytes", NULL, DOCTOR_SILENT,
     check_keepalive},
    {"stream.idle", "An idle stream stays open", "held an idle stream open",
     DOCTOR_ON_SILENT, check_idle},
    {NULL, NULL, NULL, 0, NULL},
};

/* SPDX-License-Identifier: MIT
 *
 * Watches the weather that the example `weather` serves: prints one line per value
 * whenever they change. It waits for events one by one; the client reconnects
 * automatically.
 *
 *     weather_client URL [COUNT]      ends after COUNT updates; default: never */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tidings/client.h>

#define CITY "weather://city/san-francisco"

enum { WAIT_MS = 60000 };

static void print_fact(const char *name, const json_t *value, const char *unit) {
    if (json_is_number(value))
        printf("  %s: %g%s\n", name, json_number_value(value), unit);
    else
        printf("  %s: %s\n", name,
               json_is_string(value) ? json_string_value(value) : "?");
}

static void print_weather(const char *uri, const json_t *weather) {
    printf("Weather update for %s:\n", uri);
    print_fact("Temperature", json_object_get(weather, "temperature"), "°F");
    print_fact("Humidity", json_object_get(weather, "humidity"), "%");
    print_fact("Condition", json_object_get(weather, "condition"), "");
    fflush(stdout);
}

/* After a gap it is unknown what has changed, so we read. */
static void read_weather(tdg_client_t *client, const char *uri) {
    tdg_failure_t failure = {0};
    json_t *result;

    if (tdg_client_read(client, uri, &result, &failure) < 0) {
        printf("%s cannot be read: %s\n", uri, failure.message);
        tdg_failure_done(&failure);
        return;
    }

    const json_t *first = json_array_get(json_object_get(result, "contents"), 0);
    const char *text = json_string_value(json_object_get(first, "text"));
    json_t *weather = text != NULL ? json_loads(text, 0, NULL) : NULL;
    print_weather(uri, weather);
    json_decref(weather);
    json_decref(result);
}

/* Returns whether it was an update. */
static int handle(tdg_client_t *client, const tdg_event_t *event) {
    switch (event->kind) {
    case TDG_EVENT_UPDATED:
        if (event->metadata != NULL)
            print_weather(event->uri, event->metadata);
        else
            read_weather(client, event->uri);
        return 1;
    case TDG_EVENT_DOWN:
        printf("Connection lost (%s), reconnecting\n", event->message);
        break;
    case TDG_EVENT_UP:
        printf("Reconnected\n");
        break;
    case TDG_EVENT_LOST:
        printf("Subscription lost: %s\n", event->message);
        break;
    default:
        break;
    }
    fflush(stdout);
    return 0;
}

/* Until the client has ended, or `updates` updates have arrived. */
static int listen_for(tdg_client_t *client, int updates) {
    tdg_event_t *event;

    for (;;) {
        int rv = tdg_client_next(client, WAIT_MS, &event);
        if (rv == TDG_ETIMEDOUT) {
            printf("Still listening for weather updates\n");
            fflush(stdout);
            continue;
        }
        if (rv < 0)
            return rv;

        int updated = handle(client, event);
        tdg_event_free(event);
        if (updated && updates > 0 && --updates == 0)
            return 0;
    }
}

static int help(FILE *out) {
    fputs("usage: weather_client [URL [COUNT]]\n\n"
          "Prints the weather that the example `weather` serves at URL (default\n"
          "http://127.0.0.1:8080) whenever it changes. Ends after COUNT updates or on "
          "Ctrl-C.\n",
          out);
    return out == stdout ? 0 : 2;
}

int main(int argc, char **argv) {
    tdg_client_opts_t opts = {.url = argc > 1 ? argv[1] : "http://127.0.0.1:8080"};
    tdg_failure_t failure = {0};
    tdg_client_t *client = NULL;

    if (argc > 1 && argv[1][0] == '-')
        return help(strcmp(argv[1], "--help") == 0 ? stdout : stderr);

    int rv = tdg_client_connect(&opts, &client, &failure);
    if (rv == 0)
        rv = tdg_client_subscribe(client, CITY, NULL, &failure);
    if (rv == 0) {
        printf("Subscribed to " CITY "\n");
        fflush(stdout);
        rv = listen_for(client, argc > 2 ? atoi(argv[2]) : 0);
    }
    if (rv < 0)
        fprintf(stderr, "weather_client: %s\n",
                failure.message[0] != '\0' ? failure.message : tdg_strerror(rv));
    tdg_failure_done(&failure);
    tdg_client_close(client);
    return rv < 0;
}

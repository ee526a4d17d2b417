/* SPDX-License-Identifier: MIT
 *
 * A weather service: one resource that changes every few seconds, and a template for
 * other cities. Subscribers are notified, with the new values as metadata.
 *
 *     weather [PORT [SECONDS]]        default: port 8080 (0: a free one), every 30 s */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <threads.h>
#include <time.h>

#include <tidings/tidings.h>

#define CITY "weather://city/san-francisco"

static mtx_t lock;
static double temperature = 72.5;
static int humidity = 65;
static const char *condition = "Partly Cloudy";
static int seconds = 30;

/* Returns a new object with the current weather; the caller releases it. */
static json_t *weather_now(void) {
    mtx_lock(&lock);
    json_t *weather = json_pack("{s:f, s:i, s:s}", "temperature", temperature, "humidity",
                                humidity, "condition", condition);
    mtx_unlock(&lock);
    return weather;
}

static void read_weather(void *user, tdg_request_t *request, const char *uri) {
    (void)user;
    if (strcmp(uri, CITY) != 0) {
        tdg_request_fail_not_found(request); /* the template allows any city */
        return;
    }

    json_t *weather = weather_now();
    char *text = weather != NULL ? json_dumps(weather, JSON_REAL_PRECISION(4)) : NULL;
    tdg_request_reply_text(request, text);
    free(text);
    json_decref(weather);
}

/* Simulates a sensor. */
static void weather_changes(void) {
    static const char *const conditions[] = {"Sunny", "Partly Cloudy", "Foggy", "Rain"};

    mtx_lock(&lock);
    temperature += (rand() % 9 - 4) / 4.0;
    humidity = 40 + rand() % 50;
    condition = conditions[rand() % 4];
    mtx_unlock(&lock);
}

static int watch_the_sky(void *arg) {
    tdg_server_t *server = arg;
    struct timespec period = {.tv_sec = seconds};

    for (;;) {
        thrd_sleep(&period, NULL);
        weather_changes();
        tdg_server_notify_updated(server, CITY, weather_now());
    }
    return 0;
}

static int help(FILE *out) {
    fputs("usage: weather [PORT [SECONDS]]\n\n"
          "Serves " CITY " over HTTP on PORT (default 8080; 0: any\n"
          "free port), with new values every SECONDS (default 30). Ctrl-C stops it.\n",
          out);
    return out == stdout ? 0 : 2;
}

int main(int argc, char **argv) {
    tdg_server_opts_t opts = {.name = "weather", .title = "Weather of San Francisco"};
    tdg_listen_opts_t http = {.port = (uint16_t)(argc > 1 ? atoi(argv[1]) : 8080)};
    tdg_resource_t city = {.uri = CITY,
                           .name = "san-francisco",
                           .title = "Weather in San Francisco",
                           .mime_type = "application/json",
                           .read = read_weather};
    tdg_template_t cities = {.uri_template = "weather://city/{name}",
                             .name = "city",
                             .mime_type = "application/json",
                             .read = read_weather};
    tdg_server_t *server = NULL;
    thrd_t monitor;

    if (argc > 1 && (argv[1][0] < '0' || argv[1][0] > '9'))
        return help(strcmp(argv[1], "--help") == 0 ? stdout : stderr);
    if (argc > 2 && atoi(argv[2]) > 0)
        seconds = atoi(argv[2]);
    mtx_init(&lock, mtx_plain);

    int rv = tdg_server_create(&opts, &server);
    if (rv == 0)
        rv = tdg_server_add_resource(server, &city);
    if (rv == 0)
        rv = tdg_server_add_template(server, &cities);
    if (rv == 0)
        rv = tdg_server_listen(server, &http);
    if (rv == 0) {
        printf("http://127.0.0.1:%u/mcp\n", tdg_server_port(server, 0));
        fflush(stdout);
        thrd_create(&monitor, watch_the_sky, server);
        thrd_detach(monitor);
        rv = tdg_server_run(server); /* until Ctrl-C */
    }
    if (rv < 0)
        fprintf(stderr, "weather: cannot serve on port %u: %s\n", http.port,
                rv == TDG_ESYSTEM ? strerror(errno) : tdg_strerror(rv));
    /* The monitor may be inside the server, so it is left to the end of the process. */
    return rv < 0;
}

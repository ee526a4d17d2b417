/* SPDX-License-Identifier: MIT */
#include "source/postgres/pg_params.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <libpq-fe.h>

#include <tidings/error.h>

#include "base/alloc.h"

/* As the trigger has them: a key is written in one way only. */
static const char fixed_settings[] =
    "-c default_transaction_read_only=on -c DateStyle=ISO,YMD -c TimeZone=UTC "
    "-c IntervalStyle=postgres -c extra_float_digits=1 -c bytea_output=hex "
    "-c standard_conforming_strings=on";

/* tcp_user_timeout also limits how long libpq waits for the connection of a cancel
 * request (from version 15 on). A source that is closed waits for that, too. */
static const struct {
    const char *keyword, *value;
    bool always;
} added[] = {
    {"application_name", "tidings", false}, {"keepalives", "1", false},
    {"keepalives_idle", "30", false},       {"keepalives_interval", "10", false},
    {"keepalives_count", "3", false},       {"tcp_user_timeout", "30000", false},
    {"client_encoding", "UTF8", true},
};

static const char *given(const tdg__pg_params_t *params, const char *keyword) {
    for (const PQconninfoOption *o = params->options; o->keyword != NULL; o++)
        if (strcmp(o->keyword, keyword) == 0)
            return o->val != NULL && o->val[0] != '\0' ? o->val : NULL;
    return NULL;
}

static const char *given_or_env(const tdg__pg_params_t *params, const char *keyword,
                                const char *variable) {
    const char *value = given(params, keyword);

    return value != NULL ? value : getenv(variable);
}

/* Cuts a list at its commas. Returns the number of items, or a code. */
static int split(const char *list, char **items) {
    int count = 0;

    for (;;) {
        size_t len = strcspn(list, ",");

        if (count == TDG__PG_MAX_HOSTS)
            return TDG_EINVAL;
        items[count] = tdg__strndup(list, len);
        if (items[count] == NULL)
            return TDG_ENOMEM;
        count++;
        if (list[len] == '\0')
            return count;
        list += len + 1;
    }
}

static bool is_name(const char *host) {
    unsigned char address[sizeof(struct in6_addr)];

    return host[0] != '\0' && host[0] != '/' && host[0] != '@' &&
           inet_pton(AF_INET, host, address) != 1 &&
           inet_pton(AF_INET6, host, address) != 1;
}

static int read_hosts(tdg__pg_params_t *params) {
    const char *hosts = given_or_env(params, "host", "PGHOST");
    const char *ports = given_or_env(params, "port", "PGPORT");
    int count, port_count;

    if (hosts == NULL || given_or_env(params, "hostaddr", "PGHOSTADDR") != NULL ||
        given_or_env(params, "service", "PGSERVICE") != NULL)
        return 0;

    count = split(hosts, params->hosts);
    if (count < 0)
        return count;
    port_count = split(ports != NULL ? ports : "", params->ports);
    if (port_count < 0)
        return port_count;
    if (port_count != 1 && port_count != count)
        return TDG_EINVAL;
    for (int i = port_count; i < count; i++) {
        params->ports[i] = tdg__strdup(params->ports[0]);
        if (params->ports[i] == NULL)
            return TDG_ENOMEM;
    }
    params->host_count = (size_t)count;
    return 0;
}

/* Ours come last: of a setting that is there twice, the last counts. */
static int write_settings(tdg__pg_params_t *params, int64_t timeout_ms) {
    const char *theirs = given_or_env(params, "options", "PGOPTIONS");
    size_t size = (theirs != NULL ? strlen(theirs) : 0) + sizeof(fixed_settings) + 64;

    params->settings = tdg__malloc(size);
    if (params->settings == NULL)
        return TDG_ENOMEM;
    snprintf(params->settings, size, "%s%s%s -c statement_timeout=%" PRId64,
             theirs != NULL ? theirs : "", theirs != NULL ? " " : "", fixed_settings,
             timeout_ms);
    return 0;
}

int tdg__pg_params_init(tdg__pg_params_t *params, const char *conninfo,
                        int64_t timeout_ms) {
    char *message = NULL;
    int rv;

    *params = (tdg__pg_params_t){.count = 0};
    params->options = PQconninfoParse(conninfo, &message);
    if (params->options == NULL) {
        rv = message != NULL ? TDG_EINVAL : TDG_ENOMEM;
        PQfreemem(message);
        return rv;
    }

    rv = read_hosts(params);
    if (rv == 0)
        rv = write_settings(params, timeout_ms);
    if (rv < 0)
        tdg__pg_params_done(params);
    return rv;
}

void tdg__pg_params_forget(tdg__pg_params_t *params) {
    tdg__free(params->host_list);
    tdg__free(params->address_list);
    tdg__free(params->port_list);
    params->host_list = params->address_list = params->port_list = NULL;
    params->address_count = 0;
}

void tdg__pg_params_done(tdg__pg_params_t *params) {
    tdg__pg_params_forget(params);
    for (size_t i = 0; i < TDG__PG_MAX_HOSTS; i++) {
        tdg__free(params->hosts[i]);
        tdg__free(params->ports[i]);
    }
    tdg__free(params->settings);
    PQconninfoFree(params->options);
    *params = (tdg__pg_params_t){.count = 0};
}

bool tdg__pg_params_wants(const tdg__pg_params_t *params, size_t i) {
    return is_name(params->hosts[i]);
}

static int append(char **list, bool first, const char *item) {
    size_t len = *list != NULL ? strlen(*list) : 0, size = len + strlen(item) + 2;
    char *longer = tdg__realloc(*list, size);

    if (longer == NULL)
        return TDG_ENOMEM;
    snprintf(longer + len, size - len, "%s%s", first ? "" : ",", item);
    *list = longer;
    return 0;
}

int tdg__pg_params_add(tdg__pg_params_t *params, size_t i, const struct sockaddr *addr) {
    char text[INET6_ADDRSTRLEN] = "";
    bool first = params->address_count == 0;

    if (params->address_count == TDG__PG_MAX_ADDRESSES)
        return 0;
    if (addr != NULL && addr->sa_family == AF_INET)
        inet_ntop(AF_INET, &((const struct sockaddr_in *)(const void *)addr)->sin_addr,
                  text, sizeof(text));
    else if (addr != NULL && addr->sa_family == AF_INET6)
        inet_ntop(AF_INET6, &((const struct sockaddr_in6 *)(const void *)addr)->sin6_addr,
                  text, sizeof(text));

    if (append(&params->host_list, first, params->hosts[i]) < 0 ||
        append(&params->address_list, first, text) < 0 ||
        append(&params->port_list, first, params->ports[i]) < 0)
        return TDG_ENOMEM;
    params->address_count++;
    return 0;
}

static void set(tdg__pg_params_t *params, const char *keyword, const char *value) {
    for (size_t i = 0; i < params->count; i++) {
        if (strcmp(params->keywords[i], keyword) == 0) {
            params->values[i] = value;
            return;
        }
    }
    if (params->count + 1 < TDG__PG_MAX_PARAMS) {
        params->keywords[params->count] = keyword;
        params->values[params->count++] = value;
    }
}

void tdg__pg_params_finish(tdg__pg_params_t *params) {
    params->count = 0;
    for (const PQconninfoOption *o = params->options; o->keyword != NULL; o++)
        if (o->val != NULL)
            set(params, o->keyword, o->val);
    for (size_t i = 0; i < sizeof(added) / sizeof(added[0]); i++)
        if (added[i].always || given(params, added[i].keyword) == NULL)
            set(params, added[i].keyword, added[i].value);
    set(params, "options", params->settings);
    if (params->address_count > 0) {
        set(params, "host", params->host_list);
        set(params, "hostaddr", params->address_list);
        set(params, "port", params->port_list);
    }
    params->keywords[params->count] = NULL;
    params->values[params->count] = NULL;
}

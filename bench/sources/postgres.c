/* SPDX-License-Identifier: MIT
 *
 * A cluster of its own, in the temporary folder, on a socket there. */
#include <errno.h>
#include <glob.h>
#include <pwd.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <libpq-fe.h>

#include "sources.h"

static char conninfo[512];
static PGconn *conn;

static bool find_program(const char *name, char *path, size_t size) {
    char pattern[128];
    glob_t found;
    bool there;

    snprintf(pattern, sizeof(pattern), "/usr/lib/postgresql/*/bin/%s", name);
    there = glob(pattern, 0, NULL, &found) == 0;
    if (there)
        snprintf(path, size, "%s", found.gl_pathv[found.gl_pathc - 1]);
    globfree(&found);
    return there;
}

const char *sources_postgres_missing(void) {
    char path[512];

    return find_program("initdb", path, sizeof(path))
               ? NULL
               : "the package postgresql is not installed";
}

static void make_folder(const char *path) {
    struct passwd *user = geteuid() == 0 ? getpwnam("postgres") : NULL;

    if (user == NULL && geteuid() == 0)
        user = getpwnam("nobody");
    if (mkdir(path, 0700) < 0 ||
        (user != NULL && chown(path, user->pw_uid, user->pw_gid) < 0))
        sources_fail("cannot make %s: %s", path, strerror(errno));
}

static void connect_to_it(void) {
    uint64_t end = bench_now_ns() + SOURCES_PATIENCE_S * (uint64_t)1000000000;

    while (PQstatus(conn = PQconnectdb(conninfo)) != CONNECTION_OK) {
        if (bench_now_ns() > end)
            sources_fail("PostgreSQL does not answer: %s", PQerrorMessage(conn));
        PQfinish(conn);
        sources_sleep_until(bench_now_ns() + 20000000);
    }
}

static void run_sql(const char *sql) {
    PGresult *result = PQexec(conn, sql);

    if (PQresultStatus(result) != PGRES_COMMAND_OK)
        sources_fail("postgres: %s", PQresultErrorMessage(result));
    PQclear(result);
}

void sources_postgres_prepare(const sources_world_t *world) {
    char initdb[512], postgres[512], folder[300], data[320];
    const char *make[] = {initdb,  "-D",     data,         "-U",        "postgres", "-A",
                          "trust", "-EUTF8", "--locale=C", "--no-sync", NULL};
    const char *serve[] = {
        postgres, "-D", data, "-k", folder, "-c", "listen_addresses=", NULL};
    const char *install[] = {world->tidings, "postgres", "install", "--table", "notes",
                             "--key",        "id",       "--apply", conninfo,  NULL};

    find_program("initdb", initdb, sizeof(initdb));
    find_program("postgres", postgres, sizeof(postgres));
    snprintf(folder, sizeof(folder), "%s/postgres", world->folder);
    snprintf(data, sizeof(data), "%s/data", folder);
    snprintf(conninfo, sizeof(conninfo), "host=%s user=postgres dbname=postgres", folder);
    make_folder(folder);
    sources_run(world, make, "initdb.log", true);
    sources_start(world, serve, "postgres.log", true);
    connect_to_it();
    run_sql("CREATE TABLE notes (id integer PRIMARY KEY, note text)");
    run_sql("INSERT INTO notes VALUES (1, '')");
    sources_run(world, install, "install.log", false);
}

void sources_postgres_configure(const sources_world_t *world, FILE *config) {
    (void)world;
    fprintf(config,
            "  - postgres: %s\n    table: notes\n    key: id\n"
            "    uri: bench://notes/{id}\n",
            conninfo);
}

void sources_postgres_change(const sources_world_t *world, sources_wire_t *wires,
                             uint32_t number) {
    char text[SOURCES_CONTENT + 1], sql[SOURCES_CONTENT + 128];

    (void)world, (void)wires;
    sources_content(number, text, sizeof(text));
    snprintf(sql, sizeof(sql), "UPDATE notes SET note = '%s' WHERE id = 1", text);
    run_sql(sql);
}

/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include <sqlite3.h>

#include "sources.h"

static const char mark[] = "change=";

void sources_content(uint32_t number, char *text, size_t size) {
    int len = snprintf(text, size, "%s%08u ", mark, number);

    memset(text + len, '.', size - 1 - (size_t)len);
    text[size - 1] = '\0';
}

uint32_t sources_number(const char *text) {
    unsigned largest = 0, number;

    while ((text = strstr(text, mark)) != NULL) {
        text += sizeof(mark) - 1;
        if (sscanf(text, "%8u", &number) == 1 && number > largest)
            largest = number;
    }
    return largest;
}

/* ---- Memory and webhook: a POST to every server, the subscriber's first -- */

static const char key_header[] = "Authorization: Bearer bench\r\n";

static void configure_memory(const sources_world_t *world, FILE *config) {
    (void)world;
    fprintf(config, "  - memory: bench://memory\n");
}

static void publish(const sources_world_t *world, sources_wire_t *wires,
                    uint32_t number) {
    char text[SOURCES_CONTENT + 1], body[SOURCES_CONTENT + 128];

    (void)world;
    sources_content(number, text, sizeof(text));
    snprintf(body, sizeof(body), "{\"uri\":\"bench://memory\",\"content\":\"%s\"}", text);
    for (int audience = 0; audience < AUDIENCES; audience++)
        sources_wire_post(&wires[audience], "/publish", key_header, body);
}

static void configure_webhook(const sources_world_t *world, FILE *config) {
    (void)world;
    fprintf(config, "  - webhook: /hooks/bench\n    secret: bench\n"
                    "    signature: bearer\n    uri: bench://webhook\n");
}

static void call_webhook(const sources_world_t *world, sources_wire_t *wires,
                         uint32_t number) {
    char text[SOURCES_CONTENT - 1], body[SOURCES_CONTENT + 1];

    (void)world;
    sources_content(number, text, sizeof(text));
    snprintf(body, sizeof(body), "\"%s\"", text);
    for (int audience = 0; audience < AUDIENCES; audience++)
        sources_wire_post(&wires[audience], "/hooks/bench", key_header, body);
}

/* ---- Files -------------------------------------------------------------- */

static void write_file(const char *path, int flags, const char *text) {
    size_t len = strlen(text);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | flags, 0644);

    if (fd < 0 || write(fd, text, len) != (ssize_t)len || close(fd) < 0)
        sources_fail("cannot write %s: %s", path, strerror(errno));
}

static void path_of(const sources_world_t *world, const char *name, char *path,
                    size_t size) {
    snprintf(path, size, "%s/%s", world->folder, name);
}

static void configure_files(const sources_world_t *world, FILE *config) {
    fprintf(config, "  - files: %s/note.txt\n    uri: bench://files\n", world->folder);
}

/* As editors do it: a new file takes the place of the old one. */
static void replace_file(const sources_world_t *world, sources_wire_t *wires,
                         uint32_t number) {
    char path[512], beside[512], text[SOURCES_CONTENT + 1];

    (void)wires;
    path_of(world, "note.txt", path, sizeof(path));
    path_of(world, ".note.new", beside, sizeof(beside));
    sources_content(number, text, sizeof(text));
    write_file(beside, O_TRUNC, text);
    if (rename(beside, path) < 0)
        sources_fail("cannot rename %s: %s", beside, strerror(errno));
}

/* ---- Log and command: a line is appended -------------------------------- */

static void append(const sources_world_t *world, const char *name, uint32_t number,
                   size_t size) {
    char path[512], line[SOURCES_CONTENT + 1];

    path_of(world, name, path, sizeof(path));
    sources_content(number, line, size + 1);
    line[size - 1] = '\n';
    write_file(path, O_APPEND, line);
}

static void configure_log(const sources_world_t *world, FILE *config) {
    fprintf(config, "  - log: %s/bench.log\n    lines: %d\n    uri: bench://log\n",
            world->folder, SOURCES_LINES);
}

static void append_log(const sources_world_t *world, sources_wire_t *wires,
                       uint32_t number) {
    (void)wires;
    append(world, "bench.log", number, SOURCES_CONTENT / SOURCES_LINES);
}

static void configure_command(const sources_world_t *world, FILE *config) {
    fprintf(config,
            "  - command: [tail, -n, \"1\", -f, %s/output]\n    mode: lines\n"
            "    uri: bench://command\n",
            world->folder);
}

static void append_output(const sources_world_t *world, sources_wire_t *wires,
                          uint32_t number) {
    (void)wires;
    append(world, "output", number, SOURCES_CONTENT);
}

/* ---- SQLite ------------------------------------------------------------- */

static sqlite3 *database;

static void run_sql(const char *sql) {
    if (sqlite3_exec(database, sql, NULL, NULL, NULL) != SQLITE_OK)
        sources_fail("sqlite: %s", sqlite3_errmsg(database));
}

static void prepare_sqlite(const sources_world_t *world) {
    char path[512];

    path_of(world, "bench.db", path, sizeof(path));
    if (sqlite3_open(path, &database) != SQLITE_OK)
        sources_fail("cannot make %s", path);
    sqlite3_busy_timeout(database, SOURCES_PATIENCE_S * 1000);
    run_sql("PRAGMA journal_mode = WAL;"
            "CREATE TABLE notes (id INTEGER PRIMARY KEY, note TEXT);"
            "INSERT INTO notes VALUES (1, '')");
}

static void configure_sqlite(const sources_world_t *world, FILE *config) {
    fprintf(config,
            "  - sqlite: %s/bench.db\n    query: SELECT note FROM notes WHERE id = 1\n"
            "    uri: bench://sqlite\n",
            world->folder);
}

static void update_sqlite(const sources_world_t *world, sources_wire_t *wires,
                          uint32_t number) {
    char text[SOURCES_CONTENT + 1], sql[SOURCES_CONTENT + 128];

    (void)world, (void)wires;
    sources_content(number, text, sizeof(text));
    snprintf(sql, sizeof(sql), "UPDATE notes SET note = '%s' WHERE id = 1", text);
    run_sql(sql);
}

/* ---- The table ---------------------------------------------------------- */

const sources_kind_t sources_kinds[KINDS] = {
    [MEMORY] = {"memory", "bench://memory", NULL, configure_memory, publish},
    [FILES] = {"files", "bench://files", NULL, configure_files, replace_file},
    [LOG] = {"log", "bench://log", NULL, configure_log, append_log},
    [COMMAND] = {"command", "bench://command", NULL, configure_command, append_output},
    [SQLITE] = {"sqlite", "bench://sqlite", prepare_sqlite, configure_sqlite,
                update_sqlite},
    [POSTGRES] = {"postgres", "bench://notes/1", sources_postgres_prepare,
                  sources_postgres_configure, sources_postgres_change},
    [WEBHOOK] = {"webhook", "bench://webhook", NULL, configure_webhook, call_webhook},
    [HTTP] = {"http", "bench://http", sources_backend_prepare, sources_backend_configure,
              sources_backend_change},
};

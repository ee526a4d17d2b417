/* SPDX-License-Identifier: MIT
 *
 * The rows of a query on a database file. All work with the database happens in the
 * thread pool, one job at a time: a query, a check of the version that SQLite maintains
 * for writes by others, or the end of the connection.
 *
 * While it is watched, the version is checked at an interval, and at once when the file
 * changes. A writer changes the file a moment before others can read what it wrote, so
 * that check is repeated twice, a little later.
 *
 *                  watch             first look             look: another version is
 *     UNWATCHED ──────────▶ ARMING ─────────────▶ VERSIONED  a change, of everything
 *         ▲                   │                     │  ▲
 *         │                   │ cannot be read      │  │ look: whatever changed meanwhile
 *         └─ from any state   └───────────────────▶ BLIND
 *
 * BLIND: it cannot be read, or this is another connection, which counts versions by
 * itself. */
#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/queue.h"
#include "source/common/path_watch.h"
#include "source/common/source.h"
#include "source/sqlite/sqlite_db.h"

enum { LOOKS = 2, FIRST_LOOK_MS = 20, SECOND_LOOK_MS = 100 };

static const char *const formats[] = {"json", "csv", NULL};

struct sqlite {
    tdg__source_t source;
    char *path, *query;
    int format;
    int64_t every_ms, max_rows;

    tdg__sqlite_db_t *db; /* the job's, while one runs */
    tdg__queue_t waiting; /* requests */
    struct request *running;
    uv_work_t work;
    tdg__sqlite_result_t result;
    enum { NOTHING, VERSION, QUERY, CLOSE } job, last_job;

    enum { UNWATCHED, ARMING, VERSIONED, BLIND } watching;
    tdg__path_watch_t *watch; /* NULL: UNWATCHED */
    bool look_wanted;
    unsigned looks_left; /* after something happened to the file */
    int64_t version;     /* while VERSIONED */
    uv_timer_t timer;
};

/* A fetch that waits, or runs. */
struct request {
    tdg__queue_t link;   /* while it waits */
    tdg__fetch_t *fetch; /* NULL: cancelled */
    char uri[];
};

#define AT(field) offsetof(struct sqlite, field)

static const tdg__option_t options[] = {
    TDG__OPTION(PATH, path, "sqlite", .flags = TDG__OPTION_REQUIRED, .example = "shop.db",
                .help = "The database file. It is opened for reading only."),
    TDG__OPTION(STRING, query, "query", .flags = TDG__OPTION_REQUIRED | TDG__OPTION_RAW,
                .example = "SELECT id, state FROM orders ORDER BY id",
                .help = "One SELECT. :name is the variable of that name of the `uri`, "
                        "bound as a parameter."),
    TDG__OPTION(CHOICE, format, "format", .fallback = "json", .choices = formats,
                .help = "How rows are served: a JSON array of objects, or CSV with a "
                        "header line."),
    TDG__OPTION(NUMBER, max_rows, "max-rows", .fallback = "1000", .min = 1,
                .max = 1000000, .example = "100",
                .help = "Maximum number of rows; reads of more rows fail with an error."),
    TDG__OPTION(DURATION, every_ms, "every", .fallback = "500ms", .min = 10,
                .max = 24 * 3600 * 1000, .example = "2s",
                .help = "How often tidings checks for writes by other programs, while "
                        "somebody is subscribed. Changes of the file are noticed at once "
                        "in any case."),
    {.name = NULL},
};

/* Only what a reader sees at a glance; SQLite has the last word. */
static int check(tdg__source_t *source, const tdg__node_t *node,
                 tdg__problems_t *problems) {
    static const char *const words[] = {"SELECT", "WITH", "VALUES", "("};
    const char *query = ((struct sqlite *)source)->query;

    /* One query runs, and one is ready to follow; the others take turns (turns.h). */
    source->max_fetches = 2;
    query += strspn(query, " \t\r\n");
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (strncasecmp(query, words[i], strlen(words[i])) == 0)
            return 0;
    return tdg__node_option_problem(
        problems, node, "query",
        "the query must be a SELECT, or begin with WITH or VALUES");
}

static void pump(struct sqlite *sqlite);

/* ---- Watching ----------------------------------------------------------- */

static void on_timer(uv_timer_t *timer) {
    struct sqlite *sqlite = timer->data;

    sqlite->look_wanted = true;
    pump(sqlite);
}

static void set_timer(struct sqlite *sqlite) {
    uint64_t every = (uint64_t)sqlite->every_ms, soon = every;

    if (sqlite->looks_left > 0)
        soon = sqlite->looks_left-- == LOOKS ? FIRST_LOOK_MS : SECOND_LOOK_MS;
    uv_timer_start(&sqlite->timer, on_timer, soon < every ? soon : every, 0);
}

/* A look at the version is over. A database that cannot be read has no version; its
 * return is a change of everything. */
static void on_version(struct sqlite *sqlite, const tdg__sqlite_result_t *result) {
    int before = sqlite->watching;
    bool is_other = result->version != sqlite->version;
    bool changed =
        before == ARMING || (result->status == 0 && (before == BLIND || is_other));

    assert(before != UNWATCHED && sqlite->watch != NULL);
    if (result->status == TDG_EUNREACHABLE && !result->unreachable) {
        set_timer(sqlite); /* busy: the next look finds out */
        return;
    }
    if (before == VERSIONED && changed)
        sqlite->looks_left = 0;
    sqlite->watching = result->status == 0 ? VERSIONED : BLIND;
    sqlite->version = result->version;
    set_timer(sqlite);
    if (changed)
        tdg__source_touch_all(&sqlite->source);
    if (before == ARMING)
        tdg__source_armed(&sqlite->source);
}

static void on_file(tdg__source_t *source) {
    struct sqlite *sqlite = (struct sqlite *)source;

    sqlite->look_wanted = true;
    sqlite->looks_left = LOOKS;
    pump(sqlite);
}

static const tdg__path_watch_ops_t file_ops = {
    .changed = on_file, .instead = "changes are noticed at the interval `every`"};

static int watch(tdg__source_t *source, const tdg_target_t *target) {
    static const char *const also[] = {"-wal", "-journal", NULL};
    struct sqlite *sqlite = (struct sqlite *)source;
    int rv = 0;

    /* Which URIs there are to query is not known. */
    if (target->kind == TDG_TARGET_TEMPLATE)
        return TDG_ENOTSUP;
    if (sqlite->watching == UNWATCHED)
        rv = tdg__path_watch_start(source, sqlite->path, also, &file_ops, &sqlite->watch);
    if (rv < 0)
        return rv;
    if (sqlite->watching == UNWATCHED)
        sqlite->watching = ARMING; /* on_file() follows, with the first look */
    return sqlite->watching == ARMING ? TDG_EAGAIN : 0;
}

static void stop_watching(struct sqlite *sqlite) {
    if (sqlite->watching == UNWATCHED)
        return;
    tdg__path_watch_stop(sqlite->watch);
    sqlite->watch = NULL;
    sqlite->watching = UNWATCHED;
    uv_timer_stop(&sqlite->timer);
    sqlite->look_wanted = false;
    sqlite->looks_left = 0;
}

static void unwatch(tdg__source_t *source, const tdg_target_t *target) {
    struct sqlite *sqlite = (struct sqlite *)source;

    (void)target;
    if (tdg__source_is_watched(source))
        return;
    stop_watching(sqlite);
    pump(sqlite); /* the connection is not needed any more */
}

/* ---- Fetching ----------------------------------------------------------- */

static void fetch_(tdg__source_t *source, tdg__fetch_t *fetch) {
    struct sqlite *sqlite = (struct sqlite *)source;
    struct request *request =
        tdg__fetch_begin(fetch, sizeof(*request) + strlen(fetch->uri) + 1);

    if (request == NULL)
        return;
    request->fetch = fetch;
    strcpy(request->uri, fetch->uri);
    tdg__queue_append(&sqlite->waiting, &request->link);
    pump(sqlite);
}

static void cancel(tdg__source_t *source, tdg__fetch_t *fetch) {
    struct sqlite *sqlite = (struct sqlite *)source;
    struct request *request = fetch->state;

    if (request == sqlite->running) {
        request->fetch = NULL;
        tdg__sqlite_db_stop(sqlite->db, true);
    } else {
        tdg__queue_remove(&request->link);
        tdg__free(request);
    }
    tdg__fetch_failed(fetch, TDG_EUNREACHABLE, "cancelled");
}

static void on_query(struct sqlite *sqlite, const tdg__sqlite_result_t *result) {
    struct request *request = sqlite->running;
    tdg__fetch_t *fetch = request->fetch;

    sqlite->running = NULL;
    tdg__free(request);
    if (fetch == NULL)
        return;
    if (result->status != 0 && result->public != NULL) {
        tdg__fetch_failed_inside(fetch, result->status, result->public, "%s",
                                 result->error);
        return;
    }
    if (result->status != 0) {
        tdg__fetch_failed(fetch, result->status, "%s", result->error);
        return;
    }

    json_t *metadata = json_pack("{s:I,s:I}", "rows", (json_int_t)result->rows,
                                 "data_version", (json_int_t)result->version);

    tdg__fetch_done(fetch,
                    &(tdg__content_t){.data = result->data,
                                      .len = result->len,
                                      .mime_type = sqlite->source.entry.mime_type ? NULL
                                                   : sqlite->format == TDG__ROWS_CSV
                                                       ? "text/csv"
                                                       : "application/json",
                                      .metadata = metadata});
}

/* ---- Jobs --------------------------------------------------------------- */

static void work(uv_work_t *request) {
    struct sqlite *sqlite = request->data;

    switch (sqlite->job) {
    case VERSION:
        tdg__sqlite_db_version(sqlite->db, &sqlite->result);
        break;
    case QUERY:
        tdg__sqlite_db_query(sqlite->db, sqlite->running->uri, &sqlite->result);
        break;
    default:
        tdg__sqlite_db_close(sqlite->db);
    }
}

static void report_reach(struct sqlite *sqlite, const tdg__sqlite_result_t *result) {
    if (result->reopened && sqlite->watching == VERSIONED)
        sqlite->watching = BLIND;
    if (result->unreachable)
        tdg__source_is_away(&sqlite->source, result->error);
    else if (result->status != TDG_EUNREACHABLE)
        tdg__source_is_back(&sqlite->source);
}

static void worked(uv_work_t *request, int status) {
    struct sqlite *sqlite = request->data;
    tdg__sqlite_result_t result = sqlite->result;
    int job = sqlite->job;

    (void)status; /* never cancelled */
    sqlite->job = NOTHING;
    sqlite->result = (tdg__sqlite_result_t){0};
    tdg__sqlite_db_stop(sqlite->db, sqlite->source.closing);
    if (job != CLOSE)
        report_reach(sqlite, &result);
    if (job == QUERY)
        on_query(sqlite, &result);
    else if (job == VERSION && sqlite->watching != UNWATCHED && !sqlite->source.closing)
        on_version(sqlite, &result);
    tdg__free(result.data);
    pump(sqlite);
    tdg__source_let_go(&sqlite->source);
}

/* What is to be done next. */
static int next_job(const struct sqlite *sqlite) {
    bool none_waits = tdg__queue_is_empty(&sqlite->waiting);

    /* In turn: where somebody writes without a pause, there is always something to look
     * at. */
    if ((none_waits || sqlite->last_job != VERSION) && sqlite->look_wanted)
        return VERSION;
    if (!none_waits)
        return QUERY;
    if (sqlite->watching == UNWATCHED && tdg__sqlite_db_is_open(sqlite->db))
        return CLOSE;
    return NOTHING;
}

static void pump(struct sqlite *sqlite) {
    if (sqlite->job != NOTHING)
        return;
    sqlite->job = next_job(sqlite);
    if (sqlite->job == NOTHING)
        return;
    sqlite->last_job = sqlite->job;
    if (sqlite->job == VERSION)
        sqlite->look_wanted = false;
    if (sqlite->job == QUERY)
        sqlite->running = (struct request *)tdg__queue_take(&sqlite->waiting);
    sqlite->work.data = sqlite;
    tdg__source_hold(&sqlite->source);
    (void)uv_queue_work(sqlite->source.host.loop, &sqlite->work, work, worked);
}

/* ---- Life --------------------------------------------------------------- */

static int open_(tdg__source_t *source) {
    struct sqlite *sqlite = (struct sqlite *)source;

    tdg__source_open_timer(source, &sqlite->timer);
    tdg__queue_init(&sqlite->waiting);
    sqlite->db = tdg__sqlite_db_create(
        &(tdg__sqlite_opts_t){.path = sqlite->path,
                              .query = sqlite->query,
                              .template_ = source->template_,
                              .format = (tdg__rows_format_t)sqlite->format,
                              .max_rows = sqlite->max_rows,
                              .max_bytes = (size_t)source->entry.max_size,
                              .timeout_ms = source->entry.timeout_ms});
    return sqlite->db != NULL ? 0 : TDG_ENOMEM;
}

static void close_(tdg__source_t *source) {
    struct sqlite *sqlite = (struct sqlite *)source;

    stop_watching(sqlite);
    tdg__source_close_handle((uv_handle_t *)&sqlite->timer);
    if (sqlite->db == NULL)
        return;
    tdg__sqlite_db_stop(sqlite->db, true);
    pump(sqlite);
}

static void free_(tdg__source_t *source) {
    tdg__sqlite_db_destroy(((struct sqlite *)source)->db);
}

const tdg__source_kind_t tdg__source_sqlite = {
    .name = "sqlite",
    .help = "The rows of a query on an SQLite database.",
    .options = options,
    .uri_example = "shop://orders",
    .size = sizeof(struct sqlite),
    .check = check,
    .open = open_,
    .close = close_,
    .watch = watch,
    .unwatch = unwatch,
    .fetch = fetch_,
    .cancel = cancel,
    .free = free_,
};

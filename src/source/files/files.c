/* SPDX-License-Identifier: MIT */
#include "source/files/files.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"

enum {
    CARE_MS = 2000,       /* how often links and the root itself are looked after */
    LONGEST_RETRY = 2000, /* a folder that is not there costs little to look for */
    AGAIN_MS = 100,       /* the workers soon have room for what was deleted */
    UNWATCHED_POLLS = 15, /* nobody watches: the list is renewed every so many polls */
    DAY_MS = 24 * 60 * 60 * 1000,
};

#define AT(field) offsetof(tdg__files_t, field)

static const tdg__option_t options[] = {
    TDG__OPTION(PATH, path, "files", .flags = TDG__OPTION_REQUIRED, .example = "docs",
                .help = "A file, or a folder with everything in it."),
    TDG__OPTION(STRINGS, include, "include", .example = "\"*.md\"",
                .help =
                    "Globs: only files that match one of them are served. Default: all."),
    TDG__OPTION(STRINGS, exclude, "exclude", .example = "node_modules",
                .help = "Globs: files and folders that match one of them are left out."),
    TDG__OPTION(BOOL, hidden, "hidden", .fallback = "false", .example = "true",
                .help =
                    "Also serve names that begin with a dot, and leftovers of editors "
                    "(x~, #x#, x.bak, x.orig, 4913)."),
    TDG__OPTION(NUMBER, max_files, "max-files", .fallback = "200000", .min = 1,
                .max = 10000000, .example = "10000",
                .help =
                    "Maximum number of served files and folders; further ones are left "
                    "out."),
    TDG__OPTION(
        DURATION, poll_ms, "poll", .fallback = "0s", .max = DAY_MS, .example = "5s",
        .help = "Walk the folder at this interval instead of using inotify. For "
                "network file systems, where the kernel does not report changes of "
                "other machines."),
    TDG__OPTION(DURATION, settle_ms, "settle", .fallback = "500ms", .max = 60 * 1000,
                .example = "2s",
                .help = "How long to wait for the rest of a file that its writer has not "
                        "closed, and for a deleted file to be recreated, as in a save by "
                        "an editor. If the writer never pauses, tidings waits four times "
                        "as long; 0 is no wait."),
    {.name = NULL},
};

/* ---- From the options --------------------------------------------------- */

/* Without "//", "." and "..", and without a slash at the end: "" is the root of all. */
static char *clean_path(const char *path) {
    char *out = tdg__malloc(strlen(path) + 2);
    size_t used = 0;

    if (out == NULL)
        return NULL;
    while (*path != '\0') {
        size_t len = strcspn(path, "/");

        if (len == 2 && path[0] == '.' && path[1] == '.') {
            while (used > 0 && out[--used] != '/') {
            }
        } else if (len > 0 && !(len == 1 && path[0] == '.')) {
            out[used++] = '/';
            memcpy(out + used, path, len);
            used += len;
        }
        path += len + (path[len] == '/');
    }
    out[used] = '\0';
    return out;
}

static int compile_globs(const tdg__node_t *node, const char *option,
                         char *const *patterns, tdg__problems_t *problems,
                         tdg__globs_t **ret) {
    const tdg__node_t *place = tdg__node_get(node, option);
    tdg__parse_error_t error = {0};
    char quoted[TDG__QUOTED_MAX];
    size_t bad = 0;
    int rv = tdg__globs_create((const char *const *)patterns, ret, &bad, &error);

    if (rv != TDG_EINVAL)
        return rv;
    if (place == NULL)
        place = node;
    if (place->kind == TDG__NODE_LIST) {
        place = place->first;
        for (size_t i = 0; i < bad && place->next != NULL; i++)
            place = place->next;
    }
    /* As it is written: what the environment put in may be a secret. */
    tdg__problems_add(problems, place->line, place->column, "%s: %s is not a glob: %s",
                      option, tdg__quoted(quoted, place->text != NULL ? place->text : ""),
                      error.text);
    return TDG_EINVAL;
}

/* The URI of a folder's entry ends in {+name}, which takes the path. */
static bool takes_paths(const char *uri) {
    const char *open = strchr(uri, '{');
    size_t len;

    if (open == NULL || open[1] != '+')
        return false;
    len = strcspn(open + 2, "},:*");
    return len > 0 && open[2 + len] == '}' && open[3 + len] == '\0';
}

/* Whether the path is a folder. One that does not exist yet is a folder unless the URI
 * says otherwise. One stat(), against the rule of no I/O: whether a resource or a
 * template is listed depends on it. */
static bool is_folder(const tdg__files_t *files, const char *path) {
    const char *uri = files->source.entry.uri;
    struct stat st;

    if (stat(path[0] != '\0' ? path : "/", &st) == 0)
        return S_ISDIR(st.st_mode);
    return uri == NULL || strchr(uri, '{') != NULL;
}

static int set_folder(tdg__files_t *files, char *path, const tdg__node_t *place,
                      tdg__problems_t *problems) {
    tdg__source_entry_t *entry = &files->source.entry;

    files->root = path[0] != '\0' ? path : strcpy(path, "/");
    if (entry->uri == NULL) {
        char *prefix = tdg__files_uri("file://", strcmp(path, "/") == 0 ? "" : path);
        size_t len = prefix != NULL ? strlen(prefix) : 0;

        entry->uri = prefix != NULL ? tdg__malloc(len + sizeof("/{+path}")) : NULL;
        if (entry->uri != NULL) {
            memcpy(entry->uri, prefix, len);
            strcpy(entry->uri + len, "/{+path}");
        }
        tdg__free(prefix);
        if (entry->uri == NULL)
            return TDG_ENOMEM;
    } else if (!takes_paths(entry->uri)) {
        tdg__problems_add(problems, place->line, place->column,
                          "uri: the URIs of a folder need a template that ends in "
                          "{+path}, such as docs://handbook/{+path}");
        return TDG_EINVAL;
    }
    files->prefix = tdg__strndup(entry->uri, strcspn(entry->uri, "{"));
    return files->prefix != NULL ? 0 : TDG_ENOMEM;
}

static int set_file(tdg__files_t *files, char *path, const tdg__node_t *place,
                    tdg__problems_t *problems) {
    tdg__source_entry_t *entry = &files->source.entry;
    size_t slash = (size_t)(strrchr(path, '/') - path);

    files->root = path;
    files->only = tdg__strdup(path + slash + 1);
    if (files->only == NULL)
        return TDG_ENOMEM;
    if (entry->uri == NULL)
        entry->uri = tdg__files_uri("file://", path);
    if (entry->uri == NULL)
        return TDG_ENOMEM;
    path[slash > 0 ? slash : 1] = '\0';
    if (strchr(entry->uri, '{') != NULL) {
        tdg__problems_add(problems, place->line, place->column,
                          "uri: a single file has one URI; a template is for a folder");
        return TDG_EINVAL;
    }
    return 0;
}

static int check(tdg__source_t *source, const tdg__node_t *node,
                 tdg__problems_t *problems) {
    tdg__files_t *files = (tdg__files_t *)source;
    const tdg__node_t *place = tdg__node_get(node, "uri");
    char *path = clean_path(files->path);
    int rv, failed;

    if (path == NULL)
        return TDG_ENOMEM;
    if (place == NULL)
        place = node;
    failed = is_folder(files, path) ? set_folder(files, path, place, problems)
                                    : set_file(files, path, place, problems);
    rv = compile_globs(node, "include", files->include, problems, &files->include_globs);
    failed = failed == 0 ? rv : failed;
    rv = compile_globs(node, "exclude", files->exclude, problems, &files->exclude_globs);
    failed = failed == 0 ? rv : failed;
    files->scope = (tdg__files_scope_t){.root = files->root,
                                        .only = files->only,
                                        .include = files->include_globs,
                                        .exclude = files->exclude_globs,
                                        .hidden = files->hidden};
    return failed;
}

/* ---- URIs --------------------------------------------------------------- */

char *tdg__files_uri_of(const tdg__files_t *files, const char *path) {
    return files->only != NULL ? tdg__strdup(files->source.entry.uri)
                               : tdg__files_uri(files->prefix, path);
}

bool tdg__files_path_from(const tdg__files_t *files, const char *uri, char *out) {
    size_t len = files->prefix != NULL ? strlen(files->prefix) : 0;

    if (files->only != NULL) {
        if (strcmp(uri, files->source.entry.uri) != 0)
            return false;
        memcpy(out, files->only, strlen(files->only) + 1);
        return tdg__files_in_scope(&files->scope, out, false);
    }
    return strncmp(uri, files->prefix, len) == 0 &&
           tdg__files_path(uri + len, strlen(uri + len), out) &&
           tdg__files_in_scope(&files->scope, out, false);
}

/* One spelling per file: others would have to be touched, too. */
static bool owns(tdg__source_t *source, const char *uri) {
    const tdg__files_t *files = (const tdg__files_t *)source;
    char path[TDG__FILES_MAX_PATH];
    char *own;
    bool is_same;

    if (!tdg__files_path_from(files, uri, path))
        return false;
    own = tdg__files_uri_of(files, path);
    is_same = own == NULL || strcmp(own, uri) == 0; /* without memory, it may be */
    tdg__free(own);
    return is_same;
}

void tdg__files_touch(tdg__files_t *files, const char *path, bool is_new) {
    char *uri = tdg__files_uri_of(files, path);

    if (uri == NULL)
        tdg__source_touch_all(&files->source); /* rather too much than nothing */
    else if (is_new)
        tdg__source_came(&files->source, uri);
    else
        tdg__source_touch(&files->source, uri);
    tdg__free(uri);
}

/* ---- Watching ----------------------------------------------------------- */

static int watch(tdg__source_t *source, const tdg_target_t *target) {
    tdg__files_t *files = (tdg__files_t *)source;

    (void)target;
    if (!files->settled)
        return TDG_EAGAIN; /* until the first walk has ended */
    tdg__files_schedule(files);
    return 0;
}

static void unwatch(tdg__source_t *source, const tdg_target_t *target) {
    (void)target;
    tdg__files_schedule((tdg__files_t *)source);
}

void tdg__files_miss(tdg__files_t *files, enum tdg__files_gap gap) {
    if (gap > files->gap)
        files->gap = gap;
}

void tdg__files_armed(tdg__files_t *files) {
    /* What came before its folder was watched. */
    tdg__source_touch_all(&files->source);
    tdg__source_armed(&files->source);
    tdg__source_ready(&files->source);
}

/* ---- Time --------------------------------------------------------------- */

/* Something was left out, and there is room for it now. */
static bool has_room_again(const tdg__files_t *files) {
    return files->gap == TDG__FILES_TOO_MANY &&
           files->tree.files + files->tree.folders < (size_t)files->max_files;
}

static void on_timer(uv_timer_t *timer) {
    tdg__files_t *files = timer->data;

    if (files->piece == TDG__FILES_STUCK) {
        tdg__files_try_again(files);
        return;
    }
    if (files->piece != TDG__FILES_RESTING)
        return; /* its end sets the timer */
    if (files->source.away || tdg__files_polls(files) ||
        files->gap == TDG__FILES_NO_MEMORY || has_room_again(files)) {
        files->gap = TDG__FILES_NO_GAP;
        tdg__files_rescan(files);
        return;
    }
    /* Changes without an event: a link leads elsewhere, perhaps the root itself. */
    tdg__files_look_at_links(files);
    tdg__files_look_at_root(files);
}

void tdg__files_call_again(tdg__files_t *files) {
    uv_timer_start(&files->timer, on_timer, AGAIN_MS, 0);
}

void tdg__files_schedule(tdg__files_t *files) {
    const tdg__source_t *source = &files->source;
    bool is_short = files->gap == TDG__FILES_NO_MEMORY;
    int64_t wait = -1;

    if (source->closing || files->piece != TDG__FILES_RESTING)
        return;
    if (!source->away && !is_short)
        files->tries = 0;
    if (source->away || is_short || has_room_again(files)) {
        wait = tdg__source_wait_ms(source, files->tries);
        if (wait > LONGEST_RETRY)
            wait = LONGEST_RETRY;
        files->tries += is_short;
    } else if (tdg__files_polls(files)) {
        wait = files->poll_ms * (tdg__source_is_watched(source) ? 1 : UNWATCHED_POLLS);
    } else if (tdg__source_is_watched(source)) {
        wait = CARE_MS;
    }
    if (wait < 0)
        uv_timer_stop(&files->timer);
    else
        uv_timer_start(&files->timer, on_timer, (uint64_t)wait, 0);
}

/* ---- Life --------------------------------------------------------------- */

/* By which name the config, which is never served, is known here. Where that cannot be
 * said, because the folder is not there yet, it is known by its inode alone. */
static void set_config(tdg__files_t *files) {
    const char *path = files->source.config_path;
    char *root = path != NULL ? realpath(files->root, NULL) : NULL;
    size_t len = root != NULL ? strlen(root) : 0;

    files->scope.config_path = path;
    files->config_path = root != NULL ? realpath(path, NULL) : NULL;
    if (len == 1)
        len = 0; /* the root of all */
    if (files->config_path != NULL && strncmp(files->config_path, root, len) == 0 &&
        files->config_path[len] == '/')
        files->scope.config_inside = files->config_path + len + 1;
    free(root);
    if (files->only != NULL && !tdg__files_in_scope(&files->scope, files->only, false))
        tdg__source_log(&files->source, TDG_LOG_WARNING,
                        "this is the config itself, which is never served");
}

static int open_(tdg__source_t *source) {
    tdg__files_t *files = (tdg__files_t *)source;
    int rv, other;

    /* The handles first: closing closes them, however far this got. */
    tdg__source_open_timer(source, &files->timer);
    tdg__source_open_timer(source, &files->later_timer);
    uv_idle_init(source->host.loop, &files->idle);
    files->idle.data = files;
    tdg__source_hold(source);
    files->notify_fd = -1;
    tdg__queue_init(&files->readings);
    rv = tdg__files_saves_open(files);
    other = tdg__source_open_records(source, &files->absent, sizeof(tdg__record_t),
                                     tdg__files_absent_due);
    if (rv < 0 || other < 0)
        return rv < 0 ? rv : other;
    set_config(files);

    files->walk = tdg__calloc(1, sizeof(*files->walk));
    if (files->walk == NULL)
        return TDG_ENOMEM;
    rv = tdg__files_tree_init(&files->tree);
    if (rv < 0)
        return rv;
    tdg__files_events_open(files);
    tdg__files_rescan(files);
    return 0;
}

static void close_(tdg__source_t *source) {
    tdg__files_t *files = (tdg__files_t *)source;

    tdg__files_events_close(files);
    tdg__source_close_handle((uv_handle_t *)&files->timer);
    tdg__source_close_handle((uv_handle_t *)&files->later_timer);
    tdg__source_close_handle((uv_handle_t *)&files->absent.timer);
    tdg__source_close_handle((uv_handle_t *)&files->saves.timer);
    tdg__source_close_handle((uv_handle_t *)&files->idle);
}

static void free_(tdg__source_t *source) {
    tdg__files_t *files = (tdg__files_t *)source;

    if (files->walk != NULL) {
        for (size_t i = 0; i < files->walk->n_tasks; i++)
            tdg__free(files->walk->tasks[i].path);
        tdg__files_walk_stop(files->walk);
        tdg__free(files->walk);
    }
    tdg__files_queue_clear(&files->queue);
    tdg__files_queue_clear(&files->later);
    tdg__files_queue_clear(&files->unsure);
    tdg__files_queue_clear(&files->dangling);
    tdg__records_done(&files->saves);
    tdg__records_done(&files->absent);
    tdg__files_tree_done(&files->tree);
    tdg__globs_destroy(files->include_globs);
    tdg__globs_destroy(files->exclude_globs);
    free(files->config_path); /* of realpath() */
    tdg__free(files->root);
    tdg__free(files->only);
    tdg__free(files->prefix);
}

const tdg__source_kind_t tdg__source_files = {
    .name = "files",
    .help = "A file, or all files in a folder. Changes are noticed as they happen.",
    .options = options,
    .flags = TDG__SOURCE_LISTS | TDG__SOURCE_NO_URI,
    .size = sizeof(tdg__files_t),
    .check = check,
    .open = open_,
    .close = close_,
    .watch = watch,
    .unwatch = unwatch,
    .owns = owns,
    .fetch = tdg__files_fetch,
    .complete = tdg__files_complete,
    .cancel = tdg__files_cancel,
    .inherit = tdg__files_inherit,
    .list_again = tdg__files_list_again,
    .free = free_,
};

/* SPDX-License-Identifier: MIT
 *
 * Reads a file, in the thread pool. Memory is allocated by the loop: a read that fills
 * its buffer returns for a larger one. A fetch that is cancelled while its thread hangs
 * (an unreachable network) is answered at once; its thread ends by itself. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "source/common/regular.h"
#include "source/files/files.h"
#include "source/files/files_mime.h"

enum { FIRST_ROOM = 16 * 1024, SPARE = 512 };

#define NS INT64_C(1000000000)

struct tdg__files_reading {
    tdg__queue_t link; /* first; among those that somebody waits for */
    uv_work_t work;
    tdg__files_t *files;
    tdg__fetch_t *fetch; /* NULL: answered already */
    int fd;              /* -1: not open yet */
    int error;           /* errno */
    bool at_end;
    bool disturbed; /* a writer was active: it may be a half */
    bool torn;      /* it looks as if one was, without an event yet */
    struct stat st;
    char *data;
    size_t len, room;
    char path[]; /* relative */
};

/* ---- In the thread pool ------------------------------------------------- */

/* Opens what `path_fd` stands for, if it is one of ours. Returns a descriptor or a
 * negative errno. */
static int open_ours(struct tdg__files_reading *reading, int path_fd) {
    struct stat config;

    tdg__files_find_config(&reading->files->scope, &config);
    if (fstat(path_fd, &reading->st) < 0)
        return -errno;
    if (S_ISLNK(reading->st.st_mode))
        return -ELOOP;
    if (tdg__files_is_config(&config, &reading->st) || !S_ISREG(reading->st.st_mode))
        return -ENOENT; /* a folder, a FIFO, a device, the config */
    if (reading->st.st_size > reading->files->source.entry.max_size)
        return -EFBIG;
    return tdg__regular_open(path_fd, &reading->st);
}

static int open_file(struct tdg__files_reading *reading) {
    int root = open(reading->files->root, O_PATH | O_DIRECTORY | O_CLOEXEC);

    if (root < 0) {
        reading->error = errno;
        return -1;
    }

    int path_fd = tdg__files_open(root, reading->path, O_PATH, TDG__FILES_FOLLOW);

    reading->fd = path_fd < 0 ? path_fd : open_ours(reading, path_fd);
    if (path_fd >= 0)
        close(path_fd);
    close(root);
    if (reading->fd < 0) {
        reading->error = reading->fd; /* its sign differs from that of a missing root */
        reading->fd = -1;
        return -1;
    }
    return 0;
}

static int64_t ns_of(struct timespec t) {
    return (int64_t)t.tv_sec * NS + t.tv_nsec;
}

/* How long a file that is empty may be about to be written to: a save begins like that.
 * At least a second, so that a short `settle` is not over while a large file is
 * truncated. */
static int64_t emptied_ns(const tdg__files_t *files) {
    int64_t settle_ns = files->settle_ms * 1000000;

    return settle_ns > NS ? settle_ns : NS;
}

/* The kernel says that a file is written to when that has been done; for a file that is
 * truncated, which takes long, we may come before. Then it has changed while it was read,
 * or is empty since a moment ago. */
static bool looks_torn(const struct tdg__files_reading *reading) {
    struct timespec now;
    struct stat after;

    if (fstat(reading->fd, &after) < 0 || after.st_size != reading->st.st_size ||
        ns_of(after.st_mtim) != ns_of(reading->st.st_mtim))
        return true;
    clock_gettime(CLOCK_REALTIME, &now);
    return reading->len == 0 &&
           ns_of(now) - ns_of(reading->st.st_ctim) < emptied_ns(reading->files);
}

static void read_some(uv_work_t *work) {
    struct tdg__files_reading *reading = work->data;

    if (reading->fd < 0 && open_file(reading) < 0)
        return;
    while (reading->len < reading->room) {
        ssize_t n =
            read(reading->fd, reading->data + reading->len, reading->room - reading->len);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            reading->error = -errno;
        if (n <= 0) {
            reading->at_end = true;
            reading->torn = looks_torn(reading);
            return;
        }
        reading->len += (size_t)n;
    }
}

/* ---- In the loop -------------------------------------------------------- */

void tdg__files_disturb(tdg__files_t *files, const char *path) {
    for (tdg__queue_t *at = files->readings.next; at != &files->readings; at = at->next) {
        struct tdg__files_reading *reading = (struct tdg__files_reading *)at;

        if (strcmp(reading->path, path) == 0)
            reading->disturbed = true;
    }
}

/* Nobody waits for it any more. */
static tdg__fetch_t *detach(struct tdg__files_reading *reading) {
    tdg__fetch_t *fetch = reading->fetch;

    tdg__queue_remove(&reading->link);
    reading->fetch = NULL;
    fetch->state = NULL;
    return fetch;
}

static void end(struct tdg__files_reading *reading) {
    tdg__files_t *files = reading->files;

    if (reading->fd >= 0)
        close(reading->fd);
    tdg__free(reading->data);
    tdg__free(reading);
    tdg__source_let_go(&files->source);
}

/* Deletions are found by the tree: a file may be created again in a moment. */
static void not_found(struct tdg__files_reading *reading, tdg__fetch_t *fetch,
                      const char *why) {
    tdg__files_t *files = reading->files;
    bool may_return = files->settle_ms > 0 && tdg__files_has(files, reading->path);

    if (may_return)
        tdg__files_look(files, reading->path, 0);
    tdg__fetch_done(fetch, &(tdg__content_t){.status = TDG_ENOTFOUND,
                                             .error = why,
                                             .public = why,
                                             .passing = may_return});
}

static void fail(struct tdg__files_reading *reading, tdg__fetch_t *fetch) {
    static const struct {
        int error, status;
        const char *text;
    } cases[] = {
        {ENOENT, TDG_ENOTFOUND, "no such file"},
        {ENOTDIR, TDG_ENOTFOUND, "no such file"},
        {ENAMETOOLONG, TDG_ENOTFOUND, "no such file"},
        {ELOOP, TDG_ENOTFOUND, "a symbolic link that is not followed"},
        {EXDEV, TDG_ENOTFOUND, "a symbolic link that leaves the folder"},
        {EFBIG, TDG_ETOOLARGE, "the file is larger than max-size"},
        {EACCES, TDG_EINVAL, "permission to read the file is denied"},
        {EPERM, TDG_EINVAL, "permission to read the file is denied"},
        {ENOSYS, TDG_EINVAL, "cannot read files: /proc is not mounted"},
        {ENOMEM, TDG_ENOMEM, "not enough memory to read the file"},
    };
    bool is_root = reading->error > 0;
    int error = is_root ? reading->error : -reading->error;

    if (is_root) {
        tdg__fetch_failed(fetch, TDG_EUNREACHABLE, "the folder cannot be opened: %s",
                          strerror(error));
        return;
    }
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        if (cases[i].error == error) {
            if (cases[i].status == TDG_ENOTFOUND)
                not_found(reading, fetch, cases[i].text);
            else
                tdg__fetch_failed(fetch, cases[i].status, "%s", cases[i].text);
            return;
        }
    tdg__fetch_failed(fetch, TDG_EUNREACHABLE, "the file cannot be read: %s",
                      strerror(error));
}

/* It was changed so shortly ago that more may follow; by a clock that may be another
 * machine's. */
static bool is_young(const struct tdg__files_reading *reading) {
    struct timespec now;
    int64_t age;

    clock_gettime(CLOCK_REALTIME, &now);
    age = ns_of(now) - ns_of(reading->st.st_ctim);
    return age >= 0 && age / 1000000 < reading->files->settle_ms;
}

static void succeed(struct tdg__files_reading *reading, tdg__fetch_t *fetch) {
    bool doubtful =
        reading->torn ||
        (!tdg__files_has_events(reading->files, reading->path) && is_young(reading));
    bool passing = reading->disturbed ||
                   (doubtful && tdg__files_doubt(reading->files, reading->path));
    tdg__content_t content = {
        .data = reading->data,
        .len = reading->len,
        .mime_type = reading->files->source.entry.mime_type != NULL
                         ? reading->files->source.entry.mime_type
                         : tdg__files_mime(reading->path),
        .metadata = json_pack("{s:s}", "path", reading->path),
        .updated_ms = (int64_t)reading->st.st_mtim.tv_sec * 1000 +
                      reading->st.st_mtim.tv_nsec / 1000000,
        .passing = passing,
    };

    if (!passing)
        tdg__files_published(reading->files, reading->path);
    tdg__fetch_done(fetch, &content);
}

static int grow(struct tdg__files_reading *reading) {
    size_t most = (size_t)reading->files->source.entry.max_size + 1;
    size_t room = reading->room * 2 < most ? reading->room * 2 : most;
    char *data = tdg__realloc(reading->data, room);

    if (data == NULL)
        return TDG_ENOMEM;
    reading->data = data;
    reading->room = room;
    return 0;
}

static void after_read(uv_work_t *work, int status);

static void start(struct tdg__files_reading *reading) {
    int rv = uv_queue_work(reading->files->source.host.loop, &reading->work, read_some,
                           after_read);

    if (rv < 0) {
        reading->error = -ENOMEM;
        after_read(&reading->work, 0);
    }
}

static void after_read(uv_work_t *work, int status) {
    struct tdg__files_reading *reading = work->data;

    if (reading->fetch != NULL && status == 0 && reading->error == 0 &&
        !reading->at_end &&
        reading->len <= (size_t)reading->files->source.entry.max_size) {
        if (grow(reading) == 0) {
            start(reading);
            return;
        }
        reading->error = -ENOMEM;
    }
    /* Events of writers meanwhile come first. */
    if (reading->fetch != NULL)
        tdg__files_take_events(reading->files);
    if (reading->fetch != NULL) {
        tdg__fetch_t *fetch = detach(reading);

        if (status != 0)
            tdg__fetch_failed(fetch, TDG_EUNREACHABLE, "cancelled");
        else if (reading->error != 0)
            fail(reading, fetch);
        else
            succeed(reading, fetch); /* more than max-size: the common half says so */
    }
    if (status == 0 && reading->error == 0)
        tdg__files_saw(reading->files, reading->path);
    end(reading);
}

void tdg__files_fetch(tdg__source_t *source, tdg__fetch_t *fetch) {
    tdg__files_t *files = (tdg__files_t *)source;
    char path[TDG__FILES_MAX_PATH];
    struct tdg__files_reading *reading;
    uint32_t known;

    if (!tdg__files_path_from(files, fetch->uri, path)) {
        tdg__fetch_failed(fetch, TDG_ENOTFOUND, "no such file");
        return;
    }
    known = tdg__files_find(&files->tree, path);
    reading = tdg__fetch_begin(fetch, sizeof(*reading) + strlen(path) + 1);
    if (reading == NULL)
        return;

    size_t most = (size_t)source->entry.max_size + 1;

    /* As large as the file was when last seen, and some more, so that its end is met. */
    reading->room = FIRST_ROOM;
    if (known != 0 &&
        (tdg__files_node(&files->tree, known)->flags & TDG__NODE_IS_FOLDER) == 0) {
        uint64_t size = tdg__files_node(&files->tree, known)->u.file.size;

        reading->room = (size < most ? (size_t)size : most) + SPARE;
    }
    if (reading->room > most)
        reading->room = most;
    reading->data = tdg__malloc(reading->room);
    if (reading->data == NULL) {
        tdg__free(reading);
        tdg__fetch_failed(fetch, TDG_ENOMEM, "%s", tdg_strerror(TDG_ENOMEM));
        return;
    }
    memcpy(reading->path, path, strlen(path) + 1);
    reading->files = files;
    reading->fetch = fetch;
    reading->fd = -1;
    reading->work.data = reading;
    reading->disturbed = tdg__files_is_written(files, path);
    tdg__queue_append(&files->readings, &reading->link);
    tdg__source_hold(source);
    start(reading);
}

void tdg__files_cancel(tdg__source_t *source, tdg__fetch_t *fetch) {
    struct tdg__files_reading *reading = fetch->state;

    (void)source;
    if (reading == NULL)
        return;
    (void)uv_cancel((uv_req_t *)&reading->work);
    (void)detach(reading); /* its end is not waited for */
    tdg__fetch_failed(fetch, TDG_EUNREACHABLE, "cancelled");
}

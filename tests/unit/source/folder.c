/* SPDX-License-Identifier: MIT */
#include "unit/source/folder.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <sys/inotify.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <unistd.h>

#include "support.h"

void folder_create(struct folder *folder) {
    const char *base = getenv("TMPDIR");

    snprintf(folder->path, sizeof(folder->path), "%s/tidings-XXXXXX",
             base != NULL && strlen(base) < 100 ? base : "/tmp");
    assert_non_null(mkdtemp(folder->path));
}

static int remove_one(const char *path, const struct stat *st, int type,
                      struct FTW *ftw) {
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

void folder_destroy(struct folder *folder) {
    assert_int_equal(nftw(folder->path, remove_one, 32, FTW_DEPTH | FTW_PHYS), 0);
}

void folder_remove(const struct folder *folder, const char *name) {
    char path[FOLDER_PATH];

    folder_path(folder, name, path);
    assert_int_equal(nftw(path, remove_one, 32, FTW_DEPTH | FTW_PHYS), 0);
}

void folder_path(const struct folder *folder, const char *name, char *out) {
    assert_true(snprintf(out, FOLDER_PATH, "%s/%s", folder->path, name) < FOLDER_PATH);
}

static void put(const struct folder *folder, const char *name, const char *text,
                int flags) {
    char path[FOLDER_PATH];
    int fd;

    folder_path(folder, name, path);
    fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | flags, 0644);
    if (fd < 0)
        fail_msg("%s cannot be written", path);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
}

void folder_write(const struct folder *folder, const char *name, const char *text) {
    put(folder, name, text, O_TRUNC);
}

void folder_append(const struct folder *folder, const char *name, const char *text) {
    put(folder, name, text, O_APPEND);
}

void folder_replace(const struct folder *folder, const char *name, const char *text) {
    char temporary[FOLDER_PATH];

    snprintf(temporary, sizeof(temporary), "%s~", name);
    folder_write(folder, temporary, text);
    folder_rename(folder, temporary, name);
}

void folder_mkdir(const struct folder *folder, const char *name) {
    char path[FOLDER_PATH];

    folder_path(folder, name, path);
    for (char *p = path + strlen(folder->path) + 1; *p != '\0'; p++)
        if (*p == '/') {
            *p = '\0';
            (void)mkdir(path, 0755);
            *p = '/';
        }
    assert_int_equal(mkdir(path, 0755), 0);
}

void folder_link(const struct folder *folder, const char *target, const char *name) {
    char path[FOLDER_PATH];

    folder_path(folder, name, path);
    assert_int_equal(symlink(target, path), 0);
}

void folder_rename(const struct folder *folder, const char *from, const char *to) {
    char a[FOLDER_PATH], b[FOLDER_PATH];

    folder_path(folder, from, a);
    folder_path(folder, to, b);
    assert_int_equal(rename(a, b), 0);
}

int folder_open(const struct folder *folder, const char *name) {
    char path[FOLDER_PATH];
    int fd;

    folder_path(folder, name, path);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    return fd;
}

/* Nobody listens on it: its name stays. Paths of sockets are short, so it goes by way of
 * a descriptor. */
void folder_socket(const struct folder *folder, const char *name) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int root = folder_open(folder, "."), fd = socket(AF_UNIX, SOCK_STREAM, 0);

    snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d/%s", root,
             name);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    close(fd);
    close(root);
}

/* The same as /dev/null. */
bool folder_device(const struct folder *folder, const char *name) {
    char path[FOLDER_PATH];

    folder_path(folder, name, path);
    if (mknod(path, S_IFCHR | 0644, makedev(1, 3)) == 0)
        return true;
    assert_int_equal(errno, EPERM);
    return false;
}

int folder_guard(const struct folder *folder, const char *name) {
    char path[FOLDER_PATH];
    int guard = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);

    folder_path(folder, name, path);
    assert_true(guard >= 0);
    assert_true(inotify_add_watch(guard, path, IN_OPEN) >= 0);
    return guard;
}

int folder_guard_fifo(const struct folder *folder, const char *name) {
    char path[FOLDER_PATH];

    folder_path(folder, name, path);
    assert_int_equal(mkfifo(path, 0644), 0);
    return folder_guard(folder, name);
}

bool folder_was_opened(int guard) {
    char events[1024];
    bool was_opened = read(guard, events, sizeof(events)) > 0;

    close(guard);
    return was_opened;
}

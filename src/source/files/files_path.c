/* SPDX-License-Identifier: MIT */
#include "source/files/files_path.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/text.h"

/* ---- URIs --------------------------------------------------------------- */

/* `pchar` of RFC 3986, and the slash. */
static bool stands_for_itself(unsigned char c) {
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'))
        return true;
    return c != '\0' && strchr("-._~!$&'()*+,;=:@/", c) != NULL;
}

char *tdg__files_uri(const char *prefix, const char *path) {
    static const char digits[] = "0123456789ABCDEF";
    size_t len = strlen(prefix), size = len + 1;
    char *uri, *to;

    for (const char *p = path; *p != '\0'; p++)
        size += stands_for_itself((unsigned char)*p) ? 1 : 3;
    uri = tdg__malloc(size);
    if (uri == NULL)
        return NULL;

    memcpy(uri, prefix, len);
    to = uri + len;
    for (const char *p = path; *p != '\0'; p++) {
        unsigned char c = (unsigned char)*p;

        if (stands_for_itself(c)) {
            *to++ = *p;
        } else {
            *to++ = '%';
            *to++ = digits[c >> 4];
            *to++ = digits[c & 15];
        }
    }
    *to = '\0';
    return uri;
}

/* One character, perhaps encoded; -1 where it is none that a path can have. */
static int decode(const char *encoded, size_t len, size_t *at) {
    char c = encoded[(*at)++];

    if (c == '?' || c == '#' || c == '\0')
        return -1;
    if (c != '%')
        return (unsigned char)c;
    if (len - *at < 2)
        return -1;

    int high = tdg__hex_value(encoded[*at]), low = tdg__hex_value(encoded[*at + 1]);

    *at += 2;
    if (high < 0 || low < 0)
        return -1;
    c = (char)(high << 4 | low);
    return c == '/' || c == '\0' ? -1 : (unsigned char)c;
}

static bool is_name(const char *name, size_t len) {
    return len > 0 && !(len == 1 && name[0] == '.') &&
           !(len == 2 && name[0] == '.' && name[1] == '.') && len <= 255;
}

bool tdg__files_path(const char *encoded, size_t len, char *out) {
    size_t used = 0, name = 0;

    for (size_t at = 0; at < len;) {
        int c = decode(encoded, len, &at);

        if (c < 0 || used + 1 >= TDG__FILES_MAX_PATH)
            return false;
        if (c == '/') {
            if (!is_name(out + name, used - name))
                return false;
            name = used + 1;
        }
        out[used++] = (char)c;
    }
    out[used] = '\0';
    return is_name(out + name, used - name);
}

const char *tdg__files_parent(const char *path, char *out) {
    const char *slash = strrchr(path, '/');
    size_t len = slash != NULL ? (size_t)(slash - path) : 0;

    assert(len < TDG__FILES_MAX_PATH);
    memcpy(out, path, len);
    out[len] = '\0';
    return slash != NULL ? slash + 1 : path;
}

static bool ends_with(const char *name, size_t len, const char *end) {
    size_t end_len = strlen(end);

    return len >= end_len && memcmp(name + len - end_len, end, end_len) == 0;
}

/* What editors leave beside a file, where that does not begin with a dot: backups of
 * Emacs, vim and others (x~, #x#), of other editors, sed and patch (x.bak, x.orig), the
 * file by which vim tries whether it may write (4913), and what JetBrains writes before
 * it renames. A backup may hold what was taken out of a file for good reason, so it is
 * served only with `hidden: true`. */
static bool is_left_by_editor(const char *name, size_t len) {
    return name[len - 1] == '~' || (len > 2 && name[0] == '#' && name[len - 1] == '#') ||
           (len == 4 && memcmp(name, "4913", 4) == 0) || ends_with(name, len, ".bak") ||
           ends_with(name, len, ".orig") || ends_with(name, len, "___jb_tmp___") ||
           ends_with(name, len, "___jb_old___");
}

bool tdg__files_is_hidden(const char *path) {
    while (*path != '\0') {
        size_t len = strcspn(path, "/");

        if (len > 0 && (path[0] == '.' || is_left_by_editor(path, len)))
            return true;
        path += len + (path[len] == '/');
    }
    return false;
}

/* ---- Opening ------------------------------------------------------------ */

static int openat2_beneath(int root, const char *path, int open_flags, uint64_t resolve) {
    struct open_how how = {
        .flags = (uint64_t)(open_flags | O_CLOEXEC),
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS | resolve,
    };

    /* EAGAIN: something was renamed meanwhile and the kernel cannot be sure. */
    for (int tries = 0; tries < 16; tries++) {
        long fd = syscall(SYS_openat2, root, path, &how, sizeof(how));

        if (fd >= 0)
            return (int)fd;
        if (errno != EAGAIN && errno != EINTR)
            break;
    }
    return -errno;
}

/* Name by name, each in its parent, no links. */
static int open_by_names(int root, const char *path, int open_flags) {
    int folder = root, fd;

    for (;;) {
        char name[256];
        size_t len = strcspn(path, "/");
        bool is_last = path[len] == '\0';

        if (len >= sizeof(name))
            fd = -ENAMETOOLONG;
        else {
            memcpy(name, path, len);
            name[len] = '\0';
            fd = openat(folder, name,
                        (is_last ? open_flags : O_PATH | O_DIRECTORY) | O_NOFOLLOW |
                            O_CLOEXEC);
            if (fd < 0)
                fd = -errno;
        }
        if (folder != root)
            close(folder);
        if (fd < 0 || is_last)
            return fd;
        folder = fd;
        path += len + 1;
    }
}

int tdg__files_open(int root, const char *path, int open_flags, unsigned flags) {
    bool may_follow = (flags & TDG__FILES_FOLLOW) != 0;
    int fd = -ENOSYS;

    if (path[0] == '\0')
        path = ".";
    if ((flags & TDG__FILES_NO_OPENAT2) == 0)
        fd = openat2_beneath(root, path, open_flags | O_NOFOLLOW, RESOLVE_NO_SYMLINKS);
    /* EPERM: a sandbox that does not know the call. */
    if (fd == -ENOSYS || fd == -EPERM)
        return open_by_names(root, path, open_flags);
    /* O_PATH opens the link itself. */
    if (fd >= 0 && may_follow && (open_flags & O_PATH) != 0) {
        close(fd);
        fd = -ELOOP;
    }
    if (fd != -ELOOP || !may_follow)
        return fd;

    /* A link: is it the last name? Then the kernel may follow it beneath the root. The
     * folder could become a link right now: what is opened is still beneath the root. */
    if (strchr(path, '/') != NULL) {
        char parent[TDG__FILES_MAX_PATH];

        if (strlen(path) >= sizeof(parent))
            return -ENAMETOOLONG;
        (void)tdg__files_parent(path, parent);
        fd = openat2_beneath(root, parent, O_PATH | O_DIRECTORY, RESOLVE_NO_SYMLINKS);
        if (fd < 0)
            return fd;
        close(fd);
    }
    return openat2_beneath(root, path, open_flags, 0);
}

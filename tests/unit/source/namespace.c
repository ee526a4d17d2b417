/* SPDX-License-Identifier: MIT */
#include "unit/source/namespace.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support.h"

static bool write_to(const char *path, const char *text) {
    int fd = open(path, O_WRONLY);
    bool done = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

    if (fd >= 0)
        close(fd);
    return done;
}

enum { NO_NAMESPACES = 77 };

/* The child: never returns. */
static void run_again(const char *test, int flags, const char *limit, const char *value) {
    char uids[32], gids[32];

    snprintf(uids, sizeof(uids), "0 %u 1", (unsigned)geteuid());
    snprintf(gids, sizeof(gids), "0 %u 1", (unsigned)getegid());
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (unshare(flags | CLONE_NEWUSER) < 0)
        _exit(NO_NAMESPACES);
    if (!write_to("/proc/self/setgroups", "deny") ||
        !write_to("/proc/self/uid_map", uids) || !write_to("/proc/self/gid_map", gids))
        _exit(NO_NAMESPACES);
    if (limit != NULL && !write_to(limit, value))
        _exit(NO_NAMESPACES);
    setenv("TDG_NAMESPACE", "1", 1);
    setenv("TDG_TEST", test, 1);
    execl("/proc/self/exe", "a_test", (char *)NULL);
    _exit(1);
}

void in_namespace(const char *test, int flags, const char *limit, const char *value) {
    int status;
    pid_t child;

    fflush(stdout);
    child = fork();
    assert_true(child >= 0);
    if (child == 0)
        run_again(test, flags, limit, value);
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == NO_NAMESPACES) {
        printf("# skipped: user namespaces are not allowed here\n");
        skip();
    }
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

bool is_in_namespace(void) {
    return getenv("TDG_NAMESPACE") != NULL;
}

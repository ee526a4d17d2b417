/* SPDX-License-Identifier: MIT */
#include "web/web_header.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include <tidings/error.h>

#include "base/alloc.h"

/* ---- Headers ------------------------------------------------------------ */

/* What the exchange and the connection say; and what MCP does. A name that ends in "-"
 * stands for all that begin so. */
static const char *const own_headers[] = {
    "Accept-Encoding", "Connection",        "Content-Length", "Expect", "Host", "TE",
    "Trailer",         "Transfer-Encoding", "Upgrade",        NULL,
};
static const char *const mcp_headers[] = {
    "Accept", "Content-Type",        "HTTP2-Settings",   "Keep-Alive", "Last-Event-ID",
    "Mcp-",   "Proxy-Authorization", "Proxy-Connection", NULL,
};

bool tdg__web_is_token(const char *name, size_t len) {
    static const char others[] = "!#$%&'*+-.^_`|~";

    for (size_t i = 0; i < len; i++) {
        char lower = (char)(name[i] | 0x20);

        if (!(lower >= 'a' && lower <= 'z') && !(name[i] >= '0' && name[i] <= '9') &&
            (name[i] == '\0' || strchr(others, name[i]) == NULL))
            return false;
    }
    return len > 0;
}

static bool is_one_line(const char *value) {
    for (; *value != '\0'; value++)
        if (((unsigned char)*value < 0x20 && *value != '\t') || *value == 0x7f)
            return false;
    return true;
}

bool tdg__web_field_is_fine(const char *name, const char *value) {
    return tdg__web_is_token(name, strlen(name)) && is_one_line(value);
}

static bool is_among(const char *const *names, const char *name, size_t len) {
    for (; *names != NULL; names++) {
        size_t own = strlen(*names);
        bool prefix = (*names)[own - 1] == '-';

        if ((prefix ? len >= own : len == own) && strncasecmp(name, *names, own) == 0)
            return true;
    }
    return false;
}

const char *tdg__web_wrong_header(const char *name, size_t len, const char *value,
                                  const char *const *own) {
    if (!tdg__web_is_token(name, len))
        return "has no name that a header can have";
    if (!is_one_line(value))
        return "has a line break or control character in its value";
    if (value[strspn(value, " \t")] == '\0')
        return "has no value";
    if (is_among(own_headers, name, len) || is_among(own, name, len))
        return "is set by tidings itself";
    return NULL;
}

bool tdg__web_header_is_fine(const char *line, char *why, size_t why_size) {
    size_t len = strcspn(line, ":");
    const char *wrong;

    if (line[len] == '\0' || !tdg__web_is_token(line, len)) {
        snprintf(why, why_size, "it must look like \"Name: value\"");
        return false;
    }
    wrong = tdg__web_wrong_header(line, len, line + len + 1, mcp_headers);
    if (wrong != NULL)
        snprintf(why, why_size, "the header %.*s %s", (int)(len < 100 ? len : 100), line,
                 wrong);
    return wrong == NULL;
}

/* ---- The token ---------------------------------------------------------- */

/* Returns how many bytes were read, or -1 with errno. */
static ssize_t read_file(const char *file, char *bytes, size_t room) {
    /* Not blocking: a pipe that nobody writes to must not stop the loop. */
    int fd = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat info;
    size_t len = 0;
    ssize_t n = 0;

    if (fd < 0)
        return -1;
    if (fstat(fd, &info) == 0 && !S_ISREG(info.st_mode)) {
        close(fd);
        errno = S_ISDIR(info.st_mode) ? EISDIR : EINVAL;
        return -1;
    }
    while (len < room && (n = read(fd, bytes + len, room - len)) != 0) {
        if (n < 0 && errno != EINTR)
            break;
        len += n > 0 ? (size_t)n : 0;
    }

    int error = errno;

    close(fd);
    errno = error;
    return n < 0 ? -1 : (ssize_t)len;
}

static bool is_blank(char c) {
    return c == ' ' || c == '\t' || c == '\r';
}

/* The first line without blanks around it; NULL: it is no token. */
static const char *first_line(const char *bytes, size_t len, size_t *ret_len) {
    const char *end = memchr(bytes, '\n', len);

    if (end == NULL)
        end = bytes + len;
    while (bytes < end && is_blank(*bytes))
        bytes++;
    while (end > bytes && is_blank(end[-1]))
        end--;
    for (const char *c = bytes; c < end; c++)
        if (*c < '!' || *c > '~')
            return NULL;
    *ret_len = (size_t)(end - bytes);
    return end > bytes ? bytes : NULL;
}

int tdg__web_token_read(const char *file, char **ret, char *why, size_t why_size) {
    char *bytes = tdg__malloc(TDG__WEB_MAX_TOKEN + 1);
    const char *token;
    size_t token_len;
    ssize_t len;
    int rv = TDG_EINVAL;

    if (bytes == NULL)
        return TDG_ENOMEM;
    len = read_file(file, bytes, TDG__WEB_MAX_TOKEN + 1);
    if (len < 0) {
        snprintf(why, why_size, "cannot read the token file %s: %s", file,
                 errno == EINVAL ? "it is not a plain file" : strerror(errno));
    } else if (len > TDG__WEB_MAX_TOKEN) {
        snprintf(why, why_size, "the token file %s is larger than %d bytes", file,
                 TDG__WEB_MAX_TOKEN);
    } else if ((token = first_line(bytes, (size_t)len, &token_len)) == NULL) {
        snprintf(why, why_size,
                 "the first line of the token file %s is not a token: visible ASCII "
                 "without blanks",
                 file);
    } else {
        *ret = tdg__strndup(token, token_len);
        rv = *ret != NULL ? 0 : TDG_ENOMEM;
    }
    explicit_bzero(bytes, TDG__WEB_MAX_TOKEN + 1);
    tdg__free(bytes);
    return rv;
}

/* SPDX-License-Identifier: MIT */
#include "unit/client/peer.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "support.h"

enum { MAX_REQUESTS = 4096, MAX_TEXT = 1 << 20, TURN_MS = 20, PATIENCE_S = 60 };

struct request {
    char *path, *text;
};

struct peer {
    pthread_mutex_t lock;
    pthread_cond_t news;
    pthread_t acceptor;
    peer_answer_fn answer;
    SSL_CTX *tls;
    char ca_file[64];
    int fd, port;
    bool stopping;
    size_t open, lets;
    struct request request[MAX_REQUESTS];
    size_t request_count;
};

struct peer_visit {
    peer_t *peer;
    int fd;
    SSL *ssl;
    char *text; /* what has come and is not answered yet */
    size_t len;
};

/* ---- Certificates ------------------------------------------------------- */

static void make_certificate(peer_t *peer) {
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *cert = X509_new();
    X509_EXTENSION *names =
        X509V3_EXT_conf_nid(NULL, NULL, NID_subject_alt_name, "IP:127.0.0.1");
    int fd;
    FILE *file;

    assert_true(key != NULL && cert != NULL && names != NULL);
    X509_set_version(cert, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(cert), 1);
    X509_gmtime_adj(X509_getm_notBefore(cert), -3600);
    X509_gmtime_adj(X509_getm_notAfter(cert), 24 * 3600);
    X509_set_pubkey(cert, key);
    X509_NAME_add_entry_by_txt(X509_get_subject_name(cert), "CN", MBSTRING_ASC,
                               (const unsigned char *)"peer", -1, -1, 0);
    X509_set_issuer_name(cert, X509_get_subject_name(cert));
    X509_add_ext(cert, names, -1);
    assert_true(X509_sign(cert, key, EVP_sha256()) > 0);

    strcpy(peer->ca_file, P_tmpdir "/peer-XXXXXX");
    fd = mkstemp(peer->ca_file);
    file = fd >= 0 ? fdopen(fd, "w") : NULL;
    assert_true(file != NULL && PEM_write_X509(file, cert) == 1);
    fclose(file);
    peer->tls = SSL_CTX_new(TLS_server_method());
    assert_int_equal(SSL_CTX_use_certificate(peer->tls, cert), 1);
    assert_int_equal(SSL_CTX_use_PrivateKey(peer->tls, key), 1);
    X509_EXTENSION_free(names);
    X509_free(cert);
    EVP_PKEY_free(key);
}

/* ---- A connection ------------------------------------------------------- */

static bool is_stopping(peer_t *peer) {
    pthread_mutex_lock(&peer->lock);

    bool stopping = peer->stopping;

    pthread_mutex_unlock(&peer->lock);
    return stopping;
}

/* Waits until the socket is ready. False: the test ends. */
static bool wait_for(peer_t *peer, int fd, short events) {
    struct pollfd poller = {.fd = fd, .events = events};

    while (!is_stopping(peer))
        if (poll(&poller, 1, TURN_MS) > 0)
            return true;
    return false;
}

static ssize_t receive(peer_visit_t *visit, char *bytes, size_t room) {
    if (visit->ssl != NULL && SSL_pending(visit->ssl) > 0)
        return SSL_read(visit->ssl, bytes, (int)room);
    if (!wait_for(visit->peer, visit->fd, POLLIN))
        return -1;
    return visit->ssl != NULL ? SSL_read(visit->ssl, bytes, (int)room)
                              : recv(visit->fd, bytes, room, 0);
}

bool peer_send_bytes(peer_visit_t *visit, const char *bytes, size_t len) {
    while (len > 0) {
        ssize_t n;

        if (!wait_for(visit->peer, visit->fd, POLLOUT))
            return false;
        n = visit->ssl != NULL ? SSL_write(visit->ssl, bytes, (int)len)
                               : send(visit->fd, bytes, len, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n <= 0)
            return false;
        bytes += n;
        len -= (size_t)n;
    }
    return true;
}

bool peer_send(peer_visit_t *visit, const char *text) {
    return peer_send_bytes(visit, text, strlen(text));
}

int peer_of(const peer_visit_t *visit) {
    return visit->peer->port;
}

/* Who has been left does not take what was meant for the next: under the lock it is seen
 * before a let that came after. */
bool peer_wait(peer_visit_t *visit) {
    peer_t *peer = visit->peer;

    for (;;) {
        struct pollfd poller = {.fd = visit->fd, .events = POLLIN};
        bool left, go;

        pthread_mutex_lock(&peer->lock);
        left = peer->stopping || poll(&poller, 1, 0) > 0;
        go = !left && peer->lets > 0;
        peer->lets -= go;
        pthread_mutex_unlock(&peer->lock);
        if (left || go)
            return go;
        poll(&poller, 1, 5);
    }
}

static void write_down(peer_t *peer, const char *path, const char *text) {
    pthread_mutex_lock(&peer->lock);
    if (peer->request_count < MAX_REQUESTS)
        peer->request[peer->request_count++] =
            (struct request){strdup(path), strdup(text)};
    pthread_cond_broadcast(&peer->news);
    pthread_mutex_unlock(&peer->lock);
}

/* Reads until head and body are there. Returns how long they are; 0: the end. */
static size_t read_request(peer_visit_t *visit, size_t *ret_head) {
    for (;;) {
        const char *end = strstr(visit->text, "\r\n\r\n");

        if (end != NULL) {
            const char *length = strcasestr(visit->text, "\r\nContent-Length:");
            size_t body = length != NULL && length < end
                              ? strtoul(length + strlen("\r\nContent-Length:"), NULL, 10)
                              : 0;

            *ret_head = (size_t)(end - visit->text) + 4;
            if (visit->len >= *ret_head + body)
                return *ret_head + body;
        }

        ssize_t n = visit->len + 1 < MAX_TEXT ? receive(visit, visit->text + visit->len,
                                                        MAX_TEXT - visit->len - 1)
                                              : 0;

        if (n <= 0)
            return 0;
        visit->len += (size_t)n;
        visit->text[visit->len] = '\0';
    }
}

static bool answer_one(peer_visit_t *visit) {
    size_t head_len, len = read_request(visit, &head_len);
    char path[1024], *head, *body, *text;
    bool stays;

    if (len == 0 || sscanf(visit->text, "%*s %1023s", path) != 1)
        return false;
    text = strndup(visit->text, len);
    head = strndup(visit->text, head_len);
    body = strndup(visit->text + head_len, len - head_len);
    visit->len -= len;
    memmove(visit->text, visit->text + len, visit->len + 1);
    write_down(visit->peer, path, text);
    stays = visit->peer->answer(visit, path, head, body);
    free(text);
    free(head);
    free(body);
    return stays;
}

static void *serve(void *arg) {
    peer_visit_t *visit = arg;
    peer_t *peer = visit->peer;
    sigset_t pipe;
    bool ok = true;

    sigemptyset(&pipe); /* OpenSSL writes to connections that may have been closed */
    sigaddset(&pipe, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe, NULL);
    visit->text = calloc(1, MAX_TEXT);
    if (peer->tls != NULL) {
        visit->ssl = SSL_new(peer->tls);
        SSL_set_fd(visit->ssl, visit->fd);
        ok = SSL_accept(visit->ssl) == 1;
    }
    while (ok && answer_one(visit))
        ;
    if (visit->ssl != NULL && ok)
        SSL_shutdown(visit->ssl);
    SSL_free(visit->ssl);
    close(visit->fd);
    free(visit->text);
    free(visit);
    pthread_mutex_lock(&peer->lock);
    peer->open--;
    pthread_cond_broadcast(&peer->news);
    pthread_mutex_unlock(&peer->lock);
    return NULL;
}

static void *accept_all(void *arg) {
    peer_t *peer = arg;
    int on = 1;

    while (wait_for(peer, peer->fd, POLLIN)) {
        int fd = accept(peer->fd, NULL, NULL);
        peer_visit_t *visit = fd >= 0 ? calloc(1, sizeof(*visit)) : NULL;
        pthread_t thread;

        if (visit == NULL)
            continue;
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
        *visit = (peer_visit_t){.peer = peer, .fd = fd};
        pthread_mutex_lock(&peer->lock);
        peer->open++;
        pthread_mutex_unlock(&peer->lock);
        if (pthread_create(&thread, NULL, serve, visit) != 0)
            abort();
        pthread_detach(thread);
    }
    return NULL;
}

/* ---- Life --------------------------------------------------------------- */

peer_t *peer_start(peer_answer_fn answer, bool tls) {
    peer_t *peer = calloc(1, sizeof(*peer));
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t len = sizeof(address);

    assert_non_null(peer);
    pthread_mutex_init(&peer->lock, NULL);
    pthread_cond_init(&peer->news, NULL);
    peer->answer = answer;
    if (tls)
        make_certificate(peer);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    peer->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(peer->fd, (struct sockaddr *)&address, len), 0);
    assert_int_equal(listen(peer->fd, 128), 0);
    assert_int_equal(getsockname(peer->fd, (struct sockaddr *)&address, &len), 0);
    peer->port = ntohs(address.sin_port);
    assert_int_equal(pthread_create(&peer->acceptor, NULL, accept_all, peer), 0);
    return peer;
}

static struct timespec patience(void) {
    struct timespec until;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += PATIENCE_S;
    return until;
}

bool peer_alone(peer_t *peer) {
    struct timespec until = patience();
    int rv = 0;

    pthread_mutex_lock(&peer->lock);
    while (peer->open > 0 && rv == 0)
        rv = pthread_cond_timedwait(&peer->news, &peer->lock, &until);
    pthread_mutex_unlock(&peer->lock);
    return rv == 0;
}

void peer_stop(peer_t *peer) {
    pthread_mutex_lock(&peer->lock);
    peer->stopping = true;
    pthread_mutex_unlock(&peer->lock);
    shutdown(peer->fd, SHUT_RD); /* wakes it */
    pthread_join(peer->acceptor, NULL);
    assert_true(peer_alone(peer));
    close(peer->fd);
    for (size_t i = 0; i < peer->request_count; i++) {
        free(peer->request[i].path);
        free(peer->request[i].text);
    }
    if (peer->tls != NULL)
        unlink(peer->ca_file);
    SSL_CTX_free(peer->tls);
    pthread_mutex_destroy(&peer->lock);
    pthread_cond_destroy(&peer->news);
    free(peer);
}

int peer_port(const peer_t *peer) {
    return peer->port;
}

const char *peer_ca_file(const peer_t *peer) {
    return peer->ca_file;
}

void peer_let(peer_t *peer, size_t count) {
    pthread_mutex_lock(&peer->lock);
    peer->lets += count;
    pthread_mutex_unlock(&peer->lock);
}

/* ---- What was asked ----------------------------------------------------- */

static const char *nth(const peer_t *peer, const char *path, size_t n) {
    for (size_t i = 0; i < peer->request_count; i++)
        if ((path == NULL || strcmp(peer->request[i].path, path) == 0) && n-- == 0)
            return peer->request[i].text;
    return NULL;
}

size_t peer_count(peer_t *peer, const char *path) {
    size_t count = 0;

    pthread_mutex_lock(&peer->lock);
    while (nth(peer, path, count) != NULL)
        count++;
    pthread_mutex_unlock(&peer->lock);
    return count;
}

char *peer_request(peer_t *peer, const char *path, size_t n) {
    struct timespec until = patience();
    const char *text;
    char *copy;
    int rv = 0;

    pthread_mutex_lock(&peer->lock);
    while ((text = nth(peer, path, n)) == NULL && rv == 0)
        rv = pthread_cond_timedwait(&peer->news, &peer->lock, &until);
    copy = text != NULL ? strdup(text) : NULL;
    pthread_mutex_unlock(&peer->lock);
    assert_non_null(copy);
    return copy;
}

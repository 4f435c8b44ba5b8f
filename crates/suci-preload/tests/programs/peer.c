/* A client and a server in C: peer call HOST PORT, peer exit HOST PORT, or peer serve HOST. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

static struct sockaddr_in address_of(const char *host, int port)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(port) };
    CHECK(inet_pton(AF_INET, host, &address.sin_addr) == 1);
    return address;
}

static int option(int fd, int level, int name)
{
    int value = -1;
    socklen_t length = sizeof value;
    CHECK(getsockopt(fd, level, name, &value, &length) == 0);
    return value;
}

/* Options are those of TCP. */
static void check_options(int fd)
{
    int on = 1;
    CHECK(option(fd, SOL_SOCKET, SO_TYPE) == SOCK_STREAM);
    CHECK(option(fd, SOL_SOCKET, SO_DOMAIN) == AF_INET);
    CHECK(option(fd, SOL_SOCKET, SO_PROTOCOL) == IPPROTO_TCP);
    CHECK(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0);
    CHECK(option(fd, IPPROTO_TCP, TCP_NODELAY) != 0);
    CHECK(setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on) == 0);
}

/* An address is cut to the room that the program has. */
static void check_short_room(int fd, const struct sockaddr_in *peer)
{
    struct sockaddr_in name;
    socklen_t length = 4;
    memset(&name, 0xff, sizeof name);
    CHECK(getpeername(fd, (struct sockaddr *)&name, &length) == 0);
    CHECK(length == sizeof name);
    CHECK(name.sin_port == peer->sin_port && name.sin_addr.s_addr == 0xffffffff);
}

static void send_and_read_back(int to, int from)
{
    char left[6], right[6], byte;
    struct iovec out[] = { { "gather", 6 }, { "second", 6 } };
    struct iovec in[] = { { left, 6 }, { right, 6 } };
    struct msghdr message = { .msg_iov = out, .msg_iovlen = 2 };
    struct pollfd polled = { .fd = from, .events = POLLIN };
    int there = 0;
    CHECK(writev(to, out, 2) == 12);
    while (there < 12) {
        CHECK(poll(&polled, 1, 30000) == 1);
        CHECK(ioctl(from, FIONREAD, &there) == 0);
    }
    CHECK(recv(from, &byte, 1, MSG_PEEK) == 1 && byte == 'g');
    CHECK(readv(from, in, 2) == 12);
    CHECK(memcmp(left, "gather", 6) == 0 && memcmp(right, "second", 6) == 0);
    CHECK(sendmsg(to, &message, MSG_NOSIGNAL) == 12);
    message.msg_iov = in;
    CHECK(recvmsg(from, &message, MSG_WAITALL) == 12);
    CHECK(memcmp(right, "second", 6) == 0);
}

/* Lengths of no memory are refused as the kernel does, and nothing is sent. */
static void check_lengths(int fd)
{
    volatile size_t most = SIZE_MAX;
    char byte = 'x';
    struct iovec parts[] = { { &byte, most }, { &byte, most } };
    CHECK(write(fd, &byte, most) == -1 && (errno == EFAULT || errno == EINVAL));
    CHECK(read(fd, &byte, most) == -1 && (errno == EFAULT || errno == EINVAL));
    CHECK(writev(fd, parts, 2) == -1 && errno == EINVAL);
    CHECK(readv(fd, parts, 2) == -1 && errno == EINVAL);
}

static void call(const char *host, int port)
{
    struct sockaddr_in peer = address_of(host, port);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    int copy = dup(fd), flags;
    char byte;
    CHECK(connect(fd, (struct sockaddr *)&peer, sizeof peer) == 0);
    CHECK(connect(fd, (struct sockaddr *)&peer, sizeof peer) == -1 && errno == EISCONN);
    check_options(fd);
    check_short_room(fd, &peer);
    check_lengths(fd);
    send_and_read_back(fd, fd);
    /* Copies that were made before, and numbers that change. */
    send_and_read_back(copy, fd);
    CHECK(dup2(copy, 100) == 100 && close(fd) == 0 && close(copy) == 0);
    send_and_read_back(100, 100);
    flags = fcntl(100, F_GETFL);
    CHECK(!(flags & O_NONBLOCK) && fcntl(100, F_SETFL, flags | O_NONBLOCK) == 0);
    CHECK(read(100, &byte, 1) == -1 && errno == EAGAIN);
    CHECK(fcntl(100, F_SETFL, flags) == 0);
    /* A time limit of reading. */
    struct timeval limit = { .tv_usec = 50000 };
    CHECK(setsockopt(100, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) == 0);
    CHECK(recv(100, &byte, 1, 0) == -1 && errno == EAGAIN);
    CHECK(shutdown(100, SHUT_WR) == 0);
    limit.tv_usec = 0;
    CHECK(setsockopt(100, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) == 0);
    CHECK(read(100, &byte, 1) == 0);
    close(100);
    CHECK(shutdown(100, SHUT_RDWR) == -1 && errno == EBADF);
}

/* A socket of IPv6 with the server's address of IPv4. */
static void call_mapped(const char *host, int port)
{
    struct sockaddr_in6 peer = { .sin6_family = AF_INET6, .sin6_port = htons(port) }, name;
    socklen_t length = sizeof name;
    char mapped[64];
    int fd = socket(AF_INET6, SOCK_STREAM, 0);
    snprintf(mapped, sizeof mapped, "::ffff:%s", host);
    CHECK(inet_pton(AF_INET6, mapped, &peer.sin6_addr) == 1);
    CHECK(connect(fd, (struct sockaddr *)&peer, sizeof peer) == 0);
    CHECK(getpeername(fd, (struct sockaddr *)&name, &length) == 0);
    CHECK(name.sin6_port == peer.sin6_port);
    CHECK(memcmp(&name.sin6_addr, &peer.sin6_addr, 16) == 0);
    send_and_read_back(fd, fd);
    close(fd);
}

static struct sockaddr_in server;

/* A short connection, and a fork. */
static void call_and_fork(void)
{
    int fd = socket(AF_INET, SOCK_STREAM, 0), status;
    pid_t child;
    CHECK(connect(fd, (struct sockaddr *)&server, sizeof server) == 0);
    send_and_read_back(fd, fd);
    close(fd);
    child = fork();
    CHECK(child >= 0);
    if (child == 0)
        _exit(7);
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 7);
}

/* Runs after the destructors of the thread's variables. */
static void call_at_exit(void)
{
    call_and_fork();
    printf("at exit\n");
}

static void serve(const char *host)
{
    struct sockaddr_in own = address_of(host, 0);
    socklen_t length = sizeof own;
    int listener = socket(AF_INET, SOCK_STREAM, 0), clients;
    char bytes[4096];
    CHECK(bind(listener, (struct sockaddr *)&own, sizeof own) == 0);
    CHECK(listen(listener, 5) == 0);
    CHECK(getsockname(listener, (struct sockaddr *)&own, &length) == 0);
    printf("port %d\n", ntohs(own.sin_port));
    fflush(stdout);
    for (clients = 0; clients < 2; clients++) {
        struct pollfd polled = { .fd = listener, .events = POLLIN };
        CHECK(poll(&polled, 1, 60000) == 1);
        int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        CHECK(fd >= 0 && (fcntl(fd, F_GETFL) & O_NONBLOCK) && fcntl(fd, F_GETFD) == FD_CLOEXEC);
        for (;;) {
            ssize_t length = read(fd, bytes, sizeof bytes);
            if (length == 0)
                break;
            if (length == -1) {
                CHECK(errno == EAGAIN);
                polled.fd = fd;
                CHECK(poll(&polled, 1, 60000) == 1);
                continue;
            }
            CHECK(write(fd, bytes, length) == length);
        }
        close(fd);
    }
}

int main(int argc, char **argv)
{
    CHECK(argc >= 3);
    if (strcmp(argv[1], "serve") == 0) {
        serve(argv[2]);
    } else if (strcmp(argv[1], "exit") == 0) {
        CHECK(argc == 4 && atexit(call_at_exit) == 0);
        server = address_of(argv[2], atoi(argv[3]));
        call_and_fork();
    } else {
        CHECK(argc == 4);
        call(argv[2], atoi(argv[3]));
        call_mapped(argv[2], atoi(argv[3]));
    }
    return 0;
}
